"""A backbone with a new head, whose backbone can be frozen as a whole."""

from copy import copy

import torch
from torch import nn

__all__ = ["FineTuneModule"]


class FineTuneModule(nn.Module):
    """Features of a backbone and a new linear layer on top of them.

    Parameters
    ----------
    source : NetworkSource or TransformerSource
        Gives features. Its network becomes a part of this module.
    n_outputs : int
        Outputs of the head: classes, or values to predict.
    head_only : bool, default=False
        Whether the backbone will never be trained.
    standardize : bool, default=False
        Whether features are centred and scaled before the head, by what ``set_scale`` is given.

    Attributes
    ----------
    backbone : nn.Module
        The network.
    head : nn.Linear
        The new layer, initialised by torch's default, from torch's generator.
    frozen : bool
        Whether the backbone stays as it is. Then it is in evaluation mode also while training, so
        that running statistics do not move, and it has no gradients.
    given_features : bool
        Whether what is passed are features already.
    """

    def __init__(self, source, n_outputs, head_only=False, standardize=False):
        super().__init__()
        self.source = source
        self.backbone = source.module
        self.head = nn.Linear(source.n_features, n_outputs, dtype=source.dtype)
        # Networks differ in the size of their features by powers of ten, and learning rates for
        # the head mean the same for all of them after this.
        self.standardize = standardize
        self.register_buffer("feature_mean", torch.zeros(source.n_features, dtype=source.dtype))
        self.register_buffer("feature_scale", torch.ones((), dtype=source.dtype))
        self.head_only = head_only
        self.given_features = False
        self.freeze(True)

    def freeze(self, frozen):
        """Freeze the backbone, or let it be trained.

        Parameters
        ----------
        frozen : bool
            Whether to freeze it.
        """
        self.frozen = frozen
        in_use = {id(parameter) for parameter in self.source.parameters_in_use()}
        for parameter in self.backbone.parameters():
            can_learn = parameter.is_floating_point() and id(parameter) in in_use
            parameter.requires_grad_(can_learn and not frozen)
        self.train(self.training)

    def train(self, mode=True):
        """Set the mode; a frozen backbone stays in evaluation mode.

        Parameters
        ----------
        mode : bool, default=True
            Whether to train.

        Returns
        -------
        self : FineTuneModule
            The module.
        """
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def learned_state(self):
        """Copy what training may change: the head, and the backbone if it is ever trained.

        Returns
        -------
        state : dict of str to tensor
            By the names of ``state_dict``.
        """
        return {
            name: tensor.detach().clone()
            for name, tensor in self.state_dict().items()
            if not (self.head_only and name.startswith("backbone."))
        }

    def load_learned_state(self, state):
        """Go back to what ``learned_state`` gave.

        Parameters
        ----------
        state : dict of str to tensor
            Tensors of this module; others stay as they are.
        """
        own = self.state_dict()
        with torch.no_grad():
            for name, tensor in state.items():
                own[name].copy_(tensor)

    def features(self, x):
        """Compute features.

        Parameters
        ----------
        x : tensor
            A batch of inputs as the network wants them.

        Returns
        -------
        features : tensor of shape (n, n_features)
            Features, with gradients unless the backbone is frozen.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return self.source.features(x.to(self.head.weight.dtype))

    def forward(self, x):
        """Compute the outputs of the head.

        Parameters
        ----------
        x : tensor
            A batch of inputs, or of features if ``given_features``.

        Returns
        -------
        outputs : tensor of shape (n, n_outputs)
            Logits, or predicted values.
        """
        features = x if self.given_features else self.features(x)
        if self.standardize:
            features = (features - self.feature_mean) / self.feature_scale
        return self.head(features)

    def set_scale(self, features, weights):
        """Learn how features are standardised, with one scale for all of them.

        A scale for each would blow up features that hardly vary.

        Parameters
        ----------
        features : tensor of shape (n, n_features)
            Features of the rows to train on.
        weights : tensor of shape (n,) or None
            Their weights, of mean one.
        """
        weights = 1.0 if weights is None else weights[:, None].to(features)
        mean = (features * weights).mean(dim=0)
        spread = (((features - mean) ** 2) * weights).mean().sqrt()
        with torch.no_grad():
            self.feature_mean.copy_(mean)
            self.feature_scale.copy_(spread if spread > 0 else torch.ones(()))

    def __getstate__(self):
        state = self.__dict__.copy()
        # The network is in here already; a second copy could come apart from it.
        state["source"] = self.source.without_network()
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.source = copy(self.source)
        self.source.adopt(self.backbone, self.head.weight.device)

    def _apply(self, *args, **kwargs):
        super()._apply(*args, **kwargs)
        self.source.adopt(self.backbone, self.head.weight.device)
        return self
