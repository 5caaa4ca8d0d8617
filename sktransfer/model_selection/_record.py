"""What is needed to repeat a selection: data, splits, seeds, parameters, versions."""

import hashlib
import platform
import sys
from datetime import UTC, datetime
from numbers import Number

import numpy as np

from ._study_inputs import library_versions

__all__ = ["selection_record"]

_LONGEST_TEXT = 200
_MOST_ENTRIES = 12
# Parameters of the selector that change what comes out, beside candidates, metrics and `cv`.
_OPTIONS = ("target_measure", "refit", "baselines", "n_resamples", "level", "resampling")
# Packages that candidates may be made of, beside those that the package itself needs.
_OF_CANDIDATES = ("torch", "torchvision", "timm")


def selection_record(selector, selection):
    """Write down what a selection was made from.

    Parameters
    ----------
    selector : TransferabilitySelector
        The selector.
    selection : Selection
        The finished pass over its candidates.

    Returns
    -------
    record : dict of str to object
        As the attribute ``record_`` of the selector. Of data and arrays only shapes and digests
        are kept.
    """
    y, resamples = selection.y, selection.resamples
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_samples": len(y),
        "data": described(selection.extractor.X),
        "target": selection.task,
        "class_counts": _class_counts(y, selection.task),
        "target_digest": _target_digest(y),
        "splits": _splits(selector.cv, selection.splits, len(y)),
        "sample_weight": sorted(selection.sample_weights),
        "options": {name: described(getattr(selector, name)) for name in _OPTIONS},
        "resampling_seed": None if resamples is None else resamples.seed,
        "metrics": {name: described(metric) for name, metric in selection.metrics.items()},
        "candidates": {name: described(candidate) for name, candidate in selection.candidates},
        "versions": {
            "python": platform.python_version(),
            **library_versions(),
            **_versions_of_candidates(),
        },
        "platform": f"{platform.system()} {platform.machine()}".strip(),
    }


def described(value, depth=2):
    """Say what a parameter is without what it holds, if that is more than a few numbers.

    Parameters
    ----------
    value : object
        The parameter.
    depth : int, default=2
        How far to look into estimators and collections.

    Returns
    -------
    text : str
        One line.
    """
    if value is None or isinstance(value, str | bool | Number | np.generic):
        value = value.item() if isinstance(value, np.generic) else value
        return _cut(repr(value))
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}, {value.dtype}"
    if isinstance(value, dict | list | tuple):
        if not depth or len(value) > _MOST_ENTRIES or _holds_data(value):
            return f"{type(value).__name__} of length {len(value)}"
        if isinstance(value, dict):
            inner = [f"{k!r}: {described(v, depth - 1)}" for k, v in value.items()]
            return f"{{{', '.join(inner)}}}"
        inner = ", ".join(described(entry, depth - 1) for entry in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    kind = type(value).__name__
    params = _parameters(value) if depth else None
    if params is not None:
        inner = [f"{name}={described(entry, depth - 1)}" for name, entry in params.items()]
        return f"{kind}({', '.join(inner)})"
    if hasattr(value, "get_n_splits"):  # a splitter, whose text is its parameters
        return _cut(repr(value))
    return kind


def _parameters(value):
    """Give the parameters of an estimator; None for other objects, and where it can't tell."""
    try:
        return value.get_params(deep=False)
    except (AttributeError, RuntimeError):  # *names among its parameters, for instance
        return None


def _holds_data(value):
    """Tell rows of a target, given as a list, from a parameter."""
    return isinstance(value, list | tuple) and any(isinstance(entry, list) for entry in value)


def _cut(text):
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT - 20]}...{text[-17:]}"


def _class_counts(y, task):
    """Count the rows of each class, or of each of several labels; None for values."""
    if task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))
    if task == "multilabel":
        return dict(enumerate(np.count_nonzero(y, axis=0).tolist()))
    return None


def _target_digest(y):
    """Digest of the labels in the order of the rows, the same for equal labels of any type."""
    if y.dtype.kind in "biuf":
        content = np.ascontiguousarray(y, dtype="<f8").tobytes()
    else:
        classes, codes = np.unique(y.astype(str), return_inverse=True)
        content = "\0".join(classes.tolist()).encode("utf-8", "surrogatepass")
        content += np.ascontiguousarray(codes.reshape(-1), dtype="<i8").tobytes()
    return hashlib.sha256(content).hexdigest()


def _splits(cv, splits, n_samples):
    """Say which rows were scored."""
    sizes = [n_samples if rows is None else len(rows) for rows in splits]
    known = {"cv": described(cv), "n_splits": len(splits), "n_rows": [min(sizes), max(sizes)]}
    digest = None
    if cv is not None:
        hashed = hashlib.sha256()
        for rows in splits:
            hashed.update(np.ascontiguousarray(rows % n_samples, dtype="<i8").tobytes() + b"|")
        digest = hashed.hexdigest()
    return {**known, "digest": digest}


def _versions_of_candidates():
    """Versions of packages that are in use; none is imported for it."""
    return {
        name: str(sys.modules[name].__version__)
        for name in _OF_CANDIDATES
        if hasattr(sys.modules.get(name), "__version__")
    }
