"""Numbers from samples, by the definitions that the field's benchmarks share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from backends.bench.client import Sample


class Spread(NamedTuple):
    mean: float = 0.0
    median: float = 0.0
    std: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear between neighbours, as numpy's default. `ordered` is ascending and not empty."""
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    if not ordered:
        return Spread()
    mean = math.fsum(ordered) / len(ordered)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / len(ordered))
    return Spread(mean, percentile(ordered, 50), std, percentile(ordered, 95), percentile(ordered, 99))


def inter_token_gaps(samples: Iterable[Sample]) -> list[float]:
    """Every gap between neighbouring pieces of text, pooled over all requests."""
    return [later - earlier for sample in samples for earlier, later in pairwise(sample.text_times)]


def meets(sample: Sample, slos: Mapping[str, float]) -> bool:
    """Whether a request kept every limit (milliseconds)."""
    reached = {"ttft": sample.ttft, "tpot": sample.tpot, "e2el": sample.e2e}
    return all(reached[name] * 1000 <= limit for name, limit in slos.items())


def peak_concurrency(samples: Iterable[Sample]) -> int:
    """The most requests in flight at one moment; one that ends as another starts does not overlap it."""
    steps = sorted(step for s in samples for step in ((s.sent, 1), (s.text_times[-1], -1)))
    return max(accumulate(change for _, change in steps), default=0)


def peak_token_rate(samples: Sequence[Sample], start: float) -> float:
    """Most output tokens within a second counted from the start; a piece of text holds its share of its request's."""
    buckets: dict[int, float] = {}
    for sample in samples:
        share = sample.output_tokens / len(sample.text_times)
        for moment in sample.text_times:
            second = int(moment - start)
            buckets[second] = buckets.get(second, 0.0) + share
    return max(buckets.values(), default=0.0)
