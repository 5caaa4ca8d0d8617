"""What backbones that run a torch network share: input, batches, one pass, output."""

from abc import abstractmethod
from copy import deepcopy

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from sktransfer.backbones._classifier_layer import (
    POINTWISE,
    plain_inference,
    run_recorded,
    watch,
)
from sktransfer.backbones._images import ArrayImages, FileImages, input_kind
from sktransfer.utils._sklearn import _check_feature_names, _fit_context
from sktransfer.utils._target import refuse_masked

__all__ = ["BaseTorchBackbone"]


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
            (n, channels, height, width), uint8 or floats between 0 and 1, also as nested lists; or
            a 1-D sequence of paths of image files or of Pillow images.
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
        with plain_inference(self.device_):
            x = self._to_network(batches.batch(slice(0, 2)))
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
            with plain_inference(self.device_):
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
        refuse_masked(X, "X")
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
