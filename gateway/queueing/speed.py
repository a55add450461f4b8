"""How many may run so that each still reads at the target speed: a line through what was measured. Pure.

Each answer that ends gives a sample: how many ran beside it on average, and how many seconds a token took it. Decoding
takes about `alone + each * running` a token, as the planner computes it; here the two are fitted to the last few
hundred answers.
"""

from __future__ import annotations

import math

import msgspec

from backends.capacity import Moments

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


class Speed(Moments):
    """Of a backend's answers, older ones fading: x is how many ran, y seconds a token."""

    @classmethod
    def of(cls, stored: bytes) -> Speed:
        """As outlook.lua packs it."""
        return cls(*msgspec.msgpack.decode(stored, type=list[float]))

    def capacity_for(self, tokens_per_second: float) -> int | None:
        """The most that may run for each to get this speed; at least 1. None: no reason is known to hold back."""
        if self.n < _FEWEST:
            return None
        target = 1 / tokens_per_second
        if self.deviation_x <= _LEAST_SPREAD * self.mean_x:
            return max(1, math.floor(self.mean_x * _STEP_DOWN)) if self.mean_y > target else None
        line = self.fitted(_STANDS_OUT)
        if line is None:
            return None  # they differ and it makes no difference: fewer would be no faster
        best = line.of(1)
        return max(1, line.largest_batch(best / _SHARE_OF_BEST if best > target else target))
