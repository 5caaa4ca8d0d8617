"""A run of a robustness study: plan what is missing, work on it, write down each result."""

import sys
import time
from concurrent.futures import BrokenExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from ..evaluation._pairing import listed
from ..exceptions import CandidateFailedWarning
from ..utils._announce import announce
from ..utils._heard import heard_warnings
from ..utils._progress import StepCounter
from ._extraction import Extractor, extract, is_stateless
from ._layer_groups import LayerGroups
from ._metric_collection import is_relative_to_pool, needs_network, needs_probabilities
from ._study_cells import Rows, Unit, failed_unit, run_unit, with_seed
from ._study_inputs import candidate_identity, features_digest
from ._study_store import CellRow

__all__ = ["StudyRun", "known_identities"]

_NO_PARAMS = {"fit": {}, "fit_transform": {}}
_UNITS_PER_PROCESS = 4
# How often processes may be killed, one after the other, without a result in between.
_MOST_IN_VAIN = 2
_SECONDS_OF_SILENCE = 10.0
_MOST_REASONS = 5


@dataclass
class StudyRun:
    """All that one run on one target needs.

    Attributes
    ----------
    store : StudyStore
        Open; written to as results come, by this process alone.
    called : str
        What to call the store.
    target : TargetInputs
        The target.
    X, y : data
        Its data and labels.
    subsets : list of StudySubset
        Its subsets.
    candidates : dict of str to transformer
        The candidates.
    metrics : dict of str to metric
        The metrics.
    identities : dict of str to CandidateIdentity or None
        Of candidates that need not be fitted to be told apart; None for the others.
    memory : FeatureStore or joblib memory
        Where features are kept.
    n_jobs : int or None
        Number of processes.
    random_state : int
        Where seeds come from.
    raise_errors : bool
        Whether the first failure ends the run.
    retry_failed : bool
        Whether failed cells are computed again.
    verbose : int
        How much is printed.
    """

    store: object
    called: str
    target: object
    X: object
    y: object
    subsets: list
    candidates: dict
    metrics: dict
    identities: dict
    memory: object
    n_jobs: int | None
    random_state: int
    raise_errors: bool
    retry_failed: bool
    verbose: int
    n_computed: int = 0
    heard: dict = field(default_factory=dict)
    _said_at: float = field(default_factory=time.monotonic)

    def run(self):
        """Compute every cell that is missing."""
        missing = self._missing()
        asked = any(needs_probabilities(metric) for metric in self.metrics.values())
        self._extractor = Extractor(
            self.X, self.y, len(self.y), self.memory, asked, self.target.data
        )
        pending = [(name, self.candidates[name]) for name in missing]
        self._places = {name: place for place, (name, _) in enumerate(pending)}
        self._layer_groups = LayerGroups(pending)
        sizes = {subset.key: len(subset.rows) for subset in self.subsets}
        n_missing = sum(len(names) for cells in missing.values() for names in cells.values())
        work = sum(sizes[key] * len(n) for cells in missing.values() for key, n in cells.items())
        n_cells = len(self.candidates) * len(self.metrics) * len(self.subsets)
        self._counter = StepCounter(n_cells, n_cells - n_missing, work)
        n_processes = effective_n_jobs(self.n_jobs)
        units, inside = [], []
        for name, cells in missing.items():
            for unit in self._units(name, cells):
                (inside if _is_inside(unit) else units).append(unit)
            # Only as many candidates at once as are needed to give every process work.
            if len(units) >= _UNITS_PER_PROCESS * n_processes or n_processes == 1:
                self._work_on(units, inside)
                units, inside = [], []
        self._work_on(units, inside)

    def _missing(self):
        """Names of the metrics that are missing, by candidate and subset."""
        known = {
            (row.metric, row.candidate, row.subset)
            for row in self.store.cells(self.target.name)
            if row.status == "done" or not (self.retry_failed or self.raise_errors)
        }
        missing = {}
        for name in self.candidates:
            cells = {}
            for subset in self.subsets:
                wanted = [m for m in self.metrics if (m, name, subset.key) not in known]
                if wanted:
                    cells[subset.key] = wanted
            if cells:
                missing[name] = cells
        return missing

    # -- candidates -----------------------------------------------------------------------------

    def _units(self, name, cells):
        """Prepare a candidate, and give a unit for each of its subsets."""
        candidate = self.candidates[name]
        units = [
            Unit(
                candidate=name,
                fraction=subset.fraction,
                repeat=subset.repeat,
                n_samples=len(subset.rows),
                metrics={metric: self._seeded(metric, subset) for metric in cells[subset.key]},
                y=Rows(self.y, subset.rows),
                keep_errors=self.raise_errors,
            )
            for subset in self.subsets
            if subset.key in cells
        ]
        # The largest first, so that no process is left with it at the end.
        units.sort(key=lambda unit: (-unit.n_samples, unit.repeat))
        rows = {subset.key: subset.rows for subset in self.subsets}
        if not is_stateless(candidate):
            self._identify(name, self.identities[name])
            return [self._learning(unit, candidate, rows) for unit in units]
        try:
            fitted, extraction = self._prepare(name, candidate, units)
        except Exception as error:
            if self.raise_errors:
                error.add_note(f"Raised by candidate {name!r} of the study.")
                raise
            for unit in units:
                self._record(failed_unit(unit, error))
            return []
        identity = self.identities[name] or candidate_identity(name, fitted)
        self._identify(name, identity, extraction)
        return [
            part for unit in units for part in self._on_features(unit, fitted, extraction, rows)
        ]

    def _prepare(self, name, candidate, units):
        """Fit a candidate that learns nothing, and run it unless only its network is needed."""
        if all(needs_network(m) for unit in units for m in unit.metrics.values()):
            return clone(candidate).fit(self._extractor.X, self._extractor.y), None
        place = self._places[name]
        return self._layer_groups.extract(
            place, candidate, self._extractor, _NO_PARAMS, stateless=True, name=name
        )

    def _learning(self, unit, candidate, rows):
        key = unit.fraction, unit.repeat
        about = (self.random_state, self.target.name, unit.candidate, *key)
        return replace(
            unit,
            inputs=Rows(self.X, rows[key]),
            learner=with_seed(candidate, "candidate", *about),
        )

    def _on_features(self, unit, fitted, extraction, rows):
        """Give a unit for metrics of features, and one for metrics that look into the network."""
        inside = {name: m for name, m in unit.metrics.items() if needs_network(m)}
        outside = {name: m for name, m in unit.metrics.items() if name not in inside}
        own = rows[unit.fraction, unit.repeat]
        if outside:
            yield replace(
                unit,
                metrics=outside,
                features=Rows(extraction.features, own),
                probabilities=Rows(extraction.probabilities, own),
                source_centroids=getattr(fitted, "source_centroids", None),
            )
        if inside:
            yield replace(
                unit, metrics=inside, inputs=Rows(self._extractor.X, own), backbone=fitted
            )

    def _seeded(self, metric, subset):
        about = (self.random_state, self.target.name, metric, *subset.key)
        return with_seed(self.metrics[metric], "metric", *about)

    def _identify(self, name, identity, extraction=None):
        """Write down what a candidate is; refuse other features than those of earlier rows."""
        features = None if extraction is None else extraction.features
        probabilities = None if extraction is None else extraction.probabilities
        found = features_digest(features), features_digest(probabilities)
        known = self.store.candidates()[self.target.name].get(name, (None,) * 4)[2:]
        for what, before, now in zip(("features", "probabilities"), known, found, strict=True):
            if None not in (before, now) and before != now:
                raise ValueError(
                    f"{self.called} holds results of other inputs, which are never mixed: "
                    f"candidate {name!r} gives other {what} for target {self.target.name!r} than "
                    "before. Where a network computes other last bits each time, on a GPU or with "
                    "another number of threads, the parameter 'memory' keeps its features. Give "
                    "what changed another name, or take another store."
                )
        self.store.identify(
            self.target.name, name, identity.fingerprint, identity.description, *found
        )

    # -- work -----------------------------------------------------------------------------------

    def _work_on(self, units, inside):
        with closing(self._results(units)) as results:
            for result in results:
                self._record(result)
        # Here, one after the other: this process may own the device that networks lie on.
        for unit in inside:
            self._record(run_unit(unit))

    def _results(self, units):
        """Work on units in whatever processes joblib has; give results as they come."""
        left = {(unit.candidate, unit.fraction, unit.repeat): unit for unit in units}
        n_left, n_in_vain = None, 0
        while left:
            try:
                with closing(_parallel(self.n_jobs, list(left.values()))) as results:
                    for result in results:
                        del left[result.candidate, result.fraction, result.repeat]
                        yield result
            except BrokenExecutor as error:
                if "un-serialize" in str(error):
                    # Something that is known to this process alone, or features whose file is
                    # gone from the store meanwhile: here it is still open.
                    yield from map(run_unit, left.values())
                    return
                # A process was killed, for its memory maybe. Others take its place, as long as
                # they get any further; two may have been killed before any result came.
                n_in_vain = n_in_vain + 1 if n_left == len(left) else 0
                if n_in_vain == _MOST_IN_VAIN:
                    error.add_note(
                        f"{self.called} has the results so far; a further run continues."
                    )
                    raise
                n_left = len(left)

    def _record(self, result):
        """Write down a result, and tell how far the run has come."""
        place = result.candidate, result.fraction, result.repeat
        for metric, cell in result.cells.items():
            if self.raise_errors and cell.error is not None:
                cell.error.add_note(
                    f"Raised when {metric!r} scored candidate {result.candidate!r} of the study."
                )
                raise cell.error
            self._hear(f"Metric {metric!r}", place, cell.warnings)
        self._hear(f"Candidate {result.candidate!r}", place, result.warnings)
        self.store.record(
            [
                CellRow(
                    self.target.name,
                    metric,
                    *place,
                    "failed" if cell.reason else "done",
                    self._final(metric, cell),
                    cell.parts,
                    cell.reason,
                    cell.seconds,
                )
                for metric, cell in result.cells.items()
            ]
        )
        n_cells = len(result.cells)
        self.n_computed += n_cells
        label = f"{place[0]}, fraction {place[1]:g}, repeat {place[2]}"
        steps = self._counter.add(n_cells, n_cells * result.n_samples, label)
        self._say(steps)

    def _final(self, metric, cell):
        """Give the score, unless the pool has to be combined first."""
        is_final = not (cell.reason or is_relative_to_pool(self.metrics[metric]))
        return float(cell.score) if is_final else None

    # -- what is said ---------------------------------------------------------------------------

    def _say(self, steps):
        now = time.monotonic()
        is_due = now - self._said_at > _SECONDS_OF_SILENCE or steps.n_done == steps.n_steps
        if self.verbose > 1 or (self.verbose and is_due):
            print(f"{self.target.name}: {steps}", file=sys.stderr, flush=True)
            self._said_at = now

    def _hear(self, who, place, warnings):
        for category, message in warnings:
            first, places = self.heard.get((who, category), ((place, message), set()))
            self.heard[who, category] = min(first, (place, message)), places | {place}

    def announce(self, rows):
        """Give each kind of warning once for each metric, and count the cells without a score.

        Parameters
        ----------
        rows : list of CellRow
            All cells of the study.
        """
        for (who, category), said in sorted(
            self.heard.items(), key=lambda item: (item[0][0], item[0][1].__name__)
        ):
            ((candidate, fraction, repeat), message), places = said
            where = f"candidate {candidate!r}, fraction {fraction:g}, repeat {repeat}"
            more = "" if len(places) == 1 else f" (and {len(places) - 1} more)"
            announce(f"{who} on target {self.target.name!r}, {where}{more}: {message}", category)
        who = {}
        failed = [r for r in rows if r.target == self.target.name and r.status == "failed"]
        for row in failed:
            who.setdefault((row.metric, row.reason), {})[row.candidate] = None
        if failed:
            said = [
                f"by {metric!r} for {listed(names)}: {reason.rstrip('.')}"
                for (metric, reason), names in list(who.items())[:_MOST_REASONS]
            ]
            more = f"; and {len(who) - _MOST_REASONS} more" if len(who) > _MOST_REASONS else ""
            announce(
                f"{len(failed)} cells of target {self.target.name!r} have no score, "
                f"{'; '.join(said)}{more}. With retry_failed=True they are computed again.",
                CandidateFailedWarning,
            )


