"""What a search is: all that decides its result. Only the same search may go on from its trials."""

import numpy as np
from sklearn.frozen import FrozenEstimator

from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_data import digest_data

__all__ = ["differences", "identify"]

# Of these the result of a training does not depend.
_IRRELEVANT = {"cache", "n_workers", "verbose"}
_DIGITS = 16
_LONGEST_TEXT = 60
_ATOMS = (type(None), bool, int, float, str)


def identify(plan, *, scoring, random_state):
    """Describe a search by digests.

    Parameters
    ----------
    plan : SearchPlan
        The search.
    scoring : str, callable, list or dict
        As the search takes it: a measure that is known by its name is told by it.
    random_state : int
        Its seed.

    Returns
    -------
    identity : dict of str to [str, str]
        For each part of it a digest, and what can be said of it in a few letters.

    Raises
    ------
    ValueError
        If something in it can't be recognised in another process.
    """
    data, identity = plan.data, {}
    for name, X in (("X", data.X), ("X_val", data.X_val)):
        identity[name] = ["" if X is None else digest_data(X).content, ""]
    for name in ("y", "sample_weight", "y_val"):
        value = getattr(data, name)
        identity[name] = _entry(name, value)
    splits = data.splits and [tuple(map(np.asarray, split)) for split in data.splits]
    identity["the rows of the splits"] = _entry("cv", splits)
    identity["scoring"] = _entry("scoring", sorted(plan.measures))
    named = scoring if isinstance(scoring, dict) else {}
    for name, scorer in plan.measures.items():
        value = named.get(name, name if not callable(scoring) else scorer)
        identity[f"the measure {name!r}"] = _entry("scoring", value)
    for name, distribution in plan.space.distributions.items():
        choices = plan.space.choices.get(name)
        form = repr(distribution)
        entry = _entry("param_distributions", form if choices is None else choices)
        identity[f"param_distributions[{name!r}]"] = [entry[0], ""]
    names = [name for name in plan.space.distributions if name not in plan.space.choices]
    identity["the names in param_distributions"] = _entry(
        "param_distributions", [*names, *plan.space.choices]
    )
    identity["random_state"] = _entry("random_state", random_state)
    identity["sampler"] = _entry("sampler", plan.sampler)
    identity["pruner"] = _entry("pruner", plan.pruner)
    identity["error_score"] = _entry("error_score", repr(plan.error_score))
    identity["estimator"] = [_class_name(plan.estimator), _class_name(plan.estimator)]
    identity.update(_parameters(plan.estimator, "", plan.space))
    return identity


def _class_name(obj):
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


def _parameters(estimator, prefix, space):
    """Describe all parameters that are not searched for, those of estimators inside too."""
    described = {}
    for name, value in estimator.get_params(deep=False).items():
        path = f"{prefix}{name}"
        if path in space or name in _IRRELEVANT:
            continue
        if _has_parameters(value):
            # By parameters: whether it has been fitted before makes no difference.
            described[f"estimator__{path}"] = [_class_name(value), _class_name(value)]
            described.update(_parameters(value, f"{path}__", space))
        else:
            described[f"estimator__{path}"] = _entry(f"estimator__{path}", value)
    return described


def _has_parameters(value):
    """Tell whether parameters say all of an object: of a frozen one, what it has learned counts."""
    is_frozen = isinstance(value, FrozenEstimator)
    return hasattr(value, "get_params") and not isinstance(value, type) and not is_frozen


def _plain(value):
    """Take estimators apart into class and parameters, in lists of choices too."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if _has_parameters(value):
        parameters = value.get_params(deep=False).items()
        return [_class_name(value), {name: _plain(item) for name, item in parameters}]
    return value


def _entry(name, value):
    try:
        digest = content_digest(_plain(value)).hex()[:_DIGITS]
    except Unnameable as error:
        raise ValueError(
            f"With 'storage', a search must know itself again in another process, and {name!r} "
            f"holds what can't be recognised there: {error}."
        ) from error
    text = repr(value) if isinstance(value, _ATOMS) else ""
    return [digest, text if len(text) <= _LONGEST_TEXT else ""]


def differences(here, there):
    """Name the parts in which two searches differ.

    Parameters
    ----------
    here, there : dict of str to [str, str]
        Their identities.

    Returns
    -------
    differences : list of str
        One text for each part, empty if they are the same.
    """
    named = []
    for name in {**here, **there}:
        mine, other = here.get(name, ["", "absent"]), there.get(name, ["", "absent"])
        if mine[0] != other[0]:
            shown = mine[1] and other[1]
            named.append(f"{name} ({mine[1]} here, {other[1]} there)" if shown else name)
    return named
