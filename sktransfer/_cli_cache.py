"""``sktransfer cache``: what lies in a feature store, whether it is whole, and how it goes away."""

import csv
import io
import json
import sys
import warnings
from datetime import UTC, datetime, timedelta

import click
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ._cli_output import _write
from .exceptions import CacheBusyWarning

__all__ = ["cache", "open_cache", "say_from_store", "say_waiting_at_once"]

# In days; dates go no further back than this.
_LONGEST_AGO = 700_000
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def open_cache(path):
    """Open the store for ``rank --cache``, at a place that can be written to.

    Parameters
    ----------
    path : str or None
        What was given on the command line.

    Returns
    -------
    store : FeatureStore or None
        The store.

    Raises
    ------
    ValueError
        If there can't be a folder of this name, or no files in it.
    """
    if path is None:
        return None
    from .backbones import FeatureStore

    store = FeatureStore(path)
    try:
        store.prepare()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"--cache: {path!r} can't be made a folder that is written to ({reason})."
        ) from error
    return store


def say_waiting_at_once(caught, *, quiet):
    """Let warnings be collected, except that another process is waited for: that is said now.

    Parameters
    ----------
    caught : list
        Where ``warnings.catch_warnings(record=True)``, which is active, puts what it catches.
    quiet : bool
        Whether nothing is said.
    """

    def show(message, category, filename, lineno, file=None, line=None):
        if not issubclass(category, CacheBusyWarning):
            caught.append(warnings.WarningMessage(message, category, filename, lineno))
        elif not quiet:
            print(f"warning: {message}", file=sys.stderr, flush=True)

    warnings.showwarning = show


def say_from_store(selector):
    """Say on standard error how many candidates need not be run.

    Parameters
    ----------
    selector : TransferabilitySelector
        A fitted selector with a store.
    """
    from_store = selector.cv_results_["from_store"]
    print(
        f"features of {from_store.sum()} of {len(from_store)} "
        f"{'candidate' if len(from_store) == 1 else 'candidates'} came from the store.",
        file=sys.stderr,
    )


@click.group(name="cache")
def cache():
    """Look into a folder that rank --cache has filled, and tidy it up."""


def _opened(path):
    from .backbones import FeatureStore

    store = FeatureStore(path)
    if not store.exists:
        raise click.UsageError(f"there is no feature store in {path!r}.")
    return store


@cache.command(name="list")
@click.argument("folder", metavar="DIR")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How the list is printed to standard output.",
)
def list_(folder, output_format):
    """List the features in DIR, the oldest first."""
    entries = _opened(folder).entries()
    rows = [_row(entry) for entry in entries]
    out = io.StringIO()
    if output_format == "csv":
        writer = csv.DictWriter(out, fieldnames=list(_FIELDS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif output_format == "json":
        print(json.dumps(rows, indent=2), file=out)
    else:
        _print_table(entries, out)
    _give(out)


_FIELDS = (
    *("key", "candidate", "rows", "columns", "bytes", "created", "state", "problem"),
    *("weights", "weights_hash"),
)


def _row(entry):
    """Give an entry for machines."""
    created = None if entry.created is None else entry.created.isoformat(timespec="seconds")
    values = (
        *(entry.key, entry.candidate, entry.n_rows, entry.n_columns, entry.n_bytes, created),
        *(entry.state, entry.problem),
        *(entry.description.get(name) for name in ("weights", "weights_hash")),
    )
    return dict(zip(_FIELDS, values, strict=True))


def _print_table(entries, out):
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("candidate", no_wrap=True)
    for column in ("rows x columns", "size", "created"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for entry in entries:
        shape = ""
        if entry.n_rows is not None:
            shape = f"{entry.n_rows:,} x {'?' if entry.n_columns is None else entry.n_columns}"
        created = entry.created
        table.add_row(
            Text(entry.candidate or entry.key),
            shape,
            _size(entry.n_bytes),
            "" if created is None else created.astimezone().strftime("%Y-%m-%d %H:%M"),
            Text(f"{entry.state}: {entry.problem}" if entry.problem else entry.state),
        )
    if entries:
        needed = Measurement.get(measuring := Console(width=1000), measuring.options, table)
        terminal = sys.stdout.isatty() or None
        console = Console(file=out, force_terminal=terminal, width=needed.maximum, highlight=False)
        console.print(table)
    total = sum(entry.n_bytes for entry in entries)
    print(f"{_counted(len(entries))}, {_size(total)}.", file=out)


def _counted(n):
    return f"{n} {'entry' if n == 1 else 'entries'}"


def _size(n_bytes):
    size, unit = float(n_bytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 99.95 else f"{size:.1f} {_UNITS[unit]}"
    )


def _give(out):
    from ._cli_options import CannotWrite

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        _write(out.getvalue().encode(encoding, "backslashreplace").decode(encoding))
    except OSError as error:
        raise CannotWrite(f"the result could not be written: {error.strerror}.") from error


@cache.command()
@click.argument("folder", metavar="DIR")
def verify(folder):
    """Read every byte in DIR; the exit code is 1 if one is not what was written."""
    entries = _opened(folder).verify()
    out = io.StringIO()
    damaged = [entry for entry in entries if entry.state == "damaged"]
    for entry in damaged:
        print(f"damaged: {entry.candidate or entry.key}: {entry.problem}.", file=out)
    whole = sum(entry.state == "complete" for entry in entries)
    unfinished = len(entries) - whole - len(damaged)
    print(
        f"{_counted(whole)} as written, {len(damaged)} damaged, {unfinished} unfinished.", file=out
    )
    _give(out)
    return 1 if damaged else 0


@cache.command()
@click.argument("folder", metavar="DIR")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--damaged", is_flag=True, help="Only what is damaged; every byte is read.")
@click.option("--unfinished", is_flag=True, help="Only extractions that were interrupted.")
@click.option("--candidate", multiple=True, metavar="NAME", help="Only features of NAME.")
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Only what is older."
)
def clear(folder, yes, damaged, unfinished, candidate, older_than):
    """Remove features from DIR, all of them unless options say which."""
    if older_than is not None and not older_than <= _LONGEST_AGO:
        raise click.UsageError(
            f"--older-than must be at most {_LONGEST_AGO:,} days, got {older_than}."
        )
    store = _opened(folder)
    entries = store.verify() if damaged else store.entries()
    states = {"damaged"} if damaged else set()
    if unfinished:
        states.add("unfinished")
    if states:
        entries = [entry for entry in entries if entry.state in states]
    if candidate:
        entries = [entry for entry in entries if entry.candidate in candidate]
    if older_than is not None:
        latest = datetime.now(UTC) - timedelta(days=older_than)
        entries = [entry for entry in entries if entry.created and entry.created < latest]
    size = _size(sum(entry.n_bytes for entry in entries))
    if entries and not yes:
        if not (sys.stdin and sys.stdin.isatty()):
            raise click.UsageError(
                f"{_counted(len(entries))}, {size}, would be removed from {folder!r}: give --yes."
            )
        click.confirm(f"Remove {_counted(len(entries))}, {size}, from {folder}?", abort=True)
    try:
        removed = store.clear(entries)
    except OSError as error:
        raise click.UsageError(
            f"{folder!r} can't be cleared: {error.strerror or error}."
        ) from error
    out = io.StringIO()
    print(
        f"removed {_counted(len(removed))}, {_size(sum(entry.n_bytes for entry in removed))}.",
        file=out,
    )
    if busy := len(entries) - len(removed):
        print(f"{_counted(busy)} left, in use or gone already.", file=out)
    _give(out)
