"""The folder in which a reference ranking keeps what is done, so that nothing is done twice.

A file for each unit, written under another name and then renamed: it is there as a whole or not at
all. Nothing is ever unpickled.
"""

import io
import json
import os
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np
from filelock import FileLock, Timeout

from sktransfer.backbones._store_hashing import combine
from sktransfer.exceptions import DamagedResultWarning
from sktransfer.finetune._reference_files import write_file
from sktransfer.finetune._reference_protocol import check_protocol
from sktransfer.finetune._reference_task import UnitResult
from sktransfer.utils._announce import announce

__all__ = ["TRIALS", "UnitStore", "unit_name"]

#: The file with the trials of a search, in its folder.
TRIALS = "trials.sqlite"
_RUN = "run.json"
_FORMAT = 1


class UnitStore:
    """A folder of results of units.

    Parameters
    ----------
    folder : str or path
        The folder; it is made if it is not there.
    what : str, default="reference ranking"
        What they are results of, for messages.

    Raises
    ------
    ValueError
        If there can't be such a folder, or no files in it.
    """

    def __init__(self, folder, what="reference ranking"):
        self._what = what
        if not os.fspath(folder):
            raise ValueError("'out' must be the name of a folder, or None. Got '' instead.")
        # Workers may have another working directory.
        self.folder = Path(folder).absolute()
        try:
            for name in ("units", "locks"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            write_file(self.folder / "locks" / f"probe-{uuid4().hex}", b"").unlink()
        except OSError as error:
            raise ValueError(
                f"'out' must be a folder that can be made and written to. Got {os.fspath(folder)!r}"
                f" instead ({error.strerror or error})."
            ) from error

    def begin(self, protocol, subjects):
        """Compare with what is there already, and write down what is new.

        Parameters
        ----------
        protocol : dict
            What has to be the same for all units.
        subjects : list of Subject
            The rows.

        Raises
        ------
        ValueError
            If the folder holds results of something else; nothing is changed then.
        """
        path = self.folder / _RUN
        lock = self.folder / "locks" / "run.lock"
        self._refuse_folders(path, lock)
        with FileLock(lock):
            known = {}
            if path.exists():
                before = _read_run(path, self._what)
                known = before["subjects"]
                check_protocol(self.folder, before["protocol"], protocol, known, subjects)
            merged = {**known, **{subject.name: subject.as_dict() for subject in subjects}}
            if merged != known or not path.exists():
                about = {"format": _FORMAT, "protocol": protocol, "subjects": merged}
                write_file(path, json.dumps(about, indent=1).encode())

    def random_state(self):
        """Give the seed of the results that are here.

        Returns
        -------
        random_state : int or None
            None if there are none.
        """
        path = self.folder / _RUN
        self._refuse_folders(path)
        if not path.exists():
            return None
        return _read_run(path, self._what)["protocol"].get("random_state")

    def check(self, units):
        """See that files of units can be where they belong.

        Parameters
        ----------
        units : iterable of Unit
            The units.

        Raises
        ------
        ValueError
            If there are folders in their places.
        """
        for unit in units:
            self._refuse_folders(self._path(unit), self._lock(unit), self.trials(unit) / TRIALS)

    def _refuse_folders(self, *paths):
        for path in paths:
            if path.is_dir():
                raise ValueError(
                    f"'out' is {str(self.folder)!r}, where {str(path.relative_to(self.folder))!r} "
                    "is a folder in the place of a file: move it away, or choose another folder."
                )

    def trials(self, unit):
        """Give the folder in which a search keeps its trials.

        Parameters
        ----------
        unit : Unit
            The unit.

        Returns
        -------
        folder : Path
            It need not be there.
        """
        return self.folder / "searches" / unit_name(unit)

    @contextmanager
    def own(self, unit, wait):
        """Keep other processes from doing the same unit.

        Parameters
        ----------
        unit : Unit
            The unit.
        wait : bool
            Whether to wait for a process that does it just now.

        Yields
        ------
        is_own : bool
            False if another process does it.
        """
        lock = FileLock(self._lock(unit))
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def read(self, unit, tell=True):
        """Give what was kept of a unit.

        Parameters
        ----------
        unit : Unit
            The unit.
        tell : bool, default=True
            Whether to warn of damage.

        Returns
        -------
        result : UnitResult or None
            None if there is none, or it is damaged, which a warning says.
        """
        path = self._path(unit)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ValueError(
                f"'out' is {str(self.folder)!r}, where {str(path.relative_to(self.folder))!r} "
                f"cannot be read ({error.strerror or error})."
            ) from error
        try:
            return _unpacked(content, unit)
        except Exception:  # damage makes NumPy and zipfile raise errors of a dozen kinds
            if tell:
                announce(
                    f"{path} is damaged: it is not what was written. {unit.subject.name!r} is "
                    f"trained again with seed {unit.seed}.",
                    DamagedResultWarning,
                )
            return None

    def write(self, unit, result):
        """Keep the result of a unit.

        Parameters
        ----------
        unit : Unit
            The unit.
        result : UnitResult
            Its result.
        """
        path = self._path(unit)
        for left in path.parent.glob(f"{path.name}.*.tmp"):  # of a process that was killed
            left.unlink(missing_ok=True)
        write_file(path, _packed(unit, result))

    def _path(self, unit):
        return self.folder / "units" / f"{unit_name(unit)}.npz"

    def _lock(self, unit):
        return self.folder / "locks" / f"{unit_name(unit)}.lock"


def unit_name(unit):
    """Give a name to a unit: equal ones, of whatever candidate, have the same.

    Parameters
    ----------
    unit : Unit
        The unit.

    Returns
    -------
    name : str
        Letters and digits.
    """
    identity, seed, objective = unit.key
    return f"{combine('unit', identity, objective or '').hex()[:32]}-{seed}"


def _packed(unit, result):
    about = {
        "unit": unit_name(unit),
        "subject": unit.subject.name,
        "identity": unit.subject.identity,
        "seed": unit.seed,
        "measure": None if unit.objective is None else unit.objective.measure,
        **{name: getattr(result, name) for name in _FIELDS},
    }
    arrays = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}
    if result.outputs is not None:
        arrays["outputs"] = result.outputs
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


_FIELDS = (
    "seconds",
    "n_epochs",
    "energy",
    "energy_by",
    "device",
    "failure",
    "warnings",
    "best_params",
)


def _unpacked(content, unit):
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        outputs = arrays.get("outputs")
    # Folders of earlier versions do not have the name.
    found = about.get("unit", unit_name(unit)), about["identity"], about["seed"]
    if found != (unit_name(unit), unit.subject.identity, unit.seed):
        raise ValueError("it is the result of another unit")
    if (outputs is None) == (about["failure"] is None):
        raise ValueError("it has neither predictions nor a failure")
    about["warnings"] = tuple(map(tuple, about["warnings"]))
    return UnitResult(outputs=outputs, **{name: about.get(name) for name in _FIELDS})


def _read_run(path, what):
    try:
        about = json.loads(path.read_bytes())
        if about["format"] != _FORMAT:
            raise ValueError(f"it is of format {about['format']!r}")
        about["protocol"], about["subjects"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"'out' holds {str(path)!r}, which is no description of a {what} that this version can "
            f"read ({error}): choose another folder."
        ) from error
    return about
