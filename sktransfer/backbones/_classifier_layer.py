"""Find a network's last learned classifier layer by what a forward pass does, and watch it."""

from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn

__all__ = [
    "POINTWISE",
    "ClassifierLayer",
    "find_classifier_layer",
    "is_pointwise",
    "run_recorded",
    "watch",
]

# A context variable is private to a thread, so passes of several threads do not mix, and a hook
# that is a plain function can be copied and pickled with its module.
_CALLS = ContextVar("calls of the watched layers", default=None)

POINTWISE = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def is_pointwise(layer):
    """Tell whether a layer is a convolution that mixes channels only."""
    return isinstance(layer, POINTWISE) and set(layer.kernel_size) == {1}


@dataclass(frozen=True)
class ClassifierLayer:
    """The layer that turns features into outputs.

    Parameters
    ----------
    name : str
        Dotted name of the layer in the module.
    n_outputs : int
        Number of outputs. A single output may be a regression: it is no source head.
    """

    name: str
    n_outputs: int


def _record_call(layer, args, kwargs, output):
    calls = _CALLS.get()
    if calls is not None:
        given = args[0] if args else next(iter(kwargs.values()))
        calls.append((layer, given, output))


def watch(layer):
    """Let the calls of a layer be seen by :func:`run_recorded`.

    Parameters
    ----------
    layer : nn.Module
        A layer of a module that belongs to the caller: it keeps a forward hook.

    Returns
    -------
    handle : RemovableHandle
        Its ``remove()`` takes the hook away.
    """
    return layer.register_forward_hook(_record_call, with_kwargs=True)


def run_recorded(module, x):
    """Run a module once and collect the calls of its watched layers.

    Parameters
    ----------
    module : nn.Module
        Module in evaluation mode.
    x : tensor
        A batch.

    Returns
    -------
    output : object
        What the module returns.
    calls : list of tuple
        ``(layer, input, output)`` in order of execution.
    """
    calls = []
    token = _CALLS.set(calls)
    try:
        return module(x), calls
    finally:
        _CALLS.reset(token)


def find_classifier_layer(module, x):
    """Find the classifier layer by a forward pass.

    It is the last layer with parameters that is executed, if that is a linear layer whose result
    the module returns, as it is or as (log-)softmax or sigmoid of it, or a convolution with kernel
    size one whose channels are the outputs. A module that ends in anything else, such as pooling,
    normalisation or an activation, has no classifier layer.

    Parameters
    ----------
    module : nn.Module
        Module in evaluation mode that belongs to the caller; hooks are added and removed again.
    x : tensor
        A small batch.

    Returns
    -------
    layer : ClassifierLayer or None
        None if there is no classifier layer.
    output : object
        What the module returned.
    """
    names = {
        layer: name
        for name, layer in module.named_modules()
        if any(parameter is not None for parameter in layer._parameters.values())
    }
    handles = [watch(layer) for layer in names]
    try:
        output, calls = run_recorded(module, x)
    finally:
        for handle in handles:
            handle.remove()
    if not calls or not isinstance(output, torch.Tensor):
        return None, output
    layer, _, logits = calls[-1]
    if isinstance(layer, nn.Linear):
        found = output.shape == logits.shape == logits.flatten(1).shape
        found = found and _passes_through(module, x, layer, logits)
    else:
        shape = (len(x), getattr(layer, "out_channels", None))
        found = is_pointwise(layer) and output.shape == shape
    if not found:
        return None, output
    return ClassifierLayer(names[layer], output.shape[1]), output


def _passes_through(module, x, layer, logits):
    """Whether the module returns what the layer gives, or probabilities computed from it.

    Equal values would not tell (an activation leaves positive values as they are), so the layer's
    result is replaced by a known one with both signs.
    """
    ramp = torch.arange(logits.numel(), device=logits.device, dtype=torch.float64)
    known = (3.0 * torch.sin(1.0 + ramp)).reshape(logits.shape).to(logits.dtype)
    handle = layer.register_forward_hook(lambda *_: known.clone())
    try:
        output = module(x).double()
    finally:
        handle.remove()
    known = known.double()
    links = (known, known.softmax(1), known.log_softmax(1), known.sigmoid())
    # Half precision keeps two to three digits.
    return any(torch.allclose(output, link, rtol=1e-2, atol=1e-2) for link in links)
