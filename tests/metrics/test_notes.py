"""The claims of the two notes on LogME and LEEP, each on data made here."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import kendalltau, multivariate_normal
from sklearn.linear_model import LinearRegression, LogisticRegression

from sktransfer.exceptions import NoiseFloorWarning, UninformativeScoreWarning
from sktransfer.metrics import LEEP, NCE, HScore, LogME

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def equation_2(F, t, alpha, beta):
    """Log evidence in nats through the posterior: mean m and precision A of the weights."""
    n, D = F.shape
    A = alpha * np.eye(D) + beta * F.T @ F
    m = beta * np.linalg.solve(A, F.T @ t)
    residual = F @ m - t
    return 0.5 * (
        n * np.log(beta)
        + D * np.log(alpha)
        - n * np.log(2 * np.pi)
        - beta * residual @ residual
        - alpha * m @ m
        - np.linalg.slogdet(A)[1]
    )


def normal_density(F, t, alpha, beta):
    return multivariate_normal(cov=np.eye(len(t)) / beta + F @ F.T / alpha).logpdf(t)


# ---------------------------------------------------------------- LogME


@pytest.mark.parametrize(
    ("n", "D"),
    [(30, 3), (30, 10), (30, 29), (30, 30), (30, 31), (30, 90), (8, 64), (100, 1), (3, 50)],
)
def test_equation_2_equals_the_independent_normal_density(n, D):
    rng = np.random.default_rng(n * 100 + D)
    F = rng.normal(size=(n, D))
    t = F @ rng.normal(size=D) / np.sqrt(D) + rng.normal(size=n)
    for alpha, beta in [(1.0, 1.0), (0.3, 7.0), (20.0, 0.5)]:
        assert equation_2(F, t, alpha, beta) == pytest.approx(normal_density(F, t, alpha, beta))
    # The score is this quantity per sample at the precisions it reports.
    metric = LogME(task="regression").fit(F, t)
    if np.isfinite(metric.alpha_[0]) and not metric.noise_floor_active_[0]:
        value = equation_2(F, t, metric.alpha_[0], metric.beta_[0]) / n
        assert metric.score_ == pytest.approx(value, abs=1e-8)


def test_gamma_spans_zero_to_the_number_of_features():
    rng = np.random.default_rng(0)
    n, D = 400, 20
    F = rng.normal(size=(n, D))
    signal = F @ rng.normal(size=D)
    gammas = [
        LogME(task="regression").fit(F, signal + noise * rng.normal(size=n)).gamma_[0]
        for noise in (1e-3, 1.0, 10.0, 30.0, 100.0)
    ]
    assert gammas[0] > 0.999 * D
    assert gammas[1] > gammas[2] > gammas[3]
    pure_noise = [LogME(task="regression").fit(F, rng.normal(size=n)).gamma_[0] for _ in range(20)]
    assert min(pure_noise) == 0
    assert np.all((np.array(gammas + pure_noise) >= 0) & (np.array(gammas + pure_noise) <= D))


def test_more_features_than_samples_likelihood_is_blind_and_evidence_is_not():
    rng = np.random.default_rng(1)
    n, D = 40, 200
    latent = rng.normal(size=(n, 5))
    t = latent @ rng.normal(size=5) + 0.1 * rng.normal(size=n)
    noise = rng.normal(size=(n, D))
    mixing = rng.normal(size=(5, D))
    candidates = [latent @ mixing + strength * noise for strength in (0.1, 2.0, 1e6)]
    fits = [LinearRegression(fit_intercept=False).fit(F, t).score(F, t) for F in candidates]
    np.testing.assert_allclose(fits, 1.0, atol=1e-9)
    scores = [LogME(task="regression").fit(F, t).score_ for F in candidates]
    assert scores[0] > scores[1] + 0.1 > scores[2] + 0.2


def test_labels_are_correlated_as_far_as_their_features_overlap():
    rng = np.random.default_rng(2)
    alpha, beta, draws = 2.0, 5.0, 400_000
    F = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    w = rng.normal(size=(2, draws)) / np.sqrt(alpha)
    y = F @ w + rng.normal(size=(4, draws)) / np.sqrt(beta)
    covariance = np.cov(y)
    np.testing.assert_allclose(covariance, F @ F.T / alpha + np.eye(4) / beta, atol=5e-3)
    correlation = np.corrcoef(y)
    assert correlation[0, 1] == pytest.approx(0.714, abs=5e-3)
    assert correlation[0, 2] == pytest.approx(0.0, abs=5e-3)


def test_precisions_of_sampled_labels_are_recovered():
    rng = np.random.default_rng(3)
    n, D, alpha, beta = 3000, 300, 2.0, 5.0
    F = rng.normal(size=(n, D))
    t = F @ (rng.normal(size=D) / np.sqrt(alpha)) + rng.normal(size=n) / np.sqrt(beta)
    metric = LogME(task="regression").fit(F, t)
    assert metric.alpha_[0] == pytest.approx(alpha, rel=0.25)
    assert metric.beta_[0] == pytest.approx(beta, rel=0.1)


def test_two_labels_the_narrow_model_wins_where_its_bet_was_right():
    A, B = np.array([[1.0], [2.0]]), np.eye(2)
    P, Q = np.array([1.0, 2.0]), np.array([1.0, -2.0])
    at_P = [normal_density(F, P, 1.0, 1.0) for F in (A, B)]
    at_Q = [normal_density(F, Q, 1.0, 1.0) for F in (A, B)]
    assert at_P[0] - at_P[1] == pytest.approx(0.63, abs=0.005)
    assert at_Q[1] - at_Q[0] == pytest.approx(0.70, abs=0.005)
    # The best fit can't tell them apart at P, and never prefers the narrow one.
    best = [
        -np.log(2 * np.pi) - 0.5 * np.sum((t - F @ np.linalg.lstsq(F, t, rcond=None)[0]) ** 2)
        for t in (P, Q)
        for F in (A, B)
    ]
    assert best[0] == pytest.approx(best[1])
    assert best[2:] == pytest.approx([-3.44, -1.84], abs=0.005)
    # Maximised over the precisions the order is the same.
    with pytest.warns(NoiseFloorWarning):
        narrow = LogME(task="regression").fit(A, P).score_
    assert narrow > LogME(task="regression").fit(B, P).score_
    assert LogME(task="regression").fit(B, Q).score_ >= LogME(task="regression").fit(A, Q).score_


def pool_of_candidates(rng, n, D, n_candidates=6):
    """Candidates whose class signal grows with their number."""
    y = np.arange(n) % 3
    centres = rng.normal(size=(3, D))
    return [
        strength * centres[y] + rng.normal(size=(n, D))
        for strength in np.linspace(0.0, 1.0, n_candidates)
    ], y


def test_hscore_collapses_at_small_n_where_logme_degrades_gracefully():
    rng = np.random.default_rng(4)
    D = 60
    agreement = {}
    for n in (30, 600):
        taus = []
        for _ in range(6):
            candidates, y = pool_of_candidates(rng, n, D)
            truth = np.arange(len(candidates))
            logme = [LogME().fit(F, y).score_ for F in candidates]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UninformativeScoreWarning)
                metrics = [HScore().fit(F, y) for F in candidates]
            hscore = [metric.score_ for metric in metrics]
            if n <= D:
                assert all(metric.saturated_ for metric in metrics)
                np.testing.assert_allclose(hscore, 2.0, atol=1e-9)
            else:
                # The first candidate is noise; from the second on the classes lie apart.
                assert not any(metric.saturated_ for metric in metrics[1:])
                assert kendalltau(truth, hscore).statistic > 0.8
            taus.append(kendalltau(truth, logme).statistic)
        agreement[n] = np.mean(taus)
    assert agreement[30] > 0.6
    assert agreement[600] > 0.9


# ---------------------------------------------------------------- LEEP


def source_regime(seed, n=400, n_source=6, n_target=3, strength=2.0, temperature=1.0):
    """Source probabilities that know something about the target."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_target, size=n)
    centres = rng.normal(size=(n_target, 8))
    features = strength * centres[y] + rng.normal(size=(n, 8))
    logits = features @ rng.normal(size=(8, n_source)) / temperature
    return features, logits, y


