"""Predictions that were made earlier, in the place of the estimator that made them."""

from functools import cache

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from sktransfer.utils._measures import evaluate

__all__ = ["Predictions", "made_up"]


class _PredictedClasses(ClassifierMixin, BaseEstimator):
    """A classifier that knows the probabilities of the test data, and nothing else."""

    _predicts_most_probable = True

    def __init__(self, outputs, classes_):
        self._outputs = outputs
        self.classes_ = classes_

    def predict_proba(self, X):
        return self._outputs

    def predict(self, X):
        return self.classes_[self._outputs.argmax(axis=1)]


class _PredictedValues(RegressorMixin, BaseEstimator):
    """A regressor that knows its predictions for the test data, and nothing else."""

    def __init__(self, outputs, classes_=None):
        self._outputs = outputs

    def predict(self, X):
        return self._outputs


@cache  # a class takes much longer to make than a measure to compute
def _named_kind(name, has_classes):
    return type(name, (_PredictedClasses if has_classes else _PredictedValues,), {})


class Predictions:
    """Measures of predictions for the test data, whoever made them and whenever.

    Parameters
    ----------
    X : array or sequence of shape (n_samples, ...)
        Test data.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Their target.
    classes : ndarray of shape (n_classes,) or None
        Classes of the training data; None for values.
    measures : dict of str to callable
        As :func:`~sktransfer.utils._measures.get_measures` gives them.
    name : str
        Class of the estimator that predicts, for messages.
    what : str, default="the test data"
        What the data are, for messages.
    """

    def __init__(self, X, y, classes, measures, name, what="the test data"):
        self.X = X
        self.y = y
        self.classes = classes
        self.measures = measures
        self._what = what
        self._kind = _named_kind(name, classes is not None)

    def evaluate(self, outputs, measure):
        """Compute one measure.

        Parameters
        ----------
        outputs : ndarray of shape (n_samples, n_classes) or (n_samples,)
            Probabilities or values.
        measure : str
            Name of the measure.

        Returns
        -------
        value : float
            Greater is better.

        Raises
        ------
        ValueError
            If the measure is not defined for these data.
        """
        estimator = self._kind(outputs, self.classes)
        return evaluate(estimator, self.X, self.y, {measure: self.measures[measure]})[measure]

    def check(self, y_train):
        """Find out before any work whether the measures can be computed at all.

        Parameters
        ----------
        y_train : array-like of shape (n_train,) or (n_train, n_outputs)
            Target of the training data.

        Raises
        ------
        ValueError
            If a measure is not defined for the test data, or for estimators of this kind.
        """
        outputs = made_up(len(self.y), self.classes, y_train)
        for name in self.measures:
            try:
                self.evaluate(outputs, name)
            except Exception as error:
                raise ValueError(
                    f"The measure {name!r} in 'scoring' cannot be computed on {self._what}: {error}"
                ) from error


def made_up(n_samples, classes, y_train):
    """Give predictions of the right shape that say nothing.

    Parameters
    ----------
    n_samples : int
        Number of test rows.
    classes : ndarray or None
        Classes of the training data; None for values.
    y_train : array-like
        Target of the training data.

    Returns
    -------
    outputs : ndarray of shape (n_samples, n_classes), or of the shape of the target
        Probabilities, or values out of the training data.
    """
    random = np.random.default_rng(0)
    if classes is not None:
        return random.dirichlet(np.ones(len(classes)), size=n_samples)
    y_train = np.asarray(y_train, dtype=float)
    return y_train[random.integers(len(y_train), size=n_samples)]
