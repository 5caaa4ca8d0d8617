"""One panel of scores against performance: which points it shows, with what around them."""

import numpy as np

from ._panels import make_room
from ._score_tables import summary

__all__ = [
    "NAME_SIZE",
    "ScorePanel",
    "draw_bars",
    "draw_missing",
    "number_key",
    "score_notes",
]

NAME_SIZE = 8
_GREY = "#767676"


class ScorePanel:
    """Means and intervals of the candidates of a panel.

    Parameters
    ----------
    scores : array-like of shape (n_candidates, n_repeats)
        NaN where there is none.
    performance : array-like of shape (n_candidates, n_seeds)
        NaN for a candidate that the reference does not have.
    n_candidates : int
        How many there are.
    interval : {"range", "std"} or None
        What bars show.

    Attributes
    ----------
    score, performance : tuple of three ndarray of shape (n_candidates,)
        Mean, low and high.
    unscored, unknown : ndarray of bool of shape (n_candidates,)
        Who has no score, and who is not in the reference.
    shown : ndarray of bool of shape (n_candidates,)
        Who is a point.
    """

    def __init__(self, scores, performance, n_candidates, interval):
        sides = []
        for values in (scores, performance):
            values = np.asarray(values, dtype=float)
            if values.ndim != 2 or len(values) != n_candidates or not n_candidates:
                raise ValueError(
                    "'scores' and 'performance' must have a row for each of the "
                    f"{n_candidates} candidates. Got an array of shape {values.shape}."
                )
            sides.append(summary(values, interval))
        self.score, self.performance = sides
        self.unscored, self.unknown = (~np.isfinite(side[0]) for side in sides)
        self.shown = ~(self.unscored | self.unknown)

    def points(self):
        """Give the points.

        Returns
        -------
        x, y : ndarray of shape (n_shown,)
            Mean score and mean performance.
        """
        return self.score[0][self.shown], self.performance[0][self.shown]

    def ends_of_bars(self):
        """Give the ends of the bars of all points.

        Returns
        -------
        ends : ndarray of shape (2 * n_shown, 2, 2)
            For each bar its two ends, each with x and y; first the bars along x.
        """
        x, y = (np.array(side)[:, self.shown] for side in (self.score, self.performance))
        across = [[x[1], y[0]], [x[2], y[0]]]
        along = [[x[0], y[1]], [x[0], y[2]]]
        return np.concatenate([np.moveaxis(ends, 2, 0) for ends in (across, along)])


def draw_bars(ax, panel, options):
    """Draw how far repeats and seeds spread.

    Parameters
    ----------
    ax : Axes
        Of the panel.
    panel : ScorePanel
        The panel.
    options : dict
        For :meth:`matplotlib.axes.Axes.errorbar`.

    Returns
    -------
    bars : ErrorbarContainer or None
        None if nothing spreads.
    """
    spreads = {}
    for name, side in (("xerr", panel.score), ("yerr", panel.performance)):
        mean, low, high = (part[panel.shown] for part in side)
        if (high > low).any():
            spreads[name] = np.array([mean - low, high - mean])
    if not spreads:
        return None
    style = {"fmt": "none", "ecolor": "#8fb8d6", "elinewidth": 1.2, "zorder": 3}
    return ax.errorbar(*panel.points(), **spreads, **{**style, **options})


def draw_missing(ax, panel):
    """Mark the performance of those without a score at the left edge.

    Parameters
    ----------
    ax : Axes
        Of the panel.
    panel : ScorePanel
        The panel.
    """
    heights = panel.performance[0][panel.unscored & ~panel.unknown]
    style = {"transform": ax.get_yaxis_transform(), "color": _GREY, "markersize": 6}
    ax.plot([0.03] * len(heights), heights, "x", **style)


def score_notes(panels, candidates):
    """Say who is not among the points.

    Parameters
    ----------
    panels : list of ScorePanel
        All panels.
    candidates : list of str
        Names of the candidates.

    Returns
    -------
    handles : list of Line2D
        With labels, for a legend; none if all are points.
    """
    from matplotlib.lines import Line2D

    handles = []
    unscored = sum(int((panel.unscored & ~panel.unknown).sum()) for panel in panels)
    if unscored:
        what, where = ("candidate", "") if len(panels) == 1 else ("point", ", all panels together")
        label = f"no score ({unscored} {what}{'' if unscored == 1 else 's'}{where})"
        style = {"marker": "x", "color": "none", "markeredgecolor": _GREY, "markersize": 6}
        handles.append(Line2D([], [], label=label, **style))
    unknown = np.logical_or.reduce([panel.unknown & ~panel.unscored for panel in panels])
    if unknown.any():
        names = ", ".join(str(candidates[i]) for i in np.flatnonzero(unknown))
        label = "not in the reference, or not for every target: " + names
        if len(panels) == 1:
            label = "not in the reference: " + names
        handles.append(Line2D([], [], color="none", label=label))
    return handles


def number_key(axes, own_figure, candidates):
    """Explain the numbers that stand for names, beside the panels.

    Parameters
    ----------
    axes : list of Axes
        All panels.
    own_figure : bool
        Whether the figure was made for them.
    candidates : list of str
        The names, in the order of the numbers.

    Returns
    -------
    key : Legend
        The names with their numbers.
    """
    from matplotlib.lines import Line2D

    labels = [f"{place}  {name}" for place, name in enumerate(candidates, 1)]
    handles = [Line2D([], [], color="none") for _ in labels]
    style = {"handlelength": 0, "handletextpad": 0, "frameon": False, "labelspacing": 0.3}
    last = axes[-1]
    if own_figure:
        where = {"loc": "outside right upper", "fontsize": NAME_SIZE}
        key = last.figure.legend(handles, labels, **where, **style)
    else:
        # As small as it must be to stand beside the axes.
        size = last.bbox.height / last.figure.dpi * 72 / (1.5 * len(labels))
        where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
        where["fontsize"] = min(max(size, 5), NAME_SIZE)
        key = last.legend(handles, labels, **where, **style)
        # The notes below become the legend of these axes.
        last.add_artist(key)
        key.set_clip_on(False)  # it is outside, and layouts must know
        if last.figure.get_layout_engine() is None:
            make_room(axes, right=key.get_window_extent().width + 8)
    for text in key.get_texts():
        text.set_parse_math(False)
    return key
