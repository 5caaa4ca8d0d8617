"""Metrics as ``scoring`` of scikit-learn's searches."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sktransfer.metrics import LEEP, NCE, HScore, LogME
from sktransfer.model_selection import TransferabilitySelector, make_transferability_scorer

X, Y = load_iris(return_X_y=True)
ALL = [(np.arange(150), np.arange(150))]
FEATURES = PCA(2).fit_transform(X)
SOURCE = (X[:, 0] > 5.8).astype(int)  # a binary source task
HEAD = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, SOURCE))
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


class Source(TransformerMixin, BaseEstimator):
    """A backbone with a binary source head."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.tanh(X)

    def predict_proba(self, X):
        return HEAD.predict_proba(X)


class SourceOutputs(Source):
    """Its outputs are its features, so that LEEP can be the last step of a pipeline."""

    def transform(self, X):
        return self.predict_proba(X)


@pytest.mark.parametrize(
    "estimator",
    [
        PCA(2),
        make_pipeline(PCA(2)),
        make_pipeline("passthrough", PCA(2)),
        make_pipeline(PCA(2), "passthrough"),
        Pipeline([("pca", PCA(2)), ("nothing", None)]),
        make_pipeline(PCA(2), GaussianNB()),
        make_pipeline(PCA(2), LinearDiscriminantAnalysis()),  # it has transform, but it is a head
        make_pipeline(PCA(2), Ridge()),
        make_pipeline(PCA(2), LogME()),
        make_pipeline(PCA(2), HScore()),
        TransferabilitySelector([("a", PCA(2)), ("b", PCA(1))]),
        GridSearchCV(PCA(), {"n_components": [2]}),
    ],
    ids=lambda estimator: str(estimator).replace("\n", "")[:40],
)
@pytest.mark.parametrize("metric", ["logme", HScore()])
def test_features_are_scored(estimator, metric):
    scorer = make_transferability_scorer(metric)
    score = scorer(estimator.fit(X, Y), X, Y)
    expected = LogME() if metric == "logme" else metric
    assert type(score) is float
    assert score == pytest.approx(expected.fit(FEATURES, Y).score_, rel=1e-9)


def test_a_last_step_that_transforms_is_part_of_the_backbone():
    model = make_pipeline(StandardScaler(), KMeans(3, random_state=0)).fit(X)
    score = make_transferability_scorer()(model, X, Y)
    assert score == pytest.approx(LogME().fit(model.transform(X), Y).score_, rel=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        Source(),
        HEAD,
        make_pipeline("passthrough", Source()),
        make_pipeline(Source(), GaussianNB()),
        make_pipeline(SourceOutputs(), LEEP()),
    ],
    ids=["backbone", "frozen", "pipeline", "head", "metric"],
)
@pytest.mark.parametrize("metric", [LEEP(), NCE()])
def test_source_probabilities_of_a_binary_head_are_scored_whole(estimator, metric):
    scorer = make_transferability_scorer(metric)
    expected = metric.fit(HEAD.predict_proba(X), Y).score_
    assert scorer(estimator.fit(X, Y), X, Y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "metric, estimator, message",
    [
        ("logme", GaussianNB(), "needs features, but GaussianNB"),
        ("leep", PCA(2), "needs source probabilities, but PCA has no step with 'predict_proba'"),
        ("leep", make_pipeline(PCA(2), GaussianNB()), "needs source probabilities"),
        ("logme", make_pipeline(LogME()), "needs features, but Pipeline"),
    ],
)
def test_estimators_that_do_not_give_what_the_metric_needs(metric, estimator, message):
    with pytest.raises(TypeError, match=message):
        make_transferability_scorer(metric)(estimator.fit(X, Y), X, Y)


def test_wrong_features_are_refused():
    class Bad(Source):
        def transform(self, X):
            return X[1:]

    with pytest.raises(ValueError, match="149 rows of features for 150 samples"):
        make_transferability_scorer()(Bad().fit(X), X, Y)
    with pytest.raises(ValueError, match="got 1 class"):
        make_transferability_scorer()(PCA(2).fit(X), X[:50], Y[:50])


