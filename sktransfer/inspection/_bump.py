"""Bump charts: how the ranks of candidates change from repeat to repeat or measure to measure."""

from collections.abc import Mapping

import numpy as np

from ..evaluation import competition_ranks, rank_correlation
from ..utils._sklearn import check_matplotlib_support
from ._frames import (
    choose,
    choose_fractions,
    column_names,
    percent,
    read_columns,
    read_numbers,
    read_study,
    written,
)
from ._heat_map import SYMBOLS
from ._panels import given_axes, grid_shape, new_axes, note_below, note_height, text_width, wrap

__all__ = ["RankBumpDisplay"]

_KEYS = ("target", "metric", "fraction", "repeat")
# The Okabe-Ito palette without its yellow and black: told apart with any kind of colour vision.
_HIGHLIGHTS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_GREY, _DARK = "#b8b8b8", "#333333"
_NAME_SIZE, _LABEL_SIZE, _TITLE_SIZE = 8.5, 9, 10
_ROW = 0.21  # inches for each candidate
_MARGIN = 0.42  # columns, between the labels and the first or last rank


class RankBumpDisplay:
    """Ranks of candidates side by side, with a line for each candidate.

    Candidates of equal rank are drawn at the same height, with their number; beside the chart
    their names stand below each other. It is recommended to use :meth:`from_study`,
    :meth:`from_frame` or :meth:`from_scores` to create a display. All parameters are stored as
    attributes. Read more in the :ref:`User Guide <figures>`.

    Parameters
    ----------
    ranks : list of dict of str to sequence of float
        For each panel and candidate its ranks in all columns, 1 for the best and NaN for a
        candidate that has no score.
    columns : list of list of str
        For each panel the names of its columns.
    titles : list of str of length n_panels
        Names of the panels.
    column_name : str, default=None
        What the columns are.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        Axes of all panels.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    lines_ : list of dict of str to matplotlib Line2D
        For each panel the line of each candidate, through its competition ranks.
    names_ : list of tuple of list of matplotlib Text
        For each panel the names on its left and on its right, from top to bottom.
    legend_ : matplotlib Legend or None
        What marks mean that are there.

    See Also
    --------
    RankingDisplay : A single ranking, with its scores.
    sktransfer.evaluation.competition_ranks : How ties are ranked.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sktransfer.inspection import RankBumpDisplay
    >>> display = RankBumpDisplay.from_scores(
    ...     {
    ...         "accuracy": {"resnet": 0.91, "vit": 0.93, "vgg": 0.91},
    ...         "AUROC": {"resnet": 0.98, "vit": 0.96, "vgg": 0.95},
    ...     }
    ... )
    >>> [name.get_text() for name in display.names_[0][0]]
    ['vit  1', 'resnet  2', 'vgg  2']
    >>> plt.show()
    """

    def __init__(self, ranks, *, columns, titles, column_name=None):
        self.ranks = ranks
        self.columns = columns
        self.titles = titles
        self.column_name = column_name

    @classmethod
    def from_study(cls, study, *, target=None, metric=None, fraction=None, ax=None, **plot_options):
        """Plot the ranks of a study over its repeats.

        Parameters
        ----------
        study : RobustnessStudy
            A study that has run.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all if None.
        fraction : float or list of float, default=None
            Which fractions to show; the smallest if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : RankBumpDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `study` is no study.
        ValueError
            If there is no such target, metric or fraction.
        """
        return cls.from_frame(
            read_study(study, "rankings")(),
            target=target,
            metric=metric,
            fraction=fraction,
            ax=ax,
            **plot_options,
        )

    @classmethod
    def from_frame(
        cls,
        frame,
        *,
        candidates=None,
        target=None,
        metric=None,
        fraction=None,
        ax=None,
        **plot_options,
    ):
        """Plot a table of ranks over repeats.

        Parameters
        ----------
        frame : data frame or mapping of str to sequence
            What a study's ``rankings`` gives: with the columns "target", "metric", "fraction" and
            "repeat", and one with the ranks of each candidate, NaN where it has no score.
        candidates : list of str, default=None
            Columns of the candidates; all other columns if None.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all as they appear if None.
        fraction : float or list of float, default=None
            Which fractions to show; the smallest if None, where rankings move most.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : RankBumpDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `frame` is no frame.
        ValueError
            If the frame lacks columns or rows, or has a ranking twice, or if there is no such
            candidate, target, metric or fraction.
        """
        others = [name for name in column_names(frame) if name not in _KEYS]
        names = others if candidates is None else list(candidates)
        source = "RobustnessStudy.rankings()"
        columns = read_columns(frame, (*_KEYS, *names), source=source)
        if not names:
            raise ValueError(
                f"'frame' must have a column of ranks for each candidate, as {source} gives them. "
                f"It has only {list(_KEYS)}."
            )
        table = {str(name): read_numbers(columns[name], name, 1) for name in names}
        targets = choose(columns["target"], target, "target")
        metrics = choose(columns["metric"], metric, "metric")
        fractions = choose_fractions(columns["fraction"], fraction, min)
        rows = {}
        for row, key in enumerate(zip(*(columns[name] for name in _KEYS[:3]), strict=True)):
            known, repeat = rows.setdefault(key, {}), columns["repeat"][row]
            if repeat in known:
                raise ValueError(
                    f"'frame' must have one row for each ranking. Got two for target {key[0]!r}, "
                    f"metric {key[1]!r}, fraction {key[2]:g}, repeat {repeat!r}."
                )
            known[repeat] = row
        panels = [(t, m, f) for f in fractions for t in targets for m in metrics]
        panels = [panel for panel in panels if panel in rows]
        if not panels:
            raise ValueError("'frame' has no row for the 'target', 'metric' and 'fraction' chosen.")
        display = cls(
            [{name: table[name][list(rows[panel].values())] for name in table} for panel in panels],
            columns=[list(rows[panel]) for panel in panels],
            titles=[f"{t}, {m}, {percent(f)}" for t, m, f in panels],
            column_name="repeat",
        )
        return display.plot(ax=ax, **plot_options)

    @classmethod
    def from_scores(
        cls,
        scores,
        *,
        coefficients=("kendall", "weighted_kendall", "spearman"),
        column_name=None,
        ax=None,
        **plot_options,
    ):
        """Plot the ranks by several measures, or by anything else that has scores.

        Parameters
        ----------
        scores : dict of str to dict of str to float
            By measure and candidate, higher is better, NaN for a candidate without a score; or such
            a dict for each panel. Series serve as well as dicts.
        coefficients : list of str, default=("kendall", "weighted_kendall", "spearman")
            What to write above a panel of two columns: their correlation by these
            :func:`~sktransfer.evaluation.rank_correlation` methods.
        column_name : str, default=None
            What the columns are.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : RankBumpDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `scores` is no dict of dicts.
        ValueError
            If columns of a panel differ in their candidates, or there is no such coefficient.
        """
        panels = _read_scores(scores)
        unknown = [name for name in coefficients if name not in SYMBOLS]
        if unknown or isinstance(coefficients, str):
            raise ValueError(
                f"'coefficients' must be among {list(SYMBOLS)}. Got {coefficients!r} instead."
            )
        display = cls(
            [_ranks(panel) for panel in panels.values()],
            columns=[list(panel) for panel in panels.values()],
            titles=[
                "\n".join(filter(None, (title, _agreement(panel, coefficients))))
                for title, panel in panels.items()
            ],
            column_name=column_name,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, highlight=None, cmap="viridis", line_kwargs=None):
        """Draw the ranks.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel. If None, a new figure, large enough for all names.
        highlight : str or list of str, default=None
            Candidates to draw in a colour of their own, and all others in grey. If None, colours
            are those of the ranks in the first column, dark for the best.
        cmap : str or matplotlib Colormap, default="viridis"
            For these colours; its lightest end is left out.
        line_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : RankBumpDisplay
            The display itself.
        """
        check_matplotlib_support("RankBumpDisplay.plot")
        panels = [
            _Panel(*panel) for panel in zip(self.ranks, self.columns, self.titles, strict=True)
        ]
        everyone = list(dict.fromkeys(name for panel in panels for name in panel.names))
        marked = [] if highlight is None else choose(everyone, highlight, "highlight")
        axes = given_axes(ax, self.titles, "'target', 'metric' or 'fraction'")
        handles = _notes(panels)
        own_figure = axes is None
        if own_figure:
            sizes = [panel.size() for panel in panels]
            width, height = (max(size[side] for size in sizes) for side in (0, 1))
            n_rows, n_columns = grid_shape(len(panels), width)
            height = n_rows * height + 0.2 * bool(self.column_name)
            size = (max(n_columns * width, 3), height + note_height(handles, n_columns * width))
            axes = new_axes(len(panels), n_rows, n_columns, size)
        self.lines_, self.names_ = [], []
        for panel, panel_ax in zip(panels, axes, strict=True):
            room = panel_ax.bbox.width / panel_ax.figure.dpi
            column = room / (len(panel.columns) - 1 + 2 * _MARGIN)
            if own_figure:
                room, column = panel.size()[0] - 0.1, panel.column_width()
            colors = panel.colors(marked, highlight is not None, cmap)
            self.lines_.append(_draw_lines(panel_ax, panel, colors, line_kwargs or {}))
            self.names_.append(_draw_names(panel_ax, panel, colors, set(marked)))
            # Over the names too; those of a single column stand on its left only.
            place = {} if len(panel.columns) > 1 else {"x": 1, "ha": "right"}
            title, style = wrap(panel.title, room, _TITLE_SIZE), {"fontsize": _TITLE_SIZE, **place}
            panel_ax.set_title(title, parse_math=False, **style)
            panel_ax.set_xticks(
                range(len(panel.columns)),
                [wrap(name, column - 0.06, _LABEL_SIZE) for name in panel.columns],
                fontsize=_LABEL_SIZE,
                parse_math=False,
            )
            if self.column_name:
                panel_ax.set_xlabel(self.column_name, fontsize=_LABEL_SIZE, parse_math=False)
        self.axes_, self.ax_, self.figure_ = np.array(axes, dtype=object), axes[0], axes[0].figure
        self.legend_ = note_below(axes, own_figure, handles)
        return self


