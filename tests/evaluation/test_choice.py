import copy
import itertools
import math
import pickle

import numpy as np
import pytest

from sktransfer.evaluation import relative_top_k, selection_regret, top_k_recall

NAN, INF = np.nan, np.inf
SCORES = {"a": 0.9, "b": 0.8, "c": 0.3, "d": 0.1}
REFERENCE = {"d": 0.70, "c": 0.92, "b": 0.90, "a": 0.85}
FUNCTIONS = [selection_regret, relative_top_k, top_k_recall]


def test_regret_in_units_of_the_reference():
    regret = selection_regret(SCORES, REFERENCE)
    assert regret == pytest.approx(0.07) and regret.chosen == ("a",)
    assert selection_regret(SCORES, REFERENCE, k=2) == pytest.approx(0.02)
    assert selection_regret(SCORES, REFERENCE, k=3) == 0
    assert selection_regret(SCORES, REFERENCE, k=4) == 0
    points = {name: 100 * value for name, value in REFERENCE.items()}
    assert selection_regret(SCORES, points) == pytest.approx(7)


def test_ratio_and_recall():
    assert relative_top_k(SCORES, REFERENCE) == pytest.approx(0.85 / 0.92)
    assert relative_top_k(SCORES, REFERENCE, k=3) == 1
    assert [float(top_k_recall(SCORES, REFERENCE, k)) for k in (1, 2, 3, 4)] == [0, 0.5, 1, 1]
    assert [float(top_k_recall(SCORES, REFERENCE, k, n_best=1)) for k in (1, 2, 3)] == [0, 0, 1]
    assert top_k_recall(SCORES, REFERENCE, 1, n_best=4) == 0.25


def test_losses_and_ranks():
    loss = {name: 1 / value for name, value in REFERENCE.items()}
    regret = selection_regret(SCORES, loss, greater_is_better=False)
    assert regret == pytest.approx(1 / 0.85 - 1 / 0.92)
    ratio = relative_top_k(SCORES, loss, greater_is_better=False)
    assert ratio == pytest.approx(0.85 / 0.92)
    assert ratio.chance == pytest.approx(relative_top_k(SCORES, REFERENCE).chance)
    assert top_k_recall(SCORES, loss, 2, greater_is_better=False) == 0.5
    ranks = {"a": 1, "b": 2, "c": 3, "d": 4}
    options = {"input": ("ranks", "scores")}
    assert selection_regret(ranks, REFERENCE, **options) == selection_regret(SCORES, REFERENCE)
    assert top_k_recall(ranks, {"a": 3, "b": 2, "c": 1, "d": 4}, 2, input="ranks") == 0.5
    unsigned = np.uint8([1, 2, 3, 4])
    assert selection_regret(unsigned, unsigned, greater_is_better=False) == 3


def test_large_whole_numbers_differ():
    large = [2**60, 2**60 + 1, 2**60 + 2]
    assert selection_regret(large, [0.3, 0.2, 0.1]) == pytest.approx(0.2)
    assert top_k_recall([3, 2, 1], large) == 0 and top_k_recall([1, 2, 3], large) == 1


# -- ties, against every way to break them --------------------------------------------------------


def by_breaking_ties(scores, reference, k, worth):
    """The mean and the worst over all orders of candidates with equal scores."""
    values = []
    for order in itertools.permutations(range(len(scores))):
        chosen = sorted(order, key=lambda i: -scores[i])[:k]
        values.append(worth(chosen, reference))
    return np.mean(values), min(values)


def regret_of(chosen, reference):
    return -(max(reference) - max(reference[i] for i in chosen))


def ratio_of(chosen, reference):
    return max(reference[i] for i in chosen) / max(reference)


def recall_of(n_best):
    def recall(chosen, reference):
        limit = sorted(reference)[-n_best]
        return min(sum(reference[i] >= limit for i in chosen), n_best) / n_best

    return recall


