"""An estimator composed of named candidates and metrics: parameters, checks, tags, routing."""

from collections.abc import Mapping
from contextlib import suppress

from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from ..utils._sklearn import (
    InvalidParameterError,
    _BaseComposition,
    _raise_for_params,
    _routing_enabled,
)
from ._extraction import Extractor, as_candidate
from ._metric_collection import (
    get_collection_params,
    named_metrics,
    needs_probabilities,
    set_collection_params,
)
from ._validation import check_target, check_weights, open_memory, training_rows

__all__ = ["CandidateComposition", "NamedCandidates", "candidates_have"]


def candidates_have(attribute):
    """Make a method available if the best candidate has it, or before fit all of them."""

    def check(self):
        if hasattr(self, self._best_candidate):
            return hasattr(getattr(self, self._best_candidate), attribute)
        with suppress(TypeError, ValueError):  # wrong candidates are reported by fit
            return all(
                hasattr(as_candidate(candidate), attribute)
                for _, candidate in self.candidates
                if candidate != "drop"
            )
        return False

    return check


class NamedCandidates(_BaseComposition):
    """Base of everything with the parameter ``candidates`` and one for metrics.

    Attributes
    ----------
    _metric_parameter : str
        What the parameter for metrics is called.
    _best_candidate : str
        Name of the fitted attribute that has the best candidate.
    """

    _metric_parameter = "metric"
    _best_candidate = "best_estimator_"

    def get_params(self, deep=True):
        """Get the parameters, and with `deep` those of candidates and metrics.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the candidates by name, their parameters as ``<name>__<parameter>``,
            and those of the metric as ``metric__<parameter>``, of several metrics as
            ``metric__<name>__<parameter>``; where the parameter is called ``metrics``,
            ``metrics__<name>__<parameter>``.

        Returns
        -------
        params : dict of str to object
            Names and values.
        """
        params = self._get_params("candidates", deep=deep)
        if deep:
            name = self._metric_parameter
            nested = get_collection_params(getattr(self, name))
            params.update((f"{name}__{key}", value) for key, value in nested.items())
        return params

    def set_params(self, **params):
        """Set parameters of the estimator itself, of candidates and of metrics.

        Parameters
        ----------
        **params : dict
            For example ``n_jobs=2``, ``resnet="drop"``, ``pca__n_components=8``,
            ``metric__tol=1e-3`` or, with several metrics, ``metric__logme__tol=1e-3``; where the
            parameter is called ``metrics``, ``metrics__logme__tol=1e-3``.

        Returns
        -------
        self : object
            The estimator itself.
        """
        name = self._metric_parameter
        prefix = f"{name}__"
        if name in params:  # first, because nested keys are meant for the new one
            setattr(self, name, params.pop(name))
        metric = getattr(self, name)
        if isinstance(metric, str | list | tuple | dict):
            nested = {key: params.pop(key) for key in list(params) if key.startswith(prefix)}
            if nested:
                nested = {key.removeprefix(prefix): value for key, value in nested.items()}
                setattr(self, name, set_collection_params(metric, nested, name))
        self._set_params("candidates", **params)
        return self

    def _validate_params(self):
        if isinstance(self.candidates, Mapping):
            raise InvalidParameterError(
                f"The 'candidates' parameter of {type(self).__name__} must be a list of (name, "
                f"transformer) tuples: pass list(candidates.items()). Got a dict of "
                f"{len(self.candidates)} candidates instead."
            )
        super()._validate_params()

    def _active_candidates(self):
        return [
            (name, as_candidate(candidate))
            for name, candidate in self.candidates
            if candidate != "drop"
        ]

    def _validate_candidates(self):
        if not self.candidates or not all(
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in self.candidates
        ):
            raise ValueError(
                "'candidates' must be a non-empty list of (name, transformer) tuples. "
                f"Got {' '.join(repr(self.candidates).split()):.200} instead."
            )
        names, candidates = zip(*self.candidates, strict=True)
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise ValueError(f"The names in 'candidates' must be unique. Got {twice[0]!r} twice.")
        try:
            self._validate_names(names)
        except ValueError as error:
            raise ValueError(f"'candidates' has names that can't be used. {error}") from None
        try:
            self._check_estimators_are_instances(candidates)
        except TypeError as error:
            raise TypeError(f"'candidates' must hold instances. {error}") from None
        active = self._active_candidates()
        if not active:
            raise ValueError(
                "All candidates are dropped. At least one is required to be a transformer."
            )
        for name, candidate in active:
            if not all(hasattr(candidate, m) for m in ("fit", "transform", "get_params")):
                raise TypeError(
                    "All candidates should be scikit-learn transformers that implement fit and "
                    f"transform, or be 'drop' or 'passthrough'. {name!r}: {candidate!r} "
                    f"(type {type(candidate)}) doesn't."
                )
        return active


