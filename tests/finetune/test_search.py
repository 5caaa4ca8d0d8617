"""FineTuneSearchCV for a user: results checked by hand, measures, inputs, failures."""

import gc
import math
import pickle
import random
import weakref
from zlib import crc32

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

from joblib import parallel_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.callback import ProgressBar
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from skorch.callbacks import Callback, EpochScoring
from torch import nn
from torch.utils.data import TensorDataset

from sktransfer.backbones import TinyZooBackbone, TorchBackbone
from sktransfer.datasets import load_digits_target
from sktransfer.exceptions import NotConvergedWarning, TrialFailedWarning
from sktransfer.finetune import FineTuneClassifier, FineTuneRegressor, FineTuneSearchCV
from sktransfer.finetune._module import FineTuneModule
from sktransfer.finetune._rows import validation_rows
from sktransfer.finetune._search_sampling import seed_for
from sktransfer.finetune._search_trial import run_trial
from sktransfer.utils._measures import evaluate, get_measures

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
Y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)]
X_VAL = RNG.normal(size=(30, 6)).astype(np.float32)
Y_VAL = np.array(["a", "b", "c"])[(X_VAL[:, 0] > 0).astype(int) + (X_VAL[:, 1] > 0.3)]
SPACE = {"lr": (1e-4, 1e-1, "log"), "head_lr": (1e-4, 1e-1, "log")}


class Plain(nn.Module):
    """With batch normalisation, which an evaluation in the middle of training must not touch."""

    def __init__(self, width=8):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.Dropout(0.1))
        self.classifier = nn.Linear(width, 3)

    def forward(self, x):
        return self.classifier(torch.relu(self.hidden(x)))


def classifier(**parameters):
    return FineTuneClassifier(
        TorchBackbone(Plain), **{"max_epochs": 3, "random_state": 0, "batch_size": 32} | parameters
    )


def search(estimator=None, space=SPACE, **parameters):
    parameters = {"n_trials": 4, "random_state": 0} | parameters
    return FineTuneSearchCV(estimator or classifier(), space, **parameters)


def trained(estimator, params):
    return clone(estimator).set_params(**params)


def untimed(results):
    """Everything that a search found out, without the seconds that it took."""
    kept = {name: column for name, column in results.items() if not name.endswith("_time")}
    return {name: np.asarray(column).tolist() for name, column in kept.items()}


def same(first, second):
    """Equal to the last bit, NaN included."""
    return repr(untimed(first)) == repr(untimed(second))


# -- what trials are judged by ---------------------------------------------------------------------


def test_given_data_judge_trials_and_the_best_network_is_that_of_its_trial():
    found = search(n_trials=8).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    results, complete = found.cv_results_, 0
    for row, params in enumerate(results["params"]):
        assert params == {name: results[f"param_{name}"][row] for name in sorted(SPACE)}
        if results["state"][row] == "complete":
            by_hand = trained(classifier(), params).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
            expected = accuracy_score(Y_VAL, by_hand.predict(X_VAL))
            assert results["mean_test_score"][row] == expected
            assert results["split0_test_score"][row] == expected
            complete += 1
    assert complete >= 5
    assert found.best_estimator_.best_epoch_ is not None
    assert found.best_score_ == accuracy_score(Y_VAL, found.predict(X_VAL))
    assert found.best_score_ == np.nanmax(results["mean_test_score"])
    assert found.best_params_ == results["params"][found.best_index_]
    assert results["rank_test_score"][found.best_index_] == 1
    assert found.score(X_VAL, Y_VAL) == found.best_score_


def test_splits_judge_trials_by_their_mean():
    splits = list(StratifiedKFold(3).split(X, Y))
    found = search(cv=3, n_trials=2, scoring="neg_log_loss").fit(X, Y)
    results = found.cv_results_
    for row, params in enumerate(results["params"]):
        scores = []
        for train, test in splits:
            by_hand = trained(classifier(), params).fit(X[train], Y[train])
            scores.append(-log_loss(Y[test], by_hand.predict_proba(X[test])))
        found_scores = [results[f"split{split}_test_score"][row] for split in range(3)]
        assert found_scores == pytest.approx(scores, rel=1e-12)
        assert results["mean_test_score"][row] == np.mean(found_scores)
        assert results["std_test_score"][row] == np.std(found_scores)
    assert found.n_splits_ == 3
    assert results["n_epochs"].tolist() == [9, 9]
    by_hand = trained(classifier(), found.best_params_).fit(X, Y)
    np.testing.assert_array_equal(found.predict_proba(X_VAL), by_hand.predict_proba(X_VAL))
    masks = [tuple(np.isin(np.arange(60), part) for part in split) for split in splits]
    for cv in (splits, masks, StratifiedKFold(3)):
        again = search(cv=cv, n_trials=2, scoring="neg_log_loss").fit(X, Y)
        assert same(again.cv_results_, results)


