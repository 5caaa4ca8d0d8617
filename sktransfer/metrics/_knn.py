"""KNN: how well the nearest neighbours of a sample tell its target, each sample left out."""

from numbers import Integral

import numpy as np

from ..exceptions import ConstantTargetWarning, UninformativeScoreWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, WeightedMetric
from ._canonical import row_order
from ._discriminant import weighted_mean
from ._permutations import Chance, permuted_targets, reason_to_doubt
from ._spectrum import power_of_two
from ._vote_chance import vote_chance

# Elements of a block of distances (32 MiB in float64).
_BLOCK_ELEMENTS = 2**22

# Distances that differ by less, relative to their own size or to the last bits of the rows, are
# equal: what a change of unit or a rotation may do to them must not decide a vote.
_RELATIVE_TIE = 1e-11
_EPS = np.finfo(np.float64).eps

# Permutations of the target that tell how far the score scatters by chance, and their seed.
_N_PERMUTATIONS = 10
_SEED = 0


class KNN(WeightedMetric):
    """Leave-one-out accuracy (or R²) of the nearest neighbours in the feature space.

    Every sample is predicted from the `n_neighbors` other samples at the smallest Euclidean
    distance. For labels the score is the share of samples whose label wins the vote, in [0, 1];
    for regression it is the leave-one-out coefficient of determination, at most 1. Higher is
    better. A baseline that every other metric should be compared with.

    Nothing is left to the order of the rows or the names of the labels. Samples at the same
    distance as the last neighbour share the votes that are left equally, and a sample counts
    1 / m if its label shares the win with m - 1 others: the expected accuracy under ties broken at
    random. A sample is never its own neighbour, and a duplicate of it may be.

    Read more in the :ref:`User Guide <knn>`.

    Parameters
    ----------
    n_neighbors : int, default=1
        Number of neighbours; all others if there are fewer.
    task : {"auto", "classification", "regression"}, default="auto"
        What the target is. "auto" takes 1-D integers, strings and whole floats for class labels,
        and all other numbers for regression.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        Accuracy in [0, 1], or the mean of `scores_`.
    chance_level_ : float
        Exact expectation of the score under permuted targets; with weights that are not those of
        classes alone, nearly so. For labels as if no two distances were equal.
    scores_ : ndarray of shape (n_outputs,)
        R² of each output, 1 - sum (t - prediction)² / sum (t - mean of the others)², the terms
        weighted; regression only. NaN for a constant output.
    correlations_ : ndarray of shape (n_outputs,)
        Pearson correlation of prediction and output, 0 where a prediction is constant; regression
        only. NaN for a constant output.
    n_neighbors_ : int
        Number of neighbours used, min(`n_neighbors`, n_samples - 1).
    saturated_ : bool
        Whether the score can't be told from that of permuted targets.
    classes_ : ndarray of shape (n_classes,)
        Class labels; only for a classification target.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score can't be told from that of permuted targets.
    ConstantTargetWarning
        If a regression output is constant; it is left out of the mean.

    See Also
    --------
    LinearProbe : The same question asked of a linear model.

    Notes
    -----
    The score does not change when the features are shifted, rotated, multiplied by one common
    constant, or extended by constant columns. Distances within a relative 1e-11 count as equal.
    Cost O(n² D), memory bounded by one float64 copy of the features and blocks of 32 MiB.

    Weights are those of the questions, not of the answers: the score is a weighted mean over the
    samples that are predicted, while neighbours have one vote each. So a weight of two is not the
    same as a repeated sample, which would be its own twin's nearest neighbour. With
    ``class_weight="balanced"`` the score is the leave-one-out balanced accuracy. A sample of weight
    0 is absent, as a neighbour too.

    Published versions [1]_ differ where there are duplicates (the first sorted neighbour is taken
    for the sample itself) and ties (all different votes count as a share of right neighbours, or
    the smallest label wins).

    References
    ----------
    .. [1] D. Bolya, R. Mittapalli, J. Hoffman, "Scalable Diverse Model Selection for Accessible
       Transfer Learning", NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import KNN
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = KNN().fit(F, y)
    >>> round(metric.score_, 2), round(metric.chance_level_, 3)
    (0.96, 0.329)
    """

    needs = "features"
    bounds = (-np.inf, 1.0)
    tasks = ("classification", "regression")

    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "task": [StrOptions({"auto", "classification", "regression"})],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, n_neighbors=1, *, task="auto", class_weight=None):
        self.n_neighbors = n_neighbors
        self.task = task
        self.class_weight = class_weight

    def _fit(self, X, target, sample_weight):
        n_samples = len(X)
        self.n_neighbors_ = min(int(self.n_neighbors), n_samples - 1)
        neighbours = _Neighbours(X, self.n_neighbors_)
        if target.task == "classification":
            self._score_labels(neighbours, target, sample_weight)
        else:
            self._score_numbers(neighbours, target, sample_weight)

    def _score_labels(self, neighbours, target, sample_weight):
        codes, n_classes = target.codes, len(target.classes)
        self.classes_ = target.classes
        permuted = permuted_targets(neighbours.X, codes, sample_weight, _SEED, _N_PERMUTATIONS)
        labels, weights = zip((codes, sample_weight), *permuted, strict=True)
        # Of each sample: the share of the win that goes to its own label, for every labelling.
        credit = np.empty((len(labels), len(codes)))
        all_tied = True
        for rows, votes in neighbours:
            for given, mine in zip(labels, credit, strict=True):
                mine[rows] = _own_share(given, rows, votes, n_classes)
            all_tied &= len(votes[1]) == (rows.stop - rows.start) * (len(codes) - 1)
        if sample_weight is None:
            scores = np.sort(credit, axis=1).mean(axis=1)
        else:
            scores = np.array(list(map(weighted_mean, credit, weights)))
        self.score_ = min(float(scores[0]), 1.0)
        sizes = np.bincount(codes)
        self.chance_level_ = vote_chance(
            sizes, self.n_neighbors_, np.bincount(codes, sample_weight)
        )
        reason = self._same_for_all(all_tied, len(codes), "labels")
        if reason is None and sizes.max() == 1:
            reason = "every class has a single sample, so that any labels have the same score"
        if reason is None:
            chance = Chance.sampled(scores[1:], self.chance_level_)
            reason = reason_to_doubt(self.score_, chance, 1.0)
        self._judge(reason)

    def _same_for_all(self, all_tied, n_samples, what):
        """Say why any target has this score, if it has, and make that score the chance level."""
        if self.n_neighbors_ == n_samples - 1:
            return f"every other sample is a neighbour, so that any {what} have the same score"
        if all_tied:
            self.chance_level_ = self.score_
            return (
                "all samples are at the same distance from each other, so that any "
                f"{what} have the same score"
            )
        return None

    def _score_numbers(self, neighbours, target, sample_weight):
        unit = power_of_two(np.abs(target.outputs).max(axis=0))
        t = target.outputs / unit
        t = t - np.sort(t, axis=0).mean(axis=0)
        constant = (target.outputs == target.outputs[0]).all(axis=0)
        n_samples, n_outputs = t.shape
        # The targets, and beside them the same with their rows permuted.
        order, rng = row_order(neighbours.X), np.random.default_rng(_SEED)
        columns = [t]
        by_content = t[np.lexsort(t.T)]
        for _ in range(_N_PERMUTATIONS):
            permuted = np.empty_like(t)
            permuted[order] = by_content[rng.permutation(n_samples)]
            columns.append(permuted)
        columns = np.hstack(columns)
        predicted = np.zeros_like(columns)
        spread = np.empty(n_samples)  # sum of the squared shares of the neighbours
        all_tied = True
        for rows, (query, other, weight) in neighbours:
            size = rows.stop - rows.start
            share = weight / self.n_neighbors_
            spread[rows] = np.bincount(query, weights=share**2, minlength=size)
            for k in range(columns.shape[1]):
                predicted[rows, k] = np.bincount(query, share * columns[other, k], minlength=size)
            all_tied &= len(other) == size * (n_samples - 1)
        # The mean of the others differs from a sample by n / (n - 1) times its own deviation.
        factor = (n_samples / (n_samples - 1)) ** 2
        if sample_weight is None:
            baseline = (np.square(t).sum(axis=0)) * factor
            error = np.square(columns - predicted).sum(axis=0).reshape(-1, n_outputs)
        else:
            # Weights stay with the rows when targets are permuted.
            share = sample_weight / sample_weight.sum()
            baseline = (share @ np.square(columns)).reshape(-1, n_outputs) * factor
            error = (share @ np.square(columns - predicted)).reshape(-1, n_outputs)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(constant, np.nan, 1 - error / baseline)
        self.scores_ = scores[0]
        correlations = _correlations(t, predicted[:, :n_outputs], sample_weight)
        self.correlations_ = np.where(constant, np.nan, correlations)
        # Exact without weights: targets are exchangeable under permutation.
        chance = 1 - (1 + weighted_mean(spread, sample_weight)) * (n_samples - 1) / n_samples
        self.chance_level_ = float(chance)
        if not mean_of_defined(self, "KNN"):
            self.saturated_ = True
            return
        reason = self._same_for_all(all_tied, n_samples, "targets")
        if reason is None:
            draws = scores[1:, ~constant].mean(axis=1)
            reason = reason_to_doubt(
                self.score_, Chance.sampled(draws, self.chance_level_), 1.0, what="targets"
            )
        self._judge(reason)


