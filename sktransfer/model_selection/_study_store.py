"""The store of a robustness study: one SQLite file with a row per cell, whole after any crash.

Every change is a transaction of its own. Whoever is killed leaves the state before or after it,
and other processes may read meanwhile. Numbers are kept as the eight bytes they are.
"""

import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

__all__ = ["CellRow", "StudyStore"]

_APPLICATION = 0x736B7472
_FORMAT = 1
_SECONDS_TO_WAIT = 60.0

_TABLES = """
CREATE TABLE IF NOT EXISTS versions (package TEXT PRIMARY KEY, version TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS targets (
    target TEXT PRIMARY KEY, n_samples INTEGER NOT NULL, description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS subsets (
    target TEXT, fraction REAL, repeat INTEGER, n_samples INTEGER NOT NULL, rows TEXT NOT NULL,
    PRIMARY KEY (target, fraction, repeat)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS metrics (
    metric TEXT PRIMARY KEY, digest TEXT NOT NULL, description TEXT NOT NULL,
    relative INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS candidates (
    target TEXT, candidate TEXT, fingerprint TEXT, description TEXT, features TEXT,
    probabilities TEXT, PRIMARY KEY (target, candidate)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    target TEXT, metric TEXT, candidate TEXT, fraction REAL, repeat INTEGER, status TEXT NOT NULL,
    score REAL, parts TEXT, reason TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (target, metric, candidate, fraction, repeat)) WITHOUT ROWID;
"""


class CellRow(NamedTuple):
    """One metric of one candidate on one subset of one target.

    Parameters
    ----------
    target, metric, candidate : str
        Their names.
    fraction : float
        Share of the target's samples.
    repeat : int
        Number of the repeat.
    status : {"done", "failed"}
        Whether there is a score.
    score : float or None
        The score; None for a failed cell, and for a metric that is relative to a pool which has
        not been combined yet.
    parts : str or None
        What such a metric leaves for the combination, as JSON.
    reason : str
        Why there is no score.
    seconds : float
        Time taken.
    n_samples : int or None
        Size of the subset; not written, but known when a row is read.
    """

    target: str
    metric: str
    candidate: str
    fraction: float
    repeat: int
    status: str
    score: float | None
    parts: str | None
    reason: str
    seconds: float
    n_samples: int | None = None

    @property
    def subset(self):
        """Fraction and repeat."""
        return self.fraction, self.repeat


