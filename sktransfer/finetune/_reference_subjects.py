"""What a reference ranking trains: candidates, and their architectures with random weights."""

from dataclasses import asdict, dataclass, replace
from hashlib import sha256

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._provenance import architecture_digest, weights_hash
from sktransfer.backbones._store_candidate import files_of
from sktransfer.backbones._store_content import Unnameable, content_digest
from sktransfer.backbones._store_hashing import combine
from sktransfer.finetune._scratch import start_from_scratch
from sktransfer.finetune._sources import is_network, make_source

__all__ = ["SCRATCH", "Subject", "describe", "scratch_backbone"]

#: How the names of rows begin whose weights were random.
SCRATCH = "from scratch: "

# Attributes in which networks keep the number of their source classes.
_CLASS_COUNTS = ("num_classes", "n_classes", "num_labels")
_CALLER = "reference_ranking"


@dataclass(frozen=True)
class Subject:
    """A row of the ranking: a candidate, or an architecture that is trained from scratch.

    Parameters
    ----------
    name : str
        What it is called.
    from_scratch : bool
        Whether its weights are random.
    identity : str
        Digest of all that decides its results, apart from protocol and data.
    weights : str or None
        Digest of the pretrained weights; None for what has none.
    n_parameters : int or None
        Parameters of the network.
    pretrained : bool or None
        What the backbone says of its weights.
    twin : str or None
        Name of the row of the same architecture from scratch.
    """

    name: str
    from_scratch: bool
    identity: str
    weights: str | None = None
    n_parameters: int | None = None
    pretrained: bool | None = None
    twin: str | None = None

    def as_dict(self):
        """Give what is known of it, for a file.

        Returns
        -------
        about : dict
            Names and values.
        """
        return asdict(self)


def describe(name, backbone, X, *, head_only, from_scratch):
    """Build a candidate and find out what it is, without training it.

    Parameters
    ----------
    name : str
        Name of the candidate.
    backbone : torch backbone or other transformer
        The candidate. It is left as it is.
    X : array or sequence of shape (n_samples, ...)
        Data that it will be trained on.
    head_only : bool
        Whether its weights stay as they are.
    from_scratch : bool
        Whether its architecture is trained from scratch too.

    Returns
    -------
    subject : Subject
        The candidate.
    twin : Subject or None
        Its architecture with random weights; None if that is not asked for, or it is no network.

    Raises
    ------
    Exception
        Whatever is wrong with the candidate or the data.
    """
    if not is_network(backbone) and head_only:
        return Subject(name, False, _transformer_identity(backbone)), None
    source = make_source(backbone, X, device="cpu", trainable=not head_only, caller=_CALLER)
    fitted = source.backbone
    subject = Subject(
        name,
        False,
        fitted.fingerprint(),
        fitted.weights_hash_,
        fitted.n_parameters_,
        getattr(fitted, "pretrained_", None),
    )
    if not from_scratch:
        return subject, None
    identity = _scratch_identity(fitted)
    twin = Subject(
        f"{SCRATCH}{type(fitted.module_).__name__}-{identity[:6]}",
        True,
        identity,
        n_parameters=sum(p.numel() for p in fitted.module_.parameters()),
    )
    return replace(subject, twin=twin.name), twin


def _transformer_identity(transformer):
    """Digest of a transformer that is not fitted yet: of its parameters, code and files."""
    fresh = clone(transformer)
    try:
        return combine("transformer", content_digest(fresh), *files_of(fresh)).hex()
    except Unnameable as error:
        raise ValueError(
            f"Nothing tells this {type(transformer).__name__} from another one ({error}), so its "
            "results could not be told from those of another one either."
        ) from error


def _scratch_identity(fitted):
    """Digest of what a network is when all it has learned is taken away; changes the network.

    It is about what is built: layers, shapes, the weights that one seed gives, the layer that
    features come from, and the size and channels of its images. The classifier layer does not
    count, for the head replaces it, nor does the normalisation of images, which belongs to what
    the network was pretrained on.
    """
    start_from_scratch(fitted, 0)
    module, classifier = fitted.module_, fitted.classifier_layer_
    if classifier and classifier not in {point.layer for point in fitted._points}:
        module.set_submodule(classifier, nn.Identity())
        for name in set(_CLASS_COUNTS) & vars(module).keys():
            delattr(module, name)
    preprocessing = None
    if fitted._input_kind != "vectors":
        preprocessing = replace(fitted._make_preprocessing(), mean=(0.0,), std=(1.0,)).digest()
    content = (
        architecture_digest(module),
        weights_hash(module),
        [repr(point) for point in fitted._points],
        preprocessing,
        str(fitted._dtype),
    )
    return sha256(repr(content).encode()).hexdigest()


def scratch_backbone(backbone, X):
    """Give a backbone for training from scratch, that has nothing from its pretraining left.

    Its images are normalised by the mean and the standard deviation of the training images
    themselves, so that all candidates of one architecture share it.

    Parameters
    ----------
    backbone : torch backbone, or a wrapper of one
        Any candidate of this architecture.
    X : array or sequence of shape (n_samples, ...)
        Training data.

    Returns
    -------
    backbone : torch backbone
        Not fitted. It still has the pretrained weights, for ``from_scratch=True`` to replace.
    """
    source = make_source(backbone, X, device="cpu", trainable=True, caller=_CALLER)
    inner = source.backbone
    kind = type(inner)
    if inner._input_kind == "vectors":
        return inner.with_layers(inner.layer)
    as_pixels = replace(inner._make_preprocessing(), mean=(0.0,), std=(1.0,))
    inner._make_preprocessing = lambda: as_pixels
    mean, std = _statistics(inner._as_batches(X, reset=False), inner.batch_size)
    return _normalised(kind, mean, std)(**inner.get_params(deep=False))


def _normalised(kind, mean, std):
    """Make a class of backbones that normalises images in another way."""

    def make_preprocessing(self):
        return replace(kind._make_preprocessing(self), mean=mean, std=std)

    return type(kind.__name__, (kind,), {"_make_preprocessing": make_preprocessing})


def _statistics(batches, batch_size):
    """Compute mean and standard deviation of each channel over all images."""
    count, total, squares = 0, 0.0, 0.0
    for _, batch in iter_batches(batches, batch_size, 0, 0):
        pixels = batch.to(torch.float64).transpose(0, 1).flatten(1)
        count += pixels.shape[1]
        total = total + pixels.sum(dim=1)
        squares = squares + (pixels**2).sum(dim=1)
    mean = (total / count).numpy()
    std = np.sqrt(np.maximum((squares / count).numpy() - mean**2, 0.0))
    std[std < 1e-6] = 1.0  # images of one colour
    return tuple(mean.tolist()), tuple(std.tolist())
