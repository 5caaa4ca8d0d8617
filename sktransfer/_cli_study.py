"""The command ``sktransfer study``: how stable rankings are on subsets of one's own data."""

import contextlib
import importlib.util
import sqlite3
import sys
import warnings
from functools import partial
from pathlib import Path

import click

from ._cli_cache import open_cache
from ._cli_candidates import find_candidates
from ._cli_data import load_target
from ._cli_metrics import parse_metrics
from ._cli_options import CannotWrite, WrongInput, candidate_options, in_plain_words, run_options
from ._cli_own_modules import current_folder_importable
from ._cli_study_inputs import find_targets, read_reference
from ._cli_study_output import StudyProgress, print_summary, write_figures, write_tables
from ._cli_study_plan import plan_targets
from .utils._files import try_to_write
from .utils._progress import rows_reported_to, steps_reported_to

__all__ = ["study"]

# Those of the published study.
_METRICS = ("hscore", "leep", "logme", "ncti", "nleep", "parc", "sfda")
_FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75)
_STORE, _FEATURES, _FIGURES = "study.sqlite", "features", "figures"


@click.command()
@click.option(
    "--data",
    multiple=True,
    required=True,
    metavar="DIR_OR_NPZ...",
    help="One or more targets, each a folder with a sub-folder of images per class, or an .npz "
    "file with X and y (or MedMNIST's train_images and train_labels). They are called like the "
    "file or folder, or NAME by NAME=PATH. medmnist:DIR takes MedMNIST's targets in a folder.",
)
@click.option(
    "--metrics",
    "--metric",
    multiple=True,
    metavar="NAME...",
    help=f"One or more metrics, or all. Default: {', '.join(_METRICS)}.",
)
@click.option(
    "--fractions",
    multiple=True,
    type=float,
    metavar="NUMBER...",
    help="Shares of the data that subsets have. Default: 0.05 0.1 0.25 0.5 0.75. All of the data "
    "are scored too.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How often subsets of each size are drawn.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    show_default=True,
    help="Decides which samples are drawn.",
)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    help="Where results go: the store, tables and figures. It must be new or empty, unless there "
    "is --resume.",
)
@click.option(
    "--resume", is_flag=True, help="Continue the study in the folder; what is done is kept."
)
@click.option("--retry-failed", is_flag=True, help="Compute again what failed before.")
@click.option(
    "--reference",
    metavar="FILE",
    help="What the rankings are compared with: a CSV file with the columns candidate, value "
    "(higher is better) and, for several targets, target; or medmnist:accuracy or medmnist:auroc.",
)
@click.option("--no-figures", is_flag=True, help="Write tables only.")
@click.option(
    "--cache",
    metavar="DIR",
    help="Keep the features of networks in this folder instead of one in the folder of --out.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that compute metrics.",
)
@candidate_options
@run_options
def study(
    data,
    metrics,
    fractions,
    repeats,
    seed,
    out,
    resume,
    retry_failed,
    reference,
    no_figures,
    cache,
    jobs,
    candidates,
    on_error,
    quiet,
    **candidate_parameters,
):
    """Tell how far rankings can be trusted: score networks on many subsets of your data.

    Subsets are nested, have the classes in their shares, and are drawn several times. Killed at
    any moment, the study goes on with --resume.
    """
    if sys.stdout is None:
        raise WrongInput("standard output is closed, so the result could not be given.")
    candidates = candidates or ["tiny"]
    folder = Path(out)
    # What the user's own code prints must not get between the lines of the result.
    with contextlib.redirect_stdout(sys.stderr), current_folder_importable(candidates):
        try:
            _check_packages()
            _check_folder(folder, resume)
            named = parse_metrics(metrics or _METRICS)
            pairs, plans = plan_targets(
                find_targets(data),
                named,
                partial(find_candidates, candidates, **candidate_parameters),
                partial(_subsets, fractions or _FRACTIONS, repeats, seed),
                on_error,
            )
            pools = {name: (plan.medmnist_name, plan.sources) for name, plan in plans.items()}
            values = None if reference is None else read_reference(reference, pools)
            _make(folder)
            store = open_cache(str(folder / _FEATURES) if cache is None else cache)
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise WrongInput(str(error)) from error
        if not quiet:
            for name, plan in plans.items():
                for remark in plan.remarks:
                    print(f"warning: {name}: {remark}", file=sys.stderr)
        try:
            _run(plans, pairs, folder, store, seed, jobs, on_error, retry_failed, quiet)
        except sqlite3.Error as error:
            raise CannotWrite(f"the store in {out!r} could not be written: {error}.") from error
        except KeyboardInterrupt:
            print(f"Results so far are in {folder}; --resume continues.", file=sys.stderr)
            raise
        tables, n_figures = _written(pairs, named, folder, seed, values, quiet, not no_figures)
    try:
        print_summary(tables, folder, n_figures)
    except OSError as error:
        raise CannotWrite(f"the result could not be written: {error.strerror}.") from error


