"""From parameters and data to a race that is ready to be run: metrics, costs, folder and seed."""

import os
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from sklearn.base import is_regressor

from ..backbones._store_hashing import array_digest
from ..metrics._statistics import drawn_seed
from ..utils._heard import heard_warnings
from ._halving_budget import Budget
from ._halving_inputs import validation_parts
from ._halving_rule import metric_order
from ._halving_run import Race
from ._selector import TransferabilitySelector

__all__ = ["Prepared", "prepare_race"]


@dataclass
class Prepared:
    """What is known besides the race itself.

    Attributes
    ----------
    selector : TransferabilitySelector
        What ranked the candidates.
    metric_ranks : dict of str to int or None
        Ranks by the metrics.
    scorer : callable
        The measure.
    weights : dict of str to float
        Cost of a row, by candidate.
    unit : str
        What these are.
    data : tuple
        Validation data, as given.
    failures : dict of str to list of str
        Of candidates that can't be raced.
    decision_set : DecisionSet or None
        The candidates that may be the best, where that is asked for and known.
    """

    selector: object
    metric_ranks: dict
    scorer: object
    weights: dict
    unit: str
    data: tuple
    failures: dict
    decision_set: object


def prepare_race(
    caller, candidates, template, metrics, measure, metadata, progress, *, X, y, X_val, y_val
):
    """Check all that can be checked, rank the candidates, and prepare the race.

    Parameters
    ----------
    caller : HalvingTransferabilitySelector
        Whose parameters count.
    candidates : list of (str, transformer)
        The candidates.
    template : FineTuneClassifier or FineTuneRegressor
        What trains.
    metrics : dict of str to metric
        What ranks the candidates.
    measure : (str, callable)
        Name and scorer.
    metadata : RaceMetadata
        Weights and groups, by who asked for them.
    progress : RaceProgress
        Told when work begins.
    X, y, X_val, y_val
        As passed to fit.

    Returns
    -------
    race : Race
        The race.
    prepared : Prepared
        What else is known.
    """
    # Torch is needed from here on, and not for importing this package.
    from ..backbones._network_input import resolve_device
    from ..finetune._race_units import RaceTask
    from ..finetune._reference_store import UnitStore
    from ..finetune._search_inputs import checked_data

    names = [name for name, _ in candidates]
    data, target, kept = checked_data(template, (), X, y, metadata.sample_weight, X_val, y_val)
    classes = None if target.outputs is not None else target.classes
    codes = None if classes is None else target.codes
    if X_val is not None and caller.cv is not None:
        raise ValueError(
            "Candidates are judged either by 'X_val' and 'y_val', or on the splits of 'cv'; both "
            "are given."
        )
    if X_val is not None and not len(data.y_val):
        raise ValueError("'X_val' and 'y_val' must have one row at least. Got none.")
    store = None if caller.out is None else UnitStore(caller.out, "race")
    seed = caller.random_state
    if seed is None and store is not None:
        seed = store.random_state()
    seed = drawn_seed(seed)
    if X_val is not None:
        parts, y_judge = [(np.arange(len(data.y)), None)], data.y_val
        sizes = [(len(data.y), len(y_judge))]
    else:
        parts = validation_parts(caller.cv, y, codes, seed, kept, metadata.split_params)
        y_judge = data.y[np.concatenate([judge for _, judge in parts])] if parts else data.y[:0]
        sizes = [(len(train), len(judge)) for train, judge in parts]
    predictions = _Measured(measure, y_judge, classes, type(template).__name__)
    if parts:
        predictions.check(data.y)
    task = RaceTask(
        template=template,
        X=data.X,
        y=data.y,
        parts=parts,
        X_val=data.X_val,
        classes=classes,
        seed=seed,
        n_threads=caller.n_threads,
        raise_errors=caller.error_score == "raise",
        sample_weight=data.sample_weight,
    )
    subjects, failures = dict.fromkeys(names), {}
    if store is not None:
        subjects, failures = _claim(store, candidates, task, data, seed)

    several = len(metrics) > 1
    selector = TransferabilitySelector(
        candidates,
        metric=metrics,
        target_measure=caller.target_measure,
        refit="consensus" if several else None,
        baselines=None,
        n_jobs=caller.n_jobs,
        memory=_memory(caller, store),
        error_score=caller.error_score,
    )
    fit_params = metadata.of(selector)
    selector._select(X, y, fit_params, "fit", progress.metrics(len(candidates)))
    ranks = metric_order(selector.scores_)
    for name, reasons in selector.failures_.items():
        if ranks[name] is None:
            failures.setdefault(name, []).extend(dict.fromkeys(reasons.values()))
    able = [c for c, name in enumerate(names) if ranks[name] is not None and name not in failures]
    able.sort(key=lambda c: ranks[names[c]])
    fitted = selector.candidates_
    weights, unit = _weights(caller.cost, {n: fitted[n] for n in names if n in fitted}, template, X)
    pool = [name for name in names if name in weights]
    n_train = min((train for train, _ in sizes), default=len(data.y))
    budget = Budget(
        caller.budget,
        {c: weights[name] for c, name in enumerate(names) if name in weights},
        n_samples=len(data.y),
        n_scored=len(kept),
        n_epochs=template.max_epochs,
        parts=sizes,
        batch_size=task.batch_size(n_train),
        passes_count=template.train != "head",
    )
    deciding = selector.metrics_.values() if several else [selector.metric_]
    race = Race(
        names=names,
        backbones=dict(enumerate(backbone for _, backbone in candidates)),
        subjects=dict(enumerate(subjects[name] or _Named(name) for name in names)),
        ranks={c: ranks[names[c]] for c in able},
        budget=budget,
        task=task,
        store=store,
        predictions=predictions,
        codes=predictions.codes,
        factor=caller.factor,
        confidence=caller.confidence,
        n_jobs=caller.n_jobs,
        on_cpu=resolve_device(template.device).type == "cpu",
        trusted=not all(getattr(metric, "saturated_", False) for metric in deciding),
        say=_printed if caller.verbose else lambda row: None,
        progress=progress,
    )
    # Of values there is no calibration, whatever the metric takes them for.
    inside = None if is_regressor(template) else selector.decision_set_
    if hasattr(caller.start, "decision_set"):
        inside = caller.start.decision_set(selector.scores_, n_samples=len(data.y))
    prepared = Prepared(
        decision_set=None if isinstance(caller.start, Real) else inside,
        selector=selector,
        metric_ranks=ranks,
        scorer=measure[1],
        weights={name: weights[name] for name in pool},
        unit=unit,
        data=(data.X_val, data.y_val),
        failures=failures,
    )
    return race, prepared


