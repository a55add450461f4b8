"""Quotas against a real Valkey, with a clock that the test sets: it takes the place of the server's in each script."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import redis

from gateway.quotas import nearing, reaper, service
from gateway.quotas.book import PolicyBook
from gateway.quotas.buckets import Usage
from gateway.quotas.plan import Plan, Size
from gateway.quotas.policy import Policy
from gateway.quotas.scripts import CLOCK
from gateway.quotas.service import QuotaService, Reserved
from gateway.scope import Principal
from gateway.settings import Price
from gateway.store import keys
from gateway.store.directory import Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.store.scripts import Script

LEASE = 30.0
_TIME = "{sekisho}:test-clock"
_OURS = f"""
local ms = tonumber(redis.call('GET', '{_TIME}'))
local clock = {{math.floor(ms / 1000), (ms % 1000) * 1000}}"""


class Clock:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self.ms = round(time.time() * 1000)
        self.move(0)

    def move(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
        self._client.set(_TIME, self.ms)


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def clock(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Clock:
    scripts = ((service, ("RESERVE", "PROGRESS", "SETTLE", "LOOK")), (reaper, ("CLAIM",)), (nearing, ("LOOK",)))
    for module, names in scripts:
        for name in names:
            source = getattr(module, name).source
            assert source.count(CLOCK) == 1
            monkeypatch.setattr(module, name, Script(source.replace(CLOCK, _OURS)))
    found = Clock(client)
    for reader in (service, nearing):
        monkeypatch.setattr(reader, "_now_ms", lambda: found.ms)
    return found


class Quotas:
    """One gateway's quotas, and what a test asks of them."""

    def __init__(self, store: Store, prices: dict[str, Price], zone: str) -> None:
        self.store = store
        self.directory = Directory(Records(store))
        self.service = QuotaService(store, PolicyBook(Records(store), 0.0), prices, zone, LEASE)
        self.names = iter(range(10**9))

    async def plan(self, who: Principal, size: Size, request_id: str = "", model: str = "m") -> Plan:
        return await self.service.plan(request_id or f"r{next(self.names)}", who, model, size)

    async def reserve(self, plan: Plan) -> Reserved:
        return self.service.reserved(plan, await self.store.run(self.service.reserve(plan)))

    async def ask(
        self, who: Principal, prompt: int = 0, output: int = 0, request_id: str = "", model: str = "m"
    ) -> tuple[str, Reserved]:
        """Reserve for a request of this size. Raises QuotaExceeded."""
        plan = await self.plan(who, Size(prompt, output), request_id, model)
        return plan.request_id, await self.reserve(plan)

    async def settle(self, request_id: str, used: Usage, learn: bool = True) -> list[Any]:
        return await self.store.run_all(*self.service.settle(request_id, used, learn=learn))

    async def progress(self, **streamed: Usage) -> None:
        await self.store.run_all(*self.service.progress(streamed))

    async def left(self, who: Principal, model: str = "m") -> dict[str, int]:
        return {state.limit.name: state.left for state in await self.service.state(who, model)}


Start = Callable[..., Awaitable[Quotas]]


@pytest.fixture
async def quotas(store: Store, clock: Clock) -> Start:
    """Starts a gateway's quotas with these policies; others keep running on the same Valkey."""

    async def start(*policies: Policy, prices: dict[str, Price] | None = None, zone: str = "UTC") -> Quotas:
        found = Quotas(store, prices or {}, zone)
        for policy in policies:
            await found.directory.create(None, policy)
        return found

    return start


def person(name: str = "ann", **more: Any) -> Principal:
    return Principal(f"usr_{name}", name, "user", "default", **more)


def policy(name: str = "p", **fields: Any) -> Policy:
    return msgspec.convert({"id": name} | fields, Policy)


def leftovers(client: redis.Redis) -> list[str]:
    """Keys that only a request in flight has."""
    found = [key.decode() for key in client.scan_iter(f"{keys.reservation('*').replace('{', '[{]')}")]
    return found + [key.decode() for key in client.zrange(keys.RESERVATIONS, 0, -1)]
