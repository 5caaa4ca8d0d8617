"""Features of several layers from one pass, layers found by structure, and layers as candidates."""

import copy
import pickle
import subprocess
import sys
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from sktransfer.backbones import TinyZooBackbone, TorchBackbone, layer_candidates
from sktransfer.exceptions import RandomFeaturesWarning

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(11, 3, 16, 16), dtype=np.uint8)
INPUT = torch.from_numpy(IMAGES) / 255
VECTORS = rng.normal(size=(11, 6)).astype(np.float32)
UNIT = {"mean": 0.0, "std": 1.0}


def fitted(network, layer, X=IMAGES, **parameters):
    return TorchBackbone(network, **UNIT, layer=layer, **parameters).fit(X)


def output_of(network, layer, x=INPUT):
    found = []
    handle = network.get_submodule(layer).register_forward_hook(
        lambda module, given, output: found.append(output.clone())
    )
    with torch.no_grad():
        network.eval()(x)
    handle.remove()
    return found[-1]


def convolution(width_in, width_out, stride=1):
    return nn.Sequential(
        nn.Conv2d(width_in, width_out, 3, stride, padding=1),
        nn.BatchNorm2d(width_out),
        nn.ReLU(inplace=True),
    )


class ConvNet(nn.Module):
    """Three resolutions in a nested body, and a hidden layer before the classifier."""

    seen = None

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            convolution(3, 4),
            nn.MaxPool2d(2),
            nn.Sequential(convolution(4, 6), convolution(6, 6)),
            convolution(6, 8, stride=2),
            convolution(8, 8),
        )
        self.hidden, self.drop, self.head = nn.Linear(8, 10), nn.Dropout(), nn.Linear(10, 5)

    def forward(self, x):
        if self.seen is not None:
            self.seen.append(len(x))
        return self.head(self.drop(torch.tanh(self.hidden(self.body(x).mean((2, 3))))))


# -- several layers from one pass ------------------------------------------------------------------


