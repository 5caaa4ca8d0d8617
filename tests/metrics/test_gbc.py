"""GBC: its formula, stored values of the originals, ranges, sizes, single samples, batches."""

import json
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.decomposition import PCA

from sktransfer.exceptions import SingletonClassWarning, UninformativeScoreWarning
from sktransfer.metrics import FeatureMoments, LogME, MetricInputs
from sktransfer.metrics._gbc import GBC

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(case, *f"{key.removeprefix('gbc.')}@".split("@")[:2], entry, id=f"{case}-{key}")
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("gbc.")
]
# What each stored key computes. The originals drop a factor of the spherical distance, one of them
# takes unbiased variances; the reference for full covariances adds the floor to the diagonal.
SETTINGS = {
    "ba1jun_spherical_raw": {"n_components": None, "formula": "published"},
    "google_spherical_raw": {"n_components": None, "formula": "published"},
    "google_spherical_pca64": {"formula": "published"},
    "emab_spherical_pca64": {"formula": "published", "ddof": 1},
    "ba1jun_diagonal_raw": {"covariance_type": "diagonal", "n_components": None},
    "google_diagonal_raw": {"covariance_type": "diagonal", "n_components": None},
    "google_diagonal_pca64": {"covariance_type": "diagonal"},
    "reference_spherical_paper_raw": {"n_components": None},
    "reference_full_raw": {
        "covariance_type": "full",
        "n_components": None,
        "regularization": "ridge",
    },
}
ALL = [
    GBC(),
    GBC(n_components=None),
    GBC(n_components=3, formula="published"),
    GBC("diagonal"),
    GBC("diagonal", None),
    GBC("full"),
    GBC("full", None, regularization="ridge"),
    GBC("diagonal", ddof=1),
    GBC("full", 3, ddof=1),
]
each = pytest.mark.parametrize("metric", ALL, ids=repr)
SHAPES = pytest.mark.parametrize("shape", [(60, 6), (24, 40)], ids=["tall", "wide"])


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def by_definition(F, y, kind, floor=1e-4, count_components=True):
    """Minus the sum over ordered pairs, with explicit matrices."""
    gaussians = []
    for label in np.unique(y):
        rows = F[y == label]
        if kind == "full":
            values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(rows.T, bias=True)))
            covariance = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
        else:
            variances = np.maximum(rows.var(axis=0), floor)
            if kind == "spherical":
                variances[:] = variances.mean()
            covariance = np.diag(variances)
        gaussians.append((rows.mean(axis=0), covariance))
    total = 0.0
    for (mean, covariance), (other_mean, other) in permutations(gaussians, 2):
        middle = (covariance + other) / 2
        difference = mean - other_mean
        log_ratio = (
            np.linalg.slogdet(middle)[1]
            - np.linalg.slogdet(covariance)[1] / 2
            - np.linalg.slogdet(other)[1] / 2
        ) / 2
        if not count_components:
            log_ratio /= F.shape[1]
        total -= np.exp(-difference @ np.linalg.solve(middle, difference) / 8 - log_ratio)
    return total


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_formula(kind, n_classes):
    for seed in range(3):
        X, y = make_data(50, 5, n_classes, seed)
        raw = GBC(kind, None).fit(X, y).score_
        assert raw == pytest.approx(by_definition(X, y, kind), rel=1e-12)
        projected = PCA(3, svd_solver="full").fit_transform(X)
        metric = GBC(kind, 3).fit(X, y)
        assert metric.score_ == pytest.approx(by_definition(projected, y, kind), rel=1e-11)
        assert metric.n_components_ == 3
    expected = by_definition(X, y, "spherical", count_components=False)
    assert GBC(n_components=None, formula="published").fit(X, y).score_ == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
@pytest.mark.parametrize("formula", ["paper", "published"])
def test_two_normal_distributions_with_exact_moments(kind, formula):
    X = np.array([[-2.0], [0.0], [0.0], [2.0]])  # means -1 and 1, variances 1
    metric = GBC(kind, formula=formula).fit(X, [0, 0, 1, 1])
    assert metric.score_ == pytest.approx(-2 * np.exp(-0.5), rel=1e-14)  # -1.213061
    assert metric.distances_ == pytest.approx(np.array([[0.0, 0.5], [0.5, 0.0]]), rel=1e-14)
    assert metric.log_overlap_ == pytest.approx(np.log(2) - 0.5, rel=1e-14)


