"""Preprocessing is that of torchvision and timm, whatever the pixels come in."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.backbones._files import decode
from sktransfer.backbones._images import as_images
from sktransfer.backbones._preprocessing import ImagePreprocessing

models = pytest.importorskip("torchvision.models", reason="compares with torchvision")

rng = np.random.default_rng(0)
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
SIZES = [(90, 120), (120, 80), (28, 28), (20, 150), (61, 61)]


def photograph(height, width, low=0, high=256):
    small = rng.integers(low, high, (7, 9, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def noise(height, width):
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def as_array(image):
    return np.array(image)[None]


def difference(found, expected):
    return float((found - expected).norm() / expected.norm())


def run(preprocessing, image):
    return as_images([image], preprocessing).batch(slice(0, 1))


# -- torchvision and timm --------------------------------------------------------------------------


def presets():
    """Every different preprocessing that torchvision has for classification, in small."""
    from torchvision.transforms._presets import ImageClassification

    found = {}
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            transforms = weights.transforms()
            found.setdefault(str(transforms), transforms)
    small = {}
    for transforms in found.values():
        assert isinstance(transforms, ImageClassification)
        crop, resize = transforms.crop_size[0] // 4, transforms.resize_size[0] // 4
        key = (crop, resize, transforms.interpolation)
        small[key] = ImageClassification(
            crop_size=crop, resize_size=resize, interpolation=transforms.interpolation
        )
    return list(small.values())


def test_every_preset_of_torchvision():
    transforms = presets()
    assert len(transforms) > 15
    for preset in transforms:
        preprocessing = ImagePreprocessing.from_torchvision(preset)
        for size in SIZES:
            for image in (photograph(*size), photograph(*size, 90, 160), noise(*size)):
                expected = preset(image)[None]
                found = run(preprocessing, image)
                assert found.shape == expected.shape
                assert difference(found, expected) < 1e-2, (preset, size)


def test_features_of_a_network_are_those_of_torchvisions_preprocessing():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ).eval()  # fmt: skip
    for preset in presets()[::4]:
        preprocessing = ImagePreprocessing.from_torchvision(preset)
        for size in SIZES:
            image = photograph(*size)
            with torch.inference_mode():
                expected = network(preset(image)[None])
                assert difference(network(run(preprocessing, image)), expected) < 1e-2


def test_the_real_preset_of_mobilenet():
    preset = models.MobileNet_V2_Weights.IMAGENET1K_V1.transforms()
    preprocessing = ImagePreprocessing.from_torchvision(preset)
    assert (preprocessing.resize, preprocessing.size) == (256, (224, 224))
    image = photograph(333, 500)
    assert difference(run(preprocessing, image), preset(image)[None]) < 1e-2


def timm_reference(image, size, part, mode, interpolation):
    """What timm's transforms for evaluation do, written down with Pillow alone."""
    height, width = size
    scaled = int(height / part), int(width / part)
    filter_ = getattr(Image.Resampling, interpolation.upper())
    ratios = image.height / scaled[0], image.width / scaled[1]
    if mode == "squash":
        image = image.resize(scaled[::-1], filter_)
    elif mode == "center" and scaled[0] == scaled[1]:
        shorter = min(image.size)
        new = [int(scaled[0] * side / shorter) for side in image.size]
        image = image.resize(new, filter_)
    else:
        ratio = min(ratios) if mode == "center" else max(ratios)
        image = image.resize([round(side / ratio) for side in image.size], filter_)
    fill = tuple(round(255 * value) for value in IMAGENET["mean"]) if mode == "border" else 0
    canvas = Image.new("RGB", (max(width, image.width), max(height, image.height)), fill)
    canvas.paste(image, ((canvas.width - image.width) // 2, (canvas.height - image.height) // 2))
    left, top = round((canvas.width - width) / 2), round((canvas.height - height) / 2)
    pixels = np.asarray(canvas.crop((left, top, left + width, top + height))) / 255
    pixels = (pixels - IMAGENET["mean"]) / IMAGENET["std"]
    return torch.from_numpy(np.moveaxis(pixels, 2, 0)).float()[None]


CONFIGURATIONS = [
    {"input_size": size, "crop_pct": part, "crop_mode": mode, "interpolation": interpolation}
    for size, part, mode, interpolation in (
        ((3, 56, 56), 0.9, "center", "bicubic"),
        ((3, 56, 56), 0.875, None, "bilinear"),
        ((3, 56, 48), 0.9, None, "bicubic"),
        ((3, 64, 64), 1.0, "squash", "bicubic"),
        ((3, 64, 48), 0.9, "squash", "bicubic"),
        ((3, 56, 56), 0.95, "border", "bicubic"),
    )
]


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_timms_configurations(config):
    config = {**config, **IMAGENET}
    preprocessing = ImagePreprocessing.from_timm(config)
    for size in SIZES:
        image = photograph(*size)
        expected = timm_reference(
            image,
            config["input_size"][1:],
            config["crop_pct"],
            config["crop_mode"] or "center",
            config["interpolation"],
        )
        assert difference(run(preprocessing, image), expected) < 1e-2, size


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_timms_own_transforms(config):
    factory = pytest.importorskip("timm.data.transforms_factory", reason="timm is not installed")
    preprocessing = ImagePreprocessing.from_timm({**config, **IMAGENET})
    transforms = factory.transforms_imagenet_eval(
        config["input_size"][1:],
        config["crop_pct"],
        config["crop_mode"],
        interpolation=config["interpolation"],
        **IMAGENET,
    )
    for size in SIZES:
        image = photograph(*size)
        assert difference(run(preprocessing, image), transforms(image)[None]) < 1e-2


def test_what_a_source_does_not_tell_is_an_error():
    with pytest.raises(ValueError, match="does not tell crop_size, resize_size, mean"):
        ImagePreprocessing.from_torchvision(lambda image: image)
    with pytest.raises(ValueError, match=r"does not tell \['mean', 'interpolation'\]"):
        ImagePreprocessing.from_timm({"input_size": (3, 8, 8), "std": (1.0,), "mean": None})
    config = {"input_size": (3, 8, 8), "interpolation": "bicubic", **IMAGENET}
    with pytest.raises(ValueError, match="'crop_mode' must be one of .*'corner'"):
        ImagePreprocessing.from_timm({**config, "crop_mode": "corner"})
    with pytest.raises(ValueError, match="'interpolation' must be one of .*'lanczos'"):
        ImagePreprocessing.from_timm({**config, "interpolation": "lanczos"})
    assert ImagePreprocessing.from_timm(config).resize == 9  # 8 / 0.875


def test_video_transforms_are_told_apart_by_two_sides():
    class Preset:
        crop_size, resize_size, interpolation = [8, 6], [12, 10], "bilinear"
        mean, std = (0.0,), (1.0,)

    preprocessing = ImagePreprocessing.from_torchvision(Preset())
    assert (preprocessing.size, preprocessing.resize) == ((8, 6), (12, 10))
    assert preprocessing.fit == "stretch"


# -- one image is one image ------------------------------------------------------------------------

PREPROCESSINGS = [
    ImagePreprocessing(**IMAGENET, size=24, channels=3),
    ImagePreprocessing(**IMAGENET, size=24, channels=3, resize=32, interpolation="bicubic"),
    ImagePreprocessing(**IMAGENET, size=24, channels=3, resize=18, fit="contain", fill=(0.2,)),
    ImagePreprocessing((0.5,), (0.2,), size=40, channels=1, resize=(20, 30), fit="stretch"),
    ImagePreprocessing(**IMAGENET, size=(24, 20), resize=(30, 26), interpolation="nearest"),
    ImagePreprocessing(**IMAGENET),
]


@pytest.mark.parametrize("preprocessing", PREPROCESSINGS)
def test_equal_pixels_give_equal_tensors_whatever_they_came_in(tmp_path, preprocessing):
    for image in (photograph(33, 47), noise(60, 31), photograph(20, 20)):
        image.save(tmp_path / "image.png")
        array = as_array(image)
        expected = run(preprocessing, image)
        first = np.moveaxis(array, 3, 1)
        floats = array / 255
        kinds = {
            "file": [tmp_path / "image.png"],
            "string": [str(tmp_path / "image.png")],
            "uint8": array,
            "channels first": first,
            "fortran": np.asfortranarray(array),
            "reversed": np.ascontiguousarray(array[:, ::-1])[:, ::-1],
            "tensor": torch.from_numpy(first.copy()),
            "list": [array[0]],
            "float64": floats,
            "float32": floats.astype(np.float32),
            "big endian": floats.astype(">f4"),
            "float tensor": torch.from_numpy(first.copy()) / 255,
            "pair": [(image, 3)],
        }
        for name, X in kinds.items():
            found = as_images(X, preprocessing).batch(slice(0, 1))
            assert found.dtype == torch.float32
            assert found.is_contiguous()
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5, msg=name)
        half = as_images(floats.astype(np.float16), preprocessing).batch(slice(0, 1))
        assert difference(half, expected) < 1e-2


def test_floats_that_are_no_8_bit_pixels_stay_what_they_are():
    preprocessing = ImagePreprocessing((0.0,), (1.0,), size=16)
    images = torch.rand(4, 1, 32, 32)
    expected = nn.functional.interpolate(
        images, (16, 16), mode="bilinear", align_corners=False, antialias=True
    )
    torch.testing.assert_close(preprocessing(images), expected, rtol=0, atol=1e-5)
    # An image among others is treated as it is alone.
    images[2] = (images[2] * 255).round() / 255
    together = preprocessing(images)
    for row in range(4):
        assert torch.equal(together[row], preprocessing(images[row : row + 1])[0])
    assert len(torch.unique((together[2] * 255).round() - together[2] * 255)) < 100


def test_given_pixels_are_never_changed():
    for preprocessing in PREPROCESSINGS:
        for images in (torch.rand(2, 3, 20, 20), torch.randint(0, 256, (2, 3, 30, 30)).byte()):
            kept = images.clone()
            preprocessing(images)
            assert torch.equal(images, kept)


def test_grey_becomes_colour_and_colour_grey():
    grey = torch.randint(0, 256, (3, 1, 30, 40)).byte()
    for images in (grey, grey / 255, torch.rand(3, 1, 30, 40)):
        for preprocessing in PREPROCESSINGS[:4]:
            torch.testing.assert_close(
                preprocessing(images),
                preprocessing(images.expand(-1, 3, -1, -1)),
                rtol=0,
                atol=1e-5,
            )
    with pytest.raises(ValueError, match="takes images with 3 channels, got images with 4"):
        PREPROCESSINGS[0](torch.rand(1, 4, 8, 8))


def test_small_images_are_padded():
    for fill, expected in (((0.0,), (0, 0, 0)), ((0.2, 0.4, 0.6), (51, 102, 153))):
        preprocessing = ImagePreprocessing((0.0,), (1.0,), size=8, channels=3, resize=5, fill=fill)
        for images in (torch.full((1, 1, 5, 5), 255).byte(), torch.ones(1, 1, 5, 5)):
            padded = preprocessing(images)[0] * 255
            assert padded[:, 1:6, 1:6].eq(255).all()
            frame = padded.clone()
            frame[:, 1:6, 1:6] = 0
            for channel, value in enumerate(expected):
                torch.testing.assert_close(frame[channel].max(), torch.tensor(float(value)))
                torch.testing.assert_close(padded[channel, 0, 0], torch.tensor(float(value)))


def test_the_size_alone_may_be_left_open():
    preprocessing = ImagePreprocessing((0.0,), (1.0,), resize=10)
    assert preprocessing(torch.rand(1, 1, 20, 31)).shape == (1, 1, 10, 15)
    assert replace(preprocessing, fit="contain")(torch.rand(1, 1, 20, 30)).shape == (1, 1, 7, 10)
    assert replace(preprocessing, fit="stretch")(torch.rand(1, 1, 20, 30)).shape == (1, 1, 10, 10)


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mean": (np.nan,)}, "'mean' must hold finite numbers"),
        ({"mean": ()}, "'mean' must hold finite numbers"),
        ({"std": (0.0,)}, "'std' must be positive"),
        ({"fill": (np.inf,)}, "'fill' must hold finite numbers"),
        ({"interpolation": "box"}, "'interpolation' must be one of"),
        ({"fit": "crop"}, "'fit' must be one of"),
        ({"size": 0}, "'size' must be one positive integer or two, got 0"),
        ({"size": (3,)}, "'size' must be one positive integer or two"),
        ({"resize": (3, 2.5)}, "'resize' must be one positive integer or two"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        ImagePreprocessing(**{"mean": (0.0,), "std": (1.0,), **parameters})


def test_the_digest_tells_all_parameters_apart_in_any_process():
    base = ImagePreprocessing(**IMAGENET, size=224, channels=3, resize=256)
    changes = {
        "mean": (0.5,),
        "std": (0.5,),
        "size": 192,
        "channels": 1,
        "interpolation": "bicubic",
        "resize": 232,
        "fit": "stretch",
        "fill": (0.5,),
    }
    assert set(changes) == {field.name for field in fields(base)}
    digests = {replace(base, **{name: value}).digest() for name, value in changes.items()}
    assert len(digests | {base.digest()}) == len(changes) + 1
    same = ImagePreprocessing(
        np.array(IMAGENET["mean"]), list(IMAGENET["std"]), [224, 224], 3, resize=np.int64(256)
    )
    assert (same, hash(same), same.digest()) == (base, hash(base), base.digest())
    # The same in every process; a change of what the parameters mean has to change it.
    assert base.digest() == ("b767894ca4bc510f73350ca3b6dde50de120371d95eb4f4ac4250b9e26afce59")


def test_a_backbone_gives_the_same_features_in_any_layout():
    """Grey images in three layouts, and as colour."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    grey = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    backbone = TorchBackbone(network, **IMAGENET, channels=3, input_size=40).fit(grey)
    expected = backbone.transform(grey)
    colour = np.repeat(grey[..., None], 3, axis=3)
    for X in (grey[..., None], grey[:, None], colour, np.moveaxis(colour, 3, 1)):
        found = TorchBackbone(network, **IMAGENET, channels=3, input_size=40).fit_transform(X)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_decoded_pixels_are_8_bits():
    assert decode(photograph(8, 9)).dtype == np.uint8
    assert decode(photograph(8, 9).convert("L")).shape == (8, 9, 1)
