"""Take the features of several layers and the logits of the head out of one forward pass."""

from collections import Counter
from dataclasses import dataclass

import torch

from sktransfer.backbones._classifier_layer import POINTWISE
from sktransfer.backbones._pooling import Pooling
from sktransfer.backbones._recording import run_watched

__all__ = ["PENULTIMATE", "LayerPoint", "capture", "check_calls"]

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


def capture(module, x, points, head):
    """Run a network once and take what is wanted of it.

    Layers are pooled while they are called: what the network changes in place afterwards does not
    reach the features, and no layer's output is kept.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode, in which the layers of the points and of the head are watched.
    x : tensor
        A batch.
    points : sequence of LayerPoint
        Where to take features.
    head : ClassifierLayer or None
        The classifier layer.

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
    by_layer = {}
    for point in points:
        if point.layer is not None:
            by_layer.setdefault(module.get_submodule(point.layer), []).append(point)
    head_layer = None if head is None else module.get_submodule(head.name)
    n_calls, parts, last = Counter(), {}, None

    def record(layer, given, output):
        nonlocal last
        for point in by_layer.get(layer, ()):
            if point.call in (None, n_calls[layer]):
                parts[point] = point.pooling(output, len(x), point.name)
        n_calls[layer] += 1
        if layer is head_layer:
            last = _head_input(layer, given, head), output.clone()

    output = run_watched(module, x, record)
    for layer, wanted in by_layer.items():
        for point in wanted:
            check_calls(point, n_calls[layer])
    if head is None:
        penultimate, logits = output, None
    else:
        if last is None:
            raise ValueError(f"The network never calls its layer '{head.name}'.")
        penultimate, logits = last
        if isinstance(head_layer, POINTWISE):  # logits have positions to average over
            logits = output[:, :, None].flatten(2).mean(dim=2)
    if any(point.layer is None for point in points):
        _check_penultimate(penultimate, len(x), head)
    return [
        penultimate.reshape(len(x), -1) if point.layer is None else parts[point] for point in points
    ], (logits if head is not None and head.gives_source else None)


def _head_input(layer, given, head):
    """Give a copy of what the classifier layer was given, averaged where it has positions."""
    if isinstance(layer, POINTWISE):
        return given.flatten(2).mean(dim=2)
    if given.ndim != 2:
        raise ValueError(
            f"Features must have shape (n_samples, n_features), but the input of the layer "
            f"'{head.name}' has shape {tuple(given.shape)}."
        )
    return given.clone()


def _check_penultimate(features, n, head):
    if not isinstance(features, torch.Tensor):
        raise ValueError(
            f"The network returns a {type(features).__name__} where a tensor is expected; "
            "wrap it in a module that returns the tensor that matters, or name a layer."
        )
    if features.ndim == 0 or len(features) != n:
        raise ValueError(
            f"The network gave features of shape {tuple(features.shape)} for {n} rows."
        )


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
