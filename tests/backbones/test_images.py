"""One image is one image: whatever array, file or layout it comes in."""

import struct
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.backbones._images import ImagePreprocessing, as_images, input_kind

rng = np.random.default_rng(0)
GREY = rng.integers(0, 256, size=(6, 10, 12), dtype=np.uint8)
COLOUR = rng.integers(0, 256, size=(6, 10, 12, 3), dtype=np.uint8)
UNIT = {"mean": 0.0, "std": 1.0}


def pixels(**parameters):
    """A backbone whose features are the preprocessed pixels themselves."""
    return TorchBackbone(nn.Flatten(), **{**UNIT, **parameters})


def save(folder, images, suffix="png"):
    paths = []
    for row, image in enumerate(images):
        paths.append(folder / f"{row}.{suffix}")
        Image.fromarray(image).save(paths[-1])
    return paths


# -- layouts and dtypes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[..., None],
        lambda x: x[:, None],
        lambda x: x / 255,
        lambda x: (x / 255).astype(np.float32),
        lambda x: np.asfortranarray(x),
        lambda x: list(x),
        lambda x: x.tolist(),
        lambda x: (x / 255).tolist(),
        lambda x: tuple(tuple(map(tuple, image)) for image in x.tolist()),
        lambda x: [[list(row) for row in image] for image in x],
        lambda x: np.ma.masked_array(x),
        lambda x: torch.from_numpy(x),
        lambda x: [Image.fromarray(image) for image in x],
    ],
)
def test_grey_images_in_any_layout(change):
    backbone = pixels().fit(GREY)
    expected = GREY.reshape(6, -1) / 255
    np.testing.assert_allclose(backbone.transform(change(GREY)), expected, atol=1e-6)
    assert pixels().fit(change(GREY)).transform(GREY).shape == (6, 120)


def test_lists_of_pixels_that_are_no_images():
    for values, words in (
        ((GREY.astype(int) + 1000).tolist(), "between 0 and 255, got values from 1"),
        ((GREY.astype(int) - 300).tolist(), "between 0 and 255, got values from -300"),
        ([[[0, 1], [2]], [[0, 1], [2, 3]]], "must hold rows of one length"),
        ([[[0, 1], [2, 3]], [[0, 1]]], r"images of one shape, got \[\(1, 2\), \(2, 2\)\]"),
    ):
        with pytest.raises(ValueError, match=words):
            pixels().fit(values)


def test_masks_are_not_overlooked():
    images = np.ma.masked_array(GREY, mask=GREY > 250)
    with pytest.raises(ValueError, match=rf"X is a masked array with {(GREY > 250).sum()} of 720"):
        pixels().fit(images)
    rows = np.ma.masked_array(np.eye(4), mask=np.eye(4))
    with pytest.raises(ValueError, match="masked array with 4 of 16 values masked"):
        TorchBackbone(nn.Identity()).fit(np.eye(4)).transform(rows)


def test_colour_images_first_or_last():
    first = np.moveaxis(COLOUR, 3, 1)
    expected = first.reshape(6, -1) / 255
    np.testing.assert_allclose(pixels().fit_transform(COLOUR), expected, atol=1e-6)
    np.testing.assert_allclose(pixels().fit_transform(first), expected, atol=1e-6)
    assert pixels().fit(COLOUR).input_shape_ == (3, 10, 12)
    assert pixels().fit(COLOUR).n_features_in_ == 360


def test_booleans_and_half_precision():
    mask = GREY > 100
    np.testing.assert_array_equal(pixels().fit_transform(mask), mask.reshape(6, -1))
    half = (GREY / 255).astype(np.float16)
    np.testing.assert_allclose(pixels().fit_transform(half), half.reshape(6, -1), atol=1e-6)


def test_memory_maps_are_read_batch_by_batch(tmp_path):
    np.save(tmp_path / "images.npy", GREY)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(pixels().fit_transform(mapped), pixels().fit_transform(GREY))


class OnDisk:
    """An array that can only be read in parts, as those of h5py and zarr."""

    def __init__(self, array):
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.n_read = 0

    def __len__(self):
        return len(self._array)

    def __getitem__(self, rows):
        self.n_read += len(self._array[rows])
        return self._array[rows].copy()


