"""Race the candidates of the tiny benchmark, and compare the winners with its references.

Run from the root of the repository, as often as it takes; what is done is not done again::

    python benchmarks/racing_on_tiny_benchmark.py --work FOLDER --mnist path/to/mnist_5k.csv.gz
    python benchmarks/racing_on_tiny_benchmark.py --work FOLDER --merge
    python benchmarks/racing_on_tiny_benchmark.py --report

A race gets the training images of one seed, and nothing else. What its winner is worth is the mean
test accuracy after the fine-tunings of the *other* seeds, which are in the package. ``--merge``
writes ``racing_on_tiny_benchmark.csv`` beside this script, ``--report`` and ``--page`` read it.

Who starts is told by a decision set that was calibrated on the other two targets.

The rule of the race was chosen on digits and Fashion-MNIST with 50, 100 and 1,000 images; MNIST and
300 images were kept out.
"""

import argparse
import csv
import json
import os
import sys
import time
import warnings
from pathlib import Path

import build_tiny_benchmark as build
import numpy as np
import recommendation_on_tiny_benchmark as recommendation
import tiny_benchmark_targets as data
import torch
from filelock import FileLock, Timeout

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.finetune import FineTuneClassifier
from sktransfer.model_selection import HalvingTransferabilitySelector

TABLE = Path(__file__).with_suffix(".csv")
BUDGET = 0.15
#: What the race begins with: a good metric, a better consensus, and a metric that says nothing of
#: few images, to see what the race makes of it.
STARTS = {"logme": "logme", "logme+pactran": ["logme", "pactran"], "etran": "etran"}
RULES = {"logme+pactran": "consensus, nats: LogME, PACTran"}
COLUMNS = (
    "start",
    "target",
    "train_size",
    "seed",
    "by_metric",
    "winner",
    "n_in_set",
    "n_raced",
    "n_rounds",
    "cost",
    "refit_cost",
    "cpu_seconds",
    "cpu_seconds_of_all",
)
LEAST_CEILING = 0.6
KEPT_OUT = ("mnist", 300)


def calibration_without(target, start):
    """Learn from the other targets which candidates may be the best."""
    benchmark = load_tiny_benchmark()
    cells = [c for c in recommendation.all_cells(benchmark) if c.target != target]
    return recommendation.calibrated(benchmark, cells, RULES.get(start, start))


