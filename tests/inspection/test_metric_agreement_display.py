import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from sktransfer.evaluation import stability_inter
from sktransfer.inspection import MetricAgreementDisplay

NAN = float("nan")
COLUMNS = ["target", "metric_a", "metric_b", "fraction", "value", "n_undefined", "reason"]


def table(metrics, targets=("a",), fractions=(0.05, 1.0)):
    """Agreement of random scores, as computed by the project itself."""
    rng = np.random.default_rng(0)
    rows = []
    for target in targets:
        for fraction in fractions:
            scores = {metric: rng.normal(size=(3, 7)) for metric in metrics}
            if "tied" in scores:
                scores["tied"][1] = 1.0
            for i, a in enumerate(metrics):
                for b in metrics[i + 1 :]:
                    r = stability_inter(scores[a], scores[b], n_resamples=0)
                    rows.append((target, a, b, fraction, r.statistic, r.n_undefined, r.reason))
    return pd.DataFrame(rows, columns=COLUMNS)


def test_each_pair_stands_in_its_two_cells():
    frame = table(["m", "n", "o"])
    display = MetricAgreementDisplay.from_frame(frame, coefficient="kendall", fraction=0.05)
    assert display.titles == ["a, 5 %"] and display.metrics == ["m", "n", "o"]
    values = display.values[0]
    np.testing.assert_array_equal(values, values.T)
    for row in frame[frame.fraction == 0.05].itertuples():
        place = "mno".index(row.metric_a), "mno".index(row.metric_b)
        assert values[place] == row.value
        text = display.texts_[(0, *place)].get_text().replace("−", "-")
        assert float(text) == pytest.approx(row.value, abs=0.005)
    for axis in (display.ax_.get_xticklabels(), display.ax_.get_yticklabels()):
        assert [label.get_text() for label in axis] == ["m", "n", "o"]
    label = display.colorbar_.ax.get_ylabel().replace("\n", " ")
    assert label == "Kendall's τ between metrics"


def test_a_metric_with_itself_is_no_undefined_cell():
    display = MetricAgreementDisplay.from_frame(table(["m", "tied", "o"], fractions=[1.0]))
    # Two pairs, each in two cells.
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "undefined: all candidates tied (4 cells)"
    ]
    assert len(display.blanks_[0]) == 4
    assert {display.texts_[0, i, i] for i in range(3)} == {None}
    alone = MetricAgreementDisplay.from_frame(table(["m", "n"]), metric="m")
    assert alone.legend_ is None and np.isnan(alone.values).all()


def test_panels_for_targets_and_fractions():
    frame = table(["m", "n"], ("a", "b"), (0.05, 0.5, 1.0))
    assert MetricAgreementDisplay.from_frame(frame).titles == ["a, 100 %", "b, 100 %"]
    display = MetricAgreementDisplay.from_frame(frame, fraction=[0.5, 0.05], target=["b", "a"])
    assert display.titles == ["b, 50 %", "a, 50 %", "b, 5 %", "a, 5 %"]
    at = (frame.target == "a") & (frame.fraction == 0.05)
    assert display.values[3, 0, 1] == frame[at].value.item()
    figure, axes = plt.subplots(2, 2)
    display.plot(ax=axes)
    assert [ax.get_title() for ax in axes.ravel()] == display.titles
    with pytest.raises(ValueError, match="4 panels. Got 1. 'target' or 'fraction' chooses"):
        display.plot(ax=axes[0, 0])


def test_a_pair_may_stand_in_either_order_or_in_both():
    frame = table(["m", "n", "o"], fractions=[1.0])
    turned = frame.rename(columns={"metric_a": "metric_b", "metric_b": "metric_a"})[frame.columns]
    expected = MetricAgreementDisplay.from_frame(frame)
    for given in (turned, pd.concat([frame, turned])):
        display = MetricAgreementDisplay.from_frame(given, metric=["m", "n", "o"])
        np.testing.assert_array_equal(display.values, expected.values)
    own = pd.DataFrame([("a", "m", "m", 1.0, 1.0, 0, None)], columns=COLUMNS)
    display = MetricAgreementDisplay.from_frame(pd.concat([frame, own]))
    assert display.texts_[0, 0, 0].get_text() == "1.00" and display.texts_[0, 1, 1] is None


def test_means_of_some_repeats_are_marked():
    frame = table(["m", "n"], fractions=[1.0]).assign(n_undefined=1)
    display = MetricAgreementDisplay.from_frame(frame)
    assert display.texts_[0, 0, 1].get_text().endswith("*")
    assert display.legend_.get_texts()[0].get_text().startswith("mean of those repeats only")


