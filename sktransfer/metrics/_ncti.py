"""NCTI: how close the classes are to neural collapse."""

from numbers import Integral

import numpy as np
from scipy import linalg

from ..utils._sklearn import Interval
from ._base import CLASS_WEIGHT, RowMetric, WeightedMetric
from ._discriminant import ClassScatter, weighted_mean
from ._permutations import chance_scores, reason_to_doubt, trivial_reason
from ._pool import scaled_parts
from ._statistics import drawn_seed

# As published: the temperature reads this many leading components, and has this lower bound.
_TEMPERATURE_COMPONENTS = 32
_SMALLEST_TEMPERATURE = 1e-10


class NCTI(WeightedMetric, RowMetric):
    """Neural-collapse-informed transferability index, from three parts.

    The features are projected on their leading principal components, and a linear discriminant
    analysis, shrunk by the temperature t = max(exp(-total variance), 1e-10), is fitted there. The
    parts are [1]_

    - ``seli``, the nuclear norm of the centred samples on the n_classes - 1 discriminant axes
      (larger is better),
    - ``ncc``, the mean probability of the true class (larger is better),
    - ``vc``, the logarithm of the nuclear norms, summed over the classes, of the posterior
      matrices of their samples (smaller is better: within a class the posteriors agree).

    The index is *relative to a pool of candidates*: each part is scaled to [0, 1] over the pool,
    and :meth:`pool_scores` returns seli + ncc - vc in [-1, 2]. `score_` is a substitute for one
    candidate alone, in (-1, 2), in which each part is scaled by limits that depend on the target
    only (see Notes).

    It does not change under shifts and rotations; it depends on the scale of the features through
    the temperature. All parts are computed on samples whose labels the analysis has seen: with few
    samples any labels score high, which is announced.

    Read more in the :ref:`User Guide <ncti>`.

    Parameters
    ----------
    n_components : int or None, default=64
        Number of principal components; fewer if the data have fewer, all for None.
    n_permutations : int, default=10
        Largest number of label permutations behind `chance_level_`; three are enough for a score
        far above them. 0 leaves it NaN and saves their cost.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The parts themselves are not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    components_ : dict of str to float
        The parts "seli", "ncc" and "vc".
    score_ : float
        The candidate-free combination, in (-1, 2).
    chance_level_ : float
        Mean `score_` under permuted labels.
    saturated_ : bool
        Whether the analysis knows no more of the labels than of permuted ones, judged by "ncc".
    temperature_ : float
        The shrinkage t.
    n_components_ : int
        Number of components used.
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
        If "ncc" can't be told from that of permuted labels: one in a hundred of them
        would be as high, or their mean exceeds 0.99.

    See Also
    --------
    SFDA : A shrunk discriminant analysis on all features.

    Notes
    -----
    Authors' and later versions of the code differ in the sign of vc; here it is the authors'.
    Where t reaches its bound, they change to another solver, whose scale depends on the version of
    scikit-learn. Here the shrunk analysis with population covariances is used throughout: it agrees
    with the former solver exactly, with the latter (as of scikit-learn 1.9.1) as closely as 1e-10
    is to 0 where the within-class covariance is regular, and has no jump between the two.

    With n samples, K classes of sizes n_k and m = min(K - 1, `n_components_`), let
    s = seli / (m sqrt(n)), the mean spread along a discriminant axis in units of the spread within
    classes. Collapsed classes, whose posteriors are all 0 or 1, have vc = c = log sum_k sqrt(n_k);
    posteriors that differ within classes bring it up to b = log sum_k sqrt(n_k min(n_k, K)), and
    posteriors that know nothing, which vc alone takes for good, down to
    a = log sum_k sqrt(n_k / K). Let v be abs(vc - c) as a share of b - c or c - a, whichever
    applies. Then `score_` is s / (1 + s) + ncc - v. With weights, the sizes are weighted, but in
    min(n_k, K), where the number of rows counts.

    Cost beside the shared decomposition: O(n_samples (n_features k + n_classes**2)) for k
    components, and once more O(n_samples n_classes**2) for each permutation.

    References
    ----------
    .. [1] Z. Wang et al., "How Far Pre-trained Models Are from Neural Collapse on the Target
       Dataset Informs their Transferability", ICCV 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktransfer.metrics import NCTI
    >>> F, y = load_digits(return_X_y=True)
    >>> good, bad = NCTI().fit(F, y), NCTI().fit(F[:, :16], y)
    >>> {name: round(part, 2) for name, part in good.components_.items()}
    {'seli': 727.1, 'ncc': 0.96, 'vc': 5.11}
    >>> round(good.score_, 2), round(bad.score_, 2)
    (1.44, 0.65)
    >>> NCTI.pool_scores([good, bad, None])
    array([ 2., -1., nan])
    """

    needs = "features"
    bounds = (-1.0, 2.0)
    tasks = ("classification",)
    relative_to_pool = True

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, n_components=64, *, n_permutations=10, random_state=0, class_weight=None):
        self.n_components = n_components
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _fit_rows(self, X, target, sample_weight, moments):
        spectrum = moments().spectrum
        n_samples = len(X)
        Z = spectrum.coordinates(X, spectrum.directions(self.n_components))
        if sample_weight is None:
            variances = np.square(Z).mean(axis=0)
        else:
            variances = spectrum.eigenvalues[: Z.shape[1]] / n_samples
        # With the divisor n - 1, and in original units.
        leading = float(variances[:_TEMPERATURE_COMPONENTS].sum()) * n_samples / (n_samples - 1)
        with np.errstate(over="ignore"):
            temperature = float(np.exp(-leading * np.float64(spectrum.unit) * spectrum.unit))
        temperature = max(temperature, _SMALLEST_TEMPERATURE)

        self.classes_ = target.classes
        self.n_components_ = Z.shape[1]
        self.temperature_ = temperature
        self.components_, self.score_ = _parts(
            Z, target.codes, sample_weight, variances, temperature
        )

        self.seed_ = drawn_seed(self.random_state)
        reason = trivial_reason(spectrum.rank == 0, len(self.classes_), n_samples)
        scores = []

        def probability(codes, weight):
            total = variances if weight is None else _covariance(Z, weight)
            parts, score = _parts(Z, codes, weight, total, temperature)
            scores.append(score)
            return parts["ncc"]

        chance = chance_scores(
            probability,
            self.components_["ncc"],
            X,
            target.codes,
            self.seed_,
            0 if reason else self.n_permutations,
            sample_weight,
        )
        if reason:
            scores = [self.score_]
        self.chance_level_ = float(np.mean(scores)) if scores else float("nan")
        reason = reason or reason_to_doubt(self.components_["ncc"], chance, 1.0)
        if reason:
            reason = f"by its part 'ncc' of {self.components_['ncc']:.6g}, {reason}"
        self._judge(reason, "Use fewer components or more samples.")

    @classmethod
    def pool_scores(cls, fitted_metrics):
        """Combine the parts of all candidates of a pool: seli + ncc - vc, each scaled to [0, 1].

        Parameters
        ----------
        fitted_metrics : sequence of NCTI or None
            One per candidate; None for a candidate that failed, which has no influence on the
            others.

        Returns
        -------
        scores : ndarray of shape (n_candidates,), dtype float64
            In [-1, 2], NaN for a candidate that failed or whose parts are not finite. A part that
            is the same for all candidates counts 1/2, so that a candidate alone scores 1/2.
        """
        parts = scaled_parts(fitted_metrics, ("seli", "ncc", "vc"))
        return parts["seli"] + parts["ncc"] - parts["vc"]


