"""What to try next: decided by the trials that are over, the seed and the number of the trial.

A sampler that lives as long as the process draws other numbers after an interruption. Here each
trial has a sampler of its own, and a study in memory that holds the finished trials and nothing
else.
"""

import threading
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from zlib import crc32

import numpy as np

from sktransfer.finetune._net import derived_seed

__all__ = [
    "ATTRIBUTE",
    "SAMPLERS",
    "TrialRecord",
    "import_optuna",
    "make_study",
    "next_trial",
    "quiet_optuna",
    "seed_for",
]

SAMPLERS = ("tpe", "random")
#: Where Optuna keeps what it does not know itself of a trial or a study.
ATTRIBUTE = "sktransfer"
_PURPOSES = ("rows", "fit", "sampler")


def import_optuna():
    """Import Optuna, or say how to install it.

    Returns
    -------
    optuna : module
        The package.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            "FineTuneSearchCV needs optuna, which comes with pip install 'sktransfer[search]' "
            f"({error})."
        ) from error
    return optuna


def seed_for(seed, purpose, *path):
    """Give a seed for one purpose of a search.

    Parameters
    ----------
    seed : int
        The seed of the search.
    purpose : {"rows", "fit", "sampler"}
        Rows that are held out, the training of networks, or the choice of parameters.
    *path : int
        Further numbers.

    Returns
    -------
    seed : int
        Below 2**32.
    """
    return derived_seed(seed, _PURPOSES.index(purpose), *path)


@dataclass
class TrialRecord:
    """A trial that is over.

    Attributes
    ----------
    number : int
        Its number in the search by its measure, from 0.
    values : dict of str to object
        What Optuna chose.
    state : {"complete", "pruned", "failed"}
        How it ended.
    score : float
        Mean of the measure over the splits; NaN if it was pruned.
    split_scores : list of float
        The measure on each split.
    reported : dict of int to float
        The measure after each epoch, on the first split.
    fit_seconds, score_seconds : list of float
        For each split that was begun.
    n_epochs : int
        Epochs that were trained, on all splits together.
    converged : bool
        Whether no training diverged.
    reason : str
        Why it failed.
    notes : dict
        What the pruner has noted.
    """

    number: int
    values: dict
    state: str = "complete"
    score: float = np.nan
    split_scores: list = field(default_factory=list)
    reported: dict = field(default_factory=dict)
    fit_seconds: list = field(default_factory=list)
    score_seconds: list = field(default_factory=list)
    n_epochs: int = 0
    converged: bool = True
    reason: str = ""
    notes: dict = field(default_factory=dict)

    def frozen(self, distributions):
        """Give it as Optuna keeps trials.

        Parameters
        ----------
        distributions : dict of str to distribution
            The space.

        Returns
        -------
        trial : FrozenTrial
            The trial. One that failed counts as complete if failure has a score.
        """
        optuna = import_optuna()
        has_score = not np.isnan(self.score)
        state = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}[self.state]
        known = ("number", "values", "score", "reported", "notes")
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState["COMPLETE" if has_score else state],
            value=self.score if has_score else None,
            params=self.values,
            distributions=distributions,
            intermediate_values=self.reported,
            system_attrs=self.notes,
            user_attrs={
                ATTRIBUTE: {name: v for name, v in asdict(self).items() if name not in known}
            },
        )
        seconds = sum(self.fit_seconds) + sum(self.score_seconds)
        trial.datetime_start = trial.datetime_complete - timedelta(seconds=seconds)
        return trial

    @classmethod
    def from_frozen(cls, trial):
        """Read it from what Optuna has kept.

        Parameters
        ----------
        trial : FrozenTrial
            What ``frozen`` gave.

        Returns
        -------
        record : TrialRecord
            The same trial.
        """
        return cls(
            number=trial.number,
            values=dict(sorted(trial.params.items())),
            score=np.nan if trial.value is None else float(trial.value),
            reported=dict(sorted(trial.intermediate_values.items())),
            notes=trial.system_attrs,
            **trial.user_attrs[ATTRIBUTE],
        )


def make_study(name, records, distributions, sampler=None, pruner=None):
    """Make a study in memory that holds finished trials.

    Parameters
    ----------
    name : str
        Name of the study.
    records : list of TrialRecord
        The trials.
    distributions : dict of str to distribution
        The space.
    sampler, pruner : sampler and pruner of Optuna, default=None
        Those of the study.

    Returns
    -------
    study : Study
        The study.
    """
    with quiet_optuna():
        study = import_optuna().create_study(
            direction="maximize", study_name=name, sampler=sampler, pruner=pruner
        )
        for record in records:
            study.add_trial(record.frozen(distributions))
    return study


def next_trial(measure, records, distributions, *, seed, sampler, pruner):
    """Choose the parameters of the next trial.

    Parameters
    ----------
    measure : str
        What the search is for.
    records : list of TrialRecord
        All trials before it.
    distributions : dict of str to distribution
        The space.
    seed : int
        The seed of the search.
    sampler : {"tpe", "random"}
        Who chooses.
    pruner : "median", None, or pruner of Optuna
        Who may end the trial.

    Returns
    -------
    trial : Trial
        A trial of Optuna whose ``params`` are set, in a study of its own.
    """
    optuna = import_optuna()
    own_seed = seed_for(seed, "sampler", crc32(measure.encode()), len(records))
    if sampler == "tpe":
        # Said explicitly, as the defaults of Optuna have changed.
        sampler = optuna.samplers.TPESampler(seed=own_seed, multivariate=False, constant_liar=False)
    else:
        sampler = optuna.samplers.RandomSampler(seed=own_seed)
    if pruner is None:
        pruner = optuna.pruners.NopPruner()
    elif isinstance(pruner, str):
        pruner = optuna.pruners.MedianPruner()
    study = make_study(measure, records, distributions, sampler, deepcopy(pruner))
    return study.ask(distributions)


_QUIET = threading.Lock()
_quiet = {"depth": 0, "before": None}


@contextmanager
def quiet_optuna():
    """Keep Optuna from logging what goes well, and leave its verbosity as it was.

    It may be nested, and entered by several threads.

    Yields
    ------
    None
    """
    logging = import_optuna().logging
    with _QUIET:
        if not _quiet["depth"]:
            _quiet["before"] = logging.get_verbosity()
            logging.set_verbosity(max(logging.WARNING, _quiet["before"]))
        _quiet["depth"] += 1
    try:
        yield
    finally:
        with _QUIET:
            _quiet["depth"] -= 1
            if not _quiet["depth"]:
                logging.set_verbosity(_quiet["before"])
