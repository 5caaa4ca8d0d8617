"""HalvingTransferabilitySelector: what it chooses, costs, keeps, and does with what goes wrong."""

import re
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from torch import nn

from sktransfer.backbones import TinyZooBackbone, TorchBackbone
from sktransfer.evaluation import calibrate_decision_set
from sktransfer.exceptions import (
    CandidateFailedWarning,
    DamagedResultWarning,
    RaceNotRunWarning,
    UninformativeScoreWarning,
)
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor
from sktransfer.finetune._race_units import _read_state, _write_state
from sktransfer.finetune._rounds import Checkpoint, multiply_adds, train_round
from sktransfer.metrics import KNN, LogME
from sktransfer.model_selection import HalvingTransferabilitySelector, TransferabilitySelector

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.NoiseFloorWarning",
    "ignore::sktransfer.exceptions.RaceNotRunWarning",
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
CODES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
Y = np.array(["a", "b", "c"])[CODES]
X_NEW = RNG.normal(size=(40, 6)).astype(np.float32)
Y_NEW = np.array(["a", "b", "c"])[(X_NEW[:, 0] > 0).astype(int) + (X_NEW[:, 1] > 0.3)]

passes = {"training": 0, "until": None}


class Killed(BaseException):
    """Ends everything at once, as nobody may catch it."""


