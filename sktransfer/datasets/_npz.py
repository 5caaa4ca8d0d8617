"""Data and labels from one ``.npz`` file, MedMNIST's among them."""

import hashlib
import math
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.multiclass import type_of_target

from sktransfer.datasets._medmnist import MEDMNIST_MD5

__all__ = ["load_npz_target", "task_of"]

_SPLITS = ("train", "val", "test")
_CHUNK = 4096
# What can be channels where a file holds images and not volumes.
_CHANNELS = {1, 3, 4}
_READ_BYTES = 2**22
# Arrays that are stored without compression are mapped from here on, not read.
_MAPPED_BYTES = 2**26
# A local header of a zip archive: fixed length, with the lengths of a name and of an extra field.
_ZIP_HEADER_BYTES, _ZIP_LENGTHS = 30, struct.Struct("<26x2H")


def load_npz_target(path, *, split="train"):
    """Load data and labels from an ``.npz`` file.

    Parameters
    ----------
    path : str or path
        A file with the arrays ``X`` and ``y``, or with ``train_images`` and ``train_labels`` (and
        so on for "val" and "test") as MedMNIST's files have in all their sizes. Only the arrays of
        one part are read, and nothing is unpickled. Large arrays that are stored without
        compression (``np.savez``) are mapped into memory.
    split : {"train", "val", "test"}, default="train"
        The part of a MedMNIST file.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_samples, ...)
            Data as stored.
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels as stored, but (n, 1) becomes (n,).
        task : {"classification", "multilabel", "regression"}
            "multilabel" for a matrix of zeros and ones with several columns, "regression" for
            floats that are not whole numbers.
        array_names : tuple of str
            Names of the two arrays in the file.
        n_constant : int
            Number of samples whose values are all equal, such as black images.

    Raises
    ------
    ValueError
        If the file is missing, damaged, no ``.npz`` file, holds Python objects, has other arrays,
        no samples or numbers of rows that differ, volumes instead of images, or labels that are not
        finite numbers or strings. For a damaged file under the name of one of MedMNIST's, the
        digest it should have is told.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sktransfer.datasets import load_npz_target
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "target.npz"
    ...     images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    ...     np.savez(file, train_images=images, train_labels=[[0], [1]])
    ...     target = load_npz_target(file)
    >>> target.X.shape, target.y, target.task
    ((2, 28, 28), array([0, 1]), 'classification')
    """
    path = Path(path)
    if split not in _SPLITS:
        raise ValueError(f"The 'split' parameter must be one of {_SPLITS}, got {split!r}.")
    if not path.is_file():
        raise ValueError(f"There is no file {str(path)!r}.")
    try:
        X, y, keys = _read_arrays(path, split)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"The file {str(path)!r} is damaged or no .npz file ({error}); fetch it again."
            f"{_expected(path)}"
        ) from error
    shapes = f"got shapes {X.shape} and {y.shape}"
    if X.shape[:1] == (0,):
        raise ValueError(
            f"The array {keys[0]!r} of {str(path)!r} has no samples, {shapes} of {keys[0]!r} and "
            f"{keys[1]!r}."
        )
    y = np.atleast_1d(y)
    if X.ndim < 2 or len(X) != len(y):
        raise ValueError(
            f"The arrays {keys[0]!r} and {keys[1]!r} of {str(path)!r} must have one row per sample "
            f"and as many rows, {shapes}."
        )
    if keys[0] != "X" and (
        X.ndim > 4 or (X.ndim == 4 and not {X.shape[1], X.shape[3]} & _CHANNELS)
    ):
        raise ValueError(
            f"The array {keys[0]!r} of {str(path)!r} holds volumes, not images, shape {X.shape}: "
            "cut them into slices first, and save these with labels as X and y."
        )
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    task = task_of(y, f"The array {keys[1]!r} of {str(path)!r}", keys[1])
    return Bunch(X=X, y=y, task=task, array_names=keys, n_constant=_count_constant(X))


def _read_arrays(path, split):
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not a zip archive, or cut off")
    pairs = [(f"{split}_images", f"{split}_labels")]
    if split == "train":
        pairs.insert(0, ("X", "y"))
    with np.load(path, allow_pickle=False) as arrays:
        for keys in pairs:
            if set(keys) <= set(arrays.files):
                break
        else:
            wanted = " or ".join(f"{first!r} and {second!r}" for first, second in pairs)
            raise ValueError(f"The file {str(path)!r} must hold {wanted}; it holds {arrays.files}.")
        try:
            y = arrays[keys[1]]
            X = _mapped(path, arrays.zip, keys[0])
            return (arrays[keys[0]] if X is None else X), y, keys
        except ValueError as error:
            raise ValueError(
                f"The arrays {keys[0]!r} and {keys[1]!r} of {str(path)!r} cannot be read: {error}"
            ) from error


def _mapped(path, archive, key):
    """Map a large array that is stored without compression; None for any other."""
    member = archive.getinfo(f"{key}.npy")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size < _MAPPED_BYTES:
        return None
    # Reading to the end compares the check sum, a part at a time.
    with archive.open(member) as stream:
        while stream.read(_READ_BYTES):
            pass
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        file.seek(sum(_ZIP_LENGTHS.unpack(file.read(_ZIP_HEADER_BYTES))), 1)
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            return None
        read = np.lib.format.read_array_header_1_0
        if version == (2, 0):
            read = np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
        if dtype.hasobject or math.prod(shape) == 0:
            return None
        order, offset = "F" if is_fortran else "C", file.tell()
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


def _expected(path):
    """Say what a file of MedMNIST should be like, if it is one by its name."""
    expected = MEDMNIST_MD5.get(path.name.lower())
    if expected is None:
        return ""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while part := file.read(_READ_BYTES):
            digest.update(part)
    return (
        f" MedMNIST's {path.name} has the MD5 digest {expected}; this one has "
        f"{digest.hexdigest()} and {path.stat().st_size} bytes."
    )


def task_of(y, who, name):
    """Tell what kind of target labels are.

    Parameters
    ----------
    y : ndarray
        The labels.
    who : str
        What they are, for messages.
    name : str
        Name of the array, for messages of scikit-learn.

    Returns
    -------
    task : {"classification", "multilabel", "regression"}
        The kind.

    Raises
    ------
    ValueError
        For labels of no such kind.
    """
    if y.ndim > 2:
        raise ValueError(f"{who} must have one or two axes, got shape {y.shape}.")
    if y.dtype.kind not in "biufU":
        raise ValueError(f"{who} must hold numbers or strings as labels, got dtype {y.dtype}.")
    if y.dtype.kind == "f" and not (finite := np.isfinite(y)).all():
        # Before scikit-learn casts such values to integers to see what they are.
        raise ValueError(
            f"{who} must hold finite labels, got NaN or infinity in "
            f"{y.size - np.count_nonzero(finite)} of {y.size} values."
        )
    kind = type_of_target(y, input_name=name)
    if kind == "multilabel-indicator":
        return "multilabel"
    if kind in ("binary", "multiclass"):
        return "classification"
    if kind.startswith("continuous"):
        return "regression"
    raise ValueError(
        f"{who} must hold one label per sample or a matrix of zeros and ones, got {kind} labels of "
        f"shape {y.shape}."
    )


def _count_constant(X):
    """Count rows without variation, in pieces that keep memory small."""
    count = 0
    for start in range(0, len(X), _CHUNK):
        rows = X[start : start + _CHUNK].reshape(len(X[start : start + _CHUNK]), -1)
        count += int((rows == rows[:, :1]).all(axis=1).sum())
    return count