def test_several_layers_come_from_one_pass_side_by_side():
    network = ConvNet()
    names = ["body.3", "penultimate", "body.0", "head"]
    backbone = fitted(ConvNet, names, batch_size=4)
    backbone.module_.seen = []
    features, probabilities = backbone.extract(IMAGES)
    assert backbone.module_.seen == [4, 4, 3]
    assert backbone.layer_names_ == tuple(names)
    assert backbone.layer_slices_ == {
        "body.3": slice(0, 8),
        "penultimate": slice(8, 18),
        "body.0": slice(18, 22),
        "head": slice(22, 27),
    }
    expected = {
        "body.3": output_of(network, "body.3").mean((2, 3)),
        "body.0": output_of(network, "body.0").mean((2, 3)),
        "penultimate": torch.tanh(output_of(network, "hidden")),
        "head": output_of(network, "head"),
    }
    for name, columns in backbone.layer_slices_.items():
        np.testing.assert_allclose(features[:, columns], expected[name], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(probabilities, expected["head"].softmax(1), atol=1e-6)
    assert features.shape == (11, backbone.n_features_out_) == (11, 27)
    np.testing.assert_array_equal(backbone.transform(IMAGES), features)
    assert len(backbone.get_feature_names_out()) == 27
    by_layer = backbone.extract_layers(IMAGES)
    assert list(by_layer) == names
    for name, columns in backbone.layer_slices_.items():
        np.testing.assert_array_equal(by_layer[name], features[:, columns])
        assert by_layer[name].flags.c_contiguous and by_layer[name].dtype == np.float32
    np.testing.assert_allclose(backbone.probe_features_, features[:2], rtol=1e-5, atol=1e-6)


def test_a_layer_alone_gives_the_same_as_in_a_list():
    together = fitted(ConvNet, ["body.0", "body.3"]).transform(IMAGES)
    np.testing.assert_allclose(fitted(ConvNet, "body.0").transform(IMAGES), together[:, :4], 1e-6)
    np.testing.assert_allclose(fitted(ConvNet, "body.3").transform(IMAGES), together[:, 4:], 1e-6)
    single = fitted(ConvNet, "body.3")
    assert single.classifier_layer_ == "head"
    assert single.predict_proba(IMAGES).shape == (11, 5)


@pytest.mark.parametrize("layer", ["penultimate", ("body.0", "hidden"), "all stages"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_batch_size_does_not_matter(layer, dtype):
    network = ConvNet().to(dtype)
    results = [
        fitted(network, layer, batch_size=batch_size, n_workers=n_workers).extract(IMAGES)
        for batch_size, n_workers in ((1, 0), (7, 2), (64, 0))
    ]
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            assert found.dtype == np.float32
            assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_images_of_several_sizes_give_the_same_for_every_batch_size():
    from PIL import Image

    images = [
        Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8))
        for h, w in [(16, 16), (20, 31), (9, 40), (33, 8), (16, 17), (64, 64), (5, 5), (7, 50)]
    ]
    results = [
        TorchBackbone(
            ConvNet, **UNIT, input_size=16, layer=["body.3", "penultimate"], batch_size=batch_size
        )
        .fit(images)
        .transform(images)
        for batch_size in (1, 7, 64)
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-5)


def test_gradients_flow_through_features_of_a_layer():
    backbone = fitted(ConvNet, ["body.0", "hidden"])
    x = INPUT.clone().requires_grad_()
    backbone._forward(x)[0].sum().backward()
    assert float(x.grad.abs().max()) > 0


# -- names -----------------------------------------------------------------------------------------


def test_unknown_names_are_refused_with_the_close_ones():
    with pytest.raises(
        ValueError, match=r"'hiddne' that the network does not have; close names are"
    ):
        fitted(ConvNet, "hiddne")
    message = r"'fc7'.*outermost layers are \['body', 'hidden', 'drop', 'head'\]; 'penultimate' is"
    with pytest.raises(ValueError, match=message):
        fitted(ConvNet, ["body.0", "fc7"])
    with pytest.raises(ValueError, match="that the network does not have"):
        fitted(ConvNet, "")
    many = nn.Sequential(*(nn.Linear(6, 6) for _ in range(50)))
    with pytest.raises(ValueError, match=r"'28', '29'\] and 20 more"):
        fitted(many, "body", VECTORS)


@pytest.mark.parametrize(
    "layer, message",
    [
        ([], "list of at least one name, got"),
        ([3], "list of at least one name, got"),
        (["head", "head"], "names a layer twice"),
        (["head", "all stages"], "'all stages' finds layers by itself"),
    ],
)
def test_lists_that_make_no_sense_are_refused(layer, message):
    with pytest.raises(ValueError, match=message):
        fitted(ConvNet, layer)


def test_values_of_another_type_are_refused_as_scikit_learn_does():
    for parameters in ({"layer": 3}, {"pooling": "max"}, {"n_workers": -1}):
        with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter of Torch"):
            TorchBackbone(ConvNet, **UNIT, **parameters).fit(IMAGES)


class Recurrent(nn.Module):
    """One layer is called several times; one holds layers and is never called."""

    def __init__(self, n_times=3):
        super().__init__()
        torch.manual_seed(0)
        self.held = nn.ModuleList([nn.Linear(6, 6)])
        self.again, self.head, self.n_times = nn.Linear(6, 6), nn.Linear(6, 2), n_times

    def forward(self, x):
        x = self.held[0](x)
        for _ in range(self.n_times):
            x = torch.tanh(self.again(x))
        return self.head(x)


def test_a_layer_that_is_called_several_times_needs_a_number():
    with pytest.raises(ValueError, match="'again' is called 3 times in one pass.*'again:2'"):
        fitted(Recurrent, "again", VECTORS)
    network = Recurrent()
    with torch.no_grad():
        x = network.held[0](torch.from_numpy(VECTORS))
        calls = []
        for _ in range(3):
            calls.append(network.again(x))
            x = torch.tanh(calls[-1])
    backbone = fitted(network, ["again:2", "again:0", "held.0"], VECTORS)
    features = backbone.transform(VECTORS)
    np.testing.assert_allclose(features[:, :6], calls[2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(features[:, 6:12], calls[0], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="called 3 times in one pass; there is no call 3"):
        fitted(network, "again:3", VECTORS)
    with pytest.raises(ValueError, match="that the network does not have"):
        fitted(network, "again:last", VECTORS)


def test_a_layer_that_is_not_called_is_refused():
    with pytest.raises(ValueError, match="'held' is not called by the network for this input"):
        fitted(Recurrent, "held", VECTORS)
    with pytest.raises(ValueError, match="'again' is not called by the network for this input"):
        fitted(partial(Recurrent, 0), "again", VECTORS)


class Branching(nn.Module):
    """Which layer is called depends on the data."""

    def __init__(self):
        super().__init__()
        self.low, self.high, self.head = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.high(x) if float(x.min()) > 50 else self.low(x))


def test_layers_in_branches_are_refused_where_they_are_not_called():
    low, high = VECTORS, VECTORS + 100
    backbone = fitted(Branching, "high", high)
    assert backbone.transform(high).shape == (11, 3)
    with pytest.raises(ValueError, match="'high' is not called by the network for this input"):
        fitted(Branching, "high", low)
    with pytest.raises(ValueError, match="'high' is not called by the network for this input"):
        backbone.transform(low)
    # The classifier is called in both.
    both = fitted(Branching, "penultimate", low)
    network = Branching()
    network.load_state_dict(both.module_.state_dict())
    with torch.no_grad():
        np.testing.assert_allclose(both.transform(high), network.high(torch.from_numpy(high)), 1e-4)


def test_layers_that_see_some_of_the_rows_are_refused():
    class Routing(nn.Module):
        def __init__(self):
            super().__init__()
            self.expert, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x):
            chosen = x[:, 0] > 0
            x = x.clone()
            x[chosen] = self.expert(x[chosen])
            return self.head(x)

    X = VECTORS.copy()
    X[:2, 0], X[2:, 0] = 1.0, -1.0
    with pytest.raises(ValueError, match="'expert' has shape .* its first axis must be the rows"):
        fitted(Routing, "expert", X).transform(X)


def test_what_a_network_does_in_place_afterwards_does_not_reach_the_features():
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(784, 2),
    )
    torch.manual_seed(0)
    plain = copy.deepcopy(network)
    plain[2].inplace = False
    for pooling in ("mean", "flatten"):
        found = fitted(network, ["0", "1"], pooling=pooling).transform(IMAGES)
        expected = fitted(plain, ["0", "1"], pooling=pooling).transform(IMAGES)
        np.testing.assert_array_equal(found, expected)
        assert found.min() < 0
    hidden = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))
    assert fitted(hidden, "0", VECTORS).transform(VECTORS).min() < 0


