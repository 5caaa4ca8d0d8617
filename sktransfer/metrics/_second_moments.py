"""Second moments of many rows about a shift, accumulated block by block and merged."""

import numpy as np

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
        self.scatter = np.zeros((n_features, n_features))
        self.cross = np.zeros((n_outputs, n_features))
        self.sum_tt = np.zeros(n_outputs)
        self.fourth = 0.0
        self.third = np.zeros(n_features)

    def copy(self):
        twin = SecondMoments.__new__(SecondMoments)
        twin.__dict__.update(
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        )
        return twin

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
            x = self._in_units(X[rows])
            columns = target.columns(rows)
            if code_map is not None:
                columns, given = np.zeros((len(columns), len(self.sum_t))), columns
                columns[:, code_map] = given
            else:
                columns = columns / self.target_unit - self.target_shift
            self._add_block(x, columns, None if sample_weight is None else sample_weight[rows])

    def _in_units(self, X):
        """Return rows less the shift in units, after enlarging the unit if they need it."""
        if not self.fourth and not self.shift.any():  # only zeros so far, in any unit
            self.unit = power_of_two(np.abs(X).max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            x = X / self.unit if self.unit != 1.0 else X.astype(np.float64)
            x = x.astype(np.float64, copy=False)
            x -= self.shift
            largest = np.abs(x).max(initial=0.0)
        if largest < _LARGEST_IN_UNITS:
            return x
        self._rescale(power_of_two(np.abs(X).max()))
        return X / self.unit - self.shift

    def _add_block(self, x, t, w):
        squares = np.einsum("ij,ij->i", x, x)
        if w is None:
            self.weight += len(x)
            self.fourth += float(squares @ squares)
            self.third += squares @ x
        else:
            self.weight += float(w.sum())
            self.fourth += float((w * squares) @ squares)
            self.third += (w * squares) @ x
            root = np.sqrt(w)[:, None]
            weighted_t = t * w[:, None]
            self.sum_x += w @ x
            self.sum_t += weighted_t.sum(axis=0)
            self.sum_tt += np.einsum("ij,ij->j", weighted_t, t)
            self.cross += weighted_t.T @ x
            x *= root
            self.scatter += x.T @ x
            return
        self.sum_x += x.sum(axis=0)
        self.sum_t += t.sum(axis=0)
        self.sum_tt += np.einsum("ij,ij->j", t, t)
        self.cross += t.T @ x
        self.scatter += x.T @ x

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
        for name in ("weight", "sum_x", "sum_t", "scatter", "cross", "sum_tt", "fourth", "third"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _rescale(self, unit):
        """Express the sums in a unit that is at least as large."""
        factor = self.unit / unit
        self.unit = unit
        self.shift *= factor
        self.sum_x *= factor
        self.cross *= factor
        self.scatter *= factor**2
        self.third *= factor**3
        self.fourth *= factor**4

    def _rescale_target(self, unit):
        factor = self.target_unit / unit
        self.target_unit = unit
        self.target_shift = self.target_shift * factor
        self.sum_t *= factor
        self.sum_tt *= factor**2
        self.cross *= factor[:, None]

    def column_statistics(self):
        """Weighted variances and means of the columns, in the unit of the moments."""
        offset = self.sum_x / self.weight
        square = np.diagonal(self.scatter) / self.weight
        variance = square - offset**2
        return np.where(variance > 1e-14 * square, variance, 0.0), self.shift + offset

    def fourth_about(self, point):
        """Sum of ``||x - point||**4`` over the samples."""
        square = float(point @ point)
        return (
            self.fourth
            - 4 * float(self.third @ point)
            + 4 * float(point @ (self.scatter @ point))
            + 2 * square * float(np.trace(self.scatter))
            - 4 * square * float(self.sum_x @ point)
            + square**2 * self.weight
        )

    def _translate(self, delta, target_delta):
        """Replace x by x + delta and t by t + target_delta in all sums."""
        self.fourth = self.fourth_about(-delta)
        along = self.scatter @ delta
        square = float(delta @ delta)
        trace = float(np.trace(self.scatter))
        linear = float(self.sum_x @ delta)
        self.third = (
            self.third
            + delta * (trace + 2 * linear + square * self.weight)
            + 2 * along
            + square * self.sum_x
        )
        self.scatter += np.outer(delta, self.sum_x)
        self.scatter += np.outer(self.sum_x + self.weight * delta, delta)
        self.sum_tt = self.sum_tt + 2 * target_delta * self.sum_t + self.weight * target_delta**2
        self.cross = (
            self.cross
            + np.outer(target_delta, self.sum_x)
            + np.outer(self.sum_t + self.weight * target_delta, delta)
        )
        self.sum_x = self.sum_x + self.weight * delta
        self.sum_t = self.sum_t + self.weight * target_delta
