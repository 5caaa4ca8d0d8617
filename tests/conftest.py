"""Settings and data that all tests share, and files of pretrained weights where there are any."""

import importlib.util
import os
import sys
from pathlib import Path

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

MOBILENET = "mobilenet_v2-b0353104.pth"


def _find_weights(name):
    """Look for a file beside the checkout and where torch keeps what it has downloaded."""
    caches = [os.environ.get("TORCH_HOME"), os.environ.get("XDG_CACHE_HOME"), "~/.cache"]
    torch_homes = [caches[0], *(Path(cache, "torch") for cache in caches[1:] if cache)]
    folders = [
        Path(__file__).resolve().parents[2] / "shared" / "weights",
        *(Path(home).expanduser() / "hub" / "checkpoints" for home in torch_homes if home),
    ]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def pytest_collection_modifyitems(items):
    """Begin with slow tests and pages of the guide: no process waits for another's at the end."""

    def is_quick(item):
        return item.get_closest_marker("slow") is None and item.path.suffix != ".rst"

    items.sort(key=is_quick)


@pytest.fixture(scope="session")
def benchmark_script():
    """Give a function that imports one of the scripts in benchmarks/, which import each other."""
    folder, before = Path(__file__).resolve().parents[1] / "benchmarks", set(sys.modules)

    def load(name):
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # its data classes look there
            sys.path.insert(0, str(folder))
            try:
                spec.loader.exec_module(module)
            finally:
                sys.path.remove(str(folder))
        return sys.modules[name]

    yield load
    for path in folder.glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)


@pytest.fixture
def imagenet_mobilenet(tmp_path, monkeypatch):
    """A folder for torch with torchvision's own weights of MobileNetV2; gives the path of the file.

    It is set for the test, so that weights="IMAGENET1K_V1" takes its ordinary way. Tests that use
    it bear the mark ``pretrained``.
    """
    found = _find_weights(MOBILENET)
    if found is None:
        pytest.skip(f"{MOBILENET} is neither in ../shared/weights nor in torch's cache")
    folder = tmp_path / "torch_home" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / MOBILENET).symlink_to(found)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch_home"))
    return folder / MOBILENET


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
