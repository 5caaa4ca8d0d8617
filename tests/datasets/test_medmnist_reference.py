"""The published references, and what the study that published them says of them."""

import math
import pickle
import sys

import numpy as np
import pytest

from sktransfer.datasets import load_medmnist_reference
from sktransfer.evaluation import (
    competition_ranks,
    rank_correlation,
    selection_regret,
    stability_intra,
    top_k_recall,
)

TARGETS = ("Breast", "Pneumonia", "Derma", "Blood", "OrganC", "OrganS", "OrganA", "OCT")
# What the networks were fine-tuned on.
FULL, FIRST, SECOND = ({}, *({"train_subset": "5pct", "seed": seed} for seed in (42, 43)))
TRAINED_ON = {"full": FULL, "42": FIRST, "43": SECOND}


@pytest.fixture(scope="module")
def published():
    return load_medmnist_reference()


def ranks_of(reference):
    return dict(zip(reference, competition_ranks(list(reference.values())).tolist(), strict=True))


def tau(first, second, method="kendall"):
    return rank_correlation(first, second, method, n_resamples=0, n_permutations=0).statistic


# -- the tables ------------------------------------------------------------------------------------


def test_shape_and_contents(published):
    data = published.data
    assert data.dtype.names == (
        "table", "metric", "train_subset", "seed", "target", "source", "value",
    )  # fmt: skip
    assert len(data) == 576 and published.targets == TARGETS
    assert len(published.sources) == 13 and published.sources[-1] == "ImageNet"
    cells = {tuple(row)[:6] for row in data.tolist()}
    assert len(cells) == 576
    for table in range(1, 7):
        rows = data[data["table"] == table]
        assert len(rows) == 96
        (metric,), (subset,), (seed,) = (set(rows[k]) for k in ("metric", "train_subset", "seed"))
        assert metric == ("accuracy", "auroc")[table % 2]
        assert (subset, seed) == [("full", -1), ("5pct", 42), ("5pct", 43)][(table - 1) // 2]
        for target in TARGETS:
            sources = rows["source"][rows["target"] == target]
            assert set(sources) == set(published.sources) - {target}
    # Sums of the six tables, for a change of any digit.
    sums = [data["value"][data["table"] == table].sum() for table in range(1, 7)]
    assert np.round(sums, 3).tolist() == SUMS
    with pytest.raises(ValueError, match="read-only"):
        data["value"][0] = 0


SUMS = [92.798, 80.577, 87.994, 70.468, 88.636, 70.534]


def test_known_cells(published):
    assert published.reference("Breast", "auroc")["OrganA"] == 0.916
    assert published.reference("OCT")["Path"] == 0.905
    assert published.reference("Blood", train_subset="5pct", seed=43)["OCT"] == 0.581
    assert published.reference("Derma", "auroc", train_subset="5pct", seed=42)["Path"] == 0.842


def test_every_accuracy_is_a_number_of_test_images(published):
    """A count of right answers divided by the number of test images, to three decimals."""
    for row in published.data[published.data["metric"] == "accuracy"]:
        n_test = published.sizes[str(row["target"])]["n_test"]
        right = np.arange(math.floor((row["value"] - 1e-3) * n_test), n_test + 1)
        assert (np.round(right / n_test, 3) == row["value"]).any(), row


def test_frame(published):
    pandas = pytest.importorskip("pandas")
    frame = published.frame
    assert list(frame.columns) == list(published.data.dtype.names) and len(frame) == 576
    assert frame["seed"].isna().sum() == 192 and set(frame["seed"].dropna()) == {42, 43}
    rows = frame.query("target == 'Breast' and metric == 'auroc' and train_subset == 'full'")
    series = rows.set_index("source")["value"]
    assert isinstance(series, pandas.Series)
    assert series.to_dict() == published.reference("Breast", "auroc")
    assert tau(series, published.reference("Breast", "auroc")) == 1
    assert load_medmnist_reference(as_frame=False).frame is None


def test_pickles_and_gives_fresh_mappings(published):
    copied = pickle.loads(pickle.dumps(published))
    assert copied.reference("OCT") == published.reference("OCT")
    published.reference("OCT").clear()
    assert len(published.reference("OCT")) == 12
    assert "Tables A1 to A6" in published.DESCR


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    published = load_medmnist_reference()
    assert published.frame is None and len(published.reference("OCT")) == 12
    with pytest.raises(ImportError, match="needs pandas"):
        load_medmnist_reference(as_frame=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"target": "breast"}, r"'target' must be one of \['Breast', .*Got 'breast'"),
        ({"target": None}, "'target' must be one of"),
        ({"measure": "AUC"}, "'measure' must be one of .*'auroc'"),
        ({"train_subset": 0.05}, "'train_subset' must be one of"),
        ({"seed": 42}, "'seed' must be None for train_subset='full'. Got 42"),
        ({"train_subset": "5pct"}, "'seed' must be 42 or 43 for train_subset='5pct'. Got None"),
        ({"train_subset": "5pct", "seed": "42"}, "'seed' must be 42 or 43"),
        ({"train_subset": "5pct", "seed": True}, "'seed' must be 42 or 43"),
        ({"train_subset": "5pct", "seed": np.array([42, 43])}, "'seed' must be 42 or 43"),
    ],
)
def test_wrong_requests(published, arguments, message):
    with pytest.raises(ValueError, match=message):
        published.reference(**{"target": "OCT", **arguments})
    with pytest.raises(ValueError, match="'as_frame' must be True, False or 'auto'"):
        load_medmnist_reference(as_frame="yes")
    with pytest.raises(ValueError, match="'as_frame' must be True, False or 'auto'"):
        load_medmnist_reference(as_frame=np.array([1, 2]))


