"""TransRate: the coding rate of the features less that of the classes."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy import linalg

from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT
from ._class_metric import ClassMomentMetric
from ._permutations import reason_to_doubt, trivial_reason
from ._statistics import drawn_seed

# Rounding of a scatter matrix may change a rate by this share before the rows are used instead.
_DOUBT = 1e-8
_EPS = np.finfo(np.float64).eps

# A score that is this small a share of the rate of all samples is what rounding left.
_ROUNDING = 64 * _EPS

# Permutations by default, and the multiplications of one beyond which there are none.
_N_PERMUTATIONS = 10
_MOST_WORK = 2.0**32


class TransRate(ClassMomentMetric):
    """Coding rate of all features minus the mean coding rate of the classes.

    With Z the features less their mean and R(Z) = 1/2 log det(I + Zᵀ Z / (n eps)), TransRate is
    R(Z) - sum_k w_k R(Z_k), an estimate of the mutual information of features and labels at the
    precision eps [1]_. The rows Z_k of class k are not centred again. Higher is better; with class
    shares as weights it is at least 0.

    It does not change under shifts and rotations. It depends on the scale of the features unless
    `normalize` is True. A noisy feature adds to it as an informative one does, and with fewer
    samples than features even unrelated labels score high: compare candidates of one width on one
    target only.

    Read more in the :ref:`User Guide <transrate>`.

    Parameters
    ----------
    eps : float, default=1e-4
        Precision at which the features are coded, as a variance in squared units of the features.
    weights : {"prior", "uniform"}, default="prior"
        Weights w_k of the classes: their shares of the samples, or 1 / n_classes as in the
        authors' code. With "uniform" and classes of different sizes the score can be negative.
    normalize : bool, default=False
        Whether the centred features are divided by their Frobenius norm first, which makes the
        score independent of their scale.
    n_permutations : int or "auto", default="auto"
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. Each costs as much as the rates of the classes themselves. "auto" is 10, and
        0 where that is more than 4e9 multiplications (10,000 samples of 700 features); 0 leaves
        the chance level NaN.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        The TransRate in nats.
    rate_ : float
        R(Z), the coding rate of all samples.
    class_rates_ : ndarray of shape (n_classes,)
        R(Z_k), the coding rates of the classes.
    chance_level_ : float
        Mean score under permuted labels. NaN after `partial_fit` and `fit_moments`, where there are
        no rows to permute the labels of.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels, or is nothing but rounding.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    seed_ : int
        Seed that was used for the permutations.
    moments_ : FeatureMoments
        The statistics of the data. Not kept when several metrics are scored together.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score can't be told from that of permuted labels, or is nothing but rounding, as for
        features that are small beside sqrt(`eps`).

    See Also
    --------
    HScore : The share of the class means in the feature covariance.
    LogME : The maximised evidence of a linear model of the same features.

    Notes
    -----
    A determinant of order n_features is computed from whichever is smaller of the scatter matrix
    and the Gram matrix of a class, so that the classes together cost
    O(n_samples n_features min(class size, n_features)) beside the shared decomposition of all
    samples. Where rounding of these matrices would show (variances far above `eps`, beside some
    that are 1e12 times smaller), ``fit`` takes singular values of the rows; ``partial_fit`` and
    ``fit_moments`` can't. Sample weights replace counts by sums of weights.

    References
    ----------
    .. [1] L.-K. Huang et al., "Frustratingly Easy Transferability Estimation", ICML 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import TransRate
    >>> F, y = load_iris(return_X_y=True)
    >>> round(TransRate().fit(F, y).score_, 3)
    0.589
    >>> round(TransRate(normalize=True).fit(100 * F, y).score_, 3)
    0.289
    """

    needs = "features"
    tasks = ("classification",)
    _results = (
        "score_",
        "rate_",
        "class_rates_",
        "chance_level_",
        "saturated_",
        "classes_",
        "seed_",
    )

    _parameter_constraints: dict = {
        "eps": [Interval(Real, 0, None, closed="neither")],
        "weights": [StrOptions({"prior", "uniform"})],
        "normalize": ["boolean"],
        "n_permutations": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        eps=1e-4,
        weights="prior",
        normalize=False,
        *,
        n_permutations="auto",
        random_state=0,
        class_weight=None,
    ):
        self.eps = eps
        self.weights = weights
        self.normalize = normalize
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _score_parts(self, moments, parts, rows):
        spectrum = moments.spectrum
        n = spectrum.n_samples
        # The factor of a variance is kept as a logarithm: features may have any size.
        log_factor = -float(np.log(self.eps))
        if not self.normalize:
            log_factor += 2 * float(np.log(spectrum.unit))
        elif spectrum.rank:
            log_factor -= float(np.log(spectrum.trace))
        center, unit = spectrum.mean, spectrum.unit

        def rate(variances, n_values, exact, center=center):
            computed = _coding_rate(variances, log_factor)
            if exact is None or _rounding(variances, n_values, log_factor) <= _DOUBT * max(
                computed, 1.0
            ):
                return computed
            part = exact()
            roots = part.root_mean_squares(center, unit)[:n_values]
            # Coordinates have been rounded before they were centred.
            size = roots[0] + np.sqrt(center @ center)
            roots = roots[roots > 4 * _EPS * max(part.X.shape) * size]
            return _coding_rate(roots**2, log_factor)

        self.rate_ = rate(
            spectrum.eigenvalues / n,
            min(n - 1, spectrum.n_features),
            None if rows is None else rows.whole,
        )

        def score_of(parts, rows, total=self.rate_, center=center):
            rates, shares = [], []
            for code, part in enumerate(parts):
                variances = linalg.eigvalsh(part.mean_square(center, unit), check_finite=False)
                exact = None if rows is None else partial(rows.part, code)
                rates.append(rate(np.maximum(variances[::-1], 0.0), len(variances), exact, center))
                shares.append(part.weight)
            weights = np.ones(len(shares)) if self.weights == "uniform" else np.array(shares)
            score = total - float(weights @ rates / weights.sum())
            return max(score, 0.0) if self.weights == "prior" else score, np.array(rates)

        def score_of_permuted(rows):
            if rows.sample_weight is None:
                return score_of(rows, rows)[0]
            # Weights of classes went with the labels: mean and rate of all samples are others.
            whole = rows.whole()
            origin = np.zeros(whole.X.shape[1])
            center, _ = whole.mean_and_covariance(None, origin, unit, diagonal=True)
            variances = linalg.eigvalsh(whole.mean_square(center, unit), check_finite=False)
            variances = np.maximum(variances[::-1], 0.0)
            total = rate(variances, len(variances), rows.whole, center)
            return score_of(rows, rows, total, center)[0]

        self.classes_ = moments.classes
        self.score_, self.class_rates_ = score_of(parts, rows)
        self.seed_ = drawn_seed(self.random_state)
        lowest = 0.0 if self.weights == "prior" else None
        chance = self._chance(
            score_of_permuted,
            self.score_,
            rows,
            self._number_of_permutations(rows),
            lowest=lowest,
        )
        self.chance_level_ = float("nan") if chance is None else chance.mean
        reason = trivial_reason(spectrum.rank == 0, len(moments.classes), n)
        if reason is None and abs(self.score_) <= _ROUNDING * self.rate_:
            reason = "the features lie so far below sqrt(eps) that it is all rounding"
        self._judge(reason or reason_to_doubt(self.score_, chance, self.rate_))

    def _number_of_permutations(self, rows):
        if self.n_permutations != "auto" or rows is None:
            return self.n_permutations
        n_samples, n_features = rows.X.shape
        largest = np.bincount(rows.target.codes).max()
        work = float(n_samples) * n_features * min(largest, n_features)
        return _N_PERMUTATIONS if work <= _MOST_WORK else 0


def _coding_rate(variances, log_factor):
    """Half the log-determinant of I + factor diag(variances)."""
    positive = variances[variances > 0]
    return 0.5 * float(np.logaddexp(0.0, np.log(positive) + log_factor).sum())


def _rounding(variances, n_values, log_factor):
    """Bound what rounding of the largest of the variances does to the rate of n_values of them."""
    if not len(variances) or variances[0] <= 0:
        return 0.0
    error = 8 * _EPS * np.exp(min(float(np.log(variances[0])) + log_factor, 700.0))
    with np.errstate(divide="ignore"):
        sizes = np.exp(np.minimum(np.log(variances) + log_factor, 700.0))
    missing = n_values - len(variances)
    return 0.5 * float((error / (1 + sizes)).sum() + missing * np.log1p(error))
