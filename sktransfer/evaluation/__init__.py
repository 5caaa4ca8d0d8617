"""Comparing score tables: ranks of candidates."""

from ._rank import competition_ranks

__all__ = ["competition_ranks"]
