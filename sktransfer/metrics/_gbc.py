"""GBC: how much Gaussians fitted to the classes overlap."""

from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp

from ..exceptions import SingletonClassWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, Options, StrOptions
from ._base import CLASS_WEIGHT
from ._canonical import reproducible_spectrum
from ._class_metric import ClassMomentMetric
from ._permutations import reason_to_doubt, trivial_reason
from ._statistics import drawn_seed

# Elements of a block of averaged covariance matrices (16 MiB).
_BLOCK_ELEMENTS = 2**21


class GBC(ClassMomentMetric):
    """Gaussian Bhattacharyya coefficient: minus the summed overlap of all pairs of classes.

    A Gaussian is fitted to each class in the space of the leading principal components. The score
    is -sum_{i != j} exp(-d_ij) over ordered pairs of classes, where d_ij is the Bhattacharyya
    distance of two Gaussians [1]_. It lies in [-n_classes (n_classes - 1), 0]; higher is better,
    0 means that no two classes overlap.

    It does not change under shifts and rotations (with ``n_components=None`` and diagonal
    covariances under shifts and permutations of the features only), and under a common scale only
    as far as no variance comes near `var_floor`. Each class is taken to be one Gaussian; with fewer
    samples in a class than components even unrelated labels hardly overlap.

    Read more in the :ref:`User Guide <gbc>`.

    Parameters
    ----------
    covariance_type : {"spherical", "diagonal", "full"}, default="spherical"
        Form of the class covariances: one variance per class (the mean over the components), one
        per class and component, or a full matrix per class.
    n_components : int or None, default=64
        Number of principal components; None keeps the features themselves.
    var_floor : float, default=1e-4
        Smallest variance, in squared units of the features. It bounds each component's variance,
        or each eigenvalue of a full covariance.
    formula : {"paper", "published"}, default="paper"
        The distance of spherical Gaussians: "paper" counts the logarithm of the variance once per
        component, as the formula says, "published" once in all, as the authors' code does. For
        other covariances there is no difference.
    regularization : {"floor", "ridge"}, default="floor"
        Whether variances below `var_floor` are raised to it, or it is added to all variances.
    ddof : {0, 1}, default=0
        What is taken from the number of a class's samples in the divisor of its covariance: 0 for
        the population's, 1 for the unbiased one of some implementations. The variance of a single
        sample is 0 for both.
    n_permutations : int, default=10
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. 0 leaves it NaN and saves their cost.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        The coefficient, in [-n_classes (n_classes - 1), 0].
    log_overlap_ : float
        Logarithm of -`score_`, finite also where the score itself underflows to 0. Lower is better.
    distances_ : ndarray of shape (n_classes, n_classes)
        Bhattacharyya distances d_ij, with zeros on the diagonal.
    n_components_ : int
        Number of components used: min(n_components, n_samples - 1, n_features).
    chance_level_ : float
        Mean score under permuted labels. NaN after `partial_fit` and `fit_moments`, where there are
        no rows to permute the labels of.
    saturated_ : bool
        Whether the score says nothing of the labels, see Warns.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    seed_ : int
        Seed that was used for the permutations.
    moments_ : FeatureMoments
        The statistics of the data. Not kept when several metrics are scored together.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the overlap of every pair underflows to 0, if no pair can be told apart, if every class
        has a single sample, or if the score can't be told from that of permuted labels.
    SingletonClassWarning
        If some classes have a single sample, whose variances are `var_floor`.

    See Also
    --------
    TransRate : Another comparison of the covariances of classes, without a pairing.
    HScore : The share of the class means in the feature covariance.

    Notes
    -----
    Published variants: ``formula="published"`` and, for one implementation, ``ddof=1`` with it;
    ``n_components=None`` for those without components.

    For full covariances the floor is at least the rounding noise of the largest eigenvalue. Sample
    weights replace counts by sums of weights, but for ``ddof=1``, which counts samples.

    Cost beside the shared decomposition: O(n_samples n_features k) for the projection on k
    components, and O(n_classes**2 k) for the pairs, O(n_classes**2 k**3) with full covariances.

    References
    ----------
    .. [1] M. Pándy et al., "Transferability Estimation using Bhattacharyya Class Separability",
       CVPR 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import GBC
    >>> F, y = load_iris(return_X_y=True)
    >>> round(GBC().fit(F, y).score_, 3)
    -0.33
    >>> round(GBC("full").fit(F, y).score_, 3)
    -0.271
    """

    needs = "features"
    bounds = (-np.inf, 0.0)
    tasks = ("classification",)
    _results = (
        "score_",
        "log_overlap_",
        "distances_",
        "n_components_",
        "chance_level_",
        "saturated_",
        "classes_",
        "seed_",
    )

    _parameter_constraints: dict = {
        "covariance_type": [StrOptions({"spherical", "diagonal", "full"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "var_floor": [Interval(Real, 0, None, closed="neither")],
        "formula": [StrOptions({"paper", "published"})],
        "regularization": [StrOptions({"floor", "ridge"})],
        "ddof": [Options(Integral, {0, 1})],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        covariance_type="spherical",
        n_components=64,
        var_floor=1e-4,
        formula="paper",
        *,
        regularization="floor",
        ddof=0,
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.covariance_type = covariance_type
        self.n_components = n_components
        self.var_floor = var_floor
        self.formula = formula
        self.regularization = regularization
        self.ddof = ddof
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _score_parts(self, moments, parts, rows):
        spectrum = moments.spectrum
        n, n_features = spectrum.n_samples, spectrum.n_features
        full = self.covariance_type == "full"
        if rows is not None and self.covariance_type == "diagonal" and self.n_components:
            # Other axes would have other variances: they must not depend on the order of the rows.
            spectrum = reproducible_spectrum(
                rows.X,
                rows.target,
                lambda: moments,
                lambda _: self.n_components,
                rows.sample_weight,
            )
        if self.n_components is None:
            n_components = n_features
            # All directions lose nothing, and are fewer than the features of a wide matrix.
            directions = spectrum.directions(None) if full else None
        else:
            n_components = min(self.n_components, n - 1, n_features)
            directions = spectrum.directions(n_components)
        log_unit = float(np.log(spectrum.unit))

        def distances_of(parts, directions, origin, unit):
            return self._distances(parts, directions, origin, unit, log_unit, n_components)

        distances, sizes = distances_of(parts, directions, spectrum.mean, spectrum.unit)
        self.classes_ = moments.classes
        self.n_components_ = n_components
        self.distances_ = distances + distances.T
        self.log_overlap_, self.score_ = _overlap(distances)
        self.seed_ = drawn_seed(self.random_state)
        features, origin, unit = None, spectrum.mean, spectrum.unit
        if rows is not None and directions is not None and self.n_permutations:
            # Projected once for all permutations.
            features = spectrum.coordinates(rows.X, directions)
            directions, origin, unit = None, np.zeros(features.shape[1]), 1.0
        chance = self._chance(
            lambda permuted: _overlap(distances_of(permuted, directions, origin, unit)[0])[1],
            self.score_,
            rows,
            self.n_permutations,
            features,
        )
        self.chance_level_ = float("nan") if chance is None else chance.mean
        self._judge(self._reason(chance, sizes, spectrum.rank))
        if not self.saturated_ and (sizes == 1).any():
            announce(
                f"GBC: {int((sizes == 1).sum())} of {len(sizes)} classes have a single sample; "
                f"their variances are var_floor={self.var_floor:g}.",
                SingletonClassWarning,
            )

    def _distances(self, parts, directions, origin, unit, log_unit, n_components):
        """Upper triangle of the distances, and the class sizes."""
        full = self.covariance_type == "full"
        means, spreads, sizes = [], [], []
        for part in parts:
            mean, spread = part.mean_and_covariance(directions, origin, unit, diagonal=not full)
            spread *= part.n_samples / max(part.n_samples - self.ddof, 1)
            means.append(mean)
            spreads.append(spread)
            sizes.append(part.n_samples)
        means, spreads, sizes = np.array(means), np.array(spreads), np.array(sizes)
        log_square_unit, log_floor = 2 * log_unit, np.log(self.var_floor)
        if full:
            return self._distances_full(means, spreads, log_floor - log_square_unit), sizes
        log_variances = self._regularized(_log(spreads) + log_square_unit, log_floor)
        if self.covariance_type == "diagonal":
            return _distances_diagonal(means, log_variances, log_square_unit), sizes
        return self._distances_spherical(
            means, log_variances, log_square_unit, log_floor, n_components
        ), sizes

    def _reason(self, chance, sizes, rank):
        """Say why the score says nothing of the labels, if so."""
        worst = -float(len(sizes) * (len(sizes) - 1))
        if self.score_ == 0:
            return (
                "the overlap of every pair underflows, and all candidates that are this good tie; "
                "compare log_overlap_ or use fewer components"
            )
        if self.score_ <= worst * (1 - 1e-12):
            return "no two classes can be told apart; the features may lie below sqrt(var_floor)"
        return trivial_reason(rank == 0, len(sizes), sizes.sum()) or reason_to_doubt(
            self.score_, chance, 0.0, lowest=worst
        )

    def _regularized(self, log_variances, log_floor):
        if self.regularization == "floor":
            return np.maximum(log_variances, log_floor)
        return np.logaddexp(log_variances, log_floor)

    def _distances_spherical(self, means, log_variances, log_square_unit, log_floor, n_components):
        # Components beyond the rank have the same mean in all classes, and no variance.
        beyond = np.full((len(means), 1), np.log(max(n_components - means.shape[1], 1)) + log_floor)
        if means.shape[1] < n_components:
            log_variances = np.hstack([log_variances, beyond])
        log_variance = logsumexp(log_variances, axis=1, keepdims=True) - np.log(n_components)
        n_terms = n_components if self.formula == "paper" else 1
        distances = np.zeros((len(means), len(means)))
        for i in range(len(means) - 1):
            others = slice(i + 1, None)
            square = np.square(means[others] - means[i]).sum(axis=1, keepdims=True)
            distances[i, others] = _distance(
                square, log_variance[others], log_variance[i], log_square_unit, n_terms
            )
        return distances

    def _distances_full(self, means, covariances, log_floor):
        n_classes, k = means.shape
        distances = np.zeros((n_classes, n_classes))
        if k == 0:
            return distances
        # A floor far beyond the features, or below their rounding noise, is as good as this.
        floor = np.exp(np.clip(log_floor, -600, 600))
        eigenvalues, vectors = np.linalg.eigh(covariances)
        noise = 4 * np.finfo(np.float64).eps * max(k, 16) * eigenvalues.max()
        if self.regularization == "ridge":
            eigenvalues = np.maximum(eigenvalues, 0.0) + floor
        eigenvalues = np.maximum(eigenvalues, max(floor, noise))
        covariances = (vectors * eigenvalues[:, None, :]) @ vectors.transpose(0, 2, 1)
        half_log_det = 0.5 * np.log(eigenvalues).sum(axis=1)
        step = max(1, _BLOCK_ELEMENTS // k**2)
        for i in range(n_classes - 1):
            for start in range(i + 1, n_classes, step):
                others = slice(start, start + step)
                factor = np.linalg.cholesky((covariances[i] + covariances[others]) / 2)
                difference = (means[others] - means[i])[:, :, None]
                whitened = np.linalg.solve(factor, difference)[:, :, 0]
                log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
                distances[i, others] = np.square(whitened).sum(axis=1) / 8 + np.maximum(
                    log_det - (half_log_det[i] + half_log_det[others]) / 2, 0.0
                )
        return distances


def _overlap(distances):
    """Logarithm of the summed overlap of ordered pairs, and minus the sum itself."""
    n_classes = len(distances)
    log_overlap = float(np.log(2) + logsumexp(-distances[np.triu_indices(n_classes, 1)]))
    return log_overlap, max(0.0 - float(np.exp(log_overlap)), -float(n_classes * (n_classes - 1)))


def _log(numbers):
    with np.errstate(divide="ignore"):
        return np.log(numbers)


def _distance(square, log_a, log_b, log_square_unit, n_terms=1):
    """Bhattacharyya distances of Gaussians with independent components.

    The variances come as logarithms in original units and the squared differences of the means in
    units, so that nothing overflows on the way.
    """
    half = np.abs(log_a - log_b) / 2
    # log((a + b) / 2) less the mean of log a and log b
    excess = half + np.log1p(np.exp(-2 * half)) - np.log(2)
    log_mean = (log_a + log_b) / 2 + excess
    with np.errstate(over="ignore"):
        quadratic = np.exp(_log(square) + log_square_unit - log_mean)
        return (quadratic / 8 + n_terms * excess / 2).sum(axis=1)


def _distances_diagonal(means, log_variances, log_square_unit):
    distances = np.zeros((len(means), len(means)))
    for i in range(len(means) - 1):
        others = slice(i + 1, None)
        distances[i, others] = _distance(
            np.square(means[others] - means[i]),
            log_variances[others],
            log_variances[i],
            log_square_unit,
        )
    return distances
