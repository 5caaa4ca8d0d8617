"""Miniature populations against their definition, counted row by row."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone

from sktransfer.exceptions import (
    AmbiguousTargetWarning,
    EnlargedSubsetWarning,
    SharedRowsWarning,
)
from sktransfer.model_selection import NestedStratifiedSubsets

# The training part of DermaMNIST, by class.
DERMA = [228, 359, 769, 80, 779, 4693, 99]
FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1)
rng = np.random.default_rng(0)


def split(y, fractions=FRACTIONS, n_repeats=2, groups=None, X=None, random_state=0, **parameters):
    """The rows by repeat and fraction; most targets here are too small for the smallest ones."""
    subsets = NestedStratifiedSubsets(fractions, n_repeats, random_state, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnlargedSubsetWarning)
        found = list(subsets.split(np.zeros((len(y), 1)) if X is None else X, y, groups))
    assert len(found) == subsets.get_n_splits()
    return {(subset.repeat, subset.fraction): subset.indices for subset in found}


def check_nested(found):
    """Each subset is a set of rows and holds those of smaller fractions."""
    for (repeat, fraction), rows in found.items():
        assert rows.dtype == np.int64
        assert (np.diff(rows) > 0).all()
        for (other_repeat, other), others in found.items():
            if other_repeat == repeat and other <= fraction:
                assert set(others) <= set(rows)


def share(fraction, size):
    """The exact share, with 0.1 taken for a tenth."""
    return Fraction(str(fraction)) * int(size)


def deviations(rows, fraction, columns):
    """Differences from the share, by column of an indicator matrix."""
    return [
        abs(int(column[rows].sum()) - share(fraction, column.sum()))
        for column in np.asarray(columns).T
    ]


def indicators(y):
    y = np.asarray(y)
    return (y[:, None] == np.unique(y)).astype(int)


labels = st.lists(st.integers(0, 6), min_size=1, max_size=80)
some_fractions = st.lists(
    st.integers(1, 100).map(lambda percent: percent / 100), min_size=1, max_size=6, unique=True
)


def test_derma():
    y = rng.permutation(np.repeat(np.arange(7), DERMA))
    found = split(y)
    check_nested(found)
    for (_, fraction), rows in found.items():
        counts = np.bincount(y[rows], minlength=7)
        for count, size in zip(counts, DERMA, strict=True):
            assert abs(count - share(fraction, size)) < 1
            assert count >= 1
        assert abs(len(rows) - share(fraction, len(y))) <= 1.3
    assert len(found[0, 1.0]) == len(y)
    # 80 rows and 1 %: the class has its one row, and no other pays for it.
    assert len(found[0, 0.01]) in (70, 71)


@given(labels, some_fractions, st.integers(0, 3))
@settings(max_examples=50)
def test_every_class_is_within_one_of_its_share(y, fractions, seed):
    y = np.array(y)
    found = split(y, fractions, random_state=seed)
    check_nested(found)
    sizes = np.unique(y, return_counts=True)[1]
    for (_, fraction), rows in found.items():
        assert max(deviations(rows, fraction, indicators(y))) < 1
        assert set(y[rows]) == set(y)
        expected = sum(max(Fraction(1), share(fraction, size)) for size in sizes)
        assert abs(len(rows) - expected) < 1
        # All repeats have the same number of each class.
        np.testing.assert_array_equal(np.sort(y[rows]), np.sort(y[found[0, fraction]]))


@given(labels, some_fractions)
@settings(max_examples=25)
def test_a_subset_does_not_depend_on_the_other_fractions(y, fractions):
    found = split(np.array(y), fractions)
    for backwards in (fractions[::-1], [*fractions, 0.333, 0.001]):
        again = split(np.array(y), backwards, n_repeats=3)
        for key, rows in found.items():
            np.testing.assert_array_equal(again[key], rows)


def test_order_of_the_yields():
    subsets = NestedStratifiedSubsets(fractions=[0.5, 0.1, 1], n_repeats=2)
    found = list(subsets.split(np.zeros(40), np.arange(40) % 2))
    assert [tuple(subset)[1:] for subset in found] == [
        (fraction, repeat) for repeat in (0, 1) for fraction in (0.1, 0.5, 1.0)
    ]
    indices, fraction, repeat = found[0]
    assert (found[0].indices is indices, found[0].fraction, found[0].repeat) == (True, 0.1, 0)
    assert subsets.get_n_splits() == subsets.get_n_splits(None, None, None) == 6


def test_many_small_classes_do_not_round_in_one_direction():
    """Each of 300 classes has a share of 1.56 rows; rounding each would give 600."""
    y = np.repeat(np.arange(300), 13)
    rows = split(y, [0.12], 1)[0, 0.12]
    assert len(rows) == 468
    assert set(np.bincount(y[rows])) == {1, 2}


def test_who_gets_the_odd_row_is_drawn():
    """Two classes of 15 rows have 4.5 each, and 9 together."""
    y = np.repeat(np.arange(2), 15)
    draws = [split(y, [0.3], random_state=seed)[0, 0.3] for seed in range(20)]
    assert {len(rows) for rows in draws} == {9}
    assert {int((rows < 15).sum()) for rows in draws} == {4, 5}


def test_each_row_of_a_class_is_as_likely():
    y = np.array([0] * 30 + [1] * 10)
    inclusion = np.zeros(40)
    for rows in split(y, [0.5], 600).values():
        inclusion[rows] += 1 / 600
    # Five standard errors.
    assert np.abs(inclusion - 0.5).max() < 5 * np.sqrt(0.25 / 600)


def test_reproducible():
    y = np.arange(60) % 3
    first, again, other = split(y), split(y), split(y, random_state=1)
    for key, rows in first.items():
        np.testing.assert_array_equal(again[key], rows)
    assert any(not np.array_equal(other[key], rows) for key, rows in first.items())
    # Repeats differ, and more of them leave the first ones alone.
    more = split(y, n_repeats=4)
    assert all(np.array_equal(more[key], rows) for key, rows in first.items())
    assert not np.array_equal(more[0, 0.5], more[1, 0.5])


def test_random_states():
    y = np.arange(60) % 3
    state = np.random.RandomState(3)
    subsets = NestedStratifiedSubsets(random_state=state)
    pair = [list(subsets.split(y, y)) for _ in range(2)]
    assert any(not np.array_equal(one.indices, two.indices) for one, two in zip(*pair, strict=True))
    state = np.random.RandomState(3)
    again = list(NestedStratifiedSubsets(random_state=state).split(y, y))
    for one, two in zip(pair[0], again, strict=True):
        np.testing.assert_array_equal(one.indices, two.indices)
    # The generator is asked when split is called, not later.
    state = np.random.RandomState(3)
    waiting = NestedStratifiedSubsets(random_state=state).split(y, y)
    state.rand()
    np.testing.assert_array_equal(next(waiting).indices, again[0].indices)
    unseeded = NestedStratifiedSubsets(random_state=None)
    assert len(list(unseeded.split(y, y))) == 25
    # None is numpy's own generator, as everywhere in scikit-learn; a seed leaves it alone.
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    list(NestedStratifiedSubsets().split(y, y))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize(
    "rename",
    [
        lambda y: np.array(["b", "a", "zz"])[y],
        lambda y: np.array([7, -3, 1000])[y],
        lambda y: np.array(["b", "a", "zz"], dtype=object)[y],
        lambda y: y.astype(float)[:, None],
        lambda y: y.astype(np.uint8).tolist(),
    ],
    ids=["strings", "gaps", "objects", "float column", "list"],
)
def test_names_of_classes(rename):
    y = rng.permutation(np.repeat([0, 1, 2], [40, 25, 7]))
    given = rename(y)
    for (_, fraction), rows in split(given).items():
        assert max(deviations(rows, fraction, indicators(y))) < 1


def test_one_class_is_drawn_without_strata():
    found = split(np.zeros(50), n_repeats=1)
    check_nested(found)
    assert [len(found[0, f]) for f in (0.01, 0.1, 0.5, 1)] == [1, 5, 25, 50]


# --- several labels, values


@st.composite
def label_matrices(draw):
    n, d = draw(st.integers(2, 60)), draw(st.integers(2, 6))
    bits = draw(st.lists(st.integers(0, 2**d - 1), min_size=n, max_size=n))
    return (np.array(bits)[:, None] >> np.arange(d)) & 1


@given(label_matrices(), some_fractions)
@settings(max_examples=50)
def test_labels_are_within_their_number_of_their_shares(y, fractions):
    found = split(y, fractions)
    check_nested(found)
    for (_, fraction), rows in found.items():
        assert max(deviations(rows, fraction, y)) <= y.shape[1]
        np.testing.assert_array_equal(y[rows].any(axis=0), y.any(axis=0))
        assert len(rows) >= 1


def test_fourteen_labels_with_unique_rows():
    """As ChestMNIST, whose rows scikit-learn's own stratification takes for a class each."""
    y = np.unique(rng.random((1500, 14)) < np.linspace(0.02, 0.5, 14), axis=0).astype(np.uint8)
    y = rng.permutation(y)
    for (_, fraction), rows in split(y).items():
        if fraction >= 0.05:
            assert max(deviations(rows, fraction, y)) <= 2
        if fraction == 0.25:
            assert np.abs(y[rows].mean(axis=0) - y.mean(axis=0)).max() < 0.02


