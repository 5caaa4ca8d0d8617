"""reference_ranking with a search: one for each candidate, seed and measure."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

from sklearn.metrics import get_scorer
from skorch.callbacks import EpochScoring
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import (
    FineTuneClassifier,
    FineTuneSearchCV,
    ReferenceRanking,
    reference_ranking,
)
from sktransfer.finetune._net import derived_seed
from sktransfer.utils._progress import rows_reported_to

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] ** 2 > 0.8).astype(int)
DATA = X[:40], Y[:40], X[40:], Y[40:]
MEASURES = ["accuracy", "neg_log_loss"]


def network(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


FOUND = {"one": TorchBackbone(network(1)), "two": TorchBackbone(network(2))}


def search(backbone=None, **options):
    return FineTuneSearchCV(
        FineTuneClassifier(backbone, max_epochs=2, random_state=3),
        {"lr": (1e-4, 1e-1, "log")},
        **{"n_trials": 3, "pruner": None, **options},
    )


def ranked(found=FOUND, out=None, estimator=None, **options):
    options = {"scoring": MEASURES, "n_seeds": 1, "energy": False} | options
    return reference_ranking(found, *DATA, estimator=estimator or search(), out=out, **options)


def values(ranking):
    return {(r.candidate, r.measure, r.seed): r.value for r in ranking.rows}


def test_each_measure_has_a_search_of_its_own():
    got = ranked()
    for measure in MEASURES:
        seed = derived_seed(0, 0)
        by_hand = search(FOUND["two"], scoring=measure, random_state=seed)
        by_hand.set_params(estimator__random_state=seed)
        by_hand.fit(*DATA[:2])
        expected = get_scorer(measure)(by_hand, *DATA[2:])
        assert values(got)["two", measure, 0] == pytest.approx(expected, abs=1e-12)
        (found,) = [
            entry["params"]
            for entry in got.best_params
            if (entry["candidate"], entry["measure"]) == ("two", measure)
        ]
        assert found == by_hand.best_params_
    assert len(got.best_params) == 3 * 2
    assert got.protocol["search"]["kind"] == "FineTuneSearchCV"
    assert got.protocol["search"]["parameters"]["n_trials"] == 3
    assert "optuna" in got.protocol["versions"]
    assert got.rows[0].n_epochs == 2


def test_processes_make_no_difference():
    one, two = (
        search(FOUND["one"], scoring=MEASURES, random_state=0, n_jobs=n).fit(*DATA[:2])
        for n in (1, 2)
    )
    for name in ("params", "mean_test_score", "n_epochs"):
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    np.testing.assert_array_equal(one.predict_proba(DATA[2]), two.predict_proba(DATA[2]))
    assert values(ranked(n_jobs=2)) == values(ranked())


def test_a_storage_is_shared_by_searches_of_all_candidates(tmp_path):
    shared = search(storage=tmp_path / "trials.sqlite")
    assert values(ranked(estimator=shared)) == values(ranked())
    names = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'trials.sqlite'}")
    assert len(names) == 3 * 2 and all(name.startswith("search ") for name in names)


class Stop:
    """Interrupts after some units."""

    def __init__(self, n_done):
        self.n_done = n_done

    def __call__(self, n_done, n_units):
        if n_done == self.n_done:
            raise KeyboardInterrupt


def test_a_search_that_was_killed_goes_on(tmp_path, monkeypatch):
    fitted = []
    fit = FineTuneClassifier.fit

    def counting(self, *args, **kwargs):
        fitted.append(self.lr)
        if len(fitted) == 6:
            raise KeyboardInterrupt  # in the second trial of the second search
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(FineTuneClassifier, "fit", counting)
    options = {"from_scratch": False}
    with pytest.raises(KeyboardInterrupt):
        ranked(out=tmp_path, **options)
    n_begun = len(fitted)
    got = ranked(out=tmp_path, **options)
    n_all = 2 * 2 * (3 + 1)
    assert n_begun == 6 and len(fitted) == n_all + 1  # what was interrupted is done anew
    monkeypatch.undo()
    assert values(got) == values(ranked(**options))
    again = ranked(out=tmp_path, **options)
    assert again.rows == got.rows and again.best_params == got.best_params


def test_another_search_is_refused_and_another_measure_added(tmp_path):
    one = {"one": FOUND["one"]}
    ranked(one, out=tmp_path, scoring="accuracy", from_scratch=False)
    # It is fitted anew with the best parameters in any case.
    without = ranked(one, estimator=search(refit=False), scoring="accuracy", from_scratch=False)
    assert without.reference() == ranked(one, scoring="accuracy", from_scratch=False).reference()
    with pytest.raises(ValueError, match=r"search\['parameters'\]\['n_trials'\] was 3 and is 2"):
        ranked(one, out=tmp_path, estimator=search(n_trials=2), from_scratch=False)
    with pytest.raises(ValueError, match="search was None and is|search was .* and is None"):
        ranked(one, out=tmp_path, estimator=FineTuneClassifier(None, max_epochs=2))
    seen = []
    with rows_reported_to(lambda *numbers: seen.append(numbers)):
        got = ranked(one, out=tmp_path, from_scratch=False)
    assert seen == [(1, 2), (2, 2)]
    assert len(list((tmp_path / "units").iterdir())) == 2
    assert got.measures == tuple(MEASURES)


def test_measures_of_the_users_own_are_told_apart(tmp_path):
    def go(sign):
        def biased(estimator, X, y):
            return sign * estimator.predict_proba(X)[:, 1].mean()

        one = {"one": FOUND["one"]}
        return ranked(one, out=tmp_path, scoring={"biased": biased}, from_scratch=False)

    up, down = go(1), go(-1)
    assert len(list((tmp_path / "units").iterdir())) == 2
    assert up.reference()["one"] > 0 > down.reference()["one"]
    assert go(1).rows == up.rows


def space(distributions, **options):
    return search(**options).set_params(param_distributions=distributions)


@pytest.mark.parametrize(
    "form",
    [["head"], ["head", "full"], optuna.distributions.CategoricalDistribution(["head", "full"])],
    ids=["head", "list", "distribution"],
)
def test_networks_from_scratch_are_trained_as_a_whole_whatever_a_search_may_choose(form):
    one, options = {"one": FOUND["one"]}, {"scoring": "accuracy"}
    got = ranked(one, estimator=space({"train": form, "lr": [0.02]}, n_trials=2), **options)
    (twin,) = set(got.twins.values())
    params = {entry["candidate"]: entry["params"] for entry in got.best_params}
    assert params[twin] == {"lr": 0.02, "train": "full"}
    assert params["one"]["train"] in ("head", "full")
    by_hand = FineTuneClassifier(
        FOUND["two"], from_scratch=True, max_epochs=2, lr=0.02, random_state=derived_seed(0, 0)
    ).fit(*DATA[:2])
    assert values(got)[twin, "accuracy", 0] == by_hand.score(*DATA[2:])


@pytest.mark.parametrize(
    "distributions",
    [
        {"from_scratch": [True]},
        {"lr": (1e-3, 1e-1), "random_state": [0, 1]},
        {"random_state": (0, 9)},
        {"backbone": [FOUND["one"], FOUND["two"]]},
        {"backbone__module": [network(3)]},
        {"backbone__checkpoint": ["weights.pt", None]},
        {"device": ["cpu"]},
    ],
    ids=lambda distributions: next(reversed(distributions)),
)
def test_what_the_ranking_sets_is_not_searched_for(distributions, tmp_path, monkeypatch):
    def untouchable(*args, **kwargs):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(FineTuneClassifier, "fit", untouchable)
    words = f"'estimator' has '{next(reversed(distributions))}' in its 'param_distributions'"
    with pytest.raises(ValueError, match=words):
        ranked(estimator=space(distributions), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_choices_that_json_does_not_know_are_kept_by_their_place(tmp_path):
    scoring = [("watch", EpochScoring("accuracy", name="watched", lower_is_better=False))]
    distributions = {
        "callbacks": [None, scoring],
        "class_weight": [{0: 1.0, 1: 2.0}, {0: 2.0, 1: 1.0}],
        "lr": [np.float64(0.01), 0.02],
    }
    tuned = space(distributions, n_trials=4)
    options = {"estimator": tuned, "scoring": "accuracy"}
    first = ranked(out=tmp_path / "out", **options)
    assert len(list((tmp_path / "out" / "units").iterdir())) == 3
    again = ranked(out=tmp_path / "out", **options)
    without = ranked(**options)
    without.save(tmp_path / "saved", format="csv")
    loaded = ReferenceRanking.load(tmp_path / "saved")
    for other in (again, without, loaded):
        assert other.best_params == first.best_params
    assert again.rows == first.rows and loaded.rows == without.rows
    by_hand = space(distributions, n_trials=4, scoring="accuracy", random_state=derived_seed(0, 0))
    by_hand.set_params(estimator__random_state=derived_seed(0, 0), estimator__backbone=FOUND["one"])
    found = by_hand.fit(*DATA[:2]).best_params_
    (kept,) = [entry["params"] for entry in first.best_params if entry["candidate"] == "one"]
    assert kept["lr"] == found["lr"]
    for name in ("callbacks", "class_weight"):
        place = kept[name]
        value = place if place is None else distributions[name][place["choice"]]
        assert value is found[name]
