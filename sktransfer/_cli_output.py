"""What the command line prints: progress, the table, and the same for machines."""

import csv
import io
import json
import math
import os
import sys
import time

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

__all__ = ["RankProgress", "print_result"]

# A log gets a line of the rows of a candidate that takes longer than this.
_SECONDS_OF_SILENCE = 10.0
_MOST_NAMED = 6


class RankProgress:
    """Callback of the selector: one bar over the candidates on standard error.

    Parameters
    ----------
    total : int
        Number of candidates.
    shown : bool
        Whether anything is shown at all.
    """

    def __init__(self, total, *, shown):
        console = Console(stderr=True, force_terminal=None)
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not shown or not console.is_terminal,
        )
        # A log file gets a line per candidate instead of a bar.
        self.plain = shown and not console.is_terminal
        self.total = total
        self.done = 0
        self.task = None
        self.current = None
        self.said_at = time.monotonic()

    def setup(self, estimator, context):
        """Begin to show the bar."""
        self.progress.start()
        self.task = self.progress.add_task("ranking", total=self.total)

    def on_fit_task_begin(self, estimator, context):
        """Name the candidate that is being run."""
        if context.parent is not None:
            self.current = str(context.task_name)
            self.said_at = time.monotonic()
            self.progress.update(self.task, description=Text(self.current).plain)

    def on_rows(self, n_done, n_rows):
        """Show how far the candidate that is being run has come."""
        if n_done < n_rows:
            rows = f"{self.current}: {n_done:,} of {n_rows:,}"
            self.progress.update(self.task, description=Text(rows).plain)
            if self.plain and time.monotonic() - self.said_at > _SECONDS_OF_SILENCE:
                print(rows, file=sys.stderr, flush=True)
                self.said_at = time.monotonic()

    def on_fit_task_end(self, estimator, context):
        """Count a candidate."""
        if context.parent is None:
            return
        self.done += 1
        self.progress.update(self.task, completed=self.done)
        if self.plain:
            print(f"[{self.done}/{self.total}] {context.task_name}", file=sys.stderr, flush=True)

    def teardown(self, estimator, context):
        """Remove the bar."""
        self.close()

    def close(self):
        """Remove the bar, however the run ended."""
        self.progress.stop()


def result_rows(selector):
    """Rows of the result, best first.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector.

    Returns
    -------
    rows : list of dict
        One per candidate: rank, candidate, a score per metric (None if it failed), the spread per
        metric with folds, its uncertainty with resamples, width, parameters, weights, whether they
        are trained, and seconds.
    """
    table = selector.cv_results_
    decides = selector.refit_metric_
    metrics = list(selector.metric_scores_)
    order = sorted(
        range(len(table["candidate"])), key=lambda index: int(table[f"rank_{decides}"][index])
    )
    rows = []
    for index in order:
        row = {
            "rank": int(table[f"rank_{decides}"][index]),
            "candidate": str(table["candidate"][index]),
        }
        for metric in metrics:
            row[metric] = _number(table[f"mean_{metric}"][index])
            if selector.cv is not None:
                row[f"{metric}_std"] = _number(table[f"std_{metric}"][index])
            if metric in selector.uncertainty_:
                row |= _uncertainty(table, metric, index)
        row["width"] = _integer(table["n_features"][index])
        row["parameters"] = _integer(table["n_parameters"][index])
        row["weights"] = table["weights"][index]
        row["pretrained"] = table["pretrained"][index]
        row["seconds"] = round(
            float(table["extraction_time"][index] + table["scoring_time"][index]), 3
        )
        rows.append(row)
    return rows


def _uncertainty(table, metric, index):
    row = {}
    for column in ("low", "high"):
        row[f"{metric}_{column}"] = _number(table[f"{column}_{metric}"][index])
    for column in ("rank_low", "rank_high"):
        row[f"{metric}_{column}"] = int(table[f"{column}_{metric}"][index])
    row[f"{metric}_probability_best"] = _number(table[f"probability_best_{metric}"][index])
    row[f"{metric}_tied_with_best"] = bool(table[f"tied_with_best_{metric}"][index])
    return row


def _number(value):
    return float(value) if math.isfinite(value) else None


def _integer(value):
    return int(value) if math.isfinite(value) else None