def test_arrays_on_disk_are_not_read_whole():
    images = np.repeat(GREY, 200, axis=0)
    for array in (images, images / 255):
        disk = OnDisk(array)
        backbone = pixels(batch_size=100).fit(disk)
        assert disk.n_read < 100
        features = backbone.transform(disk)
        assert disk.n_read < 1400
        np.testing.assert_allclose(features, images.reshape(1200, -1) / 255, atol=1e-6)


def test_floats_in_a_memory_map_are_checked_as_they_are_read(tmp_path):
    images = np.repeat(GREY, 200, axis=0) / 255
    images[701, 3, 3] = np.nan
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    backbone = pixels(batch_size=100).fit(mapped)
    with pytest.raises(ValueError, match="NaN or infinite values in rows 700 to 799"):
        backbone.transform(mapped)
    images[:, 3, 3] = 2.5
    np.save(tmp_path / "images.npy", images)
    with pytest.raises(ValueError, match="got values from 0 to 2.5"):
        pixels().fit(np.load(tmp_path / "images.npy", mmap_mode="r"))


def test_looking_at_the_values_makes_no_copy_of_them():
    images = np.full((2000, 64, 64), 0.5, dtype=np.float32)
    for X in (images, images[::-1], torch.from_numpy(images)):
        tracemalloc.start()
        as_images(X, ImagePreprocessing((0.0,), (1.0,)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**20


def test_memory_that_torch_would_not_take_as_it_is():
    floats = (GREY / 255).astype(np.float32)
    read_only = floats.copy()
    read_only.flags.writeable = False
    for X in (
        read_only,
        floats[:, ::-1][:, ::-1],
        floats.astype(">f8"),
        floats.astype(np.longdouble),
        np.asfortranarray(floats),
        torch.from_numpy(floats).requires_grad_(),
        torch.from_numpy(floats).transpose(1, 2).contiguous().transpose(1, 2),
    ):
        np.testing.assert_allclose(pixels().fit_transform(X), GREY.reshape(6, -1) / 255, atol=1e-6)


def test_values_that_rounding_took_over_the_edge():
    images = np.array([[[0.0, -5e-7], [1.0000005, 1.0]]])
    assert pixels().fit_transform(images).shape == (1, 4)


@pytest.mark.parametrize("shape", [(4, 3, 28, 3), (4, 1, 28, 1), (4, 1, 28, 3)])
def test_an_ambiguous_layout_is_an_error(shape):
    with pytest.raises(ValueError, match="ambiguous.*both of which"):
        pixels().fit(np.zeros(shape, np.uint8))


def test_an_unknown_number_of_channels_is_an_error_unless_it_is_given():
    four = np.zeros((2, 8, 9, 4), np.uint8)
    with pytest.raises(ValueError, match="ambiguous.*neither of which"):
        pixels().fit(four)
    assert pixels(channels=4).fit(four).input_shape_ == (4, 8, 9)
    assert pixels(channels=4).fit(np.zeros((2, 4, 8, 9))).input_shape_ == (4, 8, 9)


# -- wrong values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (GREY.astype(float), "must lie between 0 and 1, got values from 0 to 255"),
        (GREY / 255 - 0.5, "must lie between 0 and 1, got values from -0.5"),
        (np.where(GREY > 9, np.nan, 0.5), "NaN or infinite"),
        (np.where(GREY > 9, np.inf, 0.5), "NaN or infinite"),
        (GREY.astype(np.int64), "got an array of dtype int64"),
        (GREY.astype(str), "got an array of dtype <U"),
        (GREY[:0], r"0 sample\(s\)"),
        (GREY.astype(np.uint16), "dtype uint16; .* divide others by the largest value"),
        (GREY / 127.5 - 1, "got values from -1 to .* look normalised already"),
        (np.zeros((2, 3, 4, 5, 6), np.uint8), "3 or 4 axes.*volumes and videos"),
        (np.zeros((2, 28, 28, 28), np.uint8), "neither of which.*volumes have to be cut"),
        ([GREY[0], GREY[1, :5]], "images of one shape"),
        (np.array(["a.png"] * 2)[:, None, None], "got an array of dtype <U5"),
    ],
)
def test_wrong_images_are_refused_before_any_pass(X, message):
    class Never(nn.Module):
        def forward(self, x):
            raise AssertionError("a forward pass was made")

    with pytest.raises(ValueError, match=message):
        TorchBackbone(Never(), **UNIT).fit(X)


