"""When requests are sent."""

from __future__ import annotations

import math
import random
from itertools import accumulate


def send_times(count: int, rate: float, burstiness: float, rng: random.Random) -> list[float]:
    """Seconds from the start. Gaps are Gamma(burstiness, 1 / (rate x burstiness)), rescaled to a total of count / rate.

    The rescaling keeps the offered load at the rate asked for, whatever the seed.
    """
    if math.isinf(rate):
        return [0.0] * count
    if math.isinf(burstiness):
        return [(index + 1) / rate for index in range(count)]
    times = list(accumulate(rng.gammavariate(burstiness, 1 / (rate * burstiness)) for _ in range(count)))
    scale = count / rate / times[-1] if times[-1] > 0 else 0.0
    return [time * scale for time in times]
