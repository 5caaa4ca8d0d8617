"""What trivial rules say of the same candidates: size, width, neighbours, a probe, random weights.

A metric is worth its trouble where it says more than these. They are computed beside every metric,
from the features that are there anyway; only the untrained twin needs a forward pass of its own.
"""

import hashlib
import sys
from dataclasses import dataclass, field

import numpy as np

from ..metrics import KNN, LinearProbe, MetricInputs
from ._metric_collection import score_alike

__all__ = [
    "BASELINES",
    "MOST_ROWS",
    "BaselinePlan",
    "BaselineResults",
    "plan_baselines",
    "score_baselines",
]

BASELINES = (
    "n_parameters",
    "n_features",
    "source_accuracy",
    "knn",
    "linearprobe",
    "untrained_twin",
    "random",
)

# Neighbours cost the square of the number of rows. So many say enough for a baseline.
MOST_ROWS = 2000


@dataclass(frozen=True)
class BaselinePlan:
    """Which baselines are computed.

    Parameters
    ----------
    names : tuple of str
        Some of `BASELINES`.
    every_twin : bool
        Whether all architectures are run with random weights, however many there are, and also
        those of networks of which nobody knows whether they are trained.
    task : {"classification", "multilabel", "regression"}
        What the target is.
    """

    names: tuple = ()
    every_twin: bool = False
    task: str = "classification"

    @property
    def metrics(self):
        """The baselines that are scored on features."""
        # Of several labels nearest neighbours know nothing, and "auto" says so.
        of_neighbours = self.task if self.task in KNN.tasks else "auto"
        scored = {
            "knn": KNN(task=of_neighbours),
            "linearprobe": LinearProbe(n_permutations=0, task=self.task),
        }
        return {name: metric for name, metric in scored.items() if name in self.names}


def plan_baselines(baselines):
    """Read the parameter ``baselines``.

    Parameters
    ----------
    baselines : "auto", "all", None, or list or tuple of str
        As in the selector.

    Returns
    -------
    plan : BaselinePlan
        What to compute.

    Raises
    ------
    ValueError
        If a baseline is unknown.
    """
    if baselines is None:
        return BaselinePlan()
    if isinstance(baselines, str):
        if baselines not in ("auto", "all"):
            raise ValueError(
                "'baselines' must be 'auto', 'all', None or a list of names. "
                f"Got {baselines!r} instead."
            )
        return BaselinePlan(BASELINES, every_twin=baselines == "all")
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise ValueError(
            f"'baselines' must name some of {list(BASELINES)!r}. Got {unknown[0]!r} instead."
        )
    names = tuple(name for name in BASELINES if name in baselines)
    return BaselinePlan(names, every_twin=True)


def score_baselines(baselines, metrics, cells, known, y):
    """Score the baselines on the features of one candidate.

    Parameters
    ----------
    baselines : dict of str to metric
        What to score.
    metrics : dict of str to metric
        The metrics that were scored already, without weights.
    cells : dict of str to Cell
        What became of them; a baseline that is among them is not computed again.
    known : MetricInputs or None
        Features without weights, with the decompositions that others may have made.
    y : ndarray
        The target of the rows of `known`.

    Returns
    -------
    scores : dict of str to (float, str or None)
        Score, and the reason if there is none.
    """
    scores = {}
    for name, baseline in baselines.items():
        try:
            same = (m for m, metric in metrics.items() if score_alike(metric, baseline, y))
            done = next((cells[m] for m in same if cells[m].error is None), None)
            if done is not None:
                scores[name] = (done.score, None)
                continue
            if len(y) > MOST_ROWS:
                rows = _spread_rows(y)
                known, y = MetricInputs(y[rows], features=known.features[rows]), y[rows]
            score = float(known.fit(baseline).score_)
            scores[name] = (score, "its score is NaN" if np.isnan(score) else None)
        except Exception as error:
            scores[name] = (np.nan, f"{type(error).__name__}: {error}")
    return scores


def _spread_rows(y):
    """Rows in which every class, or range of values, has its share; the same for all candidates."""
    order = np.arange(len(y)) if y.ndim > 1 else np.argsort(y, kind="stable")
    return np.sort(order[np.linspace(0, len(y) - 1, MOST_ROWS).round().astype(int)])


def _source_accuracy(fitted):
    """Accuracy of a network on its own source, as a fraction, where somebody has told it."""
    inner = getattr(fitted, "estimator", fitted)
    known = getattr(inner, "source_accuracy", None)
    if known is None:
        known = getattr(getattr(inner, "card", None), "source_accuracy", None)
    return np.nan if known is None else float(known)


