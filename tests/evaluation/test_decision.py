import json
import math
import pickle

import numpy as np
import pytest

from sktransfer.datasets import load_decision_calibration, load_tiny_benchmark
from sktransfer.evaluation import DecisionCalibration, calibrate_decision_set
from sktransfer.exceptions import FewReferencesWarning

NAN = math.nan
NAMES = [f"network {i}" for i in range(12)]


def simulated(n_cells, noise, seed, n=12):
    """Scores that are the reference with errors: the best is somewhere near the top."""
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(n_cells, n))
    scores = reference + noise * rng.normal(size=(n_cells, n))
    return (
        [dict(zip(NAMES, row, strict=False)) for row in scores.tolist()],
        [dict(zip(NAMES, row, strict=False)) for row in reference.tolist()],
    )


def gap(scores, reference):
    best = max(reference, key=reference.get)
    return max(scores.values()) - scores[best]


def test_threshold_is_the_largest_conformal_quantile_of_a_target():
    scores, references = simulated(40, 0.5, seed=0)
    targets = ["a"] * 20 + ["b"] * 20
    found = calibrate_decision_set(scores, references, targets)
    gaps = [gap(s, r) for s, r in zip(scores, references, strict=True)]
    # 90 % of 20 cells: the ceil(21 * 0.9) = 19th of them
    by_target = {"a": sorted(gaps[:20])[18], "b": sorted(gaps[20:])[18]}
    assert found.threshold == pytest.approx(max(by_target.values()))
    assert found.by_target["a"]["threshold"] == pytest.approx(by_target["b"])
    held = [g <= by_target["b"] + 1e-9 for g in gaps[:20]]
    assert found.by_target["a"]["coverage"] == pytest.approx(np.mean(held))
    sizes = [
        np.mean([max(s.values()) - v <= by_target["b"] + 1e-9 for v in s.values()])
        for s in scores[:20]
    ]
    assert found.by_target["a"]["share"] == pytest.approx(np.mean(sizes))
    assert found.coverage == pytest.approx(
        np.mean([found.by_target[t]["coverage"] for t in ("a", "b")])
    )


@pytest.mark.parametrize("rule", ["margin", "rank"])
@pytest.mark.parametrize("noise", [0.2, 0.8])
def test_sets_hold_the_best_of_new_targets_of_the_same_kind(rule, noise):
    scores, references = simulated(120, noise, seed=1)
    targets = np.repeat(["a", "b", "c", "d"], 30)
    found = calibrate_decision_set(scores, references, targets, rule=rule)
    new_scores, new_references = simulated(400, noise, seed=2)
    held = [
        max(r, key=r.get) in found.decision_set(s)
        for s, r in zip(new_scores, new_references, strict=True)
    ]
    # three standard errors of 400 cells below the level
    assert np.mean(held) >= 0.9 - 3 * math.sqrt(0.09 / 400)
    assert found.coverage >= 0.85 and found.share < 0.9


def test_a_target_never_judges_itself():
    scores, references = simulated(30, 0.05, seed=3)
    wild, wild_references = simulated(30, 5.0, seed=4)
    found = calibrate_decision_set(
        scores + wild, references + wild_references, ["a"] * 30 + ["b"] * 30
    )
    # learned from the easy target alone, sets of the hard one are too small, and that shows
    assert found.by_target["b"]["coverage"] < 0.7 < 0.95 < found.by_target["a"]["coverage"]


def test_decision_set():
    calibration = DecisionCalibration(
        "margin", 0.1, 0.9, 0.93, 0.2, {"digits": {}}, 20, (5, 9), (50, 100), "logme", "networks"
    )
    scores = {"c": 0.1, "a": 0.5, "b": 0.4, "e": NAN, "d": 0.39}
    found = calibration.decision_set(scores, n_samples=60)
    assert found.names == ("a", "b") and list(found) == ["a", "b"] and len(found) == 2
    assert "b" in found and "d" not in found and found.unscored == ("e",) and not found.notes
    assert found.promise == "decision" and found.calibration is calibration
    for part in ("at most 0.1 below", "'logme'", "93 %", "20 %", "20 cells", "digits", "networks"):
        assert part in found.statement
    assert "'e'" in found.statement and "50 to 100 samples" in found.statement
    assert "5,000 samples here" in calibration.decision_set(scores, n_samples=5000).statement
    shuffled = {name: scores[name] for name in "edcba"}
    assert calibration.decision_set(shuffled).names == ("a", "b")
    assert calibration.decision_set([0.3, 0.35, 0.1]).names == (1, 0)
    assert calibration.decision_set({"a": 3.0}).names == ("a",)
    assert calibration.decision_set({"a": NAN}).names == ()
    assert calibration.decision_set({"a": 1.0, "b": 1.0}).names == ("a", "b")
    by_rank = DecisionCalibration("rank", 1.0, 0.9, 0.9, 0.2, {"x": {}}, 9, (2, 2))
    assert by_rank.decision_set(scores).names == ("a", "b")
    assert "among the first 2 of the ranking" in by_rank.statement
    # Two share the second rank: neither is better than the other.
    assert by_rank.decision_set({"a": 3, "b": 2, "c": 2, "d": 1}).names == ("a", "b", "c")


