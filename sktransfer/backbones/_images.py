"""Images in any of their usual shapes, handed out in batches as one network wants them."""

from os import PathLike

import numpy as np
import torch
from PIL import Image

from sktransfer.backbones._datasets import DatasetImages, is_dataset
from sktransfer.backbones._files import ImageItems, decode, first_item, is_item, unreadable_error
from sktransfer.backbones._preprocessing import ImagePreprocessing
from sktransfer.backbones._tensors import (
    SingleImages,
    as_tensor,
    check_range,
    raise_for_dtype,
    row_numbers,
)

__all__ = [
    "ArrayImages",
    "DatasetImages",
    "FileImages",
    "ImagePreprocessing",
    "as_images",
    "input_kind",
    "refuse_hidden_paths",
]

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# Values are looked at in parts of this many bytes, so that no copy of them all is made.
_CHUNK_BYTES = 2**24
_N_PROBED = 64


def input_kind(X):
    """Tell vectors, image arrays, image files and data sets apart without converting anything.

    Parameters
    ----------
    X : object
        What a user passed as data.

    Returns
    -------
    kind : {"vectors", "images", "files", "dataset"}
        "images" for arrays with 3 or 4 axes and lists of images, "files" for a 1-D sequence, a
        series or a frame with one column of paths or of Pillow images, "dataset" for map-style
        data sets as torch has them and lists of pairs (image, label), "vectors" for anything else
        (whose checks are scikit-learn's).
    """
    if len(getattr(X, "shape", ())) >= 3:
        return "images"
    if is_dataset(X):
        return "dataset"
    first = first_item(X)
    if is_item(first):
        return "files"
    # A list or column of images, each an array or lists of pixels.
    if len(getattr(X, "shape", (0,))) == 1 and _n_axes(first) in (2, 3):
        is_column = isinstance(X, (list, tuple)) or hasattr(first, "shape")
        return "images" if is_column else "vectors"
    return "vectors"


def as_images(X, preprocessing):
    """Wrap images so that they can be read batch by batch.

    Parameters
    ----------
    X : object
        Data whose ``input_kind`` is not "vectors".
    preprocessing : ImagePreprocessing
        What is done to each image.

    Returns
    -------
    images : ArrayImages, FileImages or DatasetImages
        With ``len``, ``shape`` (of an image before it is preprocessed, None if they may differ) and
        ``batch(rows)``.

    Raises
    ------
    ValueError
        For data that can't be used.
    """
    kind = input_kind(X)
    if kind == "dataset":
        return DatasetImages(X, preprocessing)
    if kind == "files":
        return FileImages(X, preprocessing)
    if len(getattr(X, "shape", ())) == 1:  # a column or array of arrays
        X = list(X)
    is_list = isinstance(X, (list, tuple)) and hasattr(X[0], "shape")
    if is_list and preprocessing.size is not None and len({tuple(x.shape) for x in X}) > 1:
        return DatasetImages(X, preprocessing)
    return ArrayImages(X, preprocessing)


def refuse_hidden_paths(X):
    """Refuse what isn't a column of paths but looks as if one was meant.

    Parameters
    ----------
    X : object
        Data whose ``input_kind`` is "vectors".

    Raises
    ------
    ValueError
        For a single path, and for a frame with several columns of which one holds paths.
    """
    if isinstance(X, (str, PathLike)):
        raise ValueError(
            f"Expected 2D array or a sequence of paths, got the single path {str(X)!r}. Pass "
            "[path] for one image; sktransfer.datasets.load_image_folder lists those of a folder."
        )
    names = getattr(X, "columns", None)
    if names is None or len(getattr(X, "shape", ())) != 2:
        return
    for name in list(names):
        first = first_item(X[[name]])
        if isinstance(first, (PathLike, Image.Image)) or (
            isinstance(first, str) and first.lower().endswith(_SUFFIXES)
        ):
            raise ValueError(
                f"X is a frame with {len(names)} columns, of which {name!r} holds images or their "
                f"paths: pass that column alone, X[{name!r}]."
            )


