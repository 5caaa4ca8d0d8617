"""Commands, options and messages; data, candidates and the output have modules of their own."""

import contextlib
import sys
import warnings

import click

from . import __version__
from ._cli_cache import cache as cache_group
from ._cli_cache import open_cache, say_from_store, say_waiting_at_once
from ._cli_candidates import parse_candidates
from ._cli_data import check_runs, demo_target, load_target
from ._cli_output import RankProgress, print_result
from ._cli_own_modules import current_folder_importable
from .exceptions import TransferabilityWarning
from .utils._progress import rows_reported_to

# Fast ones, the deciding one first.
DEMO_METRICS = ("logme", "hscore", "leep", "nce")


class WrongInput(click.ClickException):
    """An input that can't be used; one line on standard error and exit code 2."""

    exit_code = 2


class CannotWrite(click.ClickException):
    """A result that standard output didn't take; one line on standard error and exit code 1."""

    exit_code = 1


class Numbers(click.ParamType):
    """Comma-separated numbers, such as one per colour channel."""

    name = "numbers"

    def convert(self, value, param, ctx):
        """Turn ``"0.485,0.456,0.406"`` into a list of floats."""
        try:
            return [float(number) for number in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a number or numbers with commas between them.", param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sktransfer")
def command():
    """Tell which pretrained network to fine-tune on your data."""


command.add_command(cache_group)


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
    "--candidates",
    multiple=True,
    metavar="NAME...",
    help="Networks to rank: tiny (all bundled ones, the default), tiny:NAME or a pattern such as "
    "'tiny:fashion*', torchvision:NAME[:WEIGHTS], timm:NAME[:WEIGHTS], features:FILE.npy for "
    "features computed elsewhere, or python:MODULE:OBJECT for a network (see --mean) or a "
    "transformer of your own. NAME@LAYER takes the features of another layer, NAME@stages of "
    "several, NAME=FILE loads a checkpoint into a torchvision or python network.",
)
@click.option(
    "--mean",
    type=Numbers(),
    metavar="NUMBERS",
    help="How images were normalised to train a checkpoint, or a python: network that is a plain "
    "torch module: the mean of its pixels between 0 and 1, one number or one per channel "
    "(0.485,0.456,0.406).",
)
@click.option("--std", type=Numbers(), metavar="NUMBERS", help="The standard deviation likewise.")
@click.option(
    "--input-size",
    type=click.IntRange(min=1),
    metavar="PIXELS",
    help="Height and width that images are resized to for these networks; others know theirs.",
)
@click.option(
    "--metric",
    multiple=True,
    metavar="NAME...",
    help="One or more metrics, or all; the first decides the rank. Default: logme (with --demo: "
    "logme, hscore, leep and nce).",
)
@click.option(
    "--exclude-family",
    multiple=True,
    metavar="FAMILY...",
    help="Leave out bundled networks that were trained on this family of data.",
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
    "--on-error",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Image files that can't be read: stop and name them all, or leave them out with their "
    "labels.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Threads that read and resize images ahead of the network.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option(
    "--cache",
    metavar="DIR",
    help="Keep the features of networks in this folder, and run no network again on the same data.",
)
@click.option("--quiet", is_flag=True, help="No progress and no warnings on standard error.")
def rank(
    data,
    demo,
    candidates,
    mean,
    std,
    input_size,
    metric,
    exclude_family,
    cv,
    output_format,
    on_error,
    batch_size,
    workers,
    device,
    cache,
    quiet,
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
    # What the user's own code prints must not get between the lines of the result.
    with contextlib.redirect_stdout(sys.stderr), current_folder_importable(candidates):
        try:
            metrics = _metrics(metric or (DEMO_METRICS if demo else ["logme"]))
            target = demo_target() if demo else load_target(data[0], on_error)
            metrics, left_out = _defined_for(metrics, target.task)
            pairs = parse_candidates(
                candidates,
                exclude_families=exclude_family,
                batch_size=batch_size,
                n_workers=workers,
                device=device,
                mean=mean,
                std=std,
                input_size=input_size,
                for_images=target.are_images,
            )
            target.check(n_folds=cv, has_store=cache is not None and on_error == "raise")
            check_runs(pairs, target.X)
            store = open_cache(cache)
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise WrongInput(str(error)) from error
        if not quiet:
            for remark in target.remarks + left_out:
                print(f"warning: {remark}", file=sys.stderr)
        selector = _select(pairs, metrics, cv, target, store, quiet)
    try:
        print_result(selector, target.title, output_format, quiet=quiet)
    except OSError as error:
        raise CannotWrite(f"the result could not be written: {error.strerror}.") from error


def _metrics(names):
    """Return a dict of name to metric for names of the command line, "all" among them."""
    from .metrics import get_metric, metric_names

    spread = []
    for name in names:
        spread.extend(metric_names() if name == "all" else [name])
    ordered = dict.fromkeys(name.lower() for name in spread)
    if "all" in names and len(names) == 1:
        # The metric that decides by default comes first.
        ordered = dict.fromkeys(["logme", *ordered])
    return {name: get_metric(name) for name in ordered}


def _defined_for(metrics, task):
    """Leave out metrics without a definition for the kind of target; refuse if one decides."""
    target = f"a {task} target"
    without = [name for name, metric in metrics.items() if task not in metric.tasks]
    defined = {name: metric for name, metric in metrics.items() if name not in without}
    if next(iter(metrics)) in without:
        from .metrics import get_metric, metric_names

        known = ", ".join(name for name in metric_names() if task in get_metric(name).tasks)
        raise ValueError(
            f"--metric: {next(iter(metrics))} has no definition for {target}; these have one: "
            f"{known}."
        )
    if not without:
        return metrics, []
    have = "has" if len(without) == 1 else "have"
    return defined, [f"{', '.join(without)} {have} no definition for {target}, left out."]


def _select(pairs, metrics, cv, target, store, quiet):
    """Fit the selector, with progress, and pass its warnings on in plain words."""
    from .model_selection import TransferabilitySelector

    selector = TransferabilitySelector(pairs, metric=metrics, cv=cv, memory=store)
    progress = RankProgress(len(pairs), shown=not quiet)
    selector.set_callbacks(progress)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TransferabilityWarning)
        say_waiting_at_once(caught, quiet=quiet)
        try:
            with rows_reported_to(progress.on_rows):
                selector.fit(target.X, target.y)
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            raise WrongInput(str(error)) from error
        except SystemExit as error:
            raise WrongInput(
                f"candidate {progress.current!r} ended the program, sys.exit({error.code!r})."
            ) from error
        finally:
            progress.close()
    if not quiet:
        for warning in caught:
            if issubclass(warning.category, TransferabilityWarning):
                print(f"warning: {warning.message}", file=sys.stderr)
        if store is not None:
            say_from_store(selector)
    return selector
