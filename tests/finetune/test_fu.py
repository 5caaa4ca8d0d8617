"""FU: its formula, the original's values, and everything it must not depend on or touch."""

import json
import pickle
import random
import sys
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn
from torch.nn import functional

from sktransfer.backbones import TinyZooBackbone, TorchBackbone
from sktransfer.exceptions import RandomFeaturesWarning, UninformativeScoreWarning
from sktransfer.finetune import FU, LPFU
from sktransfer.finetune._network import NetworkInputs
from sktransfer.metrics import get_metric

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"


class AnyWidth(nn.Module):
    """Two hidden layers and a head for vectors of any length."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 7)
        self.second = nn.Linear(7, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        k = torch.arange(1, 9, dtype=x.dtype)
        place = torch.arange(x.shape[1], dtype=x.dtype)
        x = x @ torch.cos(place[:, None] * k / 3) / 8
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Small(nn.Module):
    """Two convolutions and a head for grey images of any size."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 5, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(20, 3)

    def features(self, x):
        x = self.conv2(torch.relu(self.norm(self.conv1(x))))
        return self.pool(torch.relu(x)).flatten(1)

    def forward(self, x):
        return self.head(self.features(x))


IMAGES, Y = load_digits(n_class=4, return_X_y=True)
IMAGES, Y = (IMAGES[:90].reshape(-1, 8, 8) / 16).astype(np.float32), Y[:90]


# Of LPFU a smaller projection, which is learned sooner.
both_kinds = pytest.mark.parametrize(
    "kind", [FU, partial(LPFU, n_components=2)], ids=["FU", "LPFU"]
)


def small(network=Small, **parameters):
    return TorchBackbone(network, mean=0.5, std=0.5, **parameters)


def fu(**parameters):
    return FU(small(), random_state=0, batch_size=32).set_params(**parameters)


# -------------------------------------------------------------------------------------- the formula


def fu_by_listing(network, batches, margin=0.05):
    """Mean gradient norms of the two convolutions, one triplet at a time."""
    norms = []
    for x, codes in batches:
        unit = functional.normalize(network.features(x.double()), dim=1)
        rows = range(len(codes))
        terms = [
            torch.relu(margin + (unit[a] - unit[p]).norm() - (unit[a] - unit[n]).norm())
            for a, p, n in product(rows, rows, rows)
            if a != p and codes[a] == codes[p] and codes[a] != codes[n]
        ]
        terms = torch.stack(terms)
        loss = terms[terms > 0].mean()
        weights = (network.conv1.weight, network.conv2.weight)
        norms.append([float(g.norm()) for g in torch.autograd.grad(loss, weights)])
    return np.array(norms)


def test_the_formula_one_triplet_at_a_time():
    images, y = IMAGES[:40], Y[:40]
    metric = FU(small(), batches="published").fit(images, y)
    backbone = small().fit(images)
    network = backbone.module_.double().requires_grad_(True)
    x = torch.from_numpy((images[:, None] - 0.5) / 0.5)
    batches = [(x[s : s + 6], y[s : s + 6]) for s in range(0, 40, 6)]
    norms = fu_by_listing(network, batches)
    assert metric.layers_ == ("conv1", "conv2")
    assert metric.n_batches_ == 7
    np.testing.assert_allclose(metric.gradient_norms_, norms, rtol=1e-4)
    first, second = norms.mean(axis=0)
    assert metric.score_ == pytest.approx(second / first, rel=1e-5)


class Convolutions(nn.Module):
    """The network of the stored values."""

    def __init__(self, first, second):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(6, 8, 3, padding=1, bias=False)
        self.load_state_dict({"conv1.weight": first, "conv2.weight": second})

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return functional.max_pool2d(x, 2).flatten(1)


def stored(model):
    """Backbone, images, labels and the original's values for one of four networks."""
    entries = json.loads((GOLDEN / "golden.json").read_text())["fu_digits"]
    with np.load(GOLDEN / "fu_digits.npz", allow_pickle=False) as data:
        weights = [torch.from_numpy(data[f"{name}_{model}"]) for name in ("conv1", "conv2")]
        backbone = TorchBackbone(Convolutions(*weights), mean=0.0, std=1.0)
        images, y, features = data["images"], data["y"], data[f"X_{model}"]
    values = {
        key.partition("@")[0]: entry["value"]
        for key, entry in entries.items()
        if key.endswith(f"@model{model}")
    }
    np.testing.assert_allclose(backbone.fit(images).transform(images), features, atol=2e-6)
    return backbone, images, y, values


