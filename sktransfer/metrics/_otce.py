"""OTCE: conditional entropy of target labels given source labels under an optimal transport."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

from ..utils._sklearn import Interval, StrOptions
from ._base import TransferabilityMetric
from ._canonical import row_ranks
from ._permutations import chance_scores, reason_to_doubt, trivial_reason
from ._source import check_same_width, check_source_samples
from ._spectrum import power_of_two
from ._statistics import drawn_seed, entropy


class OTCE(TransferabilityMetric):
    """Negative conditional entropy of target labels given the source labels transported to them.

    Source samples are moved onto target samples by the optimal transport plan for squared
    Euclidean distances in a common feature space, all samples weighing the same within their set.
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
    ):
        self.source_features = source_features
        self.source_labels = source_labels
        self.wasserstein_weight = wasserstein_weight
        self.solver = solver
        self.n_permutations = n_permutations
        self.random_state = random_state

    def _fit(self, X, target, sample_weight):
        source, source_target = check_source_samples(
            self.source_features, self.source_labels, "OTCE"
        )
        if source is not None:
            check_same_width(X, source, "OTCE")
        transport = _Transport(X, source, self.solver)
        self.classes_ = target.classes
        self.source_classes_ = target.classes if source is None else source_target.classes
        penalty = float(self.wasserstein_weight) * transport.cost if self.wasserstein_weight else 0
        lowest = np.finfo(np.float64).min

        def joint_of(codes):
            return transport.joint(codes if source is None else source_target.codes, codes)

        def task_part(codes):
            return -_conditional_entropy(joint_of(codes))

        self.joint_ = joint_of(target.codes)
        task = task_part(target.codes)
        self.score_ = max(task - penalty, lowest)
        self.label_entropy_ = entropy(np.bincount(target.codes) / len(X))
        self.components_ = {
            "conditional_entropy": task,
            "wasserstein": max(-transport.cost, lowest),
        }
        self.seed_ = drawn_seed(self.random_state)
        # The domain difference is the same for any labels.
        chance = chance_scores(task_part, task, X, target.codes, self.seed_, self.n_permutations)
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

    Attributes
    ----------
    cost : float
        Mean squared distance over which the source is moved.
    """

    def __init__(self, X, source, solver):
        self.within = source is None
        source = X if self.within else source
        self.groups = [row_ranks(source), row_ranks(X)]
        self.sizes = [np.bincount(group) for group in self.groups]
        orders = [np.argsort(group, kind="stable") for group in self.groups]
        # Powers of two are exact: equal distances stay equal.
        unit = power_of_two(max(abs(float(f(A))) for A in (X, source) for f in (np.min, np.max)))
        rows = [
            np.asarray(A[order] / unit, float) for A, order in zip((source, X), orders, strict=True)
        ]
        cost = cdist(*rows, "sqeuclidean")
        scale = power_of_two(cost.max())
        if self.within:
            np.fill_diagonal(cost, np.inf)
        i, j, mass = _plan(cost / scale, "scipy" if self.within else solver)
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
        for codes, group, size in zip(given, self.groups, self.sizes, strict=True):
            shape = (len(size), int(codes.max()) + 1)
            counts.append(sparse.coo_array((1 / size[group], (group, codes)), shape).tocsr())
        joint = (counts[0].T @ self.plan @ counts[1]).toarray()
        if self.within:
            joint += self._correction(counts[0])
        return np.maximum(joint, 0.0) / joint.sum()

    def _correction(self, share):
        """Return what changes because no row is moved to itself, in groups moved within.

        Of g equal rows with class shares c, the pairs of different rows have the distribution
        (g c cᵀ - diag(c)) / (g - 1), in place of c cᵀ.
        """
        inside = self.plan.diagonal() / np.maximum(self.sizes[0] - 1, 1)
        weighted = share.multiply(inside[:, None]).tocsr()
        return (share.T @ weighted).toarray() - np.diag(weighted.sum(axis=0))


def _plan(cost, solver):
    """Optimal plan between uniform distributions: positions and masses that are not zero."""
    n, m = cost.shape
    if solver == "pot":
        return _plan_by_pot(cost)
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


def _plan_by_pot(cost):
    try:
        import ot
    except ImportError:
        raise ImportError(
            "OTCE(solver='pot') needs the package POT, which is not installed. Install it with "
            "pip install 'sktransfer[ot]', or use solver='scipy'."
        ) from None
    plan = ot.emd([], [], cost, numItermax=10**8)
    i, j = np.nonzero(plan)
    return i, j, plan[i, j] / plan.sum()
