"""The command ``sktransfer rank``; data, candidates and the output have modules of their own."""

import contextlib
import sys

import click

from . import __version__
from ._cli_cache import cache as cache_group
from ._cli_cache import open_cache, say_from_store
from ._cli_candidates import find_candidates
from ._cli_data import check_runs, demo_target, load_target
from ._cli_metrics import defined_for, parse_metrics
from ._cli_options import CannotWrite, WrongInput, candidate_options, in_plain_words, run_options
from ._cli_output import RankProgress, print_result
from ._cli_own_modules import current_folder_importable
from ._cli_report import Reporting, report_options
from ._cli_study import study as study_command
from ._cli_study_inputs import without_own_source
from .utils._progress import rows_reported_to

# Fast ones, the deciding one first.
DEMO_METRICS = ("logme", "hscore", "leep", "nce")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sktransfer")
def command():
    """Tell which pretrained network to fine-tune on your data."""


command.add_command(cache_group)
command.add_command(study_command)


@command.command()
@click.option(
    "--data",
    multiple=True,
    metavar="DIR_OR_NPZ",
    help="A folder with a sub-folder of images per class, or an .npz file with X and y "
    "(or MedMNIST's train_images and train_labels).",
)
@click.option("--demo", is_flag=True, help="Use scikit-learn's digits as the data.")
@click.option(
    "--metric",
    multiple=True,
    metavar="NAME...",
    help="One or more metrics, or all; the first decides the rank. Default: logme (with --demo: "
    "logme, hscore, leep and nce).",
)
@click.option(
    "--cv",
    type=click.IntRange(min=2),
    metavar="FOLDS",
    help="Score the training parts of so many folds and report mean and spread.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed to standard output.",
)
@click.option(
    "--cache",
    metavar="DIR",
    help="Keep the features of networks in this folder, and run no network again on the same data.",
)
@report_options
@candidate_options
@run_options
def rank(
    data,
    demo,
    metric,
    cv,
    output_format,
    cache,
    report,
    resamples,
    level,
    candidates,
    on_error,
    quiet,
    **parameters,
):
    """Rank pretrained networks for a labelled data set.

    Only forward passes are made, nothing is fine-tuned. The result goes to standard output,
    progress and warnings to standard error.
    """
    if demo == bool(data):
        raise WrongInput("give either --data DIR_OR_NPZ or --demo (see sktransfer rank --help).")
    if len(data) > 1:
        raise WrongInput(f"--data: one folder or file is ranked at a time, got {len(data)}.")
    if sys.stdout is None:
        raise WrongInput("standard output is closed, so the result could not be given.")
    candidates = candidates or ["tiny"]
    reporting = Reporting(report, resamples, level)
    data = None if demo else data[0]
    # What the user's own code prints must not get between the lines of the result.
    with contextlib.redirect_stdout(sys.stderr), current_folder_importable(candidates):
        try:
            reporting.check(data)
            metrics = parse_metrics(metric or (DEMO_METRICS if demo else ["logme"]))
            target = demo_target() if demo else load_target(data, on_error)
            metrics, left_out = defined_for(
                metrics, target.task, option="--metric", needed=next(iter(metrics))
            )
            found = find_candidates(candidates, for_images=target.are_images, **parameters)
            pairs, own = without_own_source(found, target.medmnist_name)
            target.check(n_folds=cv, has_store=cache is not None and on_error == "raise")
            check_runs(pairs, target.X)
            options, unsampled = reporting.options(metrics)
            store = open_cache(cache)
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise WrongInput(str(error)) from error
        if not quiet:
            for remark in target.remarks + left_out + own + unsampled:
                print(f"warning: {remark}", file=sys.stderr)
        selector = _select(pairs, metrics, cv, target, store, quiet, options)
        not_written = reporting.write(selector, target.title, data)
    written = None if not_written else report
    try:
        print_result(selector, target.title, output_format, quiet=quiet, report=written)
    except OSError as error:
        raise CannotWrite(f"the result could not be written: {error.strerror}.") from error
    if not_written:
        raise not_written


def _select(pairs, metrics, cv, target, store, quiet, options):
    """Fit the selector, with progress, and pass its warnings on in plain words."""
    from .model_selection import TransferabilitySelector

    selector = TransferabilitySelector(pairs, metric=metrics, cv=cv, memory=store, **options)
    progress = RankProgress(len(pairs), shown=not quiet)
    selector.set_callbacks(progress)
    with in_plain_words(progress, quiet=quiet), rows_reported_to(progress.on_rows):
        selector.fit(target.X, target.y)
    if store is not None and not quiet:
        say_from_store(selector)
    return selector
