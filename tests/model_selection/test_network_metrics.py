"""Metrics that look into the network: the selector and scorers hand them candidate and inputs."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.finetune import FU, LPFU
from sktransfer.metrics import HScore, MetricInputs, get_metric, metric_names
from sktransfer.model_selection import TransferabilitySelector, make_transferability_scorer

X, Y = load_digits(n_class=3, return_X_y=True)
IMAGES, Y = (X[:60].reshape(-1, 8, 8) / 16).astype(np.float32), Y[:60]


class Network(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3)
        self.conv2 = nn.Conv2d(channels, 5, 3)
        self.head = nn.Linear(80, 3)

    def forward(self, x):
        return self.head(torch.relu(self.conv2(torch.relu(self.conv1(x)))).flatten(1))


class Make(BaseEstimator):
    """A factory that can be pickled and told apart."""

    def __init__(self, channels):
        self.channels = channels

    def __call__(self):
        return Network(self.channels)


def candidates():
    return [(f"net{c}", TorchBackbone(Make(c), mean=0.5, std=0.5)) for c in (2, 4, 8)]


def flatten(X):
    return X.reshape(len(X), -1)


PLAIN = ("pixels", make_pipeline(FunctionTransformer(flatten), PCA(5)))
METRICS = [FU(random_state=0), LPFU(random_state=0, n_components=2), HScore("ledoit_wolf")]


def alone(metric, candidate, images=IMAGES, y=Y):
    return clone(metric).set_params(backbone=candidate).fit(images, y)


def test_scores_are_those_of_the_metrics_by_themselves():
    selector = TransferabilitySelector(candidates(), metric=METRICS).fit(IMAGES, Y)
    fitted = {name: alone(METRICS[1], candidate) for name, candidate in candidates()}
    for name, candidate in candidates():
        assert selector.metric_scores_["fu"][name] == alone(METRICS[0], candidate).score_
    pooled = LPFU.pool_scores(list(fitted.values()))
    assert list(selector.metric_scores_["lpfu"].values()) == pooled.tolist()
    assert selector.refit_metric_ == "fu"
    assert selector.failures_ == {}
    best = selector.best_estimator_
    assert selector.metrics_["lpfu"].components_ == fitted[selector.best_name_].components_
    assert selector.metric_.layers_ == ("conv1", "conv2")
    assert selector.metric_.backbone is best
    assert selector.score(IMAGES, Y) == selector.best_score_ == selector.metric_.score(IMAGES, Y)
    assert pickle.loads(pickle.dumps(selector)).score(IMAGES, Y) == selector.best_score_
    # What the caller passed is as it was, and so are the networks.
    assert METRICS[0].backbone is None
    assert not any(p.requires_grad for p in best.module_.parameters())


def test_the_parts_that_a_pool_keeps_hold_no_network(monkeypatch):
    seen = []
    original = LPFU.pool_scores.__func__

    def pool_scores(cls, fitted):
        seen.extend(fitted)
        return original(cls, fitted)

    monkeypatch.setattr(LPFU, "pool_scores", classmethod(pool_scores))
    TransferabilitySelector(candidates(), metric=METRICS[1]).fit(IMAGES, Y)
    assert len(seen) == 3
    assert [metric.backbone for metric in seen] == [None] * 3
    assert all(np.isfinite(metric.components_["fu"]) for metric in seen)


@pytest.mark.parametrize("metric", ["fu", "lpfu"])
def test_a_candidate_without_a_network_has_no_score_and_costs_the_others_nothing(metric):
    metrics = [get_metric(metric).set_params(random_state=0), "logme"]
    alone = TransferabilitySelector(candidates(), metric=metrics).fit(IMAGES, Y)
    selector = TransferabilitySelector([PLAIN, *candidates()], metric=metrics)
    words = f"'pixels' has no score by '{metric}': {type(metrics[0]).__name__} needs the gradients"
    with pytest.warns(CandidateFailedWarning, match=words):
        selector.fit(IMAGES, Y)
    assert np.isnan(selector.scores_["pixels"])
    assert selector.ranking_["pixels"] == 4
    assert "a Pipeline that ends in PCA has none" in selector.failures_["pixels"][metric]
    assert np.isfinite(selector.metric_scores_["logme"]["pixels"])
    others = {name: score for name, score in selector.scores_.items() if name != "pixels"}
    assert others == alone.scores_
    with pytest.raises(ValueError, match="needs the gradients of a torch network"):
        clone(selector).set_params(error_score="raise").fit(IMAGES, Y)
    with pytest.raises(ValueError, match="only candidate, 'pixels', could not be scored by"):
        TransferabilitySelector([PLAIN], metric=metrics).fit(IMAGES, Y)


def test_splits_select_rows_of_the_inputs():
    metric = FU(random_state=0, batch_size=16)
    folds = StratifiedKFold(3)
    selector = TransferabilitySelector(candidates(), metric=[metric, "logme"], cv=folds)
    selector.fit(IMAGES, Y)
    rows = [train for train, _ in folds.split(IMAGES, Y)]
    for index, (_, candidate) in enumerate(candidates()):
        expected = [alone(metric, candidate, IMAGES[r], Y[r]).score_ for r in rows]
        found = [selector.cv_results_[f"split{i}_fu"][index] for i in range(3)]
        assert found == expected
    as_list = TransferabilitySelector(candidates(), metric=metric, cv=folds)
    assert as_list.fit(list(IMAGES), Y).scores_ == selector.scores_


class Learning(TransformerMixin, BaseEstimator):
    """A candidate that learns from the data, so that it is fitted in each split."""

    def fit(self, X, y=None):
        self.mean_ = X.mean()
        return self

    def transform(self, X):
        return (X - self.mean_) / 2 + 0.5


def test_a_pipeline_that_ends_in_a_network_is_refitted_in_each_split():
    piped = Pipeline([("scale", Learning()), ("net", candidates()[0][1])])
    folds = StratifiedKFold(2)
    metric = FU(random_state=0)
    selector = TransferabilitySelector([("piped", piped)], metric=metric, cv=folds)
    selector.fit(IMAGES, Y)
    for split, (rows, _) in enumerate(folds.split(IMAGES, Y)):
        images = IMAGES[rows]
        scaled = Learning().fit(images).transform(images)
        expected = alone(metric, candidates()[0][1], scaled, Y[rows]).score_
        found = selector.cv_results_[f"split{split}_fu"][0]
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize("metrics", [["fu"], ["logme", "lpfu", "nce"]])
def test_number_of_processes_and_kept_candidates_change_nothing(metrics):
    instances = {name: get_metric(name) for name in metrics}
    for metric in instances.values():
        if metric.needs == "inputs":
            metric.set_params(random_state=0)
    selector = TransferabilitySelector(candidates(), metric=instances, cv=2).fit(IMAGES, Y)
    other = clone(selector).set_params(n_jobs=2, keep_candidates=False).fit(IMAGES, Y)
    assert other.metric_scores_ == selector.metric_scores_
    assert list(other.candidates_) == [selector.best_name_]


def test_nested_parameters_reach_the_metric():
    selector = TransferabilitySelector(candidates(), metric="fu")
    selector.set_params(metric__random_state=0, metric__layers=("conv2", "conv1"))
    selector.fit(IMAGES, Y)
    assert selector.metric_.layers_ == ("conv2", "conv1")


def test_a_scorer_of_a_network_metric():
    scorer = make_transferability_scorer(FU(random_state=0))
    backbone = candidates()[0][1].fit(IMAGES)
    expected = alone(FU(random_state=0), backbone).score_
    assert scorer(backbone, IMAGES, Y) == expected
    pipeline = Pipeline([("net", backbone), ("head", KNeighborsClassifier())]).fit(IMAGES, Y)
    assert scorer(pipeline, IMAGES, Y) == expected
    everything = [(np.arange(60), np.arange(60))]
    search = GridSearchCV(backbone, {"mean": [0.0, 0.5]}, scoring=scorer, cv=everything)
    assert search.fit(IMAGES, Y).cv_results_["mean_test_score"][1] == expected
    with pytest.raises(ValueError, match="ranks candidates relative to each other"):
        make_transferability_scorer("lpfu")
    with pytest.raises(ValueError, match="needs the gradients of a torch network"):
        scorer(PCA(2).fit(flatten(IMAGES)), flatten(IMAGES), Y)


def test_inputs_and_backbone_of_one_candidate():
    assert {"fu", "lpfu"} <= set(metric_names())
    assert isinstance(get_metric("FU"), FU)
    assert isinstance(get_metric("lpfu"), LPFU)
    backbone = candidates()[0][1].fit(IMAGES)
    features, probabilities = backbone.extract(IMAGES)
    inputs = MetricInputs(Y, features, probabilities, inputs=IMAGES, backbone=backbone)
    fitted = inputs.fit(FU(random_state=0))
    assert fitted.score_ == alone(FU(random_state=0), backbone).score_
    assert fitted.score(IMAGES, Y) == fitted.score_
    assert np.isfinite(inputs.fit("leep").score_)
    for missing, words in [
        ({"backbone": backbone}, "FU needs the raw inputs .* no inputs were given"),
        ({"inputs": IMAGES}, "FU needs .* the network itself, and no backbone was given"),
    ]:
        with pytest.raises(ValueError, match=words):
            MetricInputs(Y, features, **missing).fit("fu")
    weighted = MetricInputs(
        Y, features, sample_weight=np.ones(60), inputs=IMAGES, backbone=backbone
    )
    with pytest.raises(ValueError, match="FU has no definition for sample_weight"):
        weighted.fit("fu")
