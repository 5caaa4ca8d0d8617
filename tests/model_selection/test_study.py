"""The scores of a robustness study and the tables made of them."""

import os
import pickle
import warnings
from itertools import combinations

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import kendalltau, spearmanr, weightedtau
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer
from sklearn.random_projection import GaussianRandomProjection
from threadpoolctl import threadpool_limits

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.evaluation import competition_ranks
from sktransfer.exceptions import CandidateFailedWarning, UninformativeScoreWarning
from sktransfer.metrics import LEEP, NCTI, NLEEP, HScore, LogME, get_metric
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy
from sktransfer.utils._progress import steps_reported_to

pd = pytest.importorskip("pandas")

# Few rows: many scores say nothing, as they should say.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.SingletonClassWarning",
)

DIGITS, LABELS = load_digits(n_class=3, return_X_y=True)
DIGITS, LABELS = DIGITS[:90] / 16, LABELS[:90]
rng = np.random.default_rng(0)
FEATURES = {
    "b": DIGITS[:, 20:40].astype(np.float32),
    "a": DIGITS[:, ::5] + rng.normal(size=(90, 13)),
    "c": rng.normal(size=(90, 6)),
}
SOURCE = rng.dirichlet(np.ones(4), size=90)
SUBSETS = NestedStratifiedSubsets(fractions=(0.3, 0.6), n_repeats=3)


def precomputed(**probabilities):
    return [(k, PrecomputedFeatures(f, probabilities.get(k))) for k, f in FEATURES.items()]


def untimed(study):
    frame = study.to_frame() if hasattr(study, "to_frame") else study
    return frame.drop(columns="seconds").to_csv(index=False)


def by_cell(frame):
    keys = ["metric", "candidate", "fraction", "repeat"]
    return frame.set_index(keys)["score"]


def rows_of_cells(subsets=SUBSETS, y=LABELS):
    rows = {(s.fraction, s.repeat): s.indices for s in subsets.split(np.zeros((len(y), 1)), y)}
    return rows | {(1.0, 0): np.arange(len(y))}


@pytest.fixture(scope="module")
def study():
    """A finished study of metrics of all kinds, kept in memory."""
    metrics = {"ncti": NCTI(n_components=4), "hscore": HScore(0.1), "leep": LEEP()}
    candidates = precomputed(a=SOURCE, b=SOURCE[::-1], c=SOURCE)
    return RobustnessStudy(candidates, metrics, SUBSETS).run(DIGITS, LABELS)


# -- scores ----------------------------------------------------------------------------------------


def test_scores_are_those_of_the_metrics_on_rows_of_the_features(study):
    frame = study.to_frame()
    assert list(frame.columns) == (
        ["target", "metric", "candidate", "fraction", "repeat"]
        + ["n_samples", "score", "status", "reason", "seconds"]
    )
    assert len(frame) == 3 * 3 * 7 == study.n_computed_
    assert set(frame["status"]) == {"done"}
    assert set(frame["reason"]) == {""}
    assert frame["seconds"].gt(0).all()
    keys = ["target", "metric", "candidate", "fraction", "repeat"]
    pd.testing.assert_frame_equal(frame, frame.sort_values(keys, ignore_index=True))
    scores = by_cell(frame)
    source = {"a": SOURCE, "b": SOURCE[::-1], "c": SOURCE}
    for key, rows in rows_of_cells().items():
        fitted = []
        for name in "abc":
            F, y = FEATURES[name][rows], LABELS[rows]
            assert scores["hscore", name, *key] == pytest.approx(HScore(0.1).fit(F, y).score_)
            expected = LEEP().fit(source[name][rows], y).score_
            assert scores["leep", name, *key] == pytest.approx(expected)
            fitted.append(NCTI(n_components=4).fit(F, y))
        pooled = NCTI.pool_scores(fitted)
        assert [scores["ncti", name, *key] for name in "abc"] == pytest.approx(pooled.tolist())
    sizes = frame.groupby(["fraction", "repeat"])["n_samples"].unique()
    assert sizes.map(list).to_dict() == {k: [len(r)] for k, r in rows_of_cells().items()}


