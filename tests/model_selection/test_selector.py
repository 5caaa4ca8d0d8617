"""What a selection finds, and how the selector behaves among scikit-learn's estimators."""

import logging
import pickle
import random
import re
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler, TargetEncoder
from sklearn.utils import estimator_html_repr

from sktransfer.metrics import LEEP, NCE, HScore, LogME, TransferabilityMetric, score_metrics
from sktransfer.model_selection import TransferabilitySelector

X, Y = load_iris(return_X_y=True)


def candidates():
    # LogME prefers the first, the H-score the second.
    return [("pca", PCA(3)), ("white", PCA(4, whiten=True)), ("narrow", PCA(1))]


class Counting(TransformerMixin, BaseEstimator):
    """A pretrained network in small: fixed weights, a source head, and a count of the samples."""

    stateless = True
    n_parameters_ = 12
    passes = {}

    def __init__(self, name="net", width=3, head=True):
        self.name = name
        self.width = width
        self.head = head

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def _features(self, X):
        Counting.passes[self.name] = Counting.passes.get(self.name, 0) + len(X)
        X = np.asarray(X, dtype=float).reshape(len(X), -1)
        weights = np.random.default_rng(self.width).normal(size=(X.shape[1], self.width))
        return np.tanh(X @ weights / 10).astype(np.float32)

    def transform(self, X):
        return self._features(X)

    def extract(self, X):
        features = self._features(X)
        if not self.head:
            return features, None
        weights = np.exp(features[:, :2] * 3)
        return features, weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def no_passes():
    Counting.passes.clear()


# -- results ---------------------------------------------------------------------------------------


def test_scores_are_those_of_the_metric_on_the_features():
    selector = TransferabilitySelector(candidates()).fit(X, Y)
    expected = {
        name: LogME().fit(candidate.fit_transform(X), Y).score_ for name, candidate in candidates()
    }
    assert list(selector.scores_) == list(expected)
    assert selector.scores_ == pytest.approx(expected, rel=1e-9)
    assert selector.ranking_ == {"pca": 1, "white": 2, "narrow": 3}
    assert selector.metric_scores_ == {"logme": selector.scores_}
    assert (selector.best_index_, selector.best_name_) == (0, "pca")
    assert selector.best_score_ == selector.scores_["pca"] == selector.metric_.score_
    assert selector.best_estimator_ is selector.candidates_["pca"]
    assert selector.refit_metric_ == "logme"
    assert selector.metrics_ == {"logme": selector.metric_}
    assert selector.failures_ == selector.split_failures_ == selector.warnings_ == {}
    assert selector.n_splits_ == 1
    assert all(type(score) is float for score in selector.scores_.values())
    assert all(type(rank) is int for rank in selector.ranking_.values())


def test_table():
    net = ("net", Counting())
    selector = TransferabilitySelector([*candidates(), net], metric=["hscore", "logme"]).fit(X, Y)
    table = selector.cv_results_
    assert list(table) == [
        "candidate",
        *("mean_hscore", "std_hscore", "rank_hscore"),
        *("mean_logme", "std_logme", "rank_logme"),
        *("n_features", "n_parameters", "weights", "weights_hash", "pretrained"),
        *("rows_extracted", "from_store", "extraction_time", "scoring_time"),
    ]
    assert table["candidate"].tolist() == ["pca", "white", "narrow", "net"]
    assert table["n_features"].tolist() == [3, 4, 1, 3]
    np.testing.assert_array_equal(table["n_parameters"], [np.nan, np.nan, np.nan, 12])
    assert table["rows_extracted"].tolist() == [150] * 4
    assert not table["from_store"].any()
    assert np.isnan(table["std_logme"]).all()
    assert (table["extraction_time"] > 0).all() and (table["scoring_time"] > 0).all()
    assert (
        dict(zip(table["candidate"], table["mean_logme"], strict=True))
        == (selector.metric_scores_["logme"])
    )


