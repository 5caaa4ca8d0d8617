import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr, weightedtau

from sktransfer.evaluation import (
    competition_ranks,
    rank_correlation,
    stability_inter,
    stability_intra,
    stability_ref,
)
from sktransfer.evaluation._tables import read_table

NAN = np.nan
COEFFICIENTS = {"kendall": kendalltau, "weighted_kendall": weightedtau, "spearman": spearmanr}


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 9)) + np.linspace(0, 3, 9)


@pytest.fixture
def reference():
    return np.random.default_rng(1).normal(size=9)


@pytest.mark.parametrize("method", COEFFICIENTS)
def test_the_three_equations(scores, reference, method):
    coefficient = COEFFICIENTS[method]
    other = np.random.default_rng(2).normal(size=scores.shape)
    pairs = list(itertools.combinations(range(5), 2))
    expected = {
        "intra": [coefficient(scores[i], scores[j])[0] for i, j in pairs],
        "ref": [coefficient(row, reference)[0] for row in scores],
        "inter": [coefficient(a, b)[0] for a, b in zip(scores, other, strict=True)],
    }
    results = {
        "intra": stability_intra(scores, method),
        "ref": stability_ref(scores, reference, method),
        "inter": stability_inter(scores, other, method),
    }
    for kind, result in results.items():
        np.testing.assert_allclose(result.values, expected[kind], atol=1e-12)
        assert result.statistic == float(result) == pytest.approx(np.mean(expected[kind]))
        assert (result.kind, result.method, result.reason) == (kind, method, None)
        assert (result.n, result.n_undefined, result.reasons) == (len(expected[kind]), 0, {})
        low, high = result.interval
        assert -1 <= low < result.statistic < high <= 1
    assert results["intra"].pairs == tuple(pairs)
    assert results["ref"].pairs == results["inter"].pairs == tuple((i,) for i in range(5))


def test_ranks_give_what_scores_give(scores, reference):
    ranks = np.array([competition_ranks(row) for row in scores])
    for method in COEFFICIENTS:
        of_scores = stability_intra(scores, method)
        of_ranks = stability_intra(ranks, method, input="ranks")
        np.testing.assert_allclose(of_ranks.values, of_scores.values, atol=1e-12)
        mixed = stability_ref(
            ranks, -reference, method, input=("ranks", "scores"), greater_is_better=False
        )
        np.testing.assert_allclose(
            mixed.values, stability_ref(scores, reference, method).values, atol=1e-12
        )
    with pytest.raises(ValueError, match="said to be ranks"):
        stability_intra(scores, input="ranks")


def test_the_same_repeats_agree_perfectly(scores):
    result = stability_intra([scores[0]] * 3)
    assert result.statistic == 1 and result.interval[1] == 1 and 0 < result.interval[0] < 1


# -- undefined -------------------------------------------------------------------------------------


def test_undefined_stays_undefined_and_is_counted(scores):
    scores[2] = 0.5
    result = stability_intra(scores)
    assert math.isnan(result.statistic) and all(math.isnan(limit) for limit in result.interval)
    assert (result.n, result.n_undefined) == (6, 4)
    assert result.reason == "4 of 10 correlations undefined: all candidates tied in repeat 2"
    assert set(result.reasons) == {(0, 2), (1, 2), (2, 3), (2, 4)}
    assert set(result.reasons.values()) == {"all candidates tied in repeat 2"}
    undefined = [pair in result.reasons for pair in result.pairs]
    np.testing.assert_array_equal(np.isnan(result.values), undefined)
    assert result.reason in repr(result) and "n_undefined=4" in repr(result)


def test_undefined_can_be_left_out_and_is_still_counted(scores, reference):
    scores[2] = 0.5
    kept = np.delete(scores, 2, axis=0)
    result = stability_intra(scores, nan_policy="omit")
    assert result.statistic == pytest.approx(stability_intra(kept).statistic)
    assert (result.n, result.n_undefined, result.reason) == (6, 4, None)
    assert "n_undefined=4" in repr(result)
    result = stability_ref(scores, reference, nan_policy="omit")
    assert result.statistic == pytest.approx(stability_ref(kept, reference).statistic)


