"""The log: one JSON object a line whatever is said, the request's id on it, and nobody's words unless asked for."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from backends.errors import Broken, translate
from backends.fake import DONE, FakeBackend, Script, chat_chunk, chat_script, event
from backends.telemetry import lines
from gateway.telemetry import logs
from tests.collector import Collector, collecting
from tests.gateway.conftest import ADMIN_KEY, AUTH, RunningDoor, StartDoor, ask, eventually

WORDS = "what-a-person-asked"  # of prompts
ANSWER = "what-a-model-said"
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
EVIL = 'a\nb\r{"level": "forged"}\u2028\u2029\x85\x1b[2J\x9b2J\x00\ud800"'
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Log(io.StringIO):
    """Standard error, as the process would write it."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def clear(self) -> None:
        self.seek(0)
        self.truncate()

    def of(self, logger: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["logger"] == logger]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """With all that the gateway can be made to say."""
    root, own, prompts = logging.getLogger(), logging.getLogger("sekisho"), logging.getLogger("sekisho.prompts")
    before, levels = root.handlers, [(each, each.level) for each in (root, own, prompts)]
    monkeypatch.setattr(sys, "stderr", log := Log())
    logs.setup("debug")
    yield log
    root.handlers = before
    logging.captureWarnings(False)
    for logger, level in levels:
        logger.setLevel(level)


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    async with collecting() as collector:
        yield collector


async def chat(door: RunningDoor, **fields: Any) -> aiohttp.ClientResponse:
    async with door.post(ask(WORDS, **fields)) as response:
        await response.read()
        return response


async def recorded(written: Log) -> dict[str, Any]:
    await eventually(lambda: written.of("sekisho.prompts"))
    (line,) = written.of("sekisho.prompts")
    return line


# The form -------------------------------------------------------------------------------------------------------


def test_nothing_that_is_said_can_look_like_another_line(written: Log) -> None:
    log = logging.getLogger("sekisho.test")
    log.warning("said %s", EVIL, extra={"fields": {"subject": EVIL, "odd": object()}})
    (line,) = written.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) | {"time": 0, "odd": 0} == {
        "time": 0,
        "level": "warning",
        "logger": "sekisho.test",
        "message": f"said {EVIL}",
        "subject": EVIL,
        "odd": 0,
    }
    assert RFC_3339.fullmatch(json.loads(line)["time"])


def test_what_libraries_say_has_the_same_form_and_begins_at_warnings(
    written: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)  # servers of other tests log in their own way
    for name in ("uvicorn.error", "asyncio", "aiohttp.server"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).error("oh\nno")
    assert [line["message"] for line in written.lines] == ["oh\nno"] * 3


def test_outside_of_requests_an_error_keeps_its_words_and_inside_only_its_places(written: Log) -> None:
    def fail() -> None:
        try:
            raise ValueError(f"cannot read {WORDS}")
        except ValueError as error:
            raise KeyError(WORDS) from error

    for block in (lines.about("r-1", ""), lines.about("r-2", "t-2")):
        with block:
            _log_failure(fail)
    assert WORDS not in written.getvalue()
    first, second = written.lines
    assert (first["request_id"], "trace_id" in first, second["trace_id"]) == ("r-1", False, "t-2")
    places = first["exception"]
    assert places.index("builtins.ValueError") < places.index("builtins.KeyError")
    assert "test_logs.py" in places
    for name in ("asyncio", "uvicorn.error", "native_engine.sampling.sampler"):
        _log_failure(fail, name)
    assert WORDS not in written.getvalue()
    _log_failure(fail)
    assert WORDS in written.lines[-1]["exception"]
    assert "request_id" not in written.lines[-1]


def _log_failure(fail: Any, logger: str = "sekisho.test") -> None:
    try:
        fail()
    except KeyError:
        logging.getLogger(logger).exception("failed")


# Requests -------------------------------------------------------------------------------------------------------


async def test_every_line_of_a_request_has_its_id_and_its_trace(
    start_door: StartDoor, collector: Collector, written: Log
) -> None:
    backend = FakeBackend(lambda body: Script([Broken("gone")]) if len(backend.asked) == 1 else chat_script(["a"]))
    door = await start_door(backend, otlp_endpoint=collector.url)
    written.clear()
    response = await chat(door)
    spans = await collector.until("POST /v1/chat/completions")
    trace_id = spans["POST /v1/chat/completions"].trace_id
    about = [(line.get("request_id"), line.get("trace_id")) for line in written.lines if "request" in line["message"]]
    assert len(about) >= 2  # one of the failed try, and the last
    assert set(about) == {(response.headers["x-request-id"], trace_id)}


