"""KNN: its formula, stored values of the originals, duplicates, ties, chance, and blocks."""

import json
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from sktransfer.exceptions import ConstantTargetWarning, UninformativeScoreWarning
from sktransfer.metrics import _knn
from sktransfer.metrics._knn import KNN, vote_chance

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(case, *(key + "@").split("@")[:2], entry, id=f"{case}-{key}")
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("knn")
]


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix.startswith("model") else "X"
        return stored[name].astype(np.float64), stored["Y" if case.endswith("_reg") else "y"]


def neighbours_by_definition(F, k):
    """Shares in the k votes of every pair; equal distances share what is left."""
    n = len(F)
    k = min(k, n - 1)
    shares = np.zeros((n, n))
    for i in range(n):
        distance = np.sum((F - F[i]) ** 2, axis=1)
        distance[i] = np.inf
        last = np.sort(distance)[k - 1]
        inside = distance < last * (1 - 1e-12) - 1e-300
        tied = ~inside & (distance <= last * (1 + 1e-12))
        shares[i, inside] = 1
        shares[i, tied] = (k - inside.sum()) / tied.sum()
    return shares


def accuracy_by_definition(F, y, k):
    credits = []
    for label, share in zip(y, neighbours_by_definition(F, k), strict=True):
        votes = {c: share[y == c].sum() for c in set(y)}
        winners = [c for c in votes if votes[c] > max(votes.values()) - 1e-9]
        credits.append((label in winners) / len(winners))
    return np.mean(credits)


