import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from scipy.stats import kendalltau, rankdata, spearmanr, weightedtau

from sktransfer.datasets import load_medmnist_reference
from sktransfer.inspection import RankBumpDisplay

NAN = float("nan")
SCORES = {
    "accuracy": {"a": 0.9, "b": 0.7, "c": 0.7, "d": 0.7, "e": 0.1},
    "AUROC": {"e": 0.5, "a": 0.4, "b": 0.9, "c": NAN, "d": 0.5},
}


def table(n_candidates=5, n_repeats=4, targets=("t",), metrics=("m",), fractions=(0.05, 0.5)):
    rng = np.random.default_rng(0)
    rows = [
        (t, m, f, r, *(1 + rng.permutation(n_candidates)))
        for t in targets
        for m in metrics
        for f in fractions
        for r in range(n_repeats)
    ]
    names = [f"net{i}" for i in range(n_candidates)]
    return pd.DataFrame(rows, columns=["target", "metric", "fraction", "repeat", *names])


def names(display, side, panel=0):
    return [text.get_text().strip() for text in display.names_[panel][side]]


# -- what is drawn ---------------------------------------------------------------------------------


def test_lines_go_through_the_ranks_of_all_repeats():
    frame = table()
    display = RankBumpDisplay.from_frame(frame, fraction=0.5)
    assert display.ax_.get_title() == "t, m, 50 %" and display.ax_.get_xlabel() == "repeat"
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["0", "1", "2", "3"]
    shown = frame[frame.fraction == 0.5]
    for name, line in display.lines_[0].items():
        np.testing.assert_array_equal(line.get_xdata(), range(4))
        np.testing.assert_array_equal(line.get_ydata(), shown[name])
    first, last = (shown.iloc[place, 4:].sort_values() for place in (0, -1))
    assert names(display, 0) == [f"{name}  {rank}" for name, rank in first.items()]
    assert names(display, 1) == [f"{rank}  {name}" for name, rank in last.items()]
    low, high = display.ax_.get_ylim()
    assert low > high  # the best is on top
    assert display.legend_ is None


def test_ties_share_a_height_and_their_names_stand_below_each_other():
    display = RankBumpDisplay.from_scores({"x": SCORES["accuracy"], "y": SCORES["accuracy"]})
    heights = {name: line.get_ydata().tolist() for name, line in display.lines_[0].items()}
    assert heights == {"a": [1, 1], "b": [2, 2], "c": [2, 2], "d": [2, 2], "e": [5, 5]}
    assert names(display, 0) == ["a  1", "b  2", "c  2", "d  2", "e  5"]
    assert names(display, 1) == ["1  a", "2  b", "2  c", "2  d", "5  e"]
    display.figure_.canvas.draw()
    for side in (0, 1):
        boxes = [text.get_window_extent() for text in display.names_[0][side]]
        assert all(below.y1 < above.y0 + 1 for above, below in pairwise(boxes))
    counts = [(text.get_position(), text.get_text()) for text in display.ax_.texts[:2]]
    assert counts == [((0, 2), "3"), ((1, 2), "3")]
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "so many candidates share this rank"
    ]
    # From each name a line leads to the rank.
    ends = {
        tuple(line.get_ydata())
        for line in display.ax_.lines
        if line.get_xdata()[0] == pytest.approx(-0.42)
    }
    assert {(1, 1), (2, 2), (3, 2), (4, 2), (5, 5)} <= ends


def test_names_of_a_tie_are_ordered_by_where_their_lines_go():
    left = {"a": 1.0, "b": 1.0, "c": 1.0}
    display = RankBumpDisplay.from_scores({"x": left, "y": {"a": 0.1, "b": 0.3, "c": 0.2}})
    assert names(display, 0) == ["b  1", "c  1", "a  1"]


def test_a_candidate_without_a_score_is_a_cross_below_the_others():
    display = RankBumpDisplay.from_scores(SCORES)
    np.testing.assert_array_equal(display.lines_[0]["c"].get_ydata(), [2, NAN])
    assert names(display, 1) == ["1  b", "2  d", "2  e", "4  a", "–  c"]
    last = display.names_[0][1][-1]
    assert last.get_style() == "italic"
    assert "no score (1 rank)" in [text.get_text() for text in display.legend_.get_texts()]
    crosses = [line for line in display.ax_.lines if line.get_marker() == "x"]
    assert [line.get_xydata().tolist() for line in crosses] == [[[1, 5]]]
    dotted = [line for line in display.ax_.lines if line.get_linestyle() == ":"]
    assert [line.get_ydata().tolist() for line in dotted] == [[2, 5]]


