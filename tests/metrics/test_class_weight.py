"""Weights of classes and of samples, of all metrics that take them."""

import inspect
import warnings
from functools import partial

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils.class_weight import compute_sample_weight

from sktransfer.metrics import (
    GBC,
    KNN,
    LEEP,
    LP,
    NCE,
    NCTI,
    NLEEP,
    OTCE,
    PARC,
    PAS,
    SFDA,
    ETran,
    FeatureMoments,
    HScore,
    LinearProbe,
    LogME,
    MetricInputs,
    PACTran,
    TransRate,
    get_metric,
    metric_names,
    score_metrics,
)

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")

RNG = np.random.default_rng(5)
SOURCE, SOURCE_LABELS = RNG.normal(size=(14, 6)) + 1.0, np.arange(14) % 3
SIZES = (40, 14, 6)

METRICS = [
    LogME(),
    HScore(),
    HScore("ledoit_wolf"),
    LEEP(n_permutations=3),
    NCE(),
    GBC(n_permutations=3),
    TransRate(n_permutations=3),
    TransRate(weights="uniform", n_permutations=3),
    KNN(),
    KNN(4),
    LinearProbe(n_permutations=3),
    LinearProbe(scoring="balanced_accuracy", n_permutations=3),
    LinearProbe(scoring="roc_auc_ovr", n_permutations=3),
    SFDA(n_permutations=3),
    SFDA("ledoit_wolf", n_permutations=0),
    NCTI(n_permutations=3),
    ETran(n_permutations=3),
    ETran("published", tail=0.4, n_permutations=0),
    PAS(n_permutations=3),
    PAS(SOURCE, SOURCE_LABELS),
    OTCE(n_permutations=3),
    OTCE(SOURCE, SOURCE_LABELS, n_permutations=3),
    PACTran(n_permutations=1),
    PACTran("dirichlet", max_iter=30, n_permutations=1),
    PACTran("gamma", max_iter=30, n_permutations=1),
    PACTran("gamma", formula="published", n_permutations=0),
    PARC(),
    PARC(None),
]
# Where a weight of two is another sample, as the definition knows shares only.
REPEATS = [
    HScore(),
    HScore(0.3),
    LEEP(n_permutations=0),
    NCE(),
    GBC(n_permutations=0),
    TransRate(n_permutations=0),
    SFDA(n_permutations=0),
    SFDA(0.2, n_permutations=0),
    ETran(n_permutations=0),
    ETran("published", tail=0.5, n_permutations=0),
    PAS(n_permutations=0),
    PAS(SOURCE, SOURCE_LABELS),
    OTCE(SOURCE, SOURCE_LABELS, n_permutations=0),
]
TAKES_NONE = {"nleep", "lp", "fu", "lpfu"}

each_metric = pytest.mark.parametrize("metric", METRICS, ids=str)


