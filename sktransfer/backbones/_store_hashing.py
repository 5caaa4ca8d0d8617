"""Digests of bytes: arrays and files, in chunks, by several threads.

``hashlib`` lets go of Python's lock while it works on a large buffer, so threads do share the work.
"""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import cpu_count

__all__ = ["array_digest", "combine", "file_digest", "in_threads", "row_chunks"]

_CHUNK_BYTES = 2**22
# More threads than this wait for memory, not for each other.
_MOST_THREADS = 8


def combine(tag, *parts):
    """Give the digest of a tag and further digests, unlike that of any other division into parts.

    Parameters
    ----------
    tag : str
        What the parts are.
    *parts : bytes or str
        Digests, or short texts.

    Returns
    -------
    digest : bytes
        32 bytes.
    """
    whole = hashlib.sha256()
    for part in (tag, *parts):
        part = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.digest()


def in_threads(function, items):
    """Apply a function that works on large buffers to every item; order is kept.

    Parameters
    ----------
    function : callable
        Takes one item.
    items : list
        The items.

    Returns
    -------
    results : list
        What the function gave.
    """
    n_threads = min(cpu_count(), _MOST_THREADS, len(items))
    if n_threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, items))


def row_chunks(n_rows, row_bytes):
    """Divide rows into chunks of a few megabytes; the division depends on nothing else.

    Parameters
    ----------
    n_rows, row_bytes : int
        Number of rows, and bytes of each.

    Returns
    -------
    chunks : list of slice
        Consecutive rows.
    """
    step = max(1, _CHUNK_BYTES // max(1, row_bytes))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def array_digest(array):
    """Give the digest of an array's dtype, shape and numbers, whatever their order in memory.

    A memory map is read chunk by chunk.

    Parameters
    ----------
    array : ndarray
        Without Python objects in it.

    Returns
    -------
    digest : bytes
        32 bytes.
    """
    dtype = repr(array.dtype.descr) if array.dtype.names else array.dtype.str
    header = f"{dtype} {array.shape}"
    rows = array.reshape(1) if array.ndim == 0 else array

    def chunk_digest(chunk):
        part = np.ascontiguousarray(rows[chunk]).reshape(-1)
        return hashlib.sha256(part.view(np.uint8) if part.size else b"").digest()

    chunks = row_chunks(len(rows), array.nbytes // max(1, len(rows)))
    return combine("array", header, *in_threads(chunk_digest, chunks))


def file_digest(path):
    """Give the digest of the bytes of a file.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    digest : bytes
        32 bytes.
    """
    with open(os.fspath(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
