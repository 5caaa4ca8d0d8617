"""What a race is given, checked before any work starts: template, costs and validation rows."""

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_regressor
from sklearn.model_selection import check_cv

from ..backbones._datasets import is_dataset
from ..utils._measures import default_scoring, get_measures
from ..utils._target import encode_target
from ._halving_metadata import rows_of_weight
from ._metric_collection import validated_metrics
from ._validation import _split

__all__ = [
    "check_costs",
    "check_data",
    "check_template",
    "choose_measure",
    "metrics_for",
    "validation_parts",
]

_N_FOLDS = 4
# With fewer rows to judge by, all folds are used.
_ENOUGH_ROWS = 200
COSTS = ("multiply_adds", "n_parameters", "equal")


def check_template(estimator, y, candidates):
    """Give the estimator that trains, and see that it can train all candidates.

    Parameters
    ----------
    estimator : FineTuneClassifier, FineTuneRegressor or None
        The parameter; None makes one with its defaults, for the kind of target.
    y : ndarray
        The target.
    candidates : list of (str, transformer)
        The candidates.

    Returns
    -------
    template : FineTuneClassifier or FineTuneRegressor
        What trains; its backbone is that of the first candidate.

    Raises
    ------
    ImportError
        If torch or skorch is not installed.
    TypeError
        If it is something else.
    ValueError
        If it trains from scratch, or a candidate has no weights to be trained.
    """
    from ..finetune import FineTuneClassifier, FineTuneRegressor
    from ..finetune._estimator import FineTuneEstimator
    from ..finetune._sources import is_network

    if estimator is None:
        target = encode_target(
            y, tasks=("classification", "regression"), name="HalvingTransferabilitySelector"
        )
        kind = FineTuneClassifier if target.task == "classification" else FineTuneRegressor
        estimator = kind(None)
    if not isinstance(estimator, FineTuneEstimator):
        raise TypeError(
            "'estimator' must be a FineTuneClassifier, a FineTuneRegressor or None. "
            f"Got {estimator!r} instead."
        )
    if estimator.from_scratch:
        raise ValueError(
            "'estimator' has from_scratch=True, which would throw away the weights that the "
            "candidates differ by."
        )
    for name, candidate in candidates:
        if estimator.train != "head" and not is_network(candidate):
            raise ValueError(
                f"Candidate {name!r} must be a torch backbone for train={estimator.train!r} of "
                f"'estimator', which trains the weights of a network. Got {candidate!r} instead; "
                "with train='head' any transformer will do."
            )
    parameters = estimator.get_params(deep=False)
    parameters["backbone"] = candidates[0][1]
    return type(estimator)(**parameters)


def choose_measure(scoring, target_measure, template):
    """Choose the measure on the rows to judge by.

    Parameters
    ----------
    scoring : str, callable or None
        The parameter; None is `target_measure`, or without one what suits the template.
    target_measure : str or None
        The parameter.
    template : FineTuneClassifier or FineTuneRegressor
        What trains.

    Returns
    -------
    measure : (str, callable)
        Name and scorer.

    Raises
    ------
    ValueError
        If there is no measure of this name.
    """
    if scoring is None and target_measure is not None:
        # The same for two classes, and defined for more.
        scoring = "roc_auc_ovr" if target_measure == "roc_auc" else target_measure
    if scoring is None:
        scoring = default_scoring(template)[0]
    (measure,) = get_measures(scoring).items()
    return measure


def metrics_for(template, metric):
    """Let metrics read the target as the template does: whole numbers may be values.

    Parameters
    ----------
    template : FineTuneClassifier or FineTuneRegressor
        What trains.
    metric : str, metric, list, tuple or dict of these
        The metrics. What one says of its task is left as it is.

    Returns
    -------
    metrics : dict of str to metric
        By name; clones where the task was to be found.

    Raises
    ------
    ValueError
        If a metric has no definition for the task, or is none.
    """
    task = "regression" if is_regressor(template) else "classification"
    metrics = validated_metrics(metric)
    for name, metric in metrics.items():
        tasks = getattr(metric, "tasks", (task,))
        if task not in tasks:
            raise ValueError(
                f"{type(metric).__name__} in 'metric' is defined for {' and '.join(tasks)} "
                f"targets; got a {task} target y, as {type(template).__name__} takes it."
            )
        if metric.get_params(deep=False).get("task") == "auto":
            metrics[name] = clone(metric).set_params(task=task)
    return metrics


def check_data(X, X_val, y_val):
    """Refuse data that are missing, or that candidates may take and fine-tuning does not.

    Parameters
    ----------
    X, X_val, y_val : array-like or None
        As passed to fit.

    Raises
    ------
    TypeError
        If they are sparse.
    ValueError
        If there are no data, or there is no target of those to judge by.
    """
    if X is None:
        raise ValueError("'X' is needed. Got None.")
    if X_val is not None and y_val is None and not is_dataset(X_val):
        raise ValueError(
            "'X_val' is given and 'y_val' of HalvingTransferabilitySelector.fit is not; they "
            "belong together."
        )
    for name, data in (("X", X), ("X_val", X_val)):
        if issparse(data):
            raise TypeError(
                f"{name!r} must be dense, as fine-tuning takes no sparse data. Got a sparse "
                f"{type(data).__name__} of shape {data.shape} instead; {name}.toarray() is dense."
            )


