"""Gateways die, Redis restarts, clients leave: the books are right to the token, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.conftest import eventually
from tests.system.fleet import Fleet, answered, keeps_asking, refused, the_books_are_right, until_answered
from tests.system.redis_servers import Alone, Servers

pytestmark = pytest.mark.slow
LEASE = 2.0
Start = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(gateways: int, servers: Servers | None = None, **settings: str) -> Fleet:
            leases = {"SEKISHO_LEASE_SECONDS": str(LEASE)}
            return await stack.enter_async_context(Fleet(tmp_path, gateways, servers, **leases | settings))

        yield start


async def kills(fleet: Fleet, gateways: int, until: float) -> int:
    """One gateway every second or two, without a warning; it is started again at once. How many died."""
    rng, died = random.Random(1), 0
    while time.monotonic() + 2 < until:
        await asyncio.sleep(rng.uniform(1.0, 2.0))
        number = rng.randrange(gateways)
        fleet.kill(number)
        fleet.start(number)
        died += 1
    return died


async def test_gateways_are_killed_under_load_and_the_books_are_the_engines_own_count(start: Start) -> None:
    gateways, tally = 4, Counter[str]()
    fleet = await start(gateways, SEKISHO_MAX_CONCURRENCY="12")
    until = time.monotonic() + 10
    async with asyncio.TaskGroup() as group:
        killer = group.create_task(kills(fleet, gateways, until))
        for seed in range(40):
            group.create_task(keeps_asking(fleet, gateways, seed, until, tally))
    print("killed:", killer.result(), "the clients saw:", dict(tally))
    assert killer.result() >= 4
    assert tally["200"] > 100
    await the_books_are_right(fleet)


async def test_redis_restarts_under_load_streams_go_on_and_all_is_booked(start: Start, tmp_path: Path) -> None:
    gateways, tally, valkey = 2, Counter[str](), Alone(tmp_path)
    fleet = await start(gateways, valkey, SEKISHO_MAX_CONCURRENCY="12")
    until = time.monotonic() + 9
    async with asyncio.TaskGroup() as group:
        for seed in range(20):
            group.create_task(keeps_asking(fleet, gateways, seed, until, tally))
        await asyncio.sleep(2)
        async with fleet.ask(0, 150, 0.02) as in_flight:
            valkey.stop()
            for _ in range(20):
                await refused(fleet, random.randrange(gateways))
            valkey.start()
            back = time.monotonic()
            await until_answered(fleet)
            print(f"served again {time.monotonic() - back:.2f} s after Redis was back")
            assert (await in_flight.read()).endswith(b"[DONE]\n\n")
    print("the clients saw:", dict(tally))
    assert tally["200"] > 100
    await the_books_are_right(fleet)


async def test_a_killed_gateway_leaves_no_turn_taken_past_its_lease(start: Start) -> None:
    fleet = await start(2, SEKISHO_MAX_CONCURRENCY="1")
    with suppress(aiohttp.ClientError):
        async with fleet.ask(0, 4000, 0.02) as lost:
            await lost.content.readany()
            fleet.kill(0)
            killed = time.monotonic()
            async with asyncio.timeout(LEASE + 3):
                assert await answered(fleet, 1)
            print(f"its turn was free {time.monotonic() - killed:.2f} s after its end, with leases of {LEASE} s")
            await lost.read()
    fleet.start(0)
    await fleet.ready(0)
    await the_books_are_right(fleet)


async def test_who_leaves_the_line_is_gone_from_it_at_once(start: Start) -> None:
    fleet = await start(2, SEKISHO_MAX_CONCURRENCY="1")
    async with fleet.ask(0, 300, 0.02) as holder:
        await holder.content.readany()
        waiters = [asyncio.create_task(answered(fleet, number)) for number in (0, 1, 1)]
        await eventually(lambda: fleet.left_over().get("line") == len(waiters), 5)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        left = time.monotonic()
        await eventually(lambda: "line" not in fleet.left_over(), 1)
        print(f"gone {(time.monotonic() - left) * 1000:.0f} ms after they left")
    await the_books_are_right(fleet)