async def test_requests_at_the_same_time_do_not_take_each_others_ids(start_door: StartDoor, written: Log) -> None:
    backend = FakeBackend(lambda body: Script([0.02, Broken("gone")]))
    door = await start_door(backend)
    ids = {(await each).headers["x-request-id"] for each in [asyncio.ensure_future(chat(door)) for _ in range(8)]}
    failed = [line for line in written.of("sekisho.attempts") if "gone" in line["message"]]
    assert {line["request_id"] for line in failed} == ids
    assert all(line["request_id"] in line["message"] for line in failed)


async def test_the_last_line_tells_who_what_and_how_long(start_door: StartDoor, written: Log) -> None:
    door = await start_door()
    response = await chat(door)
    await eventually(lambda: written.of("sekisho.access"))
    (line,) = written.of("sekisho.access")
    assert line | {"time": 0, "subject": "", "ms": 0.0, "ttft_ms": 0.0} == {
        "time": 0,
        "level": "info",
        "logger": "sekisho.access",
        "message": "request",
        "request_id": response.headers["x-request-id"],
        "method": "POST",
        "route": "/v1/chat/completions",
        "status": 200,
        "outcome": "ok",
        "ms": 0.0,
        "subject": "",
        "model": "fake",
        "queue_ms": 0.0,
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "ttft_ms": 0.0,
    }


# Nobody's words -------------------------------------------------------------------------------------------------

_QUOTING = {"error": {"message": f"bad: {WORDS}", "type": WORDS, "code": WORDS, "param": WORDS}}


class Quoting(Exception):
    """What nobody expected, and its message quotes the request."""


def _raising(body: bytes) -> Script:
    raise Quoting(body.decode())


SCRIPTS = {
    "fine": lambda body: chat_script([ANSWER]),
    "refused": lambda body: Script([json.dumps(_QUOTING).encode()], status=400),
    "failed": lambda body: Script([json.dumps(_QUOTING).encode()], status=500),
    "error in the stream": lambda body: Script([event(chat_chunk({"content": ANSWER})), event(_QUOTING)]),
    "no JSON": lambda body: Script([b"data: {" + ANSWER.encode() + b"\n\n", DONE]),
    "broken off": lambda body: Script([event(chat_chunk({"content": ANSWER})), Broken("gone")]),
    "a fault of ours": _raising,
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("what", SCRIPTS)
async def test_prompts_and_answers_are_in_no_line_and_no_span(
    start_door: StartDoor, collector: Collector, written: Log, what: str, stream: bool
) -> None:
    door = await start_door(
        FakeBackend(SCRIPTS[what]),
        otlp_endpoint=collector.url,
        recovery_timeout=0,
        max_tries=2,
        record_prompts_of=["another"],
    )
    await chat(door, stream=stream, stop=[WORDS], user=WORDS)
    await collector.until("POST /v1/chat/completions")
    assert len(written.of("sekisho.access")) == 1
    for told in (written.getvalue(), b"".join(collector.bodies).decode("latin-1")):
        assert WORDS not in told
        assert ANSWER not in told
        assert ADMIN_KEY not in told


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", b'{"model": "fake", "messages": [{"role": "user", "content": "' + WORDS.encode()),
        ("/v1/chat/completions", json.dumps({"model": "fake", "messages": WORDS}).encode()),
        ("/v1/chat/completions", json.dumps(ask() | {WORDS: WORDS}).encode()),
        ("/v1/chat/completions", json.dumps(ask() | {"temperature": WORDS}).encode()),
        ("/v1/completions", json.dumps({"model": "fake", "prompt": {WORDS: WORDS}}).encode()),
        ("/v1/embeddings", json.dumps({"model": "fake", "input": [WORDS, None]}).encode()),
        ("/v1/responses", json.dumps({"model": "fake", "input": [{"type": WORDS}]}).encode()),
    ],
    ids=["cut off", "no list", "unknown field", "wrong type", "prompt", "input", "responses"],
)
async def test_a_body_that_is_refused_is_quoted_to_nobody_but_its_sender(
    start_door: StartDoor, collector: Collector, written: Log, path: str, body: bytes
) -> None:
    door = await start_door(otlp_endpoint=collector.url)
    async with door.client.post(path, data=body, headers={"content-type": "application/json"}) as response:
        assert response.status == 400
    await collector.until(f"POST {path}")
    assert len(written.of("sekisho.access")) == 1
    assert WORDS not in written.getvalue()
    assert WORDS.encode() not in b"".join(collector.bodies)


