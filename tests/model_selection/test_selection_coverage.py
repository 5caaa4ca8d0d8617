"""The set of candidates that may be the best holds the best, in selections that are simulated."""

import numpy as np
import pytest
from scipy.stats import binom

from sktransfer.evaluation import selection_uncertainty
from sktransfer.metrics import get_metric
from sktransfer.model_selection._prepared_metric import PreparedMetric
from sktransfer.model_selection._resampled_scores import resample_scores
from sktransfer.model_selection._resamples import Resamples, scheme_of
from sktransfer.model_selection._scoring import ScoringTask

N_CLASSES, LATENT = 3, 4
STRENGTHS = (1.0, 0.95, 0.0)  # two near ties, and one that sees nothing
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


def draw(seed, n_samples, n_features):
    """Labels, and features and source probabilities of each candidate, of a fresh sample."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([seed, n_samples])
    centres = 1.2 * fixed.normal(size=(N_CLASSES, LATENT))
    y = np.r_[np.repeat(np.arange(N_CLASSES), 2), rng.integers(0, N_CLASSES, n_samples - 6)]
    rows = centres[y] + rng.normal(size=(n_samples, LATENT))
    candidates = []
    for strength in STRENGTHS:
        seen = strength * rows @ fixed.normal(size=(LATENT, n_features))
        F = seen + rng.normal(size=seen.shape)
        P = np.exp(F[:, :5])
        candidates.append((F, P / P.sum(axis=1, keepdims=True)))
    return y, candidates


# The benchmark coverage_of_selection.py has more metrics, settings and selections.
@pytest.mark.parametrize(
    ("name", "n_samples", "n_features", "n_selections"),
    [("leep", 60, 6, 30), ("knn", 60, 12, 15), ("logme", 40, 6, 10), ("logme", 24, 48, 10)],
)
def test_the_best_is_in_the_set_and_the_worst_is_not(name, n_samples, n_features, n_selections):
    metric = get_metric(name)
    scheme = scheme_of(metric)
    sets = []
    for seed in range(n_selections):
        y, candidates = draw(seed, n_samples, n_features)
        plan = Resamples(40, seed, np.arange(n_samples), {name: scheme}, y)
        tasks = [ScoringTask(0, 0, {name: metric}, F, P, y, {}) for F, P in candidates]
        resampled = [resample_scores(task, plan, task.metrics)[name].values for task in tasks]
        found = selection_uncertainty(
            plain(metric, y, candidates),
            np.transpose(resampled),
            n_samples=n_samples,
            scale=plan.scale(scheme, metric),
        )
        sets.append(found.tied_with_best)
    fresh = [plain(metric, *draw(1000 + s, n_samples, n_features)) for s in range(60)]
    best = int(np.mean(fresh, axis=0).argmax())
    assert best != 2
    held = sum(best in found for found in sets)
    assert held >= binom.ppf(0.005, n_selections, 0.95)
    # A set of everything would hold the best too.
    assert np.mean([2 in found for found in sets]) <= 0.5


def plain(metric, y, candidates):
    prepared = [PreparedMetric(metric, y, features=F, probabilities=P) for F, P in candidates]
    return [each.score(None, None, {})[0] for each in prepared]
