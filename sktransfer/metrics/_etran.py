"""ETran: an energy of the features and the fit of a linear discriminant analysis."""

from numbers import Integral, Real

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax

from ..exceptions import UninformativeScoreWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._discriminant import ClassScatter, adaptive_shrinkage, weighted_mean
from ._permutations import chance_scores, reason_to_doubt, trivial_reason
from ._pool import scaled_parts
from ._second_moments import row_blocks
from ._statistics import drawn_seed

# Published weights of the two parts, and the published share of samples in the energy's tail.
_WEIGHTS = {"energy": 0.15, "lda": 0.85}
_TAILS = {"intended": 0.5, "published": 0.005}


class ETran(WeightedMetric, RowMetric):
    """Energy of the features plus the fit of a linear discriminant analysis.

    Two parts, both higher for better features [1]_:

    - ``energy``, the mean of log sum_j exp(x_ij) over the samples where it is lowest. No labels
      enter: it says how much the features respond at all.
    - ``lda``, the mean probability of the true class by a linear discriminant analysis whose
      within-class covariance is shrunk with the weight max(exp(-5 e), 1e-10), where e estimates
      its largest eigenvalue.

    The score is *relative to a pool of candidates*: :meth:`pool_scores` scales each part to [0, 1]
    over the pool and returns 0.15 energy + 0.85 lda, in [0, 1]. `score_` is a substitute for one
    candidate alone, in [0, 1]: the same combination with (1 + x / (1 + abs(x))) / 2 in place of the
    scaled energy, where x = energy - log(n_features), which is 0 for features that are 0.

    Samples are scored by an analysis that has seen their labels. With few samples for the number
    of features any labels score nearly 1, which is announced.

    Read more in the :ref:`User Guide <etran>`.

    Parameters
    ----------
    formula : {"intended", "published"}, default="intended"
        "published" reproduces the authors' code: its eigenvectors come from a routine for symmetric
        matrices given one that is not, so that the covariance drops out and ``lda`` is the softmax
        of the distances to the class means; and its tail holds 0.5 % of the samples, none of fewer
        than 200, for which there is no score (NaN).
    tail : float in (0, 1] or None, default=None
        Share of the samples, those of lowest energy, over which the energy is averaged. None is one
        half for "intended" and 0.005 for "published".
    n_permutations : int, default=10
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. 0 leaves it NaN and saves their cost.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    components_ : dict of str to float
        The parts "energy" and "lda".
    score_ : float
        The candidate-free combination, in [0, 1].
    chance_level_ : float
        Mean `score_` under permuted labels.
    saturated_ : bool
        Whether there is no score (NaN), or its part ``lda`` can't be told from that of permuted
        labels.
    shrinkage_ : float
        Weight of the multiple of the identity in the within-class covariance; NaN for "published",
        where it has no influence.
    n_tail_ : int
        Number of samples over which the energy is averaged; with weights, those of lowest energy
        that together weigh the share `tail`, of which the last counts in part.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    seed_ : int
        Seed that was used for the permutations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the part ``lda`` can't be told from that of permuted labels, or the tail is empty.

    See Also
    --------
    SFDA : The same discriminant analysis, fitted again to samples mixed with other classes.

    Notes
    -----
    The part ``lda`` does not change under shifts; it depends on the scale of the features and,
    through the estimate e, slightly on rotations. The energy depends on both, and on the number of
    features. One shared decomposition and O(n_samples n_features**2).

    References
    ----------
    .. [1] M. Gholami et al., "ETran: Energy-Based Transferability Estimation", ICCV 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import ETran
    >>> F, y = load_iris(return_X_y=True)
    >>> good, bad = ETran().fit(F, y), ETran().fit(F[:, :1], y)
    >>> {name: round(part, 2) for name, part in good.components_.items()}
    {'energy': 5.4, 'lda': 0.97}
    >>> ETran.pool_scores([good, bad, None])
    array([ 1.,  0., nan])
    """

    needs = "features"
    bounds = (0.0, 1.0)
    tasks = ("classification",)
    relative_to_pool = True

    _parameter_constraints: dict = {
        "formula": [StrOptions({"intended", "published"})],
        "tail": [Interval(Real, 0, 1, closed="right"), None],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        formula="intended",
        tail=None,
        *,
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.formula = formula
        self.tail = tail
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _fit_rows(self, X, target, sample_weight, moments):
        spectrum = moments().spectrum
        n_samples, n_features = X.shape
        self.classes_ = target.classes
        tail = _TAILS[self.formula] if self.tail is None else float(self.tail)
        self.n_tail_ = int(tail * n_samples + 1e-9)
        energy = float("nan")
        if self.n_tail_:
            energy, self.n_tail_ = _energy(X, self.n_tail_, sample_weight)

        directions = spectrum.directions(None)
        Z = spectrum.coordinates(X, directions)
        ones = directions.sum(axis=0)
        self.shrinkage_ = float("nan")
        if self.formula == "intended":
            lda, self.shrinkage_ = _discriminant(
                Z, target.codes, sample_weight, ones, spectrum.unit, n_features
            )

            def score_of(codes, weight):
                return _discriminant(Z, codes, weight, ones, spectrum.unit, n_features)[0]
        else:

            def score_of(codes, weight):
                return _nearest_mean(Z, codes, weight, spectrum.unit)

            lda = score_of(target.codes, sample_weight)
        self.components_ = {"energy": energy, "lda": lda}
        self.score_ = _alone(energy, lda, n_features)

        self.seed_ = drawn_seed(self.random_state)
        chance = chance_scores(
            score_of, lda, X, target.codes, self.seed_, self.n_permutations, sample_weight
        )
        self.chance_level_ = float("nan")
        if chance:
            self.chance_level_ = _alone(energy, float(np.mean(chance)), n_features)
        if self.n_tail_ == 0:
            self.saturated_ = True
            announce(
                f"ETran has no score (NaN): the number of samples in the energy's tail is zero for "
                f"{n_samples} samples. Use formula='intended' or a larger tail.",
                UninformativeScoreWarning,
            )
            return
        reason = trivial_reason(spectrum.rank == 0, len(self.classes_), n_samples)
        reason = reason or reason_to_doubt(lda, chance, 1.0)
        if reason:
            reason = f"by its part 'lda' of {lda:.6g}, {reason}"
        self._judge(reason, "Use fewer features or more samples.")

    @classmethod
    def pool_scores(cls, fitted_metrics):
        """Combine the parts of all candidates of a pool: 0.15 energy + 0.85 lda, each in [0, 1].

        Parameters
        ----------
        fitted_metrics : sequence of ETran or None
            One per candidate; None for a candidate that failed, which has no influence on the
            others.

        Returns
        -------
        scores : ndarray of shape (n_candidates,), dtype float64
            In [0, 1], NaN for a candidate that failed or whose parts are not finite. A part that
            is the same for all candidates counts 1/2, so that a candidate alone scores 1/2.
        """
        parts = scaled_parts(fitted_metrics, _WEIGHTS)
        return sum(weight * parts[name] for name, weight in _WEIGHTS.items())


def _energy(X, n_tail, sample_weight):
    """Mean of the lowest energies of the rows, and how many these are."""
    energies = np.empty(len(X))
    for rows in row_blocks(*X.shape):
        # Differences of numbers at the ends of the float range overflow to what they mean.
        with np.errstate(over="ignore"):
            energies[rows] = logsumexp(X[rows].astype(np.float64), axis=1)
    if sample_weight is None:
        return float((np.sort(energies)[:n_tail] / n_tail).sum()), n_tail
    order = np.lexsort((sample_weight, energies))
    weight = sample_weight[order] * (len(X) / sample_weight.sum())
    taken = np.clip(n_tail - (np.cumsum(weight) - weight), 0.0, weight)
    return float((energies[order] / n_tail * taken).sum()), int(np.count_nonzero(taken))


def _discriminant(Z, codes, sample_weight, ones, unit, n_features):
    """Mean probability of the true class by the shrunk analysis, and its shrinkage."""
    scatter = ClassScatter(Z, codes, sample_weight=sample_weight)
    shrinkage = adaptive_shrinkage(scatter.within, ones, unit, n_features)
    posterior = scatter.posterior(Z, scatter.factor(shrinkage, n_features))
    return _mean_probability(posterior, codes, sample_weight), shrinkage


def _nearest_mean(Z, codes, sample_weight, unit):
    """Mean probability of the true class by the distances to the class means."""
    scatter = ClassScatter(Z, codes, sample_weight=sample_weight)
    # By differences: an outlier far away must not cost the others their digits.
    distance = 0.5 * cdist(Z, scatter.means, "sqeuclidean")
    distance -= distance.min(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        distance = distance * unit * unit
    posterior = softmax(np.log(scatter.priors) - distance, axis=1)
    return _mean_probability(posterior, codes, sample_weight)


def _mean_probability(posterior, codes, sample_weight):
    return min(weighted_mean(posterior[np.arange(len(codes)), codes], sample_weight), 1.0)


def _alone(energy, lda, n_features):
    """Combine the parts by limits that no other candidate has a say in."""
    response = energy - np.log(n_features)
    response = (1 + response / (1 + abs(response))) / 2
    return float(min(_WEIGHTS["energy"] * response + _WEIGHTS["lda"] * lda, 1.0))
