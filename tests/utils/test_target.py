"""What a target is read as, and which targets and weights are refused."""

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sktransfer.exceptions import AmbiguousTargetWarning
from sktransfer.utils._target import (
    TASKS,
    as_labels,
    as_target_array,
    encode_target,
    refuse_masked,
)
from sktransfer.utils._weights import check_weights


def encode(y, task="auto", tasks=TASKS):
    return encode_target(np.asarray(y), tasks=tasks, name="Metric", task=task)


# ----------------------------------------------------------------------------- what it is read as


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([2, 0, 2, 5], [0, 2, 5]),
        ([-1, 7, -1, 3], [-1, 3, 7]),
        (["b", "a", "b", "c"], ["a", "b", "c"]),
        ([b"b", b"a", b"b", b"c"], [b"a", b"b", b"c"]),
        ([True, False, True, True], [False, True]),
        ([1.0, 3.0, 1.0, 1.0], [1.0, 3.0]),
        (np.array([255, 0, 255, 1], dtype=np.uint8), [0, 1, 255]),
        (np.array(["b", "a", "b", "c"], dtype=object), ["a", "b", "c"]),
        (np.array([2, 0, 2, 5], dtype=object), [0, 2, 5]),
        (np.array([np.int64(2), 1, np.True_, True], dtype=object), [1, 2]),
        (np.array([2**70, 1, 2**70, 1], dtype=object), [1, 2**70]),
        (np.array([Fraction(1, 2), 1, 1, 1], dtype=object), [Fraction(1, 2), 1]),
        (np.array([[3], [1], [3], [3]]), [1, 3]),
        (np.array([[True], [False], [True], [True]]), [False, True]),
        ([5, 5, 5, 5], [5]),
    ],
)
def test_labels(y, classes):
    y = np.asarray(y)
    target = encode(y)
    assert target.task == "classification"
    assert target.classes.tolist() == classes
    assert target.classes[target.codes].tolist() == y.ravel().tolist()
    assert target.codes.dtype == np.intp
    assert target.n_samples == 4
    assert target.n_outputs == len(target.classes)
    assert target.n_columns_given == 1
    one_hot = target.columns()
    assert one_hot.dtype == np.float64
    assert (one_hot.argmax(axis=1) == target.codes).all()
    assert (one_hot.sum(axis=1) == 1).all()
    assert (target.columns(slice(1, 3)) == one_hot[1:3]).all()


@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([0.5, 1.0, 2.0], "regression"),
        ([[0.5], [1.0], [2.0]], "regression"),
        ([[0.0, 2.0], [1.0, 1.0], [1.0, 0.0]], "regression"),
        ([[0, 1], [1, 1], [1, 0]], "multilabel"),
        ([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], "multilabel"),
        ([[True, False], [True, True], [False, False]], "multilabel"),
        (np.array([[0, 1], [1, 1], [1, 0]], dtype=object), "multilabel"),
        (np.array([0.5, 1, 2], dtype=object), "regression"),
    ],
)
def test_numbers(y, task):
    target = encode(y)
    assert target.task == task
    assert target.classes is None
    assert target.outputs.dtype == np.float64
    assert target.outputs.ndim == 2
    assert target.n_samples == 3
    assert target.n_outputs == target.n_columns_given == target.outputs.shape[1]
    np.testing.assert_array_equal(target.columns().ravel(), np.asarray(y, dtype=float).ravel())
    np.testing.assert_array_equal(target.columns(slice(2)), target.outputs[:2])


def test_a_task_can_be_asked_for():
    assert encode([1, 2, 2], task="regression").outputs.tolist() == [[1], [2], [2]]
    assert encode([[0, 1], [1, 1]], task="regression").task == "regression"
    assert encode([(1, 2), (3, 4)], task="regression").outputs.tolist() == [[1, 2], [3, 4]]
    assert encode([1.0, 2.0, 2.0], task="classification").classes.tolist() == [1, 2]
    assert encode([True, False], task="regression").outputs.tolist() == [[1], [0]]


def test_the_outputs_are_a_copy():
    y = np.array([[0.5, 1.5], [2.5, 3.5]])
    target = encode(y)
    y[:] = 0
    assert target.outputs.tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_rows_can_be_taken():
    target = encode(["b", "a", "c", "b"])
    some = target.take(np.array([True, False, False, True]))
    assert some.classes.tolist() == ["b"]
    assert some.codes.tolist() == [0, 0]
    some = target.take(np.array([2, 1]))
    assert some.classes.tolist() == ["a", "c"]
    assert some.codes.tolist() == [1, 0]
    assert encode([0.5, 1.5, 2.5]).take([2, 0]).outputs.tolist() == [[2.5], [0.5]]


