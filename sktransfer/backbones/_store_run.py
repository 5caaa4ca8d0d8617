"""Running a candidate for the feature store: batch by batch onto the disk, or as a whole."""

from contextlib import closing, nullcontext
from dataclasses import dataclass

import numpy as np

from sktransfer.backbones._store_files import ARRAYS
from sktransfer.utils._sklearn import _get_output_config

__all__ = [
    "StoredFeatures",
    "n_rows_of",
    "plan_of_run",
    "rows_again",
    "run_rows",
    "run_whole",
    "storable",
]

_KINDS = "biufc"


@dataclass
class StoredFeatures:
    """Features of one candidate on one set of data.

    Attributes
    ----------
    features : array-like of shape (n_samples, n_features)
        The features: a memory map that cannot be written to if they lie in the store, else what
        the candidate returned.
    probabilities : array-like of shape (n_samples, n_source_classes) or None
        Outputs of the source head, where there is one.
    from_store : bool
        Whether all rows were in the store already.
    n_rows_run : int
        Number of rows that the candidate was run on now.
    is_kept : bool
        Whether they lie in the store now.
    """

    features: np.ndarray
    probabilities: np.ndarray | None
    from_store: bool
    n_rows_run: int
    is_kept: bool = False


def n_rows_of(X):
    """Count the rows of data in any form.

    Parameters
    ----------
    X : data
        The data.

    Returns
    -------
    n_rows : int
        Their number.
    """
    shape = getattr(X, "shape", ())
    return int(shape[0]) if shape else len(X)


def plan_of_run(candidate):
    """Tell what the bytes of features depend on beside what is in a key.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate.

    Returns
    -------
    plan : dict
        Size of batches and device: they decide in what order sums are added up.
    """
    return {name: str(getattr(candidate, name, None)) for name in ("batch_size", "device_")}


def run_whole(candidate, X, probabilities):
    """Run a candidate over all data at once, in memory.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate.
    X : data
        The data.
    probabilities : bool
        Whether source probabilities are needed.

    Returns
    -------
    made : StoredFeatures
        What the candidate returned.
    """
    if hasattr(candidate, "extract"):
        features, source = candidate.extract(X)
    else:
        features, source = candidate.transform(X), None
        if probabilities and hasattr(candidate, "predict_proba"):
            source = candidate.predict_proba(X)
    return StoredFeatures(features, source, False, n_rows_of(X))


def storable(candidate, made):
    """Give the arrays of a result that can be kept and given back as they were.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate.
    made : StoredFeatures
        What it returned.

    Returns
    -------
    arrays : list of ndarray or None
        Features, and probabilities or None; None in place of the list for anything but finite
        numbers in two dimensions, one row for each sample.
    """
    arrays = []
    for output in (made.features, made.probabilities):
        if output is None:
            arrays.append(None)
            continue
        if type(output) not in (np.ndarray, np.memmap):
            # A data frame can be made again only if it is scikit-learn that makes it.
            is_wrapped = _get_output_config("transform", candidate)["dense"] != "default"
            if output is not made.features or not is_wrapped or not hasattr(output, "columns"):
                return None
        array = np.asarray(output)
        if array.dtype.kind not in _KINDS or array.ndim != 2 or array.size == 0:
            return None
        if len(array) != made.n_rows_run or not np.isfinite(array).all():
            return None
        arrays.append(array)
    return arrays


def rows_again(candidate, X, growing, start):
    """Give all rows in memory when a complete entry could not be put in its place.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate.
    X : data
        The data.
    growing : GrowingEntry
        The entry, with all rows.
    start : int
        Rows that it had before.

    Returns
    -------
    made : StoredFeatures
        Read back, or computed once more if that is not possible.
    """
    try:
        full = growing.read_back()
    except (OSError, ValueError):
        return run_whole(candidate, X, True)
    found = [full.get(name) for name in ARRAYS]
    return StoredFeatures(*found, False, growing.n_rows - start)


def run_rows(candidate, X, growing):
    """Run a candidate batch by batch and write each; go on in memory if the disk fails.

    Parameters
    ----------
    candidate : fitted transformer
        One with a method ``iter_extract``.
    X : data
        The data.
    growing : GrowingEntry
        Started; rows that it has are not computed again.

    Returns
    -------
    made : StoredFeatures or None
        None if all rows are in the entry; all rows in memory after a failure.
    failure : OSError or None
        Why the rows could not be written.

    Raises
    ------
    ValueError
        If the candidate gives features that are not finite, or another number of rows.
    """
    start, n_rows = growing.n_done, growing.n_rows
    full, failure = None, None
    batches = candidate.iter_extract(X, start=start)
    n_done = start
    with closing(batches) if hasattr(batches, "close") else nullcontext():
        for rows, *arrays in batches:
            if not np.isfinite(arrays[0]).all():
                raise ValueError(
                    f"The features contain NaN or infinite values within the rows {rows.start} to "
                    f"{rows.stop - 1}."
                )
            n_done += len(arrays[0])
            if failure is None:
                try:
                    growing.append(*arrays)
                    continue
                except OSError as error:
                    failure = error
                    try:
                        full = growing.read_back()
                    except (OSError, ValueError):
                        break
            for name, array in zip(ARRAYS, arrays, strict=True):
                if array is None:
                    continue
                if name not in full:
                    full[name] = np.empty((n_rows, array.shape[1]), array.dtype)
                full[name][rows] = array
    if failure is not None and full is None:
        return run_whole(candidate, X, True), failure
    if n_done != n_rows:
        raise ValueError(f"The candidate gave {n_done} rows of features for {n_rows} samples.")
    if full is None:
        return None, None
    found = [full.get(name) for name in ARRAYS]
    return StoredFeatures(*found, False, n_rows - start), failure
