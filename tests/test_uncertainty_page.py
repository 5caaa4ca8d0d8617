"""The tables on the page about uncertainty are what was simulated, and hold what it promises."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "user_guide" / "uncertainty.rst"


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("coverage_of_selection")


@pytest.fixture(scope="module")
def rows(script):
    with open(script.TABLE, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_sets_of_every_metric_hold_the_best_in_every_setting(script, rows):
    found = {(r["metric"], r["resampling"], r["setting"]): r for r in rows}
    for name, scheme in script.automatic():
        for setting in script.SETTINGS:
            if setting not in script.settings_of(name):
                continue
            row = found[name, script.SETTINGS[setting].scheme(scheme), setting]
            assert int(row["selections"]) >= 300
            assert float(row["held"]) >= 93


def test_the_page_has_the_tables_of_the_script(script, rows):
    text = PAGE.read_text(encoding="utf-8")
    for table in script.page(rows):
        assert table in text


def test_a_selection_is_simulated_as_it_was_for_the_table(script, tmp_path):
    # The kept simulations are not in the package; a few are made again by the script itself.
    script.simulate(
        tmp_path / "selection_n>D_leep-half_00000.npz",
        lambda seed: script.selection("n > D", [("leep", "half")], seed),
        range(2),
    )
    simulated = script.kept(tmp_path, "selection", "n > D", "leep/half")
    assert simulated.shape == (2, 1 + script.N_RESAMPLES, 4)
    again = script.selection("n > D", [("leep", "half")], 1)["leep/half"]
    assert (simulated[1] == again).all()
    assert (simulated[0] != simulated[1]).any()