@pytest.mark.parametrize("model", range(4))
def test_stored_values_of_the_original(model):
    backbone, images, y, values = stored(model)
    metric = FU(backbone, batches="published").fit(images, y)
    assert metric.layers_ == ("conv1", "conv2")
    assert metric.n_batches_ == 7  # six of a sixth and a remainder
    assert metric.score_ == pytest.approx(values["fu.doviledo"], rel=1e-6)
    assert metric.score_ == pytest.approx(values["fu.niclas"], rel=1e-6)
    # Published batches depend on the order of the rows; ours do not, and differ from them.
    order = np.argsort(y, kind="stable")
    by_label = FU(backbone, batches="published").fit(images[order], y[order]).score_
    assert abs(by_label / metric.score_ - 1) > 1e-3
    ours = FU(backbone, batch_size=21, random_state=0)
    assert ours.fit(images, y).score_ == ours.fit(images[order], y[order]).score_
    assert ours.score_ != pytest.approx(metric.score_, rel=1e-3)
    assert ours.score_ == pytest.approx(metric.score_, rel=0.35)


def test_stored_lpfu_of_the_original():
    fitted, product_rule, reversed_rule = [], [], []
    for model in range(4):
        backbone, images, y, values = stored(model)
        metric = LPFU(backbone, batches="published", in_sample=True, random_state=42)
        fitted.append(metric.fit(images, y))
        assert metric.components_["fu"] == pytest.approx(values["fu.doviledo"], rel=1e-6)
        assert metric.components_["lp"] == pytest.approx(values["lp.doviledo"], abs=5 / len(y))
        product_rule.append(values["lpfu.dataset"])
        reversed_rule.append(values["lpfu.architecture"])
    np.testing.assert_allclose(LPFU.pool_scores(fitted), product_rule, atol=1e-6)
    fitted = [metric.set_params(pool="reversed_product") for metric in fitted]
    np.testing.assert_allclose(LPFU.pool_scores(fitted), reversed_rule, atol=1e-6)


def test_a_large_batch_is_computed_in_parts_of_the_backbone():
    whole = FU(small(batch_size=90), batch_size=90, random_state=0).fit(IMAGES, Y)
    assert whole.n_batches_ == 1
    for batch_size in (1, 32, 89):
        metric = FU(small(batch_size=batch_size), batch_size=90, random_state=0).fit(IMAGES, Y)
        assert metric.score_ == pytest.approx(whole.score_, rel=1e-5)
    seen = []
    backbone = small(batch_size=16).fit(IMAGES)
    backbone.module_.register_forward_hook(lambda module, x, output: seen.append(len(x[0])))
    FU(backbone, batch_size=90, random_state=0).fit(IMAGES, Y)
    assert max(seen) == 16


def test_the_score_does_not_depend_on_the_scale_of_the_features():
    class Scaled(Small):
        factor = 1.0

        def forward(self, x):
            return self.features(x) * self.factor

    expected = FU(small(Scaled, classifier=None), random_state=0).fit(IMAGES, Y).score_
    for factor in (1e-25, 1e-4, 1e25):
        Scaled.factor = factor
        metric = FU(small(Scaled, classifier=None), random_state=0).fit(IMAGES, Y)
        assert metric.score_ == pytest.approx(expected, rel=1e-4)


def test_half_precision_networks():
    metric = FU(small(lambda: Small().half()), random_state=0).fit(IMAGES, Y)
    assert metric.score_ == pytest.approx(fu(batch_size=64).fit(IMAGES, Y).score_, rel=0.05)


# ---------------------------------------------------------------------- order, names, kinds of data


@both_kinds
def test_neither_order_of_rows_nor_names_of_labels_matter(kind):
    rng = np.random.default_rng(0)
    backbone = small().fit(IMAGES)
    metric = kind(backbone, batch_size=16, random_state=3)
    expected = metric.fit(IMAGES, Y).score_
    for order in (np.argsort(Y, kind="stable"), np.arange(90)[::-1], rng.permutation(90)):
        assert metric.fit(IMAGES[order], Y[order]).score_ == expected
    names = np.array(["pear", "apple", "fig", "kiwi"])
    for labels in (names[Y], names[Y].astype(object), -7 * Y, Y[:, None], (2.0 * Y).tolist()):
        assert metric.fit(IMAGES, labels).score_ == expected
    assert metric.fit(IMAGES, names[Y]).classes_.tolist() == sorted(names)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@both_kinds
