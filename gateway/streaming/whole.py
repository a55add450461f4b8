"""An answer in one piece: embeddings, rankings. Read whole, within bounds, before any of it is sent."""

from __future__ import annotations

import asyncio

from backends.base import Upstream
from backends.errors import BackendError, Broken, TimedOut
from gateway.errors import EngineBroken, EngineSilent, from_backend
from gateway.scope import RequestScope
from gateway.streaming.edit import Edit
from gateway.streaming.meter import Meter
from gateway.streaming.watch import Patience


async def whole(upstream: Upstream, meter: Meter, patience: Patience, limit: int, edit: Edit | None = None) -> bytes:
    """The answer, a JSON object of at most `limit` bytes; its usage is in the meter.

    Raises a DoorError, its __cause__ the BackendError behind it, where there is no such answer.
    """
    try:
        body = await _read(upstream, patience, limit)
        meter.observe_whole(body)
    except TimeoutError:
        raise EngineSilent("The engine made no progress in time.") from TimedOut("no progress")
    except BackendError as error:
        raise from_backend(error) from error
    return (edit and edit(body)) or body


async def send_whole(request: RequestScope, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await request.begin(200, headers)
    await request.write(body, more=False)


async def _read(upstream: Upstream, patience: Patience, limit: int) -> bytes:
    parts: list[bytes] = []
    size, now = 0, asyncio.get_running_loop().time
    async with asyncio.timeout(patience.first_token) as waiting:
        async for chunk in upstream.chunks():
            size += len(chunk)
            if size > limit:
                raise EngineBroken(f"The engine's answer is larger than {limit} bytes. Ask for less at once.") from (
                    Broken("an over-long answer")
                )
            parts.append(chunk)
            waiting.reschedule(now() + patience.stall)
    return b"".join(parts)