def test_rows_are_held_out_of_every_class():
    found = search(n_trials=2, validation_fraction=0.3).fit(X, Y)
    codes = np.searchsorted(["a", "b", "c"], Y)
    test = validation_rows(codes, 60, 0.3, [seed_for(0, "rows")])
    train = np.setdiff1d(np.arange(60), test)
    assert len(test) == 18
    assert set(Y[test]) == set(Y)
    for params, score in zip(
        found.cv_results_["params"], found.cv_results_["mean_test_score"], strict=True
    ):
        by_hand = trained(classifier(), params).fit(X[train], Y[train])
        assert score == accuracy_score(Y[test], by_hand.predict(X[test]))


def test_early_stopping_of_the_estimator_itself():
    # The value of a trial is that of the weights that were restored, not that of the last epoch.
    stopping = classifier(early_stopping=True, max_epochs=6, validation_fraction=0.4)
    found = search(stopping, cv=KFold(2), n_trials=3, scoring="neg_log_loss").fit(X, Y)
    train, test = next(KFold(2).split(X))
    study, early = found.get_study(), 0
    for row, params in enumerate(found.cv_results_["params"]):
        by_hand = trained(stopping, params).fit(X[train], Y[train])
        expected = -log_loss(Y[test], by_hand.predict_proba(X[test]))
        assert found.cv_results_["split0_test_score"][row] == pytest.approx(expected, rel=1e-12)
        early += by_hand.best_epoch_ < 6
        reported = study.trials[row].intermediate_values
        assert reported[by_hand.best_epoch_] == pytest.approx(expected, rel=1e-12)
    assert early


def test_weights_are_for_training_and_rows_without_weight_are_left_out():
    weights = np.where(np.arange(60) % 5 == 0, 0.0, 1.0 + np.arange(60) % 3)
    splits = list(KFold(2).split(X))
    found = search(cv=splits, n_trials=2).fit(X, Y, sample_weight=weights)
    kept = [tuple(part[weights[part] > 0] for part in split) for split in splits]
    for row, params in enumerate(found.cv_results_["params"]):
        for split, (train, test) in enumerate(kept):
            by_hand = trained(classifier(), params).fit(X[train], Y[train], weights[train])
            expected = accuracy_score(Y[test], by_hand.predict(X[test]))
            assert found.cv_results_[f"split{split}_test_score"][row] == expected
    rows = weights > 0
    again = search(n_trials=2).fit(X[rows], Y[rows], weights[rows])
    assert same(again.cv_results_, search(n_trials=2).fit(X, Y, weights).cv_results_)


# -- pruning ---------------------------------------------------------------------------------------


class Keep(Callback):
    """Keeps the weights after each epoch, to score them when all is over."""

    def __init__(self):
        self.states_ = []

    def __deepcopy__(self, memo):
        return self

    def on_epoch_end(self, net, **kwargs):
        self.states_.append(net.module_.learned_state())


@pytest.mark.parametrize("train", ["full", "head", "staged"])
def test_what_is_reported_is_the_measure_after_each_epoch(train):
    estimator = classifier(train=train, max_epochs=4)
    found = search(estimator, n_trials=1, scoring="neg_log_loss")
    found.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    keep = Keep()
    by_hand = trained(estimator, found.best_params_).set_params(callbacks=[("keep", keep)])
    by_hand.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    expected = {}
    for epoch, state in enumerate(keep.states_, 1):
        by_hand.net_.module_.load_learned_state(state)
        expected[epoch] = -log_loss(Y_VAL, by_hand.predict_proba(X_VAL))
    reported = found.get_study().trials[0].intermediate_values
    assert reported == pytest.approx(expected, rel=1e-6)
    assert len(set(reported.values())) == 4


