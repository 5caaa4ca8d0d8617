"""The result of a reference ranking: a row for each candidate, measure and seed, and summaries."""

import math
from typing import NamedTuple

from sktransfer.finetune._reference_ties import negative_transfer, rank_rows

__all__ = ["ReferenceRanking", "ReferenceRow"]


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
        Greater is better.
    seconds : float
        Duration of training and prediction.
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


class ReferenceRanking:
    """Test performance of fine-tuned candidates, by measure and seed.

    Made by :func:`reference_ranking`.

    Parameters
    ----------
    rows : list of ReferenceRow
        The results.
    protocol : dict
        How they came about.
    twins : dict of str to str
        For each candidate, the row of its architecture from scratch.
    failures : list of dict
        With ``candidate``, ``seed``, ``measure`` and ``reason``.
    warnings : list of dict
        With ``candidate``, ``seed``, ``kind`` and ``message``.
    """

    def __init__(self, rows, protocol, twins=None, failures=(), warnings=()):
        self.rows = [ReferenceRow(*row) for row in rows]
        self.protocol = protocol
        self.twins = dict(twins or {})
        self.failures = list(failures)
        self.warnings = list(warnings)

    @property
    def candidates(self):
        """Names of the candidates, without rows from scratch."""
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
            A measure; None is the first.
        seed : int, default=None
            Which seed, counted from 0; None is the mean of all.

        Returns
        -------
        reference : dict of str to float
            By candidate, without rows from scratch. NaN for a candidate that has failed.

        Raises
        ------
        ValueError
            If there is no such measure or seed.
        """
        values = self._values(measure, from_scratch=False)
        if seed is not None:
            if not any(row.seed == seed for row in self.rows):
                raise ValueError(f"'seed' must be from 0 to {self.n_seeds - 1}. Got {seed!r}.")
            return {name: by_seed[seed] for name, by_seed in values.items()}
        return {
            name: math.fsum(by_seed.values()) / len(by_seed) for name, by_seed in values.items()
        }

    def _measure(self, measure):
        if measure is None:
            return self.measures[0]
        if measure not in self.measures:
            raise ValueError(f"'measure' must be one of {list(self.measures)}. Got {measure!r}.")
        return measure

    def _values(self, measure, from_scratch=None):
        measure = self._measure(measure)
        values = {}
        for row in self.rows:
            if row.measure == measure and from_scratch in (None, row.from_scratch):
                values.setdefault(row.candidate, {})[row.seed] = row.value
        return values

    def ranking(self, measure=None):
        """Rank all rows."""
        return rank_rows(self, self._measure(measure))

    def negative_transfer(self, measure=None):
        """Find candidates that are no better than their architecture from scratch."""
        return negative_transfer(self, self._measure(measure))

    def to_frame(self):
        """Give all rows as a data frame.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns of :class:`ReferenceRow`.
        """
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(ReferenceRow._fields))
