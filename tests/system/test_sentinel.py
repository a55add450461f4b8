"""A master under Sentinels dies or freezes while people are answered: gateways follow, and all is booked once."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.fleet import Fleet, keeps_asking, refused, the_books_are_right, until_answered
from tests.system.redis_servers import UnderSentinels, until

pytestmark = pytest.mark.slow
GATEWAYS = 2
# Shorter than a failover: turns and reservations run out while nobody can renew them.
LEASE = "2"


class Place(NamedTuple):
    fleet: Fleet
    servers: UnderSentinels


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    servers = UnderSentinels(tmp_path)
    settings = {"SEKISHO_REDIS_TIMEOUT": "2", "SEKISHO_LEASE_SECONDS": LEASE, "SEKISHO_MAX_CONCURRENCY": "12"}
    async with Fleet(tmp_path, GATEWAYS, servers, **settings) as fleet:
        yield Place(fleet, servers)


async def test_a_master_is_killed_under_load_and_gateways_go_on_at_the_next(place: Place) -> None:
    fleet, servers = place
    tally, until_end = Counter[str](), time.monotonic() + 9
    async with asyncio.TaskGroup() as group:
        for seed in range(8):
            group.create_task(keeps_asking(fleet, GATEWAYS, seed, until_end, tally))
        await asyncio.sleep(2)
        async with fleet.ask(0, 600, 0.02) as in_flight:
            await in_flight.content.readany()
            dead = servers.settle_and_kill()
            killed = time.monotonic()
            await refused(fleet, 1)
            await asyncio.gather(*(until_answered(fleet, number) for number in range(GATEWAYS)))
            print(f"both gateways served again {time.monotonic() - killed:.1f} s after the kill")
            assert servers.master != dead
            assert (await in_flight.read()).endswith(b"[DONE]\n\n")
    print("the clients saw:", dict(tally))
    assert tally["200"] > 20
    assert not tally["cut"]
    await the_books_are_right(fleet)


async def test_a_frozen_master_is_left_for_good_though_a_sentinel_is_missing(place: Place) -> None:
    fleet, servers = place
    servers.kill_sentinel()
    frozen = servers.master
    async with fleet.ask(0, 300, 0.02) as in_flight:
        await in_flight.content.readany()
        servers.process(frozen).send_signal(signal.SIGSTOP)
        await until_answered(fleet, 1)
        servers.process(frozen).send_signal(signal.SIGCONT)
        await asyncio.gather(*(until_answered(fleet, number) for number in range(GATEWAYS)))
        assert (await in_flight.read()).endswith(b"[DONE]\n\n")
    await asyncio.to_thread(until, lambda: servers.is_replica(frozen))
    await the_books_are_right(fleet)
