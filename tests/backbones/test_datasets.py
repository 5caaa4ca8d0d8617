"""Data sets of torch, columns of paths and lists of images of several sizes as input."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data import TensorDataset as Tensors

from sktransfer.backbones import TorchBackbone
from sktransfer.backbones._images import as_images, input_kind
from sktransfer.backbones._preprocessing import ImagePreprocessing

rng = np.random.default_rng(0)
COLOUR = rng.integers(0, 256, size=(6, 10, 12, 3), dtype=np.uint8)
TENSOR = torch.from_numpy(np.moveaxis(COLOUR, 3, 1).copy())
FEATURES = np.moveaxis(COLOUR, 3, 1).reshape(6, -1) / 255


def pixels(**parameters):
    """A backbone whose features are the preprocessed pixels themselves."""
    return TorchBackbone(nn.Flatten(), **{"mean": 0.0, "std": 1.0, **parameters})


class Items(Dataset):
    """A data set of torch whose items a function gives."""

    def __init__(self, item, n=6, transform=None):
        self.item = item
        self.n = n
        self.transform = transform

    def __len__(self):
        return self.n

    def __getitem__(self, row):
        return self.item(row)


class Plain:
    """A data set without torch's base class, as its loaders take them too."""

    def __len__(self):
        return 6

    def __getitem__(self, row):
        return COLOUR[row], "label"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    paths = [str(folder / f"image {row}.png") for row in range(6)]
    for path, image in zip(paths, COLOUR, strict=True):
        Image.fromarray(image).save(path)
    return paths


# -- data sets -------------------------------------------------------------------------------------


def pillow(row):
    return Image.fromarray(COLOUR[row])


@pytest.mark.parametrize(
    "dataset",
    [
        Tensors(TENSOR, torch.arange(6)),
        Tensors(TENSOR),
        Tensors(TENSOR / 255, torch.arange(6)),
        Subset(Tensors(TENSOR.flip(0), torch.arange(6)), [5, 4, 3, 2, 1, 0]),
        ConcatDataset([Tensors(TENSOR[:2]), Subset(Tensors(TENSOR), [2, 3]), Tensors(TENSOR[4:])]),
        Items(lambda row: COLOUR[row]),
        Items(lambda row: (pillow(row), {"label": row}, row)),
        Items(pillow),
        Items(lambda row: [TENSOR[row].double() / 255, row]),
        Plain(),
        [(image, 3) for image in COLOUR],
        [(image, torch.tensor(3)) for image in TENSOR],
        tuple((pillow(row), "label") for row in range(6)),
    ],
)
def test_data_sets_of_images(dataset):
    backbone = pixels(batch_size=4).fit(dataset)
    assert backbone.input_shape_ is None
    np.testing.assert_allclose(backbone.transform(dataset), FEATURES, atol=1e-6)
    np.testing.assert_allclose(backbone.transform(COLOUR), FEATURES, atol=1e-6)
    workers = pixels(batch_size=1, n_workers=3).fit(dataset)
    np.testing.assert_allclose(workers.transform(dataset), FEATURES, atol=1e-6)


def test_a_list_of_paths_and_labels(paths):
    samples = [(path, row) for row, path in enumerate(paths)]
    np.testing.assert_allclose(pixels().fit_transform(samples), FEATURES, atol=1e-6)
    dataset = Items(lambda row: paths[row])
    np.testing.assert_allclose(pixels().fit_transform(dataset), FEATURES, atol=1e-6)


