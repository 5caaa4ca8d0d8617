"""A race: the metric's choice, checked by short fine-tunings of the candidates next to it."""

import os
import warnings
from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from sklearn.base import MetaEstimatorMixin

from ..backbones._store import FeatureStore
from ..exceptions import RaceNotRunWarning
from ..utils._sklearn import (
    N_JOBS,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
)
from ._halving_best import RaceWinnerMixin
from ._halving_inputs import (
    COSTS,
    check_costs,
    check_data,
    check_template,
    choose_measure,
    metrics_for,
)
from ._halving_metadata import RacedCandidates
from ._halving_prepare import prepare_race
from ._halving_progress import RaceProgress
from ._halving_rule import starters
from ._target_measure import TARGET_MEASURES, MeasuredMetrics, require_classes
from ._validation import check_target, open_memory

__all__ = ["HalvingTransferabilitySelector"]


class HalvingTransferabilitySelector(
    MeasuredMetrics,
    RaceWinnerMixin,
    MetaEstimatorMixin,
    CallbackSupportMixin,
    RacedCandidates,
):
    """Race candidates: metrics choose who starts, short fine-tunings decide, within a budget.

    All candidates are ranked by a metric on frozen features, as by
    :class:`TransferabilitySelector`. The first of them are fine-tuned for a few epochs and judged
    on rows that they were not trained on, the better half goes on with more epochs, and so forth,
    until the winner is clear or the budget is spent. The first by the metric wins unless another
    one is *surely* better on the validation rows.

    Read more in the :ref:`User Guide <racing>`.

    Parameters
    ----------
    candidates : list of (str, backbone) tuples
        The candidates with their names, as for :class:`TransferabilitySelector`. They have to be
        torch backbones, unless `estimator` trains the head alone.
    metric : str, metric, list of these, or dict of str to these, default="auto"
        The metric that the race begins with. "auto" is what suits `target_measure`, "logme" without
        one. Of several metrics the order is that of their consensus, as with ``refit="consensus"``
        of :class:`TransferabilitySelector`. A metric with ``task="auto"`` reads the target as
        `estimator` does; one without a definition for that is refused.
    estimator : FineTuneClassifier or FineTuneRegressor, default=None
        How candidates would be fine-tuned; its ``backbone`` and ``random_state`` are replaced. None
        is a :class:`~sktransfer.finetune.FineTuneClassifier`, or a
        :class:`~sktransfer.finetune.FineTuneRegressor` for real values, with its defaults. In the
        race, learning rates fall to zero within each round, and batches are smaller where there are
        few rows, so that a round has steps enough.
    budget : float, default=0.15
        What the choice may cost, as a share of fine-tuning every candidate once with `estimator` on
        all rows. A row that is trained on costs the weight of its candidate, see `cost`; a row that
        is passed through without training costs a third of it, the features for the metrics
        included. The fine-tuning of the winner is not part of it (``refit_cost_``).
    start : "decision_set", DecisionCalibration or float, default="decision_set"
        Which candidates may start. "decision_set": those that may be the best after fine-tuning,
        as the calibration that ships with the package has it, see ``decision_set_`` of
        :class:`TransferabilitySelector`; of a metric without one, the first third. A
        :class:`~sktransfer.evaluation.DecisionCalibration`: the same by references of your own. A
        float: that share of the candidates, the first by the metric. In any case two at least, and
        those that are tied with the last of them; fewer where the budget would leave each too few
        epochs.
    factor : float, default=2
        By what the number of candidates is divided after a round.
    confidence : float, default=0.95
        How sure a round has to be to drop a candidate as worse than the first by the metric, or, in
        the last round, to prefer another one to it: the probability that no such decision of the
        round is an accident of the validation rows.
    scoring : str or callable, default=None
        The measure on validation rows, greater is better, as in
        :func:`~sktransfer.finetune.reference_ranking`. None is `target_measure`, or without one
        "accuracy" for classes and "r2" for values. All rows count the same.
    cv : int, splitter or iterable of (train, judge) row numbers, default=None
        On which rows candidates are judged, unless ``fit`` is given `X_val`. None deals the rows of
        each class to four folds, and uses as many of these as give 200 rows to judge by: of few
        rows each is trained on and judged by in turn. An integer uses so many folds.
    cost : {"multiply_adds", "n_parameters", "equal"} or dict of str to float, \
default="multiply_adds"
        What a row costs: multiplications and additions of a forward pass, parameters, the same for
        all, or numbers of your own, such as seconds, one for each candidate. Networks without
        convolutional or linear layers are weighed by parameters. Of heads alone all cost the same,
        and passes for features nothing, as every way of choosing needs them.
    refit : bool, default=True
        Whether the winner is fine-tuned with `estimator` on all rows in the end.
    out : str or path, default=None
        Folder in which every training is kept when it is done, with its weights as long as the race
        needs them. The same call goes on where it was killed, does nothing twice, and comes to the
        same result.
    memory : str, path, FeatureStore or object with the interface of `joblib.Memory`, default=None
        Where to keep features, as for :class:`TransferabilitySelector`. None is a folder in `out`,
        if there is one.
    random_state : int, RandomState instance or None, default=0
        Seed of validation rows, trainings and resamples. None takes that of the results in `out`,
        or draws one.
    n_threads : int, default=1
        Threads of torch for each training on a CPU. Results depend on it, a little.
    n_jobs : int, default=None
        Number of processes that compute metrics and train networks. On a GPU networks are trained
        one after the other. The result does not depend on it.
    error_score : "raise" or numpy.nan, default=numpy.nan
        What to do if a candidate fails to be scored or trained. With NaN it is ranked last, a
        :class:`~sktransfer.exceptions.CandidateFailedWarning` tells why, and the others go on;
        ``"raise"`` lets the error through.
    verbose : int, default=0
        1 prints a line per decision.
    target_measure : {"accuracy", "balanced_accuracy", "roc_auc", "roc_auc_ovr", "neg_log_loss"}, \
            default=None
        The measure that the winner will be judged by, for class labels: chooses the metric as in
        :class:`TransferabilitySelector`, and the measure where `scoring` is None.

    Attributes
    ----------
    best_name_ : str
        Name of the winner.
    best_index_ : int
        Its place among the candidates, without dropped ones.
    best_score_ : float
        Its validation score; NaN if it was not trained, as when the budget is too small.
    best_estimator_ : FineTuneClassifier or FineTuneRegressor
        The winner, fine-tuned on all rows. Only with `refit`.
    best_backbone_ : backbone
        The winner as it was pretrained, by which :meth:`transform` goes.
    candidates_ : :class:`~sklearn.utils.Bunch`
        All candidates as they were pretrained, fitted, by name.
    scores_ : dict of str to float
        Validation score of each candidate in the last round that it was in; NaN for those that
        never started or failed. Scores of different rounds can't be compared.
    ranking_ : dict of str to int
        The winner, then those who came as far, by what they have shown, and so on; those who never
        started in the order of the metric, where ties share a rank; failures are last.
    metric_scores_ : dict of str to dict of str to float
        For every metric, the score of each candidate.
    metric_ranks_ : dict of str to int
        The ranks by the metrics, with which the race began.
    decision_set_ : DecisionSet or None
        The candidates that may be the best, with what that was calibrated on; None if `start` is a
        share, or there is no calibration for the metric, as for values.
    metric_trusted_ : bool
        False if all metrics that decide say of the first candidate that their score says nothing
        (``saturated_``), as some do of few rows. The best validated candidate wins then.
    overruled_ : bool
        Whether the winner is another than the first by the metric.
    history_ : dict of str to ndarray
        A row for each decision: ``round`` (0 is by the metrics alone), ``candidate``,
        ``metric_rank``, ``n_epochs`` in all rounds up to this one, ``score``, ``difference`` to the
        first by the metric and its ``standard_error``, ``decision`` ("kept", "dropped", "won" or
        "failed"), ``reason``, ``cost`` of the candidate in this round and ``total_cost`` with
        all of the round, as shares, and ``seconds`` of training. :meth:`to_frame` gives it as a
        data frame.
    cost_ : float
        What the choice has cost, as a share of fine-tuning every candidate once.
    refit_cost_ : float
        What fine-tuning the winner on all rows costs, in the same unit, whether or not it was done.
    cost_weights_ : dict of str to float
        Cost of a row, by candidate.
    cost_unit_ : str
        What these are: "multiply_adds", "n_parameters", "equal" or "given".
    n_rounds_ : int
        Number of rounds of training.
    selector_ : TransferabilitySelector
        What ranked the candidates by the metrics.
    scorer_ : callable
        The measure.
    failures_ : dict of str to list of str
        Why candidates have no score or could not be trained.
    warnings_ : dict of str to list of str
        What trainings warned of, by candidate.
    seed_ : int
        Seed that was used.
    classes_ : ndarray of shape (n_classes,)
        Labels of ``best_estimator_``: the order of columns of probabilities. Only with `refit`, and
        for classes.
    n_features_in_ : int
        Numbers per row, if the winner tells.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X was a data frame and the winner tells.

    See Also
    --------
    TransferabilitySelector : The metric alone.
    sktransfer.finetune.reference_ranking : Fine-tunes every candidate.

    Notes
    -----
    *The rule.* In each round all candidates are compared with the first by the metric on the same
    validation rows, resampled within classes for a standard error of the difference. Who is surely
    worse is dropped; of the others, the best validated go on. In the last round the first by the
    metric wins, unless the best validated of the others is surely better. "Surely" is a one-sided t
    test, with `confidence` shared among the comparisons of the round. It knows of the chance in
    validation rows; that in training with one seed is in it as far as folds differ. The rule was
    chosen among others on references, see :ref:`racing`: the best validated candidate, or a mean of
    both ranks, gives away what the metric knows.

    A metric that says itself that its score says nothing has no last word: the best validated takes
    the place of the first by the metric in all this.

    Of candidates that the metric can't tell apart at the first place, the best validated is taken
    for the first. Where the budget cuts between tied candidates, the first in the list start.

    A round costs about the same as any other, as fewer candidates get more epochs each. None gets
    more epochs than `estimator` has. What is spent never exceeds `budget`, except for the metrics
    themselves, which are computed in any case.

    Folds that ``cv=None`` or an integer deals depend on the order of the rows and on the sorted
    order of the labels: permuted rows, or labels renamed so that they sort in another order, are
    judged on other folds, with somewhat different validation scores.

    With `refit` this is a classifier or a regressor for scikit-learn, as `estimator` is. With
    ``estimator=None`` the target decides; before fit it counts as a classifier, for which
    :func:`~sklearn.model_selection.cross_val_score` makes stratified folds of classes, and plain
    ones of values.

    With ``enable_metadata_routing=True``, ``sample_weight`` is for metrics and an `estimator` that
    ask for it: weights in the loss of each training. Rows whose weight there is zero are not
    trained on and not judged by. ``groups`` are for a splitter `cv` that asks for them.

    References
    ----------
    .. [1] K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
       optimization", AISTATS 2016.

    Examples
    --------
    >>> from sktransfer.datasets import load_digits_target, load_tiny_zoo
    >>> from sktransfer.finetune import FineTuneClassifier
    >>> from sktransfer.model_selection import HalvingTransferabilitySelector
    >>> digits = load_digits_target()
    >>> race = HalvingTransferabilitySelector(
    ...     load_tiny_zoo(names=["mnist_half", "letters_half", "shapes_half", "cells_half"]),
    ...     estimator=FineTuneClassifier(None, lr=3e-3, max_epochs=20),
    ...     budget=0.6,
    ... )
    >>> race.fit(digits.images_train[:80], digits.y_train[:80]).best_name_
    'mnist_half'
    >>> race.n_rounds_, race.cost_ <= 0.6
    (1, True)
    >>> race.predict(digits.images_test[:5]).shape
    (5,)
    """

    _parameter_constraints: dict = {
        "candidates": [list],
        "metric": [str, HasMethods(["fit"]), list, tuple, dict],
        "target_measure": [StrOptions(set(TARGET_MEASURES)), None],
        "estimator": [HasMethods(["fit"]), None],
        "budget": [Interval(Real, 0, None, closed="neither")],
        "start": [
            StrOptions({"decision_set"}),
            HasMethods(["decision_set"]),
            Interval(Real, 0, 1, closed="right"),
        ],
        "factor": [Interval(Real, 1, None, closed="neither")],
        "confidence": [Interval(Real, 0.5, 1, closed="left")],
        "scoring": [str, callable, None],
        "cv": ["cv_object"],
        "cost": [StrOptions(set(COSTS)), Mapping],
        "refit": ["boolean"],
        "out": [str, os.PathLike, None],
        "memory": [str, os.PathLike, FeatureStore, HasMethods(["cache"]), None],
        "random_state": ["random_state"],
        "n_threads": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": N_JOBS,
        "error_score": [StrOptions({"raise"}), "nan"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        candidates,
        metric="auto",
        *,
        estimator=None,
        budget=0.15,
        start="decision_set",
        factor=2,
        confidence=0.95,
        scoring=None,
        cv=None,
        cost="multiply_adds",
        refit=True,
        out=None,
        memory=None,
        random_state=0,
        n_threads=1,
        n_jobs=None,
        error_score=np.nan,
        verbose=0,
        target_measure=None,
    ):
        self.candidates = candidates
        self.metric = metric
        self.estimator = estimator
        self.budget = budget
        self.start = start
        self.factor = factor
        self.confidence = confidence
        self.scoring = scoring
        self.cv = cv
        self.cost = cost
        self.refit = refit
        self.out = out
        self.memory = memory
        self.random_state = random_state
        self.n_threads = n_threads
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.verbose = verbose
        self.target_measure = target_measure

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, *, X_val=None, y_val=None, **fit_params):
        """Rank the candidates by the metric, and race the first of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The target data in whatever form the candidates take them: images, paths, vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The labels or values to predict.
        X_val : array-like of shape (n_val, ...), default=None
            Data to judge by; all rows of `X` are then trained on. They are passed on to the
            fine-tuning of the winner, which by default stops early by them.
        y_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
            Their target.
        **fit_params : dict
            ``sample_weight`` for metrics and `estimator`, and ``groups`` for the splitter. Only
            available with ``enable_metadata_routing=True``.

        Returns
        -------
        self : HalvingTransferabilitySelector
            The fitted selector.

        Raises
        ------
        ImportError
            If torch or skorch is not installed.
        TypeError
            If `estimator` is none that fine-tunes; if data are sparse.
        ValueError
            For parameters and data that no candidate could do with, before any work; if a metric is
            not defined for the target as `estimator` takes it; if rows of `cv` are repeated within
            a part, or both trained on and judged by; if `out` holds results of something else; if
            all candidates fail; if a candidate or `scoring` asks for ``sample_weight``, which they
            can't be given.

        Warns
        -----
        CandidateFailedWarning
            For candidates that have failed; the others are not affected.
        RaceNotRunWarning
            If the budget is too small for two candidates to be trained, or no row can be spared to
            judge them by, so that the metric alone decides; if the metrics alone cost more than the
            budget.
        """
        candidates = self._validate_candidates()
        check_data(X, X_val, y_val)
        y = check_target(X, y, type(self).__name__)
        require_classes(self.target_measure, y)
        template = check_template(self.estimator, y, candidates)
        metrics = metrics_for(template, self._given_metrics())
        measure = choose_measure(self.scoring, self.target_measure, template)
        metadata = self._routed(fit_params, candidates, measure[1])
        known = [name for name, _ in self.candidates]
        check_costs(self.cost, [name for name, _ in candidates], known)
        if self.memory is not None:
            open_memory(self.memory)
        progress = RaceProgress(self, X, y)
        race, prepared = prepare_race(
            self,
            candidates,
            template,
            metrics,
            measure,
            metadata,
            progress,
            X=X,
            y=y,
            X_val=X_val,
            y_val=y_val,
        )
        ranks = {race.names[c]: rank for c, rank in race.ranks.items()}
        chosen, what = starters(ranks, self.start, prepared.decision_set)
        winner = race.run([race.names.index(name) for name in chosen], what)
        self._store(race, prepared, winner)
        if race.not_run:
            warnings.warn(race.not_run, RaceNotRunWarning, stacklevel=3)
        progress.end()
        return self
