"""Pixels as tensors: kinds of numbers, their range, and a batch of single images."""

import threading

import numpy as np
import torch

__all__ = ["SingleImages", "as_tensor", "check_range", "raise_for_dtype", "row_numbers"]

# What computing with pixels between 0 and 1 in single precision may go beyond.
_ROUNDING = 1e-6


def row_numbers(rows, n):
    """Give the numbers of the rows that a slice or an array of integers asks for.

    Parameters
    ----------
    rows : slice or array of int
        Which rows.
    n : int
        Number of rows that there are.

    Returns
    -------
    numbers : list of int
        The rows.
    """
    if isinstance(rows, slice):
        return list(range(*rows.indices(n)))
    return np.asarray(rows).tolist()


def raise_for_dtype(dtype, who="Images"):
    """Refuse numbers whose range nobody knows.

    Parameters
    ----------
    dtype : dtype
        That of an array of images.
    who : str, default="Images"
        What they are, for the message.

    Raises
    ------
    ValueError
        Unless it is uint8, boolean or a float.
    """
    dtype = np.dtype(dtype)
    if dtype == np.uint8 or dtype.kind in "bf":
        return
    hint = ""
    if dtype.kind in "iu":
        hint = (
            "; convert whole numbers from 0 to 255 by astype('uint8'), and divide others by the "
            "largest value they can have (65535 for 16 bits)"
        )
    raise ValueError(
        f"{who} must be uint8 (0 to 255) or floats between 0 and 1, got an array of dtype {dtype}"
        f"{hint}."
    )


def check_range(low, high, where="", who="Images of floats"):
    """Refuse floats that are no pixels between 0 and 1.

    Parameters
    ----------
    low, high : float
        Smallest and largest value; NaN if there is one among them.
    where : str, default=""
        Which images, for the message.
    who : str, default="Images of floats"
        What they are, for the message.

    Raises
    ------
    ValueError
        If they are not finite, below 0 or above 1.
    """
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"{who.removesuffix(' of floats')} contain NaN or infinite values{where}.")
    if low >= -_ROUNDING and high <= 1.0 + _ROUNDING:
        return
    advice = (
        "They look normalised already: the backbone does that by itself, with the mean and "
        "standard deviation that its network knows, so leave normalising out."
        if low < 0 and high < 200
        else "Pass uint8 images, or divide by the largest possible value (255 for 8 bits)."
    )
    raise ValueError(
        f"{who} must lie between 0 and 1, got values from {low:.6g} to {high:.6g}{where}. {advice}"
    )


def as_tensor(pixels):
    """Give pixels as a tensor of uint8 or float32 on the CPU, without a copy where that is safe.

    Parameters
    ----------
    pixels : ndarray or tensor of uint8, bool or floats
        Pixels in any layout.

    Returns
    -------
    pixels : tensor, uint8 or float32
        True and False become 255 and 0.
    """
    if isinstance(pixels, torch.Tensor):
        pixels = pixels.detach().cpu()
        if pixels.dtype == torch.bool:
            return pixels.to(torch.uint8) * 255
        return pixels.float() if pixels.is_floating_point() else pixels
    if pixels.dtype == np.bool_:
        return torch.from_numpy(pixels * np.uint8(255))
    if pixels.dtype.kind == "f" and pixels.dtype != np.float32:
        pixels = pixels.astype(np.float32)
    # torch takes only memory that it may write to, in the byte order of the machine and in steps
    # forward; the rest is copied, and so is what lies in a file.
    is_plain = pixels.flags.writeable and min(pixels.strides, default=0) >= 0
    if not is_plain or isinstance(pixels, np.memmap) or not pixels.dtype.isnative:
        pixels = np.array(pixels, dtype=pixels.dtype.newbyteorder("="))
    return torch.from_numpy(pixels)


class SingleImages:
    """Images that are read one by one, and must be of one size after preprocessing.

    Parameters
    ----------
    preprocessing : ImagePreprocessing
        What is done to each.
    """

    #: Images may differ before they are preprocessed.
    shape = None

    def __init__(self, preprocessing):
        self.preprocessing = preprocessing
        self._lock = threading.Lock()
        self._shapes = {}

    def _one_batch(self, images, numbers):
        """Preprocess single images and make one batch of them.

        Parameters
        ----------
        images : iterable of tensor of shape (1, channels, height, width), uint8 or float32
            The images, of any sizes.
        numbers : list of int
            Their rows.

        Returns
        -------
        images : tensor of shape (n, channels, height, width), float32
            Ready for the network.

        Raises
        ------
        ValueError
            If they don't have the size and number of channels of all that came before.
        """
        images = [self.preprocessing.reshape(image) for image in images]
        is_uniform = len({(image.shape, image.dtype) for image in images}) == 1
        if is_uniform:
            batch = self.preprocessing.normalise(torch.cat(images))
            shapes = {tuple(batch.shape[1:]): numbers[0]}
        else:
            images = [self.preprocessing.normalise(image) for image in images]
            shapes = {}
            for image, row in zip(images, numbers, strict=True):
                shapes.setdefault(tuple(image.shape[1:]), row)
        # Whatever the size of the batches, the same images are refused.
        with self._lock:
            for shape, row in shapes.items():
                # Threads come to the rows in any order.
                self._shapes[shape] = min(row, self._shapes.get(shape, row))
            shapes = dict(self._shapes)
        if len(shapes) > 1:
            rows = sorted((row, shape) for shape, row in shapes.items())
            found = ", ".join(f"{shape} in row {row}" for row, shape in rows)
            raise ValueError(
                "Images differ in channels or size, which the parameters 'channels' and "
                f"'input_size' can make equal: (channels, height, width) are {found}."
            )
        return batch if is_uniform else torch.cat(images)
