"""Data sets as torch has them: one item per row, an image or an image with its label."""

import threading
from collections.abc import Mapping
from os import PathLike

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sktransfer.backbones._files import decode, is_item
from sktransfer.backbones._tensors import (
    SingleImages,
    as_tensor,
    check_range,
    raise_for_dtype,
    row_numbers,
)

__all__ = ["DatasetImages", "check_dataset", "is_dataset", "refuse_vectors"]

# Where data sets of torch and torchvision keep their parts and transforms.
_PARTS = ("dataset", "datasets", "transform", "transforms")
_RANDOM = ("AugMix", "AutoAugment", "ColorJitter", "RandAugment", "Random", "TrivialAugment")


def is_dataset(X):
    """Tell whether data are a data set whose items are images, or images with labels.

    Parameters
    ----------
    X : object
        What a user passed as data.

    Returns
    -------
    is_dataset : bool
        True for data sets and loaders of torch, for other objects with ``len`` and items by number
        (but no arrays, series or frames) whose first item is an image or begins with one, and for
        lists of pairs (image, label).
    """
    if isinstance(X, (Dataset, DataLoader)):
        return True
    if hasattr(X, "shape") or hasattr(X, "iloc") or isinstance(X, (str, bytes, Mapping)):
        return False
    if not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        return False
    try:
        first = X[0]
    except Exception:
        return False
    is_pair = isinstance(first, tuple) and len(first) > 1
    if isinstance(X, (list, tuple)):
        if not (is_pair and _is_image(first[0])):
            return False
        # A text beside an image is its label; beside another text, no one knows.
        is_other = _is_image if isinstance(first[0], (str, PathLike)) else _is_picture
        return not any(map(is_other, first[1:]))
    return _is_image(first[0] if is_pair else first)


def _is_image(value):
    return is_item(value) or _is_picture(value)


def _is_picture(value):
    return isinstance(value, Image.Image) or len(getattr(value, "shape", ())) in (2, 3)


def check_dataset(dataset):
    """Refuse data sets without numbered rows.

    Parameters
    ----------
    dataset : object
        Data for which ``is_dataset`` is true.

    Raises
    ------
    ValueError
        For a loader, an iterable data set, one without a length or without rows.
    """
    name = type(dataset).__name__
    if isinstance(dataset, DataLoader):
        raise ValueError(
            f"X is a {name}, which may shuffle and drop rows: pass its data set, X.dataset; "
            "'batch_size' and 'n_workers' are parameters of the backbone."
        )
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            f"X is an iterable data set ({name}), whose rows have no numbers, so that they can't "
            "be matched with labels: pass a map-style data set, with __getitem__ and __len__."
        )
    try:
        n = len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise ValueError(f"The data set {name} has no length: give it a method __len__.") from error
    if n == 0:
        raise ValueError(f"Found a data set with 0 sample(s) ({name}).")


def refuse_vectors(dataset):
    """Refuse data sets whose first item is a vector, or begins with one.

    Parameters
    ----------
    dataset : object
        Data for which ``is_dataset`` is true.

    Raises
    ------
    ValueError
        If it is one.
    """
    try:
        item = dataset[0]
    except Exception:  # what is wrong with it is told where it is read
        return
    item = item[0] if isinstance(item, (tuple, list)) and len(item) else item
    shape = getattr(item, "shape", None)
    if shape is not None and len(shape) == 1:
        raise ValueError(
            f"X is a data set ({type(dataset).__name__}) of vectors, and data sets are taken for "
            f"images only; got a {type(item).__name__} of shape {tuple(shape)} in row 0. Pass "
            "vectors as an array of shape (n_samples, n_features)."
        )


# So many rows are read three times, to see whether they stay the same.
_N_READ_AGAIN = 8


