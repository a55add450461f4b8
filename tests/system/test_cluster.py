"""A Cluster's node with our slot dies, and the slot moves, while people are answered: gateways follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.fleet import Fleet, the_books_are_right, until_answered
from tests.system.redis_servers import Cluster

pytestmark = pytest.mark.slow
GATEWAYS = 2


class Place(NamedTuple):
    fleet: Fleet
    servers: Cluster


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    servers = Cluster(tmp_path)
    settings = {"SEKISHO_REDIS_TIMEOUT": "2", "SEKISHO_LEASE_SECONDS": "2"}
    async with Fleet(tmp_path, GATEWAYS, servers, **settings) as fleet:
        yield Place(fleet, servers)


async def test_gateways_follow_the_slot_through_a_failover_and_a_move(place: Place) -> None:
    fleet, servers = place
    async with fleet.ask(0, 600, 0.02) as in_flight, fleet.ask(1, 600, 0.02) as other:
        await in_flight.content.readany()
        dead = await asyncio.to_thread(servers.settle_and_kill)
        await asyncio.gather(*(until_answered(fleet, number) for number in range(GATEWAYS)))
        assert servers.owner != dead
        there = await asyncio.to_thread(servers.move_the_slot)
        await asyncio.gather(*(until_answered(fleet, number) for number in range(GATEWAYS)))
        assert servers.owner == there
        for stream in (in_flight, other):
            assert (await stream.read()).endswith(b"[DONE]\n\n")
    await the_books_are_right(fleet)
