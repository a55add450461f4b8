"""What each line has room for: told every second, and at once where a backend's health changes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress

from gateway.queueing.ask import Room
from gateway.queueing.lines import Lines
from gateway.queueing.permits import Permits
from gateway.queueing.speed import Speed
from gateway.routing.fleet import Fleet
from gateway.routing.member import Member
from gateway.routing.router import candidate

_SECONDS = 1.0


class Rooms:
    """`start` before use, `aclose` after. `target`: tokens per second that everybody is to have; 0: whatever comes."""

    def __init__(self, fleet: Fleet, lines: Lines, target: float) -> None:
        self._fleet = fleet
        self._lines = lines
        self._target = target
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._lines.start()
        self._task = asyncio.create_task(self._keep())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._lines.aclose()

    def line(self, name: str) -> Permits:
        """With its rooms, also where it is new."""
        permits = self._lines.line(name)
        if not permits.rooms:
            self._tell()
        return permits

    def told(self) -> list[tuple[Permits, list[str]]]:
        """Every line, with the models that it leads to."""
        return [
            (self.line(name), sorted({model for member in members for model in member.names}))
            for name, members in self._fleet.lines().items()
        ]

    async def _keep(self) -> None:
        while True:
            self._fleet.changed.clear()
            self._tell()
            await self._lines.keep(self._fleet.lines().keys())
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    await self._fleet.changed.wait()

    def _tell(self) -> None:
        for name, members in self._fleet.lines().items():
            permits = self._lines.line(name)
            permits.rooms = self._rooms(members, permits)

    def _rooms(self, members: Sequence[Member], permits: Permits) -> dict[str, Room]:
        shares = self._fleet.shares(members)
        return {
            member.name: Room(
                self._capacity(member, permits.speeds.get(member.name), shares.get(member.name)),
                member.load.kv_tokens or 0,
                candidate(member).each_seconds,
            )
            for member in members
        }

    def _capacity(self, member: Member, speed: Speed | None, share: float | None) -> int:
        """As many as it takes, or as few as keep everybody at the target speed; of one that recovers a part of it."""
        if share is None:
            return 0
        most = min(member.capacity, member.load.slots or member.capacity)
        by_speed = speed.capacity_for(self._target) if speed and self._target else None
        if by_speed is not None:
            most = min(most, by_speed)
        return max(1, math.ceil(most * share))
