"""Gateways die, Redis restarts, clients leave: the books are right to the token, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.system.fleet import Fleet, keeps_asking

pytestmark = pytest.mark.slow
LEASE = 2.0
Start = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(gateways: int, **settings: str) -> Fleet:
            leases = {"SEKISHO_LEASE_SECONDS": str(LEASE)}
            return await stack.enter_async_context(Fleet(tmp_path, gateways, **leases | settings))

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


async def the_books_are_right(fleet: Fleet) -> None:
    """Once the leases of the dead have run out. One more request: what has run out goes when somebody comes."""
    deadline = time.monotonic() + 20
    while left_over := fleet.left_over():
        assert time.monotonic() < deadline, f"left over: {left_over}\n{fleet.logs()[-5000:]}"
        await asyncio.sleep(0.2)
        async with fleet.ask(0, 3, 0.0) as response:
            assert (await response.read()).endswith(b"[DONE]\n\n")
    counted, booked = await fleet.counted(), await fleet.booked()
    print("the engine's count:", counted, "the books:", booked)
    parts = ("prompt_tokens", "completion_tokens", "cached_tokens")
    assert {part: booked[part] for part in parts} == {part: counted[part] for part in parts}
    assert booked["input_tokens"] == counted["prompt_tokens"]
    assert booked["output_tokens"] == counted["completion_tokens"]
    assert booked["tokens"] == counted["prompt_tokens"] + counted["completion_tokens"]
    assert not booked.get("estimated")


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
