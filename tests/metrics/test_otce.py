"""OTCE: optimality of the plan, stored values, duplicates, the target alone, and announcements."""

import json
import sys
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import ortho_group

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import NCE
from sktransfer.metrics._otce import OTCE

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
VALUES = json.loads((GOLDEN / "golden.json").read_text())
CASES = ["cancer_imb_relu128", "digits_raw64", "digits_relu512"]

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def make_data(n_samples=40, n_features=4, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    centres = np.random.default_rng(99).normal(size=(n_classes, n_features))
    return rng.normal(size=(n_samples, n_features)) + 3 * centres[y], y


def plan_by_definition(source, F):
    """Solve the transport as a linear program in one dense matrix of constraints."""
    n, m = len(source), len(F)
    cost = np.square(source[:, None] - F).sum(axis=2)
    rows = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    shares = np.r_[np.full(n, 1 / n), np.full(m, 1 / m)]
    result = linprog(cost.ravel(), A_eq=rows[:-1], b_eq=shares[:-1], method="highs-ipm")
    return result.x.reshape(n, m), result.fun


def conditional_entropy(plan, labels, y):
    joint = {}
    for i, z in enumerate(labels):
        for j, label in enumerate(y):
            joint[z, label] = joint.get((z, label), 0) + plan[i, j]
    total = 0.0
    for (z, _), p in joint.items():
        if p > 1e-12:
            total -= p * np.log(p / sum(v for (a, _), v in joint.items() if a == z))
    return total


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("sizes", [(12, 12), (10, 20), (24, 8), (12, 17), (9, 6)], ids=str)
def test_formula(sizes):
    n, m = sizes
    source, labels = make_data(n, n_classes=2, seed=1)
    F, y = make_data(m)
    plan, cost = plan_by_definition(source, F)
    metric = OTCE(source, labels).fit(F, y)
    assert metric.components_["wasserstein"] == pytest.approx(-cost, rel=1e-6)
    expected = -conditional_entropy(plan, labels, y)
    assert metric.components_["conditional_entropy"] == pytest.approx(expected, abs=1e-6)
    assert metric.score_ == metric.components_["conditional_entropy"]
    assert metric.joint_.sum() == pytest.approx(1)
    assert metric.joint_.sum(axis=0) == pytest.approx(np.bincount(y) / m)
    assert metric.joint_.sum(axis=1) == pytest.approx(np.bincount(labels) / n)
    weighted = OTCE(source, labels, wasserstein_weight=0.3).fit(F, y)
    assert weighted.score_ == pytest.approx(expected - 0.3 * cost, rel=1e-6)
    assert weighted.components_ == metric.components_


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", ["scipy", "pot"])
def test_stored_values(case, solver):
    if solver == "pot":
        pytest.importorskip("ot")
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        data = {name: stored[name] for name in stored.files}
    source = data["src_X"].astype(float), data["src_y"]
    metric = OTCE(*source, solver=solver).fit(data["X"].astype(float), data["y"])
    expected = VALUES[case]["otce.conditional_entropy"]["value"]
    assert metric.score_ == pytest.approx(-expected, rel=1e-9)
    cost = VALUES[case]["otce.wasserstein"]
    # The original takes squared distances in single precision.
    assert metric.components_["wasserstein"] == pytest.approx(-cost["value"], rel=1e-6)
    assert metric.components_["wasserstein"] == pytest.approx(-cost["check"], rel=1e-9)


def test_a_source_that_is_the_target_is_perfect():
    F, y = make_data()
    metric = OTCE(F, y).fit(F, y)
    assert metric.score_ == 0.0
    assert metric.components_["wasserstein"] == 0.0
    # With other labels it is the conditional entropy of the two, whatever the features.
    z = np.arange(40) % 5
    assert OTCE(F, z).fit(F, y).score_ == pytest.approx(NCE().fit(z, y).score_, abs=1e-12)


# ------------------------------------------------------------------------------ duplicates and ties


@pytest.mark.parametrize("sizes", [(24, 24), (24, 12), (16, 24)], ids=str)
def test_neither_order_nor_names_matter_even_with_duplicates_and_ties(sizes):
    rng = np.random.default_rng(0)
    source = rng.integers(0, 2, size=(sizes[0], 3)).astype(float)
    F = rng.integers(0, 2, size=(sizes[1], 3)).astype(float)
    labels, y = rng.integers(0, 3, sizes[0]), rng.integers(0, 3, sizes[1])
    expected = OTCE(source, labels).fit(F, y)
    names = np.array(["z", "k", "a"])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        one, two = rng.permutation(sizes[0]), rng.permutation(sizes[1])
        metric = OTCE(source[one], names[labels[one]]).fit(F[two].astype(np.float32), names[y[two]])
        assert metric.score_ == pytest.approx(expected.score_, abs=1e-12)
        assert metric.chance_level_ == pytest.approx(expected.chance_level_, abs=1e-12)
        assert metric.components_["wasserstein"] == pytest.approx(
            expected.components_["wasserstein"], abs=1e-12
        )


def test_duplicates_share_what_is_moved():
    # All rows equal: every plan is optimal, and labels are independent.
    labels, y = np.array([0, 0, 1, 1, 1, 1]), np.array([0, 1, 1])
    metric = OTCE(np.ones((6, 2)), labels).fit(np.ones((3, 2)), y)
    np.testing.assert_allclose(metric.joint_, np.outer([1 / 3, 2 / 3], [1 / 3, 2 / 3]))
    assert metric.score_ == pytest.approx(-metric.label_entropy_)


def test_it_answers_to_changes_of_the_features_as_documented():
    source, labels = make_data(24, n_classes=2, seed=1)
    F, y = make_data(36)
    expected = OTCE(source, labels).fit(F, y)
    rotation = ortho_group.rvs(4, random_state=0)
    for scale, change in [
        (1, lambda A: A @ rotation),
        (1, lambda A: A + 1e3),
        (9, lambda A: 3 * A),
        (1, lambda A: np.c_[A, np.full(len(A), 0.1)]),
        (1e200, lambda A: A * 1e100),
        (1e-240, lambda A: A * 1e-120),
    ]:
        metric = OTCE(change(source), labels).fit(change(F), y)
        assert metric.score_ == pytest.approx(expected.score_, abs=1e-12)
        cost = scale * expected.components_["wasserstein"]
        assert metric.components_["wasserstein"] == pytest.approx(cost, rel=1e-7)
    huge = OTCE(source * 1e300, labels, wasserstein_weight=1.0).fit(F * 1e300, y)
    assert np.isfinite(huge.score_)
    assert np.isfinite(huge.components_["wasserstein"])


# ---------------------------------------------------------------------------------- without source


def test_without_a_source_every_sample_is_moved_to_another_one():
    F, y = make_data(7)
    best, cost = None, np.inf
    for image in permutations(range(7)):
        if all(i != j for i, j in enumerate(image)):
            found = np.mean([np.square(F[i] - F[j]).sum() for i, j in enumerate(image)])
            if found < cost:
                best, cost = image, found
    plan = np.zeros((7, 7))
    plan[np.arange(7), best] = 1 / 7
    metric = OTCE().fit(F, y)
    assert metric.components_["wasserstein"] == pytest.approx(-cost)
    assert metric.score_ == pytest.approx(-conditional_entropy(plan, y, y), abs=1e-12)


def test_without_a_source_duplicates_are_moved_to_each_other():
    # Two places far apart, with three and two equal rows.
    F = np.array([[0.0], [0.0], [0.0], [9.0], [9.0]])
    metric = OTCE().fit(F, list("abbcc"))
    # Pairs of different rows: a-b, b-a and b-b in equal shares of three times 1/5; c-c.
    expected = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 2]]) / 5
    np.testing.assert_allclose(metric.joint_, expected, atol=1e-15)


