"""A search over metrics finds what loops over metrics, values, splits and candidates find."""

import itertools
import pickle
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.callback import ProgressBar
from sklearn.decomposition import PCA
from sklearn.model_selection import GroupKFold, ShuffleSplit, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, estimator_html_repr

from sktransfer.backbones import FeatureStore
from sktransfer.evaluation import (
    rank_correlation,
    relative_top_k,
    selection_regret,
    stability_ref,
    top_k_recall,
)
from sktransfer.exceptions import CandidateFailedWarning, UninformativeScoreWarning
from sktransfer.metrics import (
    KNN,
    LEEP,
    NCTI,
    NLEEP,
    FeatureMoments,
    HScore,
    LogME,
    MetricInputs,
    TransRate,
    get_metric,
    score_metrics,
)
from sktransfer.model_selection import MetricSearchCV, TransferabilitySelector
from sktransfer.model_selection._metric_search_agreement import Agreement
from sktransfer.model_selection._metric_search_reference import Reference

# What metrics say of their scores on so few rows is not the matter here.
pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")

N = 60
Y = np.arange(N) % 3
X = np.random.default_rng(0).normal(size=(N, 8)) + 0.8 * Y[:, None]
CORRELATIONS = ("kendall", "weighted_kendall", "spearman", "pearson")
EVERY = (*CORRELATIONS, "top_k", "regret", "relative_top_k")


class Net(TransformerMixin, BaseEstimator):
    """A pretrained network in small: fixed weights, a source head, and a count of the rows."""

    stateless = True
    rows = 0

    def __init__(self, seed=0, width=4, head=True):
        self.seed = seed
        self.width = width
        self.head = head

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def extract(self, X):
        Net.rows += len(X)
        rng = np.random.default_rng(self.seed)
        features = np.tanh(np.asarray(X) @ rng.normal(size=(X.shape[1], self.width)) / 2)
        if not self.head:
            return features, None
        weights = np.exp(features[:, :3] * 3)
        return features, weights / weights.sum(axis=1, keepdims=True)

    def transform(self, X):
        return self.extract(X)[0]


CANDIDATES = [(f"net{seed}", Net(seed)) for seed in range(6)]
REFERENCE = {"net0": 0.71, "net1": 0.93, "net2": 0.80, "net3": 0.93, "net4": 0.64, "net5": 0.88}
METRICS = ["transrate", "hscore", LEEP()]
GRID = {"hscore__shrinkage": [None, 0.1, 0.6], "leep__temperature": [1.0, 4.0]}
WITH_POOL = [*METRICS, NCTI(n_components=3)]  # its scores are relative to the candidates
POOL_GRID = {**GRID, "ncti__n_components": [2, 3]}
QUICK = {"n_resamples": 0, "n_permutations": 0}


@pytest.fixture(autouse=True)
def none_run():
    Net.rows = 0


def search(candidates=CANDIDATES, metrics=("transrate", "hscore"), grid=None, **params):
    params = {"reference": REFERENCE, "n_resamples": 50, "n_permutations": 50, **params}
    return MetricSearchCV(candidates, list(metrics), grid, **params)


def failed(caught):
    """What was said of candidates that failed."""
    return [str(w.message) for w in caught if w.category is CandidateFailedWarning]


def table_of(found):
    """The columns that don't tell the time, as a frame."""
    frame = pd.DataFrame(found.cv_results_)
    return frame[[name for name in frame.columns if not name.endswith("_time")]]


# -- what is found ---------------------------------------------------------------------------------


def loops(splits, reference=REFERENCE, k=2):
    """The table by loops, with functions for single scores and single comparisons."""
    settings = [("transrate", {}, TransRate())]
    settings += [("hscore", {"shrinkage": s}, HScore(shrinkage=s)) for s in (None, 0.1, 0.6)]
    settings += [("leep", {"temperature": t}, LEEP(temperature=t)) for t in (1.0, 4.0)]
    settings += [("ncti", {"n_components": n}, NCTI(n_components=n)) for n in (2, 3)]
    for metric, params, estimator in settings:
        in_splits = []
        for rows in splits:
            scores, fitted = {}, []
            for name, candidate in CANDIDATES:
                features, probabilities = candidate.extract(X[rows])
                if metric == "ncti":
                    fitted.append(MetricInputs(Y[rows], features).fit(estimator))
                    continue
                (scores[name],) = score_metrics(
                    features, Y[rows], [estimator], probabilities=probabilities
                ).values()
            if fitted:
                scores = dict(zip(REFERENCE, NCTI.pool_scores(fitted), strict=True))
            agreement = {
                method: rank_correlation(scores, reference, method, **QUICK).statistic
                for method in CORRELATIONS
            }
            agreement["top_k"] = top_k_recall(scores, reference, k)
            agreement["regret"] = selection_regret(scores, reference, k)
            agreement["relative_top_k"] = relative_top_k(scores, reference, k)
            in_splits.append((scores, agreement))
        yield metric, params, in_splits


SPLITS = [train for train, _ in StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y)]


@pytest.mark.parametrize(
    ("cv", "splits", "n_jobs"), [(None, [np.arange(N)], None), (3, SPLITS, None), (3, SPLITS, 2)]
)
def test_the_table_is_that_of_loops(cv, splits, n_jobs):
    found = search(
        metrics=WITH_POOL, grid=POOL_GRID, cv=cv, scoring=EVERY, k=2, n_jobs=n_jobs, **QUICK
    )
    found.fit(X, Y)
    table = found.cv_results_
    expected = list(loops(splits))
    assert table["metric"].tolist() == [metric for metric, _, _ in expected]
    assert table["params"] == [params for _, params, _ in expected]
    for row, (_, _, in_splits) in enumerate(expected):
        for split, (scores, agreement) in enumerate(in_splits):
            assert found.scores_[row][split] == pytest.approx(scores, rel=1e-9)
            for scoring in EVERY:
                cell = table[f"split{split}_test_{scoring}"][row]
                assert cell == pytest.approx(float(agreement[scoring]), abs=1e-9)
    for scoring in EVERY:
        values = np.array([table[f"split{i}_test_{scoring}"] for i in range(len(splits))])
        np.testing.assert_allclose(table[f"mean_test_{scoring}"], values.mean(axis=0), atol=1e-12)
        spread = values.std(axis=0) if len(splits) > 1 else np.full(len(expected), np.nan)
        np.testing.assert_allclose(table[f"std_test_{scoring}"], spread, atol=1e-12)
        mean = table[f"mean_test_{scoring}"] * (-1 if scoring == "regret" else 1)
        ranks = [1 + sum(other > own for other in mean) for own in mean]
        assert table[f"rank_test_{scoring}"].tolist() == ranks
        assert table[f"reason_{scoring}"].tolist() == [None] * len(expected)
    assert table["n_candidates"].tolist() == [6] * len(expected)
    assert (table["mean_score_time"] > 0).all() and (table["std_score_time"] >= 0).all()
    assert found.n_splits_ == len(splits)
    best = int(np.argmax(table["mean_test_weighted_kendall"]))
    assert (found.best_index_, found.refit_scoring_) == (best, "weighted_kendall")
    assert (found.best_metric_, found.best_params_) == (
        table["metric"][best],
        table["params"][best],
    )
    assert found.best_score_ == table["mean_test_weighted_kendall"][best]
    assert found.failures_ == found.split_failures_ == {} and found.left_out_ == ()
    assert found.tied_with_best_.tolist() == list(range(len(expected)))  # without resamples


