"""When each API key was last used: written apart from the request, at most once a minute for a key and a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from gateway.errors import StoreAway
from gateway.identity.records import Key
from gateway.store.directory import Directory

_EVERY_SECONDS = 60.0
_CAPACITY = 8192


class Uses:
    def __init__(self, directory: Directory, now: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._now = now
        self._written: dict[str, float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, key_id: str) -> None:
        now = self._now()
        if self._written.get(key_id, -_EVERY_SECONDS) + _EVERY_SECONDS > now:
            return
        if len(self._written) >= _CAPACITY:
            self._written.pop(next(iter(self._written)))
        self._written[key_id] = now
        task = asyncio.create_task(self._write(key_id))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, key_id: str) -> None:
        with suppress(StoreAway):
            await self._directory.note_use(Key, key_id)

    async def aclose(self) -> None:
        await asyncio.gather(*self._writing, return_exceptions=True)
