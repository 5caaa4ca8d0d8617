"""A store of extracted features on disk, which a network need not be run for again."""

import contextlib
import os
import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path

from sktransfer.backbones._store_candidate import candidate_fingerprint, describe, probe_of
from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_data import digest_data
from sktransfer.backbones._store_files import (
    ARRAYS,
    FORMAT,
    Damaged,
    discard,
)
from sktransfer.backbones._store_hashing import combine, row_chunks
from sktransfer.backbones._store_listing import (
    complete_entry,
    size_of,
    unfinished_entry,
    verified,
)
from sktransfer.backbones._store_run import (
    StoredFeatures,
    n_rows_of,
    plan_of_run,
    rows_again,
    run_rows,
    run_whole,
    storable,
)
from sktransfer.backbones._store_shelf import Shelf
from sktransfer.exceptions import CacheNotWrittenWarning

__all__ = ["FeatureStore"]

_FOLDER = "sktransfer-features"


class FeatureStore:
    """Features on disk, found by the content of candidate and data, and checked when they are read.

    Whatever decides the features is part of the key: weights, architecture, layer, preprocessing,
    library versions, and every byte of the data, files included. Names, places and times are not.
    Features that are found are used only if their first rows agree with what the candidate gives
    for them now, and if every byte is what was written.

    Several processes can use a store at once. One that wants what another one is extracting waits
    for it. An extraction that was interrupted goes on where it was.

    Read more in the :ref:`User Guide <feature_store>`.

    Parameters
    ----------
    path : str or path
        A folder, which is made when it is needed. All files lie in its sub-folder
        ``sktransfer-features``.

    See Also
    --------
    sktransfer.model_selection.TransferabilitySelector : Its parameter ``memory`` takes a store.
    PrecomputedFeatures : Features that were computed elsewhere.

    Notes
    -----
    No file is ever unpickled. Keys and checks protect against accidents, not against somebody who
    may write to the folder and wants to mislead.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import Normalizer
    >>> from sktransfer.backbones import FeatureStore
    >>> X, _ = load_digits(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = FeatureStore(folder.name)
    >>> store.extract(Normalizer().fit(X), X).n_rows_run
    1797
    >>> found = store.extract(Normalizer().fit(X), X)
    >>> found.n_rows_run, found.from_store, found.features.shape
    (0, True, (1797, 64))
    >>> [(entry.candidate, entry.state) for entry in store.entries()]
    [('Normalizer', 'complete')]
    >>> len(store.clear())
    1
    >>> del found
    >>> folder.cleanup()
    """

    def __init__(self, path):
        self.path = path

    def __repr__(self):
        return f"{type(self).__name__}({os.fspath(self.path)!r})"

    def __eq__(self, other):
        return type(other) is type(self) and os.fspath(other.path) == os.fspath(self.path)

    def __hash__(self):
        return hash(os.fspath(self.path))

    # -- features -------------------------------------------------------------------------------

    def digest(self, X):
        """Read data once, for the keys of any number of candidates.

        Parameters
        ----------
        X : array, tensor, data frame, list, Dataset or other object
            The data.

        Returns
        -------
        digest : DataDigest
            What :meth:`key` and :meth:`extract` take.

        Raises
        ------
        ValueError
            If the data hold something that cannot be read.
        """
        return digest_data(X)

    def key(self, candidate, data, *, options=None):
        """Give the key of a fitted candidate's features.

        Parameters
        ----------
        candidate : fitted transformer
            One whose fit learns nothing from the data. A method ``fingerprint`` of its class
            speaks for it; without one its parameters, state and code are read.
        data : DataDigest
            What :meth:`digest` gave.
        options : object, default=None
            Whatever else the features depend on.

        Returns
        -------
        key : str or None
            None for a candidate whose features are not worth keeping: they lie on the disk
            already, or are the data themselves.

        Raises
        ------
        ValueError
            If something in the candidate cannot be read, so that its features could not be told
            from others.
        """
        fingerprint, reads_names = candidate_fingerprint(candidate)
        if fingerprint is None:
            return None
        digest = data.named if reads_names else data.content
        more = b"" if not options else content_digest(options)
        return combine(f"features {FORMAT}", fingerprint, digest, more).hex()[:40]

    def get(self, key, *, probe=None, probabilities=False, name=None):
        """Read features, if they are there and are right.

        Parameters
        ----------
        key : str
            What :meth:`key` gave.
        probe : Probe, default=None
            Features of the first rows as the candidate gives them now.
        probabilities : bool, default=False
            Whether source probabilities are needed too. An entry that was made when nobody asked
            for them is then as good as none.
        name : str, default=None
            What to call the candidate in warnings.

        Returns
        -------
        found : StoredFeatures or None
            None if they are not there, or a warning tells why they cannot be used.
        """
        found, warning = self._shelf.read(key, probe, probabilities, name)
        if warning is not None:
            warnings.warn(*warning, stacklevel=2)
        return found

    def put(self, key, candidate, features, probabilities=None, *, name=None):
        """Keep features that were computed elsewhere, in one pass over several layers for example.

        Parameters
        ----------
        key : str
            What :meth:`key` gave.
        candidate : fitted transformer
            The candidate that they belong to.
        features : ndarray of shape (n_samples, n_features)
            The features.
        probabilities : ndarray of shape (n_samples, n_source_classes), default=None
            Source probabilities; None if there is no source head.
        name : str, default=None
            What the candidate is called.

        Returns
        -------
        kept : StoredFeatures
            The same arrays, read from the store where they could be kept; else as they were, after
            a warning.
        """
        name = name or type(candidate).__name__
        made = StoredFeatures(features, probabilities, False, len(features))
        with self._shelf.locked(key, name) as lock:
            if lock.failure is None:
                return self._write_whole(key, candidate, made, name, True)
        self._warn_not_written(name, lock.failure)
        return made

    def extract(
        self,
        candidate,
        X,
        *,
        data=None,
        probabilities=True,
        options=None,
        name=None,
        just_fitted=False,
    ):
        """Give the features of data from the store, or run the candidate and keep them.

        Parameters
        ----------
        candidate : fitted transformer
            One whose fit learns nothing from the data.
        X : data
            In whatever form the candidate takes them.
        data : DataDigest, default=None
            What :meth:`digest` gave for `X`, if that is known already.
        probabilities : bool, default=True
            Whether source probabilities are needed. Where features and probabilities come from
            one pass, both are kept in any case.
        options : object, default=None
            Whatever else the features depend on.
        name : str, default=None
            What to call the candidate; its class if None.
        just_fitted : bool, default=False
            Whether the candidate was fitted on `X`, so that its ``probe_features_`` are those of
            the first rows of `X`. Otherwise these rows are run once more.

        Returns
        -------
        found : StoredFeatures
            Features and probabilities, and where they came from.
        """
        name = name or type(candidate).__name__
        try:
            key = self.key(candidate, self.digest(X) if data is None else data, options=options)
        except Unnameable as error:
            self._warn_not_written(name, error)
            key = None
        if key is None:
            return run_whole(candidate, X, probabilities)
        probe = probe_of(candidate, None if just_fitted else X)
        found, warning = self._shelf.read(key, probe, probabilities, name)
        if found is not None:
            return found
        with self._shelf.locked(key, name) as lock:
            # Another process may have made it meanwhile.
            found, warning = self._shelf.read(key, probe, probabilities, name)
            if found is not None:
                return found
            if warning is not None:
                warnings.warn(*warning, stacklevel=2)
            if lock.failure is None:
                if hasattr(candidate, "iter_extract"):
                    return self._write_rows(key, candidate, X, name)
                made = run_whole(candidate, X, probabilities)
                asked = probabilities or hasattr(candidate, "extract")
                return self._write_whole(key, candidate, made, name, asked)
        self._warn_not_written(name, lock.failure)
        return run_whole(candidate, X, probabilities)

    def forget(self, candidate, data, *, options=None):
        """Remove the features of one candidate on one set of data.

        Parameters
        ----------
        candidate : fitted transformer
            The candidate.
        data : DataDigest
            What :meth:`digest` gave.
        options : object, default=None
            As in :meth:`key`.
        """
        key = self.key(candidate, data, options=options)
        with contextlib.suppress(OSError):
            self._shelf.remove(str(key))

    # -- the whole store ------------------------------------------------------------------------

    @property
    def size(self):
        """Bytes of all files in the store."""
        return size_of(self._root)

    @property
    def exists(self):
        """Whether there is a store at this place."""
        return self._root.is_dir()

    @property
    def _root(self):
        return self._shelf.root

    @property
    def _shelf(self):
        return Shelf(Path(self.path) / _FOLDER)

    def prepare(self):
        """Make the folder, where it is not there yet.

        A store that is there and cannot be written to is used for reading.

        Raises
        ------
        OSError
            If there cannot be a folder of this name, or no files in it.
        ValueError
            If this is no name of a folder.
        """
        if not os.fspath(self.path):
            raise ValueError("an empty name; '.' is the current folder")
        self._shelf.prepare()

    def entries(self):
        """List what is in the store.

        Returns
        -------
        entries : list of StoreEntry
            The oldest first. Arrays are not read; :meth:`verify` does that.
        """
        found = [complete_entry(folder) for folder in self._shelf.folders("entries")]
        found += [unfinished_entry(folder) for folder in self._shelf.folders("unfinished")]
        oldest = datetime.min.replace(tzinfo=UTC)
        return sorted(filter(None, found), key=lambda entry: (entry.created or oldest, entry.key))

    def verify(self):
        """Read every byte of every entry.

        Returns
        -------
        entries : list of StoreEntry
            As :meth:`entries` gives them; those with a wrong byte are "damaged".
        """
        return list(filter(None, (verified(self._root, entry) for entry in self.entries())))

    def clear(self, entries=None):
        """Remove entries. Memory maps of them that are open stay readable.

        Parameters
        ----------
        entries : list of StoreEntry, default=None
            Those to remove, out of what :meth:`entries` or :meth:`verify` gave; all if None.

        Returns
        -------
        removed : list of StoreEntry
            Those that are gone. An extraction that is going on is left alone.

        Raises
        ------
        OSError
            If the store may not be written to.
        """
        if not self.exists:
            return []
        removed = []
        for entry in self.entries() if entries is None else entries:
            is_unfinished = entry.state == "unfinished"
            remove = self._shelf.remove_unfinished if is_unfinished else self._shelf.remove
            if remove(entry.key):
                removed.append(entry)
        if entries is None:
            discard(self._root / "trash")
        return removed

    # -- writing --------------------------------------------------------------------------------

    def _write_rows(self, key, candidate, X, name):
        """Run a candidate batch by batch, going on where an earlier process was interrupted."""
        growing = self._shelf.growing(key, plan_of_run(candidate), n_rows_of(X), name)
        try:
            try:
                start = growing.start()
            except OSError as error:
                discard(growing.folder)
                self._warn_not_written(name, error)
                return run_whole(candidate, X, True)
            made, failure = run_rows(candidate, X, growing)
            if failure is None:
                source = "kept" if ARRAYS[1] in growing.arrays() else "none"
                try:
                    found = self._seal(key, candidate, growing, name, source)
                    return StoredFeatures(*found, False, growing.n_rows - start, True)
                except (OSError, Damaged) as error:
                    failure, made = error, rows_again(candidate, X, growing, start)
        finally:
            growing.close()
        discard(growing.folder)
        self._warn_not_written(name, failure)
        return made

    def _write_whole(self, key, candidate, made, name, asked):
        """Write what a candidate returned, if it can be given back as it was."""
        arrays = storable(candidate, made)
        if arrays is None:
            return made
        # No process can go on with what another one computed as a whole.
        growing = self._shelf.growing(key, {"run": uuid.uuid4().hex}, len(arrays[0]), name)
        try:
            growing.start()
            for rows in row_chunks(len(arrays[0]), arrays[0].nbytes // len(arrays[0])):
                growing.append(*(None if array is None else array[rows] for array in arrays))
            source = "none" if asked else "not asked"
            found = self._seal(
                key, candidate, growing, name, source if arrays[1] is None else "kept"
            )
        except (OSError, Damaged) as error:
            discard(growing.folder)
            self._warn_not_written(name, error)
            return made
        finally:
            growing.close()
        return StoredFeatures(*found, False, made.n_rows_run, True)

    def _seal(self, key, candidate, growing, name, source_head):
        about = describe(candidate, name) | {"source_head": source_head}
        return self._shelf.seal(key, growing, about)

    def _warn_not_written(self, name, error):
        reason = getattr(error, "strerror", None) or str(error)
        warnings.warn(
            f"The features of {name!r} are not kept in the feature store "
            f"{os.fspath(self.path)!r}: {reason}.",
            CacheNotWrittenWarning,
            stacklevel=4,
        )