def _own_share(codes, rows, votes, n_classes):
    """Share of the win that goes to the label of each of some rows."""
    query, other, weight = votes
    size = rows.stop - rows.start
    count = np.bincount(
        query * n_classes + codes[other], weights=weight, minlength=size * n_classes
    ).reshape(size, n_classes)
    winning = count >= count.max(axis=1, keepdims=True) * (1 - 1e-9)
    return winning[np.arange(size), codes[rows]] / winning.sum(axis=1)


def mean_of_defined(metric, name):
    """Set `score_` to the mean of the outputs that are not constant, and announce the others.

    Parameters
    ----------
    metric : TransferabilityMetric
        A metric with `scores_`, NaN where an output is constant.
    name : str
        Its name, for messages.

    Returns
    -------
    defined : bool
        Whether any output has a score.
    """
    undefined = np.flatnonzero(np.isnan(metric.scores_))
    n_outputs = len(metric.scores_)
    if len(undefined) == n_outputs:
        metric.score_ = np.nan
        announce(
            f"{name} has no score (NaN): the variance is zero for every output of the target.",
            UninformativeScoreWarning,
        )
        return False
    if len(undefined):
        announce(
            f"{name} left out {len(undefined)} of {n_outputs} outputs that are constant: "
            f"{undefined[:10].tolist()}.",
            ConstantTargetWarning,
        )
    metric.score_ = float(np.nanmean(metric.scores_))
    return True