def _covariance(Z, sample_weight):
    """Weighted covariance matrix."""
    share = sample_weight / sample_weight.sum()
    centred = (Z - share @ Z) * np.sqrt(share)[:, None]
    return centred.T @ centred


def _parts(Z, codes, sample_weight, total, temperature):
    """Parts of the index, and their combination; `total` is the covariance, or variances alone."""
    scatter = ClassScatter(Z, codes, sample_weight=sample_weight)
    n_samples, k = Z.shape
    factor = scatter.factor(temperature, k)
    posterior = scatter.posterior(Z, factor)
    own = posterior[np.arange(n_samples), codes]
    if sample_weight is None:
        ncc = float(own.mean())
    else:
        ncc = weighted_mean(own, sample_weight)
        # A row that weighs twice as much adds to the norms like two.
        posterior *= np.sqrt(sample_weight * (n_samples / sample_weight.sum()))[:, None]
    order = np.argsort(codes, kind="stable")
    by_class = np.split(posterior[order], np.cumsum(scatter.counts)[:-1])
    norms = [np.linalg.svd(block, compute_uv=False).sum() for block in by_class]
    parts = {
        "seli": _discriminant_norm(scatter, factor, total, temperature),
        "ncc": min(ncc, 1.0),
        "vc": float(np.log(sum(norms))),
    }
    return parts, _alone(parts, scatter.sizes, scatter.counts, k)