class StudyStore:
    """An open store.

    Parameters
    ----------
    connection : sqlite3.Connection
        To a database with the tables of a study.
    """

    def __init__(self, connection):
        self._connection = connection

    # -- opening --------------------------------------------------------------------------------

    @classmethod
    def create(cls, path):
        """Open a store, which is made if it is not there.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        store : StudyStore
            The store.

        Raises
        ------
        ValueError
            If there can't be a file of this name, or it is something else.
        """
        return cls._opened(path, "rwc")

    @classmethod
    def existing(cls, path):
        """Open a store that is there, to read it.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        store : StudyStore
            The store.

        Raises
        ------
        ValueError
            If there is no such file, or it is something else.
        """
        if not Path(path).is_file():
            raise ValueError(
                "The 'store' parameter must be the file of a robustness study. "
                f"Got {os.fspath(path)!r} instead, which is no file."
            )
        # A writer that was killed may have left a transaction, which is taken back on opening.
        may_write = os.access(path, os.W_OK) and os.access(Path(path).absolute().parent, os.W_OK)
        return cls._opened(path, "rw" if may_write else "ro")

    @classmethod
    def in_memory(cls, image=None):
        """Make a store that lies in no file.

        Parameters
        ----------
        image : bytes, default=None
            What :meth:`image` gave.

        Returns
        -------
        store : StudyStore
            The store.
        """
        # Only ever used by one thread at a time.
        store = cls(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        if image is None:
            store._make_tables()
        else:
            store._connection.deserialize(image)
        return store

    @classmethod
    def _opened(cls, path, mode):
        try:
            address = f"file:{quote(str(Path(path).absolute()))}?mode={mode}"
            connection = sqlite3.connect(
                address, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None
            )
            store = cls(connection)
            try:
                store._check_kind(path, may_make=mode == "rwc")
            except BaseException:
                store.close()
                raise
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise ValueError(
                "The 'store' parameter must be the file of a robustness study, or the name of one "
                f"that can be made and written to. Got {os.fspath(path)!r} instead ({error})."
            ) from error
        return store

    def _check_kind(self, path, may_make):
        # A process that is killed loses nothing to the system's own caches.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if self._is_empty() and may_make:
            self._make_tables()
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            found = "an empty file" if self._is_empty() else "another SQLite database"
            raise ValueError(
                "The 'store' parameter must be the file of a robustness study. "
                f"Got {os.fspath(path)!r} instead, {found}."
            )
        if version != _FORMAT:
            raise ValueError(
                f"The store {os.fspath(path)!r} has format {version}; this version of sktransfer "
                f"reads and writes format {_FORMAT}."
            )

    def _is_empty(self):
        (n_tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return n_tables == 0

    def _make_tables(self):
        with self._transaction():
            if self._is_empty():  # no other process was faster
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def close(self):
        """Let go of the file."""
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def image(self):
        """Give all that is in the store.

        Returns
        -------
        image : bytes
            The file as it would be.
        """
        return self._connection.serialize()

    @contextmanager
    def _transaction(self):
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # -- what is known of the inputs ------------------------------------------------------------

    def versions(self):
        """Give the versions of libraries that the rows were computed with.

        Returns
        -------
        versions : dict of str to str
            By package.
        """
        return dict(self._connection.execute("SELECT package, version FROM versions"))

    def targets(self):
        """Give what is known of the targets.

        Returns
        -------
        targets : dict of str to (int, str)
            By name, number of samples and description as JSON.
        """
        query = "SELECT target, n_samples, description FROM targets ORDER BY target"
        return {name: rest for name, *rest in self._connection.execute(query)}

    def subsets(self, target):
        """Give the subsets of a target.

        Parameters
        ----------
        target : str
            Its name.

        Returns
        -------
        subsets : dict of (float, int) to (int, str)
            By fraction and repeat, the number of samples and the digest of their row numbers.
        """
        query = "SELECT fraction, repeat, n_samples, rows FROM subsets WHERE target = ?"
        found = self._connection.execute(query, (target,))
        return {(fraction, repeat): rest for fraction, repeat, *rest in found}

    def metrics(self):
        """Give what is known of the metrics.

        Returns
        -------
        metrics : dict of str to (str, str, bool)
            By name, digest, description as JSON, and whether scores are relative to a pool.
        """
        query = "SELECT metric, digest, description, relative FROM metrics ORDER BY metric"
        found = self._connection.execute(query)
        return {name: (digest, said, bool(relative)) for name, digest, said, relative in found}

    def candidates(self):
        """Give what is known of the candidates.

        Returns
        -------
        candidates : dict of str to dict of str to tuple
            By target and name, the fingerprint, description, digest of features and of source
            probabilities; None for what is not known yet.
        """
        query = (
            "SELECT target, candidate, fingerprint, description, features, probabilities "
            "FROM candidates ORDER BY target, candidate"
        )
        found = {}
        for target, name, *rest in self._connection.execute(query):
            found.setdefault(target, {})[name] = tuple(rest)
        return found

    def register(self, versions, target, subsets, metrics, candidates):
        """Write down all inputs of a run, before there are results.

        Parameters
        ----------
        versions : dict of str to str
            Versions of libraries.
        target : (str, int, str)
            Name, number of samples, description.
        subsets : list of (float, int, int, str)
            Fraction, repeat, number of samples, digest of row numbers.
        metrics : list of (str, str, str, bool)
            Name, digest, description, whether relative to a pool.
        candidates : iterable of str
            Names. Those of earlier plans that never came to a result are struck off.
        """
        name = target[0]
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO versions VALUES (?, ?)", versions.items())
            connection.execute("INSERT OR IGNORE INTO targets VALUES (?, ?, ?)", target)
            connection.executemany(
                "INSERT OR IGNORE INTO subsets VALUES (?, ?, ?, ?, ?)",
                [(name, *subset) for subset in subsets],
            )
            connection.executemany("INSERT OR IGNORE INTO metrics VALUES (?, ?, ?, ?)", metrics)
            connection.execute(
                "DELETE FROM candidates WHERE target = ? AND candidate NOT IN "
                "(SELECT candidate FROM cells WHERE target = ?)",
                (name, name),
            )
            known = {
                row[0]
                for row in connection.execute(
                    "SELECT candidate FROM candidates WHERE target = ?", (name,)
                )
            }
            new = [(name, candidate) for candidate in candidates if candidate not in known]
            connection.executemany("INSERT INTO candidates (target, candidate) VALUES (?, ?)", new)
            if new:
                # Scores relative to a pool are those of a smaller one now.
                connection.execute(
                    "UPDATE cells SET score = NULL, status = 'done', reason = '' "
                    "WHERE target = ? AND parts IS NOT NULL",
                    (name,),
                )

    def identify(self, target, candidate, fingerprint, description, features, probabilities):
        """Write down what a candidate is.

        Parameters
        ----------
        target, candidate : str
            Their names.
        fingerprint, description, features, probabilities : str or None
            What is known; None leaves what was there.
        """
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO candidates VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "fingerprint = coalesce(excluded.fingerprint, fingerprint), "
                "description = coalesce(excluded.description, description), "
                "features = coalesce(excluded.features, features), "
                "probabilities = coalesce(excluded.probabilities, probabilities)",
                (target, candidate, fingerprint, description, features, probabilities),
            )

    # -- cells ----------------------------------------------------------------------------------

    def cells(self, target=None):
        """Read the cells in the order of the final table.

        Parameters
        ----------
        target : str, default=None
            Those of one target; of all if None.

        Returns
        -------
        cells : list of CellRow
            Sorted by target, metric, candidate, fraction and repeat.
        """
        where, values = ("", ()) if target is None else ("WHERE target = ? ", (target,))
        query = (
            "SELECT target, metric, candidate, fraction, repeat, status, score, parts, reason, "
            "seconds, n_samples FROM cells LEFT JOIN subsets USING (target, fraction, repeat) "
            f"{where}ORDER BY target, metric, candidate, fraction, repeat"
        )
        return [CellRow(*row) for row in self._connection.execute(query, values)]

    def record(self, rows):
        """Write cells, in the place of those that are there.

        Parameters
        ----------
        rows : list of CellRow
            The cells.
        """
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [row[:10] for row in rows],
            )

    def combine(self, rows):
        """Write the scores of a pool whose parts are all there.

        Parameters
        ----------
        rows : list of CellRow
            Cells with their scores.
        """
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE cells SET score = ?, status = ?, reason = ? WHERE target = ? "
                "AND metric = ? AND candidate = ? AND fraction = ? AND repeat = ?",
                [(row.score, row.status, row.reason, *row[:5]) for row in rows],
            )
