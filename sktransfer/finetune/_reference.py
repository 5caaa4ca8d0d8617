"""Fine-tune all candidates on a target: the reference that rankings by metrics are judged by."""

import os
from numbers import Integral, Real

import numpy as np

from sktransfer.finetune._net import derived_seed
from sktransfer.finetune._reference_checks import (
    checked_candidates,
    checked_estimator,
    checked_target,
    checked_training,
)
from sktransfer.finetune._reference_collect import collect
from sktransfer.finetune._reference_predictions import Predictions
from sktransfer.finetune._reference_protocol import make_protocol
from sktransfer.finetune._reference_run import run_units
from sktransfer.finetune._reference_store import UnitStore
from sktransfer.finetune._reference_subjects import describe_all
from sktransfer.finetune._reference_task import Task, Unit, inner_estimator, objective_of
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._measures import default_scoring, get_measures
from sktransfer.utils._sklearn import (
    N_JOBS,
    Interval,
    StrOptions,
    validate_parameter_constraints,
)

__all__ = ["reference_ranking"]

_NAME = "reference_ranking"


_CONSTRAINTS = {
    "scoring": [str, list, tuple, dict, callable, None],
    "n_seeds": [Interval(Integral, 1, None, closed="left")],
    "from_scratch": ["boolean"],
    "out": [str, os.PathLike, None],
    "random_state": ["random_state"],
    "retry_failed": ["boolean"],
    "energy": ["boolean", StrOptions({"auto", "codecarbon", "carbontracker"})],
    "n_threads": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": N_JOBS,
    "error_score": [StrOptions({"raise"}), Real],
    "verbose": ["verbose"],
}


