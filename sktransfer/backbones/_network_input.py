"""What a network is given: rows of any kind of input, checked as a whole, in batches."""

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from sktransfer.backbones._datasets import check_dataset, refuse_vectors
from sktransfer.backbones._images import as_images, input_kind, refuse_hidden_paths
from sktransfer.utils._sklearn import _check_feature_names
from sktransfer.utils._target import refuse_masked

__all__ = ["NetworkInput", "resolve_device"]


class _Vectors:
    """Rows of a 2-D array, handed to the network as they are."""

    def __init__(self, X):
        self._X = X
        self.shape = X.shape[1:]

    def __len__(self):
        return len(self._X)

    def batch(self, rows):
        # In one order in memory, by which sums in a network are rounded.
        return torch.from_numpy(np.array(self._X[rows], dtype=np.float32, order="C"))


class NetworkInput:
    """The part of a backbone that takes input: vectors, images or files.

    A subclass says what is done to images by ``_make_preprocessing``.
    """

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
            refuse_hidden_paths(X)
            batches = _Vectors(validate_data(self, X, reset=reset))
        else:
            if kind == "dataset":  # before questions that are about images
                check_dataset(X)
                refuse_vectors(X)
            batches = as_images(X, self._make_preprocessing())
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


def resolve_device(device):
    """Find the device that the parameter ``device`` asks for.

    Parameters
    ----------
    device : str or torch.device
        "auto" is a CUDA device where there is one, otherwise the CPU.

    Returns
    -------
    device : torch.device
        The device.

    Raises
    ------
    ValueError
        If torch does not know it or has no such device here.
    """
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
    try:
        torch.zeros(1, device=resolved).item()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"The 'device' parameter asks for {str(resolved)!r}, where nothing can be computed "
            f"here ({reason})."
        ) from error
    return resolved
