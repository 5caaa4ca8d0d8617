"""Parts of a score that are scaled over the candidates compared: one rule for all metrics."""

import numpy as np


def scaled_over_pool(values):
    """Scale numbers to [0, 1] by the least and the largest of them.

    Parameters
    ----------
    values : array-like of shape (n_candidates,)
        Numbers; NaN where there is none.

    Returns
    -------
    scaled : ndarray of shape (n_candidates,), dtype float64
        The numbers scaled: 0 for the least and 1 for the largest of those that are there, NaN where
        there is none. If all are the same, also if there is only one, 1/2.

    Notes
    -----
    Where nothing tells candidates apart, 0 / 0 is left, and one half is the value for it: none is
    called the best or the worst; the mean of two candidates is 1/2 however close they are, so it is
    the limit of both; it is the same when the order is reversed; in a sum it moves all candidates
    alike, and in a product, where 0 would wipe out the other factors, it leaves the order to them.
    """
    # Halved, so that the distance of two numbers at the ends of the float range exists.
    values = np.asarray(values, dtype=np.float64) / 2
    known = ~np.isnan(values)
    scaled = np.full(len(values), np.nan)
    if known.any():
        low, high = values[known].min(), values[known].max()
        scaled[known] = 0.5 if low == high else (values[known] - low) / (high - low)
    return scaled


def scaled_parts(fitted_metrics, names, undefined=()):
    """Scale the parts in ``components_`` to [0, 1] over the candidates that have a score.

    Parameters
    ----------
    fitted_metrics : sequence of fitted metrics or None
        One per candidate; None for a candidate that failed.
    names : sequence of str
        Names of the parts.
    undefined : collection of str, default=()
        Parts that a candidate may lack (NaN) and have a score for all that. It counts as one
        half for that candidate, and does not enter the scaling of the others.

    Returns
    -------
    parts : dict of str to ndarray of shape (n_candidates,)
        The scaled parts. A candidate that failed, whose score is NaN, or one of whose parts is not
        finite is NaN in all of them, and has no influence on the others.
    """
    values = {name: np.full(len(fitted_metrics), np.nan) for name in names}
    usable = np.zeros(len(fitted_metrics), dtype=bool)
    for i, metric in enumerate(fitted_metrics):
        if metric is None or np.isnan(metric.score_):
            continue
        parts = metric.components_
        usable[i] = all(
            np.isfinite(parts[name]) or (name in undefined and np.isnan(parts[name]))
            for name in names
        )
        if usable[i]:
            for name in names:
                values[name][i] = parts[name]
    scaled = {name: scaled_over_pool(part) for name, part in values.items()}
    for name in undefined:
        scaled[name][usable & np.isnan(scaled[name])] = 0.5
    return scaled
