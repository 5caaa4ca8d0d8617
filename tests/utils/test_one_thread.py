"""One thread inside, and afterwards what was before, whichever threads are inside at once."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - brings a BLAS of its own
from threadpoolctl import threadpool_info, threadpool_limits

from sktransfer.utils._one_thread import one_thread


def limits():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def test_limits_hold_inside_and_are_restored():
    with threadpool_limits(2):
        before = limits()
        assert set(before.values()) == {2}
        with one_thread():
            assert set(limits().values()) == {1}
            with one_thread():
                assert set(limits().values()) == {1}
            assert set(limits().values()) == {1}
        assert limits() == before
        with pytest.raises(ZeroDivisionError), one_thread():
            1 / 0  # noqa: B018
        assert limits() == before


def test_threads_that_overlap_are_all_limited():
    enter, leave = threading.Barrier(3, timeout=30), threading.Event()
    seen = {}

    def work(name):
        with one_thread():
            enter.wait()
            seen[name] = limits()
            if name == "long":
                leave.wait(30)
                seen["after the other one left"] = limits()

    with threadpool_limits(2):
        before = limits()
        threads = [threading.Thread(target=work, args=(name,)) for name in ("short", "long")]
        for thread in threads:
            thread.start()
        enter.wait()
        threads[0].join()
        leave.set()
        threads[1].join()
        assert {n for found in seen.values() for n in found.values()} == {1}
        assert len(seen) == 3
        assert limits() == before


TORCH = """
import sys
from sktransfer.utils._one_thread import one_thread
with one_thread():
    assert "torch" not in sys.modules
import torch
torch.set_num_threads(2)
with one_thread():
    assert torch.get_num_threads() == 1
assert torch.get_num_threads() == 2
"""


def test_torch_is_limited_where_somebody_has_imported_it():
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", TORCH], check=True)


def test_a_decomposition_has_the_same_bits():
    X = np.random.default_rng(0).normal(size=(300, 300))
    S = X + X.T
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads), one_thread():
            found.append(np.linalg.eigh(S)[1].tobytes())
    assert found[0] == found[1]
