"""Search for the metric, and its parameters, whose scores agree best with a reference."""

import os
from contextlib import suppress
from numbers import Integral, Real

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..backbones._store import FeatureStore
from ..evaluation._resampling import check_resampling, random_generator
from ..utils._announce import announce
from ..utils._sklearn import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _check_feature_names,
    _check_n_features,
    _fit_context,
    _VisualBlock,
)
from ._composition import CandidateComposition
from ._metric_collection import named_metrics, validated_metrics
from ._metric_search_agreement import Agreement, resampled
from ._metric_search_data import check_data
from ._metric_search_grid import by_setting, metric_settings
from ._metric_search_reference import (
    Reference,
    check_choice_sizes,
    check_scoring,
    deciding_scoring,
)
from ._metric_search_results import SearchScores, search_frame, search_table
from ._selection import Progress, Selection
from ._validation import refuse_repeated_rows, require_defined, usable_splits

__all__ = ["MetricSearchCV"]


class MetricSearchCV(MetaEstimatorMixin, CallbackSupportMixin, CandidateComposition):
    """Search for the metric that agrees best with a reference ranking on a target.

    Every candidate is run over the data once. All metrics, with all values of their parameters,
    score the same features, and the scores are compared with a reference such as fine-tuned
    performance: which of the metrics would have ranked these candidates right?

    Read more in the :ref:`User Guide <metric_search>`.

    Parameters
    ----------
    candidates : list of (str, transformer) tuples
        The candidates with their names, as for :class:`TransferabilitySelector`. With
        :meth:`set_params` one can be replaced, also by ``"drop"`` or ``"passthrough"``.
    metrics : str, metric, list of these, or dict of str to these
        The metrics to compare, by names known to :func:`sktransfer.metrics.get_metric` or as
        instances. A dict gives them names of your own.
    param_grid : dict or list of dict, default=None
        Values to try, as ``{"logme__tol": [1e-3, 1e-6], "hscore__shrinkage": [None, 0.1]}``, or
        nested as ``{"logme": {"tol": [1e-3, 1e-6]}}``. Values of one metric are combined with each
        other, not with those of other metrics. Of a list of dicts each adds its settings; an empty
        one stands for all metrics as they are. A metric that is not named is taken as it is.
    reference : mapping, series, structured array, frame or ReferenceRanking
        The measured performance by name of the candidate; what
        :func:`~sktransfer.evaluation.rank_correlation` takes, with names.
    cv : int, splitter or iterable, default=None
        On which samples the metrics are computed.

        - ``None``: on all, once.
        - an integer: on the training part of each of so many shuffled folds, stratified if `y`
          holds classes.
        - a splitter or an iterable of (train, test) pairs: on each training part. The test
          indices are not looked at.
        - an iterable of subsets: arrays of row numbers, each once, or masks, also at the head of a
          tuple, as in ``(rows, fraction, repeat)``.
    scoring : str or sequence of str, default=("kendall", "weighted_kendall", "spearman", \
            "pearson", "top_k", "regret")
        Measures of agreement. The correlations are those of
        :func:`~sktransfer.evaluation.rank_correlation`; "top_k" is
        :func:`~sktransfer.evaluation.top_k_recall`, "regret" is
        :func:`~sktransfer.evaluation.selection_regret` and "relative_top_k" has its own name.
    refit : str, default=None
        The measure that decides which setting is the best. If None, "weighted_kendall" if it is
        in `scoring`, else the first.
    k : int or dict of str to int, default=1
        How many candidates are chosen in "top_k", "regret" and "relative_top_k"; a dict such as
        ``{"top_k": 3}`` says it for each. These are undefined if fewer can be run.
    greater_is_better : bool, default=True
        Whether a larger reference is better; False for a loss.
    names : {"same", "common"}, default="same"
        "same": a name that only the candidates or only the reference have is an error, but for
        candidates that were dropped. "common": it is left out and listed in ``left_out_``;
        such candidates are not run.
    nan_policy : {"propagate", "omit"}, default="propagate"
        What a candidate without a score does to the agreement of that metric, and an undefined
        split to the mean: it makes it undefined, with the reason, or is left out. Leaving out
        candidates that a metric fails on flatters the metric. With "omit" candidates without a
        finite number in the reference are left out too; otherwise they are an error.
    level : float, default=0.95
        Of the limits, and of the set of settings that may be the best.
    n_resamples : int, default=1000
        Bootstrap resamples of the candidates behind both, at least ``2 / (1 - level)``. With 0
        the table lacks their columns, and no setting is told apart from the best.
    n_permutations : int, default=999
        Random references behind ``best_pvalue_``, which is NaN with 0.
    n_jobs : int, default=None
        Number of processes that compute metrics. The results don't depend on it.
    memory : str, path, FeatureStore or object with the interface of `joblib.Memory`, default=None
        Where to keep extracted features, as for :class:`TransferabilitySelector`.
    error_score : "raise" or numpy.nan, default=numpy.nan
        What to do if a candidate fails: with NaN it has no score by the metric that failed, or is
        left out if it could not be run, and a
        :class:`~sktransfer.exceptions.CandidateFailedWarning` tells why; "raise" lets the error
        through.
    random_state : int, Generator, RandomState or None, default=0
        Seed of resamples and random references, and of metrics with ``random_state=None``, which
        all settings share.
    verbose : int, default=0
        With 1 or more, a line is printed for each candidate that is done.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray of shape (n_settings,)
        A table with a row for each metric and each combination of its values. Columns: ``metric``,
        ``params`` (a list of dicts), ``param_<metric>__<parameter>``, masked where it isn't one
        of the metric; for each measure ``split<i>_test_<measure>``, ``mean_test_<measure>``,
        ``std_test_<measure>`` (over splits, NaN for one), ``rank_test_<measure>`` (1 is the best,
        equal means share a rank, NaN is last) and ``reason_<measure>``, why something is undefined
        (None if nothing is); for the correlations ``lower_test_<measure>`` and
        ``upper_test_<measure>``, limits of the mean over other candidates, and
        ``tied_test_<measure>``, whether the setting may be as good as the best; ``n_candidates``,
        how many have a score in every split; ``mean_score_time`` and ``std_score_time`` in
        seconds per candidate and split. The regret is a loss in units of the reference: 0 is
        the best, and rank 1 has the smallest.
    best_index_ : int
        Row of the best setting; of equal ones the first, in the order of `metrics` and of the grid.
    best_metric_ : str
        Its metric.
    best_params_ : dict of str to object
        The values that the grid gave it, empty for a metric as it is.
    best_score_ : float
        Its ``mean_test_<measure>`` by the deciding measure.
    best_estimator_ : metric
        An unfitted metric with these parameters, for :class:`TransferabilitySelector`.
    best_pvalue_ : float
        Share of random references with which the best of *all* settings agrees at least as well
        by the deciding measure. It allows for the number of settings tried.
    tied_with_best_ : ndarray of int
        Rows that can't be told apart from the best by the deciding measure, itself among them.
        For measures of a choice, or without resamples, all rows where it is defined.
    refit_scoring_ : str
        The deciding measure.
    scoring_ : list of str
        All measures.
    chance_ : dict of str to float
        What scores at random give on average, by measure.
    scores_ : list of list of dict of str to float
        For each row and split, the score of each candidate.
    reference_ : dict of str to float
        The reference of the candidates that were compared, from the worst.
    left_out_ : tuple of str
        Names that were not compared: not on both sides, without a number, or not to be run.
    failures_ : dict of str to dict of str to str
        For each candidate that lacks a score, the reason by setting, as in ``labels_``.
    split_failures_ : dict of int to str
        Splits with a single class or value of `y`, with what a metric says of it. They are left
        out of all means.
    warnings_ : dict of str to list of str
        What the metrics warned of, for each candidate that caused a warning.
    labels_ : list of str
        Each row in words, such as ``"logme(tol=0.001)"``.
    n_splits_ : int
        Number of splits, 1 without `cv`.
    n_features_in_ : int
        Number of features seen during fit, if the data are a matrix.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during fit, if they are a frame.

    See Also
    --------
    TransferabilitySelector : Ranks candidates by a metric.
    sktransfer.evaluation.rank_correlation : One comparison.

    Notes
    -----
    The best of many settings looks better than it is. Two attributes allow for that: the truly
    best one is in ``tied_with_best_`` with a probability of about `level`, over candidates drawn
    like these, and ``best_pvalue_`` tells whether any of them has been shown to agree at all.

    Nothing depends on the order of candidates or on the number of processes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sktransfer.model_selection import MetricSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [("one", PCA(1)), ("two", PCA(2)), ("white", PCA(4, whiten=True))]
    >>> candidates += [("three", PCA(3))]
    >>> accuracy = {"one": 0.92, "two": 0.95, "three": 0.96, "white": 0.94}
    >>> search = MetricSearchCV(
    ...     candidates,
    ...     ["logme", "hscore"],
    ...     {"hscore__shrinkage": [None, 0.5]},
    ...     reference=accuracy,
    ...     scoring=["kendall", "regret"],
    ... )
    >>> search.fit(X, y).labels_
    ['logme', 'hscore(shrinkage=None)', 'hscore(shrinkage=0.5)']
    >>> search.cv_results_["mean_test_kendall"].round(2)
    array([0.67, 0.33, 1.  ])
    >>> search.best_metric_, search.best_params_, search.best_score_
    ('hscore', {'shrinkage': 0.5}, 1.0)
    """

    _metric_parameter = "metrics"
    _fewest_candidates = 2

    _parameter_constraints: dict = {
        "candidates": [list],
        "metrics": [str, HasMethods(["fit"]), list, tuple, dict],
        "param_grid": [dict, list, tuple, None],
        "reference": "no_validation",
        "cv": ["cv_object"],
        "scoring": [str, list, tuple],
        "refit": [str, None],
        "k": [Interval(Integral, 1, None, closed="left"), dict],
        "greater_is_better": ["boolean"],
        "names": [StrOptions({"same", "common"})],
        "nan_policy": [StrOptions({"propagate", "omit"})],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "n_permutations": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "memory": [str, os.PathLike, FeatureStore, HasMethods(["cache"]), None],
        "error_score": [StrOptions({"raise"}), "nan"],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        candidates,
        metrics,
        param_grid=None,
        *,
        reference,
        cv=None,
        scoring=("kendall", "weighted_kendall", "spearman", "pearson", "top_k", "regret"),
        refit=None,
        k=1,
        greater_is_better=True,
        names="same",
        nan_policy="propagate",
        level=0.95,
        n_resamples=1000,
        n_permutations=999,
        n_jobs=None,
        memory=None,
        error_score=np.nan,
        random_state=0,
        verbose=0,
    ):
        self.candidates = candidates
        self.metrics = metrics
        self.param_grid = param_grid
        self.reference = reference
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.k = k
        self.greater_is_better = greater_is_better
        self.names = names
        self.nan_policy = nan_policy
        self.level = level
        self.n_resamples = n_resamples
        self.n_permutations = n_permutations
        self.n_jobs = n_jobs
        self.memory = memory
        self.error_score = error_score
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(
        prefer_skip_nested_validation=False  # candidates and metrics are not validated yet
    )
    def fit(self, X, y, **fit_params):
        """Run all candidates, score them by all settings and compare with the reference.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The target data in whatever form the candidates take them: a matrix, images, paths.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The labels or values to predict.
        **fit_params : dict
            Parameters for the candidates and the metrics (``sample_weight``), and ``groups`` for
            the splitter. Only available with ``enable_metadata_routing=True``.

        Returns
        -------
        self : MetricSearchCV
            The fitted search.

        Raises
        ------
        ValueError
            If a name is unknown, the reference doesn't fit the candidates, `X` is not for them,
            or no setting has a defined agreement by the deciding measure.
        """
        candidates = self._validate_candidates()
        check_resampling(self.level, self.n_resamples, self.n_permutations)
        metrics = validated_metrics(self.metrics, "metrics")
        scorings = check_scoring(self.scoring)
        deciding = deciding_scoring(self.refit, scorings)
        reference = Reference.read(
            self.reference,
            [name for name, _ in candidates],
            dropped=[name for name, candidate in self.candidates if candidate == "drop"],
            names=self.names,
            nan_policy=self.nan_policy,
            greater_is_better=self.greater_is_better,
        )
        sizes = check_choice_sizes(self.k, len(reference.names), scorings)
        reference.require_defined(deciding, sizes[deciding])
        for_metrics, *generators = random_generator(self.random_state).spawn(3)
        settings = metric_settings(metrics, self.param_grid, int(for_metrics.integers(2**32)))
        candidates = [pair for pair in candidates if pair[0] in reference.names]
        check_data(X, y, candidates, len(candidates) if self.error_score == "raise" else 2)
        prepared = self._prepare(X, y, fit_params, "fit", candidates, metrics)
        require_defined(prepared["y"], list(metrics.values()))
        refuse_repeated_rows(prepared["splits"], len(prepared["y"]))
        usable = usable_splits(prepared["splits"], prepared["y"])
        prepared["sample_weights"] = by_setting(prepared["sample_weights"], settings)

        context = self._init_callback_context(
            max_subtasks=len(candidates), sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self, X=X, y=y)
        names = [name for name, _ in candidates]
        n_splits = None if self.cv is None else len(prepared["splits"])
        results = SearchScores(names, settings, n_splits, usable)
        selection = Selection(
            metrics=results.metrics,
            deciding=None,
            results=results,
            progress=Progress(context, self, names if self.verbose else ()),
            keep_candidates=False,
            **prepared,
        )
        # Features that are not finite are told of with the name of the candidate.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            selection.run()
        self._compare(X, results, reference, scorings, sizes, deciding, generators)
        self._remember_columns(X)
        for message, category in results.warnings_to_give():
            announce(message, category)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _compare(self, X, results, reference, scorings, sizes, deciding, generators):
        """Compare all scores with the reference and store what is found."""
        if len(reference.names) - len(results.not_run) < 2:
            raise results.too_few_error(X)
        for_resamples, for_references = generators
        reference = reference.without(results.not_run, results.not_run_in_words())
        places = [results.candidates.index(name) for name in reference.names]
        scores = results.table[:, :, places]
        agreements = {
            scoring: Agreement(
                scoring, scores, reference, sizes[scoring], self.nan_policy, results.usable
            )
            for scoring in scorings
        }
        decided = agreements[deciding]
        if np.isnan(decided.mean).all():
            raise results.nothing_defined_error(decided, X)

        uncertainty = resampled(agreements, self.n_resamples, self.level, for_resamples)
        self.cv_results_ = search_table(
            results.settings,
            agreements,
            uncertainty,
            (~np.isnan(scores[:, results.usable])).all(axis=1).sum(axis=1),
            np.array([results.seconds[s.label].ravel() for s in results.settings]),
        )
        self.labels_ = [setting.label for setting in results.settings]
        self.scoring_, self.refit_scoring_ = scorings, deciding
        self.best_index_ = int(np.flatnonzero(decided.rank == 1)[0])
        best = results.settings[self.best_index_]
        self.best_metric_, self.best_params_ = best.metric, best.params
        self.best_score_ = float(decided.mean[self.best_index_])
        self.best_estimator_ = clone(best.estimator)
        self.best_pvalue_ = np.nan
        if self.n_permutations:
            self.best_pvalue_ = decided.best_pvalue(self.n_permutations, for_references)
        tied = uncertainty[deciding][2] if deciding in uncertainty else ~np.isnan(decided.mean)
        self.tied_with_best_ = np.flatnonzero(tied)
        self.chance_ = {scoring: reference.chance(scoring, sizes[scoring]) for scoring in scorings}
        self.scores_ = results.by_name()
        self.reference_ = dict(zip(reference.names, reference.values.tolist(), strict=True))
        self.left_out_ = reference.left_out
        self.failures_ = results.failures()
        self.split_failures_ = results.split_reasons
        self.warnings_ = results.messages()
        self.n_splits_ = results.table.shape[1]

    def _remember_columns(self, X):
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if len(getattr(X, "shape", ())) == 2:
            _check_n_features(self, X, reset=True)
            _check_feature_names(self, X, reset=True)

    def to_frame(self):
        """Return the results as a data frame, best setting first.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_settings, n_columns)
            Columns ``rank``, ``setting``, one for each measure (the deciding one first), for
            correlations followed by ``<measure>_lower``, ``<measure>_upper`` and
            ``<measure>_tied``, then ``n_candidates`` and ``reason``, why the deciding measure is
            undefined (empty if it isn't). Settings of equal rank stand in the order of
            ``cv_results_``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        check_is_fitted(self)
        return search_frame(self.cv_results_, self.labels_, self.scoring_, self.refit_scoring_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def _sk_visual_block_(self):
        metrics = {}
        with suppress(TypeError, ValueError, ImportError):  # wrong metrics are reported by fit
            metrics = named_metrics(self.metrics, "metrics")
        best = getattr(self, "best_metric_", None)
        names = [f"{name} (best)" if name == best else name for name in metrics]
        return _VisualBlock("parallel", list(metrics.values()), names=names)
