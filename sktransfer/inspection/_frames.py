"""Reading the tables of a study: columns of any kind of frame, what to show of them, reasons."""

import math
import numbers
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

__all__ = [
    "choose",
    "choose_fractions",
    "column_names",
    "common_reasons",
    "is_dict",
    "percent",
    "read_columns",
    "read_numbers",
    "read_study",
    "shorten_reason",
    "written",
]

_LONGEST_REASON = 90
_ABSENT = r"(?:no score|no reference value)"
_WHERE = r"(?:repeat [^\s,]+|scores_[ab], repeat [^\s,]+)"


def read_study(study, method):
    """Give the method of a study that makes the table to draw.

    Parameters
    ----------
    study : RobustnessStudy
        The study.
    method : str
        Name of the method.

    Returns
    -------
    method : callable
        Bound to the study.
    """
    found = getattr(study, method, None)
    if not callable(found):
        raise TypeError(f"'study' must be a RobustnessStudy. Got {type(study).__name__} instead.")
    return found


def column_names(frame):
    """List the columns of a frame.

    Parameters
    ----------
    frame : data frame or mapping of str to sequence
        The frame.

    Returns
    -------
    names : list
        Names of the columns.
    """
    if isinstance(frame, Mapping):
        return list(frame)
    if not hasattr(frame, "columns"):
        raise TypeError(
            f"'frame' must be a data frame or a mapping of columns. Got {type(frame).__name__} "
            "instead."
        )
    return list(frame.columns)


def is_dict(value):
    """Tell whether a value has names for what it holds.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    named : bool
        True for mappings, and for series and frames of pandas.
    """
    return isinstance(value, Mapping) or (hasattr(value, "items") and hasattr(value, "index"))


def read_columns(frame, needed, optional=(), *, source):
    """Read columns as lists; names of targets, metrics and candidates become strings.

    Parameters
    ----------
    frame : data frame or mapping of str to sequence
        The frame: of pandas, polars or anything else with ``columns`` and items.
    needed, optional : sequence of str
        The columns to read.
    source : str
        What gives such frames, for messages.

    Returns
    -------
    columns : dict of str to list
        All needed columns, and the optional ones that are there.
    """
    names = column_names(frame)
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(
            f"'frame' must have the columns {list(needed)}, as {source} gives them. "
            f"It lacks {missing}."
        )
    columns = {name: _as_list(frame[name]) for name in [*needed, *optional] if name in names}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(
            f"The columns of 'frame' must be of one length. Got lengths {sorted(lengths)}."
        )
    if lengths == {0}:
        raise ValueError("'frame' must have at least one row. Got an empty frame.")
    for name in ("target", "metric", "metric_a", "metric_b", "candidate", "measure", "repeat"):
        if name in columns:
            columns[name] = [str(value) for value in columns[name]]
    columns["fraction"] = _read_fractions(columns["fraction"])
    return columns


def _as_list(column):
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def read_numbers(values, column, low=-math.inf, high=math.inf, argument="frame"):
    """Read numbers, with NaN for what is missing.

    Parameters
    ----------
    values : list
        Numbers, None, NaN or pandas' NA.
    column : str
        What they are called in messages.
    low, high : float
        Their limits.
    argument : str, default="frame"
        What has this column.

    Returns
    -------
    values : ndarray of float64
        The numbers.
    """
    read = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        # pandas' NA is no number, and says neither yes nor no to a comparison.
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            continue
        allowed = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
        if not allowed or value < low or value > high:
            limits = "" if math.isinf(low) else f" from {low:g} to {high:g}"
            limits = f" of at least {low:g}" if limits and math.isinf(high) else limits
            raise ValueError(
                f"Column '{column}' of '{argument}' must hold numbers{limits}, or NaN where there "
                f"is none. Got {value!r} in row {row}."
            )
        read[row] = value
    return read


def _read_fractions(values):
    read = read_numbers(values, "fraction")
    wrong = ~((read > 0) & (read <= 1))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            "Column 'fraction' of 'frame' must hold numbers above 0 and up to 1. "
            f"Got {values[row]!r} in row {row}."
        )
    # What was computed as 1 - 0.9 in one place and written as 0.1 in another is one fraction.
    return [float(f"{value:.9g}") for value in read]


