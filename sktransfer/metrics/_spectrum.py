"""One decomposition of the centred features that all moment metrics read.

Metrics of raw features need no second one: the raw scatter matrix is the centred one plus n times
the outer product of the mean, and what such a metric asks of it (determinants, ridge solutions)
follows from the centred directions by a rank-one update, with no loss of digits however large the
mean is.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

# Elements of a float64 block of kept rows (2 MiB).
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
        return power_of_two(min(unit * power_of_two(size), 2.0**_LARGEST_EXPONENT))


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
    _right: "callable" = field(repr=False)

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
        directions = self._right(np.eye(self.rank, k))
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
            rows = X[start : start + step].astype(np.float64) / self.unit
            coordinates[start : start + step] = (rows - self.mean) @ directions
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
        outside = self.mean - self._right(self.mean_coordinates[:, None])[:, 0]
        coef = self._right(along).T + np.outer(mean_factor, outside)
        with np.errstate(over="ignore"):
            units = np.minimum(self.target_unit / self.unit, np.finfo(np.float64).max)
            return coef * units[:, None]


def _rank_tolerance(top, dimension, n_samples, n_features, mean_square, resolution):
    """Smallest eigenvalue of the centred scatter matrix that is not rounding noise.

    Two sources: the arithmetic of a Gram matrix (relative to its largest eigenvalue), and the
    numbers the features were stored in, whose rounding is a noise matrix of known variance.
    """
    arithmetic = 4 * np.finfo(np.float64).eps * max(dimension, 16) * top
    storage = resolution**2 * mean_square * (np.sqrt(n_samples) + np.sqrt(n_features)) ** 2
    return max(arithmetic, 8 * storage)


def _clean_mean_residual(residual, mean_square_norm, n_samples, n_features, tolerance):
    rounding = (64 * np.finfo(np.float64).eps) ** 2 * n_features * mean_square_norm
    return 0.0 if n_samples * residual <= max(tolerance, n_samples * rounding) else residual


def decompose_scatter(moments, n_samples, resolution, column_scale=None):
    """Decompose second moments; for more samples than features.

    Parameters
    ----------
    moments : SecondMoments
        The moments about their shift.
    n_samples : int
        Number of samples.
    resolution : float
        Relative spacing of the numbers that the features were stored in.
    column_scale : ndarray of shape (n_features,), default=None
        Divides the columns (in units of the moments) before they are decomposed.

    Returns
    -------
    spectrum : CenteredSpectrum
        The decomposition.
    """
    total_weight = moments.weight
    factor = n_samples / total_weight
    n_features = len(moments.sum_x)
    offset = moments.sum_x / total_weight
    mean = moments.shift + offset
    cross = factor * (moments.cross - np.outer(moments.sum_t, offset))

    # Centre in place in the triangle that the eigensolver reads: one matrix beside the moments.
    scatter = np.array(moments.lower, order="F")
    scatter = linalg.blas.dsyr(-total_weight, offset, a=scatter, lower=1, overwrite_a=1)
    if column_scale is not None:
        scatter /= column_scale
        scatter /= column_scale[:, None]
        cross /= column_scale
        mean = mean / column_scale
    eigenvalues, vectors = linalg.eigh(
        scatter, lower=True, overwrite_a=True, check_finite=False, driver="evr"
    )
    eigenvalues = factor * np.maximum(eigenvalues[::-1], 0.0)
    trace = float(eigenvalues.sum())
    mean_square = (trace / n_samples + float(mean @ mean)) / n_features
    tolerance = _rank_tolerance(
        eigenvalues[0], n_features, n_samples, n_features, mean_square, resolution
    )
    rank = int(np.count_nonzero(eigenvalues > tolerance))
    vectors = vectors[:, ::-1][:, :rank]
    kept = eigenvalues[:rank]

    loadings = (vectors.T @ cross.T) / np.sqrt(kept)[:, None]
    centred_square = factor * (moments.sum_tt - moments.sum_t**2 / total_weight)
    target_sum = factor * (moments.sum_t + total_weight * moments.target_shift)
    coordinates = vectors.T @ mean
    outside = mean - vectors @ coordinates
    return CenteredSpectrum(
        n_samples=n_samples,
        n_features=n_features,
        unit=moments.unit,
        eigenvalues=kept,
        trace=trace,
        squared_norm=float(eigenvalues @ eigenvalues),
        fourth=factor * max(moments.fourth_about(offset), 0.0),
        loadings=loadings,
        target_residual=np.maximum(centred_square - np.einsum("rc,rc->c", loadings, loadings), 0.0),
        target_sum=target_sum,
        target_square=np.maximum(centred_square, 0.0) + target_sum**2 / n_samples,
        target_unit=moments.target_unit,
        mean_coordinates=coordinates,
        mean_residual=_clean_mean_residual(
            float(outside @ outside), float(mean @ mean), n_samples, n_features, tolerance
        ),
        mean=mean,
        column_variances=moments.column_variances(),
        _right=lambda along: vectors @ along,
    )


class _CentredRows:
    """Weighted centred rows, made block by block of columns so that no copy is ever whole."""

    def __init__(self, X, sample_weight, column_scale):
        self.X = X
        n_samples = len(X)
        w = np.ones(n_samples) if sample_weight is None else np.asarray(sample_weight, float)
        self.share = w / w.sum()
        self.root = np.sqrt(n_samples * self.share)[:, None]
        self.column_scale = column_scale
        # A first unit brings numbers at the ends of the float range to where they can be summed.
        first_unit = power_of_two(max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))))
        self.unit = first_unit
        self.mean = np.zeros(X.shape[1])
        # What rounding leaves of a large mean; the mean alone could not hold it.
        self.remainder = np.zeros(X.shape[1])
        self.variance = np.zeros(X.shape[1])
        size = 0.0
        for columns in self.column_blocks():
            block = self._scaled(columns)
            mean = self.share @ block
            # The rounded mean of equal numbers may differ from them: constants must become 0.
            constant = (block == block[0]).all(axis=0)
            mean[constant] = block[0][constant]
            block -= mean
            self.mean[columns] = mean
            self.remainder[columns] = self.share @ block
            self.variance[columns] = self.share @ np.square(block)
            size = max(size, float(np.abs(block).max(initial=0.0)))
        self.unit = refine_unit(first_unit, size or np.abs(self.mean).max(initial=0.0))
        self.mean /= self.unit / first_unit
        self.remainder /= self.unit / first_unit
        self.variance /= (self.unit / first_unit) ** 2

    def column_blocks(self):
        step = max(16, _BLOCK_ELEMENTS // len(self.X))
        for start in range(0, self.X.shape[1], step):
            yield slice(start, min(start + step, self.X.shape[1]))

    def _scaled(self, columns):
        block = self.X[:, columns].astype(np.float64) / self.unit
        if self.column_scale is not None:
            block /= self.column_scale[columns]
        return block

    def block(self, columns):
        rows = self._scaled(columns)
        rows -= self.mean[columns]
        rows -= self.remainder[columns]
        rows *= self.root
        return rows

    def apply(self, left):
        """Return Cᵀ left for a matrix of shape (n_samples, k)."""
        product = np.empty((self.X.shape[1], left.shape[1]))
        for columns in self.column_blocks():
            product[columns] = self.block(columns).T @ left
        return product


def decompose_rows(X, targets, sample_weight, resolution, column_scale=None):
    """Decompose kept rows through their Gram matrix; for at most as many samples as features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    targets : ndarray of shape (n_samples, n_outputs)
        Target columns.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights.
    resolution : float
        Relative spacing of the numbers that the features were stored in.
    column_scale : ndarray of shape (n_features,), default=None
        Divides the columns before they are decomposed.

    Returns
    -------
    spectrum : CenteredSpectrum
        The decomposition.
    """
    n_samples, n_features = X.shape
    rows = _CentredRows(X, sample_weight, column_scale)
    mean, root = rows.mean, rows.root
    gram = np.zeros((n_samples, n_samples))
    along_mean = np.zeros(n_samples)
    for columns in rows.column_blocks():
        block = rows.block(columns)
        gram += block @ block.T
        along_mean += block @ mean[columns]
    norms = np.diagonal(gram) / root[:, 0] ** 2
    fourth = float(root[:, 0] ** 2 @ norms**2)
    eigenvalues, vectors = linalg.eigh(
        gram, lower=True, overwrite_a=True, check_finite=False, driver="evr"
    )
    eigenvalues = np.maximum(eigenvalues[::-1], 0.0)
    trace = float(eigenvalues.sum())
    mean_square = (trace / n_samples + float(mean @ mean)) / n_features
    tolerance = _rank_tolerance(
        eigenvalues[0], n_samples, n_samples, n_features, mean_square, resolution
    )
    # Centring costs one direction, whatever rounding says.
    rank = min(int(np.count_nonzero(eigenvalues > tolerance)), n_samples - 1)
    left = vectors[:, ::-1][:, :rank]
    kept = eigenvalues[:rank]
    sigma = np.sqrt(kept)

    target_unit = power_of_two(np.abs(targets).max(axis=0, initial=0.0))
    targets = targets / target_unit
    target_mean = rows.share @ targets
    centred = root * (targets - target_mean)
    loadings = left.T @ centred
    unreached = centred - left @ loadings
    target_sum = n_samples * target_mean
    coordinates = (left.T @ along_mean) / sigma

    def right(along):
        return rows.apply(left @ (along / sigma[:, None]))

    outside = mean - right(coordinates[:, None])[:, 0]
    target_residual = np.einsum("nc,nc->c", unreached, unreached)
    centred_square = np.einsum("nc,nc->c", centred, centred)
    return CenteredSpectrum(
        n_samples=n_samples,
        n_features=n_features,
        unit=rows.unit,
        eigenvalues=kept,
        trace=trace,
        squared_norm=float(eigenvalues @ eigenvalues),
        fourth=fourth,
        loadings=loadings,
        target_residual=target_residual,
        target_sum=target_sum,
        target_square=centred_square + target_sum**2 / n_samples,
        target_unit=target_unit,
        mean_coordinates=coordinates,
        mean_residual=_clean_mean_residual(
            float(outside @ outside), float(mean @ mean), n_samples, n_features, tolerance
        ),
        mean=mean,
        column_variances=rows.variance,
        _right=right,
    )
