"""Redis for the rest of the door: bounded in time, reconnecting, one error for every way to be away. Knows no key."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hiredis

from gateway.errors import StoreAway
from gateway.settings.redis_url import RedisAt, parse
from gateway.store.connection import AnyConnection, Argument, Connection
from gateway.store.finding import find
from gateway.store.scripts import Call
from gateway.store.subscription import Subscription

log = logging.getLogger("sekisho.store")

# After this many failures in a row requests are refused at once for a moment, instead of each waiting its timeout.
_FAILURES_TO_OPEN = 3
_OPEN_SECONDS = 0.5
# How a server begins that is not, or is no longer, the one for our writes: https://valkey.io/topics/cluster-spec
_ELSEWHERE = ("MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS")


class Store:
    """Raises nothing but StoreAway, `subscribed` excepted."""

    def __init__(self, at: RedisAt | str, timeout: float, on_answer: Callable[[float], None] | None = None) -> None:
        """`at` may be a URL. `on_answer` is told the seconds of each round trip that came back."""
        self._at = parse(at) if isinstance(at, str) else at
        self._on_answer = on_answer
        self._timeout = timeout
        self._connection: Connection | None = None
        self._subscriptions: set[Subscription] = set()
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._open_until = 0.0

    @property
    def away(self) -> bool:
        """Whether its last answer did not come."""
        return self._failures > 0

    async def run(self, call: Call) -> Any:
        """One script, one round trip."""
        return (await self.run_all(call))[0]

    async def run_all(self, *calls: Call) -> list[Any]:
        """Several scripts in one round trip, in this order; not atomic together."""
        answers = await self._ask([_by_digest(call) for call in calls])
        unknown = [_is_unknown(answer) for answer in answers]
        if any(unknown):
            # A later one may have run without the one before it: all from the first unknown on are sent again.
            first = unknown.index(True)
            again = zip(calls[first:], unknown[first:], strict=True)
            answers[first:] = await self._ask([_by_source(call) if new else _by_digest(call) for call, new in again])
        return [self._checked(answer) for answer in answers]

    async def command(self, *arguments: Argument) -> Any:
        return self._checked((await self._ask([arguments]))[0])

    @asynccontextmanager
    async def subscribed(self, channel: str) -> AsyncIterator[Subscription]:
        """A connection of its own that hears `channel`. Raises OSError, as does what it yields: the listener begins
        again. It ends with the connection for calls at the latest, whose loss is noticed even where nothing is said.
        """
        async with asyncio.timeout(self._timeout):
            await self._reconnected()
            subscription = await self._opened(Subscription)
            self._subscriptions.add(subscription)
            try:
                await subscription.subscribe(channel)
            except BaseException:
                self._forget(subscription)
                raise
        try:
            yield subscription
        finally:
            self._forget(subscription)

    def hold(self) -> None:
        """From now on it is away for everybody, until `release`."""
        self._failures, self._open_until = 1, math.inf

    def release(self) -> None:
        self._failures, self._open_until = 0, 0.0

    def beside(self) -> Store:
        """Another one to the same server, which is not held."""
        return Store(self._at, self._timeout)

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.close()
            await asyncio.sleep(0)  # the transport ends in the next turn of the loop

    async def _ask(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        """The answers, in time; asked once more where the connection broke or another server took over, for all that is
        asked is idempotent.
        """
        began = time.monotonic()
        if self._open_until > began:
            raise _away(unasked=True)
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    answers = await self._send(commands)
                except ConnectionResetError:
                    answers = await self._send(commands)
        except (OSError, TimeoutError, hiredis.ProtocolError) as error:
            self._note_failure(error)
            raise _away() from error
        if self._failures:
            self._note_return()
        if self._on_answer is not None:
            self._on_answer(time.monotonic() - began)
        return answers

    async def _send(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        connection = self._connection
        if connection is None or not connection.alive:
            connection = await self._reconnected()
        asked = [connection.call(*command) for command in commands]
        answers = [await answer for answer in asked]
        for answer in answers:
            if isinstance(answer, hiredis.ReplyError) and str(answer).startswith(_ELSEWHERE):
                connection.close()
                raise ConnectionResetError(f"it is no longer the server to ask: {answer}")
        return answers

    async def _reconnected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or not self._connection.alive:
                for subscription in self._subscriptions:
                    subscription.close()
                self._connection = await self._opened(Connection)
            return self._connection

    async def _opened(self, kind: type[AnyConnection]) -> AnyConnection:
        return await find(self._at, kind, self._timeout / 2)

    def _forget(self, subscription: Subscription) -> None:
        subscription.close()
        self._subscriptions.discard(subscription)

    def _checked(self, answer: Any) -> Any:
        """An error answer (out of memory, read-only replica, loading) means as much as none."""
        if isinstance(answer, hiredis.ReplyError):
            self._note_failure(answer)
            raise _away() from answer
        return answer

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            log.warning("Redis is away: %s: %s", type(error).__name__, error)
        if self._failures >= _FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + _OPEN_SECONDS
        if isinstance(error, TimeoutError) and self._connection is not None:
            # Frozen, or its answers lost on the way: what comes next starts on a new connection.
            self._connection.close()

    def _note_return(self) -> None:
        log.warning("Redis is back after %d failed calls", self._failures)
        self._failures = 0


def _away(*, unasked: bool = False) -> StoreAway:
    error = StoreAway("The service cannot count requests at the moment. Try again shortly.")
    error.unasked = unasked
    return error


def _by_digest(call: Call) -> tuple[Argument, ...]:
    return ("EVALSHA", call.script.digest, len(call.keys), *call.keys, *call.arguments)


def _by_source(call: Call) -> tuple[Argument, ...]:
    return ("EVAL", call.script.source, len(call.keys), *call.keys, *call.arguments)


def _is_unknown(answer: Any) -> bool:
    return isinstance(answer, hiredis.ReplyError) and str(answer).startswith("NOSCRIPT")
