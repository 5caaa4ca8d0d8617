"""``sktransfer study``: what it writes, how it goes on, what it refuses."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")
pd = pytest.importorskip("pandas", reason="tables need pandas")

from sktransfer import _cli_study_output
from sktransfer._cli_candidates import NamedCandidate
from sktransfer._cli_study import _make
from sktransfer._cli_study_inputs import without_own_source
from sktransfer.backbones import PrecomputedFeatures
from sktransfer.cli import main
from sktransfer.datasets import load_digits_target, load_medmnist_reference, load_tiny_zoo
from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy

ROOT = Path(__file__).parents[1]
CANDIDATES = ["first", "second", "third"]
# Four rows of the smallest subset; many scores say nothing, which they say.
SMALL = ["--metrics", "logme", "hscore", "--fractions", "0.25", "0.5", "--repeats", "2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A target of vectors, another of fewer rows, and features for both."""
    folder = tmp_path_factory.mktemp("study")
    digits = load_digits_target()
    X = digits.images_train[:80].reshape(80, -1) / 255
    np.savez(folder / "digits.npz", X=X, y=digits.y_train[:80] % 3)
    rng = np.random.default_rng(0)
    for number, name in enumerate(CANDIDATES):
        features = X[:, 200 + 9 * number :: 60]
        features = features + rng.normal(0, 0.2, size=features.shape)
        np.save(folder / f"{name}.npy", features)
    return folder


@pytest.fixture
def arguments(files):
    """All that is needed but ``--out``."""
    candidates = [f"features:{files / name}.npy" for name in CANDIDATES]
    return ["--data", str(files / "digits.npz"), "--candidates", *candidates, *SMALL]


def run(capsys, *arguments, figures=False):
    code = main(["study", *map(str, arguments), *([] if figures else ["--no-figures"])])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def untimed(folder):
    return pd.read_csv(Path(folder) / "scores.csv").drop(columns="seconds").to_csv(index=False)


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_what_is_written_is_what_the_study_says(capsys, files, arguments, tmp_path):
    out = tmp_path / "a" / "out"
    code, printed, err = run(capsys, *arguments, "--out", out)
    assert code == 0, err
    X, y = np.load(files / "digits.npz").values()
    features = {name: np.load(files / f"{name}.npy") for name in CANDIDATES}
    candidates = [(name, PrecomputedFeatures(features[name])) for name in CANDIDATES]
    subsets = NestedStratifiedSubsets([0.25, 0.5], 2, task="classification")
    study = RobustnessStudy(candidates, ["logme", "hscore"], subsets)
    study.run(X, y, target="digits")
    expected = study.to_frame().drop(columns="seconds")
    written = pd.read_csv(out / "scores.csv", keep_default_na=False).drop(columns="seconds")
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)
    assert len(written) == 3 * 2 * (2 * 2 + 1)
    pd.testing.assert_frame_equal(
        pd.read_csv(out / "rankings.csv"), study.rankings(), check_dtype=False
    )
    for kind in ("intra", "ref", "inter"):
        table = pd.read_csv(out / f"stability_{kind}.csv", keep_default_na=False)
        for coefficient in ("kendall", "weighted_kendall", "spearman"):
            own = table[table["coefficient"] == coefficient].drop(columns="coefficient")
            frame = study.stability(kind, coefficient)
            values = pd.to_numeric(own.pop("value"), errors="coerce")
            np.testing.assert_allclose(values, frame.pop("value"))
            pd.testing.assert_frame_equal(own.reset_index(drop=True), frame, check_dtype=False)
    assert not (out / "agreement.csv").exists()
    # The store can be looked at without the command.
    opened = RobustnessStudy.open(out / "study.sqlite").to_frame()
    pd.testing.assert_frame_equal(opened.drop(columns="seconds"), expected)
    # Standard output has the summary, standard error the progress.
    assert re.search(r"digits +hscore +-?\d\.\d\d +-?\d\.\d\d", printed)
    assert str(out) in printed
    assert "digits: [30/30]" in err
    if pytest.importorskip("pyarrow", reason="parquet needs pyarrow"):
        frame = pd.read_parquet(out / "scores.parquet")
        pd.testing.assert_frame_equal(frame.drop(columns="seconds"), expected)