class Plain(nn.Module):
    """Passes on those inputs that it sees, through batch normalisation and dropout."""

    def __init__(self, seen=(0, 1, 2), width=8, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.seen = list(seen)
        self.hidden = nn.Sequential(
            nn.Linear(len(self.seen), width), nn.BatchNorm1d(width), nn.Dropout(0.1)
        )
        self.classifier = nn.Linear(width, 3)

    def forward(self, x):
        if self.training and len(x) > 2:
            passes["training"] += 1
            if passes["until"] is not None and passes["training"] > passes["until"]:
                raise Killed
        return self.classifier(torch.relu(self.hidden(x[:, self.seen])))


class Fails(Plain):
    """Works until it is trained."""

    def forward(self, x):
        if self.training:
            raise RuntimeError("out of order")
        return super().forward(x)


class FailsAtOnce(Plain):
    """Never works."""

    def forward(self, x):
        raise RuntimeError("out of order")


SEEN = {"blind": (4, 5), "sees": (0, 1), "half": (0, 3)}


def backbone(*arguments, kind=Plain, **keywords):
    with torch.random.fork_rng():
        return TorchBackbone(kind(*arguments, **keywords))


def pool():
    """Networks of which the first and the last do not see what the target is about."""
    return [
        ("blind", backbone((4, 5))),
        ("half", backbone((0, 3))),
        ("sees", backbone((0, 1))),
        ("wide", backbone((0, 1, 2), width=24)),
        ("dark", backbone((3, 4), seed=2)),
    ]


def race(candidates=None, **parameters):
    template = FineTuneClassifier(None, max_epochs=9, lr=2e-2, head_lr=5e-2, batch_size=32)
    # H-score, as it has no permutations to be waited for.
    settings = {"estimator": template, "budget": 4.0, "start": 1.0, "refit": False}
    settings["metric"] = "hscore"
    return HalvingTransferabilitySelector(candidates or pool(), **settings | parameters)


@pytest.fixture(scope="module")
def fitted():
    return race(refit=True).fit(X, Y)


# -- the race --------------------------------------------------------------------------------------


def test_networks_that_see_the_target_win(fitted):
    assert fitted.best_name_ in ("sees", "wide")
    assert fitted.ranking_[fitted.best_name_] == 1
    assert sorted(fitted.ranking_.values()) == list(range(1, 6))
    assert fitted.best_score_ == fitted.scores_[fitted.best_name_] > 0.6
    assert fitted.score(X_NEW, Y_NEW) == np.mean(fitted.predict(X_NEW) == Y_NEW) > 0.6
    assert fitted.predict_proba(X_NEW).shape == (40, 3)


def test_the_record_tells_every_decision(fitted):
    history = fitted.history_
    rows = [
        dict(zip(history, values, strict=True)) for values in zip(*history.values(), strict=True)
    ]
    assert [row["candidate"] for row in rows if row["round"] == 0] == sorted(
        fitted.metric_ranks_, key=fitted.metric_ranks_.get
    )
    assert all(row["reason"] for row in rows)
    racing = {row["candidate"] for row in rows if row["round"] == 0 and row["decision"] == "kept"}
    for number in range(1, fitted.n_rounds_ + 1):
        those = [row for row in rows if row["round"] == number]
        assert {row["candidate"] for row in those} == racing
        assert len({row["n_epochs"] for row in those}) == 1
        racing = {row["candidate"] for row in those if row["decision"] in ("kept", "won")}
    assert racing == {fitted.best_name_}
    assert [row["decision"] for row in rows].count("won") == 1
    assert rows[-1]["total_cost"] == pytest.approx(sum(row["cost"] for row in rows))
    assert fitted.cost_ == rows[-1]["total_cost"] <= 4.0
    pytest.importorskip("pandas")
    assert fitted.to_frame()["candidate"].tolist() == history["candidate"].tolist()


def test_costs_are_those_of_trainings_by_hand(fitted):
    weights = fitted.cost_weights_
    # Features are those of the hidden layer, so each weight of it is used once.
    assert weights["wide"] == 3 * 24 + 24 * 3 and weights["blind"] == 2 * 8 + 8 * 3
    assert fitted.cost_unit_ == "multiply_adds"
    whole = sum(weights.values()) * len(X) * 9
    spent = sum(weights.values()) * len(X) / 3
    before = 0
    for number in range(1, fitted.n_rounds_ + 1):
        those = fitted.history_["round"] == number
        n_epochs = int(fitted.history_["n_epochs"][those][0])
        # Four folds: three parts of the rows are trained on in each, and all rows judged by once.
        per_row = (n_epochs - before) * 3 + 1 / 3
        spent += sum(weights[name] for name in fitted.history_["candidate"][those]) * 60 * per_row
        before = n_epochs
    assert fitted.cost_ == pytest.approx(spent / whole)
    assert fitted.refit_cost_ == pytest.approx(weights[fitted.best_name_] / sum(weights.values()))


def test_scores_come_from_rows_that_were_not_trained_on(fitted):
    """Retraced by a training in one go with the schedule of the rounds."""
    last = fitted.history_["round"] == fitted.n_rounds_
    name = fitted.best_name_
    epochs = [
        int(fitted.history_["n_epochs"][fitted.history_["round"] == number][0])
        for number in range(1, fitted.n_rounds_ + 1)
    ]
    from sktransfer.model_selection._halving_inputs import validation_parts

    right = []
    for train, held in validation_parts(None, Y, CODES, 0):
        checkpoint, before = None, 0
        for n_epochs in epochs:
            trained, checkpoint = train_round(
                race().estimator, dict(pool())[name], X[train], Y[train], np.unique(Y),
                n_epochs - before, 0, 16, checkpoint,
            )  # fmt: skip
            before = n_epochs
        right.extend(trained.predict(X[held]) == Y[held])
    assert len(right) == 60
    assert (
        np.mean(right) == fitted.history_["score"][last][fitted.history_["candidate"][last] == name]
    )


def test_the_same_again_and_by_several_workers(fitted):
    # Threads, as processes would take longer to start than all races here.
    with joblib.parallel_config("threading"):
        again = race(refit=False, n_jobs=2).fit(X, Y)
    assert again.scores_ == fitted.scores_
    assert again.ranking_ == fitted.ranking_
    assert again.history_["reason"].tolist() == fitted.history_["reason"].tolist()


def test_a_bad_metric_is_overruled():
    class Against(KNN):
        """Scores turned round."""

        def fit(self, X, y):
            super().fit(X, y)
            self.score_ = -self.score_
            return self

    found = race(pool()[::2], metric=Against()).set_params(estimator__max_epochs=30).fit(X, Y)
    assert found.metric_ranks_["sees"] == 3
    assert found.overruled_
    assert found.best_name_ == "sees"
    won = found.history_["decision"] == "won"
    assert "surely better" in found.history_["reason"][won][0]


def test_a_metric_that_says_nothing_has_no_last_word():
    # As many features as rows: the scores of all are at their bound.
    wide = [(name, backbone(seen, width=64)) for name, seen in SEEN.items()]
    with pytest.warns(UninformativeScoreWarning):
        found = race(wide[::-1]).fit(X[:40], Y[:40])
    assert not found.metric_trusted_
    last = found.history_["round"] == found.n_rounds_
    assert found.best_score_ == max(found.history_["score"][last])
    # The first by the metric has no better place than the others.
    assert (found.history_["difference"][found.history_["round"] > 0] <= 0).all()
    assert race(budget=0.01).fit(X, Y).metric_trusted_


def test_the_winner_is_fine_tuned_as_the_template_says(fitted):
    template = clone(race().estimator)
    alone = template.set_params(backbone=fitted.best_backbone_, random_state=0).fit(X, Y)
    assert np.array_equal(alone.predict_proba(X_NEW), fitted.predict_proba(X_NEW))
    assert np.array_equal(fitted.transform(X_NEW), fitted.best_backbone_.transform(X_NEW))
    assert not hasattr(race(refit=False).fit(X[:30], Y[:30]), "best_estimator_")
    with pytest.raises(AttributeError) as caught:
        race(refit=False).predict(X)
    assert "refit=False" in str(caught.value.__cause__)


def test_the_decision_set_starts():
    calibration = calibrate_decision_set(
        [{"a": 1.0, "b": 0.9, "c": 0.2}] * 20,
        [{"a": 0.5, "b": 0.6, "c": 0.4}] * 20,
        ["one", "two"] * 10,
    )
    found = race(start=calibration, budget=0.01).fit(X, Y)
    scores = found.metric_scores_["hscore"]
    inside = {name for name in scores if scores[name] >= max(scores.values()) - 0.1 - 1e-9}
    assert set(found.decision_set_) == inside
    shipped = race(start="decision_set", metric="logme", budget=0.01).fit(X, Y)
    assert "Calibrated on 55 cells" in shipped.decision_set_.statement
    assert race(start=0.5, budget=0.01).fit(X, Y).decision_set_ is None


# -- small cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "rows", "reason"),
    [
        ({"candidates": pool()[2:3]}, slice(None), "and is alone"),
        ({"budget": 0.01}, slice(None), "the budget is too small"),
        ({}, [3, 0, np.flatnonzero(CODES == 2)[0]], "no row can be spared"),
    ],
)
def test_without_a_race_the_metric_decides(parameters, rows, reason):
    rows = rows if isinstance(rows, slice) else [np.flatnonzero(c == CODES)[0] for c in range(3)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = race(**parameters).fit(X[rows], Y[rows])
    said = [str(w.message) for w in caught if w.category is RaceNotRunWarning]
    assert len(said) == (reason != "and is alone") and all(reason in message for message in said)
    by_metric = TransferabilitySelector(found.candidates, "hscore").fit(X[rows], Y[rows])
    assert found.best_name_ == by_metric.best_name_
    assert found.n_rounds_ == 0 and not found.overruled_
    assert np.isnan(found.best_score_)
    won = found.history_["decision"] == "won"
    assert reason in found.history_["reason"][won][0]


def test_the_budget_that_is_advised_is_enough_and_hardly_less_is_not():
    with pytest.warns(RaceNotRunWarning, match="takes a 'budget' of") as caught:
        race(start=1.0, budget=0.01).fit(X, Y)
    said = " ".join(str(warning.message) for warning in caught)
    advised = float(re.search(r"'budget' of ([\d.e-]+)\. ", said).group(1))
    found = race(start=1.0, budget=advised).fit(X, Y)
    assert found.n_rounds_ == 1 and (found.history_["round"] == 1).sum() == 2
    reasons = set(found.history_["reason"][found.history_["decision"] == "dropped"])
    assert "the budget is too small for more to start" in reasons
    with pytest.warns(RaceNotRunWarning):
        race(start=1.0, budget=0.9 * advised).fit(X, Y)


def test_a_class_of_one_sample_and_very_few_rows():
    y = np.array(["a"] * 4 + ["b"] * 4 + ["c"])
    found = race(budget=4.0).fit(X[:9], y)
    assert found.n_rounds_ and not found.overruled_  # eight rows prove nothing here


def test_equal_candidates_are_tied_by_the_metric():
    twins = [(name, backbone((0, 1))) for name in ("one", "two", "three")]
    found = race(twins).fit(X[:40], Y[:40])
    assert set(found.metric_ranks_.values()) == {1}
    for number in range(1, found.n_rounds_ + 1):
        assert len(set(found.history_["score"][found.history_["round"] == number])) == 1
    assert found.best_name_ == "one"


def test_values():
    template = FineTuneRegressor(None, max_epochs=5, lr=2e-2, head_lr=5e-2)
    settings = {"estimator": template, "metric": "logme"}
    y = X[:, 0] + 0.5 * X[:, 1]
    found = race(pool()[::2], refit=True, budget=4.0, **settings).fit(X[:40], y[:40])
    assert found.best_name_ == "sees"
    assert found.predict(X_NEW).shape == (40,)
    assert np.isfinite(list(found.scores_.values())).sum() >= 2
    pair = np.column_stack([y, y**2])[:24]
    assert race(pool()[:2], budget=4.0, **settings).fit(X[:24], pair).n_rounds_ > 0


def test_data_to_judge_by():
    found = race(pool()[1:4], scoring="neg_log_loss").fit(X, Y, X_val=X_NEW, y_val=Y_NEW)
    assert found.n_rounds_ > 0 and found.best_score_ < 0


def test_heads_on_any_transformer():
    candidates = [("pca", PCA(1)), ("scaled", StandardScaler()), ("raw", "passthrough")]
    template = FineTuneClassifier(None, train="head", max_epochs=6, head_lr=0.1)
    found = race(candidates, estimator=template).fit(X.astype(float), Y)
    assert found.best_name_ in ("scaled", "raw")
    assert set(found.cost_weights_.values()) == {1.0} and found.cost_unit_ == "equal"


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ("equal", {"sees": 1.0, "wide": 1.0}),
        ("n_parameters", {"sees": 67.0, "wide": 219.0}),
        ({"sees": 2.5, "wide": 9}, {"sees": 2.5, "wide": 9.0}),
    ],
)
def test_cost_weights(cost, expected):
    found = race(pool()[2:4], cost=cost, budget=0.01).fit(X, Y)
    assert found.cost_weights_ == expected