def test_columns():
    found = search(grid=POOL_GRID, metrics=WITH_POOL, scoring=["kendall", "regret"], cv=2)
    found.fit(X, Y)
    assert list(found.cv_results_) == [
        *("metric", "params"),
        *("param_hscore__shrinkage", "param_leep__temperature", "param_ncti__n_components"),
        *("split0_test_kendall", "split1_test_kendall", "mean_test_kendall", "std_test_kendall"),
        *("rank_test_kendall", "lower_test_kendall", "upper_test_kendall", "tied_test_kendall"),
        "reason_kendall",
        *("split0_test_regret", "split1_test_regret", "mean_test_regret", "std_test_regret"),
        *("rank_test_regret", "reason_regret"),
        *("n_candidates", "mean_score_time", "std_score_time"),
    ]
    shrinkage = found.cv_results_["param_hscore__shrinkage"]
    assert shrinkage.mask.tolist() == [True, False, False, False, True, True, True, True]
    assert shrinkage[1:4].tolist() == [None, 0.1, 0.6]
    assert found.labels_[:3] == ["transrate", "hscore(shrinkage=None)", "hscore(shrinkage=0.1)"]
    assert len(pd.DataFrame(found.cv_results_)) == 8
    assert found.scoring_ == ["kendall", "regret"]
    assert found.chance_ == {"kendall": 0.0, "regret": pytest.approx(0.93 - 4.89 / 6)}


def test_best_estimator_ranks_other_candidates():
    found = search(grid=POOL_GRID, metrics=["hscore", "leep", "ncti"], **QUICK).fit(X, Y)
    best = found.best_estimator_
    assert type(best) is type(get_metric(found.best_metric_)) and not hasattr(best, "score_")
    assert found.best_params_.items() <= best.get_params().items()
    selector = TransferabilitySelector(CANDIDATES, best).fit(X, Y)
    assert selector.scores_ == pytest.approx(found.scores_[found.best_index_][0], rel=1e-9)


def test_regret_is_in_units_of_the_reference_and_small_is_good():
    percent = {name: 100 * value for name, value in REFERENCE.items()}
    found = search(grid={"hscore__shrinkage": [0.1, 0.9]}, reference=percent, refit="regret")
    found.fit(X, Y)
    regret = found.cv_results_["mean_test_regret"]
    for scores, value in zip(found.scores_, regret, strict=True):
        chosen = max(scores[0], key=scores[0].get)
        assert value == pytest.approx(93 - percent[chosen])
    assert found.best_score_ == regret.min() >= 0
    assert found.cv_results_["rank_test_regret"][found.best_index_] == 1
    assert "lower_test_regret" not in found.cv_results_
    assert set(found.tied_with_best_) == set(np.flatnonzero(regret == regret.min()))


def test_a_loss_as_reference():
    loss = {name: 4 - 3 * value for name, value in REFERENCE.items()}
    turned = search(reference=loss, greater_is_better=False, scoring=EVERY).fit(X, Y)
    found = search(scoring=EVERY).fit(X, Y)
    for scoring in ("kendall", "weighted_kendall", "spearman", "pearson", "top_k"):
        for column in (f"mean_test_{scoring}", f"rank_test_{scoring}"):
            np.testing.assert_allclose(turned.cv_results_[column], found.cv_results_[column])
    np.testing.assert_allclose(
        turned.cv_results_["mean_test_regret"], 3 * found.cv_results_["mean_test_regret"]
    )
    assert turned.best_pvalue_ == found.best_pvalue_
    scores = turned.scores_[0][0]
    ratio = relative_top_k(scores, loss, greater_is_better=False)
    assert turned.cv_results_["mean_test_relative_top_k"][0] == pytest.approx(ratio)


def test_k_for_each_measure():
    sizes = {"top_k": 3, "regret": 2}
    found = search(k=sizes, scoring=("top_k", "regret", "relative_top_k")).fit(X, Y)
    scores, table = found.scores_[0][0], found.cv_results_
    assert found.refit_scoring_ == "top_k"
    assert table["mean_test_top_k"][0] == top_k_recall(scores, REFERENCE, 3)
    assert table["mean_test_regret"][0] == selection_regret(scores, REFERENCE, 2)
    assert table["mean_test_relative_top_k"][0] == relative_top_k(scores, REFERENCE, 1)
    assert found.chance_["top_k"] == top_k_recall(scores, REFERENCE, 3).chance


def test_of_equal_settings_the_first_is_the_best():
    metrics = {"b": HScore(shrinkage=0.3), "a": HScore(shrinkage=0.3), "worse": HScore()}
    reference = (
        search(metrics=["hscore"], grid={"hscore__shrinkage": [0.3]}).fit(X, Y).scores_[0][0]
    )
    for order in itertools.permutations(metrics):
        found = MetricSearchCV(
            CANDIDATES, {name: metrics[name] for name in order}, reference=reference
        ).fit(X, Y)
        assert found.best_metric_ == next(name for name in order if name != "worse")
        assert found.best_score_ == 1 and found.best_params_ == {}
        assert sorted(found.cv_results_["rank_test_weighted_kendall"])[:2] == [1, 1]


# -- work is done once -----------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [None, 4])
def test_each_candidate_is_run_once_whatever_is_searched(cv):
    search(metrics=METRICS, grid=GRID, cv=cv).fit(X, Y)
    assert Net.rows == N * len(CANDIDATES)


def test_rows_through_a_network():
    torch = pytest.importorskip("torch", reason="backbones need torch")
    from sktransfer.backbones import TorchBackbone

    class Counting(torch.nn.Module):
        rows = 0

        def __init__(self, seed):
            super().__init__()
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                self.body, self.head = torch.nn.Conv2d(1, 4, 3), torch.nn.Linear(4, 3)
            self.register_forward_hook(Counting.count)

        @staticmethod
        def count(module, inputs, output):
            Counting.rows += len(inputs[0])

        def forward(self, x):
            return self.head(torch.relu(self.body(x)).mean(dim=(2, 3)))

    images = np.random.default_rng(0).integers(0, 90, (N, 6, 6)) + 40 * Y[:, None, None]
    nets = [(n, TorchBackbone(Counting(int(n[-1])), mean=0.5, std=0.5)) for n in REFERENCE]
    TransferabilitySelector(nets, "transrate").fit(images.astype(np.uint8), Y)
    once, Counting.rows = Counting.rows, 0
    found = search(nets, METRICS, GRID, cv=3, **QUICK)
    found.fit(images.astype(np.uint8), Y)
    assert Counting.rows == once
    assert N * len(nets) <= once <= (N + 10) * len(nets)  # a few rows to find the layers


def test_metrics_on_moments_share_them(monkeypatch):
    made = []
    original = FeatureMoments.from_arrays.__func__

    def counting(cls, *args, **kwargs):
        made.append(1)
        return original(cls, *args, **kwargs)

    monkeypatch.setattr(FeatureMoments, "from_arrays", classmethod(counting))
    grid = {"hscore__shrinkage": [None, 0.1, 0.5], "gbc__n_components": [1, 2]}
    search(metrics=["hscore", "gbc"], grid=grid, cv=3, **QUICK).fit(X, Y)
    assert len(made) == 3 * len(CANDIDATES)


def test_features_are_kept(tmp_path):
    found = search(memory=tmp_path / "features", cv=2).fit(X, Y)
    assert Net.rows >= N * len(CANDIDATES)
    Net.rows = 0
    again = search(metrics=["transrate", "knn"], memory=FeatureStore(tmp_path / "features"), cv=3)
    again.fit(X, Y)
    assert Net.rows < 20 * len(CANDIDATES)  # rows that tell one network from another
    plain = search(metrics=["transrate"], cv=2).fit(X, Y)
    assert found.scores_[0][0] == pytest.approx(plain.scores_[0][0], rel=1e-9)


