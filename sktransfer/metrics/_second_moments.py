"""Second moments of many rows about a shift, accumulated block by block and merged."""

import numpy as np
from scipy import sparse
from scipy.linalg import blas, lapack

from ._spectrum import power_of_two, refine_unit

# Elements of a float64 block of rows that others take out of a matrix at a time (2 MiB).
_BLOCK_ELEMENTS = 2**18

# Elements of a block that updates the second moments at once: more rows leave less time to what an
# update costs beside its products. At most 8 MiB, and 1.5 times as many as there are second moments
# or 2 MiB. Of these, as many are converted to float64 at a time (512 KiB) as stay in cache for the
# passes made over them.
_UPDATE_ELEMENTS = 2**20
_TILE_ELEMENTS = 2**16

# Fourth powers of numbers up to here, summed, stay within float64.
_LARGEST_IN_UNITS = 2.0**100


def row_blocks(n_rows, n_columns, n_elements=None):
    """Yield slices that cut a matrix into row blocks of bounded size."""
    # A block much shorter than wide would spend its time on adding to the second moments.
    step = max(64, n_columns // 4, (n_elements or _BLOCK_ELEMENTS) // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


class SecondMoments:
    """Second moments about a shift, in units of a power of two.

    With x = row / unit - shift and t = column / target_unit - target_shift, these are the weighted
    sums over the samples of 1, x, t, x xᵀ, t xᵀ, t², ||x||⁴ and ||x||² x.

    Only the lower triangle of the sum of x xᵀ counts. While rows are added it is a square matrix,
    which BLAS updates in place; :meth:`pack` brings it to half the size, as LAPACK's rectangular
    full packed format, where it rests.
    """

    def __init__(self, n_features, n_outputs):
        self.shift = None
        self.unit = 1.0
        self.target_shift = None
        self.target_unit = np.ones(n_outputs)
        self.weight = 0.0
        self.sum_x = np.zeros(n_features)
        self.sum_t = np.zeros(n_outputs)
        # One of these two is there.
        self._square = np.zeros((n_features, n_features), order="F")
        self._packed = None
        self.cross = np.zeros((n_outputs, n_features))
        self.sum_tt = np.zeros(n_outputs)
        self.fourth = 0.0
        self.third = np.zeros(n_features)

    def copy(self):
        twin = SecondMoments.__new__(SecondMoments)
        twin.__dict__.update(
            {k: v.copy("K") if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        )
        return twin

    @property
    def lower(self):
        """The second moments in the lower triangle of a square matrix, not to be changed."""
        square = self._square
        if square is None:
            square, _ = lapack.dtfttr(len(self.sum_x), self._packed, uplo="L")
        return square

    @property
    def scatter(self):
        """The second moments as a full matrix, made anew."""
        lower = self.lower
        return np.tril(lower) + np.tril(lower, -1).T

    def pack(self):
        """Hold the second moments in half the memory until they change."""
        square = self._square
        if square is not None:
            self._packed, _ = lapack.dtrttf(square, uplo="L")
            self._square = None
        return self

    def _unpack(self):
        if self._square is None:
            self._square, self._packed = self.lower, None

    def insert_outputs(self, positions, n_outputs):
        """Move the outputs to new positions among more of them."""
        self.target_unit = np.ones(n_outputs)
        for name in ("sum_t", "cross", "sum_tt", "target_shift"):
            old = getattr(self, name)
            if old is not None:
                new = np.zeros((n_outputs, *old.shape[1:]))
                new[positions] = old
                setattr(self, name, new)

    def _start(self, X, target):
        """Choose shift and unit from the first rows."""
        first = X[: min(max(X.shape[1], 256), 1024)].astype(np.float64)
        largest = power_of_two(max(float(first.max()), -float(first.min())))
        first /= largest
        shift = first.mean(axis=0)
        # The rounded mean of equal numbers may differ from them: constant columns must become 0.
        constant = (first == first[0]).all(axis=0)
        shift[constant] = first[0][constant]
        first -= shift
        size = max(float(first.max(initial=0.0)), -float(first.min(initial=0.0)))
        self.unit = refine_unit(largest, size or np.abs(shift).max(initial=0.0))
        self.shift = shift * (largest / self.unit)
        self.target_shift = np.zeros(len(self.sum_t))
        if target.task == "regression":
            first = target.outputs[: len(first)]
            self.target_unit = power_of_two(np.abs(first).max(axis=0, initial=0.0))
            self.target_shift = (first / self.target_unit).mean(axis=0)

    def add_rows(self, X, target, sample_weight, code_map):
        """Add the sums over rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows.
        target : Target
            Their target.
        sample_weight : ndarray of shape (n_samples,) or None
            Positive weights.
        code_map : ndarray of shape (n_classes,) or None
            Outputs that the classes of the target stand for; None for a target of columns.
        """
        if not len(X):
            return
        if self.shift is None:
            self._start(X, target)
        self._unpack()
        n_features = X.shape[1]
        size = min(_UPDATE_ELEMENTS, max(3 * n_features**2 // 2, _BLOCK_ELEMENTS))
        blocks = list(row_blocks(len(X), n_features, size))
        buffer = np.empty((blocks[0].stop, n_features))
        # All products are made by scipy's BLAS or without one: numpy's has threads of its own, and
        # where the two take turns each waits for the other's.
        for rows in blocks:
            x = buffer[: rows.stop - rows.start]
            squares = self._in_units(X[rows], x)
            w = None if sample_weight is None else sample_weight[rows]
            weighted = squares if w is None else w * squares
            self.weight += float(len(x) if w is None else w.sum())
            self.fourth += float((weighted * squares).sum())
            self.third += blas.dgemv(1.0, x.T, weighted)
            if code_map is None:
                self._add_columns(x, target.columns(rows), w)
            else:
                self._add_classes(x, code_map[target.codes[rows]], w)
            if w is not None:
                x *= np.sqrt(w)[:, None]
            self._square = blas.dsyrk(1.0, x.T, beta=1.0, c=self._square, lower=1, overwrite_c=1)

    def _in_units(self, X, x):
        """Write rows less the shift in units to ``x`` and return their squared lengths.

        The unit is enlarged if the rows need it.
        """
        if not self.fourth and not self.shift.any():  # only zeros so far, in any unit
            self.unit = power_of_two(np.abs(X).max(initial=0.0))
        squares = self._convert(X, x)
        if squares.max(initial=0.0) < _LARGEST_IN_UNITS**2:
            return squares
        self._rescale(power_of_two(np.abs(X).max()))
        return self._convert(X, x)

    def _convert(self, X, x):
        squares = np.empty(len(X))
        step = max(1, _TILE_ELEMENTS // max(1, X.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), step):
                tile = x[start : start + step]
                tile[...] = X[start : start + step]
                # Multiplying by the inverse of a power of two is exact, and faster than dividing.
                tile *= 1 / self.unit
                tile -= self.shift
                np.einsum("ij,ij->i", tile, tile, out=squares[start : start + step])
        return squares

    def _add_classes(self, x, codes, w):
        """Add the sums of each class, at a cost that does not depend on their number."""
        n_classes = len(self.sum_t)
        w = np.ones(len(x)) if w is None else w
        by_class = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=n_classes))
        members = sparse.csr_array((w[by_class], by_class, np.r_[0, ends]), (n_classes, len(x)))
        sums = members @ x
        self.cross += sums
        self.sum_x += sums.sum(axis=0)
        of_classes = np.bincount(codes, w, minlength=n_classes)
        self.sum_t += of_classes
        self.sum_tt += of_classes

    def _add_columns(self, x, columns, w):
        t = columns / self.target_unit - self.target_shift
        weighted = t if w is None else w[:, None] * t
        self.sum_x += blas.dgemv(1.0, x.T, np.ones(len(x)) if w is None else w)
        self.cross += blas.dgemm(1.0, x.T, weighted.T, trans_b=1).T
        self.sum_t += weighted.sum(axis=0)
        self.sum_tt += np.einsum("ij,ij->j", weighted, t)

    def add_moments(self, other):
        """Add moments that may have another shift and unit."""
        if other.shift is None:
            return
        if self.shift is None:
            self.__dict__.update(other.copy().__dict__)
            return
        other = other.copy()
        unit = max(self.unit, other.unit)
        self._rescale(unit)
        other._rescale(unit)
        target_unit = np.maximum(self.target_unit, other.target_unit)
        self._rescale_target(target_unit)
        other._rescale_target(target_unit)
        other._translate(other.shift - self.shift, other.target_shift - self.target_shift)
        self._unpack()
        self._square += other._square
        for name in ("weight", "sum_x", "sum_t", "cross", "sum_tt", "fourth", "third"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _rescale(self, unit):
        """Express the sums in a unit that is at least as large."""
        factor = self.unit / unit
        self.unit = unit
        self.shift *= factor
        self.sum_x *= factor
        self.cross *= factor
        self._unpack()
        self._square *= factor**2
        self.third *= factor**3
        self.fourth *= factor**4

    def _rescale_target(self, unit):
        factor = self.target_unit / unit
        self.target_unit = unit
        self.target_shift = self.target_shift * factor
        self.sum_t *= factor
        self.sum_tt *= factor**2
        self.cross *= factor[:, None]

    def column_variances(self, lower=None):
        """Weighted variances of the columns in squared units, 0 where rounding is all there is."""
        square = np.diagonal(self.lower if lower is None else lower) / self.weight
        variance = square - (self.sum_x / self.weight) ** 2
        return np.where(variance > 1e-14 * square, variance, 0.0)

    def fourth_about(self, point, lower=None):
        """Sum of ``||x - point||**4`` over the samples."""
        lower = self.lower if lower is None else lower
        square = float(point @ point)
        return (
            self.fourth
            - 4 * float(self.third @ point)
            + 4 * float(point @ blas.dsymv(1.0, lower, point, lower=1))
            + 2 * square * float(np.trace(lower))
            - 4 * square * float(self.sum_x @ point)
            + square**2 * self.weight
        )

    def _translate(self, delta, target_delta):
        """Replace x by x + delta and t by t + target_delta in all sums."""
        self._unpack()
        self.fourth = self.fourth_about(-delta)
        along = blas.dsymv(1.0, self._square, delta, lower=1)
        square = float(delta @ delta)
        trace = float(np.trace(self._square))
        linear = float(self.sum_x @ delta)
        self.third = (
            self.third
            + delta * (trace + 2 * linear + square * self.weight)
            + 2 * along
            + square * self.sum_x
        )
        self._square = blas.dsyr2(1.0, delta, self.sum_x, a=self._square, lower=1, overwrite_a=1)
        self._square = blas.dsyr(self.weight, delta, a=self._square, lower=1, overwrite_a=1)
        self.sum_tt = self.sum_tt + 2 * target_delta * self.sum_t + self.weight * target_delta**2
        self.cross = (
            self.cross
            + np.outer(target_delta, self.sum_x)
            + np.outer(self.sum_t + self.weight * target_delta, delta)
        )
        self.sum_x = self.sum_x + self.weight * delta
        self.sum_t = self.sum_t + self.weight * target_delta
