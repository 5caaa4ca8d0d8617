import copy
import itertools
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import scipy.stats

from sktransfer.evaluation import (
    competition_ranks,
    rank_correlation,
    stability_intra,
    stability_ref,
)

NAN, INF = np.nan, np.inf
METHODS = ["kendall", "weighted_kendall", "spearman", "pearson"]
SIX = [0.90, 0.85, 0.80, 0.60, 0.50, 0.40], [0.88, 0.91, 0.70, 0.72, 0.40, 0.30]


def statistic(scores, reference, method, **options):
    quick = {"n_resamples": 0, "n_permutations": 0, **options}
    return rank_correlation(scores, reference, method, **quick).statistic


# -- the coefficients, against sums over pairs written out and against SciPy ----------------------


def tau_by_pairs(x, y, weight=lambda i, j: 1.0):
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j]), weight(i, j)) for i, j in pairs]
    concordance = sum(w * a * b for a, b, w in signs)
    untied = [sum(w * side**2 for *sides, w in signs for side in [sides[k]]) for k in (0, 1)]
    return concordance / math.sqrt(untied[0] * untied[1])


def weighted_tau_by_pairs(x, y):
    """Hyperbolic weights of the places by (x, y) and by (y, x), averaged."""
    both = []
    for first, second in ((x, y), (y, x)):
        order = sorted(range(len(x)), key=lambda i: (-first[i], -second[i]))
        place = {candidate: position for position, candidate in enumerate(order)}
        both.append(tau_by_pairs(x, y, lambda i, j, p=place: 1 / (p[i] + 1) + 1 / (p[j] + 1)))
    return sum(both) / 2


def mid_ranks(x):
    return [sum(v < u for v in x) + (sum(v == u for v in x) + 1) / 2 for u in x]


def pearson_by_sums(x, y):
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    product = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return product / math.sqrt(
        sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    )


WRITTEN_OUT = {
    "kendall": tau_by_pairs,
    "weighted_kendall": weighted_tau_by_pairs,
    "spearman": lambda x, y: pearson_by_sums(mid_ranks(x), mid_ranks(y)),
    "pearson": pearson_by_sums,
}
IN_SCIPY = {
    "kendall": scipy.stats.kendalltau,
    "weighted_kendall": scipy.stats.weightedtau,
    "spearman": scipy.stats.spearmanr,
    "pearson": scipy.stats.pearsonr,
}


def tables(n_tables, n_levels):
    rng = np.random.default_rng(n_levels)
    for _ in range(n_tables):
        n = rng.integers(2, 15)
        x, y = rng.integers(0, n_levels, (2, n)).astype(float)
        if np.ptp(x) and np.ptp(y):
            yield x.tolist(), y.tolist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_levels", [2, 5, 1000])
def test_equals_the_formula_written_out_and_scipy(method, n_levels):
    for x, y in tables(40, n_levels):
        result = statistic(x, y, method)
        assert result == pytest.approx(WRITTEN_OUT[method](x, y), abs=1e-12)
        assert result == pytest.approx(IN_SCIPY[method](x, y)[0], abs=1e-12)


def test_six_models_whether_scores_or_ranks_are_given():
    scores, reference = SIX
    ranks = competition_ranks(scores), competition_ranks(reference)
    assert statistic(scores, reference, "weighted_kendall") == pytest.approx(0.6599, abs=5e-5)
    assert statistic(*ranks, "weighted_kendall", input="ranks") == pytest.approx(0.6599, abs=5e-5)
    mixed = statistic(ranks[0], reference, "weighted_kendall", input=("ranks", "scores"))
    assert mixed == pytest.approx(0.6599, abs=5e-5)
    # What happens to those who forget to say so.
    assert statistic(*ranks, "weighted_kendall") == pytest.approx(0.8449, abs=5e-5)


def test_swaps_at_the_top_weigh_more_than_at_the_bottom():
    order = np.arange(10.0, 0, -1)
    top, bottom = order.copy(), order.copy()
    top[:2], bottom[-2:] = order[[1, 0]], order[[-1, -2]]
    assert statistic(order, top, "weighted_kendall") == pytest.approx(0.8862, abs=5e-5)
    assert statistic(order, bottom, "weighted_kendall") == pytest.approx(0.9840, abs=5e-5)
    for swapped in (top, bottom):
        assert statistic(order, swapped, "kendall") == pytest.approx(0.9556, abs=5e-5)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_give_what_scores_give(method):
    for x, y in tables(20, 6):
        ranks = [len(side) + 1 - np.array(mid_ranks(side)) for side in (x, y)]
        expected = statistic(mid_ranks(x), mid_ranks(y), method)
        assert statistic(*ranks, method, input="ranks") == pytest.approx(expected, abs=1e-12)