def test_frame_is_sorted_by_rank():
    selector = TransferabilitySelector([("net", Counting()), *candidates()], baselines=None)
    frame = selector.fit(X, Y).to_frame()
    assert frame.columns.tolist() == [
        *("rank", "candidate", "logme", "n_features", "n_parameters"),
        *("weights", "weights_hash", "pretrained"),
        *("extraction_seconds", "scoring_seconds", "failure"),
    ]
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert frame["candidate"].iloc[0] == selector.best_name_
    assert dict(zip(frame["candidate"], frame["logme"], strict=True)) == selector.scores_
    assert frame.set_index("candidate")["n_features"].to_dict() == {
        **{"net": 3, "pca": 3, "white": 4, "narrow": 1}
    }
    assert frame.set_index("candidate")["n_parameters"].isna().sum() == 3
    assert (frame["failure"] == "").all()


def test_frame_shows_the_deciding_metric_first_and_the_spread_after_each():
    selector = TransferabilitySelector(
        candidates(), metric=["hscore", "logme"], refit="logme", cv=3
    ).fit(X, Y)
    columns = selector.to_frame().columns.tolist()
    assert columns[2:6] == ["logme", "logme_std", "hscore", "hscore_std"]
    selector.set_params(cv=None)  # a parameter set after fit changes nothing of what was found
    assert selector.to_frame().columns.tolist() == columns


def test_frame_without_pandas(monkeypatch):
    selector = TransferabilitySelector(candidates()).fit(X, Y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame requires pandas"):
        selector.to_frame()


def test_order_of_the_candidates_permutes_the_results_only():
    selector = TransferabilitySelector(candidates(), cv=3).fit(X, Y)
    mirrored = TransferabilitySelector(candidates()[::-1], cv=3).fit(X, Y)
    assert list(mirrored.scores_) == list(selector.scores_)[::-1]
    assert mirrored.scores_ == selector.scores_
    assert mirrored.ranking_ == selector.ranking_
    assert mirrored.best_name_ == selector.best_name_
    assert mirrored.best_index_ == 2 - selector.best_index_


def test_ties_share_a_rank_and_the_first_is_the_best():
    same = [("bad", PCA(1)), ("second", StandardScaler()), ("third", StandardScaler())]
    selector = TransferabilitySelector(same, metric="hscore").fit(X, Y)
    assert selector.ranking_ == {"bad": 3, "second": 1, "third": 1}
    assert (selector.best_index_, selector.best_name_) == (1, "second")
    assert selector.to_frame()["candidate"].tolist() == ["second", "third", "bad"]


@pytest.mark.parametrize(
    "labels", [np.array(["c", "a", "b"])[Y], Y * 5 - 3, pd.Series(Y + 1), Y[:, None]]
)
def test_names_of_the_labels_do_not_matter(labels):
    for cv in (None, 3):
        expected = TransferabilitySelector(candidates(), cv=cv).fit(X, Y)
        selector = TransferabilitySelector(candidates(), cv=cv).fit(X, labels)
        assert selector.scores_ == pytest.approx(expected.scores_, rel=1e-12)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_regression_and_multilabel_targets():
    y = X[:, :1] * [[1.0, -2.0]] + 0.3
    selector = TransferabilitySelector(candidates(), cv=3).fit(X, y)
    assert np.isfinite(list(selector.scores_.values())).all()
    y = np.column_stack([Y == 0, X[:, 0] > 5.5]).astype(int)
    selector = TransferabilitySelector(candidates()).fit(X, y)
    assert np.isfinite(list(selector.scores_.values())).all()


class Drawing(LogME):
    """A score that is nothing but chance."""

    lives_on_moments = False

    def __init__(self, random_state=None):
        super().__init__()
        self.random_state = random_state

    _parameter_constraints = {"random_state": ["random_state"]}

    def _fit(self, X, target, sample_weight):
        self.score_ = float(np.random.default_rng(self.random_state).normal())


@pytest.mark.parametrize("cv", [None, 2])
def test_all_candidates_are_compared_on_the_same_draw(cv):
    metric = Drawing()
    selector = TransferabilitySelector(candidates(), ["logme", metric], refit="drawing", cv=cv)
    draws = []
    for _ in range(2):
        scores = set(selector.fit(X, Y).metric_scores_["drawing"].values())
        assert len(scores) == 1
        draws.extend(scores)
        assert selector.score(X, Y) == selector.score(X, Y) in scores
    assert draws[0] != draws[1]
    assert metric.random_state is None and selector.metric[1] is metric
    fixed = TransferabilitySelector(candidates(), Drawing(7)).fit(X, Y)
    assert fixed.metric_.random_state == 7


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_images_and_other_inputs_reach_the_candidates_as_they_are():
    seen = []

    class Spy(Counting):
        def fit(self, X, y=None):
            seen.append(X)
            return super().fit(X, y)

    images = np.random.default_rng(0).normal(size=(40, 6, 6, 3))
    y = np.arange(40) % 2
    selector = TransferabilitySelector([("a", Spy()), ("b", Counting("b", 4))], cv=2)
    assert selector.fit(images, y).transform(images).shape[0] == 40
    assert all(np.shares_memory(data, images) and data.shape == images.shape for data in seen)
    words = [f"word {i}" * (1 + i % 3) for i in range(40)]
    length = FunctionTransformer(_lengths)
    selector = TransferabilitySelector([("length", length)], cv=2).fit(words, y)
    assert selector.transform(words).shape == (40, 2)
    assert not hasattr(selector, "get_feature_names_out")


def _lengths(texts):
    return np.array([[len(text), text.count("1")] for text in texts], dtype=float)


def test_data_and_candidates_are_not_changed():
    data, target = X.copy(), Y.copy()
    data.flags.writeable = target.flags.writeable = False
    given = [*candidates(), ("raw", "passthrough"), ("net", Counting())]
    before = pickle.dumps(given)
    metric = LogME()
    TransferabilitySelector(given, metric=[metric, "hscore"], cv=2).fit(data, target)
    np.testing.assert_array_equal(data, X)
    assert pickle.dumps(given) == before
    assert not hasattr(metric, "score_")


def test_second_fit_forgets_the_first():
    frame = pd.DataFrame(X, columns=list("abcd"))
    selector = TransferabilitySelector(candidates(), cv=2).fit(frame, Y)
    assert selector.feature_names_in_.tolist() == list("abcd")
    selector.set_params(cv=None, white="drop").fit(X[:, :3], Y)
    assert not hasattr(selector, "feature_names_in_")
    assert selector.n_features_in_ == 3
    assert "split0_logme" not in selector.cv_results_
    assert list(selector.scores_) == list(selector.candidates_) == ["pca", "narrow"]


# -- drop, passthrough and other kinds of candidates -----------------------------------------------


def test_dropped_candidates_are_left_out():
    selector = TransferabilitySelector(candidates()).set_params(pca="drop").fit(X, Y)
    assert list(selector.scores_) == ["white", "narrow"]
    assert selector.cv_results_["candidate"].tolist() == ["white", "narrow"]
    assert selector.best_index_ == 0


def test_passthrough_stands_for_the_data():
    selector = TransferabilitySelector([("raw", "passthrough"), ("narrow", PCA(1))]).fit(X, Y)
    assert selector.scores_["raw"] == pytest.approx(LogME().fit(X, Y).score_, rel=1e-12)
    assert selector.best_name_ == "raw"
    np.testing.assert_array_equal(selector.transform(X), X)
    assert selector.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]


