"""What networks known by a name in a library share: images only, and a classifier that is found."""

from abc import abstractmethod
from difflib import get_close_matches

import torch
from torch import nn

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._capture import PENULTIMATE
from sktransfer.backbones._classifier_layer import find_classifier_layer, is_pointwise
from sktransfer.backbones._images import input_kind

__all__ = ["NamedBackbone", "did_you_mean"]

_N_LISTED = 30
# What libraries call the parts that come after the features.
_HEADS = ("head", "classifier", "fc", "last_linear")


class NamedBackbone(BaseTorchBackbone):
    """A network of a library, by its name there."""

    @abstractmethod
    def _check_source(self):
        """Raise a ValueError if there is no such network, or it has no such weights."""

    def _as_batches(self, X, reset):
        if reset:
            self._check_source()
        if input_kind(X) == "vectors":
            raise ValueError(
                f"{type(self).__name__} takes images (n_samples, height, width[, channels]) or "
                f"their files, got data of shape {getattr(X, 'shape', 'unknown')}."
            )
        return super()._as_batches(X, reset)

    def _find_layer(self, x):
        layer, output = find_classifier_layer(self.module_, x)
        needed = PENULTIMATE in ([self.layer] if isinstance(self.layer, str) else self.layer)
        not_finite = layer is not None and not all(
            bool(torch.isfinite(parameter).all())
            for parameter in self.module_.get_submodule(layer.name).parameters()
        )
        if not_finite:  # torchvision has weights that are good for the layers before only
            layer = None
        if layer is None and needed and self._n_classes() != 0:
            self._raise_without_classifier(not_finite)
        return layer, output

    def _n_classes(self):
        """Give the number of outputs, 0 for a network without a classifier, None if not known."""
        return None

    def _raise_without_classifier(self, not_finite):
        reason = (
            "its weights are not finite numbers" if not_finite else "the network ends otherwise"
        )
        outer = [name for name, _ in self.module_.named_children()]
        linear = [
            f"{name} ({type(layer).__name__})"
            for name, layer in self.module_.named_modules()
            if isinstance(layer, nn.Linear) or is_pointwise(layer)
        ]
        more = f", and {len(linear) - _N_LISTED} before" if len(linear) > _N_LISTED else ""
        before = [name for name in outer if not name.startswith(_HEADS)] or outer
        raise ValueError(
            f"{self!r} has no classifier layer whose input could be taken as features ({reason}). "
            f"Name a layer whose output is to be taken, as in layer={before[-1]!r}; the outermost "
            f"layers are {outer}, the last linear ones {linear[-_N_LISTED:]}{more}."
        )


def did_you_mean(name, known, n_listed=6):
    """Give the end of a message about an unknown name.

    Parameters
    ----------
    name : object
        What was asked for.
    known : sequence of str
        What there is.
    n_listed : int, default=6
        How many names to list at most where none is close.

    Returns
    -------
    text : str
        Close matches, or the first of what there is.
    """
    known = list(known)
    by_lower = {own.lower(): own for own in known}
    close = get_close_matches(str(name).lower(), by_lower, n=5, cutoff=0.5)
    if close:
        return f"do you mean {', '.join(repr(by_lower[match]) for match in close)}?"
    more = f" and {len(known) - n_listed} more" if len(known) > n_listed else ""
    return f"there are {', '.join(map(repr, known[:n_listed]))}{more}."
