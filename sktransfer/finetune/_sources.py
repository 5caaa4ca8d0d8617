"""Where features come from: a network that can be trained, or any other transformer."""

from copy import copy

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from torch import nn

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._network_input import resolve_device
from sktransfer.backbones._untrained import unwrapped
from sktransfer.finetune._rows import TensorRows

__all__ = ["NetworkSource", "TransformerSource", "is_network", "make_source", "unwrapped"]


def make_source(backbone, X, *, device, trainable, caller):
    """Fit an own copy of a backbone, from which features are taken.

    Parameters
    ----------
    backbone : torch backbone or other transformer
        It is left as it is. A fitted one is fitted anew from its parameters.
    X : array or sequence of shape (n_samples, ...)
        Data to fit it on.
    device : str or torch.device
        "auto" is where the backbone itself would run.
    trainable : bool
        Whether its weights are going to be trained, which takes a network.
    caller : str
        Who asks, for messages.

    Returns
    -------
    source : NetworkSource or TransformerSource
        Gives features.

    Raises
    ------
    TypeError
        If it is a class.
    ValueError
        If it has no network whose weights can be trained, or it does not take such data.
    """
    if isinstance(backbone, type):
        raise TypeError(
            f"'backbone' must be an estimator, got the class {backbone.__name__}: make an instance."
        )
    inner = unwrapped(backbone)
    if isinstance(inner, BaseTorchBackbone):
        return NetworkSource(inner, X, device)
    if trainable:
        kind = type(inner).__name__
        raise ValueError(
            f"{caller} trains the weights of a network, and a {kind} has none that can be trained: "
            "'backbone' must be one of the torch backbones of sktransfer.backbones, such as "
            "TorchBackbone; train='head' puts a new head on the features of any transformer."
        )
    return TransformerSource(backbone, X, device)


def is_network(backbone):
    """Tell whether a backbone is a torch network, as it is or in a wrapper.

    Parameters
    ----------
    backbone : estimator
        The backbone.

    Returns
    -------
    is_network : bool
        Whether its weights can be trained.
    """
    return isinstance(unwrapped(backbone), BaseTorchBackbone)


class NetworkSource:
    """Features of a torch backbone, through which gradients flow.

    Parameters
    ----------
    backbone : torch backbone
        Its parameters are used; what it may have fitted is not.
    X : array or sequence of shape (n_samples, ...)
        Data to fit a copy of it on.
    device : str or torch.device
        "auto" takes the backbone's own parameter.

    Attributes
    ----------
    backbone : torch backbone
        The fitted copy.
    module : nn.Module
        Its network. Half precision, in which small steps of training are lost, becomes single.
    n_features : int
        Number of features.
    dtype : torch.dtype
        Of the network.
    draws : bool
        Whether it draws random numbers when it is run.
    """

    def __init__(self, backbone, X, device):
        # Not a clone, which would copy the user's network twice.
        self.backbone = backbone.with_layers(backbone.layer)
        if not (isinstance(device, str) and device == "auto"):
            self.backbone.set_params(device=device)
        with np.errstate(over="ignore"):  # infinite features are reported where they are used
            self.backbone.fit(X)
        self.module = self.backbone.module_
        self.device = self.backbone.device_
        self.dtype = self.backbone._dtype
        if self.dtype in (torch.float16, torch.bfloat16):
            self.module.float()
            self.dtype = self.backbone._dtype = torch.float32
        self.draws = self.backbone._draws
        self.n_features = self.backbone.n_features_out_

    def parameters_in_use(self):
        """Give the parameters that features depend on: all but those of an unused classifier.

        Returns
        -------
        parameters : list of Parameter
            In the order of the network.
        """
        name = self.backbone.classifier_layer_
        unused = set()
        if name is not None and all(point.layer is None for point in self.backbone._points):
            layer = self.module.get_submodule(name)
            unused = {id(p) for p in layer.parameters()}
            inside = f"{name}." if name else ""
            for full_name, parameter in self.module.named_parameters(remove_duplicate=False):
                if not full_name.startswith(inside):  # weights that are shared are in use
                    unused.discard(id(parameter))
        return [p for p in self.module.parameters() if id(p) not in unused]

    def rows(self, X):
        """Wrap data so that they can be read batch by batch, as the network wants them.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data like those of the fit.

        Returns
        -------
        rows : object with ``len`` and ``batch(rows)``
            The data.
        """
        return self.backbone._as_batches(X, reset=False)

    def features(self, x):
        """Compute features of a batch.

        Parameters
        ----------
        x : tensor
            A batch of ``rows(X)``, on the device and in the number format of the network.

        Returns
        -------
        features : tensor of shape (n, n_features)
            With gradients, unless they are switched off.
        """
        return self.backbone._forward(x)[0]

    def without_network(self):
        """Give a copy that can be pickled beside the network.

        Returns
        -------
        source : NetworkSource
            It works again after ``adopt``.
        """
        other = copy(self)
        other.module = None
        other.device = torch.device("cpu")
        other.backbone = copy(self.backbone)
        other.backbone.device_ = other.device
        other.backbone.module_ = None
        return other

    def adopt(self, module, device):
        """Take a network for one's own.

        Parameters
        ----------
        module : nn.Module
            A copy of the network that was there.
        device : torch.device
            Where it lies.
        """
        self.module = self.backbone.module_ = module
        self.device = self.backbone.device_ = device


