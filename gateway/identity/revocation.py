"""Hears what was changed anywhere, forgets it here, and ends the requests in flight of whoever may no longer ask.

News can be lost, so whoever has a request in flight is also looked at again every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from gateway.errors import StoreAway, Unauthenticated
from gateway.identity.records import Key, ServiceAccount, User
from gateway.identity.sessions import Sessions
from gateway.scope import Principal
from gateway.store import keys
from gateway.store.lookup import Lookup
from gateway.store.redis import Store

log = logging.getLogger("sekisho.revocation")

_GONE = "gone"
SESSION = "session"  # the kind under which the end of a browser session is told
_RECONNECT_SECONDS = 0.5
_SWEEP_SECONDS = 5.0
_ENDED_SESSIONS = 4096


class Who(NamedTuple):
    """Something that a request stands on, as the news names it."""

    kind: str
    id: str


@dataclass(eq=False, slots=True)
class Flight:
    """A request in flight: the task that serves it, and what it stands on."""

    task: asyncio.Task[object]
    stands_on: tuple[Who, ...]
    asked_for: Who | None = None  # the person a program asks for, who need not have signed in yet
    ended: bool = False

    def suffers(self, who: Who, fault: str) -> bool:
        return bool(fault) and not (fault == _GONE and who == self.asked_for)

    def end(self) -> None:
        if not self.ended and not self.task.done():
            self.ended = True
            self.task.cancel()


class Revocation:
    """`start` before use, `aclose` after."""

    def __init__(
        self,
        store: Store,
        lookup: Lookup,
        sessions: Sessions,
        ends_streams: bool,
        sweep_seconds: float = _SWEEP_SECONDS,
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._sessions = sessions
        self._ends_streams = ends_streams
        self._sweep_seconds = sweep_seconds
        self._flights: dict[Who, set[Flight]] = {}
        self._ended_sessions: OrderedDict[str, None] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._listen())]
        if self._ends_streams:
            self._tasks.append(asyncio.create_task(self._sweep()))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def watched(self, principal: Principal) -> AsyncIterator[None]:
        """Raises Unauthenticated inside, and out of here, once the principal may no longer ask."""
        task = asyncio.current_task()
        if not self._ends_streams or task is None:
            yield
            return
        flight = _flight(task, principal)
        self._add(flight)
        try:
            # What was ended between authentication and here was news to nobody.
            for who in flight.stands_on:
                if flight.suffers(who, await self._fault(who)):
                    raise _revoked()
            yield
        except asyncio.CancelledError:
            if flight.ended:
                task.uncancel()
                raise _revoked() from None
            raise
        finally:
            self._remove(flight)

    def _add(self, flight: Flight) -> None:
        for who in flight.stands_on:
            self._flights.setdefault(who, set()).add(flight)

    def _remove(self, flight: Flight) -> None:
        for who in flight.stands_on:
            self._flights[who].discard(flight)
            if not self._flights[who]:
                del self._flights[who]

    async def _listen(self) -> None:
        while True:
            try:
                async with self._store.subscribed(keys.CHANGED) as messages:
                    await self._catch_up()
                    async for message in messages:
                        await self._hear(message.decode())
            except (OSError, StoreAway):
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _catch_up(self) -> None:
        """What was told before is lost: nothing that is remembered can be relied on."""
        self._lookup.forget_all()
        for who in list(self._flights):
            if who.kind == SESSION and await self._sessions.get(who.id) is None:
                self._note_ended(who.id)
        await self._look_at(*self._flights)

    async def _hear(self, news: str) -> None:
        kind, _, changed = news.partition(":")
        self._lookup.forget(kind, changed)
        if kind == SESSION:
            self._note_ended(changed)
        await self._look_at(Who(kind, changed))

    def _note_ended(self, session_id: str) -> None:
        self._ended_sessions[session_id] = None
        if len(self._ended_sessions) > _ENDED_SESSIONS:
            self._ended_sessions.popitem(last=False)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_seconds)
            try:
                await self._look_at(*self._flights)
            except StoreAway:
                continue  # what runs goes on while Redis is away

    async def _look_at(self, *those: Who) -> None:
        """Raises StoreAway."""
        for who in those:
            if who not in self._flights or not (fault := await self._fault(who)):
                continue
            for flight in [flight for flight in self._flights.get(who, ()) if flight.suffers(who, fault)]:
                log.info("a request in flight ends: %s %s is %s", who.kind, who.id, fault)
                flight.end()

    async def _fault(self, who: Who) -> str:
        """What is wrong with it, in a word; nothing if it is good."""
        if who.kind == SESSION:
            return "ended" if who.id in self._ended_sessions else ""
        if who.kind == Key.kind:
            key = await self._lookup.get(Key, who.id)
            if key is None:
                return _GONE
            return "expired" if key.expires and key.expires <= time.time() else ""
        owner: User | ServiceAccount | None = (
            await self._lookup.get(User, who.id)
            if who.kind == User.kind
            else await self._lookup.get(ServiceAccount, who.id)
        )
        if owner is None:
            return _GONE
        return "disabled" if owner.disabled else ""


def _flight(task: asyncio.Task[object], principal: Principal) -> Flight:
    """It stands on the credential, on its owner, and on the person asked for, if the door may know them."""
    found = []
    if principal.key_id:
        found.append(Who(Key.kind, principal.key_id))
    if principal.session_id:
        found.append(Who(SESSION, principal.session_id))
    found += [_account(subject) for subject in (principal.acting, principal.subject) if _is_ours(subject)]
    asked_for = _account(principal.subject) if principal.acting and _is_ours(principal.subject) else None
    return Flight(task, tuple(found), asked_for)


def _is_ours(subject: str) -> bool:
    """Rather than a name that only a program knows: <service>/<name>."""
    return subject != "" and "/" not in subject


def _account(subject: str) -> Who:
    return Who(User.kind if subject.startswith("usr_") else ServiceAccount.kind, subject)


def _revoked() -> Unauthenticated:
    return Unauthenticated("The credential that this request came with was revoked.", code="credential_revoked")