def test_repeated_rows_and_equal_classes_have_no_order_either(kind):
    rng = np.random.default_rng(0)
    images, y = np.r_[IMAGES[:10], IMAGES[:10], IMAGES[:20]], np.r_[Y[:10], Y[:20], Y[5:15]]
    backbone = small().fit(images)
    expected = kind(backbone, batch_size=8, random_state=0).fit(images, y).score_
    for _ in range(3):
        order = rng.permutation(len(y))
        metric = kind(backbone, batch_size=8, random_state=0).fit(images[order], y[order])
        assert metric.score_ == expected


def test_a_remainder_of_one_row_is_no_trouble():
    for n in (65, 33, 49):
        metric = fu(batch_size=16).fit(IMAGES[:n], Y[:n])
        assert np.isfinite(metric.score_)
        assert (metric.gradient_norms_ > 0).all()
    for n in (25, 37, 31):  # the published batches leave one row
        metric = fu(batches="published").fit(IMAGES[:n], Y[:n])
        assert metric.n_batches_ == 7
        assert metric.gradient_norms_[-1].tolist() == [0.0, 0.0]
        assert np.isfinite(metric.score_)
    with pytest.raises(ValueError, match="needs 6 samples; got 5"):
        fu(batches="published").fit(IMAGES[:5], Y[:5])


def test_kinds_of_images_of_the_same_content(tmp_path):
    pixels = np.round(IMAGES * 255).astype(np.uint8)
    expected = fu().fit(pixels, Y)
    assert expected.n_features_in_ == 64
    paths = []
    for i, image in enumerate(pixels):
        paths.append(str(tmp_path / f"{len(pixels) - i}.png"))
        Image.fromarray(image).save(paths[-1])
    for same in (
        pixels[:, None],
        pixels[..., None],
        list(pixels),
        torch.from_numpy(pixels),
        (pixels / 255).astype(np.float32),
        pixels / 255,
        np.asfortranarray(pixels),
    ):
        assert fu().fit(same, Y).score_ == pytest.approx(expected.score_, rel=1e-5)
    from_files = fu().fit(paths, Y)
    assert not hasattr(from_files, "n_features_in_")
    order = np.random.default_rng(0).permutation(90)
    shuffled = np.array(paths)[order]
    as_paths, series = [Path(path) for path in shuffled], pd.Series(shuffled, index=order)
    for same in (shuffled, shuffled.tolist(), series, as_paths):
        assert fu().fit(same, Y[order]).score_ == from_files.score_
    opened = [Image.fromarray(image) for image in pixels]
    by_content = fu().fit(opened, Y).score_
    assert fu().fit([opened[i] for i in order], Y[order]).score_ == by_content
    # Other batches, as files are told apart by their bytes.
    assert from_files.score_ == pytest.approx(expected.score_, rel=0.2)
    again = from_files.fit(pixels, Y)
    assert again.score_ == expected.score_
    assert again.n_features_in_ == 64


@both_kinds
def test_vectors_and_data_frames(kind):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.normal(size=(60, 5)) + y[:, None]).astype(np.float32)
    metric = kind(TorchBackbone(AnyWidth), random_state=0)
    expected = metric.fit(X, y).score_
    for same in (X.astype(float), np.asfortranarray(X), X.tolist(), torch.from_numpy(X)):
        assert clone(metric).fit(same, y).score_ == expected
    X.flags.writeable = False
    assert clone(metric).fit(X, y).score_ == expected
    frame = pd.DataFrame(X, columns=list("abcde"))
    fitted = kind(TorchBackbone(AnyWidth).fit(frame), random_state=0).fit(frame, y)
    assert fitted.score_ == expected
    assert fitted.score(frame, y) == expected
    assert fitted.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        fitted.score(frame.rename(columns={"a": "z"}), y)
    bfloat = torch.from_numpy(X.copy()).bfloat16()
    assert clone(metric).fit(bfloat, y).score_ == pytest.approx(expected, rel=0.1)


