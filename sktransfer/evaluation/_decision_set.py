"""Which candidates may be the best after fine-tuning: sets whose hit rate was measured."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from ._pairing import listed, read_scores

__all__ = ["DecisionCalibration", "DecisionSet", "distances", "limit"]

# Scores at the limit are inside, also when a difference was rounded.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class DecisionSet:
    """The candidates that may be the best after fine-tuning, judging by past decisions.

    Returned by :meth:`DecisionCalibration.decision_set`. It can be iterated over and searched by
    ``in``. Its promise is about decisions: how often sets made by this rule held the
    candidate that was best after fine-tuning. It says nothing about another sample of the target;
    for that there is :class:`SelectionUncertainty`.

    Parameters
    ----------
    names : tuple
        The candidates, highest score first.
    calibration : DecisionCalibration
        What the rule was learned from, and how well it did there.
    unscored : tuple
        Candidates without a score, which the rule can neither take nor rule out.
    notes : tuple of str
        In what these candidates are unlike those of the calibration.

    Examples
    --------
    >>> from sktransfer.datasets import load_decision_calibration
    >>> logme = {"mnist": 0.40, "letters": 0.38, "cells": -0.20}
    >>> found = load_decision_calibration("logme").decision_set(logme, n_samples=100)
    >>> found.names, "cells" in found
    (('mnist', 'letters'), False)
    """

    names: tuple
    calibration: "DecisionCalibration"
    unscored: tuple = ()
    notes: tuple = ()

    #: Which of the two promises this is; the other one is "sampling".
    promise = "decision"

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)

    def __contains__(self, name):
        return name in self.names

    @property
    def statement(self):
        """What the set promises, in a few sentences."""
        said = [self.calibration.statement, *self.notes]
        if self.unscored:
            said.append(f"Nothing is known of {listed(self.unscored)}, without a score.")
        return " ".join(said)

    def __repr__(self):
        return f"{type(self).__name__}({list(self.names)!r}, {self.calibration!r})"


@dataclass(frozen=True, repr=False)
class DecisionCalibration:
    """A rule for decision sets, with what it was learned from, see :func:`calibrate_decision_set`.

    Parameters
    ----------
    rule : {"margin", "rank"}
        What is compared with the threshold.
    threshold : float
        Candidates at most so far from the highest score, or from the first rank, are in the set.
        Infinite where there were too few cells for the level.
    level : float
        In how many of the cells the set was to hold the best candidate.
    coverage : float
        In how many it did, when the threshold was learned without the cell's target; NaN with a
        single target.
    share : float
        What share of the candidates the sets had then, on average; NaN with a single target.
    by_target : dict of str to dict of str to float
        For each target left out: ``coverage``, ``share``, ``threshold`` of the others, ``n_cells``.
    n_cells : int
        Number of cells.
    n_candidates : tuple of two int
        Fewest and most candidates in a cell.
    train_sizes : tuple of int
        Numbers of samples, ascending; empty if they were not told.
    metric : str or None
        The metric that the scores are of.
    description : str or None
        What kind of candidates and data, in words.

    Examples
    --------
    >>> from sktransfer.datasets import load_decision_calibration
    >>> calibration = load_decision_calibration("logme")
    >>> list(calibration.by_target), calibration.train_sizes, calibration.rule
    (['digits', 'mnist', 'fashion'], (50, 100, 300, 1000), 'margin')
    """

    rule: str
    threshold: float
    level: float
    coverage: float
    share: float
    by_target: dict
    n_cells: int
    n_candidates: tuple
    train_sizes: tuple = ()
    metric: str | None = None
    description: str | None = None

    @property
    def statement(self):
        """What was measured, in a few sentences."""
        if math.isinf(self.threshold):
            distance = "anywhere in the ranking, for too few references"
        elif self.rule == "margin":
            distance = f"at most {self.threshold:.3g} below the highest score"
        else:
            distance = f"among the first {math.floor(self.threshold) + 1} of the ranking"
        by = f" by {self.metric!r}" if self.metric else ""
        if math.isnan(self.coverage):
            measured = "how often that holds for another target was not measured"
        else:
            measured = (
                f"on targets left out of the calibration the set held the best candidate in "
                f"{100 * self.coverage:.0f} % of the cells (level {100 * self.level:g} %), with "
                f"{100 * self.share:.0f} % of the candidates on average"
            )
        on = f"{self.n_cells} cells of the targets {', '.join(map(str, self.by_target))}"
        if self.train_sizes:
            on += f" with {_range(self.train_sizes)} samples"
        if self.description:
            on += f"; {self.description}"
        return (
            f"The candidate that is best after fine-tuning is expected {distance}{by}: {measured}. "
            f"Calibrated on {on}. For other kinds of data or candidates nothing is promised."
        )

    def __repr__(self):
        by = f"{self.metric!r}, " if self.metric else ""
        return (
            f"{type(self).__name__}({by}{self.rule} <= {self.threshold:.3g}, level={self.level:g}, "
            f"coverage={self.coverage:.3f}, share={self.share:.3f}, "
            f"targets={list(self.by_target)}, n_cells={self.n_cells})"
        )

    def decision_set(self, scores, *, n_samples=None):
        """Find the candidates that may be the best after fine-tuning.

        Parameters
        ----------
        scores : mapping, series or array-like of shape (n_candidates,)
            Scores by candidate, higher is better, by the metric of the calibration.
        n_samples : int, default=None
            Number of samples that they were computed on, to be compared with ``train_sizes``.

        Returns
        -------
        found : DecisionSet
            The candidates, highest score first. Empty if none has a score.

        Raises
        ------
        ValueError
            If `scores` does not hold one number per candidate.
        """
        read = read_scores(scores, "scores")
        labels = range(len(read.values)) if read.names is None else read.names
        values = np.where(read.missing, np.nan, read.values.astype(float))
        inside = distances(values, self.rule) <= limit(self.threshold)
        order = sorted(np.flatnonzero(inside), key=lambda place: -values[place])
        notes = []
        if n_samples is not None and self.train_sizes:
            low, high = self.train_sizes[0], self.train_sizes[-1]
            if not low <= n_samples <= high:
                notes.append(
                    f"There are {n_samples:,} samples here, outside of {_range(self.train_sizes)}."
                )
        return DecisionSet(
            names=tuple(labels[place] for place in order),
            calibration=self,
            unscored=tuple(
                label for label, lacks in zip(labels, read.missing, strict=True) if lacks
            ),
            notes=tuple(notes),
        )

    def to_dict(self):
        """Return everything in types that JSON knows.

        Returns
        -------
        content : dict
            For :meth:`from_dict`. NaN and infinity are None and "inf".
        """
        content = asdict(self)
        content["threshold"] = "inf" if math.isinf(self.threshold) else self.threshold
        for row in [content, *content["by_target"].values()]:
            for name in ("coverage", "share", "threshold"):
                if isinstance(row[name], float) and not math.isfinite(row[name]):
                    row[name] = "inf" if math.isinf(row[name]) else None
        content["n_candidates"] = list(self.n_candidates)
        content["train_sizes"] = list(self.train_sizes)
        return content

    @classmethod
    def from_dict(cls, content):
        """Make a calibration of what :meth:`to_dict` returned.

        Parameters
        ----------
        content : dict
            As from JSON.

        Returns
        -------
        calibration : DecisionCalibration
            Equal to the one that was written.
        """
        content = {**content, "by_target": {k: dict(v) for k, v in content["by_target"].items()}}
        for row in [content, *content["by_target"].values()]:
            for name in ("coverage", "share", "threshold"):
                row[name] = math.nan if row[name] is None else float(row[name])
        content["n_candidates"] = tuple(content["n_candidates"])
        content["train_sizes"] = tuple(content["train_sizes"])
        return cls(**content)


def distances(values, rule):
    """Compute how far each candidate is from the best of them.

    Parameters
    ----------
    values : ndarray of shape (n_candidates,)
        Scores, NaN where there is none.
    rule : {"margin", "rank"}
        In units of the scores, or in ranks.

    Returns
    -------
    distances : ndarray of float64 of shape (n_candidates,)
        0 for the best; infinite without a score.
    """
    distances = np.full(values.shape, np.inf)
    known = ~np.isnan(values)
    if not known.any():
        return distances
    x = values[known]
    if rule == "rank":
        distances[known] = len(x) - np.searchsorted(np.sort(x), x, side="right")
        return distances
    with np.errstate(invalid="ignore"):  # equal infinities are no distance apart
        distances[known] = np.where(x == x.max(), 0.0, x.max() - x)
    return distances


def limit(threshold):
    """Give the largest distance that is inside.

    Parameters
    ----------
    threshold : float
        The threshold of a calibration, which may be infinite.

    Returns
    -------
    limit : float
        Finite: candidates without a score, at infinity, are outside.
    """
    if math.isinf(threshold):
        return np.finfo(float).max
    return threshold + _ROUNDING * max(1.0, abs(threshold))


def _range(sizes):
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
