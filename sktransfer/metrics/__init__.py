"""Transferability-estimation metrics as estimators; numpy and scipy only."""

from ._base import TransferabilityMetric
from ._hscore import HScore
from ._inputs import MetricInputs, named_metrics, score_metrics
from ._leep import LEEP, NCE
from ._logme import LogME
from ._moments import FeatureMoments
from ._registry import get_metric, metric_name, metric_names

__all__ = [
    "LEEP",
    "NCE",
    "FeatureMoments",
    "HScore",
    "LogME",
    "MetricInputs",
    "TransferabilityMetric",
    "get_metric",
    "metric_name",
    "metric_names",
    "named_metrics",
    "score_metrics",
]
