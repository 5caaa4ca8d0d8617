"""The digest of a target's data: by what they hold, not by where they lie or what they are called.

Arrays count by their bytes, files by the bytes in them, Pillow images by their pixels, data sets
of torch by their items. A folder that moved is the same data; a file that changed is not, even if
its size and its time are what they were.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sktransfer.backbones._store_content import content_digest
from sktransfer.backbones._store_hashing import (
    array_digest,
    combine,
    file_digest,
    in_threads,
)

__all__ = ["DataDigest", "digest_data"]

# Longer than any path; such a text is not asked for among the files.
_LONGEST_PATH = 4096
_ITEMS_PER_BLOCK = 256
_ORIENTATION = 0x0112


@dataclass(frozen=True)
class DataDigest:
    """What stands for data in a key.

    Attributes
    ----------
    content : str
        Digest of what the data hold; of paths, of the files alone.
    named : str
        Digest of the same with all that has a name: paths, the index of a data frame. A
        transformer of unknown kind may use them.
    """

    content: str
    named: str


def digest_data(X, *, follow=True):
    """Give the digest of data in any form that candidates take.

    Parameters
    ----------
    X : array, tensor, data frame, list, Dataset or other object
        The data. They are read once, in chunks.
    follow : bool, default=True
        Whether names of files stand for what is in them.

    Returns
    -------
    digest : DataDigest
        The digest.

    Raises
    ------
    ValueError
        If the data hold something that cannot be read.
    """
    content, named = _Reader(follow).whole(X)
    return DataDigest(content.hex(), named.hex())


class _Reader:
    """Gives two digests of everything: of the content, and of the content with its names."""

    def __init__(self, follow):
        self.follow = follow

    def whole(self, X):
        torch, pandas, polars = (sys.modules.get(name) for name in ("torch", "pandas", "polars"))
        if isinstance(X, np.ndarray):
            return self.array(X)
        if pandas is not None and isinstance(X, pandas.Series | pandas.Index):
            content, named = self.array(X.to_numpy())
            names = getattr(X, "index", None), X.name
            return content, combine("series", named, content_digest(names))
        if pandas is not None and isinstance(X, pandas.DataFrame):
            columns = [X.iloc[:, place].to_numpy() for place in range(X.shape[1])]
            names = [str(dtype) for dtype in X.dtypes], X.columns.tolist()
            content, named = self.table(columns, names)
            return content, combine("index", named, content_digest(X.index))
        if polars is not None and isinstance(X, polars.Series):
            return self.array(X.to_numpy())
        if polars is not None and isinstance(X, polars.DataFrame):
            names = [str(dtype) for dtype in X.dtypes], X.columns
            return self.table([column.to_numpy() for column in X.iter_columns()], names)
        if isinstance(X, list | tuple):
            return self.sequence(X)
        is_tensor = torch is not None and isinstance(X, torch.Tensor)
        has_items = hasattr(type(X), "__len__") and hasattr(type(X), "__getitem__")
        if has_items and not is_tensor and not isinstance(X, str | bytes | Mapping):
            is_array = hasattr(X, "shape") or hasattr(X, "iloc")
            if not is_array:  # a data set of torch, or an object like one
                return self.items(X[row] for row in range(len(X)))
        return _both(content_digest(X))

    def array(self, array):
        if array.dtype.kind not in "OUST":
            return _both(content_digest(array))
        # One column of names is as good as a sequence of them.
        shape = array.shape[:1] if array.shape[1:] == (1,) else array.shape
        content, named = self.items(array.ravel().tolist())
        return combine(f"{shape}", content), combine(f"{shape}", named)

    def table(self, columns, names):
        pairs = [self.array(column) for column in columns]
        what = content_digest(names)
        return tuple(combine("table", what, *(pair[kind] for pair in pairs)) for kind in (0, 1))

    def sequence(self, X):
        """Digests of a list: of numbers, of lists of numbers, or of items of any kind."""
        first = X[0] if len(X) else None
        is_pair = isinstance(first, tuple) and any(map(_is_image, first))
        if isinstance(first, int | float | list | tuple) and not is_pair:
            try:
                array = np.asarray(X)
            except ValueError:  # rows of several lengths
                array = None
            if array is not None and array.dtype.kind in "biuf":
                return _both(combine("list", array_digest(array)))
        content, named = self.items(X)
        shape = f"{(len(X),)}"
        return combine(shape, content), combine(shape, named)

    def items(self, items):
        """Digests of items in a row: paths, texts, images, arrays, pairs of image and label."""
        names, pairs = [], []

        def read_names():
            blocks = [
                names[start : start + _ITEMS_PER_BLOCK]
                for start in range(0, len(names), _ITEMS_PER_BLOCK)
            ]
            for block in in_threads(lambda block: [self.name(item) for item in block], blocks):
                pairs.extend(block)
            names.clear()

        for item in items:
            if _is_name(item):
                names.append(item)
                continue
            read_names()
            # One after the other: images that are opened, but not read yet, share a file.
            pairs.append(self.item(item))
        read_names()
        kind = f"items {len(pairs)}"
        return tuple(combine(kind, *(pair[which] for pair in pairs)) for which in (0, 1))

    def item(self, item):
        if _is_name(item):
            return self.name(item)
        if isinstance(item, tuple | list) and any(map(_is_image, item)):
            contents, named = zip(*map(self.item, item), strict=True)
            is_labelled = _is_image(item[0]) and not any(map(_is_image, item[1:]))
            # What the label of an image is says nothing of its features.
            content = contents[0] if is_labelled else combine("parts", *contents)
            return content, combine("parts", *named)
        image = sys.modules.get("PIL.Image")
        if image is not None and isinstance(item, image.Image):
            return _both(_pixels(item))
        return _both(content_digest(item))

    def name(self, item):
        """Digests of a name: a path stands for the bytes of its file, other text for itself."""
        text = os.fspath(item)
        if isinstance(text, bytes):
            text = os.fsdecode(text)
        kind = "text" if isinstance(item, str) else "path"
        is_text = not self.follow or len(text) > _LONGEST_PATH or "\0" in text or "\n" in text
        if is_text or not os.path.isfile(text):
            return _both(combine(kind, text))
        try:
            content = combine("file", file_digest(text))
        except OSError:  # the candidate will say what is wrong with it
            return _both(combine(kind, text))
        return content, combine(kind, content, text)


def _both(digest):
    return digest, digest


def _is_name(item):
    return isinstance(item, str | os.PathLike)


def _is_image(value):
    image = sys.modules.get("PIL.Image")
    if _is_name(value) or (image is not None and isinstance(value, image.Image)):
        return True
    return len(getattr(value, "shape", ())) in (2, 3)


def _pixels(image):
    """Digest of all that decides the pixels of a Pillow image, whatever it is converted to."""
    details = repr((image.mode, image.size, image.info.get("transparency")))
    palette = image.getpalette() if image.mode in ("P", "PA") else None
    turned = image.getexif().get(_ORIENTATION)
    return combine("image", details, repr(palette), repr(turned), image.tobytes())
