"""All metrics on the features of one candidate in one split: a task that can run anywhere."""

import os
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..metrics import MetricInputs
from ..utils._sklearn import _safe_indexing
from ._baselines import score_baselines
from ._resampled_scores import resample_scores

__all__ = ["Cell", "ScoringResult", "ScoringTask", "score_features", "score_task"]


@dataclass
class Cell:
    """One metric of one candidate in one split.

    Attributes
    ----------
    score : float
        The score, or NaN.
    error : Exception or None
        Why there is no score.
    metric : fitted metric or None
        Kept only where it is asked for.
    seconds : float
        Time taken. The first metric that needs a decomposition pays for those that share it.
    warnings : list of (category, str)
        Warnings the metric gave.
    saturated : bool
        Whether the metric says that its score carries no information.
    """

    score: float = np.nan
    error: Exception | None = None
    metric: object = None
    seconds: float = 0.0
    warnings: list = field(default_factory=list)
    saturated: bool = False


@dataclass
class ScoringTask:
    """The features of a candidate with all that is needed to score them.

    Attributes
    ----------
    candidate, split : int
        Where the result belongs.
    metrics : dict of str to metric
        The metrics; cloned before they are fitted.
    features, probabilities : ndarray or None
        What the candidate gave; shared by all splits if it is stateless.
    y : ndarray
        The target of these rows.
    sample_weights : dict of str to ndarray or None
        Weights for each metric that asked for them.
    rows : ndarray of int or None
        The rows to score; all if None.
    keep : frozenset of str
        Names of the metrics to return fitted.
    inputs : array-like or None
        The data that the candidate was given, for metrics that look into its network.
    backbone : fitted transformer or None
        The candidate, for the same metrics.
    source_centroids : ndarray of shape (n_source_classes, n_features) or None
        Mean features of the candidate's source classes, if it tells.
    resamples : Resamples or None
        Resamples to score too.
    sampled : ndarray of int or None
        The rows in terms of the whole sample; all if None.
    baselines : dict of str to metric
        What to score beside the metrics, for comparison.
    caller : tuple
        Process and thread that made the task.
    """

    candidate: int
    split: int
    metrics: dict
    features: np.ndarray
    probabilities: np.ndarray | None
    y: np.ndarray
    sample_weights: dict
    rows: np.ndarray | None = None
    keep: frozenset = frozenset()
    inputs: object = None
    backbone: object = None
    source_centroids: np.ndarray | None = None
    resamples: object = None
    sampled: np.ndarray | None = None
    baselines: dict = field(default_factory=dict)
    caller: tuple = field(default_factory=lambda: (os.getpid(), threading.get_ident()))


@dataclass
class ScoringResult:
    """What became of a task.

    Attributes
    ----------
    candidate, split : int
        As in the task.
    cells : dict of str to Cell
        A cell for each metric.
    warnings : list of (category, str)
        Warnings the metrics gave, without repetition.
    seconds : float
        Time taken.
    resampled : dict of str to ResampledScores
        Scores on the resamples by metric, for metrics that have a score.
    baselines : dict of str to (float, str or None)
        Scores of the baselines, with the reason where there is none.
    """

    candidate: int
    split: int
    cells: dict
    warnings: list = field(default_factory=list)
    seconds: float = 0.0
    resampled: dict = field(default_factory=dict)
    baselines: dict = field(default_factory=dict)


def score_task(task, collect_warnings=None):
    """Score one candidate in one split by all metrics, which share one decomposition.

    An exception becomes part of the result, and so do warnings: the caller knows the names of the
    candidates and says in one place what a worker process would say unseen.

    Parameters
    ----------
    task : ScoringTask
        The task.
    collect_warnings : callable, default=None
        Makes a context that collects warnings in a list, of objects with the attributes `category`
        and `message`. None collects them unless this is one of several threads.

    Returns
    -------
    result : ScoringResult
        Scores, or the reasons why there are none.
    """
    start = time.perf_counter()
    result = ScoringResult(task.candidate, task.split, {})
    collect_warnings = collect_warnings or partial(_caught_warnings, task.caller)

    def select(array):
        return array if task.rows is None or array is None else array[task.rows]

    features, probabilities, y = map(select, (task.features, task.probabilities, task.y))
    raw = task.inputs
    if raw is not None and task.rows is not None:
        raw = _safe_indexing(raw, task.rows)
    # Weights reach only the metrics that asked for them, so there are two sets of inputs at most.
    inputs = {}
    for name, metric in task.metrics.items():
        sample_weight = task.sample_weights.get(name)
        begin = time.perf_counter()
        with collect_warnings() as caught:
            try:
                shared = inputs.get(id(sample_weight))
                if shared is None:
                    shared = inputs[id(sample_weight)] = MetricInputs(
                        y,
                        features=features,
                        probabilities=probabilities,
                        sample_weight=select(sample_weight),
                        source_centroids=task.source_centroids,
                        inputs=raw,
                        backbone=task.backbone,
                    )
                fitted = shared.fit(metric)
                saturated = bool(getattr(fitted, "saturated_", False))
                cell = Cell(float(fitted.score_), saturated=saturated)
                if name in task.keep:
                    cell.metric = fitted
                if np.isnan(cell.score):
                    reasons = [str(warning.message) for warning in caught]
                    cell.error = ValueError("; ".join(reasons) or "The score is NaN.")
            except Exception as error:
                cell = Cell(error=error)
        cell.seconds = time.perf_counter() - begin
        result.cells[name] = cell
        cell.warnings = [(warning.category, str(warning.message)) for warning in caught]
        result.warnings = list(dict.fromkeys([*result.warnings, *cell.warnings]))
    if task.baselines:
        shared = inputs.get(id(None)) or MetricInputs(y, features=features)
        plain = {name: m for name, m in task.metrics.items() if name not in task.sample_weights}
        with collect_warnings():  # a baseline warns nobody
            result.baselines = score_baselines(task.baselines, plain, result.cells, shared, y)
    if task.resamples is not None:
        scored = {name: m for name, m in task.metrics.items() if result.cells[name].error is None}
        with collect_warnings():  # they say of every resample what was said of the sample
            result.resampled = resample_scores(task, task.resamples, scored)
    result.seconds = time.perf_counter() - start
    return result


@contextmanager
def _caught_warnings(caller):
    """Collect warnings instead of giving them, but not in one of several threads.

    What collects them belongs to the whole process, so threads would undo each other's changes.
    """
    is_alone = threading.current_thread() is threading.main_thread()
    if not is_alone and caller != (os.getpid(), threading.get_ident()):
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def score_features(extraction, y, metrics, sample_weights=None, *, inputs=None, backbone=None):
    """Fit metrics on all features of one candidate and keep them.

    Parameters
    ----------
    extraction : Extraction
        The features, and probabilities if a metric needs them.
    y : ndarray
        The target.
    metrics : dict of str to metric
        The metrics.
    sample_weights : dict of str to ndarray, default=None
        Weights for the metrics that asked for them.
    inputs : array-like, default=None
        The data that the candidate was given.
    backbone : fitted transformer, default=None
        The candidate.

    Returns
    -------
    cells : dict of str to Cell
        Score and fitted metric, or the error.
    """
    task = ScoringTask(
        candidate=0,
        split=0,
        metrics=metrics,
        features=extraction.features,
        probabilities=extraction.probabilities,
        y=y,
        sample_weights=sample_weights or {},
        keep=frozenset(metrics),
        inputs=inputs,
        backbone=backbone,
        source_centroids=getattr(backbone, "source_centroids", None),
    )
    return score_task(task).cells
