"""What a leave-one-out vote of neighbours scores by chance."""

import numpy as np
from scipy.stats import binom


def vote_chance(sizes, k, weights=None):
    """Return the expected leave-one-out accuracy of a vote of k when labels are permuted.

    The votes are a draw without replacement from the other labels, which is what independent
    binomial counts of the classes are, given that they sum to k.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes,)
        Number of samples of each class.
    k : int
        Number of neighbours.
    weights : ndarray of shape (n_classes,), default=None
        What the samples of each class weigh together; None for their number.

    Returns
    -------
    chance : float
        Probability that a sample's own label wins, 1 / m where m labels share the win.
    """
    n_samples = int(sizes.sum())
    weights = sizes if weights is None else weights
    if k == 1:
        return float((weights * (sizes - 1.0)).sum() / (weights.sum() * (n_samples - 1.0)))
    kinds, kind, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    shares = np.bincount(kind, weights) / weights.sum()
    rate = k / (n_samples - 1)
    if rate >= 1.0:  # everyone votes: a sample's own label has one vote less than its size
        own = kinds - 1
        credit = np.zeros(len(kinds))
        for i, votes in enumerate(own):
            others = np.repeat(kinds, counts - (np.arange(len(kinds)) == i))
            if votes and votes >= others.max(initial=0):
                credit[i] = 1 / (1 + (others == votes).sum())
        return float(shares @ credit)
    total = 0.0
    for votes in range(1, min(k, int(kinds[-1]) - 1) + 1):
        # E[1 / (1 + ties)] is the integral over s in [0, 1] of E[s ** ties], a polynomial in s.
        nodes, node_weights = np.polynomial.legendre.leggauss(k // votes + 1)
        s, node_weights = (nodes + 1) / 2, node_weights / 2
        fewer = np.arange(votes + 1)
        table = []
        for size in kinds:
            pmf = np.zeros((len(s), k + 1))
            pmf[:, : votes + 1] = binom.pmf(fewer, size, rate)[: k + 1]
            pmf[:, votes] *= s
            table.append(pmf)
        one = np.zeros((len(s), k + 1))
        one[:, 0] = 1.0
        all_but_one = [_power(pmf, m - 1) for pmf, m in zip(table, counts, strict=True)]
        whole = [_multiply(a, b) for a, b in zip(all_but_one, table, strict=True)]
        before = [one]
        for factor in whole:
            before.append(_multiply(before[-1], factor))
        after = one
        for i in range(len(kinds) - 1, -1, -1):
            others = _multiply(_multiply(before[i], after), all_but_one[i])[:, k - votes]
            win = binom.pmf(votes, kinds[i] - 1, rate) * (node_weights @ others)
            total += win * shares[i]
            after = _multiply(after, whole[i])
    return float(total / binom.pmf(k, n_samples - 1, rate))


def _multiply(a, b):
    """Product of polynomials given row by row, cut off at their common degree."""
    product = np.zeros_like(a)
    for degree in range(a.shape[1]):
        if b[:, degree].any():
            product[:, degree:] += a[:, : a.shape[1] - degree] * b[:, [degree]]
    return product


def _power(base, exponent):
    result = np.zeros_like(base)
    result[:, 0] = 1.0
    while exponent:
        if exponent & 1:
            result = _multiply(result, base)
        base = _multiply(base, base)
        exponent >>= 1
    return result
