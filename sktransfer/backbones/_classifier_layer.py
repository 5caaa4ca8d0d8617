"""Find a network's last learned classifier layer by what a forward pass does, and check it."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from sktransfer.backbones._recording import run_recorded, watch

__all__ = [
    "POINTWISE",
    "ClassifierLayer",
    "check_head",
    "find_classifier_layer",
    "is_pointwise",
    "watch",
]

_ACTIVATIONS = (
    *(nn.Identity(), functional.relu, functional.relu6, functional.gelu),
    *(functional.silu, functional.hardswish, functional.elu, functional.leaky_relu),
)
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
    is_output : bool, default=True
        Whether the network returns what the layer gives, as it is or as probabilities. False for
        a layer that a user has named in a network that goes on to compute something else.
    no_source : str, default=""
        Why its outputs say nothing about source classes, such as that its weights are random; ""
        if they do.
    """

    name: str
    n_outputs: int
    is_output: bool = True
    no_source: str = ""

    @property
    def gives_source(self):
        """Whether its outputs are those of a source head."""
        return self.n_outputs > 1 and not self.no_source


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
    # Half precision keeps two to three digits.
    return any(torch.allclose(output, link, rtol=1e-2, atol=1e-2) for link in _links(known))


def _links(logits):
    """Give what a network may return of its logits: them or probabilities, in double precision."""
    logits = logits.double()
    return logits, logits.softmax(1), logits.log_softmax(1), logits.sigmoid()


def check_head(module, x, head):
    """Verify that the classifier layer, applied to what it was given, gives the network's logits.

    Parameters
    ----------
    module : nn.Module
        Module in evaluation mode that belongs to the caller; hooks are added and removed again.
    x : tensor
        A small batch.
    head : ClassifierLayer
        The layer.

    Raises
    ------
    ValueError
        If the results differ by more than 1e-5 of the largest one (1e-2 in half precision). The
        message lists the layers that can be named as the classifier.
    """
    layer = module.get_submodule(head.name)
    handle = watch(layer)
    try:
        output, calls = run_recorded(module, x)
    finally:
        handle.remove()
    if not calls or not isinstance(calls[-1][1], torch.Tensor):
        return  # said where features are taken
    _, given, logits = calls[-1]
    if not bool(torch.isfinite(logits).all()):
        return  # said where features are used
    again = layer(given)
    if not _agree(again, logits):
        _raise_for_head(module, head, "gives other outputs when it is applied to the same input")
    if not head.is_output or not isinstance(output, torch.Tensor):
        return
    if isinstance(layer, POINTWISE):
        # What the layer gives at each position is averaged, after an activation or without one.
        positions = again.double().flatten(2)
        averages = [f(positions).mean(dim=2) for f in _ACTIVATIONS]
        averages += [positions.amax(dim=2)]
    else:
        averages = [again]
    if not any(_agree(link, output) for average in averages for link in _links(average)):
        _raise_for_head(
            module, head, "applied to the features does not give the outputs of the network"
        )


def _agree(found, expected):
    if found.shape != expected.shape:
        return False
    half = expected.dtype in (torch.float16, torch.bfloat16)
    difference = (found.double() - expected.double()).abs()
    return bool((difference <= (1e-2 if half else 1e-5) * found.double().abs().max()).all())


def _raise_for_head(module, head, fault):
    layers = [
        f"{name} ({type(layer).__name__})"
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear) or is_pointwise(layer)
    ]
    raise ValueError(
        f"The layer '{head.name}' was taken for the network's classifier, but it {fault}. The "
        f"layers that can be one are {layers}: TorchBackbone takes a name as 'classifier', or None "
        "for a network without one, and the name of any layer as 'layer'."
    )
