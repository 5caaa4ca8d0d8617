"""An entry of the feature store while its rows are computed, which outlives its process."""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np

from sktransfer.backbones._store_files import ARRAYS, FORMAT, discard, sync, write_header

__all__ = ["GrowingEntry", "read_progress"]

_PROGRESS = "progress.jsonl"
#: Work that a killed process may lose, in seconds; longer where the disk is slow to confirm.
SECONDS_PER_CHUNK = 0.25
_CHUNKS_PER_CONFIRMATION = 50


class GrowingEntry:
    """Arrays that grow row by row, and a file that says how far they can be trusted.

    After each chunk of work the bytes of the arrays are made to last, and only then a line of the
    progress file says so, with digests of the chunk's rows.

    Parameters
    ----------
    folder : Path
        Where the entry lies until it is sealed.
    plan : dict
        What the bytes depend on beside the key, the size of batches for example. Rows that were
        computed by another plan are not continued.
    n_rows : int
        Number of rows in the end.
    name : str, default=""
        What the candidate is called; the rows don't depend on it.
    """

    def __init__(self, folder, plan, n_rows, name=""):
        self.folder = Path(folder)
        self.name = name
        self.plan = {"format": FORMAT, "n_rows": n_rows, **plan}
        self.n_rows = n_rows
        self._forget()

    def _forget(self):
        self.n_done = 0
        self._n_safe = 0
        self._layout = {}
        self._chunks = []
        self._files, self._offsets, self._hashes = {}, {}, {}
        self._progress = None
        self._next_confirmation = 0.0

    def start(self):
        """Find how far an earlier process came, or begin.

        Returns
        -------
        row : int
            The first row that is not there yet.

        Raises
        ------
        OSError
            If nothing can be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._take_over():
            self.close()
            self._forget()
            discard(self.folder)
            self.folder.mkdir(exist_ok=True)
        self._rewrite_progress()
        self._plan_confirmation(0.0)
        return self.n_done

    def append(self, features, probabilities):
        """Add rows.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features)
            Features of the next rows.
        probabilities : ndarray of shape (n_rows, n_source_classes) or None
            Their source probabilities; None for all rows or for none.

        Raises
        ------
        OSError
            If they cannot be written.
        ValueError
            If they are no continuation of the rows before.
        """
        given = {
            name: np.ascontiguousarray(array)
            for name, array in zip(ARRAYS, (features, probabilities), strict=True)
            if array is not None
        }
        layout = {name: [array.dtype.str, array.shape[1]] for name, array in given.items()}
        if not self._layout:
            self._begin_arrays(layout)
        elif layout != self._layout:
            raise ValueError(f"rows {layout} do not continue {self._layout}")
        contents = {
            name: memoryview(array.reshape(-1).view(np.uint8)) if array.size else b""
            for name, array in given.items()
        }
        for name, content in contents.items():
            _write(self._files[name], content)
        for name, content in contents.items():
            self._hashes[name].update(content)
        self.n_done += len(features)
        if self.n_done >= self.n_rows or time.monotonic() >= self._next_confirmation:
            self.confirm()

    def confirm(self):
        """Make what was written last, and say so in the progress file.

        Raises
        ------
        OSError
            If it cannot be.
        """
        start = time.monotonic()
        for file in self._files.values():
            os.fsync(file.fileno())
        chunk = {"rows": [self._n_safe, self.n_done]}
        chunk |= {name: digest.hexdigest() for name, digest in self._hashes.items()}
        self._say(chunk)
        os.fsync(self._progress.fileno())
        self._chunks.append(chunk)
        self._n_safe = self.n_done
        self._hashes = {name: hashlib.sha256() for name in self._files}
        self._plan_confirmation(time.monotonic() - start)

    def arrays(self):
        """Give dtype and shape of each array.

        Returns
        -------
        arrays : dict of str to (str, tuple)
            By name.
        """
        return {
            name: (dtype, (self.n_rows, n_columns))
            for name, (dtype, n_columns) in self._layout.items()
        }

    def finish(self):
        """Close the files; the progress is not needed any more."""
        self.close()
        discard(self.folder / _PROGRESS)

    def close(self):
        """Close the files."""
        for file in (*self._files.values(), self._progress):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()

    def read_back(self):
        """Read the rows that were written into memory, when no more of them can be.

        Returns
        -------
        rows : dict of str to ndarray
            By name; arrays of the full number of rows, the later ones empty.

        Raises
        ------
        OSError
            If they cannot be read.
        ValueError
            If they are not what was written.
        """
        chunks = list(self._chunks)
        if self.n_done > self._n_safe:
            last = {name: digest.hexdigest() for name, digest in self._hashes.items()}
            chunks.append({"rows": [self._n_safe, self.n_done], **last})
        full = {}
        for name, (dtype, n_columns) in self._layout.items():
            full[name] = np.empty((self.n_rows, n_columns), dtype)
            for chunk in chunks:
                start, stop = chunk["rows"]
                content = self._content(name, start, stop)
                if hashlib.sha256(content).hexdigest() != chunk[name]:
                    raise ValueError("rows on the disk are not what was written")
                full[name][start:stop] = np.frombuffer(content, dtype).reshape(-1, n_columns)
        return full

    # -- files ----------------------------------------------------------------------------------

    def _begin_arrays(self, layout):
        for name, (dtype, n_columns) in layout.items():
            file = open(self.folder / f"{name}.npy", "w+b", buffering=0)  # noqa: SIM115
            self._files[name] = file
            write_header(file, np.dtype(dtype), (self.n_rows, n_columns))
            self._offsets[name] = file.tell()
            self._hashes[name] = hashlib.sha256()
        self._layout = layout
        self._say(layout)
        sync(self.folder)

    def _rewrite_progress(self):
        path = self.folder / _PROGRESS
        new = path.with_suffix(".new")
        self._progress = open(new, "wb", buffering=0)  # noqa: SIM115
        for line in [
            {"candidate": self.name, "plan": self.plan},
            *([self._layout] if self._layout else []),
            *self._chunks,
        ]:
            self._say(line)
        os.fsync(self._progress.fileno())
        os.replace(new, path)
        sync(self.folder)

    def _say(self, line):
        _write(self._progress, json.dumps(line).encode() + b"\n")

    def _plan_confirmation(self, seconds):
        wait = max(SECONDS_PER_CHUNK, _CHUNKS_PER_CONFIRMATION * seconds)
        self._next_confirmation = time.monotonic() + wait

    def _content(self, name, start, stop):
        dtype, n_columns = self._layout[name]
        row_bytes = np.dtype(dtype).itemsize * n_columns
        with open(self.folder / f"{name}.npy", "rb", buffering=0) as file:
            file.seek(self._offsets[name] + start * row_bytes)
            left, parts = (stop - start) * row_bytes, []
            while left and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    # -- what an earlier process has left -------------------------------------------------------

    def _take_over(self):
        """Keep the chunks, in order, whose bytes are what the progress says."""
        lines = read_progress(self.folder)
        if len(lines) < 3:
            return False
        try:
            if lines[0]["plan"] != self.plan:
                return False
            self._open_arrays(lines[1])
            for chunk in lines[2:]:
                if not self._is_right(chunk):
                    break
                self._chunks.append(chunk)
                self.n_done = self._n_safe = chunk["rows"][1]
            for name, (dtype, n_columns) in self._layout.items():
                row_bytes = np.dtype(dtype).itemsize * n_columns
                self._files[name].truncate(self._offsets[name] + self.n_done * row_bytes)
                self._files[name].seek(0, os.SEEK_END)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return False
        return self.n_done > 0

    def _is_right(self, chunk):
        """Tell whether a line of progress goes on, and the rows are what it says."""
        if not isinstance(chunk, dict) or chunk.keys() != {"rows", *self._layout}:
            return False
        start, stop = chunk["rows"]
        return (
            start == self.n_done
            and start < stop <= self.n_rows
            and all(
                hashlib.sha256(self._content(name, start, stop)).hexdigest() == chunk[name]
                for name in self._layout
            )
        )

    def _open_arrays(self, layout):
        if list(layout) not in (list(ARRAYS), list(ARRAYS[:1])):
            raise ValueError("no arrays of an entry")
        for name, (dtype, n_columns) in layout.items():
            if np.dtype(dtype).hasobject or not isinstance(n_columns, int):
                raise ValueError("no numbers")
            file = open(self.folder / f"{name}.npy", "r+b", buffering=0)  # noqa: SIM115
            self._files[name] = file
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError("another version of NumPy's format")
            shape, is_fortran, found = np.lib.format.read_array_header_1_0(file)
            expected = (self.n_rows, n_columns), False, np.dtype(dtype)
            if (shape, is_fortran, found) != expected:
                raise ValueError("another array")
            self._offsets[name] = file.tell()
            self._hashes[name] = hashlib.sha256()
        self._layout = {name: [dtype, n] for name, (dtype, n) in layout.items()}


def _write(file, content):
    """Write everything; a file without buffer may take a part only."""
    content = memoryview(content)
    while len(content):
        content = content[file.write(content) :]


def read_progress(folder):
    """Read the lines of a progress file up to the first that is not whole.

    Parameters
    ----------
    folder : Path
        An unfinished entry.

    Returns
    -------
    lines : list
        A dict with plan and name of the candidate, one with dtypes and widths, then the chunks.
        Empty if there are none.
    """
    lines = []
    with contextlib.suppress(OSError, ValueError, RecursionError):
        for line in (Path(folder) / _PROGRESS).read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            lines.append(json.loads(line))
    return lines