def make_data(n_samples=50, n_features=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("k", [1, 2, 3, 5, 49, 80])
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_formula(k):
    for kind in ("continuous", "few values", "duplicates", "wide"):
        F, y = make_data(n_features=80 if kind == "wide" else 3)
        if kind == "few values":
            F = np.round(F)
        if kind == "duplicates":
            F = F[np.random.default_rng(0).integers(0, 12, len(F))]
        metric = KNN(k).fit(F, y)
        assert metric.score_ == pytest.approx(accuracy_by_definition(F, y, k), abs=1e-12)
        assert metric.n_neighbors_ == min(k, 49)


def test_without_ties_it_is_leave_one_out_by_scikit_learn():
    F, y = make_data(80, 20)
    t = F[:, 0] + np.random.default_rng(1).normal(size=80)
    for k in (1, 5):
        right, predicted = [], []
        for i in range(80):
            others = np.arange(80) != i
            model = KNeighborsClassifier(k).fit(F[others], y[others])
            proba = model.predict_proba(F[[i]])[0]
            right.append((proba[y[i]] == proba.max()) / (proba == proba.max()).sum())
            predicted.append(KNeighborsRegressor(k).fit(F[others], t[others]).predict(F[[i]])[0])
        assert KNN(k).fit(F, y).score_ == pytest.approx(np.mean(right), abs=1e-12)
        baseline = (t.sum() - t) / 79
        expected = 1 - np.sum((t - predicted) ** 2) / np.sum((t - baseline) ** 2)
        metric = KNN(k).fit(F, t)
        assert metric.score_ == pytest.approx(expected, abs=1e-12)
        assert metric.correlations_[0] == pytest.approx(np.corrcoef(t, predicted)[0, 1], abs=1e-12)


@pytest.mark.parametrize(("case", "key", "suffix", "entry"), ENTRIES)
def test_stored_values(case, key, suffix, entry):
    F, y = arrays(case, suffix)
    k = int(key[-1])
    if key.startswith("knn_reg"):
        metric = KNN(3, task="regression").fit(F, y)
        output = int(suffix.removeprefix("output"))
        assert metric.correlations_[output] == pytest.approx(entry["value"], abs=1e-9)
        return
    score = KNN(k).fit(F, y).score_
    published = entry["value"] / 100 if "parc" in key else entry["value"]
    if key == "knn.parc_k1":
        assert score == pytest.approx(published, abs=1e-12)
    elif case == "cancer_imb_relu128" and "transformer_ranker" in key:
        # The F1 of one of two classes, not the accuracy.
        assert score == pytest.approx(entry["check"], abs=1e-12)
        assert abs(score - published) > 0.05
    else:
        # Originals give a shared win to the smallest label, or count right neighbours.
        shares = neighbours_by_definition(F, k)
        votes = np.array([[share[y == c].sum() for c in np.unique(y)] for share in shares])
        shared = (votes >= votes.max(axis=1, keepdims=True) - 1e-9).sum(axis=1) > 1
        tied = [np.isclose(share[share > 0], 1).all() for share in shares]
        unclear = np.mean(shared | ~np.array(tied))
        assert abs(score - published) <= unclear + 1e-6
        if unclear == 0:
            assert score == pytest.approx(published, abs=1e-6)


# -------------------------------------------------------------------------------- duplicates, ties


def test_a_duplicate_with_another_label_is_the_nearest_neighbour():
    # The original drops one of the two equal rows, and not always the sample itself: 31 %.
    F = np.repeat(np.random.default_rng(0).normal(size=(20, 4)), 2, axis=0)
    assert KNN().fit(F, np.arange(40) % 2).score_ == 0.0
    assert KNN().fit(F, np.repeat(np.arange(20) % 2, 2)).score_ == 1.0


def test_three_equal_rows_share_the_vote():
    # a b b at one place, c c far away: a sees b b; each b sees a and b, a shared win.
    F = np.array([[0.0], [0.0], [0.0], [9.0], [9.0]])
    assert KNN().fit(F, list("abbcc")).score_ == pytest.approx((0 + 0.5 + 0.5 + 1 + 1) / 5)


def test_ties_survive_a_change_of_basis_unit_and_precision():
    rng = np.random.default_rng(0)
    F = rng.integers(0, 3, size=(60, 4)).astype(float)
    y = rng.integers(0, 3, 60)
    expected = KNN(3).fit(F, y).score_
    rotation = ortho_group.rvs(4, random_state=1)
    for same in (
        F @ rotation,
        (F + 1e3) @ rotation,
        F * 0.1,
        F * np.pi * 1e-120,
        F * 1e150,
        F + 1e6,
        F.astype(np.float32),
        np.asfortranarray(F),
        np.c_[F, np.full(60, 0.1)],
    ):
        assert KNN(3).fit(same, y).score_ == pytest.approx(expected, abs=1e-12)
    order = rng.permutation(60)
    assert KNN(3).fit(F[order], y[order]).score_ == pytest.approx(expected, abs=1e-13)
    assert KNN(3).fit(F, np.array(["z", "a", "m"])[y]).score_ == expected


def test_neighbours_beside_a_far_outlier_are_still_told_apart():
    F, y = make_data(40, 3)
    expected = accuracy_by_definition(np.r_[F, [[1e9] * 3]], np.r_[y, 0], 1)
    assert KNN().fit(np.r_[F, [[1e9] * 3]], np.r_[y, 0]).score_ == pytest.approx(expected)


def test_blocks_give_the_same_score(monkeypatch):
    F, y = make_data(90, 4)
    F = np.round(F, 1)
    t = F[:, 0]
    expected = KNN(3).fit(F, y).score_, KNN(3, task="regression").fit(F, t).score_
    for size in (1, 200, 1000):
        monkeypatch.setattr(_knn, "_BLOCK_ELEMENTS", size)
        assert KNN(3).fit(F, y).score_ == pytest.approx(expected[0], abs=1e-13)
        found = KNN(3, task="regression").fit(F, t).score_
        assert found == pytest.approx(expected[1], abs=1e-12)


# ----------------------------------------------------------------------------------------- chance


@pytest.mark.parametrize("sizes", [(3, 2, 1), (2, 2, 2), (4, 2), (1, 1, 1, 3), (3, 3)])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_chance_level_is_the_mean_over_all_permutations(sizes, k):
    y = np.repeat(np.arange(len(sizes)), sizes)
    F = np.random.default_rng(0).normal(size=(6, 3))
    expected = np.mean([accuracy_by_definition(F, np.array(p), k) for p in set(permutations(y))])
    assert KNN(k).fit(F, y).chance_level_ == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_chance_level_of_a_regression_is_exact_even_with_ties(k):
    rng = np.random.default_rng(0)
    F, t = rng.integers(0, 2, size=(5, 2)).astype(float), rng.normal(size=5)
    scores = [KNN(k).fit(F, np.array(p)).score_ for p in permutations(t)]
    assert KNN(k).fit(F, t).chance_level_ == pytest.approx(np.mean(scores), abs=1e-12)


def test_chance_level_with_many_classes_and_neighbours():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 30, 40)
    y = np.repeat(np.arange(40), sizes)
    for k in (3, 20):
        credits = []
        for _ in range(4000):
            order = rng.permutation(len(y))
            votes = np.bincount(y[order[1 : k + 1]], minlength=40)
            winners = np.flatnonzero(votes == votes.max())
            credits.append((y[order[0]] in winners) / len(winners))
        error = np.std(credits) / np.sqrt(4000)
        assert abs(vote_chance(sizes, k) - np.mean(credits)) < 5 * error
    assert vote_chance(np.array([5, 5, 3]), 12) == pytest.approx(0.0)
    assert vote_chance(np.array([7, 5, 3]), 14) == pytest.approx(7 / 15)


