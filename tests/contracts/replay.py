"""A small HTTP/1.1 server that plays a fake backend's scripts over a real socket, and misbehaves as engines do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from backends.errors import BackendError
from backends.fake import Asked, Script, chat_script

_METRICS = b"""# TYPE sekisho_engine_num_requests_running gauge
sekisho_engine_num_requests_running{model_name="fake"} 3
sekisho_engine_num_requests_waiting{model_name="fake"} 2
sekisho_engine_kv_cache_usage_perc{model_name="fake"} 0.25
sekisho_engine_kv_cache_blocks{model_name="fake"} 400
sekisho_engine_kv_cache_free_blocks{model_name="fake"} 300
sekisho_engine_kv_cache_block_size{model_name="fake"} 16
"""


class ReplayServer:
    """`script` is the next answers; a BackendError among its steps cuts the connection there."""

    def __init__(self) -> None:
        self.script: Script = chat_script(("Hello",))
        self.asked: list[Asked] = []
        self.is_ready = True
        self.close_idle_after_answer = False  # as llama.cpp: announces keep-alive, then closes
        self.die_before_answer = 0  # how many connections to close with the request read and nothing sent
        self.connections = 0
        self.accounts: dict[str, bytes] = {}
        self.metrics: bytes | None = _METRICS  # None: it has none
        self.got: list[str] = []  # paths asked for by GET
        self.url = ""
        self._idle: asyncio.Event = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        method, path, headers, body = await read_request(reader)
        if self.die_before_answer > 0:
            self.die_before_answer -= 1
            return False
        if method == "GET":
            status, answer = self._get(path)
            writer.write(_head(status, "application/json", f"content-length: {len(answer)}") + answer)
            await writer.drain()
            return True
        asked = Asked(path, body, headers)
        self.asked.append(asked)
        work = asyncio.create_task(self._answer(writer, asked))
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
        gone.cancel()
        asked.closed.set()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
        return work.done() and not work.cancelled() and await work

    async def _answer(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        script = self.script
        await asyncio.sleep(script.delay)
        writer.write(_head(script.status, script.content_type, "transfer-encoding: chunked"))
        asked.started.set()
        for step in script.steps:
            if isinstance(step, BackendError):
                await writer.drain()
                return False
            if isinstance(step, bytes):
                writer.write(b"%x\r\n%s\r\n" % (len(step), step))
                await writer.drain()
            else:
                await asyncio.sleep(step)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        asked.finished = True
        return not self.close_idle_after_answer

    def _get(self, path: str) -> tuple[int, bytes]:
        self.got.append(path)
        if path == "/metrics":
            return (404, b"{}") if self.metrics is None else (200, self.metrics)
        if path.startswith("/internal/requests/"):
            account = self.accounts.get(path.rpartition("/")[2])
            return (404, b"{}") if account is None else (200, account)
        if not self.is_ready:
            return 503, b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
        if path == "/v1/models":
            card = {"id": "fake", "object": "model", "owned_by": "sekisho", "max_model_len": 4096}
            return 200, msgspec.json.encode({"object": "list", "data": [card]})
        return (200 if path == "/health" else 404), b"{}"


@contextlib.asynccontextmanager
async def replaying(socket: Path | None = None) -> AsyncIterator[ReplayServer]:
    """A server on a Unix socket, or on a random port."""
    replay = ReplayServer()
    if socket is not None:
        server: asyncio.Server = await asyncio.start_unix_server(replay.handle, socket)
        replay.url = f"unix:{socket}"
    else:
        server = await asyncio.start_server(replay.handle, "127.0.0.1", 0)
        replay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield replay
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return method, path, headers, body


def _head(status: int, content_type: str, framing: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()
