"""Agreement of two score tables: four correlations with an interval and a p-value."""

from dataclasses import dataclass

import numpy as np

from ._coefficients import METHODS, ORDER_METHODS, coefficient, dense_ranks
from ._pairing import listed, pair_scores
from ._resampling import (
    ALTERNATIVES,
    bootstrap_counts,
    check_resampling,
    limits,
    permutation_pvalue,
    random_generator,
)

__all__ = [
    "CorrelationResult",
    "absence",
    "check_option",
    "correlate",
    "orient",
    "orientation",
    "rank_correlation",
]

NAN_POLICIES = ("propagate", "omit", "raise")
CALLED = ("the scores", "the reference")
ABSENT = ("no score for {}", "no reference value for {}")


@dataclass(frozen=True, repr=False)
class CorrelationResult:
    """How well two sets of scores agree, as returned by :func:`rank_correlation`.

    ``float(result)`` is its statistic.

    Parameters
    ----------
    statistic : float
        The coefficient, in [-1, 1], or NaN with a `reason`.
    pvalue : float
        Share of random pairings that agree at least as well, the observed one included, in (0, 1];
        NaN where the statistic is.
    interval : tuple of two float
        Limits of the bootstrap interval over candidates; NaN where the statistic is.
    n : int
        Number of candidates that were compared.
    reason : str or None
        Why the statistic is undefined; None if it is not.
    method : str
        Which coefficient.
    level : float
        Level of the interval.
    alternative : str
        Alternative of the p-value.
    names : tuple
        Candidates that were compared, in the order of the scores; positions if there are no names.
    left_out : tuple
        Candidates that were not compared.

    Examples
    --------
    >>> from sktransfer.evaluation import rank_correlation
    >>> result = rank_correlation([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    >>> result.statistic, result.reason
    (nan, 'all candidates tied in the reference')
    """

    statistic: float
    pvalue: float
    interval: tuple
    n: int
    reason: str | None
    method: str
    level: float
    alternative: str
    names: tuple
    left_out: tuple

    def __float__(self):
        return self.statistic

    def __repr__(self):
        if self.reason is None:
            low, high = self.interval
            value = (
                f"{self.statistic:.3f}, {self.level:g} interval ({low:.3f}, {high:.3f}), "
                f"pvalue={self.pvalue:.3g}"
            )
        else:
            value = f"nan, reason={self.reason!r}"
        left_out = f", left_out={self.left_out!r}" if self.left_out else ""
        return f"{type(self).__name__}({self.method}={value}, n={self.n}{left_out})"


