"""One decomposition of the centred features that all moment metrics read.

Metrics of raw features need no second one: the raw scatter matrix is the centred one plus n times
the outer product of the mean, and what such a metric asks of it (determinants, ridge solutions)
follows from the centred directions by a rank-one update, with no loss of digits however large the
mean is.
"""

from dataclasses import dataclass, field

import numpy as np

# Elements of a float64 block of rows (2 MiB).
_BLOCK_ELEMENTS = 2**18

_LARGEST_EXPONENT = 1000


def power_of_two(size):
    """Return the power of two nearest to positive numbers, 1 for 0; scaling by it is exact.

    It stays well inside the float range, so that a unit of a unit does too.
    """
    size = np.asarray(size, dtype=np.float64)
    exponent = np.round(np.log2(np.where(size > 0, size, 1.0)))
    return np.ldexp(1.0, np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT).astype(int))[()]


def refine_unit(unit, size):
    """Return the unit in which numbers of ``size`` units are about 1."""
    with np.errstate(over="ignore"):
        product = unit * power_of_two(size)
    # Both ends of the float range: a product of subnormal numbers must not become the unit of 0.
    return power_of_two(np.clip(product, 2.0**-_LARGEST_EXPONENT, 2.0**_LARGEST_EXPONENT))


@dataclass(frozen=True)
class CenteredSpectrum:
    """Directions of the centred features, and mean and target along them.

    Let C be the centred features in units of ``unit`` with singular value decomposition
    U diag(sigma) Vᵀ over its numerical rank r, t the centred target columns and m the feature mean.
    Sample weights enter normalised to sum to ``n_samples``.

    Parameters
    ----------
    n_samples : int
        Number n of samples.
    n_features : int
        Number D of features.
    unit : float
        Unit of the features.
    eigenvalues : ndarray of shape (r,)
        sigma², descending and positive.
    trace, squared_norm : float
        Sum of all eigenvalues and of their squares.
    fourth : float
        Sum of ``||c||**4`` over the centred rows c.
    loadings : ndarray of shape (r, n_outputs)
        Uᵀ t.
    target_residual : ndarray of shape (n_outputs,)
        Squared length of the part of t that no direction reaches.
    target_sum : ndarray of shape (n_outputs,)
        Weighted sums of the target columns; for labels the class sizes.
    target_square : ndarray of shape (n_outputs,)
        Weighted sums of the squared target columns.
    target_unit : ndarray of shape (n_outputs,)
        Units of the target columns (1 for labels).
    mean_coordinates : ndarray of shape (r,)
        Vᵀ m.
    mean_residual : float
        Squared length of the part of m outside the directions.
    mean, column_variances : ndarray of shape (n_features,)
        Of the single features, in units and squared units; a variance that is all rounding is 0.
    """

    n_samples: int
    n_features: int
    unit: float
    eigenvalues: np.ndarray
    trace: float
    squared_norm: float
    fourth: float
    loadings: np.ndarray
    target_residual: np.ndarray
    target_sum: np.ndarray
    target_square: np.ndarray
    target_unit: np.ndarray
    mean_coordinates: np.ndarray
    mean_residual: float
    mean: np.ndarray = field(repr=False)
    column_variances: np.ndarray = field(repr=False)
    # Maps coefficients along the directions to the features, and returns the first k directions.
    _right: "callable" = field(repr=False)
    _leading: "callable" = field(repr=False)

    @property
    def rank(self):
        """Numerical rank r of the centred features."""
        return len(self.eigenvalues)

    def directions(self, n_components):
        """Leading directions of the centred features.

        Parameters
        ----------
        n_components : int or None
            Number of directions; all (the rank) if None or if there are fewer.

        Returns
        -------
        directions : ndarray of shape (n_features, min(n_components, r)), dtype float64
            Orthonormal columns. The sign of a direction is such that its largest coefficient (in
            absolute value, the first of equals) is positive.
        """
        k = self.rank if n_components is None else min(int(n_components), self.rank)
        directions = self._leading(k)
        if k:
            largest = np.abs(directions).argmax(axis=0)
            directions *= np.where(directions[largest, np.arange(k)] < 0, -1.0, 1.0)
        return directions

    def principal_components(self, X, n_components):
        """Project rows on the leading directions: exact PCA, without another decomposition.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows in original units, those of the moments or others.
        n_components : int or None
            Number of directions; all (the rank) if None or if there are fewer.

        Returns
        -------
        components : ndarray of shape (n_rows, min(n_components, r)), dtype float64
            Coordinates in original units, with the signs of :meth:`directions`.
        """
        return self.coordinates(X, self.directions(n_components)) * self.unit

    def coordinates(self, X, directions):
        """Project rows less the mean on directions, in units.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows in original units.
        directions : ndarray of shape (n_features, k)
            Directions.

        Returns
        -------
        coordinates : ndarray of shape (n_rows, k), dtype float64
            Coordinates in units, which stay finite for features at the end of the float range.
        """
        coordinates = np.empty((len(X), directions.shape[1]))
        step = max(1, _BLOCK_ELEMENTS // self.n_features)
        for start in range(0, len(X), step):
            rows = X[start : start + step].astype(np.float64)
            rows *= 1 / self.unit  # exact, as the unit is a power of two
            rows -= self.mean
            coordinates[start : start + step] = rows @ directions
        return coordinates

    def to_feature_space(self, along, mean_factor):
        """Map coefficients along the directions to coefficients of the original features.

        Parameters
        ----------
        along : ndarray of shape (r, n_outputs)
            Coefficients of the directions.
        mean_factor : ndarray of shape (n_outputs,)
            Coefficients of the mean's part outside the directions.

        Returns
        -------
        coef : ndarray of shape (n_outputs, n_features)
            Coefficients in units of one over the features.
        """
        outside = self.mean - self._right(self.mean_coordinates)
        coef = self._right(along).T + np.outer(mean_factor, outside)
        with np.errstate(over="ignore"):
            units = np.minimum(self.target_unit / self.unit, np.finfo(np.float64).max)
            return coef * units[:, None]
