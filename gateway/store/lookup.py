"""A short memory in front of the directory: what was found is believed for less than a second.

So every gateway forgets within a second what another one changed, even where the news of it is lost. While Redis is
away nothing can be changed, and what was found may be believed for longer.
"""

from __future__ import annotations

import time

from gateway.errors import StoreAway
from gateway.store.directory import Directory
from gateway.store.record import AnyRecord, Record

_CAPACITY = 8192


class Lookup:
    def __init__(self, directory: Directory, seconds: float, seconds_away: float = 0.0) -> None:
        self._directory = directory
        self._seconds = seconds
        self._seconds_away = seconds_away
        self._memory: dict[tuple[str, str], tuple[float, Record]] = {}

    async def get(self, kind: type[AnyRecord], record_id: str) -> AnyRecord | None:
        """Only what exists is remembered: made-up ids cannot push it out."""
        now = time.monotonic()
        until, found = self._memory.get((kind.kind, record_id), (0.0, None))
        if until > now and isinstance(found, kind):
            return found
        try:
            record = await self._directory.get(kind, record_id)
        except StoreAway:
            if isinstance(found, kind) and now < until + self._seconds_away:
                return found
            raise
        self.forget(kind.kind, record_id)
        if record is not None:
            if len(self._memory) >= _CAPACITY:
                self._memory.pop(next(iter(self._memory)))
            self._memory[kind.kind, record_id] = (now + self._seconds, record)
        return record

    def forget(self, kind: str, record_id: str) -> None:
        self._memory.pop((kind, record_id), None)

    def forget_all(self) -> None:
        self._memory.clear()
