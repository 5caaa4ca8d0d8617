"""The feature store: finds what is the same, and only that; survives whatever happens to it."""

import collections
import contextlib
import enum
import functools
import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from sktransfer.backbones import FeatureStore
from sktransfer.backbones import _store_growing as growing
from sktransfer.exceptions import (
    CacheBusyWarning,
    CacheNotWrittenWarning,
    DamagedCacheWarning,
    StaleCacheWarning,
)

X = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
ROOT = Path(__file__).parents[2]


class Network(TransformerMixin, BaseEstimator):
    """What a backbone of torch shows to the store, without torch."""

    stateless = True
    n_run = 0

    def __init__(self, weight=1.0, batch_size=8, forward=np.tanh):
        self.weight = weight
        self.batch_size = batch_size
        self.forward = forward

    def fit(self, X, y=None):
        self.probe_features_ = self._features(X[:2])
        return self

    def _features(self, X):
        return self.forward(np.asarray(X, dtype=np.float32) * np.float32(self.weight))

    def iter_extract(self, X, start=0):
        for first in range(start, len(X), self.batch_size):
            rows = slice(first, min(first + self.batch_size, len(X)))
            Network.n_run += rows.stop - rows.start
            features = self._features(X[rows])
            yield rows, features, np.abs(features[:, :3]) / 3

    def extract(self, X):
        parts = list(self.iter_extract(X))
        return tuple(np.concatenate([part[place] for part in parts]) for place in (1, 2))

    def transform(self, X):
        return self._features(X)

    def fingerprint(self):
        return f"network {self.weight}"


class Plain(TransformerMixin, BaseEstimator):
    """A transformer of one's own that knows nothing of stores."""

    stateless = True
    n_run = 0

    def __init__(self, gain=2.0, table=None):
        self.gain = gain
        self.table = table

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        Plain.n_run += len(X)
        return np.asarray(X) * self.gain

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.fixture
def store(tmp_path):
    return FeatureStore(tmp_path / "store")


@pytest.fixture(autouse=True)
def none_run(monkeypatch):
    Network.n_run = Plain.n_run = 0
    monkeypatch.setattr(growing, "SECONDS_PER_CHUNK", 0.0)
    monkeypatch.setattr(growing, "_CHUNKS_PER_CONFIRMATION", 0)


def runs(store, candidate, data=X, **options):
    """Number of rows that one extraction ran."""
    return store.extract(candidate.fit(data, None), data, **options).n_rows_run


