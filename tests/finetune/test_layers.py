"""The two layers are found by what a forward pass computes, whatever the network is made of."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune._layers import find_early_layers, layer_weights
from sktransfer.finetune._network import undisturbed


def found(network, size=8, channels=3, **parameters):
    rng = np.random.default_rng(0)
    X = rng.random((2, channels, size, size), dtype=np.float32)
    backbone = TorchBackbone(network, mean=0.5, std=0.5, **parameters).fit(X)
    x = backbone._to_network(torch.from_numpy(X))
    with undisturbed(backbone.device_, 0):
        layers = find_early_layers(backbone.module_, lambda x: backbone._forward(x)[0], x)
    assert not any(parameter.requires_grad for parameter in backbone.module_.parameters())
    return layers


# The pairs that the original names by hand, and further families.
PUBLISHED = {
    "resnet18": ("conv1", "layer1.0.conv1"),
    "densenet121": ("features.conv0", "features.denseblock1.denselayer1.conv1"),
    "efficientnet_b0": ("features.0.0", "features.1.0.block.0.0"),
    "mnasnet0_5": ("layers.0", "layers.3"),
    "mobilenet_v3_small": ("features.0.0", "features.1.block.0.0"),
    "shufflenet_v2_x0_5": ("conv1.0", "stage2.0.branch1.0"),
    "squeezenet1_1": ("features.0", "features.3.squeeze"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_layers_of_well_known_networks(name):
    models = pytest.importorskip("torchvision.models")
    assert found(getattr(models, name), size=48) == PUBLISHED[name]


def test_layers_of_googlenet_convnext_and_transformers():
    models = pytest.importorskip("torchvision.models")
    googlenet = partial(models.googlenet, init_weights=False, aux_logits=False)
    assert found(googlenet, size=32) == ("conv1.conv", "conv2.conv")
    from torchvision.models.convnext import CNBlockConfig

    convnext = partial(models.ConvNeXt, [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)])
    assert found(convnext, size=32) == ("features.0.0", "features.1.0.block.0")
    vit = partial(
        models.VisionTransformer,
        image_size=16,
        patch_size=8,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        mlp_dim=16,
    )
    expected = ("conv_proj", "encoder.layers.encoder_layer_0.self_attention")
    assert found(vit, size=16, classifier="heads.head") == expected
    swin = partial(
        models.SwinTransformer,
        patch_size=[4, 4],
        embed_dim=8,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=[2, 2],
    )
    # Its projection is used by its weights, and never called as a module.
    assert found(swin, size=16) == ("features.0.0", "features.1.0.attn.qkv")
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2

    second = partial(swin, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)
    # Its small network of positions is run before, but no image passes through it.
    assert found(second, size=16) == ("features.0.0", "features.1.0.attn.qkv")


def flat(*layers):
    return partial(nn.Sequential, *layers)


def test_plain_stacks():
    assert found(flat(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.Flatten())) == (
        "0",
        "2",
    )
    normalised = flat(
        nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 4)
    )
    assert found(normalised, classifier=None) == ("2", "4")
    perceptron = flat(nn.Flatten(), nn.Linear(192, 5), nn.Tanh(), nn.Linear(5, 4), nn.Linear(4, 3))
    assert found(perceptron) == ("1", "3")
    transposed = flat(nn.ConvTranspose2d(3, 2, 3), nn.Conv2d(2, 2, 3), nn.Flatten())
    assert found(transposed) == ("0", "1")


class Odd(nn.Module):
    """Learned layers of every unusual kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.position = nn.Parameter(torch.randn(1, 3, 8, 8))
        self.gate = nn.Linear(4, 1)
        self.beside = nn.Conv2d(3, 2, 3)
        self.stem = nn.Conv2d(3, 2, 3)
        self.matrix = nn.Parameter(torch.randn(2, 5))
        self.more = nn.Parameter(torch.randn(2, 5))
        self.unused = nn.Linear(5, 5)
        if kind == "weight norm":
            nn.utils.parametrizations.weight_norm(self.stem)
        if kind == "attention":
            self.attention = nn.MultiheadAttention(2, 1, kdim=2, vdim=3, batch_first=True)
            self.values = nn.Parameter(torch.randn(1, 36, 3))

    def forward(self, x):
        x = x + self.position * torch.tanh(self.gate(torch.ones(1, 4)))
        beside = self.beside(x)
        if self.kind == "standardised":
            weight = self.stem.weight
            weight = (weight - weight.mean()) / weight.std()
            y = functional.conv2d(x, weight, self.stem.bias)
        elif self.kind == "twice":
            y = functional.conv2d(self.stem(x), self.stem.weight[:, :2])
        else:
            y = self.stem(x)
        y = y.flatten(2).transpose(1, 2)
        if self.kind == "attention":
            y = self.attention(y, y, self.values.expand(len(y), -1, -1))[0]
        elif self.kind == "einsum":
            y = torch.einsum("bpc,cd->bpd", y, self.matrix)
        else:
            y = y @ self.matrix.clone()
        if self.kind == "no gradient":
            self.unused(y).sum()
        return y.mean(dim=1) + 0 * beside.mean(dim=(1, 2, 3))[:, None].detach()


@pytest.mark.parametrize(
    ("kind", "second"),
    [
        ("weight norm", "matrix"),
        ("standardised", "matrix"),
        ("einsum", "matrix"),
        ("twice", "matrix"),
        ("no gradient", "matrix"),
        ("attention", "attention"),
    ],
)
def test_unusual_layers(kind, second):
    """Positions, gates of constants, branches without gradient and repetitions are passed over."""
    assert found(partial(Odd, kind), classifier=None) == ("stem", second)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (flat(nn.Conv2d(3, 2, 3), nn.Flatten()), "only one learned layer .* '0'"),
        (flat(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 2)), "only one .* '1'"),
        (flat(nn.BatchNorm2d(3), nn.Flatten()), "No learned convolution"),
        (flat(nn.AvgPool2d(2), nn.Flatten()), "No learned convolution"),
    ],
)
def test_networks_without_two_layers(network, words):
    with pytest.raises(ValueError, match=words):
        found(network)


def test_weights_of_a_layer():
    module = nn.Sequential(
        nn.Conv2d(3, 2, 3),
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)),
        nn.MultiheadAttention(4, 2, kdim=3),
        nn.LayerNorm(4),
    )
    assert layer_weights(module, "0")[0] is module[0].weight
    assert layer_weights(module, "0.bias")[0] is module[0].bias
    assert [tuple(w.shape) for w in layer_weights(module, "1")] == [(3, 1), (3, 2)]
    assert [tuple(w.shape) for w in layer_weights(module, "2")] == [(4, 4), (4, 3), (4, 4)]
    words = r"which are \['0', '1', '2', '2.out_proj'\]; got "
    for wrong in ("3", "", "nothing", "0.weights"):
        with pytest.raises(ValueError, match=words):
            layer_weights(module, wrong)
