"""Small questions to a running part, asked without a client library: is Valkey there, does this path answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

_TIMEOUT = 2.0


class Answer(NamedTuple):
    status: int  # 0: nobody answered
    body: bytes

    def json(self) -> object:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


async def valkey_answers(socket: Path) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(b"PING\r\n")
                return (await reader.readline()).startswith(b"+PONG")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def get(path: str, *, socket: Path | None = None, host: str = "127.0.0.1", port: int = 0) -> Answer:
    """GET over a Unix socket, or over TCP where none is given."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            connect = asyncio.open_unix_connection(socket) if socket else asyncio.open_connection(host, port)
            reader, writer = await connect
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                return _parse(await reader.read())
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return Answer(0, b"")


def _parse(response: bytes) -> Answer:
    head, _, body = response.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[1].isdigit():
        return Answer(0, b"")
    return Answer(int(words[1]), body)
