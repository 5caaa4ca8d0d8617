"""The classification networks of torchvision, by name."""

import os
import re
from enum import Enum
from pickle import UnpicklingError
from urllib.parse import urlparse

import torch

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._named import NamedBackbone, did_you_mean
from sktransfer.backbones._preprocessing import ImagePreprocessing
from sktransfer.backbones._store_hashing import file_digest

try:
    from torchvision import models
except ImportError as error:
    raise ImportError(
        "TorchvisionBackbone needs torchvision, which comes with pip install 'sktransfer[torch]' "
        f"({error})."
    ) from error

__all__ = ["TorchvisionBackbone"]

# torchvision puts the beginning of the SHA-256 digest of a file into its name.
_DIGEST_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.")


class TorchvisionBackbone(NamedBackbone):
    """A classification network of torchvision, by name.

    Images of any size and colour are preprocessed the way that belongs to the weights: size, crop,
    interpolation, mean and standard deviation are those of ``weights.transforms()``; grey images
    get three channels. Features are the input of the network's own last learned classifier layer
    (of the convolution that is it in SqueezeNet, averaged over positions), which is found by
    looking at a forward pass, and verified: applied to the features, it must give the network's
    logits (in SqueezeNet: applied at every position, and averaged after the activation).

    Parameters
    ----------
    name : str
        Name of the network, one of ``torchvision.models.list_models(module=torchvision.models)``.
    weights : str, member of the network's enumeration of weights, or None, \
            default="IMAGENET1K_V1"
        Name of the weights. The default are those that all but two networks have (vit_h_14 and
        regnet_y_128gf have others), and that stay the same; "DEFAULT" are those that torchvision
        holds for the best, which may change with its version. They are downloaded to where torch
        keeps them, or found there. None must be asked for: random weights, drawn from a fixed
        seed, a network to compare with. The result is marked as "untrained", and images are
        preprocessed as for IMAGENET1K_V1, or for "DEFAULT" where these are not.
    layer : str or list of str, default="penultimate"
        Where features are taken: "penultimate", the input of the classifier layer; the dotted name
        of a layer ("features.7"), whose output is taken; a list of these, whose features stand
        side by side; or "all stages".
    pooling : {"auto", "cls", "mean", "flatten"}, default="auto"
        How the output of a named layer becomes a vector, as in :class:`TorchBackbone`.
    batch_size : int, default=64
        Rows per forward pass; features do not depend on it.
    n_workers : int, default=0
        Threads that read and prepare the next batches meanwhile. Neither rows nor features depend
        on it.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Attributes
    ----------
    module_ : nn.Module
        The network, in evaluation mode.
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
        False for ``weights=None``.
    weights_ : str
        Name of the weights, never "DEFAULT"; "untrained" for ``weights=None``.
    weights_hash_ : str
        SHA-256 digest of all weights: other weights, another candidate.
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
    TimmBackbone : The networks of timm.
    TorchBackbone : Any network of torch, with weights of your own.

    Notes
    -----
    ``fit`` raises a ``FileNotFoundError`` that names the address and the file if the weights are
    neither there nor can be downloaded, and a ``ValueError`` for a file that is damaged: its digest
    is compared with its name, and the file is read without running code first.

    GoogLeNet and Inception normalise their input a second time inside the network
    (``transform_input``), which belongs to their weights although no file of weights holds it. It
    is on here, also without weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sktransfer.backbones import TorchvisionBackbone
    >>> images = np.random.default_rng(0).integers(0, 256, size=(3, 40, 50, 3), dtype=np.uint8)
    >>> backbone = TorchvisionBackbone("mobilenet_v3_small", weights=None).fit(images)
    >>> backbone.transform(images).shape
    (3, 1024)
    >>> backbone.classifier_layer_, backbone.weights_
    ('classifier.3', 'untrained')
    """

    _parameter_constraints: dict = {
        "name": [str],
        "weights": [str, Enum, None],
        **BaseTorchBackbone._parameter_constraints,
    }
    _packages = ("torchvision",)

    def __init__(
        self,
        name,
        *,
        weights="IMAGENET1K_V1",
        layer="penultimate",
        pooling="auto",
        batch_size=64,
        n_workers=0,
        device="auto",
    ):
        self.name = name
        self.weights = weights
        self.layer = layer
        self.pooling = pooling
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.device = device

    def _check_source(self):
        self._find_weights()

    def _find_weights(self):
        """Give the network's enumeration of weights, and the member that is asked for or None."""
        known = models.list_models(module=models)
        if self.name not in known:
            raise ValueError(
                f"The 'name' parameter of TorchvisionBackbone must be the name of a classification "
                f"network of torchvision, got {self.name!r}; {did_you_mean(self.name, known)}"
            )
        members = models.get_model_weights(self.name)
        weights = self.weights
        if weights is None or isinstance(weights, members):
            return members, weights
        holder, _, name = str(weights).rpartition(".")
        is_own = isinstance(weights, str) and holder in ("", members.__name__)
        if is_own and name in members.__members__:
            return members, members[name]
        raise ValueError(
            f"The 'weights' parameter of TorchvisionBackbone({self.name!r}) must be None (random "
            f"weights) or one of {list(members.__members__)}, got {str(weights)!r}; "
            f"{did_you_mean(name, members.__members__)}"
        )

    def _make_module(self):
        members, weights = self._find_weights()
        self.pretrained_ = weights is not None
        self.weights_ = "untrained" if weights is None else weights.name
        if weights is None:
            with borrowed_generators(0):
                return models.get_model(self.name, weights=None, **self._as_pretrained(members))
        _fetch(weights)
        with borrowed_generators(0):
            return models.get_model(self.name, weights=weights, progress=False)

    def _as_pretrained(self, members):
        """Give what torchvision sets where it loads weights, beyond the weights."""
        if self.name in ("googlenet", "inception_v3"):
            # Said about the initial weights too, or there would be a warning.
            return {"transform_input": True, "aux_logits": False, "init_weights": True}
        if self.name.startswith("vit_"):
            return {"image_size": _usual(members).transforms().crop_size[0]}
        return {}

    def _make_preprocessing(self):
        members, weights = self._find_weights()
        return ImagePreprocessing.from_torchvision((weights or _usual(members)).transforms())