def test_features_of_learners_are_kept_by_joblib(tmp_path):
    joblib = pytest.importorskip("joblib")
    memory = joblib.Memory(tmp_path, verbose=0)
    first = search(memory=memory).fit(X, Y)
    Net.rows = 0
    second = search(memory=memory, metrics=["hscore"]).fit(X, Y)
    assert Net.rows == 0
    assert second.scores_[0] == first.scores_[1]


# -- what doesn't matter ---------------------------------------------------------------------------


def test_order_of_candidates_and_reference():
    found = search(grid=GRID, metrics=METRICS, scoring=EVERY, cv=2).fit(X, Y)
    reference = dict(reversed(REFERENCE.items()))
    turned = search(CANDIDATES[::-1], METRICS, GRID, scoring=EVERY, cv=2, reference=reference)
    turned.fit(X, Y)
    pd.testing.assert_frame_equal(table_of(found), table_of(turned))
    assert turned.scores_ == found.scores_
    assert list(turned.scores_[0][0]) == [name for name, _ in CANDIDATES[::-1]]
    assert turned.reference_ == found.reference_ and turned.best_pvalue_ == found.best_pvalue_


def test_order_of_rows_and_names_of_labels():
    order = np.random.default_rng(1).permutation(N)
    found = search(scoring=EVERY).fit(X, Y)
    other = search(scoring=EVERY).fit(X[order], np.array(["c", "a", "b"])[Y[order]])
    pd.testing.assert_frame_equal(table_of(found), table_of(other))


def test_other_measures_do_not_matter():
    found = search(scoring=EVERY, cv=2).fit(X, Y)
    for scoring in EVERY:
        alone = search(scoring=scoring, cv=2).fit(X, Y)
        frame = table_of(found)
        pd.testing.assert_frame_equal(table_of(alone), frame[table_of(alone).columns])
    again = search(scoring=EVERY[::-1], cv=2, refit="weighted_kendall").fit(X, Y)
    assert again.best_pvalue_ == found.best_pvalue_


def test_seeds():
    metric = NLEEP(components_per_class=2)
    grid = [{"nleep__energy": [0.8]}, {"nleep__log": [True]}]  # both are the defaults
    first, same, other = (
        search(metrics=[metric], grid=grid, random_state=seed).fit(X, Y) for seed in (0, 0, 1)
    )
    assert first.scores_ == same.scores_ != other.scores_
    assert first.scores_[0] == first.scores_[1]  # the same draw for each setting
    assert metric.random_state is None
    selector = TransferabilitySelector(CANDIDATES, first.best_estimator_).fit(X, Y)
    assert selector.scores_ == first.scores_[0][0]
    fixed = search(metrics=[NLEEP(components_per_class=2, random_state=3)], random_state=None)
    assert fixed.fit(X, Y).best_estimator_.random_state == 3
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        assert np.isfinite(search(random_state=state).fit(X, Y).best_score_)


# -- which samples ---------------------------------------------------------------------------------

SUBSETS = [np.arange(0, N, 2), np.arange(1, N, 4), np.arange(12)]


class Nested:
    """A splitter of subsets that says more of each than its rows."""

    def get_n_splits(self):
        return len(SUBSETS)

    def split(self, X, y):
        for repeat, rows in enumerate(SUBSETS):
            yield rows, len(rows) / N, repeat


@pytest.mark.parametrize(
    "cv",
    [
        SUBSETS,
        tuple(rows.tolist() for rows in SUBSETS),
        (rows for rows in SUBSETS),
        [np.isin(np.arange(N), rows) for rows in SUBSETS],
        [(rows, [0]) for rows in SUBSETS],
        [(rows.tolist(), 0.5, 3) for rows in SUBSETS],
        [[rows.tolist(), rows.tolist()] for rows in SUBSETS],
        [np.stack([rows[:12], rows[-12:]]) for rows in SUBSETS],
        Nested(),
    ],
    ids=["arrays", "lists", "generator", "masks", "pairs", "tuples", "lists2", "2d", "splitter"],
)
def test_subsets(cv):
    is_short = isinstance(cv, list) and getattr(cv[0], "ndim", 0) == 2
    found = search(cv=cv, metrics=["transrate"], **QUICK).fit(X, Y)
    for split, rows in enumerate(SUBSETS):
        rows = rows[:12] if is_short else rows
        expected = TransRate().fit(CANDIDATES[2][1].transform(X[rows]), Y[rows]).score_
        assert found.scores_[0][split]["net2"] == pytest.approx(expected, rel=1e-9)
    assert found.n_splits_ == 3


def test_splitters_and_groups():
    splitter = ShuffleSplit(4, train_size=30, random_state=0)
    assert search(cv=splitter, **QUICK).fit(X, Y).n_splits_ == 4
    with config_context(enable_metadata_routing=True):
        found = search(cv=GroupKFold(2), **QUICK).fit(X, Y, groups=np.arange(N) % 4)
    assert found.n_splits_ == 2
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        search(cv=GroupKFold(2)).fit(X, Y)


def test_weights_reach_the_metric_that_asked():
    weights = np.random.default_rng(0).uniform(0.1, 2, size=N)
    with config_context(enable_metadata_routing=True):
        metrics = [
            TransRate().set_fit_request(sample_weight=True),
            HScore().set_fit_request(sample_weight=False),
        ]
        found = search(metrics=metrics, grid={"transrate__eps": [1e-6, 1e-9]}, **QUICK)
        found.fit(X, Y, sample_weight=weights)
    features = CANDIDATES[1][1].transform(X)
    weighted = TransRate(eps=1e-9).fit(features, Y, sample_weight=weights).score_
    assert found.scores_[1][0]["net1"] == pytest.approx(weighted, rel=1e-9)
    assert found.scores_[2][0]["net1"] == pytest.approx(HScore().fit(features, Y).score_, rel=1e-9)
    with pytest.raises(ValueError, match="only supported if enable_metadata_routing=True"):
        search().fit(X, Y, sample_weight=weights)


# -- the grid --------------------------------------------------------------------------------------

LISTS = {"transrate__eps": [1e-3, 1e-6], "transrate__weights": ["prior", "uniform"]}
LABELS = [
    *("transrate(eps=0.001, weights='prior')", "transrate(eps=0.001, weights='uniform')"),
    *("transrate(eps=1e-06, weights='prior')", "transrate(eps=1e-06, weights='uniform')"),
    "hscore",
]


@pytest.mark.parametrize(
    ("grid", "labels"),
    [
        (None, ["transrate", "hscore"]),
        ([], ["transrate", "hscore"]),
        ({}, ["transrate", "hscore"]),
        (LISTS, LABELS),
        ({"transrate": {"eps": [1e-3, 1e-6], "weights": ("prior", "uniform")}}, LABELS),
        ({"transrate__eps": np.array([0.5]), "hscore": {}}, ["transrate(eps=0.5)", "hscore"]),
        (
            [{"transrate__eps": [0.5]}, {"transrate__eps": [0.25]}],
            ["transrate(eps=0.5)", "transrate(eps=0.25)", "hscore"],
        ),
        ([{}, {"transrate__eps": [0.5]}], ["transrate", "transrate(eps=0.5)", "hscore"]),
        (
            {"transrate__eps": [0.5, 0.25], "transrate__normalize": [True]},
            [f"transrate(eps={eps}, normalize=True)" for eps in (0.5, 0.25)] + ["hscore"],
        ),
    ],
)
def test_grids(grid, labels):
    found = search(grid=grid, scoring="kendall", **QUICK).fit(X, Y)
    assert found.labels_ == labels


class Spread(BaseEstimator):
    """A metric of somebody else, which states no constraints."""

    needs = "features"

    def __init__(self, power=1):
        self.power = power

    def fit(self, X, y):
        self.score_ = float(np.std(X) ** self.power)
        return self


