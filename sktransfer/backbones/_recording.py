"""Look at the calls of layers during a forward pass, without a trace outside of the pass."""

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

import torch

from sktransfer.backbones._generators import borrowed_generators

__all__ = ["first_argument", "plain_inference", "run_recorded", "run_watched", "watch"]

# A context variable is private to a thread, so passes of several threads do not mix, and a hook
# that is a plain function can be copied and pickled with its module.
_RECORD = ContextVar("what is done with the calls of the watched layers", default=None)


def _record_call(layer, args, kwargs, output):
    record = _RECORD.get()
    if record is not None:
        record(layer, first_argument(args, kwargs), output)


def first_argument(args, kwargs):
    """Give the first argument of a call, None if it has none."""
    return args[0] if args else next(iter(kwargs.values()), None)


def watch(layer):
    """Let the calls of a layer be seen by :func:`run_watched`.

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


def run_watched(module, x, record):
    """Run a module once and hand the calls of its watched layers to a function.

    Parameters
    ----------
    module : nn.Module
        Module in evaluation mode.
    x : tensor
        A batch.
    record : callable
        Called with ``(layer, input, output)`` after each call of a watched layer, in order of
        execution. The network may go on to change both tensors in place.

    Returns
    -------
    output : object
        What the module returns.
    """
    token = _RECORD.set(record)
    try:
        return module(x)
    finally:
        _RECORD.reset(token)


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
        ``(layer, input, output)`` in order of execution; copies, where they are tensors.
    """
    calls = []

    def record(layer, given, output):
        calls.append((layer, _copied(given), _copied(output)))

    return run_watched(module, x, record), calls


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


@contextmanager
def plain_inference(device, draws=False):
    """Run without gradients, and in the network's own precision whatever surrounds the call.

    Parameters
    ----------
    device : torch.device
        Where the network runs.
    draws : bool, default=False
        Whether the network draws random numbers when it is run: it leaves torch's generators as
        they were, and threads wait for each other.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        for kind in {"cpu", device.type}:
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if draws:
            stack.enter_context(borrowed_generators())
        yield
