"""FineTuneSearchCV is a scikit-learn estimator: its own checks, counted."""

import os
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("optuna")

from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor, FineTuneSearchCV


class AnyWidth(nn.Module):
    """A small network in double precision for vectors of any length."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 16, dtype=torch.float64)
        self.head = nn.Linear(16, 3, dtype=torch.float64)

    def forward(self, x):
        k = torch.arange(1, 17, dtype=x.dtype)
        place = torch.arange(x.shape[1], dtype=x.dtype)
        return self.head(torch.relu(self.hidden(x @ torch.cos(place[:, None] * k / 3) / 4)))


SETTINGS = {"train": "head", "max_epochs": 4, "head_lr": 0.3}
SPACE = {"weight_decay": (1e-6, 1e-2, "log")}
BACKBONE = TorchBackbone(AnyWidth)
CLASSIFIER = FineTuneSearchCV(FineTuneClassifier(BACKBONE, **SETTINGS), SPACE, n_trials=2)
REGRESSOR = FineTuneSearchCV(
    FineTuneRegressor(BACKBONE, **SETTINGS), SPACE, n_trials=1, scoring="r2", pruner=None
)


@pytest.mark.parametrize(
    ("estimator", "n_checks"), [(CLASSIFIER, 62), (REGRESSOR, 60)], ids=["classifier", "regressor"]
)
def test_every_check_is_executed_and_none_is_skipped(estimator, n_checks):
    assert os.environ["SCIPY_ARRAY_API"] == "1"  # else the array API check would be skipped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert {result["status"] for result in results} == {"passed"}, [
        (result["check_name"], result["exception"])
        for result in results
        if result["status"] != "passed"
    ]
    assert len(results) >= n_checks


EXTRA = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
    "check_do_not_raise_errors_in_init_or_set_params",
]


@pytest.mark.parametrize("check", EXTRA)
def test_checks_that_scikit_learn_runs_on_itself(check):
    getattr(estimator_checks, check)("FineTuneSearchCV", CLASSIFIER)


def test_tags_are_those_of_the_estimator():
    assert get_tags(CLASSIFIER).classifier_tags.multi_class
    assert get_tags(REGRESSOR).target_tags.multi_output
    assert get_tags(REGRESSOR).estimator_type == "regressor"
