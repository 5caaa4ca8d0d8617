"""Fine-tune all candidates on a target: the reference that rankings by metrics are judged by."""

import os
from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_consistent_length

from sktransfer.backbones._datasets import is_dataset
from sktransfer.datasets import load_torch_dataset
from sktransfer.finetune._classifier import FineTuneClassifier
from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._net import derived_seed
from sktransfer.finetune._reference_collect import collect
from sktransfer.finetune._reference_predictions import Predictions
from sktransfer.finetune._reference_protocol import make_protocol
from sktransfer.finetune._reference_run import run_units
from sktransfer.finetune._reference_store import UnitStore
from sktransfer.finetune._reference_subjects import SCRATCH, describe_all
from sktransfer.finetune._reference_task import Task, Unit, inner_estimator, objective_of
from sktransfer.finetune._regressor import FineTuneRegressor
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._measures import get_measures
from sktransfer.utils._sklearn import Interval, StrOptions, validate_params
from sktransfer.utils._target import as_target_array, encode_target

__all__ = ["reference_ranking"]

_NAME = "reference_ranking"


@validate_params(
    {
        "scoring": [str, list, tuple, dict, callable],
        "n_seeds": [Interval(Integral, 1, None, closed="left")],
        "from_scratch": ["boolean"],
        "out": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "retry_failed": ["boolean"],
        "energy": ["boolean", StrOptions({"auto", "codecarbon", "carbontracker"})],
        "n_threads": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "error_score": [StrOptions({"raise"}), Real],
        "verbose": ["verbose"],
    },
    prefer_skip_nested_validation=True,
)
def reference_ranking(
    candidates,
    X,
    y,
    X_test,
    y_test=None,
    *,
    scoring=("accuracy", "roc_auc_ovr"),
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
    scoring : str, callable, list of str or dict, default=("accuracy", "roc_auc_ovr")
        Measures, greater is better: "accuracy", "balanced_accuracy", "roc_auc_ovr" (mean over the
        classes in ``y_test``), "neg_log_loss", any name of scikit-learn ("r2" for values), or a
        dict of names to such names or to scorers. A scorer is given an estimator that knows the
        predictions for the test data (``predict``; ``predict_proba`` and ``classes_`` of
        classifiers), and nothing else.
    n_seeds : int, default=3
        How many times each network is trained.
    from_scratch : bool, default=True
        Whether each different architecture among the candidates is trained with random weights too.
    estimator : FineTuneClassifier, FineTuneRegressor or FineTuneSearchCV, default=None
        What trains; its ``backbone`` and ``random_state`` are replaced. None is a
        :class:`FineTuneClassifier`, or a :class:`FineTuneRegressor` for real values, with its
        defaults. A search is made for each candidate, seed and measure anew.
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
        Value for a candidate that fails, or whether its error is raised.
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
    if the estimator trains the head only or in stages, with all other parameters alike, and images
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
    candidates = _checked_candidates(candidates)
    y = _checked_target(X, y, "y")
    y_test = _checked_target(X_test, y_test, "y_test")
    estimator = _checked_estimator(estimator, y)
    inner = inner_estimator(estimator)
    measures = get_measures(scoring)
    classes, y_val = _check_training_data(inner, candidates[0][1], y, X_val, y_val)
    predictions = Predictions(X_test, y_test, classes, measures, type(inner).__name__)
    predictions.check(y)

    store = None if out is None else UnitStore(out)
    if random_state is None and store is not None:
        random_state = store.random_state()
    random_state = drawn_seed(random_state)
    task = Task(
        estimator=estimator,
        data=(X, y, X_test, X_val, y_val),
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


def _checked_candidates(candidates):
    pairs = candidates.items() if isinstance(candidates, Mapping) else candidates
    if isinstance(pairs, str) or not hasattr(pairs, "__iter__"):
        pairs = ()
    pairs = list(pairs)
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            "'candidates' must be a non-empty list of (name, backbone) tuples, or a dict. "
            f"Got {candidates!r} instead."
        )
    seen = set()
    for name, backbone in pairs:
        if not isinstance(name, str) or not name or name.startswith(SCRATCH):
            raise ValueError(
                "The names in 'candidates' must be strings that are not empty and do not begin "
                f"with {SCRATCH!r}. Got {name!r} instead."
            )
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"The names in 'candidates' must be texts that can be written: {name!r} cannot "
                f"({error.reason})."
            ) from error
        if name in seen:
            raise ValueError(f"The names in 'candidates' must be unique. Got {name!r} twice.")
        seen.add(name)
        if isinstance(backbone, type) or not all(
            hasattr(backbone, method) for method in ("fit", "transform", "get_params")
        ):
            raise TypeError(
                f"Candidate {name!r} must be a backbone or another transformer. "
                f"Got {backbone!r} instead."
            )
    return [tuple(pair) for pair in pairs]


def _checked_target(X, y, name):
    if y is None and is_dataset(X):
        y = load_torch_dataset(X).y
    if y is None:
        raise ValueError(
            f"'{name}' is needed: only torch data sets have a target of their own. Got None."
        )
    y = np.asarray(as_target_array(y))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    data = name.replace("y", "X")
    is_missing = np.array([value is None or value != value for value in y.ravel().tolist()])
    if is_missing.any():
        raise ValueError(
            f"'{name}' lacks {is_missing.sum()} of its {is_missing.size} values (NaN or None), "
            f"first in row {np.flatnonzero(is_missing)[0] // max(1, is_missing.size // len(y))}."
        )
    if len(y) == 0:
        raise ValueError(f"'{data}' and '{name}' must have one row at least. Got none.")
    try:
        check_consistent_length(X, y)
    except ValueError as error:
        raise ValueError(f"'{data}' and '{name}' must have as many rows: {error}") from error
    return y


def _checked_estimator(estimator, y):
    if estimator is None:
        tasks = ("classification", "regression")
        is_classification = encode_target(y, tasks=tasks, name=_NAME).task == "classification"
        return (FineTuneClassifier if is_classification else FineTuneRegressor)(None)
    inner = inner_estimator(estimator)
    if not isinstance(inner, FineTuneEstimator):
        raise TypeError(
            "'estimator' must be a FineTuneClassifier, a FineTuneRegressor or a FineTuneSearchCV "
            f"of one. Got {estimator!r} instead."
        )
    if inner.from_scratch:
        raise ValueError(
            "'estimator' has from_scratch=True, which would throw away the weights of the "
            f"candidates; the 'from_scratch' parameter of {_NAME} adds rows from scratch."
        )
    return estimator


def _check_training_data(inner, backbone, y, X_val, y_val):
    """Refuse parameters and targets that no candidate could be trained with; give the classes."""
    probe = type(inner)(**{**inner.get_params(deep=False), "backbone": backbone})
    probe._validate_params()
    probe._stages()
    probe._learn_target(probe._encode(y), y)
    if X_val is None and y_val is not None:
        raise ValueError("'y_val' is given and 'X_val' is not; they belong together.")
    if X_val is not None:
        y_val = _checked_target(X_val, y_val, "y_val")
        probe._known_target(y_val)
    return getattr(probe, "classes_", None), y_val
