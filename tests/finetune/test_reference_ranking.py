"""reference_ranking: every value is that of a fine-tuning by hand, whatever the others are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from joblib import parallel_config
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn
from torch.utils.data import TensorDataset

from sktransfer.backbones import TinyZooBackbone, TorchBackbone, TorchvisionBackbone
from sktransfer.datasets import load_digits_target, load_tiny_zoo
from sktransfer.evaluation import rank_correlation
from sktransfer.exceptions import (
    CandidateFailedWarning,
    NotConvergedWarning,
    NoValidationPartWarning,
)
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor, reference_ranking
from sktransfer.finetune._net import derived_seed
from sktransfer.utils._progress import rows_reported_to

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 6)).astype(np.float32)
Y = np.array(["b", "c", "a"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
TRAIN, TEST = slice(0, 40), slice(40, 70)
DATA = X[TRAIN], Y[TRAIN], X[TEST], Y[TEST]
SETTINGS = {"max_epochs": 6, "lr": 0.03}
SHORT = FineTuneClassifier(None, **SETTINGS)


def network(seed, width=8, n_source=4):
    """Weights of a few sizes, as if it had been trained."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, n_source)
        )


def candidates(*seeds, **options):
    return [(f"net {seed}", TorchBackbone(network(seed, **options))) for seed in seeds]


class Wide(nn.Module):
    """Weights that its own function draws, and a count of its source classes."""

    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.first = nn.Linear(6, 8)
        nn.init.orthogonal_(self.first.weight)
        self.last = nn.Linear(8, num_classes)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def ranked(found, *, data=DATA, estimator=SHORT, n_seeds=2, energy=False, **options):
    return reference_ranking(
        found, *data, estimator=estimator, n_seeds=n_seeds, energy=energy, **options
    )


def values(ranking):
    return {(r.candidate, r.measure, r.seed): r.value for r in ranking.rows}


# -- values --------------------------------------------------------------------------------------


def test_values_are_those_of_a_fit_by_hand():
    found = candidates(0, 1)
    measures = ["accuracy", "roc_auc_ovr", "neg_log_loss"]
    ranking = ranked(found, scoring=measures, random_state=5)
    assert ranking.candidates == ("net 0", "net 1")
    assert ranking.measures == tuple(measures)
    for name, backbone in found:
        for seed in range(2):
            fitted = FineTuneClassifier(
                backbone, **SETTINGS, random_state=derived_seed(5, seed)
            ).fit(*DATA[:2])
            proba = fitted.predict_proba(DATA[2])
            expected = {
                "accuracy": accuracy_score(DATA[3], fitted.predict(DATA[2])),
                "roc_auc_ovr": roc_auc_score(DATA[3], proba, multi_class="ovr"),
                "neg_log_loss": -log_loss(DATA[3], proba, labels=fitted.classes_),
            }
            for measure in measures:
                got = values(ranking)[name, measure, seed]
                assert got == pytest.approx(expected[measure], abs=1e-12)
    assert ranking.protocol["seeds"] == [derived_seed(5, seed) for seed in range(2)]
    assert ranking.protocol["data"]["n_samples"] == 40
    assert ranking.protocol["data"]["n_test"] == 30
    assert ranking.protocol["versions"]["torch"] == torch.__version__
    row = ranking.rows[0]
    assert row.n_epochs == 6 and row.seconds > 0 and row.energy is None


def test_from_scratch_on_vectors_is_a_fit_from_scratch():
    ranking = ranked(candidates(0), random_state=1)
    (twin,) = set(ranking.twins.values())
    for seed in range(2):
        fitted = FineTuneClassifier(
            TorchBackbone(network(9)),  # other weights, which are thrown away
            from_scratch=True,
            **SETTINGS,
            random_state=derived_seed(1, seed),
        ).fit(*DATA[:2])
        expected = fitted.score(*DATA[2:])
        assert values(ranking)[twin, "accuracy", seed] == pytest.approx(expected, abs=1e-12)