def test_metrics_relative_to_a_pool_are_refused():
    class Relative(LogME):
        relative_to_pool = True

    with pytest.raises(ValueError, match="Relative ranks candidates relative to each other"):
        make_transferability_scorer(Relative())


@pytest.mark.parametrize(
    "metric, error, message",
    [("logm", ValueError, "logme"), (3, TypeError, "3"), (LogME, TypeError, "LogME")],
)
def test_wrong_metrics(metric, error, message):
    with pytest.raises(error, match=message):
        make_transferability_scorer(metric)


def test_repr_and_pickle():
    metric = LogME(tol=1e-3)
    scorer = make_transferability_scorer(metric)
    assert repr(scorer) == "make_transferability_scorer(LogME(tol=0.001))"
    copy = pickle.loads(pickle.dumps(scorer))
    pca = PCA(2).fit(X)
    assert copy(pca, X, Y) == scorer(pca, X, Y)
    metric.tol = 1e-1  # the scorer has a copy
    assert "0.001" in repr(scorer)
    assert not hasattr(scorer.metric, "score_")


def pipeline():
    return Pipeline([("backbone", PCA(2)), ("head", GaussianNB())])


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("routing", [False, True])
def test_grid_search_over_backbones(n_jobs, routing):
    grid = {"backbone": [PCA(1), PCA(2), StandardScaler()]}
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(
            pipeline(), grid, scoring=make_transferability_scorer("hscore"), cv=ALL, n_jobs=n_jobs
        ).fit(X, Y)
    expected = [HScore().fit(b.fit_transform(X), Y).score_ for b in grid["backbone"]]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-9)
    assert isinstance(search.best_params_["backbone"], StandardScaler)
    selector = TransferabilitySelector(
        [("one", PCA(1)), ("two", PCA(2)), ("scaled", StandardScaler())], "hscore"
    ).fit(X, Y)
    np.testing.assert_allclose(list(selector.scores_.values()), expected, rtol=1e-9)


@pytest.mark.parametrize("routing", [False, True])
def test_several_scorers_at_once(routing):
    scoring = {
        "logme": make_transferability_scorer("logme"),
        "hscore": make_transferability_scorer(HScore(shrinkage=0.1)),
        "accuracy": "accuracy",
    }
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(
            pipeline(), {"backbone__n_components": [1, 2]}, scoring=scoring, refit="logme", cv=FOLDS
        ).fit(X, Y)
        result = cross_validate(pipeline(), X, Y, scoring=scoring, cv=FOLDS, n_jobs=2)
    assert search.best_params_ == {"backbone__n_components": 2}
    for name in scoring:
        assert np.isfinite(result[f"test_{name}"]).all()
    train, test = next(FOLDS.split(X, Y))
    expected = LogME().fit(PCA(2).fit(X[train]).transform(X[test]), Y[test]).score_
    assert result["test_logme"][0] == pytest.approx(expected, rel=1e-9)


def test_metric_as_the_last_step_of_the_searched_pipeline():
    model = Pipeline([("backbone", PCA()), ("metric", LogME())])
    grid = {"backbone__n_components": [1, 2], "metric__tol": [1e-6, 1e-3]}
    by_scorer = GridSearchCV(model, grid, scoring=make_transferability_scorer("logme"), cv=ALL)
    by_metric = GridSearchCV(model, grid, cv=ALL)
    np.testing.assert_allclose(
        by_scorer.fit(X, Y).cv_results_["mean_test_score"],
        by_metric.fit(X, Y).cv_results_["mean_test_score"],
        rtol=1e-3,
    )
    scores = cross_val_score(model, X, Y, scoring=make_transferability_scorer(), cv=FOLDS)
    assert np.isfinite(scores).all()
