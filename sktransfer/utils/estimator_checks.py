"""Checks with which a metric of one's own can prove that it keeps the contract of this package.

scikit-learn's ``check_estimator`` sees how an estimator validates, stores and predicts; it can't
see a score. The checks here look at the score.
"""

import warnings
from unittest import SkipTest

from sklearn.exceptions import EstimatorCheckFailedWarning

from ._metric_checks import CHECKS

__all__ = ["check_transferability_metric"]


def check_transferability_metric(metric, *, on_fail="raise"):
    """Check that a metric keeps the contract of transferability metrics.

    The metric is fitted to small made-up problems of the kind that it says it needs: features,
    source-class probabilities (also for metrics of hard source labels, which take the largest) or,
    for a metric that looks into a network, vectors. They always have six columns, which is the
    width of whatever the metric may know of a source. Every check works on a clone;
    the metric itself is not touched. A metric without a fixed seed is given ``random_state=0``
    wherever two scores are compared.

    What is checked: the class attributes; that ``score_`` is a finite Python float within
    ``bounds``, or NaN with a warning, or a ValueError, also for degenerate data; that ``score``
    repeats it; that it depends on the partition that the labels make and on nothing else of them,
    and not on the order of the rows, precision, memory layout or what was fitted before; that the
    input, the parameters and everything global stay as they were; that one class and missing
    values are refused; that informative inputs beat shuffled labels; that copies and pickles do
    the same; that weights, batches and pools behave, where there are any.

    Parameters
    ----------
    metric : estimator
        An instance of the metric.
    on_fail : {"raise", "warn"} or None, default="raise"
        What to do when a check fails: raise its exception, warn with an
        ``EstimatorCheckFailedWarning`` of scikit-learn, or only note it in the results.

    Returns
    -------
    results : list of dict
        One for each check, in the order they ran, with the keys

        - "estimator": the metric that was given,
        - "check_name": name of the check,
        - "status": "passed", "failed", or "skipped" where there is nothing to check,
        - "exception": what the check raised, None if it passed.

    Raises
    ------
    TypeError
        If `metric` is a class.
    ValueError
        If `on_fail` is none of its values.
    Exception
        What the first check that fails raises, with ``on_fail="raise"``: an AssertionError that
        says what was expected, or the metric's own.

    Warns
    -----
    EstimatorCheckFailedWarning
        For each check that fails, with ``on_fail="warn"``.

    See Also
    --------
    sklearn.utils.estimator_checks.check_estimator : The checks that every estimator should pass.
    sktransfer.metrics.TransferabilityMetric : A base class that keeps most of the contract.

    Examples
    --------
    A metric of one's own, the share of variance between the class means:

    >>> import numpy as np
    >>> from sktransfer.metrics import TransferabilityMetric
    >>> from sktransfer.utils.estimator_checks import check_transferability_metric
    >>> class BetweenShare(TransferabilityMetric):
    ...     bounds = (0.0, 1.0)
    ...
    ...     def _fit(self, X, target, sample_weight):
    ...         centred = X - X.mean(axis=0)
    ...         total = np.square(centred).sum()
    ...         means = [centred[target.codes == k].mean(axis=0) for k in np.unique(target.codes)]
    ...         between = np.square(np.array(means)[target.codes]).sum()
    ...         self.score_ = float(between / total) if total > 0 else 0.0
    >>> results = check_transferability_metric(BetweenShare())
    >>> {result["status"] for result in results} == {"passed", "skipped"}
    True

    The same with the sign forgotten:

    >>> class Within(BetweenShare):
    ...     bounds = (-1.0, 0.0)
    ...
    ...     def _fit(self, X, target, sample_weight):
    ...         super()._fit(X, target, sample_weight)
    ...         self.score_ = -self.score_
    >>> results = check_transferability_metric(Within(), on_fail=None)
    >>> [result["check_name"] for result in results if result["status"] == "failed"]
    ['check_informative_input_beats_shuffled_labels']
    """
    if isinstance(metric, type):
        raise TypeError(
            f"metric must be an instance; got the class {metric.__name__}, "
            f"write {metric.__name__}()."
        )
    if on_fail not in ("raise", "warn", None):
        raise ValueError(f"on_fail must be 'raise', 'warn' or None; got {on_fail!r}.")
    results = []
    for check in CHECKS:
        result = {
            "estimator": metric,
            "check_name": check.__name__,
            "status": "passed",
            "exception": None,
        }
        try:
            check(metric)
        except SkipTest as reason:
            result |= {"status": "skipped", "exception": reason}
        except Exception as error:
            if on_fail == "raise":
                raise
            result |= {"status": "failed", "exception": error}
            if on_fail == "warn":
                failure = EstimatorCheckFailedWarning(
                    **result, expected_to_fail=False, expected_to_fail_reason=""
                )
                warnings.warn(failure, stacklevel=2)
        results.append(result)
    return results