def test_from_scratch_normalises_images_by_the_training_images():
    digits = load_digits_target()
    images, labels = digits.images_train[:40], digits.y_train[:40]
    test = digits.images_test[:40], digits.y_test[:40]
    cnn = nn.Sequential(nn.Conv2d(1, 4, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    cnn.append(nn.Linear(16, 5))
    found = [
        ("dark", TorchBackbone(cnn, mean=0.9, std=0.1)),
        ("light", TorchBackbone(cnn, mean=0.1, std=0.5)),
    ]
    ranking = ranked(found, data=(images, labels, *test), n_seeds=1)
    assert len(set(ranking.twins.values())) == 1
    pixels = images / 255.0
    expected = FineTuneClassifier(
        TorchBackbone(cnn, mean=pixels.mean(), std=pixels.std()),
        from_scratch=True,
        **SETTINGS,
        random_state=derived_seed(0, 0),
    ).fit(images, labels)
    got = ranked([found[1]], data=(images, labels, *test), n_seeds=1, scoring="neg_log_loss")
    expected = -log_loss(test[1], expected.predict_proba(test[0]), labels=range(10))
    assert got.rows[1].from_scratch
    assert got.rows[1].value == pytest.approx(expected, rel=1e-4)


def test_neither_order_nor_company_nor_processes_change_a_value():
    found = candidates(0, 1) + [("wide", TorchBackbone(network(2, width=5)))]
    together = values(ranked(found, n_jobs=2))
    assert together == values(ranked(found[::-1]))
    with parallel_config("threading"):
        assert together == values(ranked(found, n_jobs=2))
    for pair in found:
        alone = values(ranked([pair], n_seeds=1))
        assert alone.items() <= together.items()
    more = values(ranked(dict(found), n_seeds=3))
    assert together.items() <= more.items()


class Counting(nn.Module):
    """Notes how many threads torch has when it is run."""

    seen = []

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        self.seen.append(torch.get_num_threads())
        return self.last(torch.relu(self.first(x)))


def test_the_callers_threads_and_generators_are_left_alone():
    before, state = torch.get_num_threads(), torch.get_rng_state()
    told = []
    torch.set_num_threads(2)
    try:
        with rows_reported_to(lambda *numbers: told.append((torch.get_num_threads(), *numbers))):
            Counting.seen.clear()
            ranked({"counting": TorchBackbone(Counting)})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert told == [(2, done, 4) for done in range(1, 5)]
    n_looks = Counting.seen.index(1)  # before anything is trained
    assert set(Counting.seen[:n_looks]) == {2}
    assert len(Counting.seen) > n_looks + 4 * 6
    assert torch.equal(torch.get_rng_state(), state)


# -- from scratch --------------------------------------------------------------------------------


def test_one_row_from_scratch_for_each_architecture():
    found = [
        *candidates(0, 1),
        ("other head", TorchBackbone(network(3, n_source=9))),
        ("narrow", TorchBackbone(network(4, width=5))),
        ("first layer", TorchBackbone(network(5), layer="0")),
        ("wide", TorchBackbone(Wide(4))),
        ("wide, more classes", TorchBackbone(Wide(6))),
    ]
    ranking = ranked(found, n_seeds=1)
    twins = ranking.twins
    assert list(twins) == [name for name, _ in found]
    assert twins["net 0"] == twins["net 1"] == twins["other head"]
    assert twins["wide"] == twins["wide, more classes"]
    assert len(set(twins.values())) == 4
    scratch = {row.candidate for row in ranking.rows if row.from_scratch}
    assert scratch == set(twins.values())
    assert all(name.startswith("from scratch: ") for name in scratch)
    assert twins["wide"].startswith("from scratch: Wide-")
    assert not scratch & set(ranking.reference())
    assert not any(row.from_scratch for row in ranked(found[:1], from_scratch=False).rows)


def test_the_zoo_has_an_architecture_for_each_width():
    # Sources, heads and normalisation differ; three widths are built.
    digits = load_digits_target()
    data = digits.images_train[:20], digits.y_train[:20], digits.images_test[:9], range(9)
    names = ["letters_half", "mnist_half", "untrained_half"]
    estimator = FineTuneClassifier(None, max_epochs=1)
    ranking = ranked(load_tiny_zoo(names=names), data=data, estimator=estimator, n_seeds=1)
    assert len(set(ranking.twins.values())) == 1
    subjects = {subject["name"]: subject for subject in ranking.protocol["subjects"]}
    weights = [subjects[name]["weights"] for name in names]
    assert len(set(weights)) == 3
    assert weights[0] == TinyZooBackbone("letters_half").fit(data[0]).weights_hash_
    assert subjects["untrained_half"]["pretrained"] is False


def test_the_whole_network_is_trained_from_scratch_if_candidates_train_the_head():
    found, options = candidates(0), {**SETTINGS, "train": "head"}
    ranking = ranked(found, estimator=FineTuneClassifier(None, **options), n_seeds=1)
    assert ranking.protocol["parameters"]["train"] == "head"
    assert ranking.protocol["from_scratch_parameters"]["train"] == "full"
    full = ranked(found, n_seeds=1)
    twin = ranking.twins["net 0"]
    assert values(ranking)[twin, "accuracy", 0] == values(full)[twin, "accuracy", 0]
    by_hand = FineTuneClassifier(found[0][1], **options, random_state=derived_seed(0, 0))
    expected = by_hand.fit(*DATA[:2]).score(*DATA[2:])
    assert values(ranking)["net 0", "accuracy", 0] == pytest.approx(expected)


def test_a_network_that_cannot_be_drawn_anew_costs_only_its_row_from_scratch(monkeypatch):
    class Locked(nn.Linear):
        def reset_parameters(self):
            if hasattr(self, "made"):
                raise RuntimeError("these weights stay")
            super().reset_parameters()
            self.made = True

    found = [("locked", TorchBackbone(nn.Sequential(Locked(6, 8), nn.ReLU(), nn.Linear(8, 3))))]
    with pytest.warns(CandidateFailedWarning, match="from scratch: Sequential of locked.*stay"):
        ranking = ranked(found, n_seeds=1)
    assert np.isfinite(ranking.reference()["locked"])
    row = ranking.ranking()["locked"]
    assert np.isnan(row.gain) and row.gain_beyond_spread is None
    with pytest.raises(RuntimeError, match="stay"):
        ranked(found, n_seeds=1, error_score="raise")


def test_spoilt_weights_transfer_negatively():
    spoilt = network(0)
    with torch.no_grad():
        spoilt[1].bias.fill_(-1e3)  # all that comes after is zero, and so are all gradients
    found = [("spoilt", TorchBackbone(spoilt)), *candidates(1)]
    ranking = ranked(found, n_seeds=4)
    table = ranking.negative_transfer("accuracy")
    assert [row.candidate for row in table][0] == "spoilt"
    difference = table["spoilt"].difference
    twin = ranking.twins["spoilt"]
    means = {
        name: np.mean(
            [v for (n, m, _), v in values(ranking).items() if (n, m) == (name, "accuracy")]
        )
        for name in ("spoilt", twin)
    }
    assert difference == pytest.approx(means["spoilt"] - means[twin]) and difference < 0


# -- targets and inputs --------------------------------------------------------------------------


def test_real_values_take_a_regressor():
    y = X[:, 0] - X[:, 1] ** 2
    data = X[TRAIN], y[TRAIN], X[TEST], y[TEST]
    found = candidates(0)
    ranking = ranked(found, data=data, estimator=None, n_seeds=1)
    assert ranking.measures == ("r2", "neg_mean_squared_error")
    assert ranking.protocol["estimator"] == "FineTuneRegressor"
    fitted = FineTuneRegressor(found[0][1], random_state=derived_seed(0, 0)).fit(*data[:2])
    expected = r2_score(data[3], fitted.predict(data[2]))
    assert values(ranking)["net 0", "r2", 0] == pytest.approx(expected)
    two = (X[TRAIN], X[TRAIN, :2], X[TEST], X[TEST, :2])
    short = FineTuneRegressor(None, max_epochs=1)
    ranking = ranked(found, data=two, estimator=short, scoring="r2", n_seeds=1)
    assert np.isfinite(ranking.reference()["net 0"])
    with pytest.raises(
        ValueError,
        match="'accuracy' in 'scoring'.*got the regressor FineTuneReg",
    ):
        ranked(found, data=data, estimator=None, scoring="accuracy")


@pytest.mark.parametrize("labels", [(0, 1), (False, True), ("no", "yes"), (7, 3)])
def test_two_classes(labels):
    y = np.array(labels)[(X[:, 0] > 0).astype(int)]
    ranking = ranked(candidates(0), data=(X[TRAIN], y[TRAIN], X[TEST], list(y[TEST])), n_seeds=1)
    assert ranking.reference("roc_auc_ovr")["net 0"] > 0.5
    assert ranking.reference("accuracy", seed=0)["net 0"] > 0.5


def test_classes_that_only_the_test_data_have():
    y_test = Y[TEST].astype(object)
    y_test[:3] = "unseen"
    data = X[TRAIN], Y[TRAIN], X[TEST], y_test
    scoring = ["accuracy", "roc_auc_ovr", "neg_log_loss"]
    ranking = ranked(candidates(0), data=data, scoring=scoring, n_seeds=1)
    known = ranked(candidates(0), n_seeds=1)
    kept = y_test != "unseen"
    by_hand = FineTuneClassifier(
        candidates(0)[0][1], **SETTINGS, random_state=derived_seed(0, 0)
    ).fit(*DATA[:2])
    share = accuracy_score(Y[TEST][kept], by_hand.predict(X[TEST][kept])) * kept.mean()
    assert ranking.reference()["net 0"] == pytest.approx(share)
    assert ranking.reference("neg_log_loss")["net 0"] < -1
    assert known.reference()["net 0"] >= ranking.reference()["net 0"]


def test_torch_data_sets_bring_their_labels():
    labels = np.unique(Y, return_inverse=True)[1]
    images = RNG.uniform(size=(70, 1, 6, 6)).astype(np.float32)
    cnn = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 2))
    found = {"cnn": TorchBackbone(cnn, mean=0.5, std=0.3)}
    sets = [
        TensorDataset(torch.from_numpy(images[rows]), torch.from_numpy(labels[rows]))
        for rows in (TRAIN, TEST)
    ]
    got = ranked(found, data=(sets[0], None, sets[1]), n_seeds=1)
    arrays = images[TRAIN], labels[TRAIN], images[TEST], labels[TEST]
    assert values(got) == values(ranked(found, data=arrays, n_seeds=1))


