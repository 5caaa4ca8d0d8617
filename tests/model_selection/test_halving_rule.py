"""The rule and the budget of a race, which are arithmetic and train nothing."""

import math
import re
import threading
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)

pytest.importorskip("torch")

from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor
from sktransfer.metrics import KNN, HScore, LinearProbe, LogME
from sktransfer.model_selection._halving_budget import Budget, next_number, rounds_until_two
from sktransfer.model_selection._halving_inputs import (
    check_costs,
    metrics_for,
    validation_parts,
)
from sktransfer.model_selection._halving_prepare import _Measured
from sktransfer.model_selection._halving_rule import (
    Comparison,
    compare,
    judge,
    metric_order,
    starters,
)


class Foreign(BaseEstimator):
    """A metric that tells nothing of tasks."""

    needs = "features"

    def fit(self, X, y):
        return self


def shares_right(outputs, rows):
    """A measure of 0/1 outputs: the share of ones."""
    return float(np.mean(outputs[rows]))


# -- who starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "start", "inside", "expected"),
    [
        ([3, 1, 2, 4, 5, 6], 1 / 3, None, "bc"),
        ([1, 2, 2, 2, 5, 6], 1 / 3, None, "abcd"),  # ties with the last come along
        ([1, 1, 1], 0.1, None, "abc"),
        ([2, 1], 0.1, None, "ba"),
        ([1], 1.0, None, "a"),
        (range(1, 31), 0.3, None, "abcdefghi"),  # no tenth by rounding
        ([3, 1, 2, 4, 5, 6], "decision_set", None, "bc"),
        ([3, 1, 2, 4, 5, 6], "decision_set", ("b", "c", "a"), "bca"),
        ([3, 1, 2, 4, 5, 6], "decision_set", ("b",), "bc"),
        ([1, 2, 2], "decision_set", ("a",), "abc"),
        ([1, 2, 3], 0.1, ("a", "b", "c"), "ab"),
    ],
)
def test_starters(ranks, start, inside, expected):
    letters = [chr(ord("a") + i) for i in range(len(ranks))]
    found, reason = starters(dict(zip(letters, ranks, strict=True)), start, inside)
    assert found == list(expected)
    assert ("decision set" in reason) == (inside is not None and isinstance(start, str))


def test_order_by_the_metric_is_none_without_a_score():
    assert metric_order({"a": 1.0, "b": 3.0, "c": math.nan, "d": 1.0}) == {
        "a": 2,
        "b": 1,
        "c": None,
        "d": 2,
    }


# -- comparisons -----------------------------------------------------------------------------------


def test_standard_error_is_that_of_paired_differences():
    random = np.random.default_rng(0)
    outputs = {i: (random.random(400) < p).astype(float) for i, p in enumerate((0.8, 0.7, 0.75))}
    found = compare(shares_right, outputs, 0, None, 1)
    assert set(found) == {1, 2}
    for i, comparison in found.items():
        differences = outputs[i] - outputs[0]
        assert comparison.difference == pytest.approx(differences.mean())
        # The bootstrap with 200 resamples errs by some 5 %.
        assert comparison.error == pytest.approx(differences.std() / math.sqrt(400), rel=0.2)


def test_pairs_that_agree_on_a_few_rows_are_no_proof():
    outputs = {0: np.zeros(3), 1: np.ones(3)}
    found = compare(shares_right, outputs, 0, None, 0)[1]
    assert found.difference == 1.0
    assert found.error == pytest.approx(1 / 3)
    assert not found.is_sure(0.99, 1)
    assert not compare(shares_right, {0: np.zeros(1), 1: np.ones(1)}, 0, None, 0)[1].is_sure(0.9, 1)
    forty = compare(shares_right, {0: np.zeros(40), 1: np.ones(40)}, 0, None, 0)[1]
    assert forty.is_sure(0.99, 9)


def test_a_measure_that_is_undefined_on_resamples_is_never_sure():
    def measure(outputs, rows):
        return float(outputs.mean()) if np.array_equal(rows, np.arange(8)) else math.nan

    found = compare(measure, {0: np.zeros(8), 1: np.ones(8)}, 0, None, 0)[1]
    assert (found.difference, found.error) == (1.0, math.inf)
    assert not found.is_sure(0.5, 1)


