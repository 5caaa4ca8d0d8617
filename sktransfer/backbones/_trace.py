"""The calls of all layers in one forward pass, with the shapes that went in and came out."""

from dataclasses import dataclass, field

import torch
from torch import nn

from sktransfer.backbones._recording import first_argument

__all__ = ["Call", "enlarged", "noise_like", "trace"]


@dataclass(eq=False)
class Call:
    """One call of one layer.

    Parameters
    ----------
    name : str
        Dotted name of the layer.
    layer : nn.Module
        The layer.
    number : int
        Which call of this layer it is, counted from 0.
    parent : Call or None
        The call inside which it happens.
    given, output : tuple of int or None
        Shapes of the first argument and of the result; None for what is no tensor.
    returned : str
        Name of the type of the result.
    children : list of Call
        Calls inside, in order of execution.
    """

    name: str
    layer: nn.Module
    number: int
    parent: "Call | None"
    given: tuple | None
    output: tuple | None = None
    returned: str = ""
    children: list = field(default_factory=list, repr=False)


def trace(module, x, sequences=None):
    """Run a module and write down the calls of all layers.

    Parameters
    ----------
    module : nn.Module
        Module in evaluation mode that belongs to the caller; hooks are added and removed again.
    x : tensor
        A small batch.
    sequences : list, default=None
        Is filled, in order of time, with ``(shape, constant)`` for tensors of three axes with one
        entry per row that go into a layer or come out of one, where ``constant`` tells for each
        place on the second axis whether all rows of the batch have the same there; and with
        ``(shape, None)`` for maps that come out of a convolution.

    Returns
    -------
    calls : list of Call
        In the order in which they were completed: a layer comes after the layers inside it.
    failure : Exception or None
        What the network raised. The calls are those that were completed before.
    """
    names = {}
    for name, layer in module.named_modules():
        if not isinstance(layer, torch.jit.ScriptModule):
            names[layer] = name
    calls, open_calls, n_calls = [], [], {}

    def look(value):
        if sequences is None or not isinstance(value, torch.Tensor) or value.ndim != 3:
            return
        if len(value) == len(x) and value.numel():
            difference = (value - value[:1]).abs()
            constant = (difference <= 1e-5 * value.abs().amax()).flatten(2).all(dim=2).all(dim=0)
            sequences.append((tuple(value.shape), tuple(constant.tolist())))

    def before(layer, args, kwargs):
        given = first_argument(args, kwargs)
        parent = open_calls[-1] if open_calls else None
        number = n_calls[layer] = n_calls.get(layer, -1) + 1
        call = Call(names[layer], layer, number, parent, _shape(given))
        if parent is not None:
            parent.children.append(call)
        open_calls.append(call)
        look(given)

    def after(layer, args, kwargs, output):
        call = open_calls.pop()
        call.output, call.returned = _shape(output), type(output).__name__
        calls.append(call)
        look(output)
        if sequences is not None and isinstance(layer, nn.Conv2d) and len(call.output or ()) == 4:
            sequences.append((call.output, None))

    handles = []
    failure = None
    try:
        for layer in names:
            handles.append(layer.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(layer.register_forward_hook(after, with_kwargs=True))
        module(x)
    except Exception as error:  # whatever a network says to an input it was not made for
        failure = error
    finally:
        for handle in handles:
            handle.remove()
    return calls, failure


def _shape(value):
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def noise_like(x):
    """Give two different rows of noise of the shape of a batch's rows, the same every time.

    Parameters
    ----------
    x : tensor of shape (n, ...)
        A batch.

    Returns
    -------
    noise : tensor of shape (2, ...)
        Numbers from a normal distribution, in the format of the batch and where it is.
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn((2, *x.shape[1:]), generator=generator)
    return noise.to(device=x.device, dtype=x.dtype)


def enlarged(x):
    """Yield inputs of one row that are larger in one or both of the directions of an image.

    Parameters
    ----------
    x : tensor of shape (n, ...)
        A batch; only images (four axes) can be enlarged.

    Yields
    ------
    larger : tensor of shape (1, ...)
        The first image beside its mirror image.
    """
    if x.ndim != 4:
        return
    tall = torch.cat([x[:1], x[:1].flip(2)], dim=2)
    yield tall
    yield torch.cat([tall, tall.flip(3)], dim=3)
