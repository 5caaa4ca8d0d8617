"""Source data that metrics take as parameters, beside the target."""

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from ..utils._target import as_target_array, encode_target


def check_source_rows(rows, name):
    """Validate features or centroids of source data.

    Parameters
    ----------
    rows : array-like of shape (n_rows, n_features)
        Features in the space of the target's.
    name : str
        Name of the parameter, for messages.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features), dtype float32 or float64
        The finite rows.
    """
    # Sums at the ends of the float range, which the check for infinities takes, may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        return check_array(rows, dtype=[np.float64, np.float32], input_name=name)


def check_source_samples(features, labels, metric):
    """Validate source samples, and encode their labels.

    Parameters
    ----------
    features : array-like of shape (n_source_samples, n_features) or None
        The parameter ``source_features``.
    labels : array-like of shape (n_source_samples,) or None
        The parameter ``source_labels``.
    metric : str
        Name of the metric, for messages.

    Returns
    -------
    features : ndarray of shape (n_source_samples, n_features) or None
        The finite features, float32 or float64; None without a source.
    target : Target or None
        The encoded labels.
    """
    if (features is None) != (labels is None):
        raise ValueError(
            "source_features and source_labels must be given together; got only "
            f"{'source_labels' if features is None else 'source_features'}."
        )
    if features is None:
        return None, None
    features = check_source_rows(features, "source_features")
    labels = check_array(
        as_target_array(labels), ensure_2d=False, dtype=None, input_name="source_labels"
    )
    target = encode_target(
        labels, tasks=("classification",), name=f"the source of {metric}", task="classification"
    )
    check_consistent_length(features, target.codes)
    return features, target


def check_same_width(X, source, metric):
    """Refuse features of target and source that can't come from one layer.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features of the target.
    source : ndarray of shape (n_rows, n_source_features)
        Features or centroids of the source.
    metric : str
        Name of the metric, for messages.
    """
    if source.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the source of {metric} has {source.shape[1]}; "
            "both must come from the same layer of the same network."
        )
