"""Measures of a fitted estimator on test data: by name, and several from one prediction."""

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_regressor
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from ._sklearn import _BaseScorer, _num_samples
from ._target import as_target_array

__all__ = ["MEASURES", "default_scoring", "evaluate", "get_measures", "knows_its_needs"]


def default_scoring(estimator):
    """Name the measures of an estimator that nobody has chosen others for.

    Parameters
    ----------
    estimator : estimator
        A classifier or a regressor.

    Returns
    -------
    names : list of str
        The first one is what scikit-learn's own ``score`` gives.
    """
    if is_regressor(estimator):
        return ["r2", "neg_mean_squared_error"]
    return ["accuracy", "roc_auc_ovr"]


def get_measures(scoring):
    """Give scorers by name.

    Parameters
    ----------
    scoring : str, callable, list or tuple of str, or dict of str to str or callable
        One measure or several. "accuracy", "balanced_accuracy", "roc_auc_ovr" and "neg_log_loss"
        are those of this module, which know what to do with classes that are not in the target, or
        that the classifier has never seen; other names are those of scikit-learn. A callable is
        called with ``(estimator, X, y)`` and gives a number, greater is better.

    Returns
    -------
    measures : dict of str to callable
        Scorers in the order given. A callable without a name of its own is called "score".

    Raises
    ------
    TypeError
        If `scoring` is none of these.
    ValueError
        If a name is unknown or given twice, or there is none.

    Examples
    --------
    >>> from sktransfer.utils._measures import get_measures
    >>> list(get_measures(["accuracy", "roc_auc_ovr"]))
    ['accuracy', 'roc_auc_ovr']
    """
    if isinstance(scoring, str):
        return {scoring: _named(scoring)}
    if isinstance(scoring, dict):
        measures = {name: _one(value, name) for name, value in scoring.items()}
    elif isinstance(scoring, list | tuple):
        measures = {name: _one(name, None) for name in scoring}
        if len(measures) < len(scoring):
            raise ValueError(f"'scoring' names a measure twice: {list(scoring)}.")
    elif callable(scoring):
        function = getattr(scoring, "_score_func", scoring)
        name = getattr(function, "__name__", "score")
        return {name if name.isidentifier() else "score": scoring}
    else:
        raise TypeError(
            "'scoring' must be the name of a measure, a scorer, a list of names, or a dict of "
            f"names; got {scoring!r} of type {type(scoring).__name__}."
        )
    if not measures:
        raise ValueError(f"'scoring' names no measure; got {scoring!r}.")
    return measures


