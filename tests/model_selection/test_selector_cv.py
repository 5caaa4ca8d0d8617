"""Scores in the splits of a cross-validation."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.preprocessing import Normalizer, StandardScaler

from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.metrics import LEEP, HScore, LogME
from sktransfer.model_selection import TransferabilitySelector

X, Y = load_iris(return_X_y=True)  # sorted by class
CANDIDATES = [("pca", PCA(2)), ("scaled", StandardScaler())]


class Net(TransformerMixin, BaseEstimator):
    """Learns nothing, and counts the samples it is run on."""

    stateless = True
    n_run = 0

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        Net.n_run += len(X)
        return np.tanh(X)

    def extract(self, X):
        features = self.transform(X)
        weights = np.exp(features[:, :3])
        return features, weights / weights.sum(axis=1, keepdims=True)


class Learner(Net):
    """The same, but it says that it learns."""

    stateless = False


@pytest.fixture(autouse=True)
def none_run():
    Net.n_run = 0


def expected_splits(n_splits=4):
    folds = StratifiedKFold(n_splits, shuffle=True, random_state=0)
    return [train for train, _ in folds.split(X, Y)]


def test_the_training_part_of_stratified_shuffled_folds_is_scored():
    given = [*CANDIDATES, ("net", Net())]
    selector = TransferabilitySelector(given, ["logme", "hscore"], cv=4).fit(X, Y)
    for name, candidate in given:
        for metric, scorer in (("logme", LogME()), ("hscore", HScore())):
            scores = [
                scorer.fit(clone(candidate).fit_transform(X[rows]), Y[rows]).score_
                for rows in expected_splits()
            ]
            index = list(selector.scores_).index(name)
            found = [selector.cv_results_[f"split{i}_{metric}"][index] for i in range(4)]
            np.testing.assert_allclose(found, scores, rtol=1e-9)
            mean, std = (selector.cv_results_[f"{s}_{metric}"][index] for s in ("mean", "std"))
            assert mean == pytest.approx(np.mean(scores), rel=1e-12)
            assert std == pytest.approx(np.std(scores), rel=1e-6)
            assert selector.metric_scores_[metric][name] == mean
    assert selector.n_splits_ == 4
    assert selector.best_score_ == max(selector.scores_.values())


def test_metrics_and_best_candidate_are_fitted_on_all_samples():
    selector = TransferabilitySelector([("pca", PCA(2))], ["logme", "hscore"], cv=3)
    features = selector.fit_transform(X, Y)
    np.testing.assert_allclose(selector.best_estimator_.mean_, X.mean(axis=0))
    assert selector.metric_.score_ == pytest.approx(LogME().fit(features, Y).score_, rel=1e-9)
    assert selector.metrics_["hscore"].score_ == pytest.approx(HScore().fit(features, Y).score_)
    assert selector.score(X, Y) == pytest.approx(selector.metric_.score_, rel=1e-9)
    assert selector.best_score_ != selector.metric_.score_


def test_a_candidate_that_learns_nothing_is_run_once():
    TransferabilitySelector([("net", Net())], ["logme", "hscore", "leep"], cv=10).fit(X, Y)
    assert Net.n_run == len(X)


def test_frozen_and_fitless_candidates_are_run_once():
    frozen = FrozenEstimator(Learner().fit(X))
    TransferabilitySelector([("frozen", frozen)], cv=5).fit(X, Y)
    assert Net.n_run == len(X)
    selector = TransferabilitySelector([("norm", Normalizer())], cv=5).fit(X, Y)
    scores = [LogME().fit(Normalizer().transform(X[r]), Y[r]).score_ for r in expected_splits(5)]
    assert selector.best_score_ == pytest.approx(np.mean(scores), rel=1e-12)


def test_a_candidate_that_learns_is_run_on_all_samples_and_on_each_training_part():
    TransferabilitySelector([("net", Learner())], cv=5).fit(X, Y)
    assert Net.n_run == len(X) + 4 * len(X)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_selected_rows_and_fitting_again_agree_where_nothing_is_learned():
    metrics = ["logme", "hscore", "leep", "nce"]
    selected = TransferabilitySelector([("net", Net())], metrics, cv=3).fit(X, Y)
    fitted = TransferabilitySelector([("net", Learner())], metrics, cv=3).fit(X, Y)
    for metric in metrics:
        assert selected.metric_scores_[metric] == pytest.approx(fitted.metric_scores_[metric])


def test_folds_of_a_regression_target_are_shuffled():
    order = np.argsort(X[:, 0])
    data, y = X[order, 1:], X[order, 0] + 0.01
    selector = TransferabilitySelector([("net", Net())], cv=3).fit(data, y)
    folds = KFold(3, shuffle=True, random_state=0)
    scores = [LogME().fit(np.tanh(data[r]), y[r]).score_ for r, _ in folds.split(data)]
    assert selector.best_score_ == pytest.approx(np.mean(scores), rel=1e-9)
    multilabel = np.column_stack([Y == 0, X[:, 1] > 3]).astype(int)
    assert np.isfinite(TransferabilitySelector([("n", Net())], cv=3).fit(X, multilabel).best_score_)


@pytest.mark.parametrize(
    "cv",
    [
        StratifiedShuffleSplit(3, train_size=0.3, random_state=1),
        ShuffleSplit(3, train_size=60, random_state=1),
        [(np.arange(0, 150, 2), [])] * 3,
        ((rows, []) for rows in [np.arange(0, 150, 2)] * 3),
        [(np.arange(150) % 2 == 0, [1])] * 3,
        [(list(range(-150, 0)), [])] * 3,
        [np.arange(0, 150, 2)] * 3,
    ],
    ids=["stratified", "shuffle", "list", "generator", "mask", "negative", "subsets"],
)
def test_splitters_and_iterables(cv):
    selector = TransferabilitySelector(CANDIDATES, cv=cv).fit(X, Y)
    assert selector.n_splits_ == 3
    assert "split2_logme" in selector.cv_results_ and "split3_logme" not in selector.cv_results_
    assert np.isfinite(selector.best_score_)


def test_a_random_splitter_gives_all_candidates_the_same_splits():
    cv = StratifiedShuffleSplit(4, train_size=0.2)  # draws anew at each call
    twins = [("a", Net()), ("b", Net()), ("c", Learner())]
    selector = TransferabilitySelector(twins, cv=cv).fit(X, Y)
    assert selector.scores_["a"] == selector.scores_["b"]
    assert selector.scores_["c"] == pytest.approx(selector.scores_["a"], rel=1e-9)


def test_test_rows_are_never_looked_at():
    poisoned = X.copy()
    test = np.arange(0, 150, 3)
    train = np.setdiff1d(np.arange(150), test)
    poisoned[test] = 1e6
    for candidate in (Normalizer(), Net()):
        selectors = [
            TransferabilitySelector([("c", candidate)], cv=[(train, test)]).fit(data, Y)
            for data in (X, poisoned)
        ]
        assert selectors[0].best_score_ == selectors[1].best_score_


ONE_CLASS = np.arange(50)
MIXED = np.arange(0, 150, 2)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_split_with_one_class_is_left_out_for_all(n_jobs):
    given = [*CANDIDATES, ("net", Net())]
    cv = [(MIXED, []), (ONE_CLASS, []), (MIXED + 1, [])]
    with pytest.warns(CandidateFailedWarning) as caught:
        selector = TransferabilitySelector(given, cv=cv, n_jobs=n_jobs).fit(X, Y)
    reason = "LogME requires at least 2 classes in y; got 1 class."
    assert [str(warning.message) for warning in caught] == [
        f"No candidate could be scored by 'logme' on split 1, which is left out: {reason}"
    ]
    assert selector.split_failures_ == {"logme": {1: reason}}
    assert selector.failures_ == {}
    assert np.isnan(selector.cv_results_["split1_logme"]).all()
    expected = TransferabilitySelector(given, cv=[cv[0], cv[2]]).fit(X, Y)
    assert selector.scores_ == pytest.approx(expected.scores_, rel=1e-12)
    np.testing.assert_allclose(
        selector.cv_results_["std_logme"], expected.cv_results_["std_logme"], rtol=1e-9
    )
    assert Net.n_run == 2 * len(X)


def test_no_split_with_two_classes():
    cv = [(ONE_CLASS, []), (ONE_CLASS + 50, [])]
    with pytest.raises(ValueError, match="None of the 2 candidates .* got 1 class"):
        TransferabilitySelector(CANDIDATES, cv=cv).fit(X, Y)


class FailsIfSmall(Learner):
    """Needs more samples than some training parts have."""

    def fit(self, X, y=None):
        if len(X) < self.need:
            raise ValueError(f"{self.need} samples needed.")
        return super().fit(X, y)

    def __init__(self, need=0):
        self.need = need


def test_means_over_different_splits_are_not_compared():
    cv = [(MIXED, []), (MIXED[::2], []), (MIXED[::3], [])]
    given = [("small", FailsIfSmall(30)), ("smaller", FailsIfSmall(50)), ("net", Net())]
    for order in (given, given[::-1]):
        with pytest.warns(CandidateFailedWarning):
            selector = TransferabilitySelector(order, cv=cv).fit(X, Y)
        assert selector.failures_ == {
            "small": {"logme": "split 2: 30 samples needed."},
            "smaller": {"logme": "splits 1 and 2: 50 samples needed."},
        }
        assert selector.best_name_ == "net"
        assert np.isnan(selector.scores_["small"])
        index = list(selector.scores_).index("small")
        assert np.isfinite(selector.cv_results_["split0_logme"][index])
        # on all samples it works, so it is there to be used
        assert selector.candidates_.small.transform(X).shape == X.shape


class SureOfItself(Learner):
    """Scores best wherever it can be fitted, which is not everywhere."""

    def fit(self, X, y=None):
        if len(X) < 70:
            raise ValueError("too small")
        self.codes_ = dict(zip(map(tuple, X), y, strict=True))
        return super().fit(X, y)

    def transform(self, X):
        noise = np.random.default_rng(0).normal(scale=0.1, size=(len(X), 3))
        return np.eye(3)[[self.codes_[tuple(row)] for row in X]] + noise


def test_a_leader_that_fails_later_is_not_the_best():
    cv = [(MIXED, []), (MIXED[::2], [])]
    with pytest.warns(CandidateFailedWarning):
        selector = TransferabilitySelector([("sure", SureOfItself()), ("net", Net())], cv=cv)
        features = selector.fit_transform(X, Y)
    assert selector.best_name_ == "net"
    np.testing.assert_array_equal(features, np.tanh(X))


def test_a_candidate_that_fails_on_all_samples_is_not_scored_in_splits():
    class FailsIfLarge(Learner):
        def fit(self, X, y=None):
            if len(X) == 150:
                raise ValueError("too many")
            return super().fit(X, y)

    with pytest.warns(CandidateFailedWarning, match="'large' has no score by 'logme': too many"):
        selector = TransferabilitySelector([("large", FailsIfLarge()), ("net", Net())], cv=3)
        selector.fit(X, Y)
    assert np.isnan(selector.cv_results_["split0_logme"][0])
    assert np.isnan(selector.cv_results_["n_features"][0])


def test_errors_in_a_split_are_let_through_on_demand():
    cv = [(MIXED, []), (MIXED[::2], [])]
    selector = TransferabilitySelector([("s", FailsIfSmall(50))], cv=cv, error_score="raise")
    with pytest.raises(ValueError, match="50 samples needed"):
        selector.fit(X, Y)
    selector = TransferabilitySelector(CANDIDATES, cv=[(ONE_CLASS, [])], error_score="raise")
    with pytest.raises(ValueError, match="got 1 class"):
        selector.fit(X, Y)


def test_a_metric_that_fails_on_all_samples_though_not_in_the_splits():
    class OnlyHalves(LogME):
        def fit_moments(self, moments):
            if moments.n_samples == 150:
                raise ValueError("too many samples")
            return super().fit_moments(moments)

    selector = TransferabilitySelector(CANDIDATES, OnlyHalves(), cv=2)
    with pytest.raises(ValueError, match="too many samples"):
        selector.fit(X, Y)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_small_classes_in_folds():
    y = np.array([0] * 146 + [1] * 4)
    with pytest.warns(UserWarning, match="least populated class"):
        selector = TransferabilitySelector(CANDIDATES, cv=6).fit(X, y)
    assert np.isfinite(selector.best_score_)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_infinite_scores_are_scores():
    class Certain(Net):
        def extract(self, X):
            probabilities = np.zeros((len(X), 2))
            probabilities[:, 0] = 1
            return np.tanh(X), probabilities

    selector = TransferabilitySelector([("certain", Certain()), ("net", Net())], "leep", cv=3)
    selector.fit(X, Y)
    assert selector.best_name_ == "net"
    features, probabilities = Net().extract(X)
    expected = [LEEP().fit(probabilities[r], Y[r]).score_ for r in expected_splits(3)]
    assert selector.best_score_ == pytest.approx(np.mean(expected), rel=1e-12)


def test_groups_need_routing():
    groups = np.arange(150) % 5
    with config_context(enable_metadata_routing=True):
        selector = TransferabilitySelector(CANDIDATES, cv=LeaveOneGroupOut())
        assert selector.fit(X, Y, groups=groups).n_splits_ == 5
        selector = TransferabilitySelector(CANDIDATES, cv=GroupKFold(2))
        assert selector.fit_transform(X, Y, groups=groups).shape == (150, 4)
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        TransferabilitySelector(CANDIDATES, cv=GroupKFold(2)).fit(X, Y)
