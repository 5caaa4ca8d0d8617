"""Made-up problems on which a metric is checked, and what a score is asked there."""

import inspect
import warnings
from unittest import SkipTest

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import get_tags

TASKS = ("classification", "regression", "multilabel")
# With more and with fewer samples than columns. The width is always the same: a metric may know
# of source data of that width.
SHAPES = ((60, 6), (5, 6))


def as_input(metric, F):
    """Turn any real matrix into the kind of input that a metric needs."""
    if getattr(metric, "needs", "features") in ("probabilities", "labels"):
        return softmax(F, axis=1).astype(F.dtype)
    return F


def task_of(metric):
    """Task that a metric is checked on: classification if it is defined for it."""
    tasks = getattr(metric, "tasks", ("classification",))
    return next((task for task in TASKS if task in tasks), "classification")


def make_data(metric, n_samples=60, n_columns=6, n_classes=3, seed=0):
    """Make an input that tells something of the target, and the target."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n_samples) % n_classes
    rng.shuffle(codes)
    means = 1.5 * rng.normal(size=(n_classes, n_columns))
    F = rng.normal(size=(n_samples, n_columns)) + means[codes]
    noise = 0.3 * rng.normal(size=(n_samples, 2))
    y = {
        "classification": codes,
        "regression": F[:, 0] + noise[:, 0],
        "multilabel": (F[:, :2] + noise > 0).astype(int),
    }[task_of(metric)]
    return as_input(metric, F), y


def seeded(metric):
    """Return a clone with a fixed seed, if it has one to fix."""
    fresh = clone(metric)
    if fresh.get_params(deep=False).get("random_state", 0) is None:
        fresh.set_params(random_state=0)
    return fresh


def fit(metric, X, y, sample_weight=None, method="fit"):
    """Fit without any regard to warnings, except that a numerical one is an error."""
    keywords = {} if sample_weight is None else {"sample_weight": sample_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        returned = getattr(metric, method)(X, y, **keywords)
        if returned is not metric:
            raise AssertionError(f"{method} must return the metric itself; got {returned!r}.")
        metric.score_  # noqa: B018 - it may be computed when it is read
    return metric


def score(metric, X, y, sample_weight=None):
    """Score of a seeded clone."""
    return fit(seeded(metric), X, y, sample_weight).score_


def same(found, expected, what, tolerance=1e-7):
    """Raise a sentence unless two scores are equal to rounding, or both NaN."""
    if np.isnan(found) and np.isnan(expected):
        return
    if not abs(found - expected) <= tolerance * max(1.0, abs(expected)):
        raise AssertionError(f"The score should not depend on {what}; got {found} and {expected}.")


def labels_only(metric):
    """Skip what is about class labels, for other targets."""
    if task_of(metric) != "classification":
        raise SkipTest("the metric is not defined for class labels")


def labelled(metric):
    """Skip what is about the influence of the target, for metrics that need none."""
    if not get_tags(metric).target_tags.required:
        raise SkipTest("the metric needs no target")


def takes_weights(metric):
    """Whether ``fit`` takes sample weights."""
    return "sample_weight" in inspect.signature(metric.fit).parameters


def is_number(value, metric, when):
    """Raise a sentence unless a score is a finite Python float within the bounds."""
    if type(value) is not float:
        raise AssertionError(f"score_ must be a Python float; got {type(value).__name__} {when}.")
    if not np.isfinite(value):
        raise AssertionError(f"score_ must be finite; got {value} {when}.")
    low, high = metric.bounds
    if not low <= value <= high:
        raise AssertionError(f"score_ must be within bounds {low} and {high}; got {value} {when}.")
