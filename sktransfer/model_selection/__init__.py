"""Choosing among pretrained candidates, and among metrics to choose by."""

from ._halving import HalvingTransferabilitySelector
from ._metric_search import MetricSearchCV
from ._scorer import make_transferability_scorer
from ._selector import TransferabilitySelector
from ._study import RobustnessStudy
from ._subsets import NestedStratifiedSubsets

__all__ = [
    "HalvingTransferabilitySelector",
    "MetricSearchCV",
    "NestedStratifiedSubsets",
    "RobustnessStudy",
    "TransferabilitySelector",
    "make_transferability_scorer",
]