def test_pearson_of_mean_ranks_is_spearman():
    for x, y in tables(20, 6):
        ranks = [len(side) + 1 - np.array(mid_ranks(side)) for side in (x, y)]
        assert statistic(*ranks, "pearson", input="ranks") == pytest.approx(
            statistic(x, y, "spearman"), abs=1e-12
        )


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_is_turned_round(method):
    scores, reference = SIX
    loss = [-value for value in reference]
    assert statistic(scores, loss, method, greater_is_better=False) == statistic(*SIX, method)


@pytest.mark.parametrize("method", METHODS[:3])
def test_only_the_order_counts(method):
    x, y = np.array(SIX)
    assert rank_correlation(np.exp(9 * x), y**3, method) == rank_correlation(x, y, method)


def test_large_whole_numbers_are_told_apart():
    large = np.array([2**62, 2**62 + 1, 2**62 + 2])
    assert statistic(large, [1, 2, 3], "kendall") == 1
    assert statistic(large.astype(np.uint64), [3, 2, 1], "kendall", greater_is_better=False) == 1
    assert statistic([2**62, 2**62 + 1, 2**62 + 2], [1, 3, 2], "kendall") == pytest.approx(1 / 3)
    assert statistic(np.uint8([1, 2, 3]), np.uint8([3, 2, 1]), "kendall", input="ranks") == -1


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e307])
def test_pearson_of_numbers_of_any_size(scale):
    x, y = np.array(SIX)
    expected = scipy.stats.pearsonr(x, y)[0]
    assert statistic(x * scale, y, "pearson") == pytest.approx(expected, abs=1e-12)
    assert statistic(1e6 + x, y, "pearson") == pytest.approx(expected, abs=1e-8)


# -- undefined stays undefined ---------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "scores, reference, reason",
    [
        ([1, 1, 1], [1, 2, 3], "all candidates tied in the scores"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "all candidates tied in the reference"),
        ([1, 1], [2, 2], "all candidates tied in the scores and the reference"),
        ([-0.0, 0.0], [1, 2], "all candidates tied in the scores"),
        ([INF, INF], [1, 2], "all candidates tied in the scores"),
        ([1], [2], "fewer than 2 candidates (1)"),
        ([], [], "fewer than 2 candidates (0)"),
        ([NAN, 1, 2], [1, 2, 3], "no score for 0 (1 of 3 candidates)"),
        ([1, 2, 3], [1, NAN, NAN], "no reference value for 1 and 2 (2 of 3 candidates)"),
        (
            [NAN, 2, 3],
            [1, NAN, 3],
            "no score for 0 (1 of 3 candidates); no reference value for 1 (1 of 3 candidates)",
        ),
        ([NAN, NAN], [NAN, NAN], None),
    ],
)
def test_undefined_is_nan_with_the_reason(method, scores, reference, reason):
    result = rank_correlation(scores, reference, method)
    assert math.isnan(result.statistic) and math.isnan(result.pvalue) and math.isnan(float(result))
    assert all(math.isnan(limit) for limit in result.interval)
    assert result.reason == (reason or result.reason) and result.reason
    assert result.reason in repr(result)
    assert result.n == len(scores) == len(result.names)


def test_infinite_scores_have_an_order_and_no_pearson_correlation():
    scores, reference = [-INF, 0.1, 0.2, INF], [1, 3, 2, 4]
    finite = [-5, 0.1, 0.2, 5]
    for method in METHODS[:3]:
        assert rank_correlation(scores, reference, method) == rank_correlation(
            finite, reference, method
        )
    result = rank_correlation(scores, reference, "pearson")
    assert math.isnan(result.statistic)
    assert result.reason == "infinite values have no Pearson correlation (0 and 3)"


