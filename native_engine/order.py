"""Who goes first: the order of all requests, as a rank. Knows no blocks and no steps.

The lower `priority` goes first, and among equals whoever came first; ahead of all of them whoever was promoted.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from native_engine.request import Sequence

PROMOTED, ORDINARY = 0, 1


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
