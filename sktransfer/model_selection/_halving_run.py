"""Running a race: rounds of short trainings, judged after each, until one is left."""

import math
from dataclasses import dataclass, field

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from ._halving_budget import next_number
from ._halving_rule import compare, judge

__all__ = ["COLUMNS", "Race"]

#: Columns of the record, in this order.
COLUMNS = (
    "round",
    "candidate",
    "metric_rank",
    "n_epochs",
    "score",
    "difference",
    "standard_error",
    "decision",
    "reason",
    "cost",
    "total_cost",
    "seconds",
)


@dataclass
class Race:
    """All that a race needs, and what it leaves behind.

    Attributes
    ----------
    names : list of str
        The candidates.
    backbones : dict of int to backbone
        What is trained.
    subjects : dict of int to Subject
        What they are, for the folder.
    ranks : dict of int to int
        Ranks by the metric; without candidates that have none.
    budget : Budget
        Counts costs.
    task : RaceTask
        What all trainings have in common.
    store : UnitStore or None
        Where results are kept.
    predictions : callable
        Gives the measure from outputs for the rows to judge by, and numbers of these rows.
    codes : ndarray of shape (n_judge,) or None
        Classes of the rows to judge by.
    factor, confidence : float
        As the parameters of the selector.
    n_jobs : int or None
        Number of processes, each of which trains one network.
    on_cpu : bool
        Whether networks are trained on CPUs; on another device they come one after the other.
    trusted : bool
        Whether the metric has the last word: not if it says itself that it says nothing.
    say : callable
        Told of each decision.
    progress : RaceProgress
        Told of each training.
    rows : list of tuple
        The record.
    scores : dict of int to float
        Validation score of each candidate in the last round that it was in.
    exits : dict of int to int
        In which round each candidate left.
    failures, warnings : dict of int to list of str
        By candidate.
    not_run : str or None
        Why nobody was trained, although there is somebody to be compared with, or why more is spent
        than the budget.
    """

    names: list
    backbones: dict
    subjects: dict
    ranks: dict
    budget: object
    task: object
    store: object
    predictions: object
    codes: np.ndarray | None
    factor: float
    confidence: float
    n_jobs: int | None
    on_cpu: bool
    trusted: bool
    say: object
    progress: object
    rows: list = field(default_factory=list)
    scores: dict = field(default_factory=dict)
    exits: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    warnings: dict = field(default_factory=dict)
    not_run: str | None = None

    def run(self, start, what):
        """Run the race.

        Parameters
        ----------
        start : list of int
            Who may start, in the order of the metric.
        what : str
            What they are.

        Returns
        -------
        winner : int
            Who has won.
        """
        able = list(self.ranks)
        n_start, n_rounds = self.budget.affordable(start, self.factor)
        first = min(able, key=lambda c: (self.ranks[c], c))
        before, start = start, start[:n_start]
        why = "the budget is too small for a round of two"
        over = self.budget.share_spent > self.budget.share
        if len(able) == 1:
            why = "is alone"
        elif not self.task.parts:
            why = "no row can be spared to judge by"
        if not start and (over or len(able) > 1):
            self.not_run = f"No candidate was trained: {self.names[first]!r} {why}"
            if len(able) > 1:
                self.not_run = f"No candidate was trained: {why}"
                if self.task.parts:
                    least = _rounded_up(self.budget.least(before))
                    self.not_run += f", which takes a 'budget' of {least}"
            self.not_run += f". {self.names[first]!r} is the first by the metric alone."
            if over:
                self.not_run += (
                    " The passes for the metrics alone cost "
                    f"{_rounded_up(self.budget.share_spent)}, more than the 'budget' of "
                    f"{self.budget.share:g}."
                )
        for c in able:
            if c in start:
                decision, reason = "kept", what
            elif not start and c == first:
                decision, reason = "won", f"first by the metric, and {why}"
            elif c in before:
                too_small = "the budget is too small for more to start"
                decision, reason = "dropped", too_small if self.task.parts else why
            else:
                decision, reason = "dropped", f"not {what}"
            self._record(0, c, 0, decision, reason, self.budget.cost_of_metrics(c), 0.0)
        if not start:
            self.exits[first] = 0
            return first
        return self._rounds(start, n_rounds)

    def _rounds(self, racing, n_rounds):
        rounds, states, number = (), {}, 0
        while True:
            number += 1
            n_epochs = self.budget.epochs(racing, n_rounds - number + 1, sum(rounds))
            rounds = (*rounds, n_epochs)
            told = self.progress.round(
                number, {c: self.names[c] for c in racing}, len(self.task.parts)
            )
            outputs, seconds, states = self._train(racing, rounds, states, told)
            told.end()
            for c in racing:
                self.budget.spent += self.budget.cost(c, n_epochs)
            failed = [c for c in racing if c not in outputs]
            racing = [c for c in racing if c in outputs]
            for c in failed:
                self._record(
                    number,
                    c,
                    sum(rounds),
                    "failed",
                    self.failures[c][0],
                    self.budget.cost(c, n_epochs),
                    seconds[c],
                )
            if not racing:
                return self._first_left(number)
            best_rank = min(self.ranks[c] for c in racing)
            leading = [c for c in racing if self.ranks[c] == best_rank or not self.trusted]
            everything = np.arange(len(outputs[racing[0]]))
            for c in racing:
                self.scores[c] = self.predictions(outputs[c], everything)
            leader = max(leading, key=lambda c: (self.scores[c], -self.ranks[c], -c))
            seed = [self.task.seed, number]
            comparisons = compare(self.predictions, outputs, leader, self.codes, seed)
            n_kept = next_number(len(racing), self.factor)
            verdict = self._verdict(racing, comparisons, leader, n_kept, False)
            rest = n_rounds - number
            if verdict.winner is None and (
                rest < 1 or not self.budget.epochs(verdict.kept, rest, sum(rounds))
            ):
                verdict = self._verdict(racing, comparisons, leader, n_kept, True)
            for c in sorted(racing, key=lambda c: self.ranks[c]):
                found = comparisons.get(c)
                decision = "kept" if c in verdict.kept else "dropped"
                self._record(
                    number,
                    c,
                    sum(rounds),
                    "won" if c == verdict.winner else decision,
                    verdict.reasons[c],
                    self.budget.cost(c, n_epochs),
                    seconds[c],
                    (0.0, 0.0) if found is None else (found.difference, found.error),
                )
            goes_on = set() if verdict.winner is not None else set(verdict.kept)
            self._forget([state for (c, _), state in states.items() if c not in goes_on])
            states = {(c, part): state for (c, part), state in states.items() if c in goes_on}
            if verdict.winner is not None:
                return verdict.winner
            racing = verdict.kept

    def _verdict(self, racing, comparisons, leader, n_kept, is_last):
        return judge(
            {c: self.ranks[c] for c in racing},
            {c: self.scores[c] for c in racing},
            comparisons,
            leader,
            confidence=self.confidence,
            n_kept=n_kept,
            is_last=is_last,
            names=self.names,
            trusted=self.trusted,
        )

    def _first_left(self, number):
        """Fall back on the metric when all who started have failed."""
        left = [c for c in self.ranks if c not in self.failures]
        if not left:
            reasons = {self.names[c]: found[0] for c, found in self.failures.items()}
            raise ValueError(f"No candidate could be fine-tuned: {reasons}.")
        winner = min(left, key=lambda c: (self.ranks[c], c))
        reason = "all who started have failed, and it is the first by the metric of the others"
        self._record(number, winner, 0, "won", reason, 0.0, 0.0)
        return winner

    # -- training --------------------------------------------------------------------------------

    @property
    def _places(self):
        return range(len(self.task.parts))

    def _train(self, racing, rounds, states, told):
        """Train for a round, on all parts; what fails is left out."""
        from ..finetune._race_units import RaceUnit, run_race_unit

        before = {} if self.store is not None else states
        units = {
            (c, part): RaceUnit(self.subjects[c], part, rounds, before.get((c, part)))
            for c in racing
            for part in self._places
        }
        n_jobs = effective_n_jobs(self.n_jobs) if self.on_cpu else 1
        if n_jobs > 1:  # all of them wait in the queue from now on
            for place in units:
                told.begin(*place)

        def jobs():
            for (c, part), unit in units.items():
                if n_jobs == 1:
                    told.begin(c, part)
                yield delayed(run_race_unit)(unit, self.task, self.backbones[c], self.store)

        found, following = {}, {}
        done = Parallel(n_jobs=n_jobs, return_as="generator")(jobs())
        for (c, part), (result, state) in zip(units, done, strict=True):
            told.finish(c, part)
            found[c, part] = result
            following[c, part] = state if self.store is None else units[c, part]
            self.warnings.setdefault(c, []).extend(
                f"{kind}: {text}" for kind, text in result.warnings
            )
            if result.failure is not None:
                self.failures.setdefault(c, []).append(result.failure)
        seconds = {c: sum(found[c, part].seconds for part in self._places) for c in racing}
        outputs = {
            c: np.concatenate([found[c, part].outputs for part in self._places])
            for c in racing
            if all(found[c, part].failure is None for part in self._places)
        }
        self._forget(states.values())
        return outputs, seconds, following

    def _forget(self, states):
        """Throw away what the folder has of trainings that will not be taken up again."""
        from ..finetune._race_units import forget_state

        for unit in states if self.store is not None else ():
            forget_state(unit, self.task, self.store)

    def ranking(self, winner):
        """Rank all candidates.

        Parameters
        ----------
        winner : int
            Who has won.

        Returns
        -------
        ranking : dict of str to int
            Competition ranks: who came further is better; of those who left in one round, the
            better validated; of those who never started, the better by the metric; failures last.
        """

        def key(c):
            if c not in self.ranks or c in self.failures:
                return (2,)
            if c == winner:
                return (0,)
            number = self.exits[c]
            return (1, -number, -self.scores[c] if number else 0.0, self.ranks[c])

        keys = [key(c) for c in range(len(self.names))]
        return {
            name: 1 + sum(other < own for other in keys)
            for name, own in zip(self.names, keys, strict=True)
        }

    # -- record ----------------------------------------------------------------------------------

    def _record(self, number, c, n_epochs, decision, reason, cost, seconds, compared=None):
        difference, error = compared or (math.nan, math.nan)
        row = (
            number,
            self.names[c],
            self.ranks[c],
            n_epochs,
            self.scores.get(c, math.nan) if compared else math.nan,
            difference,
            error,
            decision,
            reason,
            cost / self.budget.whole,
            self.budget.share_spent,
            seconds,
        )
        self.rows.append(row)
        if decision != "kept":
            self.exits[c] = number
        self.say(row)


def _rounded_up(share):
    """Write a share with two digits: what is said to be needed has to be enough."""
    digits = 10.0 ** (1 - math.floor(math.log10(share)))
    return f"{math.ceil(share * digits) / digits:g}"
