"""What a fitted selection does and shows: it is the best of its candidates."""

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..utils._sklearn import _VisualBlock
from ._composition import candidates_have
from ._extraction import check_features, extract
from ._metric_collection import needs_probabilities
from ._results import results_frame
from ._scoring import score_features
from ._validation import check_target

__all__ = ["BestCandidateMixin", "BestFeaturesMixin"]


class BestFeaturesMixin(TransformerMixin):
    """Give features as the best candidate does, whatever the attribute is called that has it."""

    def transform(self, X):
        """Return the features that the best candidate extracts.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data of the same form as in fit.

        Returns
        -------
        features : array-like of shape (n_samples, n_features)
            The features.

        Raises
        ------
        ValueError
            If there are NaN or infinite values among them, as in fit.
        """
        check_is_fitted(self)
        features = getattr(self, self._best_candidate).transform(X)
        check_features(features, len(features))
        return features

    @available_if(candidates_have("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Get the names of the features that the best candidate gives.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features.

        Returns
        -------
        feature_names_out : ndarray of str
            Names of the output features.
        """
        check_is_fitted(self)
        return getattr(self, self._best_candidate).get_feature_names_out(input_features)

    @property
    def n_features_in_(self):
        """Number of features seen during :term:`fit`."""
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            # hasattr() must say no before fit
            raise AttributeError(
                f"{type(self).__name__} object has no n_features_in_ attribute."
            ) from error
        return getattr(self, self._best_candidate).n_features_in_

    def _copy_feature_names(self):
        """Take over the names of features in fit, or forget those of another fit."""
        self.__dict__.pop("feature_names_in_", None)
        best = getattr(self, self._best_candidate)
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_


class BestCandidateMixin(BestFeaturesMixin):
    """Methods of a selection that was fitted, which hand on to its ``best_estimator_``."""

    def score(self, X, y):
        """Score the best candidate on other data by the deciding metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data of the same form as in fit.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their labels or values.

        Returns
        -------
        score : float
            The metric, evaluated afresh on the features of `X`; the mean in nats per sample for a
            consensus of LogME and PACTran.

        Raises
        ------
        ValueError
            For a consensus of ranks: a single candidate has no rank.
        """
        check_is_fitted(self)
        y = check_target(X, y)
        metrics = {self.refit_metric_: self.metric_}
        if self.metric_ is None:
            metrics = {name: self.metrics_.get(name) for name in self.consensus_.weights}
            if self.consensus_.relative_to_pool:
                raise ValueError(
                    "A consensus of ranks is relative to the other candidates, so that one of them "
                    f"alone has no score; the metrics have one: {list(metrics)!r}."
                )
        probabilities = any(map(needs_probabilities, metrics.values()))
        extraction = extract(self.best_estimator_, X, len(y), probabilities)
        cells = score_features(extraction, y, metrics, inputs=X, backbone=self.best_estimator_)
        for cell in cells.values():
            if cell.error is not None:
                raise cell.error
        weights = [1.0] if self.metric_ is not None else list(self.consensus_.weights.values())
        return float(np.dot(weights, [cell.score for cell in cells.values()]))

    def to_frame(self):
        """Return the results as a data frame, best candidate first.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_candidates, n_columns)
            Columns ``rank``, ``candidate``, one for each metric (the deciding one first) followed
            with `cv` by ``<metric>_std`` and with `n_resamples` by ``<metric>_low``, ``_high``,
            ``_rank_low``, ``_rank_high``, ``_probability_best`` and ``_tied_with_best``;
            the baselines ``source_accuracy``, ``knn``, ``linearprobe`` and ``untrained_twin``
            where a candidate has one, ``n_features``, ``n_parameters``, ``weights``,
            ``weights_hash``, ``pretrained``, ``extraction_seconds``, ``scoring_seconds`` and
            ``failure``, the reasons for a missing score (empty if there is none). Candidates of
            equal rank stand in the order given.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        check_is_fitted(self)
        return results_frame(
            self.cv_results_,
            list(self.metric_scores_),
            self.refit_metric_,
            self.failures_,
            self.baseline_scores_,
        )

    def report(self, path, *, title=None):
        """Write what the selection found into one HTML file.

        Parameters
        ----------
        path : str or path
            The file, in a folder that exists. One that is there is replaced.
        title : str, default=None
            What the report is about, such as the name of the data.

        Returns
        -------
        path : Path
            The file.

        Raises
        ------
        ValueError
            If there can't be a file of this name.

        See Also
        --------
        sktransfer.inspection.write_report : Says what is in it.
        """
        # Upwards, and so not before it is asked for.
        from ..inspection import write_report

        return write_report(self, path, title=title)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def _sk_visual_block_(self):
        names, estimators = zip(*self.candidates, strict=True)
        return _VisualBlock(
            "parallel", list(estimators), names=[self._visual_name(name) for name in names]
        )

    def _visual_name(self, name):
        if name not in getattr(self, "scores_", {}):
            return name
        score = self.scores_[name]
        shown = "failed" if np.isnan(score) else f"{score:.3g}"
        return f"{name}: {shown}{' (best)' if name == self.best_name_ else ''}"
