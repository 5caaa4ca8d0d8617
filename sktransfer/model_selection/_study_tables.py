"""Tables of a robustness study: cells, rankings, stability and agreement as data frames."""

from itertools import combinations, groupby
from operator import attrgetter

import numpy as np

from ..evaluation import (
    competition_ranks,
    stability_inter,
    stability_intra,
    stability_ref,
)
from ._study_reference import reference_for

__all__ = [
    "CELL_COLUMNS",
    "StudyTables",
]

CELL_COLUMNS = (
    "target",
    "metric",
    "candidate",
    "fraction",
    "repeat",
    "n_samples",
    "score",
    "status",
    "reason",
    "seconds",
)
_FULL = 1.0


class StudyTables:
    """Frames of the cells of a study.

    Parameters
    ----------
    rows : list of CellRow
        The cells, sorted, with their scores.
    pools : dict of str to list of str
        For each target the candidates that belong to it.
    """

    def __init__(self, rows, pools):
        self.rows = rows
        self.pools = {target: sorted(pool) for target, pool in pools.items()}
        self._cells = {row[:5]: row for row in rows}

    @property
    def targets(self):
        """Names of the targets that have cells."""
        return sorted({row.target for row in self.rows})

    def cells(self):
        """All cells.

        Returns
        -------
        frame : pandas.DataFrame
            A row per cell.
        """
        columns = {name: [getattr(row, name) for row in self.rows] for name in CELL_COLUMNS}
        return _frame(columns, ("fraction", "score", "seconds"), ("repeat", "n_samples"))

    def rankings(self):
        """Ranks of the candidates.

        Returns
        -------
        frame : pandas.DataFrame
            A row per target, metric and subset.
        """
        keys = {name: [] for name in ("target", "metric", "fraction", "repeat")}
        names = sorted({name for pool in self.pools.values() for name in pool})
        ranks = {name: [] for name in names}
        for (target, metric), subsets in self._blocks():
            for (fraction, repeat), scores in subsets.items():
                for key, value in zip(keys, (target, metric, fraction, repeat), strict=True):
                    keys[key].append(value)
                values = np.array([scores.get(name, np.nan) for name in names])
                own = competition_ranks(values).astype(float)
                own[np.isnan(values)] = np.nan
                for name, rank in zip(names, own, strict=True):
                    ranks[name].append(rank)
        return _frame(keys | ranks, ("fraction", *names), ("repeat",))

    def agreement(self, references, coefficient, nan_policy):
        """Correlate scores with references.

        Parameters
        ----------
        references : dict of str to dict of str to float
            By target and candidate.
        coefficient, nan_policy : str
            As in :func:`~sktransfer.evaluation.stability_ref`.

        Returns
        -------
        frame : pandas.DataFrame
            A row per target, metric and subset.
        """
        columns = ("target", "metric", "fraction", "repeat", "value", "reason")
        found = []
        for (target, metric), subsets in self._blocks():
            reference = reference_for(references[target], self.pools[target], target)
            for fraction, table in self._tables(target, subsets).items():
                for repeat in table.index:
                    result = stability_ref(
                        table.loc[[repeat]],
                        reference,
                        coefficient,
                        nan_policy=nan_policy,
                        n_resamples=0,
                    )
                    reason = next(iter(result.reasons.values()), None)
                    reason = self._explained(reason, target, [metric], [(fraction, repeat)])
                    found.append((target, metric, fraction, repeat, result.statistic, reason))
        return _frame_of_rows(columns, found, ("fraction", "value"), ("repeat",))

    def stability(self, kind, coefficient, nan_policy, references=None):
        """Compute one of the three stabilities for each target, metric and fraction.

        Parameters
        ----------
        kind : {"intra", "ref", "inter"}
            Which.
        coefficient, nan_policy : str
            As in :func:`~sktransfer.evaluation.stability_intra`.
        references : dict of str to dict of str to float, default=None
            For "ref"; scores on the whole target if None.

        Returns
        -------
        frame : pandas.DataFrame
            A row per target, metric (or pair of metrics) and fraction.
        """
        options = {"nan_policy": nan_policy, "n_resamples": 0}
        names = ("metric_a", "metric_b") if kind == "inter" else ("metric",)
        rest = ("fraction", "value", "n_repeats", "n_undefined", "reason")
        found = []
        for target, metrics in groupby(self._blocks(), key=lambda block: block[0][0]):
            blocks = {metric: subsets for (_, metric), subsets in metrics}
            for chosen in combinations(blocks, len(names)):
                tables = [self._tables(target, blocks[metric]) for metric in chosen]
                for fraction in sorted(set.intersection(*map(set, tables))):
                    frames = [table[fraction] for table in tables]
                    if kind == "intra":
                        if fraction == _FULL and len(frames[0]) == 1:
                            continue  # the whole target is not drawn
                        result = stability_intra(*frames, coefficient, **options)
                    elif kind == "inter":
                        both = frames[0].index.intersection(frames[1].index)
                        frames = [frame.loc[both] for frame in frames]
                        result = stability_inter(*frames, coefficient, **options)
                    else:
                        if references is None and fraction == _FULL:
                            continue  # it is the reference itself
                        reference = (
                            self._on_all(target, blocks[chosen[0]])
                            if references is None
                            else reference_for(references[target], self.pools[target], target)
                        )
                        result = stability_ref(*frames, reference, coefficient, **options)
                    repeats = [(fraction, repeat) for repeat in frames[0].index]
                    used = repeats
                    if kind == "ref" and references is None:
                        used = [*repeats, (_FULL, 0)]
                    reason = self._explained(result.reason, target, chosen, used)
                    found.append(
                        (target, *chosen, fraction, result.statistic)
                        + (len(repeats), result.n_undefined, reason)
                    )
        columns = ("target", *names, *rest)
        return _frame_of_rows(columns, found, ("fraction", "value"), ("n_repeats", "n_undefined"))

    # -- parts ----------------------------------------------------------------------------------

    def _blocks(self):
        """Give for each target and metric the scores by subset and candidate."""
        for key, rows in groupby(self.rows, key=attrgetter("target", "metric")):
            subsets = {}
            for row in rows:
                score = np.nan if row.score is None else row.score
                subsets.setdefault(row.subset, {})[row.candidate] = score
            yield key, dict(sorted(subsets.items()))

    def _tables(self, target, subsets):
        """Give for each fraction a frame with a row per repeat and a column per candidate."""
        import pandas as pd

        tables = {}
        for (fraction, repeat), scores in subsets.items():
            row = [scores.get(name, np.nan) for name in self.pools[target]]
            tables.setdefault(fraction, {})[repeat] = row
        return {
            fraction: pd.DataFrame.from_dict(rows, orient="index", columns=self.pools[target])
            for fraction, rows in tables.items()
        }

    def _on_all(self, target, subsets):
        scores = subsets.get((_FULL, 0), {})
        return {name: scores.get(name, np.nan) for name in self.pools[target]}

    def _explained(self, reason, target, metrics, subsets):
        """Add to a reason why the first of the scores that are not there is not."""
        if reason is None or "no score" not in reason and "no reference" not in reason:
            return reason or ""
        for subset in sorted(subsets):
            for name in self.pools[target]:
                for metric in metrics:
                    cell = self._cells.get((target, metric, name, *subset))
                    if cell is None or cell.reason:
                        return f"{reason} ({'not computed' if cell is None else cell.reason})"
        return reason


def _frame(columns, floats, integers):
    import pandas as pd

    dtypes = dict.fromkeys(floats, np.float64) | dict.fromkeys(integers, np.int64)
    return pd.DataFrame(
        {
            name: np.array(values, dtype=dtypes[name]) if name in dtypes else values
            for name, values in columns.items()
        }
    )


def _frame_of_rows(names, rows, floats, integers):
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return _frame(columns, floats, integers)
