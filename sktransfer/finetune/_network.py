"""A metric of raw inputs and the network itself: which network, and its rows in canonical order."""

from contextlib import contextmanager
from hashlib import blake2b
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, validate_data

from sktransfer.backbones._base import BaseTorchBackbone
from sktransfer.backbones._generators import borrowed_generators
from sktransfer.backbones._images import (
    DatasetImages,
    FileImages,
    ImagePreprocessing,
    as_images,
    input_kind,
)
from sktransfer.metrics._base import TransferabilityMetric
from sktransfer.metrics._canonical import canonical_classes, row_keys
from sktransfer.utils._sklearn import HasMethods, _check_feature_names

__all__ = ["NetworkInputs", "NetworkMetric", "undisturbed"]

# What rows of a data set are compared by, whichever network they are for.
_THUMBNAIL = ImagePreprocessing((0.0,), (1.0,), size=(32, 32), channels=3)


class NetworkMetric(TransferabilityMetric):
    """Base class of the metrics that look into a network, the parameter ``backbone``."""

    needs = "inputs"
    tasks = ("classification",)

    _backbone_constraint = (HasMethods(["fit", "transform"]), None)

    def fit(self, X, y):
        """Compute the score of the network for the target.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Inputs as the backbone takes them: images, vectors or paths of files. Never changed.
        y : array-like of shape (n_samples,) or (n_samples, 1)
            Class labels. Only the partition that they make matters, not their names.

        Returns
        -------
        self : object
            The fitted metric; the result is in ``score_``.

        Raises
        ------
        ValueError
            If there is no backbone or it holds no torch network, for inputs that it does not
            take, features that are not finite, or a target that holds no classes.
        """
        return super().fit(X, y)

    def score(self, X, y):
        """Evaluate the metric afresh on other data, with the same network, parameters and seed.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            Inputs of the same kind and shape as in ``fit``.
        y : array-like of shape (n_samples,) or (n_samples, 1)
            Class labels.

        Returns
        -------
        score : float
            The score of the data given, higher is better.
        """
        return super().score(X, y)

    def _validate_features(self, X, y, **check_params):
        if isinstance(X, torch.Tensor):
            X = X.detach().cpu()
            X = (X.float() if X.dtype in (torch.bfloat16, torch.float16) else X).numpy()
        if input_kind(X) == "vectors":
            # The backbone is given what the caller gave, for its names of columns.
            return X, super()._validate_features(X, y, **check_params)[1]
        if check_params.get("reset", True):
            _check_feature_names(self, np.empty((1, 1)), reset=True)  # of an earlier fit
            vars(self).pop("n_features_in_", None)
        y = validate_data(self, y=y, multi_output=True)
        check_consistent_length(X, y)
        return X, y

    def _fresh(self, X):
        # A clone would copy the network.
        backbone, self.backbone = self.backbone, None
        try:
            fresh = super()._fresh(X)
        finally:
            self.backbone = backbone
        fresh.backbone = backbone
        return fresh

    def _prepare(self, X, target):
        """Return the network with its inputs; learn how wide these are."""
        inputs = NetworkInputs(*self._fitted_backbone(X), target.codes)
        self.classes_ = target.classes
        if hasattr(inputs.backbone, "n_features_in_") and not hasattr(self, "n_features_in_"):
            self.n_features_in_ = inputs.backbone.n_features_in_
        return inputs

    def _fitted_backbone(self, X):
        """Return a fitted torch backbone and what it is given."""
        backbone, name = self.backbone, type(self).__name__
        if backbone is None:
            raise ValueError(
                f"{name} needs the network itself, and the 'backbone' parameter is None: pass a "
                f"backbone, as in {name}(backbone=TorchBackbone(...)), or rank candidates by a "
                "TransferabilitySelector, which sets it."
            )
        while not isinstance(backbone, BaseTorchBackbone):
            if isinstance(backbone, FrozenEstimator):
                backbone = backbone.estimator
            elif isinstance(backbone, Pipeline) and len(backbone) == 1:
                backbone = backbone[-1]
            elif isinstance(backbone, Pipeline) and hasattr(backbone[-1], "module_"):
                X, backbone = backbone[:-1].transform(X), backbone[-1]
            else:
                kind = type(backbone).__name__
                if isinstance(backbone, Pipeline):
                    kind += f" that ends in {type(backbone[-1]).__name__}"
                raise ValueError(
                    f"{name} needs the gradients of a torch network, and a {kind} has none: it "
                    "takes backbones of sktransfer.backbones, such as TorchBackbone, or a fitted "
                    "pipeline that ends in one."
                )
        # Fitting learns nothing from the data, so a fitted backbone can be used as it is.
        if not hasattr(backbone, "module_"):
            with np.errstate(over="ignore"):  # infinite features are reported where they are used
                backbone = clone(backbone).fit(X)
        return backbone, X


