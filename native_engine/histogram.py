"""Counts of observations by size, as Prometheus has them. One thread writes; another may read while it does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Histogram:
    """Observed once a token: a bisection and two additions, where a client library takes locks."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for edge, count in zip([*map(repr, self._edges), "+Inf"], self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{edge}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum!r}"
        yield f"{name}_count{{{labels}}} {total}"
