"""How the output of a layer becomes a vector: the right axes, the right tokens, or an error."""

import numpy as np
import pytest
import torch
from torch import nn

from sktransfer.backbones import TorchBackbone

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(9, 3, 12, 16), dtype=np.uint8)
INPUT = torch.from_numpy(IMAGES) / 255
VECTORS = rng.normal(size=(9, 12)).astype(np.float32)
UNIT = {"mean": 0.0, "std": 1.0}


def features_of(network, layer, pooling="auto", X=IMAGES, **parameters):
    backbone = TorchBackbone(network, **UNIT, layer=layer, pooling=pooling, **parameters)
    return backbone.fit(X).transform(X)


def output_of(network, layer, x=INPUT):
    """What a layer gives, without the backbone."""
    found = []
    handle = network.get_submodule(layer).register_forward_hook(
        lambda module, given, output: found.append(output.clone())
    )
    with torch.no_grad():
        network.eval()(x)
    handle.remove()
    return found[-1]


def assert_features(found, expected):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


# -- tokens ----------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.hidden = nn.Linear(width, 3 * width)
        self.out = nn.Linear(3 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.out(torch.relu(self.hidden(x)))


class ToyTransformer(nn.Module):
    """A class token and registers before the patches, or after them, or none at all."""

    def __init__(
        self, n_class=1, n_registers=2, at_end=False, positions=True, embedding="conv", width=8
    ):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.at_end = embedding, at_end
        if embedding == "conv":
            self.patches = nn.Conv2d(3, width, 4, stride=4)
        elif embedding == "linear":
            self.patches = nn.Linear(48, width)
        self.extra = nn.Parameter(torch.randn(1, n_class + n_registers, width))
        n_tokens = 12 + n_class + n_registers
        self.positions = nn.Parameter(torch.randn(1, n_tokens, width)) if positions else None
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    def embed(self, x):
        if self.embedding == "conv":
            return self.patches(x).flatten(2).transpose(1, 2)
        x = nn.functional.unfold(x, 4, stride=4).transpose(1, 2)
        return self.patches(x) if self.embedding == "linear" else x[:, :, :8]

    def forward(self, x):
        x = self.embed(x)
        parts = [x, self.extra.expand(len(x), -1, -1)]
        x = torch.cat(parts if self.at_end else parts[::-1], dim=1)
        if self.positions is not None:
            x = x + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 12 if self.at_end else 0])


@pytest.mark.parametrize("layer", ["blocks.0", "blocks.2", "norm"])
@pytest.mark.parametrize("embedding", ["conv", "linear", "none"])
@pytest.mark.parametrize("positions", [True, False])
def test_class_token_and_mean_of_patches_match_values_by_hand(layer, embedding, positions):
    network = ToyTransformer(embedding=embedding, positions=positions)
    tokens = output_of(network, layer)
    assert tokens.shape == (9, 3 + 12, 8)
    assert_features(features_of(network, layer, "cls"), tokens[:, 0])
    assert_features(features_of(network, layer, "auto"), tokens[:, 0])
    assert_features(features_of(network, layer, "mean"), tokens[:, 3:].mean(1))
    assert_features(features_of(network, layer, "flatten"), tokens.flatten(1))


@pytest.mark.parametrize("n_class, n_registers", [(1, 0), (1, 4), (2, 0)])
def test_any_number_of_tokens_before_the_patches(n_class, n_registers):
    network = ToyTransformer(n_class, n_registers)
    tokens = output_of(network, "blocks.3")
    n = n_class + n_registers
    assert_features(features_of(network, "blocks.3", "mean"), tokens[:, n:].mean(1))
    assert_features(features_of(network, "blocks.3", "cls"), tokens[:, 0])


def test_tokens_after_the_patches():
    network = ToyTransformer(at_end=True)
    tokens = output_of(network, "blocks.3")
    assert_features(features_of(network, "blocks.3", "mean"), tokens[:, :12].mean(1))
    assert_features(features_of(network, "blocks.3", "cls"), tokens[:, 12])


def test_without_class_token_all_tokens_are_patches():
    network = ToyTransformer(0, 0)
    tokens = output_of(network, "blocks.1")
    for pooling in ("auto", "mean"):
        assert_features(features_of(network, "blocks.1", pooling), tokens.mean(1))
    with pytest.raises(ValueError, match=r"needs a class token, and the output .*'blocks.1'"):
        features_of(network, "blocks.1", "cls")


