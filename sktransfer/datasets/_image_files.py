"""Find image files that can't be read before anything depends on them."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.utils import Bunch, check_consistent_length

from sktransfer.exceptions import SkippedFilesWarning
from sktransfer.utils._sklearn import _safe_indexing

__all__ = ["check_image_files"]

_ROWS_PER_PART = 64
_N_LISTED = 20


def check_image_files(paths, y=None, *, on_error="raise", n_workers=0):
    """Decode image files once and refuse, or leave out, those that can't be read.

    Parameters
    ----------
    paths : 1-D sequence, series or frame with one column, of str, path or Pillow image
        The images.
    y : array-like of shape (n_images,) or (n_images, n_outputs), default=None
        Their labels.
    on_error : {"raise", "skip"}, default="raise"
        "raise" names all images that can't be read in one error; "skip" leaves them out together
        with their labels, and says how many and which.
    n_workers : int, default=0
        Number of threads that decode; 0 takes none.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_read,), str, or list
            Paths of the images that can be read, in the order given; a list if Pillow images are
            among them.
        y : array-like or None
            Labels of the same rows.
        skipped : ndarray of shape (n_skipped,), int
            Rows that were left out, in order.
        reasons : list of str
            Why, for each of them.

    Raises
    ------
    ValueError
        If images can't be read and ``on_error="raise"``, or no image is left; if something is
        neither path nor image, or the number of labels is wrong.

    Warns
    -----
    SkippedFilesWarning
        If images were left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from sktransfer.datasets import check_image_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder) / name for name in ("a.png", "b.png")]
    ...     for path in paths:
    ...         Image.new("L", (28, 28)).save(path)
    ...     target = check_image_files(paths, ["cat", "dog"])
    >>> len(target.X), target.y, target.skipped.tolist()
    (2, ['cat', 'dog'], [])
    """
    from sktransfer.backbones._files import ImageItems, is_missing, one_column, unreadable_error

    if on_error not in ("raise", "skip"):
        raise ValueError(f"The 'on_error' parameter must be 'raise' or 'skip', got {on_error!r}.")
    if on_error == "skip":
        # A row without a path is one whose file isn't there.
        paths = ["" if is_missing(path) else path for path in one_column(paths)]
    items = ImageItems(paths)
    if y is not None:
        check_consistent_length(items, y)
    faults = _faults(items, n_workers)
    if faults and (on_error == "raise" or len(faults) == len(items)):
        raise unreadable_error(items, faults)
    kept = [row for row in range(len(items)) if row not in faults]
    X = [items[row] for row in kept]
    if all(isinstance(item, str) for item in X):
        X = np.array(X, dtype=str)
        ImageItems(X).remember()
    if faults:
        y = y if y is None else _safe_indexing(y, np.array(kept))
        names = [f"{items.name(row)} ({reason})" for row, reason in faults.items()]
        more = f"; and {len(names) - _N_LISTED} more" if len(names) > _N_LISTED else ""
        warnings.warn(
            f"{len(faults)} of {len(items)} image files cannot be read and were left out"
            f"{'' if y is None else ', with their labels'}: {'; '.join(names[:_N_LISTED])}{more}.",
            SkippedFilesWarning,
            stacklevel=2,
        )
    skipped = np.array(list(faults), dtype=np.intp)
    return Bunch(X=X, y=y, skipped=skipped, reasons=list(faults.values()))


def _faults(items, n_workers):
    """Decode all images and give the reasons, by row and in order, of those that can't be."""
    n = len(items)
    parts = [range(first, min(first + _ROWS_PER_PART, n)) for first in range(0, n, _ROWS_PER_PART)]
    if n_workers == 0:
        found = [items.unreadable(rows, pixels=True) for rows in parts]
    else:
        pool = ThreadPoolExecutor(n_workers)
        try:
            found = list(pool.map(lambda rows: items.unreadable(rows, pixels=True), parts))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return {row: reason for faults in found for row, reason in faults.items()}
