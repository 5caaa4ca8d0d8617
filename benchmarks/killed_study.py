"""Kill a robustness study at random moments, resume it each time, and compare the final table.

Each run is a process of its own, killed by SIGKILL, and has one or two threads in turn. Run it
with ``python benchmarks/killed_study.py [n_kills] [seed]``. The tests have a shorter version.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.metrics import get_metric
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

METRICS = ["gbc", "hscore", "leep", "logme", "ncti", "parc", "sfda", "transrate"]
N_ROWS, N_COLUMNS, N_CLASSES = 600, 512, 4
TARGETS = ("one", "two")


def run(store):
    """Run the whole study, or what is left of it."""
    rng = np.random.default_rng(0)
    y = rng.integers(N_CLASSES, size=N_ROWS)
    means = rng.normal(size=(N_CLASSES, N_COLUMNS))
    candidates = []
    for n, scale in enumerate((2.0, 3.0, 4.0, 5.0, 6.0)):
        features = means[y] + rng.normal(scale=scale, size=(N_ROWS, N_COLUMNS))
        head = np.exp(features[:, :5] / 4)
        probabilities = head / head.sum(axis=1, keepdims=True) if n else None
        candidates.append((f"net{n}", PrecomputedFeatures(features, probabilities)))
    subsets = NestedStratifiedSubsets((0.2, 0.5, 0.8), n_repeats=3)
    study = RobustnessStudy(candidates, METRICS, subsets, store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # net0 has no head, which is a failed cell for leep
        for place, target in enumerate(TARGETS):
            study.run(np.arange(N_ROWS)[:, None], np.roll(y, -place), target=target)


def begin(store, n_threads):
    """Start a run in a process of its own."""
    threads = {f"{name}_NUM_THREADS": str(n_threads) for name in ("OMP", "OPENBLAS", "MKL")}
    command = [sys.executable, __file__, "--run", str(store)]
    return subprocess.Popen(command, env={**os.environ, **threads})


def table(store):
    """Give the final table without its timing column."""
    return RobustnessStudy.open(store).to_frame().drop(columns="seconds").to_csv(index=False)


def witness():
    """Say whether one and two threads give other bits where nobody limits them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_ROWS, N_COLUMNS)), rng.integers(N_CLASSES, size=N_ROWS)
    scores = set()
    for n_threads in (1, 2):
        with threadpool_limits(n_threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # features of chance say nothing
            scores.add(float(get_metric("hscore").fit(X, y).score_))
    return "the same" if len(scores) == 1 else "other"


def main(n_kills=20, seed=0):
    """Kill and resume."""
    print(f"Without a limit, one and two threads give {witness()} bits.")
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = (Path(folder) / f"{name}.sqlite" for name in ("whole", "broken"))
        seconds = []
        for _ in range(2):  # all of it, and nothing but the start
            began = time.monotonic()
            assert begin(whole, 1).wait() == 0
            seconds.append(time.monotonic() - began)
        expected = table(whole)
        n_cells, done = len(expected.splitlines()) - 1, 0
        start, work = seconds[1], seconds[0] - seconds[1]
        print(f"{n_cells} cells in {work:.1f} s after a start of {start:.1f} s")
        for kill in range(n_kills):
            child = begin(broken, 1 + kill % 2)
            left = work * (1 - done / n_cells) / (n_kills - kill)
            wait = start * rng.uniform(0.3, 1.0) + rng.uniform(0, 2 * left)
            time.sleep(wait)
            was_over = child.poll() is not None
            child.send_signal(signal.SIGKILL)
            child.wait()
            with suppress(ValueError):  # killed before there was a store
                done = len(RobustnessStudy.open(broken).to_frame())
            what = "was over" if was_over else "killed"
            print(f"kill {kill + 1:2}: {what} after {wait:.2f} s, {done} of {n_cells} cells")
        assert begin(broken, 2).wait() == 0
        is_same = table(broken).encode() == expected.encode()
        print(f"{len(expected.encode())} bytes, {'the same' if is_same else 'NOT the same'}")
    return 0 if is_same else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2])
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