def test_resamples_keep_the_number_of_rows_of_each_class():
    codes = np.array([0, 0, 0, 1, 1, 2])
    seen = []

    def measure(outputs, rows):
        seen.append(np.bincount(codes[rows]).tolist())
        return 0.0

    compare(measure, {0: np.zeros(6), 1: np.zeros(6)}, 0, codes, 0)
    assert seen and all(counts == [3, 2, 1] for counts in seen)


def test_equal_candidates_are_seldom_told_apart():
    random = np.random.default_rng(3)
    n_wrong = 0
    for trial in range(80):
        outputs = {i: (random.random(60) < 0.7).astype(float) for i in range(5)}
        found = compare(shares_right, outputs, 0, None, trial)
        n_wrong += any(c.is_sure(0.95, 4) and c.difference > 0 for c in found.values())
    # At most 5 %, and three standard errors of 80 trials.
    assert n_wrong / 80 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 80)


def test_confidence_is_shared_among_comparisons():
    for n in (1, 4):
        needed = stats.t.ppf(1 - 0.05 / n, 99)
        assert Comparison(needed * 1.001, 1.0, 100).is_sure(0.95, n)
        assert not Comparison(needed * 0.999, 1.0, 100).is_sure(0.95, n)


# -- verdicts --------------------------------------------------------------------------------------


def verdict(differences, *, n_kept=2, is_last=False, error=0.02):
    """Judge candidates 0 (the leader), 1, 2, ... in the order of the metric."""
    comparisons = {i: Comparison(d, error, 100) for i, d in enumerate(differences, start=1)}
    return judge(
        {i: i + 1 for i in range(len(differences) + 1)},
        {0: 0.7, **{i: 0.7 + c.difference for i, c in comparisons.items()}},
        comparisons,
        0,
        confidence=0.95,
        n_kept=n_kept,
        is_last=is_last,
        names="abcdefgh",
    )


def test_the_metric_stands_until_validation_is_sure():
    assert verdict([0.03, -0.01], is_last=True).winner == 0
    assert verdict([0.03, 0.2], is_last=True).winner == 2
    assert "overruled by 'c': +0.2" in verdict([0.03, 0.2], is_last=True).reasons[0]
    assert "no other is surely better" in verdict([0.03], is_last=True).reasons[0]


def test_a_round_keeps_the_leader_and_the_best_validated_of_the_others():
    found = verdict([-0.02, 0.01, -0.01, 0.03], n_kept=3)
    assert (found.kept, found.winner) == ([0, 2, 4], None)
    assert set(found.reasons) == set(range(5))


def test_a_winner_that_is_clear_ends_the_race():
    found = verdict([-0.3, -0.2])
    assert (found.kept, found.winner) == ([0], 0)
    assert all("surely worse" in found.reasons[i] for i in (1, 2))
    # Not the other way round: short trainings may favour those that learn quickly.
    assert verdict([0.3, 0.01]).winner is None


def test_of_equally_validated_the_metric_prefers():
    assert verdict([0.2, 0.2], is_last=True).winner == 1
    assert verdict([-0.01, -0.01], n_kept=2).kept == [0, 1]


# -- budget ----------------------------------------------------------------------------------------


def test_costs_add_up_by_hand():
    budget = Budget(0.5, {0: 1.0, 3: 4.0}, 90, 10, [(60, 30), (60, 30)], 20, True)
    assert budget.whole == 5 * 90 * 10
    assert budget.spent == pytest.approx(5 * 90 / 3)  # a forward pass of all
    assert budget.cost(3, 2) == pytest.approx(4 * (2 * 120 + 60 / 3))
    assert budget.fewest_epochs == 6  # 16 steps, 3 in an epoch
    # Half of 4500 less 150, less judging 100, over 600 per epoch of both.
    assert budget.epochs([0, 3], 1, 0) == (2250 - 150 - 100) // 600
    assert budget.epochs([0], 1, 0) == 10  # more than enough, and no more than the template has
    assert budget.epochs([0], 1, 9) == 1
    assert budget.epochs([0, 3], 40, 0) == 0


