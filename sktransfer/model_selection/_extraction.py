"""Features and source probabilities of one candidate: fit it, run it once, keep what it gave."""

import os
import pickle
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse
import sklearn
from joblib.hashing import NumpyHasher
from sklearn import get_config
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from .. import __version__
from ..backbones._store import FeatureStore
from ..backbones._store_candidate import probe_of
from ..exceptions import CacheNotWrittenWarning, DamagedCacheWarning
from ..utils._sklearn import (
    _check_method_params,
    _safe_indexing,
    _wrap_data_with_container,
)

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
    """

    def __init__(self, X, y, n_samples, memory, probabilities):
        # One that writes into its data would change the data of all the others.
        self.X = _read_only(X)
        self.y = _read_only(y)
        self.n_samples = n_samples
        self.memory = memory
        self.probabilities = probabilities
        # A joblib memory without a place to write to hands the function back; computing the key
        # of all weights and data would be for nothing.
        self._store = memory if isinstance(memory, FeatureStore) else None
        self._caching = self._store is None and getattr(memory, "location", memory) is not None
        self._data_key = _data_key(X, y) if self._caching else None
        self._data_digest = None
        self._said_damaged = False

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
        key = self._key(candidate, rows, fit_params)
        if stateless:
            with watch(candidate):
                candidate.fit(X, y, **fit_params["fit"])
            if self._store is not None:
                return candidate, self._stored(candidate, X, n_samples, fit_params["fit"], name)
            work = partial(extract, candidate, X, n_samples, self.probabilities)
            return candidate, self._cached(key, work)
        work = partial(
            _fit_extract, candidate, X, y, n_samples, self.probabilities, fit_params, watch
        )
        return self._cached(key, work)

    @property
    def keeps_layers(self):
        """Whether there is a store, in which layers of a network are entries of their own."""
        return self._store is not None and self._digest_of_data() is not None

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
        fitted = {i: together.select_layers(member.layer) for i, (_, member) in members.items()}
        names = {i: name for i, (name, _) in members.items()}
        data, store = self._digest_of_data(), self._store
        keys = {i: store.key(one, data, options=params) for i, one in fitted.items()}
        found = {
            i: store.get(
                keys[i],
                probe=probe_of(fitted[i]),
                probabilities=self.probabilities,
                name=names[i],
            )
            for i in members
        }
        missing = [i for i in members if found[i] is None]
        if len(missing) == 1:
            (i,) = missing
            return {
                j: (one, self._stored(one, self.X, self.n_samples, params, names[j]))
                if j == i
                else (one, self._extraction(found[j], one))
                for j, one in fitted.items()
            }
        if missing:
            wanted = dict.fromkeys(name for i in missing for name in fitted[i].layer_names_)
            pass_of_all = together.select_layers(list(wanted))
            made = store.extract(
                pass_of_all,
                self.X,
                data=data,
                options=params,
                name=" + ".join(names[i] for i in missing),
                just_fitted=True,
            )
            for i in missing:
                columns = [pass_of_all.layer_slices_[name] for name in fitted[i].layer_names_]
                features = (
                    made.features[:, columns[0]]
                    if len(columns) == 1
                    else np.concatenate([made.features[:, part] for part in columns], axis=1)
                )
                found[i] = store.put(
                    keys[i], fitted[i], features, made.probabilities, name=names[i]
                )
                found[i].from_store, found[i].n_rows_run = made.from_store, made.n_rows_run
            if all(found[i].is_kept for i in missing):
                # Each layer is there by itself now.
                store.forget(pass_of_all, data, options=params)
        return {i: (one, self._extraction(found[i], one)) for i, one in fitted.items()}

    def _digest_of_data(self):
        """Read the data, once; None if they have no name, and nothing is kept."""
        if self._data_digest is None:
            try:
                self._data_digest = self._store.digest(self.X)
            except ValueError as error:
                warnings.warn(
                    f"No features are kept: the data cannot be told from others, {error}.",
                    CacheNotWrittenWarning,
                    stacklevel=2,
                )
                self._store = None
        return self._data_digest

    def _stored(self, candidate, X, n_samples, fit_params, name):
        """Take features out of the store, or run the candidate and put them into it."""
        if self._digest_of_data() is None:
            return extract(candidate, X, n_samples, self.probabilities)
        found = self._store.extract(
            candidate,
            X,
            data=self._data_digest,
            probabilities=self.probabilities,
            options=fit_params,
            name=name,
            # A frozen candidate was fitted on other data.
            just_fitted=not isinstance(candidate, FrozenEstimator),
        )
        return self._extraction(found, candidate)

    def _extraction(self, found, candidate):
        extraction = _checked(found.features, found.probabilities, self.n_samples)
        extraction.from_store = found.from_store
        extraction.n_rows_run = found.n_rows_run
        if found.is_kept:
            extraction.output = partial(_output_of, found.features, self.X, candidate)
        return extraction

    def _cached(self, key, work):
        if key is None:
            return work()
        cached = self.memory.cache(_run, ignore=["work"])
        # A memory of another kind need not have more than a method `cache`.
        if hasattr(cached, "check_call_in_cache") and cached.check_call_in_cache(key, work):
            entry = cached.call_and_shelve(key, work)
            try:
                fitted = entry.get()
                extraction = fitted[1] if isinstance(fitted, tuple) else fitted
                extraction.from_store, extraction.n_rows_run = True, 0
                return fitted
            except Exception as error:  # whatever the bytes on the disk happen to say
                self._say_damaged(error)
                entry.clear()
        return cached(key, work)

    def _say_damaged(self, error):
        if not self._said_damaged:
            self._said_damaged = True
            warnings.warn(
                f"Features in the cache {str(self.memory.location)!r} cannot be read and are "
                f"extracted again ({type(error).__name__}: {error}).",
                DamagedCacheWarning,
                stacklevel=2,
            )

    def _key(self, candidate, rows, fit_params):
        """Key of the content: another candidate, parameter, weight, sample or label changes it."""
        if self._data_key is None:
            return None
        versions = (__version__, sklearn.__version__, np.__version__)
        options = (self.probabilities, get_config()["transform_output"])
        try:
            return _content_key((versions, options, candidate, self._data_key, rows, fit_params))
        except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
            # A lambda, say, or a parametrized torch module. What can't be named can't be found
            # again, so it is computed.
            return None


def _output_of(features, X, candidate):
    """Give features out of a store as the candidate itself would: in memory, or a data frame."""
    return _wrap_data_with_container("transform", np.array(features), X, candidate)


def _read_only(data):
    """Give a view that cannot be written to, of data in an array."""
    if isinstance(data, np.ndarray):
        data = data.view()
        data.flags.writeable = False
    return data


def _run(key, work):
    """Do the work; a module-level function, so that a joblib memory can cache it by its key."""
    return work()


class _ContentHasher(NumpyHasher):
    """A joblib hasher that sees the numbers in a torch tensor, not where they happen to lie."""

    def save(self, obj):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor):
            values = obj.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            obj = ("tensor", str(obj.dtype), tuple(obj.shape), values)
        super().save(obj)


def _content_key(obj):
    return _ContentHasher(hash_name="md5").hash(obj)


def _data_key(X, y):
    return _content_key((_with_file_states(X), y))


def _with_file_states(data):
    """Paths stand for files: add size and time, so that a file that changed is read again."""
    is_sequence = isinstance(data, Sequence) or getattr(data, "shape", (0, 0))[1:] == ()
    if not is_sequence or not all(isinstance(item, str | os.PathLike) for item in data):
        return data
    states = []
    for path in data:
        try:
            status = os.stat(path)
            states.append((os.fspath(path), status.st_size, status.st_mtime_ns))
        except (OSError, ValueError):  # a label or a word, not the name of a file
            states.append(os.fspath(path))
    return states
