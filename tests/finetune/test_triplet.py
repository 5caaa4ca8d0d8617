"""The triplet loss against a list of all triplets, differentiated by torch."""

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sktransfer.finetune import _triplet
from sktransfer.finetune._triplet import count_triplets, triplet_loss


def listed(codes):
    rows = range(len(codes))
    return [
        (a, p, n)
        for a, p, n in product(rows, rows, rows)
        if a != p and codes[a] == codes[p] and codes[a] != codes[n]
    ]


def naive(features, codes, margin):
    """Value, gradient and number of active triplets, one triplet at a time."""
    x = torch.tensor(features, dtype=torch.float64, requires_grad=True)
    unit = torch.nn.functional.normalize(x, dim=1)
    terms = [
        torch.relu(margin + (unit[a] - unit[p]).norm() - (unit[a] - unit[n]).norm())
        for a, p, n in listed(codes)
    ]
    terms = torch.stack(terms)
    active = terms > 0
    value = terms[active].mean()
    value.backward()
    return value.item(), x.grad.numpy(), int(active.sum())


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.7])
@pytest.mark.parametrize("shape", [(12, 3), (15, 1), (9, 40)])
def test_value_and_gradient_are_those_of_all_triplets(margin, shape):
    rng = np.random.default_rng(shape[0])
    codes = rng.integers(0, 3, shape[0])
    codes[:3] = 0, 0, 1
    features = rng.normal(size=shape)
    if shape[1] == 1:
        features = np.c_[features, np.ones(shape[0])]
    value, gradient, n_active = naive(features, codes, margin)
    loss = triplet_loss(torch.from_numpy(features), codes, margin)
    assert loss.value == pytest.approx(value, rel=1e-12)
    assert loss.n_active == n_active > 0
    np.testing.assert_allclose(loss.gradient.numpy(), gradient, rtol=1e-9, atol=1e-12)
    assert count_triplets(codes) == len(listed(codes))


def test_blocks_of_anchors_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    features, codes = torch.from_numpy(rng.normal(size=(50, 5))), rng.integers(0, 4, 50)
    whole = triplet_loss(features, codes, 0.05)
    for elements in (1, 170, 999):
        monkeypatch.setattr(_triplet, "_BLOCK_ELEMENTS", elements)
        parts = triplet_loss(features, codes, 0.05)
        assert parts.n_active == whole.n_active
        assert parts.value == pytest.approx(whole.value, rel=1e-13)
        np.testing.assert_allclose(parts.gradient, whole.gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_scale_of_the_features_leaves_the_loss_alone(scale):
    rng = np.random.default_rng(1)
    features, codes = torch.from_numpy(rng.normal(size=(20, 4))), rng.integers(0, 3, 20)
    loss, scaled = triplet_loss(features, codes, 0.05), triplet_loss(features * scale, codes, 0.05)
    assert scaled.value == pytest.approx(loss.value, rel=1e-12)
    np.testing.assert_allclose(scaled.gradient * scale, loss.gradient, rtol=1e-9)


def test_rows_without_direction_or_distance_have_no_gradient():
    codes = np.array([0, 0, 1, 1])
    loss = triplet_loss(torch.zeros(4, 3), codes, 0.05)
    assert loss.value == pytest.approx(0.05)
    assert loss.n_active == 8
    assert not loss.gradient.any()
    same = triplet_loss(torch.ones(4, 3), codes, 0.05)
    assert same.n_active == 8
    assert not same.gradient.any()
    one = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    gradient = triplet_loss(one, codes, 0.05).gradient
    assert torch.isfinite(gradient).all()
    assert not gradient[0].any()
    assert gradient[1:].any()


def test_separated_classes_have_no_active_triplet_and_no_loss():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0]])
    loss = triplet_loss(features, np.array([0, 0, 1, 1]), 0.05)
    assert (loss.value, loss.n_active) == (0.0, 0)
    assert not loss.gradient.any()
    assert triplet_loss(features, np.array([0, 0, 1, 1]), 1.5).n_active > 0


@pytest.mark.parametrize("codes", [[0], [0, 0], [0, 1], [0, 1, 2], [1, 1, 1]])
def test_no_triplets(codes):
    codes = np.array(codes)
    assert count_triplets(codes) == 0
    assert triplet_loss(torch.randn(len(codes), 2), codes, 0.05).n_active == 0


def test_the_features_are_not_changed():
    features = torch.randn(10, 3, dtype=torch.float64)
    before = features.clone()
    triplet_loss(features, np.arange(10) % 2, 0.05)
    assert torch.equal(features, before)
