"""Pretrained networks as scikit-learn transformers: features and source probabilities."""

try:
    import PIL  # noqa: F401
    import safetensors  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sktransfer.backbones needs torch, safetensors and Pillow, which come with "
        f"pip install 'sktransfer[torch]' ({error})."
    ) from error

from sktransfer.backbones._cards import ModelCard
from sktransfer.backbones._tiny_resnet import TinyResNet
from sktransfer.backbones._tiny_zoo import TinyZooBackbone
from sktransfer.backbones._torch import TorchBackbone

__all__ = ["ModelCard", "TinyResNet", "TinyZooBackbone", "TorchBackbone"]
