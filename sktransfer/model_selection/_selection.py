"""One pass over all candidates: run each once, score it in every split, remember the leader."""

import time
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from ..utils._sklearn import _safe_indexing
from ._extraction import is_stateless
from ._layer_groups import LayerGroups
from ._metric_collection import is_relative_to_pool, needs_network
from ._scoring import ScoringTask, score_task

__all__ = ["CandidateRun", "Progress", "Selection"]


@dataclass
class CandidateRun:
    """A candidate that was fitted and run on all samples.

    Attributes
    ----------
    index : int
        Its place among the candidates.
    fitted : transformer
        The fitted clone.
    extraction : Extraction
        Its features and probabilities on all samples.
    n_pending : int
        Number of its scoring tasks whose results are missing.
    """

    index: int
    fitted: object
    extraction: object
    n_pending: int


class Progress:
    """Tells scikit-learn's callbacks which candidate is being worked on.

    Parameters
    ----------
    context : CallbackContext
        Context of the whole fit.
    estimator : estimator
        The selector.
    printed : list of str, default=()
        Names of the candidates, for a printed line when one is done.
    """

    def __init__(self, context, estimator, printed=()):
        self.context = context
        self.estimator = estimator
        self.printed = printed
        self.n_done = 0
        self.subcontexts = {}

    def begin(self, index, name):
        """Announce that work on a candidate begins.

        Parameters
        ----------
        index : int
            Its place among the candidates.
        name : str
            Its name.
        """
        subcontext = self.context.subcontext(task_name=name, task_id=index)
        self.subcontexts[index] = subcontext.call_on_fit_task_begin(estimator=self.estimator)

    def watcher(self, index, candidate):
        """Choose the context in which a candidate is fitted.

        Parameters
        ----------
        index : int
            Its place among the candidates.
        candidate : transformer
            The candidate.

        Returns
        -------
        watch : callable
            Hands the callbacks on to candidates that support them (most don't, and scikit-learn
            would warn of each).
        """
        if hasattr(candidate, "set_callbacks"):
            return self.subcontexts[index].propagate_callback_context
        return nullcontext

    def end(self, index):
        """Announce that a candidate is done.

        Parameters
        ----------
        index : int
            Its place among the candidates.
        """
        self.subcontexts[index].call_on_fit_task_end(estimator=self.estimator)
        self.n_done += 1
        if self.printed:
            done = f"{self.n_done}/{len(self.printed)}"
            kind = type(self.estimator).__name__
            print(f"[{kind}] candidate {done} is done: {self.printed[index]}", flush=True)


