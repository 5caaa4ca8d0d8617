"""Intervals of scores and ranks, and the set of candidates that may be the best."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from sktransfer.evaluation import SelectionUncertainty, selection_uncertainty

NAMES = ["a", "b", "c", "d", "e"]


def simulated(rng, n_candidates=5, n_resamples=80, shared=1.0):
    scores = rng.normal(size=n_candidates) * 0.1
    draws = shared * rng.normal(size=(n_resamples, 1))
    draws = draws + rng.uniform(0.02, 0.2, n_candidates) * rng.normal(
        size=(n_resamples, n_candidates)
    )
    return scores, scores + draws


def by_hand(scores, resampled, level):
    """Multiple comparisons with the best, and two-sided ones for the ranks, written out."""
    draws = resampled - resampled.mean(axis=0)
    n = len(scores)
    place = math.ceil(level * (len(draws) + 1)) - 1
    tied, intervals = [], []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        error = {j: np.sqrt(np.mean((draws[:, j] - draws[:, i]) ** 2)) for j in others}
        drawn = np.array([(draws[:, j] - draws[:, i]) / error[j] for j in others])
        ahead = np.array([(scores[j] - scores[i]) / error[j] for j in others])
        tied.append(ahead.max() <= np.sort(drawn.max(axis=0))[place])
        both = np.sort(np.abs(drawn).max(axis=0))[place]
        intervals.append([1 + (ahead > both).sum(), n - (ahead < -both).sum()])
    return tied, intervals


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_comparisons_are_those_written_out(seed, level):
    scores, resampled = simulated(np.random.default_rng(seed))
    found = selection_uncertainty(scores, resampled, names=NAMES, level=level)
    tied, intervals = by_hand(scores, resampled, level)
    best_first = [NAMES[i] for i in np.argsort(-scores) if tied[i]]
    assert list(found.tied_with_best) == best_first
    np.testing.assert_array_equal(found.rank_interval, intervals)


def test_the_set_holds_the_best_as_often_as_it_says_and_is_small_where_it_can_be():
    rng = np.random.default_rng(0)
    expected = np.array([0.5, 0.49, 0.48, 0.45, 0.3, 0.1])
    own = np.array([0.01, 0.02, 0.01, 0.03, 0.02, 0.01])
    n_selections, held, sizes = 500, 0, []
    for _ in range(n_selections):
        scores = expected + 0.1 * rng.normal() + own * rng.normal(size=6)
        draws = 0.1 * rng.normal(size=(100, 1)) + own * rng.normal(size=(100, 6))
        # resamples are biased, and for each candidate otherwise
        found = selection_uncertainty(scores, scores + draws + rng.normal(size=6))
        held += 0 in found.tied_with_best
        sizes.append(len(found.tied_with_best))
    assert held >= binom.ppf(0.001, n_selections, 0.95)
    assert 1.5 < np.mean(sizes) < 4  # the last two never


def test_score_intervals_are_normal_or_those_of_students_t():
    scores, resampled = simulated(np.random.default_rng(1))
    deviation = resampled.std(axis=0)
    found = selection_uncertainty(scores, resampled, level=0.9)
    np.testing.assert_allclose(found.standard_error, deviation)
    reach = norm.ppf(0.95) * deviation
    np.testing.assert_allclose(found.score_interval, np.transpose([scores - reach, scores + reach]))
    found = selection_uncertainty(scores, resampled, level=0.9, n_samples=10, scale=1.5)
    reach = 1.5 * t.ppf(0.95, 9) * deviation
    np.testing.assert_allclose(found.score_interval, np.transpose([scores - reach, scores + reach]))
    found = selection_uncertainty(scores, resampled, bounds=(-0.05, 0.05))
    assert found.score_interval.min() == -0.05
    assert found.score_interval.max() == 0.05


def test_what_all_candidates_share_widens_scores_but_not_ranks():
    scores, resampled = simulated(np.random.default_rng(2))
    found = selection_uncertainty(scores, resampled)
    shared = 5 * np.random.default_rng(3).normal(size=(len(resampled), 1))
    other = selection_uncertainty(scores, resampled + shared + np.arange(5))
    assert other.tied_with_best == found.tied_with_best
    np.testing.assert_array_equal(other.rank_interval, found.rank_interval)
    np.testing.assert_allclose(other.probability_best, found.probability_best)
    assert (np.diff(other.score_interval) > 2 * np.diff(found.score_interval)).all()


def test_the_order_of_candidates_and_units_of_scores_are_irrelevant():
    scores, resampled = simulated(np.random.default_rng(4))
    found = selection_uncertainty(scores, resampled, names=NAMES)
    order = [3, 0, 4, 2, 1]
    other = selection_uncertainty(
        1e3 * scores[order], 1e3 * resampled[:, order], names=[NAMES[i] for i in order]
    )
    assert set(other.tied_with_best) == set(found.tied_with_best)
    np.testing.assert_array_equal(other.rank_interval, found.rank_interval[order])
    np.testing.assert_allclose(other.probability_best, found.probability_best[order])


def test_a_dict_of_scores_finds_its_resamples_by_name():
    scores, resampled = simulated(np.random.default_rng(5))
    found = selection_uncertainty(scores, resampled, names=NAMES)
    by_name = dict(zip(NAMES[::-1], resampled.T[::-1], strict=True))
    other = selection_uncertainty(dict(zip(NAMES, scores, strict=True)), by_name)
    assert other.names == tuple(NAMES)
    np.testing.assert_array_equal(other.resampled_scores, found.resampled_scores)
    assert isinstance(other, SelectionUncertainty)
    assert other.n_resamples == 80


@pytest.mark.parametrize("seed", range(5))
def test_what_is_found_is_consistent(seed):
    scores, resampled = simulated(np.random.default_rng(seed + 10))
    found = selection_uncertainty(scores, resampled, names=NAMES)
    ranks = 1 + (scores[:, None] < scores).sum(axis=1)
    low, high = found.rank_interval.T
    assert ((low <= ranks) & (ranks <= high)).all()
    assert found.probability_best.sum() == pytest.approx(1)
    best = NAMES[int(scores.argmax())]
    assert found.tied_with_best[0] == best
    assert all(low[NAMES.index(name)] == 1 for name in found.tied_with_best)
    wider = selection_uncertainty(scores, resampled, names=NAMES, level=0.97)
    assert set(found.tied_with_best) <= set(wider.tied_with_best)


def test_candidates_without_scores_are_last_and_those_without_resamples_are_kept():
    rng = np.random.default_rng(6)
    scores = np.array([0.5, np.nan, 0.0, -0.5, 0.2])
    resampled = scores + 0.01 * rng.normal(size=(60, 5))
    resampled[:3, 0] = np.nan
    resampled[:50, 2] = np.nan
    found = selection_uncertainty(scores, resampled, names=NAMES)
    # "c" has too few resamples to be ruled out; it is not hidden that others have less than all
    assert found.tied_with_best == ("a", "c")
    assert found.n_undefined.tolist() == [3, 60, 50, 0, 0]
    assert found.rank_interval[1].tolist() == [5, 5]
    assert found.rank_interval[0].tolist() == [1, 2]
    assert np.isnan(found.score_interval[1]).all()
    assert np.isinf(found.score_interval[2]).all()
    assert np.isfinite(found.score_interval[[0, 3, 4]]).all()


def test_equal_candidates_are_tied_and_constant_differences_are_real():
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(50, 1))
    scores = np.array([0.3, 0.3, 0.2])
    found = selection_uncertainty(scores, scores + draws, names=NAMES[:3])
    assert found.tied_with_best == ("a", "b")
    assert found.probability_best.tolist() == [0.5, 0.5, 0]
    assert found.rank_interval.tolist() == [[1, 2], [1, 2], [3, 3]]
    # all saturated: rounding tells nobody apart
    scores = np.array([2.0, 2.0 - 1e-15, 2.0 + 1e-15])
    found = selection_uncertainty(scores, np.tile(scores, (50, 1)))
    assert len(found.tied_with_best) == 3
    assert found.rank_interval.tolist() == [[1, 3]] * 3


def test_a_candidate_that_is_saturated_on_all_resamples_is_not_ruled_out():
    rng = np.random.default_rng(8)
    scores = np.array([1.5, 1.2, 1.8])
    resampled = np.stack([1.5 + 0.01 * rng.normal(size=50), np.full(50, 2.0), np.full(50, 2.0)], 1)
    found = selection_uncertainty(scores, resampled, names=["a", "b", "c"])
    assert found.tied_with_best == ("c", "a", "b")
    assert np.isinf(found.score_interval[1:]).all()
    # a constant is known for certain
    resampled[:, 1:] = scores[1:]
    found = selection_uncertainty(scores, resampled, names=["a", "b", "c"])
    assert found.tied_with_best == ("c",)


def test_a_single_candidate_is_the_best():
    found = selection_uncertainty([0.2], np.full((40, 1), 0.2))
    assert found.tied_with_best == (0,)
    assert found.rank_interval.tolist() == [[1, 1]]
    assert found.probability_best.tolist() == [1]


def test_columns_have_the_best_first():
    scores, resampled = simulated(np.random.default_rng(8))
    columns = selection_uncertainty(scores, resampled, names=NAMES).columns()
    assert columns["score"] == sorted(columns["score"], reverse=True)
    assert list(columns) == [
        "candidate",
        "score",
        "score_low",
        "score_high",
        "rank",
        "rank_low",
        "rank_high",
        "probability_best",
        "tied_with_best",
        "n_undefined",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": 1.0}, "'level' must be between 0 and 1"),
        ({"level": 0.99}, "A level of 0.99 needs at least 200 resamples. Got 80"),
        ({"names": ["a"]}, "'names' must be 5 different names"),
        ({"names": ["a"] * 5}, "'names' must be 5 different names"),
        ({"resampled_scores": np.zeros((80, 4))}, r"Got \(80, 4\) and \(5,\)"),
        ({"scores": np.full(5, np.nan)}, "At least one candidate must have a finite score"),
        ({"scores": dict.fromkeys(NAMES, 1.0), "names": NAMES}, "'names' must be None"),
        (
            {"scores": dict.fromkeys(NAMES, 1.0), "resampled_scores": {"x": np.zeros(80)}},
            "must have the candidates of 'scores'",
        ),
    ],
)
def test_wrong_input_is_refused(change, message):
    scores, resampled = simulated(np.random.default_rng(9))
    arguments = {"scores": scores, "resampled_scores": resampled} | change
    with pytest.raises(ValueError, match=message):
        selection_uncertainty(**arguments)


def test_resamples_that_say_nothing_tell_nobody_apart():
    scores = {"a": 3.0, "b": 1.0, "c": np.nan}
    resampled = np.random.default_rng(0).normal([3.0, 1.0, 0.0], 0.01, size=(40, 3))
    told = selection_uncertainty(scores, resampled)
    assert told.tied_with_best == ("a",) and told.probability_best.tolist() == [1, 0, 0]
    nothing = selection_uncertainty(scores, resampled, scale=np.inf)
    assert nothing.tied_with_best == ("a", "b")
    assert nothing.probability_best.tolist() == [0.5, 0.5, 0]
    assert nothing.rank_interval.tolist() == [[1, 2], [1, 2], [3, 3]]


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_resamples_without_a_score_take_no_part(share):
    held = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=2)
        resampled = rng.normal(scores, 1.0, size=(60, 2))
        resampled[rng.random(60) < share, 0] = np.nan
        held += 0 in selection_uncertainty(scores, resampled).tied_with_best
    # Both are equally good: the first is left out in one of twenty cases.
    assert held / 400 == pytest.approx(0.95, abs=3 * np.sqrt(0.05 * 0.95 / 400))


def test_scores_in_a_pool_are_compared_by_the_largest_error():
    rng = np.random.default_rng(0)
    resampled = np.array([1.0, 0.5, 0.0]) + rng.normal(0, [0.02, 0.02, 0.4], size=(200, 3))
    alone = selection_uncertainty([1.0, 0.5, 0.0], resampled)
    in_pool = selection_uncertainty([1.0, 0.5, 0.0], resampled, relative_to_pool=True)
    assert alone.tied_with_best == (0,)
    # 0.5 is little beside 1.6 errors of 0.4.
    assert in_pool.tied_with_best == (0, 1)


def test_a_candidate_that_is_constant_below_the_best_is_not_tied_with_it():
    rng = np.random.default_rng(0)
    scores = {"good": 0.4, "fair": 0.39, "constant": -0.7}
    resampled = {
        "good": 0.3 + 0.05 * rng.normal(size=60),
        "fair": 0.3 + 0.05 * rng.normal(size=60),
        "constant": np.full(60, -0.75),  # with fewer rows it is another constant
    }
    found = selection_uncertainty(scores, resampled)
    assert set(found.tied_with_best) == {"good", "fair"}
    # One that has reached a bound on all resamples may be anything.
    resampled["constant"] = np.full(60, 0.9)
    assert "constant" in selection_uncertainty(scores, resampled).tied_with_best
