"""FineTuneSearchCV: hyperparameters of a fine-tuning, searched for by Optuna."""

import time
from numbers import Integral, Real

from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from sktransfer.backbones._network_input import resolve_device
from sktransfer.exceptions import TrialFailedWarning
from sktransfer.finetune._search_best import BestEstimatorMixin
from sktransfer.finetune._search_identity import identify
from sktransfer.finetune._search_inputs import (
    check_measures,
    check_network,
    checked_data,
    checked_settings,
    with_splits,
)
from sktransfer.finetune._search_results import best_trial, failure_report, results_table
from sktransfer.finetune._search_rounds import run_rounds
from sktransfer.finetune._search_sampling import SAMPLERS, make_study
from sktransfer.finetune._search_storage import SearchStorage
from sktransfer.finetune._search_trial import SearchPlan, configured
from sktransfer.finetune._sources import unwrapped
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._announce import announce
from sktransfer.utils._sklearn import (
    N_JOBS,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
)

__all__ = ["FineTuneSearchCV"]


class FineTuneSearchCV(BestEstimatorMixin, CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """Search for the hyperparameters of a fine-tuning, with Optuna.

    Each trial fine-tunes the network with parameters that the trials before it make promising, and
    is judged on rows that it was not trained on. A trial that does worse than most did after as
    many epochs is ended early. A search that is kept in a file can be killed at any moment, and
    goes on to the same result.

    Read more in the :ref:`User Guide <finetune_search>`.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        What is fine-tuned. It is left as it is.
    param_distributions : dict or None, default=None
        For each parameter of the estimator (also of what is inside it, ``backbone__layer``) what it
        may be: ``(low, high)``, of whole numbers if both are; ``(low, high, "log")`` for a
        logarithmic scale; a list of choices; or a distribution of ``optuna.distributions``. None
        is ``{"lr": (1e-5, 1e-2, "log"), "weight_decay": (1e-6, 1e-2, "log")}``, with ``head_lr`` in
        place of ``lr`` if ``train="head"``.
    scoring : str, callable, list of str, dict, or None, default=None
        The measure to be optimised, greater is better. None is "accuracy" for a classifier, and
        "r2" for a regressor. Otherwise "accuracy", "balanced_accuracy",
        "roc_auc_ovr" (macro average over the classes in the test rows, for two classes too),
        "neg_log_loss", any other name of a scorer of scikit-learn, or a callable
        ``(estimator, X, y) -> float``. A list of names, or a dict of names to scorers, are several
        measures, each of which has a search of its own, with `n_trials` trials.
    n_trials : int, default=50
        Number of trials for each measure. Those found in `storage` count.
    cv : int, splitter, iterable of splits or None, default=None
        How trials are judged, unless ``fit`` is given data for that: on these splits, by the mean.
        None holds out `validation_fraction` of the rows. A number is one of stratified folds for a
        classifier.
    validation_fraction : float, default=0.2
        Share of the rows that are held out if `cv` is None, of every class that has more than one;
        each class keeps a row to be trained on.
    refit : bool or str, default=True
        Whether to fit an estimator with the best parameters on all rows in the end; for several
        measures, one for each. The name of a measure says which of them is ``best_estimator_``;
        True is the first.
    storage : str, path or None, default=None
        A file in which the trials are kept as an SQLite database of Optuna, or a URL of a database
        as SQLAlchemy takes it. A search that finds trials of its own in there goes on from them.
    study_name : str, default="search"
        Name of the search in `storage`, where there may be several.
    sampler : {"tpe", "random"}, default="tpe"
        How parameters are chosen: by Optuna's tree-structured Parzen estimator (after 10 trials at
        random), or at random.
    pruner : "median", pruner of Optuna, or None, default="median"
        What ends trials early. "median": a trial whose measure has at no epoch been as good as the
        median of the completed trials is at this epoch, once there are five of them. None lets all
        trials end, and saves the measuring after each epoch.
    timeout : float or None, default=None
        Seconds after which no further trial is begun. The result then depends on how fast the
        machine is.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out rows, the choice of parameters, and the training of networks, where the
        estimator has no ``random_state`` of its own. With None, a search that goes on takes the
        seed in `storage`.
    error_score : "raise" or float, default=np.nan
        What a trial that fails is worth. NaN is unknown: the sampler does not learn from it.
        "raise" ends the search.
    n_jobs : int or None, default=None
        Number of processes, for searches by several measures side by side, or for the splits of
        `cv` after the first one. Trials of one search come one after the other, as each depends on
        those before it, so the result is the same for any number. On a GPU there is one process.
    verbose : int, default=0
        1 prints a line per trial.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        A row per trial, measure by measure, with the columns of
        :class:`~sklearn.model_selection.GridSearchCV` (``params``, ``param_<name>``,
        ``split<i>_test_score``, ``mean_test_score``, ``std_test_score``, ``rank_test_score`` among
        the trials of the measure, times in seconds), and ``measure``, ``trial`` (its number),
        ``state`` ("complete", "pruned" or "failed"), ``n_epochs`` over all splits, ``converged``
        and ``reason`` (of a failure). Scores of trials that were pruned are NaN.
    best_params_ : dict
        Parameters of the best trial, of the measure that `refit` names.
    best_score_ : float
        Its score.
    best_index_ : int
        Its row in ``cv_results_``.
    best_estimator_ : estimator
        An estimator with these parameters, fitted on all rows, unless ``refit=False``.
    best_params_per_measure_, best_scores_per_measure_, best_estimators_ : dict
        The same for each measure, by its name.
    refit_time_ : float
        Seconds for the fit of ``best_estimator_``.
    refit_measure_ : str
        The measure of the attributes called best.
    scorer_ : callable or dict of callables
        The scorer, or for several measures the scorers by name.
    multimetric_ : bool
        Whether there are several measures.
    n_trials_ : int
        Number of trials for each measure.
    n_splits_ : int
        Number of networks that are trained in a trial.
    seed_ : int
        Seed that was used.
    classes_ : ndarray of shape (n_classes,)
        Labels of ``best_estimator_``.
    n_features_in_ : int
        Numbers per row, of ``best_estimator_``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of columns, if ``best_estimator_`` has them.

    See Also
    --------
    FineTuneClassifier : What is fine-tuned.
    sklearn.model_selection.GridSearchCV : Tries all combinations of a grid.

    Notes
    -----
    A trial is judged as it would be used. With ``cv`` or held-out rows, the network is trained
    without them being used for early stopping, as the network that is fitted on all rows in the end
    has none of them. With ``X_val`` and ``y_val``, they are passed on to the estimator, which by
    default stops early by them, in the trials and in the end, so that ``best_estimator_`` is the
    network of the best trial. Pruning changes nothing in trials that are not pruned.

    All trials have the same seed of their training, and the number of a trial seeds the choice of
    its parameters. A trial is written to `storage` when it is over, in one transaction; one that is
    interrupted leaves nothing, and is run again under its number.

    The results of a search depend on versions of Optuna and torch.

    Examples
    --------
    >>> from sktransfer.backbones import TinyZooBackbone
    >>> from sktransfer.datasets import load_digits_target
    >>> from sktransfer.finetune import FineTuneClassifier, FineTuneSearchCV
    >>> digits = load_digits_target()
    >>> search = FineTuneSearchCV(
    ...     FineTuneClassifier(TinyZooBackbone("letters"), train="head", max_epochs=20),
    ...     {"head_lr": (1e-3, 1, "log")},
    ...     n_trials=4,
    ...     random_state=0,
    ... )
    >>> search.fit(digits.images_train[:100], digits.y_train[:100]).best_score_ > 0.5
    True
    >>> list(search.best_params_)
    ['head_lr']
    >>> search.predict(digits.images_test[:5]).shape
    (5,)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "param_distributions": [dict, None],
        "scoring": [str, callable, list, tuple, dict, None],
        "n_trials": [Interval(Integral, 1, None, closed="left")],
        "cv": ["cv_object"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "refit": ["boolean", str],
        "storage": [str, HasMethods("__fspath__"), None],
        "study_name": [str],
        "sampler": [StrOptions(set(SAMPLERS))],
        "pruner": [StrOptions({"median"}), HasMethods("prune"), None],
        "timeout": [Interval(Real, 0, None, closed="left"), None],
        "random_state": ["random_state"],
        "error_score": [StrOptions({"raise"}), Real],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator,
        param_distributions=None,
        *,
        scoring=None,
        n_trials=50,
        cv=None,
        validation_fraction=0.2,
        refit=True,
        storage=None,
        study_name="search",
        sampler="tpe",
        pruner="median",
        timeout=None,
        random_state=None,
        error_score=float("nan"),
        n_jobs=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.scoring = scoring
        self.n_trials = n_trials
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.storage = storage
        self.study_name = study_name
        self.sampler = sampler
        self.pruner = pruner
        self.timeout = timeout
        self.random_state = random_state
        self.error_score = error_score
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """Search, and fit an estimator with the best parameters.

        Parameters
        ----------
        X : array or sequence of shape (n_samples, ...)
            What the estimator takes: images, paths of files, a torch data set, vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Target. It may be left out if ``X`` is a torch data set that has it.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in the loss of each training; a row of weight zero is left out. Trials are
            judged without weights.
        X_val : array or sequence of shape (n_val, ...), default=None
            Data to judge trials by, in place of `cv` and held-out rows.
        y_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
            Their target; may be left out as ``y`` may.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        ImportError
            If Optuna is not installed.
        ValueError
            For data that the estimator does not take, a measure that is not defined for them, a
            space that names unknown parameters, a `storage` that belongs to another search, or if
            no trial was completed.
        TypeError
            If `estimator` is none of this package, or `scoring` or a distribution of another kind
            than they may be.

        Warns
        -----
        TrialFailedWarning
            If trials failed, with the reasons.
        OtherVersionsWarning
            If `storage` has trials that were run by other versions of packages.
        """
        estimator = self.estimator
        measures, refit_measure, space = checked_settings(self)
        given = X, y, sample_weight, X_val, y_val
        data, target, kept = checked_data(estimator, space, *given)
        with SearchStorage(self.storage, self.study_name) as storage:
            seed = storage.seed() if self.random_state is None else None
            seed = drawn_seed(self.random_state) if seed is None else seed
            data = with_splits(
                data,
                target,
                kept,
                estimator=estimator,
                cv=self.cv,
                validation_fraction=self.validation_fraction,
                seed=seed,
            )
            check_measures(measures, data, estimator)
            check_network(estimator, space, X=X, X_val=X_val)
            plan = SearchPlan(
                estimator=estimator,
                data=data,
                space=space,
                measures=measures,
                seed=seed,
                sampler=self.sampler,
                pruner=self.pruner,
                error_score=self.error_score,
                caller=type(self)(**self.get_params(deep=False)),
            )
            if self.storage is not None:
                identity = identify(plan, scoring=self.scoring, random_state=seed)
                storage.claim(identity, list(measures), seed)
            context = self._init_callback_context(
                max_subtasks=len(measures) * (2 if self.refit else 1), sequential_subtasks=False
            ).call_on_fit_task_begin(estimator=self, X=X, y=y)
            trials = run_rounds(
                plan,
                storage,
                context,
                self.n_trials,
                self._n_processes(),
                self.timeout,
                self.verbose,
            )
        self._store(plan, trials, refit_measure)
        if self.refit:
            self._refit(plan, trials, context)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _n_processes(self):
        """Say how many processes may train: on a GPU, which they would have to share, only one."""
        device = self.estimator.device
        if isinstance(device, str) and device == "auto":
            device = getattr(unwrapped(self.estimator.backbone), "device", "auto")
        return 1 if resolve_device(device).type == "cuda" else effective_n_jobs(self.n_jobs)

    def _store(self, plan, trials, refit_measure):
        best = {measure: best_trial(records) for measure, records in trials.items()}
        n_failed, report = failure_report(trials)
        for measure, record in best.items():
            if record is None:
                n_pruned = sum(record.state == "pruned" for record in trials[measure])
                reason = f"All failed: {report}" if n_failed and not n_pruned else ""
                reason = reason or f"{n_pruned} were pruned, others failed: {report or 'none'}"
                raise ValueError(
                    f"No trial of {len(trials[measure])} by {measure!r} was completed. {reason}."
                )
        if n_failed:
            announce(
                f"{n_failed} of {sum(map(len, trials.values()))} trials failed, and their score is "
                f"{self.error_score}: {report}.",
                TrialFailedWarning,
            )
        for name in ("best_estimator_", "best_estimators_", "refit_time_", "feature_names_in_"):
            vars(self).pop(name, None)
        self._trials, self._space = trials, plan.space
        self.seed_ = plan.seed
        self.refit_measure_ = refit_measure
        self.multimetric_ = len(plan.measures) > 1
        self.scorer_ = plan.measures if self.multimetric_ else plan.measures[refit_measure]
        self.n_trials_ = self.n_trials
        self.n_splits_ = plan.data.n_splits
        self.cv_results_ = results_table(trials, plan.space, self.n_splits_)
        self.best_params_per_measure_ = {
            measure: plan.space.parameters(record.values) for measure, record in best.items()
        }
        self.best_scores_per_measure_ = {measure: r.score for measure, r in best.items()}
        self.best_params_ = self.best_params_per_measure_[refit_measure]
        self.best_score_ = self.best_scores_per_measure_[refit_measure]
        before = list(trials)[: list(trials).index(refit_measure)]
        place = sum(len(trials[measure]) for measure in before)
        self.best_index_ = place + best[refit_measure].number

    def _refit(self, plan, trials, context):
        fitted = {}
        for place, (measure, records) in enumerate(trials.items()):
            estimator = configured(plan, best_trial(records).values)
            task = context.subcontext(task_name=f"refit by {measure}", task_id=len(trials) + place)
            start = time.perf_counter()
            with task.propagate_callback_context(estimator):
                task.call_on_fit_task_begin(estimator=self, X=plan.data.X, y=plan.data.y)
                fitted[measure] = plan.data.fit(estimator)
            if measure == self.refit_measure_:
                self.refit_time_ = time.perf_counter() - start
            task.call_on_fit_task_end(estimator=self, X=plan.data.X, y=plan.data.y)
        self.best_estimators_ = fitted
        self.best_estimator_ = fitted[self.refit_measure_]
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    # -- results ---------------------------------------------------------------------------------

    def get_study(self, measure=None):
        """Give the trials as a study of Optuna, for its plots and its importance of parameters.

        Parameters
        ----------
        measure : str or None, default=None
            Which measure; None is the one that `refit` names.

        Returns
        -------
        study : optuna.study.Study
            A study in memory.
        """
        check_is_fitted(self)
        measure = self.refit_measure_ if measure is None else measure
        if measure not in self._trials:
            raise ValueError(
                f"'measure' must be one of {', '.join(map(repr, self._trials))}; got {measure!r}."
            )
        return make_study(measure, self._trials[measure], self._space.distributions)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "cv_results_")
