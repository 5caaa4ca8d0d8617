"""Image files and Pillow images: a small index of them, their pixels, and which can't be read."""

import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from os import PathLike, fspath

import numpy as np
from PIL import Image, ImageOps

__all__ = [
    "ImageItems",
    "decode",
    "first_item",
    "is_item",
    "is_missing",
    "one_column",
    "unreadable_error",
]

_N_LISTED = 50
_N_REMEMBERED = 16
_ORIENTATION = 0x0112  # the EXIF tag for how the camera was held
_remembered = OrderedDict()


def _make_locks():
    global _remembering, _loading
    _remembering, _loading = threading.Lock(), threading.Lock()


_make_locks()
if hasattr(os, "register_at_fork"):
    # A thread that reads ahead may hold one of them at the moment of a fork.
    os.register_at_fork(after_in_child=_make_locks)


def is_item(value):
    """Tell whether a value is the path of a file or a Pillow image.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    is_item : bool
        True for str, path objects and Pillow images.
    """
    return isinstance(value, (str, PathLike, Image.Image))


def is_missing(value):
    """Tell whether a value says that there is none: None, NaN, or pandas' NA and NaT.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    is_missing : bool
        True for a missing value.
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def one_column(X):
    """Give a 1-D sequence for a series, a frame or an array with one column, or a list.

    Parameters
    ----------
    X : sequence, array of shape (n,) or (n, 1), series or frame with one column
        The data.

    Returns
    -------
    column : sequence
        Rows in the same order.
    """
    if len(getattr(X, "shape", ())) == 2:
        if hasattr(X, "iloc"):
            return X.iloc[:, 0]
        return X.to_series(0) if hasattr(X, "to_series") else X[:, 0]
    return X


def first_item(X):
    """Give the first value that is not missing of a 1-D sequence or a frame with one column.

    Parameters
    ----------
    X : object
        What a user passed as data.

    Returns
    -------
    first : object
        The value; None if there is none, or `X` is no such thing.
    """
    shape = getattr(X, "shape", ())
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        return None
    if isinstance(X, (str, bytes, Mapping)):
        return None
    X = one_column(X)
    try:
        first = X.iloc[0] if hasattr(X, "iloc") else X[0]
    except (TypeError, IndexError, KeyError):
        return None
    return (
        next((value for value in X if not is_missing(value)), None) if is_missing(first) else first
    )


class ImageItems:
    """Paths of image files or Pillow images, in order.

    Paths lie in one array, so that hundreds of thousands of them cost little more than their
    letters, and threads or processes that read them share it.

    Parameters
    ----------
    X : 1-D sequence, series or frame with one column, of str, path or Pillow image
        The items.

    Raises
    ------
    ValueError
        If something else or a missing value is among them.
    """

    def __init__(self, X):
        X = one_column(X)
        self._array = self._list = None
        if isinstance(X, np.ndarray) and X.dtype.kind == "U":
            self._array, self._n = X, len(X)
            return
        paths, ends, others = bytearray(), array("q", [0]), []
        missing = []
        for row, item in enumerate(X):
            if is_missing(item):
                missing.append(row)
                continue
            if not is_item(item):
                raise ValueError(
                    "A 1-D sequence of images must hold paths or Pillow images only, got "
                    f"{type(item).__name__} at position {row}."
                )
            if isinstance(item, Image.Image):
                others.append(item)
            else:
                paths += os.fsencode(item)
            ends.append(len(paths))
        if missing:
            listed = ", ".join(map(str, missing[:_N_LISTED]))
            more = len(missing) - _N_LISTED
            raise ValueError(
                f"{len(missing)} of {row + 1} paths are missing, at positions {listed}"
                + (f" and {more} more." if more > 0 else ".")
            )
        self._n = len(ends) - 1
        if others:
            self._list = list(X)
        self._paths, self._ends = bytes(paths), ends

    def __len__(self):
        return self._n

    def __getitem__(self, row):
        if not 0 <= row < self._n:
            raise IndexError(f"There are {self._n} images, and row {row} is asked for.")
        if self._array is not None:
            return str(self._array[row])
        if self._list is not None:
            return self._list[row]
        return os.fsdecode(self._paths[self._ends[row] : self._ends[row + 1]])

    def name(self, row):
        """Say which image it is.

        Parameters
        ----------
        row : int
            Number of the image.

        Returns
        -------
        name : str
            Row and path.
        """
        item = self[row]
        return f"image {row}" if isinstance(item, Image.Image) else f"row {row}: {fspath(item)}"

    def unreadable(self, rows, pixels):
        """Find the images that can't be read.

        Parameters
        ----------
        rows : iterable of int
            Which to look at.
        pixels : bool
            Whether to decode all pixels, or to read the first bytes of a file only.

        Returns
        -------
        faults : dict of int to str
            Reasons by row.
        """
        faults = {}
        for row in rows:
            item = self[row]
            try:
                if pixels:
                    decode(item)
                elif not isinstance(item, Image.Image):
                    Image.open(item).close()
            except MemoryError:
                raise
            except Exception as error:  # Pillow's readers raise many kinds for damaged files
                faults[row] = _reason(error)
        return faults

    def check(self, pixels=False):
        """Refuse files that can't be read.

        What was found good is remembered by the sizes and times of the files, so that the same
        files are looked into once and not once for each network.

        Parameters
        ----------
        pixels : bool, default=False
            Whether to decode all pixels, or to read the first bytes of each file only.

        Raises
        ------
        ValueError
            If there are such files; all of them are named.
        """
        state = self._state()
        with _remembering:
            if state is not None and (known := _remembered.get(state)) is not None:
                _remembered.move_to_end(state)
                if known or not pixels:
                    return
        faults = self.unreadable(range(len(self)), pixels)
        if faults:
            raise unreadable_error(self, faults)
        self.remember(state, pixels)

    def remember(self, state=None, pixels=True):
        """Keep in mind that all files can be read.

        Parameters
        ----------
        state : bytes or None, default=None
            What they were like before they were read; found out if None.
        pixels : bool, default=True
            Whether all pixels were decoded.
        """
        state = self._state() if state is None else state
        if state is None:
            return
        with _remembering:
            _remembered[state] = _remembered.get(state, False) or pixels
            while len(_remembered) > _N_REMEMBERED:
                _remembered.popitem(last=False)

    def _state(self):
        """Give a digest of names, sizes and times; None for images and where a file is missing."""
        if self._list is not None:
            return None
        digest = blake2b(os.fsencode(os.getcwd()), digest_size=32)
        sizes = array("q")
        for row in range(len(self)):
            path = self[row]
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                return None
            sizes.extend((status.st_size, status.st_mtime_ns))
            digest.update(os.fsencode(path) + b"\0")
        digest.update(sizes)
        return digest.digest()


def unreadable_error(items, faults):
    """Make the error that names all images that can't be read.

    Parameters
    ----------
    items : ImageItems
        All images.
    faults : dict of int to str
        Reasons by row.

    Returns
    -------
    error : ValueError
        To be raised.
    """
    listed = "; ".join(
        f"{items.name(row)} ({reason})" for row, reason in list(faults.items())[:_N_LISTED]
    )
    more = len(faults) - _N_LISTED
    return ValueError(
        f"{len(faults)} of {len(items)} image files cannot be read: {listed}"
        + (f"; and {more} more." if more > 0 else ".")
    )


def decode(item):
    """Give the pixels of an image.

    The first picture of an animation counts, transparency is dropped, and the image is turned as
    the camera says it was held. A grey image has one channel, any other is made red, green, blue.

    Parameters
    ----------
    item : str, path or Pillow image
        The image.

    Returns
    -------
    pixels : ndarray of shape (height, width, 1 or 3), uint8 or float32
        From 0 to 255; between 0 and 1 for images of 16 bits.

    Raises
    ------
    Exception
        Whatever Pillow raises for a file that can't be read; ValueError for pixels that have no
        known range.
    """
    if not isinstance(item, Image.Image):
        with Image.open(item) as image:
            return _pixels(image)
    with _loading:  # one image may be in two rows, which two threads read
        item.load()
    return _pixels(item)


def _pixels(image):
    format_ = image.format
    if _is_turned(image):
        image = ImageOps.exif_transpose(image)
    # Before version 11, Pillow gave PNG files of 16 bits the mode for 32.
    if image.mode.startswith("I;16") or (image.mode == "I" and format_ == "PNG"):
        return np.asarray(image, dtype=np.float32)[:, :, None] / np.float32(65535.0)
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixels have no known range, mode {image.mode}")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns of the direct way, with the same result
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    pixels = np.array(image if image.mode == mode else image.convert(mode))
    return pixels.reshape(*pixels.shape[:2], -1)


def _is_turned(image):
    try:
        return image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except Exception:  # damaged remarks in a file whose pixels may be good
        return False


def _reason(error):
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder"
    if isinstance(error, Image.UnidentifiedImageError):
        return "not an image"
    return str(error) or type(error).__name__
