"""What a selection says beyond its scores: consensus, decision set, baselines, findings."""

from ._consensus_choice import decision_set_of
from ._findings import find
from ._untrained_twins import run_twins

__all__ = ["recommend"]


def recommend(selector, selection):
    """Set the attributes of a selector that help to act on its ranking.

    Parameters
    ----------
    selector : TransferabilitySelector
        With scores, the best candidate and uncertainties.
    selection : Selection
        The finished pass over its candidates.
    """
    results, deciding = selection.results, selector.refit_metric_
    vars(selector).pop("consensus_", None)
    if results.consensus is not None:
        selector.consensus_ = results.consensus
    selector.decision_set_ = decision_set_of(
        deciding,
        results.metrics,
        selector.scores_,
        selection.y,
        selection.task,
        is_whole_sample=selector.cv is None and not selection.sample_weights,
        options=results.consensus_options,
    )
    run_twins(selection, selector.best_index_)
    selector.baseline_scores_ = results.baselines.scores(deciding)
    selector.findings_ = find(selector, results.baselines, len(selection.y), selection.task)
