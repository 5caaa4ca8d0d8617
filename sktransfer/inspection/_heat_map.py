"""Heat maps of correlations: values in their cells, undefined ones hatched with the reason."""

import numpy as np

from ..utils._sklearn import check_matplotlib_support
from ._frames import common_reasons, shorten_reason, written
from ._panels import (
    final_size,
    fit_labels,
    given_axes,
    grid_shape,
    new_axes,
    note_below,
    note_height,
    text_width,
    wrap,
)

__all__ = ["COEFFICIENTS", "SYMBOLS", "HeatMaps"]

# What coefficients are called in figures.
COEFFICIENTS = {
    "kendall": "Kendall's τ",
    "weighted_kendall": "weighted Kendall's τ",
    "spearman": "Spearman's ρ",
    "pearson": "Pearson's r",
}
SYMBOLS = {"kendall": "τ", "weighted_kendall": "weighted τ", "spearman": "ρ", "pearson": "r"}
_HATCHES = ("////", "....", "xxxx", "++++")
_BLANK, _HATCH_COLOR = "#e3e3e3", "#808080"
_CELL_WIDTH, _CELL_HEIGHT = 0.48, 0.28  # inches
_LABEL_SIZE, _VALUE_SIZE, _TITLE_SIZE = 9, 8, 10


