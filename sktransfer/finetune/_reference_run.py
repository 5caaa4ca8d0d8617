"""Running the units of a reference ranking: each once, in any order, by several processes."""

import time
from dataclasses import dataclass, replace

from sklearn.utils.parallel import Parallel, delayed

from sktransfer.finetune._reference_units import run_unit
from sktransfer.utils._progress import report_rows

__all__ = ["Done", "run_units"]


@dataclass(frozen=True)
class Done:
    """A unit that is done and measured.

    Parameters
    ----------
    result : UnitResult
        What it has given, without its predictions.
    values : dict of str to float
        Measures of its predictions.
    reasons : dict of str to str
        Why measures have no value.
    """

    result: object
    values: dict
    reasons: dict


def run_units(units, task, backbones, predictions, store, *, retry_failed, n_jobs, verbose):
    """Run and measure all units that are not done.

    Parameters
    ----------
    units : list of Unit
        What is to be done. Equal ones, of the same network under several names, are done once.
    task : Task
        What they have in common.
    backbones : dict of str to backbone
        By name of the subject.
    predictions : Predictions
        Computes measures.
    store : UnitStore or None
        Where results are kept.
    retry_failed : bool
        Whether failures in the store are tried again.
    n_jobs : int or None
        Number of processes.
    verbose : int
        Whether a line is printed for each.

    Returns
    -------
    done : dict of tuple to Done
        By ``Unit.key``.
    """
    left = {unit.key: unit for unit in units}
    done, n_units, start = {}, len(left), time.perf_counter()

    def take(unit, result, is_new):
        done[unit.key] = _measured(unit, result, task, predictions)
        report_rows(len(done), n_units)
        if verbose:
            place = f"[{len(done)}/{n_units}, {time.perf_counter() - start:.0f} s]"
            print(f"{place} {_in_words(unit, done[unit.key], is_new)}", flush=True)

    if store is not None:
        store.check(left.values())
        for key, unit in list(left.items()):
            result = store.read(unit)
            if result is not None and not (retry_failed and result.failure is not None):
                take(left.pop(key), result, is_new=False)
    wait = False
    while left:
        jobs = (
            delayed(_do)(unit, task, backbones[unit.subject.name], store, wait, retry_failed)
            for unit in left.values()
        )
        busy = {}
        for key, result in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs):
            if result is None:
                busy[key] = left[key]
            else:
                take(left[key], result, is_new=True)
        # Another process does these; it may be killed, so they are asked for once more.
        left, wait = busy, True
    return done


def _do(unit, task, backbone, store, wait, retry_failed):
    """Do one unit, unless another process is about to, or has just done it."""
    if store is None:
        return unit.key, run_unit(unit, task, backbone)
    with store.own(unit, wait) as is_own:
        if not is_own:
            return unit.key, None
        result = store.read(unit, tell=False)
        if result is None or (retry_failed and result.failure is not None):
            result = run_unit(unit, task, backbone, store.trials(unit))
            store.write(unit, result)
        return unit.key, result


def _measured(unit, result, task, predictions):
    values, reasons = {}, {}
    names = predictions.measures if unit.objective is None else [unit.objective.measure]
    for name in names:
        if result.failure is not None:
            reasons[name] = result.failure
            continue
        try:
            values[name] = predictions.evaluate(result.outputs, name)
        except Exception as error:
            if task.raise_errors:
                error.add_note(f"Raised by {unit.subject.name!r}, seed {unit.seed}.")
                raise
            reasons[name] = f"{type(error).__name__}: {error}"
    return Done(replace(result, outputs=None), values, reasons)


def _in_words(unit, done, is_new):
    what = f"{unit.subject.name}, seed {unit.seed}: "
    told = [f"{name}={value:.4g}" for name, value in done.values.items()]
    told += [f"failed: {reason}" for reason in dict.fromkeys(done.reasons.values())]
    told.append(f"{done.result.seconds:.1f} s" if is_new else "was done")
    return what + ", ".join(told)
