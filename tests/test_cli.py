"""The command line on real data, and what it says about wrong inputs."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")

from sktransfer._cli_candidates import parse_candidates
from sktransfer.cli import _spread_lists, main
from sktransfer.datasets import load_tiny_zoo
from sktransfer.metrics import metric_names
from sktransfer.model_selection import TransferabilitySelector

SMALL = ["tiny:mnist_half", "tiny:untrained_half"]


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    """Images of several sizes and modes, a sub-folder per class, and a file that is no image."""
    path = tmp_path_factory.mktemp("images")
    for number, (image, label) in enumerate(zip(*digits, strict=True)):
        (path / f"digit {label}").mkdir(exist_ok=True)
        picture = Image.fromarray(image).resize((28 + number % 3, 28 + number % 2))
        if number % 5 == 0:
            picture = picture.convert("RGB")
        picture.save(path / f"digit {label}" / f"{number}.png")
    (path / "digit 0" / "notes.txt").write_text("not an image")
    return str(path)


def run(capsys, *arguments):
    code = main(["rank", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


def test_csv_is_what_the_selector_says(capsys, npz, digits):
    code, out, _ = run(
        capsys,
        "--data",
        npz,
        "--candidates",
        *SMALL,
        "--metric",
        "logme",
        "hscore",
        "--format",
        "csv",
    )
    assert code == 0
    rows = rows_of(out)
    zoo = load_tiny_zoo(names=["mnist_half", "untrained_half"])
    selector = TransferabilitySelector(zoo, metric=["logme", "hscore"]).fit(*digits)
    assert [row["candidate"] for row in rows] == sorted(
        selector.scores_, key=selector.ranking_.__getitem__
    )
    for row in rows:
        assert int(row["rank"]) == selector.ranking_[row["candidate"]]
        for metric in ("logme", "hscore"):
            expected = selector.metric_scores_[metric][row["candidate"]]
            assert float(row[metric]) == pytest.approx(expected, abs=1e-6)
        assert int(row["width"]) == 32
        assert int(row["parameters"]) > 10_000
        assert float(row["seconds"]) >= 0


def test_json(capsys, npz):
    code, out, _ = run(
        capsys, "--data", npz, "--candidates", *SMALL, "--metric", "all", "--format", "json"
    )
    assert code == 0
    result = json.loads(out)
    assert result["decided_by"] == "logme"
    assert [row["rank"] for row in result["candidates"]] == [1, 2]
    assert result["best"] == result["candidates"][0]["candidate"]
    assert set(metric_names()) <= set(result["candidates"][0])
    assert all(row["failures"] == {} for row in result["candidates"])


def test_table_and_its_remarks(capsys, npz):
    code, out, err = run(capsys, "--data", npz, "--candidates", "tiny:mnist*", "--metric", "logme")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{npz}, 120 samples, 10 classes"
    header = next(line for line in lines if "candidate" in line)
    assert header.split() == ["rank", "candidate", "logme", "width", "D", "parameters", "seconds"]
    assert "…" not in out
    assert any(line.startswith("Best by logme: mnist") for line in lines)
    assert any(line.startswith("The largest, which size alone would choose:") for line in lines)
    # Progress is on standard error, a line per candidate where that is no terminal.
    assert err.splitlines()[0].startswith("[1/")
    assert "[1/" not in out


def test_quiet_says_nothing_but_the_result(capsys, npz):
    code, out, err = run(
        capsys, "--data", npz, "--candidates", *SMALL, "--quiet", "--format", "csv"
    )
    assert code == 0
    assert err == ""
    assert len(rows_of(out)) == 2


def test_folder_of_images_gives_the_ranking_of_its_pixels(capsys, folder):
    code, out, _ = run(capsys, "--data", folder, "--candidates", *SMALL, "--format", "csv")
    assert code == 0
    rows = rows_of(out)
    assert [row["candidate"] for row in rows] == ["mnist_half", "untrained_half"]


def test_medmnist_layout_takes_the_training_part_only(capsys, digits, tmp_path):
    images, y = digits
    path = tmp_path / "some_mnist.npz"
    np.savez(
        path,
        train_images=images,
        train_labels=y[:, None].astype(np.uint8),
        test_images=np.zeros_like(images),
        test_labels=np.zeros((len(y), 1), dtype=np.uint8),
    )
    plain = tmp_path / "plain.npz"
    np.savez(plain, X=images, y=y)
    outputs = [
        run(capsys, "--data", str(p), "--candidates", *SMALL, "--format", "csv")
        for p in (path, plain)
    ]
    scores = [[row["logme"] for row in rows_of(out)] for _, out, _ in outputs]
    assert scores[0] == scores[1]


def test_folds_add_the_spread(capsys, npz):
    code, out, _ = run(
        capsys, "--data", npz, "--candidates", *SMALL, "--cv", "3", "--format", "csv"
    )
    assert code == 0
    assert all(float(row["logme_std"]) > 0 for row in rows_of(out))
    code, out, _ = run(capsys, "--data", npz, "--candidates", *SMALL, "--cv", "3")
    assert code == 0
    assert " ± " in out


def test_family_can_be_left_out(capsys, npz):
    code, out, _ = run(
        capsys, "--data", npz, "--candidates", "tiny:*_half", "--exclude-family", "mnist",
        "--format", "csv",
    )  # fmt: skip
    assert code == 0
    names = {row["candidate"] for row in rows_of(out)}
    assert "untrained_half" in names
    assert "mnist_half" not in names


OWN_CANDIDATES = """
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sktransfer.backbones import TorchBackbone

