"""Rows that are done are told to whoever listens, and to nobody else."""

import threading

import numpy as np
import pytest

from sktransfer.utils._progress import report_rows, rows_reported_to


def test_rows_are_told_inside_the_context_only():
    told = []
    report_rows(1, 9)
    with rows_reported_to(lambda *rows: told.append(rows)):
        report_rows(2, 9)
        with rows_reported_to(lambda *rows: told.append(("inner", *rows))):
            report_rows(3, 9)
        thread = threading.Thread(target=report_rows, args=(4, 9))
        thread.start()
        thread.join()
        report_rows(5, 9)
    report_rows(6, 9)
    assert told == [(2, 9), ("inner", 3, 9), (5, 9)]


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_backbone_tells_of_every_batch(n_workers):
    pytest.importorskip("torch", reason="backbones need torch")
    from sktransfer.backbones import TinyZooBackbone

    images = np.zeros((23, 28, 28), dtype=np.uint8)
    backbone = TinyZooBackbone("mnist_half", batch_size=10, n_workers=n_workers).fit(images)
    told = []
    with rows_reported_to(lambda *rows: told.append(rows)):
        backbone.transform(images)
    assert told == [(10, 23), (20, 23), (23, 23)]
