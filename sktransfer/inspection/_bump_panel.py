"""One panel of a bump chart: where points, names and ties are, and how they are drawn."""

import numpy as np

from ..evaluation import competition_ranks
from ._panels import text_width, wrap

__all__ = [
    "LABEL_SIZE",
    "MARGIN",
    "TITLE_SIZE",
    "RankPanel",
    "bump_notes",
    "draw_lines",
    "draw_names",
]

# The Okabe-Ito palette without its yellow and black: told apart with any kind of colour vision.
_HIGHLIGHTS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_GREY, _DARK = "#b8b8b8", "#333333"
_NAME_SIZE, LABEL_SIZE, TITLE_SIZE = 8.5, 9, 10
_ROW = 0.21  # inches for each candidate
MARGIN = 0.42  # columns, between the labels and the first or last rank


class RankPanel:
    """Ranks of one panel: where points, names and ties are.

    Parameters
    ----------
    ranks : dict of str to sequence of float
        Of each candidate in each column; NaN for a candidate without a score.
    columns : list of str
        Names of the columns.
    title : str
        Name of the panel.
    """

    def __init__(self, ranks, columns, title):
        self.names, self.columns, self.title = list(ranks), list(columns), title
        rows = [np.atleast_1d(np.asarray(row, dtype=float)) for row in ranks.values()]
        if {row.shape for row in rows} != {(len(self.columns),)} or not self.columns:
            raise ValueError(
                f"'ranks' of panel {title!r} must have {len(self.columns)} ranks, one for each "
                "column, for each of at least one candidate."
            )
        given = np.array(rows)
        self.missing = np.isnan(given)
        # Whatever ranks are given, what is drawn are competition ranks.
        self.ranks = np.array([competition_ranks(-column) for column in given.T]).T

    def order(self, last):
        """Order candidates by their first or last rank; ties as in the column beside it."""
        here, step = (-1, -1) if last else (0, 1)
        follow = [self.ranks[:, here + k * step] for k in range(len(self.columns))]
        return np.lexsort((np.arange(len(self.names)), *follow[::-1]))

    def label(self, index, last):
        """Give what is written beside the chart for one candidate."""
        column = -1 if last else 0
        rank = "–" if self.missing[index, column] else self.ranks[index, column]
        return f"{rank}  {self.names[index]}" if last else f"{self.names[index]}  {rank}"

    def ties(self, column):
        """Give (rank, number of candidates) for the ties in one column."""
        ranks, counts = np.unique(self.ranks[~self.missing[:, column], column], return_counts=True)
        return [(rank, n) for rank, n in zip(ranks, counts, strict=True) if n > 1]

    def colors(self, marked, grey, cmap):
        """Give a colour for each candidate."""
        import matplotlib

        if grey:
            chosen = [name for name in marked if name in self.names]
            colors = {name: _HIGHLIGHTS[marked.index(name) % len(_HIGHLIGHTS)] for name in chosen}
            return [colors.get(name, _GREY) for name in self.names]
        shades = matplotlib.colormaps[cmap] if isinstance(cmap, str) else cmap
        places = np.empty(len(self.names))
        places[self.order(last=False)] = np.linspace(0, 0.82, len(self.names))
        return [shades(place) for place in places]

    def column_width(self):
        """Give the inches from column to column."""
        widest = max(text_width(name, LABEL_SIZE) for name in self.columns)
        return float(np.clip(widest + 0.14, 0.5 if len(self.columns) > 2 else 0.9, 1.5))

    def size(self):
        """Give width and height in inches, with names and title."""
        sides = (False, True) if len(self.columns) > 1 else (False,)
        names = sum(
            max(text_width(self.label(i, last), _NAME_SIZE) for i in range(len(self.names)))
            for last in sides
        )
        column = self.column_width()
        width = names + column * (len(self.columns) - 1 + 2 * MARGIN) + 0.3
        longest = max(text_width(line, TITLE_SIZE) for line in self.title.split("\n"))
        width = max(width, min(longest + 0.2, 3))
        lines = wrap(self.title, width - 0.1, TITLE_SIZE).count("\n") + 1
        labels = max(wrap(name, column - 0.06, LABEL_SIZE).count("\n") for name in self.columns)
        height = (len(self.names) + 0.2) * _ROW + 0.19 * lines + 0.16 * (labels + 1) + 0.25
        return width, max(height, 1.2)


