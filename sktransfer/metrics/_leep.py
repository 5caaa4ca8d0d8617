"""LEEP and NCE: how well the source classifier's outputs predict the target labels."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.metrics.cluster import expected_mutual_information
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..exceptions import ProbabilityNormalizationWarning
from ..utils._announce import announce
from ..utils._sklearn import Interval
from ..utils._target import as_labels, as_target_array
from ._base import CLASS_WEIGHT, WeightedMetric
from ._permutations import Chance, reason_to_doubt, split_weights
from ._statistics import drawn_seed, entropy

# Elements of a block of gathered conditional probabilities (16 MiB).
_BLOCK_ELEMENTS = 2**21

# Chance that gains more than this share of the label entropy has found cells of single samples.
_CROWDED = 0.5

# Label permutations that tell how far the score of NCE scatters by chance, and their seed.
_N_PERMUTATIONS = 20
_SEED = 0

# Sums of half-precision probabilities stray by about this much from one.
_SUM_TOLERANCE = 1e-3


class _SourceOutputMetric(WeightedMetric):
    """What LEEP and NCE share: attributes about the labels, and the information gained."""

    bounds = (-np.inf, 0.0)
    tasks = ("classification",)

    def _describe(self, score, target, weight, draws, constant, mean=None):
        self.classes_ = target.classes
        shares = np.bincount(target.codes, weights=weight) / weight.sum()
        self.label_entropy_ = entropy(shares)
        self.score_ = float(min(score, 0.0))
        chance = Chance.sampled(draws, mean, lowest=-self.label_entropy_)
        self.chance_level_ = float("nan") if chance is None else chance.mean
        self.information_gain_ = self.score_ + self.label_entropy_
        self.information_gain_corrected_ = self.score_ - self.chance_level_
        self._judge(self._reason_to_doubt(chance, constant, len(target.codes)))

    def _reason_to_doubt(self, chance, constant, n_samples):
        """Say why other labels would have the same score, or nearly so."""
        if constant:
            return "the output of the source is the same for every sample"
        if len(self.classes_) == n_samples:
            return "every class has a single sample"
        lowest = -self.label_entropy_
        reason = reason_to_doubt(self.score_, chance, 0.0, lowest=lowest)
        if reason and chance.mean > lowest * (1 - _CROWDED):
            reason += (
                ", for so many source classes can tell the few samples apart whatever they know"
            )
        return reason


class LEEP(_SourceOutputMetric):
    """Log expected empirical prediction: mean log-likelihood of a classifier built by counting.

    From the source network's class probabilities p(z | x) on the target samples, the joint
    distribution of source class z and target label y is estimated, and from it the classifier
    p(y | x) = sum_z P(y | z) p(z | x), the expected empirical predictor. LEEP is its mean
    log-likelihood on the same samples [1]_: at most 0, higher is better, in nats. A source whose
    output does not depend on the input scores minus the label entropy.

    Read more in the :ref:`User Guide <leep>`.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether X holds logits, turned into probabilities by a softmax, instead of probabilities.
    temperature : float, default=1.0
        Divides the logits (or the log-probabilities) before they are normalised. LEEP reads the
        calibration of the source network; NCE does not.
    n_permutations : int, default=10
        Number of label permutations behind `chance_level_`; 0 leaves it NaN.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        The LEEP score, at most 0.
    label_entropy_ : float
        Entropy H(Y) of the target labels in nats; minus this is the score of an uninformative
        source.
    information_gain_ : float
        `score_` + H(Y), the number to compare across targets. A plug-in estimate, biased upwards:
        many source classes and few samples give almost H(Y) by chance.
    chance_level_ : float
        Mean score under permuted labels.
    information_gain_corrected_ : float
        `score_` - `chance_level_`: the gain that chance does not explain, about 0 for a source
        that knows nothing of the target.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    conditional_ : ndarray of shape (n_classes, n_source_classes)
        P(y | z). Source classes without mass on the target get the class shares.
    classes_ : ndarray of shape (n_classes,)
        Target labels.
    seed_ : int
        Seed that was used for the permutations.
    n_features_in_ : int
        Number of source classes.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the source classes, when X has string names.

    Raises
    ------
    ValueError
        If X holds negative values while `from_logits` is False.

    Warns
    -----
    ProbabilityNormalizationWarning
        If rows of X do not sum to one; they are normalised.
    UninformativeScoreWarning
        If the score says nothing, see `saturated_`.

    See Also
    --------
    NCE : The same with hard source labels.

    References
    ----------
    .. [1] C. V. Nguyen et al., "LEEP: A New Measure to Evaluate Transferability of Learned
       Representations", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.metrics import LEEP
    >>> P = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]] * 5)
    >>> metric = LEEP().fit(P, ["cat", "cat", "dog", "dog"] * 5)
    >>> round(metric.score_, 3)
    -0.34
    >>> round(metric.information_gain_, 3)
    0.351
    """

    needs = "probabilities"

    _parameter_constraints: dict = {
        "from_logits": ["boolean"],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        from_logits=False,
        temperature=1.0,
        *,
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.from_logits = from_logits
        self.temperature = temperature
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.from_logits
        return tags

    def _validate_features(self, X, y, **check_params):
        X, y = super()._validate_features(X, y, **check_params)
        self._refuse_negative(X)
        return X, y

    def _refuse_negative(self, X):
        if not self.from_logits and X.min() < 0:
            raise ValueError(
                "Negative values in data passed to LEEP, which takes source-class probabilities; "
                "for logits set from_logits=True."
            )

    def _probabilities(self, X):
        """Return rows that sum to one, as float64."""
        X = X.astype(np.float64)
        # Numbers at the ends of the float range may overflow to infinities that mean what they say.
        with np.errstate(over="ignore", divide="ignore"):
            if not self.from_logits:
                self._check_sums(X)
                X[X.max(axis=1) == 0] = 1.0
                # Dividing by the largest entry first keeps sums of huge or subnormal rows finite.
                X /= X.max(axis=1, keepdims=True)
                if self.temperature == 1:
                    X /= X.sum(axis=1, keepdims=True)
                    return X
                X = np.log(X)
            X -= X.max(axis=1, keepdims=True)
            X /= self.temperature
        return softmax(X, axis=1)

    def _check_sums(self, X):
        sums = X.sum(axis=1)
        off = ~(np.abs(sums - 1) <= _SUM_TOLERANCE)
        if off.any():
            announce(
                f"{int(off.sum())} of {len(X)} rows given to LEEP as probabilities do not sum to 1 "
                f"(row {int(np.flatnonzero(off)[0])} sums to {sums[off][0]:.6g}); they were "
                "normalised. For logits set from_logits=True.",
                ProbabilityNormalizationWarning,
            )

    def _fit(self, X, target, sample_weight):
        theta = self._probabilities(X)
        weight = np.ones(len(theta)) if sample_weight is None else sample_weight
        conditional, score = _empirical_predictor(theta, target.codes, weight)
        shares = np.bincount(target.codes, weights=weight) / weight.sum()
        massless = ~conditional.any(axis=0)
        conditional[:, massless] = shares[:, None]
        self.conditional_ = conditional
        self.seed_ = drawn_seed(self.random_state)
        draws = self._chance_scores(theta, target.codes, weight)
        constant = bool(np.ptp(theta, axis=0).max() == 0)
        self._describe(score, target, weight, draws, constant)

    def _chance_scores(self, theta, codes, weight):
        """Scores of permuted labels, which take the weights of their classes with them.

        The rows are first brought into an order that depends on their content alone, so that the
        result does not depend on the order in which they came.
        """
        if self.n_permutations == 0:
            return []
        # A projection tells apart all rows that differ; equal rows may change places.
        projection = np.random.default_rng(0).normal(size=theta.shape[1])
        rest, of_class, labels = split_weights(codes, weight)
        order = np.lexsort((np.round(rest, 9), np.round(theta @ projection, 10)))
        rng = np.random.default_rng(self.seed_)
        scores = []
        for _ in range(self.n_permutations):
            permuted = np.empty_like(labels)
            permuted[order] = rng.permutation(labels)
            scores.append(_empirical_predictor(theta, permuted, rest * of_class[permuted])[1])
        return scores

    def predict_proba(self, X):
        """Class probabilities of the expected empirical predictor, the classifier LEEP evaluates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_source_classes)
            Source-class probabilities (or logits, as in ``fit``).

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities of the target classes, in the order of `classes_`; rows sum to one.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        self._refuse_negative(X)
        return self._probabilities(X) @ self.conditional_.T


