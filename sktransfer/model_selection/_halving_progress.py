"""What scikit-learn's callbacks are told of a race: scoring, rounds, trainings, the final fit."""

from contextlib import contextmanager

from ._selection import Progress

__all__ = ["RaceProgress"]


class RaceProgress:
    """Tells scikit-learn's callbacks what a race is working on.

    The tree of tasks: "metrics" with a task for each candidate that is scored; "round 1", "round 2"
    and so on, with a task for each candidate and in it one for each part of the rows that it is
    trained on; and "refit", which is that of the winner's own fit.

    Parameters
    ----------
    estimator : HalvingTransferabilitySelector
        Whose callbacks are told.
    X, y : array-like
        As passed to fit.
    """

    def __init__(self, estimator, X, y):
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._context = None

    def metrics(self, n_candidates):
        """Announce that all has been checked and work begins, with the metrics.

        Parameters
        ----------
        n_candidates : int
            How many candidates are scored.

        Returns
        -------
        progress : Progress
            For the pass over the candidates, which also announces its end.
        """
        # How many rounds there are is decided on the way.
        context = self._estimator._init_callback_context(max_subtasks=None)
        self._context = context.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        task = self._context.subcontext(
            task_name="metrics", max_subtasks=n_candidates, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return Progress(task, self._estimator)

    def round(self, number, names, n_parts):
        """Announce a round.

        Parameters
        ----------
        number : int
            Which, counted from 1.
        names : dict of int to str
            Who takes part.
        n_parts : int
            How many trainings there are of each.

        Returns
        -------
        progress : RoundProgress
            For its trainings.
        """
        task = self._context.subcontext(
            task_name=f"round {number}", max_subtasks=len(names), sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self._estimator)
        return RoundProgress(task, self._estimator, names, n_parts)

    @contextmanager
    def refit(self, fitted):
        """Make a context for the final fit, to which callbacks are handed on.

        Parameters
        ----------
        fitted : FineTuneClassifier, FineTuneRegressor or None
            Who is fitted; None if there was a fit before that is taken up again.

        Yields
        ------
        None
        """
        task = self._context.subcontext(task_name="refit")
        if fitted is None:
            task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            yield
        else:
            with task.propagate_callback_context(fitted):
                task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
                yield
        task.call_on_fit_task_end(estimator=self._estimator, **self._data)

    def end(self):
        """Announce that the fit is done."""
        self._context.call_on_fit_task_end(estimator=self._estimator, **self._data)


class RoundProgress:
    """Tells scikit-learn's callbacks of the trainings of one round.

    Parameters
    ----------
    task : CallbackContext
        That of the round, which has begun.
    estimator : HalvingTransferabilitySelector
        Whose callbacks are told.
    names : dict of int to str
        Who takes part.
    n_parts : int
        How many trainings there are of each.
    """

    def __init__(self, task, estimator, names, n_parts):
        self._task = task
        self._estimator = estimator
        self._names = names
        self._n_parts = n_parts
        self._candidates = {}
        self._trainings = {}
        self._n_done = dict.fromkeys(names, 0)

    def begin(self, c, part):
        """Announce a training, and with the first one of a candidate the candidate.

        Parameters
        ----------
        c : int
            The candidate.
        part : int
            On which part of the rows.
        """
        if c not in self._candidates:
            self._candidates[c] = self._task.subcontext(
                task_name=self._names[c],
                task_id=c,
                max_subtasks=self._n_parts,
                sequential_subtasks=False,
            ).call_on_fit_task_begin(estimator=self._estimator)
        task = self._candidates[c].subcontext(task_name=f"split {part}", task_id=part)
        self._trainings[c, part] = task.call_on_fit_task_begin(estimator=self._estimator)

    def finish(self, c, part):
        """Announce that a training is over, and with the last one of a candidate the candidate.

        Parameters
        ----------
        c : int
            The candidate.
        part : int
            On which part of the rows.
        """
        self._trainings.pop((c, part)).call_on_fit_task_end(estimator=self._estimator)
        self._n_done[c] += 1
        if self._n_done[c] == self._n_parts:
            self._candidates.pop(c).call_on_fit_task_end(estimator=self._estimator)

    def end(self):
        """Announce the end of the round."""
        self._task.call_on_fit_task_end(estimator=self._estimator)
