"""Any network of torch as a scikit-learn transformer."""

from copy import deepcopy
from numbers import Integral, Real
from threading import Lock

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._classifier_layer import (
    ClassifierLayer,
    find_classifier_layer,
    is_pointwise,
)
from sktransfer.backbones._images import ImagePreprocessing
from sktransfer.utils._sklearn import Interval, StrOptions

__all__ = ["TorchBackbone"]

# Building a network draws from torch's global generator, which only one thread may borrow.
_GENERATOR_LOCK = Lock()


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
    batch_size : int, default=64
        Rows per forward pass; features do not depend on it.
    device : str or torch.device, default="auto"
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Attributes
    ----------
    module_ : nn.Module
        The copy that is run, in evaluation mode.
    classifier_layer_ : str or None
        Name of the classifier layer.
    n_parameters_ : int
        Parameters of the network, with its classifier layer.
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
        self.layer = layer
        self.pooling = pooling
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.device = device

    def _make_module(self):
        module = self.module
        if not isinstance(module, nn.Module):
            with _GENERATOR_LOCK:
                state = torch.get_rng_state()
                try:
                    torch.default_generator.manual_seed(0)
                    module = self.module()
                finally:
                    torch.set_rng_state(state)
            if not isinstance(module, nn.Module):
                raise TypeError(
                    "The 'module' parameter of TorchBackbone must be an nn.Module or a callable "
                    f"that returns one; it returned a {type(module).__name__}."
                )
        if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
            raise ValueError(
                "The network has parameters without a shape (lazy layers): run it once on a batch "
                "before it is used as a backbone."
            )
        try:
            # A factory may hand out the same network every time, so its product is copied too.
            with torch.no_grad():  # otherwise copies in TorchScript depend on the original
                return deepcopy(module, _computed_tensors(module))
        except Exception as error:
            raise ValueError(
                f"The network cannot be copied ({error}); pass a function that builds it and "
                "loads its weights."
            ) from error

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


def _computed_tensors(module):
    """Give copies, by id, of tensors in a network that torch refuses to copy with their history.

    Older weight normalisation keeps such a tensor, and so does any layer that remembers a result.
    """
    return {
        id(value): value.detach().clone()
        for layer in module.modules()
        for value in vars(layer).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    }


class _Named:
    """Stands for a network where an estimator is printed."""

    def __init__(self, module):
        self._module = module

    def __repr__(self):
        n_parameters = sum(parameter.numel() for parameter in self._module.parameters())
        return f"<{type(self._module).__name__}, {n_parameters:,} parameters>"