def test_metrics_of_others():
    found = search(metrics=[Spread()], grid={"spread__power": [1, -1]}, scoring="kendall")
    tau = found.fit(X, Y).cv_results_["mean_test_kendall"]
    assert tau[0] == -tau[1] != 0


def test_metrics_in_every_form():
    for metrics in (
        "transrate",
        TransRate(),
        ["transrate"],
        (TransRate(),),
        {"transrate": "transrate"},
    ):
        found = MetricSearchCV(CANDIDATES, metrics, {"transrate__eps": [0.5]}, reference=REFERENCE)
        assert found.fit(X, Y).labels_ == ["transrate(eps=0.5)"]
    named = {"plain": HScore(), "shrunk": HScore(shrinkage=0.2)}
    found = MetricSearchCV(CANDIDATES, named, {"shrunk__shrinkage": [0.3]}, reference=REFERENCE)
    assert found.fit(X, Y).labels_ == ["plain", "shrunk(shrinkage=0.3)"]
    assert named["shrunk"].shrinkage == 0.2


@pytest.mark.parametrize(
    ("grid", "error", "words"),
    [
        ({"leep__temperature": [1]}, ValueError, "'leep__temperature' names no metric .*'hscore'"),
        ({"tol": [1]}, ValueError, "'tol' names no metric"),
        (
            {"transrate": [1]},
            ValueError,
            "'transrate' names no parameter .as 'transrate__<parameter>' would",
        ),
        (
            {"transrate__epps": [1]},
            ValueError,
            "TransRate has no parameter 'epps' as in .*it has .*'eps'",
        ),
        ({"transrate": {"epps": [1]}}, ValueError, "TransRate has no parameter 'epps'"),
        ({"transrate__epps": [1], "x__y": [1]}, ValueError, "no parameter 'epps'.*'x__y' names no"),
        ({"transrate__eps": 0.1}, ValueError, "'transrate__eps' .* a list of values.* Got 0.1"),
        ({"transrate__eps": []}, ValueError, "'transrate__eps' .* at least one. Got \\[\\]"),
        ({"transrate__eps": "fine"}, ValueError, "Got 'fine' instead"),
        ({"transrate__eps": np.ones((2, 2))}, ValueError, "'transrate__eps' .* a list of values"),
        (
            {"transrate__eps": [0.1, -1]},
            ValueError,
            "wrong value: The 'eps' parameter of TransRate",
        ),
        (
            {"transrate__eps": [0.5, 0.5]},
            ValueError,
            "each setting once. Got transrate.eps=0.5. tw",
        ),
        ({"transrate__eps": [1, np.float64(1)]}, ValueError, "'param_grid' must give each setting"),
        (
            [{"transrate__eps": [0.5]}, {"transrate": {"eps": (0.1, 0.5)}}],
            ValueError,
            "'param_grid' must give each setting once",
        ),
        ([{}, {}], ValueError, "'param_grid' must give each setting once. Got transrate twice"),
        (
            {"transrate__eps": [1], "transrate": {"eps": [1]}},
            ValueError,
            "has values for 'transrate__eps' twice",
        ),
        (
            ["transrate"],
            TypeError,
            "dict with keys '<metric>__<parameter>'.* Got 'transrate' instead",
        ),
        ({1: [2]}, TypeError, "dict with keys '<metric>__<parameter>'"),
        (3, ValueError, "The 'param_grid' parameter of MetricSearchCV must be"),
    ],
)
def test_wrong_grids(grid, error, words):
    with pytest.raises(error, match=words):
        search(grid=grid).fit(X, Y)
    assert Net.rows == 0


# -- the reference ---------------------------------------------------------------------------------

NAMED = list(REFERENCE.items())


@pytest.mark.parametrize(
    "reference",
    [
        pd.Series(REFERENCE),
        pd.Series(REFERENCE).sample(frac=1, random_state=0).to_frame("accuracy"),
        np.array(NAMED, dtype=[("name", "U9"), ("accuracy", float)]),
        np.array([tuple(REFERENCE.values())], dtype=[(name, float) for name in REFERENCE]),
    ],
    ids=["series", "frame", "structured", "fields"],
)
def test_references_pair_by_name(reference):
    found = search(reference=reference, **QUICK)
    pd.testing.assert_frame_equal(table_of(found.fit(X, Y)), table_of(search(**QUICK).fit(X, Y)))
    assert found.reference_ == REFERENCE
    assert list(found.reference_.values()) == sorted(REFERENCE.values())
    pd.testing.assert_frame_equal(table_of(clone(found).fit(X, Y)), table_of(found))


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ([0.1] * 6, "'reference' must name the candidates.* Got list without names"),
        (None, "'reference' must hold one number per candidate"),
        (pd.Series([0.1] * 6), "'reference' lacks 'net0'.* 'candidates' lacks 0"),
        ({**REFERENCE, "other": 1.0}, "'candidates' lacks 'other'"),
        ({n: v for n, v in NAMED if n != "net3"}, "'reference' lacks 'net3'.*names='common'"),
        ({**REFERENCE, "net2": np.nan}, "no finite number for 'net2'.*nan_policy='omit'"),
        ({**REFERENCE, "net2": None}, "'reference' has no finite number for 'net2'"),
        ({**REFERENCE, "net2": np.inf}, "'reference' has no finite number for 'net2'.*'omit'"),
        (pd.Series({**REFERENCE, "net2": -np.inf}), "'reference' has no finite number for 'net2'"),
        ({**REFERENCE, "net2": "good"}, "'reference' must hold real numbers"),
        (
            dict.fromkeys(REFERENCE, 0.9),
            "'reference' must tell candidates apart. Got 0.9 for all 6",
        ),
    ],
)
def test_wrong_references(reference, words):
    with pytest.raises(ValueError, match=words):
        search(reference=reference).fit(X, Y)
    assert Net.rows == 0


def test_reference_that_the_deciding_measure_cannot_use():
    reference = {**REFERENCE, "net1": -0.1}
    params = {"reference": reference, "scoring": EVERY}
    with pytest.raises(
        ValueError, match="No scores can agree with 'reference' by 'relative_top_k'"
    ):
        search(refit="relative_top_k", **params).fit(X, Y)
    assert Net.rows == 0
    found = search(**params).fit(X, Y)
    assert found.refit_scoring_ == "weighted_kendall"
    assert np.isnan(found.cv_results_["mean_test_relative_top_k"]).all()
    assert found.cv_results_["reason_relative_top_k"][0].startswith("a ratio needs ref")
    assert found.cv_results_["rank_test_relative_top_k"].tolist() == [1, 1]
    assert np.isnan(found.chance_["relative_top_k"])


def test_names_in_common():
    reference = {n: v for n, v in NAMED if n not in ("net0", "net3")} | {"other": 0.99}
    found = search(reference=reference, names="common", **QUICK).fit(X, Y)
    assert Net.rows == 4 * N  # without a reference there is nothing to run a candidate for
    assert set(found.left_out_) == {"net0", "net3", "other"}
    few = [pair for pair in CANDIDATES if pair[0] in reference]
    fewer = search(few, reference={n: reference[n] for n, _ in few}, **QUICK).fit(X, Y)
    pd.testing.assert_frame_equal(table_of(found), table_of(fewer))
    with pytest.raises(ValueError, match="have no candidate in common"):
        search(reference={"other": 1.0}, names="common").fit(X, Y)
    with pytest.raises(ValueError, match="at least 2 candidates with a finite number .* Got 1"):
        search(reference={"net0": 1.0}, names="common").fit(X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None])
