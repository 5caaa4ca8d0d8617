"""Linear probe: leave-one-out ridge regression on frozen features, in closed form."""

from numbers import Integral, Real

import numpy as np

from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._canonical import row_order
from ._knn import mean_of_defined
from ._leave_one_out import MEASURES, Probe
from ._permutations import (
    Chance,
    permuted_targets,
    reason_to_doubt,
    scores_until_sure,
    trivial_reason,
)
from ._spectrum import power_of_two
from ._statistics import drawn_seed

# Candidate penalties relative to the largest eigenvalue of the centred scatter matrix.
_GRID = np.logspace(-10, 2, 49)


class LinearProbe(WeightedMetric, RowMetric):
    """Leave-one-out accuracy, AUROC or R² of a ridge regression on frozen features.

    A linear model with an intercept is fitted by ridge regression to the one-hot labels (or to the
    columns of the target) and every sample is predicted by the model of all the others. With the
    thin decomposition U diag(s) Vᵀ of the centred features, the leverage
    h_i = 1 / n + sum_r U_ir² s_r² / (s_r² + alpha) turns each residual e_i of the one model of all
    samples into that of the model without sample i, e_i / (1 - h_i): no model is fitted twice, and
    the result is exact for any number of samples and features [1]_.

    For labels the score is what `scoring` says, in [0, 1]: by default the share of samples whose
    own class has the largest prediction. For several columns of 0 and 1 and for regression it is
    the leave-one-out coefficient of determination, averaged over the outputs, at most 1. Higher is
    better.

    Read more in the :ref:`User Guide <linear_probe>`.

    Parameters
    ----------
    alpha : "loo" or float, default="loo"
        Penalty of the squared coefficients, as in scikit-learn's ``Ridge``. "loo" takes, from 49
        values between 1e-10 and 100 times the largest eigenvalue of the centred scatter matrix
        (four to a decade), the one with the smallest leave-one-out squared error; the largest of
        equals. For labels one penalty serves all classes, for other targets each output has its
        own.
    task : {"auto", "classification", "multilabel", "regression"}, default="auto"
        What the target is. "auto" takes 1-D integers, strings and whole floats for class labels,
        several columns of 0 and 1 for multilabel, and all other numbers for regression.
    n_permutations : int, default=10
        Number of label permutations behind `chance_level_` of a classification; with weights three
        are enough for a score far above them. 0 leaves it NaN.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    scoring : {"accuracy", "balanced_accuracy", "roc_auc_ovr"}, default="accuracy"
        How the predictions of class labels are judged, by the names of scikit-learn's
        scorers.

        - "accuracy": share of samples whose own class has the largest prediction.
        - "balanced_accuracy": the same within each class, averaged over the classes.
        - "roc_auc_ovr": area under the ROC curve of each class against the rest, averaged over the
          classes (for two classes the AUROC). Two samples are left out at a time, one of the class
          and one of the rest, and ordered by the model of all the others, see Notes. A class of a
          single sample counts 1/2.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        What `scoring` says, in [0, 1], or the mean of `scores_`.
    scores_ : ndarray of shape (n_outputs,)
        R² of each output, 1 - sum (t - prediction)² / sum (t - mean of the others)²; not for
        labels. NaN for a constant output. With weights the terms are weighted.
    alpha_ : float or ndarray of shape (n_outputs,)
        The penalty: one number for labels, otherwise one per output.
    loo_error_ : float or ndarray of shape (n_outputs,)
        Leave-one-out squared error relative to that of predicting the mean of the others; 0 for a
        constant output.
    chance_level_ : float
        Mean score under permuted targets with the same penalty: sampled for labels and where
        samples are weighted, exact for other targets. For labels in equal shares the accuracy lies
        below 1 / n_classes, because the class of the sample left out is the rarest among the
        others. For "roc_auc_ovr" exactly 1/2.
    rank_ : int
        Numerical rank of the centred features.
    saturated_ : bool
        Whether any targets with the same values would give this score.
    classes_ : ndarray of shape (n_classes,)
        Class labels; only for a classification target.
    seed_ : int
        Seed that was used for the permutations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the features are constant, or every class has a single sample.
    ConstantTargetWarning
        If an output is constant; it is left out of the mean.

    See Also
    --------
    KNN : The same question asked of the nearest neighbours.
    LogME : The evidence of a linear model.

    Notes
    -----
    The score does not change when the features are shifted, rotated or extended by constant
    columns, nor, with ``alpha="loo"``, when they are multiplied by one common constant. Choosing
    the penalty by the same errors that are reported makes the score slightly optimistic. Classes
    with equal predictions share the sample.

    With sample weights w, normalised to sum to n, the errors of the regression and of its choice of
    the penalty are weighted, and so is the score. Leaving out sample i takes its weight away and
    nothing else: its leverage becomes w_i / n + w_i x_iᵀ (Xᵀ W X + alpha I)⁻¹ x_i for the rows x
    less their weighted mean, and the residual e_i / (1 - h_i) is as exact as without. A weight of
    two is not the same as a repeated sample, whose twin would stay when it is left out. With
    ``class_weight="balanced"`` the regression itself is told that all classes matter the same;
    ``scoring="balanced_accuracy"`` alone changes only how its predictions are judged.

    An AUROC of leave-one-out predictions is biased: the class of the sample left out is rarer
    among the others, so that its members get the smaller predictions, and noise has an AUROC far
    below 1/2, down to 0 for a large penalty. Without the mean of the others a part of the bias
    remains, as similar samples of different classes push each other to the wrong side. Leaving out
    both samples of a pair [2]_ treats them alike: in noise each order is as likely, and the AUROC
    is 1/2. It is exact too, from the same decomposition.

    Cost of one decomposition, and O(n r K) for each penalty and permutation, with rank r and K
    outputs, for an AUROC O(n² r) for each permutation; memory of a few n x r matrices. With weights
    that differ, each permutation has a decomposition of its own.

    References
    ----------
    .. [1] D. M. Allen, "The Relationship between Variable Selection and Data Augmentation and a
       Method for Prediction", Technometrics 16(1), 1974.
    .. [2] A. Airola, T. Pahikkala, W. Waegeman, B. De Baets, T. Salakoski, "An experimental
       comparison of cross-validation techniques for estimating the area under the ROC curve",
       Computational Statistics & Data Analysis 55(4), 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import LinearProbe
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = LinearProbe().fit(F, y)
    >>> round(metric.score_, 2)
    0.83
    """

    needs = "features"
    bounds = (-np.inf, 1.0)
    tasks = ("classification", "multilabel", "regression")

    _parameter_constraints: dict = {
        "alpha": [StrOptions({"loo"}), Interval(Real, 0, None, closed="neither")],
        "task": [StrOptions({"auto", "classification", "multilabel", "regression"})],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "scoring": [StrOptions(set(MEASURES))],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        alpha="loo",
        *,
        task="auto",
        n_permutations=10,
        random_state=0,
        scoring="accuracy",
        class_weight=None,
    ):
        self.alpha = alpha
        self.task = task
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.scoring = scoring
        self.class_weight = class_weight

    def _fit_rows(self, X, target, sample_weight, moments):
        if target.task != "classification" and self.scoring != "accuracy":
            raise ValueError(
                f"LinearProbe(scoring={self.scoring!r}) is defined for classification targets; got "
                f"a {target.task} target y, which is scored by R² with scoring='accuracy'."
            )
        probe = Probe.of_features(X, moments().spectrum, sample_weight)
        self.rank_ = probe.rank
        self.seed_ = drawn_seed(self.random_state)
        penalties, unit = self._penalties(probe)
        if target.task == "classification":
            self._score_labels(X, target, probe, penalties, unit)
        else:
            self._score_numbers(X, target, probe, penalties, unit)

    def _penalties(self, probe):
        """Candidate penalties in units of the squared unit of the features."""
        if self.alpha == "loo":
            return _GRID * (probe.eigenvalues[0] if probe.rank else 1.0), probe.unit
        with np.errstate(over="ignore", under="ignore"):
            alpha = float(self.alpha) / probe.unit / probe.unit
        # Far outside the eigenvalues one penalty is as good as another, and none may be 0.
        return np.clip([alpha], 1e-150, 1e150), probe.unit

    def _score_labels(self, X, target, probe, penalties, unit):
        self.classes_ = target.classes
        fit = probe.fit(target.columns())
        errors = [probe.total(np.square(fit.residual(p)[0]), axis=None) for p in penalties]
        errors, baseline = np.array(errors), fit.baseline(axis=None)
        chosen = _choose(errors[:, None], baseline)[0]
        self.alpha_ = self._in_original_units(penalties[chosen], unit)
        self.loo_error_ = float(errors[chosen] / baseline)
        measure = MEASURES[self.scoring]
        self.score_ = measure(fit, penalties[chosen], target.codes)

        def score_of(codes, weight):
            # Weights of classes go with the labels, and change the regression.
            mine = probe if weight is None else probe.reweighted(weight)
            return measure(mine.fit(np.eye(len(self.classes_))[codes]), penalties[chosen], codes)

        draws = (
            score_of(*permuted)
            for permuted in permuted_targets(
                X, target.codes, probe.weight, self.seed_, self.n_permutations
            )
        )
        if self.scoring == "roc_auc_ovr":
            chance = _chance_of_areas(list(draws))
        elif probe.weight is None:
            chance = Chance.sampled(list(draws))
        else:
            chance = Chance.sampled(scores_until_sure(self.score_, draws))
        self.chance_level_ = float("nan") if chance is None else chance.mean
        reason = trivial_reason(probe.rank == 0, len(self.classes_), len(X))
        if reason:
            self.chance_level_ = self.score_
        self._judge(reason or reason_to_doubt(self.score_, chance, 1.0))

    def _in_original_units(self, alpha, unit):
        if self.alpha != "loo":
            return float(self.alpha)
        with np.errstate(over="ignore"):
            return float(alpha * unit * unit)

    def _score_numbers(self, X, target, probe, penalties, unit):
        constant = (target.outputs == target.outputs[0]).all(axis=0)
        t = target.outputs / power_of_two(np.abs(target.outputs).max(axis=0))
        t[:, constant] = 0.0
        n_samples = len(t)
        fit = probe.fit(t)
        errors, chances = [], []
        for penalty in penalties:
            residual, spread = fit.residual(penalty)
            errors.append(probe.total(np.square(residual)))
            # Exact: a residual is linear in the target, which is exchangeable under permutation.
            chances.append(1 - (n_samples - 1) / n_samples * float(np.sort(spread).mean()))
        errors = np.array(errors)
        baseline = fit.baseline()
        chosen = _choose(errors, baseline)
        relative = np.zeros(len(chosen))
        alive = ~constant & (baseline > 0)
        relative[alive] = (errors[chosen, np.arange(len(chosen))] / np.where(alive, baseline, 1))[
            alive
        ]
        self.alpha_ = np.array([self._in_original_units(penalties[c], unit) for c in chosen])
        self.loo_error_ = relative
        self.scores_ = np.where(alive, 1 - relative, np.nan)
        self.chance_level_ = (
            float(np.mean(np.array(chances)[chosen[alive]])) if alive.any() else 0.0
        )
        if probe.weight is not None:
            self.chance_level_ = float("nan")
        self.saturated_ = True
        if not mean_of_defined(self, "LinearProbe"):
            return
        reason = None
        if probe.rank == 0:
            reason = "the features are constant, so that any targets have the same score"
            self.chance_level_ = self.score_
        else:
            draws = self._permuted_scores(X, probe, t[:, alive], penalties[chosen[alive]])
            exact = None if probe.weight is not None else self.chance_level_
            chance = Chance.sampled(draws, exact)
            self.chance_level_ = float("nan") if chance is None else chance.mean
            reason = reason_to_doubt(self.score_, chance, 1.0, what="targets")
        self._judge(reason)

    def _permuted_scores(self, X, probe, t, penalties):
        """Scores of permuted rows of the target, each output with its penalty.

        Weights stay with the rows.
        """
        if not self.n_permutations:
            return []
        order, rng = row_order(X), np.random.default_rng(self.seed_)
        by_content = t[np.lexsort(t.T)]
        scores = []
        for _ in range(self.n_permutations):
            permuted = np.empty_like(t)
            permuted[order] = by_content[rng.permutation(len(t))]
            fit = probe.fit(permuted)
            errors = np.empty(t.shape[1])
            for penalty in np.unique(penalties):
                mine = penalties == penalty
                residual, _ = fit.residual(penalty)
                errors[mine] = probe.total(np.square(residual[:, mine]))
            scores.append(float((1 - errors / fit.baseline()).mean()))
        return scores


def _chance_of_areas(areas):
    """Chance of an AUROC, which scatters widely about 1/2 where a class is small."""
    chance = Chance.sampled(areas, 0.5)
    if len(areas) < 3:
        return chance
    # The spread about a known mean, a little larger for being known from few.
    spread = float(np.sqrt(np.square(np.subtract(areas, 0.5)).mean() * (1 + 2 / len(areas))))
    return Chance(0.5, spread, max(Chance.exact(0.5, spread, 1.0).limit, *areas))


def _choose(errors, baseline):
    """Position of the smallest error of each output, the last of equals (the largest penalty)."""
    most = errors.min(axis=0) * (1 + 1e-9) + 1e-13 * baseline
    return len(errors) - 1 - (errors <= most)[::-1].argmax(axis=0)