def test_multiply_adds_of_convolutions():
    images = np.zeros((2, 8, 8), dtype=np.uint8)
    zoo = TinyZooBackbone("letters_half").fit(images)
    counted = []

    def count(module, inputs, output):
        if isinstance(module, nn.Conv2d):
            counted.append(output.numel() * module.weight[0].numel())
        elif isinstance(module, nn.Linear):
            counted.append(output.numel() * module.in_features)

    hooks = [module.register_forward_hook(count) for module in zoo.module_.modules()]
    zoo.transform(images[:1])
    for hook in hooks:
        hook.remove()
    assert multiply_adds(zoo, images) == sum(counted)


# -- failures --------------------------------------------------------------------------------------


def test_a_candidate_that_fails_costs_nobody_else():
    alone = race(pool()[1:4]).fit(X, Y)
    candidates = [
        ("never", backbone(kind=FailsAtOnce)),
        *pool()[1:4],
        ("late", backbone((0, 1), kind=Fails, seed=3)),
    ]
    with pytest.warns(CandidateFailedWarning) as caught:
        found = race(candidates).fit(X, Y)
    told = " ".join(str(warning.message) for warning in caught)
    assert "'late' failed" in told and "'never'" in told
    assert set(found.failures_) == {"never", "late"}
    assert found.ranking_["never"] == found.ranking_["late"] == 4
    assert found.best_name_ == alone.best_name_
    row = found.history_["candidate"] == "late"
    assert found.history_["decision"][row].tolist() == ["kept", "failed"]
    with pytest.raises((RuntimeError, ValueError), match="out of order"):
        race(candidates, error_score="raise").fit(X, Y)