def test_candidates_without_a_number_are_left_out_on_request_and_listed():
    scores = {"a": 1, "b": None, "c": 3, "d": 2, "e": 9}
    reference = {"a": 1, "b": 7, "c": 2, "d": 3, "e": NAN}
    result = rank_correlation(scores, reference, nan_policy="omit")
    assert (result.n, result.names, result.left_out) == (3, ("a", "c", "d"), ("b", "e"))
    assert result.statistic == pytest.approx(1 / 3) and result.reason is None
    assert "left_out=('b', 'e')" in repr(result)
    with pytest.raises(ValueError, match=r"No score for 'b' \(1 of 5 candidates\); no reference"):
        rank_correlation(scores, reference, nan_policy="raise")
    left = rank_correlation([NAN, NAN, 1], [1, 2, NAN], nan_policy="omit")
    assert (left.reason, left.left_out) == ("fewer than 2 candidates (0)", (0, 1, 2))


# -- the p-value -----------------------------------------------------------------------------------


def test_exact_pvalues_are_those_of_scipy():
    for x, y in tables(30, 1000):
        if len(x) > 7 or len(set(x)) < len(x) or len(set(y)) < len(y):
            continue
        for alternative in ("two-sided", "greater", "less"):
            result = rank_correlation(x, y, alternative=alternative, n_resamples=0)
            expected = scipy.stats.kendalltau(x, y, method="exact", alternative=alternative)
            assert result.pvalue == pytest.approx(expected.pvalue, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_exact_pvalues_count_orders_that_agree_as_well(method, alternative):
    x, y = [1, 2, 2, 4, 5], [3, 1, 2, 5, 5]
    values = [IN_SCIPY[method](x, order)[0] for order in itertools.permutations(y)]
    observed = IN_SCIPY[method](x, y)[0]
    as_good = {
        "two-sided": lambda value: abs(value) >= abs(observed) - 1e-9,
        "greater": lambda value: value >= observed - 1e-9,
        "less": lambda value: value <= observed + 1e-9,
    }[alternative]
    result = rank_correlation(x, y, method, alternative=alternative)
    assert result.pvalue == pytest.approx(np.mean([as_good(value) for value in values]))
    assert result.alternative == alternative


@pytest.mark.parametrize("method", METHODS)
def test_drawn_pvalues_come_close_to_the_exact_ones(method):
    x, y = [1, 2, 3, 4, 5, 6, 7], [2, 3, 3, 1, 6, 4, 6]
    exact = rank_correlation(x, y, method).pvalue
    drawn = rank_correlation(x, y, method, n_permutations=5039).pvalue
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / 5039))


@pytest.mark.parametrize("method", METHODS)
def test_a_pvalue_is_never_zero(method):
    perfect = np.arange(20.0)
    result = rank_correlation(perfect, perfect, method, n_permutations=99, n_resamples=0)
    assert result.pvalue == 0.01
    assert rank_correlation(perfect[:3], perfect[:3], method).pvalue == pytest.approx(1 / 3)
    assert math.isnan(rank_correlation(perfect, perfect, method, n_permutations=0).pvalue)


def test_what_random_rankings_reach():
    """The highest 5 % begin at tau 0.6 with five candidates and at 0.42 with ten."""
    five = [statistic(range(5), order, "kendall") for order in itertools.permutations(range(5))]
    assert np.quantile(five, 0.95) == pytest.approx(0.6)
    rng = np.random.default_rng(0)
    ten = [statistic(np.arange(10), rng.permutation(10), "kendall") for _ in range(1500)]
    assert np.quantile(ten, 0.95) == pytest.approx(0.42, abs=0.045)


def test_pvalues_are_uniform_without_agreement():
    rng = np.random.default_rng(3)
    drawn = [
        rank_correlation(*rng.normal(size=(2, 9)), n_resamples=0, n_permutations=199).pvalue
        for _ in range(400)
    ]
    for level in (0.05, 0.2, 0.5):
        # Kendall's tau is discrete, so that a level is not used up.
        assert 0.5 * level < np.mean(np.array(drawn) <= level) < level + 3 * (level / 400) ** 0.5


# -- the interval ----------------------------------------------------------------------------------


def normal_pair(rng, n, correlation):
    first, noise = rng.normal(size=(2, n))
    return first, correlation * first + math.sqrt(1 - correlation**2) * noise


def tied_pair(rng, n, correlation):
    first, second = normal_pair(rng, n, correlation)
    return np.floor(first), np.floor(1.5 * second)


