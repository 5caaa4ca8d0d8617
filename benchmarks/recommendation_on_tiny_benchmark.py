"""What a recommendation without fine-tuning is worth, on the bundled benchmark.

For each metric, baseline and consensus, and for one real fine-tuning of every candidate (the
ceiling): agreement with fine-tuned accuracy, how often the best candidate comes first or among the
first three, and what is lost by taking the first one. Scores are of the training images of one
seed, the reference is the mean of the other seeds, on test images that no score has seen. Settings
(a target and a number of images) count whose ceiling has a tau of at least 0.6.

What the package does by default was chosen on digits and MNIST with 50, 300 and 1,000 images.
Fashion-MNIST, and 100 images, were left out and are reported apart.

    python benchmarks/recommendation_on_tiny_benchmark.py            # the tables, about a minute
    python benchmarks/recommendation_on_tiny_benchmark.py --cost     # time of scoring, in minutes
    python benchmarks/recommendation_on_tiny_benchmark.py --write    # the calibrated decision sets
"""

import argparse
import csv
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import (
    calibrate_decision_set,
    consensus,
    rank_correlation,
    selection_regret,
    top_k_recall,
)

ROOT = Path(__file__).resolve().parents[1]
CALIBRATIONS = ROOT / "sktransfer" / "datasets" / "data" / "decision_calibrations.json"
RACES = Path(__file__).with_name("racing_on_tiny_benchmark.csv")
LEAST_CEILING = 0.6
LEVEL = 0.9
DESCRIPTION = (
    "22 to 31 small networks of the tiny zoo, grey images of 28 x 28 pixels in 10 classes, "
    "measured by accuracy"
)
COLUMNS = ("kendall", "weighted_kendall", "regret", "top_1", "top_3")
N_RANDOM = 20
N_RESAMPLES = 2000


@dataclass(frozen=True)
class Cell:
    """A target, a number of training images and a seed, with the reference of the other seeds."""

    target: str
    train_size: int
    seed: int
    names: tuple
    reference: dict

    @property
    def setting(self):
        return self.target, self.train_size

    @property
    def chosen_on(self):
        return self.target != "fashion" and self.train_size != 100


PARTS = {
    "all": lambda cell: True,
    "chosen on": lambda cell: cell.chosen_on,
    "fashion": lambda cell: cell.target == "fashion",
    "100 images": lambda cell: cell.train_size == 100,
}


def all_cells(benchmark):
    """List the cells of settings in which one fine-tuning foretells the others."""
    settings = {
        (target, size)
        for target in benchmark.targets
        for size in benchmark.train_sizes
        if benchmark.ceiling(target, train_size=size).kendall >= LEAST_CEILING
    }
    return [
        Cell(
            target,
            size,
            seed,
            benchmark.candidates(target),
            benchmark.reference(target, train_size=size, without_seed=seed),
        )
        for target, size, seed in benchmark.cells
        if (target, size) in settings
    ]


# -- rules ----------------------------------------------------------------------------------------


def metric_rule(benchmark, metric):
    return lambda cell: benchmark.scores(
        metric, cell.target, train_size=cell.train_size, seed=cell.seed
    )


def fact_rule(benchmark, fact):
    facts = benchmark.candidate_facts
    return lambda cell: {
        name: np.nan if facts[name][fact] is None else float(facts[name][fact])
        for name in cell.names
    }


def twin_rule(benchmark, metric):
    """Score the network of random weights that has the same architecture."""
    facts, score = benchmark.candidate_facts, metric_rule(benchmark, metric)
    untrained = {facts[name]["width"]: name for name in facts if not facts[name]["pretrained"]}

    def rule(cell):
        scores = score(cell)
        return {name: scores[untrained[facts[name]["width"]]] for name in cell.names}

    return rule


def ceiling_rule(benchmark):
    return lambda cell: benchmark.reference(cell.target, train_size=cell.train_size, seed=cell.seed)


def consensus_rule(benchmark, metrics, **options):
    rules = {metric: metric_rule(benchmark, metric) for metric in metrics}
    return lambda cell: (
        consensus({metric: rule(cell) for metric, rule in rules.items()}, **options).scores
    )


def random_rules():
    def of(draw):
        def rule(cell):
            rng = np.random.default_rng([draw, cell.train_size, cell.seed, len(cell.names)])
            return dict(zip(cell.names, rng.permutation(len(cell.names)).tolist(), strict=True))

        return rule

    return [of(draw) for draw in range(N_RANDOM)]


