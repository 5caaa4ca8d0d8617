"""Any network of torch as a scikit-learn transformer."""

from numbers import Integral, Real
from os import PathLike

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._building import copied, has_random_weights
from sktransfer.backbones._classifier_layer import (
    ClassifierLayer,
    find_classifier_layer,
    is_pointwise,
)
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._images import ImagePreprocessing
from sktransfer.backbones._weight_loading import (
    ANY_LAYER,
    check_loaded,
    load_weights,
    without_source,
)
from sktransfer.utils._sklearn import Interval, StrOptions

__all__ = ["TorchBackbone"]


class TorchBackbone(BaseTorchBackbone):
    """Penultimate features and source probabilities of a torch network, from one pass.

    Features are the input of the network's last learned classifier layer, which is found by
    looking at a forward pass; source probabilities are the softmax of what that layer gives. A
    network without such a layer (it ends in pooling, say) gives its flattened output.

    The network is copied before it is used. Its mode, parameters, buffers, hooks and gradients stay
    as they are, and training it further does not change a fitted backbone.

    Parameters
    ----------
    module : nn.Module or callable
        The network, or a function or class that is called without arguments and returns it. A
        factory keeps ``clone`` and ``repr`` light. It is called with torch's generator seeded by
        zero, and the state of the generator is put back afterwards.
    classifier : str or None, default="auto"
        Dotted name of the classifier layer; "auto" finds it, None takes the output of the network
        as features.
    input_size : int, (int, int) or None, default=None
        Height and width that images are resized to; None leaves their size alone.
    channels : int or None, default=None
        1 turns colour images into grey ones, 3 repeats grey ones; None leaves channels alone.
    mean, std : float or sequence of float, default=None
        Normalisation of the images the network was trained on, one number or one per channel, for
        pixels between 0 and 1. They must be given for images: wrong statistics spoil features
        without a sign. ``mean=0.0, std=1.0`` leaves pixels between 0 and 1.
    interpolation : {"bilinear", "bicubic", "nearest"}, default="bilinear"
        How to resize.
    checkpoint : str, path or None, default=None
        File of weights that are loaded into the network, see :meth:`from_checkpoint`.
    checkpoint_head : {"auto", "required", "ignore"}, default="auto"
        Whether its classifier layer is taken, see :meth:`from_checkpoint`.
    checkpoint_prefix : str, default="auto"
        What is before the names of the weights in it, see :meth:`from_checkpoint`.
    layer : str or list of str, default="penultimate"
        Where features are taken. "penultimate": the input of the classifier layer, or the output
        of a network without one. The dotted name of a layer: its output, pooled. A list of these:
        their features side by side, from one pass. "all stages": layers found by structure, the
        last one of each resolution, or four blocks of a network that keeps its resolution, and
        "penultimate" if that is something else than the last of them. A layer that is called
        several times needs the number of the call, counted from 0: ``"block:1"``.
    pooling : {"auto", "cls", "mean", "flatten"}, default="auto"
        How the output of a named layer becomes one vector per row. "mean" averages over all
        positions of a map, whichever axis holds its channels, and over the patches of a sequence
        of tokens, leaving out class tokens, registers and the like. "cls" takes the class token.
        "auto" takes the class token where there is one, and the mean otherwise. "flatten" keeps
        all numbers.
    batch_size : int, default=64
        Rows per forward pass; features do not depend on it.
    n_workers : int, default=0
        Threads that read and prepare batches while the network is busy with earlier ones. Neither
        features nor their order depend on it.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Attributes
    ----------
    module_ : nn.Module
        The copy that is run, in evaluation mode.
    classifier_layer_ : str or None
        Name of the classifier layer.
    n_features_out_ : int
        Number of features, all layers together.
    layer_names_ : tuple of str
        The layers whose features are given.
    layer_slices_ : dict of str to slice
        Columns of the features of each layer.
    probe_features_ : ndarray of shape (n_rows, n_features_out), float32
        Features of the first two rows that ``fit`` saw.
    n_parameters_ : int
        Parameters of the network, with its classifier layer.
    pretrained_ : bool or None
        True if a checkpoint was loaded. False if the weights are random: a factory was called with
        two seeds, and no weight came out twice. None if that is not known: for a module, whose
        history cannot be seen, for a factory of networks that keep some weights, and for networks
        of more than 150 million parameters, which are not built twice.
    weights_ : str
        The checkpoint, "untrained" for random weights, otherwise who made them.
    weights_hash_ : str
        SHA-256 of all parameters and buffers: other weights, other candidates.
    loading_report_ : Bunch
        What was loaded from a checkpoint: ``path``; ``container``, the keys under which the file
        keeps the weights; ``prefix``, which was taken away from the names in the file;
        ``added_prefix``, which was put before them; ``n_expected`` and ``n_loaded`` tensors;
        ``head``, the classifier layer if it was not loaded; ``head_loaded`` (None if there is none
        to load); ``missing``, names that are not in the file (``num_batches_tracked``, which plays
        no part, or the classifier layer's); ``mismatched``, shapes in the file and the network by
        name; ``unexpected``, names in the file that were not used; ``unused_layers``, layers that
        the network lacks; ``hidden_normalization``, "on" or "off" for a network with
        ``transform_input``, as GoogLeNet and Inception have, and "missing" where torchvision's own
        weights need it and it is off. Only with a checkpoint.
    versions_ : dict of str to str
        Versions of the libraries that decide the features.
    device_ : torch.device
        Where the network runs.
    input_shape_ : tuple or None
        Shape of one row: (D,) for vectors, (channels, height, width) for images in arrays, None for
        files.
    n_features_in_ : int
        Numbers per row. Not there after a fit on files.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if ``X`` was a data frame whose names are all strings.

    See Also
    --------
    TorchvisionBackbone : The networks of torchvision, with their own preprocessing.
    TimmBackbone : The networks of timm, with their own preprocessing.
    TinyZooBackbone : A network that ships with this package.

    Notes
    -----
    A last layer with a single output may be a regression: features are its input, and there are no
    source probabilities. Where the last learned layer is a convolution with kernel size one,
    features are the mean of its input over all positions.

    The layers of TorchScript modules cannot be watched: they are accepted with ``classifier=None``
    only, which gives their output. A surrounding ``torch.autocast`` has no effect.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sktransfer.backbones import TorchBackbone
    >>> network = nn.Sequential(
    ...     nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    ... )
    >>> images = np.zeros((5, 28, 28), dtype=np.uint8)
    >>> backbone = TorchBackbone(network, mean=0.5, std=0.5).fit(images)
    >>> backbone.classifier_layer_
    '4'
    >>> features, probabilities = backbone.extract(images)
    >>> features.shape, features.dtype, probabilities.shape
    ((5, 4), dtype('float32'), (5, 3))
    """

    _parameter_constraints: dict = {
        "module": [callable],
        "classifier": [str, None],
        "input_size": [Interval(Integral, 1, None, closed="left"), tuple, list, None],
        "channels": [Interval(Integral, 1, None, closed="left"), None],
        "mean": [Real, "array-like", None],
        "std": [Real, "array-like", None],
        "interpolation": [StrOptions({"nearest", "bilinear", "bicubic"})],
        "checkpoint": [str, PathLike, None],
        "checkpoint_head": [StrOptions({"auto", "required", "ignore"})],
        "checkpoint_prefix": [str],
        **BaseTorchBackbone._parameter_constraints,
    }

    def __init__(
        self,
        module,
        *,
        classifier="auto",
        input_size=None,
        channels=None,
        mean=None,
        std=None,
        interpolation="bilinear",
        checkpoint=None,
        checkpoint_head="auto",
        checkpoint_prefix="auto",
        layer="penultimate",
        pooling="auto",
        batch_size=64,
        n_workers=0,
        device="auto",
    ):
        self.module = module
        self.classifier = classifier
        self.input_size = input_size
        self.channels = channels
        self.mean = mean
        self.std = std
        self.interpolation = interpolation
        self.checkpoint = checkpoint
        self.checkpoint_head = checkpoint_head
        self.checkpoint_prefix = checkpoint_prefix
        self.layer = layer
        self.pooling = pooling
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.device = device

    @classmethod
    def from_checkpoint(cls, factory, path, *, head="auto", prefix="auto", **parameters):
        """Make a backbone out of a network and a file with its weights.

        The file is tried at once: a network is built and loaded, and given up again. ``fit`` does
        it once more, so the file must still be there then.

        Parameters
        ----------
        factory : callable or nn.Module
            Function or class that is called without arguments and returns the network, with any
            weights; or such a network.
        path : str or path
            File of weights in the format of safetensors or of ``torch.save``, also as a part of
            what training scripts save, such as ``{"net": state_dict, "epoch": 3}``. Objects other
            than tensors and plain data are never rebuilt, because that could run any code.
        head : {"auto", "required", "ignore"}, default="auto"
            What to do with the classifier layer. Its weights may be missing or of another shape
            ("auto": a warning says so, and there are no source probabilities), or that is an error
            ("required"), or the network's source classes are of no interest ("ignore").
        prefix : str, default="auto"
            What is before the network's own names in the file, such as "module.". "auto" finds it.
        **parameters : dict
            Further parameters of the class.

        Returns
        -------
        backbone : TorchBackbone
            Not fitted.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged, cannot be read without running code that is in it, or has not
            all the weights of the network (those of the classifier layer aside) in the right shape.

        Warns
        -----
        HeadNotLoadedWarning
            In ``fit``, if the classifier layer is not in the file.
        CheckpointMismatchWarning
            In ``fit``, if the file has further layers in the middle of the network, or is one of
            torchvision's that needs ``transform_input=True`` and the network has not.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import torch
        >>> from sktransfer.backbones import TinyResNet, TorchBackbone
        >>> def build():
        ...     return TinyResNet(n_classes=10)
        >>> with tempfile.NamedTemporaryFile(suffix=".pth") as file:
        ...     torch.save({"net": torch.nn.DataParallel(build()).state_dict()}, file.name)
        ...     backbone = TorchBackbone.from_checkpoint(build, file.name, mean=0.5, std=0.5)
        ...     features = backbone.fit_transform(np.zeros((4, 28, 28)))
        >>> features.shape, backbone.pretrained_
        ((4, 64), True)
        >>> report = backbone.loading_report_
        >>> report.container, report.prefix, report.head_loaded
        ('net', 'module.', True)
        """
        backbone = cls(
            factory,
            checkpoint=path,
            checkpoint_head=head,
            checkpoint_prefix=prefix,
            **parameters,
        )
        backbone._validate_params()
        backbone._load(backbone._build())
        return backbone

    def _make_module(self):
        module = self._build()
        vars(self).pop("loading_report_", None)
        if self.checkpoint is None:
            is_factory = not isinstance(self.module, nn.Module)
            is_random = is_factory and has_random_weights(self.module, module)
            self.pretrained_ = False if is_random else None
            made = "made by a factory" if is_factory else "passed as a module"
            self.weights_ = "untrained" if is_random else made
        else:
            self.loading_report_ = check_loaded(self._load(module))
            self.pretrained_, self.weights_ = True, str(self.checkpoint)
        return module

    def _load(self, module):
        return load_weights(
            module,
            self.checkpoint,
            prefix=self.checkpoint_prefix,
            head=self.checkpoint_head,
            classifier=ANY_LAYER if self.classifier == "auto" else self.classifier,
        )

    def _build(self):
        if isinstance(self.module, nn.Module):
            return copied(self.module)
        with borrowed_generators(0):
            module = self.module()
        if not isinstance(module, nn.Module):
            raise TypeError(
                "The 'module' parameter of TorchBackbone must be an nn.Module or a callable "
                f"that returns one; it returned a {type(module).__name__}."
            )
        # A factory may hand out the same network every time, so its product is copied too.
        return copied(module)

    def _make_preprocessing(self):
        missing = [name for name in ("mean", "std") if getattr(self, name) is None]
        if missing:
            raise ValueError(
                f"The 'mean' and 'std' parameters of {type(self).__name__} are needed for images: "
                f"the normalisation that the network was trained with. Got None for "
                f"{' and '.join(missing)}; use mean=0.0, std=1.0 for a network that was trained on "
                "pixels between 0 and 1."
            )
        mean, std = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (self.mean, self.std))
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise ValueError(
                f"'mean' must be finite and 'std' positive, got {self.mean} and {self.std}."
            )
        size = self.input_size
        if size is not None:
            size = (size, size) if isinstance(size, Integral) else tuple(size)
            if len(size) != 2 or not all(isinstance(v, Integral) and v > 0 for v in size):
                raise ValueError(
                    "The 'input_size' parameter must be one positive integer or two, height and "
                    f"width; got {self.input_size}."
                )
        return ImagePreprocessing(
            tuple(mean.tolist()), tuple(std.tolist()), size, self.channels, self.interpolation
        )

    def _find_layer(self, x):
        layer, output = self._find_classifier(x)
        if self.checkpoint is not None:
            layer = without_source(layer, self.loading_report_, self.checkpoint_head)
        return layer, output

    def _find_classifier(self, x):
        if self.classifier is None:
            return None, self.module_(x)
        if any(isinstance(layer, torch.jit.ScriptModule) for layer in self.module_.modules()):
            raise ValueError(
                "The network is or has a TorchScript module, whose layers cannot be watched: pass "
                "the nn.Module it was made of, or take its output as features by classifier=None."
            )
        if self.classifier == "auto":
            return find_classifier_layer(self.module_, x)
        output = self.module_(x)
        layers = {
            name: layer
            for name, layer in self.module_.named_modules()
            if isinstance(layer, nn.Linear) or is_pointwise(layer)
        }
        if self.classifier not in layers:
            raise ValueError(
                "The 'classifier' parameter must be 'auto', None or the name of a linear layer (or "
                f"a convolution with kernel size 1) of the network, which are {list(layers)}; got "
                f"{self.classifier!r}."
            )
        layer = layers[self.classifier]
        n_outputs = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
        return ClassifierLayer(self.classifier, n_outputs, is_output=False), output

    def __repr__(self, N_CHAR_MAX=700):
        if not isinstance(self.module, nn.Module):
            return super().__repr__(N_CHAR_MAX)
        # A network prints one line per layer; its class and size say enough here.
        parameters = self.get_params(deep=False)
        parameters["module"] = _Named(self.module)
        return BaseEstimator.__repr__(type(self)(**parameters), N_CHAR_MAX)


class _Named:
    """Stands for a network where an estimator is printed."""

    def __init__(self, module):
        self._module = module

    def __repr__(self):
        n_parameters = sum(parameter.numel() for parameter in self._module.parameters())
        return f"<{type(self._module).__name__}, {n_parameters:,} parameters>"
