"""Speed and memory of the metrics that live on moments, as ratios within one run.

    python benchmarks/bench_metrics.py [--quick] [--threads N]

What is compared takes turns, and a ratio is the median of those of single turns, so that whatever
else the machine does meets both. Everything is timed twice, in processes of its own: with one BLAS
thread by CPU time, which a busy machine hardly changes, and with as many as there are cores by the
clock on the wall, which needs an idle one.

The limit is what no implementation of these metrics that decomposes the features can undercut: the
Gram matrix in float64 and one symmetric eigendecomposition (of the n x n Gram matrix when there
are fewer samples than features). ``transformer-ranker``, a peer that pip can install, is timed in
the same run where it is importable. Memory is the peak that tracemalloc sees beyond the input;
numpy and scipy allocate through it, the workspace of LAPACK included.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import types
import warnings
from statistics import median

import numpy as np
from scipy import linalg

from sktransfer.exceptions import TransferabilityWarning
from sktransfer.metrics import FeatureMoments, LogME, MetricInputs, get_metric, metric_names


def features(n, D, n_classes, seed=0):
    """Rectified features with a latent dimension of 64, in float32, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=n)
    latent = rng.normal(size=(n, 64)) + 0.5 * rng.normal(size=(n_classes, 64))[y]
    noise = rng.normal(size=(n, D), scale=0.5).astype(np.float32)
    return np.maximum(
        latent.astype(np.float32) @ rng.normal(size=(64, D)).astype("f4") + noise, 0
    ), y


def timed(*works, repeats):
    """Seconds that calls took which are made in turns, as an array of shape (repeats, n_works)."""
    clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    times = np.empty((repeats, len(works)))
    for turn in times:
        for i, work in enumerate(works):
            start = clock()
            work()
            turn[i] = clock() - start
    return times


def ratio(times, one, other):
    """Median ratio of two columns of times."""
    return median(times[:, one] / times[:, other])


def peak_bytes(work):
    """Peak of traced memory during a call, beyond what was there."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def limit(X):
    """Gram matrix and symmetric eigendecomposition, nothing else."""
    A = X.astype(np.float64)
    A -= A.mean(axis=0)
    gram = A.T @ A if len(A) > A.shape[1] else A @ A.T
    linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")


def moment_metrics():
    """Instances of all metrics that are functions of moments, and so can learn in batches."""
    metrics = [get_metric(name) for name in metric_names()]
    return [metric for metric in metrics if hasattr(metric, "partial_fit")]


def score_all(X, y):
    inputs = MetricInputs(y, X)
    for metric in moment_metrics():
        inputs.fit(metric)


def peer(X, y):
    """LogME of transformer-ranker, if it is installed (torchmetrics is all it needs here)."""
    spec = importlib.util.find_spec("transformer_ranker")
    if spec is None:
        return None
    import torch

    # The package itself imports language models on import; its estimators need torch alone.
    shell = types.ModuleType("transformer_ranker")
    shell.__spec__, shell.__path__ = spec, list(spec.submodule_search_locations)
    sys.modules["transformer_ranker"] = shell
    from transformer_ranker.estimators.logme import LogME as Peer

    embeddings, labels = torch.from_numpy(X), torch.from_numpy(y)
    return lambda: Peer().fit(embeddings, labels)


def bench_fit(n, D, n_classes, repeats):
    X, y = features(n, D, n_classes)
    works = [lambda: limit(X), lambda: LogME().fit(X, y), lambda: score_all(X, y)]
    other = peer(X, y)
    if other is not None:
        works.append(other)
    timed(*works, repeats=1)  # libraries are loaded, memory is there
    times = timed(*works, repeats=repeats)
    base, logme = np.median(times[:, :2], axis=0)
    memory = peak_bytes(lambda: LogME().fit(X, y)) / (8 * min(n, D) ** 2)
    print(f"\nn = {n:,}, D = {D:,}, K = {n_classes}   (limit {base:.3f} s, LogME {logme:.3f} s)")
    print(f"  LogME / limit                       {ratio(times, 1, 0):6.2f}   goal 1.5")
    names = "+".join(type(metric).__name__ for metric in moment_metrics())
    print(f"  all moment metrics / LogME          {ratio(times, 2, 1):6.2f}   goal 2.5   ({names})")
    print(f"  LogME memory / (min(n, D)² float64) {memory:6.2f}   goal 3")
    if other is None:
        print("  transformer-ranker is not installed")
    else:
        print(f"  transformer-ranker's LogME / LogME  {ratio(times, 3, 1):6.2f}")


def bench_stream(n, D, n_classes, chunk, repeats):
    """Moments of a memory-mapped file in chunks, against the bare chunked Gram matrix."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "features.npy")
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, D))
        rng = np.random.default_rng(0)
        for start in range(0, n, chunk):
            X[start : start + chunk] = rng.standard_normal((chunk, D), dtype=np.float32)
        X.flush()
        y = rng.integers(0, n_classes, size=n)
        X = np.load(path, mmap_mode="r")

        def bare():
            gram = np.zeros((D, D))
            for start in range(0, n, chunk):
                block = X[start : start + chunk].astype(np.float64)
                gram += block.T @ block

        def stream():
            metric = LogME()
            for start in range(0, n, chunk):
                metric.partial_fit(X[start : start + chunk], y[start : start + chunk])
            return metric.score_

        bare()  # the file is in the page cache for both
        times = timed(bare, stream, repeats=repeats)
        memory = peak_bytes(stream)
    base, ours = np.median(times, axis=0)
    print(f"\nstream of {n:,} x {D} float32 in chunks of {chunk:,}, K = {n_classes}", end="   ")
    print(f"(Gram matrix {base:.2f} s, partial_fit and score {ours:.2f} s)")
    print(f"  bare chunked Gram / partial_fit     {ratio(times, 0, 1):6.2f}   goal 0.70")
    print(f"  peak memory                         {memory / 2**30:6.2f} GiB   goal 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--threads", type=int, help="BLAS threads (default: one, then all cores)")
    options = parser.parse_args()
    wanted = [options.threads] if options.threads else sorted({1, os.cpu_count() or 1})
    if [os.environ.get("OMP_NUM_THREADS")] != [str(n) for n in wanted]:
        # Libraries read the number when they are loaded.
        for n in wanted:
            command = [sys.executable, __file__, "--threads", str(n)]
            command += ["--quick"] if options.quick else []
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(n)})
        return
    warnings.simplefilter("ignore", TransferabilityWarning)
    clock = "CPU time" if wanted == [1] else "wall-clock time"
    print(
        f"\n==== BLAS threads: {wanted[0]}; {clock}; {os.cpu_count()} cores, numpy {np.__version__}"
    )
    if options.quick:
        bench_fit(1000, 256, 10, 5)
        bench_fit(100, 256, 10, 9)
        bench_stream(50_000, 128, 10, 10_000, 3)
    else:
        bench_fit(10_000, 2048, 10, 3)
        bench_fit(500, 2048, 10, 15)
        bench_stream(1_000_000, 512, 10, 20_000, 3)
    sys.stdout.flush()


if __name__ == "__main__":
    FeatureMoments.from_arrays(np.eye(3), [0, 1, 1])  # import costs are not part of a timing
    main()
