"""Candidates that are layers of one network: run it once for all of them."""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn import get_config

__all__ = ["LayerGroups"]


@dataclass
class _Group:
    """Candidates that differ in the parameter ``layer`` alone.

    Attributes
    ----------
    indices : list of int
        Their places among the candidates.
    layers : list of str
        All layers that are wanted, each once.
    run : tuple or None
        The backbone fitted for all of them and what it gave, until every candidate had its part.
    parts : dict of int to tuple
        With a store, which keeps layers one by one: the part of each candidate.
    separate : bool
        True when one pass for all failed: the candidate at fault must not cost the others.
    """

    indices: list
    layers: list
    run: tuple | None = None
    parts: dict = field(default_factory=dict)
    separate: bool = False
    pending: set = field(default_factory=set)


class LayerGroups:
    """Finds candidates that are layers of one network, and hands each its part of one pass.

    Parameters
    ----------
    candidates : list of (str, transformer)
        The candidates. Backbones with a method ``with_layers`` and equal parameters, apart from
        ``layer``, form a group.
    """

    def __init__(self, candidates):
        self._candidates = candidates
        self._group_of = {}
        groups = []
        for index, (_, candidate) in enumerate(candidates):
            layers = _layers(candidate)
            if layers is None:
                continue
            group = next(
                (g for g, first in groups if _differ_in_layer_alone(candidate, first)), None
            )
            if group is None:
                group = _Group([], [])
                groups.append((group, candidate))
            group.indices.append(index)
            group.layers = list(dict.fromkeys(group.layers + layers))
        for group, _ in groups:
            if len(group.indices) > 1:
                group.pending = set(group.indices)
                self._group_of |= dict.fromkeys(group.indices, group)

    def extract(self, index, candidate, extractor, fit_params, **options):
        """Fit and run a candidate, or take its part of a pass that was made for its group.

        Parameters
        ----------
        index : int
            Its place among the candidates.
        candidate : transformer
            The candidate.
        extractor : Extractor
            Runs candidates.
        fit_params : dict of str to dict
            Parameters for its fit.
        **options : dict
            For :meth:`Extractor.fit_extract`.

        Returns
        -------
        fitted : transformer
            The fitted candidate.
        extraction : Extraction
            What it returned.
        """
        group = self._group_of.get(index)
        if group is None or group.separate or index not in group.pending:
            return extractor.fit_extract(candidate, fit_params, **options)
        if group.run is None and not group.parts:
            together = candidate.with_layers(group.layers)
            try:
                if extractor.keeps_layers:
                    members = {i: self._candidates[i] for i in group.indices}
                    group.parts = extractor.fit_extract_layers(
                        together, members, fit_params, **options
                    )
                else:
                    group.run = extractor.fit_extract(together, fit_params, **options)
            except Exception:
                # Each is run by itself then, and the one that is to blame raises again.
                group.separate = True
                return extractor.fit_extract(candidate, fit_params, **options)
        group.pending.discard(index)
        if group.parts:
            return group.parts.pop(index)
        fitted, extraction = group.run
        if not group.pending:
            group.run = None
        else:
            # The pass is that of the first of them.
            group.run = fitted, replace(extraction, n_rows_run=0)
        slices = [fitted.layer_slices_[name] for name in _layers(candidate)]
        if len(slices) == 1:
            features = extraction.features[:, slices[0]]
        else:
            features = np.concatenate([extraction.features[:, part] for part in slices], axis=1)
        part = replace(extraction, features=features, output=features)
        return fitted.select_layers(candidate.layer), part


def _layers(candidate):
    """Give the layers that a candidate names, or None if it can't share a pass."""
    if not hasattr(candidate, "with_layers") or hasattr(candidate, "_sklearn_output_config"):
        return None
    if get_config()["transform_output"] != "default":
        return None
    layers = [candidate.layer] if isinstance(candidate.layer, str) else list(candidate.layer)
    # Which layers these are is known after a pass only.
    return None if "all stages" in layers else layers


def _differ_in_layer_alone(one, other):
    if type(one) is not type(other):
        return False
    mine, others = one.get_params(deep=False), other.get_params(deep=False)
    return all(_equal(mine[name], others[name]) for name in mine if name != "layer")


def _equal(one, other):
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        return bool(np.all(one == other))
    except ValueError:  # arrays of shapes that don't fit
        return False
