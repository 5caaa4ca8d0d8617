"""One failing candidate never costs the others, and every failure is told with its reason."""

import threading
import warnings
from functools import cache

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import estimator_html_repr

from sktransfer.exceptions import CandidateFailedWarning, UninformativeScoreWarning
from sktransfer.metrics import LogME
from sktransfer.model_selection import MetricSearchCV, TransferabilitySelector

X, Y = load_iris(return_X_y=True)
GOOD = [("pca", PCA(2)), ("scaled", StandardScaler())]
NO_HEAD = "LEEP needs source probabilities, and none were given (the candidate has no source head)."


@cache
def without_failures(cv):
    """A selection among the good candidates alone."""
    return TransferabilitySelector(GOOD, cv=cv).fit(X, Y)


class Broken(TransformerMixin, BaseEstimator):
    """Fails in the way it is told to."""

    def __init__(self, how="fit", stateless=False):
        self.how = how
        self.stateless = stateless

    def fit(self, X, y=None):
        if self.how == "fit":
            raise RuntimeError("CUDA out of memory\nand a long story")
        self.fitted_ = True
        return self

    def transform(self, X):
        features = np.array(X, dtype=float)
        match self.how:
            case "transform":
                raise OSError
            case "nan":
                features[0, 1] = np.nan
            case "inf":
                features[3, 0] = -np.inf
            case "rows":
                features = features[1:]
            case "1d":
                features = features[:, 0]
            case "3d":
                features = features[:, :, None]
            case "sparse":
                features = sparse.csr_array(features)
            case "words":
                features = features.astype(str).astype(object) + "cm"
            case "none":
                features = None
            case "empty":
                features = features[:, :0]
            case "small":
                features = features if len(X) == len(Y) else features[:, :0]
        return features

    def extract(self, X):
        features = self.transform(X)
        match self.how:
            case "head 1d":
                return features, features[:, 0]
            case "head rows":
                return features, np.full((len(X) - 1, 2), 0.5)
            case "head nan":
                return features, np.full((len(X), 2), np.nan)
            case "head negative":
                return features, -features
        return features, None


REASONS = {
    "fit": "RuntimeError: CUDA out of memory",
    "transform": "OSError",
    "nan": "The transformer returned features of which 1 of 600 values are NaN or infinite (inf).",
    "inf": "The transformer returned features of which 1 of 600 values are NaN or infinite (inf).",
    "rows": "The transformer returned 149 rows of features for 150 samples.",
    "1d": "The transformer returned features of shape (150,); expected (n_samples, n_columns).",
    "3d": "The transformer returned features of shape (150, 4, 1); expected",
    "sparse": "TypeError: The transformer returned sparse features; the metrics need a dense",
    "words": "could not convert string to float",
    "none": "The transformer returned features of shape (); expected (n_samples, n_columns).",
    "empty": "Found array with 0 feature(s)",
}


@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize("cv", [None, 2])
@pytest.mark.parametrize("how", REASONS)
def test_a_broken_candidate_is_last_and_costs_the_others_nothing(how, cv, stateless):
    expected = without_failures(cv)
    broken = Broken(how, stateless)
    for given in ([("broken", broken), *GOOD], [*GOOD, ("broken", broken)]):
        selector = TransferabilitySelector(given, cv=cv)
        with pytest.warns(CandidateFailedWarning, match="Candidate 'broken' has no score by"):
            selector.fit(X, Y)
        assert np.isnan(selector.scores_["broken"])
        assert selector.ranking_ == {**expected.ranking_, "broken": 3}
        assert selector.best_name_ == expected.best_name_
        assert {n: selector.scores_[n] for n, _ in GOOD} == expected.scores_
        assert list(selector.failures_) == ["broken"]
        assert REASONS[how] in selector.failures_["broken"]["logme"]
        assert selector.split_failures_ == {}
        last = selector.to_frame().iloc[-1]
        assert (last["candidate"], last["rank"]) == ("broken", 3)
        assert last["failure"] == selector.failures_["broken"]["logme"]
        if how not in ("words", "empty"):  # these were run, but could not be scored
            assert "broken" not in selector.candidates_


