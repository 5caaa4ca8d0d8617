"""Rows for training: read once or every time, in seeded order, with targets and weights."""

import numpy as np
import torch
from torch.utils.data import Dataset

from sktransfer.backbones._prefetch import iter_batches

__all__ = ["BatchLoader", "LabelledRows", "TensorRows", "kept_in_memory", "validation_rows"]

# Prepared inputs up to this size are kept in memory with cache="auto".
CACHE_BYTES = 2**29


class TensorRows:
    """Rows of a tensor that is in memory.

    Parameters
    ----------
    tensor : tensor of shape (n, ...)
        The rows.
    """

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def batch(self, rows):
        """Give some rows.

        Parameters
        ----------
        rows : slice or ndarray of int
            Which rows.

        Returns
        -------
        batch : tensor
            A copy of them, or a view for a slice.
        """
        return self.tensor[rows if isinstance(rows, slice) else torch.as_tensor(rows)]


def kept_in_memory(rows, batch_size, n_workers, cache):
    """Read and prepare all rows once, if they may be kept in memory.

    Parameters
    ----------
    rows : object with ``len`` and ``batch(rows)``
        The rows.
    batch_size : int
        How many are read at a time.
    n_workers : int
        Threads that read ahead.
    cache : bool or "auto"
        Whether they may be kept; "auto" keeps up to 512 MiB.

    Returns
    -------
    rows : TensorRows or the same object
        What further reading is done from.
    """
    if isinstance(rows, TensorRows) or cache is False:
        return rows
    first = rows.batch(slice(0, 1))
    n_bytes = first.numel() * first.element_size() * len(rows)
    if cache == "auto" and n_bytes > CACHE_BYTES:
        return rows
    kept = torch.empty((len(rows), *first.shape[1:]), dtype=first.dtype)
    for part, batch in iter_batches(rows, batch_size, 0, n_workers):
        kept[part] = batch
    return TensorRows(kept)


class LabelledRows(Dataset):
    """Some rows with their targets and weights.

    Parameters
    ----------
    source : object with ``len`` and ``batch(rows)``
        All rows.
    numbers : ndarray of int
        Which of them.
    targets : tensor of shape (n, ...)
        Targets of these.
    weights : tensor of shape (n,) or None, default=None
        Weights of these; None for equal ones.
    """

    def __init__(self, source, numbers, targets, weights=None):
        self.source = source
        self.numbers = np.asarray(numbers)
        self.targets = targets
        self.weights = weights

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        x, target = self.batch(np.array([index]))
        return (x[0] if isinstance(x, tuple) else x)[0], target[0]

    def batch(self, places):
        """Give a batch as the network for training takes it.

        Parameters
        ----------
        places : slice or ndarray of int
            Places among these rows.

        Returns
        -------
        x : tensor or (tensor, tensor)
            Inputs, with their weights if there are any.
        targets : tensor
            Targets.
        """
        x = self.source.batch(self.numbers[places])
        if self.weights is not None:
            x = x, self.weights[places]
        return x, self.targets[places]

    def with_source(self, source):
        """Give the same rows of another source.

        Parameters
        ----------
        source : object with ``len`` and ``batch(rows)``
            One row for each of these, in their order.

        Returns
        -------
        rows : LabelledRows
            With the same targets and weights.
        """
        return LabelledRows(source, np.arange(len(self)), self.targets, self.weights)


class BatchLoader:
    """Loops over batches, each time in an order of its own.

    Parameters
    ----------
    dataset : LabelledRows
        The rows.
    batch_size : int
        Rows per batch. A last batch of a single row is joined with the one before, because batch
        normalisation has no statistics of a single row.
    order : callable or None, default=None
        Called at the start of each loop with the number of rows; gives their order. None keeps it.
    n_workers : int, default=0
        Threads that read ahead.
    """

    def __init__(self, dataset, batch_size, order=None, n_workers=0):
        self.dataset = dataset
        self.batch_size = batch_size
        self.order = order
        self.n_workers = n_workers

    def _starts(self):
        n = len(self.dataset)
        starts = list(range(0, n, self.batch_size))
        if len(starts) > 1 and n - starts[-1] == 1 and self.order is not None:
            starts.pop()
        return starts

    def __len__(self):
        return len(self._starts())

    def __iter__(self):
        n = len(self.dataset)
        order = np.arange(n) if self.order is None else self.order(n)
        parts = _Parts(self.dataset, np.split(order, self._starts()[1:]))
        for _, batch in iter_batches(parts, 1, 0, self.n_workers):
            yield batch


class _Parts:
    """Batches as rows of a data set, so that they can be read ahead."""

    def __init__(self, dataset, parts):
        self.dataset = dataset
        self.parts = parts

    def __len__(self):
        return len(self.parts)

    def batch(self, rows):
        return self.dataset.batch(self.parts[rows.start])


def validation_rows(codes, n_samples, fraction, seed):
    """Choose rows for validation, a share of every class that can spare them.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,), integer, or None
        Classes of the rows, numbered from 0 without gaps; None for a regression.
    n_samples : int
        Number of rows.
    fraction : float
        Share of the rows, between 0 and 1; it is rounded to whole rows, one at least.
    seed : int or sequence of int
        Seed of the choice.

    Returns
    -------
    rows : ndarray of int
        Sorted row numbers. Every class keeps a row for training, so there may be fewer than were
        asked for, and none at all if no class has two rows.
    """
    random = np.random.default_rng(seed)
    if codes is None:
        codes = np.zeros(n_samples, dtype=np.intp)
    counts = np.bincount(codes)
    wanted = max(1, round(fraction * n_samples))
    spare = np.maximum(counts - 1, 0)
    exact = wanted * counts / n_samples
    share = np.minimum(np.floor(exact).astype(int), spare)
    # What rounding leaves goes to the classes that lack most of a row, at random where they tie.
    by_lack = np.lexsort((random.permutation(len(counts)), share - exact))
    while share.sum() < min(wanted, spare.sum()):
        for code in by_lack:
            if share.sum() < wanted and share[code] < spare[code]:
                share[code] += 1
    order = random.permutation(n_samples)
    chosen = [order[codes[order] == code][: share[code]] for code in range(len(counts))]
    return np.sort(np.concatenate(chosen))
