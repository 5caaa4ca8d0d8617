"""Ranks, ties and negative transfer."""

__all__ = ["negative_transfer", "rank_rows"]


def rank_rows(result, measure):
    """Rank."""


def negative_transfer(result, measure):
    """Find."""