def _n_axes(image):
    """Count the axes of an array or of nested lists, looking at first items only."""
    n_nested = 0
    while isinstance(image, (list, tuple)) and image:
        image, n_nested = image[0], n_nested + 1
    return n_nested + len(getattr(image, "shape", ()))


def _stacked(images):
    """Make one array of a list of images."""
    missing = [row for row, image in enumerate(images) if image is None]
    if missing:
        raise ValueError(
            f"A list of images holds None in {len(missing)} of {len(images)} places, first in row "
            f"{missing[0]}."
        )
    if any(isinstance(image, torch.Tensor) for image in images):
        images = [as_tensor(image).numpy() for image in images]
    try:
        shapes = sorted({np.shape(image) for image in images})
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"A list of images must hold rows of one length: {error}") from error
    if len(shapes) > 1:
        raise ValueError(
            f"A list of images must hold images of one shape, got {shapes}. "
            "Images of several sizes can be given to a backbone that resizes them."
        )
    kinds = {getattr(image, "dtype", None) for image in images}
    if np.dtype(np.uint8) in kinds and len(kinds) > 1:
        kinds = sorted(str(kind or "no dtype") for kind in kinds)
        raise ValueError(f"A list of images must hold images of one dtype, got {kinds}.")
    array = np.asarray(images)
    if array.dtype.kind == "i" and not hasattr(images[0], "dtype"):
        # Lists don't know of uint8: what is in its range is what uint8 pixels become in lists.
        if array.min() < 0 or array.max() > 255:
            raise ValueError(
                "Whole numbers in lists of pixels must lie between 0 and 255, got values from "
                f"{array.min()} to {array.max()}."
            )
        array = array.astype(np.uint8)
    return array


