"""What a joblib memory keeps of a selection: results, by the content of all inputs."""

import os
import pickle
import sys
import warnings
from collections.abc import Sequence

import numpy as np
import sklearn
from joblib.hashing import NumpyHasher
from sklearn import get_config

from .. import __version__
from ..exceptions import DamagedCacheWarning

__all__ = ["JoblibCache", "content_key"]


class JoblibCache:
    """Runs work unless its result is in a joblib memory.

    Parameters
    ----------
    memory : object with a method ``cache``
        A joblib memory.
    X, y : array-like
        All data passed to the selection.
    """

    def __init__(self, memory, X, y):
        self.memory = memory
        self._data_key = content_key((_with_file_states(X), y))
        self._said_damaged = False

    def key(self, candidate, rows, fit_params, probabilities):
        """Give a key: another candidate, parameter, weight, sample or label changes it.

        Parameters
        ----------
        candidate : transformer
            The candidate, not fitted.
        rows : ndarray of int or None
            The samples to use.
        fit_params : dict of str to dict
            Parameters of its methods.
        probabilities : bool
            Whether source probabilities are part of the result.

        Returns
        -------
        key : str or None
            None for what can't be named, and so can't be found again: a lambda, say.
        """
        versions = (__version__, sklearn.__version__, np.__version__)
        options = (probabilities, get_config()["transform_output"])
        try:
            return content_key((versions, options, candidate, self._data_key, rows, fit_params))
        except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
            return None

    def get(self, key, work):
        """Read a result, or do the work and keep what it gives.

        Parameters
        ----------
        key : str
            What :meth:`key` gave.
        work : callable
            Gives an Extraction, or a fitted candidate with one.

        Returns
        -------
        result : Extraction or tuple
            What the work gave, now or earlier.
        """
        cached = self.memory.cache(_run, ignore=["work"])
        # A memory of another kind need not have more than a method `cache`.
        if hasattr(cached, "check_call_in_cache") and cached.check_call_in_cache(key, work):
            entry = cached.call_and_shelve(key, work)
            try:
                result = entry.get()
                extraction = result[1] if isinstance(result, tuple) else result
                extraction.from_store, extraction.n_rows_run = True, 0
                return result
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


def content_key(obj):
    """Give a hash of an object by what it holds.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.

    Returns
    -------
    key : str
        The hash.
    """
    return _ContentHasher(hash_name="md5").hash(obj)


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
