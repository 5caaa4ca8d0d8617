"""What a reference ranking is asked for: refused before any work if it could not be done."""

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np

from sktransfer.backbones._datasets import check_dataset, is_dataset
from sktransfer.backbones._files import is_missing
from sktransfer.datasets import load_torch_dataset
from sktransfer.finetune._classifier import FineTuneClassifier
from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._fit_data import check_lengths, probe_of
from sktransfer.finetune._inputs import check_rows, named
from sktransfer.finetune._reference_subjects import SCRATCH
from sktransfer.finetune._reference_task import inner_estimator
from sktransfer.finetune._regressor import FineTuneRegressor
from sktransfer.finetune._search import FineTuneSearchCV
from sktransfer.finetune._search_inputs import (
    check_measures,
    checked_data,
    checked_settings,
    with_splits,
)
from sktransfer.finetune._search_storage import SearchStorage
from sktransfer.finetune._sources import is_network
from sktransfer.utils._target import as_target_array, encode_target, kind_of_labels

__all__ = ["checked_candidates", "checked_estimator", "checked_target", "checked_training"]

# What reference_ranking sets by itself, or says of all trainings alike.
_OWN = ("backbone", "device", "from_scratch", "random_state")
# What makes another network of a candidate: one whose weights the protocol does not know.
_OF_NETWORKS = (
    "checkpoint",
    "checkpoint_head",
    "checkpoint_prefix",
    "device",
    "module",
    "name",
    "random_state",
    "weights",
)


def checked_candidates(candidates):
    """Give candidates as pairs, and refuse what could not be any.

    Parameters
    ----------
    candidates : list of (str, backbone) or dict of str to backbone
        As the user gave them.

    Returns
    -------
    candidates : list of (str, backbone)
        The candidates.

    Raises
    ------
    TypeError
        If one is no estimator.
    ValueError
        If there are none, or names are missing or given twice.
    """
    pairs = candidates.items() if isinstance(candidates, Mapping) else candidates
    if isinstance(pairs, str) or not hasattr(pairs, "__iter__"):
        pairs = ()
    pairs = list(pairs)
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            "'candidates' must be a non-empty list of (name, backbone) tuples, or a dict. "
            f"Got {candidates!r} instead."
        )
    seen = set()
    for name, backbone in pairs:
        if not isinstance(name, str) or not name or name.startswith(SCRATCH):
            raise ValueError(
                "The names in 'candidates' must be strings that are not empty and do not begin "
                f"with {SCRATCH!r}. Got {name!r} instead."
            )
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"The names in 'candidates' must be texts that can be written: {name!r} cannot "
                f"({error.reason})."
            ) from error
        if name in seen:
            raise ValueError(f"The names in 'candidates' must be unique. Got {name!r} twice.")
        seen.add(name)
        if isinstance(backbone, type) or not all(
            hasattr(backbone, method) for method in ("fit", "transform", "get_params")
        ):
            raise TypeError(
                f"Candidate {name!r} must be a backbone or another transformer. "
                f"Got {backbone!r} instead."
            )
    return [tuple(pair) for pair in pairs]


def checked_target(X, y, name, target_name):
    """Give a target as an array without gaps, of the length of its data.

    Parameters
    ----------
    X : array or sequence of shape (n_samples, ...)
        Data.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
        Target; None for torch data sets that have it.
    name, target_name : str
        What they are called.

    Returns
    -------
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target.

    Raises
    ------
    ValueError
        If it is missing as a whole or in part, or of another length.
    """
    if X is None:
        raise ValueError(f"'{name}' is needed. Got None.")
    with named(name, target_name):
        if is_dataset(X):
            check_dataset(X)
            if y is None:
                y = load_torch_dataset(X).y
        y = as_target_array(y)
    if y is None:
        raise ValueError(
            f"'{target_name}' is needed: only torch data sets have a target of their own. Got None."
        )
    with named(target_name):  # rows of several lengths
        array = np.asarray(y)
        if array.dtype.kind in "US" and isinstance(y, list | tuple) and array.ndim == 1:
            # Among texts, NumPy makes texts of numbers and of NaN too.
            are_texts = all(isinstance(value, str | bytes) for value in y)
            array = array if are_texts else np.array(y, dtype=object)
        y = array
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2):
        raise ValueError(
            f"'{target_name}' must be of shape (n_samples,) or (n_samples, n_outputs). Got shape "
            f"{y.shape}."
        )
    with named(name):
        check_lengths(X, y, name, target_name)
    if len(y) == 0:
        raise ValueError(f"'{name}' and '{target_name}' must have one row at least. Got none.")
    values = y.ravel().tolist()
    for is_wrong, what in ((is_missing, "lacks {} (NaN or None)"), (_is_infinite, "has {} inf")):
        wrong = np.flatnonzero([is_wrong(value) for value in values])
        if len(wrong):
            told = what.format(f"{len(wrong)} of its {len(values)} values")
            row = wrong[0] // (len(values) // len(y))
            raise ValueError(f"'{target_name}' {told}, first in row {row}.")
    return y


def _is_infinite(value):
    return isinstance(value, Real) and value in (np.inf, -np.inf)


