"""How long prompts and answers are that people shared: a spread to draw from, around whatever mean is asked for.

Percentiles of the first turns of 5,678 conversations of ShareGPT with GPT-4, in tokens of Llama 2: lengths that came
with Sarathi-Serve (Agrawal et al., OSDI 2024; microsoft/sarathi-serve at 72339db, in data/processed_traces). No
lognormal fits both: prompts are short with a long tail, answers spread evenly up to their limit of 1024. The two do not
depend on one another (r = 0.02).
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

# (percent, tokens that so many do not exceed). The longest 2.3 % of the prompts, up to 7398 tokens, are cut to 8 means:
# the context that a run needs is known before it.
_PROMPTS = (
    (0, 1), (10, 16), (20, 23), (30, 32), (40, 45), (50, 64), (60, 95), (70, 150), (80, 262), (90, 600), (95, 1089),
    (97.7, 1690), (100, 1690),
)  # fmt: skip
_ANSWERS = (
    (0, 1), (10, 67), (20, 176), (30, 309), (40, 393), (50, 471), (60, 555), (70, 633), (80, 742), (90, 871), (95, 937),
    (99, 1003), (100, 1024),
)  # fmt: skip

Percentiles = Sequence[tuple[float, float]]


class Spread:
    """Between percentiles the logarithm of a length rises evenly."""

    def __init__(self, percentiles: Percentiles) -> None:
        self._percents = [percent for percent, _ in percentiles]
        self._lengths = [length for _, length in percentiles]
        self.mean = math.fsum(
            (above[0] - below[0]) / 100 * _log_mean(below[1], above[1]) for below, above in pairwise(percentiles)
        )

    def drawn(self, rng: random.Random, mean: float) -> int:
        """A length of this spread, scaled to have that mean; at least 1, at most 8 means."""
        percent = rng.uniform(0, 100)
        above = max(1, bisect_left(self._percents, percent))
        (low, high), (least, most) = self._percents[above - 1 : above + 1], self._lengths[above - 1 : above + 1]
        length = least * math.exp(math.log(most / least) * (percent - low) / (high - low))
        return max(1, round(length * mean / self.mean))


def _log_mean(low: float, high: float) -> float:
    """The mean of what rises from `low` to `high` with an even logarithm."""
    return (high - low) / math.log(high / low) if high > low else low


PROMPTS, ANSWERS = Spread(_PROMPTS), Spread(_ANSWERS)
