"""reference_ranking with a folder: killed, continued, added to, and never mixed up."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from filelock import FileLock
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer
from skorch.callbacks import EarlyStopping
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.exceptions import CandidateFailedWarning, DamagedResultWarning
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.utils._progress import rows_reported_to

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 6)).astype(np.float32)
Y = np.array(["b", "c", "a"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
DATA = X[:30], Y[:30], X[30:], Y[30:]


def network(seed, width=8):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 4))


FOUND = {"one": TorchBackbone(network(1)), "two": TorchBackbone(network(2))}


class Seen(list):
    """How many units are done, each time that one is."""

    def __call__(self, n_done, n_units):
        self.append(n_done)


def ranked(out, found=None, data=DATA, **options):
    settings = {"max_epochs": 3, **options.pop("settings", {})}
    options = {"estimator": FineTuneClassifier(None, **settings), "n_seeds": 2} | options
    return reference_ranking(found or FOUND, *data, out=out, energy=False, **options)


def values(ranking):
    return {(r.candidate, r.measure, r.seed): r.value for r in ranking.rows}


def state_of(folder):
    """Give what is in the units and the description, and when it was written."""
    files = [*sorted((folder / "units").iterdir()), folder / "run.json"]
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# -- going on ------------------------------------------------------------------------------------


def test_nothing_is_done_twice(tmp_path):
    first = ranked(tmp_path / "out")
    before = state_of(tmp_path / "out")
    again = ranked(str(tmp_path / "out"))
    assert state_of(tmp_path / "out") == before
    assert again.rows == first.rows  # seconds too
    assert again.protocol == first.protocol
    assert values(first) == values(ranked(None))


def test_more_candidates_seeds_and_measures_are_added(tmp_path):
    ranked(tmp_path, {"one": FOUND["one"]}, n_seeds=1, scoring="accuracy")
    before = state_of(tmp_path)
    scoring = ["neg_log_loss", "accuracy", "roc_auc_ovr"]
    more = {"three": TorchBackbone(network(3, width=4)), **FOUND}
    grown = ranked(tmp_path, more, n_seeds=2, scoring=scoring)
    assert values(grown) == values(ranked(None, more, n_seeds=2, scoring=scoring))
    after = state_of(tmp_path)
    del before["run.json"]
    assert before.items() <= after.items()
    # The first call again, in a folder that holds more than it asks for.
    fewer = ranked(tmp_path, {"one": FOUND["one"]}, n_seeds=1, scoring="accuracy")
    assert state_of(tmp_path) == after
    assert fewer.candidates == ("one",) and len(fewer.rows) == 2


def test_a_measure_is_added_without_any_training(tmp_path, monkeypatch):
    ranked(tmp_path, scoring="accuracy")

    def untouchable(*args, **kwargs):
        raise AssertionError("nothing has to be trained")

    monkeypatch.setattr(FineTuneClassifier, "fit", untouchable)
    got = ranked(tmp_path, scoring=["accuracy", "neg_log_loss"])
    monkeypatch.undo()
    assert values(got) == values(ranked(None, scoring=["accuracy", "neg_log_loss"]))


def test_the_same_network_under_two_names_is_trained_once(tmp_path):
    twice = {"one": FOUND["one"], "same": TorchBackbone(network(1), batch_size=7)}
    seen = Seen()
    with rows_reported_to(seen):
        got = ranked(tmp_path, twice, n_seeds=1)
    assert seen == [1, 2]
    assert got.reference()["one"] == got.reference()["same"]
    # Another name is no other network.
    before = state_of(tmp_path)
    renamed = ranked(tmp_path, {"a / new: name?": FOUND["one"]}, n_seeds=1)
    assert list(renamed.reference().values()) == [got.reference()["one"]]
    after = state_of(tmp_path)
    assert {name: after[name] for name in before if name != "run.json"} == {
        name: entry for name, entry in before.items() if name != "run.json"
    }


def test_a_seed_that_was_drawn_is_taken_again(tmp_path):
    first = ranked(tmp_path, random_state=None)
    assert ranked(tmp_path, random_state=None).rows == first.rows
    drawn = first.protocol["random_state"]
    assert ranked(tmp_path, random_state=drawn).rows == first.rows


def test_interrupted_in_the_middle(tmp_path):
    class Impatient:
        def __call__(self, n_done, n_units):
            if n_done == 3:
                raise KeyboardInterrupt

    with rows_reported_to(Impatient()), pytest.raises(KeyboardInterrupt):
        ranked(tmp_path)
    before = state_of(tmp_path)
    assert len(before) == 3 + 1
    got = ranked(tmp_path)
    assert values(got) == values(ranked(None))
    assert before.items() <= state_of(tmp_path).items()


SCRIPT = """
    import sys
    import numpy as np
    import torch
    from torch import nn
    from sktransfer.backbones import TorchBackbone
    from sktransfer.finetune import FineTuneClassifier, reference_ranking

    torch.set_num_threads(1)
    with np.load(sys.argv[1]) as data:
        data = [data[name] for name in ("X", "y", "X_test", "y_test")]
    found = {}
    for name, seed in (("one", 1), ("two", 2)):
        torch.manual_seed(seed)
        found[name] = TorchBackbone(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)))
    print("begin", flush=True)
    ranking = reference_ranking(
        found, *data, estimator=FineTuneClassifier(None, max_epochs=40), n_seeds=4,
        out=sys.argv[2], energy=False, verbose=1,
    )
    print("end", flush=True)
