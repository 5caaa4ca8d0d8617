"""Trials on disk: each is written as a whole when it is over, so nothing half-done is ever there.

A search that is killed leaves the trials that were over, in order. The one that was running is
simply run again, under its own number.
"""

import json
import os
import sqlite3
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from sktransfer import __version__
from sktransfer.exceptions import OtherVersionsWarning
from sktransfer.finetune._search_identity import differences
from sktransfer.finetune._search_sampling import ATTRIBUTE, TrialRecord, import_optuna, quiet_optuna
from sktransfer.utils._announce import announce

__all__ = ["SearchStorage"]

_PACKAGES = ("numpy", "optuna", "scikit-learn", "skorch", "torch")
# A server may be busy for a while with another process.
_SECONDS_TO_WAIT = 60


def _versions():
    return {"sktransfer": __version__} | {package: version(package) for package in _PACKAGES}


def _reason(error):
    """Give the first line of what a database says, without its SQL."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return f"{error or type(error).__name__}".partition("\n")[0].rstrip(".")


class SearchStorage:
    """The trials of a search in a database of Optuna; to be used in a ``with`` statement.

    Parameters
    ----------
    storage : str, path or None
        A file of SQLite, which is made if there is none, or a URL that SQLAlchemy knows. None keeps
        nothing.
    study_name : str
        Name of the search. The study of a measure is called ``"<study_name>/<measure>"``.

    Raises
    ------
    ValueError
        If the file is no such database, its folder does not exist, or another process is at work
        on the same search.
    """

    def __init__(self, storage, study_name):
        self.storage = storage
        self.study_name = study_name
        self.where = str(storage)
        self._stack = ExitStack()
        self._backend = None
        self._studies = {}

    def __enter__(self):
        if self.storage is not None:
            with ExitStack() as stack:
                self._open(stack)
                self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()
        self._backend, self._studies = None, {}

    def _open(self, stack):
        optuna = import_optuna()

        stack.enter_context(quiet_optuna())
        with self._usable():
            url, options, path = self._address()
        if path is not None:
            self._check_place(path)
            self._lock(stack, path)
        # One process at a time makes the tables.
        with self._usable(), ExitStack() if path is None else FileLock(f"{path}.lock"):
            self._backend = optuna.storages.RDBStorage(url, options)
        stack.callback(self._backend.engine.dispose)
        stack.callback(self._backend.remove_session)

    @contextmanager
    def _usable(self):
        """Say in one sentence that a database is none, or is damaged."""
        from sqlalchemy.exc import SQLAlchemyError

        optuna = import_optuna()
        faults = (SQLAlchemyError, sqlite3.Error, json.JSONDecodeError)
        try:
            yield
        except (*faults, optuna.exceptions.StorageInternalError) as error:
            raise ValueError(
                f"'storage' is {self.where!r}, which can't be opened as a database of Optuna "
                f"({_reason(error)}): it must be the path of a file, or a URL of SQLAlchemy's."
            ) from error

    def check(self):
        """Refuse a place where no database can be, without making one.

        Raises
        ------
        ValueError
            If there is a directory, or no folder, or the URL is none.
        """
        if self.storage is not None:
            import_optuna()
            with self._usable():
                _, _, path = self._address()
            if path is not None:
                self._check_place(path)

    def _check_place(self, path):
        if not str(self.storage) or path.is_dir():
            raise ValueError(
                f"'storage' must be the path of a file, or a URL of SQLAlchemy's; got "
                f"{self.where!r}, which is {'a folder' if str(self.storage) else 'no name'}."
            )
        if not path.parent.is_dir():
            raise ValueError(
                f"'storage' is {self.where!r}, and its folder {str(path.parent)!r} does not exist."
            )

    def _address(self):
        """Give a URL, options for it, and the path of the file if it is one."""
        from sqlalchemy.engine import make_url
        from sqlalchemy.pool import NullPool

        given = os.fspath(self.storage)
        if "://" not in given:
            path = Path(given).expanduser().absolute()

            # A path may have characters that mean something in a URL.
            def connect():
                return sqlite3.connect(path, timeout=_SECONDS_TO_WAIT)

            return "sqlite://", {"creator": connect, "poolclass": NullPool}, path
        self.where = "the URL given"  # may have a password
        url = make_url(given)
        self.where = url.render_as_string(hide_password=True)
        if url.drivername.startswith("sqlite") and url.database not in (None, "", ":memory:"):
            options = {"connect_args": {"timeout": _SECONDS_TO_WAIT}}
            return given, options, Path(url.database).absolute()
        return given, {}, None

    def _lock(self, stack, path):
        """Keep other processes from the same search, as long as this one lasts."""
        name = sha256(self.study_name.encode()).hexdigest()[:8]
        try:
            stack.enter_context(FileLock(f"{path}.{name}.lock", timeout=0))
        except Timeout as error:
            raise ValueError(
                f"Another process is at work on the search {self.study_name!r} in 'storage' "
                f"{self.where!r}; wait for it, or use another 'study_name'."
            ) from error

    # -- identity --------------------------------------------------------------------------------

    def seed(self):
        """Give the seed of the search that is there.

        Returns
        -------
        seed : int or None
            None if there is no search of this name.
        """
        return next((kept["seed"] for kept in self._kept().values()), None)

    def _kept(self):
        """Give what is known of the studies of this name, by name of the study."""
        if self._backend is None:
            return {}
        kept = {}
        with self._usable():
            studies = self._backend.get_all_studies()
        for study in studies:
            if not study.study_name.startswith(f"{self.study_name}/"):
                continue
            attributes = study.user_attrs.get(ATTRIBUTE)
            self._studies[study.study_name] = study._study_id
            if attributes is not None:
                kept[study.study_name] = attributes
            elif self._backend.get_n_trials(study._study_id):
                raise ValueError(
                    f"'storage' {self.where!r} has a study {study.study_name!r} that was not made "
                    "by FineTuneSearchCV; use another 'study_name'."
                )
        return kept

    def claim(self, identity, measures, seed):
        """See that what is there is this very search, and that there is a study for each measure.

        Parameters
        ----------
        identity : dict
            What the search is.
        measures : list of str
            The measures.
        seed : int
            Its seed.

        Raises
        ------
        ValueError
            If another search of this name is there.

        Warns
        -----
        OtherVersionsWarning
            If its trials were run by other versions of packages.
        """
        kept, versions = self._kept(), _versions()
        for there in kept.values():
            named = differences(identity, there["identity"])
            if named:
                raise ValueError(
                    f"'storage' {self.where!r} belongs to another search: under the name "
                    f"{self.study_name!r} it holds one that differs in {', '.join(named)}. Use "
                    "another 'storage' or 'study_name'."
                )
        others = {
            f"{package} {there['versions'].get(package)} (now {now})"
            for there in kept.values()
            for package, now in versions.items()
            if there["versions"].get(package) != now
        }
        if others:
            announce(
                f"The search {self.study_name!r} in {self.where!r} was begun with "
                f"{', '.join(sorted(others))}; what it comes to may be another result than without "
                "the change.",
                OtherVersionsWarning,
            )
        direction = import_optuna().study.StudyDirection.MAXIMIZE
        attributes = {"identity": identity, "seed": seed, "versions": versions}
        for measure in measures:
            name = f"{self.study_name}/{measure}"
            with self._usable():
                if name not in self._studies:
                    self._studies[name] = self._backend.create_new_study([direction], name)
                if name not in kept:
                    self._backend.set_study_user_attr(self._studies[name], ATTRIBUTE, attributes)

    # -- trials ----------------------------------------------------------------------------------

    def records(self, measure):
        """Read the trials of a measure.

        Parameters
        ----------
        measure : str
            The measure.

        Returns
        -------
        records : list of TrialRecord
            In order.
        """
        if self._backend is None:
            return []
        name = f"{self.study_name}/{measure}"
        with self._usable():
            trials = self._backend.get_all_trials(self._studies[name])
        if any(ATTRIBUTE not in trial.user_attrs for trial in trials):
            raise ValueError(
                f"The study {name!r} in 'storage' {self.where!r} has trials that were not run by "
                "FineTuneSearchCV, so it can't be continued; use another 'study_name'."
            )
        return [TrialRecord.from_frozen(trial) for trial in trials]

    def add(self, measure, record, distributions):
        """Write a trial, in one transaction.

        Parameters
        ----------
        measure : str
            The measure.
        record : TrialRecord
            The trial.
        distributions : dict of str to distribution
            The space.
        """
        if self._backend is None:
            return
        study = self._studies[f"{self.study_name}/{measure}"]
        with self._usable():
            trial = self._backend.create_new_trial(study, record.frozen(distributions))
            number = self._backend.get_trial(trial).number
        if number != record.number:
            raise RuntimeError(
                f"Trial {record.number} of the search {self.study_name!r} for {measure!r} was "
                f"written to 'storage' {self.where!r} as number {number}: another process writes "
                "there too."
            )