@both_kinds
def test_the_input_is_not_changed_and_may_be_a_memory_map(kind, tmp_path):
    path = tmp_path / "images.npy"
    np.save(path, IMAGES)
    mapped = np.load(path, mmap_mode="r")
    before = IMAGES.tobytes(), Y.tobytes()
    metric = kind(small(), random_state=0)
    assert clone(metric).fit(mapped, Y).score_ == clone(metric).fit(IMAGES, Y).score_
    assert (IMAGES.tobytes(), Y.tobytes()) == before


# ----------------------------------------------------------------------------------- seeds, score()


@both_kinds
@pytest.mark.parametrize("random_state", [0, None, np.random.RandomState(5)])
def test_the_seed_is_kept_and_score_repeats_fit(kind, random_state):
    metric = kind(small(), batch_size=16, random_state=random_state).fit(IMAGES, Y)
    assert type(metric.score_) is float
    assert metric.score(IMAGES, Y) == metric.score_
    assert kind(small(), batch_size=16, random_state=metric.seed_).fit(IMAGES, Y).score_ == (
        metric.score_
    )
    restored = pickle.loads(pickle.dumps(metric))
    assert restored.score(IMAGES, Y) == metric.score_
    other = metric.score(IMAGES[:50], Y[:50])
    assert other == metric.set_params(random_state=metric.seed_).fit(IMAGES[:50], Y[:50]).score_


def test_seeds_make_different_batches_and_one_seed_the_same_for_every_network():
    scores = {fu(random_state=seed).fit(IMAGES, Y).score_ for seed in range(4)}
    assert len(scores) == 4
    # What comes before the batches are drawn is the same whatever a network does to the images.
    one, other = (
        NetworkInputs(small(input_size=size).fit(IMAGES), IMAGES, Y).classes for size in (None, 12)
    )
    assert [rows.tolist() for rows in one] == [rows.tolist() for rows in other]


@pytest.mark.parametrize("kind", [FU, LPFU])
def test_score_before_fit_and_of_another_shape(kind):
    with pytest.raises(NotFittedError):
        kind(small()).score(IMAGES, Y)
    metric = kind(small().fit(IMAGES), random_state=0).fit(IMAGES, Y)
    with pytest.raises(ValueError, match="is expecting images of shape"):
        metric.score(IMAGES[:, :7], Y)


# ------------------------------------------------------------------- what may be passed as backbone


@pytest.mark.parametrize("kind", [FU, LPFU])
def test_without_a_backbone_the_error_says_what_to_do(kind):
    with pytest.raises(ValueError, match="'backbone' parameter is None: pass a backbone"):
        kind().fit(IMAGES, Y)
    assert get_metric(kind.__name__.lower()).backbone is None
    for wrong in (PCA(2), FrozenEstimator(PCA(2)), make_pipeline(small(), PCA(2))):
        with pytest.raises(ValueError, match="needs the gradients of a torch network"):
            kind(wrong).fit(IMAGES, Y)
    with pytest.raises(ValueError, match="'backbone' parameter of"):
        kind(Small()).fit(IMAGES, Y)


def test_fitted_frozen_and_piped_backbones_are_the_same():
    expected = fu().fit(IMAGES, Y).score_
    fitted = small().fit(IMAGES)
    halve = FunctionTransformer(lambda X: X / 2)
    for same in (
        fitted,
        FrozenEstimator(fitted),
        make_pipeline(small()),
        make_pipeline(FunctionTransformer(lambda X: X / 2).fit(IMAGES), fitted),
    ):
        images = IMAGES * (2 if len(getattr(same, "steps", [])) == 2 else 1)
        assert fu(backbone=same).fit(images, Y).score_ == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="needs the gradients of a torch network"):
        fu(backbone=make_pipeline(halve, small())).fit(IMAGES, Y)


def test_layers_by_name():
    assert fu().fit(IMAGES, Y).layers_ == ("conv1", "conv2")
    auto = fu().fit(IMAGES, Y).score_
    assert fu(layers=["conv1.weight", "conv2"]).fit(IMAGES, Y).score_ == auto
    swapped = fu(layers=("conv2", "conv1")).fit(IMAGES, Y)
    assert swapped.score_ == pytest.approx(1 / auto)
    assert swapped.layers_ == ("conv2", "conv1")
    for wrong, words in [
        (("conv1", "conv3"), r"which are \['conv1', 'conv2', 'head'\]; got 'conv3'"),
        (("conv1", "norm"), "got 'norm'"),
        (("conv1", "head"), "do not depend on 'head'"),
        (("conv1", "conv1"), "two different layers"),
        (("conv1",), "two different layers"),
        ((1, 2), "names of two layers"),
        ("conv1", "'layers' parameter"),
    ]:
        with pytest.raises(ValueError, match=words):
            fu(layers=wrong).fit(IMAGES, Y)


