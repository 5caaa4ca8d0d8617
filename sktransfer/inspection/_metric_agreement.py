"""Heat maps of how far metrics agree with each other."""

import numpy as np

from ._frames import (
    choose,
    choose_fractions,
    percent,
    read_columns,
    read_numbers,
    read_study,
    shorten_reason,
)
from ._heat_map import COEFFICIENTS, HeatMaps

__all__ = ["MetricAgreementDisplay"]


class MetricAgreementDisplay(HeatMaps):
    """How far metrics agree: a heat map of metric by metric for each target and fraction.

    It is recommended to use :meth:`from_study` or :meth:`from_frame` to create a display. All
    parameters are stored as attributes. Read more in the :ref:`User Guide <figures>`.

    Parameters
    ----------
    values : array-like of shape (n_panels, n_metrics, n_metrics)
        Mean correlations between metrics, NaN where undefined. The diagonal may be NaN without a
        reason and stays white.
    titles : list of str of length n_panels
        Names of the panels.
    metrics : list of str of length n_metrics
        Names of the metrics, from top to bottom and from left to right.
    reasons : array-like of str of shape (n_panels, n_metrics, n_metrics), default=None
        Why a value is undefined.
    partial : array-like of bool of shape (n_panels, n_metrics, n_metrics), default=None
        Where a value is the mean of those correlations only that are defined.
    value_name : str, default=None
        What the values are, for the colour bar.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        Axes of all panels.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    ims_ : list of matplotlib AxesImage of length n_panels
        The heat maps.
    texts_ : ndarray of matplotlib Text of shape (n_panels, n_metrics, n_metrics)
        The values written, None for a blank cell.
    blanks_ : list of list of matplotlib Rectangle
        By panel, the hatched cells.
    colorbar_ : matplotlib Colorbar or None
        The colour bar.
    legend_ : matplotlib Legend or None
        What hatched cells mean; None if there are none.

    See Also
    --------
    StabilityDisplay : How stable the rankings by each metric are.
    sktransfer.evaluation.stability_inter : The agreement that is shown.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sktransfer.inspection import MetricAgreementDisplay
    >>> frame = {
    ...     "target": ["digits"] * 3,
    ...     "metric_a": ["logme", "logme", "hscore"],
    ...     "metric_b": ["hscore", "parc", "parc"],
    ...     "fraction": [0.25] * 3,
    ...     "value": [0.91, 0.42, -0.07],
    ... }
    >>> display = MetricAgreementDisplay.from_frame(frame, coefficient="kendall")
    >>> display.ax_.get_title(), display.metrics
    ('digits, 25 %', ['logme', 'hscore', 'parc'])
    >>> plt.show()
    """

    column_name = None
    _chooses_panels = "'target' or 'fraction'"
    _diagonal = True

    def __init__(self, values, *, titles, metrics, reasons=None, partial=None, value_name=None):
        self._store(values, titles, metrics, metrics, reasons, partial, value_name)
        self.metrics = self.rows

    @classmethod
    def from_study(
        cls,
        study,
        *,
        coefficient="kendall",
        nan_policy="propagate",
        target=None,
        fraction=None,
        metric=None,
        ax=None,
        **plot_options,
    ):
        """Plot how far the metrics of a study agree.

        Parameters
        ----------
        study : RobustnessStudy
            A study that has run.
        coefficient : {"kendall", "weighted_kendall", "spearman"}, default="kendall"
            The coefficient.
        nan_policy : {"propagate", "omit"}, default="propagate"
            Whether an undefined correlation makes the mean undefined or is left out of it, which a
            star says.
        target : str or list of str, default=None
            Which targets to show, in which order; all if None.
        fraction : float or list of float, default=None
            Which fractions to show, in which order; the largest if None.
        metric : str or list of str, default=None
            Which metrics to show, in which order; all if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : MetricAgreementDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `study` is no study.
        ValueError
            If there is no such target, fraction or metric.
        """
        frame = read_study(study, "stability")("inter", coefficient, nan_policy=nan_policy)
        return cls.from_frame(
            frame,
            coefficient=coefficient,
            target=target,
            fraction=fraction,
            metric=metric,
            ax=ax,
            **plot_options,
        )

    @classmethod
    def from_frame(
        cls,
        frame,
        *,
        coefficient=None,
        target=None,
        fraction=None,
        metric=None,
        ax=None,
        **plot_options,
    ):
        """Plot a table of agreement between metrics.

        Parameters
        ----------
        frame : data frame or mapping of str to sequence
            What a study's ``stability`` gives for ``kind="inter"``: with the columns "target",
            "metric_a", "metric_b", "fraction" and "value", and optionally "reason" and
            "n_undefined". A pair of metrics stands in it in one order or in both.
        coefficient : {"kendall", "weighted_kendall", "spearman"}, default=None
            The coefficient, for the label of the colour bar.
        target : str or list of str, default=None
            Which targets to show, in which order; all as they appear if None.
        fraction : float or list of float, default=None
            Which fractions to show, in which order; the largest if None.
        metric : str or list of str, default=None
            Which metrics to show, in which order; all as they appear if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : MetricAgreementDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `frame` is no frame.
        ValueError
            If the frame lacks columns or rows, gives a pair two values or values that are no
            correlations, or if there is no such target, fraction or metric.
        """
        columns = read_columns(
            frame,
            ("target", "metric_a", "metric_b", "fraction", "value"),
            ("reason", "n_undefined"),
            source="RobustnessStudy.stability('inter')",
        )
        cells = _read_cells(columns)
        targets = choose(columns["target"], target, "target")
        pairs = zip(columns["metric_a"], columns["metric_b"], strict=True)
        metrics = choose((name for pair in pairs for name in pair), metric, "metric")
        fractions = choose_fractions(columns["fraction"], fraction, max)
        panels = [(t, f) for f in fractions for t in targets]
        shape = (len(panels), len(metrics), len(metrics))
        values = np.full(shape, np.nan)
        reasons = np.full(shape, "not in the table", dtype=object)
        partial = np.zeros(shape, dtype=bool)
        for index in np.ndindex(shape):
            place, row, column = index
            pair = (metrics[row], metrics[column])
            cell = cells.get((*panels[place], *pair)) or cells.get((*panels[place], *pair[::-1]))
            if cell is not None:
                values[index], reasons[index], partial[index] = cell
        display = cls(
            values,
            titles=[f"{t}, {percent(f)}" for t, f in panels],
            metrics=metrics,
            reasons=reasons,
            partial=partial,
            value_name=f"{COEFFICIENTS.get(coefficient, coefficient or 'correlation')} "
            "between metrics",
        )
        return display.plot(ax=ax, **plot_options)


def _read_cells(columns):
    """Give value, reason and whether it is partial for (target, fraction, metric_a, metric_b)."""
    n_rows = len(columns["target"])
    values = read_numbers(columns["value"], "value", -1 - 1e-9, 1 + 1e-9)
    reasons = columns.get("reason", [None] * n_rows)
    undefined = np.nan_to_num(read_numbers(columns.get("n_undefined", [0] * n_rows), "n_undefined"))
    keys = zip(
        columns["target"],
        columns["fraction"],
        columns["metric_a"],
        columns["metric_b"],
        strict=True,
    )
    cells = {}
    for row, (t, f, a, b) in enumerate(keys):
        value = float(values[row])
        reason = shorten_reason(reasons[row]) if np.isnan(value) else None
        turned = cells.get((t, f, b, a))
        if (t, f, a, b) in cells or (
            turned is not None and not np.isclose(turned[0], value, atol=1e-9, equal_nan=True)
        ):
            raise ValueError(
                f"'frame' must have one value for each pair of metrics. Got two for target {t!r}, "
                f"metrics {a!r} and {b!r}, fraction {f:g}."
            )
        cells[t, f, a, b] = (value, reason, bool(np.isfinite(value) and undefined[row]))
    return cells
