"""The bundled zoo: complete, small, consistent, and varied enough to rank."""

from hashlib import sha256

import numpy as np
import pytest
from safetensors import safe_open

from sktransfer.backbones import TinyZooBackbone, _cards
from sktransfer.datasets import load_digits_target, load_tiny_zoo

ZOO = dict(load_tiny_zoo())
CARDS = {name: backbone.card for name, backbone in ZOO.items()}
PRETRAINED = [name for name, card in CARDS.items() if card.pretrained]
FOLDER = _cards._FOLDER


def test_it_is_a_list_of_named_backbones_that_are_not_fitted():
    zoo = load_tiny_zoo(batch_size=16, device="cpu")
    assert isinstance(zoo, list)
    assert len(zoo) == len(ZOO) >= 24
    for name, backbone in zoo:
        assert isinstance(backbone, TinyZooBackbone)
        assert backbone.name == name
        assert (backbone.batch_size, backbone.device) == (16, "cpu")
        assert not hasattr(backbone, "module_")
        assert "__" not in name


def test_at_least_fourteen_sources_and_three_widths():
    assert len({(card.source, card.n_source_images) for card in CARDS.values()}) >= 14
    by_width = {w: [n for n, c in CARDS.items() if c.width == w] for w in (0.5, 1.0, 2.0)}
    assert sum(map(len, by_width.values())) == len(ZOO)
    assert min(map(len, by_width.values())) >= 3
    # Size must not simply follow the source: each width has sources near and far, and a control.
    for names in by_width.values():
        assert {CARDS[name].family for name in names} >= {"none", "fashion", "letters"}


@pytest.mark.parametrize("family", sorted({card.family for card in CARDS.values()} - {"none"}))
def test_a_family_can_be_left_out(family):
    rest = load_tiny_zoo(exclude_families=family)
    assert len(rest) >= 14
    assert family not in {backbone.card.family for _, backbone in rest}
    assert [name for name, _ in rest] == [n for n in ZOO if CARDS[n].family != family]
    assert len(load_tiny_zoo(exclude_families=[family, "none"])) == len(rest) - 3


def test_the_choice_of_networks_is_checked():
    assert [name for name, _ in load_tiny_zoo(names=["shapes", "mnist"])] == ["shapes", "mnist"]
    assert load_tiny_zoo(names=["mnist"], exclude_families=("mnist",)) == []
    with pytest.raises(ValueError, match=r"unknown families \['digits'\]; there are \['cells', "):
        load_tiny_zoo(exclude_families=["mnist", "digits"])
    with pytest.raises(ValueError, match="no network 'cats' in the tiny zoo"):
        load_tiny_zoo(names=["cats"])
    with pytest.raises(ValueError, match="must be a sequence of names, got 'mnist'"):
        load_tiny_zoo(names="mnist")


def test_the_weights_are_small_and_nothing_else_is_there():
    files = sorted(FOLDER.iterdir())
    assert sum(file.stat().st_size for file in files) < 5_000_000
    expected = {f"{name}.json" for name in ZOO} | {f"{name}.safetensors" for name in PRETRAINED}
    assert {file.name for file in files} == expected


@pytest.mark.parametrize("name", list(ZOO))
def test_cards_are_complete(name):
    card = CARDS[name]
    assert card.name == name
    assert card.source
    assert card.description
    assert card.licence
    assert len(card.classes) == len(set(card.classes)) == card.n_classes >= 2
    assert card.input_size == (28, 28)
    assert card.channels == 1
    assert 0 < card.mean < 1
    assert 0 < card.std < 1
    if card.pretrained:
        assert card.n_source_images >= 100
        assert 0 <= card.source_accuracy <= 1
    else:
        assert (card.family, card.n_source_images) == ("none", 0)
        assert card.source_accuracy is None
        assert card.weights_sha256 is None


def test_sources_were_learned_unless_their_labels_are_random():
    for name in PRETRAINED:
        card = CARDS[name]
        if name == "fashion_random":
            assert abs(card.source_accuracy - 0.1) < 0.03
        else:
            assert card.source_accuracy > 1 / card.n_classes + 0.3
    assert len({card.seed for card in CARDS.values()}) == len(CARDS)


@pytest.mark.parametrize("name", PRETRAINED)
def test_files_hold_what_the_cards_say(name):
    path, card = FOLDER / f"{name}.safetensors", CARDS[name]
    assert sha256(path.read_bytes()).hexdigest() == card.weights_sha256
    with safe_open(path, "numpy") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float16)}
    centroids = tensors.pop("source_centroids")
    assert centroids.shape == (card.n_classes, card.n_features)
    statistics = [key for key in tensors if "running" in key]
    n_parameters = sum(tensors[key].size for key in tensors if key not in statistics)
    assert n_parameters == card.n_parameters
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_every_network_runs_and_none_gives_what_another_gives():
    images = load_digits_target().images_train[:20]
    seen = []
    for name, backbone in ZOO.items():
        features, probabilities = backbone.fit(images).extract(images)
        card = CARDS[name]
        assert features.shape == (20, card.n_features)
        assert probabilities.shape == (20, card.n_classes)
        assert backbone.n_parameters_ == card.n_parameters
        assert features.std() > 1e-3
        seen.append(probabilities.max(axis=1))
    for i, first in enumerate(seen):
        for second in seen[:i]:
            assert not np.allclose(first, second, atol=1e-3)
