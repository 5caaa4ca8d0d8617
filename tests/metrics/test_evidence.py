"""The maximised evidence against densities, grids and finite differences."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sktransfer.exceptions import NoiseFloorWarning, UninformativeScoreWarning
from sktransfer.metrics import FeatureMoments, LogME
from sktransfer.metrics._evidence import (
    ProfiledEvidence,
    _falling_zero,
    largest_evidence,
    maximize_evidence,
)

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

NOISE_FLOOR = 1e-10


def log_density(F, t, alpha, beta):
    """Log evidence per sample, straight from the normal density of the targets."""
    covariance = np.eye(len(t)) / beta + (F @ F.T / alpha if np.isfinite(alpha) else 0.0)
    square = t @ np.linalg.solve(covariance, t)
    return -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + square) / len(t)


def profile(F, t, u):
    """Evidence per sample with the noise variance profiled out, from the raw singular values."""
    n = len(t)
    left, sigma, _ = np.linalg.svd(F, full_matrices=False)
    x = left.T @ t
    outside = max(t @ t - x @ x, 0.0)
    tau = np.exp(np.asarray(u))[:, None]
    energy = (x**2 * tau / (sigma**2 + tau)).sum(axis=1) + outside
    noise = np.maximum(energy / n, NOISE_FLOOR * (t @ t) / n)
    log_det = np.log1p(sigma**2 / tau).sum(axis=1)
    return 0.5 * (-np.log(2 * np.pi * noise) - energy / (n * noise) - log_det / n)


def regression_problem(seed, n, D, *, spread=0.0, noise=0.1, offset=0.0):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, D)) * 10 ** rng.uniform(-spread, 0, size=D) + offset
    t = F @ rng.normal(size=D)
    return F, t / t.std() + noise * rng.normal(size=n)


def fit_evidence(F, t, tol=1e-8):
    spectrum = FeatureMoments.from_arrays(F, t).spectrum
    return ProfiledEvidence(spectrum, NOISE_FLOOR), maximize_evidence(
        spectrum, tol=tol, noise_floor=NOISE_FLOOR
    )


SHAPES = [(40, 5), (40, 39), (40, 40), (40, 41), (40, 200), (5, 300), (2, 3), (300, 1), (12, 12)]


@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_evidence_is_the_normal_density_at_the_fitted_precisions(n, D, offset):
    F, t = regression_problem(n + D, n, D, noise=0.5, offset=offset)
    metric = LogME(task="regression").fit(F, t)
    density = log_density(F, t, metric.alpha_[0], metric.beta_[0])
    assert metric.score_ == pytest.approx(density, abs=1e-9)


@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_no_other_precisions_are_better(n, D, offset):
    F, t = regression_problem(7 * n + D, n, D, noise=0.5, offset=offset)
    metric = LogME(task="regression").fit(F, t)
    best = profile(F, t, np.linspace(-60, 40, 20_001)).max()
    assert metric.score_ >= best - 1e-10
    assert metric.score_ == pytest.approx(best, abs=1e-4)


def test_maximum_against_a_two_dimensional_grid():
    F, t = regression_problem(3, 30, 6, noise=0.3)
    metric = LogME(task="regression").fit(F, t)
    factors = np.exp(np.linspace(-1.5, 1.5, 41))
    grid = [
        log_density(F, t, metric.alpha_[0] * a, metric.beta_[0] * b)
        for a in factors
        for b in factors
    ]
    assert max(grid) <= metric.score_ + 1e-12
    assert np.argmax(grid) == len(grid) // 2


def test_spectral_form_equals_the_raw_singular_value_form():
    for seed, (n, D) in enumerate(SHAPES):
        F, t = regression_problem(seed, n, D, spread=2, noise=0.3, offset=2.0)
        evidence, _ = fit_evidence(F, t)
        u = np.linspace(-12, 12, 25)
        # Points are in units of the features' own power of two.
        spectrum = FeatureMoments.from_arrays(F, t).spectrum
        value = evidence(u, np.zeros(len(u), dtype=int))[0] - np.log(spectrum.target_unit[0])
        np.testing.assert_allclose(value, profile(F, t, u + 2 * np.log(spectrum.unit)), atol=1e-9)


def test_slope_is_the_derivative():
    F, t = regression_problem(0, 30, 20, spread=2, noise=0.3, offset=1.0)
    evidence, _ = fit_evidence(F, t)
    u, h = np.linspace(-25, 20, 46), 1e-5
    zero = np.zeros(len(u), dtype=int)
    numeric = (evidence(u + h, zero)[0] - evidence(u - h, zero)[0]) / (2 * h)
    np.testing.assert_allclose(evidence(u, zero)[1], numeric, atol=1e-7)


def test_zeros_of_several_falling_functions():
    zeros = np.array([-0.9, 0.0, 1e-9, 0.3, 0.999])
    rounds = []

    def falling(u):
        rounds.append(1)
        smooth = -np.expm1(5 * (u - zeros))
        # A kink, a jump and a function that is flat to rounding on one side.
        smooth[1] = -u[1] if u[1] < 0 else -1e6 * u[1]
        smooth[2] = 1.0 if u[2] < zeros[2] else -1e-9
        smooth[3] = 1e-18 if u[3] < zeros[3] else -1.0
        return smooth

    left, right = np.full(5, -1.0), np.full(5, 1.0)
    found = _falling_zero(falling, left, right, falling(left), falling(right))
    np.testing.assert_allclose(found, zeros, atol=1e-10)
    assert len(rounds) < 3 * 40
    rounds.clear()
    only = slice(0, 1)
    zeros = zeros[only]

    def smooth(u):
        rounds.append(1)
        return -np.expm1(5 * (u - zeros))

    _falling_zero(smooth, left[only], right[only], smooth(left[only]), smooth(right[only]))
    assert len(rounds) <= 16


def test_the_largest_evidence_without_its_place():
    rng = np.random.default_rng(3)
    F, T = rng.normal(size=(30, 8)), 1e5 * rng.normal(size=(30, 4))
    T[:, :3] += 1e5 * F[:, :3]
    spectrum = FeatureMoments.from_arrays(F, T).spectrum
    expected = maximize_evidence(spectrum, tol=1e-8, noise_floor=NOISE_FLOOR).evidence
    found = largest_evidence(spectrum, tol=1e-8, noise_floor=NOISE_FLOOR)
    assert found.tolist() == expected.tolist()


def test_outputs_at_the_same_points_and_at_points_of_their_own_agree():
    rng = np.random.default_rng(4)
    F, T = rng.normal(size=(30, 8)), rng.normal(size=(30, 6))
    evidence = ProfiledEvidence(FeatureMoments.from_arrays(F, T).spectrum, NOISE_FLOOR)
    output = np.repeat(np.arange(6), 5)
    for u in (np.tile(np.linspace(-4, 8, 5), 6), np.linspace(-4, 8, 30)):
        together = evidence(u, output)
        single = [evidence(u[[i]], output[[i]]) for i in range(30)]
        for part, values in zip(together, zip(*single, strict=True), strict=True):
            np.testing.assert_allclose(part, np.concatenate(values), rtol=1e-11, atol=1e-11)


def several_maxima(seed):
    """Features of very different scales: one explanation for each scale."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(6, 60)), int(rng.integers(2, 80))
    F = rng.normal(size=(n, D)) * 10 ** rng.uniform(-4, 1, size=D)
    t = F @ (rng.normal(size=D) * 10 ** rng.uniform(-2, 5, size=D))
    return F, t / np.std(t) + rng.normal(size=n) * 10 ** rng.uniform(-4, 1)


