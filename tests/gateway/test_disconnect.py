"""A client that leaves, in every phase: the engine is told at once, the turn comes back, what was used is booked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from backends.fake import FakeBackend, Script, chat_chunk, event
from backends.openai import OpenAIBackend
from tests.contracts.replay import ReplayServer, replaying
from tests.gateway.conftest import AUTH, CHAT, RunningDoor, StartDoor, ask, eventually

WORD = event(chat_chunk({"content": "word"}))
BOTH = pytest.mark.parametrize("stream", [True, False])


class RawClient:
    """A client that says exactly what it is told to, and leaves when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, door: RunningDoor) -> RawClient:
        host, port = door.url.removeprefix("http://").split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, body: bytes, length: int | None = None) -> None:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: {AUTH['authorization']}\r\n"
        head += f"content-length: {len(body) if length is None else length}\r\n\r\n"
        self.writer.write(head.encode() + body)

    def leave(self) -> None:
        self.writer.transport.abort()


def leases(door: RunningDoor) -> int:
    with redis.Redis.from_url(door.settings.redis_url) as server:
        return sum(int(server.zcard(key)) for kind in ("leases", "line", "beats") for key in server.keys(f"*:{kind}:*"))


def usage(door: RunningDoor) -> dict[str, int]:
    with redis.Redis.from_url(door.settings.redis_url) as server:
        keys = server.keys("*:usage:usr_*")
        account = server.hgetall(keys[0]) if keys else {}
    return {name.decode().partition("|")[0]: int(value) for name, value in account.items()}


async def leaves(door: RunningDoor, body: dict[str, Any], when: Any) -> None:
    client = await RawClient.connect(door)
    client.send(json.dumps(body).encode())
    await when(client)
    client.leave()


@BOTH
async def test_leaving_before_the_engines_status_aborts_it(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD,), delay=30.0)))
    await leaves(door, ask(stream=stream), lambda client: eventually(lambda: door.backend.asked))
    await eventually(lambda: door.backend.asked[0].aborted)
    await eventually(lambda: leases(door) == 0)
    assert usage(door)["failed"] == 1


@BOTH
async def test_leaving_before_the_first_token_aborts_the_engine(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(FakeBackend(lambda body: Script((30.0, WORD))))
    await leaves(door, ask(stream=stream), lambda client: eventually(lambda: door.backend.asked))
    await eventually(lambda: door.backend.asked[0].aborted)
    await eventually(lambda: leases(door) == 0)
    booked = usage(door)
    assert booked["estimated"] == 1
    assert booked["prompt_tokens"] > 0


async def test_leaving_in_the_middle_of_a_stream_aborts_and_books_what_was_said(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, WORD, WORD, 30.0))))
    await leaves(door, ask(stream=True), lambda client: client.reader.readuntil(b"word"))
    await eventually(lambda: door.backend.asked[0].aborted)
    await eventually(lambda: leases(door) == 0)
    assert usage(door)["completion_tokens"] == 3


async def test_leaving_while_an_answer_is_collected_aborts_the_engine(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, WORD, 30.0))))
    await leaves(door, ask(), lambda client: eventually(lambda: door.backend.asked))
    await eventually(lambda: door.backend.asked[0].aborted)
    await eventually(lambda: usage(door).get("completion_tokens") == 2)


@BOTH
async def test_leaving_the_line_gives_the_place_back(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, 30.0))), max_concurrency=1)
    staying = await RawClient.connect(door)
    staying.send(json.dumps(ask(stream=True)).encode())
    await eventually(lambda: leases(door) == 1)
    await leaves(door, ask(stream=stream), lambda client: eventually(lambda: leases(door) == 3))
    await eventually(lambda: leases(door) == 1)
    assert len(door.backend.asked) == 1
    staying.leave()
    await eventually(lambda: leases(door) == 0)


async def test_leaving_while_the_body_is_sent_reaches_no_engine(start_door: StartDoor) -> None:
    door = await start_door()
    client = await RawClient.connect(door)
    client.send(b'{"model"', length=1000)
    await asyncio.sleep(0.05)
    client.leave()
    await asyncio.sleep(0.05)
    assert door.backend.asked == []
    assert leases(door) == 0


async def test_a_body_that_does_not_come_is_a_408(start_door: StartDoor) -> None:
    door = await start_door(body_timeout=0.1)
    client = await RawClient.connect(door)
    client.send(b'{"model"', length=1000)
    assert b"408" in await client.reader.readline()
    client.leave()


async def test_a_client_that_leaves_right_after_done_has_been_answered(start_door: StartDoor) -> None:
    door = await start_door()
    await leaves(door, ask(stream=True), lambda client: client.reader.readuntil(b"[DONE]"))
    await eventually(lambda: usage(door).get("requests") == 1)
    assert usage(door).get("failed") is None
    assert door.backend.asked[0].finished


async def test_many_that_come_and_leave_leave_nothing_behind(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, 0.01) * 50)), max_concurrency=3)

    async def one(number: int) -> None:
        async def moment(client: RawClient) -> None:
            await asyncio.sleep(number % 10 * 0.01)

        await leaves(door, ask(stream=bool(number % 2)), moment)

    await asyncio.gather(*(one(number) for number in range(60)))
    await eventually(lambda: leases(door) == 0, seconds=5)
    assert door.app.door is not None
    assert (door.app.door.lines.held, door.app.door.lines.waiting) == (0, 0)
    assert all(asked.closed.is_set() for asked in door.backend.asked)


@pytest.fixture
async def real_engine() -> AsyncIterator[ReplayServer]:
    async with replaying() as server:
        yield server


@BOTH
async def test_leaving_closes_the_connection_to_a_real_engine(
    start_door: StartDoor, real_engine: ReplayServer, stream: bool
) -> None:
    real_engine.script = Script((WORD, 30.0))
    door = await start_door(OpenAIBackend("openai", real_engine.url))
    await leaves(door, ask(stream=stream), lambda client: eventually(lambda: real_engine.asked))
    await eventually(lambda: real_engine.asked[0].aborted, seconds=0.5)