def test_a_candidate_that_learns_is_fitted_on_each_subset():
    given = [("pca", PCA(3)), ("frozen", FunctionTransformer(np.sqrt))]
    found = RobustnessStudy(given, "hscore", SUBSETS, include_full=False).run(DIGITS, LABELS)
    scores = by_cell(found.to_frame())
    assert len(scores) == 12
    for key, rows in rows_of_cells().items():
        if key[0] < 1:
            X, y = DIGITS[rows], LABELS[rows]
            expected = HScore().fit(PCA(3).fit_transform(X), y).score_
            assert scores["hscore", "pca", *key] == pytest.approx(expected)
            assert scores["hscore", "frozen", *key] == pytest.approx(HScore().fit(X**0.5, y).score_)


def run_all(order=1, **options):
    """Run a study with everything in it that draws random numbers, in an order of its own."""
    candidates = [*precomputed(), ("random", GaussianRandomProjection(4))][::order]
    metrics = ["ncti", "hscore", NLEEP(components_per_class=1)][::order]
    splitter = NestedStratifiedSubsets(fractions=(0.3, 0.6)[::order], n_repeats=1)
    found = RobustnessStudy(candidates, metrics, splitter, **options)
    for name in ("one", "two")[::order]:
        found.run(DIGITS, LABELS if name == "one" else np.roll(LABELS, 3), target=name)
    return found


@pytest.fixture(scope="module")
def expected():
    return untimed(run_all())


def test_neither_order_nor_number_of_threads_matters(expected):
    with threadpool_limits(2):
        assert untimed(run_all(-1)) == expected


def test_one_and_two_threads_would_give_other_bits():
    X, y = rng.normal(size=(600, 512)), rng.integers(4, size=600)
    once = NestedStratifiedSubsets((1.0,), n_repeats=1)
    alone, studied = set(), set()
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            alone.add(float(HScore().fit(X, y).score_))
            found = RobustnessStudy([("a", PrecomputedFeatures(X))], "hscore", once).run(X, y)
            studied.add(untimed(found))
    assert len(studied) == 1
    if len(alone) == 1:
        pytest.skip("here they give the same bits, so that the limit cannot be seen to matter")


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_neither_backend_nor_number_of_processes_matters(backend, expected):
    with parallel_config(backend):
        assert untimed(run_all(n_jobs=2)) == expected


def test_a_backend_that_gives_results_all_at_once():
    found = RobustnessStudy(precomputed()[:1], "hscore", SUBSETS)
    expected = untimed(found.run(DIGITS, LABELS))
    with parallel_config("multiprocessing", n_jobs=2):
        assert untimed(clone(found).run(DIGITS, LABELS)) == expected


def test_seeds_depend_on_what_they_are_for():
    metric = {"one": NLEEP(components_per_class=1), "two": NLEEP(components_per_class=1)}
    given = [("x", PrecomputedFeatures(FEATURES["a"])), ("y", PrecomputedFeatures(FEATURES["a"]))]

    def scores(random_state):
        found = RobustnessStudy(given, metric, SUBSETS, random_state=random_state)
        frame = found.run(DIGITS, LABELS).to_frame()
        return frame.pivot(index=["metric", "fraction", "repeat"], columns="candidate")["score"]

    first, second = scores(0), scores(1)
    # The same chance for all candidates, and another one for each metric and random state.
    assert (first["x"] == first["y"]).all()
    assert not np.array_equal(first.loc["one"], first.loc["two"])
    assert not np.array_equal(first, second)
    fixed = NLEEP(components_per_class=1, random_state=7)
    found = RobustnessStudy(given, fixed, SUBSETS, include_full=False).run(DIGITS, LABELS)
    (key, rows), *_ = rows_of_cells().items()
    expected = clone(fixed).fit(FEATURES["a"][rows], LABELS[rows]).score_
    assert by_cell(found.to_frame())["nleep", "x", *key] == pytest.approx(expected)


