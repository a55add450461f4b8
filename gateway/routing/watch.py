"""Looks at one backend over and over: how ready it is, what it serves, how busy it says it is. Costs no tokens.

What is made of it is others' business: every look is called back.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from backends.base import Backend, Load, ModelCard, Readiness
from backends.errors import BackendError
from gateway.routing.figures import Figures

log = logging.getLogger("sekisho.routing")

# Between two looks at least, and as long as it is not ready.
_AWAY_SECONDS = 0.25

_Read = TypeVar("_Read")


class Seen(NamedTuple):
    """`models`: None where they could not be read. `stale`: why its load figures are not believed; empty: they are."""

    readiness: Readiness
    models: tuple[ModelCard, ...] | None = None
    load: Load = Load()
    stale: str = ""


class Watch:
    """`found` is called after each look. `held`: how many requests the door has there now. `start` and `aclose`."""

    def __init__(self, backend: Backend, found: Callable[[Seen], None], held: Callable[[], int]) -> None:
        self._backend = backend
        self._found = found
        self._held = held
        self._figures = Figures(backend.probe_seconds)
        self._looking = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._is_ready = False
        self._looked_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_looking())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def hurry(self) -> None:
        """A request found it away, or somebody said so: do not wait for the next look's time."""
        self._hurry.set()

    async def look(self, newest: float = 0.0) -> None:
        """Look now, unless the last look is no more than `newest` seconds old."""
        async with self._looking:
            if time.monotonic() - self._looked_at > newest:
                self._hurry.clear()
                self._found(await self._see())
                self._looked_at = time.monotonic()

    async def _keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_AWAY_SECONDS)
            if self._is_ready:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._backend.probe_seconds):
                        await self._hurry.wait()

    async def _see(self) -> Seen:
        readiness = await self._backend.readiness()
        self._is_ready = readiness is Readiness.READY
        if not self._is_ready:
            self._figures.reset()
            return Seen(readiness)
        models, load = await self._read(self._backend.models()), await self._read(self._backend.load())
        trusted = self._backend.trusts_load
        stale = self._figures.take(load, self._held(), time.monotonic()) if trusted else ""
        return Seen(readiness, None if models is None else tuple(models), load or Load(), stale)

    async def _read(self, reading: Awaitable[_Read]) -> _Read | None:
        try:
            return await reading
        except BackendError as error:
            log.debug("backend %s: %s", self._backend.name, error)
            return None
