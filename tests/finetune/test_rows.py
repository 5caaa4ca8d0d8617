"""Rows for training: validation parts and batches."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from sktransfer.finetune._rows import BatchLoader, LabelledRows, TensorRows, validation_rows


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 5),
)
def test_every_class_gives_its_share_and_keeps_a_row(counts, fraction, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    n = len(codes)
    rows = validation_rows(codes, n, fraction, seed)
    np.testing.assert_array_equal(rows, np.unique(rows))
    held = np.bincount(codes[rows], minlength=len(counts))
    counts = np.array(counts)
    assert (held <= counts - 1).all()
    wanted = max(1, round(fraction * n))
    assert held.sum() == min(wanted, (counts - 1).sum())
    if (counts > wanted).all() and (held < counts - 1).all():
        assert (np.abs(held - wanted * counts / n) < 1 + 1e-9).all()
    np.testing.assert_array_equal(rows, validation_rows(codes, n, fraction, seed))


def test_no_classes_and_another_seed():
    rows = validation_rows(None, 50, 0.2, 0)
    assert len(rows) == 10
    assert not np.array_equal(rows, validation_rows(None, 50, 0.2, 1))
    assert len(validation_rows(None, 1, 0.5, 0)) == 0


@given(n=st.integers(1, 40), batch_size=st.integers(2, 9), n_workers=st.sampled_from([0, 2]))
def test_batches_hold_every_row_once_and_none_has_a_single_one(n, batch_size, n_workers):
    rows = LabelledRows(
        TensorRows(torch.arange(100.0)[:, None]), np.arange(n) * 2, torch.arange(n), torch.ones(n)
    )
    order = np.random.default_rng(0).permutation
    batches = list(BatchLoader(rows, batch_size, order, n_workers))
    targets = torch.cat([target for _, target in batches])
    assert sorted(targets.tolist()) == list(range(n))
    for (x, weight), target in batches:
        assert (x[:, 0] == target * 2).all()
        assert len(x) == len(weight) == len(target)
        assert 1 < len(x) <= batch_size + 1 or n == 1
    plain = list(BatchLoader(rows, batch_size))
    assert torch.cat([target for _, target in plain]).tolist() == list(range(n))
    assert len(plain) == -(-n // batch_size)


def test_a_single_item_and_its_target():
    rows = LabelledRows(TensorRows(torch.arange(10.0)[:, None]), [4, 2], torch.tensor([1, 0]))
    x, target = rows[1]
    assert (x.item(), target.item()) == (2.0, 0)
