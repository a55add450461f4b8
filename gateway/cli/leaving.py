"""A server that leaves without cutting anybody off: it says so first, goes on for a while, then finishes what it has.

Knows of the application only how to tell it. Balancers learn of it by /readyz, clients by `connection: close`.
"""

from __future__ import annotations

import asyncio
import time
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import uvicorn

if TYPE_CHECKING:
    import socket

# A connection that was just accepted has a request on its way.
_ARRIVING_SECONDS = 0.5
# What is ended when its time is over says so to its client, and is booked.
_ENDING_SECONDS = 5.0
_CLOSE = (b"connection", b"close")


class Leaving(Protocol):
    """What it tells the application, and asks of it."""

    @property
    def writes(self) -> bool:
        """Whether it answers people who are not connected now."""

    def leave(self) -> None:
        """It is about to end: say so, and go on."""

    async def end(self) -> None:
        """The time is over for whatever is under way."""


class LeavingServer(uvicorn.Server):
    """A signal begins it; a second one ends the `delay` at once."""

    def __init__(self, app: Leaving, config: uvicorn.Config, delay: float, seconds: float) -> None:
        """`delay`: seconds in which requests are still taken; `seconds`: that those in flight have after it."""
        config.timeout_graceful_shutdown = round(seconds + _ENDING_SECONDS)
        super().__init__(config)
        self._app = app
        self._delay = delay
        self._seconds = seconds
        self._signals = 0
        self._leaves_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if not await super().on_tick(counter):
            return False
        if self._leaves_at is None:
            self._leaves_at = time.monotonic() + self._delay
            self._app.leave()
            self.config.encoded_headers.append(_CLOSE)
            self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]
        return self._signals > 1 or time.monotonic() >= self._leaves_at

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await asyncio.sleep(_ARRIVING_SECONDS)
        ending = asyncio.create_task(self._end())
        while self._app.writes and not self.force_exit:  # noqa: ASYNC110  as the server waits for its connections
            await asyncio.sleep(0.1)
        await super().shutdown(sockets)
        ending.cancel()

    async def _end(self) -> None:
        await asyncio.sleep(self._seconds)
        await self._app.end()
