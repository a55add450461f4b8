"""What a first token at each backend would cost a request, in seconds. Pure.

Affinity, speed, weight and trouble all speak in seconds, so that a warm prefix loses where waiting costs more than
computing. What runs at a backend is left out: the queue counts it exactly, and adds `each_seconds` for every one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.routing.prefill import PrefillSpeed

# Costs that differ by less are equal, and the queue picks among equals at random.
_STEP = math.log(1.1)


class Choice(NamedTuple):
    backend: str
    seconds: float  # expected to the first token, were nobody else running


@dataclass(frozen=True, slots=True)
class Candidate:
    backend: str
    speed: PrefillSpeed
    warm: float = 0.0  # part of the prompt that it has computed already, 0 to 1
    weight: float = 1.0  # of 2: gets twice as much
    slowness: float = 1.0  # Health.slowness
    others: int = 0  # requests that it has from elsewhere; of stale figures: its capacity, as though it were full

    @property
    def _factor(self) -> float:
        return self.slowness / self.weight

    @property
    def each_seconds(self) -> float:
        """What one more that runs there adds: Room.each_seconds of the queue."""
        return _rounded(self.speed.each * self._factor)

    def seconds(self, prompt_tokens: int) -> float:
        return _rounded(self.speed.seconds(prompt_tokens * (1 - self.warm), self.others) * self._factor)


def choices(prompt_tokens: int, candidates: Sequence[Candidate]) -> tuple[Choice, ...]:
    """Every candidate with its cost, the cheapest first."""
    priced = (Choice(one.backend, one.seconds(prompt_tokens)) for one in candidates)
    return tuple(sorted(priced, key=lambda choice: choice.seconds))


def _rounded(seconds: float) -> float:
    return math.exp(round(math.log(seconds) / _STEP) * _STEP)