def test_another_shape_than_in_fit_is_an_error():
    backbone = pixels().fit(GREY)
    with pytest.raises(ValueError, match=r"shape \(1, 5, 12\), but .* \(1, 10, 12\)"):
        backbone.transform(GREY[:, :5])
    with pytest.raises(ValueError, match=r"shape \(3, 10, 12\)"):
        backbone.transform(COLOUR)
    with pytest.raises(ValueError, match="2-D data, but TorchBackbone is expecting images"):
        backbone.transform(np.zeros((3, 120)))
    with pytest.raises(ValueError, match="images, but TorchBackbone is expecting 2-D data"):
        pixels().fit(np.zeros((3, 120))).transform(GREY)


def test_a_second_fit_forgets_the_first():
    pandas = pytest.importorskip("pandas")
    backbone = pixels().fit(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    assert backbone.feature_names_in_.tolist() == ["a", "b"]
    backbone.fit(GREY)
    assert not hasattr(backbone, "feature_names_in_")
    assert backbone.n_features_in_ == 120
    backbone.fit([Image.fromarray(image) for image in GREY])
    assert not hasattr(backbone, "n_features_in_")
    assert backbone.input_shape_ is None


# -- preprocessing ---------------------------------------------------------------------------------


def test_unknown_normalisation_is_an_error_not_a_default():
    with pytest.raises(ValueError, match="Got None for mean and std"):
        TorchBackbone(nn.Flatten()).fit(GREY)
    with pytest.raises(ValueError, match="Got None for std"):
        TorchBackbone(nn.Flatten(), mean=0.5).fit(GREY)


def test_normalisation_per_channel():
    mean, std = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7])
    features = pixels(mean=mean, std=list(std)).fit_transform(COLOUR)
    expected = np.moveaxis((COLOUR / 255 - mean) / std, 3, 1).reshape(6, -1)
    np.testing.assert_allclose(features, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"std": 0.0}, "'std' positive, got 0.0 and 0.0"),
        ({"mean": np.nan}, "'mean' must be finite"),
        ({"mean": [0.1, 0.2]}, "'mean' has 2 values, the images have 1 channels"),
        ({"input_size": (4, 0)}, "'input_size' parameter must be one positive integer or two"),
        ({"input_size": (4,)}, "'input_size' parameter must be one positive integer or two"),
    ],
)
def test_wrong_preprocessing(parameters, message):
    with pytest.raises(ValueError, match=message):
        pixels(**parameters).fit(GREY)


def test_grey_and_colour_are_made_of_each_other():
    as_colour = pixels(channels=3).fit_transform(GREY)
    replicated = pixels().fit_transform(np.repeat(GREY[..., None], 3, axis=3))
    np.testing.assert_allclose(as_colour, replicated, atol=1e-6)
    as_grey = pixels(channels=1).fit_transform(COLOUR)
    expected = COLOUR @ np.array([0.299, 0.587, 0.114]) / 255
    np.testing.assert_allclose(as_grey, expected.reshape(6, -1), atol=1e-5)
    grey_again = pixels(channels=1).fit_transform(np.repeat(GREY[..., None], 3, axis=3))
    np.testing.assert_allclose(grey_again, pixels().fit_transform(GREY), atol=1e-5)
    with pytest.raises(ValueError, match="takes images with 4 channels, got images with 3"):
        pixels(channels=4).fit(COLOUR)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [5, (21, 17)])
def test_resizing_is_that_of_pillow(interpolation, size):
    height, width = (size, size) if isinstance(size, int) else size
    features = pixels(input_size=size, interpolation=interpolation).fit_transform(GREY)
    filters = {name: getattr(Image.Resampling, name.upper()) for name in ("nearest", "bilinear")}
    filters["bicubic"] = Image.Resampling.BICUBIC
    expected = [
        np.asarray(Image.fromarray(image).resize((width, height), filters[interpolation])) / 255
        for image in GREY
    ]
    # Pillow rounds and cuts to 0..255 between rows and columns, where bicubic overshoots.
    tolerance = 0.1 if interpolation == "bicubic" else 0.01
    np.testing.assert_allclose(features, np.reshape(expected, (6, -1)), atol=tolerance)
    assert features.min() >= 0
    assert features.max() <= 1


def test_preprocessing_does_not_touch_an_image_that_fits():
    images = torch.rand(2, 1, 5, 5)
    assert torch.equal(ImagePreprocessing((0.0,), (1.0,), (5, 5), 1)(images), images)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_", [list, lambda p: np.array([str(x) for x in p]), tuple])
