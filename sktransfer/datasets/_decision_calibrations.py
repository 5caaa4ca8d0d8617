"""Decision sets calibrated on the bundled benchmark, for each of its metrics."""

import json
from functools import lru_cache
from importlib.resources import files

from ..evaluation import DecisionCalibration

__all__ = ["load_decision_calibration"]

_FILE = files("sktransfer.datasets") / "data" / "decision_calibrations.json"


def load_decision_calibration(metric="logme"):
    """Load the rule that tells which candidates may be the best after fine-tuning, for a metric.

    Calibrated at the level of 90 % on the cells of :func:`load_tiny_benchmark` in which one
    fine-tuning foretells the others (Kendall's tau of at least 0.6 on average), by accuracy: the
    scores of a seed's training images against the mean reference of the other seeds.

    Read more in the :ref:`User Guide <recommendation>`.

    Parameters
    ----------
    metric : str, default="logme"
        A metric of the benchmark, with default parameters; or "consensus", which is the consensus
        of LogME and PACTran in nats per sample.

    Returns
    -------
    calibration : DecisionCalibration
        The rule, with its measured coverage on targets that were left out.

    Raises
    ------
    ValueError
        If there is no calibration for the metric.

    See Also
    --------
    sktransfer.evaluation.calibrate_decision_set : For references of your own.

    Examples
    --------
    >>> from sktransfer.datasets import load_decision_calibration
    >>> calibration = load_decision_calibration("logme")
    >>> calibration.n_cells, calibration.level, calibration.coverage >= calibration.level
    (55, 0.9, True)
    """
    known = _read()
    if metric not in known:
        raise ValueError(f"'metric' must be one of {sorted(known)}. Got {metric!r} instead.")
    return DecisionCalibration.from_dict(known[metric])


@lru_cache(maxsize=1)
def _read():
    return json.loads(_FILE.read_text(encoding="utf-8"))
