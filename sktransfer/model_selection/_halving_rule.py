"""The rule of a race: who starts, who is dropped after a round, and who wins.

The order by the metric stands until validation contradicts it beyond doubt. On few rows, validation
is a coin that is thrown by each challenger, and the best of several throws looks good; measured on
references, whoever follows it gives away more than the metric alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..evaluation._consensus import consensus

__all__ = ["Verdict", "compare", "judge", "metric_order", "starters"]

N_RESAMPLES = 200


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


def metric_order(metric_scores):
    """Rank candidates by what the metrics say together.

    Parameters
    ----------
    metric_scores : dict of str to dict of str to float
        By metric and candidate.

    Returns
    -------
    ranks : dict of str to int
        Competition ranks by :func:`~sktransfer.evaluation.consensus`, of one metric those of its
        scores; None for a candidate without a score.
    """
    result = consensus(metric_scores)
    return {
        name: None if math.isnan(result.scores[name]) else rank
        for name, rank in result.ranks.items()
    }


def starters(ranks, share):
    """Choose who starts: the first by the metric, and all that are tied with the last of them.

    Parameters
    ----------
    ranks : array-like of shape (n_candidates,)
        Competition ranks.
    share : float
        Share of the candidates, two of them at least.

    Returns
    -------
    chosen : ndarray of int
        Places in ``ranks``, in the order of the metric.
    """
    ranks = np.asarray(ranks)
    wanted = min(len(ranks), max(2, math.ceil(share * len(ranks) - 1e-9)))
    order = np.argsort(ranks, kind="stable")
    return order[ranks[order] <= ranks[order][wanted - 1]]


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


def judge(ranks, scores, comparisons, leader, *, confidence, n_kept, is_last, names):
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
        The first by the metric; of equal ones the better validated.
    confidence : float
        As in :meth:`Comparison.is_sure`.
    n_kept : int
        How many may go on.
    is_last : bool
        Whether there is no budget for another round.
    names : sequence of str
        Names of the candidates, for the reasons.

    Returns
    -------
    verdict : Verdict
        Who is kept, and why.
    """
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
        reasons[leader] = (
            f"overruled by {names[winner]!r}: {said[winner]}"
            if winner != leader
            else "first by the metric, and no other is surely better"
        )
        return Verdict([winner], reasons, winner)
    kept = challengers[: max(1, n_kept - 1)]
    for name in challengers:
        place = "among the best" if name in kept else "not among the best"
        reasons[name] = f"{place} of the others: {said[name]} from the leader"
    reasons[leader] = "first by the metric"
    return Verdict(sorted([leader, *kept], key=lambda name: ranks[name]), reasons, None)


def _said(comparison):
    return f"{comparison.difference:+.3g} ± {comparison.error:.2g}"
