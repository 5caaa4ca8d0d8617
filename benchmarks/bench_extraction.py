"""Speed and memory of the extraction pass beside a bare loop of PyTorch that does the same work.

    python benchmarks/bench_extraction.py [--quick]

The bare loop reads the same rows, brings pixels to the same mean and standard deviation, runs the
network in inference mode, and writes features and probabilities into arrays that were made before.
Both run in turns in one process, on one thread; the ratio is that of the medians of processor time,
which other work on the machine disturbs less than the clock. What is done once for every batch
(looking at its numbers for NaN, copying rows so that a network that works in place leaves the
user's alone, two hooks) takes a tenth of a millisecond; it shows for two layers on vectors, where a
batch takes a millisecond, and the limit is not meant for that. Memory is the
growth of the resident set of a process of its own, beyond what it was with the model and the input
(a memory map) and one batch through the network: 200,000 rows of 512 features may take the output
and 300 MB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from sktransfer.backbones import TinyZooBackbone, TorchBackbone

LIMIT_RATIO, LIMIT_MB = 1.05, 300
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def bare_loop(forward, prepare, X, n_features, n_classes, batch_size=64):
    """Extract features and probabilities as a short script would."""
    features = np.empty((len(X), n_features), dtype=np.float32)
    probabilities = np.empty((len(X), n_classes), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(X), batch_size):
            rows = slice(start, start + batch_size)
            found, logits = forward(prepare(torch.from_numpy(X[rows])))
            features[rows] = found.numpy()
            probabilities[rows] = logits.softmax(dim=1).numpy()
    return features, probabilities


def pixels(mean, std):
    """Give what turns images with channels last into what a network takes."""
    mean, std = (torch.tensor(value)[:, None, None] for value in (mean, std))

    def prepare(images):
        images = images.permute(0, 3, 1, 2).contiguous().float()
        return images.div_(255).sub_(mean).div_(std)

    return prepare


def mobilenet(quick):
    """Run MobileNetV2 on photographs of 224 x 224 pixels."""
    from torchvision.models import mobilenet_v2

    X = np.random.default_rng(0).integers(0, 256, (64 if quick else 128, 224, 224, 3), np.uint8)
    backbone = TorchBackbone(mobilenet_v2, mean=MEAN, std=STD, device="cpu").fit(X)
    network = mobilenet_v2().eval()
    network.load_state_dict(backbone.module_.state_dict())

    def forward(x):
        features = network.features(x).mean((2, 3))
        return features, network.classifier(features)

    return backbone, X, forward, pixels(MEAN, STD)


def tiny(quick):
    """Run the tiny residual network on many grey images of 28 x 28 pixels."""
    X = np.random.default_rng(0).integers(0, 256, (3_200 if quick else 6_400, 28, 28, 1), np.uint8)
    backbone = TinyZooBackbone("fashion", device="cpu").fit(X)
    network, card = backbone.module_, backbone.card

    def forward(x):
        features = network.pool(network.stages(network.stem(x))).flatten(1)
        return features, network.head(features)

    return backbone, X, forward, pixels([card.mean], [card.std])


def perceptron(quick):
    """Run two layers on very many vectors: what is done once for every batch shows here."""
    X = np.random.default_rng(0).normal(size=(10_000 if quick else 50_000, 256)).astype("f4")
    network = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).eval()
    backbone = TorchBackbone(network, device="cpu", batch_size=256).fit(X)

    def forward(x):
        features = network[:2](x)
        return features, network[2](features)

    return backbone, X, forward, lambda x: x


def measure(case, quick, repeats):
    """Give the median times of both in seconds, run in turns, and the largest difference."""
    backbone, X, forward, prepare = case(quick)
    expected = backbone.extract(X[:64])
    n_features, n_classes = (part.shape[1] for part in expected)

    def bare():
        return bare_loop(forward, prepare, X, n_features, n_classes, backbone.batch_size)

    ours, theirs = backbone.extract(X), bare()
    difference = max(
        np.abs(a - b).max() / np.abs(b).max() for a, b in zip(ours, theirs, strict=True)
    )
    times = {bare: [], backbone.extract: []}
    for turn in range(repeats):
        for work in list(times)[:: 1 if turn % 2 else -1]:
            start = time.process_time()
            work(X) if work is not bare else work()
            times[work].append(time.process_time() - start)
    return [median(seconds) for seconds in times.values()], float(difference), len(X)


_PEAK = """
import resource, sys
import numpy as np, torch
from torch import nn
from sktransfer.backbones import TorchBackbone
torch.set_num_threads(1)
X = np.load(sys.argv[1], mmap_mode="r")
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
backbone = TorchBackbone(network, mean=0.5, std=0.5, device="cpu", n_workers=int(sys.argv[2]))
backbone.fit(X[:64]).extract(X[:64])
def resident():
    pages = [int(line.split()[1]) for line in open("/proc/self/status") if "RssAnon" in line]
    return pages[0] * 1024
import threading
peak, before, done = [0], resident(), threading.Event()
def watch():
    while not done.wait(0.02):
        peak[0] = max(peak[0], resident())
thread = threading.Thread(target=watch)
thread.start()
features, probabilities = backbone.extract(X)
done.set()
thread.join()
peak[0] = max(peak[0], resident())
print(peak[0] - before, features.nbytes + probabilities.nbytes)
"""


def peak_memory(quick, n_workers):
    """Give growth of memory and size of the output in MB, of a process of its own."""
    n = 20_000 if quick else 200_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, "w+", np.uint8, (n, 16, 16))
        X[::7] = 200
        X.flush()
        found = subprocess.run(
            [sys.executable, "-c", _PEAK, str(path), str(n_workers)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    return [int(number) / 1e6 for number in found.stdout.split()] + [n]


def main():
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less data, a minute in all")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, numpy {np.__version__}, one thread, CPU\n")
    print(f"{'speed':<34}{'rows':>9}{'bare s':>9}{'ours s':>9}{'ratio':>8}{'limit':>8}  difference")
    for case, limit in ((mobilenet, LIMIT_RATIO), (tiny, LIMIT_RATIO), (perceptron, None)):
        (bare, ours), difference, n = measure(case, quick, 3 if case is mobilenet else 31)
        print(
            f"{case.__name__:<34}{n:>9,}{bare:>9.3f}{ours:>9.3f}{ours / bare:>8.3f}"
            f"{limit or '':>8}  {difference:.1e}",
            flush=True,
        )
    print(f"\n{'memory':<34}{'rows':>9}{'output':>9}{'growth':>9}{'beyond':>8}{'limit':>8}  MB")
    for n_workers in (0, 2):
        growth, output, n = peak_memory(quick, n_workers)
        print(
            f"{f'512 features, {n_workers} threads ahead':<34}{n:>9,}{output:>9.0f}{growth:>9.0f}"
            f"{growth - output:>8.0f}{LIMIT_MB:>8}",
            flush=True,
        )


if __name__ == "__main__":
    main()
