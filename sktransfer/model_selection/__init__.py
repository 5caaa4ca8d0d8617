"""Choosing among pretrained candidates: the selector, and scorers for scikit-learn's searches."""

from ._scorer import make_transferability_scorer
from ._selector import TransferabilitySelector

__all__ = ["TransferabilitySelector", "make_transferability_scorer"]
