"""The data of a search over metrics: what is refused before candidates are run, what is said after.

What data candidates take is their own concern. Only what too few of them could take is refused.
"""

import reprlib

import numpy as np
import scipy.sparse
from sklearn.utils import get_tags

from ..backbones._precomputed import PrecomputedFeatures
from ..utils._sklearn import _num_samples

__all__ = ["check_data", "described", "oddity"]

_CELLS = 2**20  # numbers looked at at a time


def check_data(X, y, candidates, fewest):
    """Refuse data that are none, or that too few candidates can take by their tags.

    Parameters
    ----------
    X : object
        The data.
    y : object
        The target; only its length counts here.
    candidates : list of (str, transformer)
        The candidates.
    fewest : int
        How many of them have to be run.

    Raises
    ------
    TypeError
        If X has no samples that could be counted.
    ValueError
        If X has no sample, more or fewer than y, or is not for the candidates.
    """
    try:
        n_samples = _num_samples(X)
    except TypeError:
        raise TypeError(
            "X must be array-like, with an entry for each sample. "
            f"Got {reprlib.repr(X)} of type {type(X).__name__} instead."
        ) from None
    if n_samples == 0:
        raise ValueError(f"X must have at least one sample. Got {described(X)}.")
    if hasattr(y, "__len__") and n_samples != _num_samples(y):
        raise ValueError(
            f"X and y have inconsistent numbers of samples: {n_samples} and {_num_samples(y)}."
        )
    if _is_a_number_per_sample(X):
        able = sum(_may_take(candidate, "one_d_array") for _, candidate in candidates)
        if able < fewest:
            raise ValueError(
                "X must have several numbers for each sample: a matrix, images, ... "
                f"Got {described(X)}, which {able} of {len(candidates)} candidates take; at least "
                f"{fewest} must."
            )
    if found := _not_finite(X):
        able = sum(_may_take(candidate, "allow_nan") for _, candidate in candidates)
        if able < fewest:
            raise ValueError(
                f"X has {found}, and by their tags {able} of {len(candidates)} candidates take "
                f"NaN or infinite values; at least {fewest} must."
            )


def described(X):
    """Say what kind of data these are.

    Parameters
    ----------
    X : array-like
        The data.

    Returns
    -------
    text : str
        Type, with shape and dtype if it has them.
    """
    kind = "an array" if isinstance(X, np.ndarray) else f"a {type(X).__name__}"
    if not hasattr(X, "shape"):
        return f"{kind} of length {_num_samples(X)}"
    dtype = f" and dtype {X.dtype}" if hasattr(X, "dtype") else ""
    return f"{kind} of shape {tuple(X.shape)}{dtype}"


def oddity(X):
    """Say what is wrong with data on which candidates failed or did not differ.

    Parameters
    ----------
    X : array-like
        The data.

    Returns
    -------
    text : str
        A sentence after a space, or nothing.
    """
    if found := _not_finite(X):
        return f" X has {found}."
    comparable = isinstance(X, np.ndarray) and X.dtype.kind in "biufcSU" and X.size and len(X) > 1
    if comparable and all((part == X[0]).all() for part in _parts(X)):
        return " X has the same values for all samples."
    return ""


def _may_take(candidate, tag):
    """Tell whether a candidate, or some part of it, says so, or does not say what it takes.

    A pipeline does not tell of its steps, nor a column transformer of its parts.
    """
    if isinstance(candidate, PrecomputedFeatures) and candidate.features is not None:
        return True  # it does not look at the data
    parts = [p for p in candidate.get_params(deep=True).values() if hasattr(p, "get_params")]
    for part in [candidate, *(p for p in parts if not isinstance(p, type))]:
        try:
            tags = get_tags(part)
        except AttributeError:  # an estimator by duck typing, without tags
            return True
        if tags.no_validation or getattr(tags.input_tags, tag):
            return True
    return False


def _is_a_number_per_sample(X):
    # Whole numbers and texts may be ids, or names of files.
    if hasattr(X, "shape"):
        return len(X.shape) == 1 and getattr(getattr(X, "dtype", None), "kind", None) == "f"
    return isinstance(X, list | tuple) and isinstance(X[0], float)


def _not_finite(X):
    """Find the first row with a number that is not finite, as "NaN in row 3"."""
    if scipy.sparse.issparse(X):
        entries = X.tocoo()
        X = entries.data if np.all(np.isfinite(entries.data)) else X.toarray()
    elif hasattr(X, "iloc"):
        columns = X.to_frame() if X.ndim == 1 else X
        X = columns.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)
    if isinstance(X, list | tuple):
        rows = enumerate(map(_as_numbers, X))
    elif isinstance(X, np.ndarray) and X.dtype.kind == "f":
        rows = _bad_parts(X)
    else:
        return ""
    for place, row in rows:
        if not np.isfinite(row).all():
            return f"{'NaN' if np.isnan(row).any() else 'infinity'} in row {place}"
    return ""


def _as_numbers(row):
    """Give an entry of a list as floats; an empty array if it is of another kind."""
    if isinstance(row, float | list | tuple):
        try:
            row = np.asarray(row)
        except ValueError:  # of different lengths
            row = None
    is_float = isinstance(row, np.ndarray | np.floating) and row.dtype.kind == "f"
    return row if is_float else np.empty(0)


def _parts(X):
    """Cut an array into parts of some rows, so that little memory is needed."""
    step = max(1, _CELLS // max(1, X[0].size))
    return (X[start : start + step] for start in range(0, len(X), step))


def _bad_parts(X):
    start = 0
    for part in _parts(X):
        if not np.isfinite(part).all():
            yield from enumerate(part, start)
        start += len(part)
