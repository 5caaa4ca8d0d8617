"""Miniature populations: nested stratified subsets of a target."""

import warnings
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state

from ..exceptions import SharedRowsWarning
from ..utils._sklearn import Interval, StrOptions, _num_samples
from ..utils._target import TASKS, as_labels, as_target_array, encode_target, refuse_masked
from ._shared_rows import shared_between_groups
from ._strata import Strata

__all__ = ["NestedStratifiedSubsets", "Subset"]


class Subset(NamedTuple):
    """One subset of a target.

    Parameters
    ----------
    indices : ndarray of shape (n_rows,), dtype int64
        Row numbers, ascending.
    fraction : float
        The share that was asked for.
    repeat : int
        Number of the repeat, from 0.
    """

    indices: np.ndarray
    fraction: float
    repeat: int


class NestedStratifiedSubsets(BaseEstimator):
    r"""Nested stratified subsets of a target, drawn several times.

    A subset is a *miniature population*: it has the classes of the whole in their shares. In each
    repeat a smaller subset is part of every larger one, so that sizes differ by added rows only;
    repeats differ by the draw.

    It is a splitter in the manner of scikit-learn's, but no cross-validator: there is no test
    part. Where scikit-learn takes ``cv``, pass
    ``[(subset.indices, subset.indices) for subset in subsets.split(X, y)]``.

    Parameters
    ----------
    fractions : sequence of float, default=(0.05, 0.1, 0.25, 0.5, 0.75)
        Shares of the rows, above 0 and at most 1, all different. Neither their order nor which
        others there are makes a difference to the subset of a fraction.
    n_repeats : int, default=5
        How often subsets are drawn. More repeats leave the first ones as they are.
    random_state : int, RandomState instance or None, default=0
        Seed. With an int the same subsets are drawn each time.
    groups : array-like of shape (n_samples,), default=None
        Rows that belong together, such as the images of one patient or lesion, for calls of
        ``split`` without groups of their own. A group is in a subset as a whole or not at all.
    task : {"auto", "classification", "multilabel", "regression"}, default="auto"
        What `y` is. "auto" takes 0/1 columns for several labels, numbers with fractional parts for
        values to predict, and anything else for classes: whole numbers that are values need
        "regression".

    See Also
    --------
    sklearn.model_selection.StratifiedShuffleSplit : Train and test parts of one size.

    Notes
    -----
    Let the subset of a fraction :math:`f` have :math:`k_c` of the :math:`n_c` rows of class
    :math:`c`. What holds at every fraction:

    - Classes: :math:`|k_c - f n_c| < 1` and :math:`k_c \ge 1`. The floor of one row keeps every
      class in every subset. The number of rows is within one of :math:`\sum_c \max(1, f n_c)`,
      which is :math:`f n` unless the floor lifts a class. All repeats have equally many rows of
      each class.
    - Several labels, columns of 0 and 1: for each label :math:`|k_c - f n_c|` is at most the
      number of labels, usually at most 2, and :math:`k_c \ge 1`.
    - Values: ten strata of equal size, at the quantiles of `y`, or fewer with ten rows each, are
      kept in their shares like classes, without the floor. With several columns each has strata,
      which are within a few rows of their shares.
    - With groups :math:`|k_c - f n_c|` is at most the number of rows of the largest group, for
      several labels times their number. :math:`k_c \ge 1` where whole groups can do both.

    For classes this follows from the construction. The bounds for labels and groups are not proved
    for the greedy order that is used there; they held in all of 10,000 random tables.

    Which rows are drawn depends on the order of the rows. Classes that are in no row are unknown
    here, and play no part.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.model_selection import NestedStratifiedSubsets
    >>> y = np.repeat(["benign", "malignant", "normal"], [60, 30, 10])
    >>> X = np.zeros((100, 2))
    >>> subsets = NestedStratifiedSubsets(fractions=[0.5, 0.1], n_repeats=2)
    >>> subsets.get_n_splits()
    4
    >>> for indices, fraction, repeat in subsets.split(X, y):
    ...     print(repeat, fraction, np.unique(y[indices], return_counts=True)[1])
    0 0.1 [6 3 1]
    0 0.5 [30 15 5]
    1 0.1 [6 3 1]
    1 0.5 [30 15 5]
    """

    # A meta-estimator that routes metadata hands groups over wherever it has them.
    __metadata_request__split = {"groups": True}

    _parameter_constraints: dict = {
        "fractions": ["array-like"],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "groups": ["array-like", None],
        "task": [StrOptions({"auto", *TASKS})],
    }

    def __init__(
        self,
        fractions=(0.05, 0.1, 0.25, 0.5, 0.75),
        n_repeats=5,
        random_state=0,
        groups=None,
        *,
        task="auto",
    ):
        self.fractions = fractions
        self.n_repeats = n_repeats
        self.random_state = random_state
        self.groups = groups
        self.task = task
        # Splitters of scikit-learn refuse what is wrong at once; ``set_params`` may come later.
        self._sorted_fractions()

    def get_n_splits(self, X=None, y=None, groups=None):
        """Tell how many subsets there are.

        Parameters
        ----------
        X, y, groups : object, default=None
            Not used, as in scikit-learn.

        Returns
        -------
        n_splits : int
            Number of repeats times number of fractions.
        """
        return self.n_repeats * len(self._sorted_fractions())

    def split(self, X, y=None, groups=None):
        """Draw the subsets.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The data. Only their number counts, but with groups equal rows are looked for, in
            arrays, frames and lists of rows, or of strings: of files only the names are compared.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target. Equal labels for all rows draw subsets without strata.
        groups : array-like of shape (n_samples,), default=None
            Rows that belong together. They take the place of the parameter `groups`.

        Returns
        -------
        subsets : iterator of Subset
            Named tuples ``(indices, fraction, repeat)``: repeat by repeat, from the smallest
            fraction to the largest. ``indices`` are ascending row numbers, dtype int64.

        Raises
        ------
        ValueError
            If a parameter, the target or the groups can't be used.
        TypeError
            If the target is sparse.

        Warns
        -----
        SharedRowsWarning
            If equal rows of `X` are in different groups. Rows all whose values are equal, such as
            black images, don't count.
        EnlargedSubsetWarning
            If a subset has more than twice the rows that were asked for, because every class is
            in it.
        """
        fractions = self._sorted_fractions()
        if y is None:
            raise ValueError(
                "NestedStratifiedSubsets keeps the shares of the classes in y, and the target y is "
                "None; pass np.zeros(len(X)) for subsets without strata."
            )
        y = check_array(as_target_array(y), ensure_2d=False, dtype=None, input_name="y")
        target = encode_target(
            y,
            tasks=TASKS,
            task=self.task,
            name=type(self).__name__,
            regression_by="task='regression'",
        )
        n_rows = target.n_samples
        if _num_samples(X) != n_rows:
            raise ValueError(
                f"X and y must have as many rows: X has {_num_samples(X)}, y has {n_rows}."
            )
        codes = self._group_codes(self.groups if groups is None else groups, n_rows)
        if codes is not None:
            _warn_of_shared_rows(X, codes)
        strata = Strata(target, codes)
        strata.warn_of_floor(fractions)
        # Drawn now, so that another use of a generator in between changes nothing.
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return self._draw(strata, fractions, self.n_repeats, int(seed))

    def _draw(self, strata, fractions, n_repeats, seed):
        strata.prepare(np.random.RandomState(seed), fractions[-1])
        for repeat in range(n_repeats):
            take = strata.draw(np.random.RandomState([seed, repeat]))
            for fraction in fractions:
                yield Subset(take(fraction).astype(np.int64), fraction, repeat)

    def _sorted_fractions(self):
        """Check the parameters and give the fractions in ascending order."""
        self._validate_params()
        given = list(self.fractions)
        for fraction in given:
            is_number = isinstance(fraction, Real) and not isinstance(fraction, bool | np.bool_)
            if not (is_number and 0 < fraction <= 1):
                raise ValueError(
                    "The 'fractions' parameter of NestedStratifiedSubsets must hold numbers above "
                    f"0 and at most 1, such as 0.05 for 5 %. Got {fraction!r} among them."
                )
        fractions = sorted(map(float, given))
        if not fractions:
            raise ValueError(
                "The 'fractions' parameter of NestedStratifiedSubsets must hold at least one "
                "number. Got none."
            )
        for smaller, larger in zip(fractions, fractions[1:], strict=False):
            if smaller == larger:
                raise ValueError(
                    "The 'fractions' parameter of NestedStratifiedSubsets must hold different "
                    f"numbers. Got {smaller} more than once."
                )
        return fractions

    def _group_codes(self, groups, n_rows):
        """Give the number of the group of each row; None if there are none."""
        if groups is None:
            return None
        refuse_masked(groups, "The 'groups'")
        groups = check_array(groups, ensure_2d=False, dtype=None, input_name="groups")
        if groups.ndim == 2 and groups.shape[1] == 1:
            groups = groups[:, 0]
        if groups.ndim != 1 or len(groups) != n_rows:
            raise ValueError(
                f"The 'groups' must be one value for each of the {n_rows} rows. Got an array of "
                f"shape {groups.shape}."
            )
        if groups.dtype.kind == "O":
            groups = as_labels(groups, "The 'groups'")
        return np.unique(groups, return_inverse=True)[1]


def _warn_of_shared_rows(X, codes):
    shared = shared_between_groups(X, codes)
    if len(shared):
        row, earlier = shared[0]
        number = "1 row occurs" if len(shared) == 1 else f"{len(shared)} rows occur"
        warnings.warn(
            f"{number} in more than one group, the first of them row {row}, which equals row "
            f"{earlier}: the same patient or lesion may have two names, and be cut in two.",
            SharedRowsWarning,
            stacklevel=3,
        )
