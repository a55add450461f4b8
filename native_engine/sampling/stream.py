"""The random numbers of one request."""

from __future__ import annotations

from collections import deque

import numpy as np

_KEPT = 64  # more than a step can guess ahead


class Stream:
    """The n-th number is for the n-th token of the answer: one that is chosen once more, behind a guess that did not
    come true or in a step that failed, is chosen by the same number."""

    __slots__ = ("_count", "_last", "_random")

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._random = np.random.Generator(np.random.Philox(seed))
        self._last: deque[float] = deque(maxlen=_KEPT)
        self._count = 0  # of all numbers so far

    def at(self, place: int) -> float:
        """In [0, 1), for the token at this place of the answer; one of the last that were asked for, or a later one."""
        while self._count <= place:
            self._last.append(self._random.random())
            self._count += 1
        return self._last[place - self._count]
