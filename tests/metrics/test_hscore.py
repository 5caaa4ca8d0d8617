"""Tests of HScore where it is saturated; its formula is tested with that of other metrics."""

import numpy as np
import pytest

from sktransfer.metrics import HScore

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def formula(F, y):
    """Trace of the pseudo-inverse of the covariance times that of the class means."""
    centred = F - F.mean(axis=0)
    means = np.stack([centred[y == label].mean(axis=0) for label in y])
    return np.trace(np.linalg.pinv(centred.T @ centred) @ means.T @ means)


@pytest.mark.parametrize("n_features", [29, 30, 64, 300])
def test_networks_that_can_say_any_labels_are_tied(n_features):
    scores = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(30, n_features)) * rng.uniform(0.1, 10, size=n_features)
        y = rng.permutation(np.arange(30) % 4)
        metric = HScore().fit(F, y)
        assert metric.rank_ == 29 and metric.saturated_
        assert formula(F, y) == pytest.approx(3, abs=1e-6)
        scores.add(metric.score_)
    assert scores == {3.0}


def test_others_are_what_the_formula_says():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 4
    for n_features in (1, 5, 28):
        F = rng.normal(size=(30, n_features))
        score = HScore().fit(F, y).score_
        assert score == pytest.approx(formula(F, y), rel=1e-9) and score < 3
    # Two equal rows with different labels: nobody can tell them apart.
    F = rng.normal(size=(30, 64))
    F[1] = F[0]
    assert HScore().fit(F, y).score_ == pytest.approx(formula(F, y), rel=1e-9)
    assert HScore().fit(F, y).score_ < 3
    # Shrunk, the score says something.
    assert HScore(shrinkage=0.1).fit(F, y).score_ < 2.9


def test_rows_without_weight_do_not_count():
    rng = np.random.default_rng(0)
    F, y, weight = rng.normal(size=(30, 12)), np.arange(30) % 4, np.ones(30)
    weight[12:] = 0
    few = HScore().fit(F[:12], y[:12]).score_
    assert few == 3.0
    assert HScore().fit(F, y, sample_weight=weight).score_ == pytest.approx(3.0, abs=1e-9)
    weight[12:] = 0.3
    assert HScore().fit(F, y, sample_weight=weight).score_ < 2.9
