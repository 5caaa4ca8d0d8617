"""Which layers of a network features are taken from."""

from difflib import get_close_matches

from torch import nn

from sktransfer.backbones._capture import PENULTIMATE, LayerPoint
from sktransfer.backbones._pooling import Pooling, check_output
from sktransfer.backbones._recording import run_watched, watch

__all__ = ["ALL_STAGES", "resolve_layers"]

ALL_STAGES = "all stages"
_N_LISTED = 30


def resolve_layers(module, x, layer, pooling, head):
    """Find the places that the parameters ``layer`` and ``pooling`` ask for.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode that belongs to the caller.
    x : tensor
        A small batch.
    layer : str or sequence of str
        The parameter.
    pooling : str
        The parameter.
    head : ClassifierLayer or None
        The classifier layer.

    Returns
    -------
    points : tuple of LayerPoint
        In the order asked for.

    Raises
    ------
    ValueError
        For unknown names and layers whose output cannot be pooled.
    """
    names = [layer] if isinstance(layer, str) else list(layer)
    points = []
    for name in names:
        if name == PENULTIMATE:
            points.append(LayerPoint(PENULTIMATE))
            continue
        found, call = split_name(module, name)
        points.append(LayerPoint(name, found, call, _pooling(module, x, name, found, pooling)))
    return tuple(points)


def _pooling(module, x, name, layer, pooling):
    outputs = []
    handle = watch(module.get_submodule(layer))
    try:
        run_watched(module, x, lambda layer, given, output: outputs.append(output))
    finally:
        handle.remove()
    if not outputs:
        raise ValueError(f"The layer '{layer}' is not called by the network for this input.")
    check_output(outputs[-1], len(x), name)
    n_axes = outputs[-1].ndim
    if n_axes <= 2:
        return Pooling(n_axes, "vector")
    if pooling == "flatten":
        return Pooling(n_axes, "flatten")
    return Pooling(n_axes, "mean", n_axes - 1 if n_axes == 3 else 1)


def split_name(module, name):
    """Give the layer's dotted name and, for names such as ``"block:1"``, the call."""
    layers = dict(module.named_modules(remove_duplicate=False))
    layers.pop("", None)
    if name in layers:
        return name, None
    stem, colon, call = name.rpartition(":")
    if colon and stem in layers and call.isdigit():
        return stem, int(call)
    raise ValueError(_unknown(name, layers))


def _unknown(name, layers):
    close = get_close_matches(name, layers, n=5, cutoff=0.5)
    listed = [n for n in layers if "." not in n][:_N_LISTED]
    hint = f"; do you mean {close}?" if close else "."
    return (
        f"The 'layer' parameter names a layer {name!r} that the network does not have{hint} "
        f"Its outermost layers are {listed}; '{PENULTIMATE}' is the input of its classifier and "
        f"'{ALL_STAGES}' finds several by structure."
    )


def is_plain_container(layer):
    """Whether a layer only holds others and is never called itself."""
    return type(layer).forward is nn.Module.forward