def test_the_floor_bounds_variances_and_the_ridge_is_added_to_them():
    X = np.array([[0.0], [0.02], [1.0], [1.3]])  # variances 1e-4 and 0.0225
    y = [0, 0, 1, 1]
    for kind in ("spherical", "diagonal", "full"):
        for regularization, first, second in (("floor", 0.01, 0.0225), ("ridge", 0.0101, 0.0325)):
            middle = (first + second) / 2
            distance = 1.14**2 / middle / 8 + np.log(middle / np.sqrt(first * second)) / 2
            metric = GBC(kind, var_floor=0.01, regularization=regularization).fit(X, y)
            assert metric.distances_[0, 1] == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
def test_unbiased_covariances(kind):
    # The classes' rows about their means, longer by sqrt(n_k / (n_k - 1)), have them as theirs.
    X, y = make_data(40, 4)
    y[0] = 3  # a single sample, whose variance is 0 for any divisor
    longer = X.copy()
    for label in range(3):
        rows, mean = y == label, X[y == label].mean(axis=0)
        longer[rows] = mean + (X[rows] - mean) * np.sqrt(rows.sum() / (rows.sum() - 1))
    with pytest.warns(SingletonClassWarning):
        unbiased = GBC(kind, None, ddof=1).fit(X, y)
        expected = GBC(kind, None).fit(longer, y)
        biased = GBC(kind, None).fit(X, y)
    assert unbiased.score_ == pytest.approx(expected.score_, rel=1e-12)
    assert unbiased.score_ < biased.score_


# ----------------------------------------------------------------------------------- stored values


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize(("case", "implementation", "suffix", "entry"), ENTRIES)
def test_stored_values(case, implementation, suffix, entry):
    X, y = arrays(case, suffix)
    settings = SETTINGS[implementation]
    if implementation.startswith("emab") and X.shape[1] <= 64:
        settings = {**settings, "n_components": None}  # it leaves narrow features as they are
    metric = GBC(**settings).fit(X, y)
    if entry["value"] is None:
        # 64 components of fewer features are more than the original can do.
        assert X.shape[1] < 64
        assert metric.n_components_ == X.shape[1]
        assert metric.score_ < 0
        return
    expected = entry.get("check", entry["value"])
    if expected == 0 and metric.score_ == 0:
        assert metric.saturated_
        return
    assert metric.score_ == pytest.approx(expected, rel=1e-9)
    if implementation.startswith("google"):  # single precision; one value underflows there
        assert metric.score_ == pytest.approx(entry["value"], rel=1e-5, abs=1e-30)
    if implementation.startswith("emab") and case == "digits_relu512":
        # Its components are those of a randomised decomposition here, drawn without a seed.
        assert metric.score_ == pytest.approx(entry["value"], rel=4e-3)
    single = GBC(**settings).fit(X.astype(np.float32), y)
    assert single.log_overlap_ == pytest.approx(metric.log_overlap_, rel=1e-9)


def test_nothing_of_the_stored_values_was_left_out():
    assert len(ENTRIES) == 90


def test_the_paper_counts_the_log_variance_once_per_component():
    X, y = arrays("digits_raw64")
    paper, published = (GBC(n_components=None, formula=f).fit(X, y) for f in ("paper", "published"))
    assert paper.score_ == pytest.approx(-0.0166474, rel=1e-5)
    assert published.score_ == pytest.approx(-0.0184127, rel=1e-5)


# ------------------------------------------------------------------------------------- invariances


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@each
@SHAPES
def test_shifts_rotations_and_the_order_of_rows_change_nothing(metric, shape):
    X, y = make_data(*shape)
    expected = metric.fit(X, y).log_overlap_
    order = np.random.default_rng(1).permutation(len(y))
    changes = [X[order], X + 3.25]
    if not (metric.covariance_type == "diagonal" and metric.n_components is None):
        changes.append(X @ ortho_group.rvs(shape[1], random_state=0))
    for changed, labels in zip(changes, [y[order], y, y], strict=False):
        assert metric.fit(changed, labels).log_overlap_ == pytest.approx(expected, rel=1e-9)


