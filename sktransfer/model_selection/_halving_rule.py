"""The rule of a race: who starts, who is dropped after a round, and who wins.

The order by the metric stands until validation contradicts it beyond doubt. On few rows, validation
is a coin that is thrown by each challenger, and the best of several throws looks good; measured on
references, whoever follows it gives away more than the metric alone.
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy import stats

from ..evaluation._rank import competition_ranks

__all__ = ["OTHERWISE", "Verdict", "compare", "judge", "metric_order", "starters"]

N_RESAMPLES = 200
#: Share of the candidates that start where no decision set is known.
OTHERWISE = 1 / 3


@dataclass(frozen=True)
class Comparison:
    """A candidate beside the leader, on the same validation rows.

    Parameters
    ----------
    difference : float
        Its measure less that of the leader.
    error : float
        Standard error of the difference.
    n_rows : int
        Number of validation rows.
    """

    difference: float
    error: float
    n_rows: int

    def is_sure(self, confidence, n_comparisons):
        """Tell whether the difference is no accident of the validation rows.

        Parameters
        ----------
        confidence : float
            Probability with which none of the comparisons is an accident.
        n_comparisons : int
            How many there are in this round.

        Returns
        -------
        is_sure : bool
            Whatever its sign.
        """
        if self.n_rows < 2 or not math.isfinite(self.error):
            return False
        needed = stats.t.ppf(1 - (1 - confidence) / max(1, n_comparisons), self.n_rows - 1)
        return abs(self.difference) > needed * self.error


@dataclass(frozen=True)
class Verdict:
    """What a round has decided.

    Parameters
    ----------
    kept : list of int
        Candidates of the next round, in the order of the metric.
    reasons : dict of int to str
        By candidate, why it is kept or dropped.
    winner : int or None
        Who has won, if the race is over.
    """

    kept: list
    reasons: dict
    winner: int | None


def metric_order(scores):
    """Rank candidates by a metric, or by the consensus of several.

    Parameters
    ----------
    scores : dict of str to float
        By candidate.

    Returns
    -------
    ranks : dict of str to int
        Competition ranks; None for a candidate without a score.
    """
    ranks = competition_ranks(list(scores.values())).tolist()
    return {
        name: None if math.isnan(score) else rank
        for (name, score), rank in zip(scores.items(), ranks, strict=True)
    }


def starters(ranks, start, inside):
    """Choose who starts, the first by the metric, and all that are tied with the last of them.

    Parameters
    ----------
    ranks : dict of str to int
        Competition ranks of the candidates that can be raced.
    start : float or other
        Share of the candidates; anything else goes by ``inside``.
    inside : DecisionSet or None
        The candidates that may be the best after fine-tuning; None if that isn't known.

    Returns
    -------
    chosen : list of str
        In the order of the metric; two of them at least, if there are two.
    reason : str
        What they are, such as "among the first by the metric".
    """
    order = sorted(ranks, key=ranks.get)
    if isinstance(start, Real):
        wanted, reason = math.ceil(start * len(order) - 1e-9), "among the first by the metric"
    elif inside is not None:
        members = set(inside)
        wanted = max((place for place, n in enumerate(order, 1) if n in members), default=0)
        reason = "in the decision set" if wanted > 1 else "in the decision set, or next to it"
    else:
        wanted = math.ceil(len(order) * OTHERWISE - 1e-9)
        reason = "among the first by the metric"
    last = ranks[order[min(len(order), max(2, wanted)) - 1]]
    return [name for name in order if ranks[name] <= last], reason


def compare(evaluate, outputs, leader, codes, seed):
    """Compare candidates with the leader on resampled validation rows, the same for both.

    Parameters
    ----------
    evaluate : callable
        Gives the measure from outputs of all rows and the numbers of those that count; NaN where it
        is not defined.
    outputs : dict of int to ndarray of shape (n_rows, ...)
        Predictions for the validation rows, by candidate.
    leader : int
        Whom the others are compared with.
    codes : ndarray of shape (n_rows,) or None
        Classes of the rows, each of which keeps its number of rows; None for values.
    seed : int
        Seed of the resamples.

    Returns
    -------
    comparisons : dict of int to Comparison
        For all but the leader.
    """
    n_rows = len(outputs[leader])
    everything = np.arange(n_rows)
    whole = {name: evaluate(found, everything) for name, found in outputs.items()}
    random = np.random.default_rng(seed)
    groups = (
        [everything] if codes is None else [np.flatnonzero(codes == c) for c in np.unique(codes)]
    )
    drawn = {name: [] for name in outputs}
    for _ in range(N_RESAMPLES):
        rows = np.concatenate([random.choice(group, len(group)) for group in groups])
        for name, found in outputs.items():
            drawn[name].append(evaluate(found, rows))
    comparisons = {}
    for name in outputs:
        if name == leader:
            continue
        pair = np.array([drawn[name], drawn[leader]])
        pair = pair[:, np.isfinite(pair).all(axis=0)]
        error = math.inf
        if pair.shape[1] >= N_RESAMPLES // 2:
            # A few rows on which each is always right or wrong vary in no resample, and are no
            # proof.
            error = max(np.std(pair[0] - pair[1], ddof=1), np.ptp(pair) / n_rows)
        comparisons[name] = Comparison(whole[name] - whole[leader], float(error), n_rows)
    return comparisons


def judge(ranks, scores, comparisons, leader, *, confidence, n_kept, is_last, names, trusted=True):
    """Decide who goes on after a round, or who has won.

    Parameters
    ----------
    ranks : dict of int to int
        Ranks by the metric of those in the race.
    scores : dict of int to float
        Their validation scores.
    comparisons : dict of int to Comparison
        With the leader.
    leader : int
        Whom the others are compared with.
    confidence : float
        As in :meth:`Comparison.is_sure`.
    n_kept : int
        How many may go on.
    is_last : bool
        Whether there is no budget for another round.
    names : sequence of str
        Names of the candidates, for the reasons.
    trusted : bool, default=True
        Whether the leader is the first by the metric. Else it is the best validated.

    Returns
    -------
    verdict : Verdict
        Who is kept, and why.
    """
    title = "first by the metric" if trusted else "best validated, as the metric says nothing here"
    sure = {
        name: found.is_sure(confidence, len(comparisons)) for name, found in comparisons.items()
    }
    said = {name: _said(found) for name, found in comparisons.items()}
    worse = {name for name in sure if sure[name] and comparisons[name].difference < 0}
    better = {name for name in sure if sure[name] and comparisons[name].difference > 0}
    # Challengers in the order of what they have shown; of equal ones the metric's choice first.
    challengers = sorted(set(comparisons) - worse, key=lambda name: (-scores[name], ranks[name]))
    reasons = {name: f"surely worse than the leader, by {said[name]}" for name in worse}
    if not challengers:
        reasons[leader] = "surely better than all others" if comparisons else "alone in the race"
        return Verdict([leader], reasons, leader)
    if is_last:
        winner = challengers[0] if challengers[0] in better else leader
        for name in challengers:
            doubt = "surely better" if name in better else "not surely better"
            reasons[name] = f"{doubt} than the leader: {said[name]}"
        reasons[leader] = title
        if winner != leader:
            reasons[leader] = f"overruled by {names[winner]!r}: {said[winner]}"
        elif trusted:
            reasons[leader] += ", and no other is surely better"
        return Verdict([winner], reasons, winner)
    kept = challengers[: max(1, n_kept - 1)]
    for name in challengers:
        place = "among the best" if name in kept else "not among the best"
        reasons[name] = f"{place} of the others: {said[name]} from the leader"
    reasons[leader] = title
    return Verdict(sorted([leader, *kept], key=lambda name: ranks[name]), reasons, None)


def _said(comparison):
    return f"{comparison.difference:+.3g} ± {comparison.error:.2g}"