def test_files_are_the_same_as_arrays(tmp_path, as_):
    paths = as_(save(tmp_path, GREY))
    for backbone in (pixels(batch_size=4), pixels(input_size=7), pixels(channels=3)):
        np.testing.assert_allclose(
            backbone.fit(paths).transform(paths), backbone.fit_transform(GREY), atol=1e-6
        )


def test_a_series_of_paths(tmp_path):
    pandas = pytest.importorskip("pandas")
    paths = pandas.Series([str(path) for path in save(tmp_path, GREY)], index=range(10, 16))
    np.testing.assert_allclose(pixels().fit_transform(paths), GREY.reshape(6, -1) / 255, atol=1e-6)


def test_files_of_several_sizes_and_kinds(tmp_path):
    images = [COLOUR[0], GREY[0], COLOUR[1, :7], GREY[1, :, :8]]
    paths = save(tmp_path, images)
    with pytest.raises(ValueError, match="differ in channels or size"):
        pixels().fit(paths)
    backbone = pixels(input_size=8, channels=1, batch_size=2).fit(paths)
    one_by_one = np.concatenate([backbone.transform([path]) for path in paths])
    np.testing.assert_allclose(backbone.transform(paths), one_by_one, atol=1e-6)
    assert backbone.transform(paths).shape == (4, 64)


def test_sixteen_bits_palettes_transparency_and_orientation(tmp_path):
    deep = GREY[0].astype(np.uint16) * 257
    Image.fromarray(deep).save(tmp_path / "deep.png")
    features = pixels().fit_transform([tmp_path / "deep.png"])
    np.testing.assert_allclose(features, GREY[:1].reshape(1, -1) / 255, atol=1e-6)

    Image.fromarray(COLOUR[0]).convert("P").save(tmp_path / "palette.png")
    Image.fromarray(COLOUR[0]).convert("RGBA").save(tmp_path / "alpha.png")
    backbone = pixels().fit([tmp_path / "palette.png"])
    assert backbone.transform([tmp_path / "palette.png"]).shape == (1, 360)
    np.testing.assert_allclose(
        backbone.transform([tmp_path / "alpha.png"]), backbone.transform(COLOUR[:1]), atol=1e-6
    )

    exif = Image.Exif()
    exif[0x0112] = 3  # the camera was upside down
    Image.fromarray(GREY[0]).save(tmp_path / "turned.png", exif=exif)
    features = pixels().fit_transform([tmp_path / "turned.png"])
    np.testing.assert_allclose(features, GREY[:1, ::-1, ::-1].reshape(1, -1) / 255, atol=1e-6)


def test_colours_of_print_and_animations(tmp_path):
    expected = pixels().fit_transform(COLOUR[:1])
    image = Image.fromarray(COLOUR[0])
    image.convert("CMYK").save(tmp_path / "print.tif")
    np.testing.assert_allclose(
        pixels().fit_transform([tmp_path / "print.tif"]), expected, atol=0.01
    )
    smooth = image.resize((120, 100), Image.Resampling.BICUBIC)
    smooth.convert("CMYK").save(tmp_path / "print.jpg", quality=100)
    found = pixels().fit_transform([tmp_path / "print.jpg"])
    assert np.abs(found - pixels().fit_transform([smooth])).mean() < 0.02

    few = [Image.fromarray(c).quantize(32) for c in COLOUR]
    few[0].save(tmp_path / "moving.gif", save_all=True, append_images=few[1:])
    first = pixels().fit_transform([few[0].convert("RGB")])
    np.testing.assert_allclose(pixels().fit_transform([tmp_path / "moving.gif"]), first, atol=1e-6)

    few[0].save(tmp_path / "clear.png", transparency=bytes([0, 128] * 16))
    np.testing.assert_allclose(pixels().fit_transform([tmp_path / "clear.png"]), first, atol=1e-6)
    for mode, shape in (("LA", (1, 120)), ("1", (1, 120)), ("RGBA", (1, 360))):
        image.convert(mode).save(tmp_path / "other.png")
        assert pixels().fit_transform([tmp_path / "other.png"]).shape == shape


