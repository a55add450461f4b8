"""The connection to Redis: bounded in time and number, one error for every way it can be away. Knows no key."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from gateway.errors import StoreAway
from gateway.store.scripts import Call

log = logging.getLogger("sekisho.store")

_MAX_CONNECTIONS = 64
# After this many failures in a row requests are refused at once for a moment, instead of each waiting its timeout.
_FAILURES_TO_OPEN = 3
_OPEN_SECONDS = 0.5

T = TypeVar("T")


class Store:
    """Raises nothing but StoreAway."""

    def __init__(self, url: str, timeout: float) -> None:
        # One retry covers a pooled connection that a restarted server has closed; a timeout is never retried.
        retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
        options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
        self._redis: Any = Redis(
            connection_pool=BlockingConnectionPool.from_url(
                url, max_connections=_MAX_CONNECTIONS, timeout=timeout, **options
            )
        )
        self._failures = 0
        self._open_until = 0.0

    async def run(self, call: Call) -> Any:
        """One script, one round trip."""
        return await self._guarded(self._evaluate(call))

    async def run_all(self, *calls: Call) -> list[Any]:
        """Several scripts in one round trip; not atomic together."""
        return await self._guarded(self._evaluate_all(calls))

    async def command(self, *arguments: str | bytes | int | float) -> Any:
        return await self._guarded(self._redis.execute_command(*arguments))

    @asynccontextmanager
    async def subscribed(self, channel: str) -> AsyncIterator[PubSub]:
        """A connection of its own that hears `channel`. Its errors pass through: the listener owns reconnection."""
        pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
        try:
            await pubsub.subscribe(channel)
            yield pubsub
        finally:
            await pubsub.aclose()

    async def aclose(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _evaluate(self, call: Call) -> Any:
        script, keys, arguments = call
        try:
            return await self._redis.execute_command("EVALSHA", script.digest, len(keys), *keys, *arguments)
        except NoScriptError:
            return await self._redis.execute_command("EVAL", script.source, len(keys), *keys, *arguments)

    async def _evaluate_all(self, calls: tuple[Call, ...]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for script, keys, arguments in calls:
            pipe.execute_command("EVALSHA", script.digest, len(keys), *keys, *arguments)
        results: list[Any] = await pipe.execute(raise_on_error=False)
        for index, result in enumerate(results):
            if isinstance(result, NoScriptError):
                results[index] = await self._evaluate(calls[index])
            elif isinstance(result, Exception):
                raise result
        return results

    async def _guarded(self, work: Awaitable[T]) -> T:
        if self._open_until > time.monotonic():
            _discard(work)
            raise StoreAway("The service cannot count requests at the moment. Try again shortly.")
        try:
            result = await work
        except (RedisError, OSError, TimeoutError) as error:
            self._note_failure(error)
            raise StoreAway("The service cannot count requests at the moment. Try again shortly.") from error
        if self._failures:
            self._note_return()
        return result

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            log.warning("Redis is away: %s: %s", type(error).__name__, error)
        if self._failures >= _FAILURES_TO_OPEN:
            self._open_until = time.monotonic() + _OPEN_SECONDS

    def _note_return(self) -> None:
        log.warning("Redis is back after %d failed calls", self._failures)
        self._failures = 0


def _discard(work: Awaitable[Any]) -> None:
    """Close a coroutine that will not run, so that Python does not warn of it."""
    close = getattr(work, "close", None)
    if close is not None:
        close()
