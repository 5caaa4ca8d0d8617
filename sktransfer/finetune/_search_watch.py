"""A callback that measures a network after each epoch, as its estimator would be measured."""

from copy import copy

import numpy as np
import torch
from skorch.callbacks import Callback

from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._recording import plain_inference
from sktransfer.finetune._rows import TensorRows
from sktransfer.utils._measures import evaluate

__all__ = ["Watch"]


class Watch(Callback):
    """Measures after each epoch, and ends the training if it is told to.

    The training itself goes on as it would without.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        Whose network is trained.
    X : array or sequence of shape (n_samples, ...)
        Test data.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Their target.
    measure : dict of str to callable
        One measure.
    report : callable
        Called with the number of the epoch, from 1, and the measure; NaN if the outputs of the
        network are not finite. Gives whether training is to end.

    Attributes
    ----------
    ended : bool
        Whether it was ended.
    """

    def __init__(self, estimator, X, y, measure, report):
        self.estimator = estimator
        self.X = X
        self.y = y
        self.measure = measure
        self.report = report
        self.ended = False
        self._rows = self._features = None

    def __deepcopy__(self, memo):
        # The estimator copies its callbacks, and this one has to be heard of again.
        return self

    def on_epoch_end(self, net, **kwargs):
        """Measure."""
        module = net.module_
        given_features = module.given_features
        try:
            outputs = self._outputs(net, given_features)
            module.given_features = False
            value = self._value(outputs)
        finally:
            module.given_features = given_features
        if self.report(len(net.history), value):
            self.ended = True
            raise KeyboardInterrupt  # skorch's own way to end a training

    def let_go(self):
        """Let go of the estimator and the data, once training is over."""
        self.estimator = self.X = self.y = self._rows = self._features = None

    def _value(self, outputs):
        if not np.isfinite(outputs).all():
            return np.nan
        estimator, plain = copy(self.estimator), self.estimator._outputs
        estimator._outputs = lambda X: outputs if X is self.X else plain(X)
        (value,) = evaluate(estimator, self.X, self.y, self.measure).values()
        return value

    def _outputs(self, net, given_features):
        module, estimator = net.module_, self.estimator
        module.eval()
        if self._rows is None:
            self._rows = estimator._read(estimator._checked_inputs(self.X, reset=False))
        rows = self._rows
        if given_features:  # the backbone is frozen, so it runs once over them
            if self._features is None:
                self._features = TensorRows(torch.cat(self._run(net, rows, module.features)))
            rows = self._features
        return torch.cat(self._run(net, rows, module)).double().numpy()

    def _run(self, net, rows, function):
        device, outputs = torch.device(net.device), []
        for _, x in iter_batches(rows, net.batch_size, 0, net.n_workers):
            with plain_inference(device):
                outputs.append(function(x.to(device)).cpu())
        return outputs
