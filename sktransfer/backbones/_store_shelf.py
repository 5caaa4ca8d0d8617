"""The folders of a feature store: what lies where, who may write, how an entry comes and goes."""

import contextlib
import os
import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sktransfer.backbones._store_files import (
    Damaged,
    check_digests,
    discard,
    open_arrays,
    read_description,
    sync,
    write_description,
)
from sktransfer.backbones._store_growing import GrowingEntry
from sktransfer.backbones._store_run import StoredFeatures
from sktransfer.exceptions import CacheBusyWarning, DamagedCacheWarning, StaleCacheWarning

__all__ = ["Held", "Shelf"]


class Held:
    """How it went to get the lock of an entry.

    Attributes
    ----------
    waited : bool
        Whether another process had it first.
    failure : OSError or None
        Why there is no lock: nothing can be written.
    """

    def __init__(self):
        self.waited = False
        self.failure = None


class Shelf:
    """Entries in folders that are named by their keys.

    Parameters
    ----------
    root : Path
        Folder of all others: "entries" are complete, "unfinished" ones grow, and "locks" say who
        may write to an entry. What is removed goes through "trash", so that it vanishes at once.
    """

    def __init__(self, root):
        self.root = Path(root)

    def prepare(self):
        """Make the folders, where they are not there yet.

        Raises
        ------
        OSError
            If they cannot be made.
        """
        if not self.root.is_dir():
            for name in ("entries", "unfinished", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            sync(self.root.parent)

    def folders(self, kind):
        """List the folders of entries.

        Parameters
        ----------
        kind : {"entries", "unfinished"}
            Which.

        Returns
        -------
        folders : list of Path
            In the order of their names; empty if there are none.
        """
        try:
            return sorted((self.root / kind).iterdir())
        except OSError:
            return []

    def lock(self, key):
        """Make the lock of an entry, which the system frees when its process ends.

        Parameters
        ----------
        key : str
            Key of the entry.

        Returns
        -------
        lock : FileLock
            Not acquired.

        Raises
        ------
        OSError
            If there can be no folder for it.
        """
        (self.root / "locks").mkdir(parents=True, exist_ok=True)
        return FileLock(self.root / "locks" / f"{key}.lock")

    @contextlib.contextmanager
    def locked(self, key, name):
        """Hold the lock of an entry, and say so if another process has it.

        Parameters
        ----------
        key : str
            Key of the entry.
        name : str
            What the candidate is called.

        Yields
        ------
        held : Held
            How it went.
        """
        held, lock = Held(), None
        try:
            self.prepare()
            lock = self.lock(key)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                held.waited = True
                warnings.warn(
                    f"Another process is extracting the features of {name!r} on the same data "
                    f"into the feature store {str(self.root.parent)!r}; waiting for it.",
                    CacheBusyWarning,
                    stacklevel=5,
                )
                lock.acquire()
        except (OSError, NotImplementedError) as error:
            held.failure = error
        try:
            yield held
        finally:
            if lock is not None:
                lock.release()

    def read(self, key, probe, probabilities, name):
        """Find features, or a warning that says why those that are there can't be used.

        Parameters
        ----------
        key : str
            Key of the entry.
        probe : Probe or None
            What its first rows must agree with.
        probabilities : bool
            Whether it must tell if there are source probabilities.
        name : str or None
            What the candidate is called.

        Returns
        -------
        found : StoredFeatures or None
            The features.
        warning : (str, category) or None
            None also if there is nothing.
        """
        folder = self.root / "entries" / key
        said = f"The features of {name!r} in the feature store {str(self.root.parent)!r} are"
        try:
            description = read_description(folder, key)
            if probabilities and description["source_head"] == "not asked":
                return None, None
            check_digests(folder, description)
            features, source = open_arrays(folder, description)
        except FileNotFoundError:
            return None, None
        except (Damaged, OSError) as error:
            message = f"{said} damaged and are extracted again: {error}."
            return None, (message, DamagedCacheWarning)
        if probe is not None and not probe.agrees(features):
            message = (
                f"{said} not what its network gives now for the first rows (its code has changed, "
                "for example), and are extracted again."
            )
            return None, (message, StaleCacheWarning)
        return StoredFeatures(features, source, True, 0, True), None

    def remove_unfinished(self, key):
        """Remove an entry that grows, unless a process works on it.

        Parameters
        ----------
        key : str
            Its key.

        Returns
        -------
        removed : bool
            False if there is none, or it is locked.

        Raises
        ------
        OSError
            If it cannot be removed.
        """
        lock = self.lock(key)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        try:
            return self.remove(key, "unfinished")
        finally:
            lock.release()

    def remove(self, key, kind="entries"):
        """Take an entry out of sight at once, then remove its files.

        Parameters
        ----------
        key : str
            Its key.
        kind : {"entries", "unfinished"}, default="entries"
            Where it lies.

        Returns
        -------
        removed : bool
            False if there is none.

        Raises
        ------
        OSError
            If it cannot be removed.
        """
        trash = self.root / "trash" / uuid.uuid4().hex
        trash.parent.mkdir(exist_ok=True)
        try:
            os.replace(self.root / kind / key, trash)
        except FileNotFoundError:
            return False
        discard(trash)
        with contextlib.suppress(OSError):
            trash.parent.rmdir()
        return True

    def growing(self, key, plan, n_rows, name):
        """Give the entry of a key while it grows.

        Parameters
        ----------
        key, plan, n_rows, name
            As for :class:`GrowingEntry`.

        Returns
        -------
        growing : GrowingEntry
            Not started.
        """
        return GrowingEntry(self.root / "unfinished" / key, plan, n_rows, name)

    def seal(self, key, growing, about):
        """Put an entry that is complete in its place, at once and as a whole, and open it.

        Parameters
        ----------
        key : str
            Its key.
        growing : GrowingEntry
            The entry with all rows.
        about : dict
            What is known of its candidate.

        Returns
        -------
        features : memmap of shape (n_samples, n_features)
            The features.
        probabilities : memmap of shape (n_samples, n_source_classes) or None
            The source probabilities, if there are any.

        Raises
        ------
        OSError
            If it cannot be written.
        Damaged
            If the arrays are not what was written.
        """
        growing.finish()
        about = about | {
            "arrays": growing.arrays(),
            "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        description = write_description(growing.folder, key, about)
        folder = self.root / "entries" / key
        folder.parent.mkdir(exist_ok=True)
        if os.path.lexists(folder):
            self.remove(key)
        os.replace(growing.folder, folder)
        sync(folder.parent)
        return open_arrays(folder, description)
