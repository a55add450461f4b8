"""The little HTTP this server needs, straight on ASGI: read a body, send JSON, send an error. Knows no models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from backends.wire.errors import InvalidRequest, error_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

# The door has its own, lower limit; this one only keeps a stray client from filling the memory.
MAX_BODY_BYTES = 64 * 1024 * 1024

JSON = b"application/json"


class HttpError(Exception):
    """An answer other than the one asked for. `close`: the body was not read to its end, so the connection must go."""

    def __init__(self, status: int, message: str, type_: str, code: str | None = None, *, close: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, type_, None, code)
        self.close = close


class ClientGone(Exception):
    """Nobody is left to answer."""


def unavailable(message: str) -> HttpError:
    return HttpError(503, message, "unavailable_error", "unavailable")


async def read_body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise HttpError(
                413,
                f"The request body is larger than {MAX_BODY_BYTES} bytes.",
                "invalid_request_error",
                "request_too_large",
                close=True,
            )
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return None


async def send_whole(
    send: Send, status: int, body: bytes, content_type: bytes = JSON, headers: tuple[Header, ...] = ()
) -> None:
    lengths = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", content_type), lengths, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: HttpError | InvalidRequest) -> None:
    if isinstance(error, InvalidRequest):
        await send_whole(send, error.status, error.body())
        return
    headers: tuple[Header, ...] = ((b"connection", b"close"),) if error.close else ()
    if error.status == 503:
        headers += ((b"retry-after", b"1"),)
    await send_whole(send, error.status, error.body, headers=headers)
