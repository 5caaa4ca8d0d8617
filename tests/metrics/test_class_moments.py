"""Moments of every class by itself: merging, batches, sizes, what they refuse, memory."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from sktransfer.metrics import FeatureMoments, HScore, LogME
from sktransfer.metrics._class_parts import DensePart, RowsByClass, RowsPart
from sktransfer.metrics._gbc import GBC
from sktransfer.metrics._transrate import TransRate
from sktransfer.utils._target import Target

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")

# Classes of 20 samples: second moments; rows; some of both once the features are 15.
each_shape = pytest.mark.parametrize(
    "shape", [(60, 6), (24, 40), (60, 30), (60, 15)], ids=["tall", "wide", "class rows", "mixed"]
)
METRICS = [TransRate(), GBC("full", None), GBC("full", 5), GBC(n_components=None), GBC("diagonal")]
each_metric = pytest.mark.parametrize("metric", METRICS, ids=repr)


def make_data(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.minimum(np.arange(n_samples) % 5, 2))
    return rng.normal(size=(n_samples, n_features)) + 0.7 * y[:, None], y


def gather(X, y, weight=None):
    return FeatureMoments.from_arrays(X, y, weight, per_class=True)


def value(metric, moments):
    metric.fit_moments(moments)
    return getattr(metric, "log_overlap_", metric.score_)


def close(expected, tolerance=1e-10):
    return pytest.approx(expected, rel=tolerance, abs=tolerance)


def assert_right(moments, X, y, weight=None, tolerance=1e-11):
    """Compare what is read of every class with plain NumPy."""
    weight = np.ones(len(y)) if weight is None else weight
    center = moments.spectrum.mean
    unit = moments.spectrum.unit
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], 3)))[0]
    parts = moments.class_parts()
    assert len(parts) == len(moments.classes)
    for label, part in zip(moments.classes, parts, strict=True):
        rows, w = X[y == label] / unit, weight[y == label]
        mean = w @ rows / w.sum()
        covariance = (rows - mean).T @ ((rows - mean) * w[:, None]) / w.sum()
        assert part.n_samples == len(rows)
        assert part.weight == pytest.approx(w.sum())
        size = np.abs(covariance).max() + np.square(mean - center).max()
        about = covariance + np.outer(mean - center, mean - center)
        values = np.linalg.eigvalsh(part.mean_square(center, unit))
        expected = np.linalg.eigvalsh(about)[-len(values) :]
        np.testing.assert_allclose(values, expected, atol=tolerance * 10 * size)
        for along, diagonal in [
            (None, True),
            (None, False),
            (directions, True),
            (directions, False),
        ]:
            basis = np.eye(X.shape[1]) if along is None else along
            found = part.mean_and_covariance(along, center, unit, diagonal=diagonal)
            wanted = basis.T @ covariance @ basis
            np.testing.assert_allclose(
                found[0], (mean - center) @ basis, atol=tolerance * np.sqrt(size)
            )
            np.testing.assert_allclose(
                found[1], np.diag(wanted) if diagonal else wanted, atol=tolerance * size
            )


# ------------------------------------------------------------------------------------------ reading


@each_shape
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_parts_are_the_moments_of_the_classes(shape, weighted, offset):
    X, y = make_data(*shape)
    X = X * np.linspace(0.5, 2, shape[1]) + offset
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    # Coordinates as large as the offset have lost that many digits before they come here.
    assert_right(gather(X, y, weight), X, y, weight, tolerance=1e-11 if offset == 0 else 1e-7)
    in_batches = FeatureMoments(shape[1], per_class=True)
    for rows in np.array_split(np.arange(len(y)), 7):
        in_batches.update(X[rows], y[rows], None if weight is None else weight[rows])
    assert_right(in_batches, X, y, weight, tolerance=1e-11 if offset == 0 else 1e-7)


def test_classes_keep_rows_while_these_are_few():
    X, y = make_data(60, 15)
    parts = gather(X, y).class_parts()
    assert [type(part) for part in parts] == [RowsPart, RowsPart, DensePart]
    assert [part.n_samples for part in parts] == np.bincount(y).tolist() == [12, 12, 36]


@pytest.mark.parametrize("shape", [(700, 5), (5, 700), (40, 40), (1, 3)], ids=str)
def test_singular_values_are_those_of_the_rows(shape):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=shape), rng.uniform(0.5, 2, shape[0])
    part = RowsPart(X, weight)
    center = rng.normal(size=shape[1])
    expected = np.linalg.svd(
        (X / 0.5 - center) * np.sqrt(weight / weight.sum())[:, None], compute_uv=False
    )
    roots = part.root_mean_squares(center, 0.5)
    np.testing.assert_allclose(roots, expected, atol=1e-12)
    values = np.linalg.eigvalsh(part.mean_square(center, 0.5))[::-1]
    np.testing.assert_allclose(values, expected**2, atol=1e-12 * expected[0] ** 2)


def test_rows_by_class_take_the_classes_in_order():
    X, y = make_data(30, 4)
    target = Target("classification", classes=np.arange(3), codes=y)
    rows = RowsByClass(X, target, None)
    for code, part in enumerate(rows):
        np.testing.assert_array_equal(part.X, X[y == code])
    np.testing.assert_array_equal(rows.whole().X, X)
    assert len(list(rows)) == 3


# ------------------------------------------------------------------------------------------ merging


@each_metric
@each_shape
def test_a_sum_is_the_whole_in_any_order(metric, shape):
    X, y = make_data(*shape)
    a, b, c = (gather(X[rows], y[rows]) for rows in np.split(np.arange(shape[0]), [10, 21]))
    expected = value(metric, gather(X, y))
    for total in ((a + b) + c, a + (b + c), (c + a) + b, c + (b + a)):
        assert total.per_class
        assert value(metric, total) == close(expected)
        assert_right(total, X, y)
    for summand, rows in zip((a, b, c), np.split(np.arange(shape[0]), [10, 21]), strict=True):
        assert_right(summand, X[rows], y[rows])
    empty = FeatureMoments(shape[1], per_class=True)
    assert value(metric, empty + a + b + empty + c) == close(expected)


@each_shape
@pytest.mark.parametrize("factor", [1e-120, 1e120])
def test_sums_of_features_of_very_different_sizes(shape, factor):
    # Units and shifts of the summands differ, and are brought together exactly.
    X, y = make_data(*shape)
    half = len(y) // 2
    X[half:] *= 1e3
    X[half:] += 50
    a, b = gather(X[:half], y[:half]), gather(X[half:], y[half:])
    assert_right(a + b, X, y)
    assert_right(b + a, X, y)
    X[:half] *= factor
    whole = gather(X, y)
    merged = gather(X[:half], y[:half]) + gather(X[half:], y[half:])
    assert value(TransRate(normalize=True), merged) == close(
        value(TransRate(normalize=True), whole), 1e-9
    )


@each_metric
def test_classes_may_arrive_late_and_in_any_order(metric):
    X, y = make_data(60, 15)
    names = np.array(["mm", "z", "a"])[y]
    expected = value(metric, gather(X, names))
    late = FeatureMoments(15, per_class=True)
    for label in ("z", "mm", "a"):
        late.update(X[names == label], names[names == label])
    assert late.classes.tolist() == ["a", "mm", "z"]
    assert value(metric, late) == close(expected)
    assert_right(late, X, names)
    apart = [gather(X[names == label], names[names == label]) for label in ("z", "a", "mm")]
    assert value(metric, apart[0] + apart[1] + apart[2]) == close(expected)


def test_copies_are_independent():
    X, y = make_data(60, 15)
    for shape in ((60, 15), (60, 6)):
        X, y = make_data(*shape)
        moments = gather(X[:40], y[:40])
        for twin in (moments.copy(), copy.deepcopy(moments), pickle.loads(pickle.dumps(moments))):
            twin.update(X[40:], y[40:])
            assert_right(twin, X, y)
            assert_right(moments, X[:40], y[:40])


@pytest.mark.parametrize("shape", [(60, 6), (24, 40), (60, 15)], ids=str)
def test_the_caller_may_reuse_its_arrays(shape):
    X, y = make_data(*shape)
    kept_X, kept_y = X.copy(), y.copy()
    moments = FeatureMoments.from_arrays(X, y, per_class=True)
    borrowed = FeatureMoments.from_arrays(X, y, copy=False, per_class=True).detach()
    X[:], y[:] = 7, 0
    assert_right(moments, kept_X, kept_y)
    assert_right(borrowed, kept_X, kept_y)


def test_metrics_of_all_samples_do_not_see_the_difference():
    X, y = make_data(60, 6)
    for metric in (LogME(), HScore()):
        assert metric.fit_moments(gather(X, y)).score_ == metric.fit(X, y).score_


# ----------------------------------------------------------------------------------------- refusals


def test_what_is_refused():
    X, y = make_data(60, 6)
    plain = FeatureMoments.from_arrays(X, y)
    assert not plain.per_class
    with pytest.raises(ValueError, match="gather them with per_class=True"):
        plain.class_parts()
    for one, two in [(plain, gather(X, y)), (gather(X, y), plain)]:
        with pytest.raises(ValueError, match="with and without those of every class"):
            one + two
    for task in ("regression", "multilabel"):
        with pytest.raises(ValueError, match=f"need a classification target; got a {task}"):
            FeatureMoments(6, task=task, per_class=True)


def test_a_wrong_batch_leaves_everything_as_it_was():
    X, y = make_data(60, 6)
    moments = gather(X, y)
    for wrong in [(X, y.astype(str)), (X[:, :3], y), (X, y[:-1])]:
        with pytest.raises(ValueError, match="must|follow"):
            moments.update(*wrong)
    assert_right(moments, X, y)


# ------------------------------------------------------------------------------------------- memory


def test_a_stream_needs_no_more_than_its_matrices():
    rng = np.random.default_rng(0)
    n_features, n_classes = 128, 4
    metric = TransRate()
    tracemalloc.start()
    for _ in range(20):
        X = rng.normal(size=(2000, n_features)).astype(np.float32)
        metric.partial_fit(X, rng.integers(0, n_classes, 2000))
    assert np.isfinite(metric.score_)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    matrix = 8 * n_features**2
    # The matrices of all samples and of the classes, and a few blocks of a batch.
    assert peak < (n_classes + 1 + 8) * matrix + 5 * 8 * X.size