def test_several_labels_and_values_to_predict():
    both = np.stack([LABELS == 1, LABELS == 2], axis=1).astype(int)
    rows = next(iter(SUBSETS.split(DIGITS, both)))
    found = RobustnessStudy(precomputed()[1:2], "logme", SUBSETS).run(DIGITS, both).to_frame()
    expected = LogME().fit(FEATURES["a"][rows.indices], both[rows.indices]).score_
    key = ("logme", "a", rows.fraction, rows.repeat)
    assert by_cell(found)[key] == pytest.approx(expected)
    values = DIGITS.sum(axis=1)
    found = RobustnessStudy(precomputed()[1:2], "logme", SUBSETS).run(DIGITS, values).to_frame()
    assert found["status"].eq("done").all()


# -- tables ----------------------------------------------------------------------------------------


def scores_by_repeat(study, metric, fraction):
    frame = study.to_frame()
    own = frame[(frame["metric"] == metric) & (frame["fraction"] == fraction)]
    return own.pivot(index="repeat", columns="candidate", values="score")


def test_rankings_are_competition_ranks(study):
    frame = study.rankings()
    assert list(frame.columns) == ["target", "metric", "fraction", "repeat", "a", "b", "c"]
    assert len(frame) == 3 * 7
    for _, row in frame.iterrows():
        scores = scores_by_repeat(study, row["metric"], row["fraction"]).loc[row["repeat"]]
        assert row[["a", "b", "c"]].tolist() == competition_ranks(scores).tolist()


COEFFICIENTS = {
    "kendall": lambda x, y: kendalltau(x, y).statistic,
    "spearman": lambda x, y: spearmanr(x, y).statistic,
    "weighted_kendall": lambda x, y: weightedtau(x, y).statistic,
}


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_stability_is_the_mean_of_correlations(study, coefficient):
    correlation = COEFFICIENTS[coefficient]
    intra = study.stability("intra", coefficient)
    ref = study.stability("ref", coefficient)
    inter = study.stability("inter", coefficient)
    columns = ["fraction", "value", "n_repeats", "n_undefined", "reason"]
    assert list(intra.columns) == list(ref.columns) == ["target", "metric", *columns]
    assert list(inter.columns) == ["target", "metric_a", "metric_b", *columns]
    # The whole target is drawn once, and is the reference; two metrics can be compared on it.
    assert set(intra["fraction"]) == set(ref["fraction"]) == {0.3, 0.6}
    assert set(inter["fraction"]) == {0.3, 0.6, 1.0}
    for row in intra.itertuples():
        x = scores_by_repeat(study, row.metric, row.fraction).to_numpy()
        expected = np.mean([correlation(x[i], x[j]) for i, j in combinations(range(3), 2)])
        assert row.value == pytest.approx(expected)
        assert (row.n_repeats, row.n_undefined, row.reason) == (3, 0, "")
    for row in ref.itertuples():
        x = scores_by_repeat(study, row.metric, row.fraction).to_numpy()
        full = scores_by_repeat(study, row.metric, 1.0).to_numpy()[0]
        assert row.value == pytest.approx(np.mean([correlation(part, full) for part in x]))
    assert [*map(tuple, inter[["metric_a", "metric_b"]].to_numpy()[::3])] == [
        ("hscore", "leep"),
        ("hscore", "ncti"),
        ("leep", "ncti"),
    ]
    for row in inter.itertuples():
        x, y = (
            scores_by_repeat(study, metric, row.fraction).to_numpy()
            for metric in (row.metric_a, row.metric_b)
        )
        expected = np.mean([correlation(*pair) for pair in zip(x, y, strict=True)])
        assert row.value == pytest.approx(expected)
        assert row.n_repeats == (1 if row.fraction == 1 else 3)


