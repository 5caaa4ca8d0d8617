"""Take the features of several layers and the logits of the head out of one forward pass."""

from dataclasses import dataclass

import torch

from sktransfer.backbones._classifier_layer import POINTWISE
from sktransfer.backbones._pooling import Pooling
from sktransfer.backbones._recording import run_watched

__all__ = ["PENULTIMATE", "Capture", "LayerPoint", "check_calls"]

#: The name of the input of the classifier layer, or of the output of a network without one.
PENULTIMATE = "penultimate"


@dataclass(frozen=True)
class LayerPoint:
    """A place in a network where features are taken, and how they become a vector.

    Parameters
    ----------
    name : str
        As the user calls it.
    layer : str or None, default=None
        Dotted name of the layer whose output is taken; None for the penultimate features.
    call : int or None, default=None
        Which call of the layer, for one that is called several times; None if it is called once.
    pooling : Pooling or None, default=None
        What is done to the layer's output; None for the penultimate features.
    """

    name: str
    layer: str | None = None
    call: int | None = None
    pooling: Pooling | None = None


class Capture:
    """Takes features and logits out of passes of one network.

    Layers are pooled while they are called: what the network changes in place afterwards does not
    reach the features, and no layer's output is kept.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode, in which the layers of the points and of the head are watched.
    points : sequence of LayerPoint
        Where to take features.
    head : ClassifierLayer or None
        The classifier layer.
    """

    def __init__(self, module, points, head):
        self.module = module
        self.points = points
        self.head = head
        self._head_layer = None if head is None else module.get_submodule(head.name)
        self._penultimate = [i for i, point in enumerate(points) if point.layer is None]
        self._by_layer = {}
        for i, point in enumerate(points):
            if point.layer is not None:
                layer = module.get_submodule(point.layer)
                self._by_layer.setdefault(layer, []).append((i, point))

    def __call__(self, x, into=None):
        """Run the network once.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            A batch.
        into : list of tensor of shape (n, D), default=None
            Where features are written to, one for each point; they may be on another device and in
            another number format. None makes new tensors, through which gradients flow.

        Returns
        -------
        features : list of tensor of shape (n, D)
            One for each point.
        logits : tensor of shape (n, K) or None
            None without a source head.

        Raises
        ------
        ValueError
            If a layer is not called in this pass, or more than once where one call is expected, or
            gives something that is no feature matrix.
        """
        n_calls, logits = {}, None
        parts = [None] * len(self.points)

        def keep(i, features):
            if into is None:
                parts[i] = features.clone()
            else:
                parts[i] = into[i]
                self._write(i, features, into[i])

        def record(layer, given, output):
            nonlocal logits
            number = n_calls.get(layer, 0)
            n_calls[layer] = number + 1
            for i, point in self._by_layer.get(layer, ()):
                if point.call in (None, number):
                    keep(i, point.pooling(output, len(x), point.name))
            if layer is self._head_layer:
                for i in self._penultimate:
                    keep(i, _head_input(layer, given, self.head, len(x)))
                logits = output.clone()

        output = run_watched(self.module, x, record)
        for layer, places in self._by_layer.items():
            for _, point in places:
                check_calls(point, n_calls.get(layer, 0))
        if self.head is None:
            for i in self._penultimate:
                keep(i, _flat_output(output, len(x)))
            return parts, None
        if logits is None:
            raise ValueError(f"The network never calls its layer '{self.head.name}'.")
        if isinstance(self._head_layer, POINTWISE):  # logits have positions to average over
            logits = output[:, :, None].flatten(2).mean(dim=2)
        return parts, (logits if self.head.gives_source else None)

    def _write(self, i, features, place):
        if features.shape != place.shape:
            raise ValueError(
                f"The layer '{self.points[i].name}' gave {features.shape[1]} features and "
                f"{place.shape[1]} in fit; with inputs of several sizes, pooling='mean' or a "
                "parameter that makes sizes equal is needed."
            )
        place.copy_(features)


def _head_input(layer, given, head, n):
    """Give what the classifier layer was given, averaged where it has positions."""
    if isinstance(layer, POINTWISE):
        given = given.flatten(2).mean(dim=2)
    if given.ndim != 2 or len(given) != n:
        raise ValueError(
            f"Features must have shape (n_samples, n_features), but the input of the layer "
            f"'{head.name}' has shape {tuple(given.shape)} for {n} rows."
        )
    return given


def _flat_output(output, n):
    if not isinstance(output, torch.Tensor):
        raise ValueError(
            f"The network returns a {type(output).__name__} where a tensor is expected; "
            "wrap it in a module that returns the tensor that matters, or name a layer."
        )
    if output.ndim == 0 or len(output) != n:
        raise ValueError(f"The network gave features of shape {tuple(output.shape)} for {n} rows.")
    return output.reshape(n, -1)


def check_calls(point, n_calls):
    """Refuse a layer that is not called, or not as often as its name tells.

    Parameters
    ----------
    point : LayerPoint
        The layer.
    n_calls : int
        How often it is called in a pass.
    """
    if n_calls == 0:
        raise ValueError(f"The layer '{point.layer}' is not called by the network for this input.")
    if point.call is None and n_calls > 1:
        raise ValueError(
            f"The layer '{point.layer}' is called {n_calls} times in one pass, so its output is "
            f"ambiguous: name the call, counted from 0, as in '{point.layer}:{n_calls - 1}', or a "
            "layer around it."
        )
    if point.call is not None and point.call >= n_calls:
        raise ValueError(
            f"The layer '{point.layer}' is called {n_calls} times in one pass; there is no call "
            f"{point.call} (they are counted from 0)."
        )
