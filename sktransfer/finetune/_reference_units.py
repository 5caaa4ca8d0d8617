"""One unit of work of a reference ranking: train one network under one seed, predict, measure time.

A unit does not know of the others, so neither their order nor who runs them matters.
"""

import os
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from sktransfer.finetune._reference_energy import measured
from sktransfer.finetune._reference_subjects import scratch_backbone

__all__ = ["Unit", "UnitResult", "inner_estimator", "run_unit"]


def _make_lock():
    # Threads of one process take turns: training does so anyway, as it borrows torch's generator,
    # and warnings can be caught for one thread at a time only.
    global _turn
    _turn = threading.Lock()


_make_lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_make_lock)


@dataclass(frozen=True)
class Unit:
    """One training.

    Parameters
    ----------
    subject : Subject
        What is trained.
    seed : int
        Which seed, counted from 0.
    measure : str or None
        What a search optimises; None without a search.
    random_state : int
        The seed itself.
    """

    subject: object
    seed: int
    measure: str | None
    random_state: int


@dataclass(frozen=True)
class UnitResult:
    """What one training has given.

    Parameters
    ----------
    outputs : ndarray or None
        Probabilities of shape (n_test, n_classes), or values, for the test data; None if it failed.
    seconds : float
        Duration.
    n_epochs : int or None
        Epochs trained.
    energy : float or None
        In kWh.
    energy_by : str or None
        What measured the energy, or why nothing did.
    device : str or None
        Where the network ran.
    failure : str or None
        Why there are no outputs.
    warnings : tuple of (str, str)
        Kinds and texts of what was warned of.
    details : dict
        More that is worth keeping, such as the parameters that a search has found.
    """

    outputs: np.ndarray | None
    seconds: float
    n_epochs: int | None = None
    energy: float | None = None
    energy_by: str | None = None
    device: str | None = None
    failure: str | None = None
    warnings: tuple = ()
    details: dict = field(default_factory=dict)


def inner_estimator(estimator):
    """Give the estimator that trains: of a search, the one that it tunes.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        The estimator.

    Returns
    -------
    estimator : FineTuneClassifier or FineTuneRegressor
        The one that has a backbone.
    """
    return getattr(estimator, "estimator", estimator)


def run_unit(unit, estimator, backbone, data, *, n_threads, energy, raise_errors, folder=None):
    """Train, and predict the test data.

    Parameters
    ----------
    unit : Unit
        What to do.
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        Its parameters are used.
    backbone : torch backbone or other transformer
        The candidate, or one of the right architecture.
    data : tuple
        Training data and target, test data, validation data and target (or None).
    n_threads : int
        Threads of torch: results depend on it by rounding.
    energy : str or False
        What measures energy.
    raise_errors : bool
        Whether a failure is raised.
    folder : path or None
        Where a search may keep its trials.

    Returns
    -------
    result : UnitResult
        What came out; a failure is a result too, unless it is to be raised.
    """
    X, y, X_test, X_val, y_val = data
    caught, failure, outputs, trained = [], None, None, None
    with _turn, _torch_threads(n_threads), measured(energy) as used:
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                trained = _build(unit, estimator, backbone, X, folder)
                trained.fit(X, y, X_val=X_val, y_val=y_val)
                predict = getattr(trained, "predict_proba", trained.predict)
                outputs = np.asarray(predict(X_test))
            except Exception as error:
                if raise_errors:
                    error.add_note(f"Raised by {unit.subject.name!r}, seed {unit.seed}.")
                    raise
                failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
    said = [(warning.category.__name__, str(warning.message)) for warning in caught]
    best = getattr(trained, "best_estimator_", trained)
    return UnitResult(
        outputs=outputs,
        seconds=seconds,
        n_epochs=getattr(best, "n_epochs_", None),
        energy=used.kwh,
        energy_by=used.by,
        device=str(best.device_) if outputs is not None else None,
        failure=failure,
        warnings=tuple(dict.fromkeys(said)),
        details=_details(trained),
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
    outer = estimator.get_params(deep=False)
    outer.update(estimator=trained, scoring=unit.measure, random_state=unit.random_state)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        outer["storage"] = str(folder / "trials.sqlite")
    return type(estimator)(**outer)


def _details(trained):
    found = getattr(trained, "best_params_", None)
    if not found:
        return {}
    return {"best_params": {name: getattr(v, "item", lambda v=v: v)() for name, v in found.items()}}


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