def test_without_a_source_classes_that_lie_apart_score_higher():
    F, y = make_data(60)
    rng = np.random.default_rng(0)
    scores = [OTCE(n_permutations=0).fit(F, rng.permutation(y)).score_ for _ in range(10)]
    assert OTCE().fit(F, y).score_ > max(scores)


# ----------------------------------------------------------------------- wrong input, announcements


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ((np.ones((4, 4)), None), "given together; got only source_features"),
        ((None, [0, 1]), "given together; got only source_labels"),
        ((np.ones((4, 3)), [0, 1, 0, 1]), "X has 4 features, but the source of OTCE has 3"),
        ((np.ones((4, 4)), [0, 1]), "inconsistent numbers"),
        ((np.full((2, 4), np.inf), [0, 1]), "source_features contains infinity"),
        ((np.ones((2, 4)), [0.5, 0.25]), "source of OTCE"),
    ],
)
def test_a_wrong_source_is_refused_in_a_sentence(source, match):
    with pytest.raises(ValueError, match=match):
        OTCE(*source).fit(*make_data())


def test_a_missing_solver_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    F, y = make_data()
    with pytest.raises(ImportError, match=r"POT.*sktransfer\[ot\].*solver='scipy'"):
        OTCE(F, y, solver="pot").fit(F, y)
    assert OTCE(F, y).fit(F, y).score_ == 0


def test_a_program_without_a_solution_is_an_error(monkeypatch):
    from sktransfer.metrics import _otce

    class Failed:
        x, message = None, "time limit"

    monkeypatch.setattr(_otce, "linprog", lambda *args, **kwargs: Failed)
    with pytest.raises(ValueError, match="not found: time limit"):
        OTCE(*make_data(7)).fit(*make_data(5))


def test_scores_that_say_nothing_are_announced():
    F, y = make_data()
    rng = np.random.default_rng(0)
    source, labels = make_data(20, seed=1)
    for metric, data, match in [
        (OTCE(), (rng.normal(size=(6, 4)), np.arange(6)), "single sample"),
        (OTCE(source, np.zeros(20, int)), (F, y), "one class only"),
        (OTCE(source, labels), (F, rng.permutation(y)), "permuted labels"),
    ]:
        with pytest.warns(UninformativeScoreWarning, match=match):
            assert metric.fit(*data).saturated_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = OTCE(source, labels).fit(F, y)
    assert not metric.saturated_
    assert -metric.label_entropy_ < metric.chance_level_ < metric.score_
    assert np.isnan(OTCE(source, labels, n_permutations=0).fit(F, y).chance_level_)
