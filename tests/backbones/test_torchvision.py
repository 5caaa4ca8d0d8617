"""torchvision's networks by name: the right layer, the right weights, the right preprocessing."""

import copy
import functools
import pickle
import re
from hashlib import sha256

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_sample_images
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from torch import nn
from torchvision import models

from sktransfer.backbones import TorchBackbone, TorchvisionBackbone

NAMES = models.list_models(module=models)
X = np.random.default_rng(0).integers(0, 256, size=(3, 40, 50, 3), dtype=np.uint8)
NAME = "mobilenet_v3_small"


@pytest.fixture(scope="module")
def untrained():
    return TorchvisionBackbone(NAME, weights=None).fit(X)


# -- the layer, family by family -------------------------------------------------------------------

# Name, name and width of the classifier layer's input, height and width of the input.
FAMILIES = [
    ("alexnet", "classifier.6", 4096, 64),
    ("convnext_tiny", "classifier.2", 768, 32),
    ("densenet121", "classifier", 1024, 32),
    ("efficientnet_b0", "classifier.1", 1280, 32),
    ("efficientnet_v2_s", "classifier.1", 1280, 33),
    ("googlenet", "fc", 1024, 32),
    ("inception_v3", "fc", 2048, 75),
    ("maxvit_t", "classifier.5", 512, 224),
    ("mnasnet0_5", "classifier.1", 1280, 32),
    ("mobilenet_v2", "classifier.1", 1280, 32),
    ("mobilenet_v3_small", "classifier.3", 1024, 32),
    ("mobilenet_v3_large", "classifier.3", 1280, 32),
    ("regnet_x_400mf", "fc", 400, 32),
    ("regnet_y_400mf", "fc", 440, 32),
    ("resnet18", "fc", 512, 32),
    ("resnet50", "fc", 2048, 32),
    ("shufflenet_v2_x0_5", "fc", 1024, 32),
    ("squeezenet1_0", "classifier.1", 512, 32),
    ("squeezenet1_1", "classifier.1", 512, 32),
    ("swin_t", "head", 768, 32),
    ("swin_v2_t", "head", 768, 32),
    ("vgg11", "classifier.6", 4096, 32),
    ("vit_b_32", "heads.head", 768, 32),
]
# What makes a network smaller or faster to build without another structure.
SMALLER = {
    "vgg11": {"init_weights": False},
    "googlenet": {"init_weights": False, "aux_logits": False, "transform_input": True},
    "inception_v3": {"init_weights": False},
    "vit_b_32": {"image_size": 32},
}


def test_every_family_is_covered():
    def family(name):
        return models.get_model_builder(name).__module__

    assert {family(name) for name in NAMES} == {family(row[0]) for row in FAMILIES}
    assert len(NAMES) >= 80


class Smaller(TorchvisionBackbone):
    """The class itself, for images of the smallest size and networks that are quick to build."""

    def _as_pretrained(self, members):
        return SMALLER.get(self.name, {})

    def _make_preprocessing(self):
        size = next(row[3] for row in FAMILIES if row[0] == self.name)
        preprocessing = super()._make_preprocessing()
        return type(preprocessing)(preprocessing.mean, preprocessing.std, size, 3)


@pytest.mark.parametrize(("name", "layer", "width", "size"), FAMILIES)
def test_features_are_the_input_of_the_last_learned_layer(name, layer, width, size):
    images = X[: 1 if size > 100 else 2]
    backbone = Smaller(name, weights=None).fit(images)
    assert backbone.classifier_layer_ == layer
    assert backbone.n_features_out_ == width
    features, probabilities = backbone.extract(images)
    assert features.shape == (len(images), width)
    head = backbone.module_.get_submodule(layer)
    with torch.inference_mode():
        logits = backbone.module_(_prepared(backbone, images))
        if isinstance(head, nn.Conv2d):  # SqueezeNet rectifies and averages after its classifier
            maps = []
            handle = head.register_forward_hook(lambda layer, given, output: maps.append(given[0]))
            backbone.module_(_prepared(backbone, images))
            handle.remove()
            expected = maps[0].mean(dim=(2, 3))
            np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-6)
            again = head(maps[0]).relu().mean(dim=(2, 3))
        else:
            again = head(torch.from_numpy(features))
    scale = float(logits.abs().max())
    np.testing.assert_allclose(again, logits, atol=1e-5 * scale)
    np.testing.assert_allclose(probabilities, logits.softmax(1), atol=1e-5)
    assert backbone.n_parameters_ == sum(p.numel() for p in backbone.module_.parameters())


