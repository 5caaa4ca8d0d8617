"""What a race is given, checked before any work starts: template, costs and validation rows."""

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.model_selection import check_cv

from ..utils._measures import default_scoring, get_measures
from ..utils._target import encode_target
from ._halving_metadata import rows_of_weight

__all__ = [
    "check_costs",
    "check_template",
    "choose_measure",
    "refuse_sparse",
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


def refuse_sparse(**data):
    """Refuse data that candidates may take, and fine-tuning does not.

    Parameters
    ----------
    **data : array-like or None
        By name.

    Raises
    ------
    TypeError
        If they are sparse.
    """
    for name, X in data.items():
        if issparse(X):
            raise TypeError(
                f"{name!r} must be dense, as fine-tuning takes no sparse data. Got a sparse "
                f"{type(X).__name__} of shape {X.shape} instead; {name}.toarray() is dense."
            )


def check_costs(cost, names):
    """Check what a pass of one row through each candidate costs, where that is given.

    Parameters
    ----------
    cost : str or mapping
        The parameter.
    names : list of str
        The candidates.

    Raises
    ------
    ValueError
        If a candidate has no cost, or one that is not positive.
    """
    if not isinstance(cost, Mapping):
        return
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
        If ``cv`` gives no parts, or rows that are not there.
    """
    n_samples = len(y)
    kept = np.ones(n_samples, dtype=bool) if kept is None else kept
    n_kept = int(kept.sum())
    if cv is None:
        return _dealt(codes, n_kept, _N_FOLDS, seed, _ENOUGH_ROWS)
    if isinstance(cv, Integral):
        return _dealt(codes, n_kept, int(cv), seed, n_kept)
    if hasattr(cv, "split"):
        splitter = check_cv(cv, y, classifier=codes is not None)
        given = _split(splitter, y, split_params or {})
    else:
        given = list(cv)
    parts = []
    for number, split in enumerate(given):
        part = tuple(
            np.flatnonzero(r) if np.asarray(r).dtype == bool else np.asarray(r) for r in split
        )
        if len(part) != 2 or not all(
            r.ndim == 1 and r.size and r.dtype.kind in "iu" and 0 <= r.min() <= r.max() < n_samples
            for r in part
        ):
            raise ValueError(
                f"Split {number} of 'cv' must be rows to train on and rows to judge by, from 0 to "
                f"{n_samples - 1}, some of each. Got {split!r} instead."
            )
        parts.append(part)
    if not parts:
        raise ValueError("'cv' must have at least one split. Got none.")
    return rows_of_weight(parts, kept)


def _split(splitter, y, split_params):
    """Let a splitter split, and say of what it refuses that 'cv' is to blame."""
    try:
        return list(splitter.split(np.zeros((len(y), 1)), y, **split_params))
    except ValueError as error:
        raise ValueError(f"'cv' cannot split these {len(y)} samples: {error}") from error


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
