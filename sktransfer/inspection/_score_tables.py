"""Scores by candidate and repeat from the table of a study, and performance from a reference."""

import numpy as np

from ._frames import is_dict, read_numbers

__all__ = ["mean_or", "ragged_table", "read_cells", "read_reference", "summary"]


def summary(values, interval):
    """Summarise repeats, or seeds, of each candidate.

    Parameters
    ----------
    values : ndarray of shape (n_candidates, n_repeats)
        NaN where there is none.
    interval : {"range", "std"} or None
        What low and high are.

    Returns
    -------
    mean, low, high : ndarray of shape (n_candidates,)
        Of what there is; NaN if there is nothing.
    """
    finite = np.isfinite(values)
    mean, low, high = (np.full(len(values), np.nan) for _ in range(3))
    for row in np.flatnonzero(finite.any(axis=1)):
        known = values[row, finite[row]]
        mean[row] = low[row] = high[row] = known.mean()
        if interval == "range":
            low[row], high[row] = known.min(), known.max()
        elif interval == "std":
            low[row], high[row] = mean[row] - known.std(), mean[row] + known.std()
    return mean, low, high


def ragged_table(rows):
    """Put rows of different lengths into one array.

    Parameters
    ----------
    rows : list of list of float
        The rows.

    Returns
    -------
    table : ndarray of shape (n_rows, longest)
        With NaN where a row is shorter.
    """
    table = np.full((len(rows), max(1, *map(len, rows))), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def read_cells(columns):
    """Sort the scores of a study's table.

    Parameters
    ----------
    columns : dict of str to list
        Of the table.

    Returns
    -------
    cells : dict of (str, str, float) to dict of str to list of float
        For target, metric and fraction the scores of each candidate over repeats.
    """
    scores = read_numbers(columns["score"], "score")
    for row, status in enumerate(columns.get("status", [])):
        if status == "failed":
            scores[row] = np.nan
    cells, seen = {}, set()
    names = ("target", "metric", "fraction", "candidate", "repeat")
    for row, key in enumerate(zip(*(columns[name] for name in names), strict=True)):
        if key in seen:
            raise ValueError(
                "'frame' must have one row for each score. Got two for "
                + ", ".join(f"{name} {value!r}" for name, value in zip(names, key, strict=True))
                + "."
            )
        seen.add(key)
        cells.setdefault(key[:3], {}).setdefault(key[3], []).append(scores[row])
    return cells


def read_reference(reference, targets, measure):
    """Read the performance of each candidate on each target.

    Parameters
    ----------
    reference : mapping, series or ReferenceRanking
        As the user gives it.
    targets : list of str
        The targets to be shown.
    measure : str or None
        Which measure of a `ReferenceRanking`.

    Returns
    -------
    values : dict of str to dict of str to list of float
        By target and candidate.
    """
    nested = is_dict(reference) and all(
        is_dict(value) or hasattr(value, "measures") for _, value in reference.items()
    )
    by_target = {str(name): value for name, value in reference.items()} if nested else None
    if nested:
        missing = [name for name in targets if name not in by_target]
        if missing or not by_target:
            raise ValueError(f"'reference' must have every target. It lacks {missing or targets}.")
    elif len(targets) > 1:
        raise ValueError(
            f"'reference' must be a dict with a reference for each of the targets {targets}, or "
            "one of them must be chosen by 'target'. Got one reference."
        )
    return {name: _read_one(by_target[name] if nested else reference, measure) for name in targets}


def _read_one(reference, measure):
    if hasattr(reference, "measures") and hasattr(reference, "rows"):  # a ReferenceRanking
        measure = reference.measures[0] if measure is None else measure
        if measure not in reference.measures:
            raise ValueError(
                f"'measure' must be one of {list(reference.measures)}. Got {measure!r} instead."
            )
        values = {}
        for row in reference.rows:
            if row.measure == measure and not row.from_scratch:
                values.setdefault(row.candidate, []).append(row.value)
        return values
    if not is_dict(reference):
        raise TypeError(
            "'reference' must be a dict or Series of performance by candidate, or a "
            f"ReferenceRanking. Got {type(reference).__name__} instead."
        )
    return {
        str(name): _numbers(value if np.ndim(value) else [value], name)
        for name, value in reference.items()
    }


def _numbers(values, name):
    try:
        read = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        read = None
    if read is None or read.ndim != 1:
        raise ValueError(
            "'reference' must have a number, or several, for each candidate. "
            f"Got {values!r} for {name!r}."
        )
    return read.tolist()


def mean_or(values, default):
    """Give the mean of the numbers there are.

    Parameters
    ----------
    values : list of float or None
        With NaN for those that are not there.
    default : float
        What to give if there are none.

    Returns
    -------
    mean : float
        The mean, or the default.
    """
    known = [value for value in values or () if np.isfinite(value)]
    return float(np.mean(known)) if known else default
