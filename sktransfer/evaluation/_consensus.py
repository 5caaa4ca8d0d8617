"""One ranking out of the scores of several metrics, and how far it hangs on each of them."""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ._correlation import check_option, rank_correlation
from ._pairing import listed, pair_scores, read_scores
from ._rank import competition_ranks

__all__ = ["ConsensusResult", "LeftOutMetric", "consensus"]

_METHODS = ("ranks", "scores")
_NAN_POLICIES = ("auto", "omit", "propagate", "raise")


@dataclass(frozen=True)
class LeftOutMetric:
    """The consensus without one of its metrics, part of a :class:`ConsensusResult`.

    Parameters
    ----------
    ranks : dict of hashable to int
        Rank of each candidate without this metric.
    best : tuple
        The candidates of rank 1.
    kendall : float
        Rank correlation with the consensus of all metrics; NaN where one of the two is all ties.
    changes_best : bool
        Whether other candidates are the best.

    Examples
    --------
    >>> from sktransfer.evaluation import consensus
    >>> scores = {"logme": {"a": 3, "b": 2, "c": 1}, "knn": {"a": 0.1, "b": 0.9, "c": 0.5}}
    >>> consensus(scores).without["knn"]
    LeftOutMetric(ranks={'a': 1, 'b': 2, 'c': 3}, best=('a',), kendall=0.333..., changes_best=True)
    """

    ranks: dict
    best: tuple
    kendall: float
    changes_best: bool


@dataclass(frozen=True, repr=False)
class ConsensusResult:
    """One score per candidate out of several metrics, as returned by :func:`consensus`.

    Parameters
    ----------
    scores : dict of hashable to float
        By candidate, higher is better. By the method "ranks" in [0, 1]: the share of the other
        candidates that it beats, averaged over metrics. NaN for a candidate without a score.
    ranks : dict of hashable to int
        Competition rank of each candidate: 1 is best, ties share a rank, NaN is last.
    best : tuple
        The candidates of rank 1; empty if no candidate has a score.
    metric_ranks : dict of str to dict of hashable to int
        The ranks by each metric alone.
    without : dict of str to LeftOutMetric
        For each metric the consensus of all others; empty for a single metric.
    method : str
        How it was made.
    weights : dict of str to float
        Weight of each metric, with sum 1; 0 for metrics that tell nothing.
    relative_to_pool : bool
        Whether the score of a candidate depends on who else is in the list.
    missing : dict of hashable to tuple of str
        For each candidate that lacks scores, the metrics that gave it none.
    uninformative : dict of str to str
        Metrics that take no part, or tell no two candidates apart, with the reason.

    Examples
    --------
    >>> from sktransfer.evaluation import consensus
    >>> scores = {"logme": {"a": 3, "b": 2, "c": 1}, "knn": {"a": 0.1, "b": 0.9, "c": 0.5}}
    >>> result = consensus(scores)
    >>> result.best, result.depends_on
    (('b',), ('knn',))
    """

    scores: dict
    ranks: dict
    best: tuple
    metric_ranks: dict
    without: dict
    method: str
    weights: dict
    relative_to_pool: bool
    missing: dict
    uninformative: dict

    @property
    def depends_on(self):
        """Metrics without which other candidates would be the best."""
        return tuple(name for name, left_out in self.without.items() if left_out.changes_best)

    def __repr__(self):
        best = ", ".join(map(repr, self.best)) or "none"
        depends = f", depends on {listed(self.depends_on)}" if self.depends_on else ""
        return (
            f"{type(self).__name__}(best: {best}{depends}, n={len(self.scores)}, "
            f"metrics={list(self.weights)}, method={self.method!r}, "
            f"relative_to_pool={self.relative_to_pool})"
        )

    def columns(self):
        """Return the consensus as columns, best candidate first, of which frames are made.

        Returns
        -------
        columns : dict of str to list
            ``rank``, ``candidate``, ``consensus``, and ``rank_<metric>`` and
            ``rank_without_<metric>`` for each metric.
        """
        order = sorted(self.ranks, key=self.ranks.get)
        columns = {
            "rank": [self.ranks[name] for name in order],
            "candidate": order,
            "consensus": [self.scores[name] for name in order],
        }
        for metric, ranks in self.metric_ranks.items():
            columns[f"rank_{metric}"] = [ranks[name] for name in order]
        for metric, left_out in self.without.items():
            columns[f"rank_without_{metric}"] = [left_out.ranks[name] for name in order]
        return columns