# -- panels ----------------------------------------------------------------------------------------


class _Panel:
    """Ranks of one panel: where points, names and ties are."""

    def __init__(self, ranks, columns, title):
        self.names, self.columns, self.title = list(ranks), list(columns), title
        given = np.array([np.asarray(row, dtype=float) for row in ranks.values()], ndmin=2)
        if not self.names or given.shape != (len(self.names), len(self.columns)) or not given.size:
            raise ValueError(
                f"'ranks' of panel {title!r} must have {len(self.columns)} ranks, one for each "
                "column, for each of at least one candidate."
            )
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
        widest = max(text_width(name, _LABEL_SIZE) for name in self.columns)
        return float(np.clip(widest + 0.14, 0.5 if len(self.columns) > 2 else 0.9, 1.5))

    def size(self):
        """Give width and height in inches, with names and title."""
        sides = (False, True) if len(self.columns) > 1 else (False,)
        names = sum(
            max(text_width(self.label(i, last), _NAME_SIZE) for i in range(len(self.names)))
            for last in sides
        )
        column = self.column_width()
        width = names + column * (len(self.columns) - 1 + 2 * _MARGIN) + 0.3
        longest = max(text_width(line, _TITLE_SIZE) for line in self.title.split("\n"))
        width = max(width, min(longest + 0.2, 3))
        lines = wrap(self.title, width - 0.1, _TITLE_SIZE).count("\n") + 1
        labels = max(wrap(name, column - 0.06, _LABEL_SIZE).count("\n") for name in self.columns)
        height = (len(self.names) + 0.2) * _ROW + 0.19 * lines + 0.16 * (labels + 1) + 0.25
        return width, max(height, 1.2)


