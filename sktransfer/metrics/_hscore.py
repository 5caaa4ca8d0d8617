"""H-score: how much of the feature covariance the class means explain."""

from numbers import Real

import numpy as np

from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, MomentMetric
from ._permutations import Chance, reason_to_doubt, scores_until_sure, trivial_reason
from ._permuted_moments import permuted_moments

# Permutations of the labels of weighted samples, and their seed.
_N_PERMUTATIONS = 10
_SEED = 0


class HScore(MomentMetric):
    """Trace of the inverse feature covariance times the covariance of the class means.

    H = tr(inv(cov(F)) cov(E[F | y])) [1]_, with population covariances in both places and the
    pseudo-inverse over the numerical rank r of the centred features. It lies in
    [0, min(n_classes - 1, r)], higher is better, and does not change under any invertible affine
    map of the features (as long as the condition number of the features, each divided by its
    standard deviation, stays below about 1e6). With shrinkage, cov(F) is replaced by
    (1 - a) cov(F) + a tr(cov(F)) / D I and the covariance of the means is multiplied by 1 - a [2]_;
    the range stays, the invariance is to shifts, rotations and one common scale only.

    Without shrinkage the score reaches its maximum for *any* labels as soon as the centred features
    have rank n_samples - 1: it then says nothing, and warns. Its exact expectation under permuted
    labels is in `chance_level_`.

    Read more in the :ref:`User Guide <hscore>`.

    Parameters
    ----------
    shrinkage : {"ledoit_wolf"}, float in [0, 1] or None, default=None
        Shrinkage a of the feature covariance towards a multiple of the identity. "ledoit_wolf"
        takes scikit-learn's Ledoit-Wolf estimate. With 1 the score is 0.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        The H-score, in [0, n_classes - 1].
    chance_level_ : float
        Expected score when the labels are permuted: (n_classes - 1) r / (n_samples - 1) without
        shrinkage. With weights the mean score of a few permutations, and NaN where only moments are
        known or they would take long.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    rank_ : int
        Numerical rank r of the centred features.
    shrinkage_ : float
        The shrinkage used (0 for none).
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    moments_ : FeatureMoments
        The statistics of the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score can't be told from that of permuted labels, see Notes.

    See Also
    --------
    LogME : The maximised evidence of a linear model of the same features.
    FeatureMoments : The statistics that HScore needs.

    Notes
    -----
    Published shrunk values use the n - 1 covariance of the class means beside the population
    covariance of the features: they are n / (n - 1) times the value here, and can exceed
    n_classes - 1.

    A score is announced if one in a hundred random targets would have as high a one. Their spread
    is that of targets whose centred columns point in random directions. For equal sample weights
    that is close to permuted labels, but too small for heavy-tailed features with classes of two or
    three samples; for very unequal weights `chance_level_` itself is too low.

    References
    ----------
    .. [1] Y. Bao et al., "An Information-Theoretic Approach to Transferability in Task Transfer
       Learning", ICIP 2019.
    .. [2] S. Ibrahim, N. Ponomareva, R. Mazumder, "Newer is not always better: Rethinking
       transferability metrics, their peculiarities, stability and performance", ECML PKDD 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import HScore
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = HScore().fit(F, y)
    >>> round(metric.score_, 3)
    1.192
    >>> round(metric.chance_level_, 3)
    0.054
    >>> round(HScore(shrinkage="ledoit_wolf").fit(F, y).score_, 3)
    1.17
    """

    needs = "features"
    bounds = (0.0, np.inf)
    tasks = ("classification",)
    _results = ("score_", "chance_level_", "saturated_", "rank_", "shrinkage_", "classes_")

    _parameter_constraints: dict = {
        "shrinkage": [None, StrOptions({"ledoit_wolf"}), Interval(Real, 0, 1, closed="both")],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, shrinkage=None, *, class_weight=None):
        self.shrinkage = shrinkage
        self.class_weight = class_weight

    def _score_moments(self):
        moments = self.moments_
        self.classes_ = moments.classes
        spectrum, weight, self.shrinkage_, self.score_ = self._weigh(moments)
        n, n_classes = spectrum.n_samples, len(moments.classes)
        most = min(n_classes - 1, spectrum.rank)
        self.rank_ = spectrum.rank
        if moments.is_weighted:
            permuted = permuted_moments(self, _SEED, _N_PERMUTATIONS)
            draws = (self._weigh(m)[-1] for m in permuted)
            chance = Chance.sampled(scores_until_sure(self.score_, draws, 0.0), lowest=0.0)
        else:
            chance = _chance(weight, n_classes, n, most)
        self.chance_level_ = float("nan") if chance is None else chance.mean
        reason = trivial_reason(spectrum.rank == 0, n_classes, n)
        if reason is None and self.shrinkage_ == 1:
            reason = "shrinkage=1 replaces the covariance by the identity and drops the class means"
        if reason is None:
            reason = reason_to_doubt(self.score_, chance, most)
            if reason and self.shrinkage_ == 0:
                reason += f", as the centred features have rank {spectrum.rank} with {n} samples"
        remedy = "Use shrinkage='ledoit_wolf', fewer features or more samples."
        self._judge(reason, remedy if self.shrinkage_ == 0 and spectrum.rank > 0 else "")

    def _weigh(self, moments):
        """Return the spectrum, the weight of each of its directions, the shrinkage, the score."""
        spectrum = moments.spectrum
        if self.shrinkage is None:
            # The plain score does not depend on the scales of the columns; its digits should not.
            spectrum = moments.balanced_spectrum
        if self.shrinkage is None:
            shrinkage = 0.0
        elif self.shrinkage == "ledoit_wolf":
            shrinkage = ledoit_wolf_from_spectrum(spectrum)
        else:
            shrinkage = float(self.shrinkage)
        # Share of each direction that the class means explain, and the weight it gets.
        explained = (spectrum.loadings**2 / spectrum.target_sum).sum(axis=1)
        if shrinkage == 0.0:
            weight = np.ones(spectrum.rank)
        else:
            kept = (1 - shrinkage) * spectrum.eigenvalues
            weight = kept / (kept + shrinkage * spectrum.trace / spectrum.n_features)
        most = min(len(moments.classes) - 1, spectrum.rank)
        if shrinkage == 0.0 and spectrum.rank == spectrum.n_samples - 1:
            # The features can say any labels. All networks of which that is so are tied, instead
            # of ordered by rounding.
            return spectrum, weight, shrinkage, float(most)
        return spectrum, weight, shrinkage, float(np.clip(explained @ weight, 0.0, most))