class Flatten(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        return X.reshape(len(X), -1) / 255.0

class Broken(Flatten):
    def transform(self, X):
        raise RuntimeError("the disk is on fire")

def pixels():
    return Flatten()

broken = Broken()

def network():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 8), torch.nn.Linear(8, 3))
    return TorchBackbone(module, mean=0.0, std=1.0)

number = 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_candidates.py").write_text(OWN_CANDIDATES)
    monkeypatch.syspath_prepend(tmp_path)
    yield "python:own_candidates"
    sys.modules.pop("own_candidates", None)


def test_own_candidates_and_a_broken_one(capsys, npz, own_module):
    code, out, err = run(
        capsys, "--data", npz, "--candidates", f"{own_module}:pixels", f"{own_module}:broken",
        f"{own_module}:network", "tiny:untrained_half", "--metric", "logme", "leep",
    )  # fmt: skip
    assert code == 0
    assert "the disk is on fire" in err
    lines = out.splitlines()
    broken = next(line for line in lines if " broken " in line)
    assert broken.split()[:4] == ["4", "broken", "failed", "failed"]
    pixels = next(line for line in lines if " pixels " in line)
    assert pixels.split()[3:5] == ["failed", "784"]  # no source head for leep
    assert "no source head" in err
    assert any(line.startswith("Without a score") and "broken" in line for line in lines)


def wrong_file(folder, **arrays):
    folder.mkdir()
    path = folder / "wrong.npz"
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --data DIR_OR_NPZ or --demo"),
        (["--demo", "--data", "x"], "either --data DIR_OR_NPZ or --demo"),
        (["--data", "nowhere"], "no folder or file 'nowhere'"),
        (["--demo", "--metric", "logmee"], "logmee"),
        (["--demo", "--candidates", "tiny:zebra"], "tiny:zebra"),
        (["--demo", "--candidates", "resnet18"], "'resnet18' is neither"),
        (["--demo", "--candidates", "python:nosuchmodule:x"], "nosuchmodule"),
        (["--demo", "--candidates", "python:nosuchmodule"], "python:MODULE:OBJECT"),
        (["--demo", "--candidates", "python:math:pi"], "float"),
        (["--demo", "--exclude-family", "zebras"], "zebras"),
        (["--demo", "--device", "cuda:99", "--candidates", "tiny:untrained_half"], "cuda"),
        (["--demo", "--cv", "1"], "--cv"),
        (["--demo", "--format", "xml"], "xml"),
        (["--demo", "--batch-size", "0"], "--batch-size"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_arguments_give_one_line_and_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    message = [line for line in err.splitlines() if line.startswith("sktransfer:")]
    assert len(message) == 1
    assert words in message[0]
    assert "Traceback" not in err


def test_wrong_data_gives_one_line_and_code_2(capsys, tmp_path):
    images = np.zeros((6, 28, 28), dtype=np.uint8)
    cases = {
        "pictures": wrong_file(tmp_path / "a", pictures=images),
        "6": wrong_file(tmp_path / "b", X=images, y=[0, 1]),
        "1 class": wrong_file(tmp_path / "c", X=images, y=np.zeros(6, dtype=int)),
    }
    empty = tmp_path / "empty"
    empty.mkdir()
    cases["empty"] = str(empty)
    for words, path in cases.items():
        code, out, err = run(capsys, "--data", path, "--candidates", *SMALL)
        message = [line for line in err.splitlines() if line.startswith("sktransfer:")]
        assert (code, out, len(message)) == (2, "", 1), path
        assert words in message[0]


def test_lists_may_follow_an_option():
    assert _spread_lists(["rank", "--metric", "a", "b", "--cv", "3", "--candidates", "x"]) == [
        "rank", "--metric", "a", "--metric", "b", "--cv", "3", "--candidates", "x",
    ]  # fmt: skip


def test_candidates_are_named_once():
    names = [name for name, _ in parse_candidates(["tiny:mnist", "tiny:mnist*"])]
    assert names[0] == "mnist"
    assert len(names) == len(set(names))


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "rank" in capsys.readouterr().err


def test_without_click_one_line_says_what_to_install(tmp_path):
    script = "import sys; sys.modules['click'] = None; import sktransfer.cli; "
    script += "sys.exit(sktransfer.cli.main([]))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(tmp_path)
    )
    assert done.returncode == 2
    assert (
        done.stderr.strip() == "sktransfer: the command line needs click; install sktransfer[cli]."
    )


def test_the_demo_uses_fast_metrics_whatever_else_there_is(capsys):
    code, out, _ = run(capsys, "--demo", "--candidates", "tiny:mnist", "--format", "csv")
    assert code == 0
    assert list(rows_of(out)[0]) == [
        *("rank", "candidate", "logme", "hscore", "leep", "nce"),
        *("width", "parameters", "weights", "pretrained", "seconds"),
    ]


def test_a_candidate_that_takes_long_shows_how_far_it_has_come(capsys, npz, monkeypatch):
    monkeypatch.setattr("sktransfer._cli_output._SECONDS_OF_SILENCE", 0.0)
    code, _, err = run(
        capsys, "--data", npz, "--candidates", "tiny:mnist", "--batch-size", "50", "--format", "csv"
    )
    assert code == 0
    assert "mnist: 50 of 120" in err.splitlines()
    code, _, err = run(
        capsys, "--data", npz, "--candidates", "tiny:mnist", "--batch-size", "50", "--quiet"
    )
    assert "mnist: 50 of 120" not in err
