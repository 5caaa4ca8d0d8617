"""Resamples of the rows of a sample: how they are drawn for each metric, what they stand for."""

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from ..evaluation._uncertainty import fewest_resamples
from ..metrics import KNN, LEEP, NCE, LinearProbe, LogME
from ._metric_collection import deciders, deciding_metric, needs_network
from ._shared_rows import comparable_rows

__all__ = ["SCHEMES", "Resamples", "plan_resamples", "scheme_of"]

SCHEMES = ("half", "tenth", "dirichlet")

# Of how many rows one is left out.
_ONE_OF = {"half": 2, "tenth": 10}

# Metrics whose scores vary over halves as they do over fresh samples, also with fewer rows than
# features: measured by benchmarks/coverage_of_selection.py. Others change their nature when half of
# the rows are gone. Leaving out a tenth is never too narrow on average (Efron and Stein, 1981).
_BY_HALVES = (KNN, LEEP, LinearProbe, LogME)

# Metrics in which every row counts the same, whatever its class.
_MEANS_OF_ROWS = (KNN, LEEP, LinearProbe, LogME, NCE)

# Classes with fewer rows are not halved.
_HANDFUL = 6

# Fewer rows of a class say nothing about it.
_FEWEST_OF_A_CLASS = 2

# What is left out stands for all rows, unless it is less than this share of what should be.
_LEAST_SHARE = 0.25


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
        For each metric that is resampled one of `SCHEMES`.
    codes : ndarray of intp of shape (n_samples,), default=None
        Classes, numbered from 0, of each of which rows are left out.
    splits : sequence of ndarray of int or None, default=(None,)
        The rows of each split; None for all. A class keeps two rows in each of them.
    """

    n_resamples: int
    seed: int
    positions: np.ndarray
    schemes: dict
    codes: np.ndarray | None = None
    splits: tuple = (None,)
    _left_out: dict = field(default_factory=dict, repr=False)

    def scale(self, scheme, metric=None):
        """Tell what brings the scatter of resamples to that of fresh samples.

        Parameters
        ----------
        scheme : str
            One of `SCHEMES`.
        metric : metric, default=None
            What was resampled. Of means over classes a small class is a large part.

        Returns
        -------
        scale : float
            A factor, exact for means. Infinite where classes have so few rows that hardly any can
            be left out, as nothing is known then.
        """
        if scheme == "dirichlet":
            n = len(self.positions)
            return math.sqrt((n + 1) / (n - 1))
        nominal = 1 / (_ONE_OF[scheme] - 1)
        if self.codes is None:
            return 1 / math.sqrt(nominal)
        variances = [
            _variance_of_mean(codes, is_left_out, metric is None or _is_mean_of_rows(metric))
            for rows in self.splits
            for codes, is_left_out in self._of_split(scheme, rows)
        ]
        share = float(np.mean(variances))
        return 1 / math.sqrt(share) if share > _LEAST_SHARE * nominal else math.inf

    def _of_split(self, scheme, rows):
        rows = slice(None) if rows is None else rows
        return ((self.codes[rows], is_left_out[rows]) for is_left_out in self.left_out(scheme))

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

    def part(self, number, scheme, rows=None):
        """Draw rows without replacement: all but a half or a tenth, of each class if there are any.

        Parameters
        ----------
        number : int
            Which resample.
        scheme : {"half", "tenth"}
            What is left out.
        rows : ndarray of int of shape (n_rows,), default=None
            One of the splits; all rows if None.

        Returns
        -------
        part : ndarray of intp
            Positions among `rows`, ascending.
        """
        is_left_out = self.left_out(scheme)[number]
        return np.flatnonzero(~(is_left_out if rows is None else is_left_out[rows]))

    def left_out(self, scheme):
        """Give the rows that resamples are without, the same in all splits.

        A mean over splits would hardly vary if each split had the rows that others lack.

        Parameters
        ----------
        scheme : {"half", "tenth"}
            What is left out.

        Returns
        -------
        left_out : ndarray of bool of shape (n_resamples, n_samples)
            Drawn once.
        """
        if scheme not in self._left_out:
            drawn = [self._draw(number, _ONE_OF[scheme]) for number in range(self.n_resamples)]
            self._left_out[scheme] = np.array(drawn)
        return self._left_out[scheme]

    def _draw(self, number, one_of):
        rng = self._generator(number, 1)
        offset = rng.integers(one_of)
        drawn = rng.random(len(self.positions))[self.positions]
        codes = np.zeros(len(drawn), dtype=np.intp) if self.codes is None else self.codes
        # Every second or tenth row in an order that keeps classes together. Where it begins, and
        # which class comes first, is drawn: no class is favoured, nor does its name matter.
        first = np.full(codes.max() + 1, np.inf)
        np.minimum.at(first, codes, drawn)
        order = np.lexsort((drawn, first[codes]))
        is_left_out = np.zeros(len(drawn), dtype=bool)
        is_left_out[order[offset::one_of]] = True
        for rows in self.splits:
            rows = np.arange(len(drawn)) if rows is None else rows
            present = np.bincount(codes[rows])
            kept = np.bincount(codes[rows], ~is_left_out[rows])
            for code in np.flatnonzero((kept < _FEWEST_OF_A_CLASS) & (present > 0)):
                missing = rows[is_left_out[rows] & (codes[rows] == code)]
                n_again = _FEWEST_OF_A_CLASS - int(kept[code])
                is_left_out[missing[np.argsort(drawn[missing])][:n_again]] = False
        return is_left_out

    def _generator(self, number, kind):
        return np.random.default_rng([self.seed, kind, number])


def _variance_of_mean(codes, is_left_out, over_rows):
    """Give the variance of a mean over what is left, as a share of that over fresh samples.

    Of a metric that compares classes it is not known what it is a mean of, rows or classes.
    """
    present, kept = np.bincount(codes), np.bincount(codes, ~is_left_out)
    present, kept = present[present > 0], kept[present > 0]
    variances = (present - kept) / kept
    of_rows = np.average(variances, weights=present)
    return of_rows if over_rows else min(of_rows, np.average(variances, weights=1 / present))


def _is_mean_of_rows(metric):
    if getattr(metric, "class_weight", None) is not None:
        return False
    return (
        isinstance(metric, _MEANS_OF_ROWS) and getattr(metric, "scoring", "accuracy") == "accuracy"
    )


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
            "be run on every resample, while resampling is done on features that were kept. Beside "
            "another metric that decides, it is scored without resamples."
        )
    if resampling == "auto":
        return "half" if isinstance(metric, _BY_HALVES) else "tenth"
    if resampling == "dirichlet" and not has_fit_parameter(metric, "sample_weight"):
        raise ValueError(
            f"'resampling' must be 'auto', 'half' or 'tenth' with {name}, which has no definition "
            "for weights. Got 'dirichlet' instead."
        )
    return resampling


def plan_resamples(selector, metrics, X, y, task, splits=(None,)):
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
    splits : sequence of ndarray of int or None, default=(None,)
        The rows of each split; None for all.

    Returns
    -------
    resamples : Resamples or None
        None for none.

    Raises
    ------
    ValueError
        If there are too few for the level, a metric can't be resampled like that, or one that
        decides can't be resampled at all.
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
    # What only stands beside the metric that decides need not be resampled.
    decides = deciders(metrics, deciding_metric(metrics, selector.refit))
    schemes = {
        name: scheme_of(metric, resampling)
        for name, metric in metrics.items()
        if not needs_network(metric) or any(metric is each for each in decides)
    }
    codes = None
    if task == "classification":
        codes = np.unique(y, return_inverse=True)[1].reshape(-1)
    # A mean of metrics needs the same resamples for all of them. Halves of a handful of rows of a
    # class are no smaller samples of the kind. Leaving out a tenth is never too narrow.
    is_mean = selector.refit == "consensus" and len(set(schemes.values())) > 1
    if resampling == "auto" and (is_mean or (codes is not None and _are_few(codes))):
        schemes = dict.fromkeys(schemes, "tenth")
    random_state = selector.random_state
    if random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31))
    else:
        seed = int(random_state)
    positions = _positions(X, y, codes)
    resamples = Resamples(n_resamples, seed, positions, schemes, codes, tuple(splits))
    for scheme in {*schemes.values()} - {"dirichlet"}:
        resamples.left_out(scheme)  # here, once, and not in each task
    return resamples


def _are_few(codes):
    """Tell whether a quarter of the rows, or more, are in classes of a handful of rows."""
    counts = np.bincount(codes)
    return counts[counts < _HANDFUL].sum() >= len(codes) / 4


def _positions(X, y, codes):
    """Place rows in an order that their content decides, where they have one to compare."""
    rows = comparable_rows(X, len(y))
    if rows is None:
        return np.arange(len(y))
    digests = [_digest(row.tobytes() if rows.ndim > 1 else str(row).encode()) for row in rows]
    # Equal rows with other labels are told apart by the rows of their class, not by its name.
    labels = [_digest(value.tobytes()) for value in y]
    if codes is not None:
        labels = _digests_of_classes(digests, codes)
    keys = np.array([a + b for a, b in zip(digests, labels, strict=True)], dtype="S32")
    positions = np.empty(len(y), dtype=np.intp)
    positions[np.argsort(keys, kind="stable")] = np.arange(len(y))
    return positions


def _digests_of_classes(digests, codes):
    members = {}
    for digest, code in zip(digests, codes, strict=True):
        members.setdefault(code, []).append(digest)
    by_code = {code: _digest(b"".join(sorted(found))) for code, found in members.items()}
    return [by_code[code] for code in codes]


def _digest(content):
    return hashlib.blake2b(content, digest_size=16).digest()
