"""Who is chosen by the scores, and what that is worth when the reference is dealt out anew."""

import numpy as np
from scipy.special import gammaln

__all__ = ["choice_of_permutations", "top"]


def top(score, scored, k):
    """Find the candidates that are chosen for certain, and those tied for the remaining places.

    Parameters
    ----------
    score : ndarray of shape (n_candidates,)
        Scores, higher is better.
    scored : ndarray of bool of shape (n_candidates,)
        Which of them count, at least `k`.
    k : int
        How many are chosen.

    Returns
    -------
    certain, tied : ndarray of bool of shape (n_candidates,)
        No candidate is in both.
    """
    limit = np.sort(score[scored])[-k]
    certain, tied = scored & (score > limit), scored & (score == limit)
    if np.count_nonzero(certain | tied) == k:
        return certain | tied, np.zeros_like(tied)
    return certain, tied


def choice_of_permutations(choice, score, value, k, permutations):
    """Compute the worth of choosing k candidates after the reference has been dealt out anew.

    Parameters
    ----------
    choice : {"top_k", "regret", "relative_top_k"}
        What to compute.
    score : ndarray of float64 of shape (n_candidates,)
        Scores, higher is better; NaN for a candidate that is never chosen. At least `k` numbers.
    value : ndarray of float64 of shape (n_candidates,)
        Reference values, higher is better; finite. Losses are negative, and for a ratio not 0.
    k : int
        How many are chosen.
    permutations : ndarray of int of shape (n_permutations, n_candidates)
        Candidate i gets the value ``value[permutations[:, i]]``.

    Returns
    -------
    worth : ndarray of float64 of shape (n_permutations,)
        The mean over the ways to break ties among the scores.
    """
    certain, tied = top(score, ~np.isnan(score), k)
    places, n_tied = k - np.count_nonzero(certain), np.count_nonzero(tied)
    if choice == "top_k":
        good = (value >= np.sort(value)[-k])[permutations]
        found, n_good = good[:, certain].sum(axis=1), good[:, tied].sum(axis=1)
        recall = np.zeros(len(permutations))
        for more in range(places + 1):
            ways = _ways(n_good, more) + _ways(n_tied - n_good, places - more)
            chance = np.exp(ways - _ways(n_tied, places))
            recall += chance * np.minimum(found + more, k) / k
        return recall
    best, dealt = value.max(), value[permutations]
    chosen = dealt[:, certain].max(axis=1, initial=-np.inf, keepdims=True)
    chance = np.ones(1)
    if places:
        # The j-th lowest is the best of those drawn in C(j - 1, places - 1) ways.
        among = np.sort(dealt[:, tied], axis=1)[:, places - 1 :]
        chosen = np.maximum(chosen, among)
        chance = np.exp(_ways(np.arange(places - 1, n_tied), places - 1) - _ways(n_tied, places))
    if choice == "regret":
        worth = best - chosen
    else:  # losses were turned round, and both are negative
        worth = chosen / best if best > 0 else best / chosen
    return worth @ chance


def _ways(n, k):
    """Logarithm of the number of ways to take k of n; -inf where there are none."""
    n = np.asarray(n)
    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 0), np.where(possible, k, 0)
    return np.where(possible, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)
