"""Who runs a batch: one gateway, for as long as it says so. Knows nothing of what it runs."""

from __future__ import annotations

import secrets
import time

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

_TAKE = Script(
    """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
)
_RELEASE = Script("if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1")


class Lease:
    """Of one batch; its holder is this object, and no other of the same gateway. Raises StoreAway."""

    def __init__(self, store: Store, batch_id: str, seconds: float) -> None:
        self._store = store
        self._key = keys.batch_lease(batch_id)
        self._holder = secrets.token_hex(16)
        self._seconds = seconds
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        """Whether somebody else may have it by now, as far as can be told without Redis."""
        return time.monotonic() >= self._until

    async def take(self) -> bool:
        """Take or renew it. False: somebody else has it."""
        asked = time.monotonic()
        taken = await self._store.run(_TAKE.call((self._key,), self._holder, round(self._seconds * 1000)))
        self._until = asked + self._seconds if taken else 0.0
        return bool(taken)

    async def release(self) -> None:
        await self._store.run(_RELEASE.call((self._key,), self._holder))
