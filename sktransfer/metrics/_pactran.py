"""PACTran: PAC-Bayesian bounds on the log loss of a classifier on top of the network."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln, logsumexp

from ..exceptions import ProbabilityNormalizationWarning, UninformativeScoreWarning
from ..utils._sklearn import Interval, StrOptions
from ._base import RowMetric
from ._logistic import minimize_logistic
from ._statistics import entropy

# Sums of half-precision probabilities stray by about this much from one.
_SUM_TOLERANCE = 1e-3

# A bound counts as found when a round improves it by less than this, in nats per sample; after the
# last round it is announced if it still moved by more than the second number.
_TOLERANCE = 1e-11
_STILL_MOVING = 1e-6

# What the published code adds to probabilities and parameters, and its number of rounds.
_PUBLISHED_FLOOR = 1e-10
_PUBLISHED_ROUNDS = 10


class _OfInstance:
    """A class attribute that an instance answers by its parameters."""

    def __init__(self, default, rule):
        self.default, self.rule = default, rule

    def __get__(self, instance, owner=None):
        return self.default if instance is None else self.rule(instance)


def _needs(metric):
    return "features" if metric.kind == "gaussian" else "probabilities"


def _bounds(metric):
    # The published Gamma value is no bound of anything.
    no_bound = (metric.kind, metric.formula) == ("gamma", "published")
    return (-np.inf, np.inf if no_bound else 0.0)


class PACTran(RowMetric):
    """Negative PAC-Bayesian bound on the log loss of a classifier on top of the network.

    The bound is the smallest, over distributions of the classifier's parameters, of expected mean
    log loss plus Kullback-Leibler divergence from a prior per sample [1]_. The score is its
    negative, at most 0, higher is better, in nats per sample.

    - ``kind="gaussian"`` reads features, less their means. The classifier is multinomial logistic
      regression, with Gaussian prior and posterior; the posterior's centre W minimises
      L(W) = mean log loss + norm(W)² / (2 a n), its spread follows from the trace T of the Hessian
      of the mean log loss, and the score is
      -L(W) - s K / (2 a n) log(1 + a n T / (K D))
      for n samples, D features, K classes, a = `penalty_scale` and s = `prior_variance`. The trace
      is the mean over the samples of (norm(x)² + 1) sum_k p_k (1 - p_k).
    - ``kind="dirichlet"`` reads source-class probabilities s(z | x). The classifier is
      p(y | x) = sum_z M(y | z) s(z | x), the columns of M have Dirichlet priors, and the bound is
      the variational one on the log evidence.
    - ``kind="gamma"`` reads source-class probabilities. M has independent Gamma priors of rate 1,
      and p(y | x) is normalised.

    Read more in the :ref:`User Guide <pactran>`.

    Parameters
    ----------
    kind : {"gaussian", "dirichlet", "gamma"}, default="gaussian"
        Family of distributions. With it `needs` is "features" or "probabilities".
    formula : {"bound", "published"}, default="bound"
        "bound" is what this package derives from the definition above, see Notes. "published"
        follows the authors' code in what it computes differently. Gaussian: T is the
        trace for the sum, not the mean, of the log losses. Dirichlet and Gamma: ten rounds,
        1e-10 added to probabilities and prior, the parameters of M one step behind, and sums
        divided by n K, not n; for Gamma also a rate that stays 1, and 1 added to the bound. The
        published numbers, for which lower is better, are minus the score.
    penalty_scale : float, default=1.0
        Gaussian: the scale a of the penalty (published: 10, 1 and 0.1).
    prior_variance : float, default=1.0
        Gaussian: variance s of the prior, in units of 1 / n_features (published: 100 or 10 times
        the scale of the penalty).
    concentration : float, default=1.0
        Dirichlet and Gamma: sum of the prior's parameters of one source class, which are
        proportional to the class shares.
    max_iter : int, default=1000
        Largest number of Newton steps or rounds; "published" takes ten rounds.

    Attributes
    ----------
    score_ : float
        Minus the bound, in nats per sample.
    components_ : dict of str to float
        Parts whose sum is the score. Gaussian: "fit", minus the mean log loss; "penalty" and
        "flatness", minus the other two terms. Dirichlet and Gamma: "fit", minus the expected log
        loss (for Gamma with its bound of the normalisation), and "complexity", minus the divergence
        per sample; only for "bound".
    label_entropy_ : float
        Entropy H(Y) of the target labels in nats. Features that say nothing leave a log loss of
        H(Y).
    n_iter_ : int
        Newton steps or rounds taken.
    converged_ : bool
        Whether the bound could not be improved any more.
    saturated_ : bool
        Whether any labels with the same class sizes would give this score.
    classes_ : ndarray of shape (n_classes,)
        Target labels.
    n_features_in_ : int
        Number of features or source classes.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Raises
    ------
    ValueError
        If X holds negative values where probabilities are expected.

    Warns
    -----
    ProbabilityNormalizationWarning
        If rows given as probabilities do not sum to one; they are normalised.
    UninformativeScoreWarning
        If features are constant, every class has a single sample, or `max_iter` was not enough (the
        score is then lower than it should be).

    See Also
    --------
    LogME : The evidence of a linear model of the features.
    LEEP : The log-likelihood of a counted classifier of the source probabilities.

    Notes
    -----
    The derivation of "bound" is this package's own; the user guide spells it out. Gaussian: with
    prior N(0, v I), v = s / D, and posterior N(W, u I) of the K D coefficients, and a weight a / v
    of the samples, expected loss plus divergence is, to second order in the posterior's spread,
    L(W) + u T / 2 + s K / (2 a n) (u / v - 1 - log(u / v)). It is least where v / u =
    1 + a n T / (K D), which leaves the logarithm above. (The intercepts have the same spread and a
    flat prior.) The expansion is an approximation: the number is the minimum of a bound up to
    higher orders of u, not a guarantee. Dirichlet and Gamma are bounds without approximation of
    minus the log evidence per sample, by Jensen's inequality over source classes; for Gamma also by
    log(t) <= t / c + log(c) - 1 for the normalisation.

    The Gaussian bound does not change under shifts and rotations; it depends on the scale of the
    features. Its minimum is found by Newton's method along the principal components, from zero, and
    is the only one. Zero columns change D and so the flatness only. The other two do not change
    when source classes without any probability are added. Their rounds start from the source
    probabilities and find a local minimum, as published. Cost of a round or Newton step:
    O(n_samples n_source_classes), or a few tens of O(n_samples n_features n_classes).

    References
    ----------
    .. [1] N. Ding, X. Chen, T. Levinboim, B. Changpinyo, R. Soricut, "PACTran: PAC-Bayesian Metrics
       for Estimating the Transferability of Pretrained Models to Classification Tasks", ECCV 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import PACTran
    >>> F, y = load_iris(return_X_y=True)
    >>> round(PACTran().fit(F, y).score_, 3)
    -0.213
    >>> P = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
    >>> round(PACTran("dirichlet").fit(P, [0, 0, 1, 1]).score_, 3)
    -0.671
    """

    needs = _OfInstance("features", _needs)
    bounds = _OfInstance((-np.inf, 0.0), _bounds)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "kind": [StrOptions({"gaussian", "dirichlet", "gamma"})],
        "formula": [StrOptions({"bound", "published"})],
        "penalty_scale": [Interval(Real, 0, None, closed="neither")],
        "prior_variance": [Interval(Real, 0, None, closed="neither")],
        "concentration": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        kind="gaussian",
        *,
        formula="bound",
        penalty_scale=1.0,
        prior_variance=1.0,
        concentration=1.0,
        max_iter=1000,
    ):
        self.kind = kind
        self.formula = formula
        self.penalty_scale = penalty_scale
        self.prior_variance = prior_variance
        self.concentration = concentration
        self.max_iter = max_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.kind != "gaussian"
        return tags

    def _validate_features(self, X, y, **check_params):
        X, y = super()._validate_features(X, y, **check_params)
        if self.kind != "gaussian" and X.min() < 0:
            raise ValueError(
                f"Negative values in data passed to PACTran(kind={self.kind!r}), which takes "
                "source-class probabilities."
            )
        return X, y

    def _fit_rows(self, X, target, sample_weight, moments):
        self.classes_ = target.classes
        sizes = np.bincount(target.codes)
        self.label_entropy_ = entropy(sizes / len(X))
        if self.kind == "gaussian":
            constant = self._fit_gaussian(X, target.codes, moments().spectrum)
        else:
            theta = _probabilities(X, self.kind)
            constant = bool((theta == theta[0]).all())
            self._fit_source(theta, target.codes, sizes)
        # Rounding may not lift a bound above its largest value.
        self.score_ = float(np.clip(self.score_, np.finfo(np.float64).min, self.bounds[1]))
        reason = None
        if constant:
            reason = "the features are constant"
        elif len(sizes) == len(X):
            reason = "every class has a single sample"
        self.saturated_ = reason is not None
        if not self.converged_:
            reason = f"the bound still moved after max_iter={self.max_iter} steps"
        if reason:
            warnings.warn(
                f"The PACTran score {self.score_:.6g} says little: {reason}.",
                UninformativeScoreWarning,
                stacklevel=7,
            )

    # ---------------------------------------------------------------------------------- features

    def _fit_gaussian(self, X, codes, spectrum):
        n_samples, n_features = X.shape
        n_classes = len(self.classes_)
        scale = float(self.penalty_scale) * n_samples
        Z = spectrum.coordinates(X, spectrum.directions(None))
        with np.errstate(over="ignore", under="ignore"):
            penalty = np.clip(1 / scale / spectrum.unit / spectrum.unit, 1e-250, 1e250)
        optimum = minimize_logistic(Z, codes, float(penalty), self.max_iter)
        self.n_iter_, self.converged_ = optimum.n_iter, optimum.converged

        # In logarithms: the squares of features may lie outside the float range.
        log_trace = _log_sum(np.log(optimum.curvature[optimum.curvature > 0]))
        square = np.einsum("ij,ij->i", Z, Z)
        alive = (optimum.curvature > 0) & (square > 0)
        log_square = np.log(square[alive]) + 2 * np.log(spectrum.unit)
        log_trace = np.logaddexp(log_trace, _log_sum(log_square + np.log(optimum.curvature[alive])))
        if self.formula == "bound":
            log_trace -= np.log(n_samples)
        log_ratio = np.log(scale / (n_classes * n_features)) + log_trace
        flatness = 0.5 * float(self.prior_variance) * n_classes / scale
        flatness *= float(np.logaddexp(0.0, log_ratio))
        self.components_ = {
            "fit": -optimum.loss,
            "penalty": -optimum.penalty,
            "flatness": -flatness,
        }
        self.score_ = float(sum(self.components_.values()))
        return spectrum.rank == 0

    # ------------------------------------------------------------------------ source probabilities

    def _fit_source(self, theta, codes, sizes):
        prior = float(self.concentration) * sizes / sizes.sum()
        if self.formula == "published":
            value = _PUBLISHED[self.kind](theta, codes, prior + _PUBLISHED_FLOOR)
            self.n_iter_, self.converged_ = _PUBLISHED_ROUNDS, True
            self.score_ = float(value)
            return
        bound = _BOUNDS[self.kind](theta, codes, prior)
        last, moving, n_iter = -np.inf, np.inf, 0
        while n_iter < self.max_iter and moving > _TOLERANCE:
            n_iter += 1
            fit, complexity = bound.round()
            moving = (fit + complexity - last) / max(1.0, abs(fit + complexity))
            last = fit + complexity
        self.n_iter_ = n_iter
        self.converged_ = bool(moving <= _STILL_MOVING)
        self.components_ = {"fit": float(fit), "complexity": float(complexity)}
        self.score_ = float(last)


def _log_sum(logarithms):
    return logsumexp(logarithms) if len(logarithms) else -np.inf


def _probabilities(X, kind):
    """Return rows that sum to one, as float64."""
    X = X.astype(np.float64)
    with np.errstate(over="ignore"):
        sums = X.sum(axis=1)
    off = ~(np.abs(sums - 1) <= _SUM_TOLERANCE)
    if off.any():
        warnings.warn(
            f"{int(off.sum())} of {len(X)} rows given to PACTran(kind={kind!r}) as probabilities "
            f"do not sum to 1 (row {int(np.flatnonzero(off)[0])} sums to {sums[off][0]:.6g}); "
            "they were normalised.",
            ProbabilityNormalizationWarning,
            stacklevel=8,
        )
    X[X.max(axis=1) == 0] = 1.0
    # Dividing by the largest entry first keeps sums of huge or subnormal rows finite.
    X /= X.max(axis=1, keepdims=True)
    X /= X.sum(axis=1, keepdims=True)
    return X


class _SourceBound:
    """What the two variational bounds share: the responsibilities q of the source classes."""

    def __init__(self, theta, codes, prior):
        self.theta, self.codes = theta, codes
        self.prior = prior[:, None]
        n_samples = len(codes)
        self.members = sparse.csr_array(
            (np.ones(n_samples), (codes, np.arange(n_samples))), (len(prior), n_samples)
        )
        self.q = theta

    def counts(self):
        return self.prior + self.members @ self.q

    def update(self, expected_log):
        """Set q for given expectations of log M; return the sum of the log normalisers."""
        exponent = expected_log[self.codes]
        # Largest exponent of the source classes that a sample has: others have no say.
        exponent = np.where(self.theta > 0, exponent, -np.inf)
        largest = exponent.max(axis=1, keepdims=True)
        self.q = self.theta * np.exp(exponent - largest)
        total = self.q.sum(axis=1, keepdims=True)
        self.q /= total
        return float(np.sort((largest + np.log(total))[:, 0]).sum())


class _DirichletBound(_SourceBound):
    def round(self):
        """Update M and q in turn; return minus expected log loss and divergence per sample."""
        a = self.counts()
        expected_log = digamma(a) - digamma(a.sum(axis=0))
        fit = self.update(expected_log)
        # Divergence of M's posterior, for which q was the best.
        divergence = _log_beta(self.prior).sum() * np.ones(a.shape[1]) - _log_beta(a)
        divergence += ((a - self.prior) * expected_log).sum(axis=0)
        n_samples = len(self.codes)
        return fit / n_samples, -float(np.sort(divergence).sum()) / n_samples


def _log_beta(a):
    """Logarithm of the multivariate beta function of each column."""
    return gammaln(a).sum(axis=0) - gammaln(a.sum(axis=0))


class _GammaBound(_SourceBound):
    def __init__(self, theta, codes, prior):
        super().__init__(theta, codes, prior)
        self.normaliser = np.full(len(codes), prior.sum())

    def round(self):
        """Update M, then q and the normalisers; return minus log loss and divergence."""
        a = self.counts()
        b = 1 + (self.theta / self.normaliser[:, None]).sum(axis=0)
        expected_log = digamma(a) - np.log(b)
        mass = a.sum(axis=0) / b
        self.normaliser = self.theta @ mass
        fit = self.update(expected_log) - float(np.sort(np.log(self.normaliser)).sum())
        divergence = (a - self.prior) * digamma(a) - gammaln(a) + gammaln(self.prior)
        divergence = divergence.sum(axis=0) + self.prior.sum() * np.log(b) + mass * (1 - b)
        n_samples = len(self.codes)
        return fit / n_samples, -float(np.sort(divergence).sum()) / n_samples


_BOUNDS = {"dirichlet": _DirichletBound, "gamma": _GammaBound}


def _published_dirichlet(theta, codes, prior):
    bound = _SourceBound(theta, codes, prior)
    log_source = np.log(theta + _PUBLISHED_FLOOR)
    for _ in range(_PUBLISHED_ROUNDS):
        a = bound.counts()
        expected_log = digamma(a) - digamma(a.sum(axis=0))
        divergence = _published_round(bound, log_source, expected_log)
    value = (_log_beta(a) - _log_beta(bound.prior)).sum() - divergence
    return value / (len(codes) * len(prior))


def _published_gamma(theta, codes, prior):
    bound = _SourceBound(theta, codes, prior)
    log_source = np.log(theta + _PUBLISHED_FLOOR)
    for _ in range(_PUBLISHED_ROUNDS):
        a = bound.counts()
        normaliser = theta @ a.sum(axis=0)
        divergence = _published_round(bound, log_source, digamma(a))
    value = (gammaln(bound.prior) - gammaln(a)).sum() + divergence
    value += (np.log(normaliser) - 1).sum()
    return -(value / (len(codes) * len(prior)) + 1)


def _published_round(bound, log_source, expected_log):
    """Set q; return the sum of its divergences from the source probabilities."""
    exponent = log_source + expected_log[bound.codes]
    log_q = exponent - logsumexp(exponent, axis=1, keepdims=True)
    bound.q = np.exp(log_q)
    return (bound.q * (log_q - log_source)).sum()


_PUBLISHED = {"dirichlet": _published_dirichlet, "gamma": _published_gamma}
