"""Uncertainty of a selection by resamples that are the same for all candidates."""

import warnings

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sktransfer.backbones import PrecomputedFeatures
from sktransfer.exceptions import CandidateFailedWarning, UndefinedResamplesWarning
from sktransfer.metrics import LogME, TransferabilityMetric, get_metric
from sktransfer.model_selection import TransferabilitySelector
from sktransfer.model_selection._resamples import Resamples, plan_resamples, scheme_of

pytestmark = pytest.mark.filterwarnings("ignore::sktransfer.exceptions.TransferabilityWarning")

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [12, 9, 15])
X = (RNG.normal(size=(36, 6)) + 0.8 * RNG.normal(size=(3, 6))[Y]).astype(np.float32)
P = np.exp(X[:, :4]) / np.exp(X[:, :4]).sum(axis=1, keepdims=True)
CANDIDATES = [("narrow", PCA(2)), ("wide", PCA(5)), ("scaled", StandardScaler())]
PERMUTED = np.random.default_rng(1).permutation(36)


def select(metric="logme", X=X, y=Y, candidates=CANDIDATES, n_resamples=40, **options):
    options = {"metric": metric, "n_resamples": n_resamples} | options
    return TransferabilitySelector(candidates, **options).fit(X, y)


class Identity(FunctionTransformer):
    """A stateless candidate with a source head."""

    def predict_proba(self, X):
        return np.exp(X[:, :4]) / np.exp(X[:, :4]).sum(axis=1, keepdims=True)


def resamples(scheme, y=None, positions=None, n_resamples=40, splits=(None,)):
    """Resamples of the rows of a target with classes, or of 36 rows without any."""
    codes = None if y is None else np.unique(y, return_inverse=True)[1]
    positions = np.arange(36 if y is None else len(y)) if positions is None else positions
    return Resamples(n_resamples, 0, positions, {"metric": scheme}, codes, splits)


# ---------------------------------------------------------------- how resamples are drawn


def test_weights_are_a_flat_dirichlet_distribution_of_sum_n():
    drawn = np.array([resamples("dirichlet", np.arange(10)).weights(r) for r in range(300)])
    np.testing.assert_allclose(drawn.sum(axis=1), 10)
    # The marginal of a flat Dirichlet distribution is a beta distribution.
    assert kstest(drawn[:, 3] / 10, "beta", args=(1, 9)).pvalue > 0.001
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] < 0