def test_agreement_with_a_reference(study):
    reference = {"c": 0.8, "a": 0.7, "b": 0.9, "somebody else": 0.5}
    frame = study.agreement(reference)
    assert list(frame.columns) == ["target", "metric", "fraction", "repeat", "value", "reason"]
    assert len(frame) == 3 * 7
    for row in frame.itertuples():
        scores = scores_by_repeat(study, row.metric, row.fraction).loc[row.repeat]
        assert row.value == pytest.approx(weightedtau(scores, [0.7, 0.9, 0.8]).statistic)
    by_target = study.agreement({"target": pd.Series(reference)}, "kendall")
    mean = by_target.groupby(["metric", "fraction"])["value"].mean()
    stability = study.stability("ref", reference=reference)
    assert set(stability["fraction"]) == {0.3, 0.6, 1.0}
    for row in stability.itertuples():
        assert row.value == pytest.approx(mean[row.metric, row.fraction])
    own = clone(study).set_params(reference={"target": reference}).run(DIGITS, LABELS)
    pd.testing.assert_frame_equal(own.agreement(), frame)


class Ranking:
    """What a ranking by fine-tuned performance offers."""

    def reference(self):
        return {"a": 0.1, "b": 0.2, "c": 0.3}


def test_references_that_do_not_fit(study):
    expected = study.agreement({"a": 0.1, "b": 0.2, "c": 0.3})
    pd.testing.assert_frame_equal(study.agreement(Ranking()), expected)
    with pytest.raises(ValueError, match="A reference is needed"):
        study.agreement()
    with pytest.raises(ValueError, match=r"'target'. Got none for \['b'\]"):
        study.agreement({"a": 1, "c": 2})
    with pytest.raises(ValueError, match=r"Got none for \['target'\]; there are those of \['x'\]"):
        study.agreement({"x": {"a": 1, "b": 1, "c": 2}})
    with pytest.raises(ValueError, match="a number for each candidate by its name. Got list"):
        study.agreement([1, 2, 3])
    with pytest.raises(ValueError, match="'reference' is for kind='ref'"):
        study.stability("inter", reference={"a": 1})
    two = clone(study).run(DIGITS, LABELS, target="x").run(DIGITS, LABELS, target="y")
    with pytest.raises(ValueError, match=r"study of several targets, \['x', 'y'\]"):
        two.agreement({"a": 1, "b": 1, "c": 2})
    both = {name: {"a": 0.1, "b": 0.2, "c": 0.3} for name in ("x", "y")}
    assert len(two.agreement(both)) == 2 * len(expected)
    wrong = [("kind", "other"), ("coefficient", "tau"), ("nan_policy", "raise")]
    for name, value in wrong:
        with pytest.raises(ValueError, match=f"'{name}'"):
            study.stability(**{name: value})
    with pytest.raises(ValueError, match="'coefficient'"):
        study.agreement({"a": 1, "b": 1, "c": 2}, "tau")


# -- what is undefined -----------------------------------------------------------------------------


class Fragile(TransformerMixin, BaseEstimator):
    """Fails on data of certain sizes, for a reason that has nothing to do with itself."""

    def __init__(self, sizes=()):
        self.sizes = sizes

    def fit(self, X, y=None):
        if len(X) in self.sizes and "MENDED" not in os.environ:
            raise RuntimeError(f"no data of {len(X)} rows please, says {self.fit}")
        return self

    def transform(self, X):
        return X[:, 20:30]


