"""The contract that every transferability-estimation metric keeps."""

from contextlib import contextmanager
from functools import cache

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ..exceptions import UninformativeScoreWarning
from ..utils._announce import announce
from ..utils._sklearn import (
    StrOptions,
    _check_feature_names,
    _check_n_features,
    _fit_context,
)
from ..utils._target import as_target_array, encode_target
from ..utils._weights import check_weights
from ._moments import FeatureMoments

# What the parameter `class_weight` of a metric may be.
CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]


class TransferabilityMetric(BaseEstimator):
    """Base class of the metrics: an estimator whose fit leaves one number, ``score_``.

    A subclass sets the class attributes below and implements ``_fit(X, target, sample_weight)``,
    which receives validated arrays and must set ``score_`` (a Python float, higher is better, or
    NaN with a warning that says why).

    Attributes
    ----------
    needs : {"features", "probabilities", "labels", "inputs"}
        What ``X`` is: frozen features, source-class probabilities, hard source labels, or the raw
        inputs of the network. A class attribute.
    bounds : tuple of float
        Smallest and largest possible score. A class attribute.
    relative_to_pool : bool
        Whether the score of one candidate depends on the other candidates. A class attribute.
    tasks : tuple of str
        Kinds of target with a definition: "classification", "multilabel", "regression".
    lives_on_moments : bool
        Whether the metric is an exact function of :class:`FeatureMoments`.

    Examples
    --------
    A metric of one's own, the share of variance between the class means:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import TransferabilityMetric
    >>> class BetweenShare(TransferabilityMetric):
    ...     bounds = (0.0, 1.0)
    ...
    ...     def _fit(self, X, target, sample_weight):
    ...         centred = X - X.mean(axis=0)
    ...         means = [centred[target.codes == k].mean(axis=0) for k in np.unique(target.codes)]
    ...         between = np.square(np.array(means)[target.codes]).sum()
    ...         self.score_ = float(between / np.square(centred).sum())
    >>> round(BetweenShare().fit(*load_iris(return_X_y=True)).score_, 2)
    0.87
    """

    needs = "features"
    bounds = (-np.inf, np.inf)
    relative_to_pool = False
    tasks = ("classification",)
    lives_on_moments = False

    # Parameters without an entry are not checked, so a subclass may do without.
    _parameter_constraints: dict = {}

    _doc_link_module = "sktransfer"
    _doc_link_template = ""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _validate_features(self, X, y, **check_params):
        """Check X and y together; metrics with other inputs override this."""
        return validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, **check_params
        )

    def _validate(
        self,
        X,
        y,
        sample_weight,
        *,
        reset=True,
        minimum_samples=2,
        task=None,
        relative_weights=True,
    ):
        """Return checked X, the encoded target and the weights, rows of weight zero removed."""
        y = as_target_array(y)
        # Sums at the ends of the float range, which the check for infinities takes, may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            X, y = self._validate_features(X, y, reset=reset, ensure_min_samples=minimum_samples)
        target = encode_target(
            y,
            tasks=self.tasks,
            name=type(self).__name__,
            task=task or getattr(self, "task", "auto"),
        )
        return check_weights(
            sample_weight,
            X,
            target,
            relative=relative_weights,
            class_weight=getattr(self, "class_weight", None),
            name=type(self).__name__,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Compute the score of the features for the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Frozen features (or what ``needs`` says), float32 or float64. Never changed.
        y : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_outputs)
            The target. Only the partition that labels make matters, not their names.

        Returns
        -------
        self : object
            The fitted metric; the result is in ``score_``.
        """
        return self._validate_and_fit(X, y, None)

    def _validate_and_fit(self, X, y, sample_weight):
        X, target, sample_weight = self._validate(X, y, sample_weight)
        self._require_enough(target)
        self._fit(X, target, sample_weight)
        return self

    def _gather_moments(self, X, y, sample_weight):
        """Validate as in ``fit`` and return the moments, for this metric and others."""
        X, target, sample_weight = self._validate(X, y, sample_weight)
        self._require_enough(target)
        return FeatureMoments.from_arrays(X, target, sample_weight)

    def _require_enough(self, data):
        """Refuse one sample or one class; ``data`` is a target or moments of one."""
        name = type(self).__name__
        if data.task == "classification" and len(data.classes) < 2:
            raise ValueError(f"{name} requires at least 2 classes in y; got 1 class.")
        if data.n_samples < 2:
            raise ValueError(f"{name} requires at least 2 samples; got {data.n_samples} sample.")

    def _judge(self, reason, remedy=""):
        """Set ``saturated_``, and announce a score that says nothing.

        Parameters
        ----------
        reason : str or None
            A clause that says why, None for a score that says something.
        remedy : str, default=""
            A sentence on what would help.
        """
        self.saturated_ = reason is not None
        if reason:
            announce(
                f"The {type(self).__name__} score {self.score_:.6g} says nothing: {reason}."
                + (f" {remedy}" if remedy else ""),
                UninformativeScoreWarning,
            )

    def score(self, X, y):
        """Evaluate the metric afresh on other data, with the same parameters.

        Nothing learned in ``fit`` is used but the drawn seed, so that
        ``metric.fit(X, y).score(X, y) == metric.score_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data of the same kind and width as in ``fit``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target.

        Returns
        -------
        score : float
            The score of the data given, higher is better.
        """
        return self._fresh(X).fit(X, y).score_

    def _fresh(self, X):
        """Return an unfitted copy that will draw the same numbers, for data like those of fit."""
        check_is_fitted(self)
        self._check_same_columns(X)
        fresh = clone(self)
        if hasattr(self, "seed_"):
            fresh.random_state = self.seed_
        return fresh

    def _check_same_columns(self, X):
        """Refuse features of another width or with other names than in fit."""
        _check_feature_names(self, X, reset=False)
        if len(getattr(X, "shape", ())) == 2:
            _check_n_features(self, X, reset=False)

    @classmethod
    def pool_scores(cls, fitted_metrics):
        """Combine fitted metrics of this class, one per candidate, into the scores to rank by.

        Parameters
        ----------
        fitted_metrics : sequence of fitted metrics or None
            One per candidate; None for a candidate that failed.

        Returns
        -------
        scores : ndarray of shape (n_candidates,), dtype float64
            Here simply each ``score_``; NaN for a failed candidate.
        """
        return np.array(
            [np.nan if metric is None else metric.score_ for metric in fitted_metrics],
            dtype=np.float64,
        )


class WeightedMetric(TransferabilityMetric):
    """A metric whose definition takes sample weights.

    A subclass with a parameter ``class_weight`` (a dict of label to weight, "balanced" or None)
    needs no more for it: the weights of the samples that it receives are multiplied by those of
    their classes. "balanced" weighs all classes the same in total, sample weights included.
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Compute the score of the features for the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Frozen features (or what ``needs`` says), float32 or float64. Never changed.
        y : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_outputs)
            The target. Only the partition that labels make matters, not their names.
        sample_weight : array-like of shape (n_samples,), default=None
            Relative weights, normalised to sum to the number of samples of positive weight. A
            sample of weight 0 counts as absent. Multiplied by `class_weight`.

        Returns
        -------
        self : object
            The fitted metric; the result is in ``score_``.
        """
        return self._validate_and_fit(X, y, sample_weight)

    def score(self, X, y, sample_weight=None):
        """Evaluate the metric afresh on other data, with the same parameters.

        Nothing learned in ``fit`` is used but the drawn seed, so that
        ``metric.fit(X, y).score(X, y) == metric.score_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data of the same kind and width as in ``fit``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target.
        sample_weight : array-like of shape (n_samples,), default=None
            Relative weights.

        Returns
        -------
        score : float
            The score of the data given, higher is better.
        """
        return self._fresh(X).fit(X, y, sample_weight=sample_weight).score_


class RowMetric(TransferabilityMetric):
    """A metric that needs the rows themselves, and may use the shared decomposition.

    A subclass implements ``_fit_rows(X, target, sample_weight, moments)``; `moments` is a function
    without arguments that returns the :class:`FeatureMoments` of the same data, gathered once for
    all metrics that ask.
    """

    def _fit(self, X, target, sample_weight):
        self._fit_rows(
            X,
            target,
            sample_weight,
            cache(lambda: FeatureMoments.from_arrays(X, target, sample_weight, copy=False)),
        )


class MomentMetric(WeightedMetric):
    """A metric that is an exact function of mergeable moments, and so learns in batches.

    A subclass implements ``_score_moments()``, which reads ``self.moments_`` and sets every fitted
    attribute named in ``_results``.
    """

    lives_on_moments = True
    _results = ("score_",)
    # Whether the moments of every class by itself are needed too.
    _per_class = False

    def _fit(self, X, target, sample_weight):
        # The rows are borrowed for the decomposition and copied only after it, when the large
        # temporaries are gone.
        self._adopt(FeatureMoments.from_arrays(X, target, sample_weight, copy=False))
        with self._knowing((X, target, sample_weight)):
            self._score_moments()
        self.moments_.detach()

    @contextmanager
    def _knowing(self, rows):
        """Let the rows behind the moments be had while these are scored, to permute their target.

        The moments hold the weights of the classes then.
        """
        self._rows = rows
        try:
            yield
        finally:
            del self._rows

    def _adopt(self, moments):
        for result in self._results:
            self.__dict__.pop(result, None)
        self.moments_ = moments

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments):
        """Compute the score from moments gathered before, for instance for several metrics.

        Parameters
        ----------
        moments : FeatureMoments
            The moments. The metric keeps a copy, which shares memory until one of the two changes.

        Returns
        -------
        self : object
            The fitted metric.
        """
        if getattr(self, "class_weight", None) is not None and "_rows" not in vars(self):
            raise ValueError(
                f"fit_moments of {type(self).__name__} can't apply class_weight: moments hold the "
                "weights they were gathered with. Gather them with the product of sample and class "
                "weights, and leave class_weight=None."
            )
        if moments.task not in self.tasks:
            raise ValueError(
                f"{type(self).__name__} is defined for {' and '.join(self.tasks)} targets; "
                f"got moments of a {moments.task} target."
            )
        if not moments.n_samples:
            raise ValueError("moments hold no samples yet.")
        self._require_enough(moments)
        self.n_features_in_ = moments.n_features
        # Decompositions made here stay with the moments given, for the next metric.
        self._adopt(moments.copy())
        self._score_moments()
        self.moments_.detach()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Add a batch of samples; the score is computed when it is next read.

        Any number of batches gives the score of ``fit`` on all of them together. Classes may turn
        up in any batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A batch of features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target of the batch. With the first batch the kind of target is settled.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, relative to those of the other batches.

        Returns
        -------
        self : object
            The metric, with the batch added.
        """
        if isinstance(getattr(self, "class_weight", None), str):
            raise ValueError(
                f"partial_fit of {type(self).__name__} can't balance classes that it has not seen "
                "yet: class_weight must be None or a dict of label to weight; got "
                f"{self.class_weight!r}."
            )
        first = "moments_" not in self.__dict__
        X, target, sample_weight = self._validate(
            X,
            y,
            sample_weight,
            reset=first,
            minimum_samples=1,
            task=None if first else self.moments_.task,
            relative_weights=False,
        )
        if first:
            moments = FeatureMoments(X.shape[1], task=target.task, per_class=self._per_class)
        else:
            moments = self.moments_
        moments.update(X, target, sample_weight)
        self._adopt(moments)
        return self

    def _score_when_read(self):
        moments = self.moments_
        too_few = None
        if moments.task == "classification" and len(moments.classes) < 2:
            too_few = "1 class"
        elif moments.n_samples < 2:
            too_few = f"{moments.n_samples} sample"
        if too_few:
            announce(
                f"{type(self).__name__} has no score (NaN) yet: the batches so far hold {too_few}.",
                UninformativeScoreWarning,
            )
            self.score_ = float("nan")
            return
        self._score_moments()

    def __getattr__(self, name):
        # Reached only for what is not set yet: after partial_fit the results are computed on
        # first reading, so that a batch costs no eigendecomposition.
        unread = "moments_" in self.__dict__ and "score_" not in self.__dict__
        if unread and name in type(self)._results:
            self._score_when_read()
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