def median_rule(records, reported):
    """The epoch at which a trial is to end, by the definition of the rule."""
    complete = [r for r in records if r.state == optuna.trial.TrialState.COMPLETE]
    if len(complete) < 5:
        return None
    best = -math.inf
    for epoch, value in sorted(reported.items()):
        best = max(best, value)
        others = [r.intermediate_values[epoch] for r in complete if epoch in r.intermediate_values]
        if others and best < np.median(others):
            return epoch
    return None


def test_the_median_rule_ends_trials_and_nothing_else_changes():
    options = {"n_trials": 12, "scoring": "neg_log_loss"}
    found = search(classifier(max_epochs=4), **options).fit(X, Y)
    trials = found.get_study().trials
    n_pruned = 0
    for number, trial in enumerate(trials):
        ends = median_rule(trials[:number], trial.intermediate_values)
        pruned = trial.state == optuna.trial.TrialState.PRUNED
        assert pruned == (ends is not None)
        assert found.cv_results_["state"][number] == ("pruned" if pruned else "complete")
        assert found.cv_results_["n_epochs"][number] == (ends if pruned else 4)
        assert np.isnan(found.cv_results_["mean_test_score"][number]) == pruned
        n_pruned += pruned
    assert 2 <= n_pruned <= 7
    pruned_rows = found.cv_results_["state"] == "pruned"
    assert found.cv_results_["rank_test_score"][pruned_rows].tolist() == [13 - n_pruned] * n_pruned
    assert not pruned_rows[found.best_index_]
    # The first trials are chosen at random, so without pruning they are the same ones.
    unpruned = search(classifier(max_epochs=4), pruner=None, **options).fit(X, Y)
    assert set(unpruned.cv_results_["state"]) == {"complete"}
    assert not unpruned.get_study().trials[0].intermediate_values
    for row in np.flatnonzero(~pruned_rows[:10]):
        for column in ("param_lr", "mean_test_score"):
            assert unpruned.cv_results_[column][row] == found.cv_results_[column][row]


def test_other_pruners():
    pruner = optuna.pruners.PercentilePruner(50.0, n_startup_trials=1)
    found = search(pruner=pruner, n_trials=8, scoring="neg_log_loss").fit(X, Y)
    assert (found.cv_results_["state"][:5] == "pruned").any()
    halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    whole = search(pruner=halving, n_trials=9, scoring="neg_log_loss").fit(X, Y)
    assert (whole.cv_results_["state"] == "pruned").any()
    # It keeps notes in the trials, on which later decisions rest.
    assert any(trial.system_attrs for trial in whole.get_study().trials)


def test_with_several_splits_the_first_decides():
    found = search(cv=2, n_trials=9, scoring="neg_log_loss").fit(X, Y)
    pruned = found.cv_results_["state"] == "pruned"
    assert pruned.any()
    assert (found.cv_results_["n_epochs"][pruned] <= 3).all()
    assert (found.cv_results_["n_epochs"][~pruned] == 6).all()
    assert np.isnan(found.cv_results_["split1_test_score"][pruned]).all()


# -- the choice of parameters ----------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_parameters_are_those_of_a_live_study_with_a_sampler_for_each_trial(sampler):
    found = search(n_trials=14, sampler=sampler, scoring="neg_log_loss").fit(X, Y)
    kinds = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    options = {"tpe": {"multivariate": False, "constant_liar": False}, "random": {}}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    live = optuna.create_study(direction="maximize")
    log = {"log": True}
    distributions = {
        name: optuna.distributions.FloatDistribution(1e-4, 1e-1, **log) for name in sorted(SPACE)
    }
    for number, past in enumerate(found.get_study().trials):
        seed = seed_for(0, "sampler", crc32(b"neg_log_loss"), number)
        live.sampler = kinds[sampler](seed=seed, **options[sampler])
        trial = live.ask(distributions)
        assert trial.params == past.params
        for step, value in past.intermediate_values.items():
            trial.report(value, step)
        live.tell(trial, past.value if past.state.name == "COMPLETE" else None, state=past.state)
    assert len({trial.params["lr"] for trial in live.trials}) == 14


