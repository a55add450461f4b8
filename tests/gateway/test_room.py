"""What the door tells the queue of the engine and of who asks, and what it remembers while Redis is away."""

from __future__ import annotations

import asyncio
import time

import pytest

from backends.base import Load
from backends.fake import FakeBackend, chat_script
from gateway.admission import queue_class
from gateway.errors import StoreAway
from gateway.identity.records import ServiceAccount
from gateway.queueing.speed import Speed
from gateway.scope import Grant, Principal, QueueClass
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.gateway.conftest import StartDoor, ask, eventually
from tests.gateway.test_disconnect import leases


class SmallCache(FakeBackend):
    async def load(self) -> Load:
        return Load(kv_blocks_total=10, block_size=16)


@pytest.mark.parametrize(
    ("key_id", "asked", "expected"), [("", None, "interactive"), ("k", None, "api"), ("k", "batch", "batch")]
)
def test_who_comes_in_person_goes_before_programs(key_id: str, asked: QueueClass | None, expected: str) -> None:
    who = Principal("usr_a", "a", "user", "default", grant=Grant(queue_class=asked), key_id=key_id)
    assert queue_class(who) == expected


async def test_the_queue_knows_the_engines_cache_and_how_many_keep_the_target_speed(start_door: StartDoor) -> None:
    door = (await start_door(SmallCache())).app.door
    assert door is not None
    permits = door.lines.line("fake")
    await eventually(lambda: permits.rooms["fake"].kv_tokens == 160)
    # Thirty answers, always ten at once, at 5 tokens a second.
    permits.speeds = {"fake": Speed(n=30, x=300, y=6, xx=3000, xy=60, yy=1.2)}
    await eventually(lambda: permits.rooms["fake"].capacity == 9, seconds=5)


class FewSlots(FakeBackend):
    async def load(self) -> Load:
        return Load(slots=3)


async def test_no_more_run_than_the_engine_has_slots(start_door: StartDoor) -> None:
    door = (await start_door(FewSlots(), max_concurrency=64)).app.door
    assert door is not None
    await eventually(lambda: door.lines.line("fake").rooms["fake"].capacity == 3)


async def test_an_answer_says_how_long_it_waited(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 5, gap=0.03)), max_concurrency=1)
    async with door.post(ask(stream=True)) as first:
        await eventually(lambda: leases(door) == 1)
        async with door.post(ask()) as second:
            assert int(second.headers["x-queue-wait-ms"]) > 0
        await first.read()


async def test_what_was_known_is_believed_for_a_stated_time_while_redis_is_away(store: Store) -> None:
    directory = Directory(Records(store))
    await directory.create(None, ServiceAccount(id="a"))
    away = Store("redis://127.0.0.1:1", 0.2)
    lookup = Lookup(directory, seconds=0, seconds_away=0.4)
    assert await lookup.get(ServiceAccount, "a") is not None
    began = time.monotonic()
    lookup._directory = Directory(Records(away))
    assert await lookup.get(ServiceAccount, "a") is not None
    await asyncio.sleep(max(0.0, began + 0.45 - time.monotonic()))
    with pytest.raises(StoreAway):
        await lookup.get(ServiceAccount, "a")
    await away.aclose()
