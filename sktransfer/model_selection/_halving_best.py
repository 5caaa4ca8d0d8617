"""What a race that was run shows, and does as its winner."""

from contextlib import suppress
from copy import deepcopy

import numpy as np
from sklearn.utils import ClassifierTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..exceptions import CandidateFailedWarning
from ..utils._announce import announce
from ..utils._measures import evaluate
from ..utils._sklearn import _VisualBlock
from ._best_candidate import BestFeaturesMixin
from ._halving_run import COLUMNS

__all__ = ["RaceWinnerMixin"]


def _refitted_has(name):
    def check(self):
        if not self.refit:
            raise AttributeError(
                f"This {type(self).__name__} has refit=False, so there is no estimator to call "
                f"{name!r} of; 'best_backbone_' can be fine-tuned."
            )
        if hasattr(self, "best_estimator_"):
            return hasattr(self.best_estimator_, name)
        return self.estimator is None or hasattr(self.estimator, name)

    return check


class RaceWinnerMixin(BestFeaturesMixin):
    """Methods of a race that was run: predict as the winner, fine-tuned; transform as pretrained.

    Attributes
    ----------
    _best_candidate : str
        Where the winner as it was pretrained is.
    """

    _best_candidate = "best_backbone_"

    @available_if(_refitted_has("predict"))
    def predict(self, X):
        """Predict with the winner, fine-tuned on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data of the same form as in fit.

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels or values.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_refitted_has("predict_proba"))
    def predict_proba(self, X):
        """Compute the probabilities of the classes with the winner, fine-tuned on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data of the same form as in fit.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_refitted_has("predict"))
    def score(self, X, y):
        """Judge the winner, fine-tuned on all rows, by the measure of the race on other data.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Data of the same form as in fit.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their labels or values.

        Returns
        -------
        score : float
            The measure.
        """
        check_is_fitted(self)
        return evaluate(self.best_estimator_, X, y, {"score": self.scorer_})["score"]

    @property
    def classes_(self):
        """Labels of the winner, in the order of columns of probabilities."""
        if not hasattr(self, "best_estimator_"):  # hasattr() must say no before fit
            raise AttributeError(f"{type(self).__name__} object has no classes_ attribute.")
        return self.best_estimator_.classes_

    @property
    def _predicts_most_probable(self):
        return getattr(self.best_estimator_, "_predicts_most_probable", False)

    def to_frame(self):
        """Return the record of the race as a data frame.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_decisions, n_columns)
            ``history_``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "HalvingTransferabilitySelector.to_frame requires pandas. You can install it with "
                "`pip install pandas`; everything is in history_ too."
            ) from error
        return pd.DataFrame(self.history_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_name_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        if not self.refit:
            return tags
        trained = (
            getattr(self, "best_estimator_", None) if self.estimator is None else self.estimator
        )
        if trained is None:
            # A classifier to begin with: folds of cross-validation are stratified for one, where
            # the target has classes, and as for a regressor where it has not.
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
            return tags
        with suppress(Exception):  # a wrong one is reported by fit
            inner = get_tags(trained)
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags = deepcopy(inner.classifier_tags)
            tags.regressor_tags = deepcopy(inner.regressor_tags)
            tags.target_tags = deepcopy(inner.target_tags)
        return tags

    def _sk_visual_block_(self):
        names, estimators = zip(*self.candidates, strict=True)
        best = getattr(self, "best_name_", None)
        names = [f"{name} (best)" if name == best else name for name in names]
        return _VisualBlock("parallel", list(estimators), names=names)

    # -- results ---------------------------------------------------------------------------------

    def _store(self, race, prepared, winner):
        """Keep what the race has left, and fine-tune the winner."""
        from ..finetune._race_units import fit_winner

        vars(self).pop("best_estimator_", None)
        name, template = race.names[winner], race.task.template
        if self.refit:
            X_val, y_val = prepared.data
            backbone = race.backbones[winner]
            self.best_estimator_ = fit_winner(
                race.subjects[winner],
                race.task,
                backbone,
                X_val,
                y_val,
                race.store,
                race.progress.refit,
            )
        self.selector_ = prepared.selector
        self.candidates_ = prepared.selector.candidates_
        self.best_backbone_ = self.candidates_[name]
        self._copy_feature_names()
        self.best_index_, self.best_name_ = winner, name
        self.scores_ = {n: float(race.scores.get(c, np.nan)) for c, n in enumerate(race.names)}
        self.best_score_ = self.scores_[name]
        self.decision_set_ = prepared.decision_set
        self.metric_scores_ = prepared.selector.metric_scores_
        n_last = len(race.names)
        self.metric_ranks_ = {n: r or n_last for n, r in prepared.metric_ranks.items()}
        self.overruled_ = race.ranks[winner] > min(race.ranks.values())
        self.metric_trusted_ = race.trusted
        self.ranking_ = race.ranking(winner)
        columns = zip(*race.rows, strict=True)
        self.history_ = {
            column: np.array(values, dtype=object if isinstance(values[0], str) else None)
            for column, values in zip(COLUMNS, columns, strict=True)
        }
        self.cost_ = race.budget.share_spent
        weight, n_rows = prepared.weights[name], len(race.task.y)
        self.refit_cost_ = weight * n_rows * template.max_epochs / race.budget.whole
        self.cost_weights_, self.cost_unit_ = prepared.weights, prepared.unit
        self.n_rounds_ = int(max(self.history_["round"]))
        self.scorer_, self.seed_ = prepared.scorer, race.task.seed
        raced = {race.names[c]: list(dict.fromkeys(r)) for c, r in race.failures.items()}
        self.failures_ = {**prepared.failures, **raced}
        self.warnings_ = {
            race.names[c]: list(dict.fromkeys(said)) for c, said in race.warnings.items() if said
        }
        for failed, reasons in raced.items():
            announce(f"Candidate {failed!r} failed: {'; '.join(reasons)}", CandidateFailedWarning)
