"""One trace from the door to the phases of the native engine, both with exporters of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn

from backends.native import NativeBackend
from backends.telemetry.otlp import open_tracing
from native_engine.server.traces import SERVICE
from tests.collector import Collector, collecting
from tests.gateway.conftest import StartDoor
from tests.native_engine.server.conftest import Bench, bench, tiny_gguf, tokenizer

# Fixtures of an engine whose arithmetic is a script.
__all__ = ["bench", "tiny_gguf", "tokenizer"]


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    async with collecting() as collector:
        yield collector


@pytest.fixture
async def engine(bench: Bench, collector: Collector, tmp_path: Path) -> AsyncIterator[NativeBackend]:
    """Behind its own socket, as in production."""
    tracing = open_tracing(SERVICE, collector.url)
    bench.service.tracing = tracing
    config = uvicorn.Config(bench.app, uds=str(tmp_path / "e.sock"), lifespan="off", log_level="warning")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    yield NativeBackend("fake", f"unix:{tmp_path / 'e.sock'}")
    await server.shutdown()
    tracing.close()


async def test_a_request_is_one_trace_from_the_door_to_the_engines_phases(
    start_door: StartDoor, bench: Bench, engine: NativeBackend, collector: Collector
) -> None:
    bench.say("hello world")
    door = await start_door(engine, otlp_endpoint=collector.url)
    async with door.post({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}) as response:
        assert response.status == 200
    spans = await collector.until("POST /v1/chat/completions", "chat tiny", "llm_request", "queue", "prefill", "decode")
    assert len({span.trace_id for span in collector.spans}) == 1
    root, attempt, request = spans["POST /v1/chat/completions"], spans["chat tiny"], spans["llm_request"]
    assert (root.parent, attempt.parent, request.parent) == ("", root.id, attempt.id)
    assert {span.service for span in collector.spans if span.parent == request.id} == {SERVICE}
    assert attempt.began <= request.began <= request.ended
    assert attempt.attributes["gen_ai.provider.name"] == "sekisho"
    ids = {span.attributes["sekisho.request_id"] for span in (root, attempt, request)}
    assert ids == {response.headers["x-request-id"]}
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"):
        assert attempt.attributes[name] == request.attributes[name]
