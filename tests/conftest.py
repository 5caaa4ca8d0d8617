"""Settings and data that all tests share."""

import numpy as np
import pytest

from sktransfer.datasets import load_digits_target

try:
    import torch
except ImportError:
    pass
else:
    # Tests run side by side on few cores; more threads would only get in each other's way.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits():
    """Images and labels of a small target."""
    target = load_digits_target()
    return target.images_train[:120], target.y_train[:120]


@pytest.fixture(scope="session")
def npz(digits, tmp_path_factory):
    """The path of a file of the same."""
    path = tmp_path_factory.mktemp("npz") / "digits.npz"
    np.savez(path, X=digits[0], y=digits[1])
    return str(path)
