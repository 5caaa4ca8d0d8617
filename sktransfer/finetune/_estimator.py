"""What fine-tuning for classes and for values share: data, stages of training, prediction."""

from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from warnings import warn

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from sktransfer.backbones._datasets import is_dataset
from sktransfer.backbones._images import input_kind
from sktransfer.backbones._prefetch import iter_batches
from sktransfer.backbones._recording import plain_inference
from sktransfer.backbones._scratch import start_from_scratch
from sktransfer.datasets import load_torch_dataset
from sktransfer.exceptions import NotConvergedWarning, NoValidationPartWarning
from sktransfer.finetune._callbacks import KeepBest, LearningRates, Report, Stages
from sktransfer.finetune._fit_data import checked_fit
from sktransfer.finetune._inputs import named
from sktransfer.finetune._module import FineTuneModule
from sktransfer.finetune._net import derived_seed
from sktransfer.finetune._network import undisturbed
from sktransfer.finetune._rows import LabelledRows, kept_in_memory, validation_rows
from sktransfer.finetune._sources import is_network, make_source
from sktransfer.metrics._statistics import drawn_seed
from sktransfer.utils._sklearn import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _check_feature_names,
    _check_y,
)
from sktransfer.utils._target import as_target_array
from sktransfer.utils._weights import check_weights

__all__ = ["FineTuneEstimator"]


def take(target, rows):
    """Give the target of some rows, with all classes also if some are not in there."""
    if target.outputs is not None:
        return replace(target, outputs=target.outputs[rows])
    return replace(target, codes=target.codes[rows])


