"""Files of the tiny benchmark: how they are written, and how they are read."""

import csv
import gzip
import io
import json
from importlib.resources import files

import numpy as np

__all__ = [
    "MEASURES",
    "read_digests",
    "read_images",
    "read_protocol",
    "read_reference",
    "read_scores",
    "scratch_name",
    "write_table",
]

MEASURES = ("accuracy", "roc_auc_ovr", "neg_log_loss")
CELL = ("target", "train_size", "seed", "candidate")
_FOLDER = files("sktransfer.datasets") / "data" / "tiny_benchmark"
_CELL_DTYPE = [
    ("target", "U7"),
    ("train_size", np.int64),
    ("seed", np.int64),
    ("candidate", "U24"),
]


def scratch_name(width):
    """Name the row of an architecture that is trained from random weights.

    Parameters
    ----------
    width : float
        Width of the network.

    Returns
    -------
    name : str
        What stands in place of a candidate.
    """
    return f"from scratch, width {width:g}"


def write_table(path, names, rows):
    """Write a table as compressed CSV; the same rows make the same bytes.

    Parameters
    ----------
    path : Path
        The file.
    names : sequence of str
        Names of the columns.
    rows : iterable of sequences
        Texts and numbers.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.getvalue().encode("utf-8"), 9, mtime=0))


def _read_table(name):
    rows = csv.reader(_lines(name))
    return next(rows), list(rows)


def _lines(name):
    content = (_FOLDER / f"{name}.csv.gz").read_bytes()
    return gzip.decompress(content).decode("utf-8").splitlines()


def read_protocol():
    """Read how the benchmark was made.

    Returns
    -------
    protocol : dict
        Settings, versions, and facts about targets and candidates.
    """
    return json.loads((_FOLDER / "protocol.json").read_text(encoding="utf-8"))


def read_reference():
    """Read the results of fine-tuning.

    Returns
    -------
    data : structured ndarray of shape (n_rows,)
        A row per target, train size, seed and candidate, with a field per measure.
    """
    _, rows = _read_table("reference")
    measures = [(measure, np.float64) for measure in MEASURES]
    return _frozen([*_CELL_DTYPE, ("from_scratch", np.bool_), *measures], map(_with_bool, rows))


def _with_bool(row):
    return (*row[:4], row[4] == "1", *row[5:])


def read_scores():
    """Read the scores of all metrics.

    Returns
    -------
    data : structured ndarray of shape (n_rows,)
        A row per target, train size, seed and candidate, with a field per metric.
    saturated : structured ndarray of shape (n_rows,)
        The same fields, of bool, without the first four.
    reasons : dict of (target, train size, seed, candidate, metric) to str
        Why a score is NaN.
    """
    names, rows = _read_table("scores")
    metrics = names[len(CELL) : -2]
    scores = _frozen(
        [*_CELL_DTYPE, *((metric, np.float64) for metric in metrics)],
        (tuple(text or "nan" for text in row[:-2]) for row in rows),
    )
    saturated = _frozen(
        [(metric, np.bool_) for metric in metrics],
        (tuple(metric in row[-2].split() for metric in metrics) for row in rows),
    )
    reasons = {
        (row[0], int(row[1]), int(row[2]), row[3], metric): reason
        for row in rows
        if row[-1]
        for metric, reason in json.loads(row[-1]).items()
    }
    return scores, saturated, reasons


def read_images():
    """Read which images make up the targets.

    Returns
    -------
    data : structured ndarray of shape (n_images,)
        ``target``, ``row`` in its file, ``label`` and ``part`` ("pool" or "test").
    """
    _, rows = _read_table("images")
    dtype = [
        ("target", "U7"),
        ("row", np.int64),
        ("label", np.int64),
        ("part", "U4"),
    ]
    return _frozen(dtype, rows)


def read_digests(kind):
    """Read digests of images, made by ``digests`` in ``benchmarks/tiny_benchmark_targets.py``.

    Parameters
    ----------
    kind : {"target", "source"}
        Images of the targets, or all real images that networks of the zoo may have been trained
        on.

    Returns
    -------
    digests : dict of str to ndarray of uint32
        By target or family, sorted.
    """
    # Fields are longer than the csv module takes by default.
    fields = [line.split(",") for line in _lines("digests")[1:]]
    return {
        name: np.cumsum(np.array(gaps.split(), dtype=np.int64)).astype(np.uint32)
        for a_kind, name, gaps in fields
        if a_kind == kind
    }


def _frozen(dtype, rows):
    data = np.array([tuple(row) for row in rows], dtype=dtype)
    data.flags.writeable = False
    return data
