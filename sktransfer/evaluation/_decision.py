"""Learning from references which candidates may be the best after fine-tuning."""

import math
import numbers
import warnings

import numpy as np

from ..exceptions import FewReferencesWarning
from ._correlation import check_option
from ._decision_set import DecisionCalibration, distances, limit
from ._pairing import listed, pair_scores

__all__ = ["calibrate_decision_set"]

_RULES = ("margin", "rank")


def calibrate_decision_set(
    scores,
    references,
    targets,
    *,
    level=0.9,
    rule="margin",
    greater_is_better=True,
    train_sizes=None,
    metric=None,
    description=None,
):
    """Learn from references which candidates may be the best after fine-tuning.

    A *cell* is one ranking of candidates by a metric, with what fine-tuning made of them. In each
    cell it is known how far below the highest score the candidate that turned out best was. For
    each target the threshold is the quantile of these distances (conformal: of n cells the
    ``ceil((n + 1) * level)``-th smallest), and the largest one over the targets is taken, because
    the next target may be like the worst of them. How often that works is measured on each target
    with a threshold learned from the others.

    Read more in the :ref:`User Guide <recommendation>`.

    Parameters
    ----------
    scores : sequence of mapping, series or array-like
        For each cell the scores by candidate, higher is better.
    references : sequence of mapping, series or array-like
        For each cell the performance of the same candidates after fine-tuning. To be honest it has
        to come from other training runs and test samples than the scores know of.
    targets : sequence of hashable
        For each cell the target that it belongs to. Cells of one target (numbers of training
        samples, seeds) are never used to judge each other.
    level : float, default=0.9
        In how many cells the set shall hold the best candidate, in (0, 1).
    rule : {"margin", "rank"}, default="margin"
        Distance from the best score: in units of the metric, which does not depend on how many
        candidates there are; or in ranks, the number of candidates with a higher score.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    train_sizes : sequence of int, default=None
        For each cell the number of samples that scores and references come from.
    metric : str, default=None
        What the scores are called, for messages.
    description : str, default=None
        What kind of candidates and data they are, for messages.

    Returns
    -------
    calibration : DecisionCalibration
        The rule, with :meth:`~DecisionCalibration.decision_set`, and its measured coverage.

    Raises
    ------
    ValueError
        If the numbers of cells differ, there is none, a cell has no reference, or a parameter is
        not one of its values.

    Warns
    -----
    FewReferencesWarning
        If a target has too few cells for the level, so that sets hold everyone, or there is one
        target only, so that the coverage can't be measured.

    See Also
    --------
    selection_uncertainty : The other promise, about other samples of the same target.

    Notes
    -----
    Of several candidates that are equally good after fine-tuning one in the set is enough. A best
    candidate without a score is out of reach for any threshold. With fewer than
    ``level / (1 - level)`` cells of a target its quantile is infinite, and the set holds everyone.
    A guarantee for new targets would need many of them. With a few the coverage is a measurement,
    as good as these targets are like the next one.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random World",
       Springer (2005).

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_benchmark
    >>> from sktransfer.evaluation import calibrate_decision_set
    >>> benchmark = load_tiny_benchmark()
    >>> cells = [cell for cell in benchmark.cells if cell[1] == 300]
    >>> scores, references = [], []
    >>> for target, size, seed in cells:
    ...     cell = {"target": target, "train_size": size}
    ...     scores.append(benchmark.scores("logme", **cell, seed=seed))
    ...     references.append(benchmark.reference(**cell, without_seed=seed))
    >>> calibration = calibrate_decision_set(
    ...     scores, references, [target for target, _, _ in cells], level=0.8
    ... )
    >>> round(calibration.coverage, 2), round(calibration.share, 2)
    (0.93, 0.04)
    """
    check_option("rule", rule, _RULES)
    if not _is_level(level):
        raise ValueError(f"'level' must be a number between 0 and 1, exclusive. Got {level!r}.")
    cells = _read_cells(scores, references, targets, train_sizes, greater_is_better)
    needed = np.array([_needed(cell, rule) for cell in cells])
    groups = {}
    for place, cell in enumerate(cells):
        groups.setdefault(cell["target"], []).append(place)
    quantiles = {target: _quantile(needed[rows], level) for target, rows in groups.items()}
    by_target = {}
    held, shares = [], []
    for target, rows in groups.items():
        others = [value for other, value in quantiles.items() if other != target]
        threshold = max(others, default=math.nan)
        if others:
            hits = needed[rows] <= limit(threshold)
            sizes = [_share(cells[row], rule, threshold) for row in rows]
        else:
            hits = sizes = [math.nan]
        held.extend(hits)
        shares.extend(sizes)
        by_target[target] = {
            "coverage": float(np.mean(hits)),
            "share": float(np.mean(sizes)),
            "threshold": float(threshold),
            "n_cells": len(rows),
        }
    _warn_of_few(groups, level)
    counts = [len(cell["scores"]) for cell in cells]
    sizes = [] if train_sizes is None else [cell["train_size"] for cell in cells]
    return DecisionCalibration(
        rule=rule,
        threshold=float(max(quantiles.values())),
        level=float(level),
        coverage=float(np.mean(held)),
        share=float(np.mean(shares)),
        by_target=by_target,
        n_cells=len(cells),
        n_candidates=(min(counts), max(counts)),
        train_sizes=tuple(sorted(set(sizes))),
        metric=metric,
        description=description,
    )


