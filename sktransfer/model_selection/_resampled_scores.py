"""Scores of one candidate on resamples that are the same for all candidates."""

import copy
from dataclasses import dataclass

import numpy as np

from ._metric_collection import is_relative_to_pool
from ._prepared_metric import PreparedMetric
from ._results import reason_of

__all__ = ["ResampledScores", "resample_scores"]

# Arrays of a fitted metric that are at most this large are kept for the combination over a pool.
_SMALL = 2**12


@dataclass
class ResampledScores:
    """Scores of one candidate by one metric in one split, on all resamples.

    Parameters
    ----------
    values : ndarray of float64 of shape (n_resamples,)
        The scores, NaN where there is none.
    fitted : list of fitted metrics or None, of length n_resamples
        For a metric whose scores are combined over the candidates what it needs for that;
        otherwise empty.
    reason : str or None
        Why there is no score, in the first of the resamples without one.
    """

    values: np.ndarray
    fitted: list
    reason: str | None = None

    @classmethod
    def empty(cls, metric, resamples):
        """Make room for the scores of all resamples."""
        n_kept = resamples.n_resamples if is_relative_to_pool(metric) else 0
        return cls(np.full(resamples.n_resamples, np.nan), [None] * n_kept)

    def score(self, number, prepared, rows, weight, shared):
        """Score one resample; an error is no score, and its reason is kept."""
        try:
            score, fitted = prepared.score(rows, weight, shared)
        except Exception as error:
            self.reason = self.reason or reason_of(error)
            return
        self.values[number] = score
        if np.isnan(score):
            self.reason = self.reason or "The score is NaN."
        elif self.fitted:
            self.fitted[number] = _without_large_parts(fitted)


def resample_scores(task, resamples, metrics):
    """Score one candidate on all resamples, by the metrics that can be resampled.

    Parameters
    ----------
    task : ScoringTask
        The candidate and the rows.
    resamples : Resamples
        The resamples.
    metrics : dict of str to metric
        The metrics to score by.

    Returns
    -------
    resampled : dict of str to ResampledScores
        By metric.
    """
    metrics = {name: metric for name, metric in metrics.items() if name in resamples.schemes}
    if not metrics:
        return {}

    def select(array):
        return array if array is None or task.rows is None else array[task.rows]

    y = select(task.y)
    inputs = {
        "features": select(task.features),
        "probabilities": select(task.probabilities),
        "source_centroids": task.source_centroids,
    }
    resampled = {name: ResampledScores.empty(metric, resamples) for name, metric in metrics.items()}
    prepared = {name: PreparedMetric(metric, y, **inputs) for name, metric in metrics.items()}
    own_weights = {name: select(task.sample_weights.get(name)) for name in metrics}
    schemes = {name: resamples.schemes[name] for name in metrics}
    for number in range(resamples.n_resamples):
        drawn, shared = {}, {}
        for scheme in set(schemes.values()):
            if scheme == "dirichlet":
                weight = resamples.weights(number)
                drawn[scheme] = None, weight if task.sampled is None else weight[task.sampled]
            else:
                drawn[scheme] = resamples.part(number, scheme, task.sampled), None
        for name, scheme in schemes.items():
            rows, weight = drawn[scheme]
            own = own_weights[name]
            if own is not None:
                weight = own if weight is None else weight * own
            moments = shared.setdefault((scheme, id(own)), {})
            resampled[name].score(number, prepared[name], rows, weight, moments)
    return resampled


def _without_large_parts(fitted):
    light = copy.copy(fitted)
    for name, value in list(vars(light).items()):
        is_small = getattr(value, "nbytes", 0) <= _SMALL
        if name.endswith("_") and not (isinstance(value, _PLAIN) and is_small):
            delattr(light, name)
    return light


_PLAIN = (bool, int, float, str, dict, tuple, np.ndarray, np.generic, type(None))