def rank_correlation(
    scores,
    reference,
    method="kendall",
    *,
    input="scores",
    greater_is_better=True,
    names="same",
    nan_policy="propagate",
    alternative="two-sided",
    level=0.95,
    n_resamples=5000,
    n_permutations=9999,
    random_state=0,
):
    """Correlate the scores of candidates with a reference, pairing them by name.

    Parameters
    ----------
    scores, reference : mapping, series, structured array, array-like of shape (n_candidates,) \
            or ReferenceRanking
        Numbers by candidate: a mapping from name to number, or what has a method ``reference``
        that gives one, such as a :class:`~sktransfer.finetune.ReferenceRanking` (means over seeds
        of its first measure); a pandas series or a frame of one column, named by its index; a
        structured array with a field per candidate, or with a field of names and one of
        numbers; a frame of another library with such two columns. They
        are paired by name. Arrays, lists and polars series have no names: two of those are paired
        by position, and one of them with anything named is an error, unless the names are just
        the default index of a pandas series. Infinite values are ordered like any other;
        None, NaN, null and masked values stand for no number.
    method : {"kendall", "weighted_kendall", "spearman", "pearson"}, default="kendall"
        Kendall's tau-b; the weighted tau of Vigna with hyperbolic weights, in which the
        candidates at the top count most; Spearman's rho, ties sharing their mean rank; or Pearson's
        coefficient of the numbers themselves.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" if 1 is the best and larger is worse. One word holds for both sides, a pair says it
        for `scores` and `reference` in this order. It cannot be seen from the numbers,
        and the weighted tau of ranks taken for scores puts the weight on the worst candidates.
        Pearson's coefficient of ranks is Spearman's if ties share mean ranks, and close to it for
        competition ranks.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    names : {"same", "common"}, default="same"
        "same": a candidate that occurs on one side only is an error that names it. "common": it
        is left out, and listed in ``left_out``.
    nan_policy : {"propagate", "omit", "raise"}, default="propagate"
        What a candidate without a number does: the result is NaN with the reason; the candidate
        is left out, and listed in ``left_out``; or an error. Leaving out those
        that a metric failed on flatters the metric.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Of the p-value: agreement as strong in either direction, as good, or as bad.
    level : float, default=0.95
        Of the interval.
    n_resamples : int, default=5000
        Bootstrap resamples behind the interval, at least ``2 / (1 - level)``; with 0 the interval
        is NaN.
    n_permutations : int, default=9999
        Pairings behind the p-value. All of them are gone through if there are no more than these,
        which is up to 7 candidates by default; otherwise so many are drawn. With 0 the p-value is
        NaN.
    random_state : int, Generator, RandomState or None, default=0
        Seed of both. With a number the result depends neither on earlier calls nor on the
        order of the candidates.

    Returns
    -------
    result : CorrelationResult
        With ``statistic``, ``pvalue``, ``interval``, ``n``, ``reason`` and more. Where the
        coefficient is undefined it is NaN, never 0, and ``reason`` says why: fewer than two
        candidates, all candidates tied on one side, a candidate without a number, or infinite
        values in Pearson's coefficient.

    Raises
    ------
    ValueError
        If the two sides cannot be paired, a name occurs twice, a value is no number, ranks are
        below 1, a parameter is not one of its values, or there are too few resamples for `level`.

    See Also
    --------
    selection_regret : What a choice by the scores costs.
    stability_ref : The mean over repeats of the scores.

    Notes
    -----
    The interval answers: within which range could the agreement lie on average over other
    candidates drawn like these? It takes quantiles of resampled candidates, a little further out
    than the level (see the user guide, :ref:`evaluation`, for its measured coverage). With fewer
    than five candidates it is (-1, 1).

    Time grows with the square of the number of candidates.

    References
    ----------
    .. [1] M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945).
    .. [2] S. Vigna, A weighted correlation index for rankings with ties, WWW (2015).
    .. [3] B. Phipson and G. K. Smyth, Permutation P-values should never be zero, Statistical
       Applications in Genetics and Molecular Biology 9 (2010).

    Examples
    --------
    >>> from sktransfer.evaluation import rank_correlation
    >>> logme = {"a": 0.90, "b": 0.85, "c": 0.80, "d": 0.60, "e": 0.50, "f": 0.40}
    >>> accuracy = {"f": 0.30, "e": 0.40, "d": 0.72, "c": 0.70, "b": 0.91, "a": 0.88}
    >>> result = rank_correlation(logme, accuracy, "weighted_kendall")
    >>> round(result.statistic, 4), result.n
    (0.6599, 6)
    >>> result
    CorrelationResult(weighted_kendall=0.660, 0.95 interval (..., 1.000), pvalue=0.0..., n=6)
    """
    check_option("method", method, METHODS)
    check_option("nan_policy", nan_policy, NAN_POLICIES)
    check_option("alternative", alternative, ALTERNATIVES)
    check_resampling(level, n_resamples=n_resamples, n_permutations=n_permutations)
    flips = orientation(input, greater_is_better)
    pair = pair_scores(scores, reference, names)
    orient(pair, flips)
    # One stream each, so that the p-value is the same without an interval.
    for_interval, for_pvalue = random_generator(random_state).spawn(2)
    pair, statistic, reason, sides = correlate(pair, method, flips, nan_policy)
    pvalue, interval = np.nan, (np.nan, np.nan)
    if reason is None:
        x, y = sides
        # In one order whatever order the candidates came in; equal ones are interchangeable.
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
        if n_resamples:
            counts = bootstrap_counts(len(x), n_resamples, for_interval)
            resampled = coefficient(method, x, y, counts)
            interval = limits(statistic, resampled[None], len(x), level, method)
        pvalue = permutation_pvalue(method, x, y, alternative, n_permutations, for_pvalue)
    return CorrelationResult(
        statistic=statistic,
        pvalue=float(pvalue),
        interval=tuple(float(limit) for limit in interval),
        n=len(pair.x),
        reason=reason,
        method=method,
        level=float(level),
        alternative=alternative,
        names=pair.labels,
        left_out=pair.left_out,
    )


# -- shared with the stabilities -------------------------------------------------------------------


def check_option(name, value, options):
    """Check that a parameter is one of its values.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What was given.
    options : tuple of str
        What it may be.
    """
    if not (isinstance(value, str) and value in options):
        raise ValueError(f"'{name}' must be one of {list(options)}. Got {value!r} instead.")