def test_a_row_of_as_many_tokens_as_features_is_still_a_row_of_tokens():
    network = ToyTransformer(1, 3, width=16)
    tokens = output_of(network, "blocks.1")
    assert tokens.shape[1:] == (16, 16)
    assert_features(features_of(network, "blocks.1", "mean"), tokens[:, 4:].mean(1))


def test_equal_rows_of_data_do_not_make_all_tokens_equal():
    network = ToyTransformer()
    X = np.repeat(IMAGES[:1], 4, axis=0)
    tokens = output_of(network, "blocks.1", torch.from_numpy(X) / 255)
    for rows in (X, X[:1]):
        found = features_of(network, "blocks.1", "mean", rows)
        assert_features(found, tokens[: len(rows), 3:].mean(1))


class Conditional(ToyTransformer):
    """Its extra tokens depend on the image: only their number tells them."""

    def forward(self, x):
        patches = self.embed(x)
        extra = self.extra + patches.mean(1, keepdim=True)
        x = torch.cat([extra, patches], dim=1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def test_extra_tokens_that_depend_on_the_image():
    network = Conditional()
    tokens = output_of(network, "blocks.1")
    assert_features(features_of(network, "blocks.1", "mean"), tokens[:, 3:].mean(1))


class Merging(ToyTransformer):
    """Half of the patches go away in the middle; the extra tokens stay."""

    def forward(self, x):
        x = torch.cat([self.extra.expand(len(x), -1, -1), self.embed(x)], dim=1)
        for i, block in enumerate(self.blocks):
            if i == 2:
                x = torch.cat([x[:, :3], x[:, 3::2] + x[:, 4::2]], dim=1)
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def test_extra_tokens_of_a_network_that_merges_patches():
    network = Merging()
    for layer, n in (("blocks.1", 12), ("blocks.2", 6)):
        tokens = output_of(network, layer)
        assert tokens.shape[1] == 3 + n
        assert_features(features_of(network, layer, "mean"), tokens[:, 3:].mean(1))


class Registers(ToyTransformer):
    """Says, as timm's networks do, that its extra tokens are registers only."""

    def __init__(self, averages=False):
        super().__init__(1, 2)
        self.num_prefix_tokens = 3
        self.cls_token = self.extra if averages else None
        self.global_pool = "avg" if averages else "token"


def test_what_a_network_says_of_its_tokens():
    network = Registers()
    tokens = output_of(network, "blocks.1")
    assert_features(features_of(network, "blocks.1"), tokens[:, 3:].mean(1))
    with pytest.raises(ValueError, match="has none"):
        features_of(network, "blocks.1", "cls")
    averaging = Registers(averages=True)
    assert_features(features_of(averaging, "blocks.1"), tokens[:, 3:].mean(1))
    assert_features(features_of(averaging, "blocks.1", "cls"), tokens[:, 0])


def test_pooling_that_cannot_reach_penultimate_features_is_refused():
    with pytest.raises(ValueError, match="here from a class token: pooling='mean' cannot"):
        features_of(ToyTransformer(), "penultimate", "mean")
    for pooling in ("auto", "cls", "flatten"):
        penultimate = features_of(ToyTransformer(), "penultimate", pooling)
        assert_features(penultimate, output_of(ToyTransformer(), "norm")[:, 0])
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert features_of(network, "penultimate", "mean").shape == (9, 4)
    with pytest.raises(ValueError, match="needs a class token, and the network has none"):
        features_of(network, "penultimate", "cls")


class VectorTokens(nn.Module):
    """Tokens made of vectors, which cannot be enlarged."""

    def __init__(self):
        super().__init__()
        self.embedding, self.block, self.head = nn.Linear(4, 8), Block(8), nn.Linear(8, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x):
        x = self.embedding(x.reshape(len(x), 3, 4))
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return self.head(self.block(x)[:, 0])


def test_tokens_made_of_vectors():
    network = VectorTokens()
    tokens = output_of(network, "block", torch.from_numpy(VECTORS))
    for pooling, expected in {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}.items():
        assert_features(features_of(network, "block", pooling, VECTORS), expected)


def test_transformers_of_torchvision():
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    network = models.VisionTransformer(
        image_size=12, patch_size=4, num_layers=2, num_heads=2, hidden_dim=10, mlp_dim=12
    )
    X = IMAGES[:, :, :, :12]
    layer = "encoder.layers.encoder_layer_1"
    tokens = output_of(network, layer, torch.from_numpy(X) / 255)
    assert_features(features_of(network, layer, "mean", X), tokens[:, 1:].mean(1))
    assert_features(features_of(network, layer, "auto", X), tokens[:, 0])


def test_sequences_with_rows_on_the_second_axis_are_refused():
    class SecondAxis(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 6)

        def forward(self, x):
            return self.body(x.reshape(len(x), 3, 4).transpose(0, 1)).mean(0)

    with pytest.raises(ValueError, match=r"shape \(3, 2, 6\) for 2 rows: its first axis must be"):
        features_of(SecondAxis(), "body", X=VECTORS)


# -- maps ------------------------------------------------------------------------------------------


class LastBlock(nn.Module):
    """A block with channels on the last axis, as in Swin transformers."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.out(self.norm(x)))


class FirstBlock(nn.Module):
    """A block with channels on the second axis that has them on the last one inside (ConvNeXt)."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.out(self.norm(self.conv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class Maps(nn.Module):
    """Maps of both kinds; a size that is fixed cannot be told by a larger image."""

    def __init__(self, width=6, fixed=None):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.first, self.last = FirstBlock(width), LastBlock(width)
        self.head, self.fixed = nn.Linear(width, 3), fixed

    def forward(self, x):
        if self.fixed is not None and tuple(x.shape[2:]) != self.fixed:
            raise AssertionError(f"images must be of size {self.fixed}")
        x = self.first(self.stem(x))
        x = self.last(x.permute(0, 2, 3, 1))
        return self.head(x.mean((1, 2)))


@pytest.mark.parametrize("fixed", [None, (12, 16)])
@pytest.mark.parametrize("width", [3, 4, 6])  # as many channels as rows or columns of the map, too
def test_maps_are_averaged_over_their_positions(width, fixed):
    network = Maps(width, fixed)
    first, last = output_of(network, "first"), output_of(network, "last")
    assert first.shape == (9, width, 3, 4) and last.shape == (9, 3, 4, width)
    for pooling in ("auto", "mean"):
        assert_features(features_of(network, "first", pooling), first.mean((2, 3)))
        assert_features(features_of(network, "last", pooling), last.mean((1, 2)))
    assert_features(features_of(network, "first", "flatten"), first.flatten(1))
    with pytest.raises(ValueError, match="it is no sequence of tokens"):
        features_of(network, "first", "cls")


def test_axes_of_one_length_are_told_by_a_larger_image_or_asked_for():
    X = IMAGES[:, :, :, :12]
    x = torch.from_numpy(X) / 255
    network = Maps(3)
    assert output_of(network, "last", x).shape == (9, 3, 3, 3)
    for layer, axes in (("first", (2, 3)), ("last", (1, 2)), ("last.out", (1, 2))):
        found = features_of(network, layer, X=X)
        assert_features(found, output_of(network, layer, x).mean(axes))
    fixed = Maps(3, (12, 12))
    with pytest.raises(ValueError, match=r"'first' has shape \(2, 3, 3, 3\), and nothing tells"):
        features_of(fixed, "first", X=X)
    found = features_of(fixed, "first", "flatten", X=X)
    assert_features(found, output_of(fixed, "first", x).flatten(1))
    # A convolution says by itself what it acts on.
    assert_features(features_of(fixed, "stem", X=X), output_of(fixed, "stem", x).mean((2, 3)))


class TurningNorm(nn.LayerNorm):
    """Derived from a layer for the last axis, but for maps with channels on the second."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("head", [nn.Linear(6, 2), nn.Linear(6 * 12, 2)])
def test_a_layer_is_not_judged_by_what_it_is_derived_from(head):
    pool = nn.AdaptiveAvgPool2d(1) if head.in_features == 6 else nn.Identity()
    network = nn.Sequential(nn.Conv2d(3, 6, 4, 4), TurningNorm(6), pool, nn.Flatten(), head)
    assert_features(features_of(network, "1"), output_of(network, "1").mean((2, 3)))


def test_maps_of_a_size_that_does_not_depend_on_the_image():
    network = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 5)))
    network = nn.Sequential(network, nn.Flatten(), nn.Linear(50, 4))
    assert_features(features_of(network, "0"), output_of(network, "0").mean((2, 3)))


def test_maps_with_one_position():
    network = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Identity(), nn.Flatten()
    )
    network.append(nn.Linear(5, 4))
    assert_features(features_of(network, "2"), output_of(network, "2").flatten(1))


def test_maps_along_one_axis():
    network = nn.Sequential(nn.Unflatten(1, (1, 12)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten())
    network.append(nn.Linear(40, 2))
    expected = output_of(network, "2", torch.from_numpy(VECTORS)).mean(2)
    assert_features(features_of(network, "2", X=VECTORS), expected)


def test_positions_that_nothing_tells_are_asked_for():
    class Reshaping(nn.Module):
        def forward(self, x):
            return x.reshape(len(x), 3, 4)

    network = nn.Sequential(Reshaping(), nn.Flatten(), nn.Linear(12, 2))
    with pytest.raises(ValueError, match=r"'0' has shape \(2, 3, 4\), and nothing tells which"):
        features_of(network, "0", X=VECTORS)
    np.testing.assert_array_equal(features_of(network, "0", "flatten", VECTORS), VECTORS)


def test_numbers_and_vectors_are_taken_as_they_are():
    class Sum(nn.Module):
        def forward(self, x):
            return x.sum(1)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.sum, self.hidden, self.head = Sum(), nn.Linear(12, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(self.hidden(x) + self.sum(x)[:, None])

    network = Both()
    features = features_of(network, ["sum", "hidden"], "mean", VECTORS)
    np.testing.assert_allclose(features[:, 0], VECTORS.sum(1), rtol=1e-5)
    assert_features(features[:, 1:], output_of(network, "hidden", torch.from_numpy(VECTORS)))


# -- what is no feature ----------------------------------------------------------------------------


class Returning(nn.Module):
    def __init__(self, returned):
        super().__init__()
        self.returned = returned

    def forward(self, x):
        return self.returned(x)


class Around(nn.Module):
    def __init__(self, returned):
        super().__init__()
        self.odd, self.head = Returning(returned), nn.Linear(12, 2)

    def forward(self, x):
        self.odd(x)
        return self.head(x)


@pytest.mark.parametrize(
    "returned, message",
    [
        (lambda x: (x, x), "The layer 'odd' returns a tuple where a tensor is expected"),
        (lambda x: {"x": x}, "The layer 'odd' returns a dict where a tensor is expected"),
        (lambda x: None, "The layer 'odd' returns a NoneType where a tensor is expected"),
        (lambda x: x.to(torch.complex64), "'odd' returns complex numbers"),
        (lambda x: x[:1], r"shape \(1, 12\) for 2 rows: its first axis must be the rows"),
        (lambda x: x.sum(), r"shape \(\) for 2 rows: its first axis must be the rows"),
    ],
)
def test_outputs_that_are_no_features_are_refused_by_name(returned, message):
    with pytest.raises(ValueError, match=message):
        features_of(Around(returned), "odd", X=VECTORS)


def test_outputs_that_change_their_shape_are_refused_when_they_do():
    def returned(x):
        return x if len(x) == 2 else x[:, :, None]

    backbone = TorchBackbone(Around(returned), layer="odd").fit(VECTORS)
    with pytest.raises(ValueError, match=r"'odd' has shape \(9, 12, 1\), where 2 axes"):
        backbone.transform(VECTORS)

    def wider(x):
        return x if len(x) == 2 else torch.cat([x, x], dim=1)

    backbone = TorchBackbone(Around(wider), layer="odd").fit(VECTORS)
    with pytest.raises(ValueError, match="gave 24 features and 12 in fit"):
        backbone.transform(VECTORS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_pooling_in_other_precision_gives_float32(dtype):
    network = Maps()
    expected = output_of(network, "first").mean((2, 3))
    found = features_of(Maps().to(dtype), "first")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_means_in_half_precision_are_taken_in_single():
    class Large(nn.Module):
        def forward(self, x):
            return torch.full((len(x), 2, 8, 8), 40_000.0, dtype=x.dtype) + 0 * x[:, :1, :8, :8]

    network = nn.Sequential(nn.Conv2d(3, 3, 1), Large(), nn.MaxPool2d(8), nn.Flatten())
    found = features_of(network.half(), "1")
    np.testing.assert_allclose(found, 40_000, rtol=1e-3)
