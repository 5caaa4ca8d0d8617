"""LPFU: its parts, the combination without a pool, and the rules of a pool."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.datasets import load_digits
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.finetune import FU, LPFU
from sktransfer.metrics._lp import LP

IMAGES, Y = load_digits(n_class=3, return_X_y=True)
IMAGES, Y = (IMAGES[:60].reshape(-1, 8, 8) / 16).astype(np.float32), Y[:60]


def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten())


def backbone():
    return TorchBackbone(network, mean=0.5, std=0.5)


def fitted(**parameters):
    return LPFU(backbone(), random_state=0).set_params(**parameters).fit(IMAGES, Y)


def fitted_to(labels):
    return LPFU(backbone(), random_state=0).fit(IMAGES, labels)


def of_parts(lp, fu, pool="product", score=0.5):
    metric = LPFU(pool=pool)
    metric.components_ = {"lp": lp, "fu": fu}
    metric.score_ = score
    return metric


def test_the_parts_are_lp_of_the_features_and_fu():
    metric = fitted()
    features = backbone().fit(IMAGES).transform(IMAGES)
    lp = LP(random_state=0).fit(features, Y)
    fu = FU(backbone(), random_state=0).fit(IMAGES, Y)
    assert list(metric.components_) == ["lp", "fu"]
    assert metric.components_["lp"] == pytest.approx(lp.score_, abs=1e-9)
    assert metric.components_["fu"] == fu.score_
    assert metric.lp_chance_level_ == pytest.approx(lp.chance_level_)
    for name in ("layers_", "n_batches_", "n_triplets_", "n_active_triplets_", "seed_"):
        assert getattr(metric, name) == getattr(fu, name)
    assert metric.gradient_norms_.tolist() == fu.gradient_norms_.tolist()


def test_the_score_of_one_candidate_is_quality_above_chance_times_share_of_the_second_layer():
    metric = fitted()
    lp, fu, chance = *metric.components_.values(), metric.lp_chance_level_
    assert 0 < metric.score_ < 1
    assert metric.score_ == pytest.approx((lp - chance) / (1 - chance) * fu / (1 + fu))
    first, second = metric.gradient_norms_.mean(axis=0)
    assert metric.score_ == pytest.approx((lp - chance) / (1 - chance) * second / (first + second))
    assert metric.chance_level_ == 0
    assert not metric.saturated_
    in_sample = fitted(in_sample=True)
    assert in_sample.lp_chance_level_ > chance  # labels that the projection has seen
    lp, fu, chance = *in_sample.components_.values(), in_sample.lp_chance_level_
    assert in_sample.score_ == pytest.approx((lp - chance) / (1 - chance) * fu / (1 + fu))
    assert lp > metric.components_["lp"]


def test_parameters_reach_both_parts():
    default = fitted()
    few = fitted(n_components=1, n_neighbors=20)
    assert few.components_["lp"] != default.components_["lp"]
    assert few.components_["fu"] == default.components_["fu"]
    other = fitted(margin=0.5, layers=("2", "0"))
    assert other.components_["lp"] == default.components_["lp"]
    assert other.components_["fu"] != default.components_["fu"]
    assert other.layers_ == ("2", "0")


def test_shuffled_labels_score_less():
    rng = np.random.default_rng(0)
    metric = fitted()
    shuffled = []
    for _ in range(5):
        with pytest.warns(UninformativeScoreWarning, match="The LP score .* permuted labels"):
            other = fitted_to(rng.permutation(Y))
        assert other.saturated_
        shuffled.append(other.score_)
    assert metric.score_ > max(shuffled)


# -------------------------------------------------------------------------------------------- pools


def test_the_product_of_scaled_parts():
    pool = [of_parts(0.9, 1.0), of_parts(0.6, 3.0), of_parts(0.8, 2.5)]
    np.testing.assert_allclose(LPFU.pool_scores(pool), [0.0, 0.0, 2 / 3 * 0.75])
    pool = [of_parts(*p.components_.values(), pool="reversed_product") for p in pool]
    np.testing.assert_allclose(LPFU.pool_scores(pool), [0.0, 0.0, 1 / 3 * 0.25])
    assert LPFU.relative_to_pool


def test_without_a_pool_the_best_on_one_part_is_not_zeroed():
    # First on one part and last on the other: zero as published, not in the other combination.
    pool = [fitted(), fitted(layers=("2", "0")), fitted(n_components=1)]
    published = LPFU.pool_scores(pool)
    assert published.min() == 0.0
    for metric in pool:
        metric.set_params(pool="absolute")
    absolute = LPFU.pool_scores(pool)
    np.testing.assert_array_equal(absolute, [metric.score_ for metric in pool])
    assert absolute.min() > 0
    # It does not matter who else is there.
    assert LPFU.pool_scores(pool[:1]).tolist() == absolute[:1].tolist()


@pytest.mark.parametrize("pool", ["product", "reversed_product"])
def test_constant_parts_are_one_half_and_leave_the_order_to_the_other(pool):
    one = of_parts(0.9, 1.0, pool)
    assert LPFU.pool_scores([one]).tolist() == [0.25]
    assert LPFU.pool_scores([one, one]).tolist() == [0.25, 0.25]
    same_fu = [of_parts(lp, 1.0, pool) for lp in (0.5, 0.7, 0.9)]
    expected = [0.0, 0.25, 0.5] if pool == "product" else [0.5, 0.25, 0.0]
    np.testing.assert_allclose(LPFU.pool_scores(same_fu), expected)
    same_lp = [of_parts(0.5, fu, pool) for fu in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(LPFU.pool_scores(same_lp), expected)


def test_failed_candidates_are_left_out_of_the_scaling():
    pool = [of_parts(0.9, 1.0), None, of_parts(0.6, 3.0), of_parts(0.8, 2.5)]
    without = LPFU.pool_scores([metric for metric in pool if metric is not None])
    pool.append(of_parts(0.0, np.nan, score=np.nan))
    scores = LPFU.pool_scores(pool)
    np.testing.assert_array_equal(scores[[0, 2, 3]], without)
    assert np.isnan(scores[[1, 4]]).all()
    assert scores.dtype == np.float64
    assert np.isnan(LPFU.pool_scores([None, None])).all()
    assert LPFU.pool_scores([]).shape == (0,)


def test_an_undefined_fu_is_neutral():
    pool = [of_parts(1.0, np.nan), of_parts(0.6, 1.0), of_parts(0.8, 3.0)]
    np.testing.assert_allclose(LPFU.pool_scores(pool), [0.5, 0.0, 0.5])
    pool = [of_parts(1.0, np.nan), of_parts(0.6, np.nan)]
    np.testing.assert_allclose(LPFU.pool_scores(pool), [0.5, 0.0])
    pool = [of_parts(1.0, np.inf), of_parts(0.6, 1.0), of_parts(0.8, 3.0)]
    np.testing.assert_allclose(LPFU.pool_scores(pool), [np.nan, 0.0, 1.0])


# ----------------------------------------------------------------------------------- no information


def test_features_that_separate_the_classes_are_not_thrown_out():
    def plain():
        return nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))

    rng = np.random.default_rng(0)
    X = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 10, axis=0) + 0.01 * rng.normal(size=(20, 2))
    metric = LPFU(TorchBackbone(plain, classifier=None), random_state=0)
    with pytest.warns(UninformativeScoreWarning, match="decided by LP alone.* margin of 0.05"):
        metric.fit(X, np.repeat([0, 1], 10))
    assert np.isnan(metric.components_["fu"])
    lp, chance = metric.components_["lp"], metric.lp_chance_level_
    assert metric.score_ == pytest.approx((lp - chance) / (1 - chance) / 2)
    assert metric.score_ > 0.4
    assert not metric.saturated_


def test_without_triplets_there_is_no_score():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric = LPFU(backbone(), random_state=0).fit(IMAGES[:6], np.arange(6))
    assert np.isnan(metric.score_)
    assert np.isnan(metric.chance_level_)
    assert metric.saturated_
    assert metric.components_["lp"] == 0.0
    lp, own = caught
    assert "every class has a single sample" in str(lp.message)
    assert "LPFU has no score (NaN): there is no triplet" in str(own.message)
    assert {w.category for w in caught} == {UninformativeScoreWarning}
    assert own.filename == __file__


def test_the_smallest_target_that_has_triplets():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        metric = LPFU(backbone(), random_state=0).fit(IMAGES[:3], [0, 0, 1])
    assert 0 <= metric.score_ <= 1
