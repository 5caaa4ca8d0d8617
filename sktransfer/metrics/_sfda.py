"""SFDA: self-challenging Fisher discriminant analysis."""

from numbers import Integral, Real

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._discriminant import ClassScatter, adaptive_shrinkage, weighted_mean
from ._permutations import chance_scores, reason_to_doubt, trivial_reason
from ._statistics import drawn_seed


class SFDA(WeightedMetric, RowMetric):
    """Self-challenging Fisher discriminant analysis: mean probability of the true class.

    A shrunk linear discriminant analysis is fitted to the features. Each sample is then pulled
    towards the mean of the other classes, the more the less sure the analysis is of its class
    ("confidential mixture"), the analysis is fitted again to the mixed samples, and the score is
    the mean probability that it gives to their own class [1]_. It lies in (0, 1], higher is
    better.

    Samples are scored by a classifier that has seen their labels. With few samples for the number
    of features any labels score nearly 1; the score under permuted labels is therefore computed
    too (`chance_level_`), and a score that can't be told from it is announced.

    It does not change under shifts and rotations; with the adaptive shrinkage it depends on the
    scale of the features and, slightly, on rotations, through the starting point of the published
    estimate.

    Read more in the :ref:`User Guide <sfda>`.

    Parameters
    ----------
    shrinkage : {"adaptive", "ledoit_wolf"} or float in [0, 1], default="adaptive"
        Weight h of a multiple of the identity in the within-class covariance. "adaptive" is
        max(exp(-5 e), 1e-10) as published, where e estimates the largest eigenvalue of the
        within-class covariance; it vanishes for features of large scale, which makes the score
        saturate. "ledoit_wolf" is the Ledoit-Wolf estimate for the samples less their class means;
        it does not depend on the scale.
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
    score_ : float
        The mean probability, in (0, 1].
    chance_level_ : float
        Mean score under permuted labels.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    shrinkage_ : float
        The shrinkage used, the same in both fits.
    coef_ : ndarray of shape (n_classes, n_features)
        Coefficients of the classifier fitted last.
    intercept_ : ndarray of shape (n_classes,)
        Its intercepts.
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
        If the score can't be told from that of permuted labels: one in a hundred of them
        would be as high, or their mean exceeds 0.99.

    See Also
    --------
    NCTI : The same analysis in 64 principal components, judged by how collapsed the classes are.
    HScore : The share of the class means in the feature covariance.

    Notes
    -----
    All is computed in the space that the centred samples span, whose dimension r is below
    n_samples; the directions outside it tell no class from another. Cost beside the shared
    decomposition: (2 + number of permutations) O(n_samples r**2 + r**3).

    References
    ----------
    .. [1] W. Shao et al., "Not All Models Are Equal: Predicting Model Transferability in a
       Self-challenging Fisher Space", ECCV 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktransfer.metrics import SFDA
    >>> F, y = load_iris(return_X_y=True)
    >>> metric = SFDA().fit(F, y)
    >>> round(metric.score_, 3)
    0.876
    >>> metric.saturated_
    False
    """

    needs = "features"
    bounds = (0.0, 1.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "shrinkage": [
            StrOptions({"adaptive", "ledoit_wolf"}),
            Interval(Real, 0, 1, closed="both"),
        ],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self, shrinkage="adaptive", *, n_permutations=10, random_state=0, class_weight=None
    ):
        self.shrinkage = shrinkage
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _fit_rows(self, X, target, sample_weight, moments):
        spectrum = moments().spectrum
        directions = spectrum.directions(None)
        Z = spectrum.coordinates(X, directions)
        # Along the features' own axes all coordinates are 1.
        ones = directions.sum(axis=0)
        mixed, factor, score, shrinkage = self._challenge(
            Z, target.codes, sample_weight, ones, spectrum.unit, len(directions)
        )
        self.classes_ = target.classes
        self.shrinkage_ = shrinkage
        self.score_ = score
        coef, intercept = mixed.coefficients(factor)
        with np.errstate(over="ignore"):
            self.coef_ = (directions @ coef).T / spectrum.unit
        self.intercept_ = intercept - spectrum.mean @ (directions @ coef)

        self.seed_ = drawn_seed(self.random_state)
        # With weights the columns are uncorrelated for the labels as they are only.
        variances = np.square(Z).mean(axis=0) if sample_weight is None else None
        reason = trivial_reason(spectrum.rank == 0, len(self.classes_), len(X))
        chance = chance_scores(
            lambda codes, weight: self._challenge(
                Z, codes, weight, ones, spectrum.unit, len(directions), variances
            )[2],
            score,
            X,
            target.codes,
            self.seed_,
            0 if reason else self.n_permutations,
            sample_weight,
        )
        if reason:
            chance = [score]
        self.chance_level_ = float(np.mean(chance)) if chance else float("nan")
        if not chance and score > 1 - 1e-9:
            reason = "it is at its maximum"
        self._judge(
            reason or reason_to_doubt(score, chance, 1.0),
            "Use fewer features, more samples or shrinkage='ledoit_wolf'.",
        )

    def _challenge(self, Z, codes, sample_weight, ones, unit, n_features, variances=None):
        """Fit, mix and fit again; return the last fit, its factor, the score and the shrinkage."""
        first = ClassScatter(Z, codes, variances, sample_weight)
        shrinkage = self._shrinkage(first, Z, codes, sample_weight, ones, unit, n_features)
        own = np.arange(len(codes)), codes
        posterior = first.posterior(Z, first.factor(shrinkage, n_features))
        confidence = softmax(posterior, axis=1)[own][:, None]
        others = (first.means.sum(axis=0) - first.means) / (len(first.means) - 1)
        mixture = confidence * Z
        mixture += (1 - confidence) * others[codes]
        last = ClassScatter(mixture, codes, sample_weight=sample_weight)
        factor = last.factor(shrinkage, n_features)
        probability = last.posterior(mixture, factor)[own]
        if sample_weight is None:
            score = float(np.mean(probability))
        else:
            score = weighted_mean(probability, sample_weight)
        return last, factor, min(score, 1.0), shrinkage

    def _shrinkage(self, scatter, Z, codes, sample_weight, ones, unit, n_features):
        if isinstance(self.shrinkage, Real):
            return float(self.shrinkage)
        if self.shrinkage == "ledoit_wolf":
            return _ledoit_wolf(scatter, Z, codes, sample_weight, n_features)
        return adaptive_shrinkage(scatter.within, ones, unit, n_features)

    def predict_proba(self, X):
        """Class probabilities of the classifier fitted last, for rows as they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, not mixed with class means, as their labels are not known.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return softmax(X.astype(np.float64) @ self.coef_.T + self.intercept_, axis=1)


def _ledoit_wolf(scatter, Z, codes, sample_weight, n_features):
    """Ledoit-Wolf shrinkage of the within-class covariance."""
    n_samples = len(Z)
    squares = np.square(Z - scatter.means[codes]).sum(axis=1)
    norm = float(np.square(scatter.within).sum())
    distance = (norm - scatter.trace**2 / n_features) / n_features
    if sample_weight is None:
        fourth = float(squares @ squares) / n_samples
    else:
        fourth = float(sample_weight @ squares**2) / sample_weight.sum()
    error = min((fourth - norm) / (n_features * n_samples), distance)
    return float(np.clip(error / distance, 0.0, 1.0)) if error > 0 else 0.0
