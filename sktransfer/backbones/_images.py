"""Images in any of their usual shapes, brought to what one network wants to be given."""

from os import PathLike, fspath

import numpy as np
import torch
from PIL import Image, ImageOps

from sktransfer.backbones._preprocessing import ImagePreprocessing

__all__ = ["ArrayImages", "FileImages", "ImagePreprocessing", "input_kind"]

_N_LISTED = 50


def input_kind(X):
    """Tell vectors, image arrays and image files apart without converting anything.

    Parameters
    ----------
    X : object
        What a user passed as data.

    Returns
    -------
    kind : {"vectors", "images", "files"}
        "images" for arrays with 3 or 4 axes, "files" for a 1-D sequence of paths or of Pillow
        images, "vectors" for anything else (whose checks are scikit-learn's).
    """
    n_axes = len(getattr(X, "shape", ()))
    if n_axes >= 3:
        return "images"
    if n_axes <= 1 and not isinstance(X, (str, bytes)):
        try:
            first = X.iloc[0] if hasattr(X, "iloc") else X[0]
        except (TypeError, IndexError, KeyError):
            return "vectors"
        if isinstance(first, (str, PathLike, Image.Image)):
            return "files"
        # A list of images, each an array or lists of pixels.
        if isinstance(X, (list, tuple)) and _n_axes(first) in (2, 3):
            return "images"
    return "vectors"


def _n_axes(image):
    """Count the axes of an array or of nested lists, looking at first items only."""
    n_nested = 0
    while isinstance(image, (list, tuple)) and image:
        image, n_nested = image[0], n_nested + 1
    return n_nested + len(getattr(image, "shape", ()))


