"""From the cells of a selection (candidate, metric, split) to means, ranks, reasons and tables."""

import numpy as np

from ..evaluation import competition_ranks
from ..exceptions import CandidateFailedWarning
from ._baselines import BaselinePlan, BaselineResults
from ._consensus_choice import add_consensus, running_consensus
from ._metric_collection import is_relative_to_pool

__all__ = ["SelectionResults", "grouped_reasons", "joined", "reason_of", "results_frame"]


def reason_of(error):
    """Say in one line why something failed.

    Parameters
    ----------
    error : Exception
        What was raised.

    Returns
    -------
    reason : str
        First line of the message, led by the kind of error unless it is a plain ValueError.
    """
    lines = str(error).strip().splitlines()
    message = lines[0].strip() if lines else ""
    if type(error) is ValueError and message:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def joined(names):
    """Write several names in a sentence.

    Parameters
    ----------
    names : iterable of str
        The names.

    Returns
    -------
    text : str
        Such as "1, 2 and 5".
    """
    names = list(names)
    if len(names) > 1:
        names[-2:] = [f"{names[-2]} and {names[-1]}"]
    return ", ".join(names)


class SelectionResults:
    """Scores of every candidate by every metric in every split, filled in any order.

    Parameters
    ----------
    candidates : list of str
        Names of the candidates.
    metrics : dict of str to metric
        The metrics.
    n_splits : int or None
        Number of splits; None if all data are scored at once.
    plan : BaselinePlan, default=None
        Baselines to compute beside the metrics; none if None.
    consensus_options : dict, default=None
        How to combine the metrics; they are not combined if None.
    """

    def __init__(self, candidates, metrics, n_splits, plan=None, consensus_options=None):
        self.candidates = list(candidates)
        self.metrics = metrics
        self.n_splits = n_splits
        shape = (len(self.candidates), n_splits or 1)
        self.scores = {name: np.full(shape, np.nan) for name in metrics}
        self.fitted = {
            name: np.full(shape, None, dtype=object)
            for name, metric in metrics.items()
            if is_relative_to_pool(metric)
        }
        self.errors = {name: {} for name in metrics}
        self.consensus_options, self.consensus = consensus_options, None
        self.resampled = {name: {} for name in metrics}
        self.baselines = BaselineResults(plan or BaselinePlan(), self.candidates, shape[1])
        self.warnings = {name: [] for name in self.candidates}
        self.n_features = np.full(shape[0], np.nan)
        self.n_parameters = np.full(shape[0], np.nan)
        self.weights = np.full(shape[0], None, dtype=object)
        self.weights_hash = np.full(shape[0], None, dtype=object)
        self.pretrained = np.full(shape[0], None, dtype=object)
        self.extraction_time = np.zeros(shape[0])
        self.rows_extracted = np.zeros(shape[0], dtype=int)
        self.from_store = np.zeros(shape[0], dtype=bool)
        self.scoring_time = np.zeros(shape[0])

    def describe(self, candidate, fitted, n_features):
        """Record what is known of a candidate that was fitted and run.

        Parameters
        ----------
        candidate : int
            Its index.
        fitted : transformer
            The fitted candidate; a network tells its size and weights.
        n_features : int
            Width of its features.
        """
        self.baselines.describe(candidate, fitted, n_features)
        self.n_features[candidate] = n_features
        self.n_parameters[candidate] = getattr(fitted, "n_parameters_", np.nan)
        self.weights[candidate] = getattr(fitted, "weights_", None)
        self.weights_hash[candidate] = getattr(fitted, "weights_hash_", None)
        self.pretrained[candidate] = getattr(fitted, "pretrained_", None)

    def add(self, result):
        """Fill in the cells of one scoring task.

        Parameters
        ----------
        result : ScoringResult
            What became of the task.
        """
        for name, cell in result.cells.items():
            self.scores[name][result.candidate, result.split] = cell.score
            if cell.error is not None:
                self.errors[name][result.candidate, result.split] = cell.error
            if name in self.fitted:
                self.fitted[name][result.candidate, result.split] = cell.metric
        self.baselines.add(result)
        for name, resampled in result.resampled.items():
            self.resampled[name][result.candidate, result.split] = resampled
        self.scoring_time[result.candidate] += result.seconds
        said = self.warnings[self.candidates[result.candidate]]
        said.extend(warning for warning in result.warnings if warning not in said)

    def add_run(self, candidate, extraction):
        """Count the rows that a candidate was run on.

        Parameters
        ----------
        candidate : int
            Its index.
        extraction : Extraction
            What it gave, or a store in its place.
        """
        self.rows_extracted[candidate] += extraction.n_rows_run
        self.from_store[candidate] = extraction.from_store and not self.rows_extracted[candidate]

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
        splits = range(self.n_splits or 1) if split is None else [split]
        for errors in self.errors.values():
            errors.update(dict.fromkeys(((candidate, split) for split in splits), error))

    def running_mean(self, candidate, metric):
        """Mean of the scores that a candidate has so far, to know the leader on the way.

        Parameters
        ----------
        candidate : int
            Its index.
        metric : str
            Name of the metric.

        Returns
        -------
        mean : float
            NaN without any score.
        """
        if metric not in self.scores:
            return running_consensus(self, candidate)
        scores = self.scores[metric][candidate]
        scores = scores[~np.isnan(scores)]
        return scores.mean() if scores.size else np.nan

    def finish(self):
        """Combine scores across candidates and splits: ``mean``, ``std``, ``rank`` by metric.

        A split that no candidate could be scored on is left out for all of them. A candidate that
        failed where another was scored has no mean: means over different splits don't compare.
        """
        self._combine_pools()
        self.mean, self.std, self.rank, self.unusable_splits = {}, {}, {}, {}
        for name, scores in self.scores.items():
            usable = ~np.isnan(scores).all(axis=0)
            self.unusable_splits[name] = np.flatnonzero(~usable) if usable.any() else []
            if not usable.any():
                usable[:] = True
            with np.errstate(invalid="ignore"):  # infinite scores have no spread
                self.mean[name] = scores[:, usable].mean(axis=1)
                self.std[name] = (
                    np.full(len(self.candidates), np.nan)
                    if self.n_splits is None
                    else scores[:, usable].std(axis=1)
                )
            self.rank[name] = competition_ranks(self.mean[name])
        if self.consensus_options is not None:
            add_consensus(self)

    def _combine_pools(self):
        for name, fitted in self.fitted.items():
            for split in range(fitted.shape[1]):
                pool = list(fitted[:, split])
                if any(metric is not None for metric in pool):
                    scores = type(self.metrics[name]).pool_scores(pool)
                    self.scores[name][:, split] = np.asarray(scores, dtype=float)

    def failures(self):
        """Reasons for every score that is NaN in the end.

        Returns
        -------
        failures : dict of str to dict of str to str
            For each candidate that failed, the reason by metric.
        """
        failures = {}
        for index, candidate in enumerate(self.candidates):
            reasons = {
                name: self._reason(name, index)
                for name in self.metrics
                if np.isnan(self.mean[name][index])
            }
            if reasons:
                failures[candidate] = reasons
        return failures

    def _reason(self, metric, candidate):
        unusable = set(self.unusable_splits[metric])
        by_reason = {}
        for (index, split), error in sorted(self.errors[metric].items(), key=lambda item: item[0]):
            if index == candidate and split not in unusable:
                by_reason.setdefault(reason_of(error), []).append(str(split))
        if not by_reason:
            return "Its score is not a number."
        if self.n_splits is None or (
            len(by_reason) == 1 and len(*by_reason.values()) == self.n_splits
        ):
            return next(iter(by_reason))
        return "; ".join(
            f"split{'s' * (len(splits) > 1)} {joined(splits)}: {reason}"
            for reason, splits in by_reason.items()
        )

    def split_failures(self, metric):
        """Reasons why splits could not be scored for any candidate, and so were left out.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        reasons : dict of int to str
            By number of the split.
        """
        return {
            int(split): grouped_reasons(
                {
                    self.candidates[index]: reason_of(error)
                    for (index, other), error in self.errors[metric].items()
                    if other == split
                },
                len(self.candidates),
            )
            for split in self.unusable_splits[metric]
        }

    def warnings_to_give(self):
        """Put what failed and what the metrics said in words, once, with the candidates' names.

        Returns
        -------
        warnings : list of (str, category)
            Messages and their kinds.
        """
        failed, said = {}, {}
        for name, reasons in self.failures().items():
            for metric, reason in reasons.items():
                failed.setdefault(reason, {}).setdefault(name, []).append(metric)
        given = []
        for reason, metrics_of in failed.items():
            by_metrics = {}
            for name, metrics in metrics_of.items():
                by_metrics.setdefault(joined(map(repr, metrics)), []).append(repr(name))
            for metrics, names in by_metrics.items():
                subject = f"Candidate {names[0]} has"
                if len(names) > 1:
                    subject = f"Candidates {joined(names)} have"
                given.append((f"{subject} no score by {metrics}: {reason}", CandidateFailedWarning))
        for metric in self.metrics:
            for split, reason in self.split_failures(metric).items():
                message = (
                    f"No candidate could be scored by {metric!r} on split {split}, which is left "
                    f"out: {reason}"
                )
                given.append((message, CandidateFailedWarning))
        for name, warnings in self.warnings.items():
            for warning in warnings:
                said.setdefault(warning, []).append(repr(name))
        for (category, message), names in said.items():
            given.append((f"{message} (candidates: {joined(names)})", category))
        return given

    def all_failed_error(self, metric):
        """Build the error for a metric by which no candidate has a score.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        error : ValueError or TypeError
            Lists all reasons; a TypeError if that is what every candidate raised. Its cause is
            the first error.
        """
        errors = self.errors[metric]
        reasons = {name: self._reason(metric, index) for index, name in enumerate(self.candidates)}
        kinds = [type(error) for error in errors.values()]
        kind = TypeError if kinds and all(issubclass(k, TypeError) for k in kinds) else ValueError
        if len(reasons) == 1:
            subject = f"The only candidate, {self.candidates[0]!r}, could not be"
        else:
            subject = f"None of the {len(reasons)} candidates could be"
        error = kind(
            f"{subject} scored by {metric!r}: {grouped_reasons(reasons, len(self.candidates))}"
        )
        error.__cause__ = next(iter(errors.values()), None)
        return error

    def table(self):
        """All results as columns.

        Returns
        -------
        cv_results : dict of str to ndarray of shape (n_candidates,)
            The columns, as in the attribute ``cv_results_`` of the selector.
        """
        table = {"candidate": np.array(self.candidates, dtype=object)}
        for name in self.mean:
            if self.n_splits is not None and name in self.scores:
                for split in range(self.n_splits):
                    table[f"split{split}_{name}"] = self.scores[name][:, split].copy()
            table[f"mean_{name}"] = self.mean[name]
            table[f"std_{name}"] = self.std[name]
            table[f"rank_{name}"] = self.rank[name]
        table["n_features"] = self.n_features
        table["n_parameters"] = self.n_parameters
        table["weights"] = self.weights
        table["weights_hash"] = self.weights_hash
        table["pretrained"] = self.pretrained
        table["rows_extracted"] = self.rows_extracted
        table["from_store"] = self.from_store
        table["extraction_time"] = self.extraction_time
        table["scoring_time"] = self.scoring_time
        return table


