"""What the commands have in common: options, and the ways in which a run can end."""

import contextlib
import sys
import warnings

import click

from ._cli_cache import say_waiting_at_once
from .exceptions import TransferabilityWarning

__all__ = [
    "CannotWrite",
    "Numbers",
    "WrongInput",
    "all_of",
    "candidate_options",
    "in_plain_words",
    "run_options",
]


class WrongInput(click.ClickException):
    """An input that can't be used; one line on standard error and exit code 2."""

    exit_code = 2


class CannotWrite(click.ClickException):
    """A result that can't be written; one line on standard error and exit code 1."""

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


_CANDIDATES = [
    click.option(
        "--candidates",
        multiple=True,
        metavar="NAME...",
        help="Networks to rank: tiny (all bundled ones, the default), tiny:NAME or a pattern such "
        "as 'tiny:fashion*', torchvision:NAME[:WEIGHTS], timm:NAME[:WEIGHTS], medmnist:DIR for "
        "checkpoints of MedMNIST's and ImageNet, features:FILE.npy for features computed "
        "elsewhere, or python:MODULE:OBJECT for a network (see --mean) or a transformer of your "
        "own. NAME@LAYER takes the features of another layer, NAME@stages of several, NAME=FILE "
        "loads a checkpoint into a torchvision or python network.",
    ),
    click.option(
        "--mean",
        type=Numbers(),
        metavar="NUMBERS",
        help="How images were normalised to train a checkpoint, or a python: network that is a "
        "plain torch module: the mean of its pixels between 0 and 1, one number or one per channel "
        "(0.485,0.456,0.406).",
    ),
    click.option(
        "--std", type=Numbers(), metavar="NUMBERS", help="The standard deviation likewise."
    ),
    click.option(
        "--input-size",
        type=click.IntRange(min=1),
        metavar="PIXELS",
        help="Height and width that images are resized to for these networks; others know theirs.",
    ),
    click.option(
        "--exclude-family",
        "exclude_families",
        multiple=True,
        metavar="FAMILY...",
        help="Leave out bundled networks that were trained on this family of data.",
    ),
    click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True),
    click.option(
        "--workers",
        "n_workers",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Threads that read and resize images ahead of the network.",
    ),
    click.option(
        "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..."
    ),
]

_RUN = [
    click.option(
        "--on-error",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="Image files that can't be read: stop and name them all, or leave them out with their "
        "labels.",
    ),
    click.option("--quiet", is_flag=True, help="No progress and no warnings on standard error."),
]


def all_of(options):
    """Make a decorator that gives a command several options.

    Parameters
    ----------
    options : list of callable
        What ``click.option`` returned, in the order of the help.

    Returns
    -------
    decorate : callable
        The decorator.
    """

    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


#: Options that ``parse_candidates`` takes as parameters of the same names.
candidate_options = all_of(_CANDIDATES)
#: ``on_error`` and ``quiet``.
run_options = all_of(_RUN)


@contextlib.contextmanager
def in_plain_words(progress, *, quiet):
    """Turn what goes wrong into one line, and say warnings at the end, a line each.

    Parameters
    ----------
    progress : object
        With ``current``, the name of what is run, and ``close()``.
    quiet : bool
        Whether warnings are left out.

    Raises
    ------
    WrongInput
        For whatever a run raises because of its inputs.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TransferabilityWarning)
        say_waiting_at_once(caught, quiet=quiet)
        try:
            yield
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
