"""The warnings of one thread, collected, whatever other threads do meanwhile.

What Python offers belongs to the whole process, so that threads undo each other's changes. Here the
first thread that listens changes it, the last one restores it, and each has what it caused itself.
"""

import threading
import warnings
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Heard", "hear", "heard_warnings"]

_LOCK = threading.Lock()
_LISTENERS: dict = {}


class Heard(NamedTuple):
    """A warning that was given.

    Parameters
    ----------
    category : type
        Its kind.
    message : str
        What it says.
    """

    category: type
    message: str


class _Process:
    """The state of the warnings as it was, for the last listener to restore."""

    manager = None
    show = None


@contextmanager
def heard_warnings():
    """Collect the warnings that this thread causes, instead of giving them.

    Filters of the user hold for other threads no longer while a thread is listening: what they
    cause is shown.

    Yields
    ------
    heard : list of Heard
        Grows as warnings come.
    """
    heard, thread = [], threading.get_ident()
    with _LOCK:
        if not _LISTENERS:
            _Process.manager = warnings.catch_warnings()
            _Process.manager.__enter__()
            _Process.show = warnings.showwarning
            warnings.showwarning = _show
            warnings.simplefilter("always")
        outer = _LISTENERS.get(thread)
        _LISTENERS[thread] = heard
    try:
        yield heard
    finally:
        with _LOCK:
            if outer is None:
                del _LISTENERS[thread]
            else:
                _LISTENERS[thread] = outer
            if not _LISTENERS:
                _Process.manager.__exit__(None, None, None)
                _Process.manager = _Process.show = None


def hear(message, category):
    """Tell whoever collects the warnings of this thread, if there is somebody.

    Parameters
    ----------
    message : str
        What the warning says.
    category : type
        Its kind.

    Returns
    -------
    heard : bool
        False if nobody listens, so that the warning has to be given.
    """
    listener = _LISTENERS.get(threading.get_ident())
    if listener is None:
        return False
    listener.append(Heard(category, str(message)))
    return True


def _show(message, category, filename, lineno, file=None, line=None):
    if not hear(message, category):
        show = _Process.show or warnings.showwarning  # the last listener may just have left
        show(message, category, filename, lineno, file, line)