def make_data(metric, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    rng.shuffle(y)
    F = rng.normal(size=(len(y), 6)) + 0.8 * rng.normal(size=(len(sizes), 6))[y]
    return (F if metric.needs == "features" else softmax(F, axis=1)), y


def fitted(metric, X, y, sample_weight=None, **params):
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    return clone(metric).set_params(**params).fit(X, y, **weights)


def same(one, other, tolerance=1e-11):
    assert one.score_ == pytest.approx(other.score_, rel=tolerance, abs=tolerance)
    assert one.chance_level_ == pytest.approx(
        other.chance_level_, rel=tolerance, abs=tolerance, nan_ok=True
    )
    assert one.saturated_ == other.saturated_


def test_every_metric_is_here_or_said_to_take_none():
    here = {type(metric).__name__.lower() for metric in METRICS}
    assert here | TAKES_NONE == set(metric_names())
    for name in here:
        assert "class_weight" in get_metric(name).get_params()
        assert "sample_weight" in inspect.signature(get_metric(name).fit).parameters


@pytest.mark.parametrize("metric", [NLEEP(), LP()], ids=str)
def test_a_metric_without_a_definition_says_so(metric):
    X, y = make_data(metric)
    assert "class_weight" not in metric.get_params()
    name = type(metric).__name__
    with pytest.raises(ValueError, match=f"{name} has no definition for sample_weight"):
        MetricInputs(y, features=X, sample_weight=np.ones(len(y))).fit(metric)


@each_metric
def test_balanced_is_what_scikit_learn_computes(metric):
    X, y = make_data(metric)
    weight = compute_sample_weight("balanced", y)
    balanced = fitted(metric, X, y, class_weight="balanced")
    same(balanced, fitted(metric, X, y, weight))
    assert balanced.score(X, y) == balanced.score_
    same(balanced, fitted(metric, X, y, class_weight={k: 1 / n for k, n in enumerate(SIZES)}))
    # The data are uneven, and a metric that can tell does.
    unmoved = isinstance(metric, GBC)
    assert unmoved or abs(balanced.score_ - fitted(metric, X, y).score_) > 1e-6


@each_metric
def test_class_weights_multiply_sample_weights(metric):
    X, y = make_data(metric)
    own = np.random.default_rng(1).uniform(0.5, 2, len(y))
    of_class = {0: 0.5, 2: 3.0}  # a label that is not there weighs 1
    product = own * np.array([0.5, 1.0, 3.0])[y]
    same(fitted(metric, X, y, own, class_weight=of_class), fitted(metric, X, y, product))
    # Balanced classes weigh the same in total, the weights of the samples included.
    balanced = own / np.bincount(y, own)[y]
    same(fitted(metric, X, y, own, class_weight="balanced"), fitted(metric, X, y, balanced))


@each_metric
def test_even_classes_need_no_balance(metric):
    X, y = make_data(metric, sizes=(18, 18, 18))
    assert fitted(metric, X, y, class_weight="balanced").score_ == fitted(metric, X, y).score_


@each_metric
def test_a_class_of_weight_zero_is_absent(metric):
    X, y = make_data(metric)
    kept = y != 1
    without = fitted(metric, X, y, class_weight={1: 0.0})
    same(without, fitted(metric, X[kept], y[kept]), 1e-9)


@each_metric
def test_names_of_classes_and_order_of_samples_do_not_matter(metric):
    X, y = make_data(metric)
    expected = fitted(metric, X, y, class_weight="balanced")
    order = np.random.default_rng(2).permutation(len(y))
    names = np.array(["z", "a", "k"])
    moved = fitted(metric, X[order], names[y][order], class_weight="balanced")
    same(moved, expected, 1e-9)
    given = fitted(metric, X, names[y], class_weight={"z": 1.0, "a": 2.0, "k": 0.5})
    same(given, fitted(metric, X, y, class_weight={0: 1.0, 1: 2.0, 2: 0.5}), 1e-9)


@pytest.mark.parametrize("metric", REPEATS, ids=str)
def test_integer_weights_are_repeats(metric):
    X, y = make_data(metric, sizes=(30, 20, 10))
    # In even numbers, of which ETran takes the half: 48 rows of positive weight, 96 in all.
    weight = np.tile([0, 1, 1, 2, 4], 12)
    rows = np.repeat(np.arange(len(y)), weight)
    found, repeated = fitted(metric, X, y, weight).score_, fitted(metric, X[rows], y[rows]).score_
    assert found == pytest.approx(repeated, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("metric", [LogME(), LinearProbe(), HScore()], ids=str)
def test_class_weights_need_labels(metric):
    X, y = make_data(metric)
    metric = clone(metric).set_params(class_weight="balanced")
    if "regression" in metric.tasks:
        with pytest.raises(ValueError, match="class_weight of .* needs .*labels; got a regression"):
            metric.fit(X, y + 0.5)
        with pytest.raises(ValueError, match="class_weight of .* needs .*labels; got a multilabel"):
            metric.fit(X, np.eye(3)[y])
    metric.fit(X, y)


@pytest.mark.parametrize(
    ("class_weight", "match"),
    [
        ("even", "class_weight"),
        ({0: -1.0}, "class_weight of HScore must hold finite numbers that are not negative"),
        ({0: np.nan}, "class_weight of HScore must hold finite numbers"),
        ({0: "much"}, "class_weight of HScore must hold finite numbers"),
        ({"a": 1.0}, "labels in y as keys, which are 0, 1, 2; got 'a' too"),
        ({0: 2.0, 7: 3.0}, "labels in y as keys, which are 0, 1, 2; got 7 too"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, "leaves no sample with a positive weight"),
        ({0: 0.0, 1: 0.0}, "at least 2 classes"),
        ([1.0, 2.0], "class_weight"),
    ],
)
def test_wrong_class_weights_are_one_sentence(class_weight, match):
    X, y = make_data(HScore())
    with pytest.raises(ValueError, match=match):
        HScore(class_weight=class_weight).fit(X, y)


def test_labels_of_a_subset_may_lack_a_class_of_the_dict():
    X, y = make_data(HScore())
    kept = y < 2
    metric = HScore(class_weight={0: 1.0, 1: 2.0, 2: 5.0}).fit(X[kept], y[kept])
    assert metric.score_ == fitted(HScore(), X[kept], y[kept], 1.0 + y[kept]).score_


def test_batches_take_a_dict_and_moments_neither():
    X, y = make_data(LogME())
    weights = {0: 1.0, 1: 2.0, 2: 6.0}
    streamed = LogME(class_weight=weights)
    for rows in np.array_split(np.arange(len(y)), 3):
        streamed.partial_fit(X[rows], y[rows])
    assert streamed.score_ == pytest.approx(LogME(class_weight=weights).fit(X, y).score_, rel=1e-9)
    with pytest.raises(ValueError, match="partial_fit of LogME can't balance"):
        LogME(class_weight="balanced").partial_fit(X, y)
    with pytest.raises(ValueError, match="fit_moments of LogME can't apply class_weight"):
        LogME(class_weight=weights).fit_moments(FeatureMoments.from_arrays(X, y))


def test_metrics_scored_together_have_the_weights_they_ask_for():
    X, y = make_data(LogME())
    metrics = {
        "plain": LogME(),
        "balanced": LogME(class_weight="balanced"),
        "hscore": HScore(class_weight="balanced"),
        "dict": HScore(class_weight={0: 2.0}),
        "probe": LinearProbe(class_weight="balanced", n_permutations=0),
        "sfda": SFDA(n_permutations=0),
    }
    own = np.random.default_rng(3).uniform(0.5, 2, len(y))
    for weight in (None, own):
        together = score_metrics(X, y, metrics, sample_weight=weight)
        for name, metric in metrics.items():
            alone = fitted(metric, X, y, weight).score_
            assert together[name] == pytest.approx(alone, rel=1e-12)


def test_random_directions_are_not_taken_for_noise_with_weights():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [54, 6])
    for _ in range(3):
        metric = LogME(class_weight="balanced").fit(rng.normal(size=(60, 100)), y)
        assert metric.saturated_
        assert metric.chance_level_ == pytest.approx(metric.score_, abs=0.1)


def test_moments_alone_do_not_tell_what_chance_is_with_weights():
    X, y = make_data(LogME())
    for metric in (LogME(), HScore()):
        whole = fitted(metric, X, y, class_weight={0: 1.0, 1: 2.0, 2: 6.0})
        assert np.isfinite(whole.chance_level_)
        streamed = clone(whole).partial_fit(X, y)
        assert streamed.score_ == pytest.approx(whole.score_, rel=1e-9)
        assert np.isnan(streamed.chance_level_)
        assert not streamed.saturated_


# ------------------------------------------------------------------- what it means, by metric


def test_knn_balanced_is_balanced_accuracy():
    X, y = make_data(KNN())
    nearest = np.array([np.delete(y, i)[_nearest(X, i)] for i in range(len(y))])
    recalls = [np.mean(nearest[y == k] == k) for k in range(3)]
    metric = KNN(class_weight="balanced").fit(X, y)
    assert metric.score_ == pytest.approx(np.mean(recalls), rel=1e-12)
    # A vote of others is permuted: each class wins as often as its share of the others says.
    sizes = np.array(SIZES)
    expected = np.mean((sizes - 1) / (len(y) - 1))
    assert metric.chance_level_ == pytest.approx(expected, rel=1e-12)


def _nearest(X, i):
    return np.argmin(np.square(np.delete(X, i, axis=0) - X[i]).sum(axis=1))


def test_parc_weighs_pairs_by_the_product():
    X, y = make_data(PARC())
    weight = np.random.default_rng(4).uniform(0.5, 2, len(y))
    mean = np.average(X, axis=0, weights=weight)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    first, second = np.triu_indices(len(y), 1)
    distance = 1 - np.corrcoef(Z)[first, second]
    different = (y[first] != y[second]).astype(float)
    of_pair = weight[first] * weight[second]
    rank = np.empty(len(distance))
    order = np.argsort(distance)
    rank[order] = np.cumsum(of_pair[order]) - of_pair[order] / 2
    covariance = np.cov(rank, different, aweights=of_pair)
    expected = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert PARC(None).fit(X, y, sample_weight=weight).score_ == pytest.approx(expected, abs=1e-9)


def test_pactran_minimises_the_weighted_objective():
    X, y = make_data(PACTran())
    weight = np.random.default_rng(4).uniform(0.5, 2, len(y))
    metric = PACTran(n_permutations=0).fit(X, y, sample_weight=weight)
    from sklearn.linear_model import LogisticRegression

    w = weight / weight.mean()
    centred = X - np.average(X, axis=0, weights=w)
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10000).fit(centred, y, sample_weight=w)
    P = model.predict_proba(centred)
    fit = np.average(np.log(P[np.arange(len(y)), y]), weights=w)
    assert metric.components_["fit"] == pytest.approx(fit, abs=1e-6)
    penalty = np.square(model.coef_).sum() / (2 * len(y))
    assert metric.components_["penalty"] == pytest.approx(-penalty, abs=1e-6)
    trace = np.average((np.square(centred).sum(axis=1) + 1) * (P * (1 - P)).sum(axis=1), weights=w)
    flatness = 3 / (2 * len(y)) * np.log1p(len(y) * trace / (3 * 6))
    assert metric.components_["flatness"] == pytest.approx(-flatness, abs=1e-6)


