"""Scores of the untrained twins: one more forward pass for an architecture."""

import numpy as np

from ..utils._heard import heard_warnings
from ._consensus_choice import CONSENSUS, twin_consensus
from ._metric_collection import is_relative_to_pool, needs_network
from ._scoring import ScoringTask, score_task

__all__ = ["run_twins"]

# Beyond the architecture of the best candidate, twins cost at most this share of forward passes.
_SHARE_OF_PASSES = 0.25


def run_twins(selection, best):
    """Run architectures with random weights and score them as the candidates were.

    Parameters
    ----------
    selection : Selection
        A pass over the candidates that is finished.
    best : int
        Place of the best candidate. Its architecture is run in any case.
    """
    results = selection.results
    baselines = results.baselines
    members = {}
    for place, key in baselines.architectures.items():
        members.setdefault(key, []).append(place)
    most = max(1, int(_SHARE_OF_PASSES * len(selection.candidates)))
    if len(members) > most and not baselines.plan.every_twin:
        own = baselines.architectures.get(best)
        members = {key: places for key, places in members.items() if key == own}
    for places in members.values():
        # Any of them will do for features; what has a head of its own is that of the best.
        place = best if best in places else places[0]
        try:
            with heard_warnings():  # the candidate said the same when it was run
                scores = _scores_of_twin(selection, place)
        except Exception as error:
            for other in places:
                baselines.fail("untrained_twin", other, error)
        else:
            baselines.twins.update(dict.fromkeys(places, scores))


def _scores_of_twin(selection, place):
    from ..backbones._untrained import UntrainedTwin

    results, extractor = selection.results, selection.extractor
    name, candidate = selection.candidates[place]
    twin, extraction = extractor.fit_extract(
        UntrainedTwin(candidate),
        {"fit": {}, "fit_transform": {}},
        stateless=True,
        name=f"untrained twin of {name}",
    )
    pooled = {metric for metric, m in results.metrics.items() if is_relative_to_pool(m)}
    looks_inside = any(map(needs_network, results.metrics.values()))
    scores = {metric: [] for metric in results.metrics}
    for split, rows in enumerate(selection.splits):
        found = score_task(
            ScoringTask(
                candidate=place,
                split=split,
                metrics=results.metrics,
                features=extraction.features,
                probabilities=extraction.probabilities,
                y=selection.y,
                sample_weights=selection.sample_weights,
                rows=rows,
                keep=frozenset(pooled),
                inputs=extractor.X if looks_inside else None,
                backbone=twin.twin_ if looks_inside else None,
            )
        )
        for metric, cell in found.cells.items():
            score = cell.score
            if metric in pooled and cell.metric is not None:
                pool = [*results.fitted[metric][:, split], cell.metric]
                score = float(type(cell.metric).pool_scores(pool)[-1])
            scores[metric].append(score)
    means = {}
    for metric, values in scores.items():
        unusable = results.unusable_splits[metric]
        means[metric] = float(np.mean([s for i, s in enumerate(values) if i not in unusable]))
    if results.consensus is not None:
        means[CONSENSUS] = twin_consensus(results, means, place)
    return means
