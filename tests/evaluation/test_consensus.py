import itertools
import math
import pickle

import numpy as np
import pytest

from sktransfer.datasets import load_tiny_benchmark
from sktransfer.evaluation import consensus, rank_correlation

NAN = math.nan
SCORES = {
    "logme": {"a": 0.4, "b": 0.6, "c": -0.2, "d": 0.1},
    "pactran": {"d": -0.9, "c": -1.2, "b": -0.35, "a": -0.3},
    "knn": {"a": 0.8, "b": 0.9, "c": 0.7, "d": 0.7},
}


def beaten(scores, name):
    """Share of the other scored candidates that one beats, by counting pairs."""
    others = [value for other, value in scores.items() if other != name and value == value]
    return np.mean([(scores[name] > v) + (scores[name] == v) / 2 for v in others])


def test_ranks_are_counted_pairs():
    result = consensus(SCORES)
    for name in "abcd":
        assert result.scores[name] == pytest.approx(
            np.mean([beaten(scores, name) for scores in SCORES.values()])
        )
    assert result.best == ("b",) and result.ranks == {"b": 1, "a": 2, "d": 3, "c": 4}
    assert list(result.scores) == list("abcd") and result.relative_to_pool
    assert result.metric_ranks["knn"] == {"a": 2, "b": 1, "c": 3, "d": 3}
    assert result.weights == pytest.approx(dict.fromkeys(SCORES, 1 / 3))


def test_order_of_candidates_and_metrics_does_not_matter():
    expected = consensus(SCORES)
    for order in itertools.permutations(SCORES):
        for names in itertools.permutations("abcd"):
            shuffled = {metric: {n: SCORES[metric][n] for n in names} for metric in order}
            result = consensus(shuffled)
            assert result.scores == expected.scores
            assert result.best == expected.best
            for metric, left_out in result.without.items():
                other = expected.without[metric]
                assert left_out.ranks == other.ranks and left_out.kendall == other.kendall
                assert set(left_out.best) == set(other.best)


def test_leaving_each_metric_out_is_the_consensus_of_the_others():
    result = consensus(SCORES)
    for left_out in SCORES:
        others = consensus({m: s for m, s in SCORES.items() if m != left_out})
        found = result.without[left_out]
        assert found.ranks == others.ranks and set(found.best) == set(others.best)
        assert found.changes_best == (set(others.best) != set(result.best))
        expected = rank_correlation(result.scores, others.scores, n_resamples=0, n_permutations=0)
        assert found.kendall == pytest.approx(expected.statistic)
    assert result.depends_on == ("logme", "knn")
    assert consensus({"knn": SCORES["knn"]}).without == {}


def test_scores_on_a_fixed_scale_do_not_depend_on_the_others():
    scales = {"logme": (-0.5, 0.5), "pactran": (-2.3, 0.0), "knn": (0.1, 1.0)}
    options = {"method": "scores", "scales": scales, "weights": {"logme": 2.0}}
    result = consensus(SCORES, **options)
    by_hand = (2 * (0.4 + 0.5) + (2.3 - 0.3) / 2.3 + (0.8 - 0.1) / 0.9) / 4
    assert result.scores["a"] == pytest.approx(by_hand)
    fewer = consensus({m: {n: s[n] for n in "ac"} for m, s in SCORES.items()}, **options)
    assert fewer.scores == pytest.approx({n: result.scores[n] for n in "ac"})
    assert not result.relative_to_pool
    # By ranks it does depend on them, and says so.
    few = {m: {n: s[n] for n in "ac"} for m, s in SCORES.items()}
    assert consensus(few).scores["a"] != pytest.approx(consensus(SCORES).scores["a"])
    without_scales = consensus(SCORES, method="scores")
    assert without_scales.scores["d"] == pytest.approx((0.1 - 0.9 + 0.7) / 3)


def test_a_metric_that_failed_for_a_candidate():
    scores = {**SCORES, "leep": {"a": -1.0, "b": NAN, "c": -2.0, "d": -1.5}}
    result = consensus(scores)
    assert result.missing == {"b": ("leep",)} and result.best == ("b",)
    assert result.scores["b"] == pytest.approx(np.mean([beaten(SCORES[m], "b") for m in SCORES]))
    propagated = consensus(scores, nan_policy="propagate")
    assert math.isnan(propagated.scores["b"]) and propagated.ranks["b"] == 4
    assert "b" not in propagated.best
    on_scale = consensus(scores, method="scores")
    assert math.isnan(on_scale.scores["b"])
    assert consensus(scores, method="scores", nan_policy="omit").scores["b"] == pytest.approx(
        (0.6 - 0.35 + 0.9) / 3
    )
    with pytest.raises(ValueError, match="no score of candidate 'b' by 'leep'"):
        consensus(scores, nan_policy="raise")


