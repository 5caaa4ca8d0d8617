"""Scores of candidates against what they reach after fine-tuning."""

import numpy as np

from ..evaluation import rank_correlation
from ..utils._sklearn import check_matplotlib_support
from ._frames import (
    choose,
    choose_fractions,
    percent,
    read_columns,
    read_study,
    written,
)
from ._heat_map import COEFFICIENTS, SYMBOLS
from ._label_places import annotate_points
from ._panels import (
    fit_labels,
    given_axes,
    grid_shape,
    new_axes,
    note_below,
    note_height,
    text_width,
    wrap,
)
from ._score_panel import (
    NAME_SIZE,
    ScorePanel,
    draw_bars,
    draw_missing,
    number_key,
    score_notes,
)
from ._score_tables import mean_or, ragged_table, read_cells, read_reference

__all__ = ["ScorePerformanceDisplay"]

_COLOR = "#0072B2"
_LABEL_SIZE, _TITLE_SIZE = 9, 10
_INTERVALS = ("range", "std")
# Names stand beside their points up to so many, of so many inches, in a single panel.
_MOST_NAMES, _LONGEST_NAME = 16, 1.3
_KEY_ROW = 0.165  # inches


class ScorePerformanceDisplay:
    """Scores against fine-tuned performance, a point for each candidate, with intervals.

    Points are means over repeats, and over seeds of the reference; bars show how far these
    spread. Where candidates are many, numbers stand for their names. It is recommended to use
    :meth:`from_study` or :meth:`from_frame` to create a display. All parameters are stored as
    attributes. Read more in the :ref:`User Guide <figures>`.

    Parameters
    ----------
    scores : list of array-like of shape (n_candidates, n_repeats)
        For each panel the scores, NaN where there is none.
    performance : list of array-like of shape (n_candidates, n_seeds)
        For each panel what the candidates reach, NaN for one that the reference does not have.
        Whoever has neither score nor performance is not part of a panel.
    candidates : list of str of length n_candidates
        Names of the candidates.
    titles : list of str of length n_panels
        Names of the panels.
    score_names : list of str of length n_panels
        What the scores are.
    performance_name : str, default="fine-tuned performance"
        What the performance is.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        Axes of all panels.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    points_ : list of matplotlib PathCollection
        For each panel the points, of those candidates that have score and performance.
    errorbars_ : list of matplotlib ErrorbarContainer or None
        For each panel the bars; None if nothing spreads.
    texts_ : list of list of matplotlib Annotation
        For each panel what is written beside the points.
    correlations_ : list of CorrelationResult or None
        For each panel the correlation of the points; None if none was asked for.
    key_ : matplotlib Legend or None
        The names of numbered points.
    legend_ : matplotlib Legend or None
        Who is not among the points.

    See Also
    --------
    sktransfer.evaluation.rank_correlation : The correlation above a panel.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sktransfer.inspection import ScorePerformanceDisplay
    >>> frame = {
    ...     "target": ["digits"] * 6,
    ...     "metric": ["logme"] * 6,
    ...     "candidate": ["resnet", "vit", "vgg"] * 2,
    ...     "fraction": [0.25] * 6,
    ...     "repeat": [0, 0, 0, 1, 1, 1],
    ...     "score": [0.61, 0.68, 0.47, 0.64, 0.60, 0.45],
    ... }
    >>> reference = {"resnet": 0.93, "vit": 0.95, "vgg": 0.90}
    >>> display = ScorePerformanceDisplay.from_frame(frame, reference)
    >>> [text.get_text() for text in display.texts_[0]]
    ['vit', 'resnet', 'vgg']
    >>> plt.show()
    """

    def __init__(
        self,
        scores,
        performance,
        *,
        candidates,
        titles,
        score_names,
        performance_name="fine-tuned performance",
    ):
        self.scores = scores
        self.performance = performance
        self.candidates = candidates
        self.titles = titles
        self.score_names = score_names
        self.performance_name = performance_name

    @classmethod
    def from_study(
        cls,
        study,
        reference=None,
        *,
        measure=None,
        target=None,
        metric=None,
        fraction=None,
        ax=None,
        **plot_options,
    ):
        """Plot the scores of a study against a reference.

        Parameters
        ----------
        study : RobustnessStudy
            A study that has run.
        reference : dict, ReferenceRanking or None, default=None
            See :meth:`from_frame`; None for the reference that the study has.
        measure : str, default=None
            Which measure of a `ReferenceRanking`; its first if None. Names the axis.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all if None.
        fraction : float or list of float, default=None
            Which fractions to show; the largest that has several repeats if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : ScorePerformanceDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `study` is no study.
        ValueError
            If there is no reference, target, metric or fraction.
        """
        frame = read_study(study, "to_frame")()
        reference = getattr(study, "reference", None) if reference is None else reference
        if reference is None:
            raise ValueError("'reference' must be given for a study without one. Got None.")
        return cls.from_frame(
            frame,
            reference,
            measure=measure,
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
        reference,
        *,
        measure=None,
        target=None,
        metric=None,
        fraction=None,
        ax=None,
        **plot_options,
    ):
        """Plot a table of scores against a reference.

        Parameters
        ----------
        frame : data frame or mapping of str to sequence
            What a study's ``to_frame`` gives: with the columns "target", "metric", "candidate",
            "fraction", "repeat" and "score". Rows whose optional "status" is "failed" have no
            score.
        reference : dict of str to float or sequence of float, Series or ReferenceRanking
            Performance by candidate, higher is better, or several by candidate, for instance of
            several seeds. For several targets a dict with one of these for each.
        measure : str, default=None
            Which measure of a `ReferenceRanking`; its first if None. Names the axis.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all as they appear if None.
        fraction : float or list of float, default=None
            Which fractions to show; the largest that has several repeats if None, or else the
            largest.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : ScorePerformanceDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `frame` is no frame or `reference` no reference.
        ValueError
            If the frame lacks columns or rows or has a score twice, if the reference lacks a target
            or all candidates, or if there is no such target, metric or fraction.
        """
        columns = read_columns(
            frame,
            ("target", "metric", "candidate", "fraction", "repeat", "score"),
            ("status",),
            source="RobustnessStudy.to_frame()",
        )
        cells = read_cells(columns)
        targets = choose(columns["target"], target, "target")
        metrics = choose(columns["metric"], metric, "metric")
        repeats = {}
        for fraction_, repeat in zip(columns["fraction"], columns["repeat"], strict=True):
            repeats.setdefault(fraction_, set()).add(repeat)
        several = [known for known, found in repeats.items() if len(found) > 1]
        fractions = choose_fractions(
            repeats, fraction, lambda found: max(several) if several else max(found)
        )
        values = read_reference(reference, targets, measure)
        if measure is None and hasattr(reference, "measures"):
            measure = reference.measures[0]
        names = list(dict.fromkeys(columns["candidate"]))
        # Numbers, if there are any, go down from the best in the first panel.
        names.sort(key=lambda name: -mean_or(values[targets[0]].get(name), -np.inf))
        panels = [(t, m, f) for f in fractions for t in targets for m in metrics]
        panels = [panel for panel in panels if panel in cells]
        if not panels:
            raise ValueError("'frame' has no row for the 'target', 'metric' and 'fraction' chosen.")
        for shown in dict.fromkeys(panel[0] for panel in panels):
            if not set(names) & set(values[shown]):
                raise ValueError(
                    f"'reference' must have the candidates of 'frame'. It has none of {names} for "
                    f"target {shown!r}."
                )
        display = cls(
            [ragged_table([cells[panel].get(name, []) for name in names]) for panel in panels],
            # Who was not run on a target is not missing there.
            [
                ragged_table(
                    [values[p[0]].get(name, []) if name in cells[p] else [] for name in names]
                )
                for p in panels
            ],
            candidates=names,
            titles=[f"{t}, {percent(f)}" for t, _, f in panels],
            score_names=[m for _, m, _ in panels],
            performance_name=measure or "fine-tuned performance",
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self,
        ax=None,
        *,
        interval="range",
        coefficient="weighted_kendall",
        names="auto",
        point_kwargs=None,
        errorbar_kwargs=None,
    ):
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel. If None, a new figure, large enough for all.
        interval : {"range", "std"} or None, default="range"
            What bars show: from the lowest to the highest, or one standard deviation to either
            side of the mean.
        coefficient : str or None, default="weighted_kendall"
            The :func:`~sktransfer.evaluation.rank_correlation` of the points to write above each
            panel, with its 95 % interval.
        names : {"auto", "name", "number"}, default="auto"
            What stands beside the points. Numbers are explained beside the panels. "auto" takes
            numbers for several panels, for many candidates, and for long names.
        point_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.scatter`.
        errorbar_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.errorbar`.

        Returns
        -------
        display : ScorePerformanceDisplay
            The display itself.
        """
        check_matplotlib_support("ScorePerformanceDisplay.plot")
        for name, value, allowed in (
            ("interval", interval, (*_INTERVALS, None)),
            ("coefficient", coefficient, (*COEFFICIENTS, None)),
            ("names", names, ("auto", "name", "number")),
        ):
            if value not in allowed:
                raise ValueError(f"'{name}' must be one of {list(allowed)}. Got {value!r} instead.")
        panels = self._panels(interval)
        axes = given_axes(ax, self.titles, "'target', 'metric' or 'fraction'")
        own_figure = axes is None
        longest = max(text_width(name, NAME_SIZE) for name in self.candidates)
        if names == "auto":
            few = len(panels) == 1 and len(self.candidates) <= _MOST_NAMES
            names = "name" if few and longest <= _LONGEST_NAME else "number"
        numbered = names == "number"
        handles = score_notes(panels, self.candidates)
        if own_figure:
            width, height = (4.2, 3.6) if len(panels) == 1 else (3.3, 3.0)
            key_width = (longest + 0.55) * numbered
            n_rows, n_columns = grid_shape(len(panels), width)
            # The key needs its height: in a column of its own, beside as many rows as it takes.
            key_height = _KEY_ROW * len(self.candidates) + 0.3
            total = max(n_rows * height, key_height * numbered)
            total_width = n_columns * width + key_width
            size = (total_width, total + note_height(handles, total_width))
            axes = new_axes(len(panels), n_rows, n_columns, size)
        self.points_, self.errorbars_, self.texts_, self.correlations_ = [], [], [], []
        for place, (panel, panel_ax) in enumerate(zip(panels, axes, strict=True)):
            style = {
                "s": 30,
                "color": _COLOR,
                "edgecolors": "white",
                "linewidths": 0.7,
                "zorder": 4,
            }
            style |= point_kwargs or {}
            self.points_.append(panel_ax.scatter(*panel.points(), **style))
            self.errorbars_.append(draw_bars(panel_ax, panel, errorbar_kwargs or {}))
            panel_ax.margins(0.1)
            draw_missing(panel_ax, panel)
            room = width - 0.75 if own_figure else panel_ax.bbox.width / panel_ax.figure.dpi
            self._label_panel(panel_ax, place, panel, coefficient, max(room, 1))
            if not own_figure or place % n_columns == 0:
                panel_ax.set_ylabel(self.performance_name, fontsize=_LABEL_SIZE, parse_math=False)
        self.axes_, self.ax_, self.figure_ = np.array(axes, dtype=object), axes[0], axes[0].figure
        if not own_figure:
            fit_labels(axes)
        self.key_ = number_key(axes, own_figure, self.candidates) if numbered else None
        self.legend_ = note_below(axes, own_figure, handles)
        if own_figure:
            # Names find their places once the axes have theirs.
            self.figure_.draw_without_rendering()
        for panel, panel_ax in zip(panels, axes, strict=True):
            shown = np.flatnonzero(panel.shown)
            points = np.column_stack(panel.points())
            texts = [str(i + 1) if numbered else str(self.candidates[i]) for i in shown]
            ends = panel.ends_of_bars()
            self.texts_.append(annotate_points(panel_ax, points, texts, NAME_SIZE, ends))
        return self

    def _panels(self, interval):
        """Check what is shown, and give the panels."""
        given = (self.titles, self.score_names)
        if len({len(self.scores), len(self.performance), *map(len, given)}) > 1 or not self.scores:
            raise ValueError(
                "'scores', 'performance', 'titles' and 'score_names' must have an entry for each "
                "of at least one panel."
            )
        return [
            ScorePanel(scores, performance, len(self.candidates), interval)
            for scores, performance in zip(self.scores, self.performance, strict=True)
        ]

    def _label_panel(self, ax, place, panel, coefficient, width):
        found, title = None, self.titles[place]
        if coefficient is not None:
            found = rank_correlation(*panel.points(), coefficient, n_permutations=0)
            value = f"undefined: {found.reason}"
            if found.reason is None:
                low, high = found.interval
                value = f"{written(found.statistic)} ({written(low)} to {written(high)})"
            title += f"\n{SYMBOLS[coefficient]} {value}"
        self.correlations_.append(found)
        ax.set_title(wrap(title, width, _TITLE_SIZE), fontsize=_TITLE_SIZE, parse_math=False)
        name = wrap(str(self.score_names[place]), width, _LABEL_SIZE)
        ax.set_xlabel(name, fontsize=_LABEL_SIZE, parse_math=False)
        ax.tick_params(labelsize=_LABEL_SIZE - 1)
        ax.locator_params(nbins=5)
        ax.grid(color="#e2e2e2", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
