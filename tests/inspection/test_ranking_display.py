import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.inspection import RankingDisplay
from sktransfer.model_selection import TransferabilitySelector

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

X, Y = load_iris(return_X_y=True)
SCORES = {"a": 0.1, "broken": np.nan, "b": 0.7, "c": 0.1, "lost": -np.inf, "d": -0.3}
LABELS = ["1. b", "2. a", "2. c", "4. d", "5. lost", "broken"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def labels(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def selector(**params):
    given = [("pca", PCA(1)), ("scaled", StandardScaler()), ("broken", PCA(9))]
    with pytest.warns(CandidateFailedWarning):
        return TransferabilitySelector(given, ["logme", "hscore"], **params).fit(X, Y)


# -- what is drawn ---------------------------------------------------------------------------------


def test_points_are_the_scores_from_the_best_down():
    display = RankingDisplay.from_scores(SCORES)
    assert labels(display) == LABELS
    np.testing.assert_allclose(
        display.points_.get_offsets(), [(0.7, 0), (0.1, 1), (0.1, 2), (-0.3, 3)]
    )
    low, high = display.ax_.get_ylim()
    assert low > high  # the first row is on top
    assert [(text.get_text(), text.xy[1]) for text in display.texts_] == [
        ("-inf", 4),
        ("failed", 5),
    ]
    assert display.errorbar_ is None
    assert display.ranks.tolist() == [2, 6, 1, 2, 5, 4]
    assert display.figure_ is display.ax_.figure


def test_bars_start_at_zero():
    display = RankingDisplay.from_scores(SCORES, kind="bar")
    assert labels(display) == LABELS
    assert [bar.get_width() for bar in display.points_] == [0.7, 0.1, 0.1, -0.3]
    assert {bar.get_x() for bar in display.points_} == {0}


def test_all_of_the_best_are_marked_and_not_by_colour_alone():
    tied = {"a": 1.0, "b": 1.0, "c": 0.5}
    points = RankingDisplay.from_scores(tied).points_
    sizes = points.get_sizes()
    assert sizes[0] == sizes[1] > sizes[2]
    bars = RankingDisplay.from_scores(tied, kind="bar").points_
    hatches = [bar.get_hatch() or "" for bar in bars]
    assert hatches[0] == hatches[1] != hatches[2]
    for colors in (points.get_facecolors(), [bar.get_facecolor() for bar in bars]):
        assert tuple(colors[0]) == tuple(colors[1]) != tuple(colors[2])
        luminance = [np.dot(color[:3], (0.2126, 0.7152, 0.0722)) for color in colors]
        assert abs(luminance[0] - luminance[2]) < 1  # drawn at all
        red_green = np.abs(np.subtract(colors[0], colors[2]))[:3]
        assert red_green[2] > 0.4  # they differ in blue, which red-green blindness leaves


@pytest.mark.parametrize("kind", ["point", "bar"])
def test_error_bars_are_paired_with_the_scores_by_name(kind):
    spread = {name: 0.01 * i for i, name in enumerate(sorted(SCORES))}
    spread["broken"] = np.nan
    display = RankingDisplay.from_scores(SCORES, spread=spread, kind=kind)
    (lines,) = display.errorbar_.lines[2]
    for name, row in zip("bacd", range(4), strict=True):
        (left, y0), (right, y1) = lines.get_segments()[row]
        assert y0 == y1 == row
        assert (left + right) / 2 == pytest.approx(SCORES[name])
        assert (right - left) / 2 == pytest.approx(spread[name])


def test_nothing_but_failures():
    display = RankingDisplay.from_scores({"a": np.nan, "b": np.nan}, spread=[np.nan, np.nan])
    assert labels(display) == ["a", "b"]
    assert [text.get_text() for text in display.texts_] == ["failed", "failed"]
    assert display.errorbar_ is None
    display.figure_.canvas.draw()


def test_series_and_arrays():
    series = pd.Series(SCORES)
    assert labels(RankingDisplay.from_scores(series, spread=series * 0)) == LABELS
    names = list(SCORES)
    for scores in (list(SCORES.values()), np.array(list(SCORES.values()))):
        assert labels(RankingDisplay.from_scores(scores, candidates=names)) == LABELS
    chosen = RankingDisplay.from_scores(SCORES, candidates=["d", "b"])
    assert labels(chosen) == ["1. b", "2. d"]
    assert labels(RankingDisplay.from_scores({3: 0.5, 4: 0.7})) == ["1. 4", "2. 3"]


def test_axis_label():
    display = RankingDisplay.from_scores(SCORES)
    assert display.ax_.get_xlabel() == "score"
    display = RankingDisplay.from_scores(SCORES, metric_name="LogME", spread_name="of 5 splits")
    assert display.ax_.get_xlabel() == "LogME\nof 5 splits"


def test_options_reach_matplotlib():
    display = RankingDisplay.from_scores(SCORES, point_kwargs={"marker": "s", "alpha": 0.5})
    assert display.points_.get_alpha() == 0.5
    display = RankingDisplay.from_scores(SCORES, kind="bar", bar_kwargs={"height": 0.2})
    assert display.points_[0].get_height() == pytest.approx(0.2)
    display = RankingDisplay.from_scores(
        SCORES, spread=[0.1] * 6, errorbar_kwargs={"ecolor": "red"}
    )
    np.testing.assert_allclose(display.errorbar_.lines[2][0].get_color()[0], (1, 0, 0, 1))


def test_axes_of_the_caller_are_used():
    figure, (left, right) = plt.subplots(1, 2)
    display = RankingDisplay.from_scores(SCORES, ax=right)
    assert display.ax_ is right and display.figure_ is figure
    assert not left.collections
    assert display.plot(ax=left) is display and display.ax_ is left
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("kind", ["point", "bar"])
@pytest.mark.parametrize("length", [3, 25, 90])
@pytest.mark.parametrize("n_candidates", [1, 30, 60])
def test_no_label_is_cut_off_and_none_overlap(n_candidates, length, kind):
    rng = np.random.default_rng(0)
    scores = {f"{i:02}".ljust(length, "m"): score for i, score in enumerate(rng.random(60))}
    scores = dict(list(scores.items())[:n_candidates])
    display = RankingDisplay.from_scores(
        scores,
        spread=dict.fromkeys(scores, 0.2),
        metric_name="logme",
        spread_name="mean ± standard deviation of 5 splits",
        kind=kind,
    )
    display.figure_.canvas.draw()
    frame = display.figure_.bbox
    left, right = display.ax_.get_xlim()
    ticks = [t for t in display.ax_.get_xticklabels() if left <= t.get_position()[0] <= right]
    assert len(ticks) > 1
    for text in [*ticks, *display.ax_.get_yticklabels(), display.ax_.xaxis.label]:
        box = text.get_window_extent()
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1 + 1, text
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1 + 1, text
    boxes = [text.get_window_extent() for text in display.ax_.get_yticklabels()]
    for above, below in zip(boxes, boxes[1:], strict=False):
        assert below.y1 < above.y0
    assert display.ax_.get_position().width > 0.15


# -- from a selector -------------------------------------------------------------------------------


def test_ranking_of_a_selector():
    fitted = selector()
    display = RankingDisplay.from_estimator(fitted)
    assert labels(display) == ["1. scaled", "2. pca", "broken"]
    assert display.ax_.get_xlabel() == "logme"
    assert display.errorbar_ is None
    other = RankingDisplay.from_estimator(fitted, metric="hscore", kind="bar")
    assert other.ax_.get_xlabel() == "hscore"
    assert other.points_[0].get_width() == fitted.metric_scores_["hscore"]["scaled"]


def test_spread_over_splits_of_a_selector():
    fitted = selector(cv=3)
    display = RankingDisplay.from_estimator(fitted)
    assert display.ax_.get_xlabel() == "logme\nmean ± standard deviation of 3 splits"
    np.testing.assert_array_equal(display.spread, fitted.cv_results_["std_logme"])
    assert display.errorbar_ is not None


def test_intervals_and_ties_of_a_selector():
    fitted = selector(n_resamples=40)
    found = fitted.uncertainty_["hscore"]
    display = RankingDisplay.from_estimator(fitted, metric="hscore")
    segments = display.errorbar_[2][0].get_segments()
    order = np.argsort(-found.scores[:2])
    np.testing.assert_allclose([s[:, 0] for s in segments], found.score_interval[order])
    assert len(display.bands_) == len(found.tied_with_best) == 1
    assert "95% interval" in display.ax_.get_xlabel()
    assert "told apart" in display.ax_.get_xlabel()


def test_shades_lie_behind_the_lines_of_the_tied():
    display = RankingDisplay(
        ["a", "b", "c"], [0.1, 0.7, 0.6], intervals=[[0, 0.2], [0.5, np.inf], [0.3, 0.9]]
    ).plot()
    assert display.bands_ == []
    display = RankingDisplay(["a", "b", "c"], [0.1, 0.7, 0.6], tied_with_best={"b", "c"}).plot()
    assert sorted(band.get_y() for band in display.bands_) == [-0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intervals": [[0, 1]]}, "'intervals' must have a lower and an upper limit"),
        ({"intervals": [[1, 0], [0, 1]]}, "'intervals' must have a lower and an upper limit"),
        ({"intervals": [[0, 1], [0, 1]], "spread": [1, 1]}, "only one can be shown"),
    ],
)
def test_wrong_intervals(options, message):
    with pytest.raises(ValueError, match=message):
        RankingDisplay(["a", "b"], [0.5, 0.6], **options).plot()


def test_wrong_estimators():
    with pytest.raises(NotFittedError):
        RankingDisplay.from_estimator(TransferabilitySelector([("pca", PCA(1))]))
    with pytest.raises(TypeError, match="must be a TransferabilitySelector. Got PCA instead"):
        RankingDisplay.from_estimator(PCA(1).fit(X))
    with pytest.raises(ValueError, match=r"one of \['logme', 'hscore'\]. Got 'leep'"):
        RankingDisplay.from_estimator(selector(), metric="leep")


# -- wrong input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"scores": [1.0, 2.0]}, "'candidates' must name the candidates"),
        ({"scores": [1.0, 2.0], "candidates": ["a"]}, "one score for each of the 1 candidates"),
        ({"scores": {"a": 1.0}, "candidates": ["a", "b"]}, r"'scores' has no value .* \['b'\]"),
        ({"scores": {"a": 1.0, "b": 2.0}, "spread": {"a": 1}}, r"'spread' has no value .* \['b'\]"),
        ({"scores": {"a": 1.0}, "spread": [-1.0]}, "'spread' must have a non-negative value"),
        ({"scores": {"a": 1.0}, "spread": [1.0, 2.0]}, "'spread' must have a non-negative value"),
        ({"scores": {"a": 1.0}, "kind": "pie"}, "'kind' must be 'point' or 'bar'. Got 'pie'"),
        ({"scores": {}}, "at least one score"),
    ],
)
def test_wrong_scores(options, message):
    with pytest.raises(ValueError, match=message):
        RankingDisplay.from_scores(**options)
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="RankingDisplay.plot requires matplotlib"):
        RankingDisplay.from_scores(SCORES)
