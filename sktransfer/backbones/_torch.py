"""Any network of torch as a scikit-learn transformer."""

from abc import abstractmethod
from copy import deepcopy
from numbers import Integral, Real
from threading import Lock

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from sktransfer.backbones._classifier_layer import (
    POINTWISE,
    ClassifierLayer,
    find_classifier_layer,
    is_pointwise,
    run_recorded,
    watch,
)
from sktransfer.backbones._images import ArrayImages, FileImages, ImagePreprocessing, input_kind
from sktransfer.utils._sklearn import Interval, StrOptions, _check_feature_names, _fit_context

__all__ = ["TorchBackbone"]

# Building a network draws from torch's global generator, which only one thread may borrow.
_GENERATOR_LOCK = Lock()


class _Vectors:
    """Rows of a 2-D array, handed to the network as they are."""

    def __init__(self, X):
        self._X = X
        self.shape = X.shape[1:]

    def __len__(self):
        return len(self._X)

    def batch(self, rows):
        return torch.from_numpy(np.array(self._X[rows], dtype=np.float32))


class BaseTorchBackbone(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all backbones that run a torch network share: input, batches, one pass, output.

    A subclass says where the network comes from (``_make_module``), what is done to images
    (``_make_preprocessing``) and which layer is the classifier (``_find_layer``).
    """

    #: Fitting learns nothing from the data: features of rows do not depend on other rows.
    stateless = True

    @abstractmethod
    def _make_module(self):
        """Give a network that belongs to this estimator, never the user's own."""

    @abstractmethod
    def _make_preprocessing(self):
        """Give the ImagePreprocessing, or raise a ValueError that says what is not known."""

    @abstractmethod
    def _find_layer(self, x):
        """Give the ClassifierLayer or None, and the output of one pass."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Build the network and see from two rows how wide its features are.

        Nothing is learned from the data.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Vectors (n, D); images (n, height, width), (n, height, width, channels) or
            (n, channels, height, width), uint8 or floats between 0 and 1; or a 1-D sequence of
            paths of image files or of Pillow images.
        y : ignored
            Present by convention.

        Returns
        -------
        self : object
            The fitted backbone.

        Raises
        ------
        ValueError
            For input of another kind, shape or range, an unknown device, preprocessing that is not
            known, files that cannot be read, or a network that cannot take such input.
        """
        batches = self._as_batches(X, reset=True)
        self.device_ = _resolve_device(self.device)
        module = self._make_module()
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        self.n_parameters_ = sum(parameter.numel() for parameter in module.parameters())
        self.module_ = module.eval().to(self.device_)
        floating = (p.dtype for p in module.parameters() if p.is_floating_point())
        self._dtype = next(floating, torch.float32)
        x = self._to_network(batches.batch(slice(0, 2)))
        with torch.inference_mode():
            try:
                self._layer, output = self._find_layer(x)
            except RuntimeError as error:
                raise ValueError(
                    f"The network cannot take input of shape {tuple(x.shape)}: {error}"
                ) from error
            if self._layer is None and not isinstance(output, torch.Tensor):
                raise ValueError(
                    f"The network returns a {type(output).__name__} where a tensor is expected; "
                    "wrap it in a module that returns the tensor that matters."
                )
            if self._layer is not None:
                watch(self.module_.get_submodule(self._layer.name))
            features, _ = self._forward(x)
        self.classifier_layer_ = None if self._layer is None else self._layer.name
        self._n_features_out = features.shape[1]
        return self

    def transform(self, X):
        """Compute penultimate features.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``fit``; arrays must have the shape per row that ``fit`` saw.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out), float32
            Input of the classifier layer, or the flattened output of a network without one.

        Raises
        ------
        ValueError
            For input as in ``fit``, and for features that are not finite.
        """
        return self.extract(X)[0]

    def _has_source_head(self):
        # Not known before fit: the call itself then says what is missing.
        layer = getattr(self, "_layer", "unknown")
        if layer == "unknown" or (layer is not None and layer.n_outputs > 1):
            return True
        raise AttributeError(
            f"This {type(self).__name__} has no source head: its network does not end in a "
            "classifier layer with at least two outputs, so there are no source probabilities."
        )

    @available_if(_has_source_head)
    def predict_proba(self, X):
        """Compute the probabilities of the source classes.

        Only there if the network ends in a classifier layer with two or more outputs.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``transform``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_source_classes), float32
            Softmax of the outputs of the classifier layer; rows sum to one.

        Raises
        ------
        ValueError
            As in ``transform``.
        """
        return self.extract(X)[1]

    def extract(self, X):
        """Compute features and source probabilities in one forward pass.

        Memory is bounded by one batch plus the output.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``transform``.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out), float32
            As ``transform`` gives them.
        probabilities : ndarray of shape (n_samples, n_source_classes), float32, or None
            As ``predict_proba`` gives them; None without a source head.

        Raises
        ------
        ValueError
            As in ``transform``.
        """
        check_is_fitted(self)
        batches = self._as_batches(X, reset=False)
        n = len(batches)
        features = np.empty((n, self._n_features_out), dtype=np.float32)
        probabilities = None
        for start in range(0, n, self.batch_size):
            rows = slice(start, min(start + self.batch_size, n))
            with torch.inference_mode():
                batch_features, logits = self._forward(self._to_network(batches.batch(rows)))
                features[rows] = batch_features.float().cpu().numpy()
                if logits is not None:
                    if probabilities is None:
                        probabilities = np.empty((n, logits.shape[1]), dtype=np.float32)
                    probabilities[rows] = logits.double().softmax(dim=1).float().cpu().numpy()
            self._raise_for_not_finite(features[rows], start)
        return features, probabilities

    def _raise_for_not_finite(self, features, start):
        finite = np.isfinite(features)
        if not finite.all():
            bad = np.flatnonzero(~finite.all(axis=1))
            raise ValueError(
                f"The features of {self!r} contain NaN or infinite values, first in row "
                f"{start + bad[0]} ({len(bad)} of the {len(features)} rows of its batch)."
            )

    def _forward(self, x):
        """Give features (n, D) and source logits (n, K) or None of one batch."""
        output, calls = run_recorded(self.module_, x)
        if self._layer is None:
            features, logits = output, None
        elif not calls:
            raise ValueError(f"The network never calls its layer '{self._layer.name}'.")
        else:
            layer, features, logits = calls[-1]
            if isinstance(layer, POINTWISE):  # features and logits have positions to average over
                features, logits = (
                    t.flatten(2).mean(dim=2) for t in (features, output[:, :, None])
                )
            elif features.ndim != 2:
                raise ValueError(
                    f"Features must have shape (n_samples, n_features), but the input of the layer "
                    f"'{self._layer.name}' has shape {tuple(features.shape)}."
                )
            if self._layer.n_outputs < 2:
                logits = None
        if features.ndim == 0 or len(features) != len(x):
            raise ValueError(
                f"The network gave features of shape {tuple(features.shape)} for {len(x)} rows."
            )
        return features.reshape(len(x), -1), logits

    def _to_network(self, batch):
        return batch.to(device=self.device_, dtype=self._dtype)

    def _as_batches(self, X, reset):
        """Check the input as a whole and wrap it; shapes are learned if ``reset``."""
        if isinstance(X, torch.Tensor):
            X = X.detach().cpu()
            X = (X.float() if X.dtype in (torch.bfloat16, torch.float16) else X).numpy()
        kind = input_kind(X)
        if kind == "vectors":
            if not reset and self._input_kind != "vectors":
                self._raise_for_shape("2-D data", "images")
            batches = _Vectors(validate_data(self, X, reset=reset))
        else:
            wrap = ArrayImages if kind == "images" else FileImages
            batches = wrap(X, self._make_preprocessing())
            if reset:
                # What an earlier fit on vectors has left.
                _check_feature_names(self, np.empty((1, 1)), reset=True)
                vars(self).pop("n_features_in_", None)
                if batches.shape is not None:
                    self.n_features_in_ = int(np.prod(batches.shape))
            elif self._input_kind == "vectors":
                self._raise_for_shape("images", "2-D data")
            elif batches.shape != self.input_shape_ and None not in (
                batches.shape,
                self.input_shape_,
            ):
                self._raise_for_shape(
                    f"images of shape {batches.shape}", f"images of shape {self.input_shape_}"
                )
        if reset:
            self._input_kind = kind
            self.input_shape_ = batches.shape
        return batches

    def _raise_for_shape(self, found, expected):
        raise ValueError(
            f"X has {found}, but {type(self).__name__} is expecting {expected} as input "
            "(images are counted as channels, height, width)."
        )

    def __getstate__(self):
        # Weights on a GPU would make a pickle that a machine without one cannot read.
        state = super().__getstate__().copy()
        if state.get("device_", torch.device("cpu")).type == "cuda":
            state["module_"] = deepcopy(state["module_"]).cpu()
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if getattr(self, "device_", torch.device("cpu")).type != "cpu":
            if not torch.cuda.is_available():
                self.device_ = torch.device("cpu")
            self.module_.to(self.device_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


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
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str, torch.device],
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
        batch_size=64,
        device="auto",
    ):
        self.module = module
        self.classifier = classifier
        self.input_size = input_size
        self.channels = channels
        self.mean = mean
        self.std = std
        self.interpolation = interpolation
        self.batch_size = batch_size
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
            return deepcopy(module)
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
        if self.classifier == "auto":
            return find_classifier_layer(self.module_, x)
        output = self.module_(x)
        if self.classifier is None:
            return None, output
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
        return ClassifierLayer(self.classifier, n_outputs), output

    def __repr__(self, N_CHAR_MAX=700):
        if not isinstance(self.module, nn.Module):
            return super().__repr__(N_CHAR_MAX)
        # A network prints one line per layer; its class and size say enough here.
        parameters = self.get_params(deep=False)
        parameters["module"] = _Named(self.module)
        return BaseEstimator.__repr__(type(self)(**parameters), N_CHAR_MAX)


class _Named:
    """Stands for a network where an estimator is printed; callable, as the parameter must be."""

    def __init__(self, module):
        self._module = module

    def __call__(self):
        return self._module

    def __repr__(self):
        n_parameters = sum(parameter.numel() for parameter in self._module.parameters())
        return f"<{type(self._module).__name__}, {n_parameters:,} parameters>"


def _resolve_device(device):
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"The 'device' parameter must be 'auto' or a device that torch knows, got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"The 'device' parameter asks for {str(resolved)!r}, but torch sees no CUDA device "
            "here; 'auto' takes the CPU then."
        )
    return resolved