def choose(found, wanted, parameter):
    """Choose names among those of a frame.

    Parameters
    ----------
    found : iterable of str
        Names in the frame, in any number.
    wanted : str, sequence of str or None
        The user's choice and its order; None for all in order of appearance.
    parameter : str
        What the choice is called in messages.

    Returns
    -------
    chosen : list of str
        Each once.
    """
    found = list(dict.fromkeys(found))
    if wanted is None:
        return found
    single = isinstance(wanted, str) or not hasattr(wanted, "__iter__")
    chosen = [str(name) for name in ([wanted] if single else wanted)]
    unknown = [name for name in chosen if name not in found]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"'{parameter}' must be among {found}, each at most once. Got {wanted!r} instead."
        )
    return chosen


def choose_fractions(found, wanted, default):
    """Choose fractions among those of a frame.

    Parameters
    ----------
    found : iterable of float
        Fractions in the frame, in any number.
    wanted : float, sequence of float or None
        The user's choice.
    default : callable
        Which of the ascending fractions to take where the user has no choice.

    Returns
    -------
    chosen : list of float
        Each once.
    """
    found = sorted(set(found))
    if wanted is None:
        return [default(found)]
    asked = wanted if hasattr(wanted, "__iter__") and not isinstance(wanted, str) else [wanted]
    asked = list(asked)
    chosen = [
        known
        for value in asked
        for known in found
        if isinstance(value, numbers.Real) and math.isclose(known, value, rel_tol=1e-6)
    ]
    if len(chosen) < len(asked) or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"'fraction' must be among {found}, each at most once. Got {wanted!r} instead."
        )
    return chosen


def percent(fraction):
    """Write a fraction in percent.

    Parameters
    ----------
    fraction : float
        The fraction.

    Returns
    -------
    text : str
        Such as "12.5 %".
    """
    return f"{100 * fraction:g} %"


def written(value, values_format=".2f"):
    """Write a number with a real minus sign, and without one for what rounds to zero.

    Parameters
    ----------
    value : float
        The number.
    values_format : str, default=".2f"
        How to write it.

    Returns
    -------
    text : str
        The number.
    """
    text = format(value, values_format).replace("-", "−")
    return text if text.strip("−0.") else text.lstrip("−")


# -- reasons ---------------------------------------------------------------------------------------


def shorten_reason(reason):
    """Reduce a reason to its kind, without the candidates and repeats that it names.

    Parameters
    ----------
    reason : str or None
        As in the column "reason" of a study's table.

    Returns
    -------
    kind : str
        What can be counted.
    """
    # None, and the NaN and NA that frames make of it.
    if not isinstance(reason, str) or not reason.strip():
        return "no reason given"
    text = re.sub(r"^\d+ of \d+ correlations undefined: ", "", " ".join(reason.split()))
    text = re.sub(r", and more(?=$| \()", "", text)
    # A study says in the end why the first of the missing scores is not there.
    where = rf"for .*? in {_WHERE}(?:; .*? in {_WHERE})?"
    found = re.match(rf"(?P<kind>.*?)\b{_ABSENT} {where}(?: \((?P<why>.*)\))?$", text)
    if found and found["why"]:
        text = found["kind"] + found["why"]
    text = re.sub(rf"\b({_ABSENT}) for .*$", r"\1", text)
    text = re.sub(r" in (repeat \S+|scores_[ab]|the reference|the scores)\b.*$", "", text)
    text = re.sub(r" \([^()]*\)$", "", text)
    if len(text) > _LONGEST_REASON:
        text = text[: _LONGEST_REASON - 1].rstrip() + "…"
    return text


def common_reasons(kinds, most):
    """Count reasons; the rarest share the last place where there are too many.

    Parameters
    ----------
    kinds : iterable of str
        Reasons, see :func:`shorten_reason`.
    most : int
        How many to tell apart.

    Returns
    -------
    counts : list of tuple of (set of str, str, int)
        The reasons, what they are called together, and how often they occur; the most frequent
        first.
    """
    ordered = sorted(Counter(kinds).items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) <= most:
        return [({kind}, kind, count) for kind, count in ordered]
    told, others = ordered[: most - 1], ordered[most - 1 :]
    rest = ({kind for kind, _ in others}, f"{len(others)} other reasons")
    return [
        *(({kind}, kind, count) for kind, count in told),
        (*rest, sum(count for _, count in others)),
    ]