@pytest.mark.parametrize("draw", [normal_pair, tied_pair])
@pytest.mark.parametrize("method", METHODS)
def test_coverage(draw, method):
    """Over 300 tables the standard error is 1.3 points; the guide has larger runs."""
    hits = []
    for n in (8, 20):
        rng = np.random.default_rng(n)
        truth = np.nanmean([statistic(*draw(rng, n, 0.6), method) for _ in range(500)])
        for seed in range(150):
            pair = draw(rng, n, 0.6)
            result = rank_correlation(
                *pair, method, n_resamples=300, n_permutations=0, random_state=seed
            )
            low, high = result.interval
            assert -1 <= low <= result.statistic <= high <= 1
            hits.append(low <= truth <= high)
    assert 0.9 <= np.mean(hits) <= 0.99


def test_ten_candidates_say_little():
    """With tau 0.56 the interval of ten candidates reaches from about 0 to 0.95."""
    rng = np.random.default_rng(0)
    intervals = []
    while len(intervals) < 20:
        order = rng.permutation(10)
        if abs(statistic(np.arange(10), order, "kendall") - 25 / 45) < 1e-9:
            intervals.append(rank_correlation(np.arange(10), order, n_permutations=0).interval)
    low, high = np.mean(intervals, axis=0)
    assert low == pytest.approx(0.05, abs=0.06)
    assert high == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize("method", METHODS)
def test_perfect_agreement_is_not_certainty(method):
    widths = []
    for n in (6, 8, 12, 30, 100):
        result = rank_correlation(np.arange(n), np.arange(n), method, n_permutations=0)
        assert result.statistic == 1 and result.interval[1] == 1
        assert -1 < result.interval[0] < 1
        widths.append(1 - result.interval[0])
        opposite = rank_correlation(np.arange(n), -np.arange(n), method, n_permutations=0)
        assert opposite.interval == pytest.approx((-1, -result.interval[0]))
    assert widths == sorted(widths, reverse=True)
    assert rank_correlation([1, 2, 3, 4], [1, 2, 3, 5], method).interval == (-1, 1)


def test_a_higher_level_is_wider():
    scores, reference = np.random.default_rng(0).normal(size=(2, 15))
    intervals = [
        rank_correlation(scores, reference, level=level, n_permutations=0).interval
        for level in (0.5, 0.8, 0.95, 0.99)
    ]
    for (low, high), (lower, higher) in itertools.pairwise(intervals):
        assert lower <= low and high <= higher
    assert all(math.isnan(limit) for limit in rank_correlation(*SIX, n_resamples=0).interval)


def test_one_candidate_that_stands_out_makes_a_wide_interval():
    """A third of the resamples lack it and have everything tied: they count as either end."""
    result = rank_correlation([1, 0, 0, 0, 0, 0, 0, 0], [9, 1, 2, 3, 4, 5, 6, 7])
    assert result.statistic == pytest.approx(0.5, abs=0.01) and result.interval == (-1, 1)


# -- the same every time ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_result_whatever_the_order_of_the_candidates(method):
    rng = np.random.default_rng(5)
    scores = dict(zip("abcdefghijkl", rng.integers(0, 8, 12).astype(float), strict=True))
    reference = {name: value + rng.normal() for name, value in scores.items()}
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = rank_correlation(scores, reference, method)
    for _ in range(3):
        names = rng.permutation(list(scores)).tolist()
        shuffled = rank_correlation({name: scores[name] for name in names}, reference, method)
        assert (shuffled.pvalue, shuffled.interval) == (first.pvalue, first.interval)
        assert shuffled.statistic == pytest.approx(first.statistic, abs=1e-15)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert rank_correlation(scores, reference, method, random_state=1).interval != first.interval


def test_interval_and_pvalue_do_not_depend_on_each_other():
    pair = np.random.default_rng(0).normal(size=(2, 12))
    both = rank_correlation(*pair)
    assert rank_correlation(*pair, n_resamples=0).pvalue == both.pvalue
    assert rank_correlation(*pair, n_permutations=0).interval == both.interval


def test_generators_are_advanced_and_none_is_fresh():
    pair = np.random.default_rng(0).normal(size=(2, 12))
    for make in (np.random.default_rng, np.random.RandomState):
        generator = make(7)
        first, second = (rank_correlation(*pair, random_state=generator) for _ in range(2))
        assert first.interval != second.interval
        assert rank_correlation(*pair, random_state=make(7)).interval == first.interval
    fresh = {rank_correlation(*pair, random_state=None).interval for _ in range(4)}
    assert len(fresh) > 1


