"""Extracted features kept between fits: found again if nothing changed, and only then."""

import logging
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from joblib import Memory
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sktransfer
from sktransfer.backbones import FeatureStore, _store_candidate
from sktransfer.exceptions import CacheNotWrittenWarning, DamagedCacheWarning
from sktransfer.model_selection import TransferabilitySelector, _joblib_cache

X, Y = load_iris(return_X_y=True)


class Net(TransformerMixin, BaseEstimator):
    stateless = True
    n_run = 0

    def __init__(self, gain=1.0):
        self.gain = gain

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        Net.n_run += len(X)
        return np.tanh(np.asarray(X) * self.gain)

    def extract(self, X):
        features = self.transform(X)
        return features, np.abs(features) / np.abs(features).sum(axis=1, keepdims=True)


class Learner(Net):
    stateless = False

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return super().fit(X, y)


class Reader(Net):
    def transform(self, X):
        Net.n_run += len(X)
        return np.array([[len(Path(path).read_text()), len(str(path))] for path in X], dtype=float)


class Length(Net):
    def transform(self, X):
        Net.n_run += len(X)
        return np.array([[len(word)] for word in X], dtype=float)


@pytest.fixture(autouse=True)
def none_run():
    Net.n_run = 0


def n_run(function, *arguments):
    """How many samples a call ran through networks."""
    before = Net.n_run
    function(*arguments)
    return Net.n_run - before


def memory_of(kind, path):
    return Memory(path, verbose=0) if kind is Memory else kind(path)


KINDS = [str, Path, FeatureStore, Memory]


def test_a_second_fit_runs_no_network(tmp_path):
    memory = Memory(tmp_path, verbose=0)
    given = [("net", Net()), ("learner", Learner(0.5)), ("pipe", make_pipeline(Net(2.0), PCA(2)))]
    plain = TransferabilitySelector(given, ["logme", "leep"][:1], cv=3).fit(X, Y)
    first = TransferabilitySelector(given, cv=3, memory=memory)
    assert n_run(first.fit, X, Y) == 150 + 2 * (150 + 300)
    again = TransferabilitySelector(given, cv=3, memory=memory)
    assert n_run(again.fit, X.copy(), Y.copy()) == 0
    assert plain.scores_ == first.scores_ == again.scores_
    np.testing.assert_allclose(again.candidates_.learner.mean_, X.mean(axis=0))
    np.testing.assert_array_equal(again.transform(X), first.transform(X))
    # another number of splits runs only what must be fitted anew; another metric, nothing
    assert n_run(again.set_params(cv=None).fit, X, Y) == 0
    assert n_run(again.set_params(metric=["hscore", "logme"]).fit, X, Y) == 0


@pytest.mark.parametrize("kind", [str, Path, FeatureStore])
def test_a_store_keeps_what_learns_nothing(tmp_path, kind):
    given = [("net", Net()), ("learner", Learner(0.5)), ("pipe", make_pipeline(Net(2.0), PCA(2)))]
    plain = TransferabilitySelector(given, cv=3).fit(X, Y)
    first = TransferabilitySelector(given, cv=3, memory=kind(tmp_path))
    learning = 2 * (150 + 300)
    assert n_run(first.fit, X, Y) == 150 + learning
    assert first.cv_results_["from_store"].tolist() == [False] * 3
    again = clone(first)
    assert n_run(again.fit, X.copy(), Y.copy()) == learning  # fitted anew: their state is no array
    assert plain.scores_ == first.scores_ == again.scores_
    assert again.cv_results_["from_store"].tolist() == [True, False, False]
    assert again.cv_results_["rows_extracted"].tolist() == [0, 450, 450]
    np.testing.assert_array_equal(again.transform(X), first.transform(X))
    assert n_run(again.set_params(cv=None, metric=["hscore", "logme"]).fit, X, Y) == 300
    assert [entry.candidate for entry in FeatureStore(tmp_path).entries()] == ["net"]


