"""What a study was computed from, by content: so that other inputs are noticed and named."""

import json
import re
import sys
from typing import NamedTuple

import numpy as np
import scipy
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .. import __version__
from ..backbones._store_candidate import candidate_fingerprint, describe, files_of
from ..backbones._store_content import Unnameable, content_digest
from ..backbones._store_hashing import array_digest, combine
from ._extraction import is_stateless
from ._metric_collection import is_relative_to_pool, needs_network
from ._study_cells import takes_seeds

__all__ = [
    "CandidateIdentity",
    "candidate_identity",
    "features_digest",
    "library_versions",
    "metric_records",
    "refuse_other_inputs",
    "said_parameters",
    "said_value",
    "spec_identity",
]

_LONGEST_VALUE = 200
#: What says which network a candidate is, whatever the target.
_COMMON = ("class", "layer", "weights_hash", "versions")


def library_versions():
    """Give the versions of libraries that decide the last bits of a score.

    Returns
    -------
    versions : dict of str to str
        By package.
    """
    return {
        "sktransfer": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


# -- metrics ---------------------------------------------------------------------------------------


def metric_records(metrics, random_state):
    """Say what each metric is.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    random_state : int
        Where the seeds of metrics come from that have none.

    Returns
    -------
    records : list of (str, str, str, bool)
        What the store keeps of each: name, digest, description, whether relative to a pool.

    Raises
    ------
    ValueError
        If a metric cannot be told from others.
    """
    records = []
    for name, metric in metrics.items():
        description = {"the class": type(metric).__name__}
        parameters = said_parameters(metric)
        description |= {f"the parameter {key!r}": parameters[key] for key in parameters}
        if takes_seeds(metric):
            description["the study's 'random_state'"] = str(random_state)
        if needs_network(metric) and "torch" in sys.modules:
            description["the version of torch"] = sys.modules["torch"].__version__
        said = json.dumps(description, sort_keys=True)
        try:
            content = content_digest(clone(metric))
        except Unnameable as error:
            raise ValueError(
                f"The metric {name!r} cannot be told from others, so that a study with it cannot "
                f"be continued: {error}."
            ) from error
        digest = combine("metric", content, said).hex()
        records.append((name, digest, said, is_relative_to_pool(metric)))
    return records


# -- candidates ------------------------------------------------------------------------------------


class CandidateIdentity(NamedTuple):
    """What a candidate is.

    Parameters
    ----------
    fingerprint : str or None
        Digest of all that decides its features; None if the features themselves tell.
    description : str
        The same in words, as JSON.
    features : str or None
        Digest of the features, where they were read to find out.
    """

    fingerprint: str | None
    description: str
    features: str | None = None


def spec_identity(name, candidate, random_state):
    """Say what a candidate is without fitting it, where that is enough.

    Parameters
    ----------
    name : str
        Its name.
    candidate : transformer
        The candidate, not fitted.
    random_state : int
        Where the seeds of candidates come from that learn from the data and have none.

    Returns
    -------
    identity : CandidateIdentity or None
        None for a candidate that has to be fitted first: it speaks for itself then.

    Raises
    ------
    ValueError
        If it cannot be told from others.
    """
    inner = candidate.estimator if isinstance(candidate, FrozenEstimator) else candidate
    speaks = callable(getattr(type(inner), "fingerprint", None))
    if is_stateless(candidate) and (speaks or not getattr(inner, "worth_storing", True)):
        return None
    try:
        content = combine("candidate", content_digest(clone(candidate)), *files_of(candidate))
    except (Unnameable, OSError, TypeError) as error:  # a TypeError is that it cannot be copied
        raise ValueError(
            f"The candidate {name!r} cannot be told from others, so that a study with it cannot be "
            f"continued: {error}."
        ) from error
    described = _described(inner, False)
    if not is_stateless(candidate) and takes_seeds(candidate):
        described["the study's 'random_state'"] = str(random_state)
        content = combine("seeded", content, str(random_state))
    return CandidateIdentity(content.hex(), json.dumps(described))


def candidate_identity(name, fitted):
    """Say what a fitted candidate is that learns nothing.

    Parameters
    ----------
    name : str
        Its name.
    fitted : fitted transformer
        The candidate.

    Returns
    -------
    identity : CandidateIdentity
        What it is.
    """
    fingerprint, _ = candidate_fingerprint(fitted)
    inner = fitted.estimator if isinstance(fitted, FrozenEstimator) else fitted
    return CandidateIdentity(fingerprint, json.dumps(_described(inner, True)))


def _described(candidate, is_of_target):
    """Describe a candidate, without what decides only how fast features come."""
    with np.printoptions(threshold=10, edgeitems=1):
        said = describe(candidate)
    for irrelevant in ("candidate", "device", "batch_size"):
        del said[irrelevant]
    said["repr"] = re.sub(r" at 0x[0-9a-f]+", "", said["repr"])
    # Whether its fingerprint may be another one on another target.
    return said | {"of_target": is_of_target}


def features_digest(array):
    """Give the digest of features or source probabilities.

    Parameters
    ----------
    array : ndarray or None
        The numbers.

    Returns
    -------
    digest : str or None
        In hex.
    """
    return None if array is None else array_digest(np.asarray(array)).hex()


# -- comparing -------------------------------------------------------------------------------------


def refuse_other_inputs(store, called, target, subsets, metrics, identities):
    """Compare the inputs of a run with those that are in a store.

    Parameters
    ----------
    store : StudyStore
        The store.
    called : str
        What to call it.
    target : TargetInputs
        The target.
    subsets : list of StudySubset
        Its subsets.
    metrics : list of tuple
        From :func:`metric_records`.
    identities : dict of str to CandidateIdentity
        Of candidates that are known by now.

    Raises
    ------
    ValueError
        If something of the same name is not the same. The store is left as it is.
    """
    found = []
    versions = store.versions()
    for package, version in library_versions().items():
        if versions.get(package, version) != version:
            found.append(f"the version of {package} was {versions[package]} and is {version}")
    found += _other_target(store, target, subsets)
    known = store.metrics()
    for name, digest, said, _ in metrics:
        if name in known and known[name][0] != digest:
            found.append(f"metric {name!r}: {_first_difference(known[name][1], said)}")
    kept = store.candidates()
    for name, identity in identities.items():
        found += _other_candidate(kept, target.name, name, identity)
    if found:
        raise ValueError(
            f"{called} holds results of other inputs, which are never mixed: {'; '.join(found)}. "
            "Give what changed another name, or take another store."
        )


def _other_target(store, target, subsets):
    kept = store.targets().get(target.name)
    if kept is None:
        return []
    n_samples, said = kept
    if n_samples != target.n_samples:
        return [f"target {target.name!r} had {n_samples} samples and has {target.n_samples}"]
    before, now = json.loads(said), target.description
    found = []
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            is_digest = key.startswith(("the data", "the labels", "the groups"))
            change = "" if is_digest else f" ({before.get(key)} before, {now.get(key)} now)"
            found.append(f"target {target.name!r}: {key} changed{change}")
    rows = store.subsets(target.name)
    for subset in subsets:
        *_, n_rows, digest = subset.record
        if not found and subset.key in rows and tuple(rows[subset.key]) != (n_rows, digest):
            found.append(
                f"target {target.name!r}: the subset of fraction {subset.fraction:g} and repeat "
                f"{subset.repeat} has other rows"
            )
    return found


def _other_candidate(kept, target, name, identity):
    """Compare with the candidate of this name on this target, then on others."""
    fingerprint, said, features, _ = kept.get(target, {}).get(name, (None,) * 4)
    if None not in (features, identity.features) and features != identity.features:
        return [f"candidate {name!r}: its features changed"]
    if fingerprint is not None:
        if identity.fingerprint == fingerprint:
            return []
        return [f"candidate {name!r}: {_first_difference(said, identity.description)}"]
    for other, candidates in kept.items():
        said = candidates.get(name, (None, None))[1]
        if said is None:
            continue
        before, now = json.loads(said), json.loads(identity.description)
        for key in _COMMON:
            if before.get(key) != now.get(key):
                change = f"({before.get(key)} before, {now.get(key)} now)"
                return [f"candidate {name!r}: its {key} is not that on target {other!r} {change}"]
        if candidates[name][0] != identity.fingerprint and not now["of_target"]:
            return [f"candidate {name!r}: {_first_difference(said, identity.description)}"]
    return []


def _first_difference(before, now):
    before, now = json.loads(before), json.loads(now)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            was, now_is = (f"{said.get(key)}"[:_LONGEST_VALUE] for said in (before, now))
            return f"{key} was {was} and is {now_is}"
    return "its code, or the content of a parameter, changed"


def said_parameters(estimator, leave_out=()):
    """Put the parameters of an estimator in words.

    Parameters
    ----------
    estimator : estimator
        A metric or splitter.
    leave_out : collection of str, default=()
        Names of parameters.

    Returns
    -------
    said : dict of str to str
        By name.
    """
    parameters = estimator.get_params(deep=False).items()
    return {key: said_value(value) for key, value in parameters if key not in leave_out}


def said_value(value):
    """Put a value in words: the digest of one that is too long for it, or has an address.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    said : str
        The words.
    """
    text = " ".join(repr(value).split())
    if isinstance(value, np.ndarray) or len(text) > _LONGEST_VALUE or " at 0x" in text:
        try:
            return f"{type(value).__name__} {content_digest(value).hex()[:12]}"
        except Unnameable:
            return type(value).__name__
    return text
