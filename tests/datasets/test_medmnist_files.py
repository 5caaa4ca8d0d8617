"""Files of MedMNIST's layout, found by name: checkpoints of the sources, and targets."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the networks need torch")
models = pytest.importorskip("torchvision.models", reason="the networks are torchvision's")
Image = pytest.importorskip("PIL.Image", reason="images are resized by Pillow")

from sktransfer.backbones import TorchBackbone, TorchvisionBackbone
from sktransfer.datasets import (
    find_medmnist_targets,
    load_medmnist_reference,
    load_medmnist_sources,
)
from sktransfer.datasets._medmnist_files import medmnist_name

PUBLISHED = load_medmnist_reference(as_frame=False)
N_CLASSES = {name: sizes["n_classes"] for name, sizes in PUBLISHED.sizes.items()}


def save(path, name, seed=0, make=models.resnet18):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    module = make(num_classes=N_CLASSES[name])
    torch.save({"net": module.state_dict()}, path)
    return module.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sources as their authors publish them, three networks of one and others beside."""
    path = tmp_path_factory.mktemp("weights")
    for run in (1, 2):
        save(path / "weights_bloodmnist" / f"resnet18_224_{run}.pth", "Blood", run)
    save(path / "weights_chestmnist" / "resnet18_224_1.pth", "Chest", 3)
    for other in ("resnet50_224_1.pth", "resnet18_28_1.pth"):
        (path / "weights_bloodmnist" / other).write_bytes(b"not looked at")
    (path / "weights_organmnist3d").mkdir()
    (path / "weights_organmnist3d" / "resnet18_3d.pth").write_bytes(b"not looked at")
    (path / "weights_chestmnist" / "predictions.csv").write_text("not looked at")
    return path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("breastmnist.npz", "Breast"),
        ("breastmnist_224.npz", "Breast"),
        ("OrganSMNIST_64.npz", "OrganS"),
        ("octmnist_resnet18.pth", "OCT"),
        ("weights_pathmnist/resnet18_224_1.pth", "Path"),
        ("bloodmnist/octmnist.pth", "OCT"),
        ("mypathmnist.npz", None),
        ("organmnist3d.npz", None),
        ("mnist.npz", None),
        ("digits.npz", None),
    ],
)
def test_names(path, name):
    assert medmnist_name(path) == name


def test_all_twelve_data_sets_have_a_name():
    found = {medmnist_name(f"{name.lower()}mnist_224.npz") for name in PUBLISHED.sources}
    assert found == {*PUBLISHED.sources, None} - {"ImageNet"}


def test_sources_are_found_and_give_their_networks_features(folder):
    candidates = load_medmnist_sources(folder, input_size=32, imagenet=False, batch_size=4)
    assert [name for name, _ in candidates] == ["Blood", "Chest"]
    torch.manual_seed(1)
    module = models.resnet18(num_classes=8).eval()
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    backbone = candidates[0][1].fit(images)
    features, probabilities = backbone.extract(images)
    # As in training: resized by Pillow to the nearest pixel, three equal channels, to [-1, 1].
    nearest = [
        Image.fromarray(image).resize((32, 32), Image.Resampling.NEAREST) for image in images
    ]
    pixels = torch.from_numpy(np.stack(nearest)).float() / 255
    x = ((pixels - 0.5) / 0.5)[:, None].repeat(1, 3, 1, 1)
    with torch.inference_mode():
        expected = module(x).softmax(dim=1)
        module.fc = torch.nn.Identity()
        np.testing.assert_allclose(features, module(x), atol=1e-4)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert (backbone.pretrained_, backbone.loading_report_.container) == (True, "net")


def test_imagenet_comes_last_with_its_own_preprocessing(folder):
    *_, (name, backbone) = load_medmnist_sources(folder, device="cpu")
    assert name == "ImageNet"
    assert isinstance(backbone, TorchvisionBackbone)
    assert (backbone.name, backbone.weights, backbone.device) == (
        *("resnet18", "IMAGENET1K_V1"),
        "cpu",
    )


@pytest.mark.parametrize("target", ["Blood", "bloodmnist_224.npz", Path("data") / "bloodmnist.npz"])
def test_the_source_of_the_target_is_left_out(folder, target):
    names = [name for name, _ in load_medmnist_sources(folder, target=target)]
    assert names == ["Chest", "ImageNet"]


def test_the_networks_are_those_of_224_pixels(folder):
    backbone = dict(load_medmnist_sources(folder))["Blood"]
    assert isinstance(backbone, TorchBackbone)
    assert (backbone.input_size, backbone.interpolation) == (224, "nearest")
    assert Path(backbone.checkpoint).name == "resnet18_224_1.pth"
    assert isinstance(backbone.module, partial)


def test_another_run(folder):
    with pytest.raises(ValueError, match="run 3 for source 'Blood'. Got .*_1.pth"):
        load_medmnist_sources(folder, run=3)
    found = dict(load_medmnist_sources(folder, run=2))
    assert Path(found["Blood"].checkpoint).name == "resnet18_224_2.pth"
    # Where there is only one, it is that one.
    assert Path(found["Chest"].checkpoint).name == "resnet18_224_1.pth"


def test_files_called_like_their_source(tmp_path):
    save(tmp_path / "breastmnist_best.pt", "Breast")
    assert [name for name, _ in load_medmnist_sources(tmp_path, imagenet=False)] == ["Breast"]


def test_wrong_inputs(folder, tmp_path):
    with pytest.raises(ValueError, match="There is no folder"):
        load_medmnist_sources(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no checkpoint of a ResNet-18"):
        load_medmnist_sources(tmp_path)
    with pytest.raises(ValueError, match="'target' parameter .* Got 'Brest'"):
        load_medmnist_sources(folder, target="Brest")
    (tmp_path / "breastmnist.pth").write_bytes(b"")
    with pytest.raises(ValueError, match=r"breastmnist.pth' is empty"):
        load_medmnist_sources(tmp_path)
    save(tmp_path / "breastmnist.pth", "Breast", make=models.resnet34)
    save(tmp_path / "octmnist.pth", "OCT")
    with pytest.raises(ValueError, match=r"breastmnist.pth"):
        save(tmp_path / "breastmnist.pth", "Breast", make=models.mobilenet_v3_small)
        load_medmnist_sources(tmp_path)


def test_targets(tmp_path):
    with pytest.raises(ValueError, match="There is no folder"):
        find_medmnist_targets(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no file of a target of MedMNIST"):
        find_medmnist_targets(tmp_path)
    names = ["tissuemnist_224", "octmnist_224", "octmnist", "breastmnist_64", "breastmnist"]
    names += ["organcmnist_128", "organcmnist_224", "organcmnist", "breastmnist_copy", "digits"]
    for name in names:
        (tmp_path / f"{name}.npz").touch()
    (tmp_path / "bloodmnist.pth").touch()
    found = find_medmnist_targets(str(tmp_path))
    assert {name: path.name for name, path in found.items()} == {
        "Breast": "breastmnist_64.npz",
        "OrganC": "organcmnist_224.npz",
        "OCT": "octmnist_224.npz",
    }
    assert list(found) == [name for name in PUBLISHED.targets if name in found]