def test_frozen_candidates_are_not_fitted_again():
    fitted = PCA(1).fit(X[:20])
    selector = TransferabilitySelector([("frozen", FrozenEstimator(fitted))], cv=3).fit(X, Y)
    assert selector.best_estimator_.estimator is fitted
    expected = LogME().fit(fitted.transform(X), Y).score_
    assert selector.metric_.score_ == pytest.approx(expected, rel=1e-12)


def test_a_selector_is_a_candidate():
    inner = TransferabilitySelector(candidates())
    selector = TransferabilitySelector([("inner", inner), ("narrow", PCA(1))], cv=2).fit(X, Y)
    assert selector.best_name_ == "inner"
    assert selector.best_estimator_.best_name_ == "pca"


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_candidates_that_treat_training_data_differently_are_scored_on_what_they_make_of_them():
    rng = np.random.default_rng(0)
    data = rng.integers(0, 30, size=(90, 2)).astype(str)
    y = np.arange(90) % 2
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    encoder = TargetEncoder(cv=folds)
    selector = TransferabilitySelector([("encoder", encoder)], metric="hscore")
    features = selector.fit_transform(data, y)
    honest = clone(encoder).fit_transform(data, y)  # cross-fitted
    np.testing.assert_array_equal(features, honest)
    assert selector.best_score_ == pytest.approx(HScore().fit(honest, y).score_, rel=1e-9)
    assert selector.best_score_ < HScore().fit(selector.transform(data), y).score_