REGIMES = {
    "well matched": {"strength": 3.0},
    "many source labels": {"n_source": 200},
    "many target labels": {"n_target": 20},
    "weak source": {"strength": 0.2},
    "hot softmax": {"temperature": 20.0},
    "cold softmax": {"temperature": 0.05},
}


@pytest.mark.parametrize("regime", REGIMES)
def test_property_2_holds_in_typical_regimes(regime):
    for seed in range(5):
        _, logits, y = source_regime(seed, **REGIMES[regime])
        theta = softmax(logits, axis=1)
        confidence = np.log(theta.max(axis=1)).mean()
        nce = NCE().fit(theta, y).score_
        assert LEEP().fit(theta, y).score_ >= nce + confidence
        # The obvious derivation gives less: the soft conditional at the hard label is below NCE.
        conditional = LEEP().fit(theta, y).conditional_
        obvious = np.log(conditional[y, theta.argmax(axis=1)]).mean()
        assert obvious <= nce + 1e-12


def test_property_2_is_no_theorem():
    theta, y = np.array([[0.296, 0.704], [0.713, 0.287]]), [1, 0]
    with pytest.warns(UninformativeScoreWarning, match="single sample"):  # two samples, two labels
        nce, leep = NCE().fit(theta, y).score_, LEEP().fit(theta, y).score_
    claimed = nce + np.log(theta.max(axis=1)).mean()
    assert claimed - leep == pytest.approx(0.188, abs=5e-4)


