"""LogME: the maximised evidence of a linear model on frozen features."""

from itertools import chain, islice
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ConstantTargetWarning, NoiseFloorWarning, UninformativeScoreWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, MomentMetric
from ._evidence import largest_evidence, maximize_evidence
from ._permutations import Chance, reason_to_doubt, scores_until_sure, trivial_reason
from ._permuted_moments import permuted_moments
from ._rotations import rotated_spectra, side_by_side

# Share of directions at the noise floor from which on the floor decides the score.
_FLOOR_SHARE = 1e-3

# Random targets that tell what chance gives, their seed, and the directions times outputs beyond
# which they would take longer than the score itself.
_N_DRAWS = 30
# The same for weighted samples, whose targets are permuted.
_N_PERMUTATIONS = 10
_SEED = 0
# As many at a time as are drawn at least: their searches together cost less than one by one.
_DRAWS_AT_ONCE = 3
_MOST_LOADINGS = 2**17

# Certified bound on the error of their evidence, far below its scatter.
_TOLERANCE = 1e-5


class LogME(MomentMetric):
    """Logarithm of the maximum evidence, per sample, of a linear model on frozen features.

    Each output column t of the target (one per class, one-hot; or the 0/1 and regression columns
    themselves) is modelled as t = F w + noise, w ~ N(0, I / alpha), noise ~ N(0, I / beta), without
    an intercept. The weights are integrated out, which charges the features for every direction
    they use, and the log evidence log N(t; 0, I / beta + F Fᵀ / alpha) / n is maximised over alpha
    and beta [1]_. The score is the mean over the output columns: higher is better, in nats per
    sample, without an upper bound.

    The value is the maximum itself for any number of samples and features: the search is
    one-dimensional and certified (no other precisions are better by more than `tol`), and no term
    of the determinant is dropped when there are fewer samples than features.

    Read more in the :ref:`User Guide <logme>`.

    Parameters
    ----------
    tol : float, default=1e-8
        Certified bound, in nats per sample and output, on what the global maximum could exceed the
        value found.
    noise_floor : float in [1e-30, 1), default=1e-10
        Lower bound of the noise variance 1 / beta, relative to the mean square of the output.
        Without it, features that fit an output exactly would have an infinite beta, and with fewer
        directions than samples an infinite evidence. With full row rank (n_samples <= n_features)
        the evidence has a finite limit, which the bound changes by about its own size only.
    task : {"auto", "classification", "multilabel", "regression"}, default="auto"
        What the target is. "auto" takes 1-D integers, strings and whole floats for class labels,
        several columns of 0 and 1 for multilabel, and all other numbers for regression.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        Mean of `scores_` over the outputs that are not zero throughout.
    scores_ : ndarray of shape (n_outputs,)
        Log evidence per sample of each output. For labels the outputs are the classes in sorted
        order. NaN for an output that is zero for every sample.
    alpha_ : ndarray of shape (n_outputs,)
        Precision of the weights at the maximum. Infinite where the evidence is largest without the
        features (the posterior mean is then zero and `beta_` one over the output's mean square).
    beta_ : ndarray of shape (n_outputs,)
        Precision of the noise at the maximum; at most 1 / (`noise_floor` x mean square).
    gamma_ : ndarray of shape (n_outputs,)
        Effective number of parameters, between 0 and min(n_samples, n_features).
    noise_floor_active_ : ndarray of shape (n_outputs,), dtype bool
        Whether the noise variance is at its lower bound: the features fit the output exactly, and
        `beta_` is 1 / (`noise_floor` x mean square).
    coef_ : ndarray of shape (n_outputs, n_features)
        Posterior mean of the weights, computed when first read.
    chance_level_ : float
        Mean score of targets that have nothing to do with the features: of a few whose centred
        columns point in random directions, with weights of a few permuted ones. NaN for more than
        131,072 directions times outputs, where they would take longer than the score, and with
        weights where only moments are known.
    saturated_ : bool
        Whether the score can't be told from theirs.
    complexity_ : float
        Static complexity of the target given the features, in nats: minus the log evidence summed
        over samples and outputs, that is -n_samples x the sum of `scores_`. What it costs to
        describe the target with a linear head on frozen features, the head included; lower for
        features that suit the target, and it grows with the number of samples [2]_. It can be
        negative, because evidences of continuous outputs are densities.
    n_iter_ : int
        Rounds of halving that certified the maximum.
    classes_ : ndarray of shape (n_classes,)
        Class labels; only for a classification target.
    moments_ : FeatureMoments
        The statistics of the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    NoiseFloorWarning
        If the features fit an output exactly with fewer directions than samples, so that
        `noise_floor` decides the score.
    UninformativeScoreWarning
        If the score can't be told from that of targets that have nothing to do with the features.
    ConstantTargetWarning
        If an output is zero for every sample; it is left out of the mean.

    See Also
    --------
    HScore : A discriminative score of the same features.
    FeatureMoments : The statistics that LogME needs.

    Notes
    -----
    LogME does not change when the features are multiplied by a constant, rotated, or extended by
    zero columns. It does change when a constant is added to them, and, for regression, when the
    target is scaled or shifted: standardise regression targets.

    Random directions in place of permuted labels make `chance_level_` the same for batches as for
    the whole. They scatter less than permuted labels do for heavy-tailed features with classes of
    two or three samples, where some noise passes for a signal.

    References
    ----------
    .. [1] K. You, Y. Liu, J. Wang, M. Long, "LogME: Practical Assessment of Pre-trained Models for
       Transfer Learning", ICML 2021.
    .. [2] A. Achille, G. Mbeng, S. Soatto, "Dynamics and Reachability of Learning Tasks",
       arXiv:1810.02440, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import LogME
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = LogME().fit(F, y)
    >>> round(metric.score_, 3)
    -0.16
    >>> metric.gamma_.round(1)
    array([3.8, 3.5, 3.7])
    """

    needs = "features"
    bounds = (-np.inf, np.inf)
    tasks = ("classification", "multilabel", "regression")
    _results = (
        "score_",
        "scores_",
        "alpha_",
        "beta_",
        "gamma_",
        "noise_floor_active_",
        "n_iter_",
        "complexity_",
        "chance_level_",
        "saturated_",
        "classes_",
        "coef_",
    )

    _parameter_constraints: dict = {
        "tol": [Interval(Real, 0, None, closed="neither")],
        "noise_floor": [Interval(Real, 1e-30, 1, closed="left")],
        "task": [StrOptions({"auto", "classification", "multilabel", "regression"})],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, tol=1e-8, *, noise_floor=1e-10, task="auto", class_weight=None):
        self.tol = tol
        self.noise_floor = noise_floor
        self.task = task
        self.class_weight = class_weight

    def _score_moments(self):
        moments = self.moments_
        spectrum = moments.spectrum
        maximum = maximize_evidence(spectrum, tol=self.tol, noise_floor=self.noise_floor)
        self.scores_ = maximum.evidence
        self.alpha_ = maximum.alpha
        self.beta_ = maximum.beta
        self.gamma_ = maximum.gamma
        self.noise_floor_active_ = maximum.at_noise_floor
        self.n_iter_ = maximum.n_iter
        if moments.task == "classification":
            self.classes_ = moments.classes
        defined = np.isfinite(maximum.evidence)
        self.complexity_ = float(-spectrum.n_samples * maximum.evidence[defined].sum())
        self.score_ = float(maximum.evidence[defined].mean()) if defined.any() else np.nan
        chance = self._chance(spectrum, defined)
        self.chance_level_ = float("nan") if chance is None else chance.mean
        self._warn(maximum, spectrum, chance)
        # coef_ needs the directions, which are not kept: it is computed anew when it is read.
        self.__dict__.pop("coef_", None)

    def __getattr__(self, name):
        if name == "coef_" and "moments_" in self.__dict__:
            check_is_fitted(self, "score_")
            spectrum = self.moments_.spectrum
            maximum = maximize_evidence(spectrum, tol=self.tol, noise_floor=self.noise_floor)
            self.coef_ = spectrum.to_feature_space(maximum.along, maximum.mean_factor)
            self.moments_.detach()
            return self.coef_
        return super().__getattr__(name)

    def _chance(self, spectrum, defined):
        """Score targets that have nothing to do with the features, if that is cheap."""
        work = spectrum.loadings.size
        if not 0 < work <= _MOST_LOADINGS or not defined.any() or spectrum.n_samples < 3:
            return None
        # What an output is worth without any features.
        square = spectrum.target_square[defined] / spectrum.n_samples
        alone = -0.5 * (np.log(2 * np.pi * square) + 1) - np.log(spectrum.target_unit[defined])
        labels = self.moments_.task == "classification"
        turned = rotated_spectra(spectrum, labels, _SEED, _N_DRAWS)
        groups = iter(lambda: list(islice(turned, _DRAWS_AT_ONCE)), [])
        draws = chain.from_iterable(self._mean_evidences(group, defined) for group in groups)
        lowest = float(alone.mean())
        if self.moments_.is_weighted:
            permuted = permuted_moments(self, _SEED, _N_PERMUTATIONS)
            draws = (self._mean_evidences([m.spectrum], defined)[0] for m in permuted)
            return Chance.sampled(scores_until_sure(self.score_, draws, lowest), lowest=lowest)
        return Chance.sampled(scores_until_sure(self.score_, draws, lowest), lowest=lowest)

    def _mean_evidences(self, spectra, defined):
        """Score several targets for the same features."""
        tolerance = max(self.tol, _TOLERANCE)
        evidence = largest_evidence(
            side_by_side(spectra), tol=tolerance, noise_floor=self.noise_floor
        )
        return evidence.reshape(len(spectra), -1)[:, defined].mean(axis=1).tolist()

    def _warn(self, maximum, spectrum, chance):
        undefined = np.flatnonzero(~np.isfinite(maximum.evidence))
        n_outputs = len(maximum.evidence)
        if len(undefined) == n_outputs:
            self.saturated_ = True
            announce(
                "LogME has no score (NaN): every output of the target is zero for all samples.",
                UninformativeScoreWarning,
            )
        else:
            if len(undefined):
                announce(
                    f"LogME left out {len(undefined)} of {n_outputs} outputs that are zero for all "
                    f"samples: {undefined[:10].tolist()}.",
                    ConstantTargetWarning,
                )
            n_classes = n_outputs if self.moments_.task == "classification" else 0
            reason = trivial_reason(spectrum.rank == 0, n_classes, spectrum.n_samples)
            what = "labels" if n_classes else "targets"
            self._judge(reason or reason_to_doubt(self.score_, chance, np.inf, what=what))
        bounded = int((maximum.floor_share > _FLOOR_SHARE).sum())
        if bounded:
            announce(
                f"The features fit {bounded} of {n_outputs} outputs exactly with fewer directions "
                "than samples, where the evidence has no upper limit: the score is set by "
                f"noise_floor={self.noise_floor:g}.",
                NoiseFloorWarning,
            )
