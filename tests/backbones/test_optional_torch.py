"""What needs torch says so; the rest does not need it and does not import it."""

import pickle
import subprocess
import sys

import pytest

import sktransfer.backbones as package

BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


# Before each piece the package is forgotten, so that each starts as in a process of its own.
EACH = """
for piece in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sktransfer"]:
        del sys.modules[name]
    exec(piece, {"__name__": "__main__"})
"""


def run(*pieces, blocked=None):
    """What pieces of code print, in a process in which a package may be missing."""
    start = BLOCK.format(blocked=blocked) if blocked else "import sys\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", start + EACH, *pieces],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


CATCH = """
try:
    {statement}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("blocked", ["torch", "safetensors", "PIL"])
def test_backbones_name_the_extra_that_is_missing(blocked):
    statements = (
        "from sktransfer.backbones import TorchBackbone",
        "from sktransfer.backbones import TinyZooBackbone",
        "import sktransfer.backbones as b; b.layer_candidates",
        "from sktransfer.datasets import load_tiny_zoo; load_tiny_zoo()",
        "from sktransfer.backbones import *",
    )
    messages = run(*(CATCH.format(statement=s) for s in statements), blocked=blocked)
    # One line for each.
    assert len(messages) == len(statements)
    for message in messages:
        assert "pip install 'sktransfer[torch]'" in message
        assert f"No module named '{blocked}'" in message


WITHOUT_TORCH = """
import sys
import sktransfer.backbones
from sktransfer.backbones import FeatureStore, ModelCard, PrecomputedFeatures
print(sorted({"torch", "PIL", "safetensors", "torchvision", "timm"} & set(sys.modules)))
"""
DATA_SETS = """
import sys
import numpy as np
from sktransfer.datasets import load_digits_target, load_image_folder, load_npz_target
print(load_digits_target().images.shape, "torch" in sys.modules)
"""


@pytest.mark.parametrize("blocked", ["torch", None])
def test_what_needs_no_torch_works_without_it_and_does_not_import_it(blocked):
    assert run(WITHOUT_TORCH, DATA_SETS, blocked=blocked) == ["[]", "(1797, 28, 28) False"]


def test_every_public_name_is_there_and_listed_in_order():
    assert package.__all__ == sorted(package.__all__)
    assert set(package.__all__) == set(package._WITHOUT_TORCH) | set(package._WITH_TORCH)
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
        assert name in dir(package)
    assert package.TorchBackbone is package.TorchBackbone
    assert pickle.loads(pickle.dumps(package.TorchBackbone)) is package.TorchBackbone
    with pytest.raises(AttributeError, match=r"'sktransfer\.backbones' has no attribute 'Torch'"):
        getattr(package, "Tor" + "ch")
    with pytest.raises(ImportError, match="cannot import name 'Torch'"):
        exec("from sktransfer.backbones import Torch")


def test_the_message_is_that_of_the_package_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'sktransfer\[torch\]' \(import of safet"):
        package.__getattr__("TorchBackbone")
