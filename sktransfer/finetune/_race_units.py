"""One unit of a race: one candidate, trained for a round on one part of the rows, and predicting.

A unit is done once. With a folder, its predictions and the state of the training are kept there,
so that a race that was killed goes on with the next unit.
"""

import io
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from numbers import Integral, Real

import numpy as np
import torch

from sktransfer.backbones._store_hashing import array_digest, combine
from sktransfer.exceptions import DamagedResultWarning
from sktransfer.finetune._reference_files import write_file
from sktransfer.finetune._reference_task import Objective, Unit, UnitResult, in_turn
from sktransfer.finetune._reference_units import _torch_threads
from sktransfer.finetune._rounds import Checkpoint, train_round
from sktransfer.finetune._search_trial import take
from sktransfer.utils._announce import announce
from sktransfer.utils._heard import heard_warnings

__all__ = ["RaceTask", "RaceUnit", "fit_winner", "forget_state", "run_race_unit"]

_DIGEST = 32


@dataclass(frozen=True)
class RaceTask:
    """What all units of a race have in common.

    Parameters
    ----------
    template : FineTuneClassifier or FineTuneRegressor
        What trains.
    X, y : array-like
        Data of the race.
    parts : list of (ndarray of int, ndarray of int or None)
        Rows to train on and rows to judge by; None for the data given for that.
    X_val : array-like or None
        Data given to judge by.
    classes : ndarray or None
        All labels; None for values.
    seed : int
        Seed of all trainings.
    n_threads : int
        Threads of torch.
    raise_errors : bool
        Whether a failure is raised.
    sample_weight : ndarray of shape (n_samples,) or None, default=None
        Weights in the loss.
    """

    template: object
    X: object
    y: np.ndarray
    parts: list
    X_val: object
    classes: np.ndarray | None
    seed: int
    n_threads: int
    raise_errors: bool
    sample_weight: np.ndarray | None = None

    def weights(self, rows):
        """Give the weights of some rows.

        Parameters
        ----------
        rows : ndarray of int or slice
            Which.

        Returns
        -------
        sample_weight : ndarray or None
            None if all weigh the same.
        """
        return None if self.sample_weight is None else self.sample_weight[rows]

    def batch_size(self, n_train):
        """Say how many rows make a step.

        Parameters
        ----------
        n_train : int
            Rows to train on.

        Returns
        -------
        batch_size : int
            So few that there are some steps per epoch, which cost as much as one step of all rows.
        """
        return int(min(self.template.batch_size, max(16, n_train // 8)))


@dataclass(frozen=True)
class RaceUnit:
    """One candidate on one part, after some rounds.

    Parameters
    ----------
    subject : Subject
        The candidate.
    part : int
        Number of the part.
    rounds : tuple of int
        Epochs of each round, this one being the last.
    checkpoint : dict or None
        What the round before has left, where there is no folder for it.
    """

    subject: object
    part: int
    rounds: tuple
    checkpoint: dict | None = field(default=None, repr=False)

    def kept_as(self, task, rounds=None):
        """Give the name under which a folder keeps it.

        Parameters
        ----------
        task : RaceTask
            What it has in common with others.
        rounds : tuple of int or None, default=None
            Rounds before; None for its own.

        Returns
        -------
        unit : Unit
            For a :class:`~sktransfer.finetune._reference_store.UnitStore`.
        """
        rounds = self.rounds if rounds is None else rounds
        train, judge = task.parts[self.part]
        rows = [
            array_digest(np.asarray(r, dtype=np.int64)) for r in (train, judge) if r is not None
        ]
        key = combine("race", *rows, " ".join(map(str, rounds)), str(task.batch_size(len(train))))
        return Unit(
            self.subject, len(rounds), task.seed, Objective("race", None, f"race {key.hex()}")
        )


def run_race_unit(unit, task, backbone, store):
    """Do a unit, unless it has been done.

    Parameters
    ----------
    unit : RaceUnit
        What to do.
    task : RaceTask
        What it has in common with others.
    backbone : torch backbone or other transformer
        The candidate.
    store : UnitStore or None
        Where results are kept.

    Returns
    -------
    result : UnitResult
        Predictions for the rows to judge by, or why there are none.
    checkpoint : dict or None
        For the next round; None with a store, which has it.
    """
    if store is None:
        return _run(unit, task, backbone, unit.checkpoint, unit.rounds[-1:])
    kept_as = unit.kept_as(task)
    with store.own(kept_as, wait=True):
        result = store.read(kept_as)
        if result is not None:
            return result, None
        state, done = None, 0
        for done in range(len(unit.rounds) - 1, 0, -1):
            state = _read_state(_state_path(store, unit.kept_as(task, unit.rounds[:done])))
            if state is not None:
                break
        else:
            done = 0
        result, state = _run(unit, task, backbone, state, unit.rounds[done:])
        if state is not None:  # before the result: who finds that, finds the state too
            _write_state(_state_path(store, kept_as), state)
        store.write(kept_as, result)
    return result, None


def forget_state(unit, task, store):
    """Throw away the state of a training that will not be taken up again.

    Parameters
    ----------
    unit : RaceUnit
        Which.
    task : RaceTask
        What it has in common with others.
    store : UnitStore
        Where it is kept.
    """
    _state_path(store, unit.kept_as(task)).unlink(missing_ok=True)


def _run(unit, task, backbone, state, rounds):
    train, judge = task.parts[unit.part]
    outputs = failure = None
    with in_turn(), _torch_threads(task.n_threads):
        start = time.perf_counter()
        with heard_warnings() as heard:
            try:
                X, y = take(task.X, train), task.y[train]
                checkpoint = None if state is None else Checkpoint(**state)
                for n_epochs in rounds:
                    trained, checkpoint = train_round(
                        task.template,
                        backbone,
                        X,
                        y,
                        task.classes,
                        n_epochs,
                        task.seed,
                        task.batch_size(len(train)),
                        checkpoint,
                        task.weights(train),
                    )
                predict = getattr(trained, "predict_proba", trained.predict)
                outputs = np.asarray(predict(task.X_val if judge is None else take(task.X, judge)))
                if not np.isfinite(outputs).all():
                    raise ValueError("Its predictions contain NaN or infinite values.")
                state = checkpoint.content()
            except Exception as error:
                if task.raise_errors:
                    error.add_note(f"Raised by candidate {unit.subject.name!r}.")
                    raise
                failure, outputs, state = f"{type(error).__name__}: {error}", None, None
        seconds = time.perf_counter() - start
    said = [(warning.category.__name__, warning.message) for warning in heard]
    result = UnitResult(
        outputs=outputs,
        seconds=seconds,
        n_epochs=sum(unit.rounds),
        device=None if outputs is None else str(trained.device_),
        failure=failure,
        warnings=tuple(dict.fromkeys(said)),
    )
    return result, state


def fit_winner(subject, task, backbone, X_val, y_val, store, watch=nullcontext):
    """Fine-tune the winner on all rows, as the template says, unless that has been done.

    Parameters
    ----------
    subject : Subject or None
        The winner; None without a store.
    task : RaceTask
        The race.
    backbone : torch backbone or other transformer
        The winner.
    X_val, y_val : array-like or None
        Validation data, passed on to ``fit``.
    store : UnitStore or None
        Where it is kept.
    watch : callable, default=nullcontext
        Makes of the estimator the context in which it is fitted; of None, one in which the folder
        has it already.

    Returns
    -------
    fitted : FineTuneClassifier or FineTuneRegressor
        The winner.
    """
    parameters = {
        **task.template.get_params(deep=False),
        "backbone": backbone,
        "random_state": task.seed,
    }
    fitted = type(task.template)(**parameters)
    if store is None:
        return _fit_on_all(fitted, task, X_val, y_val, watch)
    kept_as = Unit(subject, 0, task.seed, Objective("race", None, "winner"))
    path = _state_path(store, kept_as)
    with store.own(kept_as, wait=True):
        state = _read_state(path)
        if state is None:
            fitted = _fit_on_all(fitted, task, X_val, y_val, watch)
            _write_state(path, _final_state(fitted))
            return fitted
    with watch(None), in_turn():
        fitted.partial_fit(task.X, task.y, sample_weight=task.sample_weight, n_epochs=0)
    fitted.net_.module_.load_learned_state(state.pop("weights"))
    fitted.net_.module_.eval()
    for epoch in state.pop("history"):
        fitted.history_.new_epoch()
        for name, value in epoch.items():
            fitted.history_.record(name, value)
    fitted._rates.position_ = fitted.max_epochs
    for name, value in state.items():
        setattr(fitted, name, value.numpy() if isinstance(value, torch.Tensor) else value)
    return fitted


def _fit_on_all(fitted, task, X_val, y_val, watch):
    with watch(fitted), in_turn(), _torch_threads(task.n_threads):
        return fitted.fit(task.X, task.y, task.sample_weight, X_val=X_val, y_val=y_val)


def _final_state(fitted):
    epochs = [
        {name: _plain(value) for name, value in epoch.items() if isinstance(value, Real)}
        for epoch in fitted.history_
    ]
    arrays = {
        name: torch.as_tensor(getattr(fitted, name))
        for name in ("y_mean_", "y_scale_", "class_weight_")
        if hasattr(fitted, name)
    }
    weights = {name: tensor.cpu() for name, tensor in fitted.net_.module_.learned_state().items()}
    numbers = {name: getattr(fitted, name) for name in ("n_epochs_", "best_epoch_", "converged_")}
    return {"weights": weights, "history": epochs, **arrays, **numbers}


def _plain(number):
    """Give a number of NumPy as one of Python, which a file without pickles can hold."""
    if isinstance(number, bool | np.bool_):
        return bool(number)
    return int(number) if isinstance(number, Integral) else float(number)


# -- states ----------------------------------------------------------------------------------------


def _state_path(store, kept_as):
    identity, seed, objective = kept_as.key
    name = combine("state", identity, str(seed), objective).hex()[:32]
    return store.folder / "states" / f"{name}.pt"


def _write_state(path, state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    path.parent.mkdir(exist_ok=True)
    for left in path.parent.glob(f"{path.name}.*.tmp"):  # of a process that was killed
        left.unlink(missing_ok=True)
    write_file(path, _digest(path, content) + content)


def _digest(path, content):
    # With the name, which is that of the training: the state of another one is damage too.
    return sha256(path.name.encode() + b"\0" + content).digest()


def _read_state(path):
    """Read a state; None if it is not there, or damaged, which is said."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if _digest(path, content[_DIGEST:]) != content[:_DIGEST]:
        announce(
            f"{path} is damaged (its digest is another); the training is done again.",
            DamagedResultWarning,
        )
        return None
    return torch.load(io.BytesIO(content[_DIGEST:]), map_location="cpu", weights_only=True)