def _prepared(backbone, images):
    """The network's input, as tensors."""
    return backbone._make_preprocessing()(torch.from_numpy(images).permute(0, 3, 1, 2))


@pytest.mark.parametrize("name", ["vit_h_14", "googlenet", "inception_v3"])
def test_untrained_networks_are_those_that_the_default_weights_are_for(name):
    """The size of the input, the second normalisation and no auxiliary heads belong to them."""
    backbone = TorchvisionBackbone(name, weights=None)
    members, _ = backbone._find_weights()
    options = backbone._as_pretrained(members)
    if "init_weights" in options:
        options["init_weights"] = False  # so that it needs no memory
    with torch.device("meta"):
        network = models.get_model(name, weights=None, **options).eval()
        size = backbone._make_preprocessing().size
        assert network(torch.empty(1, 3, *size)).shape == (1, 1000)
    # torchvision counts those of the auxiliary head of Inception, which it takes off.
    n_auxiliary = {"inception_v3": 3_326_696}.get(name, 0)
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert n_parameters == members.DEFAULT.meta["num_params"] - n_auxiliary
    assert getattr(network, "transform_input", True)


# -- names and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("mobilnet_v2", "got 'mobilnet_v2'; do you mean 'mobilenet_v2'"),
        ("ResNet18", "do you mean 'resnet18'"),
        ("fcn_resnet50", "got 'fcn_resnet50'"),  # for segmentation
        ("quantized_resnet18", "got 'quantized_resnet18'"),
        ("???", r"there are 'alexnet', .* and \d+ more\."),
    ],
)
def test_unknown_names_are_refused_before_any_work(name, match):
    for backbone in (TorchvisionBackbone(name), TorchvisionBackbone(name, weights=None)):
        with pytest.raises(ValueError, match=f"'name' parameter .*{match}") as caught:
            backbone.fit(["no such file"])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ("IMAGENET1K_V7", r"\['IMAGENET1K_V1', 'DEFAULT'\], got 'IMAGENET1K_V7'; do you mean"),
        ("imagenet", "do you mean 'IMAGENET1K_V1'"),
        ("", "got ''; there are 'IMAGENET1K_V1'"),
        ("ResNet18_Weights.IMAGENET1K_V1", "got 'ResNet18_Weights.IMAGENET1K_V1'"),
        (models.ResNet18_Weights.DEFAULT, "got 'ResNet18_Weights.IMAGENET1K_V1'"),
    ],
)
def test_unknown_weights_are_refused_before_any_work(weights, match):
    with pytest.raises(ValueError, match=f"'weights' parameter .*{match}"):
        TorchvisionBackbone(NAME, weights=weights).fit(["no such file"])


def test_wrong_kinds_of_parameters():
    for parameters in ({"name": 3}, {"weights": True}, {"batch_size": 0}, {"n_workers": -1}):
        name, value = next(iter(parameters.items()))
        with pytest.raises(ValueError, match=f"'{name}' parameter of TorchvisionBackbone must"):
            TorchvisionBackbone(**{"name": NAME, **parameters}).fit(X)
    with pytest.raises(ValueError, match=r"takes images .* got data of shape \(3, 4\)"):
        TorchvisionBackbone(NAME, weights=None).fit(np.zeros((3, 4)))


def test_weights_of_every_network_are_known_with_their_preprocessing():
    """Of all names and all weights: what torchvision would do to an image."""
    n_checked = 0
    for name in NAMES:
        for weights in models.get_model_weights(name):
            for given in (weights, weights.name, str(weights)):
                members, found = TorchvisionBackbone(name, weights=given)._find_weights()
                assert found is weights
            preprocessing = TorchvisionBackbone(name, weights=weights)._make_preprocessing()
            theirs = weights.transforms()
            assert preprocessing.mean == tuple(theirs.mean)
            assert preprocessing.std == tuple(theirs.std)
            assert preprocessing.size == tuple(2 * theirs.crop_size)
            assert preprocessing.resize == theirs.resize_size[0]
            assert preprocessing.interpolation == theirs.interpolation.value
            assert preprocessing.channels == 3
            n_checked += 1
        usual = members.__members__.get("IMAGENET1K_V1", members.DEFAULT)
        if usual.name == "IMAGENET1K_V1":
            assert TorchvisionBackbone(name)._find_weights()[1] is usual
        else:  # its weights have to be named
            assert name in ("vit_h_14", "regnet_y_128gf")
            with pytest.raises(ValueError, match=usual.name):
                TorchvisionBackbone(name)._find_weights()
        untrained = TorchvisionBackbone(name, weights=None)
        assert untrained._find_weights()[1] is None
        theirs = TorchvisionBackbone(name, weights=usual)
        assert untrained._make_preprocessing() == theirs._make_preprocessing()
    assert n_checked > 100