def count_maxima(value):
    return int(((value[1:-1] > value[:-2] + 1e-9) & (value[1:-1] > value[2:] + 1e-9)).sum())


def test_the_global_one_of_several_maxima_is_found():
    u = np.linspace(-60, 40, 10_001)
    counts = []
    for seed in range(60):
        F, t = several_maxima(seed)
        value = profile(F, t, u)
        counts.append(count_maxima(value))
        evidence, maximum = fit_evidence(F, t)
        grid = np.linspace(*evidence.range(), 4001)
        own = evidence(grid, np.zeros(len(grid), dtype=int))[0].max()
        own = max(own, evidence.pure_noise(0)) - np.log(evidence.target_unit[0])
        assert maximum.evidence[0] >= own - 1e-11, seed
        # The singular values themselves keep more digits than a Gram matrix does.
        assert maximum.evidence[0] == pytest.approx(value.max(), abs=1e-4), seed
    assert sum(count >= 2 for count in counts) >= 5


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
def test_the_tolerance_is_kept_and_costs_rounds(tol):
    F, t = several_maxima(0)
    _, exact = fit_evidence(F, t, tol=1e-13)
    _, maximum = fit_evidence(F, t, tol=tol)
    assert -1e-14 <= exact.evidence[0] - maximum.evidence[0] <= tol
    assert maximum.n_iter <= exact.n_iter


