"""How well the scores of many settings agree with one reference, and which can be told apart."""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from ..evaluation import competition_ranks, relative_top_k, selection_regret, top_k_recall
from ..evaluation._coefficients import METHODS, coefficient, coefficient_of_permutations
from ..evaluation._correlation import correlate
from ..evaluation._pairing import Pair
from ..evaluation._resampling import (
    FEWEST_CANDIDATES,
    bootstrap_counts,
    limits,
    orders,
    share_as_good,
)
from ..evaluation._top import choice_of_permutations
from ._results import joined

__all__ = ["CHOICES", "SCORINGS", "Agreement", "resampled"]

CHOICES = {
    "top_k": top_k_recall,
    "regret": selection_regret,
    "relative_top_k": relative_top_k,
}
SCORINGS = (*METHODS, *CHOICES)


@dataclass
class Agreement:
    """Agreement of every setting with the reference in every split, by one measure.

    Parameters
    ----------
    scoring : str
        The measure, one of `SCORINGS`.
    scores : ndarray of shape (n_settings, n_splits, n_candidates)
        The scores; NaN where there is none.
    reference : Reference
        The reference, its candidates in the same order.
    k : int
        How many candidates are chosen, for measures of a choice.
    nan_policy : {"propagate", "omit"}
        What an undefined number does to a mean, and a missing score to a coefficient.
    usable : ndarray of bool of shape (n_splits,)
        The splits that count.

    Attributes
    ----------
    values : ndarray of shape (n_settings, n_splits)
        The agreement, NaN where undefined.
    reasons : list of str or None
        For each setting, why some of its splits are undefined; None if none is.
    mean : ndarray of shape (n_settings,)
        Mean over splits.
    std : ndarray of shape (n_settings,)
        Spread over splits; NaN for one split.
    rank : ndarray of int of shape (n_settings,)
        Competition ranks of the means, 1 for the best; NaN last.
    """

    scoring: str
    scores: np.ndarray
    reference: object
    k: int
    nan_policy: str
    usable: np.ndarray
    values: np.ndarray = field(init=False)
    reasons: list = field(init=False)
    mean: np.ndarray = field(init=False)
    std: np.ndarray = field(init=False)
    rank: np.ndarray = field(init=False)

    def __post_init__(self):
        self.values = np.full(self.scores.shape[:2], np.nan)
        self._sides, self.reasons = {}, []
        for setting, in_splits in enumerate(self.scores):
            undefined = {}
            for split in np.flatnonzero(self.usable):
                value, reason, known, sides = self._measure(in_splits[split])
                self.values[setting, split] = value
                if reason is None:
                    self._sides[setting, split] = (known, sides)
                else:
                    undefined.setdefault(reason, []).append(str(split))
            self.reasons.append(self._reason(undefined))
        means = [self._mean(values[self.usable]) for values in self.values]
        self.mean = np.array([mean for mean, _ in means])
        self.std = np.array([std for _, std in means])
        self.rank = competition_ranks(self._signed(self.mean))

    @property
    def is_loss(self):
        """Whether less is better."""
        return self.scoring == "regret"

    def _signed(self, values):
        # 0 - x, because the negative of 0 is printed as -0.
        return 0.0 - values if self.is_loss else values

    def _measure(self, scores):
        """Give the number, or NaN with the reason, and what it was computed from."""
        reference, missing = self.reference, np.isnan(scores)
        if self.scoring in METHODS:
            no = np.zeros_like(missing)
            pair = Pair(scores, reference.values, missing, no, reference.names)
            flips = (None, None if reference.greater_is_better else "loss")
            _, value, reason, sides = correlate(pair, self.scoring, flips, self.nan_policy)
            return value, reason, ~missing, sides
        if self.k > len(scores):
            return np.nan, f"only {len(scores)} candidates, fewer than k={self.k}", None, None
        value = CHOICES[self.scoring](
            dict(zip(reference.names, scores, strict=True)),
            dict(zip(reference.names, reference.values, strict=True)),
            self.k,
            greater_is_better=reference.greater_is_better,
        )
        return float(value), value.reason, ~missing, (scores, reference.signed)

    def _reason(self, undefined):
        if not undefined:
            return None
        if self.scores.shape[1] == 1:
            return next(iter(undefined))
        return "; ".join(
            f"split{'s' * (len(splits) > 1)} {joined(splits)}: {reason}"
            for reason, splits in undefined.items()
        )

    def _mean(self, values):
        """Mean and spread over splits, the same to the last digit in whatever order they come."""
        if self.nan_policy == "omit":
            values = values[~np.isnan(values)]
        if not len(values) or np.isnan(values).any():
            return np.nan, np.nan
        mean = math.fsum(values) / len(values)
        return mean, float(np.std(values)) if len(values) > 1 else np.nan

    # -- uncertainty -------------------------------------------------------------------------------

    def resample(self, n_resamples, level, rng):
        """Find limits of each mean, and the settings that may be as good as the best.

        Parameters
        ----------
        n_resamples : int
            How often the candidates are resampled; the same resamples for all settings.
        level : float
            Of the limits, and of the set.
        rng : numpy.random.Generator
            To draw from.

        Returns
        -------
        lower, upper : ndarray of shape (n_settings,)
            The limits, NaN where the mean is.
        tied : ndarray of bool of shape (n_settings,)
            Whether a setting may be the best.
        """
        n = len(self.reference.names)
        counts = bootstrap_counts(n, n_resamples, rng)
        lower, upper = np.full((2, len(self.mean)), np.nan)
        low, high = np.full((2, len(self.mean), n_resamples), np.nan)
        defined = np.flatnonzero(~np.isnan(self.mean))
        known_ones = {}
        for setting in defined:
            resampled = np.array(
                [
                    _once(known_ones, sides, known, counts, self._resampled)
                    for known, sides in self._sides_of(setting)
                ]
            )
            lower[setting], upper[setting] = limits(
                self.mean[setting], resampled, n, level, self.scoring
            )
            undefined = np.isnan(resampled)
            low[setting] = np.where(undefined, -1, resampled).mean(axis=0)
            high[setting] = np.where(undefined, 1, resampled).mean(axis=0)
        tied = np.zeros(len(self.mean), dtype=bool)
        if len(defined):
            tied[defined] = n < FEWEST_CANDIDATES or _may_be_best(
                self.mean[defined], low[defined], high[defined], self._quantile(level, n)
            )
        return lower, upper, tied

    def _resampled(self, sides, known, counts):
        return coefficient(self.scoring, *sides, counts[:, known])

    def _sides_of(self, setting):
        n_splits = self.values.shape[1]
        return [self._sides[setting, s] for s in range(n_splits) if (setting, s) in self._sides]

    def _quantile(self, level, n):
        """Give a quantile a little further out than the level, as for the limits of a mean."""
        reach = stdtrit(n - 1, level) if self.scoring == "pearson" else ndtri(level)
        return ndtr(reach * math.sqrt(n / (n - 1)))

    def best_pvalue(self, n_permutations, rng):
        """Compute how often the best of all settings agrees as well with a random reference.

        Parameters
        ----------
        n_permutations : int
            How often the reference is dealt out among the candidates.
        rng : numpy.random.Generator
            To draw from.

        Returns
        -------
        pvalue : float
            In (0, 1]; it takes into account how many settings there were to choose from.
        """
        permutations, exact = orders(len(self.reference.names), n_permutations, rng)
        best = np.full(len(permutations), -np.inf)
        known_ones = {}
        for setting in np.flatnonzero(~np.isnan(self.mean)):
            dealt = [
                _once(known_ones, sides, known, permutations, self._dealt)
                for known, sides in self._sides_of(setting)
            ]
            np.maximum(best, self._signed(np.mean(dealt, axis=0)), out=best)
        return share_as_good(best, np.nanmax(self._signed(self.mean)), exact)

    def _dealt(self, sides, known, permutations):
        if self.scoring in CHOICES:
            return choice_of_permutations(self.scoring, *sides, self.k, permutations)
        if not known.all():  # in what order do these come?
            permutations = permutations[:, known].argsort(axis=1).argsort(axis=1)
        return coefficient_of_permutations(self.scoring, *sides, permutations)