def test_default_space():
    found = search(space=None, n_trials=12).fit(X, Y)
    lr, decay = (found.cv_results_[f"param_{name}"] for name in ("lr", "weight_decay"))
    assert 1e-5 <= lr.min() < 1e-4 < 1e-3 < lr.max() <= 1e-2
    assert 1e-6 <= decay.min() < 1e-5 < 1e-3 < decay.max() <= 1e-2
    # The other learning rate has no part in the training.
    head = search(classifier(train="head"), None, n_trials=1).fit(X, Y)
    assert list(head.best_params_) == ["head_lr", "weight_decay"]
    one = search(classifier(train="head", head_lr=None), None, n_trials=1).fit(X, Y)
    assert list(one.best_params_) == ["lr", "weight_decay"]


def test_all_forms_of_a_space():
    wide = TorchBackbone(Plain, batch_size=7)
    space = {
        "backbone": [wide, TorchBackbone(Plain, batch_size=9)],
        "max_epochs": (1, 3),
        "train": ["head", "full"],
        "class_weight": [None, "balanced", {"a": 2.0}],
        "weight_decay": optuna.distributions.FloatDistribution(0.0, 0.5, step=0.25),
        "head_lr": optuna.distributions.CategoricalDistribution([0.01, 0.1]),
        "lr": (1e-3, 1),
    }
    found = search(space=space, n_trials=8).fit(X, Y)
    results = found.cv_results_
    assert {b.batch_size for b in results["param_backbone"]} == {7, 9}
    assert set(results["param_max_epochs"].tolist()) <= {1, 2, 3}
    assert results["param_max_epochs"].dtype.kind == "i"
    assert set(results["param_train"]) == {"head", "full"}
    assert all(value in space["class_weight"] for value in results["param_class_weight"])
    assert {type(value) for value in results["param_class_weight"]} >= {dict}
    assert set(results["param_weight_decay"].tolist()) <= {0.0, 0.25, 0.5}
    assert set(results["param_head_lr"].tolist()) <= {0.01, 0.1}
    assert results["param_lr"].dtype.kind == "f"
    # The user's own objects have not been touched.
    assert not hasattr(wide, "module_")
    assert found.best_estimator_.backbone is not wide


# -- measures --------------------------------------------------------------------------------------


def test_measures_are_optimised_separately():
    names = ["neg_log_loss", "roc_auc_ovr"]
    both = search(scoring=names, refit="roc_auc_ovr", n_trials=6).fit(X, Y)
    assert both.cv_results_["measure"].tolist() == [name for name in names for _ in range(6)]
    assert both.cv_results_["trial"].tolist() == 2 * list(range(6))
    start = 0
    for name in names:
        alone = search(scoring=name, n_trials=6).fit(X, Y)
        part = {key: column[start : start + 6] for key, column in both.cv_results_.items()}
        assert same(part, alone.cv_results_)
        assert both.best_params_per_measure_[name] == alone.best_params_
        assert both.best_scores_per_measure_[name] == alone.best_score_
        best = both.best_estimators_[name].predict_proba(X_VAL)
        np.testing.assert_array_equal(best, alone.predict_proba(X_VAL))
        start += 6
    assert both.refit_measure_ == "roc_auc_ovr"
    assert both.best_estimator_ is both.best_estimators_["roc_auc_ovr"]
    assert both.best_index_ == 6 + both.get_study().best_trial.number
    assert both.best_params_ == both.cv_results_["params"][both.best_index_]
    expected = roc_auc_score(Y_VAL, both.predict_proba(X_VAL), multi_class="ovr")
    assert both.score(X_VAL, Y_VAL) == pytest.approx(expected)
    assert both.multimetric_
    assert list(both.scorer_) == names
    params = [both.get_study(name).trials[0].params for name in names]
    assert params[0] != params[1]


def smallest_probability(estimator, X, y):
    # A function of one's own may look at the estimator, and at other data.
    assert isinstance(estimator, FineTuneClassifier)
    assert estimator.predict_proba(X_VAL).shape == (30, 3)
    return estimator.predict_proba(X).min(axis=1).mean()


