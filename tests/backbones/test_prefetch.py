"""Batches that threads read ahead: in order, bounded, and never left running."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from sktransfer.backbones import TorchBackbone
from sktransfer.backbones._files import ImageItems
from sktransfer.backbones._images import FileImages
from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._preprocessing import ImagePreprocessing

PIXELS = ImagePreprocessing((0.0,), (1.0,))


class Batches:
    """Rows as lists of numbers; slower ones first, so that threads overtake each other."""

    def __init__(self, n, wrong=()):
        self.n = n
        self.wrong = wrong
        self.read_rows = []

    def __len__(self):
        return self.n

    def batch(self, rows):
        self.read_rows.append(rows.start)
        time.sleep(0.002 if rows.start % 3 == 0 else 0)
        numbers = list(range(rows.start, rows.stop))
        for row in numbers:
            if row in self.wrong:
                raise ValueError(f"row {row}")
        return numbers


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("sktransfer-read-ahead")]


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    yield
    assert threads() == []


@pytest.mark.parametrize("n_workers", [0, 1, 2, 5])
@pytest.mark.parametrize(("n", "size", "start"), [(50, 4, 0), (50, 4, 7), (3, 64, 0), (0, 4, 0)])
def test_rows_come_in_order(n, size, start, n_workers):
    batches = Batches(n)
    parts = list(iter_batches(batches, size, start, n_workers))
    assert [row for _, numbers in parts for row in numbers] == list(range(start, n))
    assert all(list(range(n))[rows] == numbers for rows, numbers in parts)
    assert len(batches.read_rows) == len(parts)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_threads_read_only_so_far_ahead(n_workers):
    batches = Batches(1000)
    parts = iter_batches(batches, 1, n_workers=n_workers)
    for taken in range(1, 6):
        next(parts)
        time.sleep(0.03)
        assert len(batches.read_rows) == taken + n_workers
    parts.close()


def test_an_error_comes_in_its_place_and_ends_all():
    batches = Batches(1000, wrong={41, 42, 600})
    seen = []
    with pytest.raises(ValueError, match="row 41"):
        for rows, _ in iter_batches(batches, 5, n_workers=4):
            seen.append(rows.start)
    assert seen == list(range(0, 40, 5))
    assert max(batches.read_rows) < 80
    assert threads() == []


def test_what_failed_in_a_thread_only_is_read_again():
    class OneThread(Batches):
        """As a connection to a data base that other threads may not use."""

        def batch(self, rows):
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("another thread")
            return super().batch(rows)

    parts = iter_batches(OneThread(20), 3, n_workers=2)
    assert [row for _, numbers in parts for row in numbers] == list(range(20))


def test_an_abandoned_generator_stops_its_threads():
    parts = iter_batches(Batches(1000), 2, n_workers=3)
    next(parts)
    assert 1 <= len(threads()) <= 3
    del parts
    gc.collect()
    assert threads() == []
    # One that never began has started nothing.
    iter_batches(Batches(5), 2, n_workers=3)
    assert threads() == []


def test_batches_are_not_kept():
    class Large(Batches):
        def batch(self, rows):
            return np.zeros(2**20, dtype=np.uint8)

    for n_workers in (0, 3):
        tracemalloc.start()
        for rows, batch in iter_batches(Large(60), 1, n_workers=n_workers):
            del rows, batch
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < (n_workers + 3) * 2**20


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_control_c_is_heard_and_ends_the_process():
    code = """
import threading, time
from sktransfer.backbones._prefetch import iter_batches
class Slow:
    def __len__(self): return 1000
    def batch(self, rows):
        time.sleep(0.05)
        return rows
print("ready", flush=True)
try:
    for rows, batch in iter_batches(Slow(), 1, n_workers=3):
        pass
except KeyboardInterrupt:
    left = [t for t in threading.enumerate() if t.name.startswith("sktransfer")]
    print("interrupted", len(left), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "interrupted 0\n"


def _read_in_child(paths, queue):
    images = FileImages(paths, PIXELS)
    parts = iter_batches(images, 2, n_workers=2)
    queue.put(sum(float(batch.sum()) for _, batch in parts))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_reads_too_while_threads_run(tmp_path):
    paths = save(tmp_path, 12)
    images = FileImages(paths, PIXELS)
    expected = sum(float(images.batch(slice(row, row + 1)).sum()) for row in range(12))
    parts = iter_batches(images, 1, n_workers=2)
    next(parts)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(paths, queue))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == pytest.approx(expected, rel=1e-5)
    assert len(list(parts)) == 11