def test_figures(capsys, files, arguments, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="figures need matplotlib")
    open_before = pyplot.get_fignums()
    reference = tmp_path / "reference.csv"
    reference.write_text("candidate,value\nfirst,0.9\nsecond,0.7\nthird,0.8\nother,0.1\n")
    code, printed, _ = run(
        capsys, *arguments, "--out", tmp_path / "out", "--reference", reference, figures=True
    )
    assert code == 0
    names = {path.stem for path in (tmp_path / "out" / "figures").iterdir()}
    tables = ["stability_intra", "stability_ref", "stability_inter", "agreement"]
    coefficients = ["kendall", "weighted_kendall", "spearman"]
    assert names == {f"{t}_{c}" for t in tables for c in coefficients} | {
        "ranks_digits",
        "scores_digits",
    }
    assert "and 14 figures" in printed
    assert pyplot.get_fignums() == open_before
    # All of the agreement is with this reference.
    agreement = pd.read_csv(tmp_path / "out" / "agreement.csv")
    assert set(agreement["coefficient"]) == set(coefficients)
    assert len(agreement) == 3 * 2 * (2 * 2 + 1)


def test_several_targets_and_names(capsys, files, arguments, tmp_path):
    data = arguments.index("--data")
    # The same rows with other labels are another target for the same features.
    X, y = np.load(files / "digits.npz").values()
    np.savez(tmp_path / "digits.npz", X=X, y=np.where(y == 2, 0, y))
    named = [f"two={tmp_path / 'digits.npz'}", *arguments[data + 1 : data + 2]]
    code, printed, err = run(
        capsys, "--data", *named, *arguments[data + 2 :], "--out", tmp_path / "out"
    )
    assert code == 0, err
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert scores.groupby("target").size().to_dict() == {"digits": 30, "two": 30}
    last = [line for line in err.splitlines() if "[30/30]" in line]
    assert [line.split(":")[0] for line in last] == ["two", "digits"]


def test_an_existing_folder_needs_resume(capsys, arguments, tmp_path):
    (tmp_path / "out").mkdir()
    assert run(capsys, *arguments, "--out", tmp_path / "out")[0] == 0
    before = (tmp_path / "out" / "study.sqlite").read_bytes()
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("sktransfer: --out: the folder")
    assert "give --resume" in line
    assert (tmp_path / "out" / "study.sqlite").read_bytes() == before
    first = untimed(tmp_path / "out")
    code, _, err = run(capsys, *arguments, "--out", tmp_path / "out", "--resume")
    assert code == 0
    assert untimed(tmp_path / "out") == first


def test_resume_grows_a_study_and_refuses_another_one(capsys, files, arguments, tmp_path):
    out = ["--out", tmp_path / "out", "--resume", "--quiet"]
    few = [*arguments[: arguments.index("--metrics")], "--metrics", "logme"]
    few += ["--fractions", "0.25", "--repeats", "1"]
    assert run(capsys, *few, *out)[::2] == (0, "")  # also where there is nothing yet
    seconds = pd.read_csv(tmp_path / "out" / "scores.csv").set_index(["candidate", "fraction"])
    assert run(capsys, *arguments, *out)[0] == 0
    whole = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert len(whole) == 30
    kept = whole[(whole["metric"] == "logme") & (whole["repeat"] == 0)]
    kept = kept.set_index(["candidate", "fraction"]).loc[seconds.index, "seconds"]
    np.testing.assert_array_equal(kept, seconds["seconds"])  # not computed again
    code, printed, err = run(capsys, *arguments, *out, "--seed", "1")
    assert (code, printed) == (2, "")
    assert "holds results of other inputs" in err
    assert "'random_state'" in err


def test_other_folders_are_no_studies(capsys, arguments, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, out, err = run(capsys, *arguments, "--out", tmp_path, "--resume")
    assert (code, out) == (2, "")
    assert "there is no study in the folder" in err
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "thesis.tex")
    assert (code, out) == (2, "")
    assert "is a file" in err
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "thesis.tex" / "out")
    assert (code, out) == (2, "")
    assert "can't be made" in err
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.skipif(not os.path.isdir("/proc/tty"), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_found_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match=r"--out: the folder .* can't be made or written to"):
        _make(Path("/proc/tty"))
    _make(tmp_path / "new" / "folder")
    assert os.listdir(tmp_path / "new" / "folder") == []


