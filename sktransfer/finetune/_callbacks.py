"""Callbacks of the net: learning rates, the best weights, and weights that are finite."""

import math

import torch
from skorch.callbacks import Callback

__all__ = ["KeepBest", "LearningRates", "Report", "Stages"]


class Stages:
    """What is trained in which epoch, and how far an epoch is in its stage.

    Parameters
    ----------
    train : {"full", "head", "staged"}
        What is trained.
    max_epochs : int
        Length of a schedule.
    head_epochs : int
        How many of them train the head alone, if staged.
    """

    def __init__(self, train, max_epochs, head_epochs):
        self.train = train
        self.max_epochs = max_epochs
        self.head_epochs = head_epochs if train == "staged" else 0

    def frozen(self, position):
        """Tell whether the backbone is frozen.

        Parameters
        ----------
        position : int
            Number of the epoch, from 0.

        Returns
        -------
        frozen : bool
            Whether the head alone is trained.
        """
        return self.train == "head" or position < self.head_epochs

    def progress(self, position):
        """Tell how much of a stage lies behind.

        Parameters
        ----------
        position : int
            Number of the epoch, from 0. After ``max_epochs`` the last stage starts anew.

        Returns
        -------
        progress : float
            From 0 on, below 1.
        """
        if position < self.head_epochs:
            return position / self.head_epochs
        length = self.max_epochs - self.head_epochs
        return ((position - self.head_epochs) % length) / length

    def segments(self, position, n_epochs):
        """Cut epochs where something begins to be trained.

        Parameters
        ----------
        position : int
            Number of the first epoch, from 0.
        n_epochs : int
            Number of epochs.

        Returns
        -------
        segments : list of (bool, int)
            Whether the backbone is frozen, and for how many epochs.
        """
        n_frozen = n_epochs if self.train == "head" else self.head_epochs - position
        n_frozen = min(max(n_frozen, 0), n_epochs)
        parts = [(True, n_frozen), (False, n_epochs - n_frozen)]
        return [(frozen, n) for frozen, n in parts if n]


class LearningRates(Callback):
    """Sets the learning rates of an epoch and counts epochs.

    Parameters
    ----------
    stages : Stages
        How far an epoch is.
    schedule : {"cosine", "constant"}
        "cosine" is what torch's CosineAnnealingLR gives in each stage.

    Attributes
    ----------
    position : int
        Number of the next epoch in the schedule, from 0.
    """

    def __init__(self, stages, schedule):
        self.stages = stages
        self.schedule = schedule
        self.position_ = 0

    def on_epoch_begin(self, net, **kwargs):
        """Set the rates."""
        factor = 1.0
        if self.schedule == "cosine":
            factor = (1.0 + math.cos(math.pi * self.stages.progress(self.position_))) / 2.0
        for group in net.optimizer_.param_groups:
            if self.schedule == "cosine":
                group["lr"] = group["base_lr"] * factor
            name = "head_lr" if group["part"] == "head" else "lr"
            net.history.record(name, group["lr"])

    def on_epoch_end(self, net, **kwargs):
        """Count."""
        self.position_ += 1


class KeepBest(Callback):
    """Keeps the weights of the best epoch, or the last finite ones, and ends training early.

    Parameters
    ----------
    restore_best : bool
        Whether to go back to the epoch with the smallest validation loss.
    patience : int or None
        Epochs without a smaller one after which to stop; None never stops.

    Attributes
    ----------
    best_epoch_ : int or None
        Number of the epoch, from 1.
    best_loss_ : float
        Its validation loss.
    diverged_ : int or None
        Number of the epoch whose loss or weights were not finite.
    """

    def __init__(self, restore_best=False, patience=None):
        self.restore_best = restore_best
        self.patience = patience
        self.initialize()

    def initialize(self):
        """Forget what was seen."""
        self.best_epoch_, self.best_loss_ = None, math.inf
        self.best_state_ = self.finite_state_ = None
        self.diverged_ = None
        self.n_without_ = 0
        return self

    def on_train_begin(self, net, **kwargs):
        """Begin anew."""
        self.initialize()

    def begin_stage(self, patient):
        """Begin to wait anew.

        Parameters
        ----------
        patient : bool
            Whether it is the last stage. The head alone may be as good as it gets while most is
            still to come.
        """
        self.patient_ = patient
        self.n_without_ = 0

    def on_epoch_begin(self, net, **kwargs):
        """Keep weights to go back to."""
        if self.best_state_ is None:
            self.finite_state_ = net.module_.learned_state()

    def on_batch_end(self, net, training=False, loss=None, **kwargs):
        """Stop at a loss that is not finite."""
        if training and not math.isfinite(net.history[-1, "batches", -1, "train_loss"]):
            self._stop(net)

    def on_epoch_end(self, net, **kwargs):
        """Look at the validation loss."""
        if not all(
            bool(torch.isfinite(p).all()) for p in net.module_.parameters() if p.requires_grad
        ):
            self._stop(net)
        loss = net.history[-1].get("valid_loss")
        if not self.restore_best or loss is None:
            return
        if loss < self.best_loss_:
            self.best_loss_, self.best_epoch_ = float(loss), len(net.history)
            self.best_state_ = net.module_.learned_state()
            self.finite_state_ = None
            self.n_without_ = 0
            return
        self.n_without_ += 1
        if self.patience is not None and self.patient_ and self.n_without_ >= self.patience:
            raise KeyboardInterrupt

    def _stop(self, net):
        self.diverged_ = len(net.history)
        raise KeyboardInterrupt

    def on_train_end(self, net, **kwargs):
        """Go back."""
        state = self.best_state_
        if state is None and self.diverged_ is not None:
            state = self.finite_state_
        if state is not None and (self.diverged_ or self.best_epoch_ != len(net.history)):
            net.module_.load_learned_state(state)
        self.best_state_ = self.finite_state_ = None


class Report(Callback):
    """Tells scikit-learn's callbacks about epochs.

    Parameters
    ----------
    context : CallbackContext
        That of the fit.
    estimator : estimator
        Who is fitted.
    """

    def __init__(self, context, estimator):
        self.context = context
        self.estimator = estimator
        self.task_ = None

    def on_epoch_begin(self, net, **kwargs):
        """Announce an epoch."""
        self.task_ = self.context.subcontext(task_name="epoch")
        self.task_.call_on_fit_task_begin(estimator=self.estimator)

    def on_epoch_end(self, net, **kwargs):
        """Announce its end."""
        if self.task_ is not None:
            self.task_.call_on_fit_task_end(estimator=self.estimator)
        self.task_ = None

    def on_train_end(self, net, **kwargs):
        """Announce the end of an epoch that was broken off."""
        self.on_epoch_end(net)