def _notes(panels):
    """Explain the marks that occur."""
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
    return handles


def _draw_lines(ax, panel, colors, options):
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


def _draw_names(ax, panel, colors, marked):
    """Write names at both sides, those of a tie below each other, with a line to their rank."""
    n_candidates, last_column = len(panel.names), len(panel.columns) - 1
    left, right = -_MARGIN, last_column + _MARGIN
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


# -- scores ----------------------------------------------------------------------------------------


def _is_dict(value):
    return isinstance(value, Mapping) or (hasattr(value, "items") and hasattr(value, "index"))


def _read_scores(scores):
    """Give by panel and column a dict of candidates; a single panel has no title."""
    given = dict(scores.items()) if _is_dict(scores) else {}
    if not given or not all(_is_dict(side) and len(side) for side in given.values()):
        raise TypeError(
            "'scores' must be a dict of measures, each with a dict of candidates, or a dict of "
            f"such panels. Got {scores!r} instead."
        )
    nested = [_is_dict(value) for side in given.values() for value in dict(side.items()).values()]
    panels = given if all(nested) else {"": given}
    read = {}
    for title, panel in panels.items():
        columns = {
            str(column): {
                str(name): value
                for name, value in zip(
                    dict(side.items()),
                    read_numbers(list(dict(side.items()).values()), column, argument="scores"),
                    strict=True,
                )
            }
            for column, side in panel.items()
        }
        (first, names), *others = columns.items()
        for column, side in others:
            lonely = sorted(set(names) ^ set(side))
            if lonely:
                raise ValueError(
                    f"'scores' must have the same candidates in all columns. {lonely} are in one "
                    f"only of {first!r} and {column!r}" + (f" of {title!r}." if title else ".")
                )
        read[str(title)] = columns
    return read


def _ranks(panel):
    names = list(next(iter(panel.values())))
    ranks = {name: [] for name in names}
    for side in panel.values():
        values = np.array([side[name] for name in names])
        found = np.where(np.isnan(values), np.nan, competition_ranks(values))
        for name, rank in zip(names, found.tolist(), strict=True):
            ranks[name].append(rank)
    return ranks


def _agreement(panel, coefficients):
    """Write how far two columns agree."""
    if len(panel) != 2:
        return ""
    parts = []
    for name in coefficients:
        found = rank_correlation(*panel.values(), name, n_resamples=0, n_permutations=0)
        value = "undefined" if np.isnan(found.statistic) else written(found.statistic)
        parts.append(f"{SYMBOLS[name]} {value}")
    return ",  ".join(parts)