def test_untrained_networks_are_marked_and_come_from_a_seed(untrained):
    state = torch.get_rng_state()
    again = TorchvisionBackbone(NAME, weights=None).fit(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert again.weights_ == untrained.weights_ == "untrained"
    assert again.pretrained_ is False
    assert again.weights_hash_ == untrained.weights_hash_
    assert again.fingerprint() == untrained.fingerprint()
    np.testing.assert_array_equal(again.transform(X), untrained.transform(X))
    assert set(untrained.versions_) == {"sktransfer", "torch", "torchvision"}
    other = TorchvisionBackbone("squeezenet1_1", weights=None).fit(X)
    assert other.weights_hash_ != untrained.weights_hash_
    assert other.fingerprint() != untrained.fingerprint()


# -- files of weights ------------------------------------------------------------------------------


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    return tmp_path


def test_weights_that_are_not_there_offline(empty_home, monkeypatch):
    # A proxy that refuses: no test depends on whether there is a network.
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(FileNotFoundError) as caught:
        TorchvisionBackbone("resnet18").fit(X)
    message = str(caught.value)
    assert "ResNet18_Weights.IMAGENET1K_V1 are not there and cannot be downloaded" in message
    assert "https://download.pytorch.org/models/resnet18-f37072fd.pth" in message
    assert f"'{empty_home / 'hub' / 'checkpoints'}' as 'resnet18-f37072fd.pth'" in message
    assert "\n" not in message
    assert not list((empty_home / "hub" / "checkpoints").iterdir())


def test_a_folder_that_cannot_be_written(empty_home):
    (empty_home / "hub").write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match="put it into the folder"):
        TorchvisionBackbone("resnet18").fit(X)


def _weights_with_file(path, *, name=NAME):
    """Members of torchvision's enumeration whose file is one of the test's."""
    member = models.get_model_weights(name).DEFAULT
    digest = sha256(path.read_bytes()).hexdigest()[:8]
    target = path.with_name(f"{path.stem}-{digest}.pth")
    path.rename(target)
    return member, target


def test_downloaded_files_are_checked_and_read_as_weights_only(empty_home, monkeypatch):
    """A stand-in for torchvision's server: a file address, and a file that was made here."""
    torch.manual_seed(3)
    network = models.mobilenet_v3_small(weights=None)
    torch.save(network.state_dict(), empty_home / "made.pth")
    member, source = _weights_with_file(empty_home / "made.pth")
    # The address is the only thing about the weights that is not torchvision's own.
    monkeypatch.setattr(member.value, "url", source.as_uri())
    backbone = TorchvisionBackbone(NAME, weights="DEFAULT").fit(X)
    assert backbone.weights_ == "IMAGENET1K_V1"
    assert backbone.pretrained_ is True
    kept = empty_home / "hub" / "checkpoints" / source.name
    assert kept.is_file()
    loaded = backbone.module_.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in network.state_dict().items())
    source.unlink()
    again = TorchvisionBackbone(NAME, weights=member).fit(X)  # from the folder alone
    assert again.fingerprint() == backbone.fingerprint()
    assert again.weights_hash_ != TorchvisionBackbone(NAME, weights=None).fit(X).weights_hash_
    # Damage in the folder.
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(ValueError, match=f"'{re.escape(str(kept))}' is damaged: its SHA-256"):
        TorchvisionBackbone(NAME).fit(X)
    # A file with code in it, whose digest is right.
    kept.unlink()
    torch.save({"network": network}, empty_home / "whole.pth")
    member, source = _weights_with_file(empty_home / "whole.pth")
    monkeypatch.setattr(member.value, "url", source.as_uri())
    with pytest.raises(ValueError, match="holds more than weights, and is not read"):
        TorchvisionBackbone(NAME).fit(X)
    # A download that is not what its name says.
    source.rename(empty_home / "x-00000000.pth")
    monkeypatch.setattr(member.value, "url", (empty_home / "x-00000000.pth").as_uri())
    with pytest.raises(FileNotFoundError, match="cannot be downloaded .invalid hash value"):
        TorchvisionBackbone(NAME).fit(X)


