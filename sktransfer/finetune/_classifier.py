"""Fine-tune a pretrained network for classes."""

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from torch import from_numpy, nn

from sktransfer.finetune._estimator import FineTuneEstimator
from sktransfer.finetune._net import ClassifierNet
from sktransfer.utils._sklearn import Interval, StrOptions, _fit_context
from sktransfer.utils._target import Target, encode_target

__all__ = ["FineTuneClassifier"]


class FineTuneClassifier(ClassifierMixin, FineTuneEstimator):
    """DOC"""

    _parameter_constraints: dict = {
        **FineTuneEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _net_class = ClassifierNet
    _criterion = nn.CrossEntropyLoss

    def __init__(
        self,
        backbone,
        *,
        train="full",
        from_scratch=False,
        lr=1e-3,
        head_lr=1e-2,
        weight_decay=1e-4,
        lr_schedule="cosine",
        max_epochs=50,
        head_epochs=None,
        batch_size=128,
        class_weight=None,
        early_stopping="auto",
        validation_fraction=0.2,
        patience=None,
        callbacks=None,
        cache="auto",
        n_workers=0,
        device="auto",
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            backbone,
            train=train,
            from_scratch=from_scratch,
            lr=lr,
            head_lr=head_lr,
            weight_decay=weight_decay,
            lr_schedule=lr_schedule,
            max_epochs=max_epochs,
            head_epochs=head_epochs,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            callbacks=callbacks,
            cache=cache,
            n_workers=n_workers,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    # -- target ----------------------------------------------------------------------------------

    def _encode(self, y):
        return encode_target(
            y, tasks=("classification",), task="classification", name=type(self).__name__
        )

    def _learn_target(self, target, y):
        if len(target.classes) < 2:
            raise ValueError(
                f"{type(self).__name__} requires at least 2 classes in y; got 1 class."
            )
        self.classes_ = target.classes

    def _known_target(self, y):
        """Number labels by the classes that are known already."""
        target = self._encode(y)
        unknown = np.setdiff1d(target.classes, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has labels that are none of the classes of {type(self).__name__}: "
                f"{unknown.tolist()[:10]}; the classes are {self.classes_.tolist()[:20]}."
            )
        codes = np.searchsorted(self.classes_, target.classes)[target.codes]
        return Target("classification", classes=self.classes_, codes=codes)

    def _learn_scale(self, target, weights):
        pass

    @property
    def _n_outputs(self):
        return len(self.classes_)

    def _net_parameters(self):
        return {"classes": list(range(self._n_outputs))}

    def _tensor(self, target):
        return from_numpy(target.codes.astype(np.int64))

    def _loss_weights(self, target, weights):
        if self.class_weight is None:
            return weights
        present = np.unique(target.codes)
        by_class = np.ones(len(target.classes))
        by_class[present] = compute_class_weight(
            self.class_weight,
            classes=target.classes[present],
            y=target.classes[target.codes],
            sample_weight=weights if self.class_weight == "balanced" else None,
        )
        by_row = by_class[target.codes]
        return by_row if weights is None else weights * by_row

    # -- public ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """D"""
        return self._fit(X, y, sample_weight, X_val, y_val)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, classes=None, sample_weight=None, *, n_epochs=1):
        """D"""
        if classes is not None:
            classes = self._encode(np.asarray(classes)).classes
            if not hasattr(self, "net_"):
                self._learn_target(Target("classification", classes=classes), classes)
            elif not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"'classes' is {classes.tolist()}, and was {self.classes_.tolist()} before."
                )
        return self._partial_fit(X, y, sample_weight, n_epochs, classes)

    def predict_proba(self, X):
        """D"""
        return softmax(self._outputs(X), axis=1)

    def predict(self, X):
        """D"""
        outputs = self._outputs(X)
        return self.classes_[outputs.argmax(axis=1)]
