"""timm's networks by name: their own preprocessing and classifier, and never a declared width."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_sample_images

from sktransfer.backbones import TimmBackbone
from sktransfer.exceptions import HeadNotLoadedWarning

X = np.random.default_rng(0).integers(0, 256, size=(3, 40, 50, 3), dtype=np.uint8)


def test_without_timm_there_is_one_clear_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    backbone = TimmBackbone("resnet18")
    assert repr(backbone) == "TimmBackbone(name='resnet18')"
    assert clone(backbone).get_params() == backbone.get_params()
    with pytest.raises(ImportError, match=r"pip install 'sktransfer\[timm\]' \(import of timm hal"):
        backbone.fit(X)


timm = pytest.importorskip("timm")

# Name, name and width of the input of the classifier layer: ten families.
NETWORKS = [
    ("test_byobnet", "head.fc", 256),
    ("test_convnext", "head.fc", 64),
    ("test_efficientnet", "classifier", 256),
    ("test_mambaout", "head.fc", 256),
    ("test_nfnet", "head.fc", 192),
    ("test_resnet", "fc", 96),
    ("test_vit", "head", 64),
    ("test_vit4", "head", 96),
    ("lcnet_050", "classifier", 1280),
    ("mobilenetv3_small_050", "classifier", 1024),
    ("mobilenetv4_conv_small", "classifier", 1280),
    ("edgenext_xx_small", "head.fc", 168),
]


@pytest.fixture(scope="module")
def untrained():
    return TimmBackbone("test_vit", weights=None).fit(X)


# -- the layer -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "layer", "width"), NETWORKS)
def test_features_are_the_input_of_the_last_learned_layer(name, layer, width):
    backbone = TimmBackbone(name, weights=None).fit(X[:2])
    assert backbone.classifier_layer_ == layer
    features, probabilities = backbone.extract(X[:2])
    assert features.shape == (2, width)
    assert backbone.n_features_out_ == width
    x = backbone._make_preprocessing()(torch.from_numpy(X[:2]).permute(0, 3, 1, 2))
    with torch.inference_mode():
        logits = backbone.module_(x)
        again = backbone.module_.get_submodule(layer)(torch.from_numpy(features))
        theirs = backbone.module_.forward_head(
            backbone.module_.forward_features(x), pre_logits=True
        )
    np.testing.assert_allclose(again, logits, atol=1e-5 * float(logits.abs().max()))
    np.testing.assert_allclose(probabilities, logits.softmax(1), atol=1e-5)
    np.testing.assert_allclose(features, theirs, atol=1e-5 * np.abs(features).max())
    assert backbone.n_parameters_ == sum(p.numel() for p in backbone.module_.parameters())


def test_the_declared_width_is_not_trusted():
    backbone = TimmBackbone("mobilenetv4_conv_small", weights=None).fit(X[:1])
    assert backbone.module_.num_features == 960
    assert backbone.n_features_out_ == backbone.transform(X[:1]).shape[1] == 1280


def test_averaged_classifiers_are_an_error_that_shows_the_layers():
    """What comes out of a distilled network is the mean of two classifiers."""
    with pytest.raises(ValueError, match="has no classifier layer .* as in layer='fc_norm'|norm'"):
        TimmBackbone("deit_tiny_distilled_patch16_224", weights=None).fit(X[:1])
    backbone = TimmBackbone("deit_tiny_distilled_patch16_224", weights=None, layer="norm")
    assert backbone.fit(X[:1]).n_features_out_ == 192
    assert not hasattr(backbone, "predict_proba")


def test_networks_without_a_classifier_give_their_output():
    class Headless(TimmBackbone):
        def _create(self, pretrained):
            return timm.create_model(self.name, pretrained=pretrained, num_classes=0)

    backbone = Headless("test_vit", weights=None).fit(X)
    assert backbone.classifier_layer_ is None
    assert backbone.n_features_out_ == 64
    assert backbone.extract(X)[1] is None


def test_a_projection_to_a_space_shared_with_texts_gives_no_classes():
    backbone = TimmBackbone("vit_xsmall_patch16_clip_224.tinyclip_yfcc15m", weights=None)
    features, probabilities = backbone.fit(X[:1]).extract(X[:1])
    assert backbone.classifier_layer_ == "head"
    assert features.shape == (1, backbone.module_.head.in_features)
    assert probabilities is None
    # Of all that timm has, label sets and spaces are told apart.
    with_classes = {1000, 11221, 11821, 19168, 21841, 21842, 21843, 115217}
    for name in timm.list_models(pretrained=True):
        n_classes = timm.models.get_pretrained_cfg(name).num_classes
        assert (n_classes in with_classes) == (n_classes % 64 > 0), name


def test_tokens_before_the_patches_are_left_out_of_a_mean():
    backbone = TimmBackbone("test_vit2", weights=None, layer="norm", pooling="mean").fit(X)
    n_prefix = backbone.module_.num_prefix_tokens
    assert n_prefix > 0
    x = backbone._make_preprocessing()(torch.from_numpy(X).permute(0, 3, 1, 2))
    with torch.inference_mode():
        tokens = backbone.module_.forward_features(x)
    expected = tokens[:, n_prefix:].mean(dim=1)
    np.testing.assert_allclose(backbone.transform(X), expected, rtol=1e-4, atol=1e-5)


# -- preprocessing ---------------------------------------------------------------------------------


def test_preprocessing_is_that_of_the_network_itself(untrained):
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    photographs.append(photographs[0].crop((0, 0, 200, 400)))
    for name in ("test_vit", "test_resnet"):
        backbone = TimmBackbone(name, weights=None).fit(photographs)
        config = timm.data.resolve_model_data_config(backbone.module_)
        transform = timm.data.create_transform(**config, is_training=False)
        with torch.inference_mode():
            expected = backbone.module_(torch.stack([transform(p) for p in photographs]))
        expected = expected.softmax(1).numpy()
        found = backbone.predict_proba(photographs)
        assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)


def test_every_network_has_a_preprocessing_that_can_be_done():
    modes = set()
    for name in timm.list_models():
        config = TimmBackbone(name)._configuration()
        preprocessing = TimmBackbone(name)._make_preprocessing()
        assert preprocessing.mean == tuple(config.mean)
        assert preprocessing.std == tuple(config.std)
        assert preprocessing.size == tuple(config.input_size[1:])
        assert preprocessing.interpolation == config.interpolation
        modes.add(config.crop_mode)
    assert modes >= {"center", "squash"}


@pytest.mark.parametrize("lost", ["mean", "std", "everything"])
def test_unknown_statistics_are_an_error(lost, monkeypatch):
    config = timm.models.get_pretrained_cfg("test_vit")
    config = None if lost == "everything" else replace(config, **{lost: None})
    monkeypatch.setattr(timm.models, "get_pretrained_cfg", lambda *args, **kwargs: config)
    with pytest.raises(ValueError, match=r"does not tell the normalisation \(mean and std\)"):
        TimmBackbone("test_vit", weights=None).fit(X)


# -- names and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("resnet81", "'name' parameter .* got 'resnet81'; do you mean 'resnet18'"),
        ("ResNet18.a1_in1k", "do you mean 'resnet18'"),
        ("resnet18.a1_in2k", "weights 'a1_in2k' of 'resnet18', which .* do you mean 'a1_in1k'"),
        ("", "got ''; there are"),
        ("hf-hub:someone/something", "got 'hf-hub:someone/something'"),
    ],
)
def test_unknown_names_are_refused_before_any_work(name, match):
    for backbone in (TimmBackbone(name), TimmBackbone(name, weights=None)):
        with pytest.raises(ValueError, match=match) as caught:
            backbone.fit(["no such file"])
        assert "\n" not in str(caught.value)


def test_networks_that_timm_has_no_weights_of():
    name = next(
        name for name in timm.list_models() if not TimmBackbone(name)._configuration().has_weights
    )
    with pytest.raises(ValueError, match=f"no pretrained weights for '{name}'.*weights=None is"):
        TimmBackbone(name).fit(X)


def test_wrong_kinds_of_parameters():
    for parameters in ({"name": 3}, {"weights": 1.5}, {"batch_size": 0}, {"pooling": "max"}):
        name, value = next(iter(parameters.items()))
        with pytest.raises(ValueError, match=f"'{name}' parameter of TimmBackbone must"):
            TimmBackbone(**{"name": "test_vit", **parameters}).fit(X)
    with pytest.raises(ValueError, match=r"takes images .* got data of shape \(3, 4\)"):
        TimmBackbone("test_vit", weights=None).fit(np.zeros((3, 4)))


def test_untrained_networks_are_marked_and_come_from_a_seed(untrained):
    state = torch.get_rng_state()
    again = TimmBackbone("test_vit", weights=None).fit(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert again.weights_ == "untrained"
    assert again.pretrained_ is False
    assert again.fingerprint() == untrained.fingerprint()
    np.testing.assert_array_equal(again.transform(X), untrained.transform(X))
    assert set(again.versions_) == {"sktransfer", "timm", "torch"}
    other = TimmBackbone("test_vit2", weights=None).fit(X)
    assert other.weights_hash_ != untrained.weights_hash_


def test_weights_of_a_file(tmp_path, untrained):
    torch.manual_seed(5)
    network = timm.create_model("test_vit")
    path = tmp_path / "weights.pth"
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"state_dict": state}, path)
    for weights in (path, str(path)):
        backbone = TimmBackbone("test_vit", weights=weights).fit(X)
        assert backbone.weights_ == str(path)
        assert backbone.pretrained_ is True
        assert backbone.loading_report_.prefix == "module."
        assert backbone.extract(X)[1].shape == (3, 1000)
    assert torch.equal(backbone.module_.head.weight, network.head.weight)
    assert backbone.fingerprint() != untrained.fingerprint()
    del state["module.head.weight"]
    torch.save(state, path)
    with pytest.warns(HeadNotLoadedWarning):
        backbone.fit(X)
    assert backbone.extract(X)[1] is None
    del state["module.norm.weight"]
    torch.save(state, path)
    with pytest.raises(ValueError, match="missing are norm.weight, head.weight"):
        backbone.fit(X)
    backbone.set_params(weights=None).fit(X)
    assert not hasattr(backbone, "loading_report_")
    with pytest.raises(FileNotFoundError, match="There is no checkpoint 'a1_in1k'"):
        backbone.set_params(weights="a1_in1k").fit(X)


OFFLINE = """
import sys
from pathlib import Path
import numpy as np
import timm
import torch
from safetensors.torch import save_file
from sktransfer.backbones import TimmBackbone
from sktransfer.backbones._provenance import weights_hash

