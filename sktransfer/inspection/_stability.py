"""Heat maps of how stable the rankings by each metric are."""

import numpy as np

from ._frames import choose, percent, read_columns, read_numbers, read_study, shorten_reason
from ._heat_map import COEFFICIENTS, HeatMaps

__all__ = ["StabilityDisplay"]

_KINDS = {
    "intra": "between repeats",
    "ref": "with the ranking on all of the target",
    "reference": "with the reference",
}
_NO_ROW = "not in the table"


class StabilityDisplay(HeatMaps):
    """How stable rankings are: a heat map of metrics and fractions for each target.

    It is recommended to use :meth:`from_study` or :meth:`from_frame` to create a display. All
    parameters are stored as attributes. Read more in the :ref:`User Guide <figures>`.

    Parameters
    ----------
    values : array-like of shape (n_panels, n_metrics, n_fractions)
        Mean correlations, NaN where undefined.
    titles : list of str of length n_panels
        Names of the panels.
    metrics : list of str of length n_metrics
        Names of the metrics, from top to bottom.
    fractions : list of float of length n_fractions
        Shares of the target, from left to right.
    reasons : array-like of str of shape (n_panels, n_metrics, n_fractions), default=None
        Why a value is undefined.
    partial : array-like of bool of shape (n_panels, n_metrics, n_fractions), default=None
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
    texts_ : ndarray of matplotlib Text of shape (n_panels, n_metrics, n_fractions)
        The values written, None for a blank cell.
    blanks_ : list of list of matplotlib Rectangle
        By panel, the hatched cells.
    colorbar_ : matplotlib Colorbar or None
        The colour bar.
    legend_ : matplotlib Legend or None
        What hatched cells mean; None if there are none.

    See Also
    --------
    MetricAgreementDisplay : How far the metrics agree with each other.
    sktransfer.model_selection.RobustnessStudy : Makes the tables.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sktransfer.inspection import StabilityDisplay
    >>> frame = {
    ...     "target": ["digits"] * 4,
    ...     "metric": ["logme", "logme", "sfda", "sfda"],
    ...     "fraction": [0.05, 0.25, 0.05, 0.25],
    ...     "value": [0.61, 0.83, float("nan"), 0.72],
    ...     "reason": [None, None, "all candidates tied", None],
    ... }
    >>> display = StabilityDisplay.from_frame(frame, kind="intra", coefficient="kendall")
    >>> [text.get_text() for text in display.legend_.get_texts()]
    ['undefined: all candidates tied (1 cell)']
    >>> plt.show()
    """

    column_name = "share of the target"

    def __init__(
        self, values, *, titles, metrics, fractions, reasons=None, partial=None, value_name=None
    ):
        columns = [percent(fraction) for fraction in fractions]
        self._store(values, titles, metrics, columns, reasons, partial, value_name)
        self.metrics, self.fractions = self.rows, list(fractions)

    @classmethod
    def from_study(
        cls,
        study,
        *,
        kind="intra",
        coefficient="kendall",
        reference=None,
        nan_policy="propagate",
        target=None,
        metric=None,
        ax=None,
        **plot_options,
    ):
        """Plot the stability of a study's rankings.

        Parameters
        ----------
        study : RobustnessStudy
            A study that has run.
        kind : {"intra", "ref", "reference"}, default="intra"
            Agreement between repeats, with the ranking on all of the target, or with a reference.
            See :func:`~sktransfer.evaluation.stability_intra` and
            :func:`~sktransfer.evaluation.stability_ref`.
        coefficient : {"kendall", "weighted_kendall", "spearman"}, default="kendall"
            The coefficient.
        reference : mapping, default=None
            For ``kind="reference"``: by target, a number for each candidate, or these numbers
            themselves for a single target. None for the reference that the study has.
        nan_policy : {"propagate", "omit"}, default="propagate"
            Whether an undefined correlation makes the mean undefined or is left out of it, which a
            star says.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each target; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : StabilityDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `study` is no study.
        ValueError
            If there is no such kind, target or metric, or no reference.
        """
        if kind not in _KINDS:
            raise ValueError(f"'kind' must be one of {list(_KINDS)}. Got {kind!r} instead.")
        stability, options = read_study(study, "stability"), {"nan_policy": nan_policy}
        if kind == "reference":
            reference = getattr(study, "reference", None) if reference is None else reference
            if reference is None:
                raise ValueError("'reference' must be given for a study without one. Got None.")
            options["reference"] = reference
        elif reference is not None:
            raise ValueError(f"'reference' is for kind='reference'. Got it with kind={kind!r}.")
        frame = stability("intra" if kind == "intra" else "ref", coefficient, **options)
        return cls.from_frame(
            frame,
            kind=kind,
            coefficient=coefficient,
            target=target,
            metric=metric,
            ax=ax,
            **plot_options,
        )

    @classmethod
    def from_frame(
        cls,
        frame,
        *,
        kind=None,
        coefficient=None,
        target=None,
        metric=None,
        ax=None,
        **plot_options,
    ):
        """Plot a table of stability.

        Parameters
        ----------
        frame : data frame or mapping of str to sequence
            What a study's ``stability`` gives for "intra" and "ref", or its ``agreement``: with the
            columns "target", "metric", "fraction" and "value". If there is a column "repeat",
            values are averaged over repeats, and the mean is undefined where one of them is.
            Optional are "reason" and "n_undefined", and "measure", which splits targets into
            panels for, say, references by accuracy and by AUROC.
        kind : {"intra", "ref", "reference"}, default=None
            What the values are, for the label of the colour bar.
        coefficient : {"kendall", "weighted_kendall", "spearman"}, default=None
            The coefficient, for the same label.
        target, metric : str or list of str, default=None
            Which targets and metrics to show, in which order; all as they appear if None.
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel; a new figure of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : StabilityDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `frame` is no frame.
        ValueError
            If the frame lacks columns or rows, has a cell twice or values that are no correlations,
            or if there is no such target or metric.
        """
        if not (kind is None or kind in _KINDS):
            raise ValueError(f"'kind' must be one of {list(_KINDS)}. Got {kind!r} instead.")
        columns = read_columns(
            frame,
            ("target", "metric", "fraction", "value"),
            ("repeat", "reason", "n_undefined", "measure"),
            source="RobustnessStudy.stability('intra')",
        )
        cells = _read_cells(columns)
        targets = choose(columns["target"], target, "target")
        metrics = choose(columns["metric"], metric, "metric")
        measures = list(dict.fromkeys(columns.get("measure", [None])))
        present = {(cell[0], cell[1]) for cell in cells}
        panels = [(t, m) for m in measures for t in targets if (t, m) in present]
        fractions = sorted({f for (t, _, metric, f) in cells if t in targets and metric in metrics})
        if not fractions:
            raise ValueError("'frame' has no row for the 'target' and 'metric' chosen.")
        grid = [
            [[cells.get((*panel, metric, f), _ABSENT) for f in fractions] for metric in metrics]
            for panel in panels
        ]
        values, reasons, partial = (
            [[[cell[part] for cell in row] for row in table] for table in grid] for part in range(3)
        )
        display = cls(
            values,
            titles=[t if m is None else f"{t}, {m}" for t, m in panels],
            metrics=metrics,
            fractions=fractions,
            reasons=reasons,
            partial=partial,
            value_name=_value_name(coefficient, kind),
        )
        return display.plot(ax=ax, **plot_options)


