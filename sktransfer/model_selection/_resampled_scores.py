"""Scores of one candidate on resamples that are the same for all candidates."""

import copy
import hashlib
import math
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from ..evaluation._uncertainty import fewest_resamples
from ._metric_collection import is_relative_to_pool, needs_network
from ._prepared_metric import PreparedMetric
from ._results import reason_of
from ._shared_rows import comparable_rows

__all__ = [
    "SCHEMES",
    "ResampledScores",
    "Resamples",
    "plan_resamples",
    "resample_scores",
    "scheme_of",
]

SCHEMES = ("dirichlet", "half")

# What would leave too few rows of a class to say anything about it.
_FEWEST_OF_A_CLASS = 2

# Arrays of a fitted metric that are at most this large are kept for the combination over a pool.
_SMALL = 2**12


@dataclass(frozen=True)
class Resamples:
    """Resamples of the rows of one sample, drawn when they are needed.

    Parameters
    ----------
    n_resamples : int
        Their number.
    seed : int
        Of the draws.
    positions : ndarray of intp of shape (n_samples,)
        The place of each row in an order that only the content of the rows decides.
    schemes : dict of str to str
        For each metric one of `SCHEMES`.
    """

    n_resamples: int
    seed: int
    positions: np.ndarray
    schemes: dict

    def scale(self, scheme):
        """Tell what brings the scatter of resamples to that of fresh samples.

        Parameters
        ----------
        scheme : str
            One of `SCHEMES`.

        Returns
        -------
        scale : float
            A factor near 1, exact for means.
        """
        n = len(self.positions)
        if scheme == "dirichlet":
            return math.sqrt((n + 1) / (n - 1))
        return math.sqrt((n // 2) / (n - n // 2))

    def weights(self, number):
        """Draw weights from a flat Dirichlet distribution: the Bayesian bootstrap.

        Parameters
        ----------
        number : int
            Which resample.

        Returns
        -------
        weights : ndarray of float64 of shape (n_samples,)
            Positive weights that sum to the number of rows.
        """
        drawn = self._generator(number, 0).standard_exponential(len(self.positions))
        return (drawn * (len(drawn) / drawn.sum()))[self.positions]

    def half(self, number, y, rows=None):
        """Draw half of the rows without replacement, half of each class.

        Parameters
        ----------
        number : int
            Which resample.
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Labels or values of the rows.
        rows : ndarray of int of shape (n_rows,), default=None
            The rows to draw from; all if None.

        Returns
        -------
        half : ndarray of intp
            Positions among `rows`, ascending.
        """
        order, spare = self._generator(number, 1).random((2, len(self.positions)))
        places = self.positions if rows is None else self.positions[rows]
        order, spare = order[places], spare[places]
        codes = np.zeros(len(y), dtype=np.intp)
        if _holds_classes(y):
            codes = np.unique(y, return_inverse=True)[1].reshape(-1)
        by_class = np.lexsort((order, codes))
        first = np.searchsorted(codes[by_class], codes[by_class], side="left")
        within = np.arange(len(y)) - first
        size = np.bincount(codes)[codes[by_class]]
        certain = np.maximum(size // 2, np.minimum(size, _FEWEST_OF_A_CLASS))
        taken = by_class[within < certain]
        # One row is left over of each class of an odd size: half of these are drawn too.
        odd = by_class[(within == certain) & (size % 2 == 1) & (size > 2 * certain)]
        odd = odd[np.argsort(spare[odd], kind="stable")][: (len(odd) + number % 2) // 2]
        return np.sort(np.concatenate([taken, odd]))

    def _generator(self, number, kind):
        return np.random.default_rng([self.seed, kind, number])


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


def _holds_classes(y):
    """Tell labels from values; several labels per row make no strata."""
    return y.ndim == 1 and (y.dtype.kind not in "f" or bool((y == np.floor(y)).all()))


def scheme_of(metric, resampling="auto"):
    """Choose how a metric is resampled.

    Parameters
    ----------
    metric : metric instance
        The metric.
    resampling : {"auto", "dirichlet", "half"}, default="auto"
        What the user asked for.

    Returns
    -------
    scheme : str
        One of `SCHEMES`.

    Raises
    ------
    ValueError
        If the metric can't be resampled, or not this way.
    """
    name = type(metric).__name__
    if needs_network(metric):
        raise ValueError(
            f"'n_resamples' must be 0 with {name}: it looks into the network, which would have to "
            "be run on every resample, while resampling is done on features that were kept."
        )
    weighted = has_fit_parameter(metric, "sample_weight")
    if resampling == "auto":
        return "dirichlet" if weighted else "half"
    if resampling == "dirichlet" and not weighted:
        raise ValueError(
            f"'resampling' must be 'auto' or 'half' with {name}, which has no definition for "
            "weights. Got 'dirichlet' instead."
        )
    return resampling


def plan_resamples(selector, metrics, X, y):
    """Check what was asked for and plan the resamples, before any candidate is run.

    Parameters
    ----------
    selector : estimator
        With the parameters ``n_resamples``, ``level``, ``resampling`` and ``random_state``.
    metrics : dict of str to metric
        The metrics.
    X : array-like of shape (n_samples, ...)
        The data, whose content gives the rows their order.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.

    Returns
    -------
    resamples : Resamples or None
        None for none.

    Raises
    ------
    ValueError
        If there are too few for the level, or a metric can't be resampled like that.
    """
    n_resamples, level, resampling = selector.n_resamples, selector.level, selector.resampling
    if resampling in ("bootstrap", "multinomial"):
        raise ValueError(
            "'resampling' must be 'auto', 'dirichlet' or 'half'. Got "
            f"{resampling!r} instead: with replacement, a third of the rows is missing and others "
            "occur several times, which many metrics reward without limit."
        )
    if resampling not in ("auto", *SCHEMES):
        raise ValueError(
            f"'resampling' must be 'auto', 'dirichlet' or 'half'. Got {resampling!r} instead."
        )
    if n_resamples == 0:
        return None
    fewest = fewest_resamples(level)
    if n_resamples < fewest:
        raise ValueError(
            f"'n_resamples' must be 0 or at least {fewest} for level={level:g}. "
            f"Got {n_resamples} instead."
        )
    schemes = {name: scheme_of(metric, resampling) for name, metric in metrics.items()}
    random_state = selector.random_state
    if random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31))
    else:
        seed = int(random_state)
    return Resamples(n_resamples, seed, _positions(X, len(y)), schemes)


def _positions(X, n_samples):
    """Place rows in an order that their content decides, where they have one to compare."""
    rows = comparable_rows(X, n_samples)
    if rows is None:
        return np.arange(n_samples)
    if rows.ndim == 1:
        keys = rows
    else:
        digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        keys = np.array(digests, dtype="S16")
    positions = np.empty(n_samples, dtype=np.intp)
    positions[np.argsort(keys, kind="stable")] = np.arange(n_samples)
    return positions


def resample_scores(task, resamples, metrics):
    """Score one candidate on all resamples.

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
        drawn = half = None
        if "dirichlet" in schemes.values():
            drawn = resamples.weights(number)
            drawn = drawn if task.sampled is None else drawn[task.sampled]
        if "half" in schemes.values():
            half = resamples.half(number, y, task.sampled)
        shared = {}
        for name, scheme in schemes.items():
            rows, weight = (None, drawn) if scheme == "dirichlet" else (half, None)
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
