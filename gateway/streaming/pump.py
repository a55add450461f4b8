"""Moves an engine's stream to a sink. Bytes in, events out; what is said of an answer until it breaks is passed on.

Knows nothing of who reads it, nor of other engines that could go on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from backends.base import Upstream
from backends.errors import BackendError, Broken, TimedOut
from backends.wire import sse
from gateway.errors import ClientStalled, EngineBroken, EngineSilent, from_backend
from gateway.streaming.continuation import Transcript
from gateway.streaming.edit import Edit
from gateway.streaming.meter import Meter
from gateway.streaming.relay import Sink
from gateway.streaming.watch import Patience, Watch

# After [DONE] the rest of the engine's answer is read, so that the connection can be used again, but not waited for.
_AFTERMATH_SECONDS = 0.25


async def pump(
    upstream: Upstream,
    meter: Meter,
    sink: Sink,
    patience: Patience,
    *,
    wants_usage: bool,
    transcript: Transcript,
    edit: Edit | None = None,
) -> None:
    """The answer into the sink, to its end. Called again with the next upstream where that begins anew or goes on.

    Raises a DoorError, its __cause__ the BackendError behind it, where the engine refuses, says nothing or stops short,
    and ClientStalled where it is the client that does not read. What came of the answer before that has been passed on.
    """
    rest: list[bytes] = []  # what has come and is not passed on yet
    read, said_before = _reader(meter, wants_usage, edit), meter.progress
    chunks, watch = upstream.chunks(), Watch(patience)
    try:
        async with watch:
            async for chunk in chunks:
                try:
                    read(chunk, rest)
                finally:
                    # A role or an empty delta says nothing yet: the engine may still refuse, and another be asked.
                    if rest and meter.progress != said_before:
                        transcript.keep(rest)
                        watch.send()
                        await sink.take(rest)
                        rest = []
                if meter.progress != said_before:
                    watch.receive(patience.stall)
                if meter.done:
                    watch.end_within(_AFTERMATH_SECONDS)
                    await anext(chunks, None)
                    break
        if not meter.complete:
            raise Broken("the answer ended before it was complete")
    except TimeoutError:
        if watch.sending:
            raise ClientStalled from None
        if not meter.complete:
            raise EngineSilent("The engine made no progress in time.") from TimedOut("no progress")
    except sse.OversizedEvent as error:
        raise EngineBroken("The engine sent more in one event than can be passed on.") from Broken(str(error))
    except BackendError as error:
        if not meter.complete:
            raise from_backend(error) from error
    await _finish(sink, rest, patience.client)


def _reader(meter: Meter, wants_usage: bool, edit: Edit | None) -> Callable[[bytes, list[bytes]], None]:
    """Puts what of a chunk the client is to get at the end of a list: nothing after [DONE]."""
    feed, observe = sse.EventParser().feed, meter.observe

    def read(chunk: bytes, into: list[bytes]) -> None:
        for event in feed(chunk):
            data = event.data if edit is None else edit(event.data)
            if data is not None and (observe(data) or wants_usage):
                into.append(data)
                if meter.done:
                    return

    return read


async def _finish(sink: Sink, rest: list[bytes], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            if rest:
                await sink.take(rest)
            await sink.finish()
    except TimeoutError:
        raise ClientStalled from None
