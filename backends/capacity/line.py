"""What a decode step costs by how many it serves, `alone + each x batch`, and how long a turn is waited for.

The planner computes both from bytes and a bandwidth; the gateway's queue from what it measured. Knows neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_ROUNDING = 1e-9


class Cost(NamedTuple):
    """Of a step, in bytes read or in seconds: `alone` whoever is served (the weights), `each` for every request (its
    KV cache)."""

    alone: float
    each: float

    def of(self, batch: float) -> float:
        return self.alone + batch * self.each

    def largest_batch(self, budget: float) -> int:
        """The most requests whose step costs at most `budget`, in the unit of the line; 0 where one is too many."""
        return max(0, math.floor((budget - self.alone) / self.each + _ROUNDING))


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over samples, each of which may weigh less than 1: x is a batch, y what a step of it cost."""

    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    @property
    def mean_x(self) -> float:
        return self.x / self.n

    @property
    def mean_y(self) -> float:
        return self.y / self.n

    @property
    def deviation_x(self) -> float:
        return math.sqrt(max(0.0, self._variance))

    def fitted(self, standard_errors: float) -> Cost | None:
        """The line of least squares; None where its slope is not above so many of its standard errors. The samples'
        batches must differ."""
        covariance = self.xy / self.n - self.mean_x * self.mean_y
        slope = covariance / self._variance
        residual = max(0.0, self.yy / self.n - self.mean_y**2 - slope * covariance)
        error = math.sqrt(residual / self._variance / self.n)
        return Cost(self.mean_y - slope * self.mean_x, slope) if slope > max(0.0, standard_errors * error) else None

    @property
    def _variance(self) -> float:
        return self.xx / self.n - self.mean_x**2


def wait_seconds(place: int, turn_seconds: float, turns: int) -> float:
    """Until the `place`th in a line has a turn, where `turns` are in use that take `turn_seconds` each: one of them
    comes free every turn_seconds / turns."""
    return place * turn_seconds / turns
