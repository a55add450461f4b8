"""Traces through the real exporter to a real collector: one trace a request, right parents, names and attributes."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from backends.errors import Broken, Unreachable
from backends.fake import FakeBackend, Script, chat_script
from backends.telemetry.otlp import open_tracing
from gateway.settings import SettingsError, load
from tests.collector import Collector, Sent, collecting
from tests.gateway.conftest import AUTH, RunningDoor, StartDoor, ask, eventually
from tests.house.tree import ROOT

SERVER, CLIENT, INTERNAL = 2, 3, 1
SAMPLED = 1  # of the flags
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE_ID}-b7ad6b7169203331-01"
ROUTE = "POST /v1/chat/completions"
SECRET = "the-words-of-a-person"  # stands in prompts, and comes back in answers


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    async with collecting() as collector:
        yield collector


async def chat(door: RunningDoor, body: dict[str, Any] | None = None, **options: Any) -> aiohttp.ClientResponse:
    async with door.post(body or ask(), **options) as response:
        await response.read()
        return response


async def test_a_request_is_one_trace_of_its_stages(start_door: StartDoor, collector: Collector) -> None:
    door = await start_door(otlp_endpoint=collector.url)
    body = ask(max_tokens=9, temperature=0.5, top_p=1, seed=7, stop=["never"])
    response = await chat(door, body)
    spans = await collector.until("authenticate", "queue", "chat fake", "settle", ROUTE)
    root, attempt = spans[ROUTE], spans["chat fake"]
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert {span.parent for span in collector.spans if span != root} == {root.id}
    assert (root.parent, root.service) == ("", "sekisho-gateway")
    assert {name: span.kind for name, span in spans.items()} == {
        ROUTE: SERVER,
        "authenticate": INTERNAL,
        "queue": INTERNAL,
        "chat fake": CLIENT,
        "settle": INTERNAL,
    }
    order = [spans[name].began for name in (ROUTE, "authenticate", "queue", "chat fake", "settle")]
    assert order == sorted(order)
    assert root.began <= attempt.began <= attempt.ended <= root.ended
    request_id = response.headers["x-request-id"]
    assert root.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "sekisho.request_id": request_id,
        "sekisho.tenant": "default",
    }
    assert spans["queue"].attributes == {"sekisho.backend": "fake"}
    first = attempt.attributes.pop("gen_ai.response.time_to_first_chunk")
    assert 0 < first < (attempt.ended - attempt.began) / 1e9
    assert attempt.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "fake",
        "gen_ai.request.stream": False,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.seed": 7,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.output_tokens": 4,
        "sekisho.backend": "fake",
        "sekisho.request_id": request_id,
        "sekisho.attempt": 1,
    }
    assert not any(span.failed for span in collector.spans)


async def test_the_engine_is_told_the_attempt_that_it_is_a_part_of(start_door: StartDoor, collector: Collector) -> None:
    door = await start_door(otlp_endpoint=collector.url)
    await chat(door)
    attempt = (await collector.until("chat fake"))["chat fake"]
    (asked,) = door.backend.asked
    *ids, flags = asked.headers["traceparent"].split("-")
    assert ids == ["00", attempt.trace_id, attempt.id]
    assert int(flags, 16) & SAMPLED


async def test_a_number_that_cannot_be_sent_takes_no_other_span_with_it(collector: Collector) -> None:
    tracing = open_tracing("test", collector.url)
    for name, value in (("too large", 2**63), ("large", 2**63 - 1), ("too small", -(2**63) - 1)):
        with tracing.begin(name, "internal") as span:
            span.set({"number": value})
    spans = await collector.until("too large", "large", "too small")
    assert [spans[name].attributes for name in ("too large", "large", "too small")] == [{}, {"number": 2**63 - 1}, {}]
    tracing.close()


async def test_each_try_is_a_span_and_says_how_it_failed(start_door: StartDoor, collector: Collector) -> None:
    broken = FakeBackend(lambda body: Script([Unreachable("away")]), name="one")
    refusing = FakeBackend(lambda body: Script([b"{}"], status=503), name="two")
    fine = FakeBackend(name="three")
    engines = {"one": broken, "two": refusing, "three": fine}
    named = [{"name": name, "kind": "fake", "url": "http://x", "tier": tier} for tier, name in enumerate(engines)]
    door = await start_door(engines=engines, backends=named, otlp_endpoint=collector.url)
    response = await chat(door)
    assert response.status == 200
    await collector.until(ROUTE)
    tries = sorted(collector.named("chat fake"), key=lambda span: span.began)
    assert [(each.attributes["sekisho.backend"], each.attributes.get("error.type"), each.failed) for each in tries] == [
        ("one", "unreachable", True),
        ("two", "503", True),
        ("three", None, False),
    ]
    assert [each.attributes["sekisho.attempt"] for each in tries] == [1, 2, 3]
    turns = sorted(collector.named("queue"), key=lambda span: span.began)
    assert [turn.attributes["sekisho.backend"] for turn in turns] == ["one", "two", "three"]


async def test_a_request_that_fails_says_so_and_one_that_is_refused_is_no_error_of_ours(
    start_door: StartDoor, collector: Collector
) -> None:
    door = await start_door(FakeBackend(lambda body: Script([Broken("gone")])), otlp_endpoint=collector.url)
    assert (await chat(door)).status == 502
    failed = (await collector.until(ROUTE))[ROUTE]
    assert (failed.failed, failed.attributes["error.type"]) == (True, "engine_error")
    collector.spans.clear()
    assert (await chat(door, headers={"authorization": "Bearer wrong"})).status == 401
    spans = await collector.until(ROUTE, "authenticate")
    assert (spans[ROUTE].failed, spans[ROUTE].attributes["error.type"]) == (False, "invalid_api_key")
    assert spans[ROUTE].attributes["http.response.status_code"] == 401
    assert "sekisho.tenant" not in spans[ROUTE].attributes


async def test_a_client_that_leaves_is_no_error_of_ours(start_door: StartDoor, collector: Collector) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(["a"] * 500, gap=0.05)), otlp_endpoint=collector.url)
    async with door.post(ask(stream=True)) as response:
        await response.content.readany()
    spans = await collector.until(ROUTE, "chat fake", "settle")
    assert (spans[ROUTE].failed, spans[ROUTE].attributes["error.type"]) == (False, "client_gone")
    assert (spans["chat fake"].failed, spans["chat fake"].attributes["error.type"]) == (False, "cancelled")
    assert spans["chat fake"].attributes["gen_ai.usage.output_tokens"] >= 1


async def test_a_span_names_the_route_and_never_what_stood_in_its_place(
    start_door: StartDoor, collector: Collector
) -> None:
    door = await start_door(otlp_endpoint=collector.url)
    for path in (f"/v1/models/{SECRET}", f"/{SECRET}?{SECRET}"):
        async with door.client.get(path) as response:
            assert response.status == 404
    spans = await collector.until("GET /v1/models/{model}", "GET")
    assert spans["GET"].attributes["http.response.status_code"] == 404
    assert "http.route" not in spans["GET"].attributes
    assert SECRET.encode() not in b"".join(collector.bodies)


async def test_probes_are_not_traced(start_door: StartDoor, collector: Collector) -> None:
    door = await start_door(otlp_endpoint=collector.url)
    async with door.client.get("/healthz"), door.client.get("/readyz"):
        pass
    await chat(door)
    await collector.until(ROUTE)
    assert not any(span.name.startswith("GET") for span in collector.spans)


async def _trace_heeded(door: RunningDoor, collector: Collector, *headers: tuple[str, str]) -> Sent:
    await chat(door, headers=[*AUTH.items(), *headers])
    return (await collector.until(ROUTE))[ROUTE]


async def test_a_clients_trace_is_not_believed_unless_its_address_is_named(
    start_door: StartDoor, collector: Collector
) -> None:
    door = await start_door(otlp_endpoint=collector.url, trace_context_from=["10.0.0.0/8"])
    root = await _trace_heeded(door, collector, ("traceparent", CALLER))
    assert (root.trace_id != TRACE_ID, root.parent) == (True, "")
    assert TRACE_ID not in door.backend.asked[0].headers["traceparent"]


async def test_the_trace_of_a_named_caller_goes_on(start_door: StartDoor, collector: Collector) -> None:
    door = await start_door(otlp_endpoint=collector.url, trace_sample_ratio=0, trace_context_from=["127.0.0.0/8"])
    root = await _trace_heeded(door, collector, ("traceparent", CALLER))
    assert (root.trace_id, root.parent) == (TRACE_ID, "b7ad6b7169203331")
    assert door.backend.asked[0].headers["traceparent"].startswith(f"00-{TRACE_ID}-")


@pytest.mark.parametrize(
    ("named", "heeded"),
    [("127.0.0.1", True), ("10.1.1.1", True), ("10.2.2.2", False)],
    ids=["proxy", "client", "other"],
)
async def test_behind_a_proxy_either_it_or_who_asks_through_it_may_be_named(
    start_door: StartDoor, collector: Collector, named: str, heeded: bool
) -> None:
    door = await start_door(otlp_endpoint=collector.url, trusted_proxies=["127.0.0.1"], trace_context_from=[named])
    root = await _trace_heeded(door, collector, ("traceparent", CALLER), ("x-forwarded-for", "10.1.1.1"))
    assert (root.trace_id == TRACE_ID) == heeded


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01")],
        [("traceparent", f"ff-{TRACE_ID}-b7ad6b7169203331-01")],
        [("traceparent", CALLER + "-more")],
        [("traceparent", CALLER), ("traceparent", CALLER)],
    ],
    ids=["zeros", "version", "longer", "twice"],
)
async def test_a_trace_that_is_not_clear_is_begun_anew(
    start_door: StartDoor, collector: Collector, headers: list[tuple[str, str]]
) -> None:
    door = await start_door(otlp_endpoint=collector.url, trace_context_from=["127.0.0.1"])
    assert (await _trace_heeded(door, collector, *headers)).trace_id != TRACE_ID


async def test_without_a_collector_a_named_callers_trace_still_reaches_the_engine(start_door: StartDoor) -> None:
    door = await start_door(trace_context_from=["127.0.0.1"])
    await chat(door, headers={"traceparent": CALLER})
    assert door.backend.asked[0].headers["traceparent"] == CALLER


async def test_what_is_not_sampled_is_not_sent_and_the_engine_is_told_so(
    start_door: StartDoor, collector: Collector
) -> None:
    door = await start_door(otlp_endpoint=collector.url, trace_sample_ratio=0)
    await chat(door)
    assert not int(door.backend.asked[0].headers["traceparent"][-2:], 16) & SAMPLED
    await door.app.traces.aclose()  # sends whatever there is
    assert collector.spans == []


async def test_a_collector_that_is_away_hurts_neither_requests_nor_the_end(
    start_door: StartDoor, collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with socket.socket() as reserved:  # bound, and listening to nobody
        reserved.bind(("127.0.0.1", 0))
        door = await start_door(otlp_endpoint=f"http://127.0.0.1:{reserved.getsockname()[1]}")
        for _ in range(3):
            assert (await chat(door)).status == 200
        await eventually(lambda: "are lost" in caplog.text, 30)
        assert (await chat(door)).status == 200
        async with asyncio.timeout(20):
            await door.app.traces.aclose()
    assert caplog.text.count("are lost") == 1


async def test_a_collector_that_comes_back_is_told_once(
    start_door: StartDoor, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400  # which is not tried again
    door = await start_door(otlp_endpoint=collector.url)
    await chat(door)
    await eventually(lambda: "are lost" in caplog.text, 30)
    collector.status = 200
    await chat(door)
    await collector.until(ROUTE)
    await eventually(lambda: "again" in caplog.text, 30)
    told = [record for record in caplog.records if record.levelno >= logging.WARNING and "trac" in record.message]
    assert [record.name for record in told] == ["sekisho.tracing", "sekisho.tracing"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "collector:4318",
        "ftp://collector",
        "http://",
        "http://user:secret@collector",
        "http://c:x",
        "http://c/v1/traces",
    ],
)
def test_a_collectors_address_is_checked(endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"otlp_endpoint: .* expected http://host:port"):
        load(otlp_endpoint=endpoint)


def test_settings_of_traces_come_from_variables() -> None:
    environ = {
        "SEKISHO_OTLP_ENDPOINT": "http://127.0.0.1:4318/",
        "SEKISHO_TRACE_CONTEXT_FROM": "10.0.0.0/8, 192.168.1.7",
        "SEKISHO_RECORD_PROMPTS_OF": "tests,demo",
    }
    settings = load(environ=environ)
    assert settings.otlp_endpoint == "http://127.0.0.1:4318"
    assert settings.trace_context_from == ("10.0.0.0/8", "192.168.1.7")
    assert settings.record_prompts_of == ("tests", "demo")


_WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name="opentelemetry")
sys.meta_path.insert(0, Absent())
from gateway.cli.main import main
main()
"""


@pytest.mark.parametrize("command", [["serve"], ["up", "--no-engine"]], ids=["serve", "up"])
def test_without_the_extra_the_start_stops_and_says_what_to_install(command: list[str], tmp_path: Any) -> None:
    environ = {"SEKISHO_OTLP_ENDPOINT": "http://127.0.0.1:4318", "SEKISHO_DATA_DIR": str(tmp_path / "data")}
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *command], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2
    said = " ".join(result.stderr.split())
    assert "opentelemetry is not installed: pip install 'sekisho[tracing]'" in said
    assert "Traceback" not in said


def test_a_stage_that_nobody_traces_makes_nothing(tell: Any) -> None:
    from backends.telemetry.spans import NO_SPAN

    began = time.perf_counter()
    for _ in range(20_000):
        with NO_SPAN.child("queue") as span:
            span.set({"sekisho.backend": "fake"})
    tell(f"a stage that nobody traces: {(time.perf_counter() - began) / 20_000 * 1e9:.0f} ns")
    assert NO_SPAN.child("queue") is NO_SPAN
