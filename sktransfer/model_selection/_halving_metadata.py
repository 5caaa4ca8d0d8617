"""Metadata routing of a race: who is given weights and groups, and who can't be."""

from dataclasses import dataclass, field

import numpy as np
from sklearn.utils.metadata_routing import MethodMapping, get_routing_for_object, process_routing

from ..utils._sklearn import _raise_for_params
from ._composition import CandidateComposition

__all__ = ["RaceMetadata", "RacedCandidates"]


@dataclass
class RaceMetadata:
    """What fit is given beside the data, by who asked for it.

    Attributes
    ----------
    passed : dict of str to object
        All of it, as given.
    sample_weight : array-like or None
        Weights for the fine-tunings.
    split_params : dict of str to object
        Parameters of the splitter.
    """

    passed: dict = field(default_factory=dict)
    sample_weight: object = None
    split_params: dict = field(default_factory=dict)

    def of(self, estimator):
        """Give what an estimator takes in its fit.

        Parameters
        ----------
        estimator : estimator
            One that routes metadata, too.

        Returns
        -------
        params : dict of str to object
            Parameters of its ``fit``.
        """
        if not self.passed:
            return {}
        taken = estimator.get_metadata_routing().consumes("fit", self.passed.keys())
        return {name: value for name, value in self.passed.items() if name in taken}


class RacedCandidates(CandidateComposition):
    """Candidates, metrics and splitter, and beside them the estimator that trains."""

    def get_metadata_routing(self):
        """Get the metadata routing of the estimator.

        Returns
        -------
        routing : MetadataRouter
            The candidates by name, ``metric`` (of several metrics ``metric__<name>``),
            ``estimator`` and, if it takes part, ``splitter``. ``X_val`` and ``y_val`` are the
            estimator's own.
        """
        router = super().get_metadata_routing().add_self_request(self)
        estimator = self.estimator
        if estimator is None:
            from ..finetune import FineTuneClassifier

            estimator = FineTuneClassifier(None)  # a regressor asks for the same
        mapping = MethodMapping()
        for caller in ("fit", "fit_transform"):
            mapping.add(caller=caller, callee="fit")
        return router.add(estimator=estimator, method_mapping=mapping)

    def _routed(self, fit_params, candidates, scorer):
        """Sort parameters of fit by who asked for them, before any work.

        Returns
        -------
        metadata : RaceMetadata
            What was asked for.
        """
        _raise_for_params(fit_params, self, "fit")
        passed = {name: value for name, value in fit_params.items() if value is not None}
        if not passed:
            return RaceMetadata()
        routed = process_routing(self, "fit", **passed)
        for name, _ in candidates:
            if routed[name].fit:
                raise ValueError(
                    f"Candidate {name!r} asks for {', '.join(routed[name].fit)} in its fit, which "
                    "the trainings of a race can't hand on to candidates. Fit it beforehand, as in "
                    "FrozenEstimator, or let it ask for nothing."
                )
        judged_by = get_routing_for_object(scorer).consumes("score", passed.keys())
        if judged_by:
            raise ValueError(
                f"'scoring' asks for {', '.join(sorted(judged_by))}, and the rows that a race "
                "judges by all count the same: weights are for metrics and trainings."
            )
        asked = routed.estimator.fit
        unknown = sorted(set(asked) - {"sample_weight"})
        if unknown:
            raise ValueError(
                f"'estimator' asks for {', '.join(unknown)} by metadata routing, where a race "
                "has weights alone: 'X_val' and 'y_val' are parameters of fit."
            )
        return RaceMetadata(
            passed=passed,
            sample_weight=asked.get("sample_weight"),
            split_params=routed.splitter.split if "splitter" in routed else {},
        )


def rows_of_weight(parts, kept):
    """Leave rows of weight zero out of parts, and number the others anew.

    Parameters
    ----------
    parts : list of (ndarray of int, ndarray of int)
        Rows to train on and to judge by.
    kept : ndarray of bool of shape (n_samples,)
        Which rows have a positive weight.

    Returns
    -------
    parts : list of (ndarray of int, ndarray of int)
        The same among the rows that are kept.

    Raises
    ------
    ValueError
        If a part has no row left.
    """
    if kept.all():
        return parts
    place_of, left = np.cumsum(kept) - 1, []
    for number, part in enumerate(parts):
        rows = tuple(place_of[r[kept[r]]] for r in part)
        for found, what in zip(rows, ("train on", "judge by"), strict=True):
            if not len(found):
                raise ValueError(
                    f"Split {number} of 'cv' must have rows to {what} whose sample_weight is not "
                    "zero. Got none."
                )
        left.append(rows)
    return left
