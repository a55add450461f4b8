"""Turns at one engine: a lease in Redis, renewed while it is used, that expires by itself if this process dies.

A free turn is handed to the front of the line by the script that frees it, and published; one listener a process
wakes the waiter. Waiters ask again at each heartbeat, which also covers a message that was lost.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from redis.exceptions import RedisError

from gateway.errors import QueueFull, QueueTimeout, StoreAway
from gateway.queueing.scripts import ACQUIRE, RELEASE, RENEW
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call

log = logging.getLogger("sekisho.queueing")

_RECONNECT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class QueueLimits:
    capacity: int
    longest_line: int
    wait_seconds: float
    lease_seconds: float
    # How often a waiter asks again. The front of the line asks oftener: it is the one to notice an expired lease.
    heartbeat_seconds: float = 1.0
    front_seconds: float = 0.1


class Turn(NamedTuple):
    granted_ms: int  # server time
    waited: bool


class Permits:
    """`start` before use, `aclose` after."""

    def __init__(self, store: Store, engine: str, limits: QueueLimits) -> None:
        self._store = store
        self._limits = limits
        self._keys = (keys.leases(engine), keys.line(engine), keys.beats(engine), keys.ticket(engine))
        self._held: set[str] = set()
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._renew())]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait(self, request_id: str) -> Turn:
        """Returns when it is this request's turn. Raises QueueFull, QueueTimeout, StoreAway.

        However this ends, the caller then makes `release`: the turn may have been given in the same moment.
        """
        state, place, now = await self._ask(request_id)
        if state == 1:
            self._held.add(request_id)
            return Turn(now, waited=False)
        if state < 0:
            raise QueueFull(f"{place} requests are waiting already. Try again in a few seconds.")
        now = await self._wait_in_line(request_id, place)
        self._held.add(request_id)
        return Turn(now, waited=True)

    def release(self, request_id: str) -> Call:
        """The call that gives the turn, or the place in the line, back."""
        self._held.discard(request_id)
        return RELEASE.call(self._keys, *self._arguments(request_id))

    async def _wait_in_line(self, request_id: str, place: int) -> int:
        woken = self._waiting[request_id] = asyncio.Event()
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                while True:
                    await self._pause(woken, place)
                    state, place, now = await self._ask(request_id)
                    if state == 1:
                        return now
                    if state < 0:
                        raise QueueFull("The line is full. Try again in a few seconds.")
        except TimeoutError:
            seconds = self._limits.wait_seconds
            raise QueueTimeout(f"No engine was free within {seconds:g} seconds. Try again later.") from None
        finally:
            del self._waiting[request_id]

    async def _pause(self, woken: asyncio.Event, place: int) -> None:
        seconds = self._limits.front_seconds if place <= 1 else self._limits.heartbeat_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()
        woken.clear()

    async def _ask(self, request_id: str) -> tuple[int, int, int]:
        call = ACQUIRE.call(self._keys, *self._arguments(request_id), self._limits.longest_line)
        state, place, now = await self._store.run(call)
        return state, place, now

    def _arguments(self, request_id: str) -> tuple[str | int, ...]:
        limits = self._limits
        # Three heartbeats may be missed before a waiter counts as dead.
        beat = _ms(limits.heartbeat_seconds * 3)
        return request_id, limits.capacity, _ms(limits.lease_seconds), beat, keys.GRANTED

    async def _listen(self) -> None:
        while True:
            try:
                async with self._store.subscribed(keys.GRANTED) as messages:
                    async for message in messages.listen():
                        self._wake(message["data"].decode())
            except (RedisError, OSError, TimeoutError):
                # The heartbeats go on meanwhile; the store logs that Redis is away.
                await asyncio.sleep(_RECONNECT_SECONDS)

    def _wake(self, request_id: str) -> None:
        if (woken := self._waiting.get(request_id)) is not None:
            woken.set()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease_seconds / 3)
            if self._held:
                with suppress(StoreAway):
                    await self._store.run(RENEW.call(self._keys[:1], _ms(self._limits.lease_seconds), *self._held))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
