"""What is checked before any candidate is run: target, weights and splits."""

import os
from numbers import Integral

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_memory

from ..backbones._store import FeatureStore
from ..utils._target import TASKS, as_target_array, find_task
from ..utils._weights import as_weights

__all__ = [
    "check_target",
    "check_weights",
    "open_memory",
    "refuse_repeated_rows",
    "require_defined",
    "training_rows",
    "usable_splits",
]


def check_target(X, y, estimator="TransferabilitySelector"):
    """Check the target against the data, which themselves are the candidates' concern.

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
        The data; only their number counts here.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The target.
    estimator : str, default="TransferabilitySelector"
        Who asks.

    Returns
    -------
    y : ndarray
        The target as an array.

    Raises
    ------
    ValueError
        If there is no target, its length is wrong, values are missing or all are the same.
    """
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None.")
    y = as_target_array(y)
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(X, y)
    if bool(np.all(y == y[:1])):
        raise ValueError(
            "Transferability scores need at least 2 classes or values in y; got 1 class "
            f"({y[0].tolist()!r}) in n_samples={len(y)}."
        )
    return y


def require_defined(y, metrics):
    """Say what a target is, or refuse one that no metric has a definition for.

    Parameters
    ----------
    y : ndarray
        The target.
    metrics : list of metrics
        Of which one is enough. What a metric that tells no ``tasks`` takes is found by its fit.

    Returns
    -------
    task : {"classification", "multilabel", "regression"}
        What the target is to the first metric that is defined for it.

    Raises
    ------
    ValueError
        As the first metric would.
    """
    errors = []
    for metric in metrics:
        asked = {"name": type(metric).__name__, "task": getattr(metric, "task", "auto")}
        try:
            return find_task(y, tasks=getattr(metric, "tasks", TASKS), **asked)[1]
        except ValueError as error:
            if not hasattr(metric, "tasks"):
                return "regression"  # whatever it is, no classes that anything could be said of
            errors.append(error)
    raise errors[0]


def check_weights(sample_weights, y):
    """Check that there is a weight for each sample, before any candidate is run.

    Parameters
    ----------
    sample_weights : dict of str to array-like
        Weights by metric.
    y : ndarray
        The target.

    Returns
    -------
    sample_weights : dict of str to ndarray
        The weights; equal objects stay one object, so that metrics can share work.

    Raises
    ------
    ValueError
        If there is another number of them, or one is no number, infinite or negative.
    """
    arrays = {}
    for weights in sample_weights.values():
        arrays.setdefault(id(weights), as_weights(weights, y))
    return {name: arrays[id(weights)] for name, weights in sample_weights.items()}


def open_memory(memory):
    """Open what the parameter ``memory`` says, at a place that can be written to.

    Parameters
    ----------
    memory : str, path, FeatureStore, object with a method ``cache`` or None
        As passed to the selector.

    Returns
    -------
    memory : FeatureStore or object with a method ``cache``
        A store for a folder; a joblib memory that keeps nothing for None.

    Raises
    ------
    ValueError
        If there can't be a folder of this name, or no files in it.
    """
    if isinstance(memory, str | os.PathLike):
        memory = FeatureStore(os.fspath(memory))
    if not isinstance(memory, FeatureStore):
        return check_memory(memory)
    try:
        memory.prepare()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            "The 'memory' parameter must be a folder that can be made and written to. "
            f"Got {os.fspath(memory.path)!r} instead ({reason})."
        ) from error
    return memory