def consensus(scores, *, method="ranks", weights=None, scales=None, nan_policy="auto"):
    """Combine the scores of several metrics into one ranking of the candidates.

    Read more in the :ref:`User Guide <recommendation>`.

    Parameters
    ----------
    scores : mapping of str to scores, or frame
        For each metric the scores by candidate, higher is better: a mapping, series or array, as in
        the attribute ``metric_scores_`` of a selector. A frame has a row per candidate and a column
        per metric. All metrics need the same candidates; the order does not matter where they have
        names.
    method : {"ranks", "scores"}, default="ranks"
        What is averaged over the metrics.

        - "ranks": the share of the other candidates that a candidate beats, where a tie counts one
          half. Any metrics can be combined so, whatever their units. The result depends on who
          else is in the list (``relative_to_pool``).
        - "scores": the scores themselves, on a scale that does not depend on the candidates. For
          metrics with a common unit, such as :class:`~sktransfer.metrics.LogME` and
          :class:`~sktransfer.metrics.PACTran` in nats per sample, or with `scales`.
    weights : mapping of str to float, default=None
        Weight of each metric, at least 0 and not all 0; 1 for those it doesn't name. None weighs
        all alike.
    scales : mapping of str to (float, float), default=None
        With "scores": for a metric the score that becomes 0 and the one that becomes 1, for example
        the level of chance and the upper bound. They have to hold for all candidates alike.
    nan_policy : {"auto", "omit", "propagate", "raise"}, default="auto"
        For a candidate that some of the metrics gave no score: the mean over the others ("omit"),
        NaN and the last place ("propagate"), or an error. "auto" is "omit" with "ranks", and
        "propagate" with "scores", where a mean over other metrics may be on another level. A
        metric without any score takes no part.

    Returns
    -------
    result : ConsensusResult
        Scores, ranks, and the same without each of the metrics.

    Raises
    ------
    ValueError
        If there is no metric or no candidate, metrics have other candidates, a score is infinite
        with "scores", or a parameter is not one of its values.

    See Also
    --------
    rank_correlation : Whether two metrics agree at all.

    Notes
    -----
    A consensus is as good as its metrics are different and sound. Metrics of one family say the
    same twice; metrics that saturate on few samples add noise, see :ref:`recommendation`.

    Examples
    --------
    >>> from sktransfer.evaluation import consensus
    >>> scores = {
    ...     "logme": {"mnist": 0.40, "letters": 0.60, "cells": -0.20},
    ...     "pactran": {"mnist": -0.30, "letters": -0.35, "cells": -1.20},
    ...     "knn": {"mnist": 0.80, "letters": 0.90, "cells": 0.70},
    ... }
    >>> result = consensus(scores)
    >>> result
    ConsensusResult(best: 'letters', depends on 'logme' and 'knn', n=3, \
metrics=['logme', 'pactran', 'knn'], method='ranks', relative_to_pool=True)
    >>> {name: round(score, 2) for name, score in result.scores.items()}
    {'mnist': 0.67, 'letters': 0.83, 'cells': 0.0}
    """
    check_option("method", method, _METHODS)
    check_option("nan_policy", nan_policy, _NAN_POLICIES)
    labels, table = _read(scores)
    metrics = list(table)
    weight = _read_weights(weights, metrics)
    low, span = _read_scales(scales, metrics, method)
    if nan_policy == "auto":
        nan_policy = "omit" if method == "ranks" else "propagate"
    values = np.array(list(table.values()), dtype=float)
    silent = np.isnan(values).all(axis=1)
    missing = {
        label: tuple(np.array(metrics, dtype=object)[lacks].tolist())
        for label, lacks in zip(labels, np.isnan(values).T, strict=True)
        if lacks.any()
    }
    if missing and nan_policy == "raise":
        label, lacking = next(iter(missing.items()))
        raise ValueError(
            f"'scores' has no score of candidate {label!r} by {listed(lacking)}; "
            "nan_policy='raise' forbids it."
        )
    if method == "ranks":
        parts = np.array([_share_beaten(row) for row in values])
    else:
        for name, row in zip(metrics, values, strict=True):
            for label in np.array(labels, dtype=object)[np.isinf(row)]:
                raise ValueError(
                    f"'scores' must be finite or NaN for method='scores', as an infinite one "
                    f"decides alone. Got one of candidate {label!r} by {name!r}."
                )
        parts = (values - low[:, None]) / span[:, None]
    weight = np.where(silent, 0.0, weight)

    def combined(used):
        mean = _mean(parts, np.where(used, weight, 0.0), nan_policy)
        # Equal sums of ranks are ties, whatever the order they were added in.
        return np.round(mean, 12) if method == "ranks" else mean

    everyone = np.ones(len(metrics), dtype=bool)
    total = combined(everyone)
    ranks = _by_label(labels, competition_ranks(total))
    best = _best(labels, total)
    without = {}
    for place, name in enumerate(metrics if len(metrics) > 1 else []):
        others = combined(np.arange(len(metrics)) != place)
        found = _best(labels, others)
        without[name] = LeftOutMetric(
            ranks=_by_label(labels, competition_ranks(others)),
            best=found,
            kendall=_kendall(total, others),
            changes_best=set(found) != set(best),
        )
    uninformative = {}
    for name, row in zip(metrics, values, strict=True):
        known = row[~np.isnan(row)]
        if known.size == 0:
            uninformative[name] = "it has no score of any candidate"
        elif known.size > 1 and (known == known[0]).all():
            uninformative[name] = "all candidates are tied"
    shares = weight / weight.sum() if weight.sum() > 0 else weight
    return ConsensusResult(
        scores=_by_label(labels, total),
        ranks=ranks,
        best=best,
        metric_ranks={
            name: _by_label(labels, competition_ranks(row))
            for name, row in zip(metrics, values, strict=True)
        },
        without=without,
        method=method,
        weights=dict(zip(metrics, shares.tolist(), strict=True)),
        relative_to_pool=method == "ranks",
        missing=missing,
        uninformative=uninformative,
    )


