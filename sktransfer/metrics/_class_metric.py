"""Metrics that compare the covariances of the classes with each other."""

import numpy as np

from ..utils._sklearn import _fit_context
from ..utils._target import Target
from ._base import MomentMetric, RowMetric
from ._class_parts import RowsByClass
from ._moments import FeatureMoments
from ._permutations import Chance, permuted_targets, scores_until_sure


class ClassMomentMetric(MomentMetric, RowMetric):
    """A metric that is an exact function of the moments of all samples and of every class.

    Such moments are large: for each class a matrix of shape (min(class size, n_features),
    n_features). Where several metrics score the same features, a metric of this kind therefore
    reads the rows class by class and keeps nothing of them, and shares the decomposition of all
    samples only. On its own it works on :class:`FeatureMoments` with ``per_class=True``.

    A subclass implements ``_score_parts(moments, parts, rows)``, where `moments` are those of all
    samples, `parts` yields what is known of every class, in the order of the labels, and `rows` is
    the :class:`RowsByClass` or, where there are moments only, None. Moments do not tell what other
    labels would score: without rows there is no chance level.
    """

    lives_on_moments = False
    _per_class = True

    def _fit(self, X, target, sample_weight):
        self._adopt(
            FeatureMoments.from_arrays(X, target, sample_weight, copy=False, per_class=True)
        )
        rows = RowsByClass(X, target, sample_weight)
        self._score_parts(self.moments_, self.moments_.class_parts(), rows)
        self.moments_.detach()

    def _fit_rows(self, X, target, sample_weight, moments):
        self._adopt(None)
        del self.moments_
        rows = RowsByClass(X, target, sample_weight)
        self._score_parts(moments(), rows, rows)

    def _score_moments(self):
        self._score_parts(self.moments_, self.moments_.class_parts(), None)

    def _chance(self, score_of, score, rows, n_permutations, features=None, lowest=None):
        """Find what permuted labels score; None without rows or permutations.

        Parameters
        ----------
        score_of : callable
            Takes the :class:`RowsByClass` of permuted labels and returns a score.
        score : float
            The score of the labels as they are.
        rows : RowsByClass or None
            The rows.
        n_permutations : int
            The largest number of permutations.
        features : ndarray of shape (n_samples, k), default=None
            What `score_of` is to get in place of the rows.
        lowest : float, default=None
            The score of no gain at all, where there is one.

        Returns
        -------
        chance : Chance or None
            The chance level.
        """
        if rows is None:
            return None
        features = rows.X if features is None else features
        classes = np.arange(len(rows.target.classes))
        permuted = permuted_targets(
            rows.X, rows.target.codes, rows.sample_weight, self.seed_, n_permutations
        )
        draws = (
            score_of(
                RowsByClass(
                    features,
                    Target("classification", classes=classes, codes=codes),
                    sample_weight,
                )
            )
            for codes, sample_weight in permuted
        )
        return Chance.sampled(scores_until_sure(score, draws, lowest), lowest=lowest)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments):
        """Compute the score from moments gathered before with ``per_class=True``.

        Parameters
        ----------
        moments : FeatureMoments
            The moments. The metric keeps a copy, which shares memory until one of the two changes.

        Returns
        -------
        self : object
            The fitted metric.
        """
        if not moments.per_class:
            raise ValueError(
                f"{type(self).__name__} needs the moments of every class; "
                "gather them with per_class=True."
            )
        return super().fit_moments(moments)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Add a batch of samples; the score is computed when it is next read.

        Any number of batches gives the score of ``fit`` on all of them together. Classes may turn
        up in any batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A batch of features.
        y : array-like of shape (n_samples,)
            The labels of the batch.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, relative to those of the other batches.

        Returns
        -------
        self : object
            The metric, with the batch added.
        """
        if "score_" in self.__dict__ and "moments_" not in self.__dict__:
            raise ValueError(
                f"partial_fit can't continue: this {type(self).__name__} was scored together with "
                "other metrics and keeps no moments. Start with a new one."
            )
        return super().partial_fit(X, y, sample_weight)
