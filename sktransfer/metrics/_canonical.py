"""An order of the samples, and a basis of the features, that only their content decides.

A seeded step sees its data in some order. So that the same seed gives the same score however the
rows came and whatever the labels are called, rows and classes are put in this order first.
"""

import numpy as np

from ._moments import FeatureMoments

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


def canonical_order(ranks, codes):
    """Order samples by content, and the classes too.

    Parameters
    ----------
    ranks : ndarray of shape (n_samples,)
        Ranks of the rows, from :func:`row_ranks`.
    codes : ndarray of shape (n_samples,)
        Classes of the samples.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        Positions of the samples in their canonical order. Samples that it does not tell apart can
        change places without any consequence but other names of the classes.
    classes : ndarray of shape (n_samples,)
        The classes in that order, numbered by size, then by the ranks of their members.
    """
    n_classes = int(codes.max()) + 1
    by_class = np.lexsort((ranks, codes))
    members = np.split(ranks[by_class], np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])
    sorted_classes = sorted(range(n_classes), key=lambda k: (len(members[k]), members[k].tolist()))
    number = np.empty(n_classes, dtype=np.intp)
    number[sorted_classes] = np.arange(n_classes)
    classes = number[codes]
    order = np.lexsort((classes, ranks))
    return order, classes[order]


def rounded_norms(rows):
    """Lengths of rows of ordinary size, without the digits that rounding may have touched."""
    return np.rint(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * 2.0**32)


def reproducible_spectrum(X, target, moments, count):
    """Return a decomposition whose leading directions do not depend on the order of the rows.

    That is the shared one, unless some of these directions are nearly exchangeable (close
    eigenvalues, or coefficients that leave the sign open): then the rows are decomposed again, in
    an order that their content decides.

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

    Returns
    -------
    spectrum : CenteredSpectrum
        The decomposition.
    """
    spectrum = moments().spectrum
    n_components = min(count(spectrum), spectrum.rank)
    if n_components == 0 or _is_well_determined(spectrum, n_components):
        return spectrum
    order = np.argsort(row_ranks(X), kind="stable")
    rows = np.ascontiguousarray(X[order])
    return FeatureMoments.from_arrays(rows, target.take(order), copy=False).spectrum


def _is_well_determined(spectrum, n_components):
    eigenvalues = np.r_[spectrum.eigenvalues, 0.0][: n_components + 1]
    if (-np.diff(eigenvalues)).min() <= _SMALLEST_GAP * eigenvalues[0]:
        return False
    size = np.abs(spectrum._right(np.eye(spectrum.rank, n_components)))
    if len(size) == 1:
        return True
    second, first = np.partition(size, -2, axis=0)[-2:]
    return bool((first - second > _COEFFICIENT_TIE * first).all())
