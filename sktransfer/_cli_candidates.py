"""Candidates named on the command line."""

import fnmatch
import inspect
import os
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sklearn.base import clone

from ._cli_own_modules import import_candidate, is_transformer, named_errors

__all__ = ["NamedCandidate", "find_candidates", "parse_candidates"]

_KINDS = (
    "tiny, tiny:NAME, torchvision:NAME, timm:NAME, medmnist:DIR, features:FILE.npy nor "
    "python:MODULE:OBJECT"
)
_STAGES = "stages"


@dataclass(frozen=True)
class _Options:
    """What the command line says about all candidates that it concerns.

    Attributes
    ----------
    exclude_families : sequence of str
        Families of the bundled networks to leave out.
    mean, std : list of float or None
        Normalisation for networks that don't bring their own.
    input_size : int or None
        Height and width for networks that don't bring their own.
    for_images : bool
        Whether the data are images.
    common : dict
        Parameters of every network: batch size, workers and device.
    """

    exclude_families: tuple
    mean: list | None
    std: list | None
    input_size: int | None
    for_images: bool
    common: dict

    def plain(self, specification):
        """Parameters of a network that brings no preprocessing of its own."""
        if self.for_images and self.mean is None:
            raise ValueError(
                f"--candidates: {specification.text!r} is a plain network, and images need the "
                "normalisation it was trained with: give --mean and --std (--mean 0 --std 1 for "
                "pixels between 0 and 1), or make the object a TorchBackbone that knows them."
            )
        given = {
            name: value[0] if len(value) == 1 else value
            for name, value in (("mean", self.mean), ("std", self.std))
            if value is not None
        }
        return given | {"input_size": self.input_size} | self.common


@dataclass(frozen=True)
class _Specification:
    """One argument of ``--candidates``: ``KIND:REST[@LAYER][=CHECKPOINT]``.

    Attributes
    ----------
    text : str
        The argument as given.
    kind : str
        What stands before the first colon.
    rest : str
        The name of the network, file or object.
    layer : str or None
        The layer whose features are wanted; None for the penultimate ones.
    checkpoint : str or None
        A file of weights.
    """

    text: str
    kind: str
    rest: str
    layer: str | None = None
    checkpoint: str | None = None

    @classmethod
    def parse(cls, text):
        """Take an argument apart; the name of a file or folder is left whole."""
        kind, _, rest = text.partition(":")
        if kind not in _MAKERS:
            raise ValueError(f"--candidates: {text!r} is neither {_KINDS}.")
        if kind in ("features", "medmnist"):
            return cls(text, kind, rest)
        rest, has_checkpoint, checkpoint = rest.partition("=")
        rest, has_layer, layer = rest.partition("@")
        if has_layer and not layer or has_checkpoint and not checkpoint:
            raise ValueError(
                f"--candidates: {text!r} ends where a {'file' if has_checkpoint else 'layer'} is "
                "expected; the form is KIND:NAME[@LAYER][=CHECKPOINT]."
            )
        if has_checkpoint and kind not in ("torchvision", "python"):
            raise ValueError(
                f"--candidates: {text!r} names a checkpoint, which only torchvision:NAME=FILE and "
                "python:MODULE:OBJECT=FILE can load."
            )
        return cls(text, kind, rest, layer or None, checkpoint or None)

    @property
    def suffix(self):
        """What tells the candidate from others of the same network."""
        layer = f"@{self.layer}" if self.layer else ""
        return layer + (f"={self.checkpoint}" if self.checkpoint else "")


@dataclass(frozen=True)
class _Found:
    """A candidate with the name it is given where no other has it, and one that is its own."""

    name: str
    full_name: str
    candidate: object
    is_plain: bool = False
    keeps_name: bool = False
    source: str | None = None


class NamedCandidate(NamedTuple):
    """A candidate of the command line.

    Parameters
    ----------
    name : str
        Its name, which no other has.
    candidate : transformer
        The candidate.
    source : str or None
        The data set of MedMNIST that it is known to be trained on.
    """

    name: str
    candidate: object
    source: str | None


def parse_candidates(specifications, **parameters):
    """Turn specifications such as ``tiny:fashion*`` into candidates.

    Parameters
    ----------
    specifications : sequence of str
        What was given on the command line.
    **parameters : dict
        As for :func:`find_candidates`.

    Returns
    -------
    candidates : list of (str, transformer)
        Names and candidates.
    """
    return [
        (name, candidate) for name, candidate, _ in find_candidates(specifications, **parameters)
    ]


