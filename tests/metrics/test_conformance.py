"""scikit-learn's own estimator checks, all of them really run, on every metric."""

import inspect
import os
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from sktransfer.exceptions import TransferabilityWarning
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
    HScore,
    LinearProbe,
    LogME,
    PACTran,
    TransRate,
    metric_names,
)

METRICS = [
    LogME(),
    LogME(task="classification"),
    LogME(1e-4, noise_floor=1e-6),
    HScore(),
    HScore("ledoit_wolf"),
    HScore(0.3),
    LEEP(),
    LEEP(from_logits=True),
    LEEP(temperature=2.0, n_permutations=0, random_state=None),
    NCE(),
    GBC(),
    GBC("full", None, regularization="ridge"),
    TransRate(),
    TransRate(weights="uniform", normalize=True),
    KNN(),
    LinearProbe(n_permutations=2),
    LinearProbe(1.0, n_permutations=0, random_state=None),
    LinearProbe(n_permutations=2, scoring="roc_auc_ovr"),
    SFDA(n_permutations=2, class_weight="balanced"),
    LEEP(n_permutations=0, class_weight="balanced"),
    SFDA(n_permutations=2),
    NCTI(n_permutations=2),
    ETran(n_permutations=2),
    PAS(n_permutations=2),
    OTCE(n_permutations=2),
    PACTran(n_permutations=1),
    PACTran("dirichlet", n_permutations=1),
    PACTran("gamma", n_permutations=1),
    PARC(random_state=0),
    PARC(None, max_samples=15, random_state=0),
    NLEEP(random_state=0, n_permutations=1),
    LP(random_state=0, n_folds=3),
]

# Checks that scikit-learn runs on its own estimators but not through `check_estimator`.
EXTRA_CHECKS = [
    estimator_checks.check_param_validation,
    estimator_checks.check_dataframe_column_names_consistency,
    estimator_checks.check_inplace_ensure_writeable,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_positive_only_tag_during_fit,
    estimator_checks.check_supervised_y_no_nan,
    estimator_checks.check_requires_y_none,
]

# The checks' data are no probabilities and often too few samples for a meaningful score; our own
# announcements of that are all that may be ignored.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


def test_no_metric_is_left_out():
    # FU and LPFU hold a network; their tests are with those of the fine-tuning room.
    here = {type(metric).__name__.lower() for metric in METRICS}
    assert here == set(metric_names()) - {"fu", "lpfu"}


@pytest.mark.parametrize("metric", METRICS, ids=repr)
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
    assert not any(result["expected_to_fail"] for result in results)
    names = {result["check_name"] for result in results}
    assert len(names) >= 41
    weighted = {name for name in names if "sample_weight" in name}
    if "sample_weight" in inspect.signature(metric.fit).parameters:
        assert len(weighted) >= 6  # its checks belong to the number
    assert "check_array_api_input" in names
    if metric.__sklearn_tags__().input_tags.positive_only:
        assert "check_fit_non_negative" in names


@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_extra_check(metric, check):
    check(type(metric).__name__, metric)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_every_label_dtype_that_scikit_learn_tries(metric):
    # What its classifier checks ask of the labels, which are not run on a bare estimator.
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 5)), np.arange(30) % 3
    expected = metric.fit(X, y).score_
    relabel = partial(np.take, indices=y)
    for names in (["one", "two", "three"], [-1, 1, 7], [0.0, 2.0, 4.0]):
        assert metric.fit(X, relabel(np.array(names))).score_ == pytest.approx(
            expected, abs=1e-12, nan_ok=True
        )
        objects = relabel(np.array(names)).astype(object)
        assert metric.fit(X, objects).score_ == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_no_check_is_switched_off_by_a_tag(metric):
    tags = metric.__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.no_validation
    assert not tags.non_deterministic
    assert tags.input_tags.two_d_array
    assert tags.target_tags.required
    assert not tags.input_tags.allow_nan
