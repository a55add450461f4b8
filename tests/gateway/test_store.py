"""Redis away, frozen, restarted: nothing is admitted unmetered, nothing hangs, what runs goes on."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import redis

from backends.fake import FakeBackend, Script, chat_script
from gateway.errors import StoreAway
from gateway.store import keys
from gateway.store.key_table import KEYS
from gateway.store.redis import Store
from gateway.store.scripts import Script as LuaScript
from gateway.store.subscription import Subscription
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import StartDoor, ask, error_of, eventually, start_valkey


class Server:
    """A Valkey of this test alone, which may be frozen or killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process, self.url = start_valkey(folder)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process, self.url = start_valkey(self.folder)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("own"))
    yield server
    server.kill()


async def test_a_killed_redis_is_a_503_with_retry_after_and_comes_back(start_door: StartDoor, server: Server) -> None:
    door = await start_door(redis_url=server.url)
    server.kill()
    async with door.post(ask()) as response:
        await error_of(response, 503, "store_unavailable")
        assert response.headers["retry-after"]
    assert door.backend.asked == []
    async with door.client.get("/readyz") as response:
        assert (await response.json())["missing"] == ["redis is away"]
    async with door.client.get("/healthz") as response:
        assert response.status == 200
    server.restart()
    await asyncio.sleep(0.6)  # the breaker's moment
    async with door.client.get("/readyz") as response:
        assert response.status == 200


async def test_a_frozen_redis_is_a_503_within_its_timeout(start_door: StartDoor, server: Server) -> None:
    door = await start_door(redis_url=server.url, redis_timeout=1.0)
    server.freeze()
    for patience in (10.0, 10.0, 10.0, 0.9):  # after three failures requests are refused at once
        started = time.monotonic()
        async with door.post(ask()) as response:
            await error_of(response, 503, "store_unavailable")
        assert time.monotonic() - started < patience
    server.thaw()
    await asyncio.sleep(0.7)
    async with door.post(ask()) as response:
        assert response.status == 200


async def test_a_stream_in_flight_outlives_redis(start_door: StartDoor, server: Server) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 20, gap=0.02)), redis_url=server.url)
    async with door.post(ask(stream=True)) as response:
        await response.content.readany()
        server.kill()
        assert (await response.read()).endswith(b"data: [DONE]\n\n")


async def test_the_door_starts_without_redis_and_takes_its_key_when_it_comes(
    start_door: StartDoor, server: Server
) -> None:
    server.kill()
    starting = asyncio.create_task(start_door(redis_url=server.url))
    await asyncio.sleep(0.3)
    server.restart()
    door = await starting
    await asyncio.sleep(0.6)
    async with door.post(ask()) as response:
        assert response.status == 200


async def test_once_redis_is_known_to_be_away_what_is_refused_was_not_asked_for(server: Server) -> None:
    store = Store(server.url, 0.2)
    server.kill()
    unasked = []
    for _ in range(5):
        with pytest.raises(StoreAway) as refusal:
            await store.command("PING")
        unasked.append(refusal.value.unasked)
    assert unasked == [False, False, False, True, True]
    server.restart()


async def test_an_outage_leaves_no_bookings_of_what_it_refused(start_door: StartDoor, server: Server) -> None:
    door = await start_door(redis_url=server.url, key_cache_seconds=0.9)
    assert door.app.door is not None
    async with door.post(ask()) as response:
        assert response.status == 200
    server.kill()
    for _ in range(10):
        async with door.post(ask()) as response:
            await error_of(response, 503, "store_unavailable")
    assert door.app.door.booking.unbooked <= 3
    server.restart()
    await eventually(lambda: door.app.door.booking.unbooked == 0, 4)  # type: ignore[union-attr]


async def test_the_log_tells_a_change_of_state_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(server.url, 0.2)
    server.kill()
    with caplog.at_level(logging.WARNING, "sekisho.store"):
        for _ in range(20):
            with pytest.raises(StoreAway):
                await store.command("PING")
        server.restart()
        await asyncio.sleep(0.6)
        await store.command("PING")
    assert [record.message.split(" ")[2] for record in caplog.records] == ["away:", "back"]
    await store.aclose()


async def test_every_key_in_use_is_listed_and_shares_the_hash_tag(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((*chat_script(("a",)).steps, 0.2))), max_concurrency=1)
    await asyncio.gather(*(_read(door.post(ask())) for _ in range(2)))
    assert door.app.door is not None
    used = [key.decode() for key in await door.app.door.store.command("KEYS", "*")]
    patterns = [key.pattern.partition("<")[0] for key in KEYS]
    assert used
    for key in used:
        assert key.startswith(keys.TAG)
        assert any(key.startswith(pattern) for pattern in patterns), key


async def _read(response: object) -> None:
    async with response as answer:  # type: ignore[attr-defined]
        await answer.read()


async def test_a_script_that_redis_does_not_know_yet_still_runs_before_the_next(redis_url: str) -> None:
    """As after an update: the second script is known from before, the first is new."""
    store = Store(redis_url, REDIS_TIMEOUT)
    fresh = f"-- {time.monotonic_ns()}\n"
    first = LuaScript(fresh + "redis.call('SET', KEYS[1], 'first') return 1")
    second = LuaScript("return redis.call('GET', KEYS[1])")
    await store.run(second.call(("{sekisho}:test",)))
    answers = await store.run_all(first.call(("{sekisho}:test",)), second.call(("{sekisho}:test",)))
    assert answers == [1, b"first"]
    await store.aclose()


async def test_a_server_that_has_become_a_replica_is_left(server: Server) -> None:
    store = Store(server.url, REDIS_TIMEOUT)
    await store.command("SET", "{sekisho}:test", "before")
    await store.command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StoreAway) as refusal:
        await store.command("SET", "{sekisho}:test", "meanwhile")
    assert "READONLY" in str(refusal.value.__cause__)
    await store.command("REPLICAOF", "NO", "ONE")
    await store.command("SET", "{sekisho}:test", "after")
    assert await store.command("GET", "{sekisho}:test") == b"after"
    await store.aclose()


async def test_a_subscription_hears_in_order_and_ends_with_the_connection_for_calls(server: Server) -> None:
    store = Store(server.url, REDIS_TIMEOUT)
    heard: list[bytes] = []

    async def listen() -> None:
        async with store.subscribed("news") as messages:
            await store.command("PUBLISH", "news", "ready")
            async for message in messages:
                heard.append(message)

    listener = asyncio.create_task(listen())
    await eventually(lambda: heard == [b"ready"])
    for number in range(100):
        await store.command("PUBLISH", "news", number)
    await eventually(lambda: heard[1:] == [str(number).encode() for number in range(100)])
    with redis.Redis.from_url(server.url) as other:
        other.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await store.command("PING")  # on another connection, perhaps to another server
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(listener, 10)
    await store.aclose()


async def test_who_is_too_far_behind_to_hear_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.subscription._MOST_UNHEARD", 3)
    messages, transport = Subscription(), Mock(is_closing=lambda: False)
    transport.abort = lambda: messages.connection_lost(None)
    messages.connection_made(transport)
    messages.data_received(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\nmore\r\n" * 4)
    heard = aiter(messages)
    assert [await anext(heard) for _ in range(3)] == [b"more"] * 3
    with pytest.raises(ConnectionResetError):
        await anext(heard)