def test_grey_items_and_half_precision():
    grey = TENSOR[:, 0]
    expected = grey.reshape(6, -1) / 255
    for item in (
        lambda row: grey[row],
        lambda row: grey[row, None],
        lambda row: grey[row, ..., None].numpy(),
        lambda row: grey[row] / 255,
    ):
        np.testing.assert_allclose(pixels().fit_transform(Items(item)), expected, atol=1e-6)
    for dtype in (torch.float16, torch.bfloat16):
        half = Items(lambda row, dtype=dtype: (grey[row] / 255).to(dtype))
        np.testing.assert_allclose(pixels().fit_transform(half), expected, atol=5e-3)
    mask = Items(lambda row: grey[row] > 99)
    np.testing.assert_array_equal(pixels().fit_transform(mask), (grey > 99).reshape(6, -1))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TENSOR)


class WithoutLength(Dataset):
    def __getitem__(self, row):
        return TENSOR[row]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (Stream(), "iterable data set .Stream., whose rows have no numbers"),
        (WithoutLength(), "WithoutLength has no length"),
        (DataLoader(Tensors(TENSOR)), "pass its data set, X.dataset"),
        (Items(lambda row: TENSOR[row], n=0), r"0 sample\(s\)"),
        (Items(lambda row: TENSOR[row] / 127.5 - 1), "in row 0 .* look normalised already"),
        (Items(lambda row: TENSOR[row].float()), "from 0 to 25. in row 0 .* divide by the largest"),
        (Items(lambda row: TENSOR[row].long()), "image in row 0 of .* got an array of dtype int64"),
        (Items(lambda row: {"image": TENSOR[row]}), r"is a dict with the keys \['image'\]"),
        (Items(lambda row: TENSOR[row].flatten()), r"got a Tensor of shape \(360,\)"),
        (Items(lambda row: None), "Row 0 of the data set must be an image.* got a NoneType"),
        (Items(lambda row: ()), "must be an image.* got a tuple"),
        (Items(lambda row: torch.zeros(3, 9, 3)), r"shape \(3, 9, 3\), is ambiguous.* and both"),
        (Items(lambda row: torch.zeros(5, 9, 7)), r"shape \(5, 9, 7\), is ambiguous.* and neither"),
        (Items(lambda row: torch.zeros(3, 0, 7)), "row 0 has no pixels"),
        (Items(lambda row: torch.rand(3, 4, 4)), "other pixels for row 0 each time"),
        (
            Items(lambda row: "nowhere.png"),
            "image in row 0 of the data set can't be read .*No",
        ),
    ],
)
def test_data_sets_that_cannot_be_used(X, message):
    with pytest.raises(ValueError, match=message):
        pixels().fit(X)


@pytest.mark.parametrize("n_workers", [0, 3])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: [][0], r"data set Items failed at row 4 \(IndexError: list index out of range\)"),
        (lambda: 1 / 0, r"failed at row 4 \(ZeroDivisionError: division by zero\)"),
        (lambda: TENSOR[0] * np.nan, "NaN or infinite values in row 4 of the data set"),
        (lambda: TENSOR[0] - 1.0, "must lie between 0 and 1.* in row 4 of the data set"),
        (lambda: TENSOR[0, :, :5], r"\(3, 10, 12\) in row 0, \(3, 5, 12\) in row 4"),
        (lambda: TENSOR[0, 0], r"\(3, 10, 12\) in row 0, \(1, 10, 12\) in row 4"),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_row_that_cannot_be_used_is_named(wrong, message, n_workers, batch_size):
    dataset = Items(lambda row: wrong() if row == 4 else TENSOR[row])
    backbone = pixels(n_workers=n_workers, batch_size=batch_size).fit(dataset)
    with pytest.raises(ValueError, match=message):
        backbone.transform(dataset)