# A cell: its value, the reason if there is none, and whether it is a mean of some repeats only.
_ABSENT = (np.nan, _NO_ROW, False)


def _value_name(coefficient, kind):
    name = COEFFICIENTS.get(coefficient, coefficient or "correlation")
    return f"{name} {_KINDS[kind]}" if kind else name


def _read_cells(columns):
    """Give value, reason and whether it is partial for (target, measure, metric, fraction)."""
    n_rows = len(columns["target"])
    values = read_numbers(columns["value"], "value", -1 - 1e-9, 1 + 1e-9)
    reasons = columns.get("reason", [None] * n_rows)
    undefined = np.nan_to_num(read_numbers(columns.get("n_undefined", [0] * n_rows), "n_undefined"))
    keys = zip(
        columns["target"],
        columns.get("measure", [None] * n_rows),
        columns["metric"],
        columns["fraction"],
        strict=True,
    )
    repeats = columns.get("repeat", [None] * n_rows)
    rows = {}
    for row, (key, repeat) in enumerate(zip(keys, repeats, strict=True)):
        known = rows.setdefault(key, {})
        if repeat in known:
            target, _, metric, fraction = key
            raise ValueError(
                f"'frame' must have one row for each cell. Got two for target {target!r}, metric "
                f"{metric!r}, fraction {fraction:g}"
                + (f", repeat {repeat!r}." if repeat is not None else ".")
            )
        known[repeat] = row
    cells = {}
    for key, known in rows.items():
        places = list(known.values())
        blank = [place for place in places if np.isnan(values[place])]
        # The reason that most of its repeats have.
        kinds = [shorten_reason(reasons[place]) for place in blank]
        reason = max(kinds, key=kinds.count) if kinds else None
        mean = np.nan if blank else float(np.mean(values[places]))
        cells[key] = (mean, reason, bool(not blank and undefined[places].any()))
    return cells