"""


@pytest.fixture
def process(tmp_path):
    """The script, begun."""
    np.savez(tmp_path / "data.npz", **dict(zip(("X", "y", "X_test", "y_test"), DATA, strict=True)))
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    arguments = [tmp_path / "script.py", tmp_path / "data.npz", tmp_path / "out"]
    begun = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    yield begun
    begun.kill()
    begun.wait()
    begun.stdout.close()


def test_killed_and_then_done_by_two(tmp_path, process, monkeypatch):
    out = tmp_path / "out"
    while "[2/" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = state_of(out)
    n_done = len(before) - 1
    assert 2 <= n_done < 12
    trained, fit = [], FineTuneClassifier.fit

    def counting(self, *args, **kwargs):
        trained.append(self.random_state)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(FineTuneClassifier, "fit", counting)
    # Locks of files keep threads apart as they do processes.
    with ThreadPoolExecutor(2) as pool:
        settings = {"n_seeds": 4, "settings": {"max_epochs": 40}}
        both = [pool.submit(ranked, out, **settings) for _ in range(2)]
    got = [one.result() for one in both]
    assert len(trained) == 12 - n_done
    assert before.items() <= state_of(out).items()
    assert len(list((out / "units").iterdir())) == 12
    assert got[0].rows == got[1].rows  # seconds too: each was done once
    assert values(got[0]) == values(ranked(None, **settings))


def test_what_another_process_does_is_waited_for(tmp_path):
    ranked(tmp_path, {"one": FOUND["one"]}, n_seeds=1, from_scratch=False)
    (unit,) = (tmp_path / "units").iterdir()
    content = unit.read_bytes()
    unit.unlink()
    lock = FileLock(tmp_path / "locks" / f"{unit.stem}.lock")
    lock.acquire()

    class Other:
        """Takes its time, and is done when all else here is."""

        def __call__(self, n_done, n_units):
            if n_done == n_units - 1 and lock.is_locked:
                unit.write_bytes(content)
                lock.release()

    with rows_reported_to(Other()):
        got = ranked(tmp_path, n_seeds=1, from_scratch=False)
    assert unit.read_bytes() == content
    assert values(got) == values(ranked(None, n_seeds=1, from_scratch=False))


# -- never mixed up ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"settings": {"lr": 0.5}}, "parameters['lr'] was 0.001 and is 0.5"),
        ({"settings": {"train": "head"}}, "parameters['train'] was 'full' and is 'head'"),
        ({"random_state": 7}, "random_state was 0 and is 7"),
        ({"n_threads": 2}, "n_threads was 1 and is 2"),
        ({"data": (X[:30] + 1, *DATA[1:])}, "X is other data"),
        ({"data": (DATA[0], Y[:30][::-1], *DATA[2:])}, "y is other data"),
        ({"data": (*DATA[:2], X[30:] * 2, DATA[3])}, "X_test is other data"),
        ({"data": (*DATA[:3], np.roll(DATA[3], 1))}, "y_test is other data"),
        ({"X_val": X[:9], "y_val": Y[:9]}, "X_val is other data"),
        ({"found": {"one": TorchBackbone(network(9))}}, "candidate 'one' has other weights"),
        (
            {"found": {"one": TorchBackbone(network(1), layer="0")}},
            "candidate 'one' has other settings",
        ),
    ],
)
def test_other_work_is_refused(tmp_path, options, named):
    ranked(tmp_path, n_seeds=1)
    before = state_of(tmp_path)
    with pytest.raises(ValueError, match="'out' holds results that cannot be continued") as raised:
        ranked(tmp_path, n_seeds=1, **options)
    assert named in str(raised.value) and str(tmp_path) in str(raised.value)
    assert state_of(tmp_path) == before


def test_other_versions_are_refused(tmp_path, monkeypatch):
    ranked(tmp_path, n_seeds=1)
    monkeypatch.setattr(
        "sktransfer.finetune._reference_protocol.versions",
        lambda *names: {**dict.fromkeys(names, "1.0"), "torch": "99.0"},
    )
    with pytest.raises(ValueError, match=r"versions\['torch'\] was '2.*' and is '99.0'"):
        ranked(tmp_path, n_seeds=1)


def test_parameters_of_any_kind(tmp_path):
    one = {
        "class_weight": {"a": 2.0, "b": 1, "c": 1.0},
        "callbacks": [("stop", EarlyStopping("train_loss"))],
    }
    first = ranked(tmp_path, n_seeds=1, settings=one)
    assert ranked(tmp_path, n_seeds=1, settings=one).rows == first.rows
    other = {**one, "callbacks": [("stop", EarlyStopping("train_loss", patience=9))]}
    with pytest.raises(ValueError, match=r"parameters\['callbacks'\] was .*EarlyStopping"):
        ranked(tmp_path, n_seeds=1, settings=other)
    other = {**one, "class_weight": {"a": 2.0, "b": 1, "c": 3.0}}
    with pytest.raises(ValueError, match=r"\['class_weight'\]\['c'\] was 1.0 and is 3.0"):
        ranked(tmp_path, n_seeds=1, settings=other)


def test_what_decides_nothing_may_change(tmp_path):
    first = ranked(tmp_path, n_seeds=1)
    settings = {"n_workers": 1, "verbose": False, "device": "cpu", "cache": False}
    other_form = X[:30].tolist(), Y[:30].tolist(), DATA[2], list(DATA[3])
    got = ranked(tmp_path, n_seeds=1, settings=settings, verbose=False)
    assert got.rows == first.rows
    labels = ranked(tmp_path, n_seeds=1, data=(DATA[0], other_form[1], DATA[2], other_form[3]))
    assert labels.rows == first.rows


@pytest.mark.parametrize("train", ["full", "head"])
def test_the_order_in_memory_decides_nothing(tmp_path, train):
    def go(change, **options):
        data = (change(X[:30]), Y[:30], change(X[30:]), Y[30:])
        options = {"settings": {"train": train}, "n_seeds": 1, "scoring": "neg_log_loss"} | options
        found = {**FOUND, "pca": PCA(3)} if train == "head" else FOUND
        return ranked(found=found, data=data, **{"out": None, **options})

    expected = go(np.ascontiguousarray, out=tmp_path)
    strided = go(lambda part: np.repeat(part, 2, axis=1)[:, ::2])
    in_columns = go(np.asfortranarray)
    continued = go(np.asfortranarray, out=tmp_path)
    assert values(strided) == values(in_columns) == values(expected)
    assert continued.rows == expected.rows
    assert strided.protocol["data"] == in_columns.protocol["data"] == expected.protocol["data"]


def test_a_frame_gives_the_same_values_and_is_told_from_an_array(tmp_path):
    pandas = pytest.importorskip("pandas")
    data = (pandas.DataFrame(X[:30]), Y[:30], pandas.DataFrame(X[30:]), Y[30:])
    options = {"n_seeds": 1, "scoring": "neg_log_loss"}
    assert values(ranked(None, data=data, **options)) == values(ranked(tmp_path, **options))
    with pytest.raises(ValueError, match="X is other data; X_test is other data"):
        ranked(tmp_path, data=data, **options)


def test_transformers_are_known_by_their_parameters_and_code(tmp_path):
    def doubled(X):
        return 2 * X

    def tripled(X):
        return 3 * X

    def go(function, n_components=2):
        found = {"pca": PCA(n_components, random_state=0), "own": FunctionTransformer(function)}
        return ranked(tmp_path, found, n_seeds=1, settings={"train": "head"})

    first = go(doubled)
    assert go(doubled).rows == first.rows
    with pytest.raises(ValueError, match="candidate 'own' has other settings"):
        go(tripled)
    with pytest.raises(ValueError, match="candidate 'pca' has other settings"):
        go(doubled, 3)
    with pytest.warns(CandidateFailedWarning, match="'own' has failed.*Nothing tells this"):
        go((row for row in ()).send)


def test_a_folder_that_is_something_else(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="'out' must be a folder that can be made and written to"):
        ranked(tmp_path / "file")
    with pytest.raises(ValueError, match="'out' must be the name of a folder, or None. Got ''"):
        ranked("")
    (tmp_path / "run.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="no description of a reference ranking.*format 99"):
        ranked(tmp_path)
    (tmp_path / "run.json").write_text('{"form')
    with pytest.raises(ValueError, match="no description of a reference ranking"):
        ranked(tmp_path, random_state=None)
    assert (tmp_path / "run.json").read_text() == '{"form'


# -- damage and failures -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"about", b"ab0ut"),
        lambda content: content[:200] + b"XXXX" + content[204:],
    ],
)
def test_a_damaged_unit_is_done_again(tmp_path, spoil):
    first = ranked(tmp_path, n_seeds=1)
    unit = sorted((tmp_path / "units").iterdir())[0]
    unit.write_bytes(spoil(unit.read_bytes()))
    with pytest.warns(DamagedResultWarning, match="is damaged") as caught:
        again = ranked(tmp_path, n_seeds=1)
    assert caught[0].filename == __file__
    assert values(again) == values(first)
    assert values(ranked(tmp_path, n_seeds=1)) == values(first)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_result_of_another_unit_is_damage(tmp_path, is_old):
    first = ranked(tmp_path, n_seeds=1)
    one, other = sorted((tmp_path / "units").iterdir())[:2]
    with np.load(other) as arrays:
        about, outputs = json.loads(arrays["about"].tobytes()), arrays["outputs"]
    assert about["unit"] == other.stem
    if is_old:  # a folder of a version that did not write down the name
        del about["unit"]
    about = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    for path in (one, other):
        np.savez(path, about=about, outputs=outputs)
    with pytest.warns(DamagedResultWarning, match="is damaged") as caught:
        again = ranked(tmp_path, n_seeds=1)
    assert [one.name in str(w.message) for w in caught] == [True]
    assert values(again) == values(first)


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    ranked(tmp_path, n_seeds=1)
    unit = sorted((tmp_path / "units").iterdir())[0]
    unit.rename(unit.with_name(f"{unit.name}.99999.tmp"))
    ranked(tmp_path, n_seeds=1)
    assert all(path.suffix == ".npz" for path in (tmp_path / "units").iterdir())


class Fickle(nn.Module):
    """Fails in training until the world is another."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        if self.training and "BAD_DAY" in os.environ:
            raise RuntimeError("not today")
        return self.last(torch.relu(self.first(x)))


