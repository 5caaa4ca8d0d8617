"""What ``sktransfer rank`` has for the report: options, checks before the work, the file."""

import os

import click

from ._cli_options import CannotWrite, all_of

__all__ = ["Reporting", "report_options"]

#: How many resamples a report has where none are asked for, and the level of intervals.
DEFAULT_RESAMPLES = 200
DEFAULT_LEVEL = 0.95

# Metrics that score a resample in milliseconds. Others are resampled on request only.
_QUICK = {"hscore", "leep", "linearprobe", "logme", "ncti", "nce", "pactran", "transrate"}

#: ``report``, ``resamples`` and ``level``.
report_options = all_of(
    [
        click.option(
            "--report",
            metavar="FILE",
            help="Write one HTML file that says everything: the recommendation, intervals, "
            "baselines, cost, and what is needed to repeat it.",
        ),
        click.option(
            "--resamples",
            type=click.IntRange(min=0),
            metavar="N",
            help="Score all candidates again on so many resamples, for intervals and the set that "
            f"can't be told apart from the best. Default: {DEFAULT_RESAMPLES} with --report and "
            "quick metrics only, else 0.",
        ),
        click.option(
            "--level",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            metavar="SHARE",
            help=f"Level of the intervals and of the set, if there are resamples. "
            f"Default: {DEFAULT_LEVEL}.",
        ),
    ]
)


class Reporting:
    """The report of a run, whether there is one or not.

    Parameters
    ----------
    path : str or None
        Where to write it; None for no report.
    n_resamples : int or None
        What was asked for.
    level : float or None
        Level of intervals and sets that was asked for.
    """

    def __init__(self, path, n_resamples, level):
        self.path = path
        self.n_resamples = n_resamples
        self.level = DEFAULT_LEVEL if level is None else level
        self.is_level_given = level is not None

    def check(self, data=None):
        """Refuse, before any network runs, what could not be written or computed.

        Parameters
        ----------
        data : str, default=None
            Folder or file of the data.

        Raises
        ------
        ValueError
            If there can't be a file of this name, it is that of the data, or there are too few
            resamples for the level.
        """
        from .evaluation._uncertainty import fewest_resamples

        if self.n_resamples:
            fewest = fewest_resamples(self.level)
            if self.n_resamples < fewest:
                raise ValueError(
                    f"--resamples must be 0 or at least {fewest} with --level {self.level:g}. "
                    f"Got {self.n_resamples}."
                )
        if self.path is None:
            return
        from .inspection._report import check_report_path

        check_report_path(self.path, "--report")
        if data is not None and os.path.exists(self.path) and os.path.samefile(self.path, data):
            raise ValueError(f"--report would replace the data, {self.path!r}.")

    def options(self, metrics):
        """Give the parameters of the selector, before any network runs.

        Parameters
        ----------
        metrics : dict of str to metric
            The metrics, the deciding one first.

        Returns
        -------
        options : dict of str to object
            ``n_resamples`` and ``level``.
        remarks : list of str
            Which metrics are scored without resamples.

        Raises
        ------
        ValueError
            If a level is given without resamples, or the deciding metric can't be resampled.
        """
        from .evaluation._uncertainty import fewest_resamples
        from .model_selection._metric_collection import needs_network

        n_resamples = self.n_resamples
        wanted = max(DEFAULT_RESAMPLES, fewest_resamples(self.level))
        if n_resamples is None:
            n_resamples = wanted if self.path is not None and set(metrics) <= _QUICK else 0
        options = {"n_resamples": n_resamples, "level": self.level}
        if n_resamples == 0:
            if self.is_level_given:
                raise ValueError(
                    f"--level {self.level:g} is that of intervals from resamples, and there are "
                    f"none; give --resamples {wanted} too."
                )
            return options, []
        without = [name for name, metric in metrics.items() if needs_network(metric)]
        decides = next(iter(metrics))
        if decides in without:
            raise ValueError(
                f"--resamples must be 0 where {decides} decides: it looks into the network, which "
                "would have to run on every resample. The first of --metric decides."
            )
        if not without:
            return options, []
        one = len(without) == 1
        are = "looks into the network and is" if one else "look into the network and are"
        return options, [f"{', '.join(without)} {are} scored without resamples."]

    def write(self, selector, title, data=None):
        """Write the report, if there is to be one.

        Parameters
        ----------
        selector : TransferabilitySelector
            A fitted selector.
        title : str
            A line that describes the data.
        data : str, default=None
            Folder or file of the data, of which the title keeps the last part only.

        Returns
        -------
        error : CannotWrite or None
            Why there is none.
        """
        if self.path is None:
            return None
        if data is not None:
            title = title.replace(data, os.path.basename(os.path.realpath(data)) or data, 1)
        try:
            selector.report(self.path, title=title)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return CannotWrite(f"--report {self.path!r} could not be written: {reason}.")
        return None