def test_candidates_without_a_number_are_left_out_on_demand(value):
    reference = {**REFERENCE, "net4": value}
    found = search(reference=reference, nan_policy="omit").fit(X, Y)
    assert found.left_out_ == ("net4",) and Net.rows == 5 * N
    assert found.cv_results_["n_candidates"].tolist() == [5, 5]


def test_dropped_candidates_may_stay_in_the_reference():
    found = search(**QUICK).set_params(net5="drop", net0="passthrough").fit(X, Y)
    assert list(found.scores_[0][0]) == ["net0", "net1", "net2", "net3", "net4"]
    assert "net5" not in found.reference_ and found.left_out_ == ()
    expected = TransRate().fit(X, Y).score_
    assert found.scores_[0][0]["net0"] == pytest.approx(expected, rel=1e-9)


# -- what fails ------------------------------------------------------------------------------------


class Fails(Net):
    """Fails on all rows, or on as few as a subset has."""

    def __init__(self, seed=0, width=4, head=True, fewest=10**9, learns=False):
        super().__init__(seed, width, head)
        self.fewest = fewest
        self.learns = learns

    @property
    def stateless(self):
        return not self.learns

    def extract(self, X):
        if len(X) < self.fewest:
            raise ValueError(f"{self.fewest} rows are needed.")
        return super().extract(X)


def test_a_candidate_without_a_source_head():
    given = [*CANDIDATES[:5], ("net5", Net(5, head=False))]
    metrics = ["transrate", "leep"]
    with pytest.warns(CandidateFailedWarning) as caught:
        found = search(given, metrics, {"leep__temperature": [1.0, 2.0]}).fit(X, Y)
    assert failed(caught) == [
        "Candidate 'net5' has no score by 'leep' (2 of its 2 settings): LEEP needs source "
        "probabilities, and none were given (the candidate has no source head)."
    ]
    table = found.cv_results_
    for scoring in CORRELATIONS:
        assert np.isnan(table[f"mean_test_{scoring}"]).tolist() == [False, True, True]
        assert table[f"rank_test_{scoring}"].tolist() == [1, 2, 2]
        assert table[f"reason_{scoring}"][1] == "no score for 'net5' (1 of 6 candidates)"
        assert np.isnan(table[f"lower_test_{scoring}"][1:]).all()
        assert table[f"tied_test_{scoring}"].tolist() == [True, False, False]
    # A candidate without a score is never chosen, and what that loses counts.
    assert np.isfinite(table["mean_test_regret"]).all()
    assert table["n_candidates"].tolist() == [6, 5, 5]
    assert found.best_metric_ == "transrate" and found.left_out_ == ()
    assert list(found.failures_) == ["net5"]
    assert list(found.failures_["net5"]) == ["leep(temperature=1.0)", "leep(temperature=2.0)"]
    assert np.isnan(found.scores_[1][0]["net5"])

    with pytest.warns(CandidateFailedWarning):
        found = search(given, metrics, nan_policy="omit", cv=2).fit(X, Y)
    scores = {name: [split[name] for split in found.scores_[1]] for name in REFERENCE}
    expected = stability_ref(scores, REFERENCE, nan_policy="omit", n_resamples=0)
    assert found.cv_results_["mean_test_kendall"][1] == pytest.approx(expected.statistic)
    assert found.cv_results_["reason_kendall"][1] is None
    assert found.cv_results_["lower_test_kendall"][1] < 1
    assert 0 < found.best_pvalue_ <= 1


def test_a_candidate_that_fails_costs_the_others_nothing():
    given = [*CANDIDATES[:5], ("net5", Fails(5))]
    with pytest.warns(CandidateFailedWarning) as caught:
        found = search(given, cv=2).fit(X, Y)
    assert failed(caught) == [
        "Candidate 'net5' could not be run and is left out: 1000000000 rows are needed."
    ]
    assert found.left_out_ == ("net5",)
    assert found.failures_ == {
        "net5": dict.fromkeys(["transrate", "hscore"], "1000000000 rows are needed.")
    }
    rest = {name: value for name, value in REFERENCE.items() if name != "net5"}
    expected = search(CANDIDATES[:5], reference=rest, cv=2).fit(X, Y)
    pd.testing.assert_frame_equal(table_of(found), table_of(expected))
    with pytest.raises(ValueError, match="rows are needed"):
        search(given, error_score="raise").fit(X, Y)


def test_a_candidate_that_fails_in_some_split():
    given = [*CANDIDATES[:5], ("net5", Fails(5, fewest=20, learns=True))]
    with pytest.warns(CandidateFailedWarning, match="'net5' could not be run .* splits 1 and 2:"):
        found = search(given, cv=SUBSETS).fit(X, Y)
    assert found.left_out_ == ("net5",)


def test_too_few_candidates_with_scores():
    none = [(name, Fails()) for name in REFERENCE]
    with pytest.raises(ValueError, match="Only 0 of 6 candidates could .* 2. 1000000000 rows"):
        search(none).fit(X, Y)
    one = [*none[:5], CANDIDATES[5]]
    with pytest.raises(ValueError, match="Only 1 of 6 candidates could .*'net0'.*'net4': 100"):
        search(one).fit(X, Y)
    two = [*none[:4], *CANDIDATES[4:]]
    with pytest.warns(CandidateFailedWarning):
        assert search(two).fit(X, Y).cv_results_["n_candidates"].tolist() == [2, 2]
    same = {**REFERENCE, "net4": 0.5, "net5": 0.5}
    with pytest.raises(ValueError, match="Got 0.5 for all 2 of them.*'net3': 1000000000 rows are"):
        search(two, reference=same).fit(X, Y)


def test_fewer_candidates_left_than_are_chosen():
    given = [*CANDIDATES[:5], ("net5", Fails())]
    choices = ["top_k", "regret", "relative_top_k"]
    with pytest.warns(CandidateFailedWarning, match="'net5' could not be run"):
        found = search(given, scoring=["kendall", *choices], k=6).fit(X, Y)
    rest = {name: value for name, value in REFERENCE.items() if name != "net5"}
    without = search(CANDIDATES[:5], reference=rest, scoring="kendall").fit(X, Y)
    assert found.best_score_ == without.best_score_
    assert found.best_pvalue_ == without.best_pvalue_
    for name in choices:
        assert np.isnan(found.cv_results_[f"mean_test_{name}"]).all()
        reasons = set(found.cv_results_[f"reason_{name}"])
        assert reasons == {"only 5 candidates, fewer than k=6"}
        assert np.isnan(found.chance_[name])
    words = r"defined 'top_k'.*only 5 candidates, fewer than k=6.* run: 'net5': 1000000000 rows"
    for k in (6, {"top_k": 6}):
        with pytest.raises(ValueError, match=words):
            search(given, scoring=["kendall", "top_k"], refit="top_k", k=k).fit(X, Y)


def test_candidates_in_a_dict():
    words = r"must be a list of \(name, transformer\) tuples: pass list\(candidates.items\(\)\)"
    with pytest.raises(ValueError, match=f"'candidates' parameter of MetricSearchCV {words}"):
        search(dict(CANDIDATES)).fit(X, Y)
    with pytest.raises(ValueError, match=f"'candidates' parameter of Transf.*Selector {words}"):
        TransferabilitySelector(dict(CANDIDATES)).fit(X, Y)


def test_a_reference_ranking_is_a_reference():
    class Ranking:
        def reference(self, measure=None):
            return REFERENCE

    pd.testing.assert_frame_equal(
        table_of(search(reference=Ranking()).fit(X, Y)), table_of(search().fit(X, Y))
    )


