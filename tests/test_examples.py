"""Every example of the gallery runs, draws, and leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))

# For each example a process of its own, as for a user. They are forks of one that has imported the
# large libraries, which takes longer than most examples. The number of figures is what the gallery
# would show.
RUN = """
import contextlib, importlib, json, os, runpy, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

for name in ("pandas", "sklearn.ensemble", "sklearn.model_selection", "torch"):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)

def tell(kind, path, *found):
    with open(os.path.join(results, "results.jsonl"), "a") as file:
        file.write(json.dumps([kind, path, *found]) + "\\n")

results = os.getcwd()
for number, path in enumerate(sys.argv[1:]):
    child = os.fork() if hasattr(os, "fork") else 0
    if child:
        _, status, used = os.wait4(child, 0)
        tell("ended", path, status, used.ru_utime + used.ru_stime)
        continue
    os.mkdir(str(number))
    os.chdir(str(number))
    runpy.run_path(path, run_name="__main__")
    tell("figures", path, len(plt.get_fignums()), os.listdir())
    break
"""


def test_there_are_examples():
    assert EXAMPLES
    assert [path.name for path in EXAMPLES] == sorted({path.name for path in EXAMPLES})


@pytest.mark.slow
def test_examples_run(tmp_path):
    pytest.importorskip("matplotlib")
    paths = [str(path) for path in EXAMPLES]
    for part in [paths] if hasattr(os, "fork") else [[path] for path in paths]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN, *part],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={
                **os.environ,
                # Threads do not survive a fork.
                **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
                "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
            },
            timeout=300 * len(part),
        )
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    drawn = {path: found for kind, path, *found in lines if kind == "figures"}
    for kind, path, *found in lines:
        if kind == "ended":
            status, seconds = found  # of the processor
            assert status == 0, f"{path}\n{done.stderr}"
            assert seconds < 120, f"{path}: an example of the gallery must be quick"
    assert list(drawn) == paths, done.stderr
    for path, (n_figures, left_behind) in drawn.items():
        assert n_figures >= 1, path
        assert left_behind == [], path