def find_candidates(
    specifications,
    *,
    exclude_families=(),
    batch_size=64,
    n_workers=0,
    device="auto",
    mean=None,
    std=None,
    input_size=None,
    for_images=True,
):
    """Turn specifications such as ``tiny:fashion*`` into candidates.

    Parameters
    ----------
    specifications : sequence of str
        What was given on the command line.
    exclude_families : sequence of str, default=()
        Families of the bundled networks to leave out.
    batch_size : int, default=64
        Images per forward pass.
    n_workers : int, default=0
        Threads that read images ahead.
    device : str, default="auto"
        Where the networks run.
    mean, std : list of float or None, default=None
        Normalisation of images for networks that don't bring their own.
    input_size : int or None, default=None
        Height and width of images for networks that don't bring their own.
    for_images : bool, default=True
        Whether the data are images, so that plain networks need mean and std.

    Returns
    -------
    candidates : list of NamedCandidate
        Each once, in the order given. Different candidates never share a name: where an object's
        name is taken or not allowed, its full one stands for it.

    Raises
    ------
    ValueError
        If a specification is not understood, names nothing or can't be built, whatever the user's
        module raised.
    ImportError
        If a candidate needs a package that is not installed.
    """
    _check_families(exclude_families)
    if (mean is None) != (std is None):
        raise ValueError("--mean and --std must be given together.")
    common = {"batch_size": batch_size, "device": device}
    if n_workers:
        common["n_workers"] = n_workers
    options = _Options(tuple(exclude_families), mean, std, input_size, for_images, common)
    found = {}
    for text in specifications:
        specification = _Specification.parse(text)
        for item in _MAKERS[specification.kind](specification, options):
            found.setdefault((specification.kind, item.full_name), item)
    takers = {"mean": any(item.is_plain for item in found.values())}
    takers["input_size"] = takers["mean"] or any(item.source for item in found.values())
    for name, has_taker in takers.items():
        if getattr(options, name) is not None and not has_taker:
            option = "--mean and --std are" if name == "mean" else "--input-size is"
            raise ValueError(
                f"{option} for plain torch modules given as python:MODULE:OBJECT and for "
                "checkpoints, and there is none among the candidates."
            )
    return _named(found.values())


def _named(found):
    """Give the candidates their short names, or the full ones where those are taken."""
    from .model_selection import TransferabilitySelector

    short = [item.name for item in found]
    reserved = inspect.signature(TransferabilitySelector).parameters
    named = []
    for item in found:
        taken = not item.keeps_name and (short.count(item.name) > 1 or item.name in reserved)
        name = item.full_name if taken else item.name
        named.append(NamedCandidate(name, item.candidate, item.source))
    return named


def _with_layer(specification, name, full_name, candidate, **more):
    """Give the candidate itself, the one of another layer, or one for each stage."""
    if specification.layer is None:
        return [_Found(name, full_name, candidate, **more)]
    if not hasattr(candidate, "layer"):
        raise ValueError(
            f"--candidates: {specification.text!r} names a layer, but a "
            f"{type(candidate).__name__} has none to choose from."
        )
    if specification.layer == _STAGES:
        from .backbones import layer_candidates

        try:
            with named_errors(specification.text, "taken apart"):
                pairs = layer_candidates(candidate)
        except ValueError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # Weights that can't be had cost this candidate only, which says so when it is run.
            pairs = [(name, clone(candidate).set_params(layer="all stages"))]
        return [
            _Found(
                name.replace(f"@{_STAGES}", f"@{backbone.layer}"),
                full_name.replace(f"@{_STAGES}", f"@{backbone.layer}"),
                backbone,
                **more,
            )
            for _, backbone in pairs
        ]
    # The user's own object is not changed.
    candidate = clone(candidate).set_params(layer=specification.layer)
    return [_Found(name, full_name, candidate, **more)]


def _check_families(families):
    if not families:
        return
    from .datasets import load_tiny_zoo

    known = sorted({backbone.card.family for _, backbone in load_tiny_zoo()})
    if unknown := [family for family in families if family not in known]:
        raise ValueError(
            f"--exclude-family: there is no family {unknown[0]!r}; there are {', '.join(known)}."
        )


