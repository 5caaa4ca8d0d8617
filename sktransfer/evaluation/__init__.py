"""Comparing and combining score tables: ranks, correlation, consensus, choices, stability."""

from ._choice import ChoiceScore, relative_top_k, selection_regret, top_k_recall
from ._consensus import ConsensusResult, LeftOutMetric, consensus
from ._correlation import CorrelationResult, rank_correlation
from ._decision import calibrate_decision_set
from ._decision_set import DecisionCalibration, DecisionSet
from ._rank import competition_ranks
from ._stability import StabilityResult, stability_inter, stability_intra, stability_ref
from ._uncertainty import SelectionUncertainty, selection_uncertainty

__all__ = [
    "ChoiceScore",
    "ConsensusResult",
    "CorrelationResult",
    "DecisionCalibration",
    "DecisionSet",
    "LeftOutMetric",
    "SelectionUncertainty",
    "StabilityResult",
    "calibrate_decision_set",
    "competition_ranks",
    "consensus",
    "rank_correlation",
    "relative_top_k",
    "selection_regret",
    "selection_uncertainty",
    "stability_inter",
    "stability_intra",
    "stability_ref",
    "top_k_recall",
]