def test_otce_moves_masses():
    # Two target points, of which one has three quarters of the mass, and three source points.
    source, labels = np.array([[0.0], [1.0], [10.0]]), ["a", "a", "b"]
    X, y = np.array([[0.2], [9.0]]), [0, 1]
    metric = OTCE(source, labels, n_permutations=0).fit(X, y, sample_weight=[3.0, 1.0])
    # The first has to take both of "a" (2/3) and 1/12 of "b".
    assert metric.joint_ == pytest.approx(np.array([[2 / 3, 0], [1 / 12, 1 / 4]]), abs=1e-9)
    with pytest.raises(ValueError, match="weighs more than all others together"):
        OTCE().fit(X[[0, 1, 1]], [0, 1, 1], sample_weight=[3.0, 1.0, 1.0])


def test_pas_with_a_source_reads_labels_for_the_weights_of_classes_only():
    X, y = make_data(PAS())
    metric = PAS(SOURCE, SOURCE_LABELS, class_weight="balanced")
    weight = compute_sample_weight("balanced", y)
    plain = PAS(SOURCE, SOURCE_LABELS)
    assert metric.fit(X, y).score_ == plain.fit(X, None, sample_weight=weight).score_
    with pytest.raises(ValueError, match="requires y"):
        metric.fit(X)


@pytest.mark.parametrize(
    "make",
    [
        partial(LEEP, n_permutations=10),
        NCE,
        partial(SFDA, n_permutations=10),
        partial(NCTI, n_permutations=10),
        partial(ETran, n_permutations=10),
        partial(PAS, n_permutations=10),
        partial(LinearProbe, n_permutations=10),
        partial(LinearProbe, scoring="roc_auc_ovr"),
        KNN,
        PARC,
        partial(HScore, "ledoit_wolf"),
    ],
    ids=lambda make: getattr(make, "func", make).__name__,
)
def test_noise_passes_for_informative_as_rarely_as_without_weights(make):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [54, 6])
    passed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(25):
            F = rng.normal(size=(60, 4))
            metric = make(class_weight="balanced")
            X = F if metric.needs == "features" else softmax(F, axis=1)
            passed.append(not metric.fit(X, y).saturated_)
    # At 2 % four of them have a probability of 0.2 %.
    assert sum(passed) <= 3