def test_paths_of_images(tmp_path):
    paths = []
    for row in range(12):
        image = Image.fromarray(np.full((9, 9), 20 * row, dtype=np.uint8))
        image.save(tmp_path / f"{row}.png")
        paths.append(tmp_path / f"{row}.png")
    y = ["dark"] * 6 + ["light"] * 6
    data = paths[::2], y[::2], paths[1::2], y[1::2]
    estimator = FineTuneClassifier(None, max_epochs=1)
    found = load_tiny_zoo(names=["letters_half"])
    ranking = ranked(found, data=data, estimator=estimator, n_seeds=1)
    assert 0 <= ranking.reference()["letters_half"] <= 1


def test_validation_data_are_passed_on():
    late = TEST.start - 10
    train, held = slice(0, late), slice(late, TEST.start)
    estimator = FineTuneClassifier(None, max_epochs=6, lr=0.05, patience=1)
    data = X[train], Y[train], X[TEST], Y[TEST]
    val = {"X_val": X[held], "y_val": Y[held]}
    found = candidates(0)
    ranking = ranked(found, data=data, estimator=estimator, n_seeds=1, **val)
    fitted = FineTuneClassifier(
        found[0][1], max_epochs=6, lr=0.05, patience=1, random_state=derived_seed(0, 0)
    ).fit(*data[:2], **val)
    assert values(ranking)["net 0", "accuracy", 0] == pytest.approx(fitted.score(*data[2:]))
    assert ranking.rows[0].n_epochs == fitted.n_epochs_
    with pytest.raises(ValueError, match="'y_val' is given and 'X_val' is not"):
        ranked(found, y_val=Y[held])
    with pytest.raises(ValueError, match="'y_val' is needed"):
        ranked(found, X_val=X[held])
    with pytest.raises(ValueError, match=r"none of the classes.*'z'"):
        ranked(found, X_val=X[held], y_val=["z"] * 10)


