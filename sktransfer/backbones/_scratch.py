"""The same architecture with new random weights, to be trained from scratch."""

import torch
from sklearn.utils import Bunch
from torch import nn

from sktransfer.backbones import TimmBackbone, TinyZooBackbone, TorchvisionBackbone
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._tiny_resnet import initial_state
from sktransfer.backbones._torch import TorchBackbone

__all__ = ["start_from_scratch"]

# Standard deviation of weights that no layer knows how to initialise, as usual for embeddings.
_SPREAD = 0.02


def start_from_scratch(backbone, seed):
    """Replace all weights of a fitted backbone by random ones.

    Networks known by name are initialised as their library does it, and so is a network made by a
    function whose weights are random. Other networks are initialised layer by layer, by the layers'
    own ``reset_parameters``. Parameters that belong to no such layer are drawn from a normal
    distribution with standard deviation 0.02 if they are matrices or embeddings, and vectors are
    set to one (if they are called "weight", "gamma" or "scale") or to zero.

    Parameters
    ----------
    backbone : fitted torch backbone
        Its network is changed, so it must be the caller's own.
    seed : int
        Seed of the weights.

    Returns
    -------
    report : Bunch
        ``how``: "built anew" or "layer by layer"; ``bare``: names of the parameters that belong to
        no layer with a ``reset_parameters`` of its own.
    """
    module = backbone.module_
    state = _built_anew(backbone, seed)
    if state is not None:
        module.load_state_dict(state)
        return Bunch(how="built anew", bare=[])
    with borrowed_generators(seed), torch.no_grad():
        return Bunch(how="layer by layer", bare=_reset(module))


def _built_anew(backbone, seed):
    """Give the weights of a new random network, or None if there is no way to build one."""
    if isinstance(backbone, TinyZooBackbone):
        return initial_state(backbone.module_, seed)
    if isinstance(backbone, TorchvisionBackbone):
        from torchvision import models

        members, _ = backbone._find_weights()
        settings = backbone._as_pretrained(members)
        with borrowed_generators(seed):
            network = models.get_model(backbone.name, weights=None, **settings)
        return _fitting(network, backbone.module_)
    if isinstance(backbone, TimmBackbone):
        import timm

        with borrowed_generators(seed):
            network = timm.create_model(backbone.name, pretrained=False)
        return _fitting(network, backbone.module_)
    if isinstance(backbone, TorchBackbone) and not isinstance(backbone.module, nn.Module):
        networks = []
        try:
            for other in (seed, seed + 1):
                with borrowed_generators(other):
                    networks.append(backbone.module())
        except Exception:  # a function that works once only is fine
            return None
        weights, others = (dict(network.named_parameters()) for network in networks)
        # A weight that is the same for two seeds was loaded, or is no random one.
        drawn = networks[0] is not networks[1] and all(
            not torch.equal(weight, others[name])
            for name, weight in weights.items()
            if weight.ndim > 1
        )
        return _fitting(networks[0], backbone.module_) if drawn else None
    return None


def _fitting(network, module):
    """Give the weights of a network if they are those of the other, by name and shape."""
    state = network.state_dict()
    shapes = {name: tensor.shape for name, tensor in state.items()}
    if shapes != {name: tensor.shape for name, tensor in module.state_dict().items()}:
        return None
    return state


def _reset(module):
    """Initialise a network layer by layer; give the names of parameters of no layer."""
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}
    covered = set()
    for layer in module.modules():
        for name in ("reset_parameters", "_reset_parameters"):
            reset = getattr(layer, name, None)
            if callable(reset):
                reset()
                covered |= {id(parameter) for parameter in layer.parameters(recurse=False)}
                break
        else:
            if isinstance(getattr(layer, "running_mean", None), torch.Tensor):
                layer.running_mean.zero_()
                layer.running_var.fill_(1.0)
    bare = []
    for name, parameter in module.named_parameters():
        # Weights that are computed from others (weight normalisation) are not reached by a layer.
        is_new = not torch.equal(parameter, before[name])
        n_long_axes = sum(length > 1 for length in parameter.shape)
        if id(parameter) in covered and (is_new or parameter.ndim < 2):
            continue
        bare.append(name)
        kind = name.rpartition(".")[2]
        if n_long_axes > 1 or parameter.ndim > 1:
            parameter.normal_(0.0, _SPREAD)
        elif any(word in kind for word in ("weight", "gamma", "scale")):
            parameter.fill_(1.0)
        else:
            parameter.zero_()
    return bare
