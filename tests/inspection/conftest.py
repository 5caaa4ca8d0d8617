"""What tests of figures share."""

import warnings

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

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


@pytest.fixture(scope="session")
def study():
    """A study of two targets: "broken" fails on "other", "pca2" is run on "iris" only."""
    X, y = load_iris(return_X_y=True)
    candidates = [
        ("pca1", PCA(1)),
        ("pca2", PCA(2)),
        ("scaled", FunctionTransformer(np.sqrt)),
        ("noise", FunctionTransformer(_noise)),
        ("broken", FunctionTransformer(_broken)),
    ]
    subsets = NestedStratifiedSubsets(fractions=(0.2, 0.5), n_repeats=3)
    reference = {"pca1": 0.7, "pca2": 0.8, "scaled": 0.9, "noise": 0.4, "broken": 0.1}
    study = RobustnessStudy(
        candidates,
        ["logme", "hscore"],
        subsets,
        reference={"iris": reference, "other": reference},
    )
    with warnings.catch_warnings():
        # The broken candidate and scores of few samples announce themselves.
        warnings.simplefilter("ignore")
        study.run(X, y, target="iris", exclude=["broken"])
        study.run(X[::2], y[::2], target="other", exclude=["pca2"])
    return study


def _noise(X):
    return np.random.default_rng(len(X)).normal(size=X.shape)


def _broken(X):
    raise RuntimeError("no such layer")


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
