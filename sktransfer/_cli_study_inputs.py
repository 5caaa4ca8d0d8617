"""What ``sktransfer study`` is given: targets by name, who is ranked on them, a reference."""

import csv
import math
from pathlib import Path

__all__ = ["find_targets", "read_reference", "without_own_source"]

_MEDMNIST = "medmnist:"
_MEASURES = ("accuracy", "auroc")


def without_own_source(found, target):
    """Leave out the candidate that was trained on the target.

    Parameters
    ----------
    found : list of NamedCandidate
        The candidates.
    target : str or None
        The data set of MedMNIST that the target is.

    Returns
    -------
    candidates : list of (str, transformer)
        The others.
    remarks : list of str
        Who was left out, and of which data sets of MedMNIST a checkpoint is missing.

    Raises
    ------
    ValueError
        If no other is there.
    """
    own = [item.name for item in found if target is not None and item.source == target]
    pairs = [(item.name, item.candidate) for item in found if item.name not in own]
    if not pairs:
        raise ValueError(f"--candidates: {own[0]!r} was trained on the target; there is no other.")
    remarks = [f"{name} was trained on the target, left out." for name in own]
    sources = {item.source for item in found} - {None}
    if sources:
        from .datasets import load_medmnist_reference

        known = load_medmnist_reference(as_frame=False).sources
        if missing := [name for name in known if name not in sources]:
            remarks.append(f"--candidates medmnist: no checkpoint of {', '.join(missing)}.")
    return pairs, remarks


def find_targets(specifications):
    """Turn what was given for ``--data`` into names and paths.

    Parameters
    ----------
    specifications : sequence of str
        ``PATH``, ``NAME=PATH``, or ``medmnist:DIR`` for all targets of MedMNIST in a folder.

    Returns
    -------
    targets : dict of str to str
        Paths by name.

    Raises
    ------
    ValueError
        If two targets have one name, or there is nothing of this name.
    """
    from .datasets import find_medmnist_targets

    targets = {}
    for text in specifications:
        if text.startswith(_MEDMNIST) and not Path(text).exists():
            try:
                paths = find_medmnist_targets(text.removeprefix(_MEDMNIST)).values()
            except ValueError as error:
                raise ValueError(f"--data: {text!r}: {error}") from error
            pairs = [(_name(path), str(path)) for path in paths]
        else:
            name, has_name, path = text.partition("=")
            is_plain = not has_name or Path(text).exists()
            pairs = [(_name(text), text) if is_plain else (name, path)]
        for name, path in pairs:
            if not name:
                raise ValueError(f"--data: {text!r} names no target; the form is NAME=PATH.")
            if not Path(path).exists():
                raise ValueError(f"--data: there is no folder or file {path!r}.")
            if targets.setdefault(name, path) != path:
                raise ValueError(
                    f"--data: {targets[name]!r} and {path!r} would both be called {name!r}; name "
                    "them, as in --data first=PATH second=PATH."
                )
    return targets


def _name(path):
    path = Path(path)
    return path.resolve().name if path.is_dir() else path.stem


def read_reference(text, pools):
    """Read a reference, and see that it has a number for every candidate on every target.

    Parameters
    ----------
    text : str
        A CSV file with the columns candidate, value and, for several targets, target; or
        ``medmnist:accuracy`` or ``medmnist:auroc`` for the published ones.
    pools : dict of str to (str or None, dict of str to (str or None))
        For each target the data set of MedMNIST that it is, and the candidates with the data sets
        of MedMNIST they were trained on.

    Returns
    -------
    reference : dict of str to dict of str to float
        By target and candidate.

    Raises
    ------
    ValueError
        If it can't be read, or numbers are missing.
    """
    if text.startswith(_MEDMNIST) and not Path(text).exists():
        reference = _published(text, pools)
    else:
        reference = _from_file(text, list(pools))
    for target, (_, candidates) in pools.items():
        missing = [name for name in candidates if name not in reference.get(target, {})]
        if missing:
            raise ValueError(
                f"--reference: {text!r} has no value for {', '.join(missing)} on target {target!r}."
            )
    return {
        target: {name: reference[target][name] for name in candidates}
        for target, (_, candidates) in pools.items()
    }


def _published(text, pools):
    from .datasets import load_medmnist_reference

    measure, published = text.removeprefix(_MEDMNIST), load_medmnist_reference(as_frame=False)
    if measure not in _MEASURES:
        raise ValueError(
            f"--reference: {text!r} must be medmnist:accuracy, medmnist:auroc, or a file."
        )
    reference = {}
    for target, (known_as, candidates) in pools.items():
        values = published.reference(known_as, measure) if known_as in published.targets else {}
        reference[target] = {
            name: values[source] for name, source in candidates.items() if source in values
        }
    return reference


def _from_file(path, targets):
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"--reference: the file {path!r} can't be read ({reason}).") from error
    columns = list(rows[0]) if rows else []
    if not {"candidate", "value"} <= set(columns):
        raise ValueError(
            f"--reference: {path!r} must have rows with the columns candidate, value and maybe "
            f"target; got the columns {columns}."
        )
    if "target" not in columns and len(targets) > 1:
        raise ValueError(
            f"--reference: {path!r} must have a column target, because there are "
            f"{len(targets)} targets."
        )
    reference = {}
    for line, row in enumerate(rows, start=2):
        try:
            value = float(row["value"])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(
                f"--reference: line {line} of {path!r} must have a number as value; got "
                f"{row['value']!r}."
            )
        values = reference.setdefault(row.get("target", targets[0]), {})
        if row["candidate"] in values:
            raise ValueError(
                f"--reference: line {line} of {path!r} gives candidate {row['candidate']!r} a "
                "second value."
            )
        values[row["candidate"]] = value
    return reference
