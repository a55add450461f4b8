"""What a trace says of a request in the engine, through the real exporter to a real collector."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

import pytest

from backends.telemetry.lines import JsonFormatter
from backends.telemetry.otlp import open_tracing
from native_engine.config import EngineConfig
from native_engine.server.serve import StartRefused, serve_engine
from native_engine.server.traces import SERVICE
from tests.collector import Collector, collecting
from tests.native_engine.server.conftest import Bench

SERVER, INTERNAL = 2, 1
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = CALLER[:-2] + "00"


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> AsyncIterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    async with collecting() as collector:
        tracing = open_tracing(SERVICE, collector.url)
        bench.service.tracing = tracing
        yield collector
        tracing.close()


async def chat(bench: Bench, traceparent: str = CALLER, **fields: object) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "secret words"}], **fields}
    answer = await bench.client.post(
        "/v1/chat/completions", body, {"traceparent": traceparent, "x-request-id": "asked-1"}
    )
    assert answer.status in (200, 500)


async def test_a_request_is_a_span_in_its_callers_trace_and_its_stages_fill_it(
    bench: Bench, collector: Collector
) -> None:
    bench.say("hello world")
    await chat(bench, max_tokens=20, temperature=0, top_p=0.5)
    spans = await collector.until("llm_request", "queue", "prefill", "decode")
    request = spans["llm_request"]
    assert (request.trace_id, request.parent, request.kind) == (CALLER[3:35], CALLER[36:52], SERVER)
    assert request.service == "sekisho-engine"
    stages = [spans[name] for name in ("queue", "prefill", "decode")]
    assert {(stage.parent, stage.trace_id, stage.kind) for stage in stages} == {
        (request.id, request.trace_id, INTERNAL)
    }
    assert request.began <= stages[0].began
    assert [stage.ended for stage in stages[:2]] == [stage.began for stage in stages[1:]]
    assert stages[2].ended <= request.ended
    told = request.attributes
    seconds = {name: told.pop(name) for name in list(told) if name.startswith("gen_ai.latency.")}
    prefill, decode = (seconds[f"gen_ai.latency.time_in_model_{stage}"] for stage in ("prefill", "decode"))
    assert seconds["gen_ai.latency.time_in_model_inference"] == pytest.approx(prefill + decode)
    assert seconds["gen_ai.latency.time_to_first_token"] == pytest.approx(
        seconds["gen_ai.latency.time_in_queue"] + prefill
    )
    assert seconds["gen_ai.latency.e2e"] == pytest.approx((request.ended - request.began) / 1e9, abs=1e-4)
    assert told.pop("gen_ai.usage.input_tokens") > 2
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sekisho",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.request.id": "asked-1",
        "sekisho.request_id": "asked-1",
        "gen_ai.request.max_tokens": 20,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.output_tokens": len(bench.runner.script) + 1,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    assert not request.failed
    assert b"secret words" not in b"".join(collector.bodies)
    assert b"hello world" not in b"".join(collector.bodies)


async def test_each_preemption_is_an_event_within_the_request(bench: Bench, collector: Collector) -> None:
    await chat(bench, n=8, max_tokens=200, ignore_eos=True)  # more than the cache holds
    request = (await collector.until("llm_request"))["llm_request"]
    assert len(request.events) == bench.engine.scheduler.num_preemptions > 0
    for name, at, attributes in request.events:
        assert name == "preempted"
        assert request.began < at < request.ended
        assert attributes["sekisho.tokens_to_recompute"] > 0


async def test_a_request_that_fails_is_an_error_and_has_the_stages_that_it_came_to(
    bench: Bench, collector: Collector
) -> None:
    bench.runner.fail_after = 0
    await chat(bench)
    request = (await collector.until("llm_request"))["llm_request"]
    assert (request.failed, request.attributes["error.type"]) == (True, "engine_error")
    assert "gen_ai.latency.time_to_first_token" not in request.attributes
    assert not collector.named("decode")


async def test_a_request_whose_client_left_is_no_error(bench: Bench, collector: Collector) -> None:
    bench.runner.gated = True
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "a"}]}).encode()
    answer, leave = bench.client.open("POST", "/v1/chat/completions", body)
    await bench.until(lambda: bench.engine.scheduler.has_work)
    leave()
    await answer
    request = (await collector.until("llm_request", "queue"))["llm_request"]
    assert (request.failed, request.attributes["error.type"], request.parent) == (False, "cancelled", "")


async def test_what_the_caller_does_not_sample_is_not_sent(bench: Bench, collector: Collector) -> None:
    await chat(bench, UNSAMPLED)
    await chat(bench)
    await collector.until("llm_request", "decode")
    assert len(collector.named("llm_request")) == 1


async def test_a_preemption_is_logged_with_its_sequence(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "native_engine")
    await chat(bench, n=8, max_tokens=200, ignore_eos=True)
    record = next(record for record in caplog.records if record.message.startswith("preempted"))
    assert json.loads(JsonFormatter().format(record))["sequence_id"].startswith("asked-1-")


async def test_what_goes_wrong_in_a_request_is_logged_with_its_id_and_its_trace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    logging.getLogger("native_engine").addHandler(handler := Kept())
    monkeypatch.setattr(bench.service.tokenizer, "encode", _fail)
    await chat(bench)
    logging.getLogger("native_engine").removeHandler(handler)
    (line,) = map(json.loads, lines)
    assert (line["request_id"], line["trace_id"]) == ("asked-1", CALLER[3:35])
    assert "secret words" not in lines[0]


def _fail(*args: object, **options: object) -> None:
    raise RuntimeError(f"cannot take {args}")


@pytest.mark.parametrize("endpoint", ["collector:4318", "http://c/v1/traces"])
def test_a_collectors_address_is_checked_before_anything_starts(endpoint: str, tmp_path: object) -> None:
    with pytest.raises(StartRefused, match=r"otlp_endpoint: .* expected http://host:port"):
        serve_engine(EngineConfig(model="x"), data_dir=str(tmp_path), uds=f"{tmp_path}/e.sock", otlp_endpoint=endpoint)
