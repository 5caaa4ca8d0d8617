"""Labelled images from a folder or from one file of arrays."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.multiclass import type_of_target

__all__ = ["load_image_folder", "load_npz_target"]

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
# Images and labels: this package's own names, and the training part of a MedMNIST file.
_KEY_PAIRS = (("X", "y"), ("train_images", "train_labels"))
_CHUNK = 4096


def load_image_folder(path):
    """List the images of a folder that has a sub-folder per class.

    No image is opened: a backbone decodes the paths batch by batch.

    Parameters
    ----------
    path : str or path
        The folder. Names of its sub-folders are the labels; images lie in them at any depth, as
        bmp, gif, jpeg, pbm, pgm, png, ppm, tiff or webp. Other files are left out, and whatever
        is hidden or lies in a hidden folder (``.ipynb_checkpoints``, ``__MACOSX``).

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_images,), str
            Paths, sorted by class and name.
        y : ndarray of shape (n_images,), str
            Labels.
        target_names : ndarray of shape (n_classes,), str
            Sorted names of the classes.
        n_ignored : int
            Number of files left out because they are not images by their names, or are links to
            nothing. Hidden ones don't count.
        ignored_suffixes : tuple of str
            Suffixes of these files, sorted; "no suffix" and "broken link" may be among them.

    Raises
    ------
    ValueError
        If there is no such folder, or not at least two sub-folders that all have images.

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
            if file.is_file() and file.suffix.lower() in _IMAGE_SUFFIXES:
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
    return Bunch(
        X=np.array(paths),
        y=np.array(labels),
        target_names=np.array(classes),
        n_ignored=len(ignored),
        ignored_suffixes=tuple(sorted({_suffix_of(file) for file in ignored})),
    )


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


def load_npz_target(path):
    """Load data and labels from an ``.npz`` file.

    Parameters
    ----------
    path : str or path
        A file with the arrays ``X`` and ``y``, or with ``train_images`` and ``train_labels`` as
        MedMNIST's files have; of those only the training part is read. Nothing is unpickled.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_samples, ...)
            Data as stored.
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels as stored, but (n, 1) becomes (n,).
        task : {"classification", "multilabel", "regression"}
            "multilabel" for a matrix of zeros and ones with several columns, "regression" for
            floats that are not whole numbers.
        array_names : tuple of str
            Names of the two arrays in the file.
        n_constant : int
            Number of samples whose values are all equal, such as black images.

    Raises
    ------
    ValueError
        If the file is missing, damaged, no ``.npz`` file, holds Python objects, has other arrays,
        no samples or numbers of rows that differ, or labels that are not finite numbers or strings.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sktransfer.datasets import load_npz_target
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "target.npz"
    ...     images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    ...     np.savez(file, train_images=images, train_labels=[[0], [1]])
    ...     target = load_npz_target(file)
    >>> target.X.shape, target.y, target.task
    ((2, 28, 28), array([0, 1]), 'classification')
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"There is no file {str(path)!r}.")
    try:
        X, y, keys = _read_arrays(path)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"The file {str(path)!r} is damaged or no .npz file ({error}); fetch it again."
        ) from error
    shapes = f"got shapes {X.shape} and {y.shape}"
    if X.shape[:1] == (0,):
        raise ValueError(
            f"The array {keys[0]!r} of {str(path)!r} has no samples, {shapes} of {keys[0]!r} and "
            f"{keys[1]!r}."
        )
    y = np.atleast_1d(y)
    if X.ndim < 2 or len(X) != len(y):
        raise ValueError(
            f"The arrays {keys[0]!r} and {keys[1]!r} of {str(path)!r} must have one row per sample "
            f"and as many rows, {shapes}."
        )
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    return Bunch(
        X=X, y=y, task=_task(y, keys[1], path), array_names=keys, n_constant=_count_constant(X)
    )


def _read_arrays(path):
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not a zip archive, or cut off")
    with np.load(path, allow_pickle=False) as arrays:
        for keys in _KEY_PAIRS:
            if set(keys) <= set(arrays.files):
                break
        else:
            pairs = " or ".join(f"{first!r} and {second!r}" for first, second in _KEY_PAIRS)
            raise ValueError(f"The file {str(path)!r} must hold {pairs}; it holds {arrays.files}.")
        try:
            return arrays[keys[0]], arrays[keys[1]], keys
        except ValueError as error:
            raise ValueError(
                f"The arrays {keys[0]!r} and {keys[1]!r} of {str(path)!r} cannot be read: {error}"
            ) from error


def _task(y, key, path):
    if y.ndim > 2:
        raise ValueError(
            f"The array {key!r} of {str(path)!r} must have one or two axes, got shape {y.shape}."
        )
    if y.dtype.kind not in "biufU":
        raise ValueError(
            f"The array {key!r} of {str(path)!r} must hold numbers or strings as labels, got dtype "
            f"{y.dtype}."
        )
    if y.dtype.kind == "f" and not (finite := np.isfinite(y)).all():
        # Before scikit-learn casts such values to integers to see what they are.
        raise ValueError(
            f"The array {key!r} of {str(path)!r} must hold finite labels, got NaN or infinity in "
            f"{y.size - np.count_nonzero(finite)} of {y.size} values."
        )
    kind = type_of_target(y, input_name=key)
    if kind == "multilabel-indicator":
        return "multilabel"
    if kind in ("binary", "multiclass"):
        return "classification"
    if kind.startswith("continuous"):
        return "regression"
    raise ValueError(
        f"The array {key!r} of {str(path)!r} must hold one label per sample or a matrix of zeros "
        f"and ones, got {kind} labels of shape {y.shape}."
    )


def _count_constant(X):
    """Count rows without variation, in pieces that keep memory small."""
    count = 0
    for start in range(0, len(X), _CHUNK):
        rows = X[start : start + _CHUNK].reshape(len(X[start : start + _CHUNK]), -1)
        count += int((rows == rows[:, :1]).all(axis=1).sum())
    return count