# -- one pass, several metrics ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_each_candidate_is_run_once_for_all_metrics():
    nets = [("a", Counting("a")), ("b", Counting("b", 5))]
    selector = TransferabilitySelector(nets, metric=["logme", "hscore", "leep", "nce"]).fit(X, Y)
    assert Counting.passes == {"a": 150, "b": 150}
    for name, net in nets:
        features, probabilities = net.extract(X)
        expected = score_metrics(
            features, Y, ["logme", "hscore", "leep", "nce"], probabilities=probabilities
        )
        found = {metric: scores[name] for metric, scores in selector.metric_scores_.items()}
        assert found == pytest.approx(expected, rel=1e-12)


def test_fit_transform_does_not_run_the_best_candidate_again():
    nets = [("a", Counting("a")), ("b", Counting("b", 5)), ("c", Counting("c", 2))]
    for cv in (None, 3):
        Counting.passes.clear()
        selector = TransferabilitySelector(nets, cv=cv)
        features = selector.fit_transform(X, Y)
        assert Counting.passes == {"a": 150, "b": 150, "c": 150}
        np.testing.assert_array_equal(features, selector.transform(X))


def test_probabilities_are_asked_for_only_if_a_metric_needs_them():
    class Head(Counting):
        def extract(self, X):
            raise AssertionError("nobody asked for probabilities")

    TransferabilitySelector([("net", Head())], metric=["logme", "hscore"]).fit(X, Y)


def test_probabilities_of_candidates_without_extract():
    source = (X[:, 0] > 5.8).astype(int)
    model = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, source))
    selector = TransferabilitySelector([("lda", model)], metric=["leep", "logme"]).fit(X, Y)
    expected = LEEP().fit(model.predict_proba(X), Y).score_
    assert selector.scores_["lda"] == pytest.approx(expected, rel=1e-12)
    learner = ("learner", LinearDiscriminantAnalysis())
    selector = TransferabilitySelector([learner], metric="leep").fit(X, Y)
    expected = LEEP().fit(LinearDiscriminantAnalysis().fit(X, Y).predict_proba(X), Y).score_
    assert selector.best_score_ == pytest.approx(expected, rel=1e-9)


def test_refit_names_the_metric_that_decides():
    by_hscore = TransferabilitySelector(candidates(), metric=["logme", "hscore"], refit="hscore")
    by_hscore.fit(X, Y)
    assert by_hscore.refit_metric_ == "hscore"
    assert by_hscore.best_name_ == "white"
    assert by_hscore.scores_ == by_hscore.metric_scores_["hscore"]
    assert isinstance(by_hscore.metric_, HScore)
    assert set(by_hscore.metrics_) == {"logme", "hscore"}
    first = TransferabilitySelector(candidates(), metric=["logme", "hscore"]).fit(X, Y)
    assert first.best_name_ == "pca"
    assert first.metric_scores_ == by_hscore.metric_scores_


def test_a_dict_names_two_metrics_of_one_kind():
    metrics = {"plain": HScore(), "shrunk": HScore(shrinkage=0.5), "evidence": "logme"}
    selector = TransferabilitySelector(candidates(), metric=metrics, refit="shrunk").fit(X, Y)
    for name, candidate in candidates():
        features = candidate.fit_transform(X)
        found = selector.metric_scores_["shrunk"][name]
        assert found == pytest.approx(HScore(shrinkage=0.5).fit(features, Y).score_, rel=1e-9)
    assert list(selector.metric_scores_) == list(metrics)


class AgainstTheMean(TransferabilityMetric):
    """The width of the features, less the mean width of the pool: relative to it."""

    relative_to_pool = True
    _parameter_constraints = {"fail_on_four": ["boolean"]}

    def _fit(self, X, target, sample_weight):
        if X.shape[1] == 4 and self.fail_on_four:
            raise ValueError("Four is too many.")
        self.score_ = float(X.shape[1])

    def __init__(self, fail_on_four=False):
        self.fail_on_four = fail_on_four

    @classmethod
    def pool_scores(cls, fitted_metrics):
        widths = [np.nan if metric is None else metric.score_ for metric in fitted_metrics]
        return np.nanmean(widths) - np.array(widths)


