"""Networks with weights from a file: all of the backbone, or a sentence on what is missing."""

import argparse
import copy
import os
import pickle
import random
import re
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.backbones._checkpoint import read_checkpoint
from sktransfer.exceptions import CheckpointMismatchWarning, HeadNotLoadedWarning

X = np.random.default_rng(0).integers(0, 256, size=(6, 9, 9), dtype=np.uint8)
UNIT = {"mean": 0.0, "std": 1.0}


class Network(nn.Module):
    """Small, with everything that files of weights have: lists of layers, buffers, a head."""

    def __init__(self, n_classes=3, depth=2, width=4):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width))
                for _ in range(depth)
            )
        )
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def trained(seed=1, **parameters):
    torch.manual_seed(seed)
    network = Network(**parameters)
    for name, buffer in network.named_buffers():
        if name.endswith(("mean", "var")):
            buffer.uniform_(0.5, 1.5)
    return network


def prefixed(state, prefix):
    return {prefix + name: value for name, value in state.items()}


def without(state, *starts):
    return {name: value for name, value in state.items() if not name.startswith(starts)}


@pytest.fixture
def stored(tmp_path):
    """Write something as torch.save does, and give the path."""

    def store(content, name="weights.pth", **options):
        torch.save(content, tmp_path / name, **options)
        return tmp_path / name

    return store


def load(path, factory=Network, **parameters):
    return TorchBackbone.from_checkpoint(factory, path, **UNIT, **parameters).fit(X)


def assert_same(backbone, network, head=True):
    features, probabilities = backbone.extract(X)
    expected = TorchBackbone(network, **UNIT).fit(X).extract(X)
    np.testing.assert_array_equal(features, expected[0])
    if head:
        np.testing.assert_array_equal(probabilities, expected[1])
    else:
        assert probabilities is None


# -- what is read ----------------------------------------------------------------------------------


def test_files_of_every_format_give_the_same(stored, tmp_path):
    network = trained()
    state = network.state_dict()
    save_file(state, tmp_path / "weights.safetensors")
    save_file(state, tmp_path / "no_suffix")
    paths = [
        stored(state),
        stored(state, "old.pth", _use_new_zipfile_serialization=False),
        tmp_path / "weights.safetensors",
        tmp_path / "no_suffix",
        str(stored(state, "as_text.bin")),
    ]
    for path in paths:
        backbone = load(path)
        assert_same(backbone, network)
        report = backbone.loading_report_
        assert (report.prefix, report.container, report.unexpected) == ("", "", [])
        assert report.n_loaded == report.n_expected == len(state)
        assert report.head_loaded is True
        assert backbone.pretrained_ is True
        assert backbone.weights_ == report.path == str(path)
    assert len({load(path).weights_hash_ for path in paths}) == 1
    assert len({load(path).fingerprint() for path in paths}) == 1


@pytest.mark.parametrize(
    "container", ["net", "state_dict", "model", "model_state_dict", "whatever", "state.model"]
)
def test_weights_among_other_things_are_found(stored, container):
    network = trained()
    content = {"epoch": 3, "accuracy": torch.tensor(0.5), "args": {"lr": 0.1, "name": "x"}}
    optimizer = torch.optim.Adam(network.parameters())
    content["optimizer"] = optimizer.state_dict()
    content["optimizer_state"] = {name: torch.zeros(2) for name in "abcdefghijklmnopqrst"}
    inner = content
    *outer, last = container.split(".")
    for key in outer:
        inner = inner.setdefault(key, {})
    inner[last] = network.state_dict()
    backbone = load(stored(content))
    assert_same(backbone, network)
    assert backbone.loading_report_.container == container


def test_the_known_one_of_several_sets_of_weights_is_taken(stored):
    network = trained()
    content = {"ema": trained(5).state_dict(), "model": network.state_dict(), "x": {"y": X[0, 0]}}
    del content["x"]
    backbone = load(stored(content))
    assert_same(backbone, network)
    assert backbone.loading_report_.container == "model"
    content = {"first": trained(5).state_dict(), "second": network.state_dict()}
    with pytest.raises(ValueError, match=r"several sets of weights, \['first', 'second'\]"):
        load(stored(content))


def test_half_precision_files_are_loaded_into_the_precision_of_the_network(stored):
    network = trained().half()
    backbone = load(stored(network.state_dict()))
    assert backbone.module_.stem.weight.dtype == torch.float32
    assert_same(backbone, network.float())