def test_one_layer_under_two_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(6, 6)
            self.other, self.head = self.one, nn.Linear(6, 2)

        def forward(self, x):
            return self.head(self.one(x))

    backbone = fitted(Tied(), ["one", "other"], VECTORS)
    features = backbone.transform(VECTORS)
    np.testing.assert_array_equal(features[:, :6], features[:, 6:])


@pytest.mark.filterwarnings(
    "ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning"
)
def test_layers_inside_torchscript_cannot_be_named():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(6, 4), nn.ReLU()))
    network = nn.Sequential(nn.Linear(6, 6), scripted)
    outer = fitted(network, "0", VECTORS, classifier=None)
    assert outer.transform(VECTORS).shape == (11, 6)
    for layer in ("1", "1.0"):
        with pytest.raises(ValueError, match=f"'{layer}' is a TorchScript module, whose output"):
            fitted(network, layer, VECTORS, classifier=None)


def test_networks_that_refuse_noise_or_larger_images():
    class Picky(ConvNet):
        def forward(self, x):
            if float(x.min()) < 0 or x.shape[2:] != (16, 16):
                raise RuntimeError("numbers between 0 and 1, images of 16 x 16")
            return super().forward(x)

    found = fitted(Picky, "body.3").transform(IMAGES)
    np.testing.assert_allclose(found, fitted(ConvNet, "body.3").transform(IMAGES), rtol=1e-6)


