"""The work of a robustness study: one candidate on one subset, by all metrics, anywhere."""

import hashlib
import json
import pickle
import re
from dataclasses import dataclass, field

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import clone

from ..utils._heard import heard_warnings
from ..utils._one_thread import one_thread
from ..utils._sklearn import _num_samples, _safe_indexing
from ._extraction import Extractor
from ._metric_collection import is_relative_to_pool, needs_probabilities
from ._results import reason_of
from ._scoring import ScoringTask, score_task

__all__ = [
    "CellResult",
    "Unit",
    "UnitResult",
    "derived_seed",
    "failed_unit",
    "parts_of",
    "run_unit",
    "short_reason",
    "takes_seeds",
    "with_parts",
    "with_seed",
]

_SIMPLE = (type(None), bool, int, float, str)


# -- seeds -----------------------------------------------------------------------------------------


def derived_seed(*parts):
    """Give a seed that depends on what it is for, and on nothing else.

    Parameters
    ----------
    *parts : str, int or float
        What it is for.

    Returns
    -------
    seed : int
        In [0, 2**31).
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _seeds_to_draw(estimator):
    return [
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    ]


def takes_seeds(estimator):
    """Tell whether an estimator would draw a seed in each fit.

    Parameters
    ----------
    estimator : estimator
        A metric or a candidate.

    Returns
    -------
    takes : bool
        Whether a ``random_state``, its own or that of an estimator in it, is None.
    """
    return bool(_seeds_to_draw(estimator))


def with_seed(estimator, *parts):
    """Give an estimator the seeds that it would draw.

    Parameters
    ----------
    estimator : estimator
        A metric or a candidate; never changed.
    *parts : str, int or float
        What the seed is for.

    Returns
    -------
    estimator : estimator
        A clone, or the same object if it draws none.
    """
    names = _seeds_to_draw(estimator)
    if not names:
        return estimator
    seeds = {name: derived_seed(*parts, name) for name in names}
    return clone(estimator).set_params(**seeds)


# -- parts of scores that are relative to a pool ---------------------------------------------------


def parts_of(metric):
    """Give what a fitted metric has to say when the candidates of a pool are combined.

    Parameters
    ----------
    metric : fitted metric
        The metric.

    Returns
    -------
    parts : str
        Its fitted attributes that are numbers or texts, or dictionaries or lists of them, as JSON,
        in which every float is what it was.
    """
    parts = {}
    for name, value in sorted(vars(metric).items()):
        if name.endswith("_") and not name.startswith("_"):
            plain, is_plain = _plain(value)
            if is_plain:
                parts[name] = plain
    return json.dumps(parts)


def with_parts(metric, parts):
    """Give a metric what another one had when it was fitted.

    Parameters
    ----------
    metric : metric
        Not fitted, and never changed.
    parts : str
        From :func:`parts_of`.

    Returns
    -------
    metric : metric
        A clone with the parts for fitted attributes.
    """
    fitted = clone(metric)
    for name, value in json.loads(parts).items():
        setattr(fitted, name, value)
    return fitted


def _plain(value):
    """Turn a value into what JSON knows, and tell whether that is possible."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _SIMPLE):
        return value, True
    if isinstance(value, dict):
        items = {key: _plain(item) for key, item in value.items()}
        is_plain = all(isinstance(key, str) and known for key, (_, known) in items.items())
        return {key: item for key, (item, _) in items.items()}, is_plain
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return [item for item, _ in items], all(known for _, known in items)
    return None, False


# -- units -----------------------------------------------------------------------------------------


class Rows:
    """Some rows of data, which alone travel to another process.

    Parameters
    ----------
    data : array-like or None
        All of the data.
    rows : ndarray of int
        The rows.
    """

    def __init__(self, data, rows):
        self.data = data
        self.rows = rows

    def select(self):
        """Give the rows; an array in the same order in memory, wherever it came from.

        Returns
        -------
        data : array-like or None
            The rows.
        """
        if self.data is None or self.rows is None or self._are_all():
            rows = self.data
        elif isinstance(self.data, np.ndarray):
            rows = np.take(np.asarray(self.data), self.rows, axis=0)
        else:
            return _safe_indexing(self.data, self.rows)
        is_plain = isinstance(rows, np.ndarray) and not rows.dtype.hasobject
        return np.ascontiguousarray(rows) if is_plain else rows

    def _are_all(self):
        return len(self.rows) == _num_samples(self.data) and np.all(np.diff(self.rows) == 1)

    def __getstate__(self):
        return {"data": self.select(), "rows": None}


