"""Training in rounds: a network is trained some more, judged, laid aside and taken up again."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from sktransfer.finetune._callbacks import Stages
from sktransfer.finetune._search_trial import take

__all__ = ["Checkpoint", "multiply_adds", "train_round"]


@dataclass(frozen=True)
class Checkpoint:
    """All that a training needs to be taken up again.

    Parameters
    ----------
    weights : dict of str to tensor
        What training has changed, by the names of the module's ``state_dict``.
    optimizer : dict
        State of the optimiser.
    trains_backbone : bool
        Whether the optimiser has the backbone, too.
    n_epochs : int
        Epochs that were trained.
    """

    weights: dict
    optimizer: dict
    trains_backbone: bool
    n_epochs: int

    def content(self):
        """Give it as plain containers of tensors and numbers, for a file.

        Returns
        -------
        content : dict
            What ``Checkpoint(**content)`` takes.
        """
        return dict(vars(self))


def train_round(
    template,
    backbone,
    X,
    y,
    classes,
    n_epochs,
    seed,
    batch_size,
    checkpoint=None,
    sample_weight=None,
):
    """Train a network for a round of some epochs.

    In each round the learning rates fall to zero again, so that a network is judged when it has
    come to rest, and not in the middle of a schedule that was meant for a longer training: cosine
    annealing with warm restarts [1]_. With ``lr_schedule="constant"`` they stay.

    Parameters
    ----------
    template : FineTuneClassifier or FineTuneRegressor
        Its parameters are used, apart from ``backbone``, ``batch_size``, ``max_epochs`` and
        ``random_state``.
    backbone : torch backbone or other transformer
        What is trained.
    X, y : array-like
        Data to train on, the same in all rounds.
    classes : ndarray or None
        All labels that there are; None for values.
    n_epochs : int
        Epochs of this round, one at least.
    seed : int
        Seed of the training, the same in all rounds.
    batch_size : int
        Rows per step. Short trainings of few rows need more steps per epoch than a long one.
    checkpoint : Checkpoint or None, default=None
        What the round before has left; None begins from the pretrained weights.
    sample_weight : ndarray of shape (n_samples,) or None, default=None
        Weights in the loss, the same in all rounds.

    Returns
    -------
    trained : FineTuneClassifier or FineTuneRegressor
        The network as it is after the round.
    checkpoint : Checkpoint
        For the next round.

    Raises
    ------
    ValueError
        If training diverges.

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "SGDR: Stochastic gradient descent with warm restarts",
       ICLR 2017.
    """
    parameters = {
        **template.get_params(deep=False),
        "backbone": backbone,
        "random_state": seed,
        "batch_size": batch_size,
        # A schedule of one round; with stages, there has to be room for both of them.
        "max_epochs": max(n_epochs, 2),
        "head_epochs": None,
    }
    trained = type(template)(**parameters)
    with_classes = {} if classes is None else {"classes": classes}
    trained.partial_fit(X, y, **with_classes, sample_weight=sample_weight, n_epochs=0)
    if checkpoint is not None:
        _take_up(trained, checkpoint)
        # The head has had its time alone in the first round.
        stage = "head" if template.train == "head" else "full"
    else:
        stage = template.train
    trained._rates.stages = _stages(stage, template, n_epochs)
    trained._rates.position_ = 0
    trained.partial_fit(X, y, sample_weight=sample_weight, n_epochs=n_epochs)
    if not trained.converged_:
        raise ValueError(
            f"The training diverged in epoch {len(trained.history_)}, with a loss or weights that "
            "are not finite."
        )
    return trained, _laid_aside(trained)


def _stages(stage, template, n_epochs):
    """Give the stages of one round, in which the head alone has the share that it has in all."""
    head_epochs = 0
    if stage == "staged":
        whole = template._stages()
        head_epochs = max(1, round(n_epochs * whole.head_epochs / whole.max_epochs))
        # A round of one epoch is for the head alone.
        if head_epochs >= n_epochs:
            return Stages("staged", n_epochs + 1, n_epochs)
    return Stages(stage, n_epochs, head_epochs)


def _laid_aside(trained):
    net = trained.net_
    state = {"optimizer": net.optimizer_.state_dict()}
    parts = [group["part"] for group in state["optimizer"]["param_groups"]]
    return Checkpoint(
        weights=_on_cpu(net.module_.learned_state()),
        optimizer=_on_cpu(state["optimizer"]),
        trains_backbone="backbone" in parts,
        n_epochs=len(net.history),
    )


def _take_up(trained, checkpoint):
    net = trained.net_
    net.module_.load_learned_state(checkpoint.weights)
    if checkpoint.trains_backbone:
        net.train_backbone(True)
    net.optimizer_.load_state_dict(checkpoint.optimizer)
    for _ in range(checkpoint.n_epochs):  # the order of batches goes by the number of the epoch
        net.history.new_epoch()


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_on_cpu(item) for item in value]
    return value


def multiply_adds(fitted, X):
    """Count the multiplications and additions of one forward pass of one row.

    Those of convolutions, linear layers and attention are counted, which are nearly all.

    Parameters
    ----------
    fitted : torch backbone
        A fitted backbone.
    X : array or sequence of shape (n_samples, ...)
        Data that it takes; the first row is run.

    Returns
    -------
    count : int
        How many; zero if the network has none of these layers.
    """
    with FlopCounterMode(display=False) as counter:
        fitted.transform(take(X, np.arange(1)))
    return counter.get_total_flops() // 2