# -- the check of the head -------------------------------------------------------------------------


class Twice(nn.Module):
    """The classifier is applied to the image and its mirror image."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return (self.head(self.body(x)) + self.head(self.body(x.flip(1)))) / 2


class Adding(nn.Linear):
    """Another result with every call."""

    def forward(self, x):
        self.n = getattr(self, "n", 0) + 1
        return super().forward(x) + self.n


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.body, self.head, self.scale = nn.Linear(6, 4), nn.Linear(4, 3), scale

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


@pytest.mark.parametrize(
    "network, message",
    [
        (Twice, "applied to the features does not give the outputs of the network"),
        (partial(Scaled, 1.001), "applied to the features does not give the outputs"),
        (lambda: nn.Sequential(nn.Linear(6, 4), Adding(4, 3)), "gives other outputs when it is"),
    ],
)
def test_a_head_that_does_not_give_the_logits_is_an_error_that_lists_the_layers(network, message):
    with pytest.raises(ValueError, match=message + r".*\(Linear\).*None for a network without"):
        fitted(network, "penultimate", VECTORS)
    remembers = isinstance(network(), nn.Sequential)
    with pytest.warns(RandomFeaturesWarning) if remembers else nullcontext():
        backbone = fitted(network, "penultimate", VECTORS, classifier=None)
    assert backbone.transform(VECTORS).shape[1] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("link", [nn.Identity(), nn.Softmax(1), nn.LogSoftmax(1), nn.Sigmoid()])
@pytest.mark.parametrize("size", [1e-4, 1.0, 50.0])
def test_heads_that_give_the_logits_pass_the_check(dtype, link, size):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 300), link)
    network[2].weight.data *= size
    network[2].bias.data *= size
    backbone = fitted(network.to(dtype), "penultimate", VECTORS)
    assert backbone.classifier_layer_ == "2"
    assert backbone.transform(VECTORS).dtype == np.float32


def test_the_head_gives_the_logits_from_the_features():
    backbone = fitted(ConvNet, "penultimate")
    features, probabilities = backbone.extract(IMAGES)
    with torch.no_grad():
        logits = backbone.module_(INPUT)
        again = backbone.module_.head(torch.from_numpy(features))
    assert float((again - logits).abs().max()) <= 1e-5 * float(logits.abs().max())
    np.testing.assert_allclose(probabilities, logits.softmax(1), atol=1e-6)


def test_the_declared_width_is_not_trusted():
    class Declared(ConvNet):
        num_features = head_hidden_size = 960

    assert fitted(Declared, "penultimate").n_features_out_ == 10


# -- layers found by structure ---------------------------------------------------------------------


def test_the_stages_of_a_nested_network_are_its_last_layers_of_each_resolution():
    backbone = fitted(ConvNet, "all stages")
    # Dropout passes on what it is given, and the hidden layer is no map.
    assert backbone.layer_names_ == ("body.0", "body.2", "body.4", "penultimate")
    assert backbone.n_features_out_ == 4 + 6 + 8 + 10


def test_the_last_stage_is_not_given_twice():
    network = nn.Sequential(
        *convolution(3, 4),
        nn.MaxPool2d(2),
        *convolution(4, 6),
        nn.Dropout(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )
    assert fitted(network, "all stages").layer_names_ == ("2", "6")
    assert fitted(network[:-1], "all stages").layer_names_ == ("2", "6")
    flat = nn.Sequential(*convolution(3, 4), nn.Flatten(), nn.Linear(4 * 16 * 16, 3))
    assert fitted(flat, "all stages").layer_names_ == ("2", "penultimate")


def test_convolutions_without_padding_do_not_end_a_stage():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
    network.extend([nn.MaxPool2d(2), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1)])
    network.extend([nn.Flatten(), nn.Linear(5, 2)])
    assert fitted(network, "all stages").layer_names_ == ("3", "6", "penultimate")


def test_pooling_at_the_end_is_no_stage():
    network = nn.Sequential(*convolution(3, 4), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten())
    network.append(nn.Linear(64, 2))
    assert fitted(network, "all stages").layer_names_ == ("2", "penultimate")


def test_a_decoder_adds_no_stages():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2 = convolution(3, 4), convolution(4, 5, 2)
            self.up, self.out = nn.Upsample(scale_factor=2), convolution(9, 6)
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            x = self.down1(x)
            x = self.out(torch.cat([x, self.up(self.down2(x))], dim=1))
            return self.head(x.mean((2, 3)))

    assert fitted(UNet, "all stages").layer_names_ == ("down1", "down2", "penultimate")


def test_a_body_that_returns_all_its_maps_is_looked_into():
    class Pyramid(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = convolution(3, 4), convolution(4, 5, 2)

        def forward(self, x):
            x = self.one(x)
            return [x, self.two(x)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = Pyramid(), nn.Linear(5, 2)

        def forward(self, x):
            return self.head(self.body(x)[-1].mean((2, 3)))

    assert fitted(Net, "all stages").layer_names_ == ("body.one", "body.two")


@pytest.mark.parametrize("depth, names", [(2, "1 3"), (3, "1 3 5"), (9, "3 7 11 17")])
def test_vectors_have_stages_between_learned_layers(depth, names):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(6, 6), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Dropout(), nn.Linear(6, 2))
    assert fitted(network, "all stages", VECTORS).layer_names_ == tuple(names.split())
    assert fitted(nn.Linear(6, 2), "all stages", VECTORS).layer_names_ == ("penultimate",)
    assert fitted(nn.Identity(), "all stages", VECTORS).layer_names_ == ("penultimate",)


class Shared(nn.Module):
    """A block of maps that is called again and again."""

    def __init__(self):
        super().__init__()
        self.stem, self.block, self.head = convolution(3, 4), convolution(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.stem(x)
        for _ in range(6):
            x = self.block(x)
        return self.head(x.amax((2, 3)))


def test_stages_that_are_calls_of_one_layer():
    names = fitted(Shared, "all stages").layer_names_
    assert names == ("block:0", "block:2", "block:3", "block:5", "penultimate")


def torchvision_networks():
    models = pytest.importorskip("torchvision.models")
    convnext = pytest.importorskip("torchvision.models.convnext")
    googlenet = {"init_weights": False, "aux_logits": False}
    vit = {"num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
    swin = {"patch_size": [2, 2], "num_heads": [1, 2], "window_size": [2, 2]}
    return {
        "resnet18": models.resnet18,
        "mobilenet_v2": models.mobilenet_v2,
        "mobilenet_v3": models.mobilenet_v3_small,
        "squeezenet": models.squeezenet1_1,
        "densenet": partial(models.DenseNet, 8, (2, 2, 2), 16),
        "googlenet": partial(models.googlenet, **googlenet),
        "shufflenet": models.shufflenet_v2_x0_5,
        "mnasnet": models.mnasnet0_5,
        "regnet": models.regnet_y_400mf,
        "convnext": partial(
            models.ConvNeXt,
            [convnext.CNBlockConfig(8, 16, 2), convnext.CNBlockConfig(16, None, 2)],
        ),
        "vit": partial(models.VisionTransformer, image_size=64, patch_size=8, num_layers=8, **vit),
        "swin": partial(models.SwinTransformer, embed_dim=8, depths=[2, 2], **swin),
    }


@pytest.mark.parametrize(
    "name, expected",
    [
        ("resnet18", "relu layer1 layer2 layer3 layer4"),
        ("mobilenet_v2", "features.1 features.3 features.6 features.13 features.18"),
        ("mobilenet_v3", "features.0 features.1 features.3 features.8 features.12 penultimate"),
        ("squeezenet", "features.1 features.4 features.7 features.12"),
        (
            "densenet",
            "features.relu0 features.denseblock1 features.denseblock2 features.norm5 penultimate",
        ),
        ("googlenet", "conv1 conv3 inception3b inception4e inception5b"),
        ("shufflenet", "conv1 stage2 stage3 conv5"),
        ("mnasnet", "layers.7 layers.8 layers.9 layers.11 layers.16"),
        ("regnet", "stem " + " ".join(f"trunk_output.block{i}" for i in (1, 2, 3, 4))),
        ("convnext", "features.1 features.3 penultimate"),
        (
            "vit",
            " ".join(f"encoder.layers.encoder_layer_{i}" for i in (1, 3, 5, 7)) + " penultimate",
        ),
        ("swin", "features.1 permute"),
    ],
)
def test_stages_of_the_families_of_torchvision(name, expected):
    torch.manual_seed(0)
    X = rng.random((2, 3, 64, 64), dtype=np.float32)
    backbone = fitted(torchvision_networks()[name], "all stages", X)
    assert backbone.layer_names_ == tuple(expected.split())
    widths = [s.stop - s.start for s in backbone.layer_slices_.values()]
    assert backbone.transform(X).shape == (2, sum(widths))
    assert min(widths) >= 8


@pytest.mark.parametrize(
    "name, parameters, expected",
    [
        (
            "vit_tiny_patch16_224",
            {"depth": 6, "embed_dim": 24, "reg_tokens": 2},
            "blocks.0 blocks.2 blocks.3 blocks.5 penultimate",
        ),
        (
            "swin_tiny_patch4_window7_224",
            {"depths": (2, 2), "num_heads": (2, 2), "embed_dim": 8, "window_size": 4},
            "layers.0 norm",
        ),
        ("convnext_atto", {"depths": (1, 1, 2, 1)}, None),
        ("resnet10t", {}, "act1 layer1 layer2 layer3 layer4"),
    ],
)
def test_stages_of_families_of_timm(name, parameters, expected):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    size = {"img_size": 64} if "patch" in name else {}
    X = rng.random((2, 3, 64, 64), dtype=np.float32)
    network = partial(timm.create_model, name, pretrained=False, **size, **parameters)
    backbone = fitted(network, "all stages", X)
    expected = "stages.0 stages.1 stages.2 stages.3 penultimate" if expected is None else expected
    assert backbone.layer_names_ == tuple(expected.split())
    if name.startswith("vit"):
        kinds = {p.name: p.pooling and (p.pooling.kind, p.pooling.first) for p in backbone._points}
        assert kinds["blocks.5"] == ("cls", 0)
        mean = fitted(network, "blocks.5", X, pooling="mean")._points[0].pooling
        assert (mean.kind, mean.first) == ("mean", 3)


# -- candidates ------------------------------------------------------------------------------------


def test_the_layers_of_a_network_are_candidates_that_share_it():
    network = ConvNet()
    backbone = TorchBackbone(network, **UNIT, batch_size=5)
    candidates = layer_candidates(backbone, X=IMAGES)
    assert [name for name, _ in candidates] == [
        "ConvNet@body.0",
        "ConvNet@body.2",
        "ConvNet@body.4",
        "ConvNet@penultimate",
    ]
    for name, candidate in candidates:
        assert candidate.layer == name.partition("@")[2]
        assert candidate.module is network and candidate.batch_size == 5
        assert not hasattr(candidate, "module_")
        assert {**candidate.get_params(), "layer": "penultimate"} == backbone.get_params()
    assert not hasattr(backbone, "module_") and backbone.layer == "penultimate"


def test_candidates_are_called_after_their_network():
    named = layer_candidates(TorchBackbone(partial(ConvNet), **UNIT), ["head"])
    assert named[0][0] == "ConvNet@head"
    named = layer_candidates(TorchBackbone(ConvNet, **UNIT), ["hidden", "penultimate"], name="mine")
    assert [name for name, _ in named] == ["mine@hidden", "mine@penultimate"]
    zoo = layer_candidates(TinyZooBackbone("fashion"), ("stages.0",))
    assert zoo[0][0] == "fashion@stages.0"


def test_stages_are_found_without_data_where_the_input_is_known():
    known = TorchBackbone(ConvNet, mean=[0.5] * 3, std=[0.5] * 3, input_size=(16, 24))
    expected = [f"ConvNet@{layer}" for layer in ("body.0", "body.2", "body.4", "penultimate")]
    assert [name for name, _ in layer_candidates(known)] == expected
    one = TorchBackbone(ConvNet, **UNIT, input_size=16)
    with pytest.raises(ValueError, match="shape of its input is not known: pass some rows"):
        layer_candidates(one)
    assert [name for name, _ in layer_candidates(one.set_params(channels=3))] == expected
    unknown = TorchBackbone(ConvNet, input_size=16, channels=3)
    with pytest.raises(ValueError, match="not known: pass some rows of data.*'mean' and 'std'"):
        layer_candidates(unknown)
    # A fitted one has seen its input.
    assert [name for name, _ in layer_candidates(fitted(ConvNet, "head"))] == expected
    assert [name for name, _ in layer_candidates(fitted(ConvNet, "all stages"))] == expected
    vectors = fitted(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)), "0", VECTORS)
    assert [name for name, _ in layer_candidates(vectors)] == ["Sequential@1"]


def test_layers_of_a_fitted_network_are_checked_at_once():
    backbone = fitted(ConvNet, "penultimate")
    with pytest.raises(ValueError, match="'hiddne' that the network does not have"):
        layer_candidates(backbone, ["hiddne"])
    with pytest.raises(TypeError, match="takes a backbone that runs a torch network"):
        layer_candidates(nn.Linear(2, 2))


def test_layers_of_a_fitted_backbone_are_backbones_without_another_pass():
    together = fitted(ConvNet, ["body.0", "penultimate", "body.3"], batch_size=4)
    features, probabilities = together.extract(IMAGES)
    together.module_.seen = []
    for layer in ("body.3", ["body.3", "body.0"], ("penultimate",)):
        part = together.select_layers(layer)
        alone = fitted(ConvNet, layer, batch_size=4)
        assert together.module_.seen == []
        assert part.get_params()["layer"] == layer == part.layer
        assert part.module_ is together.module_
        for name in ("layer_names_", "layer_slices_", "n_features_out_", "classifier_layer_"):
            assert getattr(part, name) == getattr(alone, name), name
        np.testing.assert_allclose(part.probe_features_, alone.probe_features_, rtol=1e-6)
        assert part.fingerprint() == alone.fingerprint() != together.fingerprint()
        names = [layer] if isinstance(layer, str) else layer
        expected = np.hstack([features[:, together.layer_slices_[name]] for name in names])
        found = part.extract(IMAGES)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], probabilities)
        together.module_.seen = []
        assert not hasattr(clone(part), "module_")
    assert together.layer_names_ == ("body.0", "penultimate", "body.3")
    with pytest.raises(ValueError, match=r"was not fitted for \['body.2'\]; its layers are"):
        together.select_layers("body.2")
    stages = fitted(ConvNet, "all stages")
    assert stages.select_layers("all stages").layer_names_ == stages.layer_names_


def test_another_layer_keeps_everything_else():
    backbone = TorchBackbone(ConvNet, **UNIT).set_output(transform="pandas")
    other = backbone.with_layers("body.0")
    assert other.layer == "body.0" and backbone.layer == "penultimate"
    frame = other.fit(IMAGES).transform(IMAGES)
    assert list(frame.columns) == [f"torchbackbone{i}" for i in range(4)]


@pytest.mark.parametrize("layer", ["body.0", ["hidden", "body.3"], "all stages"])
def test_copies_of_a_backbone_with_layers_give_the_same(layer):
    backbone = fitted(ConvNet(), layer)
    expected = backbone.transform(IMAGES)
    for other in (copy.deepcopy(backbone), clone(backbone).fit(IMAGES)):
        np.testing.assert_array_equal(other.transform(IMAGES), expected)
        assert other.fingerprint() == backbone.fingerprint()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(backbone)).transform(IMAGES), expected)


# -- fingerprints ----------------------------------------------------------------------------------


def test_the_fingerprint_tells_what_decides_the_features():
    digests = {
        name: TorchBackbone(module, **{**UNIT, **parameters}).fit(IMAGES).fingerprint()
        for name, module, parameters in [
            ("as it is", ConvNet, {}),
            ("layer", ConvNet, {"layer": "body.3"}),
            ("order of layers", ConvNet, {"layer": ["body.3", "body.0"]}),
            ("other order of layers", ConvNet, {"layer": ["body.0", "body.3"]}),
            ("pooling", ConvNet, {"layer": "body.3", "pooling": "flatten"}),
            ("mean", ConvNet, {"mean": 0.1}),
            ("size", ConvNet, {"input_size": 18}),
            ("classifier", ConvNet, {"classifier": None}),
            ("precision", lambda: ConvNet().double(), {}),
            ("weights", lambda: ConvNet().half().float(), {}),
        ]
    }
    assert len(set(digests.values())) == len(digests)
    same = {"batch_size": 3, "n_workers": 2, "device": "cpu"}
    again = TorchBackbone(ConvNet(), **UNIT, **same).fit(IMAGES[::-1])
    assert again.fingerprint() == digests["as it is"]
    # What "auto" comes to is the same pooling.
    auto, mean = (fitted(ConvNet, "body.3", pooling=p).fingerprint() for p in ("auto", "mean"))
    assert auto == mean == digests["layer"]


_OTHER_PROCESS = """
import numpy as np, torch
from sktransfer.backbones import TinyZooBackbone
torch.manual_seed({seed})
X = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
print(TinyZooBackbone("fashion", layer=["stages.0", "penultimate"]).fit(X).fingerprint())
"""


def test_the_fingerprint_is_the_same_in_another_process():
    X = np.zeros((3, 28, 28), dtype=np.uint8)
    here = TinyZooBackbone("fashion", layer=["stages.0", "penultimate"]).fit(X).fingerprint()
    there = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS.format(seed=7)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


# -- ImageNet --------------------------------------------------------------------------------------


@pytest.mark.pretrained
def test_layers_of_imagenet_weights_are_candidates(imagenet_mobilenet):
    models = pytest.importorskip("torchvision.models")
    network = partial(models.mobilenet_v2, weights="IMAGENET1K_V1")
    X = rng.random((2, 3, 64, 64), dtype=np.float32)
    backbone = fitted(network, ["features.7", "penultimate"], X)
    x = torch.from_numpy(X)
    features, probabilities = backbone.extract(X)
    expected = output_of(network(), "features.7", x).mean((2, 3))
    np.testing.assert_allclose(features[:, :64], expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        logits = network().eval()(x)
        again = network().classifier[1](torch.from_numpy(features[:, 64:]))
    assert float((again - logits).abs().max()) <= 1e-5 * float(logits.abs().max())
    np.testing.assert_allclose(probabilities, logits.softmax(1), atol=1e-5)
