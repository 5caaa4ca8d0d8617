"""What a fitted selection says, read once for all parts of its report."""

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Candidate", "Facts", "facts_of"]


@dataclass(frozen=True)
class Candidate:
    """One candidate by the deciding metric.

    Parameters
    ----------
    name : str
        Its name.
    rank : int
        Its rank.
    score : float
        Its score; NaN if it failed.
    spread : float or None
        Standard deviation over splits.
    interval : tuple of two float or None
        Limits of its expected score.
    ranks : tuple of two int or None
        Limits of its rank.
    probability : float or None
        Share of resamples in which it is the best.
    is_tied : bool or None
        Whether it can't be told apart from the best.
    in_decision_set : bool or None
        Whether it may be the best after fine-tuning.
    twin : float
        Score of its untrained twin, NaN without one.
    table : dict of str to object
        Its entries of ``cv_results_``.
    """

    name: str
    rank: int
    score: float
    spread: float | None
    interval: tuple | None
    ranks: tuple | None
    probability: float | None
    is_tied: bool | None
    in_decision_set: bool | None
    twin: float
    table: dict = field(repr=False)

    @property
    def has_score(self):
        """Whether it could be scored."""
        return not math.isnan(self.score)

    @property
    def is_best(self):
        """Whether no other has a higher score."""
        return self.has_score and self.rank == 1

    @property
    def is_untrained(self):
        """Whether its weights are known to be random."""
        return self.table.get("pretrained") is False

    @property
    def seconds(self):
        """Seconds that it took to be run and to be scored."""
        return float(self.table["extraction_time"]), float(self.table["scoring_time"])


@dataclass(frozen=True)
class Facts:
    """All that the sections of a report have in common.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector.
    metric : str
        The metric that decides.
    candidates : list of Candidate
        The best first.
    uncertainty : SelectionUncertainty or None
        That of the deciding metric.
    tied : list of str or None
        The candidates that can't be told apart from the best.
    decision : DecisionSet or None
        The candidates that may be the best after fine-tuning.
    baselines : dict of str to dict of str to float
        Scores by baseline and candidate.
    findings : list of str
        Sentences.
    record : dict
        What the selection was made from; empty if it wasn't kept.
    """

    selector: object
    metric: str
    candidates: list
    uncertainty: object
    tied: list | None
    decision: object
    baselines: dict
    findings: list
    record: dict

    @property
    def names(self):
        """Names of the candidates, the best first."""
        return [candidate.name for candidate in self.candidates]

    @property
    def scored(self):
        """The candidates with a score."""
        return [candidate for candidate in self.candidates if candidate.has_score]

    @property
    def n_samples(self):
        """Number of samples, None if it isn't known."""
        return self.record.get("n_samples")


def facts_of(selector):
    """Read a fitted selector.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector.

    Returns
    -------
    facts : Facts
        What it says. What wasn't computed is None or empty.
    """
    results, metric = selector.cv_results_, selector.refit_metric_
    decision = getattr(selector, "decision_set_", None)
    tied = getattr(selector, "tied_with_best_", None)
    baselines = getattr(selector, "baseline_scores_", {})
    twins = baselines.get("untrained_twin", {})
    has_spread = f"split0_{metric}" in results
    has_intervals = f"low_{metric}" in results
    candidates = []
    for place in np.argsort(results[f"rank_{metric}"], kind="stable"):
        table = {column: values[place] for column, values in results.items()}
        name = str(table["candidate"])
        interval = ranks = probability = None
        if has_intervals:
            interval = float(table[f"low_{metric}"]), float(table[f"high_{metric}"])
            ranks = int(table[f"rank_low_{metric}"]), int(table[f"rank_high_{metric}"])
            probability = float(table[f"probability_best_{metric}"])
        candidates.append(
            Candidate(
                name=name,
                rank=int(table[f"rank_{metric}"]),
                score=float(table[f"mean_{metric}"]),
                spread=float(table[f"std_{metric}"]) if has_spread else None,
                interval=interval,
                ranks=ranks,
                probability=probability,
                is_tied=None if tied is None else name in tied,
                in_decision_set=None if decision is None else name in decision,
                twin=float(twins.get(name, math.nan)),
                table=table,
            )
        )
    return Facts(
        selector=selector,
        metric=metric,
        candidates=candidates,
        uncertainty=getattr(selector, "uncertainty_", {}).get(metric),
        tied=None if tied is None else list(tied),
        decision=decision,
        baselines=baselines,
        findings=list(getattr(selector, "findings_", [])),
        record=getattr(selector, "record_", {}),
    )
