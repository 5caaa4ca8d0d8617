"""Second moments of many rows about a shift, accumulated block by block and merged."""

import numpy as np
from scipy.linalg import blas

from ._spectrum import power_of_two, refine_unit

# Elements of a block that is converted to float64 at a time (2 MiB): it stays in cache for the
# passes made over it.
_BLOCK_ELEMENTS = 2**18

# Fourth powers of numbers up to here, summed, stay within float64.
_LARGEST_IN_UNITS = 2.0**100


def row_blocks(n_rows, n_columns):
    """Yield slices that cut a matrix into row blocks of bounded size."""
    # A block much shorter than wide would spend its time on adding to the second moments.
    step = max(64, n_columns // 4, _BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


class SecondMoments:
    """Second moments about a shift, in units of a power of two.

    With x = row / unit - shift and t = column / target_unit - target_shift, these are the weighted
    sums over the samples of 1, x, t, x xᵀ, t xᵀ, t², ||x||⁴ and ||x||² x.
    """

    def __init__(self, n_features, n_outputs):
        self.shift = None
        self.unit = 1.0
        self.target_shift = None
        self.target_unit = np.ones(n_outputs)
        self.weight = 0.0
        self.sum_x = np.zeros(n_features)
        self.sum_t = np.zeros(n_outputs)
        # Only the lower triangle counts, laid out as BLAS updates it in place.
        self.lower = np.zeros((n_features, n_features), order="F")
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
    def scatter(self):
        """The second moments as a full matrix, made anew."""
        return np.tril(self.lower) + np.tril(self.lower, -1).T

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
        first = X[: min(len(X), 1024)].astype(np.float64)
        largest = power_of_two(np.abs(first).max(initial=0.0))
        first /= largest
        shift = first.mean(axis=0)
        # The rounded mean of equal numbers may differ from them: constant columns must become 0.
        constant = (first == first[0]).all(axis=0)
        shift[constant] = first[0][constant]
        size = float(np.abs(first - shift).max(initial=0.0))
        self.unit = refine_unit(largest, size or np.abs(shift).max(initial=0.0))
        self.shift = shift * (largest / self.unit)
        self.target_shift = np.zeros(len(self.sum_t))
        if target.task == "regression":
            first = target.outputs[: len(first)]
            self.target_unit = power_of_two(np.abs(first).max(axis=0, initial=0.0))
            self.target_shift = (first / self.target_unit).mean(axis=0)

    def add_rows(self, X, target, sample_weight, code_map):
        if self.shift is None:
            self._start(X, target)
        for rows in row_blocks(len(X), X.shape[1]):
            x, squares = self._in_units(X[rows])
            columns = target.columns(rows)
            if code_map is not None:
                columns, given = np.zeros((len(columns), len(self.sum_t))), columns
                columns[:, code_map] = given
            else:
                columns = columns / self.target_unit - self.target_shift
            self._add_block(
                x, squares, columns, None if sample_weight is None else sample_weight[rows]
            )

    def _in_units(self, X):
        """Return rows less the shift in units and their squared lengths.

        The unit is enlarged if the rows need it.
        """
        if not self.fourth and not self.shift.any():  # only zeros so far, in any unit
            self.unit = power_of_two(np.abs(X).max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            # Multiplying by the inverse of a power of two is exact, and faster than dividing.
            x = np.multiply(X, 1 / self.unit, dtype=np.float64, order="C")
            x -= self.shift
            squares = np.einsum("ij,ij->i", x, x)
        if squares.max(initial=0.0) < _LARGEST_IN_UNITS**2:
            return x, squares
        self._rescale(power_of_two(np.abs(X).max()))
        x = X / self.unit - self.shift
        return x, np.einsum("ij,ij->i", x, x)

    def _add_block(self, x, squares, t, w):
        # One product with the rows gives all sums that are linear in them.
        factors = np.column_stack([np.ones(len(x)), squares, t])
        if w is not None:
            factors *= w[:, None]
        sums = factors.T @ x
        self.sum_x += sums[0]
        self.third += sums[1]
        self.cross += sums[2:]
        self.weight += float(factors[:, 0].sum())
        self.fourth += float(factors[:, 1] @ squares)
        self.sum_t += factors[:, 2:].sum(axis=0)
        self.sum_tt += np.einsum("ij,ij->j", factors[:, 2:], t)
        if w is not None:
            x *= np.sqrt(w)[:, None]
        # numpy's product of a matrix with its transpose is symmetric. An update in place by scipy's
        # BLAS saves a pass, but scipy has threads of its own, and where the two take turns each
        # waits for the other's: blocks took three times as long.
        self.lower += (x.T @ x).T

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
        for name in ("weight", "sum_x", "sum_t", "lower", "cross", "sum_tt", "fourth", "third"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _rescale(self, unit):
        """Express the sums in a unit that is at least as large."""
        factor = self.unit / unit
        self.unit = unit
        self.shift *= factor
        self.sum_x *= factor
        self.cross *= factor
        self.lower *= factor**2
        self.third *= factor**3
        self.fourth *= factor**4

    def _rescale_target(self, unit):
        factor = self.target_unit / unit
        self.target_unit = unit
        self.target_shift = self.target_shift * factor
        self.sum_t *= factor
        self.sum_tt *= factor**2
        self.cross *= factor[:, None]

    def column_variances(self):
        """Weighted variances of the columns in squared units, 0 where rounding is all there is."""
        square = np.diagonal(self.lower) / self.weight
        variance = square - (self.sum_x / self.weight) ** 2
        return np.where(variance > 1e-14 * square, variance, 0.0)

    def _times(self, vector):
        return blas.dsymv(1.0, self.lower, vector, lower=1)

    def fourth_about(self, point):
        """Sum of ``||x - point||**4`` over the samples."""
        square = float(point @ point)
        return (
            self.fourth
            - 4 * float(self.third @ point)
            + 4 * float(point @ self._times(point))
            + 2 * square * float(np.trace(self.lower))
            - 4 * square * float(self.sum_x @ point)
            + square**2 * self.weight
        )

    def _translate(self, delta, target_delta):
        """Replace x by x + delta and t by t + target_delta in all sums."""
        self.fourth = self.fourth_about(-delta)
        along = self._times(delta)
        square = float(delta @ delta)
        trace = float(np.trace(self.lower))
        linear = float(self.sum_x @ delta)
        self.third = (
            self.third
            + delta * (trace + 2 * linear + square * self.weight)
            + 2 * along
            + square * self.sum_x
        )
        self.lower = blas.dsyr2(1.0, delta, self.sum_x, a=self.lower, lower=1, overwrite_a=1)
        self.lower = blas.dsyr(self.weight, delta, a=self.lower, lower=1, overwrite_a=1)
        self.sum_tt = self.sum_tt + 2 * target_delta * self.sum_t + self.weight * target_delta**2
        self.cross = (
            self.cross
            + np.outer(target_delta, self.sum_x)
            + np.outer(self.sum_t + self.weight * target_delta, delta)
        )
        self.sum_x = self.sum_x + self.weight * delta
        self.sum_t = self.sum_t + self.weight * target_delta
