"""Cards of the networks in the bundled tiny zoo: what each was trained on."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ModelCard", "tiny_zoo_card", "tiny_zoo_names", "weights_path"]

_FOLDER = Path(__file__).parents[1] / "datasets" / "data" / "tiny_zoo"


@dataclass(frozen=True)
class ModelCard:
    """What is known about a pretrained network of the tiny zoo.

    Parameters
    ----------
    name : str
        Name of the candidate.
    family : str
        Collection the source images come from ("fashion", "mnist", "letters", "shapes", "strokes",
        "textures", "cells", or "none"). To rank for a target of a family, leave that family out.
    source : str
        The source data.
    description : str
        What is special about this candidate.
    classes : tuple of str
        Names of the source classes, in the order of the outputs.
    n_classes : int
        Number of source classes.
    width : float
        Factor on the number of channels.
    pretrained : bool
        False for networks with random weights, the controls.
    seed : int
        Seed of initial weights, batches and drawings.
    input_size : tuple of int
        Height and width of the images the network takes.
    channels : int
        Channels of the images the network takes.
    licence : str
        Licence of the source data.
    n_parameters : int
        Number of parameters.
    mean, std : float
        Normalisation for pixels between 0 and 1, white on black.
    n_source_images : int
        Number of images trained on.
    source_accuracy : float or None
        Accuracy of the stored half-precision weights on held-out source images; None without
        training. With random labels it is that of chance.
    weights_sha256 : str or None
        Digest of the file of weights; None if there is none, because the seed gives the weights.

    Examples
    --------
    >>> from sktransfer.backbones import TinyZooBackbone
    >>> card = TinyZooBackbone("mnist").card
    >>> card.family, card.n_classes, card.n_parameters
    ('mnist', 10, 77754)
    """

    name: str
    family: str
    source: str
    description: str
    classes: tuple
    n_classes: int
    width: float
    pretrained: bool
    seed: int
    input_size: tuple
    channels: int
    licence: str
    n_parameters: int
    mean: float
    std: float
    n_source_images: int
    source_accuracy: float | None
    weights_sha256: str | None

    @property
    def n_features(self):
        """Number of features that the network gives."""
        return round(64 * self.width)


@cache
def _cards():
    cards = {}
    for path in _FOLDER.glob("*.json"):
        entry = json.loads(path.read_text(encoding="utf-8"))
        entry["classes"] = tuple(entry["classes"])
        entry["input_size"] = tuple(entry["input_size"])
        cards[entry["name"]] = ModelCard(**entry)
    # The seed is the place in the build script, which puts relatives side by side.
    return dict(sorted(cards.items(), key=lambda item: item[1].seed))


def tiny_zoo_names():
    """List the names of all candidates.

    Returns
    -------
    names : list of str
        Relatives side by side.
    """
    return list(_cards())


def tiny_zoo_card(name):
    """Give the card of a candidate.

    Parameters
    ----------
    name : str
        One of :func:`tiny_zoo_names`.

    Returns
    -------
    card : ModelCard
        Its card.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    try:
        return _cards()[name]
    except (KeyError, TypeError):
        raise ValueError(
            f"There is no network {name!r} in the tiny zoo; its names are {tiny_zoo_names()}."
        ) from None


def weights_path(name):
    """Give the path of a candidate's file of weights, which untrained ones do not have.

    Parameters
    ----------
    name : str
        One of :func:`tiny_zoo_names`.

    Returns
    -------
    path : pathlib.Path
        File in safetensors format, half precision.
    """
    return _FOLDER / f"{name}.safetensors"
