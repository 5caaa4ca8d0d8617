"""Metrics that look into the network: gradients of early layers under a triplet loss."""

try:
    import PIL  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sktransfer.finetune needs torch, which comes with pip install 'sktransfer[torch]' "
        f"({error})."
    ) from error

from sktransfer.finetune._fu import FU
from sktransfer.finetune._lpfu import LPFU

__all__ = ["FU", "LPFU"]
