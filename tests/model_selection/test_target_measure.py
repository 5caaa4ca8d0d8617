"""A selection told by which measure the network will be judged."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from sktransfer.exceptions import TargetMeasureWarning
from sktransfer.metrics import KNN, HScore, LinearProbe, LogME
from sktransfer.model_selection import TransferabilitySelector
from sktransfer.model_selection._target_measure import (
    TARGET_MEASURES,
    metrics_for_measure,
)
from sktransfer.utils._measures import MEASURES

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 90, p=[0.7, 0.2, 0.1])
    return rng.normal(size=(90, 5)) + rng.normal(size=(3, 5))[y], y


def select(**params):
    candidates = [("one", PCA(n_components=1)), ("all", StandardScaler())]
    return TransferabilitySelector(candidates, **params)


def test_measures_are_those_of_references_and_roc_auc():
    assert set(TARGET_MEASURES) == set(MEASURES) | {"roc_auc"}


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (None, LogME()),
        ("accuracy", LogME()),
        ("neg_log_loss", LogME()),
        ("balanced_accuracy", LinearProbe(class_weight="balanced")),
        ("roc_auc", LinearProbe(scoring="roc_auc_ovr")),
        ("roc_auc_ovr", LinearProbe(scoring="roc_auc_ovr")),
    ],
)
def test_auto_is_the_metric_for_the_measure(data, measure, expected):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", TargetMeasureWarning)
        selector = select(target_measure=measure).fit(X, y)
    assert repr(selector.metric_) == repr(expected)
    scaled = StandardScaler().fit_transform(X)
    assert selector.scores_["all"] == pytest.approx(clone(expected).fit(scaled, y).score_, rel=1e-9)
    assert selector.metric == "auto"


def test_names_are_read_as_variants_and_instances_are_taken_as_they_are():
    read = metrics_for_measure(["logme", "knn", "nleep", HScore()], "balanced_accuracy")
    assert [metric.get_params().get("class_weight") for metric in read] == [
        "balanced",
        "balanced",
        None,
        None,
    ]
    read = metrics_for_measure({"probe": "linearprobe", "other": "LogME"}, "roc_auc")
    assert read["probe"].scoring == "roc_auc_ovr"
    assert repr(read["other"]) == "LogME()"
    assert metrics_for_measure(["logme"], None) == ["logme"]
    assert repr(metrics_for_measure("linearprobe", "accuracy")) == "LinearProbe()"


@pytest.mark.parametrize(
    ("measure", "metric", "refit"),
    [
        ("roc_auc", "logme", None),
        ("roc_auc", LinearProbe(), None),
        ("balanced_accuracy", LogME(), None),
        ("balanced_accuracy", "nleep", None),
        ("roc_auc_ovr", ["linearprobe", "logme"], "logme"),
        ("accuracy", LinearProbe(scoring="roc_auc_ovr"), None),
    ],
)
def test_a_deciding_metric_of_another_kind_is_announced(data, measure, metric, refit):
    X, y = data
    with pytest.warns(TargetMeasureWarning, match=f"no regard to target_measure='{measure}'"):
        select(target_measure=measure, metric=metric, refit=refit).fit(X, y)


@pytest.mark.parametrize(
    ("measure", "metric", "refit"),
    [
        ("roc_auc", ["linearprobe", "logme"], None),
        ("roc_auc", ["logme", "linearprobe"], "consensus"),
        ("balanced_accuracy", "knn", None),
        ("balanced_accuracy", LinearProbe(scoring="balanced_accuracy"), None),
        ("balanced_accuracy", LogME(class_weight={0: 1.0, 1: 3.0}), None),
        ("accuracy", KNN(), None),
    ],
)
def test_a_metric_that_suits_is_not(data, measure, metric, refit):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", TargetMeasureWarning)
        select(target_measure=measure, metric=metric, refit=refit).fit(X, y)


def test_nested_parameters_are_those_of_the_metric_that_auto_stands_for(data):
    selector = select(target_measure="roc_auc").set_params(metric__alpha=2.0)
    assert repr(selector.metric) == "LinearProbe(alpha=2.0, scoring='roc_auc_ovr')"
    assert repr(select().set_params(metric__tol=1e-3).metric) == "LogME(tol=0.001)"
    selector = select().set_params(target_measure="balanced_accuracy", metric__alpha=1.0)
    assert selector.metric.class_weight == "balanced"
    assert clone(select(target_measure="roc_auc")).target_measure == "roc_auc"


def test_targets_and_measures_that_do_not_go_together_are_refused(data):
    X, y = data
    for target, kind in ((y + 0.5, "regression"), (np.eye(3)[y], "multilabel")):
        match = f"target_measure='roc_auc' is defined for classification.*got a {kind}"
        with pytest.raises(ValueError, match=match):
            select(target_measure="roc_auc").fit(X, target)
    with pytest.raises(ValueError, match="target_measure"):
        select(target_measure="auc").fit(X, y)


def test_weights_are_routed_to_every_metric_that_asks_for_them(data):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        metrics = {
            "logme": LogME().set_fit_request(sample_weight=True),
            "probe": LinearProbe(n_permutations=0).set_fit_request(sample_weight=True),
            "knn": KNN(class_weight="balanced").set_fit_request(sample_weight=True),
            "plain": KNN().set_fit_request(sample_weight=False),
        }
        selector = TransferabilitySelector([("pass", "passthrough")], metric=metrics)
        selector.fit(X, y, sample_weight=weight)
    for name, metric in metrics.items():
        given = None if name == "plain" else weight
        expected = clone(metric).fit(X, y, sample_weight=given).score_
        assert selector.metric_scores_[name]["pass"] == pytest.approx(expected, rel=1e-10)


def test_uncertainty_is_that_of_the_variant(data):
    X, y = data
    selector = select(target_measure="balanced_accuracy", n_resamples=60).fit(X, y)
    found = selector.uncertainty_["linearprobe"]
    low, high = found.score_interval[found.names.index("all")]
    assert low < selector.scores_["all"] < high
