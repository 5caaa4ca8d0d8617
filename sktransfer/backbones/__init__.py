"""Pretrained networks as scikit-learn transformers: features and source probabilities."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sktransfer.backbones needs torch, which comes with the extra: "
        "pip install 'sktransfer[torch]'"
    ) from error

from sktransfer.backbones._cards import ModelCard
from sktransfer.backbones._tiny_resnet import TinyResNet
from sktransfer.backbones._tiny_zoo import TinyZooBackbone
from sktransfer.backbones._torch import TorchBackbone

__all__ = ["ModelCard", "TinyResNet", "TinyZooBackbone", "TorchBackbone"]
