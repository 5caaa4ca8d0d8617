"""LP: its formula, stored values of the original, cross-fitting, chance and small data."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from sktransfer.exceptions import TransferabilityWarning, UninformativeScoreWarning
from sktransfer.metrics import FeatureMoments, MetricInputs, _lp
from sktransfer.metrics._lp import LP

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
ENTRIES = [
    pytest.param(case, key.partition("@")[2], entry, id=f"{case}-{key}")
    for case, values in json.loads((GOLDEN / "golden.json").read_text()).items()
    for key, entry in values.items()
    if key.startswith("lp.doviledo")
]


def arrays(case, suffix=""):
    with np.load(GOLDEN / f"{case}.npz", allow_pickle=False) as stored:
        name = suffix.replace("model", "X_") if suffix else "X"
        return stored[name].astype(np.float64), stored["y"]


def make_data(n_samples=60, n_features=8, n_classes=3, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    centres = strength * rng.normal(size=(n_classes, n_features))
    return rng.normal(size=(n_samples, n_features)) + centres[y], y


def own_label_share(train, labels, test, own, n_neighbors):
    """Share of the nearest neighbours that have a sample's label, from a matrix of distances."""
    nearest = np.argsort(cdist(test, train), axis=1)[:, :n_neighbors]
    return (labels[nearest] == own[:, None]).mean(axis=1)


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("n_neighbors", [1, 5, 12])
def test_in_sample_formula(n_neighbors):
    F, y = make_data(80, 6)
    metric = LP(n_neighbors=n_neighbors, in_sample=True, random_state=0, n_permutations=0)
    metric.fit(F, y)
    projected = NeighborhoodComponentsAnalysis(6).fit_transform(F, y)
    expected = own_label_share(projected, y, projected, y, n_neighbors).mean()
    assert metric.score_ == pytest.approx(expected, abs=2 / (n_neighbors * 80))
    assert metric.n_folds_ == 1


def test_cross_fitted_formula(monkeypatch):
    F, y = make_data(60, 6)
    folds = {}

    def keep(self, classes, real=LP._folds):
        folds["fold"], n_folds = real(self, classes)
        folds["classes"] = classes
        return folds["fold"], n_folds

    seen = []

    def record(train, labels, *args, real=_lp.neighbourhood_components, **options):
        seen.append((train.copy(), labels.copy()))
        return real(train, labels, *args, **options)

    monkeypatch.setattr(LP, "_folds", keep)
    monkeypatch.setattr(_lp, "neighbourhood_components", record)
    metric = LP(random_state=0).fit(F, y)
    # Each projection has seen all folds but one, so all samples are seen four times.
    assert len(seen) == metric.n_folds_ == 5
    rows = np.unique(np.concatenate([train for train, _ in seen]), axis=0, return_counts=True)
    assert rows[0].shape == (60, 6)
    assert (rows[1] == 4).all()
    everything = {
        row.tobytes(): label
        for train, labels in seen
        for row, label in zip(train, labels, strict=True)
    }
    total = 0.0
    for train, labels in seen:
        held_out = [key for key in everything if key not in {row.tobytes() for row in train}]
        test = np.array([np.frombuffer(key) for key in held_out])
        own = np.array([everything[key] for key in held_out])
        assert len(test) == 12
        assert np.bincount(own).tolist() == [4, 4, 4]
        nca = NeighborhoodComponentsAnalysis(6, init="identity", max_iter=50)
        nca.n_iter_ = 0
        monkeypatch.undo()
        nca.fit(train, labels)
        total += own_label_share(nca.transform(train), labels, nca.transform(test), own, 5).sum()
    assert metric.score_ == pytest.approx(total / 60, abs=1e-12)


@pytest.mark.parametrize(("case", "suffix", "entry"), ENTRIES)
def test_stored_values(case, suffix, entry):
    F, y = arrays(case, suffix)
    metric = LP(in_sample=True, random_state=42, n_permutations=0).fit(F, y)
    assert 0 <= metric.score_ <= 1
    if entry["value"] is None:
        # The original wants fifty features.
        assert metric.n_components_ == F.shape[1] < 50
        return
    assert metric.n_components_ == 50
    assert metric.score_ == pytest.approx(entry["value"], abs=5 / len(y))
    held_out = LP(random_state=42).fit(F, y).score_
    assert held_out < metric.score_ + 0.02


