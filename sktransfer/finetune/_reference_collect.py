"""From the results of units to the rows of a reference ranking, its failures and its warnings."""

import builtins

import numpy as np

from sktransfer import exceptions
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune._reference_result import ReferenceRanking, ReferenceRow
from sktransfer.utils._announce import announce

__all__ = ["collect"]


def collect(field, results, predictions, protocol, objectives, error_score):
    """Put together what has been computed, and warn of what has failed.

    Parameters
    ----------
    field : Field
        Candidates and architectures.
    results : dict of tuple to UnitResult
        By key of the unit.
    predictions : Predictions
        Computes measures.
    protocol : dict
        How the results came about; what they tell is added.
    objectives : list of Objective or None
        What searches have optimised; ``[None]`` without a search.
    error_score : "raise" or float
        Value of what has failed.

    Returns
    -------
    ranking : ReferenceRanking
        The result.

    Raises
    ------
    ValueError
        If all candidates have failed.
    """
    rows, failures, warned, best_params = [], [], [], []
    value_of_failure = np.nan if error_score == "raise" else float(error_score)
    of_measure = {o.measure: o.key for o in objectives if o is not None}
    for subject in field.subjects:
        for seed in range(len(protocol["seeds"])):
            told = set()
            for measure in predictions.measures:
                about = {"candidate": subject.name, "seed": seed}
                key = (subject.identity, seed, of_measure.get(measure))
                result = results.get(key)
                reason, value = field.failures.get(subject.name), value_of_failure
                if reason is None:
                    reason = result.failure
                if reason is None:
                    try:
                        value = predictions.evaluate(result.outputs, measure)
                    except Exception as error:
                        if error_score == "raise":
                            error.add_note(f"Raised by {subject.name!r}, seed {seed}.")
                            raise
                        reason = f"{type(error).__name__}: {error}"
                if reason is not None:
                    failures.append({**about, "measure": measure, "reason": reason})
                if result is not None and key not in told:
                    told.add(key)
                    warned += [{**about, "kind": k, "message": m} for k, m in result.warnings]
                    if result.best_params is not None:
                        best_params.append(
                            {**about, "measure": measure, "params": result.best_params}
                        )
                rows.append(
                    ReferenceRow(
                        subject.name,
                        subject.from_scratch,
                        measure,
                        seed,
                        value,
                        np.nan if result is None else result.seconds,
                        None if result is None else result.n_epochs,
                        None if result is None else result.energy,
                    )
                )
    _raise_if_all_failed(field, failures, rows)
    protocol = {
        **protocol,
        "subjects": [subject.as_dict() for subject in field.subjects],
        "devices": sorted({r.device for r in results.values() if r.device is not None}),
        "energy": sorted({r.energy_by for r in results.values() if r.energy_by is not None}),
    }
    twins = {s.name: s.twin for s in field.subjects if s.twin is not None}
    for message, category in _in_words(failures, warned):
        announce(message, category)
    return ReferenceRanking(rows, protocol, twins, failures, warned, best_params)


def _raise_if_all_failed(field, failures, rows):
    n_rows = sum(not row.from_scratch for row in rows)
    scratch = {subject.name for subject in field.subjects if subject.from_scratch}
    failed = [failure for failure in failures if failure["candidate"] not in scratch]
    if len(failed) == n_rows:
        reasons = {}
        for failure in failed:
            reasons.setdefault(failure["reason"], {})[failure["candidate"]] = None
        told = "; ".join(f"{_listed(names)}: {reason}" for reason, names in reasons.items())
        raise ValueError(f"All candidates have failed. {told}")


def _in_words(failures, warned):
    """Say each thing once, with the names of all it is about."""
    said = {}
    for failure in failures:
        said.setdefault(("", failure["reason"]), {})[failure["candidate"]] = None
    for warning in warned:
        kind = (warning["kind"], warning["message"])
        said.setdefault(kind, {})[warning["candidate"]] = None
    for (kind, message), names in said.items():
        if not kind:
            subject = "Candidate {} has" if len(names) == 1 else "Candidates {} have"
            yield f"{subject.format(_listed(names))} failed: {message}", CandidateFailedWarning
        else:
            yield f"{message} (candidates: {_listed(names)})", _category(kind)


def _listed(names):
    *others, last = map(repr, names)
    return f"{', '.join(others)} and {last}" if others else last


def _category(kind):
    found = getattr(exceptions, kind, None) or getattr(builtins, kind, None)
    is_warning = isinstance(found, type) and issubclass(found, Warning)
    return found if is_warning else UserWarning
