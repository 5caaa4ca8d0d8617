"""Pictures of results."""

from ._ranking import RankingDisplay

__all__ = ["RankingDisplay"]
