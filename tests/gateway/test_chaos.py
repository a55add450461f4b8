"""Whatever an engine does on the wire, a client has a whole answer or one proper error, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import pytest

from backends.fake import DONE, chat_chunk, event, usage_chunk
from backends.openai import OpenAIBackend
from gateway.streaming import collect
from tests.gateway.conftest import StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import leases, usage

ROLE = event(chat_chunk({"role": "assistant", "content": ""}))
ONE, TWO = event(chat_chunk({"content": "一 "})), event(chat_chunk({"content": "two"}))
FINISH = event(chat_chunk({}, finish="stop"))
USAGE = event(usage_chunk(5, 2))
BEGUN = ROLE + ONE
ANSWER = ROLE + ONE + TWO + FINISH + USAGE + DONE
ERROR = event({"error": {"message": "no room", "type": "SERVICE_UNAVAILABLE", "code": 503}})
APART = 0.05  # seconds, so that what follows comes by itself
FOREVER = "forever"  # the step before it, until the door has had enough


class RawEngine:
    """Says to a POST what `steps` are: bytes are sent as they are, a number is slept; then it closes the connection."""

    def __init__(self) -> None:
        self.url = ""
        self.steps: Sequence[bytes | float | str] = ()
        self.posts: list[str] = []
        self.open = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        self.open -= 1
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET"):
            models = b'{"data":[{"id":"fake","max_model_len":4096}]}'
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(models) + models)
            return
        self.posts.append(head.split()[1])
        before = b""
        for step in self.steps:
            while step == FOREVER:
                writer.write(before)
                await writer.drain()
                await asyncio.sleep(0)
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
                before = step
            elif isinstance(step, float):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), step)


@pytest.fixture
async def engine() -> AsyncIterator[RawEngine]:
    raw = RawEngine()
    server = await asyncio.start_server(raw.handle, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield raw
    server.close()


def head(*headers: str, status: int = 200, kind: str = "text/event-stream") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", f"content-type: {kind}", *headers, "", ""]).encode()


PLAIN = head()  # the end of the connection is the end of the answer
LAST = "connection: close"
CHUNKED = head("transfer-encoding: chunked")


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


def bytewise(answer: bytes) -> bytes:
    return chunked(*(answer[i : i + 1] for i in range(len(answer)))) + b"0\r\n\r\n"


class Case(NamedTuple):
    """`status`: of the error; `begun`: a stream has said something by then, and has the error as an event."""

    name: str
    steps: Sequence[bytes | float | str]
    status: int = 200
    code: str | None = "engine_error"
    begun: bool = False


WHOLE = [
    Case("closed after the end", [PLAIN + ANSWER]),
    Case("one byte at a time", [CHUNKED + bytewise(ANSWER)]),
    Case("CRLF", [PLAIN + ANSWER.replace(b"\n", b"\r\n")]),
    Case(
        "comments, names, ids", [PLAIN + b": hi\n\nretry: 1\n\n" + ANSWER.replace(b"data:", b"event: x\nid: 1\ndata:")]
    ),
    Case("a mark of byte order", [PLAIN + b"\xef\xbb\xbf" + ANSWER]),
    Case("compressed", [head("content-encoding: gzip") + gzip.compress(ANSWER)]),
    Case("[DONE] twice", [PLAIN + ANSWER + DONE + DONE]),
    Case("no [DONE]", [PLAIN + ANSWER.removesuffix(DONE)]),
    Case("no [DONE] and no end", [CHUNKED + chunked(ANSWER.removesuffix(DONE)), 9.0]),
    Case("more after [DONE]", [PLAIN + ANSWER + TWO + ERROR + b"data: {"]),
    Case("ever more after [DONE]", [CHUNKED + chunked(ANSWER), chunked(TWO), FOREVER]),
    Case("nothing after [DONE], not even an end", [CHUNKED + chunked(ANSWER), 9.0]),
    Case("an error after the finish", [PLAIN + BEGUN + TWO + FINISH + ERROR]),
    Case("no usage", [PLAIN + ANSWER.replace(USAGE, b"")]),
    Case(
        "usage on every chunk", [PLAIN + ANSWER.replace(b'"choices":[{', b'"usage":{"prompt_tokens":5},"choices":[{')]
    ),
    Case("usage of no known form", [PLAIN + ANSWER.replace(b'"prompt_tokens":5', b'"prompt_tokens":"five"')]),
    Case("less than its length", [head(f"content-length: {len(ANSWER) + 99}") + ANSWER]),
    Case(
        "more than its length",
        [head(f"content-length: {len(ANSWER) - len(DONE)}", LAST) + ANSWER[: -len(DONE)], APART, DONE],
    ),
    Case("a broken chunk after the end", [CHUNKED + chunked(ANSWER), APART, b"zz\r\n"]),
]
BROKEN = [
    Case("no answer at all", [], 502),
    Case("no HTTP", [b"hello\r\n\r\n"], 502),
    Case("half a head", [b"HTTP/1.1 200 OK\r\ncontent-ty"], 502),
    Case("no head in time", [9.0], 504, "engine_timeout"),
    Case("no first token in time", [PLAIN + ROLE, 9.0], 504, "engine_timeout"),
    Case("nothing but comments", [PLAIN + b": still here\n\n", FOREVER], 504, "engine_timeout"),
    Case("an empty answer", [head("content-length: 0")], 502),
    Case("no content", [head("content-length: 0", status=204)], 502),
    Case("a page", [head("content-length: 14", kind="text/html") + b"<html> </html>"], 502),
    Case("JSON, not a stream", [head("content-length: 15", kind="application/json") + b'{"error":"hmm"}'], 502),
    Case("garbage at once", [PLAIN + event("x")[:-3] + b"\n\n" + ANSWER], 502),
    Case("no object", [PLAIN + b"data: 7\n\n" + ANSWER], 502),
    Case("an error under a 200", [PLAIN + ERROR + DONE], 503, None),
    Case("an error after the role", [PLAIN + ROLE + ERROR], 503, None),
    Case("an error status", [head("content-length: 2", status=500) + b"{}"], 502, None),
    Case("an error status and no body", [head("content-length: 9", status=500)], 502, None),
    Case("a redirect", [head("location: /evil", "content-length: 0", status=302)], 502, None),
    Case("closed in mid-event", [PLAIN + BEGUN + TWO[:30]], 502, begun=True),
    Case("closed between events", [PLAIN + BEGUN], 502, begun=True),
    Case("closed in mid-chunk", [CHUNKED + chunked(BEGUN) + b"fff\r\n" + TWO], 502, begun=True),
    Case("closed inside a character", [PLAIN + BEGUN + ONE[: ONE.index("一".encode()) + 1]], 502, begun=True),
    Case("half a character", [PLAIN + BEGUN + ONE.replace("一".encode(), b"\xe4\xb8") + TWO], 502, begun=True),
    Case("garbage in the middle", [PLAIN + BEGUN + b'data: {"choices":[{]}\n\n' + ANSWER], 502, begun=True),
    # aiohttp does not say so, but falls silent.
    Case("no chunk's length", [CHUNKED + chunked(BEGUN), APART, b"zz\r\n" + TWO], 504, "engine_timeout", begun=True),
    Case("a shorter length", [head(f"content-length: {len(BEGUN)}", LAST) + BEGUN, APART, FINISH], 502, begun=True),
    Case("a longer length", [head("content-length: 99999") + BEGUN], 502, begun=True),
    Case("an error in the middle", [PLAIN + BEGUN, ERROR + DONE], 503, None, begun=True),
    Case("a stall", [PLAIN + BEGUN, 9.0], 504, "engine_timeout", begun=True),
    Case("a line without end", [PLAIN + BEGUN + b"data: ", b"x" * 65536, FOREVER], 502, begun=True),
    Case("an event without end", [PLAIN + BEGUN + b"data: x", b"\ndata: " + b"x" * 65536, FOREVER], 502, begun=True),
    Case("a bomb", [head("content-encoding: gzip") + gzip.compress(BEGUN + bytes(99 << 20))], 502, begun=True),
    Case("not what it is said to be", [head("content-encoding: gzip") + ANSWER], 502),
    Case("an answer without end", [PLAIN + BEGUN, ONE, FOREVER], 504, "engine_timeout", begun=True),
]  # fmt: skip
LIMITS = {"first_token_timeout": 0.5, "stall_timeout": 0.5, "total_timeout": 2.0}


def named(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named(WHOLE)
async def test_a_whole_answer_is_a_whole_answer(start_door: StartDoor, engine: RawEngine, case: Case) -> None:
    engine.steps = case.steps
    door = await start_door(OpenAIBackend("openai", engine.url), **LIMITS)
    async with door.post(ask(stream=True, stream_options={"include_usage": True})) as response:
        assert response.status == 200
        assert text_of_stream(await response.text()) == "一 two"
    async with door.post(ask()) as response:
        assert response.status == 200
        assert (await response.json())["choices"][0]["message"]["content"] == "一 two"
    await settled(door, engine, requests=2)


@named(BROKEN)
async def test_what_is_no_whole_answer_is_one_error(start_door: StartDoor, engine: RawEngine, case: Case) -> None:
    engine.steps = case.steps
    door = await start_door(OpenAIBackend("openai", engine.url), **LIMITS)
    async with door.post(ask(stream=True)) as response:
        if case.begun:
            assert response.status == 200
            text, error = error_of_stream(await response.text())
            assert text.startswith("一 ")
            assert error["code"] == case.code
        else:
            assert (await error_of(response, case.status))["code"] == case.code
    async with door.post(ask()) as response:
        assert (await error_of(response, case.status))["code"] == case.code
    assert engine.posts == ["/v1/chat/completions"] * 2
    await settled(door, engine, requests=2, failed=2)


async def test_an_engine_that_failed_once_is_asked_again(start_door: StartDoor, engine: RawEngine) -> None:
    door = await start_door(OpenAIBackend("openai", engine.url), **LIMITS)
    for steps, status in (([head("content-length: 2", status=500) + b"{}"], 502), ([PLAIN + ANSWER], 200)):
        engine.steps = steps
        async with door.post(ask()) as response:
            assert response.status == status


async def test_how_long_an_engine_wants_to_be_left_alone_is_passed_on(start_door: StartDoor, engine: RawEngine) -> None:
    engine.steps = [head("retry-after: 7", "content-length: 2", status=429) + b"{}"]
    door = await start_door(OpenAIBackend("openai", engine.url), **LIMITS)
    async with door.post(ask()) as response:
        await error_of(response, 429)
        assert response.headers["retry-after"] == "7"
    await settled(door, engine, requests=1, failed=1)


async def test_what_is_collected_is_bounded(
    start_door: StartDoor, engine: RawEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MAX_BYTES", 100_000)
    engine.steps = [PLAIN + BEGUN, ONE, FOREVER]
    door = await start_door(OpenAIBackend("openai", engine.url))
    async with door.post(ask()) as response:
        error = await error_of(response, 502, "engine_error")
    assert "stream" in error["message"]
    await settled(door, engine, requests=1, failed=1)


def text_of_stream(body: str) -> str:
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert events.count("[DONE]") == 1
    assert events[-1] == "[DONE]"
    choices = [choice for data in events[:-1] for choice in json.loads(data)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def error_of_stream(body: str) -> tuple[str, dict[str, Any]]:
    """What was said before it, and the error that ends it."""
    events = [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n") if line]
    assert [set(each) for each in events if "error" in each] == [{"error"}]
    text = "".join(each["choices"][0]["delta"].get("content") or "" for each in events[:-1])
    return text, events[-1]["error"]


async def settled(door: Any, engine: RawEngine, requests: int, failed: int | None = None) -> None:
    """The turns were given back, the books are closed, and the engine has nobody to talk to."""
    await eventually(lambda: leases(door) == 0)
    await eventually(lambda: usage(door).get("requests") == requests)
    assert usage(door).get("failed") == failed
    await eventually(lambda: engine.open == 0)
