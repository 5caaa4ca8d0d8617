"""The order that only the content of rows decides."""

import numpy as np
import pytest

from sktransfer.metrics._canonical import (
    canonical_classes,
    canonical_order,
    row_keys,
    row_order,
    row_ranks,
)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(40, 7))


def test_the_order_of_rows_does_not_depend_on_how_they_came(rows):
    expected = rows[row_order(rows)]
    shuffled = rows[np.random.default_rng(1).permutation(40)]
    for same in (shuffled, np.asfortranarray(shuffled)):
        np.testing.assert_array_equal(same[row_order(same)], expected)
    single = rows.astype(np.float32)
    np.testing.assert_array_equal(row_order(single), row_order(single.astype(np.float64)))
    for changed in (rows * 3, rows + 5, rows * 1e-150, rows * 1e150):
        np.testing.assert_array_equal(row_order(changed), row_order(rows))


def test_equal_rows_have_equal_keys_wherever_they_stand(rows):
    for n_features in (1, 3, 64, 1000):
        X = np.random.default_rng(2).normal(size=(50, n_features))
        keys = row_keys(X)
        assert len(np.unique(keys)) == 50
        for start in (0, 1, 17, 49):
            np.testing.assert_array_equal(row_keys(X[start:]), keys[start:])
            assert row_keys(X[start : start + 1])[0] == keys[start]


def test_ranks_tell_equal_rows_from_others_exactly(rows):
    X = np.r_[rows, rows[:5], rows[:1] + 1e-16, [[-0.0] * 7, [0.0] * 7]]
    ranks = row_ranks(X)
    same = (X[:, None] == X).all(axis=2)
    np.testing.assert_array_equal(ranks[:, None] == ranks, same)
    assert sorted(set(ranks)) == list(range(len(np.unique(X, axis=0))))
    key = np.arange(len(X)) % 2
    np.testing.assert_array_equal(
        row_ranks(X, key)[:, None] == row_ranks(X, key), same & (key[:, None] == key)
    )


def test_classes_are_listed_by_size_and_then_by_content(rows):
    keys = rows[:, 0]
    codes = np.repeat([0, 1, 2, 3], [12, 5, 12, 11])
    classes = canonical_classes(keys, codes)
    assert [len(members) for members in classes] == [5, 11, 12, 12]
    for members in classes:
        assert len(set(codes[members])) == 1
        assert (np.diff(keys[members]) > 0).all()
    assert keys[classes[2]].min() < keys[classes[3]].min()


def test_order_and_classes_do_not_depend_on_order_or_names(rows):
    codes = np.random.default_rng(3).permutation(np.arange(40) % 4)
    order, classes = canonical_order(row_ranks(rows), codes)
    np.testing.assert_array_equal(np.bincount(classes), [10, 10, 10, 10])
    for number, members in enumerate(canonical_classes(row_ranks(rows), codes)):
        np.testing.assert_array_equal(np.sort(order[classes == number]), np.sort(members))
    for seed in range(5):
        shuffle = np.random.default_rng(seed).permutation(40)
        renamed = np.array([2, 0, 3, 1])[codes][shuffle]
        again, numbers = canonical_order(row_ranks(rows[shuffle]), renamed)
        np.testing.assert_array_equal(rows[shuffle][again], rows[order])
        np.testing.assert_array_equal(numbers, classes)
