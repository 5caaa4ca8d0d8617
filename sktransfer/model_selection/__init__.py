"""Choosing among pretrained candidates: the selector, and scorers for scikit-learn's searches."""

from ._scorer import make_transferability_scorer
from ._selector import TransferabilitySelector
from ._study import RobustnessStudy
from ._subsets import NestedStratifiedSubsets

__all__ = [
    "NestedStratifiedSubsets",
    "RobustnessStudy",
    "TransferabilitySelector",
    "make_transferability_scorer",
]
