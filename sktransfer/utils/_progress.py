"""Tell whoever shows progress how many rows or steps of a long piece of work are done."""

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = [
    "StepCounter",
    "Steps",
    "report_rows",
    "rows_reported_to",
    "said_duration",
    "steps_reported_to",
]

# Private to a thread: what another thread does is not reported here.
_LISTENER = ContextVar("listener of rows", default=None)
_STEP_LISTENER = ContextVar("listener of steps", default=None)


@contextmanager
def rows_reported_to(listener):
    """Have a function told of the rows that are done, as long as the context lasts.

    Parameters
    ----------
    listener : callable
        Called with the number of rows that are done and the number of all rows.
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_rows(n_done, n_rows):
    """Tell the listener, if there is one.

    Parameters
    ----------
    n_done : int
        Rows that are done.
    n_rows : int
        All rows.
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(n_done, n_rows)


@dataclass(frozen=True)
class Steps:
    """How far a long piece of work has come that is made of steps.

    Attributes
    ----------
    n_done, n_steps : int
        Steps that are done, and all of them.
    seconds_left : float or None
        Estimate of the time that the others will take; None while nothing is known.
    label : str
        What was done last.
    """

    n_done: int
    n_steps: int
    seconds_left: float | None
    label: str

    def __str__(self):
        left = ""
        if self.seconds_left is not None and self.n_done < self.n_steps:
            left = f", {said_duration(self.seconds_left)} left"
        return f"[{self.n_done}/{self.n_steps}] {self.label}{left}"


def said_duration(seconds):
    """Put a duration in words.

    Parameters
    ----------
    seconds : float
        The duration.

    Returns
    -------
    text : str
        Such as "45 s", "12 min" or "3.5 h".
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5940 else f"{seconds / 3600:.1f} h"


class StepCounter:
    """Counts steps and estimates the time that is left.

    Parameters
    ----------
    n_steps : int
        Number of all steps.
    n_done : int, default=0
        How many were done before.
    work : float, default=0.0
        Size of the work that is left, in the unit of :meth:`add`.
    """

    def __init__(self, n_steps, n_done=0, work=0.0):
        self.n_steps = n_steps
        self.n_done = n_done
        self._work = work
        self._work_done = 0.0
        self._start = time.monotonic()

    def add(self, n_steps, work, label):
        """Count steps, and tell the listener, if there is one.

        Parameters
        ----------
        n_steps : int
            How many are done now.
        work : float
            Size of their work.
        label : str
            What they were.

        Returns
        -------
        steps : Steps
            How far it has come.
        """
        self.n_done += n_steps
        self._work_done += work
        left = None
        if self._work_done > 0:
            rate = (time.monotonic() - self._start) / self._work_done
            left = max(self._work - self._work_done, 0.0) * rate
        steps = Steps(self.n_done, self.n_steps, left, label)
        listener = _STEP_LISTENER.get()
        if listener is not None:
            listener(steps)
        return steps


@contextmanager
def steps_reported_to(listener):
    """Have a function told of steps that are done, as long as the context lasts.

    Parameters
    ----------
    listener : callable
        Called with :class:`Steps`.
    """
    token = _STEP_LISTENER.set(listener)
    try:
        yield
    finally:
        _STEP_LISTENER.reset(token)
