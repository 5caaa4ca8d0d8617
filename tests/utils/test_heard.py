"""Warnings of one thread are collected, whatever other threads do."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from sktransfer.exceptions import NotConvergedWarning, UninformativeScoreWarning
from sktransfer.utils._announce import announce
from sktransfer.utils._heard import hear, heard_warnings


def test_warnings_are_collected_and_filters_restored():
    before, show = list(warnings.filters), warnings.showwarning
    with heard_warnings() as heard:
        warnings.warn("one", RuntimeWarning, stacklevel=1)
        announce("two", NotConvergedWarning)
        with heard_warnings() as inner:
            warnings.warn("three", UserWarning, stacklevel=1)
    assert heard == [(RuntimeWarning, "one"), (NotConvergedWarning, "two")]
    assert inner == [(UserWarning, "three")]
    assert warnings.filters == before
    assert warnings.showwarning is show
    assert not hear("four", UserWarning)
    with pytest.raises(ZeroDivisionError), heard_warnings():
        1 / 0  # noqa: B018
    assert warnings.filters == before


def test_each_thread_has_its_own():
    barrier = threading.Barrier(4, timeout=30)

    def work(name):
        with heard_warnings() as heard:
            barrier.wait()
            for _ in range(20):
                warnings.warn(f"{name} warns", UserWarning, stacklevel=1)
                # A library that silences its own warnings disturbs those of the process.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                announce(f"{name} announces", UninformativeScoreWarning)
            barrier.wait()
        return heard

    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        for name, heard in zip("abcd", pool.map(work, "abcd"), strict=True):
            said = [message for category, message in heard]
            assert said.count(f"{name} announces") == 20
            assert set(said) <= {f"{name} announces", f"{name} warns"}
    assert warnings.filters == before


def test_other_threads_give_their_warnings_meanwhile():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with heard_warnings() as heard:
            thread = threading.Thread(target=lambda: warnings.warn("loud", stacklevel=1))
            thread.start()
            thread.join()
    assert heard == []
    assert [str(warning.message) for warning in caught] == ["loud"]
