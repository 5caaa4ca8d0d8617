"""The one rule for scores that say nothing: its limits, its errors, and the random targets."""

import numpy as np
import pytest
from scipy import stats

from sktransfer.metrics import FeatureMoments, HScore, LogME, _logme
from sktransfer.metrics._permutations import (
    Chance,
    chance_scores,
    permuted_labels,
    reason_to_doubt,
    scores_until_sure,
    trivial_reason,
)
from sktransfer.metrics._rotations import rotated_spectra

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


# ----------------------------------------------------------------------------------------- limits


def test_an_exact_level_has_the_limit_of_a_beta_distribution():
    # The R squared of one regressor on noise is exactly beta distributed.
    n = 40
    mean, variance = 1 / (n - 1), 2 * (n - 2) / ((n - 1) ** 2 * (n + 1))
    chance = Chance.exact(mean, np.sqrt(variance), 1.0)
    assert chance.limit == pytest.approx(stats.beta.isf(0.01, 0.5, (n - 2) / 2))
    wider = Chance.exact(5 * mean, 5 * np.sqrt(variance), 5.0)
    assert wider.limit == pytest.approx(5 * chance.limit)
    for mean, spread in [(0.0, 0.0), (1.0, 0.0), (0.5, 0.0), (1.0, 0.1)]:
        assert Chance.exact(mean, spread, 1.0).limit == mean


@pytest.mark.parametrize("k", [3, 10, 50])
def test_a_sampled_limit_is_passed_once_in_a_hundred_times(k):
    rng = np.random.default_rng(0)
    passed = [rng.normal() > Chance.sampled(rng.normal(size=k)).limit for _ in range(3000)]
    assert np.mean(passed) < 0.017
    known = [rng.normal() > Chance.sampled(rng.normal(size=k), 0.0).limit for _ in range(3000)]
    assert np.mean(known) < 0.017


@pytest.mark.parametrize("freedom", [1, 2, 8])
def test_gains_that_are_sums_of_squares_keep_to_the_limit(freedom):
    rng = np.random.default_rng(0)
    passed = [
        rng.chisquare(freedom) - 5 > Chance.sampled(rng.chisquare(freedom, 10) - 5, lowest=-5).limit
        for _ in range(4000)
    ]
    assert 0.002 < np.mean(passed) < 0.02


def test_few_permutations_have_to_be_exceeded():
    assert Chance.sampled([]) is None
    assert Chance.sampled([], 0.2).limit == 0.2
    assert Chance.sampled([], np.nan) is None
    assert np.isnan(Chance.sampled([0.3]).spread)
    assert Chance.sampled([0.3, 0.5]).limit == 0.5
    assert Chance.sampled([0.3, 0.5], 0.7).limit == 0.7


def test_reasons():
    assert reason_to_doubt(0.9, None, 1.0) is None
    assert reason_to_doubt(0.9, [], 1.0) is None
    assert reason_to_doubt(0.9, [0.5, 0.52, 0.48], 1.0) is None
    reason = reason_to_doubt(0.53, [0.5, 0.52, 0.48], 1.0)
    assert reason == "permuted labels score 0.5 with a standard deviation of 0.02"
    assert "of at most 1" in reason_to_doubt(1.0, [0.995, 0.996, 0.994], 1.0)
    # Relative to what is to be gained, not to zero.
    assert reason_to_doubt(-0.2, [-1.0, -1.01, -0.99], 0.0, lowest=-1.1) is None
    assert "of at most 0" in reason_to_doubt(0.0, [-0.01, -0.009, -0.011], 0.0, lowest=-1.1)
    unknown = reason_to_doubt(0.1, Chance.sampled([], 0.2), np.inf, what="targets")
    assert unknown == "permuted targets score 0.2"
    assert "constant" in trivial_reason(True, 2, 9)
    assert "single sample" in trivial_reason(False, 9, 9)
    assert trivial_reason(False, 8, 9) is None


def test_permutations_end_when_a_score_is_far_above_and_never_on_equal_draws():
    assert len(scores_until_sure(100.0, iter([0.1, 0.2, 0.3, 0.4]))) == 3
    assert len(scores_until_sure(0.5, iter([0.1, 0.2, 0.3, 0.4]))) == 4
    assert len(scores_until_sure(100.0, iter([0.1] * 6))) == 6
    assert len(scores_until_sure(100.0, iter([0.0] * 4 + [1e-9] * 3), lowest=-1.0)) == 5


