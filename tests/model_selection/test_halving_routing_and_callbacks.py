"""A race's weights and groups by metadata routing, and what scikit-learn's callbacks are told."""

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.decomposition import PCA
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("torch")

from sktransfer.backbones import TinyZooBackbone
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune import FineTuneClassifier
from sktransfer.finetune._rounds import train_round
from sktransfer.metrics import HScore
from sktransfer.model_selection import HalvingTransferabilitySelector, TransferabilitySelector

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.NoiseFloorWarning",
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=48) > 0).astype(int)
WEIGHTS = RNG.uniform(0.1, 4, size=48)
GROUPS = np.arange(48) // 8
TRAIN, JUDGE = next(ShuffleSplit(1, test_size=0.25, random_state=0).split(X))


def ask(estimator, wants=True):
    with config_context(enable_metadata_routing=True):  # without, there are no requests
        return estimator.set_fit_request(sample_weight=wants)


def ask_scorer(name):
    with config_context(enable_metadata_routing=True):
        return get_scorer(name).set_score_request(sample_weight=True)


CANDIDATES = [("pca", PCA(1)), ("scaled", ask(StandardScaler(), False))]


def race(metric=False, trained=True, **parameters):
    """A race whose metric and trainings ask for weights, or don't want them."""
    template = FineTuneClassifier(None, train="head", max_epochs=3, head_lr=0.1, batch_size=16)
    settings = {
        "estimator": ask(template, trained),
        "metric": ask(HScore(), metric),
        "budget": 3.0,
        "cv": [(TRAIN, JUDGE)],
        "scoring": "neg_log_loss",
    }
    candidates = parameters.pop("candidates", CANDIDATES)
    return HalvingTransferabilitySelector(candidates, **settings | parameters)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


# -- metadata routing ------------------------------------------------------------------------------


def test_weights_are_refused_without_routing():
    with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
        race().fit(X, Y, sample_weight=WEIGHTS)


@pytest.mark.parametrize("selector", [race(), TransferabilitySelector(CANDIDATES, "hscore")])
def test_nothing_to_route_is_nothing_to_wait_for(routing, selector):
    found = selector.fit(X, Y)
    with config_context(enable_metadata_routing=False):
        assert found.scores_ == clone(selector).fit(X, Y).scores_


@pytest.mark.parametrize(
    "parameters",
    [
        {"metric": HScore()},
        {"estimator": FineTuneClassifier(None, train="head")},
        {"candidates": [("pca", PCA(1)), ("scaled", StandardScaler())]},
    ],
)
def test_weights_that_nobody_has_decided_on_are_refused(routing, parameters):
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        race().set_params(**parameters).fit(X, Y, sample_weight=WEIGHTS)


def test_without_a_template_weights_are_not_passed_over(routing):
    images = np.zeros((8, 8, 8), dtype=np.uint8)
    zoo = [("letters", TinyZooBackbone("letters_half"))]
    found = HalvingTransferabilitySelector(zoo, ask(HScore()))
    with pytest.raises(UnsetMetadataPassedError, match="FineTuneClassifier"):
        found.fit(images, Y[:8], sample_weight=WEIGHTS[:8])


def test_weights_reach_the_trainings_and_the_winner(routing):
    found = race().fit(X, Y, sample_weight=WEIGHTS)
    plain = race().fit(X, Y)
    assert found.metric_scores_ == plain.metric_scores_
    assert found.n_rounds_ == 1
    for name, candidate in found.candidates:
        trained, _ = train_round(
            found.estimator, candidate, X[TRAIN], Y[TRAIN], np.unique(Y), 3, 0, 16,
            sample_weight=WEIGHTS[TRAIN],
        )  # fmt: skip
        probabilities = trained.predict_proba(X[JUDGE])[np.arange(len(JUDGE)), Y[JUDGE]]
        assert found.scores_[name] == pytest.approx(np.log(probabilities).mean())
        assert found.scores_[name] != plain.scores_[name]
    parameters = {"backbone": found.best_backbone_, "random_state": 0}
    template = race().estimator.set_params(**parameters).fit(X, Y, sample_weight=WEIGHTS)
    assert np.array_equal(found.predict_proba(X), template.predict_proba(X))


def test_weights_reach_the_metric_alone(routing):
    found = race(metric=True, trained=False).fit(X, Y, sample_weight=WEIGHTS)
    features = PCA(1).fit_transform(X)
    expected = HScore().fit(features, Y, sample_weight=WEIGHTS).score_
    assert found.metric_scores_["hscore"]["pca"] == pytest.approx(expected, rel=1e-9)
    assert found.scores_ == race().fit(X, Y).scores_


