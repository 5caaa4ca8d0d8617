"""LP: how well neighbours in a learned projection predict the labels."""

from numbers import Integral

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from ..utils._sklearn import Interval
from ._base import RowMetric
from ._canonical import canonical_order, rounded_norms, row_ranks
from ._nca import neighbourhood_components
from ._permutations import Chance, reason_to_doubt, scores_until_sure, trivial_reason
from ._spectrum import power_of_two
from ._statistics import drawn_seed

# A projection does not move any more when the features are larger or smaller than this.
_LARGEST_SIZE = 2.0**100


class LP(RowMetric):
    """Label prediction by neighbours after neighbourhood components analysis, cross-fitted.

    A linear projection of the features is learned by neighbourhood components analysis (NCA), and
    the share of a sample's nearest neighbours there that have its label is the probability of its
    label; the score is the mean over samples [1]_: in [0, 1], higher is better.

    By default both are fitted on all folds but the one that is scored. The published score
    (`in_sample`) is that of the very samples the projection was fitted to, each of which is also
    one of its own neighbours: random labels of three classes then score near 0.6. Leaving a sample
    out of its neighbours does not cure that, since the projection has seen its label.

    Read more in the :ref:`User Guide <lp>`.

    Parameters
    ----------
    n_components : int, default=50
        Dimensions of the projection; never more than the features have, nor more than the smallest
        set the projection is fitted to has samples, less one.
    n_neighbors : int, default=5
        Neighbours; never more than there are samples to choose from.
    in_sample : bool, default=False
        Whether to fit and score on the same samples, as published.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of the projection's start for many features.
    n_folds : int, default=5
        Number of folds; never more than samples. Each class is spread over them as evenly as
        possible; a class may have fewer members than folds.
    max_iter : int, default=50
        Largest number of iterations of NCA.
    n_permutations : int, default=10
        In-sample: largest number of label permutations behind `chance_level_`, each with a
        projection of its own; three are enough for a score far above them. 0 leaves it NaN and
        saves their cost.

    Attributes
    ----------
    score_ : float
        Mean probability of the labels, in [0, 1].
    chance_level_ : float
        Expected score of predictions that are independent of the labels, from the shares of the
        classes among the samples and among the predictions; in-sample the mean score under permuted
        labels.
    n_components_ : int
        Dimensions of the projection.
    n_neighbors_ : int
        Neighbours used.
    n_folds_ : int
        Folds used; 1 in-sample.
    converged_ : bool
        Whether NCA converged on every fold in fewer than `max_iter` iterations. The limit is part
        of the definition.
    saturated_ : bool
        Whether the score can't be told from chance.
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
        If the score can't be told from chance, or any labels have the same score: the features are
        constant, every class has a single sample, all samples are neighbours, or, in-sample, the
        one neighbour of a sample is the sample itself.

    See Also
    --------
    NLEEP : Clusters that are found without labels in place of neighbours.

    Notes
    -----
    A sample that is the only one of its class can't be predicted from others and counts 0.

    NCA depends on the scale of the features: it does nothing for large ones. The cross-fitted score
    takes them at a total variance of one, where it works best, and so does not depend on shifts,
    rotations and a common scale. In-sample they are taken as they come, as published. The
    projection starts from the leading principal components in both (published code from
    discriminant components where there are more classes than `n_components`).

    The cost is up to `max_iter` iterations of O(n² n_components) per fold, with one matrix of
    n x n float64 and one of bool in memory (0.9 GB for 10,000 samples).

    References
    ----------
    .. [1] D. Juodelyte et al., "On dataset transferability in medical image classification", 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import LP
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = LP(random_state=0).fit(F, y)
    >>> metric.score_ > 0.9, round(metric.chance_level_, 2)
    (True, 0.33)
    >>> metric.n_components_
    4
    """

    needs = "features"
    bounds = (0.0, 1.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "in_sample": ["boolean"],
        "random_state": ["random_state"],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=50,
        n_neighbors=5,
        in_sample=False,
        random_state=None,
        *,
        n_folds=5,
        max_iter=50,
        n_permutations=10,
    ):
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.in_sample = in_sample
        self.random_state = random_state
        self.n_folds = n_folds
        self.max_iter = max_iter
        self.n_permutations = n_permutations

    def _fit_rows(self, X, target, sample_weight, moments):
        self.classes_ = target.classes
        self.seed_ = drawn_seed(self.random_state)
        rows, classes = _canonical_rows(X, target.codes, moments, unit_variance=not self.in_sample)
        fold, self.n_folds_ = self._folds(classes)
        if self.in_sample:
            pairs = [(fold == 0, fold == 0)]
        else:
            pairs = [(fold != k, fold == k) for k in range(self.n_folds_)]
        smallest = min(int(fitted.sum()) for fitted, _ in pairs)
        self.n_components_ = max(1, min(self.n_components, rows.shape[1], smallest - 1))
        self.n_neighbors_ = min(self.n_neighbors, smallest)
        self.converged_ = True
        constant = not rows.any()
        reason = trivial_reason(constant, len(self.classes_), len(rows))
        if self.n_neighbors_ == smallest:
            reason = reason or (
                f"all {smallest} samples that it could be predicted from are neighbours of a "
                "sample, so that any labels have the same score"
            )
        elif self.in_sample and self.n_neighbors_ == 1:
            reason = reason or (
                "every sample is its own only neighbour, so that any labels have the same score"
            )
        by_chance = _expected_by_chance(classes, pairs)
        if constant:
            self.score_ = self.chance_level_ = by_chance
        else:
            predicted = self._predict(rows, classes, pairs)
            self.score_ = _mean_own(predicted, classes)
            chance = None
            if not self.in_sample:
                chance = _chance_of(predicted, classes, by_chance)
            elif reason is None:
                chance = Chance.sampled(self._permuted_scores(rows, classes, pairs))
            elif self.n_permutations:
                chance = Chance.sampled([self.score_])
            self.chance_level_ = float("nan") if chance is None else chance.mean
            reason = reason or reason_to_doubt(self.score_, chance, 1.0)
        self._judge(reason)

    def _permuted_scores(self, rows, classes, pairs):
        """In-sample scores of permuted labels, all in canonical order."""
        converged = self.converged_
        rng, labels = np.random.default_rng(self.seed_), np.sort(classes)
        permuted = (rng.permutation(labels) for _ in range(self.n_permutations))
        scores = scores_until_sure(
            self.score_, (_mean_own(self._predict(rows, p, pairs), p) for p in permuted)
        )
        self.converged_ = converged
        return scores

    def _folds(self, classes):
        """Deal each class out to the folds in turn, in an order drawn at random."""
        if self.in_sample:
            return np.zeros(len(classes), dtype=np.intp), 1
        n_folds = min(self.n_folds, len(classes))
        rng = np.random.default_rng(self.seed_)
        fold = np.empty(len(classes), dtype=np.intp)
        dealt = 0
        for k in range(int(classes.max()) + 1):
            members = np.flatnonzero(classes == k)
            fold[rng.permutation(members)] = (dealt + np.arange(len(members))) % n_folds
            dealt += len(members)
        return fold, n_folds

    def _predict(self, rows, classes, pairs):
        """Share of each class among the neighbours of every sample."""
        predicted = np.zeros((len(rows), int(classes.max()) + 1))
        for fitted, scored in pairs:
            train, labels, test = rows[fitted], classes[fitted], rows[scored]
            centre = train.mean(axis=0)
            # Without a second class or any spread there is nothing to learn a projection from.
            if labels.min() < labels.max() and np.square(train - centre).any():
                projection, converged = neighbourhood_components(
                    train,
                    labels,
                    self.n_components_,
                    max_iter=self.max_iter,
                    random_state=self.seed_,
                )
                self.converged_ &= converged
                train, test = train @ projection.T, test @ projection.T
            neighbours = KNeighborsClassifier(self.n_neighbors_).fit(train, labels)
            predicted[np.ix_(scored, neighbours.classes_)] = neighbours.predict_proba(test)
        return predicted