def test_measures_of_ones_own():
    found = search(scoring={"own": smallest_probability, "f1": "f1_macro"}, n_trials=2)
    found.fit(X, Y, X_val=X_VAL[:20], y_val=Y_VAL[:20])
    assert found.best_score_ == smallest_probability(found.best_estimator_, X_VAL[:20], None)
    head = search(classifier(train="head"), scoring=smallest_probability, n_trials=1)
    head.fit(X, Y, X_val=X_VAL[:20], y_val=Y_VAL[:20])
    assert list(head.best_params_per_measure_) == ["smallest_probability"]
    last = head.get_study().trials[0].intermediate_values
    by_hand = trained(classifier(train="head"), head.best_params_)
    by_hand.fit(X, Y, X_val=X_VAL[:20], y_val=Y_VAL[:20])
    assert last[by_hand.best_epoch_] == smallest_probability(by_hand, X_VAL[:20], None)


def test_regression():
    y = np.column_stack([X[:, 0] * 100, X[:, 1]])
    estimator = FineTuneRegressor(TorchBackbone(Plain), max_epochs=3, random_state=0)
    found = search(estimator, scoring="r2", n_trials=2).fit(X, y, X_val=X_VAL, y_val=X_VAL[:, :2])
    assert is_regressor(found)
    assert found.predict(X_VAL).shape == (30, 2)
    by_hand = trained(estimator, found.best_params_).fit(X, y, X_val=X_VAL, y_val=X_VAL[:, :2])
    assert found.best_score_ == by_hand.score(X_VAL, X_VAL[:, :2])
    assert not hasattr(found, "predict_proba")
    assert not hasattr(found, "classes_")


# -- seeds and processes ---------------------------------------------------------------------------


def test_seeds():
    unseeded = classifier(random_state=None)
    first = search(unseeded).fit(X, Y)
    again = search(clone(unseeded)).fit(X, Y)
    assert same(first.cv_results_, again.cv_results_)
    np.testing.assert_array_equal(first.predict_proba(X_VAL), again.predict_proba(X_VAL))
    other = search(unseeded, random_state=1).fit(X, Y)
    assert not same(first.cv_results_, other.cv_results_)
    assert first.best_estimator_.random_state == seed_for(0, "fit", 0)
    assert unseeded.random_state is None
    drawn = search(random_state=None, n_trials=1).fit(X, Y)
    known = search(random_state=drawn.seed_, n_trials=1).fit(X, Y)
    assert same(drawn.cv_results_, known.cv_results_)
    state = np.random.RandomState(3)
    two = [search(random_state=state, n_trials=1).fit(X, Y).seed_ for _ in range(2)]
    assert two[0] != two[1]
    # The order in which a space is written down means nothing.
    backwards = dict(reversed(SPACE.items()))
    assert same(search(unseeded, backwards).fit(X, Y).cv_results_, first.cv_results_)


def test_nothing_global_is_touched():
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002 - that of the user
    before = random.getstate(), torch.get_rng_state()
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    try:
        search(n_trials=2).fit(X, Y)
        assert optuna.logging.get_verbosity() == optuna.logging.DEBUG
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        search(n_trials=1).fit(X, Y)
        assert optuna.logging.get_verbosity() == optuna.logging.ERROR
        with pytest.raises(ValueError, match="nothing to search over"):
            search(space={}).fit(X, Y)
        assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    finally:
        optuna.logging.set_verbosity(optuna.logging.INFO)
    np.testing.assert_array_equal(np.random.get_state()[1], numbers)  # noqa: NPY002
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_quiet_unless_asked(capfd):
    one = search(n_trials=2).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    two = search(n_trials=2, verbose=1).fit(X, Y)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("accuracy: trial 1 (2 of 2): 0.")
    assert f"best {two.best_score_:.4f} (trial {two.best_index_})" in lines[1]
    assert same(one.cv_results_, two.cv_results_)


@pytest.mark.parametrize("kind", ["measures", "splits"])
def test_the_number_of_processes_makes_no_difference(kind):
    options = {"scoring": ["neg_log_loss", "accuracy"]} if kind == "measures" else {"cv": 2}
    one = search(n_trials=6, **options).fit(X, Y)
    with parallel_config(backend="threading"):
        two = search(n_trials=6, n_jobs=2, **options).fit(X, Y)
    assert same(one.cv_results_, two.cv_results_)
    np.testing.assert_array_equal(one.predict_proba(X_VAL), two.predict_proba(X_VAL))