def test_whole_floats_that_hardly_repeat_are_announced():
    rng = np.random.default_rng(0)
    for y in (np.arange(10.0), rng.integers(0, 300, 50).astype(float), 1e20 * rng.normal(size=9)):
        with pytest.warns(AmbiguousTargetWarning, match="read as class labels; for a regression"):
            assert encode(y).task == "classification"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert encode(y, task="classification").task == "classification"
            assert encode(y, task="regression").task == "regression"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode(np.arange(10))
        encode(np.arange(10.0) // 2)
        encode(np.array([0.0, 1.0]))


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("y", "task", "tasks", "words"),
    [
        ([0.5, 1.5], "auto", ("classification",), "for classification targets; got a regression"),
        (
            [[0, 1], [1, 1]],
            "auto",
            ("classification", "regression"),
            "for classification and regression targets; got a multilabel target y .2 columns",
        ),
        ([0.5, 1.5], "classification", TASKS, "Unknown label type.*fractional part"),
        ([[1, 2], [3, 4]], "classification", TASKS, "Unknown label type.*2 numeric columns"),
        ([0, 1], "multilabel", TASKS, "two or more columns of 0 and 1; got labels"),
        ([[0, 2], [1, 1]], "multilabel", TASKS, "two or more columns of 0 and 1; got 2 numeric"),
        ([[0, 3], [1, 1], [1, 0]], "auto", TASKS, "2 columns of whole numbers.*'regression'"),
        ([(1, 2)] * 3, "auto", TASKS, "several labels per sample.*or floats"),
        (np.array([[1, 2], [3, 4]], dtype=object), "auto", TASKS, "2 columns of whole numbers"),
        (np.array([[1, 2]], np.uint8), "auto", ("classification",), "got a regression target"),
        (np.array(["2020-01-01"] * 3, "datetime64[D]"), "auto", TASKS, "numbers; got .*datetime64"),
        (np.array([1, 2], "timedelta64[s]"), "regression", TASKS, "numbers; got .*timedelta64"),
        (np.array([(1,), (2,)], dtype=[("a", int)]), "auto", TASKS, "must hold strings or num"),
        (["a", "b"], "regression", TASKS, "must hold numbers; got dtype <U1"),
        ([["a", "b"], ["c", "d"]], "auto", TASKS, "shape .2, 2. must hold numbers"),
        (np.array(["a", 1], dtype=object), "auto", TASKS, "mixes numbers and strings"),
        (np.array(["a", b"a"], dtype=object), "auto", TASKS, "mixes bytes and strings"),
        (np.array([None, 1], dtype=object), "auto", TASKS, "mixes NoneType and numbers"),
        (np.array([None, None], dtype=object), "auto", TASKS, "values of type NoneType"),
        (np.array([{}, {}], dtype=object), "auto", TASKS, "strings or numbers; got .* type dict"),
    ],
)
def test_refused_targets(y, task, tasks, words):
    with pytest.raises(ValueError, match=words):
        encode(y, task=task, tasks=tasks)


def test_sequences_are_no_labels():
    y = np.empty(3, dtype=object)
    y[:] = [(1, 2), (3, 4), (1, 2)]
    with pytest.raises(ValueError, match="values of type tuple"):
        encode(y)


def test_masks_are_not_overlooked():
    y = np.ma.masked_array([0, 1, 0, 1], mask=[0, 0, 1, 0])
    with pytest.raises(ValueError, match="target y is a masked array with 1 of 4 values masked"):
        as_target_array(y)
    refuse_masked(np.ma.masked_array([0, 1]), "X")
    assert as_target_array(y.filled(1)).tolist() == [0, 1, 1, 1]


def test_arrays_that_scikit_learn_does_not_know():
    for kind in (sparse.csr_array, sparse.coo_matrix):
        with pytest.raises(TypeError, match="dense array; got a sparse one"):
            as_target_array(kind(np.eye(3)))
    names = np.array(["pear", "fig"], dtype=np.dtypes.StringDType())
    assert as_target_array(names).dtype.kind == "U"
    assert as_target_array(names).tolist() == ["pear", "fig"]
    for same in (np.arange(3), [1, 2], ("a",), None, "abc"):
        assert as_target_array(same) is same


def test_labels_of_objects():
    as_given = [
        (["x", "yy"], "U"),
        ([b"x", b"yy"], "S"),
        ([1, 2], "i"),
        ([1, 2.5], "f"),
        ([True, False], "b"),
        ([np.str_("x"), "y"], "U"),
        ([np.bool_(True), 2], "i"),
        ([Decimal(1), Decimal(2)], "O"),
    ]
    for values, kind in as_given:
        objects = np.array(values, dtype=object)
        labels = as_labels(objects, "y")
        assert labels.dtype.kind == kind
        assert labels.tolist() == values
        assert as_labels(objects[:, None], "y").shape == (2, 1)
    with pytest.raises(ValueError, match="The source labels must hold .* type date"):
        as_labels(np.array([datetime.date(2020, 1, 1)], dtype=object), "The source labels")


# ----------------------------------------------------------------------------------------- weights


def test_rows_of_weight_zero_are_left_out():
    X, target = np.arange(8.0).reshape(4, 2), encode(["b", "a", "c", "b"])
    rows, left, weight = check_weights([0, 2, 0, 1], X, target)
    assert rows.tolist() == [[2, 3], [6, 7]]
    assert left.classes.tolist() == ["a", "b"]
    assert weight.tolist() == [2, 1]
    assert check_weights(None, X, target) == (X, target, None)


def test_equal_relative_weights_are_none():
    X, target = np.arange(8.0).reshape(4, 2), encode(["b", "a", "c", "b"])
    assert check_weights(np.full(4, 3), X, target)[2] is None
    rows, left, weight = check_weights([3, 0, 3, 3], X, target)
    assert weight is None
    assert len(rows) == left.n_samples == 3
    # In a batch a weight counts against those of other batches.
    assert check_weights(np.full(4, 3), X, target, relative=False)[2].tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, -1, 1, 1], "Negative values"),
        ([1, np.nan, 1, 1], "NaN"),
        ([1, np.inf, 1, 1], "infinity"),
        ([0, 0, 0, 0], "zero"),
        ([1, 1, 1], "sample_weight.shape"),
        ([[1], [1], [1], [1]], "1D|1-D"),
        ([1, 1e-150, 1, 1], "between 1e-100 and 1e[+]100; got 1e-150"),
        ([1, 1, 1e300, 1], "between 1e-100 and 1e[+]100; got 1e[+]300"),
    ],
)
def test_refused_weights(weight, words):
    X, target = np.arange(8.0).reshape(4, 2), encode(["b", "a", "c", "b"])
    with pytest.raises(ValueError, match=words):
        check_weights(np.array(weight, dtype=float), X, target)