# LogME is the mean over the classes of the evidence of each, so ten of them are that of the target.
NATS = {"method": "scores", "weights": {"logme": 10.0, "pactran": 1.0}}
CONSENSUS = {
    "consensus, nats: LogME, PACTran": (("logme", "pactran"), NATS),
    "consensus, ranks: LogME, PACTran": (("logme", "pactran"), {}),
    "consensus, ranks: LogME, PACTran, LinearProbe": (("logme", "pactran", "linearprobe"), {}),
    "consensus, ranks: all metrics": (None, {}),
}


def all_rules(benchmark):
    """Give the rules by name; a rule gives the scores of a cell. Random ones are a list."""
    rules = {"one fine-tuning of all": ceiling_rule(benchmark)}
    for name, (metrics, options) in CONSENSUS.items():
        rules[name] = consensus_rule(benchmark, metrics or benchmark.metrics, **options)
    rules.update((metric, metric_rule(benchmark, metric)) for metric in benchmark.metrics)
    rules["n_parameters"] = fact_rule(benchmark, "n_parameters")
    rules["n_features"] = fact_rule(benchmark, "width")  # 64 of them for each unit of width
    rules["source_accuracy"] = fact_rule(benchmark, "source_accuracy")
    rules["untrained twin"] = twin_rule(benchmark, "logme")
    rules["random order"] = random_rules()
    return rules


# -- measuring ------------------------------------------------------------------------------------


def measure(rule, cells):
    """Give one row per cell, of the columns above; regret in points of accuracy."""
    if isinstance(rule, list):
        return np.mean([measure(one, cells) for one in rule], axis=0)
    return np.array([measure_cell(rule(cell), cell.reference) for cell in cells])


def measure_cell(scores, reference):
    taus = []
    # One without a score is last.
    known = [score for score in scores.values() if not np.isnan(score)]
    last = min(known) - 1.0 - abs(min(known))
    filled = {name: last if np.isnan(score) else score for name, score in scores.items()}
    for method in ("kendall", "weighted_kendall"):
        result = rank_correlation(filled, reference, method, n_resamples=0, n_permutations=0)
        taus.append(result.statistic)
    regret = 100 * selection_regret(scores, reference)
    hits = [top_k_recall(scores, reference, k, n_best=1) for k in (1, 3)]
    return [*taus, regret, *map(float, hits)]


def tail_regret(rule, cells):
    """Give the 95th percentile of the regret over cells."""
    rules = rule if isinstance(rule, list) else [rule]
    regrets = [measure(one, cells)[:, COLUMNS.index("regret")] for one in rules]
    return float(np.percentile(np.concatenate(regrets), 95))


def interval(rows, cells, column, n_resamples=N_RESAMPLES):
    """Give the percentile interval of a mean; settings, and seeds within them, are drawn anew."""
    rng = np.random.default_rng(0)
    settings = {}
    for row, cell in zip(rows[:, COLUMNS.index(column)], cells, strict=True):
        settings.setdefault(cell.setting, []).append(row)
    values = np.array(list(settings.values()))
    drawn = rng.integers(len(values), size=(n_resamples, len(values)))
    seeds = rng.integers(values.shape[1], size=(n_resamples, len(values), values.shape[1]))
    means = values[drawn[:, :, None], seeds].mean(axis=(1, 2))
    return tuple(np.percentile(means, [2.5, 97.5]).tolist())


def summary(rule, cells):
    """Give all numbers of one line of a table."""
    rows = measure(rule, cells)
    found = dict(zip(COLUMNS, rows.mean(axis=0).tolist(), strict=True))
    found["tail_regret"] = tail_regret(rule, cells)
    for column in ("kendall", "weighted_kendall", "regret"):
        found[f"{column}_interval"] = interval(rows, cells, column)
    return found


# -- decision sets --------------------------------------------------------------------------------


def calibrated(benchmark, cells, scored_by, **options):
    """Learn the decision set of one rule from cells."""
    score = all_rules(benchmark)[scored_by]
    return calibrate_decision_set(
        [score(cell) for cell in cells],
        [cell.reference for cell in cells],
        [cell.target for cell in cells],
        train_sizes=[cell.train_size for cell in cells],
        level=LEVEL,
        description=DESCRIPTION,
        **options,
    )


