"""Measure which metric variants foretell AUROC and balanced accuracy on imbalanced targets.

Run from the root of the repository, as often as it takes; what is done is not done again::

    python benchmarks/imbalance_on_tiny_benchmark.py --work FOLDER --only reference
    python benchmarks/imbalance_on_tiny_benchmark.py --work FOLDER
    python benchmarks/imbalance_on_tiny_benchmark.py --work FOLDER --mnist path/to/mnist_5k.csv.gz

"reference" fine-tunes the tiny zoo on digits drawn with unequal classes (about ten minutes of one
core), "scores" computes the metric variants on the same images and on the balanced ones of the
bundled benchmark, and "table" compares them and writes ``benchmarks/results``.
"""

import argparse
import csv
import json
import os
import warnings
from pathlib import Path

import numpy as np
import tiny_benchmark_targets as data
import torch
from sklearn.metrics import make_scorer, recall_score

from sktransfer.datasets import load_tiny_benchmark, load_tiny_zoo
from sktransfer.datasets._tiny_benchmark_rows import draw_rows
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.metrics import (
    KNN,
    SFDA,
    HScore,
    LinearProbe,
    LogME,
    MetricInputs,
    PACTran,
)

SEEDS = (0, 1)
N_TRAIN = 300
# As in the bundled benchmark for this number of images.
LEARNING_RATE, EPOCHS = 3e-3, 20
# Digits that look alike, for the target with two classes.
RARE_PAIR = (3, 8)


def tail(ratio, n_classes=10):
    """Shares of classes that shrink by a constant factor, the last `ratio` times from the first."""
    shares = float(ratio) ** -(np.arange(n_classes) / (n_classes - 1))
    return shares / shares.sum()


# Name of a design: whether two classes are made of the ten, and the shares of the classes. Ten
# classes 1:1 are in the bundled benchmark.
DESIGNS = {
    "pair 1:50": (True, np.array([50 / 51, 1 / 51])),
    "tail 1:50": (False, tail(50)),
    "pair 1:10": (True, np.array([10 / 11, 1 / 11])),
    "tail 1:10": (False, tail(10)),
    "one rare 1:11": (False, np.r_[np.full(9, 11.0), 1.0] / 100),
}
# Of every kind of source, without the networks of double width, whose training costs most.
CANDIDATES = (
    "cells",
    "fashion",
    "fashion_half",
    "fashion_noisy",
    "fashion_random",
    "fashion_shoes",
    "gratings",
    "letters",
    "letters_half",
    "letters_vowels",
    "mnist",
    "mnist_half",
    "mnist_small",
    "printed_digits",
    "shapes_half",
    "strokes",
    "textures",
    "untrained",
)


def draw(labels, design, seed):
    """Draw training rows by a design; which class is rare depends on the seed."""
    shares = DESIGNS[design][1]
    rng = np.random.RandomState(seed)
    classes = np.unique(labels)
    order = np.arange(2) if len(classes) == 2 else rng.permutation(len(classes))
    sizes = np.maximum(np.rint(shares * N_TRAIN).astype(int), 2)
    sizes[0] += N_TRAIN - sizes.sum()
    rows = [
        rng.permutation(np.flatnonzero(labels == classes[place]))[:size]
        for place, size in zip(order, sizes, strict=True)
    ]
    return np.sort(np.concatenate(rows))


def training_data(design, seed):
    """Give images and labels of the training and the test part."""
    digits = data.load_target("digits", None)
    labels = np.isin(digits.labels, RARE_PAIR).astype(int) if DESIGNS[design][0] else digits.labels
    pool, test = np.flatnonzero(~digits.is_test), np.flatnonzero(digits.is_test)
    train = pool[draw(labels[pool], design, seed)]
    return digits.images[train], labels[train], digits.images[test], labels[test]


def measure_references(work):
    """Fine-tune all candidates by every design."""
    for seed in SEEDS:
        for design in DESIGNS:
            X, y, X_test, y_test = training_data(design, seed)
            recalls = {
                f"recall_{label}": make_scorer(
                    recall_score, labels=[label], average="macro", zero_division=0
                )
                for label in np.unique(y_test)
            }
            named = {name: name for name in ("accuracy", "balanced_accuracy", "roc_auc_ovr")}
            ranking = reference_ranking(
                load_tiny_zoo(names=CANDIDATES, device="cpu"),
                X,
                y,
                X_test,
                y_test,
                scoring={**named, **recalls},
                n_seeds=1,
                from_scratch=False,
                estimator=FineTuneClassifier(
                    None, lr=LEARNING_RATE, max_epochs=EPOCHS, device="cpu"
                ),
                out=work / "reference" / _file_name(design, seed),
                random_state=seed,
                energy=False,
                error_score="raise",
            )
            table = {}
            for row in ranking.rows:
                table.setdefault(row.candidate, {})[row.measure] = row.value
            _write(work / "reference" / f"{_file_name(design, seed)}.json", table)
            print("reference", design, seed, flush=True)


