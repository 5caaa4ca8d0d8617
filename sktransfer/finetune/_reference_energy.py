"""The energy that a piece of work takes, where CodeCarbon or Carbontracker can measure it.

Nothing of it decides a result, so whatever goes wrong is noted, and the work goes on. No file is
written and nothing is asked of the network: only energy is wanted, not what was emitted for it.
"""

import logging
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

__all__ = ["Used", "measured"]

_SECONDS_BETWEEN = 1.0


@dataclass
class Used:
    """Energy that was used.

    Parameters
    ----------
    kwh : float or None
        In kWh; None if it was not measured.
    by : str or None
        What measured it, or why nothing did; None if that was not asked for.
    """

    kwh: float | None = None
    by: str | None = None


@contextmanager
def measured(energy):
    """Measure the energy of what is done inside.

    Parameters
    ----------
    energy : {"auto", "codecarbon", "carbontracker"} or False
        What measures; "auto" is the first of them that is installed and works.

    Yields
    ------
    used : Used
        Filled at the end.
    """
    used = Used()
    meter, reasons = None, []
    for name in (_METERS if energy == "auto" else [energy]) if energy else ():
        if find_spec(name) is None:
            if energy != "auto":
                reasons.append(f"{name} is not installed")
            continue
        try:
            meter = _METERS[name]()
            meter.start()
            used.by = f"{name} {_version(name)}"
            break
        except Exception as error:
            meter = None
            reasons.append(f"{name} failed: {type(error).__name__}: {error}")
    try:
        yield used
    finally:
        if meter is not None:
            try:
                used.kwh = float(meter.stop())
            except Exception as error:
                reasons.append(f"{used.by} failed: {type(error).__name__}: {error}")
                used.by = None
        if used.by is None:
            used.by = "; ".join(reasons) or None


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "of unknown version"


class _CodeCarbon:
    """One tracker for each process: finding out what the machine is takes seconds."""

    _trackers = {}

    def start(self):
        import codecarbon

        with _silenced("codecarbon"):
            tracker = self._trackers.get(os.getpid())
            if tracker is None:
                silent = {"log_level": "critical", "allow_multiple_runs": True}
                try:
                    tracker = codecarbon.OfflineEmissionsTracker(
                        country_iso_code="USA", tracking_mode="process", output_methods=[], **silent
                    )
                except TypeError:  # versions before 3.3 name the outputs one by one
                    tracker = codecarbon.OfflineEmissionsTracker(
                        country_iso_code="USA",
                        tracking_mode="process",
                        save_to_file=False,
                        **silent,
                    )
            self._tracker = tracker
            self._task = f"sktransfer {time.monotonic_ns()}"
            tracker.start_task(self._task)
            self._trackers[os.getpid()] = tracker

    def stop(self):
        with _silenced("codecarbon"):
            return self._tracker.stop_task(self._task).energy_consumed


class _Carbontracker:
    """Reads the same sensors as Carbontracker, but asks nobody where the machine is."""

    def start(self):
        from carbontracker.components.component import create_components

        self._said = _Collected()
        # Some components have a logger of their own, which prints.
        with _silenced("carbontracker.root.err", "carbontracker.root.output"):
            found = create_components(
                components="all", pids=[], devices_by_pid=False, logger=self._said
            )
            self._components = [part for part in found if part.available()]
            for part in self._components:
                part.init()
        if not self._components:
            raise RuntimeError("it finds nothing here that it could measure")
        self._begun = time.perf_counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        try:
            while True:
                for part in self._components:
                    part.collect_power_usage(1)
                if self._ended.wait(_SECONDS_BETWEEN):
                    return
        except Exception as error:
            self._said.problems.append(f"{type(error).__name__}: {error}")

    def stop(self):
        seconds = time.perf_counter() - self._begun
        self._ended.set()
        self._thread.join()
        try:
            if self._said.problems:
                raise RuntimeError("; ".join(self._said.problems))
            return sum(float(sum(part.energy_usage([seconds]))) for part in self._components)
        finally:
            for part in self._components:
                part.shutdown()


class _Collected:
    """A logger that prints nothing."""

    def __init__(self):
        self.problems = []

    def err_critical(self, message):
        self.problems.append(str(message).splitlines()[0])

    def err_warn(self, message):
        pass

    err_info = err_debug = info = output = err_warn


_METERS = {"codecarbon": _CodeCarbon, "carbontracker": _Carbontracker}


@contextmanager
def _silenced(*names):
    """Let loggers say nothing for a while."""
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.disabled, logger.level) for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, (disabled, level) in zip(loggers, before, strict=True):
            logger.disabled = disabled
            logger.setLevel(level)
