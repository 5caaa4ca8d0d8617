"""What a robustness study checks before it does anything: names, the target, how to work."""

import numpy as np

from ..utils._sklearn import _num_samples
from ._validation import check_target

__all__ = ["candidates_on_target", "check_run_options", "check_target_arguments"]

#: Columns of the frames that have a column for each candidate.
_TAKEN = ("target", "metric", "fraction", "repeat")


def candidates_on_target(active, names, exclude, target):
    """Leave out candidates that are not wanted on a target.

    Parameters
    ----------
    active : dict of str to transformer
        All candidates that are not dropped.
    names : list of str
        Names of all.
    exclude : str or sequence of str
        Names of those left out.
    target : str
        Name of the target.

    Returns
    -------
    candidates : dict of str to transformer
        The others.

    Raises
    ------
    ValueError
        If a name can't be used, or no candidate is left.
    """
    taken = [name for name in active if name in _TAKEN]
    if taken:
        raise ValueError(
            f"Names of candidates must not be those of columns, {list(_TAKEN)!r}. Got {taken[0]!r}."
        )
    exclude = [exclude] if isinstance(exclude, str) else list(exclude)
    unknown = [name for name in exclude if name not in names]
    if unknown:
        raise ValueError(f"'exclude' must have names of candidates, {names!r}. Got {unknown!r}.")
    candidates = {name: active[name] for name in active if name not in exclude}
    if not candidates:
        raise ValueError(f"'exclude' leaves no candidate for target {target!r}.")
    return candidates


def check_run_options(retry_failed):
    """Check how a run is to work.

    Parameters
    ----------
    retry_failed : bool
        Whether failed cells are computed again.

    Raises
    ------
    ValueError
        If it is neither true nor false.
    """
    if not isinstance(retry_failed, bool | np.bool_):
        raise ValueError(f"'retry_failed' must be True or False. Got {retry_failed!r}.")


def check_target_arguments(X, y, target, groups):
    """Check what a target is given by.

    Parameters
    ----------
    X, y : data
        Its data and labels.
    target : str
        Its name.
    groups : array-like or None
        Groups of samples.

    Returns
    -------
    y : ndarray
        The labels as an array.

    Raises
    ------
    ValueError
        If something is wrong.
    """
    if not isinstance(target, str) or not target:
        raise ValueError(f"'target' must be a name, a non-empty string. Got {target!r} instead.")
    if y is None:
        raise ValueError("RobustnessStudy requires y, the labels of the target. Got None.")
    try:
        n_samples = _num_samples(X)
    except TypeError as error:
        raise TypeError(
            "'X' must be the samples of the target, in an array, frame or list. "
            f"Got {type(X).__name__} instead."
        ) from error
    if not isinstance(y, str) and hasattr(y, "__len__") and len(y) != n_samples:
        raise ValueError(
            f"'y' must have a label for each of the {n_samples} samples of X. Got {len(y)}."
        )
    y = check_target(X, y, "RobustnessStudy")
    if groups is not None and _num_samples(groups) != len(y):
        raise ValueError(
            f"'groups' must have a group for each of the {len(y)} samples. "
            f"Got {_num_samples(groups)}."
        )
    return y