@pytest.mark.parametrize("cv", [None, 3, "splits", LeaveOneGroupOut()], ids=str)
def test_rows_of_weight_zero_are_as_if_they_were_not_there(routing, cv):
    weights = np.where(np.arange(48) % 6 == 1, 0, WEIGHTS)
    kept = np.flatnonzero(weights)
    place = np.cumsum(weights > 0) - 1
    with_all = without = cv
    groups = {"groups": GROUPS // 2} if isinstance(cv, LeaveOneGroupOut) else {}
    if cv == "splits":
        with_all = [(TRAIN, JUDGE)]
        without = [tuple(place[rows[weights[rows] > 0]] for rows in with_all[0])]
    # Candidates learn from all rows, with weights or without.
    frozen = [("pca", PCA(1)), ("scaled", StandardScaler())]
    frozen = [(name, FrozenEstimator(candidate.fit(X))) for name, candidate in frozen]
    options = {"metric": True, "candidates": frozen}
    found = race(cv=with_all, **options).fit(X, Y, sample_weight=weights, **groups)
    groups = {name: value[kept] for name, value in groups.items()}
    other = race(cv=without, **options).fit(X[kept], Y[kept], sample_weight=weights[kept], **groups)
    assert found.metric_scores_["hscore"] == pytest.approx(other.metric_scores_["hscore"])
    assert found.history_["score"] == pytest.approx(other.history_["score"], nan_ok=True)
    assert found.cost_ == pytest.approx(other.cost_) and found.n_rounds_ > 0
    assert np.allclose(found.predict_proba(X), other.predict_proba(X))


def test_groups_reach_the_splitter(routing):
    found = race(cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
    splits = list(GroupKFold(3).split(X, Y, GROUPS))
    assert found.scores_ == race(cv=splits).fit(X, Y).scores_
    with pytest.raises(ValueError, match="'cv' cannot split these 48 samples: .*groups"):
        race(cv=GroupKFold(3)).fit(X, Y)
    with pytest.raises(TypeError, match="groups"):
        race(cv=3).fit(X, Y, groups=GROUPS)


def test_routing_through_a_pipeline(routing):
    model = make_pipeline(race())
    found = model.fit(X, Y, sample_weight=WEIGHTS)[-1]
    assert found.scores_ == race().fit(X, Y, sample_weight=WEIGHTS).scores_
    # Data to judge by are the race's own.
    asking = race(cv=None).set_fit_request(X_val=True, y_val=True)
    found = make_pipeline(asking).fit(X[:30], Y[:30], X_val=X[30:], y_val=Y[30:])[-1]
    assert found.scores_ == race(cv=None).fit(X[:30], Y[:30], X_val=X[30:], y_val=Y[30:]).scores_


def test_router_lists_the_template_too():
    listed = set(race(cv=GroupKFold()).get_metadata_routing()._serialize())
    assert listed == {"$self_request", "pca", "scaled", "metric", "estimator", "splitter"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"scaled": ask(StandardScaler())},
            "Candidate 'scaled' asks for sample_weight in its fit",
        ),
        (
            {"scoring": ask_scorer("accuracy")},
            "'scoring' asks for sample_weight, and the rows that a race judges by all count the",
        ),
        ({"weights": WEIGHTS[:-1]}, "sample_weight"),
        ({"weights": -WEIGHTS}, "[Nn]egative"),
        ({"weights": np.isin(np.arange(48), TRAIN)}, "Split 0 of 'cv' must have rows to judge by"),
    ],
)
def test_what_cannot_be_given_weights_is_refused_before_any_work(routing, change, message):
    class Never(PCA):
        def fit_transform(self, X, y=None):
            raise AssertionError("work has begun")

    weights = change.pop("weights", WEIGHTS)
    with pytest.raises(ValueError, match=message):
        race().set_params(pca=Never(1), error_score="raise", **change).fit(
            X, Y, sample_weight=weights
        )


def test_a_folder_of_other_weights_is_refused(routing, tmp_path):
    found = race(out=tmp_path).fit(X, Y, sample_weight=WEIGHTS)
    again = race(out=tmp_path).fit(X, Y, sample_weight=WEIGHTS)
    assert np.array_equal(again.predict_proba(X), found.predict_proba(X))
    with pytest.raises(ValueError, match="sample_weight"):
        race(out=tmp_path).fit(X, Y, sample_weight=WEIGHTS[::-1])
    with pytest.raises(ValueError, match="sample_weight"):
        race(out=tmp_path).fit(X, Y)


