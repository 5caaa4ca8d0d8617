"""Warnings point at the line of the caller."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sktransfer.exceptions import UninformativeScoreWarning
from sktransfer.metrics import GBC, KNN, HScore, LogME, MetricInputs, score_metrics
from sktransfer.utils._announce import announce

F, Y = np.zeros((30, 4)), np.arange(30) % 3


def line_of_warning(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    (warning,) = {(w.filename, w.lineno) for w in caught}
    return warning


@pytest.mark.parametrize(
    "work",
    [
        lambda: HScore().fit(F, Y),
        lambda: KNN().fit(F, Y),
        lambda: GBC().fit(F, Y),
        lambda: LogME().partial_fit(F, Y).score_,
        lambda: LogME().partial_fit(F, Y * 0).score_,
        lambda: MetricInputs(Y, features=F).fit("sfda"),
        lambda: score_metrics(F, Y, ["hscore", "transrate"]),
        lambda: cross_val_score(HScore(), F, Y, cv=3),
        lambda: announce("here", UninformativeScoreWarning),
    ],
)
def test_a_warning_points_at_the_line_of_the_caller(work):
    assert line_of_warning(work) == (__file__, work.__code__.co_firstlineno)
