"""Run a search that is killed again and again: a program of its own, for test_search_storage.py.

It imports everything once and then forks: each child goes on with the search and is killed, by a
signal that nothing can catch, at a statement of SQL, a commit, or a step of training.
"""

import json
import os
import signal
import sys

import numpy as np
import pytest

# Doctests are looked for in here too.
torch = pytest.importorskip("torch")
pytest.importorskip("optuna")

from sqlalchemy import event
from sqlalchemy.engine import Engine
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import FineTuneClassifier, FineTuneSearchCV

N_TRIALS = 12


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.classifier = nn.Linear(8, 3)

    def forward(self, x):
        happens()
        return self.classifier(torch.relu(self.hidden(x)))


left = {"events": None}


def happens(*_, **__):
    """Count down, and end the process at zero as a power failure would."""
    if left["events"] is not None:
        left["events"] -= 1
        if left["events"] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def search(storage):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 6)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
    # The default of the search has a seed for the trainings too.
    found = FineTuneSearchCV(
        FineTuneClassifier(TorchBackbone(Plain), max_epochs=2),
        {"lr": (1e-4, 1e-1, "log"), "head_lr": (1e-4, 1e-1, "log")},
        scoring=["neg_log_loss", "accuracy"],
        n_trials=N_TRIALS,
        storage=storage,
        random_state=0,
        refit=False,
    ).fit(X, y)
    results = {
        name: np.asarray(column).tolist()
        for name, column in found.cv_results_.items()
        if not name.endswith("_time")
    }
    best = found.best_params_per_measure_, found.best_scores_per_measure_
    reported = {
        measure: [sorted(t.intermediate_values.items()) for t in found.get_study(measure).trials]
        for measure in found.scorer_
    }
    return repr((results, best, reported))


def until_it_ends(storage, moments):
    """Start the search, and again whenever it was killed; give how often that was."""
    outcome, n_killed = storage + ".json", 0
    for events in moments:
        child = os.fork()
        if not child:
            left["events"] = events
            with open(outcome, "w") as file:
                json.dump(search(storage), file)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            n_killed += 1
            continue
        assert os.WEXITSTATUS(status) == 0
        with open(outcome) as file:
            return n_killed, json.load(file)
    raise AssertionError("the search has not come to its end")


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = sys.argv[1]
    for target in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, target, happens)
    # First while the tables are made, then in the middle of trials and of what is written of them;
    # in the end whenever two more trials or so are over.
    moments = [1, 46, 105, *range(260, 10_000, 80)]
    killed = until_it_ends(f"{folder}/killed.db", moments)
    whole = until_it_ends(f"{folder}/whole.db", [None])
    with open(f"{folder}/outcome.json", "w") as file:
        json.dump({"killed": killed, "whole": whole}, file)