def test_the_warning_tells_name_metric_and_reason_and_points_to_the_caller():
    with pytest.warns(CandidateFailedWarning) as caught:
        TransferabilitySelector([*GOOD, ("broken", Broken())], ["logme", "hscore"]).fit(X, Y)
    assert [str(warning.message) for warning in caught] == [
        "Candidate 'broken' has no score by 'logme' and 'hscore': RuntimeError: CUDA out of memory"
    ]
    assert caught[0].filename == __file__


def test_candidates_that_fail_for_one_reason_share_a_warning():
    given = [*GOOD, ("b1", Broken()), ("b2", Broken("transform")), ("b3", Broken())]
    with pytest.warns(CandidateFailedWarning) as caught:
        TransferabilitySelector(given, ["logme", "leep"]).fit(X, Y)
    assert [str(warning.message) for warning in caught] == [
        f"Candidates 'pca' and 'scaled' have no score by 'leep': {NO_HEAD}",
        "Candidates 'b1' and 'b3' have no score by 'logme' and 'leep': "
        "RuntimeError: CUDA out of memory",
        "Candidate 'b2' has no score by 'logme' and 'leep': OSError",
    ]


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize(
    "how, reason",
    [
        ("none at all", NO_HEAD),
        ("head nan", "Input X contains NaN."),
        ("head negative", "Negative values in data"),
    ],
)
def test_a_bad_source_head_costs_only_the_metrics_that_need_it(how, reason):
    selector = TransferabilitySelector([("net", Broken(how))], ["logme", "leep", "nce"])
    with pytest.warns(CandidateFailedWarning, match="'net' has no score by"):
        selector.fit(X[:, :2], Y)
    assert np.isfinite(selector.scores_["net"])
    assert selector.failures_["net"]["leep"].startswith(reason)
    assert set(selector.metrics_) - {"nce"} == {"logme"}


@pytest.mark.parametrize(
    "how, reason",
    [
        ("head 1d", r"source probabilities of shape \(150,\); expected"),
        ("head rows", "149 rows of source probabilities for 150 samples"),
    ],
)
def test_a_source_head_that_does_not_match_the_samples_is_a_failure_of_the_candidate(how, reason):
    with pytest.raises(ValueError, match=f"'net', could not be scored by 'logme': .*{reason}"):
        TransferabilitySelector([("net", Broken(how))], ["logme", "leep"]).fit(X, Y)


class Writing(Broken):
    """Changes the data it is given, in one of its methods."""

    def __init__(self, how, stateless=False, what="X"):
        super().__init__(how, stateless)
        self.what = what

    def fit(self, X, y=None):
        if self.how == "fit":
            {"X": X, "y": y}[self.what][:] = 0
        return self

    def transform(self, X):
        if self.how == "transform":
            X *= 0
        return X[:, :2]


@pytest.mark.parametrize("cv", [None, 2])
@pytest.mark.parametrize(
    "writing",
    [Writing("fit"), Writing("transform"), Writing("transform", True), Writing("fit", what="y")],
)
def test_a_candidate_that_writes_into_the_data_fails_alone(writing, cv, tmp_path):
    given = [("writing", writing), *GOOD]
    expected = without_failures(cv)
    on_disk = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", X.dtype, X.shape)
    on_disk[:] = X
    for data in (X.copy(), np.asfortranarray(X), on_disk):
        y = Y.copy()
        selector = TransferabilitySelector(given, cv=cv)
        with pytest.warns(CandidateFailedWarning, match="'writing' has no score .*read-only"):
            selector.fit(data, y)
        assert selector.ranking_ == {**expected.ranking_, "writing": 3}
        # Another layout in memory may change the last digit.
        assert {n: selector.scores_[n] for n, _ in GOOD} == pytest.approx(expected.scores_)
        np.testing.assert_array_equal(data, X)
        np.testing.assert_array_equal(y, Y)
        assert data.flags.writeable and y.flags.writeable