def training_rows(cv, X, y, split_params):
    """Find the samples that are scored in each split.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        As passed to the selector. Shuffled (stratified) folds are made of an integer: folds in
        the order of the rows would leave out whole classes, or a range of values, of sorted data.
        A splitter or an iterable gives (train, test) pairs, or subsets: row numbers or a mask
        alone, or at the head of a tuple.
    X : array-like of shape (n_samples, ...)
        The data.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.
    split_params : dict
        Further parameters of the splitter.

    Returns
    -------
    rows : list of ndarray of int or None
        Row numbers of the training part of each split, or of the subset; ``[None]``, all rows,
        without `cv`.

    Raises
    ------
    ValueError
        If there is no split, or a training part is empty or has rows that don't exist.
    """
    if cv is None:
        return [None]
    if isinstance(cv, Integral):
        is_classification = type_of_target(y) in ("binary", "multiclass")
        folds = StratifiedKFold if is_classification else KFold
        cv = folds(int(cv), shuffle=True, random_state=0)
    n_samples = len(y)
    # Splitters want rows to count; what X is made of isn't theirs to judge.
    X = X if hasattr(X, "shape") else np.empty((n_samples, 0))
    rows = []
    for split in _split(cv, X, y, split_params) if hasattr(cv, "split") else cv:
        train = _training_part(split)
        if train.dtype == bool:
            if train.shape != (n_samples,):
                raise ValueError(
                    f"Split {len(rows)} of 'cv' is a mask of shape {train.shape}, which must have "
                    f"an entry for each of the {n_samples} samples."
                )
            train = np.flatnonzero(train)
        if train.size == 0 or train.dtype.kind not in "iu" or train.ndim != 1:
            raise ValueError(
                f"The training part of split {len(rows)} of 'cv' must be a non-empty array of row "
                f"numbers. Got an array of shape {train.shape} and dtype {train.dtype} instead."
            )
        if train.min() < -n_samples or train.max() >= n_samples:
            raise ValueError(
                f"The training part of split {len(rows)} of 'cv' has rows that don't exist: "
                f"there are {n_samples} samples, and row "
                f"{train.max() if train.max() >= n_samples else train.min()} is asked for."
            )
        rows.append(train)
    if not rows:
        raise ValueError("'cv' must have at least one split. Got an empty iterable instead.")
    return rows


def _split(cv, X, y, split_params):
    """Let a splitter split, and say of what it refuses that 'cv' is to blame."""
    try:
        return list(cv.split(X, y, **split_params))
    except ValueError as error:
        raise ValueError(f"'cv' cannot split these {len(y)} samples: {error}") from error


def _training_part(split):
    """Take the rows of a subset, or those at the head of a pair or tuple."""
    is_array = isinstance(split, np.ndarray)
    if split.ndim == 2 if is_array else isinstance(split, tuple | list):
        return np.asarray(split[0] if len(split) and not np.isscalar(split[0]) else split)
    return np.asarray(split)


def refuse_repeated_rows(splits, n_samples):
    """Refuse splits that have a sample more than once.

    A copy is its own nearest neighbour, and samples count as independent ones.

    Parameters
    ----------
    splits : list of ndarray of int or None
        The samples of each split; None for all.
    n_samples : int
        How many there are; negative rows count from the end.

    Raises
    ------
    ValueError
        If there is such a split.
    """
    for split, rows in enumerate(splits):
        if rows is None:
            continue
        found, counts = np.unique(rows % n_samples, return_counts=True)
        if counts.max() > 1:
            raise ValueError(
                f"The training part of split {split} of 'cv' must have each row once. "
                f"Got row {found[counts.argmax()]} {counts.max()} times."
            )


def usable_splits(splits, y):
    """Find the splits with more than one class or value to foretell.

    Parameters
    ----------
    splits : list of ndarray of int or None
        The samples of each split; None for all.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.

    Returns
    -------
    usable : ndarray of bool of shape (n_splits,)
        At least one.

    Raises
    ------
    ValueError
        If there is none.
    """
    parts = [y if rows is None else y[rows] for rows in splits]
    usable = np.array([not bool(np.all(part == part[:1])) for part in parts])
    if not usable.any():
        raise ValueError(
            "Transferability scores need at least 2 classes or values in y; each of the "
            f"{len(splits)} splits of 'cv' has 1 class."
        )
    return usable
