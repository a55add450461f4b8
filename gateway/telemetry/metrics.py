"""Prometheus metrics of the door. Labels are of bounded variety: nothing that a client says becomes one as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest

from backends.edges import FIRST_TOKEN, INTER_TOKEN, LATENCY
from gateway.scope import RequestScope
from gateway.telemetry.families import Counters, Gauges, Histograms, Labels, Totals
from gateway.telemetry.objectives import USUAL, Objectives, token_seconds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SMALL_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0)
OTHER = "other"  # what is not known stands together under this value
# Codes of errors are ours, but for those of engines, which may say what they like.
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_CODES = 100
# There from the start: Prometheus takes no notice of the step from nothing to one.
_AWAITED_CODES = ("queue_full", "queue_timeout")


class Metrics:
    """One set an app, so that several apps in a process do not meet. Written in the event loop only.

    `knows_model`: whether somebody in charge gave this name to a model; all other names are one label.
    """

    def __init__(self, knows_model: Callable[[str], bool], objectives: Objectives = USUAL) -> None:
        self._registry = CollectorRegistry()
        self._knows_model = knows_model
        self._objectives = objectives
        self._codes: set[str] = set()
        self.requests = self._counters("requests", "Requests answered.", "route", "model", "status", "class")
        self.failures = self._counters("failures", "Requests that failed, by error code.", "code")
        for code in _AWAITED_CODES:
            self.failures.add(self._code(code), by=0)
        self.served = self._counters(
            "slo_requests", "Answers to be generated, by whether they met the objectives.", "model", "class", "result"
        )
        self.auth_failures = self._counters("auth_failures", "Credentials that were refused, by reason.", "reason")
        self.quota_refusals = self._counters("quota_refusals", "Requests over a limit, by the limit's name.", "limit")
        self.attempts = self._counters("attempts", "Requests sent to a backend, by their end.", "backend", "result")
        self.moved = self._counters(
            "moved",
            "Tries after a failed one: again begins anew elsewhere, continued asks for the rest of an answer.",
            "how",
        )
        self.tokens = self._counters("tokens", "Tokens booked.", "model", "kind")
        self.cached_tokens = self._counters(
            "cached_tokens", "Prompt tokens that an engine had cached, of those booked.", "model"
        )
        self.batch_lines = self._counters("batch_lines", "Lines of batches with a result.", "result")
        self.total = self._histograms("e2e", "Head received to last byte sent.", LATENCY, "model", "class")
        self.ttft = self._histograms(
            "ttft", "Head received to first token, queue included.", FIRST_TOKEN, "model", "class"
        )
        self.tpot = self._histograms(
            "tpot", "Each token of an answer after its first, as a mean of the answer.", INTER_TOKEN, "model", "class"
        )
        self.queue = self._histograms("queue", "Waiting for a turn.", LATENCY, "model", "class")
        self.upstream = self._histograms("upstream", "An attempt at a backend: asked to its end.", LATENCY, "backend")
        self.overhead = self._histograms("overhead", "The door's own time before the engine is asked.", _SMALL_SECONDS)
        self.redis = self._histograms("redis", "One round trip to Redis.", _SMALL_SECONDS)

    def answered(self, request: RequestScope, klass: str, seconds: float) -> None:
        """A request has ended. `klass`: the one it would wait in, or none where nobody knows who asked."""
        model = self._model(request.model)
        self.requests.add(request.route, model, str(request.status), klass)
        if request.outcome != "ok":
            self.failures.add(self._code(request.outcome))
        if model:
            self._completion(request, model, klass, seconds)

    def book(self, model: str, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> None:
        model = self._model(model)
        self.tokens.add(model, "prompt", by=prompt_tokens)
        self.tokens.add(model, "completion", by=completion_tokens)
        self.cached_tokens.add(model, by=cached_tokens)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """A figure that is read when it is asked for."""
        self.gauges(name, help_text, (), lambda: {(): value()})

    def gauges(
        self, name: str, help_text: str, labels: Sequence[str], values: Callable[[], Mapping[Labels, float]]
    ) -> None:
        """A figure of each of what there is when it is read."""
        self._registry.register(Gauges(name, help_text, labels, values))

    def of_each(self, label: str, name: str, help_text: str, values: Callable[[], Mapping[str, float]]) -> None:
        """The same with one label."""
        self.gauges(name, help_text, (label,), _by_one(values))

    def totals_of_each(self, label: str, name: str, help_text: str, values: Callable[[], Mapping[str, float]]) -> None:
        """The same of what each counts itself."""
        self._registry.register(Totals(name, help_text, (label,), _by_one(values)))

    def render(self) -> bytes:
        return bytes(generate_latest(self._registry))

    def _completion(self, request: RequestScope, model: str, klass: str, seconds: float) -> None:
        """The times of a completion request, as far as it came."""
        self.total.observe(seconds, model, klass)
        if result := self._objectives.result(request, seconds):
            self.served.add(model, klass, result)
        if request.dispatched:
            self.queue.observe(request.queued_seconds, model, klass)
            self.overhead.observe(max(0.0, request.dispatched - request.read - request.queued_seconds))
        if request.first_token:
            self.ttft.observe(request.first_token - request.received, model, klass)
            if pace := token_seconds(request):
                self.tpot.observe(pace, model, klass)

    def _model(self, name: str) -> str:
        return name if not name or self._knows_model(name) else OTHER

    def _code(self, code: str) -> str:
        if code not in self._codes:
            if len(self._codes) >= _MOST_CODES or not _CODE.fullmatch(code):
                return OTHER
            self._codes.add(code)
        return code

    def _counters(self, name: str, help_text: str, *labels: str) -> Counters:
        counters = Counters(f"sekisho_{name}", help_text, labels)
        self._registry.register(counters)
        return counters

    def _histograms(self, name: str, help_text: str, edges: tuple[float, ...], *labels: str) -> Histograms:
        histograms = Histograms(f"sekisho_{name}_seconds", help_text, edges, labels)
        self._registry.register(histograms)
        return histograms


def _by_one(values: Callable[[], Mapping[str, float]]) -> Callable[[], Mapping[Labels, float]]:
    return lambda: {(one,): value for one, value in values().items()}
