"""Prometheus metrics of the door. Labels are of bounded variety: routes, statuses, codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.scope import RequestScope

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_SMALL_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1)


class Metrics:
    """One set an app, so that several apps in a process do not meet."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("sekisho_requests", "Requests answered.", ("route", "status"), registry=registry)
        self.failures = Counter(
            "sekisho_failures", "Requests that failed, by error code.", ("code",), registry=registry
        )
        self.auth_failures = Counter(
            "sekisho_auth_failures", "Credentials that were refused, by reason.", ("reason",), registry=registry
        )
        self.attempts = Counter(
            "sekisho_attempts",
            "Requests sent to a backend, by their end.",
            ("backend", "result"),
            registry=registry,
        )
        self.moved = Counter(
            "sekisho_moved", "Requests that another backend began again, or continued.", ("how",), registry=registry
        )
        self.tokens = Counter("sekisho_tokens", "Tokens booked.", ("kind",), registry=registry)
        self.batch_lines = Counter(
            "sekisho_batch_lines", "Lines of batches with a result.", ("result",), registry=registry
        )
        self.total = Histogram(
            "sekisho_e2e_seconds", "Head received to last byte sent.", buckets=_SECONDS, registry=registry
        )
        self.ttft = Histogram(
            "sekisho_ttft_seconds", "Head received to first token, queue included.", buckets=_SECONDS, registry=registry
        )
        self.queue = Histogram("sekisho_queue_seconds", "Waiting for a turn.", buckets=_SECONDS, registry=registry)
        self.overhead = Histogram(
            "sekisho_overhead_seconds",
            "The door's own time before the engine is asked.",
            buckets=_SMALL_SECONDS,
            registry=registry,
        )
        self._gauges: list[Gauge] = []

    def book(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.tokens.labels("prompt").inc(prompt_tokens)
        self.tokens.labels("completion").inc(completion_tokens)

    def completion(self, request: RequestScope, seconds: float) -> None:
        """The times of a completion request, as far as it came."""
        self.total.observe(seconds)
        if request.dispatched:
            self.queue.observe(request.queued_seconds)
            self.overhead.observe(max(0.0, request.dispatched - request.read - request.queued_seconds))
        if request.first_token:
            self.ttft.observe(request.first_token - request.received)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """A figure that is read when it is asked for."""
        gauge = Gauge(name, help_text, registry=self._registry)
        gauge.set_function(value)
        self._gauges.append(gauge)

    def of_backends(self, name: str, help_text: str, values: Callable[[], Mapping[str, float]]) -> None:
        """A figure of each backend that is read when it is asked for."""
        self._registry.register(_Family(name, help_text, values))

    def render(self) -> bytes:
        return bytes(generate_latest(self._registry))


class _Family(Collector):
    """One gauge with a label for each backend that there is when it is read."""

    def __init__(self, name: str, help_text: str, values: Callable[[], Mapping[str, float]]) -> None:
        self._name = name
        self._help_text = help_text
        self._values = values

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._help_text, labels=("backend",))
        for backend, value in self._values().items():
            family.add_metric((backend,), value)
        yield family
