"""Targets of the tiny benchmark: their images, the two parts of each, and digests of images.

Digests show that no image is there twice, or among those that a network was pretrained on.
"""

import gzip
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sktransfer.datasets import load_digits_target

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import tiny_zoo_sources as sources

# By target: families whose candidates are left out, and rows of each class, in the order of the
# file, that make up the pool training rows are drawn from, and the test part.
EXCLUDED = {"digits": (), "mnist": ("mnist",), "fashion": ("fashion",)}
PER_CLASS = {"mnist": (150, 100), "fashion": (300, 200)}
N_SEEN_BY_ZOO = 250  # of each class of the 5,000 images of MNIST
SALT = b"tiny benchmark"


@dataclass(frozen=True)
class Target:
    """A target.

    Attributes
    ----------
    name : str
        Its name.
    images : ndarray of shape (n, 28, 28), uint8
        Images of both parts, in the order of the file.
    labels : ndarray of shape (n,), int64
        Their labels.
    rows : ndarray of shape (n,), int64
        Their places in the file.
    is_test : ndarray of shape (n,), bool
        Which of them are the test part.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    is_test: np.ndarray


def load_target(name, files):
    """Load a target.

    Parameters
    ----------
    name : {"digits", "mnist", "fashion"}
        Which one.
    files : SourceFiles
        Where the images are; digits need none.

    Returns
    -------
    target : Target
        The target.
    """
    if name == "digits":
        digits = load_digits_target()
        # In each class, every third image is a test image.
        place = _place_in_class(digits.y)
        return Target(name, digits.images, digits.y, np.arange(len(digits.y)), place % 3 == 2)
    if name == "mnist":
        images, labels = read_mnist(files)
        first = N_SEEN_BY_ZOO
    else:
        images, labels = read_fashion(files, "t10k")
        first = 0
    n_pool, n_test = PER_CLASS[name]
    place = _place_in_class(labels) - first
    rows = np.flatnonzero((place >= 0) & (place < n_pool + n_test))
    return Target(name, images[rows], labels[rows], rows, place[rows] >= n_pool)


def _place_in_class(labels):
    place = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = np.arange(len(members))
    return place


def read_mnist(files):
    """Read all of the 5,000 images, of which the zoo has seen the first 250 of each class."""
    with gzip.open(files.mnist_file, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return table[:, :-1].astype(np.uint8).reshape(-1, sources.SIZE, sources.SIZE), table[:, -1]


def read_fashion(files, part):
    """Read the file "train" or "t10k" of Fashion-MNIST."""
    folder = files.fashion_folder
    images = sources._read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    return images, sources._read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(np.int64)


def source_images(files):
    """Give all real images that networks of the zoo were trained on, or held out for them.

    Returns
    -------
    images : dict of str to ndarray of shape (n, 28, 28), uint8
        By family.
    """
    mnist, labels = read_mnist(files)
    return {
        "fashion": read_fashion(files, "train")[0],
        "mnist": mnist[_place_in_class(labels) < N_SEEN_BY_ZOO],
    }


def digests(images, size=4):
    """Digest images so that an image and its quarter turns have the same digest.

    Parameters
    ----------
    images : ndarray of shape (n, 28, 28), uint8
        The images.
    size : {4, 8}, default=4
        Number of bytes.

    Returns
    -------
    digests : ndarray of shape (n,), uint32 or uint64
        BLAKE2b of the raw pixels, the least of the four turns. Images with different digests are
        different, however they are turned; the same digest of 4 bytes may be a coincidence.
    """
    turned = [np.ascontiguousarray(np.rot90(images, k, axes=(1, 2))) for k in range(4)]
    turned = [turn.reshape(len(images), -1) for turn in turned]
    least = [
        min(
            hashlib.blake2b(turn.tobytes(), digest_size=size, person=SALT).digest()
            for turn in turns
        )
        for turns in zip(*turned, strict=True)
    ]
    return np.frombuffer(b"".join(least), dtype=f">u{size}").astype(f"u{size}")
