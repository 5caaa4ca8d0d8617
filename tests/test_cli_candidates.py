"""Candidates of one's own on the command line: where they are found, named, and how they fail."""

import csv
import io
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="the bundled networks need torch")
pytest.importorskip("click", reason="the command line needs click")
pytest.importorskip("rich", reason="the command line needs rich")

from sktransfer._cli_candidates import parse_candidates
from sktransfer.cli import main


def run(capsys, *arguments):
    code = main(["rank", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


SAD_MODULES = {
    "raises": "raise RuntimeError('on import')",
    "syntax": "def (",
    "leaves": "import sys; sys.exit(3)",
    "makers": """
def broken():
    raise OSError("no internet\\nconnection")
def needs(argument):
    return argument
def leaves():
    raise SystemExit(3)
""",
    "noisy": """
print("noise on import")
import torch
from sklearn.base import BaseEstimator, TransformerMixin
class Pixels(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        print("noise in fit")
        return self
    def transform(self, X):
        print("noise in transform")
        return X.reshape(len(X), -1) / 255.0
class Broken(Pixels):
    def transform(self, X):
        raise RuntimeError("the disk is on fire")
class Leaves(Pixels):
    def transform(self, X):
        raise SystemExit(3)
mnist = cv = pixels = Pixels()
broken = Broken()
leaves = Leaves()
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 8), torch.nn.Linear(8, 3))
""",
    "others": "from noisy import pixels",
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules in the current folder, which is not on the path, as for the installed command."""
    folder = tmp_path / "modules"
    folder.mkdir()
    for name, text in SAD_MODULES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    elsewhere = [path for path in sys.path if path not in ("", str(folder))]
    monkeypatch.setattr(sys, "path", elsewhere)
    yield folder
    for name in SAD_MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        ("raises:x", "can't be imported: RuntimeError: on import"),
        ("syntax:x", "can't be imported: SyntaxError"),
        ("leaves:x", "can't be imported: it ended the program, sys.exit(3)"),
        ("noisy:nothing", "has no attribute 'nothing'"),
        ("makers:broken", "can't be built: OSError: no internet connection"),
        ("makers:needs", "can't be built: TypeError: needs() missing 1 required"),
        ("makers:leaves", "can't be built: it ended the program"),
        ("noisy:network", "give --mean and --std"),
    ],
)
def test_whatever_an_own_module_raises_is_one_line(capsys, npz, modules, candidate, words):
    code, out, err = run(capsys, "--data", npz, "--candidates", f"python:{candidate}")
    assert (code, out) == (2, "")
    (message,) = [line for line in err.splitlines() if line.startswith("sktransfer:")]
    assert f"'python:{candidate}'" in message
    assert words in message


def test_a_candidate_that_ends_the_program_while_it_runs(capsys, npz, modules):
    code, out, err = run(capsys, "--data", npz, "--candidates", "python:noisy:leaves")
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last == "sktransfer: candidate 'leaves' ended the program, sys.exit(3)."


def test_no_candidate_could_be_scored(capsys, npz, modules):
    code, out, err = run(capsys, "--data", npz, "--candidates", "python:noisy:broken")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("sktransfer: The only candidate, 'broken', could not")
    assert "the disk is on fire" in err.splitlines()[-1]


def test_modules_of_the_current_folder_leave_no_trace_on_the_path(capsys, npz, modules):
    before = list(sys.path)
    code, _, _ = run(capsys, "--data", npz, "--candidates", "python:others:pixels")
    assert code == 0
    assert sys.path == before


@pytest.mark.parametrize("output_format", ["csv", "json", "table"])
def test_what_own_modules_print_stays_out_of_the_result(capsys, npz, modules, output_format):
    code, out, err = run(
        capsys, "--data", npz, "--candidates", "python:noisy:pixels", "--format", output_format
    )
    assert code == 0
    assert "noise" not in out
    for where in ("on import", "in fit", "in transform"):
        assert f"noise {where}" in err


def test_different_candidates_never_share_a_name(capsys, npz, modules):
    code, out, _ = run(
        capsys, "--data", npz, "--format", "csv", "--candidates", "python:noisy:pixels",
        "python:others:pixels", "python:noisy:mnist", "tiny:mnist", "python:noisy:cv",
        "python:noisy:leaves", "python:noisy:pixels", "tiny:mnist*", "--quiet",
    )  # fmt: skip
    assert code == 2  # for the one that leaves
    names = [
        name
        for name, _ in parse_candidates(
            ["python:noisy:pixels", "python:others:pixels", "python:noisy:mnist", "tiny:mnist",
             "python:noisy:cv", "python:noisy:leaves", "python:noisy:pixels", "tiny:mnist"]
        )
    ]  # fmt: skip
    assert names == [
        "noisy:pixels", "others:pixels", "noisy:mnist", "mnist", "noisy:cv", "leaves",
    ]  # fmt: skip
    code, out, _ = run(
        capsys, "--data", npz, "--format", "csv", "--candidates", "python:noisy:pixels",
        "python:others:pixels", "python:noisy:cv",
    )  # fmt: skip
    assert code == 0
    assert {row["candidate"] for row in rows_of(out)} == {
        "noisy:pixels", "others:pixels", "noisy:cv",
    }  # fmt: skip


def test_a_plain_network_with_mean_and_std(capsys, npz, digits, modules):
    from sktransfer.backbones import TorchBackbone
    from sktransfer.metrics import LogME

    arguments = ["--data", npz, "--candidates", "python:noisy:network", "--format", "csv"]
    code, out, _ = run(capsys, *arguments, "--mean", "-0.5", "--std", "0.25")
    assert code == 0
    network = sys.modules["noisy"].network
    features = TorchBackbone(network, mean=-0.5, std=0.25).fit(digits[0]).transform(digits[0])
    expected = LogME().fit(features, digits[1]).score_
    assert float(rows_of(out)[0]["logme"]) == pytest.approx(expected, abs=1e-6)
    wrong = {
        "given together": ["--mean", "0"],
        "not a number": ["--mean", "grey", "--std", "1"],
        "'std' positive": ["--mean", "0", "--std", "0"],
    }
    for words, options in wrong.items():
        code, out, err = run(capsys, *arguments, *options)
        assert (code, out) == (2, "")
        assert words in err.splitlines()[-1]
    code, _, err = run(capsys, "--demo", "--candidates", "tiny:mnist", "--mean", "0", "--std", "1")
    assert code == 2
    assert "there is none among the candidates" in err


def test_a_plain_network_for_vectors_needs_no_normalisation(capsys, digits, modules):
    np.savez("vectors.npz", X=digits[0].reshape(len(digits[0]), -1) / 255.0, y=digits[1])
    code, out, _ = run(
        capsys, "--data", "vectors.npz", "--candidates", "python:noisy:network", "--format", "csv"
    )
    assert code == 0
    assert rows_of(out)[0]["width"] == "8"


def test_one_candidate_that_cannot_take_the_data_leaves_the_others(capsys, npz, modules):
    for order in (["tiny:mnist", "python:noisy:pixels"], ["python:noisy:pixels", "tiny:mnist"]):
        code, out, _ = run(
            capsys, "--data", npz, "--candidates", *order, "python:noisy:broken", "--format", "csv"
        )
        assert code == 0
        assert len(rows_of(out)) == 3


def candidates_of(*specifications, **options):
    return dict(parse_candidates(specifications, **options))


def test_networks_of_torchvision_by_name_weights_and_layer():
    found = candidates_of(
        "torchvision:mobilenet_v2", "torchvision:mobilenet_v2@features.7",
        "torchvision:mobilenet_v2:IMAGENET1K_V2", "torchvision:squeezenet1_1:none",
        batch_size=5, n_workers=2, device="cpu",
    )  # fmt: skip
    assert list(found) == [
        "mobilenet_v2", "mobilenet_v2@features.7", "mobilenet_v2:IMAGENET1K_V2",
        "squeezenet1_1:none",
    ]  # fmt: skip
    assert [candidate.weights for candidate in found.values()] == [
        "IMAGENET1K_V1", "IMAGENET1K_V1", "IMAGENET1K_V2", None,
    ]  # fmt: skip
    assert [candidate.layer for candidate in found.values()] == [
        "penultimate", "features.7", "penultimate", "penultimate",
    ]  # fmt: skip
    for candidate in found.values():
        assert (candidate.batch_size, candidate.n_workers, candidate.device) == (5, 2, "cpu")


@pytest.mark.parametrize(
    ("specification", "words"),
    [
        ("torchvision:", "names no network"),
        ("torchvision:mobilenet_v22", "mobilenet_v2"),
        ("torchvision:mobilenet_v2:IMAGENET1K_V9", "IMAGENET1K_V9"),
        ("torchvision:mobilenet_v2@", "ends where a layer is expected"),
        ("torchvision:mobilenet_v2=", "ends where a file is expected"),
        (
            "torchvision:resnet18:DEFAULT=weights.pth",
            "both weights of the library and a checkpoint",
        ),
        ("tiny:mnist=weights.pth", "names a checkpoint"),
        ("features:", "names no file"),
        ("features:nowhere.npy", "no file 'nowhere.npy'"),
        ("python:noisy:pixels@stage", "names a layer"),
    ],
)
def test_what_is_wrong_with_a_specification_is_said_before_any_work(
    capsys, npz, modules, specification, words
):
    code, out, err = run(capsys, "--data", npz, "--candidates", specification)
    assert (code, out) == (2, "")
    (message,) = [line for line in err.splitlines() if line.startswith("sktransfer:")]
    assert words in message


def test_layers_of_bundled_networks(capsys, npz):
    code, out, _ = run(
        capsys, "--data", npz, "--candidates", "tiny:mnist@stages", "tiny:fashion@stages.0",
        "tiny:mnist", "--format", "csv",
    )  # fmt: skip
    assert code == 0
    widths = {row["candidate"]: int(row["width"]) for row in rows_of(out)}
    assert list(widths) != [] and set(widths) == {
        "mnist@stages.0", "mnist@stages.1", "mnist@stages.2", "fashion@stages.0", "mnist",
    }  # fmt: skip
    assert widths["mnist@stages.0"] < widths["mnist@stages.1"] < widths["mnist@stages.2"]


def test_a_checkpoint_of_ones_own(capsys, npz, digits, modules, tmp_path):
    import torch
    from safetensors.torch import save_file

    from sktransfer.backbones import TorchBackbone
    from sktransfer.metrics import LogME

    (modules / "nets.py").write_text(
        """
from torch import nn
def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 6), nn.ReLU(), nn.Linear(6, 3))
"""
    )
    torch.manual_seed(4)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)
    )
    file = tmp_path / "own.safetensors"
    save_file(network.state_dict(), file)
    arguments = ["--data", npz, "--format", "csv", "--mean", "0", "--std", "1", "--candidates"]
    code, out, _ = run(capsys, *arguments, f"python:nets:small={file}")
    sys.modules.pop("nets", None)
    assert code == 0
    features = TorchBackbone(network, mean=0, std=1).fit(digits[0]).transform(digits[0])
    (row,) = rows_of(out)
    assert float(row["logme"]) == pytest.approx(LogME().fit(features, digits[1]).score_, abs=1e-6)
    assert row["pretrained"] == "True"


def test_features_computed_elsewhere(capsys, npz, digits, tmp_path):
    from sktransfer.metrics import LogME

    features = digits[0].reshape(len(digits[0]), -1)[:, ::9] / 255.0
    file = tmp_path / "elsewhere.npy"
    np.save(file, features)
    code, out, _ = run(
        capsys, "--data", npz, "--candidates", f"features:{file}", "tiny:mnist", "--format", "csv"
    )
    assert code == 0
    scores = {row["candidate"]: float(row["logme"]) for row in rows_of(out)}
    assert scores["elsewhere"] == pytest.approx(LogME().fit(features, digits[1]).score_, abs=1e-6)


@pytest.fixture
def photographs(tmp_path):
    """A folder of pieces of two photographs, in colour and of several sizes, and of drawn ones."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    rng = np.random.default_rng(0)
    folder = tmp_path / "my photographs"
    for name in ("china", "flower"):
        (folder / name).mkdir(parents=True)
        photograph = load_sample_image(f"{name}.jpg")
        for i in range(8):
            size = int(rng.integers(60, 120))
            top, left = (int(rng.integers(0, n - size)) for n in photograph.shape[:2])
            piece = photograph[top : top + size, left : left + size]
            Image.fromarray(piece).save(folder / name / f"{i}.{'jpg' if i % 2 else 'png'}")
    return folder


BROKEN = """
from torch import nn
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        raise RuntimeError("the layer exploded")
def build():
    return Broken()
"""


@pytest.fixture
def rows_of_networks():
    """Rows that went through whole networks, by class: every call of any of them counts."""
    import torch
    from torchvision.models import MobileNetV2

    from sktransfer.backbones import TinyResNet

    counts = {MobileNetV2: [], TinyResNet: []}

    def count(module, args):
        if type(module) in counts:
            counts[type(module)].append(len(args[0]))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(count)
    yield counts
    handle.remove()


@pytest.mark.pretrained
def test_a_folder_of_photographs_twice_with_a_broken_candidate(
    capsys, photographs, imagenet_mobilenet, modules, rows_of_networks, tmp_path
):
    (modules / "broken_net.py").write_text(BROKEN)
    arguments = [
        "--data", str(photographs), "--cache", str(tmp_path / "features"), "--format", "csv",
        "--metric", "logme", "leep", "--batch-size", "5",
        "--mean", "0.5", "--std", "0.5", "--input-size", "32", "--candidates",
        "torchvision:mobilenet_v2", "torchvision:mobilenet_v2@features.7", "tiny:fashion",
        "python:broken_net:build",
    ]  # fmt: skip
    results, n_data_rows = [], []
    for _ in range(2):
        for rows in rows_of_networks.values():
            rows.clear()
        code, out, err = run(capsys, *arguments)
        assert code == 0
        results.append({row["candidate"]: row for row in rows_of(out)})
        # Batches of more than two rows are passes over the data, not looks at the network.
        n_data_rows.append([sum(n for n in rows if n > 2) for rows in rows_of_networks.values()])
        assert "'build' has no score by 'logme' and 'leep'" in err
        assert "the layer exploded" in err
    sys.modules.pop("broken_net", None)
    assert "features of 3 of 4 candidates came from the store." in err
    first, second = results
    assert set(first) == {"mobilenet_v2", "mobilenet_v2@features.7", "fashion", "build"}
    # One pass of each network, the two layers together, and of the best one's untrained twin; then
    # none at all. (16 = 5 + 5 + 5 + 1)
    assert n_data_rows == [[30, 15], [0, 0]]
    for name, row in first.items():
        assert (row["rank"], row["logme"], row["leep"]) == tuple(
            second[name][column] for column in ("rank", "logme", "leep")
        )
    assert first["build"]["logme"] == "" and float(first["mobilenet_v2"]["leep"]) < 0
    assert first["mobilenet_v2"]["width"] == "1280"
    assert first["mobilenet_v2"]["weights"] == "IMAGENET1K_V1"


def test_stages_of_weights_that_cannot_be_had_cost_no_other_candidate(
    capsys, photographs, modules, monkeypatch, tmp_path
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "nothing"))
    import torch

    def no_network(url, *args, **kwargs):
        raise OSError("no internet connection")

    monkeypatch.setattr(torch.hub, "download_url_to_file", no_network)
    code, out, err = run(
        capsys, "--data", str(photographs), "--format", "csv", "--candidates",
        "torchvision:mobilenet_v3_small@stages", "tiny:fashion",
    )  # fmt: skip
    assert code == 0
    scores = {row["candidate"]: row["logme"] for row in rows_of(out)}
    assert scores.pop("fashion") != ""
    assert list(scores.values()) == [""]
    assert "cannot be downloaded" in err