def test_failed_cells_have_reasons_and_are_retried_on_request(monkeypatch):
    given = [*precomputed(a=SOURCE), ("fragile", Fragile((27,)))]
    found = RobustnessStudy(given, ["hscore", "leep"], SUBSETS)
    with pytest.warns(CandidateFailedWarning) as caught:
        found.run(DIGITS, LABELS)
    (message,) = [str(w.message) for w in caught if w.category is CandidateFailedWarning]
    assert message.startswith("24 cells of target 'target' have no score, by 'hscore' for ")
    assert "'fragile': RuntimeError: no data of 27 rows please, says <bound" in message
    assert "by 'leep' for 'b', 'c' and 'fragile': LEEP needs source probabilities" in message
    frame = found.to_frame()
    failed = frame[frame["status"] == "failed"]
    assert failed["score"].isna().all()
    own = failed[(failed["candidate"] == "fragile") & (failed["metric"] == "hscore")]
    assert own["fraction"].tolist() == [0.3] * 3
    # No address in memory, which no other run would have.
    assert own["reason"].unique().tolist() == [
        "RuntimeError: no data of 27 rows please, says <bound method Fragile.fit of "
        "Fragile(sizes=(27,))>"
    ]
    # Ranks without the failed one, and coefficients that are undefined for a reason.
    ranks = found.rankings()
    ranks = ranks[(ranks["metric"] == "hscore") & (ranks["fraction"] == 0.3)]
    assert ranks["fragile"].isna().all()
    assert sorted(ranks.iloc[0][["a", "b", "c"]]) == [1, 2, 3]
    intra = found.stability("intra").set_index(["metric", "fraction"]).loc[("hscore", 0.3)]
    assert np.isnan(intra["value"])
    assert intra["n_undefined"] == intra["n_repeats"] == 3
    assert intra["reason"].startswith("3 of 3 correlations undefined: metric failed: no score for ")
    assert "no data of 27 rows please" in intra["reason"]
    omitted = found.stability("intra", nan_policy="omit").set_index(["metric", "fraction"])
    assert np.isfinite(omitted.loc[("hscore", 0.3), "value"])
    agreement = found.agreement({"a": 1, "b": 2, "c": 3, "fragile": 4})
    first = agreement[agreement["metric"] == "hscore"].iloc[0]
    assert np.isnan(first["value"])
    assert first["reason"].startswith("metric failed: no score for 'fragile' (1 of 4 candidates)")
    assert "no data of 27 rows please" in first["reason"]

    monkeypatch.setenv("MENDED", "yes")
    with pytest.warns(CandidateFailedWarning):
        found.run(DIGITS, LABELS)
    assert found.n_computed_ == 0
    with pytest.warns(CandidateFailedWarning, match="21 cells of target 'target' have no score"):
        found.run(DIGITS, LABELS, retry_failed=True)
    assert found.n_computed_ == 24
    mended = found.stability("intra").set_index(["metric", "fraction"])
    assert np.isfinite(mended.loc[("hscore", 0.3), "value"])


def test_errors_can_be_raised():
    given = [("fragile", Fragile((27,)))]
    found = RobustnessStudy(given, "hscore", SUBSETS, error_score="raise")
    with pytest.raises(RuntimeError, match="no data of 27 rows") as caught:
        found.run(DIGITS, LABELS)
    assert "when 'hscore' scored candidate 'fragile' of the study" in caught.value.__notes__[0]
    # The larger subsets had been scored by then, and nothing is recorded of the one that failed.
    assert set(found.to_frame()["fraction"]) == {0.6, 1.0}
    assert found.to_frame()["status"].eq("done").all()
    with pytest.raises(RuntimeError, match="no data of 27 rows"), parallel_config("loky"):
        found.set_params(n_jobs=2).run(DIGITS, LABELS)
    bad = [("bad", PrecomputedFeatures(FEATURES["a"][:50]))]
    with pytest.raises(ValueError, match="has 50 rows for 90 samples") as caught:
        found.set_params(candidates=bad).run(DIGITS, LABELS)
    assert caught.value.__notes__ == ["Raised by candidate 'bad' of the study."]


def test_a_candidate_that_cannot_be_run_costs_the_others_nothing():
    given = [*precomputed(), ("bad", PrecomputedFeatures(FEATURES["a"][:50]))]
    found = RobustnessStudy(given, "ncti", SUBSETS)
    with pytest.warns(CandidateFailedWarning, match="7 cells .* by 'ncti' for 'bad': .* 50 rows"):
        found.run(DIGITS, LABELS)
    frame = found.to_frame()
    others = frame[frame["candidate"] != "bad"].reset_index(drop=True)
    alone = RobustnessStudy(precomputed(), "ncti", SUBSETS).run(DIGITS, LABELS)
    # A failed candidate is left out of the pool.
    assert untimed(others) == untimed(alone)
    mended = found.set_params(bad=PrecomputedFeatures(FEATURES["a"]))
    mended.run(DIGITS, LABELS, retry_failed=True)
    assert mended.n_computed_ == 7


