"""Equal rows in different groups: the same patient or lesion under two names."""

import hashlib
import os
from numbers import Number

import numpy as np

__all__ = ["shared_between_groups"]

# Places of a row that are compared before whole rows are, which for images is much cheaper.
_PLACES = 64
_CHUNK_BYTES = 2**26


def shared_between_groups(X, codes):
    """Find rows that occur in more than one group.

    Parameters
    ----------
    X : array, data frame, or list of rows, strings or paths
        The data. Of files only the names are compared. Other data are not looked at.
    codes : ndarray of shape (n_samples,), dtype intp
        Group of each row.

    Returns
    -------
    pairs : ndarray of shape (n_shared, 2), dtype intp
        Numbers of rows that equal an earlier one of another group, with that earlier one. Rows in
        which all values are equal, such as black images, say nothing and are left out.
    """
    rows = comparable_rows(X, len(codes))
    if rows is None:
        return np.empty((0, 2), dtype=np.intp)
    if rows.ndim == 1:
        digests = rows.tolist()
        looked_at = range(len(rows))
    else:
        looked_at = _alike(rows)
        digests = {row: _digest(rows[row]) for row in looked_at}
    first, shared = {}, []
    for row in looked_at:
        if digests[row] is None:
            continue
        earlier = first.setdefault(digests[row], {})
        other = next((number for group, number in earlier.items() if group != codes[row]), None)
        if other is not None:
            shared.append((row, other))
        earlier.setdefault(codes[row], row)
    return np.array(shared, dtype=np.intp).reshape(-1, 2)


def comparable_rows(X, n_rows):
    """Give an array whose rows have bytes to compare, or one of strings; None for anything else."""
    if isinstance(X, list | tuple):
        # Lists of Pillow images and the like would be decoded as a whole.
        is_plain = isinstance(X[0], str | os.PathLike | Number | list | tuple | np.ndarray)
    else:
        is_plain = hasattr(X, "__array__") and hasattr(X, "shape")
    if not is_plain:
        return None
    try:
        X = np.asarray(X)
    except (ValueError, TypeError, RuntimeError):
        return None  # rows of different shapes, tensors on another device
    if X.shape[:1] != (n_rows,) or X.size == 0:
        return None
    if X.ndim == 1:
        return X.astype(str) if X.dtype.kind in "OUT" else None
    if X.dtype.kind == "O":
        return None
    # Without a copy where rows are stored one behind the other, also of a file mapped into memory.
    return X.reshape(n_rows, -1)


def _alike(rows):
    """List the rows, in order, that look like another one at some places."""
    columns = rows.shape[1]
    places = np.unique(np.linspace(0, columns - 1, min(_PLACES, columns)).astype(np.intp))
    size = max(1, _CHUNK_BYTES // max(1, rows.itemsize * columns))
    looks = np.concatenate(
        [
            np.ascontiguousarray(rows[start : start + size][:, places])
            for start in range(0, len(rows), size)
        ]
    )
    looks = looks.view(np.dtype((np.void, looks.dtype.itemsize * looks.shape[1]))).ravel()
    _, kinds, counts = np.unique(looks, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[kinds] > 1).tolist()


def _digest(row):
    """Digest a row; None if all its values are equal."""
    if bool((row == row[0]).all()):
        return None
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
