"""Which layers of a network features are taken from."""

from difflib import get_close_matches

import torch

from sktransfer.backbones._capture import PENULTIMATE, Capture, LayerPoint, check_calls
from sktransfer.backbones._layout import Structure
from sktransfer.backbones._pooling import choose_pooling, has_class_token
from sktransfer.backbones._recording import watch
from sktransfer.backbones._stages import find_stages

__all__ = ["ALL_STAGES", "check_layer_parameter", "find_name", "resolve_layers"]

#: The value of the parameter ``layer`` that has layers found by structure.
ALL_STAGES = "all stages"
_N_LISTED = 30


def check_layer_parameter(layer):
    """Give the names in the parameter ``layer`` as a list.

    Parameters
    ----------
    layer : str or sequence of str
        The parameter.

    Returns
    -------
    names : list of str
        The names.

    Raises
    ------
    ValueError
        If there are none, some are no strings, or one comes twice.
    """
    names = [layer] if isinstance(layer, str) else list(layer)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            "The 'layer' parameter must be the name of a layer or a list of at least one name, "
            f"got {layer!r}."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"The 'layer' parameter names a layer twice: {names}.")
    if ALL_STAGES in names and len(names) > 1:
        raise ValueError(
            f"'{ALL_STAGES}' finds layers by itself and stands alone in the 'layer' parameter, "
            f"got {names}."
        )
    return names


def resolve_layers(module, x, layer, pooling, head):
    """Find the places that the parameters ``layer`` and ``pooling`` ask for.

    Parameters
    ----------
    module : nn.Module
        Network in evaluation mode that belongs to the caller; it is run a few times on few rows.
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
    names = check_layer_parameter(layer)
    if names == [PENULTIMATE] and pooling in ("auto", "flatten"):
        return (LayerPoint(PENULTIMATE),)
    known = {name: find_name(module, name) for name in names if name != ALL_STAGES}
    structure = Structure(module, x)
    if names == [ALL_STAGES]:
        return _stages(structure, pooling, head)
    return tuple(
        _penultimate(structure, pooling)
        if name == PENULTIMATE
        else _point(structure, name, *known[name], pooling)
        for name in names
    )


def _penultimate(structure, pooling):
    """Give the point, unless the pooling asked for is one that the network doesn't do."""
    if pooling == "cls" and not has_class_token(structure):
        raise ValueError(
            f"pooling='cls' needs a class token, and the network has none; its '{PENULTIMATE}' "
            "features are what its classifier is given."
        )
    if pooling == "mean" and has_class_token(structure, used=True):
        raise ValueError(
            f"'{PENULTIMATE}' features are what the network gives its classifier, here from a "
            "class token: pooling='mean' cannot change that. Name the layer whose patch tokens "
            f"are to be averaged, or take layer='{ALL_STAGES}'."
        )
    return LayerPoint(PENULTIMATE)


def _point(structure, name, layer, number, pooling):
    n_calls = structure.n_calls(layer)
    if n_calls == 0:
        # Noise may have gone another way through the network than data do.
        structure.use_batch()
        n_calls = structure.n_calls(layer)
    point = LayerPoint(name, layer, number)
    check_calls(point, n_calls)
    chosen = choose_pooling(structure, structure.call(layer, number), pooling, name)
    return LayerPoint(name, layer, number, chosen)


def _stages(structure, pooling, head):
    points = []
    for call in find_stages(structure, head):
        name = call.name
        number = call.number if structure.n_calls(name) > 1 else None
        if number is not None:
            name = f"{name}:{number}"
        points.append(_point(structure, name, call.name, number, pooling))
    try:
        last = _penultimate(structure, pooling)
    except ValueError:
        return tuple(points) or (LayerPoint(PENULTIMATE),)
    if points and _are_equal(structure, points[-1], last, head):
        return tuple(points)
    return (*points, last)


def _are_equal(structure, point, other, head):
    """Whether two places give the same features, as pooled last maps and penultimate ones do."""
    layers = [structure.module.get_submodule(point.layer)]
    if head is not None:
        layers.append(structure.module.get_submodule(head.name))
    handles = [watch(layer) for layer in dict.fromkeys(layers)]
    try:
        (a, b), _ = Capture(structure.module, [point, other], head)(structure.x)
    finally:
        for handle in handles:
            handle.remove()
    if a.shape != b.shape:
        return False
    tolerance = 1e-2 if structure.x.element_size() == 2 else 1e-4
    return bool((a.double() - b.double()).abs().max() <= tolerance * b.double().abs().max())


def find_name(module, name):
    """Find the layer that a user has named.

    Parameters
    ----------
    module : nn.Module
        The network.
    name : str
        Dotted name, or one with the number of a call, such as ``"block:1"``.

    Returns
    -------
    layer : str or None
        Dotted name of the layer; None for the penultimate features.
    number : int or None
        Number of the call.

    Raises
    ------
    ValueError
        If there is no such layer.
    """
    if name == PENULTIMATE:
        return None, None
    layers = dict(module.named_modules(remove_duplicate=False))
    layers.pop("", None)
    stem, colon, number = name.rpartition(":")
    found, call = name, None
    if name not in layers and colon and stem in layers and number.isdigit():
        found, call = stem, int(number)
    if isinstance(layers.get(found), torch.jit.ScriptModule):
        raise ValueError(
            f"The layer '{found}' is a TorchScript module, whose output cannot be watched: name a "
            "layer around it, or pass the nn.Module it was made of."
        )
    if found in layers:
        return found, call
    close = get_close_matches(name, layers, n=5, cutoff=0.5)
    outermost = [found for found in layers if "." not in found]
    more = f" and {len(outermost) - _N_LISTED} more" if len(outermost) > _N_LISTED else ""
    raise ValueError(
        f"The 'layer' parameter names a layer {name!r} that the network does not have"
        + (f"; close names are {close}" if close else "")
        + f". Its outermost layers are {outermost[:_N_LISTED]}{more}; '{PENULTIMATE}' is the input "
        f"of its classifier, and '{ALL_STAGES}' finds layers by structure."
    )
