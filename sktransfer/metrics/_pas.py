"""PAS: how clearly target samples fall to one source class in the feature space."""

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_consistent_length, validate_data

from ..utils._sklearn import Interval, _fit_context
from ..utils._target import Target
from ..utils._weights import check_weights
from ._base import CLASS_WEIGHT, WeightedMetric
from ._discriminant import weighted_mean
from ._permutations import chance_scores, reason_to_doubt
from ._source import check_same_width, check_source_rows, check_source_samples
from ._spectrum import power_of_two
from ._statistics import drawn_seed

_EPS = np.finfo(np.float64).eps

# Elements of a block of rows or of distances (16 MiB).
_BLOCK_ELEMENTS = 2**21

# Distances below this lose digits when taken from a scalar product, and are computed again from
# differences; below the square of a few last bits they are rounding.
_SMALL_DISTANCE = 1e-6
_SMALLEST_DISTANCE = (16 * _EPS) ** 2

# A class mean this much shorter than the rows it is the mean of has no direction but rounding.
_VANISHING = 64 * _EPS


class PAS(WeightedMetric):
    """Potential adaptability score: relative margin between the two nearest source classes.

    For every target sample the cosine distances to the class centroids of the *source* data, in
    the same feature space, are compared: with d1 <= d2 the two smallest, the sample counts
    (d2 - d1) / d2, and the score is the mean [1]_. It lies in [0, 1], higher is better: the target
    samples fall clearly to one source class each. No target labels enter.

    Without a source the centroids are those of the target itself, X and y: the score then says how
    clearly the classes of the target lie apart, on samples whose labels it has seen.

    Read more in the :ref:`User Guide <pas>`.

    Parameters
    ----------
    source_features : array-like of shape (n_source_samples, n_features), default=None
        Features of source samples, by the same network.
    source_labels : array-like of shape (n_source_samples,), default=None
        Their source classes.
    source_centroids : array-like of shape (n_source_classes, n_features), default=None
        Means of the source classes in the feature space, in place of the samples.
    n_permutations : int, default=10
        Without a source: largest number of label permutations behind `chance_level_`; three are
        enough for a score far above them. 0 leaves it NaN and saves their cost.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        The mean relative margin, in [0, 1].
    chance_level_ : float
        Mean score under permuted labels; NaN with a source, where labels do not enter.
    saturated_ : bool
        Whether the score says nothing: all margins are 0, or, without a source, it can't be told
        from that of permuted labels.
    classes_ : ndarray of shape (n_classes,)
        Labels of the centroids: source labels, numbers of the given centroids, or target labels.
    centroids_ : ndarray of shape (n_classes, n_features)
        The centroids, each in a unit of its own, as only directions matter.
    seed_ : int
        Seed that was used for the permutations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score says nothing, see `saturated_`.

    See Also
    --------
    OTCE : A comparison with source data that reads the target labels.

    Notes
    -----
    The score does not change when a sample or the features are multiplied by a positive constant,
    rotated (together with the source), or extended by zero columns; it changes under shifts. A
    vector of zeros has no direction: its cosine distance to anything is 1. A margin with d2 = 0 is
    0: two centroids in the sample's own direction don't tell it anything. With a source, `fit` and
    `score` take y for the sake of a common interface and only count it. One sample is enough then.
    Cost O(n_samples n_features n_classes).

    References
    ----------
    .. [1] J. de Faria, M. Ester, R. Diniz, "PAS: Estimating the target accuracy before domain
       adaptation", ICLR 2026, arXiv:2604.09863.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktransfer.metrics import PAS
    >>> F, y = load_digits(return_X_y=True)
    >>> round(PAS(F[:900], y[:900]).fit(F[900:]).score_, 2)
    0.43
    """

    needs = "features"
    bounds = (0.0, 1.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "source_features": ["array-like", None],
        "source_labels": ["array-like", None],
        "source_centroids": ["array-like", None],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        source_features=None,
        source_labels=None,
        source_centroids=None,
        *,
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.source_features = source_features
        self.source_labels = source_labels
        self.source_centroids = source_centroids
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _has_source(self):
        return self.source_features is not None or self.source_centroids is not None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not self._has_source() or self.class_weight is not None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Compute the score of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Frozen features of the target, float32 or float64. Never changed.
        y : array-like of shape (n_samples,) or (n_samples, 1), default=None
            The target labels; required without a source and with `class_weight`. Otherwise their
            values are not read, whatever they are.
        sample_weight : array-like of shape (n_samples,), default=None
            Relative weights, of the margins and, without a source, of the samples in their
            centroids. A sample of weight 0 counts as absent. Multiplied by `class_weight`.

        Returns
        -------
        self : object
            The fitted metric; the result is in ``score_``.
        """
        source = self._source()
        if source is None:
            return self._validate_and_fit(X, y, sample_weight)
        if self.class_weight is not None:
            X, _, sample_weight = self._validate(X, y, sample_weight, minimum_samples=1)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                X = validate_data(self, X, dtype=[np.float64, np.float32])
            if y is not None:
                check_consistent_length(X, y)
            no_labels = Target("regression", outputs=np.zeros((len(X), 0)))
            X, _, sample_weight = check_weights(sample_weight, X, no_labels)
        self.classes_, centroids = source
        check_same_width(X, centroids, "PAS")
        self.seed_ = drawn_seed(self.random_state)
        self.centroids_ = centroids
        self.score_ = _mean_margin(X, _unit_rows(centroids), sample_weight)
        self.chance_level_ = float("nan")
        self._judge(self._no_margin())
        return self

    def score(self, X, y=None, sample_weight=None):
        """Evaluate the metric afresh on other data, with the same parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data of the same kind and width as in ``fit``.
        y : array-like of shape (n_samples,), default=None
            The target; required without a source and with `class_weight`.
        sample_weight : array-like of shape (n_samples,), default=None
            Relative weights.

        Returns
        -------
        score : float
            The score of the data given, higher is better.
        """
        return super().score(X, y, sample_weight)

    def _source(self):
        """Return the labels and centroids of the source classes, or None without a source."""
        features, target = check_source_samples(self.source_features, self.source_labels, "PAS")
        if features is not None and self.source_centroids is not None:
            raise ValueError(
                "Give either source_features with source_labels or source_centroids; got both."
            )
        if features is not None:
            centroids, labels = _centroids(features, target.codes), target.classes
        elif self.source_centroids is not None:
            centroids = check_source_rows(self.source_centroids, "source_centroids")
            labels = np.arange(len(centroids))
        else:
            return None
        if len(labels) < 2:
            raise ValueError("PAS needs centroids of at least 2 source classes; got 1.")
        return labels, centroids

    def _fit(self, X, target, sample_weight):
        self.classes_ = target.classes
        self.seed_ = drawn_seed(self.random_state)
        self.centroids_ = _centroids(X, target.codes, sample_weight)

        def score_of(codes, weight):
            return _mean_margin(X, _unit_rows(_centroids(X, codes, weight)), weight)

        self.score_ = score_of(target.codes, sample_weight)
        chance = chance_scores(
            score_of, self.score_, X, target.codes, self.seed_, self.n_permutations, sample_weight
        )
        self.chance_level_ = float(np.mean(chance)) if chance else float("nan")
        reason = reason_to_doubt(self.score_, chance, 1.0)
        if len(target.classes) == len(X):
            reason = "every class has a single sample"
        self._judge(self._no_margin() or reason)

    def _no_margin(self):
        return "no sample is nearer to one class than to another" if self.score_ == 0.0 else None


def _unit_rows(X):
    """Scale rows to length 1; rows of zeros stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    # Powers of two are exact, and keep squares inside the float range.
    rows = X / power_of_two(largest)
    rows = rows.astype(np.float64, copy=False)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.divide(rows, length, out=rows, where=length > 0)


def _centroids(X, codes, sample_weight=None):
    """Class means, each in a unit of its own, and zero where the rows cancel."""
    weight = np.ones(len(X)) if sample_weight is None else sample_weight / sample_weight.max()
    sizes = np.bincount(codes, weight)
    unit = power_of_two(max(abs(float(X.max())), abs(float(X.min()))))
    sums = np.zeros((len(sizes), X.shape[1]))
    lengths = np.zeros(len(sizes))
    step = max(1, _BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        block = (X[rows] / unit).astype(np.float64, copy=False)
        shape = (len(sizes), len(block))
        members = sparse.csr_array((weight[rows], (codes[rows], range(len(block)))), shape)
        sums += members @ block
        lengths += members @ np.sqrt(np.einsum("ij,ij->i", block, block))
    means = sums / sizes[:, None]
    means[np.sqrt(np.square(means).sum(axis=1)) <= _VANISHING * lengths / sizes] = 0.0
    return means


def _mean_margin(X, directions, sample_weight=None):
    margins = np.empty(len(X))
    step = max(1, _BLOCK_ELEMENTS // max(X.shape[1], len(directions)))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        first, second = _two_smallest(_unit_rows(X[rows]), directions)
        margins[rows] = np.divide(
            second - first, second, out=np.zeros_like(second), where=second > 0
        )
    return float(np.clip(weighted_mean(margins, sample_weight), 0.0, 1.0))


def _two_smallest(rows, directions):
    """Return the two smallest cosine distances of unit rows to unit directions."""
    two = np.partition(1 - rows @ directions.T, 1, axis=1)[:, :2]
    small = np.flatnonzero(two[:, 1] < _SMALL_DISTANCE)
    pairs = max(1, _BLOCK_ELEMENTS // directions.size)
    for start in range(0, len(small), pairs):
        chosen = small[start : start + pairs]
        difference = rows[chosen, None, :] - directions
        distance = 0.5 * np.einsum("ijk,ijk->ij", difference, difference)
        # A vector of zeros is at distance 1 of everything, not 1/2.
        distance[:, ~directions.any(axis=1)] = 1.0
        distance[distance < _SMALLEST_DISTANCE] = 0.0
        two[chosen] = np.partition(distance, 1, axis=1)[:, :2]
    two = np.maximum(two, 0.0)
    return two[:, 0], two[:, 1]
