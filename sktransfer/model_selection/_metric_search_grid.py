"""The settings that a search over metrics compares: a metric with values for its parameters."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from ..utils._sklearn import InvalidParameterError

__all__ = ["Setting", "by_setting", "metric_settings"]


@dataclass(frozen=True)
class Setting:
    """A metric with values for some of its parameters.

    Attributes
    ----------
    label : str
        What it is called, unlike any other.
    metric : str
        Name of the metric.
    params : dict of str to object
        The parameters that the grid sets.
    estimator : metric
        An unfitted clone with these parameters.
    """

    label: str
    metric: str
    params: dict
    estimator: object


def metric_settings(metrics, param_grid, seed):
    """List all settings, metric by metric, each with its grid in the order of `ParameterGrid`.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    param_grid : dict, list of dict or None
        Values by ``"<metric>__<parameter>"``.
    seed : int
        For metrics with ``random_state=None``. Settings that differ in a parameter then don't
        differ by chance too.

    Returns
    -------
    settings : list of Setting
        At least one for each metric.

    Raises
    ------
    TypeError
        If the grid is made of something else than dicts with names as keys.
    ValueError
        If a name in it is unknown, a parameter has no values or a wrong one, or a setting is there
        twice.
    """
    grids = {name: [] for name in metrics}
    for grid in _dicts(param_grid):
        for name, values in _by_metric(grid, metrics).items():
            grids[name].append(values)
    settings, taken = [], set()
    for name, metric in metrics.items():
        of_metric = []
        for params in ParameterGrid(grids[name] or [{}]):
            label = once = _label(name, params)
            if any(_are_same(params, others) for others in of_metric):
                raise ValueError(f"'param_grid' must give each setting once. Got {label} twice.")
            of_metric.append(params)
            n = 1
            while label in taken:
                n += 1
                label = f"{once} #{n}"
            taken.add(label)
            settings.append(Setting(label, name, params, _with_params(metric, params, seed)))
    return settings


def by_setting(by_metric, settings):
    """Give what belongs to a metric to all of its settings.

    Parameters
    ----------
    by_metric : dict of str to object
        For some of the metrics.
    settings : list of Setting
        The settings.

    Returns
    -------
    by_label : dict of str to object
        For the settings of these metrics.
    """
    return {s.label: by_metric[s.metric] for s in settings if s.metric in by_metric}


def _dicts(param_grid):
    if param_grid is None:
        return []
    grids = [param_grid] if isinstance(param_grid, Mapping) else list(param_grid)
    for grid in grids:
        if not isinstance(grid, Mapping) or not all(isinstance(key, str) for key in grid):
            raise TypeError(
                "'param_grid' must be a dict with keys '<metric>__<parameter>', or a list of "
                f"these. Got {grid!r} instead."
            )
    return grids


def _by_metric(grid, metrics):
    """Sort the values of one dict by metric; an empty dict leaves all metrics as they are."""
    if not grid:
        return {name: {} for name in metrics}
    flat = {}
    for key, values in grid.items():
        nested = values.items() if isinstance(values, Mapping) else [("", values)]
        for parameter, inner in nested:
            full = f"{key}__{parameter}" if parameter else key
            if full in flat:
                raise ValueError(f"'param_grid' has values for {full!r} twice.")
            flat[full] = inner
    unknown, sorted_values = [], {}
    for key, values in flat.items():
        name, separator, parameter = key.partition("__")
        if name not in metrics:
            unknown.append(f"{key!r} names no metric (there are {list(metrics)!r})")
        elif not separator:
            unknown.append(f"{key!r} names no parameter (as '{name}__<parameter>' would)")
        elif parameter not in (valid := metrics[name].get_params(deep=True)):
            unknown.append(
                f"{type(metrics[name]).__name__} has no parameter {parameter!r} as in {key!r} "
                f"(it has {sorted(valid)!r})"
            )
        else:
            sorted_values.setdefault(name, {})[parameter] = _check_values(key, values)
    if unknown:
        raise ValueError(f"'param_grid' has unknown names: {'; '.join(unknown)}.")
    return sorted_values


def _check_values(key, values):
    is_list = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        is_list, values = True, values.tolist() if values.dtype.kind != "O" else list(values)
    if not is_list or not len(values):
        raise ValueError(
            f"{key!r} in 'param_grid' must have a list of values, at least one. "
            f"Got {values!r} instead."
        )
    return values


def _with_params(metric, params, seed):
    estimator = clone(metric).set_params(**{key: _own(value) for key, value in params.items()})
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=seed)
    if hasattr(estimator, "_parameter_constraints"):
        try:
            estimator._validate_params()
        except InvalidParameterError as error:
            raise ValueError(f"'param_grid' has a wrong value: {error}") from error
    return estimator


def _are_same(params, others):
    """Tell whether two settings of a metric are one."""
    return params.keys() == others.keys() and all(
        _is_same(value, others[key]) for key, value in params.items()
    )


def _is_same(value, other):
    plain = int, float, str, np.number
    if isinstance(value, plain) and isinstance(other, plain):
        # True equals 1, and need not mean the same to a metric.
        return value == other and isinstance(value, bool) == isinstance(other, bool)
    if isinstance(value, list | tuple) and type(value) is type(other):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return value is other


def _own(value):
    """Let settings share no estimator."""
    return clone(value, safe=False) if hasattr(value, "get_params") else value


def _label(name, params):
    if not params:
        return name
    values = ", ".join(f"{key}={reprlib.repr(value)}" for key, value in sorted(params.items()))
    return f"{name}({values})"
