"""What a search is given, checked before any work starts, and how trials are judged on it."""

import warnings
from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import check_cv

from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._fit_data import probe_of
from sktransfer.finetune._inputs import read_through, take
from sktransfer.finetune._rows import validation_rows
from sktransfer.finetune._search_sampling import import_optuna, seed_for
from sktransfer.finetune._search_space import SearchSpace
from sktransfer.finetune._search_trial import SearchData
from sktransfer.finetune._sources import is_network, make_source
from sktransfer.utils._measures import (
    default_scoring,
    evaluate,
    get_measures,
    knows_its_needs,
)

__all__ = [
    "check_measures",
    "check_network",
    "checked_data",
    "checked_settings",
    "with_splits",
]


def checked_settings(search):
    """Check parameters of a search that scikit-learn's constraints say nothing of.

    Parameters
    ----------
    search : FineTuneSearchCV
        The search.

    Returns
    -------
    measures : dict of str to callable
        Scorers.
    refit_measure : str
        Which of them decides on the best estimator.
    space : SearchSpace
        What parameters may be.

    Raises
    ------
    ImportError
        If Optuna is not installed.
    TypeError, ValueError
        If something makes no sense.
    """
    import_optuna()
    if not isinstance(search.estimator, FineTuneEstimator):
        raise TypeError(
            "'estimator' must be a FineTuneClassifier or a FineTuneRegressor, whose training "
            f"can be followed; got {search.estimator!r}."
        )
    scoring = search.scoring
    measures = get_measures(default_scoring(search.estimator)[0] if scoring is None else scoring)
    if isinstance(search.refit, str) and search.refit not in measures:
        raise ValueError(
            f"'refit' is {search.refit!r}, which is none of the measures in 'scoring': "
            f"{', '.join(map(repr, measures))}."
        )
    refit_measure = search.refit if isinstance(search.refit, str) else next(iter(measures))
    return measures, refit_measure, SearchSpace(search.param_distributions, search.estimator)


def checked_data(estimator, space, X, y, sample_weight, X_val, y_val):
    """Check data as a fit of the estimator would, without a fit.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Whose data they are.
    space : SearchSpace, or other container of str
        Which of its parameters are not known yet.
    X, y, sample_weight, X_val, y_val
        As ``fit`` takes them.

    Returns
    -------
    data : SearchData
        Without splits. Rows of weight zero are left out.
    target : Target
        Target of the rows.
    kept : ndarray of bool
        Which of the rows that were given they are.

    Raises
    ------
    ValueError
        If a fit would not take them.
    """
    _, data = probe_of(estimator, space, X, y, sample_weight, X_val, y_val)
    rows, y = data.rows, data.y
    kept = np.zeros(len(y), dtype=bool)
    kept[rows] = True
    if not hasattr(X, "__getitem__"):
        X = np.asarray(X)
    if len(rows) < len(y):
        X, y = take(X, rows), y[rows]
    return SearchData(X, y, data.weights, X_val, data.y_val), data.target, kept


def check_network(estimator, space, **data):
    """See that the network takes the data, unless the search is for the network too.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Whose network it is.
    space : SearchSpace
        What is searched for.
    **data : array or sequence of shape (n_samples, ...), or None
        By name; the first are those to train on.

    Raises
    ------
    ValueError
        If it does not; if they can't be read, with their name.
    """
    backbone = estimator.backbone
    if any(name.partition("__")[0] == "backbone" for name in space.distributions):
        return
    if not is_network(backbone) and (estimator.train == "head" or "train" in space):
        return
    # What is warned of here will be warned of in training as well.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = make_source(
            backbone,
            next(iter(data.values())),
            device="cpu",
            trainable=True,
            caller=type(estimator).__name__,
        )
        read_through(source, **data)