def _chance(weight, n_classes, n_samples, most):
    """Mean and spread of the score of permuted labels.

    The score is tr(A B) with A of eigenvalues `weight` and B a projection on n_classes - 1
    dimensions, both in the n_samples - 1 dimensions of centred columns. Its mean under permutations
    is exact; its spread is that of a random rotation of B, which is that of permutations but for
    the product of how unequal the leverages and the class sizes are.
    """
    m, q = n_samples - 1, n_classes - 1
    mean = float(q * weight.sum() / m)
    variance = 0.0
    if m > 1:
        inequality = max(m * float(weight @ weight) - float(weight.sum()) ** 2, 0.0)
        variance = 2 * inequality * q * (m - q) / (m**2 * (m - 1) * (m + 2))
    return Chance.exact(mean, float(np.sqrt(max(variance, 0.0))), most)


def ledoit_wolf_from_spectrum(spectrum):
    """Ledoit-Wolf shrinkage of the feature covariance, as scikit-learn estimates it.

    Parameters
    ----------
    spectrum : CenteredSpectrum
        The decomposed features.

    Returns
    -------
    shrinkage : float
        In [0, 1].
    """
    n, n_features = spectrum.n_samples, spectrum.n_features
    if n_features == 1:  # the covariance is a multiple of the identity already
        return 0.0
    norm = spectrum.squared_norm / n**2
    # Distance of the covariance from the multiple of the identity, and its sampling error.
    distance = (norm - (spectrum.trace / n) ** 2 / n_features) / n_features
    error = (spectrum.fourth / n - norm) / (n_features * n)
    error = min(error, distance)
    return float(np.clip(error / distance, 0.0, 1.0)) if error > 0 else 0.0
