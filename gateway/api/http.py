"""Reading a bounded body and writing JSON, over plain ASGI. Knows no route."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gateway.api.language import refused
from gateway.errors import BodyTimeout, BodyTooLarge, ClientGone, DoorError
from gateway.scope import RequestScope


async def read_body(request: RequestScope, limit: int, seconds: float) -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTimeout or ClientGone."""
    declared = request.headers.get(b"content-length", b"")
    too_large = BodyTooLarge(f"The request body is larger than {limit} bytes. Send less at once.")
    # Far too large is refused unread; a little too large is read away, so that a client can read the refusal after it.
    if declared.isdigit() and int(declared) > 2 * limit:
        raise too_large
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            size = await _read_into(parts, request, limit)
    except TimeoutError:
        raise BodyTimeout(f"The request body did not arrive within {seconds:g} seconds.") from None
    if size > limit:
        raise too_large
    return b"".join(parts)


async def _read_into(parts: list[bytes], request: RequestScope, limit: int) -> int:
    size = 0
    while size <= 2 * limit:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        if not message.get("more_body", False):
            break
    return size


async def send_json(
    request: RequestScope, value: Any, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send_bytes(request, msgspec.json.encode(value), status=status, headers=headers)


async def send_bytes(
    request: RequestScope,
    body: bytes,
    content_type: str = "application/json",
    status: int = 200,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    framing = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await request.begin(status, framing + (headers or []))
    await request.write(body, more=False)


async def send_error(request: RequestScope, error: DoorError) -> None:
    await send_bytes(request, refused(request, error), status=error.status, headers=error.headers())
