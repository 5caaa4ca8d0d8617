"""The public checks pass metrics that keep the contract, and catch one broken promise each."""

import random
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import EstimatorCheckFailedWarning
from sklearn.utils.validation import check_is_fitted, check_X_y

from sktransfer.exceptions import TransferabilityWarning
from sktransfer.metrics import LEEP, NCE, NCTI, HScore, LinearProbe, TransferabilityMetric
from sktransfer.utils.estimator_checks import check_transferability_metric


class Right(BaseEstimator):
    """The share of variance between the class means, with nothing of this package in it."""

    needs = "features"
    bounds = (0.0, 1.0)
    tasks = ("classification",)
    relative_to_pool = False

    def __init__(self, power=1):
        self.power = power

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def validate(self, X, y):
        return check_X_y(X, np.ravel(y), dtype=np.float64)

    def refuse(self, y):
        if len(np.unique(y)) < 2:
            raise ValueError("at least 2 classes are required; got 1 class.")

    def share(self, X, y, weight):
        unit = np.abs(X).max()
        X = X / unit if unit > 0 else X
        centred = X - np.average(X, axis=0, weights=weight)
        total = (weight[:, None] * centred**2).sum()
        between = sum(
            weight[y == label].sum()
            * np.square(np.average(centred[y == label], axis=0, weights=weight[y == label])).sum()
            for label in np.unique(y)
        )
        return float(np.clip(between / total, 0.0, 1.0)) if total > 0 else 0.0

    def fit(self, X, y, sample_weight=None):
        self.batches_ = []
        X, y = self.validate(X, y)
        self.refuse(y)
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X, y, sample_weight=None):
        X, y = self.validate(X, y)
        weight = np.ones(len(y)) if sample_weight is None else np.array(sample_weight, dtype=float)
        self.batches_ = [*getattr(self, "batches_", []), (X[weight > 0], y[weight > 0])]
        self.weights_ = [*(getattr(self, "weights_", []) if self.batches_[1:] else [])]
        self.weights_.append(weight[weight > 0])
        X, y = (np.concatenate(parts) for parts in zip(*self.batches_, strict=True))
        self.score_ = self.share(X, y, np.concatenate(self.weights_))
        return self

    def score(self, X, y):
        check_is_fitted(self)
        return clone(self).fit(X, y).score_

    @classmethod
    def pool_scores(cls, fitted_metrics):
        return np.array([np.nan if one is None else one.score_ for one in fitted_metrics])


class WrongNeeds(Right):
    needs = "pictures"


class NoTasks(Right):
    tasks = "classification"


class ReversedBounds(Right):
    bounds = (1.0, 0.0)


class OneBound(Right):
    bounds = (0.0,)


class PoolOfStrings(Right):
    relative_to_pool = "no"


class Infinite(Right):
    bounds = (-np.inf, np.inf)

    def share(self, X, y, weight):
        return float("inf")


class SaysNothing(Right):
    def share(self, X, y, weight):
        if np.ptp(X) == 0:
            raise ValueError("no")
        return super().share(X, y, weight)


class ForgetsItsScore(Right):
    def score(self, X, y):
        check_is_fitted(self)
        result, self.score_ = clone(self).fit(X, y).score_, 0.0
        return result


class TightBounds(Right):
    bounds = (0.0, 0.1)


class NumpyScore(Right):
    def share(self, X, y, weight):
        return np.float64(super().share(X, y, weight))


class ReturnsNothing(Right):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)


class SilentNaN(Right):
    def share(self, X, y, weight):
        return super().share(X, y, weight) if np.ptp(X) > 0 else float("nan")


class DividesByZero(Right):
    def share(self, X, y, weight):
        return super().share(X, y, weight) * float(np.ptp(X) / np.ptp(X))


class Singular(Right):
    def share(self, X, y, weight):
        np.linalg.inv(X.T @ X)
        return super().share(X, y, weight)


class Unseeded(Right):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def share(self, X, y, weight):
        noise = 1e-3 * np.random.default_rng(self.random_state).random()
        return super().share(X, y, weight) * (1 - noise)


class Remembers(Right):
    def score(self, X, y):
        check_is_fitted(self)
        return max(self.score_, clone(self).fit(X, y).score_)


class WarmStart(Right):
    def share(self, X, y, weight):
        self.best_ = max(getattr(self, "best_", 0.0), super().share(X, y, weight))
        return self.best_


class ScoresUnfitted(Right):
    def score(self, X, y):
        return clone(self).fit(X, y).score_


class AccessesUnfitted(Right):
    def score(self, X, y):
        return clone(self).fit(X, y).score_ + 0 * self.score_


