"""A metric that checks the rows of a candidate once and then scores many selections of them."""

import copy

from sklearn.base import clone

from ..metrics import LogME, MetricInputs, TransferabilityMetric
from ..metrics._base import MomentMetric, RowMetric, WeightedMetric
from ..metrics._moments import FeatureMoments
from ..metrics._quick_evidence import quick_score
from ..utils._weights import check_weights

__all__ = ["PreparedMetric"]

# Methods that check and then hand on to _fit: what they check holds for selections of rows too.
_PLAIN_FITS = (TransferabilityMetric.fit, WeightedMetric.fit)


class PreparedMetric:
    """A metric with what one candidate gave it.

    Parameters
    ----------
    metric : metric instance
        The metric.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.
    **inputs : dict
        Parameters of :class:`~sktransfer.metrics.MetricInputs`.

    Raises
    ------
    ValueError
        If the metric can't be fitted to these rows.
    """

    def __init__(self, metric, y, **inputs):
        self.metric = _without_chance(metric)
        self._y, self._inputs = y, inputs
        self._checked = None
        if type(metric).fit not in _PLAIN_FITS:
            return  # it does as it likes
        prototype = clone(self.metric)
        known = MetricInputs(y, **inputs)
        known.require(prototype)
        if prototype.needs == "features":
            known._give_source(prototype)
        # Weights of the classes depend on those of the rows, and so on the resample.
        self._class_weight = getattr(prototype, "class_weight", None)
        if self._class_weight is not None:
            prototype.class_weight = None
        X = inputs["features" if prototype.needs == "features" else "probabilities"]
        X, target, _ = prototype._validate(X, y, None)
        self._checked = prototype, X, target

    def score(self, rows, weight, shared):
        """Fit a copy to some of the rows.

        Parameters
        ----------
        rows : ndarray of int or None
            The rows; all if None.
        weight : ndarray of shape (n_samples,) or None
            Weights of all rows, of those that don't count too.
        shared : dict
            Moments that metrics with the same rows and weights gathered, and others may use.

        Returns
        -------
        score : float
            The score.
        fitted : metric or None
            The fitted metric, where it is more than a score.
        """
        if self._checked is None:
            fitted = self._fit_afresh(rows, weight)
            return fitted.score_, fitted
        prototype, X, target = self._checked
        if rows is not None:
            X, target = X[rows], target.take(rows)
            weight = None if weight is None else weight[rows]
        X, target, weight = self._weighted(X, target, weight)
        metric = copy.copy(prototype)
        metric._require_enough(target)

        def moments():
            key = (target.task, _hashable(self._class_weight))
            if key not in shared:
                shared[key] = FeatureMoments.from_arrays(X, target, weight, copy=False)
            return shared[key]

        if type(metric) is LogME:
            return quick_score(metric, moments()), None
        if isinstance(metric, MomentMetric) and metric.lives_on_moments:
            metric._adopt(moments())
            metric._score_moments()
        elif isinstance(metric, RowMetric):
            metric._fit_rows(X, target, weight, moments)
        else:
            metric._fit(X, target, weight)
        return metric.score_, metric

    def _weighted(self, X, target, weight):
        if self._class_weight is None:
            return check_weights(weight, X, target)
        return check_weights(
            weight, X, target, class_weight=self._class_weight, name=type(self.metric).__name__
        )

    def _fit_afresh(self, rows, weight):
        def select(array):
            return array if rows is None or array is None else array[rows]

        chosen = {
            name: value if name == "source_centroids" else select(value)
            for name, value in self._inputs.items()
        }
        known = MetricInputs(select(self._y), sample_weight=select(weight), **chosen)
        return known.fit(self.metric)


def _hashable(class_weight):
    return tuple(class_weight.items()) if isinstance(class_weight, dict) else class_weight


def _without_chance(metric):
    """Spare the scores of permuted labels, which only tell what chance gives."""
    own = type(metric).__module__.partition(".")[0] == __name__.partition(".")[0]
    if own and "n_permutations" in metric.get_params(deep=False):
        return clone(metric).set_params(n_permutations=0)
    return metric
