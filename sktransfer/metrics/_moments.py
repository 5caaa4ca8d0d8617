"""Mergeable statistics of features and target, on which a family of metrics is built."""

import math
from dataclasses import dataclass

import numpy as np

from ..utils._target import Target, encode_target
from ._spectrum import decompose_rows, decompose_scatter

# Elements of a block that is converted to float64 at a time (16 MiB): temporaries stay small
# beside the features, and the block stays in cache for the passes made over it.
_BLOCK_ELEMENTS = 2**21


def row_blocks(n_rows, n_columns):
    """Yield slices that cut a matrix into row blocks of bounded size."""
    step = max(64, _BLOCK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


@dataclass(frozen=True)
class _Batch:
    """Rows kept as they came, while they are fewer than the features."""

    X: np.ndarray
    target: Target
    sample_weight: np.ndarray | None
    borrowed: bool

    def owned(self):
        """Return a batch whose arrays nobody else can change."""
        if not self.borrowed:
            return self
        weight = None if self.sample_weight is None else np.array(self.sample_weight)
        return _Batch(np.array(self.X), self.target, weight, borrowed=False)


class FeatureMoments:
    """Sufficient statistics of features and a target that can be updated and added.

    Held are the number of samples, their total weight, and about a shift taken from the first
    batch (so that large means cost no digits) the weighted sums, the second moments, the
    cross-moments of features and target columns (for labels: the class sums), and the sums of
    ``||x||**4`` and ``||x||**2 x`` that the Ledoit-Wolf estimate needs. As long as there are no
    more samples than features the rows themselves are kept instead, and no matrix of shape
    (n_features, n_features) is formed. Everything is accumulated in float64.

    Parameters
    ----------
    n_features : int
        Number of columns D of the feature matrix.
    task : {"classification", "multilabel", "regression"}, default="classification"
        Kind of target.

    Attributes
    ----------
    n_samples : int
        Number n of samples with a positive weight.
    total_weight : float
        Sum of the sample weights.
    classes : ndarray of shape (n_classes,) or None
        Sorted labels seen so far.
    spectrum : CenteredSpectrum
        Eigenvalues of the centred scatter matrix and what metrics need along its directions;
        computed once and kept until the moments change.

    See Also
    --------
    LogME : The maximised evidence of a linear model.
    HScore : The share of the class means in the feature covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.metrics import FeatureMoments, LogME
    >>> rng = np.random.default_rng(0)
    >>> F, y = rng.normal(size=(60, 5)), rng.integers(0, 3, size=60)
    >>> first = FeatureMoments.from_arrays(F[:20], y[:20])
    >>> second = FeatureMoments.from_arrays(F[20:], y[20:])
    >>> merged = first + second
    >>> merged.n_samples
    60
    >>> abs(LogME().fit_moments(merged).score_ - LogME().fit(F, y).score_) < 1e-10
    True
    """

    def __init__(self, n_features, *, task="classification"):
        self.n_features = int(n_features)
        self.task = task
        self.n_samples = 0
        self.total_weight = 0.0
        self.classes = None
        self._batches = []
        self._dense = None
        self._resolution = 0.0
        self._spectrum = None

    # ------------------------------------------------------------------ building

    @classmethod
    def from_arrays(cls, X, y, sample_weight=None, *, copy=True):
        """Gather the moments of arrays.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Finite features, float32 or float64. Never changed.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or Target
            Labels, 0/1 columns or regression outputs.
        sample_weight : ndarray of shape (n_samples,), default=None
            Positive weights.
        copy : bool, default=True
            Whether rows that have to be kept are copied. Without, `X` must not change as long as
            the moments are in use; see :meth:`detach`.

        Returns
        -------
        moments : FeatureMoments
            The moments of the data.
        """
        X = np.asarray(X)
        target = cls._as_target(y)
        moments = cls(X.shape[1], task=target.task)
        return moments.update(X, target, sample_weight, copy=copy)

    @staticmethod
    def _as_target(y, task="auto"):
        if isinstance(y, Target):
            return y
        tasks = ("classification", "multilabel", "regression")
        return encode_target(np.asarray(y), tasks=tasks, name="FeatureMoments", task=task)

    def update(self, X, y, sample_weight=None, *, copy=True):
        """Add a batch of samples in place.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Finite features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or Target
            The target of the batch.
        sample_weight : ndarray of shape (n_samples,), default=None
            Positive weights.
        copy : bool, default=True
            Whether rows that have to be kept are copied.

        Returns
        -------
        self : FeatureMoments
            The updated moments.
        """
        X = np.asarray(X)
        target = self._as_target(y, self.task)
        if X.ndim != 2 or X.shape[1] != self.n_features or len(X) != target.n_samples:
            raise ValueError(
                f"A batch must have {self.n_features} features and one target per row; got X of "
                f"shape {X.shape} and {target.n_samples} targets."
            )
        self._extend_outputs(target)
        self._spectrum = None
        self._resolution = max(self._resolution, _resolution(X.dtype))
        self.n_samples += len(X)
        self.total_weight += float(len(X) if sample_weight is None else sample_weight.sum())
        if self._dense is None and self.n_samples <= self.n_features:
            batch = _Batch(X, target, sample_weight, borrowed=True)
            self._batches.append(batch.owned() if copy else batch)
            return self
        self._densify()
        self._dense.add_rows(X, target, sample_weight, self._code_map(target))
        return self

    def _extend_outputs(self, target):
        """Make room for the classes of a batch, or check its number of outputs."""
        if target.task != self.task:
            raise ValueError(f"The moments are of a {self.task} target; got a {target.task} batch.")
        if self.task != "classification":
            if self.n_samples and self._n_outputs != target.n_outputs:
                raise ValueError(
                    f"Every batch must have {self._n_outputs} target columns; "
                    f"got {target.n_outputs}."
                )
            self._n_outputs = target.n_outputs
            return
        if self.classes is None:
            self.classes = target.classes
            return
        if (self.classes.dtype.kind in "US") != (target.classes.dtype.kind in "US"):
            raise ValueError(
                f"Labels of dtype {target.classes.dtype} follow labels of dtype "
                f"{self.classes.dtype}; all batches must use one type."
            )
        union = np.union1d(self.classes, target.classes)
        if len(union) > len(self.classes):
            if self._dense is not None:
                self._dense.insert_outputs(np.searchsorted(union, self.classes), len(union))
            self.classes = union

    def _code_map(self, target):
        """Positions of a batch's classes among all classes seen."""
        if self.task != "classification":
            return None
        return np.searchsorted(self.classes, target.classes)

    @property
    def n_outputs(self):
        """Number of classes seen, or of output columns."""
        return len(self.classes) if self.task == "classification" else self._n_outputs

    def _densify(self):
        """Turn kept rows into second moments."""
        if self._dense is None:
            self._dense = _DenseMoments(self.n_features, self.n_outputs)
        batches, self._batches = self._batches, []
        for batch in batches:
            self._dense.add_rows(
                batch.X, batch.target, batch.sample_weight, self._code_map(batch.target)
            )

    def __add__(self, other):
        """Return the moments of both sets of samples together."""
        if not isinstance(other, FeatureMoments):
            return NotImplemented
        if (other.n_features, other.task) != (self.n_features, self.task):
            raise ValueError(
                f"Moments of {self.n_features} features of a {self.task} target can't be added to "
                f"moments of {other.n_features} features of a {other.task} target."
            )
        total = self.copy()
        if other._dense is None:
            for batch in other._batches:
                total.update(batch.X, batch.target, batch.sample_weight)
            return total
        if other.n_samples == 0:
            return total
        addend = other.copy()
        for one, two in ((total, addend), (addend, total)):
            if two.n_samples:
                one._extend_outputs(two._labels_only())
        total._densify()
        addend._densify()
        total._dense.add_moments(addend._dense)
        total.n_samples += addend.n_samples
        total.total_weight += addend.total_weight
        total._resolution = max(total._resolution, addend._resolution)
        total._spectrum = None
        return total

    def _labels_only(self):
        """Return an empty target with the classes or the number of outputs seen."""
        if self.task == "classification":
            return Target(self.task, classes=self.classes, codes=np.empty(0, dtype=np.intp))
        return Target(self.task, outputs=np.empty((0, self._n_outputs)))

    def copy(self):
        """Return moments that can be updated without changing these."""
        twin = FeatureMoments.__new__(FeatureMoments)
        twin.__dict__.update(self.__dict__)
        twin._batches = list(self._batches)
        twin._dense = None if self._dense is None else self._dense.copy()
        return twin

    def detach(self):
        """Drop the memoised decomposition and copy rows that belong to the caller.

        Returns
        -------
        self : FeatureMoments
            The same moments.
        """
        self._spectrum = None
        self._batches = [batch.owned() for batch in self._batches]
        return self

    def __getstate__(self):
        return {**self.__dict__, "_spectrum": None}

    # ------------------------------------------------------------------ reading

    @property
    def spectrum(self):
        """The decomposition of the centred features, computed once."""
        if self._spectrum is None:
            if self.n_samples == 0:
                raise ValueError("No samples were added to these moments yet.")
            if self._dense is None:
                X, columns, weights = self._kept_rows()
                self._spectrum = decompose_rows(
                    X, columns, weights, self.total_weight, self._resolution
                )
            else:
                self._spectrum = decompose_scatter(
                    self._dense, self.n_samples, self.total_weight, self._resolution
                )
        return self._spectrum

    def _kept_rows(self):
        """Return the kept rows, their target columns and their weights as single arrays."""
        n_outputs = self.n_outputs
        columns = np.zeros((self.n_samples, n_outputs))
        stop = 0
        for batch in self._batches:
            start, stop = stop, stop + len(batch.X)
            codes = self._code_map(batch.target)
            columns[start:stop, slice(None) if codes is None else codes] = batch.target.columns()
        if len(self._batches) == 1:
            return self._batches[0].X, columns, self._batches[0].sample_weight
        X = np.concatenate([b.X for b in self._batches])
        weights = None
        if any(b.sample_weight is not None for b in self._batches):
            weights = np.concatenate(
                [
                    np.ones(len(b.X)) if b.sample_weight is None else b.sample_weight
                    for b in self._batches
                ]
            )
        return X, columns, weights


def _resolution(dtype):
    """Relative spacing of the numbers that the features were stored in."""
    return float(np.finfo(dtype if np.dtype(dtype).kind == "f" else np.float64).eps)


class _DenseMoments:
    """Second moments about a shift, in units of a power of two.

    With x = (row - shift) / unit and t the target columns less ``target_shift``, these are the
    weighted sums over the samples of 1, x, t, x xᵀ, t xᵀ, t², ||x||⁴ and ||x||² x.
    """

    def __init__(self, n_features, n_outputs):
        self.shift = None
        self.unit = 1.0
        self.target_shift = None
        self.weight = 0.0
        self.sum_x = np.zeros(n_features)
        self.sum_t = np.zeros(n_outputs)
        self.scatter = np.zeros((n_features, n_features))
        self.cross = np.zeros((n_outputs, n_features))
        self.sum_tt = np.zeros(n_outputs)
        self.fourth = 0.0
        self.third = np.zeros(n_features)

    def copy(self):
        twin = _DenseMoments.__new__(_DenseMoments)
        twin.__dict__.update(
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        )
        return twin

    def insert_outputs(self, positions, n_outputs):
        """Move the outputs to new positions among more of them."""
        for name in ("sum_t", "cross", "sum_tt", "target_shift"):
            old = getattr(self, name)
            if old is not None:
                new = np.zeros((n_outputs, *old.shape[1:]))
                new[positions] = old
                setattr(self, name, new)

    def _start(self, X, target, n_outputs):
        """Choose shift and unit from the first rows."""
        first = X[: min(len(X), 1024)]
        self.shift = first.mean(axis=0, dtype=np.float64)
        # The rounded mean of equal numbers may differ from them: constant columns must become 0.
        constant = (first == first[0]).all(axis=0)
        self.shift[constant] = first[0][constant]
        size = float(np.abs(first - self.shift).max(initial=0.0))
        if size == 0.0:
            size = float(np.abs(self.shift).max(initial=0.0)) or 1.0
        self.unit = 2.0 ** round(math.log2(size))
        self.target_shift = np.zeros(n_outputs)
        if target.task == "regression":
            self.target_shift = target.outputs[: len(first)].mean(axis=0)

    def add_rows(self, X, target, sample_weight, code_map):
        if self.shift is None:
            self._start(X, target, len(self.sum_t))
        for rows in row_blocks(len(X), X.shape[1]):
            x = np.subtract(X[rows], self.shift, dtype=np.float64)
            x /= self.unit
            columns = target.columns(rows)
            if code_map is not None:
                columns, given = np.zeros((len(columns), len(self.sum_t))), columns
                columns[:, code_map] = given
            else:
                columns = columns - self.target_shift
            self._add_block(x, columns, None if sample_weight is None else sample_weight[rows])

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
        other._rescale(self.unit)
        other._translate(
            (other.shift - self.shift) / self.unit, other.target_shift - self.target_shift
        )
        for name in ("weight", "sum_x", "sum_t", "scatter", "cross", "sum_tt", "fourth", "third"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _rescale(self, unit):
        factor = self.unit / unit
        self.unit = unit
        self.sum_x *= factor
        self.cross *= factor
        self.scatter *= factor**2
        self.third *= factor**3
        self.fourth *= factor**4

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