def test_a_trial_in_another_process():
    # What a worker is sent, and sends back, goes through a pickle.
    found = search(classifier(random_state=None), n_trials=3, scoring="neg_log_loss")
    sent = []

    def remotely(*arguments):
        sent.append(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(run_trial(*pickle.loads(sent[-1]))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sktransfer.finetune._search_rounds.run_trial", remotely)
        found.fit(X, Y)
    assert len(sent) == 3
    here = search(classifier(random_state=None), n_trials=3, scoring="neg_log_loss").fit(X, Y)
    assert same(found.cv_results_, here.cv_results_)


# -- scikit-learn ----------------------------------------------------------------------------------


def test_an_ordinary_meta_estimator():
    found = search(n_trials=2)
    assert is_classifier(found)
    assert not hasattr(found, "classes_")
    assert not hasattr(found, "n_features_in_")
    other = TorchBackbone(Plain, batch_size=5)
    assert found.set_params(estimator__backbone=other, estimator__max_epochs=2) is found
    assert found.estimator.backbone is other
    assert found.get_params()["estimator__backbone__batch_size"] == 5
    fitted = found.fit(X, Y)
    assert fitted is found
    assert found.best_estimator_.max_epochs == 2
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.n_features_in_ == 6
    assert not hasattr(found.estimator, "net_")
    unfitted = clone(found)
    assert not hasattr(unfitted, "cv_results_")
    assert len(pickle.dumps(found)) < 60_000
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict_proba(X_VAL), found.predict_proba(X_VAL))
    assert same(again.cv_results_, found.cv_results_)
    assert again.get_study().best_params == found.best_params_
    scores = cross_val_score(search(n_trials=1), X, Y, cv=2)
    assert np.isfinite(scores).all()
    assert found.refit_time_ > 0
    with pytest.raises(ValueError, match="'measure' must be one of 'accuracy'; got 'f1'"):
        found.get_study("f1")
    assert found.n_trials_ == 2
    assert found.scorer_(found, X_VAL, Y_VAL) == found.score(X_VAL, Y_VAL)


def test_callbacks_of_ones_own_stay_and_no_other_is_left():
    own = EpochScoring("accuracy", name="own", on_train=True)
    estimator = classifier(callbacks=[("own", own)], device="cpu")
    found = search(estimator, n_trials=1).fit(X, Y)
    assert [name for name, _ in found.best_estimator_.callbacks] == ["own"]
    assert len(found.best_estimator_.history_[:, "own"]) == 3
    names = [name for name, _ in found.best_estimator_.net_.callbacks_]
    assert "sktransfer_search" not in names


def test_a_search_is_measured_in_one_pass(monkeypatch):
    found = search(n_trials=1).fit(X, Y)
    passes, plain = [], FineTuneClassifier._outputs
    monkeypatch.setattr(
        FineTuneClassifier, "_outputs", lambda self, X: passes.append(1) or plain(self, X)
    )
    evaluate(found, X, Y, get_measures(["accuracy", "neg_log_loss"]))
    assert len(passes) == 1


def test_without_refit():
    found = search(n_trials=2, refit=False).fit(X, Y)
    assert found.best_params_ in list(found.cv_results_["params"])
    for name in ("predict", "predict_proba", "score", "classes_", "best_estimator_"):
        assert not hasattr(found, name)
    with pytest.raises(AttributeError, match="predict") as caught:
        found.predict(X)
    assert "refit=False" in str(caught.value.__cause__)
    # What an earlier fit has left does not stay.
    found.set_params(refit=True).fit(X, Y).set_params(refit=False).fit(X, Y)
    assert not hasattr(found, "best_estimator_")


def test_networks_of_trials_are_let_go(monkeypatch):
    networks, plain = weakref.WeakSet(), FineTuneModule.__init__

    def counted(self, *arguments, **named):
        plain(self, *arguments, **named)
        networks.add(self)

    monkeypatch.setattr(FineTuneModule, "__init__", counted)
    most = []

    def measure(estimator, X, y):
        most.append(len(networks))
        return float(len(most))

    found = search(n_trials=4, cv=2, scoring=measure).fit(X, Y)
    gc.collect()
    assert len(networks) == 1
    assert max(most) <= 3  # not all of them until Python looks for circles
    assert found.best_index_ == 3


def test_progress():
    class Diary:
        max_estimator_depth = None
        max_propagation_depth = 0

        def __init__(self):
            self.lines = []

        def setup(self, estimator, context):
            self.lines.append("setup")

        def teardown(self, estimator, context):
            self.lines.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            self.lines.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context):
            self.lines.append(("end", context.task_name))

    diary = Diary()
    search(n_trials=2, cv=2).set_callbacks(diary).fit(X, Y)
    inside = [("begin", "split 0"), ("end", "split 0"), ("begin", "split 1"), ("end", "split 1")]
    trials = [
        line
        for number in range(2)
        for line in [("begin", f"trial {number}"), *inside, ("end", f"trial {number}")]
    ]
    whole = [("begin", "search by accuracy"), *trials, ("end", "search by accuracy")]
    whole += [("begin", "refit by accuracy"), ("end", "refit by accuracy")]
    assert diary.lines == ["setup", ("begin", "fit"), *whole, ("end", "fit"), "teardown"]


