"""All group records at once, believed for less than a second: a token may name hundreds, most of them unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from gateway.errors import StoreAway
from gateway.identity.records import Group
from gateway.store.directory import Directory

_PAGE = 1000


class GroupBook:
    def __init__(self, directory: Directory, seconds: float, seconds_away: float = 0.0) -> None:
        self._directory = directory
        self._seconds = seconds
        self._seconds_away = seconds_away  # as of store.lookup
        self._groups: dict[str, Group] = {}
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def all(self) -> Mapping[str, Group]:
        """Raises StoreAway."""
        if time.monotonic() < self._until:
            return self._groups
        async with self._reading:
            if time.monotonic() >= self._until:
                began = time.monotonic()
                try:
                    self._groups = await self._read()
                except StoreAway:
                    if not self._until or began >= self._until + self._seconds_away:
                        raise
                    return self._groups
                self._until = began + self._seconds
        return self._groups

    async def _read(self) -> dict[str, Group]:
        found: dict[str, Group] = {}
        after = ""
        while page := await self._directory.page(Group, after, _PAGE):
            found |= {group.id: group for group in page}
            after = page[-1].id
            if len(page) < _PAGE:
                break
        return found
