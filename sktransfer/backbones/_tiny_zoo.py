"""The networks that ship with the package, ready to be ranked."""

from hashlib import sha256

import torch
from safetensors.torch import load

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._cards import tiny_zoo_card, weights_path
from sktransfer.backbones._classifier_layer import ClassifierLayer
from sktransfer.backbones._images import ImagePreprocessing, input_kind
from sktransfer.backbones._tiny_resnet import TinyResNet, initial_state

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
    layer : str or list of str, default="penultimate"
        Where features are taken: "penultimate", the input of the classifier layer; the dotted name
        of a layer ("stages.1"), whose output is taken; a list of these, whose features stand side
        by side; or "all stages".
    pooling : {"auto", "mean", "flatten"}, default="auto"
        How the output of a named layer becomes a vector: "auto" and "mean" average over
        positions, "flatten" keeps all numbers.
    batch_size : int, default=64
        Rows per forward pass; features do not depend on it.
    n_workers : int, default=0
        Threads that read and prepare the next batches meanwhile. Neither rows nor features depend
        on it.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Attributes
    ----------
    module_ : TinyResNet
        The network, in evaluation mode and single precision.
    classifier_layer_ : str
        Name of the classifier layer.
    n_features_out_ : int
        Number of features.
    layer_names_ : tuple of str
        The layers whose features are given.
    layer_slices_ : dict of str to slice
        Columns of the features of each layer.
    n_parameters_ : int
        Parameters of the network, with its classifier layer.
    pretrained_ : bool
        False for the networks with random weights.
    weights_ : str
        Where the weights come from; "untrained" for random ones.
    weights_hash_ : str
        SHA-256 digest of all weights.
    versions_ : dict of str to str
        Versions of the libraries that decide what is computed.
    probe_features_ : ndarray of shape (n_rows, n_features_out), float32
        Features of the first two rows that ``fit`` saw.
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
        **BaseTorchBackbone._parameter_constraints,
    }

    def __init__(
        self,
        name,
        *,
        layer="penultimate",
        pooling="auto",
        batch_size=64,
        n_workers=0,
        device="auto",
    ):
        self.name = name
        self.layer = layer
        self.pooling = pooling
        self.batch_size = batch_size
        self.n_workers = n_workers
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
        self.pretrained_ = card.pretrained
        self.weights_ = f"ships with sktransfer ({card.name})" if card.pretrained else "untrained"
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
