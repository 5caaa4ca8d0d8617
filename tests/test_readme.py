"""The README keeps its word: its code runs and its commands exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^(sktransfer .*)$", README, flags=re.MULTILINE)
TARGETS = re.findall(r"\bmake ([a-z]+)\b", README)


def test_there_is_something_to_run():
    assert len(PYTHON) >= 2 and len(COMMANDS) >= 2 and "demo" in TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON, ids=[f"block {i + 1}" for i in range(len(PYTHON))])
def test_the_python_runs_as_it_stands_and_fits_a_narrow_terminal(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    if "load_tiny_zoo" not in code:
        return
    lines = done.stdout.splitlines()
    assert {"rank", "candidate", "logme", "leep"} <= set(lines[0].split())
    assert "..." not in done.stdout
    assert max(map(len, lines)) <= 80
    (best,) = [line.split() for line in lines if line.split()[1:2] == ["1"]]
    assert float(best[3]) > 0 > float(best[4])


def test_the_short_version_has_at_most_ten_lines():
    (code,) = [code for code in PYTHON if "load_tiny_zoo" in code]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_every_option_of_the_commands_exists():
    done = subprocess.run(
        [sys.executable, "-m", "sktransfer", "rank", "--help"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        options = re.findall(r"--[a-z-]+", command.split(">")[0])
        assert options, command
        assert [option for option in options if option not in done.stdout] == [], command


def test_every_make_target_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    defined = re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE)
    assert set(TARGETS) <= set(defined)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


ROW = re.compile(r"^ +(\d+) +(\w+)(?: \(untrained\))? +(-?[\d.]+) ", flags=re.MULTILINE)


@pytest.mark.slow
def test_the_demo_ranks_the_whole_zoo_and_the_table_is_that_of_the_demo():
    """What ``make demo`` runs, as a process of its own; the seconds are those of some machine."""
    shown = ROW.findall(README)
    assert len(shown) >= 5
    done = subprocess.run(
        [sys.executable, "-m", "sktransfer", "rank", "--demo"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "60"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "…" not in done.stdout and "failed" not in done.stdout
    rows = ROW.findall(done.stdout)
    ranks = [int(rank) for rank, *_ in rows]
    assert len(ranks) >= 24
    assert ranks == sorted(ranks)
    printed = {name: (rank, float(logme)) for rank, name, logme in rows}
    assert len(printed) == len(rows)
    for rank, name, logme in shown:
        # The last digits depend on the processor.
        assert printed[name] == (rank, pytest.approx(float(logme), abs=1e-3))
