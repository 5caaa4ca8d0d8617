"""Tell whoever shows progress how many rows a long piece of work has done."""

from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["report_rows", "rows_reported_to"]

# Private to a thread: what another thread does is not reported here.
_LISTENER = ContextVar("listener of rows", default=None)


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
