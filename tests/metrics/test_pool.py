"""Parts scaled over a pool: the one rule of all metrics that are relative to a pool."""

from types import SimpleNamespace

import numpy as np
import pytest

from sktransfer.metrics import ETran
from sktransfer.metrics._ncti import NCTI
from sktransfer.metrics._pool import scaled_over_pool, scaled_parts


def candidate(score=0.5, **parts):
    return SimpleNamespace(score_=score, components_=parts)


def test_the_least_is_zero_and_the_largest_one():
    np.testing.assert_allclose(scaled_over_pool([3.0, -1.0, 0.0]), [1.0, 0.0, 0.25])
    np.testing.assert_array_equal(scaled_over_pool([np.nan, 3, np.nan, -1]), [np.nan, 1, np.nan, 0])


@pytest.mark.parametrize("values", [[7.0], [0.0, 0.0], [-3.0] * 5, [np.finfo(float).max] * 2])
def test_where_nothing_tells_candidates_apart_all_are_in_the_middle(values):
    np.testing.assert_array_equal(scaled_over_pool(values), [0.5] * len(values))
    assert np.isnan(scaled_over_pool([np.nan, values[0]])[0])
    assert scaled_over_pool([np.nan, values[0]])[1] == 0.5


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300, np.finfo(float).max / 2])
def test_numbers_of_any_size(size):
    with np.errstate(all="raise", under="ignore"):
        scaled = scaled_over_pool([-2 * size, 2 * size, 2 * size])
    np.testing.assert_array_equal(scaled, [0, 1, 1])


def test_empty_pools_and_pools_without_any_number():
    assert scaled_over_pool([]).shape == (0,)
    assert np.isnan(scaled_over_pool([np.nan, np.nan])).all()
    assert scaled_parts([], ("a",))["a"].shape == (0,)
    assert np.isnan(scaled_parts([None, None], ("a",))["a"]).all()


def test_candidates_without_a_score_or_a_part_have_no_influence():
    good = [candidate(a=1.0, b=5.0), candidate(a=2.0, b=4.0), candidate(a=4.0, b=9.0)]
    expected = scaled_parts(good, ("a", "b"))
    np.testing.assert_allclose(expected["a"], [0, 1 / 3, 1])
    failed = [
        None,
        candidate(score=np.nan, a=100.0, b=100.0),
        candidate(a=np.nan, b=-100.0),
        candidate(a=100.0, b=np.inf),
        candidate(a=-np.inf, b=100.0),
    ]
    found = scaled_parts([*failed[:2], *good, *failed[2:]], ("a", "b"))
    for name, part in expected.items():
        np.testing.assert_array_equal(found[name][2:5], part)
        assert np.isnan(found[name][[0, 1, 5, 6, 7]]).all()


def test_a_part_that_may_be_undefined_is_one_half():
    pool = [candidate(a=1.0, b=np.nan), candidate(a=2.0, b=4.0), candidate(a=3.0, b=9.0), None]
    parts = scaled_parts(pool, ("a", "b"), undefined={"b"})
    np.testing.assert_array_equal(parts["a"], [0, 0.5, 1, np.nan])
    np.testing.assert_array_equal(parts["b"], [0.5, 0, 1, np.nan])
    assert np.isnan(scaled_parts([candidate(a=1.0, b=np.inf)], ("a", "b"), {"b"})["b"]).all()


@pytest.mark.parametrize(("metric", "names"), [(NCTI, "seli ncc vc"), (ETran, "energy lda")])
def test_the_pool_rules_keep_the_conventions(metric, names):
    names = names.split()
    one, two = ({name: x + i for i, name in enumerate(names)} for x in (0.0, 3.0))
    assert metric.pool_scores([candidate(**one)]).tolist() == [0.5]
    assert metric.pool_scores([candidate(**one)] * 3) == pytest.approx([0.5] * 3)
    expected = metric.pool_scores([candidate(**one), candidate(**two)])
    assert expected[0] < expected[1]
    for broken in (np.nan, np.inf):
        for name in names:
            pool = [candidate(**one), candidate(**{**two, name: broken}), candidate(**two), None]
            scores = metric.pool_scores(pool)
            np.testing.assert_array_equal(scores[[0, 2]], expected)
            assert np.isnan(scores[[1, 3]]).all()
    assert metric.pool_scores([]).shape == (0,)
    assert metric.pool_scores([]).dtype == np.float64
