"""The skorch net inside: seeded batches, weighted loss, optimiser by part, portable pickles."""

from contextlib import suppress
from copy import deepcopy

import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring, EpochTimer, PassthroughScoring, PrintLog

from sktransfer.finetune._rows import BatchLoader, TensorRows

__all__ = ["ClassifierNet", "RegressorNet", "StopTraining", "derived_seed"]


class StopTraining(Exception):
    """A callback has ended the training."""


def derived_seed(seed, *path):
    """Give a seed for one purpose.

    Parameters
    ----------
    seed : int
        The seed of all.
    *path : int
        Which purpose.

    Returns
    -------
    seed : int
        Below 2**32.
    """
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0])


class _FineTuneNet:
    """What the nets for classes and for values share; goes before a net of skorch.

    Parameters
    ----------
    module : FineTuneModule
        The module itself. After ``initialize`` the net keeps its class in this place, as a module
        that is there twice would double a pickle.
    head_lr : float, default=1e-2
        Learning rate of the head.
    n_workers : int, default=0
        Threads that read ahead.
    seed : int, default=0
        Seed of the order of batches and of what the network draws while it is trained.
    **kwargs : dict
        Parameters of the net of skorch.
    """

    def __init__(self, module, *args, head_lr=1e-2, n_workers=0, seed=0, **kwargs):
        super().__init__(module, *args, **kwargs)
        self.head_lr = head_lr
        self.n_workers = n_workers
        self.seed = seed

    @property
    def _default_callbacks(self):
        callbacks = [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring(name="valid_loss")),
            *self._own_scores(),
        ]
        return [*callbacks, ("print_log", PrintLog())] if self.verbose else callbacks

    def _own_scores(self):
        return []

    def initialize_module(self):
        self.module_ = self.module
        self.module = type(self.module)
        return self

    def initialize_optimizer(self, triggered_directly=None):
        settings = self.get_params_for("optimizer")
        self.optimizer_ = self.optimizer([self._group("head")], **settings)
        self.train_backbone(not self.module_.frozen)
        return self

    def _group(self, part):
        rate = self.head_lr if part == "head" else self.lr
        parameters = [p for p in getattr(self.module_, part).parameters() if p.requires_grad]
        return {"params": parameters, "lr": rate, "base_lr": rate, "part": part}

    def train_backbone(self, trained):
        """Freeze the backbone, or let it be trained from now on.

        Parameters
        ----------
        trained : bool
            Whether to train it. The optimiser holds what is trained, and nothing else.
        """
        self.module_.freeze(not trained)
        there = any(group["part"] == "backbone" for group in self.optimizer_.param_groups)
        if trained and not there:
            group = self._group("backbone")
            if group["params"]:
                self.optimizer_.add_param_group(group)

    def run_stages(self, training, validation, n_epochs):
        """Train for some epochs.

        Parameters
        ----------
        training : LabelledRows
            What to train on.
        validation : LabelledRows or None
            What to look at after each epoch.
        n_epochs : int
            How many epochs, fewer if a callback ends them.
        """
        callbacks, module = dict(self.callbacks_), self.module_
        rates, keep = callbacks["learning_rates"], callbacks["keep_best"]
        segments = rates.stages.segments(rates.position_, n_epochs)
        # A callback may want to stop at once; its own stop is no error then.
        try:
            self.notify("on_train_begin", X=None, y=None)
            for frozen, n in segments:
                self.train_backbone(not frozen)
                keep.begin_stage(patient=(frozen, n) == segments[-1])
                module.given_features = frozen
                parts = (training, validation)
                if frozen:
                    parts = tuple(map(self._as_features, parts))
                    if module.standardize and not len(self.history):
                        module.set_scale(parts[0].source.tensor, training.weights)
                self.fit_loop(parts, epochs=n)
        except StopTraining:
            pass
        finally:
            module.given_features = False
        with suppress(StopTraining):
            self.notify("on_train_end", X=None, y=None)
        self.optimizer_.zero_grad(set_to_none=True)
        module.eval()

    def _as_features(self, rows):
        """Compute the features of rows once, as a frozen backbone gives the same every time."""
        if rows is None:
            return None
        self.module_.eval()
        with torch.no_grad():
            batches = BatchLoader(rows, self.batch_size, None, self.n_workers)
            features = [self.module_.features(self._inputs(x)).cpu() for x, _ in batches]
        features = torch.cat(features)
        if not bool(torch.isfinite(features).all()):
            raise ValueError("The features of the network contain NaN or infinite values.")
        return rows.with_source(TensorRows(features))

    def _inputs(self, x):
        return (x[0] if isinstance(x, tuple) else x).to(self.device)

    def check_data(self, X, y=None):
        pass  # the estimator has done that

    def get_split_datasets(self, X, y=None, **fit_params):
        return X

    def get_iterator(self, dataset, training=False):
        order = self._order if training else None
        return BatchLoader(dataset, self.batch_size, order, self.n_workers)

    def _order(self, n):
        return np.random.default_rng([self.seed, len(self.history)]).permutation(n)

    def on_epoch_begin(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        super().on_epoch_begin(net, dataset_train, dataset_valid, **kwargs)
        # By epoch, so that training in parts is the same as training in one go.
        seed = derived_seed(self.seed, len(self.history))
        torch.default_generator.manual_seed(seed)
        device = torch.device(self.device)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)

    def infer(self, x, **fit_params):
        return self.module_(self._inputs(x))

    def get_loss(self, y_pred, y_true, X=None, training=False):
        losses = self.criterion_(y_pred, self._as_target(y_true.to(self.device), y_pred))
        losses = losses.reshape(len(losses), -1).mean(dim=1)
        if isinstance(X, tuple):
            losses = losses * X[1].to(losses)
        return losses.mean()

    def _as_target(self, y_true, y_pred):
        return y_true

    def notify(self, method_name, **cb_kwargs):
        """Call all callbacks; those of skorch end the training by a KeyboardInterrupt.

        Someone who interrupts the program between them is not taken for a callback.
        """
        getattr(self, method_name)(self, **cb_kwargs)
        stop = False
        for _, callback in self.callbacks_:
            try:
                getattr(callback, method_name)(self, **cb_kwargs)
            except KeyboardInterrupt:
                stop = True
        if stop:
            raise StopTraining

    def __getstate__(self):
        state = self.__dict__.copy()
        if "module_" not in state:
            return state
        # On the CPU, so that a machine without a GPU can read it.
        if torch.device(self.device).type != "cpu":
            state["module_"] = deepcopy(self.module_).cpu()
        optimizer = state.pop("optimizer_", None)
        if optimizer is not None:
            state["_optimizer_state"] = _on_cpu(optimizer.state_dict())
        return state

    def __setstate__(self, state):
        optimizer_state = state.pop("_optimizer_state", None)
        self.__dict__.update(state)
        if "module_" not in state:
            return
        if torch.device(self.device).type == "cuda" and not torch.cuda.is_available():
            self.__dict__["device"] = "cpu"
        self.module_.to(self.device)
        if optimizer_state is not None:
            parts = [group["part"] for group in optimizer_state["param_groups"]]
            self.optimizer_ = self.optimizer(
                [self._group("head")], **self.get_params_for("optimizer")
            )
            for part in parts[1:]:
                self.optimizer_.add_param_group(self._group(part))
            self.optimizer_.load_state_dict(optimizer_state)


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_on_cpu(item) for item in value]
    return value


class ClassifierNet(_FineTuneNet, NeuralNetClassifier):
    """A net of skorch that classifies; classes are numbers from 0."""

    def _own_scores(self):
        score = EpochScoring("accuracy", name="valid_acc", lower_is_better=False)
        return [("valid_acc", score)]


class RegressorNet(_FineTuneNet, NeuralNetRegressor):
    """A net of skorch that predicts values."""

    def _as_target(self, y_true, y_pred):
        return y_true.to(y_pred)
