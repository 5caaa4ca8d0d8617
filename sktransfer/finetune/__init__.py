"""Training the network: fine-tuning, and metrics that look at gradients of early layers."""

try:
    import PIL  # noqa: F401
    import skorch  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sktransfer.finetune needs torch, skorch and Pillow, which come with "
        f"pip install 'sktransfer[torch]' ({error})."
    ) from error

from sktransfer.finetune._classifier import FineTuneClassifier
from sktransfer.finetune._fu import FU
from sktransfer.finetune._lpfu import LPFU
from sktransfer.finetune._reference import reference_ranking
from sktransfer.finetune._reference_result import ReferenceRanking
from sktransfer.finetune._regressor import FineTuneRegressor
from sktransfer.finetune._search import FineTuneSearchCV

__all__ = [
    "FU",
    "LPFU",
    "FineTuneClassifier",
    "FineTuneRegressor",
    "FineTuneSearchCV",
    "ReferenceRanking",
    "reference_ranking",
]
