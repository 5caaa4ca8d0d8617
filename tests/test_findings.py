"""Numbers of the findings page, computed again from the scores that are kept beside it.

Kendall's tau is computed here from the signs of all pairs of candidates, not by the package.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import competition_ranks

pd = pytest.importorskip("pandas")

GUIDE = Path(__file__).parents[1] / "docs" / "user_guide"
FOLDER = GUIDE / "findings"
KEYS = ["target", "candidate", "fraction", "repeat"]
DRAWN = (0.05, 0.1, 0.25, 0.5, 0.75)
PUBLISHED = ("hscore", "leep", "logme", "ncti", "nleep", "parc", "sfda")
MEASURES = {"accuracy": "accuracy", "AUROC": "roc_auc_ovr", "log loss": "neg_log_loss"}


@pytest.fixture(scope="module")
def benchmark():
    return load_tiny_benchmark()


@pytest.fixture(scope="module")
def page():
    return " ".join((GUIDE / "findings.rst").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def scores():
    return pd.read_csv(FOLDER / "scores.csv.gz")


@pytest.fixture(scope="module")
def metrics(scores):
    return list(scores.columns.drop(KEYS))


@pytest.fixture(scope="module")
def cells(scores, metrics, benchmark):
    """By target, fraction and metric the scores, a row per repeat and a column per candidate."""
    found = {}
    for (target, fraction), rows in scores.groupby(["target", "fraction"]):
        shape = -1, len(benchmark.candidates(target))
        rows = rows.sort_values("repeat", kind="stable")
        for metric in metrics:
            found[target, fraction, metric] = rows[metric].to_numpy().reshape(shape)
    return found


def signs(values):
    """Which of two candidates is better, for all pairs; rows are scaled to a length of one."""
    values = np.atleast_2d(values)
    first, second = np.triu_indices(values.shape[1], 1)
    found = np.sign(values[:, first] - values[:, second])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def reference(benchmark, target, measure="accuracy", **cell):
    return np.array(
        list(benchmark.reference(target, measure, **{"train_size": 1000, **cell}).values())
    )


def between_repeats(values):
    taus = signs(values) @ signs(values).T
    return taus[np.triu_indices(len(taus), 1)].mean()


def with_one(values, other):
    return (signs(values) @ signs(other).T).mean()


def over_targets(benchmark, value_of):
    return np.mean([value_of(target) for target in benchmark.targets])


@pytest.fixture(scope="module")
def stability(cells, metrics, benchmark):
    """Means over targets, by metric: repeats with each other, then with all, by fraction."""
    return {
        metric: [
            over_targets(benchmark, lambda t, m=metric, f=f: between_repeats(cells[t, f, m]))
            for f in DRAWN
        ]
        + [
            over_targets(
                benchmark, lambda t, m=metric, f=f: with_one(cells[t, f, m], cells[t, 1.0, m])
            )
            for f in DRAWN
        ]
        for metric in metrics
    }


@pytest.fixture(scope="module")
def agreement(cells, metrics, benchmark):
    """Means over targets, by metric: with accuracy, then with AUROC, by fraction."""
    return {
        metric: [
            over_targets(
                benchmark,
                lambda t, m=metric, f=f, measure=measure: with_one(
                    cells[t, f, m], reference(benchmark, t, measure)
                ),
            )
            for measure in ("accuracy", "roc_auc_ovr")
            for f in (*DRAWN, 1.0)
        ]
        for metric in metrics
    }


@pytest.fixture(scope="module")
def between_metrics(cells, metrics, benchmark):
    """Means over repeats, by target and fraction: metric by metric."""
    found = {}
    for target in benchmark.targets:
        for fraction in (*DRAWN, 1.0):
            by_metric = np.array([signs(cells[target, fraction, metric]) for metric in metrics])
            found[target, fraction] = (
                np.einsum("arp,brp->ab", by_metric, by_metric) / (by_metric.shape[1])
            )
    return found


def table(name):
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


# -- the scores ------------------------------------------------------------------------------------


def test_every_score_is_there(scores, metrics, page, benchmark):
    assert (FOLDER / "scores.csv.gz").stat().st_size < 200_000
    assert list(scores.columns) == KEYS + metrics
    assert set(benchmark.metrics) - set(metrics) <= {"fu", "lpfu"}
    assert f"All {len(metrics)} " in page and f"{len(scores) * len(metrics):,} scores" in page
    subsets = [(f, repeat) for f in DRAWN for repeat in range(5)] + [(1.0, 0)]
    rows = [
        (target, candidate, *subset)
        for target in benchmark.targets
        for candidate in benchmark.candidates(target)
        for subset in subsets
    ]
    assert list(scores[KEYS].itertuples(index=False, name=None)) == rows
    assert np.isfinite(scores[metrics].to_numpy()).all()


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_a_study_gives_these_scores(scores, benchmark):
    pytest.importorskip("torch")
    from sktransfer.datasets import load_digits_target, load_tiny_zoo
    from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

    digits = load_digits_target()
    rows = benchmark.train_rows("digits", train_size=1000, seed=0)
    candidates = load_tiny_zoo(names=["mnist_half", "cells_half"], device="cpu")
    metrics = ["hscore", "logme", "gbc"]
    study = RobustnessStudy(candidates, metrics, NestedStratifiedSubsets((0.05, 0.25), 2))
    study.run(digits.images[rows], digits.y[rows], target="digits")
    found = study.to_frame()
    kept = scores.melt(KEYS, metrics, var_name="metric", value_name="kept")
    both = found.merge(kept, on=[*KEYS, "metric"])
    assert len(both) == len(found) == 3 * 2 * 5
    np.testing.assert_allclose(both["score"], both["kept"], rtol=1e-4)


# -- tables ----------------------------------------------------------------------------------------


def assert_table(name, expected):
    _, rows = table(name)
    assert sorted(row[0] for row in rows) == sorted(expected)
    for label, *values in rows:
        np.testing.assert_allclose(np.array(values, float), expected[label], atol=0.0051)


def test_table_of_stability(stability):
    header, rows = table("stability")
    assert header[1:] == [f"{prefix}{100 * f:g} %" for prefix in ("", "all: ") for f in DRAWN]
    assert_table("stability", stability)
    means = [np.mean(stability[row[0]][:5]) for row in rows]
    assert means == sorted(means, reverse=True)


def test_table_of_agreement(agreement):
    header, rows = table("agreement")
    fractions = (*DRAWN, 1.0)
    assert header[1:] == [f"{m} {100 * f:g} %" for m in ("accuracy", "AUROC") for f in fractions]
    assert_table("agreement", agreement)
    means = [np.mean(agreement[row[0]][:6]) for row in rows]
    assert means == sorted(means, reverse=True)


def test_table_of_metrics(between_metrics, metrics, benchmark):
    pairs = np.triu_indices(len(metrics), 1)
    assert_table(
        "between_metrics",
        {
            target: [between_metrics[target, f][pairs].mean() for f in (*DRAWN, 1.0)]
            for target in benchmark.targets
        },
    )


def pairs_of_references(benchmark, target):
    def seeds(size):
        values = [reference(benchmark, target, train_size=size, seed=s) for s in benchmark.seeds]
        return [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]

    full = reference(benchmark, target)
    return {
        "accuracy, AUROC": [(full, reference(benchmark, target, "roc_auc_ovr"))],
        "accuracy, log loss": [(full, reference(benchmark, target, "neg_log_loss"))],
        "1,000 images, 50": [(full, reference(benchmark, target, train_size=50))],
        "two seeds, 50 images": seeds(50),
        "two seeds, 1,000 images": seeds(1000),
    }


def test_table_of_references(benchmark):
    from scipy.stats import spearmanr

    _, rows = table("references")
    expected = {
        (target, label): pairs
        for target in benchmark.targets
        for label, pairs in pairs_of_references(benchmark, target).items()
    }
    assert [tuple(row[:2]) for row in rows] == list(expected)
    for row in rows:
        pairs = expected[tuple(row[:2])]
        tau = np.mean([with_one(*pair) for pair in pairs])
        rho = np.mean([spearmanr(*pair).statistic for pair in pairs])
        moved = np.mean([np.not_equal(*map(competition_ranks, pair)).mean() for pair in pairs])
        assert float(row[2]) == pytest.approx(tau, abs=0.0051)
        assert float(row[4]) == pytest.approx(rho, abs=0.0051)
        assert row[5] == f"{100 * moved:.0f} %"


# -- sentences -------------------------------------------------------------------------------------


def span(cells, target, metric, candidate, benchmark, fraction=0.05):
    """Ranks of a candidate in the five repeats."""
    ranks = [competition_ranks(row) for row in cells[target, fraction, metric]]
    return [int(row[benchmark.candidates(target).index(candidate)]) for row in ranks]


def test_sentences_on_stability(page, stability, cells, benchmark):
    for place, share in ((0, "5 %"), (4, "75 %")):
        column = {metric: values[place] for metric, values in stability.items()}
        least, most = min(column, key=column.get), max(column, key=column.get)
        said = f"At {share} it is between {column[least]:.2f} ({least}) and {column[most]:.2f} "
        assert said + f"({most})" in page
    for metric in ("hscore", "ncti", "etran", "sfda", "transrate", "leep"):
        with_each_other, with_all = stability[metric][0], stability[metric][5]
        assert f"{metric} {with_each_other:.2f} and {with_all:.2f}" in page
    tied = [
        int(max((competition_ranks(row) == 1).sum() for row in cells[target, 0.05, "hscore"]))
        for target in benchmark.targets
    ]
    n_candidates = [len(benchmark.candidates(target)) for target in benchmark.targets]
    assert (
        "{} of {}, {} of {} and {} of {} candidates".format(
            *(number for pair in zip(tied, n_candidates, strict=True) for number in pair)
        )
        in page
    )


def test_what_rounding_would_do(page, cells, benchmark):
    rng = np.random.default_rng(0)

    def by_chance(target):
        values = cells[target, 0.05, "hscore"]
        taus = [between_repeats(values + 1e-9 * rng.normal(size=values.shape)) for _ in range(200)]
        return np.mean(taus)

    found = over_targets(benchmark, by_chance)
    assert f"it would have {found:.2f} instead" in page, found


def test_sentences_on_single_candidates(page, cells, benchmark):
    for metric, candidate in (("logme", "gratings"), ("parc", "cells"), ("knn", "cells_half")):
        ranks = span(cells, "fashion", metric, candidate, benchmark)
        *most, last = map(str, ranks)
        assert f"{candidate} by {metric} {', '.join(most)} and {last}" in page
    first = {
        metric: {
            benchmark.candidates("fashion")[int(np.argmax(row))]
            for row in cells["fashion", 0.05, metric]
        }
        for metric in ("leep", "logme")
    }
    assert first["leep"] == {"letters_half"} and len(first["logme"]) == 4
    assert "leep has letters_half first each time, logme four different ones" in page


def test_how_far_coefficients_differ(page, cells, benchmark):
    from scipy.stats import spearmanr, weightedtau

    def mean(coefficient, values):
        pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
        return np.mean([coefficient(a, b).statistic for a, b in pairs])

    # The largest difference is among these; all 285 take too long here.
    values = cells["fashion", 0.25, "ncti"]
    found = [between_repeats(values), mean(spearmanr, values), mean(weightedtau, values)]
    assert f"as large as {max(found) - min(found):.2f} (ncti, 25 % of fashion)" in page


def test_error_of_five_repeats(page, cells, metrics, benchmark):
    largest = 0.0
    for metric in metrics:
        means = [
            over_targets(
                benchmark,
                lambda t, m=metric, r=repeat: between_repeats(
                    np.delete(cells[t, 0.05, m], r, axis=0)
                ),
            )
            for repeat in range(5)
        ]
        whole = over_targets(benchmark, lambda t, m=metric: between_repeats(cells[t, 0.05, m]))
        largest = max(largest, np.abs(np.array(means) - whole).max())
    assert f"moves no number of this column by more than {np.ceil(100 * largest) / 100:.2f}" in page


def test_sentences_on_metrics(page, between_metrics, metrics, benchmark):
    pairs = {"hscore, logme": 1.0, "hscore, sfda": 1.0, "knn, otce": 1.0, "leep, nce": 1.0}
    for pair in pairs:
        first, second = (metrics.index(metric) for metric in pair.split(", "))
        few, full = (
            np.mean([between_metrics[target, f][first, second] for target in benchmark.targets])
            for f in (0.05, 1.0)
        )
        assert f"{pair.replace(', ', ' with ')} from {few:.2f} to {full:.2f}" in page
    chosen = [metrics.index(metric) for metric in PUBLISHED]
    upper = np.triu_indices(len(chosen), 1)
    for target in benchmark.targets:
        few, full = (
            between_metrics[target, f][np.ix_(chosen, chosen)][upper].mean() for f in (0.05, 1.0)
        )
        assert f"{target} {few:.2f} and {full:.2f}" in page


def test_sentences_on_references(page, benchmark):
    moved, farthest = [], []
    for target in benchmark.targets:
        sides = [reference(benchmark, target, measure) for measure in ("accuracy", "roc_auc_ovr")]
        ranks = [competition_ranks(side) for side in sides]
        far = int(np.argmax(np.abs(ranks[0] - ranks[1])))
        moved.append(f"{(ranks[0] != ranks[1]).sum()} of {len(ranks[0])}")
        name = benchmark.candidates(target)[far]
        farthest.append(f"{name} ({target}) from {ranks[0][far]} to {ranks[1][far]}")
    assert "{}, {} and {}".format(*moved) in page
    for said in farthest:
        assert said in page
    worse = []
    for target in benchmark.targets:
        accuracy = benchmark.reference(target, train_size=1000)
        scratch = benchmark.from_scratch(target, train_size=1000)
        facts = benchmark.candidate_facts
        worse.append(sum(accuracy[name] < scratch[facts[name]["width"]] for name in accuracy))
    assert "{}, {} and {} candidates are worse than their own architecture".format(*worse) in page


def of_published(cells, benchmark, target, kept=slice(None)):
    """Mean agreement on all images of the published study's metrics, for some candidates."""
    accuracy = reference(benchmark, target)
    taus = [with_one(cells[target, 1.0, metric][:, kept], accuracy[kept]) for metric in PUBLISHED]
    return np.mean(taus)


def test_sentences_on_agreement(page, agreement, cells, benchmark):
    for metric in ("hscore", "linearprobe", "logme", "leep", "transrate", "pas"):
        few, full = agreement[metric][0], agreement[metric][5]
        assert f"{metric} from {few:.2f} to {full:.2f}" in page
    everyone, best, single = [], [], []
    for target in benchmark.targets:
        accuracy = reference(benchmark, target)
        facts = [benchmark.candidate_facts[name] for name in benchmark.candidates(target)]
        one_width = [fact["pretrained"] and fact["width"] == 1 for fact in facts]
        everyone.append(of_published(cells, benchmark, target))
        kept = np.argsort(-accuracy, kind="stable")[:12]
        best.append(of_published(cells, benchmark, target, kept))
        single.append(of_published(cells, benchmark, target, np.flatnonzero(one_width)))
    _, rows = table("agreement_of_some")
    for target, *row in zip(benchmark.targets, everyone, best, single, strict=True):
        (found,) = [[float(value) for value in r[1:]] for r in rows if r[0] == target]
        np.testing.assert_allclose(found, row, atol=0.0051)