@pytest.mark.parametrize("cv", [None, 3])
def test_scores_relative_to_the_pool(cv):
    selector = TransferabilitySelector(candidates(), metric=AgainstTheMean(), cv=cv)
    features = selector.fit_transform(X, Y)
    assert selector.scores_ == pytest.approx({"pca": -1 / 3, "white": -4 / 3, "narrow": 5 / 3})
    assert selector.best_name_ == "narrow"
    np.testing.assert_array_equal(features, selector.transform(X))


def test_a_failed_candidate_is_left_out_of_the_pool():
    metric = AgainstTheMean(fail_on_four=True)
    with pytest.warns(match="'white' has no score by 'againstthemean': Four is too many"):
        selector = TransferabilitySelector(candidates(), metric=metric).fit(X, Y)
    assert selector.scores_ == pytest.approx({"pca": -1, "white": np.nan, "narrow": 1}, nan_ok=True)


def test_a_candidate_may_be_undefined_in_its_pool():
    class Unsure(AgainstTheMean):
        @classmethod
        def pool_scores(cls, fitted_metrics):
            return [np.nan if metric.score_ == 3 else 1.0 for metric in fitted_metrics]

    with pytest.warns(match="'pca' has no score by 'unsure': Its score is not a number"):
        selector = TransferabilitySelector(candidates(), metric=Unsure()).fit(X, Y)
    assert selector.ranking_ == {"pca": 3, "white": 1, "narrow": 1}
    assert selector.best_name_ == "white"


def test_a_metric_by_duck_typing():
    class Width(BaseEstimator):
        needs = "features"

        def fit(self, X, y):
            self.score_ = X.shape[1]
            return self

    selector = TransferabilitySelector(candidates(), metric=Width()).fit(X, Y)
    assert selector.scores_ == {"pca": 3.0, "white": 4.0, "narrow": 1.0}
    assert selector.refit_metric_ == "width"


# -- wrong parameters, before any work -------------------------------------------------------------


class Never(Counting):
    def fit(self, X, y=None):
        raise AssertionError("work has begun")


