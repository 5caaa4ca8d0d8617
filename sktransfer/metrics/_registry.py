"""Metrics by name."""

from importlib import import_module

from ._base import TransferabilityMetric
from ._etran import ETran
from ._gbc import GBC
from ._hscore import HScore
from ._knn import KNN
from ._leep import LEEP, NCE
from ._linear_probe import LinearProbe
from ._logme import LogME
from ._lp import LP
from ._ncti import NCTI
from ._nleep import NLEEP
from ._otce import OTCE
from ._pactran import PACTran
from ._parc import PARC
from ._pas import PAS
from ._sfda import SFDA
from ._transrate import TransRate

_METRICS = {
    metric.__name__.lower(): metric
    for metric in (
        ETran,
        GBC,
        HScore,
        KNN,
        LEEP,
        LP,
        LinearProbe,
        LogME,
        NCE,
        NCTI,
        NLEEP,
        OTCE,
        PACTran,
        PARC,
        PAS,
        SFDA,
        TransRate,
    )
}

# Metrics that look into the network live where torch is at home, and are imported when asked for.
_METRICS_ELSEWHERE = {"fu": ("sktransfer.finetune", "FU"), "lpfu": ("sktransfer.finetune", "LPFU")}


def metric_names():
    """List the names that :func:`get_metric` knows.

    Returns
    -------
    names : list of str
        Sorted names.

    Examples
    --------
    >>> from sktransfer.metrics import metric_names
    >>> metric_names()
    ['etran', 'fu', 'gbc', 'hscore', 'knn', 'leep', 'linearprobe', 'logme', 'lp', 'lpfu', ...]
    """
    return sorted([*_METRICS, *_METRICS_ELSEWHERE])


def get_metric(metric):
    """Return a metric given its name or the metric itself.

    Parameters
    ----------
    metric : str or TransferabilityMetric
        A name from :func:`metric_names` (upper or lower case), or an instance.

    Returns
    -------
    metric : TransferabilityMetric
        A new metric with default parameters for a name, the same object for an instance.

    Raises
    ------
    ValueError
        If no metric has this name.
    TypeError
        If it is neither a name nor an instance of a metric.
    ImportError
        If the metric needs torch ("fu", "lpfu") and it is not installed.

    Examples
    --------
    >>> from sktransfer.metrics import get_metric
    >>> get_metric("logme")
    LogME()
    """
    return find_metric(metric, "metric")


def find_metric(metric, argument):
    """Do what :func:`get_metric` does, for a parameter of another name.

    Parameters
    ----------
    metric : str or TransferabilityMetric
        A name or an instance.
    argument : str
        What the parameter is called in messages.

    Returns
    -------
    metric : TransferabilityMetric
        An instance.
    """
    if isinstance(metric, str):
        name = metric.lower()
        if name in _METRICS_ELSEWHERE:
            module, attribute = _METRICS_ELSEWHERE[name]
            return getattr(import_module(module), attribute)()
        try:
            return _METRICS[name]()
        except KeyError:
            raise ValueError(
                f"{argument} must be one of {', '.join(metric_names())}; got {metric!r}."
            ) from None
    if isinstance(metric, type):
        raise TypeError(
            f"{argument} must be a name or an instance; got the class {metric.__name__}, "
            f"write {metric.__name__}()."
        )
    if not isinstance(metric, TransferabilityMetric) and not (
        hasattr(metric, "fit") and hasattr(metric, "needs")
    ):
        raise TypeError(
            f"{argument} must be a name or a transferability metric (an estimator with 'fit' and "
            f"'needs'); got {metric!r}."
        )
    return metric


def metric_name(metric):
    """Return the name of a metric: its registry name, or its class name in lower case.

    Parameters
    ----------
    metric : TransferabilityMetric
        A metric.

    Returns
    -------
    name : str
        The name.

    Examples
    --------
    >>> from sktransfer.metrics import HScore, metric_name
    >>> metric_name(HScore())
    'hscore'
    """
    return type(metric).__name__.lower()
