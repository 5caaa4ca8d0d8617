"""Competition ranks: how a list of scores becomes a ranking."""

import numpy as np

__all__ = ["competition_ranks"]


def competition_ranks(scores):
    """Rank scores from the highest, ties sharing the better rank: 1, 2, 2, 4.

    The rank of a score is one plus the number of scores that are higher. Ties are left as ties,
    so the result never depends on the order in which the scores are given.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
        Real numbers, higher is better, at least one. Infinite scores are ranked like any other;
        NaN stands for a candidate that has no score.

    Returns
    -------
    ranks : ndarray of int64 of shape (n_candidates,)
        1 for the highest score. All NaN share the rank that follows the last real score; they
        share rank 1 only if there is no real score at all.

    Raises
    ------
    ValueError
        If `scores` is not one-dimensional, is empty or does not hold real numbers.

    Examples
    --------
    >>> from sktransfer.evaluation import competition_ranks
    >>> competition_ranks([0.3, 0.9, float("nan"), 0.3])
    array([2, 1, 4, 2])
    """
    scores = np.asarray(scores)
    if scores.ndim != 1 or scores.shape[0] == 0:
        raise ValueError(
            "'scores' must be one-dimensional with at least one score. "
            f"Got an array of shape {scores.shape} instead."
        )
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"'scores' must hold real numbers. Got dtype {scores.dtype} instead.")
    missing = np.isnan(scores)
    ranks = np.full(scores.shape, 1 + np.count_nonzero(~missing), dtype=np.int64)
    ascending = np.sort(scores[~missing])
    # The scores to the right of the last equal one are those that are higher.
    ranks[~missing] = (
        1 + ascending.shape[0] - np.searchsorted(ascending, scores[~missing], side="right")
    )
    return ranks