def test_progress_bar(capsys):
    pytest.importorskip("rich")
    bar = ProgressBar(max_propagation_depth=None)
    shown = search(n_trials=2).set_callbacks(bar).fit(X, Y)
    assert same(shown.cv_results_, search(n_trials=2).fit(X, Y).cv_results_)
    assert "trial 1" in capsys.readouterr().out


# -- inputs ----------------------------------------------------------------------------------------


DIGITS = load_digits_target()


@pytest.mark.parametrize("judged", ["held out", "given"])
def test_kinds_of_data(judged, tmp_path):
    from PIL import Image

    images, labels = DIGITS.images_train[:40], DIGITS.y_train[:40]
    paths = [str(tmp_path / f"{i}.png") for i in range(40)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    tensor = torch.from_numpy(images)
    items = TensorDataset(tensor[:, None], torch.from_numpy(labels))
    estimator = FineTuneClassifier(
        TinyZooBackbone("letters_half"), train="head", max_epochs=2, random_state=0
    )

    def fit(X, y, val):
        found = search(estimator, {"head_lr": (1e-2, 1.0)}, n_trials=1, scoring="neg_log_loss")
        given = {"X_val": val[0], "y_val": val[1]} if judged == "given" else {}
        return found.fit(X, y, **given).cv_results_["mean_test_score"][0]

    expected = fit(images, labels, (images, labels))
    assert -20 < expected < 0
    assert fit(paths, labels, (paths, labels)) == expected
    assert fit(np.array(paths), labels.tolist(), (paths, labels)) == expected
    assert fit(tensor, labels, (tensor, labels)) == expected
    assert fit(items, None, (items, None)) == expected
    assert fit(list(zip(images, labels, strict=True)), labels, (items, labels)) == expected


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(6)])
    found = search(n_trials=1).fit(frame, pandas.Series(Y))
    assert found.feature_names_in_.tolist() == frame.columns.tolist()
    assert same(found.cv_results_, search(n_trials=1).fit(X, Y).cv_results_)
    named = search(n_trials=1).fit(frame, Y)
    assert not hasattr(named.fit(X, Y), "feature_names_in_")


def test_any_transformer_as_a_backbone():
    from sklearn.decomposition import PCA

    estimator = FineTuneClassifier(PCA(3), train="head", max_epochs=3)
    found = search(estimator, {"backbone__n_components": (1, 5)}, n_trials=7).fit(X, Y)
    assert (
        found.best_estimator_.backbone.n_components == found.best_params_["backbone__n_components"]
    )
    assert found.best_estimator_.backbone.random_state is not None
    assert estimator.backbone.n_components == 3
    assert estimator.backbone.random_state is None


def test_time_that_is_up():
    found = search(n_trials=50, timeout=0, scoring=["accuracy", "neg_log_loss"]).fit(X, Y)
    assert found.cv_results_["trial"].tolist() == [0, 0]


# -- failures --------------------------------------------------------------------------------------

FAILING = {"backbone": [TorchBackbone(Plain), TorchBackbone(Plain, layer="nowhere")]}


