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


def run(code, blocked=None):
    start = BLOCK.format(blocked=blocked) if blocked else "import sys\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", start + code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CATCH = """
try:
    {statement}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("blocked", ["torch", "safetensors", "PIL"])
def test_backbones_name_the_extra_that_is_missing(blocked):
    for statement in (
        "from sktransfer.backbones import TorchBackbone",
        "from sktransfer.backbones import TinyZooBackbone",
        "import sktransfer.backbones as b; b.layer_candidates",
        "from sktransfer.datasets import load_tiny_zoo; load_tiny_zoo()",
        "from sktransfer.backbones import *",
    ):
        message = run(CATCH.format(statement=statement), blocked)
        assert "pip install 'sktransfer[torch]'" in message
        assert f"No module named '{blocked}'" in message
        assert "\n" not in message


def test_the_package_and_what_needs_no_torch_work_without_it_and_do_not_import_it():
    use = """
import sktransfer.backbones
from sktransfer.backbones import FeatureStore, ModelCard, PrecomputedFeatures
print(sorted({"torch", "PIL", "safetensors", "torchvision", "timm"} & set(sys.modules)))
"""
    assert run(use, "torch") == "[]"
    assert run(use) == "[]"


def test_data_sets_work_without_torch_and_do_not_import_it():
    use = """
import numpy as np
from sktransfer.datasets import load_digits_target, load_image_folder, load_npz_target
print(load_digits_target().images.shape, "torch" in sys.modules)
"""
    assert run(use, "torch") == "(1797, 28, 28) False"
    assert run(use) == "(1797, 28, 28) False"


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
