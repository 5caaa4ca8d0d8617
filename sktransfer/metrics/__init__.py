"""Transferability-estimation metrics as estimators; numpy and scipy only."""

from ._base import TransferabilityMetric
from ._etran import ETran
from ._gbc import GBC
from ._hscore import HScore
from ._inputs import MetricInputs, named_metrics, score_metrics
from ._knn import KNN
from ._leep import LEEP, NCE
from ._linear_probe import LinearProbe
from ._logme import LogME
from ._lp import LP
from ._moments import FeatureMoments
from ._ncti import NCTI
from ._nleep import NLEEP
from ._otce import OTCE
from ._pactran import PACTran
from ._parc import PARC
from ._pas import PAS
from ._registry import get_metric, metric_name, metric_names
from ._sfda import SFDA
from ._transrate import TransRate

__all__ = [
    "GBC",
    "KNN",
    "LEEP",
    "LP",
    "NCE",
    "NCTI",
    "NLEEP",
    "OTCE",
    "PARC",
    "PAS",
    "SFDA",
    "ETran",
    "FeatureMoments",
    "HScore",
    "LinearProbe",
    "LogME",
    "MetricInputs",
    "PACTran",
    "TransRate",
    "TransferabilityMetric",
    "get_metric",
    "metric_name",
    "metric_names",
    "named_metrics",
    "score_metrics",
]