def test_agreement_of_two_measures_is_that_of_scipy():
    published = load_medmnist_reference()
    panels = {
        target: {m: published.reference(target, m) for m in published.measures}
        for target in ("Breast", "OrganA", "Blood")
    }
    display = RankBumpDisplay.from_scores(panels)
    for ax, (target, panel) in zip(display.axes_, panels.items(), strict=True):
        sides = [list(side.values()) for side in panel.values()]
        found = [function(*sides)[0] for function in (kendalltau, weightedtau, spearmanr)]
        texts = [f"{value:.2f}".replace("-", "−").replace("−0.00", "0.00") for value in found]
        title, below = ax.get_title().split("\n")
        assert title == target
        assert below == "τ {},  weighted τ {},  ρ {}".format(*texts)
        for values, column in zip(sides, (0, 1), strict=True):
            expected = rankdata([-value for value in values], method="min")
            place = display.axes_.tolist().index(ax)
            drawn = [line.get_ydata()[column] for line in display.lines_[place].values()]
            np.testing.assert_array_equal(drawn, expected)


def test_agreement_is_undefined_with_ties_only_and_left_out_for_more_columns():
    tied = {"x": {"a": 1.0, "b": 1.0}, "y": {"a": 1.0, "b": 2.0}}
    display = RankBumpDisplay.from_scores(tied, coefficients=["kendall"])
    assert display.ax_.get_title() == "τ undefined"
    display = RankBumpDisplay.from_scores({**tied, "z": tied["y"]}, column_name="measure")
    assert display.ax_.get_title() == "" and display.ax_.get_xlabel() == "measure"
    assert RankBumpDisplay.from_scores(tied, coefficients=[]).ax_.get_title() == ""


def test_series_and_frames_of_polars():
    series = {name: pd.Series(side) for name, side in SCORES.items()}
    expected = RankBumpDisplay.from_scores(SCORES)
    for given in (series, pd.DataFrame(SCORES)):
        display = RankBumpDisplay.from_scores(given)
        for name, line in display.lines_[0].items():
            np.testing.assert_array_equal(line.get_ydata(), expected.lines_[0][name].get_ydata())
    frame = table()
    frame.loc[0, "net0"] = pd.NA
    expected = RankBumpDisplay.from_frame(frame)
    display = RankBumpDisplay.from_frame(pl.from_pandas(frame))
    assert names(display, 0) == names(expected, 0)
    assert names(display, 0)[-1] == "net0  –"


# -- panels and colours ----------------------------------------------------------------------------


def test_panels_are_chosen():
    frame = table(targets=("t", "u"), metrics=("m", "n"))
    assert RankBumpDisplay.from_frame(frame).titles == [
        "t, m, 5 %",
        "t, n, 5 %",
        "u, m, 5 %",
        "u, n, 5 %",
    ]
    display = RankBumpDisplay.from_frame(frame, target="u", metric=["n", "m"], fraction=[0.5, 0.05])
    assert display.titles == ["u, n, 50 %", "u, m, 50 %", "u, n, 5 %", "u, m, 5 %"]
    at = (frame.target == "u") & (frame.metric == "m") & (frame.fraction == 0.05)
    np.testing.assert_array_equal(display.lines_[3]["net1"].get_ydata(), frame[at].net1)


def test_fractions_may_have_different_repeats_and_columns_may_be_chosen():
    frame = table().query("fraction == 0.05 or repeat == 0").assign(n_samples=7)
    names_ = [f"net{i}" for i in range(5)]
    display = RankBumpDisplay.from_frame(frame, fraction=[0.05, 0.5], candidates=names_)
    assert [len(ax.get_xticks()) for ax in display.axes_] == [4, 1]
    assert display.names_[1][1] == []  # no second side for a single column
    assert "n_samples" not in display.lines_[0]


