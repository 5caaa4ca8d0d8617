"""NCTI: its parts, stored values of the originals, the pool's rule, the solver switch, chance."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg
from scipy.special import expit, softmax
from scipy.stats import ortho_group
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import LogME, MetricInputs
from sktransfer.metrics._ncti import NCTI

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
STORED = json.loads((GOLDEN / "golden.json").read_text())
ENTRIES = [
    pytest.param(case, *f"{key.removeprefix('ncti.')}@".split("@")[:2], entry, id=f"{case}-{key}")
    for case, values in STORED.items()
    for key, entry in values.items()
    if key.startswith("ncti.") and "final" not in key
]
PARTS = ("seli", "ncc", "vc")
SHAPES = pytest.mark.parametrize("shape", [(60, 6), (24, 40)], ids=["tall", "wide"])
may_saturate = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def by_definition(F, y, n_components=64):
    """The parts with explicit matrices and one generalised eigendecomposition."""
    pca = PCA(n_components, svd_solver="full").fit(F)
    Z = pca.transform(F)
    n, d = Z.shape
    t = max(np.exp(-pca.explained_variance_[:32].sum()), 1e-10)
    priors = np.bincount(y) / n
    means = np.array([Z[y == k].mean(axis=0) for k in range(len(priors))])

    def shrunk(S):
        return (1 - t) * S + t * np.trace(S) / d * np.eye(d)

    within = shrunk(sum(p * np.cov(Z[y == k].T, bias=True) for k, p in enumerate(priors)))
    total = shrunk(np.cov(Z.T, bias=True))
    vectors = linalg.eigh(total - within, within)[1][:, ::-1]
    axes = vectors[:, : len(priors) - 1]
    coef = means @ vectors @ vectors.T
    p = softmax(Z @ coef.T - 0.5 * np.einsum("kd,kd->k", means, coef) + np.log(priors), axis=1)
    return {
        "seli": np.linalg.norm(Z @ axes, "nuc"),
        "ncc": p[np.arange(n), y].mean(),
        "vc": np.log(sum(np.linalg.norm(p[y == k], "nuc") for k in range(len(priors)))),
    }


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0])
@may_saturate
def test_formula(n_classes, scale):
    for seed in range(3):
        X, y = make_data(80, 7, n_classes, seed)
        X *= scale
        for n_components in (7, 4):
            metric = NCTI(n_components).fit(X, y)
            expected = by_definition(X, y, n_components)
            assert list(metric.components_) == ["seli", "ncc", "vc"]
            for name, part in metric.components_.items():
                assert part == pytest.approx(expected[name], rel=1e-10)
                assert type(part) is float
            assert metric.n_components_ == n_components


def test_two_classes_have_the_sigmoid_of_one_difference_as_posterior():
    X, y = make_data(80, 4, 2)
    metric = NCTI().fit(X, y)
    variances = PCA().fit(X).explained_variance_
    t = np.exp(-variances.sum())
    lda = LinearDiscriminantAnalysis("eigen", shrinkage=t).fit(X, y)
    p = expit(lda.decision_function(X))
    ncc = np.where(y == 1, p, 1 - p).mean()
    assert metric.temperature_ == pytest.approx(t, rel=1e-10)
    assert metric.components_["ncc"] == pytest.approx(ncc, rel=1e-6)
    swapped = NCTI().fit(X, 1 - y)
    for name, part in metric.components_.items():
        assert swapped.components_[name] == pytest.approx(part, rel=1e-12)


def test_score_alone_combines_the_parts_by_limits_of_the_target():
    X, y = make_data(90, 6)
    y[:10] = 0
    metric = NCTI().fit(X, y)
    parts, sizes = metric.components_, np.bincount(y)
    s = parts["seli"] / (2 * np.sqrt(90))
    collapsed = np.log(np.sqrt(sizes).sum())
    above = (parts["vc"] - collapsed) / (np.log(np.sqrt(3 * sizes).sum()) - collapsed)
    below = (collapsed - parts["vc"]) / (collapsed - np.log(np.sqrt(sizes / 3).sum()))
    v = max(above, below)
    assert metric.score_ == pytest.approx(s / (1 + s) + parts["ncc"] - v, rel=1e-12)


def test_score_alone_rises_with_the_distance_of_the_classes():
    rng = np.random.default_rng(0)
    F, y, means = rng.normal(size=(300, 20)), np.arange(300) % 5, rng.normal(size=(5, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        scores = [NCTI().fit(F + d * means[y], y).score_ for d in (0, 0.25, 0.5, 1, 2, 10)]
    assert scores == sorted(scores)
    assert scores[-1] > 1.8


# ----------------------------------------------------------------------------------- stored values


def without_shrinkage(Z, y, lost=0):
    """What the originals do where the temperature meets its bound: another solver, by two SVDs.

    Components are divided by their deviation within classes, however small, and the divisor of
    the covariance is n, or n - K (`lost`) before scikit-learn 1.9.
    """
    codes = np.unique(y, return_inverse=True)[1]
    n, priors = len(y), np.bincount(codes) / len(y)
    means = np.array([Z[codes == k].mean(axis=0) for k in range(len(priors))])
    within = Z - means[codes]
    deviations = within.std(axis=0)
    deviations[deviations == 0] = 1
    _, s, V = np.linalg.svd(within / deviations / np.sqrt(n - lost), full_matrices=False)
    white = (V[s > 1e-4] / deviations).T / s[s > 1e-4]
    centred = means - priors @ means
    between = np.sqrt(n * priors / (n - lost))[:, None] * centred @ white
    _, s, V = np.linalg.svd(between, full_matrices=False)
    axes = white @ V[s > 1e-4 * s[0]].T
    P, C = (Z - priors @ means) @ axes, centred @ axes
    p = softmax(P @ C.T - 0.5 * np.square(C).sum(axis=1) + np.log(priors), axis=1)
    return {
        "seli": np.linalg.norm(P, "nuc"),
        "ncc": p[np.arange(n), codes].mean(),
        "vc": np.log(sum(np.linalg.norm(p[codes == k], "nuc") for k in range(len(priors)))),
    }


@pytest.mark.parametrize(("case", "key", "suffix", "entry"), ENTRIES)
def test_stored_values(case, key, suffix, entry):
    part, implementation = key.split(".")
    X, y = arrays(case, suffix)
    metric = NCTI(n_permutations=0).fit(X, y)
    value = metric.components_[part]
    if entry["value"] is None:
        # The originals need 64 features.
        assert "n_components=64" in entry["note"]
        assert metric.n_components_ == X.shape[1] < 64
        assert np.isfinite(value)
        return
    if case == "digits_raw64":
        return  # rounding noise has a part in these: see below
    if implementation == "reference_old_sklearn":
        Z = PCA(64, svd_solver="full").fit_transform(X)
        old = without_shrinkage(Z, y, lost=len(np.unique(y)))
        assert old[part] == pytest.approx(entry["value"], rel=1e-9)
        assert value != pytest.approx(entry["value"], rel=1e-5)
        return
    if X.shape[1] == 512:
        # The components are those of a randomised decomposition. The seed decides.
        seed = {"doviledo": 42, "ncti": np.random.RandomState(1)}[implementation]
        Z = PCA(64, svd_solver="randomized", random_state=seed).fit_transform(X)
        published = NCTI(None, n_permutations=0).fit(Z, y)
        assert published.components_[part] == pytest.approx(entry["value"], rel=1e-7)
        assert value == pytest.approx(by_definition(X, np.unique(y, return_inverse=True)[1])[part])
        return
    assert metric.temperature_ == pytest.approx(entry["settings"]["temperature"], rel=1e-9)
    if entry["settings"]["lda_solver"] == "svd":  # no shrinkage in place of one of 1e-10
        assert value == pytest.approx(entry["value"], rel=1e-9)
    else:
        assert value == pytest.approx(entry["value"], rel=1e-12)


def test_nothing_of_the_stored_values_was_left_out():
    assert len(ENTRIES) == 66
    solvers = {p.values[3]["settings"].get("lda_solver") for p in ENTRIES}
    assert {"svd", "eigen"} <= solvers


def test_published_values_of_blank_pixels_are_made_of_rounding_noise():
    # Six of the 64 pixels are blank everywhere, so six components are 0 but for rounding. The
    # originals divide them by their deviations, of 1e-15, and have six features of noise.
    X, y = arrays("digits_raw64")
    stored = {name: STORED["digits_raw64"][f"ncti.{name}.ncti"]["value"] for name in PARTS}
    metric = NCTI(n_permutations=0).fit(X, y)
    assert metric.temperature_ == 1e-10
    assert metric.n_components_ == 58
    Z = PCA(58, svd_solver="full").fit_transform(X)
    # On the components that exist, the other solver has our values.
    for name, value in without_shrinkage(Z, y).items():
        assert metric.components_[name] == pytest.approx(value, rel=1e-8)
    # With any noise in place of the others they scatter, and what was published lies among them.
    rng = np.random.default_rng(0)
    noisy = [without_shrinkage(np.c_[Z, 1e-14 * rng.normal(size=(600, 6))], y) for _ in range(20)]
    for name, value in stored.items():
        scattered = [parts[name] for parts in noisy]
        assert np.std(scattered) > 1e-4 * value
        assert value == pytest.approx(np.mean(scattered), abs=3 * np.std(scattered))
    assert metric.components_["seli"] < min(parts["seli"] for parts in noisy) - 1
    # An older version of the solver has the same noise and another divisor.
    old = STORED["digits_raw64"]["ncti.seli.reference_old_sklearn"]["value"]
    assert old == pytest.approx(stored["seli"] * np.sqrt(1 - 10 / 600), rel=1e-9)


@pytest.mark.parametrize("case", ["digits_raw64", "cancer_imb_relu128"])
def test_there_is_no_jump_where_the_originals_switch_solvers(case):
    X, y = arrays(case)
    variance = PCA(32, svd_solver="full").fit(X).explained_variance_.sum()
    limit = -np.log(1e-10)
    before, after, far = (
        NCTI(n_permutations=0).fit(X * np.sqrt(limit * factor / variance), y)
        for factor in (1 - 1e-7, 1 + 1e-7, 100)
    )
    assert before.temperature_ > after.temperature_ == far.temperature_ == 1e-10
    for name, part in before.components_.items():
        assert after.components_[name] == pytest.approx(part, rel=1e-12)
        assert far.components_[name] == pytest.approx(part, rel=1e-10)


# -------------------------------------------------------------------------------------- the pool


def pool():
    return [NCTI(n_permutations=0).fit(*arrays("zoo_digits", f"model{k}")) for k in range(5)]


def test_the_pool_rule_is_that_of_the_authors():
    fitted = pool()
    scores = NCTI.pool_scores(fitted)
    final = STORED["zoo_digits"]
    for k in range(5):
        assert scores[k] == pytest.approx(final[f"ncti.final.ncti@model{k}"]["value"], rel=1e-9)
    # A fork adds the variability instead of subtracting it, and ranks otherwise.
    flipped = [final[f"ncti.final.doviledo@model{k}"]["value"] for k in range(5)]
    assert scores[4] == pytest.approx(-1)
    assert flipped[4] == 1
    parts = {name: [m.components_[name] for m in fitted] for name in ("seli", "ncc", "vc")}
    scaled = {k: (np.array(v) - min(v)) / (max(v) - min(v)) for k, v in parts.items()}
    assert flipped == pytest.approx(scaled["seli"] + scaled["ncc"] + scaled["vc"], rel=1e-9)
    assert NCTI.relative_to_pool


def test_failed_candidates_are_nan_and_have_no_influence():
    fitted = pool()
    scores = NCTI.pool_scores([None, *fitted[:2], None, *fitted[2:]])
    assert np.isnan(scores[[0, 3]]).all()
    np.testing.assert_array_equal(scores[[1, 2, 4, 5, 6]], NCTI.pool_scores(fitted))
    assert np.isnan(NCTI.pool_scores([None, None])).all()
    assert NCTI.pool_scores([]).shape == (0,)


def test_pools_of_one_and_constant_parts_are_defined():
    one, two = pool()[:2]
    assert NCTI.pool_scores([one]).tolist() == [0.5]
    assert NCTI.pool_scores([one, one, one]).tolist() == [0.5, 0.5, 0.5]
    two.components_ = {**two.components_, "vc": one.components_["vc"]}
    scores = NCTI.pool_scores([one, two])
    assert sorted(scores) == [-0.5, 1.5]
    assert len(set(NCTI.pool_scores([one, one, two]).tolist())) == 2


def test_a_part_that_is_not_finite_costs_no_other_candidate():
    fitted = pool()
    expected = NCTI.pool_scores(fitted)
    broken = NCTI(n_permutations=0).fit(*arrays("zoo_digits", "model0"))
    broken.components_ = {**broken.components_, "vc": np.nan}
    np.testing.assert_array_equal(NCTI.pool_scores([*fitted, broken]), [*expected, np.nan])


# ------------------------------------------------------------------------------ chance, invariances


def test_noise_with_few_samples_is_announced():
    rng = np.random.default_rng(0)
    for shape in [(60, 512), (40, 96)]:
        F, y = rng.normal(size=shape), np.arange(shape[0]) % 3
        with pytest.warns(UninformativeScoreWarning, match="NCTI .* permuted labels score"):
            metric = NCTI().fit(F, y)
        assert metric.saturated_
        assert metric.chance_level_ > 0.3
    X, y = arrays("digits_relu512")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not NCTI().fit(X, y).saturated_


@may_saturate
def test_seeds_and_the_order_of_rows():
    X, y = make_data(40, 50)
    expected = NCTI().fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    other = NCTI().fit(X[order], np.array(["z", "a", "m"])[y[order]])
    assert other.score_ == pytest.approx(expected.score_, rel=1e-10)
    assert other.chance_level_ == pytest.approx(expected.chance_level_, rel=1e-10)
    drawn = NCTI(random_state=None).fit(X, y)
    assert NCTI(random_state=drawn.seed_).fit(X, y).chance_level_ == drawn.chance_level_
    assert drawn.score(X, y) == drawn.score_
    assert np.isnan(NCTI(n_permutations=0).fit(X, y).chance_level_)


@may_saturate
@SHAPES
def test_shifts_rotations_and_zero_columns_change_nothing(shape):
    X, y = make_data(*shape)
    expected = NCTI().fit(X, y).components_
    rotation = ortho_group.rvs(shape[1], random_state=0)
    for changed in (X + 3.25, X @ rotation, np.c_[X, np.zeros((len(y), 3))]):
        for name, part in NCTI().fit(changed, y).components_.items():
            assert part == pytest.approx(expected[name], rel=1e-6)
    single = NCTI().fit(X.astype(np.float32), y).components_
    for name, part in expected.items():
        assert single[name] == pytest.approx(part, rel=1e-3)


@may_saturate
def test_axes_that_could_be_others_do_not_depend_on_the_order_of_rows():
    # Every row with every label: the class means are equal, and so are all discriminant ratios.
    rng = np.random.default_rng(0)
    X, y = np.tile(rng.normal(size=(5, 4)), (6, 1)), np.repeat(np.arange(3), 10)
    expected = NCTI().fit(X, y).score_
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(30)
        assert NCTI().fit(X[order], y[order]).score_ == pytest.approx(expected, rel=1e-6)


# ----------------------------------------------------------------------------------------- extremes


def test_degenerate_features():
    y = np.arange(30) % 3
    for F in (np.zeros((30, 4)), np.full((6, 20), 0.1)):
        with pytest.warns(UninformativeScoreWarning, match="the features are constant"):
            metric = NCTI().fit(F, y[: len(F)])
        assert metric.n_components_ == 0
        assert metric.components_["seli"] == 0
        assert metric.components_["ncc"] == pytest.approx(1 / 3)
        assert metric.temperature_ == 1
        assert metric.chance_level_ == metric.score_
    X, _ = make_data(8)
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        metric = NCTI().fit(X, np.arange(8))
    assert np.isfinite(metric.score_)
    for collapsed in (np.eye(3)[y], 1e6 * np.eye(3)[y]):
        metric = NCTI().fit(collapsed, y)
        assert metric.components_["ncc"] == pytest.approx(1)
        assert 1.99 < metric.score_ < 2


@may_saturate
@SHAPES
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_features_of_any_size(shape, scale):
    X, y = make_data(*shape)
    metric = NCTI().fit(X * scale, y)
    assert metric.temperature_ == (1 if scale < 1 else 1e-10)
    assert -1 < metric.score_ < 2
    for part in metric.components_.values():
        assert np.isfinite(part)


@may_saturate
def test_fewer_samples_or_features_than_components():
    X, y = make_data(12, 64)
    metric = NCTI().fit(X, y)
    assert metric.n_components_ == 11
    assert NCTI(None).fit(X, y).components_ == metric.components_
    assert NCTI().fit(*make_data(30, 1)).n_components_ == 1


def test_other_metrics_share_the_decomposition():
    X, y = make_data()
    inputs = MetricInputs(y, X)
    inputs.fit(LogME())
    assert inputs.fit(NCTI()).components_ == NCTI().fit(X, y).components_


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_permutations": 1.5}, "n_permutations"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_wrong_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        NCTI(**parameters).fit(*make_data())