def reference_ranking(
    candidates,
    X,
    y,
    X_test,
    y_test=None,
    *,
    scoring=None,
    n_seeds=3,
    from_scratch=True,
    estimator=None,
    out=None,
    random_state=0,
    X_val=None,
    y_val=None,
    retry_failed=False,
    energy="auto",
    n_threads=1,
    n_jobs=None,
    error_score=np.nan,
    verbose=0,
):
    """Fine-tune every candidate on a target, and measure it on test data.

    The result is what rankings by transferability metrics are judged by. Each candidate is trained
    once per seed, and so is each of their architectures with random weights, which tells whether
    pretraining has helped at all.

    Read more in the :ref:`User Guide <references>`.

    Parameters
    ----------
    candidates : list of (str, backbone) or dict of str to backbone
        The candidates by name, such as :func:`~sktransfer.datasets.load_tiny_zoo` gives them. Torch
        backbones of any kind, with any ``layer``; with ``train="head"`` any transformer.
    X : array or sequence of shape (n_samples, ...)
        Training data, as the candidates take them: images, paths of files, a torch data set,
        vectors.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Their labels or values. None if ``X`` is a torch data set that has them.
    X_test : array or sequence of shape (n_test, ...)
        Test data, of the same kind.
    y_test : array-like of shape (n_test,) or (n_test, n_outputs), default=None
        Their target. Labels that ``y`` lacks are allowed, and predicted wrongly. It may be left
        out as ``y`` may.
    scoring : str, callable, list of str, dict or None, default=None
        Measures, greater is better: "accuracy", "balanced_accuracy", "roc_auc_ovr" (mean over the
        classes in ``y_test``), "neg_log_loss", any name of scikit-learn, or a dict of names to
        such names or to scorers. None is ``["accuracy", "roc_auc_ovr"]`` for classes and
        ``["r2", "neg_mean_squared_error"]`` for values. A scorer is given an estimator that knows
        the predictions for the test data (``predict``; ``predict_proba`` and ``classes_`` of
        classifiers), and nothing else.
    n_seeds : int, default=3
        How many times each network is trained.
    from_scratch : bool, default=True
        Whether each different architecture among the candidates is trained with random weights too.
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV, default=None
        What trains; its ``backbone`` and ``random_state`` are replaced. None is a
        :class:`FineTuneClassifier`, or a :class:`FineTuneRegressor` for real values, with its
        defaults. A search is made for each candidate, seed and measure anew; its ``scoring`` and
        ``refit`` are replaced too, and its ``storage`` if there is ``out``. Its
        ``param_distributions`` must not hold what is set here: ``backbone``, ``from_scratch``,
        ``random_state`` and ``device``.
    out : str or path, default=None
        Folder in which every training is kept when it is done. The same call goes on where it was
        killed, and more candidates, seeds and measures are added without doing anything twice.
    random_state : int, RandomState instance or None, default=0
        All seeds come from it. None draws one, or takes that of the results in ``out``.
    X_val : array or sequence of shape (n_val, ...), default=None
        Validation data for early stopping, passed on to ``fit``.
    y_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
        Their target.
    retry_failed : bool, default=False
        Whether trainings that failed, according to ``out``, are tried again.
    energy : bool or {"auto", "codecarbon", "carbontracker"}, default="auto"
        Whether the energy of each training is measured, and by which package. "auto" (and True) is
        the first of them that is installed and works.
    n_threads : int, default=1
        Threads of torch for each training on a CPU. Sums are rounded in another order by another
        number of threads, so values depend on it, a little; ``n_jobs`` makes better use of cores.
    n_jobs : int, default=None
        How many trainings run at a time, each in a process of its own; as in scikit-learn. On a
        GPU they run one after the other.
    error_score : "raise" or number, default=nan
        Value for a candidate that fails, or whether its error is raised. It is used for means, and
        not for spread, ties and gains.
    verbose : int, default=0
        Whether a line is printed for each training that is done.

    Returns
    -------
    ranking : ReferenceRanking
        Values by candidate, measure and seed, with the protocol.

    Raises
    ------
    TypeError
        If a candidate or the estimator is something else than an estimator of the right kind.
    ValueError
        For parameters and data that no candidate could do with, before any work; if ``out`` holds
        results of other data, settings, versions or weights; if all candidates fail.

    Warns
    -----
    CandidateFailedWarning
        At the end, for candidates that have failed; the others are not affected.
    DamagedResultWarning
        If a file in ``out`` cannot be read; the training is done again.

    See Also
    --------
    sktransfer.evaluation.rank_correlation : Agreement of scores with the result.
    sktransfer.model_selection.TransferabilitySelector : Scores without training.

    Notes
    -----
    Training number s has the same seed for all candidates, derived from ``random_state`` and s. A
    value depends on its own candidate alone: neither on the other candidates and their order nor on
    ``n_jobs``.

    Candidates have one architecture if the same layers are built and one seed gives the same random
    weights; their classifier layers do not count. From scratch, the whole network is trained also
    if the estimator trains the head only or in stages, or a search has a choice of ``train``; all
    other parameters are alike, and images
    are normalised by the mean and the standard deviation of the training images.

    Training draws from torch's generator, which only one thread of a process can have, so threads
    as workers are no faster than none.

    Examples
    --------
    >>> from sktransfer.datasets import load_digits_target, load_tiny_zoo
    >>> from sktransfer.finetune import FineTuneClassifier, reference_ranking
    >>> digits = load_digits_target()
    >>> ranking = reference_ranking(
    ...     load_tiny_zoo(names=["mnist_half", "shapes_half"]),
    ...     digits.images_train[:60],
    ...     digits.y_train[:60],
    ...     digits.images_test[:200],
    ...     digits.y_test[:200],
    ...     estimator=FineTuneClassifier(None, lr=3e-3, max_epochs=10),
    ...     n_seeds=2,
    ... )
    >>> ranking
    ReferenceRanking(2 candidates, 1 from scratch, n_seeds=2, measures=['accuracy', 'roc_auc_ovr'])
    >>> accuracy = ranking.reference("accuracy")
    >>> accuracy["mnist_half"] > accuracy["shapes_half"]
    True
    """
    validate_parameter_constraints(_CONSTRAINTS, locals(), _NAME)
    candidates = checked_candidates(candidates)
    y = checked_target(X, y, "X", "y")
    y_test = checked_target(X_test, y_test, "X_test", "y_test")
    if X_val is not None:
        y_val = checked_target(X_val, y_val, "X_val", "y_val")
    estimator = checked_estimator(estimator, y, _NAME)
    if scoring is None:
        scoring = default_scoring(inner_estimator(estimator))
    measures = get_measures(scoring)
    data = X, y, X_test, X_val, y_val
    estimator, probe = checked_training(estimator, candidates, data, y_test, measures)
    classes = getattr(probe, "classes_", None)
    predictions = Predictions(X_test, y_test, classes, measures, type(probe).__name__)
    predictions.check(y)

    store = None if out is None else UnitStore(out)
    if random_state is None and store is not None:
        random_state = store.random_state()
    random_state = drawn_seed(random_state)
    task = Task(
        estimator=estimator,
        data=data,
        n_threads=n_threads,
        energy="auto" if energy is True else energy,
        raise_errors=error_score == "raise",
    )
    protocol = make_protocol(task, y_test, random_state)
    field = describe_all(candidates, task, from_scratch)
    if store is not None:
        store.begin(protocol, field.able)

    seeds = [derived_seed(random_state, seed) for seed in range(n_seeds)]
    objectives = objective_of(estimator, scoring, measures)
    units = [
        Unit(subject, seed, random_state, objective)
        for seed, random_state in enumerate(seeds)
        for subject in field.able
        for objective in objectives
    ]
    done = run_units(
        units,
        task,
        field.backbones,
        predictions,
        store,
        retry_failed=retry_failed,
        # Several processes on one GPU would only fight for its memory.
        n_jobs=n_jobs if protocol["device"] == "cpu" else 1,
        verbose=int(verbose),
    )
    protocol.update(seeds=seeds, measures=list(measures))
    protocol["data"].update(n_samples=len(y), n_test=len(y_test))
    return collect(field, done, list(measures), protocol, objectives, error_score)