def test_failures_are_kept_and_tried_again_when_asked(tmp_path, monkeypatch):
    found = {"fickle": TorchBackbone(Fickle), "one": FOUND["one"]}
    options = {"n_seeds": 1, "from_scratch": False}
    monkeypatch.setenv("BAD_DAY", "1")
    with pytest.warns(CandidateFailedWarning, match="not today"):
        ranked(tmp_path, found, **options)
    before = state_of(tmp_path)
    monkeypatch.delenv("BAD_DAY")
    with pytest.warns(CandidateFailedWarning, match="not today"):
        ranked(tmp_path, found, **options)
    assert state_of(tmp_path) == before
    got = ranked(tmp_path, found, retry_failed=True, **options)
    assert np.isfinite(list(got.reference().values())).all() and not got.failures
    assert got.rows == ranked(tmp_path, found, **options).rows


def test_a_candidate_that_could_not_be_built_comes_later(tmp_path):
    checkpoint = tmp_path / "weights.pt"
    late = TorchBackbone(network(5), checkpoint=checkpoint)
    with pytest.warns(CandidateFailedWarning, match="'late' has failed"):
        ranked(tmp_path / "out", {"late": late, **FOUND})
    torch.save(network(6).state_dict(), checkpoint)
    got = ranked(tmp_path / "out", {"late": late, **FOUND})
    assert np.isfinite(got.reference()["late"])


