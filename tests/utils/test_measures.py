"""Measures by name: their values against scikit-learn's, classes that are missing, one pass."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sktransfer.utils._measures import MEASURES, evaluate, get_measures

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = np.array(["a", "b", "c"])[(X[:, 0] + RNG.normal(size=120) > 0).astype(int) + (X[:, 1] > 0.3)]
TRAIN, TEST = slice(60), slice(60, None)


def fitted(y=Y):
    return LogisticRegression().fit(X[TRAIN], y[TRAIN])


def value(name, estimator, X, y):
    return evaluate(estimator, X, y, get_measures(name))[name]


@pytest.mark.parametrize("y", [Y, np.searchsorted(["a", "b", "c"], Y) * 2.0 - 1, Y.astype(object)])
def test_with_all_classes_they_are_those_of_scikit_learn(y):
    model, y_test = fitted(y), y[TEST]
    probabilities, labels = model.predict_proba(X[TEST]), model.predict(X[TEST])
    found = evaluate(model, X[TEST], y_test, get_measures(list(MEASURES)))
    expected = {
        "accuracy": accuracy_score(y_test, labels),
        "balanced_accuracy": balanced_accuracy_score(y_test, labels),
        "roc_auc_ovr": roc_auc_score(y_test, probabilities, multi_class="ovr"),
        "neg_log_loss": -log_loss(y_test, probabilities),
    }
    assert found == pytest.approx(expected, abs=1e-12)
    assert list(found) == list(MEASURES)
    assert {type(each) for each in found.values()} == {float}
    assert value("roc_auc_ovr", model, X[TEST], list(y_test[:, None])) == found["roc_auc_ovr"]


def test_two_classes():
    y = Y != "b"
    for model in (LogisticRegression(), LinearSVC()):
        model.fit(X[TRAIN], y[TRAIN])
        expected = roc_auc_score(y[TEST], model.decision_function(X[TEST]))
        assert value("roc_auc_ovr", model, X[TEST], y[TEST]) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="'neg_log_loss' needs a classifier with predict_proba; L"):
        value("neg_log_loss", model, X[TEST], y[TEST])


def test_decisions_of_several_classes():
    model = LinearSVC().fit(X[TRAIN], Y[TRAIN])
    decisions = model.decision_function(X[TEST])
    areas = [roc_auc_score(Y[TEST] == c, decisions[:, k]) for k, c in enumerate("abc")]
    assert value("roc_auc_ovr", model, X[TEST], Y[TEST]) == pytest.approx(np.mean(areas), abs=1e-12)


def test_classes_of_the_classifier_that_are_not_in_y():
    model = fitted()
    few = np.flatnonzero(Y[TEST] != "b") + 60
    probabilities = model.predict_proba(X[few])
    areas = [roc_auc_score(Y[few] == c, probabilities[:, k]) for c, k in (("a", 0), ("c", 2))]
    assert areas[0] != areas[1]
    assert value("roc_auc_ovr", model, X[few], Y[few]) == pytest.approx(np.mean(areas), abs=1e-12)
    # No warning from here, where scikit-learn warns of predicted classes that are not in y.
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        expected = balanced_accuracy_score(Y[few], model.predict(X[few]))
    assert value("balanced_accuracy", model, X[few], Y[few]) == pytest.approx(expected)
    expected = -log_loss(Y[few], probabilities, labels=model.classes_)
    assert value("neg_log_loss", model, X[few], Y[few]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seen", [["a", "c"], ["a", "b", "c"]])
def test_classes_in_y_that_were_never_seen(seen):
    rows = np.flatnonzero(np.isin(Y[TRAIN], seen))
    model = LogisticRegression().fit(X[rows], Y[rows])
    y = Y[TEST].copy()
    y[:5] = "never"
    columns = np.column_stack([model.predict_proba(X[TEST]), np.zeros(60)])
    column_of = dict(zip(seen, range(3), strict=False))
    areas = [roc_auc_score(y == c, columns[:, column_of.get(c, -1)]) for c in np.unique(y)]
    assert 0.5 in areas
    assert value("roc_auc_ovr", model, X[TEST], y) == pytest.approx(np.mean(areas), abs=1e-12)
    true = columns[np.arange(60), [column_of.get(c, -1) for c in y]]
    expected = np.log(np.maximum(true, np.finfo(float).eps)).mean()
    assert value("neg_log_loss", model, X[TEST], y) == pytest.approx(expected, rel=1e-12)
    recalls = [(model.predict(X[TEST]) == y)[y == c].mean() for c in np.unique(y)]
    assert value("balanced_accuracy", model, X[TEST], y) == pytest.approx(np.mean(recalls))


class Table(ClassifierMixin, BaseEstimator):
    """Probabilities that are given, and how often they were asked for."""

    def __init__(self, table, classes=(0, 1), probable=True):
        self.table, self.classes_, self._predicts_most_probable = table, np.array(classes), probable
        self.calls = []

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        self.calls.append("predict_proba")
        return np.asarray(self.table)[: len(X)]

    def predict(self, X):
        self.calls.append("predict")
        return self.classes_[np.asarray(self.table)[: len(X)].argmax(axis=1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_and_wrong_is_finite_and_as_in_scikit_learn(dtype):
    table = np.array([[1, 0], [0, 1], [1, 0]], dtype)
    found = value("neg_log_loss", Table(table), np.zeros((3, 1)), [0, 1, 1])
    assert found == pytest.approx(-log_loss([0, 1, 1], table), rel=1e-6)
    assert np.isfinite(found)


@pytest.mark.parametrize("probable", [True, False])
@pytest.mark.parametrize("piped", [True, False])
def test_one_prediction_for_all_measures(probable, piped):
    rows = RNG.random((60, 3))
    table = Table(rows / rows.sum(1, keepdims=True), ["a", "b", "c"], probable)
    model = make_pipeline(StandardScaler().fit(X), table) if piped else table
    names = [*MEASURES, "f1_macro", "roc_auc_ovo"]
    together = evaluate(model, X[TEST], Y[TEST], get_measures(names))
    assert table.calls == (["predict_proba"] if probable else ["predict", "predict_proba"])
    assert together == {name: value(name, model, X[TEST], Y[TEST]) for name in names}


def test_fine_tuned_networks_run_once(monkeypatch):
    pytest.importorskip("torch")
    from sktransfer.backbones import TinyZooBackbone
    from sktransfer.finetune import FineTuneClassifier

    images = RNG.integers(0, 255, size=(20, 28, 28)).astype(np.uint8)
    tuned = FineTuneClassifier(TinyZooBackbone("letters_half"), max_epochs=1, random_state=0)
    tuned.fit(images, Y[:20])
    expected = accuracy_score(Y[:20], tuned.predict(images))
    passes, plain = [], FineTuneClassifier._outputs
    monkeypatch.setattr(
        FineTuneClassifier, "_outputs", lambda self, X: passes.append(1) or plain(self, X)
    )
    found = evaluate(tuned, images, Y[:20], get_measures(list(MEASURES)))
    assert len(passes) == 1
    assert found["accuracy"] == expected


def test_scorers_of_the_caller():
    model = fitted()

    def hardest(estimator, X, y):
        assert estimator is model
        return np.float32(estimator.predict_proba(X).max(axis=1).min())

    assert list(get_measures(hardest)) == ["hardest"]
    assert list(get_measures(lambda *_: 0)) == ["score"]
    assert list(get_measures(make_scorer(accuracy_score))) == ["accuracy_score"]
    found = evaluate(
        model,
        X[TEST],
        Y[TEST],
        get_measures({"own": hardest, "right": "accuracy", "s": "f1_macro"}),
    )
    assert list(found) == ["own", "right", "s"]
    assert type(found["own"]) is float
    assert found["right"] == value("accuracy", model, X[TEST], Y[TEST])


def test_regression():
    model = LinearRegression().fit(X, X[:, 0] ** 2)
    assert value("r2", model, X, X[:, 0] ** 2) == model.score(X, X[:, 0] ** 2)
    with pytest.raises(ValueError, match="'accuracy' is for classifiers; got .* LinearRegression"):
        value("accuracy", model, X, X[:, 0])


def test_what_asks_another_question_is_not_answered_from_memory():
    # A scorer may predict for other data than it is given.
    model = fitted()
    scorer = make_scorer(accuracy_score)
    calls = []

    class Twice(type(scorer)):
        def _score(self, method_caller, estimator, X, y_true, **kwargs):
            calls.append((estimator.predict(X[:5]), estimator.predict(X)))
            return super()._score(method_caller, estimator, X, y_true, **kwargs)

    twice = Twice(accuracy_score, 1, {}, "predict")
    evaluate(model, X[TEST], Y[TEST], get_measures(twice))
    assert [len(part) for part in calls[0]] == [5, 60]


def test_measures_can_be_pickled():
    measures = get_measures(["roc_auc_ovr", "f1_macro"])
    again = pickle.loads(pickle.dumps(measures))
    assert evaluate(fitted(), X, Y, again) == evaluate(fitted(), X, Y, measures)


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        (
            "accurate",
            ValueError,
            "'accurate', which is no measure: it must be one of 'accuracy', 'b",
        ),
        (["accuracy", "auc"], ValueError, "'auc', which is no measure"),
        (["accuracy", "accuracy"], ValueError, "names a measure twice"),
        ([], ValueError, "names no measure; got \\[\\]"),
        ({}, ValueError, "names no measure"),
        (None, TypeError, "got None of type NoneType"),
        (3, TypeError, "got 3 of type int"),
        ([3], TypeError, "must hold names of measures.*got 3"),
        ([len], TypeError, "must hold names of measures"),
        ({3: "accuracy"}, TypeError, "names in 'scoring' must be strings; got 3"),
        ({"a": 3}, TypeError, "must hold names of measures.*got 3"),
    ],
)
def test_what_is_no_measure(scoring, error, message):
    with pytest.raises(error, match=message):
        get_measures(scoring)


@pytest.mark.parametrize("name", list(MEASURES))
def test_what_no_measure_is_defined_for(name):
    model = fitted()
    with pytest.raises(ValueError, match="one label per sample.*shape \\(60, 2\\)"):
        value(name, model, X[TEST], np.zeros((60, 2)))
    with pytest.raises(ValueError, match="y that are numbers with classes .* that are strings"):
        value(name, model, X[TEST], np.zeros(60))
    several = Table([[0.5, 0.5]])
    several.classes_ = [np.array([0, 1]), np.array([0, 1])]
    with pytest.raises(ValueError, match="a classifier with a single output"):
        value(name, several, X[:1], [0])


def test_no_area_under_a_curve_of_one_class():
    with pytest.raises(ValueError, match="needs two classes in y at least; all .* of class 'a'"):
        value("roc_auc_ovr", fitted(), X[TEST], np.full(60, "a"))


def test_nan_comes_with_a_reason():
    with pytest.raises(ValueError, match="predict_proba gives NaN or infinite values"):
        value("neg_log_loss", Table([[np.nan, 0.5]]), X[:1], [0])
    with pytest.raises(ValueError, match="'bad' gives NaN for LogisticRegression on these 60 samp"):
        evaluate(fitted(), X[TEST], Y[TEST], {"bad": lambda *_: np.nan})
    with pytest.raises(TypeError, match="'bad' must give a number; got 'x', of type str"):
        evaluate(fitted(), X[TEST], Y[TEST], {"bad": lambda *_: "x"})
    with pytest.raises(TypeError, match="'bad' must give a number; got .*ndarray"):
        evaluate(fitted(), X[TEST], Y[TEST], {"bad": lambda *_: np.zeros(2)})