def test_scikit_learn_in_place_copies_what_it_may_not_change():
    given = [("scaled", StandardScaler(copy=False)), ("pca", PCA(2, copy=False))]
    data = X.copy()
    selector = TransferabilitySelector(given, cv=2).fit(data, Y)
    assert np.isfinite(list(selector.scores_.values())).all()
    np.testing.assert_array_equal(data, X)


def test_masked_targets_are_refused():
    y = np.ma.masked_array(Y, mask=np.arange(len(Y)) < 3)
    with pytest.raises(ValueError, match="target y is a masked array with 3 of 150 values masked"):
        TransferabilitySelector(GOOD).fit(X, y)


def test_all_failing():
    given = [("a", Broken()), ("b", Broken("nan")), ("c", Broken())]
    with pytest.raises(ValueError) as caught:
        TransferabilitySelector(given).fit(X, Y)
    assert str(caught.value) == (
        "None of the 3 candidates could be scored by 'logme': "
        "'a' and 'c': RuntimeError: CUDA out of memory; "
        f"'b': {REASONS['nan']}"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_all_failing_for_one_reason():
    with pytest.raises(ValueError) as caught:
        TransferabilitySelector(GOOD, "leep").fit(X, Y)
    assert str(caught.value) == f"None of the 2 candidates could be scored by 'leep': {NO_HEAD}"
    with pytest.raises(TypeError, match="None of the 2 candidates .* sparse features"):
        TransferabilitySelector([("a", Broken("sparse")), ("b", Broken("sparse"))]).fit(X, Y)


def test_all_failing_by_the_deciding_metric_only():
    with pytest.raises(ValueError, match="None of the 2 candidates could be scored by 'leep'"):
        TransferabilitySelector(GOOD, ["logme", "leep"], refit="leep").fit(X, Y)
    with pytest.warns(CandidateFailedWarning, match="'leep'"):
        selector = TransferabilitySelector(GOOD, ["logme", "leep"]).fit(X, Y)
    assert set(selector.metrics_) == {"logme"}
    np.testing.assert_array_equal(selector.cv_results_["rank_leep"], [1, 1])
    assert np.isnan(list(selector.metric_scores_["leep"].values())).all()


def test_a_fit_that_fails_leaves_the_selector_unfitted():
    selector = TransferabilitySelector([("a", Broken())])
    with pytest.raises(ValueError, match="only candidate, 'a', could not be scored"):
        selector.fit(X, Y)
    with pytest.raises(NotFittedError):
        selector.transform(X)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    "how, error, note",
    [
        ("fit", RuntimeError, "candidate 'broken' of the selection"),
        ("rows", ValueError, "candidate 'broken' of the selection"),
        ("empty", ValueError, "when 'logme' scored candidate 'broken'"),
    ],
)
def test_errors_are_let_through_on_demand(how, error, note, n_jobs):
    selector = TransferabilitySelector(
        [*GOOD, ("broken", Broken(how))], error_score="raise", n_jobs=n_jobs
    )
    with pytest.raises(error) as caught:
        selector.fit(X, Y)
    assert note in caught.value.__notes__[0]