def test_the_axes_do_not_depend_on_the_order_of_rows_where_they_could_be_others():
    # Columns with equal variances: any rotation of them is a set of principal axes.
    rng = np.random.default_rng(0)
    X = np.zeros((40, 10))
    X[np.arange(20), np.arange(20) % 10] = 1.0
    y = rng.permutation(np.arange(40) % 3)
    expected = GBC("diagonal").fit(X, y).score_
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(40)
        assert GBC("diagonal").fit(X[order], y[order]).score_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@SHAPES
def test_scale_matters_through_the_floor_only(shape):
    X, y = make_data(*shape)
    for metric in (GBC(), GBC("diagonal"), GBC("full")):
        expected = metric.fit(X, y).distances_
        for scale in (0.01, 1e3, 1e30, 1e150):
            metric.set_params(var_floor=1e-4 * scale**2)
            assert metric.fit(X * scale, y).distances_ == pytest.approx(expected, rel=1e-9)
        metric.set_params(var_floor=1e-4)


def test_full_covariances_do_not_change_under_affine_maps_without_a_floor():
    X, y = make_data(80, 4)
    rng = np.random.default_rng(0)
    changed = X @ rng.normal(size=(4, 4)) + rng.normal(size=4)
    metric = GBC("full", None, var_floor=1e-30)
    assert metric.fit(changed, y).score_ == pytest.approx(metric.fit(X, y).score_, rel=1e-10)


# ------------------------------------------------------------------------------ extremes and faults


def test_many_features_neither_overflow_nor_underflow_unannounced():
    n_features = 2048
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, n_features)) + 3 * y[:, None]
    with pytest.warns(UninformativeScoreWarning, match="underflows.*log_overlap_"):
        metric = GBC("diagonal", None).fit(X, y)
    assert metric.score_ == 0
    assert metric.saturated_
    assert -1e5 < metric.log_overlap_ < -300
    with pytest.warns(UninformativeScoreWarning, match="underflows"):
        worse = GBC("diagonal", None).fit(X - 2 * y[:, None] * (np.arange(n_features) % 2), y)
    # The logarithm still ranks what the score ties.
    assert worse.log_overlap_ > metric.log_overlap_
    low = -2.0
    for kind in ("spherical", "diagonal", "full"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeScoreWarning)
            score = GBC(kind).fit(X, y).score_
        assert low <= score <= 0


