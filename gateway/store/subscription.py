"""What is published on one channel, heard over a connection of its own. Knows no channel by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from gateway.store.connection import Connection

# Whoever is so far behind begins anew, and catches up as after an outage.
_MOST_UNHEARD = 10_000


class Subscription(Connection):
    """`subscribe` first, then read it once, as an asynchronous iterator."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def subscribe(self, channel: str) -> None:
        """Raises OSError."""
        if isinstance(answer := await self.call("SUBSCRIBE", channel), Exception):
            raise ConnectionError(f"Redis refused 'SUBSCRIBE': {answer!r}")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Never ends; raises ConnectionResetError when the connection does."""
        while (data := await self._heard.get()) is not None:
            yield data
        raise ConnectionResetError("the connection to Redis has ended")

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._heard.put_nowait(None)

    def _take(self, value: Any) -> None:
        if not (isinstance(value, list) and value[:1] == [b"message"]):
            super()._take(value)
        elif self._heard.qsize() < _MOST_UNHEARD:
            self._heard.put_nowait(value[2])
        else:
            self.close()