def test_a_split_without_any_score_is_left_out():
    one_class = np.flatnonzero(Y == 0)
    cv = [SUBSETS[0], one_class, SUBSETS[1]]
    with pytest.warns(CandidateFailedWarning) as caught:
        found = search(cv=cv, metrics=["hscore", "transrate"]).fit(X, Y)
    (message,) = failed(caught)
    assert message.startswith("Split 1 has one class or value and is left out: HScore requires")
    assert list(found.split_failures_) == [1] and found.failures_ == {}
    assert np.isnan(found.cv_results_["split1_test_kendall"]).all()
    expected = search(cv=[cv[0], cv[2]], metrics=["hscore", "transrate"]).fit(X, Y)
    for name in ("mean_test_kendall", "std_test_kendall", "mean_test_regret", "lower_test_pearson"):
        np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
    assert found.best_pvalue_ == expected.best_pvalue_
    # Nor does a candidate have to be run on it.
    given = [*CANDIDATES[:5], ("net5", Fails(5, fewest=25, learns=True))]
    with pytest.warns(CandidateFailedWarning, match="Split 1 has one class"):
        assert search(given, cv=[cv[0], one_class]).fit(X, Y).left_out_ == ()
    with pytest.raises(ValueError, match="each of the 2 splits of 'cv' has 1 class"):
        search(cv=[one_class, one_class]).fit(X, Y)


class Flat(LogME):
    """The same score for all, unless there are many rows."""

    lives_on_moments = False

    def _fit(self, X, target, sample_weight):
        self.score_ = 1.0 if len(X) < 25 else float(X.var())


def test_undefined_in_some_splits():
    found = search(metrics=["transrate", Flat()], cv=SUBSETS, scoring=EVERY).fit(X, Y)
    table = found.cv_results_
    for scoring in EVERY:
        assert np.isnan(table[f"mean_test_{scoring}"]).tolist() == [False, True]
        assert table[f"rank_test_{scoring}"].tolist() == [1, 2]
        reason = "splits 1 and 2: all candidates tied in the scores"
        assert table[f"reason_{scoring}"].tolist() == [None, reason]
        assert np.isfinite(table[f"split0_test_{scoring}"]).all()
    omitted = search(metrics=["transrate", Flat()], cv=SUBSETS, nan_policy="omit").fit(X, Y)
    for scoring in ("kendall", "regret"):
        mean = omitted.cv_results_[f"mean_test_{scoring}"][1]
        assert mean == table[f"split0_test_{scoring}"][1]
        assert omitted.cv_results_[f"reason_{scoring}"][1].startswith("splits 1 and 2")
    assert np.isnan(omitted.cv_results_["std_test_kendall"][1])


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.CandidateFailedWarning")
def test_nothing_defined_is_an_error_that_says_why():
    with pytest.raises(
        ValueError, match="No metric has a defined 'weighted_kendall'.* 'flat': all"
    ):
        search(metrics=[Flat()], cv=[SUBSETS[2]]).fit(X, Y)
    given = [*CANDIDATES[:5], ("net5", Net(5, head=False))]
    words = "'leep' and 'nce': no score for 'net5'.* because: LEEP needs source probabilities"
    with pytest.raises(ValueError, match=words) as caught:
        search(given, ["leep", "nce", Flat()], cv=[SUBSETS[2]]).fit(X, Y)
    assert isinstance(caught.value.__cause__, ValueError)
    # One metric alone is not spared what it would be held against beside others.
    with pytest.raises(ValueError, match="With nan_policy='omit' candidates without a score are"):
        search(given, ["leep"]).fit(X, Y)
    found = search(given, ["leep"], nan_policy="omit").fit(X, Y)
    assert found.cv_results_["n_candidates"].tolist() == [5] and found.left_out_ == ()


def test_what_metrics_say_is_said_once_for_each_kind():
    labels = np.random.default_rng(3).permutation(Y)
    with pytest.warns(UninformativeScoreWarning) as caught:
        found = search(metrics=["transrate"], grid={"transrate__eps": [1e-4, 1e-3]}).fit(X, labels)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith("The TransRate score ")
    assert "such warnings, see warnings_)" in str(warning.message)
    assert found.warnings_.keys() <= REFERENCE.keys()
    assert sum(map(len, found.warnings_.values())) > 2


# -- what is wrong before any work -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"scoring": "tau"}, "'scoring' must be one or several of .*'kendall'.* Got 'tau'"),
        ({"scoring": ["kendall", "kendall"]}, "each once"),
        ({"scoring": []}, "'scoring' must be one or several"),
        ({"scoring": ["kendall", len]}, "'scoring' must be one or several"),
        ({"refit": "top_1"}, "'refit' must be one of 'scoring'.* Got 'top_1'"),
        ({"scoring": ["kendall"], "refit": "regret"}, "'refit' must be one of 'scoring'"),
        ({"k": 7}, "'k' must be a whole number between 1 and .* candidates, 6. Got 7"),
        ({"k": 0}, "The 'k' parameter of MetricSearchCV"),
        ({"k": {"top_k": 9}}, "'k' must be a whole number .* Got {'top_k': 9}"),
        ({"k": {"top_k": 1.5}}, "'k' must be a whole number"),
        ({"k": {"kendall": 1}}, "'k' may have a number for each of"),
        ({"metrics": ["transrate", "nothing"]}, "metrics must be one of .*; got 'nothing'"),
        ({"metrics": "nothing"}, "metrics must be one of .*; got 'nothing'"),
        ({"metrics": ["hscore", "hscore"]}, r"metrics has \['hscore'\] more than once"),
        ({"metrics": []}, "metrics must name at least one metric"),
        ({"candidates": [*CANDIDATES, CANDIDATES[0]]}, "names in 'candidates' must be unique"),
        ({"candidates": [("a__b", Net()), *CANDIDATES]}, "'candidates' has names .*'a__b'"),
        ({"cv": 30}, "'cv' cannot split these 60 samples: n_splits=30 "),
        ({"cv": 500}, "'cv' cannot split these 60 samples: .*n_splits=500"),
        ({"cv": GroupKFold(2)}, "'cv' cannot split these 60 samples: The 'groups' parameter"),
        ({"cv": [np.ones(59, bool)]}, r"Split 0 of 'cv' is a mask of shape \(59,\).* 60 samples"),
        ({"cv": [[0, 1, -61]]}, "rows that don't exist.* row -61"),
        ({"cv": [range(9), [0, 1, 2, 1]]}, "split 1 of 'cv' must have each row once. Got row 1 2 "),
        ({"cv": [([0, 1, 59, -1], [])]}, "split 0 of 'cv' must have each row once. Got row 59 2 t"),
        ({"n_jobs": 0}, "The 'n_jobs' parameter of MetricSearchCV .* Got 0"),
        ({"n_resamples": 1}, "'n_resamples' must be at least 40 for level=0.95, or 0 .* Got 1"),
        ({"n_resamples": 39}, "'n_resamples' must be at least 40"),
        ({"n_resamples": 19, "level": 0.9}, "'n_resamples' must be at least 20 for level=0.9"),
        ({"n_resamples": 1000, "level": 0.999}, "must be at least 2000 for level=0.999"),
        ({"n_resamples": True}, "The 'n_resamples' parameter of MetricSearchCV .* Got True"),
        ({"metrics": {"a__b": "transrate"}}, "The keys of 'metrics' must be"),
        ({"metrics": [TransRate(eps=-1)]}, "The 'eps' parameter of TransRate"),
        ({"candidates": []}, "'candidates' must be a non-empty list"),
        ({"cv": [[]]}, "split 0 of 'cv' must be a non-empty array of row numbers"),
        ({"cv": [[0, 1, 60]]}, "rows that don't exist.* row 60"),
        ({"cv": []}, "'cv' must have at least one split"),
        ({"cv": [[0.5, 1.0]]}, "must be a non-empty array of row numbers"),
        ({"names": "all"}, "The 'names' parameter"),
        ({"nan_policy": "raise"}, "The 'nan_policy' parameter"),
        ({"level": 1.0}, "The 'level' parameter"),
        ({"n_resamples": -1}, "The 'n_resamples' parameter"),
        ({"random_state": "one"}, "The 'random_state' parameter"),
        ({"memory": 3}, "The 'memory' parameter"),
    ],
)
def test_wrong_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        search().set_params(**params).fit(X, Y)
    assert Net.rows == 0


