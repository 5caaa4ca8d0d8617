"""What a target ``y`` is: its task, its classes, and the output columns a linear model predicts."""

import numbers
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..exceptions import AmbiguousTargetWarning

__all__ = [
    "Target",
    "as_labels",
    "as_target_array",
    "encode_target",
    "find_task",
    "kind_of_labels",
    "refuse_masked",
]

TASKS = ("classification", "multilabel", "regression")


@dataclass(frozen=True)
class Target:
    """A validated target.

    Parameters
    ----------
    task : {"classification", "multilabel", "regression"}
        What kind of target it is.
    classes : ndarray of shape (n_classes,) or None
        Sorted class labels of a classification target.
    codes : ndarray of shape (n_samples,), dtype intp, or None
        Position of each sample's label in ``classes``.
    outputs : ndarray of shape (n_samples, n_outputs), dtype float64, or None
        Columns of a multilabel or regression target.
    """

    task: str
    classes: np.ndarray | None = None
    codes: np.ndarray | None = None
    outputs: np.ndarray | None = None

    @property
    def n_samples(self):
        """Number of rows."""
        return len(self.codes if self.outputs is None else self.outputs)

    @property
    def n_outputs(self):
        """Number of classes, or of output columns."""
        return len(self.classes) if self.outputs is None else self.outputs.shape[1]

    @property
    def n_columns_given(self):
        """Number of columns of ``y`` as the caller gave it (1 for labels)."""
        return 1 if self.outputs is None else self.outputs.shape[1]

    def columns(self, rows=slice(None)):
        """Return the output columns (one-hot for classes) of some rows as float64."""
        if self.outputs is not None:
            return self.outputs[rows]
        codes = self.codes[rows]
        one_hot = np.zeros((len(codes), len(self.classes)))
        one_hot[np.arange(len(codes)), codes] = 1.0
        return one_hot

    def take(self, rows):
        """Return the target of some rows; classes that no row has any more are left out."""
        if self.outputs is not None:
            return Target(self.task, outputs=self.outputs[rows])
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        return Target(self.task, classes=self.classes[present], codes=codes.astype(np.intp))


def _detect_task(y):
    """Name the task of a validated array and say, for error messages, what was seen."""
    numeric = y.dtype.kind in "biuf"
    if y.ndim == 2:
        if not numeric:
            raise ValueError(
                f"A target y of shape {y.shape} must hold numbers (0/1 for several labels at "
                f"once, or regression outputs); got dtype {y.dtype}."
            )
        if y.dtype.kind == "b" or bool(np.isin(y, (0, 1)).all()):
            return "multilabel", f"{y.shape[1]} columns of 0 and 1"
        return "regression", f"{y.shape[1]} numeric columns"
    if y.dtype.kind == "f" and bool((y != np.floor(y)).any()):
        return "regression", "numbers with a fractional part"
    return "classification", "labels"


def find_task(y, *, tasks, name, task="auto", regression_by="LogME(task='regression')"):
    """Tell what kind of target ``y`` is, or say in one sentence why a caller can't use it.

    Parameters
    ----------
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        A target that was checked for length, missing and infinite values. One column is the same
        as a 1-D target.
    tasks : tuple of str
        The tasks that the caller has a definition for.
    name : str
        Who asks, for messages.
    task : {"auto", "classification", "multilabel", "regression"}, default="auto"
        The task; "auto" recognises it from the values.
    regression_by : str, default="LogME(task='regression')"
        How the caller is told that whole numbers are values, for messages.

    Returns
    -------
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target, with a dtype of strings or numbers.
    task : {"classification", "multilabel", "regression"}
        The task.

    Raises
    ------
    ValueError
        If the task has no definition for the caller, or the values do not fit the task.
    """
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind == "O":
        y = as_labels(y, f"The target y for {name}")
    if y.dtype.kind in "MmV":
        raise ValueError(
            f"The target y for {name} must hold strings or numbers; got dtype {y.dtype}. Dates "
            "can be labels as strings, or values as a number of days."
        )
    detected, seen = _detect_task(y)
    guessed = task == "auto"
    if guessed:
        task = detected
    if task not in tasks:
        raise ValueError(
            f"{name} is defined for {' and '.join(tasks)} targets; got a {task} target y ({seen})."
        )
    if guessed and task == "regression" and y.ndim == 2 and y.dtype.kind in "iu":
        raise ValueError(
            f"The target y for {name} has {y.shape[1]} columns of whole numbers, which may be "
            "several labels per sample (one target at a time is supported, or 0/1 columns) or "
            f"several values to predict: use {regression_by} or floats for the latter."
        )
    if task == "classification" and detected != "classification":
        raise ValueError(
            f"Unknown label type: a classification target y for {name} must be a 1-D array "
            f"of labels; got {seen}."
        )
    if task == "multilabel" and detected != "multilabel":
        raise ValueError(
            f"A multilabel target y for {name} must have two or more columns of 0 and 1; "
            f"got {seen}."
        )
    if task != "classification" and y.dtype.kind not in "biuf":
        raise ValueError(f"A {task} target y for {name} must hold numbers; got dtype {y.dtype}.")
    return y, task