# -- prefixes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix",
    ["module.", "model.", "backbone.", "module.model.", "module.module.", "_orig_mod.", "a.b.c."],
)
def test_prefixes_are_recognised_and_reported(stored, prefix):
    network = trained()
    path = stored({"state_dict": prefixed(network.state_dict(), prefix), "epoch": 1})
    for choice in ("auto", prefix, prefix[:-1]):
        backbone = load(path, prefix=choice)
        assert_same(backbone, network)
        assert backbone.loading_report_.prefix == prefix
        assert backbone.loading_report_.head_loaded


def test_a_head_outside_of_the_prefix_is_found(stored):
    network = trained()
    state = network.state_dict()
    for outer in ("", "module."):
        content = prefixed(without(state, "head"), f"{outer}backbone.")
        content |= prefixed(without(state, "stem", "blocks"), outer)
        backbone = load(stored(content))
        assert_same(backbone, network)
        assert backbone.loading_report_.prefix == f"{outer}backbone."
        assert backbone.loading_report_.unexpected == []


def test_a_prefix_that_only_the_network_has_is_put_before(stored):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Network()

        def forward(self, x):
            return self.inner(x)

    network = trained()
    backbone = load(stored(network.state_dict()), factory=Wrapped)
    assert_same(backbone, network)
    assert backbone.loading_report_.added_prefix == "inner."
    backbone = load(stored(prefixed(network.state_dict(), "module.")), factory=Wrapped)
    assert_same(backbone, network)
    report = backbone.loading_report_
    assert (report.prefix, report.added_prefix) == ("module.", "inner.")


def test_the_usual_prefix_goes_before_others_and_none_before_all(stored):
    network, other = trained(), trained(5)
    content = prefixed(network.state_dict(), "model.") | prefixed(other.state_dict(), "ema_model.")
    backbone = load(stored(content))
    assert_same(backbone, network)
    assert len(backbone.loading_report_.unexpected) == len(network.state_dict())
    content = network.state_dict() | prefixed(other.state_dict(), "teacher.")
    assert_same(load(stored(content)), network)


def test_several_prefixes_that_fit_have_to_be_chosen_from(stored):
    network, other = trained(), trained(5)
    content = prefixed(network.state_dict(), "left.") | prefixed(other.state_dict(), "right.")
    path = stored(content)
    with pytest.raises(ValueError, match=r"several prefixes, \['left\.', 'right\.'\]"):
        load(path)
    assert_same(load(path, prefix="left."), network)
    assert_same(load(path, prefix="right"), other)


# -- what must be there ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stem.weight", "blocks.1.1.bias", "blocks.0.1.running_mean"])
def test_a_weight_of_the_backbone_that_is_missing_is_an_error(stored, name):
    path = stored(without(trained().state_dict(), name))
    with pytest.raises(ValueError, match=f"missing are {re.escape(name)}. Only the classifier"):
        TorchBackbone.from_checkpoint(Network, path)  # at once
    # The same by the parameter, which is looked at in fit.
    with pytest.raises(ValueError, match=f"missing are {re.escape(name)}"):
        TorchBackbone(Network, checkpoint=path, **UNIT).fit(X)


def test_another_network_is_an_error_that_lists_what_differs(stored):
    path = stored(trained(width=5).state_dict())
    with pytest.raises(ValueError, match="not one of this network") as caught:
        load(path)
    message = str(caught.value)
    assert "stem.weight (5, 1, 3, 3) instead of (4, 1, 3, 3)" in message
    assert "\n" not in message
    path = stored({f"features.{i}.kernel": torch.zeros(2) for i in range(40)})
    with pytest.raises(
        ValueError, match=r"0 of its 16 weights .* the file has features\.0\.kernel"
    ):
        load(path)
    path = stored(trained(depth=9).state_dict())
    with pytest.raises(ValueError, match="and 30 more; the file|and 41 more|missing are"):
        load(path, factory=partial(Network, depth=30))


def test_a_wrong_prefix_is_an_error(stored):
    with pytest.raises(ValueError, match="0 of its 16 weights"):
        load(stored(prefixed(trained().state_dict(), "module.")), prefix="backbone")
    with pytest.raises(ValueError, match="0 of its 16 weights"):
        load(stored(prefixed(trained().state_dict(), "module.")), prefix="")


def test_counters_of_batches_may_be_missing(stored):
    state = trained().state_dict()
    state = {name: v for name, v in state.items() if not name.endswith("num_batches_tracked")}
    backbone = load(stored(state))
    assert_same(backbone, trained())
    assert backbone.loading_report_.missing == [
        "blocks.0.1.num_batches_tracked",
        "blocks.1.1.num_batches_tracked",
    ]
    assert backbone.loading_report_.head_loaded