@pytest.mark.parametrize(("scheme", "one_of"), [("half", 2), ("tenth", 10)])
def test_parts_are_fair_to_rows_and_classes(scheme, one_of):
    y = np.repeat(["a", "b", "c", "d"], [20, 37, 1, 12])
    plan = resamples(scheme, y, n_resamples=600)
    counts = np.zeros(len(y))
    for number in range(600):
        part = plan.part(number, scheme)
        assert len(set(part)) == len(part)
        assert part.tolist() == sorted(part)
        for label, size in zip(["a", "b", "d"], [20, 37, 12], strict=True):
            left_out = size - np.count_nonzero(y[part] == label)
            assert left_out in (size // one_of, size // one_of + 1)
        assert "c" in y[part]  # a single row can't be left out
        assert abs(len(y) - len(part) - len(y) / one_of) <= 1.5
        counts[part] += 1
    share = np.delete(counts, 57) / 600
    assert abs(share - (1 - 1 / one_of)).max() < 0.09


def test_a_few_rows_of_a_class_are_kept():
    y = np.repeat([0, 1, 2], [3, 2, 15])
    plan = resamples("half", y, n_resamples=100)
    for number in range(100):
        assert (np.bincount(y[plan.part(number, "half")]) >= [2, 2, 7]).all()


@pytest.mark.parametrize("scheme", ["half", "tenth"])
@pytest.mark.parametrize("cv", [None, 3, 10])
@pytest.mark.parametrize("sizes", [(40, 30), (3,) * 12, (25, 2, 4)])
def test_the_scatter_of_means_over_classes_and_splits_is_that_of_fresh_samples(scheme, cv, sizes):
    y = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(1).normal(size=len(y)) + y
    splits = [None]
    if cv is not None:
        folds = KFold(cv, shuffle=True, random_state=0).split(y)
        splits = [train for train, _ in folds]
    plan = resamples(scheme, y, n_resamples=300, splits=splits)
    if cv is not None and sizes == (3,) * 12:
        # Some split has two rows of each class, and none to spare.
        assert np.isinf(plan.scale(scheme))
        return
    means = np.zeros(300)
    for rows in splits:
        own = values if rows is None else values[rows]
        deviation = own - y[slice(None) if rows is None else rows]
        means += [deviation[plan.part(number, scheme, rows)].mean() for number in range(300)]
    # What a mean over splits varies by over fresh samples, of which each row is a part of all but
    # one: by as much as the mean over all rows.
    expected = np.std(values - y, ddof=1) / np.sqrt(len(y))
    found = plan.scale(scheme) * np.std(means / len(splits))
    assert found == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize("scheme", ["half", "tenth"])
def test_where_no_row_can_be_left_out_nothing_is_told_apart(scheme):
    y = np.repeat(np.arange(18), 2)
    assert np.isinf(resamples(scheme, y).scale(scheme))
    assert np.isfinite(resamples("dirichlet", y).scale("dirichlet"))
    X = np.random.default_rng(0).normal(size=(36, 3)) + 9 * np.eye(18)[y][:, :3]
    options = {"candidates": [("all", Identity()), ("none", FunctionTransformer(np.cos))]}
    with pytest.warns(UndefinedResamplesWarning, match="can't be told by leaving out rows"):
        found = TransferabilitySelector(
            options["candidates"], n_resamples=40, resampling=scheme, baselines=None
        ).fit(X, y)
    uncertainty = found.uncertainty_["logme"]
    assert set(found.tied_with_best_) == {"all", "none"}
    assert uncertainty.rank_interval.tolist() == [[1, 2], [1, 2]]
    assert uncertainty.probability_best.tolist() == [0.5, 0.5]
    assert np.isinf(uncertainty.score_interval).all()


def test_classes_of_a_handful_of_rows_are_not_halved():
    selector = TransferabilitySelector([("only", Identity())], n_resamples=40)
    for sizes, expected in [((5, 30), "half"), ((5, 5, 30), "tenth"), ((4,) * 9, "tenth")]:
        y = np.repeat(np.arange(len(sizes)), sizes)
        planned = plan_resamples(selector, {"logme": LogME()}, y, y, "classification")
        assert planned.schemes == {"logme": expected}


def test_equal_rows_with_other_labels_are_told_apart_whatever_labels_are_called():
    X = np.zeros((12, 1))
    X[6:, 0] = np.arange(6)
    y = np.array([0, 1] * 3 + [0, 0, 0, 1, 1, 1])
    selector = TransferabilitySelector([("only", Identity())], n_resamples=40)
    order = np.random.default_rng(0).permutation(12)
    metrics = {"logme": LogME()}
    plan = plan_resamples(selector, metrics, X, y, "classification")
    moved = plan_resamples(selector, metrics, X[order], y[order], "classification")
    renamed = plan_resamples(selector, metrics, X, 1 - y, "classification")
    assert (plan.positions == renamed.positions).all()
    # Equal rows of one class may change places.
    for label in (0, 1):
        assert set(plan.positions[:6][y[:6] == label]) == {
            place
            for place, old in zip(moved.positions, order, strict=True)
            if old < 6 and y[old] == label
        }


@pytest.mark.parametrize("scheme", ["half", "tenth"])
def test_the_scatter_of_means_is_that_of_fresh_samples(scheme):
    values = np.random.default_rng(0).normal(size=36)
    plan = resamples(scheme, n_resamples=800)
    means = [values[plan.part(number, scheme)].mean() for number in range(800)]
    expected = values.std(ddof=1) / 6
    assert plan.scale(scheme) * np.std(means) == pytest.approx(expected, rel=0.15)
    weighted = [np.average(values, weights=plan.weights(number)) for number in range(800)]
    assert plan.scale("dirichlet") * np.std(weighted) == pytest.approx(expected, rel=0.15)


def test_values_and_several_labels_make_no_classes():
    y = np.random.default_rng(0).normal(size=20)
    selector = TransferabilitySelector([("only", Identity())], n_resamples=40)
    for task in ("classification", "multilabel", "regression"):
        planned = plan_resamples(selector, {"logme": LogME()}, y[:, np.newaxis], y, task)
        assert (planned.codes is not None) == (task == "classification")
        assert len(planned.part(0, "half")) == (20 if planned.codes is not None else 10)


# ---------------------------------------------------------------- scores on resamples


@pytest.mark.parametrize(
    "name", ["logme", "hscore", "gbc", "transrate", "leep", "nce", "knn", "linearprobe", "sfda"]
)
def test_weighted_scores_are_those_of_the_metric_with_these_weights(name):
    candidate = [("only", Identity())]
    selector = select(name, candidates=candidate, resampling="dirichlet", memory=None)
    # rows are numbered by their content, so the weights are found by those of another metric
    found = selector.uncertainty_[name]
    assert found.scheme == "dirichlet"
    metric = get_metric(name)
    plan = resamples("dirichlet", positions=positions_of(X))
    data = P if metric.needs in ("probabilities", "labels") else X
    for number in (0, 7, 39):
        expected = metric.fit(data, Y, sample_weight=plan.weights(number)).score_
        assert found.resampled_scores[number, 0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", ["knn", "parc", "logme"])
def test_parts_are_scored_as_if_they_were_all_rows(name):
    selector = select(name, candidates=[("only", Identity())])
    scheme = selector.uncertainty_[name].scheme
    assert scheme == {"knn": "half", "parc": "tenth", "logme": "half"}[name]
    plan = resamples(scheme, Y, positions=positions_of(X))
    for number in (0, 1, 39):
        part = plan.part(number, scheme)
        expected = get_metric(name).fit(X[part], Y[part]).score_
        resampled = selector.uncertainty_[name].resampled_scores[number, 0]
        assert resampled == pytest.approx(expected, abs=1e-8)


def positions_of(X):
    """Places of the rows in the order of their digests."""
    from hashlib import blake2b

    digests = [blake2b(row.tobytes(), digest_size=16).digest() for row in X]
    return np.argsort(np.argsort(digests))


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"class_weight": {0: 3.0}}])
def test_weights_of_classes_multiply_those_of_a_resample(options):
    metric = LogME(**options)
    found = select(
        {"m": metric}, candidates=[("only", Identity())], resampling="dirichlet"
    ).uncertainty_["m"]
    plan = resamples("dirichlet", positions=positions_of(X))
    expected = metric.fit(X, Y, sample_weight=plan.weights(3)).score_
    assert found.resampled_scores[3, 0] == pytest.approx(expected, abs=1e-8)


