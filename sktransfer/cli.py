"""The command ``sktransfer``: rank pretrained networks, and study rankings, from a shell."""

import os
import sys

__all__ = ["main"]

# Several values may follow one of these options: ``--metric logme hscore``.
_LIST_OPTIONS = (
    *("--data", "--candidates", "--metric", "--metrics", "--exclude-family"),
    "--fractions",
)


def main(arguments=None):
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments; those of the process if None.

    Returns
    -------
    code : int
        0 after a ranking or study, 2 for a wrong input or if no candidate could be scored, 1 if
        the result could not be written (both with one line on standard error), 130 after an
        interruption.

    Examples
    --------
    >>> from sktransfer.cli import main
    >>> main(["--version"])
    sktransfer, version ...
    0
    """
    try:
        import click
        import rich  # noqa: F401
    except ImportError as error:
        print(
            f"sktransfer: the command line needs {error.name}; install sktransfer[cli].",
            file=sys.stderr,
        )
        return 2
    if arguments is None:
        # The process is this command's own. Threads that spin while they wait steal the cores from
        # those that work: small networks ran five times slower on a machine that was not idle.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("MPLBACKEND", "Agg")  # figures go to files
    from ._cli import command

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return (
            command.main(_spread_lists(arguments), prog_name="sktransfer", standalone_mode=False)
            or 0
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        print("sktransfer: interrupted.", file=sys.stderr)
        return 130
    except click.ClickException as error:
        print(f"sktransfer: {' '.join(error.format_message().split())}", file=sys.stderr)
        return error.exit_code


def _spread_lists(arguments):
    """Repeat an option for each of the values that follow it."""
    import click

    spread, option, waiting = [], None, False
    for argument in [*arguments, "-"]:  # as if another option followed, to look at the last one
        if argument.startswith("-") and waiting and option in _LIST_OPTIONS:
            raise click.UsageError(f"Option '{option}' requires a value.")
        if argument.startswith("-"):
            option, waiting = argument, True
            spread.append(argument)
        elif option in _LIST_OPTIONS and not waiting:
            spread.extend([option, argument])
        else:
            waiting = False
            spread.append(argument)
    return spread[:-1]
