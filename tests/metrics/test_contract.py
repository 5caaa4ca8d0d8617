"""What every metric promises, whatever it computes: one battery over all of them.

A new metric is added by one line in ``CASES``, which states how its docstring says it answers to
changes of its input.
"""

import inspect
import pickle
import random
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, sparse
from scipy.special import softmax
from scipy.stats import multivariate_normal, ortho_group
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_info

from sktransfer.exceptions import (
    ConstantTargetWarning,
    NoiseFloorWarning,
    ProbabilityNormalizationWarning,
    TransferabilityWarning,
    UninformativeScoreWarning,
)
from sktransfer.metrics import (
    GBC,
    KNN,
    LEEP,
    LP,
    NCE,
    NCTI,
    NLEEP,
    OTCE,
    PARC,
    PAS,
    SFDA,
    ETran,
    FeatureMoments,
    HScore,
    LinearProbe,
    LogME,
    PACTran,
    TransferabilityMetric,
    TransRate,
)
from sktransfer.utils.estimator_checks import check_transferability_metric

# Degenerate data is announced; the tests that are about the announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


@dataclass(frozen=True)
class Case:
    """A metric and what it claims."""

    metric: TransferabilityMetric
    # Names in CHANGES after which the score is the same, and after which it must be another one.
    unchanged_by: frozenset
    changed_by: frozenset
    # Whether an integer weight of a sample is the same as repeating it; None without weights.
    weights_are_repeats: bool | None = None


# Changes of the features that keep all ratios of distances between samples.
RIGID = frozenset({"column order", "rotation", "scale", "shift", "zero columns", "constant column"})

