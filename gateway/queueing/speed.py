"""How many may run so that each still reads at the target speed: a line through what was measured. Pure.

Each answer that ends gives a sample: how many ran beside it on average, and how many seconds a token took it. Decoding
takes about `alone + each * running` a token; the two are fitted by least squares over the last few hundred answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

# Before so many answers nothing is said.
_FEWEST = 20
# The line is believed only where the numbers that ran differ, by a tenth of their mean, and where its slope stands out
# from the noise: three times its standard error.
_LEAST_SPREAD = 0.1
_STANDS_OUT = 3.0
# Too slow, and always as many running, so that there is no line: a step down is what makes one.
_STEP_DOWN = 0.9
# A machine that is too slow for the target even for one alone: each gets half of that, and several are served.
_SHARE_OF_BEST = 0.5


@dataclass(frozen=True, slots=True)
class Speed:
    """Sums over the samples, older ones fading: x is how many ran, y seconds a token."""

    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    @classmethod
    def of(cls, stored: bytes) -> Speed:
        """As outlook.lua packs it."""
        return cls(*msgspec.msgpack.decode(stored, type=list[float]))

    def capacity_for(self, tokens_per_second: float) -> int | None:
        """The most that may run for each to get this speed; at least 1. None: no reason is known to hold back."""
        if self.n < _FEWEST:
            return None
        mean_running, mean_pace = self.x / self.n, self.y / self.n
        slow = mean_pace > 1 / tokens_per_second
        if not self._is_spread():
            return max(1, math.floor(mean_running * _STEP_DOWN)) if slow else None
        each = self._slope()
        if each is None:
            return None  # they differ and it makes no difference: fewer would be no faster
        alone = mean_pace - each * mean_running
        pace = max(1 / tokens_per_second, _slowest_held(alone + each, tokens_per_second))
        return max(1, math.floor((pace - alone) / each + 1e-9))

    def _is_spread(self) -> bool:
        mean = self.x / self.n
        return self._variance() > (_LEAST_SPREAD * mean) ** 2

    def _variance(self) -> float:
        return self.xx / self.n - (self.x / self.n) ** 2

    def _slope(self) -> float | None:
        """Seconds a token for each more that runs; None where it cannot be told from none."""
        covariance = self.xy / self.n - self.x * self.y / self.n**2
        slope = covariance / self._variance()
        residual = max(0.0, self.yy / self.n - (self.y / self.n) ** 2 - slope * covariance)
        error = math.sqrt(residual / self._variance() / self.n)
        return slope if slope > 0 and slope > _STANDS_OUT * error else None


def _slowest_held(best_pace: float, tokens_per_second: float) -> float:
    return best_pace / _SHARE_OF_BEST if best_pace > 1 / tokens_per_second else 0.0
