"""Sample weights by metadata routing, and progress by scikit-learn's callbacks."""

from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.callback import CallbackSupportMixin, ProgressBar
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.metrics import HScore, LogME
from sktransfer.model_selection import MetricSearchCV, TransferabilitySelector

X, Y = load_iris(return_X_y=True)
WEIGHTS = np.random.default_rng(0).uniform(0.1, 2, size=150)
CANDIDATES = [("pca", PCA(2)), ("scaled", StandardScaler())]


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


# -- metadata routing ------------------------------------------------------------------------------


def test_weights_are_refused_without_routing():
    with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
        TransferabilitySelector(CANDIDATES).fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
        TransferabilitySelector(CANDIDATES).fit_transform(X, Y, sample_weight=WEIGHTS)


@pytest.mark.parametrize("cv", [None, 2, KFold(2)])
@pytest.mark.parametrize("search", [TransferabilitySelector, MetricSearchCV])
def test_without_parameters_there_is_nothing_to_route(routing, search, cv):
    if search is MetricSearchCV:
        search = partial(MetricSearchCV, metrics="logme", reference={"pca": 1.0, "scaled": 2.0})
    rows = np.r_[0:150:3]
    found = search(CANDIDATES, cv=cv).fit(X[rows], Y[rows])
    with config_context(enable_metadata_routing=False):
        plain = search(CANDIDATES, cv=cv).fit(X[rows], Y[rows])
    assert found.scores_ == plain.scores_


def test_weights_that_nobody_asked_for_are_refused(routing):
    with pytest.raises(ValueError, match="sample_weight.* not explicitly set as requested or not"):
        TransferabilitySelector(CANDIDATES).fit(X, Y, sample_weight=WEIGHTS)


def ask(metric, wants=True):
    return metric.set_fit_request(sample_weight=wants)


def given(scaler_wants):
    scaler = StandardScaler().set_fit_request(sample_weight=scaler_wants)
    return [("pca", PCA(2)), ("scaled", scaler)]


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_weights_reach_the_metric_that_asked(routing, method):
    selector = TransferabilitySelector(given(False), ask(LogME()))
    getattr(selector, method)(X, Y, sample_weight=WEIGHTS)
    for name, features in (
        ("pca", PCA(2).fit_transform(X)),
        ("scaled", StandardScaler().fit_transform(X)),
    ):
        expected = LogME().fit(features, Y, sample_weight=WEIGHTS).score_
        assert selector.scores_[name] == pytest.approx(expected, rel=1e-9)
    assert selector.metric_.score_ == pytest.approx(selector.best_score_, rel=1e-12)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_weights_reach_the_candidate_that_asked(routing, method):
    selector = TransferabilitySelector(given(True), ask(LogME(), False))
    getattr(selector, method)(X, Y, sample_weight=WEIGHTS)
    scaler = selector.candidates_.scaled
    np.testing.assert_allclose(scaler.mean_, np.average(X, axis=0, weights=WEIGHTS))
    expected = LogME().fit(scaler.transform(X), Y).score_
    assert selector.scores_["scaled"] == pytest.approx(expected, rel=1e-9)


def test_of_several_metrics_only_those_that_asked_are_weighted(routing):
    metrics = {"weighted": ask(HScore()), "plain": ask(HScore(), False), "again": ask(LogME())}
    selector = TransferabilitySelector(given(False), metrics)
    selector.fit(X, Y, sample_weight=list(WEIGHTS))
    features = PCA(2).fit_transform(X)
    scores = {name: scores["pca"] for name, scores in selector.metric_scores_.items()}
    assert scores == pytest.approx(
        {
            "weighted": HScore().fit(features, Y, sample_weight=WEIGHTS).score_,
            "plain": HScore().fit(features, Y).score_,
            "again": LogME().fit(features, Y, sample_weight=WEIGHTS).score_,
        },
        rel=1e-9,
    )


class Net(TransformerMixin, BaseEstimator):
    stateless = True

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X - X.min(axis=0)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_weights_in_splits(routing, n_jobs):
    rows = [np.arange(0, 150, 2), np.arange(1, 150, 3)]
    cv = [(r, []) for r in rows]
    net = ("net", Net())
    selector = TransferabilitySelector([net, *given(True)], ask(LogME()), cv=cv, n_jobs=n_jobs)
    selector.fit(X, Y, sample_weight=WEIGHTS)
    net, scaled = [], []
    for r in rows:
        scaler = StandardScaler().fit(X[r], sample_weight=WEIGHTS[r])
        weights = {"sample_weight": WEIGHTS[r]}
        scaled.append(LogME().fit(scaler.transform(X[r]), Y[r], **weights).score_)
        net.append(LogME().fit((X - X.min(axis=0))[r], Y[r], **weights).score_)
    assert selector.scores_["net"] == pytest.approx(np.mean(net), rel=1e-9)
    assert selector.scores_["scaled"] == pytest.approx(np.mean(scaled), rel=1e-9)


def test_weights_of_a_wrong_length_are_refused_before_work(routing):
    class Never(Net):
        def fit(self, X, y=None):
            raise AssertionError("work has begun")

    selector = TransferabilitySelector([("net", Never())], ask(LogME()))
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(149,\), expected \(150,\)"):
        selector.fit(X, Y, sample_weight=WEIGHTS[:-1])