@pytest.mark.parametrize("share", [0.02, 0.05, 0.15, 0.4, 1.0])
def test_whoever_may_start_can_be_paid_for(share):
    weights = {i: 1.0 + i % 3 for i in range(12)}
    budget = Budget(share, weights, 100, 40, [(75, 25)] * 4, 16, True)
    racing = list(range(6))
    n_start, n_rounds = budget.affordable(racing, 2)
    assert (n_start == 0) == (share <= 0.02)
    racing = racing[:n_start]
    done = 0
    for number in range(n_rounds):
        n_epochs = budget.epochs(racing, n_rounds - number, done)
        assert number or n_epochs >= budget.fewest_epochs
        budget.spent += sum(budget.cost(c, n_epochs) for c in racing)
        done += n_epochs
        racing = racing[: next_number(len(racing), 2)]
    assert budget.share_spent <= share
    assert done <= 40


def test_rounding_is_no_overspending():
    n_beyond = 0
    for n_epochs in range(1, 40):
        for weight in (0.1, 0.7, 1 / 3):
            # Paid for to the last digit: by hand, and then by sums in another order.
            share = (100 / 3 + n_epochs * 75 + 25 / 3) / 4000
            budget = Budget(share, {0: weight, 1: weight * 3}, 100, 40, [(75, 25)], 16, True)
            assert budget.epochs([0, 1], 1, 0) == n_epochs
            for c in (0, 1):
                budget.spent += budget.cost(c, n_epochs)
            n_beyond += budget.spent / budget.whole > share
            assert budget.share_spent <= share
    assert n_beyond  # so that there is something to be rounded


def test_passes_for_the_metrics_may_exceed_the_budget():
    budget = Budget(0.005, {0: 1.0, 1: 2.0}, 100, 40, [(75, 25)], 16, True)
    assert budget.affordable([0, 1], 2) == (0, 0)
    assert budget.share_spent == pytest.approx(1 / 120)


def test_heads_alone_pay_for_no_passes():
    budget = Budget(0.5, {0: 1.0}, 90, 10, [(60, 30)], 20, False)
    assert (budget.spent, budget.cost(0, 2)) == (0, 120)


@pytest.mark.parametrize(("n", "factor", "expected"), [(2, 2, 1), (3, 2, 2), (8, 2, 3), (9, 3, 3)])
def test_rounds(n, factor, expected):
    assert rounds_until_two(n, factor) == expected


def test_a_factor_next_to_one_still_drops_somebody():
    assert next_number(5, 1.01) == 4


# -- validation rows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "n_parts", "n_judged"), [(40, 4, 40), (200, 4, 200), (300, 3, 225), (1000, 1, 250)]
)
def test_few_rows_are_all_judged_by_and_many_are_held_out(n, n_parts, n_judged):
    codes = np.arange(n) % 5
    parts = validation_parts(None, codes, codes, 0)
    assert len(parts) == n_parts
    judged = np.concatenate([held for _, held in parts])
    assert len(judged) == len(np.unique(judged)) == n_judged
    for train, held in parts:
        assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(n))
        counts = np.bincount(codes[held], minlength=5)
        assert np.ptp(counts) <= 1


def test_a_class_of_one_row_is_trained_on_and_never_judged_by():
    codes = np.array([0] * 6 + [1, 2, 3])
    parts = validation_parts(None, codes, codes, 0)
    assert len(parts) == 4
    for train, held in parts:
        assert set(codes[held]) == {0}
        assert {1, 2, 3} <= set(codes[train])
    assert validation_parts(None, np.arange(3), np.arange(3), 0) == []
    assert len(validation_parts(None, np.arange(9.0), None, 0)) == 4  # values


