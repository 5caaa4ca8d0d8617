"""What a resample costs, as a share of one plain fit of the metric to the same features.

CPU seconds of this process, so that other work on the machine counts little. Also printed is what
200 resamples of 24 candidates would take on one core. Less than a minute:

    OMP_NUM_THREADS=1 python benchmarks/bench_uncertainty.py
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np

from sktransfer.metrics import get_metric
from sktransfer.model_selection._resampled_scores import resample_scores
from sktransfer.model_selection._resamples import Resamples, scheme_of
from sktransfer.model_selection._scoring import ScoringTask

SIZES = {"n=1,000, D=64": (1000, 64, 20), "n=5,000, D=1,280": (5000, 1280, 3)}
N_CLASSES = 10
N_RESAMPLES, N_CANDIDATES = 200, 24


def seconds(work, repeats):
    work()
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", nargs="+", default=["logme", "hscore", "knn", "linearprobe"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    for size, (n, n_features, n_resamples) in SIZES.items():
        y = rng.integers(0, N_CLASSES, n)
        F = rng.normal(size=(n, n_features)) + 0.3 * rng.normal(size=(N_CLASSES, n_features))[y]
        F = F.astype(np.float32)
        for name in arguments.metrics:
            metrics = {name: get_metric(name)}
            plain = seconds(partial(metrics[name].fit, F, y), 1)
            for scheme in dict.fromkeys([scheme_of(metrics[name]), "dirichlet"]):
                task = ScoringTask(0, 0, metrics, F, None, y, {})
                plan = Resamples(n_resamples, 0, np.arange(n), {name: scheme}, y)
                each = seconds(partial(resample_scores, task, plan, metrics), 1)
                each /= n_resamples
                print(
                    f"{size:17} {name:12} {scheme:10} plain {1e3 * plain:8.1f} ms   one resample "
                    f"{1e3 * each:7.1f} ms = {each / plain:4.2f} of it   {N_RESAMPLES} of "
                    f"{N_CANDIDATES}: {N_RESAMPLES * N_CANDIDATES * each:6.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
