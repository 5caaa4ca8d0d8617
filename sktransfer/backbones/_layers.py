"""The layers of a backbone: several from one pass, and each as a backbone of its own."""

from copy import copy, deepcopy
from functools import partial

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from sktransfer.backbones._find_layers import ALL_STAGES, check_layer_parameter, find_name

__all__ = ["LayeredBackbone", "layer_candidates"]


class LayeredBackbone:
    """The part of a backbone that knows its layers.

    A subclass computes the features of all layers side by side, batch by batch.
    """

    def _set_points(self, points, parts):
        """Learn where features are taken, from the features of the first rows."""
        self._points = points
        self.layer_names_ = tuple(point.name for point in points)
        ends = np.cumsum([part.shape[1] for part in parts]).tolist()
        self.layer_slices_ = {
            name: slice(end - part.shape[1], end)
            for name, part, end in zip(self.layer_names_, parts, ends, strict=True)
        }
        self.probe_features_ = np.concatenate(parts, axis=1)
        self.n_features_out_ = self._n_features_out = ends[-1]

    def extract_layers(self, X):
        """Compute the features of each layer in one forward pass.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data as in ``transform``.

        Returns
        -------
        features : dict of str to ndarray of shape (n_samples, n_layer_features), float32
            By the names in ``layer_names_``.

        Raises
        ------
        ValueError
            As in ``transform``.
        """
        batches = self._checked(X)
        features = {
            name: np.empty((len(batches), columns.stop - columns.start), dtype=np.float32)
            for name, columns in self.layer_slices_.items()
        }
        for rows, batch, _ in self._iterate(batches):
            for name, columns in self.layer_slices_.items():
                features[name][rows] = batch[:, columns]
        return features

    def with_layers(self, layer):
        """Give an unfitted backbone that differs in the parameter ``layer`` alone.

        It shares the network with this one, where that is a parameter.

        Parameters
        ----------
        layer : str or list of str
            The parameter.

        Returns
        -------
        backbone : object
            The new backbone.
        """
        other = type(self)(**{**self.get_params(deep=False), "layer": layer})
        for name in ("_sklearn_output_config", "_metadata_request"):  # as clone does
            if hasattr(self, name):
                setattr(other, name, deepcopy(getattr(self, name)))
        return other

    def select_layers(self, layer):
        """Give a fitted backbone for some of the layers of this fitted one.

        Both share one network, and no forward pass is needed.

        Parameters
        ----------
        layer : str or list of str
            Names out of ``layer_names_``, or what this backbone's ``layer`` is.

        Returns
        -------
        backbone : object
            What ``with_layers(layer).fit(X)`` would give.

        Raises
        ------
        ValueError
            For other names.
        """
        check_is_fitted(self)
        if isinstance(layer, str) and layer == self.layer:
            return copy(self)
        names = check_layer_parameter(layer)
        if unknown := [name for name in names if name not in self.layer_names_]:
            raise ValueError(
                f"This {type(self).__name__} was not fitted for {unknown}; its layers are "
                f"{list(self.layer_names_)}."
            )
        other = copy(self)
        other.layer = layer
        points = {point.name: point for point in self._points}
        parts = [self.probe_features_[:, self.layer_slices_[name]] for name in names]
        other._set_points(tuple(points[name] for name in names), parts)
        return other


def layer_candidates(backbone, layers=ALL_STAGES, X=None, *, name=None):
    """Make the layers of a network candidates of their own.

    Parameters
    ----------
    backbone : backbone that runs a torch network
        It may be fitted; it is not changed.
    layers : "all stages" or sequence of str, default="all stages"
        Dotted names of layers, "penultimate" among them, or "all stages", which finds by structure
        the last layer of each resolution or some blocks of a transformer.
    X : array or sequence, default=None
        Data for the backbone, to find its stages with; two rows are enough. Not needed if the
        backbone is fitted, or its preprocessing tells the size and channels of its input, or the
        layers are named.
    name : str, default=None
        What the network is called; None takes the backbone's own name.

    Returns
    -------
    candidates : list of (str, backbone) tuples
        Names such as ``"mobilenet_v2@features.7"`` and backbones, not fitted, that differ in the
        parameter ``layer`` alone and share one network, so that a
        :class:`~sktransfer.model_selection.TransferabilitySelector` runs it once for all of them.

    Raises
    ------
    TypeError
        If the backbone is none that runs a torch network.
    ValueError
        If stages cannot be found without data, or a layer is not in the network of a fitted
        backbone.

    Examples
    --------
    >>> from sktransfer.backbones import TinyZooBackbone, layer_candidates
    >>> for name, backbone in layer_candidates(TinyZooBackbone("fashion")):
    ...     print(name)
    fashion@stages.0
    fashion@stages.1
    fashion@stages.2
    """
    if not isinstance(backbone, LayeredBackbone):
        raise TypeError(
            "layer_candidates takes a backbone that runs a torch network, such as TorchBackbone, "
            f"got {type(backbone).__name__}."
        )
    name = _name_of(backbone) if name is None else name
    names = check_layer_parameter(layers)
    if names == [ALL_STAGES]:
        names = _stage_names(backbone, X)
    elif hasattr(backbone, "module_"):
        for layer in names:
            find_name(backbone.module_, layer)
    return [(f"{name}@{layer}", backbone.with_layers(layer)) for layer in names]


def _name_of(backbone):
    parameters = backbone.get_params(deep=False)
    if "name" in parameters:
        return parameters["name"]
    module = parameters.get("module", backbone)
    if isinstance(module, partial):
        module = module.func
    return getattr(module, "__name__", type(module).__name__)


def _stage_names(backbone, X):
    if backbone.layer == ALL_STAGES and hasattr(backbone, "layer_names_"):
        return backbone.layer_names_
    if X is None:
        X = _made_up_input(backbone)
    elif isinstance(X, (np.ndarray, torch.Tensor, list, tuple)):
        X = X[:2]
    return backbone.with_layers(ALL_STAGES).fit(X).layer_names_


def _made_up_input(backbone):
    """Give two rows of noise of the shape that a backbone takes."""
    random = np.random.default_rng(0)
    shape = getattr(backbone, "input_shape_", None)
    if shape is not None and len(shape) == 1:
        return random.normal(size=(2, *shape)).astype(np.float32)
    if shape is None:
        shape = _input_shape(backbone)
    channels, height, width = shape
    size = (2, height, width) if channels == 1 else (2, height, width, channels)
    return random.integers(0, 256, size=size, dtype=np.uint8)


def _input_shape(backbone):
    reason = ""
    try:
        preprocessing = backbone._make_preprocessing()
        channels, size = preprocessing.channels, preprocessing.size
        if channels is None and len(preprocessing.mean) > 1:
            channels = len(preprocessing.mean)
    except ValueError as error:
        channels = size = None
        reason = f" ({error})"
    if channels is None or size is None:
        raise ValueError(
            f"The stages of the network in {backbone!r} are found by running it, and the shape of "
            f"its input is not known: pass some rows of data as X, or name the layers.{reason}"
        )
    return channels, *size
