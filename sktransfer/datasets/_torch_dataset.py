"""The labels of a torch data set, in the order of its rows."""

import numpy as np
from sklearn.utils import Bunch

from sktransfer.datasets._npz import task_of

__all__ = ["load_torch_dataset"]

_N_COMPARED = 8


def load_torch_dataset(dataset):
    """Give a map-style data set of torch as data and labels.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        Each item is a tuple that begins with an image and its label. Labels are taken from
        ``targets`` or ``labels``, also through ``Subset``, ``ConcatDataset`` and
        ``TensorDataset``, and compared with those of a few items; without such an attribute, or if
        they differ, every item is read once for its label.

    Returns
    -------
    target : :class:`~sklearn.utils.Bunch`
        With the attributes

        X : torch.utils.data.Dataset
            The data set as given, which backbones take as data.
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels by row; (n, 1) becomes (n,).
        task : {"classification", "multilabel", "regression"}
            "multilabel" for a matrix of zeros and ones with several columns, "regression" for
            floats that are not whole numbers.
        target_names : ndarray of str or None
            Names of classes by number, where the data set has a list ``classes``.

    Raises
    ------
    ValueError
        For a loader, an iterable data set, one without length or rows, and items without a label.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import Subset, TensorDataset
    >>> from sktransfer.datasets import load_torch_dataset
    >>> images, labels = torch.rand(6, 1, 28, 28), torch.arange(6) % 2
    >>> target = load_torch_dataset(Subset(TensorDataset(images, labels), [5, 0, 2]))
    >>> len(target.X), target.y
    (3, array([1, 0, 0]))
    """
    from sktransfer.backbones._datasets import check_dataset

    if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        raise ValueError(
            f"The data set must be a map-style data set of torch, got a {type(dataset).__name__}."
        )
    check_dataset(dataset)
    n = len(dataset)
    labels = _declared(dataset)
    if labels is None or len(labels) != n or not _agree(dataset, labels):
        labels = [_label(dataset, row) for row in range(n)]
    try:
        y = np.stack([_as_array(label) for label in labels])
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"The labels of the data set {type(dataset).__name__} can't be made one array "
            f"({error})."
        ) from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    task = task_of(y, f"The labels of the data set {type(dataset).__name__}", "y")
    names = getattr(dataset, "classes", None)
    is_list = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return Bunch(X=dataset, y=y, task=task, target_names=np.array(names) if is_list else None)


def _declared(dataset):
    """Give the labels that a data set keeps by itself, in the order of its rows, or None."""
    from torch.utils.data import ConcatDataset, Subset, TensorDataset

    if isinstance(dataset, Subset):
        labels = _declared(dataset.dataset)
        return None if labels is None else [labels[row] for row in dataset.indices]
    if isinstance(dataset, ConcatDataset):
        parts = [_declared(part) for part in dataset.datasets]
        return None if any(part is None for part in parts) else sum(map(list, parts), [])
    if isinstance(dataset, TensorDataset):
        return list(dataset.tensors[1]) if len(dataset.tensors) > 1 else None
    for name in ("targets", "labels"):
        labels = getattr(dataset, name, None)
        if (
            labels is None
            or isinstance(labels, (str, bytes, dict))
            or not hasattr(labels, "__len__")
        ):
            continue
        change = getattr(dataset, "target_transform", None)
        return list(labels) if change is None else [change(label) for label in labels]
    return None


def _agree(dataset, labels):
    """Compare labels with those of some items; an item without a label says nothing."""
    rows = np.unique(np.linspace(0, len(labels) - 1, _N_COMPARED).astype(int)).tolist()
    for row in rows:
        item = _item(dataset, row)
        if isinstance(item, (tuple, list)) and len(item) > 1:
            declared, found = _as_array(labels[row]), _as_array(item[1])
            if declared.ravel().tolist() != found.ravel().tolist():
                return False
    return True


def _item(dataset, row):
    try:
        return dataset[row]
    except Exception as error:
        raise ValueError(
            f"The data set {type(dataset).__name__} failed at row {row} "
            f"({type(error).__name__}: {error})."
        ) from error


def _label(dataset, row):
    item = _item(dataset, row)
    if not (isinstance(item, (tuple, list)) and len(item) > 1):
        raise ValueError(
            f"Row {row} of the data set {type(dataset).__name__} is a {type(item).__name__} "
            "without a label: an item must be a tuple (image, label)."
        )
    return item[1]


def _as_array(label):
    if hasattr(label, "detach"):
        label = label.detach().cpu()
        # numpy has no bfloat16
        label = label.float() if "bfloat16" in str(label.dtype) else label
        return label.numpy()
    return np.asarray(label)
