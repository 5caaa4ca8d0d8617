"""The decomposition of the centred features, from second moments or from rows."""

import numpy as np
from scipy.linalg import blas

from ._eigenvectors import Eigenvectors
from ._spectrum import CenteredSpectrum, power_of_two, refine_unit

# Elements of a float64 block of kept rows (2 MiB), which is at most this share of the Gram matrix:
# blocks are not what memory should go to. 256 KiB are always granted.
_BLOCK_ELEMENTS = 2**18
_BLOCK_SHARE = 0.25
_SMALLEST_BLOCK = 2**15

# Share of a squared length from which on a difference of squares has the digits of the part.
_EXACT_SHARE = 0.01


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

    # Packed, the moments leave room for the two matrices that a decomposition takes: 2.5 in all.
    scatter = moments.pack().lower
    variances = moments.column_variances(scatter)
    fourth = factor * max(moments.fourth_about(offset, scatter), 0.0)
    # Centre in place in the triangle that the eigensolver reads.
    scatter = blas.dsyr(-total_weight, offset, a=scatter, lower=1, overwrite_a=1)
    if column_scale is not None:
        scatter /= column_scale
        scatter /= column_scale[:, None]
        cross /= column_scale
        mean = mean / column_scale
    directions = Eigenvectors(scatter)
    eigenvalues = factor * np.maximum(directions.eigenvalues, 0.0)
    trace = float(eigenvalues.sum())
    mean_square = (trace / n_samples + float(mean @ mean)) / n_features
    tolerance = _rank_tolerance(
        eigenvalues[0], n_features, n_samples, n_features, mean_square, resolution
    )
    rank = int(np.count_nonzero(eigenvalues > tolerance))
    kept = eigenvalues[:rank]
    directions.keep(rank)

    along = directions.along(np.column_stack([cross.T, mean]))
    loadings, coordinates = along[:, :-1] / np.sqrt(kept)[:, None], along[:, -1]
    centred_square = factor * (moments.sum_tt - moments.sum_t**2 / total_weight)
    target_sum = factor * (moments.sum_t + total_weight * moments.target_shift)
    outside = mean - directions.combine(coordinates)
    return CenteredSpectrum(
        n_samples=n_samples,
        n_features=n_features,
        unit=moments.unit,
        eigenvalues=kept,
        trace=trace,
        squared_norm=float(eigenvalues @ eigenvalues),
        fourth=fourth,
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
        column_variances=variances,
        _right=directions.combine,
        _leading=directions.leading,
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
            first = block[0].copy()
            block -= mean
            largest, smallest = block.max(axis=0), block.min(axis=0)
            # The rounded mean of equal numbers may differ from them: constants must become 0.
            constant = largest == smallest
            if constant.any():
                mean[constant] = first[constant]
                block[:, constant] = largest[constant] = smallest[constant] = 0.0
            self.mean[columns] = mean
            self.remainder[columns] = self.share @ block
            size = max(size, float(largest.max(initial=0.0)), -float(smallest.min(initial=0.0)))
            self.variance[columns] = self.share @ np.square(block, out=block)
        self.unit = refine_unit(first_unit, size or np.abs(self.mean).max(initial=0.0))
        self.mean /= self.unit / first_unit
        self.remainder /= self.unit / first_unit
        self.variance /= (self.unit / first_unit) ** 2

    def column_blocks(self):
        n_samples = len(self.X)
        size = min(_BLOCK_ELEMENTS, max(int(_BLOCK_SHARE * n_samples**2), _SMALLEST_BLOCK))
        step = max(16, size // n_samples)
        for start in range(0, self.X.shape[1], step):
            yield slice(start, min(start + step, self.X.shape[1]))

    def _scaled(self, columns):
        # Multiplying by the inverse of a power of two is exact, and faster than dividing.
        block = self.X[:, columns].astype(np.float64, order="C")
        block *= 1 / self.unit
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
        """Return Cᵀ left for an array of shape (n_samples,) or (n_samples, k)."""
        product = np.empty((self.X.shape[1], *left.shape[1:]))
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
    gram = np.zeros((n_samples, n_samples), order="F")
    along_mean = np.zeros(n_samples)
    for columns in rows.column_blocks():
        block = rows.block(columns)
        gram = blas.dsyrk(1.0, block.T, trans=1, beta=1.0, c=gram, lower=1, overwrite_c=1)
        along_mean += block @ mean[columns]
    del block
    norms = np.diagonal(gram) / root[:, 0] ** 2
    fourth = float(root[:, 0] ** 2 @ norms**2)
    left = Eigenvectors(gram)
    eigenvalues = np.maximum(left.eigenvalues, 0.0)
    trace = float(eigenvalues.sum())
    mean_square = (trace / n_samples + float(mean @ mean)) / n_features
    tolerance = _rank_tolerance(
        eigenvalues[0], n_samples, n_samples, n_features, mean_square, resolution
    )
    # Centring costs one direction, whatever rounding says.
    rank = min(int(np.count_nonzero(eigenvalues > tolerance)), n_samples - 1)
    left.keep(rank)
    kept = eigenvalues[:rank]
    sigma = np.sqrt(kept)

    target_unit = power_of_two(np.abs(targets).max(axis=0, initial=0.0))
    targets = targets / target_unit
    target_mean = rows.share @ targets
    centred = root * (targets - target_mean)
    along = left.along(np.column_stack([centred, along_mean]))
    loadings, coordinates = along[:, :-1], along[:, -1] / sigma
    unreached = centred - left.combine(loadings)
    target_sum = n_samples * target_mean

    def right(along):
        return rows.apply(left.combine((along.T / sigma).T))

    def leading(k):
        return rows.apply(left.leading(k) / sigma[:k])

    square = float(mean @ mean)
    residual = square - float(coordinates @ coordinates)
    if residual < _EXACT_SHARE * square:
        outside = mean - right(coordinates)
        residual = float(outside @ outside)
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
        mean_residual=_clean_mean_residual(residual, square, n_samples, n_features, tolerance),
        mean=mean,
        column_variances=rows.variance,
        _right=right,
        _leading=leading,
    )
