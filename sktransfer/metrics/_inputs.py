"""Several metrics on one candidate, sharing what can be shared."""

from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..utils._sklearn import _check_feature_names
from ._base import MomentMetric, RowMetric
from ._registry import find_metric, get_metric, metric_name


class MetricInputs:
    """What is known of one candidate on one target, ready for any number of metrics.

    Metrics that live on moments share one :class:`FeatureMoments` and so one decomposition.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The target.
    features : array-like of shape (n_samples, n_features), default=None
        Frozen features of the candidate.
    probabilities : array-like of shape (n_samples, n_source_classes), default=None
        Source-class probabilities, for candidates with a source head.
    sample_weight : array-like of shape (n_samples,), default=None
        Relative weights.
    source_centroids : array-like of shape (n_source_classes, n_features), default=None
        Mean features of the source classes, for metrics that compare with the source and were not
        given one themselves.
    inputs : array or sequence of shape (n_samples, ...), default=None
        Raw inputs of the candidate, for metrics that look into its network.
    backbone : fitted transformer, default=None
        The candidate itself, for the same metrics: it becomes their parameter ``backbone``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import MetricInputs
    >>> F, y = load_iris(return_X_y=True)
    >>> inputs = MetricInputs(y, features=F)
    >>> round(inputs.fit("logme").score_, 2)
    -0.16
    """

    def __init__(
        self,
        y,
        features=None,
        probabilities=None,
        sample_weight=None,
        *,
        source_centroids=None,
        inputs=None,
        backbone=None,
    ):
        self.y = y
        self.features = features
        self.probabilities = probabilities
        self.sample_weight = sample_weight
        self.source_centroids = source_centroids
        self.inputs = inputs
        self.backbone = backbone
        self._moments = {}

    def fit(self, metric):
        """Fit a copy of a metric on the inputs it needs.

        Parameters
        ----------
        metric : str or TransferabilityMetric
            A name or an instance; an instance is cloned.

        Returns
        -------
        metric : TransferabilityMetric
            The fitted metric.

        Raises
        ------
        ValueError
            If the candidate does not have what the metric needs.
        """
        metric = clone(get_metric(metric))
        self.require(metric)
        if metric.needs == "features":
            self._give_source(metric)
            if getattr(metric, "lives_on_moments", False):
                moments = self._shared_moments(metric)
                if isinstance(metric, MomentMetric):
                    with metric._knowing(self._weighted_rows(metric)):
                        metric.fit_moments(moments)
                else:
                    metric.fit_moments(moments)
                _check_feature_names(metric, self.features, reset=True)
                return metric
            if isinstance(metric, RowMetric):
                return self._fit_rows(metric)
            return self._fit_plain(metric, self.features)
        if metric.needs in ("probabilities", "labels"):
            return self._fit_plain(metric, self.probabilities)
        return self._fit_plain(metric.set_params(backbone=self.backbone), self.inputs)

    def require(self, metric):
        """Check that a metric has what it needs, before any work.

        Parameters
        ----------
        metric : TransferabilityMetric
            The metric.

        Raises
        ------
        ValueError
            If the candidate does not have what the metric needs, or the metric takes no weights.
        """
        name = type(metric).__name__
        if metric.needs == "features":
            if self.features is None:
                raise ValueError(f"{name} needs features, and none were given.")
        elif metric.needs in ("probabilities", "labels"):
            if self.probabilities is None:
                raise ValueError(
                    f"{name} needs source probabilities, and none were given "
                    "(the candidate has no source head)."
                )
        elif self.inputs is None or self.backbone is None:
            raise ValueError(
                f"{name} needs the raw inputs and the network itself, and "
                f"{'no inputs were' if self.inputs is None else 'no backbone was'} given."
            )
        if self.sample_weight is not None and not has_fit_parameter(metric, "sample_weight"):
            raise ValueError(f"{name} has no definition for sample_weight.")

    def _give_source(self, metric):
        """Tell a metric that compares with the source about it, if nobody did."""
        parameters = metric.get_params(deep=False)
        source = [value for name, value in parameters.items() if name.startswith("source_")]
        untold = "source_centroids" in parameters and all(value is None for value in source)
        if untold and self.source_centroids is not None:
            metric.set_params(source_centroids=self.source_centroids)

    def _fit_plain(self, metric, X):
        if self.sample_weight is None:
            return metric.fit(X, self.y)
        return metric.fit(X, self.y, sample_weight=self.sample_weight)

    def _fit_rows(self, metric):
        """Fit a metric on the rows, with the moments that other metrics may have gathered."""
        metric._validate_params()
        X, target, weight = metric._validate(self.features, self.y, self.sample_weight)
        metric._require_enough(target)
        metric._fit_rows(X, target, weight, lambda: self._shared_moments(metric))
        return metric

    def _weighted_rows(self, metric):
        """Return rows, target and weights, if there are any weights."""
        if self.sample_weight is None and getattr(metric, "class_weight", None) is None:
            return None
        rows = metric._validate(self.features, self.y, self.sample_weight)
        return None if rows[2] is None else rows

    def _shared_moments(self, metric):
        """Gather the moments once for each reading of the target and weighting of its classes."""
        class_weight = getattr(metric, "class_weight", None)
        if isinstance(class_weight, dict):
            class_weight = tuple(class_weight.items())
        key = (getattr(metric, "task", "auto"), class_weight)
        if key not in self._moments:
            self._moments[key] = metric._gather_moments(self.features, self.y, self.sample_weight)
        return self._moments[key]