def test_input_is_not_changed():
    scores, reference = np.array(SIX)
    scores.flags.writeable = reference.flags.writeable = False
    for method in METHODS:
        rank_correlation(scores, reference, method, input="scores")
    np.testing.assert_array_equal([scores, reference], SIX)


def test_the_result_is_frozen_and_copies():
    result = rank_correlation(*SIX)
    with pytest.raises(FrozenInstanceError):
        result.statistic = 1.0
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    assert float(result) == result.statistic and type(result.statistic) is float
    assert [type(limit) for limit in result.interval] == [float, float]
    assert repr(result).startswith("CorrelationResult(kendall=0.733, 0.95 interval (")
    assert len({result, copy.deepcopy(result)}) == 1


# -- wrong input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "tau"}, "'method' must be one of .*'weighted_kendall'.* Got 'tau'"),
        ({"method": None}, "'method' must be one of"),
        ({"nan_policy": "zero"}, "'nan_policy' must be one of"),
        ({"alternative": "two_sided"}, "'alternative' must be one of"),
        ({"input": "rank"}, "'input' must be 'scores' or 'ranks', or a pair of them. Got 'rank'"),
        ({"input": ("ranks",)}, "'input' must be"),
        ({"input": ("ranks", 1)}, "'input' must be"),
        ({"input": None}, "'input' must be"),
        ({"names": "all"}, "'names' must be 'same' or 'common'"),
        ({"greater_is_better": 1}, "'greater_is_better' must be True or False"),
        ({"input": "ranks"}, "said to be ranks, which start at 1 .* between 0.4 and 0.9"),
        ({"input": ("scores", "ranks"), "greater_is_better": False}, "rank 1 is the best"),
        ({"level": 1}, "'level' must be between 0 and 1. Got 1 instead"),
        ({"level": "0.9"}, "'level' must be between 0 and 1"),
        ({"level": NAN}, "'level' must be between 0 and 1"),
        ({"n_resamples": -1}, "'n_resamples' must be a whole number, 0 or more. Got -1"),
        ({"n_permutations": 1e3}, "'n_permutations' must be a whole number"),
        ({"n_permutations": True}, "'n_permutations' must be a whole number"),
        ({"random_state": -1}, "'random_state' must be"),
        ({"random_state": "seed"}, "'random_state' must be"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        rank_correlation(*SIX, **options)


# -- whatever the order, whatever the size, and not by too few resamples ---------------------------


@pytest.mark.parametrize("method", METHODS)
def test_statistic_is_the_same_to_the_last_digit_in_any_order(method):
    rng = np.random.default_rng(0)
    scores = dict(enumerate(rng.normal(size=23)))
    reference = dict(enumerate(rng.integers(0, 9, size=23) / 7))
    expected = rank_correlation(scores, reference, method, n_resamples=50, n_permutations=50)
    for _ in range(20):
        order = rng.permutation(23).tolist()
        found = rank_correlation(
            {name: scores[name] for name in order},
            {name: reference[name] for name in order[::-1]},
            method,
            n_resamples=50,
            n_permutations=50,
        )
        assert found.statistic == expected.statistic
        assert (found.interval, found.pvalue) == (expected.interval, expected.pvalue)


@pytest.mark.parametrize("method", ["kendall", "pearson"])
def test_large_whole_numbers_differ(method):
    result = rank_correlation([2**60, 2**60 + 1, 2**60 + 3], [1, 2, 4], method)
    assert result.statistic == 1 and result.pvalue == pytest.approx(
        {"kendall": 2}.get(method, 1) / 6
    )
    lowest = np.array([-(2**63), 0, 2**63 - 1])
    assert rank_correlation(lowest, [1, 2, 3], method).statistic == pytest.approx(1)


@pytest.mark.parametrize(("level", "fewest"), [(0.95, 40), (0.9, 20), (0.5, 4), (0.99, 200)])
def test_too_few_resamples_for_the_level(level, fewest):
    data = [1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 6, 5]
    table = [data[0], data[1]]
    for call in (
        lambda n: rank_correlation(*data, level=level, n_resamples=n),
        lambda n: stability_intra(table, level=level, n_resamples=n),
        lambda n: stability_ref(table, data[0], level=level, n_resamples=n),
    ):
        assert np.isfinite(call(fewest).interval).all()
        assert np.isnan(call(0).interval).all()
        for n in (1, fewest - 1):
            with pytest.raises(ValueError, match=f"'n_resamples' must be at least {fewest} for le"):
                call(n)
