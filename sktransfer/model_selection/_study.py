"""How far a ranking by a transferability metric depends on the sample it was computed on."""

import os
from contextlib import contextmanager
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator

from ..backbones._store import FeatureStore
from ..evaluation._coefficients import METHODS
from ..evaluation._correlation import check_option
from ..utils._sklearn import N_JOBS, HasMethods, Interval, StrOptions
from ._composition import NamedCandidates
from ._metric_collection import named_metrics, validated_metrics
from ._study_checks import candidates_on_target, check_run_options, check_target_arguments
from ._study_inputs import (
    library_versions,
    metric_records,
    refuse_other_inputs,
    spec_identity,
)
from ._study_reference import check_reference, references_by_target
from ._study_run import StudyRun, known_identities
from ._study_shown import combine_pools, shown_tables
from ._study_store import StudyStore
from ._study_target import read_subsets, target_inputs
from ._subsets import NestedStratifiedSubsets
from ._validation import open_memory

__all__ = ["RobustnessStudy"]

_KINDS = ("intra", "ref", "inter")
_NAN_POLICIES = ("propagate", "omit")


class RobustnessStudy(NamedCandidates, BaseEstimator):
    """Score candidates on many subsets of a target, to see how stable their rankings are.

    A transferability metric gives one number for each candidate on the sample that you have. The
    study draws *miniature populations*, nested stratified subsets of the target, scores every
    candidate on each of them by every metric, and tells how far the rankings agree: with each
    other, with that on all samples, between metrics, and with a reference [1]_.

    A pretrained candidate is run once over a target; subsets are rows of its features. Results are
    written to a store as they come. A run that was killed goes on where it was, with the same
    final result, and so does a study that is given more metrics, candidates, fractions, repeats
    or targets.

    Read more in the :ref:`User Guide <robustness>`.

    Parameters
    ----------
    candidates : list of (str, transformer) tuples
        The candidates with their names, as for :class:`TransferabilitySelector`. Those that learn
        from data are fitted on each subset.
    metrics : str, metric, list of these, or dict of str to these
        The metrics, by name or as instances. A dict gives them names of your own.
    subsets : splitter, default=None
        Where subsets come from: an object whose ``split(X, y, groups)`` yields row numbers, a
        fraction and the number of a repeat. :class:`NestedStratifiedSubsets` with its defaults if
        None.
    reference : mapping, default=None
        For :meth:`agreement`, such as test performance after fine-tuning: by target, a number for
        each candidate. For a single target also these numbers themselves.
    memory : str, path, FeatureStore or object with the interface of `joblib.Memory`, default=None
        Where features are kept, as for :class:`TransferabilitySelector`. Without it a run that
        continues extracts those features again of which cells are missing.
    store : str or path, default=None
        One SQLite file, which is made if it isn't there. None keeps results in this object.
    include_full : bool, default=True
        Whether the whole target is scored too, as fraction 1.0 and repeat 0.
    n_jobs : int, default=None
        Number of processes that score, one candidate on one subset at a time, with one thread
        each. Candidates are run in this process. The results don't depend on it, nor on joblib's
        backend ("loky", "threading", "dask"). Each process holds the rows of one subset, this one
        the features of one candidate, or of several if one is too little work for all processes.
    error_score : "raise" or numpy.nan, default=numpy.nan
        With NaN a cell that fails is recorded with the reason, and a
        :class:`~sktransfer.exceptions.CandidateFailedWarning` counts them at the end. "raise" lets
        the first error through and records nothing of it.
    random_state : int, default=0
        Where metrics and candidates with ``random_state=None`` get their seeds from, together with
        target, metric or candidate, fraction and repeat. All candidates have the same seed for a
        metric on a subset.
    verbose : int, default=0
        1 prints a line every ten seconds to standard error, with an estimate of the time that is
        left; 2 one for each candidate and subset.

    Attributes
    ----------
    n_computed_ : int
        Number of cells that the last run computed.
    runs_ : dict of str to (list of (float, int), list of str)
        For each target that this object has run, fraction and repeat of its subsets, and the names
        of the candidates.

    See Also
    --------
    NestedStratifiedSubsets : The subsets.
    TransferabilitySelector : Ranks candidates once, and is the best of them.
    sktransfer.evaluation.stability_intra : The mean correlation of repeats.

    Notes
    -----
    *What is shown.* The frames have the candidates and metrics of this study, even if the store
    has more, and of a target that this object has run, the subsets and candidates of that run.
    :meth:`open` shows all. Rows are in the order of the names. Where a metric is relative to a
    pool (NCTI, ETran, LPFU), the pool is those of the candidates shown that were run on the
    target; a cell is there when all of them are.

    *What is the same.* The store keeps a digest of the data, labels, groups and subsets of each
    target, of each metric with its parameters, of weights and code of each candidate and its
    features, and the versions of numerical libraries. If something of the same name is not the
    same, :meth:`run` refuses, names it, and leaves the store as it was.

    *Who writes.* Only this process does, one transaction for each candidate and subset. Other
    processes may read at the same time; studies of other targets may write.

    References
    ----------
    .. [1] Robustness of transferability estimation metrics for medical imaging, section 3.3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import PCA
    >>> from sktransfer.model_selection import NestedStratifiedSubsets, RobustnessStudy
    >>> X, y = load_digits(return_X_y=True)
    >>> candidates = [(f"pca{n}", PCA(n)) for n in (2, 4, 8)]
    >>> subsets = NestedStratifiedSubsets(fractions=(0.1, 0.5), n_repeats=3)
    >>> study = RobustnessStudy(candidates, ["logme", "hscore"], subsets).run(X, y)
    >>> study.to_frame().shape
    (42, 10)
    >>> study.stability("intra")[["metric", "fraction", "value", "n_repeats"]]
       metric  fraction  value  n_repeats
    0  hscore       0.1    1.0          3
    1  hscore       0.5    1.0          3
    2   logme       0.1    1.0          3
    3   logme       0.5    1.0          3
    """

    _metric_parameter = "metrics"

    _parameter_constraints: dict = {
        "candidates": [list],
        "metrics": [str, HasMethods(["fit"]), list, tuple, dict],
        "subsets": [HasMethods(["split"]), None],
        "reference": "no_validation",
        "memory": [str, os.PathLike, FeatureStore, HasMethods(["cache"]), None],
        "store": [str, os.PathLike, None],
        "include_full": ["boolean"],
        "n_jobs": N_JOBS,
        "error_score": [StrOptions({"raise"}), "nan"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        candidates,
        metrics,
        subsets=None,
        *,
        reference=None,
        memory=None,
        store=None,
        include_full=True,
        n_jobs=None,
        error_score=np.nan,
        random_state=0,
        verbose=0,
    ):
        self.candidates = candidates
        self.metrics = metrics
        self.subsets = subsets
        self.reference = reference
        self.memory = memory
        self.store = store
        self.include_full = include_full
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def open(cls, store, *, reference=None):
        """Open the store of a study to look at its results, finished or not.

        Parameters
        ----------
        store : str or path
            The file.
        reference : mapping, default=None
            As for the class.

        Returns
        -------
        study : RobustnessStudy
            A study without candidates and metrics of its own: its frames have all that is in the
            store. It cannot be run.

        Raises
        ------
        ValueError
            If there is no such file, or it is no store of a study.
        """
        StudyStore.existing(store).close()
        return cls([], [], store=store, reference=reference)

    def __getstate__(self):
        state = super().__getstate__().copy()
        results = state.pop("_results", None)
        if results is not None:
            state["_results_image"] = results.image()
        return state

    def __setstate__(self, state):
        image = state.pop("_results_image", None)
        super().__setstate__(state)
        if image is not None:
            self._results = StudyStore.in_memory(image)

    # -- work -----------------------------------------------------------------------------------

    def run(self, X, y, *, target="target", groups=None, exclude=(), retry_failed=False):
        """Score all candidates by all metrics on all subsets of one target.

        Cells that are in the store already are not computed again. For several targets, call it
        once for each.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The target data, in whatever form the candidates take them.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their labels or values.
        target : str, default="target"
            A name for them.
        groups : array-like of shape (n_samples,), default=None
            Groups of samples, such as patients, for the splitter.
        exclude : sequence of str, default=()
            Names of candidates that are left out on this target, such as one that was pretrained
            on it.
        retry_failed : bool, default=False
            Whether cells that failed before are computed again.

        Returns
        -------
        self : RobustnessStudy
            The study, for its frames.

        Raises
        ------
        ValueError
            Before work starts, if a parameter is wrong, or if something of the same name is not
            what it was when the store was written: all differences are named.

        Warns
        -----
        CandidateFailedWarning
            If cells failed, now or before.
        """
        given = self._checked(X, y, target, groups, exclude, retry_failed)
        candidates, metrics, y, subsets, described, memory = given
        seed = int(self.random_state)
        records = metric_records(metrics, seed)
        specs = {name: spec_identity(name, c, seed) for name, c in candidates.items()}
        with self._opened(to_write=True) as store:
            found = known_identities(specs, candidates, store.candidates(), target, X, y)
            refuse_other_inputs(store, self._called, described, subsets, records, found)
            store.register(
                library_versions(),
                described.record,
                [s.record for s in subsets],
                records,
                candidates,
            )
            run = StudyRun(
                store=store,
                called=self._called,
                target=described,
                X=X,
                y=y,
                subsets=subsets,
                candidates=candidates,
                metrics=metrics,
                identities=specs,
                memory=memory,
                n_jobs=self.n_jobs,
                random_state=seed,
                raise_errors=self.error_score == "raise",
                retry_failed=retry_failed,
                verbose=self.verbose,
            )
            run.run()
            combine_pools(store, target, metrics)
        self.n_computed_ = run.n_computed
        ran = [subset.key for subset in subsets], list(candidates)
        self.runs_ = {**getattr(self, "runs_", {}), target: ran}
        run.announce(self._tables().rows)
        return self

    def _checked(self, X, y, target, groups, exclude, retry_failed):
        """Check everything that can be checked before work starts."""
        self._validate_params()
        active, names = dict(self._validate_candidates()), [name for name, _ in self.candidates]
        candidates = candidates_on_target(active, names, exclude, target)
        check_run_options(retry_failed)
        metrics = validated_metrics(self.metrics)
        y = check_target_arguments(X, y, target, groups)
        check_reference(self.reference, target, list(candidates))
        splitter = NestedStratifiedSubsets() if self.subsets is None else self.subsets
        subsets = read_subsets(splitter, X, y, groups, self.include_full)
        described = target_inputs(target, X, y, groups, splitter)
        return candidates, metrics, y, subsets, described, open_memory(self.memory)

    @property
    def _called(self):
        return "This study" if self.store is None else f"The store {os.fspath(self.store)!r}"

    @contextmanager
    def _opened(self, to_write=False):
        """Open the store; one in memory stays with this object."""
        if self.store is not None:
            opened = StudyStore.create if to_write else StudyStore.existing
            with opened(self.store) as store:
                yield store
            return
        if not hasattr(self, "_results"):
            if not to_write:
                raise ValueError("This study has no results yet: call 'run', or give a 'store'.")
            self._results = StudyStore.in_memory()
        yield self._results

    # -- results --------------------------------------------------------------------------------

    def to_frame(self):
        """Give all scores.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_cells, 10)
            Columns ``target``, ``metric``, ``candidate``, ``fraction``, ``repeat``, ``n_samples``,
            ``score`` (NaN if there is none), ``status`` ("done" or "failed"), ``reason`` (empty if
            there is a score) and ``seconds``, sorted by the first five. What metrics share counts
            for the first of them. The whole target is fraction 1.0, repeat 0.
        """
        return self._tables().cells()

    def rankings(self):
        """Give the ranking of the candidates by each metric on each subset.

        Returns
        -------
        frame : pandas.DataFrame
            Columns ``target``, ``metric``, ``fraction``, ``repeat`` and one for each candidate:
            its competition rank, 1 for the best, as float; NaN without a score.
        """
        return self._tables().rankings()

    def stability(
        self, kind="intra", coefficient="kendall", *, reference=None, nan_policy="propagate"
    ):
        """Tell how well rankings agree, for each target, metric and fraction.

        Parameters
        ----------
        kind : {"intra", "ref", "inter"}, default="intra"
            "intra": the repeats with each other. "ref": the repeats with the ranking by the same
            metric on the whole target, or with `reference`. "inter": two metrics on the same
            repeats.
        coefficient : {"kendall", "weighted_kendall", "spearman", "pearson"}, default="kendall"
            See :func:`~sktransfer.evaluation.rank_correlation`.
        reference : mapping, default=None
            For "ref": as the parameter of the class.
        nan_policy : {"propagate", "omit"}, default="propagate"
            What undefined correlations do, as in :func:`~sktransfer.evaluation.stability_intra`.

        Returns
        -------
        frame : pandas.DataFrame
            Columns ``target``, ``metric`` (``metric_a`` and ``metric_b`` for "inter"),
            ``fraction``, ``value`` (a mean of correlations, NaN if it is undefined),
            ``n_repeats``, ``n_undefined`` (the number of undefined correlations) and ``reason``
            (empty if the value is defined).
        """
        check_option("kind", kind, _KINDS)
        check_option("coefficient", coefficient, METHODS)
        check_option("nan_policy", nan_policy, _NAN_POLICIES)
        if reference is not None and kind != "ref":
            raise ValueError(f"'reference' is for kind='ref'. Got kind={kind!r}.")
        tables = self._tables()
        if reference is not None:
            reference = references_by_target(reference, tables.targets)
        return tables.stability(kind, coefficient, nan_policy, reference)

    def agreement(self, reference=None, coefficient="weighted_kendall", *, nan_policy="propagate"):
        """Tell how well each ranking agrees with a reference.

        Parameters
        ----------
        reference : mapping, default=None
            By target, a number for each candidate, higher is better; for a single target also
            these numbers themselves. The parameter of the class if None.
        coefficient : {"kendall", "weighted_kendall", "spearman", "pearson"}, \
                default="weighted_kendall"
            See :func:`~sktransfer.evaluation.rank_correlation`.
        nan_policy : {"propagate", "omit"}, default="propagate"
            Whether a candidate without a score makes the correlation undefined or is left out.

        Returns
        -------
        frame : pandas.DataFrame
            Columns ``target``, ``metric``, ``fraction``, ``repeat``, ``value`` (NaN if it is
            undefined) and ``reason`` (empty if the value is defined).
        """
        check_option("coefficient", coefficient, METHODS)
        check_option("nan_policy", nan_policy, _NAN_POLICIES)
        tables = self._tables()
        reference = self.reference if reference is None else reference
        references = references_by_target(reference, tables.targets)
        return tables.agreement(references, coefficient, nan_policy)

    def _tables(self):
        """Read what this study shows of the store."""
        metrics = named_metrics(self.metrics) if self.metrics else {}
        with self._opened() as store:
            kept = store.metrics()
            for name, digest, *_ in metric_records(metrics, int(self.random_state)):
                if name in kept and kept[name][0] != digest:
                    raise ValueError(
                        f"{self._called} has results of another metric {name!r}, with other "
                        "parameters. Give it another name, or take another store."
                    )
            names = {name for name, _ in self.candidates}
            return shown_tables(store, names, metrics, getattr(self, "runs_", {}))