# Metrics, and after them their variants, which are compared with the first of each.
def _probe(**parameters):
    return LinearProbe(n_permutations=0, **parameters)


VARIANTS = {
    "linear_probe": {
        "linear_probe": _probe(),
        "linear_probe judged by balanced accuracy": _probe(scoring="balanced_accuracy"),
        "linear_probe balanced": _probe(class_weight="balanced"),
        "linear_probe judged by AUROC": _probe(scoring="roc_auc_ovr"),
        "linear_probe balanced, judged by AUROC": _probe(
            scoring="roc_auc_ovr", class_weight="balanced"
        ),
    },
    "logme": {"logme": LogME(), "logme balanced": LogME(class_weight="balanced")},
    "hscore": {
        "hscore": HScore("ledoit_wolf"),
        "hscore balanced": HScore("ledoit_wolf", class_weight="balanced"),
    },
    "pactran": {
        "pactran": PACTran(n_permutations=0),
        "pactran balanced": PACTran(n_permutations=0, class_weight="balanced"),
    },
    "sfda": {
        "sfda": SFDA(n_permutations=0),
        "sfda balanced": SFDA(n_permutations=0, class_weight="balanced"),
    },
    "knn": {"knn": KNN(), "knn balanced": KNN(class_weight="balanced")},
}
PLAIN = {variant: plain for plain, several in VARIANTS.items() for variant in several}
METRICS = {name: metric for several in VARIANTS.values() for name, metric in several.items()}
AUROC = "linear_probe judged by AUROC"


def measure_scores(work, files):
    """Score imbalanced digits by all variants, balanced targets by the one that differs there."""
    path = work / "scores.json"
    if path.exists():
        return
    scores = {}
    digits = data.load_target("digits", files)
    for name, backbone in load_tiny_zoo(device="cpu"):
        features = backbone.fit(digits.images[:2]).transform(digits.images)
        score_balanced(scores, "digits", digits, name, features)
        for design in DESIGNS if name in CANDIDATES else ():
            labels = digits.labels
            if DESIGNS[design][0]:
                labels = np.isin(labels, RARE_PAIR).astype(int)
            pool = np.flatnonzero(~digits.is_test)
            for seed in SEEDS:
                rows = pool[draw(labels[pool], design, seed)]
                inputs = MetricInputs(labels[rows], features=features[rows])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for variant, metric in METRICS.items():
                        cell = scores.setdefault(f"{design}/{seed}", {})
                        cell.setdefault(variant, {})[name] = inputs.fit(metric).score_
        print("scores", name, flush=True)
    if files is not None:
        mnist = data.load_target("mnist", files)
        for name, backbone in load_tiny_zoo(exclude_families=data.EXCLUDED["mnist"], device="cpu"):
            features = backbone.fit(mnist.images[:2]).transform(mnist.images)
            score_balanced(scores, "mnist", mnist, name, features)
    _write(path, scores)


