"""The numbers in the user guide's page on unequal classes are those of the table."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "results" / "imbalance_on_tiny_benchmark.csv"
PAGE = (ROOT / "docs" / "user_guide" / "imbalance.rst").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    with open(TABLE, newline="", encoding="utf-8") as file:
        return {(r["setting"], r["measure"], r["variant"]): r for r in csv.DictReader(file)}


def page_table(title):
    """Header and rows of a list-table, as lists of cells."""
    body = PAGE.split(f".. list-table:: {title}")[1]
    body = re.split(r"\n\n(?! {3})", body)[0]
    rows = re.split(r"^ {3}\* - ", body, flags=re.M)[1:]
    return [[cell.strip() for cell in re.split(r"^ {5}- ?", row, flags=re.M)] for row in rows]


@pytest.mark.parametrize(
    ("title", "measure"),
    [
        ("Kendall's tau with the AUROC", "roc_auc_ovr"),
        ("Kendall's tau with the balanced accuracy", "balanced_accuracy"),
    ],
)
def test_agreement_where_classes_are_unequal(results, title, measure):
    header, *rows = page_table(title)
    settings = header[1:-1]
    assert len(settings) >= 6
    assert len(rows) == 15
    for variant, *cells in rows:
        for setting, cell in zip(settings, cells, strict=False):
            assert float(cell) == round(float(results[setting, measure, variant]["tau"]), 2)
        result = results["all imbalanced", measure, variant]
        if result["plain"] == variant:
            assert cells[-1] == ""
            continue
        found = [float(number) for number in re.findall(r"[+-]\d\.\d\d", cells[-1])]
        assert found == [round(float(result[k]), 2) for k in ("gain", "gain_low", "gain_high")]


def test_agreement_where_classes_are_equal(results):
    _, *rows = page_table("Kendall's tau where all classes are equal")
    columns = [(t, m) for t in ("digits", "mnist") for m in ("accuracy", "roc_auc_ovr")]
    for variant, *cells in rows:
        for (target, measure), cell in zip(columns, cells, strict=True):
            expected = float(results[f"{target}, bundled", measure, variant]["tau"])
            assert float(cell) == round(expected, 2)


def test_what_the_page_concludes(results):
    judged, balanced = "linear_probe judged by AUROC", "linear_probe balanced"
    auroc = {
        (setting, variant): result
        for (setting, measure, variant), result in results.items()
        if measure == "roc_auc_ovr"
    }
    # No gain could be told from none.
    for measure in ("balanced_accuracy", "roc_auc_ovr"):
        for (setting, of, variant), result in results.items():
            if setting == "all imbalanced" and of == measure and result["plain"] != variant:
                assert float(result["gain_low"]) < 0 < float(result["gain_high"])
                assert float(result["gain_high"]) - float(result["gain"]) < 0.3
    for setting in ("digits, bundled", "mnist, bundled", "pair 1:10", "tail 1:10", "one rare 1:11"):
        result = auroc[setting, judged]
        assert float(result["gain_low"]) < 0 < float(result["gain_high"])
    # Six images of the rare class: the plain probe ranks in one of two draws at most.
    for variant in ("linear_probe", "linear_probe judged by balanced accuracy"):
        assert float(auroc["pair 1:50", variant]["tau_low"]) == 0
    gains = {variant: float(auroc["pair 1:50", variant]["gain"]) for variant in (judged, balanced)}
    assert min(gains.values()) > 0.2
    taus = {v: float(r["tau"]) for (setting, v), r in auroc.items() if setting == "pair 1:50"}
    assert max(taus, key=taus.get) == "pactran"
    assert TABLE.stat().st_size < 50_000