def grouped_reasons(reasons, n_candidates):
    """List each reason once, with the candidates it holds for.

    Parameters
    ----------
    reasons : dict of str to str
        By candidate.
    n_candidates : int
        Number of all candidates; a reason that holds for all of them stands alone.

    Returns
    -------
    text : str
        Such as "'a' and 'b': too few rows.; 'c': no weights."
    """
    by_reason = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(repr(name))
    if len(by_reason) == 1 and len(reasons) == n_candidates:
        return next(iter(by_reason))
    return "; ".join(f"{joined(names)}: {reason}" for reason, names in by_reason.items())


def results_frame(table, metrics, deciding, failures, baselines):
    """Bring the table of a selection into a data frame for people, the best candidate first.

    Parameters
    ----------
    table : dict of str to ndarray
        The attribute ``cv_results_`` of the selector.
    metrics : list of str
        Names of the metrics.
    deciding : str
        The one to sort by; it is also shown first.
    failures : dict of str to dict of str to str
        The attribute ``failures_``.
    baselines : dict of str to dict of str to float
        The attribute ``baseline_scores_``.

    Returns
    -------
    frame : pandas.DataFrame
        As described for the method ``to_frame`` of the selector.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "TransferabilitySelector.to_frame requires pandas. "
            "You can install it with `pip install pandas`; everything is in cv_results_ too."
        ) from error
    columns = {"rank": table[f"rank_{deciding}"], "candidate": list(table["candidate"])}
    for name in sorted(metrics, key=lambda name: name != deciding):
        columns[name] = table[f"mean_{name}"]
        if f"split0_{name}" in table:
            columns[f"{name}_std"] = table[f"std_{name}"]
        if f"low_{name}" in table:
            for column in ("low", "high", "rank_low", "rank_high", "probability_best"):
                columns[f"{name}_{column}"] = table[f"{column}_{name}"]
            columns[f"{name}_tied_with_best"] = table[f"tied_with_best_{name}"]
    for name, scores in baselines.items():
        known = np.array(list(scores.values()))
        is_there = name in (*columns, "n_features", "n_parameters", "random")
        if not is_there and not np.isnan(known).all():
            columns[name] = known
    for name in ("n_features", "n_parameters"):
        columns[name] = pd.array(table[name], dtype="Float64").astype("Int64")
    for name in ("weights", "weights_hash", "pretrained"):
        columns[name] = list(table[name])
    columns["extraction_seconds"] = table["extraction_time"]
    columns["scoring_seconds"] = table["scoring_time"]
    columns["failure"] = [
        "; ".join(dict.fromkeys(failures.get(name, {}).values())) for name in table["candidate"]
    ]
    return pd.DataFrame(columns).sort_values("rank", kind="stable", ignore_index=True)
