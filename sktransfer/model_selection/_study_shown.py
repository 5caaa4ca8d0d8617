"""What a study shows of its store: its own cells, with scores relative to its own pool."""

import numpy as np

from ._metric_collection import is_relative_to_pool
from ._study_cells import with_parts
from ._study_tables import StudyTables

__all__ = ["combine_pools", "combined", "shown_tables"]

_NO_POOL_SCORE = "Its parts are not finite, so that it has no score in its pool."


def combined(rows, metric, pool):
    """Combine the parts of a pool of candidates into scores, subset by subset.

    Parameters
    ----------
    rows : list of CellRow
        Cells of one target by one metric that is relative to a pool.
    metric : metric
        The metric.
    pool : collection of str
        Names of all candidates that belong to the pool.

    Returns
    -------
    rows : list of CellRow
        With their scores, of subsets on which no candidate of the pool is missing.
    """
    pool, by_subset = sorted(pool), {}
    for row in rows:
        if row.candidate in pool:
            by_subset.setdefault(row.subset, {})[row.candidate] = row
    found = []
    for cells in by_subset.values():
        if len(cells) < len(pool):
            continue
        fitted = [
            None if cells[name].parts is None else with_parts(metric, cells[name].parts)
            for name in pool
        ]
        scores = [np.nan] * len(pool)
        if any(part is not None for part in fitted):
            scores = type(metric).pool_scores(fitted)
        for name, score in zip(pool, scores, strict=True):
            row = cells[name]
            if row.parts is not None:
                row = row._replace(score=float(score), status="done", reason="")
                if np.isnan(score):
                    row = row._replace(score=None, status="failed", reason=_NO_POOL_SCORE)
            found.append(row)
    return sorted(found, key=lambda row: row[:5])


def combine_pools(store, target, metrics):
    """Write scores relative to all candidates of a target, for those who only read the store.

    Parameters
    ----------
    store : StudyStore
        The store.
    target : str
        Name of the target.
    metrics : dict of str to metric
        The metrics.
    """
    pool, rows = store.candidates()[target], store.cells(target)
    for name, metric in metrics.items():
        if is_relative_to_pool(metric):
            own = [row for row in rows if row.metric == name]
            store.combine(combined(own, metric, pool))


def shown_tables(store, candidates, metrics, ran):
    """Select what a study shows.

    Parameters
    ----------
    store : StudyStore
        The store.
    candidates : set of str
        Names of the study's candidates; all if there are none.
    metrics : dict of str to metric
        Its metrics; all of the store if there are none, as they were combined last.
    ran : dict of str to (list of (float, int), list of str)
        For each target that was run by it, the subsets and candidates of that run.

    Returns
    -------
    tables : StudyTables
        Its cells.
    """
    relative = {name: is_relative for name, (*_, is_relative) in store.metrics().items()}
    pools, subsets = {}, {}
    for target, known in store.candidates().items():
        pools[target] = set(known).intersection(candidates or known)
        if target in ran:
            keys, pool = ran[target]
            subsets[target] = set(keys)
            pools[target] &= set(pool)
    found, parts = [], {}
    for row in store.cells():
        is_own = row.candidate in pools[row.target] and row.metric in (metrics or relative)
        if not is_own or row.subset not in subsets.get(row.target, {row.subset}):
            continue
        if not relative[row.metric]:
            found.append(row)
        elif metrics:
            parts.setdefault((row.target, row.metric), []).append(row)
        elif row.score is not None or row.status == "failed":
            found.append(row)
    for (target, name), rows in parts.items():
        found += combined(rows, metrics[name], pools[target])
    return StudyTables(sorted(found, key=lambda row: row[:5]), pools)
