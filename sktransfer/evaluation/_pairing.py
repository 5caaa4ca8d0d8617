"""Reading scores with or without candidate names, and pairing two sets of them by name."""

import inspect
import numbers
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Pair",
    "Scores",
    "clean_names",
    "is_default",
    "listed",
    "pair_scores",
    "read_numbers",
    "read_scores",
    "refuse_lazy",
]

_MOST_LISTED = 6


@dataclass(frozen=True)
class Scores:
    """One number per candidate.

    `names` is None for plain arrays. `positional` marks names that are only the default index
    0, 1, 2, ... of a series: they pair with other names, and by position with plain arrays.
    """

    values: np.ndarray
    missing: np.ndarray
    names: tuple | None = None
    positional: bool = False


@dataclass(frozen=True)
class Pair:
    """Two sets of numbers for the same candidates, in the same order."""

    x: np.ndarray
    y: np.ndarray
    x_missing: np.ndarray
    y_missing: np.ndarray
    names: tuple | None
    left_out: tuple = ()

    @property
    def labels(self):
        """What candidates are called in messages: their names, or else their positions."""
        return tuple(range(len(self.x))) if self.names is None else self.names

    @property
    def missing(self):
        """Candidates that lack a number on one side or on both."""
        return self.x_missing | self.y_missing

    def select(self, kept):
        """Keep some candidates and note the others as left out.

        Parameters
        ----------
        kept : ndarray of bool of shape (n_candidates,)
            Which to keep.

        Returns
        -------
        pair : Pair
            The kept ones.
        """
        dropped = tuple(name for name, keep in zip(self.labels, kept, strict=True) if not keep)
        return Pair(
            self.x[kept],
            self.y[kept],
            self.x_missing[kept],
            self.y_missing[kept],
            # The positions of those that remain are no longer 0, 1, 2, ...
            tuple(name for name, keep in zip(self.labels, kept, strict=True) if keep),
            self.left_out + dropped,
        )


def listed(names):
    """Write names for a message, not more than a few.

    Parameters
    ----------
    names : iterable
        The names.

    Returns
    -------
    text : str
        Such as "'a', 'b' and 'c'".
    """
    shown = [repr(name) for name in names]
    if len(shown) > _MOST_LISTED:
        shown[_MOST_LISTED - 1 :] = [f"{len(shown) - _MOST_LISTED + 1} more"]
    if len(shown) > 1:
        shown[-2:] = [f"{shown[-2]} and {shown[-1]}"]
    return ", ".join(shown)


# -- reading ---------------------------------------------------------------------------------------


def read_scores(data, argument):
    """Read one number per candidate, with names where there are any.

    Parameters
    ----------
    data : mapping, series, structured array, frame of one column, array-like or reference ranking
        The numbers; see :func:`rank_correlation`.
    argument : str
        What the parameter is called.

    Returns
    -------
    scores : Scores
        As read.
    """
    if callable(getattr(type(data), "reference", None)):
        data = _mapping_of(data, argument)
    if isinstance(data, Mapping):
        return _named(list(data.values()), list(data), argument)
    refuse_lazy(data, argument)
    if hasattr(data, "iloc"):
        return _read_pandas(data, argument)
    if hasattr(data, "columns"):  # a frame without an index
        return _read_columns({str(name): data[name] for name in data.columns}, argument)
    if getattr(getattr(data, "dtype", None), "names", None):
        return _read_structured(np.asarray(data), argument)
    values, missing = read_numbers(data, argument)
    return Scores(values, missing)


def _mapping_of(ranking, argument):
    """Ask a reference ranking for its numbers, which need not be made here."""
    kind = type(ranking).__name__
    try:
        inspect.signature(ranking.reference).bind()
    except TypeError:
        raise ValueError(
            f"'{argument}' must hold one number per candidate. Got a {kind}, which holds several: "
            "choose some of them by its method 'reference'."
        ) from None
    numbers_by_name = ranking.reference()
    if not isinstance(numbers_by_name, Mapping):
        raise ValueError(
            f"'{argument}' must hold one number per candidate. Got a {kind}, whose method "
            f"'reference' gives a {type(numbers_by_name).__name__} and no mapping."
        )
    return numbers_by_name


