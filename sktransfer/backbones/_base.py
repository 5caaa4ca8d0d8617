"""What backbones that run a torch network share: input, batches, one pass, output."""

from abc import abstractmethod
from contextlib import closing
from copy import deepcopy
from hashlib import sha256
from numbers import Integral

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktransfer.backbones._capture import Capture
from sktransfer.backbones._classifier_layer import check_head
from sktransfer.backbones._find_layers import resolve_layers
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._layers import LayeredBackbone
from sktransfer.backbones._network_input import NetworkInput, resolve_device
from sktransfer.backbones._pooling import POOLINGS
from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._provenance import architecture_digest, versions, weights_hash
from sktransfer.backbones._recording import plain_inference, watch
from sktransfer.exceptions import RandomFeaturesWarning
from sktransfer.utils._announce import announce
from sktransfer.utils._progress import report_rows
from sktransfer.utils._sklearn import Interval, StrOptions, _fit_context

__all__ = ["BaseTorchBackbone"]


class BaseTorchBackbone(
    LayeredBackbone,
    NetworkInput,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """What all backbones that run a torch network share: input, batches, one pass, output.

    A subclass says where the network comes from (``_make_module``), what is done to images
    (``_make_preprocessing``) and which layer is the classifier (``_find_layer``).
    """

    #: Fitting learns nothing from the data: features of rows do not depend on other rows.
    stateless = True
    #: Of files, what is in them decides the features, and never how they are called.
    reads_names = False

    # Every backbone has these; a subclass adds its own.
    _parameter_constraints: dict = {
        "layer": [str, list, tuple],
        "pooling": [StrOptions(set(POOLINGS))],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_workers": [Interval(Integral, 0, None, closed="left")],
        "device": [str, torch.device],
    }

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
        self.device_ = resolve_device(self.device)
        module = self._make_module()
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        self.n_parameters_ = sum(parameter.numel() for parameter in module.parameters())
        self.weights_hash_ = weights_hash(module)
        self.versions_ = versions(*self._packages, module=module)
        self.module_ = module.eval().to(self.device_)
        self._architecture = architecture_digest(self.module_)
        floating = (p.dtype for p in module.parameters() if p.is_floating_point())
        self._dtype = next(floating, torch.float32)
        with borrowed_generators() as have_drawn, plain_inference(self.device_):
            x = self._to_network(batches.batch(slice(0, 2)))
            try:
                self._layer, _ = self._find_layer(x)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, AssertionError, IndexError) as error:
                raise ValueError(
                    f"The network cannot take input of shape {tuple(x.shape)}: {error}"
                ) from error
            points = resolve_layers(self.module_, x, self.layer, self.pooling, self._layer)
            watched = {point.layer for point in points if point.layer is not None}
            if self._layer is not None:
                check_head(self.module_, x, self._layer)
                watched.add(self._layer.name)
            for layer in {self.module_.get_submodule(name) for name in watched}:
                watch(layer)
            capture = Capture(self.module_, points, self._layer)
            parts, _ = capture(x)
            _refuse_dependent_rows(capture, x, parts)
            self._draws = have_drawn()
        self.classifier_layer_ = None if self._layer is None else self._layer.name
        self._set_points(points, [part.float().cpu().numpy() for part in parts])
        return self

    # Distributions beside sktransfer and torch that decide what the network computes.
    _packages = ()

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
        if layer == "unknown" or (layer is not None and layer.gives_source):
            return True
        reason = (
            "its network does not end in a classifier layer with at least two outputs"
            if layer is None or not layer.no_source
            else layer.no_source
        )
        raise AttributeError(
            f"This {type(self).__name__} has no source head: {reason}, so there are no source "
            "probabilities."
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
        batches = self._checked(X)
        n, probabilities = len(batches), None
        features = np.empty((n, self._n_features_out), dtype=np.float32)
        for rows, _, batch_probabilities in self._iterate(batches, features=features):
            if batch_probabilities is not None:
                if probabilities is None:
                    shape = (n, batch_probabilities.shape[1])
                    probabilities = np.empty(shape, dtype=np.float32)
                probabilities[rows] = batch_probabilities
        return features, probabilities

    def iter_extract(self, X, start=0):
        """Compute features and source probabilities batch by batch, keeping nothing.

        The input is checked at once, and work is done as batches are asked for.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``transform``.
        start : int, default=0
            First row: work that was interrupted goes on from there.

        Returns
        -------
        batches : iterator of (rows, features, probabilities)
            The rows of a batch as a slice; their features, float32 of shape (n_rows,
            n_features_out); their source probabilities, float32 of shape (n_rows,
            n_source_classes), or None without a source head.

        Raises
        ------
        ValueError
            As in ``transform``, and for a start that is no row.
        """
        batches = self._checked(X)
        if not (isinstance(start, Integral) and 0 <= start <= len(batches)):
            raise ValueError(
                f"'start' must be a row number from 0 to {len(batches)}, got {start!r}."
            )
        return self._iterate(batches, start)

    def _checked(self, X):
        check_is_fitted(self)
        return self._as_batches(X, reset=False)

    def _iterate(self, batches, start=0, features=None):
        """Yield rows, features, and probabilities or None, batch by batch.

        Features of all rows are written into ``features``, where that is given.
        """
        columns = tuple(self.layer_slices_.values())
        capture = Capture(self.module_, self._points, self._layer)
        # Closed here, so that no thread reads on when this loop ends early.
        with closing(iter_batches(batches, self.batch_size, start, self.n_workers)) as parts:
            for rows, batch in parts:
                if features is None:
                    found = np.empty((len(batch), self._n_features_out), dtype=np.float32)
                else:
                    found = features[rows]
                with plain_inference(self.device_, self._draws):
                    into = torch.from_numpy(found)
                    into = [into[:, part] for part in columns]
                    logits = capture(self._to_network(batch), into)[1]
                    probabilities = None
                    if logits is not None:
                        probabilities = logits.float().softmax(dim=1).cpu().numpy()
                # Not kept while the caller works and the next batch is read.
                del batch, logits, into
                self._raise_for_not_finite(found, rows.start)
                report_rows(rows.stop, len(batches))
                yield rows, found, probabilities

    def _raise_for_not_finite(self, features, start):
        flat = features.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            # One number tells of all without an array of answers; it may overflow by itself.
            if np.isfinite(np.dot(flat, flat)):
                return
        finite = np.isfinite(features)
        if not finite.all():
            bad = np.flatnonzero(~finite.all(axis=1))
            raise ValueError(
                f"The features of {self!r} contain NaN or infinite values, first in row "
                f"{start + bad[0]} ({len(bad)} of the {len(features)} rows of its batch)."
            )

    def _forward(self, x):
        """Give features (n, D) and source logits (n, K) or None of one batch."""
        parts, logits = Capture(self.module_, self._points, self._layer)(x)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1), logits

    def fingerprint(self):
        """Give a digest of everything that decides the features, apart from the data.

        Returns
        -------
        fingerprint : str
            SHA-256 in hex over weights, architecture, layers and their pooling, preprocessing,
            number format and library versions. Equal in all processes and on all devices; neither
            ``batch_size`` nor ``n_workers`` nor ``device`` matters.
        """
        check_is_fitted(self)
        preprocessing = None
        if self._input_kind != "vectors":
            preprocessing = self._make_preprocessing().digest()
        content = (
            f"{type(self).__module__}.{type(self).__qualname__}",
            self.weights_hash_,
            self._architecture,
            self._points,
            self._layer,
            preprocessing,
            str(self._dtype),
            sorted(self.versions_.items()),
        )
        return sha256(repr(content).encode()).hexdigest()

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


def _refuse_dependent_rows(capture, x, parts):
    """Refuse a network that gives a row other features in other company.

    Its layers may be in training mode where no mode can be set, or it compares rows.
    """
    largest = [float(part.abs().max()) for part in parts]
    if not np.isfinite(largest).all():
        return  # said where features are used
    tolerance = 5e-2 if x.element_size() == 2 else 1e-3

    def differ(others):
        return any(
            not torch.allclose(a[:1], b[:1], rtol=0, atol=tolerance * size)
            for a, b, size in zip(parts, others, largest, strict=True)
        )

    alone = torch.cat([x[:1], x[:1]])
    if not differ(capture(alone)[0]):
        return
    if differ(capture(x)[0]):
        announce(
            "The network gives the same rows other features each time: something in it draws "
            "random numbers although it is not in training (such as a dropout that is called as a "
            "function), or remembers earlier calls. Scores hang on that.",
            RandomFeaturesWarning,
        )
    else:
        raise ValueError(
            "The features that the network gives for a row depend on the other rows of its batch, "
            "as they do in training mode: its layers must be registered, so that its mode can be "
            "set, and must not normalise over the batch."
        )