def _read(scores):
    """Read names of the candidates, and a row of numbers for each metric, in their order."""
    if not isinstance(scores, Mapping) and not hasattr(scores, "columns"):
        raise ValueError(
            "'scores' must be a mapping from metrics to their scores, or a frame with a column per "
            f"metric. Got {type(scores).__name__} instead."
        )
    if isinstance(scores, Mapping):
        columns = dict(scores)
    else:
        columns = {name: scores[name] for name in scores.columns}
    if not columns:
        raise ValueError("'scores' must hold the scores of at least one metric. Got none.")
    read = {name: read_scores(data, f"scores[{name!r}]") for name, data in columns.items()}
    first_name, first = next(iter(read.items()))
    if len(first.values) == 0:
        raise ValueError("'scores' must hold at least one candidate. Got none.")
    table = {}
    for name, other in read.items():
        arguments = (f"scores[{first_name!r}]", f"scores[{name!r}]")
        pair = pair_scores(first, other, names=None, arguments=arguments)
        table[name] = np.where(pair.y_missing, np.nan, pair.y.astype(float))
    labels = tuple(range(len(first.values))) if first.names is None else first.names
    return labels, table


def _read_weights(weights, metrics):
    given = {} if weights is None else weights
    if not isinstance(given, Mapping):
        raise ValueError(
            f"'weights' must be a mapping from metrics to numbers. Got {type(given).__name__} "
            "instead."
        )
    unknown = [name for name in given if name not in metrics]
    if unknown:
        raise ValueError(f"'weights' names {listed(unknown)}; the metrics are {listed(metrics)}.")
    for name, value in given.items():
        if not _is_number(value) or value < 0:
            raise ValueError(
                f"'weights' must hold finite numbers of at least 0. Got {value!r} for {name!r}."
            )
    weight = np.array([float(given.get(name, 1.0)) for name in metrics])
    if not weight.any():
        raise ValueError("'weights' must not be 0 for all metrics.")
    return weight / weight.max()


def _read_scales(scales, metrics, method):
    given = {} if scales is None else scales
    if scales is not None and method != "scores":
        raise ValueError(f"'scales' belongs to method='scores'. Got it with method={method!r}.")
    if not isinstance(given, Mapping) or any(name not in metrics for name in given):
        raise ValueError(
            f"'scales' must be a mapping from some of the metrics, {listed(metrics)}. "
            f"Got {scales!r} instead."
        )
    low, span = np.zeros(len(metrics)), np.ones(len(metrics))
    for name, pair in given.items():
        valid = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not valid or not all(map(_is_number, pair)) or not pair[0] < pair[1]:
            raise ValueError(
                "'scales' must give two finite numbers for a metric, the lower one first. "
                f"Got {pair!r} for {name!r}."
            )
        place = metrics.index(name)
        low[place], span[place] = float(pair[0]), float(pair[1]) - float(pair[0])
    return low, span


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _share_beaten(row):
    """Share of the other candidates with a score that each one beats; a tie is one half."""
    known = ~np.isnan(row)
    share = np.full(row.shape, np.nan)
    x = row[known]
    if len(x) == 1:
        share[known] = 0.5
    elif len(x):
        ascending = np.sort(x)
        below = np.searchsorted(ascending, x, side="left")
        not_above = np.searchsorted(ascending, x, side="right")
        share[known] = (below + (not_above - below - 1) / 2) / (len(x) - 1)
    return share


def _mean(parts, weight, nan_policy):
    """Weighted mean over metrics, each candidate for itself."""
    used = weight > 0
    if not used.any():
        return np.full(parts.shape[1], np.nan)
    parts, weight = parts[used], weight[used]
    known = ~np.isnan(parts)
    with np.errstate(invalid="ignore"):  # opposite infinities have no mean
        total = np.where(known, parts * weight[:, None], 0.0).sum(axis=0)
    held = (known * weight[:, None]).sum(axis=0)
    enough = known.any(axis=0) if nan_policy == "omit" else known.all(axis=0)
    mean = np.full(parts.shape[1], np.nan)
    mean[enough] = total[enough] / held[enough]
    return mean


def _best(labels, values):
    if np.isnan(values).all():
        return ()
    top = np.nanmax(values)
    return tuple(label for label, value in zip(labels, values, strict=True) if value == top)


def _by_label(labels, values):
    return dict(zip(labels, values.tolist(), strict=True))


def _kendall(first, second):
    known = ~np.isnan(first) & ~np.isnan(second)
    result = rank_correlation(first[known], second[known], n_resamples=0, n_permutations=0)
    return result.statistic