def test_a_candidate_that_failed_in_one_repeat(scores):
    scores[1, 3] = NAN
    result = stability_intra(scores)
    assert (result.n, result.n_undefined) == (6, 4)
    assert result.reasons[0, 1] == "metric failed: no score for 3 (1 of 9 candidates) in repeat 1"
    omitted = stability_intra(scores, nan_policy="omit")
    assert (omitted.n, omitted.n_undefined) == (10, 0)
    others = np.arange(9) != 3
    assert omitted.values[0] == pytest.approx(kendalltau(scores[0, others], scores[1, others])[0])
    assert omitted.values[1] == pytest.approx(kendalltau(scores[0], scores[2])[0])


def test_everything_failed():
    for policy in ("propagate", "omit"):
        result = stability_intra(np.full((3, 4), NAN), nan_policy=policy)
        assert (result.n, result.n_undefined) == (0, 3) and math.isnan(result.statistic)
        assert result.reason.startswith("3 of 3 correlations undefined: ")
        tied = stability_ref(np.ones((2, 4)), [1, 2, 3, 4], nan_policy=policy)
        assert tied.n_undefined == 2 and "all candidates tied in repeat 0" in tied.reason


def test_reasons_differ(scores):
    scores[0], scores[1, 0] = 1.0, NAN
    result = stability_ref(scores, np.arange(9))
    assert result.reason == (
        "2 of 5 correlations undefined: all candidates tied in repeat 0, and more"
    )
    constant = stability_ref(scores[2:], np.ones(9))
    assert set(constant.reasons.values()) == {"all candidates tied in the reference"}
    lost = stability_ref(scores[2:], [NAN, *range(8)])
    assert "no reference value for 0 (1 of 9 candidates)" in lost.reason
    both = stability_inter(np.ones((1, 3)), [[1, 2, 3]])
    assert both.reasons == {(0,): "all candidates tied in scores_a, repeat 0"}


@pytest.mark.parametrize(
    "result, reason",
    [
        (lambda: stability_intra([[1, 2, 3]]), "fewer than 2 repeats (1)"),
        (lambda: stability_intra(np.empty((0, 3))), "fewer than 2 repeats (0)"),
        (lambda: stability_ref(np.empty((0, 3)), [1, 2, 3]), "no repeats"),
        (lambda: stability_inter({"a": []}, {"a": []}), "no repeats"),
        (
            lambda: stability_intra([[1], [2]]),
            "1 of 1 correlations undefined: fewer than 2 candidates (1)",
        ),
        (
            lambda: stability_intra(np.empty((2, 0))),
            "1 of 1 correlations undefined: fewer than 2 candidates (0)",
        ),
    ],
)
def test_too_little_to_compare(result, reason):
    assert result().reason == reason and math.isnan(result().statistic)


# -- tables in every form, paired by name ----------------------------------------------------------

COLUMNS = {"a": [0.9, 0.8, 0.7], "b": [0.1, 0.3, 0.9], "c": [0.5, 0.6, 0.2], "d": [0.4, 0.1, 0.3]}


def as_structured(columns):
    table = np.zeros(3, dtype=[(name, float) for name in columns])
    for name, column in columns.items():
        table[name] = column
    return table


FORMS = {
    "mapping": dict,
    "pandas": lambda columns: pytest.importorskip("pandas").DataFrame(columns),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "structured": as_structured,
}


@pytest.mark.parametrize("form", FORMS)
def test_frames_pair_by_name(form):
    backwards = dict(reversed(COLUMNS.items()))
    expected = stability_intra(np.array(list(COLUMNS.values())).T)
    for columns in (COLUMNS, backwards):
        result = stability_intra(FORMS[form](columns))
        np.testing.assert_allclose(result.values, expected.values)
        assert result.names == tuple(columns)
        assert stability_inter(FORMS[form](COLUMNS), FORMS[form](columns)).statistic == 1
        first = {name: column[0] for name, column in columns.items()}
        assert stability_ref(FORMS[form](COLUMNS), first).values[0] == 1