def test_a_rare_label_is_in_every_subset():
    y = (rng.random((400, 5)) < 0.4).astype(int)
    y[:, 2] = 0
    y[17, 2] = 1
    for rows in split(y).values():
        assert 17 in rows


def test_values_keep_their_distribution():
    y = rng.normal(size=400)
    deciles = np.digitize(y, np.quantile(y, np.arange(1, 10) / 10))
    found = split(y)
    check_nested(found)
    for (_, fraction), rows in found.items():
        assert max(deviations(rows, fraction, indicators(deciles))) < 1
        assert abs(len(rows) - share(fraction, 400)) < 1


def test_few_values_and_values_that_are_equal():
    found = split(np.linspace(0, 1, 12) ** 2, [0.01, 0.5], 1)
    assert [len(rows) for rows in found.values()] == [1, 6]
    y = np.repeat([0.5, 1.5], [90, 30])
    for (_, fraction), rows in split(y).items():
        assert max(deviations(rows, fraction, indicators(y))) < 1


def test_several_columns_of_values():
    y = rng.normal(size=(300, 3))
    found = split(y)
    check_nested(found)
    for (_, fraction), rows in found.items():
        for column in y.T:
            deciles = np.digitize(column, np.quantile(column, np.arange(1, 10) / 10))
            assert max(deviations(rows, fraction, indicators(deciles))) <= 3


