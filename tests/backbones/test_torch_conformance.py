"""TorchBackbone is a scikit-learn transformer: scikit-learn's own checks, counted."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from torch import nn

from sktransfer.backbones import TorchBackbone


class AnyWidth(nn.Module):
    """A network with a classifier layer that takes vectors of any length."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        k = torch.arange(1, 9, dtype=x.dtype)
        place = torch.arange(x.shape[1], dtype=x.dtype)
        return self.head(torch.tanh(self.hidden(x @ torch.cos(place[:, None] * k / 3) / 8)))


def vector_backbone():
    return TorchBackbone(AnyWidth, batch_size=16)


@parametrize_with_checks([vector_backbone()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_check_is_executed_and_none_is_skipped():
    results = check_estimator(vector_backbone(), on_skip=None, on_fail=None)
    assert {result["status"] for result in results} == {"passed"}, [
        (result["check_name"], result["exception"])
        for result in results
        if result["status"] != "passed"
    ]
    assert len(results) == 47


def test_a_network_object_as_parameter_passes_all_checks_but_a_digest():
    """joblib's digest of a copied torch parameter is another one, used or not."""
    torch.manual_seed(0)
    reason = {"check_estimators_overwrite_params": "the digest of a torch parameter is not stable"}
    results = check_estimator(
        TorchBackbone(AnyWidth()), on_skip=None, on_fail=None, expected_failed_checks=reason
    )
    by_status = dict.fromkeys(("passed", "xfail"), 0)
    for result in results:
        by_status[result["status"]] += 1
    assert by_status == {"passed": 46, "xfail": 1}


@pytest.mark.parametrize(
    "check",
    [
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
    ],
)
# scikit-learn's checks transform arrays after a fit on data frames and the other way round.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
def test_checks_that_scikit_learn_runs_on_itself(check):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    getattr(estimator_checks, check)("TorchBackbone", vector_backbone())


X = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)


def test_tags_and_feature_names():
    backbone = vector_backbone().fit(X)
    assert get_tags(backbone).transformer_tags.preserves_dtype == ["float32"]
    assert backbone.get_feature_names_out().tolist() == [f"torchbackbone{i}" for i in range(6)]
    assert backbone.n_features_in_ == 5
    assert backbone.input_shape_ == (5,)
    assert backbone.stateless


def test_an_unfitted_backbone_says_so():
    for call in (TorchBackbone.transform, TorchBackbone.extract, lambda b, X: b.predict_proba(X)):
        with pytest.raises(NotFittedError):
            call(vector_backbone(), X)


def test_copies_of_a_fitted_backbone_give_the_same_and_a_clone_is_not_fitted():
    torch.manual_seed(1)
    backbone = TorchBackbone(AnyWidth(), batch_size=7).fit(X)
    expected = backbone.extract(X)
    for other in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        for got, wanted in zip(other.extract(X), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    fresh = clone(backbone)
    assert not hasattr(fresh, "module_")
    np.testing.assert_array_equal(fresh.fit(X).transform(X), expected[0])


def test_repr_and_diagram_are_short_for_any_network():
    network = nn.Sequential(*(nn.Linear(100, 100) for _ in range(200)))
    backbone = TorchBackbone(network, batch_size=8)
    assert repr(backbone).count("\n") == 0
    assert "<Sequential, 2,020,000 parameters>" in repr(backbone)
    # scikit-learn prints nested estimators itself, and cuts there.
    assert len(repr(Pipeline([("backbone", backbone)]))) < 1000
    assert "AnyWidth" in repr(vector_backbone())
    assert len(backbone._repr_html_()) < 60_000


def test_grid_search_over_parameters_of_the_backbone():
    y = (X[:, 0] > 0).astype(int)
    pipeline = Pipeline([("backbone", vector_backbone()), ("head", KNeighborsClassifier(1))])
    search = GridSearchCV(pipeline, {"backbone__batch_size": [1, 9]}, cv=2).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == scores[1]