def test_metrics_that_tell_nothing():
    constant = consensus({**SCORES, "pas": dict.fromkeys("abcd", 0.1)})
    assert constant.ranks == consensus(SCORES).ranks
    assert constant.uninformative == {"pas": "all candidates are tied"}
    silent = consensus({**SCORES, "nce": dict.fromkeys("abcd", NAN)})
    assert silent.scores == consensus(SCORES).scores and silent.weights["nce"] == 0
    assert silent.uninformative == {"nce": "it has no score of any candidate"}
    assert silent.without["nce"].kendall == 1 and not silent.without["nce"].changes_best
    nothing = consensus({"nce": dict.fromkeys("ab", NAN)})
    assert nothing.best == () and all(math.isnan(s) for s in nothing.scores.values())


def test_ties_one_candidate_and_plain_arrays():
    tied = consensus({"x": [1, 2, 3], "y": [3, 2, 1]})
    assert tied.best == (0, 1, 2) and set(tied.ranks.values()) == {1}
    one = consensus({"x": {"a": 3.0}, "y": {"a": NAN}})
    assert one.scores == {"a": 0.5} and one.best == ("a",)
    for scores in ({"x": [0.1, 0.2], "y": [np.inf, -np.inf]}, {"x": [-np.inf, 1], "y": [1, 0]}):
        assert set(consensus(scores).ranks.values()) == {1}


def test_weights():
    heavy = consensus(SCORES, weights={"pactran": 5})
    assert heavy.best == ("a",) and heavy.weights["pactran"] == pytest.approx(5 / 7)
    off = consensus(SCORES, weights={"knn": 0})
    assert off.scores == consensus({m: SCORES[m] for m in ("logme", "pactran")}).scores
    for huge in (1e-300, 1e300):
        assert consensus(SCORES, weights=dict.fromkeys(SCORES, huge)).best == ("b",)


def test_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(SCORES)
    result = consensus(frame)
    assert result.scores == consensus(SCORES).scores
    table = pd.DataFrame(result.columns())
    assert list(table["candidate"]) == ["b", "a", "d", "c"]
    assert list(table["rank_without_knn"]) == list(
        pd.Series(result.without["knn"].ranks)[table["candidate"]]
    )
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize(
    "scores, options, message",
    [
        ({}, {}, "at least one metric"),
        ([1, 2], {}, "must be a mapping from metrics"),
        ({"x": {}}, {}, "at least one candidate"),
        ({"x": {"a": 1}, "y": {"b": 1}}, {}, r"must have the same candidates: [^.]*\.$"),
        ({"x": {"a": np.inf}}, {"method": "scores"}, "Got one of candidate 'a' by 'x'"),
        ({"x": {"a": 1}, "y": {"a": "high"}}, {}, "real numbers"),
        (SCORES, {"method": "mean"}, "'method' must be"),
        (SCORES, {"weights": {"gbc": 1}}, "'weights' names 'gbc'"),
        (SCORES, {"weights": {"knn": -1}}, "at least 0. Got -1 for 'knn'"),
        (SCORES, {"weights": {"knn": True}}, "at least 0. Got True"),
        (SCORES, {"weights": [1, 2, 3]}, "must be a mapping"),
        (SCORES, {"weights": dict.fromkeys(SCORES, 0)}, "not be 0 for all"),
        (SCORES, {"scales": {"knn": (0, 1)}}, "belongs to method='scores'"),
        (SCORES, {"method": "scores", "scales": {"knn": (1, 0)}}, "the lower one first"),
        (SCORES, {"method": "scores", "scales": {"gbc": (0, 1)}}, "some of the metrics"),
        (SCORES, {"nan_policy": "ignore"}, "'nan_policy' must be"),
    ],
)
def test_wrong_input(scores, options, message):
    with pytest.raises(ValueError, match=message):
        consensus(scores, **options)


def test_two_good_metrics_are_no_worse_than_their_mean_on_the_bundled_benchmark():
    benchmark = load_tiny_benchmark(as_frame=False)
    cell = {"target": "digits", "train_size": 300}
    scores = {}
    for seed in benchmark.seeds:
        both = {
            metric: benchmark.scores(metric, seed=seed, **cell) for metric in ("logme", "pactran")
        }
        scores[seed] = consensus(both).scores
    together = benchmark.agreement(scores, **cell).kendall
    alone = [benchmark.agreement(metric, **cell).kendall for metric in ("logme", "pactran")]
    assert together >= np.mean(alone)