X = np.random.default_rng(0).integers(0, 256, size=(2, 40, 50, 3), dtype=np.uint8)
try:
    TimmBackbone("test_vit.r160_in1k").fit(X)
except FileNotFoundError as error:
    print(error)

# The file where the hub's own library would have put it.
commit = "0" * 40
folder = Path(sys.argv[1]) / "hub" / "models--timm--test_vit.r160_in1k"
(folder / "refs").mkdir(parents=True)
(folder / "refs" / "main").write_text(commit)
(folder / "snapshots" / commit).mkdir(parents=True)
torch.manual_seed(7)
network = timm.create_model("test_vit")
save_file(network.state_dict(), folder / "snapshots" / commit / "model.safetensors")
for name in ("test_vit.r160_in1k", "test_vit"):
    backbone = TimmBackbone(name).fit(X)
    same = backbone.weights_hash_ == weights_hash(network)
    print(backbone.weights_, backbone.pretrained_, same)
"""


def test_the_ordinary_way_offline(tmp_path):
    """Weights are taken from the hub's cache; if they are not there, it is said where they go."""
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    message, *found = done.stdout.splitlines()
    assert "weights of timm's 'test_vit.r160_in1k' cannot be loaded" in message
    assert "https://huggingface.co/timm/test_vit.r160_in1k" in message
    assert str(tmp_path) in message
    assert found == ["r160_in1k True True"] * 2


