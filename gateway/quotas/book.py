"""All policies in memory, believed for a second at most: every request needs them, and they rarely change."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from gateway.quotas.policy import Policy
from gateway.quotas.validation import validate
from gateway.store import keys
from gateway.store.record import decode
from gateway.store.records import Records, Stored

log = logging.getLogger("sekisho.quotas")

_PAGE = 1000


class PolicyBook:
    def __init__(self, records: Records, seconds: float) -> None:
        self._records = records
        self._seconds = seconds
        self._policies: tuple[Policy, ...] = ()
        self._until = 0.0
        self._ever = False
        self._told: frozenset[str] = frozenset()
        self._reading = asyncio.Lock()

    async def all(self) -> tuple[Policy, ...]:
        """Raises StoreAway."""
        if time.monotonic() < self._until:
            return self._policies
        async with self._reading:
            if time.monotonic() >= self._until:
                until = time.monotonic() + self._seconds
                read = await self._read()
                if read != self._policies:  # else what was worked out from them stays good
                    self._policies = read
                self._ever, self._until = True, until
        return self._policies

    def last(self) -> tuple[Policy, ...] | None:
        """As they were when they could last be read; None if they never could."""
        return self._policies if self._ever else None

    async def _read(self) -> tuple[Policy, ...]:
        stored: list[Stored] = []
        while page := await self._records.page(Policy.kind, stored[-1].id if stored else "", _PAGE):
            stored += page
            if len(page) < _PAGE:
                break
        read = [(item.id, _policy(item.data)) for item in stored]
        self._complain(frozenset(name for name, policy in read if policy is None))
        return tuple(policy for _, policy in read if policy is not None)

    def _complain(self, unread: frozenset[str]) -> None:
        """Once a policy: it is read again every second."""
        for name in unread - self._told:
            log.error("policy %s cannot be read and is not applied: see it in %s", name, keys.record("policy", name))
        self._told = unread


def _policy(data: bytes) -> Policy | None:
    try:
        policy = decode(data, Policy)
    except msgspec.ValidationError:
        return None
    return None if validate(policy) else policy