# -- callbacks -------------------------------------------------------------------------------------


class Diary:
    """A callback that writes down what it is told, with the names of the tasks above."""

    def __init__(self):
        self.entries = []

    def _write(self, what, estimator, context):
        path, task = [], context
        while task is not None:
            path.insert(0, task.task_name)
            task = task.parent
        self.entries.append((what, type(estimator).__name__, tuple(path)))

    def setup(self, estimator, context):
        self._write("setup", estimator, context)

    def teardown(self, estimator, context):
        self._write("teardown", estimator, context)

    def on_fit_task_begin(self, estimator, context):
        self._write("begin", estimator, context)

    def on_fit_task_end(self, estimator, context):
        self._write("end", estimator, context)


class Handed(Diary):
    """A callback that is handed on to estimators inside."""

    max_propagation_depth = None


TASKS = {
    ("fit",),
    ("fit", "metrics"),
    ("fit", "metrics", "pca"),
    ("fit", "metrics", "scaled"),
    ("fit", "round 1"),
    *(("fit", "round 1", name) for name in ("pca", "scaled")),
    *(("fit", "round 1", name, f"split {k}") for name in ("pca", "scaled") for k in (0, 1)),
    ("fit", "refit"),
}


def check_nesting(entries):
    """Whatever begins does so while the task above it is open, and ends after all below it."""
    assert entries[0][0] == "setup" and entries[-1][0] == "teardown"
    running = set()
    for what, _, path in entries[1:-1]:
        if what == "begin":
            assert path not in running and (path[:-1] in running or len(path) == 1)
            running.add(path)
        else:
            running.remove(path)
            assert not any(other[: len(path)] == path for other in running)
    assert not running


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("refit", [True, False])
def test_callbacks_are_told_of_scores_and_trainings(n_jobs, refit):
    diary = Diary()
    with joblib.parallel_config("threading"):
        found = race(cv=2, n_jobs=n_jobs, refit=refit).set_callbacks(diary).fit(X, Y)
    assert found.n_rounds_ == 1
    check_nesting(diary.entries)
    assert {name for _, name, _ in diary.entries} == {"HalvingTransferabilitySelector"}
    expected = TASKS if refit else TASKS - {("fit", "refit")}
    assert {path for _, _, path in diary.entries} == expected
    assert len(diary.entries) == 2 + 2 * len(expected)


def test_callbacks_are_handed_on_to_the_final_fit():
    diary = Handed()
    race(cv=2).set_callbacks(diary).fit(X, Y)
    inside = [entry for entry in diary.entries if entry[1] == "FineTuneClassifier"]
    assert len(inside) == 2 + 2 * 3  # the fit itself and its epochs
    assert [what for what, *_ in diary.entries].count("setup") == 1
    # It is told by who is fitted, and not twice.
    own = [path for _, name, path in diary.entries if name == "HalvingTransferabilitySelector"]
    assert ("fit", "refit") not in own and own.count(("fit", "round 1", "pca", "split 1")) == 2


def test_a_race_that_is_taken_up_again_tells_the_same(tmp_path):
    first, second = Handed(), Diary()
    race(cv=2, out=tmp_path).set_callbacks(first).fit(X, Y)
    race(cv=2, out=tmp_path).set_callbacks(second).fit(X, Y)
    check_nesting(second.entries)
    assert {path for _, _, path in second.entries} == TASKS


class Fails(StandardScaler):
    def transform(self, X):
        raise RuntimeError("out of order")


def test_the_end_is_told_of_failures_too():
    diary = Diary()
    candidates = [("broken", Fails()), ("pca", PCA(1)), ("scaled", StandardScaler())]
    with pytest.warns(CandidateFailedWarning):
        race(cv=2, candidates=candidates).set_callbacks(diary).fit(X, Y)
    check_nesting(diary.entries)
    assert ("fit", "metrics", "broken") in {path for what, _, path in diary.entries}
    diary = Diary()
    with pytest.raises(ValueError, match="could not be scored"):
        race(cv=2, candidates=candidates[:1]).set_callbacks(diary).fit(X, Y)
    assert diary.entries[-1][0] == "teardown"


def test_progress_bar(capsys):
    pytest.importorskip("rich")
    found = race(cv=2).set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X, Y)
    printed = capsys.readouterr().out
    assert "HalvingTransferabilitySelector - fit" in printed and "FineTuneClassifier" in printed
    assert not hasattr(found.best_estimator_, "_skl_callbacks")
    assert found.scores_ == race(cv=2).fit(X, Y).scores_
    assert capsys.readouterr().out == ""
