"""Labels permuted by a seed, and what a score is worth beside the scores they get."""

import numpy as np
from scipy import stats

from ._second_moments import row_blocks
from ._spectrum import power_of_two

# A score is told apart from chance if it exceeds the mean under permuted labels by this many
# standard deviations; chance that comes this close to the largest score leaves no room.
_DEVIATIONS = 3.0
_CEILING = 0.99


def canonical_order(X):
    """Order of the rows that depends on what they hold, not on how they came.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite rows.

    Returns
    -------
    order : ndarray of shape (n_samples,), dtype intp
        Positions of the rows in that order; equal rows may change places.
    """
    low = X.min(axis=0).astype(np.float64)
    unit = power_of_two(max(abs(float(X.max())), abs(float(X.min()))))
    size = power_of_two(np.max(X.max(axis=0).astype(np.float64) / unit - low / unit))
    # A projection tells apart all rows that differ.
    projection = np.random.default_rng(0).normal(size=X.shape[1])
    keys = np.empty(len(X))
    for rows in row_blocks(*X.shape):
        block = np.ascontiguousarray(X[rows], dtype=np.float64) / unit - low / unit
        keys[rows] = np.einsum("ij,j->i", block / size, projection)
    return np.argsort(keys, kind="stable")


def chance_scores(score_of, score, X, codes, seed, n_permutations):
    """Scores of permuted labels, as many as it takes to tell a score from chance.

    The permutations depend on what the rows hold and on the class sizes alone.

    Parameters
    ----------
    score_of : callable
        Takes codes, an array of shape (n_samples,), and returns a score.
    score : float
        The score of the labels as they are.
    X : ndarray of shape (n_samples, n_features)
        The rows.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    seed : int
        Seed.
    n_permutations : int
        The largest number of permutations. After three there are no more if the score is far
        beyond what they scatter.

    Returns
    -------
    scores : list of float
        One score per permutation.
    """
    if not n_permutations:
        return []
    order = canonical_order(X)
    sizes = np.sort(np.bincount(codes))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(n_permutations):
        permuted = np.empty_like(labels)
        permuted[order] = rng.permutation(labels)
        scores.append(score_of(permuted))
        k = len(scores)
        if k > 2:
            # A new draw lies this far out once in ten thousand times; few draws know their spread
            # badly, and must be further away.
            far = stats.t.isf(1e-4, k - 1) * np.sqrt(1 + 1 / k) * np.std(scores, ddof=1)
            if score > np.mean(scores) + far:
                break
    return scores


def reason_to_doubt(score, chance_scores, largest):
    """Say why a score can't be told from chance, if so.

    Parameters
    ----------
    score : float
        The score of the labels as they are.
    chance_scores : sequence of float
        Scores of permuted labels.
    largest : float
        The largest possible score.

    Returns
    -------
    reason : str or None
        A clause, None if the score can be told from chance.
    """
    if not len(chance_scores):
        return None
    mean = float(np.mean(chance_scores))
    spread = float(np.std(chance_scores, ddof=1)) if len(chance_scores) > 1 else 0.0
    if mean >= _CEILING * largest:
        return f"permuted labels score {mean:.6g} of at most {largest:g}"
    if score <= mean + _DEVIATIONS * spread + 1e-12:
        return f"permuted labels score {mean:.6g} with a standard deviation of {spread:.2g}"
    return None