def test_what_a_parser_quotes_of_an_answer_is_not_passed_on() -> None:
    assert ANSWER not in str(translate(aiohttp.ClientPayloadError(f"cannot read {ANSWER}")))
    assert "Errno 111" in str(translate(ConnectionRefusedError(111, "Connection refused")))


# The words of those whose tenant is named -----------------------------------------------------------------------


async def test_of_a_tenant_that_is_named_prompt_and_answer_are_in_log_and_span(
    start_door: StartDoor, collector: Collector, written: Log
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    door = await start_door(
        FakeBackend(lambda body: chat_script([ANSWER, " and more"])),
        otlp_endpoint=collector.url,
        record_prompts_of=["default"],
        log_level="error",
    )
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": WORDS}, image]},
    ]
    async with door.post({"model": "fake", "messages": messages, "stream": True}) as response:
        await response.read()
    attempt = (await collector.until("chat fake"))["chat fake"]
    prompt = [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": WORDS}, {"type": "image_url"}]},
    ]
    answer = [
        {"role": "assistant", "parts": [{"type": "text", "content": f"{ANSWER} and more"}], "finish_reason": "stop"}
    ]
    assert json.loads(attempt.attributes["gen_ai.input.messages"]) == prompt
    assert json.loads(attempt.attributes["gen_ai.output.messages"]) == answer
    line = await recorded(written)
    assert (line["input_messages"], line["output_messages"], line["tenant"]) == (prompt, answer, "default")
    assert line["request_id"] == response.headers["x-request-id"]
    assert ADMIN_KEY not in written.getvalue()


async def test_the_words_are_recorded_at_any_level_and_of_an_answer_that_broke_off_as_far_as_it_came(
    start_door: StartDoor, written: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", written)
    logs.setup("error")
    door = await start_door(FakeBackend(SCRIPTS["broken off"]), record_prompts_of=["default"], recovery_timeout=0)
    await chat(door, stream=True)
    line = await recorded(written)
    assert line["output_messages"][0]["parts"] == [{"type": "text", "content": ANSWER}]
    assert line["output_messages"][0]["finish_reason"] is None


async def test_a_stream_of_an_odd_form_is_passed_on_though_it_cannot_be_recorded(
    start_door: StartDoor, written: Log
) -> None:
    odd = {"index": 0, "delta": {"content": ANSWER, "tool_calls": ["odd"]}, "finish_reason": "stop"}
    steps = [event(chat_chunk({}) | {"choices": [odd]}), DONE]
    door = await start_door(FakeBackend(lambda body: Script(steps)), record_prompts_of=["default"])
    async with door.post(ask(WORDS, stream=True)) as response:
        assert ANSWER in await response.text()
    assert (await recorded(written))["output_messages"] == []
    await eventually(lambda: written.of("sekisho.access"))
    assert written.of("sekisho.access")[0]["outcome"] == "ok"


async def test_a_long_prompt_is_recorded_up_to_a_bound(start_door: StartDoor, written: Log) -> None:
    door = await start_door(record_prompts_of=["default"])
    messages = [{"role": "user", "content": "x" * 60_000}, {"role": "user", "content": "y" * 60_000}]
    async with door.post({"model": "fake", "messages": messages}) as response:
        assert response.status == 200
    line = await recorded(written)
    texts = [message["parts"][0]["content"] for message in line["input_messages"]]
    assert [text[:1] for text in texts] == ["x", "y"]
    assert texts[1].endswith("y… (54464 characters more)")
    assert sum(map(len, texts)) < 66_000


async def test_embeddings_are_recorded_without_their_vectors(start_door: StartDoor, written: Log) -> None:
    vectors = b'{"object": "list", "data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}}'
    door = await start_door(
        FakeBackend(lambda body: Script([vectors], content_type="application/json")), record_prompts_of=["default"]
    )
    async with door.post({"model": "fake", "input": [WORDS, "more"]}, path="/v1/embeddings", headers=AUTH) as response:
        assert response.status == 200
    line = await recorded(written)
    texts = [{"type": "text", "content": WORDS}, {"type": "text", "content": "more"}]
    assert line["input_messages"] == [{"role": "user", "parts": texts}]
    assert line["output_messages"] == []
