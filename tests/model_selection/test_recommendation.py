"""What a fitted selector says beside its scores: baselines, findings, consensus, decision set."""

import math

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sktransfer.datasets import load_decision_calibration, load_tiny_benchmark
from sktransfer.evaluation import consensus, rank_correlation
from sktransfer.metrics import KNN, HScore, LinearProbe, LogME, PACTran
from sktransfer.model_selection import TransferabilitySelector
from sktransfer.model_selection._baselines import BASELINES, BaselinePlan
from sktransfer.model_selection._consensus_choice import twin_consensus
from sktransfer.model_selection._results import SelectionResults

X, Y = load_iris(return_X_y=True)
CANDIDATES = [("pca", PCA(1)), ("scaled", StandardScaler()), ("raw", "passthrough")]
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


class Columns(TransformerMixin, BaseEstimator):
    """Some columns of the data, from a network of so many parameters."""

    stateless = True

    def __init__(self, first=0, last=1, n_parameters=None, source_accuracy=None):
        self.first, self.last = first, last
        self.n_parameters = n_parameters
        self.source_accuracy = source_accuracy

    def fit(self, X, y=None):
        if self.n_parameters is not None:
            self.n_parameters_ = self.n_parameters
        return self

    def transform(self, X):
        return np.asarray(X)[:, self.first : self.last]