def test_files_that_do_not_fit_are_told_from_files_that_are_not_there(monkeypatch):
    def refuse(*args, pretrained, **kwargs):
        raise RuntimeError("size mismatch for head.weight\nand more")

    monkeypatch.setattr(timm, "create_model", refuse)
    with pytest.raises(ValueError, match=r"\(RuntimeError: size mismatch for head\.weight\)"):
        TimmBackbone("test_vit").fit(X)


# -- an ordinary estimator -------------------------------------------------------------------------


def test_it_is_an_estimator_like_any_other(untrained):
    features = untrained.transform(X)
    assert features.dtype == np.float32
    copies = (pickle.loads(pickle.dumps(untrained)), copy.deepcopy(untrained))
    for other in (clone(untrained).fit(X), *copies):
        np.testing.assert_array_equal(other.transform(X), features)
        assert other.fingerprint() == untrained.fingerprint()
    assert untrained.get_feature_names_out()[0] == "timmbackbone0"
    assert "weights=None" in repr(untrained)
    backbone = TimmBackbone("test_vit", weights=Path("x.pth"), batch_size=2)
    assert clone(backbone).get_params() == backbone.get_params()
    for batch_size in (1, 2):
        other = clone(untrained).set_params(batch_size=batch_size).fit(X)
        np.testing.assert_allclose(other.transform(X), features, atol=1e-5 * features.max())