class ChangesParameters(Right):
    def fit(self, X, y, sample_weight=None):
        self.power = 2
        return super().fit(X, y, sample_weight)


class Unpicklable(Right):
    def fit(self, X, y, sample_weight=None):
        self.function_ = lambda: None
        return super().fit(X, y, sample_weight)


class ReadsLabelsAsNumbers(Right):
    def share(self, X, y, weight):
        numbers = np.unique(y, return_inverse=True)[1]
        return super().share(X, y, weight) * (1 - 0.01 * numbers[X[:, 0].argmax()])


class CountsGaps(Right):
    def share(self, X, y, weight):
        n_classes = len(np.unique(y)) if y.dtype.kind not in "iu" else int(y.max()) + 1
        return super().share(X, y, weight) / max(n_classes, 1)


class AcceptsOneClass(Right):
    def refuse(self, y):
        pass


class SaysNothingOfOneClass(Right):
    def refuse(self, y):
        if len(np.unique(y)) < 2:
            raise ValueError("the target y is wrong.")


class LowerIsBetter(Right):
    def share(self, X, y, weight):
        return 1.0 - super().share(X, y, weight)


class Constant(Right):
    def share(self, X, y, weight):
        return 0.5


class FirstHalf(Right):
    def share(self, X, y, weight):
        half = len(y) // 2 + 1
        return super().share(X[:half], y[:half], weight[:half])


class HalfPrecision(Right):
    def validate(self, X, y):
        lossy = np.asarray(X).dtype == np.float32
        X, y = super().validate(X, y)
        return (np.round(X, 0) if lossy else X), y


class ReadsMemoryOrder(Right):
    def validate(self, X, y):
        first = np.ravel(np.asarray(X), order="K")[:7].sum()
        X, y = super().validate(X, y)
        return X * (1 + (np.arange(X.shape[1]) == int(first) % 6)), y


class InPlace(Right):
    def validate(self, X, y):
        X = np.asarray(X)
        X -= X.mean(axis=0)
        return super().validate(X, y)


class InPlaceWhereAllowed(Right):
    def validate(self, X, y):
        X = np.asarray(X)
        if X.flags.writeable:
            X -= X.mean(axis=0)
        return super().validate(X, y)


class ReplacesNaN(Right):
    def validate(self, X, y):
        return super().validate(np.nan_to_num(X, posinf=0), y)


class SeedsGlobally(Right):
    def share(self, X, y, weight):
        np.random.seed(0)  # noqa: NPY002
        return super().share(X, y, weight)


class SilencesWarnings(Right):
    def share(self, X, y, weight):
        warnings.simplefilter("ignore")
        return super().share(X, y, weight)


class SetsErrorState(Right):
    def share(self, X, y, weight):
        np.seterr(divide="ignore")
        return super().share(X, y, weight)


class SeedsPython(Right):
    def share(self, X, y, weight):
        random.seed(0)
        return super().share(X, y, weight)


class AbsoluteWeights(Right):
    def share(self, X, y, weight):
        return super().share(X, y, weight) * float(weight.sum() / (weight.sum() + 1))


class IgnoresWeights(Right):
    def share(self, X, y, weight):
        return super().share(X, y, np.ones(len(y)))


class CountsAbsentSamples(Right):
    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            sample_weight = np.maximum(sample_weight, 1e-3 * np.max(sample_weight))
        return super().fit(X, y, sample_weight)


class LastBatchOnly(Right):
    def partial_fit(self, X, y, sample_weight=None):
        self.batches_ = []
        return super().partial_fit(X, y, sample_weight)


class NoFailures(Right):
    @classmethod
    def pool_scores(cls, fitted_metrics):
        return np.array([one.score_ for one in fitted_metrics])


class FailuresAreZero(Right):
    @classmethod
    def pool_scores(cls, fitted_metrics):
        return np.array([0.0 if one is None else one.score_ for one in fitted_metrics])


class OnlyTheBest(Right):
    @classmethod
    def pool_scores(cls, fitted_metrics):
        return super().pool_scores(fitted_metrics)[:1]


class EmptyPoolIsZero(Right):
    @classmethod
    def pool_scores(cls, fitted_metrics):
        scores = super().pool_scores(fitted_metrics)
        return scores if np.isfinite(scores).any() else np.zeros(len(scores))


class SecretlyRelative(Right):
    @classmethod
    def pool_scores(cls, fitted_metrics):
        scores = super().pool_scores(fitted_metrics)
        return scores - np.nanmean(scores) if np.isfinite(scores).any() else scores


