"""Who owns what, and how much of it: an index beside the records, which only know their ids. Knows no kind."""

from __future__ import annotations

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

_UNBOUNDED = 2**52

_PUT = Script(
    """
local was, sum = redis.call('HGET', KEYS[1], ARGV[1]), tonumber(ARGV[2])
for _, size in ipairs(redis.call('HVALS', KEYS[1])) do sum = sum + tonumber(size) end
if sum - (was or 0) > tonumber(ARGV[3]) then return 0 end
if not was and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""
)


class Owned:
    """Of one kind of record. Raises StoreAway."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kind = kind

    async def put(
        self, subject: str, record_id: str, size: int = 0, most_bytes: int = _UNBOUNDED, most: int = _UNBOUNDED
    ) -> bool:
        """Note that it is theirs and how large it is, again where it has grown. False: it would be too much."""
        key = keys.owned(self._kind, subject)
        return bool(await self._store.run(_PUT.call((key,), record_id, size, most_bytes, most)))

    async def drop(self, subject: str, record_id: str) -> None:
        await self._store.command("HDEL", keys.owned(self._kind, subject), record_id)

    async def ids(self, subject: str) -> list[str]:
        """Oldest first: ids sort by their time."""
        return sorted(name.decode() for name in await self._store.command("HKEYS", keys.owned(self._kind, subject)))