def _correlations(t, predicted, sample_weight):
    """Pearson correlation of each column; 0 where a column has no variance."""
    if sample_weight is None:
        t = t - t.mean(axis=0)
        p = predicted - predicted.mean(axis=0)
    else:
        root = np.sqrt(sample_weight / sample_weight.sum())[:, None]
        t = root * (t - np.average(t, axis=0, weights=sample_weight))
        p = root * (predicted - np.average(predicted, axis=0, weights=sample_weight))
    p[:, np.square(p).sum(axis=0) <= 1e-20 * np.square(t).sum(axis=0)] = 0.0
    norm = np.sqrt(np.square(t).sum(axis=0) * np.square(p).sum(axis=0))
    product = (t * p).sum(axis=0)
    return np.clip(np.divide(product, norm, out=np.zeros_like(norm), where=norm > 0), -1, 1)


class _Neighbours:
    """Yields, block by block, who votes for whom with what weight; weights sum to k.

    Distances come from a matrix product, fast and with rounding errors of a known bound. Only pairs
    whose distance the bound does not tell from that of the k-th neighbour are computed again, by
    differences, which are the same for a pair wherever it stands.
    """

    def __init__(self, X, k):
        # Powers of two keep the rows exact.
        self.unit = power_of_two(max(abs(float(X.max())), abs(float(X.min()))))
        self.X, self.k = X, k
        rows = np.empty(X.shape)
        np.divide(X, self.unit, out=rows, dtype=np.float64)
        self.norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        rows -= rows.mean(axis=0)
        self.centred = rows
        self.square = np.einsum("ij,ij->i", rows, rows)

    def __iter__(self):
        n_samples = len(self.X)
        step = max(1, _BLOCK_ELEMENTS // n_samples)
        for start in range(0, n_samples, step):
            rows = slice(start, min(start + step, n_samples))
            yield rows, self._votes(rows)

    def _votes(self, rows):
        k = self.k
        distance = self.centred[rows] @ self.centred.T
        distance *= -2
        distance += self.square
        distance += self.square[rows, None]
        index = np.arange(rows.start, rows.stop)
        distance[index - rows.start, index] = np.inf
        last = np.partition(distance, k - 1, axis=1)[:, k - 1]
        last = np.maximum(last, 0.0)
        # Errors of the product, of centring, and what counts as a tie, all as squared distances.
        bound = 8 * (self.X.shape[1] + 16) * _EPS * (3 * self.square[rows] + 2 * last)
        tie = self._tie(rows, np.sqrt(last))
        bound += 4 * tie * (np.sqrt(last) + tie)
        low, high = (last - bound)[:, None], (last + bound)[:, None]
        near = distance <= high
        query, other = np.nonzero(near)
        sure = distance[query, other] < low[query, 0]
        weight = np.ones(len(query))
        open_rows = near.sum(axis=1) > k
        unsure = open_rows[query] & ~sure
        if unsure.any():
            left = k - np.bincount(query[sure], minlength=len(near))
            weight[unsure] = self._share(rows, query[unsure], other[unsure], left)
        voting = weight > 0
        return query[voting], other[voting], weight[voting]

    def _tie(self, rows, distance):
        return _RELATIVE_TIE * distance + 8 * _EPS * (2 * self.norm[rows] + distance)

    def _share(self, rows, query, other, left):
        """Give the votes left of each query to the nearest of its candidates."""
        exact = self._exact(query + rows.start, other)
        order = np.lexsort((exact, query))
        query, exact = query[order], exact[order]
        first = np.r_[0, np.flatnonzero(np.diff(query)) + 1]
        present = query[first]
        last = np.zeros(len(left))
        last[present] = exact[first + left[present] - 1]
        tie = self._tie(rows, last)
        inside = exact < (last - tie)[query]
        tied = ~inside & (exact <= (last + tie)[query])
        n_inside = np.bincount(query[inside], minlength=len(left))
        n_tied = np.bincount(query[tied], minlength=len(left))
        share = (left - n_inside) / np.maximum(n_tied, 1)
        weight = np.zeros(len(order))
        weight[order] = np.where(inside, 1.0, np.where(tied, share[query], 0.0))
        return weight

    def _exact(self, one, two):
        distance = np.empty(len(one))
        step = max(1, _BLOCK_ELEMENTS // 2 // self.X.shape[1])
        for start in range(0, len(one), step):
            pairs = slice(start, start + step)
            difference = self.X[one[pairs]] / self.unit
            difference = difference.astype(np.float64, copy=False)
            difference -= self.X[two[pairs]] / self.unit
            np.square(difference, out=difference)
            distance[pairs] = np.sqrt(difference.sum(axis=1))
        return distance