def score_metrics(
    features,
    y,
    metrics,
    *,
    probabilities=None,
    sample_weight=None,
    source_centroids=None,
    inputs=None,
    backbone=None,
):
    """Score one candidate by several metrics on the same features.

    Parameters
    ----------
    features : array-like of shape (n_samples, n_features)
        Frozen features.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The target.
    metrics : str, TransferabilityMetric, list of these, or dict of name to these
        What to compute. Metrics of a list are named by :func:`metric_name`.
    probabilities : array-like of shape (n_samples, n_source_classes), default=None
        Source-class probabilities, for metrics that need them.
    sample_weight : array-like of shape (n_samples,), default=None
        Relative weights.
    source_centroids : array-like of shape (n_source_classes, n_features), default=None
        Mean features of the source classes, for metrics that compare with the source.
    inputs : array or sequence of shape (n_samples, ...), default=None
        Raw inputs of the candidate, for metrics that look into its network.
    backbone : fitted transformer, default=None
        The candidate itself, for the same metrics.

    Returns
    -------
    scores : dict of str to float
        One score per metric, in the order given.

    Raises
    ------
    ValueError
        If something that one of the metrics needs was not given; nothing is scored then.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import score_metrics
    >>> F, y = load_iris(return_X_y=True)
    >>> {name: round(score, 2) for name, score in score_metrics(F, y, ["logme", "hscore"]).items()}
    {'logme': -0.16, 'hscore': 1.19}
    """
    known = MetricInputs(
        y,
        features,
        probabilities,
        sample_weight,
        source_centroids=source_centroids,
        inputs=inputs,
        backbone=backbone,
    )
    metrics = named_metrics(metrics)
    for metric in metrics.values():
        known.require(metric)
    return {name: known.fit(metric).score_ for name, metric in metrics.items()}


def named_metrics(metrics, argument="metrics"):
    """Bring one or several metrics into a dict of name to instance, in the order given.

    Parameters
    ----------
    metrics : str, TransferabilityMetric, list of these, or dict of name to these
        The metrics.
    argument : str, default="metrics"
        What the parameter is called in messages.

    Returns
    -------
    metrics : dict of str to TransferabilityMetric
        Instances by name.

    Raises
    ------
    ValueError
        If there is none, or two have the same name.

    Examples
    --------
    >>> from sktransfer.metrics import HScore, named_metrics
    >>> named_metrics(["logme", HScore(shrinkage=0.1)])
    {'logme': LogME(), 'hscore': HScore(shrinkage=0.1)}
    """
    if isinstance(metrics, dict):
        named = {name: find_metric(metric, argument) for name, metric in metrics.items()}
    else:
        several = metrics if isinstance(metrics, list | tuple) else [metrics]
        instances = [find_metric(metric, argument) for metric in several]
        names = [metric_name(metric) for metric in instances]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"{argument} has {repeated} more than once; name them by a dict, such as "
                f"{{'{repeated[0]}': ..., '{repeated[0]}_2': ...}}."
            )
        named = dict(zip(names, instances, strict=True))
    if not named:
        raise ValueError(f"{argument} must name at least one metric; got none.")
    return named
