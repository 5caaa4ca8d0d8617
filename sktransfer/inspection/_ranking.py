"""The ranking of candidates as a picture."""

from collections.abc import Mapping

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..evaluation import competition_ranks
from ..utils._sklearn import check_matplotlib_support

__all__ = ["RankingDisplay"]

# Two colours of the Okabe-Ito palette, which people with any kind of colour vision tell apart, and
# a grey. The best candidate also differs in shape or hatching, for print without colour.
_COLOR, _BEST_COLOR, _FAILED_COLOR = "#0072B2", "#D55E00", "#767676"
_TIED_BAND = "#fbe9dd"


class RankingDisplay:
    """Scores of candidates on a line each, the best on top.

    It is recommended to use :meth:`from_estimator` or :meth:`from_scores` to create a display. All
    parameters are stored as attributes.

    Parameters
    ----------
    candidates : list of str of length n_candidates
        Names of the candidates.
    scores : array-like of shape (n_candidates,)
        Their scores, higher is better; NaN for a candidate that failed.
    spread : array-like of shape (n_candidates,), default=None
        Half the length of an error bar on each score, for instance the standard deviation over
        splits. Without error bars if None.
    metric_name : str, default=None
        What the scores are, for the axis label.
    spread_name : str, default=None
        What the spread or the intervals are, for the axis label.
    intervals : array-like of shape (n_candidates, 2), default=None
        Limits of each score, in place of `spread`, for instance those of a
        :class:`~sktransfer.evaluation.SelectionUncertainty`.
    tied_with_best : collection of str, default=None
        Names of the candidates that can't be told apart from the best. Their lines are shaded.

    Attributes
    ----------
    ranks : ndarray of int of shape (n_candidates,)
        Competition ranks of the scores, 1 for the best.
    ax_ : matplotlib Axes
        Axes with the ranking.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    points_ : matplotlib PathCollection or BarContainer
        The markers or bars, from rank 1 downwards; candidates without a finite score have none.
    errorbar_ : matplotlib ErrorbarContainer or None
        The error bars.
    bands_ : list of matplotlib Polygon
        The shades behind candidates that can't be told apart from the best.
    texts_ : list of matplotlib Text
        What is written in place of a marker for a candidate without a finite score.

    See Also
    --------
    sktransfer.model_selection.TransferabilitySelector : Makes rankings.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sktransfer.inspection import RankingDisplay
    >>> scores = {"resnet": 0.31, "vit": 0.42, "untrained": 0.05, "broken": float("nan")}
    >>> display = RankingDisplay.from_scores(scores, metric_name="logme")
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['1. vit', '2. resnet', '3. untrained', 'broken']
    >>> plt.show()
    """

    def __init__(
        self,
        candidates,
        scores,
        *,
        spread=None,
        metric_name=None,
        spread_name=None,
        intervals=None,
        tied_with_best=None,
    ):
        self.candidates = candidates
        self.scores = scores
        self.spread = spread
        self.metric_name = metric_name
        self.spread_name = spread_name
        self.intervals = intervals
        self.tied_with_best = tied_with_best

    @property
    def ranks(self):
        """Competition ranks of the scores, 1 for the best."""
        return competition_ranks(self.scores)

    @classmethod
    def from_estimator(cls, estimator, *, metric=None, ax=None, **plot_options):
        """Plot the ranking that a fitted selector found.

        Parameters
        ----------
        estimator : TransferabilitySelector
            A fitted selector. If it was fitted with ``n_resamples``, bars show the intervals of the
            expected scores, and candidates that can't be told apart from the best are shaded; if
            with ``cv`` alone, the standard deviation over splits. Networks with random weights are
            marked "(untrained)".
        metric : str, default=None
            Which of its metrics to show; the deciding one if None.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`: ``kind``, ``point_kwargs``, ``bar_kwargs``,
            ``errorbar_kwargs``.

        Returns
        -------
        display : RankingDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator is no selector.
        ValueError
            If the selector has no such metric.
        NotFittedError
            If it isn't fitted.
        """
        if not hasattr(estimator, "candidates"):
            raise TypeError(
                "'estimator' must be a TransferabilitySelector. "
                f"Got {type(estimator).__name__} instead."
            )
        check_is_fitted(estimator)
        metric = estimator.refit_metric_ if metric is None else metric
        if metric not in estimator.metric_scores_:
            raise ValueError(
                f"'metric' must be one of {list(estimator.metric_scores_)!r}. "
                f"Got {metric!r} instead."
            )
        results = estimator.cv_results_
        # A network with random weights is a control and must be known for one.
        names = [
            f"{name} (untrained)" if pretrained is False else name
            for name, pretrained in zip(results["candidate"], results["pretrained"], strict=True)
        ]
        display = cls(
            names,
            results[f"mean_{metric}"],
            metric_name=metric,
            **cls._uncertainty_of(estimator, metric, names),
        )
        return display.plot(ax=ax, **plot_options)

    @staticmethod
    def _uncertainty_of(estimator, metric, names):
        """Give what the selector knows of it as parameters of a display."""
        found = getattr(estimator, "uncertainty_", {}).get(metric)
        if found is not None:
            tied = set(found.tied_with_best)
            return {
                "spread_name": f"{found.level:.0%} interval of the expected score\n"
                "shaded: can't be told apart from the best",
                "intervals": found.score_interval,
                "tied_with_best": [
                    shown for name, shown in zip(found.names, names, strict=True) if name in tied
                ],
            }
        results = estimator.cv_results_
        if f"split0_{metric}" not in results:
            return {}
        return {
            "spread": results[f"std_{metric}"],
            "spread_name": f"mean ± standard deviation of {estimator.n_splits_} splits",
        }

    @classmethod
    def from_scores(
        cls,
        scores,
        *,
        candidates=None,
        spread=None,
        metric_name=None,
        spread_name=None,
        ax=None,
        **plot_options,
    ):
        """Plot a ranking from scores.

        Parameters
        ----------
        scores : dict of str to float, Series or array-like of shape (n_candidates,)
            Scores, higher is better, NaN for a candidate that failed; a dict or a pandas Series
            brings its names.
        candidates : list of str, default=None
            Names of the candidates. Needed if `scores` has none; selects and orders them if it
            has.
        spread : dict of str to float, Series or array-like of shape (n_candidates,), default=None
            Half the lengths of error bars, paired with the scores by name if it has names.
        metric_name, spread_name : str, default=None
            What scores and spread are, for the axis label.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones of fitting size if None.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : RankingDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If names are missing, or don't fit the scores.
        """
        if candidates is None:
            if not _has_names(scores):
                raise ValueError(
                    "'candidates' must name the candidates unless 'scores' is a dict or a Series."
                )
            candidates = list(scores.keys())
        candidates = list(candidates)
        display = cls(
            [str(name) for name in candidates],
            _in_order(scores, candidates, "scores"),
            spread=None if spread is None else _in_order(spread, candidates, "spread"),
            metric_name=metric_name,
            spread_name=spread_name,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(
        self, ax=None, *, kind="point", point_kwargs=None, bar_kwargs=None, errorbar_kwargs=None
    ):
        """Draw the ranking.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure, tall enough for all candidates.
        kind : {"point", "bar"}, default="point"
            Points suit scores whose zero means nothing, such as LogME; bars start at zero.
        point_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.scatter`.
        bar_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.barh`.
        errorbar_kwargs : dict, default=None
            Options for :meth:`matplotlib.axes.Axes.errorbar`.

        Returns
        -------
        display : RankingDisplay
            The display itself.
        """
        check_matplotlib_support("RankingDisplay.plot")
        import matplotlib.pyplot as plt

        if kind not in ("point", "bar"):
            raise ValueError(f"'kind' must be 'point' or 'bar'. Got {kind!r} instead.")
        scores, lengths = self._checked_arrays()
        ranks = competition_ranks(scores)
        order = np.argsort(ranks, kind="stable")
        own_figure = ax is None
        if own_figure:
            _, ax = plt.subplots(layout="constrained")
        rows = np.arange(len(order))
        drawn = np.isfinite(scores[order])
        best = ranks[order][drawn] == 1

        draw = self._draw_points if kind == "point" else self._draw_bars
        options = point_kwargs if kind == "point" else bar_kwargs
        self.points_ = draw(ax, scores[order][drawn], rows[drawn], best, options or {})
        self.errorbar_ = None
        if lengths is not None and drawn.any():
            style = {"fmt": "none", "ecolor": "#333333", "elinewidth": 1.2, "capsize": 2.5}
            self.errorbar_ = ax.errorbar(
                scores[order][drawn],
                rows[drawn],
                xerr=lengths[:, order][:, drawn],
                **{**style, "zorder": 3, **(errorbar_kwargs or {})},
            )
        tied = set(self.tied_with_best or ())
        self.bands_ = [
            ax.axhspan(row - 0.5, row + 0.5, color=_TIED_BAND, linewidth=0, zorder=0)
            for row, index in enumerate(order)
            if self.candidates[index] in tied
        ]
        self.texts_ = [
            ax.annotate(
                "failed" if np.isnan(score) else f"{score:g}",
                (0, row),
                xytext=(4, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                color=_FAILED_COLOR,
                style="italic",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
            for score, row in zip(scores[order][~drawn], rows[~drawn], strict=True)
        ]
        ax.set_yticks(rows, [self._label(index, scores, ranks) for index in order])
        for label, index in zip(ax.get_yticklabels(), order, strict=True):
            if np.isnan(scores[index]):
                label.set_color(_FAILED_COLOR)
        ax.set_ylim(len(order) - 0.4, -0.6)
        if not drawn.any():
            ax.set_xticks([])
        parts = [part for part in (self.metric_name or "score", self.spread_name) if part]
        ax.set_xlabel("\n".join(parts))
        ax.grid(axis="x" if kind == "bar" else "both", color="#dddddd", linewidth=0.7)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        if own_figure:
            # A line for each candidate, and room for the axes beside the longest name (in inches).
            longest = max(label.get_window_extent().width for label in ax.get_yticklabels())
            width = max(6.4, 3.6 + longest / self.figure_.dpi)
            self.figure_.set_size_inches(width, max(2.4, 1.1 + 0.27 * len(order)))
        return self

    def _checked_arrays(self):
        scores = np.asarray(self.scores, dtype=float)
        n_candidates = len(self.candidates)
        if scores.shape != (n_candidates,):
            raise ValueError(
                f"'scores' must have one score for each of the {n_candidates} candidates. "
                f"Got an array of shape {scores.shape} instead."
            )
        if self.intervals is not None:
            return scores, self._checked_intervals(scores)
        if self.spread is None:
            return scores, None
        spread = np.asarray(self.spread, dtype=float)
        if spread.shape != scores.shape or (spread < 0).any():
            raise ValueError(
                f"'spread' must have a non-negative value for each of the {n_candidates} "
                f"candidates. Got {self.spread!r} instead."
            )
        return scores, np.stack([spread, spread])

    def _checked_intervals(self, scores):
        """Lengths to the left and to the right of the scores; nothing where a limit is infinite."""
        if self.spread is not None:
            raise ValueError("Of 'spread' and 'intervals' only one can be shown. Got both.")
        intervals = np.asarray(self.intervals, dtype=float)
        if intervals.shape != (len(scores), 2) or (np.diff(intervals) < 0).any():
            raise ValueError(
                f"'intervals' must have a lower and an upper limit for each of the {len(scores)} "
                f"candidates. Got {self.intervals!r} instead."
            )
        lengths = np.abs(intervals.T - scores)
        return np.where(np.isfinite(lengths), lengths, 0.0)

    def _label(self, index, scores, ranks):
        name = self.candidates[index]
        return name if np.isnan(scores[index]) else f"{ranks[index]}. {name}"

    @staticmethod
    def _draw_points(ax, scores, rows, best, options):
        # One marker shape per scatter, so the best are marked by size and edge.
        style = {
            "s": np.where(best, 70, 36),
            "c": np.where(best, _BEST_COLOR, _COLOR),
            "edgecolors": np.where(best, "black", "white"),
            "zorder": 4,
        }
        return ax.scatter(scores, rows, **{**style, **options})

    @staticmethod
    def _draw_bars(ax, scores, rows, best, options):
        style = {
            "color": np.where(best, _BEST_COLOR, _COLOR),
            "hatch": np.where(best, "//", ""),
            "edgecolor": "white",
            "height": 0.7,
            "zorder": 2,
        }
        return ax.barh(rows, scores, **{**style, **options})


def _has_names(values):
    return isinstance(values, Mapping) or (hasattr(values, "keys") and hasattr(values, "index"))


def _in_order(values, candidates, what):
    """Values in the order of the candidates, found by name where they have names."""
    if not _has_names(values):
        return np.asarray(values, dtype=float)
    missing = [name for name in candidates if name not in values]
    if missing:
        raise ValueError(f"'{what}' has no value for the candidates {missing!r}.")
    return np.array([values[name] for name in candidates], dtype=float)
