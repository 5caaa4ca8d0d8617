"""scikit-learn's own estimator checks on metrics that hold a small network for vectors."""

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import TransferabilityWarning
from sktransfer.finetune import FU, LPFU
from sktransfer.utils.estimator_checks import check_transferability_metric

# Too few samples for a score, or classes that are separated; that is announced.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


class AnyWidth(nn.Module):
    """Two hidden layers and a head for vectors of any length."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 7)
        self.second = nn.Linear(7, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        k = torch.arange(1, 9, dtype=x.dtype)
        place = torch.arange(x.shape[1], dtype=x.dtype)
        x = x @ torch.cos(place[:, None] * k / 3) / 8
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


METRICS = [
    FU(TorchBackbone(AnyWidth)),
    FU(TorchBackbone(AnyWidth), batch_size=4, margin=0.5, random_state=0),
    LPFU(TorchBackbone(AnyWidth), random_state=0),
    LPFU(TorchBackbone(AnyWidth), in_sample=True, pool="absolute"),
]
IDS = [f"{type(metric).__name__}{i}" for i, metric in enumerate(METRICS)]

EXTRA_CHECKS = [
    estimator_checks.check_param_validation,
    estimator_checks.check_dataframe_column_names_consistency,
    estimator_checks.check_inplace_ensure_writeable,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_supervised_y_no_nan,
    estimator_checks.check_requires_y_none,
]


@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_at_least_41_checks_are_executed_and_pass_and_none_is_skipped(metric):
    assert os.environ["SCIPY_ARRAY_API"] == "1"  # else the array API check would be skipped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TransferabilityWarning)
        results = check_estimator(metric, on_fail=None, on_skip=None)
    assert {result["status"] for result in results} == {"passed"}, [
        (result["check_name"], result["status"], result["exception"])
        for result in results
        if result["status"] != "passed"
    ]
    assert len({result["check_name"] for result in results}) >= 41


@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_extra_check(metric, check):
    check(type(metric).__name__, metric)


@pytest.mark.parametrize("metric", METRICS, ids=IDS)
def test_class_attributes_and_tags(metric):
    assert metric.needs == "inputs"
    assert metric.tasks == ("classification",)
    tags = metric.__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.no_validation
    assert not tags.non_deterministic
    assert tags.target_tags.required


@pytest.mark.parametrize("metric", METRICS[1:3], ids=IDS[1:3])
def test_the_contract_of_all_metrics(metric):
    results = check_transferability_metric(metric)
    assert {result["check_name"] for result in results if result["status"] == "skipped"} == {
        "check_informative_input_beats_shuffled_labels",
        "check_weights_are_relative",
        "check_batches_give_the_score_of_the_whole",
    }


VALUES = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(-10, 10, width=32, allow_subnormal=False),
    st.sampled_from([0.0, 1e-150, -1e-30, 1e30, 1e150]),
)


@pytest.mark.parametrize("metric", METRICS[1:3], ids=IDS[1:3])
@settings(max_examples=40, derandomize=True, deadline=None)
@given(data=st.data())
def test_there_is_a_score_or_a_reason(metric, data):
    """Nothing but a score in bounds, a named warning with NaN, or a ValueError that says why."""
    n_samples, n_columns = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 5))
    X = data.draw(hnp.arrays(np.float64, (n_samples, n_columns), elements=VALUES))
    y = data.draw(hnp.arrays(np.int64, n_samples, elements=st.integers(0, 4)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = clone(metric).fit(X, y)
        except ValueError as error:
            words = ("1 class", "1 sample", "NaN or infinite")
            assert any(word in str(error) for word in words), str(error)
            return
    assert all(issubclass(w.category, TransferabilityWarning) for w in caught), [
        str(w.message) for w in caught
    ]
    assert type(fitted.score_) is float
    if np.isnan(fitted.score_):
        assert any("no score (NaN)" in str(w.message) for w in caught)
    else:
        assert fitted.bounds[0] <= fitted.score_ <= fitted.bounds[1]
        assert np.isfinite(fitted.score_)
