"""The rows or the second moments of one class, read in the coordinates of all samples."""

import numpy as np

from ._second_moments import row_blocks

# Elements of a float64 block of columns (8 MiB).
_BLOCK_ELEMENTS = 2**20


def class_rows(target):
    """Yield the code of every class that occurs and the positions of its samples.

    Parameters
    ----------
    target : Target
        A classification target.

    Yields
    ------
    code : int
        The class.
    rows : ndarray of shape (class_size,)
        Its samples, in ascending order.
    """
    order = np.argsort(target.codes, kind="stable")
    sizes = np.bincount(target.codes, minlength=len(target.classes))
    stop = 0
    for code, size in enumerate(sizes):
        start, stop = stop, stop + size
        if size:
            yield code, order[start:stop]


class RowsByClass:
    """The rows of all classes, taken out of the features one class after the other.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    target : Target
        A classification target.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights.
    """

    def __init__(self, X, target, sample_weight):
        self.X = X
        self.target = target
        self.sample_weight = sample_weight
        self.rows = [rows for _, rows in class_rows(target)]

    def whole(self):
        """Return all rows as one part."""
        return RowsPart(self.X, self.sample_weight)

    def part(self, code):
        """Return the rows of one class."""
        rows = self.rows[code]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return RowsPart(self.X[rows], weight)

    def __iter__(self):
        for code in range(len(self.rows)):
            yield self.part(code)


class RowsPart:
    """The rows of one class.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights.

    Attributes
    ----------
    n_samples : int
        Number of rows.
    weight : float
        Sum of the weights.
    """

    def __init__(self, X, sample_weight):
        self.X = X
        self.n_samples = len(X)
        self.share = np.full(len(X), 1 / len(X))
        self.weight = float(len(X))
        if sample_weight is not None:
            self.weight = float(sample_weight.sum())
            self.share = sample_weight / self.weight

    def mean_square(self, center, unit):
        """Second moment about a point, on the smaller side: its non-zero eigenvalues count.

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            The point, in units.
        unit : float
            Unit of the features.

        Returns
        -------
        matrix : ndarray of shape (m, m), m = min(n_samples, n_features)
            The mean of (x - center)(x - center)ᵀ, or a Gram matrix with the same eigenvalues
            but zeros.
        """
        n_samples, n_features = self.X.shape
        side = min(n_samples, n_features)
        matrix = np.zeros((side, side))
        root = np.sqrt(self.share)[:, None]
        if n_samples > n_features:
            for rows in row_blocks(n_samples, n_features):
                block = _in_units(self.X[rows], unit, center)
                block *= root[rows]
                matrix += block.T @ block
            return matrix
        step = max(16, _BLOCK_ELEMENTS // n_samples)
        for start in range(0, n_features, step):
            columns = slice(start, start + step)
            block = _in_units(self.X[:, columns], unit, center[columns])
            block *= root
            matrix += block @ block.T
        return matrix

    def root_mean_squares(self, center, unit):
        """Square roots of the eigenvalues of :meth:`mean_square`, without forming it.

        Slower, but small values keep the digits that large ones cost them when they are squared.

        Parameters
        ----------
        center : ndarray of shape (n_features,)
            The point, in units.
        unit : float
            Unit of the features.

        Returns
        -------
        roots : ndarray of shape (min(n_samples, n_features),)
            In descending order.
        """
        n_samples, n_features = self.X.shape
        root = np.sqrt(self.share)[:, None]
        triangle = np.empty((0, n_features))
        step = n_samples if n_samples <= n_features else max(2 * n_features, 256)
        for start in range(0, n_samples, step):
            rows = slice(start, start + step)
            block = _in_units(self.X[rows], unit, center) * root[rows]
            triangle = np.vstack([triangle, block])
            if n_samples > n_features:
                triangle = np.linalg.qr(triangle, mode="r")
        return np.linalg.svd(triangle, compute_uv=False)

    def mean_and_covariance(self, directions, origin, unit, *, diagonal):
        """Mean and population covariance along directions.

        Parameters
        ----------
        directions : ndarray of shape (n_features, k) or None
            Orthonormal directions; None for the features themselves.
        origin : ndarray of shape (n_features,)
            Subtracted from the features, in units.
        unit : float
            Unit of the features.
        diagonal : bool
            Whether the variances alone are wanted.

        Returns
        -------
        mean : ndarray of shape (k,)
            The mean, in units.
        covariance : ndarray of shape (k, k), or (k,) if diagonal
            The covariance, or the variances, in squared units.
        """
        if directions is None and diagonal:
            return self._column_statistics(origin, unit)
        k = self.X.shape[1] if directions is None else directions.shape[1]
        along = np.empty((self.n_samples, k))
        for rows in row_blocks(*self.X.shape):
            block = _in_units(self.X[rows], unit, origin)
            along[rows] = block if directions is None else block @ directions
        mean = self.share @ along
        along -= mean
        if diagonal:
            return mean, self.share @ along**2
        along *= np.sqrt(self.share)[:, None]
        return mean, along.T @ along

    def _column_statistics(self, origin, unit):
        mean = np.empty(self.X.shape[1])
        variance = np.empty(self.X.shape[1])
        step = max(16, _BLOCK_ELEMENTS // self.n_samples)
        for start in range(0, len(mean), step):
            columns = slice(start, start + step)
            block = _in_units(self.X[:, columns], unit, origin[columns])
            mean[columns] = self.share @ block
            variance[columns] = self.share @ np.square(block - mean[columns])
        return mean, variance


def _in_units(X, unit, origin):
    """Return rows less a point, in units of a power of two, as a new float64 array."""
    block = X.astype(np.float64)
    block *= 1 / unit  # exact, as the unit is a power of two
    block -= origin
    return block


class DensePart:
    """The second moments of one class; reads as :class:`RowsPart` does.

    Parameters
    ----------
    moments : SecondMoments
        The moments about a shift of their own.
    n_samples : int
        Number of samples.
    """

    def __init__(self, moments, n_samples):
        self.moments = moments
        self.n_samples = n_samples
        self.weight = moments.weight

    def _mean(self, origin, unit):
        moments = self.moments
        offset = moments.sum_x / moments.weight
        return (moments.shift + offset) * (moments.unit / unit) - origin, offset

    def _covariance(self, offset, unit):
        covariance = self.moments.scatter / self.moments.weight
        covariance -= np.outer(offset, offset)
        ratio = self.moments.unit / unit  # its square may leave the float range
        covariance *= ratio
        covariance *= ratio
        return covariance

    def mean_square(self, center, unit):
        """Second moment about a point, a matrix of shape (n_features, n_features)."""
        mean, offset = self._mean(center, unit)
        matrix = self._covariance(offset, unit)
        matrix += np.outer(mean, mean)
        return matrix

    def mean_and_covariance(self, directions, origin, unit, *, diagonal):
        """Mean and population covariance along directions."""
        mean, offset = self._mean(origin, unit)
        if directions is None and diagonal:
            square = np.diagonal(self.moments.lower) / self.moments.weight
            ratio = self.moments.unit / unit  # its square may leave the float range
            return mean, np.maximum(square - offset**2, 0.0) * ratio * ratio
        covariance = self._covariance(offset, unit)
        if directions is None:
            return mean, covariance
        mean = directions.T @ mean
        along = covariance @ directions
        if diagonal:
            return mean, np.maximum(np.einsum("dk,dk->k", directions, along), 0.0)
        return mean, directions.T @ along
