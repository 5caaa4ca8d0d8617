"""What a target keeps in its share: classes, labels, strata of values, with or without groups."""

import warnings

import numpy as np

from ..exceptions import EnlargedSubsetWarning
from ._subset_orders import ClassOrders, MixedOrders

__all__ = ["Strata"]

# Strata of a regression target: as many at most, of so many rows at least.
_MAX_STRATA, _MIN_ROWS = 10, 10


class Strata:
    """What is kept in its share: rows by class, or units that hold several things at once.

    Parameters
    ----------
    target : Target
        The target.
    groups : ndarray of shape (n_samples,), dtype intp, or None
        Group of each row.
    """

    def __init__(self, target, groups):
        self.has_floor = target.task != "regression"
        self.codes, kinds = target.codes, None
        if target.task == "multilabel":
            kinds = target.outputs
        elif target.task == "regression":
            codes = [_quantile_codes(column) for column in target.outputs.T]
            if len(codes) == 1:
                self.codes = codes[0]
            else:
                kinds = np.hstack([np.eye(column.max() + 1)[column] for column in codes])
        rows_of_groups = np.array([1]) if groups is None else np.bincount(groups)
        # Groups of one row each are none.
        self.groups = groups if rows_of_groups.max() > 1 else None
        self.counts = None
        if kinds is None and self.groups is None:
            return
        if self.groups is None:
            counts = kinds
        elif kinds is None:
            shape = len(rows_of_groups), self.codes.max() + 1
            cells = self.groups * shape[1] + self.codes
            counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
        else:
            counts = np.stack([np.bincount(groups, weights=column) for column in kinds.T], axis=1)
        rows = np.ones(len(counts)) if self.groups is None else rows_of_groups
        self.counts = np.column_stack([counts, rows]).astype(np.float64)
        per_row = target.n_outputs if target.task == "multilabel" else 1
        self.limit = float(per_row * rows.max()) if self.has_floor else None

    def prepare(self, rng, largest):
        """Prepare to draw subsets.

        Parameters
        ----------
        rng : numpy.random.RandomState
            Draws what all repeats have in common.
        largest : float
            The largest fraction that will be taken.
        """
        if self.counts is None:
            self.orders = ClassOrders(self.codes, rng, floor=int(self.has_floor))
        else:
            self.orders = MixedOrders(self.counts, limit=self.limit, until=largest)

    def draw(self, rng):
        """Draw an order of the rows.

        Parameters
        ----------
        rng : numpy.random.RandomState
            Draws it.

        Returns
        -------
        take : callable
            Gives the sorted row numbers of a fraction.
        """
        take = self.orders.draw(rng)
        if self.counts is None:
            return take
        if self.groups is None:
            return lambda fraction: np.sort(take(fraction))
        return lambda fraction: np.flatnonzero(np.isin(self.groups, take(fraction)))

    def warn_of_floor(self, fractions):
        """Say so if it takes far more rows than were asked for to have every class.

        Parameters
        ----------
        fractions : list of float
            Shares of the rows, ascending.
        """
        if self.counts is not None or not self.has_floor:
            return
        sizes = np.bincount(self.codes)
        for fraction in fractions:
            asked, taken = fraction * sizes.sum(), np.maximum(fraction * sizes, 1).sum()
            if taken > 2 * asked + 1:
                warnings.warn(
                    f"Every subset has each of the {len(sizes)} classes, so the one of fraction "
                    f"{fraction} has {taken:.0f} of {sizes.sum()} rows instead of {asked:.0f}; if "
                    "y holds values to predict and no classes, say task='regression'.",
                    EnlargedSubsetWarning,
                    stacklevel=3,
                )
                return


def _quantile_codes(values):
    """Tell in which part, cut at quantiles, values are; equal values are in one part."""
    n_strata = min(_MAX_STRATA, max(1, len(values) // _MIN_ROWS))
    edges = np.quantile(values, np.arange(1, n_strata) / n_strata)
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]
