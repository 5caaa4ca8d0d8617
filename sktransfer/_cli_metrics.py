"""Metrics named on the command line, and which of them a target has a use for."""

from .metrics import get_metric, metric_names

__all__ = ["defined_for", "parse_metrics"]


def parse_metrics(names):
    """Make metrics of names.

    Parameters
    ----------
    names : sequence of str
        What was given on the command line; "all" stands for all metrics.

    Returns
    -------
    metrics : dict of str to metric
        By name, each once, in the order given; with "all" alone the metric that decides by default
        comes first.

    Raises
    ------
    ValueError
        If there is no metric of a name.
    """
    spread = []
    for name in names:
        spread.extend(metric_names() if name == "all" else [name])
    ordered = dict.fromkeys(name.lower() for name in spread)
    if "all" in names and len(names) == 1:
        ordered = dict.fromkeys(["logme", *ordered])
    return {name: get_metric(name) for name in ordered}


def defined_for(metrics, task, *, option, needed=None):
    """Leave out metrics that have no definition for a kind of target.

    Parameters
    ----------
    metrics : dict of str to metric
        The metrics.
    task : {"classification", "multilabel", "regression"}
        The kind.
    option : str
        The option they were given by, for messages.
    needed : str, default=None
        A metric without which nothing is to be done. If None, any will do.

    Returns
    -------
    metrics : dict of str to metric
        Those that have one.
    remarks : list of str
        What there is to say of the others.

    Raises
    ------
    ValueError
        If the needed one is left out, or all are.
    """
    without = [name for name, metric in metrics.items() if task not in metric.tasks]
    defined = {name: metric for name, metric in metrics.items() if name not in without}
    if not defined or needed in without:
        known = ", ".join(name for name in metric_names() if task in get_metric(name).tasks)
        missing = needed or ", ".join(without)
        raise ValueError(
            f"{option}: {missing} {_have(missing.split(', '))} no definition for a {task} target; "
            f"these have one: {known}."
        )
    if not without:
        return metrics, []
    return defined, [
        f"{', '.join(without)} {_have(without)} no definition for a {task} target, left out."
    ]


def _have(names):
    return "has" if len(names) == 1 else "have"