@pytest.mark.parametrize("seed", range(12))
def test_ties_are_broken_in_every_way(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    scores, reference = rng.integers(0, 3, n).tolist(), rng.integers(1, 5, n).tolist()
    scores[0], scores[1], reference[0], reference[1] = 0, 1, 2, 3
    for k in range(1, n + 1):
        mean, worst = by_breaking_ties(scores, reference, k, regret_of)
        assert selection_regret(scores, reference, k) == pytest.approx(-mean)
        assert selection_regret(scores, reference, k, ties="worst") == pytest.approx(-worst)
        mean, worst = by_breaking_ties(scores, reference, k, ratio_of)
        assert relative_top_k(scores, reference, k) == pytest.approx(mean)
        assert relative_top_k(scores, reference, k, ties="worst") == pytest.approx(worst)
        for n_best in range(1, n + 1):
            mean, worst = by_breaking_ties(scores, reference, k, recall_of(n_best))
            options = {"k": k, "n_best": n_best}
            assert top_k_recall(scores, reference, **options) == pytest.approx(mean)
            assert top_k_recall(scores, reference, ties="worst", **options) == pytest.approx(worst)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_chance_is_the_mean_over_all_choices(k):
    rng = np.random.default_rng(k)
    scores, reference = rng.normal(size=5), rng.integers(1, 9, 5) / 10
    choices = list(itertools.combinations(range(5), k))
    for function, worth, sign in (
        (selection_regret, regret_of, -1),
        (relative_top_k, ratio_of, 1),
        (top_k_recall, recall_of(k), 1),
    ):
        expected = sign * np.mean([worth(choice, reference) for choice in choices])
        assert function(scores, reference, k).chance == pytest.approx(expected)


def test_who_is_chosen_and_who_is_tied():
    regret = selection_regret({"a": 2, "b": 1, "c": 1, "d": 0}, REFERENCE, k=2)
    assert (regret.chosen, regret.tied) == (("a",), ("b", "c"))
    assert regret == pytest.approx((0.02 + 0) / 2)
    whole = selection_regret({"a": 2, "b": 1, "c": 1, "d": 0}, REFERENCE, k=3)
    assert (whole.chosen, whole.tied) == (("a", "b", "c"), ())


def test_equals_of_the_best_are_as_good():
    """Four sources share the best AUROC on one published target: any of them is a hit."""
    reference = {"a": 0.998, "b": 0.998, "c": 0.992, "d": 0.998}
    assert top_k_recall(SCORES, reference) == 1 and selection_regret(SCORES, reference) == 0


def test_many_tied_candidates():
    scores = np.r_[1.0, np.zeros(399)]
    reference = np.arange(400.0) + 1
    assert 0 < selection_regret(scores, reference, k=200) < 2
    assert top_k_recall(scores, reference, k=200) == pytest.approx(0.5, abs=0.01)


# -- undefined -------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "scores, reference, reason",
    [
        ([1, 1, 1], [1, 2, 3], "all candidates tied in the scores"),
        ([1, 2, 3], [5, 5, 5], "all candidates tied in the reference"),
        ([1, 1], [5, 5], "all candidates tied in the scores and the reference"),
        ([1, 1, NAN], [1, 2, 3], "all candidates tied in the scores"),
        ([1], [1], "fewer than 2 candidates (1)"),
        ([1, 2], [NAN, 1], "no reference value for 0 (1 of 2 candidates)"),
        ([NAN, NAN], [1, 2], "only 0 of 2 candidates have a score, fewer than k=1"),
        ([NAN, NAN], [NAN, 2], "no reference value for 0 (1 of 2 candidates)"),
    ],
)
def test_undefined_is_nan_with_the_reason(function, scores, reference, reason):
    result = function(scores, reference)
    assert math.isnan(result) and math.isnan(result.chance)
    assert result.reason == reason and reason in repr(result)
    assert result.n == len(scores)


def test_a_candidate_without_a_score_is_never_chosen_but_may_be_missed():
    scores = {**SCORES, "c": NAN, "a": None}
    regret = selection_regret(scores, REFERENCE)
    assert regret == pytest.approx(0.02) and regret.chosen == ("b",)
    assert selection_regret(scores, REFERENCE, k=2) == pytest.approx(0.02)
    assert "only 2 of 4" in selection_regret(scores, REFERENCE, k=3).reason
    alone = selection_regret([NAN, 1, NAN], [3, 2, 1])
    assert alone == 1 and alone.chosen == (1,)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_missing_score_is_an_error_on_demand(function):
    scores = {**SCORES, "b": NAN}
    with pytest.raises(ValueError, match=r"no score for 'b' \(1 of 4 candidates\); nan_policy='r"):
        function(scores, REFERENCE, nan_policy="raise")
    by_default = function(scores, REFERENCE)
    assert (
        by_default.reason is None and function(scores, REFERENCE, nan_policy="omit") == by_default
    )
    both = {**REFERENCE, "c": NAN}
    with pytest.raises(ValueError, match="no score for 'b'.*; no reference value for 'c'"):
        function(scores, both, nan_policy="raise")


