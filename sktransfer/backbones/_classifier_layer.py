"""Find a network's last learned classifier layer by what a forward pass does, and watch it."""

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

__all__ = [
    "POINTWISE",
    "ClassifierLayer",
    "find_classifier_layer",
    "is_pointwise",
    "plain_inference",
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
        given = args[0] if args else next(iter(kwargs.values()), None)
        # Copies: the network may go on to change either of them in place.
        calls.append((layer, _copied(given), _copied(output)))


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


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


@contextmanager
def plain_inference(device):
    """Run without gradients, and in the network's own precision whatever surrounds the call.

    Parameters
    ----------
    device : torch.device
        Where the network runs.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        for kind in {"cpu", device.type}:
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _weighted_layers(module):
    """Give the names of the layers with weights of their own, by layer.

    What computes a weight out of others (a parametrization) is part of the layer that has it.
    """
    names, inside = {}, ()
    for name, layer in module.named_modules():
        if inside and name.startswith(inside):
            continue
        if isinstance(layer, ParametrizationList):
            inside += (f"{name}.",)
        elif is_parametrized(layer) or any(p is not None for p in layer._parameters.values()):
            names[layer] = name
    return names


def _last_layer_called(calls, names):
    """Give the last call of a layer, not of a module around it that has weights too.

    The root of a vision transformer, say, has position embeddings, and is done after its head.
    """
    for call, before in zip(calls[::-1], [*calls[-2::-1], None], strict=True):
        layer = call[0]
        inside = f"{names[layer]}." if names[layer] else ""
        is_around = before is not None and names[before[0]].startswith(inside)
        if not is_around or isinstance(layer, nn.Linear) or is_pointwise(layer):
            return call


def find_classifier_layer(module, x):
    """Find the classifier layer by a forward pass.

    It is the last layer with parameters that is executed, not counting modules around it, if that
    is a linear layer whose result the module returns, as it is or as (log-)softmax or sigmoid of
    it, or a convolution with kernel size one whose channels are the outputs. A module that ends in
    anything else, such as pooling, normalisation or an activation, has no classifier layer.

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
    names = _weighted_layers(module)
    handles = [watch(layer) for layer in names]
    try:
        output, calls = run_recorded(module, x)
    finally:
        for handle in handles:
            handle.remove()
    if not calls or not isinstance(output, torch.Tensor):
        return None, output
    layer, _, logits = _last_layer_called(calls, names)
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
