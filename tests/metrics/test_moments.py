"""FeatureMoments: merging, batches, sharing, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest

from sktransfer.metrics import (
    LEEP,
    FeatureMoments,
    HScore,
    LogME,
    _decomposition,
    _eigenvectors,
    _second_moments,
)

# Small or repeated data are announced; that is tested with the metrics.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")

METRICS = [LogME(), HScore(), HScore("ledoit_wolf"), HScore(0.3)]
each_metric = pytest.mark.parametrize("metric", METRICS, ids=repr)
# Up to as many samples as features the rows are kept, from then on second moments.
each_shape = pytest.mark.parametrize(
    "shape", [(60, 6), (15, 40), (12, 12)], ids=["tall", "wide", "square"]
)


def make_data(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % 3)
    return rng.normal(size=(n_samples, n_features)) + 0.7 * y[:, None], y


def score_of(metric, moments):
    return metric.fit_moments(moments).score_


def close(expected, tolerance=1e-10):
    return pytest.approx(expected, rel=tolerance, abs=tolerance)


# ----------------------------------------------------------------------------------------- merging


@each_metric
@each_shape
def test_a_sum_is_the_whole_in_any_order(metric, shape):
    X, y = make_data(*shape)
    cuts = [shape[0] // 4, shape[0] // 2]
    a, b, c = (
        FeatureMoments.from_arrays(X[rows], y[rows]) for rows in np.split(np.arange(shape[0]), cuts)
    )
    expected = metric.fit(X, y).score_
    for total in ((a + b) + c, a + (b + c), (c + a) + b, c + (b + a)):
        assert total.n_samples == shape[0]
        assert total.total_weight == shape[0]
        assert score_of(metric, total) == close(expected)
    # The summands are as they were.
    assert [part.n_samples for part in (a, b, c)] == [
        cuts[0],
        cuts[1] - cuts[0],
        shape[0] - cuts[1],
    ]
    assert score_of(metric, a + b + c) == close(expected)


@each_metric
@pytest.mark.parametrize("n_first", [1, 10, 35], ids=["row", "kept rows", "second moments"])
@pytest.mark.parametrize("n_second", [1, 10, 35], ids=["row", "kept rows", "second moments"])
def test_kept_rows_and_second_moments_mix(metric, n_first, n_second):
    X, y = make_data(n_first + n_second, 20)
    first = FeatureMoments.from_arrays(X[:n_first], y[:n_first])
    second = FeatureMoments.from_arrays(X[n_first:], y[n_first:])
    if len(np.unique(y)) > 1:
        expected = metric.fit(X, y).score_
        assert score_of(metric, first + second) == close(expected)
        assert score_of(metric, second + first) == close(expected)
        assert score_of(metric, first.update(X[n_first:], y[n_first:])) == close(expected)


@each_metric
@pytest.mark.parametrize("scale", [1e-90, 1e-3, 1e3, 1e90])
def test_summands_of_different_units(metric, scale):
    X, y = make_data(60, 6)
    large, small = FeatureMoments.from_arrays(X, y), FeatureMoments.from_arrays(scale * X, y)
    whole = np.r_[X, scale * X], np.r_[y, y]
    expected = metric.fit(*whole).score_
    for total in (large + small, small + large):
        assert score_of(metric, total) == close(expected, 1e-9)
    for first, second in ((X, scale * X), (scale * X, X)):
        assert metric.fit(first, y).partial_fit(second, y).score_ == close(expected, 1e-9)


@each_metric
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_summands_of_different_shifts(metric, offset):
    X, y = make_data(90, 6)
    # A domain gap in one direction: the other directions stay as they were.
    moved = X + np.where(np.arange(90) < 45, 0.0, offset)[:, None] * np.eye(6)[2]
    a, b = (FeatureMoments.from_arrays(moved[rows], y[rows]) for rows in (slice(45), slice(45, 90)))
    expected = metric.fit(moved, y).score_
    # Second moments about two points that far apart keep the square of the digits.
    assert score_of(metric, a + b) == close(expected, offset**2 * 1e-14)
    assert score_of(metric, b + a) == close(expected, offset**2 * 1e-14)


@each_metric
def test_a_common_offset_costs_a_sum_no_more_digits_than_the_whole(metric):
    X, y = make_data(90, 6)
    X += 1e6
    a, b = (FeatureMoments.from_arrays(X[rows], y[rows]) for rows in (slice(45), slice(45, 90)))
    assert score_of(metric, a + b) == close(metric.fit(X, y).score_, 1e-8)


@each_metric
def test_classes_that_only_one_summand_has(metric):
    X, y = make_data(60, 6)
    names = np.array(["m", "z", "a"])[y]
    parts = [FeatureMoments.from_arrays(X[names == k], names[names == k]) for k in ("m", "z", "a")]
    total = parts[0] + parts[1] + parts[2]
    assert total.classes.tolist() == ["a", "m", "z"]
    assert [part.classes.tolist() for part in parts] == [["m"], ["z"], ["a"]]
    assert score_of(metric, total) == close(metric.fit(X, names).score_)


@each_metric
@each_shape
def test_weights_of_the_summands_count(metric, shape):
    X, y = make_data(*shape)
    weight = np.random.default_rng(1).uniform(0.2, 3, shape[0])
    half = shape[0] // 2
    a = FeatureMoments.from_arrays(X[:half], y[:half], weight[:half])
    b = FeatureMoments.from_arrays(X[half:], y[half:], weight[half:])
    assert (a + b).total_weight == close(weight.sum())
    assert score_of(metric, a + b) == close(metric.fit(X, y, weight).score_)
    # One part without weights has weights of one.
    c = FeatureMoments.from_arrays(X[half:], y[half:])
    mixed = np.r_[weight[:half], np.ones(shape[0] - half)]
    assert score_of(metric, a + c) == close(metric.fit(X, y, mixed).score_)
    assert score_of(metric, c + a) == close(metric.fit(X, y, mixed).score_)


@each_shape
def test_regression_targets_of_different_sizes_can_be_added(shape):
    X, y = make_data(*shape)
    targets = np.c_[y + 0.25, 1e3 + X[:, 0], 1e-3 * X[:, 1] ** 3]
    targets[: shape[0] // 2] *= [1.0, 1.0, 1e-4]
    half = shape[0] // 2
    a = FeatureMoments.from_arrays(X[:half], targets[:half])
    b = FeatureMoments.from_arrays(X[half:], targets[half:])
    assert a.task == "regression"
    expected = LogME().fit(X, targets)
    for total in (a + b, b + a):
        merged = LogME().fit_moments(total)
        assert merged.scores_ == close(expected.scores_, 1e-7)


@each_shape
def test_the_empty_sum(shape):
    X, y = make_data(*shape)
    empty = FeatureMoments(shape[1])
    full = FeatureMoments.from_arrays(X, y)
    expected = score_of(HScore(0.3), full)
    assert score_of(HScore(0.3), empty + full) == expected
    assert score_of(HScore(0.3), full + empty) == expected
    assert (empty + empty).n_samples == 0
    with pytest.raises(ValueError, match="no samples|No samples"):
        HScore().fit_moments(empty)
    with pytest.raises(ValueError, match="No samples"):
        empty.spectrum  # noqa: B018


def test_moments_that_do_not_belong_together_are_refused():
    X, y = make_data(30, 4)
    moments = FeatureMoments.from_arrays(X, y)
    with pytest.raises(ValueError, match="4 features .* 3 features"):
        moments + FeatureMoments.from_arrays(X[:, :3], y)
    with pytest.raises(ValueError, match="classification target .* regression target"):
        moments + FeatureMoments.from_arrays(X, y + 0.5)
    with pytest.raises(ValueError, match="one type"):
        moments + FeatureMoments.from_arrays(X, y.astype(str))
    with pytest.raises(TypeError):
        moments + 1
    one, two = (FeatureMoments.from_arrays(X, X[:, :k] + 0.5) for k in (1, 2))
    with pytest.raises(ValueError, match="1 target columns; got 2"):
        one + two
    assert score_of(LogME(), moments) == LogME().fit(X, y).score_


# --------------------------------------------------------------------------------------- updating


@each_metric
@each_shape
def test_a_wrong_batch_is_refused_and_changes_nothing(metric, shape):
    X, y = make_data(*shape)
    moments = FeatureMoments.from_arrays(X[:10], y[:10])
    for wrong in [
        (X[10:, 1:], y[10:]),
        (X[10:], y[10:-1]),
        (X[10:], y[10:] + 0.5),
        (X[10:], y[10:].astype(str)),
        (X[0], y[:1]),
    ]:
        with pytest.raises(ValueError, match="batch must have|label|regression|one type"):
            moments.update(*wrong)
    moments.update(X[10:], y[10:])
    assert score_of(metric, moments) == close(metric.fit(X, y).score_)


@each_metric
def test_blocks_of_rows_and_columns_make_no_difference(metric, monkeypatch):
    tall, wide = make_data(400, 9), make_data(20, 90)
    weight = np.random.default_rng(0).uniform(0.5, 2, 400)
    expected = [
        metric.fit(*tall).score_,
        metric.fit(*tall, weight).score_,
        metric.fit(*wide).score_,
        metric.fit(*wide, weight[:20]).score_,
    ]
    monkeypatch.setattr(_second_moments, "_UPDATE_ELEMENTS", 1)  # 64 rows at a time
    monkeypatch.setattr(_second_moments, "_TILE_ELEMENTS", 50)  # 5 rows at a time
    monkeypatch.setattr(_decomposition, "_BLOCK_ELEMENTS", 1)  # 16 columns at a time
    assert metric.fit(*tall).score_ == close(expected[0], 1e-12)
    assert metric.fit(*tall, weight).score_ == close(expected[1], 1e-12)
    assert metric.fit(*wide).score_ == close(expected[2], 1e-12)
    assert metric.fit(*wide, weight[:20]).score_ == close(expected[3], 1e-12)


@pytest.mark.parametrize("metric", [LogME(), HScore()], ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_kept_rows_and_second_moments_agree(metric, offset):
    X, y = make_data(60, 6)
    X += offset
    # Zero columns change neither score, and bring the width to the number of samples.
    padded = np.hstack([X, np.zeros((60, 54))])
    weight = np.random.default_rng(0).uniform(0.2, 3, 60)
    tolerance = 1e-9 if offset else 1e-11
    assert metric.fit(padded, y).score_ == close(metric.fit(X, y).score_, tolerance)
    assert metric.fit(padded, y, weight).score_ == close(metric.fit(X, y, weight).score_, tolerance)


@pytest.mark.parametrize("offset", [0.0, 1e2, 3e4])
def test_the_mean_of_a_regression_target_costs_no_digits(offset):
    X, _ = make_data(60, 6)
    X[:, 0] = 1.0  # an intercept, so that the mean of the target is fitted
    t = offset + X @ np.arange(6) + np.random.default_rng(0).normal(size=60)
    tall, wide = LogME().fit(X, t), LogME().fit(np.hstack([X, np.zeros((60, 54))]), t)
    assert tall.score_ == close(wide.score_, 1e-11)
    assert tall.beta_ == pytest.approx(wide.beta_, rel=1e-11)
    assert 0.5 < tall.beta_[0] < 2


@each_metric
def test_first_rows_that_tell_nothing_of_the_scale(metric):
    # Shift and unit are taken from the first rows, 1,024 at most.
    rng = np.random.default_rng(0)
    late = np.r_[np.zeros((1100, 3)), rng.normal(size=(100, 3))]
    y = rng.integers(0, 2, 1200)
    order = rng.permutation(1200)
    for scale in (1.0, 1e100, 1e-50):
        expected = metric.fit(scale * late[order], y[order]).score_
        assert metric.fit(scale * late, y).score_ == close(expected, 1e-9)
    for start in (1e8, -1e8):
        sorted_by_size = late + np.where(np.arange(1200) < 1100, start, 0)[:, None] * np.eye(3)[0]
        expected = metric.fit(sorted_by_size[order], y[order]).score_
        assert metric.fit(sorted_by_size, y).score_ == close(expected, 1e-6)


# ---------------------------------------------------------------------------------------- sharing


@each_shape
def test_one_decomposition_serves_all_metrics(shape, monkeypatch):
    X, y = make_data(*shape)
    expected = [metric.fit(X, y).score_ for metric in METRICS]
    calls = []
    reduce = _eigenvectors.lapack.dsytrd

    def counted(*args, **kwargs):
        calls.append(1)
        return reduce(*args, **kwargs)

    moments = FeatureMoments.from_arrays(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(_eigenvectors.lapack, "dsytrd", counted)
        shared = [score_of(metric, moments) for metric in METRICS]
        assert len(calls) == 1
        moments.update(X[:5], y[:5])
        shared_later = [score_of(metric, moments) for metric in METRICS]
        assert len(calls) == 2
    assert shared == expected
    assert shared_later != expected


@each_metric
@each_shape
def test_the_metric_and_the_owner_of_the_moments_go_separate_ways(metric, shape):
    X, y = make_data(*shape)
    more_X, more_y = make_data(*shape, seed=1)
    more_X = 3 * more_X + 1
    moments = FeatureMoments.from_arrays(X, y)
    one, two, three = (metric.__class__(**metric.get_params()) for _ in range(3))
    expected = metric.fit(X, y).score_
    expected_coef = getattr(metric, "coef_", None)
    both = metric.fit(np.r_[X, more_X], np.r_[y, more_y]).score_
    for other in (one, two, three):
        other.fit_moments(moments)
    one.partial_fit(more_X, more_y)
    assert one.score_ == close(both)
    assert score_of(metric, moments) == close(expected)
    moments.update(more_X, more_y)
    assert two.score_ == close(expected)
    if expected_coef is not None:
        np.testing.assert_allclose(two.coef_, expected_coef, rtol=1e-6, atol=1e-9)
    assert three.partial_fit(more_X, more_y).score_ == close(both)
    assert score_of(metric, moments) == close(both)


@each_metric
@each_shape
def test_copies_and_pickles_are_independent(metric, shape):
    X, y = make_data(*shape)
    moments = FeatureMoments.from_arrays(X, y)
    expected = score_of(metric, moments)
    for duplicate in (
        moments.copy(),
        copy.deepcopy(moments),
        pickle.loads(pickle.dumps(moments)),
        moments.copy().copy(),
    ):
        assert score_of(metric, duplicate) == close(expected, 1e-12)
        duplicate.update(2 * X + 5, y)
        assert duplicate.n_samples == 2 * shape[0]
        assert score_of(metric, duplicate) != expected
        assert score_of(metric, moments) == close(expected, 1e-12)
    duplicate = moments.copy()
    moments.update(2 * X + 5, y)
    assert score_of(metric, duplicate) == close(expected, 1e-12)


@each_shape
def test_rows_are_copied_unless_they_are_lent(shape):
    X, y = make_data(*shape)
    weight = np.random.default_rng(0).uniform(0.5, 2, shape[0])
    expected = LogME().fit(X, y, weight).score_
    for lent in (False, True):
        given, given_weight = X.copy(), weight.copy()
        moments = FeatureMoments.from_arrays(given, y, given_weight, copy=not lent)
        if lent:
            moments.detach()
        given[:], given_weight[:] = 0, 1
        assert score_of(LogME(), moments) == close(expected)


def test_no_square_matrix_of_the_features_is_formed_for_few_samples():
    X, y = make_data(10, 400)
    moments = FeatureMoments.from_arrays(X, y)
    for metric in METRICS:
        metric.fit_moments(moments)
        held = len(pickle.dumps(metric))
        assert held < 2 * X.nbytes  # a 400 x 400 matrix has 40 times as much as X


# --------------------------------------------------------------------------- what a metric refuses


def test_a_metric_refuses_moments_that_it_has_no_score_for():
    X, y = make_data(30, 4)
    with pytest.raises(ValueError, match="HScore is defined for classification .* regression"):
        HScore().fit_moments(FeatureMoments.from_arrays(X, y + 0.5))
    with pytest.raises(ValueError, match="1 class"):
        HScore().fit_moments(FeatureMoments.from_arrays(X, 0 * y))
    with pytest.raises(ValueError, match="1 sample"):
        LogME().fit_moments(FeatureMoments.from_arrays(X[:1], [0.5]))
    assert not hasattr(LEEP(), "fit_moments")


def test_a_metric_of_moments_knows_the_width():
    X, y = make_data(30, 4)
    metric = LogME().fit_moments(FeatureMoments.from_arrays(X, y))
    assert metric.n_features_in_ == 4
    assert metric.score(X, y) == metric.score_
    with pytest.raises(ValueError, match="expecting 4 features"):
        metric.partial_fit(X[:, :3], y)
