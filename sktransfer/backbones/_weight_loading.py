"""Bring the weights of a checkpoint into a network: all of the backbone, or none of it."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import PurePath
from warnings import warn

import torch
from sklearn.utils import Bunch
from torch import nn

from sktransfer.backbones._checkpoint import read_checkpoint
from sktransfer.backbones._classifier_layer import is_pointwise
from sktransfer.exceptions import CheckpointMismatchWarning, HeadNotLoadedWarning

__all__ = ["ANY_LAYER", "check_loaded", "load_weights", "without_source"]

#: Stands for a classifier layer that is not known before the first forward pass.
ANY_LAYER = object()

# What wrappers for training put before the names of the weights they wrap.
_KNOWN = ("module", "model", "backbone", "_orig_mod", "net", "network", "encoder", "state_dict")
# Counters of batches play no part in a forward pass, and old files don't have them.
_UNUSED = "num_batches_tracked"
_N_LISTED = 20
# torchvision's own files for the networks that normalise their input a second time.
_NORMALISES_AGAIN = re.compile(r"^(googlenet|inception_v3_google)-[0-9a-f]{8}")


def load_weights(module, path, *, prefix="auto", head="auto", classifier=ANY_LAYER):
    """Load a checkpoint into a network, and say what was done.

    Parameters
    ----------
    module : nn.Module
        Network that belongs to the caller; its weights are overwritten.
    path : str or path
        File in the format of safetensors or of ``torch.save``.
    prefix : str, default="auto"
        What comes before the network's own names in the file; "auto" finds it.
    head : {"auto", "required", "ignore"}, default="auto"
        Whether the weights of the classifier layer are loaded: if they are there and fit, as a
        must, or not.
    classifier : str, None or ANY_LAYER, default=ANY_LAYER
        Name of the classifier layer, None if there is none.

    Returns
    -------
    report : Bunch
        What :attr:`TorchBackbone.loading_report_` describes. ``report.head`` names the one layer
        that was left as it was, which is the caller's to judge, or is None.

    Raises
    ------
    FileNotFoundError, ValueError
        As :func:`~sktransfer.backbones._checkpoint.read_checkpoint`, and if weights of the backbone
        are missing in the file or have other shapes. Nothing is loaded then.
    """
    state, container = read_checkpoint(path)
    expected = {
        name: value
        for name, value in module.state_dict().items()
        if isinstance(value, torch.Tensor) or name.endswith("_extra_state")
    }
    names, stripped, added = _matching(expected, state, prefix, path)
    missing = [name for name in expected if name not in names]
    mismatched = {
        name: (tuple(state[source].shape), tuple(expected[name].shape))
        for name, source in names.items()
        if _shape(state[source]) != _shape(expected[name])
    }
    needed = [name for name in missing if not name.endswith(_UNUSED)]
    left = _layer_left_out(module, {*needed, *mismatched}, classifier)
    if left is None and (needed or mismatched) or (left is not None and head == "required"):
        raise ValueError(_what_is_wrong(path, expected, state, needed, mismatched, stripped))
    if head == "ignore" and left is None:
        left = classifier if isinstance(classifier, str) else None
    skipped = set() if left is None else {n for n in expected if n.startswith(f"{left}.")}
    loaded = {name: state[source] for name, source in names.items() if name not in skipped}
    _load(module, loaded, path)
    used = set(names.values())
    unexpected = [name for name in state if name not in used]
    return Bunch(
        path=str(path),
        container=container,
        prefix=stripped,
        added_prefix=added,
        n_expected=len(expected),
        n_loaded=len(loaded),
        head=left,
        head_loaded=None if classifier is None else left is None,
        missing=[name for name in missing if name in skipped or name.endswith(_UNUSED)],
        mismatched={name: shapes for name, shapes in mismatched.items() if name in skipped},
        unexpected=unexpected,
        unused_layers=_layers_that_lack(module, unexpected, stripped, added),
        hidden_normalization=_hidden_normalization(module, path),
    )


def check_loaded(report):
    """Warn of what a report of loading says that is no error but may be a mistake.

    Parameters
    ----------
    report : Bunch
        What :func:`load_weights` returned.

    Returns
    -------
    report : Bunch
        The same.
    """
    if report.unused_layers:
        warn(
            f"The checkpoint '{report.path}' has layers that the network lacks, "
            f"{report.unused_layers}: it seems to be that of a deeper network, whose weights make "
            "no sense in this one.",
            CheckpointMismatchWarning,
            stacklevel=2,
        )
    if report.hidden_normalization == "missing":
        warn(
            f"The weights in '{report.path}' were trained with transform_input=True, which a file "
            "of weights does not hold, and the network has transform_input=False: build it with "
            "True, or its features are those of wrongly normalised images.",
            CheckpointMismatchWarning,
            stacklevel=2,
        )
    return report


def without_source(layer, report, head):
    """Give the classifier layer, marked if its weights are not those of the checkpoint.

    Parameters
    ----------
    layer : ClassifierLayer or None
        The classifier layer that was found.
    report : Bunch
        What :func:`load_weights` returned; it is completed.
    head : {"auto", "required", "ignore"}
        What was asked for.

    Returns
    -------
    layer : ClassifierLayer or None
        The layer.

    Raises
    ------
    ValueError
        If what the checkpoint lacks belongs to another layer than the classifier.
    """
    name = None if layer is None else layer.name
    if report.head not in (None, name):
        lacking = [*report.missing, *report.mismatched]
        raise ValueError(
            f"The checkpoint '{report.path}' has not all weights of the backbone: {lacking} are "
            f"missing or of another shape, and '{report.head}' is not the classifier layer of the "
            f"network, which is {name!r}. Only the classifier layer may be missing."
        )
    report.head_loaded = None if layer is None else report.head is None and head != "ignore"
    if layer is None or report.head_loaded:
        return layer
    report.head = name
    reason = f"the weights of its classifier layer '{name}' are not those of the checkpoint"
    if head != "ignore":
        shapes = [f"{n} {found} instead of {own}" for n, (found, own) in report.mismatched.items()]
        why = f"there are {', '.join(shapes)}" if shapes else "they are not in the file"
        warn(
            f"The weights of the classifier layer '{name}' were not loaded from '{report.path}' "
            f"({why}): features are those of the checkpoint, but there are no source "
            "probabilities.",
            HeadNotLoadedWarning,
            stacklevel=2,
        )
    return replace(layer, no_source=reason)


def _shape(value):
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _matching(expected, state, prefix, path):
    """Give the name in the file of each weight, the prefix taken away and the one put before."""
    if prefix == "auto":
        stripped, added = _find_prefix(expected, state, path)
    else:
        stripped, added = prefix if not prefix or prefix.endswith(".") else f"{prefix}.", ""
    names = {}
    for name in expected:
        source = stripped + name.removeprefix(added)
        if source in state and name.startswith(added):
            names[name] = source
    # The head is often outside of what has the prefix: "backbone.conv.weight" and "fc.weight".
    outside = {}
    for name in expected:
        for outer in _outer(stripped):
            if name not in names and outer + name in state:
                outside.setdefault(name, outer + name)
    if len({name.rpartition(".")[0] for name in outside}) == 1:
        names.update(outside)
    return names, stripped, added


def _outer(prefix):
    parts = prefix.split(".")[:-1]
    return [".".join(parts[:n]) + "." if n else "" for n in reversed(range(len(parts)))]


def _find_prefix(expected, state, path):
    """Find what to strip from the names in the file, or to put before them, so that most fit."""
    fitting, named = Counter(), Counter()
    for source, value in state.items():
        for start, name in _splits(source):
            if name in expected:
                named[start, ""] += 1
                fitting[start, ""] += _shape(value) == _shape(expected[name])
    for name, value in expected.items():
        for start, rest in _splits(name):
            for wrapper in {"", *(f"{known}." for known in _KNOWN)} if start else ():
                source = wrapper + rest
                if source in state:
                    named[wrapper, start] += 1
                    fitting[wrapper, start] += _shape(value) == _shape(state[source])
    if not named:
        return "", ""
    best = max((fitting[pair], named[pair]) for pair in named)
    tied = [pair for pair in named if (fitting[pair], named[pair]) == best]
    for choice in (
        [pair for pair in tied if pair == ("", "")],
        [pair for pair in tied if all(set(p.split(".")[:-1]) <= set(_KNOWN) for p in pair)],
        tied,
    ):
        if len(choice) == 1:
            return choice[0]
        if choice:
            tied = choice
            break
    raise ValueError(
        f"The checkpoint '{path}' has weights that fit the network under several prefixes, "
        f"{[stripped for stripped, _ in tied]}: choose one by the parameter for the prefix."
    )


def _splits(name):
    """Give all ways to cut a dotted name in two: ``("a.b.", "c")``."""
    parts = name.split(".")
    for n in range(len(parts)):
        yield "".join(f"{part}." for part in parts[:n]), ".".join(parts[n:])


def _layer_left_out(module, problems, classifier):
    """Give the one layer that has all of the problems, if it can be a classifier layer."""
    if classifier is None or not problems:
        return None
    if isinstance(classifier, str):
        return classifier if all(name.startswith(f"{classifier}.") for name in problems) else None
    for name, layer in module.named_modules():
        if not (isinstance(layer, nn.Linear) or is_pointwise(layer)):
            continue
        if all(problem.startswith(f"{name}.") for problem in problems):
            return name
    return None


def _what_is_wrong(path, expected, state, needed, mismatched, stripped):
    n_expected = sum(not name.endswith(_UNUSED) for name in expected)
    n_fitting = n_expected - len(needed) - len(mismatched)
    text = (
        f"The checkpoint '{path}' is not one of this network: {n_fitting} of its {n_expected} "
        "weights are there and have the right shape"
    )
    if stripped:
        text += f" (after the prefix '{stripped}')"
    if needed:
        text += f"; missing are {_listed(needed)}"
    if mismatched:
        shapes = [f"{n} {found} instead of {own}" for n, (found, own) in mismatched.items()]
        text += f"; of another shape are {_listed(shapes)}"
    if not n_fitting:
        text += f"; the file has {_listed(state, 5)}"
    return f"{text}. Only the classifier layer may be missing."


def _listed(names, limit=_N_LISTED):
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + more


def _load(module, loaded, path):
    wanted = module.state_dict()
    rounded = [
        f"{name} ({str(found.dtype).removeprefix('torch.')})"
        for name, found in loaded.items()
        if isinstance(found, torch.Tensor)
        and name in wanted
        and wanted[name].is_floating_point()
        and not found.is_floating_point()
    ]
    if rounded:
        raise ValueError(
            f"The checkpoint '{path}' holds whole numbers where the network has floating-point "
            f"weights, as quantised networks have: {_listed(rounded)}."
        )
    try:
        left_out = module.load_state_dict(loaded, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"The checkpoint '{path}' cannot be loaded: {reason}") from error
    # What torch itself says about it has the last word.
    if left_out.unexpected_keys:
        raise ValueError(
            f"The checkpoint '{path}' cannot be loaded: the network did not take "
            f"{_listed(left_out.unexpected_keys)}."
        )


def _layers_that_lack(module, unexpected, stripped, added):
    """Give the members of lists of layers that the file has and the network has not.

    Nothing else tells a deeper network's file from the right one: all weights are there. Weights
    beside the network, and of a head that was taken off, are nobody's loss.
    """
    layers = dict(module.named_modules())
    last = next(reversed(module._modules), None)
    lacking = {}
    for source in unexpected:
        if not source.startswith(stripped):
            continue
        for inside, rest in _splits(added + source[len(stripped) :]):
            holder, (member, *more) = inside[:-1], rest.split(".")
            if (
                isinstance(layers.get(holder), (nn.Sequential, nn.ModuleList))
                and holder.partition(".")[0] not in ("", last)
                and more
                and inside + member not in layers
            ):
                lacking[inside + member] = None
    return list(lacking)


def _hidden_normalization(module, path):
    """Tell whether the network normalises its input itself: "on", "off", or None if it cannot.

    "missing" is "off" where that is surely wrong, for torchvision's own weights, which were trained
    with it. Any other file of weights does not tell.
    """
    found = [
        layer.transform_input for layer in module.modules() if hasattr(layer, "transform_input")
    ]
    if not found:
        return None
    if not any(found) and _NORMALISES_AGAIN.match(PurePath(path).name):
        return "missing"
    return "on" if any(found) else "off"
