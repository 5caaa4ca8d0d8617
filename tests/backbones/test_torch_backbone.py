"""TorchBackbone on images and vectors: what it computes, and what it leaves alone."""

import copy
import functools
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import RandomFeaturesWarning

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(30, 12, 12), dtype=np.uint8)
COLOUR = rng.integers(0, 256, size=(20, 3, 12, 10), dtype=np.uint8)
VECTORS = rng.normal(size=(25, 5)).astype(np.float32)
ROWS = torch.from_numpy(VECTORS)
UNIT = {"mean": 0.0, "std": 1.0}


def build_convnet(channels=1, n_classes=4):
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, n_classes),
    )


def trained_convnet(channels=1, n_classes=4):
    """Moving statistics and scales that are not those of a new network."""
    torch.manual_seed(0)
    network = build_convnet(channels, n_classes)
    network[1].running_mean.normal_()
    network[1].running_var.uniform_(0.5, 2.0)
    return network


def by_hand(network, images):
    """Features and probabilities of a convnet above, without the backbone."""
    network = copy.deepcopy(network).eval()
    with torch.no_grad():
        features = network[:-1](images)
        return features.numpy(), network[-1](features).softmax(1).numpy()


# -- what is computed ------------------------------------------------------------------------------


def test_features_and_probabilities_are_those_of_the_network():
    network = trained_convnet()
    backbone = TorchBackbone(network, mean=0.3, std=0.2).fit(IMAGES)
    features, probabilities = backbone.extract(IMAGES)
    expected = by_hand(network, (torch.from_numpy(IMAGES)[:, None] / 255 - 0.3) / 0.2)
    np.testing.assert_allclose(features, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(probabilities, expected[1], rtol=1e-4, atol=1e-6)
    assert features.dtype == probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(backbone.transform(IMAGES), features)
    np.testing.assert_array_equal(backbone.predict_proba(IMAGES), probabilities)
    assert backbone.classifier_layer_ == "6"
    assert backbone.n_parameters_ == sum(p.numel() for p in network.parameters())


def test_one_pass_per_batch_gives_both():
    class Counting(nn.Module):
        seen = []

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 3)

        def forward(self, x):
            self.seen.append(len(x))
            return self.head(x)

    backbone = TorchBackbone(Counting, batch_size=10).fit(VECTORS)
    Counting.seen.clear()
    backbone.extract(VECTORS)
    assert Counting.seen == [10, 10, 5]


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_batch_size_does_not_matter(batch_size):
    network = trained_convnet()
    expected = TorchBackbone(network, **UNIT, batch_size=30).fit(IMAGES).extract(IMAGES)
    backbone = TorchBackbone(network, **UNIT, batch_size=batch_size).fit(IMAGES)
    for got, wanted in zip(backbone.extract(IMAGES), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_rows_belong_to_their_images():
    backbone = TorchBackbone(trained_convnet(), **UNIT, batch_size=4).fit(IMAGES)
    order = np.random.default_rng(1).permutation(len(IMAGES))
    np.testing.assert_allclose(
        backbone.transform(IMAGES[order]), backbone.transform(IMAGES)[order], atol=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_networks_of_other_precision_give_float32(dtype):
    network = trained_convnet()
    expected, _ = TorchBackbone(network, **UNIT).fit(IMAGES).extract(IMAGES)
    backbone = TorchBackbone(copy.deepcopy(network).to(dtype), **UNIT).fit(IMAGES)
    features, probabilities = backbone.extract(IMAGES)
    assert features.dtype == probabilities.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=0.03, atol=0.03)


def test_features_that_are_not_finite_are_an_error():
    class Overflowing(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, x, torch.inf)

    X = np.ones((20, 3))
    backbone = TorchBackbone(Overflowing(), batch_size=8).fit(X)
    X[13] = -1
    with pytest.raises(ValueError, match="NaN or infinite values, first in row 13"):
        backbone.transform(X)


# -- which layer is the classifier -----------------------------------------------------------------


class Functional(nn.Module):
    """The classifier is not the last layer by order of registration, and not the last call."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(6, 3)
        self.hidden = nn.Linear(5, 6)

    def forward(self, x):
        return nn.functional.log_softmax(self.output(x=torch.relu(self.hidden(x))), dim=1)


class NamedInput(Functional):
    def __init__(self):
        super().__init__()
        self.output = type("Head", (nn.Linear,), {"forward": lambda s, x: nn.Linear.forward(s, x)})(
            6, 3
        )


def test_the_classifier_is_found_by_what_is_executed():
    torch.manual_seed(0)
    network = NamedInput()
    backbone = TorchBackbone(network).fit(VECTORS)
    assert backbone.classifier_layer_ == "output"
    features, probabilities = backbone.extract(VECTORS)
    with torch.no_grad():
        hidden = torch.relu(network.hidden(torch.from_numpy(VECTORS)))
        expected = network.output(x=hidden).softmax(1)
    np.testing.assert_allclose(features, hidden, rtol=1e-5)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


@pytest.mark.parametrize("link", [nn.Softmax(1), nn.LogSoftmax(1), nn.Sigmoid(), nn.Dropout(0.5)])
def test_probabilities_are_not_squashed_twice(link):
    torch.manual_seed(0)
    layer = nn.Linear(5, 4)
    backbone = TorchBackbone(nn.Sequential(layer, link)).fit(VECTORS)
    with torch.no_grad():
        expected = layer(torch.from_numpy(VECTORS)).softmax(1)
    np.testing.assert_allclose(backbone.predict_proba(VECTORS), expected, rtol=1e-5)
    np.testing.assert_array_equal(backbone.transform(VECTORS), VECTORS)


@pytest.mark.parametrize(
    "last", [nn.ReLU(), nn.Tanh(), nn.ReLU(inplace=True), nn.BatchNorm1d(4), nn.Hardtanh(-9, 2)]
)
def test_a_network_that_ends_in_anything_else_has_no_source_head(last):
    torch.manual_seed(0)
    # Positive outputs, which a rectifier passes on as they are, must not be taken for logits.
    layer = nn.Linear(5, 4)
    layer.bias.data += 10
    network = nn.Sequential(layer, last)
    backbone = TorchBackbone(network).fit(VECTORS)
    assert backbone.classifier_layer_ is None
    assert not hasattr(backbone, "predict_proba")
    features, probabilities = backbone.extract(VECTORS)
    assert probabilities is None
    with torch.no_grad():
        expected = copy.deepcopy(network).eval()(torch.from_numpy(VECTORS))
    np.testing.assert_allclose(features, expected, rtol=1e-5)


def test_maps_without_a_head_are_flattened():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(2), nn.Identity())
    features = TorchBackbone(network, **UNIT).fit_transform(IMAGES)
    assert features.shape == (30, 8)


def test_a_module_without_parameters_gives_its_output():
    np.testing.assert_array_equal(TorchBackbone(nn.Identity()).fit_transform(VECTORS), VECTORS)
    flat = TorchBackbone(nn.Flatten(0), **UNIT, batch_size=1)
    with pytest.raises(ValueError, match=r"features of shape \(288,\) for 2 rows"):
        flat.fit(IMAGES)


def test_a_module_with_one_number_per_row():
    class Sum(nn.Module):
        def forward(self, x):
            return x.sum(1)

    assert TorchBackbone(Sum()).fit_transform(VECTORS).shape == (25, 1)


def test_a_single_output_may_be_a_regression():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1))
    backbone = TorchBackbone(network).fit(VECTORS)
    assert backbone.classifier_layer_ == "2"
    assert backbone.transform(VECTORS).shape == (25, 7)
    assert not hasattr(backbone, "predict_proba")
    with pytest.raises(AttributeError, match="at least two outputs"):
        backbone._has_source_head()


@pytest.mark.parametrize("classifier", ["auto", "1"])
def test_a_convolution_as_classifier(classifier):
    """As in SqueezeNet: the classifier mixes channels, and positions are averaged after it."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 5, 3),
        nn.Conv2d(5, 4, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    backbone = TorchBackbone(network, **UNIT, classifier=classifier).fit(IMAGES)
    features, probabilities = backbone.extract(IMAGES)
    with torch.no_grad():
        x = torch.from_numpy(IMAGES)[:, None] / 255
        np.testing.assert_allclose(features, network[0](x).mean((2, 3)), atol=1e-5)
        np.testing.assert_allclose(probabilities, network(x).softmax(1), atol=1e-5)


def test_the_classifier_can_be_named_or_denied():
    network = trained_convnet()
    auto = TorchBackbone(network, **UNIT).fit(IMAGES)
    named = TorchBackbone(network, **UNIT, classifier="6").fit(IMAGES)
    np.testing.assert_array_equal(named.extract(IMAGES)[1], auto.extract(IMAGES)[1])
    denied = TorchBackbone(network, **UNIT, classifier=None).fit(IMAGES)
    assert denied.transform(IMAGES).shape == (30, 4)
    assert denied.extract(IMAGES)[1] is None
    with pytest.raises(ValueError, match=r"which are \['6'\]; got 'fc'"):
        TorchBackbone(network, **UNIT, classifier="fc").fit(IMAGES)


@pytest.mark.parametrize("change", [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2]])
def test_the_order_in_memory_decides_nothing(change):
    wide = np.random.default_rng(1).normal(size=(40, 33)).astype(np.float32)
    backbone = TorchBackbone(nn.Sequential(nn.Linear(33, 9), nn.Tanh(), nn.Linear(9, 3)))
    expected = backbone.fit(wide).extract(wide)
    for got, want in zip(backbone.fit(change(wide)).extract(change(wide)), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    backbone = TorchBackbone(trained_convnet(3), **UNIT).fit(COLOUR)
    expected = backbone.transform(COLOUR)
    np.testing.assert_array_equal(backbone.transform(np.asfortranarray(COLOUR)), expected)


def test_a_named_layer_must_be_called_on_vectors():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.auxiliary = nn.Linear(5, 2)
            self.head = nn.Linear(1, 3)

        def forward(self, x):
            return self.head(x[:, :, None]).mean(1)

    with pytest.raises(ValueError, match="never calls its layer 'auxiliary'"):
        TorchBackbone(Unused(), classifier="auxiliary").fit(VECTORS)
    with pytest.raises(ValueError, match=r"input of the layer 'head' has shape \(2, 5, 1\)"):
        TorchBackbone(Unused(), classifier="head").fit(VECTORS)


def test_outputs_that_are_no_tensor_are_named():
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            return {"logits": self.head(x)}

    with pytest.raises(ValueError, match="returns a dict where a tensor is expected"):
        TorchBackbone(Several()).fit(VECTORS)
    named = TorchBackbone(Several(), classifier="head").fit(VECTORS)
    assert named.predict_proba(VECTORS).shape == (25, 2)


@pytest.mark.parametrize(
    "parametrize",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
    ],
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("head", [True, False])
def test_parametrized_layers_are_layers(parametrize, bias, head):
    torch.manual_seed(0)
    last = parametrize(nn.Linear(6, 3, bias=bias)) if head else nn.Linear(6, 3, bias=bias)
    body = nn.Linear(5, 6) if head else parametrize(nn.Linear(5, 6, bias=bias))
    network = nn.Sequential(body, nn.ReLU(), last).eval()
    backbone = TorchBackbone(network).fit(VECTORS)
    assert backbone.classifier_layer_ == "2"
    features, probabilities = backbone.extract(VECTORS)
    with torch.no_grad():
        expected = network[:2](torch.from_numpy(VECTORS))
        np.testing.assert_allclose(features, expected, atol=1e-5)
        np.testing.assert_allclose(probabilities, network[2](expected).softmax(1), atol=1e-5)


class Prompt(nn.Module):
    """A table of weights that is called without an argument."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))

    def forward(self):
        return self.weight


class Prompted(nn.Module):
    def __init__(self, after=False):
        super().__init__()
        self.head, self.prompt, self.after = nn.Linear(5, 3), Prompt(), after
        self.scale = nn.Parameter(torch.ones(()))  # a root with weights of its own

    def forward(self, x):
        if self.after:
            return self.head(x) * self.prompt().sum()
        return self.head(x + self.prompt())


def test_layers_called_without_an_input():
    backbone = TorchBackbone(Prompted()).fit(VECTORS)
    assert backbone.classifier_layer_ == "head"
    np.testing.assert_allclose(backbone.transform(VECTORS), VECTORS + 1, rtol=1e-6)
    assert TorchBackbone(Prompted(after=True)).fit(VECTORS).classifier_layer_ is None


def test_a_layer_that_calls_others_inside_is_the_layer():
    class Adapted(nn.Linear):
        def __init__(self):
            super().__init__(5, 3)
            self.low_rank = nn.Linear(5, 3)

        def forward(self, x):
            return super().forward(x) + self.low_rank(x)

    backbone = TorchBackbone(nn.Sequential(nn.Linear(5, 5), Adapted())).fit(VECTORS)
    assert backbone.classifier_layer_ == "1"


def test_attention_that_is_run_last_is_no_classifier():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(5, 1, batch_first=True)

        def forward(self, x):
            x = x[:, None]
            return self.attention(x, x, x)[0][:, 0]

    assert TorchBackbone(Attending()).fit(VECTORS).classifier_layer_ is None


def torchvision_networks():
    models = pytest.importorskip("torchvision.models")
    convnext = pytest.importorskip("torchvision.models.convnext")
    tiny_vit = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
    return {
        "vit": lambda: models.VisionTransformer(image_size=32, patch_size=8, **tiny_vit),
        "resnet18": models.resnet18,
        "convnext": lambda: models.ConvNeXt([convnext.CNBlockConfig(8, None, 2)]),
        "squeezenet": models.squeezenet1_1,
    }


@pytest.mark.parametrize(
    "name, layer",
    [
        ("vit", "heads.head"),
        ("resnet18", "fc"),
        ("convnext", "classifier.2"),
        ("squeezenet", "classifier.1"),
    ],
)
def test_heads_of_torchvision_are_found(name, layer):
    torch.manual_seed(0)
    network = torchvision_networks()[name]().eval()
    head = network.get_submodule(layer)
    images = rng.random(size=(4, 3, 32, 32), dtype=np.float32)
    with torch.no_grad():
        if name == "vit":
            head.weight.normal_()  # a new one is all zeros
        logits = network(torch.from_numpy(images))
    backbone = TorchBackbone(network, **UNIT).fit(images)
    assert backbone.classifier_layer_ == layer
    features, probabilities = backbone.extract(images)
    np.testing.assert_allclose(probabilities, logits.softmax(1), atol=1e-5)
    if isinstance(head, nn.Linear):
        with torch.no_grad():
            np.testing.assert_allclose(head(torch.from_numpy(features)), logits, atol=1e-5)
    else:
        assert features.shape == (4, head.in_channels)


@pytest.mark.filterwarnings(
    "ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning"
)
@pytest.mark.parametrize("compiled", [torch.jit.script, lambda net: torch.jit.trace(net, (ROWS,))])
def test_torchscript_can_only_give_its_output(compiled):
    network = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    scripted = compiled(network)
    for given in (scripted, nn.Sequential(nn.Identity(), scripted)):
        with pytest.raises(ValueError, match="TorchScript module, whose layers cannot be watched"):
            TorchBackbone(given).fit(VECTORS)
        with pytest.raises(ValueError, match="TorchScript module, whose layers cannot be watched"):
            TorchBackbone(given, classifier="2").fit(VECTORS)
        backbone = TorchBackbone(given, classifier=None).fit(VECTORS)
        with torch.no_grad():
            expected = network(ROWS)
        np.testing.assert_allclose(backbone.transform(VECTORS), expected, rtol=1e-5)
    assert all(parameter.requires_grad for parameter in scripted.parameters())


def test_what_a_network_changes_afterwards_does_not_reach_the_features():
    class Wiping(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.body, self.head, self.name = nn.Linear(5, 6), nn.Linear(6, 3), name

        def forward(self, x):
            features = self.body(x)
            logits = self.head(features)
            output = logits.clone()
            {"features": features, "logits": logits}[self.name].zero_()
            return output

    for name in ("features", "logits"):
        network = Wiping(name)
        features, probabilities = (
            TorchBackbone(network, classifier="head").fit(VECTORS).extract(VECTORS)
        )
        with torch.no_grad():
            expected = network.body(ROWS)
            np.testing.assert_allclose(features, expected, rtol=1e-5)
            np.testing.assert_allclose(probabilities, network(ROWS).softmax(1), rtol=1e-5)


@pytest.mark.parametrize("cast", [True, False])
def test_mixed_precision_around_a_call_does_not_change_it(cast):
    backbone = TorchBackbone(trained_convnet(), **UNIT, device="cpu").fit(IMAGES)
    expected = backbone.extract(IMAGES)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
        again = TorchBackbone(trained_convnet(), **UNIT, device="cpu").fit(IMAGES)
        for got in (backbone.extract(IMAGES), again.extract(IMAGES)):
            np.testing.assert_array_equal(got[0], expected[0])
            np.testing.assert_array_equal(got[1], expected[1])
        assert torch.is_autocast_enabled("cpu") is cast


# -- what is left alone ----------------------------------------------------------------------------


def snapshot(network):
    """Everything of a network that could have been touched."""
    return {
        "modes": {name: layer.training for name, layer in network.named_modules()},
        "hooks": {
            name: [
                list(getattr(layer, kind))
                for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
            ]
            for name, layer in network.named_modules()
        },
        "tensors": {name: tensor.clone() for name, tensor in network.state_dict().items()},
        "identities": {name: id(parameter) for name, parameter in network.named_parameters()},
        "requires_grad": {name: p.requires_grad for name, p in network.named_parameters()},
        "grads": {
            name: None if p.grad is None else p.grad.clone()
            for name, p in network.named_parameters()
        },
        "attributes": {name: sorted(vars(layer)) for name, layer in network.named_modules()},
    }


def assert_untouched(network, before):
    after = snapshot(network)
    for key in ("modes", "hooks", "identities", "requires_grad", "attributes"):
        assert after[key] == before[key], key
    for key in ("tensors", "grads"):
        for name, tensor in before[key].items():
            if tensor is None:
                assert after[key][name] is None
            else:
                assert torch.equal(after[key][name], tensor), name


def mixed_mode_network():
    """A network in the middle of training: partly frozen, with gradients and a hook."""
    network = trained_convnet().train()
    network[3].eval()
    network[0].weight.requires_grad_(False)
    network(torch.zeros(3, 1, 12, 12)).sum().backward()
    network[2].register_forward_hook(lambda *_: None)
    return network


@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
def test_the_network_is_left_as_it_was(mode):
    network = mixed_mode_network()
    if mode != "mixed":
        network.train(mode == "train")
    before = snapshot(network)
    backbone = TorchBackbone(network, **UNIT).fit(IMAGES)
    backbone.extract(IMAGES)
    assert_untouched(network, before)
    assert backbone.module is network
    assert not any(layer.training for layer in backbone.module_.modules())


def test_the_mode_of_the_network_does_not_matter():
    network = trained_convnet()
    results = [
        TorchBackbone(network.train(mode), **UNIT).fit(IMAGES).transform(IMAGES)
        for mode in (True, False)
    ]
    np.testing.assert_array_equal(*results)


class Hiding(nn.Module):
    """Its layers are in a list, where no mode reaches them."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = [nn.BatchNorm1d(5)], nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.hidden[0](x))


class Normalising(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(nn.functional.batch_norm(x, None, None, training=True))


class Comparing(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(x - x.mean(0))


@pytest.mark.parametrize("network", [Hiding, Normalising, Comparing])
def test_networks_whose_features_depend_on_other_rows_are_refused(network):
    with pytest.raises(ValueError, match="depend on the other rows of its batch"):
        TorchBackbone(network).fit(VECTORS)


def test_networks_that_draw_numbers_are_announced():
    class Drawing(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            return self.head(nn.functional.dropout(x, 0.5))

    with pytest.warns(RandomFeaturesWarning, match="draws random numbers"):
        backbone = TorchBackbone(Drawing).fit(VECTORS)
    state = torch.get_rng_state()
    assert backbone.transform(VECTORS).shape == (25, 5)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_network_is_left_as_it_was_by_failures():
    class Failing(nn.Module):
        def __init__(self, fails_at):
            super().__init__()
            self.body, self.fails_at, self.calls = trained_convnet(), fails_at, 0

        def forward(self, x):
            self.calls += 1
            if self.calls == self.fails_at:
                raise KeyError("on purpose")
            return self.body(x)

    for fails_at in (1, 2, 4):  # while looking for the classifier, and in the second batch
        network = Failing(fails_at).train()
        before = snapshot(network)
        with pytest.raises(KeyError, match="on purpose"):
            TorchBackbone(network, **UNIT, batch_size=8).fit(IMAGES).transform(IMAGES)
        assert_untouched(network, before)
        assert network.calls == 0


def test_several_threads_can_share_network_and_backbone():
    network = mixed_mode_network()
    before = snapshot(network)
    backbone = TorchBackbone(network, **UNIT, batch_size=3).fit(IMAGES)
    expected = backbone.extract(IMAGES)
    start = threading.Barrier(4)

    def work(k):
        start.wait()
        one = backbone if k % 2 else TorchBackbone(network, **UNIT, batch_size=3).fit(IMAGES)
        rows = np.roll(np.arange(len(IMAGES)), k)
        return rows, one.extract(IMAGES[rows])

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for rows, (features, probabilities) in results:
        np.testing.assert_allclose(features, expected[0][rows], atol=1e-6)
        np.testing.assert_allclose(probabilities, expected[1][rows], atol=1e-6)
    assert_untouched(network, before)


def test_a_fitted_backbone_does_not_follow_further_training():
    network = trained_convnet()
    backbone = TorchBackbone(network, **UNIT).fit(IMAGES)
    before = backbone.transform(IMAGES)
    network[0].weight.data.zero_()
    np.testing.assert_array_equal(backbone.transform(IMAGES), before)


def test_global_state_of_torch_is_left_as_it_was():
    state = torch.get_rng_state()
    flags = (torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype())
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    TorchBackbone(build_convnet, **UNIT).fit(IMAGES).extract(IMAGES)
    assert torch.equal(torch.get_rng_state(), state)
    assert flags == (torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype())
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_input_is_not_changed_and_may_be_read_only():
    for X in (IMAGES.copy(), IMAGES / np.float32(255)):
        X.flags.writeable = False
        before = X.copy()
        TorchBackbone(build_convnet, **UNIT).fit(X).transform(X)
        np.testing.assert_array_equal(X, before)


# -- factories -------------------------------------------------------------------------------------


def test_a_factory_gives_the_same_network_every_time():
    factory = functools.partial(build_convnet, n_classes=5)
    torch.manual_seed(5)
    first = TorchBackbone(factory, **UNIT).fit(IMAGES).extract(IMAGES)
    torch.manual_seed(6)
    second = TorchBackbone(factory, **UNIT).fit(IMAGES).extract(IMAGES)
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1].shape == (30, 5)


def test_a_factory_that_hands_out_a_shared_network_does_not_expose_it():
    network = mixed_mode_network()
    before = snapshot(network)
    TorchBackbone(lambda: network, **UNIT).fit(IMAGES).transform(IMAGES)
    assert_untouched(network, before)


def test_what_a_factory_returns_is_checked():
    with pytest.raises(TypeError, match="returned a dict"):
        TorchBackbone(dict).fit(VECTORS)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)
        self.last = self.layer(torch.ones(1, 5))

    def forward(self, x):
        self.last = self.layer(x)
        return self.last


def old_weight_norm():
    with pytest.warns(FutureWarning, match="weight_norm"):
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(5, 6)), nn.Linear(6, 3))


@pytest.mark.parametrize("build", [Remembering, old_weight_norm])
@pytest.mark.parametrize("called", [True, False])
def test_networks_that_keep_computed_tensors_are_copied(build, called):
    network = build() if called else build
    backbone = TorchBackbone(network).fit(VECTORS)
    with torch.no_grad():
        expected = backbone.module_(ROWS).softmax(1)
    np.testing.assert_allclose(backbone.predict_proba(VECTORS), expected, rtol=1e-5)
    if called:
        before = backbone.transform(VECTORS)
        with torch.no_grad():
            np.testing.assert_allclose(network.eval()(ROWS).softmax(1), expected, rtol=1e-5)
            for parameter in network.parameters():
                parameter.zero_()
        np.testing.assert_array_equal(backbone.transform(VECTORS), before)


def test_networks_that_cannot_be_used_say_why():
    with pytest.raises(ValueError, match="lazy layers"):
        TorchBackbone(nn.LazyLinear(3)).fit(VECTORS)

    class Locked(nn.Linear):
        def __init__(self):
            super().__init__(5, 2)
            self.lock = threading.Lock()

    with pytest.raises(ValueError, match="cannot be copied"):
        TorchBackbone(Locked()).fit(VECTORS)
    with pytest.raises(ValueError, match=r"cannot take input of shape \(2, 5\)"):
        TorchBackbone(nn.Linear(6, 3)).fit(VECTORS)


# -- devices ---------------------------------------------------------------------------------------


def test_devices():
    backbone = TorchBackbone(nn.Identity(), device=torch.device("cpu")).fit(VECTORS)
    assert backbone.device_ == torch.device("cpu")
    with pytest.raises(ValueError, match="'device' parameter must be 'auto' or a device"):
        TorchBackbone(nn.Identity(), device="abacus").fit(VECTORS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_missing_device_is_an_error_and_auto_is_the_cpu():
    with pytest.raises(ValueError, match="torch sees no CUDA device"):
        TorchBackbone(nn.Identity(), device="cuda").fit(VECTORS)
    assert TorchBackbone(nn.Identity()).fit(VECTORS).device_.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_pickle_from_a_machine_with_a_gpu_runs_without_one():
    backbone = TorchBackbone(trained_convnet(), **UNIT).fit(IMAGES)
    state = backbone.__getstate__()
    state["device_"] = torch.device("cuda:0")
    other = TorchBackbone.__new__(TorchBackbone)
    other.__setstate__(state)
    assert other.device_ == torch.device("cpu")
    np.testing.assert_array_equal(other.transform(IMAGES), backbone.transform(IMAGES))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_and_pickles_to_the_cpu():
    import pickle

    network = trained_convnet()
    expected = TorchBackbone(network, **UNIT, device="cpu").fit(IMAGES).transform(IMAGES)
    backbone = TorchBackbone(network, **UNIT).fit(IMAGES)
    assert backbone.device_.type == "cuda"
    np.testing.assert_allclose(backbone.transform(IMAGES), expected, atol=1e-4)
    state = backbone.__getstate__()
    assert next(state["module_"].parameters()).device.type == "cpu"
    copied = pickle.loads(pickle.dumps(backbone))
    np.testing.assert_allclose(copied.transform(IMAGES), expected, atol=1e-4)


# -- tensors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_tensors_are_accepted(dtype):
    network = trained_convnet()
    tensor = torch.from_numpy(IMAGES)
    if dtype != torch.uint8:
        tensor = (tensor / 255).to(dtype).requires_grad_()
    features = TorchBackbone(network, **UNIT).fit(tensor).transform(tensor)
    expected = TorchBackbone(network, **UNIT).fit_transform(IMAGES)
    np.testing.assert_allclose(features, expected, atol=0.02 if dtype == torch.bfloat16 else 1e-5)


# -- batches ---------------------------------------------------------------------------------------


def test_batches_come_one_by_one_and_from_any_row_on():
    backbone = TorchBackbone(trained_convnet(), **UNIT, batch_size=8).fit(IMAGES)
    features, probabilities = backbone.extract(IMAGES)
    for start in (0, 8, 13, 30):
        parts = list(backbone.iter_extract(IMAGES, start))
        ends = [start, *(rows.stop for rows, _, _ in parts)]
        assert [rows.start for rows, _, _ in parts] == ends[:-1] and ends[-1] == 30
        for rows, part, part_probabilities in parts:
            assert part.dtype == part_probabilities.dtype == np.float32
            np.testing.assert_allclose(part, features[rows], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(part_probabilities, probabilities[rows], atol=1e-6)
    headless = TorchBackbone(trained_convnet(), **UNIT, classifier=None).fit(IMAGES)
    assert all(found is None for _, _, found in headless.iter_extract(IMAGES))


@pytest.mark.parametrize("start", [-1, 31, 2.0, None])
def test_a_start_that_is_no_row_is_refused_before_anything_is_done(start):
    backbone = TorchBackbone(trained_convnet(), **UNIT).fit(IMAGES)
    with pytest.raises(ValueError, match="'start' must be a row number from 0 to 30, got"):
        backbone.iter_extract(IMAGES, start)
    with pytest.raises(ValueError, match="expecting images of shape"):
        backbone.iter_extract(IMAGES[:, :5])


def test_batches_that_were_given_are_not_changed_by_later_ones():
    backbone = TorchBackbone(trained_convnet(), **UNIT, batch_size=8).fit(IMAGES)
    parts = [part for _, part, _ in backbone.iter_extract(IMAGES)]
    np.testing.assert_allclose(np.vstack(parts), backbone.transform(IMAGES), rtol=1e-6)


def test_inference_mode_does_not_leak_while_a_batch_is_looked_at():
    backbone = TorchBackbone(trained_convnet(), **UNIT, batch_size=8).fit(IMAGES)
    for _ in backbone.iter_extract(IMAGES):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()


class Watched(nn.Module):
    """Keeps weak references to what it has computed."""

    def __init__(self):
        super().__init__()
        self.body, self.head = build_convnet()[:-1], nn.Linear(6, 4)
        self.made = []

    def forward(self, x):
        features = self.body(x)
        logits = self.head(features)
        self.made.append([weakref.ref(tensor) for tensor in (x, features, logits)])
        return logits


@pytest.mark.parametrize("n_workers", [0, 2])
def test_no_tensor_of_an_earlier_batch_stays_alive(n_workers):
    backbone = TorchBackbone(Watched(), **UNIT, batch_size=3, n_workers=n_workers).fit(IMAGES)
    made = backbone.module_.made
    made.clear()
    for _ in backbone.iter_extract(IMAGES):
        alive = [[ref() is not None for ref in batch] for batch in made[:-1]]
        assert not any(map(any, alive))
    assert len(made) == 10
    made.clear()
    backbone.extract(IMAGES)
    assert not any(ref() is not None for batch in made for ref in batch)


def test_features_too_large_for_their_squares_are_still_finite():
    X = np.full((4, 3), 3e30, dtype=np.float32)
    np.testing.assert_array_equal(TorchBackbone(nn.Identity()).fit(X).transform(X), X)


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("layer", ["penultimate", ["0", "penultimate"]])
def test_memory_of_the_gpu_does_not_grow_with_the_rows(layer):
    """Features agree with those of the CPU to 1 % of the largest: torch may use TF32 there."""
    many = np.concatenate([IMAGES] * 100)
    backbone = TorchBackbone(trained_convnet(), **UNIT, layer=layer).fit(IMAGES)
    assert backbone.device_.type == "cuda"
    peaks = []
    for X in (many[:300], many):
        torch.cuda.reset_peak_memory_stats()
        found = backbone.extract(X)
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= peaks[0] + 2**20
    on_cpu = TorchBackbone(trained_convnet(), **UNIT, layer=layer, device="cpu").fit(IMAGES)
    assert on_cpu.fingerprint() == backbone.fingerprint()
    for a, b in zip(found, on_cpu.extract(many), strict=True):
        assert np.abs(a - b).max() <= 1e-2 * np.abs(b).max()


def test_memory_is_bounded_by_one_batch_and_the_output(tmp_path):
    n, size = 20_000, 16
    images = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.uint8, (n, size, size))
    images[::7] = 200
    network = nn.Sequential(nn.Flatten(), nn.Linear(size * size, 64), nn.ReLU(), nn.Linear(64, 3))
    backbone = TorchBackbone(network, **UNIT, batch_size=256).fit(images)
    tracemalloc.start()
    try:
        features, probabilities = backbone.extract(images)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    output = features.nbytes + probabilities.nbytes
    assert output > 5_000_000
    assert peak < output + 2_000_000
