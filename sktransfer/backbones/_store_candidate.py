"""What the feature store has to know of a candidate: fingerprint, probe, description."""

import os
import sys
from collections.abc import Mapping

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from sktransfer import __version__
from sktransfer.backbones._store_code import code_facts, functions_of, own_classes
from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_hashing import combine, file_digest

__all__ = ["Probe", "candidate_fingerprint", "describe", "files_of", "probe_of"]

_WRITES = frozenset(
    ("dump", "save", "savetxt", "touch", "write", "write_bytes", "write_text", "writelines")
)
_LONGEST_REPR = 1000
_DEEPEST = 6


def candidate_fingerprint(candidate):
    """Give a digest of everything in a fitted candidate that decides its features.

    Parameters
    ----------
    candidate : fitted transformer
        Its method ``fingerprint`` is asked if its class has one; otherwise its parameters, its
        fitted state and its own code are read.

    Returns
    -------
    fingerprint : str or None
        None for what is not worth keeping: features that lie on the disk already, and data that
        are handed on as they are.
    reads_names : bool
        Whether features may depend on the names of files too, and not on what is in them alone.

    Raises
    ------
    Unnameable
        If something in the candidate cannot be read.
    """
    inner = candidate.estimator if isinstance(candidate, FrozenEstimator) else candidate
    is_identity = isinstance(inner, FunctionTransformer) and inner.func is None
    if is_identity or not getattr(inner, "worth_storing", True):
        return None, False
    if callable(getattr(type(inner), "fingerprint", None)):
        try:
            own = inner.fingerprint()
        except Exception as error:
            raise Unnameable(f"its method 'fingerprint' failed: {error}") from error
        reads_names = bool(getattr(inner, "reads_names", True))
        return combine("fingerprint", type(inner).__qualname__, str(own)).hex(), reads_names
    versions = f"{__version__} {np.__version__} {sklearn.__version__}"
    return combine("state", versions, content_digest(inner), *files_of(inner)).hex(), True


def _names_of(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def files_of(candidate):
    """Give digests of files that a transformer is told to read: its model, for example.

    Files of a transformer that writes files are left alone: they may be what it writes.

    Parameters
    ----------
    candidate : transformer
        The transformer.

    Yields
    ------
    digest : bytes
        Of the name of a parameter or attribute and the file that it names.
    """
    functions = [f for base in own_classes(type(candidate)) for f in functions_of(base)]
    if any(code_facts(function.__code__).names & _WRITES for function in functions):
        return
    for name, value in _paths_in(candidate):
        yield combine("file", name, file_digest(value))


def _paths_in(value, name="", depth=0):
    """Find names of files among the attributes of a candidate and of the estimators in it."""
    if isinstance(value, str | os.PathLike):
        if os.path.isfile(value):
            yield name, value
        return
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | set):
        items = enumerate(value)
    elif hasattr(value, "get_params") or depth == 0:
        items = sorted(vars(value).items())
    else:
        return
    for key, item in items:
        yield from _paths_in(item, f"{name}.{key}", depth + 1)


class Probe:
    """Features of the first rows, computed just now, that kept ones must agree with.

    Weights and settings alone do not tell what a network's code makes of them.

    Parameters
    ----------
    features : array-like of shape (n_rows, n_features)
        The features, of the first rows of the data.
    half_precision : bool, default=False
        Whether the candidate computes in half precision.

    Attributes
    ----------
    tolerance : float
        Largest difference that is still agreement, relative to the largest of the probe's numbers:
        1e-3, or 3e-2 in half precision. Other batches and other devices add up sums in another
        order.
    """

    def __init__(self, features, half_precision=False):
        self.features = np.asarray(features)
        self.tolerance = 3e-2 if half_precision else 1e-3

    def agrees(self, features):
        """Compare with features of the same rows.

        Parameters
        ----------
        features : ndarray of shape (n_samples, n_features)
            Kept features; the first rows are looked at.

        Returns
        -------
        agrees : bool
            Whether all numbers are within the tolerance.
        """
        kept = np.asarray(features[: len(self.features)])
        if kept.shape != self.features.shape:
            return False
        kept, fresh = kept.astype(np.float64), self.features.astype(np.float64)
        largest = np.abs(fresh).max(initial=0.0)
        return bool(np.all(np.abs(kept - fresh) <= self.tolerance * largest))


def probe_of(candidate, X=None):
    """Give the probe of a candidate that has one.

    Parameters
    ----------
    candidate : fitted transformer
        One with the attribute ``probe_features_``, features of the first two rows that it was
        fitted on.
    X : data, default=None
        Data whose first two rows are run now; needed unless the candidate was just fitted on the
        same data.

    Returns
    -------
    probe : Probe or None
        None for a candidate without probe.
    """
    features = getattr(candidate, "probe_features_", None)
    if features is None:
        return None
    if X is not None:
        features = candidate.transform(_first_rows(X))
    return Probe(features, str(getattr(candidate, "_dtype", "")).endswith("float16"))


def _first_rows(X, n=2):
    if hasattr(X, "iloc"):
        return X.iloc[:n]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, torch.utils.data.Dataset):
        return torch.utils.data.Subset(X, range(min(n, len(X))))
    if hasattr(X, "shape") or isinstance(X, list | tuple):
        return X[:n]
    return [X[row] for row in range(min(n, len(X)))]


def describe(candidate, name=None):
    """Say in words what a candidate is, for whoever looks into the store.

    Parameters
    ----------
    candidate : fitted transformer
        The candidate.
    name : str, default=None
        What it is called in a selection; its class if None.

    Returns
    -------
    description : dict
        Of values that JSON knows.
    """
    versions = {"sktransfer": __version__, "numpy": np.__version__}
    versions |= getattr(candidate, "versions_", None) or {"scikit-learn": sklearn.__version__}
    said = {
        "candidate": name or type(candidate).__name__,
        "class": _names_of(type(candidate)),
        "repr": repr(candidate)[:_LONGEST_REPR],
        "versions": {str(package): str(version) for package, version in versions.items()},
    }
    for attribute in ("layer", "weights_", "weights_hash_", "pretrained_", "device_", "batch_size"):
        value = getattr(candidate, attribute, None)
        is_plain = value is None or isinstance(value, str | bool | int)
        said[attribute.rstrip("_")] = value if is_plain else str(value)
    return said
