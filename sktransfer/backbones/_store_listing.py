"""What lies in a feature store, for people who want to know and to tidy up."""

import contextlib
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sktransfer.backbones._store_files import (
    Damaged,
    check_digests,
    open_arrays,
    read_description,
)
from sktransfer.backbones._store_growing import read_progress

__all__ = ["StoreEntry", "complete_entry", "size_of", "unfinished_entry", "verified"]


@dataclass(frozen=True)
class StoreEntry:
    """What lies in a store under one key.

    Attributes
    ----------
    key : str
        The key.
    state : {"complete", "unfinished", "damaged"}
        "unfinished" is an extraction that was interrupted, or is going on.
    problem : str
        What is damaged; empty otherwise.
    candidate : str
        What the candidate was called; empty if that cannot be read.
    n_rows, n_columns : int or None
        Shape of the features.
    n_bytes : int
        Space that it takes.
    created : datetime or None
        When it was complete, or last written to.
    description : dict
        All that is known: the candidate's class, layer, weights and their hash, library versions,
        dtypes and shapes.
    """

    key: str
    state: str
    problem: str = ""
    candidate: str = ""
    n_rows: int | None = None
    n_columns: int | None = None
    n_bytes: int = 0
    created: datetime | None = None
    description: dict = field(default_factory=dict, repr=False)


def complete_entry(folder):
    """Describe an entry that was sealed.

    Parameters
    ----------
    folder : Path
        The entry.

    Returns
    -------
    entry : StoreEntry or None
        "damaged" if its description or the size of a file is not what was written; None if it is
        gone.
    """
    key, n_bytes = folder.name, size_of(folder)
    try:
        description = read_description(folder, key)
    except FileNotFoundError:
        return None
    except Damaged as error:
        return StoreEntry(key, "damaged", str(error), n_bytes=n_bytes, created=_time_of(folder))
    n_rows, n_columns = description["arrays"]["features"]["shape"]
    return StoreEntry(
        key,
        "complete",
        candidate=description["candidate"],
        n_rows=n_rows,
        n_columns=n_columns,
        n_bytes=n_bytes,
        created=datetime.fromisoformat(description["created"]),
        description=description,
    )


def unfinished_entry(folder):
    """Describe an extraction that was interrupted, or is going on.

    Parameters
    ----------
    folder : Path
        The entry.

    Returns
    -------
    entry : StoreEntry
        With as much as its progress file tells.
    """
    lines = read_progress(folder)
    about = lines[0] if lines and isinstance(lines[0], dict) else {}
    plan = about.get("plan")
    n_rows = plan.get("n_rows") if isinstance(plan, dict) else None
    return StoreEntry(
        folder.name,
        "unfinished",
        candidate=str(about.get("candidate", "")),
        n_rows=n_rows if isinstance(n_rows, int) else None,
        n_bytes=size_of(folder),
        created=_time_of(folder),
        description=about,
    )


def verified(root, entry):
    """Read every byte of an entry.

    Parameters
    ----------
    root : Path
        Folder of the store.
    entry : StoreEntry
        The entry.

    Returns
    -------
    entry : StoreEntry or None
        The same, or "damaged"; None if it is gone.
    """
    if entry.state != "complete":
        return entry
    folder = root / "entries" / entry.key
    try:
        check_digests(folder, entry.description)
        open_arrays(folder, entry.description)
    except FileNotFoundError:  # cleared at this moment
        return None
    except Damaged as error:
        return replace(entry, state="damaged", problem=str(error))
    return entry


def size_of(folder):
    """Add up the bytes of all files in a folder, which may vanish meanwhile.

    Parameters
    ----------
    folder : path
        The folder.

    Returns
    -------
    n_bytes : int
        0 if there is no such folder.
    """
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def _time_of(folder):
    try:
        return datetime.fromtimestamp(os.lstat(folder).st_mtime, UTC)
    except OSError:
        return None