# -- files -----------------------------------------------------------------------------------------


def save(folder, n):
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{row:03d}.png") for row in range(n)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (9, 9), dtype=np.uint8)).save(path)
    return paths


def test_files_are_read_in_order_by_threads(tmp_path):
    paths = save(tmp_path, 40)
    paths = paths[::-1] + paths  # and one file in two rows
    images = [Image.open(path) for path in paths[:40]]
    images = images + images
    backbone = TorchBackbone(nn.Flatten(), mean=0.0, std=1.0, batch_size=3)
    expected = backbone.fit(paths).transform(paths)
    for X in (paths, images):
        for n_workers in (1, 4):
            found = backbone.set_params(n_workers=n_workers).fit(X).transform(X)
            np.testing.assert_array_equal(
                found, np.tile(expected[:40], (2, 1)) if X is images else expected
            )


@pytest.mark.parametrize("n_workers", [0, 1, 4])
def test_all_damaged_files_are_named_with_their_rows(tmp_path, n_workers):
    paths = save(tmp_path, 40)
    backbone = TorchBackbone(
        nn.Flatten(), mean=0.0, std=1.0, batch_size=2, n_workers=n_workers
    ).fit(paths)
    content = (tmp_path / "000.png").read_bytes()
    for row in (17, 18, 33):
        (tmp_path / f"{row:03d}.png").write_bytes(content[:-40])
    with pytest.raises(ValueError, match="3 of 40 image files cannot be read") as caught:
        backbone.transform(paths)
    for row in (17, 18, 33):
        assert f"row {row}: {paths[row]} (" in str(caught.value)
    assert threads() == []


def test_batch_sizes_and_threads_give_the_same_features(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    paths = save(tmp_path, 20)
    results = [
        TorchBackbone(network, mean=0.5, std=0.5, batch_size=size, n_workers=workers).fit_transform(
            paths
        )
        for size in (1, 7, 64)
        for workers in (0, 3)
    ]
    for features in results[1:]:
        np.testing.assert_allclose(features, results[0], atol=1e-5)


# -- an index of many paths ------------------------------------------------------------------------


def test_paths_take_little_more_than_their_letters():
    n = 20_000
    given = [f"/some/folder/of/images/class {row % 10}/image number {row}.png" for row in range(n)]
    letters = sum(map(len, given))
    tracemalloc.start()
    items = ImageItems(given)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < letters + 16 * n
    assert len(items) == n
    assert [items[row] for row in (0, 7, n - 1)] == [given[0], given[7], given[-1]]
    with pytest.raises(IndexError, match="20000 images, and row 20000 is asked for"):
        items[n]
    # An array of letters is used as it is.
    array = np.array(given)
    tracemalloc.start()
    items = ImageItems(array)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 10_000
    assert items[7] == given[7]


def test_names_in_any_encoding_are_kept(tmp_path):
    names = ["grün.png", "画像.png", "with space.png"]
    if sys.platform == "linux":
        names.append(os.fsdecode(b"not \xff utf-8.png"))
    for name in names:
        Image.new("L", (3, 3), 7).save(tmp_path / name)
    paths = [str(tmp_path / name) for name in names]
    assert list(ImageItems(paths)) == paths
    assert FileImages(paths, PIXELS).batch(slice(0, 9)).shape == (len(names), 1, 3, 3)


def test_files_are_looked_into_once_and_again_when_they_change(tmp_path, monkeypatch):
    paths = save(tmp_path, 6)
    opened = []
    original = Image.open
    monkeypatch.setattr(Image, "open", lambda *a, **k: opened.append(a[0]) or original(*a, **k))
    for _ in range(3):
        FileImages(paths, PIXELS)
    assert len(opened) == 6
    FileImages(np.array(paths), PIXELS)
    assert len(opened) == 6
    (tmp_path / "003.png").write_text("no image")
    with pytest.raises(ValueError, match=r"003.png \(not an image\)"):
        FileImages(paths, PIXELS)
    (tmp_path / "003.png").unlink()
    with pytest.raises(ValueError, match=r"003.png \(no such file\)"):
        FileImages(paths, PIXELS)
    # What was decoded need not be looked into; what was looked into was not decoded.
    opened.clear()
    ImageItems(paths[:3]).check(pixels=True)
    FileImages(paths[:3], PIXELS)
    assert len(opened) == 3
    FileImages(paths[4:], PIXELS)
    ImageItems(paths[4:]).check(pixels=True)
    assert len(opened) == 7
