"""The store of a robustness study: continued, never mixed, whole after any crash."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from sktransfer.backbones import FeatureStore, PrecomputedFeatures
from sktransfer.exceptions import CandidateFailedWarning
from sktransfer.metrics import NCTI, HScore
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktransfer.exceptions.UninformativeScoreWarning",
    "ignore::sktransfer.exceptions.SingletonClassWarning",
)

DIGITS, LABELS = load_digits(n_class=3, return_X_y=True)
DIGITS, LABELS = DIGITS[:80] / 16, LABELS[:80]


def candidates(n=3):
    return [(f"from{i}", PrecomputedFeatures(DIGITS[:, i : i + 12])) for i in (20, 3, 40)[:n]]


def subsets(fractions=(0.3, 0.6), n_repeats=2, **options):
    return NestedStratifiedSubsets(fractions, n_repeats, **options)


def study(store=None, given=None, metrics=("hscore", "ncti"), splitter=None, **options):
    given = candidates() if given is None else given
    metrics = list(metrics) if isinstance(metrics, tuple) else metrics
    return RobustnessStudy(given, metrics, splitter or subsets(), store=store, **options)


def run(store=None, *args, target="digits", X=DIGITS, y=LABELS, groups=None, **options):
    return study(store, *args, **options).run(X, y, target=target, groups=groups)


def untimed(found):
    return found.to_frame().drop(columns="seconds").to_csv(index=False)


def dump(path):
    """All that is in a store."""
    connection = sqlite3.connect(path)
    lines = list(connection.iterdump())
    connection.close()
    return lines


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.sqlite"


# -- continuing ------------------------------------------------------------------------------------


def test_a_finished_study_is_read_and_not_computed_again(path):
    first = run(path)
    assert first.n_computed_ == 2 * 3 * 5
    before = dump(path)
    again = run(str(path))
    assert again.n_computed_ == 0
    assert dump(path) == before
    assert untimed(again) == untimed(first) == untimed(run())
    assert [entry.name for entry in path.parent.iterdir()] == ["study.sqlite"]
    opened = RobustnessStudy.open(path)
    assert untimed(opened) == untimed(first)
    assert opened.rankings().equals(first.rankings())
    assert untimed(study(path)) == untimed(first)
    with pytest.raises(ValueError, match="'candidates' must be a non-empty list"):
        opened.run(DIGITS, LABELS)


def splits_of(*n_repeats, fractions=(0.3, 0.6)):
    return {"splitter": subsets(fractions, *n_repeats)}


@pytest.mark.parametrize(
    ("fewer", "more", "n_new"),
    [
        ({"given": candidates(2)}, {}, 2 * 5),
        ({"metrics": ("hscore",)}, {}, 3 * 5),
        (splits_of(1), splits_of(3), 2 * 3 * 4),
        (splits_of(2, fractions=[0.6]), splits_of(2, fractions=(0.3, 0.6, 0.8)), 2 * 3 * 4),
        ({"include_full": False}, {}, 2 * 3),
        ({"target": "another"}, {}, 2 * 3 * 5),
    ],
)
def test_more_of_everything_continues(fewer, more, n_new, path):
    run(path, **fewer)
    found = run(path, **more)
    assert found.n_computed_ == n_new
    fresh = run(**more)
    if "target" in fewer:
        fresh.run(DIGITS, LABELS, target="another")
    assert untimed(found) == untimed(fresh) == untimed(RobustnessStudy.open(path))


def test_a_pool_is_combined_again_when_a_candidate_joins(path):
    run(path, candidates(2))
    two = untimed(RobustnessStudy.open(path))
    assert two == untimed(run(None, candidates(2)))

    # The third one is planned, and the run ends before it is there: its pool has no scores yet.
    class Ends(PrecomputedFeatures):
        def fit(self, X, y=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, [*candidates(2), ("from40", Ends())])
    frame = RobustnessStudy.open(path).to_frame()
    assert set(frame["metric"]) == {"hscore"}
    # Those who ask for two still have them.
    assert untimed(study(path, candidates(2))) == two
    assert untimed(run(path, candidates(2))) == two
    assert untimed(RobustnessStudy.open(path)) == two
    assert untimed(run(path)) == untimed(run())


def test_failed_cells_are_kept(path):
    given = [("short", PrecomputedFeatures(DIGITS[:50])), *candidates(1)]
    with pytest.warns(CandidateFailedWarning, match="10 cells of target 'digits'"):
        run(path, given)
    with pytest.warns(CandidateFailedWarning, match="10 cells of target 'digits'"):
        found = run(path, given)
    assert found.n_computed_ == 0
    given = [("short", PrecomputedFeatures(DIGITS[:, 3:15])), *candidates(1)]
    mended = study(path, given).run(DIGITS, LABELS, target="digits", retry_failed=True)
    assert mended.n_computed_ == 10
    assert untimed(mended) == untimed(run(None, given))


# -- changed inputs --------------------------------------------------------------------------------


def scaled(X):
    return X[:, :12] * 2.0


def rotated(X):
    return X[:, :12] @ np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))[0]


class OtherSubsets(NestedStratifiedSubsets):
    """Other rows under the same parameters."""

    def split(self, X, y=None, groups=None):
        for indices, fraction, repeat in super().split(X, y, groups):
            yield (indices + 1) % len(y), fraction, repeat


def two(learning, other):
    return {"given": [("a", learning), ("b", other)]}


CHANGES = {
    "rows": ({}, {"X": DIGITS + 1e-9}, "target 'digits': the data X changed"),
    "number": (
        two(PCA(2), PCA(3)),
        two(PCA(2), PCA(3)) | {"X": DIGITS[:70], "y": LABELS[:70]},
        "had 80 samples and has 70",
    ),
    "labels": ({}, {"y": np.roll(LABELS, 1)}, "target 'digits': the labels y changed"),
    "groups": ({}, {"groups": np.arange(80)}, "target 'digits': the groups changed"),
    "seed of subsets": (
        {},
        {"splitter": subsets(random_state=1)},
        r"the parameter 'random_state' of the subsets changed \(0 before, 1 now\)",
    ),
    "kind of subsets": (
        {},
        {"splitter": OtherSubsets((0.3, 0.6), 2)},
        "the kind of subsets changed",
    ),
    "drawn subsets": (
        {"splitter": subsets(random_state=None)},
        {"splitter": subsets(random_state=None)},
        "the subset of fraction 0.3 and repeat 0 has other rows",
    ),
    "metric": (
        {},
        {"metrics": [HScore(shrinkage=0.5), "ncti"]},
        "metric 'hscore': the parameter 'shrinkage' was None and is 0.5",
    ),
    "kind of metric": (
        {"metrics": {"m": HScore()}},
        {"metrics": {"m": NCTI()}},
        "metric 'm': the class was HScore and is NCTI",
    ),
    "study's seed": (
        {"metrics": ("nleep",)},
        {"metrics": ("nleep",), "random_state": 1},
        "metric 'nleep': the study's 'random_state' was 0 and is 1",
    ),
    "features": (
        {},
        {"given": [("from20", PrecomputedFeatures(DIGITS[:, 21:33]))]},
        "candidate 'from20': its features changed",
    ),
    "parameter": (
        two(PCA(2), PCA(3)),
        two(PCA(2), PCA(4)),
        r"candidate 'b': repr was PCA\(n_components=3\) and is PCA\(n_components=4\)",
    ),
    "code": (
        two(FunctionTransformer(scaled), PCA(3)),
        two(FunctionTransformer(rotated), PCA(3)),
        "candidate 'a': .*scaled.* and is .*rotated",
    ),
    "learned state": (
        two(FrozenEstimator(PCA(2).fit(DIGITS)), PCA(3)),
        two(FrozenEstimator(PCA(2).fit(DIGITS[::2])), PCA(3)),
        "candidate 'a': its code, or the content of a parameter, changed",
    ),
    "kind": (
        two(PCA(2), PCA(3)),
        two(PCA(2), PrecomputedFeatures(DIGITS)),
        "candidate 'b': class was sklearn.decomposition",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_inputs_are_named_and_never_mixed(name, path):
    before, now, words = CHANGES[name]
    run(path, **before)
    rows = dump(path)
    with pytest.raises(ValueError, match=f"(?s)study.sqlite' holds results of other .*{words}"):
        run(path, **now)
    assert dump(path) == rows


def test_a_candidate_is_the_same_on_all_targets(path):
    run(path, [("a", PCA(2))], target="one")
    with pytest.raises(ValueError, match=r"candidate 'a': repr was PCA\(n_components=2\)"):
        run(path, [("a", PCA(3))], target="two")
    assert RobustnessStudy.open(path).to_frame()["target"].unique() == ["one"]


def test_all_differences_are_named(path):
    run(path)
    metrics = {"hscore": HScore(0.1), "ncti": NCTI(n_components=2)}
    words = "(?s)labels y changed; metric 'hscore'.*; metric 'ncti'.* another store"
    with pytest.raises(ValueError, match=words):
        run(path, metrics=metrics, y=np.roll(LABELS, 1))
    found = study(path, metrics=metrics)
    with pytest.raises(ValueError, match="has results of another metric 'hscore'"):
        found.to_frame()


def test_other_versions_are_named(path):
    run(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE versions SET version = '1.99' WHERE package = 'numpy'")
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match="the version of numpy was 1.99 and is "):
        run(path)
    assert len(RobustnessStudy.open(path).to_frame()) == 30


class Opaque(float):
    """A number that nobody can take apart."""

    def __reduce_ex__(self, protocol):
        raise TypeError("no")

    def __deepcopy__(self, memo):
        return self


def test_what_cannot_be_told_from_others_is_refused(path):
    generator = (i for i in range(3))
    with pytest.raises(ValueError, match="candidate 'a' cannot be told from others"):
        run(path, [("a", FunctionTransformer(kw_args={"g": generator}))])
    with pytest.raises(ValueError, match="data of target 'digits' cannot be told from others"):
        run(path, X=[generator] * 80)
    metric = HScore(Opaque(0.1))
    with pytest.raises(ValueError, match="metric 'm' cannot be told from others"):
        run(path, metrics={"m": metric})
    assert not path.exists()


# -- the file --------------------------------------------------------------------------------------


def test_files_that_are_something_else(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("no database, but long enough to be looked at as if it were one" * 50)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.commit()
    newer = tmp_path / "newer.sqlite"
    run(newer)
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for place, words in [
        (text, "not a database"),
        (other, "another SQLite database"),
        (newer, "has format 99"),
        (tmp_path, "unable to open"),
        (tmp_path / "no folder" / "study.sqlite", "unable to open"),
    ]:
        before = place.read_bytes() if place.is_file() else None
        with pytest.raises(ValueError, match=f"store.*{words}"):
            run(place)
        if before is not None:
            assert place.read_bytes() == before
            with pytest.raises(ValueError, match=words):
                RobustnessStudy.open(place)
    with pytest.raises(ValueError, match="no file"):
        RobustnessStudy.open(tmp_path / "nothing.sqlite")
    empty = tmp_path / "100 % & more?.sqlite"
    empty.touch()  # a run was killed before it wrote anything
    assert run(empty).n_computed_ == 30


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_to_is_read(path):
    expected = untimed(run(path))
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        assert untimed(RobustnessStudy.open(path)) == expected
        with pytest.raises(ValueError, match="that can be made and written to"):
            run(path, metrics=("hscore", "ncti", "logme"))
    finally:
        path.parent.chmod(0o700)


class Reads(TransformerMixin, BaseEstimator):
    """Looks into the store when it is its turn."""

    def __init__(self, place):
        self.place = place

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        frame = RobustnessStudy.open(self.place).to_frame()
        counts = frame["candidate"].value_counts().to_dict()
        Path(self.place).with_suffix(".json").write_text(json.dumps(counts))
        return X[:, :5]


def test_a_store_can_be_read_while_it_is_written(path):
    run(path, [*candidates(2), ("reads", Reads(str(path)))], metrics=("hscore",))
    seen = json.loads(path.with_suffix(".json").read_text())
    assert seen == {"from20": 5, "from3": 5}


# -- forward passes --------------------------------------------------------------------------------


class Counts(FunctionTransformer):
    """Learns nothing, and counts the rows that go through it."""

    n_rows = 0

    def transform(self, X):
        Counts.n_rows += len(X)
        return super().transform(X)[:, :12]


def test_a_candidate_is_run_once_for_all_subsets(path, tmp_path):
    given = [("counts", Counts(np.abs)), *candidates(2)]
    Counts.n_rows = 0
    run(path, given)
    assert Counts.n_rows == 80
    run(path, given)
    assert Counts.n_rows == 80
    # Features that nobody kept are extracted again for what is new, and have to be the same.
    run(path, given, metrics=("hscore", "ncti", "logme"))
    assert Counts.n_rows == 160
    memory = FeatureStore(tmp_path / "features")
    for n_repeats in (1, 2, 3):
        run(tmp_path / "two.sqlite", given, splitter=subsets(n_repeats=n_repeats), memory=memory)
    assert Counts.n_rows == 240


class Unsteady(Counts):
    """Gives other features each time."""

    def transform(self, X):
        return super().transform(X) + 1e-12 * Counts.n_rows


def test_features_that_differ_from_those_of_before_are_refused(path):
    run(path, [("unsteady", Unsteady(np.abs))])
    rows = dump(path)
    with pytest.raises(ValueError, match="'unsteady' gives other features for target 'digits'"):
        run(path, [("unsteady", Unsteady(np.abs))], metrics=("hscore", "ncti", "logme"))
    assert len(dump(path)) == len(rows) + 1  # the new metric is known by name


# -- killed ----------------------------------------------------------------------------------------

SCRIPT = """
import os, signal, sys, warnings

