"""Commands, options and messages; the parsing of candidates and the output have their modules."""

import sys
import warnings

import click

from . import __version__
from ._cli_candidates import parse_candidates
from ._cli_output import RankProgress, print_result
from .exceptions import TransferabilityWarning


class WrongInput(click.ClickException):
    """An input that can't be used; one line on standard error and exit code 2."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sktransfer")
def command():
    """Tell which pretrained network to fine-tune on your data."""


@command.command()
@click.option(
    "--data",
    metavar="DIR_OR_NPZ",
    help="A folder with a sub-folder of images per class, or an .npz file with X and y "
    "(or MedMNIST's train_images and train_labels).",
)
@click.option("--demo", is_flag=True, help="Use scikit-learn's digits as the data.")
@click.option(
    "--candidates",
    multiple=True,
    metavar="NAME...",
    help="Networks to rank: tiny (all bundled ones, the default), tiny:NAME, patterns such as "
    "'tiny:fashion*', or python:MODULE:OBJECT for a network or transformer of your own.",
)
@click.option(
    "--metric",
    multiple=True,
    metavar="NAME...",
    help="One or more metrics, or all; the first decides the rank. Default: logme (with --demo: "
    "all).",
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
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--quiet", is_flag=True, help="No progress and no warnings on standard error.")
def rank(
    data, demo, candidates, metric, exclude_family, cv, output_format, batch_size, device, quiet
):
    """Rank pretrained networks for a labelled data set.

    Only forward passes are made, nothing is fine-tuned. The result goes to standard output,
    progress and warnings to standard error.
    """
    if demo == bool(data):
        raise WrongInput("give either --data DIR_OR_NPZ or --demo (see sktransfer rank --help).")
    try:
        metrics = _metrics(metric or (["all"] if demo else ["logme"]))
        X, y, title = _demo_target() if demo else _target(data)
        pairs = parse_candidates(
            candidates or ["tiny"],
            exclude_families=exclude_family,
            batch_size=batch_size,
            device=device,
        )
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise WrongInput(str(error)) from error
    selector = _select(pairs, metrics, cv, X, y, quiet)
    print_result(selector, title, output_format, quiet=quiet)


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


def _demo_target():
    from .datasets import load_digits_target

    digits = load_digits_target()
    title = f"scikit-learn's digits, {len(digits.y_train)} training images, 10 classes"
    return digits.images_train, digits.y_train, title


def _target(path):
    """Load a folder or a file and describe it."""
    from pathlib import Path

    import numpy as np

    from .datasets import load_image_folder, load_npz_target

    if Path(path).is_dir():
        target = load_image_folder(path)
        return target.X, target.y, _title(path, len(target.X), len(target.target_names))
    if not Path(path).exists():
        raise ValueError(f"--data: there is no folder or file {path!r}.")
    target = load_npz_target(path)
    n_classes = len(np.unique(target.y)) if target.task == "classification" else None
    return target.X, target.y, _title(path, len(target.X), n_classes, target.task)


def _title(path, n_samples, n_classes, task="classification"):
    what = f"{n_classes} classes" if n_classes else f"{task} target"
    return f"{path}, {n_samples} samples, {what}"


def _select(pairs, metrics, cv, X, y, quiet):
    """Fit the selector, with progress, and pass its warnings on in plain words."""
    from .model_selection import TransferabilitySelector

    selector = TransferabilitySelector(pairs, metric=metrics, cv=cv)
    progress = RankProgress(len(pairs), shown=not quiet)
    selector.set_callbacks(progress)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TransferabilityWarning)
        try:
            selector.fit(X, y)
        except (ValueError, TypeError) as error:
            raise WrongInput(str(error)) from error
        finally:
            progress.close()
    if not quiet:
        for warning in caught:
            if issubclass(warning.category, TransferabilityWarning):
                print(f"warning: {warning.message}", file=sys.stderr)
    return selector