def test_the_metric_decides_among_the_others_if_all_who_started_fail():
    late = [(f"late{i}", backbone((0, 1), kind=Fails, seed=i)) for i in range(2)]
    with pytest.warns(CandidateFailedWarning):
        found = race([*late, ("dark", backbone((4, 5)))], start=0.1).fit(X, Y)
    assert found.best_name_ == "dark"
    with pytest.raises(ValueError, match="No candidate could be fine-tuned"):
        race(late).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"budget": 0}, ValueError, "'budget'"),
        ({"start": 1.5}, ValueError, "'start'"),
        ({"start": "all"}, ValueError, "'start'"),
        ({"factor": 1}, ValueError, "'factor'"),
        ({"confidence": 0.2}, ValueError, "'confidence'"),
        ({"cost": "seconds"}, ValueError, "'cost'"),
        ({"cost": {"blind": 1.0}}, ValueError, "positive number for each candidate.*'half'"),
        ({"cost": {n: 1 for n, _ in pool()} | {"zzz": 1}}, ValueError, "'cost' .* for 'zzz'"),
        ({"estimator": FineTuneRegressor(None)}, ValueError, "HScore in 'metric' is defined for c"),
        ({"estimator": PCA()}, TypeError, "'estimator' must be a FineTuneClassifier"),
        (
            {"estimator": FineTuneClassifier(None, from_scratch=True)},
            ValueError,
            "from_scratch=True",
        ),
        ({"estimator": FineTuneClassifier(None, lr=-1)}, ValueError, "'lr' parameter"),
        ({"candidates": [*pool(), ("pca", PCA())]}, ValueError, "'pca' must be a torch backbone"),
        ({"candidates": [("a", backbone())] * 2}, ValueError, "be unique. Got 'a' twice"),
        ({"scoring": "accuracies"}, ValueError, "'accuracies'"),
        ({"scoring": "r2"}, ValueError, "'r2' in 'scoring' cannot be computed on the rows to ju"),
        ({"cv": [([0], [99])]}, ValueError, "Split 0 of 'cv' must have rows from 0 to 59 to judge"),
        ({"cv": 61}, ValueError, "'cv' must be a number of folds from 2 to the number of rows, 60"),
        ({"out": ""}, ValueError, "'out' must be the name of a folder"),
    ],
)
def test_wrong_input_is_refused_before_any_work(parameters, kind, message):
    passes["training"] = 0
    with pytest.raises(kind, match=message):
        race(**parameters).fit(X, Y)
    assert passes["training"] == 0


