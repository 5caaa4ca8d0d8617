"""PAS: its formula, the source's forms, vectors without direction, and announcements."""

import warnings

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import cosine_distances
from sklearn.model_selection import cross_val_score

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import MetricInputs, _pas
from sktransfer.metrics._pas import PAS

# Small data without much of a signal; the tests that are about announcements look for them.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def make_data(n_samples=60, n_features=8, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    rng.shuffle(y)
    centres = np.random.default_rng(99).normal(size=(n_classes, n_features))
    return rng.normal(size=(n_samples, n_features)) + 2 * centres[y], y


def by_definition(F, centroids):
    margins = []
    for row in F:
        distances = sorted(1 - row @ c / np.linalg.norm(row) / np.linalg.norm(c) for c in centroids)
        margins.append((distances[1] - distances[0]) / distances[1])
    return np.mean(margins)


def means(F, y):
    return np.array([F[y == c].mean(axis=0) for c in np.unique(y)])


# ---------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("shape", [(60, 8, 3), (30, 50, 7), (40, 2, 2)])
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_formula(shape):
    F, _ = make_data(*shape)
    source, labels = make_data(*shape, seed=1)
    expected = by_definition(F, means(source, labels))
    assert PAS(source, labels).fit(F).score_ == pytest.approx(expected, abs=1e-12)
    F, y = make_data(*shape)
    assert PAS().fit(F, y).score_ == pytest.approx(by_definition(F, means(F, y)), abs=1e-12)


def test_real_features():
    F, y = load_digits(return_X_y=True)
    distances = np.sort(cosine_distances(F[900:], means(F[:900], y[:900])), axis=1)
    expected = np.mean((distances[:, 1] - distances[:, 0]) / distances[:, 1])
    assert PAS(F[:900], y[:900]).fit(F[900:]).score_ == pytest.approx(expected, abs=1e-12)


def test_a_source_is_given_by_samples_or_centroids_and_labels_of_the_target_are_not_read():
    F, y = make_data()
    source, labels = make_data(seed=1)
    metric = PAS(source, labels)
    expected = metric.fit(F).score_
    names = np.array(["fox", "ape", "cat"])[labels]
    for same in (
        PAS(source.tolist(), labels.tolist()),
        PAS(source.astype(np.float32), labels[:, None]),
        PAS(source, names),
        PAS(source * 1e200, labels),
        PAS(source_centroids=means(source, labels) * [[1], [1e-200], [1e200]]),
    ):
        assert same.fit(F).score_ == pytest.approx(expected, abs=1e-6)
    assert PAS(source, names).fit(F).classes_.tolist() == ["ape", "cat", "fox"]
    for target in (y, y % 2, np.zeros(60), y + 0.5, np.array(["a"] * 60)):
        assert clone(metric).fit(F, target).score_ == expected
        assert metric.score(F, target) == metric.score(F) == expected
    assert MetricInputs(y, features=F).fit(metric).score_ == expected
    assert cross_val_score(metric, F, y, cv=3).shape == (3,)
    assert metric.fit(F[:1]).score_ == pytest.approx(by_definition(F[:1], means(source, labels)))
    assert np.isnan(metric.chance_level_)
    assert not metric.__sklearn_tags__().target_tags.required
    assert PAS().__sklearn_tags__().target_tags.required


def test_a_matching_source_scores_higher_than_one_of_noise():
    F, _ = make_data(200)
    source, labels = make_data(200, seed=1)
    noise = np.random.default_rng(0).permutation(labels)
    assert PAS(source, labels).fit(F).score_ > PAS(source, noise).fit(F).score_ + 0.2


def test_it_answers_to_changes_of_the_features_as_documented():
    F, y = make_data()
    source, labels = make_data(seed=1)
    expected = PAS(source, labels).fit(F).score_
    rotation = ortho_group.rvs(8, random_state=0)
    rows = np.random.default_rng(0).uniform(0.1, 10, (60, 1))
    for change in (
        lambda A: A @ rotation,
        lambda A: A * 1e150,
        lambda A: A * 1e-150,
        lambda A: np.c_[A, np.zeros((len(A), 2))],
    ):
        assert PAS(change(source), labels).fit(change(F)).score_ == pytest.approx(expected)
    assert PAS(source, labels).fit(F * rows).score_ == pytest.approx(expected, abs=1e-12)
    assert abs(PAS(source + 3, labels).fit(F + 3).score_ - expected) > 1e-3
    assert abs(PAS().fit(F + 3, y).score_ - PAS().fit(F, y).score_) > 1e-3


def test_blocks_give_the_same_score(monkeypatch):
    F, y = make_data()
    near = F * 1e-6 + 1  # directions so close that distances need differences
    expected = PAS().fit(F, y).score_, PAS().fit(near, y).score_
    for size in (1, 30, 500):
        monkeypatch.setattr(_pas, "_BLOCK_ELEMENTS", size)
        assert PAS().fit(F, y).score_ == pytest.approx(expected[0], abs=1e-12)
        assert PAS().fit(near, y).score_ == pytest.approx(expected[1], abs=1e-9)


