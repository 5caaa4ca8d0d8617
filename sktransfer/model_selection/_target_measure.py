"""Which metric suits the measure that a user will be judged by."""

from sklearn.base import clone

from ..exceptions import TargetMeasureWarning
from ..metrics import LinearProbe, LogME, get_metric
from ..utils._target import find_task
from ._metric_collection import deciders

__all__ = [
    "AUTO",
    "TARGET_MEASURES",
    "MeasuredMetrics",
    "metrics_for_measure",
    "require_classes",
]

# The value of the parameter `metric` that leaves the choice to the measure.
AUTO = "auto"

_PLAIN, _BALANCED, _AUROC = "plain", "balanced", "auroc"

# What a measure asks of a metric. Names as in scikit-learn's scorers.
TARGET_MEASURES = {
    "accuracy": _PLAIN,
    "balanced_accuracy": _BALANCED,
    "neg_log_loss": _PLAIN,
    "roc_auc": _AUROC,
    "roc_auc_ovr": _AUROC,
}

# The metric that "auto" stands for.
_CHOSEN = {
    None: LogME(),
    _PLAIN: LogME(),
    _BALANCED: LinearProbe(class_weight="balanced"),
    _AUROC: LinearProbe(scoring="roc_auc_ovr"),
}


def metrics_for_measure(metric, target_measure):
    """Resolve "auto", and read names of metrics as the variants for a measure.

    Parameters
    ----------
    metric : str, metric, list, tuple or dict of these
        The parameter of the selector. Instances are returned as they are.
    target_measure : str or None
        The parameter of the selector.

    Returns
    -------
    metric : metric, list or dict
        The same without names where there is a measure, without "auto" in any case.
    """
    wanted = TARGET_MEASURES.get(target_measure)
    if isinstance(metric, str) and metric.lower() == AUTO:
        return clone(_CHOSEN[wanted])
    if wanted is None:
        return metric
    if isinstance(metric, list | tuple):
        return type(metric)(_variant(entry, wanted) for entry in metric)
    if isinstance(metric, dict):
        return {name: _variant(entry, wanted) for name, entry in metric.items()}
    return _variant(metric, wanted)


def _variant(metric, wanted):
    """Return the variant of a metric given by name; an instance is what the user wants."""
    if not isinstance(metric, str):
        return metric
    metric = get_metric(metric)
    parameters = metric.get_params(deep=False)
    if wanted == _BALANCED and "class_weight" in parameters:
        return metric.set_params(class_weight="balanced")
    if wanted == _AUROC and "scoring" in parameters:
        return metric.set_params(scoring="roc_auc_ovr")
    return metric


def _suits(metric, wanted):
    """Tell whether a metric is of the kind that a measure asks for."""
    parameters = metric.get_params(deep=False)
    scoring, class_weight = parameters.get("scoring", "accuracy"), parameters.get("class_weight")
    if wanted == _AUROC:
        return scoring == "roc_auc_ovr"
    if wanted == _BALANCED:
        return scoring == "balanced_accuracy" or class_weight is not None
    return scoring == "accuracy"


def require_classes(target_measure, y):
    """Refuse a target that the measure is not defined for.

    Parameters
    ----------
    target_measure : str or None
        The measure.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.

    Raises
    ------
    ValueError
        If there is a measure, and no class labels.
    """
    if target_measure is not None:
        find_task(y, tasks=("classification",), name=f"target_measure={target_measure!r}")


class MeasuredMetrics:
    """What an estimator with the parameters ``metric`` and ``target_measure`` reads them as."""

    def _given_metrics(self):
        return metrics_for_measure(self.metric, self.target_measure)

    def set_params(self, **params):
        """Set parameters of the estimator itself, of candidates and of metrics.

        Parameters
        ----------
        **params : dict
            For example ``n_jobs=2``, ``resnet="drop"``, ``pca__n_components=8``,
            ``metric__tol=1e-3`` or, with several metrics, ``metric__logme__tol=1e-3``. With
            ``metric="auto"`` they are those of the metric that it stands for.

        Returns
        -------
        self : object
            The estimator itself.
        """
        if any(key.startswith("metric__") for key in params):
            metric = params.get("metric", self.metric)
            if isinstance(metric, str) and metric.lower() == AUTO:
                measure = params.get("target_measure", self.target_measure)
                params["metric"] = metrics_for_measure(metric, measure)
        return super().set_params(**params)

    def _unsuited_warnings(self, deciding, metrics):
        """Say whether the deciding metric is of another kind than the measure asks for.

        Parameters
        ----------
        deciding : str
            Its name, or another one for a consensus of all.
        metrics : dict of str to metric
            All metrics.

        Returns
        -------
        warnings : list of (str, category)
            One or none.
        """
        wanted = TARGET_MEASURES.get(self.target_measure)
        given = deciders(metrics, deciding)
        if wanted is None or any(_suits(metric, wanted) for metric in given):
            return []
        names = ", ".join(map(repr, given))
        return [
            (
                f"The ranking is by {names}, with no regard to "
                f"target_measure={self.target_measure!r}: the metric has no variant for it, or was "
                "given as an instance, which is taken as it is. metric='auto' chooses one.",
                TargetMeasureWarning,
            )
        ]