def test_results_count_rows_without_a_memory():
    table = TransferabilitySelector([("net", Net()), ("l", Learner())], cv=3).fit(X, Y).cv_results_
    assert table["rows_extracted"].tolist() == [150, 450]
    assert table["from_store"].tolist() == [False, False]


def test_a_joblib_memory_counts_too(tmp_path):
    memory = Memory(tmp_path, verbose=0)
    for expected in (False, True):
        selector = TransferabilitySelector([("n", Net()), ("l", Learner())], cv=2, memory=memory)
        table = selector.fit(X, Y).cv_results_
        assert table["from_store"].tolist() == [expected] * 2
        assert table["rows_extracted"].tolist() == ([0, 0] if expected else [150, 300])


@pytest.mark.parametrize("kind", KINDS)
def test_fit_transform_finds_the_features_too(tmp_path, kind):
    selector = TransferabilitySelector([("net", Net())], memory=memory_of(kind, tmp_path))
    features = selector.fit_transform(X, Y)
    assert n_run(selector.fit_transform, X, Y) == 0
    again = selector.fit_transform(X, Y)
    np.testing.assert_array_equal(again, features)
    again[:] = 0  # one's own, not the store's
    np.testing.assert_array_equal(selector.fit_transform(X, Y), features)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_changes_is_run_again(tmp_path, kind):
    memory = memory_of(kind, tmp_path)

    def runs(candidate=None, data=X, y=Y, **params):
        given = [("net", Net() if candidate is None else candidate)]
        return n_run(TransferabilitySelector(given, memory=memory, **params).fit, data, y)

    assert runs() == 150
    assert runs() == 0
    moved = X.copy()
    moved[7, 2] += 1e-9
    assert runs(data=moved) == 150
    assert runs(Net(gain=1.5)) == 150
    assert runs(data=X[:140], y=Y[:140]) == 140
    assert runs(data=X.astype(np.float32)) == 150
    # joblib keeps what was asked for, a store all that one pass gives
    assert runs(metric="leep") == (150 if kind is Memory else 0)
    assert runs(metric="leep") == 0
    assert runs() == 0
    if kind is not Memory:
        return
    assert runs(Learner()) == 150
    assert runs(Learner(), y=Y[::-1]) == 150  # it might learn from the labels
    assert runs(Learner()) == 0
    with sklearn.config_context(transform_output="pandas"):
        assert runs(Learner()) == 150