def test_directions_that_are_nearly_the_same_keep_their_digits():
    F, y = make_data(40, 5)
    # Around a large mean the angles are those of the plane perpendicular to it.
    mean = np.array([1.0, 0, 0, 0, 0])
    F[:, 0] = 0
    scores = [PAS().fit(mean + scale * F, y).score_ for scale in (1e-4, 1e-7, 1e-9)]
    centroids = means(F, y)
    squares = np.sort(np.square(F[:, None] - centroids).sum(axis=2), axis=1)
    expected = np.mean((squares[:, 1] - squares[:, 0]) / squares[:, 1])
    assert scores == pytest.approx([expected] * 3, abs=1e-4)
    assert scores[1:] == pytest.approx([expected] * 2, abs=1e-6)


# ---------------------------------------------------------------------------- vectors of no length


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_vectors_without_direction():
    centroids = np.array([[1.0, 0], [0, 1]])
    assert PAS(source_centroids=centroids).fit([[0.0, 0.0]]).score_ == 0.0
    assert PAS(source_centroids=centroids).fit([[3.0, 0.0]]).score_ == 1.0
    assert PAS(source_centroids=centroids).fit([[3.0, 3.0]]).score_ == pytest.approx(0, abs=1e-15)
    # A centroid of zeros is at distance 1.
    metric = PAS(source_centroids=[[1.0, 0], [0, 0]])
    assert metric.fit([[1.0, 1.0]]).score_ == pytest.approx(np.sqrt(0.5))
    assert metric.fit([[5.0, 0.0]]).score_ == 1.0
    # Two centroids in the sample's own direction.
    assert PAS(source_centroids=[[1.0, 1], [2, 2], [0, 1]]).fit([[4.0, 4.0]]).score_ == 0.0


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_class_means_that_cancel_have_no_direction():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(10, 3))
    F = np.r_[half, -half, rng.normal(size=(20, 3)) + 3]
    y = np.repeat([0, 1], 20)
    expected = PAS().fit(F, y).score_
    assert not PAS().fit(F, y).centroids_[0].any()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(40)
        assert PAS().fit(F[order], y[order]).score_ == pytest.approx(expected, abs=1e-12)


# ----------------------------------------------------------------------- wrong input, announcements


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ({"source_features": np.ones((4, 8))}, "given together; got only source_features"),
        ({"source_labels": [0, 1]}, "given together; got only source_labels"),
        (
            {
                "source_features": np.ones((4, 8)),
                "source_labels": [0, 1, 0, 1],
                "source_centroids": np.ones((2, 8)),
            },
            "got both",
        ),
        ({"source_centroids": np.ones((1, 8))}, "at least 2 source classes; got 1"),
        ({"source_features": np.ones((3, 8)), "source_labels": [1, 1, 1]}, "at least 2"),
        ({"source_features": np.ones((3, 8)), "source_labels": [0, 1]}, "inconsistent numbers"),
        ({"source_centroids": np.ones((3, 5))}, "X has 8 features, but the source of PAS has 5"),
        ({"source_centroids": np.full((3, 8), np.nan)}, "source_centroids contains NaN"),
        ({"source_features": np.ones((2, 8)), "source_labels": [0.5, 0.25]}, "source of PAS"),
    ],
)
def test_a_wrong_source_is_refused_in_a_sentence(source, match):
    with pytest.raises(ValueError, match=match):
        PAS(**source).fit(*make_data())


def test_without_a_source_labels_are_required():
    with pytest.raises(ValueError, match="requires y to be passed"):
        PAS().fit(make_data()[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PAS(source_centroids=np.eye(2, 8)).fit(make_data()[0], [0, 1])


def test_the_source_is_not_changed():
    F, _ = make_data()
    source, labels = make_data(seed=1)
    before = source.tobytes(), labels.tobytes()
    source.flags.writeable = labels.flags.writeable = False
    PAS(source, labels).fit(F)
    assert (source.tobytes(), labels.tobytes()) == before


def test_scores_that_say_nothing_are_announced():
    F, y = make_data()
    rng = np.random.default_rng(0)
    for data, match in [
        ((np.zeros((12, 3)), np.arange(12) % 3), "no sample is nearer"),
        ((rng.normal(size=(6, 4)), np.arange(6)), "single sample"),
        ((rng.normal(size=(12, 50)), np.arange(12) % 6), "permuted labels"),
        ((F, rng.permutation(y)), "permuted labels"),
    ]:
        with pytest.warns(UninformativeScoreWarning, match=match):
            assert PAS().fit(*data).saturated_
    with pytest.warns(UninformativeScoreWarning, match="no sample is nearer"):
        assert PAS(source_centroids=np.ones((2, 8))).fit(F).saturated_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not PAS().fit(F, y).saturated_
        assert not PAS(F, y).fit(F).saturated_
    assert np.isnan(PAS(n_permutations=0).fit(F, y).chance_level_)
    assert PAS().fit(F, y).chance_level_ < PAS().fit(F, y).score_


@pytest.mark.parametrize(
    "unread", [np.full(60, np.nan), np.array([None] * 60, dtype=object), ["?"] * 60, np.eye(60)]
)
def test_with_a_source_the_values_of_the_target_are_not_looked_at(unread):
    F, _ = make_data()
    source, labels = make_data(seed=1)
    metric = PAS(source, labels)
    expected = metric.fit(F).score_
    assert metric.fit(F, unread).score_ == expected
    assert metric.score(F, unread) == metric.score(F, None) == expected
    with pytest.raises(ValueError, match="NaN"):
        PAS().fit(F, np.full(60, np.nan))
