"""What a fit is given, inputs and target together, checked without making a network."""

from dataclasses import dataclass

import numpy as np

from sktransfer.finetune._inputs import check_rows, named
from sktransfer.utils._sklearn import _num_samples
from sktransfer.utils._weights import check_weights

__all__ = ["FitData", "check_lengths", "checked_fit", "probe_of"]


@dataclass
class FitData:
    """What a fit is given, checked.

    Attributes
    ----------
    X : array or sequence of shape (n_samples, ...)
        Inputs.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Target.
    rows : ndarray of int
        Rows of positive weight.
    target : Target
        Target of these.
    weights : ndarray or None
        Weights of these.
    X_val, y_val : as ``X`` and ``y``, or None
        Validation data.
    held_target : Target or None
        Target of the validation data.
    """

    X: object
    y: np.ndarray
    rows: np.ndarray
    target: object
    weights: np.ndarray | None
    X_val: object
    y_val: np.ndarray | None
    held_target: object


def checked_fit(estimator, X, y, sample_weight, X_val, y_val):
    """Check what a fit is given, and let the estimator learn what its target is.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Who is going to be fitted.
    X, y, sample_weight, X_val, y_val
        As ``fit`` takes them.

    Returns
    -------
    data : FitData
        The data.

    Raises
    ------
    ValueError
        For data that can't be used, by name.
    """
    if X_val is None and y_val is not None:
        raise ValueError("'y_val' is given and 'X_val' is not; they belong together.")
    for callback in estimator.callbacks or []:
        hook = callback[-1] if isinstance(callback, tuple) and len(callback) == 2 else callback
        if not hasattr(hook, "on_train_begin"):
            raise TypeError(
                "'callbacks' must hold callbacks of skorch, or pairs of a name and a callback. Got "
                f"{callback!r}."
            )
    check_rows(estimator.backbone, X=X, X_val=X_val)
    X, y = estimator._checked_pair(X, y, reset=True)
    target = estimator._encode(y)
    rows, target, weights = check_weights(sample_weight, np.arange(len(y)), target)
    estimator._learn_target(target, y)
    held_target = None
    if X_val is not None:
        if y_val is not None:
            check_lengths(X_val, y_val, "X_val", "y_val")
        with named("X_val", "y_val"):
            X_val, y_val = estimator._checked_pair(X_val, y_val, reset=False)
            held_target = estimator._known_target(y_val)
    return FitData(X, y, rows, target, weights, X_val, y_val, held_target)


def probe_of(estimator, searched, X, y, sample_weight, X_val, y_val):
    """Do what a fit does before it makes a network.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Who is going to be fitted. It is left as it is.
    searched : SearchSpace, or other container of str
        Which of its parameters are not known yet.
    X, y, sample_weight, X_val, y_val
        As ``fit`` takes them.

    Returns
    -------
    probe : estimator
        One that knows what inputs and target are, and nothing else.
    data : FitData
        The data.

    Raises
    ------
    ValueError
        For parameters and data that a fit would refuse.
    """
    # Not a clone, which would copy the network.
    probe = type(estimator)(**estimator.get_params(deep=False))
    probe._validate_params()
    if not any(name in searched for name in ("train", "head_epochs", "max_epochs")):
        probe._stages()
    data = checked_fit(probe, X, y, sample_weight, X_val, y_val)
    if "class_weight" not in searched:
        probe._learn_scale(data.target, data.weights)
    return probe, data


def check_lengths(X, y, name, target_name):
    """Refuse data and a target that are not of one length.

    Parameters
    ----------
    X : array or sequence of shape (n_samples, ...)
        Data.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Target.
    name, target_name : str
        What they are called.

    Raises
    ------
    ValueError
        If they have not as many rows.
    """
    n = _num_samples(X)
    if n != len(y):
        raise ValueError(
            f"'{name}' and '{target_name}' must have as many rows. Got {n} and {len(y)}."
        )
