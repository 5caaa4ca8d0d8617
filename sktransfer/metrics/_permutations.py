"""One rule for all metrics: what a score is worth beside the scores of permuted labels.

A score says something if it lies above what labels with no relation to the features would reach,
beyond their scatter: above the point that one in a hundred of them exceeds. Where mean and spread
of such scores have closed forms they are used, otherwise some labels are permuted by a seed.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ._canonical import row_order

# Share of permuted labels that would pass for informative.
_LEVEL = 0.01
# The same where no more permutations are worth while.
_SURE = 1e-4
# Permuted labels that come this close to the largest score leave no room above them.
_CEILING = 0.99
# With fewer permutations there is no spread, and a score must exceed all of them.
_FEWEST = 3


@dataclass(frozen=True)
class Chance:
    """What permuted labels score.

    Parameters
    ----------
    mean : float
        Their mean score.
    spread : float
        The standard deviation of their scores; NaN if it is not known.
    limit : float
        A score up to here can't be told from theirs.
    """

    mean: float
    spread: float
    limit: float

    @classmethod
    def sampled(cls, scores, mean=None, *, lowest=None):
        """Learn from the scores of some permutations.

        The limit is where a further draw would lie once in a hundred times if the scores were
        normal (or the cube roots of what they gain, which is closer to it for sums of few squares),
        the ignorance of mean and spread included.

        Parameters
        ----------
        scores : sequence of float
            One score per permutation.
        mean : float, default=None
            Their expectation, where it is known exactly.
        lowest : float, default=None
            The score of no gain at all, where there is one.

        Returns
        -------
        chance : Chance or None
            None without any score or mean.
        """
        k = len(scores)
        if k == 0:
            return None if mean is None or np.isnan(mean) else cls(mean, np.nan, mean)
        scores = np.asarray(scores, dtype=np.float64)
        spread = float(scores.std(ddof=1)) if k > 1 else np.nan
        limit = float(scores.max())
        if k >= _FEWEST:
            gains = _gains(scores, lowest)
            far = _limit(gains, mean if lowest is None else None)
            limit = max(limit, far if lowest is None else lowest + far**3)
        mean = float(scores.mean()) if mean is None else mean
        return cls(mean, spread, max(limit, mean))

    @classmethod
    def exact(cls, mean, spread, largest):
        """Take mean and spread as known, of scores between 0 and a largest one.

        The limit is that of the beta distribution with this mean and spread.

        Parameters
        ----------
        mean, spread : float
            Expectation and standard deviation.
        largest : float
            The largest possible score.

        Returns
        -------
        chance : Chance
            The chance level.
        """
        limit = mean
        if spread > 0 and 0 < mean < largest:
            share, variance = mean / largest, (spread / largest) ** 2
            size = share * (1 - share) / variance - 1
            if size > 0:
                limit = largest * stats.beta.isf(_LEVEL, share * size, (1 - share) * size)
        return cls(float(mean), float(spread), float(limit))


def _gains(scores, lowest):
    """Bring scores to a scale on which they are nearly normal."""
    scores = np.asarray(scores, dtype=np.float64)
    return scores if lowest is None else np.cbrt(np.maximum(scores - lowest, 0.0))


def _limit(draws, mean=None, level=_LEVEL):
    """Where a further draw of normal numbers would lie once in a hundred times."""
    k = len(draws)
    if mean is None:
        doubt = np.sqrt(1 + 1 / k) * draws.std(ddof=1)
        return float(draws.mean() + stats.t.isf(level, k - 1) * doubt)
    return float(mean + stats.t.isf(level, k) * np.sqrt(np.square(draws - mean).mean()))


def permuted_labels(X, codes, seed, n_permutations):
    """Yield permuted labels that depend on what the rows hold and on the class sizes alone.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    seed : int
        Seed.
    n_permutations : int
        How many.

    Yields
    ------
    codes : ndarray of shape (n_samples,)
        Classes, numbered by their sizes.
    """
    if not n_permutations:
        return
    order = row_order(X)
    sizes = np.sort(np.bincount(codes))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    for _ in range(n_permutations):
        permuted = np.empty_like(labels)
        permuted[order] = rng.permutation(labels)
        yield permuted


def permuted_targets(X, codes, sample_weight, seed, n_permutations):
    """Yield permuted labels with the weights that the samples then have.

    The weight of a sample is taken apart into the mean weight of its class, which goes with the
    label, and the rest, which stays with the row: the classes keep their shares, and weights that
    are those of classes and nothing else stay so.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights.
    seed : int
        Seed.
    n_permutations : int
        How many.

    Yields
    ------
    codes : ndarray of shape (n_samples,)
        Classes, numbered by their sizes.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights.
    """
    if sample_weight is None:
        for permuted in permuted_labels(X, codes, seed, n_permutations):
            yield permuted, None
        return
    if not n_permutations:
        return
    rest, of_class, labels = split_weights(codes, sample_weight)
    # Equal rows can differ in weight.
    order = np.lexsort((np.round(rest, 9), row_order(X).argsort()))
    rng = np.random.default_rng(seed)
    for _ in range(n_permutations):
        permuted = np.empty_like(labels)
        permuted[order] = rng.permutation(labels)
        yield permuted, rest * of_class[permuted]


def split_weights(codes, sample_weight):
    """Take weights apart into those of classes and those of rows, for :func:`permuted_targets`.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each row.
    sample_weight : ndarray of shape (n_samples,)
        Positive weights.

    Returns
    -------
    rest : ndarray of shape (n_samples,)
        Weight of each row as a multiple of the mean weight of its class.
    of_class : ndarray of shape (n_classes,)
        Mean weight of the members of each class, smallest class first.
    labels : ndarray of shape (n_samples,)
        The labels in ascending order, classes numbered likewise.
    """
    sizes = np.bincount(codes)
    mean = np.bincount(codes, sample_weight) / sizes
    rank = np.lexsort((mean, sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes[rank])
    return sample_weight / mean[codes], mean[rank], labels


def scores_until_sure(score, draws, lowest=None):
    """Collect scores of permuted labels, as many as it takes to tell a score from chance.

    Parameters
    ----------
    score : float
        The score of the labels as they are.
    draws : iterable of float
        Scores of permuted labels.
    lowest : float, default=None
        The score of no gain at all, where there is one.

    Returns
    -------
    scores : list of float
        The draws. After three there are no more if the score is far beyond what they scatter.
    """
    scores = []
    for draw in draws:
        scores.append(draw)
        if len(scores) >= _FEWEST:
            gains = _gains(scores, lowest)
            # A new draw lies this far out once in ten thousand times; few draws know their spread
            # badly, and must be further away. Equal ones know nothing of it.
            far = _limit(gains, level=_SURE)
            if gains.max() > gains.min() and _gains([score], lowest)[0] > far:
                break
    return scores


def chance_scores(score_of, score, X, codes, seed, n_permutations, sample_weight=None):
    """Scores of permuted labels, as many as it takes to tell a score from chance.

    The permutations depend on what the rows hold and on the class sizes alone.

    Parameters
    ----------
    score_of : callable
        Takes codes and weights (or None), arrays of shape (n_samples,), and returns a score.
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
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights, permuted as :func:`permuted_targets` does.

    Returns
    -------
    scores : list of float
        One score per permutation.
    """
    permuted = permuted_targets(X, codes, sample_weight, seed, n_permutations)
    return scores_until_sure(score, (score_of(*target) for target in permuted))


def reason_to_doubt(score, chance, largest, *, lowest=0.0, what="labels"):
    """Say why a score can't be told from chance, if so: the one rule of all metrics.

    Of scores without any relation to the labels, 1 to 2 % pass for informative (measured over
    many kinds of data; more for random directions in place of permutations where features have
    heavy tails and classes two or three samples). How strong a signal has to be depends on the
    metric; the user guide tells.

    Parameters
    ----------
    score : float
        The score of the labels as they are.
    chance : Chance, sequence of float, or None
        What permuted labels score, or some of their scores; None if that is not known.
    largest : float
        The largest possible score.
    lowest : float, default=0.0
        The score of features that say nothing, before they adapt to any labels by chance.
    what : str, default="labels"
        What is permuted.

    Returns
    -------
    reason : str or None
        A clause, None if the score can be told from chance.
    """
    if chance is not None and not isinstance(chance, Chance):
        chance = Chance.sampled(chance)
    if chance is None:
        return None
    room = largest - lowest
    if chance.mean - lowest >= _CEILING * room:
        return f"permuted {what} score {chance.mean:.6g} of at most {largest:.6g}"
    if score <= chance.limit + 1e-12 * min(room, 1.0):
        reason = f"permuted {what} score {chance.mean:.6g}"
        if np.isfinite(chance.spread):
            reason += f" with a standard deviation of {chance.spread:.2g}"
        return reason
    return None


def trivial_reason(constant, n_classes, n_samples):
    """Say why any labels with the same class sizes have the same score, if that is plain to see.

    Parameters
    ----------
    constant : bool
        Whether the features are constant.
    n_classes, n_samples : int
        Numbers of classes and samples.

    Returns
    -------
    reason : str or None
        A clause, or None.
    """
    if constant:
        return "the features are constant, so that any labels have the same score"
    if n_classes == n_samples:
        return "every class has a single sample, so that any labels have the same score"
    return None
