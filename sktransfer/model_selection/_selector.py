"""Rank candidates by how well their features suit a labelled target, and be the best of them."""

import os
import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import Bunch

from ..backbones._store import FeatureStore
from ..utils._sklearn import (
    N_JOBS,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
)
from ._baselines import plan_baselines
from ._best_candidate import BestCandidateMixin
from ._composition import CandidateComposition
from ._consensus_choice import consensus_options
from ._metric_collection import deciders, deciding_metric, validated_metrics, with_one_seed
from ._recommendation import recommend
from ._record import selection_record
from ._resamples import plan_resamples
from ._results import SelectionResults
from ._scoring import score_features
from ._selection import Progress, Selection
from ._selection_uncertainty import (
    selection_uncertainties,
    uncertainty_columns,
    uncertainty_warnings,
)
from ._target_measure import TARGET_MEASURES, MeasuredMetrics, require_classes
from ._validation import require_defined

__all__ = ["TransferabilitySelector"]


class TransferabilitySelector(
    MeasuredMetrics,
    BestCandidateMixin,
    MetaEstimatorMixin,
    CallbackSupportMixin,
    CandidateComposition,
):
    """Rank candidates by a transferability-estimation metric and transform with the best one.

    Every candidate is run over the data once, and every metric scores the same features. No
    candidate is fine-tuned. A candidate is a pretrained backbone of
    :mod:`sktransfer.backbones` or any scikit-learn transformer.

    Read more in the :ref:`User Guide <selection>`.

    Parameters
    ----------
    candidates : list of (str, transformer) tuples
        The candidates with their names. Clones are fitted, the objects passed are never changed.
        With :meth:`set_params` a candidate can be replaced by another, by ``"drop"``, which
        leaves it out, or by ``"passthrough"``, which stands for the data as they are.
    metric : str, metric, list of these, or dict of str to these, default="auto"
        The metric to rank by, as a name known to :func:`sktransfer.metrics.get_metric` or as an
        instance. "auto" is what suits `target_measure`, "logme" without one. Of several metrics,
        scored on the same features, `refit` names the one that decides. A dict gives the metrics
        names of your own.
    cv : int, cross-validation generator or iterable, default=None
        How far do the scores depend on the sample?

        - ``None``: one score, on all samples.
        - an integer: the training part of each of so many folds is scored; the folds are shuffled
          with a fixed seed, and stratified if `y` holds classes.
        - a splitter or an iterable of (train, test) index arrays: the training part of each split
          is scored. The test indices are not looked at.
        - an iterable of subsets: each array of row numbers is scored.

        The score of a candidate is the mean over the splits. Pretrained candidates are still run
        once and rows of their features selected; candidates that learn from data are fitted on
        each training part, and once on all samples.
    refit : str, default=None
        The name of the metric that decides which candidate is the best. The first if None.
        "consensus" lets all metrics decide together: the mean in nats per sample of LogME and
        PACTran, which doesn't depend on the other candidates, and the mean rank of any others.
    n_jobs : int, default=None
        Number of processes that compute metrics. Candidates are run one after the other in this
        process, which may own a device. The results don't depend on it; the features of `n_jobs`
        candidates are in memory at a time, and those of the leader.
    memory : str, path, FeatureStore or object with the interface of `joblib.Memory`, default=None
        Where to keep extracted features, so that another `fit` with the same candidates and data
        makes no forward pass over the data, whatever the process.

        - a folder or a :class:`~sktransfer.backbones.FeatureStore`: keeps the features of
          candidates that learn nothing from the data, such as pretrained backbones, found by the
          content of weights, code, parameters and data. Candidates that learn are fitted anew.
        - a `joblib.Memory`: keeps what all candidates gave, and those that learn from the data
          with it, as pickles. Of files the key is path, size and time.
    error_score : "raise" or numpy.nan, default=numpy.nan
        What to do if a candidate fails to be fitted, run or scored. With NaN it is ranked last, a
        :class:`~sktransfer.exceptions.CandidateFailedWarning` tells why, and the others go on;
        ``"raise"`` lets the error through.
    keep_candidates : bool, default=True
        Whether ``candidates_`` keeps all fitted candidates or, to save memory, only the best.
    baselines : "auto", "all", None or list of str, default="auto"
        Simple rules to compute beside the metric, for ``baseline_scores_`` and ``findings_``:
        "n_parameters", "n_features" and "source_accuracy", what is known of a candidate; "knn" and
        "linearprobe", predictions of every sample without itself, from at most 2,000 samples;
        "untrained_twin", the score by the deciding metric of the same architecture with random
        weights, for torch backbones; and "random", a random order. A twin takes one more forward
        pass. "auto" makes twins of networks that are known to be pretrained: that of the best
        candidate, and all where there are at most a quarter as many architectures as candidates.
        "all" makes them all, and so does a list with this name. None computes none.
    n_resamples : int, default=0
        On how many resamples of the rows to score all candidates again, for ``uncertainty_``; 0
        for none. With a level of 0.95 at least 40 are needed, and 200 are enough. Features that
        were extracted are scored, and nothing is run or fitted again. Metrics that look into the
        network are scored without, and can't decide then.
    level : float, default=0.95
        Level of the intervals, and of the set of candidates that may be the best.
    resampling : {"auto", "half", "tenth", "dirichlet"}, default="auto"
        How to resample: leave out a half or a tenth of the rows, of each class, or weigh the rows
        by a flat Dirichlet distribution (the Bayesian bootstrap), which is too sure of itself with
        fewer rows than features. "auto" takes what holds its promise for the metric. See the
        :ref:`User Guide <uncertainty>`, also for why rows are not drawn with replacement.
    random_state : int, RandomState instance or None, default=0
        Seed of the resamples. The order of the rows doesn't matter if their content can be told:
        that of arrays and of names of files.
    target_measure : {"accuracy", "balanced_accuracy", "roc_auc", "roc_auc_ovr", "neg_log_loss"}, \
            default=None
        The measure that the fine-tuned network will be judged by, for class labels.
        ``metric="auto"`` and metrics given by name are then variants for it, see :ref:`imbalance`:
        for "balanced_accuracy" with ``class_weight="balanced"``, for "roc_auc" and "roc_auc_ovr"
        (the same here: of more than two classes, the mean of one against the rest) with
        ``scoring="roc_auc_ovr"``. A metric given as an instance is taken as it is, and one without
        a variant too; if that one decides, there is a
        :class:`~sktransfer.exceptions.TargetMeasureWarning`.

    Attributes
    ----------
    scores_ : dict of str to float
        Score of each candidate by the deciding metric, in the order of `candidates`; NaN for a
        candidate that failed.
    ranking_ : dict of str to int
        Competition rank of each candidate by the deciding metric: 1 is best, ties share a rank.
    metric_scores_ : dict of str to dict of str to float
        For every metric, the score of each candidate.
    best_index_ : int
        Index in ``cv_results_`` of the best candidate, the first of those with rank 1.
    best_name_ : str
        Its name.
    best_score_ : float
        Its score by the deciding metric, the mean over splits with `cv`.
    best_estimator_ : transformer
        The best candidate, fitted on all samples.
    candidates_ : :class:`~sklearn.utils.Bunch`
        Candidates fitted on all samples, by name. Candidates that failed to be fitted or run are
        not in it.
    refit_metric_ : str
        Name of the deciding metric.
    metric_ : metric
        The deciding metric, fitted on the features of the best candidate on all samples; None for
        a consensus.
    metrics_ : dict of str to metric
        All metrics, fitted likewise; one that doesn't apply to the best candidate is left out.
    cv_results_ : dict of str to ndarray of shape (n_candidates,)
        A table of everything, dropped candidates left out. Columns: ``candidate``; for each metric
        ``split<i>_<metric>`` (with `cv` only), ``mean_<metric>``, ``std_<metric>`` (the spread
        over splits, which share most samples, so it is no standard error; NaN without `cv`) and
        ``rank_<metric>``; ``n_features``, the width of the features; ``n_parameters``, where the
        candidate tells (else NaN); ``weights``, ``weights_hash`` and ``pretrained``, which weights
        a network has and whether they are trained (None where it isn't known); ``from_store`` and
        ``rows_extracted``, whether a store had the features and how many rows were run;
        ``extraction_time`` and ``scoring_time`` in seconds. With `n_resamples` for each metric also
        ``low_<metric>`` and ``high_<metric>``, ``rank_low_<metric>`` and ``rank_high_<metric>``,
        ``probability_best_<metric>``, ``tied_with_best_<metric>`` and ``n_undefined_<metric>``.
    failures_ : dict of str to dict of str to str
        For each candidate with a score of NaN, the reason by metric. Empty if all went well.
    split_failures_ : dict of str to dict of int to str
        For each metric, the splits no candidate could be scored on, with the reason. They are left
        out of mean and spread for all candidates alike.
    warnings_ : dict of str to list of str
        What the metrics warned of, for each candidate that caused a warning.
    baseline_scores_ : dict of str to dict of str to float
        For every baseline, the score of each candidate; NaN where it has none.
    findings_ : list of str
        What baselines and uncertainty say, in sentences: whether the ranking agrees with plain
        model size, all candidates are within noise, or the best is not better than its untrained
        twin.
    consensus_ : :class:`~sktransfer.evaluation.ConsensusResult`
        How the metrics were combined, and how the ranking changes without each of them. Only with
        ``refit="consensus"``.
    decision_set_ : :class:`~sktransfer.evaluation.DecisionSet` or None
        The candidates that may be the best after fine-tuning, by a rule calibrated on real
        fine-tuning, with what it was calibrated on. None without a calibration: it takes a metric
        with default parameters, classes, no `cv` and no weights.
    uncertainty_ : dict of str to :class:`~sktransfer.evaluation.SelectionUncertainty`
        For every metric, the intervals of scores and ranks; empty without `n_resamples`. Metrics
        that look into the network are not in it.
    tied_with_best_ : list of str
        The candidates that can't be told apart from the best by the deciding metric: the one with
        the highest expected score over fresh samples of this size is among them with a probability
        of about `level`. Only with `n_resamples`, and not for a consensus of ranks.
    n_splits_ : int
        Number of splits, 1 without `cv`.
    record_ : dict of str to object
        What is needed to repeat the selection: number of samples, ``class_counts``, ``splits``,
        seeds, parameters of metrics and candidates in words, ``versions`` and the date. Of data
        there are shapes and digests only.
    n_features_in_ : int
        Number of features seen during fit. Only defined if the best candidate tells.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during fit. Only defined if the best candidate tells.

    See Also
    --------
    make_transferability_scorer : The metrics as ``scoring`` of a search over pipelines.
    sktransfer.inspection.RankingDisplay : Plot of the ranking.

    Notes
    -----
    The order of the candidates has no influence on scores and ranks. Equal scores are ties and
    have the same rank; ``best_index_`` is then the first of them in the order given.

    A score is comparable across candidates on one target, not across targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktransfer.model_selection import TransferabilitySelector
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [("pca", PCA(n_components=1)), ("scaled", StandardScaler())]
    >>> selector = TransferabilitySelector(candidates, metric="hscore").fit(X, y)
    >>> selector.best_name_
    'scaled'
    >>> selector.ranking_
    {'pca': 2, 'scaled': 1}
    >>> selector.transform(X).shape
    (150, 4)
    """

    _parameter_constraints: dict = {
        "candidates": [list],
        "metric": [str, HasMethods(["fit"]), list, tuple, dict],
        "target_measure": [StrOptions(set(TARGET_MEASURES)), None],
        "cv": ["cv_object"],
        "refit": [str, None],
        "n_jobs": N_JOBS,
        "memory": [str, os.PathLike, FeatureStore, HasMethods(["cache"]), None],
        "error_score": [StrOptions({"raise"}), "nan"],
        "keep_candidates": ["boolean"],
        "baselines": [str, list, tuple, None],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "resampling": [str],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        candidates,
        metric="auto",
        *,
        cv=None,
        refit=None,
        n_jobs=None,
        memory=None,
        error_score=np.nan,
        keep_candidates=True,
        baselines="auto",
        n_resamples=0,
        level=0.95,
        resampling="auto",
        random_state=0,
        target_measure=None,
    ):
        self.candidates = candidates
        self.metric = metric
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.memory = memory
        self.error_score = error_score
        self.keep_candidates = keep_candidates
        self.baselines = baselines
        self.n_resamples = n_resamples
        self.level = level
        self.resampling = resampling
        self.random_state = random_state
        self.target_measure = target_measure

    @_fit_context(
        # candidates and metrics are not validated yet
        prefer_skip_nested_validation=False
    )
    def fit(self, X, y, **fit_params):
        """Run all candidates, score them and find the best.

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
        self : TransferabilitySelector
            The fitted selector.
        """
        self._select(X, y, fit_params, "fit")
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fit_transform(self, X, y, **fit_params):
        """Fit and return the features of the best candidate, without running it again.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The target data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The labels or values to predict.
        **fit_params : dict
            As in :meth:`fit`.

        Returns
        -------
        features : array-like of shape (n_samples, n_features)
            Features of the best candidate.
        """
        return self._select(X, y, fit_params, "fit_transform")

    def _select(self, X, y, fit_params, method, progress=None):
        """Do what fit does, and return what the best candidate gave for X.

        A caller of which this is a part gives a `progress` of its own, whose task has begun.
        """
        candidates = self._validate_candidates()
        metrics = validated_metrics(self._given_metrics())
        deciding = deciding_metric(metrics, self.refit)
        plan = plan_baselines(self.baselines)
        prepared = self._prepare(X, y, fit_params, method, candidates, metrics)
        require_classes(self.target_measure, prepared["y"])
        task = require_defined(prepared["y"], deciders(metrics, deciding))
        prepared["resamples"] = plan_resamples(
            self, metrics, X, prepared["y"], task, prepared["splits"]
        )
        metrics = with_one_seed(metrics)

        if progress is None:
            context = self._init_callback_context(
                max_subtasks=len(candidates), sequential_subtasks=False
            )
            progress = Progress(context.call_on_fit_task_begin(estimator=self, X=X, y=y), self)
        results = SelectionResults(
            [name for name, _ in candidates],
            metrics,
            None if self.cv is None else len(prepared["splits"]),
            replace(plan, task=task),
            None if deciding in metrics else consensus_options(metrics, prepared["y"]),
        )
        selection = Selection(
            metrics=metrics,
            deciding=deciding,
            results=results,
            progress=progress,
            keep_candidates=self.keep_candidates,
            task=task,
            **prepared,
        )
        selection.run()
        if np.isnan(results.mean[deciding]).all():
            raise results.all_failed_error(deciding if deciding in metrics else next(iter(metrics)))

        best = selection.best(int(np.nanargmax(results.mean[deciding])))
        cells = score_features(
            best.extraction,
            prepared["y"],
            metrics,
            prepared["sample_weights"],
            inputs=X,
            backbone=best.fitted,
        )
        failed = [cell.error for cell in cells.values() if cell.error is not None]
        if deciding in metrics:
            failed = [cells[deciding].error] if cells[deciding].error is not None else []
        if failed and (deciding in metrics or len(failed) == len(cells)):
            raise failed[0]  # on all samples, though not in the splits
        self._store(results, selection, best, deciding, cells)
        given = uncertainty_warnings(self.uncertainty_, results)
        given += self._unsuited_warnings(deciding, metrics)
        for message, category in [*results.warnings_to_give(), *given]:
            # the frames between: this method, fit, and the wrapper that _fit_context makes
            warnings.warn(message, category, stacklevel=4)
        progress.context.call_on_fit_task_end(estimator=progress.estimator, X=X, y=y)
        return best.extraction.own_output

    def _store(self, results, selection, best, deciding, cells):
        names = results.candidates
        self.cv_results_ = results.table()
        self.metric_scores_ = {
            metric: dict(zip(names, map(float, mean), strict=True))
            for metric, mean in results.mean.items()
        }
        self.scores_ = dict(self.metric_scores_[deciding])
        self.ranking_ = dict(zip(names, map(int, results.rank[deciding]), strict=True))
        self.refit_metric_ = deciding
        self.n_splits_ = len(selection.splits)
        self.uncertainty_ = selection_uncertainties(results, selection, self.level)
        self.cv_results_.update(uncertainty_columns(self.uncertainty_))
        self.__dict__.pop("tied_with_best_", None)
        if deciding in self.uncertainty_:
            self.tied_with_best_ = list(self.uncertainty_[deciding].tied_with_best)
        self.best_index_ = best.index
        self.best_name_ = names[best.index]
        self.best_score_ = self.scores_[self.best_name_]
        self.best_estimator_ = best.fitted
        self.candidates_ = Bunch(
            **{names[index]: fitted for index, fitted in sorted(selection.fitted.items())}
        )
        self.metrics_ = {name: cell.metric for name, cell in cells.items() if cell.error is None}
        self.metric_ = self.metrics_.get(deciding)
        self.failures_ = results.failures()
        self.split_failures_ = {
            metric: reasons
            for metric in results.metrics
            if (reasons := results.split_failures(metric))
        }
        self.warnings_ = {
            name: [message for _, message in said]
            for name, said in results.warnings.items()
            if said
        }
        recommend(self, selection)
        self.record_ = selection_record(self, selection)
        self._copy_feature_names()
