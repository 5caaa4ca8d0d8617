"""The data of the command line: loading, and what can be said against them before anything runs."""

import warnings

import numpy as np

from .exceptions import SkippedFilesWarning

__all__ = ["CommandTarget", "check_runs", "demo_target", "load_target"]

_LISTED_SUFFIXES = 8


class CommandTarget:
    """A target with what the command line says about it.

    Parameters
    ----------
    X : ndarray
        Data or paths of image files.
    y : ndarray
        Labels.
    task : {"classification", "multilabel", "regression"}
        Kind of target.
    title : str
        One line that describes the data.
    remarks : list of str
        What the user should know of the data.
    medmnist_name : str or None, default=None
        Which data set of MedMNIST it is, if it is one by the name of its file.
    """

    def __init__(self, X, y, task, title, remarks=(), medmnist_name=None):
        self.X = X
        self.y = y
        self.task = task
        self.title = title
        self.remarks = list(remarks)
        self.medmnist_name = medmnist_name

    @property
    def are_files(self):
        """Whether the data are paths of images."""
        return self.X.ndim == 1

    @property
    def are_images(self):
        """Whether the data are images, as arrays or files."""
        return self.X.ndim != 2

    def check(self, n_folds=None, has_store=False):
        """Refuse, before any network runs, what no network could be ranked on.

        Parameters
        ----------
        n_folds : int or None, default=None
            Number of folds that are wanted.
        has_store : bool, default=False
            Whether features are kept. Then only the headers of image files are read here; the
            network that decodes a damaged one names them all.

        Raises
        ------
        ValueError
            If all labels are the same, there are too few samples for the folds, or image files
            cannot be decoded; all such files are named.
        """
        if bool((self.y == self.y[:1]).all()):
            label = f" ({self.y[0].item()!r})" if self.y.ndim == 1 else ""
            raise ValueError(
                "--data: a ranking needs at least 2 classes or values as labels; all "
                f"{len(self.y)} samples have the same, 1 class{label}."
            )
        if n_folds is not None:
            self._check_folds(n_folds)
        if self.are_files:
            from .backbones._files import ImageItems

            # Decoded once, and then taken to be good: a damaged one is found before networks run.
            # With a store there may be no need to decode anything.
            ImageItems(self.X).check(pixels=not has_store)

    def _check_folds(self, n_folds):
        if self.task != "classification":
            if n_folds > len(self.y):
                raise ValueError(f"--cv: {n_folds} folds of {len(self.y)} samples can't be made.")
            return
        classes, counts = np.unique(self.y, return_counts=True)
        if n_folds > counts.max():
            smallest = counts.argmin()
            raise ValueError(
                f"--cv: {n_folds} folds need a class of at least as many samples; the largest has "
                f"{counts.max()}, the smallest, {classes[smallest].item()!r}, {counts[smallest]}."
            )


def check_runs(pairs, X):
    """Show the data to the candidates whose fit learns nothing, until one can take them.

    Parameters
    ----------
    pairs : list of (str, transformer)
        The candidates.
    X : ndarray
        The data.

    Raises
    ------
    ValueError
        If no candidate at all can take the data. Candidates that learn from data are not tried.
    """
    from sklearn.base import clone

    first_error = None
    # Values of an array are checked as a whole, files were decoded before; two rows are run.
    rows = X[:2] if X.ndim == 1 else X
    for name, candidate in pairs:
        if not getattr(candidate, "stateless", False):
            return
        # Features that were computed elsewhere belong to all rows, and looking them up is quick.
        is_ready = not getattr(candidate, "worth_storing", True)
        try:
            clone(candidate).fit(X if is_ready else rows)
        except (Exception, SystemExit) as error:
            first_error = first_error or (name, error)
        else:
            return
    name, error = first_error
    who = f"candidate {name!r} can't" if len(pairs) == 1 else f"none of {len(pairs)} candidates can"
    kind = "" if type(error) in (ValueError, TypeError) else f"{type(error).__name__}: "
    raise ValueError(f"{who} take these data: {kind}{error}") from error


def load_target(path, on_error="raise"):
    """Load a folder or a file and describe it.

    Parameters
    ----------
    path : str
        What was given on the command line.
    on_error : {"raise", "skip"}, default="raise"
        What to do about image files that can't be read: leave them to ``check``, which names them
        all, or leave them out together with their labels and say so in a remark.

    Returns
    -------
    target : CommandTarget
        Data, labels and description.

    Raises
    ------
    ValueError
        If there is nothing of this name, or it doesn't hold a target.
    """
    from pathlib import Path

    from .datasets import load_npz_target
    from .datasets._medmnist_files import medmnist_name

    known_as = medmnist_name(Path(path).name)
    if Path(path).is_dir():
        target, remarks = _load_folder(path, on_error)
        title = _title(path, len(target.X), len(target.target_names))
        return CommandTarget(target.X, target.y, "classification", title, remarks, known_as)
    if not Path(path).exists():
        raise ValueError(f"--data: there is no folder or file {path!r}.")
    target = load_npz_target(path)
    n_classes = len(np.unique(target.y)) if target.task == "classification" else None
    title = _title(path, len(target.X), n_classes, target.task)
    remarks = []
    if target.n_constant:
        remarks.append(
            f"{target.n_constant} of {len(target.X)} samples are constant, all their values equal."
        )
    return CommandTarget(target.X, target.y, target.task, title, remarks, known_as)


def _load_folder(path, on_error):
    from .datasets import load_image_folder

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SkippedFilesWarning)
        target = load_image_folder(path, on_error="skip" if on_error == "skip" else None)
    return target, _left_out(target) + [str(warning.message) for warning in caught]


def demo_target():
    """Give the training part of scikit-learn's digits.

    Returns
    -------
    target : CommandTarget
        Data, labels and description.
    """
    from .datasets import load_digits_target

    digits = load_digits_target()
    title = f"scikit-learn's digits, {len(digits.y_train)} training images, 10 classes"
    return CommandTarget(digits.images_train, digits.y_train, "classification", title)


def _left_out(target):
    said = []
    if target.n_outside:
        images = "image" if target.n_outside == 1 else "images"
        said.append(f"{target.n_outside} {images} left out, in no sub-folder and so without label.")
    if not target.n_ignored:
        return said
    suffixes = list(target.ignored_suffixes)
    shown = ", ".join(suffixes[:_LISTED_SUFFIXES])
    if len(suffixes) > _LISTED_SUFFIXES:
        shown += ", ..."
    files = "file" if target.n_ignored == 1 else "files"
    return [*said, f"{target.n_ignored} {files} left out, not images by their names ({shown})."]


def _title(path, n_samples, n_classes, task="classification"):
    what = f"{n_classes} classes" if n_classes else f"{task} target"
    return f"{path}, {n_samples} samples, {what}"
