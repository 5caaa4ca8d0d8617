"""From the results of units to the rows of a reference ranking, its failures and its warnings."""

import builtins

import numpy as np

from sktransfer import exceptions
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune._reference_result import ReferenceRanking, ReferenceRow
from sktransfer.finetune._reference_run import Done
from sktransfer.finetune._reference_subjects import all_failed_error
from sktransfer.finetune._reference_task import UnitResult
from sktransfer.utils._announce import announce

__all__ = ["collect"]


def collect(field, done, measures, protocol, objectives, error_score):
    """Put together what has been computed, and warn of what has failed.

    Parameters
    ----------
    field : Field
        Candidates and architectures.
    done : dict of tuple to Done
        By key of the unit.
    measures : list of str
        Names of the measures.
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
    objective_of = {objective.measure: objective.key for objective in objectives if objective}
    for subject in field.subjects:
        for seed in range(len(protocol["seeds"])):
            about, told = {"candidate": subject.name, "seed": seed}, set()
            for measure in measures:
                key = (subject.identity, seed, objective_of.get(measure))
                unit = _NEVER_BEGUN if subject.name in field.failures else done[key]
                result = unit.result
                reason = field.failures.get(subject.name, unit.reasons.get(measure))
                if reason is not None:
                    failures.append({**about, "measure": measure, "reason": reason})
                if key not in told:
                    told.add(key)
                    warned += [{**about, "kind": k, "message": m} for k, m in result.warnings]
                    if (found := result.best_params) is not None:
                        best_params.append({**about, "measure": measure, "params": found})
                value = unit.values.get(measure)
                if value is None:
                    value = np.nan if error_score == "raise" else float(error_score)
                rows.append(
                    ReferenceRow(
                        **about,
                        from_scratch=subject.from_scratch,
                        measure=measure,
                        value=value,
                        seconds=result.seconds,
                        n_epochs=result.n_epochs,
                        energy=result.energy,
                    )
                )
    _raise_if_all_failed(field, failures, rows)
    results = [unit.result for unit in done.values()]
    protocol = {
        **protocol,
        "subjects": [subject.as_dict() for subject in field.subjects],
        "devices": sorted({r.device for r in results if r.device is not None}),
        "energy": sorted({r.energy_by for r in results if r.energy_by is not None}),
    }
    twins = {s.name: s.twin for s in field.subjects if s.twin is not None}
    for message, category in _in_words(failures, warned):
        announce(message, category)
    return ReferenceRanking(rows, protocol, twins, failures, warned, best_params)


_NEVER_BEGUN = Done(UnitResult(None, np.nan), {}, {})


def _raise_if_all_failed(field, failures, rows):
    n_rows = sum(not row.from_scratch for row in rows)
    scratch = {subject.name for subject in field.subjects if subject.from_scratch}
    failed = [failure for failure in failures if failure["candidate"] not in scratch]
    if len(failed) == n_rows:
        raise all_failed_error((failure["candidate"], failure["reason"]) for failure in failed)


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
