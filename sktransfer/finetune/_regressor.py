"""Fine-tune a pretrained network for numbers."""

import numpy as np
from sklearn.base import RegressorMixin
from torch import from_numpy, nn

from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._net import RegressorNet
from sktransfer.utils._sklearn import _fit_context
from sktransfer.utils._target import encode_target

__all__ = ["FineTuneRegressor"]


class FineTuneRegressor(RegressorMixin, FineTuneEstimator):
    """DOC"""

    _net_class = RegressorNet
    _criterion = nn.MSELoss
    _multi_output = True

    def _encode(self, y):
        return encode_target(y, tasks=("regression",), task="regression", name=type(self).__name__)

    def _learn_target(self, target, y):
        self._n_outputs = target.outputs.shape[1]
        self._is_flat = y.ndim == 1

    def _known_target(self, y):
        target = self._encode(y)
        if target.outputs.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {target.outputs.shape[1]} values per sample, and had {self._n_outputs} "
                "before."
            )
        return target

    def _learn_scale(self, target, weights):
        outputs = target.outputs
        self.y_mean_ = np.average(outputs, axis=0, weights=weights)
        spread = np.sqrt(np.average((outputs - self.y_mean_) ** 2, axis=0, weights=weights))
        self.y_scale_ = np.where(spread > 0, spread, 1.0)

    def _tensor(self, target):
        return from_numpy((target.outputs - self.y_mean_) / self.y_scale_)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """D"""
        return self._fit(X, y, sample_weight, X_val, y_val)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None, *, n_epochs=1):
        """D"""
        return self._partial_fit(X, y, sample_weight, n_epochs)

    def predict(self, X):
        """D"""
        values = self._outputs(X) * self.y_scale_ + self.y_mean_
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
