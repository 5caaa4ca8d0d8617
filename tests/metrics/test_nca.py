"""Tests of neighbourhood components analysis against scikit-learn's, and against its definition."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from sktransfer.metrics._nca import _LossAndGradient, neighbourhood_components


def make_data(n_samples, n_features, n_classes=4):
    rng = np.random.default_rng(n_samples)
    codes = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features)) + np.eye(n_classes, n_features)[codes]
    X -= X.mean(axis=0)
    return X / np.sqrt(np.square(X).sum() / n_samples), codes


def expected_right(X, codes, A):
    """Sum over samples of the probability that a random neighbour has their label."""
    total = 0.0
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        weights = np.exp([-np.sum((A @ (X[i] - X[j])) ** 2) for j in others])
        total += weights[codes[others] == codes[i]].sum() / weights.sum()
    return total


# A block has 128 rows.
@pytest.mark.parametrize("n_samples", [3, 20, 129])
def test_loss_is_its_definition_and_gradient_its_derivative(n_samples):
    X, codes = make_data(n_samples, 3)
    A = np.random.default_rng(0).normal(size=(2, 3))
    objective = _LossAndGradient(X, codes)
    loss, gradient = objective(A.ravel())
    assert loss == pytest.approx(-expected_right(X, codes, A), rel=1e-12)
    slope = approx_fprime(A.ravel(), lambda a: objective(a)[0], 1e-7)
    np.testing.assert_allclose(gradient, slope, atol=1e-5)
    # What an evaluation leaves behind does not matter to the next.
    again, gradient_again = objective(A.ravel())
    assert loss == again and np.array_equal(gradient, gradient_again)


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_components"), [(30, 5, 5), (300, 12, 4), (20, 40, 10)]
)
def test_projection_is_scikit_learn_s(n_samples, n_features, n_components):
    X, codes = make_data(n_samples, n_features)
    init = "identity" if n_components == n_features else "pca"
    for max_iter in (3, 12):
        theirs = NeighborhoodComponentsAnalysis(
            n_components, init=init, max_iter=max_iter, random_state=0
        ).fit(X, codes)
        ours, converged = neighbourhood_components(
            X, codes, n_components, max_iter=max_iter, random_state=0
        )
        np.testing.assert_allclose(ours, theirs.components_, rtol=1e-6, atol=1e-9)
        assert converged == (theirs.n_iter_ <= max_iter)


def test_convergence_is_told():
    X, codes = make_data(30, 4, n_classes=2)
    assert not neighbourhood_components(X, codes, 2, max_iter=1, random_state=0)[1]
    assert neighbourhood_components(X, codes, 2, max_iter=2000, random_state=0)[1]
