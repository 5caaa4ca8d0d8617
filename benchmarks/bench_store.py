"""What the feature store costs beside the forward pass that it saves, as ratios within one run.

    python benchmarks/bench_store.py [--quick]

The data are digested once per selection, whatever the number of candidates, so the cost of a hit is
digesting the data and the network, and reading (and checking) the features. Each is compared with
the forward pass of one network over the same data: MobileNetV2 on images of 224 x 224 and a bundled
network of 78,000 parameters on images of 28 x 28. What the weights are makes no difference.

The costs are seconds of processor time over all threads, because other programs on a machine
stretch the wall clock of one measurement and not of the next; speeds in GB/s are by the wall clock.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image

from sktransfer.backbones import FeatureStore, TinyZooBackbone, TorchBackbone
from sktransfer.backbones._provenance import weights_hash


def seconds(work, repeats=3, clock=time.process_time):
    """Median time of a call, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return median(times)


def mobilenet():
    """Give MobileNetV2 as a backbone."""
    from torchvision.models import mobilenet_v2

    return TorchBackbone(
        mobilenet_v2, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), input_size=224
    )


def compare(title, candidate, X, folder):
    """Print what the store costs beside one pass of a candidate over the data."""
    candidate = candidate.fit(X[:2])
    start = time.process_time()
    candidate.extract(X)
    forward = time.process_time() - start
    store = FeatureStore(folder)
    data = store.digest(X)
    parts = {
        "digest of the data": seconds(lambda: store.digest(X)),
        "digest of the weights": seconds(lambda: weights_hash(candidate.module_)),
        "fingerprint": seconds(lambda: store.key(candidate, data)),
    }
    start = time.process_time()
    store.extract(candidate, X, data=data)
    missed = time.process_time() - start
    key = store.key(candidate, data)
    parts["reading and checking"] = seconds(lambda: store.get(key))
    print(f"{title}: {len(X)} images, forward pass {forward:.2f} s of processor time")
    for name, cost in parts.items():
        print(f"  {name:<22}{cost * 1e3:10.2f} ms  {100 * cost / forward:8.3f} % of the pass")
    total = sum(parts.values())
    print(f"  {'a hit, all together':<22}{total * 1e3:10.2f} ms  {100 * total / forward:8.3f} %")
    print(f"  a miss, which extracts and writes: {missed / forward:.3f} of the pass")
    return total / forward


def rates(folder, n_bytes):
    """Print the speed of digesting and of reading with a check, on arrays larger than caches."""
    X = np.random.default_rng(0).integers(0, 255, size=(n_bytes // 4096, 4096), dtype=np.uint8)
    store = FeatureStore(folder)
    cost = seconds(lambda: store.digest(X), clock=time.perf_counter)
    print(f"digest of an array in memory: {X.nbytes / cost / 1e9:.2f} GB/s")
    np.save(Path(folder) / "x.npy", X)
    mapped = np.load(Path(folder) / "x.npy", mmap_mode="r")
    cost = seconds(lambda: store.digest(mapped), clock=time.perf_counter)
    print(f"digest of a memory map: {X.nbytes / cost / 1e9:.2f} GB/s")
    features = X.view(np.float32)[:, :512]
    features = np.nan_to_num(features, copy=True, posinf=0, neginf=0)
    candidate = TinyZooBackbone("mnist_half").fit(np.zeros((2, 28, 28), np.uint8))
    store.put("0" * 40, candidate, features)
    cost = seconds(lambda: store.get("0" * 40), clock=time.perf_counter)
    print(f"reading features, every byte checked: {features.nbytes / cost / 1e9:.2f} GB/s")


def main():
    """Run everything; exit code 1 if a hit costs 5 % of a pass or more."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer images")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    print(f"torch threads: {torch.get_num_threads()}")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        n = 64 if quick else 256
        photos = rng.integers(0, 255, size=(n, 224, 224, 3), dtype=np.uint8)
        ratios.append(compare("MobileNetV2, uint8 array", mobilenet(), photos, folder))
        floats = (photos[: n // 2] / 255).astype(np.float32)
        ratios.append(compare("MobileNetV2, float32 array", mobilenet(), floats, folder))
        paths = []
        for row, photo in enumerate(photos[: n // 2]):
            paths.append(str(Path(folder) / f"{row}.jpg"))
            smooth = Image.fromarray(photo[:56, :56]).resize((500, 400))
            smooth.save(paths[-1], quality=90)
        ratios.append(compare("MobileNetV2, JPEG files", mobilenet(), paths, folder))
        n = 2000 if quick else 10000
        small = rng.integers(0, 255, size=(n, 28, 28), dtype=np.uint8)
        ratios.append(compare("bundled network", TinyZooBackbone("mnist"), small, folder))
        rates(folder, 2**26 if quick else 2**29)
    print(f"dearest hit: {100 * max(ratios):.2f} % of a forward pass")
    return int(max(ratios) >= 0.05)


if __name__ == "__main__":
    raise SystemExit(main())