CASES = [
    Case(
        LogME(),
        frozenset({"column order", "rotation", "scale", "zero columns"}),
        frozenset({"shift", "affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        HScore(),
        frozenset(
            {"column order", "rotation", "scale", "shift", "affine map", "zero columns"}
            | {"constant column", "repeated columns"}
        ),
        frozenset(),
        weights_are_repeats=True,
    ),
    Case(
        HScore("ledoit_wolf"),
        frozenset({"column order", "rotation", "scale", "shift"}),
        frozenset({"affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        HScore(0.3),
        frozenset({"column order", "rotation", "scale", "shift"}),
        frozenset({"affine map", "zero columns"}),
        weights_are_repeats=True,
    ),
    Case(
        LEEP(),
        frozenset({"column order", "scale", "scale of rows", "zero columns", "split columns"}),
        frozenset({"shift"}),
        weights_are_repeats=True,
    ),
    Case(
        LEEP(from_logits=True),
        frozenset({"column order", "shift", "shift of rows"}),
        frozenset({"scale"}),
        weights_are_repeats=True,
    ),
    Case(
        LEEP(temperature=2.0),
        frozenset({"column order", "scale", "scale of rows", "zero columns"}),
        frozenset({"shift"}),
        weights_are_repeats=True,
    ),
    Case(
        NCE(),
        frozenset(
            {"column order", "scale", "shift", "scale of rows", "shift of rows", "monotone map"}
        ),
        frozenset(),
        weights_are_repeats=True,
    ),
    Case(
        GBC(n_permutations=2),
        frozenset({"column order", "rotation", "shift"}),
        frozenset({"affine map"}),
        weights_are_repeats=True,
    ),
    Case(
        GBC("diagonal", None, n_permutations=2),
        frozenset({"column order", "shift"}),
        frozenset({"rotation"}),
        weights_are_repeats=True,
    ),
    Case(
        GBC("full", regularization="ridge", n_permutations=2),
        frozenset({"column order", "rotation", "shift"}),
        frozenset({"much smaller scale"}),
        weights_are_repeats=True,
    ),
    Case(
        TransRate(n_permutations=2),
        frozenset({"column order", "rotation", "shift", "zero columns"}),
        frozenset({"much smaller scale"}),
        weights_are_repeats=True,
    ),
    Case(
        TransRate(weights="uniform", normalize=True, n_permutations=2),
        frozenset({"column order", "rotation", "scale", "shift", "zero columns"}),
        frozenset(),
        weights_are_repeats=False,
    ),
    Case(KNN(), RIGID, frozenset({"affine map", "scale of rows"}), weights_are_repeats=False),
    Case(KNN(5), RIGID, frozenset({"affine map", "scale of rows"}), weights_are_repeats=False),
    Case(
        LinearProbe(n_permutations=2),
        RIGID,
        frozenset({"affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        LinearProbe(0.5, n_permutations=0),
        RIGID - {"scale"},
        frozenset(),
        weights_are_repeats=False,
    ),
    Case(
        LinearProbe(scoring="roc_auc_ovr", n_permutations=2),
        RIGID,
        frozenset({"affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        SFDA(n_permutations=2),
        frozenset({"column order", "shift"}),
        frozenset({"much smaller scale"}),
        weights_are_repeats=True,
    ),
    Case(
        NCTI(n_permutations=2),
        RIGID - {"scale"},
        frozenset({"much smaller scale"}),
        weights_are_repeats=True,
    ),
    Case(
        ETran(n_permutations=2),
        frozenset({"column order"}),
        frozenset({"scale", "shift"}),
        weights_are_repeats=False,  # its tail is a whole number of samples
    ),
    Case(
        PAS(n_permutations=2),
        frozenset({"column order", "rotation", "scale", "zero columns"}),
        frozenset({"shift", "affine map"}),
        weights_are_repeats=True,
    ),
    Case(OTCE(n_permutations=2), RIGID, frozenset({"affine map"}), weights_are_repeats=False),
    Case(
        PACTran(penalty_scale=5.0, n_permutations=2),
        frozenset({"column order", "rotation", "shift"}),
        frozenset({"scale", "zero columns"}),
        weights_are_repeats=False,
    ),
    Case(
        PACTran("dirichlet", concentration=10.0, n_permutations=2),
        frozenset({"column order", "scale", "scale of rows", "zero columns"}),
        frozenset({"shift"}),
        weights_are_repeats=False,
    ),
    Case(
        PACTran("gamma", concentration=10.0, n_permutations=2),
        frozenset({"column order", "scale", "scale of rows", "zero columns"}),
        frozenset({"shift"}),
        weights_are_repeats=False,
    ),
    Case(
        PARC(),
        RIGID - {"rotation"},
        frozenset({"rotation", "affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        PARC(max_samples=20, random_state=0),
        RIGID - {"rotation"},
        frozenset({"affine map"}),
        weights_are_repeats=False,
    ),
    Case(
        NLEEP(components_per_class=1, random_state=0, n_permutations=2),
        RIGID,
        frozenset({"affine map"}),
    ),
    Case(LP(2, 3, random_state=0, n_folds=2, max_iter=5), RIGID, frozenset()),
]
METRICS = [case.metric for case in CASES]
# By default these take many more steps than with the parameters above.
SLOW = [PACTran(kind, n_permutations=0) for kind in ("gaussian", "dirichlet", "gamma")]
ON_MOMENTS = [metric for metric in METRICS if hasattr(metric, "partial_fit")]
WEIGHTED = [case.metric for case in CASES if case.weights_are_repeats is not None]
# What may be multiplied by any number.
SCALE_FREE = [case.metric for case in CASES if "scale" in case.unchanged_by]

each_weighted_metric = pytest.mark.parametrize("metric", WEIGHTED, ids=repr)
each_metric = pytest.mark.parametrize("metric", METRICS, ids=repr)
each_metric_on_moments = pytest.mark.parametrize("metric", ON_MOMENTS, ids=repr)


def takes_probabilities(metric):
    return metric.needs == "probabilities" and not getattr(metric, "from_logits", False)


def as_input(metric, F):
    """Turn any real matrix into what a metric needs."""
    if takes_probabilities(metric):
        return softmax(F, axis=1).astype(F.dtype)
    return F


def make_data(metric, n_samples=60, n_columns=6, n_classes=3, seed=0):
    """Input of the kind that a metric needs, which tells something of the labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    F = rng.normal(size=(n_samples, n_columns)) + rng.normal(size=(n_classes, n_columns))[y]
    return as_input(metric, F), y


def fitted(metric, X, y, sample_weight=None):
    if sample_weight is None:
        return clone(metric).fit(X, y)
    return clone(metric).fit(X, y, sample_weight=sample_weight)


def score_of(metric, X, y, sample_weight=None):
    """The score alone, without the labels in other orders that tell how far to trust it."""
    if "n_permutations" in metric.get_params():
        metric = clone(metric).set_params(n_permutations=0)
    return fitted(metric, X, y, sample_weight).score_


@cache
def usual(metric, *shape):
    """The metric fitted to the usual data, for what is compared with it again and again."""
    return fitted(metric, *make_data(metric, *shape))


def close(expected, rel=1e-10):
    return pytest.approx(expected, rel=rel, abs=rel, nan_ok=True)


# --------------------------------------------------------------------------------- what a score is


@each_metric
def test_class_attributes_say_what_the_metric_is(metric):
    assert metric.needs in {"features", "probabilities", "labels", "inputs"}
    assert isinstance(metric.relative_to_pool, bool)
    assert set(metric.tasks) <= {"classification", "multilabel", "regression"}
    low, high = metric.bounds
    assert low < high
    assert low <= score_of(metric, *make_data(metric)) <= high


def test_weights_are_taken_where_they_are_said_to_be():
    for case in CASES:
        takes_weights = "sample_weight" in inspect.signature(case.metric.fit).parameters
        assert takes_weights == (case.weights_are_repeats is not None)


@each_metric
def test_ordinary_data_give_a_python_float_and_no_warning(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted_metric = fitted(metric, *make_data(metric))
    assert type(fitted_metric.score_) is float
    assert np.isfinite(fitted_metric.score_)


@each_metric
def test_score_repeats_the_score_of_fit_exactly(metric):
    X, y = make_data(metric)
    fitted_metric = fitted(metric, X, y)
    expected = fitted_metric.score_
    assert type(fitted_metric.score(X, y)) is float
    assert fitted_metric.score(X, y) == expected
    assert fitted_metric.score_ == expected
    assert clone(fitted_metric).fit(X, y).score_ == expected
    assert fitted_metric.fit(X, y).score_ == expected
    restored = pickle.loads(pickle.dumps(fitted_metric))
    assert restored.score_ == expected
    assert restored.score(X, y) == expected


@each_weighted_metric
def test_score_repeats_the_weighted_score_of_fit_exactly(metric):
    X, y = make_data(metric)
    weight = np.arange(1, len(y) + 1)
    weighted = fitted(metric, X, y, weight)
    assert weighted.score(X, y, sample_weight=weight) == weighted.score_


@each_metric
def test_score_uses_nothing_of_what_was_fitted(metric):
    X, y = make_data(metric)
    other_X, other_y = make_data(metric, n_samples=45, n_classes=2, seed=1)
    fitted_metric = fitted(metric, X, y)
    assert fitted_metric.score(other_X, other_y) == score_of(metric, other_X, other_y)
    assert fitted_metric.fit(other_X, other_y).fit(X, y).score_ == score_of(metric, X, y)


@each_metric
def test_score_before_fit_and_of_another_width_is_refused(metric):
    X, y = make_data(metric)
    with pytest.raises(NotFittedError):
        clone(metric).score(X, y)
    with pytest.raises(ValueError, match="X has 5 features, but .* is expecting 6 features"):
        fitted(metric, X, y).score(X[:, :5], y)


@each_metric
def test_scikit_learn_can_cross_validate_the_metric(metric):
    X, y = make_data(metric)
    splits = StratifiedKFold(3)
    scores = cross_val_score(metric, X, y, cv=splits)
    expected = [score_of(metric, X[rows], y[rows]) for _, rows in splits.split(X, y)]
    assert scores.tolist() == expected
    everything = [(np.arange(len(y)), np.arange(len(y)))]
    search = GridSearchCV(metric, {}, cv=everything).fit(X, y)
    assert search.best_score_ == score_of(metric, X, y)


@each_metric
def test_pool_scores_pass_each_score_on_and_mark_failures(metric):
    one, two = (fitted(metric, *make_data(metric, seed=seed)) for seed in (0, 1))
    pooled = type(metric).pool_scores([one, None, two])
    if metric.relative_to_pool:
        assert pooled.shape == (3,)
        assert np.isfinite(pooled).tolist() == [True, False, True]
        assert type(metric).pool_scores([two, None, one]).tolist()[::2] == pooled.tolist()[::-2]
        assert np.isfinite(type(metric).pool_scores([one])).all()
    else:
        np.testing.assert_array_equal(pooled, [one.score_, np.nan, two.score_])
    assert np.isnan(type(metric).pool_scores([None])).tolist() == [True]
    assert len(type(metric).pool_scores([])) == 0


@each_metric
def test_informative_input_beats_shuffled_labels(metric):
    X, y = make_data(metric, n_samples=90)
    rng = np.random.default_rng(0)
    shuffled = [score_of(metric, X, rng.permutation(y)) for _ in range(20)]
    assert score_of(metric, X, y) > max(shuffled)


@each_metric
def test_the_checks_for_the_metrics_of_others_pass(metric):
    results = check_transferability_metric(metric)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert ("check_weights_are_relative" in skipped) == (metric not in WEIGHTED)
    assert ("check_batches_give_the_score_of_the_whole" in skipped) == (metric not in ON_MOMENTS)
    assert len(results) - len(skipped) >= 18


# -------------------------------------------------------------------------------------- formulas


def nce_by_counting(z, y):
    total = 0.0
    for source in set(z):
        labels = [b for a, b in zip(z, y, strict=True) if a == source]
        for label in set(labels):
            share = labels.count(label) / len(labels)
            total += labels.count(label) / len(y) * np.log(share)
    return total


def leep_by_loops(theta, y):
    labels = sorted(set(y))
    joint = {
        k: sum(row for row, label in zip(theta, y, strict=True) if label == k) / len(y)
        for k in labels
    }
    conditional = {k: joint[k] / theta.mean(axis=0) for k in labels}
    return np.mean([np.log(row @ conditional[k]) for row, k in zip(theta, y, strict=True)])


def hscore_by_pseudo_inverse(F, y, shrinkage=0.0):
    means = np.array([F[y == label].mean(axis=0) for label in y])
    covariance = np.cov(F.T, bias=True)
    target = np.trace(covariance) / F.shape[1] * np.eye(F.shape[1])
    shrunk = (1 - shrinkage) * covariance + shrinkage * target
    return np.trace(np.linalg.pinv(shrunk) @ ((1 - shrinkage) * np.cov(means.T, bias=True)))


def logme_by_search(F, y):
    def evidence(point, t):
        alpha, beta = np.exp(point)
        covariance = np.eye(len(t)) / beta + F @ F.T / alpha
        return multivariate_normal(cov=covariance).logpdf(t) / len(t)

    scores = []
    for label in np.unique(y):
        t = (y == label).astype(float)
        found = [
            optimize.minimize(
                lambda point, t=t: -evidence(point, t),
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-8, "fatol": 1e-13, "maxiter": 2000},
            ).fun
            for start in [(0, 0), (4, 1), (-4, 3)]
        ]
        scores.append(-min(found))
    return np.mean(scores)


@pytest.mark.parametrize("seed", range(3))
def test_formulas(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 40)
    F = rng.normal(size=(40, 4)) + y[:, None] + 2.0
    theta = rng.dirichlet(np.ones(5), size=40)
    z = theta.argmax(axis=1)
    assert NCE().fit(z, y).score_ == close(nce_by_counting(z.tolist(), y.tolist()), 1e-13)
    assert LEEP().fit(theta, y).score_ == close(leep_by_loops(theta, y.tolist()), 1e-13)
    assert HScore().fit(F, y).score_ == close(hscore_by_pseudo_inverse(F, y), 1e-12)
    for shrinkage in (0.01, 0.3, 0.999):
        expected = hscore_by_pseudo_inverse(F, y, shrinkage)
        assert HScore(shrinkage).fit(F, y).score_ == close(expected, 1e-12)
    estimate = LedoitWolf().fit(F).shrinkage_
    metric = HScore("ledoit_wolf").fit(F, y)
    assert metric.shrinkage_ == close(estimate, 1e-12)
    assert metric.score_ == close(hscore_by_pseudo_inverse(F, y, estimate), 1e-12)
    assert LogME().fit(F, y).score_ == close(logme_by_search(F, y), 1e-7)


def test_full_shrinkage_leaves_nothing_to_score():
    with pytest.warns(UninformativeScoreWarning, match="drops the class means"):
        assert HScore(1.0).fit(*make_data(HScore())).score_ == 0.0


@pytest.mark.parametrize("shape", [(25, 60), (30, 30), (61, 60), (200, 3)])
def test_ledoit_wolf_is_that_of_scikit_learn_for_any_shape(shape):
    rng = np.random.default_rng(0)
    F = rng.normal(size=shape) * rng.uniform(0.1, 3, size=shape[1]) + 100
    y = np.arange(shape[0]) % 3
    assert HScore("ledoit_wolf").fit(F, y).shrinkage_ == close(LedoitWolf().fit(F).shrinkage_, 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_ledoit_wolf_of_one_feature_does_not_shrink(seed):
    # As scikit-learn: the covariance is its own target, and the estimate would be 0 / 0.
    rng = np.random.default_rng(seed)
    F, y = rng.uniform(0.1, 9) * rng.normal(size=(23, 1)), np.arange(23) % 2
    for dtype in (np.float32, np.float64):
        metric = HScore("ledoit_wolf").fit(F.astype(dtype), y)
        assert metric.shrinkage_ == 0.0
        assert metric.score_ == close(HScore().fit(F.astype(dtype), y).score_)


# ------------------------------------------------------------------------------ chance and entropy


@pytest.mark.parametrize("metric", [HScore(), HScore("ledoit_wolf"), HScore(0.3), NCE()], ids=repr)
def test_the_chance_level_is_the_mean_over_all_permutations(metric):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([0, 0, 0, 1, 1, 2])
    # Every order of the labels stands for as many of the rows.
    scores = [score_of(metric, X, np.array(order)) for order in set(permutations(y.tolist()))]
    assert len(scores) == 60
    assert fitted(metric, X, y).chance_level_ == close(np.mean(scores), 1e-10)


@pytest.mark.parametrize("metric", [LEEP(), LEEP(from_logits=True)], ids=repr)
def test_the_sampled_chance_level_of_leep_is_unbiased(metric):
    X, y = make_data(metric, n_samples=40)
    rng = np.random.default_rng(0)
    scores = np.array([score_of(metric, X, rng.permutation(y)) for _ in range(300)])
    estimate = clone(metric).set_params(n_permutations=300, random_state=1).fit(X, y).chance_level_
    error = scores.std() * np.sqrt(2 / 300)
    assert abs(estimate - scores.mean()) < 5 * error
    assert np.isnan(clone(metric).set_params(n_permutations=0).fit(X, y).chance_level_)


@pytest.mark.parametrize("metric", [LEEP(), LEEP(from_logits=True), NCE()], ids=repr)
def test_entropy_and_information_gain(metric):
    X, y = make_data(metric, n_samples=60)
    y = np.where(y == 2, 1, y)  # shares 1/3 and 2/3
    fitted_metric = fitted(metric, X, y)
    entropy = -(np.log(1 / 3) / 3 + 2 * np.log(2 / 3) / 3)
    assert fitted_metric.label_entropy_ == close(entropy)
    assert fitted_metric.information_gain_ == close(fitted_metric.score_ + entropy)
    corrected = fitted_metric.score_ - fitted_metric.chance_level_
    assert fitted_metric.information_gain_corrected_ == close(corrected)
    constant = as_input(metric, np.zeros((60, 4)))
    assert score_of(metric, constant, y) == close(-entropy)


@pytest.mark.parametrize(
    "metric", [metric for metric in METRICS if "random_state" in metric.get_params()], ids=repr
)
@pytest.mark.parametrize("random_state", [0, 7, None])
def test_a_drawn_seed_is_kept_and_used_again(metric, random_state):
    X, y = make_data(metric)
    fitted_metric = clone(metric).set_params(random_state=random_state).fit(X, y)
    again = clone(metric).set_params(random_state=fitted_metric.seed_).fit(X, y)
    assert again.score_ == fitted_metric.score_
    if hasattr(fitted_metric, "chance_level_"):
        assert again.chance_level_ == close(fitted_metric.chance_level_, 0)
    assert fitted_metric.score(X, y) == fitted_metric.score_
    if random_state is not None:
        assert fitted_metric.seed_ == random_state


class Lottery(TransferabilityMetric):
    """A score that is nothing but its seed."""

    _parameter_constraints: dict = {"random_state": ["random_state"]}

    def __init__(self, random_state=None):
        self.random_state = random_state

    def _fit(self, X, target, sample_weight):
        self.seed_ = self.random_state
        if self.seed_ is None:
            self.seed_ = int(np.random.SeedSequence().generate_state(1)[0])
        self.score_ = float(np.random.default_rng(self.seed_).random())


def test_a_random_score_is_repeated_with_the_seed_that_was_drawn():
    X, y = make_data(Lottery())
    metric = Lottery().fit(X, y)
    assert metric.score(X, y) == metric.score_
    assert pickle.loads(pickle.dumps(metric)).score(X, y) == metric.score_
    assert Lottery().fit(X, y).score_ != metric.score_
    assert Lottery(3).fit(X, y).score(X, y) == Lottery(3).fit(X, y).score_


# -------------------------------------------------------------------------------------- the labels

# Names for three classes, in an order that is not always that of the codes.
LABELS = {
    "strings": np.array(["pear", "apple", "fig"]),
    "objects": np.array(["pear", "apple", "fig"], dtype=object),
    "bytes": np.array([b"pear", b"apple", b"fig"]),
    "gaps": np.array([1000, 3, 77]),
    "negative": np.array([-1, -5, 0]),
    "whole floats": np.array([2.0, -3.0, 0.0]),
    "float32": np.array([2.0, 0.0, 1.0], dtype=np.float32),
    "uint8": np.array([255, 0, 7], dtype=np.uint8),
    "int objects": np.array([5, 2, 9], dtype=object),
    "large": np.array([2**62, -(2**62), 0]),
}


@each_metric
@pytest.mark.parametrize("kind", LABELS)
def test_only_the_partition_matters(metric, kind):
    X, y = make_data(metric)
    expected = usual(metric)
    renamed = fitted(metric, X, LABELS[kind][y])
    assert renamed.score_ == close(expected.score_, 1e-12)
    assert len(renamed.classes_) == 3
    if hasattr(expected, "chance_level_"):
        assert renamed.chance_level_ == close(expected.chance_level_, 1e-12)


@each_metric
def test_two_classes_as_booleans(metric):
    X, y = make_data(metric, n_classes=2)
    expected = score_of(metric, X, y)
    assert score_of(metric, X, y.astype(bool)) == close(expected, 1e-12)
    assert score_of(metric, X, ~y.astype(bool)) == close(expected, 1e-12)


@each_metric
@pytest.mark.parametrize(
    "container",
    [
        lambda y: y[:, None],
        lambda y: y.tolist(),
        lambda y: pd.Series(y),
        lambda y: pd.DataFrame({"label": y}),
        lambda y: pd.Series(y.astype(str)),
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(y).astype("category"),
        lambda y: pd.Series(pd.Categorical.from_codes(y, ["a", "b", "c", "never"])),
        lambda y: pl.Series(y),
        lambda y: pl.Series(y.astype(str).tolist()),
        lambda y: np.repeat(y, 2)[::2],
        lambda y: y[::-1].copy()[::-1],
    ],
    ids=[
        "column",
        "list",
        "series",
        "frame",
        "string series",
        "nullable",
        "category",
        "unused category",
        "polars",
        "polars strings",
        "strided",
        "reversed view",
    ],
)
def test_containers_of_labels(metric, container):
    X, y = make_data(metric)
    assert score_of(metric, X, container(y)) == close(usual(metric).score_, 1e-12)


@each_metric
def test_strings_of_variable_width(metric):
    X, y = make_data(metric)
    names = np.array(["pear", "fig", "a plum"])[y]
    variable = names.astype(np.dtypes.StringDType())
    assert score_of(metric, X, variable) == close(score_of(metric, X, names), 1e-12)


@each_metric
def test_a_class_absent_from_a_subset_leaves_no_trace(metric):
    X, y = make_data(metric, n_classes=4)
    rows = y != 2
    names = np.array(["a", "b", "c", "d"])
    expected = score_of(metric, X[rows], np.searchsorted([0, 1, 3], y[rows]))
    assert score_of(metric, X[rows], y[rows]) == close(expected, 1e-12)
    subset = fitted(metric, X[rows], names[y[rows]])
    assert subset.score_ == close(expected, 1e-12)
    assert subset.classes_.tolist() == ["a", "b", "d"]


@each_metric
def test_one_class_and_one_sample_are_refused(metric):
    X, y = make_data(metric)
    with pytest.raises(ValueError, match=r"requires at least 2 classes in y; got 1 class\."):
        clone(metric).fit(X, np.full(len(y), "cat"))
    with pytest.raises(ValueError, match="1 sample"):
        clone(metric).fit(X[:1], y[:1])


@pytest.mark.parametrize("metric", [m for m in METRICS if m.tasks == ("classification",)], ids=repr)
def test_targets_without_a_definition_are_refused(metric):
    X, y = make_data(metric)
    rng = np.random.default_rng(0)
    name = type(metric).__name__
    with pytest.raises(ValueError, match=f"{name} is defined for classification.*got a regression"):
        clone(metric).fit(X, rng.normal(size=len(y)))
    with pytest.raises(ValueError, match=f"{name} is defined for classification.*got a multilabel"):
        clone(metric).fit(X, np.eye(3)[y])


# --------------------------------------------------------------------------------------- the input


@each_metric
def test_the_order_of_the_samples_does_not_matter(metric):
    X, y = make_data(metric)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    for given_weight in [None, weight] if metric in WEIGHTED else [None]:
        expected = fitted(metric, X, y, given_weight)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))
            weight_there = None if given_weight is None else weight[order]
            shuffled = fitted(metric, X[order], y[order], weight_there)
            assert shuffled.score_ == close(expected.score_, 1e-12)
            if hasattr(expected, "chance_level_"):
                assert shuffled.chance_level_ == close(expected.chance_level_, 1e-12)


@each_metric
def test_equal_rows_with_different_labels_do_not_make_the_chance_level_depend_on_order(metric):
    rng = np.random.default_rng(3)
    X = np.repeat(make_data(metric, n_samples=10)[0], 6, axis=0)
    y = rng.integers(0, 3, len(X))
    expected = fitted(metric, X, y)
    order = rng.permutation(len(y))
    shuffled = fitted(metric, X[order], y[order])
    assert shuffled.score_ == close(expected.score_, 1e-11)
    if hasattr(expected, "chance_level_"):
        assert shuffled.chance_level_ == close(expected.chance_level_, 1e-11)


@pytest.mark.parametrize("metric", [LEEP(), NCE()], ids=repr)
def test_the_chance_level_of_one_hot_rows_depends_on_neither_order_nor_names(metric):
    rng = np.random.default_rng(1)
    X, y = np.eye(4)[np.arange(80) % 4], rng.integers(0, 3, 80)
    expected = fitted(metric, X, y).chance_level_
    order = rng.permutation(80)
    assert fitted(metric, X[order], y[order]).chance_level_ == close(expected, 1e-12)
    assert fitted(metric, X, np.array([5, -1, 2])[y]).chance_level_ == close(expected, 1e-12)


def strided(X):
    wide = np.zeros((2 * len(X), 2 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::2] = X
    return wide[::2, ::2]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed view": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "list": lambda X: X.tolist(),
    "big-endian": lambda X: X.astype(">f8"),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]),
    "pandas by integer": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=[f"f{i}" for i in range(X.shape[1])]),
    "objects": lambda X: X.astype(object),
}


@each_metric
@pytest.mark.parametrize("layout", LAYOUTS)
def test_containers_of_the_input(metric, layout):
    for shape in [(60, 6), (12, 30)]:
        X, y = make_data(metric, *shape)
        given = LAYOUTS[layout](X)
        fitted_metric = fitted(metric, given, y)
        assert fitted_metric.score_ == close(usual(metric, *shape).score_, 1e-12)
        assert fitted_metric.score(given, y) == fitted_metric.score_
        if layout in ("pandas", "polars"):
            assert fitted_metric.feature_names_in_.tolist() == list(given.columns)


@each_metric
@pytest.mark.parametrize("mode", ["r", "c"])
def test_memory_mapped_input(metric, mode, tmp_path):
    X, y = make_data(metric)
    for name, array in {"X": X, "y": y}.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode=mode) for name in ("X", "y")]
    assert fitted(metric, *mapped).score_ == usual(metric).score_
    assert np.array_equal(np.load(tmp_path / "X.npy"), X)


@each_metric
@pytest.mark.parametrize("shape", [(60, 6), (12, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_input_is_never_changed(metric, shape, dtype, order):
    X, y = make_data(metric, *shape)
    X = np.array(X, dtype=dtype, order=order)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    before = X.tobytes(), y.tobytes(), weight.tobytes()
    fitted_metric = fitted(metric, X, y, weight if metric in WEIGHTED else None)
    fitted_metric.score(X, y)
    for read_late in ("coef_", "predict_proba"):
        value = getattr(fitted_metric, read_late, None)
        if callable(value):
            value(X)
    if hasattr(metric, "partial_fit"):
        fitted_metric.partial_fit(X, y, sample_weight=weight)
        assert np.isfinite(fitted_metric.score_)
    assert (X.tobytes(), y.tobytes(), weight.tobytes()) == before


@each_metric
@pytest.mark.parametrize("shape", [(80, 6), (20, 50)], ids=["tall", "wide"])
def test_single_and_double_precision_agree(metric, shape):
    X, y = make_data(metric, *shape)
    single = X.astype(np.float32)
    score = fitted(metric, single, y).score_
    assert score == close(usual(metric, *shape).score_, 1e-4)
    assert score == close(score_of(metric, single.astype(float), y), 1e-6)


@pytest.mark.parametrize("metric", [m for m in METRICS if not takes_probabilities(m)], ids=repr)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, bool, np.float16])
def test_other_number_types_are_read_as_numbers(metric, dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 100, size=(50, 4)).astype(dtype)
    y = rng.integers(0, 3, size=50)
    assert fitted(metric, X, y).score_ == close(score_of(metric, X.astype(float), y), 1e-12)


# ------------------------------------------------------------------------- changes of the features


def rotate(X, rng):
    return X @ ortho_group.rvs(X.shape[1], random_state=rng.integers(2**31))


def affine(X, rng):
    # Singular values between 1 and 10: far from a rotation, and far from singular.
    left, right = (ortho_group.rvs(X.shape[1], random_state=rng.integers(2**31)) for _ in "ab")
    return X @ (left * np.geomspace(1, 10, X.shape[1]) @ right) + rng.normal(size=X.shape[1])


CHANGES = {
    "column order": lambda X, rng: X[:, rng.permutation(X.shape[1])],
    "rotation": rotate,
    "scale": lambda X, rng: X * 37.5,
    "much smaller scale": lambda X, rng: X * 0.003,
    "shift": lambda X, rng: X + 3.25,
    "affine map": affine,
    "zero columns": lambda X, rng: np.hstack([X, np.zeros((len(X), 3), dtype=X.dtype)]),
    "constant column": lambda X, rng: np.hstack([X, np.full((len(X), 1), 0.1, dtype=X.dtype)]),
    "repeated columns": lambda X, rng: np.hstack([X, X[:, :2]]),
    "split columns": lambda X, rng: np.hstack([X / 2, X / 2]),
    "scale of rows": lambda X, rng: X * rng.uniform(0.5, 2, (len(X), 1)).astype(X.dtype),
    "shift of rows": lambda X, rng: X + rng.normal(size=(len(X), 1)).astype(X.dtype),
    "monotone map": lambda X, rng: np.tanh(X) ** 3,
}


@pytest.mark.parametrize(
    ("case", "change"),
    [
        pytest.param(case, change, id=f"{case.metric!r}-{change}")
        for case in CASES
        for change in sorted(case.unchanged_by | case.changed_by)
    ],
)
def test_changes_of_the_input(case, change):
    for shape in [(60, 6), (15, 40)]:
        X, y = make_data(case.metric, *shape)
        changed = CHANGES[change](X, np.random.default_rng(1))
        expected = usual(case.metric, *shape).score_
        if change in case.unchanged_by:
            assert score_of(case.metric, changed, y) == close(expected, 1e-9)
        elif shape == (60, 6):
            assert abs(score_of(case.metric, changed, y) - expected) > 1e-3


def test_the_claims_name_known_changes():
    for case in CASES:
        assert case.unchanged_by | case.changed_by <= set(CHANGES)
        assert not case.unchanged_by & case.changed_by


@pytest.mark.parametrize("metric", [m for m in SCALE_FREE if m.needs != "probabilities"], ids=repr)
@pytest.mark.parametrize("scale", [1e150, 1e30, 1e-30, 1e-150])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_features_of_any_size(metric, scale, shape):
    X, y = make_data(metric, *shape)
    expected = usual(metric, *shape).score_
    assert fitted(metric, X * scale, y).score_ == close(expected, 1e-9)
    small = (X * np.sign(np.log(scale)) ** 2).astype(np.float32) * np.float32(1e-30)
    assert fitted(metric, small, y).score_ == close(expected, 1e-4)


@pytest.mark.parametrize("scale", [1e150, 1e30, 1e-30, 1e-150])
def test_unnormalised_probabilities_of_any_size(scale):
    X, y = make_data(LEEP())
    with pytest.warns(ProbabilityNormalizationWarning, match="60 of 60 rows"):
        metric = LEEP().fit(X * scale, y)
    assert metric.score_ == close(LEEP().fit(X, y).score_, 1e-12)


def test_logits_of_any_size_give_finite_scores():
    X, y = make_data(LEEP(from_logits=True))
    hard = NCE().fit(X, y).score_
    for scale in (1e6, 1e150):
        assert LEEP(from_logits=True).fit(X * scale, y).score_ == close(hard, 1e-12)
    for scale in (1e-12, 1e-150):
        metric = LEEP(from_logits=True).fit(X * scale, y)
        assert metric.score_ == close(-metric.label_entropy_, 1e-9)


@pytest.mark.parametrize("metric", [m for m in ON_MOMENTS if isinstance(m, HScore)], ids=repr)
@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_a_large_mean_costs_few_digits(metric, offset, shape):
    X, y = make_data(metric, *shape)
    offsets = offset * np.random.default_rng(0).uniform(0.5, 1, X.shape[1])
    X = (X + offsets) - offsets  # what is left of X once the offset was stored with it
    expected = score_of(metric, X, y)
    # Adding the offset again is exact, up to the last bit of numbers of its size.
    assert score_of(metric, X + offsets, y) == close(expected, offset * 1e-14)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_logme_of_a_large_mean_is_that_of_exact_arithmetic(offset, shape):
    # The mean is one direction of the raw features; in a single coordinate it is harmless.
    X, y = make_data(LogME(), *shape)
    rotation = ortho_group.rvs(shape[1], random_state=0)
    one_column = X.copy()
    one_column[:, 0] += offset
    expected = score_of(LogME(), one_column, y)
    assert score_of(LogME(), one_column @ rotation, y) == close(expected, offset * 1e-13)


@pytest.mark.parametrize("metric", [m for m in SCALE_FREE if m.needs == "features"], ids=repr)
@pytest.mark.parametrize("scale", [1e300, 1e160, 1e-170, 1e-300])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_features_at_the_ends_of_the_float_range(metric, scale, shape):
    X, y = make_data(metric, *shape)
    scaled = fitted(metric, X * scale, y)
    assert scaled.score_ == close(usual(metric, *shape).score_, 1e-9)
    assert np.isfinite(getattr(scaled, "coef_", 0.0)).all()


@pytest.mark.parametrize("scale", [1e300, 1e160, 1e100, 1e-100, 1e-160, 1e-300])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_regression_targets_of_any_size(scale, shape):
    F, _ = make_data(LogME(), *shape)
    t = F[:, 0] + np.random.default_rng(0).normal(size=len(F))
    metric = LogME(task="regression")
    assert metric.fit(F, scale * t).score_ + np.log(scale) == close(metric.fit(F, t).score_, 1e-9)


@each_metric
def test_the_largest_floats(metric):
    X = np.full((60, 4), 1.7e308)
    X[::2, 1:] *= 0.5 if takes_probabilities(metric) else -1.0
    assert np.isfinite(fitted(metric, X, make_data(metric)[1]).score_)


def test_temperatures_at_the_ends_of_the_float_range():
    X, y = make_data(LEEP(from_logits=True))
    hard, P = NCE().fit(X, y), softmax(X, axis=1)
    for temperature in (1e-300, np.float64(1e-310)):
        assert LEEP(True, temperature).fit(1e10 * X, y).score_ == close(hard.score_, 1e-9)
        assert LEEP(temperature=temperature).fit(P, y).score_ == close(hard.score_, 1e-9)
    flat = LEEP(temperature=1e300).fit(P, y)
    assert flat.score_ == close(-flat.label_entropy_, 1e-9)


def test_a_temperature_acts_on_probabilities_as_on_their_logits():
    X, y = make_data(LEEP(from_logits=True))
    for temperature in (0.3, 1.0, 4.0):
        scaled = LEEP(True, temperature).fit(X, y).score_
        assert scaled == close(LEEP(True).fit(X / temperature, y).score_, 1e-12)
        probabilities = softmax(X, axis=1)
        assert scaled == close(LEEP(temperature=temperature).fit(probabilities, y).score_, 1e-12)
        assert NCE().fit(X / temperature, y).score_ == NCE().fit(X, y).score_


@pytest.mark.parametrize("shape", [(200, 4), (20, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hscore_of_columns_of_very_different_sizes(shape, dtype):
    X, y = make_data(HScore(), *shape)
    X = X.astype(dtype)
    sizes = 2.0 ** np.linspace(-30, 30, shape[1]).round()
    plain, scaled = HScore().fit(X, y), HScore().fit(X * sizes.astype(dtype), y)
    assert scaled.rank_ == plain.rank_
    assert scaled.score_ == close(plain.score_, 1e-6 if dtype is np.float32 else 1e-9)


@pytest.mark.parametrize("shape", [(200, 4), (20, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize(
    ("dtype", "level", "noise"),
    [(np.float32, 1.0, 1e-7), (np.float32, 1e4, 1e-3), (np.float64, 1.0, 2e-16)],
)
def test_a_column_that_is_constant_but_for_its_storage_format_is_no_feature(
    shape, dtype, level, noise
):
    X, y = make_data(HScore(), *shape)
    rng = np.random.default_rng(0)
    column = level + noise * np.round(rng.normal(size=(shape[0], 1)))
    with_column = np.hstack([X, column]).astype(dtype)
    assert len(np.unique(with_column[:, -1])) > 1
    plain = HScore().fit(X.astype(dtype), y)
    metric = HScore().fit(with_column, y)
    assert metric.rank_ == plain.rank_
    assert metric.score_ == close(plain.score_, 1e-6)


# ---------------------------------------------------------------------------------- degenerate data


def normal(n_samples, n_columns, seed=0):
    return np.random.default_rng(seed).normal(size=(n_samples, n_columns))


DEGENERATE = {
    "fewer samples than columns": (normal(12, 30), np.arange(12) % 3),
    "as many samples as columns": (normal(20, 20), np.arange(20) % 3),
    "one sample more than columns": (normal(21, 20), np.arange(21) % 3),
    "one column": (normal(30, 1), np.arange(30) % 3),
    "two samples": (normal(2, 5), np.arange(2)),
    "two samples, one column": (normal(2, 1), np.arange(2)),
    "two samples, equal": (np.ones((2, 3)), np.arange(2)),
    "two classes": (normal(30, 4), np.arange(30) % 2),
    "a class for every sample": (normal(10, 4), np.arange(10)),
    "a class for every sample, wide": (normal(5, 40), np.arange(5)),
    "a class of one sample": (normal(30, 4), np.r_[0, np.full(29, 1)]),
    "only classes of one sample but one": (normal(8, 4), np.r_[0, 0, np.arange(1, 7)]),
    "constant columns": (np.c_[normal(30, 3), np.full((30, 2), 0.1)], np.arange(30) % 3),
    "only constant columns": (np.full((30, 3), 0.1), np.arange(30) % 3),
    "only constant columns, wide": (np.full((6, 20), 0.1), np.arange(6) % 3),
    "all zero": (np.zeros((30, 4)), np.arange(30) % 3),
    "all zero, wide": (np.zeros((5, 40)), np.arange(5) % 2),
    "duplicate columns": (np.tile(normal(30, 2), 4), np.arange(30) % 3),
    "duplicate rows": (np.repeat(normal(3, 5), 10, axis=0), np.repeat(np.arange(3), 10)),
    "duplicate rows of all labels": (np.tile(normal(5, 4), (6, 1)), np.arange(30) % 3),
    "the labels themselves": (np.eye(3)[np.arange(30) % 3], np.arange(30) % 3),
    "the labels, large": (1e6 * np.eye(3)[np.arange(30) % 3], np.arange(30) % 3),
    "nearly collapsed classes": (
        np.eye(4, 6)[np.arange(40) % 4] + 1e-5 * normal(40, 6),
        np.arange(40) % 4,
    ),
    "one outlier": (np.r_[np.full((1, 3), 1e8), normal(29, 3)], np.arange(30) % 3),
    "columns of different sizes": (normal(30, 4) * [1e-6, 1, 1e3, 1e6], np.arange(30) % 3),
    "sparse counts": ((normal(40, 10) > 1.5) * 1.0, np.arange(40) % 3),
}


@pytest.mark.parametrize("metric", METRICS + SLOW, ids=repr)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_a_finite_score_within_the_bounds(metric, name):
    F, y = DEGENERATE[name]
    low, high = metric.bounds
    for dtype in (np.float32, np.float64):
        X = as_input(metric, F).astype(dtype)
        fitted_metric = fitted(metric, X, y)
        assert np.isfinite(fitted_metric.score_)
        assert low <= fitted_metric.score_ <= high
        if isinstance(metric, HScore):
            assert fitted_metric.score_ <= len(np.unique(y)) - 1
            assert fitted_metric.rank_ <= min(len(y) - 1, X.shape[1])
        order = np.random.default_rng(0).permutation(len(y))
        # Nearly equal classes leave little of single precision.
        assert score_of(metric, X[order], y[order]) == close(fitted_metric.score_, 1e-6)


def judged(metric, X, y):
    """Fit with as many permutations as by default; return the metric and what it announced."""
    metric = clone(metric)
    if "n_permutations" in metric.get_params():
        metric.set_params(n_permutations=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.fit(X, y)
    announced = [w for w in caught if w.category is UninformativeScoreWarning]
    assert bool(announced) == metric.saturated_
    # At the line of the caller, here that of the call above, however deep the metric.
    assert all(w.filename == __file__ for w in caught)
    return metric


@each_metric
def test_noise_is_announced(metric):
    silent = []
    for n_samples, n_columns, n_classes in [(60, 20, 3), (100, 98, 3), (40, 100, 4), (150, 8, 2)]:
        for seed in range(3):
            rng = np.random.default_rng([seed, n_samples])
            F = rng.normal(size=(n_samples, n_columns))
            y = rng.permutation(np.arange(n_samples) % n_classes)
            fitted_metric = judged(metric, as_input(metric, F), y)
            if not fitted_metric.saturated_:
                silent.append((n_samples, n_columns, fitted_metric.score_))
            assert np.isfinite(fitted_metric.chance_level_)
    # One in a hundred is what the rule allows for.
    assert len(silent) <= 2, silent


@each_metric
def test_a_clear_signal_is_not_called_noise(metric):
    for n_columns in (6, 12):
        rng = np.random.default_rng(n_columns)
        y = rng.permutation(np.arange(90) % 3)
        F = rng.normal(size=(90, n_columns)) + 6 * np.eye(3, n_columns)[y]
        fitted_metric = judged(metric, as_input(metric, F), y)
        assert not fitted_metric.saturated_
        assert fitted_metric.chance_level_ < fitted_metric.score_


@each_metric
@pytest.mark.parametrize("value", [0.0, 0.1, 1e-300])
def test_constant_features_are_announced(metric, value):
    X = as_input(metric, np.full((30, 4), value))
    assert judged(metric, X, np.arange(30) % 3).saturated_


@each_metric
@pytest.mark.parametrize("shape", [(12, 4), (6, 30)], ids=["tall", "wide"])
def test_a_class_for_every_sample_is_announced(metric, shape):
    X = as_input(metric, normal(*shape))
    assert judged(metric, X, np.arange(shape[0])).saturated_


@pytest.mark.parametrize("metric", [m for m in METRICS if not takes_probabilities(m)], ids=repr)
@pytest.mark.parametrize("scale", [1e-6, 1e-12, 1e-20, 1e-150, 1e-300])
def test_tiny_features_are_announced_or_their_score_depends_on_the_labels(metric, scale):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = scale * (rng.normal(size=(60, 5)) + 3 * np.eye(3, 5)[y])
    fitted_metric = judged(metric, X, y)
    if not fitted_metric.saturated_:
        # At most those components that labels do not enter stay what they were.
        others = [score_of(metric, X, rng.permutation(y)) for _ in range(3)]
        assert max(others) < fitted_metric.score_


@pytest.mark.parametrize("metric", ON_MOMENTS, ids=repr)
def test_uninformative_features_are_announced(metric):
    y = np.arange(30) % 3
    for F in (np.zeros((30, 4)), np.full((30, 4), 0.1)):
        if isinstance(metric, HScore):
            with pytest.warns(UninformativeScoreWarning, match="constant"):
                fitted_metric = clone(metric).fit(F, y)
            assert fitted_metric.saturated_
            assert fitted_metric.score_ == fitted_metric.chance_level_ == 0
    if isinstance(metric, LogME):
        fitted_metric = clone(metric).fit(np.zeros((30, 4)), y)
        assert np.isinf(fitted_metric.alpha_).all()
        assert (fitted_metric.gamma_ == 0).all()
        assert fitted_metric.beta_ == close(np.full(3, 3.0))
        assert (fitted_metric.coef_ == 0).all()


@pytest.mark.parametrize("metric", [m for m in METRICS if isinstance(m, HScore)], ids=repr)
def test_hscore_of_singletons_is_announced(metric):
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        assert clone(metric).fit(normal(12, 5), np.arange(12)).saturated_


def test_hscore_of_noise_with_fewer_samples_than_features_is_announced():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(60, 512)), np.arange(60) % 3
    with pytest.warns(UninformativeScoreWarning, match="rank 59 with 60 samples"):
        noise = HScore().fit(F, y)
    assert noise.score_ == close(2.0)
    assert noise.saturated_
    shrunk = HScore("ledoit_wolf")
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score 0.48"):
        chance = shrunk.fit(F, y).score_
    assert shrunk.saturated_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        separable = shrunk.fit(F + 3 * np.eye(3, 512)[y], y)
    assert not separable.saturated_
    assert chance < separable.score_


@pytest.mark.parametrize("shape", [(200, 198), (100, 98)])
def test_hscore_of_noise_near_its_maximum_is_announced(shape):
    F, y = normal(*shape), np.arange(shape[0]) % 3
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score 1.9"):
        assert HScore().fit(F, y).score_ > 1.95
    # With a few dimensions to spare, what lies apart has room above the chance level.
    G = F[:, : shape[0] * 3 // 4]
    assert not HScore().fit(G + 9 * np.eye(3, G.shape[1])[y], y).saturated_


def test_an_exact_fit_is_announced_and_finite():
    y = np.arange(30) % 3
    for dtype in (np.float32, np.float64):
        with pytest.warns(NoiseFloorWarning, match="3 of 3 outputs exactly"):
            metric = LogME().fit(np.eye(3, 4)[y].astype(dtype), y)
        assert metric.noise_floor_active_.all()
        assert metric.beta_ == close(np.full(3, 1 / (1e-10 / 3)))
        assert np.isfinite(metric.score_)


def test_saturated_softmax_in_single_precision_is_finite():
    logits = 200 * normal(50, 6).astype(np.float32)
    P = softmax(logits, axis=1)
    assert (P == 0).any()
    y = np.arange(50) % 3
    assert np.isfinite(LEEP().fit(P, y).score_)
    assert LEEP().fit(P, y).score_ == close(LEEP(from_logits=True).fit(logits, y).score_, 1e-5)


# ------------------------------------------------------------------------------------ other targets


def test_multilabel_columns_are_scored_one_by_one_and_empty_ones_left_out():
    F = normal(50, 5)
    Y = (F[:, :3] + 0.5 * normal(50, 3, seed=1) > 0).astype(int)
    metric = LogME().fit(F, Y)
    single = [LogME(task="regression").fit(F, column).score_ for column in Y.T]
    assert metric.scores_ == close(np.array(single))
    assert metric.score_ == close(np.mean(single))
    with pytest.warns(ConstantTargetWarning, match=r"left out 1 of 4 outputs .* \[3\]"):
        padded = LogME().fit(F, np.c_[Y, np.zeros(50)])
    assert padded.score_ == close(metric.score_)
    assert np.isnan(padded.scores_[3])
    with pytest.warns(UninformativeScoreWarning, match="every output .* is zero"):
        empty = LogME().fit(F, np.zeros((50, 2)))
    assert np.isnan(empty.score_)
    assert type(empty.score_) is float


@pytest.mark.parametrize("shape", [(40, 5), (15, 30)], ids=["tall", "wide"])
def test_regression_outputs_are_scored_one_by_one(shape):
    F = normal(*shape)
    Y = F[:, :2] + 0.5 * normal(shape[0], 2, seed=1)
    metric = LogME().fit(F, Y)
    assert metric.scores_ == close(np.array([LogME().fit(F, t).score_ for t in Y.T]))
    assert LogME().fit(F, Y[:, 0]).score_ == LogME().fit(F, Y[:, :1]).score_
    assert metric.coef_.shape == (2, shape[1])
    # Per-sample evidence of scaled targets: a constant less.
    assert LogME().fit(F, 100 * Y).score_ == close(metric.score_ - np.log(100))
    order = np.random.default_rng(0).permutation(shape[0])
    assert LogME().fit(F[order], Y[order]).score_ == close(metric.score_)


def test_labels_may_be_scored_as_numbers_on_request_only():
    F, y = make_data(LogME())
    assert len(LogME().fit(F, y).scores_) == 3
    assert len(LogME(task="regression").fit(F, y).scores_) == 1
    with pytest.raises(ValueError, match="must be a 1-D array of labels"):
        LogME(task="classification").fit(F, y + 0.5)
    with pytest.raises(ValueError, match="two or more columns of 0 and 1"):
        LogME(task="multilabel").fit(F, y)
    with pytest.raises(ValueError, match="must hold numbers"):
        LogME(task="regression").fit(F, y.astype(str))


# ----------------------------------------------------------------------------------- sample weights


@each_weighted_metric
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_weights_are_relative(metric, shape):
    X, y = make_data(metric, *shape)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(y))
    expected = score_of(metric, X, y, weight)
    # A power of two and other factors; none changes the score by more than rounding.
    for factor in (0.25, 1e-6, 1e6, 3.7):
        assert score_of(metric, X, y, factor * weight) == close(expected, 1e-11)
    assert score_of(metric, X, y, np.full(len(y), 2.5)) == close(score_of(metric, X, y), 1e-11)
    assert score_of(metric, X, y, np.ones(len(y), dtype=int)) == close(
        score_of(metric, X, y), 1e-12
    )
    if shape[0] > shape[1]:
        assert abs(expected - score_of(metric, X, y)) > 1e-4


@each_weighted_metric
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_weight_zero_is_absence(metric, shape):
    X, y = make_data(metric, *shape)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 3, len(y))
    weight[rng.permutation(len(y))[: len(y) // 3]] = 0.0
    kept = weight > 0
    expected = fitted(metric, X[kept], y[kept], weight[kept])
    with_zeros = fitted(metric, X, y, weight)
    assert with_zeros.score_ == close(expected.score_, 1e-12)
    if hasattr(expected, "chance_level_"):
        assert with_zeros.chance_level_ == close(expected.chance_level_, 1e-12)
    # A class all of whose samples have weight zero is absent.
    without = np.where(y == 1, 0.0, weight)
    metric_without = fitted(metric, X, y, without)
    assert metric_without.classes_.tolist() == [0, 2]
    kept = without > 0
    assert metric_without.score_ == close(score_of(metric, X[kept], y[kept], without[kept]), 1e-12)
    with pytest.raises(ValueError, match="1 class"):
        clone(metric).fit(X, y, sample_weight=(y == 1).astype(float))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.weights_are_repeats is not None],
    ids=lambda case: repr(case.metric),
)
def test_integer_weights_are_repeats_where_the_definition_says_so(case):
    X, y = make_data(case.metric)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    weighted, repeats = (
        score_of(case.metric, X, y, weight),
        score_of(case.metric, X[repeated], y[repeated]),
    )
    if case.weights_are_repeats:
        # The temperature of NCTI divides by the number of samples less one.
        assert weighted == close(repeats, 1e-6 if isinstance(case.metric, NCTI) else 1e-11)
    else:
        # The number of samples itself enters; only its share of the weight is the same.
        assert abs(weighted - repeats) > 1e-5


@each_weighted_metric
def test_wrong_weights_are_refused(metric):
    X, y = make_data(metric)
    with pytest.raises(ValueError, match="sample_weight.shape"):
        clone(metric).fit(X, y, sample_weight=np.ones(len(y) - 1))
    with pytest.raises(ValueError, match="Negative values"):
        clone(metric).fit(X, y, sample_weight=np.r_[-1.0, np.ones(len(y) - 1)])
    with pytest.raises(ValueError, match="NaN"):
        clone(metric).fit(X, y, sample_weight=np.r_[np.nan, np.ones(len(y) - 1)])
    with pytest.raises(ValueError, match="zero"):
        clone(metric).fit(X, y, sample_weight=np.zeros(len(y)))


@each_weighted_metric
def test_weights_that_would_leave_the_float_range_are_refused(metric):
    X, y = make_data(metric)
    for extreme in (1e308, 1e-320):
        weight = np.ones(len(y))
        weight[3] = extreme
        with pytest.raises(ValueError, match="sample_weight must be 0 or between"):
            clone(metric).fit(X, y, sample_weight=weight)
    # Within the limits the ratio may be anything.
    weight = np.where(np.arange(len(y)) % 2, 1e-99, 1e99)
    assert np.isfinite(score_of(metric, X, y, weight))


# ------------------------------------------------------------------------------------------ batches


def split(n_samples, n_batches, seed=0):
    """Cut a random order of the samples into batches of different sizes."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, n_samples), n_batches - 1, replace=False))
    return np.split(rng.permutation(n_samples), cuts)


@each_metric_on_moments
@pytest.mark.parametrize("shape", [(60, 6), (30, 30), (31, 30), (15, 40)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_give_the_score_of_the_whole(metric, shape, weighted):
    X, y = make_data(metric, *shape)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(y)) if weighted else None
    expected = fitted(metric, X, y, weight)
    for seed, n_batches in enumerate([2, 5, len(y)]):
        streamed = clone(metric)
        for rows in split(len(y), n_batches, seed):
            streamed.partial_fit(X[rows], y[rows], None if weight is None else weight[rows])
        assert streamed.score_ == close(expected.score_, 1e-10)
        assert streamed.classes_.tolist() == [0, 1, 2]
        if hasattr(expected, "coef_"):
            np.testing.assert_allclose(streamed.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


@each_metric_on_moments
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_classes_may_arrive_late_and_in_any_order(metric, shape):
    X, y = make_data(metric, *shape)
    names = np.array(["m", "z", "a"])[y]
    expected = score_of(metric, X, names)
    streamed = clone(metric)
    for label in ("m", "z", "a"):
        streamed.partial_fit(X[names == label], names[names == label])
        if label == "m":
            with pytest.warns(UninformativeScoreWarning, match="1 class"):
                assert np.isnan(streamed.score_)
        else:
            assert np.isfinite(streamed.score_)
    assert streamed.score_ == close(expected, 1e-10)


@each_metric_on_moments
def test_partial_fit_continues_fit_and_fit_forgets_partial_fit(metric):
    X, y = make_data(metric)
    streamed = fitted(metric, X[:20], y[:20])
    first = streamed.score_
    streamed.partial_fit(X[20:], y[20:])
    assert streamed.score_ == close(score_of(metric, X, y), 1e-10)
    assert streamed.score_ != first
    assert streamed.fit(X[:20], y[:20]).score_ == first


@each_metric_on_moments
def test_every_result_can_be_read_first_and_none_is_stale(metric):
    X, y = make_data(metric)
    complete = vars(fitted(metric, X, y))
    results = [name for name in complete if name.endswith("_") and name != "moments_"]
    assert "classes_" in results
    for name in results:
        streamed = clone(metric).partial_fit(X[:30], y[:30])
        assert np.isfinite(streamed.score_)
        streamed.partial_fit(X[30:], y[30:])
        first_read = getattr(streamed, name)
        if name == "chance_level_" and metric._per_class:
            assert np.isnan(first_read)  # moments hold no rows to permute the labels of
            continue
        np.testing.assert_allclose(first_read, complete[name], rtol=1e-6)
    unfitted = clone(metric)
    assert not any(hasattr(unfitted, name) for name in [*results, "coef_", "moments_"])
    with pytest.raises(AttributeError, match="no attribute 'nothing_'"):
        getattr(fitted(metric, X, y), "nothing_")  # noqa: B009


def test_class_labels_do_not_outlive_a_classification_target():
    X, y = make_data(LogME())
    metric = LogME().fit(X, y)
    assert metric.classes_.tolist() == [0, 1, 2]
    assert not hasattr(metric.fit(X, X[:, 0]), "classes_")


@each_metric_on_moments
def test_regression_and_multilabel_batches(metric):
    if metric.tasks == ("classification",):
        with pytest.raises(ValueError, match="defined for classification"):
            clone(metric).partial_fit(normal(20, 3), normal(20, 1)[:, 0])
        return
    F = normal(40, 5)
    for Y in (100 + F[:, :2] + normal(40, 2, seed=1), (F[:, :2] > 0).astype(int)):
        streamed = clone(metric)
        for rows in split(40, 6):
            streamed.partial_fit(F[rows], Y[rows])
        assert streamed.score_ == close(score_of(metric, F, Y), 1e-9)


@each_metric_on_moments
def test_a_wrong_batch_is_refused_and_leaves_everything_as_it_was(metric):
    X, y = make_data(metric)
    streamed = clone(metric).partial_fit(X[:30], y[:30])
    for wrong, error in [
        ((X[30:, :4], y[30:]), "4 features"),
        ((X[30:], y[30:-1]), "inconsistent numbers of samples"),
        ((X[30:], y[30:].astype(str)), "one type"),
        ((X[30:], y[30:] + 0.5), "label|regression"),
        ((X[30:], np.eye(3)[y[30:]]), "label|multilabel"),
        ((np.full((3, 6), np.nan), [0, 1, 2]), "NaN"),
        ((X[30:], y[30:], -np.ones(30)), "Negative"),
        ((X[30:], y[30:], np.ones(29)), "sample_weight"),
    ]:
        with pytest.raises(ValueError, match=error):
            streamed.partial_fit(*wrong)
    streamed.partial_fit(X[30:], y[30:])
    assert streamed.score_ == close(score_of(metric, X, y), 1e-10)


@each_metric_on_moments
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_the_caller_may_reuse_its_arrays(metric, start, shape):
    X, y = make_data(metric, *shape)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    more = make_data(metric, *shape, seed=5)
    expected = fitted(metric, X, y, weight)
    expected_coef = getattr(expected, "coef_", None)
    expected_score = expected.score_
    expected_more = expected.partial_fit(*more).score_
    kept = X.copy(), y.copy(), weight.copy()
    reused = getattr(clone(metric), start)(X, y, sample_weight=weight)
    early = getattr(clone(metric), start)(X, y, sample_weight=weight)
    assert early.score_ == close(expected_score)
    X[:], y[:], weight[:] = 7.0, 0, 3.0
    for one in (reused, early):
        if expected_coef is not None:
            np.testing.assert_allclose(one.coef_, expected_coef, rtol=1e-6, atol=1e-9)
        assert pickle.loads(pickle.dumps(one)).score_ == close(expected_score)
        assert one.partial_fit(*more).score_ == close(expected_more)
    X[:], y[:], weight[:] = kept


@each_metric_on_moments
@pytest.mark.parametrize("shape", [(60, 6), (15, 40)], ids=["tall", "wide"])
def test_a_restored_metric_can_go_on(metric, shape):
    X, y = make_data(metric, *shape)
    more_X, more_y = make_data(metric, *shape, seed=4)
    fitted_metric = fitted(metric, X, y)
    restored = pickle.loads(pickle.dumps(fitted_metric))
    restored.partial_fit(more_X, more_y)
    whole = score_of(metric, np.r_[X, more_X], np.r_[y, more_y])
    assert restored.score_ == close(whole, 1e-10)
    assert fitted_metric.score_ == score_of(metric, X, y)


# -------------------------------------------------------------------------------------- wrong input


@each_metric
def test_wrong_input_is_refused_in_a_sentence(metric):
    X, y = make_data(metric)
    for value, words in [(np.nan, "contains NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]:
        wrong = X.copy()
        wrong[3, 2] = value
        with pytest.raises(ValueError, match=words):
            clone(metric).fit(wrong, y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        clone(metric).fit(X + 1j, y)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        clone(metric).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        clone(metric).fit(np.full((60, 6), "a"), y)
    with pytest.raises(ValueError, match="dim 3|3 dim|3D"):
        clone(metric).fit(X[:, :, None], y)
    with pytest.raises(ValueError, match="0 feature"):
        clone(metric).fit(X[:, :0], y)
    with pytest.raises(ValueError, match="0 sample"):
        clone(metric).fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(metric).fit(X, y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        clone(metric).fit(X, None)
    for wrong_y, words in [
        (np.where(y == 1, np.nan, y), "NaN"),
        (np.where(y == 1, np.inf, y), "infinity"),
        (np.array(["a", 1] * 30, dtype=object), "mixes numbers and strings"),
        (np.array([None, 1] * 30, dtype=object), "mixes NoneType and numbers"),
        (np.array([None] * 60, dtype=object), "strings or numbers; got values of type NoneType"),
        (sparse.csr_array(np.eye(3)[y]), "dense array; got a sparse one"),
        (y + 1j, "Complex data"),
        (np.ones((60, 1, 1)), "dim"),
        (np.array([["a", "b"]] * 60), "must hold numbers"),
        (np.ones((60, 0)), "0 feature"),
        (5, "scalar|dimension"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            clone(metric).fit(X, wrong_y)


def test_leep_names_the_option_for_logits():
    X, y = make_data(LEEP(from_logits=True))
    with pytest.raises(ValueError, match="Negative values in data .* from_logits=True"):
        LEEP().fit(X, y)
    with pytest.raises(ValueError, match="Negative values in data"):
        LEEP().fit(softmax(X, axis=1), y).predict_proba(X)
    # A target given in place of probabilities.
    for swapped in (y, y.astype(float), y.astype(str)):
        with pytest.raises(ValueError, match="Expected 2D array"):
            LEEP().fit(swapped, y)


def test_nce_takes_hard_labels_or_a_matrix_of_outputs():
    z, y = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    assert NCE().fit(z, y).score_ == close(-0.318257, 1e-6)
    assert NCE().fit(y, z).score_ == close(-0.374890, 1e-6)
    expected = NCE().fit(z, y).score_
    names = np.array(["cat", "dog"])[z]
    for same in (
        z.tolist(),
        z[:, None],
        z.astype(np.uint8),
        z.astype(bool),
        -5 * z,
        names,
        names.tolist(),
        names.astype(object),
        names[:, None],
        pd.Series(names),
        pd.Series(names).astype("category"),
        pd.DataFrame({"source": names}),
        pl.Series(names.tolist()),
        np.eye(2)[z],
        np.eye(2, dtype=int)[z],
        np.eye(7)[z],
        pd.DataFrame(np.eye(2)[z]),
        np.log(np.eye(2)[z] + 1e-3),
    ):
        assert NCE().fit(same, y).score_ == close(expected, 1e-13)
    assert NCE().fit(names, y).source_classes_.tolist() == ["cat", "dog"]
    assert LEEP().fit(np.eye(2)[z], y).score_ == close(expected, 1e-12)
    with pytest.raises(ValueError, match="hard source labels .* got a 1-D array of dtype float"):
        NCE().fit(z.astype(float), y)
    for mixed in (["a", 1] * 3, [None, 1] * 3, [("a",), ("b",)] * 3):
        objects = np.empty(6, dtype=object)
        objects[:] = mixed
        for given_labels in (objects, objects[:, None]):
            with pytest.raises(ValueError, match="source labels for NCE"):
                NCE().fit(given_labels, y)
    # Of equal outputs the first counts.
    assert NCE().fit(np.ones((6, 3)), y).source_classes_.tolist() == [0]


@pytest.mark.parametrize("n_source_classes", [1, 2, 40])
def test_nce_is_leep_of_one_hot_probabilities(n_source_classes):
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, n_source_classes, 70), rng.integers(0, 4, 70)
    one_hot = np.eye(n_source_classes)[z]
    assert NCE().fit(z, y).score_ == close(LEEP().fit(one_hot, y).score_, 1e-12)


@pytest.mark.parametrize(
    "metric", [LEEP(), LEEP(from_logits=True), LEEP(temperature=3.0)], ids=repr
)
def test_leep_is_the_log_likelihood_of_its_classifier(metric):
    X, y = make_data(metric)
    fitted_metric = fitted(metric, X, y)
    proba = fitted_metric.predict_proba(X)
    assert proba.shape == (60, 3)
    assert proba.sum(axis=1) == close(np.ones(60))
    assert np.log(proba[np.arange(60), y]).mean() == close(fitted_metric.score_, 1e-12)
    assert fitted_metric.conditional_.sum(axis=0) == close(np.ones(6))


def test_source_classes_without_mass_change_nothing():
    X, y = make_data(LEEP())
    expected = LEEP().fit(X, y)
    padded = np.insert(X, [0, 3, 6], 0.0, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = LEEP().fit(padded, y)
    assert metric.score_ == close(expected.score_, 1e-12)
    assert metric.predict_proba(padded) == close(expected.predict_proba(X), 1e-12)
    # On a sample that has mass there only, the classifier says what it knows: the class shares.
    elsewhere = np.eye(9)[[0]]
    assert metric.predict_proba(elsewhere) == close(np.full((1, 3), 1 / 3), 1e-12)


def test_rows_that_do_not_sum_to_one_are_announced():
    X, y = make_data(LEEP())
    wrong = X.copy()
    wrong[4] *= 2
    with pytest.warns(ProbabilityNormalizationWarning, match=r"1 of 60 rows .*row 4 sums to 2\)"):
        metric = LEEP().fit(wrong, y)
    assert metric.score_ == close(LEEP().fit(X, y).score_, 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = LEEP().fit(X.astype(np.float16), y)  # sums stray from one by rounding only
    assert half.score_ == close(metric.score_, 1e-3)
    wrong[4] = 0
    with pytest.warns(ProbabilityNormalizationWarning, match="row 4 sums to 0"):
        metric = LEEP().fit(wrong, y)
    wrong[4] = 1 / 6
    assert metric.score_ == close(LEEP().fit(wrong, y).score_, 1e-12)


# -------------------------------------------------------------------------------------- the process


@each_metric
def test_nothing_global_is_touched(metric):
    X, y = make_data(metric)
    wide_X, wide_y = make_data(metric, 12, 30)

    def state():
        numpy_state = np.random.get_state()  # noqa: NPY002
        return (
            numpy_state[1].tobytes(),
            numpy_state[2:],
            random.getstate(),
            list(warnings.filters),
            np.geterr(),
            np.get_printoptions(),
            [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()],
        )

    before = state()
    fitted_metric = fitted(metric, X, y)
    fitted_metric.score(X, y)
    fitted(metric, wide_X, wide_y)
    assert state() == before


@each_metric
def test_a_drawn_seed_leaves_the_global_generator_alone(metric):
    if "random_state" in metric.get_params():
        metric = clone(metric).set_params(random_state=None)
    X, y = make_data(metric)
    before = np.random.get_state()  # noqa: NPY002
    fitted(metric, X, y)
    after = np.random.get_state()  # noqa: NPY002
    assert before[2] == after[2]
    assert np.array_equal(before[1], after[1])


@each_metric
def test_the_result_does_not_depend_on_the_global_generator_or_error_state(metric):
    X, y = make_data(metric)
    expected = fitted(metric, X, y)
    np.random.seed(123)  # noqa: NPY002
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        again = fitted(metric, X, y)
    assert again.score_ == expected.score_
    assert getattr(again, "chance_level_", 0) == close(getattr(expected, "chance_level_", 0), 0)


# --------------------------------------------------------------------------------------- properties

SIZES = st.floats(-1e100, 1e100, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-100)
SMALL = st.integers(-2, 2).map(float)
EXTREME = st.sampled_from([0.0, 1.0, -1.0, 1e16, 5e-324, 1e-300, 1.7e308, -1.7e308])
ORDINARY = st.floats(-10, 10, width=32, allow_subnormal=False)


@st.composite
def matrices(draw, n_samples):
    """A matrix of some dtype, order and kind of content: ties, constants, ordinary or any size."""
    n_columns = draw(st.integers(1, 12))
    elements = draw(st.sampled_from([SMALL, ORDINARY, SIZES, EXTREME]))
    X = draw(hnp.arrays(np.float64, (n_samples, n_columns), elements=elements))
    if elements in (SMALL, ORDINARY):
        X = X.astype(draw(st.sampled_from([np.float64, np.float32, np.float16])))
    return np.asarray(X, order=draw(st.sampled_from("CF")))


@st.composite
def targets(draw, n_samples):
    """Labels of some kind, 0/1 columns, or numbers."""
    codes = draw(hnp.arrays(np.int64, n_samples, elements=st.integers(0, 4)))
    kind = draw(
        st.sampled_from(["int", "str", "bool", "float", "object", "column", "numbers", "multi"])
    )
    if kind == "str":
        return np.array(["e", "d", "c", "b", "a"])[codes]
    if kind == "bool":
        return codes > 1
    if kind == "float":
        return codes - 2.0
    if kind == "object":
        return np.array(["e", "d", "c", "b", "a"], dtype=object)[codes]
    if kind == "column":
        return codes[:, None].astype(np.uint8)
    if kind == "numbers":
        return draw(hnp.arrays(np.float64, (n_samples, draw(st.integers(1, 2))), elements=ORDINARY))
    if kind == "multi":
        return draw(hnp.arrays(np.int8, (n_samples, 3), elements=st.integers(0, 1)))
    return codes


@st.composite
def problems(draw):
    n_samples = draw(st.integers(1, 16))
    weight = draw(
        st.none() | hnp.arrays(np.float64, n_samples, elements=st.sampled_from([0, 0.5, 1, 1e6]))
    )
    return draw(matrices(n_samples)), draw(targets(n_samples)), weight


@each_metric
@settings(max_examples=40, derandomize=True, deadline=None)
@given(problem=problems())
def test_there_is_a_finite_score_or_a_reason(metric, problem):
    """Nothing but a finite score, a named warning with NaN, or a ValueError that says why."""
    F, y, weight = problem
    X = np.abs(F) if takes_probabilities(metric) else F
    before = X.tobytes(), y.tobytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted_metric = fitted(metric, X, y, weight if metric in WEIGHTED else None)
        except ValueError as error:
            reason = str(error)
            assert len(reason) > 20
            assert any(
                word in reason
                for word in (
                    *("1 class", "1 sample", "0 sample", "is defined for", "zero"),
                    "all others together",
                )
            ), reason
            return
    assert all(issubclass(w.category, TransferabilityWarning) for w in caught), [
        str(w.message) for w in caught
    ]
    score = fitted_metric.score_
    assert type(score) is float
    low, high = metric.bounds
    if np.isnan(score):
        assert caught
        assert all("zero for" in str(w.message) for w in caught)
    else:
        assert low <= score <= high
        assert np.isfinite(score)
    assert (X.tobytes(), y.tobytes()) == before


@each_metric_on_moments
@settings(max_examples=25, derandomize=True, deadline=None)
@given(data=st.data())
def test_any_cut_into_batches_gives_the_same_score(metric, data):
    seed = data.draw(st.integers(0, 2**16))
    n_samples = data.draw(st.integers(4, 30))
    n_columns = data.draw(st.integers(1, 20))
    cuts = data.draw(st.lists(st.integers(1, n_samples - 1), max_size=5, unique=True))
    offset = data.draw(st.sampled_from([0.0, 1.0, -1e4]))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_columns)) + offset
    y = np.arange(n_samples) % data.draw(st.integers(2, min(4, n_samples)))
    rng.shuffle(y)
    streamed = clone(metric)
    parts = np.split(np.arange(n_samples), sorted(cuts))
    for rows in parts:
        streamed.partial_fit(X[rows], y[rows])
    expected = fitted(metric, X, y)
    assert streamed.score_ == close(expected.score_, 1e-7 if offset else 1e-10)
    per_class = {"per_class": metric._per_class}
    merged = FeatureMoments.from_arrays(X[parts[0]], y[parts[0]], **per_class)
    for rows in parts[1:]:
        merged = FeatureMoments.from_arrays(X[rows], y[rows], **per_class) + merged
    assert clone(metric).fit_moments(merged).score_ == close(
        expected.score_, 1e-7 if offset else 1e-10
    )