@pytest.mark.parametrize(
    "given, error, message",
    [
        ([], ValueError, "non-empty list of (name, transformer) tuples"),
        ([PCA()], ValueError, "non-empty list of (name, transformer) tuples"),
        ([("a", PCA(), 1)], ValueError, "non-empty list of (name, transformer) tuples"),
        ([(1, PCA())], ValueError, "non-empty list of (name, transformer) tuples"),
        ([("a", Never()), ("a", PCA())], ValueError, "must be unique. Got 'a' twice."),
        ([("a__b", Never())], ValueError, "Estimator names must not contain __: got ['a__b']"),
        ([("cv", Never())], ValueError, "conflict with constructor arguments: ['cv']"),
        ([("a", PCA)], TypeError, "Expected an estimator instance (PCA()), got estimator class"),
        ([("a", "drop")], ValueError, "All candidates are dropped"),
        ([("a", Never()), ("b", RandomForestClassifier())], TypeError, "implement fit and"),
        ([("a", Never()), ("b", "resnet")], TypeError, "'b': 'resnet'"),
        (("a", PCA()), ValueError, "The 'candidates' parameter of TransferabilitySelector"),
    ],
)
def test_wrong_candidates(given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        TransferabilitySelector(given).fit(X, Y)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"metric": "logm"}, "one of .*hscore.*logme.*; got 'logm'"),
        ({"metric": []}, "at least one metric"),
        ({"metric": {}}, "at least one metric"),
        ({"metric": [LogME(), "logme"]}, "logme"),
        ({"metric": {"a__b": "logme"}}, "without '__'"),
        ({"metric": {1: "logme"}}, "without '__'"),
        ({"metric": LogME(tol=-1)}, "'tol' parameter of LogME"),
        ({"metric": 3}, "'metric' parameter"),
        ({"refit": "hscore"}, r"'refit' must name one of the metrics, \['logme'\]. Got 'hscore'"),
        ({"cv": 1}, "'cv' parameter"),
        ({"cv": []}, "at least one split"),
        ({"cv": [([], [0])]}, "split 0 of 'cv' must be a non-empty array of row numbers"),
        ({"cv": [([0.5, 1.0], [0])]}, "split 0 of 'cv' must be a non-empty array of row numbers"),
        ({"cv": [([0, 149], [0]), ([3, 150], [0])]}, "split 1 of 'cv' has rows that don't exist"),
        ({"cv": 51}, "n_splits=51 cannot be greater"),
        ({"error_score": 0}, "'error_score' parameter"),
        ({"error_score": "ignore"}, "'error_score' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"memory": 3}, "'memory' parameter"),
        ({"keep_candidates": "yes"}, "'keep_candidates' parameter"),
    ],
)
def test_wrong_parameters(params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TransferabilitySelector([("a", Never())], **params).fit(X, Y)


@pytest.mark.parametrize(
    "y, message",
    [
        (None, "requires y to be passed, but the target y is None"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.ones(150), "got 1 class"),
        (np.full(150, "a"), "got 1 class"),
        (np.ones((150, 2)), "got 1 class"),
        (np.where(Y == 0, np.nan, 1.0), "y contains NaN"),
        (np.zeros((150, 2, 2)), "dim 3"),
    ],
)
def test_wrong_targets(y, message):
    with pytest.raises(ValueError, match=message):
        TransferabilitySelector([("a", Never())]).fit(X, y)


# -- among scikit-learn's estimators ---------------------------------------------------------------


def test_nested_parameters():
    selector = TransferabilitySelector(candidates(), metric=LogME())
    selector.set_params(white="drop", pca__n_components=3, metric__tol=1e-3)
    assert dict(selector.candidates)["white"] == "drop"
    assert dict(selector.candidates)["pca"].n_components == 3
    assert selector.metric.tol == 1e-3
    params = selector.get_params()
    assert params["pca__n_components"] == 3 and params["metric__tol"] == 1e-3
    selector.set_params(pca=StandardScaler(), metric="hscore", cv=3)
    assert isinstance(dict(selector.candidates)["pca"], StandardScaler)
    assert (selector.metric, selector.cv) == ("hscore", 3)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        selector.set_params(nothing=1)


def test_nested_parameters_of_a_metric_given_by_name():
    selector = TransferabilitySelector(candidates()).set_params(metric__tol=1e-3)
    assert isinstance(selector.metric, LogME) and selector.metric.tol == 1e-3
    selector.set_params(metric="hscore", metric__shrinkage=0.5)
    assert isinstance(selector.metric, HScore) and selector.metric.shrinkage == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'tolerance'"):
        TransferabilitySelector(candidates()).set_params(metric__tolerance=1)


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_nested_parameters_of_several_metrics(kind):
    metrics = {"logme": LogME(), "hscore": "hscore"}
    given = metrics if kind is dict else kind(metrics.values())
    selector = TransferabilitySelector(candidates(), metric=given)
    params = selector.get_params()
    assert params["metric__logme"] is metrics["logme"]
    assert params["metric__logme__tol"] == LogME().tol
    assert "metric__logme" not in selector.get_params(deep=False)
    selector.set_params(metric__logme__tol=1e-3, metric__hscore__shrinkage=0.25)
    assert type(selector.metric) is kind
    entries = list(selector.metric.values() if kind is dict else selector.metric)
    assert (entries[0].tol, entries[1].shrinkage) == (1e-3, 0.25)
    assert list(given.values() if kind is dict else given)[1] == "hscore"  # the user's own
    selector.set_params(metric__logme__tol=1e-2, metric__logme=LogME(noise_floor=1e-6))
    assert next(iter(selector.fit(X, Y).metrics_.values())).get_params()["tol"] == 1e-2
    with pytest.raises(ValueError, match="Invalid metric 'leep' in 'metric__leep__x'"):
        selector.set_params(metric__leep__x=1)


def test_clone_keeps_parameters_and_forgets_the_fit():
    selector = TransferabilitySelector(candidates(), metric={"a": LogME(), "b": HScore()}, cv=2)
    selector.fit(X, Y)
    copy = clone(selector)
    assert not hasattr(copy, "scores_")
    assert copy.candidates[0][1] is not selector.candidates[0][1]
    assert repr(copy) == repr(selector)
    assert copy.fit(X, Y).scores_ == selector.scores_


def test_pickled_selector_transforms_and_scores():
    selector = TransferabilitySelector(candidates(), metric=["logme", "hscore"], cv=2).fit(X, Y)
    copy = pickle.loads(pickle.dumps(selector))
    assert copy.scores_ == selector.scores_
    np.testing.assert_array_equal(copy.transform(X), selector.transform(X))
    assert copy.score(X, Y) == selector.score(X, Y)


def test_score_is_the_metric_on_the_data_given():
    selector = TransferabilitySelector(candidates()).fit(X, Y)
    assert selector.score(X, Y) == pytest.approx(selector.best_score_, rel=1e-12)
    assert type(selector.score(X, Y)) is float
    half = slice(None, None, 2)
    features = selector.transform(X[half])
    assert selector.score(X[half], Y[half]) == pytest.approx(LogME().fit(features, Y[half]).score_)
    with pytest.raises(ValueError, match="got 1 class"):
        selector.score(X[:50], Y[:50])
    leep = TransferabilitySelector([("net", Counting())], metric="leep").fit(X, Y)
    assert leep.score(X, Y) == pytest.approx(leep.best_score_, rel=1e-12)
    with pytest.raises(ValueError, match="LEEP is defined for classification"):
        leep.score(X, X[:, 0])


@pytest.mark.parametrize("method", ["transform", "to_frame", "score", "get_feature_names_out"])
def test_not_fitted(method):
    arguments = {"transform": (X,), "score": (X, Y)}.get(method, ())
    with pytest.raises(NotFittedError):
        getattr(TransferabilitySelector(candidates()), method)(*arguments)
    assert not hasattr(TransferabilitySelector(candidates()), "n_features_in_")


def test_methods_are_there_if_the_candidates_have_them():
    nameless = [("pca", PCA(1)), ("net", Counting())]
    selector = TransferabilitySelector(nameless)
    assert hasattr(selector, "transform") and not hasattr(selector, "get_feature_names_out")
    assert not hasattr(TransferabilitySelector([PCA()]), "get_feature_names_out")
    assert hasattr(TransferabilitySelector(candidates()), "get_feature_names_out")


@pytest.mark.parametrize("library, kind", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(library, kind):
    selector = TransferabilitySelector(candidates()).set_output(transform=library)
    fitted = selector.fit_transform(X, Y)
    frame = selector.transform(X)
    assert isinstance(fitted, kind) and isinstance(frame, kind)
    assert list(frame.columns) == list(fitted.columns) == ["pca0", "pca1", "pca2"]
    np.testing.assert_array_equal(frame.to_numpy(), fitted.to_numpy())


def test_candidates_that_return_data_frames():
    plain = TransferabilitySelector(candidates(), cv=2).fit(X, Y)
    framed = [(name, c.set_output(transform="pandas")) for name, c in candidates()]
    selector = TransferabilitySelector(framed, cv=2)
    assert isinstance(selector.fit_transform(X, Y), pd.DataFrame)
    assert selector.scores_ == plain.scores_


def test_step_of_a_pipeline():
    model = make_pipeline(TransferabilitySelector(candidates()), GaussianNB())
    assert cross_val_score(model, X, Y).mean() > 0.9
    names = model.fit(X, Y)[:-1].get_feature_names_out()
    assert names.tolist() == ["pca0", "pca1", "pca2"]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search(n_jobs):
    model = Pipeline(
        [
            ("select", TransferabilitySelector(candidates())),
            ("classify", GaussianNB()),
        ]
    )
    grid = [
        {"select__metric": ["logme", HScore()], "select__pca__n_components": [1, 2]},
        {"select__metric__tol": [1e-2], "select__white": ["drop", "passthrough"]},
    ]
    search = GridSearchCV(model, grid, cv=2, n_jobs=n_jobs).fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_searching_with_the_score_of_the_selector():
    search = GridSearchCV(
        TransferabilitySelector([("pca", PCA())]),
        {"pca__n_components": [1, 2]},
        cv=[(np.arange(150), np.arange(150))],
    ).fit(X, Y)
    assert search.best_params_ == {"pca__n_components": 2}


def test_diagram_shows_scores():
    selector = TransferabilitySelector([*candidates(), ("off", "drop")])
    assert "white" in estimator_html_repr(selector)
    assert "(best)" not in estimator_html_repr(selector)
    html = estimator_html_repr(selector.fit(X, Y))
    for name, score in selector.scores_.items():
        best = " (best)" if name == selector.best_name_ else ""
        assert f"{name}: {score:.3g}{best}<" in html
    assert html.count("(best)") == 1


@pytest.mark.parametrize("cv", [None, 3])
def test_processes_change_nothing(cv):
    names = ["logme", "hscore"]
    one = TransferabilitySelector(candidates(), metric=names, cv=cv).fit(X, Y)
    two = TransferabilitySelector(candidates(), metric=names, cv=cv, n_jobs=2).fit(X, Y)
    for metric in names:
        assert two.metric_scores_[metric] == pytest.approx(one.metric_scores_[metric], rel=1e-12)
    for column in ("std_logme", "rank_hscore", "n_features"):
        np.testing.assert_allclose(one.cv_results_[column], two.cv_results_[column], rtol=1e-6)


def test_state_of_the_process_is_left_alone():
    torch = pytest.importorskip("torch")

    def state():
        return (
            list(warnings.filters),
            warnings.showwarning,
            random.getstate(),
            pickle.dumps(np.random.get_state()),  # noqa: NPY002
            pickle.dumps(np.geterr()),
            torch.get_rng_state().tolist(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            logging.getLogger().level,
            sklearn.get_config(),
        )

    before = state()
    TransferabilitySelector(candidates(), metric=["logme", "hscore"], cv=3).fit(X, Y)
    TransferabilitySelector(candidates(), n_jobs=2).fit(X, Y)
    assert state() == before


@pytest.mark.parametrize("keep", [True, False])
def test_which_fitted_candidates_are_kept(keep):
    for cv in (None, 2):
        selector = TransferabilitySelector(candidates(), keep_candidates=keep, cv=cv).fit(X, Y)
        assert list(selector.candidates_) == (["pca", "white", "narrow"] if keep else ["pca"])
        assert selector.candidates_.pca is selector.best_estimator_
        for candidate in selector.candidates_.values():
            assert candidate.transform(X).shape[0] == 150
        # fitted on all samples, whatever was scored
        np.testing.assert_allclose(selector.best_estimator_.mean_, X.mean(axis=0))


def test_features_of_few_candidates_are_in_memory_at_a_time():
    alive, most = [0], [0]

    class Tracked(np.ndarray):
        def __del__(self):
            alive[0] -= self.base is None or not isinstance(self.base, Tracked)

    class Wide(Counting):
        def _features(self, X):
            alive[0] += 1
            most[0] = max(most[0], alive[0])
            features = np.empty((len(X), 3)).view(Tracked)
            features[:] = super()._features(X)
            return features

    nets = [(f"net{i}", Wide(f"net{i}", 3 + i)) for i in range(12)]
    selector = TransferabilitySelector([(n, Wide(n, 3)) for n, _ in nets], metric="hscore")
    selector.fit(X, Y)
    assert len(selector.scores_) == 12
    assert most[0] <= 3  # the leader, the one being run, and one on its way out


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_nce_and_leep_agree_on_hard_outputs():
    class Hard(Counting):
        def extract(self, X):
            features, probabilities = super().extract(X)
            return features, np.eye(2)[probabilities.argmax(axis=1)]

    selector = TransferabilitySelector([("net", Hard())], metric=[NCE(), LEEP()]).fit(X, Y)
    scores = selector.metric_scores_
    assert scores["nce"]["net"] == pytest.approx(scores["leep"]["net"], abs=1e-12)


def test_min_max_scaler_is_a_candidate_among_others():
    # An option must reach every candidate, not only the first.
    given = [("a", MinMaxScaler()), ("b", MinMaxScaler()), ("c", MinMaxScaler())]
    selector = TransferabilitySelector(given, metric=LogME(tol=1e-3), cv=2).fit(X, Y)
    assert len(set(selector.scores_.values())) == 1