def test_whole_numbers_are_classes_unless_said_otherwise():
    y = rng.permutation(np.arange(200))
    with pytest.warns(EnlargedSubsetWarning, match="200 classes.*0.05 has 200 of 200.*task="):
        found = list(NestedStratifiedSubsets([0.05, 0.1], 1).split(y, y))
    assert len(found[0].indices) == 200
    subsets = NestedStratifiedSubsets([0.05, 0.1], 1, task="regression")
    assert [len(subset.indices) for subset in subsets.split(y, y)] == [10, 20]
    with pytest.warns(AmbiguousTargetWarning, match="task='regression', for labels integers"):
        list(NestedStratifiedSubsets([1.0], 1).split(y, y.astype(float)))
    columns = np.stack([y, y % 7], axis=1)
    with pytest.raises(ValueError, match="use task='regression' or floats"):
        NestedStratifiedSubsets().split(y, columns)
    assert len(list(NestedStratifiedSubsets(task="regression").split(y, columns))) == 25


# --- groups


@st.composite
def grouped_labels(draw):
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=20))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    if draw(st.booleans()):
        codes = draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
        return np.array(codes)[groups], groups
    y = draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups)))
    return np.array(y), groups


def check_groups(found, groups):
    for rows in found.values():
        inside = np.isin(groups, groups[rows])
        np.testing.assert_array_equal(np.flatnonzero(inside), rows)