@pytest.mark.parametrize("kind", KINDS)
def test_a_fitted_frozen_candidate_is_known_by_its_weights(tmp_path, kind):
    memory = memory_of(kind, tmp_path)

    def runs(shift):
        frozen = FrozenEstimator(Learner().fit(X + shift))
        return n_run(TransferabilitySelector([("f", frozen)], memory=memory).fit, X, Y)

    assert [runs(0), runs(0), runs(1), runs(1)] == [150, 0, 150, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_version_does_not_trust_the_features_of_an_old_one(tmp_path, monkeypatch, kind):
    selector = TransferabilitySelector([("net", Net())], memory=memory_of(kind, tmp_path)).fit(X, Y)
    for module in (_joblib_cache, _store_candidate):
        assert module.__version__ == sktransfer.__version__
        monkeypatch.setattr(module, "__version__", "0.0.1")
    assert n_run(selector.fit, X, Y) == 150


def test_what_cannot_be_named_is_run_each_time(tmp_path):
    calls = []

    def shift(X):
        calls.append(len(X))
        return X - 1

    # pickle knows functions by name; a store reads what they do
    given = [("local", FunctionTransformer(lambda X: shift(X)))]
    TransferabilitySelector(given, memory=Memory(tmp_path, verbose=0)).fit(X, Y).fit(X, Y)
    assert calls == [150, 150]
    TransferabilitySelector(given, memory=tmp_path).fit(X, Y).fit(X, Y)
    assert calls == [150, 150, 150]

    numbers = (n for n in range(3))
    given = [("generator", FunctionTransformer(lambda X: shift(X) if numbers else X))]
    selector = TransferabilitySelector(given, memory=tmp_path)
    with pytest.warns(CacheNotWrittenWarning, match="'generator' are not kept"):
        selector.fit(X, Y).fit(X, Y)
    assert calls == [150] * 5


def test_data_that_cannot_be_named_are_run_each_time(tmp_path):
    class Stream:
        shape = (150, 4)

        def __init__(self):
            self.rows = (row for row in X)

        def __len__(self):
            return 150

        def __array__(self, dtype=None, copy=None):
            return X

    selector = TransferabilitySelector([("net", Net())], memory=tmp_path)
    with pytest.warns(CacheNotWrittenWarning, match="the data .* a generator has no state"):
        assert n_run(selector.fit, Stream(), Y) == 150
    assert not FeatureStore(tmp_path).entries()


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_change_are_read_again(tmp_path, kind):
    paths = []
    for i in range(20):
        paths.append(tmp_path / f"{'x' * (i % 4)}{i}.txt")
        paths[-1].write_text(str(i))

    y = np.arange(20) % 2
    memory = memory_of(kind, tmp_path / "cache")
    selector = TransferabilitySelector([("reader", Reader())], memory=memory)
    for data in (paths, [str(path) for path in paths], np.array([str(path) for path in paths])):
        selector.fit(data, y)
        assert n_run(selector.fit, data, y) == 0
        paths[3].write_text(paths[3].read_text() + "more")
        assert n_run(selector.fit, data, y) == 20


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_no_files_are_just_words(tmp_path, kind):
    words = ["a" * (1 + i % 3) + "\0" * (i == 5) for i in range(20)]

    memory = memory_of(kind, tmp_path)
    selector = TransferabilitySelector([("length", Length())], memory=memory)
    assert n_run(selector.fit, words, np.arange(20) % 2) == 20
    assert n_run(selector.fit, words, np.arange(20) % 2) == 0
    words[0] = "aaaa"
    assert n_run(selector.fit, words, np.arange(20) % 2) == 20


def test_failures_are_not_remembered(tmp_path):
    class Moody(Net):
        mood = "bad"

        def transform(self, X):
            if Moody.mood == "bad":
                raise OSError("disk full")
            return super().transform(X)

    selector = TransferabilitySelector([("moody", Moody())], memory=tmp_path)
    with pytest.raises(ValueError, match="disk full"):
        selector.fit(X, Y)
    Moody.mood = "good"
    assert np.isfinite(selector.fit(X, Y).best_score_)


@pytest.mark.parametrize("kind", [str, Path, FeatureStore])
def test_a_place_that_cannot_be_is_refused_before_any_work(tmp_path, kind):
    (tmp_path / "file").write_text("")
    for location in (tmp_path / "file" / "cache", tmp_path / "file", Path("nul\0l")):
        selector = TransferabilitySelector([("net", Net())], memory=kind(location))
        with pytest.raises(ValueError, match="'memory' parameter must be a folder that can be"):
            selector.fit(X, Y)
        assert Net.n_run == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_place_that_cannot_be_written_to_is_refused_before_any_work():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        is_root = os.geteuid() == 0
        if is_root:  # who may write anywhere
            os.seteuid(65534)
        try:
            with pytest.raises(ValueError, match=r"written to. Got '.*' instead \(Permission den"):
                TransferabilitySelector([("net", Net())], memory=folder).fit(X, Y)
        finally:
            if is_root:
                os.seteuid(0)
    assert Net.n_run == 0


@pytest.mark.parametrize("damage", [lambda b: b[:20], lambda b: b"", lambda b: b[: len(b) // 2]])
def test_damaged_features_are_extracted_again(tmp_path, damage):
    given = [("net", Net()), ("learner", Learner(0.5)), ("other", Net(2.0))]
    selector = TransferabilitySelector(given, memory=tmp_path)
    expected = selector.fit(X, Y).scores_
    files = sorted(tmp_path.rglob("features.npy"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(DamagedCacheWarning, match="are damaged and are extracted") as caught:
        assert n_run(selector.fit, X, Y) == 450
    assert sorted(str(w.message).split("'")[1] for w in caught) == ["net", "other"]
    assert all(str(tmp_path) in str(w.message) for w in caught)
    assert selector.scores_ == expected
    assert n_run(selector.fit, X, Y) == 150


def test_damaged_pickles_are_extracted_again(tmp_path, caplog):
    given = [("net", Net()), ("learner", Learner(0.5)), ("other", Net(2.0))]
    selector = TransferabilitySelector(given, memory=Memory(tmp_path, verbose=0))
    expected = selector.fit(X, Y).scores_
    entries = sorted(tmp_path.rglob("output.pkl"))
    assert len(entries) == 3
    for entry in entries[:2]:
        entry.write_bytes(entry.read_bytes()[:20])
    with (
        caplog.at_level(logging.WARNING),
        pytest.warns(DamagedCacheWarning, match="cannot be read and are extracted") as caught,
    ):
        assert n_run(selector.fit, X, Y) == 300
    assert len(caught) == 1
    assert str(tmp_path) in str(caught[0].message)
    assert caplog.records == []
    assert selector.scores_ == expected
    assert n_run(selector.fit, X, Y) == 0


def test_any_object_with_a_method_cache_is_a_memory():
    kept = {}

    def cache(function, ignore):
        def cached(key, work):
            if key not in kept:
                kept[key] = function(key, work)
            return kept[key]

        return cached

    selector = TransferabilitySelector([("net", Net())], memory=SimpleNamespace(cache=cache))
    assert n_run(selector.fit, X, Y) == 150
    assert n_run(selector.fit, X, Y) == 0


def test_networks_that_cannot_be_pickled_are_run_each_time(tmp_path):
    nn = pytest.importorskip("torch.nn")
    from sktransfer.backbones import TorchBackbone

    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)), nn.Linear(6, 3))
    plain = TransferabilitySelector([("net", TorchBackbone(net))]).fit(X, Y)
    memory = Memory(tmp_path, verbose=0)
    kept = TransferabilitySelector([("net", TorchBackbone(net))], memory=memory).fit(X, Y)
    assert plain.scores_ == kept.scores_
    # a store needs no pickle
    for expected in (False, True):
        kept = TransferabilitySelector([("net", TorchBackbone(net))], memory=tmp_path).fit(X, Y)
        assert kept.cv_results_["from_store"].tolist() == [expected]
        assert plain.scores_ == kept.scores_


def test_torch_modules_are_known_by_their_weights(tmp_path):
    torch = pytest.importorskip("torch")
    from sktransfer.backbones import TorchBackbone

    data = X.astype(np.float32)

    def module(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            body = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
            return torch.nn.Sequential(body, torch.nn.Linear(6, 3))

    def key(net):
        return _joblib_cache.content_key(TorchBackbone(net))

    assert key(module(0)) == key(module(0)) != key(module(1))
    nudged = module(0)
    with torch.no_grad():
        nudged[1].bias[0] += 1e-6
    assert key(nudged) != key(module(0))
    assert key(module(0).bfloat16()) != key(module(0))

    selector = TransferabilitySelector([("net", TorchBackbone(module(0)))], memory=tmp_path)
    first = selector.fit(data, Y).best_score_

    def forbidden(*arguments):
        raise AssertionError("a forward pass over the data")

    second = TransferabilitySelector([("net", TorchBackbone(module(0)))], memory=tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for method in ("transform", "extract", "_iterate"):
            patch.setattr(TorchBackbone, method, forbidden)
        assert second.fit(data, Y).best_score_ == first


def test_an_empty_name_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    selector = TransferabilitySelector([("net", Net())], memory="")
    with pytest.raises(ValueError, match="'memory' parameter must be a folder.*an empty name"):
        selector.fit(X, Y)
    assert list(tmp_path.iterdir()) == []
