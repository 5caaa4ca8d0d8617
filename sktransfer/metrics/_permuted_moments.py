"""Moments of weighted rows with permuted targets, which tell what chance scores there.

Without weights targets that have nothing to do with the features are nearly those that point in
random directions, and their scores follow from the one decomposition. With weights that differ
they are not: heavy rows have more say both in features and target.
"""

import numpy as np

from ..utils._target import Target
from ._canonical import row_order
from ._moments import FeatureMoments
from ._permutations import permuted_targets

# Permuted targets of more multiplications for each decomposition are not worth while.
_MOST_WORK = 4e9


def permuted_moments(metric, seed, n_permutations):
    """Yield moments of the rows that a metric is fitted to, with permuted targets.

    Parameters
    ----------
    metric : MomentMetric
        A metric that is being fitted to weighted rows.
    seed : int
        Seed.
    n_permutations : int
        How many; none without the rows, or where it would take too long.

    Yields
    ------
    moments : FeatureMoments
        The moments.
    """
    rows = vars(metric).get("_rows")
    if rows is None:
        return
    X, target, weight = rows
    if len(X) * min(X.shape) ** 2 > _MOST_WORK:
        return
    for permuted in permuted_weighted_targets(X, target, weight, seed, n_permutations):
        yield FeatureMoments.from_arrays(X, *permuted, copy=False)


def permuted_weighted_targets(X, target, sample_weight, seed, n_permutations):
    """Yield permuted targets of any kind with the weights that the samples then have.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    target : Target
        Their target.
    sample_weight : ndarray of shape (n_samples,)
        Positive weights. Those of classes go with the labels, others stay with the rows.
    seed : int
        Seed.
    n_permutations : int
        How many.

    Yields
    ------
    target : Target
        The permuted target.
    sample_weight : ndarray of shape (n_samples,)
        Weights.
    """
    if target.task == "classification":
        classes = np.arange(len(target.classes))
        permuted = permuted_targets(X, target.codes, sample_weight, seed, n_permutations)
        for codes, weight in permuted:
            yield Target(target.task, classes=classes, codes=codes), weight
        return
    order, rng = row_order(X), np.random.default_rng(seed)
    by_content = np.lexsort(target.outputs.T)
    for _ in range(n_permutations):
        places = np.empty_like(order)
        places[order] = by_content[rng.permutation(len(order))]
        yield target.take(places), sample_weight
