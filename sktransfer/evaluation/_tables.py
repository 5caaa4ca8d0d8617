"""Tables of scores, a row per repeat and a column per candidate, in whatever form they come."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ._pairing import (
    Scores,
    clean_names,
    is_default,
    listed,
    read_numbers,
    read_scores,
    refuse_lazy,
)

__all__ = ["Table", "pair_repeats", "read_table"]


@dataclass(frozen=True)
class Table:
    """Scores of shape (n_repeats, n_candidates), with names where there are any."""

    values: np.ndarray
    missing: np.ndarray
    names: tuple | None
    positional: bool
    repeats: tuple
    named_repeats: bool = False

    @property
    def labels(self):
        """What repeats are called: as in the index, or by position if it names some twice."""
        unique = len(set(self.repeats)) == len(self.repeats)
        return self.repeats if unique else tuple(range(len(self.repeats)))

    def row(self, place):
        """Take the scores of one repeat.

        Parameters
        ----------
        place : int
            Which repeat, by position.

        Returns
        -------
        scores : Scores
            Of all candidates.
        """
        return Scores(self.values[place], self.missing[place], self.names, self.positional)


def read_table(data, argument):
    """Read scores of several repeats.

    Parameters
    ----------
    data : array-like of shape (n_repeats, n_candidates), frame or mapping
        A frame has a column per candidate; a mapping has a sequence per candidate.
    argument : str
        What the parameter is called.

    Returns
    -------
    table : Table
        As read.
    """
    if isinstance(data, Mapping):
        return _table_of_columns(data.values(), data, argument)
    refuse_lazy(data, argument)
    if hasattr(data, "iloc"):
        if data.ndim != 2:
            raise ValueError(
                f"'{argument}' must be of shape (n_repeats, n_candidates). Got a series instead."
            )
        repeats = None if is_default(data.index) else tuple(data.index)
        positional = is_default(data.columns)
        if data.shape[1] and (data.dtypes == np.float64).all():
            # What a study asks for thousands of times: no need to look at each column.
            values = np.array(data)
            names = clean_names(data.columns, argument)
            labels = tuple(range(len(values))) if repeats is None else repeats
            named = repeats is not None
            return Table(values, np.isnan(values), names, positional, labels, named)
        columns = [data.iloc[:, [place]].reset_index(drop=True) for place in range(data.shape[1])]
        return _table_of_columns(columns, data.columns, argument, positional, repeats)
    if hasattr(data, "columns"):  # a frame without an index
        return _table_of_columns([data[name] for name in data.columns], data.columns, argument)
    if getattr(getattr(data, "dtype", None), "names", None):
        names = data.dtype.names
        return _table_of_columns([data[name] for name in names], names, argument)
    rows = data if isinstance(data, np.ma.MaskedArray) else _as_array(data)
    if rows.ndim != 2:
        raise ValueError(
            f"'{argument}' must be of shape (n_repeats, n_candidates). "
            f"Got an array of shape {rows.shape} instead."
        )
    read = [read_numbers(row, argument) for row in rows]
    return _table_of(read, None, argument, rows.shape[1])


def _as_array(data):
    try:
        return np.asarray(data)
    except ValueError:  # rows of different lengths
        return np.empty(0)


def _table_of_columns(columns, names, argument, positional=False, repeats=None):
    names = clean_names(names, argument)
    read = []
    for name, column in zip(names, columns, strict=True):
        scores = read_scores(column, f"{argument}[{name!r}]")
        read.append((scores.values, scores.missing))
    lengths = {len(values) for values, _ in read} or {0}
    if len(lengths) > 1:
        raise ValueError(
            f"'{argument}' must have as many repeats for each candidate. "
            f"Got between {min(lengths)} and {max(lengths)}."
        )
    (n_repeats,) = lengths
    transposed = _table_of(read, names, argument, n_repeats)
    return Table(
        transposed.values.T,
        transposed.missing.T,
        names,
        positional,
        tuple(range(n_repeats)) if repeats is None else repeats,
        repeats is not None,
    )


def _table_of(read, names, argument, width):
    values = np.array([values for values, _ in read], dtype=float).reshape(len(read), width)
    missing = np.array([missing for _, missing in read], dtype=bool).reshape(len(read), width)
    return Table(values, missing, names, False, tuple(range(len(read))))


def pair_repeats(first, second):
    """Find the repeats of the second table in the order of the first.

    Parameters
    ----------
    first, second : Table
        Two tables.

    Returns
    -------
    places : sequence of int
        Rows of the second.
    """
    if len(first.repeats) != len(second.repeats):
        raise ValueError(
            "'scores_a' and 'scores_b' must have the same repeats. "
            f"Got {len(first.repeats)} and {len(second.repeats)}."
        )
    if not (first.named_repeats and second.named_repeats) or first.repeats == second.repeats:
        return range(len(first.repeats))
    place = {label: position for position, label in enumerate(second.repeats)}
    if len(place) != len(second.repeats) or set(place) != set(first.repeats):
        raise ValueError(
            "'scores_a' and 'scores_b' must have the same repeats, each once. "
            f"Got the indices {listed(first.repeats)} and {listed(second.repeats)}."
        )
    return [place[label] for label in first.repeats]
