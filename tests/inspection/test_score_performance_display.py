import copy
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from scipy.stats import kendalltau, weightedtau

from sktransfer.inspection import ScorePerformanceDisplay

NAN = float("nan")
COLUMNS = ["target", "metric", "candidate", "fraction", "repeat", "score", "status"]


def table(n_candidates=5, targets=("t",), metrics=("m",), fractions=(0.1, 0.5, 1.0), seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        (t, m, f"net{i}", f, r, rng.normal(), "done")
        for t in targets
        for m in metrics
        for i in range(n_candidates)
        for f in fractions
        for r in range(3 if f < 1 else 1)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def reference(n_candidates=5, seed=1):
    return dict(
        zip(
            [f"net{i}" for i in range(n_candidates)],
            np.random.default_rng(seed).random(n_candidates).tolist(),
            strict=True,
        )
    )


def points(display, panel=0):
    """Where the point of each text is."""
    places = {text.get_text(): tuple(text.xy) for text in display.texts_[panel]}
    drawn = {tuple(xy) for xy in display.points_[panel].get_offsets()}
    assert drawn == set(places.values())
    return places


# -- what is drawn ---------------------------------------------------------------------------------


def test_points_are_means_over_repeats_of_the_largest_fraction_that_has_several():
    frame, given = table(), reference()
    display = ScorePerformanceDisplay.from_frame(frame, given)
    means = frame[frame.fraction == 0.5].groupby("candidate").score.mean()
    assert points(display) == {n: (pytest.approx(means[n]), given[n]) for n in given}
    assert display.ax_.get_xlabel() == "m"
    assert display.ax_.get_ylabel() == "fine-tuned performance"
    title, below = display.ax_.get_title().split("\n")
    assert title == "t, 50 %"
    found = display.correlations_[0]
    expected = weightedtau([means[n] for n in given], list(given.values()))[0]
    assert found.statistic == pytest.approx(expected)
    values = [f"{v:.2f}".replace("-", "−") for v in (found.statistic, *found.interval)]
    assert below == "weighted τ {} ({} to {})".format(*values)
    assert display.legend_ is None and display.key_ is None


def test_bars_reach_over_repeats_and_seeds():
    frame = table()
    given = {name: [value, value + 0.2, value + 0.1] for name, value in reference().items()}
    scores = frame[frame.fraction == 0.1].groupby("candidate").score
    display = ScorePerformanceDisplay.from_frame(frame, given, fraction=0.1)
    horizontal, vertical = (lines.get_segments() for lines in display.errorbars_[0].lines[2])
    for line, name in zip(horizontal, display.candidates, strict=True):
        np.testing.assert_allclose(line[:, 0], (scores.min()[name], scores.max()[name]))
        np.testing.assert_allclose(line[:, 1], np.mean(given[name]))
    for line, name in zip(vertical, display.candidates, strict=True):
        np.testing.assert_allclose(line[:, 1], (min(given[name]), max(given[name])))
        np.testing.assert_allclose(line[:, 0], scores.mean()[name])
    display.plot(interval="std")
    lines = display.errorbars_[0].lines[2][0].get_segments()
    for line, name in zip(lines, display.candidates, strict=True):
        middle, half = scores.mean()[name], scores.std(ddof=0)[name]
        np.testing.assert_allclose(line[:, 0], (middle - half, middle + half))
    assert display.plot(interval=None).errorbars_ == [None]


def test_bars_only_where_something_spreads():
    display = ScorePerformanceDisplay.from_frame(table(), reference(), fraction=1.0)
    assert display.errorbars_ == [None]
    display = ScorePerformanceDisplay.from_frame(table(), reference())
    assert len(display.errorbars_[0].lines[2]) == 1  # a single seed


def test_candidates_without_score_are_crosses_and_not_in_the_correlation():
    frame, given = table(), reference()
    frame.loc[frame.candidate == "net1", "score"] = NAN
    frame.loc[frame.candidate == "net3", "status"] = "failed"  # with an error_score
    # One repeat of three.
    frame.loc[(frame.candidate == "net0") & (frame.repeat == 1), "score"] = NAN
    display = ScorePerformanceDisplay.from_frame(frame, given, coefficient="kendall")
    kept = ["net0", "net2", "net4"]
    means = frame[frame.fraction == 0.5].groupby("candidate").score.mean()
    assert set(points(display)) == set(kept)
    found = display.correlations_[0]
    assert found.n == 3
    assert found.statistic == pytest.approx(
        kendalltau([means[n] for n in kept], [given[n] for n in kept])[0]
    )
    assert [text.get_text() for text in display.legend_.get_texts()] == ["no score (2 candidates)"]
    crosses = [line for line in display.ax_.lines if line.get_marker() == "x"]
    heights = [height for line in crosses for height in line.get_ydata()]
    assert sorted(heights) == sorted([given["net1"], given["net3"]])


def test_candidates_that_the_reference_lacks_are_named():
    given = reference(4)
    display = ScorePerformanceDisplay.from_frame(table(), {**given, "other": 1.0})
    assert set(points(display)) == set(given)
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "not in the reference: net4"
    ]
    display = ScorePerformanceDisplay.from_frame(table(), {**given, "net4": NAN})
    assert set(points(display)) == set(given)
    display = ScorePerformanceDisplay.from_frame(table(metrics=("m", "n")), given)
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "not in the reference, or not for every target: net4"
    ]


