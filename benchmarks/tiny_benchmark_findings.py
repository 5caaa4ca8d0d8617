"""Tables and figures of the findings page, from the store of ``study_tiny_benchmark.py``.

``scores.csv.gz`` has every score of the study, and all tables and figures are made from it: they
can be made again without the store, and a test of the package does so with the tables.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import (
    competition_ranks,
    rank_correlation,
    stability_inter,
    stability_intra,
    stability_ref,
)
from sktransfer.model_selection import RobustnessStudy

SCORES = "scores.csv.gz"
KEYS = ["target", "candidate", "fraction", "repeat"]
COEFFICIENTS = ("kendall", "weighted_kendall", "spearman")
REFERENCE_SIZE = 1000
# The metrics of the published study.
PUBLISHED = ("hscore", "leep", "logme", "ncti", "nleep", "parc", "sfda")
ONE_VALUE = {"n_resamples": 0}
LARGEST_CHANGE = 0.03


def write_report(work, folder):
    """Write scores, tables and figures.

    Parameters
    ----------
    work : Path
        Where the store is.
    folder : Path
        Where they go.
    """
    import tiny_benchmark_figures as figures

    folder.mkdir(parents=True, exist_ok=True)
    study = RobustnessStudy.open(work / "study.sqlite")
    scores = scores_of(study)
    scores.to_csv(
        folder / SCORES,
        index=False,
        float_format="%.6g",
        compression={"method": "gzip", "mtime": 0},
    )
    findings = Findings(folder / SCORES)
    check_digits(study, findings)
    for name, table in findings.tables().items():
        table.to_csv(folder / f"{name}.csv", float_format="%.2f")
    figures.draw(findings, folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:8} bytes  {path.name}")


def scores_of(study):
    """Give the scores of a study, by those metrics that have been computed for every target.

    Parameters
    ----------
    study : RobustnessStudy
        The study.

    Returns
    -------
    scores : DataFrame of shape (n_rows, 4 + n_metrics)
        A row per target, candidate and subset, a column per metric.
    """
    benchmark = load_tiny_benchmark()
    cells = study.to_frame()
    frame = cells.pivot(index=KEYS, columns="metric", values="score")
    wanted = [
        (target, candidate)
        for target in benchmark.targets
        for candidate in benchmark.candidates(target)
    ]
    found = set(zip(*(frame.index.get_level_values(key) for key in KEYS[:2]), strict=True))
    if found != set(wanted):
        sys.exit("Targets or candidates of the study are missing.")
    done = [metric for metric in frame if len(cells[cells["metric"] == metric]) == len(frame)]
    if missing := sorted(set(benchmark.metrics) - set(done)):
        print(f"Not computed for all targets, and left out: {', '.join(missing)}.")
    order = {pair: place for place, pair in enumerate(wanted)}
    rows = sorted(frame.index, key=lambda row: (order[row[:2]], *row[2:]))
    return frame.loc[rows, done].reset_index()


def read_scores(path):
    """Read what :func:`scores_of` gave.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    scores : DataFrame
        The scores, to six digits.
    """
    return pd.read_csv(path)


def check_digits(study, findings):
    """See that six digits leave rankings as they were, but for some ties.

    Parameters
    ----------
    study : RobustnessStudy
        The study.
    findings : Findings
        What is found in its scores as they were written.
    """
    keys = ["target", "metric", "fraction"]
    both = study.stability("intra").merge(findings.intra(), on=keys, suffixes=("", "_written"))
    difference = (both["value"] - both["value_written"]).abs()
    worst = both.loc[difference.idxmax(), keys].tolist()
    print(f"Stability changes by {difference.max():.3f} at most when rounded scores tie: {worst}.")
    if difference.max() > LARGEST_CHANGE:
        sys.exit("That is too much.")


class Findings:
    """Stability and agreement, by target, metric and fraction.

    Parameters
    ----------
    path : Path
        File of the scores.
    """

    def __init__(self, path):
        self.scores = read_scores(path)
        self.benchmark = load_tiny_benchmark()
        self.targets = self.benchmark.targets
        self.metrics = self.scores.columns.drop(KEYS).tolist()
        self.fractions = sorted(self.scores["fraction"].unique())
        self.drawn = self.fractions[:-1]
        self._tables = {
            (target, metric, fraction): rows.pivot(
                index="repeat", columns="candidate", values=metric
            )[list(self.benchmark.candidates(target))]
            for (target, fraction), rows in self.scores.groupby(["target", "fraction"])
            for metric in self.metrics
        }

    def table(self, target, metric, fraction):
        """Give scores of the repeats, a row each, with a column per candidate."""
        return self._tables[target, metric, fraction]

    def reference(self, target, measure="accuracy", **cell):
        """Give the mean over seeds after fine-tuning on 1,000 images, or as the cell says."""
        return self.benchmark.reference(target, measure, **{"train_size": REFERENCE_SIZE, **cell})

    # -- in the form of RobustnessStudy.stability ------------------------------------------------

    def intra(self, coefficient="kendall"):
        """Agreement of repeats with each other."""
        return self._frame(
            lambda target, metric, fraction: stability_intra(
                self.table(target, metric, fraction), coefficient, **ONE_VALUE
            ),
            self.drawn,
        )

    def full(self, coefficient="kendall"):
        """Agreement of repeats with the ranking on all of the target."""
        return self._frame(
            lambda target, metric, fraction: stability_ref(
                self.table(target, metric, fraction),
                self.table(target, metric, 1.0).iloc[0],
                coefficient,
                **ONE_VALUE,
            ),
            self.drawn,
        )

    def agreement(self, measure="accuracy", coefficient="kendall"):
        """Agreement with the reference."""
        return self._frame(
            lambda target, metric, fraction: stability_ref(
                self.table(target, metric, fraction),
                self.reference(target, measure),
                coefficient,
                **ONE_VALUE,
            ),
            self.fractions,
        )

    def inter(self, coefficient="kendall", metrics=None, fractions=None):
        """Agreement of metrics with each other on the same subsets."""
        metrics = self.metrics if metrics is None else metrics
        rows = []
        for target in self.targets:
            for fraction in self.fractions if fractions is None else fractions:
                for place, first in enumerate(metrics):
                    for second in metrics[place + 1 :]:
                        tables = [self.table(target, m, fraction) for m in (first, second)]
                        found = stability_inter(*tables, coefficient, **ONE_VALUE)
                        row = target, first, second, fraction, found.statistic, found.reason or ""
                        rows.append((*row, found.n_undefined))
        names = ["target", "metric_a", "metric_b", "fraction", "value", "reason", "n_undefined"]
        return pd.DataFrame(rows, columns=names)

    def _frame(self, compare, fractions):
        rows = []
        for target in self.targets:
            for metric in self.metrics:
                for fraction in fractions:
                    found = compare(target, metric, fraction)
                    row = target, metric, fraction, found.statistic, found.reason or ""
                    rows.append((*row, found.n_undefined))
        names = ["target", "metric", "fraction", "value", "reason", "n_undefined"]
        return pd.DataFrame(rows, columns=names)

    # -- tables of the page ----------------------------------------------------------------------

    def tables(self):
        """Make all tables of the page.

        Returns
        -------
        tables : dict of str to DataFrame
            By the name of the file. Means are over targets.
        """
        intra, full = self.intra(), self.full()
        by_measure = {
            "accuracy": self.agreement("accuracy"),
            "AUROC": self.agreement("roc_auc_ovr"),
        }
        return {
            "stability": _side_by_side({"": intra, "all: ": full}, order=intra),
            "agreement": _side_by_side(
                {f"{measure} ": found for measure, found in by_measure.items()},
                order=by_measure["accuracy"],
            ),
            "between_metrics": _percent_columns(
                self.inter().groupby(["target", "fraction"], sort=False)["value"].mean().unstack()
            ),
            "references": self.references(),
            "agreement_of_some": self.agreement_of_some(),
        }

    def agreement_of_some(self):
        """Average agreement on all images over the published study's metrics.

        Returns
        -------
        table : DataFrame
            A row per target; for all candidates, the twelve best, and pretrained ones of one width.
        """
        facts = self.benchmark.candidate_facts
        rows = {}
        for target in self.targets:
            accuracy = self.reference(target)
            pools = {
                "all candidates": list(accuracy),
                "the twelve best": sorted(accuracy, key=accuracy.get, reverse=True)[:12],
                "one width, pretrained": [
                    name
                    for name in accuracy
                    if facts[name]["pretrained"] and facts[name]["width"] == 1
                ],
            }
            rows[target] = {
                title: np.mean([self._on_all(target, metric, pool) for metric in PUBLISHED])
                for title, pool in pools.items()
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("target")

    def _on_all(self, target, metric, pool):
        accuracy = self.reference(target)
        scores = self.table(target, metric, 1.0)[pool]
        return stability_ref(scores, {name: accuracy[name] for name in pool}, **ONE_VALUE).statistic

    def references(self):
        """Compare references with each other.

        Returns
        -------
        table : DataFrame
            A row per target and pair of references.
        """
        rows = []
        for target in self.targets:
            full = self.reference(target)
            pairs = {
                "accuracy, AUROC": (full, self.reference(target, "roc_auc_ovr")),
                "accuracy, log loss": (full, self.reference(target, "neg_log_loss")),
                "1,000 images, 50": (full, self.reference(target, train_size=50)),
            }
            for size in (50, REFERENCE_SIZE):
                label = f"two seeds, {size:,} images"
                pairs[label] = [
                    [self.reference(target, train_size=size, seed=seed) for seed in pair]
                    for pair in _pairs(self.benchmark.seeds)
                ]
            for label, pair in pairs.items():
                several = pair if isinstance(pair, list) else [pair]
                rows.append((target, label, *np.mean([_compared(*both) for both in several], 0)))
        names = ["target", "references", "τ", "weighted τ", "ρ", "moved"]
        table = pd.DataFrame(rows, columns=names).set_index("target")
        table["moved"] = [f"{100 * share:.0f} %" for share in table["moved"]]
        return table


def _pairs(items):
    return [(a, b) for place, a in enumerate(items) for b in items[place + 1 :]]


def _compared(first, second):
    """Three coefficients of two references, and the share of candidates whose rank differs."""
    options = {"n_resamples": 0, "n_permutations": 0}
    values = [float(rank_correlation(first, second, c, **options)) for c in COEFFICIENTS]
    ranks = [competition_ranks([side[name] for name in first]) for side in (first, second)]
    return [*values, np.mean(ranks[0] != ranks[1])]


def _side_by_side(frames, order):
    """Put means over targets into columns, a metric per row, those that agree most first."""
    means = [
        _percent_columns(frame.groupby(["metric", "fraction"])["value"].mean().unstack(), prefix)
        for prefix, frame in frames.items()
    ]
    rows = order.groupby("metric")["value"].mean().sort_values(ascending=False).index
    return pd.concat(means, axis=1).loc[rows]


def _percent_columns(table, prefix=""):
    table.columns = [f"{prefix}{100 * fraction:g} %" for fraction in table.columns]
    return table


if __name__ == "__main__":
    print(*Findings(Path(sys.argv[1])).tables().values(), sep="\n")
