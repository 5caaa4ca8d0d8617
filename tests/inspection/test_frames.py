"""What tables of a study are read with."""

import pytest

from sktransfer.evaluation import stability_inter, stability_intra, stability_ref
from sktransfer.inspection._frames import common_reasons, shorten_reason, written

NAN = float("nan")
NUMBERS = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [5.0, 5.0, 5.0]]
NAMED = {"(a) for b": [1.0, NAN, 3.0], "b, and more": [2.0, 1.0, 1.0], "c in d": [0.0, 4.0, NAN]}


@pytest.mark.parametrize(
    "result, kind",
    [
        (stability_intra(NUMBERS, n_resamples=0), "all candidates tied"),
        (stability_intra(NUMBERS[:1], n_resamples=0), "fewer than 2 repeats"),
        (stability_intra(NAMED, n_resamples=0), "metric failed: no score"),
        (stability_intra([[1.0], [2.0]], n_resamples=0), "fewer than 2 candidates"),
        (stability_ref(NUMBERS, [1.0, 1.0, 1.0], n_resamples=0), "all candidates tied"),
        (stability_ref(NUMBERS[:2], [1.0, NAN, 1.0], n_resamples=0), "no reference value"),
        (stability_inter(NUMBERS, NUMBERS, n_resamples=0), "all candidates tied"),
        (stability_inter(NAMED, NAMED, n_resamples=0), "metric failed: no score"),
    ],
)
def test_reasons_of_the_project_are_reduced_to_their_kind(result, kind):
    assert shorten_reason(result.reason) == kind
    assert shorten_reason(kind) == kind


@pytest.mark.parametrize(
    "reason, kind",
    [
        (None, "no reason given"),
        (NAN, "no reason given"),
        (" ", "no reason given"),
        (
            "1 of 3 correlations undefined: metric failed: no score for 'x' in repeat 1, and more"
            " (ValueError: bad (really) data)",
            "metric failed: ValueError: bad (really) data",
        ),
        (
            "metric failed: no score for 'a' (1 of 4 candidates) in repeat 0; metric failed: no "
            "score for 'a' (1 of 4 candidates) in repeat 1 (not computed)",
            "metric failed: not computed",
        ),
        ("metric failed: ValueError: 1 class", "metric failed: ValueError: 1 class"),
        ("x" * 200, "x" * 89 + "…"),
    ],
)
def test_other_reasons(reason, kind):
    assert shorten_reason(reason) == kind


def test_reasons_are_counted_and_the_rarest_put_together():
    kinds = ["b", "a", "c", "a", "d", "d", "d"]
    assert common_reasons(kinds, 4) == [
        ({"d"}, "d", 3),
        ({"a"}, "a", 2),
        ({"b"}, "b", 1),
        ({"c"}, "c", 1),
    ]
    assert common_reasons(kinds, 3) == [
        ({"d"}, "d", 3),
        ({"a"}, "a", 2),
        ({"b", "c"}, "2 other reasons", 2),
    ]
    assert common_reasons([], 3) == []


def test_numbers_are_written_with_a_minus_sign_unless_they_are_zero():
    assert [written(value) for value in (-0.5, -0.004, 0.0, -0.0, 1)] == [
        "−0.50",
        "0.00",
        "0.00",
        "0.00",
        "1.00",
    ]
    assert written(-0.25, ".0%") == "−25%"
