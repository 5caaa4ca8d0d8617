"""Steps that are done, with an estimate of the time that is left."""

import pytest

from sktransfer.utils import _progress
from sktransfer.utils._progress import StepCounter, Steps, said_duration, steps_reported_to


def test_the_time_that_is_left_follows_the_work(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    seen = []
    counter = StepCounter(10, n_done=4, work=60.0)
    assert counter.add(1, 0.0, "nothing yet").seconds_left is None
    with steps_reported_to(seen.append):
        now[0] += 5
        counter.add(1, 20.0, "a")
        now[0] += 5
        counter.add(2, 40.0, "b")
    now[0] += 5
    assert counter.add(2, 5.0, "c") == Steps(10, 10, 0.0, "c")
    assert seen == [Steps(6, 10, 10.0, "a"), Steps(8, 10, 0.0, "b")]
    assert [str(steps) for steps in seen] == ["[6/10] a, 10 s left", "[8/10] b, 0 s left"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5900, "98 min"), (6000, "1.7 h")],
)
def test_durations(seconds, words):
    assert said_duration(seconds) == words