def resampled(agreements, n_resamples, level, rng):
    """Resample the candidates, the same way for all measures that resampling is right for.

    It is not right for measures of a choice, which look at few candidates: limits from resamples
    would hold the true value far too seldom.

    Parameters
    ----------
    agreements : dict of str to Agreement
        By measure.
    n_resamples : int
        How often to resample.
    level : float
        Of the limits.
    rng : numpy.random.Generator
        To draw from.

    Returns
    -------
    uncertainty : dict of str to (ndarray, ndarray, ndarray)
        What :meth:`Agreement.resample` gives, by measure; empty without resamples.
    """
    seed = int(rng.integers(2**32))
    return {
        scoring: agreement.resample(n_resamples, level, np.random.default_rng(seed))
        for scoring, agreement in agreements.items()
        if n_resamples and scoring not in CHOICES
    }


def _once(results, sides, known, draws, work):
    """Do the work once for each order of the candidates: settings often give the same."""
    key = (*(side.tobytes() for side in sides), known.tobytes())
    if key not in results:
        results[key] = work(sides, known, draws)
    return results[key]


def _may_be_best(mean, low, high, quantile):
    """Find the settings whose distance to the best is no more than resampling gives by itself.

    For each setting the distance of the best of the others, less what it really is, is resampled:
    with the given probability the setting that is truly the best is among those that are found,
    however many there are to choose from.
    """
    rows = np.hstack([mean[:, None], low, high])
    _, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    mean, low, high = mean[first], low[first], high[first]
    found = np.zeros(len(mean), dtype=bool)
    for setting in range(len(mean)):
        beyond = (high - low[setting]) - (mean - mean[setting])[:, None]
        beyond[setting] = 0
        found[setting] = mean.max() - mean[setting] <= np.quantile(beyond.max(axis=0), quantile)
    return found[of.reshape(-1)]
