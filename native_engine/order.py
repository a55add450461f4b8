"""Who goes first: the order of all requests, as a rank. Knows no blocks and no steps.

The lower `priority` goes first, and among equals whoever came first; ahead of all of them whoever was promoted.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator

from native_engine.request import Sequence

PROMOTED, ORDINARY = 0, 1
OVERTAKINGS = 8


def rank(sequence: Sequence) -> tuple[float, float, float]:
    return sequence.rank


def arrival(sequence: Sequence) -> int:
    return sequence.rank[2]


def end_of(sequences: list[Sequence], kind: int, priority: int) -> int:
    """The place behind all of this kind and priority in a list that is in order."""
    last: tuple[float, float, float] = (kind, priority, math.inf)
    return bisect_right(sequences, last, key=rank)


def heads(sequences: list[Sequence]) -> Iterator[Sequence]:
    """The first of each kind and priority in a list that is in order."""
    index = 0
    while index < len(sequences):
        head = sequences[index]
        yield head
        index = end_of(sequences, *head.rank[:2])


class Overtakings:
    """Counts how often in a row somebody younger went before the oldest that waits, and promotes it in the end."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def count(self, sequence: Sequence, waiting: list[Sequence]) -> None:
        """`sequence` was let in before those that wait."""
        oldest = min(heads(waiting), key=arrival, default=None)
        if oldest is None or arrival(sequence) < arrival(oldest):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row >= OVERTAKINGS:
            self._in_a_row = 0
            waiting.remove(oldest)
            oldest.rank = (PROMOTED, 0, arrival(oldest))
            insort(waiting, oldest, key=rank)