def test_permuted_labels_depend_on_content_and_class_sizes_alone():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(20, 3)), np.repeat([0, 1, 2], [5, 12, 3])
    order = rng.permutation(20)
    first = list(permuted_labels(X, codes, 3, 4))
    again = list(permuted_labels(X[order], np.array([2, 0, 1])[codes][order], 3, 4))
    for one, two in zip(first, again, strict=True):
        assert np.bincount(one).tolist() == [3, 5, 12]
        np.testing.assert_array_equal(one[order], two)
    assert len({tuple(labels) for labels in first}) == 4
    assert list(permuted_labels(X, codes, 3, 0)) == []
    assert chance_scores(lambda labels: 0.0, 1.0, X, codes, 0, 0) == []


# ----------------------------------------------------------------------------------------- errors


def problem(seed, n_samples, n_columns, n_classes, strength=0.0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    centres = rng.normal(size=(n_classes, n_columns))
    return rng.normal(size=(n_samples, n_columns)) + strength * centres[y], y


@pytest.mark.parametrize("metric", [HScore(), HScore("ledoit_wolf"), LogME()], ids=repr)
def test_noise_passes_as_often_as_is_said(metric):
    shapes = [(60, 1, 2), (60, 20, 3), (40, 100, 4), (100, 30, 4)]
    passed = [
        not metric.fit(*problem([seed, *shape], *shape)).saturated_
        for shape in shapes
        for seed in range(15 if isinstance(metric, LogME) else 30)
    ]
    assert np.mean(passed) <= 0.04


def test_a_weak_signal_is_told_from_noise():
    # Class means about 0.3 standard deviations from the common one in each of 20 dimensions.
    announced = [HScore().fit(*problem(seed, 200, 20, 4, 0.3)).saturated_ for seed in range(40)]
    assert np.mean(announced) <= 0.05


# --------------------------------------------------------------------------------- random targets


@pytest.mark.parametrize("shape", [(80, 10), (30, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_turned_targets_score_what_permuted_ones_do(shape, offset, monkeypatch):
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=shape) + offset, rng.permutation(np.arange(shape[0]) % 3)
    targets = y, rng.normal(size=shape[0])
    levels = [LogME().fit(F, target).chance_level_ for target in targets]
    monkeypatch.setattr(_logme, "_MOST_LOADINGS", 0)
    for target, level in zip(targets, levels, strict=True):
        permuted = [LogME().fit(F, rng.permutation(target)).score_ for _ in range(60)]
        error = np.std(permuted) / np.sqrt(20)
        assert level == pytest.approx(np.mean(permuted), abs=3 * error + 1e-4)


def test_turned_targets_keep_their_products_and_the_space_of_the_features():
    rng = np.random.default_rng(0)
    for n_samples, n_columns in [(12, 3), (6, 20), (5, 4)]:
        F = rng.normal(size=(n_samples, n_columns))
        y = np.arange(n_samples) % 3
        spectrum = FeatureMoments.from_arrays(F, y).spectrum
        centred = np.eye(3)[y] - np.bincount(y) / n_samples
        for turned in rotated_spectra(spectrum, True, 0, 3):
            products = turned.loadings.T @ turned.loadings
            assert (np.diagonal(products) <= np.diagonal(centred.T @ centred) + 1e-9).all()
            if spectrum.rank == n_samples - 1:
                np.testing.assert_allclose(products, centred.T @ centred, atol=1e-9)
            np.testing.assert_allclose(turned.loadings.sum(axis=1), 0, atol=1e-9)
    # As many classes as samples leave nothing to turn.
    everyone = FeatureMoments.from_arrays(F, np.arange(5)).spectrum
    assert list(rotated_spectra(everyone, True, 0, 3)) == []


def test_large_problems_have_no_level_of_logme(monkeypatch):
    F, y = problem(0, 40, 10, 3, 2.0)
    monkeypatch.setattr(_logme, "_MOST_LOADINGS", 20)
    metric = LogME().fit(F, y)
    assert np.isnan(metric.chance_level_)
    assert not metric.saturated_