# ----------------------------------------------------------------------------------------- chance


def test_random_labels_score_by_chance_and_far_above_it_in_sample():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(150, 30)), np.arange(150) % 3
    scores, published, left_out = [], [], []
    for seed in range(4):
        labels = rng.permutation(y)
        metric = LP(random_state=seed).fit(F, labels)
        scores.append(metric.score_)
        assert metric.score_ == pytest.approx(1 / 3, abs=0.08)
        assert metric.chance_level_ == pytest.approx(1 / 3, abs=1e-12)
        in_sample = LP(in_sample=True, random_state=seed, n_permutations=0)
        published.append(in_sample.fit(F, labels).score_)
        # Leaving a sample out of its neighbours only is not enough.
        projected = NeighborhoodComponentsAnalysis(30).fit_transform(F, labels)
        nearest = np.argsort(cdist(projected, projected), axis=1)[:, 1:6]
        left_out.append((labels[nearest] == labels[:, None]).mean())
    assert abs(np.mean(scores) - 1 / 3) < 0.04
    assert np.mean(published) > 0.5
    assert np.mean(left_out) > 0.4


def test_chance_level_follows_the_shares_of_the_classes():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(200, 5)), np.repeat([0, 1], [150, 50])
    metrics = [LP(random_state=seed, max_iter=5) for seed in range(6)]
    scores = [metric.fit(F, rng.permutation(y)).score_ for metric in metrics]
    levels = [metric.chance_level_ for metric in metrics]
    # Predictions favour the larger class a little more than its share does.
    assert 0.75**2 + 0.25**2 - 0.01 < min(levels) < max(levels) < 0.75
    assert np.mean(scores) == pytest.approx(np.mean(levels), abs=0.02)


def test_informative_beats_shuffled():
    F, y = make_data(90)
    rng = np.random.default_rng(0)
    metric = LP(random_state=0)
    shuffled = [metric.fit(F, rng.permutation(y)).score_ for _ in range(8)]
    assert metric.fit(F, y).score_ > max(shuffled)


# -------------------------------------------------------------------------------------- small data


def test_few_samples():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(12, 64)), np.arange(12) % 3
    metric = LP(random_state=0).fit(F, y)
    assert 0 <= metric.score_ <= 1
    assert metric.n_components_ == 8  # nine samples in the smallest training set
    assert metric.n_neighbors_ == 5
    assert metric.n_folds_ == 5
    published = LP(in_sample=True, random_state=0).fit(F, y)
    assert published.n_components_ == 11


def test_a_class_with_fewer_members_than_folds():
    F, y = make_data(40, 5, 2, strength=3.0)
    y = y.copy()
    y[np.flatnonzero(y == 0)[:3]] = 2
    y[np.flatnonzero(y == 1)[0]] = 3
    metric = LP(random_state=0).fit(F, y)
    assert metric.classes_.tolist() == [0, 1, 2, 3]
    # The only member of its class counts nothing: at most 39 of 40 can be right.
    assert 0 < metric.score_ <= 39 / 40


def test_only_member_of_its_class():
    F = np.r_[np.zeros((1, 3)), np.random.default_rng(0).normal(size=(9, 3))]
    metric = LP(random_state=0, n_neighbors=1).fit(F, np.r_[0, np.ones(9, dtype=int)])
    assert 0.7 <= metric.score_ <= 0.9


