"""The files of one entry of the feature store: written step by step, sealed, read back, checked.

Nothing is ever unpickled: an entry is two arrays in NumPy's format without objects and one file of
JSON, which holds digests of the arrays' files in chunks and a digest of itself.
"""

import contextlib
import hashlib
import json
import os
import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from sktransfer.backbones._store_hashing import in_threads
from sktransfer.utils._files import sync

__all__ = [
    "FORMAT",
    "Damaged",
    "check_digests",
    "discard",
    "file_digests",
    "open_arrays",
    "read_description",
    "sync",
    "write_description",
    "write_header",
]

#: Entries of another format are not read.
FORMAT = 1
_CHUNK_BYTES = 2**23
_DESCRIPTION = "entry.json"
_KINDS = "biufc"
#: The arrays of an entry; the second is not there for every candidate.
ARRAYS = ("features", "probabilities")


class Damaged(ValueError):
    """An entry that is not what was written."""


def discard(path):
    """Remove a folder or file, whatever it is, and don't mind if it cannot be.

    Parameters
    ----------
    path : Path
        What is to go.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def write_header(file, dtype, shape):
    """Write what stands before the numbers in a file of NumPy's format.

    Parameters
    ----------
    file : file object
        Open for writing bytes.
    dtype : dtype
        Type of the numbers.
    shape : tuple of int
        Shape of the whole array, whose rows follow later.
    """
    header = {"descr": dtype.str, "fortran_order": False, "shape": tuple(shape)}
    npy.write_array_header_1_0(file, header)


def file_digests(path, n_bytes):
    """Give the digests of a file, chunk by chunk.

    Parameters
    ----------
    path : Path
        The file.
    n_bytes : int
        How many bytes it has.

    Returns
    -------
    digests : list of str
        SHA-256 in hex of every 8 MiB.

    Raises
    ------
    OSError
        If the file cannot be read.
    """

    def chunk_digest(start):
        # Read, not mapped: a file that another process cuts off would end this one.
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            digest, left = hashlib.sha256(), _CHUNK_BYTES
            while left and (part := file.read(min(left, 2**20))):
                digest.update(part)
                left -= len(part)
        return digest.hexdigest()

    return in_threads(chunk_digest, list(range(0, n_bytes, _CHUNK_BYTES)))


def write_description(folder, key, about):
    """Seal an entry: write what is known of it, with the digests of its files.

    Parameters
    ----------
    folder : Path
        The entry. Its arrays are complete.
    key : str
        Its key.
    about : dict
        What is known of it; "arrays" are names with dtype and shape.

    Returns
    -------
    description : dict
        The same with digests.

    Raises
    ------
    OSError
        If the files cannot be read or written.
    """
    arrays = {}
    for name, (dtype, shape) in about["arrays"].items():
        path = folder / f"{name}.npy"
        n_bytes = path.stat().st_size
        arrays[name] = {
            "dtype": np.dtype(dtype).str,
            "shape": list(shape),
            "n_bytes": n_bytes,
            "digests": file_digests(path, n_bytes),
        }
    description = {**about, "format": FORMAT, "key": key, "arrays": arrays}
    description["digest"] = _own_digest(description)
    with open(folder / _DESCRIPTION, "w", encoding="utf-8") as file:
        json.dump(description, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    sync(folder)
    return description


def _own_digest(description):
    rest = {name: value for name, value in description.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_description(folder, key):
    """Read what is known of an entry, and check that the files are of the right size.

    Parameters
    ----------
    folder : Path
        The entry.
    key : str
        Its key.

    Returns
    -------
    description : dict
        What was written.

    Raises
    ------
    Damaged
        If it cannot be read, has been changed, or belongs to another key.
    FileNotFoundError
        If there is no such entry.
    """
    try:
        text = (folder / _DESCRIPTION).read_text(encoding="utf-8")
    except FileNotFoundError:
        if not folder.is_dir():
            raise
        raise Damaged(f"{_DESCRIPTION} is missing") from None
    except (OSError, ValueError) as error:
        raise Damaged(f"{_DESCRIPTION} cannot be read ({error})") from error
    try:
        description = json.loads(text)
        if description["digest"] != _own_digest(description):
            raise Damaged(f"{_DESCRIPTION} was changed")
        if description["format"] != FORMAT:
            raise Damaged(f"it has format {description['format']}, not {FORMAT}")
        if description["key"] != key:
            raise Damaged("it belongs to other features")
        _, _ = description["arrays"]["features"]["shape"]
        if description["source_head"] not in ("kept", "none", "not asked"):
            raise ValueError
        str(description["candidate"]), datetime.fromisoformat(description["created"])
        for name, array in description["arrays"].items():
            found = (folder / f"{name}.npy").stat().st_size
            if found != array["n_bytes"]:
                raise Damaged(f"{name}.npy has {found} bytes instead of {array['n_bytes']}")
    except Damaged:
        raise
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise  # it was cleared at this moment
        raise Damaged(f"{Path(error.filename).name} is missing") from error
    except OSError as error:
        raise Damaged(f"it cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"{_DESCRIPTION} does not describe features") from error
    return description


def check_digests(folder, description):
    """Read all bytes of the arrays of an entry and compare them with their digests.

    Parameters
    ----------
    folder : Path
        The entry.
    description : dict
        What ``read_description`` gave.

    Raises
    ------
    Damaged
        If a single bit differs.
    """
    for name, array in description["arrays"].items():
        try:
            found = file_digests(folder / f"{name}.npy", array["n_bytes"])
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Damaged(f"{name}.npy cannot be read ({error.strerror})") from error
        wrong = [place for place, digest in enumerate(array["digests"]) if digest != found[place]]
        if wrong or len(found) != len(array["digests"]):
            raise Damaged(
                f"{name}.npy has other bytes than were written, first within the 8 MiB from byte "
                f"{(wrong or [0])[0] * _CHUNK_BYTES} on"
            )


def open_arrays(folder, description):
    """Open the arrays of an entry as memory maps that cannot be written to.

    Parameters
    ----------
    folder : Path
        The entry.
    description : dict
        What ``read_description`` gave.

    Returns
    -------
    features : memmap of shape (n_samples, n_features)
        The features.
    probabilities : memmap of shape (n_samples, n_source_classes) or None
        The source probabilities, if they are kept.

    Raises
    ------
    Damaged
        If a file is no array of the kind that was written.
    """
    opened = []
    for name in ARRAYS:
        if name not in description["arrays"]:
            opened.append(None)
            continue
        array, known = None, description["arrays"][name]
        try:
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise Damaged(f"{name}.npy cannot be opened ({error})") from error
        if (
            array.dtype.str != known["dtype"]
            or list(array.shape) != known["shape"]
            or array.dtype.kind not in _KINDS
        ):
            raise Damaged(f"{name}.npy is another array than was written")
        opened.append(array)
    return tuple(opened)
