"""Who holds a stream up, and for how long: the engine that says nothing, or the client that does not read."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple


class Patience(NamedTuple):
    """Seconds that a stream may be held up."""

    first_token: float
    stall: float  # by the engine, once it has said something
    client: float  # by a client that does not take what is there for it


class Watch:
    """A block in which an engine or a client that takes too long is a TimeoutError.

    One timer looks now and then since when the stream has been held up: a chunk costs a few assignments and no timer.
    """

    def __init__(self, patience: Patience) -> None:
        self.sending = False  # it is the client that is waited for
        self._engine_seconds = patience.first_token
        self._client_seconds = patience.client
        self._look_seconds = min(patience.stall, patience.client)
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    def send(self) -> None:
        """From now on the client is waited for."""
        self.sending, self._since = True, self._loop.time()

    def receive(self, seconds: float) -> None:
        """From now on the engine is waited for."""
        self.sending, self._engine_seconds, self._since = False, seconds, self._loop.time()

    def end_within(self, seconds: float) -> None:
        """Whatever still comes from the engine, the block ends."""
        self.receive(seconds)
        self._look()

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._look()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        left = self._since + (self._client_seconds if self.sending else self._engine_seconds) - now
        if left <= 0:
            self._timeout.reschedule(now)
        else:
            # Whom it waits for may change meanwhile, but nobody's time is up sooner than after the shortest of them.
            self._timer = self._loop.call_later(min(left, self._look_seconds), self._look)