def test_weights_without_a_classifier(empty_home, monkeypatch):
    """As torchvision's IMAGENET1K_FEATURES of VGG16 are: not a number in the classifier."""
    network = models.mobilenet_v3_small(weights=None)
    for parameter in network.classifier.parameters():
        parameter.data.fill_(torch.nan)
    torch.save(network.state_dict(), empty_home / "made.pth")
    member, source = _weights_with_file(empty_home / "made.pth")
    monkeypatch.setattr(member.value, "url", source.as_uri())
    with pytest.raises(ValueError, match="its weights are not finite .* as in layer='avgpool'"):
        TorchvisionBackbone(NAME).fit(X)
    backbone = TorchvisionBackbone(NAME, layer="features").fit(X)
    assert backbone.n_features_out_ == 576
    assert not hasattr(backbone, "predict_proba")


# -- the ordinary way, with ImageNet weights -------------------------------------------------------


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Real photographs in several shapes, as Pillow images."""
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    return [
        china,
        flower,
        flower.crop((100, 0, 400, 427)),
        china.crop((0, 100, 640, 300)).resize((320, 100)),
        flower.convert("L"),
    ]


@pytest.mark.pretrained
def test_the_ordinary_way_gives_what_torchvision_gives(imagenet_mobilenet, photographs, tmp_path):
    backbone = TorchvisionBackbone("mobilenet_v2", weights="IMAGENET1K_V1").fit(photographs)
    weights = models.MobileNet_V2_Weights.IMAGENET1K_V1
    network = models.mobilenet_v2(weights=weights).eval()
    transforms = weights.transforms()
    theirs = torch.stack([transforms(image.convert("RGB")) for image in photographs])
    with torch.inference_mode():
        expected = network(theirs).softmax(1)
    features, probabilities = backbone.extract(photographs)
    assert features.shape == (5, 1280)
    np.testing.assert_array_equal(probabilities.argmax(1), expected.argmax(1))
    np.testing.assert_allclose(probabilities, expected, atol=0.02)
    # A temple, and the same flower twice.
    names = [weights.meta["categories"][index] for index in probabilities.argmax(1)]
    assert names[0] == "palace"
    assert names[1] == names[4]
    assert backbone.weights_ == "IMAGENET1K_V1"
    assert backbone.pretrained_ is True
    assert backbone.n_parameters_ == weights.meta["num_params"]

    # The same images in every other form; arrays in parts of one shape.
    paths = _saved(photographs, tmp_path)
    arrays = [np.asarray(image.convert("RGB")) for image in photographs]
    assert arrays[0].shape == arrays[1].shape == arrays[4].shape
    forms = [(range(5), paths), ([0, 1, 4], np.stack([arrays[row] for row in (0, 1, 4)]))]
    forms += [([row], arrays[row][None]) for row in (2, 3)]
    for rows, form in forms:
        others = TorchvisionBackbone("mobilenet_v2", weights=weights).fit(form).transform(form)
        for row, other in zip(rows, others, strict=True):
            np.testing.assert_allclose(other, features[row], atol=0.01 * features[row].max())


def _saved(images, folder):
    paths = []
    for row, image in enumerate(images):
        paths.append(folder / f"{row}.png")
        image.save(paths[-1])
    return paths


@pytest.mark.pretrained
def test_features_are_those_of_a_hook_made_by_hand(imagenet_mobilenet, photographs):
    backbone = TorchvisionBackbone("mobilenet_v2", weights="IMAGENET1K_V1", batch_size=2)
    images = np.stack([np.asarray(image.convert("RGB").resize((90, 70))) for image in photographs])
    features = backbone.fit(images).transform(images)
    network = models.mobilenet_v2(weights="IMAGENET1K_V1").eval()
    caught = []
    network.classifier[1].register_forward_pre_hook(lambda layer, given: caught.append(given[0]))
    with torch.inference_mode():
        network(_prepared(backbone, images))
    np.testing.assert_allclose(features, caught[0], rtol=1e-5, atol=1e-5)


@pytest.mark.pretrained
def test_trained_and_untrained_are_different_candidates(imagenet_mobilenet):
    trained = TorchvisionBackbone("mobilenet_v2", weights="IMAGENET1K_V1").fit(X)
    untrained = TorchvisionBackbone("mobilenet_v2", weights=None).fit(X)
    assert trained.weights_hash_ != untrained.weights_hash_
    assert trained.fingerprint() != untrained.fingerprint()
    assert trained.n_parameters_ == untrained.n_parameters_
    # The file by itself, in any other wrapping, is the same network.
    again = TorchBackbone.from_checkpoint(
        models.mobilenet_v2, imagenet_mobilenet, mean=0.0, std=1.0, input_size=32, head="required"
    ).fit(X)
    assert again.weights_hash_ == trained.weights_hash_
    assert again.classifier_layer_ == trained.classifier_layer_


@pytest.mark.pretrained
def test_a_damaged_file_is_not_used(imagenet_mobilenet):
    content = imagenet_mobilenet.read_bytes()
    imagenet_mobilenet.unlink()
    imagenet_mobilenet.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is damaged: its SHA-256 digest begins with .* b0353104"):
        TorchvisionBackbone("mobilenet_v2", weights="IMAGENET1K_V1").fit(X)


# -- a second normalisation inside -----------------------------------------------------------------


def test_the_second_normalisation_survives_saving_and_loading(tmp_path):
    backbone = Smaller("googlenet", weights=None).fit(X[:2])
    assert backbone.module_.transform_input is True
    torch.save(backbone.module_.state_dict(), tmp_path / "weights.pth")

    def build(transform_input=True):
        return models.googlenet(
            weights=None, init_weights=False, aux_logits=False, transform_input=transform_input
        )

    preprocessing = backbone._make_preprocessing()
    options = {"mean": preprocessing.mean, "std": preprocessing.std, "input_size": 32}
    path = tmp_path / "weights.pth"
    again = TorchBackbone.from_checkpoint(build, path, **options).fit(X[:2])
    expected = backbone.transform(X[:2])
    np.testing.assert_allclose(again.transform(X[:2]), expected, atol=1e-6 * expected.max())
    assert again.weights_hash_ == backbone.weights_hash_
    assert again.loading_report_.hidden_normalization == "on"
    without = TorchBackbone.from_checkpoint(
        functools.partial(build, transform_input=False), path, **options
    ).fit(X[:2])
    assert without.fingerprint() != again.fingerprint()
    assert without.loading_report_.hidden_normalization == "off"


# -- an ordinary estimator -------------------------------------------------------------------------


def test_it_is_an_estimator_like_any_other(untrained):
    backbone = TorchvisionBackbone(NAME, weights=models.MobileNet_V3_Small_Weights.DEFAULT)
    for other in (clone(backbone), pickle.loads(pickle.dumps(backbone)), copy.deepcopy(backbone)):
        assert other.get_params() == backbone.get_params()
    assert repr(TorchvisionBackbone(NAME)) == f"TorchvisionBackbone(name='{NAME}')"
    assert "weights=None" in repr(untrained)
    assert len(untrained._repr_html_()) < 60_000
    assert backbone.set_params(weights=None, batch_size=2) is backbone
    for call in (backbone.transform, backbone.extract, backbone.predict_proba):
        with pytest.raises(NotFittedError):
            call(X)
    features = untrained.transform(X)
    assert features.dtype == np.float32
    for other in (
        backbone.fit(X),
        clone(untrained).fit(X),
        pickle.loads(pickle.dumps(untrained)),
        copy.deepcopy(untrained),
    ):
        np.testing.assert_allclose(other.transform(X), features, atol=1e-5 * features.max())
        assert other.fingerprint() == untrained.fingerprint()
    names = untrained.get_feature_names_out()
    assert names[0] == "torchvisionbackbone0"
    assert len(names) == untrained.n_features_out_ == 1024
    assert untrained.n_features_in_ == 40 * 50 * 3
    assert untrained.stateless


def test_set_output_makes_data_frames():
    pandas = pytest.importorskip("pandas")
    backbone = TorchvisionBackbone(NAME, weights=None).set_output(transform="pandas")
    frame = backbone.fit_transform(X)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == backbone.get_feature_names_out().tolist()


def test_grey_and_colour_images_of_all_forms_are_the_same_images(untrained):
    grey = X[..., 0]
    colour = np.repeat(grey[..., None], 3, axis=3)
    expected = untrained.transform(colour)
    for form in (grey, grey[..., None], grey[:, None], colour.transpose(0, 3, 1, 2)):
        found = TorchvisionBackbone(NAME, weights=None).fit(form).transform(form)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


SKLEARN_CHECKS_WITHOUT_DATA = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_mixin_order",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_get_params_invariance",
    "check_set_params",
    "check_parameters_default_constructible",
    "check_estimators_unfitted",
]


def test_checks_of_scikit_learn_that_apply():
    """Its data are matrices of numbers, and this takes images: what needs no fit must pass."""
    results = check_estimator(TorchvisionBackbone(NAME, weights=None), on_skip=None, on_fail=None)
    status = {result["check_name"]: result["status"] for result in results}
    assert {name: status[name] for name in SKLEARN_CHECKS_WITHOUT_DATA} == dict.fromkeys(
        SKLEARN_CHECKS_WITHOUT_DATA, "passed"
    )