def test_routing_through_a_pipeline_and_a_search(routing):
    selector = TransferabilitySelector(given(False), ask(LogME()))
    head = GaussianNB().set_fit_request(sample_weight=False)
    model = make_pipeline(selector, head)
    model.fit(X, Y, sample_weight=WEIGHTS)
    expected = LogME().fit(PCA(2).fit_transform(X), Y, sample_weight=WEIGHTS).score_
    assert model[0].scores_["pca"] == pytest.approx(expected, rel=1e-9)
    accuracy = get_scorer("accuracy").set_score_request(sample_weight=False)
    grid = {"transferabilityselector__scaled": ["drop", "passthrough"]}
    search = GridSearchCV(model, grid, scoring=accuracy)
    search.fit(X, Y, sample_weight=WEIGHTS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_router_lists_candidates_metrics_and_splitter():
    selector = TransferabilitySelector(
        [*CANDIDATES, ("off", "drop"), ("raw", "passthrough")], ["logme", "hscore"], cv=GroupKFold()
    )
    routes = set(selector.get_metadata_routing()._serialize())
    assert routes == {"pca", "scaled", "raw", "metric__logme", "metric__hscore", "splitter"}
    selector = TransferabilitySelector(CANDIDATES, cv=3)
    assert set(selector.get_metadata_routing()._serialize()) == {"pca", "scaled", "metric"}


# -- callbacks -------------------------------------------------------------------------------------


class Diary:
    """A callback that writes down what it is told."""

    def __init__(self):
        self.entries = []

    def setup(self, estimator, context):
        self.entries.append("setup")

    def teardown(self, estimator, context):
        self.entries.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.entries.append(("begin", type(estimator).__name__, context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.entries.append(("end", type(estimator).__name__, context.task_name, context.task_id))


NAME = "TransferabilitySelector"


class Handed(Diary):
    """A callback that is handed on to candidates that support it."""

    max_propagation_depth = None


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_callbacks_are_told_of_each_candidate(n_jobs, method):
    diary = Diary()
    selector = TransferabilitySelector(CANDIDATES, n_jobs=n_jobs).set_callbacks(diary)
    getattr(selector, method)(X, Y)
    assert diary.entries[0] == "setup" and diary.entries[-1] == "teardown"
    expected = {
        (what, NAME, task, index)
        for what in ("begin", "end")
        for task, index in (("fit", 0), ("pca", 0), ("scaled", 1))
    }
    assert len(diary.entries) == 2 + len(expected) and set(diary.entries[1:-1]) == expected
    assert diary.entries[1] == ("begin", NAME, "fit", 0)
    assert diary.entries[-2] == ("end", NAME, "fit", 0)
    for task, index in (("pca", 0), ("scaled", 1)):
        begin = diary.entries.index(("begin", NAME, task, index))
        assert begin < diary.entries.index(("end", NAME, task, index))


def test_the_end_of_a_failed_candidate_is_told_and_so_is_that_of_a_failed_fit():
    diary = Diary()
    broken = ("broken", PCA(20))
    with pytest.warns(CandidateFailedWarning):
        TransferabilitySelector([broken, *CANDIDATES]).set_callbacks(diary).fit(X, Y)
    assert ("end", NAME, "broken", 0) in diary.entries
    diary = Diary()
    with pytest.raises(ValueError, match="could not be scored"):
        TransferabilitySelector([broken]).set_callbacks(diary).fit(X, Y)
    assert diary.entries[-1] == "teardown"


class Epochs(CallbackSupportMixin, Net):
    """A candidate that itself reports progress."""

    def fit(self, X, y=None):
        context = self._init_callback_context(max_subtasks=2)
        context.call_on_fit_task_begin(estimator=self)
        for _ in range(2):
            epoch = context.subcontext(task_name="epoch")
            epoch.call_on_fit_task_begin(estimator=self)
            epoch.call_on_fit_task_end(estimator=self)
        context.call_on_fit_task_end(estimator=self)
        return super().fit(X, y)


def test_callbacks_reach_candidates_that_support_them(tmp_path):
    for memory in (None, tmp_path):
        diary = Handed()
        selector = TransferabilitySelector([("epochs", Epochs()), *CANDIDATES], memory=memory)
        selector.set_callbacks(diary).fit(X, Y)
        assert diary.entries.count("setup") == diary.entries.count("teardown") == 1
        assert ("begin", "Epochs", "epoch", 1) in diary.entries
        assert not hasattr(selector.candidates_.epochs, "_skl_callbacks")
        assert not hasattr(selector.candidates[0][1], "_skl_callbacks")


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_progress_bar(n_jobs, capsys):
    pytest.importorskip("rich")
    selector = TransferabilitySelector(CANDIDATES, cv=2, n_jobs=n_jobs)
    expected = TransferabilitySelector(CANDIDATES, cv=2).fit(X, Y).scores_
    assert selector.set_callbacks(ProgressBar()).fit(X, Y).scores_ == expected
    assert "TransferabilitySelector - fit" in capsys.readouterr().out


def test_progress_bar_of_a_pipeline_and_a_search(capsys):
    pytest.importorskip("rich")
    model = make_pipeline(TransferabilitySelector(CANDIDATES), LogisticRegression(max_iter=1000))
    model.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "transferabilityselector" in capsys.readouterr().out
    model.set_callbacks()
    search = GridSearchCV(model, {"transferabilityselector__scaled": ["drop"]}, cv=2, n_jobs=2)
    search.set_callbacks(ProgressBar()).fit(X, Y)
    assert "GridSearchCV" in capsys.readouterr().out


def test_nothing_is_printed_without_a_callback(capsys):
    TransferabilitySelector(CANDIDATES, cv=2).fit(X, Y)
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""
