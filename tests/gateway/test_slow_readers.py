"""A client that stops reading holds up its own engine and nobody's memory, and is dropped after a while."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends.fake import chat_chunk, event
from backends.openai import OpenAIBackend
from gateway.scope import RequestScope
from gateway.streaming.relay import StreamSink
from tests.gateway.conftest import AUTH, CHAT, RunningDoor, StartDoor, ask, eventually
from tests.gateway.test_disconnect import leases, usage

WORD = event(chat_chunk({"content": "word" * 250}))
SMALL = 16 * 1024


class EndlessEngine:
    """Streams until its reader is gone; counts what the network took from it."""

    def __init__(self) -> None:
        self.url = ""
        self.sent = 0
        self.asked = 0
        self.gone = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            models = b'{"data":[{"id":"fake","max_model_len":4096}]}'
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(models) + models)
            writer.close()
            return
        self.asked += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(WORD)
                self.sent += len(WORD)
                await writer.drain()
        self.gone.set()
        writer.close()


@pytest.fixture
async def engine() -> AsyncIterator[EndlessEngine]:
    endless = EndlessEngine()
    server = await asyncio.start_server(endless.handle, "127.0.0.1", 0)
    endless.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield endless
    server.close()


async def connected(door: RunningDoor) -> socket.socket:
    """A client with a small window that has asked for a stream."""
    host, port = door.url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host, int(port)))
    body = json.dumps(ask(stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: {AUTH['authorization']}\r\n"
    await loop.sock_sendall(client, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return client


async def at_rest(engine: EndlessEngine) -> int:
    """What the engine had sent when it could send no more."""
    before = -1
    while engine.sent != before:
        before = engine.sent
        # The kernel's buffers on both ways, which grow to a few MB each, and little of ours.
        assert before < 32 * 1024 * 1024
        await asyncio.sleep(0.1)
    return before


async def read(client: socket.socket, size: int) -> None:
    while size > 0:
        data = await asyncio.get_running_loop().sock_recv(client, 1 << 20)
        assert data, "the door has ended the connection"
        size -= len(data)


def is_held(client: socket.socket) -> bool:
    """Whether the door, which is in this process, has its end of the connection open."""
    ours = client.getsockname()[1]
    return any(end.raddr and end.raddr.port == ours for end in psutil.Process().net_connections("tcp"))


async def test_an_engine_waits_for_a_client_that_does_not_read(start_door: StartDoor, engine: EndlessEngine) -> None:
    door = await start_door(OpenAIBackend("openai", engine.url))
    client = await connected(door)
    await eventually(lambda: engine.asked)
    held = await at_rest(engine)
    await read(client, held)  # and goes on once it does
    await eventually(lambda: engine.sent > held)
    client.close()
    await asyncio.wait_for(engine.gone.wait(), 2)


async def test_a_client_that_has_stopped_reading_is_dropped_and_its_engine_stopped(
    start_door: StartDoor, engine: EndlessEngine, caplog: pytest.LogCaptureFixture
) -> None:
    door = await start_door(OpenAIBackend("openai", engine.url), client_stall_timeout=0.3, stall_timeout=0.2)
    client = await connected(door)
    await asyncio.wait_for(engine.gone.wait(), 5)
    await eventually(lambda: leases(door) == 0)
    booked = usage(door)
    assert booked["failed"] == 1
    assert booked["completion_tokens"] > 0
    # The connection is cut, not closed once everything was read: nobody may ever read it.
    await eventually(lambda: not is_held(client))
    assert outcomes(door) == {"client_stalled": 1.0}
    assert "ASGI callable" not in caplog.text
    client.close()


async def test_a_client_that_reads_slowly_is_not_dropped(start_door: StartDoor, engine: EndlessEngine) -> None:
    door = await start_door(OpenAIBackend("openai", engine.url), client_stall_timeout=1.5, stall_timeout=1.0)
    client = await connected(door)
    await eventually(lambda: engine.asked)
    await at_rest(engine)
    for _ in range(4):
        await asyncio.sleep(0.5)
        await read(client, 3 * 1024 * 1024)
    assert not engine.gone.is_set()
    client.close()
    await asyncio.wait_for(engine.gone.wait(), 2)


async def test_a_client_that_does_not_read_to_the_total_time_is_cut_off_too(
    start_door: StartDoor, engine: EndlessEngine
) -> None:
    door = await start_door(OpenAIBackend("openai", engine.url), total_timeout=0.5)
    client = await connected(door)
    await asyncio.wait_for(engine.gone.wait(), 5)
    await eventually(lambda: not is_held(client))
    await eventually(lambda: leases(door) == 0)
    client.close()


def outcomes(door: RunningDoor) -> dict[str, Any]:
    assert door.app.door is not None
    shown = text_string_to_metric_families(door.app.door.metrics.render().decode())
    return {
        next(iter(sample.labels.values())): sample.value
        for family in shown
        for sample in family.samples
        if sample.name == "sekisho_failures_total" and sample.value
    }


async def test_no_signs_of_life_pile_up_for_a_client_that_does_not_read() -> None:
    never = asyncio.Event()

    async def receive() -> Any: ...

    async def send(message: Any) -> None:
        await never.wait()

    before = len(asyncio.all_tasks())
    sink = StreamSink(RequestScope("id", "POST", "/", {}, 0, 0, receive, send, 0.0), keepalive_seconds=0.01)
    await asyncio.sleep(0.2)
    assert len(asyncio.all_tasks()) == before + 1
    sink.close()