def test_ties_are_undefined():
    given = [(name, PrecomputedFeatures(FEATURES["a"])) for name in "xyz"]
    found = RobustnessStudy(given, "hscore", SUBSETS).run(DIGITS, LABELS)
    frame = found.stability("intra")
    assert frame["value"].isna().all()
    assert frame["n_undefined"].eq(3).all()
    assert frame["reason"].str.contains("all candidates tied in repeat 0").all()
    assert found.rankings()[["x", "y", "z"]].eq(1).all(axis=None)
    partial = RobustnessStudy(given, "hscore", SUBSETS, include_full=False).run(DIGITS, LABELS)
    reason = partial.stability("ref")["reason"]
    assert reason.str.contains(r"no reference value for .*\(not computed\)").all()


class Nothing(HScore):
    """A pooled metric whose pool knows no score."""

    relative_to_pool = True

    @classmethod
    def pool_scores(cls, fitted_metrics):
        assert all(metric.n_features_in_ > 0 for metric in fitted_metrics)
        return [
            metric.score_ if metric.n_features_in_ == 6 else np.nan for metric in fitted_metrics
        ]


def test_a_pool_may_know_no_score():
    found = RobustnessStudy(precomputed(), {"nothing": Nothing()}, SUBSETS)
    with pytest.warns(CandidateFailedWarning, match="14 cells .* for 'a' and 'b': Its parts are"):
        found.run(DIGITS, LABELS)
    frame = found.to_frame()
    assert set(frame.loc[frame["status"] == "done", "candidate"]) == {"c"}
    key = ("nothing", "c", 1.0, 0)
    assert by_cell(frame)[key] == pytest.approx(HScore().fit(FEATURES["c"], LABELS).score_)


class Warns(HScore):
    """Warns in its own way."""

    def _score_moments(self):
        super()._score_moments()
        message = f"not sure about {self.moments_.n_samples} rows"
        warnings.warn(message, ConvergenceWarning, stacklevel=1)


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_warnings_are_counted(backend):
    found = RobustnessStudy(precomputed(), {"warns": Warns()}, SUBSETS, n_jobs=2)
    words = (
        r"Metric 'warns' on target 'target', candidate 'a', fraction 0.3, repeat 0 \(and 20 more"
    )
    with parallel_config(backend), pytest.warns(ConvergenceWarning, match=words) as caught:
        found.run(DIGITS, LABELS)
    assert [w.category for w in caught].count(ConvergenceWarning) == 1
    noise = [("noise", PrecomputedFeatures(np.random.default_rng(1).normal(size=(90, 40))))]
    with pytest.warns(
        UninformativeScoreWarning, match=r"repeat 0 \(and . more\): The HScore score"
    ):
        RobustnessStudy(noise, "hscore", SUBSETS).run(DIGITS, LABELS)


# -- the object ------------------------------------------------------------------------------------


def test_parameters_copies_and_pickles(study):
    copy = clone(study)
    with pytest.raises(ValueError, match="has no results yet: call 'run', or give a 'store'"):
        copy.to_frame()
    assert copy.get_params()["metrics__hscore__shrinkage"] == 0.1
    assert copy.get_params()["subsets__n_repeats"] == 3
    assert isinstance(copy.get_params()["a"], PrecomputedFeatures)
    copy.set_params(metrics__hscore__shrinkage=0.2, a="drop", n_jobs=2, metrics__leep="leep")
    assert copy.metrics["hscore"].shrinkage == 0.2
    assert study.metrics["hscore"].shrinkage == 0.1
    assert "RobustnessStudy(candidates=[('b'" in repr(study)
    restored = pickle.loads(pickle.dumps(study))
    pd.testing.assert_frame_equal(restored.to_frame(), study.to_frame())
    restored.run(DIGITS, LABELS)
    assert restored.n_computed_ == 0


