"""Writes an answer to the client as the event stream it asked for.

An event is written whole, so a keep-alive comment or an error can stand between any two.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from backends.wire import sse
from gateway.errors import DoorError
from gateway.scope import RequestScope
from gateway.streaming.disconnect import cut_off

_LAST_WORDS_SECONDS = 1.0

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Sink(Protocol):
    """Where events go. `committed` once the client has been told a status, `answered` once it has been told all."""

    committed: bool
    answered: bool

    async def take(self, events: list[bytes]) -> None:
        """The next ones; the first come once the engine has said something."""
        ...

    async def finish(self) -> None: ...

    async def fail(self, error: DoorError) -> None: ...

    def tell_place(self, place: int, eta: float | None) -> None: ...

    def close(self) -> None: ...


class Framing(Protocol):
    """How a client's events are written."""

    def events(self, events: list[bytes]) -> bytes:
        """Of what the engine said, [DONE] at the end of it."""
        ...

    def end(self) -> bytes:
        """Where the engine said no [DONE]."""
        ...

    def error(self, error: DoorError) -> bytes:
        """In the place of an end."""
        ...


class ChatFraming:
    """As the engine said it."""

    def events(self, events: list[bytes]) -> bytes:
        return b"".join(map(sse.event, events))

    def end(self) -> bytes:
        return sse.DONE

    def error(self, error: DoorError) -> bytes:
        return sse.event(error.body())


class StreamSink:
    """The client's event stream. Its status waits for content, or for the moment the client needs a sign of life."""

    def __init__(self, request: RequestScope, keepalive_seconds: float, framing: Framing | None = None) -> None:
        self.committed = False
        self.answered = False
        self._request = request
        self._framing = framing or ChatFraming()
        self._writing = asyncio.Lock()
        self._keepalive_seconds = keepalive_seconds
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        self._comment: asyncio.Task[None] | None = None
        self._unsaid = ""
        self._timer = self._loop.call_later(keepalive_seconds, self._on_silence)

    async def take(self, events: list[bytes]) -> None:
        if events[-1] == b"[DONE]":
            self.answered = True
        await self._write(self._framing.events(events))

    async def finish(self) -> None:
        done = b"" if self.answered else self._framing.end()
        self.answered = True
        await self._write(done, more=False)

    async def fail(self, error: DoorError) -> None:
        """An error after the status has gone: an error event, then the end, and no [DONE]."""
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._write(b"" if self.answered else self._framing.error(error), more=False)
        except TimeoutError:
            # A client that has stopped reading will not read this either.
            await cut_off(self._request.send)

    def tell_place(self, place: int, eta: float | None) -> None:
        """A comment for a client that asked to be told. One that reads slowly misses places, never the last."""
        self._unsaid = f"queue position={place}" + ("" if eta is None else f" eta={eta:.1f}")
        if self._comment is None or self._comment.done():
            self._comment = self._loop.create_task(self._say())

    def close(self) -> None:
        self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        async with self._writing:
            if not self.committed:
                self.committed = True
                await self._request.begin(200, _STREAM_HEADERS)
            self._last_write = self._loop.time()
            await self._request.write(data, more=more)

    async def _say(self) -> None:
        while text := self._unsaid:
            self._unsaid = ""
            await self._write(sse.comment(text))

    def _on_silence(self) -> None:
        silence = self._loop.time() - self._last_write
        wait = self._keepalive_seconds - silence
        if wait <= 0 and self._writing.locked():
            wait = self._keepalive_seconds  # silence is the client's: it does not read what there is
        elif wait <= 0:
            self._unsaid = self._unsaid or "keep-alive"
            self._comment = self._loop.create_task(self._say())
            wait = self._keepalive_seconds
        self._timer = self._loop.call_later(wait, self._on_silence)
