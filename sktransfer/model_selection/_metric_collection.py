"""One metric or several, by name or instance: names for them, and their nested parameters."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import clone

from ..metrics import get_metric, metric_name
from ..metrics import named_metrics as metrics_by_name
from ..utils._target import TASKS, find_task

__all__ = [
    "deciders",
    "deciding_metric",
    "get_collection_params",
    "is_relative_to_pool",
    "named_metrics",
    "needs_network",
    "needs_probabilities",
    "score_alike",
    "set_collection_params",
    "validated_metrics",
    "with_one_seed",
]

# Parameters that do not change a score, or, as a task that is found anyway, need not.
_NOT_IN_THE_SCORE = ("n_permutations", "random_state", "task", "tol")


def named_metrics(metric, argument="metric"):
    """Bring what a user may pass as ``metric`` into one form.

    Parameters
    ----------
    metric : str, metric instance, list or tuple of these, or dict of str to these
        The metric or metrics.
    argument : str, default="metric"
        What the parameter is called.

    Returns
    -------
    metrics : dict of str to metric
        In the order given. The instances are the user's own; clone them before fitting.

    Raises
    ------
    ValueError
        If there is no metric, a name is unknown or twice there, or a key of the dict can't be
        part of a parameter name.
    TypeError
        If an entry is neither a name nor a metric instance.
    """
    if isinstance(metric, Mapping):
        invalid = [key for key in metric if not isinstance(key, str) or not key or "__" in key]
        if invalid:
            raise ValueError(
                f"The keys of {argument!r} must be non-empty strings without '__'. "
                f"Got {invalid!r} instead."
            )
    return metrics_by_name(metric, argument)


def validated_metrics(metric, argument="metric"):
    """Bring metrics into one form, and check their parameters before any work.

    Parameters
    ----------
    metric : str, metric instance, list or tuple of these, or dict of str to these
        The metric or metrics.
    argument : str, default="metric"
        What the parameter is called.

    Returns
    -------
    metrics : dict of str to metric
        As from :func:`named_metrics`.

    Raises
    ------
    ValueError
        If a parameter of a metric is wrong, and as :func:`named_metrics`.
    """
    metrics = named_metrics(metric, argument)
    for instance in metrics.values():
        if hasattr(instance, "_parameter_constraints"):
            instance._validate_params()
    return metrics


def deciding_metric(metrics, refit):
    """Give the name of the metric that decides.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    refit : str or None
        The parameter of this name; None is the first metric, "consensus" all of them together.

    Returns
    -------
    name : str
        The metric's name, or "consensus".

    Raises
    ------
    ValueError
        If there is no such metric, or a single one for a consensus.
    """
    if refit is None:
        return next(iter(metrics))
    if refit == "consensus" and refit not in metrics:
        if len(metrics) < 2:
            raise ValueError(
                "refit='consensus' needs two metrics or more. Got the metric "
                f"{next(iter(metrics))!r} alone."
            )
        return refit
    if refit not in metrics:
        raise ValueError(
            f"'refit' must name one of the metrics, {list(metrics)!r}. Got {refit!r} instead."
        )
    return refit


def deciders(metrics, deciding):
    """Give the metrics that decide which candidate is the best.

    Parameters
    ----------
    metrics : dict of str to metric
        All metrics.
    deciding : str
        From :func:`deciding_metric`.

    Returns
    -------
    metrics : list of metrics
        One, or all of them for a consensus.
    """
    return [metrics[deciding]] if deciding in metrics else list(metrics.values())


def score_alike(metric, other, y):
    """Tell whether two metrics have the same definition for a target.

    Parameters
    ----------
    metric, other : metric
        The metrics.
    y : ndarray
        The target, which decides what ``task="auto"`` is.

    Returns
    -------
    alike : bool
        Whether their scores are the same, but for seeds and tolerances.
    """
    if type(metric) is not type(other):
        return False
    own, others = metric.get_params(deep=False), other.get_params(deep=False)
    if own.get("task") != others.get("task"):
        try:
            found = [
                find_task(y, tasks=TASKS, name=type(metric).__name__, task=params["task"])[1]
                for params in (own, others)
            ]
        except ValueError:  # one of them has no definition for it
            return False
        if found[0] != found[1]:
            return False
    return all(
        own[name] is others[name] or own[name] == others[name]
        for name in own
        if name not in _NOT_IN_THE_SCORE
    )


def needs_network(metric):
    """Tell whether a metric looks into the network of a candidate, given its raw inputs.

    Parameters
    ----------
    metric : metric instance
        The metric.

    Returns
    -------
    needed : bool
        True if features and source probabilities are not enough.
    """
    return metric.needs == "inputs"


def needs_probabilities(metric):
    """Tell whether a metric is computed from the outputs of a source head.

    Parameters
    ----------
    metric : metric instance
        The metric.

    Returns
    -------
    needed : bool
        True if it needs source probabilities or source labels, False if it needs features.
    """
    return metric.needs in ("probabilities", "labels")


def is_relative_to_pool(metric):
    """Tell whether the score of one candidate depends on the other candidates.

    Parameters
    ----------
    metric : metric instance
        The metric.

    Returns
    -------
    relative : bool
        False if the metric doesn't say.
    """
    return bool(getattr(metric, "relative_to_pool", False))


def _entries(metric):
    """Pairs of (name, entry as given) of a list, tuple or dict of metrics."""
    if isinstance(metric, Mapping):
        return list(metric.items())
    return [
        (entry if isinstance(entry, str) else metric_name(entry), entry)
        for entry in metric
        if isinstance(entry, str) or hasattr(entry, "get_params")
    ]


def get_collection_params(metric):
    """Nested parameters of a list, tuple or dict of metrics, as ``get_params(deep=True)`` shows.

    Parameters
    ----------
    metric : object
        The value of the parameter ``metric``. A single metric has none here: scikit-learn lists
        its parameters without help.

    Returns
    -------
    params : dict
        ``"<name>"`` and ``"<name>__<parameter>"`` for each metric given as an instance.
    """
    params = {}
    if isinstance(metric, list | tuple | Mapping):
        for name, entry in _entries(metric):
            if hasattr(entry, "get_params") and not isinstance(entry, type):
                params[name] = entry
                for key, value in entry.get_params(deep=True).items():
                    params[f"{name}__{key}"] = value
    return params


def set_collection_params(metric, params, argument="metric"):
    """Set nested parameters where ``metric`` is a name, or a list, tuple or dict of metrics.

    A metric given by name becomes an instance with its defaults first. The collection that was
    passed is left as it was and a new one is returned.

    Parameters
    ----------
    metric : str, list, tuple or dict
        The value of the parameter ``metric``.
    params : dict
        For a name ``{"tol": 1e-3}``; for a collection ``{"logme__tol": 1e-3}`` or
        ``{"logme": LogME()}``.
    argument : str, default="metric"
        What the parameter is called.

    Returns
    -------
    metric : metric instance, list, tuple or dict
        The new value of the parameter.

    Raises
    ------
    ValueError
        If a metric or one of its parameters doesn't exist.
    """
    if isinstance(metric, str):
        return get_metric(metric).set_params(**params)

    entries = dict(_entries(metric))
    nested = {}
    # Replace whole metrics first, so that parameters reach the new ones.
    for key in sorted(params, key=lambda key: "__" in key):
        name, separator, parameter = key.partition("__")
        if name not in entries:
            raise ValueError(
                f"Invalid metric {name!r} in '{argument}__{key}'. "
                f"Valid metrics are: {list(entries)!r}."
            )
        if separator:
            nested.setdefault(name, {})[parameter] = params[key]
        else:
            entries[name] = params[key]
    for name, values in nested.items():
        if isinstance(entries[name], str):
            entries[name] = get_metric(entries[name])
        entries[name].set_params(**values)
    return entries if isinstance(metric, Mapping) else type(metric)(entries.values())


def with_one_seed(metrics, seed=None):
    """Draw the seeds of metrics that would draw one in each fit.

    Candidates are compared, so the chance in a metric must be the same for all of them.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    seed : int, default=None
        The seed of all of them; if None, one is drawn for each.

    Returns
    -------
    metrics : dict of str to metric
        Those with ``random_state=None`` are replaced by clones with a seed.
    """
    seeded = dict(metrics)
    for name, metric in metrics.items():
        if metric.get_params(deep=False).get("random_state", 0) is None:
            drawn = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
            seeded[name] = clone(metric).set_params(random_state=drawn)
    return seeded