class DatasetImages(SingleImages):
    """Images of a map-style data set, read row by row.

    Parameters
    ----------
    dataset : object with ``len`` and items by number
        Each item is an image or begins with one (image, label): a tensor or array of shape
        (height, width), (channels, height, width) or (height, width, channels), uint8 or floats
        between 0 and 1; a Pillow image; or the path of a file.
    preprocessing : ImagePreprocessing
        What is done to each image. Without ``size`` all images must have one size.

    Raises
    ------
    ValueError
        If the rows have no numbers, the images are normalised already or differ from one reading to
        the next, or an item is no image. The message names the row.

    Notes
    -----
    Items are read by one thread at a time, because data sets often share an open file; what is done
    to them afterwards runs side by side.
    """

    def __init__(self, dataset, preprocessing):
        super().__init__(preprocessing)
        check_dataset(dataset)
        self._dataset = dataset
        self._reading = threading.Lock()
        if isinstance(dataset, (list, tuple)):
            return
        _refuse_transforms(dataset)
        # Some rows, because a flip leaves half of the images alone.
        for row in range(0, len(dataset), -(-len(dataset) // _N_READ_AGAIN)):
            try:
                first, *others = (self._image(row) for _ in range(3))
            except Exception:
                if row == 0:
                    raise
                continue  # named when the rows before it have been used
            if not all(torch.equal(first, other) for other in others):
                raise ValueError(
                    f"The data set {type(dataset).__name__} gives other pixels for row {row} each "
                    "time it is asked: leave random transforms out, so that features belong to "
                    "the image."
                )

    def __len__(self):
        return len(self._dataset)

    def batch(self, rows):
        """Read and preprocess images.

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
            If the data set fails at a row, or the item there is no image; the message names it.
        """
        numbers = row_numbers(rows, len(self))
        return self._one_batch(map(self._image, numbers), numbers)

    def _image(self, row):
        """Give one image of shape (1, channels, height, width)."""
        try:
            with self._reading:
                item = self._dataset[row]
        except Exception as error:
            raise ValueError(
                f"The data set {type(self._dataset).__name__} failed at row {row} "
                f"({type(error).__name__}: {error})."
            ) from error
        if isinstance(item, (tuple, list)) and len(item):
            item = item[0]
        if isinstance(item, Mapping):
            raise ValueError(
                f"Row {row} of the data set is a {type(item).__name__} with the keys "
                f"{list(item)}: an item must be an image or begin with one, (image, label)."
            )
        if is_item(item):
            try:
                return torch.from_numpy(decode(item)).permute(2, 0, 1)[None]
            except Exception as error:
                raise ValueError(
                    f"The image in row {row} of the data set can't be read ({error})."
                ) from error
        return self._checked(item, row)

    def _checked(self, item, row):
        if not (isinstance(item, (torch.Tensor, np.ndarray)) and item.ndim in (2, 3)):
            found = type(item).__name__
            if hasattr(item, "shape"):
                found += f" of shape {tuple(item.shape)}"
            raise ValueError(
                f"Row {row} of the data set must be an image, a tensor or array with 2 or 3 axes "
                f"or a Pillow image, or a tuple that begins with one; got a {found}."
            )
        image = as_tensor(item) if isinstance(item, torch.Tensor) else item
        raise_for_dtype(
            image.numpy().dtype if isinstance(image, torch.Tensor) else image.dtype,
            f"The image in row {row} of the data set",
        )
        image = as_tensor(image)
        if 0 in image.shape:
            raise ValueError(f"The image in row {row} has no pixels, shape {tuple(image.shape)}.")
        if image.is_floating_point():
            low, high = (float(limit) for limit in torch.aminmax(image))
            check_range(low, high, f" in row {row} of the data set")
        if image.ndim == 2:
            return image[None, None]
        known = {1, 3, self.preprocessing.channels}
        places = [axis for axis in (0, 2) if image.shape[axis] in known]
        if len(places) != 1:
            reason = "both" if places else "neither"
            raise ValueError(
                f"The image in row {row} of the data set, of shape {tuple(image.shape)}, is "
                f"ambiguous: its channels are the first or the last axis, and {reason} can be "
                "channels here (1, 3 or the parameter 'channels')."
            )
        return (image if places[0] == 0 else image.permute(2, 0, 1))[None]


def _refuse_transforms(dataset):
    """Refuse transforms that a backbone does by itself, or that differ from time to time."""
    for transform in _transforms(dataset, depth=6):
        name = type(transform).__name__
        if name == "Normalize" and not _is_identity(transform):
            raise ValueError(
                f"The data set {type(dataset).__name__} normalises its images ({transform}): the "
                "backbone does that by itself, with the mean and standard deviation that its "
                "network knows, so leave it out of the data set's transform."
            )
        if name.startswith(_RANDOM) and getattr(transform, "p", 1) != 0:
            raise ValueError(
                f"The data set {type(dataset).__name__} changes its images at random "
                f"({transform}): leave that out of its transform, so that features belong to the "
                "image."
            )


def _is_identity(normalize):
    mean, std = (getattr(normalize, name, None) for name in ("mean", "std"))
    return mean is not None and not np.any(mean) and bool(np.all(np.equal(std, 1.0)))


def _transforms(part, depth):
    """Walk through a data set's parts, down to single transforms."""
    if depth == 0 or part is None:
        return
    if isinstance(part, (list, tuple, torch.nn.Sequential)):
        for inner in list(part)[:100]:
            yield from _transforms(inner, depth - 1)
        return
    if not isinstance(part, Dataset):
        yield part
    for name in _PARTS:
        inner = vars(part).get(name) if hasattr(part, "__dict__") else None
        if inner is not part:
            yield from _transforms(inner, depth - 1)
