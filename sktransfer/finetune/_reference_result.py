"""The result of a reference ranking: a row for each candidate, measure and seed, and summaries."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sktransfer.finetune._reference_files import read_result, write_result
from sktransfer.finetune._reference_tables import (
    frame_of,
    negative_transfer_table,
    ranking_table,
)

__all__ = ["ReferenceRanking", "ReferenceRow"]

_KINDS = {
    "candidate": str,
    "from_scratch": bool,
    "measure": str,
    "seed": int,
    "value": float,
    "seconds": float,
    "n_epochs": int,
    "energy": float,
}


_KINDS_IN_WORDS = {str: "a text", bool: "True or False", int: "a whole number", float: "a number"}
_WIDER = {bool: (bool, np.bool_), int: Integral, float: Real}


class ReferenceRow(NamedTuple):
    """What one network has reached by one measure under one seed.

    Parameters
    ----------
    candidate : str
        Its name.
    from_scratch : bool
        Whether its weights were random.
    measure : str
        The measure.
    seed : int
        Which seed, counted from 0.
    value : float
        Greater is better; NaN (or ``error_score``) for a failure.
    seconds : float
        Duration of training and prediction; NaN for what was never begun.
    n_epochs : int or None
        Epochs trained.
    energy : float or None
        Energy in kWh; None if it was not measured.
    """

    candidate: str
    from_scratch: bool
    measure: str
    seed: int
    value: float
    seconds: float
    n_epochs: int | None
    energy: float | None


def _checked_row(row):
    """Give a row, or say what is missing or of another kind."""
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(_KINDS):
        raise ValueError(
            f"'rows' must hold a ReferenceRow, or the {len(_KINDS)} values ({', '.join(_KINDS)}), "
            f"for each candidate, measure and seed. Got {row!r}."
        )
    row = ReferenceRow(*row)
    for name, kind in _KINDS.items():
        value = getattr(row, name)
        is_right = isinstance(value, _WIDER.get(kind, kind)) and (
            kind is bool or not isinstance(value, bool | np.bool_)
        )
        if not is_right and not (value is None and name in ("n_epochs", "energy")):
            raise TypeError(f"'rows' must have {_KINDS_IN_WORDS[kind]} as {name!r}. Got {value!r}.")
    return row


class ReferenceRanking:
    """Test performance of fine-tuned candidates, by measure and seed.

    It is made by :func:`reference_ranking`, and read from files by :meth:`load`.

    Read more in the :ref:`User Guide <references>`.

    Parameters
    ----------
    rows : sequence of ReferenceRow
        For each candidate, and for each architecture from scratch, a row for every measure and
        seed. Tuples with the same fields will do.
    protocol : dict
        How they came about: ``estimator`` and its ``parameters`` (``from_scratch_parameters`` for
        rows from scratch), ``search`` (None without one), ``random_state`` and the ``seeds`` drawn
        from it, ``measures``, ``device``, ``n_threads``, digests and sizes of the ``data``,
        ``versions`` of libraries, ``subjects`` (what each row is, with the digest of its pretrained
        weights) and what measured ``energy``.
    twins : dict of str to str, default=None
        For each candidate that has one, the name of the row of its architecture from scratch.
    failures : sequence of dict, default=()
        With ``candidate``, ``seed``, ``measure`` and ``reason``. The values of these rows have not
        been measured, and are used for means alone.
    warnings : sequence of dict, default=()
        What was warned of in training, with ``candidate``, ``seed``, ``kind`` and ``message``.
    best_params : sequence of dict, default=()
        What searches have found, with ``candidate``, ``seed``, ``measure`` and ``params``. A choice
        that JSON does not keep as it is, such as a callback, is there by its place in the list of
        ``param_distributions``, as ``{"choice": 0}``.

    Raises
    ------
    TypeError
        If a value in a row is of another kind, the protocol is no dict, or a failure does not say
        which row it is about.
    ValueError
        If rows lack values, or there is not one for each candidate, measure and seed; if ``twins``
        names what has no rows.

    See Also
    --------
    sktransfer.evaluation.rank_correlation : Agreement of scores with such a reference.

    Examples
    --------
    >>> from sktransfer.finetune import ReferenceRanking
    >>> values = {"a": (0.90, 0.92), "b": (0.91, 0.90), "c": (0.70, 0.73)}
    >>> rows = [
    ...     (name, False, "accuracy", seed, value, 1.0, 20, None)
    ...     for name, pair in values.items()
    ...     for seed, value in enumerate(pair)
    ... ]
    >>> ranking = ReferenceRanking(rows, protocol={})
    >>> ranking.ranking("accuracy")
    accuracy, 2 seeds: candidates that differ by 0.049 or less are tied
    candidate  rank    mean      sd  tied  group  gain  beyond spread
    a             1  0.9100  0.0141   yes      1     -              ?
    b             2  0.9050  0.0071   yes      1     -              ?
    c             3  0.7150  0.0212    no      2     -              ?
    """

    def __init__(self, rows, protocol, twins=None, failures=(), warnings=(), best_params=()):
        self.rows = tuple(map(_checked_row, rows))
        if not isinstance(protocol, Mapping):
            raise TypeError(f"'protocol' must be a dict. Got {protocol!r} instead.")
        self.protocol = dict(protocol)
        self.twins = dict(twins or {})
        self.failures = list(failures)
        for failure in self.failures:
            if not isinstance(failure, Mapping) or not failure.keys() >= _FAILURE:
                raise TypeError(
                    "'failures' must hold dicts with 'candidate', 'measure' and 'seed'. "
                    f"Got {failure!r}."
                )
        self.warnings = list(warnings)
        self.best_params = list(best_params)
        self._check_complete()

    @property
    def candidates(self):
        """Names of the candidates, in the order given, without rows from scratch."""
        return tuple(dict.fromkeys(r.candidate for r in self.rows if not r.from_scratch))

    @property
    def measures(self):
        """Names of the measures."""
        return tuple(dict.fromkeys(row.measure for row in self.rows))

    @property
    def n_seeds(self):
        """Number of seeds."""
        return len({row.seed for row in self.rows})

    def reference(self, measure=None, seed=None):
        """Give one number per candidate, as :func:`~sktransfer.evaluation.rank_correlation` wants.

        Parameters
        ----------
        measure : str, default=None
            One of ``measures``; None is the first.
        seed : int, default=None
            Which seed, counted from 0; None is the mean over all.

        Returns
        -------
        reference : dict of str to float
            By candidate, without rows from scratch; greater is better. NaN (or ``error_score``) for
            a candidate that has failed; the mean is NaN if it has failed once.

        Raises
        ------
        ValueError
            If there is no such measure or seed.
        """
        values = self._values(measure)
        n_seeds = self.n_seeds
        if seed is None:
            means = {name: math.fsum(v.values()) / n_seeds for name, v in values.items()}
            return {name: means[name] for name in self.candidates}
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < n_seeds:
            raise ValueError(
                f"'seed' must be a number from 0 to {n_seeds - 1}, or None. Got {seed!r} instead."
            )
        return {name: values[name][seed] for name in self.candidates}

    def ranking(self, measure=None, *, level=0.95):
        r"""Rank the candidates, and say which cannot be told apart by this number of seeds.

        Two candidates are tied if their means differ by no more than
        :math:`t \cdot s \sqrt{2 / n}`, where :math:`n` is the number of seeds, :math:`s^2` the
        seed variance, pooled over all candidates, and :math:`t` the quantile of Student's
        distribution with as many degrees of freedom as :math:`s^2` has. Test data and training data
        are the same for all seeds, so this is about seeds alone: another test set may rank them
        otherwise.

        Parameters
        ----------
        measure : str, default=None
            One of ``measures``; None is the first.
        level : float, default=0.95
            Level of confidence.

        Returns
        -------
        table : sequence of RankingRow
            Best first, with the fields ``candidate``, ``rank`` (1, 2, 2, 4 by the mean), ``mean``
            and ``sd`` over seeds, ``tied_with_best``, ``tie_group`` (1 for the best and who is tied
            with it, 2 for the best of the others and who of these is tied with it, and so on),
            ``gain`` over the same architecture from scratch, ``gain_beyond_spread`` and
            ``from_scratch``. Rows from scratch have no rank. What one seed does not tell is None.
            A row that has failed with some seed has its mean, which may be ``error_score`` in part,
            and a rank by it; it takes no part in spread, ties and gains. A name picks a row:
            ``table["letters"]``. The table has a method ``to_frame`` and the attribute
            ``least_difference``.

        Raises
        ------
        ValueError
            If there is no such measure, or the level is not between 0 and 1.
        """
        return ranking_table(*self._for_table(measure, level))

    def negative_transfer(self, measure=None, *, level=0.95):
        """Find candidates that are no better than their own architecture trained from scratch.

        Parameters
        ----------
        measure : str, default=None
            One of ``measures``; None is the first.
        level : float, default=0.95
            Level of confidence.

        Returns
        -------
        table : sequence of NegativeTransferRow
            Worst first, with the fields ``candidate``, ``from_scratch`` (the name of the row that
            it is compared with), ``difference`` (zero or less) and ``beyond_spread``: whether it
            is more than a tie, with the seed variances of candidates and of rows from scratch and
            the degrees of freedom of Welch and Satterthwaite; None for one seed.

        Raises
        ------
        ValueError
            As for :meth:`ranking`.
        """
        return negative_transfer_table(*self._for_table(measure, level))

    def to_frame(self):
        """Give all rows as a data frame.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns ``candidate``, ``from_scratch``, ``measure``, ``seed``, ``value``,
            ``seconds``, ``n_epochs`` and ``energy`` (in kWh).

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        frame = frame_of(ReferenceRow, self.rows)
        return frame.astype({"n_epochs": "Int64", "energy": float})

    def save(self, folder, *, format="auto"):
        """Write two plain files: ``values.parquet`` or ``values.csv``, and ``reference.json``.

        Parameters
        ----------
        folder : str or path
            Where to; it is made if it is not there, and a ranking that it holds is replaced.
        format : {"auto", "csv", "parquet"}, default="auto"
            Of the table; "auto" is parquet if pyarrow is installed.

        Raises
        ------
        TypeError
            If `folder` is neither a text nor a path.
        ImportError
            If parquet is asked for and pyarrow is not installed.
        ValueError
            If there is no such format, or the folder cannot be written to.
        """
        about = {name: getattr(self, name) for name in _ABOUT}
        write_result(folder, self.rows, about, _KINDS, format)

    @classmethod
    def load(cls, folder):
        """Read what :meth:`save` has written. Nothing is unpickled.

        Parameters
        ----------
        folder : str or path
            Where from.

        Returns
        -------
        ranking : ReferenceRanking
            Equal to what was saved, to the last bit.

        Raises
        ------
        TypeError
            If `folder` is neither a text nor a path.
        ImportError
            If the table is parquet and pyarrow is not installed.
        ValueError
            If there is none, or it is not what was written.
        """
        rows, about = read_result(folder, _KINDS)
        return cls(rows, **{name: about[name] for name in _ABOUT})

    def __repr__(self):
        parts = [
            f"{len(self.candidates)} candidates",
            f"{len(set(self.twins.values()))} from scratch",
        ]
        failed = len({failure["candidate"] for failure in self.failures})
        if failed:
            parts.append(f"{failed} failed")
        parts += [f"n_seeds={self.n_seeds}", f"measures={list(self.measures)}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _check_complete(self):
        """Refuse rows of which not every candidate has one for each measure and seed."""
        keys = [(row.candidate, row.measure, row.seed) for row in self.rows]
        names, measures, seeds = (len({key[place] for key in keys}) for place in range(3))
        numbers = {row.seed for row in self.rows}
        if numbers != set(range(len(numbers))):
            raise ValueError(
                f"'rows' must have seeds that are counted from 0. Got {sorted(numbers)} instead."
            )
        strangers = {name for pair in self.twins.items() for name in pair}
        strangers -= {row.candidate for row in self.rows}
        if strangers:
            raise ValueError(f"'twins' names {sorted(strangers)}, for which there are no 'rows'.")
        if not keys or len(set(keys)) < len(keys) or len(keys) < names * measures * seeds:
            raise ValueError(
                "'rows' must hold one row for each candidate, measure and seed. "
                f"Got {len(keys)} rows, {len(set(keys))} of them different, of {names} candidates, "
                f"{measures} measures and {seeds} seeds."
            )

    def _measure(self, measure):
        if measure is None:
            return self.measures[0]
        if measure not in self.measures:
            raise ValueError(
                f"'measure' must be one of {list(self.measures)}. Got {measure!r} instead."
            )
        return measure

    def _values(self, measure):
        measure = self._measure(measure)
        values = {}
        for row in self.rows:
            if row.measure == measure:
                values.setdefault(row.candidate, {})[row.seed] = row.value
        return values

    def _for_table(self, measure, level):
        if isinstance(level, bool) or not (isinstance(level, float | int) and 0 < level < 1):
            raise ValueError(f"'level' must be a number between 0 and 1. Got {level!r} instead.")
        from_scratch = {row.candidate: row.from_scratch for row in self.rows}
        values, measure = self._values(measure), self._measure(measure)
        failed = {f["candidate"] for f in self.failures if f["measure"] == measure}
        return values, failed, from_scratch, self.twins, measure, level


_FAILURE = {"candidate", "measure", "seed"}
_ABOUT = ("protocol", "twins", "failures", "warnings", "best_params")
