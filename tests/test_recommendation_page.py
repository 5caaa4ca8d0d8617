"""The numbers on the page about recommendations are those of the bundled benchmark."""

import re
from pathlib import Path

import numpy as np
import pytest

from sktransfer.datasets import load_tiny_benchmark

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "user_guide" / "recommendation.rst"
CEILING = "one fine-tuning of all"
NATS = "consensus, nats: LogME, PACTran"
# The tables in their order on the page.
PARTS = ("all", "chosen on", "fashion", "100 images")


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("recommendation_on_tiny_benchmark")


@pytest.fixture(scope="module")
def known(script):
    benchmark = load_tiny_benchmark(as_frame=False)
    return benchmark, script.all_cells(benchmark), script.all_rules(benchmark)


def tables():
    """Rows of every table with a header on the page, by their first cell."""
    found = []
    for block in PAGE.read_text(encoding="utf-8").split(".. list-table::")[1:]:
        rows = {}
        for row in re.findall(r"^   \* - (.*\n(?:     - .*\n)*)", block, flags=re.MULTILINE):
            first, *others = (cell.removeprefix("     - ") for cell in row.splitlines())
            rows[first] = others
        if next(iter(rows)) == "rule" and rows["rule"][0] != "top 1":  # that one is of races
            found.append(rows)
    return found


def test_every_rule_is_in_the_table(known):
    benchmark, _, rules = known
    assert set(benchmark.metrics) < set(rules) <= set(tables()[0])


@pytest.mark.parametrize("part", PARTS)
def test_rows_are_those_of_the_benchmark(script, known, part):
    _, cells, rules = known
    inside = [cell for cell in cells if script.PARTS[part](cell)]
    names = [CEILING, "logme", NATS] if part != "all" else [CEILING, "logme", "n_parameters"]
    for name in names:
        expected = script.table_row(name, script.summary(rules[name], inside))
        # The first table has one more column, the cost, which is a matter of the machine.
        assert tables()[PARTS.index(part)][name][: len(expected) - 1] == expected[1:]


def test_decision_sets_are_those_of_the_benchmark(script, known):
    benchmark, cells, _ = known
    rows = tables()[4]
    for name, label, options in (
        ("logme", "logme", {}),
        ("logme", "logme, counting ranks", {"rule": "rank"}),
    ):
        found = script.calibrated(benchmark, cells, name, **options)
        expected = [(found.coverage, found.share)]
        expected += [(row["coverage"], row["share"]) for row in found.by_target.values()]
        expected += [
            script.coverage_when_left_out(benchmark, cells, name, part, **options)
            for part in ("fashion", "100 images")
        ]
        shown = [tuple(map(float, cell.split(" / "))) for cell in rows[label]]
        assert np.allclose(shown, expected, atol=0.0051)


def test_the_goals_are_met_by_the_default(script, known):
    benchmark, cells, rules = known
    rows = {name: script.measure(rules[name], cells).mean(axis=0) for name in (CEILING, "logme")}
    tau, regret = (script.COLUMNS.index(column) for column in ("kendall", "regret"))
    assert rows["logme"][tau] >= 0.8 * rows[CEILING][tau]
    assert rows["logme"][regret] <= rows[CEILING][regret] + 0.5
    assert round(rows["logme"][tau] / rows[CEILING][tau], 2) == 0.88
    found = script.calibrated(benchmark, cells, "logme")
    assert found.coverage >= 0.9 and found.share <= 1 / 3


def test_races_are_those_that_were_run(script, known):
    _, cells, _ = known
    lines = []
    for first, *others in script.racing_rows(cells):
        lines += [f"   * - {first}", *(f"     - {other}" for other in others)]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")
