"""TransRate: its formula, stored values of the originals, conditioning, batches."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import FeatureMoments, LogME, MetricInputs, _transrate
from sktransfer.metrics._transrate import TransRate

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(
        case, *f"{key.removeprefix('transrate.')}@".split("@")[:2], entry, id=f"{case}-{key}"
    )
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("transrate.")
]
SETTINGS = {"tllib": {"weights": "uniform"}, "emab": {"normalize": True}}
ALL = [TransRate(), TransRate(weights="uniform"), TransRate(normalize=True), TransRate(eps=0.1)]
each = pytest.mark.parametrize("metric", ALL, ids=repr)
SHAPES = pytest.mark.parametrize("shape", [(60, 6), (24, 40)], ids=["tall", "wide"])


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.minimum(np.arange(n_samples) % (n_classes + 1), n_classes - 1))
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def by_definition(F, y, eps=1e-4, uniform=False, normalize=False):
    Z = F - F.mean(axis=0)
    if normalize:
        Z /= np.linalg.norm(Z)

    def rate(rows):
        return np.linalg.slogdet(np.eye(F.shape[1]) + rows.T @ rows / (len(rows) * eps))[1] / 2

    labels, counts = np.unique(y, return_counts=True)
    weights = np.full(len(labels), 1 / len(labels)) if uniform else counts / len(y)
    rates = [rate(Z[y == label]) for label in labels]
    return rate(Z) - weights @ rates


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("shape", [(60, 6), (24, 40), (20, 20), (30, 1)], ids=str)
@pytest.mark.parametrize("eps", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_formula(shape, eps, uniform, normalize):
    X, y = make_data(*shape)
    metric = TransRate(eps, "uniform" if uniform else "prior", normalize).fit(X, y)
    expected = by_definition(X, y, eps, uniform, normalize)
    assert metric.score_ == pytest.approx(expected, rel=1e-10, abs=1e-12)
    shares = np.bincount(y) / len(y)
    weights = np.full(3, 1 / 3) if uniform else shares
    assert metric.rate_ - weights @ metric.class_rates_ == pytest.approx(metric.score_, abs=1e-12)


def test_balanced_classes_have_one_value_and_others_two():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)) + 1.0, np.arange(60) % 3
    assert TransRate().fit(X, y).score_ == TransRate(weights="uniform").fit(X, y).score_
    X, y = make_data()
    prior, uniform = TransRate().fit(X, y), TransRate(weights="uniform").fit(X, y)
    assert abs(prior.score_ - uniform.score_) > 0.01
    # Only the class shares bound it from below.
    X = np.r_[0.1 * rng.normal(size=(2000, 4)), 10 * rng.normal(size=(8, 4))]
    y = np.r_[np.zeros(2000, int), np.ones(8, int)]
    assert TransRate().fit(X, y).score_ > 0
    assert TransRate(weights="uniform").fit(X, y).score_ < 0


# ----------------------------------------------------------------------------------- stored values


@pytest.mark.parametrize(("case", "implementation", "suffix", "entry"), ENTRIES)
def test_stored_values(case, implementation, suffix, entry):
    X, y = arrays(case, suffix)
    score = TransRate(**SETTINGS[implementation]).fit(X, y).score_
    assert score == pytest.approx(entry["value"], rel=1e-10)
    # Single precision features cost the originals digits, and nothing here.
    single = TransRate(**SETTINGS[implementation]).fit(X.astype(np.float32), y).score_
    assert single == pytest.approx(score, rel=1e-10)


def test_nothing_of_the_stored_values_was_left_out():
    assert len(ENTRIES) == 20


# ---------------------------------------------------------------------------- invariances and sizes


@each
@SHAPES
def test_shifts_rotations_zero_columns_and_the_order_of_rows_change_nothing(metric, shape):
    X, y = make_data(*shape)
    expected = metric.fit(X, y).score_
    order = np.random.default_rng(1).permutation(len(y))
    rotation = ortho_group.rvs(shape[1], random_state=0)
    for changed, labels in [
        (X[order], y[order]),
        (X + 3.25, y),
        (X @ rotation, y),
        (np.c_[X, np.zeros((len(y), 3))], y),
    ]:
        assert metric.fit(changed, labels).score_ == pytest.approx(expected, rel=1e-9)


@SHAPES
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_scale(shape, scale):
    X, y = make_data(*shape)
    normalized = TransRate(normalize=True)
    assert normalized.fit(X * scale, y).score_ == pytest.approx(
        normalized.fit(X, y).score_, rel=1e-9
    )
    metric = TransRate()
    score = metric.fit(X * scale, y).score_
    if scale < 1:
        assert score == pytest.approx(0, abs=1e-50)
        return
    # Each dimension of the whole and of the classes gains log(scale).
    gain = np.log(scale) - np.log(1e10)
    before = TransRate().fit(X * 1e10, y)
    ranks = [min(len(y) - 1, shape[1]), *np.minimum(np.bincount(y), shape[1])]
    assert metric.rate_ - before.rate_ == pytest.approx(ranks[0] * gain, rel=1e-9)
    assert metric.class_rates_ - before.class_rates_ == pytest.approx(
        np.array(ranks[1:]) * gain, rel=1e-9
    )


def test_columns_of_very_different_sizes_and_outliers_keep_their_digits():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    sizes = np.array([1e-6, 1.0, 1e3, 1e6])
    # Independent columns of huge variance add what they add at any size.
    wild = TransRate().fit(X * sizes, y).score_
    assert wild == pytest.approx(precise(X * sizes, y), rel=1e-8)
    for outlier in (1e4, 1e8):
        F = X[:, :3].copy()
        F[0] = outlier
        for weights in ("prior", "uniform"):
            metric = TransRate(weights=weights).fit(F, y)
            assert metric.score_ == pytest.approx(precise(F, y), rel=1e-6)
    for offset in (1e4, 1e6):
        shifted = TransRate().fit(X + offset, y).score_
        back = TransRate().fit((X + offset) - offset, y).score_
        assert shifted == pytest.approx(back, rel=1e-8)


def precise(F, y):
    """The formula by singular values, for balanced classes."""
    Z = F - F.mean(axis=0)

    def rate(rows):
        values = np.linalg.svd(rows, compute_uv=False)
        return 0.5 * np.log1p(values**2 / (len(rows) * 1e-4)).sum()

    return rate(Z) - np.mean([rate(Z[y == label]) for label in np.unique(y)])


def test_rounding_bounds_decide_when_the_rows_are_decomposed(monkeypatch):
    from sktransfer.metrics._class_parts import RowsPart

    calls = []
    original = RowsPart.root_mean_squares
    monkeypatch.setattr(
        RowsPart,
        "root_mean_squares",
        lambda part, *args: calls.append(part.n_samples) or original(part, *args),
    )
    X, y = make_data(400, 30)
    metric = TransRate(n_permutations=0)
    metric.fit(X, y)
    assert calls == []  # ordinary features: second moments are enough
    metric.fit(1e6 * X, y)
    assert calls == []  # large, but none is small beside another
    metric.fit(X * np.geomspace(1, 1e8, 30), y)
    assert calls == [400, *np.bincount(y)]


# -------------------------------------------------------------------------------- extremes, faults


@each
def test_scores_that_any_labels_would_get_are_announced(metric):
    for X in (np.zeros((30, 4)), np.full((30, 4), 0.1)):
        with pytest.warns(UninformativeScoreWarning, match="features are constant"):
            metric.fit(X, np.arange(30) % 3)
        assert metric.score_ == 0
        assert metric.saturated_
    X, _ = make_data(8)
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        metric.fit(X, np.arange(8))
    assert metric.saturated_
    expected = metric.score_
    with pytest.warns(UninformativeScoreWarning):
        assert metric.fit(X, np.arange(8)[::-1]).score_ == pytest.approx(expected)


def test_a_class_absent_from_the_subset_and_classes_of_one_sample_are_fine():
    X, y = make_data(80, 5, 4)
    rows = y != 2
    expected = TransRate().fit(X[rows], np.array([0, 1, 9, 2])[y[rows]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        metric = TransRate().fit(X[rows], y[rows])
        assert metric.score_ == pytest.approx(expected.score_, rel=1e-13)
        assert metric.classes_.tolist() == [0, 1, 3]
        single = TransRate().fit(X, np.where(np.arange(80) == 3, 7, y))
    assert np.isfinite(single.score_)


def test_informative_features_beat_shuffled_labels():
    X, y = make_data(90)
    rng = np.random.default_rng(0)
    for metric in ALL:
        shuffled = [metric.fit(X, rng.permutation(y)).score_ for _ in range(10)]
        assert metric.fit(X, y).score_ > max(shuffled)


# -------------------------------------------------------------------------------- batches, sharing


@each
@pytest.mark.parametrize("shape", [(60, 6), (24, 40), (60, 15)], ids=["tall", "wide", "mixed"])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_give_the_score_of_the_whole(metric, shape, weighted):
    X, y = make_data(*shape)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if weighted else None
    expected = metric.fit(X, y, weight).score_
    for n_batches in (2, 9, len(y)):
        streamed = TransRate(**metric.get_params())
        for rows in np.array_split(np.random.default_rng(3).permutation(len(y)), n_batches):
            streamed.partial_fit(X[rows], y[rows], None if weight is None else weight[rows])
        assert streamed.score_ == pytest.approx(expected, rel=1e-10)
    streamed.fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert streamed.score_ == pytest.approx(metric.fit(X, y).score_, rel=1e-10)


@each
@SHAPES
def test_other_metrics_share_the_decomposition(metric, shape):
    X, y = make_data(*shape)
    inputs = MetricInputs(y, X)
    inputs.fit(LogME())
    assert inputs.fit(metric).score_ == pytest.approx(metric.fit(X, y).score_, rel=1e-11)


def test_moments_must_hold_those_of_every_class():
    X, y = make_data()
    with pytest.raises(ValueError, match="TransRate needs the moments of every class"):
        TransRate().fit_moments(FeatureMoments.from_arrays(X, y))


def test_weights():
    X, y = make_data()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = TransRate().fit(X, y, weight).score_
    assert weighted == pytest.approx(TransRate().fit(X[rows], y[rows]).score_, rel=1e-11)
    assert TransRate().fit(X, y, 1e5 * weight).score_ == pytest.approx(weighted, rel=1e-11)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [({"eps": 0.0}, "eps"), ({"weights": "class"}, "weights"), ({"normalize": 2}, "normalize")],
)
def test_wrong_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        TransRate(**parameters).fit(*make_data())


@pytest.mark.parametrize("scale", [1e-20, 1e-300])
def test_features_far_below_the_precision_are_announced(scale):
    X, y = make_data(60, 5, 3)
    with pytest.warns(UninformativeScoreWarning, match=r"so far below sqrt\(eps\)"):
        metric = TransRate().fit(scale * X, y)
    assert metric.saturated_
    with pytest.warns(UninformativeScoreWarning, match=r"so far below sqrt\(eps\)"):
        assert clone(metric).partial_fit(scale * X, y).saturated_


def test_the_chance_level_is_the_mean_over_permutations_where_they_are_cheap():
    X, y = make_data(60, 5, 3)
    rng = np.random.default_rng(0)
    permuted = [TransRate(n_permutations=0).fit(X, rng.permutation(y)).score_ for _ in range(100)]
    metric = TransRate(n_permutations=60).fit(X, rng.permutation(y))
    assert metric.chance_level_ == pytest.approx(np.mean(permuted), abs=np.std(permuted))
    assert np.isnan(TransRate(n_permutations=0).fit(X, y).chance_level_)


def test_permutations_of_large_matrices_have_to_be_asked_for(monkeypatch):
    X, y = make_data(60, 5, 3)
    monkeypatch.setattr(_transrate, "_MOST_WORK", 100)
    assert np.isnan(TransRate().fit(X, y).chance_level_)
    assert np.isfinite(TransRate(n_permutations=3).fit(X, y).chance_level_)
