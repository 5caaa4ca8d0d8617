"""Linear probe: leave-one-out ridge regression on frozen features, in closed form."""

from numbers import Integral, Real

import numpy as np

from ..utils._sklearn import Interval, StrOptions
from ._base import RowMetric
from ._canonical import row_order
from ._knn import mean_of_defined
from ._permutations import Chance, permuted_labels, reason_to_doubt, trivial_reason
from ._spectrum import power_of_two
from ._statistics import drawn_seed

# Candidate penalties relative to the largest eigenvalue of the centred scatter matrix.
_GRID = np.logspace(-10, 2, 49)

# A part of the leverage outside the directions that is smaller is rounding.
_SMALLEST_OUTSIDE = 1e-12


class LinearProbe(RowMetric):
    """Leave-one-out accuracy (or R²) of a ridge regression on frozen features.

    A linear model with an intercept is fitted by ridge regression to the one-hot labels (or to the
    columns of the target) and every sample is predicted by the model of all the others. With the
    thin decomposition U diag(s) Vᵀ of the centred features, the leverage
    h_i = 1 / n + sum_r U_ir² s_r² / (s_r² + alpha) turns each residual e_i of the one model of all
    samples into that of the model without sample i, e_i / (1 - h_i): no model is fitted twice, and
    the result is exact for any number of samples and features [1]_.

    For labels the score is the share of samples whose own class has the largest prediction, in
    [0, 1]; for several columns of 0 and 1 and for regression it is the leave-one-out coefficient of
    determination, averaged over the outputs, at most 1. Higher is better.

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
        Number of label permutations behind `chance_level_` of a classification; 0 leaves it NaN.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.

    Attributes
    ----------
    score_ : float
        Accuracy in [0, 1], or the mean of `scores_`.
    scores_ : ndarray of shape (n_outputs,)
        R² of each output, 1 - sum (t - prediction)² / sum (t - mean of the others)²; not for
        labels. NaN for a constant output.
    alpha_ : float or ndarray of shape (n_outputs,)
        The penalty: one number for labels, otherwise one per output.
    loo_error_ : float or ndarray of shape (n_outputs,)
        Leave-one-out squared error relative to that of predicting the mean of the others; 0 for a
        constant output.
    chance_level_ : float
        Mean score under permuted targets with the same penalty: sampled for labels, exact for other
        targets. For labels in equal shares it lies below 1 / n_classes, because the class of the
        sample left out is the rarest among the others.
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
    with equal predictions share the sample. Cost of one decomposition, and O(n r K) for each
    penalty and permutation, with rank r and K outputs; memory of a few n x r matrices.

    References
    ----------
    .. [1] D. M. Allen, "The Relationship between Variable Selection and Data Augmentation and a
       Method for Prediction", Technometrics 16(1), 1974.

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
    }

    def __init__(self, alpha="loo", *, task="auto", n_permutations=10, random_state=0):
        self.alpha = alpha
        self.task = task
        self.n_permutations = n_permutations
        self.random_state = random_state

    def _fit_rows(self, X, target, sample_weight, moments):
        probe = _Probe(X, moments().spectrum)
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
        fit = probe.prepare(target.columns())
        errors = np.array([np.square(fit.residual(p)[0]).sum() for p in penalties])
        baseline = np.square(fit.t).sum() * probe.baseline
        chosen = _choose(errors[:, None], baseline)[0]
        residual, _ = fit.residual(penalties[chosen])
        self.alpha_ = self._in_original_units(penalties[chosen], unit)
        self.loo_error_ = float(errors[chosen] / baseline)
        self.score_ = _accuracy(fit, residual, target.codes)
        draws = []
        for codes in permuted_labels(X, target.codes, self.seed_, self.n_permutations):
            permuted = probe.prepare(np.eye(len(self.classes_))[codes])
            draws.append(_accuracy(permuted, permuted.residual(penalties[chosen])[0], codes))
        chance = Chance.sampled(draws)
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
        fit = probe.prepare(t)
        errors, chances = [], []
        for penalty in penalties:
            residual, spread = fit.residual(penalty)
            errors.append(np.square(residual).sum(axis=0))
            # Exact: a residual is linear in the target, which is exchangeable under permutation.
            chances.append(1 - (n_samples - 1) / n_samples * float(np.sort(spread).mean()))
        errors = np.array(errors)
        baseline = np.square(fit.t).sum(axis=0) * probe.baseline
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
        self.saturated_ = True
        if not mean_of_defined(self, "LinearProbe"):
            return
        reason = None
        if probe.rank == 0:
            reason = "the features are constant, so that any targets have the same score"
            self.chance_level_ = self.score_
        else:
            draws = self._permuted_scores(
                X, probe, t[:, alive], baseline[alive], penalties[chosen[alive]]
            )
            chance = Chance.sampled(draws, self.chance_level_)
            reason = reason_to_doubt(self.score_, chance, 1.0, what="targets")
        self._judge(reason)

    def _permuted_scores(self, X, probe, t, baseline, penalties):
        """Scores of permuted rows of the target, each output with its penalty."""
        if not self.n_permutations:
            return []
        order, rng = row_order(X), np.random.default_rng(self.seed_)
        by_content = t[np.lexsort(t.T)]
        scores = []
        for _ in range(self.n_permutations):
            permuted = np.empty_like(t)
            permuted[order] = by_content[rng.permutation(len(t))]
            fit = probe.prepare(permuted)
            errors = np.empty(t.shape[1])
            for penalty in np.unique(penalties):
                mine = penalties == penalty
                residual, _ = fit.residual(penalty)
                errors[mine] = np.square(residual[:, mine]).sum(axis=0)
            scores.append(float((1 - errors / baseline).mean()))
        return scores


def _choose(errors, baseline):
    """Position of the smallest error of each output, the last of equals (the largest penalty)."""
    most = errors.min(axis=0) * (1 + 1e-9) + 1e-13 * baseline
    return len(errors) - 1 - (errors <= most)[::-1].argmax(axis=0)


def _accuracy(fit, residual, codes):
    """Share of samples whose class has the largest prediction; equal classes share the sample."""
    predicted = fit.columns - residual
    largest = predicted.max(axis=1, keepdims=True)
    winning = predicted >= largest - 1e-9 * np.maximum(1.0, np.abs(largest))
    credit = winning[np.arange(len(codes)), codes] / winning.sum(axis=1)
    return float(np.sort(credit).mean())


class _Probe:
    """Directions of the centred features and what the leverages need of them."""

    def __init__(self, X, spectrum):
        self.unit = spectrum.unit
        self.eigenvalues = spectrum.eigenvalues
        self.rank = spectrum.rank
        n_samples = len(X)
        self.left = spectrum.coordinates(X, spectrum.directions(None))
        self.left /= np.sqrt(self.eigenvalues)
        self.left_square = np.square(self.left)
        # The others' mean differs from a sample by n / (n - 1) times the sample's own deviation.
        self.baseline = (n_samples / (n_samples - 1)) ** 2
        self.outside = 1 - 1 / n_samples - self.left_square.sum(axis=1)
        if self.rank >= n_samples - 1:
            self.outside[:] = 0.0
        self.outside[self.outside < _SMALLEST_OUTSIDE] = 0.0

    def prepare(self, columns):
        return _Fit(self, columns)


class _Fit:
    """Leave-one-out residuals of some columns for any penalty.

    Both the residual and one minus the leverage are sums over the directions, with the share
    alpha / (s² + alpha) of each, plus what no direction reaches. Written like this, nothing cancels
    when the model can fit every sample.
    """

    def __init__(self, probe, columns):
        self.probe = probe
        self.columns = columns
        self.t = columns - columns.mean(axis=0)
        self.loadings = probe.left.T @ self.t
        self.unreached = self.t - probe.left @ self.loadings
        self.unreached[probe.outside == 0.0] = 0.0

    def residual(self, penalty):
        """Return the residuals, and of each row the variance it gets from permuted columns."""
        probe = self.probe
        share = penalty / (probe.eigenvalues + penalty)
        remaining = probe.left_square @ share + probe.outside
        numerator = probe.left @ (share[:, None] * self.loadings) + self.unreached
        remaining = np.maximum(remaining, np.finfo(float).tiny)
        variance = probe.left_square @ share**2 + probe.outside
        with np.errstate(over="ignore"):
            return numerator / remaining[:, None], variance / remaining / remaining