class HeatMaps:
    """Tables of correlations as heat maps, a panel for each table.

    What the displays of stability and of agreement have in common; these tell what the parameters
    are.

    Parameters
    ----------
    values : array-like of shape (n_panels, n_rows, n_columns)
        Correlations, NaN where undefined.
    titles, rows, columns : list of str
        Names of panels, rows and columns.
    reasons : array-like of shape (n_panels, n_rows, n_columns)
        Why a value is undefined.
    partial : array-like of bool of shape (n_panels, n_rows, n_columns)
        Where a value is the mean of those correlations only that are defined.
    value_name, column_name : str
        What values and columns are.
    """

    # What chooses panels, for messages.
    _chooses_panels = "'target'"
    # Cells of a row with itself, which have no value and need no reason.
    _diagonal = False

    def _store(self, values, titles, rows, columns, reasons, partial, value_name):
        self.values = np.asarray(values, dtype=float)
        self.titles, self.rows, self.columns = list(titles), list(rows), list(columns)
        shape = (len(self.titles), len(self.rows), len(self.columns))
        if self.values.shape != shape or 0 in shape:
            raise ValueError(
                f"'values' must have a table for each of the {shape[0]} panels, of {shape[1]} rows "
                f"and {shape[2]} columns. Got an array of shape {self.values.shape} instead."
            )
        if (np.abs(self.values) > 1 + 1e-9).any():
            worst = self.values[np.abs(self.values) > 1 + 1e-9][0]
            raise ValueError(f"'values' must hold correlations, from -1 to 1. Got {worst:g}.")
        self.reasons = np.full(shape, "no reason given", dtype=object)
        self.partial = np.zeros(shape, dtype=bool)
        for name, given in (("reasons", reasons), ("partial", partial)):
            if given is not None:
                given = np.asarray(given, dtype=getattr(self, name).dtype)
                if given.shape != shape:
                    raise ValueError(
                        f"'{name}' must have an entry for each of the 'values'. "
                        f"Got an array of shape {given.shape} instead of {shape}."
                    )
                setattr(self, name, given)
        self.value_name = value_name

    def plot(
        self,
        ax=None,
        *,
        include_values=True,
        values_format=".2f",
        cmap="RdBu",
        colorbar=True,
        im_kwargs=None,
        text_kwargs=None,
    ):
        """Draw the heat maps.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of Axes, default=None
            Axes to draw on, one for each panel. If None, a new figure, large enough for all panels,
            labels and values.
        include_values : bool, default=True
            Whether values are written into their cells.
        values_format : str, default=".2f"
            How they are written.
        cmap : str or matplotlib Colormap, default="RdBu"
            A diverging map, whose middle is 0. Red and blue are told apart with any kind of colour
            vision, "PuOr" is another such map.
        colorbar : bool, default=True
            Whether there is a colour bar.
        im_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.imshow`, such as other limits `vmin`, `vmax`.
        text_kwargs : dict, default=None
            Options of the values written, such as `fontsize`.

        Returns
        -------
        display : object
            The display itself.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        axes = given_axes(ax, self.titles, self._chooses_panels)
        hatches, handles = {}, []
        for (kinds, label, count), hatch in zip(self._blank_reasons(), _HATCHES, strict=False):
            hatches.update(dict.fromkeys(kinds, hatch))
            label = f"undefined: {label} ({count} {'cell' if count == 1 else 'cells'})"
            style = {"facecolor": _BLANK, "edgecolor": _HATCH_COLOR, "hatch": hatch}
            handles.append(Patch(label=label, linewidth=0, **style))
        if include_values and (self.partial & np.isfinite(self.values)).any():
            label = "mean of those repeats only whose correlation is defined"
            style = {"marker": "$*$", "linestyle": "none", "color": "black"}
            handles.append(Line2D([], [], label=label, **style))

        own_figure, n_columns = axes is None, 1
        if own_figure:
            size, (n_rows, n_columns), panel = self._layout(handles, colorbar)
            axes = new_axes(len(self.titles), n_rows, n_columns, size)
            panels, height = [panel] * len(axes), n_rows * panel[1]
        else:
            panels = [(ax.bbox.width / ax.figure.dpi, None) for ax in axes]
        self.ims_, self.blanks_ = [], []
        self.texts_ = np.full(self.values.shape, None, dtype=object)
        for place, panel_ax in enumerate(axes):
            self._draw_panel(
                place,
                panel_ax,
                hatches,
                {"cmap": cmap, "vmin": -1, "vmax": 1, "aspect": "auto", **(im_kwargs or {})},
                values_format if include_values else None,
                text_kwargs or {},
            )
            left = not own_figure or place % n_columns == 0
            bottom = not own_figure or place + n_columns >= len(axes)
            self._label_panel(panel_ax, panels[place][0], self.titles[place], left, bottom)
        self.axes_, self.ax_, self.figure_ = np.array(axes, dtype=object), axes[0], axes[0].figure
        if not own_figure:
            fit_labels(axes)
        self.legend_ = note_below(axes, own_figure, handles)
        self.colorbar_ = None
        if colorbar:
            height = height if own_figure else final_size(axes[-1])[1]
            self.colorbar_ = self._draw_colorbar(axes if own_figure else axes[-1], height)
        if not own_figure and not {"fontsize", "size"} & set(text_kwargs or {}):
            self._shrink_values()
        return self

    # -- what is drawn -----------------------------------------------------------------------------

    def _blank(self):
        """Cells without a value that there should be a reason for."""
        blank = np.isnan(self.values)
        if self._diagonal:
            blank[:, np.arange(len(self.rows)), np.arange(len(self.rows))] = False
        return blank

    def _blank_reasons(self):
        kinds = [shorten_reason(reason) for reason in self.reasons[self._blank()]]
        return common_reasons(kinds, len(_HATCHES))

    def _draw_panel(self, place, ax, hatches, im_options, values_format, text_options):
        from matplotlib.patches import Rectangle

        values = self.values[place]
        image = ax.imshow(np.ma.masked_invalid(values), **im_options)
        self.ims_.append(image)
        blanks = []
        for row, column in np.argwhere(self._blank()[place]):
            blank = Rectangle(
                (column - 0.5, row - 0.5),
                1,
                1,
                facecolor=_BLANK,
                edgecolor=_HATCH_COLOR,
                hatch=hatches[shorten_reason(self.reasons[place, row, column])],
                linewidth=0,
            )
            blanks.append(ax.add_patch(blank))
        self.blanks_.append(blanks)
        style = {"ha": "center", "va": "center", "fontsize": _VALUE_SIZE}
        for row, column in np.argwhere(np.isfinite(values) & (values_format is not None)):
            value = values[row, column]
            text = written(value, values_format)
            text += "*" * bool(self.partial[place, row, column])
            color = _readable_on(image.cmap(image.norm(value)))
            self.texts_[place, row, column] = ax.text(
                column, row, text, **{**style, "color": color, **text_options}
            )

    def _shrink_values(self):
        """Make values as small as cells of the caller's axes need it."""
        texts = [text for text in self.texts_.ravel() if text is not None]
        widest = max((text_width(text.get_text(), _VALUE_SIZE) for text in texts), default=0)
        cell = min(final_size(ax)[0] for ax in self.axes_) / len(self.columns)
        for text in texts:
            text.set_fontsize(max(4, _VALUE_SIZE * min(1, 0.92 * cell / widest)))

    def _label_panel(self, ax, width, title, left, bottom):
        title = wrap(title, max(width, 1), _TITLE_SIZE)
        ax.set_title(title, fontsize=_TITLE_SIZE, parse_math=False)
        rows, columns = np.arange(len(self.rows)), np.arange(len(self.columns))
        style = {"fontsize": _LABEL_SIZE, "parse_math": False}
        ax.set_yticks(rows, self.rows if left else [""] * len(rows), **style)
        turned = {"rotation": 90} if self._widest(self.columns) > width / len(columns) else {}
        ax.set_xticks(columns, self.columns if bottom else [""] * len(columns), **style, **turned)
        if bottom and self.column_name:
            ax.set_xlabel(self.column_name, fontsize=_LABEL_SIZE)
        # White lines between the cells.
        ax.set_xticks(columns[1:] - 0.5, minor=True)
        ax.set_yticks(rows[1:] - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=1.2)
        ax.tick_params(which="both", length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)

    def _draw_colorbar(self, axes, height):
        image = self.ims_[0]
        bar = self.figure_.colorbar(
            image,
            ax=axes,
            aspect=max(height / 0.15, 5),
            fraction=0.08,
            pad=0.02,
            # Where nothing lays out the figure, it takes its place from where the axes are now.
            use_gridspec=self.figure_.get_layout_engine() is not None,
        )
        bar.set_ticks(np.linspace(*image.get_clim(), 5 if height > 1.3 else 3))
        bar.ax.tick_params(labelsize=_LABEL_SIZE)
        bar.outline.set_visible(False)
        label = wrap(self.value_name or "correlation", max(height, 1), _LABEL_SIZE)
        bar.set_label(label, fontsize=_LABEL_SIZE)
        return bar

    # -- sizes -------------------------------------------------------------------------------------

    @staticmethod
    def _widest(texts):
        return max(text_width(text, _LABEL_SIZE) for text in texts)

    def _layout(self, handles, colorbar):
        """Choose size of a new figure, rows and columns of its panels, and the size of a panel."""
        titles = max(text_width(title, _TITLE_SIZE) for title in self.titles)
        width = max(len(self.columns) * _CELL_WIDTH, min(titles + 0.1, 2.6), 1.2)
        height = max(len(self.rows) * _CELL_HEIGHT, 0.5)
        n_rows, n_columns = grid_shape(len(self.titles), width + 0.12)
        lines = max(wrap(title, width, _TITLE_SIZE).count("\n") + 1 for title in self.titles)
        labels = self._widest(self.columns)
        below = (0.2 if labels < _CELL_WIDTH else labels + 0.05) + 0.22 * bool(self.column_name)
        total_width = self._widest(self.rows) + n_columns * (width + 0.12) + 0.3
        total_width = max(total_width + 0.95 * bool(colorbar), 3.2)
        # Labels of columns stand under the last panel of each, also where a row is not full.
        below *= 1 if len(self.titles) == n_rows * n_columns else 2
        total_height = n_rows * (height + 0.19 * lines + 0.14) + below + 0.1
        total_height = max(total_height, 1.9) + note_height(handles, total_width)
        return (total_width, total_height), (n_rows, n_columns), (width, height)


def _readable_on(color):
    """Black or white, whichever stands out more from a colour (relative luminance)."""
    channels = np.asarray(color[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"