@dataclass
class Unit:
    """One candidate on one subset, with all that is needed to score it.

    Attributes
    ----------
    candidate : str
        Its name.
    fraction : float
        Share of the target's samples.
    repeat : int
        Number of the repeat.
    n_samples : int
        Size of the subset.
    metrics : dict of str to metric
        The metrics, with their seeds.
    y : Rows
        The labels.
    features, probabilities : Rows or None
        What a candidate gave that learns nothing from the data.
    inputs : Rows or None
        The data, for a candidate that learns from them, and for metrics that look into a network.
    learner : transformer or None
        A candidate that learns from the subset, with its seeds.
    backbone : fitted transformer or None
        A candidate that learns nothing, for metrics that look into its network.
    source_centroids : ndarray or None
        Mean features of the candidate's source classes, if it tells.
    keep_errors : bool
        Whether exceptions are part of the result, beside their words.
    config : dict
        Settings of scikit-learn where the unit was made.
    """

    candidate: str
    fraction: float
    repeat: int
    n_samples: int
    metrics: dict
    y: Rows
    features: Rows | None = None
    probabilities: Rows | None = None
    inputs: Rows | None = None
    learner: object = None
    backbone: object = None
    source_centroids: np.ndarray | None = None
    keep_errors: bool = False
    config: dict = field(default_factory=get_config)


@dataclass
class CellResult:
    """One metric of a unit.

    Attributes
    ----------
    score : float
        The score, or NaN.
    reason : str
        Why there is none.
    parts : str or None
        What a metric that is relative to a pool leaves for the combination.
    seconds : float
        Time taken.
    warnings : list of (category, str)
        What the metric warned of.
    error : Exception or None
        Where it is asked for.
    """

    score: float = np.nan
    reason: str = ""
    parts: str | None = None
    seconds: float = 0.0
    warnings: list = field(default_factory=list)
    error: Exception | None = None


@dataclass
class UnitResult:
    """What became of a unit.

    Attributes
    ----------
    candidate : str
        Its name.
    fraction : float
        Share of the target's samples.
    repeat : int
        Number of the repeat.
    n_samples : int
        Size of the subset.
    cells : dict of str to CellResult
        By metric.
    warnings : list of (category, str)
        What the candidate warned of when it was fitted on the subset.
    """

    candidate: str
    fraction: float
    repeat: int
    n_samples: int
    cells: dict
    warnings: list = field(default_factory=list)


def run_unit(unit):
    """Score one candidate on one subset by all metrics, with one thread.

    Parameters
    ----------
    unit : Unit
        The work.

    Returns
    -------
    result : UnitResult
        Scores, or the reasons why there are none.
    """
    with config_context(**unit.config), one_thread():
        warnings = []
        try:
            task = _task_of(unit, warnings)
        except Exception as error:
            result = failed_unit(unit, error)
        else:
            scored = score_task(task, heard_warnings)
            cells = {name: _cell_result(cell, unit) for name, cell in scored.cells.items()}
            result = _result_of(unit, cells)
    result.warnings = warnings
    return result


def failed_unit(unit, error):
    """Say that a unit could not be worked on.

    Parameters
    ----------
    unit : Unit
        The work.
    error : Exception
        What was raised.

    Returns
    -------
    result : UnitResult
        Without scores.
    """
    cell = CellResult(reason=short_reason(error), error=_kept(error, unit))
    return _result_of(unit, dict.fromkeys(unit.metrics, cell))


def short_reason(error):
    """Say in one line why something failed, the same in every process.

    Parameters
    ----------
    error : Exception
        What was raised.

    Returns
    -------
    reason : str
        The reason, without addresses in memory.
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", reason_of(error))


def _result_of(unit, cells):
    return UnitResult(unit.candidate, unit.fraction, unit.repeat, unit.n_samples, cells)


def _task_of(unit, warnings):
    y = unit.y.select()
    inputs = None if unit.inputs is None else unit.inputs.select()
    task = ScoringTask(
        candidate=0,
        split=0,
        metrics=unit.metrics,
        features=None if unit.features is None else unit.features.select(),
        probabilities=None if unit.probabilities is None else unit.probabilities.select(),
        y=y,
        sample_weights={},
        keep=frozenset(name for name, m in unit.metrics.items() if is_relative_to_pool(m)),
        inputs=inputs,
        backbone=unit.backbone,
        source_centroids=unit.source_centroids,
    )
    if unit.learner is not None:
        asked = any(map(needs_probabilities, unit.metrics.values()))
        extractor = Extractor(inputs, y, len(y), None, asked)
        with heard_warnings() as heard:
            fitted, found = extractor.fit_extract(unit.learner, {"fit": {}, "fit_transform": {}})
        warnings += heard
        whole = np.arange(len(y))
        task.features = Rows(found.features, whole).select()
        task.probabilities = Rows(found.probabilities, whole).select()
        task.backbone = fitted
        task.source_centroids = getattr(fitted, "source_centroids", None)
    return task


def _cell_result(cell, unit):
    result = CellResult(seconds=cell.seconds, warnings=cell.warnings)
    if cell.error is not None:
        result.reason = short_reason(cell.error) or "The score is NaN."
        result.error = _kept(cell.error, unit)
        return result
    result.score = cell.score
    if cell.metric is not None:
        result.parts = parts_of(cell.metric)
    return result


def _kept(error, unit):
    """Give an exception, if it is wanted and comes out of another process as it went in."""
    if not unit.keep_errors:
        return None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(short_reason(error))
    return error
