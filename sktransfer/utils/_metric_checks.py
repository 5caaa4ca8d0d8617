"""The checks behind ``check_transferability_metric``, one function for one promise.

Each takes the metric, works on clones of it, and raises what is wrong; ``SkipTest`` says that the
promise does not apply. Nothing is asked of a metric but its documented interface, so that no base
class of this package is needed to pass.
"""

import pickle
import sys
import tempfile
import warnings
from copy import deepcopy
from numbers import Real
from pathlib import Path
from unittest import SkipTest

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ._global_state import global_state, unusual_global_state
from ._metric_problems import (
    SHAPES,
    TASKS,
    as_input,
    fit,
    is_number,
    labelled,
    labels_only,
    make_data,
    same,
    score,
    seeded,
    takes_weights,
    task_of,
)

NEEDS = ("features", "probabilities", "labels", "inputs")


# -------------------------------------------------------------------------------- what it is


def check_class_attributes(metric):
    """``needs``, ``bounds``, ``tasks`` and ``relative_to_pool`` say what the metric is."""
    for name in ("needs", "bounds", "tasks", "relative_to_pool", "pool_scores"):
        if not hasattr(type(metric), name):
            raise AssertionError(f"{type(metric).__name__} has no class attribute '{name}'.")
    if metric.needs not in NEEDS:
        raise AssertionError(f"needs must be one of {', '.join(NEEDS)}; got {metric.needs!r}.")
    low_high = tuple(metric.bounds)
    if len(low_high) != 2 or not all(isinstance(bound, Real) for bound in low_high):
        raise AssertionError(f"bounds must be two numbers; got {metric.bounds!r}.")
    if not low_high[0] < low_high[1]:
        raise AssertionError(f"bounds must be a smaller and a larger number; got {low_high}.")
    tasks = metric.tasks
    if isinstance(tasks, str) or not tasks or not set(tasks) <= set(TASKS):
        raise AssertionError(
            f"tasks must be a tuple of some of {', '.join(sorted(TASKS))}; got {tasks!r}."
        )
    if not isinstance(metric.relative_to_pool, bool):
        raise AssertionError(f"relative_to_pool must be a bool; got {metric.relative_to_pool!r}.")


def check_score_is_a_finite_float_within_bounds(metric):
    """Ordinary data have a score, which is a finite Python float."""
    for n_samples, n_classes, seed in [(60, 3, 0), (40, 2, 1), (90, 5, 2)]:
        X, y = make_data(metric, n_samples, n_classes=n_classes, seed=seed)
        is_number(score(metric, X, y), metric, f"for {n_samples} samples of {n_classes} classes")


def check_degenerate_data_have_a_score_or_a_reason(metric):
    """Nothing but a finite score, NaN with a warning, or a ValueError."""
    rng = np.random.default_rng(0)
    thirds = np.arange(30) % 3
    problems = {
        "constant features": (np.full((30, 6), 0.1), thirds),
        "features that are zero": (np.zeros((30, 6)), thirds),
        "constant and repeated columns": (
            np.c_[np.ones(30), np.repeat(rng.normal(size=(30, 1)), 5, axis=1)],
            thirds,
        ),
        "repeated rows": (np.tile(rng.normal(size=(5, 6)), (6, 1)), thirds),
        "fewer samples than columns": (rng.normal(size=(5, 6)), np.arange(5) % 3),
        "one column": (rng.normal(size=(30, 1)), thirds),
        "two samples": (rng.normal(size=(2, 6)), np.arange(2)),
        "a class for every sample": (rng.normal(size=(10, 6)), np.arange(10)),
        "a class of one sample": (rng.normal(size=(30, 6)), np.r_[0, np.ones(29, dtype=int)]),
        "large features": (1e150 * rng.normal(size=(30, 6)), thirds),
        "small features": (1e-150 * rng.normal(size=(30, 6)), thirds),
    }
    if getattr(metric, "needs", "features") == "inputs":
        # The network decides what it makes of such numbers.
        del problems["large features"]
    task = task_of(metric)
    for name, (F, y) in problems.items():
        if task == "regression":
            y = y + 0.5
        elif task == "multilabel":
            y = np.c_[y == 0, y == 1].astype(int)
        fitted = seeded(metric)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fitted.fit(as_input(metric, F), y)
                value = fitted.score_
            except np.linalg.LinAlgError:
                raise  # a ValueError, but none that tells the user what is wrong
            except ValueError as error:
                if len(str(error)) < 10:
                    raise AssertionError(
                        f"A ValueError must say why; got {str(error)!r} for {name}."
                    ) from error
                continue
        for warning in caught:
            if issubclass(warning.category, RuntimeWarning):
                raise AssertionError(
                    f"No numerical warning may reach the user; got {warning.message} for {name}."
                )
        if type(value) is float and np.isnan(value):
            if not caught:
                raise AssertionError(f"NaN needs a warning that says why; got none for {name}.")
        else:
            is_number(value, metric, f"for {name}")


