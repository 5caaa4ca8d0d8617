"""Intervals by resampling candidates, and p-values by dealing the reference out anew."""

import itertools
import math
import numbers

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from ._coefficients import coefficient, coefficient_of_permutations

__all__ = [
    "ALTERNATIVES",
    "bootstrap_counts",
    "check_resampling",
    "fewest_for_interval",
    "limits",
    "orders",
    "permutation_pvalue",
    "random_generator",
    "share_as_good",
]

ALTERNATIVES = ("two-sided", "greater", "less")
FEWEST_CANDIDATES = 5  # with fewer, not even perfect agreement rules anything out
_ROUNDING = 1e-9


def check_resampling(level, n_resamples, n_permutations=0):
    """Check the level of an interval and numbers of resamples.

    Parameters
    ----------
    level : float
        Level of the interval.
    n_resamples : int
        Resamples behind it. Of fewer than 2 / (1 - level), none is expected beyond a limit, and
        the interval would look more certain than its level.
    n_permutations : int, default=0
        Random pairings behind a p-value.
    """
    if not (isinstance(level, numbers.Real) and 0 < level < 1):
        raise ValueError(f"'level' must be between 0 and 1. Got {level!r} instead.")
    for name, count in (("n_resamples", n_resamples), ("n_permutations", n_permutations)):
        if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < 0:
            raise ValueError(f"'{name}' must be a whole number, 0 or more. Got {count!r} instead.")
    fewest = fewest_for_interval(level)
    if 0 < n_resamples < fewest:
        raise ValueError(
            f"'n_resamples' must be at least {fewest} for level={level:g}, or 0 for no interval. "
            f"Got {n_resamples!r} instead."
        )


def fewest_for_interval(level):
    """Smallest number of resamples of which one is expected beyond each limit of an interval.

    Parameters
    ----------
    level : float
        Level of the interval, in (0, 1).

    Returns
    -------
    n_resamples : int
        The number.
    """
    return math.ceil(2 / (1 - level) - 1e-6)  # 2 / (1 - 0.9) is a little more than 20


def random_generator(random_state):
    """Make a generator without touching the global one.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        A seed, a generator that is advanced, or None for fresh randomness.

    Returns
    -------
    generator : numpy.random.Generator
        To draw from.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    valid = random_state is None or isinstance(random_state, np.random.Generator)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    if not (valid or (whole and random_state >= 0)):
        raise ValueError(
            "'random_state' must be a whole number, 0 or more, a numpy generator or None. "
            f"Got {random_state!r} instead."
        )
    return np.random.default_rng(random_state)


def bootstrap_counts(n_candidates, n_resamples, rng):
    """Draw how often each candidate occurs in each resample of the same size.

    Parameters
    ----------
    n_candidates, n_resamples : int
        Their numbers.
    rng : numpy.random.Generator
        To draw from.

    Returns
    -------
    counts : ndarray of float64 of shape (n_resamples, n_candidates)
        Every row sums to the number of candidates.
    """
    even = np.full(n_candidates, 1 / n_candidates)
    return rng.multinomial(n_candidates, even, size=n_resamples).astype(float)


def limits(statistic, resampled, n_candidates, level, method):
    """Limits of the interval from the coefficients of the resamples.

    Quantiles of the resamples, taken further out than `level` alone would: a resample of n
    candidates spreads like n - 1 independent ones. Pearson's coefficient takes the quantiles of
    Student's t as well; the others don't need it, because copies of a candidate are tied and make
    the resamples more variable than fresh candidates would be.

    Parameters
    ----------
    statistic : float
        The coefficient itself.
    resampled : ndarray of float64 of shape (n_correlations, n_resamples)
        Those of the resamples, NaN where undefined; the statistic is their mean.
    n_candidates : int
        Number of candidates.
    level : float
        Of the interval.
    method : str
        Which coefficient.

    Returns
    -------
    low, high : float
        Within [-1, 1], around `statistic`.
    """
    if n_candidates < FEWEST_CANDIDATES:
        return (-1.0, 1.0)
    tail = (1 - level) / 2
    reach = ndtri(1 - tail)
    if method == "pearson":
        reach = stdtrit(n_candidates - 1, 1 - tail)
    tail = ndtr(-reach * math.sqrt(n_candidates / (n_candidates - 1)))
    # A resample with everything tied says nothing: it could have been anything.
    low = np.quantile(np.where(np.isnan(resampled), -1, resampled).mean(axis=0), tail)
    high = np.quantile(np.where(np.isnan(resampled), 1, resampled).mean(axis=0), 1 - tail)
    if abs(statistic) > 1 - _ROUNDING:
        # All resamples of a perfect agreement are perfect. How far off it may be comes from the
        # large-sample variance of Kendall's tau on the scale of Fisher's z.
        centre = math.atanh(1 - 1 / (2 * n_candidates))
        reach = ndtri((1 + level) / 2) * math.sqrt(0.437 / (n_candidates - 4))
        far = math.tanh(centre - reach)
        low, high = (min(low, far), high) if statistic > 0 else (low, max(high, -far))
    return (float(min(low, statistic)), float(max(high, statistic)))


def permutation_pvalue(method, x, y, alternative, n_permutations, rng):
    """Share of the ways to deal `y` out that agree with `x` at least as well as it does.

    Parameters
    ----------
    method : str
        Which coefficient.
    x, y : ndarray of float64 of shape (n_candidates,)
        The two sides, neither constant.
    alternative : {"two-sided", "greater", "less"}
        What counts as at least as well: by absolute value, above, or below.
    n_permutations : int
        All orders are gone through if there are no more than these, otherwise so many are drawn.
        0 for none.
    rng : numpy.random.Generator
        To draw from.

    Returns
    -------
    pvalue : float
        In (0, 1]; NaN for none.
    """
    if n_permutations == 0:
        return math.nan
    permutations, exact = orders(len(x), n_permutations, rng)
    null = coefficient_of_permutations(method, x, y, permutations)
    observed = coefficient(method, x, y)[0]
    if alternative == "two-sided":
        null, observed = np.abs(null), abs(observed)
    elif alternative == "less":
        null, observed = -null, -observed
    return share_as_good(null, observed, exact)


def orders(n, n_permutations, rng):
    """List the orders of n candidates, or draw some of them.

    Parameters
    ----------
    n : int
        How many candidates.
    n_permutations : int
        How many orders to draw, if there are more.
    rng : numpy.random.Generator
        To draw from.

    Returns
    -------
    permutations : ndarray of int of shape (n_permutations, n)
        The orders.
    exact : bool
        Whether these are all.
    """
    if n < 20 and math.factorial(n) <= n_permutations:
        return np.array(list(itertools.permutations(range(n)))), True
    return rng.permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1), False


def share_as_good(null, observed, exact):
    """Compute a p-value.

    Parameters
    ----------
    null : ndarray of shape (n_permutations,)
        What the orders give, higher is better.
    observed : float
        What was observed.
    exact : bool
        Whether all orders were gone through.

    Returns
    -------
    pvalue : float
        In (0, 1].
    """
    as_good = int(np.count_nonzero(null >= observed - _ROUNDING))
    # The order that was observed is one of those gone through; among drawn ones it is added.
    return as_good / len(null) if exact else (as_good + 1) / (len(null) + 1)
