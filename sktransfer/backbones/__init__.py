"""Pretrained networks as scikit-learn transformers: features and source probabilities.

Names are imported when they are first used, so that features which are computed already, and the
store that keeps them, can be used where torch is not installed.
"""

from importlib import import_module

_WITHOUT_TORCH = {
    "FeatureStore": "_store",
    "ModelCard": "_cards",
    "PrecomputedFeatures": "_precomputed",
}
_WITH_TORCH = {
    "TimmBackbone": "_timm",
    "TinyResNet": "_tiny_resnet",
    "TinyZooBackbone": "_tiny_zoo",
    "TorchBackbone": "_torch",
    "TorchvisionBackbone": "_torchvision",
    "layer_candidates": "_layers",
}

__all__ = [
    "FeatureStore",
    "ModelCard",
    "PrecomputedFeatures",
    "TimmBackbone",
    "TinyResNet",
    "TinyZooBackbone",
    "TorchBackbone",
    "TorchvisionBackbone",
    "layer_candidates",
]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _WITH_TORCH:
        _require_torch()
    module = import_module(f"{__name__}.{(_WITHOUT_TORCH | _WITH_TORCH)[name]}")
    globals()[name] = found = getattr(module, name)  # not asked for again
    return found


def __dir__():
    return sorted({*globals(), *__all__})


def _require_torch():
    try:
        import PIL  # noqa: F401
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "sktransfer.backbones needs torch, safetensors and Pillow, which come with "
            f"pip install 'sktransfer[torch]' ({error})."
        ) from error