def test_weights_nobody_asked_for_are_reported(stored):
    state = trained().state_dict() | {"projector.0.weight": torch.zeros(2), "queue": torch.ones(3)}
    backbone = load(stored(state))
    assert_same(backbone, trained())
    assert backbone.loading_report_.unexpected == ["projector.0.weight", "queue"]
    assert backbone.loading_report_.unused_layers == []


def test_the_file_of_a_deeper_network_is_announced(stored):
    path = stored(prefixed(trained(depth=4).state_dict(), "module."))
    with pytest.warns(CheckpointMismatchWarning, match=r"\['blocks\.2', 'blocks\.3'\]: it seems"):
        backbone = load(path)
    assert backbone.loading_report_.unused_layers == ["blocks.2", "blocks.3"]


# -- the head --------------------------------------------------------------------------------------


def test_a_missing_head_is_allowed_and_said_and_gives_no_probabilities(stored):
    network = trained()
    path = stored({"net": without(network.state_dict(), "head")})
    with pytest.warns(HeadNotLoadedWarning, match="'head' were not loaded .*not in the file"):
        backbone = load(path)
    assert_same(backbone, network, head=False)
    assert backbone.classifier_layer_ == "head"
    assert not hasattr(backbone, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        backbone.predict_proba(X)
    assert "'head' are not those of the checkpoint, so" in str(caught.value.__cause__)
    report = backbone.loading_report_
    assert (report.head, report.head_loaded) == ("head", False)
    assert report.missing == ["head.weight", "head.bias"]
    assert report.n_loaded == report.n_expected - 2


@pytest.mark.parametrize("left", ["head.weight", "head.bias"])
def test_half_a_head_is_none(stored, left):
    path = stored(without(trained().state_dict(), left))
    with pytest.warns(HeadNotLoadedWarning):
        backbone = load(path)
    assert backbone.extract(X)[1] is None
    assert backbone.loading_report_.n_loaded == backbone.loading_report_.n_expected - 2


def test_a_head_of_another_shape_is_allowed_and_said(stored):
    network = trained(n_classes=7)
    path = stored(network.state_dict())
    with pytest.warns(HeadNotLoadedWarning, match=r"head\.weight \(7, 4\) instead of \(3, 4\)"):
        backbone = load(path)
    assert_same(backbone, network, head=False)
    assert backbone.loading_report_.mismatched == {
        "head.weight": ((7, 4), (3, 4)),
        "head.bias": ((7,), (3,)),
    }


def test_a_head_can_be_required_or_ignored(stored):
    network = trained()
    whole = stored(network.state_dict())
    part = stored(without(network.state_dict(), "head"), "part.pth")
    assert_same(load(whole, head="required"), network)
    with pytest.raises(ValueError, match="missing are head.weight, head.bias"):
        load(part, head="required")
    for path in (whole, part):  # and no warning
        backbone = load(path, head="ignore")
        assert_same(backbone, network, head=False)
        assert backbone.loading_report_.head_loaded is False
    assert_same(load(whole, head="ignore", classifier="head"), network, head=False)


def test_only_the_classifier_may_be_missing(stored):
    class Squashed(Network):
        """Ends in an activation: its linear layer is part of the backbone."""

        def forward(self, x):
            return torch.relu(super().forward(x))

    path = stored(without(trained().state_dict(), "head"))
    with pytest.raises(ValueError, match="'head' is not the classifier layer .* which is None"):
        load(path, factory=Squashed)
    # By name it is one.
    with pytest.warns(HeadNotLoadedWarning):
        load(path, factory=Squashed, classifier="head")
    with pytest.raises(ValueError, match="missing are head.weight"):
        load(path, classifier=None)
    with pytest.raises(ValueError, match="missing are stem"):
        load(stored(without(trained().state_dict(), "stem")), classifier="head")


def test_a_network_without_a_head_takes_a_file_with_one(stored):
    class Headless(Network):
        def __init__(self):
            super().__init__()
            self.head = nn.Identity()

    network = trained()
    backbone = load(stored(network.state_dict()), factory=Headless)
    assert_same(backbone, network, head=False)
    assert backbone.loading_report_.head_loaded is None
    assert backbone.loading_report_.unexpected == ["head.weight", "head.bias"]


# -- files that cannot be read ---------------------------------------------------------------------


def refuse(path, match, error=ValueError):
    with pytest.raises(error, match=match) as caught:
        TorchBackbone.from_checkpoint(Network, path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert "weights_only" not in message


def test_files_that_are_not_there(tmp_path):
    refuse(tmp_path / "none.pth", "There is no checkpoint", FileNotFoundError)
    refuse(tmp_path, "is a folder")
    with pytest.raises(ValueError, match="'checkpoint' parameter of TorchBackbone"):
        TorchBackbone.from_checkpoint(Network, 3)


@pytest.mark.parametrize("part", [0.9, 0.5, 0.02])
@pytest.mark.parametrize("kind", ["zip", "old", "safetensors"])
def test_files_that_are_cut_off(stored, tmp_path, kind, part):
    path = tmp_path / "weights"
    if kind == "safetensors":
        save_file(trained().state_dict(), path)
    else:
        stored(trained().state_dict(), "weights", _use_new_zipfile_serialization=kind == "zip")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    refuse(path, "damaged or cut off")


def test_single_bits_that_changed(stored):
    """torch would load such a file."""
    path = stored(trained().state_dict())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("weights/data/0").header_offset
    content = bytearray(path.read_bytes())
    start = content.index(trained().stem.weight.detach().numpy().tobytes(), place)
    content[start + 5] ^= 1
    path.write_bytes(content)
    torch.load(path, weights_only=True)
    refuse(path, "damaged or cut off: wrong checksum of weights/data/0")


def test_files_without_checksums_are_read(stored):
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        path = stored(trained().state_dict())
    finally:
        torch.serialization.set_crc32_options(before)
    assert_same(load(path), trained())


def test_files_of_something_else(stored, tmp_path):
    path = tmp_path / "weights.pth"
    path.write_text("<html>404: not found, and some more text</html>")
    refuse(path, "is no file of weights")
    path.write_bytes(b"")
    refuse(path, "is empty")
    path.write_bytes(pickle.dumps({"a": 1}, protocol=4))
    refuse(path, "is no file of weights")
    np.savez(tmp_path / "array.npz", a=np.zeros(3))
    refuse(tmp_path / "array.npz", "damaged or cut off")
    refuse(stored([torch.zeros(2)]), "holds a list, not weights by name")
    refuse(stored({"epoch": 3, "loss": [1.0]}), r"no weights by name; its keys are \['epoch', 'lo")
    refuse(stored({1: torch.zeros(2)}), "holds no weights by name")


class Malicious:
    def __reduce__(self):
        return os.mkdir, (str(Path(os.environ["SKTRANSFER_TRAP"])),)


def test_nothing_in_a_file_is_run(stored, tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    monkeypatch.setenv("SKTRANSFER_TRAP", str(trap))
    state = trained().state_dict()
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        refuse(stored({"net": state, "x": Malicious()}, **options), "holds more than weights")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Malicious(), protocol=2))
    refuse(tmp_path / "plain.pth", "no file of weights")
    assert not trap.exists()
    refuse(stored({"net": state, "args": argparse.Namespace(lr=1)}), r"\(argparse\.Namespace\)")
    refuse(stored(trained()), "holds more than weights")  # a whole module


@pytest.mark.filterwarnings(
    "ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning"
)
def test_programs_are_not_weights(tmp_path):
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), tmp_path / "net.pt")
    refuse(tmp_path / "net.pt", "is a TorchScript program")