def encode_target(y, *, tasks, name, task="auto", regression_by="LogME(task='regression')"):
    """Turn ``y`` into a :class:`Target`, or say in one sentence why that can't be.

    Parameters
    ----------
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        A target, as :func:`find_task` takes it.
    tasks : tuple of str
        The tasks that the caller has a definition for.
    name : str
        Who asks, for messages.
    task : {"auto", "classification", "multilabel", "regression"}, default="auto"
        The task; "auto" recognises it from the values.
    regression_by : str, default="LogME(task='regression')"
        How the caller is told that whole numbers are values, for messages.

    Returns
    -------
    target : Target
        The encoded target.

    Raises
    ------
    ValueError
        As :func:`find_task`.
    """
    guessed = task == "auto"
    y, task = find_task(y, tasks=tasks, name=name, task=task, regression_by=regression_by)
    if task == "classification":
        classes, codes = np.unique(y, return_inverse=True)
        if guessed and y.dtype.kind == "f" and len(classes) > max(len(y) / 2, 2):
            warnings.warn(
                f"The target y for {name} holds whole floats with {len(classes)} distinct values "
                f"in {len(y)} samples and is read as class labels; for a regression use "
                f"{regression_by}, for labels integers.",
                AmbiguousTargetWarning,
                stacklevel=2,
            )
        return Target(task, classes=classes, codes=codes.astype(np.intp, copy=False))
    outputs = np.array(y, dtype=np.float64)  # a copy: the caller may change y later
    return Target(task, outputs=outputs.reshape(len(outputs), -1))


def refuse_masked(array, what):
    """Refuse an array with masked values, which would be taken for values like any other.

    Parameters
    ----------
    array : object
        What a caller gave.
    what : str
        What it is, for the message.

    Raises
    ------
    ValueError
        If something is masked.
    """
    n_masked = np.ma.count_masked(array) if isinstance(array, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{what} is a masked array with {n_masked} of {array.size} values masked, and masks "
            "have no meaning here: leave out those samples, or fill in values by filled()."
        )


def as_target_array(y):
    """Refuse or convert what scikit-learn's own validation of ``y`` does not know.

    Parameters
    ----------
    y : array-like
        A target as the caller gave it.

    Returns
    -------
    y : array-like
        The same, or strings of variable width as an ordinary string array.
    """
    if sparse.issparse(y):
        raise TypeError("The target y must be a dense array; got a sparse one. Use y.toarray().")
    refuse_masked(y, "The target y")
    if getattr(getattr(y, "dtype", None), "kind", None) == "T":
        return np.array(np.asarray(y).tolist())
    return y


def as_labels(values, what):
    """Give an object array of strings or numbers its natural dtype.

    Parameters
    ----------
    values : ndarray of dtype object
        Labels.
    what : str
        What they are, for messages.

    Returns
    -------
    labels : ndarray
        The labels with a string or numeric dtype.

    Raises
    ------
    ValueError
        If they are of several types, or neither strings nor numbers.
    """
    kinds = {_kind(value) for value in values.ravel()}
    if len(kinds) > 1:
        raise ValueError(
            f"{what} mixes {' and '.join(sorted(kinds))}; labels must all be of one type."
        )
    (kind,) = kinds
    if kind == "strings":
        return values.astype(str)
    if kind == "bytes":
        return values.astype(bytes)
    if kind == "numbers":
        return np.array(values.tolist()).reshape(values.shape)
    raise ValueError(f"{what} must hold strings or numbers; got values of type {kind}.")


def kind_of_labels(labels):
    """Say in a word what labels are: two kinds have none in common.

    Parameters
    ----------
    labels : ndarray
        Labels of one type.

    Returns
    -------
    kind : {"strings", "bytes", "numbers"}
        The kind.
    """
    if labels.dtype.kind == "O":
        labels = as_labels(labels, "The target y")
    return {"U": "strings", "T": "strings", "S": "bytes"}.get(labels.dtype.kind, "numbers")


def _kind(value):
    if isinstance(value, str):
        return "strings"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, numbers.Number | np.bool_):
        return "numbers"
    return type(value).__name__