def test_pool_relative_metrics_are_combined_on_every_resample():
    candidates = [(str(k), FunctionTransformer(columns, kw_args={"start": k})) for k in (0, 1, 3)]
    selector = select("ncti", candidates=candidates, resampling="half")
    plan = resamples("half", Y, positions=positions_of(X))
    half = plan.part(5, "half")
    features = [columns(X, start) for start in (0, 1, 3)]
    fitted = [get_metric("ncti").fit(F[half], Y[half]) for F in features]
    expected = type(fitted[0]).pool_scores(fitted)
    np.testing.assert_allclose(selector.uncertainty_["ncti"].resampled_scores[5], expected)


def test_own_weights_of_rows_multiply_those_of_a_resample():
    import sklearn

    weights = np.linspace(0.5, 2, 36)
    with sklearn.config_context(enable_metadata_routing=True):
        metric = LogME().set_fit_request(sample_weight=True)
        selector = TransferabilitySelector(
            [("only", Identity())], metric, n_resamples=40, resampling="dirichlet"
        )
        found = selector.fit(X, Y, sample_weight=weights).uncertainty_["logme"]
    drawn = resamples("dirichlet", positions=positions_of(X)).weights(2)
    expected = LogME().fit(X, Y, sample_weight=weights * drawn).score_
    assert found.resampled_scores[2, 0] == pytest.approx(expected, abs=1e-8)