WRONG = [
    (WrongNeeds, "check_class_attributes"),
    (NoTasks, "check_class_attributes"),
    (ReversedBounds, "check_class_attributes"),
    (OneBound, "check_class_attributes"),
    (PoolOfStrings, "check_class_attributes"),
    (Infinite, "check_score_is_a_finite_float_within_bounds"),
    (SaysNothing, "check_degenerate_data_have_a_score_or_a_reason"),
    (ForgetsItsScore, "check_score_repeats_the_score_of_fit"),
    (OnlyTheBest, "check_pools_leave_failed_candidates_out"),
    (EmptyPoolIsZero, "check_pools_leave_failed_candidates_out"),
    (TightBounds, "check_score_is_a_finite_float_within_bounds"),
    (NumpyScore, "check_score_is_a_finite_float_within_bounds"),
    (ReturnsNothing, "check_score_is_a_finite_float_within_bounds"),
    (SilentNaN, "check_degenerate_data_have_a_score_or_a_reason"),
    (DividesByZero, "check_degenerate_data_have_a_score_or_a_reason"),
    (Singular, "check_degenerate_data_have_a_score_or_a_reason"),
    (Unseeded, "check_score_repeats_the_score_of_fit"),
    (Remembers, "check_score_uses_nothing_that_was_fitted"),
    (WarmStart, "check_score_uses_nothing_that_was_fitted"),
    (ScoresUnfitted, "check_score_before_fit_is_refused"),
    (AccessesUnfitted, "check_score_before_fit_is_refused"),
    (ChangesParameters, "check_clones_and_pickles_do_the_same"),
    (Unpicklable, "check_clones_and_pickles_do_the_same"),
    (ReadsLabelsAsNumbers, "check_only_the_partition_matters"),
    (CountsGaps, "check_a_class_absent_from_a_subset_leaves_no_trace"),
    (AcceptsOneClass, "check_one_class_is_refused"),
    (SaysNothingOfOneClass, "check_one_class_is_refused"),
    (LowerIsBetter, "check_informative_input_beats_shuffled_labels"),
    (Constant, "check_informative_input_beats_shuffled_labels"),
    (FirstHalf, "check_order_of_the_samples_does_not_matter"),
    (HalfPrecision, "check_precision_and_layout_do_not_matter"),
    (ReadsMemoryOrder, "check_precision_and_layout_do_not_matter"),
    (InPlace, "check_read_only_and_memory_mapped_input"),
    (InPlaceWhereAllowed, "check_input_is_never_changed"),
    (ReplacesNaN, "check_missing_and_infinite_values_are_refused"),
    (SeedsGlobally, "check_nothing_global_is_touched"),
    (SeedsPython, "check_nothing_global_is_touched"),
    (SilencesWarnings, "check_nothing_global_is_touched"),
    (SetsErrorState, "check_nothing_global_is_touched"),
    (AbsoluteWeights, "check_weights_are_relative"),
    (IgnoresWeights, "check_weights_are_relative"),
    (CountsAbsentSamples, "check_weights_are_relative"),
    (LastBatchOnly, "check_batches_give_the_score_of_the_whole"),
    (NoFailures, "check_pools_leave_failed_candidates_out"),
    (FailuresAreZero, "check_pools_leave_failed_candidates_out"),
    (SecretlyRelative, "check_pools_leave_failed_candidates_out"),
]


@pytest.fixture(autouse=True)
def global_state_restored():
    """Some of the metrics below change what is global; that is what they are here for."""
    numpy_state, error_state = np.random.get_state(), np.geterr()  # noqa: NPY002
    python_state = random.getstate()
    yield
    random.setstate(python_state)
    np.random.set_state(numpy_state)  # noqa: NPY002
    np.seterr(**error_state)


def failed(metric):
    results = check_transferability_metric(metric, on_fail=None)
    return {result["check_name"] for result in results if result["status"] == "failed"}


def test_a_metric_that_keeps_the_contract_passes_every_check():
    metric = Right()
    results = check_transferability_metric(metric)
    assert {result["status"] for result in results} == {"passed"}
    assert len(results) == 20
    for result in results:
        assert result["estimator"] is metric
        assert result["exception"] is None
    assert vars(metric) == {"power": 1}


@pytest.mark.parametrize(
    "metric",
    [LEEP(), NCE(), HScore(), NCTI(n_permutations=1), LinearProbe(random_state=None)],
    ids=repr,
)
def test_metrics_of_every_kind_of_input_pass(metric):
    results = check_transferability_metric(metric)
    statuses = [result["status"] for result in results]
    assert set(statuses) <= {"passed", "skipped"}
    assert statuses.count("passed") >= 18
    skipped = [result for result in results if result["status"] == "skipped"]
    assert all(str(result["exception"]) for result in skipped)


