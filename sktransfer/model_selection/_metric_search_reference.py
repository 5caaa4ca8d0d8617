"""The reference that metrics are to agree with, paired with the candidates by name."""

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..evaluation._correlation import NAN_POLICIES, check_option
from ..evaluation._pairing import Scores, listed, pair_scores, read_scores
from ._metric_search_agreement import CHOICES, SCORINGS, Agreement

__all__ = ["Reference", "check_choice_sizes", "check_scoring", "deciding_scoring"]


@dataclass(frozen=True)
class Reference:
    """A number for each candidate.

    Attributes
    ----------
    names : tuple of str
        The candidates in an order of their own, the worst first and equal ones by name, so that
        nothing depends on the order in which they were given.
    values : ndarray of shape (n_candidates,)
        Measured performance.
    greater_is_better : bool
        Whether a larger value is better.
    left_out : tuple
        Candidates without a number, and numbers without a candidate.
    """

    names: tuple
    values: np.ndarray
    greater_is_better: bool = True
    left_out: tuple = ()

    @classmethod
    def read(cls, reference, candidates, *, dropped, names, nan_policy, greater_is_better):
        """Pair a reference with the candidates, before any of them is run.

        Parameters
        ----------
        reference : mapping, series, structured array or frame
            Numbers by name.
        candidates : list of str
            Names of the candidates.
        dropped : list of str
            Names of those that were left out by "drop".
        names : {"same", "common"}
            Whether a name on one side only is an error.
        nan_policy : {"propagate", "omit"}
            Whether a candidate without a finite number is an error.
        greater_is_better : bool
            Whether a larger number is better.

        Returns
        -------
        reference : Reference
            With at least two candidates that differ.

        Raises
        ------
        ValueError
            If there is no such reference.
        """
        check_option("names", names, ("same", "common"))
        check_option("nan_policy", nan_policy, NAN_POLICIES[:2])
        read = read_scores(reference, "reference")
        if read.names is None:
            raise ValueError(
                "'reference' must name the candidates, as a mapping, a pandas series or a "
                f"structured array does. Got {type(reference).__name__} without names instead."
            )
        kept = np.array([n not in dropped for n in read.names], dtype=bool)
        read = Scores(
            read.values[kept],
            (read.missing | ~np.isfinite(read.values))[kept],
            tuple(name for name in read.names if name not in dropped),
        )
        nothing = np.zeros(len(candidates))
        given = Scores(nothing, nothing.astype(bool), tuple(candidates))
        pair = pair_scores(given, read, names, ("candidates", "reference"))
        if pair.missing.any() and nan_policy == "propagate":
            without = [n for n, missing in zip(pair.names, pair.missing, strict=True) if missing]
            raise ValueError(
                f"'reference' has no finite number for {listed(without)}, so that no agreement "
                "would be defined. With nan_policy='omit' such candidates are left out."
            )
        pair = pair.select(~pair.missing)
        found = cls(pair.names, pair.y, greater_is_better, pair.left_out)
        found.require_two()
        keys = list(zip(found.signed.tolist(), found.names, strict=True))
        return found.select(sorted(range(len(keys)), key=keys.__getitem__))

    def require_two(self, not_run=""):
        """Refuse a reference that nothing can agree with.

        Parameters
        ----------
        not_run : str, default=""
            A sentence on candidates that could not be run, after a space.
        """
        if len(self.names) < 2:
            raise ValueError(
                "An agreement needs at least 2 candidates with a finite number in 'reference'. "
                f"Got {len(self.names)}.{not_run}"
            )
        if not (self.values != self.values[0]).any():
            raise ValueError(
                "'reference' must tell candidates apart. "
                f"Got {self.values[0]} for all {len(self.names)} of them.{not_run}"
            )

    def select(self, places):
        """Take some of the candidates.

        Parameters
        ----------
        places : sequence of int
            Which, in the order to take them.

        Returns
        -------
        reference : Reference
            Without the others, which are added to `left_out`.
        """
        names = tuple(self.names[place] for place in places)
        dropped = tuple(sorted(set(self.names) - set(names)))
        return replace(
            self,
            names=names,
            values=self.values[np.asarray(places, dtype=int)],
            left_out=self.left_out + dropped,
        )

    def without(self, names, not_run):
        """Leave candidates out that could not be run.

        Parameters
        ----------
        names : collection of str
            Which.
        not_run : str
            A sentence on them, after a space, for the message if too little is left.

        Returns
        -------
        reference : Reference
            Without them.
        """
        found = self.select([i for i, name in enumerate(self.names) if name not in names])
        found.require_two(not_run)
        return found

    @property
    def signed(self):
        """The values, higher is better."""
        values = self.values.astype(float)
        return values if self.greater_is_better else -values

    def require_defined(self, scoring, k):
        """Refuse a reference by which even perfect scores have no defined agreement.

        Parameters
        ----------
        scoring : str
            The measure.
        k : int
            How many candidates are chosen.
        """
        (reason,) = self._of_perfect_scores(scoring, k).reasons
        if reason is not None:
            raise ValueError(f"No scores can agree with 'reference' by {scoring!r}: {reason}.")

    def _of_perfect_scores(self, scoring, k):
        return Agreement(
            scoring, self.signed[None, None], self, k, "propagate", np.ones(1, dtype=bool)
        )

    def chance(self, scoring, k):
        """Compute what scores at random give on average.

        Parameters
        ----------
        scoring : str
            The measure.
        k : int
            How many candidates are chosen.

        Returns
        -------
        chance : float
            0 for a correlation; NaN if there are fewer than `k` candidates.
        """
        if scoring not in CHOICES:
            return 0.0
        if k > len(self.names):
            return np.nan
        values = dict(zip(self.names, self.values.tolist(), strict=True))
        perfect = dict(zip(self.names, self.signed.tolist(), strict=True))
        return CHOICES[scoring](perfect, values, k, greater_is_better=self.greater_is_better).chance


