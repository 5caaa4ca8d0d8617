"""OTCE: conditional entropy of target labels given source labels under an optimal transport."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

from ..utils._sklearn import Interval, StrOptions
from ._base import CLASS_WEIGHT, WeightedMetric
from ._canonical import row_ranks
from ._permutations import (
    permuted_targets,
    reason_to_doubt,
    scores_until_sure,
    trivial_reason,
)
from ._source import check_same_width, check_source_samples
from ._spectrum import power_of_two
from ._statistics import drawn_seed, entropy


class OTCE(WeightedMetric):
    """Negative conditional entropy of target labels given the source labels transported to them.

    Source samples are moved onto target samples by the optimal transport plan for squared
    Euclidean distances in a common feature space. All samples weigh the same within their set,
    or target samples their sample weights.
    The plan makes source and target labels a joint distribution [1]_, from which two parts follow:
    the task difference H(Y_target | Y_source) and the domain difference W, the cost of the plan.
    The score is -H(Y_target | Y_source), as its authors recommend when no auxiliary transfers are
    at hand to fit a weight of W: in [-H(Y_target), 0], higher is better, in nats.

    Without a source every target sample is moved to *another* target sample: the score then says
    how well the plan keeps the classes of the target itself together, and nothing of a source.

    Read more in the :ref:`User Guide <otce>`.

    Parameters
    ----------
    source_features : array-like of shape (n_source_samples, n_features), default=None
        Features of source samples, by the same network.
    source_labels : array-like of shape (n_source_samples,), default=None
        Their source labels.
    wasserstein_weight : float, default=0.0
        Weight w of the domain difference in the score -(H + w W), in nats per squared unit of the
        features.
    solver : {"scipy", "pot"}, default="scipy"
        What computes the plan of two sets. "scipy" needs nothing else: an assignment if one size
        divides the other, a linear program otherwise, good for n x m up to about 1e6. "pot" is the
        network simplex of the package POT, from the optional dependencies ``sktransfer[ot]``.
    n_permutations : int, default=10
        Largest number of permutations of the target labels behind `chance_level_`; three are enough
        for a score far above them. 0 leaves it NaN.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations. The score itself is not random.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, 1 where the dict has none; "balanced" weighs all classes
        the same in total. They multiply the sample weights.

    Attributes
    ----------
    score_ : float
        -H(Y_target | Y_source) - w W, at most 0.
    components_ : dict of str to float
        The parts, both higher for better transfer: "conditional_entropy" is -H(Y_target | Y_source)
        and "wasserstein" is -W.
    joint_ : ndarray of shape (n_source_classes, n_classes)
        Joint distribution of source and target labels.
    label_entropy_ : float
        Entropy H(Y_target) in nats; minus this is the score of labels that have nothing in common.
    chance_level_ : float
        Mean score under permuted target labels.
    saturated_ : bool
        Whether the score can't be told from that of permuted labels.
    source_classes_ : ndarray of shape (n_source_classes,)
        Source labels.
    classes_ : ndarray of shape (n_classes,)
        Target labels.
    seed_ : int
        Seed that was used for the permutations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string names.

    Raises
    ------
    ImportError
        If `solver` is "pot" and POT is not installed.
    ValueError
        If without a source one sample weighs more than all others together: it could not be moved
        to them.

    Warns
    -----
    UninformativeScoreWarning
        If the score can't be told from that of permuted labels.

    See Also
    --------
    PAS : A comparison with source data that does not read the target labels.
    NCE : The conditional entropy given the labels that the source network assigns.

    Notes
    -----
    The score does not change when source and target are shifted, rotated or multiplied by a
    constant together (`components_` has W in squared units). Where several plans are optimal, as
    happens with duplicates and integer features, the conditional entropy depends on the choice.
    Duplicates share what is moved from and to them equally; what remains is decided by the solver
    for rows in an order that depends on their content alone, so that the order in which they came
    and the names of labels never matter.

    With a source a weight of two is the same as a repeated sample; without one it is not, as
    repeated samples could be moved to each other. Weights need the linear program.

    Memory n x m for n source and m target samples, time about cubic.

    References
    ----------
    .. [1] Y. Tan, Y. Li, S.-L. Huang, "OTCE: A Transferability Metric for Cross-Domain Cross-Task
       Representations", CVPR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.metrics import OTCE
    >>> rng = np.random.default_rng(0)
    >>> source_labels, y = np.arange(60) % 2, np.arange(40) % 4
    >>> source = rng.normal(size=(60, 3)) + 4 * source_labels[:, None]
    >>> F = rng.normal(size=(40, 3)) + 4 * (y[:, None] > 1)
    >>> metric = OTCE(source, source_labels).fit(F, y)
    >>> round(metric.score_, 3), round(metric.label_entropy_, 3)
    (-0.693, 1.386)
    >>> round(metric.components_["wasserstein"], 2)
    -2.07
    """

    needs = "features"
    bounds = (-np.inf, 0.0)
    tasks = ("classification",)

    _parameter_constraints: dict = {
        "source_features": ["array-like", None],
        "source_labels": ["array-like", None],
        "wasserstein_weight": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"scipy", "pot"})],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        source_features=None,
        source_labels=None,
        *,
        wasserstein_weight=0.0,
        solver="scipy",
        n_permutations=10,
        random_state=0,
        class_weight=None,
    ):
        self.source_features = source_features
        self.source_labels = source_labels
        self.wasserstein_weight = wasserstein_weight
        self.solver = solver
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.class_weight = class_weight

    def _fit(self, X, target, sample_weight):
        source, source_target = check_source_samples(
            self.source_features, self.source_labels, "OTCE"
        )
        if source is not None:
            check_same_width(X, source, "OTCE")
        if source is None and sample_weight is not None and not _can_be_moved(sample_weight):
            raise ValueError(
                "OTCE without a source moves every sample to others, which one sample that weighs "
                "more than all others together can't be; got a largest weight of "
                f"{sample_weight.max() / sample_weight.sum():.3g} of the sum."
            )
        transport = _Transport(X, source, self.solver, sample_weight)
        self.classes_ = target.classes
        self.source_classes_ = target.classes if source is None else source_target.classes
        penalty = float(self.wasserstein_weight) * transport.cost if self.wasserstein_weight else 0
        lowest = np.finfo(np.float64).min

        def joint_of(codes, transport=transport):
            return transport.joint(codes if source is None else source_target.codes, codes)

        def task_part(codes, transport=transport):
            return -_conditional_entropy(joint_of(codes, transport))

        self.joint_ = joint_of(target.codes)
        task = task_part(target.codes)
        self.score_ = max(task - penalty, lowest)
        shares = np.bincount(target.codes, sample_weight)
        self.label_entropy_ = entropy(shares / shares.sum())
        self.components_ = {
            "conditional_entropy": task,
            "wasserstein": max(-transport.cost, lowest),
        }
        self.seed_ = drawn_seed(self.random_state)
        # The domain difference is the same for any labels.
        permuted = permuted_targets(X, target.codes, sample_weight, self.seed_, self.n_permutations)
        chance = scores_until_sure(
            task,
            (
                task_part(codes)
                if weight is None
                else task_part(codes, _Transport(X, source, self.solver, weight))
                for codes, weight in permuted
                if weight is None or source is not None or _can_be_moved(weight)
            ),
        )
        self.chance_level_ = float("nan")
        if chance:
            self.chance_level_ = max(float(np.mean(chance)) - penalty, lowest)
        reason = trivial_reason(False, len(target.classes), len(X))
        if len(self.source_classes_) == 1:
            reason = "the source has one class only"
        self._judge(reason or reason_to_doubt(task, chance, 0.0, lowest=-self.label_entropy_))


def _conditional_entropy(joint):
    """Entropy in nats of the column given the row of a joint distribution."""
    share = joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, share, out=np.ones_like(joint), where=joint > 0)
    return max(float(-(joint * np.log(ratio)).sum()), 0.0)


def _can_be_moved(sample_weight):
    """Whether the samples can be moved to others among themselves."""
    return 2 * sample_weight.max() <= sample_weight.sum() * (1 + 1e-12)


class _Transport:
    """The optimal plan between groups of equal rows.

    Parameters
    ----------
    X : ndarray of shape (m, n_features)
        Target rows.
    source : ndarray of shape (n, n_features) or None
        Source rows; None moves every target row to another one.
    solver : {"scipy", "pot"}
        What computes the plan.
    sample_weight : ndarray of shape (m,), default=None
        Positive weights of the target rows.

    Attributes
    ----------
    cost : float
        Mean squared distance over which the source is moved.
    """

    def __init__(self, X, source, solver, sample_weight=None):
        self.within = source is None
        uniform = None if self.within else np.ones(len(source))
        weights = [None, None]
        if sample_weight is not None:
            weights = [sample_weight if self.within else uniform, sample_weight]
        source = X if self.within else source
        self.groups = [row_ranks(source), row_ranks(X)]
        self.sizes = [np.bincount(group) for group in self.groups]
        # Share of each row in its group of equal rows.
        self.shares = [
            1 / size[group] if weight is None else weight / np.bincount(group, weight)[group]
            for group, size, weight in zip(self.groups, self.sizes, weights, strict=True)
        ]
        if sample_weight is None:
            orders = [np.argsort(group, kind="stable") for group in self.groups]
        else:
            orders = [np.lexsort((w, group)) for w, group in zip(weights, self.groups, strict=True)]
        # Powers of two are exact: equal distances stay equal.
        unit = power_of_two(max(abs(float(f(A))) for A in (X, source) for f in (np.min, np.max)))
        rows = [
            np.asarray(A[order] / unit, float) for A, order in zip((source, X), orders, strict=True)
        ]
        cost = cdist(*rows, "sqeuclidean")
        scale = power_of_two(cost.max())
        if self.within:
            np.fill_diagonal(cost, np.inf)
        masses = None
        if sample_weight is not None:
            masses = [w[order] / w[order].sum() for w, order in zip(weights, orders, strict=True)]
        i, j, mass = _plan(cost / scale, "scipy" if self.within else solver, masses)
        with np.errstate(over="ignore"):
            self.cost = float(np.float64((mass * cost[i, j]).sum()) * unit * unit)
        ends = [
            group[order][k] for group, order, k in zip(self.groups, orders, (i, j), strict=True)
        ]
        shape = tuple(len(size) for size in self.sizes)
        self.plan = sparse.csr_array((mass, tuple(ends)), shape)

    def joint(self, source_codes, target_codes):
        """Joint distribution of labels; equal rows share what is moved from and to them."""
        counts = []
        given = (source_codes, target_codes)
        for codes, group, size, share in zip(
            given, self.groups, self.sizes, self.shares, strict=True
        ):
            shape = (len(size), int(codes.max()) + 1)
            counts.append(sparse.coo_array((share, (group, codes)), shape).tocsr())
        joint = (counts[0].T @ self.plan @ counts[1]).toarray()
        if self.within:
            joint += self._correction(counts[0], target_codes)
        return np.maximum(joint, 0.0) / joint.sum()

    def _correction(self, share, codes):
        """Return what changes because no row is moved to itself, in groups moved within.

        Of equal rows with shares s and class shares c, the pairs of different rows have the
        distribution (c cᵀ - diag(q)) / (1 - sum q), in place of c cᵀ, where q are the sums over the
        classes of s²; of g rows that weigh the same, (g c cᵀ - diag(c)) / (g - 1).
        """
        group, row_share = self.groups[0], self.shares[0]
        twice = np.bincount(group, row_share**2)
        inside = self.plan.diagonal() / np.maximum(1 - twice, np.finfo(float).eps)
        inside[self.sizes[0] == 1] = 0.0
        weighted = share.multiply((inside * twice)[:, None]).tocsr()
        squares = np.bincount(codes, inside[group] * row_share**2, minlength=share.shape[1])
        return (share.T @ weighted).toarray() - np.diag(squares)


def _plan(cost, solver, masses=None):
    """Optimal plan between distributions, uniform ones without masses: positions and masses > 0."""
    n, m = cost.shape
    if solver == "pot":
        return _plan_by_pot(cost, masses)
    if masses is not None:
        return _plan_of_masses(cost, *masses)
    if n % m and m % n:
        return _plan_by_linear_program(cost)
    largest = max(n, m)
    i, j = linear_sum_assignment(np.repeat(np.repeat(cost, largest // n, 0), largest // m, 1))
    return i // (largest // n), j // (largest // m), np.full(largest, 1 / largest)


def _plan_by_linear_program(cost):
    n, m = cost.shape
    # In these units of mass the vertices of the feasible set are whole numbers.
    supply = np.r_[np.full(n, m), np.full(m, n)]
    columns = np.arange(n * m)
    ends = sparse.csr_array(
        (np.ones(2 * n * m), (np.r_[columns // m, n + columns % m], np.r_[columns, columns])),
        (n + m, n * m),
    )
    # One of the equations follows from the others.
    result = linprog(
        cost.ravel(),
        A_eq=ends[:-1],
        b_eq=supply[:-1],
        method="highs-ds",
        options={"dual_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        raise ValueError(f"The optimal transport of OTCE was not found: {result.message}")
    mass = np.rint(result.x)
    moved = np.flatnonzero(mass)
    return moved // m, moved % m, mass[moved] / mass.sum()


def _plan_of_masses(cost, source_mass, target_mass):
    n, m = cost.shape
    # No row is moved where that costs infinitely much.
    i, j = np.nonzero(np.isfinite(cost))
    columns = np.arange(len(i))
    ends = sparse.csr_array(
        (np.ones(2 * len(i)), (np.r_[i, n + j], np.r_[columns, columns])), (n + m, len(i))
    )
    # One of the equations follows from the others. Masses are of about the size of 1.
    result = linprog(
        cost[i, j],
        A_eq=ends[:-1],
        b_eq=np.r_[source_mass * n, target_mass * n][:-1],
        method="highs-ds",
        options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        raise ValueError(f"The optimal transport of OTCE was not found: {result.message}")
    moved = np.flatnonzero(result.x > 0)
    return i[moved], j[moved], result.x[moved] / result.x.sum()


def _plan_by_pot(cost, masses):
    try:
        import ot
    except ImportError:
        raise ImportError(
            "OTCE(solver='pot') needs the package POT, which is not installed. Install it with "
            "pip install 'sktransfer[ot]', or use solver='scipy'."
        ) from None
    plan = ot.emd(*(masses or ([], [])), cost, numItermax=10**8)
    i, j = np.nonzero(plan)
    return i, j, plan[i, j] / plan.sum()