def test_trials_that_fail_cost_only_themselves():
    found = search(space=FAILING, n_trials=8, sampler="random")
    with pytest.warns(TrialFailedWarning, match="of 8 trials failed, and their score is nan: tri"):
        found.fit(X, Y)
    results = found.cv_results_
    failed = results["state"] == "failed"
    layers = np.array([backbone.layer for backbone in results["param_backbone"]])
    np.testing.assert_array_equal(failed, layers == "nowhere")
    assert 0 < failed.sum() < 8
    assert np.isnan(results["mean_test_score"][failed]).all()
    assert all("nowhere" in reason for reason in results["reason"][failed])
    assert not any(results["reason"][~failed])
    assert found.best_params_["backbone"].layer == "penultimate"


def test_a_number_for_failures():
    found = search(space=FAILING, n_trials=8, sampler="random", error_score=-1)
    with pytest.warns(TrialFailedWarning, match="their score is -1"):
        found.fit(X, Y)
    failed = found.cv_results_["state"] == "failed"
    assert (found.cv_results_["mean_test_score"][failed] == -1).all()
    assert (
        found.cv_results_["rank_test_score"][failed].tolist() == [9 - failed.sum()] * failed.sum()
    )
    states = [trial.state.name for trial in found.get_study().trials]
    assert states == ["COMPLETE"] * 8


def test_failures_that_end_the_search():
    with pytest.raises(ValueError, match="nowhere") as caught:
        search(space=FAILING, n_trials=8, sampler="random", error_score="raise").fit(X, Y)
    assert "of the search by 'accuracy'" in caught.value.__notes__[0]
    nowhere = {"backbone__layer": ["nowhere"]}
    with pytest.raises(
        ValueError, match=r"No trial of 2 by 'accuracy' was completed. All failed: "
    ):
        search(space=nowhere, n_trials=2).fit(X, Y)
    # What is wrong with every trial is said before the first one.
    with pytest.raises(ValueError, match="^The 'layer' parameter names a layer 'nowhere'"):
        search(classifier().set_params(**{"backbone__layer": "nowhere"}), n_trials=2).fit(X, Y)

    class All(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return True

    with pytest.raises(ValueError, match="No trial of 2 .* 2 were pruned, others failed: none"):
        search(n_trials=2, pruner=All()).fit(X, Y)


class Exploding(nn.Module):
    """Its features are infinite long before its weights are."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.classifier = nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier(torch.exp(self.hidden(x)))


def test_outputs_that_are_not_finite_have_no_measure():
    space, options = {"lr": [1e-3, 1e3]}, {"sampler": "random", "scoring": "neg_log_loss"}
    estimator = classifier(batch_size=128).set_params(backbone__module=Exploding)
    failures = pytest.warns(TrialFailedWarning, match="gives NaN or infinite values")
    with failures, pytest.warns(NotConvergedWarning):
        failed = search(estimator, space, n_trials=6, **options).fit(X, Y)
    large = failed.cv_results_["param_lr"] == 1e3
    assert 0 < large.sum() < 6
    np.testing.assert_array_equal(failed.cv_results_["state"] == "failed", large)
    # Once there is something to compare with, such a trial is not carried through.
    pruner = optuna.pruners.MedianPruner(n_startup_trials=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optuna.samplers, "RandomSampler", lambda seed: Turns(seed))
        pruned = search(estimator, space, n_trials=2, pruner=pruner, **options).fit(X, Y)
    assert pruned.cv_results_["state"].tolist() == ["complete", "pruned"]
    assert list(pruned.get_study().trials[1].intermediate_values) == [1]
    assert np.isnan(pruned.get_study().trials[1].intermediate_values[1])


class Turns(optuna.samplers.BaseSampler):
    """Takes one choice after the other."""

    def __init__(self, seed):
        pass

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        return param_distribution.choices[trial.number]


def test_training_that_diverges_is_seen_in_the_table():
    space = {"lr": (1e36, 1e37, "log")}
    estimator = classifier(train="staged", head_epochs=1)
    with pytest.warns(NotConvergedWarning):
        found = search(estimator, space, n_trials=2).fit(X, Y)
    assert not found.cv_results_["converged"].any()
    assert found.cv_results_["state"].tolist() == ["complete", "complete"]
