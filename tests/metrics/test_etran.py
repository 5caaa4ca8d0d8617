"""ETran: its formula, stored values of the original, the pool's rule, and announcements."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics._etran import ETran

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
VALUES = json.loads((GOLDEN / "golden.json").read_text())
CASES = [
    (case, f"@model{k}" if case == "zoo_digits" else "")
    for case, values in VALUES.items()
    if any(key.startswith("etran") for key in values)
    for k in range(5 if case == "zoo_digits" else 1)
]

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("@model", "X_") or "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=8, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    return rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y], y


def lda_by_definition(F, y, shrinkage):
    means = np.array([F[y == c].mean(axis=0) for c in np.unique(y)])
    prior = np.array([np.mean(y == c) for c in np.unique(y)])
    residual = F - means[np.searchsorted(np.unique(y), y)]
    within = residual.T @ residual / len(y)
    shrunk = (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(
        len(within)
    )
    coef = np.linalg.solve(shrunk, means.T)
    logits = F @ coef - 0.5 * np.sum(means.T * coef, axis=0) + np.log(prior)
    return softmax(logits, axis=1)[np.arange(len(y)), np.searchsorted(np.unique(y), y)].mean()


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("shape", [(60, 8), (21, 7), (30, 20)])
def test_formula(shape):
    F, y = make_data(*shape)
    F *= 0.3
    metric = ETran().fit(F, y)
    energies = np.sort([np.log(np.exp(row).sum()) for row in F])
    energy = energies[: shape[0] // 2].mean()
    assert metric.components_["energy"] == pytest.approx(energy, abs=1e-12)
    lda = lda_by_definition(F, y, metric.shrinkage_)
    assert metric.components_["lda"] == pytest.approx(lda, abs=1e-10)
    assert 1e-10 < metric.shrinkage_ < 1
    response = energy - np.log(shape[1])
    expected = 0.15 * (0.5 + 0.5 * response / (1 + abs(response))) + 0.85 * lda
    assert metric.score_ == pytest.approx(expected, abs=1e-10)


def test_tail():
    F, y = make_data()
    energies = np.sort(logsumexp(F, axis=1))
    for tail, n in ((0.05, 3), (0.29, 17), (1.0, 60)):
        for formula in ("intended", "published"):
            metric = ETran(formula, tail).fit(F, y)
            assert metric.n_tail_ == n
            assert metric.components_["energy"] == pytest.approx(energies[:n].mean(), abs=1e-12)


@pytest.mark.parametrize(("case", "suffix"), CASES)
def test_stored_values(case, suffix):
    F, y = arrays(case, suffix)
    values = {
        key: VALUES[case][key + suffix]["value"]
        for key in (
            "etran.energy_bot0.5",
            "etran.energy_bot50",
            "etran.lda",
            "etran.reference_lda_intended",
        )
    }
    intended, published = ETran().fit(F, y), ETran("published").fit(F, y)
    close = {"rel": 1e-9, "abs": 0}
    parts = intended.components_
    assert parts["lda"] == pytest.approx(values["etran.reference_lda_intended"], **close)
    assert parts["energy"] == pytest.approx(values["etran.energy_bot50"], **close)
    parts = published.components_
    assert parts["lda"] == pytest.approx(values["etran.lda"], **close)
    assert np.isnan(published.shrinkage_)
    # The covariance that the original loses matters.
    assert abs(values["etran.lda"] - intended.components_["lda"]) > 0.02
    if values["etran.energy_bot0.5"] is None:
        assert len(y) < 200
        assert np.isnan(published.score_)
    else:
        assert parts["energy"] == pytest.approx(values["etran.energy_bot0.5"], **close)
        assert np.isfinite(published.score_)


# ------------------------------------------------------------------------------------------- pools


def test_stored_scores_of_a_pool():
    pool = [ETran("published", tail=0.5).fit(*arrays("zoo_digits", f"@model{k}")) for k in range(5)]
    expected = [VALUES["zoo_digits"][f"etran.combined@model{k}"]["value"] for k in range(5)]
    np.testing.assert_allclose(ETran.pool_scores(pool), expected, atol=1e-12)


def test_failed_candidates_and_constant_parts_do_not_disturb_a_pool():
    pool = [ETran().fit(*make_data(seed=seed)) for seed in range(4)]
    expected = ETran.pool_scores(pool)
    assert expected.min() >= 0
    assert expected.max() <= 1
    without_tail = ETran("published").fit(*make_data())
    mixed = ETran.pool_scores([None, *pool, without_tail])
    np.testing.assert_array_equal(mixed, [np.nan, *expected, np.nan])
    np.testing.assert_array_equal(ETran.pool_scores([pool[0]]), [0.5])
    np.testing.assert_array_equal(ETran.pool_scores([pool[0]] * 3), [0.5] * 3)
    np.testing.assert_array_equal(ETran.pool_scores([None]), [np.nan])
    assert ETran.pool_scores([]).shape == (0,)
    assert ETran.relative_to_pool


def test_the_better_candidate_has_the_higher_score_alone_and_in_a_pool():
    F, y = make_data(120)
    rng = np.random.default_rng(0)
    noise = F[rng.permutation(120)]
    good, bad = ETran().fit(F, y), ETran().fit(noise, y)
    assert good.score_ > bad.score_
    assert ETran.pool_scores([good, bad])[0] > ETran.pool_scores([good, bad])[1]
    # Features that respond more, with the same labels told apart, have more energy.
    strong = ETran().fit(F + 5, y)
    assert strong.components_["lda"] == pytest.approx(good.components_["lda"], abs=1e-9)
    assert strong.score_ > good.score_


# ------------------------------------------------------------------------------------ announcements


def test_noise_with_fewer_samples_than_features_is_announced():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(40, 96)), np.arange(40) % 4
    with pytest.warns(UninformativeScoreWarning, match="ETran.*'lda'.*permuted labels score"):
        metric = ETran().fit(F, y)
    assert metric.components_["lda"] > 0.99  # the saturation of the definition
    assert metric.saturated_
    assert metric.score_ == pytest.approx(metric.chance_level_, abs=1e-3)
    assert ETran(n_permutations=0).fit(F, y).score_ == metric.score_
    assert np.isnan(ETran(n_permutations=0).fit(F, y).chance_level_)


def test_informative_features_are_not_announced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = ETran().fit(*make_data(150))
    assert not metric.saturated_
    assert metric.chance_level_ < metric.score_ - 0.1


@pytest.mark.parametrize(
    ("F", "y", "match"),
    [
        (np.zeros((30, 4)), np.arange(30) % 3, "constant"),
        (np.random.default_rng(0).normal(size=(6, 4)), np.arange(6), "single sample"),
    ],
)
def test_degenerate_data_are_announced(F, y, match):
    with pytest.warns(UninformativeScoreWarning, match=match):
        metric = ETran().fit(F, y)
    assert metric.saturated_
    assert 0 <= metric.score_ <= 1


def test_an_empty_tail_has_no_score_and_says_why():
    with pytest.warns(UninformativeScoreWarning, match="no score .*tail is zero for 60 samples"):
        metric = ETran("published").fit(*make_data())
    assert np.isnan(metric.score_)
    assert type(metric.score_) is float
    assert metric.n_tail_ == 0
    assert np.isfinite(metric.components_["lda"])


@pytest.mark.parametrize("formula", ["intended", "published"])
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300])
def test_features_of_any_size(formula, scale):
    F, y = make_data()
    metric = ETran(formula, tail=0.5).fit(F * scale, y)
    assert np.isfinite(list(metric.components_.values())).all()
    assert 0 <= metric.score_ <= 1
    small = ETran(formula, tail=0.5).fit(F, y)
    assert np.isfinite(ETran.pool_scores([metric, small])).all()
