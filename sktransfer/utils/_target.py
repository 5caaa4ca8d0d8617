"""What a target ``y`` is: its task, its classes, and the output columns a linear model predicts."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Target", "encode_target"]

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


def encode_target(y, *, tasks, name, task="auto"):
    """Turn ``y`` into a :class:`Target`, or say in one sentence why that can't be.

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

    Returns
    -------
    target : Target
        The encoded target.

    Raises
    ------
    ValueError
        If the task has no definition for the caller, or the values do not fit the task.
    """
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind == "O":
        y = _plain_array(y, name)
    detected, seen = _detect_task(y)
    if task == "auto":
        task = detected
    if task not in tasks:
        raise ValueError(
            f"{name} is defined for {' and '.join(tasks)} targets; "
            f"got a {task} target y ({seen})."
        )
    if task == "classification":
        if detected != "classification":
            raise ValueError(
                f"Unknown label type: a classification target y for {name} must be a 1-D array "
                f"of labels; got {seen}."
            )
        classes, codes = np.unique(y, return_inverse=True)
        return Target(task, classes=classes, codes=codes.astype(np.intp, copy=False))
    if task == "multilabel" and detected != "multilabel":
        raise ValueError(
            f"A multilabel target y for {name} must have two or more columns of 0 and 1; got {seen}."
        )
    if y.dtype.kind not in "biuf":
        raise ValueError(f"A {task} target y for {name} must hold numbers; got dtype {y.dtype}.")
    outputs = np.array(y, dtype=np.float64)  # a copy: the caller may change y later
    return Target(task, outputs=outputs.reshape(len(outputs), -1))


def _plain_array(y, name):
    """Give an object array of strings or numbers its natural dtype."""
    kinds = {
        "strings" if isinstance(v, str) else "bytes" if isinstance(v, bytes) else "numbers"
        for v in y.ravel()
    }
    if len(kinds) > 1:
        raise ValueError(
            f"The target y for {name} mixes {' and '.join(sorted(kinds))}; "
            "labels must all be of one type."
        )
    if kinds == {"strings"}:
        return y.astype(str)
    if kinds == {"bytes"}:
        return y.astype(bytes)
    try:
        return np.asarray(y.tolist())
    except ValueError as error:
        raise ValueError(f"The target y for {name} is not an array of labels: {error}") from error