@pytest.mark.parametrize("n_metrics, n_targets, long", [(8, 3, False), (19, 1, True), (1, 1, True)])
def test_nothing_is_cut_off(n_metrics, n_targets, long, assert_nothing_is_cut_off):
    metrics = [f"metric{i}" + "(option=0.9, other=1)" * long for i in range(n_metrics)]
    targets = [f"target{i}" for i in range(n_targets)]
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (n_targets, n_metrics, n_metrics))
    display = MetricAgreementDisplay(values, titles=targets, metrics=metrics, value_name="τ").plot()
    ax = display.axes_[-1]
    display.figure_.draw_without_rendering()
    groups = (display.texts_[0].ravel(), display.ax_.get_yticklabels(), ax.get_xticklabels())
    assert_nothing_is_cut_off(display.figure_, *groups)
    for label, cell in zip(ax.get_xticklabels(), range(n_metrics), strict=True):
        middle = label.get_window_extent()
        place = ax.transData.inverted().transform(((middle.x0 + middle.x1) / 2, 0))[0]
        assert place == pytest.approx(cell, abs=0.2)  # each below its column


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_of_the_caller_are_used(layout, assert_nothing_is_cut_off):
    metrics = ["a_metric_with_a_long_name", "tied", "another_one_with_a_long_name"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
    display = MetricAgreementDisplay.from_frame(table(metrics), ax=right)
    assert display.ax_ is right and not left.images
    assert_nothing_is_cut_off(figure, right.get_yticklabels(), right.get_xticklabels())
    assert left.get_tightbbox().x1 < right.get_tightbbox().x0
    assert display.legend_.get_window_extent().y1 < right.get_tightbbox().y1


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_values_get_as_small_as_the_cells_of_the_caller(layout, assert_nothing_is_cut_off):
    metrics = [f"metric{i}" for i in range(8)]
    figure, (_, right) = plt.subplots(1, 2, figsize=(8, 4), layout=layout)
    display = MetricAgreementDisplay.from_frame(table(metrics, fractions=[1.0]), ax=right)
    texts = [text for text in display.texts_.ravel() if text is not None]
    assert_nothing_is_cut_off(figure, texts)
    assert 4 < texts[0].get_fontsize() < 8
    display.plot(ax=right, text_kwargs={"fontsize": 7})
    assert display.texts_[0, 0, 1].get_fontsize() == 7


def test_from_study(study):
    display = MetricAgreementDisplay.from_study(
        study, coefficient="spearman", target="iris", fraction=0.2, metric=["logme", "hscore"]
    )
    assert display.titles == ["iris, 20 %"] and display.metrics == ["logme", "hscore"]
    frame = study.stability("inter", "spearman").query("target == 'iris' & fraction == 0.2")
    assert display.values[0, 0, 1] == display.values[0, 1, 0] == frame.value.item()
    display = MetricAgreementDisplay.from_study(study, nan_policy="omit")
    assert display.titles == ["iris, 100 %", "other, 100 %"]
    assert np.isfinite(display.values[:, 0, 1]).all() and display.legend_ is None
    with pytest.raises(TypeError, match="'study' must be a RobustnessStudy. Got object"):
        MetricAgreementDisplay.from_study(object())


@pytest.mark.parametrize(
    "change, options, message",
    [
        (lambda f: f.drop(columns=["metric_a", "value"]), {}, r"lacks \['metric_a', 'value'\]"),
        (
            lambda f: pd.concat([f, f[:1]]),
            {},
            "one value for each pair.*'m' and 'n', fraction 0.05",
        ),
        (
            lambda f: pd.concat([f, f[:1].assign(metric_a="n", metric_b="m", value=0.123)]),
            {},
            "one value for each pair of metrics. Got two for target 'a', metrics 'n' and 'm'",
        ),
        (lambda f: f, {"fraction": 0.2}, r"'fraction' must be among \[0.05, 1.0\].*Got 0.2"),
        (lambda f: f, {"fraction": [1, 1.0]}, "'fraction' must be .* at most once"),
        (lambda f: f, {"fraction": []}, "'fraction' must be among"),
        (lambda f: f, {"fraction": "all"}, "'fraction' must be among .*Got 'all'"),
        (lambda f: f, {"metric": "p"}, r"'metric' must be among \['m', 'n'\]"),
    ],
)
def test_wrong_frames(change, options, message):
    with pytest.raises(ValueError, match=message):
        MetricAgreementDisplay.from_frame(change(table(["m", "n"])), **options)
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="MetricAgreementDisplay.plot requires matplotlib"):
        MetricAgreementDisplay.from_frame(table(["m", "n"]))