def test_interrupts_are_not_failures():
    class Interrupted(Broken):
        def fit(self, X, y=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TransferabilitySelector([*GOOD, ("slow", Interrupted())]).fit(X, Y)


def test_a_candidate_without_tags_is_taken_for_one_that_learns():
    class Plain:
        def __init__(self):
            self.mean = None

        def get_params(self, deep=True):
            return {}

        def fit(self, X, y=None):
            self.mean_ = X.mean(axis=0)
            return self

        def transform(self, X):
            return X - self.mean_

    selector = TransferabilitySelector([("plain", Plain())], cv=2).fit(X, Y)
    assert selector.candidates_.plain.mean_.shape == (4,)
    assert np.isfinite(selector.best_score_)


def test_a_candidate_that_cannot_be_copied():
    class Uncopied(Broken):
        def __init__(self, *names):
            self.names = names

    with pytest.warns(CandidateFailedWarning, match="'odd' has no score .* RuntimeError"):
        TransferabilitySelector([*GOOD, ("odd", Uncopied())]).fit(X, Y)


def test_failing_candidates_in_the_diagram():
    selector = TransferabilitySelector([*GOOD, ("broken", Broken())])
    with pytest.warns(CandidateFailedWarning):
        selector.fit(X, Y)
    assert "broken: failed<" in estimator_html_repr(selector)


# -- NaN without an exception ----------------------------------------------------------------------


class Undefined(LogME):
    """NaN for features of some width, with or without saying why."""

    def __init__(self, width=2, reason=None):
        super().__init__()
        self.width = width
        self.reason = reason

    def _fit(self, X, target, sample_weight):
        self._says(X.shape[1])

    def fit_moments(self, moments):
        self._says(moments.n_features)
        return self

    _parameter_constraints = {}

    def _says(self, width):
        self.score_ = float("nan") if width == self.width else float(width)
        if width == self.width and self.reason:
            warnings.warn(self.reason, UninformativeScoreWarning, stacklevel=2)


def test_a_score_of_nan_is_never_the_best():
    for given in (GOOD, GOOD[::-1]):
        with pytest.warns(CandidateFailedWarning, match="'pca' .* The score is NaN."):
            selector = TransferabilitySelector(given, Undefined()).fit(X, Y)
        assert selector.ranking_ == {"scaled": 1, "pca": 2}
        assert selector.best_name_ == "scaled"


def test_the_reason_for_nan_is_what_the_metric_warned_of():
    with pytest.warns() as caught:
        selector = TransferabilitySelector(GOOD, Undefined(reason="No idea.")).fit(X, Y)
    assert selector.failures_ == {"pca": {"undefined": "No idea."}}
    assert selector.warnings_ == {"pca": ["No idea."]}
    assert {str(w.message): w.category for w in caught} == {
        "Candidate 'pca' has no score by 'undefined': No idea.": CandidateFailedWarning,
        "No idea. (candidates: 'pca')": UninformativeScoreWarning,
    }


def test_a_warning_of_several_metrics_or_splits_is_told_once():
    metrics = {"first": Undefined(reason="No idea."), "second": Undefined(reason="No idea.")}
    with pytest.warns() as caught:
        selector = TransferabilitySelector(GOOD, metrics, cv=2).fit(X, Y)
    assert selector.warnings_ == {"pca": ["No idea."]}
    assert selector.failures_ == {"pca": {"first": "No idea.", "second": "No idea."}}
    assert len(caught) == 2


def test_constant_features_are_scored_or_reported_but_never_the_best():
    class Constant(Broken):
        def transform(self, X):
            return np.ones((len(X), 3))

    given = [("constant", Constant("no")), *GOOD]
    with pytest.warns(UninformativeScoreWarning, match=r"\(candidates: 'constant'\)"):
        selector = TransferabilitySelector(given, ["hscore", "logme"]).fit(X, Y)
    assert selector.ranking_["constant"] == 3
    assert selector.best_name_ != "constant"


# -- warnings of metrics ---------------------------------------------------------------------------


def wide_noise(seed, n_samples=30):
    return np.random.default_rng(seed).normal(size=(n_samples, 60))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_warnings_of_metrics_name_the_candidates_once(n_jobs):
    data, y = wide_noise(0), np.arange(30) % 3
    data[:, :2] += 100 * np.eye(3, 2)[y]  # seen by the leading components
    given = [("a", StandardScaler()), ("b", StandardScaler(with_mean=False)), ("c", PCA(2))]
    with pytest.warns(UninformativeScoreWarning) as caught:
        selector = TransferabilitySelector(given, "hscore", n_jobs=n_jobs).fit(data, y)
    assert len(caught) == 1
    assert str(caught[0].message).endswith("(candidates: 'a' and 'b')")
    assert list(selector.warnings_) == ["a", "b"]


def test_warnings_in_threads_are_given_as_they_come():
    data, y = wide_noise(0), np.arange(30) % 3
    given = [(f"net{i}", StandardScaler()) for i in range(6)]
    with warnings.catch_warnings(record=True) as caught, parallel_config("threading"):
        warnings.simplefilter("always")
        selector = TransferabilitySelector(given, "hscore", n_jobs=2).fit(data, y)
    assert selector.warnings_ == {}
    assert UninformativeScoreWarning in {warning.category for warning in caught}
    assert selector.scores_ == pytest.approx(dict.fromkeys(selector.scores_, 2.0))


def test_a_selector_may_be_fitted_in_a_thread():
    data, y = wide_noise(0), np.arange(30) % 3
    selector = TransferabilitySelector([("a", StandardScaler())], "hscore")

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selector.fit(data, y)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert list(selector.warnings_) == ["a"]


def test_warnings_can_be_made_errors_or_silenced():
    data, y = wide_noise(0), np.arange(30) % 3
    selector = TransferabilitySelector([("a", StandardScaler()), ("b", PCA(2))], "hscore")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeScoreWarning)
        with pytest.raises(UninformativeScoreWarning):
            selector.fit(data, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", UninformativeScoreWarning)
        before = list(warnings.filters)
        make_pipeline(selector).fit(data, y)
        assert warnings.filters == before
    assert caught == []


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([None, "a"] * 4, dtype=object), "mixes NoneType and strings"),
        (np.array([1, "a"] * 4, dtype=object), "mixes numbers and strings"),
        (np.arange(16).reshape(8, 2) % 5, "HScore is defined for classification targets"),
        (np.arange(16).reshape(8, 2) % 3 % 2, "got a multilabel target"),
        (np.linspace(0, 1, 8), "got a regression target y \\(numbers with a fractional part\\)"),
        (np.array(["2030-01-01", "2030-01-02"] * 4, dtype="M8[D]"), "Dates can be labels"),
        (sparse.csr_array(np.eye(8)[:, :1]), "y must be a dense array"),
        ([3] * 8, r"got 1 class \(3\) in n_samples=8"),
        (["x"] * 8, r"got 1 class \('x'\) in n_samples=8"),
    ],
)
def test_a_target_without_a_definition_is_refused_before_any_candidate_runs(y, message):
    n_runs = []
    candidates = [(name, FunctionTransformer(lambda X: n_runs.append(1) or X)) for name in "ab"]
    X = np.random.default_rng(0).normal(size=(8, 3))
    searches = [
        TransferabilitySelector(candidates, metric="hscore"),
        TransferabilitySelector(candidates, metric=["logme", "hscore"], refit="hscore"),
        MetricSearchCV(candidates, "hscore", reference={"a": 1.0, "b": 2.0}),
    ]
    for search in searches:
        with pytest.raises((ValueError, TypeError), match=message):
            search.fit(X, y)
    assert not n_runs


def test_a_metric_that_does_not_decide_may_lack_a_definition():
    with pytest.warns(CandidateFailedWarning, match="regression"):
        selector = TransferabilitySelector(GOOD, metric=["logme", "hscore"]).fit(X, X[:, 0])
    assert selector.refit_metric_ == "logme" and "hscore" in selector.failures_["pca"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["a"] * 150, "sample_weight must hold numbers; could not convert string"),
        (np.full(150, -1.0), "Negative values in data passed to `sample_weight`"),
        (np.full(150, np.nan), "sample_weight contains NaN"),
        (np.ones(149), "149"),
    ],
)
def test_wrong_weights_are_refused_before_any_candidate_runs(weights, message):
    n_runs = []
    candidates = [(name, FunctionTransformer(lambda X: n_runs.append(1) or X)) for name in "ab"]
    with config_context(enable_metadata_routing=True):
        metric = LogME().set_fit_request(sample_weight=True)
        with pytest.raises(ValueError, match=message):
            TransferabilitySelector(candidates, metric).fit(X, Y, sample_weight=weights)
    assert not n_runs
