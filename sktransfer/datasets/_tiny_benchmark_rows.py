"""Which rows of a target of the tiny benchmark are trained on: one rule for script and package."""

import numpy as np

__all__ = ["draw_rows"]


def draw_rows(labels, train_size, seed):
    """Draw the training rows of a cell: the same number from each class.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,), int
        Labels of all rows that may be drawn.
    train_size : int
        How many to draw, a multiple of the number of classes.
    seed : int
        Seed of the drawing. With one seed, a smaller draw is part of every larger one.

    Returns
    -------
    places : ndarray of shape (train_size,), int64
        Places in `labels`, sorted.
    """
    random = np.random.RandomState(seed)  # its streams never change
    classes = np.unique(labels)
    per_class = train_size // len(classes)
    shuffled = [random.permutation(np.flatnonzero(labels == label)) for label in classes]
    return np.sort(np.concatenate([rows[:per_class] for rows in shuffled]))
