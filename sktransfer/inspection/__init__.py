"""Pictures of results."""

from ._bump import RankBumpDisplay
from ._metric_agreement import MetricAgreementDisplay
from ._ranking import RankingDisplay
from ._score_performance import ScorePerformanceDisplay
from ._stability import StabilityDisplay

__all__ = [
    "MetricAgreementDisplay",
    "RankBumpDisplay",
    "RankingDisplay",
    "ScorePerformanceDisplay",
    "StabilityDisplay",
]
