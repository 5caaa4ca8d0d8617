"""From the scores of all settings to the table of a search over metrics."""

import numpy as np

from ..exceptions import CandidateFailedWarning
from ._metric_search_agreement import CHOICES
from ._metric_search_data import described, oddity
from ._results import SelectionResults, grouped_reasons, joined, reason_of

__all__ = ["SearchScores", "search_frame", "search_table"]


class SearchScores(SelectionResults):
    """Scores of every candidate by every setting in every split, and the time they took.

    Parameters
    ----------
    candidates : list of str
        Names of the candidates.
    settings : list of Setting
        The settings.
    n_splits : int or None
        Number of splits; None if all data are scored at once.
    usable : ndarray of bool of shape (n_splits,)
        Splits that have more than one class or value to foretell. The others are left out of all
        means, whatever the metrics.

    Attributes
    ----------
    table : ndarray of shape (n_settings, n_splits, n_candidates)
        The scores, once the pass is over.
    split_reasons : dict of int to str
        Splits that are not usable, with the reason.
    not_run : dict of str to str
        Candidates that could not be run in some usable split, with the reason. That is no fault
        of a metric, and they are left out for all.
    """

    def __init__(self, candidates, settings, n_splits, usable):
        metrics = {setting.label: setting.estimator for setting in settings}
        super().__init__(candidates, metrics, n_splits)
        self.settings = settings
        self.usable = usable
        self._failed_runs = set()
        shape = (len(self.candidates), n_splits or 1)
        self.seconds = {label: np.zeros(shape) for label in metrics}

    def add(self, result):
        """Fill in the cells of one scoring task.

        Parameters
        ----------
        result : ScoringResult
            What became of the task.
        """
        super().add(result)
        for label, cell in result.cells.items():
            self.seconds[label][result.candidate, result.split] = cell.seconds

    def fail(self, candidate, error, split=None):
        """Record that a candidate could not be fitted or extracted.

        Parameters
        ----------
        candidate : int
            Its index.
        error : Exception
            What was raised.
        split : int, default=None
            The split, or None for all of them.
        """
        super().fail(candidate, error, split)
        if split is None or self.usable[split]:
            self._failed_runs.add(candidate)

    def finish(self):
        """Combine scores across candidates, and find out what was not scored."""
        self._combine_pools()
        by_candidate = np.array([self.scores[setting.label] for setting in self.settings])
        self.table = by_candidate.transpose(0, 2, 1)
        self.unusable_splits = dict.fromkeys(self.metrics, np.flatnonzero(~self.usable))
        # Only to know who failed: a mean over the usable splits.
        self.mean = {
            setting.label: scores[:, self.usable].mean(axis=1)
            for setting, scores in zip(self.settings, by_candidate, strict=True)
        }
        first = self.settings[0].label
        self.split_reasons = self.split_failures(first)
        self.not_run = {
            self.candidates[index]: self._reason(first, index)
            for index in sorted(self._failed_runs)
        }

    def warnings_to_give(self):
        """Put what failed and what the metrics said in words, each kind of thing once.

        Returns
        -------
        warnings : list of (str, category)
            Messages and their kinds.
        """
        given = [
            (
                f"Split {split} has one class or value and is left out: {reason}",
                CandidateFailedWarning,
            )
            for split, reason in self.split_reasons.items()
        ]
        given += [
            (
                f"Candidate {name!r} could not be run and is left out: {reason}",
                CandidateFailedWarning,
            )
            for name, reason in self.not_run.items()
        ]
        by_reason = {}
        metric_of = {setting.label: setting.metric for setting in self.settings}
        for name, reasons in self.failures().items():
            for label, reason in reasons.items():
                if name not in self.not_run:
                    key = (metric_of[label], reason)
                    names, labels = by_reason.setdefault(key, ({}, {}))
                    names[name] = labels[label] = True
        for (metric, reason), (names, labels) in by_reason.items():
            n_all = sum(setting.metric == metric for setting in self.settings)
            of = f" ({len(labels)} of its {n_all} settings)" if n_all > 1 else ""
            subject = f"Candidate{'s' * (len(names) > 1)} {joined(map(repr, names))}"
            has = "have" if len(names) > 1 else "has"
            message = f"{subject} {has} no score by {metric!r}{of}: {reason}"
            given.append((message, CandidateFailedWarning))
        return given + self._said()

    def _said(self):
        """One warning for each kind: a grid of metrics would say much the same many times."""
        said = {}
        for name, warnings in self.warnings.items():
            for category, message in warnings:
                said.setdefault(category, []).append((name, message))
        given = []
        for category, messages in said.items():
            name, message = messages[0]
            names = dict.fromkeys(name for name, _ in messages)
            more = f"; {len(messages)} such warnings, see warnings_" if len(messages) > 1 else ""
            about = f"candidate{'s' * (len(names) > 1)}: {joined(map(repr, names))}"
            given.append((f"{message} ({about}{more})", category))
        return given

    def not_run_in_words(self):
        """Say which candidates could not be run, and why.

        Returns
        -------
        text : str
            A sentence after a space, or nothing.
        """
        if not self.not_run:
            return ""
        told = grouped_reasons(self.not_run, len(self.candidates))
        return f" Left out, because they could not be run: {told}"

    def by_name(self):
        """Give all scores by the names of the candidates.

        Returns
        -------
        scores : list of list of dict of str to float
            For each setting and split.
        """
        return [
            [dict(zip(self.candidates, map(float, split), strict=True)) for split in splits]
            for splits in self.table
        ]

    def messages(self):
        """Give what the metrics warned of.

        Returns
        -------
        messages : dict of str to list of str
            For each candidate that caused a warning.
        """
        return {
            name: [message for _, message in said] for name, said in self.warnings.items() if said
        }

    def too_few_error(self, X):
        """Build the error for too few candidates that could be run.

        Parameters
        ----------
        X : array-like
            The data.

        Returns
        -------
        error : ValueError or TypeError
            Lists all reasons; a TypeError if that is what every candidate raised.
        """
        n_left = len(self.candidates) - len(self.not_run)
        raised = list(self.errors[self.settings[0].label].values())
        no_type = not n_left and all(isinstance(error, TypeError) for error in raised)
        error = (TypeError if no_type else ValueError)(
            f"Only {n_left} of {len(self.candidates)} candidates could be run on X, "
            f"{described(X)}, and an agreement needs at least 2.{oddity(X)} "
            + grouped_reasons(self.not_run, len(self.candidates))
        )
        error.__cause__ = raised[0]
        return error

    def nothing_defined_error(self, agreement, X):
        """Build the error for a measure that no setting has a number of.

        Parameters
        ----------
        agreement : Agreement
            By this measure.
        X : array-like
            The data.

        Returns
        -------
        error : ValueError
            Lists the reasons. Its cause is what the first candidate raised, if one did.
        """
        by_reason = {}
        for setting, reason in zip(self.settings, agreement.reasons, strict=True):
            by_reason.setdefault(reason, {})[setting.metric] = True
        said = "; ".join(
            f"{joined(map(repr, metrics))}: {reason}" for reason, metrics in by_reason.items()
        )
        raised = [
            error
            for errors in self.errors.values()
            for (candidate, _), error in errors.items()
            if candidate not in self._failed_runs
        ]
        because = f" A score is missing because: {reason_of(raised[0])}" if raised else ""
        if raised and agreement.nan_policy == "propagate":
            because += " With nan_policy='omit' candidates without a score are left out."
        error = ValueError(
            f"No metric has a defined {agreement.scoring!r} with the reference. {said}."
            f"{because}{self.not_run_in_words()}{oddity(X)}"
        )
        error.__cause__ = raised[0] if raised else None
        return error


