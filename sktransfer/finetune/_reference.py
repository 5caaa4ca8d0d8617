"""Fine-tune all candidates, and their architectures from scratch: the ranking metrics are judged by."""

from collections.abc import Mapping

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from sktransfer.backbones._datasets import is_dataset
from sktransfer.datasets import load_torch_dataset
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune._classifier import FineTuneClassifier
from sktransfer.finetune._net import derived_seed
from sktransfer.finetune._reference_predictions import Predictions
from sktransfer.finetune._reference_protocol import make_protocol
from sktransfer.finetune._reference_result import ReferenceRanking, ReferenceRow
from sktransfer.finetune._reference_store import UnitStore
from sktransfer.finetune._reference_subjects import Subject, describe
from sktransfer.finetune._reference_units import Unit, inner_estimator, run_unit
from sktransfer.finetune._regressor import FineTuneRegressor
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._announce import announce
from sktransfer.utils._measures import get_measures
from sktransfer.utils._target import as_target_array, encode_target

__all__ = ["reference_ranking"]


def reference_ranking(
    candidates,
    X,
    y,
    X_test,
    y_test,
    *,
    scoring=("accuracy", "roc_auc_ovr"),
    n_seeds=3,
    from_scratch=True,
    estimator=None,
    out=None,
    random_state=0,
    X_val=None,
    y_val=None,
    retry_failed=False,
    energy="auto",
    n_threads=1,
    n_jobs=None,
    error_score=np.nan,
    verbose=0,
):
    """Fine-tune every candidate on a target and measure it on test data."""
    candidates = _checked_candidates(candidates)
    y, y_test = (_target(*pair) for pair in ((X, y), (X_test, y_test)))
    estimator = _checked_estimator(estimator, y)
    inner = inner_estimator(estimator)
    measures = get_measures(scoring)
    predictions = Predictions(X_test, y_test, _classes(inner, y), measures)
    predictions.check(y)
    random_state = drawn_seed(random_state)
    data = (X, y, X_test, X_val, y_val)
    protocol = make_protocol(
        estimator, data, y_test, random_state=random_state, n_threads=n_threads
    )
    raise_errors = error_score == "raise"

    subjects, backbones, failures = [], {}, []
    for name, backbone in candidates:
        try:
            found = describe(
                name, backbone, X, head_only=inner.train == "head", from_scratch=from_scratch
            )
        except Exception as error:
            if raise_errors:
                error.add_note(f"Raised by candidate {name!r}.")
                raise
            failures.append((name, f"{type(error).__name__}: {error}"))
            subjects.append(Subject(name, False, ""))
            continue
        for subject in found:
            if subject is not None and subject.name not in backbones:
                subjects.append(subject)
                backbones[subject.name] = backbone
    subjects.sort(key=lambda subject: subject.from_scratch)
    able = [subject for subject in subjects if subject.name in backbones]

    store = None
    if out is not None:
        store = UnitStore(out)
        store.begin(protocol, able)
    searched = list(measures) if inner is not estimator else [None]
    seeds = [derived_seed(random_state, seed) for seed in range(n_seeds)]
    units = [
        Unit(subject, seed, measure, seeds[seed])
        for seed in range(n_seeds)
        for subject in able
        for measure in searched
    ]
    # Equal ones under several names are trained once.
    pending = {(unit.subject.identity, unit.seed, unit.measure): unit for unit in units}
    options = {"n_threads": n_threads, "energy": energy, "raise_errors": raise_errors}
    results = {}
    left, wait = list(pending.items()), False
    while left:
        tasks = (
            delayed(_do)(
                key,
                unit,
                estimator,
                backbones[unit.subject.name],
                data,
                store,
                wait,
                retry_failed,
                options,
            )
            for key, unit in left
        )
        busy = []
        for key, result in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks):
            if result is None:
                busy.append(key)
            else:
                results[key] = result
        left, wait = [(key, pending[key]) for key in busy], True
    return _assembled(
        subjects, results, predictions, protocol, seeds, searched, failures, error_score
    )


def _do(key, unit, estimator, backbone, data, store, wait, retry_failed, options):
    """Do one unit, unless it is done or another process does it."""
    if store is None:
        return key, run_unit(unit, estimator, backbone, data, **options)
    with store.own(unit, wait) as is_own:
        if not is_own:
            return key, None
        result = store.read(unit)
        if result is None or (result.failure is not None and retry_failed):
            folder = store.trials(unit)
            result = run_unit(unit, estimator, backbone, data, folder=folder, **options)
            store.write(unit, result)
        return key, result


def _assembled(subjects, results, predictions, protocol, seeds, searched, failures, error_score):
    rows, failed, warned = [], [], []
    broken = dict(failures)
    failed_value = np.nan if error_score == "raise" else float(error_score)
    for subject in subjects:
        for seed in range(len(seeds)):
            for measure in predictions.measures:
                optimised = measure if searched != [None] else None
                result = results.get((subject.identity, seed, optimised))
                reason = broken.get(subject.name) or result.failure
                value = failed_value
                if reason is None:
                    try:
                        value = predictions.evaluate(result.outputs, measure)
                    except ValueError as error:
                        reason = str(error)
                if reason is not None:
                    failed.append(
                        {
                            "candidate": subject.name,
                            "seed": seed,
                            "measure": measure,
                            "reason": reason,
                        }
                    )
                seconds, epochs, used = np.nan, None, None
                if result is not None:
                    seconds, epochs, used = result.seconds, result.n_epochs, result.energy
                rows.append(
                    ReferenceRow(
                        subject.name,
                        subject.from_scratch,
                        measure,
                        seed,
                        value,
                        seconds,
                        epochs,
                        used,
                    )
                )
    protocol = {
        **protocol,
        "seeds": seeds,
        "measures": list(predictions.measures),
        "subjects": [subject.as_dict() for subject in subjects],
    }
    twins = {subject.name: subject.twin for subject in subjects if subject.twin}
    for name in dict.fromkeys(entry["candidate"] for entry in failed):
        reasons = dict.fromkeys(e["reason"] for e in failed if e["candidate"] == name)
        announce(f"Candidate {name!r} failed: {'; '.join(reasons)}", CandidateFailedWarning)
    return ReferenceRanking(rows, protocol, twins, failed, warned)


def _checked_candidates(candidates):
    pairs = list(candidates.items() if isinstance(candidates, Mapping) else candidates)
    return [tuple(pair) for pair in pairs]


def _checked_estimator(estimator, y):
    if estimator is not None:
        return estimator
    task = encode_target(y, tasks=("classification", "regression"), name="reference_ranking").task
    return (FineTuneClassifier if task == "classification" else FineTuneRegressor)(None)


def _classes(inner, y):
    return inner._encode(y).classes if isinstance(inner, FineTuneClassifier) else None


def _target(X, y):
    if y is None and is_dataset(X):
        y = load_torch_dataset(X).y
    return as_target_array(y)