# -- what the study says: confirmed ---------------------------------------------------------------


def test_path_is_second_by_accuracy_and_eleventh_by_auroc_on_breast(published):
    accuracy, auroc = (ranks_of(published.reference("Breast", m)) for m in ("accuracy", "auroc"))
    assert (accuracy["Path"], auroc["Path"]) == (2, 11)
    # It shares the second place with three others.
    assert [name for name, rank in accuracy.items() if rank == 2] == [
        "Blood", "OCT", "OrganA", "Path",
    ]  # fmt: skip


def test_blood_is_third_sixth_or_tenth_by_auroc_on_breast(published):
    ranks = [ranks_of(published.reference("Breast", "auroc", **t)) for t in TRAINED_ON.values()]
    assert [rank["Blood"] for rank in ranks] == [3, 6, 10]
    ranks = [ranks_of(published.reference("Breast", **t)) for t in TRAINED_ON.values()]
    assert [rank["Blood"] for rank in ranks] == [2, 8, 5]


def test_no_target_has_the_same_ranking_by_both_measures(published):
    for trained_on in TRAINED_ON.values():
        for target in TARGETS:
            by = [ranks_of(published.reference(target, m, **trained_on))
                  for m in ("accuracy", "auroc")]  # fmt: skip
            assert by[0] != by[1]


# -- what the study says: not the whole story -----------------------------------------------------


def test_blood_is_not_the_only_target_with_every_auroc_above_099(published):
    lowest = {target: min(published.reference(target, "auroc").values()) for target in TARGETS}
    assert {name: low for name, low in lowest.items() if low >= 0.99} == {
        "Blood": 0.997,
        "OCT": 0.992,
    }
    for trained_on in (FIRST, SECOND):
        for target in TARGETS:
            assert min(published.reference(target, "auroc", **trained_on).values()) < 0.99


@pytest.mark.parametrize("trained_on, same", [("full", 14), ("42", 20), ("43", 13)])
def test_how_many_sources_keep_their_rank(published, trained_on, same):
    """Of 96; "almost none" is one in seven, and by chance it would be one in twelve."""
    kept = 0
    for target in TARGETS:
        accuracy, auroc = (
            ranks_of(published.reference(target, measure, **TRAINED_ON[trained_on]))
            for measure in ("accuracy", "auroc")
        )
        kept += sum(accuracy[source] == auroc[source] for source in accuracy)
    assert kept == same