@each
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
@SHAPES
def test_features_of_any_size_stay_in_range(metric, scale, shape):
    X, y = make_data(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        score = metric.fit(X * scale, y).score_
    assert -6 <= score <= 0
    if scale < 1:
        assert score == -6
        assert metric.saturated_


def test_features_below_the_floor_are_announced():
    X, y = make_data()
    with pytest.warns(UninformativeScoreWarning, match="no two classes.*var_floor"):
        metric = GBC().fit(X * 1e-9, y)
    assert metric.score_ == pytest.approx(-6, rel=1e-12)
    for constant in (np.zeros((60, 4)), np.full((60, 4), 0.1)):
        with pytest.warns(UninformativeScoreWarning, match="no two classes"):
            assert GBC("full").fit(constant, y).score_ == -6


@each
def test_a_class_of_one_sample_is_finite_and_announced(metric):
    X, y = make_data()
    y = np.where(np.arange(60) == 7, 9, y)
    with pytest.warns(SingletonClassWarning, match="1 of 4 classes have a single sample"):
        score = metric.fit(X, y).score_
    assert -12 < score <= 0
    assert not metric.saturated_
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        metric.fit(0.03 * X[:5], np.arange(5))
    assert metric.saturated_


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
def test_fewer_samples_than_components(kind):
    X, y = make_data(12, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        metric = GBC(kind).fit(X, y)
    assert metric.n_components_ == 11
    assert np.isfinite(metric.log_overlap_)


def test_informative_features_beat_shuffled_labels():
    X, y = make_data(90)
    rng = np.random.default_rng(0)
    for metric in (GBC(), GBC("diagonal"), GBC("full")):
        shuffled = [metric.fit(X, rng.permutation(y)).score_ for _ in range(10)]
        assert metric.fit(X, y).score_ > max(shuffled)


def test_labels_with_gaps_and_names():
    X, y = make_data()
    expected = GBC().fit(X, y)
    for labels in (np.array([-1, 7, 5])[y], np.array(["b", "c", "a"])[y]):
        other = GBC().fit(X, labels)
        assert other.score_ == pytest.approx(expected.score_, rel=1e-13)
    assert other.classes_.tolist() == ["a", "b", "c"]
    assert other.distances_[1, 2] == pytest.approx(expected.distances_[0, 1])


# -------------------------------------------------------------------------------- batches, sharing


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@each
@SHAPES
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_give_the_score_of_the_whole(metric, shape, weighted):
    X, y = make_data(*shape)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if weighted else None
    expected = metric.fit(X, y, weight).log_overlap_
    for n_batches in (2, 9):
        streamed = GBC(**metric.get_params())
        for rows in np.array_split(np.random.default_rng(3).permutation(len(y)), n_batches):
            streamed.partial_fit(X[rows], y[rows], None if weight is None else weight[rows])
        assert streamed.log_overlap_ == pytest.approx(expected, rel=1e-10, abs=1e-10)
    streamed.fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert streamed.score_ == pytest.approx(metric.fit(X, y).score_, rel=1e-10)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@each
@SHAPES
def test_other_metrics_share_the_decomposition(metric, shape):
    X, y = make_data(*shape)
    inputs = MetricInputs(y, X)
    inputs.fit(LogME())
    shared = inputs.fit(metric)
    assert shared.log_overlap_ == pytest.approx(metric.fit(X, y).log_overlap_, rel=1e-10)
    assert not hasattr(shared, "moments_")
    with pytest.raises(ValueError, match="scored together with other metrics"):
        shared.partial_fit(X, y)
    assert shared.fit(X, y).partial_fit(X, y).score_ == pytest.approx(
        GBC(**metric.get_params()).fit(np.r_[X, X], np.r_[y, y]).score_, rel=1e-9
    )


def test_moments_must_hold_those_of_every_class():
    X, y = make_data()
    with pytest.raises(ValueError, match="per_class=True"):
        GBC().fit_moments(FeatureMoments.from_arrays(X, y))
    moments = FeatureMoments.from_arrays(X, y, per_class=True)
    assert GBC().fit_moments(moments).score_ == pytest.approx(GBC().fit(X, y).score_, rel=1e-12)


def test_integer_weights_are_repeats():
    X, y = make_data()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    for metric in (GBC(), GBC("diagonal"), GBC("full")):
        weighted = metric.fit(X, y, weight).score_
        assert weighted == pytest.approx(metric.fit(X[rows], y[rows]).score_, rel=1e-11)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"covariance_type": "tied"}, "covariance_type"),
        ({"n_components": 0}, "n_components"),
        ({"var_floor": 0.0}, "var_floor"),
        ({"formula": "google"}, "formula"),
        ({"regularization": "none"}, "regularization"),
        ({"ddof": 2}, "ddof"),
    ],
)
def test_wrong_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        GBC(**parameters).fit(*make_data())


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
@pytest.mark.parametrize("n_components", [3, None])
def test_the_chance_level_is_sampled_without_bias(kind, n_components):
    X, y = make_data(60, 5, 3)
    rng = np.random.default_rng(0)
    metric = GBC(kind, n_components, n_permutations=0)
    permuted = [clone(metric).fit(X, rng.permutation(y)).score_ for _ in range(60)]
    level = clone(metric).set_params(n_permutations=60).fit(X, rng.permutation(y)).chance_level_
    assert level == pytest.approx(np.mean(permuted), abs=5 * np.std(permuted) * np.sqrt(2 / 60))
    assert np.isnan(metric.fit(X, y).chance_level_)
    # Moments do not tell what other labels would score.
    assert np.isnan(GBC(kind, n_components).partial_fit(X, y).chance_level_)


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full"])
def test_a_class_of_zeros_beside_subnormal_features(kind):
    X = np.zeros((9, 2))
    X[:4] = 1e-300 * np.random.default_rng(0).normal(size=(4, 2))
    for features in (X, np.where(X > 0, 5e-324, 0.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            metric = GBC(kind, None).fit(features, [0] * 4 + [1] * 5)
        assert metric.saturated_
        assert metric.score_ == -2.0