def check_costs(cost, names, known):
    """Check what a pass of one row through each candidate costs, where that is given.

    Parameters
    ----------
    cost : str or mapping
        The parameter.
    names : list of str
        The candidates that take part.
    known : list of str
        All candidates, with those that are dropped.

    Raises
    ------
    ValueError
        If a candidate has no cost, or one that is not positive; if there is one of no candidate.
    """
    if not isinstance(cost, Mapping):
        return
    unknown = [name for name in cost if name not in known]
    if unknown:
        raise ValueError(
            "'cost' must have numbers for the candidates alone, "
            f"{', '.join(map(repr, known))}. Got one for {unknown[0]!r}."
        )
    for name in names:
        value = cost.get(name)
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < np.inf:
            raise ValueError(
                "'cost' must be a name or have a positive number for each candidate. "
                f"Got {value!r} for {name!r}."
            )


def validation_parts(cv, y, codes, seed, kept=None, split_params=None):
    """Divide the rows into those to train on and those to judge by.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        The parameter. None deals the rows of each class to four folds, and takes as many of them,
        one after the other, as give 200 rows to judge by: all four of few rows, one of 800.
    y : ndarray
        The target.
    codes : ndarray of shape (n_kept,) or None
        Classes, numbered from 0; None for values.
    seed : int
        Seed of the folds.
    kept : ndarray of bool of shape (n_samples,), default=None
        Which rows have a positive weight; None for all. The others take no part.
    split_params : dict, default=None
        Further parameters of a splitter.

    Returns
    -------
    parts : list of (ndarray of int, ndarray of int)
        Rows to train on and to judge by, numbers of rows that are kept. Empty if no row can be
        spared, as each class has one.

    Raises
    ------
    ValueError
        If ``cv`` gives no parts or more than there are rows, rows that are not there, are there
        twice, or are both trained on and judged by; if a splitter can't split.
    """
    n_samples = len(y)
    kept = np.ones(n_samples, dtype=bool) if kept is None else kept
    n_kept = int(kept.sum())
    if cv is None:
        return _dealt(codes, n_kept, _N_FOLDS, seed, _ENOUGH_ROWS)
    if isinstance(cv, Integral):
        if not 2 <= cv <= n_kept:
            raise ValueError(
                f"'cv' must be a number of folds from 2 to the number of rows, {n_kept}. Got {cv}."
            )
        return _dealt(codes, n_kept, int(cv), seed, n_kept)
    if hasattr(cv, "split"):
        splitter = check_cv(cv, y, classifier=codes is not None)
        given = _split(splitter, np.zeros((n_samples, 1)), y, split_params or {})
    else:
        given = cv
    parts = [_part(split, f"Split {i} of 'cv'", n_samples) for i, split in enumerate(given)]
    if not parts:
        raise ValueError("'cv' must have at least one split. Got none.")
    return rows_of_weight(parts, kept)


def _part(split, name, n_samples):
    """Give the rows to train on and to judge by, each once and in one of both."""
    if not isinstance(split, list | tuple | np.ndarray) or len(split) != 2:
        raise ValueError(
            f"{name} must be a pair of rows to train on and rows to judge by. Got an object of "
            f"type {type(split).__name__} instead."
        )
    train = _rows(split[0], name, "train on", n_samples)
    judge = _rows(split[1], name, "judge by", n_samples)
    n_both = len(np.intersect1d(train, judge))
    if n_both:
        raise ValueError(
            f"{name} must judge by rows that it does not train on. Got {n_both} rows in both."
        )
    return train, judge


def _rows(given, name, what, n_samples):
    try:
        rows = np.asarray(given)
    except ValueError:  # lists of several lengths
        rows = np.array(given, dtype=object)
    if rows.shape == (n_samples,) and rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must have numbers of rows to {what}, or say of each of {n_samples} rows "
            f"whether it is one. Got {rows.dtype} of shape {rows.shape}."
        )
    if not rows.size:
        raise ValueError(f"{name} must have rows to {what}. Got none.")
    outside = rows[(rows < 0) | (rows >= n_samples)]
    if outside.size:
        raise ValueError(
            f"{name} must have rows from 0 to {n_samples - 1} to {what}. Got row {outside[0]}."
        )
    found, counts = np.unique(rows, return_counts=True)
    if counts.max() > 1:
        raise ValueError(
            f"{name} must have each row to {what} once. "
            f"Got row {found[counts.argmax()]} {counts.max()} times."
        )
    return rows


def _dealt(codes, n_samples, n_folds, seed, enough):
    """Deal rows to folds, class by class; the single row of a class is always trained on."""
    random = np.random.default_rng([seed, 1])
    codes = np.zeros(n_samples, dtype=np.intp) if codes is None else codes
    fold_of = np.full(n_samples, -1)
    n_dealt = 0
    for code in np.unique(codes):
        members = random.permutation(np.flatnonzero(codes == code))
        if len(members) > 1:
            fold_of[members] = (n_dealt + np.arange(len(members))) % n_folds
            n_dealt += len(members)
    parts, n_judged = [], 0
    for fold in range(n_folds):
        judge = np.flatnonzero(fold_of == fold)
        train = np.flatnonzero(fold_of != fold)
        if len(judge) and len(train) and n_judged < enough:
            parts.append((train, judge))
            n_judged += len(judge)
    return parts