def test_any_transformer_with_a_head():
    found = [
        ("pca", PCA(2)),
        ("pipeline", make_pipeline(PCA(3), FunctionTransformer(np.tanh))),
        *candidates(0),
    ]
    estimator = FineTuneClassifier(None, train="head", max_epochs=4)
    ranking = ranked(found, estimator=estimator, n_seeds=1)
    assert list(ranking.twins) == ["net 0"]
    fitted = FineTuneClassifier(
        PCA(2), train="head", max_epochs=4, random_state=derived_seed(0, 0)
    ).fit(*DATA[:2])
    assert values(ranking)["pca", "accuracy", 0] == pytest.approx(fitted.score(*DATA[2:]))
    assert ranking.ranking()["pca"].gain is None


def test_a_network_of_torchvision():
    found = {"squeezenet": TorchvisionBackbone("squeezenet1_1", weights=None)}
    images = RNG.integers(0, 256, size=(4, 40, 40, 3), dtype=np.uint8)
    y = [0, 1, 0, 1]
    estimator = FineTuneClassifier(None, max_epochs=1)
    ranking = ranked(found, data=(images, y, images, y), estimator=estimator, n_seeds=1)
    assert ranking.twins["squeezenet"].startswith("from scratch: SqueezeNet-")
    assert len(ranking.rows) == 4 and not ranking.failures