def refuse_lazy(data, argument):
    """Ask for the numbers of a frame that has not been computed yet.

    Parameters
    ----------
    data : object
        What was given.
    argument : str
        What the parameter is called.
    """
    if hasattr(data, "collect"):
        raise ValueError(
            f"'{argument}' must hold its numbers. "
            f"Got a {type(data).__name__}, which has to be collected first."
        )


def clean_names(names, argument):
    """Check the names of candidates.

    Parameters
    ----------
    names : iterable of hashable
        The names.
    argument : str
        What the parameter is called.

    Returns
    -------
    names : tuple
        With numpy's scalars as plain ones.
    """
    names = [name.item() if isinstance(name, np.generic) else name for name in names]
    if any(name is None or name != name for name in names):
        raise ValueError(f"'{argument}' has a candidate whose name is missing.")
    seen, twice = set(), []
    for name in names:
        if name in seen and name not in twice:
            twice.append(name)
        seen.add(name)
    if twice:
        raise ValueError(
            f"'{argument}' must name each candidate once. Got {listed(twice)} more than once."
        )
    return tuple(names)


def _named(values, names, argument, positional=False):
    names = clean_names(names, argument)
    values, missing = read_numbers(values, argument, names)
    return Scores(values, missing, names, positional)


def _read_pandas(data, argument):
    if data.ndim == 2:
        if data.shape[1] != 1:
            raise ValueError(
                f"'{argument}' must be one column of a frame. "
                f"Got a frame of {data.shape[1]} columns."
            )
        data = data.iloc[:, 0]
    values = data.to_numpy()
    if not isinstance(data.dtype, np.dtype):  # nullable and Arrow types
        values = data.to_numpy(dtype=object, na_value=None)
    return _named(values, data.index.tolist(), argument, is_default(data.index))


def is_default(index):
    """Tell whether a pandas index is the one that is made where none is given.

    Parameters
    ----------
    index : pandas.Index
        Of rows or of columns.

    Returns
    -------
    default : bool
        Whether it is the range from 0.
    """
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def _read_structured(data, argument):
    fields = {name: data[name] for name in data.dtype.names}
    numeric = all(array.dtype.kind in "biuf" for array in fields.values())
    if data.shape in ((), (1,)) and numeric:
        return _named([array.item() for array in fields.values()], fields, argument)
    return _read_columns(fields, argument)


def _read_columns(columns, argument):
    """Read a column of names and one of numbers, or a single one of numbers."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if len(arrays) == 1:
        values, missing = read_numbers(*arrays.values(), argument)
        return Scores(values, missing)
    numeric = [name for name, array in arrays.items() if array.dtype.kind in "biuf"]
    if len(arrays) != 2 or len(numeric) != 1:
        raise ValueError(
            f"'{argument}' must be one column of numbers, or one of names and one of numbers. "
            f"Got the columns {listed(arrays)}."
        )
    (names,) = (array for name, array in arrays.items() if name != numeric[0])
    if names.dtype.kind == "S":
        names = names.astype(str)
    return _named(arrays[numeric[0]], names.tolist(), argument)


def read_numbers(values, argument, names=None):
    """Read a list of real numbers in which None, NaN and the like stand for no number.

    Parameters
    ----------
    values : array-like of shape (n_candidates,)
        The numbers.
    argument : str
        What the parameter is called.
    names : sequence, default=None
        Names for messages.

    Returns
    -------
    values : ndarray of shape (n_candidates,)
        Integers stay integers, so that large ones are told apart.
    missing : ndarray of bool of shape (n_candidates,)
        Which are no numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), None, values.data.astype(object))
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty((0, 0))
    except (TypeError, RuntimeError) as error:  # tensors on a GPU, or with gradients
        raise ValueError(
            f"'{argument}' must hold numbers that NumPy can read. "
            f"Got a {type(values).__name__}, which it can't ({error})."
        ) from error
    if array.ndim != 1:
        raise ValueError(
            f"'{argument}' must hold one number per candidate. "
            f"Got an array of shape {array.shape} instead."
        )
    if array.size == 0:
        array = array.astype(float)
    if array.dtype.kind == "O":
        array = _numbers_of_objects(array, argument, names)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"'{argument}' must hold real numbers. Got dtype {array.dtype} instead.")
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    return array, np.isnan(array)


