"""What a study will do on each target, made and checked before any of it is done."""

from dataclasses import dataclass

from ._cli_data import check_runs, load_target
from ._cli_metrics import defined_for
from ._cli_study_inputs import without_own_source

__all__ = ["TargetPlan", "plan_targets"]


@dataclass
class TargetPlan:
    """What is to be done on one target.

    Attributes
    ----------
    path : str
        Where the target is.
    medmnist_name : str or None
        Which data set of MedMNIST it is.
    metrics : dict of str to metric
        Those that have a definition for it.
    sources : dict of str to (str or None)
        Names of the candidates, with the data sets of MedMNIST that they were trained on.
    excluded : list of str
        Names of the candidates that are left out.
    subsets : NestedStratifiedSubsets
        Its subsets.
    n_samples : int
        Number of its samples.
    remarks : list of str
        What there is to say of it.
    loaded : CommandTarget or None
        The target, if it was kept in memory.
    """

    path: str
    medmnist_name: str | None
    metrics: dict
    sources: dict
    excluded: list
    subsets: object
    n_samples: int
    remarks: list
    loaded: object = None

    @property
    def work(self):
        """Size of the work, to compare targets by."""
        return float(self.n_samples * len(self.metrics) * len(self.sources))


def plan_targets(targets, metrics, find, split, on_error):
    """Look at every target before work starts.

    Parameters
    ----------
    targets : dict of str to str
        Paths by name.
    metrics : dict of str to metric
        The metrics.
    find : callable
        Finds the candidates for images, or for other data: ``find(for_images=...)``.
    split : callable
        Makes the splitter of a target.
    on_error : {"raise", "skip"}
        What to do about image files that can't be read.

    Returns
    -------
    pairs : list of (str, transformer)
        All candidates.
    plans : dict of str to TargetPlan
        By target. The first target is kept in memory.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        If something can't be used.
    """
    found, plans = None, {}
    # The first one last, because it stays in memory.
    for name, path in reversed(targets.items()):
        target = load_target(path, on_error)
        if found is None:
            found = find(for_images=target.are_images)
        defined, left_out = defined_for(metrics, target.task, option="--metrics")
        pairs, own = without_own_source(found, target.medmnist_name)
        target.check(has_store=on_error == "raise")
        check_runs(pairs, target.X)
        included = dict(pairs)
        plans[name] = TargetPlan(
            path=path,
            medmnist_name=target.medmnist_name,
            metrics=defined,
            sources={item.name: item.source for item in found if item.name in included},
            excluded=[item.name for item in found if item.name not in included],
            subsets=split(target),
            n_samples=len(target.y),
            remarks=target.remarks + left_out + own,
            loaded=target if name == next(iter(targets)) else None,
        )
    return [(item.name, item.candidate) for item in found], {name: plans[name] for name in targets}
