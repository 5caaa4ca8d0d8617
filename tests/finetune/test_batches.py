"""Batches: every one holds triplets, no row twice, nothing depends on the order of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from sktransfer.finetune._batches import consecutive_batches, stratified_batches
from sktransfer.finetune._triplet import count_triplets
from sktransfer.metrics._canonical import canonical_classes


def deal(sizes, batch_size, seed=0):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    keys = np.random.default_rng(1).normal(size=len(codes))
    classes = canonical_classes(keys, codes)
    return codes, stratified_batches(classes, batch_size, np.random.default_rng(seed))


SIZES = st.one_of(
    st.lists(st.integers(1, 40), min_size=1, max_size=15),
    st.lists(st.integers(1, 3), min_size=1, max_size=60),
    st.tuples(st.integers(50, 300), st.integers(1, 3), st.integers(1, 2)).map(list),
    st.integers(1, 100).map(lambda n: [1] * n + [2, 3]),
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(sizes=SIZES, batch_size=st.integers(4, 40))
def test_every_batch_holds_triplets_and_no_row_is_in_two(sizes, batch_size):
    codes, batches = deal(sizes, batch_size)
    if len(sizes) == 1 or max(sizes) == 1:
        assert batches == []
        return
    assert batches
    assert all(count_triplets(codes[rows]) > 0 for rows in batches)
    rows = np.concatenate(batches)
    assert len(np.unique(rows)) == len(rows)
    assert max(map(len, batches)) <= batch_size + (4 if batch_size < 8 else 1)
    n_outside, n_pairs = len(codes) - max(sizes), sum(size // 2 for size in sizes)
    if len(rows) < len(codes):  # only where partners are scarce
        assert len(batches) == min(n_outside, n_pairs)
    elif batch_size >= 8:
        assert len(batches) == min(-(-len(codes) // batch_size), n_outside, n_pairs)


@pytest.mark.parametrize("n_samples", [64, 65, 97, 129, 640, 641])
def test_ordinary_data_are_used_up_in_batches_of_equal_size_and_shares(n_samples):
    sizes = [n_samples // 2, n_samples // 4, n_samples - n_samples // 2 - n_samples // 4]
    codes, batches = deal(sizes, 64)
    assert sorted(np.concatenate(batches).tolist()) == list(range(n_samples))
    assert len(batches) == -(-n_samples // 64)
    assert max(map(len, batches)) - min(map(len, batches)) <= 3
    shares = np.array([np.bincount(codes[rows], minlength=3) for rows in batches])
    assert (np.ptp(shares, axis=0) <= 3).all()


def test_small_classes_keep_their_pairs():
    # 100 classes of 3: dealt one by one, no batch would have two of a class.
    codes, batches = deal([3] * 100, 60)
    assert len(batches) == 5
    for rows in batches:
        assert (np.bincount(codes[rows]) >= 2).sum() >= 15


def test_a_scarce_class_limits_the_number_of_batches():
    codes, batches = deal([2, 1000], 20)
    assert len(batches) == 2
    assert [np.bincount(codes[rows])[0] for rows in batches] == [1, 1]
    assert all(len(rows) <= 21 for rows in batches)
    codes, batches = deal([1] * 500 + [2], 20)
    assert len(batches) == 1
    assert len(batches[0]) <= 21


def test_the_seed_decides_and_single_rows_that_are_left_out_vary():
    seen = {frozenset(deal([1] * 200 + [2], 20, seed)[1][0].tolist()) for seed in range(5)}
    assert len(seen) == 5
    for sizes in ([30, 40], [2, 300]):
        first, again, other = (deal(sizes, 20, seed)[1] for seed in (0, 0, 1))
        assert [rows.tolist() for rows in first] == [rows.tolist() for rows in again]
        assert [rows.tolist() for rows in first] != [rows.tolist() for rows in other]


def test_order_of_rows_and_names_of_classes_do_not_matter():
    rng = np.random.default_rng(0)
    keys, codes = rng.normal(size=90), rng.permutation(np.repeat([0, 1, 2], 30))
    expected = stratified_batches(canonical_classes(keys, codes), 20, np.random.default_rng(3))
    order = rng.permutation(90)
    renamed = np.array([2, 0, 1])[codes]
    found = stratified_batches(
        canonical_classes(keys[order], renamed[order]), 20, np.random.default_rng(3)
    )
    assert [keys[rows].tolist() for rows in expected] == [
        keys[order][rows].tolist() for rows in found
    ]


def test_consecutive_batches_cut_in_order():
    batches = consecutive_batches(13, 4)
    assert [rows.tolist() for rows in batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12],
    ]
    assert [rows.tolist() for rows in consecutive_batches(4, 2)] == [[0, 1], [2, 3]]