def test_wrong_data():
    with pytest.raises(ValueError, match="MetricSearchCV requires y to be passed"):
        search().fit(X, None)
    with pytest.raises(ValueError, match="got 1 class"):
        search().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="X and y have inconsistent numbers of samples: 60 and 59"):
        search().fit(X, Y[1:])
    with pytest.raises(TypeError, match="reference"):
        MetricSearchCV(CANDIDATES, "transrate")


def test_large_k_is_no_matter_without_a_choice():
    assert search(scoring="kendall", k=50, **QUICK).fit(X, Y).scoring_ == ["kendall"]


# -- uncertainty -----------------------------------------------------------------------------------


def test_limits_are_those_of_resampled_candidates():
    many = [(f"n{seed}", Net(seed, width=3)) for seed in range(12)]
    rng = np.random.default_rng(5)
    reference = {
        name: float(value) for (name, _), value in zip(many, rng.normal(size=12), strict=True)
    }
    found = search(many, ["transrate", "hscore", "knn"], reference=reference, cv=SUBSETS[:2])
    found.set_params(n_resamples=1500, scoring=CORRELATIONS).fit(X, Y)
    for scoring in CORRELATIONS:
        for row in range(3):
            table = {name: [split[name] for split in found.scores_[row]] for name in reference}
            expected = stability_ref(table, reference, scoring, n_resamples=1500, random_state=1)
            assert found.cv_results_[f"mean_test_{scoring}"][row] == pytest.approx(
                expected.statistic
            )
            limits = [
                found.cv_results_[f"{side}_test_{scoring}"][row] for side in ("lower", "upper")
            ]
            assert limits == pytest.approx(expected.interval, abs=0.15)  # other resamples
    narrow = clone(found).set_params(level=0.5, scoring="kendall").fit(X, Y).cv_results_
    width = found.cv_results_["upper_test_kendall"] - found.cv_results_["lower_test_kendall"]
    assert (narrow["upper_test_kendall"] - narrow["lower_test_kendall"] < 0.7 * width).all()


def scored_by(tables, reference, **params):
    """A search over scores that are given: columns of the data are candidates' single features."""

    class Given(LogME):
        lives_on_moments = False

        def __init__(self, row=0):
            super().__init__()
            self.row = row

        _parameter_constraints = {"row": [int]}

        def _fit(self, X, target, sample_weight):
            self.score_ = float(X[self.row, 0])

    data = np.vstack([tables, np.zeros((2, tables.shape[1]))])
    candidates = [(f"c{i}", Column(i)) for i in range(tables.shape[1])]
    reference = dict(zip([name for name, _ in candidates], reference, strict=True))
    grid = {"given__row": list(range(len(tables)))}
    found = MetricSearchCV(candidates, [Given()], grid, reference=reference, **params)
    return found.fit(data, np.arange(len(data)) % 2)


class Column(TransformerMixin, BaseEstimator):
    stateless = True

    def __init__(self, index=0):
        self.index = index

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, [self.index]]


def tables(agreements, n=40, seed=0):
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=n)
    noise = rng.normal(size=(len(agreements), n))
    agreements = np.array(agreements)[:, None]
    return agreements * reference + np.sqrt(1 - agreements**2) * noise, reference


def test_settings_that_cannot_be_told_from_the_best():
    scores, reference = tables([0.97, 0.97, 0.3, -0.8, 0.965])
    found = scored_by(scores, reference)
    assert set(found.tied_with_best_) == {0, 1, 4}
    for scoring in CORRELATIONS:
        table = found.cv_results_
        assert table[f"tied_test_{scoring}"].tolist() == [True, True, False, False, True]
        assert table[f"tied_test_{scoring}"][np.argmin(table[f"rank_test_{scoring}"])]
    assert found.best_pvalue_ == 1 / 1000


def test_tied_settings_by_loops():
    from scipy.special import ndtr, ndtri

    scores, reference = tables([0.8, 0.6, 0.5, 0.2], n=12, seed=1)
    found = scored_by(scores, reference, scoring="kendall", n_resamples=150, level=0.9)
    mean = found.cv_results_["mean_test_kendall"]
    order = np.argsort(reference)
    # The draws of the search: the second stream of three, and from it a seed for all measures.
    stream = np.random.default_rng(0).spawn(3)[1]
    rng = np.random.default_rng(int(stream.integers(2**32)))
    counts = rng.multinomial(12, np.full(12, 1 / 12), size=150)
    resampled = np.array(
        [
            [
                rank_correlation(
                    np.repeat(row[order], count), np.repeat(reference[order], count), **QUICK
                ).statistic
                for count in counts
            ]
            for row in scores
        ]
    )
    quantile = ndtr(ndtri(0.9) * np.sqrt(12 / 11))
    expected = []
    for row in range(4):
        beyond = [
            max(
                0.0
                if other == row
                else (resampled[other, b] - resampled[row, b]) - (mean[other] - mean[row])
                for other in range(4)
            )
            for b in range(150)
        ]
        expected.append(mean.max() - mean[row] <= np.quantile(beyond, quantile))
    assert found.cv_results_["tied_test_kendall"].tolist() == expected
    assert 1 < sum(expected) < 4


def test_few_candidates_tell_nothing_apart():
    given = CANDIDATES[:4]
    reference = {name: REFERENCE[name] for name, _ in given}
    found = search(given, ["transrate", "hscore"], reference=reference).fit(X, Y)
    for scoring in CORRELATIONS:
        assert found.cv_results_[f"lower_test_{scoring}"].tolist() == [-1, -1]
        assert found.cv_results_[f"upper_test_{scoring}"].tolist() == [1, 1]
        assert found.cv_results_[f"tied_test_{scoring}"].all()


@pytest.mark.parametrize("scoring", EVERY)
def test_pvalue_of_the_best_goes_through_all_orders(scoring):
    scores, reference = tables([0.9, 0.5, 0.0], n=5, seed=3)
    reference = np.exp(reference)
    found = scored_by(scores, reference, scoring=scoring, k=2, n_permutations=120)
    names = list(found.scores_[0][0])
    compare = {"top_k": top_k_recall, "regret": selection_regret, "relative_top_k": relative_top_k}
    sign = -1 if scoring == "regret" else 1

    def best_of(values):
        given = dict(zip(names, values, strict=True))
        if scoring in CORRELATIONS:
            return max(
                rank_correlation(
                    dict(zip(names, row, strict=True)), given, scoring, **QUICK
                ).statistic
                for row in scores
            )
        return max(
            sign * compare[scoring](dict(zip(names, row, strict=True)), given, 2) for row in scores
        )

    orders = [best_of(values) for values in itertools.permutations(reference)]
    observed = best_of(reference)
    assert sign * found.best_score_ == pytest.approx(observed)
    expected = np.mean(np.array(orders) >= observed - 1e-9)
    assert found.best_pvalue_ == pytest.approx(expected)


