"""Turns and the waiting line: order, bound, hand-over, and what happens to those who die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import redis

from gateway.errors import QueueFull, QueueTimeout
from gateway.queueing.permits import Permits, QueueLimits
from gateway.store.redis import Store
from tests.gateway.conftest import eventually

LIMITS = QueueLimits(capacity=2, longest_line=3, wait_seconds=5, lease_seconds=1)
MakePermits = Callable[..., Awaitable[Permits]]


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = Store(redis_url, 1.0)
    yield store
    await store.aclose()


@pytest.fixture
async def make_permits(store: Store) -> AsyncIterator[MakePermits]:
    made = []

    async def make(**changes: object) -> Permits:
        permits = Permits(store, "engine", replace(LIMITS, **changes))  # type: ignore[arg-type]
        permits.start()
        made.append(permits)
        await asyncio.sleep(0.02)  # the listener subscribes
        return permits

    yield make
    for permits in made:
        await permits.aclose()


async def give_back(store: Store, permits: Permits, request_id: str) -> None:
    await store.run(permits.release(request_id))


def members(url: str, kind: str) -> list[bytes]:
    return list(redis.Redis.from_url(url).zrange(f"{{sekisho}}:{kind}:engine", 0, -1))


async def test_a_free_turn_is_given_at_once(make_permits: MakePermits) -> None:
    permits = await make_permits()
    turn = await permits.wait("a")
    assert not turn.waited
    assert abs(turn.granted_ms / 1000 - time.time()) < 5
    assert permits.held == 1


async def test_turns_are_given_in_the_order_of_arrival(make_permits: MakePermits, store: Store) -> None:
    permits = await make_permits(capacity=1, longest_line=20)
    await permits.wait("first")
    order: list[str] = []

    async def request(name: str) -> None:
        await permits.wait(name)
        order.append(name)
        await give_back(store, permits, name)

    names = [f"r{i}" for i in range(15)]
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(request(name)))
        await asyncio.sleep(0.003)
    await give_back(store, permits, "first")
    await asyncio.gather(*tasks)
    assert order == names


async def test_no_more_than_the_capacity_ever_run(make_permits: MakePermits, store: Store) -> None:
    permits = await make_permits(capacity=3, longest_line=100)
    running, most = 0, 0

    async def request(name: str) -> None:
        nonlocal running, most
        await permits.wait(name)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        await give_back(store, permits, name)

    await asyncio.gather(*(request(f"r{i}") for i in range(40)))
    assert most == 3


async def test_a_freed_turn_is_taken_within_20_ms(make_permits: MakePermits, store: Store) -> None:
    # The heartbeats are far slower than that: it is the message that wakes.
    permits = await make_permits(capacity=1, heartbeat_seconds=2, front_seconds=2)
    await permits.wait("a")
    waits = []
    for before, after in (("a", "b"), ("b", "c"), ("c", "d")):
        waiting = asyncio.create_task(permits.wait(after))
        await eventually(lambda: permits.waiting == 1)
        await asyncio.sleep(0.01)
        freed = time.monotonic()
        await give_back(store, permits, before)
        await waiting
        waits.append(time.monotonic() - freed)
    assert min(waits) < 0.02


async def test_two_processes_share_one_line(make_permits: MakePermits, store: Store) -> None:
    one, other = await make_permits(capacity=1), await make_permits(capacity=1)
    await one.wait("a")
    waiting = asyncio.create_task(other.wait("b"))
    await eventually(lambda: other.waiting == 1)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await give_back(store, one, "a")
    assert (await waiting).waited


async def test_past_its_bound_the_line_refuses(make_permits: MakePermits) -> None:
    permits = await make_permits()
    for name in ("a", "b"):
        await permits.wait(name)
    waiting = [asyncio.create_task(permits.wait(name)) for name in ("c", "d", "e")]
    await eventually(lambda: permits.waiting == 3)
    await asyncio.sleep(0.01)
    with pytest.raises(QueueFull) as caught:
        await permits.wait("f")
    assert caught.value.retry_after
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_waiting_ends_after_its_time(make_permits: MakePermits, store: Store, redis_url: str) -> None:
    permits = await make_permits(capacity=1, wait_seconds=0.15)
    await permits.wait("a")
    with pytest.raises(QueueTimeout):
        await permits.wait("b")
    await give_back(store, permits, "b")
    assert members(redis_url, "line") == members(redis_url, "beats") == []


async def test_a_lease_of_a_killed_holder_expires_and_its_turn_is_given_on(
    make_permits: MakePermits, redis_url: str
) -> None:
    dead = await make_permits(capacity=1)
    await dead.wait("a")
    await dead.aclose()  # it renews no more, and never releases
    permits = await make_permits(capacity=1)
    started = time.monotonic()
    await permits.wait("b")
    assert 0.5 < time.monotonic() - started < 2
    assert members(redis_url, "leases") == [b"b"]


async def test_a_lease_in_use_is_renewed(make_permits: MakePermits) -> None:
    permits = await make_permits(capacity=1, wait_seconds=1.6)
    await permits.wait("a")
    with pytest.raises(QueueTimeout):  # longer than a lease, and "a" still has it
        await permits.wait("b")


async def test_a_dead_waiter_does_not_block_the_line(make_permits: MakePermits, store: Store) -> None:
    permits = await make_permits(capacity=1, heartbeat_seconds=0.1)
    await permits.wait("a")
    dead = asyncio.create_task(permits.wait("dead"))
    await eventually(lambda: permits.waiting == 1)
    await asyncio.sleep(0.02)
    dead.cancel()  # leaves its place in the line behind, as a killed process does
    waiting = asyncio.create_task(permits.wait("b"))
    await eventually(lambda: permits.waiting == 1)
    await give_back(store, permits, "a")
    async with asyncio.timeout(2):
        await waiting


async def test_releasing_twice_and_renewing_after_release_change_nothing(
    make_permits: MakePermits, store: Store, redis_url: str
) -> None:
    permits = await make_permits(capacity=2)
    await permits.wait("a")
    await permits.wait("b")
    for _ in range(3):
        await give_back(store, permits, "a")
    assert members(redis_url, "leases") == [b"b"]


async def test_a_lost_script_cache_is_filled_again(make_permits: MakePermits, store: Store, redis_url: str) -> None:
    permits = await make_permits()
    redis.Redis.from_url(redis_url).script_flush()
    await permits.wait("a")
    redis.Redis.from_url(redis_url).script_flush()
    await store.run_all(permits.release("a"), permits.release("a"))
    assert members(redis_url, "leases") == []