def bump_notes(panels, left_out):
    """Explain the marks that occur.

    Parameters
    ----------
    panels : list of RankPanel
        All panels.
    left_out : list of str
        Candidates that are not in every panel.

    Returns
    -------
    handles : list of matplotlib Line2D
        For a legend.
    """
    from matplotlib.lines import Line2D

    handles = []
    if any(panel.ties(column) for panel in panels for column in range(len(panel.columns))):
        style = {"marker": "o", "color": "none", "markeredgecolor": _DARK, "markersize": 10}
        handles.append(Line2D([], [], label="so many candidates share this rank", **style))
    n_missing = sum(int(panel.missing.sum()) for panel in panels)
    if n_missing:
        label = f"no score ({n_missing} {'rank' if n_missing == 1 else 'ranks'})"
        style = {"marker": "x", "color": "none", "markeredgecolor": _DARK, "markersize": 7}
        handles.append(Line2D([], [], label=label, **style))
    if left_out:
        label = "without any rank, or not on every target: " + ", ".join(left_out)
        if len(panels) == 1:
            label = "without any rank: " + ", ".join(left_out)
        handles.append(Line2D([], [], color="none", label=label))
    return handles


def draw_lines(ax, panel, colors, options):
    """Draw a line for each candidate, ties, and who has no score.

    Parameters
    ----------
    ax : matplotlib Axes
        Where.
    panel : RankPanel
        What.
    colors : list of color
        Of each candidate.
    options : dict
        Of the lines.

    Returns
    -------
    lines : dict of str to matplotlib Line2D
        By candidate.
    """
    from matplotlib import patheffects

    lines, columns = {}, np.arange(len(panel.columns))
    # Those in grey below the others, and good ranks above bad ones.
    order = sorted(np.flip(panel.order(last=False)), key=lambda index: colors[index] != _GREY)
    for height, index in enumerate(order):
        ranks, missing = panel.ranks[index], panel.missing[index]
        style = {
            "color": colors[index],
            "linewidth": 1.5 if colors[index] == _GREY else 2.2,
            "marker": "o",
            "markersize": 5.5,
            "markeredgecolor": "white",
            "markeredgewidth": 0.8,
            "zorder": 2 + height / len(order),
            "path_effects": [patheffects.withStroke(linewidth=3.6, foreground="white")],
        }
        shown = np.where(missing, np.nan, ranks)
        (lines[panel.names[index]],) = ax.plot(columns, shown, **{**style, **options})
        if missing.any():
            # The way to where there is no score, and a cross there.
            faint = {"color": colors[index], "zorder": 1.9}
            for first in np.flatnonzero(missing[:-1] | missing[1:]):
                ends = slice(first, first + 2)
                ax.plot(columns[ends], ranks[ends], linewidth=1, linestyle=":", **faint)
            ax.plot(columns[missing], ranks[missing], "x", markersize=6, **{**faint, "zorder": 5})
    for column in columns:
        for rank, count in panel.ties(column):
            style = {"markerfacecolor": "white", "markeredgecolor": _DARK, "markersize": 11}
            ax.plot([column], [rank], "o", zorder=6, **style)
            ax.text(column, rank, str(count), ha="center", va="center", fontsize=7, zorder=7)
    return {name: lines[name] for name in panel.names}


def draw_names(ax, panel, colors, marked):
    """Write names at both sides, those of a tie below each other, with a line to their rank.

    Parameters
    ----------
    ax : matplotlib Axes
        Where.
    panel : RankPanel
        What.
    colors : list of color
        Of each candidate.
    marked : set of str
        Whose names are bold.

    Returns
    -------
    left, right : list of matplotlib Text
        From top to bottom; nothing on the right of a single column.
    """
    n_candidates, last_column = len(panel.names), len(panel.columns) - 1
    left, right = -MARGIN, last_column + MARGIN
    ax.set_xlim(left, right)
    ax.set_ylim(n_candidates + 0.6, 0.4)
    slots = np.arange(1, n_candidates + 1)
    sides = []
    for last in (False, True) if last_column else (False,):
        order = panel.order(last)
        edge, column = (right, last_column) if last else (left, 0)
        for slot, index in zip(slots, order, strict=True):
            ends = ([edge, column], [slot, panel.ranks[index, column]])
            ax.plot(*ends, color=colors[index], linewidth=0.8, alpha=0.7, zorder=1.5)
        texts = [panel.label(index, last) for index in order]
        if last:
            place, style = ax.get_yaxis_transform(), {"ha": "left", "va": "center"}
            names = [
                ax.text(1, slot, " " + text, transform=place, **style)
                for slot, text in zip(slots, texts, strict=True)
            ]
        else:
            ax.set_yticks(slots, texts)
            names = ax.get_yticklabels()
        for name, index in zip(names, order, strict=True):
            name.set_fontsize(_NAME_SIZE)
            name.set_parse_math(False)
            if panel.missing[index, column]:
                name.set_style("italic")
                name.set_color("#767676")
            if panel.names[index] in marked:
                name.set_weight("bold")
        sides.append(list(names))
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    for column in range(last_column + 1):
        ax.axvline(column, color="#e4e4e4", linewidth=0.8, zorder=1)
    return tuple(sides) if last_column else (sides[0], [])