def print_result(selector, title, output_format, *, quiet=False, report=None):
    """Print the ranking to standard output.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector.
    title : str
        What the data are.
    output_format : {"table", "csv", "json"}
        The form.
    quiet : bool, default=False
        Leave out the sentences below a table.
    report : str, default=None
        The report that was written, to be mentioned.

    Raises
    ------
    OSError
        If standard output can't be written to: a closed pipe, a full disk.
    """
    rows = result_rows(selector)
    # Made as a whole in the encoding of standard output: characters it lacks are escaped, and no
    # half of a result is written.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    out = io.TextIOWrapper(
        io.BytesIO(), encoding=encoding, errors="backslashreplace", newline="\n", write_through=True
    )
    if output_format == "csv":
        writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif output_format == "json":
        result = {
            "target": title,
            "decided_by": selector.refit_metric_,
            "best": selector.best_name_,
            "tied_with_best": getattr(selector, "tied_with_best_", None),
            "decision_set": _decision(selector),
            "findings": selector.findings_,
            "candidates": [
                row | {"failures": selector.failures_.get(row["candidate"], {})} for row in rows
            ],
        }
        print(json.dumps(result, indent=2), file=out)
    else:
        _print_table(selector, rows, title, out)
        if not quiet:
            _print_remarks(selector, rows, out)
            if report is not None:
                print(f"Report: {report}", file=out)
    _write(out.buffer.getvalue().decode(encoding))
    if report is not None and output_format != "table" and not quiet:
        print(f"Report: {report}", file=sys.stderr)


def _decision(selector):
    found = selector.decision_set_
    return None if found is None else {"names": list(found), "statement": found.statement}


def _write(text):
    """Write to standard output, and leave nothing in its buffer that can't be written."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        if sys.stdout is sys.__stdout__:
            # Else the interpreter would try again when it ends, and complain.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        raise


def _spread_sign(encoding):
    try:
        "±".encode(encoding)
    except UnicodeEncodeError:
        return "+/-"
    return "±"


def _print_table(selector, rows, title, out):
    sign = _spread_sign(out.encoding)
    metrics = list(selector.metric_scores_)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("candidate", no_wrap=True)
    for metric in metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    for column in ("width D", "parameters", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        scores = []
        for metric in metrics:
            score = "failed" if row[metric] is None else f"{row[metric]:.4f}"
            if row.get(f"{metric}_std") is not None:
                score += f" {sign} {row[f'{metric}_std']:.4f}"
            scores.append(score)
        best = row["rank"] == 1
        table.add_row(
            str(row["rank"]),
            Text(_marked(row)),
            *scores,
            "" if row["width"] is None else str(row["width"]),
            "" if row["parameters"] is None else f"{row['parameters']:,}",
            f"{row['seconds']:.2f}",
            style="bold" if best else None,
        )
    # Nothing is ever cut off: the table takes the width it needs, whatever the output is.
    needed = Measurement.get(measuring := Console(width=1000), measuring.options, table).maximum
    width = max(needed, len(title))
    print(title, file=out)
    terminal = sys.stdout.isatty() or None
    Console(file=out, force_terminal=terminal, highlight=False, width=width).print(table)


def _listed(names):
    """Write names in a line, the first few of many."""
    names = list(names)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _marked(row):
    """Name of a candidate, with a mark if its weights are random."""
    name = row["candidate"]
    return f"{name} (untrained)" if row["pretrained"] is False else name


def _print_remarks(selector, rows, out):
    """Say what the ranking means and what a trivial rule would have said."""
    decides = selector.refit_metric_
    ties = [row["candidate"] for row in rows if row["rank"] == 1]
    if len(ties) > 1:
        print(f"Best by {decides}, tied: {', '.join(ties)}.", file=out)
    else:
        print(f"Best by {decides}: {ties[0]}.", file=out)
    sizes = {row["parameters"] for row in rows if row["parameters"] is not None}
    if len(sizes) > 1:
        largest = [row["candidate"] for row in rows if row["parameters"] == max(sizes)]
        print(f"The largest, which size alone would choose: {', '.join(largest)}.", file=out)
    tied = [name for name in getattr(selector, "tied_with_best_", ties) if name not in ties]
    if tied:
        said = f"Not told apart from the best, given the sample (level {selector.level:g}): "
        said += f"{_listed(tied)}."
        print(said, file=out)
    elif decides in selector.uncertainty_:
        said = f"Told apart from all others, given the sample (level {selector.level:g})."
        print(said, file=out)
    decision = selector.decision_set_
    if decision is not None and len(decision):
        on = ", ".join(map(str, decision.calibration.by_target))
        print(f"Best after fine-tuning may be, calibrated on {on}: {_listed(decision)}.", file=out)
    for finding in selector.findings_:
        print(finding, file=out)
    failed = [name for name, reasons in selector.failures_.items() if decides in reasons]
    if failed:
        print(f"Without a score, for the reasons above: {', '.join(failed)}.", file=out)
    print(
        "Scores order networks on these data only. Fine-tune the first few before you choose.",
        file=out,
    )
