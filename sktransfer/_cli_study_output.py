"""What ``sktransfer study`` shows and writes: progress, tables, figures, a summary."""

import csv
import importlib.util
import io
import os
import re
import sys
import time
from contextlib import suppress

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from ._cli_output import _write
from .utils._progress import said_duration

__all__ = ["COEFFICIENTS", "StudyProgress", "print_summary", "write_figures", "write_tables"]

COEFFICIENTS = ("kendall", "weighted_kendall", "spearman")
# A log gets a line at most as often as this.
_SECONDS_OF_SILENCE = 10.0


class StudyProgress:
    """One bar over all cells on standard error, with the time that is left.

    Parameters
    ----------
    work : dict of str to float
        Size of the work on each target, in any unit.
    shown : bool
        Whether anything is shown at all.
    """

    def __init__(self, work, *, shown):
        console = Console(stderr=True)
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not shown or not console.is_terminal,
        )
        # A log file gets lines instead of a bar.
        self.plain = shown and not console.is_terminal
        self.work = work
        self.waiting = dict(work)
        self.task = None
        self.current = None
        self.first = None
        self.work_done = 0.0
        self.started_at = self.said_at = time.monotonic()

    def begin(self, target):
        """Begin with a target."""
        self.current, self.first = target, None
        self.waiting.pop(target)
        self.progress.start()
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(Text(target).plain, total=None, left="")

    def on_rows(self, n_done, n_rows):
        """Show how far the network that is being run has come."""
        if n_done < n_rows:
            rows = f"{self.current}: {n_done:,} of {n_rows:,} samples through the network"
            self.progress.update(self.task, description=Text(rows).plain)
            self._say(rows)

    def on_step(self, steps):
        """Show how many cells of the target are done."""
        left = self._left(steps)
        said = "" if left is None else f"{said_duration(left)} left"
        described = Text(f"{self.current}: {steps.label}").plain
        self.progress.update(
            self.task,
            completed=steps.n_done,
            total=steps.n_steps,
            description=described,
            left=said,
        )
        is_last = steps.n_done == steps.n_steps
        counted = f"{self.current}: [{steps.n_done}/{steps.n_steps}] {steps.label}"
        self._say(f"{counted}, {said}" if said else counted, always=is_last)

    def _left(self, steps):
        """Estimate the seconds that this target and those that wait will take."""
        if self.first is None:
            self.first = steps.n_done - 1
            self.started_at = time.monotonic() if not self.work_done else self.started_at
        if steps.seconds_left is None:
            return None
        share = (steps.n_done - self.first) / max(steps.n_steps - self.first, 1)
        done = self.work_done + share * self.work[self.current]
        rate = (time.monotonic() - self.started_at) / done
        if steps.n_done == steps.n_steps:
            self.work_done += self.work[self.current]
        left = steps.seconds_left + rate * sum(self.waiting.values())
        return left if steps.n_done < steps.n_steps or self.waiting else None

    def _say(self, line, always=False):
        is_due = time.monotonic() - self.said_at > _SECONDS_OF_SILENCE
        if self.plain and (always or is_due):
            print(line, file=sys.stderr, flush=True)
            self.said_at = time.monotonic()

    def close(self):
        """Remove the bar."""
        self.progress.stop()


