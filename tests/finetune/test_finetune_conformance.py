"""FineTuneClassifier and FineTuneRegressor are scikit-learn estimators: its own checks, counted."""

import os
import warnings

import pytest

torch = pytest.importorskip("torch")

from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor


class AnyWidth(nn.Module):
    """A small network in double precision for vectors of any length.

    Weighted and repeated rows must give the same to 1e-7, which single precision cannot tell.
    """

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 16, dtype=torch.float64)
        self.head = nn.Linear(16, 3, dtype=torch.float64)

    def forward(self, x):
        k = torch.arange(1, 17, dtype=x.dtype)
        place = torch.arange(x.shape[1], dtype=x.dtype)
        return self.head(torch.relu(self.hidden(x @ torch.cos(place[:, None] * k / 3) / 4)))


SETTINGS = {"max_epochs": 20, "lr": 2e-2, "head_lr": 6e-2}
BACKBONE = TorchBackbone(AnyWidth)
FULL = FineTuneClassifier(BACKBONE, **SETTINGS)
HEAD = FineTuneClassifier(BACKBONE, train="head", max_epochs=30, head_lr=0.4)
REGRESSOR = FineTuneRegressor(BACKBONE, **SETTINGS)
ESTIMATORS = [FULL, HEAD, REGRESSOR]
IDS = ["full", "head", "regressor"]
# For classifiers without sample_weight there are 56.
N_CHECKS = [63, 63, 60]


@pytest.mark.parametrize("case", range(len(IDS)), ids=IDS)
def test_every_check_is_executed_and_none_is_skipped(case):
    estimator, n_checks = ESTIMATORS[case], N_CHECKS[case]
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
@pytest.mark.parametrize("estimator", [FULL, REGRESSOR], ids=["classifier", "regressor"])
def test_checks_that_scikit_learn_runs_on_itself(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


def test_tags():
    assert not get_tags(FULL).no_validation
    assert not get_tags(FULL).non_deterministic
    assert get_tags(FULL).classifier_tags.multi_class
    assert not get_tags(FULL).target_tags.multi_output
    assert get_tags(REGRESSOR).target_tags.multi_output
