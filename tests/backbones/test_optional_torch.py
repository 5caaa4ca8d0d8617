"""Backbones need torch and say so; data sets do not need it and do not import it."""

import importlib.util
import subprocess
import sys

import pytest

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
        "import sktransfer.backbones",
        "from sktransfer.datasets import load_tiny_zoo; load_tiny_zoo()",
    ):
        message = run(CATCH.format(statement=statement), blocked)
        assert "pip install 'sktransfer[torch]'" in message
        assert f"No module named '{blocked}'" in message
        assert "\n" not in message


def test_data_sets_work_without_torch_and_do_not_import_it():
    use = """
import numpy as np
from sktransfer.datasets import load_digits_target, load_image_folder, load_npz_target
print(load_digits_target().images.shape, "torch" in sys.modules)
"""
    assert run(use, "torch") == "(1797, 28, 28) False"
    assert run(use) == "(1797, 28, 28) False"


def test_the_message_is_that_of_the_package_itself(monkeypatch):
    import sktransfer.backbones as package

    monkeypatch.setitem(sys.modules, "safetensors", None)
    spec = importlib.util.spec_from_file_location("without_safetensors", package.__file__)
    with pytest.raises(ImportError, match=r"pip install 'sktransfer\[torch\]' \(import of safet"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
