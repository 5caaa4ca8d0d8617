"""Features from elsewhere: every row goes to its sample, or is refused."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.model_selection import TransferabilitySelector

RNG = np.random.default_rng(0)
F = RNG.normal(size=(30, 5)).astype(np.float32)
P = RNG.dirichlet(np.ones(4), size=30)
IDS = [f"images/{i}.png" for i in range(30)]
Y = np.arange(30) % 3

CHECKS = [
    checks.check_param_validation,
    checks.check_dataframe_column_names_consistency,
    checks.check_get_feature_names_out_error,
    checks.check_set_output_transform,
    checks.check_transformer_get_feature_names_out,
]


@parametrize_with_checks([PrecomputedFeatures()])
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
def test_more_conformance(check):
    check("PrecomputedFeatures", PrecomputedFeatures())


# -- by position -----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [IDS, np.arange(480, dtype=float).reshape(30, 4, 4), range(30), F])
def test_row_i_belongs_to_row_i(data):
    candidate = PrecomputedFeatures(F, P).fit(data)
    features, probabilities = candidate.extract(data)
    np.testing.assert_array_equal(features, F)
    np.testing.assert_array_equal(candidate.transform(data), F)
    np.testing.assert_array_equal(probabilities, P)
    np.testing.assert_array_equal(candidate.predict_proba(data), P)
    assert candidate.n_features_out_ == 5
    assert candidate.get_feature_names_out().tolist()[0] == "precomputedfeatures0"
    assert features.dtype == np.float32 and probabilities.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        features[0] = 0  # the array that was given
    for other in (data[::-1], data[1:], F[::-1]):
        with pytest.raises(ValueError, match="X is not the data that this Precomp.* fitted on"):
            candidate.transform(other)


def test_the_same_data_in_another_array_are_the_same():
    candidate = PrecomputedFeatures(F).fit(np.array(IDS))
    for same in (IDS, tuple(IDS), np.array(IDS, dtype=object)):
        np.testing.assert_array_equal(candidate.transform(same), F)


def test_files_are_not_read_for_their_features(tmp_path):
    paths = [tmp_path / f"{i}" for i in range(30)]
    paths[0].write_text("something")
    candidate = PrecomputedFeatures(F).fit(paths)
    paths[0].write_text("else")
    np.testing.assert_array_equal(candidate.transform(paths), F)


def test_lengths_must_agree():
    for parameters, message in (
        ({"features": F}, "'features' parameter of PrecomputedFeatures has 30 rows for 29 samples"),
        ({"features": F[:29], "probabilities": P}, "'probabilities' parameter .* has 30 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            PrecomputedFeatures(**parameters).fit(IDS[:29])


# -- by id -----------------------------------------------------------------------------------------


def test_ids_are_looked_up_in_any_order():
    pd = pytest.importorskip("pandas")
    candidate = PrecomputedFeatures(F, P, ids=IDS).fit(IDS[:7])
    order = RNG.permutation(30)
    wanted = [IDS[i] for i in order]
    for data in (
        wanted,
        tuple(wanted),
        np.array(wanted),
        np.array(wanted, dtype=object)[:, None],
        pd.Series(wanted),
        pd.DataFrame({"path": wanted}),
        [Path(path) for path in wanted],
    ):
        features, probabilities = candidate.extract(data)
        np.testing.assert_array_equal(features, F[order])
        np.testing.assert_array_equal(probabilities, P[order])
    np.testing.assert_array_equal(candidate.transform([IDS[3]] * 4), F[[3] * 4])
    features[0] = 0  # one's own


def test_ids_may_be_numbers_or_lie_in_a_file(tmp_path):
    numbers = np.arange(100, 130, dtype=np.int16)
    np.save(tmp_path / "ids.npy", numbers)
    for ids in (numbers, numbers.tolist(), tmp_path / "ids.npy", numbers.astype(float)):
        candidate = PrecomputedFeatures(F, ids=ids).fit([101])
        np.testing.assert_array_equal(candidate.transform(np.array([129, 100])), F[[29, 0]])
    with pytest.raises(ValueError, match="has no row for '101'; its ids are like 100"):
        PrecomputedFeatures(F, ids=numbers).fit(["101"])


@pytest.mark.parametrize(
    ("ids", "data", "message"),
    [
        (IDS, ["images/3.png", "x.png"], r"has no row for 'x.png'; its ids are like 'images/0.png"),
        (IDS, list("abcdefg"), "has no row for 'a', 'b', 'c', 'd', 'e' and 2 more"),
        ([*IDS[:-1], IDS[4]], IDS[:2], "each id once; 'images/4.png' is there 2 times"),
        (IDS[:-1], IDS[:2], "has 29 'ids' for 30 rows of 'features'"),
        ([*IDS[:-1], None], IDS[:2], "'ids' parameter .* got a missing value at position 29"),
        (IDS, ["images/3.png", np.nan], "X must be .* got a missing value at position 1"),
        (IDS, [["images/3.png"]], "X must be a sequence of ids.* got a list at position 0"),
    ],
)
def test_ids_that_are_wrong_are_named(ids, data, message):
    with pytest.raises(ValueError, match=message):
        PrecomputedFeatures(F, ids=ids).fit(data)


def test_an_unknown_id_is_refused_after_fit_too():
    candidate = PrecomputedFeatures(F, P, ids=IDS).fit(IDS)
    for method in (candidate.transform, candidate.predict_proba, candidate.extract):
        with pytest.raises(ValueError, match="has no row for 'new.png'"):
            method(["new.png"])


def test_ids_need_features():
    with pytest.raises(ValueError, match="'ids' parameter .* and 'features' is None"):
        PrecomputedFeatures(ids=IDS).fit(IDS)


# -- the data are the features ---------------------------------------------------------------------


def test_without_features_the_data_are_them():
    candidate = PrecomputedFeatures(probabilities=P).fit(F)
    features, probabilities = candidate.extract(F)
    np.testing.assert_array_equal(features, F)
    np.testing.assert_array_equal(probabilities, P)
    np.testing.assert_array_equal(candidate.transform(F[:3]), F[:3])
    with pytest.raises(ValueError, match="X is not the data"):
        candidate.predict_proba(F[:3])
    assert candidate.n_features_in_ == candidate.n_features_out_ == 5
    # another kind of fit forgets this one
    candidate.set_params(features=F, ids=IDS).fit(IDS)
    assert not hasattr(candidate, "n_features_in_")


def test_probabilities_only_where_they_were_given():
    candidate = PrecomputedFeatures(F).fit(IDS)
    assert not hasattr(candidate, "predict_proba")
    assert candidate.extract(IDS)[1] is None
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as raised:
        candidate.predict_proba(IDS)
    assert "given no 'probabilities'" in str(raised.value.__cause__)


# -- files and arrays ------------------------------------------------------------------------------


def test_a_file_stays_on_the_disk(tmp_path):
    np.save(tmp_path / "f.npy", F)
    for name in (tmp_path / "f.npy", str(tmp_path / "f.npy")):
        candidate = PrecomputedFeatures(name).fit(IDS)
        features = candidate.transform(IDS)
        assert isinstance(features.base.base, np.memmap)
        np.testing.assert_array_equal(features, F)
        with pytest.raises(ValueError, match="read-only"):
            features[0] = 0
        content = pickle.dumps(candidate)
        assert len(content) < 3000
        np.testing.assert_array_equal(pickle.loads(content).transform(IDS), F)
    candidate = PrecomputedFeatures(tmp_path / "f.npy", ids=IDS).fit(IDS)
    assert type(candidate.transform(IDS[:2])) is np.ndarray


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), (">f4", "f4"), ("i4", "f8"), ("u1", "f8")],
)
def test_numbers_of_any_kind_become_floats(dtype, order, expected):
    given = np.asarray(F * 9, dtype=dtype, order=order)
    features = PrecomputedFeatures(given).fit(IDS).transform(IDS)
    assert features.dtype == expected and features.dtype.isnative
    np.testing.assert_array_equal(features, given)


def test_what_is_no_matrix_of_numbers_is_refused(tmp_path):
    holes = F.copy()
    holes[17, 3] = np.nan
    large = np.ones((3000, 3000))
    large[2999, 0] = np.inf
    for given, message in (
        (F[:, 0], r"must be a matrix of numbers.* shape \(30,\)"),
        (F[None], r"must be a matrix of numbers.* shape \(1, 30, 5\)"),
        (F[:0], "must be a matrix of numbers"),
        (F.astype(complex), "dtype complex64|dtype complex128"),
        ([["a", "b"]], "must be a matrix of numbers"),
        ([[None, 1.0]], "dtype object"),
        (holes, "'features' .* NaN or infinite values, first in row 17"),
        (large, "first in row 2999"),
    ):
        with pytest.raises(ValueError, match=message):
            PrecomputedFeatures(given).fit(IDS)
    with pytest.raises(
        TypeError, match="'features' .* an array-like or None. Got <Compressed Sparse"
    ):
        PrecomputedFeatures(scipy.sparse.csr_matrix(F)).fit(IDS)
    with pytest.raises(ValueError, match="'probabilities' .* must not be negative, got -1"):
        PrecomputedFeatures(F, np.where(P.max() == P, -1, P)).fit(IDS)
    with pytest.raises(ValueError, match="'probabilities' .* NaN"):
        PrecomputedFeatures(F, np.full((30, 2), np.nan)).fit(IDS)


def test_files_that_are_no_array_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object))
    np.savez(tmp_path / "several.npz", F=F)
    np.save(tmp_path / "half.npy", F)
    os.truncate(tmp_path / "half.npy", 300)
    (tmp_path / "text.npy").write_text("not an array")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(F))
    for name in ("objects", "half", "text", "empty", "pickle", "missing"):
        with pytest.raises(
            ValueError, match=rf"'features' .*{name}.npy' is none or cannot be read"
        ):
            PrecomputedFeatures(tmp_path / f"{name}.npy").fit(IDS)
    with pytest.raises(ValueError, match=r"several.npz' is an archive of several"):
        PrecomputedFeatures(tmp_path / "several.npz").fit(IDS)


def test_clones_share_the_arrays():
    candidate = PrecomputedFeatures(F, P, IDS).set_output(transform="pandas").fit(IDS)
    copy = clone(candidate)
    assert copy.features is F and copy.probabilities is P and copy.ids is IDS
    assert not hasattr(copy, "n_features_out_")
    pytest.importorskip("pandas")
    frame = copy.fit(IDS).transform(IDS[:2])
    assert frame.shape == (2, 5) and list(frame.columns) == list(copy.get_feature_names_out())
    assert clone(PrecomputedFeatures(F)).fit(IDS).transform(IDS).base is not None


# -- beside other candidates -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_as_candidates_of_a_selection(tmp_path):
    np.save(tmp_path / "informative.npy", F + 3 * np.eye(3, 5)[Y])
    candidates = [
        ("noise", PrecomputedFeatures(F, P)),
        ("informative", PrecomputedFeatures(tmp_path / "informative.npy", P)),
        ("by id", PrecomputedFeatures(F[::-1].copy(), P[::-1].copy(), ids=IDS[::-1])),
    ]
    selector = TransferabilitySelector(
        candidates, ["hscore", "leep"], cv=2, memory=tmp_path / "store"
    ).fit(IDS, Y)
    assert selector.best_name_ == "informative"
    assert selector.scores_["noise"] == selector.scores_["by id"]
    assert not selector.cv_results_["from_store"].any()
    assert not list((tmp_path / "store").rglob("*.npy"))
    np.testing.assert_array_equal(selector.transform(IDS), np.load(tmp_path / "informative.npy"))
    with pytest.raises(ValueError, match="X is not the data"):
        selector.transform(IDS[::-1])