def test_candidates_without_a_reference():
    reference = {**REFERENCE, "c": NAN}
    omitted = selection_regret(SCORES, reference, nan_policy="omit")
    assert omitted == pytest.approx(0.05) and (omitted.n, omitted.left_out) == (3, ("c",))
    with pytest.raises(ValueError, match="There is no reference value for 'c' .1 of 4 candidates"):
        selection_regret(SCORES, reference, nan_policy="raise")
    with pytest.raises(ValueError, match="'k' must be a whole number between 1 and .*, 3. Got 4"):
        selection_regret(SCORES, reference, 4, nan_policy="omit")


def test_references_that_have_no_ratio_or_difference():
    regret = selection_regret([1, 2, 3], [1e308, -1e308, 0.0])
    assert math.isnan(regret) and "more than a float can hold" in regret.reason
    assert relative_top_k([1, 2], [-1, 2]).reason == "a ratio needs reference values of 0 or more"
    loss = relative_top_k([1, 2], [0, 2], greater_is_better=False)
    assert np.isnan(loss) and loss.reason == "a ratio needs positive losses"
    assert [float(relative_top_k(scores, [0, 2, 1])) for scores in ([3, 2, 1], [1, 2, 3])] == [
        0,
        0.5,
    ]
    assert selection_regret([1, 2], [-1, -2]) == 1
    for function in (selection_regret, relative_top_k):
        reason = function([1, 2], [1, INF]).reason
        assert reason == "infinite reference values cannot be compared"
    assert top_k_recall([1, 2], [1, INF]) == 1
    assert selection_regret([-INF, INF], [1, 2]) == 0


# -- pairing and wrong input -----------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pairs_by_name(function):
    with pytest.raises(ValueError, match="'reference' lacks 'x'"):
        function({**SCORES, "x": 5.0}, REFERENCE)
    result = function({**SCORES, "x": 5.0}, REFERENCE, names="common")
    assert result.left_out == ("x",) and float(result) == float(function(SCORES, REFERENCE))
    with pytest.raises(ValueError, match="has names"):
        function(SCORES, list(REFERENCE.values()))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("k", [0, -1, 5, 1.0, True, None, "2"])
def test_k_must_be_possible(function, k):
    with pytest.raises(ValueError, match="'k' must be a whole number between 1 and the number of"):
        function(SCORES, REFERENCE, k)


def test_wrong_options():
    with pytest.raises(ValueError, match="'n_best' must be a whole number between 1 and"):
        top_k_recall(SCORES, REFERENCE, n_best=5)
    with pytest.raises(ValueError, match="'ties' must be one of"):
        selection_regret(SCORES, REFERENCE, ties="first")
    with pytest.raises(ValueError, match="'nan_policy' must be one of"):
        selection_regret(SCORES, REFERENCE, nan_policy="zero")
    for function in (selection_regret, relative_top_k):
        with pytest.raises(ValueError, match="must be measured values"):
            function([2, 1], [1, 2], input="ranks")


# -- the result ------------------------------------------------------------------------------------


def test_the_result_is_a_frozen_float():
    regret = selection_regret(SCORES, REFERENCE)
    assert isinstance(regret, float) and regret.statistic == float(regret)
    assert type(regret.statistic) is float and type(regret.chance) is float
    assert f"{regret:.3f}" == "0.070" and str(regret) == str(float(regret))
    assert repr(regret) == "ChoiceScore(0.07, chance=0.0775, k=1, n=4, chosen=('a',))"
    with pytest.raises(AttributeError, match="frozen"):
        regret.k = 2
    with pytest.raises(AttributeError, match="frozen"):
        del regret.k
    for copied in (copy.deepcopy(regret), pickle.loads(pickle.dumps(regret))):
        assert copied == regret and copied.__dict__ == regret.__dict__
    assert np.mean([regret, 0.0]) == pytest.approx(0.035)