@dataclass(frozen=True)
class _Named:
    """Stands for a subject where no folder has to tell candidates apart."""

    name: str


class _Measured:
    """The measure of predictions for the rows to judge by, and of resamples of them."""

    def __init__(self, measure, y, classes, kind):
        self._name, self._scorer = measure
        self._y, self._classes, self._kind = y, classes, kind
        self.codes = None if classes is None else np.unique(y, return_inverse=True)[1]

    def _on(self, rows):
        from ..finetune._reference_predictions import Predictions

        places = np.zeros((len(rows), 1))
        measures = {self._name: self._scorer}
        return Predictions(
            places, self._y[rows], self._classes, measures, self._kind, "the rows to judge by"
        )

    def check(self, y_train):
        self._on(np.arange(len(self._y))).check(y_train)

    def __call__(self, outputs, rows):
        with heard_warnings():  # a resample may lack what a measure needs
            try:
                return self._on(rows).evaluate(outputs[rows], self._name)
            except ValueError:
                return np.nan


def _claim(store, candidates, task, data, seed):
    """Begin with a folder: refuse results of other data, settings or weights."""
    from ..finetune._reference_protocol import make_protocol
    from ..finetune._reference_subjects import describe_all
    from ..finetune._reference_task import Task

    nothing = np.zeros((0, 1))
    described = Task(
        estimator=task.template,
        data=(data.X, data.y, nothing, data.X_val, data.y_val),
        n_threads=task.n_threads,
        raise_errors=task.raise_errors,
    )
    protocol = {"race": 1, **make_protocol(described, nothing[:, 0], seed)}
    if task.sample_weight is not None:
        protocol["data"]["sample_weight"] = array_digest(task.sample_weight).hex()
    untested = replace(described, data=(data.X, data.y, None, data.X_val, data.y_val))
    field = describe_all(candidates, untested, from_scratch=False)
    store.begin(protocol, field.able)
    failures = {name: [reason] for name, reason in field.failures.items()}
    return {subject.name: subject for subject in field.subjects}, failures


def _memory(caller, store):
    if caller.memory is not None or store is None:
        return caller.memory
    return os.fspath(store.folder / "features")


def _weights(cost, fitted, template, X):
    """Give the cost of a row by candidate, and in which unit."""
    from ..finetune._rounds import multiply_adds

    if not isinstance(cost, str):
        return {name: float(cost[name]) for name in fitted}, "given"
    if cost == "multiply_adds" and template.train != "head":
        counts = {name: float(multiply_adds(backbone, X)) for name, backbone in fitted.items()}
        if all(counts.values()):
            return counts, cost
        cost = "n_parameters"
    if cost == "n_parameters" and template.train != "head":
        counts = {
            name: float(getattr(backbone, "n_parameters_", 0)) for name, backbone in fitted.items()
        }
        if all(counts.values()):
            return counts, cost
    return dict.fromkeys(fitted, 1.0), "equal"


def _printed(row):
    number, name, rank, n_epochs, score, *_, decision, reason, _, total, _ = row
    shown = f", score {score:.4g} after {n_epochs} epochs" if n_epochs else f", rank {rank}"
    print(f"[round {number}, {total:.1%}] {name}{shown}: {decision} ({reason})", flush=True)
