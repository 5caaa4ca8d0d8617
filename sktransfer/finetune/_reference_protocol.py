"""The protocol of a reference ranking: all that two results must have in common to be compared."""

import math
import platform
from numbers import Integral, Real

import numpy as np

from sktransfer.backbones._network_input import resolve_device
from sktransfer.backbones._provenance import versions
from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_data import digest_data
from sktransfer.finetune._inputs import named
from sktransfer.finetune._reference_task import inner_estimator

__all__ = ["check_protocol", "make_protocol"]

# What each unit sets by itself, and what no result depends on.
_LEFT_OUT = frozenset(
    ("backbone", "from_scratch", "random_state", "verbose", "n_workers", "cache", "device")
)
_LEFT_OUT_OF_SEARCH = frozenset(
    ("estimator", "scoring", "random_state", "refit", "verbose", "n_jobs", "storage", "study_name")
)
_PACKAGES = ("skorch", "scikit-learn", "numpy")


def make_protocol(task, y_test, random_state):
    """Write down what decides results, apart from the candidate.

    Parameters
    ----------
    task : Task
        What all units have in common.
    y_test : array-like
        Target of the test data.
    random_state : int
        The seed that the seeds of all units come from.

    Returns
    -------
    protocol : dict
        Plain numbers, texts, lists and dicts.
    """
    X, y, X_test, X_val, y_val = task.data
    estimator = task.estimator
    inner = inner_estimator(estimator)
    parameters = _readable(inner.get_params(deep=False), _LEFT_OUT)
    protocol = {
        "estimator": type(inner).__name__,
        "parameters": parameters,
        "search": None,
        "from_scratch_parameters": {**parameters, "train": "full"},
        "random_state": int(random_state),
        "device": resolve_device(inner.device).type,
        "n_threads": int(task.n_threads),
        "data": {
            "X": _digest(X, "X"),
            "y": _target_digest(y),
            "X_test": _digest(X_test, "X_test"),
            "y_test": _target_digest(y_test),
            "X_val": None if X_val is None else _digest(X_val, "X_val"),
            "y_val": None if X_val is None else _target_digest(y_val),
        },
        "versions": {
            **versions(*_PACKAGES),
            "python": platform.python_version(),
        },
    }
    if inner is not estimator:
        settings = _readable(estimator.get_params(deep=False), _LEFT_OUT_OF_SEARCH)
        protocol["search"] = {"kind": type(estimator).__name__, "parameters": settings}
        protocol["versions"].update(versions("optuna"))
    return protocol


def _digest(X, name):
    with named(name):
        return digest_data(X).content


def _readable(parameters, left_out):
    return {
        name: _plain(value) for name, value in sorted(parameters.items()) if name not in left_out
    }


def _plain(value):
    """Give a value as JSON knows it: itself, or a text with the digest of what it holds."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    try:
        digest = content_digest(value).hex()[:16]
    except Unnameable:
        digest = "of unknown content"
    return f"{type(value).__name__} {digest}"


def _target_digest(y):
    kind = "text" if y.dtype.kind in "OUST" else "number"
    y = [str(label) for label in y.ravel().tolist()] if kind == "text" else y.astype(np.float64)
    return content_digest((kind, y)).hex()


def check_protocol(folder, before, now, known, subjects):
    """Refuse to go on with other data, settings or weights than those of the results there.

    Parameters
    ----------
    folder : path
        Where the results are, for the message.
    before, now : dict
        Protocols.
    known : dict of str to dict
        What is known of the rows there.
    subjects : list of Subject
        The rows of now.

    Raises
    ------
    ValueError
        If they differ; all differences are named.
    """
    differences = [
        f"{name[6:-2]} is other data"
        if name.startswith("data[")
        else f"{name} was {old!r} and is {new!r}"
        for name, old, new in _differences(before, now)
        if not name.startswith("from_scratch_parameters")  # as the others
    ]
    for subject in subjects:
        old = known.get(subject.name)
        if old is not None and old["identity"] != subject.identity:
            same = old["weights"] == subject.weights
            differences.append(
                f"candidate {subject.name!r} has "
                + ("other settings" if same else "other weights")
                + f" ({_short(old['weights'])} then, {_short(subject.weights)} now)" * (not same)
            )
    if differences:
        raise ValueError(
            f"'out' holds results that cannot be continued, in {str(folder)!r}: "
            f"{'; '.join(differences)}. Choose another folder, or go back to what was used there."
        )


def _short(digest):
    return "none" if digest is None else digest[:12]


def _differences(before, now, prefix=""):
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            name = f"{prefix}[{key!r}]" if prefix else key
            yield from _differences(before.get(key, "absent"), now.get(key, "absent"), name)
    elif before != now:
        yield prefix, before, now
