"""Running the units of a reference ranking: each once, in any order, by several processes."""

import time

from sklearn.utils.parallel import Parallel, delayed

from sktransfer.finetune._reference_units import run_unit
from sktransfer.utils._progress import report_rows

__all__ = ["run_units"]


def run_units(units, task, backbones, store, *, retry_failed, n_jobs, verbose):
    """Run all units that are not done.

    Parameters
    ----------
    units : list of Unit
        What is to be done. Equal ones, of the same network under several names, are done once.
    task : Task
        What they have in common.
    backbones : dict of str to backbone
        By name of the subject.
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
    results : dict of tuple to UnitResult
        By ``Unit.key``.
    """
    left = {unit.key: unit for unit in units}
    results, n_units, wait = {}, len(left), False
    start = time.perf_counter()
    while left:
        jobs = (
            delayed(_do)(unit, task, backbones[unit.subject.name], store, wait, retry_failed)
            for unit in left.values()
        )
        busy = {}
        for key, result, is_new in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs):
            if result is None:
                busy[key] = left[key]
                continue
            results[key] = result
            report_rows(len(results), n_units)
            if verbose:
                seconds = time.perf_counter() - start
                _print_line(left[key], result, is_new, len(results), n_units, seconds)
        # Another process does these; it may be killed, so they are asked for once more.
        left, wait = busy, True
    return results


def _do(unit, task, backbone, store, wait, retry_failed):
    """Do one unit, unless it is done, or another process is about to."""
    if store is None:
        return unit.key, run_unit(unit, task, backbone), True
    with store.own(unit, wait) as is_own:
        if not is_own:
            return unit.key, None, False
        result = store.read(unit)
        if result is not None and not (retry_failed and result.failure is not None):
            return unit.key, result, False
        result = run_unit(unit, task, backbone, store.trials(unit))
        store.write(unit, result)
        return unit.key, result, True


def _print_line(unit, result, is_new, n_done, n_units, seconds):
    what = f"{unit.subject.name}, seed {unit.seed}"
    if unit.objective is not None:
        what += f", {unit.objective.measure}"
    how = f"{result.seconds:.1f} s" if is_new else "was done"
    if result.failure is not None:
        how = f"failed: {result.failure}"
    print(f"[{n_done}/{n_units}, {seconds:.0f} s] {what}: {how}", flush=True)