@dataclass
class Selection:
    """All that a pass over the candidates needs, and what it leaves behind.

    Attributes
    ----------
    candidates : list of (str, transformer)
        The candidates, without dropped ones.
    metrics : dict of str to metric
        The metrics.
    deciding : str or None
        Name of the metric by which the leader is known on the way; None for no leader.
    extractor : Extractor
        Runs candidates.
    y : ndarray
        The target.
    task : str or None
        What the target is to the metrics that decide, where anything is said of it.
    splits : list of ndarray of int or None
        The samples to score, in each split; None for all.
    sample_weights : dict of str to ndarray
        Weights for the metrics that asked for them.
    fit_params : list of dict of str to dict
        For each candidate the parameters of its "fit" and "fit_transform".
    results : SelectionResults
        Filled by the pass.
    progress : Progress
        Told of each candidate.
    n_jobs : int or None
        Number of processes that score.
    raise_errors : bool
        Whether the first failure ends the pass.
    keep_candidates : bool
        Whether all fitted candidates are kept, or only the leader.
    resamples : Resamples or None
        Resamples on which all candidates are scored too.
    fitted : dict of int to transformer
        The fitted candidates that are kept.
    leader : CandidateRun or None
        The best candidate so far, with its features. Not more than a good guess until the results
        are finished.
    """

    candidates: list
    metrics: dict
    deciding: str | None
    extractor: object
    y: np.ndarray
    splits: list
    sample_weights: dict
    fit_params: list
    results: object
    progress: Progress
    n_jobs: int | None = None
    raise_errors: bool = False
    keep_candidates: bool = True
    resamples: object = None
    task: str | None = None
    fitted: dict = field(default_factory=dict)
    leader: CandidateRun | None = None
    _running: dict = field(default_factory=dict)

    def __post_init__(self):
        self._layer_groups = LayerGroups(self.candidates)

    def run(self):
        """Run and score all candidates.

        Candidates are run in this process, one after the other, only as far ahead as processes
        are waiting for features to score: so many feature matrices are in memory at a time.
        """
        tasks = self._tasks()
        batch_size = effective_n_jobs(self.n_jobs)
        while batch := list(islice(tasks, batch_size)):
            # A new call for each batch: what joblib writes to disk to share features with
            # workers lives as long as the call. The workers themselves are used again.
            try:
                results = Parallel(n_jobs=self.n_jobs)(delayed(score_task)(t) for t in batch)
            except BrokenExecutor as error:
                if "un-serialize" not in str(error):
                    raise
                # Workers open features by the name of their file. Somebody may have cleared the
                # store meanwhile; here the file is still open.
                results = list(map(score_task, batch))
            for result in results:
                self._take(result)
            del batch
        self._retire()
        self.results.finish()

    def best(self, index):
        """Return the best candidate with its features, run again only if they weren't kept.

        Parameters
        ----------
        index : int
            The place of the best candidate, known when the results are finished.

        Returns
        -------
        run : CandidateRun
            The candidate.
        """
        if self.leader is None or self.leader.index != index:
            # A candidate that led at first failed in a later split, or a metric ranks by the pool.
            name, candidate = self.candidates[index]
            fitted, extraction = self.extractor.fit_extract(
                candidate, self.fit_params[index], stateless=is_stateless(candidate), name=name
            )
            self.leader = CandidateRun(index, fitted, extraction, 0)
        self.fitted[index] = self.leader.fitted
        return self.leader

    def _tasks(self):
        keep = frozenset(name for name, m in self.metrics.items() if is_relative_to_pool(m))
        inside = {name: m for name, m in self.metrics.items() if needs_network(m)}
        outside = {name: m for name, m in self.metrics.items() if name not in inside}
        for index, (name, candidate) in enumerate(self.candidates):
            self.progress.begin(index, name)
            stateless = is_stateless(candidate)
            watch = self.progress.watcher(index, candidate)
            run = self._extract(index, None, stateless=stateless, watch=watch)
            if run is None:
                self.progress.end(index)
                continue
            fitted, extraction = run
            self.results.describe(index, fitted, extraction.features.shape[1])
            self._running[index] = CandidateRun(index, fitted, extraction, len(self.splits))
            task = None
            for split, sampled in enumerate(self.splits):
                rows = sampled
                X, y, sample_weights = self.extractor.X, self.y, self.sample_weights
                if rows is not None and not stateless:
                    run = self._extract(index, split, rows=rows)
                    if run is None:
                        self._running[index].n_pending -= 1
                        continue
                    fitted, extraction = run
                    X, y = _safe_indexing(X, rows) if inside else None, y[rows]
                    sample_weights = {name: w[rows] for name, w in sample_weights.items()}
                    rows = None
                task = ScoringTask(
                    candidate=index,
                    split=split,
                    metrics=outside,
                    features=extraction.features,
                    probabilities=extraction.probabilities,
                    y=y,
                    sample_weights=sample_weights,
                    rows=rows,
                    keep=keep,
                    source_centroids=getattr(fitted, "source_centroids", None),
                    resamples=self.resamples,
                    sampled=sampled,
                    baselines=self.results.baselines.plan.metrics,
                )
                if inside:
                    self._look_inside(
                        replace(task, metrics=inside, inputs=X, backbone=fitted, baselines={})
                    )
                if outside or task.baselines:
                    yield task
                else:
                    self._running[index].n_pending -= 1
            # While the next candidate runs, this frame must not keep the features alive.
            del run, fitted, extraction, task
            self._retire()

    def _look_inside(self, task):
        """Score by metrics that look into the network, here: this process may own its device."""
        result = score_task(task)
        for cell in result.cells.values():
            if cell.metric is not None:
                # Its parts are kept for the pool; the network need not be.
                cell.metric.set_params(backbone=None)
        self._record(result)

    def _extract(self, index, split, **options):
        name, candidate = self.candidates[index]
        start = time.perf_counter()
        try:
            fit_params, options = self.fit_params[index], {"name": name, **options}
            if split is None:
                run = self._layer_groups.extract(
                    index, candidate, self.extractor, fit_params, **options
                )
            else:
                run = self.extractor.fit_extract(candidate, fit_params, **options)
            self.results.add_run(index, run[1])
            return run
        except Exception as error:
            if self.raise_errors:
                error.add_note(f"Raised by candidate {name!r} of the selection.")
                raise
            self.results.fail(index, error, split)
            return None
        finally:
            self.results.extraction_time[index] += time.perf_counter() - start

    def _take(self, result):
        self._record(result)
        self._running[result.candidate].n_pending -= 1
        self._retire()

    def _record(self, result):
        self.results.add(result)
        if self.raise_errors:
            for metric, cell in result.cells.items():
                if cell.error is not None:
                    name, _ = self.candidates[result.candidate]
                    cell.error.add_note(f"Raised when {metric!r} scored candidate {name!r}.")
                    raise cell.error

    def _retire(self):
        """Let go of candidates that are scored in every split, unless one is the new leader."""
        for index in [i for i, run in self._running.items() if run.n_pending == 0]:
            run = self._running.pop(index)
            self.progress.end(index)
            if self.keep_candidates:
                self.fitted[index] = run.fitted
            if self.deciding is None:
                continue
            score = self.results.running_mean(index, self.deciding)
            best = np.nan
            if self.leader is not None:
                best = self.results.running_mean(self.leader.index, self.deciding)
            if not np.isnan(score) and (np.isnan(best) or score > best):
                self.leader = run