class Fit(TransferabilityMetric):
    """Share of the variance of numbers that a linear model explains."""

    bounds = (0.0, 1.0)

    def _fit(self, X, target, sample_weight):
        t = target.outputs - target.outputs.mean(axis=0)
        unit = np.abs(X).max() or 1.0
        centred = X / unit - (X / unit).mean(axis=0)
        left, roots, _ = np.linalg.svd(centred, full_matrices=False)
        left = left[:, roots > 1e-10]
        explained, total = np.square(left.T @ t).sum(), np.square(t).sum()
        self.score_ = float(np.clip(explained / total, 0, 1)) if total > 0 else 0.0


class RegressionFit(Fit):
    tasks = ("regression",)


class MultilabelFit(Fit):
    tasks = ("multilabel",)


@pytest.mark.parametrize("metric", [RegressionFit(), MultilabelFit()], ids=repr)
def test_metrics_of_other_targets_are_checked_on_these(metric):
    results = check_transferability_metric(metric)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped == {
        "check_only_the_partition_matters",
        "check_a_class_absent_from_a_subset_leaves_no_trace",
        "check_one_class_is_refused",
        "check_weights_are_relative",
        "check_batches_give_the_score_of_the_whole",
    }


class LabelFree(Right):
    """How far the first column spreads beside the others."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def refuse(self, y):
        pass

    def share(self, X, y, weight):
        return super().share(X, (X[:, 0] > 0).astype(int), weight)


def test_what_is_about_the_labels_is_not_asked_of_a_metric_without_them():
    results = {r["check_name"]: r["status"] for r in check_transferability_metric(LabelFree())}
    assert results["check_one_class_is_refused"] == "skipped"
    assert results["check_informative_input_beats_shuffled_labels"] == "skipped"


@pytest.mark.parametrize(("kind", "check"), WRONG, ids=[kind.__name__ for kind, _ in WRONG])
def test_a_broken_promise_is_caught(kind, check):
    assert check in failed(kind())


def test_a_missing_class_attribute_is_named():
    class Bare(BaseEstimator):
        needs = "features"

    with pytest.raises(AssertionError, match="Bare has no class attribute 'bounds'"):
        check_transferability_metric(Bare())


def test_nan_or_a_refusal_with_a_reason_is_as_good_as_a_score():
    class Announced(Right):
        def share(self, X, y, weight):
            if np.ptp(X) == 0:
                warnings.warn("The features are constant.", UserWarning, stacklevel=2)
                return float("nan")
            return super().share(X, y, weight)

    class Refused(Right):
        def share(self, X, y, weight):
            if np.ptp(X) == 0:
                raise ValueError("The features are constant.")
            return super().share(X, y, weight)

    assert failed(Announced()) == failed(Refused()) == set()


def test_a_class_that_no_module_holds_is_copied_instead_of_pickled():
    class Local(Right):
        pass

    assert failed(Local()) == set()


def test_torch_is_watched_where_it_is_loaded():
    torch = pytest.importorskip("torch")

    class SeedsTorch(Right):
        def share(self, X, y, weight):
            torch.manual_seed(0)
            return super().share(X, y, weight)

    before = torch.random.get_rng_state()
    assert failed(Right()) == set()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert failed(SeedsTorch()) == {"check_nothing_global_is_touched"}


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (LowerIsBetter, AssertionError, "must score higher than the same with shuffled"),
        (NumpyScore, AssertionError, "must be a Python float; got float64"),
        (WrongNeeds, AssertionError, "needs must be one of features"),
        (Singular, np.linalg.LinAlgError, "Singular"),
        (InPlace, ValueError, "read-only"),
    ],
)
def test_the_first_failure_is_raised(kind, error, words):
    with pytest.raises(error, match=words):
        check_transferability_metric(kind())


def test_failures_can_be_warnings():
    with pytest.warns(EstimatorCheckFailedWarning, match="informative_input") as caught:
        results = check_transferability_metric(LowerIsBetter(), on_fail="warn")
    (failure,) = [result for result in results if result["status"] == "failed"]
    assert failure["exception"] is caught[0].message.exception
    assert isinstance(failure["exception"], AssertionError)


def test_a_class_or_a_wrong_option_is_refused():
    with pytest.raises(TypeError, match=r"got the class Right, write Right\(\)"):
        check_transferability_metric(Right)
    with pytest.raises(ValueError, match="on_fail must be 'raise', 'warn' or None; got 'ignore'"):
        check_transferability_metric(Right(), on_fail="ignore")


def test_no_announcement_of_the_metric_reaches_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransferabilityWarning)
        check_transferability_metric(HScore())
