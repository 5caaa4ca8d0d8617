"""The table on the page about races is that of the races that were run, and keeps their budget."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "user_guide" / "racing.rst"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        path = ROOT / "benchmarks" / "racing_on_tiny_benchmark.py"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_page_has_the_table_of_the_script(script):
    assert script.page(script.read_table()) in PAGE.read_text(encoding="utf-8")


def test_races_from_logme_keep_the_budget_and_what_was_asked_of_them(script):
    parts = {(part["start"], part["cells"]): part for part in script.summary(script.read_table())}
    whole = parts["logme", "all"]
    assert whole["races"] == 55
    assert whole["most"] <= script.BUDGET
    assert whole["race"] <= whole["all"]
