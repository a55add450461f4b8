"""A scripted OpenAI-compatible server on a Unix socket, for the load generator's tests.

Raw, so that it can do what real ones do: close a kept-alive connection without a word, cut a stream, send no usage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEMPLATE_TOKENS = 20
TOKENS_PER_WORD = 1.25


@dataclass
class Script:
    first_token_s: float = 0.0
    gap_s: float = 0.0
    requests_per_connection: int | None = None  # then it is closed, unannounced
    closes_on_the_next: bool = False  # not at once, but when another request has come
    sends_usage: bool = True
    role_first_s: float | None = None  # the role's own chunk comes this early
    cut_after: int | None = None
    status: int = 200
    room: int | None = None  # who finds so many being answered is refused
    refusal: int = 429
    error_event: bool = False
    metrics: list[str] = field(default_factory=list)  # one text a look, the last ever after
    metrics_status: int = 404  # without a text
    metrics_s: float = 0.0  # what a look takes
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    peak_in_flight: int = 0
    looks: list[dict[str, str]] = field(default_factory=list)  # the headers of each


@asynccontextmanager
async def serving(path: Path, script: Script) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        try:
            await _connection(reader, writer, script)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_unix_server(connected, path)
    try:
        yield f"unix:{path}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, script: Script) -> None:
    served = 0
    while script.requests_per_connection is None or served < script.requests_per_connection:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        script.headers.append(headers)
        if head.startswith("GET /v1/models"):
            _plain(writer, 200, {"data": [{"id": "listed-model"}]})
        elif head.startswith("GET /metrics"):
            await _metrics(writer, headers, script)
        elif script.status != 200:
            _plain(writer, script.status, {"error": {"message": "no room", "code": script.status}})
        elif script.room is not None and script.in_flight >= script.room:
            _plain(writer, script.refusal, {"error": {"message": "too many"}}, retry_after=script.refusal == 429)
        else:
            await _answer(writer, json.loads(body), script)
        await writer.drain()
        served += 1
    if script.closes_on_the_next:
        await reader.readuntil(b"\r\n\r\n")


async def _metrics(writer: asyncio.StreamWriter, headers: dict[str, str], script: Script) -> None:
    script.looks.append(headers)
    await asyncio.sleep(script.metrics_s)
    if not script.metrics:
        _plain(writer, script.metrics_status, {"error": {"message": "no metrics"}})
        return
    body = script.metrics[min(len(script.looks), len(script.metrics)) - 1].encode()
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


def _plain(writer: asyncio.StreamWriter, status: int, value: Any, *, retry_after: bool = False) -> None:
    body = json.dumps(value).encode()
    more = "retry-after: 3\r\n" if retry_after else ""
    writer.write(f"HTTP/1.1 {status} X\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body)


async def _answer(writer: asyncio.StreamWriter, body: dict[str, Any], script: Script) -> None:
    script.bodies.append(body)
    script.in_flight += 1
    script.peak_in_flight = max(script.peak_in_flight, script.in_flight)
    try:
        await _stream(writer, body, script)
    finally:
        script.in_flight -= 1


async def _stream(writer: asyncio.StreamWriter, body: dict[str, Any], script: Script) -> None:
    text: Callable[[str], dict[str, Any]] = lambda piece: {"text": piece}  # noqa: E731
    if "messages" in body:
        text = lambda piece: {"delta": {"content": piece}}  # noqa: E731
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    if script.role_first_s is not None:
        await asyncio.sleep(script.role_first_s)
        _event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    await asyncio.sleep(script.first_token_s)
    if script.error_event:
        _event(writer, {"error": {"message": "The request queue is full.", "code": 503}})
    for index in range(0 if script.error_event else body["max_tokens"]):
        if index == script.cut_after:
            writer.write(b"0\r\n\r\n")
            return
        if index:
            await asyncio.sleep(script.gap_s)
        _event(writer, {"choices": [{"index": 0, **text("word ")}]})
    if not script.error_event:
        _event(writer, {"choices": [{"index": 0, **text(""), "finish_reason": "length"}]})
    if script.sends_usage:
        usage = {"prompt_tokens": _prompt_tokens(body), "completion_tokens": body["max_tokens"]}
        _event(writer, {"choices": [], "usage": usage})
    _chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")


def _prompt_tokens(body: dict[str, Any]) -> int:
    prompt = body["messages"][0]["content"] if "messages" in body else body["prompt"]
    return round(TEMPLATE_TOKENS + TOKENS_PER_WORD * len(prompt.split()))


def _event(writer: asyncio.StreamWriter, value: Any) -> None:
    _chunk(writer, f"data: {json.dumps(value)}\n\n".encode())


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