def write_tables(scores, study, folder, reference):
    """Write the tables of a study.

    Parameters
    ----------
    scores : pandas.DataFrame
        All scores.
    study : RobustnessStudy
        The study of the candidates that are ranked.
    folder : pathlib.Path
        Where to.
    reference : dict of str to dict of str to float, or None
        By target and candidate.

    Returns
    -------
    tables : dict of str to pandas.DataFrame
        By name: scores, rankings, stability_intra, stability_ref, stability_inter and, with a
        reference, agreement. The last ones have a column of coefficients.

    Raises
    ------
    OSError
        If a file can't be written.
    """
    import pandas as pd

    tables = {"scores": scores, "rankings": study.rankings()}
    kinds = {kind: f"stability_{kind}" for kind in ("intra", "ref", "inter")}
    for kind, name in kinds.items():
        tables[name] = _by_coefficient(pd, lambda c, kind=kind: study.stability(kind, c))
    if reference is not None:
        tables["agreement"] = _by_coefficient(pd, lambda c: study.agreement(reference, c))
    for name, table in tables.items():
        out = io.StringIO()
        table.to_csv(out, index=False, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
        _replace(folder / f"{name}.csv", out.getvalue().encode())
    if importlib.util.find_spec("pyarrow") is not None:
        binary = io.BytesIO()
        tables["scores"].to_parquet(binary, index=False)
        _replace(folder / "scores.parquet", binary.getvalue())
    return tables


def _by_coefficient(pd, table_of):
    parts = []
    for coefficient in COEFFICIENTS:
        table = table_of(coefficient)
        table.insert(list(table).index("value"), "coefficient", coefficient)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _replace(path, content):
    """Write a file such that there is the old one or the new one, whole."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        written.write_bytes(content)
        os.replace(written, path)
    except OSError:
        with suppress(OSError):
            written.unlink()
        raise


def write_figures(tables, folder, reference):
    """Write the figures of a study, if matplotlib is there.

    Parameters
    ----------
    tables : dict of str to pandas.DataFrame
        From :func:`write_tables`.
    folder : pathlib.Path
        Where to.
    reference : dict of str to dict of str to float, or None
        By target and candidate.

    Returns
    -------
    n_figures : int
        Number of figures; 0 without matplotlib.

    Raises
    ------
    OSError
        If a file can't be written.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return 0
    from matplotlib import pyplot as plt

    n_figures = 0
    for name, display in _displays(tables, reference):
        out = io.BytesIO()
        # No date in it: the same study gives the same file.
        display.figure_.savefig(out, dpi=150, metadata={"Software": None})
        plt.close(display.figure_)
        folder.mkdir(exist_ok=True)
        file_name = re.sub(r"[^\w.-]+", "_", name)
        _replace(folder / f"{file_name}.png", out.getvalue())
        n_figures += 1
    return n_figures


def _displays(tables, reference):
    """Draw one figure after the other."""
    from .inspection import (
        MetricAgreementDisplay,
        RankBumpDisplay,
        ScorePerformanceDisplay,
        StabilityDisplay,
    )

    heat_maps = {"intra": "stability_intra", "ref": "stability_ref", "reference": "agreement"}
    for coefficient in COEFFICIENTS:
        for kind, name in heat_maps.items():
            table = tables.get(name)
            if table is not None and len(table := _of(table, coefficient=coefficient)):
                options = {"kind": kind, "coefficient": coefficient}
                yield f"{name}_{coefficient}", StabilityDisplay.from_frame(table, **options)
        if len(table := _of(tables["stability_inter"], coefficient=coefficient)):
            display = MetricAgreementDisplay.from_frame(table, coefficient=coefficient)
            yield f"stability_inter_{coefficient}", display
    for target, scores in tables["scores"].groupby("target", sort=False):
        ranks = _of(tables["rankings"], target=target)
        candidates = [name for name in scores["candidate"].unique() if name in ranks]
        if len(candidates) < 2:
            continue
        yield f"ranks_{target}", RankBumpDisplay.from_frame(ranks, candidates=candidates)
        if reference is not None:
            scores = scores[scores["candidate"].isin(candidates)]
            own = {name: reference[target][name] for name in candidates}
            yield f"scores_{target}", ScorePerformanceDisplay.from_frame(scores, own)


def _of(table, **chosen):
    for column, value in chosen.items():
        table = table[table[column] == value].drop(columns="coefficient", errors="ignore")
    return table


def print_summary(tables, folder, n_figures):
    """Print how stable the rankings are, and where everything is.

    Parameters
    ----------
    tables : dict of str to pandas.DataFrame
        From :func:`write_tables`.
    folder : pathlib.Path
        Where they are.
    n_figures : int
        Number of figures in it.

    Raises
    ------
    OSError
        If standard output can't be written to.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    out = io.StringIO()
    intra = _of(tables["stability_intra"], coefficient="kendall")
    fractions = sorted(intra["fraction"].unique())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("target", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for fraction in fractions:
        table.add_column(f"{100 * fraction:g} %", justify="right", no_wrap=True)
    for (target, metric), rows in intra.groupby(["target", "metric"], sort=False):
        values = dict(zip(rows["fraction"], rows["value"], strict=True))
        cells = [values.get(fraction, float("nan")) for fraction in fractions]
        said = ["" if cell != cell else f"{cell:.2f}" for cell in cells]
        table.add_row(Text(target), Text(metric), *said)
    needed = Measurement.get(measuring := Console(width=1000), measuring.options, table).maximum
    print("How far the rankings of the repeats agree (mean Kendall's tau):", file=out)
    Console(file=out, highlight=False, width=needed, force_terminal=False).print(table)
    names = [f"{name}.csv" for name in tables]
    print(f"In {folder}: {', '.join(names)}", end="", file=out)
    print(f" and {n_figures} figures." if n_figures else ".", file=out)
    if intra["value"].isna().any():
        print("Where a cell is empty, stability_intra.csv says why.", file=out)
    _write(out.getvalue().encode(encoding, "backslashreplace").decode(encoding))