@pytest.mark.parametrize("name", ["mnist", "fashion_half", "untrained"])
def test_networks_of_the_tiny_zoo(name):
    images = np.round(IMAGES * 255).astype(np.uint8)
    metric = FU(TinyZooBackbone(name), random_state=0).fit(images, Y)
    assert metric.layers_ == ("stem.0", "stages.0.conv1")
    assert metric.score_ > 0


# ----------------------------------------------------------------------------------- no score (NaN)


def nan_with_reason(metric, X, y, words):
    with pytest.warns(UninformativeScoreWarning, match=words) as caught:
        metric.fit(X, y)
    assert np.isnan(metric.score_)
    assert np.isnan(metric.chance_level_)
    assert metric.saturated_
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return metric


def test_permuted_labels_are_scored_if_wanted():
    plain = fu().fit(IMAGES, Y)
    assert np.isnan(plain.chance_level_)
    assert not plain.saturated_
    # Labels that the images have no part in are not told from permuted ones.
    noise = np.random.default_rng(0).permutation(Y)
    with pytest.warns(UninformativeScoreWarning, match="The FU score .* permuted labels") as caught:
        metric = fu(n_permutations=5).fit(IMAGES, noise)
    assert metric.saturated_
    assert caught[0].filename == __file__
    assert 0 < metric.chance_level_ < np.inf
    # Neither order nor names matter, and the permutations leave the score alone.
    order = np.random.default_rng(1).permutation(len(Y))
    with pytest.warns(UninformativeScoreWarning):
        again = fu(n_permutations=5).fit(
            IMAGES[order], np.array(["d", "a", "c", "b"])[noise[order]]
        )
    assert again.chance_level_ == metric.chance_level_
    assert metric.score_ == fu().fit(IMAGES, noise).score_
    assert metric.gradient_norms_.shape == (metric.n_batches_, 2)
    # The mean is that of the scores of such labels.
    ratios = [fu().fit(IMAGES, np.random.default_rng(k).permutation(Y)).score_ for k in range(5)]
    assert metric.chance_level_ == pytest.approx(np.mean(ratios), rel=0.2)


def test_without_triplets_there_is_no_score():
    metric = nan_with_reason(fu(), IMAGES[:9], np.arange(9), "there is no triplet")
    assert metric.n_batches_ == metric.n_triplets_ == 0
    assert metric.gradient_norms_.shape == (0, 2)
    nan_with_reason(fu(batches="published"), IMAGES[:9], np.arange(9), "there is no triplet")
    nan_with_reason(fu(), IMAGES[:2], [0, 1], "there is no triplet")
    assert np.isfinite(fu().fit(IMAGES[:3], [0, 0, 1]).score_)
    with pytest.raises(ValueError, match="1 class"):
        fu().fit(IMAGES[:9], np.zeros(9, dtype=int))


def test_without_gradients_there_is_no_score():
    X = (
        np.repeat([[1.0, 0.0], [-1.0, 0.0]], 5, axis=0)
        + np.random.default_rng(0).normal(size=(10, 2)) * 0.01
    )
    y = np.repeat([0, 1], 5)

    def plain():
        return nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))

    metric = FU(TorchBackbone(plain, classifier=None), random_state=0)
    nan_with_reason(metric, X, y, "no triplet violates the margin of 0.05")
    assert metric.n_triplets_ > metric.n_active_triplets_ == 0
    assert metric.set_params(margin=3.0).fit(X, y).score_ > 0
    nan_with_reason(fu(), np.full((9, 8, 8), 0.3), [0, 1, 2] * 3, "gradient of both layers is zero")


