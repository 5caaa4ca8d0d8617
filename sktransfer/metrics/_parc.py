"""PARC: whether samples of one class have correlated features."""

from numbers import Integral

import numpy as np

from ..utils._sklearn import Interval
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._canonical import (
    canonical_order,
    reproducible_spectrum,
    rounded_norms,
    row_order,
    row_ranks,
)
from ._permutations import Chance, permuted_targets, reason_to_doubt
from ._spectrum import power_of_two
from ._statistics import drawn_seed

# Up to so many pairs every correlation is kept and sorted; more are counted on a grid.
_MOST_SORTED_PAIRS = 2**20
# Samples whose labels are permuted; a stratified part of more.
_MOST_PERMUTED = 1448
# Correlations that differ by less than this are equal but for rounding.
_TIE = 1e-12
# Steps of the grid per unit of correlation. The score changes by about their width divided by the
# root of the number of pairs.
_GRID = 2**20
# Elements of a block of correlations (64 MiB).
_BLOCK_ELEMENTS = 2**23
# Label permutations that tell how far the score scatters by chance, and their seed.
_N_PERMUTATIONS = 10
_SEED = 0
# A standardised row whose entries vary by less than this does not vary.
_CONSTANT_ROW = 1e-9


class PARC(WeightedMetric, RowMetric):
    """Pairwise annotation representation comparison: rank correlation of two kinds of distance.

    Features are reduced to their leading principal components, each component is divided by its
    standard deviation, and one minus the correlation of two rows is the distance of two samples.
    The score is Spearman's rank correlation, over all pairs of samples, between this distance and
    that of the one-hot labels [1]_: in [-1, 1], higher is better, 0 by chance.

    Label distances take two values only, so one sort of the feature distances gives the rank
    correlation exactly, ties included. For more than about 1,400 samples the distances are counted
    on a grid of 2e-6 width instead, block by block: memory does not grow with the number of pairs,
    and the score changes by less than 1e-8.

    Read more in the :ref:`User Guide <parc>`.

    Parameters
    ----------
    n_components : int or None, default=32
        Number of principal components; fewer if the data have fewer. None takes the features
        themselves, each divided by its standard deviation.
    max_samples : int or None, default=None
        Number of samples whose pairs are compared, drawn at random with equal shares of every
        class. None takes all. The components are always those of all samples.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw; without `max_samples` nothing is random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        Rank correlation, in [-1, 1]. 0, with a warning, where it is undefined.
    chance_level_ : float
        Expected score under permuted labels: exactly 0.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    n_components_ : int
        Number of components (or features) in a row.
    n_samples_ : int
        Number of samples whose pairs were compared.
    seed_ : int
        Seed that was used.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score can't be told from that of permuted labels, as happens where there are nearly
        as many components as samples: any features are then equally far apart once standardised;
        or if all pairs have the same distance (constant features, a single component), or no two
        samples share a class.

    See Also
    --------
    HScore : The share of the class means in the feature covariance.

    Notes
    -----
    Published values are 100 times as large. The correlation of two rows takes the mean over the
    components away, so the score depends on the signs of the principal components; here the
    coefficient of largest size is positive in each. It does not depend on shifts, a common scale or
    the order of the features, but it does on a rotation. A row that is constant over the
    components has no correlation; its distance to every other is 1. Over two components a
    correlation is 1 or -1. The cost is O(n² `n_components_`) beside the decomposition, which is
    shared with other metrics.

    References
    ----------
    .. [1] D. Bolya, R. Mittapalli, J. Hoffman, "Scalable Diverse Model Selection for Accessible
       Transfer Learning", NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktransfer.metrics import PARC
    >>> F, y = load_digits(return_X_y=True)
    >>> metric = PARC().fit(F, y)
    >>> round(metric.score_, 3)
    0.27
    >>> metric = PARC(max_samples=500, random_state=0).fit(F, y)
    >>> round(metric.score_, 1), metric.n_samples_
    (0.3, 500)
    """

    needs = "features"
    bounds = (-1.0, 1.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "max_samples": [None, Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, n_components=32, max_samples=None, random_state=None, *, class_weight=None):
        self.n_components = n_components
        self.max_samples = max_samples
        self.random_state = random_state
        self.class_weight = class_weight

    def _fit_rows(self, X, target, sample_weight, moments):
        self.classes_ = target.classes
        self.seed_ = drawn_seed(self.random_state)
        self.chance_level_ = 0.0
        rows = self._standardised(X, target, sample_weight, moments)
        self.n_components_ = rows.shape[1]
        codes = target.codes
        if self.max_samples is not None and self.max_samples < len(rows):
            # As many components as samples allow leave all rows equally long but for weights.
            weight = 1.0 if self.n_components is None else np.linspace(1, 2, self.n_components_)
            ranks = row_ranks(X, rounded_norms(rows * weight))
            kept = _stratified_draw(ranks, codes, self.max_samples, self.seed_)
            rows, codes = rows[kept], codes[kept]
            sample_weight = None if sample_weight is None else sample_weight[kept]
        self.n_samples_ = len(rows)
        # Pairs weigh the product of these.
        weight = None if sample_weight is None else sample_weight / sample_weight.mean()
        directions = _unit_rows(rows)
        n_pairs = len(rows) * (len(rows) - 1) // 2
        if n_pairs <= _MOST_SORTED_PAIRS:
            every, same = _SortedPairs(directions).count(codes, weight)
        else:
            every, same = _counted_pairs(directions, codes, weight)
        self.score_ = _spearman(every, same)
        reason = self._reason(len(X), every, same)
        if reason is None:
            draws = _permuted_scores(rows, directions, codes, weight)
            reason = reason_to_doubt(self.score_, Chance.sampled(draws, 0.0), 1.0)
        self._judge(reason, "Use fewer components or more samples.")

    def _standardised(self, X, target, sample_weight, moments):
        """Return rows of components of mean zero and standard deviation one."""
        if self.n_components is None:
            return _standardise_columns(X, sample_weight)
        spectrum = reproducible_spectrum(
            X, target, moments, lambda spectrum: self.n_components, sample_weight
        )
        # In units, which stay finite for features at the ends of the float range.
        components = spectrum.coordinates(X, spectrum.directions(self.n_components))
        deviation = np.sqrt(spectrum.eigenvalues[: components.shape[1]] / len(X))
        components /= deviation
        return components

    def _reason(self, n_samples, every, same):
        if np.count_nonzero(every) == 1:
            return "all pairs of samples have the same feature distance"
        if not same.any():
            return "no two samples share a class"
        if self.n_components is not None and self.n_components_ >= 0.88 * (n_samples - 1):
            return (
                f"with {self.n_components_} components of {n_samples} samples, standardised "
                "samples are equally far apart whatever the features"
            )
        return None


def _standardise_columns(X, sample_weight):
    """Columns of mean zero and standard deviation one; constant ones become zero."""
    share = np.full(len(X), 1 / len(X))
    if sample_weight is not None:
        share = sample_weight / sample_weight.sum()
    rows = X.astype(np.float64)
    resolution = np.finfo(X.dtype).eps
    unit = power_of_two(np.abs(rows).max(axis=0))
    rows /= unit
    mean = rows.mean(axis=0) if sample_weight is None else share @ rows
    rows -= mean
    if sample_weight is None:
        deviation = np.sqrt(np.einsum("ij,ij->j", rows, rows) / len(rows))
    else:
        deviation = np.sqrt(share @ np.square(rows))
    constant = deviation <= 8 * resolution * np.abs(mean)
    rows[:, constant] = 0.0
    deviation[constant | (deviation == 0)] = 1.0
    rows /= deviation
    return rows


def _stratified_draw(ranks, codes, n_drawn, seed):
    """Draw samples so that every class keeps its share, in a way that only content decides."""
    order, classes = canonical_order(ranks, codes)
    rng = np.random.default_rng(seed)
    # Members of a class, in random order, stand at even distances on a common scale.
    position = np.empty(len(order))
    for k in range(int(classes.max()) + 1):
        members = np.flatnonzero(classes == k)
        position[members] = (rng.permutation(len(members)) + 0.5) / len(members)
    return np.sort(order[np.lexsort((classes, position))[:n_drawn]])


def _unit_rows(rows):
    """Centre each row and bring it to length one; a constant row becomes zero."""
    if rows.shape[1] == 0:
        return np.zeros((len(rows), 1))
    rows = rows - rows.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    varies = length > _CONSTANT_ROW * np.sqrt(rows.shape[1])
    rows[~varies] = 0.0
    rows[varies] /= length[varies, None]
    return rows


class _SortedPairs:
    """All pairs in ascending order of their correlation."""

    def __init__(self, directions):
        first, second = np.triu_indices(len(directions), 1)
        correlation = (directions @ directions.T)[first, second]
        order = np.argsort(correlation)
        self.first, self.second = first[order], second[order]
        steps = np.diff(correlation[order], prepend=correlation[order[0]])
        self.level = np.cumsum(steps > _TIE)
        self.every = np.bincount(self.level)

    def count(self, codes, weight=None):
        """Count (or weigh) all pairs and those of one class at each distinct correlation."""
        same = codes[self.first] == codes[self.second]
        n_levels = len(self.every)
        if weight is None:
            return self.every, np.bincount(self.level[same], minlength=n_levels)
        of_pair = weight[self.first] * weight[self.second]
        return (
            np.bincount(self.level, of_pair, minlength=n_levels),
            np.bincount(self.level[same], of_pair[same], minlength=n_levels),
        )


def _permuted_scores(rows, directions, codes, weight):
    """Scores of permuted labels, of a part of the samples if there are very many.

    The scatter of a part is larger than that of the whole, by the root of the numbers of samples
    at least.
    """
    smaller = 1.0
    if len(rows) > _MOST_PERMUTED:
        kept = _stratified_draw(row_order(rows).argsort(), codes, _MOST_PERMUTED, _SEED)
        smaller = np.sqrt(_MOST_PERMUTED / len(rows))
        rows, directions, codes = rows[kept], directions[kept], codes[kept]
        weight = None if weight is None else weight[kept]
    pairs = _SortedPairs(directions)
    return [
        smaller * _spearman(*pairs.count(*permuted))
        for permuted in permuted_targets(rows, codes, weight, _SEED, _N_PERMUTATIONS)
    ]


def _counted_pairs(directions, codes, weight=None):
    """Count (or weigh) all pairs and those of one class at each step of the grid."""
    by_class = np.argsort(codes, kind="stable")
    rows = directions[by_class] * np.sqrt(_GRID)
    class_end = np.cumsum(np.bincount(codes))[codes[by_class]]
    n_samples, n_bins = len(rows), 2 * _GRID + 2
    number = np.int64 if weight is None else np.float64
    every = np.zeros(n_bins, dtype=number)
    same = np.zeros(n_bins, dtype=number)
    weight = None if weight is None else weight[by_class]
    step = max(1, _BLOCK_ELEMENTS // n_samples)
    for start in range(0, n_samples, step):
        stop = min(start + step, n_samples)
        block = rows[start:stop] @ rows[start:].T
        # The nearest step, counted from a correlation of -1; truncation rounds down from there.
        block += _GRID + 0.5
        bins = block.astype(np.intp)
        # Every pair once: what is on and below the diagonal goes to a bin that is thrown away.
        bins[np.tril_indices(stop - start)] = n_bins - 1
        of_pair = None if weight is None else np.outer(weight[start:stop], weight[start:])
        every += np.bincount(bins.ravel(), _ravel(of_pair), minlength=n_bins).astype(number)
        within = [(i, slice(i + 1, class_end[start + i] - start)) for i in range(stop - start)]
        same += np.bincount(
            np.concatenate([bins[part] for part in within]),
            None if of_pair is None else np.concatenate([of_pair[part] for part in within]),
            minlength=n_bins,
        ).astype(number)
    return every[:-1], same[:-1]


def _ravel(array):
    return None if array is None else array.ravel()


def _spearman(every, same):
    """Spearman's rank correlation of a value and of membership, from counts at ascending values.

    Tied values share the mean of their ranks. 0 where either does not vary.
    """
    n_pairs, n_same = every.sum().item(), same.sum().item()
    # Twice the deviation of the ranks from their mean is a whole number.
    deviation = (2 * np.cumsum(every) - every - n_pairs).astype(np.float64) / 2
    of_ranks = every @ deviation**2
    of_membership = n_same * (n_pairs - n_same) / n_pairs
    if of_ranks == 0 or of_membership == 0:
        return 0.0
    correlation = (same @ deviation) / np.sqrt(of_ranks) / np.sqrt(of_membership)
    return float(np.clip(correlation, -1.0, 1.0))