class NetworkInputs:
    """A fitted backbone and rows for it, in an order that depends on their content alone.

    Parameters
    ----------
    backbone : fitted torch backbone
        The backbone.
    X : array or sequence of shape (n_samples, ...)
        Inputs for it.
    codes : ndarray of shape (n_samples,), integer
        Classes of the rows, numbered from 0.

    Attributes
    ----------
    backbone : fitted torch backbone
        The backbone.
    codes : ndarray of shape (n_samples,)
        Classes of the rows, as given.
    keys : ndarray of shape (n_samples,)
        A number for each row, which only its content decides.
    classes : list of ndarray of int
        Rows of each class, smallest class first, in an order that only their content decides.
    """

    def __init__(self, backbone, X, codes):
        self.backbone = backbone
        self.codes = codes
        self._X = X
        with np.errstate(over="ignore"):
            self._batches = backbone._as_batches(X, reset=False)
        self.keys = self._compute_keys()
        self.classes = canonical_classes(self.keys, codes)

    def __len__(self):
        return len(self.codes)

    def _compute_keys(self):
        """Numbers that tell rows of different content apart, the same for every backbone."""
        if isinstance(self._batches, FileImages):
            return np.array([_digest(item) for item in self._batches.items], dtype=np.uint64)
        # As given, not as this network wants it: all candidates shall see the same batches.
        read, X = self._read, None
        if isinstance(self._batches, DatasetImages):
            read = as_images(self._X, _THUMBNAIL).batch
        elif input_kind(self._X) == "images":
            X = self._X
        keys = np.empty(len(self))
        for rows in self._parts(np.arange(len(self))):
            block = read(rows).numpy() if X is None else np.asarray(X[rows[0] : rows[-1] + 1])
            keys[rows] = row_keys(block.reshape(len(rows), -1).astype(np.float64, order="C"))
        return keys

    def _parts(self, rows):
        step = self.backbone.batch_size
        return [rows[start : start + step] for start in range(0, len(rows), step)]

    def _read(self, rows):
        """Give some rows as the network is given them, on the CPU."""
        with np.errstate(over="ignore"):
            return self._batches.batch(rows)

    def tensor(self, rows):
        """Give some rows as the network is given them.

        Parameters
        ----------
        rows : ndarray of int
            Row numbers.

        Returns
        -------
        x : tensor
            A batch on the device of the network.
        """
        return self.backbone._to_network(self._read(rows))

    def run(self, x):
        """Compute features, through which gradients flow.

        Parameters
        ----------
        x : tensor
            A batch.

        Returns
        -------
        features : tensor of shape (n, D)
            Penultimate features.
        """
        return self.backbone._forward(x)[0]

    def features(self, rows):
        """Compute features in parts, without gradients.

        Parameters
        ----------
        rows : ndarray of int
            Row numbers.

        Returns
        -------
        features : tensor of shape (n, D), on the CPU
            Penultimate features.

        Raises
        ------
        ValueError
            If they are not finite.
        """
        with torch.no_grad():
            features = [self.run(self.tensor(part)).cpu() for part in self._parts(rows)]
        return self._finite(torch.cat(features))

    def gradients(self, rows, weights, loss):
        """Compute the gradients of a loss of the features of a batch by weights of the network.

        The network sees no more rows at a time than the ``batch_size`` of the backbone. For a
        larger batch, features are computed first and a second time with their gradients.

        Parameters
        ----------
        rows : ndarray of int
            The rows of the batch.
        weights : list of Parameter
            Parameters that gradients are computed for.
        loss : callable
            Takes the features and gives the gradient of the loss by them, float64.

        Returns
        -------
        gradients : list of tensor, float64
            One for each of the weights.

        Raises
        ------
        ValueError
            If features or gradients are not finite.
        """
        parts = self._parts(rows)
        features = self.run(self.tensor(rows)) if len(parts) == 1 else None
        upstream = loss(self.features(rows) if features is None else self._finite(features))
        gradients = [torch.zeros_like(w, dtype=torch.float64) for w in weights]
        # Tiny or huge numbers would leave the range of the network's precision on their way.
        size = float(upstream.abs().max())
        if size == 0:
            return gradients
        start = 0
        for part in parts:
            if len(parts) > 1:
                features = self.run(self.tensor(part))
            given = (upstream[start : start + len(part)] / size).to(features)
            for total, gradient in zip(
                gradients, torch.autograd.grad(features, weights, given), strict=True
            ):
                total += gradient.double() * size
            start += len(part)
        return [self._finite(gradient, "gradients") for gradient in gradients]

    def _finite(self, values, what="features"):
        if not bool(torch.isfinite(values.detach()).all()):
            raise ValueError(f"The {what} of the network contain NaN or infinite values.")
        return values


def _digest(item):
    """Turn the content of an image file or a Pillow image into a number."""
    content = Path(item).read_bytes() if isinstance(item, (str, PathLike)) else item.tobytes()
    return int.from_bytes(blake2b(content, digest_size=8).digest())


@contextmanager
def undisturbed(device, seed):
    """Compute gradients whatever modes the caller has set, and leave all of torch's state alone.

    Parameters
    ----------
    device : torch.device
        Where the network runs.
    seed : int
        Seed of torch's generator inside, for networks that draw numbers when they are run.

    Yields
    ------
    None
    """
    with (
        borrowed_generators(seed),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        yield
