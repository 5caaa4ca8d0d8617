"""Comparing score tables: ranks, rank correlation, what a choice is worth, and stability."""

from ._choice import ChoiceScore, relative_top_k, selection_regret, top_k_recall
from ._correlation import CorrelationResult, rank_correlation
from ._rank import competition_ranks
from ._stability import StabilityResult, stability_inter, stability_intra, stability_ref
from ._uncertainty import SelectionUncertainty, selection_uncertainty

__all__ = [
    "ChoiceScore",
    "CorrelationResult",
    "SelectionUncertainty",
    "StabilityResult",
    "competition_ranks",
    "rank_correlation",
    "relative_top_k",
    "selection_regret",
    "selection_uncertainty",
    "stability_inter",
    "stability_intra",
    "stability_ref",
    "top_k_recall",
]
