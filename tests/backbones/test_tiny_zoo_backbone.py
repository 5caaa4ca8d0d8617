"""TinyZooBackbone: networks that ship with the package."""

import copy
import functools
import json
import pickle
import shutil
from hashlib import sha256

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

from sktransfer.backbones import ModelCard, TinyResNet, TinyZooBackbone, TorchBackbone, _cards
from sktransfer.backbones._tiny_resnet import initial_state
from sktransfer.datasets import load_digits_target

DIGITS = load_digits_target()
IMAGES = DIGITS.images_train[:40]


def test_features_are_those_of_the_network_on_normalised_images():
    backbone = TinyZooBackbone("mnist").fit(IMAGES)
    card = backbone.card
    x = (torch.from_numpy(IMAGES)[:, None] / 255 - card.mean) / card.std
    network = backbone.module_
    with torch.no_grad():
        features = network.pool(network.stages(network.stem(x))).flatten(1)
        probabilities = network(x).softmax(1)
    got = backbone.extract(IMAGES)
    np.testing.assert_allclose(got[0], features, atol=1e-5)
    np.testing.assert_allclose(got[1], probabilities, atol=1e-5)
    assert got[0].dtype == got[1].dtype == np.float32


def test_it_finds_in_the_network_what_a_torch_backbone_finds():
    zoo = TinyZooBackbone("letters").fit(IMAGES)
    mean, std = zoo.card.mean, zoo.card.std
    own = TorchBackbone(zoo.module_, mean=mean, std=std).fit(IMAGES)
    assert own.classifier_layer_ == zoo.classifier_layer_ == "head"
    for a, b in zip(own.extract(IMAGES), zoo.extract(IMAGES), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x / 255,
        lambda x: x[..., None],
        lambda x: x[:, None],
        lambda x: np.repeat(x[..., None], 3, axis=3),
        lambda x: [Image.fromarray(image) for image in x],
    ],
)
def test_any_layout_gives_the_same(change):
    expected = TinyZooBackbone("mnist").fit_transform(IMAGES)
    X = change(IMAGES)
    np.testing.assert_allclose(TinyZooBackbone("mnist").fit(X).transform(X), expected, atol=1e-4)


def test_images_of_other_sizes_are_resized():
    X = np.kron(IMAGES, np.ones((1, 3, 3), np.uint8))
    large = TinyZooBackbone("mnist").fit(X).predict_proba(X)
    small = TinyZooBackbone("mnist").fit(IMAGES).predict_proba(IMAGES)
    assert np.mean(large.argmax(1) == small.argmax(1)) > 0.8


def test_vectors_are_refused():
    for X in (IMAGES.reshape(40, -1), [[0.0, 1.0]]):
        with pytest.raises(ValueError, match="TinyZooBackbone takes images"):
            TinyZooBackbone("mnist").fit(X)


def test_names_are_checked():
    with pytest.raises(ValueError, match="no network 'imagenet' in the tiny zoo; its names are"):
        TinyZooBackbone("imagenet").fit(IMAGES)
    with pytest.raises(ValueError, match="'name' parameter"):
        TinyZooBackbone(3).fit(IMAGES)
    with pytest.raises(ValueError, match="no network"):
        _ = TinyZooBackbone(["mnist"]).card


def test_copies_give_the_same():
    backbone = TinyZooBackbone("shapes", batch_size=9).fit(IMAGES)
    expected = backbone.transform(IMAGES)
    for other in (
        clone(backbone).fit(IMAGES),
        copy.deepcopy(backbone),
        pickle.loads(pickle.dumps(backbone)),
    ):
        np.testing.assert_array_equal(other.transform(IMAGES), expected)
    assert repr(backbone) == "TinyZooBackbone(batch_size=9, name='shapes')"


def test_card_is_there_before_fit_and_frozen():
    backbone = TinyZooBackbone("cells_half")
    assert isinstance(backbone.card, ModelCard)
    assert backbone.card.n_features == 32
    with pytest.raises(AttributeError):
        backbone.card.family = "mnist"


def test_loading_leaves_the_random_generators_alone():
    state = torch.get_rng_state()
    for name in ("mnist", "untrained"):
        TinyZooBackbone(name).fit(IMAGES).transform(IMAGES)
    assert torch.equal(torch.get_rng_state(), state)


def test_damaged_weights_are_told(tmp_path, monkeypatch):
    folder = tmp_path / "tiny_zoo"
    shutil.copytree(_cards._FOLDER, folder)
    monkeypatch.setattr(_cards, "_FOLDER", folder)
    path = folder / "mnist.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="mnist.safetensors is damaged: its SHA-256 digest"):
        TinyZooBackbone("mnist").fit(IMAGES)
    with pytest.raises(ValueError, match="is damaged"):
        _ = TinyZooBackbone("mnist").source_centroids


def test_incomplete_weights_are_told(tmp_path, monkeypatch):
    folder = tmp_path / "tiny_zoo"
    folder.mkdir()
    tensors = load_file(_cards.weights_path("mnist"))
    del tensors["head.bias"]
    save_file(tensors, folder / "mnist.safetensors")
    card = json.loads((_cards._FOLDER / "mnist.json").read_text())
    card["weights_sha256"] = sha256((folder / "mnist.safetensors").read_bytes()).hexdigest()
    (folder / "mnist.json").write_text(json.dumps(card))
    monkeypatch.setattr(_cards, "_FOLDER", folder)
    # The cards that other tests have read must be there again afterwards.
    monkeypatch.setattr(_cards, "_cards", functools.cache(_cards._cards.__wrapped__))
    with pytest.raises(ValueError, match=r"weights of 'mnist' lack \['head.bias'\]"):
        TinyZooBackbone("mnist").fit(IMAGES)


def test_source_centroids_lie_where_their_classes_are():
    """scikit-learn's digits are nearest to the centroid of the same MNIST digit, mostly."""
    backbone = TinyZooBackbone("mnist").fit(IMAGES)
    centroids = backbone.source_centroids
    assert centroids.shape == (10, 64)
    assert centroids.dtype == np.float32
    features = backbone.transform(DIGITS.images_train)
    distances = ((features[:, None] - centroids) ** 2).sum(axis=2)
    assert np.mean(distances.argmin(axis=1) == DIGITS.y_train) > 0.6
    assert TinyZooBackbone("untrained").source_centroids is None


# -- the network -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "n_parameters"), [(0.5, 19810), (1, 77754), (2, 308074)])
def test_sizes_of_the_network(width, n_parameters):
    network = TinyResNet(10, width)
    assert sum(parameter.numel() for parameter in network.parameters()) == n_parameters
    assert network.eval()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_initial_weights_depend_on_the_seed_alone():
    network = TinyResNet(3)
    before = copy.deepcopy(network.state_dict())
    first, again, other = (initial_state(network, seed) for seed in (1, 1, 2))
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert torch.equal(first[name], again[name])
        assert first[name].shape == tensor.shape
    assert not torch.equal(first["head.weight"], other["head.weight"])
    # A value that must not change with versions of torch or numpy.
    assert first["stem.0.weight"][0, 0, 0, 0].item() == pytest.approx(-0.135502502, abs=1e-8)
    assert first["stem.0.weight"].std().item() == pytest.approx(np.sqrt(2 / 9), rel=0.2)
    assert (first["stem.1.running_var"] == 1).all()
    assert (first["stages.1.shortcut.1.weight"] == 1).all()
    assert (first["stages.0.norm2.bias"] == 0).all()


def test_cards_are_plain_json():
    for path in _cards._FOLDER.glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["name"] == path.stem
