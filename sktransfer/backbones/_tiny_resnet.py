"""The small residual network of the bundled zoo, for grey images of 28 x 28 pixels."""

import numpy as np
import torch
from torch import nn

__all__ = ["TinyResNet", "initial_state"]

# Channels of the three stages of a network of width 1.
STAGE_CHANNELS = (16, 32, 64)


class _ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is a 1 x 1 convolution where shapes change."""

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.activation = nn.ReLU()
        if stride == 1 and in_channels == out_channels:
            self.shortcut = nn.Identity()
        else:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        y = self.activation(self.norm1(self.conv1(x)))
        return self.activation(self.norm2(self.conv2(y)) + self.shortcut(x))


class TinyResNet(nn.Module):
    """Residual network for 28 x 28 grey images, with global average pooling and a linear head.

    The stem has stride 2, so the three stages see 14 x 14, 7 x 7 and 4 x 4 positions. With
    ``width=1`` and ten classes the network has 78 thousand parameters.

    Parameters
    ----------
    n_classes : int
        Number of outputs of the head.
    width : float, default=1.0
        Factor on the 16, 32 and 64 channels of the stages.

    Examples
    --------
    >>> import torch
    >>> from sktransfer.backbones import TinyResNet
    >>> network = TinyResNet(n_classes=10).eval()
    >>> sum(parameter.numel() for parameter in network.parameters())
    77754
    >>> network(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_classes, width=1.0):
        super().__init__()
        first, second, third = (round(width * channels) for channels in STAGE_CHANNELS)
        self.stem = nn.Sequential(
            nn.Conv2d(1, first, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
        )
        self.stages = nn.Sequential(
            _ResidualBlock(first, first, stride=1),
            _ResidualBlock(first, second, stride=2),
            _ResidualBlock(second, third, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(third, n_classes)

    def forward(self, x):
        """Give the logits of a batch.

        Parameters
        ----------
        x : tensor of shape (n, 1, height, width)
            Normalised images.

        Returns
        -------
        logits : tensor of shape (n, n_classes)
            Outputs of the head, before any softmax.
        """
        return self.head(self.pool(self.stages(self.stem(x))).flatten(1))


def initial_state(network, seed):
    """Draw initial weights that depend on the seed alone, not on the version of torch.

    numpy promises that the uniform stream of ``RandomState`` never changes, which makes an
    untrained network a matter of its seed, with no file of weights.

    Parameters
    ----------
    network : TinyResNet
        Gives names and shapes; it is not changed.
    seed : int
        Seed of the draw.

    Returns
    -------
    state : dict of str to tensor
        A state dict: convolutions and head uniform with the variance of He et al. (2015), scales
        and running variances one, everything else zero.
    """
    random = np.random.RandomState(seed)
    state = {}
    for name, tensor in network.state_dict().items():
        if tensor.ndim >= 2:
            fan_in = tensor[0].numel()
            bound = np.sqrt(6.0 / fan_in)
            values = random.uniform(-bound, bound, size=tuple(tensor.shape))
            state[name] = torch.from_numpy(values).to(tensor.dtype)
        elif name.endswith(("norm1.weight", "norm2.weight", "1.weight", "running_var")):
            state[name] = torch.ones_like(tensor)
        else:
            state[name] = torch.zeros_like(tensor)
    return state
