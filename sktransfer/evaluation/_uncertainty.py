"""Which candidates may be the best one, from the scores of one sample and of resamples of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri, stdtrit

from ._rank import competition_ranks
from ._resampling import check_resampling, fewest_for_interval

__all__ = ["SelectionUncertainty", "fewest_resamples", "selection_uncertainty"]

# Differences of this share of the scores are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SelectionUncertainty:
    """How far a ranking of candidates depends on the sample it was made from.

    Made by :func:`selection_uncertainty`. What is estimated for each candidate is its *expected
    score*: the mean of the metric over fresh samples of the same size. The best candidate is the
    one whose expected score is highest, at this size of sample; with more data another one may be.
    Nothing here says which candidate is the best after fine-tuning.

    Parameters
    ----------
    names : tuple of str
        The candidates.
    scores : ndarray of shape (n_candidates,)
        Their scores on the sample; NaN for a candidate without one.
    resampled_scores : ndarray of shape (n_resamples, n_candidates)
        Their scores on the resamples; NaN where there is none.
    score_interval : ndarray of shape (n_candidates, 2)
        For each candidate by itself, limits of its expected score. NaN without a score, infinite
        where too few resamples have one.
    rank_interval : ndarray of int of shape (n_candidates, 2)
        For each candidate, the best and the worst rank that its expected score may have among all
        of them; simultaneous over the candidates it is compared with.
    probability_best : ndarray of shape (n_candidates,)
        Share of the resamples in which the candidate would be the best one; they sum to 1.
    tied_with_best : tuple of str
        The candidates that can't be told apart from the best, the highest score first: a set that
        holds the one with the highest expected score with a probability of about `level`.
    standard_error : ndarray of shape (n_candidates,)
        Standard deviation of each score over fresh samples.
    n_undefined : ndarray of int of shape (n_candidates,)
        Number of resamples in which the candidate has no score. They are left out. A candidate
        without a score in half of them or more is in `tied_with_best` for lack of evidence, as is
        one whose metric is saturated in all of them, but not on the sample.
    level : float
        The level of intervals and set.
    scheme : str or None
        How the resamples were drawn.

    Attributes
    ----------
    n_resamples : int
        Number of resamples.

    See Also
    --------
    selection_uncertainty : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.evaluation import selection_uncertainty
    >>> scores = {"a": 0.50, "b": 0.49, "c": 0.20}
    >>> noise = 0.05 * np.random.default_rng(0).normal(size=(200, 3))
    >>> found = selection_uncertainty(scores, list(scores.values()) + noise)
    >>> found.tied_with_best
    ('a', 'b')
    >>> found.rank_interval.tolist()
    [[1, 2], [1, 2], [3, 3]]
    """

    names: tuple
    scores: np.ndarray
    resampled_scores: np.ndarray = field(repr=False)
    score_interval: np.ndarray
    rank_interval: np.ndarray
    probability_best: np.ndarray
    tied_with_best: tuple
    standard_error: np.ndarray
    n_undefined: np.ndarray
    level: float
    scheme: str | None = None

    @property
    def n_resamples(self):
        """Number of resamples."""
        return len(self.resampled_scores)

    def columns(self):
        """Return the results as columns, best candidate first, of which frames are made.

        Returns
        -------
        columns : dict of str to list
            ``candidate``, ``score``, ``score_low``, ``score_high``, ``rank``, ``rank_low``,
            ``rank_high``, ``probability_best``, ``tied_with_best`` and ``n_undefined``.
        """
        ranks = competition_ranks(self.scores)
        order = np.argsort(ranks, kind="stable")
        columns = {
            "candidate": np.array(self.names, dtype=object),
            "score": self.scores,
            "score_low": self.score_interval[:, 0],
            "score_high": self.score_interval[:, 1],
            "rank": ranks,
            "rank_low": self.rank_interval[:, 0],
            "rank_high": self.rank_interval[:, 1],
            "probability_best": self.probability_best,
            "tied_with_best": np.array([name in self.tied_with_best for name in self.names]),
            "n_undefined": self.n_undefined,
        }
        return {name: np.asarray(column)[order].tolist() for name, column in columns.items()}


def fewest_resamples(level):
    """Smallest number of resamples that have a quantile on both sides of a level.

    Parameters
    ----------
    level : float
        The level, in (0, 1).

    Returns
    -------
    n_resamples : int
        The number.
    """
    return max(20, fewest_for_interval(level))


def selection_uncertainty(
    scores,
    resampled_scores,
    *,
    names=None,
    level=0.95,
    n_samples=None,
    scale=1.0,
    bounds=(-np.inf, np.inf),
    scheme=None,
    relative_to_pool=False,
):
    """Tell which candidates can't be told apart from the best, and how sure scores and ranks are.

    The resamples must be *the same for all candidates*: the sets live on the differences of
    scores, which vary less than the scores do because a hard sample is hard for everyone.

    A resample of n rows is not a fresh sample: fewer of its rows are distinct, so that scores on
    resamples are higher or lower on the whole than scores on fresh samples. Only their scatter
    about their own mean is used, and put around the scores on the sample. A candidate is left out
    of the set when another one is better by more than resampling gives by itself: by more standard
    errors of the difference than the largest of these differences reaches with a probability of
    `level` if the candidate were the best (multiple comparisons with the best [1]_). The interval
    of a candidate's rank comes from its two-sided comparisons with all others [2]_.

    Read more in the :ref:`User Guide <uncertainty>`.

    Parameters
    ----------
    scores : dict of str to float, or array-like of shape (n_candidates,)
        Scores of the candidates on the sample, higher is better; NaN for a candidate without one.
    resampled_scores : dict of str to array-like, or array-like of shape (n_resamples, n_candidates)
        Their scores on the resamples, in a dict by candidate; NaN where there is none.
    names : list of str, default=None
        Names of the candidates, if `scores` is no dict; their positions if None.
    level : float, default=0.95
        Level of the intervals and of the set, in (0, 1).
    n_samples : int, default=None
        Number of rows of the sample: standard errors from few rows are uncertain themselves, and
        quantiles of Student's t with one degree of freedom less take the place of normal ones.
    scale : float, default=1.0
        Brings the scatter of the resamples to that of fresh samples, if it is another. Infinite if
        they tell nothing of it: no candidate is told apart from another one then.
    bounds : tuple of float, default=(-inf, inf)
        Smallest and largest possible score, where intervals end.
    scheme : str, default=None
        How the resamples were drawn, for the record.
    relative_to_pool : bool, default=False
        Whether scores were scaled by the range of all candidates. Differences are bounded then, and
        vary less the closer they are to their bounds; the largest standard error of the
        differences between any two candidates is taken for all.

    Returns
    -------
    uncertainty : SelectionUncertainty
        Intervals of scores and ranks, the probability of being best, and the set.

    Raises
    ------
    ValueError
        If there are too few resamples for `level` (at least ``2 / (1 - level)``, and 20), shapes or
        names don't fit, or no candidate has a score.

    References
    ----------
    .. [1] J. C. Hsu, "Simultaneous confidence intervals for all distances from the 'best'", The
       Annals of Statistics 9, 1981.
    .. [2] M. Mogstad, J. P. Romano, A. M. Shaikh, D. Wilhelm, "Inference for ranks with
       applications to mobility across neighbourhoods and academic achievement across countries",
       The Review of Economic Studies 91, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.evaluation import selection_uncertainty
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=(200, 1))  # resamples that are hard are hard for all
    >>> resampled = [0.50, 0.49, 0.30] + 0.1 * shared + 0.02 * rng.normal(size=(200, 3))
    >>> found = selection_uncertainty(
    ...     {"resnet": 0.50, "vit": 0.49, "untrained": 0.30},
    ...     dict(zip(["resnet", "vit", "untrained"], resampled.T)),
    ... )
    >>> found.tied_with_best
    ('resnet', 'vit')
    >>> found.rank_interval.tolist()
    [[1, 2], [1, 2], [3, 3]]
    """
    names, scores, resampled = _checked(scores, resampled_scores, names, level)
    known = np.isfinite(scores)
    defined = ~np.isnan(resampled)
    n_undefined = (~defined).sum(axis=0)
    resolved = known & (2 * n_undefined < len(resampled)) & ~_saturated(scores, resampled)
    resolved &= np.isfinite(scale)
    draws = _centred(resampled, defined, resolved, scale)
    error = np.where(known, np.inf, np.nan)
    error[resolved] = np.sqrt(np.nanmean(draws[:, resolved] ** 2, axis=0))

    heavier = _heavier_tail(level, n_samples)
    reach = ndtri((1 + level) / 2) * _heavier_tail((1 + level) / 2, n_samples)
    low, high = np.clip([scores - reach * error, scores + reach * error], *bounds)
    least = _largest_error(draws[:, resolved]) if relative_to_pool else 0.0
    tied, better, worse = _comparisons(scores, draws, known, resolved, level, heavier, least)
    n_known = int(known.sum())
    rank_interval = np.stack([1 + better, n_known - worse], axis=1)
    # Those without a score are last, and share a rank, as in the ranking itself.
    rank_interval[~known] = [n_known + 1, len(names)]
    order = np.argsort(competition_ranks(scores), kind="stable")
    return SelectionUncertainty(
        names=names,
        scores=scores,
        resampled_scores=resampled,
        score_interval=np.stack([low, high], axis=1),
        rank_interval=rank_interval,
        probability_best=_probability_best(scores, draws, known, resolved),
        tied_with_best=tuple(names[i] for i in order if tied[i]),
        standard_error=error,
        n_undefined=n_undefined,
        level=float(level),
        scheme=scheme,
    )


def _checked(scores, resampled, names, level):
    check_resampling(level, n_resamples=0)
    if isinstance(scores, Mapping):
        if names is not None:
            raise ValueError("'names' must be None if 'scores' is a dict, which has names.")
        names = tuple(scores)
        if isinstance(resampled, Mapping):
            if set(resampled) != set(names):
                raise ValueError(
                    "'resampled_scores' must have the candidates of 'scores', "
                    f"{sorted(map(str, names))}. Got {sorted(map(str, resampled))} instead."
                )
            resampled = np.transpose([np.asarray(resampled[name], float) for name in names])
        scores = list(scores.values())
    scores = np.asarray(scores, dtype=float)
    resampled = np.asarray(resampled, dtype=float)
    if scores.ndim != 1 or resampled.ndim != 2 or resampled.shape[1] != len(scores):
        raise ValueError(
            "'resampled_scores' must be of shape (n_resamples, n_candidates) for 'scores' of shape "
            f"(n_candidates,). Got {resampled.shape} and {scores.shape} instead."
        )
    names = tuple(range(len(scores))) if names is None else tuple(names)
    if len(names) != len(scores) or len(set(names)) != len(names):
        raise ValueError(
            f"'names' must be {len(scores)} different names, one for each candidate. "
            f"Got {list(names)!r} instead."
        )
    fewest = fewest_resamples(level)
    if len(resampled) < fewest:
        raise ValueError(
            f"A level of {level:g} needs at least {fewest} resamples. Got {len(resampled)} instead."
        )
    if not np.isfinite(scores).any():
        raise ValueError("At least one candidate must have a finite score in 'scores'.")
    return names, scores, resampled


def _saturated(scores, resampled):
    """Find candidates that reach the same score on all resamples, and another on the sample.

    A metric that knows no other score with fewer rows says nothing of how the one with all of
    them varies. A score that is the same on the sample too is a constant, and one below all that
    the best candidate has on resamples is no doubt the lower one.
    """
    missing = np.isnan(resampled)
    low = np.where(missing, np.inf, resampled).min(axis=0)
    high = np.where(missing, -np.inf, resampled).max(axis=0)
    with np.errstate(invalid="ignore"):  # no resample has a score
        is_constant = high - low <= _ROUNDING * np.abs(high)
        is_constant &= ~(np.abs(high - scores) <= _ROUNDING * np.abs(scores))
    best = np.argmax(np.where(np.isfinite(scores), scores, -np.inf))
    return is_constant & ~(high < low[best])


def _centred(resampled, defined, resolved, scale):
    """Take each candidate's mean off its resampled scores; NaN where it has none."""
    draws = np.full(resampled.shape, np.nan)
    columns = np.flatnonzero(resolved)
    values = np.where(defined & np.isfinite(resampled), resampled, np.nan)[:, columns]
    draws[:, columns] = scale * (values - np.nanmean(values, axis=0))
    return draws