def test_too_few_points_say_so():
    display = ScorePerformanceDisplay.from_frame(table(1), reference(1))
    title = display.ax_.get_title().replace("\n", " ")
    assert title == "t, 50 % weighted τ undefined: fewer than 2 candidates (1)"
    display.plot(coefficient=None)
    assert display.ax_.get_title() == "t, 50 %" and display.correlations_ == [None]


def test_nothing_but_failures(assert_nothing_is_cut_off):
    display = ScorePerformanceDisplay.from_frame(table().assign(score=NAN), reference())
    assert points(display) == {}
    assert display.legend_.get_texts()[0].get_text() == "no score (5 candidates)"
    assert_nothing_is_cut_off(display.figure_)


# -- references ------------------------------------------------------------------------------------


class Ranking:
    """The part of a ReferenceRanking that is read."""

    measures = ("accuracy", "auroc")

    def __init__(self):
        self.rows = [
            SimpleNamespace(candidate=f"net{i}", from_scratch=s, measure=m, seed=k, value=v)
            for i in range(5)
            for k in range(2)
            for s, m, v in (
                (False, "accuracy", i + 0.5 * k),
                (False, "auroc", 9 - i - k),
                (True, "auroc", 99.0),
            )
        ]


def test_any_reference():
    frame, given = table(), reference()
    expected = points(ScorePerformanceDisplay.from_frame(frame, given))
    for same in (pd.Series(given), {"t": given, "u": given}, {"t": pd.Series(given)}):
        assert points(ScorePerformanceDisplay.from_frame(frame, same)) == expected
    assert points(ScorePerformanceDisplay.from_frame(pl.from_pandas(frame), given)) == expected
    display = ScorePerformanceDisplay.from_frame(frame, Ranking())
    assert display.ax_.get_ylabel() == "accuracy"
    assert [points(display)[f"net{i}"][1] for i in range(5)] == [0.25, 1.25, 2.25, 3.25, 4.25]
    display = ScorePerformanceDisplay.from_frame(frame, {"t": Ranking()}, measure="auroc")
    assert display.ax_.get_ylabel() == "auroc"
    assert [points(display)[f"net{i}"][1] for i in range(5)] == [8.5, 7.5, 6.5, 5.5, 4.5]


def test_from_study(study):
    display = ScorePerformanceDisplay.from_study(study, target="iris", metric="logme")
    assert display.titles == ["iris, 50 %"]
    frame = study.to_frame().query("target == 'iris' & metric == 'logme' & fraction == 0.5")
    means = frame.groupby("candidate").score.mean()
    given = study.reference["iris"]
    assert points(display) == {n: (pytest.approx(means[n]), given[n]) for n in means.index}
    assert display.legend_ is None  # "broken" was not run here
    display = ScorePerformanceDisplay.from_study(study, target="other", fraction=1, names="name")
    assert set(points(display)) == {"noise", "pca1", "scaled"}
    notes = [text.get_text() for text in display.legend_.get_texts()]
    assert notes == ["no score (2 points, all panels together)"]  # "broken", by two metrics
    other = {name: value + 1 for name, value in given.items()}
    display = ScorePerformanceDisplay.from_study(study, other, target="iris", measure="AUC")
    assert display.ax_.get_ylabel() == "AUC"
    assert display.points_[0].get_offsets()[:, 1].min() > 1
    bare = copy.copy(study).set_params(reference=None)
    with pytest.raises(ValueError, match="'reference' must be given for a study without one"):
        ScorePerformanceDisplay.from_study(bare)
    with pytest.raises(TypeError, match="'study' must be a RobustnessStudy"):
        ScorePerformanceDisplay.from_study(None)


# -- names, panels and axes ------------------------------------------------------------------------


def test_numbers_stand_for_names_in_panels_best_first():
    frame = table(metrics=("m", "n"), targets=("t", "u"))
    given = {"t": reference(), "u": reference(seed=5)}
    display = ScorePerformanceDisplay.from_frame(frame, given)
    assert display.titles == ["t, 50 %", "t, 50 %", "u, 50 %", "u, 50 %"]
    assert [ax.get_xlabel() for ax in display.axes_] == ["m", "n", "m", "n"]
    best = sorted(given["t"], key=given["t"].get, reverse=True)
    assert [text.get_text() for text in display.key_.get_texts()] == [
        f"{place}  {name}" for place, name in enumerate(best, 1)
    ]
    for panel, target in enumerate("ttuu"):
        for number, (_, height) in points(display, panel).items():
            assert height == given[target][best[int(number) - 1]]


@pytest.mark.parametrize(
    "n_candidates, metrics, long, numbered",
    [
        (13, list("klmnopqr"), 0, True),
        (31, ["m"], 30, True),
        (16, ["m"], 0, False),
        (1, ["m"], 0, False),
    ],
)
def test_nothing_is_cut_off(n_candidates, metrics, long, numbered, assert_nothing_is_cut_off):
    frame = table(n_candidates, metrics=metrics)
    frame["candidate"] += "$_" * long
    given = {name + "$_" * long: [v, v + 0.1] for name, v in reference(n_candidates).items()}
    given.pop("net0" + "$_" * long) if n_candidates > 20 else None
    display = ScorePerformanceDisplay.from_frame(frame, given)
    assert (display.key_ is not None) == numbered
    key = display.key_.get_texts() if numbered else []
    # Names and numbers beside points keep off each other.
    assert_nothing_is_cut_off(display.figure_, *display.texts_, key)
    marks = display.ax_.transData.transform(display.points_[0].get_offsets())
    for text in display.texts_[0]:
        box = text.get_window_extent()
        covered = [box.x0 < x < box.x1 and box.y0 < y < box.y1 for x, y in marks]
        assert sum(covered) == 0


def test_names_that_must_move_away_have_a_line():
    rng = np.random.default_rng(0)
    names = [f"candidate{i:02}" for i in range(15)]
    scores = 0.5 + 0.002 * rng.random((15, 1))
    display = ScorePerformanceDisplay(
        [np.vstack([scores, [[0.0]]])],
        [np.vstack([scores[::-1], [[0.0]]])],
        candidates=[*names, "far"],
        titles=["t"],
        score_names=["m"],
    ).plot()
    lines = {text.get_text() for text in display.texts_[0] if text.arrow_patch is not None}
    assert lines and "far" not in lines


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_of_the_caller_are_used(layout, assert_nothing_is_cut_off):
    frame, given = table(31), reference(30)
    frame.loc[frame.candidate == "net3", "score"] = NAN
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
    display = ScorePerformanceDisplay.from_frame(frame, given, ax=left)
    assert display.ax_ is left and display.figure_ is figure and not right.collections
    assert plt.get_fignums() == [figure.number]
    assert_nothing_is_cut_off(figure)
    key = display.key_.get_window_extent()
    assert left.bbox.x1 <= key.x0 and key.x1 <= right.get_tightbbox().x0
    with pytest.raises(ValueError, match="one axes for each of the 1 panels. Got 2"):
        display.plot(ax=[left, right])
    with pytest.raises(TypeError, match="'ax' must be matplotlib axes"):
        display.plot(ax=3)