def test_orientation_counts_in_images_as_in_files(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(COLOUR[0]).save(tmp_path / "turned.png", exif=exif)
    expected = pixels().fit_transform(np.rot90(COLOUR[:1], -1, axes=(1, 2)))
    for X in ([tmp_path / "turned.png"], [Image.open(tmp_path / "turned.png")]):
        np.testing.assert_allclose(pixels().fit_transform(X), expected, atol=1e-6)
    image = Image.open(tmp_path / "turned.png")
    image.load()
    image.info["exif"] = b"Exif\x00\x00no such thing"
    image._exif = None
    assert pixels().fit_transform([image]).shape == (1, 360)


def test_images_of_16_bits_in_older_modes():
    image = Image.fromarray(GREY[0].astype(np.int32) * 257)
    image.format = "PNG"  # as Pillow before version 11 opens such files
    found = pixels().fit_transform([image])
    np.testing.assert_allclose(found, GREY[:1].reshape(1, -1) / 255, atol=1e-6)


def test_damage_of_any_kind_names_the_file(tmp_path, monkeypatch):
    path = save(tmp_path, GREY[:1])[0]
    backbone = pixels().fit([path])
    for error in (struct.error("too short"), IndexError(), SyntaxError("bad chunk")):

        def fail(self, error=error):
            raise error

        monkeypatch.setattr(PngImageFile, "load", fail)
        with pytest.raises(
            ValueError, match=r"row 0: .*0.png \((too short|IndexError|bad chunk)\)"
        ):
            backbone.transform([path])

    def memory(self):
        raise MemoryError

    monkeypatch.setattr(PngImageFile, "load", memory)
    with pytest.raises(MemoryError):
        backbone.transform([path])


def test_a_file_that_could_not_be_read_for_a_moment(tmp_path, monkeypatch):
    path = save(tmp_path, GREY[:1])[0]
    backbone = pixels().fit([path])
    original, errors = PngImageFile.load, [OSError("busy")] * 2

    def load(self):
        if errors:
            raise errors.pop()
        return original(self)

    monkeypatch.setattr(PngImageFile, "load", load)
    with pytest.raises(OSError, match="busy"):
        backbone.transform([path])


def test_all_unreadable_files_are_named_before_any_pass(tmp_path):
    class Never(nn.Module):
        def forward(self, x):
            raise AssertionError("a forward pass was made")

    paths = [str(path) for path in save(tmp_path, GREY)]
    paths[1] = str(tmp_path / "missing.png")
    (tmp_path / "4.png").write_text("no image")
    with pytest.raises(ValueError, match="2 of 6 image files cannot be read") as caught:
        TorchBackbone(Never(), **UNIT).fit(paths)
    assert "missing.png (no such file)" in str(caught.value)
    assert "4.png (not an image)" in str(caught.value)


def test_all_damaged_files_are_named(tmp_path):
    paths = save(tmp_path, GREY)
    backbone = pixels(batch_size=2).fit(paths)
    for row in (2, 5):
        paths[row].write_bytes(paths[row].read_bytes()[:-60])
    with pytest.raises(ValueError, match="2 of 6 image files cannot be read") as caught:
        backbone.transform(paths)
    assert f"{paths[2]} (" in str(caught.value)
    assert f"{paths[5]} (" in str(caught.value)


def test_a_long_list_of_unreadable_files_is_cut():
    missing = [f"none-{row}.png" for row in range(60)]
    with pytest.raises(ValueError, match=r"none-49.png \(no such file\); and 10 more\."):
        pixels().fit(missing)


def test_images_without_a_known_range_are_refused():
    image = Image.fromarray(np.zeros((5, 5), np.float32))
    with pytest.raises(ValueError, match=r"image 0 \(its pixels have no known range, mode F\)"):
        pixels().fit([image])


def test_other_things_among_paths_are_refused():
    with pytest.raises(ValueError, match="paths or Pillow images only, got int at position 1"):
        pixels().fit([Image.new("L", (3, 3)), 5])


def test_kinds_of_input():
    assert input_kind(np.zeros((2, 3))) == "vectors"
    assert input_kind([[1.0, 2.0]]) == "vectors"
    assert input_kind([]) == "vectors"
    assert input_kind("a.png") == "vectors"  # one path is no sequence of paths
    assert input_kind(["a.png"]) == "files"
    assert input_kind(np.zeros((2, 3, 4))) == "images"
    with pytest.raises(ValueError, match="[Ee]xpected 2D array"):
        pixels().fit("a.png")