def test_different_candidates():
    fewer = {name: COLUMNS[name] for name in "abc"}
    with pytest.raises(
        ValueError, match="'scores_a' and 'scores_b' must have.*'scores_b' lacks 'd'"
    ):
        stability_inter(COLUMNS, fewer)
    result = stability_inter(COLUMNS, fewer, names="common")
    assert (result.names, result.left_out) == (("a", "b", "c"), ("d",))
    assert "left_out=('d',)" in repr(result)
    with pytest.raises(ValueError, match="'scores' lacks 'x'"):
        stability_ref(COLUMNS, {**dict.fromkeys("abcd", 1.0), "x": 2.0})
    with pytest.raises(ValueError, match="'scores' has names"):
        stability_ref(COLUMNS, [1, 2, 3, 4])


def test_repeats_pair_by_the_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS, index=[42, 43, 44])
    result = stability_inter(frame, frame.iloc[::-1])
    assert result.statistic == 1 and result.pairs == ((42,), (43,), (44,))
    assert stability_intra(frame).pairs[0] == (42, 43)
    assert stability_inter(frame, frame.reset_index(drop=True)).statistic == 1
    with pytest.raises(ValueError, match=r"same repeats, each once. Got the indices 42, 43 and 44"):
        stability_inter(frame, frame.set_axis([42, 43, 45]))
    with pytest.raises(ValueError, match="same repeats, each once"):
        stability_inter(frame, frame.set_axis([42, 42, 43]))
    twice = frame.set_axis([1, 1, 1])
    assert stability_inter(twice, twice).statistic == 1
    assert stability_intra(twice).pairs == ((0, 1), (0, 2), (1, 2))
    with pytest.raises(ValueError, match="same repeats. Got 3 and 2"):
        stability_inter(frame, frame.iloc[:2])


def test_frames_with_missing_numbers_and_odd_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({1: [1, None], "1": [2, 3], (0, "x"): [5, 1]}).astype("Float64")
    result = stability_intra(frame)
    assert result.names == (1, "1", (0, "x"))
    assert result.reason.endswith("no score for 1 (1 of 3 candidates) in repeat 1")
    plain = pandas.DataFrame(np.arange(6.0).reshape(2, 3))
    assert stability_ref(plain, [1, 2, 3]).statistic == 1
    masked = np.ma.masked_array([[1, 2, 3], [1, 2, 3]], [[0, 0, 1], [0, 0, 0]])
    assert "no score for 2" in stability_intra(masked).reason
    assert stability_intra([[1, 2, None], [3, 4, 5]]).n_undefined == 1


@pytest.mark.parametrize(
    "scores, message",
    [
        ([1, 2, 3], r"must be of shape \(n_repeats, n_candidates\). Got an array of shape \(3,\)"),
        ([[1, 2], [3]], r"must be of shape \(n_repeats, n_candidates\)"),
        (np.zeros((2, 2, 2)), r"Got an array of shape \(2, 2, 2\)"),
        ([["a", "b"]], "'scores' must hold real numbers. Got dtype <U1"),
        ({"a": [1, 2], "b": [1]}, "as many repeats for each candidate. Got between 1 and 2"),
        ({"a": [1, 2], "b": ["x", "y"]}, r"'scores\['b'\]' must hold real numbers"),
        ({"a": 1.0, "b": 2.0}, r"'scores\['a'\]' must hold one number per candidate"),
        ({"a": [1, 2], None: [1, 2]}, "name is missing"),
    ],
)
def test_wrong_tables(scores, message):
    with pytest.raises(ValueError, match=message):
        stability_intra(scores)


