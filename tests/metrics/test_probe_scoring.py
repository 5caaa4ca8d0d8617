"""The linear probe with weights, and judged by balanced accuracy and AUROC."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from sktransfer.metrics import LinearProbe

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


def make_data(n, n_features, shares, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), n, p=shares)
    return rng.normal(size=(n, n_features)) + rng.normal(size=(len(shares), n_features))[y] / 2, y


def predict_without(F, T, weight, left_out, alpha):
    """Fit ridge regression to the rows that are not left out, and predict these."""
    kept = np.setdiff1d(np.arange(len(F)), left_out)
    center = np.average(F[kept], axis=0, weights=weight[kept])
    mean = np.average(T[kept], axis=0, weights=weight[kept])
    root = np.sqrt(weight[kept])[:, None]
    rows, columns = root * (F[kept] - center), root * (T[kept] - mean)
    U, s, Vt = np.linalg.svd(rows, full_matrices=False)
    s = np.where(s > 1e-12 * s[0], s, 0.0)
    return (F[left_out] - center) @ Vt.T @ ((s / (s**2 + alpha))[:, None] * (U.T @ columns)) + mean


def auroc_of_pairs(F, y, weight, alpha):
    """Order every pair by the model of all others."""
    areas = []
    for label in np.unique(y):
        if (y == label).sum() == 1:
            areas.append(0.5)
            continue
        T = (y == label)[:, None].astype(float)
        won = total = 0.0
        for i in np.flatnonzero(y == label):
            for j in np.flatnonzero(y != label):
                one, two = predict_without(F, T, weight, [i, j], alpha)[:, 0]
                won += weight[i] * weight[j] * ((one > two) + 0.5 * (one == two))
                total += weight[i] * weight[j]
        areas.append(won / total)
    return np.mean(areas)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(18, 4), (14, 25)], ids=["tall", "wide"])
@pytest.mark.parametrize("alpha", [1e-6, 2.0, 1e7])
def test_every_score_is_that_of_a_loop_over_refits(shape, alpha, weighted):
    F, y = make_data(*shape, [0.6, 0.25, 0.15])
    n_samples, T = len(y), np.eye(3)[y]
    weight = np.random.default_rng(1).uniform(0.3, 3, n_samples) if weighted else np.ones(n_samples)
    weight /= weight.mean()
    predicted = np.vstack([predict_without(F, T, weight, [i], alpha) for i in range(n_samples)])
    right = predicted.argmax(axis=1) == y
    expected = {
        "accuracy": np.average(right, weights=weight),
        "balanced_accuracy": balanced_accuracy_score(
            y, predicted.argmax(axis=1), sample_weight=weight
        ),
        "roc_auc_ovr": auroc_of_pairs(F, y, weight, alpha),
    }
    for scoring, value in expected.items():
        metric = LinearProbe(alpha, scoring=scoring, n_permutations=0)
        metric.fit(F, y, sample_weight=weight)
        assert metric.score_ == pytest.approx(value, abs=1e-12)
    # The squared error, by which "loo" chooses the penalty.
    mean = np.array(
        [
            np.average(np.delete(T, i, 0), axis=0, weights=np.delete(weight, i))
            for i in range(n_samples)
        ]
    )
    error = weight @ np.square(T - predicted).sum(axis=1)
    error /= weight @ np.square(T - mean).sum(axis=1)
    assert metric.loo_error_ == pytest.approx(error, rel=1e-7)


@pytest.mark.parametrize("shape", [(30, 5), (20, 40)], ids=["tall", "wide"])
def test_weighted_regression_is_a_loop_over_refits(shape):
    F, _ = make_data(*shape, [1.0])
    rng = np.random.default_rng(2)
    T = np.c_[F[:, 0] + rng.normal(size=len(F)), F[:, 1] ** 2]
    weight = rng.uniform(0.3, 3, len(F))
    weight /= weight.mean()
    metric = LinearProbe(3.0).fit(F, T, sample_weight=weight)
    predicted = np.vstack([predict_without(F, T, weight, [i], 3.0) for i in range(len(F))])
    mean = np.array(
        [
            np.average(np.delete(T, i, 0), axis=0, weights=np.delete(weight, i))
            for i in range(len(F))
        ]
    )
    expected = 1 - weight @ np.square(T - predicted) / (weight @ np.square(T - mean))
    assert metric.scores_ == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(metric.chance_level_)
    assert np.isnan(LinearProbe(3.0, n_permutations=0).fit(F, T, weight).chance_level_)


def test_the_penalty_has_the_least_weighted_error():
    F, y = make_data(60, 8, [0.8, 0.2])
    weight = np.where(y == 1, 4.0, 1.0)
    chosen = LinearProbe(n_permutations=0).fit(F, y, sample_weight=weight)
    for factor in (1e-3, 0.3, 0.9, 1.1, 3.0, 1e3):
        other = LinearProbe(chosen.alpha_ * factor, n_permutations=0)
        assert other.fit(F, y, sample_weight=weight).loo_error_ >= chosen.loo_error_ - 1e-12 or (
            factor in (0.9, 1.1)  # between the values that are tried
        )


def test_two_classes_have_one_auroc_and_labels_may_be_swapped():
    F, y = make_data(50, 6, [0.8, 0.2])
    metric = LinearProbe(scoring="roc_auc_ovr", n_permutations=0)
    assert metric.fit(F, y).score_ == pytest.approx(metric.fit(F, 1 - y).score_, abs=1e-12)
    assert metric.fit(F, y).chance_level_ == 0.5


def test_a_class_of_one_sample_counts_one_half():
    F, y = make_data(40, 6, [0.5, 0.5])
    y[0] = 2
    metric = LinearProbe(1.0, scoring="roc_auc_ovr", n_permutations=0).fit(F, y)
    assert metric.score_ == pytest.approx(auroc_of_pairs(F, y, np.ones(40), 1.0), abs=1e-12)


def test_features_that_are_constant_or_equal_rows_tie():
    y = np.arange(12) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert LinearProbe(scoring="roc_auc_ovr").fit(np.ones((12, 3)), y).score_ == 0.5
    # Each row is there once in each class.
    F = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 2, axis=0)
    for alpha in (1e-4, 1.0, 1e4):
        metric = LinearProbe(alpha, scoring="roc_auc_ovr", n_permutations=0).fit(F, y)
        assert metric.score_ == pytest.approx(auroc_with_ties(F, y, alpha), abs=1e-12)


def auroc_with_ties(F, y, alpha):
    won = 0.0
    for i in np.flatnonzero(y == 1):
        for j in np.flatnonzero(y == 0):
            one, two = predict_without(F, (y == 1)[:, None] * 1.0, np.ones(12), [i, j], alpha)[:, 0]
            won += 0.5 if abs(one - two) < 1e-9 else one > two
    return won / 36


NOISE = {
    "balanced": (40, 6, [20, 20], {}),
    "rare": (60, 6, [54, 6], {}),
    "rare, weighted": (60, 6, [54, 6], {"class_weight": "balanced"}),
    "wide": (40, 80, [30, 10], {}),
    "strong penalty": (40, 6, [20, 20], {"alpha": 1e5}),
    "three classes": (60, 10, [40, 15, 5], {}),
}


@pytest.mark.parametrize("name", NOISE)
def test_noise_has_an_auroc_of_one_half(name):
    n_samples, n_features, sizes, params = NOISE[name]
    y = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(7)
    metric = LinearProbe(scoring="roc_auc_ovr", n_permutations=0, **params)
    scores = np.array(
        [metric.fit(rng.normal(size=(n_samples, n_features)), y).score_ for _ in range(150)]
    )
    assert abs(scores.mean() - 0.5) < 3.5 * scores.std() / np.sqrt(len(scores))


def test_leaving_out_one_at_a_time_would_be_biased():
    # What the pairs are for: predictions of single samples that are left out rank noise backwards.
    y = np.repeat([0, 1], [20, 20])
    rng = np.random.default_rng(7)
    areas = []
    for _ in range(20):
        F = rng.normal(size=(40, 6))
        T = (y == 1)[:, None].astype(float)
        predicted = [predict_without(F, T, np.ones(40), [i], 3e3)[0, 0] for i in range(40)]
        areas.append(roc_auc_score(y, predicted))
    assert np.mean(areas) < 0.1


def test_a_signal_is_told_from_chance_and_noise_is_not():
    F, y = make_data(80, 6, [0.85, 0.15])
    metric = LinearProbe(scoring="roc_auc_ovr").fit(F, y)
    assert metric.score_ > 0.7
    assert not metric.saturated_
    noise = np.random.default_rng(0).normal(size=F.shape)
    assert LinearProbe(scoring="roc_auc_ovr").fit(noise, y).saturated_


def test_blocks_of_pairs_do_not_change_the_score(monkeypatch):
    F, y = make_data(60, 6, [0.6, 0.3, 0.1])
    metric = LinearProbe(scoring="roc_auc_ovr", n_permutations=0)
    expected = metric.fit(F, y).score_
    monkeypatch.setattr("sktransfer.metrics._leave_one_out._BLOCK_ELEMENTS", 70)
    assert metric.fit(F, y).score_ == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc_ovr"])
def test_measures_of_labels_need_labels(scoring):
    F, y = make_data(30, 4, [0.5, 0.5])
    for target, kind in ((y + 0.5, "regression"), (np.eye(2)[y], "multilabel")):
        with pytest.raises(ValueError, match=f"{scoring}.* for classification.*got a {kind}"):
            LinearProbe(scoring=scoring).fit(F, target)
    with pytest.raises(ValueError, match="scoring"):
        LinearProbe(scoring="auc").fit(F, y)