# -- failures ------------------------------------------------------------------------------------


def failing():
    return [("no network", PCA(2)), *candidates(0), ("too wide", TorchBackbone(nn.Linear(9, 3)))]


def test_a_failure_costs_nobody_else_anything():
    with pytest.warns(CandidateFailedWarning) as caught:
        ranking = ranked(failing())
    assert len(caught) == 2
    assert "Candidate 'no network' has failed: ValueError:" in str(caught[0].message)
    assert "weights of a network" in str(caught[0].message)
    assert caught[0].filename == __file__
    good = {key: value for key, value in values(ranking).items() if np.isfinite(value)}
    assert good == values(ranked(candidates(0)))
    reference = ranking.reference()
    assert np.isnan(reference["no network"]) and np.isnan(reference["too wide"])
    assert [failure["candidate"] for failure in ranking.failures] == ["no network"] * 4 + [
        "too wide"
    ] * 4
    table = ranking.ranking()
    assert [row.candidate for row in table][-2:] == ["no network", "too wide"]
    assert table["too wide"].rank == 2 and table["too wide"].tied_with_best is None
    result = rank_correlation({"no network": 1, "net 0": 2, "too wide": 3}, reference)
    assert np.isnan(result.statistic) and result.reason
    assert "2 failed" in repr(ranking)


def test_error_score():
    with pytest.raises(ValueError, match="weights of a network") as raised:
        ranked(failing(), error_score="raise")
    assert raised.value.__notes__ == ["Raised by candidate 'no network'."]
    with pytest.warns(CandidateFailedWarning):
        ranking = ranked(failing(), error_score=-1, n_seeds=1)
    assert ranking.reference()["too wide"] == -1.0


def test_error_score_is_no_measurement():
    calls = []

    def picky(estimator, X, y):
        calls.append(1)
        if len(calls) == 2:  # the first call is the one before any work
            raise RuntimeError("not this one")
        return 0.5 + len(calls) / 100

    with pytest.warns(CandidateFailedWarning, match="'net 0' has failed: RuntimeError: not this"):
        ranking = ranked(candidates(0, 1), scoring=picky, error_score=0.0)
    (failure,) = ranking.failures
    assert (failure["candidate"], failure["seed"]) == ("net 0", 0)
    table = ranking.ranking()
    spread = np.std([v for (n, _, _), v in values(ranking).items() if n == "net 1"], ddof=1)
    assert table["net 0"].tied_with_best is None and np.isnan(table["net 0"].sd)
    assert table["net 1"].sd == pytest.approx(spread)
    assert ranking.reference()["net 0"] == table["net 0"].mean < 0.5
    negative = ranking.negative_transfer()
    assert all(row.candidate != "net 0" for row in negative)
    assert "of 1 candidates" in negative.title and "'net 0'" in negative.title