# ---------------------------------------------------------------------------- the same again


def check_score_repeats_the_score_of_fit(metric):
    """``fit(X, y).score(X, y) == score_``, also with a seed that was drawn."""
    X, y = make_data(metric)
    drawn = clone(metric)
    variants = [drawn]
    if "random_state" in drawn.get_params(deep=False):
        variants.append(clone(metric).set_params(random_state=None))
    for fitted in variants:
        expected = fit(fitted, X, y).score_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fitted.score(X, y)
        if found != expected:
            raise AssertionError(
                f"score(X, y) must repeat score_ on the data of fit; got {found} and {expected}."
            )
        if fitted.score_ != expected:
            raise AssertionError("score must not change score_.")


def check_score_uses_nothing_that_was_fitted(metric):
    """Neither ``score`` nor a second ``fit`` remembers the first."""
    X, y = make_data(metric)
    other_X, other_y = make_data(metric, 45, n_classes=2, seed=1)
    fitted = fit(seeded(metric), X, y)
    expected = score(metric, other_X, other_y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fitted.score(other_X, other_y)
    same(found, expected, "what was fitted before", 1e-10)
    same(fit(fitted, other_X, other_y).score_, expected, "what was fitted before", 1e-10)


def check_score_before_fit_is_refused(metric):
    """Refuse to score before fit, with NotFittedError."""
    try:
        clone(metric).score(*make_data(metric))
    except NotFittedError:
        return
    except Exception as error:
        raise AssertionError(
            f"score before fit must raise NotFittedError; got {error!r}"
        ) from error
    raise AssertionError("score before fit must raise NotFittedError.")


def check_clones_and_pickles_do_the_same(metric):
    """Parameters stay as given, and copies give the same score."""
    X, y = make_data(metric)
    fitted = seeded(metric)
    before = repr(fitted.get_params())
    expected = fit(fitted, X, y).score_
    if repr(fitted.get_params()) != before:
        raise AssertionError("fit must not change the parameters.")
    same(fit(clone(fitted), X, y).score_, expected, "whether the metric was cloned", 0)
    # A class that no module holds (of a function, of a doctest) can't be pickled, only copied.
    home = sys.modules.get(type(metric).__module__)
    in_a_module = getattr(home, type(metric).__qualname__, None) is type(metric)
    restored = pickle.loads(pickle.dumps(fitted)) if in_a_module else deepcopy(fitted)
    same(restored.score_, expected, "whether the metric was pickled", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(restored.score(X, y), expected, "whether the metric was pickled", 0)


# ------------------------------------------------------------------------------- the target


def check_only_the_partition_matters(metric):
    """Other names of the classes, in any order, give the same score."""
    labels_only(metric)
    X, y = make_data(metric)
    expected = score(metric, X, y)
    for what, names in {
        "the order of the labels": [2, 0, 1],
        "gaps between the labels": [3, 1000, 77],
        "the sign of the labels": [-1, -5, 0],
        "whether labels are strings": ["pear", "apple", "fig"],
        "whether labels are floats": [2.0, -3.0, 0.0],
    }.items():
        same(score(metric, X, np.array(names)[y]), expected, what)
    same(score(metric, X, np.array(["b", "a", "c"], dtype=object)[y]), expected, "the dtype of y")
    same(score(metric, X, y.tolist()), expected, "whether y is a list")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        column = clone(seeded(metric)).fit(X, y[:, None]).score_
    same(column, expected, "whether y is a column")


def check_a_class_absent_from_a_subset_leaves_no_trace(metric):
    """Take a subset without one of the classes for a problem with one class less."""
    labels_only(metric)
    X, y = make_data(metric, n_classes=4)
    kept = y != 1
    expected = score(metric, X[kept], np.searchsorted([0, 2, 3], y[kept]))
    same(score(metric, X[kept], y[kept]), expected, "classes that have no sample")


def check_one_class_is_refused(metric):
    """One class is a ValueError that says so."""
    labels_only(metric)
    labelled(metric)
    X, y = make_data(metric)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(metric).fit(X, np.zeros_like(y))
    except ValueError as error:
        if "class" not in str(error):
            raise AssertionError(
                f"The ValueError for one class must name the classes; got {error}"
            ) from error
        return
    raise AssertionError("A target of one class must be refused with a ValueError.")


def check_informative_input_beats_shuffled_labels(metric):
    """Higher is better: the input's own labels score more than shuffled ones."""
    labelled(metric)
    if metric.needs == "inputs":
        raise SkipTest("what a network makes of its input can't be made up")
    X, y = make_data(metric, 90)
    rng = np.random.default_rng(0)
    shuffled = [score(metric, X, y[rng.permutation(len(y))]) for _ in range(7)]
    informative = score(metric, X, y)
    if not informative > max(shuffled):
        raise AssertionError(
            "An input that tells something of the labels must score higher than the same with "
            f"shuffled labels; got {informative} and {max(shuffled)}."
        )


# -------------------------------------------------------------------------------- the input


def check_order_of_the_samples_does_not_matter(metric):
    """Rows in another order give the same score, whatever seeded step sees them."""
    for shape in SHAPES:
        X, y = make_data(metric, *shape)
        expected = score(metric, X, y)
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(y))
            same(score(metric, X[order], y[order]), expected, "the order of the samples")


def check_precision_and_layout_do_not_matter(metric):
    """Single precision costs no more than its digits; the order in memory nothing."""
    for shape in SHAPES:
        X, y = make_data(metric, *shape)
        expected = score(metric, X, y)
        single = score(metric, X.astype(np.float32), y)
        same(single, expected, "single or double precision", 1e-3)
        same(score(metric, np.asfortranarray(X), y), expected, "C or Fortran order")
        wide = np.repeat(X, 2, axis=1)[:, ::2]
        same(score(metric, wide, y), expected, "gaps between the columns in memory")


def check_read_only_and_memory_mapped_input(metric):
    """Arrays that can't be written to are as good as others."""
    X, y = make_data(metric)
    expected = score(metric, X, y)
    X.flags.writeable = y.flags.writeable = False
    same(score(metric, X, y), expected, "whether the input is read-only")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        mapped = []
        for name, array in (("X", X), ("y", y)):
            path = Path(folder) / f"{name}.npy"
            np.save(path, array)
            mapped.append(np.load(path, mmap_mode="r"))
        same(score(metric, *mapped), expected, "whether the input is memory-mapped")


def check_input_is_never_changed(metric):
    """Every byte of what is given to ``fit`` and ``score`` stays as it was."""
    for dtype in (np.float32, np.float64):
        for order in "CF":
            X, y = make_data(metric)
            X = np.array(X, dtype=dtype, order=order)
            weight = np.linspace(0.5, 2, len(y)) if takes_weights(metric) else None
            given = [array for array in (X, y, weight) if array is not None]
            before = [array.tobytes() for array in given]
            fitted = fit(seeded(metric), X, y, weight)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted.score(X, y)
            if [array.tobytes() for array in given] != before:
                raise AssertionError(
                    f"The input must not be changed; fit or score did so with {dtype.__name__} "
                    f"in {order} order."
                )


def check_missing_and_infinite_values_are_refused(metric):
    """NaN and infinities in the input are a ValueError."""
    X, y = make_data(metric)
    for value in (np.nan, np.inf):
        wrong = X.copy()
        wrong[3, 2] = value
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clone(metric).fit(wrong, y)
        except ValueError:
            continue
        raise AssertionError(f"{value} in X must be refused with a ValueError.")


# ------------------------------------------------------------------------------ the process


def check_nothing_global_is_touched(metric):
    """Leave generators, warning filters, error state and threads as they were."""
    X, y = make_data(metric)
    variants = [seeded(metric)]
    if "random_state" in metric.get_params(deep=False):
        variants.append(clone(metric).set_params(random_state=None))
    with unusual_global_state():
        # Libraries that are loaded in the first fit bring their thread pools.
        fit(clone(variants[0]), X, y)
    for fresh in variants:
        with unusual_global_state():
            before = global_state()
            fresh.fit(X, y)
            fresh.score_  # noqa: B018
            after = global_state()
        for what, value in after.items():
            if value != before.get(what, value):
                raise AssertionError(f"fit must not change {what}.")


# ------------------------------------------------------------------- weights, batches, pools


def check_weights_are_relative(metric):
    """Only the ratios of the weights matter, and a weight of zero is absence."""
    if not takes_weights(metric):
        raise SkipTest("fit takes no sample_weight")
    X, y = make_data(metric)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(y))
    expected = score(metric, X, y, weight)
    for factor in (1e-3, 3.7, 1e6):
        same(score(metric, X, y, factor * weight), expected, "the sum of the weights")
    plain = score(metric, X, y)
    same(score(metric, X, y, np.full(len(y), 2.0)), plain, "weights that are all equal")
    if expected == plain:
        # A score that is perfect is so with any weights: not on labels of which some are wrong.
        wrong = np.where(np.arange(len(y)) % 3, y, y[::-1])
        if score(metric, X, wrong, weight) == score(metric, X, wrong):
            raise AssertionError(f"The weights must matter; got {plain} with and without.")
    order = np.random.default_rng(1).permutation(len(y))
    same(score(metric, X[order], y[order], weight[order]), expected, "the order of the samples")
    weight[::4] = 0.0
    kept = weight > 0
    absent = score(metric, X[kept], y[kept], weight[kept])
    same(score(metric, X, y, weight), absent, "samples of weight zero")