class CandidateComposition(NamedCandidates):
    """Base of estimators that take ``cv`` too, and fit candidates and metrics.

    Attributes
    ----------
    _fewest_candidates : int
        How many candidates have to have a score.
    """

    _fewest_candidates = 1

    def get_metadata_routing(self):
        """Get the metadata routing of the estimator.

        Returns
        -------
        routing : MetadataRouter
            The candidates by name, ``metric`` (of several metrics ``metric__<name>``) and, if it
            takes part, ``splitter``.
        """
        router = MetadataRouter(owner=self)
        to_candidate, to_metric, to_splitter = MethodMapping(), MethodMapping(), MethodMapping()
        for caller in ("fit", "fit_transform"):
            to_candidate.add(caller=caller, callee="fit").add(caller=caller, callee="fit_transform")
            to_metric.add(caller=caller, callee="fit")
            to_splitter.add(caller=caller, callee="split")
        for name, candidate in self.candidates:
            if candidate != "drop":
                router.add(**{name: as_candidate(candidate)}, method_mapping=to_candidate)
        metrics = named_metrics(self._given_metrics(), self._metric_parameter)
        for name, metric in metrics.items():
            router.add(**{self._metric_route(metrics, name): metric}, method_mapping=to_metric)
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=to_splitter)
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        # Which metric takes NaN among the features, and which candidate mends them, no tag tells.
        tags.input_tags.allow_nan = False
        with suppress(Exception):  # wrong candidates are reported by fit
            all_tags = [get_tags(candidate) for _, candidate in self._active_candidates()]
            # A candidate that fails on sparse input doesn't cost the others.
            enough = len(all_tags) if self.error_score == "raise" else self._fewest_candidates
            tags.input_tags.sparse = sum(t.input_tags.sparse for t in all_tags) >= enough
            dtypes = [t.transformer_tags.preserves_dtype for t in all_tags if t.transformer_tags]
            if tags.transformer_tags is not None:
                tags.transformer_tags.preserves_dtype = [
                    dtype for dtype in dtypes[0] if all(dtype in others for others in dtypes)
                ]
        return tags

    def _given_metrics(self):
        """Metrics as the parameter has them, or stands for."""
        return getattr(self, self._metric_parameter)

    def _metric_route(self, metrics, name):
        """Name of a metric in the metadata routing."""
        route = self._metric_parameter
        return route if len(metrics) == 1 else f"{route}__{name}"

    def _route(self, fit_params, method, candidates, metrics):
        """Sort parameters of fit by who asked for them."""
        _raise_for_params(fit_params, self, method)
        if not fit_params or not _routing_enabled():
            return [{"fit": {}, "fit_transform": {}} for _ in candidates], {}, {}
        routed = process_routing(self, method, **fit_params)
        weights = {}
        for name in metrics:
            params = routed[self._metric_route(metrics, name)].fit
            if params.get("sample_weight") is not None:
                weights[name] = params["sample_weight"]
        # Without parameters there is nothing that could be searched for a splitter by its name.
        split_params = routed["splitter"].split if hasattr(self.cv, "split") else {}
        return [routed[name] for name, _ in candidates], weights, split_params

    def _prepare(self, X, y, fit_params, method, candidates, metrics):
        """Check what a pass over the candidates is given, before any of them is run.

        Returns
        -------
        prepared : dict of str to object
            Parameters of a :class:`Selection`.
        """
        y_checked = check_target(X, y, type(self).__name__)
        candidate_params, weights, split_params = self._route(
            fit_params, method, candidates, metrics
        )
        weights = check_weights(weights, y_checked)
        splits = training_rows(self.cv, X, y_checked, split_params)
        memory = open_memory(self.memory)
        probabilities = any(map(needs_probabilities, metrics.values()))
        return {
            "candidates": candidates,
            "extractor": Extractor(X, y, len(y_checked), memory, probabilities),
            "y": y_checked,
            "splits": splits,
            "sample_weights": weights,
            "fit_params": candidate_params,
            "n_jobs": self.n_jobs,
            "raise_errors": self.error_score == "raise",
        }