MASK = np.arange(40) < 20


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "'cv' must have at least one split. Got none."),
        ([(MASK, ~MASK), ([0], [])], "Split 1 of 'cv' must have rows to judge by. Got none."),
        ([(range(30), range(20, 40))], "that it does not train on. Got 10 rows in both."),
        ([(MASK, MASK)], "Split 0 of 'cv' must judge by rows that it does not train on. Got 20 "),
        ([([0, 1], [7, 9, 7])], "Split 0 of 'cv' must have each row to judge by once. Got row 7 2"),
        ([([1, 1, 1], [7])], "Split 0 of 'cv' must have each row to train on once. Got row 1 3 t"),
        (
            [(range(39), [40])],
            "Split 0 of 'cv' must have rows from 0 to 39 to judge by. Got row 4",
        ),
        ([([-1], [3])], "Split 0 of 'cv' must have rows from 0 to 39 to train on. Got row -1."),
        ([(MASK, ~MASK[1:])], "of each of 40 rows whether it is one. Got bool of shape (39,)."),
        ([([0.0], [1])], "Split 0 of 'cv' must have numbers of rows to train on, or say of each"),
        ([([[0, 1], [2]], [3])], "Split 0 of 'cv' must have numbers of rows to train on"),
        ([0, 1], "Split 0 of 'cv' must be a pair of rows to train on and rows to judge by. Got an"),
        ([MASK], "must be a pair of rows to train on and rows to judge by."),
        (1, "'cv' must be a number of folds from 2 to the number of rows, 40. Got 1."),
        (41, "'cv' must be a number of folds from 2 to the number of rows, 40. Got 41."),
        (GroupKFold(2), "'cv' cannot split these 40 samples: The 'groups' parameter should"),
        (LeaveOneGroupOut(), "'cv' cannot split these 40 samples: The 'groups' parameter should"),
        (StratifiedGroupKFold(2), "'cv' cannot split these 40 samples: "),
        (StratifiedKFold(30), "'cv' cannot split these 40 samples: n_splits=30"),
    ],
)
def test_wrong_splits(cv, message):
    codes = np.arange(40) % 2
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        validation_parts(cv, codes, codes, 0)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("cv", [GroupKFold(3), LeaveOneGroupOut(), GroupShuffleSplit(2)], ids=repr)
def test_groups_are_not_torn(cv):
    codes, groups = np.arange(40) % 2, np.arange(40) // 8
    for train, held in validation_parts(cv, codes, codes, 0, split_params={"groups": groups}):
        assert not set(groups[train]) & set(groups[held])


def test_as_many_folds_as_rows():
    parts = validation_parts(6, np.arange(6.0), None, 0)
    assert sorted(held.tolist() for _, held in parts) == [[i] for i in range(6)]


# -- costs -----------------------------------------------------------------------------------------


def test_costs_of_dropped_candidates_are_no_mistake():
    check_costs({"a": 1, "b": 2.5}, ["a"], ["a", "b"])
    for name in ("zzz", 0):
        with pytest.raises(ValueError, match=f"'cost' must have numbers for the .* for {name!r}"):
            check_costs({"a": 1, name: 1}, ["a"], ["a", "b"])


# -- how metrics read the target -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FineTuneClassifier, FineTuneRegressor])
def test_metrics_read_the_target_as_the_template_does(kind):
    task = "regression" if kind is FineTuneRegressor else "classification"
    given = {"a": LogME(), "b": KNN(3), "c": LinearProbe(task="classification"), "d": Foreign()}
    before = {name: metric.get_params() for name, metric in given.items()}
    found = metrics_for(kind(None), given)
    tasks = [getattr(metric, "task", None) for metric in found.values()]
    assert tasks == [task, task, "classification", None]
    assert found["b"].n_neighbors == 3
    assert found["d"] is given["d"]
    assert before == {name: metric.get_params() for name, metric in given.items()}


@pytest.mark.parametrize("metric", ["hscore", ["logme", "hscore"], {"own": HScore()}])
def test_metrics_of_classes_are_refused_for_values(metric):
    message = "^HScore in 'metric' is defined for classification targets; got a regression target"
    with pytest.raises(ValueError, match=message):
        metrics_for(FineTuneRegressor(None), metric)
    assert metrics_for(FineTuneClassifier(None), metric)


# -- the measure on resamples ----------------------------------------------------------------------


def test_resamples_leave_the_warnings_of_a_process_alone():
    y = np.array(["a", "b", "c"])[np.arange(30) % 3]
    measured = _Measured(("f", get_scorer("precision_macro")), y, np.unique(y), "Any")
    outputs = np.tile([0.8, 0.1, 0.1], (30, 1))  # so that two precisions are undefined
    filters, shown = list(warnings.filters), warnings.showwarning
    values, begin = [], threading.Barrier(4)

    def resample():
        begin.wait()
        values.extend(measured(outputs, np.arange(30)) for _ in range(20))

    threads = [threading.Thread(target=resample) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [pytest.approx(1 / 9)] * 80
    assert warnings.filters == filters and warnings.showwarning is shown
