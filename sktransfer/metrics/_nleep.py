"""NLEEP: LEEP with the components of a Gaussian mixture in place of the source classes."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ..exceptions import NotConvergedWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, StrOptions
from ._base import RowMetric
from ._canonical import canonical_order, reproducible_spectrum, rounded_norms, row_ranks
from ._leep import _empirical_predictor
from ._permutations import Chance, reason_to_doubt, trivial_reason
from ._statistics import drawn_seed, entropy

# Components are rounded to this grid (in standard deviations), far below what `reg_covar` lets the
# mixture see. Sums of them are then exact, so that neither the order of the rows nor the number of
# threads reaches the seeded search for clusters.
_GRID = 2.0**-26
_SAMPLES_PER_COMPONENT = 2
_SMALLEST_REGULARISATION = 1e-12
_LARGEST_REGULARISATION = 1e12


class NLEEP(RowMetric):
    """LEEP of the features themselves: a Gaussian mixture stands in for the source classifier.

    The features are reduced to the smallest number of principal components that hold more than a
    share `energy` of the variance; a Gaussian mixture is fitted to them, without labels; and its
    posterior probabilities p(z | x) take the place of the source-class probabilities in LEEP
    [1]_. The score is the mean log-likelihood of the expected empirical predictor: at most 0,
    higher is better, in nats. Features that do not tell the classes apart score minus the label
    entropy, plus what many mixture components gain by chance: `chance_level_` says how much.

    Read more in the :ref:`User Guide <nleep>`.

    Parameters
    ----------
    energy : float in (0, 1], default=0.8
        Share of the variance that the principal components must exceed; 1 keeps all.
    components_per_class : int, default=5
        Mixture components per class. There are never more than half as many as samples (two
        samples per component), nor more than distinct samples.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Covariances of the mixture.
    reg_covar : float, default=1e-6
        Added to the variances of the mixture, in the unit that `reg_covar_unit` names. Raised
        tenfold as often as needed if the covariances are singular for all that.
    log : bool, default=True
        Whether the score is the mean log-likelihood. False gives the mean likelihood, in (0, 1],
        which a family of implementations computes under this name.
    random_state : int, RandomState instance or None, default=None
        Seed of the mixture's initialisation and of the permutations.
    n_permutations : int, default=10
        Number of label permutations behind `chance_level_`; 0 leaves it NaN.
    reg_covar_unit : {"variance", "absolute"}, default="variance"
        Unit of `reg_covar`: "variance" is the mean variance of the principal components, so that
        the score does not depend on the scale of the features; "absolute" adds the number itself,
        as published.

    Attributes
    ----------
    score_ : float
        The score: at most 0, or in (0, 1] if `log` is False.
    chance_level_ : float
        Mean score under permuted labels.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    label_entropy_ : float
        Entropy of the target labels in nats.
    n_components_ : int
        Number of principal components.
    n_mixture_components_ : int
        Number of mixture components.
    reg_covar_ : float
        The regularisation used, relative to the mean variance of the principal components.
    converged_ : bool
        Whether the mixture converged.
    n_iter_ : int
        Number of its iterations.
    posteriors_ : ndarray of shape (n_samples, n_mixture_components_)
        Probabilities p(z | x) of the mixture components; LEEP of them is the score.
    seed_ : int
        Seed that was used.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    NotConvergedWarning
        If the mixture did not converge within 100 iterations.
    UninformativeScoreWarning
        If the score can't be told from that of permuted labels, or there is a single mixture
        component (constant features, fewer than four samples).

    See Also
    --------
    LEEP : The same with a source classifier.

    Notes
    -----
    Published variants: ``log=False`` (mean likelihood); ``covariance_type="spherical",
    reg_covar=1e-5``; ``energy=0.9, components_per_class=1``; all with
    ``reg_covar_unit="absolute"``. What is left then is what a seed decides: the originals start
    from other clusters with the same seed when the samples come in another order.

    The score depends on the seed: over seeds it has a standard deviation of about 0.01 for a few
    hundred samples. For one seed it is the same for any order of the samples, and, with rounding
    aside, for shifted, rotated and rescaled features. The cost is that of the decomposition, shared
    with other metrics, and up to 100 iterations of O(n m k² + m k³) for m mixture and k principal
    components with full covariances.

    References
    ----------
    .. [1] Y. Li et al., "Ranking Neural Checkpoints", CVPR 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import NLEEP
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = NLEEP(random_state=0).fit(F, y)
    >>> round(metric.score_, 1), round(metric.chance_level_, 0)
    (-0.1, -1.0)
    >>> metric.n_components_, metric.n_mixture_components_
    (1, 15)
    """

    needs = "features"
    bounds = (-np.inf, 1.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "energy": [Interval(Real, 0, 1, closed="right")],
        "components_per_class": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "log": ["boolean"],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "reg_covar_unit": [StrOptions({"variance", "absolute"})],
    }

    def __init__(
        self,
        energy=0.8,
        components_per_class=5,
        covariance_type="full",
        reg_covar=1e-6,
        log=True,
        random_state=None,
        *,
        n_permutations=10,
        reg_covar_unit="variance",
    ):
        self.energy = energy
        self.components_per_class = components_per_class
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.log = log
        self.random_state = random_state
        self.n_permutations = n_permutations
        self.reg_covar_unit = reg_covar_unit

    def _fit_rows(self, X, target, sample_weight, moments):
        self.classes_ = target.classes
        self.seed_ = drawn_seed(self.random_state)
        rows, log_variance = self._principal_rows(X, target, moments)
        self.n_components_ = rows.shape[1]
        order, classes = canonical_order(row_ranks(X, rounded_norms(rows)), target.codes)
        # Adding zero makes negative zeros positive.
        rows = np.rint(rows[order] / _GRID) * _GRID + 0.0
        self.n_mixture_components_ = self._mixture_size(rows, len(target.classes))
        posteriors = self._fit_mixture(rows, log_variance)
        self.posteriors_ = np.empty_like(posteriors)
        self.posteriors_[order] = posteriors
        self.label_entropy_ = entropy(np.bincount(classes) / len(classes))
        self.score_ = _expected_prediction(posteriors, classes, self.log)
        lowest, largest = (-self.label_entropy_, 0.0) if self.log else self._likelihoods(classes)
        chance = Chance.sampled(self._chance_scores(posteriors, classes), lowest=lowest)
        self.chance_level_ = float("nan") if chance is None else chance.mean
        reason = trivial_reason(self.n_components_ == 0, len(self.classes_), len(rows))
        if reason is None and self.n_mixture_components_ == 1:
            reason = f"{len(rows)} samples allow a mixture of one component only"
        if not self.converged_:
            announce(
                f"The mixture of {self.n_mixture_components_} components behind NLEEP did not "
                f"converge within {self.n_iter_} iterations; the score is that of its last state.",
                NotConvergedWarning,
            )
        self._judge(reason or reason_to_doubt(self.score_, chance, largest, lowest=lowest))

    @staticmethod
    def _likelihoods(classes):
        """Mean likelihood of the class shares, which know nothing, and the largest."""
        shares = np.bincount(classes) / len(classes)
        return float(shares @ shares), 1.0

    def _principal_rows(self, X, target, moments):
        """Return principal components with a mean variance of one, and the log of what it was."""
        spectrum = reproducible_spectrum(X, target, moments, self._count)
        k = self._count(spectrum)
        if k == 0:
            return np.zeros((len(X), 0)), 0.0
        # In units, which stay finite for features at the ends of the float range.
        rows = spectrum.coordinates(X, spectrum.directions(k))
        variance = spectrum.eigenvalues[:k].sum() / (len(X) * k)
        rows /= np.sqrt(variance)
        return rows, np.log(variance) + 2 * np.log(spectrum.unit)

    def _count(self, spectrum):
        """Smallest number of components whose share of the variance exceeds `energy`."""
        if spectrum.rank == 0:
            return 0
        share = np.cumsum(spectrum.eigenvalues) / spectrum.trace
        return min(int(np.searchsorted(share, self.energy, side="right")) + 1, spectrum.rank)

    def _mixture_size(self, rows, n_classes):
        n_distinct = int(row_ranks(rows).max()) + 1 if rows.shape[1] else 1
        wanted = self.components_per_class * n_classes
        return max(1, min(wanted, len(rows) // _SAMPLES_PER_COMPONENT, n_distinct))

    def _fit_mixture(self, rows, log_variance):
        """Fit the mixture and return its posteriors; a larger regularisation if it has to be."""
        self.reg_covar_ = float(self.reg_covar)
        if self.reg_covar_ and self.reg_covar_unit == "absolute":
            largest = np.log(_LARGEST_REGULARISATION)
            self.reg_covar_ = float(np.exp(min(np.log(self.reg_covar_) - log_variance, largest)))
        self.converged_, self.n_iter_ = True, 0
        if self.n_mixture_components_ == 1:
            return np.ones((len(rows), 1))
        while True:
            mixture = GaussianMixture(
                self.n_mixture_components_,
                covariance_type=self.covariance_type,
                reg_covar=self.reg_covar_,
                random_state=self.seed_,
            )
            try:
                # The initialisation refuses array API dispatch, which rows of NumPy do not need.
                with warnings.catch_warnings(), config_context(array_api_dispatch=False):
                    # What these say is in `converged_`, and announced by a warning of our own.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    mixture.fit(rows)
                    posteriors = mixture.predict_proba(rows)
            except ValueError:
                if self.reg_covar_ >= 1:
                    raise
                self.reg_covar_ = max(10 * self.reg_covar_, _SMALLEST_REGULARISATION)
            else:
                self.converged_, self.n_iter_ = bool(mixture.converged_), int(mixture.n_iter_)
                return posteriors

    def _chance_scores(self, posteriors, classes):
        """Scores of permuted labels, all in canonical order."""
        rng = np.random.default_rng(self.seed_)
        labels = np.sort(classes)
        return [
            _expected_prediction(posteriors, rng.permutation(labels), self.log)
            for _ in range(self.n_permutations)
        ]


def _expected_prediction(posteriors, codes, log):
    """Mean (log-)likelihood of the expected empirical predictor on its own samples."""
    conditional, mean_log = _empirical_predictor(posteriors, codes, np.ones(len(codes)))
    if log:
        return float(min(mean_log, 0.0))
    # The mean over samples of sum_z P(y | z) p(z | x), gathered by mixture component.
    return float(min((conditional**2 @ posteriors.mean(axis=0)).sum(), 1.0))
