"""What ``sktransfer rank`` has for the report: options, checks before the work, the file."""

import os

import click

from ._cli_options import CannotWrite, all_of

__all__ = ["Reporting", "report_options"]

#: How many resamples a report has where none are asked for.
DEFAULT_RESAMPLES = 200

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
            default=0.95,
            show_default=True,
            help="Level of the intervals and of the set.",
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
    level : float
        Level of intervals and sets.
    """

    def __init__(self, path, n_resamples, level):
        self.path = path
        self.n_resamples = n_resamples
        self.level = level

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
        """Give the parameters of the selector.

        Parameters
        ----------
        metrics : dict of str to metric
            The metrics.

        Returns
        -------
        options : dict of str to object
            ``n_resamples`` and ``level``.
        """
        n_resamples = self.n_resamples
        if n_resamples is None:
            from .evaluation._uncertainty import fewest_resamples

            wanted = max(DEFAULT_RESAMPLES, fewest_resamples(self.level))
            n_resamples = wanted if self.path is not None and set(metrics) <= _QUICK else 0
        return {"n_resamples": n_resamples, "level": self.level}

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