def _heavier_tail(level, n_samples):
    """Ratio of a quantile of Student's t to the normal one."""
    if n_samples is None or level <= 0.5:
        return 1.0
    return float(stdtrit(max(n_samples - 1, 1), level) / ndtri(level))


def _largest_error(draws):
    """Find the largest standard error of a difference between two candidates."""
    errors = [
        np.sqrt(np.nanmean((draws - draws[:, [column]]) ** 2, axis=0))
        for column in range(draws.shape[1])
    ]
    return float(np.nanmax(errors, initial=0.0))


def _comparisons(scores, draws, known, resolved, level, heavier, least):
    """Compare each candidate with all others.

    Returns
    -------
    tied : ndarray of bool of shape (n_candidates,)
        Whether no other is better by more than chance: the candidate may be the best.
    better, worse : ndarray of int of shape (n_candidates,)
        How many others are, on either side.
    """
    n_candidates = len(scores)
    tied = known & ~resolved
    better, worse = np.zeros((2, n_candidates), dtype=int)
    compared = np.flatnonzero(resolved)
    for candidate in compared:
        others = compared[compared != candidate]
        if not len(others):
            tied[candidate] = True
            continue
        ahead = scores[others] - scores[candidate]
        size = np.maximum(np.abs(scores[others]), abs(scores[candidate]))
        ahead[np.abs(ahead) <= _ROUNDING * size] = 0.0
        drawn = draws[:, others] - draws[:, [candidate]]
        error = np.sqrt(np.nanmean(drawn**2, axis=0))
        # Of candidates that always differ by the same, every difference is a real one.
        constant = ~(error > _ROUNDING * np.maximum(size, np.abs(ahead)))
        error[constant] = 1.0
        drawn[:, constant] = 0.0
        standard = (drawn / error)[_told(drawn)]
        distance = ahead / np.maximum(error, least)
        distance[constant & (ahead != 0)] *= np.inf
        one_sided = heavier * _quantile(np.nanmax(standard, axis=1), level)
        two_sided = heavier * _quantile(np.nanmax(np.abs(standard), axis=1), level)
        tied[candidate] = distance.max() <= max(one_sided, 0.0)
        better[candidate] = np.count_nonzero(distance > max(two_sided, one_sided))
        worse[candidate] = np.count_nonzero(-distance > max(two_sided, one_sided))
    return tied, better, worse


def _told(draws):
    """Find the resamples on which all have a score, or if they are too few, any of them has."""
    missing = np.isnan(draws)
    whole = ~missing.any(axis=1)
    return whole if 2 * whole.sum() >= len(draws) else ~missing.all(axis=1)


def _quantile(values, level):
    """Give the quantile that a further draw stays below with at least this probability."""
    place = min(math.ceil(level * (len(values) + 1) - 1e-9), len(values))
    return np.sort(values)[place - 1]


def _probability_best(scores, draws, known, resolved):
    """Count in how many resamples each candidate is the best; ties share."""
    if not resolved.any():
        return known / known.sum()
    draws = draws[_told(draws[:, resolved])]
    around = np.where(known, scores, -np.inf) + np.nan_to_num(draws)
    largest = around.max(axis=1, keepdims=True)
    first = np.isclose(around, largest, rtol=_ROUNDING, atol=0.0) | (around == largest)
    return (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