def _usual(members):
    return members.__members__.get("IMAGENET1K_V1", members.DEFAULT)


def _fetch(weights):
    """Have the file of weights where torchvision looks for it, whole and without code in it."""
    file_name = os.path.basename(urlparse(weights.url).path)
    folder = os.path.join(torch.hub.get_dir(), "checkpoints")
    path = os.path.join(folder, file_name)
    digest = _DIGEST_IN_NAME.search(file_name)
    digest = digest and digest[1]
    if not os.path.exists(path):
        try:
            os.makedirs(folder, exist_ok=True)
            torch.hub.download_url_to_file(weights.url, path, digest, progress=False)
        except (OSError, RuntimeError) as error:
            raise FileNotFoundError(
                f"The weights {weights} are not there and cannot be downloaded ({error}): get "
                f"{weights.url} and put it into the folder '{folder}' as '{file_name}', or set "
                "TORCH_HOME to a folder that has it in hub/checkpoints. (weights=None is a network "
                "with random weights.)"
            ) from error
    found = file_digest(path).hex()
    if digest and not found.startswith(digest):
        raise ValueError(
            f"The file '{path}' is damaged: its SHA-256 digest begins with {found[:8]} and not "
            f"with {digest}. Delete it, so that {weights.url} is downloaded again."
        )
    try:
        torch.load(path, map_location="cpu", weights_only=True, mmap=_is_mappable(path))
    except UnpicklingError as error:
        raise ValueError(
            f"The file '{path}' holds more than weights, and is not read because that could run "
            f"any code. Delete it, so that {weights.url} is downloaded again."
        ) from error


def _is_mappable(path):
    with open(path, "rb") as file:
        return file.read(2) == b"PK" or None
