"""What a race should make of its validation scores: rules compared on the tiny benchmark.

In each cell of the bundled benchmark (a target, a number of images and a seed) the first fifth of
the candidates by a metric are "validated": with the accuracy that they had on test images with this
seed, plus the noise of as many validation rows as a race would have, and of a short training. A
rule chooses one of them. Printed is what the choice gives away against the other seeds, in points
of accuracy, for the cells that the rule was chosen on and for those that were kept out (MNIST, and
300 images). No network is trained; half a minute:

    python benchmarks/rules_of_racing.py
"""

import argparse
import warnings

import numpy as np
from scipy.stats import rankdata

from sktransfer.datasets import load_tiny_benchmark

METRICS = {
    "LogME + PACTran": ("logme", "pactran"),
    "LogME": ("logme",),
    "LinearProbe": ("linearprobe",),
    "PACTran": ("pactran",),
    "n_parameters": (),
    "GBC": ("gbc",),
    "LEEP": ("leep",),
}
MOST_JUDGED = 300
#: Candidates are judged on the same rows, which takes half of the variance of a difference away.
SHARED = 0.5
#: Standard deviation that a short training adds, as a share of the errors a network still makes.
SHORT = 0.1


def beyond(n_errors):
    """Prefer another one than the first by the metric if it is better by so many errors."""

    def choose(ranks, validated, error):
        first = int(np.argmin(ranks))
        surely = (validated - validated[first]) / np.hypot(error, error[first]) > n_errors
        return int(np.argmax(np.where(surely, validated, -np.inf))) if surely.any() else first

    return choose


def mean_rank(ranks, validated, error):
    return int(np.argmin(rankdata(ranks) + rankdata(-validated) + 1e-3 * ranks))


RULES = {
    "metric alone": lambda ranks, validated, error: int(np.argmin(ranks)),
    "best validated": lambda ranks, validated, error: int(np.argmax(validated)),
    "mean of ranks": mean_rank,
    "beyond 1 error": beyond(1),
    "beyond 2 errors": beyond(2),
}


def ranks_by(benchmark, metrics, cell, names):
    """Rank the candidates of a cell by the mean rank of metrics, or by size without any."""
    target, size, seed = cell
    if not metrics:
        facts = benchmark.candidate_facts
        return rankdata([-facts[name]["n_parameters"] for name in names])
    total = np.zeros(len(names))
    for metric in metrics:
        scores = benchmark.scores(metric, target, train_size=size, seed=seed)
        total += rankdata(-np.nan_to_num([scores[name] for name in names], nan=-np.inf))
    return total / len(metrics)


def regrets(benchmark, cells, metrics, share, repeats):
    """Compute the mean regret of each rule, in points."""
    rng = np.random.default_rng(0)
    found = {rule: [] for rule in RULES}
    for cell in cells:
        target, size, seed = cell
        names = benchmark.candidates(target)
        others = benchmark.reference(target, train_size=size, without_seed=seed)
        own = benchmark.reference(target, train_size=size, seed=seed)
        worth, once = (np.array([values[name] for name in names]) for values in (others, own))
        ranks = ranks_by(benchmark, metrics, cell, names)
        n_start = max(2, int(np.ceil(len(names) * share)))
        start = np.flatnonzero(ranks <= np.sort(ranks)[n_start - 1])
        n_judged = size if size <= MOST_JUDGED else size / 4
        accuracy = once[start]
        error = np.sqrt(np.maximum(accuracy * (1 - accuracy), 0.01) * SHARED / n_judged)
        for _ in range(repeats):
            noise = error * rng.normal(size=len(start))
            noise += SHORT * (1 - accuracy) * rng.normal(size=len(start))
            for rule, choose in RULES.items():
                chosen = start[choose(ranks[start], accuracy + noise, error)]
                found[rule].append(100 * (worth.max() - worth[chosen]))
    return {rule: np.mean(values) for rule, values in found.items()}


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.2, help="share of candidates that start")
    parser.add_argument("--repeats", type=int, default=200, help="validations per cell")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    benchmark = load_tiny_benchmark()
    cells = [cell for cell in benchmark.cells if cell[:2] != ("fashion", 50)]
    for title, kept_out in (("chosen on", False), ("kept out", True)):
        part = [c for c in cells if (c[0] == "mnist" or c[1] == 300) == kept_out]
        print(f"{title:16}", *(f"{rule:>15}" for rule in RULES))
        for name, metrics in METRICS.items():
            found = regrets(benchmark, part, metrics, arguments.share, arguments.repeats)
            print(f"{name:16}", *(f"{value:15.2f}" for value in found.values()), flush=True)


if __name__ == "__main__":
    main()
