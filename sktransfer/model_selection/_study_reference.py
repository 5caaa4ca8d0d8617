"""References of a robustness study: a number for each candidate, by target."""

from collections.abc import Mapping
from numbers import Number

import numpy as np

from ..evaluation._pairing import read_scores

__all__ = ["check_reference", "reference_for", "references_by_target"]


def references_by_target(reference, targets):
    """Bring references into one form.

    Parameters
    ----------
    reference : mapping
        By target, what :func:`~sktransfer.evaluation.rank_correlation` takes as reference; or such
        a reference itself, if there is one target.
    targets : list of str
        Names of the targets.

    Returns
    -------
    references : dict of str to dict of str to float
        By target and candidate; NaN for no number.

    Raises
    ------
    ValueError
        If there is no reference, or none for a target.
    """
    if reference is None:
        raise ValueError(
            "A reference is needed: a number for each candidate, by target. Pass 'reference' here "
            "or to RobustnessStudy."
        )
    if not _is_by_target(reference):
        if len(targets) != 1:
            raise ValueError(
                "'reference' must be a mapping of targets to references for a study of several "
                f"targets, {targets!r}. Got one reference instead."
            )
        reference = {targets[0]: reference}
    absent = [target for target in targets if target not in reference]
    if absent:
        raise ValueError(
            f"'reference' must have a reference for each target. Got none for {absent!r}; there "
            f"are those of {list(reference)!r}."
        )
    return {target: _numbers(reference[target]) for target in targets}


def reference_for(numbers, names, target):
    """Take the numbers of some candidates.

    Parameters
    ----------
    numbers : dict of str to float
        The reference on one target.
    names : collection of str
        The candidates.
    target : str
        Name of the target.

    Returns
    -------
    reference : dict of str to float
        In the order of the names.

    Raises
    ------
    ValueError
        If a candidate is not in the reference.
    """
    absent = [name for name in names if name not in numbers]
    if absent:
        raise ValueError(
            f"'reference' must have a number for each candidate of target {target!r}. "
            f"Got none for {absent!r}."
        )
    return {name: numbers[name] for name in names}


def check_reference(reference, target, names):
    """Check a reference before work starts, as far as it is about one target.

    Parameters
    ----------
    reference : object
        The parameter of a study.
    target : str
        Name of the target.
    names : collection of str
        The candidates.

    Raises
    ------
    ValueError
        If it is no reference, or lacks a candidate.
    """
    if reference is None or (_is_by_target(reference) and target not in reference):
        return
    reference_for(references_by_target(reference, [target])[target], names, target)


def _is_by_target(reference):
    """Tell whether a mapping has references for its values, and not numbers."""
    return isinstance(reference, Mapping) and not any(
        value is None or isinstance(value, Number | np.generic) for value in reference.values()
    )


def _numbers(reference):
    """Give a reference as numbers by candidate."""
    if hasattr(reference, "reference"):  # a ranking by fine-tuned performance
        reference = reference.reference()
    scores = read_scores(reference, "reference")
    if scores.names is None or scores.positional:
        raise ValueError(
            "'reference' must have a number for each candidate by its name. "
            f"Got {type(reference).__name__} without names instead."
        )
    values = np.where(scores.missing, np.nan, scores.values)
    return dict(zip(scores.names, values.tolist(), strict=True))
