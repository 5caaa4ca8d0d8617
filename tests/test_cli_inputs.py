"""What the command line checks before any network runs, and a result that can't be written."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")

from sktransfer.cli import main


def run(capsys, *arguments):
    code = main(["rank", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


# -- what is checked before anything runs ----------------------------------------------------------


def one_line(capsys, *arguments):
    """Run and give the only line on standard error: no progress of networks comes before it."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, ""), (arguments, err)
    (line,) = err.splitlines()
    assert line.startswith("sktransfer: ")
    return line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X.astype(int), y), "got an array of dtype int64"),
        (lambda X, y: (X.astype(float), y), "must lie between 0 and 1"),
        (lambda X, y: (X.reshape(len(X), -1), y), "candidates can take these data"),
        (lambda X, y: (X, np.zeros_like(y)), "at least 2 classes"),
        (lambda X, y: (X, np.zeros((len(y), 2), dtype=int)), "at least 2 classes"),
        (lambda X, y: (X, np.where(y == 3, np.nan, y)), "finite labels"),
        (lambda X, y: (X[:0], y[:0]), "has no samples"),
    ],
)
def test_wrong_data_are_found_before_any_network_runs(capsys, digits, tmp_path, change, words):
    X, y = change(*digits)
    np.savez(tmp_path / "wrong.npz", X=X, y=y)
    assert words in one_line(capsys, "--data", str(tmp_path / "wrong.npz"))


def test_all_damaged_images_are_named_before_any_network_runs(capsys, digits, tmp_path):
    copy = tmp_path / "copy"
    for number, (image, label) in enumerate(zip(*digits, strict=True)):
        (copy / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(copy / str(label) / f"{number}.png")
    damaged = sorted(copy.rglob("*.png"))[70:100:10]
    for file in damaged:
        file.write_bytes(file.read_bytes()[:-40])
    line = one_line(capsys, "--data", str(copy))
    assert "3 of 120 image files cannot be read" in line
    assert all(str(file) in line for file in damaged)


def test_damaged_images_are_left_out_on_request(capsys, digits, tmp_path):
    for number, (image, label) in enumerate(zip(*digits, strict=True)):
        (tmp_path / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / str(label) / f"{number:03d}.png")
    arguments = ["--data", str(tmp_path), "--candidates", "tiny:mnist", "--format", "csv"]
    _, whole, err = run(capsys, *arguments, "--on-error", "skip")
    assert "left out" not in err
    damaged = sorted(tmp_path.rglob("*.png"))[70:100:10]
    for file in damaged:
        file.write_bytes(file.read_bytes()[:-40])
    code, out, err = run(capsys, *arguments, "--on-error", "skip")
    assert code == 0
    (warning,) = [line for line in err.splitlines() if line.startswith("warning: 3 of 120")]
    assert "left out, with their labels" in warning
    assert all(str(file) in warning for file in damaged)
    for file in damaged:
        file.unlink()
    _, expected, _ = run(capsys, *arguments)
    (found,), (expected,), (before,) = rows_of(out), rows_of(expected), rows_of(whole)
    assert found["logme"] == expected["logme"] != before["logme"]


def test_folds_that_cannot_be_made(capsys, npz, digits, tmp_path):
    assert "--cv: 30 folds need" in one_line(capsys, "--data", npz, "--cv", "30")
    path = str(tmp_path / "numbers.npz")
    np.savez(path, X=digits[0][:5], y=np.arange(5) + 0.5)
    assert "--cv: 6 folds of 5 samples" in one_line(capsys, "--data", path, "--cv", "6")
    code, _, _ = run(capsys, "--data", path, "--cv", "2", "--candidates", "tiny:mnist")
    assert code == 0


def test_metrics_without_a_definition_for_the_target(capsys, digits, tmp_path):
    path = str(tmp_path / "numbers.npz")
    np.savez(path, X=digits[0], y=digits[1] + np.linspace(0, 0.5, len(digits[1])))
    line = one_line(capsys, "--data", path, "--metric", "hscore", "logme")
    assert "hscore has no definition for a regression target" in line
    assert "logme" in line.partition("these have one:")[2]
    code, out, err = run(
        capsys, "--data", path, "--candidates", "tiny:mnist", "--metric", "all", "--format", "csv"
    )
    assert code == 0
    assert "hscore" not in rows_of(out)[0]
    (warning,) = [line for line in err.splitlines() if line.startswith("warning:")]
    assert "hscore" in warning and "no definition for a regression target, left out" in warning


def test_what_was_left_out_or_is_odd_is_said_once(capsys, digits, tmp_path):
    X, y = digits
    X = np.concatenate([X[:-2], 0 * X[-2:]])
    path = str(tmp_path / "black.npz")
    np.savez(path, X=X, y=y)
    _, _, err = run(capsys, "--data", path, "--candidates", "tiny:mnist")
    assert "warning: 2 of 120 samples are constant, all their values equal." in err.splitlines()
    for label in "ab":
        (tmp_path / "d" / label).mkdir(parents=True)
        for row in range(3):
            Image.fromarray(digits[0][row]).save(tmp_path / "d" / label / f"{row}.png")
    for suffix in "ABCDEFGHIJ":
        (tmp_path / "d" / "a" / f"x.{suffix}").write_text("no image")
    arguments = ["--data", str(tmp_path / "d"), "--candidates", "tiny:mnist"]
    _, _, err = run(capsys, *arguments)
    (warning,) = [line for line in err.splitlines() if line.startswith("warning: 10 files")]
    assert ".a, .b, .c" in warning and warning.endswith(".h, ...).")
    _, _, err = run(capsys, *arguments, "--quiet")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "a.npz", "--data", "b.npz"], "one folder or file is ranked at a time"),
        (["--demo", "--candidates", "--metric", "logme"], "'--candidates' requires a value"),
        (["--demo", "--metric"], "'--metric' requires a value"),
        (["--demo", "--candidates", "tiny:cells*", "--exclude-family", "cells"], "left out by"),
        (["--demo", "--exclude-family", "nope"], "--exclude-family: there is no family 'nope'"),
    ],
)
def test_options_that_contradict_say_so(capsys, arguments, words):
    assert words in one_line(capsys, *arguments)


# -- standard output that doesn't take the result --------------------------------------------------


def shell(line, npz, **environment):
    """Run a line of shell in which RANK ranks features from a file, which needs no torch."""
    features = Path(npz).with_name("features.npy")
    with np.load(npz) as data:
        np.save(features, data["X"].reshape(len(data["X"]), -1)[:, 300:312])
    command = f"{sys.executable} -m sktransfer rank --data {npz} --candidates features:{features}"
    command += " --quiet"
    return subprocess.run(
        ["bash", "-c", line.replace("RANK", command)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("RANK > /dev/full", 1, "could not be written: No space left"),
        ("RANK --format csv >&-", 2, "standard output is closed"),
        ("RANK | true; exit ${PIPESTATUS[0]}", 1, "could not be written: Broken pipe"),
    ],
)
def test_a_result_that_cannot_be_written(npz, line, code, words):
    done = shell(line, npz)
    assert done.returncode == code
    (message,) = done.stderr.splitlines()
    assert message.startswith("sktransfer: ") and words in message


def test_an_encoding_without_the_signs(npz):
    done = shell("RANK --cv 2", npz, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert " +/- " in done.stdout
