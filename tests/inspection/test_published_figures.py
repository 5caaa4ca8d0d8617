"""What the example of the published references says in words, counted again from its tables."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata

from sktransfer.datasets import load_medmnist_reference

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = load_medmnist_reference()
ALL, FIRST, SECOND = {}, *({"train_subset": "5pct", "seed": seed} for seed in (42, 43))


def values(target, measure, options):
    return PUBLISHED.reference(target, measure, **options)


def ranks(target, measure, options):
    reference = values(target, measure, options)
    found = rankdata([-value for value in reference.values()], method="min").astype(int)
    return dict(zip(reference, found.tolist(), strict=True))


def tau(target, one, other):
    return kendalltau(*(list(values(target, *side).values()) for side in (one, other)))[0]


@pytest.mark.parametrize(
    "options, moved, mean", [(ALL, 82, 0.33), (FIRST, 76, 0.44), (SECOND, 83, 0.41)]
)
def test_how_many_move_and_how_well_measures_agree(options, moved, mean):
    count, taus = 0, []
    for target in PUBLISHED.targets:
        accuracy, auroc = (ranks(target, m, options) for m in PUBLISHED.measures)
        count += sum(accuracy[source] != auroc[source] for source in accuracy)
        taus.append(tau(target, ("accuracy", options), ("auroc", options)))
    assert count == moved
    assert round(np.mean(taus), 2) == mean
    guide = (ROOT / "docs" / "user_guide" / "figures.rst").read_text(encoding="utf-8")
    assert str(moved) in guide and str(mean) in guide


def test_imagenet_and_blood_on_breast():
    assert [ranks("Breast", "accuracy", o)["ImageNet"] for o in (FIRST, SECOND)] == [1, 1]
    assert [ranks("Breast", "auroc", o)["ImageNet"] for o in (FIRST, SECOND)] == [11, 4]
    assert [ranks("Breast", "auroc", o)["Blood"] for o in (ALL, FIRST, SECOND)] == [3, 6, 10]
    assert round(0.05 * PUBLISHED.sizes["Breast"]["n_train"]) == 27


def test_the_best_by_one_measure_may_be_the_worst_by_the_other():
    worst = {}
    for target in ("OrganS", "OrganA", "OCT"):
        accuracy, auroc = (ranks(target, m, ALL) for m in PUBLISHED.measures)
        worst[target] = max(
            max(auroc[s] for s in auroc if accuracy[s] == 1),
            max(accuracy[s] for s in auroc if auroc[s] == 1),
        )
    assert worst == {"OrganS": 7, "OrganA": 11, "OCT": 12}


def test_references_of_derma_and_blood_agree_best_and_organa_is_turned_round():
    sides = [(m, o) for m in PUBLISHED.measures for o in (ALL, FIRST, SECOND)]
    means = {
        target: np.mean([tau(target, a, b) for a, b in combinations(sides, 2)])
        for target in PUBLISHED.targets
    }
    assert sorted(means, key=means.get)[-2:] == ["Blood", "Derma"]
    for options in (FIRST, SECOND):
        assert tau("OrganA", ("auroc", ALL), ("accuracy", options)) < -0.5