def signal(n=120, width=6, seed=0):
    """Classes that each further column tells a bit better."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    means = rng.normal(size=(3, width))
    return means[y] + rng.normal(size=(n, width)), y


# -- baselines -------------------------------------------------------------------------------------


def test_a_baseline_is_taken_from_a_metric_only_if_that_means_the_same():
    X, y = signal()
    candidates = [("few", Columns(0, 2)), ("more", Columns(0, 5))]
    plain = TransferabilitySelector(candidates, "knn").fit(X, y).baseline_scores_
    # Whole numbers that are values to the metric that decides are values to baselines, too.
    of_values = TransferabilitySelector(candidates, [LogME(task="regression"), LinearProbe()])
    of_values.fit(X, y)
    for name, metric in (("knn", KNN), ("linearprobe", LinearProbe)):
        for candidate, fitted in of_values.candidates_.items():
            wanted = metric(task="regression").fit(fitted.transform(X), y).score_
            assert of_values.baseline_scores_[name][candidate] == wanted
    assert of_values.metric_scores_["linearprobe"] == plain["linearprobe"]
    assert of_values.record_["target"] == "regression" and not of_values.record_["class_counts"]
    same = TransferabilitySelector(candidates, LinearProbe(task="classification")).fit(X, y)
    assert same.baseline_scores_["linearprobe"] == same.scores_ == plain["linearprobe"]
    with config_context(enable_metadata_routing=True):
        weights = np.where(y == 0, 5.0, 1.0)
        weighted = TransferabilitySelector(candidates, KNN().set_fit_request(sample_weight=True))
        weighted.fit(X, y, sample_weight=weights)
    assert weighted.scores_ != plain["knn"] == weighted.baseline_scores_["knn"]


def test_a_baseline_without_a_definition_says_why():
    X, y = signal()
    several = np.column_stack([y == 0, y == 1]).astype(int)
    selector = TransferabilitySelector([("few", Columns(0, 2)), ("more", Columns(0, 5))])
    selector.fit(X, several)
    assert np.isnan(list(selector.baseline_scores_["knn"].values())).all()
    assert np.isfinite(list(selector.baseline_scores_["linearprobe"].values())).all()
    (reason,) = said(selector, "baseline 'knn' could not be computed for any candidate")
    assert "multilabel" in reason


def test_what_labels_mean_decides_on_decision_sets_and_weights_of_a_consensus():
    X, y = signal()
    candidates = [("few", Columns(0, 2)), ("more", Columns(0, 5))]
    for task, is_known in [("auto", True), ("classification", True), ("regression", False)]:
        found = TransferabilitySelector(candidates, LogME(task=task)).fit(X, y)
        assert (found.decision_set_ is not None) == is_known
        both = [LogME(task=task), PACTran()]
        together = TransferabilitySelector(candidates, both, refit="consensus").fit(X, y)
        # LogME is a mean over its outputs: three classes, or one column of values.
        n_outputs = 3 if is_known else 1
        assert together.consensus_.weights["logme"] == pytest.approx(n_outputs / (n_outputs + 1))


def test_baselines_against_scikit_learn():
    selector = TransferabilitySelector(CANDIDATES).fit(X, Y)
    assert tuple(selector.baseline_scores_) == BASELINES
    for name, fitted in selector.candidates_.items():
        features = fitted.transform(X)
        neighbour = cross_val_predict(KNeighborsClassifier(1), features, Y, cv=LeaveOneOut())
        assert selector.baseline_scores_["knn"][name] == pytest.approx(
            np.mean(neighbour == Y),
            abs=0.03,  # duplicates of iris are ties
        )
        alpha = LinearProbe().fit(features, Y).alpha_
        centred = features - features.mean(axis=0)
        probe = cross_val_predict(Ridge(alpha), centred, np.eye(3)[Y], cv=LeaveOneOut())
        assert selector.baseline_scores_["linearprobe"][name] == pytest.approx(
            np.mean(probe.argmax(axis=1) == Y), abs=0.01
        )
        assert selector.baseline_scores_["n_features"][name] == features.shape[1]
    for name in ("n_parameters", "source_accuracy", "untrained_twin"):
        assert all(math.isnan(score) for score in selector.baseline_scores_[name].values())


def test_facts_of_candidates_and_random_order():
    candidates = [
        ("a", Columns(0, 2, 10, 0.5)),
        ("b", Columns(0, 3, 30)),
        ("c", Columns(0, 4)),
    ]
    data = signal()
    found = TransferabilitySelector(candidates).fit(*data).baseline_scores_
    assert found["n_parameters"]["a"] == 10 and found["n_parameters"]["b"] == 30
    assert math.isnan(found["n_parameters"]["c"]) and math.isnan(found["source_accuracy"]["b"])
    assert found["source_accuracy"]["a"] == 0.5
    again = TransferabilitySelector(candidates[::-1]).fit(*data).baseline_scores_
    for name, scores in found.items():
        assert list(again[name]) == ["c", "b", "a"]
        assert again[name] == pytest.approx(scores, nan_ok=True)
    assert len(set(found["random"].values())) == 3


def test_which_baselines():
    none = TransferabilitySelector(CANDIDATES, baselines=None).fit(X, Y)
    assert none.baseline_scores_ == {} and none.findings_ == []
    some = TransferabilitySelector(CANDIDATES, baselines=["random", "knn"]).fit(X, Y)
    assert list(some.baseline_scores_) == ["knn", "random"]
    both = TransferabilitySelector(CANDIDATES, metric=["logme", "knn"], baselines="all").fit(X, Y)
    assert both.baseline_scores_["knn"] == both.metric_scores_["knn"]
    for wrong in ("most", ["size"], ("knn", "gbc")):
        with pytest.raises(ValueError, match="'baselines' must"):
            TransferabilitySelector(CANDIDATES, baselines=wrong).fit(X, Y)


def test_a_metric_that_is_a_baseline_already_is_computed_once(monkeypatch):
    fitted = []
    original = KNN._fit
    monkeypatch.setattr(
        KNN, "_fit", lambda self, *args: (fitted.append(1), original(self, *args))[1]
    )
    TransferabilitySelector(CANDIDATES, metric=["logme", "knn"]).fit(X, Y)
    assert len(fitted) == len(CANDIDATES) + 1  # and for the best on all samples
    fitted.clear()
    # Of another number of neighbours it is no baseline.
    TransferabilitySelector(CANDIDATES, metric=["logme", KNN(5)]).fit(X, Y)
    assert len(fitted) == 2 * len(CANDIDATES) + 1


def test_splits_are_averaged_and_scores_do_not_change():
    data = signal()
    candidates = [("a", Columns(0, 2)), ("b", Columns(0, 5))]
    alone = TransferabilitySelector(candidates, baselines=None).fit(*data)
    assert TransferabilitySelector(candidates).fit(*data).scores_ == alone.scores_
    folds = [(np.arange(0, 80), None), (np.arange(40, 120), None)]
    by_fold = TransferabilitySelector(candidates, cv=folds).fit(*data)
    parts = [
        TransferabilitySelector(candidates).fit(data[0][rows], data[1][rows]) for rows, _ in folds
    ]
    for name in ("knn", "linearprobe"):
        means = np.mean([list(part.baseline_scores_[name].values()) for part in parts], axis=0)
        assert list(by_fold.baseline_scores_[name].values()) == pytest.approx(means)


def test_regression_multilabel_and_many_rows():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(80, 4))
    for y in (data @ rng.normal(size=4), (data[:, :2] > 0).astype(int)):
        selector = TransferabilitySelector([("a", Columns(0, 2)), ("b", Columns(0, 4))]).fit(
            data, y
        )
        assert selector.decision_set_ is None
        assert not np.isnan(list(selector.baseline_scores_["linearprobe"].values())).any()
    many, y = signal(n=3000)
    found = TransferabilitySelector([("a", Columns(0, 6))]).fit(many, y)
    whole = LinearProbe(n_permutations=0).fit(many, y).score_
    assert found.baseline_scores_["linearprobe"]["a"] == pytest.approx(whole, abs=0.04)


def test_a_baseline_that_fails_costs_nobody(monkeypatch):
    def broken(self, *args):
        raise RuntimeError("no neighbours")

    monkeypatch.setattr(KNN, "_fit", broken)
    selector = TransferabilitySelector(CANDIDATES, error_score="raise").fit(X, Y)
    assert selector.best_name_ in dict(CANDIDATES)
    assert all(math.isnan(score) for score in selector.baseline_scores_["knn"].values())
    assert any("'knn' could not be computed" in said for said in selector.findings_)


def test_frame_has_the_baselines_that_are_known():
    pytest.importorskip("pandas")
    frame = TransferabilitySelector(CANDIDATES).fit(X, Y).to_frame()
    assert {"knn", "linearprobe"} <= set(frame) and "source_accuracy" not in frame
    assert "untrained_twin" not in frame and list(frame).count("n_features") == 1
    bare = TransferabilitySelector(CANDIDATES, baselines=None).fit(X, Y).to_frame()
    assert "knn" not in bare


# -- findings --------------------------------------------------------------------------------------


def said(selector, words):
    return [sentence for sentence in selector.findings_ if words in sentence]


def test_agreement_with_size_is_told():
    data, y = signal(n=300, width=8)
    sizes = [(f"c{k}", Columns(0, k, n_parameters=1000 * k)) for k in range(1, 9)]
    selector = TransferabilitySelector(sizes).fit(data, y)
    tau = rank_correlation(selector.scores_, selector.baseline_scores_["n_parameters"]).statistic
    (sentence,) = said(selector, "plain model size")
    assert f"tau is {tau:.2f}" in sentence and "8 candidates" in sentence and tau > 0.5
    turned = [(f"c{k}", Columns(0, k, n_parameters=1000 * (9 - k))) for k in range(1, 9)]
    assert not said(TransferabilitySelector(turned).fit(data, y), "size")
    widths = [(name, clone(candidate).set_params(n_parameters=None)) for name, candidate in sizes]
    assert said(TransferabilitySelector(widths).fit(data, y), "feature width")
    # Three in the right order may be chance.
    assert not said(TransferabilitySelector(sizes[::3]).fit(data, y), "size")


def test_noise_is_told():
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(100, 6)), np.arange(100) % 2
    columns = [(f"c{k}", Columns(k, k + 1)) for k in range(6)]
    assert said(TransferabilitySelector(columns).fit(noise, y), "within noise")
    twice = TransferabilitySelector(columns, n_resamples=40).fit(noise, y)
    assert said(twice, "Every candidate is within noise")
    data, y = signal(n=300, width=8)
    clear = [("one", Columns(0, 1)), ("all", Columns(0, 8))]
    assert not said(TransferabilitySelector(clear).fit(data, y), "noise")
    assert not said(TransferabilitySelector(clear, n_resamples=40).fit(data, y), "noise")


def test_another_first_choice_of_simple_rules_is_told():
    data, y = signal(n=200, width=4)
    # Columns in other units: for neighbours all but one are gone.
    candidates = [
        ("plain", Columns(0, 3)),
        ("huge", FunctionTransformer(lambda X: np.c_[X, 1e6 * np.sin(1e3 * X[:, :1])])),
    ]
    selector = TransferabilitySelector(candidates, "hscore", baselines=["knn"]).fit(data, y)
    assert selector.best_name_ == "huge"
    assert said(selector, "by the nearest neighbour 'plain'")


# -- untrained twins -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("torch")
    from sktransfer.datasets import load_digits_target

    target = load_digits_target()
    rows = load_tiny_benchmark(as_frame=False).train_rows("digits", train_size=100, seed=0)
    return target.images[rows], target.y[rows]


def tiny(*names):
    from sktransfer.backbones import TinyZooBackbone

    return [(name, TinyZooBackbone(name)) for name in names]


def test_twins_are_networks_with_random_weights(digits):
    from sktransfer.backbones._untrained import UntrainedTwin

    images, y = digits
    names = ("mnist", "letters", "letters_half")
    selector = TransferabilitySelector(tiny(*names), baselines="all").fit(images, y)
    twins = selector.baseline_scores_["untrained_twin"]
    # heads with 10 and 26 classes, normalised otherwise: one architecture all the same
    assert twins["mnist"] == twins["letters"] != twins["letters_half"]
    for name, backbone in tiny("letters", "letters_half"):
        features = UntrainedTwin(backbone).fit_transform(images)
        assert twins[name] == pytest.approx(LogME().fit(features, y).score_)
    assert selector.scores_["mnist"] > twins["mnist"]
    assert not said(selector, "untrained twin")
    assert not selector.best_estimator_.module_.stem[0].weight.isnan().any()
    # Two architectures are more than a quarter of three candidates: that of the best alone.
    auto = TransferabilitySelector(tiny(*names)).fit(images, y).baseline_scores_["untrained_twin"]
    assert auto["mnist"] == twins["mnist"] and math.isnan(auto["letters_half"])


def test_negative_transfer_is_told(digits):
    images, y = digits
    permuted = np.random.default_rng(0).permutation(np.arange(len(images)) % 2)
    for names, target, told in [
        (["mnist"], y, None),
        (["cells"], permuted, "not better than its untrained twin"),
        (["fashion_random"], y, "not better than its untrained twin"),  # learned random labels
        (["untrained", "mnist"], y, None),
        (["untrained", "fashion_random"], y, "'untrained', has random weights"),
    ]:
        selector = TransferabilitySelector(tiny(*names)).fit(images, target)
        found = said(selector, "negative transfer")
        assert len(found) == (told is not None)
        assert told is None or told in found[0]


def test_a_twin_that_is_as_good_has_the_score_of_its_candidate_in_a_consensus_of_ranks():
    X, y = signal()
    selector = TransferabilitySelector(
        [("few", Columns(0, 2)), ("more", Columns(0, 5)), ("all", Columns(0, 6))],
        ["knn", "hscore"],
        refit="consensus",
        error_score="raise",
    ).fit(X, y)
    results = SelectionResults(list(selector.scores_), selector.metrics_, None, BaselinePlan(), {})
    results.consensus, results.consensus_options = selector.consensus_, {"method": "ranks"}
    results.mean = {m: np.array([*s.values()]) for m, s in selector.metric_scores_.items()}
    for place, name in enumerate(selector.scores_):
        own = {metric: scores[name] for metric, scores in selector.metric_scores_.items()}
        assert twin_consensus(results, own, place) == pytest.approx(selector.scores_[name])


def test_twins_of_modules_are_made_on_request(digits):
    from torch import nn

    from sktransfer.backbones import TorchBackbone

    module = nn.Sequential(nn.Conv2d(1, 4, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    candidates = [("own", TorchBackbone(module, mean=0.5, std=0.5)), *tiny("cells")]
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    auto = TransferabilitySelector(candidates).fit(*digits)
    assert math.isnan(auto.baseline_scores_["untrained_twin"]["own"])
    asked = TransferabilitySelector(candidates, baselines=["untrained_twin"]).fit(*digits)
    assert np.isfinite(list(asked.baseline_scores_["untrained_twin"].values())).all()
    assert all(bool((module.state_dict()[name] == weight).all()) for name, weight in before.items())


def test_twins_are_stored_and_scored_by_splits(digits, tmp_path):
    images, y = digits
    rows = [np.arange(0, 60), np.arange(40, 100)]
    first = TransferabilitySelector(tiny("cells"), cv=rows, memory=tmp_path).fit(images, y)
    again = TransferabilitySelector(tiny("cells"), cv=rows, memory=tmp_path).fit(images, y)
    assert first.baseline_scores_ == again.baseline_scores_
    parts = [
        TransferabilitySelector(tiny("cells")).fit(images[r], y[r]).baseline_scores_ for r in rows
    ]
    mean = np.mean([part["untrained_twin"]["cells"] for part in parts])
    assert first.baseline_scores_["untrained_twin"]["cells"] == pytest.approx(mean)


# -- consensus -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metrics, relative", [(["logme", "pactran"], False), (["logme", "hscore", "knn"], True)]
)
def test_consensus_decides(metrics, relative):
    data, y = signal(n=150, width=6)
    candidates = [(f"c{k}", Columns(0, k)) for k in range(1, 7)]
    selector = TransferabilitySelector(candidates, metric=metrics, refit="consensus").fit(data, y)
    options = {} if relative else {"method": "scores", "weights": {"logme": 3.0}}
    expected = consensus({m: selector.metric_scores_[m] for m in metrics}, **options)
    assert selector.consensus_ == expected and selector.consensus_.relative_to_pool == relative
    assert selector.scores_ == expected.scores == selector.metric_scores_["consensus"]
    assert selector.ranking_ == expected.ranks and selector.best_name_ in expected.best
    assert selector.refit_metric_ == "consensus" and selector.metric_ is None
    assert set(selector.metrics_) == set(metrics)
    assert np.array_equal(selector.cv_results_["mean_consensus"], list(expected.scores.values()))
    turned = clone(selector).set_params(candidates=candidates[::-1]).fit(data, y)
    assert turned.scores_ == pytest.approx(selector.scores_)
    if relative:
        with pytest.raises(ValueError, match="relative to the other candidates"):
            selector.score(data, y)
    else:
        assert selector.score(data, y) == pytest.approx(selector.best_score_)
    assert (
        selector.transform(data).shape[1]
        == candidates.index((selector.best_name_, dict(candidates)[selector.best_name_])) + 1
    )


def test_consensus_with_splits_failures_and_resamples():
    data, y = signal(n=150, width=6)
    broken = FunctionTransformer(lambda X: np.full((len(X), 2), np.nan))
    candidates = [("one", Columns(0, 1)), ("broken", broken), ("all", Columns(0, 6))]
    options = {"metric": ["logme", "pactran"], "refit": "consensus"}
    selector = TransferabilitySelector(candidates, **options, n_resamples=40).fit(data, y)
    assert selector.best_name_ == "all" and selector.ranking_["broken"] == 3
    assert math.isnan(selector.scores_["broken"]) and "broken" not in selector.decision_set_
    assert selector.tied_with_best_ == ["all"] and "consensus" in selector.uncertainty_
    folds = TransferabilitySelector(candidates, **options, cv=3).fit(data, y)
    assert folds.best_name_ == "all" and folds.decision_set_ is None
    with pytest.raises(ValueError, match="None of the 1|The only candidate"):
        TransferabilitySelector([("broken", broken)], **options).fit(data, y)
    leep = TransferabilitySelector(candidates[::2], metric=["logme", "leep"], refit="consensus")
    assert leep.fit(data, y).best_name_ == "all"  # LEEP has no score of anyone
    assert leep.consensus_.uninformative == {"leep": "it has no score of any candidate"}


def test_consensus_needs_several_metrics_and_a_metric_may_have_its_name():
    with pytest.raises(ValueError, match="refit='consensus' needs two metrics or more"):
        TransferabilitySelector(CANDIDATES, refit="consensus").fit(X, Y)
    named = TransferabilitySelector(
        CANDIDATES, metric={"consensus": LogME(), "h": HScore()}, refit="consensus"
    ).fit(X, Y)
    assert isinstance(named.metric_, LogME) and not hasattr(named, "consensus_")
    assert named.decision_set_.calibration.metric == "logme"


# -- decision sets ---------------------------------------------------------------------------------


def test_decision_set_is_that_of_the_calibration():
    selector = TransferabilitySelector(CANDIDATES).fit(X, Y)
    expected = load_decision_calibration("logme").decision_set(selector.scores_, n_samples=150)
    assert selector.decision_set_ == expected and selector.best_name_ in expected
    assert selector.decision_set_.promise == "decision"
    both = TransferabilitySelector(CANDIDATES, metric=["logme", PACTran()], refit="consensus")
    assert both.fit(X, Y).decision_set_.calibration == load_decision_calibration("consensus")
    more = TransferabilitySelector(CANDIDATES, metric=LogME(tol=1e-6)).fit(X, Y)
    assert more.decision_set_.names == expected.names


@pytest.mark.parametrize(
    "options",
    [
        {"metric": LogME(noise_floor=1e-3)},
        {"metric": HScore(shrinkage=0.1)},
        {"metric": ["logme", "hscore"], "refit": "consensus"},
        {"cv": 3},
    ],
)
def test_no_decision_set_without_a_calibration(options):
    assert TransferabilitySelector(CANDIDATES, **options).fit(X, Y).decision_set_ is None
