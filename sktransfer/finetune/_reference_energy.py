"""The energy that a piece of work takes, where CodeCarbon or Carbontracker can measure it."""

from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Used", "measured"]


@dataclass
class Used:
    """Energy that was used.

    Parameters
    ----------
    kwh : float or None
        In kWh; None if it was not measured.
    by : str or None
        What measured it, or why nothing did.
    """

    kwh: float | None = None
    by: str | None = None


@contextmanager
def measured(energy):
    """Measure the energy of what is done inside.

    Parameters
    ----------
    energy : str or False
        What measures.

    Yields
    ------
    used : Used
        Filled at the end.
    """
    yield Used()
