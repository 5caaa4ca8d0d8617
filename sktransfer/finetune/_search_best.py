"""What a search does as the estimator that it has found."""

from copy import deepcopy

from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktransfer.utils._measures import evaluate

__all__ = ["BestEstimatorMixin"]


def _best_has(name):
    """Tell whether the method of the best estimator is there, as an AttributeError if not."""

    def has(self):
        if hasattr(self, "best_estimator_"):
            return callable(getattr(self.best_estimator_, name))
        if not self.refit:
            raise AttributeError(
                f"This {type(self).__name__} has refit=False, so there is no estimator to call "
                f"{name!r} of; 'best_params_' can be used to fit one."
            )
        return callable(getattr(self.estimator, name))

    return has


class BestEstimatorMixin:
    """Predict, score and describe oneself as ``best_estimator_`` does."""

    @available_if(_best_has("predict"))
    def predict(self, X):
        """Predict with the best estimator.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels or values.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X):
        """Compute the probabilities of the classes with the best estimator.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_best_has("predict"))
    def score(self, X, y):
        """Judge the best estimator on other data, by the measure that `refit` names.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their target.

        Returns
        -------
        score : float
            The measure.
        """
        check_is_fitted(self)
        scorer = self.scorer_[self.refit_measure_] if self.multimetric_ else self.scorer_
        measure = {self.refit_measure_: scorer}
        return evaluate(self.best_estimator_, X, y, measure)[self.refit_measure_]

    @property
    def classes_(self):
        """Labels of the best estimator."""
        return self._best("classes_")

    @property
    def n_features_in_(self):
        """Numbers per row that the best estimator takes."""
        return self._best("n_features_in_")

    def _best(self, name):
        if not hasattr(self, "best_estimator_"):  # hasattr() must say no before fit
            raise AttributeError(f"{type(self).__name__} object has no {name} attribute.")
        return getattr(self.best_estimator_, name)

    @property
    def _predicts_most_probable(self):
        return getattr(self.best_estimator_, "_predicts_most_probable", False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = deepcopy(inner.classifier_tags)
        tags.regressor_tags = deepcopy(inner.regressor_tags)
        tags.target_tags = deepcopy(inner.target_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags
