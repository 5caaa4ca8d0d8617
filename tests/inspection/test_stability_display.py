import sys

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from sklearn.base import clone

from sktransfer.evaluation import stability_intra
from sktransfer.inspection import StabilityDisplay

NAN = float("nan")
FRACTIONS = [0.05, 0.1, 0.25, 0.5, 0.75, 1.0]
COLUMNS = ["target", "metric", "fraction", "value", "n_repeats", "n_undefined", "reason"]


def table(targets=("a",), metrics=("m", "n"), fractions=FRACTIONS, seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        (t, m, f, rng.uniform(-1, 1), 5, 0, None)
        for t in targets
        for m in metrics
        for f in fractions
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def with_blanks():
    """A table with two reasons of different frequency, and a mean of some repeats only."""
    frame = table(("a", "b"), ("m", "n", "o"), [0.1, 0.2])
    tied = "2 of 10 correlations undefined: all candidates tied in repeat 3"
    failed = "1 of 10 correlations undefined: metric failed: no score for 'x' in repeat 0, and more"
    for row, reason in {0: tied, 4: tied.replace("3", "1"), 7: failed}.items():
        frame.loc[row, ["value", "n_undefined", "reason"]] = [NAN, 2, reason]
    frame.loc[9, "n_undefined"] = 1
    return frame


def unwrapped(text):
    return text.get_text().replace("\n", " ")


def contrast(first, second):
    """Contrast ratio of two colours by the definition of WCAG 2."""

    def luminance(color):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(to_rgb(first)), luminance(to_rgb(second))))
    return (high + 0.05) / (low + 0.05)


# -- what is drawn ---------------------------------------------------------------------------------


def test_each_value_stands_in_its_cell():
    frame = table(("a", "b"), ("m", "n", "o"))
    display = StabilityDisplay.from_frame(frame, kind="intra", coefficient="kendall")
    assert [ax.get_title() for ax in display.axes_] == ["a", "b"]
    assert display.ax_ is display.axes_[0] and display.figure_ is display.ax_.figure
    for place, target in enumerate("ab"):
        for row in frame[frame.target == target].itertuples():
            at = ("mno".index(row.metric), FRACTIONS.index(row.fraction))
            text = display.texts_[(place, *at)]
            assert text.get_position() == at[::-1]
            assert float(text.get_text().replace("−", "-")) == pytest.approx(row.value, abs=0.005)
            assert display.ims_[place].get_array()[at] == row.value
    ax = display.axes_[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["m", "n", "o"]
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks == ["5 %", "10 %", "25 %", "50 %", "75 %", "100 %"]
    low, high = ax.get_ylim()
    assert low > high  # the first metric is on top
    assert unwrapped(display.colorbar_.ax.yaxis.label) == "Kendall's τ between repeats"
    assert display.legend_ is None


def test_colours_are_centred_at_zero_and_values_readable_on_them():
    values = np.linspace(-1, 1, 41)
    frame = pd.DataFrame(
        {"target": "a", "metric": "m", "fraction": np.arange(1, 42) / 41, "value": values}
    )
    display = StabilityDisplay.from_frame(frame)
    (image,) = display.ims_
    assert image.get_clim() == (-1, 1)
    colors = image.cmap(image.norm(values))
    assert min(colors[20][:3]) > 0.93  # the middle is white
    negative, positive = colors[4], colors[-5]
    assert negative[0] > 0.6 > positive[0] and positive[2] > 0.6 > negative[2]  # red, and blue
    for value, text, color in zip(values, display.texts_[0, 0], colors, strict=True):
        assert contrast(text.get_color(), color) >= 4.5
        other = "white" if text.get_color() == "black" else "black"
        assert contrast(other, color) <= contrast(text.get_color(), color)
        assert text.get_text() == f"{value:.2f}".replace("-", "−").replace("−0.00", "0.00")


def test_what_rounds_to_zero_has_no_sign():
    frame = {"target": ["a"] * 2, "metric": ["m"] * 2, "fraction": [0.1, 0.2]}
    display = StabilityDisplay.from_frame({**frame, "value": [-0.001, -0.3]})
    assert [text.get_text() for text in display.texts_.ravel()] == ["0.00", "−0.30"]


def test_blank_cells_are_hatched_by_reason_and_counted():
    display = StabilityDisplay.from_frame(with_blanks())
    notes = [unwrapped(text) for text in display.legend_.get_texts()]
    assert notes == [
        "undefined: all candidates tied (2 cells)",
        "undefined: metric failed: no score (1 cell)",
        "mean of those repeats only whose correlation is defined",
    ]
    (first, second), (third,) = display.blanks_
    assert first.get_xy() == (-0.5, -0.5) and second.get_xy() == (-0.5, 1.5)
    assert first.get_hatch() == second.get_hatch() != third.get_hatch()
    patches = display.legend_.legend_handles
    assert [patch.get_hatch() for patch in patches[:2]] == [first.get_hatch(), third.get_hatch()]
    assert contrast(first.get_facecolor(), "white") > 1.2  # not the white of a zero
    assert contrast(first.get_edgecolor(), first.get_facecolor()) > 2
    assert display.texts_[0, 0, 0] is None and display.texts_[0, 2, 0] is None
    assert display.texts_[1, 1, 1].get_text().endswith("*")
    starred = [text for text in display.texts_.ravel() if text and "*" in text.get_text()]
    assert len(starred) == 1


def test_cells_that_are_in_no_row_are_blank_too():
    frame = table(("a", "b"), ("m", "n")).drop(index=[3])
    display = StabilityDisplay.from_frame(frame)
    assert [t.get_text() for t in display.legend_.get_texts()] == [
        "undefined: not in the table (1 cell)"
    ]


def test_rare_reasons_share_a_hatch():
    frame = table(("a",), list("mnopq"), [0.1, 0.2])
    for row in range(7):
        frame.loc[row, ["value", "reason"]] = [NAN, f"metric failed: error {max(row, 1)}"]
    display = StabilityDisplay.from_frame(frame)
    notes = [text.get_text() for text in display.legend_.get_texts()]
    assert notes[0] == "undefined: metric failed: error 1 (2 cells)"
    assert notes[-1] == "undefined: 3 other reasons (3 cells)"
    assert len(notes) == 4
    assert len({blank.get_hatch() for blank in display.blanks_[0]}) == 4


def test_repeats_are_averaged_and_their_mean_is_undefined_where_one_is():
    rows = [("a", "m", 0.1, r, v, None) for r, v in enumerate([0.2, 0.4, 0.9])]
    rows += [("a", "n", 0.1, 0, 0.5, None), ("a", "n", 0.1, 1, NAN, "all candidates tied")]
    frame = pd.DataFrame(rows, columns=COLUMNS[:3] + ["repeat", "value", "reason"])
    display = StabilityDisplay.from_frame(frame, kind="reference", coefficient="spearman")
    np.testing.assert_allclose(display.values, [[[0.5], [NAN]]])
    assert display.legend_.get_texts()[0].get_text() == "undefined: all candidates tied (1 cell)"
    assert display.value_name == "Spearman's ρ with the reference"


def test_measures_have_panels_of_their_own():
    frame = pd.concat([table(("a", "b"), seed=s).assign(measure=m) for s, m in enumerate("xy")])
    display = StabilityDisplay.from_frame(frame)
    assert display.titles == ["a, x", "b, x", "a, y", "b, y"]
    chosen = frame[(frame.target == "b") & (frame.measure == "y")]
    np.testing.assert_array_equal(display.values[3].ravel(), chosen.value)


def test_targets_and_metrics_are_chosen_and_ordered():
    frame = table(("a", "b", "c"), ("m", "n", "o"))
    display = StabilityDisplay.from_frame(frame, target=["c", "a"], metric=["o", "m"])
    assert display.titles == ["c", "a"] and display.metrics == ["o", "m"]
    chosen = frame[(frame.target == "c") & (frame.metric == "o")]
    np.testing.assert_array_equal(display.values[0, 0], chosen.value)
    assert len(StabilityDisplay.from_frame(frame, target="b").axes_) == 1


@pytest.mark.parametrize("kind", ["polars", "dict", "nullable"])
def test_any_frame(kind):
    frame = with_blanks()
    given = {
        "polars": lambda: pl.from_pandas(frame),
        "dict": lambda: {name: list(frame[name]) for name in frame},
        "nullable": lambda: frame.convert_dtypes(),
    }[kind]()
    expected = StabilityDisplay.from_frame(frame)
    display = StabilityDisplay.from_frame(given)
    np.testing.assert_array_equal(display.values, expected.values)
    notes = [[text.get_text() for text in d.legend_.get_texts()] for d in (display, expected)]
    assert notes[0] == notes[1]


def test_the_table_of_a_real_computation():
    """Values and reasons of the project's own stability are those that are drawn."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(4, 6))
    results = {"m": stability_intra(scores, n_resamples=0)}
    scores[1] = 0.5
    results["n"] = stability_intra(scores, n_resamples=0)
    frame = pd.DataFrame(
        [("a", k, 0.1, r.statistic, 4, r.n_undefined, r.reason) for k, r in results.items()],
        columns=COLUMNS,
    )
    display = StabilityDisplay.from_frame(frame)
    assert display.values[0, 0, 0] == results["m"].statistic
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "undefined: all candidates tied (1 cell)"
    ]


# -- sizes and axes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_targets, n_metrics, n_fractions, long",
    [(8, 8, 6, False), (3, 19, 6, True), (1, 1, 1, False), (1, 1, 6, True), (2, 5, 1, True)],
)
def test_nothing_is_cut_off(n_targets, n_metrics, n_fractions, long, assert_nothing_is_cut_off):
    metrics = [f"metric{i}" + ".with_a_long_name$" * (2 * long) for i in range(n_metrics)]
    targets = [f"target{i}" + " and_what_it_is_called" * (4 * long) for i in range(n_targets)]
    frame = table(targets, metrics, FRACTIONS[:n_fractions])
    frame.loc[0, ["value", "reason"]] = [NAN, "metric failed: " + "a long message of an error " * 5]
    display = StabilityDisplay.from_frame(frame, kind="ref", coefficient="weighted_kendall")
    values = [text for text in display.texts_[0].ravel() if text is not None]
    titles = [ax.title for ax in display.axes_]
    names = display.ax_.get_yticklabels()
    assert_nothing_is_cut_off(display.figure_, values, names, titles)
    for text in values:
        # Values stay within their cells.
        box = text.get_window_extent().transformed(display.ax_.transData.inverted())
        column, row = text.get_position()
        assert box.x0 > column - 0.5 and box.x1 < column + 0.5
        assert abs(box.y0 - row) < 0.5 and abs(box.y1 - row) < 0.5
    width, height = display.figure_.get_size_inches()
    assert width < 22 and height < 14


def test_panels_fill_a_grid_whose_last_row_may_be_shorter():
    frame = table([f"t{i}" for i in range(7)], ["m"])
    display = StabilityDisplay.from_frame(frame, colorbar=False)
    assert list(display.axes_) == display.figure_.axes  # no empty ones
    display.figure_.draw_without_rendering()
    corners = [(ax.bbox.x0, ax.bbox.y0) for ax in display.axes_]
    lefts, bottoms = ({round(corner[side]) for corner in corners} for side in (0, 1))
    assert (len(lefts), len(bottoms)) == (4, 2)
    for ax, (left, bottom) in zip(display.axes_, corners, strict=True):
        lowest = all(y >= bottom - 1 for x, y in corners if abs(x - left) < 1)
        assert bool(ax.get_xticklabels()[0].get_text()) == lowest
        assert bool(ax.get_yticklabels()[0].get_text()) == (round(left) == min(lefts))


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_of_the_caller_are_used(layout, assert_nothing_is_cut_off):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
    display = StabilityDisplay.from_frame(with_blanks(), target="a", ax=right)
    assert display.ax_ is right and display.figure_ is figure
    assert not left.images
    assert plt.get_fignums() == [figure.number]
    assert figure.get_size_inches().tolist() == [9, 4]
    assert_nothing_is_cut_off(figure)
    bar, cells = (ax.get_window_extent() for ax in (display.colorbar_.ax, right))
    assert bar.x0 >= cells.x1 and bar.y0 >= cells.y0 - 1 and bar.y1 <= cells.y1 + 1
    assert display.legend_.get_window_extent().y1 <= cells.y0


def test_several_axes_of_the_caller():
    figure, axes = plt.subplots(2, 1, figsize=(5, 7))
    display = StabilityDisplay.from_frame(with_blanks(), ax=axes, colorbar=False)
    assert list(display.axes_) == list(axes) and display.colorbar_ is None
    assert [ax.get_title() for ax in axes] == ["a", "b"]
    with pytest.raises(ValueError, match="one axes for each of the 2 panels. Got 1. 'target' cho"):
        StabilityDisplay.from_frame(with_blanks(), ax=axes[0])
    with pytest.raises(TypeError, match="'ax' must be matplotlib axes.*Got str"):
        StabilityDisplay.from_frame(with_blanks(), ax="axes")


def test_plot_again_with_other_options():
    display = StabilityDisplay.from_frame(with_blanks())
    first = display.figure_
    again = display.plot(
        include_values=False, cmap="PuOr", im_kwargs={"vmin": -0.5, "vmax": 0.5}, colorbar=False
    )
    assert again is display and display.figure_ is not first
    assert display.ims_[0].cmap.name == "PuOr" and display.ims_[0].get_clim() == (-0.5, 0.5)
    assert not any(display.texts_.ravel()) and not display.axes_[0].texts
    # A star would explain nothing.
    assert len(display.legend_.get_texts()) == 2
    display.plot(values_format=".1f", text_kwargs={"fontsize": 5})
    text = next(text for text in display.texts_.ravel() if text is not None)
    assert text.get_fontsize() == 5 and len(text.get_text().lstrip("−")) == 3


# -- from a study ----------------------------------------------------------------------------------


def test_from_study(study):
    display = StabilityDisplay.from_study(study, coefficient="spearman")
    frame = study.stability("intra", "spearman")
    assert display.titles == ["iris", "other"] and display.metrics == ["hscore", "logme"]
    np.testing.assert_array_equal(display.values.ravel(), frame.value)
    assert unwrapped(display.colorbar_.ax.yaxis.label) == "Spearman's ρ between repeats"
    # The broken candidate leaves "other" without any correlation.
    assert [unwrapped(text) for text in display.legend_.get_texts()] == [
        "undefined: metric failed: RuntimeError: no such layer (4 cells)"
    ]
    display = StabilityDisplay.from_study(
        study, kind="ref", target="other", metric="logme", nan_policy="omit"
    )
    frame = study.stability("ref", nan_policy="omit").query("target == 'other' & metric == 'logme'")
    np.testing.assert_array_equal(display.values.ravel(), frame.value)
    assert display.value_name == "Kendall's τ with the ranking on all of the target"


def test_from_study_with_references(study):
    display = StabilityDisplay.from_study(study, kind="reference", target="iris")
    frame = study.agreement(coefficient="kendall").query("target == 'iris'")
    means = frame.groupby(["metric", "fraction"]).value.mean()
    np.testing.assert_allclose(display.values.ravel(), means)
    assert display.fractions == [0.2, 0.5, 1.0]
    turned = {t: {n: -v for n, v in r.items()} for t, r in study.reference.items()}
    display = StabilityDisplay.from_study(study, kind="reference", reference=turned, target="iris")
    np.testing.assert_allclose(display.values.ravel(), -means)
    # A frame of agreement with several references draws the same.
    frames = [
        study.agreement(r, "kendall").assign(measure=m)
        for m, r in {"one": study.reference, "other": turned}.items()
    ]
    both = StabilityDisplay.from_frame(pd.concat(frames), target="iris")
    assert both.titles == ["iris, one", "iris, other"]
    np.testing.assert_allclose(both.values[0], -both.values[1])


def test_wrong_requests_of_a_study(study):
    with pytest.raises(ValueError, match="'kind' must be one of .*'intra'.* Got 'inter'"):
        StabilityDisplay.from_study(study, kind="inter")
    with pytest.raises(ValueError, match="'reference' is for kind='reference'"):
        StabilityDisplay.from_study(study, reference=study.reference)
    bare = clone(study).set_params(reference=None)
    with pytest.raises(ValueError, match="'reference' must be given for a study without one"):
        StabilityDisplay.from_study(bare, kind="reference")
    with pytest.raises(ValueError, match="no results yet"):
        StabilityDisplay.from_study(bare)
    with pytest.raises(TypeError, match="'study' must be a RobustnessStudy. Got dict instead"):
        StabilityDisplay.from_study({})


# -- wrong input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, options, error, message",
    [
        (lambda f: f.drop(columns="value"), {}, ValueError, r"lacks \['value'\]"),
        (lambda f: f[:0], {}, ValueError, "at least one row"),
        (lambda f: [1], {}, TypeError, "'frame' must be a data frame.*Got list"),
        (lambda f: f.assign(value=2.0), {}, ValueError, "numbers from -1 to 1.*Got 2.0 in row 0"),
        (lambda f: f.assign(value="x"), {}, ValueError, "'value' .* must hold numbers.*Got 'x'"),
        (lambda f: f.assign(value=True), {}, ValueError, "must hold numbers.*Got True"),
        (lambda f: f.assign(fraction=5.0), {}, ValueError, "above 0 and up to 1. Got 5.0 in row 0"),
        (lambda f: f.assign(fraction=NAN), {}, ValueError, "above 0 and up to 1. Got nan"),
        (
            lambda f: pd.concat([f, f[:1]]),
            {},
            ValueError,
            "Got two for target 'a', metric 'm', fraction 0.05.$",
        ),
        (
            lambda f: pd.concat([f, f[:1]]).assign(repeat=3),
            {},
            ValueError,
            "Got two for .* fraction 0.05, repeat '3'.$",
        ),
        (lambda f: f, {"target": "c"}, ValueError, r"'target' must be among \['a'\].*Got 'c'"),
        (lambda f: f, {"metric": []}, ValueError, r"'metric' must be among .*Got \[\]"),
        (lambda f: f, {"metric": ["m", "m"]}, ValueError, "'metric' must be .* each at most once"),
        (lambda f: f, {"kind": "inter"}, ValueError, "'kind' must be one of"),
        (
            lambda f: {**{name: list(f[name]) for name in f}, "value": [1.0]},
            {},
            ValueError,
            r"columns of 'frame' must be of one length. Got lengths \[1, 12\]",
        ),
    ],
)
def test_wrong_frames(change, options, error, message):
    with pytest.raises(error, match=message):
        StabilityDisplay.from_frame(change(table()), **options)
    assert plt.get_fignums() == []


def test_wrong_arrays():
    given = {"titles": ["a"], "metrics": ["m"], "fractions": [0.1]}
    with pytest.raises(ValueError, match=r"'values' must have a table for each of the 1 panels"):
        StabilityDisplay([[0.1]], **given)
    with pytest.raises(ValueError, match="'values' must hold correlations, from -1 to 1. Got -1.5"):
        StabilityDisplay([[[-1.5]]], **given)
    with pytest.raises(ValueError, match="'reasons' must have an entry for each"):
        StabilityDisplay([[[NAN]]], reasons=[["tied"]], **given)


def test_a_target_without_the_metrics_chosen():
    frame = table(("a", "b"), ("m", "n"))
    frame = frame[(frame.target == "a") | (frame.metric == "m")]
    display = StabilityDisplay.from_frame(frame, target="b", metric=["m", "n"])
    assert np.isnan(display.values[0, 1]).all()
    with pytest.raises(ValueError, match="'frame' has no row for the 'target' and 'metric' chosen"):
        StabilityDisplay.from_frame(frame, target="b", metric="n")
    assert plt.get_fignums() == [display.figure_.number]


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="StabilityDisplay.plot requires matplotlib"):
        StabilityDisplay.from_frame(table())


def test_nothing_of_pyplot_is_changed(monkeypatch):
    shown = []
    monkeypatch.setattr(plt, "show", lambda *a, **k: shown.append(a))
    figure, ax = plt.subplots()
    other = plt.figure()
    StabilityDisplay.from_frame(table(), ax=ax)
    assert plt.gcf() is other and plt.get_fignums() == [figure.number, other.number]
    assert shown == [] and matplotlib.get_backend().lower() == "agg"