def test_with_splits_the_means_are_resampled():
    splits = [(np.arange(0, 36, 2), []), (np.arange(1, 36, 2), [])]
    found = select(cv=splits, candidates=[("only", Identity())], resampling="dirichlet")
    found = found.uncertainty_["logme"]
    drawn = resamples("dirichlet", positions=positions_of(X)).weights(4)
    parts = [LogME().fit(X[rows], Y[rows], sample_weight=drawn[rows]).score_ for rows, _ in splits]
    assert found.resampled_scores[4, 0] == pytest.approx(np.mean(parts), abs=1e-8)


def test_splits_of_candidates_that_learn_use_the_weights_of_their_rows():
    rows = np.arange(0, 36, 2)
    found = select(cv=[(rows, [])], candidates=[("pca", PCA(2))], resampling="dirichlet")
    found = found.uncertainty_["logme"]
    drawn = resamples("dirichlet", positions=positions_of(X)).weights(4)
    F = PCA(2).fit_transform(X[rows])
    expected = LogME().fit(F, Y[rows], sample_weight=drawn[rows]).score_
    assert found.resampled_scores[4, 0] == pytest.approx(expected, abs=1e-8)


# ---------------------------------------------------------------- what the selector says


@pytest.mark.parametrize("name", ["logme", "knn"])
def test_the_order_of_rows_is_irrelevant(name):
    found = select(name).uncertainty_[name]
    other = select(name, X=X[PERMUTED], y=Y[PERMUTED]).uncertainty_[name]
    # a PCA of 32-bit numbers rounds differently
    np.testing.assert_allclose(other.resampled_scores, found.resampled_scores, atol=1e-6)
    assert other.tied_with_best == found.tied_with_best


def test_the_order_of_named_rows_is_irrelevant():
    names = np.array([f"image{i:02}.png" for i in range(36)])
    candidate = [("only", PrecomputedFeatures(X, ids=names))]
    found = select(X=names, candidates=candidate)
    other = select(X=names[PERMUTED], y=Y[PERMUTED], candidates=candidate)
    np.testing.assert_allclose(
        other.uncertainty_["logme"].resampled_scores,
        found.uncertainty_["logme"].resampled_scores,
        atol=1e-8,
    )


def test_processes_and_seeds():
    found = select(["logme", "ncti"])
    other = select(["logme", "ncti"], n_jobs=2)
    for name, uncertainty in found.uncertainty_.items():
        np.testing.assert_array_equal(
            other.uncertainty_[name].resampled_scores, uncertainty.resampled_scores
        )
    reseeded = select(random_state=1).uncertainty_["logme"].resampled_scores
    assert not np.allclose(reseeded, found.uncertainty_["logme"].resampled_scores)
    drawn = select(random_state=np.random.RandomState(3)).uncertainty_["logme"]
    again = select(random_state=np.random.RandomState(3)).uncertainty_["logme"]
    np.testing.assert_array_equal(drawn.resampled_scores, again.resampled_scores)


def test_scores_and_ranks_are_what_they_are_without_resamples():
    plain, found = select(n_resamples=0), select()
    assert plain.scores_ == found.scores_
    assert plain.ranking_ == found.ranking_
    assert plain.uncertainty_ == {}
    assert not hasattr(plain, "tied_with_best_")
    assert not any("tied" in column for column in plain.cv_results_)
    # and what was found is forgotten when the selector is fitted without
    assert not hasattr(found.set_params(n_resamples=0).fit(X, Y), "tied_with_best_")


def test_the_tables_have_intervals_and_the_set():
    pytest.importorskip("pandas")
    selector = select(["hscore", "logme"], refit="logme", level=0.9)
    found = selector.uncertainty_["logme"]
    assert found.level == 0.9
    assert selector.tied_with_best_ == list(found.tied_with_best)
    assert selector.best_name_ == selector.tied_with_best_[0]
    results = selector.cv_results_
    np.testing.assert_array_equal(results["low_logme"], found.score_interval[:, 0])
    np.testing.assert_array_equal(results["rank_high_hscore"].shape, (3,))
    tied = np.array(results["candidate"])[results["tied_with_best_logme"]]
    assert set(tied) == set(selector.tied_with_best_)
    frame = selector.to_frame()
    first = list(frame.columns[2:9])
    assert first == ["logme", *(f"logme_{part}" for part in PARTS)]
    assert (frame["hscore_low"] >= 0).all()  # within the bounds of the metric