def test_wrong_frames():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="has to be collected first"):
        stability_intra(polars.DataFrame({"a": [1]}).lazy())
    with pytest.raises(ValueError, match="Got a series"):
        stability_intra(pandas.Series([1, 2]))
    frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(ValueError, match="must name each candidate once"):
        stability_intra(frame)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "tau"}, "'method' must be one of"),
        ({"nan_policy": "raise"}, "'nan_policy' must be one of"),
        ({"input": ("scores", "ranks")}, "'input' must be one of"),
        ({"level": 0}, "'level' must be between"),
        ({"n_resamples": 0.5}, "'n_resamples' must be"),
        ({"random_state": "x"}, "'random_state' must be"),
    ],
)
def test_wrong_options(scores, options, message):
    with pytest.raises(ValueError, match=message):
        stability_intra(scores, **options)


# -- the result ------------------------------------------------------------------------------------


def test_seeded_and_the_same_in_any_order_of_candidates(scores, reference):
    first = stability_ref(scores, reference)
    order = np.random.default_rng(0).permutation(9)
    again = stability_ref(scores[:, order], reference[order])
    assert again.interval == pytest.approx(first.interval, abs=1e-12)
    assert stability_ref(scores, reference, random_state=1).interval != first.interval
    assert all(math.isnan(x) for x in stability_ref(scores, reference, n_resamples=0).interval)


def test_one_repeat_has_the_interval_of_a_single_correlation(scores, reference):
    single = rank_correlation(scores[0], reference, n_permutations=0)
    mean = stability_ref(scores[:1], reference, n_resamples=2000)
    assert mean.statistic == pytest.approx(single.statistic)
    assert mean.interval == pytest.approx(single.interval, abs=0.08)


def test_the_result_is_frozen_and_copies(scores):
    result = stability_intra(scores)
    with pytest.raises(AttributeError):
        result.statistic = 0.0
    with pytest.raises(ValueError, match="read-only"):
        result.values[0] = 0.0
    for copied in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert repr(copied) == repr(result) and copied.pairs == result.pairs
    assert repr(result).startswith("StabilityResult(intra, kendall=0.")
    assert repr(result).endswith(", n=10)")


# -- the example of three rankings -----------------------------------------------------------------

THREE = {
    "A": ("dcbagfe", (0.500, 0.143, 0.066)),
    "B": ("abcgfed", (0.643, 0.429, 0.707)),
    "C": ("bcdeafg", (0.643, 0.619, 0.475)),
}


@pytest.mark.parametrize("ranking", THREE)
def test_three_rankings_that_the_coefficients_order_differently(ranking):
    order, expected = THREE[ranking]
    ranks = {name: place for place, name in enumerate(order, 1)}
    reference = {name: place for place, name in enumerate("abcdefg", 1)}
    values = [
        rank_correlation(ranks, reference, method, input="ranks", n_permutations=0).statistic
        for method in ("spearman", "kendall", "weighted_kendall")
    ]
    assert values == pytest.approx(expected, abs=5e-4)


def test_a_frame_of_floats_is_read_as_one_of_objects():
    pd = pytest.importorskip("pandas")
    scores = np.random.default_rng(0).normal(size=(4, 6))
    scores[1, 2] = np.nan
    scores[2, 3] = -np.inf
    frame = pd.DataFrame(scores, index=list("wxyz"), columns=list("abcdef"))
    fast, slow = (read_table(data, "scores") for data in (frame, frame.astype(object)))
    np.testing.assert_array_equal(fast.values, slow.values)
    np.testing.assert_array_equal(fast.missing, slow.missing)
    about = ("names", "positional", "repeats", "named_repeats")
    assert [getattr(fast, name) for name in about] == [getattr(slow, name) for name in about]
    assert not np.shares_memory(fast.values, frame.to_numpy())
    with pytest.raises(ValueError, match="name each candidate once"):
        read_table(pd.concat([frame, frame[["a"]]], axis=1), "scores")