def _empirical_predictor(theta, codes, weight):
    """Return P(y | z) and the mean log-likelihood of the expected empirical predictor."""
    n_samples, n_classes = len(codes), int(codes.max()) + 1
    share = weight / weight.sum()
    labelled = sparse.csr_array((share, (codes, np.arange(n_samples))), (n_classes, n_samples))
    joint = labelled @ theta
    mass = joint.sum(axis=0)
    conditional = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
    likelihood = np.empty(n_samples)
    step = max(1, _BLOCK_ELEMENTS // theta.shape[1])
    for start in range(0, n_samples, step):
        rows = slice(start, start + step)
        likelihood[rows] = np.einsum("ij,ij->i", theta[rows], conditional[codes[rows]])
    return conditional, float(share @ np.log(likelihood))


class NCE(_SourceOutputMetric):
    """Negative conditional entropy -H(Y | Z) of the target labels given hard source labels.

    Z is the source class that the network assigns to each target sample [1]_. The score is at most
    0 (reached when the source label determines the target label), higher is better, in nats; at
    worst it is minus the label entropy.

    Read more in the :ref:`User Guide <nce>`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        -H(Y | Z), in [-H(Y), 0].
    label_entropy_ : float
        Entropy H(Y) of the target labels in nats.
    information_gain_ : float
        `score_` + H(Y), the plug-in mutual information of Y and Z; biased upwards.
    chance_level_ : float
        Expectation of the score under permuted labels: exact, or sampled when samples are weighted.
    information_gain_corrected_ : float
        `score_` - `chance_level_`: the gain that chance does not explain.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    source_classes_ : ndarray of shape (n_source_classes,)
        Source labels that occur (column numbers, for a matrix of source outputs).
    classes_ : ndarray of shape (n_classes,)
        Target labels.
    n_features_in_ : int
        Number of columns of X; 1 for hard labels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the source classes, when X has string names.

    Warns
    -----
    UninformativeScoreWarning
        If the score says nothing, see `saturated_`.

    See Also
    --------
    LEEP : The same with the uncertainty of the source network kept.

    Notes
    -----
    ``fit(X, y)`` takes for X either hard source labels (1-D, integers or strings) or a matrix of
    source outputs (probabilities or logits), of which the largest in each row counts, the first
    one among equals. For one-hot rows NCE equals LEEP.

    References
    ----------
    .. [1] A. T. Tran, C. V. Nguyen, T. Hassner, "Transferability and Hardness of Supervised
       Classification Tasks", ICCV 2019.

    Examples
    --------
    >>> from sktransfer.metrics import NCE
    >>> metric = NCE().fit([0, 0, 0, 1, 1, 1] * 5, [0, 0, 1, 1, 1, 1] * 5)
    >>> round(metric.score_, 6)
    -0.318257
    """

    needs = "labels"
    _parameter_constraints: dict = {"class_weight": CLASS_WEIGHT}

    def __init__(self, *, class_weight=None):
        self.class_weight = class_weight

    def _validate_features(self, X, y, **check_params):
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) == 1:
            X = check_array(as_target_array(X), ensure_2d=False, dtype=None, ensure_min_samples=0)
            if X.dtype.kind == "f":
                raise ValueError(
                    "NCE takes hard source labels as a 1-D array of integers or strings, or a "
                    f"matrix of source outputs; got a 1-D array of dtype {X.dtype}."
                )
            X = X.reshape(-1, 1)
        one_column = len(X.shape) == 2 and X.shape[1] == 1
        dtype = None if one_column else [np.float64, np.float32]
        X, y = validate_data(self, X, y, dtype=dtype, multi_output=True, **check_params)
        if X.dtype.kind == "O":
            X = as_labels(X, "X, the source labels for NCE,")
        return X, y

    def _fit(self, X, target, sample_weight):
        if X.shape[1] == 1 and X.dtype.kind != "f":
            labels = X[:, 0]
        else:
            labels = X.argmax(axis=1)
        self.source_classes_, source = np.unique(labels, return_inverse=True)
        weight = np.ones(len(source)) if sample_weight is None else sample_weight
        score = _mean_log_share(source, target.codes, weight)
        mean = None
        if sample_weight is None:
            counts = sparse.csr_array((np.ones(len(source), np.int64), (source, target.codes)))
            shares = np.bincount(target.codes) / len(source)
            mean = float(expected_mutual_information(counts, len(source)) - entropy(shares))
        draws = _permuted_shares(source, target.codes, weight)
        self._describe(score, target, weight, draws, len(self.source_classes_) == 1, mean)


def _mean_log_share(source, codes, weight):
    """Weighted mean over samples of log P(label | source label)."""
    joint = sparse.csr_array((weight, (source, codes))).toarray() / weight.sum()
    share = joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, share, out=np.ones_like(joint), where=joint > 0)
    return float((joint * np.log(ratio)).sum())


def _permuted_shares(source, codes, weight):
    """Scores of NCE for permuted labels, which depend on neither names nor the order of samples."""
    rest, of_class, labels = split_weights(codes, weight)
    total = np.bincount(source, weights=rest)
    order = np.lexsort((np.round(rest, 9), source, np.round(total / total.max(), 10)[source]))
    rng = np.random.default_rng(_SEED)
    permuted = np.empty_like(labels)
    scores = []
    for _ in range(_N_PERMUTATIONS):
        permuted[order] = rng.permutation(labels)
        scores.append(_mean_log_share(source, permuted, rest * of_class[permuted]))
    return scores
