"""Pictures of results, and the report of a selection."""

from ._bump import RankBumpDisplay
from ._metric_agreement import MetricAgreementDisplay
from ._ranking import RankingDisplay
from ._report import write_report
from ._score_performance import ScorePerformanceDisplay
from ._stability import StabilityDisplay

__all__ = [
    "MetricAgreementDisplay",
    "RankBumpDisplay",
    "RankingDisplay",
    "ScorePerformanceDisplay",
    "StabilityDisplay",
    "write_report",
]
