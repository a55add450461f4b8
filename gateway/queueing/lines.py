"""Every line of this gateway, by name. Knows neither backends nor models."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from gateway.queueing.ask import QueueLimits
from gateway.queueing.permits import Permits
from gateway.store.redis import Store


class Lines:
    """`start` before use, `aclose` after. All have the same limits."""

    def __init__(self, store: Store, limits: QueueLimits) -> None:
        self._store = store
        self._limits = limits
        self._lines: dict[str, Permits] = {}
        self._started = False

    @property
    def held(self) -> int:
        return sum(permits.held for permits in self._lines.values())

    @property
    def waiting(self) -> int:
        return sum(permits.waiting for permits in self._lines.values())

    def rooms(self) -> dict[str, float]:
        """How many may run at once in each backend, all gateways together."""
        return {name: room.capacity for permits in self._lines.values() for name, room in permits.rooms.items()}

    def start(self) -> None:
        self._started = True
        for permits in self._lines.values():
            permits.start()

    async def aclose(self) -> None:
        await asyncio.gather(*(permits.aclose() for permits in self._lines.values()))

    def line(self, name: str) -> Permits:
        """Without any room at first, where it is new."""
        permits = self._lines.get(name)
        if permits is None:
            permits = self._lines[name] = Permits(self._store, name, self._limits, {})
            if self._started:
                permits.start()
        return permits

    async def keep(self, names: Collection[str]) -> None:
        """The other lines have no room any more, and are dropped once nobody of this gateway is there."""
        for name, permits in self._lines.items():
            if name not in names:
                permits.rooms = {}
        idle = [name for name, permits in self._lines.items() if not permits.held and not permits.waiting]
        dropped = [self._lines.pop(name) for name in idle if name not in names]
        await asyncio.gather(*(permits.aclose() for permits in dropped))
