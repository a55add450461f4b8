"""What may go wrong with ranks. Imports nothing heavy."""

from __future__ import annotations


class RanksLost(RuntimeError):
    """Ranks died more often than they are started again."""
