"""Files that are there as a whole or not at all."""

import contextlib
import os
from pathlib import Path
from uuid import uuid4

__all__ = ["sync", "try_to_write", "write_file"]


def sync(folder):
    """Make the names in a folder last, where the system can.

    Parameters
    ----------
    folder : path
        The folder.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def try_to_write(path):
    """Make the file that comes before another one and remove it, to know before the work.

    Permissions alone don't tell: some folders take no files, whoever asks.

    Parameters
    ----------
    path : Path
        The file that is to be written, which is left as it is.

    Raises
    ------
    OSError
        If there can't be one.
    """
    temporary = _beside(path)
    with open(temporary, "xb"):
        pass
    temporary.unlink()


def _beside(path):
    return path.with_name(f"{path.name}.{uuid4().hex}.tmp")


def write_file(path, content):
    """Write a file so that it is there as a whole or not at all.

    Parameters
    ----------
    path : Path
        The file; what is there is replaced.
    content : bytes
        What it holds.

    Returns
    -------
    path : Path
        The file.
    """
    path = Path(path)
    temporary = _beside(path)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)
    return path
