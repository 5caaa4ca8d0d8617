"""Weights of samples and of classes."""

import numbers

import numpy as np

from ._sklearn import _check_sample_weight

__all__ = ["as_weights", "check_weights"]

# Larger positive weights, or smaller ones than its inverse, would leave float64 when squared.
_LARGEST_WEIGHT = 1e100


def _few(labels, n=10):
    return ", ".join(map(repr, labels[:n])) + (", ..." if len(labels) > n else "")


def _class_weights(class_weight, target, sample_weight, name):
    """Turn weights of the classes into weights of the samples.

    Parameters
    ----------
    class_weight : dict or "balanced"
        Weights by label, 1 for labels that are not in the dict; or weights with which all classes
        weigh the same in total, the weights of the samples included.
    target : Target
        The target.
    sample_weight : ndarray of shape (n_samples,)
        Weights of the samples, with which "balanced" counts them.
    name : str
        Who asks, for messages.

    Returns
    -------
    weights : ndarray of shape (n_samples,)
        What to multiply the weights of the samples by.

    Raises
    ------
    ValueError
        If the target has no classes, or the dict holds something else than labels and finite
        numbers that are not negative.
    """
    if target.task != "classification":
        raise ValueError(
            f"class_weight of {name} needs a target y of class labels; got a {target.task} target. "
            "Use sample_weight."
        )
    if isinstance(class_weight, str):
        totals = np.bincount(target.codes, sample_weight, minlength=len(target.classes))
        present = totals > 0
        # As scikit-learn computes them: classes of equal size have a weight of exactly 1.
        weights = np.zeros(len(totals))
        weights[present] = totals.sum() / (np.count_nonzero(present) * totals[present])
        return weights[target.codes]
    wrong = {
        label: weight
        for label, weight in class_weight.items()
        if isinstance(weight, bool)
        or not isinstance(weight, numbers.Real)
        or not 0 <= weight < np.inf
    }
    if wrong:
        raise ValueError(
            f"class_weight of {name} must hold finite numbers that are not negative; got {wrong!r}."
        )
    labels = target.classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not set(labels) <= set(class_weight):
        raise ValueError(
            f"class_weight of {name} must have labels in y as keys, which are {_few(labels)}; got "
            f"{_few(unknown)} too."
        )
    return np.array([class_weight.get(label, 1.0) for label in labels], float)[target.codes]


def as_weights(sample_weight, X):
    """Check that there is a weight for each sample.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
        Weights; None for ones.
    X : array-like of shape (n_samples, ...)
        What they are for.

    Returns
    -------
    sample_weight : ndarray of float64 of shape (n_samples,)
        The weights, finite and not negative.

    Raises
    ------
    ValueError
        If they are something else, or another number of them.
    """
    try:
        np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; {error}.") from None
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def check_weights(sample_weight, X, target, *, relative=True, class_weight=None, name="metric"):
    """Check weights and leave out the rows whose weight is zero.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
        Non-negative weights.
    X : ndarray of shape (n_samples, n_features)
        The rows.
    target : Target
        Their target.
    relative : bool, default=True
        Whether only the ratios of these weights matter, so that equal weights are no weights.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the samples.
    name : str, default="metric"
        Who asks, for messages.

    Returns
    -------
    X, target, sample_weight
        The rows of positive weight, their target and their weights (None for no weights).
    """
    if sample_weight is None and class_weight is None:
        return X, target, None
    weight = as_weights(sample_weight, X)
    if class_weight is not None:
        weight = weight * _class_weights(class_weight, target, weight, name)
    kept = weight > 0
    if not kept.any():
        raise ValueError(
            f"class_weight of {name} leaves no sample with a positive weight; got {class_weight!r}."
        )
    extreme = kept & ((weight > _LARGEST_WEIGHT) | (weight < 1 / _LARGEST_WEIGHT))
    if extreme.any():
        raise ValueError(
            f"sample_weight must be 0 or between {1 / _LARGEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}; "
            f"got {weight[extreme][0]:g}."
        )
    if not kept.all():
        X, target, weight = X[kept], target.take(kept), weight[kept]
    if relative and (weight == weight[0]).all():
        weight = None
    return X, target, weight
