"""Inputs to train on, to judge by and to test on: refused before any work, by name and row."""

import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import issparse

from sktransfer.backbones._datasets import is_dataset, refuse_vectors
from sktransfer.backbones._files import ImageItems, first_item
from sktransfer.backbones._images import input_kind, refuse_hidden_paths
from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._tensors import check_range, raise_for_dtype
from sktransfer.finetune._sources import is_network, make_source
from sktransfer.utils._sklearn import _safe_indexing
from sktransfer.utils._target import refuse_masked

__all__ = ["check_rows", "named", "read_through", "take"]

# Values are looked at in parts of this many bytes.
_CHUNK_BYTES = 2**24
_ROUNDING = 1e-6


def take(X, rows):
    """Give some rows of data of any form.

    Parameters
    ----------
    X : array, tensor, data frame, list or Dataset
        The data.
    rows : ndarray of int
        Which rows.

    Returns
    -------
    X : as given
        Those rows.
    """
    if isinstance(X, torch.utils.data.Dataset):
        return torch.utils.data.Subset(X, rows.tolist())
    return _safe_indexing(X, rows)


@contextmanager
def named(name, target_name=None):
    """Let errors about X and y say by which name the user knows these data.

    Parameters
    ----------
    name : str
        Name of the data that code inside calls X.
    target_name : str or None, default=None
        Name of what it calls y.

    Yields
    ------
    None
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        told = message = str(error)
        for old, new in (("X", name), ("y", target_name)):
            if new is not None:
                # Neither letters of a path nor labels or columns of this name, in quotes.
                told = re.sub(rf"(?<![\w/\\.'\"-]){old}(?![\w/\\'\"-])", new, told)
        if not any(each and re.search(rf"\b{each}\b", told) for each in (name, target_name)):
            told = f"{name}: {told}"
        if told == message:
            raise
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(told) from error


@dataclass
class _Fault:
    """What is wrong with data for a network; other transformers may bear it.

    Parameters
    ----------
    message : str
        In words.
    name : str
        Name of the data.
    rows : ndarray of int
        Some of the rows that it is about.
    """

    message: str
    name: str
    rows: np.ndarray


def check_rows(backbone, decode=False, **data):
    """Refuse arrays with values or shapes that a backbone cannot take.

    What is read from files and data sets is for :func:`read_through`.

    Parameters
    ----------
    backbone : estimator
        A torch backbone, or any other transformer, which is tried on rows that a network would not
        take: it may be able to fill in what is missing.
    decode : bool, default=False
        Whether to decode all image files, where there are files, and not only to look into them.
    **data : array or sequence of shape (n_samples, ...), or None
        By name. The others must have rows of the shape of the first one.

    Raises
    ------
    ValueError
        With the name of the data, and the first row where it is about single rows.
    """
    first = next(iter(data))
    for name, X in data.items():
        kind = None if X is None or issparse(X) else input_kind(X)
        for_network = is_network(backbone)
        if for_network:
            refuse_masked(X, name)
            if kind == "dataset":
                with named(name):
                    refuse_vectors(X)
            if kind == "files":  # else they may be texts
                with named(name):
                    ImageItems(X).check(pixels=decode)
        if kind not in ("vectors", "images"):
            continue
        fault = _fault_of_values(X, name, kind, for_network)
        if fault is None and name != first:
            fault = _fault_of_shape(X, name, data[first], first)
        if fault is not None and not _can_bear(backbone, fault, data, first):
            raise ValueError(fault.message)


def _can_bear(backbone, fault, data, first):
    """Try a transformer that is no network on the rows at fault."""
    if is_network(backbone):
        return False
    try:
        source = make_source(backbone, data[first], device="cpu", trainable=False, caller="")
        if fault.name != first:
            source.rows(take(data[fault.name], fault.rows))
    except Exception:  # what it says of them is no clearer than the fault itself
        return False
    return True


def _fault_of_values(X, name, kind, for_network):
    what = f"The images in {name}" if kind == "images" else name
    # Nested lists don't know of dtypes: whole numbers in them may be pixels of 8 bits.
    are_pixels = kind == "images" and for_network and _has_dtype(X)
    if are_pixels and len(getattr(X, "shape", ())) > 4:
        raise ValueError(
            f"{what} must be an array with 3 or 4 axes, got shape {tuple(X.shape)}; volumes and "
            "videos have to be cut into images first."
        )
    if for_network and kind == "vectors":
        _refuse_no_vectors(X, name)
    wrong, n_rows, limits, outside = [], 0, [np.inf, -np.inf], None
    for start, part in _parts(X):
        if are_pixels:
            raise_for_dtype(part.dtype, what)
        n_rows = start + len(part)
        if part.dtype.kind not in "fc" or not part.size:
            continue
        flat = part.reshape(len(part), -1)
        wrong += (start + np.flatnonzero(~np.isfinite(flat).all(axis=1))).tolist()
        if are_pixels and not wrong:
            low, high = flat.min(axis=1), flat.max(axis=1)
            limits = [min(limits[0], low.min()), max(limits[1], high.max())]
            beyond = np.flatnonzero((low < -_ROUNDING) | (high > 1 + _ROUNDING))
            if outside is None and len(beyond):
                outside = start + int(beyond[0])
    if wrong:
        return _Fault(
            f"{name} must hold finite numbers. Got NaN or infinite values in {len(wrong)} of "
            f"{n_rows} rows, first in row {wrong[0]}.",
            name,
            np.array(wrong),
        )
    if outside is not None:
        check_range(*map(float, limits), f", first in row {outside}", who=what)
    return None


def _refuse_no_vectors(X, name):
    with named(name):
        refuse_hidden_paths(X)
    try:
        array = X if hasattr(X, "shape") else np.asarray(X)
    except ValueError:  # rows of several lengths, of which scikit-learn has its own to say
        return
    if len(array.shape) != 2:
        raise ValueError(
            f"{name} must be a 2-D array, images, or a sequence of paths or images. Got "
            f"{type(X).__name__} of shape {tuple(array.shape)}."
        )
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind in ("U", "S"):
        raise ValueError(f"{name} must hold numbers. Got an array of dtype {array.dtype}.")
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")


def _has_dtype(X):
    if getattr(getattr(X, "dtype", None), "kind", "O") != "O":
        return True
    return hasattr(first_item(X), "dtype")


def _parts(X):
    """Give the numbers in an array, a frame or a list part by part, with the first row of each."""
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu()
        X = (X.float() if X.dtype in (torch.bfloat16, torch.float16) else X).numpy()
    if len(getattr(X, "shape", ())) < 2 or hasattr(X, "iloc") or hasattr(X, "to_series"):
        try:
            array = np.asarray(X)
            X = array.astype(float) if array.dtype.kind == "O" and array.ndim > 1 else array
        except (TypeError, ValueError):  # rows of several shapes, or no numbers
            X = [] if hasattr(X, "shape") else X
        if getattr(getattr(X, "dtype", None), "kind", None) == "O":
            X = list(X)
    if isinstance(X, list | tuple):
        for row, item in enumerate(X):
            shape = getattr(item, "shape", None)
            if shape is not None and len(shape) > 0:
                yield from ((row, part) for _, part in _parts(item[None]))
        return
    if not isinstance(getattr(X, "dtype", None), np.dtype):
        X = np.asarray(X)
    if X.dtype.kind not in "biufc" or len(X.shape) < 2:
        return
    row_bytes = max(1, int(np.prod(X.shape[1:])) * X.dtype.itemsize)
    step = max(1, _CHUNK_BYTES // row_bytes)
    for start in range(0, len(X), step):
        yield start, np.asarray(X[start : start + step])


def _fault_of_shape(X, name, like, like_name):
    """Compare rows of two arrays; images may have their channels in either place."""
    if like is None or issparse(like) or not (hasattr(X, "shape") and hasattr(like, "shape")):
        return None
    shapes = [_row_shapes(tuple(each.shape)) for each in (X, like)]
    if not all(shapes) or set(shapes[0]) & set(shapes[1]):
        return None
    return _Fault(
        f"{name} must have rows like those of {like_name}. Got {name} of shape {tuple(X.shape)} "
        f"and {like_name} of shape {tuple(like.shape)}.",
        name,
        np.arange(min(2, len(X))),
    )


def _row_shapes(shape):
    if len(shape) == 4:
        channels_last = (shape[3], shape[1], shape[2])
        return [shape[1:], channels_last]
    if len(shape) == 3:
        return [(1, *shape[1:])]
    return [shape[1:]] if len(shape) == 2 else []


def read_through(source, read=True, **data):
    """Let a network look at data, and read those that it could only look into.

    Parameters
    ----------
    source : NetworkSource
        The network.
    read : bool, default=True
        Whether to read data sets and arrays on disk through.
    **data : array or sequence of shape (n_samples, ...), or None
        By name.

    Raises
    ------
    ValueError
        With the name of the data.
    """
    for name, X in data.items():
        if X is None:
            continue
        with named(name):
            rows = source.rows(X)
            if read and (is_dataset(X) or isinstance(X, np.memmap) or not _is_in_memory(X)):
                for _ in iter_batches(rows, source.backbone.batch_size, 0, 0):
                    pass


def _is_in_memory(X):
    return hasattr(X, "__array_interface__") or not hasattr(X, "dtype") or torch.is_tensor(X)