@given(grouped_labels(), some_fractions, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_groups_are_whole_and_shares_within_the_largest(target, fractions, shuffler):
    y, groups = target
    order = list(range(len(y)))
    shuffler.shuffle(order)
    y, groups = y[order], groups[order]
    found = split(y, fractions, groups=groups)
    check_nested(found)
    check_groups(found, groups)
    largest = np.bincount(groups).max()
    for (_, fraction), rows in found.items():
        assert max(deviations(rows, fraction, indicators(y))) <= largest
        assert len(rows) >= 1


@pytest.mark.parametrize("kind", ["one class each", "mixed", "one class and a few of another"])
def test_groups_of_many_rows(kind):
    n_groups = 400
    sizes = rng.geometric(0.3, n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    y = rng.choice(5, n_groups, p=[0.5, 0.3, 0.15, 0.04, 0.01])[groups]
    if kind == "mixed":
        y = rng.permutation(y)
    elif kind == "one class and a few of another":
        y = np.where(rng.random(len(y)) < 0.1, 0, y)
    names = np.array([f"patient {number}" for number in range(n_groups)])[groups]
    found = split(y, groups=names)
    check_nested(found)
    check_groups(found, names)
    for (_, fraction), rows in found.items():
        assert max(deviations(rows, fraction, indicators(y))) <= sizes.max()
        assert set(y[rows]) == set(y)


def test_a_class_is_left_out_where_its_groups_would_break_a_share():
    """Each rare class is in a group of its own with nine rows of the common one."""
    y = np.array(([0] * 9 + [1]) * 10 + [0] * 10)
    y[y == 1] = np.arange(1, 11)
    groups = np.arange(110) // 10
    rows = split(y, [0.01, 1], 1, groups=groups)[0, 0.01]
    assert len(rows) == 10
    assert set(y) - set(y[rows])


def test_groups_of_labels_and_of_values():
    groups = np.repeat(np.arange(150), rng.integers(1, 5, 150))
    labels = (rng.random((len(groups), 4)) < 0.3).astype(int)
    values, pairs = rng.normal(size=len(groups)), rng.normal(size=(len(groups), 2))
    for y in (labels, values, pairs):
        found = split(y, groups=groups)
        check_nested(found)
        check_groups(found, groups)
    for (_, fraction), rows in split(labels, groups=groups).items():
        assert max(deviations(rows, fraction, labels)) <= 4 * 4
    deciles = np.digitize(values, np.quantile(values, np.arange(1, 10) / 10))
    for (_, fraction), rows in split(values, groups=groups).items():
        assert max(deviations(rows, fraction, indicators(deciles))) <= 4


def test_groups_of_one_row_are_no_groups():
    y = rng.integers(0, 3, 90)
    alone, grouped = split(y), split(y, groups=rng.permutation(90))
    assert all(np.array_equal(grouped[key], rows) for key, rows in alone.items())


def test_groups_of_the_constructor_and_of_the_call():
    y = np.arange(60) % 3
    triples = np.repeat(np.arange(20), 3)
    stored, passed = split(y, groups=None), split(y, groups=triples)
    subsets = NestedStratifiedSubsets(FRACTIONS, 2, groups=triples.tolist())
    for subset in subsets.split(y, y):
        np.testing.assert_array_equal(subset.indices, passed[subset.repeat, subset.fraction])
    assert any(not np.array_equal(stored[key], rows) for key, rows in passed.items())
    # Those of the call take their place.
    pairs = np.arange(60) // 2
    check_groups(dict(enumerate(s.indices for s in subsets.split(y, y, pairs[:, None]))), pairs)


# --- the same rows in different groups


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rng.normal(size=(40, 8))[rows],
        lambda rows: rng.integers(0, 256, (40, 9, 9, 3), dtype=np.uint8)[rows],
        lambda rows: np.asfortranarray(rng.normal(size=(40, 300)).astype(np.float32)[rows]),
        lambda rows: [f"lesion_{row}.png" for row in rows],
        lambda rows: np.array([f"lesion_{row}.png" for row in rows]),
        lambda rows: rng.normal(size=(40, 3))[rows].tolist(),
    ],
    ids=["vectors", "images", "Fortran order", "paths", "array of paths", "lists"],
)
def test_shared_rows_are_announced(make):
    rows, groups, y = np.arange(40), np.arange(40) // 4, np.arange(40) % 2
    subsets = NestedStratifiedSubsets()
    list(subsets.split(make(rows), y, groups))
    rows[[13, 33]] = 2, 21
    rows[3] = 2  # in one group: nothing to say
    with pytest.warns(SharedRowsWarning, match="^2 rows occur .* row 13, which equals row 2:"):
        list(subsets.split(make(rows), y, groups))
    # Without groups there is nothing to cut.
    list(subsets.split(make(rows), y))


def test_shared_rows_of_frames():
    pd = pytest.importorskip("pandas")
    values = rng.normal(size=(40, 3))
    values[30] = values[1]
    groups, y = np.arange(40) // 4, np.arange(40) % 2
    with pytest.warns(SharedRowsWarning, match="^1 row occurs .* row 30, which equals row 1:"):
        list(NestedStratifiedSubsets().split(pd.DataFrame(values), y, groups))
    named = pd.DataFrame({"name": ["a", "b"] * 20, "value": np.arange(40)})
    list(NestedStratifiedSubsets().split(named, pd.Series(y), pd.Series(groups)))


