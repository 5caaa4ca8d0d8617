"""Four correlation coefficients, of many resamples or many permutations at once.

A resample is given by how often it takes each candidate. A candidate that is taken twice is tied
with itself on both sides, so that no pair of copies counts, and one matrix product with the signs
of all pairs gives the coefficient of every resample.
"""

import numpy as np

__all__ = ["METHODS", "ORDER_METHODS", "coefficient", "coefficient_of_permutations", "dense_ranks"]

METHODS = ("kendall", "weighted_kendall", "spearman", "pearson")
# These depend on the order of the values alone.
ORDER_METHODS = METHODS[:3]
_ROUNDING = 1e-14
_CELLS = 300_000  # numbers held at a time when going through permutations


def dense_ranks(values):
    """Replace values by 0, 1, 2, ... from the lowest, equal ones by the same number.

    Parameters
    ----------
    values : ndarray of shape (n_candidates,)
        Numbers without NaN.

    Returns
    -------
    ranks : ndarray of float64 of shape (n_candidates,)
        Small whole numbers.
    """
    return np.unique(values, return_inverse=True)[1].reshape(values.shape).astype(float)


def coefficient(method, x, y, counts=None):
    """Compute a coefficient for resamples of the candidates.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    x, y : ndarray of float64 of shape (n_candidates,)
        The two sides, higher is better; finite.
    counts : ndarray of float64 of shape (n_resamples, n_candidates), default=None
        How often each candidate is taken, whole numbers. None takes every one once.

    Returns
    -------
    statistic : ndarray of float64 of shape (n_resamples,)
        In [-1, 1]; NaN where all that is taken is tied on one side.
    """
    if counts is None:
        counts = np.ones((1, len(x)))
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = _BY_COUNTS[method](x, y, counts)
    defined = _varies(x, counts) & _varies(y, counts)
    perfect = np.abs(statistic) > 1 - _ROUNDING
    return np.where(defined, np.where(perfect, np.sign(statistic), statistic), np.nan)


def _varies(x, counts):
    taken = counts > 0
    highest = np.where(taken, x, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(taken, x, np.inf).min(axis=1, initial=np.inf)
    return highest > lowest


def _signs(x):
    return np.sign(x[:, None] - x[None, :])


def _tau(signs_x, signs_y, left, right):
    """Concordance divided by the geometric mean of the pairs untied in x and in y."""

    def over_pairs(matrix):
        return np.einsum("ri,ri->r", left @ matrix, right)

    return over_pairs(signs_x * signs_y) / np.sqrt(
        over_pairs(signs_x * signs_x) * over_pairs(signs_y * signs_y)
    )


def _kendall(x, y, counts):
    return _tau(_signs(x), _signs(y), counts, counts)


def _weighted_kendall(x, y, counts):
    signs_x, signs_y = _signs(x), _signs(y)
    most = int(counts.sum(axis=1).max(initial=0))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, most + 1))])
    both = 0
    for first, second in ((x, y), (y, x)):
        from_the_top = np.lexsort((second, first))[::-1]
        behind = np.cumsum(counts[:, from_the_top], axis=1).astype(int)
        before = behind - counts[:, from_the_top].astype(int)
        # Copies of a candidate take consecutive places and weigh 1 / place each.
        weights = np.empty_like(counts)
        weights[:, from_the_top] = harmonic[behind] - harmonic[before]
        both = both + _tau(signs_x, signs_y, weights, counts)
    return both / 2


def _spearman(x, y, counts):
    return _moments(_mid_ranks(x, counts), _mid_ranks(y, counts), counts)


def _pearson(x, y, counts):
    return _moments(_rescaled(x)[None], _rescaled(y)[None], counts)


def _rescaled(x):
    """Bring numbers of any size to about 1 without losing what tells them apart."""
    x = x / max(np.abs(x).max(), np.finfo(float).tiny)
    x = x - x.mean()
    return x / max(np.abs(x).max(), np.finfo(float).tiny)


