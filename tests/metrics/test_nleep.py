"""NLEEP: its formula, stored values of the originals, the mixture's sizes, seeds and chance."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from sktransfer.exceptions import (
    NotConvergedWarning,
    TransferabilityWarning,
    UninformativeScoreWarning,
)
from sktransfer.metrics import LEEP
from sktransfer.metrics import _nleep as module
from sktransfer.metrics._canonical import canonical_order, rounded_norms, row_ranks
from sktransfer.metrics._nleep import NLEEP

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(
        case, *(key.removeprefix("nleep.") + "@").split("@")[:2], entry, id=f"{case}-{key}"
    )
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("nleep.")
]


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=8, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def by_loops(posteriors, y, log):
    """Mean (log-)likelihood of the classifier that counts labels by mixture component."""
    values = []
    for row, label in zip(posteriors, y, strict=True):
        likelihood = sum(
            row[z] * posteriors[y == label, z].sum() / posteriors[:, z].sum()
            for z in range(posteriors.shape[1])
            if posteriors[:, z].sum() > 0
        )
        values.append(np.log(likelihood) if log else likelihood)
    return np.mean(values)


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_score_is_that_of_the_posteriors(covariance_type):
    F, y = make_data()
    metric = NLEEP(covariance_type=covariance_type, random_state=0, n_permutations=0).fit(F, y)
    assert metric.posteriors_.shape == (60, 15)
    assert metric.posteriors_.sum(axis=1) == pytest.approx(np.ones(60))
    assert metric.score_ == pytest.approx(by_loops(metric.posteriors_, y, True), abs=1e-12)
    assert metric.score_ == pytest.approx(LEEP().fit(metric.posteriors_, y).score_, abs=1e-12)
    mean = NLEEP(covariance_type=covariance_type, random_state=0, log=False, n_permutations=0)
    mean.fit(F, y)
    assert mean.score_ == pytest.approx(by_loops(metric.posteriors_, y, False), abs=1e-12)


def test_posteriors_are_those_of_a_mixture_of_principal_components():
    # Three far clusters: any mixture finds them, and the posteriors are known.
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    F = 100 * np.eye(3, 6)[y] + rng.normal(size=(60, 6))
    metric = NLEEP(components_per_class=1, random_state=0).fit(F, y)
    assert metric.n_components_ == 2
    clusters = metric.posteriors_.argmax(axis=1)
    assert len(set(zip(y, clusters, strict=True))) == 3
    assert metric.score_ == pytest.approx(0, abs=1e-9)
    rows = PCA(2).fit_transform(F)
    mixture = GaussianMixture(3, random_state=0).fit(rows)
    expected = mixture.predict_proba(rows)[:, mixture.predict(rows[:3])]
    np.testing.assert_allclose(metric.posteriors_[:, clusters[:3]], expected, atol=1e-6)


@pytest.mark.parametrize("energy", [0.1, 0.5, 0.8, 0.9, 0.99, 1.0])
def test_number_of_principal_components(energy):
    F, y = make_data(100, 20)
    metric = NLEEP(energy=energy, random_state=0, n_permutations=0).fit(F, y)
    expected = 20 if energy == 1 else PCA(energy, svd_solver="full").fit(F).n_components_
    assert metric.n_components_ == expected


# -------------------------------------------------------------------------------- stored values

# Covariances, regularisation and seed of the originals; two of them take no logarithm.
ORIGINALS = {
    "doviledo_nolog": ("full", 1e-6, 0),
    "sfda_nolog": ("full", 1e-6, 0),
    "reference_log": ("full", 1e-6, 0),
    "google_log": ("full", 1e-6, 123),
    "emab_log": ("spherical", 1e-5, 123),
}


def as_published(F, y, implementation):
    """What the originals do, in a few lines: rows as they come, an absolute regularisation."""
    kind, reg_covar, seed = ORIGINALS[implementation]
    rows = PCA(0.8, svd_solver="full").fit_transform(F)
    mixture = GaussianMixture(
        5 * len(np.unique(y)), covariance_type=kind, reg_covar=reg_covar, random_state=seed
    )
    posteriors = mixture.fit(rows).predict_proba(rows)
    codes = np.unique(y, return_inverse=True)[1]
    joint = np.array([posteriors[codes == k].sum(axis=0) for k in np.unique(codes)])
    likelihood = (posteriors * (joint / joint.sum(axis=0))[codes]).sum(axis=1)
    return np.log(likelihood).mean() if implementation.endswith("_log") else likelihood.mean()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.NotConvergedWarning")
@pytest.mark.parametrize(("case", "implementation", "suffix", "entry"), ENTRIES)
def test_published_values_differ_by_the_order_of_rows_alone(case, implementation, suffix, entry):
    F, y = arrays(case, suffix)
    value = as_published(F, y, implementation)
    if entry["value"] is None:
        assert "ill-defined" in entry["note"]  # in single precision; it is finite here
    else:  # one original works in single precision, in part or in whole
        tolerance = 2e-4 if implementation == "google_log" else 1e-7
        assert value == pytest.approx(entry["value"], abs=tolerance)
    kind, reg_covar, seed = ORIGINALS[implementation]
    metric = NLEEP(
        covariance_type=kind,
        reg_covar=reg_covar,
        log=implementation.endswith("_log"),
        random_state=seed,
        n_permutations=0,
        reg_covar_unit="absolute",
    ).fit(F, y)
    # The same lines on the same rows, in the order in which the metric sees them.
    rows = PCA(0.8, svd_solver="full").fit_transform(F)
    norms = rounded_norms(rows / np.sqrt(np.square(rows).mean()))
    order, _ = canonical_order(row_ranks(F, norms), np.unique(y, return_inverse=True)[1])
    expected = as_published(F[order], y[order], implementation)
    assert metric.score_ == pytest.approx(expected, abs=1e-7)
    variance = rows.var(axis=0).mean()
    assert metric.reg_covar_ == pytest.approx(reg_covar / variance, rel=1e-9)


@pytest.mark.parametrize(
    ("case", "implementation", "suffix", "entry"),
    [p for p in ENTRIES if "zoo" not in p.id and p.values[1] in ("doviledo_nolog", "emab_log")],
)
def test_stored_values_lie_within_the_spread_of_seeds(case, implementation, suffix, entry):
    F, y = arrays(case, suffix)
    parameters = {"log": not implementation.endswith("nolog"), "n_permutations": 0}
    if implementation == "emab_log":
        parameters |= {"covariance_type": "spherical", "reg_covar": 1e-5}
    scores = [NLEEP(**parameters, random_state=seed).fit(F, y).score_ for seed in range(3)]
    spread = entry["spread"]
    assert scores[0] == pytest.approx(entry["value"], abs=spread["max_abs_dev_from_seed0"])
    # Means of three and of twenty seeds.
    assert np.mean(scores) == pytest.approx(spread["mean"], abs=2 * spread["std"])


def test_variants_are_different_quantities():
    F, y = arrays("iris_raw")
    log = NLEEP(random_state=0).fit(F, y).score_
    mean = NLEEP(random_state=0, log=False).fit(F, y).score_
    assert log < 0 < mean < 1
    assert np.exp(log) < mean  # Jensen
    one = NLEEP(energy=0.9, components_per_class=1, random_state=0).fit(F, y)
    assert one.n_mixture_components_ == 3
    assert one.score_ < log


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_an_absolute_regularisation_reads_the_scale_of_the_features(scale):
    F, y = make_data()
    relative = NLEEP(random_state=0).fit(F, y)
    assert NLEEP(random_state=0).fit(F * scale, y).score_ == pytest.approx(relative.score_)
    absolute = NLEEP(random_state=0, reg_covar_unit="absolute").fit(F * scale, y)
    if scale > 1:
        assert absolute.reg_covar_ <= 1e-12
    else:  # the mixture sees nothing beside it
        assert absolute.reg_covar_ > 1e5
        assert absolute.score_ == pytest.approx(-absolute.label_entropy_, abs=1e-4)
    nothing = NLEEP(random_state=0, reg_covar=0, reg_covar_unit="absolute").fit(F, y)
    assert nothing.reg_covar_ < 1e-6


# ------------------------------------------------------------------------------- small data, size


def test_few_samples():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(12, 64)), np.arange(12) % 3
    metric = NLEEP(random_state=0).fit(F, y)
    assert metric.n_mixture_components_ == 6
    assert 1 <= metric.n_components_ <= 11
    assert -np.log(3) <= metric.score_ <= 0
    assert NLEEP(components_per_class=1, random_state=0).fit(F, y).n_mixture_components_ == 3


@pytest.mark.parametrize(
    ("n_samples", "words"), [(2, "single sample"), (3, "3 samples allow a mixture")]
)
def test_a_mixture_of_one_component_is_announced(n_samples, words):
    F, y = make_data(n_samples, 5, 2)
    with pytest.warns(UninformativeScoreWarning, match=words):
        metric = NLEEP(random_state=0).fit(F, y)
    assert metric.n_mixture_components_ == 1
    assert metric.score_ == pytest.approx(-metric.label_entropy_)
    assert metric.converged_


def test_constant_features_score_minus_the_label_entropy():
    y = np.repeat([0, 1], [10, 20])
    entropy = np.log(3) - 2 / 3 * np.log(2)
    for F in (np.zeros((30, 4)), np.full((30, 4), 0.1), np.full((30, 50), 1e200)):
        with pytest.warns(UninformativeScoreWarning, match="the features are constant"):
            metric = NLEEP(random_state=0).fit(F, y)
        assert metric.n_components_ == 0
        assert metric.score_ == pytest.approx(-entropy)
        assert metric.chance_level_ == pytest.approx(-entropy)
        assert metric.label_entropy_ == pytest.approx(entropy)


def test_a_class_for_every_sample_is_announced():
    F, y = make_data(10, 4, 10)
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        metric = NLEEP(random_state=0).fit(F, y)
    assert metric.score_ == pytest.approx(metric.chance_level_)


def test_never_more_components_than_distinct_samples():
    rng = np.random.default_rng(0)
    F = np.repeat(rng.normal(size=(4, 5)), 10, axis=0)
    y = np.repeat([0, 1], 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = NLEEP(random_state=0).fit(F, y)
    assert metric.n_mixture_components_ == 4
    assert metric.score_ == pytest.approx(0, abs=1e-9)


def test_empty_mixture_components_are_harmless():
    F, y = make_data()
    posteriors = NLEEP(random_state=0).fit(F, y).posteriors_
    padded = np.insert(posteriors, [0, 4, 15], 0.0, axis=1)
    for log in (True, False):
        expected = module._expected_prediction(posteriors, y, log)
        assert module._expected_prediction(padded, y, log) == pytest.approx(expected, abs=1e-14)
        assert expected == pytest.approx(by_loops(posteriors, y, log), abs=1e-12)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_singular_covariances_raise_the_regularisation(covariance_type):
    rng = np.random.default_rng(0)
    F = np.repeat(rng.normal(size=(6, 3)), 5, axis=0)
    y = np.repeat([0, 1, 2], 10)
    metric = NLEEP(1.0, 2, covariance_type, reg_covar=0, random_state=0).fit(F, y)
    assert np.isfinite(metric.score_)
    # The clusters are points; whether their variances come out as zero is a matter of rounding.
    assert metric.reg_covar_ <= 1e-6
    if covariance_type == "full":
        assert metric.reg_covar_ >= 1e-12
    assert NLEEP(1.0, 2, covariance_type, random_state=0).fit(F, y).reg_covar_ == 1e-6


def test_a_mixture_that_cannot_be_fitted_says_why(monkeypatch):
    def refuse(self, X):
        raise ValueError("ill-defined")

    monkeypatch.setattr(module.GaussianMixture, "fit", refuse)
    with pytest.raises(ValueError, match="ill-defined"):
        NLEEP(random_state=0).fit(*make_data())


def test_lack_of_convergence_is_announced_under_a_name_of_ours(monkeypatch):
    class OneStep(GaussianMixture):
        def __init__(self, n_components=1, **parameters):
            super().__init__(n_components, max_iter=1, **parameters)

    monkeypatch.setattr(module, "GaussianMixture", OneStep)
    F, y = make_data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric = NLEEP(random_state=0).fit(F, y)
    assert [w.category for w in caught] == [NotConvergedWarning]
    assert "within 1 iterations" in str(caught[0].message)
    assert not metric.converged_
    assert metric.n_iter_ == 1


# -------------------------------------------------------------------------------- seed and chance


@pytest.mark.parametrize("random_state", [0, 7, None])
def test_seed(random_state):
    F, y = make_data()
    metric = NLEEP(random_state=random_state).fit(F, y)
    assert metric.score(F, y) == metric.score_
    again = NLEEP(random_state=metric.seed_).fit(F, y)
    assert again.score_ == metric.score_
    assert again.chance_level_ == metric.chance_level_


def test_seeds_differ_and_the_global_generator_is_left_alone():
    F, y = make_data()
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    scores = {NLEEP(random_state=seed).fit(F, y).score_ for seed in range(5)}
    assert len(scores) > 1
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def test_chance_level():
    F, y = make_data(90, 6)
    rng = np.random.default_rng(0)
    metric = NLEEP(random_state=0, n_permutations=200).fit(F, y)
    shuffled = [
        module._expected_prediction(metric.posteriors_, rng.permutation(y), True)
        for _ in range(200)
    ]
    error = np.std(shuffled) * np.sqrt(2 / 200)
    assert abs(metric.chance_level_ - np.mean(shuffled)) < 5 * error
    assert metric.score_ > max(shuffled)
    # Far from minus the entropy: fifteen clusters fit ninety labels somewhat by chance.
    assert metric.chance_level_ > -metric.label_entropy_ + 0.05
    assert np.isnan(NLEEP(random_state=0, n_permutations=0).fit(F, y).chance_level_)


# ------------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("shape", [(80, 8), (40, 90)])
def test_what_does_not_change_the_score(shape):
    F, y = make_data(*shape)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(y)) < 0.3, 0, y)
    expected = NLEEP(random_state=0).fit(F, y)
    assert expected.score_ < -0.05
    order = rng.permutation(len(y))
    for same, labels in [
        (F[order], y[order]),
        (F, np.array(["pear", "apple", "fig"])[y]),
        (37.5 * F, y),
        (F * 1e150, y),
        (F * 1e-150, y),
        (F + 3.25, y),
        (F[:, rng.permutation(shape[1])], y),
        (F @ ortho_group.rvs(shape[1], random_state=0), y),
        (np.c_[F, np.zeros((len(F), 3))], y),
    ]:
        metric = NLEEP(random_state=0).fit(same, labels)
        assert metric.score_ == pytest.approx(expected.score_, abs=1e-7)
        assert metric.chance_level_ == pytest.approx(expected.chance_level_, abs=1e-7)
    shuffled = NLEEP(random_state=0).fit(F[order], y[order])
    assert shuffled.score_ == pytest.approx(expected.score_, abs=1e-14)
    np.testing.assert_allclose(shuffled.posteriors_, expected.posteriors_[order], atol=1e-12)


def test_the_order_of_many_rows_does_not_matter():
    F, y = arrays("digits_raw64")
    expected = NLEEP(random_state=0).fit(F, y).score_
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        score = NLEEP(random_state=0).fit(F[order], y[order]).score_
        assert score == pytest.approx(expected, abs=1e-12)


def test_precision_and_layout():
    F, y = make_data(80, 12)
    expected = NLEEP(random_state=0).fit(F, y).score_
    single = F.astype(np.float32)
    assert NLEEP(random_state=0).fit(single, y).score_ == pytest.approx(expected, abs=1e-5)
    read_only = np.asfortranarray(F)
    read_only.flags.writeable = False
    before = read_only.tobytes()
    assert NLEEP(random_state=0).fit(read_only, y).score_ == pytest.approx(expected, abs=1e-12)
    assert read_only.tobytes() == before


def test_informative_beats_shuffled():
    F, y = make_data(90)
    rng = np.random.default_rng(0)
    for log in (True, False):
        metric = NLEEP(random_state=0, log=log)
        shuffled = [metric.fit(F, rng.permutation(y)).score_ for _ in range(10)]
        assert metric.fit(F, y).score_ > max(shuffled)


def test_bounds_and_the_smallest_problems():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TransferabilityWarning)
        for n, d in [(2, 1), (4, 1), (5, 3), (8, 64)]:
            F, y = make_data(n, d, 2)
            assert NLEEP(random_state=0).fit(F, y).score_ <= 0
            assert 0 < NLEEP(random_state=0, log=False).fit(F, y).score_ <= 1
    for wrong in (
        {"energy": 0},
        {"energy": 1.1},
        {"components_per_class": 0},
        {"reg_covar": -1},
        {"reg_covar_unit": "relative"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            NLEEP(**wrong).fit(F, y)


@pytest.mark.parametrize("log", [True, False])
def test_a_score_at_chance_is_announced(log):
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(60, 20)), np.arange(60) % 3
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score"):
        metric = NLEEP(random_state=0, log=log).fit(F, y)
    assert metric.saturated_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not NLEEP(random_state=0, log=log).fit(F[:, :4] + 6 * np.eye(3, 4)[y], y).saturated_