def checked_estimator(estimator, y, caller):
    """Give the estimator that trains, and refuse what is none.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor, FineTuneSearchCV or None
        As the user gave it.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Target, which decides if it is None.
    caller : str
        Who asks, for messages.

    Returns
    -------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        The estimator.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If it trains from scratch by itself.
    """
    if estimator is None:
        tasks = ("classification", "regression")
        is_classification = encode_target(y, tasks=tasks, name=caller).task == "classification"
        return (FineTuneClassifier if is_classification else FineTuneRegressor)(None)
    is_search = isinstance(estimator, FineTuneSearchCV)
    inner = inner_estimator(estimator) if is_search else estimator
    if not isinstance(inner, FineTuneEstimator):
        raise TypeError(
            "'estimator' must be a FineTuneClassifier, a FineTuneRegressor or a FineTuneSearchCV "
            f"of one. Got {estimator!r} instead."
        )
    if inner.from_scratch:
        raise ValueError(
            "'estimator' has from_scratch=True, which would throw away the weights of the "
            f"candidates; the 'from_scratch' parameter of {caller} adds rows from scratch."
        )
    return estimator


def checked_training(estimator, candidates, data, y_test, measures):
    """Refuse parameters and data that no candidate could be trained with, or measured by.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        What trains.
    candidates : list of (str, backbone)
        The candidates.
    data : tuple
        Training data and target, test data, validation data and target (or None).
    y_test : ndarray of shape (n_test,) or (n_test, n_outputs)
        Target of the test data.
    measures : dict of str to callable
        Scorers.

    Returns
    -------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        The same; splits of a search that could be listed only once are listed.
    probe : FineTuneClassifier or FineTuneRegressor
        One that knows what inputs and target are.

    Raises
    ------
    ImportError
        If a search needs Optuna, and it is not installed.
    TypeError, ValueError
        With the name of the parameter or the data.
    """
    X, y, X_test, X_val, y_val = data
    inner, space = inner_estimator(estimator), ()
    if inner is not estimator:
        estimator, space = _checked_search(estimator, candidates)
        inner = estimator.estimator
    backbone = _first_able(candidates, inner, space, X=X, X_test=X_test, X_val=X_val)
    inner = _with_backbone(inner, backbone)
    probe, _ = probe_of(inner, space, X, y, None, X_val, y_val)
    with named("X_test", "y_test"):
        probe._checked_inputs(X_test, reset=False)
        if isinstance(probe, FineTuneRegressor):
            probe._known_target(y_test)
        else:
            kinds = [kind_of_labels(probe._encode(each).classes) for each in (y_test, y)]
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"'y_test' has labels that are {kinds[0]}, and those of 'y' are {kinds[1]}; "
                    "none could be the same."
                )
    if inner_estimator(estimator) is not estimator:
        searched, target, kept = checked_data(inner, space, X, y, None, X_val, y_val)
        searched = with_splits(
            searched,
            target,
            kept,
            estimator=inner,
            cv=estimator.cv,
            validation_fraction=estimator.validation_fraction,
            seed=0,
        )
        check_measures(measures, searched, inner)
    return estimator, probe


def _with_backbone(inner, backbone):
    return type(inner)(**{**inner.get_params(deep=False), "backbone": backbone})


def _checked_search(search, candidates):
    """Check a search; give it and its space, for a candidate that has such parameters."""
    search._validate_params()
    own = [name for name in search.param_distributions or () if _is_own(name)]
    if own:
        raise ValueError(
            f"'estimator' has {', '.join(map(repr, own))} in its 'param_distributions', which is "
            "not to be searched for: reference_ranking itself sets seeds, devices, networks and "
            "their weights, and tells of them in its protocol."
        )
    SearchStorage(search.storage, search.study_name).check()
    parameters = search.get_params(deep=False)
    cv = search.cv
    if not (cv is None or isinstance(cv, Integral) or hasattr(cv, "split")):
        parameters["cv"] = list(cv)
    fault = None
    for _, backbone in candidates:
        parameters["estimator"] = _with_backbone(search.estimator, backbone)
        own = type(search)(**parameters)
        try:
            _, _, space = checked_settings(own)
        except (TypeError, ValueError) as error:
            fault = fault or error
        else:
            return own, space
    raise fault


def _is_own(name):
    parts = str(name).split("__")
    return name in _OWN or (parts[0] == "backbone" and parts[-1] in _OF_NETWORKS)


def _first_able(candidates, inner, space, **data):
    """Find a backbone that takes the values and shapes; complain of the data if there is none."""
    backbones = [backbone for _, backbone in candidates]
    networks = [backbone for backbone in backbones if is_network(backbone)]
    others = [backbone for backbone in backbones if not is_network(backbone)]
    if inner.train != "head" and "train" not in space:
        others = []
    fault = None
    for backbone in networks[:1] + others:  # what one network refuses here, all of them do
        try:
            check_rows(backbone, decode=True, **data)
        except ValueError as error:
            fault = fault or error
        else:
            return backbone
    if fault is not None:
        raise fault
    return backbones[0]