class ArrayImages:
    """Images of one size in one array, channels first, last or left out.

    Parameters
    ----------
    X : array or tensor of shape (n, height, width), (n, height, width, channels) or \
            (n, channels, height, width)
        uint8, or floats (or booleans) between 0 and 1. Channels are an axis of length 1, 3 or
        ``channels``. Memory maps, and arrays of other libraries that lie on disk, are read batch by
        batch.
    preprocessing : ImagePreprocessing
        What is done to each batch.

    Raises
    ------
    ValueError
        For an array that has no rows, an ambiguous or unknown place of the channels, another
        dtype, values out of range or values that are not finite.
    """

    def __init__(self, X, preprocessing):
        self.preprocessing = preprocessing
        if isinstance(X, (list, tuple)):
            X = _stacked(X)
        # Arrays that can only be read in parts (h5py, zarr) stay what they are.
        lies_elsewhere = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
        if not isinstance(X, torch.Tensor) and (
            hasattr(X, "__array_interface__") or not lies_elsewhere
        ):
            is_mapped = isinstance(X, np.memmap)
            X = np.asarray(X)
            # Reading all of a file to look at two rows would take as long as the network.
            self._checked = not is_mapped
        else:
            self._checked = isinstance(X, torch.Tensor)
        self._X = X
        shape = tuple(X.shape)
        if len(shape) > 4:
            raise ValueError(
                f"Images need an array with 3 or 4 axes, got shape {shape}; volumes and videos "
                "have to be cut into images first."
            )
        if 0 in shape:
            raise ValueError(f"Found array with 0 sample(s) or pixels (shape={shape}).")
        self._full_shape = shape
        self._channel_axis = self._find_channel_axis()
        self._dtype = self._read(slice(0, 0)).dtype
        raise_for_dtype(self._dtype)
        self._check_values()

    def _find_channel_axis(self):
        shape = self._full_shape
        if len(shape) == 3:
            return None
        known = {1, 3, self.preprocessing.channels}
        places = [axis for axis in (1, 3) if shape[axis] in known]
        if len(places) == 1:
            return places[0]
        reason = "both of which" if places else "neither of which"
        hint = "" if places else "; volumes have to be cut into images first"
        raise ValueError(
            f"Images of shape {shape} are ambiguous: the channels must be the second or "
            f"the last axis, {reason} can be channels here (1, 3 or the parameter 'channels')"
            f"{hint}."
        )

    def _read(self, rows):
        """Give some rows as they are, as a numpy array."""
        part = self._X[rows]
        return as_tensor(part).numpy() if isinstance(part, torch.Tensor) else np.asarray(part)

    def _check_values(self):
        if self._dtype.kind != "f":
            return
        n = len(self)
        if self._checked:
            row_bytes = max(1, int(np.prod(self._full_shape[1:])) * self._dtype.itemsize)
            step = max(1, _CHUNK_BYTES // row_bytes)
            parts = [slice(start, start + step) for start in range(0, n, step)]
        else:
            # The rest is checked when it is read.
            parts = [slice(row, row + 1) for row in range(0, n, max(1, n // _N_PROBED))]
        limits = [np.inf, -np.inf]
        for rows in parts:
            part = self._read(rows)
            # NaN is passed on by both.
            limits = [np.minimum(limits[0], part.min()), np.maximum(limits[1], part.max())]
        check_range(float(limits[0]), float(limits[1]))

    def __len__(self):
        return self._full_shape[0]

    @property
    def shape(self):
        """Channels, height and width, whatever the layout of the array."""
        shape = self._full_shape
        if self._channel_axis is None:
            return (1, *shape[1:])
        if self._channel_axis == 1:
            return shape[1:]
        return (shape[3], *shape[1:3])

    def batch(self, rows):
        """Give preprocessed images.

        Parameters
        ----------
        rows : slice or array of int
            Which images.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            Ready for the network.
        """
        part = self._read(rows)
        if self._dtype.kind == "f" and not self._checked:
            numbers = row_numbers(rows, len(self))
            where = f" in rows {numbers[0]} to {numbers[-1]}"
            check_range(float(part.min()), float(part.max()), where)
        images = as_tensor(part)
        if self._channel_axis is None:
            images = images[:, None]
        elif self._channel_axis == 3:
            images = images.permute(0, 3, 1, 2)
        return self.preprocessing(images)


class FileImages(SingleImages):
    """Image files, decoded batch by batch, and Pillow images.

    Parameters
    ----------
    items : 1-D sequence, series or frame with one column, of str, path or Pillow image
        Rows keep this order.
    preprocessing : ImagePreprocessing
        What is done to each image. Without ``size`` all images must have one size.

    Raises
    ------
    ValueError
        For items of another type, or if files are missing or are no images; all of them are named.
    """

    def __init__(self, items, preprocessing):
        super().__init__(preprocessing)
        self.items = ImageItems(items)
        # Reading the first bytes of each file finds most faults before any forward pass.
        self.items.check()

    def __len__(self):
        return len(self.items)

    def batch(self, rows):
        """Decode and preprocess images.

        Parameters
        ----------
        rows : slice or array of int
            Which images.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            Ready for the network.

        Raises
        ------
        ValueError
            If a file cannot be decoded; the rest of the files is looked through then, so that all
            damaged files are named at once.
        """
        try:
            return self.read(rows)
        except _Undecodable as error:
            if isinstance(error.__cause__, MemoryError):
                raise error.__cause__ from None
            first = error.args[0] if isinstance(rows, slice) else 0
            faults = self.items.unreadable(range(first, len(self)), pixels=True)
            if not faults:  # a file that could not be read for a moment
                raise error.__cause__ from None
            raise unreadable_error(self.items, faults) from error.__cause__

    def read(self, rows):
        """Do what ``batch`` does without looking through other files after a damaged one.

        Parameters
        ----------
        rows : slice or array of int
            Which images.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            Ready for the network.
        """
        numbers = row_numbers(rows, len(self))
        # One by one: photographs are large before they are resized.
        return self._one_batch(map(self._decoded, numbers), numbers)

    def _decoded(self, row):
        try:
            pixels = decode(self.items[row])
        except Exception as error:
            raise _Undecodable(row) from error
        return torch.from_numpy(pixels).permute(2, 0, 1)[None]


class _Undecodable(Exception):
    """The row of an image that can't be decoded; what happened is its cause."""
