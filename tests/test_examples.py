"""Every example of the gallery runs, draws, and leaves nothing behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))

# A fresh interpreter, as for a user; the number of figures is what the gallery would show.
RUN = """
import runpy, sys
import matplotlib
matplotlib.use("Agg")
runpy.run_path(sys.argv[1], run_name="__main__")
import matplotlib.pyplot as plt
print("figures:", len(plt.get_fignums()))
"""


def test_there_are_examples():
    assert EXAMPLES
    assert [path.name for path in EXAMPLES] == sorted({path.name for path in EXAMPLES})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    pytest.importorskip("matplotlib")
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path / "matplotlib")},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.rsplit("figures:", 1)[1]) >= 1
    assert {entry.name for entry in tmp_path.iterdir()} <= {"matplotlib"}
    assert time.perf_counter() - start < 120, "an example of the gallery must be quick"
