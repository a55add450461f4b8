"""Counters and histograms that are written in one event loop only: an observation takes no lock and a bisection.

The client library's own take locks and walk through the edges, several times as long. What is exported is its text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Labels = tuple[str, ...]  # values, in the order of the names


class Counters(Collector):
    """`name` without its `_total`. Without labels it is there from the start, at 0."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self._about = (name, help_text)
        self._labels = labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    @property
    def values(self) -> Mapping[Labels, float]:
        return self._values

    def add(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + by

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(*self._about, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        yield family


class Histograms(Collector):
    """`edges` without the infinite one. Without labels it is there from the start, empty."""

    def __init__(self, name: str, help_text: str, edges: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._about = (name, help_text)
        self._edges = edges
        self._labels = labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._begin(())

    @property
    def counts(self) -> Mapping[Labels, Sequence[int]]:
        """How many fell between two edges, those beyond the last one at the end."""
        return self._counts

    def observe(self, value: float, *labels: str) -> None:
        counts = self._counts.get(labels) or self._begin(labels)
        counts[bisect_left(self._edges, value)] += 1
        self._sums[labels] += value

    def _begin(self, labels: Labels) -> list[int]:
        self._sums[labels] = 0.0
        counts = self._counts[labels] = [0] * (len(self._edges) + 1)
        return counts

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(*self._about, labels=self._labels)
        for labels, counts in self._counts.items():
            total, buckets = 0, []
            for edge, count in zip([*map(str, self._edges), "+Inf"], counts, strict=True):
                total += count
                buckets.append((edge, float(total)))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family


class Gauges(Collector):
    """Figures that are read when they are asked for."""

    _family: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str], values: Callable[[], Mapping[Labels, float]]
    ) -> None:
        self._about = (name, help_text)
        self._labels = labels
        self._values = values

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        family = self._family(*self._about, labels=self._labels)
        for labels, value in self._values().items():
            family.add_metric(labels, value)
        yield family


class Totals(Gauges):
    """The same of what somebody else counts. `name` without its `_total`."""

    _family = CounterMetricFamily
