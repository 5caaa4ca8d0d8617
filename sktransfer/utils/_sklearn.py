"""The only module that imports names which scikit-learn does not document.

A new scikit-learn release can then break one file. Public scikit-learn names are imported where
they are used.
"""

from numbers import Integral

from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin  # public, but marked experimental in 1.9
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils import _safe_indexing
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils._param_validation import (
    HasMethods,
    Hidden,
    InvalidParameterError,
    Options,
    validate_parameter_constraints,
    validate_params,
)
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import StrOptions as _StrOptions
from sklearn.utils._repr_html.estimator import _VisualBlock
from sklearn.utils._set_output import _get_output_config, _wrap_data_with_container
from sklearn.utils.metadata_routing import _raise_for_params, _routing_enabled
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import (
    _check_feature_names,
    _check_method_params,
    _check_n_features,
    _check_sample_weight,
    _check_y,
    _num_samples,
)

__all__ = [
    "N_JOBS",
    "CallbackSupportMixin",
    "HasMethods",
    "Hidden",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "_BaseComposition",
    "_BaseScorer",
    "_VisualBlock",
    "_check_feature_names",
    "_check_method_params",
    "_check_n_features",
    "_check_sample_weight",
    "_check_y",
    "_fit_context",
    "_get_output_config",
    "_num_samples",
    "_raise_for_params",
    "_routing_enabled",
    "_safe_indexing",
    "_wrap_data_with_container",
    "check_matplotlib_support",
    "validate_parameter_constraints",
    "validate_params",
]


class Interval(_Interval):
    """An interval of numbers; to Python, True is a number too, and here it is none."""

    def is_satisfied_by(self, val):
        """Tell whether a value is a number in the interval."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


class StrOptions(_StrOptions):
    """Texts to choose from; messages list them in the order of the alphabet, not of a set."""

    def __str__(self):
        """Write the texts as messages of wrong parameters show them."""
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


#: What a parameter ``n_jobs`` may be: joblib knows no 0.
N_JOBS = [
    Interval(Integral, None, -1, closed="right"),
    Interval(Integral, 1, None, closed="left"),
    None,
]
