"""Spans by OpenTelemetry's SDK, sent by OTLP over HTTP from a thread of its own. Import it by `otlp.open_tracing` only.

Nothing of this is global: no other library's spans come with ours, and a process may have several.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from backends.telemetry.otlp import TRACES_PATH
from backends.telemetry.spans import Attributes, Kind, SilentSpan, Span, error_type

log = logging.getLogger("sekisho.tracing")

_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
# Spans wait in memory for the exporter; what is more is dropped. A collector that is away costs these, and no request.
_LONGEST_QUEUE = 2048
_BATCH = 512
_CLOSING_SECONDS = 2.0
# Beyond it an attribute is cut. Only recorded prompts come near.
_LONGEST_ATTRIBUTE = 256 * 1024
# How a stage ends whose client has left.
_LEFT = frozenset({"cancelled", "client_gone", "client_stalled"})


class Tracing:
    """Exports until `close`. Its methods may be called from any thread, and raise nothing."""

    def __init__(self, service: str, endpoint: str, ratio: float) -> None:
        # Its words of every failed try would fill the log; `_Exporter` says once what changes.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._provider = TracerProvider(
            # A decision once taken holds for the whole trace, also beyond this process.
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=Resource.create({"service.name": service, "service.version": _version()}),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=_LONGEST_ATTRIBUTE),
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(_Exporter(endpoint), max_queue_size=_LONGEST_QUEUE, max_export_batch_size=_BATCH)
        )
        self._tracer = self._provider.get_tracer("sekisho")

    def begin(self, name: str, kind: Kind, traceparent: str = "", began_ns: int | None = None) -> Span:
        """The first span of this process. `traceparent`: a valid one makes it a part of the caller's trace."""
        context = set_span_in_context(_remote(traceparent), Context()) if traceparent else Context()
        span = self._tracer.start_span(name, context, _KINDS[kind], start_time=began_ns)
        # The decision holds for all that is within: of what is not sampled nothing more is made than its ids.
        return _Span(self._tracer, span) if span.is_recording() else SilentSpan(_traceparent(span))

    def close(self) -> None:
        """Sends what it has, for two seconds at most."""
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSING_SECONDS)


class _Span:
    """Of one that is sampled."""

    recording = True

    def __init__(self, tracer: Tracer, span: OtelSpan) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def traceparent(self) -> str:
        return _traceparent(self._span)

    def child(self, name: str, kind: Kind = "internal", began_ns: int | None = None) -> Span:
        context = set_span_in_context(self._span, Context())
        return _Span(self._tracer, self._tracer.start_span(name, context, _KINDS[kind], start_time=began_ns))

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def event(self, name: str, attributes: Attributes, at_ns: int) -> None:
        self._span.add_event(name, attributes, at_ns)

    def fail(self, error_type: str, *, ours: bool = True) -> None:
        self._span.set_attribute("error.type", error_type)
        if ours:
            self._span.set_status(Status(StatusCode.ERROR))

    def end(self, at_ns: int | None = None) -> None:
        self._span.end(at_ns)

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            name = error_type(error)
            self.fail(name, ours=name not in _LEFT)
        self.end()


class _Exporter(SpanExporter):
    """Says in the log when spans begin to be lost, and when they arrive again."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._exporter = OTLPSpanExporter(endpoint + TRACES_PATH)
        self._lost = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        lost = result is not SpanExportResult.SUCCESS
        if lost and not self._lost:
            log.warning("traces do not reach %s and are lost; requests go on without them", self._endpoint)
        elif self._lost and not lost:
            log.warning("traces reach %s again", self._endpoint)
        self._lost = lost
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _traceparent(span: OtelSpan) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _remote(traceparent: str) -> OtelSpan:
    _, trace_id, span_id, flags = traceparent.split("-")
    return NonRecordingSpan(SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16) & 1)))


def _version() -> str:
    try:
        return version("sekisho")
    except PackageNotFoundError:  # run from its sources
        return "unknown"
