"""GBC: how much Gaussians fitted to the classes overlap."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp

from ..exceptions import SingletonClassWarning, UninformativeScoreWarning
from ..utils._sklearn import Interval, Options, StrOptions
from ._canonical import reproducible_spectrum
from ._class_metric import ClassMomentMetric

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
    saturated_ : bool
        Whether the score says nothing of the labels, see Warns.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    moments_ : FeatureMoments
        The statistics of the data. Not kept when several metrics are scored together.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the overlap of every pair underflows to 0, if no pair can be told apart, or if every
        class has a single sample.
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
        "saturated_",
        "classes_",
    )

    _parameter_constraints: dict = {
        "covariance_type": [StrOptions({"spherical", "diagonal", "full"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "var_floor": [Interval(Real, 0, None, closed="neither")],
        "formula": [StrOptions({"paper", "published"})],
        "regularization": [StrOptions({"floor", "ridge"})],
        "ddof": [Options(Integral, {0, 1})],
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
    ):
        self.covariance_type = covariance_type
        self.n_components = n_components
        self.var_floor = var_floor
        self.formula = formula
        self.regularization = regularization
        self.ddof = ddof

    def _score_parts(self, moments, parts, rows):
        spectrum = moments.spectrum
        n, n_features = spectrum.n_samples, spectrum.n_features
        full = self.covariance_type == "full"
        if rows is not None and self.covariance_type == "diagonal" and self.n_components:
            # Other axes would have other variances: they must not depend on the order of the rows.
            spectrum = reproducible_spectrum(
                rows.X, rows.target, lambda: moments, lambda _: self.n_components
            )
        if self.n_components is None:
            n_components = n_features
            # All directions lose nothing, and are fewer than the features of a wide matrix.
            directions = spectrum.directions(None) if full else None
        else:
            n_components = min(self.n_components, n - 1, n_features)
            directions = spectrum.directions(n_components)
        means, spreads, sizes = [], [], []
        for part in parts:
            mean, spread = part.mean_and_covariance(
                directions, spectrum.mean, spectrum.unit, diagonal=not full
            )
            spread *= part.n_samples / max(part.n_samples - self.ddof, 1)
            means.append(mean)
            spreads.append(spread)
            sizes.append(part.n_samples)
        means, spreads, sizes = np.array(means), np.array(spreads), np.array(sizes)
        log_square_unit = 2 * np.log(spectrum.unit)
        log_floor = np.log(self.var_floor)
        if full:
            distances = self._distances_full(means, spreads, log_floor - log_square_unit)
        else:
            log_variances = self._regularized(_log(spreads) + log_square_unit, log_floor)
            if self.covariance_type == "diagonal":
                distances = _distances_diagonal(means, log_variances, log_square_unit)
            else:
                distances = self._distances_spherical(
                    means, log_variances, log_square_unit, log_floor, n_components
                )
        self.classes_ = moments.classes
        self.n_components_ = n_components
        self._combine(distances, sizes)

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

    def _combine(self, distances, sizes):
        n_classes = len(sizes)
        pairs = distances[np.triu_indices(n_classes, 1)]
        self.distances_ = distances + distances.T
        self.log_overlap_ = float(np.log(2) + logsumexp(-pairs))
        worst = -float(n_classes * (n_classes - 1))
        self.score_ = max(0.0 - float(np.exp(self.log_overlap_)), worst)
        cause = None
        if self.score_ == 0:
            cause = (
                "the overlap of every pair underflows, and all candidates that are this good tie; "
                "compare log_overlap_ or use fewer components"
            )
        elif self.score_ <= worst * (1 - 1e-12):
            cause = "no two classes can be told apart; the features may lie below sqrt(var_floor)"
        elif (sizes == 1).all():
            cause = "every class has a single sample, so any labels give the same score"
        self.saturated_ = cause is not None
        if cause:
            warnings.warn(
                f"The GBC {self.score_:.6g} says nothing: {cause}.",
                UninformativeScoreWarning,
                stacklevel=6,
            )
        elif (sizes == 1).any():
            warnings.warn(
                f"GBC: {int((sizes == 1).sum())} of {n_classes} classes have a single sample; "
                f"their variances are var_floor={self.var_floor:g}.",
                SingletonClassWarning,
                stacklevel=6,
            )


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