def test_pvalue_allows_for_the_number_of_settings():
    """Of worthless metrics the best of forty is no surprise, though it looks good by itself."""
    pvalues, alone = [], []
    for seed in range(25):
        scores, reference = tables([0.0] * 40, n=14, seed=seed)
        pair = Reference(tuple(range(14)), reference)
        found = Agreement("kendall", scores[:, None], pair, 1, "propagate", np.array([True]))
        pvalues.append(found.best_pvalue(199, np.random.default_rng(seed)))
        options = {"n_resamples": 0, "n_permutations": 199, "alternative": "greater"}
        best = scores[np.argmax(found.mean)]
        alone.append(rank_correlation(best, reference, **options).pvalue)
    assert np.mean(np.array(alone) < 0.05) > 0.7
    assert np.mean(np.array(pvalues) < 0.05) < 0.25
    assert 0.3 < np.mean(pvalues) < 0.7


def test_without_resamples_and_random_references():
    found = search(**QUICK).fit(X, Y)
    assert not any("lower" in name or "tied" in name for name in found.cv_results_)
    assert np.isnan(found.best_pvalue_)
    assert found.tied_with_best_.tolist() == [0, 1]  # nothing has been told apart
    assert search(n_resamples=40).fit(X, Y).cv_results_["tied_test_kendall"].any()


# -- among scikit-learn's estimators ---------------------------------------------------------------

THREE = [("pca", PCA(1)), ("std", StandardScaler()), ("raw", "passthrough")]
CHECKED = MetricSearchCV(
    THREE, ["transrate", "hscore"], reference={"pca": 0.1, "std": 0.2, "raw": 0.3}, n_resamples=40
)
N_CHECKS = 42


def test_every_check_is_executed():
    results = estimator_checks.check_estimator(clone(CHECKED), on_skip=None, on_fail=None)
    assert [r for r in results if r["status"] != "passed"] == []
    assert len(results) == N_CHECKS


@pytest.mark.parametrize(
    "name", ["check_param_validation", "check_dataframe_column_names_consistency"]
)
def test_extra_checks(name):
    if name == "check_dataframe_column_names_consistency":
        found = clone(CHECKED).fit(pd.DataFrame(X).rename(columns=str), Y)
        assert found.feature_names_in_.tolist() == list("01234567")
        assert not hasattr(found.fit(X, Y), "feature_names_in_")
        return
    partial(getattr(estimator_checks, name), "MetricSearchCV")(clone(CHECKED))


def test_nested_parameters():
    found = search(metrics=[TransRate(), "hscore"], grid={"hscore__shrinkage": [0.1]})
    params = found.get_params()
    assert params["net3__seed"] == 3 and params["metrics__transrate__eps"] == TransRate().eps
    found.set_params(
        net3__seed=9, metrics__transrate__eps=0.25, metrics__hscore__shrinkage=0.4, cv=2
    )
    assert dict(found.candidates)["net3"].seed == 9
    assert found.metrics[0].eps == 0.25 and found.metrics[1].shrinkage == 0.4
    with pytest.raises(ValueError, match="Invalid metric 'leep' in 'metrics__leep__temperature'"):
        found.set_params(metrics__leep__temperature=2)
    CANDIDATES[3][1].set_params(seed=3)
    copy = clone(found)
    assert copy.get_params(deep=False).keys() == found.get_params(deep=False).keys()
    assert copy.metrics[0].eps == 0.25


def test_pickle_repr_and_html():
    found = search(cv=2)
    assert "reference={'net0'" in repr(found) and repr(clone(found)) == repr(found)
    assert "transrate" in estimator_html_repr(found)
    assert "MetricSearchCV" in estimator_html_repr(search(metrics=["nothing"]))
    found.fit(X, Y)
    assert f"{found.best_metric_} (best)" in estimator_html_repr(found)
    again = pickle.loads(pickle.dumps(found))
    pd.testing.assert_frame_equal(table_of(again), table_of(found))
    assert len(pickle.dumps(found)) < 60_000


def test_nothing_that_was_passed_is_changed():
    given, metrics = (
        [(n, Net(i)) for i, n in enumerate(REFERENCE)],
        [TransRate(), NLEEP(components_per_class=1)],
    )
    reference, grid = dict(REFERENCE), {"transrate__eps": [0.5]}
    data = X.copy()
    data.flags.writeable = False
    MetricSearchCV(given, metrics, grid, reference=reference).fit(data, Y)
    assert reference == REFERENCE and grid == {"transrate__eps": [0.5]}
    assert not any(hasattr(candidate, "fitted_") for _, candidate in given)
    assert metrics[0].eps == TransRate().eps and metrics[1].random_state is None


def test_frame():
    found = search(metrics=["knn", "transrate"], grid={"knn__n_neighbors": [1, 3]}, cv=2).fit(X, Y)
    frame = found.to_frame()
    assert frame["rank"].is_monotonic_increasing and frame["rank"][0] == 1
    assert frame["setting"][0] == found.labels_[found.best_index_]
    assert list(frame.columns[:8]) == [
        *("rank", "setting", "weighted_kendall", "weighted_kendall_lower"),
        *("weighted_kendall_upper", "weighted_kendall_tied", "kendall", "kendall_lower"),
    ]
    assert list(frame.columns[-4:]) == ["top_k", "regret", "n_candidates", "reason"]
    assert set(frame["reason"]) == {""}
    assert not any("lower" in name for name in search(**QUICK).fit(X, Y).to_frame())


def test_frame_without_pandas(monkeypatch):
    found = search().fit(X, Y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame requires pandas"):
        found.to_frame()


def test_progress(capsys):
    search(verbose=1, **QUICK).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[MetricSearchCV] candidate 1/6 is done: net0" and len(lines) == 6
    search(**QUICK).fit(X, Y)
    assert capsys.readouterr().out == ""


def test_other_targets_and_inputs():
    y = X[:, :1] * [[1.0, -2.0]] + 0.3
    found = search(metrics=["linearprobe"], cv=2).fit(X, y)
    assert np.isfinite(found.best_score_)
    found = search(metrics=["knn"], **QUICK).fit(pd.DataFrame(X), pd.Series(Y).astype("category"))
    expected = KNN().fit(CANDIDATES[0][1].transform(X), Y).score_
    assert found.scores_[0][0]["net0"] == pytest.approx(expected)


def test_progress_bar(capsys):
    pytest.importorskip("rich")
    search(**QUICK).set_callbacks(ProgressBar()).fit(X, Y)
    assert "MetricSearchCV - fit" in capsys.readouterr().out


def test_metrics_that_look_into_the_network():
    torch = pytest.importorskip("torch", reason="backbones need torch")
    from sktransfer.backbones import TorchBackbone
    from sktransfer.finetune import FU, LPFU

    def network(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers = (torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Conv2d(3, 4, 3))
            return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64, 3))

    images = np.random.default_rng(0).integers(0, 90, (N, 8, 8)) + 40 * Y[:, None, None]
    images = images.astype(np.uint8)
    nets = [(n, TorchBackbone(network(int(n[-1])), mean=0.5, std=0.5)) for n in REFERENCE]
    metrics = [FU(random_state=0), LPFU(random_state=0, n_components=2), "hscore"]
    rows = np.arange(0, N, 2)
    found = search(nets, metrics, {"fu__margin": [0.05, 0.5]}, cv=[rows], **QUICK)
    found.fit(images, Y)
    selector = TransferabilitySelector(nets, metrics, cv=[rows]).fit(images, Y)
    for row, metric in ((0, "fu"), (2, "lpfu"), (3, "hscore")):
        assert found.scores_[row][0] == pytest.approx(selector.metric_scores_[metric], rel=1e-9)
    assert found.scores_[1][0] != found.scores_[0][0]
    assert pickle.loads(pickle.dumps(found)).best_score_ == found.best_score_