def check_scoring(scoring):
    """Check the names of the measures of agreement.

    Parameters
    ----------
    scoring : str or sequence of str
        One or several of `SCORINGS`.

    Returns
    -------
    scorings : list of str
        The names.
    """
    names = [scoring] if isinstance(scoring, str) else list(scoring)
    unknown = [name for name in names if name not in SCORINGS]
    twice = len(set(map(str, names))) < len(names)
    if unknown or twice or not names:
        raise ValueError(
            f"'scoring' must be one or several of {list(SCORINGS)}, each once. "
            f"Got {scoring!r} instead."
        )
    return names


def deciding_scoring(refit, scorings):
    """Give the measure that decides which setting is the best.

    Parameters
    ----------
    refit : str or None
        A name; if None it is "weighted_kendall", or the first if that is not among them.
    scorings : list of str
        The measures.

    Returns
    -------
    name : str
        One of them.
    """
    if refit is None:
        return "weighted_kendall" if "weighted_kendall" in scorings else scorings[0]
    if refit not in scorings:
        raise ValueError(f"'refit' must be one of 'scoring', {scorings!r}. Got {refit!r} instead.")
    return refit


def check_choice_sizes(k, n_candidates, scorings):
    """Check how many candidates are chosen.

    Parameters
    ----------
    k : int or dict of str to int
        For all measures of a choice, or for each.
    n_candidates : int
        How many there are.
    scorings : list of str
        The measures.

    Returns
    -------
    sizes : dict of str to int
        For each measure; 1 for those that a dict does not name.
    """
    sizes = dict(k) if isinstance(k, Mapping) else dict.fromkeys(CHOICES, k)
    unknown = [name for name in sizes if name not in CHOICES]
    if unknown:
        raise ValueError(f"'k' may have a number for each of {list(CHOICES)}. Got {k!r} instead.")
    sizes = {**dict.fromkeys(SCORINGS, 1), **sizes}
    for name in CHOICES:
        size = sizes[name]
        whole = isinstance(size, numbers.Integral) and not isinstance(size, bool)
        if not whole or size < 1 or (name in scorings and size > n_candidates):
            raise ValueError(
                "'k' must be a whole number between 1 and the number of candidates, "
                f"{n_candidates}. Got {k!r} instead."
            )
    return {name: int(size) for name, size in sizes.items()}