def _numbers_of_objects(array, argument, names):
    read = np.empty(len(array))
    for position, value in enumerate(array):
        label = position if names is None else names[position]
        if value is None or type(value).__name__ == "NAType":
            read[position] = np.nan
        elif isinstance(value, (numbers.Real, np.bool_)):
            try:
                read[position] = value
            except OverflowError:
                raise ValueError(
                    f"'{argument}' has a number that is too large for candidate {label!r}."
                ) from None
        else:
            raise ValueError(
                f"'{argument}' must hold real numbers. "
                f"Got {value!r} of type {type(value).__name__} for candidate {label!r}."
            )
    whole = [value for value in array if isinstance(value, numbers.Integral)]
    if len(whole) == len(array) and all(-(2**63) <= value < 2**63 for value in whole):
        return np.array([int(value) for value in whole], dtype=np.int64)
    return read


# -- pairing ---------------------------------------------------------------------------------------


def pair_scores(scores, reference, names="same", arguments=("scores", "reference")):
    """Bring two sets of numbers into the same order of candidates.

    Parameters
    ----------
    scores, reference : Scores or what :func:`read_scores` reads
        The two sets.
    names : {"same", "common"} or None, default="same"
        Whether candidates on one side only are an error or are left out. None is an error for
        callers who can't leave them out, and who don't advise it.
    arguments : tuple of two str, default=("scores", "reference")
        What the parameters are called.

    Returns
    -------
    pair : Pair
        In the order of `scores`.

    Raises
    ------
    ValueError
        If they cannot be paired.
    """
    if names not in ("same", "common", None):
        raise ValueError(f"'names' must be 'same' or 'common'. Got {names!r} instead.")
    first, second = (
        data if isinstance(data, Scores) else read_scores(data, argument)
        for data, argument in zip((scores, reference), arguments, strict=True)
    )
    if first.names is None or second.names is None:
        return _pair_by_position(first, second, arguments)
    place = {name: position for position, name in enumerate(second.names)}
    common = [name for name in first.names if name in place]
    only_first = [name for name in first.names if name not in place]
    only_second = [name for name in second.names if name not in set(first.names)]
    if only_first or only_second:
        lacks = [
            f"'{argument}' lacks {listed(missing)}"
            for argument, missing in zip(arguments[::-1], (only_first, only_second), strict=True)
            if missing
        ]
        if names != "common":
            advice = " With names='common' these are left out." if names else ""
            raise ValueError(
                f"'{arguments[0]}' and '{arguments[1]}' must have the same candidates: "
                f"{'; '.join(lacks)}.{advice}"
            )
        if not common:
            raise ValueError(
                f"'{arguments[0]}' and '{arguments[1]}' have no candidate in common: "
                f"{'; '.join(lacks)}."
            )
    rows = np.array([name in place for name in first.names], dtype=bool)
    order = np.array([place[name] for name in common], dtype=int)
    return Pair(
        first.values[rows],
        second.values[order],
        first.missing[rows],
        second.missing[order],
        tuple(common),
        tuple(only_first + only_second),
    )


def _pair_by_position(first, second, arguments):
    for scores, other, with_names, without in (
        (first, second, *arguments),
        (second, first, *arguments[::-1]),
    ):
        if scores.names is not None and not scores.positional and other.names is None:
            raise ValueError(
                f"'{with_names}' has names of candidates and '{without}' has none, so that they "
                "cannot be paired by name. Give names to both, or to neither."
            )
    if len(first.values) != len(second.values):
        raise ValueError(
            f"'{arguments[0]}' and '{arguments[1]}' must have one number for each of the same "
            f"candidates. Got {len(first.values)} and {len(second.values)} numbers."
        )
    return Pair(first.values, second.values, first.missing, second.missing, None)