class Stumbling(nn.Module):
    """Fails in training, and not when it is looked at."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        if self.training:
            raise RuntimeError("out of luck")
        return self.last(torch.relu(self.first(x)))


def test_a_failure_in_training():
    found = [("stumbling", TorchBackbone(Stumbling())), *candidates(0)]
    with pytest.warns(CandidateFailedWarning, match="'stumbling' and 'from scratch: Stumbling-"):
        ranking = ranked(found)
    assert {failure["reason"] for failure in ranking.failures} == {"RuntimeError: out of luck"}
    assert all(row.seconds >= 0 for row in ranking.rows)
    with pytest.raises(RuntimeError, match="out of luck") as raised:
        ranked(found, error_score="raise")
    assert "Raised by 'stumbling', seed 0." in raised.value.__notes__


def test_all_failed():
    told = r"^All candidates have failed\. .* on 'X', of shape \(40, 6\)\. 'a' and 'b': ValueError:"
    with pytest.raises(ValueError, match=told):
        ranked({"a": PCA(2), "b": PCA(2)})
    too_few = X[TRAIN, :5], Y[TRAIN], X[TEST, :5], Y[TEST]
    with pytest.raises(ValueError, match=r"on 'X', of shape \(40, 5\)\. 'net 0': .*input of shape"):
        ranked(candidates(0), data=too_few)
    with pytest.raises(ValueError, match="All candidates have failed"):
        ranked({"stumbling": TorchBackbone(Stumbling())}, error_score=0.0)


def test_what_training_warns_of_is_said_once_at_the_end():
    few = X[:3], np.array(["a", "b", "c"]), X[TEST], Y[TEST]
    stops = FineTuneClassifier(None, max_epochs=1, early_stopping=True)
    options = {"data": few, "estimator": stops, "from_scratch": False}
    with pytest.warns(NoValidationPartWarning, match=r"\(candidates: 'net 0' and 'net 1'\)") as w:
        ranking = ranked(candidates(0, 1), **options)
    assert len(w) == 1 and w[0].filename == __file__
    assert [(said["candidate"], said["seed"]) for said in ranking.warnings] == [
        ("net 0", 0),
        ("net 0", 1),
        ("net 1", 0),
        ("net 1", 1),
    ]
    assert {said["kind"] for said in ranking.warnings} == {"NoValidationPartWarning"}


def test_a_training_that_diverges_has_a_value():
    wild = FineTuneClassifier(None, max_epochs=4, batch_size=10, lr=1e300, head_lr=1e300)
    found = {"double": TorchBackbone(network(0).double())}
    with pytest.warns(NotConvergedWarning, match="'double'"):
        ranking = ranked(found, estimator=wild, from_scratch=False, n_seeds=1)
    assert ranking.rows[0].n_epochs < 4
    assert 0 <= ranking.reference()["double"] <= 1


# -- checks before any work ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        ([], ValueError, "non-empty list of"),
        ("letters", ValueError, "non-empty list of.*'letters'"),
        (None, ValueError, "non-empty list of"),
        ([("a", PCA(), 3)], ValueError, "non-empty list of"),
        ([("a", PCA()), ("a", PCA())], ValueError, "must be unique. Got 'a' twice"),
        ([(3, PCA())], ValueError, "must be strings.*Got 3"),
        ([("", PCA())], ValueError, "must be strings that are not empty"),
        ([("from scratch: a", PCA())], ValueError, "do not begin with 'from scratch: '"),
        ([("\ud800", PCA())], ValueError, "texts that can be written"),
        ([("a", PCA)], TypeError, "Candidate 'a' must be a backbone"),
        ([("a", nn.Linear(6, 2))], TypeError, "Candidate 'a' must be a backbone"),
    ],
)
def test_wrong_candidates(found, error, message):
    with pytest.raises(error, match=message):
        ranked(found)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimator": PCA()}, TypeError, "'estimator' must be a FineTuneClassifier"),
        ({"estimator": 3}, TypeError, "'estimator' must be a FineTuneClassifier"),
        (
            {"estimator": FineTuneClassifier(None, from_scratch=True)},
            ValueError,
            "throw away the weights",
        ),
        ({"n_seeds": 0}, ValueError, "'n_seeds' parameter"),
        ({"scoring": "nonsense"}, ValueError, "'scoring' is 'nonsense'"),
        ({"scoring": "r2"}, ValueError, "'r2' in 'scoring' cannot be computed"),
        ({"energy": "horoscope"}, ValueError, "'energy' parameter"),
        ({"n_threads": 0}, ValueError, "'n_threads' parameter"),
        ({"error_score": "ignore"}, ValueError, "'error_score' parameter"),
        ({"data": (X, Y[:3], X, Y)}, ValueError, "'X' and 'y' must have as many rows"),
        ({"data": (X, Y, X, Y[:3])}, ValueError, "'X_test' and 'y_test' must have as many rows"),
        ({"data": (X, None, X, Y)}, ValueError, "'y' is needed"),
        ({"data": (X, Y, X, None)}, ValueError, "'y_test' is needed"),
        ({"data": (X, Y, X[:0], Y[:0])}, ValueError, "must have one row at least"),
        ({"data": (X, [None, *Y[1:]], X, Y)}, ValueError, "'y' lacks 1 of its 70 .* in row 0"),
        (
            {"data": (X, X[:, 0], X, [*X[:69, 0], np.nan])},
            ValueError,
            "'y_test' lacks 1 of its 70 .* in row 69",
        ),
        ({"estimator": FineTuneClassifier(None, lr=-1)}, ValueError, "'lr' parameter"),
        (
            {"estimator": FineTuneClassifier(None, train="staged", max_epochs=1)},
            ValueError,
            "'head_epochs' must be smaller",
        ),
        ({"estimator": FineTuneClassifier(None, device="abacus")}, ValueError, "'abacus'"),
        ({"data": (X, ["a"] * 70, X, Y)}, ValueError, "at least 2 classes"),
        ({"data": (X, Y, X, ["a"] * 70)}, ValueError, "'roc_auc_ovr' in 'scoring'.*class 'a'"),
        (
            {"data": (X, Y, X, np.arange(70))},
            ValueError,
            "^'y_test' has labels that are numbers, and those of 'y' are strings",
        ),
    ],
)
def test_wrong_parameters(options, error, message):
    with pytest.raises(error, match=message):
        ranked(candidates(0), **options)


def test_lines_for_the_patient(capsys):
    ranked(candidates(0), n_seeds=1, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[1/2, ") and "] net 0, seed 0: " in lines[0]
    assert "from scratch: Sequential-" in lines[1]
    with pytest.warns(CandidateFailedWarning):
        ranked([("stumbling", TorchBackbone(Stumbling())), *candidates(0)], n_seeds=1, verbose=1)
    assert "stumbling, seed 0: failed: RuntimeError: out of luck" in capsys.readouterr().out


def test_measures_of_the_users_own():
    def share_of_a(estimator, X, y):
        return float((estimator.predict(X) == "a").mean())

    def looks_inside(estimator, X, y):
        return estimator.n_epochs_

    ranking = ranked(candidates(0), scoring={"share": share_of_a, "auc": "roc_auc_ovr"}, n_seeds=1)
    assert ranking.measures == ("share", "auc")
    assert 0 <= ranking.reference("share")["net 0"] <= 1
    with pytest.raises(ValueError, match="'looks_inside' in 'scoring' cannot be computed"):
        ranked(candidates(0), scoring=looks_inside)


def test_a_measure_that_fails_for_one_candidate_only():
    calls = []

    def picky(estimator, X, y):
        calls.append(1)
        if len(calls) == 2:  # the first call is the one before any work
            raise RuntimeError("not this one")
        return 0.5

    with pytest.warns(CandidateFailedWarning, match="'net 0' has failed: RuntimeError: not this"):
        ranking = ranked(candidates(0, 1), scoring=picky, n_seeds=1)
    assert np.isnan(ranking.reference()["net 0"]) and ranking.reference()["net 1"] == 0.5
    calls.clear()
    with pytest.raises(RuntimeError, match="not this"):
        ranked(candidates(0, 1), scoring=picky, n_seeds=1, error_score="raise")