def test_killed_and_resumed(capsys, arguments, files, tmp_path):
    """The process ends at once, in the middle of the work; the result is that of one run."""
    more = ["--repeats", "4"]
    script = (
        "import sys, time; from sktransfer.model_selection import _study_run as r; "
        "run = r.run_unit; r.run_unit = lambda unit: (time.sleep(0.1), run(unit))[1]; "
        "from sktransfer.cli import main; sys.exit(main())"
    )
    out = tmp_path / "killed"
    command = [sys.executable, "-c", script, "study", *arguments, *more, "--out", str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 280
    while done_cells(out / "study.sqlite") < 12:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    n_done = done_cells(out / "study.sqlite")
    assert 12 <= n_done < 54
    assert not (out / "scores.csv").exists()
    code, _, err = run(capsys, *arguments, *more, "--out", out, "--resume")
    assert code == 0, err
    assert run(capsys, *arguments, *more, "--out", tmp_path / "whole", "--quiet")[0] == 0
    assert untimed(out) == untimed(tmp_path / "whole")
    for name in ("rankings", "stability_intra", "stability_ref", "stability_inter"):
        assert (out / f"{name}.csv").read_bytes() == (
            tmp_path / "whole" / f"{name}.csv"
        ).read_bytes()


def done_cells(path):
    if not path.exists() or not path.stat().st_size:
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM cells").fetchone()[0]
    except sqlite3.OperationalError:  # the tables are being made
        return 0
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore::sktransfer.exceptions.UninformativeScoreWarning")
def test_networks_run_once_and_their_features_are_kept(capsys, npz, tmp_path):
    names = ["mnist_half", "untrained_half"]
    options = ["--metrics", "logme", "--fractions", "0.5", "--repeats", "2", "--out"]
    candidates = [f"tiny:{name}" for name in names]
    code, _, err = run(
        capsys, "--data", npz, "--candidates", *candidates, *options, tmp_path / "out"
    )
    assert code == 0, err
    features = tmp_path / "out" / "features"
    assert main(["cache", "list", str(features), "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(names)
    X, y = np.load(npz).values()
    study = RobustnessStudy(load_tiny_zoo(names=names), "logme", NestedStratifiedSubsets([0.5], 2))
    study.run(X, y, target="digits")
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    np.testing.assert_allclose(scores["score"], study.to_frame()["score"], rtol=1e-12)
    # Another folder, with the features of the first.
    code, _, err = run(
        capsys, "--data", npz, "--candidates", *candidates, *options, tmp_path / "again",
        "--cache", features, "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert untimed(tmp_path / "again") == untimed(tmp_path / "out")
    assert not (tmp_path / "again" / "features").exists()


def test_metrics_without_a_definition_are_left_out(capsys, files, arguments, tmp_path):
    X = np.load(files / "digits.npz")["X"]
    np.savez(tmp_path / "values.npz", X=X, y=X[:, 300] + np.linspace(0, 1, 80))
    data = ["--data", tmp_path / "values.npz", *arguments[2:]]
    code, _, err = run(capsys, *data, "--metrics", "leep", "--out", tmp_path / "out")
    assert code == 0
    assert "hscore, leep have no definition for a regression target, left out." in err
    assert set(pd.read_csv(tmp_path / "out" / "scores.csv")["metric"]) == {"logme"}
    only = [*data[: data.index("--metrics")], "--metrics", "leep", "nce"]
    code, out, err = run(capsys, *only, "--out", tmp_path / "none")
    assert (code, out) == (2, "")
    assert "--metrics: leep, nce have no definition for a regression target" in err


def test_a_candidate_without_any_score_costs_the_others_nothing(capsys, files, arguments, tmp_path):
    np.save(tmp_path / "short.npy", np.zeros((7, 3)))
    place = arguments.index("--metrics")
    candidates = [*arguments[:place], f"features:{tmp_path / 'short.npy'}"]
    code, _, err = run(capsys, *candidates, *arguments[place:], "--out", tmp_path / "out")
    assert code == 0
    assert "warning: short has no score at all, left out of rankings and stability." in err
    assert "10 cells of target 'digits' have no score" in err
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert (scores["status"] == "failed").sum() == 10
    assert "short" not in pd.read_csv(tmp_path / "out" / "rankings.csv")
    assert pd.read_csv(tmp_path / "out" / "stability_intra.csv")["value"].notna().all()


def test_no_score_at_all(capsys, files, arguments, tmp_path):
    place = arguments.index("--metrics")
    code, out, err = run(
        capsys, *arguments[:place], "--metrics", "leep", "--fractions", "0.5", "--repeats", "2",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("sktransfer: no candidate could be scored on any subset")


def test_a_log_tells_how_far_it_has_come(capsys, npz, tmp_path, monkeypatch):
    monkeypatch.setattr(_cli_study_output, "_SECONDS_OF_SILENCE", -1.0)
    code, _, err = run(
        capsys, "--data", npz, f"again={npz}", "--candidates", "tiny:mnist_half", "--batch-size",
        "50", "--metrics", "logme", "--fractions", "0.5", "--repeats", "2", "--out", tmp_path / "o",
    )  # fmt: skip
    assert code == 0
    assert "digits: 100 of 120 samples through the network\n" in err
    assert re.search(r"^digits: \[1/3\] mnist_half, fraction 1, repeat 0, \d+ s left$", err, re.M)
    # The other target is waiting, until it is its turn.
    assert re.search(r"^digits: \[3/3\] .*, \d+ s left$", err, re.M)
    assert re.search(r"^again: \[3/3\] mnist_half, fraction 0.5, repeat \d$", err, re.M)


def test_without_matplotlib_or_pandas(capsys, arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, printed, _ = run(capsys, *arguments, "--out", tmp_path / "out", figures=True)
    assert code == 0
    assert printed.splitlines()[-1].endswith("stability_inter.csv.")
    assert not (tmp_path / "out" / "figures").exists()
    monkeypatch.setitem(sys.modules, "pandas", None)
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "none")
    assert (code, out) == (2, "")
    assert err == "sktransfer: the tables of a study need pandas; install sktransfer[plot].\n"


def test_one_candidate_and_one_metric_have_few_figures(capsys, arguments, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    place = arguments.index("--candidates") + 2
    few = [*arguments[:place], "--metrics", "logme", "--fractions", "0.5", "--repeats", "2"]
    code, printed, _ = run(capsys, *few, "--out", tmp_path / "out", figures=True)
    assert code == 0
    assert "Where a cell is empty, stability_intra.csv says why." in printed
    names = {path.stem.rpartition("_")[0] for path in (tmp_path / "out" / "figures").iterdir()}
    assert not any(name.startswith(("ranks", "stability_inter")) for name in names)


def test_results_that_cannot_be_written(capsys, arguments, tmp_path, monkeypatch):
    out = ["--out", tmp_path / "out", "--resume", "--quiet"]
    assert run(capsys, *arguments, *out)[0] == 0
    (tmp_path / "out" / "scores.csv").unlink()
    (tmp_path / "out" / "scores.csv").mkdir()
    code, printed, err = run(capsys, *arguments, *out)
    assert (code, printed) == (1, "")
    assert err.startswith("sktransfer: the result could not be written: ")
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    (tmp_path / "out" / "scores.csv").rmdir()
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert main(["study", *map(str, [*arguments, *out, "--no-figures"])]) == 1
            with contextlib.suppress(OSError):
                full.close()
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["study", *map(str, [*arguments, *out])]) == 2


def test_interrupted(capsys, arguments, tmp_path, monkeypatch):
    (tmp_path / "own_interrupted.py").write_text(
        "from sklearn.decomposition import PCA\n"
        "class Pressed(PCA):\n"
        "    def fit_transform(self, X, y=None):\n"
        "        raise KeyboardInterrupt\n"
        "pressed = Pressed(2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    place = arguments.index("--metrics")
    more = [*arguments[:place], "python:own_interrupted:pressed", *arguments[place:]]
    code, out, err = run(capsys, *more, "--out", tmp_path / "out")
    assert (code, out) == (130, "")
    assert f"Results so far are in {tmp_path / 'out'}; --resume continues." in err
    assert done_cells(tmp_path / "out" / "study.sqlite") == 30
    assert run(capsys, *arguments, "--out", tmp_path / "out", "--resume")[0] == 0


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--fractions", "0.5", "5"], "--fractions: The 'fractions' parameter"),
        (["--fractions", "x"], "--fractions"),
        (["--repeats", "0"], "--repeats"),
        (["--metrics", "logmee"], "logmee"),
        (["--candidates", "features:nowhere.npy"], "nowhere.npy"),
        (["--data", "nowhere.npz"], "--data: there is no folder or file 'nowhere.npz'"),
        (["--data", "=x"], "no folder or file '=x'|names no target"),
        (["--data", "medmnist:nowhere"], "There is no folder 'nowhere'"),
        (["--candidates", "medmnist:nowhere"], "There is no folder 'nowhere'"),
        (["--candidates", "medmnist:"], "names no folder"),
        (["--reference", "nowhere.csv"], "--reference: the file 'nowhere.csv' can't be read"),
        (["--reference", "medmnist:speed"], "medmnist:accuracy, medmnist:auroc, or a file"),
        (["--reference", "medmnist:auroc"], "no value for first, second, third on target"),
        (["--jobs", "0"], "--jobs"),
        (["--input-size", "64"], "--input-size is for plain torch modules"),
        (["--mean", "0.5", "--std", "0.5"], "--mean and --std are for plain torch modules"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_inputs_give_one_line_before_anything_is_made(
    capsys, arguments, tmp_path, extra, words
):
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "out", *extra)
    message = [line for line in err.splitlines() if line.startswith("sktransfer:")]
    assert (code, out, len(message)) == (2, "", 1), err
    assert re.search(words, message[0]), message
    assert not (tmp_path / "out").exists()


def test_out_and_data_are_needed(capsys, arguments):
    for given, missing in ((arguments, "--out"), (["--out", "x"], "--data")):
        code, out, err = run(capsys, *given)
        assert (code, out) == (2, "")
        assert missing in err


def test_two_targets_of_one_name(capsys, files, arguments, tmp_path):
    copy = tmp_path / "digits.npz"
    copy.write_bytes((files / "digits.npz").read_bytes())
    code, out, err = run(capsys, *arguments, "--data", copy, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "would both be called 'digits'" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("candidate,score\nfirst,1\n", "columns candidate, value"),
        ("", "columns candidate, value"),
        ("candidate,value\nfirst,1\nsecond,2\n", "no value for third on target 'digits'"),
        ("candidate,value\nfirst,1\nsecond,good\n", "line 3 of .* got 'good'"),
        ("candidate,value\nfirst,nan\n", "line 2 of .* got 'nan'"),
        ("candidate,value\nfirst\n", "line 2 of .* got None"),
        ("candidate,value\nfirst,1\nfirst,2\n", "line 3 of .* gives candidate 'first' a second"),
        ("target,candidate,value\nother,first,1\n", "no value for first, second, third"),
        (b"\xff\xfe\x00", "can't be read"),
    ],
)
def test_wrong_references(capsys, arguments, tmp_path, content, words):
    path = tmp_path / "reference.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run(capsys, *arguments, "--out", tmp_path / "out", "--reference", path)
    assert (code, out) == (2, "")
    assert re.search(words, err), err
    assert not (tmp_path / "out").exists()


def test_a_reference_for_several_targets_has_targets(capsys, files, arguments, tmp_path):
    path = tmp_path / "reference.csv"
    path.write_text("candidate,value\nfirst,1\nsecond,2\nthird,3\n")
    both = [*arguments, "--data", f"again={files / 'digits.npz'}"]
    code, _, err = run(capsys, *both, "--out", tmp_path / "out", "--reference", path)
    assert code == 2
    assert "must have a column target, because there are 2 targets" in err


# --- MedMNIST


@pytest.fixture(scope="module")
def medmnist(tmp_path_factory):
    """Small files of MedMNIST's layout: two targets, and three checkpoints as published."""
    models = pytest.importorskip("torchvision.models")
    folder = tmp_path_factory.mktemp("medmnist")
    rng = np.random.default_rng(0)
    for name, channels in (("breastmnist_224", ()), ("bloodmnist", (3,))):
        labels = np.arange(24).reshape(-1, 1) % 2
        images = rng.integers(0, 200, (24, 28, 28, *channels)) + 50 * labels.reshape(
            -1, 1, 1, *(1 for _ in channels)
        )
        arrays = {"train_images": images.astype(np.uint8), "train_labels": labels.astype(np.uint8)}
        np.savez(folder / f"{name}.npz", **arrays)
    sizes = load_medmnist_reference(as_frame=False).sizes
    for number, name in enumerate(("Breast", "Blood", "Pneumonia")):
        torch.manual_seed(number)
        module = models.resnet18(num_classes=sizes[name]["n_classes"])
        path = folder / f"weights_{name.lower()}mnist" / "resnet18_224_1.pth"
        path.parent.mkdir()
        torch.save({"net": module.state_dict()}, path)
    return folder


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)


MEDMNIST = [
    *("--metrics", "logme", "leep", "--fractions", "0.5", "--repeats", "2"),
    *("--input-size", "32", "--device", "cpu"),
]


def test_medmnist_targets_sources_and_published_reference(capsys, medmnist, tmp_path, no_network):
    code, _, err = run(
        capsys, "--data", f"medmnist:{medmnist}", "--candidates", f"medmnist:{medmnist}", *MEDMNIST,
        "--reference", "medmnist:auroc", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    pools = {t: sorted(set(own["candidate"])) for t, own in scores.groupby("target")}
    # Nobody is ranked on what it was trained on.
    assert pools == {
        "breastmnist_224": ["Blood", "ImageNet", "Pneumonia"],
        "bloodmnist": ["Breast", "ImageNet", "Pneumonia"],
    }
    assert "warning: breastmnist_224: Breast was trained on the target, left out." in err
    assert "no checkpoint of Retina, Derma, OrganC," in err
    done = scores[scores["status"] == "done"]
    assert set(done["candidate"]) == {"Breast", "Blood", "Pneumonia"}
    assert set(done["metric"]) == {"logme", "leep"}
    # The weights of ImageNet are nowhere, which is said, and which costs the others nothing.
    assert "ResNet18_Weights.IMAGENET1K_V1 are not there" in err
    agreement = pd.read_csv(tmp_path / "out" / "agreement.csv")
    published = load_medmnist_reference(as_frame=False)
    own = agreement[(agreement["target"] == "bloodmnist") & (agreement["metric"] == "logme")]
    own = own[(own["coefficient"] == "kendall") & (own["fraction"] == 1)]
    auroc = published.reference("Blood", "auroc")
    full = done[(done["target"] == "bloodmnist") & (done["fraction"] == 1)]
    full = full[full["metric"] == "logme"].set_index("candidate")["score"]
    # Two candidates, Breast and Pneumonia, whose AUROC is 0.998 for both: no order, no agreement.
    assert auroc["Breast"] == auroc["Pneumonia"]
    assert full["Breast"] != full["Pneumonia"]
    assert own["value"].isna().all()
    assert own["reason"].str.contains("tied").all()


def test_one_file_of_medmnist(capsys, medmnist, tmp_path, no_network):
    path = medmnist / "breastmnist_224.npz"
    code, _, err = run(
        capsys, "--data", path, "--candidates", f"medmnist:{medmnist}", *MEDMNIST,
        "--reference", "medmnist:accuracy", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert set(scores["candidate"]) == {"Blood", "ImageNet", "Pneumonia"}
    assert (scores["n_samples"].drop_duplicates() == [12, 24]).all()
    # rank leaves the own source out, too.
    assert main(
        ["rank", "--data", str(path), "--candidates", f"medmnist:{medmnist}", *MEDMNIST[-4:],
         "--format", "csv"]
    ) == 0  # fmt: skip
    out, err = capsys.readouterr()
    assert sorted(line.split(",")[1] for line in out.splitlines()[1:]) == [
        "Blood",
        "ImageNet",
        "Pneumonia",
    ]
    assert "Breast was trained on the target, left out." in err


def test_no_candidate_is_left():
    with pytest.raises(ValueError, match="'Breast' was trained on the target; there is no other"):
        without_own_source([NamedCandidate("Breast", None, "Breast")], "Breast")