def score_balanced(scores, target_name, target, candidate, features):
    """Score one candidate on the cells of the bundled benchmark, where all classes are equal."""
    pool = np.flatnonzero(~target.is_test)
    benchmark = load_tiny_benchmark()
    for train_size in benchmark.train_sizes:
        for seed in benchmark.seeds:
            rows = pool[draw_rows(target.labels[pool], train_size, seed)]
            cell = scores.setdefault(f"{target_name} {train_size}/{seed}", {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                metric = METRICS[AUROC].fit(features[rows], target.labels[rows])
            cell.setdefault(AUROC, {})[candidate] = metric.score_


# -- comparison ------------------------------------------------------------------------------------

BUNDLED = {"linear_probe": "linearprobe", "logme": "logme", "pactran": "pactran", "knn": "knn"}
N_RESAMPLES, RNG_SEED = 1000, 0


def imbalanced_cells(work, scores):
    """Yield setting, seed, scores by variant and references by measure of the imbalanced cells.

    The reference is what the candidates reached after fine-tuning on the images that were scored.
    """
    for design, (_, shares) in DESIGNS.items():
        for seed in SEEDS:
            path = work / "reference" / f"{_file_name(design, seed)}.json"
            if not path.exists():
                continue
            table = json.loads(path.read_text(encoding="utf-8"))
            order = np.arange(len(shares))
            if not DESIGNS[design][0]:
                order = np.random.RandomState(seed).permutation(len(shares))
            for row in table.values():
                recalls = [row[f"recall_{label}"] for label in order]
                row["accuracy on classes as in training"] = float(shares @ recalls)
            reference = {
                measure: {name: table[name][measure] for name in CANDIDATES}
                for measure in (
                    "accuracy on classes as in training",
                    "balanced_accuracy",
                    "roc_auc_ovr",
                )
            }
            yield design, seed, scores[f"{design}/{seed}"], reference


def balanced_cells(scores):
    """Yield the same of the cells of the bundled benchmark, with a useful reference."""
    benchmark = load_tiny_benchmark()
    for target in ("digits", "mnist"):
        for train_size in benchmark.train_sizes:
            for seed in benchmark.seeds:
                cell = scores.get(f"{target} {train_size}/{seed}")
                if cell is None:
                    continue
                bundled = {
                    name: benchmark.scores(metric, target, train_size=train_size, seed=seed)
                    for name, metric in BUNDLED.items()
                }
                reference = {
                    measure: benchmark.reference(
                        target, measure, train_size=train_size, without_seed=seed
                    )
                    for measure in ("accuracy", "roc_auc_ovr")
                }
                yield f"{target}, bundled", (train_size, seed), {**bundled, **cell}, reference


def compare(cells):
    """Compare every variant with its plain metric, by Kendall's tau and by regret.

    Intervals resample the candidates, the same ones in all cells, and the cells.
    """
    by_setting = {}
    for setting, seed, scores, reference in cells:
        by_setting.setdefault(setting, []).append((seed, scores, reference))
    rows = []
    rng = np.random.default_rng(RNG_SEED)
    by_design = {design: by_setting[design] for design in DESIGNS if design in by_setting}
    for pooled, ending in (("all imbalanced", ""), ("all 1:50", "1:50")):
        together = [
            c for design, some in by_design.items() if design.endswith(ending) for c in some
        ]
        if together:
            by_setting[pooled] = together
    for setting, several in by_setting.items():
        names = sorted(set.intersection(*(set(next(iter(s.values()))) for _, s, _ in several)))
        n, m = len(names), len(several)
        counts = rng.multinomial(n, np.full(n, 1 / n), N_RESAMPLES).astype(float)
        chosen = rng.integers(0, m, (N_RESAMPLES, m))
        for measure in several[0][2]:
            draws, values, regrets = {}, {}, {}
            for variant in several[0][1]:
                taus, resampled, regret = [], [], []
                for _, scores, reference in several:
                    score = np.array([scores[variant][name] for name in names], float)
                    truth = np.array([reference[measure][name] for name in names])
                    taus.append(_tau(score, truth, np.ones((1, n)))[0])
                    resampled.append(_tau(score, truth, counts))
                    # Of candidates that share the first place any may be taken.
                    regret.append(truth.max() - truth[score == np.nanmax(score)].mean())
                values[variant], regrets[variant] = np.mean(taus), np.mean(regret)
                draws[variant] = np.array(resampled)[chosen.T, np.arange(N_RESAMPLES)].mean(axis=0)
            for variant in draws:
                plain = PLAIN[variant]
                low, high = np.nanquantile(draws[variant], [0.025, 0.975])
                gain = draws[variant] - draws[plain]
                gain_low, gain_high = np.nanquantile(gain, [0.025, 0.975])
                rows.append(
                    {
                        "setting": setting,
                        "measure": measure,
                        "variant": variant,
                        "plain": plain,
                        "n_cells": m,
                        "n_candidates": n,
                        "tau": values[variant],
                        "tau_low": low,
                        "tau_high": high,
                        "gain": values[variant] - values[plain],
                        "gain_low": gain_low,
                        "gain_high": gain_high,
                        "regret_in_points": 100 * regrets[variant],
                    }
                )
    return rows


def _tau(score, truth, counts):
    """Kendall's tau-b of candidates that occur so often, for each row of counts.

    Scores that are all the same are no ranking and have tau 0; where the truth does not vary, there
    is none (NaN).
    """
    a = np.sign(np.subtract.outer(score, score))
    b = np.sign(np.subtract.outer(truth, truth))

    def total(matrix):
        return np.einsum("ri,ij,rj->r", counts, matrix, counts, optimize=True)

    of_score, of_truth = total(a * a), total(b * b)
    product = np.sqrt(of_score * of_truth)
    tau = np.divide(total(a * b), product, out=np.zeros(len(counts)), where=product > 0)
    return np.where(of_truth > 0, tau, np.nan)


def write_table(work, path):
    """Compare, and write the table."""
    scores = json.loads((work / "scores.json").read_text(encoding="utf-8"))
    rows = compare([*imbalanced_cells(work, scores), *balanced_cells(scores)])
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})


RESULT = Path(__file__).parent / "results" / "imbalance_on_tiny_benchmark.csv"
STEPS = ("reference", "scores", "table")


def _file_name(design, seed):
    return f"{design.replace(' ', '_').replace(':', 'to')}_{seed}"


def _write(path, content):
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def main():
    """Read the command line and compute."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of what is computed")
    parser.add_argument("--only", choices=STEPS, action="append", help="repeatable")
    parser.add_argument("--mnist", help="file mnist_5k.csv.gz, for the second balanced target")
    parser.add_argument("--output", type=Path, default=RESULT, help="the table")
    arguments = parser.parse_args()
    steps = arguments.only or STEPS
    torch.set_num_threads(1)
    (arguments.work / "reference").mkdir(parents=True, exist_ok=True)
    if "reference" in steps:
        measure_references(arguments.work)
    if "scores" in steps:
        files = arguments.mnist and data.sources.SourceFiles("", arguments.mnist)
        measure_scores(arguments.work, files)
    if "table" in steps:
        write_table(arguments.work, arguments.output)


if __name__ == "__main__":
    main()
