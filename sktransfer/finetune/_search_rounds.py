"""The order in which trials are run: rounds of one trial of every measure, none running ahead."""

import time

from sklearn.utils.parallel import Parallel, delayed

from sktransfer.finetune._search_results import best_trial
from sktransfer.finetune._search_trial import run_trial

__all__ = ["run_rounds"]


def run_rounds(plan, storage, context, n_trials, n_processes, timeout, verbose):
    """Run all trials that are not there yet.

    Only this process chooses what is next and writes: a worker that outlives it does no harm.

    Parameters
    ----------
    plan : SearchPlan
        The search.
    storage : SearchStorage
        Where trials are kept, and may be found.
    context : CallbackContext
        That of the fit.
    n_trials : int
        Number of trials of each measure.
    n_processes : int
        Number of processes: for the measures if there are several, else for the splits.
    timeout : float or None
        Seconds after which no trial is begun, but for the first ones.
    verbose : int
        Whether to print a line for each.

    Returns
    -------
    trials : dict of str to list of TrialRecord
        Trials by measure.
    """
    started = time.monotonic()
    trials = {measure: storage.records(measure)[:n_trials] for measure in plan.measures}
    progress = _Progress(plan, context, n_trials)
    for measure, records in trials.items():
        for record in records:
            progress.begin(measure, record.number)
            progress.end(measure)
    beside = len(trials) > 1
    while waiting := [measure for measure in trials if len(trials[measure]) < n_trials]:
        is_late = timeout is not None and time.monotonic() - started >= timeout
        if is_late and all(trials.values()):
            break
        contexts = {m: progress.begin(m, len(trials[m])) for m in waiting}
        done = Parallel(n_jobs=n_processes if beside else 1)(
            delayed(run_trial)(
                plan, measure, trials[measure], contexts[measure], 1 if beside else n_processes
            )
            for measure in waiting
        )
        for measure, record in zip(waiting, done, strict=True):
            storage.add(measure, record, plan.space.distributions)
            trials[measure].append(record)
            progress.end(measure)
            if verbose:
                print(_line(measure, trials[measure], n_trials))
    progress.close()
    return trials


def _line(measure, records, n_trials):
    last, best = records[-1], best_trial(records)
    how = f"{last.score:.4f}" if last.state == "complete" else last.state
    seconds = sum(last.fit_seconds) + sum(last.score_seconds)
    shown = "none" if best is None else f"{best.score:.4f} (trial {best.number})"
    return (
        f"{measure}: trial {last.number} ({len(records)} of {n_trials}): {how}, "
        f"{last.n_epochs} epochs in {seconds:.1f} s; best {shown}"
    )


class _Progress:
    """Tells scikit-learn's callbacks which trial is running.

    Parameters
    ----------
    plan : SearchPlan
        The search.
    context : CallbackContext
        That of the fit.
    n_trials : int
        Number of trials of each measure.
    """

    def __init__(self, plan, context, n_trials):
        self.plan = plan
        self.running = {}
        self.searches = {
            measure: context.subcontext(
                task_name=f"search by {measure}", task_id=place, max_subtasks=n_trials
            ).call_on_fit_task_begin(estimator=plan.caller)
            for place, measure in enumerate(plan.measures)
        }

    def begin(self, measure, number):
        """Announce a trial, and give a context for each of its splits."""
        n_splits = self.plan.data.n_splits
        task = self.searches[measure].subcontext(task_name=f"trial {number}", max_subtasks=n_splits)
        self.running[measure] = task.call_on_fit_task_begin(estimator=self.plan.caller)
        return [task.subcontext(task_name=f"split {split}") for split in range(n_splits)]

    def end(self, measure):
        """Announce the end of the trial that is running."""
        self.running.pop(measure).call_on_fit_task_end(estimator=self.plan.caller)

    def close(self):
        """Announce the end of the searches."""
        for search in self.searches.values():
            search.call_on_fit_task_end(estimator=self.plan.caller)
