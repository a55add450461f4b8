"""When a key was last used: seldom written, never waited for, no change of the key."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import redis

from gateway.identity.api_keys import KeyRing
from gateway.identity.uses import Uses
from gateway.store.directory import Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import RunningDoor, ask, eventually
from tests.gateway.test_api_keys import bearer, made
from tests.gateway.test_throttle import Clock


@pytest.fixture
async def directory(redis_url: str) -> AsyncIterator[Directory]:
    store = Store(redis_url, REDIS_TIMEOUT)
    yield Directory(Records(store))
    await store.aclose()


async def used(directory: Directory, *ids: str) -> list[int]:
    return await KeyRing(directory, b"").last_used(ids)


async def test_a_key_tells_when_it_was_last_used_and_is_not_changed_by_it(door: RunningDoor) -> None:
    assert door.app.door is not None
    key, other = await made(door), await made(door)
    with redis.Redis.from_url(door.settings.redis_url) as server:
        before = server.get(f"{{sekisho}}:record:key:{key.record.id}"), server.xlen("{sekisho}:audit")
        started = int(time.time())
        async with door.post(ask(), headers=bearer(key.key)) as response:
            assert response.status == 200
        await eventually(lambda: server.exists(f"{{sekisho}}:used:key:{key.record.id}"))
        when, never = await door.app.door.key_ring.last_used([key.record.id, other.record.id])
        assert started <= when <= time.time()
        assert never == 0
        assert (server.get(f"{{sekisho}}:record:key:{key.record.id}"), server.xlen("{sekisho}:audit")) == before


async def test_a_refused_key_was_not_used(door: RunningDoor) -> None:
    assert door.app.door is not None
    expired = await made(door, expires=1)
    async with door.post(ask(), headers=bearer(expired.key)) as response:
        assert response.status == 401
    await door.app.door.uses.aclose()
    assert await door.app.door.key_ring.last_used([expired.record.id]) == [0]


async def test_it_is_written_once_a_minute(directory: Directory, redis_url: str) -> None:
    clock = Clock()
    uses = Uses(directory, clock)
    uses.note("a")
    await uses.aclose()
    with redis.Redis.from_url(redis_url) as server:
        server.set("{sekisho}:used:key:a", 1)
        clock.now += 59
        uses.note("a")
        uses.note("b")
        await uses.aclose()
        first, second = await used(directory, "a", "b")
        assert first == 1
        assert second > 1
        clock.now += 2
        uses.note("a")
        await uses.aclose()
        assert (await used(directory, "a"))[0] > 1
        assert server.ttl("{sekisho}:used:key:a") > 300 * 86_400


async def test_without_redis_nothing_is_written_and_nobody_is_disturbed(directory: Directory) -> None:
    away = Directory(Records(Store("unix:///nowhere", 0.1)))
    uses = Uses(away)
    uses.note("a")
    await uses.aclose()
    assert await used(directory, "a") == [0]
    assert await used(directory) == []
