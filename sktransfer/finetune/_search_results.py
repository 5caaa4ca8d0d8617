"""Trials as a table, in the columns of scikit-learn's searches."""

import numpy as np

from sktransfer.evaluation import competition_ranks

__all__ = ["best_trial", "failure_report", "results_table"]


def best_trial(records):
    """Find the best trial of a measure.

    Parameters
    ----------
    records : list of TrialRecord
        Trials.

    Returns
    -------
    record : TrialRecord or None
        The first of the best; None if none was completed.
    """
    complete = [record for record in records if record.state == "complete"]
    return max(complete, key=lambda record: record.score, default=None)


def failure_report(trials):
    """Say which trials failed, and why.

    Parameters
    ----------
    trials : dict of str to list of TrialRecord
        Trials by measure.

    Returns
    -------
    n_failed : int
        How many.
    report : str
        Reasons, each with the number of trials and one of them by name.
    """
    by_reason = {}
    for measure, records in trials.items():
        for record in records:
            if record.state == "failed":
                by_reason.setdefault(record.reason, []).append((measure, record.number))
    parts = []
    for reason, where in by_reason.items():
        measure, number = where[0]
        others = f" and {len(where) - 1} more" if len(where) > 1 else ""
        parts.append(f"trial {number} by {measure!r}{others}: {reason.rstrip('.')}")
    return sum(map(len, by_reason.values())), "; ".join(parts)


def results_table(trials, space, n_splits):
    """Give the columns of ``cv_results_``.

    Parameters
    ----------
    trials : dict of str to list of TrialRecord
        Trials by measure.
    space : SearchSpace
        The space.
    n_splits : int
        Number of splits.

    Returns
    -------
    table : dict of str to ndarray or list
        A row per trial, measure by measure.
    """
    rows = [(measure, record) for measure, records in trials.items() for record in records]
    records = [record for _, record in rows]
    parameters = [space.parameters(record.values) for record in records]
    table = {
        "measure": np.array([measure for measure, _ in rows]),
        "trial": np.array([record.number for record in records]),
        "state": np.array([record.state for record in records]),
    }
    for kind in ("fit", "score"):
        seconds = [getattr(record, f"{kind}_seconds") for record in records]
        for name, function in (("mean", np.mean), ("std", np.std)):
            values = [function(each) if each else np.nan for each in seconds]
            table[f"{name}_{kind}_time"] = np.array(values, dtype=float)
    for name in space.distributions:
        table[f"param_{name}"] = _column([each[name] for each in parameters])
    table["params"] = parameters
    for split in range(n_splits):
        scores = [_score_of(record, split) for record in records]
        table[f"split{split}_test_score"] = np.array(scores, dtype=float)
    table["mean_test_score"] = np.array([record.score for record in records], dtype=float)
    spread = [np.std(r.split_scores) if r.state == "complete" else np.nan for r in records]
    table["std_test_score"] = np.array(spread, dtype=float)
    ranks = [competition_ranks([r.score for r in each]) for each in trials.values()]
    table["rank_test_score"] = np.concatenate(ranks)
    table["n_epochs"] = np.array([record.n_epochs for record in records])
    table["converged"] = np.array([record.converged for record in records])
    table["reason"] = np.array([record.reason for record in records], dtype=object)
    return table


def _score_of(record, split):
    if record.state == "failed":
        return record.score
    return record.split_scores[split] if split < len(record.split_scores) else np.nan


def _column(values):
    """Make a column of one type, or of objects."""
    if len({type(value) for value in values}) == 1 and isinstance(
        values[0], bool | int | float | str
    ):
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