def test_colours_follow_the_first_ranks_or_those_highlighted():
    display = RankBumpDisplay.from_frame(table())
    order = [text.get_text().split()[0] for text in display.names_[0][0]]
    colors = np.array([to_rgb(display.lines_[0][name].get_color()) for name in order])
    luminance = colors @ (0.2126, 0.7152, 0.0722)
    assert (np.diff(luminance) > 0.03).all()  # in grey print as well
    assert luminance.max() < 0.75  # visible on white
    display.plot(highlight=["net3", "net1"])
    lines = display.lines_[0]
    assert len({line.get_color() for line in lines.values()}) == 3
    assert lines["net0"].get_color() == lines["net2"].get_color() != lines["net3"].get_color()
    assert lines["net3"].get_zorder() > lines["net0"].get_zorder()
    assert lines["net3"].get_linewidth() > lines["net0"].get_linewidth()
    weights = {t.get_text().split()[0]: t.get_weight() for t in display.names_[0][0]}
    assert [name for name, weight in weights.items() if weight == "bold"] == sorted(
        ["net1", "net3"], key=list(weights).index
    )
    display.plot(cmap=plt.get_cmap("cividis"), line_kwargs={"linewidth": 4})
    assert {line.get_linewidth() for line in display.lines_[0].values()} == {4}
    with pytest.raises(ValueError, match=r"'highlight' must be among .*Got 'net9'"):
        display.plot(highlight="net9")


def test_one_candidate_has_its_colour_in_all_panels():
    frame = table(targets=("t", "u"))
    display = RankBumpDisplay.from_frame(frame, highlight=["net4", "net2"])
    for name in ("net4", "net2"):
        assert display.lines_[0][name].get_color() == display.lines_[1][name].get_color()


