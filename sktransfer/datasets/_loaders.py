"""Labelled images from a folder with a sub-folder per class."""

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sktransfer.datasets._image_files import check_image_files

__all__ = ["load_image_folder"]

_IMAGE_SUFFIXES = {
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".pbm",
    ".pgm",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
}


def load_image_folder(path, *, on_error=None, n_workers=0):
    """List the images of a folder that has a sub-folder per class.

    A backbone decodes the paths batch by batch.

    Parameters
    ----------
    path : str or path
        The folder. Names of its sub-folders are the labels; images lie in them at any depth, as
        bmp, gif, jpeg, pbm, pgm, png, ppm, tiff or webp. Other files are left out, and whatever
        is hidden or lies in a hidden folder (``.ipynb_checkpoints``, ``__MACOSX``).
    on_error : {"raise", "skip"} or None, default=None
        What to do about images that can't be read. None opens no image here; a backbone then
        refuses them, with all their names. The others decode every image once, as
        :func:`check_image_files` does: "raise" refuses right away, "skip" leaves such images out
        together with their labels.
    n_workers : int, default=0
        Number of threads that decode, where images are decoded here; 0 takes none.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_images,), str
            Paths, sorted by class and name.
        y : ndarray of shape (n_images,), str
            Labels.
        target_names : ndarray of shape (n_classes,), str
            Sorted names of the classes that have images.
        n_outside : int
            Number of images that lie beside the sub-folders and so have no label.
        n_ignored : int
            Number of files left out because they are not images by their names, or are links to
            nothing. Hidden ones don't count.
        ignored_suffixes : tuple of str
            Suffixes of these files, sorted; "no suffix" and "broken link" may be among them.
        skipped : ndarray of shape (n_skipped,), str
            Paths of images that could not be read and were left out.
        reasons : list of str
            Why.

    Raises
    ------
    ValueError
        If there is no such folder, or not at least two sub-folders that all have images; for
        images that can't be read as ``on_error`` says.

    Warns
    -----
    SkippedFilesWarning
        If images were left out; it says how many and which.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from sktransfer.datasets import load_image_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for label in ("cat", "dog"):
    ...         (Path(folder) / label).mkdir()
    ...         Image.new("L", (28, 28)).save(Path(folder) / label / "1.png")
    ...     target = load_image_folder(folder)
    >>> target.y
    array(['cat', 'dog'], dtype='<U3')
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"There is no folder {str(folder)!r}.")
    classes = sorted(
        child.name for child in folder.iterdir() if child.is_dir() and not _is_hidden(child)
    )
    if len(classes) < 2:
        raise ValueError(
            f"The folder {str(folder)!r} must have a sub-folder of images per class, at least two; "
            f"it has {classes or 'none'}."
        )
    paths, labels, empty, ignored = [], [], [], []
    for name in classes:
        images = []
        for file in _visible_files(folder / name):
            if _is_image(file):
                images.append(str(file))
            else:
                ignored.append(file)
        paths += images
        labels += [name] * len(images)
        if not images:
            empty.append(name)
    if empty:
        raise ValueError(
            f"These sub-folders of {str(folder)!r} have no images: {empty}; remove them, or name "
            f"the images by one of {sorted(_IMAGE_SUFFIXES)}."
        )
    X, y, skipped, reasons = np.array(paths), np.array(labels), np.array([], dtype=str), []
    if on_error is not None:
        checked = check_image_files(X, y, on_error=on_error, n_workers=n_workers)
        X, y, skipped, reasons = checked.X, checked.y, X[checked.skipped], checked.reasons
        if len(classes := np.unique(y)) < 2:
            raise ValueError(
                f"The folder {str(folder)!r} has images that can be read in {len(classes)} class "
                "only; at least two are needed."
            )
    return Bunch(
        X=X,
        y=y,
        target_names=np.array(classes),
        skipped=skipped,
        reasons=reasons,
        n_outside=sum(_is_image(path) for path in folder.iterdir()),
        n_ignored=len(ignored),
        ignored_suffixes=tuple(sorted({_suffix_of(file) for file in ignored})),
    )


def _is_image(path):
    return path.is_file() and path.suffix.lower() in _IMAGE_SUFFIXES and not _is_hidden(path)


def _visible_files(folder):
    """List files and links to nothing at any depth, none of them below a hidden folder."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and not any(map(_is_hidden, _below(path, folder)))
    ]


def _below(path, folder):
    inner = path.relative_to(folder)
    return [inner, *inner.parents[:-1]]


def _is_hidden(path):
    return path.name.startswith((".", "__"))


def _suffix_of(file):
    if not file.exists():
        return "broken link"
    return file.suffix.lower() or "no suffix"
