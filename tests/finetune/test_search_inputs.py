"""What a search refuses before any network is trained, each in one sentence."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

from sklearn.decomposition import PCA
from sklearn.metrics import make_scorer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor, FineTuneSearchCV
from sktransfer.finetune._search_space import SearchSpace

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
WORDS = np.array(["no", "yes"])[Y]
BACKBONE = TorchBackbone(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)))
ESTIMATOR = FineTuneClassifier(BACKBONE, max_epochs=1)
REGRESSOR = FineTuneRegressor(BACKBONE, max_epochs=1)
SPACE = {"lr": (1e-4, 1e-1, "log")}


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def fit(self, *arguments, **named):
        raise AssertionError("nothing is to be trained here")

    monkeypatch.setattr(FineTuneClassifier, "_fit", fit)
    monkeypatch.setattr(FineTuneRegressor, "_fit", fit)


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        ([("lr", (1e-4, 1e-1))], TypeError, "'param_distributions' must be a dict of names"),
        ({}, ValueError, "'param_distributions' is empty"),
        (
            {"random_state": [0, 1]},
            ValueError,
            "names 'random_state', by which trials would differ",
        ),
        ({"rate": (0, 1), "lr": (0, 1)}, ValueError, "names 'rate', and FineTuneClassifier has no"),
        ({"backbone__depth": (0, 1)}, ValueError, "names 'backbone__depth'.*backbone__layer, "),
        ({"lr": 1e-3}, TypeError, r"for 'lr' must be \(low, high\), .*; got 0.001"),
        ({"lr": ("low", "high")}, TypeError, r"for 'lr' must be .* a list of choices, or a d"),
        ({"lr": (False, True)}, TypeError, "for 'lr' must be"),
        ({"lr": (0.1,)}, ValueError, r"for 'lr' must be \(low, high\) or"),
        ({"lr": (1e-3, 1e-2, "linear")}, ValueError, "for 'lr' must be .*got .*linear"),
        ({"lr": (1e-2, 1e-3)}, ValueError, r"must begin with the smaller number; got \(0.01, 0.0"),
        ({"lr": (0.0, 1e-3, "log")}, ValueError, "must begin above 0"),
        ({"lr": (float("nan"), 1e-3)}, ValueError, "must begin with the smaller number"),
        ({"lr": []}, ValueError, "for 'lr' is an empty list"),
        (
            {"lr": (-1.0, 1.0)},
            ValueError,
            "for 'lr' allows -1.0, which the estimator does not take",
        ),
        ({"train": ["full", "half"]}, ValueError, "for 'train' allows 'half'"),
        ({"class_weight": [None, 3]}, ValueError, "for 'class_weight' allows 3"),
        ({"class_weight": [{}, 3]}, ValueError, "for 'class_weight' allows 3"),
        ({"max_epochs": (0, 3)}, ValueError, "for 'max_epochs' allows 0"),
    ],
)
def test_spaces(space, error, message):
    if not isinstance(space, dict):
        with pytest.raises(error, match=message):
            SearchSpace(space, ESTIMATOR)
        return
    with pytest.raises(error, match=message):
        FineTuneSearchCV(ESTIMATOR, space).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"estimator": PCA()}, TypeError, "'estimator' must be a FineTuneClassifier or a FineTune"),
        ({"scoring": "auc"}, ValueError, "'auc', which is no measure"),
        ({"scoring": "f1"}, ValueError, "is 'f1', by which trials can't be judged on the rows"),
        ({"scoring": "r2", "cv": 2}, ValueError, "is 'r2', by which .* can't be judged on split 0"),
        ({"scoring": "f1", "cv": 2}, ValueError, "is 'f1', by which .* can't be judged on split 0"),
        ({"refit": "f1_macro"}, ValueError, "'refit' is 'f1_macro', which is none of .*accuracy"),
        ({"n_trials": 0}, ValueError, "'n_trials'"),
        ({"pruner": "mean"}, ValueError, "'pruner'"),
        ({"sampler": "grid"}, ValueError, "'sampler'"),
        ({"cv": []}, ValueError, "'cv' gives no split"),
        ({"cv": [([0, 1], [])]}, ValueError, "Split 0 of 'cv' has no rows to judge by"),
        ({"cv": [([0, 1], [40])]}, ValueError, "Split 0 of 'cv' has the rows 40 to 40 to judge by"),
        ({"cv": [([-1, 1], [4])]}, ValueError, "has the rows -1 to 1 to train on; they must be f"),
        ({"cv": [(np.arange(40), np.arange(40)[Y == 1])], "scoring": "roc_auc_ovr"}, ValueError,
         "is 'roc_auc_ovr', by which .* two classes in y at least"),
    ],
)  # fmt: skip
def test_parameters(parameters, error, message):
    search = FineTuneSearchCV(**{"estimator": ESTIMATOR, "param_distributions": SPACE} | parameters)
    with pytest.raises(error, match=message):
        search.fit(X, WORDS)


def test_measures_of_classes_are_not_for_a_regression():
    search = FineTuneSearchCV(REGRESSOR, SPACE, scoring="accuracy")
    with pytest.raises(
        ValueError, match="'accuracy', by which .*: The measure 'accuracy' is for .*'r2' and 'neg_m"
    ):
        search.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="No row can be held out.* .n_samples = 1."):
        search.fit(X[:1], X[:1, 0])


def test_data():
    search = FineTuneSearchCV(ESTIMATOR, SPACE)
    with pytest.raises(ValueError, match="FineTuneClassifier requires at least 2 classes in y"):
        search.fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        search.fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search.fit(X, Y[:30])
    row = np.flatnonzero((X > 2).any(axis=1))[0]
    with pytest.raises(ValueError, match=f"^X must hold finite .* first in row {row}.$"):
        search.fit(np.where(X > 2, np.nan, X), Y)
    with pytest.raises(ValueError, match="'y_val' is given and 'X_val' is not"):
        search.fit(X, Y, y_val=Y)
    with pytest.raises(ValueError, match="none of the classes of FineTuneClassifier: .3."):
        search.fit(X, Y, X_val=X, y_val=Y + 2 * (np.arange(40) == 3))
    with pytest.raises(ValueError, match=r"^X_val must have rows like those of X. .*\(40, 5\) and"):
        search.fit(X, Y, X_val=X[:, :5], y_val=Y)
    with pytest.raises(ValueError, match="either by 'X_val' and 'y_val', or on the splits of 'cv'"):
        FineTuneSearchCV(ESTIMATOR, SPACE, cv=2).fit(X, Y, X_val=X, y_val=Y)
    with pytest.raises(ValueError, match="No row can be held out"):
        search.fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="may shuffle and drop rows: pass its data set"):
        search.fit(DataLoader(TensorDataset(torch.rand(8, 1, 9, 9), torch.arange(8) % 2)))
    vectors = TensorDataset(torch.as_tensor(X), torch.as_tensor(Y))
    with pytest.raises(ValueError, match=r"^X is a data set \(TensorDataset\) of vectors, and da"):
        search.fit(vectors)
    with pytest.raises(
        ValueError, match="^X_val is a data set .* images only; got .* Pass vectors as"
    ):
        search.fit(X, Y, X_val=vectors)
    with pytest.raises(ValueError, match="sample_weight must be 0 or between"):
        search.fit(X, Y, sample_weight=np.full(40, 1e200))
    invalid = FineTuneClassifier(TorchBackbone(nn.Linear), max_epochs=-1)
    with pytest.raises(ValueError, match="The 'max_epochs' parameter of FineTuneClassifier"):
        FineTuneSearchCV(invalid, SPACE).fit(X, Y)


def test_which_study():
    with pytest.raises(AttributeError, match="not fitted"):
        FineTuneSearchCV(ESTIMATOR, SPACE).get_study()


def test_optuna_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"needs optuna, .* pip install 'sktransfer\[search\]'"):
        FineTuneSearchCV(ESTIMATOR, SPACE).fit(X, Y)


def test_scorers_are_tried_on_any_classifier_and_functions_are_not():
    def only_of_networks(estimator, X, y):
        return estimator.n_epochs_

    with pytest.raises(AssertionError, match="nothing is to be trained"):
        FineTuneSearchCV(ESTIMATOR, SPACE, scoring=only_of_networks, error_score="raise").fit(X, Y)
    broken = make_scorer(lambda y, predicted: float("nan"))
    with pytest.raises(ValueError, match="by which trials can't be judged .* gives NaN"):
        FineTuneSearchCV(ESTIMATOR, SPACE, scoring=broken).fit(X, Y)