def _architecture(fitted):
    """Digest of the architecture of a torch network; None for any other candidate."""
    if "sktransfer.backbones._base" not in sys.modules:
        return None  # no such network can have been made
    from ..backbones._untrained import architecture_key

    return architecture_key(fitted)


@dataclass
class BaselineResults:
    """Baselines of every candidate, filled as candidates are run.

    Parameters
    ----------
    plan : BaselinePlan
        Which ones.
    candidates : list of str
        Names of the candidates.
    n_splits : int
        Number of splits, at least 1.

    Attributes
    ----------
    facts : dict of str to ndarray of shape (n_candidates,)
        What is known of a candidate without its features.
    scored : dict of str to ndarray of shape (n_candidates, n_splits)
        Scores of baselines on features.
    twins : dict of int to dict of str to float
        For each candidate whose untrained twin was run, its score by metric.
    saturated : dict of str to ndarray of bool of shape (n_candidates, n_splits)
        For each metric of the selection, which scores it said to be no more than chance.
    problems : dict of str to dict of str to str
        For each baseline the reasons why a candidate has none.
    architectures : dict of int to str
        Digests of the architectures of networks.
    """

    plan: BaselinePlan
    candidates: list
    n_splits: int
    facts: dict = field(init=False)
    scored: dict = field(init=False)
    twins: dict = field(default_factory=dict)
    saturated: dict = field(default_factory=dict)
    problems: dict = field(default_factory=dict)
    architectures: dict = field(default_factory=dict)

    def __post_init__(self):
        shape = (len(self.candidates), self.n_splits)
        known = ("n_parameters", "n_features", "source_accuracy")
        self.facts = {name: np.full(shape[0], np.nan) for name in known}
        self.scored = {name: np.full(shape, np.nan) for name in self.plan.metrics}

    def describe(self, candidate, fitted, n_features):
        """Record what is known of a candidate that was fitted and run.

        Parameters
        ----------
        candidate : int
            Its index.
        fitted : transformer
            The fitted candidate.
        n_features : int
            Width of its features.
        """
        self.facts["n_parameters"][candidate] = getattr(fitted, "n_parameters_", np.nan)
        self.facts["n_features"][candidate] = n_features
        if "source_accuracy" in self.plan.names:
            self.facts["source_accuracy"][candidate] = _source_accuracy(fitted)
        is_pretrained = getattr(fitted, "pretrained_", None) is True
        if "untrained_twin" in self.plan.names and (is_pretrained or self.plan.every_twin):
            try:
                key = _architecture(fitted)
            except Exception as error:
                self.fail("untrained_twin", candidate, error)
            else:
                if key is not None:
                    self.architectures[candidate] = key

    def add(self, result):
        """Take the baselines of one scoring task.

        Parameters
        ----------
        result : ScoringResult
            What became of the task.
        """
        place = result.candidate, result.split
        for name, (score, reason) in result.baselines.items():
            self.scored[name][place] = score
            if reason is not None:
                self.fail(name, result.candidate, reason)
        for name, cell in result.cells.items():
            known = self.saturated.setdefault(
                name, np.zeros((len(self.candidates), self.n_splits), dtype=bool)
            )
            known[place] = cell.saturated

    def fail(self, baseline, candidate, reason):
        """Record why a candidate has no score by a baseline.

        Parameters
        ----------
        baseline : str
            Its name.
        candidate : int
            Index of the candidate.
        reason : str or Exception
            The reason.
        """
        if isinstance(reason, Exception):
            reason = f"{type(reason).__name__}: {reason}"
        reason = reason.strip().splitlines()[0]
        self.problems.setdefault(baseline, {}).setdefault(self.candidates[candidate], reason)

    def scores(self, deciding):
        """Give all baselines.

        Parameters
        ----------
        deciding : str
            The metric by which twins are compared.

        Returns
        -------
        scores : dict of str to dict of str to float
            By baseline and candidate, NaN where nothing is known.
        """
        columns = {}
        for name in self.plan.names:
            if name in self.facts:
                columns[name] = self.facts[name]
            elif name in self.scored:
                scores = self.scored[name]
                usable = ~np.isnan(scores).all(axis=0)
                columns[name] = scores[:, usable if usable.any() else slice(None)].mean(axis=1)
            elif name == "random":
                columns[name] = [_drawn(candidate) for candidate in self.candidates]
            else:
                columns[name] = [
                    self.twins.get(place, {}).get(deciding, np.nan)
                    for place in range(len(self.candidates))
                ]
        return {
            name: dict(zip(self.candidates, map(float, column), strict=True))
            for name, column in columns.items()
        }


def _drawn(name):
    """Draw a number in [0, 1) that hangs on nothing but the name."""
    return (
        int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big")
        / 2**48
    )
