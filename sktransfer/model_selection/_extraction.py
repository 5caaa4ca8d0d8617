"""Features and source probabilities of one candidate: fit it, run it once, keep what it gave."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from ..backbones._store import FeatureStore
from ..utils._sklearn import (
    _check_method_params,
    _safe_indexing,
    _wrap_data_with_container,
)
from ._joblib_cache import JoblibCache
from ._stored_extraction import StoredExtraction

__all__ = [
    "Extraction",
    "Extractor",
    "as_candidate",
    "check_features",
    "extract",
    "is_stateless",
]


@dataclass
class Extraction:
    """What one pass of a candidate over the data gave.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
        The features, checked.
    output : object
        The features as the candidate returned them, a data frame for example; or a partial function
        that makes them of what lies in a store.
    probabilities : ndarray of shape (n_samples, n_source_classes) or None
        Outputs of the source head; None if there is none or none were asked for.
    from_store : bool
        Whether the candidate was not run over the data at all.
    n_rows_run : int
        Number of rows that it was run on.
    """

    features: np.ndarray
    output: object
    probabilities: np.ndarray | None = None
    from_store: bool = False
    n_rows_run: int = 0

    @property
    def own_output(self):
        """The features as the candidate returned them, free to be written to."""
        if isinstance(self.output, partial):
            return self.output()
        is_shared = isinstance(self.output, np.ndarray) and not self.output.flags.writeable
        return np.array(self.output) if is_shared else self.output


def as_candidate(candidate):
    """Return the estimator that stands for a candidate: "passthrough" is the data matrix itself.

    Parameters
    ----------
    candidate : transformer or "passthrough"
        The candidate as the user gave it.

    Returns
    -------
    estimator : transformer
        The candidate, or a transformer that changes nothing.
    """
    if isinstance(candidate, str) and candidate == "passthrough":
        return FunctionTransformer(
            validate=True, check_inverse=False, feature_names_out="one-to-one"
        )
    return candidate


def is_stateless(candidate):
    """Tell whether fitting a candidate learns nothing from the data.

    The features of such a candidate are the same in every split of a cross-validation.

    Parameters
    ----------
    candidate : transformer
        The candidate.

    Returns
    -------
    stateless : bool
        True for pretrained backbones (attribute ``stateless``), frozen estimators and
        transformers whose tags say that they need no fitting.
    """
    if isinstance(candidate, FrozenEstimator) or bool(getattr(candidate, "stateless", False)):
        return True
    try:
        return not get_tags(candidate).requires_fit
    except AttributeError:  # an estimator by duck typing, without tags
        return False


def _check_rows(array, n_samples, what):
    if scipy.sparse.issparse(array):
        raise TypeError(f"The transformer returned sparse {what}; the metrics need a dense array.")
    array = np.asarray(array)
    if array.ndim != 2:
        raise ValueError(
            f"The transformer returned {what} of shape {array.shape}; "
            "expected (n_samples, n_columns)."
        )
    if array.shape[0] != n_samples:
        raise ValueError(
            f"The transformer returned {array.shape[0]} rows of {what} for {n_samples} samples."
        )
    return array


def check_features(output, n_samples):
    """Check that the output of a candidate is a matrix of features, one row for each sample.

    Parameters
    ----------
    output : array-like
        What ``transform`` or ``extract`` returned.
    n_samples : int
        Number of samples it was given.

    Returns
    -------
    features : ndarray of shape (n_samples, n_features)
        The features; a view of the output where possible.

    Raises
    ------
    ValueError
        If the shape is wrong or values are NaN or infinite.
    TypeError
        If the output is sparse.
    """
    features = _check_rows(output, n_samples, "features")
    if features.dtype.kind in "fc":
        n_invalid = features.size - np.count_nonzero(np.isfinite(features))
        if n_invalid:
            raise ValueError(
                f"The transformer returned features of which {n_invalid} of {features.size} values "
                "are NaN or infinite (inf)."
            )
    return features


def extract(candidate, X, n_samples, probabilities=False):
    """Run a fitted candidate over the data once.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate; its method ``extract``, which gives features and probabilities from one
        pass, is preferred where both are needed.
    X : array-like
        The data, in whatever form the candidate takes them.
    n_samples : int
        Number of samples in `X`.
    probabilities : bool, default=False
        Whether the outputs of a source head are needed too.

    Returns
    -------
    extraction : Extraction
        Checked features and, if asked for and there, probabilities.
    """
    if not probabilities:
        return _checked(candidate.transform(X), None, n_samples)
    if hasattr(candidate, "extract"):
        return _checked(*candidate.extract(X), n_samples)
    return _checked(candidate.transform(X), _source_probabilities(candidate, X), n_samples)


def _source_probabilities(candidate, X):
    return candidate.predict_proba(X) if hasattr(candidate, "predict_proba") else None


def _checked(output, probabilities, n_samples):
    features = check_features(output, n_samples)
    if probabilities is not None:
        probabilities = _check_rows(probabilities, n_samples, "source probabilities")
    return Extraction(features, output, probabilities, n_rows_run=n_samples)


def _fit_extract(candidate, X, y, n_samples, probabilities, fit_params, watch):
    """Fit a candidate that learns from the data, and extract on the same data."""
    if (probabilities and hasattr(candidate, "extract")) or not hasattr(candidate, "fit_transform"):
        with watch(candidate):
            candidate.fit(X, y, **fit_params["fit"])
        return candidate, extract(candidate, X, n_samples, probabilities)
    # Some transformers treat the data they learn from differently (cross-fitted encoders), and a
    # pipeline would run its first steps twice in fit followed by transform.
    with watch(candidate):
        output = candidate.fit_transform(X, y, **fit_params["fit_transform"])
    source = _source_probabilities(candidate, X) if probabilities else None
    return candidate, _checked(output, source, n_samples)


class Extractor:
    """Fits candidates and extracts their features, reading them from a cache where it has them.

    Parameters
    ----------
    X, y : array-like
        All data passed to the selection.
    n_samples : int
        Number of samples in them.
    memory : FeatureStore or object with a method ``cache``
        A store takes the features of candidates that learn nothing; a joblib memory those of all,
        and the fitted candidates that do learn.
    probabilities : bool
        Whether some metric needs the outputs of a source head.
    data_digest : DataDigest, default=None
        The digest of `X`, where it is known already.
    """

    def __init__(self, X, y, n_samples, memory, probabilities, data_digest=None):
        # One that writes into its data would change the data of all the others.
        self.X = _read_only(X)
        self.y = _read_only(y)
        self.n_samples = n_samples
        self.probabilities = probabilities
        self._stored = self._cache = None
        if isinstance(memory, FeatureStore):
            self._stored = StoredExtraction(memory, self.X, data_digest)
        elif getattr(memory, "location", memory) is not None:
            # One without a place to write to hands the function back; computing the key of all
            # weights and data would be for nothing.
            self._cache = JoblibCache(memory, X, y)

    def fit_extract(
        self,
        candidate,
        fit_params,
        *,
        rows=None,
        stateless=False,
        watch=nullcontext,
        name=None,
    ):
        """Fit a clone of a candidate and extract the features of the data it was fitted on.

        Parameters
        ----------
        candidate : transformer
            The candidate; never changed.
        fit_params : dict of str to dict
            Parameters for "fit" and "fit_transform", for all samples.
        rows : ndarray of int, default=None
            The samples to use; all if None.
        stateless : bool, default=False
            Whether fitting learns nothing. Then the fitted candidate itself isn't cached, only
            what it returned.
        watch : callable, default=nullcontext
            Makes of the clone a context in which it is fitted, for callbacks.
        name : str, default=None
            What the candidate is called.

        Returns
        -------
        fitted : transformer
            The fitted clone.
        extraction : Extraction
            What it returned.
        """
        candidate = clone(candidate)
        X, y, n_samples = self.X, self.y, self.n_samples
        if rows is not None:
            X, y, n_samples = _safe_indexing(X, rows), _safe_indexing(y, rows), len(rows)
        fit_params = {
            method: _check_method_params(self.X, params, indices=rows)
            for method, params in fit_params.items()
        }
        key = None
        if self._cache is not None:
            # Before fit: it is the candidate as it was given.
            key = self._cache.key(candidate, rows, fit_params, self.probabilities)
        if stateless:
            with watch(candidate):
                candidate.fit(X, y, **fit_params["fit"])
            if self._stored is not None and rows is None and self._stored.can_name_data:
                found = self._stored.extract(candidate, fit_params["fit"], self.probabilities, name)
                return candidate, self._extraction(found, candidate)
            work = partial(extract, candidate, X, n_samples, self.probabilities)
            return candidate, work() if key is None else self._cache.get(key, work)
        work = partial(
            _fit_extract, candidate, X, y, n_samples, self.probabilities, fit_params, watch
        )
        return work() if key is None else self._cache.get(key, work)

    @property
    def keeps_layers(self):
        """Whether there is a store, in which layers of a network are entries of their own."""
        return self._stored is not None and self._stored.can_name_data

    def fit_extract_layers(self, together, members, fit_params, *, watch=nullcontext, **_):
        """Fit a backbone for several layers, and run it only for those that are not in the store.

        Parameters
        ----------
        together : transformer
            A backbone for the layers of all members.
        members : dict of int to (str, transformer)
            Candidates that differ from it in their layers alone.
        fit_params : dict of str to dict
            Parameters for "fit".
        watch : callable, default=nullcontext
            As in :meth:`fit_extract`.

        Returns
        -------
        runs : dict of int to (transformer, Extraction)
            Each member fitted, and what it gives.
        """
        params = _check_method_params(self.X, fit_params["fit"], indices=None)
        with watch(together):
            together.fit(self.X, self.y, **params)
        parts = {
            index: (name, together.select_layers(member.layer))
            for index, (name, member) in members.items()
        }
        found = self._stored.extract_layers(together, parts, params, self.probabilities)
        return {
            index: (part, self._extraction(found[index], part))
            for index, (_, part) in parts.items()
        }

    def _extraction(self, found, candidate):
        """Check what came out of a store, or went into it."""
        extraction = _checked(found.features, found.probabilities, self.n_samples)
        extraction.from_store = found.from_store
        extraction.n_rows_run = found.n_rows_run
        if found.is_kept:
            extraction.output = partial(_output_of, found.features, self.X, candidate)
        return extraction


def _output_of(features, X, candidate):
    """Give features out of a store as the candidate itself would: in memory, or a data frame."""
    return _wrap_data_with_container("transform", np.array(features), X, candidate)


def _read_only(data):
    """Give a view that cannot be written to, of data in an array."""
    if isinstance(data, np.ndarray):
        data = data.view()
        data.flags.writeable = False
    return data
