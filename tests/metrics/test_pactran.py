"""PACTran: the optimum of the Gaussian bound, evidence by sampling, published variants."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, logsumexp, softmax
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from sktransfer.exceptions import ProbabilityNormalizationWarning, UninformativeScoreWarning
from sktransfer.metrics import MetricInputs
from sktransfer.metrics._logistic import minimize_logistic
from sktransfer.metrics._pactran import PACTran

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def make_data(n_samples=60, n_features=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def make_probabilities(n_samples=40, n_source_classes=4, n_classes=3, seed=0):
    F, y = make_data(n_samples, n_source_classes, n_classes, seed)
    return softmax(F, axis=1), y


# --------------------------------------------------------------------------------------- Gaussian


def gaussian_by_search(F, y, scale, variance, published):
    (n, D), K = F.shape, y.max() + 1
    F = F - F.mean(axis=0)

    def unpack(theta):
        theta = theta.reshape(D + 1, K)
        return theta[:-1], F @ theta[:-1] + theta[-1]

    def loss(theta):
        W, logits = unpack(theta)
        own = logits[np.arange(n), y]
        return np.mean(logsumexp(logits, axis=1) - own) + np.sum(W**2) / (2 * scale * n)

    def gradient(theta):
        W, logits = unpack(theta)
        residual = (softmax(logits, axis=1) - np.eye(K)[y]) / n
        return np.vstack([F.T @ residual + W / (scale * n), residual.sum(axis=0)]).ravel()

    found = minimize(
        loss, np.zeros((D + 1) * K), jac=gradient, method="BFGS", options={"gtol": 1e-9}
    )
    P = softmax(unpack(found.x)[1], axis=1)
    trace = sum(p * (1 - p) * (row @ row + 1) for row, ps in zip(F, P, strict=True) for p in ps)
    trace /= 1 if published else n
    flatness = variance / D * K * D / (2 * scale * n) * np.log1p(scale * n * trace / (K * D))
    return -found.fun - flatness


@pytest.mark.parametrize("shape", [(60, 5), (20, 30), (12, 1)], ids=str)
@pytest.mark.parametrize("parameters", [(1.0, 1.0), (10.0, 0.1), (0.1, 10.0)], ids=str)
@pytest.mark.parametrize("formula", ["bound", "published"])
def test_gaussian_formula(shape, parameters, formula):
    F, y = make_data(*shape)
    F = F + 1
    scale, variance = parameters
    metric = PACTran(
        formula=formula, penalty_scale=scale, prior_variance=variance, n_permutations=0
    ).fit(F, y)
    expected = gaussian_by_search(F, y, scale, variance, formula == "published")
    assert metric.score_ == pytest.approx(expected, abs=1e-6)
    assert metric.score_ == pytest.approx(sum(metric.components_.values()), abs=1e-14)
    assert all(part < 0 for part in metric.components_.values())
    assert metric.converged_


@pytest.mark.parametrize("parameters", [(1.0, 1.0), (2.0, 0.5)], ids=str)
def test_the_gaussian_bound_is_the_least_over_the_spread_of_the_posterior(parameters):
    F, y = make_data(200, 4)
    F -= F.mean(axis=0)
    (n, D), K, (a, s) = F.shape, 3, parameters
    optimum = minimize_logistic(F, y, 1 / (a * n), 100)
    P = softmax(F @ optimum.weights + optimum.intercept, axis=1)
    T = np.mean((np.square(F).sum(axis=1) + 1) * (P * (1 - P)).sum(axis=1))
    v = s / D

    def expected(u):
        divergence = s * K / (2 * a * n) * (u / v - 1 - np.log(u / v))
        return optimum.loss + optimum.penalty + u * T / 2 + divergence

    found = minimize(lambda log_u: expected(np.exp(log_u[0])), [np.log(v)], tol=1e-12)
    metric = PACTran(penalty_scale=a, prior_variance=s).fit(F, y)
    assert metric.score_ == pytest.approx(-found.fun, abs=1e-9)
    # The second order stands for the loss that such parameters have on average.
    rng, u, losses = np.random.default_rng(0), float(np.exp(found.x[0])), []
    for _ in range(2000):
        W = optimum.weights + np.sqrt(u) * rng.normal(size=(D, K))
        logits = F @ W + optimum.intercept + np.sqrt(u) * rng.normal(size=K)
        losses.append(np.mean(logsumexp(logits, axis=1) - logits[np.arange(n), y]))
    assert np.mean(losses) == pytest.approx(optimum.loss + u * T / 2, rel=0.02)


def test_the_optimum_is_that_of_scikit_learn():
    F, y = load_digits(return_X_y=True)
    F, y = F[:200] / 16, y[:200]
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(F, y)
    loss = -np.log(model.predict_proba(F)[np.arange(200), y]).mean()
    metric = PACTran().fit(F, y)
    assert metric.components_["fit"] == pytest.approx(-loss, abs=1e-7)
    penalty = np.square(model.coef_).sum() / 400
    assert metric.components_["penalty"] == pytest.approx(-penalty, abs=1e-7)


def test_no_other_point_is_better():
    F, y = make_data(30, 6)
    F -= F.mean(axis=0)
    optimum = minimize_logistic(F, y, 0.05, 100)
    rng = np.random.default_rng(0)

    def objective(W, b):
        logits = F @ W + b
        loss = np.mean(logsumexp(logits, axis=1) - logits[np.arange(30), y])
        return loss + 0.025 * np.square(W).sum()

    lowest = objective(optimum.weights, optimum.intercept)
    assert lowest == pytest.approx(optimum.loss + optimum.penalty, abs=1e-14)
    for size in (1e-3, 1e-1):
        for _ in range(20):
            W = optimum.weights + size * rng.normal(size=(6, 3))
            assert objective(W, optimum.intercept + size * rng.normal(size=3)) > lowest


def test_it_answers_to_changes_of_the_features_as_documented():
    F, y = make_data()
    metric = PACTran(n_permutations=0)
    expected = clone(metric).fit(F, y)
    rotated = metric.fit(F @ ortho_group.rvs(5, random_state=0), y)
    assert rotated.score_ == pytest.approx(expected.score_, abs=1e-12)
    for formula in ("bound", "published"):
        given = PACTran(formula=formula, n_permutations=0).fit(F, y)
        shifted = PACTran(formula=formula, n_permutations=0).fit(F + 100, y)
        for name, part in given.components_.items():
            assert shifted.components_[name] == pytest.approx(part, abs=1e-10)
    padded = clone(metric).fit(np.c_[F, np.zeros((60, 3))], y)
    assert padded.components_["fit"] == pytest.approx(expected.components_["fit"], abs=1e-12)
    assert padded.components_["flatness"] != expected.components_["flatness"]
    assert abs(metric.fit(3 * F, y).score_ - expected.score_) > 1e-3


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-130, 1e-100])
def test_features_of_no_size_gain_nothing(scale):
    y = np.arange(30) % 3
    for seed in range(8):
        F = scale * np.random.default_rng(seed).normal(size=(30, 6))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UninformativeScoreWarning)
            metric = PACTran().fit(F, y)
        assert metric.saturated_
        assert metric.components_["fit"] == pytest.approx(-np.log(3), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_features_of_any_size(scale):
    F, y = make_data(40, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Features far below the prior say nothing, which is announced.
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        metric = PACTran(n_permutations=3).fit(F * scale, y)
    assert np.isfinite(metric.score_)
    assert metric.converged_
    if scale < 1:
        # Without any use of the features the log loss is the label entropy.
        assert metric.components_["fit"] == pytest.approx(-metric.label_entropy_, abs=1e-9)


def test_a_tiny_penalty_of_separable_classes_keeps_its_digits():
    y = np.arange(30) % 3
    F = np.eye(3)[y]
    flatness = []
    for scale in (1e3, 1e6, 1e9):
        metric = PACTran().fit(scale * F, y)
        assert metric.converged_
        assert 0 > metric.components_["fit"] > -1 / scale
        flatness.append(metric.components_["flatness"])
    # At the optimum the curvature times the squared size grows with its logarithm only.
    assert flatness[0] > flatness[1] > flatness[2] > -1


def test_too_few_steps_are_announced():
    with pytest.warns(UninformativeScoreWarning, match="still moved after max_iter=1 "):
        metric = PACTran(max_iter=1).fit(*make_data())
    assert not metric.converged_
    assert metric.score_ < PACTran().fit(*make_data()).score_
    with pytest.warns(UninformativeScoreWarning, match="still moved after max_iter=2 "):
        assert not PACTran("gamma", max_iter=2).fit(*make_probabilities()).converged_


# ------------------------------------------------------------------------------ Dirichlet and Gamma


@pytest.mark.parametrize("kind", ["dirichlet", "gamma"])
@pytest.mark.parametrize("concentration", [1.0, 3.0])
def test_the_bound_is_close_below_the_evidence(kind, concentration):
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3) / 3, 8), np.array([0, 0, 0, 1, 1, 0, 1, 0])
    prior = concentration * np.bincount(y) / 8
    if kind == "dirichlet":
        M = rng.dirichlet(prior, size=(3, 200_000))
    else:
        M = rng.gamma(np.broadcast_to(prior, (3, 200_000, 2)))
    joint = np.einsum("zsk,nz->nsk", M, P)
    likelihood = joint[np.arange(8), :, y] / joint.sum(axis=2)
    draws = np.prod(likelihood, axis=0)
    evidence = np.log(draws.mean()) / 8
    metric = PACTran(kind, concentration=concentration).fit(P, y)
    error = draws.std() / draws.mean() / np.sqrt(200_000) / 8
    assert metric.score_ < evidence + 4 * error
    assert metric.score_ > evidence - (0.15 if kind == "dirichlet" else 0.4)
    assert metric.score_ == pytest.approx(sum(metric.components_.values()), abs=1e-14)


def test_the_dirichlet_bound_of_hard_source_labels_is_the_evidence():
    # Then nothing is left to approximate: counts under a Polya distribution.
    z, y = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 1, 1, 2, 2, 0])
    prior = np.bincount(y) / 8
    total = 0.0
    for source in range(3):
        counts = np.bincount(y[z == source], minlength=3)
        total += gammaln(1.0) - gammaln(1.0 + counts.sum())
        total += np.sum(gammaln(prior + counts) - gammaln(prior))
    assert PACTran("dirichlet").fit(np.eye(3)[z], y).score_ == pytest.approx(total / 8, abs=1e-12)


@pytest.mark.parametrize("kind", ["dirichlet", "gamma"])
def test_rounds_never_lower_the_bound(kind):
    P, y = make_probabilities()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        scores = [
            PACTran(kind, max_iter=k, n_permutations=0).fit(P, y).score_
            for k in (1, 2, 3, 5, 10, 100, 1000)
        ]
    assert (np.diff(scores) >= -1e-12).all()
    metric = PACTran(kind, max_iter=100_000, n_permutations=0).fit(P, y)
    assert metric.converged_
    assert metric.score_ - scores[-1] < 1e-6


def published_by_loops(kind, P, y, concentration):
    """The published value, entry by entry (lower is better)."""
    (n, C), K = P.shape, y.max() + 1
    prior = [concentration * np.mean(y == k) + 1e-10 for k in range(K)]
    q = P.copy()
    for _ in range(10):
        a = np.array([[prior[k] + q[y == k, z].sum() for z in range(C)] for k in range(K)])
        log_q = np.empty((n, C))
        for i in range(n):
            for z in range(C):
                log_q[i, z] = np.log(P[i, z] + 1e-10) + digamma(a[y[i], z])
                if kind == "dirichlet":
                    log_q[i, z] -= digamma(a[:, z].sum())
            log_q[i] -= np.log(np.exp(log_q[i]).sum())
        q = np.exp(log_q)
    divergence = np.sum(q * (log_q - np.log(P + 1e-10)))
    if kind == "dirichlet":
        total = divergence
        for z in range(C):
            total -= gammaln(sum(prior)) - sum(gammaln(p) for p in prior)
            total += gammaln(a[:, z].sum()) - gammaln(a[:, z]).sum()
        return total / (n * K)
    total = divergence + sum(np.log(P[i] @ a.sum(axis=0)) - 1 for i in range(n))
    total += sum(gammaln(prior[k]) - gammaln(a[k, z]) for k in range(K) for z in range(C))
    return total / (n * K) + 1


@pytest.mark.parametrize("kind", ["dirichlet", "gamma"])
@pytest.mark.parametrize("concentration", [1.0, 10.0])
def test_published_variants(kind, concentration):
    P, y = make_probabilities()
    P[:, 1] = 0
    P /= P.sum(axis=1, keepdims=True)
    metric = PACTran(kind, formula="published", concentration=concentration).fit(P, y)
    expected = -published_by_loops(kind, P, y, concentration)
    assert metric.score_ == pytest.approx(expected, rel=1e-12)
    assert metric.n_iter_ == 10


def test_the_published_dirichlet_value_is_the_bound_in_other_units():
    z, y = np.arange(60) % 4, np.arange(60) % 3
    y[::7] = 0
    P = 0.99 * np.eye(4)[z] + 0.0025
    published = PACTran("dirichlet", formula="published").fit(P, y).score_
    assert published == pytest.approx(PACTran("dirichlet").fit(P, y).score_ / 3, rel=1e-4)


@pytest.mark.parametrize("kind", ["dirichlet", "gamma"])
def test_source_classes_without_any_probability_change_nothing(kind):
    P, y = make_probabilities()
    expected = PACTran(kind).fit(P, y)
    padded = np.insert(P, [0, 2, 4], 0.0, axis=1)
    metric = PACTran(kind).fit(padded, y)
    assert metric.score_ == pytest.approx(expected.score_, abs=1e-12)
    with pytest.warns(ProbabilityNormalizationWarning, match="40 of 40 rows .*row 0 sums to 5"):
        assert PACTran(kind).fit(5 * P, y).score_ == pytest.approx(expected.score_, abs=1e-12)


@pytest.mark.parametrize("kind", ["dirichlet", "gamma"])
def test_informative_probabilities_score_higher(kind):
    P, y = make_probabilities(90)
    rng = np.random.default_rng(0)
    metric = PACTran(kind, n_permutations=0)
    scores = [metric.fit(P, rng.permutation(y)).score_ for _ in range(10)]
    assert metric.fit(P, y).score_ > max(scores)


# ---------------------------------------------------------------------------------- what it needs


def test_what_it_needs_and_its_bounds_depend_on_the_parameters():
    assert PACTran.needs == PACTran().needs == "features"
    assert PACTran("dirichlet").needs == PACTran("gamma").needs == "probabilities"
    assert PACTran.bounds == PACTran("gamma").bounds == (-np.inf, 0.0)
    assert PACTran("gamma", formula="published").bounds == (-np.inf, np.inf)
    assert not PACTran().__sklearn_tags__().input_tags.positive_only
    assert PACTran("gamma").__sklearn_tags__().input_tags.positive_only
    P, y = make_probabilities()
    inputs = MetricInputs(y, probabilities=P)
    assert inputs.fit(PACTran("dirichlet")).score_ == PACTran("dirichlet").fit(P, y).score_
    with pytest.raises(ValueError, match="PACTran needs features"):
        inputs.fit(PACTran())
    with pytest.raises(ValueError, match="PACTran needs source probabilities"):
        MetricInputs(y, features=P).fit(PACTran("gamma"))
    with pytest.raises(ValueError, match=r"Negative values .*PACTran\(kind='gamma'\)"):
        PACTran("gamma").fit(-P, y)


@pytest.mark.parametrize("kind", ["gaussian", "dirichlet", "gamma"])
def test_scores_that_any_labels_would_get_are_announced(kind):
    y = np.arange(12) % 3
    with pytest.warns(UninformativeScoreWarning, match="constant"):
        metric = PACTran(kind).fit(np.full((12, 4), 0.25), y)
    assert metric.saturated_
    P, _ = make_probabilities(6)
    with pytest.warns(UninformativeScoreWarning, match="single sample"):
        assert PACTran(kind).fit(P, np.arange(6)).saturated_


def test_features_are_not_changed_and_need_no_seed():
    F, y = load_iris(return_X_y=True)
    before = F.tobytes()
    scores = {PACTran().fit(F, y).score_ for _ in range(2)}
    assert len(scores) == 1
    assert F.tobytes() == before


def test_features_far_below_the_prior_are_announced():
    F, y = make_data(60, 5)
    rng = np.random.default_rng(0)
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score"):
        metric = PACTran().fit(1e-20 * F, y)
    assert metric.saturated_
    assert metric.score_ == PACTran(n_permutations=0).fit(1e-20 * F, rng.permutation(y)).score_


@pytest.mark.parametrize("kind", ["gaussian", "dirichlet", "gamma"])
@pytest.mark.parametrize("formula", ["bound", "published"])
def test_the_chance_level_is_sampled_without_bias(kind, formula):
    F, y = make_data(40, 4)
    X = F if kind == "gaussian" else softmax(F, axis=1)
    rng = np.random.default_rng(0)
    metric = PACTran(kind, formula=formula, n_permutations=0)
    permuted = [clone(metric).fit(X, rng.permutation(y)).score_ for _ in range(25)]
    level = clone(metric).set_params(n_permutations=25).fit(X, rng.permutation(y)).chance_level_
    assert level == pytest.approx(np.mean(permuted), abs=5 * np.std(permuted) * np.sqrt(2 / 25))
    assert np.isnan(metric.fit(X, y).chance_level_)
