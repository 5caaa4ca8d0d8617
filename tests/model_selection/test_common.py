"""scikit-learn's own checks on the selector: all run, none skipped, none expected to fail."""

from functools import partial

import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from sktransfer.model_selection import TransferabilitySelector

CANDIDATES = [("pca", PCA(1)), ("std", StandardScaler())]
SELECTORS = [
    TransferabilitySelector(CANDIDATES),
    TransferabilitySelector(CANDIDATES, metric=["logme", "hscore"], error_score="raise"),
    TransferabilitySelector([*CANDIDATES, ("raw", "passthrough")], n_jobs=2),
]
N_CHECKS = 48
EXTRA_CHECKS = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_get_feature_names_out_error",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_inplace_ensure_writeable",
]

# Data of the checks are random, so metrics may say that a score carries no information.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")


@pytest.mark.parametrize("selector", SELECTORS, ids=["default", "raise", "passthrough"])
def test_every_check_is_executed_and_passes(selector):
    results = estimator_checks.check_estimator(
        clone(selector), on_skip=None, on_fail=None, expected_failed_checks={}
    )
    assert [
        (r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"
    ] == []
    assert len(results) == N_CHECKS
    assert len(list(estimator_checks_generator(selector))) == N_CHECKS


# These checks mix arrays and data frames in fit and transform, of which scikit-learn's candidates
# warn as they do outside a selector.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize("selector", SELECTORS, ids=["default", "raise", "passthrough"])
@pytest.mark.parametrize("name", EXTRA_CHECKS)
def test_extra_checks(selector, name):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    check = getattr(estimator_checks, name)
    partial(check, "TransferabilitySelector")(clone(selector))