def check_batches_give_the_score_of_the_whole(metric):
    """``partial_fit`` over any cut of the data equals ``fit``."""
    if not hasattr(metric, "partial_fit"):
        raise SkipTest("the metric has no partial_fit")
    for shape in SHAPES:
        X, y = make_data(metric, *shape)
        expected = score(metric, X, y)
        for n_batches in (1, 2, 5):
            streamed = seeded(metric)
            order = np.random.default_rng(n_batches).permutation(len(y))
            for rows in np.array_split(order, n_batches):
                fit(streamed, X[rows], y[rows], method="partial_fit")
            same(streamed.score_, expected, "the batches that partial_fit gets", 1e-8)
        fit(streamed, X, y)
        same(streamed.score_, expected, "the batches before fit", 1e-8)


def check_pools_leave_failed_candidates_out(metric):
    """``pool_scores`` gives NaN for a candidate that failed, and the others what they deserve."""
    fitted = [fit(seeded(metric), *make_data(metric, seed=seed)) for seed in (0, 1, 2)]
    pool = type(metric).pool_scores
    alone = np.asarray(pool(fitted), dtype=np.float64)
    if alone.shape != (3,) or not np.isfinite(alone).all():
        raise AssertionError(f"pool_scores must return a score per candidate; got {alone}.")
    with_failure = np.asarray(pool([fitted[0], None, *fitted[1:]]), dtype=np.float64)
    if with_failure.shape != (4,) or not np.isnan(with_failure[1]):
        raise AssertionError(f"A failed candidate (None) must be NaN; got {with_failure}.")
    for found, expected in zip(np.delete(with_failure, 1), alone, strict=True):
        same(found, expected, "candidates that failed")
    for found, expected in zip(pool(fitted[::-1]), alone[::-1], strict=True):
        same(found, expected, "the order of the candidates")
    if not metric.relative_to_pool:
        for found, one in zip(alone, fitted, strict=True):
            same(found, one.score_, "the pool, with relative_to_pool = False")
    if not np.isnan(np.asarray(pool([None, None]), dtype=np.float64)).all():
        raise AssertionError("A pool of failed candidates must be all NaN.")


CHECKS = (
    check_class_attributes,
    check_score_is_a_finite_float_within_bounds,
    check_degenerate_data_have_a_score_or_a_reason,
    check_score_repeats_the_score_of_fit,
    check_score_uses_nothing_that_was_fitted,
    check_score_before_fit_is_refused,
    check_clones_and_pickles_do_the_same,
    check_only_the_partition_matters,
    check_a_class_absent_from_a_subset_leaves_no_trace,
    check_one_class_is_refused,
    check_informative_input_beats_shuffled_labels,
    check_order_of_the_samples_does_not_matter,
    check_precision_and_layout_do_not_matter,
    check_read_only_and_memory_mapped_input,
    check_input_is_never_changed,
    check_missing_and_infinite_values_are_refused,
    check_nothing_global_is_touched,
    check_weights_are_relative,
    check_batches_give_the_score_of_the_whole,
    check_pools_leave_failed_candidates_out,
)