def test_folds_are_stratified_and_balanced():
    metric = LP(random_state=0)
    metric.seed_ = 0
    classes = np.repeat([0, 1, 2, 3], [1, 3, 11, 20])
    fold, n_folds = metric._folds(classes)
    assert n_folds == 5
    assert sorted(np.bincount(fold)) == [7, 7, 7, 7, 7]
    for k in range(4):
        counts = np.bincount(fold[classes == k], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_scores_without_information_are_announced():
    y = np.arange(30) % 3
    for F in (np.zeros((30, 4)), np.full((30, 4), 0.1), np.full((30, 50), 1e200)):
        for in_sample in (False, True):
            with pytest.warns(UninformativeScoreWarning, match="the features are constant"):
                metric = LP(in_sample=in_sample, random_state=0).fit(F, y)
            assert metric.score_ == pytest.approx(1 / 3, abs=1e-12)
            assert metric.saturated_
    F, _ = make_data(10, 4)
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        assert LP(random_state=0).fit(F, np.arange(10)).score_ == 0.0
    with pytest.warns(UninformativeScoreWarning, match="every class has a single sample"):
        score = LP(in_sample=True, random_state=0).fit(F, np.arange(10)).score_
    assert score == pytest.approx(1 / 5)


def test_the_smallest_problems():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TransferabilityWarning)
        for n, d in [(2, 1), (2, 5), (3, 1), (4, 64), (6, 2)]:
            F, y = make_data(n, d, 2)
            for in_sample in (False, True):
                metric = LP(in_sample=in_sample, random_state=0).fit(F, y)
                assert 0 <= metric.score_ <= 1
                assert metric.n_neighbors_ <= n
        # A training set whose samples are all equal has nothing to learn from.
        F = np.r_[np.ones((9, 2)), [[5.0, 0.0]]]
        assert 0 <= LP(random_state=0).fit(F, np.arange(10) % 2).score_ <= 1
    for wrong in ({"n_components": 0}, {"n_neighbors": 0}, {"n_folds": 1}, {"in_sample": 2}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LP(**wrong).fit(F, np.arange(10) % 2)


# ------------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("shape", [(60, 8), (30, 60)])
def test_what_does_not_change_the_score(shape):
    F, y = make_data(*shape)
    rng = np.random.default_rng(1)
    order = rng.permutation(len(y))
    expected = LP(random_state=0).fit(F, y).score_
    in_sample = LP(in_sample=True, random_state=0, n_permutations=0).fit(F, y).score_
    for same, labels in [
        (F[order], y[order]),
        (F, np.array(["pear", "apple", "fig"])[y]),
        (np.asfortranarray(F), y),
        (F + 3.25, y),
        (F[:, rng.permutation(shape[1])], y),
        (F @ ortho_group.rvs(shape[1], random_state=0), y),
        (np.c_[F, np.zeros((len(F), 3))], y),
    ]:
        assert LP(random_state=0).fit(same, labels).score_ == pytest.approx(expected, abs=1e-12)
        again = LP(in_sample=True, random_state=0, n_permutations=0).fit(same, labels).score_
        assert again == pytest.approx(in_sample, abs=1e-12)
    for scale in (37.5, 1e150, 1e-150):
        assert LP(random_state=0).fit(scale * F, y).score_ == pytest.approx(expected, abs=1e-12)


def test_in_sample_takes_the_features_as_they_come():
    F, y = make_data(80, 8)
    ordinary, large, larger, small = (
        LP(in_sample=True, random_state=0, n_permutations=0).fit(scale * F, y).score_
        for scale in (1, 1e40, 1e150, 1e-150)
    )
    assert ordinary > large
    # Without a gradient the projection stays what it was.
    plain = KNeighborsClassifier(5).fit(F, y).predict_proba(F)[np.arange(80), y].mean()
    assert large == larger == small == pytest.approx(plain, abs=1e-12)


def test_equal_rows_with_different_labels_do_not_depend_on_the_order():
    rng = np.random.default_rng(3)
    F = np.repeat(rng.normal(size=(10, 4)), 6, axis=0)
    y = rng.integers(0, 3, len(F))
    expected = LP(random_state=0).fit(F, y).score_
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        names = rng.permutation(3)
        score = LP(random_state=0).fit(F[order], names[y[order]]).score_
        assert score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("random_state", [0, 7, None])
def test_seed(random_state):
    F, y = make_data()
    metric = LP(random_state=random_state).fit(F, y)
    assert metric.score(F, y) == metric.score_
    assert LP(random_state=metric.seed_).fit(F, y).score_ == metric.score_
    in_sample = metric.set_params(in_sample=True).fit(F, y)
    again = LP(in_sample=True, random_state=in_sample.seed_).fit(F, y)
    assert again.score_ == in_sample.score_
    assert again.chance_level_ == in_sample.chance_level_


def test_seeds_change_the_folds():
    F, y = make_data(90, strength=0.5)
    assert len({LP(random_state=seed).fit(F, y).score_ for seed in range(5)}) > 1


def test_precision_and_layout():
    F, y = make_data(80, 12)
    expected = LP(random_state=0).fit(F, y).score_
    single = F.astype(np.float32)
    assert LP(random_state=0).fit(single, y).score_ == pytest.approx(expected, abs=1e-3)
    read_only = np.asfortranarray(F)
    read_only.flags.writeable = False
    before = read_only.tobytes()
    assert LP(random_state=0).fit(read_only, y).score_ == expected
    assert read_only.tobytes() == before


def test_iterations_are_bounded_and_convergence_is_told():
    F, y = make_data(60, strength=0.2)
    assert not LP(max_iter=1, random_state=0).fit(F, y).converged_
    assert LP(max_iter=1000, random_state=0).fit(F, y).converged_


# ------------------------------------------------------------------------------- what says nothing


def test_one_neighbour_in_sample_is_the_sample_itself():
    F, y = make_data(60, 5)
    with pytest.warns(UninformativeScoreWarning, match="its own only neighbour"):
        metric = LP(n_neighbors=1, in_sample=True, random_state=0).fit(F, y)
    assert metric.score_ == metric.chance_level_ == 1.0
    assert metric.saturated_


@pytest.mark.parametrize("in_sample", [False, True])
@pytest.mark.parametrize("n_neighbors", [60, 1000])
def test_everyone_as_a_neighbour_says_nothing(n_neighbors, in_sample):
    F, y = make_data(60, 5)
    with pytest.warns(UninformativeScoreWarning, match="are neighbours of a sample"):
        metric = LP(n_neighbors=n_neighbors, in_sample=in_sample, random_state=0).fit(F, y)
    assert metric.saturated_
    assert metric.score_ == pytest.approx(1 / 3, abs=1e-12)
    assert metric.chance_level_ == pytest.approx(1 / 3, abs=1e-12)


def test_in_sample_the_chance_level_is_that_of_permuted_labels():
    F, y = make_data(60, 5, strength=2.0)
    rng = np.random.default_rng(0)
    permuted = [
        LP(in_sample=True, random_state=0, n_permutations=0).fit(F, rng.permutation(y)).score_
        for _ in range(20)
    ]
    real = LP(in_sample=True, random_state=0).fit(F, y)
    assert not real.saturated_
    assert real.chance_level_ == pytest.approx(np.mean(permuted), abs=4 * np.std(permuted))
    assert real.chance_level_ > 0.45
    with pytest.warns(UninformativeScoreWarning, match="permuted labels score 0"):
        assert LP(in_sample=True, random_state=0).fit(F, rng.permutation(y)).saturated_
    assert np.isnan(LP(in_sample=True, random_state=0, n_permutations=0).fit(F, y).chance_level_)


def test_predictions_that_favour_a_class_do_not_pass_for_knowledge():
    # The learned projection predicts the larger classes more often than they occur.
    passed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        F, y = rng.normal(size=(80, 80)), np.repeat([0, 1, 2, 3], [56, 16, 5, 3])
        metric = LP(random_state=0).fit(F, rng.permutation(y))
        passed += not metric.saturated_
    assert passed <= 1


@pytest.mark.parametrize("shape", [(60, 8), (30, 60)])
def test_the_decomposition_is_shared_with_other_metrics(shape, monkeypatch):
    F, y = make_data(*shape)
    expected = LP(random_state=0).fit(F, y).score_
    inputs = MetricInputs(y, features=F)
    inputs.fit("logme")
    calls = []
    original = FeatureMoments.from_arrays
    monkeypatch.setattr(
        FeatureMoments, "from_arrays", lambda *args, **kw: calls.append(1) or original(*args, **kw)
    )
    assert inputs.fit(LP(random_state=0)).score_ == expected
    assert not calls
