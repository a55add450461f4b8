"""Traces of requests: where they go, whose traceparent is believed, what the server's span says. Knows no stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from backends.telemetry.otlp import open_tracing
from backends.telemetry.spans import NO_SPAN, SilentSpan, Span, coded, traceparent_of
from gateway.scope import RequestScope
from gateway.settings import Settings

SERVICE = "sekisho-gateway"
_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traces:
    """Of one gateway, until `aclose`. Raises NotInstalled where traces are asked for and cannot be made.

    `is_in`: whether an address is in one of these networks.
    """

    def __init__(self, settings: Settings, is_in: Callable[[str, tuple[str, ...]], bool]) -> None:
        endpoint = settings.otlp_endpoint
        self._tracing = open_tracing(SERVICE, endpoint, settings.trace_sample_ratio) if endpoint else None
        self._callers = settings.trace_context_from
        self._is_in = is_in

    def begin(self, request: RequestScope) -> Span:
        """The request's own span; `end` ends it."""
        caller = self._caller(request) if self._callers else ""
        if self._tracing is None:
            return SilentSpan(caller) if caller else NO_SPAN
        return self._tracing.begin(_method(request), "server", caller)

    def end(self, request: RequestScope) -> None:
        """HTTP's conventions, with the route in the place of the path: that may hold ids, or anything."""
        span = request.span
        if span.recording:
            known = request.route != "unknown"
            span.set({"http.request.method": _method(request), "sekisho.request_id": request.request_id})
            span.set({"http.response.status_code": request.status} | ({"http.route": request.route} if known else {}))
            if known:
                span.rename(f"{_method(request)} {request.route}")
            if request.principal is not None:
                span.set({"sekisho.tenant": request.principal.tenant})
            if request.outcome != "ok":
                span.fail(coded(request.outcome) or str(request.status), ours=request.status >= 500)
        span.end()

    async def aclose(self) -> None:
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def _caller(self, request: RequestScope) -> str:
        """What whoever asks says of its trace. Believed, it could have all of its requests recorded, or put its spans
        into somebody else's trace."""
        traceparent = traceparent_of(request.headers.get(b"traceparent"))
        if not traceparent or b"traceparent" in request.repeated:
            return ""
        # A proxy of ours that begins traces, or whoever asks through it.
        named = self._is_in(request.peer, self._callers) or self._is_in(request.client, self._callers)
        return traceparent if named else ""


def _method(request: RequestScope) -> str:
    return request.method if request.method in _KNOWN_METHODS else "HTTP"
