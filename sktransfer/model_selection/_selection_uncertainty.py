"""From scores on resamples to what a selection says of its uncertainty."""

import numpy as np

from ..evaluation import selection_uncertainty
from ..exceptions import UndefinedResamplesWarning
from ..metrics import KNN, LinearProbe
from ._consensus_choice import CONSENSUS
from ._metric_collection import is_relative_to_pool
from ._results import joined

__all__ = ["selection_uncertainties", "uncertainty_columns", "uncertainty_warnings"]


def selection_uncertainties(results, selection, level):
    """Find the uncertainty of a selection by each of its metrics.

    Parameters
    ----------
    results : SelectionResults
        The finished results.
    selection : Selection
        The pass over the candidates, with resamples or None, and splits.
    level : float
        Level of intervals and sets.

    Returns
    -------
    uncertainties : dict of str to SelectionUncertainty
        By metric; metrics without any score, and those that look into the network, are left out.
        Empty without resamples. A consensus of scores, which is a mean of metrics, has one if they
        were resampled alike; one of ranks has none.
    """
    resamples = selection.resamples
    if resamples is None:
        return {}
    values = {
        name: _resampled_means(results, name, resamples.n_resamples)
        for name in results.metrics
        if name in resamples.schemes and np.isfinite(results.mean[name]).any()
    }
    schemes = {resamples.schemes[name] for name in values}
    metrics = dict(results.metrics)
    combined = results.consensus is not None and not results.consensus.relative_to_pool
    if combined and len(schemes) == 1:
        weights = results.consensus.weights
        values[CONSENSUS] = sum(weights[name] * rows for name, rows in values.items())
        metrics[CONSENSUS] = None
    scheme_of = {CONSENSUS: next(iter(schemes), None), **resamples.schemes}
    return {
        name: selection_uncertainty(
            results.mean[name],
            values[name],
            names=results.candidates,
            level=level,
            n_samples=len(selection.y),
            scale=resamples.scale(scheme_of[name], metric),
            bounds=_bounds(metric, selection.task),
            scheme=scheme_of[name],
            relative_to_pool=metric is not None and is_relative_to_pool(metric),
        )
        for name, metric in metrics.items()
        if name in values and np.isfinite(results.mean[name]).any()
    }


def _bounds(metric, task):
    low, high = getattr(metric, "bounds", (-np.inf, np.inf))
    # Shares of samples; of values these are R², which may be negative.
    if task == "classification" and isinstance(metric, KNN | LinearProbe):
        low = 0.0
    return low, high


def _resampled_means(results, name, n_resamples):
    """Means over the usable splits, of shape (n_resamples, n_candidates)."""
    metric, cells = results.metrics[name], results.resampled[name]
    splits = [s for s in range(results.n_splits or 1) if s not in results.unusable_splits[name]]
    values = np.full((len(splits), n_resamples, len(results.candidates)), np.nan)
    for place, split in enumerate(splits):
        here = {
            candidate: cells[candidate, split]
            for candidate in range(len(results.candidates))
            if (candidate, split) in cells
        }
        if is_relative_to_pool(metric):
            values[place] = _combined(metric, here, n_resamples, len(results.candidates))
        else:
            for candidate, resampled in here.items():
                values[place, :, candidate] = resampled.values
    return values.mean(axis=0)


def _combined(metric, resampled, n_resamples, n_candidates):
    """Combine the parts of all candidates, resample by resample."""
    rows = np.full((n_resamples, n_candidates), np.nan)
    for number in range(n_resamples):
        pool = [None] * n_candidates
        for candidate, scores in resampled.items():
            pool[candidate] = scores.fitted[number]
        if any(fitted is not None for fitted in pool):
            rows[number] = type(metric).pool_scores(pool)
    return rows


def uncertainty_columns(uncertainties):
    """Bring the uncertainties into columns of the table of a selection.

    Parameters
    ----------
    uncertainties : dict of str to SelectionUncertainty
        By metric.

    Returns
    -------
    columns : dict of str to ndarray of shape (n_candidates,)
        As in the attribute ``cv_results_`` of the selector.
    """
    columns = {}
    for name, found in uncertainties.items():
        columns[f"low_{name}"], columns[f"high_{name}"] = found.score_interval.T.copy()
        columns[f"rank_low_{name}"], columns[f"rank_high_{name}"] = found.rank_interval.T.copy()
        columns[f"probability_best_{name}"] = found.probability_best
        columns[f"tied_with_best_{name}"] = np.isin(found.names, found.tied_with_best)
        columns[f"n_undefined_{name}"] = found.n_undefined
    return columns


def uncertainty_warnings(uncertainties, results):
    """Say where resamples tell nothing, and which candidates have no score on some, and why.

    Parameters
    ----------
    uncertainties : dict of str to SelectionUncertainty
        By metric.
    results : SelectionResults
        The results, which have the reasons.

    Returns
    -------
    warnings : list of (str, category)
        Messages and their kind.
    """
    given = []
    for metric, found in uncertainties.items():
        if np.isinf(found.standard_error[np.isfinite(found.scores)]).all() and found.scheme in (
            "half",
            "tenth",
        ):
            given.append(
                (
                    f"How the scores by {metric!r} vary can't be told by leaving out rows "
                    f"(resampling={found.scheme!r}): no candidate is told apart from the best. "
                    "Classes have too few rows, or all resamples have the same score.",
                    UndefinedResamplesWarning,
                )
            )
            continue
        lacking = {}
        for index, name in enumerate(found.names):
            n_undefined = found.n_undefined[index]
            if n_undefined and not np.isnan(found.scores[index]):
                reasons = [
                    resampled.reason
                    for (candidate, _), resampled in results.resampled.get(metric, {}).items()
                    if candidate == index and resampled.reason
                ]
                reason = reasons[0] if reasons else "The score is NaN."
                lacking.setdefault((int(n_undefined), reason), []).append(repr(name))
        for (n_undefined, reason), names in lacking.items():
            subject = f"Candidate {names[0]} has"
            if len(names) > 1:
                subject = f"Candidates {joined(names)} have"
            given.append(
                (
                    f"{subject} no score by {metric!r} on {n_undefined} of {found.n_resamples} "
                    f"resamples: {reason}",
                    UndefinedResamplesWarning,
                )
            )
    return given
