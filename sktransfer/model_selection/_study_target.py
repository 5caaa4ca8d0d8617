"""The target of a study and the rows of its subsets, checked and read once."""

import json
from dataclasses import dataclass, field

import numpy as np

from ..backbones._store_content import content_digest
from ..backbones._store_data import digest_data
from ..backbones._store_hashing import array_digest
from ._study_inputs import said_parameters, said_value

__all__ = [
    "StudySubset",
    "TargetInputs",
    "read_subsets",
    "target_inputs",
]

#: Parameters of a splitter that more subsets are asked for with.
_GROWING = ("fractions", "n_repeats")


@dataclass(frozen=True)
class StudySubset:
    """Rows of the target that are scored.

    Attributes
    ----------
    fraction : float
        Their share.
    repeat : int
        Number of the repeat.
    rows : ndarray of int64
        Row numbers.
    """

    fraction: float
    repeat: int
    rows: np.ndarray

    @property
    def key(self):
        """Fraction and repeat."""
        return self.fraction, self.repeat

    @property
    def record(self):
        """What the store keeps of it."""
        digest = array_digest(np.ascontiguousarray(self.rows)).hex()
        return (*self.key, len(self.rows), digest)


def read_subsets(splitter, X, y, groups, include_full):
    """Make all subsets of a target, and check them.

    Parameters
    ----------
    splitter : object with a method ``split``
        Yields row numbers, fraction and repeat.
    X, y : data
        The target.
    groups : array-like or None
        Groups of samples.
    include_full : bool
        Whether the whole target is one of them, as fraction 1.0 and repeat 0.

    Returns
    -------
    subsets : list of StudySubset
        The subsets, sorted by fraction and repeat.

    Raises
    ------
    ValueError
        If there is none, one is there twice, or row numbers are wrong.
    """
    if isinstance(splitter, type):
        raise ValueError(
            "The 'subsets' parameter must be a splitter. "
            f"Got the class {splitter.__name__} instead; call it, as in {splitter.__name__}()."
        )
    n_samples, found = len(y), {}
    for item in splitter.split(X, y, groups):
        try:
            rows, fraction, repeat = item
            rows, fraction, number = np.asarray(rows), float(fraction), int(repeat)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "The 'subsets' parameter must be a splitter that yields (indices, fraction, "
                f"repeat). Got {' '.join(repr(item).split()):.80} instead."
            ) from error
        called = f"The subset of fraction {fraction:g} and repeat {repeat} from 'subsets'"
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise ValueError(
                f"{called} must be a non-empty array of row numbers. Got an array of shape "
                f"{rows.shape} and dtype {rows.dtype} instead."
            )
        rows = rows.astype(np.int64)
        if rows.min() < 0 or rows.max() >= n_samples or len(np.unique(rows)) < len(rows):
            raise ValueError(
                f"{called} must have row numbers from 0 to {n_samples - 1}, each once."
            )
        if not 0 < fraction <= 1 or number != repeat or number < 0:
            raise ValueError(
                f"{called} must have a fraction in (0, 1] and a whole number of the repeat."
            )
        if (fraction, number) in found:
            raise ValueError(f"{called} is there twice.")
        found[fraction, number] = StudySubset(fraction, number, rows)
    if include_full:
        full = StudySubset(1.0, 0, np.arange(n_samples))
        if len(found.setdefault(full.key, full).rows) != n_samples:
            raise ValueError(
                "The subset of fraction 1 and repeat 0 from 'subsets' must be all samples. Got "
                f"{len(found[full.key].rows)} of {n_samples}; or set include_full=False."
            )
    if not found:
        raise ValueError("The 'subsets' parameter must give at least one subset. Got none.")
    return [found[key] for key in sorted(found)]


@dataclass(frozen=True)
class TargetInputs:
    """What stands for a target in the store.

    Attributes
    ----------
    name : str
        Its name.
    n_samples : int
        Number of samples.
    description : dict of str to str
        Digests of its data, and the parameters of the splitter.
    data : DataDigest
        Digest of the data, for a feature store.
    """

    name: str
    n_samples: int
    description: dict
    data: object = field(repr=False)

    @property
    def record(self):
        """What the store keeps of it."""
        return self.name, self.n_samples, json.dumps(self.description, sort_keys=True)


def target_inputs(name, X, y, groups, splitter):
    """Read a target once.

    Parameters
    ----------
    name : str
        Its name.
    X : data
        The data.
    y : ndarray
        The target.
    groups : array-like or None
        Groups of samples.
    splitter : object
        Where subsets come from.

    Returns
    -------
    inputs : TargetInputs
        What stands for it.

    Raises
    ------
    ValueError
        If the data cannot be told from others.
    """
    try:
        data = digest_data(X)
        description = {
            "the data X": data.content,
            "the labels y": content_digest(y).hex(),
            "the groups": "none" if groups is None else content_digest(np.asarray(groups)).hex(),
        }
    except ValueError as error:
        raise ValueError(
            f"The data of target {name!r} cannot be told from others, so that a study of them "
            f"cannot be continued: {error}."
        ) from error
    if hasattr(splitter, "get_params"):
        parameters = said_parameters(splitter, leave_out=_GROWING)
    elif hasattr(splitter, "__dict__"):
        parameters = {
            key: said_value(value) for key, value in vars(splitter).items() if key not in _GROWING
        }
    else:
        parameters = {}
    description["the kind of subsets"] = type(splitter).__qualname__
    description |= {f"the parameter {key!r} of the subsets": parameters[key] for key in parameters}
    return TargetInputs(name, len(y), description, data)