def _tiny(specification, options):
    from .datasets import load_tiny_zoo

    everything = load_tiny_zoo()
    matching = [
        pair
        for pair in everything
        if not specification.rest or fnmatch.fnmatchcase(pair[0], specification.rest)
    ]
    if not matching:
        names = ", ".join(name for name, _ in everything)
        raise ValueError(
            f"--candidates: no bundled network matches {specification.text!r}: {names}."
        )
    found = [pair for pair in matching if pair[1].card.family not in options.exclude_families]
    if not found:
        raise ValueError(
            f"--candidates: all that matches {specification.text!r} is left out by "
            f"--exclude-family {' '.join(options.exclude_families)}."
        )
    return [
        item
        for name, candidate in found
        for item in _with_layer(
            specification,
            name + specification.suffix,
            f"tiny:{name}{specification.suffix}",
            candidate.set_params(**options.common),
            keeps_name=True,
        )
    ]


def _library(specification, options):
    """Make a network of torchvision or timm, with the weights that come with it or one's own."""
    from . import backbones

    name, _, weights = specification.rest.partition(":")
    if not name:
        raise ValueError(f"--candidates: {specification.text!r} names no network.")
    if specification.checkpoint is not None:
        if weights:
            raise ValueError(
                f"--candidates: {specification.text!r} names both weights of the library and a "
                "checkpoint."
            )
        from torchvision.models import get_model

        candidate = _from_checkpoint(specification, partial(get_model, name), options)
    else:
        kind = specification.kind
        make = backbones.TorchvisionBackbone if kind == "torchvision" else backbones.TimmBackbone
        parameters = dict(options.common)
        if weights:
            parameters["weights"] = None if weights.lower() == "none" else weights
        candidate = make(name, **parameters)
        try:
            candidate._check_source()
        except ValueError as error:
            raise ValueError(f"--candidates: {specification.text!r}: {error}") from error
    return _with_layer(
        specification,
        specification.rest + specification.suffix,
        specification.text,
        candidate,
        is_plain=specification.checkpoint is not None,
    )


def _from_checkpoint(specification, factory, options):
    from .backbones import TorchBackbone

    return TorchBackbone.from_checkpoint(
        factory, specification.checkpoint, **options.plain(specification)
    )


def _python(specification, options):
    """Import a transformer, or wrap a network that was imported."""
    has_checkpoint = specification.checkpoint is not None
    made = import_candidate(specification.text, specification.rest, build=not has_checkpoint)
    is_plain = has_checkpoint or not is_transformer(made)
    if has_checkpoint:
        made = _from_checkpoint(specification, made, options)
    elif is_plain:
        from .backbones import TorchBackbone

        made = TorchBackbone(made, **options.plain(specification))
    name = specification.rest.rpartition(":")[2] + specification.suffix
    full_name = specification.rest + specification.suffix
    return _with_layer(specification, name, full_name, made, is_plain=is_plain)


def _features(specification, options):
    """Take features that were computed elsewhere, row by row those of the data."""
    from .backbones import PrecomputedFeatures

    path = specification.rest
    if not path:
        raise ValueError(f"--candidates: {specification.text!r} names no file.")
    if not os.path.isfile(path):
        raise ValueError(f"--candidates: there is no file {path!r} for {specification.text!r}.")
    stem = os.path.splitext(os.path.basename(path))[0]
    return [_Found(stem, specification.text, PrecomputedFeatures(path))]


def _medmnist(specification, options):
    """Find checkpoints of MedMNIST's networks, and add ImageNet."""
    from .datasets import load_medmnist_sources

    if not specification.rest:
        raise ValueError(f"--candidates: {specification.text!r} names no folder.")
    parameters = dict(options.common)
    if options.input_size is not None:
        parameters["input_size"] = options.input_size
    try:
        pairs = load_medmnist_sources(specification.rest, **parameters)
    except ValueError as error:
        raise ValueError(f"--candidates: {specification.text!r}: {error}") from error
    return [
        _Found(name, f"{specification.text}:{name}", candidate, source=name)
        for name, candidate in pairs
    ]


_MAKERS = {
    "tiny": _tiny,
    "medmnist": _medmnist,
    "torchvision": _library,
    "timm": _library,
    "features": _features,
    "python": _python,
}
