"""One connection to Redis, shared by all: what is asked in one turn of the loop goes out in one write.

redis-py lends a connection to each call and costs about 150 us of CPU a script; this costs about 15, parser and all.
It knows no keys, keeps no scripts and does not reconnect by itself.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any, TypeVar, cast

import hiredis

from gateway.settings.redis_url import Login, Node

Argument = str | bytes | int | float


class Connection(asyncio.Protocol):
    """Made by `connect`. Fails every call in flight with ConnectionResetError when it ends."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._pending: deque[asyncio.Future[Any]] = deque()
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def call(self, *arguments: Argument) -> asyncio.Future[Any]:
        """The answer to come; an error answer is a hiredis.ReplyError as value. Giving up disturbs no other caller."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if not self.alive:
            _end(answer)
            return answer
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        # Its stub says a tuple of one.
        self._outgoing.append(hiredis.pack_command(arguments))  # type: ignore[arg-type]
        self._pending.append(answer)
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (value := self._reader.gets()) is not False:
            self._take(value)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        while self._pending:
            answer = self._pending.popleft()
            if not answer.done():
                _end(answer)

    def _take(self, value: Any) -> None:
        answer = self._pending.popleft()
        if not answer.done():
            answer.set_result(value)

    def _flush(self) -> None:
        data, self._outgoing = b"".join(self._outgoing), []
        if self._transport is not None:
            self._transport.write(data)


AnyConnection = TypeVar("AnyConnection", bound=Connection)


def _end(answer: asyncio.Future[Any]) -> None:
    answer.set_exception(ConnectionResetError("the connection to Redis has ended"))
    # Of several in one round trip only the first is awaited then; asyncio would log the others as forgotten.
    answer.exception()


async def connect(node: Node, login: Login, kind: type[AnyConnection]) -> AnyConnection:
    """A connection that has authenticated and chosen its database. Raises OSError; the caller bounds the time."""
    loop = asyncio.get_running_loop()
    if node.path:
        _, connection = await loop.create_unix_connection(kind, node.path)
    else:
        tls = ssl.create_default_context(cafile=login.authorities) if login.tls else None
        _, connection = await loop.create_connection(kind, node.host, node.port, ssl=tls)
    try:
        if login.password:
            user = (login.username,) if login.username else ()
            await _expect_ok(connection, "AUTH", *user, login.password)
        if login.db:
            await _expect_ok(connection, "SELECT", login.db)
    except BaseException:
        connection.close()
        raise
    return connection


async def _expect_ok(connection: Connection, *command: Argument) -> None:
    answer = await connection.call(*command)
    if answer != b"OK":
        raise ConnectionError(f"Redis refused {command[0]!r}: {answer!r}")