def search_table(settings, agreements, uncertainty, n_scored, seconds):
    """Bring everything into columns.

    Parameters
    ----------
    settings : list of Setting
        The rows.
    agreements : dict of str to Agreement
        By measure.
    uncertainty : dict of str to (ndarray, ndarray, ndarray)
        Lower and upper limits and ties, for the measures that have them.
    n_scored : ndarray of int of shape (n_settings,)
        Number of candidates with a score in every split.
    seconds : ndarray of shape (n_settings, n_cells)
        Time per score.

    Returns
    -------
    cv_results : dict of str to ndarray of shape (n_settings,)
        As in the attribute ``cv_results_`` of :class:`MetricSearchCV`.
    """
    table = {
        "metric": np.array([setting.metric for setting in settings], dtype=object),
        "params": [setting.params for setting in settings],
    }
    keys = {(setting.metric, name): True for setting in settings for name in setting.params}
    for metric, name in keys:
        column = np.ma.masked_all(len(settings), dtype=object)
        for row, setting in enumerate(settings):
            if setting.metric == metric and name in setting.params:
                column[row] = setting.params[name]
        table[f"param_{metric}__{name}"] = column
    for scoring, agreement in agreements.items():
        for split, values in enumerate(agreement.values.T):
            table[f"split{split}_test_{scoring}"] = values.copy()
        table[f"mean_test_{scoring}"] = agreement.mean
        table[f"std_test_{scoring}"] = agreement.std
        table[f"rank_test_{scoring}"] = agreement.rank
        if scoring in uncertainty:
            for name, column in zip(("lower", "upper", "tied"), uncertainty[scoring], strict=True):
                table[f"{name}_test_{scoring}"] = column
        table[f"reason_{scoring}"] = np.array(agreement.reasons, dtype=object)
    table["n_candidates"] = n_scored
    table["mean_score_time"] = seconds.mean(axis=1)
    table["std_score_time"] = seconds.std(axis=1)
    return table


def search_frame(table, labels, scorings, deciding):
    """Bring the table of a search into a data frame for people, the best setting first.

    Parameters
    ----------
    table : dict of str to ndarray
        The attribute ``cv_results_``.
    labels : list of str
        Metric and parameters of each row in words.
    scorings : list of str
        The measures.
    deciding : str
        The one to sort by; it is also shown first.

    Returns
    -------
    frame : pandas.DataFrame
        As described for the method ``to_frame`` of the search.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "MetricSearchCV.to_frame requires pandas. "
            "You can install it with `pip install pandas`; everything is in cv_results_ too."
        ) from error
    columns = {"rank": table[f"rank_test_{deciding}"], "setting": labels}
    for name in sorted(scorings, key=lambda name: name != deciding):
        columns[name] = table[f"mean_test_{name}"]
        if name not in CHOICES:
            for limit in ("lower", "upper", "tied"):
                if f"{limit}_test_{name}" in table:
                    columns[f"{name}_{limit}"] = table[f"{limit}_test_{name}"]
    columns["n_candidates"] = table["n_candidates"]
    columns["reason"] = [reason or "" for reason in table[f"reason_{deciding}"]]
    return pd.DataFrame(columns).sort_values("rank", kind="stable", ignore_index=True)