def _is_inside(unit):
    return any(map(needs_network, unit.metrics.values()))


def _parallel(n_jobs, units):
    work = [delayed(run_unit)(unit) for unit in units]
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    except ValueError:  # of a backend that gives all results at once
        step = 2 * effective_n_jobs(n_jobs)
        for start in range(0, len(work), step):
            yield from Parallel(n_jobs=n_jobs)(work[start : start + step])
        return
    results = parallel(work)
    try:
        for result in results:  # noqa: UP028 - closed below, and not before
            yield result
    finally:
        # After an error others are still being worked on, which joblib would warn of.
        with heard_warnings():
            results.close()


def known_identities(identities, candidates, kept, target, X, y):
    """Say what candidates are, as far as it is needed before work starts.

    Parameters
    ----------
    identities : dict of str to CandidateIdentity or None
        Of candidates that need not be fitted to be told apart; None for the others.
    candidates : dict of str to transformer
        The candidates.
    kept : dict of str to dict of str to tuple
        What the store knows of candidates, by target and name.
    target : str
        Name of the target.
    X, y : data
        The target.

    Returns
    -------
    found : dict of str to CandidateIdentity
        Those given, and those of candidates that the store knows, and that are fitted now to see
        whether they are the same.
    """
    found = {name: identity for name, identity in identities.items() if identity is not None}
    data = Extractor(X, y, len(y), None, False)
    known = {name for names in kept.values() for name, (_, said, *_) in names.items() if said}
    for name in known & candidates.keys() - found.keys():
        # What cannot be fitted now fails when it is its turn; what it warns of, it does then.
        with suppress(Exception), heard_warnings():
            fitted = clone(candidates[name]).fit(data.X, data.y)
            identity = candidate_identity(name, fitted)
            if identity.fingerprint is None and name in kept.get(target, {}):
                # Nothing is computed where the features themselves are all there is.
                features = extract(fitted, data.X, len(y)).features
                identity = identity._replace(features=features_digest(features))
            found[name] = identity
    return found
