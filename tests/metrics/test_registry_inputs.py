"""Metrics by name, and several metrics on one candidate."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

import sktransfer.metrics
from sktransfer.metrics import (
    LEEP,
    NCE,
    PAS,
    FeatureMoments,
    HScore,
    LogME,
    MetricInputs,
    TransferabilityMetric,
    get_metric,
    metric_name,
    metric_names,
    named_metrics,
    score_metrics,
)

ALL = ["logme", "hscore", "leep", "nce"]


# Data without much of a signal; what is announced of them is not the matter here.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


def candidate(n_samples=50, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % 3)
    features = rng.normal(size=(n_samples, n_features)) + 1.5 * y[:, None]
    probabilities = softmax(features @ rng.normal(size=(n_features, 4)), axis=1)
    return y, features, probabilities


def close(expected, tolerance=1e-12):
    return pytest.approx(expected, rel=tolerance, abs=tolerance)


# ---------------------------------------------------------------------------------------- by name


def test_every_metric_of_the_package_has_a_name():
    classes = [
        kind
        for kind in map(sktransfer.metrics.__dict__.get, sktransfer.metrics.__all__)
        if isinstance(kind, type)
        and issubclass(kind, TransferabilityMetric)
        and kind is not TransferabilityMetric
    ]
    # The metrics that look into the network are known by name, and live where torch is at home.
    elsewhere = ["fu", "lpfu"]
    assert sorted([*(kind.__name__.lower() for kind in classes), *elsewhere]) == metric_names()
    assert metric_names() == sorted(metric_names())
    for kind in classes:
        assert type(get_metric(kind.__name__.lower())) is kind
        assert metric_name(kind()) == kind.__name__.lower()


def test_a_name_gives_a_new_metric_and_an_instance_itself():
    assert get_metric("logme") is not get_metric("logme")
    assert type(get_metric("LogME")) is LogME
    metric = HScore(0.2)
    assert get_metric(metric) is metric


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ("logmee", ValueError, "one of .*hscore.*logme.*; got 'logmee'"),
        ("", ValueError, "one of .*hscore.*logme.*; got ''"),
        (LogME, TypeError, r"got the class LogME, write LogME\(\)"),
        (3, TypeError, "name or a transferability metric .* got 3"),
        (None, TypeError, "got None"),
        (LinearRegression(), TypeError, r"got LinearRegression\(\)"),
    ],
)
def test_what_is_no_metric_is_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        get_metric(wrong)


class Width(BaseEstimator):
    """A metric of a third party, which knows nothing of the base class."""

    needs = "features"

    def fit(self, X, y):
        self.score_ = float(np.shape(X)[1])
        return self


def test_a_metric_of_a_third_party_is_taken_as_it_is():
    y, features, _ = candidate()
    assert get_metric(Width()).fit(features, y).score_ == 6.0
    assert metric_name(Width()) == "width"
    assert score_metrics(features, y, [Width(), "hscore"])["width"] == 6.0


def test_several_metrics_are_named_in_the_order_given():
    assert list(named_metrics(ALL)) == ALL
    assert list(named_metrics(tuple(ALL[::-1]))) == ALL[::-1]
    assert list(named_metrics("nce")) == ["nce"]
    assert list(named_metrics(LEEP(temperature=2.0))) == ["leep"]
    shrunk = HScore("ledoit_wolf")
    named = named_metrics({"plain": "hscore", "shrunk": shrunk})
    assert list(named) == ["plain", "shrunk"]
    assert named["shrunk"] is shrunk
    with pytest.raises(ValueError, match="'hscore'. more than once; name them by a dict"):
        named_metrics(["hscore", HScore(0.5)])
    for nothing in ([], {}, ()):
        with pytest.raises(ValueError, match="at least one metric"):
            named_metrics(nothing)
    with pytest.raises(ValueError, match="got 'nope'"):
        named_metrics(["logme", "nope"])


# --------------------------------------------------------------------------------- several metrics


@pytest.mark.parametrize("shape", [(50, 6), (14, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_shared_inputs_give_the_scores_of_single_fits(shape, weighted):
    y, features, probabilities = candidate(*shape)
    weight = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    if weighted:
        weight[::5] = 0
    metrics = {
        "logme": LogME(),
        "h": HScore(),
        "lw": HScore("ledoit_wolf"),
        "leep": LEEP(),
        "nce": NCE(),
    }
    scores = score_metrics(features, y, metrics, probabilities=probabilities, sample_weight=weight)
    assert list(scores) == list(metrics)
    for name, metric in metrics.items():
        X = features if metric.needs == "features" else probabilities
        assert scores[name] == close(metric.fit(X, y, sample_weight=weight).score_)
        assert type(scores[name]) is float
    backwards = score_metrics(
        features,
        y,
        dict(reversed(metrics.items())),
        probabilities=probabilities,
        sample_weight=weight,
    )
    assert backwards == scores


def test_the_metric_given_is_not_fitted_and_its_parameters_count():
    y, features, _ = candidate()
    inputs = MetricInputs(y, features)
    metric = HScore(0.4)
    fitted_metric = inputs.fit(metric)
    assert fitted_metric is not metric
    assert not hasattr(metric, "score_")
    assert fitted_metric.shrinkage_ == 0.4
    assert inputs.fit("hscore").shrinkage_ == 0.0


@pytest.mark.parametrize("shape", [(50, 6), (14, 40)], ids=["tall", "wide"])
@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")
def test_metrics_of_shared_inputs_are_independent(shape):
    y, features, _ = candidate(*shape)
    more_y, more, _ = candidate(*shape, seed=1)
    inputs = MetricInputs(y, features)
    first = inputs.fit("logme")
    expected, expected_h = first.score_, HScore(0.3).fit(features, y).score_
    coef = LogME().fit(features, y).coef_
    first.partial_fit(more, more_y)
    whole = LogME().fit(np.r_[features, more], np.r_[y, more_y])
    assert first.score_ == close(whole.score_, 1e-10)
    second = inputs.fit("logme")
    assert second.score_ == expected
    assert inputs.fit(HScore(0.3)).score_ == close(expected_h)
    # The caller may reuse the array once the metric was fitted.
    features[:] = 0
    np.testing.assert_allclose(second.coef_, coef, rtol=1e-6, atol=1e-9)
    assert second.partial_fit(more, more_y).score_ == close(whole.score_, 1e-10)


def test_the_target_may_be_read_in_two_ways():
    y, features, _ = candidate()
    inputs = MetricInputs(y, features)
    labels, numbers = inputs.fit("logme"), inputs.fit(LogME(task="regression"))
    assert len(labels.scores_) == 3
    assert len(numbers.scores_) == 1
    assert inputs.fit(HScore()).score_ == close(HScore().fit(features, y).score_)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: np.array(["c", "a", "b"])[y],
        lambda y: np.array(["c", "a", "b"], dtype=object)[y],
        lambda y: y[:, None] - 7,
        lambda y: pd.Series(np.array(["c", "a", "b"])[y]).astype("category"),
        lambda y: y.tolist(),
    ],
    ids=["strings", "objects", "column", "category", "list"],
)
def test_labels_of_any_kind(labels):
    y, features, probabilities = candidate()
    scores = score_metrics(features, labels(y), ALL, probabilities=probabilities)
    assert scores == close(score_metrics(features, y, ALL, probabilities=probabilities))


def test_features_of_any_kind():
    y, features, _ = candidate()
    expected = score_metrics(features, y, ["logme", "hscore"])
    frame = pd.DataFrame(features, columns=[f"f{i}" for i in range(6)])
    for given in (frame, features.tolist(), np.asfortranarray(features)):
        assert score_metrics(given, y, ["logme", "hscore"]) == close(expected)
    single = score_metrics(features.astype(np.float32), y, ["logme", "hscore"])
    assert single == close(expected, 1e-5)


def test_regression_and_multilabel_targets():
    _, features, _ = candidate()
    rng = np.random.default_rng(0)
    for target in (
        features[:, 0] + rng.normal(size=50),
        features[:, :2] + rng.normal(size=(50, 2)),
        (features[:, :2] > 0.5).astype(int),
    ):
        assert score_metrics(features, target, "logme") == {
            "logme": LogME().fit(features, target).score_
        }
        for order in (["logme", "hscore"], ["hscore", "logme"]):
            with pytest.raises(ValueError, match="HScore is defined for classification"):
                score_metrics(features, target, order)


# ---------------------------------------------------------------------------------- what is missing


@pytest.mark.parametrize("metric", ["leep", "nce", LEEP(from_logits=True)], ids=str)
def test_a_candidate_without_source_head(metric):
    y, features, _ = candidate()
    with pytest.raises(
        ValueError, match=r"needs source probabilities, and none were given .* no source head\)\."
    ):
        MetricInputs(y, features).fit(metric)


@pytest.mark.parametrize("metric", ["logme", "hscore", Width()], ids=str)
def test_a_candidate_without_features(metric):
    y, _, probabilities = candidate()
    with pytest.raises(ValueError, match="needs features, and none were given"):
        MetricInputs(y, probabilities=probabilities).fit(metric)


def test_a_metric_that_needs_the_network():
    class Gradients(Width):
        needs = "inputs"

    y, features, _ = candidate()
    words = "Gradients needs the raw inputs and the network itself, and no inputs were given"
    with pytest.raises(ValueError, match=words):
        MetricInputs(y, features).fit(Gradients())
    with pytest.raises(ValueError, match="no backbone was given"):
        MetricInputs(y, features, inputs=features).fit(Gradients())


@pytest.mark.parametrize("metric", ALL)
def test_wrong_inputs_are_refused_in_a_sentence(metric):
    y, features, probabilities = candidate()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MetricInputs(y[:-1], features, probabilities).fit(metric)
    with pytest.raises(ValueError, match="1 class"):
        MetricInputs(np.zeros(50, dtype=int), features, probabilities).fit(metric)
    with pytest.raises(ValueError, match="NaN"):
        MetricInputs(y, features * np.nan, probabilities * np.nan).fit(metric)
    with pytest.raises(ValueError, match="y to be passed"):
        MetricInputs(None, features, probabilities).fit(metric)
    with pytest.raises(ValueError, match="sample_weight"):
        MetricInputs(y, features, probabilities, np.ones(49)).fit(metric)
    with pytest.raises(ValueError, match="zero"):
        MetricInputs(y, features, probabilities, np.zeros(50)).fit(metric)


def test_a_failure_does_not_spoil_the_inputs():
    y, features, _ = candidate()
    inputs = MetricInputs(y, features)
    for _ in range(2):
        with pytest.raises(ValueError, match="no source head"):
            inputs.fit("leep")
        assert inputs.fit("hscore").score_ == close(HScore().fit(features, y).score_)


def test_nothing_is_warned_about_for_ordinary_inputs():
    y, features, probabilities = candidate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_metrics(features, y, ALL, probabilities=probabilities)


def test_inputs_are_not_changed():
    y, features, probabilities = candidate()
    weight = np.linspace(0.5, 2, 50)
    arrays = (y, features, probabilities, weight)
    before = [array.tobytes() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    score_metrics(features, y, ALL, probabilities=probabilities, sample_weight=weight)
    assert [array.tobytes() for array in arrays] == before


def test_moments_can_be_made_once_and_kept():
    y, features, _ = candidate()
    moments = FeatureMoments.from_arrays(features, y)
    for metric in (LogME(), HScore(), HScore("ledoit_wolf")):
        assert metric.fit_moments(moments).score_ == close(metric.fit(features, y).score_)


def test_the_order_of_metrics_does_not_matter_to_what_they_share():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    F = rng.normal(size=(60, 8)) + y[:, None]
    names = ["sfda", "logme", "linearprobe", "hscore", "gbc", "transrate", "parc", "ncti"]
    forward, backward = score_metrics(F, y, names), score_metrics(F, y, names[::-1])
    assert forward == backward
    for name in names:
        assert forward[name] == pytest.approx(get_metric(name).fit(F, y).score_, abs=1e-12)


def test_source_centroids_reach_the_metric_that_compares_with_them():
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    F, centroids = rng.normal(size=(40, 5)) + 4 * np.eye(5)[y], rng.normal(size=(3, 5))
    given = MetricInputs(y, F, source_centroids=centroids).fit("pas")
    assert given.score_ == PAS(source_centroids=centroids).fit(F, y).score_
    own = rng.normal(size=(4, 5))
    kept = MetricInputs(y, F, source_centroids=centroids).fit(PAS(source_centroids=own))
    assert kept.score_ == PAS(source_centroids=own).fit(F, y).score_
    assert MetricInputs(y, F).fit("pas").score_ == PAS().fit(F, y).score_


def test_nothing_is_scored_when_something_is_missing():
    y, F = np.arange(20) % 2, np.random.default_rng(2).normal(size=(20, 3))
    with pytest.raises(ValueError, match="LEEP needs source probabilities"):
        score_metrics(F, y, ["logme", "leep"])
    with pytest.raises(ValueError, match="FU needs the raw inputs and the network itself"):
        score_metrics(F, y, ["logme", "fu"])


def test_every_metric_knows_the_names_of_the_features():
    y = np.arange(30) % 3
    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(30, 2)), columns=["a", "b"])
    inputs = MetricInputs(y, features=frame)
    for name in ("logme", "hscore", "gbc"):
        fitted = inputs.fit(name)
        assert fitted.feature_names_in_.tolist() == ["a", "b"]
        assert fitted.score(frame, y) == pytest.approx(fitted.score_, abs=1e-12)
