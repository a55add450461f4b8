"""Settles the reservations of gateways that died: with the engine's own count, or with what was last told of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from backends.errors import BackendError
from gateway.errors import StoreAway
from gateway.quotas.buckets import Usage
from gateway.quotas.scripts import CLAIM
from gateway.quotas.service import REAPED_MARK_SECONDS, parse_used, settlement
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call

log = logging.getLogger("sekisho.quotas")

# What the engine says of a request, or None where it knows nothing of it. BackendError: it cannot say yet.
Account = Callable[[str], Awaitable[Usage | None]]
# The call that books a request whose gateway died, by its id, the note of its reservation, its use, and the claim
# without which it does nothing.
Book = Callable[[str, str, Usage, str], Call]

_AT_ONCE = 100
# How long an engine that cannot say is asked again: what is reserved stays reserved meanwhile.
_PATIENCE_SECONDS = 600.0


class Reaper:
    """`start` before use, `aclose` after. One a process; they share the work."""

    def __init__(self, store: Store, lease_seconds: float, account: Account, book: Book | None = None) -> None:
        self._store = store
        self._account = account
        self._book = book
        self._lease_seconds = lease_seconds
        self._unsaid: dict[str, float] = {}  # when the engine was first asked in vain
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def sweep(self) -> int:
        """Look at what has run out, a hundred at most; how many. Raises StoreAway."""
        # Renewals come thrice a lease: what is late by one of them has missed four. Another may try as much later.
        third = round(self._lease_seconds * 1000) // 3
        claim, *found = await self._store.run(CLAIM.call((keys.RESERVATIONS,), _AT_ONCE, third, third))
        for request_id in found:
            await self._settle(request_id.decode(), claim.decode())
        return len(found)

    async def _run(self) -> None:
        # At the start as after an outage, below: this gateway cannot know that Redis was there before it.
        pause = self._lease_seconds
        while True:
            await asyncio.sleep(pause)
            pause = self._lease_seconds / 3
            try:
                if await self.sweep() == _AT_ONCE:
                    pause = 0.0
            except StoreAway:
                # While Redis was away nobody could renew: the living have a lease's time to do so.
                pause = self._lease_seconds
            except Exception:
                log.exception("expired reservations could not be settled")

    async def _settle(self, request_id: str, claim: str) -> None:
        reservation = keys.reservation(request_id)
        names, rules, told, note = await self._store.command("HMGET", reservation, "keys", "rules", "used", "note")
        if names is None:
            await self._store.command("ZREM", keys.RESERVATIONS, request_id)
            return
        used = await self._used(request_id, told)
        if used is None:
            return
        own = (reservation, keys.reservation_end(request_id), keys.RESERVATIONS)
        call = settlement(
            request_id,
            (*own, *names.decode().split("\n")),
            rules.decode(),
            used,
            learn=False,
            claim=claim,
            mark_seconds=REAPED_MARK_SECONDS,
        )
        # First: whatever comes in between, the reservation is there until the request is booked. Both do nothing for a
        # gateway that has come back, or has done it after all.
        booking = [self._book(request_id, note.decode(), used, claim)] if self._book else []
        if (await self._store.run_all(*booking, call))[-1]:
            log.warning("request %s was settled in its gateway's place: %s", request_id, used._asdict())

    async def _used(self, request_id: str, told: bytes | None) -> Usage | None:
        """None: ask again later."""
        now = time.monotonic()
        try:
            counted = await self._account(request_id)
        except BackendError:
            if now - self._unsaid.setdefault(request_id, now) < _PATIENCE_SECONDS:
                return None
            counted = None
        self._unsaid.pop(request_id, None)
        return counted or parse_used(told)
