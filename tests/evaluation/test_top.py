"""What a choice is worth under many orders of the reference, against one order at a time."""

import numpy as np
import pytest

from sktransfer.evaluation import relative_top_k, selection_regret, top_k_recall
from sktransfer.evaluation._top import choice_of_permutations

ONE_BY_ONE = {
    "top_k": top_k_recall,
    "regret": selection_regret,
    "relative_top_k": relative_top_k,
}
RNG = np.random.default_rng(0)
CASES = {
    "apart": (RNG.normal(size=9), RNG.uniform(0.5, 1, size=9)),
    "tied scores": (np.array([1.0, 2, 2, 2, 0, 0, 3, 2, 1]), RNG.uniform(0.5, 1, size=9)),
    "tied reference": (RNG.normal(size=9), np.array([0.9, 0.9, 0.8, 0.7, 0.7, 0.7, 0.9, 0.2, 0.1])),
    "tied both": (np.array([1.0, 1, 1, 1, 0, 0, 0, 0, 0]), np.round(RNG.uniform(0.5, 1, 9), 1)),
    "no score": (np.array([np.nan, 1, 2, np.nan, 2, 5, 1, -np.inf, 0]), RNG.uniform(1, 2, 9)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("choice", ONE_BY_ONE)
@pytest.mark.parametrize("is_loss", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_orders_at_once_and_one_by_one(choice, case, k, is_loss):
    score, value = CASES[case]
    orders = np.random.default_rng(k).permuted(np.tile(np.arange(9), (25, 1)), axis=1)
    signed = -value if is_loss else value
    found = choice_of_permutations(choice, score, signed, k, orders)
    expected = [
        ONE_BY_ONE[choice](score, value[order], k, greater_is_better=not is_loss)
        for order in orders
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)
