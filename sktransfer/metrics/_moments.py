"""Mergeable statistics of features and target, on which a family of metrics is built."""

from dataclasses import dataclass

import numpy as np

from ..utils._target import Target, encode_target
from ._class_parts import DensePart, RowsPart, class_rows
from ._decomposition import decompose_rows, decompose_scatter
from ._second_moments import SecondMoments
from ._spectrum import power_of_two


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
    (n_features, n_features) is formed. Everything is accumulated in float64. From the first
    decomposition until they change, the second moments take half the memory of such a matrix.

    Parameters
    ----------
    n_features : int
        Number of columns D of the feature matrix.
    task : {"classification", "multilabel", "regression"}, default="classification"
        Kind of target.
    per_class : bool, default=False
        Whether the moments of every class by itself are kept too, for metrics that compare the
        covariances of classes. They cost as much again in time, and in memory one matrix of shape
        (min(class size, n_features), n_features) per class.

    Attributes
    ----------
    n_samples : int
        Number n of samples with a positive weight.
    total_weight : float
        Sum of the sample weights.
    is_weighted : bool
        Whether any samples came with weights.
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
    >>> y = rng.integers(0, 3, size=60)
    >>> F = rng.normal(size=(60, 5)) + y[:, None]
    >>> first, second = (FeatureMoments.from_arrays(F[r], y[r]) for r in np.split(range(60), [20]))
    >>> merged = first + second
    >>> abs(LogME().fit_moments(merged).score_ - LogME().fit(F, y).score_) < 1e-10
    True
    """

    def __init__(self, n_features, *, task="classification", per_class=False):
        if per_class and task != "classification":
            raise ValueError(
                f"Moments per class need a classification target; got a {task} target."
            )
        self.n_features = int(n_features)
        self.task = task
        self.n_samples = 0
        self.total_weight = 0.0
        self.is_weighted = False
        self.classes = None
        self._batches = []
        self._dense = None
        self._dense_is_shared = False
        self._resolution = 0.0
        self._spectra = {}
        # One FeatureMoments per class, in the order of `classes`.
        self._by_class = [] if per_class else None

    # ------------------------------------------------------------------ building

    @classmethod
    def from_arrays(cls, X, y, sample_weight=None, *, copy=True, per_class=False):
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
        per_class : bool, default=False
            Whether the moments of every class by itself are kept too.

        Returns
        -------
        moments : FeatureMoments
            The moments of the data.
        """
        X = np.asarray(X)
        target = cls._as_target(y)
        moments = cls(X.shape[1], task=target.task, per_class=per_class)
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
        self._spectra = {}
        self._resolution = max(self._resolution, _resolution(X.dtype))
        self.n_samples += len(X)
        self.total_weight += float(len(X) if sample_weight is None else sample_weight.sum())
        self.is_weighted |= sample_weight is not None
        if self._by_class is not None:
            positions = self._code_map(target)
            for code, rows in class_rows(target):
                label = target.classes[[code]]
                self._by_class[positions[code]].update(
                    X[rows],
                    Target("classification", classes=label, codes=np.zeros(len(rows), np.intp)),
                    None if sample_weight is None else sample_weight[rows],
                    copy=False,  # indexing by an array has made one
                )
        if self._dense is None and self.n_samples <= self.n_features:
            batch = _Batch(X, target, sample_weight, borrowed=True)
            self._batches.append(batch.owned() if copy else batch)
            return self
        self._densify()
        self._own_dense()
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
            self._insert_class_moments(np.empty(0, dtype=np.intp), len(self.classes))
            return
        if (self.classes.dtype.kind in "US") != (target.classes.dtype.kind in "US"):
            raise ValueError(
                f"Labels of dtype {target.classes.dtype} follow labels of dtype "
                f"{self.classes.dtype}; all batches must use one type."
            )
        union = np.union1d(self.classes, target.classes)
        if len(union) > len(self.classes):
            positions = np.searchsorted(union, self.classes)
            if self._dense is not None:
                self._own_dense()
                self._dense.insert_outputs(positions, len(union))
            self._insert_class_moments(positions, len(union))
            self.classes = union

    def _insert_class_moments(self, positions, n_classes):
        """Move the moments of the classes to new positions among those of more classes."""
        if self._by_class is None:
            return
        more = [FeatureMoments(self.n_features) for _ in range(n_classes)]
        for position, moments in zip(positions, self._by_class, strict=True):
            more[position] = moments
        self._by_class = more

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
            self._dense = SecondMoments(self.n_features, self.n_outputs)
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
        if self.per_class != other.per_class:
            raise ValueError(
                "Moments with and without those of every class (per_class) can't be added."
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
        total._own_dense()
        addend._densify()
        total._dense.add_moments(addend._dense)
        if total._by_class is not None:
            total._by_class = [
                one + two for one, two in zip(total._by_class, addend._by_class, strict=True)
            ]
        total.n_samples += addend.n_samples
        total.total_weight += addend.total_weight
        total.is_weighted |= addend.is_weighted
        total._resolution = max(total._resolution, addend._resolution)
        total._spectra = {}
        return total

    def _labels_only(self):
        """Return an empty target with the classes or the number of outputs seen."""
        if self.task == "classification":
            return Target(self.task, classes=self.classes, codes=np.empty(0, dtype=np.intp))
        return Target(self.task, outputs=np.empty((0, self._n_outputs)))

    def copy(self):
        """Return moments that can be updated without changing these.

        Returns
        -------
        moments : FeatureMoments
            A copy; large matrices and decompositions, those to come too, are shared until one of
            the two changes.
        """
        twin = FeatureMoments.__new__(FeatureMoments)
        self._dense_is_shared = self._dense is not None
        twin.__dict__.update(self.__dict__)
        twin._batches = list(self._batches)
        if self._by_class is not None:
            twin._by_class = [moments.copy() for moments in self._by_class]
        return twin

    def _own_dense(self):
        """Make the second moments this object's own before they are changed."""
        if self._dense_is_shared:
            self._dense = self._dense.copy()
            self._dense_is_shared = False

    def detach(self):
        """Drop the memoised decompositions and copy rows that belong to the caller.

        Returns
        -------
        self : FeatureMoments
            The same moments.
        """
        self._spectra = {}
        self._batches = [batch.owned() for batch in self._batches]
        return self

    def __getstate__(self):
        return {**self.__dict__, "_spectra": {}}

    # ------------------------------------------------------------------ reading

    @property
    def resolution(self):
        """Relative spacing of the coarsest numbers that features were stored in."""
        return self._resolution

    @property
    def per_class(self):
        """Whether the moments of every class by itself are kept too."""
        return self._by_class is not None

    def class_parts(self):
        """Return what is kept of every class by itself, for metrics that compare classes.

        Returns
        -------
        parts : list of RowsPart or DensePart
            In the order of `classes`.

        Raises
        ------
        ValueError
            If the moments were gathered without ``per_class=True``.
        """
        if self._by_class is None:
            raise ValueError(
                "These moments hold no moments of every class; gather them with per_class=True."
            )
        parts = []
        for moments in self._by_class:
            if moments._dense is None:
                X, _, weight = moments._kept_rows()
                parts.append(RowsPart(X, weight))
            else:
                parts.append(DensePart(moments._dense, moments.n_samples))
        return parts

    @property
    def spectrum(self):
        """The decomposition of the centred features, computed once."""
        return self._decompose(None)

    @property
    def balanced_spectrum(self):
        """The decomposition with ill-scaled columns divided by their standard deviations.

        The same as `spectrum` while the standard deviations lie within a factor of 1,000 of each
        other, where the scales cost no digits.
        """
        variance, mean = self.spectrum.column_variances, self.spectrum.mean
        # A column whose spread is that of its storage format is a constant.
        alive = variance > 64 * self._resolution**2 * (mean**2 + variance)
        if not alive.any() or variance[alive].max() <= 1e6 * variance[alive].min():
            return self.spectrum
        # Powers of two keep the features exact.
        deviation = np.sqrt(np.where(alive, variance, 1.0))
        return self._decompose(np.where(alive, power_of_two(deviation), np.inf))

    def _decompose(self, column_scale):
        if self.n_samples == 0:
            raise ValueError("No samples were added to these moments yet.")

        def decompose():
            if self._dense is None:
                return decompose_rows(*self._kept_rows(), self._resolution, column_scale)
            return decompose_scatter(self._dense, self.n_samples, self._resolution, column_scale)

        return self.remembered("raw" if column_scale is None else "balanced", decompose)

    def remembered(self, kind, decompose):
        """Return a decomposition of the same samples, made once and kept until the moments change.

        Parameters
        ----------
        kind : str
            What distinguishes it from other decompositions of these samples.
        decompose : callable
            Makes it.

        Returns
        -------
        spectrum : CenteredSpectrum
            The decomposition.
        """
        # Copies share this dict; whoever changes takes a new one.
        if kind not in self._spectra:
            self._spectra[kind] = decompose()
        return self._spectra[kind]

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