def _one(value, name):
    """Give the scorer of an entry of a list (name None) or of a dict."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"The names in 'scoring' must be strings; got {name!r}.")
    if isinstance(value, str):
        return _named(value)
    if name is not None and callable(value):
        return value
    raise TypeError(
        f"'scoring' must hold names of measures, or be a dict of names to scorers; got {value!r}."
    )


def _named(name):
    if name in MEASURES:
        return MEASURES[name]
    if name not in get_scorer_names():
        raise ValueError(
            f"'scoring' is {name!r}, which is no measure: it must be one of "
            f"{', '.join(map(repr, MEASURES))}, or a name in sklearn.metrics.get_scorer_names()."
        )
    return get_scorer(name)


def evaluate(estimator, X, y, measures):
    """Compute several measures, with as few predictions as they can do with.

    Each of ``predict``, ``predict_proba`` and ``decision_function`` is called once at most. Of a
    classifier of this package, alone or at the end of a pipeline, ``predict`` follows from
    ``predict_proba``, so that the network runs once. A scorer that is a function of the caller's
    own is given the estimator itself.

    Parameters
    ----------
    estimator : fitted estimator
        What is measured.
    X : array-like of shape (n_samples, ...)
        Test data.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Their target.
    measures : dict of str to callable
        As :func:`get_measures` gives them.

    Returns
    -------
    values : dict of str to float
        Greater is better.

    Raises
    ------
    ValueError
        If a measure is not defined for these data.
    TypeError
        If a scorer gives something else than a number.
    """
    # Under the name of the estimator, for messages.
    remembering = type(type(estimator).__name__, (_Remembering,), {})(estimator, X)
    values = {}
    for name, measure in measures.items():
        value = measure(remembering if knows_its_needs(measure) else estimator, X, y)
        try:
            value = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The measure {name!r} must give a number; got {value!r}, of type "
                f"{type(value).__name__}."
            ) from error
        if np.isnan(value):
            raise ValueError(
                f"The measure {name!r} gives NaN for {type(estimator).__name__} on these "
                f"{_num_samples(X)} samples: it is not defined for them."
            )
        values[name] = value
    return values


def knows_its_needs(measure):
    """Tell whether a measure asks for predictions alone, of whichever estimator.

    Parameters
    ----------
    measure : callable
        A scorer.

    Returns
    -------
    knows : bool
        False for a function of the caller's own, which may look for anything in an estimator.
    """
    return isinstance(measure, _BaseScorer) or measure in MEASURES.values()


def _has(name):
    return lambda self: hasattr(self._estimator, name)


class _Remembering:
    """Stands for an estimator and predicts once for some data, however often it is asked.

    Parameters
    ----------
    estimator : fitted estimator
        Who predicts.
    X : array-like of shape (n_samples, ...)
        The data whose predictions are kept.
    """

    def __init__(self, estimator, X):
        self._estimator = estimator
        self._X = X
        self._kept = {}

    def __getattr__(self, name):
        return getattr(self._estimator, name)

    @available_if(_has("predict"))
    def predict(self, X):
        """Predict, from the probabilities if that is known to be the same."""
        if not _predicts_most_probable(self._estimator):
            return self._response("predict", X)
        return self._estimator.classes_[self._response("predict_proba", X).argmax(axis=1)]

    @available_if(_has("predict_proba"))
    def predict_proba(self, X):
        """Compute probabilities."""
        return self._response("predict_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X):
        """Compute decisions."""
        return self._response("decision_function", X)

    def _response(self, name, X):
        method = getattr(self._estimator, name)
        if X is not self._X:
            return method(X)
        if name not in self._kept:
            self._kept[name] = method(X)
        return self._kept[name]


def _predicts_most_probable(estimator):
    """Tell whether ``predict`` is known to give the first class of the largest probability."""
    if isinstance(estimator, Pipeline):
        estimator = estimator[-1]
    return getattr(estimator, "_predicts_most_probable", False)


# -- measures ------------------------------------------------------------------------------------


def _labels(estimator, y, measure):
    """Check the labels and give them as a 1-D array."""
    if is_regressor(estimator):
        raise ValueError(
            f"The measure {measure!r} is for classifiers; got the regressor "
            f"{type(estimator).__name__}, for which there are 'r2' and 'neg_mean_squared_error', "
            "for instance."
        )
    y = np.asarray(as_target_array(y))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not len(y):
        raise ValueError(
            f"The measure {measure!r} takes one label per sample, of one sample at least; got y "
            f"of shape {y.shape}."
        )
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list):
        raise ValueError(f"The measure {measure!r} takes a classifier with a single output.")
    if classes is not None and _are_strings(classes) != _are_strings(y):
        kinds = ["strings" if _are_strings(labels) else "numbers" for labels in (y, classes)]
        raise ValueError(
            f"The measure {measure!r} compares labels in y that are {kinds[0]} with classes of the "
            f"classifier that are {kinds[1]}; none could be the same."
        )
    return y


def _are_strings(labels):
    return all(isinstance(label, str) for label in np.asarray(labels).tolist())


def _columns(estimator, y, measure):
    """Give the labels, and for each the column of its class, or -1 if it was never seen."""
    y = _labels(estimator, y, measure)
    column_of = {label: column for column, label in enumerate(estimator.classes_.tolist())}
    columns = np.array([column_of.get(label, -1) for label in y.tolist()])
    return y, columns


def _response(estimator, X, names, measure):
    """Compute what the classifier says of each class."""
    for name in names:
        if hasattr(estimator, name):
            values = np.asarray(getattr(estimator, name)(X))
            break
    else:
        raise ValueError(
            f"The measure {measure!r} needs a classifier with {' or '.join(names)}; "
            f"{type(estimator).__name__} has none."
        )
    if values.ndim == 1:  # decisions between two classes
        values = np.column_stack([-values, values])
    if not np.isfinite(values).all():
        raise ValueError(
            f"The measure {measure!r} is not defined, as {name} gives NaN or infinite values."
        )
    return values


def _accuracy(estimator, X, y):
    """Share of samples whose label is predicted."""
    y = _labels(estimator, y, "accuracy")
    return float(np.mean(np.asarray(estimator.predict(X)) == y))


def _balanced_accuracy(estimator, X, y):
    """Mean, over the classes in y, of the share of their samples that are predicted."""
    y = _labels(estimator, y, "balanced_accuracy")
    right = np.asarray(estimator.predict(X)) == y
    return float(np.mean([right[y == label].mean() for label in np.unique(y)]))


def _roc_auc_ovr(estimator, X, y):
    """Mean, over the classes in y, of the area under the ROC curve of one against the rest.

    Classes of the classifier that are not in y are left out. A class in y that the classifier has
    never seen has probability zero everywhere, which tells nothing: its area is 1/2. If y and the
    classifier have the same two classes, both areas are one and the same.
    """
    y, columns = _columns(estimator, y, "roc_auc_ovr")
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            "The measure 'roc_auc_ovr' needs two classes in y at least; all samples are of class "
            f"{labels.tolist()[0]!r}."
        )
    values = _response(estimator, X, ["predict_proba", "decision_function"], "roc_auc_ovr")
    if len(labels) == 2 and values.shape[1] == 2 and columns.min() >= 0:
        return _area(columns == 1, values[:, 1])
    areas = []
    for label in labels:
        members = y == label
        column = columns[members][0]
        areas.append(0.5 if column < 0 else _area(members, values[:, column]))
    return float(np.mean(areas))


def _area(members, values):
    """Area under the ROC curve: the share of pairs in the right order, ties counting half."""
    n_pairs = members.sum() * (~members).sum()
    n_below = rankdata(values)[members].sum() - members.sum() * (members.sum() + 1) / 2
    return float(n_below / n_pairs)


def _neg_log_loss(estimator, X, y):
    """Mean of the logarithm of the probability of the true class.

    Probabilities are kept off 0 and 1 by the spacing of their numbers, as scikit-learn does it. The
    probability of a class that the classifier has never seen is zero.
    """
    _, columns = _columns(estimator, y, "neg_log_loss")
    values = _response(estimator, X, ["predict_proba"], "neg_log_loss")
    true = np.where(columns < 0, 0, values[np.arange(len(columns)), columns])
    epsilon = np.finfo(values.dtype).eps
    return float(np.mean(np.log(np.clip(true, epsilon, 1 - epsilon))))


MEASURES = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "roc_auc_ovr": _roc_auc_ovr,
    "neg_log_loss": _neg_log_loss,
}