def _check_packages():
    if importlib.util.find_spec("pandas") is None:
        raise ImportError("the tables of a study need pandas; install sktransfer[plot].")


def _check_folder(folder, resume):
    """Refuse a folder that has anything in it, unless a study in it is to be continued."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"--out: {str(folder)!r} is a file; give the name of a folder.")
    entries = {path.name for path in folder.iterdir()}
    if entries and not resume:
        raise ValueError(
            f"--out: the folder {str(folder)!r} exists and is not empty; give --resume to continue "
            "the study in it, or the name of another folder."
        )
    # A study that was killed at once may have got no further than to its features.
    if entries - {_FEATURES} and _STORE not in entries:
        raise ValueError(
            f"--resume: there is no study in the folder {str(folder)!r}, but other files."
        )


def _make(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try_to_write(folder / _STORE)
    except OSError as error:
        raise ValueError(
            f"--out: the folder {str(folder)!r} can't be made or written to ({error.strerror})."
        ) from error


def _subsets(fractions, repeats, seed, target):
    """Make the splitter of a target, and let it look at the target."""
    from .model_selection import NestedStratifiedSubsets

    try:
        subsets = NestedStratifiedSubsets(list(fractions), repeats, seed, task=target.task)
    except ValueError as error:
        raise ValueError(f"--fractions: {error}") from error
    with warnings.catch_warnings():
        # What it warns of is said when the study draws.
        warnings.simplefilter("ignore")
        subsets.split(target.X, target.y)
    return subsets


def _run(plans, pairs, folder, store, seed, jobs, on_error, retry_failed, quiet):
    """Run the study on one target after the other."""
    from .model_selection import RobustnessStudy

    progress = StudyProgress({name: plan.work for name, plan in plans.items()}, shown=not quiet)
    with (
        in_plain_words(progress, quiet=quiet),
        rows_reported_to(progress.on_rows),
        steps_reported_to(progress.on_step),
    ):
        for name, plan in plans.items():
            # Of several targets one is in memory at a time.
            target, plan.loaded = plan.loaded, None
            target = target or load_target(plan.path, on_error)
            progress.begin(name)
            RobustnessStudy(
                pairs,
                plan.metrics,
                plan.subsets,
                memory=store,
                store=folder / _STORE,
                n_jobs=jobs,
                random_state=seed,
            ).run(
                target.X,
                target.y,
                target=name,
                exclude=plan.excluded,
                retry_failed=retry_failed,
            )
            del target


def _written(pairs, metrics, folder, seed, reference, quiet, with_figures):
    """Write tables and figures of the candidates that have a score at all."""
    from .model_selection import RobustnessStudy

    def shown(pairs):
        return RobustnessStudy(pairs, metrics, store=folder / _STORE, random_state=seed)

    scores = shown(pairs).to_frame()
    with_scores = set(scores["candidate"][scores["status"] == "done"])
    if not with_scores:
        raise WrongInput("no candidate could be scored on any subset, for the reasons above.")
    without = [name for name in scores["candidate"].unique() if name not in with_scores]
    if without and not quiet:
        print(
            f"warning: {', '.join(without)} {'has' if len(without) == 1 else 'have'} no score at "
            "all, left out of rankings and stability.",
            file=sys.stderr,
        )
    ranked = shown([pair for pair in pairs if pair[0] in with_scores])
    try:
        tables = write_tables(scores, ranked, folder, reference)
        drawn = write_figures(tables, folder / _FIGURES, reference) if with_figures else 0
        return tables, drawn
    except OSError as error:
        raise CannotWrite(f"the result could not be written: {error}.") from error