def _mean_own(predicted, classes):
    """Mean share of the sample's own class."""
    return float(min(predicted[np.arange(len(classes)), classes].mean(), 1.0))


def _chance_of(predicted, classes, by_chance):
    """Mean and spread of the score if the predictions were given and the labels permuted.

    Classes that are predicted more often than they occur count for what they are. `by_chance` is
    the mean for predictions in the shares of the training sets, where the labels of a fold are a
    little rarer than in the fold.
    """
    n_samples = len(classes)
    share = np.bincount(classes, minlength=predicted.shape[1]) / n_samples
    often = predicted.mean(axis=0)
    deviation = predicted - often
    deviation -= (deviation @ share)[:, None]
    # The variance of a sum over a random assignment.
    variance = (np.square(deviation) @ share).sum() / max(n_samples - 1, 1) / n_samples
    mean = float(np.clip(by_chance + share @ (often - share), 0.0, 1.0))
    return Chance.exact(mean, float(np.sqrt(variance)), 1.0)


def _canonical_rows(X, codes, moments, *, unit_variance):
    """Centre the features and order the samples by content; return them and their classes."""
    order = np.argsort(row_ranks(X), kind="stable")
    codes = codes[order]
    if len(X) <= X.shape[1]:
        # The same distances in as many coordinates as the samples span.
        spectrum = moments().spectrum
        unit = spectrum.unit
        rows = spectrum.coordinates(X, spectrum.directions(None))[order]
        # Axes that follow the rows in their order: those of equal variance could be any.
        axes, triangle = np.linalg.qr(rows.T)
        rows = rows @ (axes * np.where(np.diagonal(triangle) < 0, -1.0, 1.0))
        if rows.shape[1] == 0:
            rows = np.zeros((len(rows), 1))
    else:
        rows = np.ascontiguousarray(X[order], dtype=np.float64)
        unit = power_of_two(np.abs(rows).max())
        rows /= unit
        mean = rows.mean(axis=0)
        constant = (rows == rows[0]).all(axis=0)
        rows -= mean
        rows[:, constant] = 0.0
    deviation = np.sqrt(np.square(rows).sum() / len(rows))
    if deviation > 0:
        size = 1.0 if unit_variance else np.clip(deviation * unit, 1 / _LARGEST_SIZE, _LARGEST_SIZE)
        order, classes = canonical_order(row_ranks(rows, rounded_norms(rows / deviation)), codes)
        return rows[order] * (size / deviation), classes
    order, classes = canonical_order(row_ranks(rows), codes)
    return rows[order], classes


def _expected_by_chance(classes, pairs):
    """Chance that a sample and one it is predicted from, drawn at random, share the class."""
    n_classes = int(classes.max()) + 1
    total = 0.0
    for fitted, scored in pairs:
        counts, scored_counts = (
            np.bincount(classes[rows], minlength=n_classes) for rows in (fitted, scored)
        )
        total += (scored_counts @ counts) / counts.sum()
    return float(total / len(classes))
