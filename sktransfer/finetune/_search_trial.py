"""One trial: parameters are chosen, networks trained and judged; a record is what is left."""

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sktransfer.finetune._inputs import take
from sktransfer.finetune._search_sampling import TrialRecord, next_trial, quiet_optuna, seed_for
from sktransfer.finetune._search_space import SearchSpace
from sktransfer.finetune._search_watch import Watch
from sktransfer.utils._measures import evaluate

__all__ = ["SearchData", "SearchPlan", "configured", "run_trial"]


@dataclass
class SearchData:
    """What networks are trained on, and what they are judged by.

    Attributes
    ----------
    X : array or sequence of shape (n_samples, ...)
        Data.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Target.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights in the loss.
    X_val, y_val : as ``X`` and ``y``, or None
        Data to judge by.
    splits : list of (ndarray of int, ndarray of int)
        Rows to train on and rows to judge by, if there are no data for that.
    """

    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None = None
    X_val: object = None
    y_val: np.ndarray | None = None
    splits: list | None = None

    @property
    def n_splits(self):
        """How many networks are trained in a trial."""
        return 1 if self.splits is None else len(self.splits)

    def fit(self, estimator):
        """Fit an estimator on all data.

        Parameters
        ----------
        estimator : estimator
            Who is fitted.

        Returns
        -------
        estimator : estimator
            The same.
        """
        return estimator.fit(self.X, self.y, self.sample_weight, X_val=self.X_val, y_val=self.y_val)

    def part(self, split):
        """Give the data of a split.

        Parameters
        ----------
        split : int
            Its number.

        Returns
        -------
        data : SearchData
            Data to train on, with nothing to validate by if rows are held out: the network that is
            fitted on all of them in the end has no such rows.
        X_test, y_test
            Data to judge by.
        """
        if self.splits is None:
            return self, self.X_val, self.y_val
        train, test = self.splits[split]
        weights = None if self.sample_weight is None else self.sample_weight[train]
        data = SearchData(take(self.X, train), self.y[train], weights)
        return data, take(self.X, test), self.y[test]


@dataclass
class SearchPlan:
    """All that decides what a trial does, apart from the trials before it.

    Attributes
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Whose parameters are searched for.
    data : SearchData
        Data.
    space : SearchSpace
        Which parameters.
    measures : dict of str to callable
        Scorers. Each has a search of its own.
    seed : int
        The seed.
    sampler, pruner
        As the search takes them.
    error_score : float or "raise"
        What a trial that fails is worth.
    caller : estimator
        Who searches, for callbacks; not fitted.
    """

    estimator: object
    data: SearchData
    space: SearchSpace
    measures: dict
    seed: int
    sampler: str
    pruner: object
    error_score: object
    caller: object


def configured(plan, values):
    """Give an unfitted estimator with the parameters of a trial.

    Parameters
    ----------
    plan : SearchPlan
        The plan.
    values : dict of str to object
        What Optuna chose.

    Returns
    -------
    estimator : estimator
        Every ``random_state`` that is None becomes a seed, the same for all trials: they differ in
        what is searched for, and not by chance.
    """
    estimator = plan.space.assign(clone(plan.estimator), values)
    names = sorted(
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    seeds = {name: seed_for(plan.seed, "fit", place) for place, name in enumerate(names)}
    return estimator.set_params(**seeds)


def run_trial(plan, measure, records, contexts, n_jobs=None):
    """Run the next trial of a measure. The result depends on the arguments alone.

    Parameters
    ----------
    plan : SearchPlan
        The plan.
    measure : str
        The measure.
    records : list of TrialRecord
        All trials of this measure before it.
    contexts : list of CallbackContext
        One for each split, told of the training.
    n_jobs : int or None
        Number of processes for the splits after the first one.

    Returns
    -------
    record : TrialRecord
        The trial.
    """
    with quiet_optuna():
        trial = next_trial(
            measure,
            records,
            plan.space.distributions,
            seed=plan.seed,
            sampler=plan.sampler,
            pruner=plan.pruner,
        )
        record = TrialRecord(len(records), dict(sorted(trial.params.items())))

        def report(step, value):
            record.reported[step] = value
            trial.report(value, step)
            reports = [record.reported, *(past.reported for past in records)]
            if not any(np.isnan(seen) for values in reports for seen in values.values()):
                return trial.should_prune()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)  # Optuna means it so
                return trial.should_prune()

        try:
            estimator = configured(plan, record.values)
            watched = report if plan.pruner is not None else None
            # Whether to go on is decided by the first split alone, so that the others may run side
            # by side without a say in the result.
            _add(record, _fit_split(estimator, plan, measure, 0, contexts[0], watched))
            if record.state == "complete":
                others = Parallel(n_jobs=n_jobs)(
                    delayed(_fit_split)(estimator, plan, measure, split, contexts[split])
                    for split in range(1, plan.data.n_splits)
                )
                for other in others:
                    _add(record, other)
                record.score = float(np.mean(record.split_scores))
        except Exception as error:
            if plan.error_score == "raise":
                error.add_note(f"Raised by trial {record.number} of the search by {measure!r}.")
                raise
            record = replace(
                record,
                state="failed",
                score=float(plan.error_score),
                reported={},
                reason=f"{type(error).__name__}: {error}",
            )
        record.notes = trial.study.trials[-1].system_attrs
    return record


@dataclass
class _SplitResult:
    score: float
    fit_seconds: float
    score_seconds: float
    n_epochs: int
    converged: bool
    pruned: bool


def _add(record, result):
    record.fit_seconds.append(result.fit_seconds)
    record.n_epochs += result.n_epochs
    record.converged &= result.converged
    if result.pruned:
        record.state = "pruned"
    else:
        record.split_scores.append(result.score)
        record.score_seconds.append(result.score_seconds)


def _fit_split(estimator, plan, measure, split, context, report=None):
    """Train on one split and judge what came of it."""
    data, X_test, y_test = plan.data.part(split)
    scorer = {measure: plan.measures[measure]}
    estimator, watch = clone(estimator), None
    if report is not None:
        watch = Watch(estimator, X_test, y_test, scorer, report)
        callbacks = [*(estimator.callbacks or []), ("sktransfer_search", watch)]
        estimator.set_params(callbacks=callbacks)
    start = time.perf_counter()
    try:
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=plan.caller, X=data.X, y=data.y)
            data.fit(estimator)
    finally:
        context.call_on_fit_task_end(estimator=plan.caller, X=data.X, y=data.y)
        if watch is not None:
            watch.let_go()
    trained = time.perf_counter()
    pruned = watch is not None and watch.ended
    score = np.nan
    if not pruned:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is an error anyway
            score = evaluate(estimator, X_test, y_test, scorer)[measure]
    return _SplitResult(
        score=score,
        fit_seconds=trained - start,
        score_seconds=time.perf_counter() - trained,
        n_epochs=estimator.n_epochs_,
        converged=estimator.converged_,
        pruned=pruned,
    )
