"""The networks that ship with the package, ready to be ranked."""

from hashlib import sha256
from numbers import Integral

import torch
from safetensors.torch import load

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._cards import tiny_zoo_card, weights_path
from sktransfer.backbones._classifier_layer import ClassifierLayer
from sktransfer.backbones._images import ImagePreprocessing, input_kind
from sktransfer.backbones._tiny_resnet import TinyResNet, initial_state
from sktransfer.utils._sklearn import Interval

__all__ = ["TinyZooBackbone"]

_CENTROIDS = "source_centroids"


class TinyZooBackbone(BaseTorchBackbone):
    """A small pretrained residual network that ships with the package.

    It takes images of any size and colour, white on black as its sources are: they are made grey,
    resized to 28 x 28 and normalised by the statistics of the network's own source.

    Parameters
    ----------
    name : str
        Name of the network; :func:`sktransfer.datasets.load_tiny_zoo` lists them.
    batch_size : int, default=64
        Rows per forward pass; features do not depend on it.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Attributes
    ----------
    module_ : TinyResNet
        The network, in evaluation mode and single precision.
    classifier_layer_ : str
        Name of the classifier layer.
    n_parameters_ : int
        Parameters of the network, with its classifier layer.
    device_ : torch.device
        Where the network runs.
    input_shape_ : tuple or None
        Channels, height and width of images in arrays, None for files.
    n_features_in_ : int
        Numbers per image. Not there after a fit on files.

    See Also
    --------
    TorchBackbone : Any network of torch.

    Examples
    --------
    >>> from sktransfer.backbones import TinyZooBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> backbone = TinyZooBackbone("letters")
    >>> backbone.card.source
    "capital letters drawn with Pillow's own font"
    >>> images = load_digits_target().images_train[:100]
    >>> features, probabilities = backbone.fit(images).extract(images)
    >>> features.shape, probabilities.shape
    ((100, 64), (100, 26))
    """

    _parameter_constraints: dict = {
        "name": [str],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str, torch.device],
    }

    def __init__(self, name, *, batch_size=64, device="auto"):
        self.name = name
        self.batch_size = batch_size
        self.device = device

    @property
    def card(self):
        """What the network was trained on, a :class:`ModelCard`."""
        return tiny_zoo_card(self.name)

    @property
    def source_centroids(self):
        """Mean features per source class, (n_classes, n_features) float32; None if untrained."""
        centroids = _read_tensors(self.card).get(_CENTROIDS)
        return None if centroids is None else centroids.float().numpy()

    def _make_module(self):
        card = self.card
        # Made without memory: building it the usual way would draw from torch's generator.
        with torch.device("meta"):
            module = TinyResNet(card.n_classes, card.width)
        module = module.to_empty(device="cpu")
        state = initial_state(module, card.seed)
        stored = _read_tensors(card)
        stored.pop(_CENTROIDS, None)
        if card.pretrained:
            missing = set(state) - set(stored) - {n for n in state if n.endswith("_tracked")}
            if missing:
                raise ValueError(f"The weights of {card.name!r} lack {sorted(missing)}.")
        module.load_state_dict({**state, **{name: t.float() for name, t in stored.items()}})
        return module

    def _make_preprocessing(self):
        card = self.card
        return ImagePreprocessing((card.mean,), (card.std,), card.input_size, card.channels)

    def _find_layer(self, x):
        return ClassifierLayer("head", self.card.n_classes), self.module_(x)

    def _as_batches(self, X, reset):
        if input_kind(X) == "vectors":
            shape = getattr(X, "shape", "unknown")
            raise ValueError(
                "TinyZooBackbone takes images (n_samples, height, width), got data of shape "
                f"{shape}."
            )
        return super()._as_batches(X, reset)


def _read_tensors(card):
    """Read a file of weights after its digest was compared; an untrained network has none."""
    if not card.pretrained:
        return {}
    content = weights_path(card.name).read_bytes()
    if sha256(content).hexdigest() != card.weights_sha256:
        raise ValueError(
            f"The file {weights_path(card.name)} is damaged: its SHA-256 digest is not the one on "
            "its card. Install the package again."
        )
    return load(content)