def test_what_is_not_finite_is_an_error():
    class Endless(Small):
        def features(self, x):
            return super().features(x) / 0

    with pytest.raises(ValueError, match="features of the network contain NaN or infinite values"):
        FU(small(Endless, classifier=None), random_state=0).fit(IMAGES, Y)

    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * torch.inf

    class Broken(Small):
        def forward(self, x):
            return Steep.apply(self.features(x))

    with pytest.raises(ValueError, match="gradients of the network contain NaN or infinite values"):
        FU(small(Broken, classifier=None), random_state=0).fit(IMAGES, Y)
    with pytest.raises(ValueError, match="contain NaN or infinite values"):
        FU(TorchBackbone(AnyWidth)).fit(np.eye(9) * 1e150, [0, 1, 2] * 3)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e20])
def test_extreme_inputs_give_a_score_or_a_reason(scale):
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        metric = FU(TorchBackbone(AnyWidth)).fit(rng.normal(size=(20, 4)) * scale, [0, 1] * 10)
    assert np.isnan(metric.score_) or 0 <= metric.score_ < np.inf


def test_wrong_targets():
    for y, words in [
        (None, "requires y to be passed"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.where(Y == 1, np.nan, Y), "NaN"),
        (Y + 0.5, "defined for classification"),
        (np.eye(4)[Y], "defined for classification"),
    ]:
        with pytest.raises(ValueError, match=words):
            fu().fit(IMAGES, y)


# ---------------------------------------------------------------------- what must be left as it was


def global_state():
    numpy_state = np.random.get_state()  # noqa: NPY002
    return (
        torch.get_rng_state().tolist(),
        numpy_state[1].tobytes(),
        random.getstate(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        list(warnings.filters),
        np.geterr(),
    )


def module_state(module):
    return (
        {name: value.clone() for name, value in module.state_dict().items()},
        [(p.requires_grad, p.grad, p._version) for p in module.parameters()],
        [(m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in module.modules()],
    )


def assert_same_state(before, after):
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert [state[0] for state in before[1]] == [state[0] for state in after[1]]
    assert [state[2] for state in before[1]] == [state[2] for state in after[1]]
    for (_, grad, _), (_, other, _) in zip(before[1], after[1], strict=True):
        assert grad is other
    assert before[2] == after[2]


class Noisy(Small):
    """A network that draws numbers even in evaluation mode."""

    fails = False

    def features(self, x):
        if self.fails and x.requires_grad is False and len(x) > 2:
            raise RuntimeError("no memory left")
        return functional.dropout(super().features(x), 0.2, training=True)

    def forward(self, x):
        return self.head(self.features(x))


@pytest.mark.parametrize("kind", [FU, LPFU])
@pytest.mark.parametrize("fails", [False, True])
def test_module_and_global_state_are_left_alone(kind, fails):
    module = Noisy().train()
    module.conv1.weight.requires_grad_(False)
    module.conv2.weight.grad = torch.ones_like(module.conv2.weight)
    with pytest.warns(RandomFeaturesWarning):
        backbone = small(module).fit(IMAGES)
    backbone.module_.fails = fails
    backbone.module_.conv1.weight.grad = torch.ones_like(backbone.module_.conv1.weight)
    before = global_state(), module_state(module), module_state(backbone.module_)
    metric = kind(backbone, random_state=0, batch_size=16)
    if fails:
        with pytest.raises(RuntimeError, match="no memory left"):
            metric.fit(IMAGES, Y)
    else:
        metric.fit(IMAGES, Y)
        assert metric.score(IMAGES, Y) == metric.score_  # the seed is torch's too
    after = global_state(), module_state(module), module_state(backbone.module_)
    assert before[0] == after[0]
    assert_same_state(before[1], after[1])
    assert_same_state(before[2], after[2])


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        partial(torch.autocast, "cpu", dtype=torch.bfloat16),
        partial(torch.set_grad_enabled, False),
    ],
)
def test_modes_of_the_caller_change_nothing(mode):
    backbone = small().fit(IMAGES)
    expected = fu(backbone=backbone).fit(IMAGES, Y).score_
    with mode():
        assert fu(backbone=backbone).fit(IMAGES, Y).score_ == expected


def test_the_global_generators_change_nothing():
    expected = fu().fit(IMAGES, Y).score_
    state = torch.get_rng_state()
    try:
        torch.manual_seed(5)
        np.random.seed(5)  # noqa: NPY002
        assert fu().fit(IMAGES, Y).score_ == expected
    finally:
        torch.set_rng_state(state)


def test_without_torch_the_import_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("sktransfer.finetune")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"sktransfer.finetune needs torch, .*\[torch\]"):
        get_metric("fu")
