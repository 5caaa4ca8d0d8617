"""Small multiples: axes for several panels, sizes in inches that fit the texts, notes below."""

import math
import textwrap

import numpy as np

__all__ = [
    "final_size",
    "fit_labels",
    "given_axes",
    "grid_shape",
    "make_room",
    "new_axes",
    "note_below",
    "note_height",
    "text_width",
    "wrap",
]

_WIDEST_FIGURE = 13.5  # inches
_NOTE_SIZE = 8.5


def given_axes(ax, titles, parameters):
    """Check the axes that the caller gives.

    Parameters
    ----------
    ax : matplotlib Axes, array-like of Axes or None
        As given.
    titles : sequence of str
        The panels.
    parameters : str
        What chooses panels, for the message.

    Returns
    -------
    axes : list of Axes or None
        One for each panel; None if none is given.
    """
    if ax is None:
        return None
    axes = np.asarray(ax, dtype=object).ravel().tolist()
    wrong = [item for item in axes if not hasattr(item, "get_figure")]
    if wrong:
        raise TypeError(
            "'ax' must be matplotlib axes, or a sequence of them. "
            f"Got {type(wrong[0]).__name__} instead."
        )
    if len(axes) != len(titles):
        raise ValueError(
            f"'ax' must have one axes for each of the {len(titles)} panels. Got {len(axes)}. "
            f"{parameters} chooses panels."
        )
    return axes


def grid_shape(n_panels, width):
    """Choose rows and columns of panels so that the figure stays narrow enough to read.

    Parameters
    ----------
    n_panels : int
        Number of panels.
    width : float
        Of one panel, in inches.

    Returns
    -------
    n_rows, n_columns : int
        With as few empty places as that number of rows allows.
    """
    n_columns = min(n_panels, max(1, int(_WIDEST_FIGURE / width)))
    n_rows = math.ceil(n_panels / n_columns)
    return n_rows, math.ceil(n_panels / n_rows)


def new_axes(n_panels, n_rows, n_columns, size):
    """Make a figure with axes for all panels.

    Parameters
    ----------
    n_panels, n_rows, n_columns : int
        Number of panels, and the grid they fill row by row.
    size : tuple of two float
        Width and height in inches.

    Returns
    -------
    axes : list of Axes
        One for each panel.
    """
    import matplotlib.pyplot as plt

    _, grid = plt.subplots(n_rows, n_columns, squeeze=False, figsize=size, layout="constrained")
    axes = grid.ravel().tolist()
    for empty in axes[n_panels:]:
        empty.remove()
    return axes[:n_panels]


