"""Batches for the triplet loss: seeded, stratified, and independent of the order of rows."""

import numpy as np

__all__ = ["consecutive_batches", "stratified_batches"]


def consecutive_batches(n_samples, batch_size):
    """Cut rows into batches in the order they have; the last batch may be smaller.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    batch_size : int
        Rows per batch.

    Returns
    -------
    batches : list of ndarray of int
        Row numbers.
    """
    return np.split(np.arange(n_samples), np.arange(batch_size, n_samples, batch_size))


def stratified_batches(classes, batch_size, rng):
    """Deal the rows of every class out to batches that all hold triplets.

    The number of batches is n / `batch_size`, rounded up, and their sizes are nearly equal. A
    triplet needs two rows of one class, so rows are dealt in pairs; where so few rows are outside
    of the largest class that pairs would not go round, row by row. If there are not enough pairs,
    or rows outside of the largest class, to give every batch a triplet, there are fewer batches,
    and rows that would find no partners are left out at random.

    Parameters
    ----------
    classes : list of ndarray of int
        Row numbers of each class, smallest class first.
    batch_size : int
        Rows per batch, roughly: single batches may be larger by a few rows.
    rng : numpy.random.Generator
        Shuffles the rows of each class.

    Returns
    -------
    batches : list of ndarray of int
        Row numbers, each at most once; no batches if there is no triplet.
    """
    classes = [rng.permutation(rows) for rows in classes]
    n_samples = sum(map(len, classes))
    n_outside = n_samples - len(classes[-1])
    n_pairs = sum(len(rows) // 2 for rows in classes)
    if n_pairs == 0 or n_outside == 0:
        return []
    n_batches = min(-(-n_samples // batch_size), n_pairs, n_outside)
    n_excess = n_samples - n_batches * batch_size
    if n_excess > 0:
        classes = _leave_out(classes, n_excess, n_batches, rng)
    while True:
        batches = _deal(classes, n_batches)
        if n_batches == 1:
            return [np.concatenate(classes)]
        if all(_holds_triplets(batch) for batch in batches):
            return [np.concatenate([rows for _, rows in batch]) for batch in batches]
        n_batches -= 1  # happens with a handful of rows per batch


def _leave_out(classes, n_excess, n_batches, rng):
    """Leave out rows of classes with a single row, and then rows of the largest class."""
    n_single = sum(len(rows) == 1 for rows in classes)
    n_kept = max(n_single - n_excess, min(n_single, 2 * n_batches))
    kept = np.sort(rng.permutation(n_single)[:n_kept])
    classes = [classes[i] for i in kept] + classes[n_single:]
    n_excess -= n_single - n_kept
    return [*classes[:-1], classes[-1][: max(2 * n_batches, len(classes[-1]) - n_excess)]]


def _deal(classes, n_batches):
    """Deal units of rows out, each class as evenly as possible, to the batches that lack most."""
    n_outside = sum(map(len, classes[:-1]))
    size = 2 if n_outside >= 2 * n_batches else 1
    batches = [[] for _ in range(n_batches)]
    n_classes = np.zeros(n_batches, dtype=np.int64)
    n_rows = np.zeros(n_batches, dtype=np.int64)

    def give(label, units):
        # All batches in turn, those with the fewest classes, then rows, first.
        if len(units) == 1:
            order = [np.argmin(n_classes * (n_rows.max() + 1) + n_rows)]
        else:
            order = np.lexsort((n_rows, n_classes))[: len(units)]
        for place, batch in enumerate(order):
            rows = units[place::n_batches].ravel()
            batches[batch].append((label, rows))
            n_classes[batch] += 1
            n_rows[batch] += len(rows)

    single = []
    for label, rows in reversed(list(enumerate(classes))):
        n_units = len(rows) // size
        if n_units:
            give(label, rows[: n_units * size].reshape(n_units, size))
        if len(rows) % size:
            single.append((label, rows[-1:]))
    for label, rows in reversed(single):  # the largest class last: it is everywhere already
        give(label, rows[None])
    return batches


def _holds_triplets(batch):
    sizes = {}
    for label, rows in batch:
        sizes[label] = sizes.get(label, 0) + len(rows)
    return len(sizes) > 1 and max(sizes.values()) > 1
