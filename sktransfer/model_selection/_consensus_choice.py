"""The consensus of several metrics as the one that decides, and decision sets of a selection."""

import numpy as np

from ..evaluation import competition_ranks, consensus
from ..metrics import LogME, PACTran
from ..utils._target import TASKS, find_task
from ._metric_collection import score_alike

__all__ = [
    "CONSENSUS",
    "add_consensus",
    "combined",
    "consensus_options",
    "decision_set_of",
    "running_consensus",
    "twin_consensus",
]

CONSENSUS = "consensus"


def consensus_options(metrics, y):
    """Choose how metrics are combined: by what does not depend on the pool, where that is possible.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    y : ndarray
        The target.

    Returns
    -------
    options : dict
        Parameters of :func:`~sktransfer.evaluation.consensus`. LogME and PACTran are both in nats
        per sample, LogME as a mean over the classes or outputs; all others are combined by ranks.
    """
    if not all(map(_in_nats, metrics.values())):
        return {"method": "ranks"}
    weights = {
        name: _n_outputs(metric, y) for name, metric in metrics.items() if isinstance(metric, LogME)
    }
    return {"method": "scores", "weights": weights}


def _n_outputs(metric, y):
    y, task = find_task(y, tasks=TASKS, name="LogME", task=metric.task)
    return float(len(np.unique(y)) if task == "classification" else np.size(y[:1]))


def _in_nats(metric):
    if isinstance(metric, PACTran):
        return metric.kind == "gaussian" and metric.formula == "bound"
    return isinstance(metric, LogME)


def combined(scores, candidates, options):
    """Combine columns of scores.

    Parameters
    ----------
    scores : dict of str to ndarray of shape (n_candidates,)
        By metric.
    candidates : list of str
        Names of the candidates.
    options : dict
        As from :func:`consensus_options`.

    Returns
    -------
    result : ConsensusResult
        The consensus.
    """
    by_candidate = {
        metric: dict(zip(candidates, np.asarray(column, dtype=float).tolist(), strict=True))
        for metric, column in scores.items()
    }
    return consensus(by_candidate, **options)


def add_consensus(results):
    """Combine the mean scores of a finished selection into columns of their own.

    Parameters
    ----------
    results : SelectionResults
        With means and ranks of all metrics; those of the consensus are added.
    """
    means = {name: results.mean[name] for name in results.metrics}
    results.consensus = combined(means, results.candidates, results.consensus_options)
    scores = np.array(list(results.consensus.scores.values()))
    results.mean[CONSENSUS] = scores
    results.std[CONSENSUS] = np.full(len(scores), np.nan)
    results.rank[CONSENSUS] = competition_ranks(scores)


def running_consensus(results, candidate):
    """Combine the scores that candidates have so far.

    Parameters
    ----------
    results : SelectionResults
        Not finished yet.
    candidate : int
        The candidate that is asked about.

    Returns
    -------
    score : float
        Its score among those that are done; NaN without any.
    """
    so_far = {
        name: [results.running_mean(place, name) for place in range(len(results.candidates))]
        for name in results.metrics
    }
    found = combined(so_far, results.candidates, results.consensus_options)
    return found.scores[results.candidates[candidate]]


def twin_consensus(results, scores, place):
    """Compute what the consensus would say of one more network, which is no candidate.

    Parameters
    ----------
    results : SelectionResults
        Finished.
    scores : dict of str to float
        The scores of the network, by metric.
    place : int
        The candidate in whose place it is.

    Returns
    -------
    score : float
        On the scale of the candidates' scores: by ranks the share of the others that it beats.
    """
    options, parts = results.consensus_options, {}
    for name, score in scores.items():
        pool = np.delete(results.mean[name], place)
        pool = pool[~np.isnan(pool)]
        if options["method"] == "ranks" and pool.size and not np.isnan(score):
            score = float(np.mean((score > pool) + (score == pool) / 2))
        parts[name] = {"twin": score}
    weights = results.consensus.weights
    return consensus(parts, method="scores", weights=weights, nan_policy="omit").scores["twin"]


def decision_set_of(deciding, metrics, scores, y, task, *, is_whole_sample, options=None):
    """Find which candidates may be the best after fine-tuning, where that was calibrated.

    Parameters
    ----------
    deciding : str
        The name of the deciding metric.
    metrics : dict of str to metric
        The metrics of the selection.
    scores : dict of str to float
        Scores of the candidates by the deciding metric.
    y : ndarray
        The target.
    task : str
        What it is.
    is_whole_sample : bool
        Whether the scores are those of all samples, with equal weights.
    options : dict, default=None
        How a consensus was made.

    Returns
    -------
    found : DecisionSet or None
        None if the package has no calibration: for another metric, or one with other parameters
        than its defaults, for weights or splits, or for a target that is not one of classes.
    """
    from ..datasets import load_decision_calibration

    if not is_whole_sample or task != "classification":
        return None
    used = metrics if deciding not in metrics else {deciding: metrics[deciding]}
    kinds = sorted(type(metric).__name__.lower() for metric in used.values())
    if not all(score_alike(metric, type(metric)(), y) for metric in used.values()):
        return None
    if deciding not in metrics:
        if kinds != ["logme", "pactran"] or options["method"] != "scores":
            return None
        name = CONSENSUS
    else:
        (name,) = kinds
    try:
        calibration = load_decision_calibration(name)
    except ValueError:  # a metric of somebody else's
        return None
    return calibration.decision_set(scores, n_samples=len(y))