def _warn_of_few(groups, level):
    needed = math.ceil(level / (1 - level) - 1e-9)
    few = {t: len(rows) for t, rows in groups.items() if len(rows) < needed}
    if few:
        found = ", ".join(f"{count} of {target!r}" for target, count in few.items())
        warnings.warn(
            f"level={level:g} takes at least {needed} cells of each target (got {found}), so "
            "decision sets hold every candidate.",
            FewReferencesWarning,
            stacklevel=3,
        )
    if len(groups) == 1:
        (target,) = groups
        warnings.warn(
            f"All cells are of one target, {target!r}, so it can't be measured how often decision "
            "sets hold the best candidate of another one.",
            FewReferencesWarning,
            stacklevel=3,
        )


def _read_cells(scores, references, targets, train_sizes, greater_is_better):
    columns = {"scores": scores, "references": references, "targets": targets}
    if train_sizes is not None:
        columns["train_sizes"] = train_sizes
    if isinstance(targets, str):
        raise ValueError(
            f"'targets' must have an entry for each cell. Got the string {targets!r} instead."
        )
    columns = {name: list(column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or not lengths["scores"]:
        found = ", ".join(f"{length} in {name!r}" for name, length in lengths.items())
        raise ValueError(f"There must be one entry per cell, at least one cell. Got {found}.")
    cells = []
    for place in range(lengths["scores"]):
        arguments = (f"scores[{place}]", f"references[{place}]")
        pair = pair_scores(scores[place], references[place], names=None, arguments=arguments)
        if len(pair.x) == 0 or pair.y_missing.any():
            lacking = [
                label for label, lacks in zip(pair.labels, pair.y_missing, strict=True) if lacks
            ]
            raise ValueError(
                f"'{arguments[1]}' must hold a reference of every candidate. "
                f"Got none{f' of {listed(lacking)}' if lacking else ''}."
            )
        reference = pair.y.astype(float)
        cells.append(
            {
                "target": columns["targets"][place],
                "train_size": int(columns["train_sizes"][place])
                if train_sizes is not None
                else None,
                "scores": np.where(pair.x_missing, np.nan, pair.x.astype(float)),
                "reference": reference if greater_is_better else -reference,
            }
        )
    return cells


def _is_level(level):
    return isinstance(level, numbers.Real) and not isinstance(level, bool) and 0 < float(level) < 1


def _needed(cell, rule):
    """Find the smallest threshold with which a candidate that is best in the end is in the set."""
    best = cell["reference"] == cell["reference"].max()
    return distances(cell["scores"], rule)[best].min()


def _quantile(needed, level):
    rank = math.ceil((len(needed) + 1) * level - 1e-9)
    return math.inf if rank > len(needed) else float(np.sort(needed)[rank - 1])


def _share(cell, rule, threshold):
    return float(np.mean(distances(cell["scores"], rule) <= limit(threshold)))
