"""``sktransfer rank --report``: the file, what the terminal says of it, and wrong arguments."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")

from sktransfer._cli_metrics import parse_metrics
from sktransfer._cli_report import Reporting
from sktransfer.cli import main
from sktransfer.metrics import get_metric, metric_names
from sktransfer.model_selection import TransferabilitySelector
from sktransfer.model_selection._resamples import plan_resamples

SMALL = ["--candidates", "tiny:mnist_half", "tiny:untrained_half"]


def run(capsys, *arguments):
    code = main(["rank", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_report_has_intervals_and_the_terminal_names_it(capsys, npz, tmp_path):
    path = tmp_path / "out.html"
    code, out, _ = run(capsys, "--data", npz, *SMALL, "--metric", "hscore", "--report", path)
    assert code == 0
    lines = out.splitlines()
    assert lines[-1] == f"Report: {path}"
    assert "Told apart from all others, given the sample (level 0.95)." in lines
    assert any(line.startswith("Best after fine-tuning may be, calibrated on") for line in lines)
    page = path.read_text(encoding="utf-8")
    assert "Found from 200 " in page
    # Of the folder only the last part is in it.
    assert "<h1>Which network to fine-tune: digits.npz, 120 samples, 10 classes</h1>" in page
    assert str(tmp_path.parent) not in page
    assert "its untrained twin" in page


def test_candidates_that_are_not_told_apart_are_named(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(40, 3)), y=np.arange(40) % 2)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(40, 4)))
    features = [f"features:{tmp_path / name}.npy" for name in "ab"]
    code, out, _ = run(
        capsys, "--data", tmp_path / "t.npz", "--candidates", *features, "--resamples", 40
    )
    assert code == 0
    said = [line for line in out.splitlines() if line.startswith("Not told apart from the best")]
    assert len(said) == 1 and said[0].endswith((": a.", ": b."))
    assert any(line.startswith("Every candidate is within noise") for line in out.splitlines())
    assert "Report:" not in out


@pytest.mark.parametrize("output_format", ["csv", "json"])
def test_machines_get_the_uncertainty_too(capsys, npz, digits, tmp_path, output_format):
    path = tmp_path / "out.html"
    code, out, err = run(
        capsys, "--data", npz, *SMALL, "--report", path, "--resamples", 20, "--level", 0.9,
        "--format", output_format,
    )  # fmt: skip
    assert code == 0 and path.exists()
    assert err.splitlines()[-1] == f"Report: {path}"
    from sktransfer.datasets import load_tiny_zoo

    zoo = load_tiny_zoo(names=["mnist_half", "untrained_half"])
    selector = TransferabilitySelector(zoo, n_resamples=20, level=0.9).fit(*digits)
    found = selector.uncertainty_["logme"]
    if output_format == "json":
        result = json.loads(out)
        assert result["tied_with_best"] == selector.tied_with_best_
        assert result["decision_set"]["names"] == list(selector.decision_set_)
        assert result["findings"] == selector.findings_
        rows = result["candidates"]
    else:
        rows = list(csv.DictReader(io.StringIO(out)))
    for row in rows:
        place = found.names.index(row["candidate"])
        limits = [float(row["logme_low"]), float(row["logme_high"])]
        assert limits == pytest.approx(found.score_interval[place].tolist(), rel=1e-5)
        assert [int(row["logme_rank_low"]), int(row["logme_rank_high"])] == list(
            found.rank_interval[place]
        )


def test_slow_metrics_are_not_resampled_unasked(capsys, npz, tmp_path):
    path = tmp_path / "out.html"
    code, _, _ = run(
        capsys, "--data", npz, *SMALL, "--metric", "logme", "parc", "--report", path, "--quiet",
        "--format", "csv",
    )  # fmt: skip
    assert code == 0
    assert "fitted with <code>n_resamples=0</code>" in path.read_text(encoding="utf-8")


def test_wrong_arguments_give_one_line_before_anything_runs(capsys, npz, tmp_path):
    for arguments, words in [
        (["--report", tmp_path / "missing" / "out.html"], "There is no folder"),
        (["--report", tmp_path], "is a folder"),
        (["--report", npz], "--report would replace the data"),
        (["--resamples", 5], "--resamples must be 0 or at least 40 with --level 0.95. Got 5."),
        (["--level", 1], "--level"),
        (["--level", 0.9], "--level 0.9 is that of intervals from resamples, and there are none"),
        (["--level", 0.999, "--resamples", 0], "give --resamples 2000 too"),
        # A report, but of metrics that are not resampled unasked.
        (["--level", 0.9, "--metric", "parc", "--report", tmp_path / "r.html"], "are none; give"),
        (["--report", tmp_path / ("x" * 240 + ".html")], "can't be written: File name too long"),
        (["--metric", "fu", "logme", "--resamples", 40], "--resamples must be 0 where fu decides"),
    ]:
        code, out, err = run(capsys, "--data", npz, *SMALL, *arguments)
        message = [line for line in err.splitlines() if line.startswith("sktransfer:")]
        assert (code, out, len(message)) == (2, "", 1), arguments
        assert words in message[0] and "[1/" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_found_before_anything_runs(capsys, npz):
    """Whose permissions say that the administrator may."""
    code, out, err = run(capsys, "--data", npz, *SMALL, "--report", "/proc/x.html")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "sktransfer: --report must name a file in a folder that exists. '/proc/x.html' can't be "
        "written: No such file or directory."
    ]


def test_metrics_that_look_into_the_network_are_scored_without_resamples(capsys, npz, tmp_path):
    path = tmp_path / "out.html"
    code, out, err = run(
        capsys, "--data", npz, "--candidates", "tiny:mnist_half", "--metric", "logme", "fu", "nce",
        "--resamples", 40, "--format", "json", "--report", path,
    )  # fmt: skip
    assert code == 0
    said = [line for line in err.splitlines() if "resamples" in line]
    assert said == ["warning: fu looks into the network and is scored without resamples."]
    (row,) = json.loads(out)["candidates"]
    assert all(np.isfinite(row[metric]) for metric in ("logme", "fu", "nce"))
    assert row["logme_low"] < row["logme"] < row["logme_high"]
    assert "nce_low" in row and "fu_low" not in row
    page = path.read_text(encoding="utf-8")
    assert "Without resamples, and so without intervals: <code>fu</code>." in page


def test_all_metrics_can_be_resampled_but_two():
    metrics = parse_metrics(["all"])
    options, remarks = Reporting(None, 40, None).options(metrics)
    assert options == {"n_resamples": 40, "level": 0.95}
    assert remarks == ["fu, lpfu look into the network and are scored without resamples."]
    assert set(metrics) == set(metric_names())


def test_a_consensus_takes_what_can_be_resampled():
    metrics = {name: get_metric(name) for name in ("logme", "fu")}
    y = np.arange(20) % 2
    for refit, is_refused in [(None, False), ("logme", False), ("fu", True), ("consensus", True)]:
        selector = TransferabilitySelector([], n_resamples=40, refit=refit)
        if is_refused:
            with pytest.raises(ValueError, match="'n_resamples' must be 0 with FU"):
                plan_resamples(selector, metrics, y, y, "classification")
        else:
            planned = plan_resamples(selector, metrics, y, y, "classification")
            assert set(planned.schemes) == {"logme"}


def test_a_report_that_cannot_be_written_costs_no_ranking(capsys, npz, tmp_path, monkeypatch):
    path = tmp_path / "out.html"

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = run(capsys, "--data", npz, *SMALL, "--report", path, "--resamples", 0)
    assert code == 1
    assert "Best by logme: mnist_half." in out and "Report:" not in out
    assert err.splitlines()[-1].endswith("could not be written: No space left on device.")
    assert not list(tmp_path.iterdir())
