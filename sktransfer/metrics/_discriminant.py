"""Linear discriminant analysis with a shrunk within-class covariance, in principal coordinates."""

import numpy as np
from scipy import linalg, sparse
from scipy.special import softmax

# Within-class scatter below this share of the total is the rounding of class means: the classes
# are single points.
_COLLAPSED = 1e-24

# Rounds of the published power iteration, and the smallest adaptive shrinkage.
_ROUNDS = 3
_SMALLEST_SHRINKAGE = 1e-10


class ClassScatter:
    """Class means and within-class covariance of centred rows.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, r), dtype float64
        Rows less their mean.
    codes : ndarray of shape (n_samples,)
        Class of each row, all of 0, ..., n_classes - 1.
    variances : ndarray of shape (r,), default=None
        Variances of the columns of Z, if these are uncorrelated. The within-class covariance then
        follows from the class means, faster and with fewer digits.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights, of which the ratios count. The rows need no mean of zero then.

    Attributes
    ----------
    counts : ndarray of shape (n_classes,)
        Numbers of rows.
    sizes : ndarray of shape (n_classes,)
        Class sizes, weighted so that they sum to n_samples.
    priors : ndarray of shape (n_classes,)
        Class shares.
    means : ndarray of shape (n_classes, r)
        Class means.
    within : ndarray of shape (r, r)
        Population covariance of the rows less their class mean.
    """

    def __init__(self, Z, codes, variances=None, sample_weight=None):
        n_samples = len(codes)
        self.counts = self.sizes = np.bincount(codes)
        weight = np.ones(n_samples)
        if sample_weight is not None:
            weight = sample_weight * (n_samples / sample_weight.sum())
            self.sizes = np.bincount(codes, weight)
        self.priors = self.sizes / n_samples
        members = sparse.csr_array(
            (weight / self.sizes[codes], (codes, np.arange(n_samples))),
            (len(self.sizes), n_samples),
        )
        self.means = members @ Z
        centre = 0.0 if sample_weight is None else self.priors @ self.means
        if variances is None:
            residual = Z - self.means[codes]
            if sample_weight is not None:
                residual *= np.sqrt(weight)[:, None]
            self.within = residual.T @ residual / n_samples
        else:
            self.within = np.diag(variances) - (self.means * self.priors[:, None]).T @ self.means
        between = float(self.priors @ np.square(self.means - centre).sum(axis=1))
        self.trace = max(float(np.trace(self.within)), 0.0)
        self.total = self.trace + between
        # What the smallest eigenvalues are worth.
        rounding = 4 * np.finfo(np.float64).eps * max(Z.shape[1], 16)
        self.noise = rounding * (self.trace if variances is None else self.total)
        self.collapsed = self.trace <= max(
            _COLLAPSED * self.total, 0.0 if variances is None else self.noise
        )

    def factor(self, shrinkage, n_features):
        """Cholesky factor of the shrunk covariance (1 - h) W + h tr(W) / n_features I.

        Parameters
        ----------
        shrinkage : float
            The weight h in [0, 1] of the multiple of the identity.
        n_features : int
            Number of features over which the trace is averaged.

        Returns
        -------
        factor : ndarray of shape (r, r)
            Lower triangular. Classes that are single points get a small multiple of the identity,
            which tells all different means apart and none that differ by rounding only.
        """
        r = len(self.within)
        if r == 0:
            return np.empty((0, 0))
        if self.collapsed:
            return np.sqrt(1e-8 * self.total / n_features) * np.eye(r)
        shrunk = (1 - shrinkage) * self.within
        diagonal = np.einsum("ii->i", shrunk)
        diagonal += shrinkage * self.trace / n_features
        ridge = self.noise
        while True:
            try:
                return linalg.cholesky(shrunk, lower=True, check_finite=False)
            except linalg.LinAlgError:
                diagonal += ridge
                ridge *= 100

    def coefficients(self, factor):
        """Return coefficients (r, n_classes) and intercepts of the discriminant functions."""
        if not len(factor):
            return np.empty((0, len(self.means))), np.log(self.priors)
        coef = linalg.cho_solve((factor, True), self.means.T, check_finite=False)
        intercept = np.log(self.priors) - 0.5 * np.einsum("kr,rk->k", self.means, coef)
        return coef, intercept

    def posterior(self, Z, factor):
        """Class probabilities of rows, an array of shape (n_samples, n_classes)."""
        coef, intercept = self.coefficients(factor)
        return softmax(Z @ coef + intercept, axis=1)


def weighted_mean(values, sample_weight):
    """Mean over the samples, a sum in an order that only the values decide.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
        Values.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights.

    Returns
    -------
    mean : float
        The mean.
    """
    if sample_weight is None:
        return float(np.sort(values).mean())
    return float(np.sort(values * sample_weight).sum() / np.sort(sample_weight).sum())


def adaptive_shrinkage(within, ones, unit, n_features):
    """Weight max(exp(-5 e), 1e-10) of the identity, where e estimates the largest eigenvalue.

    Parameters
    ----------
    within : ndarray of shape (r, r)
        Within-class covariance in principal coordinates.
    ones : ndarray of shape (r,)
        The vector of ones, from which the published estimate starts, in these coordinates.
    unit : float
        Unit of the coordinates.
    n_features : int
        Number of features.

    Returns
    -------
    shrinkage : float
        The weight.
    """
    with np.errstate(over="ignore"):
        variance = _largest_eigenvalue(within, ones, n_features) * unit * unit
        return max(float(np.exp(-5 * variance)), _SMALLEST_SHRINKAGE)


def _largest_eigenvalue(within, ones, n_features):
    """Estimate the largest eigenvalue as published, by a few rounds that end below it."""
    vector = within @ ones
    if np.linalg.norm(vector) <= 1e-12 * np.trace(within) * np.sqrt(n_features):
        # Row sums that vanish (for instance of probabilities) give nothing to start from.
        return float(linalg.eigvalsh(within)[-1]) if len(within) else 0.0
    for _ in range(_ROUNDS):
        left = within @ vector
        left /= np.linalg.norm(left)
        vector = within @ left
        vector /= np.linalg.norm(vector)
    return float(vector @ within @ left)
