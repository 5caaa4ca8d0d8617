"""The bundled benchmark: the tiny zoo fine-tuned on three targets, and every metric's scores."""

from ._tiny_benchmark_cells import TinyBenchmark
from ._tiny_benchmark_tables import (
    MEASURES,
    read_images,
    read_protocol,
    read_reference,
    read_scores,
)

__all__ = ["load_tiny_benchmark"]

_DESCR = """The {n_candidates} networks of the tiny zoo fine-tuned on three targets, and scored.

Targets: {targets}. For each of them, {train_sizes} training images and {n_seeds} seeds,
all networks but those of the target's own family were fine-tuned and measured on test images by
accuracy, AUROC and log loss (with its sign changed); the same architectures were trained from
scratch; and all {n_metrics} metrics of this package scored the networks on the same training
images. The images of MNIST and Fashion-MNIST are not part of the package, the digits come with
scikit-learn.

Made by benchmarks/build_tiny_benchmark.py.
"""


def load_tiny_benchmark(*, as_frame="auto"):
    """Load the bundled benchmark: the tiny zoo, really fine-tuned on three targets, and scored.

    To find out how well a transferability metric ranks, without fine-tuning anything: references
    for small targets of 50 to 1,000 images, in several seeds, so that it is also known how well
    they agree with each other. Nothing is downloaded, and torch is not needed.

    Read more in the :ref:`User Guide <tiny_benchmark>`.

    Parameters
    ----------
    as_frame : bool or "auto", default="auto"
        Whether ``frame`` and ``score_frame`` are made, which needs pandas; "auto" makes them if
        pandas is installed.

    Returns
    -------
    benchmark : TinyBenchmark
        With the methods :meth:`~TinyBenchmark.reference`, :meth:`~TinyBenchmark.from_scratch`,
        :meth:`~TinyBenchmark.scores`, :meth:`~TinyBenchmark.ceiling` and others, and the attributes

        targets : tuple of str
            "digits", of scikit-learn; "mnist", images of MNIST that no candidate has seen;
            "fashion", the test images of Fashion-MNIST.
        train_sizes, seeds : tuple of int
            Numbers of training images, and seeds. A seed is a draw of training images, of the new
            head's weights (all weights, from scratch), and of the order of batches.
        measures : tuple of str
            What was measured on the test images; higher is better.
        metrics : tuple of str
            The metrics that were scored, by the names of
            :func:`~sktransfer.metrics.metric_names`.
        cells : tuple of (str, int, int)
            All combinations of target, train size and seed.
        widths : tuple of float
            Widths of the architectures that were trained from scratch.
        candidate_facts : dict of str to dict
            By candidate its ``family``, ``source``, ``width``, ``n_parameters``, ``pretrained`` and
            ``source_accuracy`` (None for networks with random weights).
        data : structured ndarray of shape (n_rows,)
            Results of fine-tuning, a row per target, train size, seed and candidate, with a
            field per measure; rows from scratch have the field ``from_scratch``. Read-only.
        score_data, saturated_data : structured ndarray of shape (n_score_rows,)
            A row per target, train size, seed and candidate, with a field per metric: its score,
            and whether the metric warned that it carries no information. Read-only.
        images : structured ndarray of shape (n_images,)
            The images of all targets: ``target``, ``row`` in its file, ``label``, ``part`` ("pool",
            which training images are drawn from, or "test"). Read-only.
        frame, score_frame : pandas.DataFrame or None
            ``data`` and ``score_data``.
        protocol : dict
            How it was made: settings of fine-tuning, versions, numbers of images.
        DESCR : str
            The same in a few sentences.

    Raises
    ------
    ImportError
        If frames are asked for and pandas is not installed.

    See Also
    --------
    load_tiny_zoo : The candidates.
    load_medmnist_reference : Published references.

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_benchmark
    >>> benchmark = load_tiny_benchmark()
    >>> benchmark.targets, benchmark.train_sizes, benchmark.seeds
    (('digits', 'mnist', 'fashion'), (50, 100, 300, 1000), (0, 1, 2, 3, 4))
    >>> [len(benchmark.candidates(target)) for target in benchmark.targets]
    [31, 26, 22]
    """
    if not (isinstance(as_frame, bool) or as_frame == "auto"):
        raise ValueError(f"'as_frame' must be True, False or 'auto'. Got {as_frame!r} instead.")
    protocol = read_protocol()
    data = read_reference()
    score_data, saturated_data, reasons = read_scores()
    targets = tuple(protocol["targets"])
    train_sizes, seeds = tuple(protocol["train_sizes"]), tuple(protocol["seeds"])
    facts = protocol.pop("candidates")
    return TinyBenchmark(
        targets=targets,
        train_sizes=train_sizes,
        seeds=seeds,
        measures=MEASURES,
        metrics=saturated_data.dtype.names,
        cells=tuple(
            (target, train_size, seed)
            for target in targets
            for train_size in train_sizes
            for seed in seeds
        ),
        widths=tuple(sorted({fact["width"] for fact in facts.values()})),
        candidate_facts=facts,
        data=data,
        score_data=score_data,
        saturated_data=saturated_data,
        images=read_images(),
        frame=_frame(data, as_frame),
        score_frame=_frame(score_data, as_frame),
        protocol=protocol,
        DESCR=_DESCR.format(
            n_candidates=len(facts),
            targets=", ".join(targets),
            train_sizes=", ".join(map(str, train_sizes)),
            n_seeds=len(seeds),
            n_metrics=len(saturated_data.dtype.names),
        ),
        _reasons=reasons,
        _reference_rows=_rows_by_cell(data),
        _score_rows=_rows_by_cell(score_data),
        _candidates={
            target: tuple(protocol["targets"][target]["candidates"]) for target in targets
        },
    )


def _rows_by_cell(data):
    """Find the rows of each cell, which stand together."""
    cells = data[["target", "train_size", "seed"]].tolist()
    starts = [i for i, cell in enumerate(cells) if i == 0 or cell != cells[i - 1]]
    ends = [*starts[1:], len(cells)]
    return {cells[a]: slice(a, b) for a, b in zip(starts, ends, strict=True)}


def _frame(data, as_frame):
    if not as_frame:
        return None
    try:
        import pandas as pd
    except ImportError:
        if as_frame == "auto":
            return None
        raise ImportError(
            "as_frame=True needs pandas; install it, or use 'data' and 'score_data'."
        ) from None
    return pd.DataFrame({name: data[name] for name in data.dtype.names})
