"""A collector that takes OTLP over HTTP on a real socket, and gives the spans back as they were sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Sent:
    """One span. Ids as hexadecimal digits; `parent` is empty where it has none. Times in nanoseconds."""

    service: str
    name: str
    kind: int
    trace_id: str
    id: str
    parent: str
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]


@dataclass
class Collector:
    url: str = ""
    status: int = 200  # what it answers with
    spans: list[Sent] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)  # as they came

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.status == 200:
            self.bodies.append(body)
            self.spans += _read(body)
        return web.Response(status=self.status)

    async def until(self, *names: str) -> dict[str, Sent]:
        """The spans by name, once all of these have come; where a name came more than once, the last."""
        async with asyncio.timeout(30):  # the exporter sends every few seconds
            while not set(names) <= {span.name for span in self.spans}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return {span.name: span for span in self.spans}

    def named(self, name: str) -> list[Sent]:
        return [span for span in self.spans if span.name == name]


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector, app = Collector(), web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


def _read(body: bytes) -> list[Sent]:
    found = []
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(group.resource.attributes)["service.name"]
        for span in [span for scope in group.scope_spans for span in scope.spans]:
            ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
            times = (span.start_time_unix_nano, span.end_time_unix_nano)
            events = [(event.name, event.time_unix_nano, _attributes(event.attributes)) for event in span.events]
            failed, attributes = span.status.code == 2, _attributes(span.attributes)
            found.append(Sent(service, span.name, span.kind, *ids, *times, failed, attributes, events))
    return found


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