PARTS = ("low", "high", "rank_low", "rank_high", "probability_best", "tied_with_best")


def test_clear_differences_are_seen_and_copies_are_not_told_apart():
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 40)
    good = y[:, None] + 0.3 * rng.normal(size=(80, 3))
    data = np.hstack([good, rng.normal(size=(80, 3))])
    candidates = [
        ("noise", FunctionTransformer(columns, kw_args={"start": 3})),
        ("good", FunctionTransformer(columns, kw_args={"start": 0})),
        ("copy", FunctionTransformer(columns, kw_args={"start": 0})),
    ]
    for name in ("logme", "knn", "hscore", "linearprobe"):
        selector = select(name, X=data, y=y, candidates=candidates)
        assert selector.tied_with_best_ == ["good", "copy"]
        assert selector.uncertainty_[name].rank_interval.tolist() == [[3, 3], [1, 2], [1, 2]]


def columns(X, start):
    return X[:, start : start + 3]


class NeedsManyRows(TransferabilityMetric):
    """A metric that some halves are too small for."""

    def _fit(self, X, target, sample_weight):
        if X.shape[1] == 2 and len(X) < 36 and X[:, 0].mean() > 0:
            raise ValueError("the mean is positive")
        self.score_ = float(X.mean())


class Broken(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        raise ValueError("no such file")


def test_candidates_without_scores_on_resamples_are_reported():
    metric = {"own": NeedsManyRows()}
    candidates = [("narrow", PCA(2)), ("scaled", StandardScaler()), ("broken", Broken())]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        selector = TransferabilitySelector(candidates, metric, n_resamples=40).fit(X, Y)
    said = [str(w.message) for w in caught if w.category is UndefinedResamplesWarning]
    found = selector.uncertainty_["own"]
    n_undefined = int(found.n_undefined[0])
    assert 0 < n_undefined < 40
    assert said == [
        f"Candidate 'narrow' has no score by 'own' on {n_undefined} of 40 resamples: "
        "the mean is positive"
    ]
    assert any(w.category is CandidateFailedWarning for w in caught)
    assert found.n_undefined[1:].tolist() == [0, 40]
    assert "broken" not in found.tied_with_best
    assert selector.cv_results_["n_undefined_own"].tolist() == found.n_undefined.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 10}, "'n_resamples' must be 0 or at least 40 for level=0.95. Got 10"),
        ({"level": 0.99}, "'n_resamples' must be 0 or at least 200 for level=0.99. Got 40"),
        ({"n_resamples": -1}, "'n_resamples' parameter"),
        ({"level": 1}, "'level' parameter"),
        ({"resampling": "bootstrap"}, "occur several times"),
        ({"resampling": "halves"}, "'half', 'tenth' or 'dirichlet'. Got 'halves'"),
        ({"metric": "lp", "resampling": "dirichlet"}, "LP, which has no definition for weights"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(options, message):
    candidates = [("broken", Broken())]
    with pytest.raises(ValueError, match=message):
        select(candidates=candidates, error_score="raise", **options)


def test_metrics_that_look_into_the_network_are_refused():
    class LooksInside(TransferabilityMetric):
        needs = "inputs"

    with pytest.raises(ValueError, match="must be 0 with LooksInside: it looks into the network"):
        scheme_of(LooksInside())


def test_intervals_of_shares_begin_at_zero_and_those_of_r2_do_not():
    candidates = [("all", Identity())]
    noise = np.random.default_rng(3).normal(size=(36, 4))
    labels, values = np.arange(36) % 2, np.square(noise.sum(axis=1))
    options = {"n_resamples": 40, "baselines": None}
    for metric in ("knn", "linearprobe"):
        shares = TransferabilitySelector(candidates, metric, **options).fit(noise, labels)
        low, high = shares.uncertainty_[metric].score_interval[0]
        assert 0 <= low < high <= 1
        r2 = TransferabilitySelector(candidates, metric, **options).fit(noise, values)
        low, high = r2.uncertainty_[metric].score_interval[0]
        assert low < 0 < high <= 1 or low < high < 0
