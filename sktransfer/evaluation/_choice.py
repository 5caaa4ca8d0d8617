"""What a choice by the scores is worth in the reference: recall, ratio and regret of the top k."""

import math
import numbers

import numpy as np

from ._coefficients import dense_ranks
from ._correlation import NAN_POLICIES, absence, check_option, orient, orientation
from ._pairing import pair_scores
from ._top import top

__all__ = ["ChoiceScore", "relative_top_k", "selection_regret", "top_k_recall"]


class ChoiceScore(float):
    """What choosing by scores is worth, a float that can say how it came about.

    Returned by :func:`selection_regret`, :func:`top_k_recall` and :func:`relative_top_k`.

    Parameters
    ----------
    value : float
        The number itself.
    reason : str or None
        Why it is NaN; None if it is not.
    chance : float
        What choosing k of the candidates at random gives on average.
    k : int
        How many are chosen.
    n : int
        Number of candidates to choose from.
    chosen : tuple
        The candidates that are chosen for certain.
    tied : tuple
        Those that share the last places, of which only some are chosen.
    left_out : tuple
        Candidates that were not compared.

    Examples
    --------
    >>> from sktransfer.evaluation import selection_regret
    >>> regret = selection_regret({"a": 3, "b": 2, "c": 1}, {"a": 0.7, "b": 0.9, "c": 0.5})
    >>> round(regret, 3), round(regret.chance, 3), regret.chosen
    (0.2, 0.2, ('a',))
    """

    def __new__(
        cls, value, *, reason=None, chance=math.nan, k=1, n=0, chosen=(), tied=(), left_out=()
    ):
        """Make a float and note the rest beside it."""
        self = super().__new__(cls, value)
        self.__dict__.update(
            reason=reason, chance=chance, k=k, n=n, chosen=chosen, tied=tied, left_out=left_out
        )
        return self

    @property
    def statistic(self):
        """The number itself, by the name that other results have for it."""
        return float(self)

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to {name!r}: a {type(self).__name__} is frozen.")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete {name!r}: a {type(self).__name__} is frozen.")

    def __repr__(self):
        said = [f"{float(self):.4g}"]
        if self.reason is not None:
            said.append(f"reason={self.reason!r}")
        else:
            said.append(f"chance={self.chance:.4g}")
        said.append(f"k={self.k}, n={self.n}")
        said += [
            f"{name}={names!r}"
            for name in ("chosen", "tied", "left_out")
            if (names := getattr(self, name))
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    __str__ = float.__repr__


def selection_regret(
    scores,
    reference,
    k=1,
    *,
    greater_is_better=True,
    ties="expected",
    input="scores",
    names="same",
    nan_policy="propagate",
):
    """Compute what is lost by fine-tuning only the k candidates with the highest scores.

    The best reference of all candidates less the best of the k chosen, in units of the reference
    measure: 0.02 for an accuracy is two points. 0 is the best, larger is worse, for a loss too.

    Parameters
    ----------
    scores : mapping, series, structured array or array-like of shape (n_candidates,)
        Scores by candidate, higher is better. A candidate without a score is never chosen.
    reference : mapping, series, structured array or array-like of shape (n_candidates,)
        Measured performance by candidate; see :func:`rank_correlation` for how the two are paired.
    k : int, default=1
        How many are chosen, at most as many as there are candidates.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    ties : {"expected", "worst"}, default="expected"
        Where equal scores share the last places among the chosen: the mean over all ways to break
        the tie, or the worst of them.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" for the scores if 1 is the best; the reference must not be ranks.
    names : {"same", "common"}, default="same"
        Whether a candidate that occurs on one side only is an error, or is left out.
    nan_policy : {"propagate", "omit", "raise"}, default="propagate"
        For candidates without a reference: NaN with the reason, leave them out, or an error. A
        candidate without a score is an error with "raise" only.

    Returns
    -------
    regret : ChoiceScore
        A float, 0 or more, with ``reason``, ``chance``, ``chosen`` and more. NaN with the reason
        where there is no choice: fewer than two candidates, all tied on one side, or fewer than k
        scores.

    Raises
    ------
    ValueError
        If `k` is not between 1 and the number of candidates, the two sides cannot be paired, a
        parameter is not one of its values, or a number is missing and ``nan_policy="raise"``.

    See Also
    --------
    relative_top_k : The same as a ratio.
    top_k_recall : How many of the best are among the chosen.

    Examples
    --------
    >>> from sktransfer.evaluation import selection_regret
    >>> logme = {"mnist": 0.4, "letters": 0.6, "cells": -0.2}
    >>> accuracy = {"mnist": 0.93, "letters": 0.91, "cells": 0.80}
    >>> selection_regret(logme, accuracy)
    ChoiceScore(0.02, chance=0.05, k=1, n=3, chosen=('letters',))
    >>> selection_regret(logme, accuracy, k=2)
    ChoiceScore(0, chance=0.006667, k=2, n=3, chosen=('letters', 'mnist'))
    """

    def regret(best, chosen):
        return best - chosen

    return _choose(scores, reference, k, greater_is_better, ties, input, names, nan_policy, regret)


def relative_top_k(
    scores,
    reference,
    k=1,
    *,
    greater_is_better=True,
    ties="expected",
    input="scores",
    names="same",
    nan_policy="propagate",
):
    """Compute the best reference among the k chosen, relative to the best of all: Rel@k.

    Parameters
    ----------
    scores : mapping, series, structured array or array-like of shape (n_candidates,)
        Scores by candidate, higher is better. A candidate without a score is never chosen.
    reference : mapping, series, structured array or array-like of shape (n_candidates,)
        Measured performance by candidate, a quantity that is not negative, such as an accuracy.
    k : int, default=1
        How many are chosen, at most as many as there are candidates.
    greater_is_better : bool, default=True
        Whether a larger reference is better. For a loss the ratio is turned round: the lowest of
        all by the lowest of the chosen.
    ties : {"expected", "worst"}, default="expected"
        See :func:`selection_regret`.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" for the scores if 1 is the best; the reference must not be ranks.
    names : {"same", "common"}, default="same"
        Whether a candidate that occurs on one side only is an error, or is left out.
    nan_policy : {"propagate", "omit", "raise"}, default="propagate"
        For candidates without a reference: NaN with the reason, leave them out, or an error. A
        candidate without a score is an error with "raise" only.

    Returns
    -------
    ratio : ChoiceScore
        A float in [0, 1], 1 if the best is among the chosen; NaN with the reason as for
        :func:`selection_regret`, and where a reference is negative, or a loss 0.

    Raises
    ------
    ValueError
        As for :func:`selection_regret`.

    See Also
    --------
    selection_regret : The difference, which does not depend on where the measure has its zero.

    Notes
    -----
    With accuracies that lie close together the ratio is near 1 for any choice. Compare it with
    its ``chance``.

    References
    ----------
    .. [1] Y. Li et al., Ranking neural checkpoints, CVPR (2021).

    Examples
    --------
    >>> from sktransfer.evaluation import relative_top_k
    >>> logme = {"mnist": 0.4, "letters": 0.6, "cells": -0.2}
    >>> accuracy = {"mnist": 0.93, "letters": 0.91, "cells": 0.80}
    >>> round(relative_top_k(logme, accuracy), 4)
    0.9785
    """

    def ratio(best, chosen):
        # Losses were turned round, and both are negative.
        return chosen / best if best > 0 else best / chosen

    return _choose(
        scores, reference, k, greater_is_better, ties, input, names, nan_policy, ratio, ratios=True
    )


def top_k_recall(
    scores,
    reference,
    k=1,
    *,
    n_best=None,
    greater_is_better=True,
    ties="expected",
    input="scores",
    names="same",
    nan_policy="propagate",
):
    """Compute how many of the best candidates are among the k with the highest scores.

    Parameters
    ----------
    scores : mapping, series, structured array or array-like of shape (n_candidates,)
        Scores by candidate, higher is better. A candidate without a score is never chosen.
    reference : mapping, series, structured array or array-like of shape (n_candidates,)
        Measured performance by candidate.
    k : int, default=1
        How many are chosen, at most as many as there are candidates.
    n_best : int, default=None
        How many of the best are looked for; `k` if None. With 1 the result is whether the
        best candidate is among the chosen.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    ties : {"expected", "worst"}, default="expected"
        For ties among the scores; see :func:`selection_regret`. Ties in the reference are no
        loss: whoever equals the last of the `n_best` is as good, and counts.
    input : {"scores", "ranks"} or a pair of them, default="scores"
        "ranks" for a side if 1 is the best.
    names : {"same", "common"}, default="same"
        Whether a candidate that occurs on one side only is an error, or is left out.
    nan_policy : {"propagate", "omit", "raise"}, default="propagate"
        For candidates without a reference: NaN with the reason, leave them out, or an error. A
        candidate without a score is an error with "raise" only.

    Returns
    -------
    recall : ChoiceScore
        A float in [0, 1]; NaN with the reason as for :func:`selection_regret`.

    Raises
    ------
    ValueError
        As for :func:`selection_regret`, and if `n_best` is not between 1 and the number of
        candidates.

    See Also
    --------
    selection_regret : How much is lost, which a recall does not say.

    Examples
    --------
    >>> from sktransfer.evaluation import top_k_recall
    >>> logme = {"mnist": 0.4, "letters": 0.6, "cells": -0.2, "none": -0.9}
    >>> accuracy = {"mnist": 0.93, "letters": 0.80, "cells": 0.91, "none": 0.70}
    >>> top_k_recall(logme, accuracy, k=2)
    ChoiceScore(0.5, chance=0.5, k=2, n=4, chosen=('letters', 'mnist'))
    >>> top_k_recall(logme, accuracy, k=2, n_best=1).statistic
    1.0
    """
    return _choose(
        scores, reference, k, greater_is_better, ties, input, names, nan_policy, None, n_best=n_best
    )


def _choose(
    scores,
    reference,
    k,
    greater_is_better,
    ties,
    input,
    names,
    nan_policy,
    compare,
    ratios=False,
    n_best=None,
):
    check_option("ties", ties, ("expected", "worst"))
    check_option("nan_policy", nan_policy, NAN_POLICIES)
    flips = orientation(input, greater_is_better)
    if compare is not None and flips[1] == "ranks":
        raise ValueError("'reference' must be measured values: differences of ranks have no unit.")
    pair = pair_scores(scores, reference, names)
    orient(pair, flips)
    _check_k("k", k, len(pair.x))
    _check_k("n_best", k if n_best is None else n_best, len(pair.x))
    if pair.missing.any() and nan_policy == "raise":
        raise ValueError(f"There is {absence(pair)}; nan_policy='raise' forbids it.")
    if pair.y_missing.any() and nan_policy == "omit":
        pair = pair.select(~pair.y_missing)
        _check_k("k", k, len(pair.x))
        _check_k("n_best", k if n_best is None else n_best, len(pair.x))
    known = {"k": int(k), "n": len(pair.x), "left_out": pair.left_out}
    reason = _no_choice(pair, k, ratios, greater_is_better, compare)
    if reason:
        return ChoiceScore(math.nan, reason=reason, **known)
    score = dense_ranks(pair.x)
    value = dense_ranks(pair.y) if compare is None else pair.y.astype(float)
    score, value = (-v if flip else v for v, flip in zip((score, value), flips, strict=True))
    certain, tied = top(score, ~pair.x_missing, k)
    everyone = np.ones(len(score), dtype=bool)
    if compare is None:
        wanted = n_best or k
        good = value >= np.sort(value)[-wanted]
        result = _recall(good, certain, tied, k, wanted, ties)
        chance = _recall(good, ~everyone, everyone, k, wanted, "expected")
    else:
        result = _best_of(value, certain, tied, k, ties, compare)
        chance = _best_of(value, ~everyone, everyone, k, "expected", compare)
    return ChoiceScore(
        result,
        chance=float(chance),
        chosen=_in_order(pair.labels, score, certain),
        tied=_in_order(pair.labels, score, tied),
        **known,
    )


def _check_k(name, k, n):
    if not isinstance(k, numbers.Integral) or isinstance(k, bool) or not 1 <= k <= max(n, 1):
        raise ValueError(
            f"'{name}' must be a whole number between 1 and the number of candidates, {n}. "
            f"Got {k!r} instead."
        )


def _unknown(pair):
    return absence(pair).split("; ")[-1]


def _no_choice(pair, k, ratios, greater_is_better, compare):
    """Say why there is nothing to choose, or nothing to compare."""
    if pair.y_missing.any():
        return _unknown(pair)
    if len(pair.x) < 2:
        return f"fewer than 2 candidates ({len(pair.x)})"
    scores = pair.x[~pair.x_missing]
    if len(scores) < k:
        return f"only {len(scores)} of {len(pair.x)} candidates have a score, fewer than k={k}"
    sides = (("the scores", scores), ("the reference", pair.y))
    # A single candidate with a score is chosen, not tied.
    tied = [side for side, values in sides if len(values) > 1 and not (values != values[0]).any()]
    if tied:
        return f"all candidates tied in {' and '.join(tied)}"
    if ratios and not (pair.y >= 0 if greater_is_better else pair.y > 0).all():
        kind = "reference values of 0 or more" if greater_is_better else "positive losses"
        return f"a ratio needs {kind}"
    if compare is not None and np.isinf(pair.y).any():
        return "infinite reference values cannot be compared"
    if compare is not None and not ratios:
        with np.errstate(over="ignore"):
            spread = pair.y.astype(float).max() - pair.y.astype(float).min()
        if np.isinf(spread):
            return "reference values differ by more than a float can hold"
    return None


def _in_order(labels, score, members):
    order = sorted(np.flatnonzero(members), key=lambda place: -score[place])
    return tuple(labels[place] for place in order)


def _best_of(value, certain, tied, k, ties, compare):
    """Compare the best of all with the best of the chosen, over the ways to break a tie."""
    best = value.max()
    least = value[certain].max() if certain.any() else -np.inf
    places = k - np.count_nonzero(certain)
    if places == 0:
        return float(compare(best, least))
    among = np.sort(value[tied])
    n_tied = len(among)
    if ties == "worst":
        return float(compare(best, max(least, among[places - 1])))
    # The j-th lowest is the best of `places` drawn in C(j - 1, places - 1) ways.
    ways = [math.comb(j, places - 1) for j in range(places - 1, n_tied)]
    total = math.comb(n_tied, places)
    return float(
        sum(
            count / total * compare(best, max(least, candidate))
            for count, candidate in zip(ways, among[places - 1 :], strict=True)
        )
    )


def _recall(good, certain, tied, k, wanted, ties):
    found = np.count_nonzero(good & certain)
    places = k - np.count_nonzero(certain)
    n_tied, n_good = np.count_nonzero(tied), np.count_nonzero(good & tied)
    fewest = max(0, places - (n_tied - n_good))
    if ties == "worst" or places == 0:
        return min(found + fewest, wanted) / wanted
    total = math.comb(n_tied, places)
    return sum(
        math.comb(n_good, more)
        * math.comb(n_tied - n_good, places - more)
        / total
        * min(found + more, wanted)
        / wanted
        for more in range(fewest, min(n_good, places) + 1)
    )
