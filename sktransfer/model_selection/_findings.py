"""What a user should know of a ranking before acting on it, in sentences."""

import math

import numpy as np

from ..evaluation import rank_correlation, selection_regret
from ._baselines import MOST_ROWS
from ._results import joined

__all__ = ["WITHIN_NOISE", "find"]

#: How the finding begins that no candidate can be told from the others.
WITHIN_NOISE = "Every candidate is within noise"

_ALPHA = 0.05
# Kendall's tau of half: three of four pairs of candidates are in the same order.
_AGREES = 0.5
# Below this number of candidates no agreement of two orders can be told from chance.
_FEWEST_TO_COMPARE = 4


def find(selector, baselines, n_samples, task):
    """Put into words what baselines and uncertainty say of a ranking.

    Parameters
    ----------
    selector : TransferabilitySelector
        With scores, baselines and, if there are any, uncertainties.
    baselines : BaselineResults
        The baselines as they were computed.
    n_samples : int
        Number of samples.
    task : str
        What the target is.

    Returns
    -------
    findings : list of str
        Sentences; empty if there is nothing to say.
    """
    findings = [
        *_size(selector),
        *_noise(selector, baselines, n_samples, task),
        *_twin(selector),
        *_other_choices(selector),
        *_problems(baselines, len(selector.scores_)),
    ]
    return findings


def _size(selector):
    for name, called in (("n_parameters", "plain model size"), ("n_features", "feature width")):
        sizes = selector.baseline_scores_.get(name, {})
        known = {c: s for c, s in sizes.items() if not math.isnan(s)}
        scores = {c: selector.scores_[c] for c in known if not math.isnan(selector.scores_[c])}
        known = {c: known[c] for c in scores}
        if len(scores) < _FEWEST_TO_COMPARE or len(set(known.values())) < 2:
            continue
        result = rank_correlation(scores, known, alternative="greater", n_permutations=1999)
        if result.statistic >= _AGREES and result.pvalue < _ALPHA:
            low, high = result.interval
            yield (
                f"The ranking by {selector.refit_metric_!r} agrees with {called} ({name}): "
                f"Kendall's tau is {result.statistic:.2f}, {result.level:.0%} interval {low:.2f} "
                f"to {high:.2f}, p = {result.pvalue:.2g}, {result.n} candidates. It may say little "
                "that size alone does not."
            )
        return


def _noise(selector, baselines, n_samples, task):
    scored = [name for name, score in selector.scores_.items() if not math.isnan(score)]
    if len(scored) < 2:
        return
    metric = selector.refit_metric_
    saturated = baselines.saturated.get(metric)
    if saturated is not None:
        places = [baselines.candidates.index(name) for name in scored]
        if saturated[places].all():
            yield (
                f"{WITHIN_NOISE}: none of the {len(scored)} scores by {metric!r} "
                "can be told from what permuted labels would give."
            )
            return
    tied = getattr(selector, "tied_with_best_", None)
    if tied is not None and set(scored) <= set(tied):
        yield (
            f"{WITHIN_NOISE}: at a level of {selector.level:g} none of the "
            f"{len(scored)} can be told from the best by {metric!r} on {n_samples} samples."
        )
        return
    probe = selector.baseline_scores_.get("linearprobe", {})
    values = np.array([probe[name] for name in scored if name in probe])
    is_known = len(values) == len(scored) and not np.isnan(values).any()
    if tied is None and is_known and task == "classification":
        center, n_samples = float(values.mean()), min(n_samples, MOST_ROWS)
        error = 1.96 * math.sqrt(2 * max(center * (1 - center), 0.0) / n_samples)
        if values.max() - values.min() < error:
            yield (
                "Every candidate may be within noise: leave-one-out linear probes of all of them "
                f"have accuracies between {values.min():.3f} and {values.max():.3f}, and two "
                f"accuracies on {n_samples} samples differ by up to {error:.3f} by chance."
            )


def _twin(selector):
    best, metric = selector.best_name_, selector.refit_metric_
    if selector.cv_results_["pretrained"][selector.best_index_] is False:
        yield (
            f"The best candidate, {best!r}, has random weights: no pretrained network is better by "
            f"{metric!r}. Pretraining is likely to help little, or to harm (negative transfer)."
        )
        return
    twin = selector.baseline_scores_.get("untrained_twin", {}).get(best, math.nan)
    if twin >= selector.best_score_:
        yield (
            f"The best candidate, {best!r}, is not better than its untrained twin, the same "
            f"architecture with random weights: {selector.best_score_:.4g} against {twin:.4g} by "
            f"{metric!r}. Its pretraining is likely to help little here, or to harm (negative "
            "transfer)."
        )


def _other_choices(selector):
    others = {}
    called = {"linearprobe": "a leave-one-out linear probe", "knn": "the nearest neighbour"}
    for name, what in called.items():
        scores = {
            c: s
            for c, s in selector.baseline_scores_.get(name, {}).items()
            if not math.isnan(s) and not math.isnan(selector.scores_[c])
        }
        if len(scores) < 2 or len(set(scores.values())) < 2:
            continue
        top = max(scores.values())
        first = [c for c, s in scores.items() if s == top]
        if selector.best_name_ not in first:
            regret = selection_regret(selector.scores_, scores, names="common")
            others[what] = (
                f"{joined(map(repr, first))} ({regret:.3g} above {selector.best_name_!r})"
            )
    if others:
        said = "; ".join(f"by {what} {choice}" for what, choice in others.items())
        yield f"Simpler rules have another first choice: {said}."


def _problems(baselines, n_candidates):
    for baseline, reasons in baselines.problems.items():
        first = next(iter(reasons.values()))
        whom = "any candidate" if len(reasons) == n_candidates else joined(map(repr, reasons))
        yield f"The baseline {baseline!r} could not be computed for {whom}: {first}"