@pytest.mark.parametrize("n_source", [1, 2, 7])
def test_an_uninformative_source_scores_minus_the_label_entropy(n_source):
    rng = np.random.default_rng(0)
    y = rng.choice(4, p=[0.5, 0.3, 0.15, 0.05], size=300)
    theta = np.tile(rng.dirichlet(np.ones(n_source)), (300, 1))
    with pytest.warns(UninformativeScoreWarning, match="the same for every sample"):
        metric = LEEP().fit(theta, y)
    assert metric.saturated_
    shares = np.bincount(y) / 300
    assert metric.score_ == pytest.approx(np.sum(shares * np.log(shares)), abs=1e-12)
    assert metric.label_entropy_ == pytest.approx(-metric.score_, abs=1e-12)
    assert metric.information_gain_ == pytest.approx(0, abs=1e-12)


def test_a_confident_source_collapses_onto_nce():
    rng = np.random.default_rng(1)
    z, y = rng.integers(0, 9, size=500), rng.integers(0, 4, size=500)
    one_hot = np.eye(9)[z]
    assert LEEP().fit(one_hot, y).score_ == pytest.approx(NCE().fit(z, y).score_, abs=1e-12)
    assert NCE().fit(one_hot, y).score_ == pytest.approx(NCE().fit(z, y).score_, abs=1e-12)


def best_stochastic_head(theta, y, rounds=3000):
    """Largest mean log-likelihood of p(y | x) = Q theta(x) over stochastic maps Q, by EM."""
    n_classes = y.max() + 1
    Q = np.full((n_classes, theta.shape[1]), 1 / n_classes)
    for _ in range(rounds):
        share = theta * Q[y]
        share /= share.sum(axis=1, keepdims=True)
        joint = np.array([share[y == k].sum(axis=0) for k in range(n_classes)])
        Q = joint / joint.sum(axis=0)
    return np.log((theta * Q[y]).sum(axis=1)).mean()


def test_slack_of_property_1_is_the_softmax_bottleneck_more_than_the_head():
    features, logits, y = source_regime(2, n=600, n_source=3, n_target=4, strength=2.0)
    theta = softmax(logits, axis=1)
    leep = LEEP().fit(theta, y).score_
    head = best_stochastic_head(theta, y)
    classifier = LogisticRegression(C=1e4, max_iter=10_000).fit(features, y)
    on_features = -np.mean(
        logsumexp(classifier.decision_function(features), axis=1)
        - classifier.decision_function(features)[np.arange(len(y)), y]
    )
    cost_of_head, cost_of_bottleneck = head - leep, on_features - head
    assert cost_of_head > 0
    assert cost_of_bottleneck > 2 * cost_of_head
    assert cost_of_head + cost_of_bottleneck == pytest.approx(on_features - leep)


def test_temperature_moves_leep_and_not_nce():
    _, logits, y = source_regime(3)
    leep = [LEEP(from_logits=True, temperature=t).fit(logits, y).score_ for t in (0.1, 1.0, 10.0)]
    nce = [NCE().fit(softmax(logits / t, axis=1), y).score_ for t in (0.1, 1.0, 10.0)]
    assert np.ptp(leep) > 0.3
    assert np.ptp(nce) == 0
    for temperature, value in zip((0.1, 1.0, 10.0), leep, strict=True):
        theta = softmax(logits / temperature, axis=1)
        assert LEEP().fit(theta, y).score_ == pytest.approx(value, abs=1e-12)


def test_information_gain_is_biased_and_the_corrected_one_is_not():
    rng = np.random.default_rng(4)
    y = np.arange(100) % 4
    theta = softmax(20 * rng.normal(size=(100, 1000)), axis=1)
    with pytest.warns(UninformativeScoreWarning, match="so many source classes"):
        metric = LEEP().fit(theta, y)
    assert metric.saturated_
    assert metric.information_gain_ > 0.8 * metric.label_entropy_
    assert abs(metric.information_gain_corrected_) < 0.1 * metric.label_entropy_
    with pytest.warns(UninformativeScoreWarning, match="so many source classes"):
        codes = NCE().fit(rng.integers(0, 1000, size=100), y)
    assert codes.saturated_
    assert codes.information_gain_ > 0.8 * codes.label_entropy_
    assert abs(codes.information_gain_corrected_) < 0.1 * codes.label_entropy_


def test_chance_levels_against_a_simulation():
    rng = np.random.default_rng(5)
    _, logits, y = source_regime(6, n=60)
    theta = softmax(logits, axis=1)
    shuffled = [rng.permutation(y) for _ in range(400)]
    leep = np.mean([LEEP(n_permutations=0).fit(theta, s).score_ for s in shuffled])
    assert LEEP(n_permutations=200).fit(theta, y).chance_level_ == pytest.approx(leep, abs=0.01)
    nce = [NCE().fit(theta, s).score_ for s in shuffled]
    error = np.std(nce) / np.sqrt(len(nce))
    assert NCE().fit(theta, y).chance_level_ == pytest.approx(np.mean(nce), abs=4 * error)
    features = rng.normal(size=(60, 20))
    for shrinkage in (None, 0.3):
        scores = [HScore(shrinkage).fit(features, s).score_ for s in shuffled]
        error = np.std(scores) / np.sqrt(len(scores))
        level = HScore(shrinkage).fit(features, y).chance_level_
        assert level == pytest.approx(np.mean(scores), abs=4 * error)
