"""``rank --cache`` and ``cache``: run once, found by any process, listed, verified, cleared."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")

from sktransfer.backbones import FeatureStore
from sktransfer.cli import main
from sktransfer.datasets import load_digits_target

ROOT = Path(__file__).parents[1]

# Rows that go through the network are written down, whatever the process; not those two at a time
# from which fit learns what the network is like.
COUNTED = """
import os, time
import torch
from torch import nn

class Counted(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.body = nn.Conv2d(1, 4, 5, stride=3)
        self.head = nn.Linear(4, 3)
        with torch.no_grad():
            for number, weights in enumerate(self.parameters()):
                weights.copy_(torch.cos(factor * (number + torch.arange(weights.numel())))
                              .reshape(weights.shape))

    def forward(self, x):
        if len(x) > 2:
            with open(os.environ["ROWS"], "a") as file:
                file.write(f"{len(x)}\\n")
            time.sleep(float(os.environ.get("SLOW", 0)))
        return self.head(self.body(x).relu().mean(dim=(2, 3)))

def one():
    return Counted(float(os.environ.get("FACTOR", 1)))
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of images, twelve of each of three classes."""
    path = tmp_path_factory.mktemp("images")
    target = load_digits_target()
    for label in range(3):
        (path / str(label)).mkdir()
        for number, image in enumerate(target.images_train[target.y_train == label][:12]):
            Image.fromarray(image).save(path / str(label) / f"{number}.png")
    return path


@pytest.fixture
def work(tmp_path, monkeypatch, images):
    """A working folder with a network whose rows are counted."""
    (tmp_path / "counted_networks.py").write_text(COUNTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROWS", str(tmp_path / "rows.txt"))
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", os.getcwd())])
    yield tmp_path
    sys.modules.pop("counted_networks", None)


def arguments(images, *more, cache="cache"):
    return [
        *("rank", "--data", str(images), "--candidates", "python:counted_networks:one"),
        *("tiny:mnist_half", "--mean", "0", "--std", "1", "--cache", str(cache), *more),
    ]


def n_rows(folder):
    """Rows that went through the counted network since the last question."""
    path = folder / "rows.txt"
    rows = sum(map(int, path.read_text().split())) if path.exists() else 0
    path.write_text("")
    return rows


def rank(capsys, images, *more, **options):
    sys.modules.pop("counted_networks", None)
    code = main(arguments(images, "--format", "csv", *more, **options))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    scores = [(row["candidate"], row["logme"]) for row in csv.DictReader(io.StringIO(captured.out))]
    return scores, captured.err


def other_process(images, *more, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "sktransfer", *arguments(images, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.mark.slow
def test_the_second_run_makes_no_forward_pass(capsys, images, work):
    first, err = rank(capsys, images)
    assert "features of 0 of 2 candidates came from the store.\n" in err
    assert n_rows(work) == 36
    again, err = rank(capsys, images)
    assert "features of 2 of 2 candidates came from the store.\n" in err
    assert n_rows(work) == 0
    assert first == again

    # folds, other metrics, another size of batches, a process of its own: the same features
    for more in (["--cv", "3"], ["--metric", "hscore", "leep"], ["--batch-size", "5"]):
        main(arguments(images, *more))
        assert "features of 2 of 2 candidates came" in capsys.readouterr().err
        assert n_rows(work) == 0
    process = other_process(images, "--format", "csv")
    out, err = process.communicate(timeout=120)
    assert "features of 2 of 2 candidates came from the store.\n" in err, err
    assert n_rows(work) == 0
    assert [row["logme"] for row in csv.DictReader(io.StringIO(out))] == [s for _, s in again]

    # quiet is quiet
    rank(capsys, images, "--quiet")
    assert main(arguments(images, "--quiet")) == 0
    assert capsys.readouterr().err == ""


def test_what_changes_is_run_again(capsys, images, work, monkeypatch):
    def came(*more):
        _, err = rank(capsys, own, *more)
        return int(re.search(r"features of (\d) of", err)[1])

    own = work / "own"
    subprocess.run(["cp", "-r", str(images), str(own)], check=True)
    assert [came(), came()] == [0, 2]

    monkeypatch.setenv("FACTOR", "2")  # other weights under the same name
    assert [came(), came()] == [1, 2]
    monkeypatch.delenv("FACTOR")
    assert came() == 2

    source = COUNTED.replace(".relu()", ".tanh()")  # other code with the same weights
    (work / "counted_networks.py").write_text(source)
    subprocess.run(["rm", "-rf", "__pycache__"], check=True)
    assert [came(), came()] == [1, 2]
    assert [came("--mean", "0.5"), came("--mean", "0.5")] == [1, 2]

    # another picture in a file of the same size and time
    path = own / "0" / "3.png"
    status, content = path.stat(), bytearray(path.read_bytes())
    other = Image.fromarray(255 - np.asarray(Image.open(path)))
    buffer = io.BytesIO()
    other.save(buffer, "png", compress_level=0)
    path.write_bytes(buffer.getvalue())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [came(), came()] == [0, 2]
    path.write_bytes(content)
    own.rename(work / "moved")
    own = work / "moved"
    assert came() == 2


@pytest.mark.slow
def test_two_processes_at_once_run_the_network_once(images, work):
    processes = [other_process(images, SLOW="0.5") for _ in range(2)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    came = sorted(re.search(r"features of (\d) of", err)[1] for _, err in results)
    assert came in (["0", "2"], ["1", "1"]), results
    assert n_rows(work) == 36
    tables = [re.sub(r"[0-9.]+ *$", "", out, flags=re.MULTILINE) for out, _ in results]
    assert tables[0] == tables[1]  # but for the seconds


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(capsys, images, work):
    process = other_process(images, "--batch-size", "4", SLOW="0.4")
    store = FeatureStore("cache")
    for _ in range(6000):  # a busy machine takes its time
        assert process.poll() is None, process.communicate()
        progress = list(Path("cache").rglob("progress.jsonl"))
        if progress and len(progress[0].read_bytes().splitlines()) >= 5:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = json.loads(progress[0].read_bytes().splitlines()[-1])["rows"][1]
    assert [entry.state for entry in store.entries()] == ["unfinished"] and 0 < done < 36
    n_rows(work)
    scores, _ = rank(capsys, images, "--batch-size", "4")
    assert n_rows(work) == 36 - done
    again, _ = rank(capsys, images, "--batch-size", "4", cache="another")
    assert scores == again
    parts = [sorted(path.rglob("features.npy")) for path in (Path("cache"), Path("another"))]
    assert [p.read_bytes() for p in parts[0]] == [p.read_bytes() for p in parts[1]]


def test_places_that_cannot_be_are_refused(capsys, images, work):
    (work / "file").write_text("")
    for place in ("file", "file/cache", "nul\0l"):
        assert main(arguments(images, cache=place)) == 2
        err = capsys.readouterr().err
        assert err.startswith("sktransfer: --cache: ") and err.count("\n") == 1
        assert "can't be made a folder that is written to" in err
    assert n_rows(work) == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_store_that_may_only_be_read(capsys, images, work):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        rank(capsys, images, cache=folder)
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o555)
            stack.callback(os.chmod, path, 0o755)
        if os.geteuid() == 0:  # who may write anywhere
            shared = Path(tempfile.gettempdir()).resolve()
            above = [path for path in work.parents if shared in path.parents]
            for path in (work, *above):
                mode = path.stat().st_mode
                os.chmod(path, 0o777 if path == work else 0o755)
                stack.callback(os.chmod, path, mode)
            images_mode = images.stat().st_mode
            os.chmod(images, 0o755)
            stack.callback(os.chmod, images, images_mode)
            (work / "rows.txt").chmod(0o666)
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)
        _, err = rank(capsys, images, "--candidates", "tiny:letters_half", cache=folder)
        assert "features of 2 of 3 candidates came from the store." in err
        assert "warning: The features of 'letters_half' are not kept" in err
        assert main(["cache", "clear", folder, "--yes"]) == 2
        assert "can't be cleared: Permission denied." in capsys.readouterr().err


def test_features_from_elsewhere_are_not_copied_into_the_store(capsys, images, work):
    np.save("theirs.npy", np.random.default_rng(0).normal(size=(36, 5)))
    code = main(
        [*("rank", "--data", str(images), "--candidates", "features:theirs.npy"), "--cache", "c"]
    )
    out, err = capsys.readouterr()
    assert code == 0 and "theirs" in out
    assert "features of 0 of 1 candidate came from the store." in err
    assert FeatureStore("c").entries() == []


# -- cache list, verify, clear ---------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path):
    """A store with two entries and one that was interrupted."""
    from sktransfer.backbones import TinyZooBackbone

    images = load_digits_target().images_train[:30]
    store = FeatureStore(tmp_path / "store")
    for name in ("mnist_half", "letters_half"):
        store.extract(TinyZooBackbone(name).fit(images), images, name=name)
    folder = store._root / "unfinished" / ("a" * 40)
    folder.mkdir()
    plan = {"candidate": "half", "plan": {"n_rows": 77}}
    (folder / "progress.jsonl").write_text(json.dumps(plan) + "\n")
    return store


def cache(capsys, *arguments):
    code = main(["cache", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def damage(store, number=0):
    path = sorted(store._root.rglob("features.npy"))[number]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_list(capsys, filled):
    code, out, err = cache(capsys, "list", filled.path)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].split() == ["candidate", "rows", "x", "columns", "size", "created", "state"]
    assert any(line.split()[:4] == ["mnist_half", "30", "x", "32"] for line in lines)
    assert any(line.split()[:4] == ["half", "77", "x", "?"] for line in lines)
    assert sorted(line.split()[-1] for line in lines if "_half" in line) == ["complete"] * 2
    assert lines[-1].startswith("3 entries, ") and lines[-1].endswith(" kB.")

    code, out, _ = cache(capsys, "list", filled.path, "--format", "csv")
    rows = {row["candidate"]: row for row in csv.DictReader(io.StringIO(out))}
    assert code == 0 and set(rows) == {"mnist_half", "letters_half", "half"}
    assert (rows["mnist_half"]["rows"], rows["mnist_half"]["columns"]) == ("30", "32")
    assert rows["half"]["state"] == "unfinished" and rows["half"]["columns"] == ""
    code, out, _ = cache(capsys, "list", filled.path, "--format", "json")
    listed = json.loads(out)
    assert [entry["key"] for entry in listed] == [entry.key for entry in filled.entries()]
    by_name = {entry["candidate"]: entry for entry in listed}
    assert by_name["mnist_half"]["bytes"] > 3840 and by_name["half"]["columns"] is None
    assert by_name["mnist_half"]["weights_hash"] != by_name["letters_half"]["weights_hash"]
    assert by_name["mnist_half"]["created"].startswith("20")

    os.truncate(next(filled._root.rglob("probabilities.npy")), 10)
    assert "damaged: probabilities.npy has 10 bytes" in cache(capsys, "list", filled.path)[1]


def test_verify(capsys, filled):
    assert cache(capsys, "verify", filled.path) == (
        0,
        "2 entries as written, 0 damaged, 1 unfinished.\n",
        "",
    )
    damage(filled)
    code, out, err = cache(capsys, "verify", filled.path)
    assert (code, err) == (1, "")
    first, last = out.splitlines()
    assert "_half: features.npy has other bytes than were written" in first
    assert last == "1 entry as written, 1 damaged, 1 unfinished."


def test_clear(capsys, filled, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, out, err = cache(capsys, "clear", filled.path)
    assert (code, out) == (2, "")
    assert "3 entries" in err and "give --yes" in err and err.count("\n") == 1
    assert len(filled.entries()) == 3

    damage(filled)
    wrong = next(entry for entry in filled.verify() if entry.state == "damaged")
    assert cache(capsys, "clear", filled.path, "--damaged", "--yes")[1].startswith(
        "removed 1 entry"
    )
    assert wrong.key not in [entry.key for entry in filled.entries()]
    assert cache(capsys, "clear", filled.path, "--unfinished", "--yes")[0] == 0
    (left,) = filled.entries()
    assert left.state == "complete"
    for options in (["--older-than", 1], ["--candidate", "another"], ["--damaged"]):
        code, out, _ = cache(capsys, "clear", filled.path, *options, "--yes")
        assert (code, out) == (0, "removed 0 entries, 0 bytes.\n")
    code, out, _ = cache(capsys, "clear", filled.path, "--candidate", left.candidate, "--yes")
    assert code == 0 and out.startswith("removed 1 entry, ")
    assert cache(capsys, "list", filled.path) == (0, "0 entries, 0 bytes.\n", "")
    assert json.loads(cache(capsys, "list", filled.path, "--format", "json")[1]) == []


def test_clear_asks_at_a_terminal(capsys, filled, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for answer, left in (("n\n", 3), ("y\n", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        code, out, _ = cache(capsys, "clear", filled.path)
        assert "Remove 3 entries" in out
        assert code == (130 if left else 0)
        assert len(filled.entries()) == left


def test_an_extraction_that_is_going_on_is_left(capsys, filled):
    lock = filled._shelf.lock("a" * 40)
    with lock:
        _, out, _ = cache(capsys, "clear", filled.path, "--yes")
    assert out.splitlines()[1] == "1 entry left, in use or gone already."
    assert [entry.state for entry in filled.entries()] == ["unfinished"]


@pytest.mark.parametrize("action", ["list", "verify", "clear"])
def test_there_must_be_a_store(capsys, tmp_path, action):
    for place in (tmp_path, tmp_path / "nothing", "nul\0l"):
        code, out, err = cache(capsys, action, place)
        assert (code, out) == (2, "")
        assert err.startswith("sktransfer: there is no feature store in ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_names_everything(capsys):
    assert main(["cache", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("list", "verify", "clear"))
    assert main(["rank", "--help"]) == 0
    assert "--cache DIR" in capsys.readouterr().out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_list_that_cannot_be_printed(filled):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sktransfer", "cache", "list", str(filled.path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr == "sktransfer: the result could not be written: No space left on device.\n"
