"""What tests of figures share."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def nothing_leaks():
    """No figure stays open, and no setting of matplotlib is changed by a test."""
    plt.close("all")
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def shown_texts(figure):
    """All texts that are drawn, with their extents."""
    for text in figure.findobj(matplotlib.text.Text):
        if not (text.get_text().strip() and text.get_visible()):
            continue
        axes = text.axes
        if axes is not None and not axes.get_visible():
            continue
        yield text, text.get_window_extent()


@pytest.fixture
def assert_nothing_is_cut_off():
    """Check that all texts lie within the figure, and those of given groups don't overlap."""

    def check(figure, *groups):
        figure.draw_without_rendering()
        frame = figure.bbox
        hidden = {id(label) for ax in figure.axes for label in hidden_ticks(ax)}
        for text, box in shown_texts(figure):
            if id(text) in hidden:
                continue
            inside = (
                box.x0 >= frame.x0 - 1
                and box.x1 <= frame.x1 + 1
                and box.y0 >= frame.y0 - 1
                and box.y1 <= frame.y1 + 1
            )
            assert inside, f"{text.get_text()!r} is cut off: {box} in {frame}"
        for group in groups:
            boxes = np.array([text.get_window_extent().extents for text in group])
            for index, box in enumerate(boxes):
                low = np.maximum(box[:2], boxes[index + 1 :, :2])
                high = np.minimum(box[2:], boxes[index + 1 :, 2:])
                shared = np.prod(np.maximum(high - low - 0.5, 0), axis=1)
                assert not shared.any(), f"{group[index].get_text()!r} is written over"

    return check


def hidden_ticks(ax):
    """Labels of ticks outside the limits, which matplotlib does not draw."""
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        low, high = sorted(limits)
        for tick in axis.get_major_ticks():
            if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                yield tick.label1
                yield tick.label2