# Kendall's tau, weighted tau and Spearman's rho between accuracy and AUROC.
AGREEMENT = {
    "Breast": (0.388, 0.360, 0.518),
    "Pneumonia": (0.281, 0.539, 0.350),
    "Derma": (0.646, 0.741, 0.807),
    "Blood": (0.533, 0.725, 0.627),
    "OrganC": (0.613, 0.715, 0.742),
    "OrganS": (0.047, 0.114, 0.085),
    "OrganA": (0.000, -0.065, 0.021),
    "OCT": (0.134, 0.309, 0.098),
}


@pytest.mark.parametrize("target", TARGETS)
def test_agreement_of_the_measures(published, target):
    pair = [published.reference(target, measure) for measure in ("accuracy", "auroc")]
    values = [tau(*pair, method) for method in ("kendall", "weighted_kendall", "spearman")]
    assert values == pytest.approx(AGREEMENT[target], abs=5.1e-4)


def test_agreement_on_three_of_eight_targets_is_more_than_chance(published):
    results = {
        target: rank_correlation(
            published.reference(target, "accuracy"), published.reference(target, "auroc")
        )
        for target in TARGETS
    }
    assert [t for t, r in results.items() if r.pvalue < 0.05] == ["Derma", "Blood", "OrganC"]
    # Eight of twelve AUROC on Blood are 0.998, and many resamples of its sources say nothing.
    assert [t for t, r in results.items() if r.interval[0] > 0] == ["Derma", "OrganC"]
    assert all(r.interval[1] - r.interval[0] > 0.6 for r in results.values())


@pytest.mark.parametrize(
    "measure, mean_tau", [("accuracy", (0.135, 0.086, 0.505)), ("auroc", (0.180, 0.249, 0.437))]
)
def test_agreement_of_the_three_fine_tunings(published, measure, mean_tau):
    """The two subsets of 5 % agree better with each other than with the full training part."""
    values = []
    for target in TARGETS:
        runs = [published.reference(target, measure, **t) for t in TRAINED_ON.values()]
        result = stability_intra({s: [run[s] for run in runs] for s in runs[0]}, n_resamples=0)
        assert result.pairs == ((0, 1), (0, 2), (1, 2))
        values.append(result.values)
    assert np.mean(values, axis=0) == pytest.approx(mean_tau, abs=6e-4)


@pytest.mark.parametrize("trained_on, mean_tau", [("full", 0.330), ("42", 0.437), ("43", 0.405)])
def test_mean_agreement_of_the_measures(published, trained_on, mean_tau):
    values = [
        tau(*(published.reference(t, m, **TRAINED_ON[trained_on]) for m in ("accuracy", "auroc")))
        for t in TARGETS
    ]
    assert np.mean(values) == pytest.approx(mean_tau, abs=6e-4)


def test_rounding_makes_ties(published):
    """Twelve AUROC on Blood have three values, four on OCT share the best."""
    blood = published.reference("Blood", "auroc")
    assert sorted(set(blood.values())) == [0.997, 0.998, 0.999]
    oct_auroc = published.reference("OCT", "auroc")
    assert sum(value == max(oct_auroc.values()) for value in oct_auroc.values()) == 4


def test_what_choosing_by_the_other_measure_costs(published):
    regrets = {}
    for target in TARGETS:
        accuracy, auroc = (published.reference(target, m) for m in ("accuracy", "auroc"))
        regrets[target] = round(float(selection_regret(accuracy, auroc)), 3)
    assert regrets == {
        "Breast": 0.037, "Pneumonia": 0.0, "Derma": 0.0, "Blood": 0.0,
        "OrganC": 0.0, "OrganS": 0.006, "OrganA": 0.013, "OCT": 0.0,
    }  # fmt: skip
    accuracy, auroc = (published.reference("Breast", m) for m in ("accuracy", "auroc"))
    assert top_k_recall(accuracy, auroc, 3, ties="worst") == pytest.approx(0)