def test_what_is_shown_is_what_was_asked_for(study):
    everything = pickle.loads(pickle.dumps(study))
    fewer = everything.set_params(c="drop", metrics=["ncti", "leep"])
    fewer.set_params(metrics={"ncti": study.metrics["ncti"], "leep": "leep"})
    fewer.set_params(subsets=NestedStratifiedSubsets(fractions=(0.6,), n_repeats=2))
    fewer.run(DIGITS, LABELS)
    assert fewer.n_computed_ == 0
    # Relative to its own pool.
    assert untimed(fewer) == untimed(clone(fewer).run(DIGITS, LABELS))


def test_a_candidate_can_be_left_out_on_a_target():
    found = RobustnessStudy(precomputed(), "ncti", SUBSETS)
    found.run(DIGITS, LABELS, target="all").run(DIGITS, LABELS, target="some", exclude=["c"])
    frame = found.to_frame()
    assert set(frame.loc[frame["target"] == "some", "candidate"]) == {"a", "b"}
    two = RobustnessStudy(precomputed()[:2], "ncti", SUBSETS).run(DIGITS, LABELS, target="some")
    assert untimed(frame[frame["target"] == "some"].reset_index(drop=True)) == untimed(two)
    ranks = found.rankings()
    assert ranks.loc[ranks["target"] == "some", "c"].isna().all()
    assert found.stability("intra")["reason"].eq("").all()


def test_progress_with_the_time_that_is_left(capsys):
    steps = []
    with steps_reported_to(steps.append):
        found = RobustnessStudy(precomputed(), ["hscore", "gbc"], SUBSETS, verbose=2)
        found.run(DIGITS, LABELS, target="digits")
    assert [step.n_done for step in steps] == list(range(2, 43, 2))
    assert {step.n_steps for step in steps} == {42}
    assert steps[-1].seconds_left == 0
    assert all(step.seconds_left >= 0 for step in steps)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("digits: [2/42] b, fraction 1, repeat 0, ")
    assert lines[0].endswith(" left")
    assert lines[-1] == "digits: [42/42] c, fraction 0.3, repeat 2"
    found.set_params(verbose=1, metrics=["hscore", "gbc", "sfda"]).run(
        DIGITS, LABELS, target="digits"
    )
    assert capsys.readouterr().err == "digits: [63/63] c, fraction 0.3, repeat 2\n"


def wrong_splitter(*subsets):
    class Splitter:
        def split(self, X, y, groups=None):
            yield from subsets

    return Splitter()


