"""Choosing among pretrained candidates, and among metrics to choose by."""

from ._metric_search import MetricSearchCV
from ._scorer import make_transferability_scorer
from ._selector import TransferabilitySelector

__all__ = ["MetricSearchCV", "TransferabilitySelector", "make_transferability_scorer"]
