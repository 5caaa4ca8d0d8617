"""Stability of a ranking over repeats: means of correlations between repeats and with others."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ._coefficients import METHODS, coefficient
from ._correlation import check_option, correlate, orient, orientation
from ._pairing import pair_scores, read_scores
from ._resampling import bootstrap_counts, check_resampling, limits, random_generator
from ._tables import pair_repeats, read_table

__all__ = ["StabilityResult", "stability_inter", "stability_intra", "stability_ref"]

_NAN_POLICIES = ("propagate", "omit")


@dataclass(frozen=True, repr=False, eq=False)
class StabilityResult:
    """A mean of correlations, with each of them and what is undefined.

    Returned by :func:`stability_intra`, :func:`stability_ref` and :func:`stability_inter`.
    ``float(result)`` is its statistic.

    Parameters
    ----------
    statistic : float
        Mean of the correlations, in [-1, 1], or NaN with a `reason`.
    interval : tuple of two float
        Limits of the bootstrap interval over candidates; NaN where the statistic is.
    n : int
        Number of correlations that are defined.
    n_undefined : int
        Number of those that are not.
    reason : str or None
        Why the statistic is undefined; None if it is not.
    kind : {"intra", "ref", "inter"}
        Which stability.
    method : str
        Which coefficient.
    level : float
        Level of the interval.
    values : ndarray of float64 of shape (n + n_undefined,)
        The correlations, NaN where undefined. Read-only.
    pairs : tuple
        The repeats that each of them compares, one label or two.
    reasons : dict
        By member of `pairs`, why its correlation is undefined.
    names : tuple
        The candidates; positions if there are no names.
    left_out : tuple
        Candidates that occur on one side only.

    Examples
    --------
    >>> from sktransfer.evaluation import stability_intra
    >>> result = stability_intra([[1, 2, 3], [1, 3, 2], [5, 5, 5]])
    >>> result.n, result.n_undefined, result.reasons[0, 2]
    (1, 2, 'all candidates tied in repeat 2')
    """

    statistic: float
    interval: tuple
    n: int
    n_undefined: int
    reason: str | None
    kind: str
    method: str
    level: float
    values: np.ndarray
    pairs: tuple
    reasons: dict
    names: tuple
    left_out: tuple = ()

    def __float__(self):
        return self.statistic

    def __repr__(self):
        if self.reason is None:
            low, high = self.interval
            value = f"{self.statistic:.3f}, {self.level:g} interval ({low:.3f}, {high:.3f})"
        else:
            value = f"nan, reason={self.reason!r}"
        undefined = f", n_undefined={self.n_undefined}" if self.n_undefined else ""
        left_out = f", left_out={self.left_out!r}" if self.left_out else ""
        return (
            f"{type(self).__name__}({self.kind}, {self.method}={value}, n={self.n}"
            f"{undefined}{left_out})"
        )


def stability_intra(
    scores,
    method="kendall",
    *,
    input="scores",
    nan_policy="propagate",
    level=0.95,
    n_resamples=1000,
    random_state=0,
):
    """Compute how well the rankings of repeats agree with each other.

    The mean correlation over all pairs of repeats: how far the ranking by one metric depends on
    which sample of the target, or which seed, it was computed on.

    Parameters
    ----------
    scores : array-like of shape (n_repeats, n_candidates), frame or mapping
        Scores, higher is better, a row per repeat. A frame has a column per candidate; a mapping
        has a sequence of numbers per candidate.
    method : {"kendall", "weighted_kendall", "spearman", "pearson"}, default="kendall"
        The coefficient; see :func:`rank_correlation`.
    input : {"scores", "ranks"}, default="scores"
        "ranks" if 1 is the best.
    nan_policy : {"propagate", "omit"}, default="propagate"
        What an undefined correlation does, as where all candidates are tied or one has no score:
        the mean is undefined too, with the reason; or it is left out of the mean, and candidates
        without a score are left out of the correlations that they would be part of. Counted they
        are in any case.
    level : float, default=0.95
        Of the interval.
    n_resamples : int, default=1000
        Bootstrap resamples of the candidates behind the interval, at least ``2 / (1 - level)``;
        with 0 it is NaN.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the interval.

    Returns
    -------
    result : StabilityResult
        With ``statistic``, ``interval``, ``n``, ``n_undefined``, ``reason``, ``values``, ...

    Raises
    ------
    ValueError
        If the scores are no table of numbers, a name occurs twice, or a parameter is not one of
        its values.

    See Also
    --------
    stability_ref : Agreement of every repeat with one reference.
    stability_inter : Agreement of two metrics on the same repeats.

    Notes
    -----
    With :math:`k` repeats it is the mean over :math:`k(k-1)/2` pairs, equation 1 of [1]_. They
    are not independent, and their spread understates how far the mean would move with
    other repeats. The interval is about other candidates, with these repeats.

    References
    ----------
    .. [1] Robustness of transferability estimation metrics for medical imaging, section 3.3.

    Examples
    --------
    >>> from sktransfer.evaluation import stability_intra
    >>> scores = [[0.9, 0.7, 0.4, 0.1], [0.8, 0.9, 0.3, 0.2], [0.9, 0.6, 0.2, 0.3]]
    >>> result = stability_intra(scores)
    >>> round(result.statistic, 3), result.n
    (0.556, 3)
    >>> result.values.round(3)
    array([0.667, 0.667, 0.333])
    """
    check_option("input", input, ("scores", "ranks"))
    table = read_table(scores, "scores")
    comparisons = [
        _Comparison(
            (table.labels[i], table.labels[j]),
            (table.row(i), table.row(j)),
            (f"repeat {table.labels[i]}", f"repeat {table.labels[j]}"),
        )
        for i, j in combinations(range(len(table.labels)), 2)
    ]
    if not comparisons:
        comparisons = f"fewer than 2 repeats ({len(table.repeats)})"
    options = (orientation(input), nan_policy, level, n_resamples, random_state)
    return _mean_correlation("intra", method, table, comparisons, *options)


def stability_ref(
    scores,
    reference,
    method="kendall",
    *,
    input="scores",
    greater_is_better=True,
    names="same",
    nan_policy="propagate",
    level=0.95,
    n_resamples=1000,
    random_state=0,
):
    """Compute how well the rankings of repeats agree with one reference.

    The mean correlation over repeats. The reference may be the scores on all of the target, or
    fine-tuned performance.

    Parameters
    ----------
    scores : array-like of shape (n_repeats, n_candidates), frame or mapping
        Scores, higher is better, a row per repeat; see :func:`stability_intra`.
    reference : mapping, series, structured array or array-like of shape (n_candidates,)
        A number per candidate, paired by name as in :func:`rank_correlation`.
    method : {"kendall", "weighted_kendall", "spearman", "pearson"}, default="kendall"
        The coefficient; see :func:`rank_correlation`.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" if 1 is the best, for both sides or for each.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    names : {"same", "common"}, default="same"
        Whether a candidate that occurs on one side only is an error, or is left out.
    nan_policy : {"propagate", "omit"}, default="propagate"
        For undefined correlations; see :func:`stability_intra`.
    level : float, default=0.95
        Of the interval.
    n_resamples : int, default=1000
        Bootstrap resamples of the candidates behind the interval, at least ``2 / (1 - level)``;
        with 0 it is NaN.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the interval.

    Returns
    -------
    result : StabilityResult
        With ``statistic``, ``interval``, ``n``, ``n_undefined``, ``reason``, ``values``, ...

    Raises
    ------
    ValueError
        If the two sides cannot be paired, the scores are no table of numbers, or a parameter is not
        one of its values.

    See Also
    --------
    rank_correlation : A single correlation.

    Notes
    -----
    Equation 2 of [1]_.

    References
    ----------
    .. [1] Robustness of transferability estimation metrics for medical imaging, section 3.3.

    Examples
    --------
    >>> from sktransfer.evaluation import stability_ref
    >>> scores = [[0.9, 0.7, 0.4, 0.1], [0.8, 0.9, 0.3, 0.2]]
    >>> stability_ref(scores, [0.95, 0.90, 0.85, 0.80]).values.round(3)
    array([1.   , 0.667])
    """
    flips = orientation(input, greater_is_better)
    table, other = read_table(scores, "scores"), read_scores(reference, "reference")
    comparisons = [
        _Comparison(
            (label,),
            (table.row(place), other),
            (f"repeat {label}", "the reference"),
            ("metric failed: no score for {}" + f" in repeat {label}", "no reference value for {}"),
        )
        for place, label in enumerate(table.labels)
    ]
    options = (flips, nan_policy, level, n_resamples, random_state)
    return _mean_correlation("ref", method, table, comparisons, *options, names)


def stability_inter(
    scores_a,
    scores_b,
    method="kendall",
    *,
    input="scores",
    names="same",
    nan_policy="propagate",
    level=0.95,
    n_resamples=1000,
    random_state=0,
):
    """Compute how well two metrics agree on the same repeats.

    The mean over repeats of the correlation between the two. High agreement does not say that
    either is right.

    Parameters
    ----------
    scores_a, scores_b : array-like of shape (n_repeats, n_candidates), frame or mapping
        Scores by the two metrics, higher is better; see :func:`stability_intra`. Candidates are
        paired by name. Repeats are paired by the index where both are pandas frames, and by
        position otherwise.
    method : {"kendall", "weighted_kendall", "spearman", "pearson"}, default="kendall"
        The coefficient; see :func:`rank_correlation`.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" if 1 is the best, for both sides or for each.
    names : {"same", "common"}, default="same"
        Whether a candidate that occurs on one side only is an error, or is left out.
    nan_policy : {"propagate", "omit"}, default="propagate"
        For undefined correlations; see :func:`stability_intra`.
    level : float, default=0.95
        Of the interval.
    n_resamples : int, default=1000
        Bootstrap resamples of the candidates behind the interval, at least ``2 / (1 - level)``;
        with 0 it is NaN.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the interval.

    Returns
    -------
    result : StabilityResult
        With ``statistic``, ``interval``, ``n``, ``n_undefined``, ``reason``, ``values``, ...

    Raises
    ------
    ValueError
        If candidates or repeats cannot be paired, the scores are no tables of numbers, or a
        parameter is not one of its values.

    See Also
    --------
    stability_intra : Agreement of one metric with itself.

    Notes
    -----
    Equation 3 of [1]_.

    References
    ----------
    .. [1] Robustness of transferability estimation metrics for medical imaging, section 3.3.

    Examples
    --------
    >>> from sktransfer.evaluation import stability_inter
    >>> logme = {"a": [0.9, 0.8], "b": [0.7, 0.9], "c": [0.4, 0.3]}
    >>> hscore = {"c": [1.1, 1.0], "b": [1.9, 1.8], "a": [2.0, 1.9]}
    >>> stability_inter(logme, hscore).values.round(3)
    array([1.   , 0.333])
    """
    first, second = read_table(scores_a, "scores_a"), read_table(scores_b, "scores_b")
    order = pair_repeats(first, second)
    comparisons = [
        _Comparison(
            (label,),
            (first.row(i), second.row(j)),
            (f"scores_a, repeat {label}", f"scores_b, repeat {label}"),
        )
        for i, (label, j) in enumerate(zip(first.labels, order, strict=True))
    ]
    options = (orientation(input), nan_policy, level, n_resamples, random_state)
    arguments = ("scores_a", "scores_b")
    return _mean_correlation("inter", method, first, comparisons, *options, names, arguments)


# -- means -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Comparison:
    """Two sides whose correlation enters a mean."""

    pair: tuple
    sides: tuple
    called: tuple
    absent: tuple | None = None

    def sentences(self):
        """Give what to say of candidates without a score."""
        return self.absent or tuple(
            "metric failed: no score for {} in " + called for called in self.called
        )


def _mean_correlation(
    kind,
    method,
    table,
    comparisons,
    flips,
    nan_policy,
    level,
    n_resamples,
    random_state,
    names="same",
    arguments=("scores", "reference"),
):
    check_option("method", method, METHODS)
    check_option("nan_policy", nan_policy, _NAN_POLICIES)
    check_resampling(level, n_resamples=n_resamples)
    rng = random_generator(random_state)
    reason, left_out, keys = None, (), []
    labels = table.names or tuple(range(table.values.shape[1]))
    if not comparisons or isinstance(comparisons, str):
        reason, comparisons = comparisons or "no repeats", []
    values, reasons, defined = [], {}, []
    for comparison in comparisons:
        pair = pair_scores(*comparison.sides, names, arguments)
        orient(pair, flips, arguments)
        labels, left_out, known = pair.labels, pair.left_out, ~pair.missing
        keys += [pair.x, pair.y]
        _, value, why, sides = correlate(
            pair, method, flips, nan_policy, comparison.called, comparison.sentences()
        )
        values.append(value)
        if why is None:
            defined.append((known, sides))
        else:
            reasons[comparison.pair] = why
    if reasons and (nan_policy == "propagate" or not defined):
        first = next(iter(reasons.values()))
        reason = f"{len(reasons)} of {len(values)} correlations undefined: {first}"
        if len(set(reasons.values())) > 1:
            reason += ", and more"
    statistic, interval = np.nan, (np.nan, np.nan)
    if reason is None:
        statistic = float(np.nanmean(values))
    if reason is None and n_resamples:
        counts = bootstrap_counts(len(labels), n_resamples, rng)
        # Whatever order the candidates came in, the same ones are drawn in every correlation.
        counts[:, np.lexsort(keys)] = counts.copy()
        resampled = [coefficient(method, *sides, counts[:, known]) for known, sides in defined]
        interval = limits(statistic, np.array(resampled), len(labels), level, method)
    values = np.array(values, dtype=float)
    values.flags.writeable = False
    return StabilityResult(
        statistic=statistic,
        interval=interval,
        n=len(defined),
        n_undefined=len(reasons),
        reason=reason,
        kind=kind,
        method=method,
        level=float(level),
        values=values,
        pairs=tuple(comparison.pair for comparison in comparisons),
        reasons=reasons,
        names=labels,
        left_out=left_out,
    )
