"""Features that were computed elsewhere, as a candidate beside networks."""

import copy
import os

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import FLOAT_DTYPES, check_is_fitted, validate_data

from sktransfer.backbones._store_data import digest_data
from sktransfer.backbones._store_hashing import row_chunks
from sktransfer.backbones._store_run import n_rows_of
from sktransfer.utils._sklearn import _fit_context

__all__ = ["PrecomputedFeatures"]

_N_LISTED = 5


class PrecomputedFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features that are there already: from another library, another machine, a paper.

    Nothing is computed. Arrays are never copied as a whole, also by :func:`sklearn.base.clone`, and
    files are opened as memory maps that cannot be written to.

    Parameters
    ----------
    features : array-like of shape (n_rows, n_features), str or path, default=None
        The features, or the name of a file in NumPy's format ``.npy``. None takes the data
        themselves for features.
    probabilities : array-like of shape (n_rows, n_source_classes), str or path, default=None
        Outputs of the source head for the same rows, likewise: not negative, for metrics that
        need source probabilities.
    ids : array-like of shape (n_rows,), str or path, default=None
        What the rows belong to, names of files for example; each once. Then the data are such ids
        and are looked up by value, in any order. Without ids, row i belongs to row i of the data
        that ``fit`` is given.

    Attributes
    ----------
    n_features_out_ : int
        Number of features.
    n_features_in_ : int
        Number of features seen during fit, if the data were a matrix.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if ``features`` is None and the data were a data frame whose names are all
        strings.

    See Also
    --------
    FeatureStore : Keeps the features of networks that can be run here.

    Notes
    -----
    Without ids, ``fit`` remembers a digest of its data, and other data of the same length are
    refused. Names of files count as names here: their content is not read.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.backbones import PrecomputedFeatures
    >>> features = np.arange(6.0).reshape(3, 2)
    >>> candidate = PrecomputedFeatures(features, ids=["a.png", "b.png", "c.png"])
    >>> candidate.fit_transform(["c.png", "a.png"])
    array([[4., 5.],
           [0., 1.]])
    """

    #: Fitting learns nothing from the data: features of rows do not depend on other rows.
    stateless = True
    #: They lie on the disk, or in memory, already.
    worth_storing = False

    _parameter_constraints: dict = {
        "features": [str, os.PathLike, "array-like", None],
        "probabilities": [str, os.PathLike, "array-like", None],
        "ids": [str, os.PathLike, "array-like", None],
    }

    def __init__(self, features=None, probabilities=None, ids=None):
        self.features = features
        self.probabilities = probabilities
        self.ids = ids

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the arrays, and that they are as long as the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The data in any form, of which nothing but a digest is kept; a sequence of ids if there
            are ``ids``; the features if ``features`` is None.
        y : ignored
            Present by convention.

        Returns
        -------
        self : object
            The fitted candidate.

        Raises
        ------
        ValueError
            If a file cannot be read; an array is no matrix of finite numbers; lengths differ; an
            id is given twice, missing, or not known.
        """
        for name in ("_kept", "_row_of", "_digest", "n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
        if self.features is None and self.ids is not None:
            raise ValueError(
                "The 'ids' parameter of PrecomputedFeatures says what rows of 'features' belong "
                "to, and 'features' is None."
            )
        kept = {}
        if self.features is None:
            matrix = validate_data(self, X, dtype=FLOAT_DTYPES)
            self._n_features_out = matrix.shape[1]
        else:
            kept["features"] = _checked_matrix(self.features, "features")
            self._n_features_out = kept["features"].shape[1]
        if self.probabilities is not None:
            kept["probabilities"] = _checked_matrix(self.probabilities, "probabilities", least=0.0)
        self._kept = kept
        self.n_features_out_ = self._n_features_out
        if self.ids is not None:
            self._row_of = _rows_of_ids(self.ids, kept)
            self._rows(X)
        elif kept:
            self._digest = _digest(X)
            n_samples = n_rows_of(X)
            for name, array in kept.items():
                if len(array) != n_samples:
                    raise ValueError(
                        f"The '{name}' parameter of PrecomputedFeatures has {len(array)} rows for "
                        f"{n_samples} samples in X; with 'ids', rows are found by value instead."
                    )
        return self

    def transform(self, X):
        """Look the features up.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Ids in any order; or the data of ``fit``.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            Their features: single and half precision become float32, anything else float64. Not
            to be written to where they are the array or file itself.

        Raises
        ------
        ValueError
            If an id is not known, or without ids `X` is not what ``fit`` saw.
        """
        check_is_fitted(self)
        if self.features is None:
            return _read_only(validate_data(self, X, dtype=FLOAT_DTYPES, reset=False))
        return self._taken("features", self._rows(X))

    def _has_probabilities(self):
        if self.probabilities is not None:
            return True
        raise AttributeError(
            "This PrecomputedFeatures was given no 'probabilities', so there are no source "
            "probabilities."
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Look the source probabilities up.

        Only there if ``probabilities`` were given.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data as in ``transform``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_source_classes)
            Outputs of the source head.

        Raises
        ------
        ValueError
            As in ``transform``.
        """
        check_is_fitted(self)
        return self._taken("probabilities", self._rows(X))

    def extract(self, X):
        """Look features and source probabilities up.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data as in ``transform``.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            As ``transform`` gives them.
        probabilities : ndarray of shape (n_samples, n_source_classes) or None
            None without ``probabilities``.

        Raises
        ------
        ValueError
            As in ``transform``.
        """
        check_is_fitted(self)
        rows = self._rows(X)
        if self.features is None:
            features = _read_only(validate_data(self, X, dtype=FLOAT_DTYPES, reset=False))
        else:
            features = self._taken("features", rows)
        return features, None if self.probabilities is None else self._taken("probabilities", rows)

    def _rows(self, X):
        """Give the rows that data stand for; None for all of them in order."""
        if self.ids is None:
            if self._kept and _digest(X) != self._digest:
                raise ValueError(
                    "X is not the data that this PrecomputedFeatures was fitted on, and without "
                    "'ids' nothing tells which of its rows belong to other data."
                )
            return None
        wanted = _as_ids(X, "X")
        rows = [self._row_of.get(value, -1) for value in wanted]
        if -1 in rows:
            unknown = list(dict.fromkeys(v for v, row in zip(wanted, rows, strict=True) if row < 0))
            listed = ", ".join(map(repr, unknown[:_N_LISTED]))
            more = f" and {len(unknown) - _N_LISTED} more" if len(unknown) > _N_LISTED else ""
            raise ValueError(
                f"PrecomputedFeatures has no row for {listed}{more}; its ids are like "
                f"{next(iter(self._row_of))!r}."
            )
        return np.array(rows, dtype=np.intp)

    def _taken(self, name, rows):
        array = self._kept.get(name)
        if array is None:  # after unpickling
            array = self._kept[name] = _opened(getattr(self, name), name)
        taken = array if rows is None else array[rows]
        is_single = taken.dtype.kind == "f" and taken.dtype.itemsize <= 4
        taken = taken.astype(np.float32 if is_single else np.float64, copy=False)
        return _read_only(taken) if rows is None else np.asarray(taken)

    def __getstate__(self):
        # Of a file its name is enough.
        state = super().__getstate__().copy()
        if "_kept" in state:
            state["_kept"] = {
                name: None if isinstance(getattr(self, name), str | os.PathLike) else array
                for name, array in state["_kept"].items()
            }
        return state

    def __sklearn_clone__(self):
        # Arrays may be larger than memory is free; nothing here ever writes to them.
        other = type(self)(**self.get_params(deep=False))
        for name in ("_metadata_request", "_sklearn_output_config"):
            if name in vars(self):
                setattr(other, name, copy.deepcopy(vars(self)[name]))
        return other

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _read_only(array):
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


def _opened(given, name):
    """Give the array that a parameter is or names, without reading it."""
    if not isinstance(given, str | os.PathLike):
        return np.asarray(given)
    try:
        array = np.load(given, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"The '{name}' parameter of PrecomputedFeatures must be a file in NumPy's format "
            f"without Python objects; {os.fspath(given)!r} is none or cannot be read ({reason})."
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(
            f"The '{name}' parameter of PrecomputedFeatures must be a file with one array, .npy; "
            f"{os.fspath(given)!r} is an archive of several."
        )
    return array


def _checked_matrix(given, name, least=None):
    """Open a matrix and look at all its numbers, some rows at a time."""
    array = _opened(given, name)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise ValueError(
            f"The '{name}' parameter of PrecomputedFeatures must be a matrix of numbers, one row "
            f"for each sample; got shape {array.shape} and dtype {array.dtype}."
        )
    for rows in row_chunks(len(array), array.nbytes // len(array)):
        part = array[rows]
        bad = ~np.isfinite(part).all(axis=1)
        if bad.any():
            raise ValueError(
                f"The '{name}' parameter of PrecomputedFeatures contains NaN or infinite values, "
                f"first in row {rows.start + int(bad.argmax())}."
            )
        if least is not None and part.min() < least:
            raise ValueError(
                f"The '{name}' parameter of PrecomputedFeatures must not be negative, got "
                f"{part.min():.6g} within the rows {rows.start} to {rows.stop - 1}."
            )
    return array


def _rows_of_ids(given, kept):
    """Give each id its row."""
    if isinstance(given, str | os.PathLike):
        given = _opened(given, "ids")
    values = _as_ids(given, "The 'ids' parameter of PrecomputedFeatures")
    for name, array in kept.items():
        if len(array) != len(values):
            raise ValueError(
                f"PrecomputedFeatures has {len(values)} 'ids' for {len(array)} rows of '{name}'."
            )
    row_of = {value: row for row, value in enumerate(values)}
    if len(row_of) != len(values):
        first = next(v for row, v in enumerate(values) if row_of[v] != row)
        raise ValueError(
            "The 'ids' parameter of PrecomputedFeatures must have each id once; "
            f"{first!r} is there {values.count(first)} times."
        )
    return row_of


def _as_ids(given, what):
    """Make a list of plain values, which are equal if they mean the same, of a column of ids."""
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        given = np.asarray(given)[:, 0]
    values = given.tolist() if hasattr(given, "tolist") else list(given)
    plain = []
    for row, value in enumerate(values):
        value = value.item() if isinstance(value, np.generic) else value
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        is_missing = value is None or value != value
        if is_missing or not isinstance(value, str | bytes | int | float | tuple):
            found = "a missing value" if is_missing else f"a {type(value).__name__}"
            raise ValueError(
                f"{what} must be a sequence of ids, text or numbers; got {found} at position {row}."
            )
        plain.append(value)
    return plain


def _digest(X):
    """Digest of data; names of files are not followed, the features belong to the names."""
    return digest_data(X, follow=False).content
