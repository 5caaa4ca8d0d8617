"""HalvingTransferabilitySelector as an estimator of scikit-learn: checks, types, names and uses."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

pytest.importorskip("torch")

from sktransfer.backbones import TinyZooBackbone
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor
from sktransfer.model_selection import HalvingTransferabilitySelector, TransferabilitySelector

# Data of the checks are random, so metrics may say that a score carries no information. That nobody
# was trained is no such thing: it would be an error here.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.NoiseFloorWarning",
)

CANDIDATES = [("pca", PCA(1)), ("std", StandardScaler())]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=40) > 0).astype(int)
VALUES = X[:, 0] + 0.1


def race(kind=FineTuneClassifier, candidates=CANDIDATES, **parameters):
    """A race that is short, and takes place: an epoch of the head costs next to nothing."""
    template = kind(None, train="head", max_epochs=1, head_lr=0.3, batch_size=16)
    settings = {
        "estimator": template,
        "metric": "hscore" if kind is FineTuneClassifier else "linearprobe",
        "budget": 1.0,
        "cv": ShuffleSplit(1, test_size=0.25, random_state=0),
    }
    return HalvingTransferabilitySelector(candidates, **settings | parameters)


@pytest.fixture(scope="module")
def fitted():
    return race().fit(X, Y)


# -- scikit-learn's checks -------------------------------------------------------------------------

EXTRA_CHECKS = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_get_feature_names_out_error",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_inplace_ensure_writeable",
]


@pytest.mark.parametrize(("refit", "n_checks"), [(True, 61), (False, 48)])
def test_every_check_is_executed_and_passes(refit, n_checks):
    results = estimator_checks.check_estimator(
        race(refit=refit), on_skip=None, on_fail=None, expected_failed_checks={}
    )
    assert [
        (r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"
    ] == []
    assert len(results) == n_checks


@pytest.mark.parametrize(
    "check", ["check_regressors_train", "check_regressor_multioutput", "check_estimators_nan_inf"]
)
def test_checks_of_regressors(check):
    getattr(estimator_checks, check)("HalvingTransferabilitySelector", race(FineTuneRegressor))


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize("name", EXTRA_CHECKS)
def test_extra_checks(name):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    # What is fine-tuned in the end has columns of its own to remember.
    refit = name == "check_dataframe_column_names_consistency"
    partial(getattr(estimator_checks, name), "HalvingTransferabilitySelector")(race(refit=refit))


@pytest.mark.parametrize("n_samples", [20, 40])
@pytest.mark.parametrize("kind", [FineTuneClassifier, FineTuneRegressor])
def test_candidates_are_trained_in_these_checks(kind, n_samples):
    y = Y if kind is FineTuneClassifier else VALUES
    found = race(kind, refit=False).fit(X[:n_samples], y[:n_samples])
    assert found.n_rounds_ == 1
    assert np.isfinite(list(found.scores_.values())).all()


# -- what kind of estimator it is ------------------------------------------------------------------


def test_its_type_follows_the_template():
    assert is_classifier(race()) and not is_regressor(race())
    assert is_regressor(race(FineTuneRegressor))
    assert not is_classifier(race(refit=False)) and not is_regressor(race(refit=False))
    # Without one, the target decides; until then folds may be stratified where there are classes.
    assert is_classifier(race(estimator=None))
    assert not is_classifier(race(estimator=None, refit=False))


def test_without_a_template_the_target_decides():
    images = RNG.integers(0, 255, size=(8, 8, 8), dtype=np.uint8)
    zoo = [(name, TinyZooBackbone(name)) for name in ("letters_half", "cells_half")]
    found = HalvingTransferabilitySelector(zoo, budget=0.01)
    with pytest.warns(match="No candidate was trained"):
        found.fit(images, VALUES[:8])
    assert is_regressor(found) and isinstance(found.best_estimator_, FineTuneRegressor)
    assert not hasattr(found, "classes_") and not hasattr(found, "predict_proba")


def test_classes_are_those_of_the_winner(fitted):
    assert fitted.classes_.tolist() == [0, 1]
    assert not hasattr(race(), "classes_")
    assert not hasattr(race(refit=False).fit(X, Y), "classes_")
    assert not hasattr(race(FineTuneRegressor).fit(X, VALUES), "classes_")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (lambda y: y.tolist(), [0, 1]),
        (lambda y: (y > 0).tolist(), [False, True]),
        (lambda y: np.array(["no", "yes"])[y].tolist(), ["no", "yes"]),
        (lambda y: np.array(["no", "yes"], dtype=object)[y], ["no", "yes"]),
        (lambda y: pytest.importorskip("pandas").Series(y, index=y.cumsum()), [0, 1]),
    ],
    ids=["list", "bools", "strings", "objects", "series"],
)
def test_labels_of_any_type_and_rows_in_a_list(labels, expected, fitted):
    found = race().fit(X.tolist(), labels(Y))
    assert found.classes_.tolist() == expected
    assert found.scores_ == fitted.scores_
    codes = [expected.index(label) for label in found.predict(X.tolist()).tolist()]
    assert codes == fitted.predict(X).tolist()


# -- names and shapes ------------------------------------------------------------------------------


def test_names_of_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = race().set_output(transform="pandas").fit(frame, Y)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"] and found.n_features_in_ == 3
    features = found.transform(frame)
    assert features.columns.tolist() == found.get_feature_names_out().tolist()
    pd.testing.assert_frame_equal(
        features, race().set_output(transform="pandas").fit_transform(frame, Y)
    )
    for method in (found.predict, found.predict_proba, found.transform):
        with pytest.raises(ValueError, match="feature names should match"):
            method(frame[["b", "a", "c"]])
    # Another fit knows nothing of them.
    assert not hasattr(found.fit(X, Y), "feature_names_in_")


def test_features_are_those_of_the_selector(fitted):
    selector = TransferabilitySelector(CANDIDATES, "hscore").fit(X, Y)
    name = fitted.best_name_
    expected = selector.candidates_[name].transform(X)
    assert np.array_equal(fitted.transform(X), expected)
    names = selector.candidates_[name].get_feature_names_out()
    assert fitted.get_feature_names_out().tolist() == names.tolist()


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform"])
def test_other_widths_and_no_fit_are_refused(method, fitted):
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3 features"):
        getattr(fitted, method)(X[:, :2])
    with pytest.raises(NotFittedError):
        getattr(race(), method)(X)


def test_sparse_data_are_refused_before_any_work():
    class Never(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            raise AssertionError("work has begun")

        def transform(self, X):
            raise AssertionError("work has begun")

    found = race(candidates=[("never", Never())])
    with pytest.raises(TypeError, match="'X' must be dense, .* sparse csr_array of shape"):
        found.fit(csr_array(X), Y)
    with pytest.raises(TypeError, match="'X_val' must be dense"):
        found.set_params(cv=None).fit(X, Y, X_val=csr_array(X), y_val=Y)


# -- inside other estimators -----------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", None])
def test_scores_of_cross_validation(scoring):
    scores = cross_val_score(race(), X, Y, cv=2, scoring=scoring, error_score="raise")
    assert np.isfinite(scores).all()


def test_scores_of_cross_validation_are_those_by_hand():
    split = [(np.arange(30), np.arange(30, 40))]
    (score,) = cross_val_score(race(), X, Y, cv=split, scoring="roc_auc")
    trained = race().fit(X[:30], Y[:30])
    positive, negative = (trained.predict_proba(X[30:])[Y[30:] == c, 1] for c in (1, 0))
    assert score == pytest.approx(np.mean(positive[:, None] > negative))
    template = race(FineTuneRegressor)
    (score,) = cross_val_score(template, X, VALUES, cv=split, scoring="r2")
    left = VALUES[30:] - template.fit(X[:30], VALUES[:30]).predict(X[30:])
    assert score == pytest.approx(1 - np.mean(left**2) / np.var(VALUES[30:]))


def test_a_search_over_its_budget_and_candidates():
    grid = {"budget": [1.0, 1.5], "pca__n_components": [2]}
    search = GridSearchCV(race(), grid, cv=2, scoring="roc_auc", error_score="raise")
    search.fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == (40,) and search.classes_.tolist() == [0, 1]


def test_in_pipelines(fitted):
    last = make_pipeline(StandardScaler(), race()).fit(X, Y)
    assert last.predict_proba(X).shape == (40, 2) and last.classes_.tolist() == [0, 1]
    assert last.score(X, Y) == np.mean(last.predict(X) == Y)
    first = make_pipeline(race(refit=False), LogisticRegression()).fit(X, Y)
    features = fitted.transform(X)
    alone = LogisticRegression().fit(features, Y)
    assert np.array_equal(first.predict_proba(X), alone.predict_proba(features))


def test_copies(fitted):
    kept = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(kept.predict_proba(X), fitted.predict_proba(X))
    assert kept.history_["reason"].tolist() == fitted.history_["reason"].tolist()
    copy = clone(fitted)
    assert not hasattr(copy, "best_name_")
    assert copy.fit(X, Y).ranking_ == fitted.ranking_
    assert "std" in copy._repr_html_() and "std" in race()._repr_html_()


def test_a_second_fit_forgets_the_first():
    labels = np.array(["a", "b", "c"])[np.arange(40) % 3]
    found = race().fit(X[:, :2], labels)
    first = race().fit(X, Y)
    again = found.fit(X, Y)
    assert again.classes_.tolist() == [0, 1] and again.n_features_in_ == 3
    assert again.scores_ == first.scores_ and again.history_.keys() == first.history_.keys()
    found.set_params(refit=False).fit(X, Y)
    assert not hasattr(found, "best_estimator_") and not hasattr(found, "classes_")


def test_data_and_candidates_stay_as_they_are():
    pd = pytest.importorskip("pandas")
    frame, labels = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(Y)
    before, candidates = (frame.copy(), labels.copy()), [(n, clone(c)) for n, c in CANDIDATES]
    found = race(candidates=candidates).fit(frame, labels)
    found.predict(frame)
    pd.testing.assert_frame_equal(frame, before[0])
    pd.testing.assert_series_equal(labels, before[1])
    assert found.candidates is candidates
    assert not any(hasattr(c, "n_features_in_") for _, c in candidates)


# -- the measure -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "by", "judged_by"),
    [
        (None, "LogME()", "accuracy"),
        ("balanced_accuracy", "LinearProbe(class_weight='balanced')", "balanced_accuracy"),
        ("roc_auc", "LinearProbe(scoring='roc_auc_ovr')", "roc_auc"),
    ],
)
def test_the_target_measure_chooses_metric_and_validation(measure, by, judged_by):
    data = X[:24], Y[:24]
    found = race(metric="auto", target_measure=measure, refit=False).fit(*data)
    assert found.selector_.metric_.task == "classification"
    assert repr(clone(found.selector_.metric_).set_params(task="auto")) == by
    other = race(metric=found.selector_.metric_, scoring=judged_by, refit=False).fit(*data)
    assert found.scores_ == pytest.approx(other.scores_)


def test_a_measure_of_classes_is_refused_for_values():
    with pytest.raises(ValueError, match="target_measure='roc_auc' is defined for classification"):
        race(FineTuneRegressor, target_measure="roc_auc").fit(X, VALUES)
    assert HalvingTransferabilitySelector(CANDIDATES).metric == "auto"
    changed = HalvingTransferabilitySelector(CANDIDATES).set_params(metric__tol=1e-3)
    assert changed.get_params()["metric__tol"] == 1e-3