@pytest.mark.parametrize(
    ("parameters", "arguments", "words"),
    [
        ({"candidates": []}, {}, "'candidates' must be a non-empty list"),
        ({"candidates": [("a", PCA), ("b", PCA())]}, {}, "instance"),
        ({"candidates": [("a", PCA(1)), ("a", PCA(2))]}, {}, "unique. Got 'a' twice"),
        ({"candidates": [("repeat", PCA(1))]}, {}, "not be those of columns, .* Got 'repeat'"),
        ({"candidates": [("store", PCA(1))]}, {}, "conflict with constructor arguments"),
        ({"candidates": {"a": PCA(1)}}, {}, "The 'candidates' parameter .* must be a list"),
        ({"metrics": []}, {}, "at least one metric"),
        ({"metrics": "logmee"}, {}, "metric must be one of .*; got 'logmee'"),
        ({"metrics": HScore(shrinkage=3)}, {}, "The 'shrinkage' parameter of HScore"),
        ({"subsets": (0.1, 0.2)}, {}, "The 'subsets' parameter .* implementing 'split'"),
        ({"subsets": NestedStratifiedSubsets}, {}, "Got the class NestedStratifiedSubsets inst"),
        ({"subsets": KFold(3)}, {}, r"yields \(indices, fraction, repeat\)\. Got \(array\(.* 31"),
        ({"candidates": [(1, PCA(1))]}, {}, "'candidates' must be a non-empty list"),
        ({"store": 3}, {}, "The 'store' parameter"),
        ({"n_jobs": "two"}, {}, "The 'n_jobs' parameter"),
        ({"n_jobs": 0}, {}, "The 'n_jobs' parameter .* Got 0"),
        ({"random_state": None}, {}, "The 'random_state' parameter"),
        ({"error_score": 0}, {}, "The 'error_score' parameter"),
        ({"reference": {"a": 1, "b": 2}}, {}, r"of target 'target'. Got none for \['c'\]"),
        ({"reference": {"target": [1, 2, 3]}}, {}, "by its name. Got list without names"),
        ({"include_full": "no"}, {}, "The 'include_full' parameter"),
        ({"memory": 3}, {}, "The 'memory' parameter"),
        ({}, {"y": None}, "requires y, the labels of the target"),
        ({}, {"y": LABELS[:5]}, "'y' must have a label for each of the 90 samples of X. Got 5"),
        ({}, {"X": None}, "'X' must be the samples of the target.* Got NoneType"),
        ({}, {"X": 3}, "'X' must be the samples of the target.* Got int"),
        ({}, {"retry_failed": "yes"}, "'retry_failed' must be True or False. Got 'yes'"),
        ({}, {"y": np.zeros(90)}, "got 1 class"),
        ({}, {"target": ""}, "'target' must be a name"),
        ({}, {"target": 3}, "'target' must be a name"),
        ({}, {"groups": [1, 2]}, "'groups' must have a group for each of the 90 samples. Got 2"),
        ({}, {"exclude": ["d"]}, r"'exclude' must have names of candidates.* Got \['d'\]"),
        ({}, {"exclude": "abc"[0]}, None),
        ({}, {"exclude": ["a", "b", "c"]}, "'exclude' leaves no candidate"),
        ({"subsets": wrong_splitter(3)}, {}, r"yields \(indices, fraction, repeat\). Got 3"),
        ({"subsets": wrong_splitter(([], 0.5, 0))}, {}, "must be a non-empty array"),
        ({"subsets": wrong_splitter(([1.5], 0.5, 0))}, {}, "must be a non-empty array"),
        ({"subsets": wrong_splitter(([90], 0.5, 0))}, {}, "row numbers from 0 to 89, each once"),
        ({"subsets": wrong_splitter(([1, 1], 0.5, 0))}, {}, "row numbers from 0 to 89, each once"),
        ({"subsets": wrong_splitter(([1], 1.5, 0))}, {}, r"a fraction in \(0, 1\]"),
        ({"subsets": wrong_splitter(([1], 0.5, 0), ([2], 0.5, 0))}, {}, "is there twice"),
        ({"subsets": wrong_splitter(([1], 1, 0))}, {}, "must be all samples. Got 1 of 90"),
        ({"subsets": wrong_splitter(), "include_full": False}, {}, "at least one subset. Got none"),
    ],
)
def test_wrong_inputs_are_refused_before_work_starts(parameters, arguments, words):
    found = RobustnessStudy(precomputed(), "hscore", SUBSETS)
    for name, value in parameters.items():
        setattr(found, name, value)
    given = {"X": DIGITS, "y": LABELS} | arguments
    if words is None:
        assert set(found.run(**given).to_frame()["candidate"]) == {"b", "c"}
        return
    with pytest.raises((ValueError, TypeError), match=words):
        found.run(**given)
    assert not hasattr(found, "n_computed_")


def test_every_metric_runs_by_name():
    names = ["etran", "gbc", "knn", "parc", "sfda", "transrate", "pactran"]
    once = NestedStratifiedSubsets((0.3,), 1)
    found = RobustnessStudy(precomputed()[:2], names, once, include_full=False)
    frame = found.run(DIGITS, LABELS).to_frame()
    assert frame["status"].eq("done").all()
    (key, rows), *_ = rows_of_cells().items()
    for name in ("gbc", "knn", "sfda"):
        expected = get_metric(name).fit(FEATURES["b"][rows], LABELS[rows]).score_
        assert by_cell(frame)[name, "b", *key] == pytest.approx(expected)
