"""How well scores agree with the tiny benchmark, seed by seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..evaluation import rank_correlation, selection_regret
from ..evaluation._pairing import listed, read_scores

__all__ = ["CellAgreement", "compare_by_seed", "read_by_seed"]

_COMPARED = ("kendall", "weighted_kendall", "regret")


@dataclass(frozen=True, repr=False)
class CellAgreement:
    """How well scores foretell what fine-tuning gives, as returned by :class:`TinyBenchmark`.

    The scores that belong to one seed are compared with the mean reference of the other seeds.

    Parameters
    ----------
    kendall, weighted_kendall : float
        Rank correlation, averaged over seeds.
    regret : float
        What is lost, in units of the measure, by taking the candidate with the highest score,
        averaged over seeds.
    kendall_by_seed, weighted_kendall_by_seed, regret_by_seed : dict of int to float
        The same for each seed.
    reasons : dict of str to dict of int to str
        Of what is NaN, "kendall" for example, the reason for each seed where it is; empty if
        nothing is.

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_benchmark
    >>> ceiling = load_tiny_benchmark().ceiling("digits", train_size=50)
    >>> ceiling
    CellAgreement(kendall=0.785, weighted_kendall=0.87, regret=0, n_seeds=5)
    >>> sorted(ceiling.kendall_by_seed)
    [0, 1, 2, 3, 4]
    """

    kendall: float
    weighted_kendall: float
    regret: float
    kendall_by_seed: dict
    weighted_kendall_by_seed: dict
    regret_by_seed: dict
    reasons: dict = field(default_factory=dict)

    def __repr__(self):
        said = [f"{name}={getattr(self, name):.3g}" for name in _COMPARED]
        said.append(f"n_seeds={len(self.kendall_by_seed)}")
        by_reason = {}
        for name, reasons in self.reasons.items():
            by_reason.setdefault(tuple(reasons.items()), []).append(name)
        for reasons, names in by_reason.items():
            (seed, reason), n_more = reasons[0], len(reasons) - 1
            more = f" and {n_more} more" if n_more else ""
            said.append(f"{'/'.join(names)} undefined: {reason} (seed {seed}{more})")
        return f"{type(self).__name__}({', '.join(said)})"


def compare_by_seed(scores, references):
    """Compare the scores of each seed with a reference of its own.

    Parameters
    ----------
    scores : dict of int to dict of str to float
        Scores by candidate for each seed.
    references : dict of int to dict of str to float
        Of the same seeds and candidates.

    Returns
    -------
    agreement : CellAgreement
        Means, and the values of each seed.
    """
    found, reasons = {name: {} for name in _COMPARED}, {}
    for seed, reference in references.items():
        for name in _COMPARED:
            if name == "regret":
                result = selection_regret(scores[seed], reference)
            else:
                result = rank_correlation(
                    scores[seed], reference, name, n_resamples=0, n_permutations=0
                )
            found[name][seed] = result.statistic
            if result.reason is not None:
                reasons.setdefault(name, {})[seed] = result.reason
    means = {name: float(np.mean(list(values.values()))) for name, values in found.items()}
    by_seed = {f"{name}_by_seed": values for name, values in found.items()}
    return CellAgreement(**means, **by_seed, reasons=reasons)


def read_by_seed(scores, seeds, target, candidates):
    """Read scores for each seed, or one number per candidate for all of them.

    Parameters
    ----------
    scores : mapping by seed, or named scores
        As passed to ``agreement``.
    seeds : tuple of int
        The seeds.
    target : str
        Name of the target.
    candidates : tuple of str
        Those for the target.

    Returns
    -------
    scores : dict of int to dict of str to float
        By seed and candidate.

    Raises
    ------
    ValueError
        If seeds or candidates are missing or do not exist, or there are no names.
    """
    is_by_seed = isinstance(scores, Mapping) and any(
        hasattr(one, "__len__") and not isinstance(one, str) for one in scores.values()
    )
    if not is_by_seed:
        return dict.fromkeys(seeds, _read(scores, "scores", target, candidates))
    known = f"the seeds are {listed(seeds)}"
    if unknown := [seed for seed in scores if seed not in seeds or isinstance(seed, bool)]:
        do = "do" if len(unknown) > 1 else "does"
        raise ValueError(f"'scores': seed {listed(unknown)} {do} not exist; {known}.")
    if missing := [seed for seed in seeds if seed not in scores]:
        raise ValueError(f"'scores': seed {listed(missing)} {_is(missing)} missing; {known}.")
    return {seed: _read(scores[seed], f"scores[{seed}]", target, candidates) for seed in seeds}


def _read(scores, argument, target, candidates):
    read = read_scores(scores, argument)
    if read.names is None:
        raise ValueError(
            f"'{argument}' must be the name of a metric, or a mapping by seed or by candidate. "
            f"Got {type(scores).__name__} instead."
        )
    lacking = [name for name in candidates if name not in read.names]
    others = [name for name in read.names if name not in candidates]
    if lacking or others:
        said = [f"{listed(lacking)} {_is(lacking)} missing"] if lacking else []
        said += [f"{listed(others)} {_is(others)} not among them"] if others else []
        raise ValueError(
            f"'{argument}' must have a number for each of the {len(candidates)} names that "
            f"candidates({target!r}) gives: {'; '.join(said)}."
        )
    return dict(zip(read.names, read.values.tolist(), strict=True))


def _is(names):
    return "are" if len(names) > 1 else "is"