def test_several_outputs_are_the_outputs_one_by_one():
    rng = np.random.default_rng(5)
    F = rng.normal(size=(50, 30)) * 10 ** rng.uniform(-1, 1, size=30)
    Y = rng.normal(size=(50, 4)) + F[:, :4] * [0, 1, 10, 100]
    metric = LogME().fit(F, Y)
    for k in range(4):
        alone = LogME().fit(F, Y[:, k])
        assert metric.scores_[k] == pytest.approx(alone.score_, abs=1e-8)
        assert metric.beta_[k] == pytest.approx(alone.beta_[0], rel=1e-7)
    assert metric.score_ == pytest.approx(metric.scores_.mean(), abs=1e-15)


class TestUpperEnd:
    """Features that explain nothing: the weights' precision is infinite."""

    def test_values_are_those_of_pure_noise(self):
        F = np.vstack([np.eye(6), np.eye(6), -np.eye(6), -np.eye(6)])
        t = np.ones(24)  # orthogonal to every feature
        metric = LogME(task="regression").fit(F, t)
        assert metric.alpha_[0] == np.inf
        assert metric.beta_[0] == pytest.approx(1 / np.mean(t**2))
        assert metric.gamma_[0] == 0
        assert metric.score_ == pytest.approx(-0.5 * (np.log(2 * np.pi) + 1))
        np.testing.assert_array_equal(metric.coef_, np.zeros((1, 6)))

    def test_zero_features(self):
        with pytest.warns(UninformativeScoreWarning, match="features are constant"):
            metric = LogME().fit(np.zeros((10, 3)), [0, 1] * 5)
        assert metric.saturated_
        assert np.isinf(metric.alpha_).all()
        assert metric.score_ == pytest.approx(-0.5 * (np.log(2 * np.pi * 0.5) + 1))


