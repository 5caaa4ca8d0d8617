"""Metrics on the same features share their decompositions, and what these need of memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import linalg

from sktransfer.metrics import (
    GBC,
    NLEEP,
    FeatureMoments,
    HScore,
    LogME,
    MetricInputs,
    _eigenvectors,
    get_metric,
    metric_names,
)

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")

N_CLASSES = 6


def rectified(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % N_CLASSES
    centres = 0.5 * rng.normal(size=(N_CLASSES, n_features))
    return np.maximum(rng.normal(size=(n_samples, n_features)) + centres[y], 0.0), y


def nearly_dead(F):
    F = F.copy()
    F[:, 0] = 0.0
    F[3, 0] = 1e-3
    return F


def duplicated(F):
    half = F.shape[1] // 2
    return np.hstack([F[:, :half], F[:, :half]])


def exchangeable(F):
    """Pairs of directions of equal variance, which nothing but the order of rows tells apart."""
    half = F.shape[1] // 2
    left, sigma, right = np.linalg.svd(F - F.mean(axis=0), full_matrices=False)
    return (left * np.repeat(sigma[::2], 2)[: len(sigma)]) @ right + np.arange(2 * half) % 3


# What the features are like, and how many decompositions that may cost: of the features, with
# columns brought to one scale, and in an order that does not depend on that of the rows.
KINDS = {
    "plain": (lambda F: F, 1),
    "nearly dead unit": (nearly_dead, 2),
    "duplicate columns": (duplicated, 2),
    "exchangeable directions": (exchangeable, 2),
    "all of it": (lambda F: nearly_dead(exchangeable(F)), 3),
}


def shared_metrics():
    """Every metric of features by its defaults, and others of the larger families.

    The second of two permutations would already show a decomposition for each.
    """
    metrics = [get_metric(name) for name in metric_names()]
    metrics = [metric for metric in metrics if metric.needs == "features"]
    for metric in metrics:
        if "n_permutations" in metric.get_params():
            metric.set_params(n_permutations=2)
    # Neighbours are looked for in the features themselves or in a projection learned in folds.
    metrics = [metric for metric in metrics if type(metric).__name__ not in ("LP", "KNN")]
    more = [HScore("ledoit_wolf"), GBC("diagonal"), GBC("spherical", None), NLEEP(energy=0.5)]
    return [*metrics, *more]


@pytest.fixture
def sizes(monkeypatch):
    """Smaller sides of all matrices that are decomposed, by the name of the routine."""
    calls = []

    def watch(module, name):
        routine = getattr(module, name)

        def watched(matrix, *args, **kwargs):
            calls.append((name, min(np.shape(matrix)[-2:])))
            return routine(matrix, *args, **kwargs)

        monkeypatch.setattr(module, name, watched)

    for name in ("eigh", "eigvalsh", "svd", "svdvals"):
        watch(linalg, name)
        watch(np.linalg, name)
    watch(_eigenvectors.lapack, "dsytrd")
    return calls


@pytest.mark.parametrize("shape", [(240, 80), (90, 200)], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
def test_all_metrics_together_cost_one_decomposition_of_a_kind(shape, kind, backwards, sizes):
    F, y = rectified(*shape)
    change, most = KINDS[kind]
    F = change(F)
    metrics = shared_metrics()
    inputs = MetricInputs(y, F)
    sizes.clear()
    for metric in metrics[::-1] if backwards else metrics:
        inputs.fit(metric)
    # Matrices of a class, or of the leading components, are smaller.
    full = [name for name, side in sizes if side == min(shape)]
    assert set(full) == {"dsytrd"}
    assert 1 <= len(full) <= most
    sizes.clear()
    for metric in metrics:
        inputs.fit(metric)
    assert not [name for name, side in sizes if side == min(shape)]


def test_the_counting_counts(sizes):
    F, y = rectified(60, 20)
    np.linalg.svd(F)
    LogME().fit(F, y)
    assert ("svd", 20) in sizes
    assert [name for name, side in sizes if side == 20] == ["svd", "dsytrd"]
    sizes.clear()
    for kind in ("nearly dead unit", "exchangeable directions"):
        inputs = MetricInputs(y, KINDS[kind][0](F))
        inputs.fit("hscore")
        inputs.fit(GBC("diagonal", n_components=5))
    assert [side for name, side in sizes if name == "dsytrd"] == [20] * 4


@pytest.mark.parametrize("shape", [(60, 12), (24, 40)], ids=["tall", "wide"])
def test_copies_share_what_is_decomposed_later(shape, sizes):
    F, y = rectified(*shape)
    moments = FeatureMoments.from_arrays(nearly_dead(F), y)
    twin = moments.copy()
    spectrum = twin.balanced_spectrum
    assert moments.balanced_spectrum is spectrum
    assert moments.spectrum is twin.spectrum
    twin.update(F, y)
    assert twin.spectrum is not moments.spectrum
    assert moments.balanced_spectrum is spectrum
    assert len([name for name, _ in sizes if name == "dsytrd"]) == 3


def test_weights_count_in_the_reproducible_decomposition():
    F, y = rectified(60, 10)
    F = exchangeable(F)
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    metric = GBC("diagonal", n_components=5, n_permutations=0)
    weighted = MetricInputs(y, F, sample_weight=weight.astype(float)).fit(metric)
    repeated = metric.fit(np.repeat(F, weight, axis=0), np.repeat(y, weight))
    assert weighted.log_overlap_ == pytest.approx(repeated.log_overlap_, rel=1e-9)


# ------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("shape", [(1500, 600), (500, 1500)], ids=["tall", "wide"])
def test_logme_takes_three_matrices_of_the_smaller_side(shape):
    F, y = rectified(*shape)
    F = F.astype(np.float32)
    LogME().fit(F[:20, :10], y[:20])
    tracemalloc.start()
    metric = LogME().fit(F, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    matrix = 8 * min(shape) ** 2
    assert peak < 3 * matrix
    # What stays is half a matrix of second moments, or the rows.
    assert len(pickle.dumps(metric)) < (0.55 * matrix if shape[0] > shape[1] else 1.1 * F.nbytes)


def test_second_moments_at_rest_are_those_that_were_added():
    F, y = rectified(90, 30)
    moments = FeatureMoments.from_arrays(F[:50], y[:50])
    moments.spectrum  # noqa: B018
    dense = moments._dense
    assert dense._square is None
    assert dense._packed.size == 30 * 31 // 2
    x = F[:50] / dense.unit - dense.shift
    np.testing.assert_allclose(dense.scatter, x.T @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.tril(dense.lower), np.tril(x.T @ x), rtol=1e-12, atol=1e-12)
    moments.update(F[50:], y[50:])
    expected = LogME().fit(F, y).score_
    assert LogME().fit_moments(moments).score_ == pytest.approx(expected, abs=1e-12)
