"""Bump charts: how the ranks of candidates change from repeat to repeat or measure to measure."""

import numpy as np

from ..evaluation import competition_ranks, rank_correlation
from ..utils._sklearn import check_matplotlib_support
from ._bump_panel import (
    LABEL_SIZE,
    MARGIN,
    TITLE_SIZE,
    RankPanel,
    bump_notes,
    draw_lines,
    draw_names,
)
from ._frames import (
    choose,
    choose_fractions,
    column_names,
    is_dict,
    percent,
    read_columns,
    read_numbers,
    read_study,
    written,
)
from ._heat_map import SYMBOLS
from ._panels import fit_labels, given_axes, grid_shape, new_axes, note_below, note_height, wrap

__all__ = ["RankBumpDisplay"]

_KEYS = ("target", "metric", "fraction", "repeat")


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
    left_out : list of str, default=()
        Candidates that are not in every panel, for the note below.

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

    def __init__(self, ranks, *, columns, titles, column_name=None, left_out=()):
        self.ranks = ranks
        self.columns = columns
        self.titles = titles
        self.column_name = column_name
        self.left_out = left_out

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
            "repeat", and one with the ranks of each candidate, NaN where it has no score. Whoever
            has no rank on a target at all is left out of its panels, and named below.
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
        on_target = np.array(columns["target"])
        ranked = {
            t: [name for name in table if np.isfinite(table[name][on_target == t]).any()]
            or list(table)
            for t in targets
        }
        display = cls(
            [
                {name: table[name][list(rows[panel].values())] for name in ranked[panel[0]]}
                for panel in panels
            ],
            columns=[list(rows[panel]) for panel in panels],
            titles=[f"{t}, {m}, {percent(f)}" for t, m, f in panels],
            column_name="repeat",
            left_out=[name for name in table if any(name not in ranked[t] for t in targets)],
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
            RankPanel(*panel) for panel in zip(self.ranks, self.columns, self.titles, strict=True)
        ]
        everyone = list(dict.fromkeys(name for panel in panels for name in panel.names))
        marked = [] if highlight is None else choose(everyone, highlight, "highlight")
        axes = given_axes(ax, self.titles, "'target', 'metric' or 'fraction'")
        handles = bump_notes(panels, self.left_out)
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
            column = room / (len(panel.columns) - 1 + 2 * MARGIN)
            if own_figure:
                room, column = panel.size()[0] - 0.1, panel.column_width()
            colors = panel.colors(marked, highlight is not None, cmap)
            self.lines_.append(draw_lines(panel_ax, panel, colors, line_kwargs or {}))
            self.names_.append(draw_names(panel_ax, panel, colors, set(marked)))
            # Over the names too; those of a single column stand on its left only.
            place = {} if len(panel.columns) > 1 else {"x": 1, "ha": "right"}
            title, style = wrap(panel.title, room, TITLE_SIZE), {"fontsize": TITLE_SIZE, **place}
            panel_ax.set_title(title, parse_math=False, **style)
            panel_ax.set_xticks(
                range(len(panel.columns)),
                [wrap(name, column - 0.06, LABEL_SIZE) for name in panel.columns],
                fontsize=LABEL_SIZE,
                parse_math=False,
            )
            if self.column_name:
                panel_ax.set_xlabel(self.column_name, fontsize=LABEL_SIZE, parse_math=False)
        self.axes_, self.ax_, self.figure_ = np.array(axes, dtype=object), axes[0], axes[0].figure
        if not own_figure:
            fit_labels(axes)
        self.legend_ = note_below(axes, own_figure, handles)
        return self


# -- scores ----------------------------------------------------------------------------------------


def _read_scores(scores):
    """Give by panel and column a dict of candidates; a single panel has no title."""
    given = dict(scores.items()) if is_dict(scores) else {}
    if not given or not all(is_dict(side) and len(side) for side in given.values()):
        raise TypeError(
            "'scores' must be a dict of measures, each with a dict of candidates, or a dict of "
            f"such panels. Got {scores!r} instead."
        )
    nested = [is_dict(value) for side in given.values() for value in dict(side.items()).values()]
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