def test_one_class_and_two_ways_to_judge():
    with pytest.raises(ValueError, match="at least 2 classes"):
        race().fit(X, ["a"] * 60)
    with pytest.raises(ValueError, match="either by 'X_val' and 'y_val', or on the splits"):
        race(cv=3).fit(X, Y, X_val=X_NEW, y_val=Y_NEW)
    with pytest.raises(ValueError, match="'X_val' is not"):
        race().fit(X, Y, y_val=Y_NEW)
    with pytest.raises(ValueError, match="'y_val' of HalvingTransferabilitySelector.fit is not"):
        race().fit(X, Y, X_val=X_NEW)
    with pytest.raises(ValueError, match="X_val: Found array with 0 sample"):
        race().fit(X, Y, X_val=X_NEW[:0], y_val=Y_NEW[:0])
    heads = race([("raw", "passthrough")], estimator=FineTuneClassifier(None, train="head"))
    with pytest.raises(ValueError, match="'X_val' and 'y_val' must have one row at least. Got no"):
        heads.fit(X, Y, X_val=X_NEW[:0], y_val=Y_NEW[:0])
    with pytest.raises(ValueError, match="'X' is needed. Got None."):
        race().fit(None, Y)


def test_whole_numbers_are_values_for_a_regressor():
    y = np.round(3 * X[:, 0]).astype(int)
    metric = LogME()
    settings = {"estimator": FineTuneRegressor(None, max_epochs=9), "start": "decision_set"}
    found = race(pool()[:2], metric=metric, budget=0.01, **settings).fit(X, y)
    expected = TransferabilitySelector(pool()[:2], LogME(task="regression"), baselines=None)
    expected = expected.fit(X, y).scores_
    assert found.metric_scores_["logme"] == expected
    assert found.decision_set_ is None
    assert metric.task == "auto" and not hasattr(metric, "score_")
    # A metric that is told otherwise still has no decision set, which is one of classifiers.
    labels = race(pool()[:2], metric=LogME(task="classification"), budget=0.01, **settings)
    labels.fit(X, y)
    assert labels.decision_set_ is None and labels.metric_scores_["logme"] != expected


