"""Make networks without a trace in the process, and tell whether their weights are random."""

import os
from contextlib import contextmanager
from copy import deepcopy
from threading import RLock

import torch
from torch import nn

__all__ = ["copied", "has_random_weights", "seeded_generator"]

# A second network, which tells whether weights are random, is built up to this size: a few seconds.
_CHEAP_PARAMETERS = 150_000_000


def _make_lock():
    # Building a network draws from torch's global generator, which only one thread may borrow; a
    # user's function may build one network out of another.
    global _generator_lock
    _generator_lock = RLock()


_make_lock()
if hasattr(os, "register_at_fork"):
    # Another thread may hold it at the moment of a fork.
    os.register_at_fork(after_in_child=_make_lock)


@contextmanager
def seeded_generator(seed):
    """Let torch's generator draw from a seed, and put its state back afterwards.

    Parameters
    ----------
    seed : int
        The seed.
    """
    with _generator_lock:
        state = torch.get_rng_state()
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        try:
            torch.default_generator.manual_seed(seed)
            yield
        finally:
            torch.set_rng_state(state)
            if devices:
                torch.cuda.set_rng_state_all(devices)


def has_random_weights(factory, module):
    """Tell whether all weights of a network come from torch's generator.

    The factory is called once more under another seed; nothing but that tells a network that was
    loaded from one that was not.

    Parameters
    ----------
    factory : callable
        Makes the network.
    module : nn.Module
        What it made under seed 0; its weights are as they were.

    Returns
    -------
    random : bool
        True if no weight is the same under both seeds (weights of a layer that are all one number
        and vectors, such as biases, do not count). False if that is not so, or not known: for
        networks of more than 150 million parameters and factories that fail the second time.
    """
    weights = {
        name: weight
        for name, weight in module.named_parameters()
        if weight.ndim > 1 and weight.numel() > 1
    }
    if not weights or sum(weight.numel() for weight in module.parameters()) > _CHEAP_PARAMETERS:
        return False
    try:
        with seeded_generator(1):
            other = dict(factory().named_parameters())
    except Exception:  # whatever a user's function raises
        return False
    with torch.no_grad():
        drawn = {name: w for name, w in weights.items() if bool((w != w.flatten()[0]).any())}
        return bool(drawn) and all(
            name in other and other[name].shape == w.shape and not torch.equal(other[name], w)
            for name, w in drawn.items()
        )


def copied(module):
    """Copy a network.

    Parameters
    ----------
    module : nn.Module
        Any network, also one that torch refuses to copy because it keeps computed tensors.

    Returns
    -------
    copy : nn.Module
        Shares nothing with it.

    Raises
    ------
    ValueError
        If it has parameters without a shape, or cannot be copied.
    """
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        raise ValueError(
            "The network has parameters without a shape (lazy layers): run it once on a batch "
            "before it is used as a backbone."
        )
    try:
        with torch.no_grad():  # otherwise copies in TorchScript depend on the original
            return deepcopy(module, _computed_tensors(module))
    except Exception as error:
        raise ValueError(
            f"The network cannot be copied ({error}); pass a function that builds it and "
            "loads its weights."
        ) from error


def _computed_tensors(module):
    """Give copies, by id, of tensors in a network that torch refuses to copy with their history.

    Older weight normalisation keeps such a tensor, and so does any layer that remembers a result.
    """
    return {
        id(value): value.detach().clone()
        for layer in module.modules()
        for value in vars(layer).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    }
