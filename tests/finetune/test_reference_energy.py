"""The energy of units: measured where that can be done, silently, and never in the way."""

import importlib.metadata
import logging
import os
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.finetune import FineTuneClassifier, reference_ranking
from sktransfer.finetune._reference_energy import measured

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
NET = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


def ranked(energy, out=None):
    return reference_ranking(
        {"net": TorchBackbone(NET)},
        X[:20],
        Y[:20],
        X[20:],
        Y[20:],
        estimator=FineTuneClassifier(None, max_epochs=2),
        n_seeds=1,
        from_scratch=False,
        energy=energy,
        out=out,
    )


def work():
    return sum(range(10**6))


@pytest.fixture
def nothing_installed(monkeypatch):
    """A process that finds neither package."""
    monkeypatch.setattr("sktransfer.finetune._reference_energy.find_spec", lambda name: None)


def test_codecarbon(tmp_path, monkeypatch, capfd):
    pytest.importorskip("codecarbon")
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("codecarbon")
    before = logger.level, logger.disabled
    ranking = ranked("auto", out=tmp_path / "out")
    for row in ranking.rows:
        assert 0 < row.energy < 1e-2
    assert ranking.protocol["energy"] == [f"codecarbon {importlib.metadata.version('codecarbon')}"]
    assert os.listdir(tmp_path) == ["out"]
    assert tuple(capfd.readouterr()) == ("", "")
    assert (logger.level, logger.disabled) == before
    # Kept, and no part of what decides a result.
    assert ranked(False, out=tmp_path / "out").rows == ranking.rows
    without = ranked(False)
    assert [row.value for row in without.rows] == [row.value for row in ranking.rows]
    assert without.protocol["energy"] == [] and without.rows[0].energy is None


def test_carbontracker(capfd):
    pytest.importorskip("carbontracker")
    with measured("carbontracker") as used:
        work()
    assert used.kwh is None or 0 <= used.kwh < 1e-2
    assert used.by.startswith("carbontracker")
    assert tuple(capfd.readouterr()) == ("", "")


def test_nothing_is_installed(nothing_installed):
    with measured("auto") as used:
        work()
    assert used.kwh is None and used.by is None
    ranking = ranked("carbontracker")
    assert ranking.protocol["energy"] == ["carbontracker is not installed"]
    assert ranking.rows[0].energy is None
    assert ranked(True).protocol["energy"] == []


class _OldTracker:
    """A tracker of CodeCarbon as it was before outputs became a list."""

    made = 0

    def __init__(self, *, country_iso_code, tracking_mode, save_to_file, log_level, **options):
        assert not save_to_file and options == {"allow_multiple_runs": True}
        logging.getLogger("codecarbon").error("this is not to be seen")
        type(self).made += 1
        self.tasks = {}

    def start_task(self, name):
        self.tasks[name] = None

    def stop_task(self, name):
        del self.tasks[name]
        return types.SimpleNamespace(energy_consumed=2e-6)


def test_an_older_codecarbon(monkeypatch, capfd):
    package = types.ModuleType("codecarbon")
    package.OfflineEmissionsTracker = _OldTracker
    monkeypatch.setitem(sys.modules, "codecarbon", package)
    monkeypatch.setattr("sktransfer.finetune._reference_energy.find_spec", bool)
    monkeypatch.setattr("sktransfer.finetune._reference_energy._CodeCarbon._trackers", {})
    for _ in range(2):
        with measured("codecarbon") as used:
            work()
        assert used.kwh == 2e-6 and used.by.startswith("codecarbon ")
    assert _OldTracker.made == 1
    assert tuple(capfd.readouterr()) == ("", "")


class _Part:
    """A component as Carbontracker has them, of constant power."""

    def __init__(self, power, problem=None):
        self.power, self.problem = power, problem
        self.n_read = self.n_shut = 0

    def available(self):
        return self.power is not None

    def init(self):
        pass

    def collect_power_usage(self, epoch):
        assert epoch == 1
        self.n_read += 1
        if self.problem is not None:
            raise RuntimeError(self.problem)

    def energy_usage(self, seconds):
        return [self.power * seconds[0] / 3.6e6]

    def shutdown(self):
        self.n_shut += 1


@pytest.fixture
def carbontracker(monkeypatch):
    """A function that installs parts in the place of Carbontracker's own."""

    def install(*parts):
        component = types.ModuleType("carbontracker.components.component")
        component.create_components = lambda components, pids, devices_by_pid, logger: (
            logger.info("found some") or list(parts)
        )
        for name in ("carbontracker", "carbontracker.components"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, component.__name__, component)
        monkeypatch.setattr(
            "sktransfer.finetune._reference_energy.find_spec",
            lambda name: name == "carbontracker" or None,
        )

    return install


def test_parts_of_carbontracker_are_added_up(carbontracker):
    parts = _Part(100.0), _Part(None), _Part(50.0)
    carbontracker(*parts)
    with measured("auto") as used:
        work()
    assert 0 < used.kwh < 150 * 60 / 3.6e6
    assert used.by.startswith("carbontracker ")
    assert [part.n_read > 0 for part in parts] == [True, False, True]
    assert [part.n_shut for part in parts] == [1, 0, 1]


def test_what_fails_is_noted_and_costs_nothing(carbontracker):
    carbontracker(_Part(None))
    ranking = ranked("auto")
    assert ranking.protocol["energy"] == [
        "carbontracker failed: RuntimeError: it finds nothing here that it could measure"
    ]
    broken = _Part(10.0, problem="no permission")
    carbontracker(broken)
    ranking = ranked("carbontracker")
    (reason,) = ranking.protocol["energy"]
    assert "failed: RuntimeError: RuntimeError: no permission" in reason
    assert ranking.rows[0].energy is None and np.isfinite(ranking.rows[0].value)
    assert broken.n_shut == 1


def test_an_error_inside_is_not_swallowed(carbontracker):
    part = _Part(10.0)
    carbontracker(part)
    with pytest.raises(KeyError, match="mine"), measured("auto"):
        raise KeyError("mine")
    assert part.n_shut == 1
