import numpy as np
import pytest

from sktransfer.evaluation import competition_ranks

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    "scores, ranks",
    [
        ([3.0, 1.0, 2.0], [1, 3, 2]),
        ([0.5, 0.5, 0.1], [1, 1, 3]),
        ([4, 3, 3, 2], [1, 2, 2, 4]),
        ([1, 1, 1], [1, 1, 1]),
        ([NAN, 1.0, NAN, 2.0], [3, 2, 3, 1]),
        ([NAN, NAN], [1, 1]),
        ([-INF, NAN, 0.0, INF], [3, 4, 2, 1]),
        ([-0.0, 0.0], [1, 1]),
        ([7], [1]),
        ([True, False], [1, 2]),
        (np.array([2**62, 2**62 + 1]), [2, 1]),
        (np.float32([0.1, 0.2]), [2, 1]),
    ],
)
def test_ranks(scores, ranks):
    result = competition_ranks(scores)
    assert result.dtype == np.int64
    assert result.tolist() == ranks


def test_ranks_are_one_plus_the_number_of_higher_scores():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 9, size=40).astype(float)
    scores[rng.random(40) < 0.2] = NAN
    known = scores[~np.isnan(scores)]
    expected = [1 + (len(known) if np.isnan(s) else (known > s).sum()) for s in scores]
    assert competition_ranks(scores).tolist() == expected


def test_order_of_the_candidates_permutes_the_ranks_only():
    rng = np.random.default_rng(1)
    scores = np.array([0.1, NAN, 0.3, 0.3, -INF, NAN, 0.2])
    ranks = competition_ranks(scores)
    for _ in range(20):
        order = rng.permutation(len(scores))
        np.testing.assert_array_equal(competition_ranks(scores[order]), ranks[order])


def test_scores_are_not_changed():
    scores = np.array([0.1, NAN, 0.3])
    scores.flags.writeable = False
    competition_ranks(scores)
    np.testing.assert_array_equal(scores, [0.1, NAN, 0.3])


@pytest.mark.parametrize(
    "scores, message",
    [
        ([], r"at least one score. Got an array of shape \(0,\)"),
        (1.0, r"one-dimensional .* shape \(\)"),
        ([[1.0, 2.0]], r"one-dimensional .* shape \(1, 2\)"),
        (["a", "b"], "real numbers. Got dtype <U1"),
        ([1j, 2.0], "real numbers. Got dtype complex128"),
        ([None, 1.0], "real numbers. Got dtype object"),
    ],
)
def test_wrong_scores(scores, message):
    with pytest.raises(ValueError, match=message):
        competition_ranks(scores)