def _stacked(images):
    """Make one array of a list of images."""
    try:
        shapes = sorted({np.shape(image) for image in images})
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"A list of images must hold rows of one length: {error}") from error
    if len(shapes) > 1:
        raise ValueError(
            f"A list of images must hold images of one shape, got {shapes}. "
            "Images of several sizes can be passed as a list of paths or Pillow images."
        )
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
    X : array of shape (n, height, width), (n, height, width, channels) or \
            (n, channels, height, width)
        uint8, or floats (or booleans) between 0 and 1. Channels are an axis of length 1, 3 or
        ``channels``.
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
        self._X = _stacked(X) if isinstance(X, (list, tuple)) else np.asarray(X)
        if self._X.ndim > 4:
            raise ValueError(f"Images need an array with 3 or 4 axes, got shape {self._X.shape}.")
        if 0 in self._X.shape:
            raise ValueError(f"Found array with 0 sample(s) or pixels (shape={self._X.shape}).")
        self._channel_axis = self._find_channel_axis()
        self._check_values()

    def _find_channel_axis(self):
        if self._X.ndim == 3:
            return None
        known = {1, 3, self.preprocessing.channels}
        places = [axis for axis in (1, 3) if self._X.shape[axis] in known]
        if len(places) == 1:
            return places[0]
        reason = "both of which" if places else "neither of which"
        raise ValueError(
            f"Images of shape {self._X.shape} are ambiguous: the channels must be the second or "
            f"the last axis, {reason} can be channels here (1, 3 or the parameter 'channels')."
        )

    def _check_values(self):
        dtype = self._X.dtype
        if dtype == np.uint8 or dtype == np.bool_:
            return
        if dtype.kind != "f":
            raise ValueError(
                "Images must be uint8 (0 to 255) or floats between 0 and 1, got an array of dtype "
                f"{dtype}."
            )
        low, high = float(self._X.min()), float(self._X.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("Images contain NaN or infinite values.")
        if low < 0.0 or high > 1.0:
            raise ValueError(
                f"Images of floats must lie between 0 and 1, got values from {low:.6g} to "
                f"{high:.6g}. Pass uint8 images, or divide by the largest possible value; the "
                "backbone normalises by itself."
            )

    def __len__(self):
        return len(self._X)

    @property
    def shape(self):
        """Channels, height and width, whatever the layout of the array."""
        if self._channel_axis is None:
            return (1, *self._X.shape[1:])
        if self._channel_axis == 1:
            return self._X.shape[1:]
        return (self._X.shape[3], *self._X.shape[1:3])

    def batch(self, rows):
        """Give preprocessed images.

        Parameters
        ----------
        rows : slice
            Which images.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            Ready for the network.
        """
        images = self._X[rows]
        scale = 255.0 if images.dtype == np.uint8 else 1.0
        # Always a copy: the array may be read-only or a memory map.
        images = np.array(images, dtype=np.float32)
        if self._channel_axis is None:
            images = images[:, None]
        elif self._channel_axis == 3:
            images = np.moveaxis(images, 3, 1)
        return self.preprocessing(torch.from_numpy(np.ascontiguousarray(images)) / scale)


class FileImages:
    """Image files, decoded batch by batch, and Pillow images.

    Parameters
    ----------
    items : 1-D sequence of str, path or Pillow image
        Rows keep this order.
    preprocessing : ImagePreprocessing
        What is done to each image. Without ``size`` all images must have one size.

    Raises
    ------
    ValueError
        For items of another type, or if files are missing or are no images; all of them are named.
    """

    shape = None

    def __init__(self, items, preprocessing):
        self.preprocessing = preprocessing
        self._items = list(items)
        for row, item in enumerate(self._items):
            if not isinstance(item, (str, PathLike, Image.Image)):
                raise ValueError(
                    "A 1-D sequence of images must hold paths or Pillow images only, got "
                    f"{type(item).__name__} at position {row}."
                )
        # Reading the first bytes of each file finds most faults before any forward pass.
        self._raise_for_unreadable(range(len(self._items)), decode=False)

    def _raise_for_unreadable(self, rows, decode):
        faults = []
        for row in rows:
            try:
                if decode:
                    _decode(self._items[row])
                elif not isinstance(self._items[row], Image.Image):
                    Image.open(self._items[row]).close()
            except _DECODING_ERRORS as error:
                faults.append(f"{_label(self._items[row], row)} ({_reason(error)})")
        if faults:
            listed = "; ".join(faults[:_N_LISTED])
            more = len(faults) - _N_LISTED
            raise ValueError(
                f"{len(faults)} of {len(self._items)} image files cannot be read: {listed}"
                + (f"; and {more} more." if more > 0 else ".")
            )

    def __len__(self):
        return len(self._items)

    def batch(self, rows):
        """Decode and preprocess images.

        Parameters
        ----------
        rows : slice
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
        images = []
        for row in range(*rows.indices(len(self._items))):
            try:
                pixels = _decode(self._items[row])
            except _DECODING_ERRORS:
                self._raise_for_unreadable(range(row, len(self._items)), decode=True)
                raise
            pixels = torch.from_numpy(pixels).permute(2, 0, 1)[None]
            images.append(self.preprocessing(pixels))
        shapes = sorted({tuple(image.shape[1:]) for image in images})
        if len(shapes) > 1:
            raise ValueError(
                "Images differ in channels or size, which the parameters 'channels' and "
                f"'input_size' can make equal: (channels, height, width) are {shapes}."
            )
        return torch.cat(images)


_DECODING_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def _decode(item):
    """Give the pixels, float32 of shape (height, width, 1 or 3), between 0 and 1."""
    if isinstance(item, Image.Image):
        return _pixels(item)
    with Image.open(item) as image:
        return _pixels(ImageOps.exif_transpose(image))


def _pixels(image):
    if image.mode.startswith("I;16"):
        return np.asarray(image, dtype=np.float32)[:, :, None] / 65535.0
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixels have no known range, mode {image.mode}")
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    pixels = np.asarray(image.convert(mode), dtype=np.float32) / 255.0
    return pixels.reshape(*pixels.shape[:2], -1)


def _label(item, row):
    return f"image {row}" if isinstance(item, Image.Image) else fspath(item)


def _reason(error):
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, Image.UnidentifiedImageError):
        return "not an image"
    return str(error)