# -- sizes and axes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_candidates, n_repeats, metrics, long",
    [
        (13, 5, list("klm"), 0),
        (31, 5, ["m"], 40),
        (1, 1, ["m"], 0),
        (1, 5, ["m"], 0),
        (5, 1, ["m"], 60),
    ],
)
def test_nothing_is_cut_off(n_candidates, n_repeats, metrics, long, assert_nothing_is_cut_off):
    frame = table(n_candidates, n_repeats, metrics=metrics, targets=["a target" + "x" * 3 * long])
    frame = frame.rename(
        columns=lambda name: name + "_$" * (long // 2) if name[:3] == "net" else name
    )
    # Ties, and candidates without a score.
    frame.iloc[:, 4:] = (frame.iloc[:, 4:] + 1) // 2
    frame.iloc[::2, -1] = NAN
    display = RankBumpDisplay.from_frame(frame)
    ticks = display.ax_.get_xticklabels()
    assert_nothing_is_cut_off(display.figure_, *display.names_[0], ticks)
    everything = [text for panel in display.names_ for side in panel for text in side]
    assert_nothing_is_cut_off(display.figure_, everything)


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_of_the_caller_are_used(layout, assert_nothing_is_cut_off):
    long = {m: {f"{n}_with_a_long_name": v for n, v in side.items()} for m, side in SCORES.items()}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
    display = RankBumpDisplay.from_scores(long, ax=right)
    assert display.ax_ is right and display.figure_ is figure and not left.lines
    assert plt.get_fignums() == [figure.number]
    assert_nothing_is_cut_off(figure, display.names_[0][0] + display.names_[0][1])
    assert left.get_tightbbox().x1 < right.get_tightbbox().x0
    assert right.bbox.width > 60
    with pytest.raises(
        ValueError, match="one axes for each of the 1 panels. Got 2. 'target', 'met"
    ):
        display.plot(ax=[left, right])


# -- from a study, and wrong input -----------------------------------------------------------------


def test_from_study(study):
    display = RankBumpDisplay.from_study(study, target="iris", metric="logme", fraction=0.5)
    assert display.titles == ["iris, logme, 50 %"]
    frame = study.rankings().query("target == 'iris' & metric == 'logme' & fraction == 0.5")
    drawn = {name: line.get_ydata().tolist() for name, line in display.lines_[0].items()}
    assert drawn == {name: frame[name].tolist() for name in ("noise", "pca1", "pca2", "scaled")}
    # Whoever was not run on a target is not there, and named.
    assert [text.get_text() for text in display.legend_.get_texts()] == ["without any rank: broken"]
    display = RankBumpDisplay.from_study(study, metric="hscore")
    assert display.titles == ["iris, hscore, 20 %", "other, hscore, 20 %"]
    assert set(display.lines_[1]) == {"noise", "pca1", "scaled"}
    notes = display.legend_.get_texts()[0].get_text().replace("\n", " ")
    assert notes == "without any rank, or not on every target: broken, pca2"
    with pytest.raises(TypeError, match="'study' must be a RobustnessStudy. Got int instead"):
        RankBumpDisplay.from_study(3)


def test_a_target_on_which_all_have_failed():
    display = RankBumpDisplay.from_frame(table().assign(**{f"net{i}": NAN for i in range(5)}))
    assert names(display, 0) == [f"net{i}  –" for i in range(5)]


@pytest.mark.parametrize(
    "change, options, message",
    [
        (lambda f: f.drop(columns="repeat"), {}, r"lacks \['repeat'\]"),
        (lambda f: f[["target", "metric", "fraction", "repeat"]], {}, "a column of ranks for each"),
        (
            lambda f: f.assign(net0=0),
            {},
            "'net0' of 'frame' must hold numbers of at least 1.*Got 0",
        ),
        (lambda f: f.assign(net0="first"), {}, "'net0' of 'frame' must hold numbers.*Got 'first'"),
        (
            lambda f: pd.concat([f, f[:1]]),
            {},
            "one row for each ranking. Got two for .* repeat '0'",
        ),
        (lambda f: f, {"candidates": ["net7"]}, r"lacks \['net7'\]"),
        (
            lambda f: f[f.fraction < 0.1].assign(metric="o"),
            {"metric": "m"},
            "'metric' must be among",
        ),
        (lambda f: f[:0], {}, "at least one row"),
    ],
)
def test_wrong_frames(change, options, message):
    with pytest.raises(ValueError, match=message):
        RankBumpDisplay.from_frame(change(table()), **options)
    assert plt.get_fignums() == []


def test_no_row_for_what_is_chosen():
    frame = table(metrics=("m", "n"))
    frame = frame[(frame.metric == "m") | (frame.fraction == 0.5)]
    with pytest.raises(ValueError, match="no row for the 'target', 'metric' and 'fraction' chosen"):
        RankBumpDisplay.from_frame(frame, metric="n", fraction=0.05)


@pytest.mark.parametrize(
    "scores, options, error, message",
    [
        ({"x": [1, 2]}, {}, TypeError, "'scores' must be a dict of measures"),
        ([1, 2], {}, TypeError, "'scores' must be a dict of measures"),
        ({}, {}, TypeError, "'scores' must be a dict of measures"),
        ({"x": {}}, {}, TypeError, "'scores' must be a dict of measures"),
        (
            {"x": {"a": 1, "b": 2}, "y": {"a": 1, "c": 2}},
            {},
            ValueError,
            r"same candidates in all columns. \['b', 'c'\] are in one only of 'x' and 'y'.$",
        ),
        (
            {"panel": {"x": {"a": 1}, "y": {"b": 1}}},
            {},
            ValueError,
            "only of 'x' and 'y' of 'panel'.$",
        ),
        ({"x": {"a": "best"}}, {}, ValueError, "'x' of 'scores' must hold numbers.*Got 'best'"),
        (SCORES, {"coefficients": ["tau"]}, ValueError, r"'coefficients' must be .* Got \['tau'\]"),
        (
            SCORES,
            {"coefficients": "kendall"},
            ValueError,
            "'coefficients' must be .* Got 'kendall'",
        ),
    ],
)
def test_wrong_scores(scores, options, error, message):
    with pytest.raises(error, match=message):
        RankBumpDisplay.from_scores(scores, **options)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("ranks", [{}, {"a": [1]}, {"a": 1}])
def test_wrong_arrays(ranks):
    with pytest.raises(ValueError, match="'ranks' of panel 'p' must have 2 ranks, one for each"):
        RankBumpDisplay([ranks], columns=[["x", "y"]], titles=["p"]).plot()
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="RankBumpDisplay.plot requires matplotlib"):
        RankBumpDisplay.from_scores(SCORES)
