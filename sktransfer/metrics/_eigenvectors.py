"""Eigenvectors of a symmetric matrix, computed as far as they are asked for."""

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

# Eigenvectors that are computed together. A vector must not depend on how many are wanted, so
# that the order in which metrics ask for them is irrelevant to the last digit.
_TOGETHER = 128


class Eigenvectors:
    """The eigendecomposition of a symmetric matrix, largest eigenvalue first.

    With a tridiagonal matrix T, its eigenvectors S and reflections whose product is Q, the matrix
    is Q T Qᵀ and its eigenvectors are Q S. That last product costs as much as the decomposition
    of T and the way to it; metrics that project a few columns on all directions, or many rows on a
    few, can do without most of it.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), dtype float64, F-contiguous
        Its lower triangle counts. Its memory is taken over.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n,)
        All eigenvalues, in descending order.
    """

    def __init__(self, matrix):
        n = len(matrix)
        work, _ = lapack.dsytrd_lwork(n, lower=1)
        matrix, diagonal, beside, scales, _ = lapack.dsytrd(
            matrix, lower=1, lwork=int(work), overwrite_a=1
        )
        ascending, vectors = _tridiagonal(diagonal, beside)
        self.eigenvalues = ascending[::-1]
        self._rank = n
        self._factors = vectors, _reflections(matrix), scales
        self._blocks = {}

    def keep(self, rank):
        """Restrict all that follows to the leading eigenvectors.

        Parameters
        ----------
        rank : int
            How many of them count.
        """
        self._rank = rank

    def along(self, columns):
        """Return the coordinates of columns.

        Parameters
        ----------
        columns : ndarray of shape (n,) or (n, k)
            The columns.

        Returns
        -------
        coordinates : ndarray of shape (rank,) or (rank, k)
            Their products with the eigenvectors.
        """
        vectors, reflections, scales = self._factors
        first = len(vectors) - self._rank
        return (vectors[:, first:].T @ _rotate("T", reflections, scales, columns))[::-1]

    def combine(self, coordinates):
        """Return the columns that have some coordinates.

        Parameters
        ----------
        coordinates : ndarray of shape (rank,) or (rank, k)
            The coordinates.

        Returns
        -------
        columns : ndarray of shape (n,) or (n, k)
            The sum of the eigenvectors times these.
        """
        if self._factors is None:
            return self.leading(self._rank) @ coordinates
        vectors, reflections, scales = self._factors
        first = len(vectors) - self._rank
        return _rotate("N", reflections, scales, vectors[:, first:] @ coordinates[::-1])

    def leading(self, k):
        """Return the first eigenvectors.

        Parameters
        ----------
        k : int
            How many, at most the rank.

        Returns
        -------
        vectors : ndarray of shape (n, k), F-contiguous
            An array of the caller's own.
        """
        n = len(self.eigenvalues)
        leading = np.empty((n, k), order="F")
        for start in range(0, k, _TOGETHER):
            block = self._block(start)[:, : k - start]
            leading[:, start : start + block.shape[1]] = block
        return leading

    def _block(self, start):
        if start not in self._blocks:
            vectors, reflections, scales = self._factors
            last = len(vectors) - start
            first = max(last - _TOGETHER, len(vectors) - self._rank)
            block = vectors[:, first:last][:, ::-1]
            self._blocks[start] = _rotate("N", reflections, scales, block)
            if len(self._blocks) * _TOGETHER >= self._rank:
                self._factors = None  # nothing is left to do with them
        return self._blocks[start]


def _tridiagonal(diagonal, beside):
    """Decompose a tridiagonal matrix; eigenvalues ascend."""
    try:
        return linalg.eigh_tridiagonal(diagonal, beside, check_finite=False, lapack_driver="stemr")
    except linalg.LinAlgError:
        # Clusters that the fast method can't resolve; this one takes longer and always ends.
        return linalg.eigh_tridiagonal(diagonal, beside, check_finite=False, lapack_driver="stev")


def _reflections(matrix):
    """Move what lies below the diagonal to the front of the matrix's own memory, without gaps."""
    n = len(matrix)
    memory = matrix.reshape(-1, order="F")
    for column in range(n - 1):
        memory[column * (n - 1) : (column + 1) * (n - 1)] = memory[
            column * n + 1 : (column + 1) * n
        ]
    return memory[: (n - 1) ** 2].reshape((n - 1, n - 1), order="F")


def _rotate(transposed, reflections, scales, columns):
    """Multiply columns by Q ("N") or its transpose ("T"); the first row stays as it is."""
    rotated = columns.reshape(len(columns), -1)
    if len(reflections) and rotated.shape[1]:
        # LAPACK's own routine for this product has no binding; below the first row it is that for
        # the orthogonal factor of a QR decomposition.
        below, _, _ = lapack.dormqr(
            "L", transposed, reflections, scales, rotated[1:], 64 * (rotated.shape[1] + 65)
        )
        rotated = np.concatenate([rotated[:1], below])
    return rotated.reshape(columns.shape)