def calibrations(benchmark):
    """Calibrate what the package ships."""
    cells = all_cells(benchmark)
    rules = {metric: metric for metric in benchmark.metrics}
    rules["consensus"] = "consensus, nats: LogME, PACTran"
    return {name: calibrated(benchmark, cells, rule, metric=name) for name, rule in rules.items()}


def coverage_when_left_out(benchmark, cells, scored_by, part, **options):
    """Measure sets that were calibrated on what defaults were chosen on, in a part left out."""
    score = all_rules(benchmark)[scored_by]
    learned = calibrated(
        benchmark, [cell for cell in cells if cell.chosen_on], scored_by, **options
    )
    hits, shares = [], []
    for cell in cells:
        if PARTS[part](cell):
            found = learned.decision_set(score(cell))
            hits.append(holds_best(found, cell.reference))
            shares.append(len(found) / len(cell.names))
    return float(np.mean(hits)), float(np.mean(shares))


def holds_best(found, reference):
    best = max(reference.values())
    return any(reference[name] == best for name in found)


def coverage_in_small_pools(benchmark, cells, rule, size, n_draws=40):
    """Measure the same rule where only some of the candidates are there."""
    score, rng = all_rules(benchmark)[rule], np.random.default_rng(0)
    whole = calibrated(benchmark, cells, rule)
    hits, shares = [], []
    for cell in cells:
        learned = replace(whole, threshold=whole.by_target[cell.target]["threshold"])
        scores = score(cell)
        for _ in range(n_draws):
            names = rng.permutation(cell.names)[:size].tolist()
            found = learned.decision_set({name: scores[name] for name in names})
            hits.append(holds_best(found, {name: cell.reference[name] for name in names}))
            shares.append(len(found) / size)
    return float(np.mean(hits)), float(np.mean(shares))


# -- cost -----------------------------------------------------------------------------------------


def costs(train_size=100, n_candidates=4):
    """Measure seconds of scoring, as a share of those of fine-tuning the same candidates once."""
    from sktransfer.datasets import load_digits_target, load_tiny_zoo
    from sktransfer.finetune import FineTuneClassifier
    from sktransfer.metrics import MetricInputs, get_metric

    benchmark = load_tiny_benchmark(as_frame=False)
    digits = load_digits_target()
    rows = benchmark.train_rows("digits", train_size=train_size, seed=0)
    X, y = digits.images[rows], digits.y[rows]
    epochs = {50: 60, 100: 40, 300: 20, 1000: 10}[train_size]
    fine_tuning, forward, seconds = 0.0, 0.0, dict.fromkeys(benchmark.metrics, 0.0)
    for _, backbone in load_tiny_zoo()[:n_candidates]:
        begin = time.perf_counter()
        FineTuneClassifier(backbone, lr=3e-3, max_epochs=epochs, random_state=0).fit(X, y)
        fine_tuning += time.perf_counter() - begin
        backbone.fit(X)
        begin = time.perf_counter()
        features, probabilities = backbone.extract(X)
        forward += time.perf_counter() - begin
        for metric in benchmark.metrics:
            known = MetricInputs(
                y,
                features=features,
                probabilities=probabilities,
                inputs=X,
                backbone=backbone,
                source_centroids=getattr(backbone, "source_centroids", None),
            )
            begin = time.perf_counter()
            known.fit(get_metric(metric))
            seconds[metric] += time.perf_counter() - begin
    shares = {metric: (forward + spent) / fine_tuning for metric, spent in seconds.items()}
    return {"forward pass": forward / fine_tuning, **shares}


# -- tables ---------------------------------------------------------------------------------------


def show(rules, cells, part):
    inside = [cell for cell in cells if PARTS[part](cell)]
    n_settings = len({cell.setting for cell in inside})
    print(f"\n{part}: {n_settings} settings, {len(inside)} cells")
    print(f"{'':46}{'tau (95 %)':20} {'weighted (95 %)':20} regret (95 %)        p95  top-1 top-3")
    found = {name: summary(rule, inside) for name, rule in rules.items()}
    for name, row in sorted(found.items(), key=lambda item: -item[1]["kendall"]):
        spans = {
            column: f"{row[column]:.3f} ({low:.2f}, {high:.2f})"
            for column in ("kendall", "weighted_kendall", "regret")
            for low, high in [row[f"{column}_interval"]]
        }
        print(
            f"{name:46}{spans['kendall']:20} {spans['weighted_kendall']:20} {spans['regret']:20} "
            f"{row['tail_regret']:5.2f} {row['top_1']:.2f} {row['top_3']:.2f}"
        )
    return found


