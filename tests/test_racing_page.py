"""The table on the page about races is that of the races that were run, and keeps their budget."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "user_guide" / "racing.rst"


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("racing_on_tiny_benchmark")


def test_the_page_has_the_table_of_the_script(script):
    assert script.page(script.read_table()) in PAGE.read_text(encoding="utf-8")


def test_races_from_logme_keep_the_budget_and_what_was_asked_of_them(script):
    parts = {(part["start"], part["cells"]): part for part in script.summary(script.read_table())}
    whole = parts["logme", "all"]
    assert whole["races"] == 55
    assert whole["most"] <= script.BUDGET
    assert whole["race"] <= whole["all"]
