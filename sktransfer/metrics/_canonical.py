"""An order of the samples, and a basis of the features, that only their content decides.

A seeded step sees its data in some order. So that the same seed gives the same score however the
rows came and whatever the labels are called, rows and classes are put in this order first. Rows
are compared exactly (:func:`row_ranks`) where equal ones must be told from others, and by a number
each (:func:`row_order`), with little memory, where any order will do.
"""

import numpy as np

from ._moments import FeatureMoments
from ._second_moments import row_blocks
from ._spectrum import power_of_two

# Directions closer than this (relative to the largest eigenvalue) are not told apart reliably:
# rounding, which depends on the order of the rows, would turn them.
_SMALLEST_GAP = 1e-6
_COEFFICIENT_TIE = 1e-9


def row_ranks(X, key=None):
    """Rank rows by their content.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    key : ndarray of shape (n_samples,), default=None
        What to sort by first; only rows with equal keys are compared themselves.

    Returns
    -------
    ranks : ndarray of shape (n_samples,), dtype intp
        Ranks from 0; equal rows (with equal keys) share one.
    """
    ranks = np.zeros(len(X), dtype=np.intp)
    if key is not None:
        _, ranks, counts = np.unique(key, return_inverse=True, return_counts=True)
        tied = np.flatnonzero(counts[ranks] > 1)
    else:
        tied = np.arange(len(X))
    within = np.zeros(len(X), dtype=np.intp)
    if len(tied):
        # Adding zero makes negative zeros positive, so that equal numbers have equal bytes.
        rows = np.ascontiguousarray(X[tied], dtype=np.float64) + 0.0
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
        order = np.argsort(whole, kind="stable")
        new = np.r_[False, (rows[order[1:]] != rows[order[:-1]]).any(axis=1)]
        within[tied[order]] = np.cumsum(new)
    return np.unique(np.stack([ranks, within]), axis=1, return_inverse=True)[1].ravel()


def row_keys(rows):
    """Turn every row into a number: equal rows have equal ones, wherever they stand.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features), dtype float64, C-contiguous
        Finite rows.

    Returns
    -------
    keys : ndarray of shape (n_samples,)
        A projection. It tells rows apart that differ by more than rounding.
    """
    # Row by row: a product of matrices would round the same row differently elsewhere.
    return np.einsum("ij,j->i", rows, np.random.default_rng(0).normal(size=rows.shape[1]))


def row_order(X):
    """Order rows by their content, a block at a time.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite rows.

    Returns
    -------
    order : ndarray of shape (n_samples,), dtype intp
        Positions of the rows in that order, which shifts and positive factors of X leave as it is
        but for rounding; equal rows may change places.
    """
    low, high = (bound(axis=0).astype(np.float64) for bound in (X.min, X.max))
    unit = power_of_two(max(abs(float(high.max())), abs(float(low.min()))))
    low /= unit
    size = power_of_two(np.max(high / unit - low))
    keys = np.empty(len(X))
    for rows in row_blocks(*X.shape):
        block = X[rows].astype(np.float64, order="C")
        block *= 1 / unit  # exact, as these are powers of two
        block -= low
        block *= 1 / size
        keys[rows] = row_keys(block)
    return np.argsort(keys, kind="stable")


def canonical_classes(ranks, codes):
    """List the rows of each class, and the classes, in an order that their content decides.

    Parameters
    ----------
    ranks : ndarray of shape (n_samples,)
        A number for each row that is computed from its content; equal rows have equal ones.
    codes : ndarray of shape (n_samples,), integer
        Classes of the rows, numbered from 0 without gaps.

    Returns
    -------
    classes : list of ndarray of int
        Positions of the rows of each class in ascending rank, smallest class first; classes of one
        size by the ranks of their members.
    """
    order = np.lexsort((ranks, codes))
    classes = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return sorted(classes, key=lambda rows: (len(rows), ranks[rows].tolist()))


def canonical_order(ranks, codes):
    """Order samples by content, and number the classes by it.

    Parameters
    ----------
    ranks : ndarray of shape (n_samples,)
        Ranks of the rows, from :func:`row_ranks`.
    codes : ndarray of shape (n_samples,)
        Classes of the samples, numbered from 0 without gaps.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        Positions of the samples in their canonical order. Samples that it does not tell apart can
        change places without any consequence but other names of the classes.
    classes : ndarray of shape (n_samples,)
        The classes in that order, numbered as :func:`canonical_classes` lists them.
    """
    numbers = np.empty(len(codes), dtype=np.intp)
    for number, rows in enumerate(canonical_classes(ranks, codes)):
        numbers[rows] = number
    order = np.lexsort((numbers, ranks))
    return order, numbers[order]


def rounded_norms(rows):
    """Lengths of rows of ordinary size, without the digits that rounding may have touched."""
    return np.rint(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * 2.0**32)


def reproducible_spectrum(X, target, moments, count, sample_weight=None):
    """Return a decomposition whose leading directions do not depend on the order of the rows.

    That is the shared one, unless some of these directions are nearly exchangeable (close
    eigenvalues, or coefficients that leave the sign open): then the rows are decomposed again, in
    an order that their content decides, and this decomposition is shared too.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    target : Target
        Their target.
    moments : callable
        Returns the shared :class:`FeatureMoments` of the same data.
    count : callable
        Takes a spectrum and returns how many of its directions are needed.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights of the rows, those of the moments.

    Returns
    -------
    spectrum : CenteredSpectrum
        The decomposition.
    """
    shared = moments()
    spectrum = shared.spectrum
    n_components = min(count(spectrum), spectrum.rank)
    if n_components == 0 or _is_well_determined(spectrum, n_components):
        return spectrum

    def decompose():
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        order = np.lexsort((weight, row_ranks(X)))
        weight = None if sample_weight is None else weight[order]
        rows = np.ascontiguousarray(X[order])
        return FeatureMoments.from_arrays(rows, target.take(order), weight, copy=False).spectrum

    return shared.remembered("reproducible", decompose)


def _is_well_determined(spectrum, n_components):
    eigenvalues = np.r_[spectrum.eigenvalues, 0.0][: n_components + 1]
    if (-np.diff(eigenvalues)).min() <= _SMALLEST_GAP * eigenvalues[0]:
        return False
    size = np.abs(spectrum.directions(n_components))
    if len(size) == 1:
        return True
    second, first = np.partition(size, -2, axis=0)[-2:]
    return bool((first - second > _COEFFICIENT_TIE * first).all())
