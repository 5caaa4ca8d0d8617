"""The networks of timm, by name."""

import os
from dataclasses import replace
from os import PathLike

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._named import NamedBackbone, did_you_mean
from sktransfer.backbones._preprocessing import ImagePreprocessing
from sktransfer.backbones._weight_loading import check_loaded, load_weights, without_source

__all__ = ["TimmBackbone"]

_DEFAULT = "DEFAULT"


class TimmBackbone(NamedBackbone):
    """A network of timm, by name.

    Images of any size and colour are preprocessed the way that timm keeps with the weights: size,
    part and mode of the crop, interpolation, mean and standard deviation of the network's
    ``pretrained_cfg``; grey images get three channels. Features are the input of the network's own
    last learned classifier layer, which is found by looking at a forward pass, and verified:
    applied to the features, it must give the network's logits. The width that timm declares is
    never trusted.

    Parameters
    ----------
    name : str
        Name of the network, with or without the tag of its weights: "resnet18.a1_in1k", or
        "resnet18" for the weights that timm takes by default.
    weights : "DEFAULT", path or None, default="DEFAULT"
        "DEFAULT" are timm's weights of that name, which are downloaded to the cache of the Hugging
        Face hub or found there. A path is a file with other weights, as in
        :meth:`TorchBackbone.from_checkpoint`. None must be asked for: random weights, drawn from a
        fixed seed, a network to compare with, which is marked as "untrained".
    layer : str or list of str, default="penultimate"
        Where features are taken: "penultimate", the input of the classifier layer; the dotted name
        of a layer ("blocks.3"), whose output is taken; a list of these, whose features stand side
        by side; or "all stages".
    pooling : {"auto", "cls", "mean", "flatten"}, default="auto"
        How the output of a named layer becomes a vector, as in :class:`TorchBackbone`. How many
        tokens before those of the patches a transformer has, timm tells (``num_prefix_tokens``).
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
    classifier_layer_ : str or None
        Name of the classifier layer; None for networks that timm has without one, whose output is
        the features.
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
        Tag of timm's weights, or the path of a file; "untrained" for ``weights=None``.
    weights_hash_ : str
        SHA-256 digest of all weights: other weights, another candidate.
    loading_report_ : Bunch
        What was loaded from a file, as :class:`TorchBackbone` tells. Only for a path.
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
    TorchvisionBackbone : The networks of torchvision.
    TorchBackbone : Any network of torch.

    Notes
    -----
    timm is an optional library: ``pip install 'sktransfer[timm]'``; without it ``fit`` raises an
    ImportError. The last layer of networks trained with texts (CLIP, SigLIP) gives no classes:
    features are its input, and there are no source probabilities. Networks with two classifiers
    whose outputs are averaged, as distilled ones have, have no single last layer: name one by
    ``layer``.

    Examples
    --------
    >>> from sktransfer.backbones import TimmBackbone
    >>> TimmBackbone("resnet18.a1_in1k")
    TimmBackbone(name='resnet18.a1_in1k')
    """

    _parameter_constraints: dict = {
        "name": [str],
        "weights": [str, PathLike, None],
        **BaseTorchBackbone._parameter_constraints,
    }
    _packages = ("timm",)

    def __init__(
        self,
        name,
        *,
        weights=_DEFAULT,
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
        config = self._configuration()
        if isinstance(self.weights, str) and self.weights == _DEFAULT and not config.has_weights:
            architecture = self.name.partition(".")[0]
            tagged = _timm().list_pretrained(f"{architecture}.*")
            raise ValueError(
                f"timm has no pretrained weights for {self.name!r}"
                + (f", but for {tagged}" if tagged else "")
                + "; weights=None is a network with random weights."
            )

    def _configuration(self):
        """Give what timm knows of the weights and their preprocessing, its PretrainedCfg."""
        timm = _timm()
        architecture, _, tag = self.name.partition(".")
        if not timm.is_model(architecture):
            names = timm.list_models()
            raise ValueError(
                f"The 'name' parameter of TimmBackbone must be the name of a network of timm, got "
                f"{self.name!r}; {did_you_mean(architecture, names)}"
            )
        try:
            config = timm.models.get_pretrained_cfg(self.name, allow_unregistered=not tag)
        except RuntimeError as error:
            tags = [name.partition(".")[2] for name in timm.list_pretrained(f"{architecture}.*")]
            raise ValueError(
                f"The 'name' parameter of TimmBackbone asks for weights {tag!r} of "
                f"{architecture!r}, which timm does not have; {did_you_mean(tag, tags)}"
            ) from error
        if config is None or not config.mean or not config.std:
            raise ValueError(
                f"timm does not tell the normalisation (mean and std) that {self.name!r} was "
                "trained with, so images cannot be prepared for it: use TorchBackbone with a "
                "function that makes the network, and give both."
            )
        return config

    def _make_preprocessing(self):
        return ImagePreprocessing.from_timm(self._configuration().to_dict())

    def _make_module(self):
        config = self._configuration()
        vars(self).pop("loading_report_", None)
        self.pretrained_ = self.weights is not None
        if self.weights is None:
            self.weights_ = "untrained"
            return self._create(pretrained=False)
        if isinstance(self.weights, str) and self.weights == _DEFAULT:
            self.weights_ = config.tag or _DEFAULT
            return self._fetched(config)
        self.weights_ = str(self.weights)
        module = self._create(pretrained=False)
        self.loading_report_ = check_loaded(load_weights(module, self.weights))
        return module

    def _create(self, pretrained):
        with borrowed_generators(0):
            return _timm().create_model(self.name, pretrained=pretrained)

    def _fetched(self, config):
        try:
            return self._create(pretrained=True)
        except Exception as error:  # those of several libraries for downloads
            reason = (str(error).strip().splitlines() or [""])[0]
            kind = FileNotFoundError if _is_about_files(error) else ValueError
            raise kind(
                f"The weights of timm's {self.name!r} cannot be loaded "
                f"({type(error).__name__}: {reason.rstrip('.')[:300]}): {_where(config)} "
                "(weights=None is a network with random weights, and a path one with those of a "
                "file.)"
            ) from error

    def _n_classes(self):
        return getattr(self.module_, "num_classes", None)

    def _find_layer(self, x):
        layer, output = super()._find_layer(x)
        report = vars(self).get("loading_report_")
        if report is not None:
            layer = without_source(layer, report, "auto")
        if layer is not None and not layer.no_source and _is_projection(self._configuration()):
            reason = f"its last layer '{layer.name}' brings images to where texts are"
            layer = replace(layer, no_source=f"{reason} and tells no classes")
        return layer, output


def _timm():
    try:
        import timm
    except ImportError as error:
        raise ImportError(
            f"TimmBackbone needs timm, which comes with pip install 'sktransfer[timm]' ({error})."
        ) from error
    return timm


def _is_projection(config):
    """Whether the last layer brings images to a space shared with texts and tells no classes.

    timm gives both as a number of classes. That of a space is a multiple of 64, and none of the
    label sets has such a size.
    """
    return config.num_classes % 64 == 0


def _is_about_files(error):
    """Whether something is not there or not reachable; errors of connections have many classes."""
    return isinstance(error, OSError) or "Connect" in type(error).__name__


def _where(config):
    if config.hf_hub_id:
        from huggingface_hub.constants import HF_HUB_CACHE

        return (
            f"they are at https://huggingface.co/{config.hf_hub_id} and are kept in the folder "
            f"'{HF_HUB_CACHE}', which HF_HOME moves."
        )
    from torch.hub import get_dir

    folder = os.path.join(get_dir(), "checkpoints")
    return f"they are at {config.url} and are kept in the folder '{folder}'."
