"""What a reference ranking is divided into: units of work, what they share, and their results."""

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from sktransfer.backbones._store_content import content_digest

__all__ = [
    "Objective",
    "Task",
    "Unit",
    "UnitResult",
    "in_turn",
    "inner_estimator",
    "objective_of",
]


def _make_lock():
    global _turn
    _turn = threading.RLock()


_make_lock()
if hasattr(os, "register_at_fork"):
    # Another thread may hold it at the moment of a fork.
    os.register_at_fork(after_in_child=_make_lock)


@contextmanager
def in_turn():
    """Work on networks while no other thread of this process does.

    Training has to take turns anyway, as it borrows torch's generator, and warnings can be caught
    for one thread at a time only.

    Yields
    ------
    None
    """
    with _turn:
        yield


@dataclass(frozen=True)
class Objective:
    """What a search optimises.

    Parameters
    ----------
    measure : str
        Name of the measure.
    scoring : str or callable
        The measure.
    key : str
        Tells it from any other one.
    """

    measure: str
    scoring: object
    key: str


@dataclass(frozen=True)
class Unit:
    """One training.

    Parameters
    ----------
    subject : Subject
        What is trained.
    seed : int
        Which seed, counted from 0.
    random_state : int
        The seed itself.
    objective : Objective or None
        What a search optimises; None without a search.
    """

    subject: object
    seed: int
    random_state: int
    objective: object = None

    @property
    def key(self):
        """What decides the result, for a given task: identity, seed and objective."""
        objective = None if self.objective is None else self.objective.key
        return self.subject.identity, self.seed, objective


@dataclass(frozen=True)
class Task:
    """What all units have in common.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        Its parameters are used.
    data : tuple
        Training data and target, test data, validation data and target (or None).
    n_threads : int
        Threads of torch: results depend on it by rounding.
    energy : str or False
        What measures energy.
    raise_errors : bool
        Whether a failure is raised.
    """

    estimator: object
    data: tuple
    n_threads: int = 1
    energy: object = False
    raise_errors: bool = False


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
    best_params : dict or None
        What a search has found.
    """

    outputs: np.ndarray | None
    seconds: float
    n_epochs: int | None = None
    energy: float | None = None
    energy_by: str | None = None
    device: str | None = None
    failure: str | None = None
    warnings: tuple = ()
    best_params: dict | None = None


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


def objective_of(estimator, scoring, measures):
    """Give what has to be optimised one by one.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV
        What trains.
    scoring : str, callable, list of str or dict
        As the user has given it.
    measures : dict of str to callable
        The same as scorers.

    Returns
    -------
    objectives : list of Objective or None
        ``[None]`` for what optimises no measure.
    """
    if inner_estimator(estimator) is estimator:
        return [None]
    objectives = []
    for name, measure in measures.items():
        given = scoring.get(name) if isinstance(scoring, dict) else name
        if isinstance(given, str) and not callable(scoring):
            objectives.append(Objective(name, given, f"{name} {given}"))
        else:
            key = content_digest(measure).hex()
            objectives.append(Objective(name, measure, f"{name} {key}"))
    return objectives