def text_width(text, size):
    """Measure a text before there is a figure.

    Parameters
    ----------
    text : str
        Of one line or several.
    size : float
        In points.

    Returns
    -------
    width : float
        In inches.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size)
    widths = [
        text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
        for line in text.split("\n")
        if line
    ]
    return max(widths, default=0) / 72


def wrap(text, width, size):
    """Break a text into lines that fit.

    Parameters
    ----------
    text : str
        Line breaks in it are kept.
    width : float
        In inches.
    size : float
        In points.

    Returns
    -------
    text : str
        With line breaks; words longer than a line are broken too.
    """
    lines = []
    for line in text.split("\n"):
        n_characters, broken = max(len(line), 1), [line]
        while n_characters > 4 and text_width("\n".join(broken), size) > width:
            n_characters -= max(1, n_characters // 12)
            broken = textwrap.wrap(line, n_characters)
        lines += broken
    return "\n".join(lines)


def note_below(axes, own_figure, handles):
    """Explain marks below the panels: in the margin of an own figure, or else under the last axes.

    Parameters
    ----------
    axes : list of Axes
        All panels.
    own_figure : bool
        Whether the figure was made for them.
    handles : list of Artist
        With the labels to show; there may be none.

    Returns
    -------
    legend : Legend or None
        The notes.
    """
    from matplotlib.transforms import ScaledTranslation

    if not handles:
        return None
    last, figure = axes[-1], axes[-1].figure
    room = figure.get_figwidth() if own_figure else last.bbox.width / figure.dpi
    labels = [wrap(handle.get_label(), max(room - 0.8, 1.2), _NOTE_SIZE) for handle in handles]
    style = {"frameon": False, "fontsize": _NOTE_SIZE, "handlelength": 1.6, "labelspacing": 0.35}
    if own_figure:
        legend = figure.legend(handles, labels, loc="outside lower center", **style)
    else:
        # Below the labels of the axes, however long they are.
        below = (last.bbox.y0 - last.get_tightbbox().y0) / figure.dpi + 0.04
        place = last.transAxes + ScaledTranslation(0, -below, figure.dpi_scale_trans)
        where = {"loc": "upper left", "bbox_to_anchor": (0, 0), "borderaxespad": 0}
        legend = last.legend(handles, labels, bbox_transform=place, **where, **style)
        if figure.get_layout_engine() is None:
            make_room(axes, below=legend.get_window_extent().height + 6)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return legend


def note_height(handles, width):
    """Estimate the height of the notes.

    Parameters
    ----------
    handles : list of Artist
        As for :func:`note_below`.
    width : float
        Of the figure, in inches.

    Returns
    -------
    height : float
        In inches.
    """
    lines = sum(
        1 + wrap(handle.get_label(), max(width - 0.8, 1.2), _NOTE_SIZE).count("\n")
        for handle in handles
    )
    return 0.17 * lines + 0.15 * bool(handles)


def fit_labels(axes):
    """Shrink the caller's axes where their labels need more room than is around them.

    What is around them is taken to be half an inch on the left and below, where ticks have labels,
    and little above and on the right. A figure that is laid out does this better.

    Parameters
    ----------
    axes : list of Axes
        The axes, with their labels.
    """
    if axes[0].figure.get_layout_engine() is not None:
        return
    for ax in axes:
        canvas, inch = ax.figure.bbox, ax.figure.dpi
        inner, outer = ax.bbox.extents, ax.get_tightbbox().extents
        edges = np.abs(inner - (canvas.x0, canvas.y0, canvas.x1, canvas.y1)) - 2
        around = np.minimum(np.array([0.45, 0.5, 0.1, 0.4]) * inch, edges)
        excess = np.maximum(np.abs(outer - inner) - around, 0)
        # A part of the axes remains, whatever the labels are.
        most = 0.7 * np.array([ax.bbox.width, ax.bbox.height])
        excess *= np.tile(np.minimum(1, most / np.maximum(excess[:2] + excess[2:], 1e-9)), 2)
        left, below, right, above = excess / np.tile((canvas.width, canvas.height), 2)
        x0, y0, width, height = ax.get_position().bounds
        ax.set_position((x0 + left, y0 + below, width - left - right, height - below - above))


def final_size(ax):
    """Estimate how large the caller's axes are in the end.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes, with labels and notes.

    Returns
    -------
    width, height : float
        In inches. Where the figure is laid out, that is still to happen, and labels beside the axes
        will take from it.
    """
    inch, taken = ax.figure.dpi, np.zeros(2)
    if ax.figure.get_layout_engine() is not None:
        overhang = np.array(ax.bbox.extents) - ax.get_tightbbox().extents
        taken = np.maximum(overhang[:2] - 0.4 * inch, 0)
    width, height = (np.array([ax.bbox.width, ax.bbox.height]) - taken) / inch
    return float(width), float(height)


def make_room(axes, *, below=0.0, right=0.0):
    """Take a strip from the axes of a figure that nothing lays out, as a colour bar does.

    Parameters
    ----------
    axes : list of Axes
        All panels. Those in the row of the last one give the strip below, those in its column the
        strip on the right.
    below, right : float
        Height and width of the strip in pixels; at most half of the axes is taken.
    """
    canvas, corner = axes[-1].figure.bbox, axes[-1].get_position()
    for ax in axes:
        place = ax.get_position()
        x0, y0, width, height = place.bounds
        if abs(place.y0 - corner.y0) < 1e-6:
            strip = min(below / canvas.height, height / 2)
            y0, height = y0 + strip, height - strip
        if abs(place.x1 - corner.x1) < 1e-6:
            width -= min(right / canvas.width, width / 2)
        ax.set_position((x0, y0, width, height))
