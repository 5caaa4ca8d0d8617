"""What holds for the whole package: imports, layers, what an import changes, what is shipped."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sktransfer

ROOT = Path(sktransfer.__file__).resolve().parents[1]
PACKAGE = ROOT / "sktransfer"
MODULES = sorted(PACKAGE.rglob("*.py"))
OPTIONAL = [
    "torch",
    "torchvision",
    "timm",
    "optuna",
    "sqlalchemy",
    "skorch",
    "safetensors",
    "PIL",
    "pandas",
    "matplotlib",
    "polars",
    "pyarrow",
    "click",
    "rich",
]
# Lower layers never import higher ones. `datasets` hands out backbones; `exceptions` is for all.
LAYERS = {
    "exceptions": 0,
    "utils": 1,
    "metrics": 2,
    "evaluation": 2,
    "backbones": 3,
    "datasets": 4,
    "finetune": 5,
    "model_selection": 6,
    "inspection": 7,
    "cli": 8,
    "__main__": 9,
}


# The one import upwards, made when it is called: a result writes its own report.
UPWARDS = {("sktransfer.model_selection._best_candidate", "sktransfer.inspection.write_report")}


def room(module):
    """The part of the package that a module belongs to: `_cli_output` is part of `cli`."""
    parts = module.split(".")[1:]
    if len(parts) == 1 and parts[0].startswith("_cli"):
        return "cli"
    return parts[0] if parts else ""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_below(*packages):
    names = [module_name(path) for path in MODULES]
    return [
        name
        for name in names
        if any(name == package or name.startswith(package + ".") for package in packages)
    ]


def imported_names(path):
    """Every absolute dotted name that a module imports, also inside functions, with its line."""
    module = module_name(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def run_python(code, *arguments, cwd):
    """Run code in a fresh interpreter away from the checkout; its standard output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- imports ---------------------------------------------------------------------------------------

CORE_MODULES = ["sktransfer", "sktransfer.exceptions"] + modules_below(
    "sktransfer.metrics", "sktransfer.evaluation", "sktransfer.utils"
)

USE_THE_CORE = """
import importlib, sys
import numpy as np

for name in sys.argv[1:]:
    importlib.import_module(name)

from sktransfer.metrics import LEEP, NCE, HScore, LogME

rng = np.random.default_rng(0)
y = np.arange(60) % 3
F = rng.normal(size=(60, 5)) + 2 * np.eye(3, 5)[y]
P = rng.dirichlet(np.ones(4), size=60) / 2 + np.eye(3, 4)[y] / 2
scores = [LogME().fit(F, y).score_, HScore().fit(F, y).score_,
          LEEP().fit(P, y).score_, NCE().fit(P.argmax(axis=1), y).score_]
assert np.isfinite(scores).all(), scores
"""

WITHOUT_OPTIONAL = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
for name in BLOCKED:
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} was not blocked")
"""


@pytest.mark.slow
def test_the_core_works_without_any_optional_dependency(tmp_path):
    blocker = f"BLOCKED = {OPTIONAL!r}\n{WITHOUT_OPTIONAL}"
    output = run_python(blocker + USE_THE_CORE, *CORE_MODULES, cwd=tmp_path)
    assert output == ""


@pytest.mark.slow
def test_the_core_does_not_import_optional_dependencies_that_are_there(tmp_path):
    pytest.importorskip("torch")
    report = "\nprint(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = run_python(USE_THE_CORE + report, *CORE_MODULES, cwd=tmp_path).split()
    assert "sklearn" in loaded
    # scikit-learn itself imports these where they are installed.
    theirs = {"pandas", "pyarrow", "rich"}
    assert set(loaded) & set(OPTIONAL) <= theirs


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_only_one_module_imports_undocumented_scikit_learn_names(path):
    private = [
        f"line {line}: {name}"
        for name, line in imported_names(path)
        if name.split(".")[0] == "sklearn" and any(part.startswith("_") for part in name.split("."))
    ]
    if path == PACKAGE / "utils" / "_sklearn.py":
        assert private, "the shim imports nothing private: is it still needed?"
    else:
        assert private == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_go_one_way(path):
    module = module_name(path)
    layer = 0 if module == "sktransfer" else LAYERS[room(module)]
    for name, line in imported_names(path):
        target = room(".".join(name.split(".")[:2]))
        if (module, name) in UPWARDS:
            continue
        if name.split(".")[0] == "sktransfer" and target in LAYERS:
            same = target == room(module)
            assert same or LAYERS[target] < layer, f"line {line}: {module} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in ("metrics", "evaluation")],
    ids=module_name,
)
def test_metrics_and_evaluation_never_import_an_optional_dependency(path):
    optional = [name for name, _ in imported_names(path) if name.split(".")[0] in OPTIONAL]
    assert optional == []


def test_the_import_scan_sees_every_form(tmp_path, monkeypatch):
    folder = tmp_path / "sktransfer" / "metrics"
    folder.mkdir(parents=True)
    source = folder / "_x.py"
    source.write_text(
        "import torch.nn\n"
        "from sklearn.utils import _private\n"
        "from . import _moments\n"
        "from ..utils._sklearn import Interval\n"
        "def f():\n    from ._leep import LEEP\n"
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert [name for name, _ in imported_names(source)] == [
        "torch.nn",
        "sklearn.utils._private",
        "sktransfer.metrics._moments",
        "sktransfer.utils._sklearn.Interval",
        "sktransfer.metrics._leep.LEEP",
    ]


# -- what an import changes ------------------------------------------------------------------------

IMPORT_CHANGES_NOTHING = """
import importlib, json, locale, logging, os, random, sys, warnings

