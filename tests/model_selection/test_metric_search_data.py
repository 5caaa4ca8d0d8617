"""What a search over metrics says of data that its candidates cannot take."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.model_selection import MetricSearchCV

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

N = 40
Y = np.arange(N) % 2
X = np.random.default_rng(0).normal(size=(N, 4)) + Y[:, None]
REFERENCE = {"a": 0.7, "b": 0.8, "c": 0.9}


class Counting(PCA):
    """PCA that counts how often it is fitted."""

    fits = 0

    def fit_transform(self, X, y=None):
        Counting.fits += 1
        return super().fit_transform(X, y)


REDUCTIONS = [Counting(1), Counting(2), Counting(3)]


def search(transformers, **params):
    Counting.fits = 0
    params = {"scoring": "kendall", "n_resamples": 0, "n_permutations": 0, **params}
    return MetricSearchCV(
        list(zip("abc", transformers, strict=True)), "hscore", reference=REFERENCE, **params
    )


def with_value(value, row=7):
    changed = X.copy()
    changed[row, 1] = value
    return changed


def changed_sparse(value):
    changed = scipy.sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
    changed[7, 1] = value
    return changed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "form",
    [
        with_value,
        lambda value: np.asfortranarray(with_value(value)).astype(np.float32),
        lambda value: with_value(value).tolist(),
        lambda value: list(with_value(value)),
        lambda value: with_value(value).reshape(N, 2, 2),
        lambda value: pd.DataFrame(with_value(value)).assign(name="text"),
        lambda value: pd.DataFrame(with_value(value), index=np.arange(N) + 100),
        changed_sparse,
    ],
    ids=["array", "float32", "lists", "rows", "images", "frame", "index", "sparse"],
)
def test_not_finite(form, value):
    said = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"^X has {said} in row 7, and .* 0 of 3 candidates take"):
        search(REDUCTIONS).fit(form(value), Y)
    assert Counting.fits == 0


def test_rows_of_large_data_are_found_in_parts():
    many = np.zeros((3000, 1000), dtype=np.float32)
    many[2800, 5] = np.nan
    with pytest.raises(ValueError, match="^X has NaN in row 2800"):
        search(REDUCTIONS).fit(many, np.arange(3000) % 2)


class Own(TransformerMixin):
    """A transformer without tags, and so without a word on what it takes."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.nan_to_num(X)[:, 1:]


def imputed(*steps):
    return make_pipeline(SimpleImputer(), *steps)


@pytest.mark.parametrize(
    "taking",
    [
        imputed(PCA(3)),
        make_pipeline(StandardScaler(), imputed(PCA(3))),
        make_column_transformer((SimpleImputer(), [0, 1])),
        FunctionTransformer(np.nan_to_num),
        PrecomputedFeatures(X[:, :2]),
        Own(),
    ],
    ids=["pipeline", "nested", "columns", "function", "precomputed", "no tags"],
)
def test_candidates_that_take_missing_values_get_them(taking):
    transformers = [imputed(PCA(1)), taking, PCA(2)]
    with pytest.warns(CandidateFailedWarning, match="'c' could not be run .* NaN"):
        found = search(transformers).fit(with_value(np.nan), Y)
    assert found.left_out_ == ("c",) and sorted(found.reference_) == ["a", "b"]
    with pytest.raises(ValueError, match="X has NaN in row 7, .* 2 of 3 .* at least 3 must"):
        search(transformers, error_score="raise").fit(with_value(np.nan), Y)


def test_candidates_that_hand_missing_values_on():
    scalers = [StandardScaler(), MinMaxScaler(), StandardScaler(with_std=False)]
    with pytest.raises(ValueError, match="Only 0 of 3 .* on X, .* X has NaN in row 7. The trans"):
        search(scalers).fit(with_value(np.nan), Y)


@pytest.mark.parametrize(
    ("data", "y", "error", "words"),
    [
        (None, Y, TypeError, "^X must be array-like, .* Got None of type NoneType"),
        (3.0, Y, TypeError, "^X must be array-like, .* Got 3.0 of type float"),
        (np.array(3.0), Y, TypeError, "^X must be array-like"),
        (
            X[:0],
            Y[:0],
            ValueError,
            r"^X must have at least one sample. Got an array of shape \(0, 4",
        ),
        ([], [], ValueError, "^X must have at least one sample. Got a list of length 0"),
        (X[1:], Y, ValueError, "^X and y have inconsistent numbers of samples: 39 and 40"),
        (X.T, Y, ValueError, "^X and y have inconsistent numbers of samples: 4 and 40"),
        (X[:, 0], Y, ValueError, r"^X must have several numbers for .* of shape \(40,\)"),
        (
            X[:, 0].tolist(),
            Y,
            ValueError,
            "^X must have several numbers .* Got a list of length 40",
        ),
        (
            pd.Series(X[:, 0]),
            Y,
            ValueError,
            "^X must have several numbers .* Got a Series of shape",
        ),
        (X[:, :, None], Y, ValueError, r"^Only 0 of 3 .* run on X, an array of shape \(40, 4, 1\)"),
        (X[:, :0], Y, ValueError, r"^Only 0 of 3 .* on X, .* Found array with 0 feature\(s\)"),
        (X.astype(complex), Y, ValueError, "^Only 0 of 3 .* run on X, .* dtype complex128"),
        ([[1.0, 2.0], [3.0]] * 20, Y, ValueError, "^Only 0 of 3 .* run on X, a list of length 40"),
        (["a.png"] * N, Y, ValueError, "^Only 0 of 3 .* run on X, a list of length 40"),
    ],
)
def test_other_data(data, y, error, words):
    with pytest.raises(error, match=words):
        search(REDUCTIONS).fit(data, y)


def test_the_same_values_for_all_samples():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match="all candidates tied in the scores. X has the same"):
            search(REDUCTIONS).fit(np.ones((N, 4)), Y)
        # Features that belong to rows need no data.
        features = [PrecomputedFeatures(X[:, :width]) for width in (1, 2, 3)]
        assert np.isfinite(search(features).fit(np.ones((N, 1)), Y).best_score_)


def test_errors_of_floating_point_are_as_before():
    before = np.geterr()
    search(REDUCTIONS).fit(X, Y)
    assert np.geterr() == before


class Images(TransformerMixin, BaseEstimator):
    """Takes images, which its tags do not say."""

    stateless = True

    def __init__(self, start=0):
        self.start = start

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X).reshape(len(X), -1)[:, self.start :]


@pytest.mark.parametrize(
    "images", [X.reshape(N, 2, 2), list(X.reshape(N, 2, 2)), X.reshape(N, 1, 2, 2).tolist()]
)
def test_images_are_the_candidates_own_concern(images):
    assert search([Images(), Images(1), Images(2)]).fit(images, Y).left_out_ == ()