def test_rows_that_only_look_alike_are_not_equal():
    X = np.zeros((20, 4000))
    X[:, 0] = 1
    # Not one of the places that are compared first.
    X[:, 17] = np.arange(20)
    list(NestedStratifiedSubsets().split(X, np.arange(20) % 2, np.arange(20) // 2))
    X[11] = X[4]
    with pytest.warns(SharedRowsWarning, match="row 11, which equals row 4"):
        list(NestedStratifiedSubsets().split(X, np.arange(20) % 2, np.arange(20) // 2))


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((20, 5)),
        np.ones((20, 1)),
        np.arange(20),
        [np.zeros(row % 3 + 1) for row in range(20)],
        [object()] * 20,
        np.array([[object(), None]] * 20, dtype=object),
        range(20),
        np.empty((20, 0)),
    ],
    ids=["black", "placeholder", "numbers", "ragged", "things", "objects", "range", "empty"],
)
def test_data_that_say_nothing_about_equal_rows(X):
    found = split(np.arange(20) % 2, groups=np.arange(20) // 2, X=X)
    assert len(found) == 14


# --- as a part of scikit-learn


def test_parameters_clone_and_repr():
    subsets = NestedStratifiedSubsets(fractions=[0.2, 0.4], n_repeats=3)
    assert repr(subsets) == "NestedStratifiedSubsets(fractions=[0.2, 0.4], n_repeats=3)"
    copy = clone(subsets).set_params(n_repeats=1)
    assert copy.get_params()["fractions"] == [0.2, 0.4]
    assert (subsets.get_n_splits(), copy.get_n_splits()) == (6, 2)
    with pytest.raises(ValueError, match="'n_repeats' parameter of NestedStratifiedSubsets"):
        copy.set_params(n_repeats=0).get_n_splits()


def test_groups_are_requested():
    with config_context(enable_metadata_routing=True):
        request = NestedStratifiedSubsets().get_metadata_routing()
        assert request.split.requests == {"groups": True}
        request = NestedStratifiedSubsets().set_split_request(groups="patient")
        assert request.get_metadata_routing().split.requests == {"groups": "patient"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fractions": [0.1, 0.5, 0.1]}, "different numbers. Got 0.1 more than once"),
        ({"fractions": [1, 1.0]}, "different numbers. Got 1.0 more than once"),
        ({"fractions": []}, "at least one number. Got none"),
        ({"fractions": [0.5, 0]}, "above 0 and at most 1.* Got 0 among them"),
        ({"fractions": [5, 10]}, "such as 0.05 for 5 %. Got 5 among them"),
        ({"fractions": [0.1, float("nan")]}, "Got nan among them"),
        ({"fractions": [True]}, "Got True among them"),
        ({"fractions": ["0.1"]}, "Got '0.1' among them"),
        ({"fractions": 0.5}, "must be an array-like. Got 0.5"),
        ({"n_repeats": 0}, r"int in the range \[1, inf\). Got 0"),
        ({"n_repeats": 2.5}, "Got 2.5"),
        ({"random_state": "x"}, "random_state.* Got 'x'"),
        ({"task": "ranking"}, "task.* Got 'ranking'"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        NestedStratifiedSubsets(**parameters)
    # set_params stores; the next call refuses.
    subsets = NestedStratifiedSubsets().set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        subsets.split(np.zeros(30), np.arange(30) % 3)


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        (None, None, "the target y is None; pass np.zeros"),
        (np.arange(29) % 2, None, "as many rows: X has 30, y has 29"),
        ([0.5, np.nan] * 15, None, "y contains NaN"),
        ([], None, "0 sample"),
        (np.zeros((30, 2, 2)), None, "3"),
        ([["a", "b"]] * 30, None, "must hold numbers"),
        (np.arange(30) % 2, np.arange(29), r"each of the 30 rows. Got an array of shape \(29,\)"),
        (np.arange(30) % 2, np.zeros((30, 2)), r"Got an array of shape \(30, 2\)"),
        (np.arange(30) % 2, [1.0, np.nan] * 15, "groups contains NaN"),
        (np.arange(30) % 2, np.array(["a", 1] * 15, dtype=object), "'groups' mixes"),
        (np.arange(30) % 2, np.array(["a", None] * 15, dtype=object), "'groups' mixes"),
    ],
)
def test_wrong_data(y, groups, message):
    """Refused by the call itself, not by the first step of the iterator."""
    with pytest.raises(ValueError, match=message):
        NestedStratifiedSubsets().split(np.zeros((30, 2)), y, groups)
