"""Keeps a session's word from the provider fresh: one gateway asks at a time, the others read what it was told.

Knows no provider: what it asks is handed to it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

import msgspec

from gateway.errors import Forbidden, ProviderAway, StoreAway
from gateway.identity.code_flow import Answer, Refused
from gateway.identity.sessions import Session, Sessions, Tokens
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

log = logging.getLogger("sekisho.identity")

_EARLY_SECONDS = 60  # before the provider's word runs out
_TRY_AFTER_SECONDS = 30  # while the provider is away
_PATIENCE_SECONDS = 15.0  # for another gateway's answer
_POLL_SECONDS = 0.05
# Not renewed for this long, the lease of a gateway that died is free again. A slow provider costs nobody the lease.
_LEASE_MS = 5000
_SAVE_ATTEMPTS = 20

# Takes and renews: KEYS 1 lease; ARGV 1 holder  2 ms.
_TAKE = Script(
    """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
)
_RELEASE = Script(
    """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""
)


class Renewed(NamedTuple):
    tokens: Tokens  # to be kept
    answer: Answer


class Source(Protocol):
    """Where fresh tokens come from. Both raise Refused, Forbidden, ProviderAway."""

    async def renew(self, session: Session, held: Tokens) -> Renewed: ...

    async def take_over(self, session: Session, answer: Answer) -> None:
        """What the new tokens say of the person."""

    def believed_seconds(self, issuer: str) -> float:
        """How long the provider may be away before its people are let in no more."""


class Refresher:
    def __init__(self, store: Store, sessions: Sessions, source: Source) -> None:
        self._store = store
        self._sessions = sessions
        self._source = source
        self._running: dict[str, asyncio.Task[Session | None]] = {}

    async def fresh(self, session: Session) -> Session | None:
        """None: the provider has ended it, or somebody here. Raises ProviderAway past the time it is believed."""
        current: Session | None = session
        if _is_due(session):
            current = await self._once(session.id)
        if current is not None and current.access_expires:
            believed = current.access_expires + self._source.believed_seconds(current.issuer)
            if time.time() > believed:
                raise ProviderAway("The identity provider could not confirm your session for too long. Try again.")
        return current

    async def aclose(self) -> None:
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _once(self, session_id: str) -> Session | None:
        """In a task of its own: a request that goes away must not lose a refresh token that was just replaced."""
        task = self._running.get(session_id)
        if task is None:
            task = self._running[session_id] = asyncio.create_task(self._refreshed(session_id))
            task.add_done_callback(lambda _: self._running.pop(session_id, None))
        return await asyncio.shield(task)

    async def _refreshed(self, session_id: str) -> Session | None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            async with self._lease(session_id) as held:
                current = await self._sessions.get(session_id)
                if current is None or not _is_due(current):
                    return current
                if held:
                    return await self._renew(current)
            if time.time() < current.access_expires or time.monotonic() > deadline:
                return current  # the provider's word still holds, or is believed for a while yet
            await asyncio.sleep(_POLL_SECONDS)

    async def _renew(self, session: Session) -> Session | None:
        try:
            renewed = await self._source.renew(session, self._sessions.tokens(session))
            # Kept before anything else can go wrong: from now on the provider takes only these.
            sealed = self._sessions.seal(session.id, renewed.tokens)
            saved = await self._save(session.id, sealed=sealed, access_expires=renewed.answer.expires, try_after=0)
            if saved is not None:
                await self._source.take_over(saved, renewed.answer)
            return saved
        except ProviderAway:
            return await self._save(session.id, try_after=int(time.time()) + _TRY_AFTER_SECONDS)
        except (Refused, Forbidden) as refusal:
            log.info("session %s ends: its refresh was refused: %s", session.id, refusal)
            await self._sessions.end(session.id)
            return None

    async def _save(self, session_id: str, **fields: Any) -> Session | None:
        """Whatever else has changed meanwhile stays. Patient, for a lost refresh token is a lost session."""
        for attempt in range(_SAVE_ATTEMPTS):
            try:
                current = await self._sessions.get(session_id)
                if current is None:
                    return None
                after = msgspec.structs.replace(current, **fields)
                if await self._sessions.replace(current, after):
                    return after
            except StoreAway:
                if attempt == _SAVE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_LEASE_MS / 1000 / _SAVE_ATTEMPTS)
        return current

    @asynccontextmanager
    async def _lease(self, session_id: str) -> AsyncIterator[bool]:
        name, holder = (keys.refresh(session_id),), secrets.token_hex(16)
        if not await self._store.run(_TAKE.call(name, holder, _LEASE_MS)):
            yield False
            return
        renewing = asyncio.create_task(self._keep(name, holder))
        try:
            yield True
        finally:
            renewing.cancel()
            with suppress(StoreAway):  # then it runs out by itself
                await self._store.run(_RELEASE.call(name, holder))

    async def _keep(self, name: tuple[str], holder: str) -> None:
        while True:
            await asyncio.sleep(_LEASE_MS / 1000 / 3)
            with suppress(StoreAway):
                await self._store.run(_TAKE.call(name, holder, _LEASE_MS))


def _is_due(session: Session) -> bool:
    return bool(session.access_expires) and time.time() > max(
        session.access_expires - _EARLY_SECONDS, session.try_after
    )
