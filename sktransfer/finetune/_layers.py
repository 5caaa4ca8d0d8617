"""Find the learned layers that an input passes first, by watching what a forward pass computes."""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["find_early_layers", "layer_weights", "learning"]

# Functions that multiply their input by a matrix of weights.
_LINEAR_MAPS = {
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "linear",
    "bilinear",
    "matmul",
    "__matmul__",
    "__rmatmul__",
    "mm",
    "bmm",
    "addmm",
    "addbmm",
    "baddbmm",
    "einsum",
    "tensordot",
    "multi_head_attention_forward",
}


@contextmanager
def learning(parameters):
    """Let gradients of parameters be computed, and put everything back afterwards.

    Parameters
    ----------
    parameters : iterable of Parameter
        Their ``requires_grad`` is true inside; ``grad`` is not used by what is done here.

    Yields
    ------
    None
    """
    before = [(parameter, parameter.requires_grad) for parameter in parameters]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)


def layer_weights(module, name):
    """Give the weights of a layer, all its own parameters with two axes or more.

    Parameters
    ----------
    module : nn.Module
        The network.
    name : str
        Dotted name of a layer or of a single parameter.

    Returns
    -------
    weights : list of Parameter
        What the layer has learned, without biases; for a parametrised weight, such as by weight
        normalisation, what it is computed from.

    Raises
    ------
    ValueError
        If there is no such layer, or it has no weights of its own.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    if name in parameters:
        return [parameters[name]]
    weights = [
        parameter
        for full_name, parameter in parameters.items()
        if _owner(full_name) == name and parameter.ndim > 1
    ]
    if not weights:
        names = sorted({_owner(full) for full, p in parameters.items() if p.ndim > 1})
        raise ValueError(
            "'layers' must be 'auto' or the names of two layers with weights of their own, which "
            f"are {names}; got {name!r}."
        )
    return weights


def find_early_layers(module, run, x):
    """Find the first two learned layers on the way from the input to the features.

    A layer counts when it is used, whether as a module or by its parameters, in a convolution, a
    matrix product or attention with something that depends on the input. The first is the first
    convolution or patch embedding (or linear layer); the second the next one whose input depends
    on the output of the first. Normalisation, position embeddings, branches beside the way and
    the classifier layer, whose output is no feature, are passed over.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode that belongs to the caller.
    run : callable
        Gives the features of a batch, by a forward pass through `module`.
    x : tensor
        A batch of a few rows.

    Returns
    -------
    names : tuple of str
        The two layers.

    Raises
    ------
    ValueError
        If there are not two such layers.
    """
    with learning(()):
        # Not a leaf, as networks may change their input in place.
        used, _ = _watch(module, run, x.clone().requires_grad_(True) * 1)
    for first in used:
        weights = layer_weights(module, first)
        with learning(weights):
            after, features = _watch(module, run, x)
        if not features.requires_grad:
            continue
        for second in after:
            if second == first:
                continue
            with learning(layer_weights(module, second)):
                if run(x).requires_grad:
                    return first, second
        raise ValueError(
            f"The network has only one learned layer before its features, {first!r}, where two "
            "are compared."
        )
    raise ValueError(
        "No learned convolution, patch embedding or linear layer was found between the input and "
        "the features of the network; name two by the parameter 'layers'."
    )


def _watch(module, run, x):
    with _UseRecorder(module) as recorder:
        features = run(x)
    return list(dict.fromkeys(recorder.used)), features


def _owner(parameter):
    """Name of the layer a parameter belongs to, also if its weight is parametrised."""
    layer, parametrised, _ = parameter.partition(".parametrizations.")
    return layer if parametrised else parameter.rpartition(".")[0]


class _UseRecorder(TorchFunctionMode):
    """Notes the layers whose weights are multiplied with what depends on a gradient."""

    def __init__(self, module):
        super().__init__()
        self.used = []
        # By identity: tensor and the names of the parameters that it is or is computed from. The
        # tensors are kept, as identities are given away again.
        self._made_of = {}
        self._names = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self._made_of.setdefault(id(parameter), (parameter, (name,)))
            self._names.setdefault(_owner(name), set())
            if parameter.ndim > 1:
                self._names[_owner(name)].add(name)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        given = list(_tensors((args, kwargs)))
        depends = any(t.requires_grad for t in given if id(t) not in self._made_of)
        called = getattr(func, "__name__", None)
        if called == "multi_head_attention_forward":
            # A learned query is looked for in the input, it is no layer.
            given = list(_tensors((args[3:], kwargs)))
        made_of = [self._made_of[id(t)][1] for t in given if id(t) in self._made_of]
        names = tuple(dict.fromkeys(name for several in made_of for name in several))
        if called in _LINEAR_MAPS:
            if depends:
                self._note(names)
        elif names and not depends:
            for tensor in _tensors(output):
                self._made_of.setdefault(id(tensor), (tensor, names))
        return output

    def _note(self, names):
        """Name a layer by its module, or by the parameter if the module holds others too."""
        names = [name for name in names if name in self._names[_owner(name)]]
        if names:
            # Of attention and its output projection, the former.
            owner = min((_owner(name) for name in names), key=len)
            own = {name for name in names if _owner(name) == owner}
            whole = owner and own == self._names[owner]
            self.used.append(owner if whole else min(own))


def _tensors(value):
    """Give the tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
