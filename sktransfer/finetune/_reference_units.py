"""One unit of work of a reference ranking: train one network under one seed, predict, measure time.

A unit does not know of the others, so neither their order nor who runs them matters.
"""

import time
import warnings
from contextlib import contextmanager

import numpy as np
import torch

from sktransfer.finetune._reference_energy import measured
from sktransfer.finetune._reference_store import TRIALS, unit_name
from sktransfer.finetune._reference_subjects import scratch_backbone
from sktransfer.finetune._reference_task import UnitResult, in_turn, inner_estimator

__all__ = ["run_unit"]


def run_unit(unit, task, backbone, folder=None):
    """Train, and predict the test data.

    Parameters
    ----------
    unit : Unit
        What to do.
    task : Task
        What it has in common with others.
    backbone : torch backbone or other transformer
        The candidate, or one of the right architecture.
    folder : path or None, default=None
        Where a search may keep its trials.

    Returns
    -------
    result : UnitResult
        What came out; a failure is a result too, unless it is to be raised.
    """
    X, y, X_test, X_val, y_val = task.data
    outputs = trained = failure = None
    with in_turn(), _torch_threads(task.n_threads), measured(task.energy) as used:
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                trained = _build(unit, task.estimator, backbone, X, folder)
                trained.fit(X, y, X_val=X_val, y_val=y_val)
                predict = getattr(trained, "predict_proba", trained.predict)
                outputs = np.asarray(predict(X_test))
            except Exception as error:
                if task.raise_errors:
                    error.add_note(f"Raised by {unit.subject.name!r}, seed {unit.seed}.")
                    raise
                failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
    said = [(warning.category.__name__, str(warning.message)) for warning in caught]
    best = getattr(trained, "best_estimator_", trained)
    found = getattr(trained, "best_params_", None)
    if found is not None:
        found = _plain_params(found, trained.param_distributions or {})
    return UnitResult(
        outputs=outputs,
        seconds=seconds,
        n_epochs=getattr(best, "n_epochs_", None),
        energy=used.kwh,
        energy_by=used.by,
        device=None if outputs is None else str(best.device_),
        failure=failure,
        warnings=tuple(dict.fromkeys(said)),
        best_params=found,
    )


def _build(unit, estimator, backbone, X, folder):
    """Make the estimator of one unit."""
    inner = inner_estimator(estimator)
    parameters = inner.get_params(deep=False)
    parameters["random_state"] = unit.random_state
    if unit.subject.from_scratch:
        # Random weights that stay frozen would be trained nowhere.
        parameters.update(from_scratch=True, train="full", backbone=scratch_backbone(backbone, X))
    else:
        parameters["backbone"] = backbone
    trained = type(inner)(**parameters)
    if inner is estimator:
        return trained
    outer = {**estimator.get_params(deep=False), "refit": True}
    outer.update(estimator=trained, scoring=unit.objective.scoring, random_state=unit.random_state)
    space = outer["param_distributions"]
    if unit.subject.from_scratch and space is not None and "train" in space:
        outer["param_distributions"] = {**space, "train": ["full"]}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        outer["storage"] = str(folder / TRIALS)
    elif outer["storage"] is not None:
        # Where they share a storage, each needs a name of its own.
        outer["study_name"] = f"{outer['study_name']} {unit_name(unit)}"
    return type(estimator)(**outer)


def _plain_params(params, space):
    """Give parameters as JSON keeps them: a choice that it would change, by its place."""
    plain = {}
    for name, value in params.items():
        number = value.item() if isinstance(value, np.generic) else value
        if _is_kept(number):
            plain[name] = number
            continue
        choices = getattr(space[name], "choices", space[name])
        plain[name] = {"choice": next(i for i, choice in enumerate(choices) if choice is value)}
    return plain


def _is_kept(value):
    if type(value) is dict:
        return all(type(key) is str and _is_kept(item) for key, item in value.items())
    if type(value) is list:
        return all(map(_is_kept, value))
    return value is None or type(value) in (bool, int, float, str)


@contextmanager
def _torch_threads(n_threads):
    """Let torch compute with some number of threads, and with its own number afterwards.

    Parameters
    ----------
    n_threads : int
        Number of threads.

    Yields
    ------
    None
    """
    before = torch.get_num_threads()
    if before != n_threads:
        torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        if before != n_threads:
            torch.set_num_threads(before)