def with_splits(data, target, kept, *, estimator, cv, validation_fraction, seed):
    """Divide the rows into those to train on and those to judge by.

    Parameters
    ----------
    data : SearchData
        Data without splits; with data to judge by, there are none.
    target : Target
        Target of the rows.
    kept : ndarray of bool
        Which of the rows that were given they are.
    estimator : estimator
        Its kind decides whether splits are stratified.
    cv : int, splitter, iterable or None
        None holds out a share of the rows, of every class that can spare them.
    validation_fraction : float
        That share.
    seed : int
        The seed of the search.

    Returns
    -------
    data : SearchData
        The same, with its splits.

    Raises
    ------
    ValueError
        If no row can be held out, or `cv` is given beside data to judge by.
    """
    if data.X_val is not None:
        if cv is not None:
            raise ValueError(
                "Trials are judged either by 'X_val' and 'y_val', or on the splits of 'cv'; both "
                "are given."
            )
        return data
    if cv is None:
        seeds = [seed_for(seed, "rows")]
        held = validation_rows(target.codes, target.n_samples, validation_fraction, seeds)
        if not len(held):
            raise ValueError(
                "No row can be held out to judge trials by, as no class has more than one "
                f"(n_samples = {target.n_samples}): give 'X_val' and 'y_val'."
            )
        data.splits = [(np.setdiff1d(np.arange(target.n_samples), held), held)]
        return data
    if hasattr(cv, "split") or isinstance(cv, Integral):
        splitter = check_cv(cv, data.y, classifier=is_classifier(estimator))
        places = np.zeros((target.n_samples, 1))  # splitters look at the number of rows alone
        try:
            data.splits = [tuple(split) for split in splitter.split(places, data.y)]
        except ValueError as error:
            raise ValueError(
                f"'cv' is {cv!r}, which cannot split these {target.n_samples} rows: {error}"
            ) from error
    else:
        data.splits = [_places(split, number, kept) for number, split in enumerate(cv)]
    if not data.splits:
        raise ValueError("'cv' gives no split.")
    return data


def _places(split, number, kept):
    """Find the rows of a split that was given, where rows of weight zero have been left out."""
    place_of, parts = np.cumsum(kept) - 1, []
    if not isinstance(split, list | tuple | np.ndarray) or len(split) != 2:
        raise ValueError(
            f"Split {number} of 'cv' must be a pair of rows to train on and rows to judge by; got "
            f"{split!r}."
        )
    for part, what in zip(split, ("train on", "judge by"), strict=True):
        part = np.asarray(part)
        if part.dtype == bool and part.shape == kept.shape:
            part = np.flatnonzero(part)
        if part.ndim != 1 or (len(part) and part.dtype.kind not in "iu"):
            raise ValueError(
                f"Split {number} of 'cv' must have the numbers of rows to {what}, or say of each "
                f"of {len(kept)} rows whether it is one; got {part.dtype} of shape {part.shape}."
            )
        if len(part) and not 0 <= part.min() <= part.max() < len(kept):
            raise ValueError(
                f"Split {number} of 'cv' has the rows {part.min()} to {part.max()} to {what}; they "
                f"must be from 0 to {len(kept) - 1}."
            )
        part = part[kept[part]] if len(part) else part
        if not len(part):
            raise ValueError(f"Split {number} of 'cv' has no rows to {what}.")
        parts.append(place_of[part])
    return tuple(parts)


def check_measures(measures, data, estimator):
    """See, before any network is trained, that the measures are defined on all splits.

    A classifier that always says the same stands for the network. Functions of the caller's own are
    left alone, as they may look for anything in an estimator.

    Parameters
    ----------
    measures : dict of str to callable
        The measures.
    data : SearchData
        Data.
    estimator : estimator
        The kind of estimator.

    Raises
    ------
    ValueError
        If a measure is not defined for the target, with the reason.
    """
    for split in range(data.n_splits):
        trained, _, y_test = data.part(split)
        if data.splits is None:
            place = "'X_val' and 'y_val'"
        else:
            place = "the rows that are held out" if data.n_splits == 1 else f"split {split}"
        dummy = DummyClassifier() if is_classifier(estimator) else DummyRegressor()
        dummy.fit(np.zeros((len(trained.y), 1)), trained.y)
        for name, measure in measures.items():
            if not knows_its_needs(measure):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is said of the dummy is not of interest
                try:
                    evaluate(dummy, np.zeros((len(y_test), 1)), y_test, {name: measure})
                except (ValueError, AttributeError) as error:
                    raise ValueError(
                        f"'scoring' is {name!r}, by which trials can't be judged on {place}: "
                        f"{error}"
                    ) from error