# Other libraries change filters and flags when they are imported; that is theirs to answer for.
optional, ours = (argument.split() for argument in sys.argv[1:])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    third_party = ["numpy", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"]
    third_party += ["sklearn." + name for name in __import__("sklearn").__all__ if name.islower()]
    third_party += ["sklearn.callback", "threadpoolctl", "joblib", *optional]
    for name in third_party:
        try:
            importlib.import_module(name)
        except ImportError:
            assert name in optional or name.startswith("sklearn."), name

import matplotlib, numpy, sklearn, threadpoolctl, torch


def state():
    python, bits = random.getstate(), numpy.random.get_state()
    root = logging.getLogger()
    return {
        "warning filters": [repr(entry) for entry in warnings.filters],
        "random": hash(python),
        "numpy.random": [bits[0], bits[1].tolist(), *bits[2:]],
        "torch.random": torch.get_rng_state().tolist(),
        "numpy errors": numpy.geterr(),
        "print options": repr(numpy.get_printoptions()),
        "scikit-learn": sklearn.get_config(),
        "thread pools": threadpoolctl.threadpool_info(),
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "torch flags": [
            torch.is_grad_enabled(), str(torch.get_default_dtype()),
            torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
            torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic, torch.backends.mkldnn.enabled,
        ],
        "logging": [root.level, len(root.handlers), len(root.filters), root.manager.disable],
        "matplotlib": {key: repr(value) for key, value in matplotlib.rcParams.items()
                       if key != "backend"},
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion limit": sys.getrecursionlimit(),
        "hooks": [id(sys.excepthook), id(sys.displayhook), id(warnings.showwarning)],
        "folder": os.getcwd(),
    }


before = state()
for name in ours:
    importlib.import_module(name)
after = state()
changed = [key for key in before if before[key] != after[key]]
assert not changed, {key: (before[key], after[key]) for key in changed}
"""


@pytest.mark.slow
def test_importing_the_whole_package_changes_no_state_and_prints_nothing(tmp_path):
    for name in ("torch", "matplotlib", "threadpoolctl"):
        pytest.importorskip(name)
    ours = [name for name in modules_below("sktransfer") if not name.endswith("__main__")]
    code = f"import sys\n{IMPORT_CHANGES_NOTHING}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, " ".join(OPTIONAL), " ".join(ours)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


# -- the shape of the source -----------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_holds_one_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=module_name
)
def test_every_package_has_a_docstring_and_an_all_that_holds(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    ]
    if not listed:
        assert module_name(path) == "sktransfer.utils", "a public package needs __all__"
        return
    (names,) = listed
    assert len(set(names)) == len(names)
    package = __import__(module_name(path), fromlist=names)
    assert [name for name in names if not hasattr(package, name)] == []


def test_every_folder_with_python_files_is_a_package():
    assert {path.parent for path in MODULES} == {
        path.parent for path in MODULES if path.name == "__init__.py"
    }


# -- what is shipped -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that the checkout stays as it is."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(PACKAGE, copy / "sktransfer", ignore=shutil.ignore_patterns("__pycache__"))
    build = "import setuptools.build_meta as build, sys; build.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(copy / "dist")],
        capture_output=True,
        text=True,
        cwd=copy,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (path,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel):
    def wanted(path):
        return path.is_file() and "__pycache__" not in path.parts

    expected = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if wanted(path)}
    shipped = {name for name in wheel.namelist() if not name.split("/")[0].endswith("dist-info")}
    assert shipped == expected
    assert "sktransfer/py.typed" in shipped


@pytest.mark.slow
def test_the_wheel_names_its_licence_command_and_dependencies(wheel):
    info = f"sktransfer-{sktransfer.__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "BSD-3-Clause" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert any(name.endswith("LICENSE") for name in wheel.namelist())
    assert "sktransfer = sktransfer.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    required = re.findall(r"^Requires-Dist: ([\w-]+)\S*$", metadata, flags=re.MULTILINE)
    assert sorted(required) == ["filelock", "numpy", "scikit-learn", "scipy"]
    extras = set(re.findall(r"^Provides-Extra: (\S+)", metadata, flags=re.MULTILINE))
    optional = {"torch", "plot", "cli", "ot", "timm", "search", "energy"}
    assert extras == optional | {"all", "test", "docs"}


def test_the_changelog_starts_with_this_version():
    versions = re.findall(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert [version for version in versions if version != "Unreleased"][0] == sktransfer.__version__


def test_no_file_names_a_folder_of_the_machine_it_was_written_on():
    folders = re.compile(r"(?<![\w.])/(?:work|root|home|opt|tmp)/\w")
    checked = [*MODULES, *(ROOT / "docs").glob("**/*.rst"), *(ROOT / "examples").glob("*.py")]
    checked += [ROOT / name for name in ("README.md", "Makefile", "setup.cfg", "CHANGELOG.md")]
    assert [path.name for path in checked if folders.search(path.read_text("utf-8"))] == []


def test_the_weights_and_cards_are_data_not_code():
    """Nothing that is loaded at run time may execute: no pickle, no torch archive."""
    data = [path for path in (PACKAGE / "datasets" / "data").rglob("*") if path.is_file()]
    assert {path.suffix for path in data} <= {
        ".safetensors",
        ".json",
        ".npz",
        ".csv",
        ".gz",
        ".md",
        ".txt",
    }
    for path in data:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