def test_what_the_network_itself_refuses(stored):
    class Picky(Network):
        def load_state_dict(self, state, strict=True):
            raise RuntimeError("not\n today")

    class Dropping(Network):
        def _load_from_state_dict(self, state, prefix, meta, strict, missing, unexpected, errors):
            unexpected.append("ghost")

    path = stored(trained().state_dict())
    with pytest.raises(ValueError, match="cannot be loaded: not today"):
        TorchBackbone.from_checkpoint(Picky, path)
    with pytest.raises(ValueError, match="the network did not take ghost"):
        TorchBackbone.from_checkpoint(Dropping, path)


def test_random_damage_never_gives_weights_in_silence(stored):
    """Any byte may be hit: either the weights are those that were saved, or there is an error."""
    state = trained().state_dict()
    path = stored(state)
    content, draw = path.read_bytes(), random.Random(0)
    n_refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found, _ = read_checkpoint(path)
        except ValueError as error:
            n_refused += 1
            assert "\n" not in str(error)
        else:
            assert all(torch.equal(found[name], value) for name, value in state.items())
    assert n_refused > 75


# -- an ordinary estimator -------------------------------------------------------------------------


def test_it_is_an_estimator_like_any_other(stored):
    network = trained()
    path = stored({"net": prefixed(network.state_dict(), "module.")})
    backbone = TorchBackbone.from_checkpoint(Network, path, batch_size=4, **UNIT)
    with pytest.raises(NotFittedError):
        backbone.transform(X)
    assert backbone.get_params()["checkpoint"] == path
    assert backbone.get_params()["batch_size"] == 4
    assert clone(backbone).get_params() == backbone.get_params()
    assert str(path) in repr(backbone)
    backbone.fit(X)
    for other in (
        clone(backbone).fit(X),
        copy.deepcopy(backbone),
        pickle.loads(pickle.dumps(backbone)),
    ):
        assert_same(other, network)
        assert other.fingerprint() == backbone.fingerprint()
        assert other.loading_report_ == backbone.loading_report_
    # Other weights, another candidate; the same network without a file is untrained.
    torch.save(trained(5).state_dict(), path)
    other = clone(backbone).fit(X)
    assert other.weights_hash_ != backbone.weights_hash_
    assert other.fingerprint() != backbone.fingerprint()
    untrained = clone(backbone).set_params(checkpoint=None).fit(X)
    assert untrained.pretrained_ is False
    backbone.set_params(checkpoint=None).fit(X)
    assert not hasattr(backbone, "loading_report_")
    assert backbone.pretrained_ is False
    path.unlink()
    with pytest.raises(FileNotFoundError):
        other.fit(X)