def test_random_labels_score_at_chance():
    rng = np.random.default_rng(0)
    scores, chance = [], []
    for seed in range(30):
        F = np.random.default_rng(seed).normal(size=(60, 20))
        metric = KNN(3).fit(F, rng.permutation(np.arange(60) % 3))
        scores.append(metric.score_)
        chance.append(metric.chance_level_)
    assert abs(np.mean(scores) - np.mean(chance)) < 0.04


# ------------------------------------------------------------------------------------ announcements


@pytest.mark.parametrize(
    ("F", "y", "match"),
    [
        (np.zeros((12, 3)), np.arange(12) % 3, "same distance"),
        (np.eye(12), np.arange(12) % 3, "same distance"),
        (np.random.default_rng(0).normal(size=(8, 3)), np.arange(8), "single sample"),
        (np.random.default_rng(0).normal(size=(2, 3)), np.arange(2), "every other sample"),
        (np.zeros((12, 3)), np.linspace(0.1, 1, 12), "same distance"),
    ],
)
def test_scores_that_any_target_would_get_are_announced(F, y, match):
    with pytest.warns(UninformativeScoreWarning, match=match):
        metric = KNN().fit(F, y)
    assert metric.saturated_
    assert metric.chance_level_ == pytest.approx(metric.score_)


def test_informative_data_are_not_announced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not KNN().fit(*make_data()).saturated_


# -------------------------------------------------------------------------------------- regression


def test_outputs_are_scored_one_by_one():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(40, 4))
    T = np.c_[F[:, 0], F[:, 1] * 1e6 + 3, rng.normal(size=40)]
    metric = KNN(3).fit(F, T)
    single = [KNN(3).fit(F, t).score_ for t in T.T]
    assert metric.scores_ == pytest.approx(single, abs=1e-12)
    assert metric.score_ == pytest.approx(np.mean(single), abs=1e-12)
    assert KNN(3).fit(F, T[:, :1]).score_ == single[0]
    # Unit and location of the target do not matter.
    moved = KNN(3).fit(F, T * [1e-140, -1e100, 7] + [0, 0, 0.5]).scores_
    assert moved == pytest.approx(single, rel=1e-9)
    assert (metric.scores_ <= 1).all()


def test_constant_outputs_are_left_out():
    rng = np.random.default_rng(0)
    F, t = rng.normal(size=(30, 3)), rng.normal(size=30)
    with pytest.warns(ConstantTargetWarning, match=r"KNN left out 1 of 2 outputs .*\[1\]"):
        metric = KNN().fit(F, np.c_[t, np.full(30, 0.1)])
    assert metric.score_ == pytest.approx(KNN().fit(F, t).score_, abs=1e-12)
    assert np.isnan(metric.scores_[1])
    assert np.isnan(metric.correlations_[1])
    with pytest.warns(UninformativeScoreWarning, match="zero for every output"):
        metric = KNN(task="regression").fit(F, np.full(30, 0.1))
    assert np.isnan(metric.score_)
    assert metric.saturated_


def test_multilabel_targets_are_refused_and_labels_may_be_numbers():
    F, y = make_data()
    with pytest.raises(ValueError, match="KNN is defined for classification and regression"):
        KNN().fit(F, np.eye(3)[y])
    assert KNN(task="regression").fit(F, y).scores_.shape == (1,)


def test_accuracy_below_chance_is_announced():
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(10):
        F, y = rng.normal(size=(60, 20)), rng.integers(0, 13, 60)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metric = KNN().fit(F, y)
        assert metric.saturated_ == bool(caught)
        if metric.score_ < metric.chance_level_:
            found += 1
            assert "permuted labels score" in str(caught[0].message)
    assert found > 2


def test_regression_of_noise_is_announced_and_of_a_signal_not():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(80, 2))
    with pytest.warns(UninformativeScoreWarning, match="permuted targets score"):
        assert KNN(5).fit(F, rng.normal(size=80)).saturated_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not KNN(5).fit(F, F @ rng.normal(size=(2, 2))).saturated_
