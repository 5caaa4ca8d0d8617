"""Comparing score tables: ranks, rank correlation, what a choice is worth, and stability."""

from ._choice import ChoiceScore, relative_top_k, selection_regret, top_k_recall
from ._correlation import CorrelationResult, rank_correlation
from ._rank import competition_ranks
from ._stability import StabilityResult, stability_inter, stability_intra, stability_ref

__all__ = [
    "ChoiceScore",
    "CorrelationResult",
    "StabilityResult",
    "competition_ranks",
    "rank_correlation",
    "relative_top_k",
    "selection_regret",
    "stability_inter",
    "stability_intra",
    "stability_ref",
    "top_k_recall",
]
