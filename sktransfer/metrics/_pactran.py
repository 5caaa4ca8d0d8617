"""PACTran: PAC-Bayesian bounds on the log loss of a classifier on top of the network."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..exceptions import ProbabilityNormalizationWarning, UninformativeScoreWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._logistic import minimize_logistic
from ._permutations import Chance, chance_scores, reason_to_doubt, trivial_reason
from ._source_bounds import BOUNDS, PUBLISHED, PUBLISHED_FLOOR, PUBLISHED_ROUNDS
from ._statistics import drawn_seed, entropy

# Sums of half-precision probabilities stray by about this much from one.
_SUM_TOLERANCE = 1e-3

# A bound counts as found when a round improves it by less than this, in nats per sample; after the
# last round it is announced if it still moved by more than the second number.
_TOLERANCE = 1e-11
_STILL_MOVING = 1e-6


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


class PACTran(WeightedMetric, RowMetric):
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
    n_permutations : int, default=10
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. Each costs as much as the score. 0 leaves it NaN and saves their cost.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

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
    chance_level_ : float
        Mean score under permuted labels.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    classes_ : ndarray of shape (n_classes,)
        Target labels.
    seed_ : int
        Seed that was used for the permutations.
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
        If the score can't be told from that of permuted labels, as for features that are small
        beside the prior, or if `max_iter` was not enough (the score is then lower than it should
        be).

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
    >>> round(PACTran("dirichlet").fit(np.tile(P, (5, 1)), [0, 0, 1, 1] * 5).score_, 3)
    -0.368
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
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
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
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.kind = kind
        self.formula = formula
        self.penalty_scale = penalty_scale
        self.prior_variance = prior_variance
        self.concentration = concentration
        self.max_iter = max_iter
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

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
        sizes = np.bincount(target.codes, sample_weight)
        self.label_entropy_ = entropy(sizes / sizes.sum())
        self.seed_ = drawn_seed(self.random_state)
        if self.kind == "gaussian":
            spectrum = moments().spectrum
            constant = spectrum.rank == 0
            Z = spectrum.coordinates(X, spectrum.directions(None))

            def bound_of(codes, weight):
                return self._gaussian(Z, codes, weight, spectrum.unit, X.shape[1])
        else:
            theta = _probabilities(X, self.kind)
            constant = bool((theta == theta[0]).all())

            def bound_of(codes, weight):
                return self._source(theta, codes, weight)

        bound = bound_of(target.codes, sample_weight)
        vars(self).pop("components_", None)
        if bound.components is not None:
            self.components_ = bound.components
        self.n_iter_, self.converged_ = bound.n_iter, bound.converged
        # Rounding may not lift a bound above its largest value.
        self.score_ = float(np.clip(bound.value, np.finfo(np.float64).min, self.bounds[1]))
        reason = trivial_reason(constant, len(sizes), len(X))
        draws = chance_scores(
            lambda codes, weight: bound_of(codes, weight).value,
            self.score_,
            X,
            target.codes,
            self.seed_,
            0 if reason else self.n_permutations,
            sample_weight,
        )
        chance = Chance.sampled([self.score_] if reason else draws)
        self.chance_level_ = float("nan") if chance is None else chance.mean
        largest = 0.0 if self.formula == "bound" else np.inf
        lowest = -self.label_entropy_
        self._judge(reason or reason_to_doubt(self.score_, chance, largest, lowest=lowest))
        if not self.converged_:
            announce(
                f"The PACTran score {self.score_:.6g} says little: the bound still moved after "
                f"max_iter={self.max_iter} steps.",
                UninformativeScoreWarning,
            )

    # ---------------------------------------------------------------------------------- features

    def _gaussian(self, Z, codes, sample_weight, unit, n_features):
        n_samples, n_classes = len(Z), len(self.classes_)
        log_weight = np.zeros(n_samples)
        if sample_weight is not None:
            # Of permuted labels, whose weights are others, the mean is another one.
            Z = Z - (sample_weight / sample_weight.sum()) @ Z
            log_weight = np.log(sample_weight * (n_samples / sample_weight.sum()))
        scale = float(self.penalty_scale) * n_samples
        with np.errstate(over="ignore", under="ignore"):
            penalty = np.clip(1 / scale / unit / unit, 1e-250, 1e250)
        optimum = minimize_logistic(Z, codes, float(penalty), self.max_iter, sample_weight)

        # In logarithms: the squares of features may lie outside the float range.
        curved = optimum.curvature > 0
        log_trace = _log_sum(np.log(optimum.curvature[curved]) + log_weight[curved])
        square = np.einsum("ij,ij->i", Z, Z)
        alive = curved & (square > 0)
        log_square = np.log(square[alive]) + 2 * np.log(unit) + log_weight[alive]
        log_trace = np.logaddexp(log_trace, _log_sum(log_square + np.log(optimum.curvature[alive])))
        if self.formula == "bound":
            log_trace -= np.log(n_samples)
        log_ratio = np.log(scale / (n_classes * n_features)) + log_trace
        flatness = 0.5 * float(self.prior_variance) * n_classes / scale
        flatness *= float(np.logaddexp(0.0, log_ratio))
        components = {
            "fit": -optimum.loss,
            "penalty": -optimum.penalty,
            "flatness": -flatness,
        }
        value = float(sum(components.values()))
        return _Bound(value, components, optimum.n_iter, optimum.converged)

    # ------------------------------------------------------------------------ source probabilities

    def _source(self, theta, codes, sample_weight):
        if sample_weight is not None:
            sample_weight = sample_weight * (len(codes) / sample_weight.sum())
        sizes = np.bincount(codes, sample_weight)
        prior = float(self.concentration) * sizes / sizes.sum()
        if self.formula == "published":
            value = PUBLISHED[self.kind](theta, codes, prior + PUBLISHED_FLOOR, sample_weight)
            return _Bound(float(value), None, PUBLISHED_ROUNDS, True)
        bound = BOUNDS[self.kind](theta, codes, prior, sample_weight)
        last, moving, n_iter = -np.inf, np.inf, 0
        while n_iter < self.max_iter and moving > _TOLERANCE:
            n_iter += 1
            fit, complexity = bound.round()
            moving = (fit + complexity - last) / max(1.0, abs(fit + complexity))
            last = fit + complexity
        components = {"fit": float(fit), "complexity": float(complexity)}
        return _Bound(float(last), components, n_iter, bool(moving <= _STILL_MOVING))


class _Bound(NamedTuple):
    """Minus a bound, its parts, and how it was found."""

    value: float
    components: dict | None
    n_iter: int
    converged: bool


def _log_sum(logarithms):
    return logsumexp(logarithms) if len(logarithms) else -np.inf


def _probabilities(X, kind):
    """Return rows that sum to one, as float64."""
    X = X.astype(np.float64)
    with np.errstate(over="ignore"):
        sums = X.sum(axis=1)
    off = ~(np.abs(sums - 1) <= _SUM_TOLERANCE)
    if off.any():
        announce(
            f"{int(off.sum())} of {len(X)} rows given to PACTran(kind={kind!r}) as probabilities "
            f"do not sum to 1 (row {int(np.flatnonzero(off)[0])} sums to {sums[off][0]:.6g}); "
            "they were normalised.",
            ProbabilityNormalizationWarning,
        )
    X[X.max(axis=1) == 0] = 1.0
    # Dividing by the largest entry first keeps sums of huge or subnormal rows finite.
    X /= X.max(axis=1, keepdims=True)
    X /= X.sum(axis=1, keepdims=True)
    return X