class FineTuneEstimator(CallbackSupportMixin, BaseEstimator):
    """Base class: a backbone with a new head, trained on a target.

    A subclass says what a target is (``_encode``, ``_learn_target``, ``_known_target``,
    ``_tensor``), which net trains and what the outputs mean.
    """

    _parameter_constraints: dict = {
        "backbone": [HasMethods(["fit", "transform"])],
        "train": [StrOptions({"full", "head", "staged"})],
        "from_scratch": ["boolean"],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "head_lr": [Interval(Real, 0, None, closed="neither"), None],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "lr_schedule": [StrOptions({"cosine", "constant"})],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "head_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "callbacks": [list, None],
        "cache": ["boolean", StrOptions({"auto"})],
        "n_workers": [Interval(Integral, 0, None, closed="left")],
        "device": [str, torch.device],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _multi_output = False

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
        self.backbone = backbone
        self.train = train
        self.from_scratch = from_scratch
        self.lr = lr
        self.head_lr = head_lr
        self.weight_decay = weight_decay
        self.lr_schedule = lr_schedule
        self.max_epochs = max_epochs
        self.head_epochs = head_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.callbacks = callbacks
        self.cache = cache
        self.n_workers = n_workers
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # -- data ------------------------------------------------------------------------------------

    @property
    def _is_network(self):
        return self.train != "head" or is_network(self.backbone)

    def _checked_inputs(self, X, reset):
        """Check what scikit-learn checks of vectors; the backbone checks the rest."""
        if isinstance(X, torch.Tensor):
            X = X.detach().cpu()
            X = (X.float() if X.dtype in (torch.bfloat16, torch.float16) else X).numpy()
        if input_kind(X) == "vectors" and self._is_network:
            return validate_data(self, X, reset=reset)
        if reset:
            vars(self).pop("n_features_in_", None)
        names = X if len(getattr(X, "shape", ())) == 2 else np.empty((1, 1))
        if reset or hasattr(self, "feature_names_in_"):
            _check_feature_names(self, names, reset=reset)
        return X

    def _checked_pair(self, X, y, reset):
        """Check inputs and target together, and that they are of one length."""
        if y is None and is_dataset(X):
            y = load_torch_dataset(X).y
        if y is None:
            name = type(self).__name__
            raise ValueError(
                f"This {name} estimator requires y to be passed, but the target y is None."
            )
        X = self._checked_inputs(X, reset)
        y = _check_y(as_target_array(y), multi_output=self._multi_output, estimator=self)
        check_consistent_length(X, y)
        return X, y

    def _read(self, X):
        """Prepare inputs for the network, in memory if they fit there."""
        rows = self.net_.module_.source.rows(X)
        # A backbone that stays frozen sees them once.
        cache = self.train != "head" and self.cache
        return kept_in_memory(rows, self.batch_size, self.n_workers, cache)

    def _labelled(self, source, numbers, target, weights=None):
        """Put targets and weights of mean one to some rows of a source."""
        weights = self._loss_weights(target, weights)
        if weights is not None:
            is_equal = bool((weights == weights[0]).all())
            weights = None if is_equal else torch.from_numpy(weights / weights.mean())
        return LabelledRows(source, numbers, self._tensor(target), weights)

    def _loss_weights(self, target, weights):
        """Give the weights of rows in the loss; class weights come in here."""
        return weights

    # -- fitting ---------------------------------------------------------------------------------

    def _stages(self):
        head_epochs = self.head_epochs
        if head_epochs is None:
            head_epochs = -(-self.max_epochs // 3)
        if self.train == "staged" and head_epochs >= self.max_epochs:
            raise ValueError(
                "With train='staged', 'head_epochs' must be smaller than 'max_epochs', so that "
                f"there are epochs left for the whole network; got {head_epochs} and "
                f"{self.max_epochs}."
            )
        return Stages(self.train, self.max_epochs, head_epochs)

    def _begin(self, X, restore_best):
        """Make the network, with a new head, and the net that trains it."""
        stages = self._stages()
        self.seed_ = drawn_seed(self.random_state)
        with torch.inference_mode(False):
            source = make_source(
                self.backbone,
                X,
                device=self.device,
                trainable=self.train != "head" or self.from_scratch,
                caller=type(self).__name__,
            )
        if hasattr(source.backbone, "n_features_in_") and not hasattr(self, "n_features_in_"):
            self.n_features_in_ = source.backbone.n_features_in_
        vars(self).pop("scratch_report_", None)
        with undisturbed(source.device, derived_seed(self.seed_, 0, 0)):
            if self.from_scratch:
                seed = derived_seed(self.seed_, 0, 1)
                self.scratch_report_ = start_from_scratch(source.backbone, seed)
            torch.default_generator.manual_seed(derived_seed(self.seed_, 0, 2))
            module = FineTuneModule(
                source,
                self._n_outputs,
                head_only=self.train == "head",
                standardize=self.train != "full",
            ).to(source.device)
            module.freeze(stages.frozen(0))
            self.net_ = self._make_net(module, stages, restore_best).initialize()

    def _make_net(self, module, stages, restore_best):
        return self._net_class(
            module,
            criterion=self._criterion,
            criterion__reduction="none",
            optimizer=torch.optim.AdamW,
            optimizer__weight_decay=self.weight_decay,
            lr=self.lr,
            head_lr=self.lr if self.head_lr is None else self.head_lr,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            train_split=None,
            callbacks=[
                ("learning_rates", LearningRates(stages, self.lr_schedule)),
                *deepcopy(self.callbacks or []),
                ("keep_best", KeepBest(restore_best, self.patience)),
            ],
            n_workers=self.n_workers,
            seed=self.seed_,
            device=str(module.source.device),
            verbose=int(self.verbose),
            **self._net_parameters(),
        )

    def _net_parameters(self):
        return {}

    def _fit(self, X, y, sample_weight, X_val, y_val):
        context = self._init_callback_context(max_subtasks=self.max_epochs)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        vars(self).pop("net_", None)
        try:
            self._fit_anew(X, y, sample_weight, X_val, y_val, Report(context, self))
        except BaseException:
            vars(self).pop("net_", None)  # half-trained
            raise
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _fit_anew(self, X, y, sample_weight, X_val, y_val, report):
        data = checked_fit(self, X, y, sample_weight, X_val, y_val)
        rows, target, weights = data.rows, data.target, data.weights
        given = data.X_val is not None
        stops = given if isinstance(self.early_stopping, str) else self.early_stopping
        self._begin(data.X, restore_best=stops)
        source = self._read(data.X)
        training, held = np.arange(len(rows)), []
        if stops and not given:
            held = self._held_out(target)
            training = np.setdiff1d(training, held)
        part = None if weights is None else weights[training]
        self._learn_scale(take(target, training), part)
        training = self._labelled(source, rows[training], take(target, training), part)
        validation = None
        if given:
            numbers = np.arange(data.held_target.n_samples)
            with named("X_val"):
                held_source = self._read(data.X_val)
            validation = self._labelled(held_source, numbers, data.held_target)
        elif len(held):
            part = None if weights is None else weights[held]
            validation = self._labelled(source, rows[held], take(target, held), part)
        self._train(training, validation, self.max_epochs, report)
        self._rates.position_ = self.max_epochs
        self.net_.optimizer_.state.clear()  # what only further steps would need

    def _held_out(self, target):
        held = validation_rows(
            target.codes, target.n_samples, self.validation_fraction, [self.seed_, 0]
        )
        if not len(held):
            warn(
                "There are no rows for validation, as no class has more than one: training takes "
                f"all {self.max_epochs} epochs, and the last weights.",
                NoValidationPartWarning,
                stacklevel=6,
            )
        return held

    def _partial_fit(self, X, y, sample_weight, n_epochs, classes=None):
        first = not hasattr(self, "net_")
        X, y = self._checked_pair(X, y, reset=first)
        target = self._encode(y) if first and classes is None else self._known_target(y)
        rows, present, weights = check_weights(sample_weight, np.arange(len(y)), target)
        if first:
            if classes is None:
                self._learn_target(present, y)
            self._begin(X, restore_best=False)
        target = self._known_target(y[rows])
        if first:
            self._learn_scale(target, weights)
        self._train(self._labelled(self._read(X), rows, target, weights), None, n_epochs)
        return self

    @property
    def _rates(self):
        return dict(self.net_.callbacks_)["learning_rates"]

    def _train(self, training, validation, n_epochs, report=None):
        """Train for some epochs, stage by stage."""
        net = self.net_
        keep = dict(net.callbacks_)["keep_best"]
        n_before = len(net.history)
        if report is not None:
            net.callbacks_.append(("report", report))
        try:
            with undisturbed(torch.device(net.device), self.seed_):
                net.run_stages(training, validation, n_epochs)
        finally:
            if report is not None:
                net.callbacks_.pop()
        self.n_epochs_ = len(net.history)
        self.best_epoch_ = keep.best_epoch_
        self.converged_ = keep.diverged_ is None
        if self.converged_:
            return
        if keep.diverged_ == 1 and len(net.history[0]["batches"]) == 1:
            vars(self).pop("net_", None)
            raise ValueError(
                "The loss of the first batch is not finite, before any step of training: the "
                "network gives NaN or infinite outputs for these inputs."
            )
        back = keep.best_epoch_ or keep.diverged_ - 1
        warn(
            f"Training diverged in epoch {keep.diverged_ - n_before} of {n_epochs}, with a loss or "
            f"weights that are not finite, and was stopped. The weights are those after epoch "
            f"{back}; smaller learning rates help ('lr' is {self.lr:g}, 'head_lr' "
            f"{net.head_lr:g}).",
            NotConvergedWarning,
            stacklevel=5 + (report is not None),
        )

    # -- prediction ------------------------------------------------------------------------------

    def _outputs(self, X):
        """Compute the outputs of the head for all rows, in double precision."""
        check_is_fitted(self)
        X = self._checked_inputs(X, reset=False)
        net = self.net_
        module, device = net.module_, torch.device(net.device)
        module.eval()
        outputs = None
        rows = module.source.rows(X)
        with closing(iter_batches(rows, self.batch_size, 0, self.n_workers)) as batches:
            for numbers, x in batches:
                with plain_inference(device, module.source.draws):
                    batch = module(x.to(device)).double().cpu().numpy()
                if outputs is None:
                    outputs = np.empty((len(rows), batch.shape[1]))
                outputs[numbers] = batch
        return outputs

    @property
    def history_(self):
        """One entry per epoch, the ``history_`` of skorch's net."""
        return self.net_.history_

    @property
    def device_(self):
        """Where the network runs, a :class:`torch.device`."""
        return torch.device(self.net_.device)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "net_")