def table_row(name, row):
    """Give the cells of one line as they stand on the page of the documentation."""

    def with_interval(column, digits):
        low, high = row[f"{column}_interval"]
        return f"{row[column]:.{digits}f} ({low:.{digits}f}, {high:.{digits}f})"

    return [
        name,
        with_interval("kendall", 2),
        with_interval("weighted_kendall", 2),
        f"{row['top_1']:.2f}",
        f"{row['top_3']:.2f}",
        with_interval("regret", 2),
        f"{row['tail_regret']:.1f}",
    ]


def show_rst(rules, cells, part):
    """Print the body of a list-table."""
    inside = [cell for cell in cells if PARTS[part](cell)]
    found = {name: summary(rule, inside) for name, rule in rules.items()}
    print(f"\n.. {part}")
    for name, row in sorted(found.items(), key=lambda item: -item[1]["kendall"]):
        first, *others = table_row(name, row)
        print(f"   * - {first}")
        print("\n".join(f"     - {other}" for other in others))


def racing_rows(cells):
    """Give regret and hits of races, by what they started with, in the rows of their table.

    ``racing_on_tiny_benchmark.py`` runs them. A race has a winner and no ranking, so no tau.
    """
    with RACES.open(encoding="utf-8", newline="") as file:
        races = {
            (race["start"], race["target"], int(race["train_size"]), int(race["seed"])): race
            for race in csv.DictReader(file)
        }
    titles = ["rule", "top 1", "regret", "95th percentile", "cost, %"]
    yield titles
    for start in dict.fromkeys(key[0] for key in races):
        those = [races[start, cell.target, cell.train_size, cell.seed] for cell in cells]
        regret = np.array(
            [
                100 * (max(cell.reference.values()) - cell.reference[race["winner"]])
                for cell, race in zip(cells, those, strict=True)
            ]
        )
        low, high = interval(np.tile(regret[:, None], len(COLUMNS)), cells, "regret")
        yield [
            f"racing from {start}",
            f"{np.mean(regret == 0):.2f}",
            f"{regret.mean():.2f} ({low:.2f}, {high:.2f})",
            f"{np.percentile(regret, 95):.1f}",
            f"{100 * np.mean([float(race['cost']) for race in those]):.1f}",
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the calibrations")
    parser.add_argument("--cost", action="store_true", help="measure the time of scoring")
    parser.add_argument("--rst", action="store_true", help="print tables for the documentation")
    parser.add_argument("--decisions", action="store_true", help="only the decision sets")
    options = parser.parse_args()
    benchmark = load_tiny_benchmark(as_frame=False)
    if options.write:
        content = {name: found.to_dict() for name, found in calibrations(benchmark).items()}
        CALIBRATIONS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return
    if options.cost:
        for size in (100, 1000):
            print(f"{size} images:", {k: f"{100 * v:.1f} %" for k, v in costs(size).items()})
        return
    cells, rules = all_cells(benchmark), all_rules(benchmark)
    for part in PARTS if not options.decisions else ():
        (show_rst if options.rst else show)(rules, cells, part)
    for first, *others in racing_rows(cells):
        print("\n".join([f"   * - {first}", *(f"     - {other}" for other in others)]))
    if options.rst:
        return
    print(f"\ndecision sets, level {LEVEL}: coverage and share on targets left out, threshold")
    for rule in ("logme", "pactran", "linearprobe", *list(CONSENSUS)[:3], "n_parameters"):
        for kind in ("margin", "rank"):
            found = calibrated(benchmark, cells, rule, rule=kind)
            by_target = " ".join(
                f"{target} {row['coverage']:.2f}/{row['share']:.2f}"
                for target, row in found.by_target.items()
            )
            left_out = " ".join(
                f"{part} {held:.2f}/{share:.2f}"
                for part in ("fashion", "100 images")
                for held, share in [coverage_when_left_out(benchmark, cells, rule, part, rule=kind)]
            )
            print(
                f"{rule:46}{kind:7} {found.coverage:.3f} {found.share:.3f} {found.threshold:8.3g}  "
                f"{by_target}   | calibrated on what was chosen on: {left_out}"
            )
        for size in (5, 10, 15):
            held, share = coverage_in_small_pools(benchmark, cells, rule, size)
            print(f"{'':46}margin, {size} candidates drawn: {held:.3f} {share:.3f}")


if __name__ == "__main__":
    main()