def python(code, *arguments, **options):
    """Run code in another process that knows this module as `made`."""
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    start += "import test_store as made\nfrom sktransfer.backbones import FeatureStore\n"
    start += "made.growing.SECONDS_PER_CHUNK = made.growing._CHUNKS_PER_CONFIRMATION = 0\n"
    return subprocess.Popen(
        [sys.executable, "-c", start + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"},
        **options,
    )


def output_of(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out, err


# -- hits ------------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_run(store):
    first = store.extract(Network().fit(X), X)
    assert (first.n_rows_run, first.from_store) == (50, False)
    again = store.extract(Network(batch_size=3).fit(X.copy()), X.copy())
    assert (again.n_rows_run, again.from_store) == (0, True)
    expected = Network().fit(X).extract(X)
    for found in (first, again):
        np.testing.assert_array_equal(found.features, expected[0])
        np.testing.assert_array_equal(found.probabilities, expected[1])
        for array in (found.features, found.probabilities):
            assert isinstance(array, np.memmap)
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_a_store_is_known_by_its_place(tmp_path):
    one, other = FeatureStore(tmp_path), FeatureStore(str(tmp_path))
    assert one == other and hash(one) == hash(other) and one != FeatureStore(tmp_path / "x")
    assert repr(one) == f"FeatureStore({str(tmp_path)!r})"
    assert not one.exists and one.size == 0 and one.entries() == one.clear() == []
    assert list(tmp_path.iterdir()) == []  # asking makes nothing


def test_another_process_finds_the_same_without_torch(store):
    made = "Network() Plain(table={'b':1,'a':{3,2}}) Normalizer() FunctionTransformer(np.tanh)"
    other = made.replace("'b':1,'a':{3,2}", "'a':{2,3},'b':1").split()
    for source in made.split():
        assert runs(store, eval(source)) == 50
    code = """
    for source in sys.argv[2:]:
        candidate = eval(source, vars(made)).fit(made.X)
        print(FeatureStore(sys.argv[1]).extract(candidate, made.X).n_rows_run)
    from sktransfer.backbones import PrecomputedFeatures
    print("torch" in sys.modules)
    """
    out, _ = output_of(python(code, store.path, *other))
    assert out.split() == ["0"] * 4 + ["False"]


# -- misses: the candidate -------------------------------------------------------------------------


def test_another_candidate_or_option_is_another_entry(store):
    assert [runs(store, Network()), runs(store, Network(2.0)), runs(store, Network())] == [
        50,
        50,
        0,
    ]
    candidate = Network().fit(X)
    for options in ({"sample_weight": X[:, 0]}, {"sample_weight": X[:, 1]}):
        assert runs(store, candidate, options=options) == 50
        assert runs(store, candidate, options=options) == 0
    assert len(store.entries()) == 4


def own_class(body, **names):
    """A class whose method `transform` is what is said."""
    source = (
        "class Own(TransformerMixin, BaseEstimator):\n"
        "    stateless = True\n"
        "    total = 0\n"
        "    def fit(self, X, y=None):\n"
        "        return self\n"
        "    def transform(self, X):\n" + textwrap.indent(textwrap.dedent(body), " " * 8)
    )
    space = {"BaseEstimator": BaseEstimator, "TransformerMixin": TransformerMixin, "np": np}
    exec(source, space | names, made := {})
    return made["Own"]


def test_code_of_ones_own_is_part_of_the_key(store):
    def helper(X):
        return X + 1

    def other_helper(X):
        return X + 2

    bodies = [
        ("return X * 2", {}),
        ("return X * 3", {}),
        ("return X + 2", {}),
        ("return np.tanh(X)", {}),
        ("return np.sin(X)", {}),
        ("return X * SCALE", {"SCALE": 2.0}),
        ("return X * SCALE", {"SCALE": 3.0}),
        ("return X * SCALE['a']", {"SCALE": {"a": 1.0}}),
        ("return X * SCALE['a']", {"SCALE": {"a": 2.0}}),
        ("return X @ WEIGHTS", {"WEIGHTS": np.eye(6)}),
        ("return X @ WEIGHTS", {"WEIGHTS": np.eye(6) * 2}),
        ("return helper(X)", {"helper": helper}),
        ("return helper(X)", {"helper": other_helper}),
        ("return (lambda x: x * 5)(X)", {}),
        ("return (lambda x: x * 6)(X)", {}),
    ]
    for body, names in bodies:
        assert runs(store, own_class(body, **names)()) == 50, (body, names)
    for body, names in bodies:
        assert runs(store, own_class(body, **names)()) == 0, (body, names)


def test_what_code_counts_is_no_part_of_the_key(store):
    names = {"CALLS": [], "COUNT": {"n": 0}, "KINDS": set(), "NUMBERS": [0], "LAST": 0}
    cls = own_class(
        """
        global LAST
        LAST = LAST + 1
        CALLS.append(len(X))
        COUNT["n"] += len(X)
        COUNT["last"] = len(X)
        KINDS.add(len(X))
        NUMBERS[0] += 1
        type(self).total += 1
        return X * 2
        """,
        **names,
    )
    key = store.key(cls(), store.digest(X))
    assert runs(store, cls()) == 50
    assert cls.total == 1 and names["COUNT"] == {"n": 50, "last": 50}
    assert store.key(cls(), store.digest(X)) == key
    assert runs(store, cls()) == 0

    def counted():
        calls, n = [], 0

        def function(X):
            nonlocal n
            n += 1
            calls.append(n)
            return X - 1

        return FunctionTransformer(function), calls

    candidate, calls = counted()
    assert [runs(store, candidate), runs(store, candidate), runs(store, counted()[0])] == [50, 0, 0]
    assert calls == [1]


def test_a_helper_of_ones_own_is_part_of_the_key(store, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_candidate.py").write_text(
        "import their_helper\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "def now(X):\n    return their_helper.change(X)\n"
        "def late(X):\n    from their_helper import change\n    return change(X)\n"
    )

    def given(factor):
        (tmp_path / "their_helper.py").write_text(f"def change(X):\n    return X * {factor}\n")
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        for name in ("their_helper", "their_candidate"):
            sys.modules.pop(name, None)
        import their_candidate

        return their_candidate

    for name in ("now", "late"):
        for factor, expected in ((2, 50), (2, 0), (3, 50), (3, 0)):
            candidate = FunctionTransformer(getattr(given(factor), name))
            assert runs(store, candidate) == expected, (name, factor)


def test_modules_that_are_imported_late_may_be_missing_or_installed(store):
    def late(X):
        from . import nothing_here  # noqa: F401

        return X

    def optional(X):
        import json as installed

        import no_such_module_anywhere  # noqa: F401

        return installed.loads("2") * X

    for function in (late, optional):
        key = store.key(FunctionTransformer(function), store.digest(X))
        assert key == store.key(FunctionTransformer(function), store.digest(X))


def test_a_file_that_a_transformer_reads_is_part_of_the_key(store, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"one")
    assert [runs(store, Plain(table=path)), runs(store, Plain(table=path))] == [50, 0]
    path.write_bytes(b"two")
    assert [runs(store, Plain(table=str(path))), runs(store, Plain(table=str(path)))] == [50, 0]

    class Logging(Plain):
        def transform(self, X):
            with open(self.table, "a") as file:
                file.write("called\n")
            return super().transform(X)

    log = tmp_path / "log.txt"
    log.write_text("begin\n")
    assert [runs(store, Logging(table=log)), runs(store, Logging(table=log))] == [50, 0]


def test_files_of_parts_and_of_lists_are_part_of_the_key(store, tmp_path):
    path = tmp_path / "model.bin"

    def candidates():
        return [
            make_pipeline(Plain(table=str(path))).fit(X),
            Plain(table=[path]),
            Plain(table={"encoder": {"weights": str(path)}}),
        ]

    for content in (b"one", b"two"):
        path.write_bytes(content)
        assert [runs(store, candidate) for candidate in candidates()] == [50, 50, 50]
        assert [runs(store, candidate) for candidate in candidates()] == [0, 0, 0]


def test_a_model_in_memory_is_part_of_the_key(store):
    for content in (b"one", b"two"):
        model = io.BytesIO(content)
        assert [runs(store, Plain(table=model)), runs(store, Plain(table=model))] == [50, 0]


def test_a_setting_of_the_class_counts_although_a_method_may_set_it(store):
    for gain in (2.0, 3.0, "two"):

        class Settable(Plain):
            factor = gain

            def set_factor(self, factor):
                self.factor = factor

        assert [runs(store, Settable()), runs(store, Settable())] == [50, 0]


def test_names_of_files_count_for_whoever_has_a_fingerprint_of_its_own(store, tmp_path):
    class Names(Network):
        def _features(self, X):
            return np.array([[len(str(x))] for x in X], dtype=np.float32)

    paths = files_in(tmp_path / "a")
    assert [runs(store, Names(), paths), runs(store, Names(), paths)] == [20, 0]
    (tmp_path / "a").rename(tmp_path / "longer")
    assert runs(store, Names(), [tmp_path / "longer" / path.name for path in paths]) == 20


def test_what_cannot_be_named_is_run_and_said(store):
    for thing in ((i for i in "ab"), sys._getframe()):
        with pytest.warns(
            CacheNotWrittenWarning, match="'plain' are not kept .* a .* has no state"
        ):
            assert runs(store, Plain(table=thing), name="plain") == 50
    nested = inner = []
    for _ in range(5000):
        inner.append([])
        inner = inner[0]
    with pytest.warns(CacheNotWrittenWarning, match="nested too deeply"):
        runs(store, Plain(table=nested))

    class Broken(Network):
        def fingerprint(self):
            raise RuntimeError("no idea")

    with pytest.warns(CacheNotWrittenWarning, match="'fingerprint' failed: no idea"):
        assert runs(store, Broken()) == 50
    assert not store.exists


class Holder:
    """Holds things of many kinds; two that hold the same have one key."""

    def __init__(self, n):
        self.n = n

    def method(self):
        return self.n

    @property
    def own(self):
        return self.n

    @classmethod
    def made(cls):
        return cls(1)

    @staticmethod
    def plain():
        return 1


class Slots:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def cached(n):
    @functools.lru_cache
    def function(x):
        return x + n

    return function


OBJECTS = {
    "objects": lambda n: Holder(n),
    "slots": lambda n: Slots(n),
    "methods": lambda n: Holder(n).method,
    "class methods and functions": lambda n: (Holder.made, Holder.plain, (len, sum)[n]),
    "classes": lambda n: (Holder, Slots)[n],
    "enumerations": lambda n: (Colour.RED, Colour.BLUE)[n],
    "partial functions": lambda n: functools.partial(np.add, n),
    "cached functions": cached,
    "ufuncs": lambda n: (np.sin, np.cos)[n],
    "modules": lambda n: (json, os)[n],
    "functions of libraries": lambda n: (json.dumps, json.loads)[n],
    "methods of objects": lambda n: "ab"[n].upper,
    "patterns": lambda n: re.compile(f"a{n}"),
    "paths": lambda n: Path(f"a{n}"),
    "ordered": lambda n: collections.OrderedDict(a=n),
    "counters": lambda n: collections.Counter("ab"[n]),
    "random states": lambda n: np.random.RandomState(n),
    "generators": lambda n: np.random.default_rng(n),
    "scalars": lambda n: (np.float64(n), np.datetime64(f"200{n}-01-01")),
    "dtypes": lambda n: np.dtype(("f4", "f8")[n]),
    "frozen sets": lambda n: frozenset({"a", str(n)}),
    "byte arrays": lambda n: bytearray([n]),
    "strings": lambda n: np.array([f"a{n}"]),
    "sparse": lambda n: scipy.sparse.csr_matrix(np.eye(3) + n),
    "files and locks": lambda n: (threading.Lock(), sys.stdout, n),
    "loggers": lambda n: logging.getLogger(f"a{n}"),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_of_any_kind_are_known_by_what_they_hold(kind):
    from sktransfer.backbones._store_content import content_digest

    make = OBJECTS[kind]
    assert content_digest(make(0)) == content_digest(make(0)) != content_digest(make(1))


def test_methods_of_ones_own_are_read_wherever_they_stand(store):
    def candidate(number, kind):
        class Own(Plain):
            if kind == "property":
                factor = property(lambda self: number)
            elif kind == "class method":

                @classmethod
                def factor(cls):
                    return number

            elif kind == "static method":

                @staticmethod
                def factor():
                    return number

            else:
                factor = number

            class Inner:
                value = 1

            def transform(self, X):
                factor = self.factor() if callable(self.factor) else self.factor
                return np.asarray(X) * factor

        return Own()

    for kind in ("property", "class method", "static method", "constant"):
        numbers = (2, 2, 3, 3)
        assert [runs(store, candidate(number, kind)) for number in numbers] == [50, 0, 50, 0], kind
        store.clear()


def test_objects_that_hold_themselves_have_a_key(store):
    def ring(n):
        one = []
        one.extend([n, one])
        return one

    assert runs(store, Plain(table=ring(1))) == 50
    assert runs(store, Plain(table=ring(1))) == 0
    assert runs(store, Plain(table=ring(2))) == 50


def test_data_as_they_are_and_features_on_disk_are_not_copied(store):
    from sktransfer.backbones import PrecomputedFeatures

    for candidate in (
        FunctionTransformer(),
        PrecomputedFeatures(X),
        FrozenEstimator(PrecomputedFeatures(X).fit(X)),
    ):
        found = store.extract(candidate.fit(X, None), X)
        assert not found.from_store and not found.is_kept
    assert not store.exists


def test_a_frozen_network_need_not_know_the_data(store):
    other = X[::-1].copy()
    frozen = FrozenEstimator(Network().fit(other))
    assert runs(store, frozen) == 50
    assert runs(store, frozen) == 0
    assert runs(store, Network()) == 0  # the same network, fitted


@pytest.mark.parametrize("kind", ["frame", "data set", "like a data set", "tensor", "list"])
def test_a_network_may_be_fitted_on_other_data_of_any_form(store, kind):
    pd, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    from sktransfer.backbones import TorchBackbone

    images = np.random.default_rng(0).integers(0, 255, size=(9, 8, 8), dtype=np.uint8)

    class Rows:
        def __len__(self):
            return 9

        def __getitem__(self, row):
            if not 0 <= row < 9:
                raise IndexError(row)
            return images[row]

    class Set(Rows, torch.utils.data.Dataset):
        pass

    kinds = {
        "frame": pd.DataFrame(images.reshape(9, -1)),
        "data set": Set(),
        "like a data set": Rows(),
        "tensor": torch.from_numpy(images),
        "list": list(images),
    }
    data = kinds[kind]
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    other = pd.DataFrame(np.ones((3, 64))) if kind == "frame" else images[5:]
    candidate = TorchBackbone(network, mean=0.5, std=0.5).fit(other)
    for expected in (9, 0):
        assert store.extract(candidate, data).n_rows_run == expected


def test_weights_alone_do_not_tell_what_forward_does(store):
    assert runs(store, Network(forward=np.tanh)) == 50
    with pytest.warns(StaleCacheWarning, match="'net' in .* are not what its network gives now"):
        found = store.extract(Network(forward=np.sin).fit(X), X, just_fitted=True, name="net")
    assert found.n_rows_run == 50
    np.testing.assert_array_equal(found.features, np.sin(X))
    assert runs(store, Network(forward=np.sin)) == 0

    class Nearly(Network):
        def _features(self, X):
            return super()._features(X) * np.float32(1 + 1e-5)  # another order of sums

    Nearly.__qualname__ = "Network"
    assert runs(store, Nearly(forward=np.sin)) == 0


# -- misses: the data ------------------------------------------------------------------------------


def kinds_of_data():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    torch, Image = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)

    def masked(data, hidden):
        return np.ma.MaskedArray(data, mask=np.arange(data.size).reshape(data.shape) == hidden)

    def grey_palette(shift):
        image = Image.fromarray(pixels[0, :, :, 0], mode=None).convert("P")
        image.putpalette([(value + shift) % 256 for value in range(256) for _ in range(3)])
        return image

    class Duck:
        def __init__(self, images, labels=None):
            self.images, self.labels = images, labels

        def __len__(self):
            return len(self.images)

        def __getitem__(self, row):
            if row >= len(self):
                raise IndexError(row)
            image = self.images[row]
            return image if self.labels is None else (image, self.labels[row])

    class Torch(Duck, torch.utils.data.Dataset):
        pass

    changed = pixels.copy()
    changed[2, 1, 1, 0] += 1
    moved = X.copy()
    moved[7, 2] += 1e-6
    words = ["a", "b\n", "c\0", "d" * 5000]
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    return {
        "array": (X, [moved, X[:-1], X.astype(np.float64), X.reshape(25, 12), X.T.copy()]),
        "scalar": (np.array(3.0), [np.array(4.0), np.array([3.0])]),
        "empty": (np.empty((0, 3)), [np.empty((0, 4))]),
        "masked": (masked(X, 3), [X, masked(X, 4)]),
        "structured": (np.zeros(3, "i4,f8"), [np.ones(3, "i4,f8"), np.zeros(3, "i4,f4")]),
        "numbers": ([[1, 2], [3, 4]], [[[1, 2], [3, 5]], [[1.0, 2.0], [3.0, 4.0]], [1, 2, 3, 4]]),
        "ragged": ([[1, 2], [3]], [[[1, 2], [4]], [[1], [2, 3]]]),
        "texts": (words, [["a", "b\n", "c\0", "e" * 5000], words[:3], ["ab", "", *words[2:]]]),
        "objects": (np.array(["a", 1, None], object), [np.array(["a", 1, np.nan], object)]),
        "table of texts": (np.array([["a", "b"]]), [np.array([["a", "c"]]), np.array(["a", "b"])]),
        "tensor": (
            torch.ones(3, 2),
            [torch.zeros(3, 2), torch.ones(3, 2).half(), torch.ones(2, 3)],
        ),
        "bfloat16": (
            torch.ones(3).bfloat16(),
            [torch.ones(3).half(), torch.ones(3).bfloat16() * 2],
        ),
        "tensors": ([torch.ones(2), torch.ones(3)], [[torch.ones(3), torch.ones(2)]]),
        "arrays": ([pixels[0], pixels[1][:2]], [[changed[2], pixels[1][:2]], [pixels[0]]]),
        "pillow": (
            list(map(Image.fromarray, pixels)),
            [
                list(map(Image.fromarray, changed)),
                [Image.fromarray(p).convert("L") for p in pixels],
            ],
        ),
        "palette": ([grey_palette(0)], [[grey_palette(9)], [grey_palette(0).convert("RGB")]]),
        "pandas": (
            frame,
            [
                frame.assign(a=[1, 3]),
                frame.assign(b=["x", "z"]),
                frame.rename(columns={"a": "c"}),
                frame[["b", "a"]],
                frame.astype({"a": "int32"}),
            ],
        ),
        "series": (frame["b"], [frame["a"], frame["b"][::-1]]),
        "nullable": (pd.Series([1, None], dtype="Int64"), [pd.Series([1, 2], dtype="Int64")]),
        "polars": (pl.from_pandas(frame), [pl.from_pandas(frame.assign(b=["x", "z"]))]),
        "polars series": (pl.Series(["x", "y"]), [pl.Series(["x", "z"])]),
        "data set": (Torch(pixels), [Torch(changed), Torch(pixels[:2])]),
        "like a data set": (Duck(pixels), [Duck(changed)]),
        "labelled": (Torch(pixels, [0, 1, 2]), [Torch(changed, [0, 1, 2])]),
        "pairs": ([(p, 1) for p in pixels], [[(p, 1) for p in changed]]),
        "object": ({"a": X}, [{"a": moved}, {"b": X}]),
    }


KINDS = [
    *("array", "scalar", "empty", "masked", "structured", "numbers", "ragged", "texts", "objects"),
    *("table of texts", "tensor", "bfloat16", "tensors", "arrays", "pillow", "palette", "pandas"),
    *("series", "nullable", "polars", "polars series", "data set", "like a data set", "labelled"),
    *("pairs", "object"),
]


def test_no_kind_is_forgotten():
    assert sorted(kinds_of_data()) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_is_known_by_its_content(store, kind):
    data, others = kinds_of_data()[kind]
    same, _ = kinds_of_data()[kind]
    digest = store.digest(data)
    assert store.digest(same) == store.digest(data) == digest
    for other in others:
        found = store.digest(other)
        assert found.content != digest.content and found.named != digest.named, other


def test_a_label_that_comes_with_an_image_decides_no_features(store):
    image = X[:4, :4]
    one, other = store.digest([(image, 0), (image, 1)]), store.digest([(image, 1), (image, 1)])
    assert one.content == other.content and one.named != other.named


def test_layout_and_place_of_an_array_do_not_matter(store, tmp_path):
    large = np.random.default_rng(0).integers(0, 255, size=(700, 9000), dtype=np.uint8)
    digest = store.digest(large)
    np.save(tmp_path / "x.npy", large)
    for same in (
        np.asfortranarray(large),
        np.repeat(large, 2, axis=1)[:, ::2],
        np.load(tmp_path / "x.npy", mmap_mode="r"),
    ):
        assert store.digest(same) == digest
    for row in (0, 350, 699):
        other = large.copy()
        other[row, 8999] ^= 1
        assert store.digest(other) != digest


class Sizes(Network):
    """Features of files, by what is in them."""

    reads_names = False

    def _features(self, X):
        return np.array([[len(Path(x).read_bytes()), sum(Path(x).read_bytes())] for x in X], "f4")

    def iter_extract(self, X, start=0):
        for rows, features, _ in super().iter_extract(X, start):
            yield rows, features, None


def files_in(folder, n=20):
    folder.mkdir()
    for i in range(n):
        (folder / f"{i}.bin").write_bytes(bytes([i, 2 * i]))
    return [folder / f"{i}.bin" for i in range(n)]


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_files_are_known_by_their_bytes(store, tmp_path):
    pd = pytest.importorskip("pandas")
    paths = files_in(tmp_path / "a")
    assert runs(store, Sizes(), paths) == 20
    (tmp_path / "a").rename(tmp_path / "b")
    paths = [tmp_path / "b" / path.name for path in paths]
    names = list(map(str, paths))
    kinds = (names, np.array(names), np.array(names, object)[:, None], pd.Series(names), paths)
    for kind in kinds[:2] + kinds[3:]:
        assert runs(store, Sizes(), kind) == 0
    digests = [store.digest(kind) for kind in kinds]

    # the same size and the same time, other bytes
    status = paths[3].stat()
    paths[3].write_bytes(bytes([7, 7]))
    os.utime(paths[3], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert paths[3].stat().st_mtime_ns == status.st_mtime_ns
    for kind, before in zip(kinds, digests, strict=True):
        assert store.digest(kind).content != before.content
    found = store.extract(Sizes().fit(names), names)
    assert found.n_rows_run == 20 and found.features[3, 1] == 14
    assert found.probabilities is None

    # rows in another order are other data
    assert runs(store, Sizes(), names[::-1]) == 20


def test_a_transformer_of_unknown_kind_may_use_the_names(store, tmp_path):
    class Names(Plain):
        def transform(self, X):
            Plain.n_run += len(X)
            return np.array([[len(str(x))] for x in X], dtype=float)

    paths = files_in(tmp_path / "a")
    assert [runs(store, Names(), paths), runs(store, Names(), paths)] == [20, 0]
    (tmp_path / "a").rename(tmp_path / "longer")
    assert runs(store, Names(), [tmp_path / "longer" / path.name for path in paths]) == 20
    missing = [str(path) for path in paths]  # nothing there any more: just texts
    assert [runs(store, Names(), missing), runs(store, Names(), missing)] == [20, 0]


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_the_data_are_read_once_for_all_candidates(tmp_path, monkeypatch):
    from sktransfer.model_selection import TransferabilitySelector

    read = []
    digest = FeatureStore.digest
    monkeypatch.setattr(FeatureStore, "digest", lambda self, X: read.append(1) or digest(self, X))
    candidates = [(f"n{weight}", Network(weight)) for weight in (1.0, 2.0, 3.0)]
    TransferabilitySelector(candidates, cv=2, memory=tmp_path).fit(X, np.arange(50) % 2)
    assert read == [1]


# -- probabilities, other outputs ------------------------------------------------------------------


def test_probabilities_that_nobody_asked_for_are_added_later(store):
    assert runs(store, Plain(), probabilities=False) == 50
    assert runs(store, Plain(), probabilities=False) == 0
    found = store.extract(Plain().fit(X), X, probabilities=True)
    assert found.n_rows_run == 50 and found.probabilities.shape == (50, 2)
    for probabilities in (True, False):
        again = store.extract(Plain().fit(X), X, probabilities=probabilities)
        assert again.n_rows_run == 0
    assert len(store.entries()) == 1
    # one pass gives both, so a network is never run a second time
    assert runs(store, Network(), probabilities=False) == 50
    assert store.extract(Network().fit(X), X).probabilities.shape == (50, 3)
    assert Network.n_run == 50


def test_what_cannot_be_given_back_as_it_was_is_not_kept(store):
    pd = pytest.importorskip("pandas")

    for function in (
        lambda X: pd.DataFrame(X),
        lambda X: X[:, 0],
        lambda X: X[:10],
        lambda X: np.array([[str(x)] for x in X[:, 0]], object),
        lambda X: np.where(X > 0, np.nan, X),
        lambda X: X[:, :0],
    ):
        for _ in range(2):
            found = store.extract(FunctionTransformer(function).fit(X), X)
            assert not found.from_store and found.n_rows_run == 50
    assert store.entries() == []


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_data_frames_come_back_as_data_frames(tmp_path):
    pd = pytest.importorskip("pandas")
    from sktransfer.model_selection import TransferabilitySelector

    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(50) + 100)
    y = np.arange(50) % 2
    candidate = Normalizer().set_output(transform="pandas")
    selector = TransferabilitySelector([("n", candidate)], memory=tmp_path)
    first = selector.fit_transform(frame, y)
    assert not selector.cv_results_["from_store"][0]
    again = selector.fit_transform(frame, y)
    assert selector.cv_results_["from_store"][0]
    pd.testing.assert_frame_equal(first, again)
    pd.testing.assert_frame_equal(again, candidate.fit_transform(frame))
    again.iloc[0] = 0  # one's own


# -- damage ----------------------------------------------------------------------------------------


def lengthen(path):
    with open(path, "ab") as file:
        file.write(b"x" * 99)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def rewritten(entry, **changes):
    """Change the description of an entry, and make its digest right again."""
    from sktransfer.backbones import _store_files as files

    about = json.loads((entry / "entry.json").read_text()) | changes
    about["digest"] = files._own_digest(about)
    (entry / "entry.json").write_text(json.dumps(about))


def as_object_array(entry):
    size = (entry / "features.npy").stat().st_size
    np.save(entry / "features.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with open(entry / "features.npy", "ab") as file:
        file.truncate(size)


DAMAGES = {
    "a bit of the features": lambda e: flip(e / "features.npy", 700),
    "a bit of the header": lambda e: flip(e / "features.npy", 60),
    "the last bit": lambda e: flip(e / "probabilities.npy", -1),
    "truncated": lambda e: os.truncate(e / "features.npy", 500),
    "longer": lambda e: lengthen(e / "features.npy"),
    "empty": lambda e: (e / "features.npy").write_bytes(b""),
    "no features": lambda e: (e / "features.npy").unlink(),
    "no probabilities": lambda e: (e / "probabilities.npy").unlink(),
    "a folder": lambda e: ((e / "features.npy").unlink(), (e / "features.npy").mkdir()),
    "pickled": as_object_array,
    "no description": lambda e: (e / "entry.json").unlink(),
    "half a description": lambda e: os.truncate(e / "entry.json", 200),
    "no json": lambda e: (e / "entry.json").write_bytes(b"\xff\xfe garbage"),
    "other json": lambda e: (e / "entry.json").write_text("[1, 2]"),
    "deep json": lambda e: (e / "entry.json").write_text("[" * 100_000),
    "a word in the description": lambda e: (e / "entry.json").write_text(
        (e / "entry.json").read_text().replace('"Network"', '"Netwerk"')
    ),
    "another format": lambda e: rewritten(e, format=0),
    "another key": lambda e: rewritten(e, key="f" * 40),
    "no arrays": lambda e: rewritten(e, arrays={}),
    "strange arrays": lambda e: rewritten(e, arrays={"features": [1]}),
    "no date": lambda e: rewritten(e, created="yesterday"),
    "no source head": lambda e: rewritten(e, source_head="maybe"),
    "a file in its place": lambda e: (shutil.rmtree(e), e.write_text("not a folder")),
    "nothing in it": lambda e: (shutil.rmtree(e), e.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_and_repaired(store, damage):
    expected = store.extract(Network().fit(X), X).features.copy()
    (entry,) = (store._root / "entries").iterdir()
    DAMAGES[damage](entry)
    (found,) = store.verify()
    assert found.state == "damaged" and found.problem
    assert len(store.entries()) == 1
    with pytest.warns(DamagedCacheWarning, match="'net' in .* are damaged and are extracted") as w:
        again = store.extract(Network().fit(X), X, name="net")
    assert len(w) == 1 and str(store.path) in str(w[0].message)
    assert again.n_rows_run == 50
    np.testing.assert_array_equal(again.features, expected)
    assert runs(store, Network()) == 0
    assert [entry.state for entry in store.verify()] == ["complete"]


def test_an_entry_in_the_place_of_another_is_refused(store):
    runs(store, Network(1.0))
    runs(store, Network(2.0))
    one, other = sorted((store._root / "entries").iterdir())
    shutil.rmtree(one)
    shutil.copytree(other, one)
    with pytest.warns(DamagedCacheWarning, match="belongs to other features"):
        assert runs(store, Network(1.0)) + runs(store, Network(2.0)) == 50


def test_a_right_description_of_another_array_is_refused(store):
    from sktransfer.backbones import _store_files as files

    runs(store, Network())
    (entry,) = (store._root / "entries").iterdir()
    arrays = json.loads((entry / "entry.json").read_text())["arrays"]
    arrays["features"]["shape"] = [6, 50]
    rewritten(entry, arrays=arrays)
    with pytest.warns(DamagedCacheWarning, match="another array than was written"):
        assert runs(store, Network()) == 50
    path = entry / "features.npy"
    path.write_bytes(b"not an array" * 200)
    arrays["features"] |= {
        "n_bytes": path.stat().st_size,
        "digests": files.file_digests(path, path.stat().st_size),
    }
    rewritten(entry, arrays=arrays)
    with pytest.warns(DamagedCacheWarning, match="features.npy cannot be opened"):
        assert runs(store, Network()) == 50


def test_an_entry_removed_while_it_is_used_stays_readable(store):
    found = store.extract(Network().fit(X), X)
    assert [entry.candidate for entry in store.clear()] == ["Network"]
    assert store.entries() == [] and not any((store._root / "entries").iterdir())
    np.testing.assert_array_equal(found.features, np.tanh(X))
    assert runs(store, Network()) == 50


# -- interruption ----------------------------------------------------------------------------------

KILLED = """
import time
class Slow(made.Network):
    def iter_extract(self, X, start=0):
        for batch in super().iter_extract(X, start):
            if batch[0].start >= 24:
                print("now", flush=True)
                time.sleep(60)
            yield batch
Slow.__qualname__ = "Network"
FeatureStore(sys.argv[1]).extract(Slow().fit(made.X), made.X)
"""


def interrupted(store):
    """An extraction that was killed after 24 rows of 50."""
    process = python(KILLED, store.path)
    assert process.stdout.readline() == "now\n", process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (entry,) = store.entries()
    assert (entry.state, entry.n_rows, entry.candidate) == ("unfinished", 50, "Slow")
    return store._root / "unfinished" / entry.key


def bytes_of(store):
    (entry,) = (store._root / "entries").iterdir()
    return {path.name: path.read_bytes() for path in entry.iterdir() if path.suffix == ".npy"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A store with an extraction that was killed; copied by each test."""
    store = FeatureStore(tmp_path_factory.mktemp("killed"))
    interrupted(store)
    return store.path


@pytest.fixture
def half_done(killed, tmp_path):
    shutil.copytree(killed, tmp_path / "copy")
    return FeatureStore(tmp_path / "copy")


@pytest.fixture
def whole(tmp_path):
    store = FeatureStore(tmp_path / "whole")
    runs(store, Network())
    Network.n_run = 0
    return bytes_of(store)


def test_a_killed_extraction_goes_on_where_it_was(half_done, whole):
    found = half_done.extract(Network().fit(X), X)
    assert found.n_rows_run == Network.n_run == 26 and not found.from_store
    assert bytes_of(half_done) == whole
    assert [entry.state for entry in half_done.verify()] == ["complete"]
    assert runs(half_done, Network()) == 0


def progress(store, change):
    (folder,) = (store._root / "unfinished").iterdir()
    path = folder / "progress.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def rows_file(store, change):
    (folder,) = (store._root / "unfinished").iterdir()
    change(folder / "features.npy")


LOSSES = {
    "half a line": (lambda s: progress(s, lambda lines: [*lines, b'{"rows": [24']), 26),
    "lines that are missing": (lambda s: progress(s, lambda lines: lines[:-2]), 42),
    "a line that is wrong": (lambda s: progress(s, lambda lines: [*lines[:3], b"[1]\n"]), 42),
    "garbage": (lambda s: progress(s, lambda lines: [*lines[:3], b"\xff\n"]), 42),
    "a gap": (lambda s: progress(s, lambda lines: lines[:3] + lines[4:]), 42),
    "more rows than written": (lambda s: rows_file(s, lengthen), 26),
    "fewer": (lambda s: rows_file(s, lambda p: os.truncate(p, p.stat().st_size - 1)), 34),
    "a bit of the last rows": (lambda s: rows_file(s, lambda p: flip(p, -1)), 34),
    "a bit of the first rows": (lambda s: rows_file(s, lambda p: flip(p, 130)), 50),
    "a bit of the header": (lambda s: rows_file(s, lambda p: flip(p, 20)), 50),
    "no file": (lambda s: rows_file(s, Path.unlink), 50),
    "no progress": (lambda s: progress(s, lambda lines: []), 50),
    "another layout": (
        lambda s: progress(s, lambda lines: [lines[0], b'{"other": ["<f4", 6]}\n', *lines[2:]]),
        50,
    ),
    "objects": (
        lambda s: progress(s, lambda lines: [lines[0], b'{"features": ["|O", 6]}\n', *lines[2:]]),
        50,
    ),
    "a strange plan": (lambda s: progress(s, lambda lines: [b"[]\n", *lines[1:]]), 50),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_only_rows_that_are_surely_right_are_kept(half_done, whole, loss):
    lose, n_rows = LOSSES[loss]
    lose(half_done)
    assert runs(half_done, Network()) == Network.n_run == n_rows
    assert bytes_of(half_done) == whole


def test_other_batches_start_anew(half_done):
    # sums may be added up in another order, and half of the rows would be of neither kind
    assert runs(half_done, Network(batch_size=16)) == 50


def test_an_extraction_that_fails_goes_on_too(store):
    class Failing(Network):
        broken = True

        def iter_extract(self, X, start=0):
            for batch in super().iter_extract(X, start):
                if Failing.broken and batch[0].start >= 24:
                    raise ValueError("no such file")
                yield batch

    with pytest.raises(ValueError, match="no such file"):
        runs(store, Failing())
    Failing.broken = False
    assert runs(store, Failing()) == 26


def test_a_candidate_that_gives_wrong_rows_is_not_kept(store):
    class Short(Network):
        def iter_extract(self, X, start=0):
            yield from list(super().iter_extract(X, start))[:-1]

    class NotFinite(Network):
        def _features(self, X):
            return np.where(np.arange(len(X))[:, None] > 3, np.nan, super()._features(X))

    class Ragged(Network):
        def iter_extract(self, X, start=0):
            for rows, features, source in super().iter_extract(X, start):
                yield rows, features[:, : 6 - (rows.start > 0)], source

    for cls, message in (
        (Short, "gave 48 rows of features for 50 samples"),
        (NotFinite, "NaN or infinite values within the rows 0 to 7"),
        (Ragged, "do not continue"),
    ):
        with pytest.raises(ValueError, match=message):
            runs(store, cls())
    assert all(entry.state == "unfinished" for entry in store.entries())


# -- several processes -----------------------------------------------------------------------------

TWO = """
import time, warnings
class Slow(made.Network):
    def iter_extract(self, X, start=0):
        for batch in super().iter_extract(X, start):
            if batch[0].start == 24:
                print("begun", flush=True)
                sys.stdin.readline()
            yield batch
Slow.__qualname__ = "Network"
warnings.simplefilter("always")
found = FeatureStore(sys.argv[1]).extract(Slow().fit(made.X), made.X, name="net")
print(found.n_rows_run, found.features.sum(), flush=True)
"""


def test_the_second_of_two_processes_waits_and_reads(store):
    first = python(TWO, store.path, stdin=subprocess.PIPE)
    assert first.stdout.readline() == "begun\n"
    second = python(TWO, store.path, stdin=subprocess.PIPE)
    said = second.stderr.readline()
    assert "CacheBusyWarning: Another process is extracting the features of 'net'" in said
    assert store.clear() == []  # one that is going on is left alone
    first.stdin.write("go on\n")
    first.stdin.flush()
    out, _ = output_of(first)
    assert out.split() == ["50", str(np.tanh(X).sum())]
    out, _ = output_of(second)
    assert out.split() == ["0", str(np.tanh(X).sum())]


def test_a_dead_process_holds_no_lock(store):
    first = python(TWO, store.path, stdin=subprocess.PIPE)
    assert first.stdout.readline() == "begun\n"
    second = python(TWO, store.path, stdin=subprocess.PIPE)
    assert "CacheBusyWarning" in second.stderr.readline()
    first.kill()
    first.communicate()
    second.stdin.write("go on\n")
    second.stdin.flush()
    out, _ = output_of(second)
    # it goes on where the dead one was
    assert out.split() == ["begun", "26", str(np.tanh(X).sum())]


def test_many_threads_make_one_entry(store):
    from concurrent.futures import ThreadPoolExecutor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheBusyWarning)
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda _: runs(store, Network()), range(6)))
    assert sorted(found) == [0] * 5 + [50]


class Clearing(Network):
    """Clears the store, as somebody else may do at any time."""

    def _features(self, X):
        if len(X) > 2 and os.environ.get("CLEAR"):
            FeatureStore(os.environ["CLEAR"]).clear()
        return super()._features(X)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_workers_read_the_same_files_or_those_that_are_still_open(tmp_path, monkeypatch):
    from sktransfer.model_selection import TransferabilitySelector

    y = np.arange(50) % 2
    candidates = [("one", Network(1.0)), ("two", Clearing(2.0))]
    plain = TransferabilitySelector(candidates).fit(X, y)
    monkeypatch.setenv("CLEAR", str(tmp_path))
    for from_store in ([False, False], [False, True]):
        stored = TransferabilitySelector(candidates, memory=tmp_path, n_jobs=2).fit(X, y)
        assert stored.cv_results_["from_store"].tolist() == from_store
        assert stored.scores_ == plain.scores_


# -- places that do not take anything --------------------------------------------------------------


@pytest.fixture
def as_nobody(tmp_path_factory):
    """A folder, and a way to be a user without rights; root may write anywhere."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        @contextlib.contextmanager
        def become():
            if os.geteuid() == 0:
                os.seteuid(65534)
                try:
                    yield
                finally:
                    os.seteuid(0)
            else:
                yield

        yield Path(folder), become
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o755)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_store_that_may_only_be_read_is_read(as_nobody):
    folder, become = as_nobody
    store = FeatureStore(folder / "store")
    runs(store, Network(1.0))
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o555)
    with become():
        assert runs(store, Network(1.0)) == 0
        with pytest.warns(CacheNotWrittenWarning, match="'net' are not kept .*: Permission denied"):
            found = store.extract(Network(2.0).fit(X), X, name="net")
        assert found.n_rows_run == 50
        np.testing.assert_array_equal(found.features, np.tanh(2 * X))
        with pytest.raises(PermissionError):
            store.clear()
    assert len(store.entries()) == 1


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_place_without_permission_costs_nothing(as_nobody):
    folder, become = as_nobody
    os.chmod(folder, 0o555)
    with become():
        store = FeatureStore(folder / "store")
        for candidate, expected in ((Network(), np.tanh(X)), (Plain(), 2 * X)):
            with pytest.warns(CacheNotWrittenWarning, match="Permission denied"):
                found = store.extract(candidate.fit(X), X)
            np.testing.assert_array_equal(found.features, expected)
        with pytest.raises(PermissionError):
            store.prepare()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_damage_that_cannot_be_repaired_is_worked_around(as_nobody):
    folder, become = as_nobody
    store = FeatureStore(folder / "store")
    runs(store, Network())
    (entry,) = (store._root / "entries").iterdir()
    flip(entry / "features.npy", -1)
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o555)
    with become(), pytest.warns() as said:
        found = store.extract(Network().fit(X), X)
    assert [w.category for w in said] == [DamagedCacheWarning, CacheNotWrittenWarning]
    np.testing.assert_array_equal(found.features, np.tanh(X))
    os.chmod(entry / "entry.json", 0)
    with become(), pytest.warns(CacheNotWrittenWarning), pytest.warns(DamagedCacheWarning) as said:
        store.extract(Network().fit(X), X)
    assert "cannot be read (" in str(said[0].message)


@contextlib.contextmanager
def full_disk(n_bytes):
    """No file may grow beyond so many bytes: what a full disk looks like to a program."""
    resource = pytest.importorskip("resource")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("n_bytes", [0, 100, 130, 700, 1250, 1400])
def test_a_full_disk_costs_nothing_that_was_computed(store, n_bytes):
    store.prepare()
    with full_disk(n_bytes), pytest.warns(CacheNotWrittenWarning, match="File too large"):
        found = store.extract(Network().fit(X), X)
    # rows that were written are read back, not run again
    assert Network.n_run == 50
    expected = Network().fit(X).extract(X)
    np.testing.assert_array_equal(found.features, expected[0])
    np.testing.assert_array_equal(found.probabilities, expected[1])
    assert store.entries() == []
    assert runs(store, Network()) == 50


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("n_bytes", [0, 100, 130, 700])
def test_a_full_disk_costs_nothing_that_was_computed_as_a_whole(store, n_bytes):
    store.prepare()
    with full_disk(n_bytes), pytest.warns(CacheNotWrittenWarning, match="File too large"):
        found = store.extract(Plain().fit(X), X)
    assert Plain.n_run == 50
    np.testing.assert_array_equal(found.features, 2 * X)
    assert store.entries() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("can_be_read", [True, False])
def test_a_disk_that_is_full_at_the_very_end(store, monkeypatch, can_be_read):
    store.prepare()
    monkeypatch.setattr(growing, "SECONDS_PER_CHUNK", 60.0)  # the progress is a line or two
    if not can_be_read:
        monkeypatch.setattr(growing.GrowingEntry, "_content", lambda *arguments: b"")
    with full_disk(1400), pytest.warns(CacheNotWrittenWarning, match="File too large"):
        found = store.extract(Network().fit(X), X, name="long " * 150)
    assert Network.n_run == (50 if can_be_read else 100)
    np.testing.assert_array_equal(found.features, np.tanh(X))
    assert found.probabilities.shape == (50, 3) and store.entries() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_rows_that_cannot_be_read_back_are_run_again(store, monkeypatch):
    store.prepare()
    monkeypatch.setattr(growing.GrowingEntry, "_content", lambda *args: b"")
    with full_disk(700), pytest.warns(CacheNotWrittenWarning):
        found = store.extract(Network().fit(X), X)
    np.testing.assert_array_equal(found.features, np.tanh(X))


# -- looking after it ------------------------------------------------------------------------------


def test_entries_verify_clear_and_size(half_done):
    store = half_done
    begin = time.time()
    runs(store, Network(2.0), name="two")
    runs(store, Plain(), name="plain")
    entries = store.entries()
    assert sorted((e.candidate, e.state) for e in entries) == [
        ("Slow", "unfinished"),
        ("plain", "complete"),
        ("two", "complete"),
    ]
    by_name = {entry.candidate: entry for entry in entries}
    two = by_name["two"]
    assert (two.n_rows, two.n_columns) == (50, 6)
    assert two.created.timestamp() == pytest.approx(begin, abs=30)
    assert two.description["repr"].startswith("Network(")
    assert two.description["versions"]["numpy"] == np.__version__
    assert two.description["class"].endswith("Network")
    assert two.n_bytes == sum(
        path.stat().st_size for path in (store._root / "entries" / two.key).iterdir()
    )
    assert store.size >= sum(entry.n_bytes for entry in entries) > 3000
    flip(store._root / "entries" / two.key / "features.npy", -1)
    assert [entry.state for entry in store.entries()].count("damaged") == 0
    damaged = [entry for entry in store.verify() if entry.state == "damaged"]
    assert [entry.candidate for entry in damaged] == ["two"]
    assert "from byte 0 on" in damaged[0].problem
    assert [entry.candidate for entry in store.clear(damaged)] == ["two"]
    assert store.clear(damaged) == []
    assert {entry.candidate for entry in store.clear()} == {"Slow", "plain"}
    assert store.entries() == [] and store.size == 0


def test_put_and_get_for_features_of_another_pass(store):
    candidate = Network().fit(X)
    key = store.key(candidate, store.digest(X))
    assert store.get(key) is None
    features, probabilities = candidate.extract(X)
    kept = store.put(key, candidate, features, probabilities, name="one")
    assert kept.is_kept and kept.n_rows_run == 50
    found = store.get(key, probabilities=True)
    np.testing.assert_array_equal(found.features, features)
    assert store.extract(candidate, X).from_store
    flip(store._root / "entries" / key / "features.npy", -1)
    with pytest.warns(DamagedCacheWarning, match="'one'"):
        assert store.get(key, name="one") is None
    blocked = FeatureStore(store._root / "entries" / key / "features.npy")
    with pytest.warns(CacheNotWrittenWarning, match="Not a directory"):
        assert blocked.put(key, candidate, features).features is features


# -- networks of torch -----------------------------------------------------------------------------


def test_networks_of_torch_are_known_by_weights_layer_and_preprocessing(store, monkeypatch):
    torch = pytest.importorskip("torch")
    from sktransfer.backbones import TinyZooBackbone, TorchBackbone

    images = np.random.default_rng(0).integers(0, 255, size=(20, 8, 8), dtype=np.uint8)

    def network(seed=0, nudge=0.0):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            made = torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
            )
        with torch.no_grad():
            made[1].bias[0] += nudge
        return made

    def run(candidate):
        return runs(store, candidate, images, just_fitted=True)

    def backbone(module, mean=0.5, **options):
        return TorchBackbone(module, mean=mean, std=0.5, **options)

    for made in (
        lambda: backbone(network()),
        lambda: backbone(network(1)),
        lambda: backbone(network(nudge=1e-6)),
        lambda: backbone(network(), mean=0.4),
        lambda: backbone(network(), layer="1"),
        lambda: backbone(network().bfloat16()),
        lambda: TinyZooBackbone("mnist_half"),
        lambda: TinyZooBackbone("letters_half"),
    ):
        assert run(made()) == 20
        assert run(made()) == 0
    assert run(backbone(network(), batch_size=7)) == 0
    features = store.extract(backbone(network()).fit(images), images).features
    expected = backbone(network()).fit(images).transform(images)
    np.testing.assert_array_equal(features, expected)

    class Factor(torch.nn.Sequential):
        def forward(self, x):
            return super().forward(x) * float(os.environ["FACTOR"])

    def factor():
        return backbone(Factor(*network()), classifier=None)

    monkeypatch.setenv("FACTOR", "1")
    assert [run(factor()), run(factor())] == [20, 0]
    monkeypatch.setenv("FACTOR", "2")
    with pytest.warns(StaleCacheWarning):
        assert run(factor()) == 20


@pytest.mark.parametrize("where", ["images", "files"])
def test_a_network_is_not_run_again_on_moved_files(store, tmp_path, where):
    pytest.importorskip("torch")
    Image = pytest.importorskip("PIL.Image")
    from sktransfer.backbones import TinyZooBackbone

    rng = np.random.default_rng(0)
    (tmp_path / "a").mkdir()
    for i in range(12):
        Image.fromarray(rng.integers(0, 255, (9, 9), np.uint8)).save(tmp_path / "a" / f"{i}.png")

    def data(folder):
        paths = [str(tmp_path / folder / f"{i}.png") for i in range(12)]
        return paths if where == "files" else [Image.open(path) for path in paths]

    candidate = TinyZooBackbone("mnist_half")
    assert runs(store, candidate, data("a"), just_fitted=True) == 12
    (tmp_path / "a").rename(tmp_path / "b")
    assert runs(store, candidate, data("b"), just_fitted=True) == 0