def orientation(input, greater_is_better=True):
    """Tell which sides have to be turned round for higher to be better.

    Parameters
    ----------
    input : str or pair of str
        "scores" or "ranks", for both or for each.
    greater_is_better : bool, default=True
        Of the reference.

    Returns
    -------
    flips : tuple of two str or None
        "ranks", "loss" or None per side.
    """
    kinds = (input, input) if isinstance(input, str) else tuple(input) if _is_pair(input) else ()
    if len(kinds) != 2 or not all(kind in ("scores", "ranks") for kind in kinds):
        raise ValueError(
            f"'input' must be 'scores' or 'ranks', or a pair of them. Got {input!r} instead."
        )
    if not isinstance(greater_is_better, (bool, np.bool_)):
        raise ValueError(
            f"'greater_is_better' must be True or False. Got {greater_is_better!r} instead."
        )
    if not greater_is_better and kinds[1] == "ranks":
        raise ValueError(
            "'greater_is_better' must be True for a reference of ranks: rank 1 is the best."
        )
    first, second = ("ranks" if kind == "ranks" else None for kind in kinds)
    return (first, second if greater_is_better else "loss")


def _is_pair(value):
    return isinstance(value, (tuple, list)) and all(isinstance(kind, str) for kind in value)


def orient(pair, flips, arguments=("scores", "reference")):
    """Check that what is given as ranks can be ranks.

    Parameters
    ----------
    pair : Pair
        As paired.
    flips : tuple
        From :func:`orientation`.
    arguments : tuple of two str, default=("scores", "reference")
        What the parameters are called.
    """
    sides = ((pair.x, pair.x_missing), (pair.y, pair.y_missing))
    for (values, missing), flip, argument in zip(sides, flips, arguments, strict=True):
        known = values[~missing]
        if flip == "ranks" and not np.all((known >= 1) & (known < np.inf)):
            raise ValueError(
                f"'{argument}' was said to be ranks, which start at 1 for the best. "
                f"Got values between {known.min()} and {known.max()}."
            )


def correlate(pair, method, flips, nan_policy, called=CALLED, absent=ABSENT):
    """Compute one coefficient, or say why there is none.

    Parameters
    ----------
    pair : Pair
        Two sides.
    method : str
        Which coefficient.
    flips : tuple
        From :func:`orientation`.
    nan_policy : str
        For candidates without a number.
    called : tuple of two str, default=CALLED
        What the sides are called in a reason.
    absent : tuple of two str, default=ABSENT
        The reason for candidates without a number on a side, "{}" standing for them.

    Returns
    -------
    pair : Pair
        Without the candidates that were left out.
    statistic : float
        The coefficient or NaN.
    reason : str or None
        Why it is NaN.
    sides : tuple of two ndarray of float64 or None
        What was correlated, higher is better.
    """
    if pair.missing.any():
        reason = absence(pair, absent)
        if nan_policy == "raise":
            raise ValueError(f"{reason[0].upper()}{reason[1:]}; nan_policy='raise' forbids it.")
        if nan_policy == "propagate":
            return pair, np.nan, reason, None
        pair = pair.select(~pair.missing)
    if len(pair.x) < 2:
        return pair, np.nan, f"fewer than 2 candidates ({len(pair.x)})", None
    ranks = dense_ranks(pair.x), dense_ranks(pair.y)
    constant = [side for side, rank in zip(called, ranks, strict=True) if not rank.any()]
    if constant:
        return pair, np.nan, f"all candidates tied in {' and '.join(constant)}", None
    if method in ORDER_METHODS:
        sides = tuple(-r if flip else r for r, flip in zip(ranks, flips, strict=True))
    else:
        infinite = np.isinf(pair.x) | np.isinf(pair.y)
        if infinite.any():
            labels = [name for name, is_so in zip(pair.labels, infinite, strict=True) if is_so]
            reason = f"infinite values have no Pearson correlation ({listed(labels)})"
            return pair, np.nan, reason, None
        values = (_as_floats(pair.x), _as_floats(pair.y))
        sides = tuple(-v if flip else v for v, flip in zip(values, flips, strict=True))
    # The same to the last digit in whatever order the candidates came.
    order = np.lexsort(sides)
    return pair, float(coefficient(method, *(s[order] for s in sides))[0]), None, sides


def _as_floats(values):
    """Convert numbers so that whole ones too large for floats still differ."""
    if values.dtype.kind not in "iu":
        return values.astype(float)
    lowest = int(values.min())
    return np.array([int(value) - lowest for value in values], dtype=float)


def absence(pair, absent=ABSENT):
    """Say which candidates have no number.

    Parameters
    ----------
    pair : Pair
        Two sides.
    absent : tuple of two str, default=ABSENT
        Sentences for the sides, "{}" standing for the candidates.

    Returns
    -------
    reason : str
        Empty if all have one.
    """
    said = []
    for sentence, missing in zip(absent, (pair.x_missing, pair.y_missing), strict=True):
        if missing.any():
            names = [name for name, lost in zip(pair.labels, missing, strict=True) if lost]
            said.append(
                sentence.replace(
                    "{}", f"{listed(names)} ({len(names)} of {len(missing)} candidates)", 1
                )
            )
    return "; ".join(said)