def test_a_module_takes_a_checkpoint_too_and_stays_as_it_is(stored):
    own, network = trained(5), trained()
    before = copy.deepcopy(own.state_dict())
    backbone = load(stored(network.state_dict()), factory=own)
    assert_same(backbone, network)
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())


def test_paths_of_the_home_folder(stored, monkeypatch):
    path = stored(trained().state_dict())
    monkeypatch.setenv("HOME", str(path.parent))
    assert_same(load(f"~/{path.name}"), trained())


def test_global_state_is_left_alone(stored):
    path = stored(trained().state_dict())
    state = torch.get_rng_state()
    load(path)
    assert torch.equal(torch.get_rng_state(), state)


# -- torchvision's second normalisation ------------------------------------------------------------


class Normalising(Network):
    def __init__(self, transform_input=False):
        super().__init__()
        self.transform_input = transform_input

    def forward(self, x):
        return super().forward(2 * x if self.transform_input else x)


def test_a_second_normalisation_is_reported_and_its_lack_announced(stored):
    network = Normalising(transform_input=True)
    network.load_state_dict(trained().state_dict())
    path = stored(network.state_dict(), "own.pth")
    on = load(path, factory=partial(Normalising, True))
    assert on.loading_report_.hidden_normalization == "on"
    assert_same(on, network)  # the round trip changes nothing
    off = load(path, factory=Normalising)
    assert off.loading_report_.hidden_normalization == "off"
    assert on.fingerprint() != off.fingerprint()
    assert load(path).loading_report_.hidden_normalization is None
    official = stored(network.state_dict(), "googlenet-1378be20.pth")
    with pytest.warns(CheckpointMismatchWarning, match="trained with transform_input=True"):
        load(official, factory=Normalising)
    load(official, factory=partial(Normalising, True))


# -- random weights are said to be random ----------------------------------------------------------


def test_random_weights_of_a_factory_are_recognised():
    torch.manual_seed(0)
    network = Network()

    def loaded():
        fresh = Network()
        fresh.load_state_dict(network.state_dict())
        return fresh

    def new_head():
        fresh = loaded()
        fresh.head = nn.Linear(4, 2)
        return fresh

    calls = []

    def once():
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("no second time")
        return Network()

    class Constant(nn.Module):
        def forward(self, x):
            return x.flatten(1)

    class ZeroHead(Network):
        def __init__(self):
            super().__init__()
            nn.init.zeros_(self.head.weight)

    class Zero(Network):
        def __init__(self):
            super().__init__()
            for parameter in self.parameters():
                nn.init.zeros_(parameter)

    for module, pretrained, weights in (
        (Network, False, "untrained"),
        (partial(Network, 5), False, "untrained"),
        (ZeroHead, False, "untrained"),
        (Zero, None, "made by a factory"),
        (loaded, None, "made by a factory"),
        (new_head, None, "made by a factory"),
        (lambda: network, None, "made by a factory"),
        (once, None, "made by a factory"),
        (Constant, None, "made by a factory"),
        (network, None, "passed as a module"),
    ):
        backbone = TorchBackbone(module, **UNIT).fit(X)
        assert backbone.pretrained_ is pretrained
        assert backbone.weights_ == weights


def test_networks_too_large_to_be_built_twice_are_not(monkeypatch):
    monkeypatch.setattr("sktransfer.backbones._building._CHEAP_PARAMETERS", 10)
    assert TorchBackbone(Network, **UNIT).fit(X).pretrained_ is None