def test_units_hold_no_pickles(tmp_path):
    ranked(tmp_path, n_seeds=1)
    for path in (tmp_path / "units").iterdir():
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            assert arrays["outputs"].shape == (20, 3)
        assert about["failure"] is None and about["seed"] == 0
        assert os.path.getsize(path) < 5000


def test_time_is_measured(tmp_path):
    begin = time.perf_counter()
    got = ranked(tmp_path, n_seeds=1)
    total = sum(row.seconds for row in got.rows if row.measure == "accuracy")
    assert 0 < total < time.perf_counter() - begin


@pytest.mark.parametrize("place", ["unit", "unit lock", "run.json", "locks/run.lock"])
def test_a_folder_in_the_place_of_a_file(tmp_path, place):
    ranked(tmp_path, n_seeds=1)
    unit = sorted((tmp_path / "units").iterdir())[0]
    lock = tmp_path / "locks" / f"{unit.stem}.lock"
    path = {"unit": unit, "unit lock": lock}.get(place, tmp_path / place)
    path.unlink(missing_ok=True)
    path.mkdir()
    name = re.escape(str(path.relative_to(tmp_path)))
    with pytest.raises(ValueError, match=f"^'out' is .*{name}' is a folder in the place of a file"):
        ranked(tmp_path, n_seeds=1)


def test_damage_is_told_in_our_own_words(tmp_path):
    ranked(tmp_path, n_seeds=1)
    unit = sorted((tmp_path / "units").iterdir())[0]
    unit.write_bytes(b"no archive")
    with pytest.warns(DamagedResultWarning) as caught:
        ranked(tmp_path, n_seeds=1)
    told = str(caught[0].message)
    assert told.startswith(f"{unit} is damaged: it is not what was written. ")
    assert told.endswith("is trained again with seed 0.")
