"""Places for the names of points, so that they cover neither points nor each other."""

import numpy as np

from ._panels import text_width

__all__ = ["annotate_points"]

# Directions from a point, the plainest first, and distances in points.
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_DISTANCES = (6, 14, 24, 36, 50)


def annotate_points(ax, points, names, size, bars):
    """Write a name beside each point, with a line to it where it had to move away.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes of final limits and size.
    points : ndarray of shape (n_points, 2)
        In data coordinates.
    names : list of str of length n_points
        What to write.
    size : float
        Of the text, in points.
    bars : ndarray of shape (n_bars, 2, 2)
        Start and end of the bars, in data coordinates: better not covered either.

    Returns
    -------
    texts : list of Annotation
        In the order of the points.
    """
    from matplotlib import patheffects

    dots = ax.figure.dpi / 72
    places = ax.transData.transform(points) / dots
    frame = np.array(ax.bbox.extents) / dots
    along = np.linspace(0, 1, 9)[:, None, None]
    bars = (bars[:, 0] * (1 - along) + bars[:, 1] * along).reshape(-1, 2)
    bars = ax.transData.transform(bars) / dots if len(bars) else np.empty((0, 2))
    widths = [72 * text_width(name, size) + 2 for name in names]
    boxes, texts = [], [None] * len(names)
    # The crowded ones first: they have least choice.
    distances = np.hypot(*(places[:, None] - places[None]).T)
    for index in np.argsort((distances < 40).sum(axis=0) * -1, kind="stable"):
        extent = (widths[index], 1.25 * size)
        offset, box = _best_place(places[index], extent, places, bars, boxes, frame)
        boxes.append(box)
        line = {"arrowstyle": "-", "color": "#808080", "linewidth": 0.6, "shrinkA": 0}
        far = np.hypot(*_gap(places[index], box)) > _DISTANCES[0] + 3
        texts[index] = ax.annotate(
            names[index],
            points[index],
            xytext=offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=size,
            parse_math=False,
            annotation_clip=False,
            zorder=6,
            arrowprops=line if far else None,
            path_effects=[patheffects.withStroke(linewidth=2, foreground="white")],
            # Its place depends on that of the axes, which must not depend on it in turn.
            in_layout=False,
        )
    return texts


def _best_place(point, size, points, bars, boxes, frame):
    """Choose the offset of a text's centre that covers least, and give its box."""
    best = None
    half = np.array(size) / 2
    for near, distance in enumerate(_DISTANCES):
        for turn, direction in enumerate(_DIRECTIONS):
            offset = np.array(direction) * (half + distance * (0.7 if all(direction) else 1))
            low, high = point + offset - half, point + offset + half
            box = np.concatenate([low, high])
            cost = 60 * near + turn
            cost += 7 * ((bars > low) & (bars < high)).all(axis=1).sum()
            cost += 300 * ((points > low - 3) & (points < high + 3)).all(axis=1).sum()
            cost += sum(20 + 5 * _overlap(box, other) for other in boxes if _overlap(box, other))
            # What leaves the axes may be cut off.
            cost += 40 * np.maximum(0, np.concatenate([frame[:2] - low, high - frame[2:]])).sum()
            if best is None or cost < best[0]:
                best = (cost, offset, box)
    return best[1:]


def _overlap(box, other):
    """Area that two boxes share."""
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    return float(np.prod(np.maximum(sides, 0)))


def _gap(point, box):
    """From a point to the nearest of a box."""
    return np.clip(point, box[:2], box[2:]) - point
