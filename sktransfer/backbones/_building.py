"""Make networks without a trace in the process, and tell whether their weights are random."""

from copy import deepcopy

import torch
from torch import nn

from sktransfer.backbones._generators import borrowed_generators

__all__ = ["copied", "has_random_weights"]

# A second network, which tells whether weights are random, is built up to this size: a few seconds.
_CHEAP_PARAMETERS = 150_000_000


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
        with borrowed_generators(1):
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
