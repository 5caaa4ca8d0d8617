"""Searches in a file: killed and gone on with to the same result, continued, refused."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

from filelock import FileLock
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from skorch.callbacks import Callback
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import OtherVersionsWarning
from sktransfer.finetune import FineTuneClassifier, FineTuneSearchCV

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
SPACE = {"lr": (1e-4, 1e-1, "log")}


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.classifier = nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier(torch.relu(self.hidden(x)))


class Other(Plain):
    pass


def search(storage, estimator=None, space=SPACE, **parameters):
    estimator = estimator or FineTuneClassifier(TorchBackbone(Plain), max_epochs=2)
    parameters = {"n_trials": 2, "random_state": 0, "scoring": "neg_log_loss"} | parameters
    return FineTuneSearchCV(estimator, space, storage=storage, **parameters)


def found_out(search):
    results = search.cv_results_.items()
    return repr({k: np.asarray(v).tolist() for k, v in results if not k.endswith("_time")})


def trials_in(path, measure="neg_log_loss", name="search"):
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    try:
        return storage.get_all_trials(storage.get_study_id_from_name(f"{name}/{measure}"))
    finally:
        storage.remove_session()
        storage.engine.dispose()


# -- killed ----------------------------------------------------------------------------------------


def test_killed_again_and_again_it_comes_to_the_same_result(tmp_path):
    program = Path(__file__).with_name("search_killed.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, program, tmp_path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    n_killed, killed = outcome["killed"]
    assert n_killed >= 5
    n_not_killed, whole = outcome["whole"]
    assert n_not_killed == 0
    assert killed == whole
    assert "'pruned'" in whole  # or nothing would be seen of the pruner's memory
    for measure in ("neg_log_loss", "accuracy"):
        trials = [trials_in(tmp_path / f"{name}.db", measure) for name in ("killed", "whole")]
        for one, other in zip(*trials, strict=True):
            assert one.state.is_finished()
            assert (one.number, one.params, one.values) == (
                other.number,
                other.params,
                other.values,
            )
            assert one.intermediate_values == other.intermediate_values


def test_an_interrupted_search_goes_on_with_the_trial_that_was_interrupted(tmp_path, monkeypatch):
    options = {"n_trials": 13, "pruner": None, "refit": False}
    trained, plain = [], FineTuneClassifier.fit

    def fit(self, *arguments, **named):
        trained.append((self.lr, self.random_state))
        if len(trained) == 12:
            raise KeyboardInterrupt
        return plain(self, *arguments, **named)

    whole = search(None, **options).fit(X, Y)
    monkeypatch.setattr(FineTuneClassifier, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "trials.db", **options).fit(X, Y)
    assert [trial.number for trial in trials_in(tmp_path / "trials.db")] == list(range(11))
    rest = search(tmp_path / "trials.db", **options).fit(X, Y)
    assert found_out(rest) == found_out(whole)
    assert trained[12] == trained[11]
    assert [lr for lr, _ in trained[:11] + trained[12:]] == whole.cv_results_["param_lr"].tolist()


# -- continued -------------------------------------------------------------------------------------


def test_more_trials_and_fewer(tmp_path):
    path = str(tmp_path / "trials.db")
    whole = search(None, n_trials=11).fit(X, Y)
    first = search(path, n_trials=3).fit(X, Y)
    assert found_out(first) == found_out(search(None, n_trials=3).fit(X, Y))
    more = search(tmp_path / "trials.db", n_trials=11).fit(X, Y)
    assert found_out(more) == found_out(whole)
    np.testing.assert_array_equal(more.predict_proba(X), whole.predict_proba(X))
    # Those that are there are not run again: their times are the same too.
    assert (
        more.cv_results_["mean_fit_time"][:3].tolist()
        == first.cv_results_["mean_fit_time"].tolist()
    )
    fewer = search(f"sqlite:///{path}", n_trials=3).fit(X, Y)
    assert found_out(fewer) == found_out(first)
    assert len(trials_in(path)) == 11


def test_it_is_a_storage_of_optuna(tmp_path):
    found = search(tmp_path / "trials.db", n_trials=3).fit(X, Y)
    study = optuna.load_study(
        study_name="search/neg_log_loss", storage=f"sqlite:///{tmp_path / 'trials.db'}"
    )
    assert study.best_params == found.best_params_
    assert study.best_value == found.best_score_
    seconds = found.cv_results_["mean_fit_time"] + found.cv_results_["mean_score_time"]
    durations = [trial.duration.total_seconds() for trial in study.trials]
    assert durations == pytest.approx(seconds, abs=1e-5)
    study._storage._backend.engine.dispose()


def test_any_place_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "50 % {of}?x=1#y.db"
    found = search(path, n_trials=1).fit(X, Y)
    assert path.is_file()
    assert len(trials_in(path.rename("plain.db"))) == 1
    for place in ("plain.db", "~/plain.db", "sqlite:///plain.db"):
        assert found_out(search(place, n_trials=1).fit(X, Y)) == found_out(found)
    in_memory = search("sqlite://", n_trials=1).fit(X, Y)
    assert found_out(in_memory) == found_out(found)


def test_nothing_stays_open(tmp_path):
    found = search(tmp_path / "trials.db").fit(X, Y)
    if os.path.isdir("/proc/self/fd"):
        opened = []
        for number in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # closed since, such as that of the list itself
                opened.append(os.readlink(f"/proc/self/fd/{number}"))
        assert opened
        assert not [path for path in opened if str(tmp_path) in path]
    assert found is not None


def test_a_seed_that_was_drawn_is_kept(tmp_path):
    path = tmp_path / "trials.db"
    first = search(path, random_state=None).fit(X, Y)
    again = search(path, random_state=None, n_trials=3).fit(X, Y)
    assert again.seed_ == first.seed_
    assert found_out(again) == found_out(
        search(None, random_state=first.seed_, n_trials=3).fit(X, Y)
    )


def test_what_makes_no_difference(tmp_path):
    path = tmp_path / "trials.db"
    backbone = TorchBackbone(Plain)
    first = search(path, FineTuneClassifier(backbone, max_epochs=2)).fit(X, Y)
    backbone.fit(X)
    estimator = FineTuneClassifier(backbone, max_epochs=2, n_workers=1, cache=False, verbose=0)
    again = search(path, estimator, verbose=0, n_jobs=1, timeout=1e9, refit="neg_log_loss")
    assert found_out(again.fit(np.asfortranarray(X), Y.tolist())) == found_out(first)


def test_searches_side_by_side_in_one_file(tmp_path):
    path = tmp_path / "trials.db"
    first = search(path).fit(X, Y)
    other = search(path, study_name="other", random_state=1).fit(X, Y)
    assert found_out(first) != found_out(other)
    assert found_out(search(path).fit(X, Y)) == found_out(first)
    assert len(trials_in(path, name="other")) == 2


def test_trials_of_every_kind_are_kept(tmp_path):
    from sktransfer.exceptions import TrialFailedWarning

    space = {
        "backbone": [TorchBackbone(Plain), TorchBackbone(Plain, layer="nowhere")],
        "class_weight": [None, "balanced", {0: 2.0}],
        "max_epochs": (1, 3),
        "lr": (1e-4, 1.0),
    }
    halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    options = {
        "space": space,
        "n_trials": 9,
        "cv": 2,
        "refit": False,
        "pruner": halving,
        "sampler": "random",
    }
    for error_score in (np.nan, -5.0):
        path, options["error_score"] = tmp_path / f"{error_score}.db", error_score
        with pytest.warns(TrialFailedWarning):
            kept = search(path, **options).fit(X, Y)
        with pytest.warns(TrialFailedWarning):
            read = search(path, **options).fit(X, Y)
        assert set(kept.cv_results_["state"]) == {"complete", "pruned", "failed"}
        for column, values in kept.cv_results_.items():
            if column not in ("params", "param_backbone"):  # these are not compared by content
                np.testing.assert_array_equal(values, read.cv_results_[column])
        assert repr(kept.cv_results_["params"]) == repr(read.cv_results_["params"])


# -- refused ---------------------------------------------------------------------------------------

OTHER_X = np.where(np.arange(6) == 3, X + 1e-6 * (np.arange(40) == 7)[:, None], X)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "trials.db"
    search(path, n_trials=1, refit=False).fit(X, Y)
    return path


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": (OTHER_X, Y)}, "differs in X. Use"),
        ({"data": (X, 1 - Y)}, "differs in y. Use"),
        ({"data": (X, Y, np.arange(40) + 1.0)}, "differs in sample_weight. Use"),
        ({"random_state": 1}, r"the rows of the splits, random_state \(1 here, 0 there\). Use"),
        ({"cv": 2}, "differs in the rows of the splits. Use"),
        ({"scoring": "accuracy"}, "differs in scoring, the measure 'accuracy' .'accuracy' here"),
        ({"space": {"lr": (1e-4, 1e-2, "log")}}, r"differs in param_distributions\['lr'\]. Use"),
        ({"space": {"head_lr": (1e-4, 1e-1, "log")}}, "the names in param_distributions"),
        ({"sampler": "random"}, r"differs in sampler \('random' here, 'tpe' there\). Use"),
        ({"pruner": None}, r"differs in pruner \(None here, 'median' there\). Use"),
        ({"pruner": optuna.pruners.NopPruner()}, "differs in pruner. Use"),
        ({"error_score": -1}, "differs in error_score"),
        ({"estimator__max_epochs": 3}, r"estimator__max_epochs \(3 here, 2 there\). Use"),
        ({"estimator__backbone__layer": "hidden"}, "estimator__backbone__layer"),
        ({"estimator__backbone__module": Other}, "differs in estimator__backbone__module. Use"),
        ({"estimator__class_weight": {0: 2.0}}, "differs in estimator__class_weight. Use"),
        ({"given": True}, "X_val, y_val, the rows of the splits"),
    ],
)
def test_another_search_is_refused(kept, change, named):
    change = dict(change)
    data = change.pop("data", (X, Y))
    given = {"X_val": X, "y_val": Y} if change.pop("given", False) else {}
    nested = {name: change.pop(name) for name in list(change) if name.startswith("estimator__")}
    other = search(kept, n_trials=1, refit=False, **change).set_params(**nested)
    before = kept.read_bytes()
    start = "belongs to another search: under the name 'search' it holds one that "
    with pytest.raises(ValueError, match=f"{start}.*{named}"):
        other.fit(*data, **given)
    assert kept.read_bytes() == before


def test_weights_of_a_network_are_told_apart(tmp_path):
    network = Plain()
    path = tmp_path / "trials.db"
    estimator = FineTuneClassifier(TorchBackbone(network), max_epochs=1)
    search(path, estimator, n_trials=1, refit=False).fit(X, Y)
    search(path, estimator, n_trials=1, refit=False).fit(X, Y)
    with torch.no_grad():
        network.hidden.weight[0, 0] += 1e-3
    with pytest.raises(ValueError, match="differs in estimator__backbone__module. Use"):
        search(path, estimator, n_trials=1, refit=False).fit(X, Y)


def test_what_a_frozen_transformer_has_learned_counts(tmp_path):
    def frozen(rows):
        pca = FrozenEstimator(PCA(2, random_state=0).fit(X[rows]))
        return FineTuneClassifier(pca, train="head", max_epochs=1)

    path, options = tmp_path / "trials.db", {"n_trials": 1, "refit": False, "space": None}
    search(path, frozen(slice(30)), **options).fit(X, Y)
    search(path, frozen(slice(30)), **options).fit(X, Y)
    with pytest.raises(ValueError, match="differs in estimator__backbone. Use"):
        search(path, frozen(slice(20)), **options).fit(X, Y)


def test_callables_are_told_apart(tmp_path):
    def first(estimator, X, y):
        return float(estimator.predict_proba(X)[:, 0].mean())

    def second(estimator, X, y):
        return float(estimator.predict_proba(X)[:, 1].mean())

    path = tmp_path / "trials.db"
    options = {"n_trials": 1, "refit": False}
    search(path, scoring={"own": first}, **options).fit(X, Y)
    search(path, scoring={"own": first}, **options).fit(X, Y)
    with pytest.raises(ValueError, match="differs in the measure 'own'. Use"):
        search(path, scoring={"own": second}, **options).fit(X, Y)
    callback = Callback()
    callback.numbers = (number for number in range(3))
    estimator = FineTuneClassifier(TorchBackbone(Plain), max_epochs=1, callbacks=[callback])
    with pytest.raises(ValueError, match="must know itself again .* 'estimator__callbacks' holds"):
        search(path, estimator, study_name="other", **options).fit(X, Y)


def test_other_versions_are_announced(kept, tmp_path):
    path = tmp_path / "older.db"
    path.write_bytes(kept.read_bytes())
    with sqlite3.connect(path) as connection:
        sql = "update study_user_attributes set value_json = replace(value_json, ?, ?)"
        connection.execute(sql, (f'"optuna": "{optuna.__version__}"', '"optuna": "1"'))
    connection.close()
    with pytest.warns(OtherVersionsWarning, match=rf"optuna 1 \(now {optuna.__version__}\)"):
        search(path, n_trials=1, refit=False).fit(X, Y)


def test_what_is_no_storage_of_a_search(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("These are no trials, and this is no database. " * 20)
    with pytest.raises(ValueError, match="text.db', which can't be opened as a database of Optuna"):
        search(text).fit(X, Y)
    with pytest.raises(ValueError, match="its folder '.*nowhere' does not exist"):
        search(tmp_path / "nowhere" / "trials.db").fit(X, Y)
    with pytest.raises(ValueError, match="must be the path of a file, or a URL of SQLAlchemy's"):
        search("://nothing").fit(X, Y)
    with pytest.raises(
        ValueError, match="is 'none://me:\\*\\*\\*@here/trials', which can't be opened"
    ):
        search("none://me:secret@here/trials").fit(X, Y)
    path = tmp_path / "own.db"
    own = optuna.create_study(study_name="search/neg_log_loss", storage=f"sqlite:///{path}")
    own.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=1)
    own._storage._backend.engine.dispose()
    with pytest.raises(ValueError, match="that was not made by FineTuneSearchCV"):
        search(path).fit(X, Y)


@pytest.mark.parametrize("how", ["text", "cut", "pages", "values", "nothing of Optuna's"])
def test_damage_is_told_in_one_sentence(kept, tmp_path, how):
    path = tmp_path / "damaged.db"
    content = bytearray(kept.read_bytes())
    if how == "text":
        content = bytearray(b"no database at all " * 200)
    elif how == "cut":
        content = content[: len(content) // 3]
    elif how == "pages":
        content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    if how == "values":
        with sqlite3.connect(path) as connection:
            connection.execute("update study_user_attributes set value_json = '{\"cut'")
        connection.close()
    elif how == "nothing of Optuna's":
        with sqlite3.connect(path) as connection:
            connection.execute("drop table trials")
        connection.close()
    with pytest.raises(ValueError, match="'storage' is .*damaged.db', which can't be op") as raised:
        search(path).fit(X, Y)
    told = str(raised.value)
    assert "\n" not in told and "SQL:" not in told and "http" not in told and len(told) < 400


def test_trials_of_someone_else_are_not_taken_for_its_own(kept, tmp_path):
    path = tmp_path / "mixed.db"
    path.write_bytes(kept.read_bytes())
    study = optuna.load_study(study_name="search/neg_log_loss", storage=f"sqlite:///{path}")
    study.optimize(lambda trial: trial.suggest_float("lr", 1e-4, 1e-1, log=True), n_trials=1)
    study._storage._backend.engine.dispose()
    with pytest.raises(ValueError, match="has trials that were not run by FineTuneSearchCV"):
        search(path).fit(X, Y)


def test_one_process_at_a_time(tmp_path):
    path = tmp_path / "trials.db"
    search(path, n_trials=1, refit=False).fit(X, Y)
    (lock,) = [p for p in tmp_path.iterdir() if p.name.count(".") == 3]
    with FileLock(lock), pytest.raises(ValueError, match="Another process is at work on the sear"):
        search(path, n_trials=1, refit=False).fit(X, Y)
    with FileLock(lock):
        search(path, n_trials=1, refit=False, study_name="other").fit(X, Y)


def test_another_writer_is_noticed(tmp_path):
    # Databases on a server have no lock.
    path = tmp_path / "trials.db"

    class Intruder:
        done = False

        def __call__(self, estimator, X, y):
            if not self.done:
                self.done = True
                with sqlite3.connect(path) as connection:
                    connection.execute(
                        "insert into trials (study_id, number, state) values (1, 0, 'RUNNING')"
                    )
                connection.close()
            return 0.5

        def __reduce__(self):
            return Intruder, ()

    with pytest.raises(RuntimeError, match="Trial 0 .* as number 1: another process writes there"):
        search(path, scoring={"own": Intruder()}, refit=False).fit(X, Y)