warnings.simplefilter("ignore")
import numpy as np
from sklearn.datasets import load_digits
from sklearn.random_projection import GaussianRandomProjection
from sktransfer.backbones import PrecomputedFeatures
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

X, y = load_digits(n_class=3, return_X_y=True)
X, y = X[:100] / 16, y[:100]
given = [(f"from{i}", PrecomputedFeatures(X[:, i : i + 20])) for i in (0, 20, 40)]
given.append(("random", GaussianRandomProjection(5)))
splitter = NestedStratifiedSubsets((0.3, 0.5, 0.8), 3)

# Each line on standard input is a store for a run, in a process of its own that can be killed.
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        metrics = ["hscore", "ncti"]
        study = RobustnessStudy(given, metrics, splitter, store=line[:-1])
        study.run(X, y, target="one").run(X, np.roll(y, 1), target="two")
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("over", flush=True)
"""
N_CELLS = 2 * 2 * 4 * 10


def n_recorded(path):
    try:
        connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=10)
        try:
            return connection.execute("SELECT count(*) FROM cells").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError:  # no table yet
        return 0


def killed_and_resumed(folder, n_kills, seed):
    """Kill a study at random moments; return the table, and how many cells there were each time."""
    rng = random.Random(seed)
    whole, broken = folder / "whole.sqlite", folder / "broken.sqlite"
    moments = []
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as server:

        def begin(path):
            server.stdin.write(f"{path}\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        begin(whole)
        assert server.stdout.readline() == "over\n"
        for place in range(n_kills):
            child = begin(broken)
            wanted = N_CELLS * (place + rng.random()) / (n_kills + 1)
            deadline = time.monotonic() + 240
            while n_recorded(broken) < wanted and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            assert server.stdout.readline() == "over\n"
            moments.append(n_recorded(broken))
        begin(broken)
        assert server.stdout.readline() == "over\n"
        server.stdin.close()
    tables = [untimed(RobustnessStudy.open(path)) for path in (whole, broken)]
    return tables, moments


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_the_result_is_the_same(tmp_path):
    (expected, found), moments = killed_and_resumed(tmp_path, n_kills=3, seed=0)
    assert len(expected.splitlines()) == N_CELLS + 1
    assert found == expected
    assert moments == sorted(moments)
    assert 0 < moments[1] < moments[-1] < N_CELLS


class Suicidal(HScore):
    """Ends the process that it runs in, once, or once for each number of samples."""

    def __init__(self, place="", shrinkage=None):
        super().__init__(shrinkage)
        self.place = place

    def _score_moments(self):
        place, n_samples = Path(self.place), self.moments_.n_samples
        place = place.with_suffix(f".{n_samples}") if place.suffix == ".each" else place
        if n_samples in (48, 80 if place.suffix else 48) and not place.exists():
            place.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super()._score_moments()


def test_workers_that_are_killed_cost_nothing(path, tmp_path):
    given = {"s": Suicidal(str(tmp_path / "killed.each"))}
    with parallel_config("loky", n_jobs=2):
        found = run(path, metrics=given)
    assert {file.name for file in tmp_path.glob("killed*")} == {f"killed.{n}" for n in (48, 80)}
    assert untimed(found) == untimed(run(metrics=given))


class Deadly(HScore):
    """Ends every process that it runs in, but for small subsets."""

    def _score_moments(self):
        if self.moments_.n_samples == 80:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._score_moments()


def test_what_kills_every_worker_ends_the_run_and_the_others_are_kept(path):
    once = subsets((0.3,), 1)
    with parallel_config("loky", n_jobs=2), pytest.raises(BrokenExecutor) as raised:
        run(path, candidates(1), metrics={"d": Deadly()}, splitter=once)
    assert raised.value.__notes__ == [
        f"The store {str(path)!r} has the results so far; a further run continues."
    ]


class AtHome(HScore):
    """Cannot be taken to another process."""

    def __init__(self, home=0, shrinkage=None):
        super().__init__(shrinkage)
        self.home = home

    def __setstate__(self, state):
        if state["home"] != os.getpid():
            raise RuntimeError("not here")
        super().__setstate__(state)


def test_what_does_not_travel_is_scored_here(path):
    given = {"h": AtHome(os.getpid())}
    with parallel_config("loky", n_jobs=2):
        found = run(path, candidates(1), metrics=given)
    assert untimed(found) == untimed(run(None, candidates(1), metrics=given))


@pytest.mark.filterwarnings("ignore")  # of those who deprecate within dask and tornado
def test_a_cluster_of_which_a_worker_is_killed(path, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs dask and distributed")
    import dask

    given = {"s": Suicidal(str(tmp_path / "killed")), "ncti": NCTI()}
    quiet = {"distributed.admin.log-format": "", "distributed.worker.memory.terminate": False}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        parallel_config("dask"),
    ):
        found = run(path, metrics=given)
    assert (tmp_path / "killed").exists()
    assert untimed(found) == untimed(run(metrics=given))
