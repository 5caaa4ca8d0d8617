"""Scores of one candidate on resamples that are the same for all candidates."""

import copy
import hashlib
import math
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from ..evaluation._uncertainty import fewest_resamples
from ..metrics import KNN, LEEP, LinearProbe, LogME
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

SCHEMES = ("half", "tenth", "dirichlet")

# Of how many rows one is left out.
_ONE_OF = {"half": 2, "tenth": 10}

# Metrics whose scores vary over halves as they do over fresh samples, also with fewer rows than
# features: measured by benchmarks/coverage_of_selection.py. Others change their nature when half of
# the rows are gone. Leaving out a tenth is never too narrow on average (Efron and Stein, 1981).
_BY_HALVES = (KNN, LEEP, LinearProbe, LogME)

# Fewer rows of a class say nothing about it.
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
    has_classes : bool, default=True
        Whether rows are left out of each class.
    """

    n_resamples: int
    seed: int
    positions: np.ndarray
    schemes: dict
    has_classes: bool = True

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
        if scheme == "dirichlet":
            n = len(self.positions)
            return math.sqrt((n + 1) / (n - 1))
        return math.sqrt(_ONE_OF[scheme] - 1)

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

    def part(self, number, scheme, y, rows=None):
        """Draw rows without replacement: all but a half or a tenth, of each class if there are any.

        Parameters
        ----------
        number : int
            Which resample.
        scheme : {"half", "tenth"}
            What is left out.
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Labels or values of the rows.
        rows : ndarray of int of shape (n_rows,), default=None
            The rows to draw from; all if None.

        Returns
        -------
        part : ndarray of intp
            Positions among `rows`, ascending.
        """
        rng = self._generator(number, 1)
        one_of = _ONE_OF[scheme]
        offset = rng.integers(one_of)
        drawn = rng.random(len(self.positions))
        drawn = drawn[self.positions if rows is None else self.positions[rows]]
        codes = np.zeros(len(y), dtype=np.intp)
        if self.has_classes:
            codes = np.unique(y, return_inverse=True)[1].reshape(-1)
        # Every second or tenth row in an order that keeps classes together. Where it begins, and
        # which class comes first, is drawn: no class is favoured, nor does its name matter.
        first = np.full(codes.max() + 1, np.inf)
        np.minimum.at(first, codes, drawn)
        order = np.lexsort((drawn, first[codes]))
        is_left_out = np.zeros(len(y), dtype=bool)
        is_left_out[order[offset::one_of]] = True
        kept = np.bincount(codes, ~is_left_out)
        for code in np.flatnonzero(kept < _FEWEST_OF_A_CLASS):
            missing = np.flatnonzero(is_left_out & (codes == code))
            again = missing[np.argsort(drawn[missing])][: _FEWEST_OF_A_CLASS - int(kept[code])]
            is_left_out[again] = False
        return np.flatnonzero(~is_left_out)

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


def scheme_of(metric, resampling="auto"):
    """Choose how a metric is resampled.

    Parameters
    ----------
    metric : metric instance
        The metric.
    resampling : {"auto", "half", "tenth", "dirichlet"}, default="auto"
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
    if resampling == "auto":
        return "half" if isinstance(metric, _BY_HALVES) else "tenth"
    if resampling == "dirichlet" and not has_fit_parameter(metric, "sample_weight"):
        raise ValueError(
            f"'resampling' must be 'auto', 'half' or 'tenth' with {name}, which has no definition "
            "for weights. Got 'dirichlet' instead."
        )
    return resampling


def plan_resamples(selector, metrics, X, y, task):
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
    task : str
        What it is; several labels per row make no strata.

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
            "'resampling' must be 'auto', 'half', 'tenth' or 'dirichlet'. Got "
            f"{resampling!r} instead: with replacement, a third of the rows is missing and others "
            "occur several times, which many metrics reward without limit."
        )
    if resampling not in ("auto", *SCHEMES):
        raise ValueError(
            "'resampling' must be 'auto', 'half', 'tenth' or 'dirichlet'. "
            f"Got {resampling!r} instead."
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
    if resampling == "auto" and selector.refit == "consensus" and len(set(schemes.values())) > 1:
        # A mean of metrics needs the same resamples for all of them; these are never too narrow.
        schemes = dict.fromkeys(schemes, "tenth")
    random_state = selector.random_state
    if random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31))
    else:
        seed = int(random_state)
    return Resamples(n_resamples, seed, _positions(X, len(y)), schemes, task == "classification")


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
        drawn, shared = {}, {}
        for scheme in set(schemes.values()):
            if scheme == "dirichlet":
                weight = resamples.weights(number)
                drawn[scheme] = None, weight if task.sampled is None else weight[task.sampled]
            else:
                drawn[scheme] = resamples.part(number, scheme, y, task.sampled), None
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