def score_and_warning(F, t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        score = LogME(task="regression").fit(F, t).score_
    caught = [w for w in caught if not issubclass(w.category, UninformativeScoreWarning)]
    assert all(issubclass(w.category, NoiseFloorWarning) for w in caught)
    return score, bool(caught)


class TestLowerEnd:
    """Features that fit the target exactly: the interpolating regime."""

    def test_full_row_rank_has_a_finite_limit(self):
        # With n <= D the evidence tends to log N(t; 0, F F' / alpha) at the best alpha.
        rng = np.random.default_rng(0)
        n, D = 30, 40
        F = rng.normal(size=(n, D)) * 10 ** np.linspace(-2, 0, D)
        t = F @ rng.normal(size=D)
        metric = LogME(task="regression").fit(F, t)
        assert metric.noise_floor_active_.tolist() == [True]
        kernel = F @ F.T
        alpha = n / (t @ np.linalg.solve(kernel, t))
        limit = multivariate_normal(cov=kernel / alpha).logpdf(t) / n
        assert metric.score_ == pytest.approx(limit, abs=1e-6)
        assert metric.alpha_[0] == pytest.approx(alpha, rel=1e-4)
        assert metric.gamma_[0] == pytest.approx(n, abs=1e-4)

    def test_rank_below_n_is_bounded_by_the_floor(self):
        rng = np.random.default_rng(1)
        F = rng.normal(size=(50, 4))
        t = F @ rng.normal(size=4)
        with pytest.warns(NoiseFloorWarning, match="1 of 1 outputs exactly"):
            metric = LogME(task="regression").fit(F, t)
        assert metric.noise_floor_active_.tolist() == [True]
        assert metric.beta_[0] == pytest.approx(1 / (NOISE_FLOOR * np.mean(t**2)))
        assert np.isfinite(metric.score_)
        u = np.linspace(-60, 40, 20_001)
        assert metric.score_ == pytest.approx(profile(F, t, u).max(), abs=1e-5)
        # A smaller floor admits more evidence, without end: half a log of the ratio, less rank.
        with pytest.warns(NoiseFloorWarning):
            lower = LogME(task="regression", noise_floor=1e-12).fit(F, t)
        assert lower.score_ - metric.score_ == pytest.approx(0.5 * np.log(100) * 46 / 50, abs=1e-3)

    @pytest.mark.parametrize(("n", "D"), [(50, 4), (20, 60), (20, 20)])
    def test_float32_features_give_the_same_value(self, n, D):
        rng = np.random.default_rng(2)
        F = rng.normal(size=(n, D)).astype(np.float32)
        t = F.astype(np.float64) @ rng.normal(size=D)
        exact = F.astype(np.float64) * (1 + 1e-4)
        scores = [
            score_and_warning(X, t) for X in (F.astype(np.float64), F, exact, exact.astype("f4"))
        ]
        assert scores[1] == scores[0]
        # The last features have lost the digits behind those of float32.
        assert scores[3][0] == pytest.approx(scores[2][0], abs=1e-3)
        assert [warned for _, warned in scores] == [n > D] * 4

    def test_duplicated_rows_with_n_above_rank(self):
        rng = np.random.default_rng(3)
        F, y = np.tile(rng.normal(size=(8, 30)), (3, 1)), np.tile([0, 1, 0, 1, 1, 0, 0, 1], 3)
        with pytest.warns(NoiseFloorWarning):
            metric = LogME().fit(F, y)
        assert np.isfinite(metric.score_)
        assert metric.noise_floor_active_.all()


def test_large_means_cost_no_digits():
    rng = np.random.default_rng(4)
    n, D = 80, 10
    # Numbers on a coarse binary grid, so that adding the offset is exact.
    F = np.round(rng.normal(size=(n, D)) * 2**10) / 2**10
    y = rng.integers(0, 3, size=n)
    for offset in (2.0**13, 2.0**20):
        metric = LogME().fit(F + offset, y)
        for k in range(3):
            t = (y == k).astype(float)
            exact = _exact_profile_maximum(F, offset, t)
            assert metric.scores_[k] == pytest.approx(exact, abs=1e-9)


def _exact_profile_maximum(F, offset, t):
    """Maximum over a grid and a refinement, through the centred features and a dense solve."""
    n = len(t)

    def value(u):
        # Woodbury on [centred features, mean] with the mean kept apart: no large number is squared
        # before it is divided by another one.
        tau = np.exp(u)
        mean = F.mean(axis=0) + offset
        C = F - F.mean(axis=0)
        A = C.T @ C + tau * np.eye(F.shape[1])
        w0 = np.linalg.solve(A, C.T @ (t - t.mean()))
        update = n * mean @ np.linalg.solve(A, mean)
        residual = t - t.mean() - C @ w0
        energy = (
            residual @ residual + tau * w0 @ w0 + n * (t.mean() - mean @ w0) ** 2 / (1 + update)
        )
        log_det = np.linalg.slogdet(A)[1] - F.shape[1] * u + np.log1p(update)
        return 0.5 * (-np.log(2 * np.pi * energy / n) - 1 - log_det / n)

    u = np.linspace(-10, 60, 1401)
    values = [value(v) for v in u]
    centre = u[int(np.argmax(values))]
    fine = np.linspace(centre - 0.05, centre + 0.05, 2001)
    return max(value(v) for v in fine)


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e4, 1e30])
@pytest.mark.parametrize(("n", "D"), [(60, 12), (20, 70)])
def test_scale_of_the_features_does_not_matter(factor, n, D):
    rng = np.random.default_rng(6)
    F, y = rng.normal(size=(n, D)) + 1.0, rng.integers(0, 3, size=n)
    plain, scaled = LogME().fit(F, y), LogME().fit(F * factor, y)
    assert scaled.score_ == pytest.approx(plain.score_, abs=1e-10)
    finite = np.isfinite(plain.alpha_)
    np.testing.assert_allclose(scaled.alpha_[finite], plain.alpha_[finite] * factor**2, rtol=1e-5)
    np.testing.assert_allclose(scaled.coef_ * factor, plain.coef_, atol=1e-7)


