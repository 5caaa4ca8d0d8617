"""How often a search over metrics keeps the truly best one, on simulated candidates.

Scores of several metrics and a reference are made from normal variables with known correlations.
Errors of the metrics may have a part in common, as those of metrics on the same features have.
Printed are, in percent, how often the truly best metric is among those that can't be told apart
from the best, how many these are on average, how often the p-value of the best is below 0.05, and
how often that of the best taken by itself is. Some minutes on one core:

    python benchmarks/coverage_of_metric_search.py --tables 400
"""

import argparse

import numpy as np

from sktransfer.evaluation import rank_correlation
from sktransfer.model_selection._metric_search_agreement import Agreement
from sktransfer.model_selection._metric_search_reference import Reference

METHODS = ("kendall", "weighted_kendall", "spearman", "pearson")
CASES = {
    "six alike, 0.7": (0.7,) * 6,
    "six, 0.8 to 0": (0.8, 0.75, 0.6, 0.6, 0.3, 0.0),
    "one of 0.95, others to 0.5": (0.95, 0.5, 0.5, 0.0, 0.0, 0.0),
    "twenty worthless": (0.0,) * 20,
}
SIZES = (8, 15, 30)
SHARED = 0.5


def draw(correlations, n, rng):
    """Scores by each metric, and the reference in ascending order."""
    reference = np.sort(rng.normal(size=n))
    own = rng.normal(size=(len(correlations), n))
    errors = np.sqrt(SHARED) * rng.normal(size=n) + np.sqrt(1 - SHARED) * own
    correlations = np.array(correlations)[:, None]
    return correlations * reference + np.sqrt(1 - correlations**2) * errors, reference


def measure(method, correlations, n, n_tables):
    rng = np.random.default_rng([n, len(correlations)])
    best = int(np.argmax(correlations))
    kept, sizes, small, small_alone = [], [], [], []
    for _ in range(n_tables):
        scores, values = draw(correlations, n, rng)
        reference = Reference(tuple(range(n)), values)
        everything = np.ones(1, dtype=bool)
        found = Agreement(method, scores[:, None], reference, 1, "propagate", everything)
        tied = found.resample(300, 0.95, rng)[2]
        kept.append(tied[best])
        sizes.append(tied.sum())
        small.append(found.best_pvalue(199, rng) < 0.05)
        winner = scores[np.argmax(found.mean)]
        options = {"n_resamples": 0, "n_permutations": 199, "alternative": "greater"}
        alone = rank_correlation(winner, values, method, random_state=rng, **options)
        small_alone.append(alone.pvalue < 0.05)
    return 100 * np.mean(kept), np.mean(sizes), 100 * np.mean(small), 100 * np.mean(small_alone)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=400, help="simulated tables per line")
    arguments = parser.parse_args()
    print(f"{'':16} {'':26} {'':4}  kept  of all  p<0.05  by itself")
    for method in METHODS:
        for case, correlations in CASES.items():
            for n in SIZES:
                kept, size, small, alone = measure(method, correlations, n, arguments.tables)
                print(
                    f"{method:16} {case:26} n={n:2} {kept:5.1f} {size:4.1f}/{len(correlations):2}"
                    f" {small:6.1f} {alone:9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
