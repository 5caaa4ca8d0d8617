"""SFDA: its two stages, stored values of the originals, shrinkage, saturation, input untouched."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import ortho_group
from sklearn.covariance import LedoitWolf

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import LogME, MetricInputs
from sktransfer.metrics._sfda import SFDA

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(case, *f"{key.removeprefix('sfda.')}@".split("@")[:2], entry, id=f"{case}-{key}")
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("sfda.")
]
SHAPES = pytest.mark.parametrize("shape", [(60, 6), (24, 40)], ids=["tall", "wide"])
may_saturate = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def by_definition(F, y, shrinkage=None):
    """Fit, mix, fit again, in the full feature space and with explicit inverses."""
    n, n_features = F.shape
    priors = np.bincount(y) / n

    def fit(rows, h):
        means = np.array([rows[y == k].mean(axis=0) for k in range(len(priors))])
        within = sum(p * np.cov(rows[y == k].T, bias=True) for k, p in enumerate(priors))
        if h is None:
            v = within.sum(axis=1)
            for _ in range(3):
                u = within @ v / np.linalg.norm(within @ v)
                v = within @ u / np.linalg.norm(within @ u)
            h = max(np.exp(-5 * v @ within @ u), 1e-10)
        shrunk = (1 - h) * within + h * np.trace(within) / n_features * np.eye(n_features)
        inverse = np.linalg.inv(shrunk)
        scores = [-0.5 * np.einsum("ij,jk,ik->i", rows - m, inverse, rows - m) for m in means]
        return softmax(np.transpose(scores) + np.log(priors), axis=1), means, h

    p, means, h = fit(F, shrinkage)
    own = np.arange(n), y
    q = softmax(p, axis=1)[own][:, None]
    others = np.array([np.delete(means, k, axis=0).mean(axis=0) for k in range(len(priors))])
    p, _, _ = fit(q * F + (1 - q) * others[y], h)
    return p[own].mean(), h


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("shrinkage", ["adaptive", 0.0, 0.01, 0.5, 1.0])
def test_formula(n_classes, shrinkage):
    for seed in range(3):
        X, y = make_data(70, 5, n_classes, seed)
        X = 0.4 * X + 2.0
        metric = SFDA(shrinkage).fit(X, y)
        expected, h = by_definition(X, y, None if shrinkage == "adaptive" else shrinkage)
        assert metric.score_ == pytest.approx(expected, rel=1e-10)
        assert metric.shrinkage_ == pytest.approx(h, rel=1e-10)


@may_saturate
@pytest.mark.parametrize("shrinkage", ["adaptive", 0.1, 0.9])
def test_the_space_of_the_rows_is_enough_for_wide_features(shrinkage):
    X, y = make_data(20, 60)
    X *= 0.2
    metric = SFDA(shrinkage).fit(X, y)
    expected, h = by_definition(X, y, None if shrinkage == "adaptive" else shrinkage)
    assert metric.score_ == pytest.approx(expected, rel=1e-9)
    assert metric.shrinkage_ == pytest.approx(h, rel=1e-10)


def test_the_trace_is_averaged_over_all_features_also_empty_ones():
    X, y = make_data()
    padded = np.c_[X, np.zeros((60, 60))]
    score = SFDA(0.5).fit(padded, y).score_
    assert score == pytest.approx(by_definition(padded, y, 0.5)[0], rel=1e-10)
    assert abs(score - SFDA(0.5).fit(X, y).score_) > 0.01


@pytest.mark.parametrize(("case", "implementation", "suffix", "entry"), ENTRIES)
@may_saturate
def test_stored_values(case, implementation, suffix, entry):
    X, y = arrays(case, suffix)
    metric = SFDA(n_permutations=0).fit(X, y)
    assert metric.score_ == pytest.approx(entry["value"], rel=1e-9)
    if "shrinkage" in entry["settings"]:
        assert metric.shrinkage_ == pytest.approx(entry["settings"]["shrinkage"], rel=1e-9)
    single = SFDA(n_permutations=0).fit(X.astype(np.float32), y)
    assert single.score_ == pytest.approx(metric.score_, rel=1e-9)


def test_nothing_of_the_stored_values_was_left_out():
    assert len(ENTRIES) == 20


def test_ledoit_wolf_is_the_estimate_for_samples_less_their_class_mean():
    for shape in [(80, 5), (40, 100), (50, 1)]:
        X, y = make_data(*shape)
        means = np.array([X[y == k].mean(axis=0) for k in range(3)])
        expected = LedoitWolf(assume_centered=True).fit(X - means[y]).shrinkage_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeScoreWarning)
            metric = SFDA("ledoit_wolf").fit(X, y)
        assert metric.shrinkage_ == pytest.approx(expected, rel=1e-9)
        assert metric.score_ == pytest.approx(SFDA(expected).fit(X, y).score_, rel=1e-9)


def test_features_whose_rows_sum_to_the_same_start_at_the_largest_eigenvalue():
    # Row sums of the covariance of probabilities vanish, and with them the published start.
    X, y = make_data()
    P = softmax(X, axis=1)
    means = np.array([P[y == k].mean(axis=0) for k in range(3)])
    largest = np.linalg.norm(P - means[y], 2) ** 2 / len(y)
    assert SFDA().fit(P, y).shrinkage_ == pytest.approx(np.exp(-5 * largest), rel=1e-9)


# ----------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@SHAPES
@may_saturate
def test_the_features_are_not_written_to_and_a_second_call_gives_the_same(dtype, shape):
    X, y = make_data(*shape)
    X = X.astype(dtype)
    before = X.tobytes()
    first = SFDA().fit(X, y).score_
    assert X.tobytes() == before
    assert SFDA().fit(X, y).score_ == first
    X.flags.writeable = False
    assert SFDA().fit(X, y).score_ == first


def test_labels_are_any_labels_and_integers_are_not_cut():
    X, y = make_data()
    expected = SFDA().fit(X, y).score_
    for labels in (np.array([5, -1, 70])[y], np.array(["b", "c", "a"])[y], y[:, None].tolist()):
        metric = SFDA().fit(X, labels)
        assert metric.score_ == pytest.approx(expected, rel=1e-12)
    whole = np.rint(3 * X).astype(int)
    assert SFDA().fit(whole, y).score_ == SFDA().fit(whole.astype(float), y).score_


@pytest.mark.parametrize("shape", [(200, 512), (60, 512), (120, 96)])
def test_saturation_on_noise_is_announced(shape):
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=shape), np.arange(shape[0]) % (10 if shape[0] == 120 else 2)
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score"):
        metric = SFDA().fit(F, y)
    assert metric.saturated_
    assert metric.score_ > 0.9
    assert metric.chance_level_ > 0.9


def test_informative_and_well_conditioned_features_are_not_announced():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 4
    F = rng.normal(size=(240, 20)) + rng.normal(size=(4, 20))[y]
    separable = F + 100 * np.eye(4, 20)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ordinary, perfect = SFDA().fit(F, y), SFDA().fit(separable, y)
    assert not ordinary.saturated_
    assert perfect.score_ > 0.999  # at its maximum, and far above chance
    assert perfect.chance_level_ < 0.6


def test_noise_is_told_from_information_where_no_score_is_extreme():
    rng = np.random.default_rng(1)
    announced = []
    for seed in range(20):
        F, y = rng.normal(size=(80, 6)), np.arange(80) % 3
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metric = SFDA(random_state=seed).fit(F, y)
        assert metric.saturated_ == bool(caught)
        announced.append(metric.saturated_)
    assert sum(announced) >= 18


@may_saturate
def test_the_well_conditioned_alternative_ranks_where_the_adaptive_one_saturates():
    X, y = arrays("digits_relu512")
    noise = np.random.default_rng(0).normal(size=X.shape)
    assert SFDA().fit(X, y).score_ == SFDA().fit(noise, y).score_ == 1
    real, fake = (SFDA("ledoit_wolf").fit(F, y) for F in (X, noise))
    assert not real.saturated_
    assert fake.saturated_
    assert real.score_ > fake.score_


@may_saturate
def test_the_chance_level_is_the_mean_score_of_permuted_labels():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(50, 12)), np.arange(50) % 3
    scores = [SFDA(n_permutations=0).fit(F, rng.permutation(y)).score_ for _ in range(60)]
    estimate = SFDA(n_permutations=60, random_state=3).fit(F, y).chance_level_
    assert abs(estimate - np.mean(scores)) < 5 * np.std(scores) * np.sqrt(2 / 60)
    assert np.isnan(SFDA(n_permutations=0).fit(F, y).chance_level_)


@pytest.mark.parametrize("random_state", [0, 7, None, np.random.RandomState(2)])
def test_seeds(random_state):
    X, y = make_data()
    metric = SFDA(random_state=random_state).fit(X, y)
    again = SFDA(random_state=metric.seed_).fit(X, y)
    assert again.chance_level_ == metric.chance_level_
    assert metric.score(X, y) == metric.score_
    other = SFDA(random_state=metric.seed_ + 1).fit(X, y)
    assert other.score_ == metric.score_
    assert other.chance_level_ != metric.chance_level_


@may_saturate
@SHAPES
def test_the_chance_level_depends_neither_on_the_order_of_rows_nor_on_names(shape):
    X, y = make_data(*shape)
    X[5:9] = X[4]  # equal rows with different labels
    expected = SFDA().fit(X, y)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        names = np.array(["z", "a", "m"])[y[order]]
        metric = SFDA().fit(X[order], names)
        assert metric.score_ == pytest.approx(expected.score_, rel=1e-11)
        assert metric.chance_level_ == pytest.approx(expected.chance_level_, rel=1e-11)


# ------------------------------------------------------------------------------------- invariances


@may_saturate
@SHAPES
def test_shifts_and_where_the_shrinkage_allows_rotations_and_scale_change_nothing(shape):
    X, y = make_data(*shape)
    rotation = ortho_group.rvs(shape[1], random_state=0)
    for shrinkage in ("ledoit_wolf", 0.2):
        expected = SFDA(shrinkage).fit(X, y).score_
        for changed in (X + 3.25, X @ rotation, 37.5 * X, 1e150 * X, 1e-150 * X):
            assert SFDA(shrinkage).fit(changed, y).score_ == pytest.approx(expected, rel=1e-9)
    expected = SFDA().fit(X, y)
    assert SFDA().fit(X + 3.25, y).score_ == pytest.approx(expected.score_, rel=1e-9)
    assert SFDA().fit(0.1 * X, y).shrinkage_ > expected.shrinkage_
    assert SFDA().fit(1e150 * X, y).shrinkage_ == 1e-10
    assert SFDA().fit(1e-150 * X, y).shrinkage_ == 1


# ----------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("shrinkage", ["adaptive", "ledoit_wolf", 0.0, 0.3, 1.0])
def test_degenerate_features(shrinkage):
    y = np.arange(30) % 3
    with pytest.warns(UninformativeScoreWarning, match="the features are constant"):
        metric = SFDA(shrinkage).fit(np.full((30, 4), 0.1), y)
    assert metric.score_ == pytest.approx(1 / 3)  # what the class shares alone give
    assert metric.chance_level_ == metric.score_
    X, _ = make_data(8)
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        metric = SFDA(shrinkage).fit(X, np.arange(8))
    assert metric.score_ == pytest.approx(1)
    # Classes that are single points, two of them the same one.
    points = np.array([[0.1, 0.7], [0.1, 0.7], [0.3, 0.2]])[y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = SFDA(shrinkage).fit(points, y)
    assert metric.score_ == pytest.approx(2 / 3)
    assert SFDA(shrinkage).fit(np.eye(3)[y], y).score_ == pytest.approx(1)


def test_a_singular_covariance_without_shrinkage_is_one_with_very_little():
    # Repeated samples: within the classes most directions have no variance at all.
    rng = np.random.default_rng(0)
    for seed in range(10):
        X = np.repeat(rng.normal(size=(6, 30)), 10, axis=0)
        y = np.repeat([0, 1, 0, 1, 0, 1], 10)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            metric = SFDA(0.0, random_state=seed).fit(X, y)
        assert metric.score_ == pytest.approx(1)


def test_the_maximum_without_permutations_is_announced():
    X, y = make_data(20, 60)
    with pytest.warns(UninformativeScoreWarning, match="at its maximum"):
        metric = SFDA(n_permutations=0).fit(X, y)
    assert metric.saturated_
    assert np.isnan(metric.chance_level_)


# ------------------------------------------------------------------------------ the classifier


@may_saturate
@SHAPES
def test_the_classifier_fitted_last(shape):
    X, y = make_data(*shape)
    X = X * 0.3 + 5.0
    metric = SFDA().fit(X, y)
    proba = metric.predict_proba(X)
    assert proba.shape == (len(y), 3)
    assert proba.sum(axis=1) == pytest.approx(np.ones(len(y)))
    assert metric.coef_.shape == (3, shape[1])
    # On the samples mixed as the definition says it gives the score.
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    within = sum(np.mean(y == k) * np.cov(X[y == k].T, bias=True) for k in range(3))
    h = metric.shrinkage_
    inverse = np.linalg.inv((1 - h) * within + h * np.trace(within) / shape[1] * np.eye(shape[1]))
    first = softmax(
        np.transpose([-0.5 * np.einsum("ij,jk,ik->i", X - m, inverse, X - m) for m in means])
        + np.log(np.bincount(y) / len(y)),
        axis=1,
    )
    q = softmax(first, axis=1)[np.arange(len(y)), y][:, None]
    mixed = q * X + (1 - q) * ((means.sum(axis=0) - means) / 2)[y]
    own = metric.predict_proba(mixed)[np.arange(len(y)), y]
    assert own.mean() == pytest.approx(metric.score_, rel=1e-7)


def test_other_metrics_share_the_decomposition():
    X, y = make_data()
    inputs = MetricInputs(y, X)
    inputs.fit(LogME())
    assert inputs.fit(SFDA()).score_ == SFDA().fit(X, y).score_


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"shrinkage": "auto"}, "shrinkage"),
        ({"shrinkage": 1.5}, "shrinkage"),
        ({"n_permutations": -1}, "n_permutations"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_wrong_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        SFDA(**parameters).fit(*make_data())