def _discriminant_norm(scatter, factor, total, temperature):
    """Nuclear norm of the centred samples on the discriminant axes."""
    k = len(total)
    matrix, variances = (np.diag(total), total) if total.ndim == 1 else (total, np.diag(total))

    def spread(axes):
        return (axes * total[:, None]).T @ axes if total.ndim == 1 else axes.T @ total @ axes

    n_axes = min(len(scatter.sizes) - 1, k)
    if n_axes == 0:
        return 0.0
    # Shrunk total less shrunk within-class covariance, as published.
    between = (1 - temperature) * (matrix - scatter.within)
    between += temperature * (variances.sum() - scatter.trace) / k * np.eye(k)
    half = linalg.solve_triangular(factor, between, lower=True, check_finite=False)
    whitened = linalg.solve_triangular(factor, half.T, lower=True, check_finite=False)
    eigenvalues, vectors = linalg.eigh(whitened, check_finite=False)
    axes = linalg.solve_triangular(factor, vectors, lower=True, trans="T", check_finite=False)
    cut = eigenvalues[-n_axes]
    close = 1e-9 * (1 + np.abs(eigenvalues).max())
    first = np.searchsorted(eigenvalues, cut - close)
    last = np.searchsorted(eigenvalues, cut + close)
    if first < len(eigenvalues) - n_axes:
        # Any axes among those with equal eigenvalues would do: take those of the largest variance.
        tied = axes[:, first:last]
        turn = linalg.eigh(spread(tied), check_finite=False)[1]
        axes[:, first:last] = tied @ turn
    axes = axes[:, -n_axes:]
    squares = np.maximum(linalg.eigvalsh(spread(axes), check_finite=False), 0.0)
    return float(np.sqrt(scatter.sizes.sum() * squares).sum())


def _alone(parts, sizes, counts, n_components):
    """Combine parts by limits that depend on the class sizes, by weight and by number, only."""
    n_classes = len(sizes)
    n_axes = max(min(n_classes - 1, n_components), 1)
    spread = parts["seli"] / (n_axes * np.sqrt(sizes.sum()))
    collapsed = np.log(np.sqrt(sizes).sum())
    above = parts["vc"] - collapsed
    # Classes of one sample each have no room above: their matrices are rows.
    limit = np.log(np.sqrt(sizes * np.minimum(counts, n_classes)).sum()) - collapsed
    if above <= 0 or limit <= 0:
        above, limit = -above, 0.5 * np.log(n_classes)
    return float(spread / (1 + spread) + parts["ncc"] - np.clip(above / limit, 0.0, 1.0))
