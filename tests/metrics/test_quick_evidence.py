"""The search without a certificate finds what the certified one does."""

import numpy as np
import pytest

from sktransfer.exceptions import ConstantTargetWarning
from sktransfer.metrics import FeatureMoments, LogME
from sktransfer.metrics._evidence import largest_evidence
from sktransfer.metrics._quick_evidence import quick_evidence, quick_score


def moments_of(seed):
    rng = np.random.default_rng(seed)
    n, n_features, n_classes = rng.integers(8, 90), rng.integers(1, 120), rng.integers(2, 5)
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
    signal = rng.choice([0, 0.5, 3]) * rng.normal(size=(n_classes, n_features))
    F = rng.normal(size=(n, n_features)) + signal[y] + rng.choice([0, 1, 30])
    F *= 10 ** rng.normal(0, rng.choice([0, 1]), size=n_features)
    if seed % 5 == 0:
        F[:, 0] = y == 0  # fits an output exactly: the noise variance is at its bound
    return FeatureMoments.from_arrays(F, y, rng.exponential(size=n))


@pytest.mark.parametrize("noise_floor", [1e-20, 1e-10, 1e-4])
def test_the_evidence_is_the_certified_one(noise_floor):
    for seed in range(15):
        spectrum = moments_of(seed).spectrum
        certified = largest_evidence(spectrum, tol=1e-10, noise_floor=noise_floor)
        quick = quick_evidence(spectrum, noise_floor=noise_floor)
        np.testing.assert_allclose(quick, certified, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_the_score_leaves_out_empty_outputs_as_logme_does():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, size=(40, 3))
    Y[:, 1] = 0
    moments = FeatureMoments.from_arrays(rng.normal(size=(40, 6)), Y)
    with pytest.warns(ConstantTargetWarning, match="left out 1 of 3"):
        score = LogME().fit_moments(moments).score_
    assert quick_score(LogME(), moments) == pytest.approx(score, abs=1e-9)
    empty = FeatureMoments.from_arrays(rng.normal(size=(9, 3)), np.zeros((9, 2), dtype=int))
    assert np.isnan(quick_score(LogME(), empty))
