"""LinearProbe: brute-force refits, the choice of the penalty, chance, and announcements."""

import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import ortho_group
from sklearn.linear_model import Ridge, RidgeCV

from sktransfer.exceptions import ConstantTargetWarning, UninformativeScoreWarning
from sktransfer.metrics._linear_probe import LinearProbe

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
SHAPES = [(30, 5), (15, 40), (20, 18), (20, 19), (20, 20), (20, 21), (6, 1), (3, 4)]


def make_data(n_samples=50, n_features=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    F = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    return F + 3, y


def refitted(F, T, alpha):
    """Predictions of every sample by a model fitted to all the others."""
    predicted = []
    for i in range(len(F)):
        others = np.arange(len(F)) != i
        model = Ridge(alpha, solver="svd").fit(F[others], T[others])
        predicted.append(model.predict(F[[i]])[0])
    return np.array(predicted)


def mean_of_others(T):
    return (T.sum(axis=0) - T) / (len(T) - 1)


def r2_by_refits(F, T, alpha):
    error = np.square(T - refitted(F, T, alpha)).sum(axis=0)
    return 1 - error / np.square(T - mean_of_others(T)).sum(axis=0)


# ----------------------------------------------------------------------------------------- refits


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_labels_are_predicted_as_by_refitting(shape, alpha):
    F, y = make_data(*shape, n_classes=2 if shape[0] < 9 else 3)
    T = np.eye(y.max() + 1)[y]
    predicted = refitted(F, T, alpha)
    metric = LinearProbe(alpha).fit(F, y)
    assert metric.score_ == pytest.approx(np.mean(predicted.argmax(axis=1) == y), abs=1e-12)
    error = np.square(T - predicted).sum() / np.square(T - mean_of_others(T)).sum()
    assert metric.loo_error_ == pytest.approx(error, rel=1e-8)
    assert metric.alpha_ == alpha


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("alpha", [1e-2, 10.0])
def test_numbers_are_predicted_as_by_refitting(shape, alpha):
    F, _ = make_data(*shape, n_classes=2)
    rng = np.random.default_rng(1)
    T = np.c_[F[:, 0] + rng.normal(size=len(F)), 100 + 1e3 * rng.normal(size=len(F))]
    metric = LinearProbe(alpha).fit(F, T)
    expected = r2_by_refits(F, T, alpha)
    assert metric.scores_ == pytest.approx(expected, rel=1e-8)
    assert metric.score_ == pytest.approx(expected.mean(), rel=1e-8)
    assert LinearProbe(alpha).fit(F, T[:, 0]).score_ == pytest.approx(expected[0], rel=1e-8)


def test_columns_of_zeros_and_ones():
    F, _ = make_data(40, 6)
    Y = (F[:, :3] > 3).astype(int)
    metric = LinearProbe(1.0).fit(F, Y)
    assert metric.scores_ == pytest.approx(r2_by_refits(F, Y.astype(float), 1.0), rel=1e-9)


@pytest.mark.parametrize("case", ["iris_raw", "wine_std_deadclass"])
def test_real_features(case):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        F, y, codes = stored["X"].astype(float), stored["y"], stored["y_enc"]
    predicted = refitted(F, np.eye(codes.max() + 1)[codes], 0.5)
    metric = LinearProbe(0.5).fit(F, y)
    assert metric.score_ == pytest.approx(np.mean(predicted.argmax(axis=1) == codes), abs=1e-12)


@pytest.mark.parametrize(("case", "output"), [("diabetes_reg", 0), ("linnerud_reg", 1)])
def test_real_targets_against_the_leave_one_out_search_of_scikit_learn(case, output):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        F, t = stored["X"].astype(float), stored["y"].reshape(len(stored["X"]), -1)[:, output]
    metric = LinearProbe(task="regression").fit(F, t)
    top = np.linalg.norm(F - F.mean(axis=0), 2) ** 2
    search = RidgeCV(top * np.logspace(-10, 2, 49), store_cv_results=True, gcv_mode="eigen")
    search.fit(F - F.mean(axis=0), t)
    assert metric.alpha_[0] == pytest.approx(search.alpha_, rel=1e-9)
    error = -search.best_score_ * len(t)
    expected = 1 - error / np.square(t - mean_of_others(t)).sum()
    assert metric.score_ == pytest.approx(expected, rel=1e-6)


# -------------------------------------------------------------------------------------- the penalty


@pytest.mark.parametrize("shape", [(40, 6), (15, 40)], ids=str)
def test_the_penalty_has_the_smallest_leave_one_out_error(shape):
    F, y = make_data(*shape)
    metric = LinearProbe().fit(F, y)
    top = np.linalg.norm(F - F.mean(axis=0), 2) ** 2
    grid = top * np.logspace(-10, 2, 49)
    errors = [LinearProbe(alpha, n_permutations=0).fit(F, y).loo_error_ for alpha in grid]
    assert metric.loo_error_ == pytest.approx(min(errors), rel=1e-9)
    # The largest of those that are equally good.
    equal = np.array(errors) <= min(errors) * (1 + 1e-9)
    assert metric.alpha_ == pytest.approx(grid[equal].max(), rel=1e-9)
    assert metric.score_ == LinearProbe(metric.alpha_).fit(F, y).score_


def test_each_output_has_its_own_penalty():
    F, _ = make_data(40, 6)
    rng = np.random.default_rng(0)
    T = np.c_[F[:, 0], rng.normal(size=40), F[:, 1] + rng.normal(size=40)]
    metric = LinearProbe().fit(F, T)
    single = [LinearProbe().fit(F, t) for t in T.T]
    assert metric.alpha_ == pytest.approx([m.alpha_[0] for m in single], rel=1e-9)
    assert metric.scores_ == pytest.approx([m.score_ for m in single], rel=1e-9)
    assert metric.chance_level_ == pytest.approx(np.mean([m.chance_level_ for m in single]))
    assert metric.alpha_[0] < metric.alpha_[2] < metric.alpha_[1]


def test_it_answers_to_changes_of_the_features_as_documented():
    F, y = make_data(40, 6)
    rotation = ortho_group.rvs(6, random_state=0)
    for metric in (LinearProbe(), LinearProbe(2.0)):
        expected = metric.fit(F, y).loo_error_
        for same in (F @ rotation, F - 1e3, np.c_[F, np.full(40, 0.1)], F[:, ::-1]):
            assert metric.fit(same, y).loo_error_ == pytest.approx(expected, rel=1e-9)
    for scale in (1e-150, 1e-3, 1e150):
        expected = LinearProbe().fit(F, y)
        scaled = LinearProbe().fit(F * scale, y)
        assert scaled.loo_error_ == pytest.approx(expected.loo_error_, rel=1e-9)
        assert scaled.score_ == expected.score_
    assert abs(
        LinearProbe(2.0).fit(10 * F, y).loo_error_ - LinearProbe(2.0).fit(F, y).loo_error_
    ) > (1e-4)


@pytest.mark.parametrize("alpha", [1e-300, 1e300])
def test_extreme_penalties_are_limits(alpha):
    F, y = make_data(20, 4)
    T = np.eye(3)[y]
    limit = 1e-9 if alpha < 1 else 1e12
    error = np.square(T - refitted(F, T, limit)).sum() / np.square(T - mean_of_others(T)).sum()
    assert LinearProbe(alpha).fit(F, y).loo_error_ == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("shape", [(40, 6), (15, 40)], ids=str)
def test_one_decomposition_is_enough(shape, monkeypatch):
    F, y = make_data(*shape)
    expected = LinearProbe().fit(F, y).score_
    calls = []
    dsytrd = linalg.lapack.dsytrd
    monkeypatch.setattr(
        linalg.lapack, "dsytrd", lambda *args, **kw: calls.append(1) or dsytrd(*args, **kw)
    )
    assert LinearProbe().fit(F, y).score_ == expected
    assert len(calls) == 1


# ----------------------------------------------------------------------------------------- chance


def test_the_chance_level_of_a_regression_is_exact():
    rng = np.random.default_rng(0)
    for shape in [(5, 2), (5, 9)]:
        F, t = rng.normal(size=shape), rng.normal(size=5)
        scores = [LinearProbe(0.5).fit(F, np.array(p)).score_ for p in permutations(t)]
        chance = LinearProbe(0.5).fit(F, t).chance_level_
        assert chance == pytest.approx(np.mean(scores), rel=1e-9)


def test_the_chance_level_of_labels_is_sampled_without_bias():
    F, y = make_data(40, 6)
    rng = np.random.default_rng(0)
    scores = [
        LinearProbe(1.0, n_permutations=0).fit(F, rng.permutation(y)).score_ for _ in range(200)
    ]
    chance = LinearProbe(1.0, n_permutations=200, random_state=3).fit(F, y).chance_level_
    assert abs(chance - np.mean(scores)) < 5 * np.std(scores) * np.sqrt(2 / 200)
    assert np.isnan(LinearProbe(n_permutations=0).fit(F, y).chance_level_)


def test_noise_scores_no_more_than_chance_even_with_more_features_than_samples():
    # Where in-sample scores reach 1.
    scores, chances = [], []
    for seed in range(20):
        F = np.random.default_rng(seed).normal(size=(40, 200))
        metric = LinearProbe().fit(F, np.arange(40) % 4)
        scores.append(metric.score_)
        chances.append(metric.chance_level_)
    assert np.mean(scores) < 0.3
    F[:, 0] += 10 * (np.arange(40) % 4)
    assert LinearProbe().fit(F, np.arange(40) % 4).score_ > max(scores)


# ------------------------------------------------------------------------------------ announcements


@pytest.mark.parametrize(
    ("F", "y", "match"),
    [
        (np.full((12, 3), 0.1), np.arange(12) % 3, "constant"),
        (np.full((12, 30), 0.1), np.linspace(0.1, 1, 12), "constant"),
        (np.random.default_rng(0).normal(size=(8, 3)), np.arange(8), "single sample"),
    ],
)
def test_scores_that_any_target_would_get_are_announced(F, y, match):
    with pytest.warns(UninformativeScoreWarning, match=match):
        metric = LinearProbe().fit(F, y)
    assert metric.saturated_
    assert metric.score_ == pytest.approx(metric.chance_level_)
    assert metric.score_ == pytest.approx(0.0, abs=1e-12)


def test_constant_outputs_are_left_out():
    F, _ = make_data(30, 4)
    with pytest.warns(ConstantTargetWarning, match=r"LinearProbe left out 1 of 2 outputs .*\[0\]"):
        metric = LinearProbe().fit(F, np.c_[np.full(30, 0.1), F[:, 0]])
    assert metric.score_ == LinearProbe().fit(F, F[:, 0]).score_
    assert np.isnan(metric.scores_[0])
    with pytest.warns(UninformativeScoreWarning, match="zero for every output"):
        metric = LinearProbe().fit(F, np.zeros((30, 2)))
    assert np.isnan(metric.score_)


def test_informative_data_are_not_announced():
    F, y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in (y, F[:, 0] ** 2, (F[:, :2] > 3).astype(int)):
            assert not LinearProbe().fit(F, target).saturated_


def test_features_that_fit_exactly():
    y = np.arange(30) % 3
    metric = LinearProbe().fit(1e6 * np.eye(3, 5)[y], y)
    assert metric.score_ == 1.0
    assert metric.loo_error_ < 1e-9


@pytest.mark.parametrize("alpha", ["loo", 1.0])
def test_noise_is_announced_and_a_signal_is_not(alpha):
    rng = np.random.default_rng(0)
    F = rng.normal(size=(80, 10))
    signal = F[:, :2] + 0.3 * rng.normal(size=(80, 2))
    for noise, real, what in [
        (rng.integers(0, 3, 80), F[:, :3].argmax(axis=1), "labels"),
        (rng.normal(size=(80, 2)), signal, "targets"),
        (rng.integers(0, 2, (80, 2)), (signal > 0).astype(int), "targets"),
    ]:
        with pytest.warns(UninformativeScoreWarning, match=f"permuted {what} score"):
            assert LinearProbe(alpha).fit(F, noise).saturated_
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not LinearProbe(alpha).fit(F, real).saturated_
    # Without permutations only what is not above the exact level is doubted.
    assert not LinearProbe(alpha, n_permutations=0).fit(F, signal).saturated_