@pytest.mark.parametrize("n", [1, 5])
def test_passes_that_cost_more_than_the_budget_are_told(n):
    with pytest.warns(RaceNotRunWarning) as caught:
        found = race(pool()[:n], budget=0.01).fit(X, Y)
    said = [str(w.message) for w in caught if w.category is RaceNotRunWarning]
    # One pass at a third of the cost of nine epochs.
    assert found.cost_ == pytest.approx(1 / 27)
    assert len(said) == 1 and said[0].endswith(
        " The passes for the metrics alone cost 0.038, more than the 'budget' of 0.01."
    )


# -- the folder ------------------------------------------------------------------------------------


def outcome(found):
    columns = {name: list(map(str, c)) for name, c in found.history_.items() if name != "seconds"}
    return columns, found.scores_, found.ranking_, found.predict_proba(X_NEW).tolist()


def test_killed_again_and_again_it_goes_on_to_the_same_result(tmp_path):
    passes.update(training=0, until=None)
    whole = outcome(race(pool()[1:4], refit=True).fit(X, Y))
    n_passes = passes["training"]
    n_killed, trained = 0, 0
    for _ in range(9):
        passes.update(training=0, until=n_passes // 4)
        try:
            found = race(pool()[1:4], refit=True, out=tmp_path).fit(X, Y)
            break
        except Killed:
            n_killed += 1
            trained += passes["training"]
        finally:
            passes["until"] = None
    assert n_killed >= 3
    assert outcome(found) == whole
    # All that was done twice is the training that each kill has interrupted.
    epochs = [0] + [
        int(found.history_["n_epochs"][found.history_["round"] == number][0])
        for number in range(1, found.n_rounds_ + 1)
    ]
    longest = max(9 * 2, max(np.diff(epochs)) * 3)
    assert trained + passes["training"] <= n_passes + n_killed * longest
    passes["training"] = 0
    again = race(pool()[1:4], refit=True, out=tmp_path).fit(X, Y)
    assert passes["training"] == 0
    assert outcome(again) == whole
    assert again.best_estimator_.n_epochs_ == 9 and len(again.best_estimator_.history_) == 9
    assert len(list((tmp_path / "states").iterdir())) == 1  # the winner


def test_a_larger_budget_uses_what_is_there(tmp_path):
    small = race(pool()[1:4], out=tmp_path).fit(X, Y)
    passes["training"] = 0
    race(pool()[1:4], out=tmp_path, confidence=0.9).fit(X, Y)
    assert passes["training"] == 0
    assert small.n_rounds_ > 0


def test_a_folder_of_other_data_or_weights_is_refused(tmp_path):
    race(pool()[:2], out=tmp_path, budget=0.01).fit(X, Y)
    with pytest.raises(ValueError, match="X is other data"):
        race(pool()[:2], out=tmp_path, budget=0.01).fit(X + 1, Y)
    with pytest.raises(ValueError, match="'half' has other weights"):
        race([("half", backbone((0, 3), seed=5))], out=tmp_path, budget=0.01).fit(X, Y)


def test_results_of_other_units_are_damage(tmp_path):
    estimator = FineTuneClassifier(None, max_epochs=3, lr=2e-2, batch_size=32)
    parameters = {"out": tmp_path, "cv": 2, "budget": 2.0, "estimator": estimator}
    found = race(pool()[1:3], **parameters).fit(X, Y)
    units = sorted((tmp_path / "units").iterdir())
    contents = [path.read_bytes() for path in units]
    units[0].write_bytes(contents[1])
    with pytest.warns(DamagedResultWarning, match="is damaged: it is not what was written") as told:
        again = race(pool()[1:3], **parameters).fit(X, Y)
    assert [str(w.message) for w in told if str(units[0]) in str(w.message)]
    assert again.scores_ == found.scores_ and again.best_name_ == found.best_name_
    with np.load(units[0]) as mended, np.load(units[1]) as other:
        assert not np.array_equal(mended["outputs"], other["outputs"])


def test_a_broken_folder_is_one_of_a_race(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="run.json', which is no description of a race that this"):
        race(out=tmp_path).fit(X, Y)


def test_a_damaged_state_is_not_used(tmp_path):
    path = tmp_path / "state.pt"
    assert _read_state(path) is None
    _write_state(path, {"weights": {"a": torch.arange(3.0)}, "n_epochs": 2})
    assert _read_state(path)["weights"]["a"].tolist() == [0, 1, 2]
    other = tmp_path / "other.pt"  # the state of another training
    other.write_bytes(path.read_bytes())
    with pytest.warns(DamagedResultWarning, match=r"other\.pt is damaged"):
        assert _read_state(other) is None
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(bytes(content))
    with pytest.warns(DamagedResultWarning, match="is damaged"):
        assert _read_state(path) is None


# -- rounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", ["full", "head", "staged"])
def test_a_round_after_a_checkpoint_is_one_without_interruption(train):
    template = FineTuneClassifier(None, train=train, max_epochs=6, lr=1e-2)
    first, checkpoint = train_round(template, backbone(), X, Y, np.unique(Y), 2, 7, 16)
    second, _ = train_round(template, backbone(), X, Y, np.unique(Y), 3, 7, 16, checkpoint)
    # The same without laying it aside: rates begin anew, all else goes on.
    stages = first._rates.stages
    stages.train, stages.head_epochs, stages.max_epochs = (
        ("head" if train == "head" else "full"),
        0,
        3,
    )
    first._rates.position_ = 0
    first.partial_fit(X, Y, n_epochs=3)
    assert np.array_equal(first.predict_proba(X_NEW), second.predict_proba(X_NEW))
    rates = [epoch["head_lr"] for epoch in second.history_[-3:]]
    assert rates == pytest.approx([1e-2 * (1 + np.cos(np.pi * t / 3)) / 2 for t in range(3)])
    assert isinstance(checkpoint, Checkpoint) and checkpoint.n_epochs == 2


# -- an estimator ----------------------------------------------------------------------------------


def test_parameters():
    selector = race(metric=["knn", "hscore"])
    assert selector.get_params()["estimator__lr"] == 2e-2
    assert selector.get_params()["sees"] is dict(selector.candidates)["sees"]
    selector.set_params(estimator__lr=1e-3, sees="drop", metric__hscore__shrinkage=0.1, budget=0.01)
    assert selector.estimator.lr == 1e-3
    copy = clone(selector)
    found = copy.fit(X, Y)
    assert "sees" not in found.scores_ and set(found.metric_scores_) == {
        "knn",
        "hscore",
        "consensus",
    }
    assert repr(copy).startswith("HalvingTransferabilitySelector(")
    assert "best" in copy._repr_html_()


def test_nothing_of_the_caller_is_changed():
    candidates = pool()
    before = {
        name: {k: v.clone() for k, v in b.module.state_dict().items()} for name, b in candidates
    }
    torch.manual_seed(5)
    states = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    with warnings.catch_warnings():
        filters = list(warnings.filters)
        race(candidates[:2]).fit(X, Y)
        assert warnings.filters == filters
    assert torch.equal(torch.get_rng_state(), states[0])
    assert repr(np.random.get_state()) == states[1]  # noqa: NPY002
    for name, b in candidates:
        assert all(torch.equal(before[name][k], v) for k, v in b.module.state_dict().items())