def race_cell(target, train_size, seed, start, folder):
    """Run one race.

    Parameters
    ----------
    target : Target
        The target.
    train_size, seed : int
        Which images; the seed is that of the race, too.
    start : str
        One of ``STARTS``.
    folder : Path
        Where trainings are kept.

    Returns
    -------
    row : dict
        Values of ``COLUMNS``.
    """
    X, y = build.training_rows(target, train_size, seed)
    template = FineTuneClassifier(
        None, lr=build.LEARNING_RATE, max_epochs=build.EPOCHS[train_size], device="cpu"
    )
    candidates = build.candidates_of(target)
    race = HalvingTransferabilitySelector(
        candidates,
        metric=STARTS[start],
        estimator=template,
        budget=BUDGET,
        start=calibration_without(target.name, start),
        refit=False,
        out=folder,
        random_state=seed,
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of metrics that say nothing of few images
        race.fit(X, y)
    seconds = time.process_time() - begin
    ranks = race.metric_ranks_
    return {
        "start": start,
        "target": target.name,
        "train_size": train_size,
        "seed": seed,
        "by_metric": min(ranks, key=ranks.get),
        "winner": race.best_name_,
        "n_in_set": len(race.decision_set_),
        "n_raced": int(np.sum(race.history_["round"] == 1)),
        "n_rounds": race.n_rounds_,
        "cost": round(race.cost_, 4),
        "refit_cost": round(race.refit_cost_, 4),
        "cpu_seconds": round(seconds, 2),
        "cpu_seconds_of_all": round(seconds_of_all(candidates, template, X, y), 1),
    }


def seconds_of_all(candidates, template, X, y):
    """Say how long fine-tuning all candidates takes, from two epochs of one of each width."""
    by_width = {}
    for _, backbone in candidates:
        width = backbone.card.width
        if width not in by_width:
            trained = FineTuneClassifier(**{**template.get_params(), "backbone": backbone})
            trained.partial_fit(X, y, n_epochs=1)
            begin = time.process_time()
            trained.partial_fit(X, y, n_epochs=2)
            by_width[width] = (time.process_time() - begin) / 2
    return template.max_epochs * sum(by_width[b.card.width] for _, b in candidates)


def work_on(work, files, starts, targets, seeds):
    """Run every race that is neither done nor being done by another process."""
    loaded = {}
    cells = [
        (start, target, size, seed)
        for start in starts
        for seed in seeds
        for size in build.TRAIN_SIZES
        for target in targets
    ]
    for start, name, size, seed in cells:
        path = result_path(work, start, name, size, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(path.with_suffix(".lock"), timeout=0):
                if path.exists():
                    continue
                if name not in loaded:
                    loaded[name] = data.load_target(name, files)
                folder = work / "races" / f"{start}-{name}-{size}-{seed}"
                row = race_cell(loaded[name], size, seed, start, folder)
                build.write_json(path, row)
        except Timeout:
            continue
        print(", ".join(map(str, row.values())), flush=True)


def result_path(work, start, target, size, seed):
    """Say where the result of a race is."""
    return work / "rows" / f"{start}-{target}-{size}-{seed}.json"


def merge(work):
    """Write the table."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in (work / "rows").glob("*.json")]
    targets = list(build.TARGETS)
    rows.sort(
        key=lambda r: (
            list(STARTS).index(r["start"]),
            targets.index(r["target"]),
            r["train_size"],
            r["seed"],
        )
    )
    with open(TABLE, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} races in {TABLE.name}")


# -- report ----------------------------------------------------------------------------------------


def read_table():
    """Read the table.

    Returns
    -------
    rows : list of dict
        Values of ``COLUMNS``, numbers where they are numbers.
    """
    numbers = dict.fromkeys(COLUMNS[-4:], float)
    numbers |= dict.fromkeys(("train_size", "seed", "n_in_set", "n_raced", "n_rounds"), int)
    with open(TABLE, newline="", encoding="utf-8") as file:
        return [
            {name: numbers.get(name, str)(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def summary(rows):
    """Say what races have lost, beside their metric and one fine-tuning of all candidates.

    Parameters
    ----------
    rows : list of dict
        The table.

    Yields
    ------
    part : dict
        ``start``, ``cells``, number of ``races``, mean regrets of the ``race``, of the ``metric``
        alone and of fine-tuning ``all`` once, in points, ``p95`` of the race, how often the
        ``best`` was found, how often the metric was ``overruled``, ``cost``, its ``most``, and
        seconds as a share of those of fine-tuning everything (``cpu``).
    """
    benchmark = load_tiny_benchmark()
    ceilings = {}

    def regret(row, choice):
        others = benchmark.reference(
            row["target"], train_size=row["train_size"], without_seed=row["seed"]
        )
        return 100 * (max(others.values()) - others[choice])

    def ceiling(row):
        cell = row["target"], row["train_size"]
        if cell not in ceilings:
            ceilings[cell] = benchmark.ceiling(cell[0], train_size=cell[1])
        return ceilings[cell]

    for start in dict.fromkeys(row["start"] for row in rows):
        those = [
            row for row in rows if row["start"] == start and ceiling(row).kendall >= LEAST_CEILING
        ]
        out = [row for row in those if row["target"] == KEPT_OUT[0] or row["train_size"] == 300]
        parts = {"all": those}
        for target in dict.fromkeys(row["target"] for row in those):
            parts[target] = [row for row in those if row["target"] == target]
        parts["rule chosen on"] = [row for row in those if row not in out]
        parts["rule kept out"] = out
        for cells, part in parts.items():
            race = [regret(row, row["winner"]) for row in part]
            yield {
                "start": start,
                "cells": cells,
                "races": len(part),
                "race": np.mean(race),
                "metric": np.mean([regret(row, row["by_metric"]) for row in part]),
                "all": np.mean([100 * ceiling(row).regret_by_seed[row["seed"]] for row in part]),
                "p95": np.percentile(race, 95),
                "best": np.mean([r == 0 for r in race]),
                "overruled": sum(row["winner"] != row["by_metric"] for row in part),
                "cost": np.mean([row["cost"] for row in part]),
                "most": max(row["cost"] for row in part),
                "cpu": sum(row["cpu_seconds"] for row in part)
                / sum(row["cpu_seconds_of_all"] for row in part),
            }


def report(rows):
    """Print the summary."""
    print(f"{'':32} n    race metric    all   p95  best found overruled  cost   most   of seconds")
    for part in summary(rows):
        print(
            "{start:15} {cells:15} {races:2}   {race:5.2f} {metric:5.2f} {all:6.2f} {p95:6.2f} "
            "   {best:.2f}       {overruled:2}      {cost:.3f}  {most:.3f}  {cpu:.3f}".format(
                **part
            )
        )


def page(rows):
    """Write the table of the documentation."""
    titles = {
        "start": "first by",
        "cells": "cells",
        "races": "races",
        "race": "the race",
        "metric": "metric alone",
        "all": "one fine-tuning of all",
        "overruled": "overruled",
        "cost": "cost, %",
    }
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 18 16 8 11 14 17 10 9", ""]
    for part in [titles, *summary(rows)]:
        cells = dict(part)
        if part is not titles:
            for name in ("race", "metric", "all"):
                cells[name] = f"{part[name]:.2f}"
            cells["cost"] = f"{100 * part['cost']:.1f}"
        lines += [f"   {'* -' if name == 'start' else '  -'} {cells[name]}" for name in titles]
    return "\n".join(lines)


def main():
    """Read the command line and race."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, help="folder of what is computed")
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mnist", default=build._default_mnist(), help="file mnist_5k.csv.gz")
    parser.add_argument("--start", action="append", choices=list(STARTS), help="repeatable")
    parser.add_argument("--only", action="append", choices=build.TARGETS, help="repeatable")
    parser.add_argument("--seed", action="append", type=int, help="repeatable")
    parser.add_argument("--merge", action="store_true", help="write the table")
    parser.add_argument("--report", action="store_true", help="print what the table says")
    parser.add_argument("--page", action="store_true", help="print the table of the documentation")
    arguments = parser.parse_args()
    if arguments.report or arguments.page:
        print(page(read_table())) if arguments.page else report(read_table())
        return
    if arguments.work is None:
        parser.error("--work is needed")
    if arguments.merge:
        merge(arguments.work)
        return
    if any(os.environ.get(variable) != "1" for variable in build.THREADS):
        sys.exit(f"Set {', '.join(build.THREADS)} to 1: sums are made in one order then.")
    torch.set_num_threads(1)
    work_on(
        arguments.work,
        data.sources.SourceFiles(arguments.fashion, arguments.mnist),
        arguments.start or list(STARTS),
        arguments.only or build.TARGETS,
        arguments.seed or build.SEEDS,
    )


if __name__ == "__main__":
    main()