def test_too_few_cells_rule_nobody_out():
    scores, references = simulated(4, 0.1, seed=5)
    with pytest.warns(FewReferencesWarning, match=r"9 cells .* \(got 2 of 'a', 2 of 'b'"):
        found = calibrate_decision_set(scores, references, ["a", "a", "b", "b"])
    assert math.isinf(found.threshold) and found.coverage == 1 and found.share == 1
    assert len(found.decision_set({"a": 1.0, "b": -1e9, "c": NAN})) == 2
    assert "too few references" in found.statement
    with pytest.warns(FewReferencesWarning, match="All cells are of one target, 'a'"):
        alone = calibrate_decision_set(scores, references, ["a"] * 4, level=0.5)
    assert math.isnan(alone.coverage) and math.isfinite(alone.threshold)
    assert "was not measured" in alone.statement


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.FewReferencesWarning")
def test_ties_missing_scores_and_losses():
    scores = [{"a": 3.0, "b": 2.0, "c": 1.0}]
    tied = calibrate_decision_set(scores, [{"a": 1, "b": 0, "c": 1}], ["x"], level=0.5)
    assert tied.threshold == 0  # one of the best is enough
    loss = calibrate_decision_set(
        scores, [{"a": 2, "b": 1, "c": 3}], ["x"], level=0.5, greater_is_better=False
    )
    assert loss.threshold == 1
    unscored = [{"a": 3.0, "b": NAN, "c": 1.0}] * 2
    found = calibrate_decision_set(unscored, [{"a": 0, "b": 1, "c": 0}] * 2, ["x", "y"], level=0.5)
    assert math.isinf(found.threshold) and found.coverage == 0


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.FewReferencesWarning")
def test_json_and_pickle():
    scores, references = simulated(4, 0.1, seed=5)
    for options in ({}, {"level": 0.5, "train_sizes": [50, 50, 100, 100], "metric": "logme"}):
        for targets in (["a"] * 4, ["a", "a", "b", "b"]):
            found = calibrate_decision_set(scores, references, targets, **options)
            content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
            again = DecisionCalibration.from_dict(content)
            assert repr(again) == repr(found) and again.statement == found.statement
            assert again.to_dict() == found.to_dict() == content
            assert pickle.loads(pickle.dumps(found)).to_dict() == content


@pytest.mark.parametrize(
    "change, message",
    [
        ({"level": 1.0}, "'level' must be"),
        ({"level": True}, "'level' must be"),
        ({"rule": "quantile"}, "'rule' must be"),
        ({"targets": ["a"]}, "one entry per cell"),
        ({"scores": [], "references": [], "targets": []}, "at least one cell"),
        ({"references": [{"a": 1, "c": 2}] * 2}, "must have the same candidates"),
        ({"references": [{"a": 1, "b": NAN}] * 2}, "reference of every candidate.*'b'"),
        ({"scores": [{}, {}], "references": [{}, {}]}, "reference of every candidate"),
        ({"train_sizes": [50]}, "one entry per cell"),
    ],
)
def test_wrong_input(change, message):
    given = {
        "scores": [{"a": 1, "b": 2}] * 2,
        "references": [{"a": 1, "b": 2}] * 2,
        "targets": ["x", "y"],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        calibrate_decision_set(**given)


# -- what the package ships ------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["logme", "linearprobe"])
def test_shipped_calibrations_are_those_of_the_bundled_table(metric):
    benchmark = load_tiny_benchmark(as_frame=False)
    cells = [
        cell
        for cell in benchmark.cells
        if benchmark.ceiling(cell[0], train_size=cell[1]).kendall >= 0.6
    ]
    found = calibrate_decision_set(
        [benchmark.scores(metric, t, train_size=n, seed=s) for t, n, s in cells],
        [benchmark.reference(t, train_size=n, without_seed=s) for t, n, s in cells],
        [target for target, _, _ in cells],
        train_sizes=[size for _, size, _ in cells],
    ).to_dict()
    shipped = load_decision_calibration(metric).to_dict()
    assert shipped["metric"] == metric
    for name in ("threshold", "coverage", "share"):
        assert shipped[name] == pytest.approx(found[name], rel=1e-9)
    for name in ("by_target", "n_cells", "n_candidates", "train_sizes", "rule", "level"):
        assert shipped[name] == found[name]


def test_every_metric_of_the_benchmark_has_one():
    for metric in (*load_tiny_benchmark(as_frame=False).metrics, "consensus"):
        assert load_decision_calibration(metric).metric == metric
    with pytest.raises(ValueError, match="'metric' must be one of"):
        load_decision_calibration("magic")
    # The goals: the best in 90 % of cells, with at most a third of the candidates.
    for metric in ("logme", "consensus"):
        found = load_decision_calibration(metric)
        assert found.coverage >= 0.9 and found.share <= 1 / 3


def test_wrong_cells_are_told_of_without_advice_that_cannot_be_followed():
    with pytest.raises(ValueError, match="entry for each cell. Got the string 'ab'"):
        calibrate_decision_set([[1, 2]] * 2, [[1, 2]] * 2, "ab")
    with pytest.raises(ValueError, match="must have the same candidates: .*lacks 'b'") as caught:
        calibrate_decision_set([{"a": 1, "b": 2}], [{"a": 1}], ["x"])
    assert "names=" not in str(caught.value)
