"""A gateway without its Redis that may let in a share of every limit: to whom, how much, and booked afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.fake import FakeBackend, chat_script
from gateway.quotas.policy import Policy
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import usage
from tests.gateway.test_store import Server


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("own"))
    yield server
    server.kill()


def _away(server: Server) -> dict[str, Any]:
    """A Redis that will not answer, which has to be found out."""
    return {"redis_url": server.url, "redis_timeout": 1.0, "redis_away": "local_share"}


@pytest.fixture
async def door(start_door: StartDoor, server: Server) -> AsyncIterator[RunningDoor]:
    """Two gateways share four requests a minute; this one has been used once, and has lost its Redis."""
    door = await start_door(**_away(server), replicas=2, max_concurrency=8)
    assert door.app.door is not None
    policy = msgspec.convert({"id": "all", "requests_per_minute": 4}, Policy)
    await door.app.door.directory.create(None, policy)
    await asyncio.sleep(door.settings.key_cache_seconds)
    async with door.post(ask()) as response:
        assert response.status == 200
    server.freeze()
    yield door
    server.thaw()


async def test_its_share_of_a_limit_is_let_in_and_no_more(door: RunningDoor) -> None:
    for _ in range(2):
        async with door.post(ask()) as response:
            assert response.status == 200
    async with door.post(ask()) as response:
        await error_of(response, 429, "rate_limit_exceeded")
    async with door.client.get("/readyz") as response:
        assert (response.status, await response.json()) == (
            200,
            {"status": "local share", "missing": ["redis is away"], "draining": 0},
        )


async def test_a_key_that_it_never_saw_opens_nothing(door: RunningDoor) -> None:
    headers = {"authorization": "Bearer sk-skh-other-0123456789abcdef"}
    async with door.post(ask(), headers=headers) as response:
        await error_of(response, 503, "store_unavailable")


async def test_what_was_let_in_is_booked_once_redis_is_back(door: RunningDoor, server: Server) -> None:
    async with door.post(ask()) as response:
        assert response.status == 200
    server.thaw()
    await eventually(lambda: usage(door).get("requests") == 2, seconds=8)


async def test_a_door_that_was_not_told_to_share_lets_nobody_in(
    start_door: StartDoor, server: Server, tmp_path: Path
) -> None:
    door = await start_door(**_away(server) | {"redis_away": "refuse"})
    server.freeze()
    async with door.post(ask()) as response:
        await error_of(response, 503, "store_unavailable")
    server.thaw()


async def test_its_share_of_the_engine_is_used_and_no_more(start_door: StartDoor, server: Server) -> None:
    slow = FakeBackend(lambda body: chat_script(("a",) * 3, gap=2.0))
    door = await start_door(slow, **_away(server), replicas=2, max_concurrency=4)
    await asyncio.sleep(door.settings.key_cache_seconds)
    async with door.post(ask()) as response:
        assert response.status == 200
    server.freeze()
    statuses = await asyncio.gather(*(status_of(door) for _ in range(3)))
    server.thaw()
    assert sorted(statuses) == [200, 200, 429]


async def status_of(door: RunningDoor) -> int:
    async with door.post(ask()) as response:
        return response.status
