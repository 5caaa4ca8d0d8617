"""Transferability metrics as ``scoring`` of scikit-learn's searches and cross-validation."""

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from ..metrics import MetricInputs, get_metric
from ._extraction import check_features
from ._metric_collection import is_relative_to_pool, needs_network, needs_probabilities

__all__ = ["make_transferability_scorer"]


class _TransferabilityScorer:
    """A callable ``(estimator, X, y) -> float``; made by :func:`make_transferability_scorer`.

    Parameters
    ----------
    metric : metric instance
        The metric; cloned before each use.
    """

    def __init__(self, metric):
        self.metric = metric

    def __repr__(self):
        return f"make_transferability_scorer({self.metric!r})"

    def __call__(self, estimator, X, y):
        """Score the features or source probabilities that an estimator gives for `X`.

        Parameters
        ----------
        estimator : fitted transformer or Pipeline
            What is scored.
        X : array-like of shape (n_samples, ...)
            The data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target.

        Returns
        -------
        score : float
            Higher is better.
        """
        backbone = _without_head(estimator)
        if needs_network(self.metric):
            inputs = MetricInputs(y, inputs=X, backbone=backbone)
        elif needs_probabilities(self.metric):
            self._require(backbone, estimator, "predict_proba", "source probabilities")
            inputs = MetricInputs(y, probabilities=np.asarray(backbone.predict_proba(X)))
        else:
            self._require(backbone, estimator, "transform", "features")
            features = check_features(backbone.transform(X), len(y))
            source = getattr(backbone, "source_centroids", None)
            inputs = MetricInputs(y, features=features, source_centroids=source)
        return float(inputs.fit(self.metric).score_)

    def _require(self, backbone, estimator, method, what):
        if not hasattr(backbone, method):
            raise TypeError(
                f"{self.metric!r} needs {what}, but {type(estimator).__name__} has no step with "
                f"{method!r} before its head, or is none itself: {estimator!r}"
            )


def _without_head(estimator):
    """Leave out the last step of a pipeline if it predicts the target or is itself a metric."""
    if not isinstance(estimator, Pipeline) or len(estimator) < 2:
        return estimator
    last = estimator[-1]
    if last is None or last == "passthrough":
        return estimator
    is_head = not hasattr(last, "transform") or is_classifier(last) or is_regressor(last)
    return estimator[:-1] if is_head else estimator


def make_transferability_scorer(metric="logme"):
    """Make a scorer of a metric, to be used as ``scoring`` in scikit-learn.

    It scores what the backbone in an estimator gives for the data: features or source
    probabilities, by what the metric needs. The estimator may be a transformer, or a pipeline;
    of a pipeline that ends in a classifier, a regressor or a metric, the last step is left out.

    To rank backbones, :class:`TransferabilitySelector` needs only a fraction of the forward passes
    of a search. A scorer is for what the selector can't do, such as a search over preprocessing.

    Parameters
    ----------
    metric : str or metric, default="logme"
        A name known to :func:`sktransfer.metrics.get_metric`, or an instance. A metric whose
        score depends on the other candidates has no meaning for one estimator and is refused.

    Returns
    -------
    scorer : callable
        A picklable object with the signature ``scorer(estimator, X, y)`` that returns a float,
        higher is better.

    Raises
    ------
    ValueError
        If there is no metric of that name, or its scores are relative to a pool of candidates.
    TypeError
        If `metric` is neither a name nor a metric. The scorer itself raises a TypeError for an
        estimator that doesn't give what the metric needs.

    Notes
    -----
    A search scores the held-out part of each split. If the pipeline doesn't end in a classifier,
    an integer ``cv`` makes folds that are neither stratified nor shuffled, and a fold of sorted
    data may hold a single class. Pass a :class:`~sklearn.model_selection.StratifiedKFold` that
    shuffles, or ``cv=[(rows, rows)]`` with all row numbers to score all data at once.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sktransfer.model_selection import make_transferability_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> scorer = make_transferability_scorer("hscore")
    >>> scorer
    make_transferability_scorer(HScore())
    >>> rows = np.arange(len(y))
    >>> search = GridSearchCV(PCA(), {"n_components": [1, 2]}, scoring=scorer, cv=[(rows, rows)])
    >>> search.fit(X, y).best_params_
    {'n_components': 2}
    """
    metric = get_metric(metric)
    if is_relative_to_pool(metric):
        raise ValueError(
            f"{type(metric).__name__} ranks candidates relative to each other, so it has no score "
            "for one estimator. Use it as the metric of a TransferabilitySelector."
        )
    return _TransferabilityScorer(clone(metric))