def test_options_reach_matplotlib():
    display = ScorePerformanceDisplay.from_frame(
        table(), reference(), point_kwargs={"s": 7}, errorbar_kwargs={"ecolor": "red"}
    )
    assert display.points_[0].get_sizes().tolist() == [7]
    np.testing.assert_allclose(display.errorbars_[0].lines[2][0].get_color()[0], (1, 0, 0, 1))
    display.plot(names="number")
    assert display.key_ is not None
    assert ScorePerformanceDisplay.from_frame(table(20), reference(20), names="name").key_ is None


# -- wrong input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, given, options, error, message",
    [
        (lambda f: f.drop(columns="score"), {}, {}, ValueError, r"lacks \['score'\]"),
        (lambda f: f[:0], reference(), {}, ValueError, "at least one row"),
        (
            lambda f: pd.concat([f, f[:1]]),
            reference(),
            {},
            ValueError,
            "two for target 't', metric 'm', fraction 0.1, candidate 'net0', repeat '0'.$",
        ),
        (lambda f: f.assign(score="x"), reference(), {}, ValueError, "'score' .* Got 'x' in row 0"),
        (lambda f: f, reference(), {"target": "u"}, ValueError, r"'target' must be among \['t'\]"),
        (lambda f: f, [1.0], {}, TypeError, "'reference' must be a dict or Series.*Got list"),
        (
            lambda f: f,
            {"a": 1.0},
            {},
            ValueError,
            "must have the candidates of 'frame'. It has none",
        ),
        (
            lambda f: f,
            {"u": {"a": 1.0}},
            {},
            ValueError,
            r"must have every target. It lacks \['t'\]",
        ),
        (lambda f: f, {}, {}, ValueError, r"must have every target. It lacks \['t'\]"),
        (
            lambda f: f,
            {"net0": "good"},
            {},
            ValueError,
            "a number, or several.*'good'.* for 'net0'",
        ),
        (lambda f: f, {"net0": [[1.0]]}, {}, ValueError, "a number, or several"),
        (lambda f: f, Ranking(), {"measure": "f1"}, ValueError, r"'measure' must be one of .*'f1'"),
        (lambda f: f, reference(), {"interval": "sem"}, ValueError, "'interval' must be one of"),
        (
            lambda f: f,
            reference(),
            {"coefficient": "r"},
            ValueError,
            "'coefficient' must be one of",
        ),
        (lambda f: f, reference(), {"names": "id"}, ValueError, "'names' must be one of"),
        (
            lambda f: pd.concat([f, f.assign(target="u")]),
            reference(),
            {},
            ValueError,
            r"a reference for each of the targets \['t', 'u'\], or one of them must be chosen",
        ),
        (
            lambda f: pd.concat([f[f.fraction == 0.1], f[f.fraction > 0.1].assign(metric="n")]),
            reference(),
            {"metric": "m", "fraction": 1.0},
            ValueError,
            "no row for the 'target', 'metric' and 'fraction' chosen",
        ),
    ],
)
def test_wrong_input(change, given, options, error, message):
    with pytest.raises(error, match=message):
        ScorePerformanceDisplay.from_frame(change(table()), given, **options)
    assert plt.get_fignums() == []


def test_wrong_arrays():
    names = {"candidates": ["a"], "score_names": ["m"]}
    with pytest.raises(ValueError, match="must have an entry for each of at least one panel"):
        ScorePerformanceDisplay([], [], titles=["t"], **names).plot()
    with pytest.raises(ValueError, match=r"a row for each of the 1 candidates. Got .*\(2, 1\)"):
        ScorePerformanceDisplay([[[1.0], [2.0]]], [[[1.0]]], titles=["t"], **names).plot()
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="ScorePerformanceDisplay.plot requires matplotlib"):
        ScorePerformanceDisplay.from_frame(table(), reference())
