"""How often the interval of `rank_correlation` holds the true value, on simulated candidates.

Scores and reference are made from normal variables with a known correlation. The true value is the
mean of the coefficient over many tables of the same size. About half an hour on one core:

    python benchmarks/coverage_of_intervals.py --tables 800
"""

import argparse

import numpy as np

from sktransfer.evaluation import rank_correlation

METHODS = ("kendall", "weighted_kendall", "spearman", "pearson")
CORRELATIONS = (0.0, 0.5, 0.8, 0.95)
SIZES = (8, 10, 15, 20, 30)


def draw(kind, n, correlation, rng):
    first, noise = rng.normal(size=(2, n))
    second = correlation * first + np.sqrt(1 - correlation**2) * noise
    if kind == "ties":
        return np.floor(first), np.floor(1.5 * second)
    if kind == "tails":
        scale = np.sqrt(rng.chisquare(3, size=n) / 3)
        return first / scale, second / scale
    return first, second


def coverage(kind, n, correlation, method, n_tables):
    """Share of intervals that hold the true value, and their mean width."""
    rng = np.random.default_rng([n, int(100 * correlation)])
    quick = {"method": method, "n_permutations": 0}
    truth = np.nanmean(
        [
            rank_correlation(*draw(kind, n, correlation, rng), n_resamples=0, **quick).statistic
            for _ in range(5 * n_tables)
        ]
    )
    held, width = [], []
    for seed in range(n_tables):
        pair = draw(kind, n, correlation, rng)
        result = rank_correlation(*pair, n_resamples=600, random_state=seed, **quick)
        if result.reason is None:
            low, high = result.interval
            held.append(low <= truth <= high)
            width.append(high - low)
    return np.mean(held), np.mean(width)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=800, help="simulated tables per cell")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    arguments = parser.parse_args()
    print("percent of intervals that hold the true value (mean width)")
    print("correlations:", *CORRELATIONS)
    for method in arguments.methods:
        for kind in ("normal", "ties", "tails"):
            for n in SIZES:
                cells = [
                    coverage(kind, n, correlation, method, arguments.tables)
                    for correlation in CORRELATIONS
                ]
                shown = " ".join(f"{100 * held:5.1f} ({width:.2f})" for held, width in cells)
                print(f"{method:16} {kind:6} n={n:2}  {shown}", flush=True)


if __name__ == "__main__":
    main()