@pytest.mark.parametrize(("n", "D"), [(60, 12), (20, 70), (20, 19)])
def test_posterior_mean(n, D):
    rng = np.random.default_rng(8)
    F = rng.normal(size=(n, D)) + 0.5
    t = F @ rng.normal(size=D) + rng.normal(size=n)
    metric = LogME(task="regression").fit(F, t)
    kernel = F @ F.T
    inverse = np.linalg.inv(kernel + metric.alpha_[0] / metric.beta_[0] * np.eye(n))
    np.testing.assert_allclose(metric.coef_[0], F.T @ inverse @ t, atol=1e-8)
    assert metric.gamma_[0] == pytest.approx(np.trace(kernel @ inverse), abs=1e-8)


def test_complexity_is_the_description_length_of_the_target():
    rng = np.random.default_rng(9)
    F, y = rng.normal(size=(40, 6)), rng.integers(0, 3, size=40)
    metric = LogME().fit(F, y)
    densities = [
        40 * log_density(F, (y == k).astype(float), alpha, beta)
        for k, (alpha, beta) in enumerate(zip(metric.alpha_, metric.beta_, strict=True))
    ]
    assert metric.complexity_ == pytest.approx(-sum(densities), rel=1e-9)
    # Features that know the target make it simpler.
    assert LogME().fit(F + 3 * np.eye(6)[y], y).complexity_ < metric.complexity_


def test_a_single_sample_in_every_class_says_nothing():
    F = np.random.default_rng(10).normal(size=(6, 4))
    with pytest.warns(UninformativeScoreWarning, match="single sample"):
        metric = LogME().fit(F, np.arange(6))
    with pytest.warns(UninformativeScoreWarning):
        permuted = LogME().fit(F, np.arange(6)[::-1])
    assert metric.saturated_
    assert permuted.score_ == pytest.approx(metric.score_, abs=1e-12)
    twice = np.repeat(np.eye(3, 4), 4, axis=0) + 0.1 * np.repeat(F, 2, axis=0)
    assert not LogME().fit(twice, np.repeat([0, 1, 2], 4)).saturated_


def test_asking_for_what_a_fit_does_not_have_costs_no_second_one():
    rng = np.random.default_rng(11)
    metric = LogME().fit(rng.normal(size=(30, 4)), rng.normal(size=30))
    assert not hasattr(metric, "classes_")
    assert metric.moments_._spectra == {}