class TransformerSource:
    """Features of any transformer, which are computed once and have no gradients.

    Parameters
    ----------
    transformer : transformer
        A clone of it is fitted.
    X : array or sequence of shape (n_samples, ...)
        Data to fit it on.
    device : str or torch.device
        Where the head lies.

    Attributes
    ----------
    backbone : transformer
        The fitted clone.
    module : nn.Identity
        Stands for the network.
    n_features : int
        Number of features.
    dtype : torch.dtype
        Single precision.
    draws : bool
        False.
    """

    dtype = torch.float32
    draws = False

    def __init__(self, transformer, X, device):
        self.backbone = clone(transformer)
        if not isinstance(transformer, FrozenEstimator):  # whose fit asks for y, and does nothing
            self.backbone.fit(_in_one_order(X))
        self.device = resolve_device(device)
        self.module = nn.Identity()
        # Of all rows, as some transformers know their own data only; kept for the next call.
        self._last = X, self._transformed(X)
        self.n_features = self._last[1].shape[1]

    def _transformed(self, X):
        features = self.backbone.transform(_in_one_order(X))
        features = features.toarray() if issparse(features) else np.asarray(features)
        if features.ndim != 2 or features.dtype.kind not in "fiub":
            raise ValueError(
                f"{type(self.backbone).__name__} must give features of shape (n_samples, "
                f"n_features), got {features.dtype} of shape {features.shape}."
            )
        features = features.astype(np.float32)
        if not np.isfinite(features).all():
            raise ValueError(
                f"The features of {type(self.backbone).__name__} contain NaN or infinite values."
            )
        return features

    def parameters_in_use(self):
        """Give no parameters.

        Returns
        -------
        parameters : list
            Empty.
        """
        return []

    def rows(self, X):
        """Compute the features of all rows.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Data like those of the fit.

        Returns
        -------
        rows : TensorRows
            The features.
        """
        known, features = self._last or (None, None)
        self._last = None
        if known is not X or features is None:
            features = self._transformed(X)
        return TensorRows(torch.from_numpy(features))

    def features(self, x):
        """Give a batch of features as it is.

        Parameters
        ----------
        x : tensor of shape (n, n_features)
            A batch of ``rows(X)``.

        Returns
        -------
        features : tensor of shape (n, n_features)
            The same.
        """
        return x

    def without_network(self):
        """Give what can be pickled beside the network.

        Returns
        -------
        source : TransformerSource
            A copy.
        """
        return copy(self)

    def adopt(self, module, device):
        """Take over where the head lies.

        Parameters
        ----------
        module : nn.Module
            Stands for the network.
        device : torch.device
            Where the head lies.
        """
        self.module, self.device = module, device


def _in_one_order(X):
    """Bring an array into the order in memory by which sums are rounded in one way."""
    return X if getattr(getattr(X, "flags", None), "c_contiguous", True) else X.copy(order="C")