def _mid_ranks(x, counts):
    """Rank within each resample, ties sharing the mean of their places."""
    _, group = np.unique(x, return_inverse=True)
    group = group.reshape(x.shape)
    members = np.zeros((len(x), group.max(initial=-1) + 1))
    members[np.arange(len(x)), group] = 1
    sizes = counts @ members
    return (np.cumsum(sizes, axis=1) - (sizes - 1) / 2)[:, group]


def _moments(x, y, counts):
    total = counts.sum(axis=1, keepdims=True)
    x = x - (counts * x).sum(axis=1, keepdims=True) / total
    y = y - (counts * y).sum(axis=1, keepdims=True) / total
    product, square_x, square_y = (
        (counts * values).sum(axis=1) for values in (x * y, x * x, y * y)
    )
    return product / (np.sqrt(square_x) * np.sqrt(square_y))


_BY_COUNTS = {
    "kendall": _kendall,
    "weighted_kendall": _weighted_kendall,
    "spearman": _spearman,
    "pearson": _pearson,
}


# -- permutations ----------------------------------------------------------------------------------


def coefficient_of_permutations(method, x, y, permutations):
    """Compute a coefficient after `y` has been dealt out anew.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    x, y : ndarray of float64 of shape (n_candidates,)
        The two sides, neither constant; finite. Dense ranks but for "pearson".
    permutations : ndarray of int of shape (n_permutations, n_candidates)
        Candidate i gets the value ``y[permutations[:, i]]``.

    Returns
    -------
    statistic : ndarray of float64 of shape (n_permutations,)
        In [-1, 1].
    """
    if method in ("spearman", "pearson"):
        if method == "spearman":
            once = np.ones((1, len(x)))
            x, y = _mid_ranks(x, once)[0], _mid_ranks(y, once)[0]
        x, y = _rescaled(x), _rescaled(y)
        x, y = x - x.mean(), y - y.mean()
        return np.clip(y[permutations] @ x / np.sqrt((x @ x) * (y @ y)), -1, 1)
    rows = max(1, _CELLS // len(x))
    tau = _kendall_dealt if method == "kendall" else _weighted_dealt
    parts = [
        tau(x, y, permutations[start : start + rows]) for start in range(0, len(permutations), rows)
    ]
    return np.clip(np.concatenate(parts), -1, 1)


def _concordance(signs_x, dealt):
    """Concordant less discordant pairs of each candidate, for each way to deal `y` out."""
    concordance = np.empty(dealt.shape)
    dealt, signs_x = dealt.astype(np.float32), signs_x.astype(np.float32)
    for candidate in range(dealt.shape[1]):
        signs_y = dealt[:, [candidate]] - dealt
        np.clip(signs_y, -1, 1, out=signs_y)  # whole numbers: their signs, only faster
        concordance[:, candidate] = signs_y @ signs_x[candidate]
    return concordance


def _kendall_dealt(x, y, permutations):
    signs_x = _signs(x)
    concordance = _concordance(signs_x, y[permutations]).sum(axis=1)
    # How many pairs are tied on a side does not depend on who is paired with whom.
    return concordance / np.sqrt((signs_x**2).sum() * (_signs(y) ** 2).sum())


def _weighted_dealt(x, y, permutations):
    signs_x, dealt = _signs(x), y[permutations]
    concordance = _concordance(signs_x, dealt)
    untied_x = (signs_x**2).sum(axis=1)
    untied_y = (_signs(y) ** 2).sum(axis=1)[permutations]
    x = np.broadcast_to(x, dealt.shape)
    n = dealt.shape[1]
    both = 0
    # Dense ranks spread by less than n, so that one number carries the order by both.
    for key in (x * n + dealt, dealt * n + x):
        from_the_top = np.argsort(-key, axis=1)
        weights = np.empty(key.shape)
        np.put_along_axis(weights, from_the_top, 1 / np.arange(1, n + 1)[None], axis=1)
        both = both + (weights * concordance).sum(axis=1) / np.sqrt(
            (weights @ untied_x) * (weights * untied_y).sum(axis=1)
        )
    return both / 2