def test_transforms_that_the_backbone_does_itself_or_that_are_random():
    transforms = pytest.importorskip("torchvision.transforms")

    def dataset(*steps):
        compose = transforms.Compose([*steps, transforms.ToTensor()])
        return Items(lambda row: compose(pillow(row)), transform=compose)

    np.testing.assert_allclose(pixels().fit_transform(dataset()), FEATURES, atol=1e-6)
    identity = transforms.Normalize([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    named = Items(lambda row: TENSOR[row], transform=transforms.Compose([identity]))
    np.testing.assert_allclose(pixels().fit_transform(named), FEATURES, atol=1e-6)
    # Bright pixels would lie between 0 and 1 all the same.
    named = Items(lambda row: TENSOR[row], transform=transforms.Normalize(0.1, 2.0))
    for X in (named, Subset(named, [0, 1]), ConcatDataset([Tensors(TENSOR), named])):
        with pytest.raises(ValueError, match=r"normalises its images \(Normalize\(mean=0.1"):
            pixels().fit(X)
    with pytest.raises(ValueError, match="at random .RandomHorizontalFlip"):
        pixels().fit(dataset(transforms.RandomHorizontalFlip()))
    assert pixels().fit_transform(dataset(transforms.RandomHorizontalFlip(0))).shape == (6, 360)


def test_items_are_read_by_one_thread_at_a_time():
    """As a shared open file needs it: two threads would read each other's bytes."""
    inside, most = [], []

    def item(row):
        inside.append(row)
        most.append(len(inside))
        threading.Event().wait(0.001)
        inside.remove(row)
        return TENSOR[row % 6]

    dataset = Items(item, n=60)
    features = pixels(batch_size=2, n_workers=4).fit(dataset).transform(dataset)
    np.testing.assert_allclose(features, np.tile(FEATURES, (10, 1)), atol=1e-6)
    assert max(most) == 1


def test_any_rows_of_a_data_set():
    images = as_images(Tensors(TENSOR, torch.arange(6)), ImagePreprocessing((0.0,), (1.0,)))
    rows = np.array([4, 0, 0, 5])
    np.testing.assert_allclose(images.batch(rows).flatten(1), FEATURES[rows], atol=1e-6)


# -- columns of paths ------------------------------------------------------------------------------


def columns():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    return {
        "array": np.array,
        "array of objects": lambda paths: np.array(paths, dtype=object),
        "array of strings": lambda paths: np.array(paths, dtype=np.dtypes.StringDType()),
        "column": lambda paths: np.array(paths)[:, None],
        "path objects": lambda paths: [Path(path) for path in paths],
        "series": lambda paths: pandas.Series(paths, index=range(10, 16)),
        "series of paths": lambda paths: pandas.Series([Path(path) for path in paths]),
        "series of objects": lambda paths: pandas.Series(paths, dtype=object),
        "categories": lambda paths: pandas.Series(paths).astype("category"),
        "frame": lambda paths: pandas.DataFrame({"path": paths}, index=list("abcdef")),
        "series of images": lambda paths: pandas.Series([Image.open(path) for path in paths]),
        "series of arrays": lambda paths: pandas.Series(list(COLOUR)),
        "polars": polars.Series,
        "polars frame": lambda paths: polars.DataFrame({"path": paths}),
        "mixed": lambda paths: [Path(paths[0]), Image.open(paths[1]), *paths[2:]],
    }


@pytest.mark.parametrize("kind", list(columns()))
def test_columns_of_paths(paths, kind):
    X = columns()[kind](paths)
    backbone = pixels(batch_size=4, n_workers=1).fit(X)
    np.testing.assert_allclose(backbone.transform(X), FEATURES, atol=1e-6)


def test_missing_paths_are_named(paths):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    for X in (
        pandas.Series([None, paths[0], np.nan, paths[1]]),
        pandas.Series([pandas.NA, paths[0], None], dtype="string"),
        polars.DataFrame({"path": [None, paths[0], None]}),
        np.array([None, paths[0], np.nan], dtype=object),
        [None, paths[0], None],
    ):
        with pytest.raises(ValueError, match=r"2 of [34] paths are missing, at positions 0, 2\."):
            pixels().fit(X)
    with pytest.raises(ValueError, match=r"60 of 61 paths are missing.* 49 and 10 more\."):
        pixels().fit([None] * 60 + paths[:1])


def test_frames_with_other_columns_and_single_paths_say_what_to_pass(paths, tmp_path):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    data = {"number": [1.0] * 6, "file": paths}
    for frame in (pandas.DataFrame(data), polars.DataFrame(data)):
        with pytest.raises(
            ValueError, match=r"frame with 2 columns.*pass that column.*X\['file'\]"
        ):
            pixels().fit(frame)
    for path in (str(tmp_path), tmp_path, paths[0]):
        with pytest.raises(ValueError, match="the single path '.*load_image_folder"):
            pixels().fit(path)
    with pytest.raises(ValueError, match=r"row 0: .* \(a folder\)"):
        pixels().fit([tmp_path])
    # Numbers in frames are vectors as ever.
    assert input_kind(pandas.DataFrame({"a": [1.0, 2.0]})) == "vectors"
    assert input_kind(pandas.DataFrame({"a": ["x.png"], "b": ["y.png"]})) == "vectors"
    assert input_kind(pandas.Series([1.0, 2.0])) == "vectors"
    assert input_kind([None, None]) == "vectors"
    assert input_kind({0: paths[0]}) == "vectors"


# -- several sizes ---------------------------------------------------------------------------------


def of_several_sizes():
    arrays = [image[: 5 + row] for row, image in enumerate(COLOUR)]
    column = np.empty(6, dtype=object)
    column[:] = arrays
    return {
        "arrays": arrays,
        "floats": [image / 255 for image in arrays],
        "tensors": [torch.from_numpy(np.moveaxis(image, 2, 0).copy()) for image in arrays],
        "Pillow": [Image.fromarray(image) for image in arrays],
        "column": column,
        "pairs": [(image, 0) for image in arrays],
        "data set": Items(lambda row: arrays[row]),
    }


@pytest.mark.parametrize("kind", list(of_several_sizes()))
def test_images_of_several_sizes_are_resized_or_refused(kind):
    X = of_several_sizes()[kind]
    results = [
        pixels(input_size=7, batch_size=size, n_workers=workers).fit_transform(X)
        for size, workers in ((1, 0), (4, 2), (64, 0))
    ]
    expected = pixels(input_size=7).fit_transform(of_several_sizes()["Pillow"])
    for features in results:
        np.testing.assert_allclose(features, expected, atol=1e-6)
    for batch_size in (1, 64):
        with pytest.raises(ValueError, match="images of one shape|differ in channels or size"):
            pixels(batch_size=batch_size).fit(X).transform(X)


def test_lists_of_two_kinds_of_numbers_are_refused():
    for size in (None, 7):
        with pytest.raises(ValueError, match=r"of one dtype, got \['float64', 'uint8'\]"):
            pixels(input_size=size).fit([COLOUR[0], COLOUR[1] / 255])


@pytest.mark.parametrize("changed", [range(11), range(1, 11)])
def test_images_that_change_by_chance_are_refused_whichever_row_changes(changed):
    class Flipping(torch.utils.data.Dataset):
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __len__(self):
            return 11

        def __getitem__(self, row):
            image = np.arange(64, dtype=np.uint8).reshape(8, 8)
            flip = row in changed and self.rng.random() < 0.5
            return image[:, ::-1].copy() if flip else image

    with pytest.raises(ValueError, match="gives other pixels for row"):
        as_images(Flipping(), ImagePreprocessing((0.5,), (0.5,)))


def test_vectors_are_no_items():
    vectors = Tensors(torch.rand(6, 5), torch.arange(6))
    told = r"^X is a data set \(TensorDataset\) of vectors, .*shape \(5,\) in row 0. Pass .* array"
    for backbone in (TorchBackbone(nn.Linear(5, 2)), pixels()):
        with pytest.raises(ValueError, match=told):
            backbone.fit(vectors)
    with pytest.raises(ValueError, match=told):
        pixels().fit(COLOUR).transform(vectors)
