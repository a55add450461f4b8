"""Records that people administer: strings by kind and id, each changed together with its line in the audit trail.

Knows neither what a record says nor who may change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

_AUDIT_LENGTH = 1_000_000
_USED_LIFE_SECONDS = 400 * 86_400

# Compare and set, with the trail and the news in the same step. Sent twice, it finds its own result: no second line.
_CHANGE = Script(
    """
local now = redis.call('GET', KEYS[1]) or ''
if now == ARGV[4] then return 1 end
if now ~= ARGV[3] then return 0 end
if ARGV[4] == '' then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[4])
  redis.call('ZADD', KEYS[2], 0, ARGV[2])
end
if ARGV[5] ~= '' then redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'entry', ARGV[5]) end
redis.call('PUBLISH', KEYS[4], ARGV[1] .. ':' .. ARGV[2])
return 1
"""
)


class Stored(NamedTuple):
    id: str
    data: bytes


class Entry(NamedTuple):
    """A line of the trail. Ids grow with time: <Unix milliseconds>-<number>."""

    id: str
    data: bytes


class Records:
    """Raises StoreAway."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, kind: str, record_id: str) -> bytes | None:
        data: bytes | None = await self._store.command("GET", keys.record(kind, record_id))
        return data

    async def page(self, kind: str, after: str, limit: int) -> list[Stored]:
        """At most `limit` records in order of id, from the one behind `after`."""
        start = f"({after}" if after else "-"
        found = await self._store.command("ZRANGE", keys.records(kind), start, "+", "BYLEX", "LIMIT", 0, limit)
        return await self.some(kind, [record_id.decode() for record_id in found])

    async def some(self, kind: str, ids: Sequence[str]) -> list[Stored]:
        """Those of these ids that exist."""
        if not ids:
            return []
        values = await self._store.command("MGET", *(keys.record(kind, record_id) for record_id in ids))
        return [Stored(record_id, data) for record_id, data in zip(ids, values, strict=True) if data is not None]

    async def change(self, kind: str, record_id: str, before: bytes, after: bytes, entry: bytes) -> bool:
        """Replace `before` by `after`; empty means that there is none. False: somebody else was quicker.

        An empty `entry` leaves no trace in the trail: for what nobody decided, such as when a person was last seen.
        """
        names = (keys.record(kind, record_id), keys.records(kind), keys.AUDIT, keys.CHANGED)
        done = await self._store.run(_CHANGE.call(names, kind, record_id, before, after, entry, _AUDIT_LENGTH))
        return bool(done)

    async def trail(self, before: str, limit: int) -> list[Entry]:
        """At most `limit` entries of the trail, newest first, from the one before `before` on."""
        start = f"({before}" if before else "+"
        found = await self._store.command("XREVRANGE", keys.AUDIT, start, "-", "COUNT", limit)
        return [Entry(entry_id.decode(), fields[1]) for entry_id, fields in found]

    async def note(self, entry: bytes) -> None:
        """A line in the trail for an act that changes no record, such as ending a session."""
        await self._store.command("XADD", keys.AUDIT, "MAXLEN", "~", _AUDIT_LENGTH, "*", "entry", entry)

    async def touch(self, kind: str, record_id: str, when: int) -> None:
        """Note apart from the record when it was used, so that neither its cache nor its trail is disturbed."""
        await self._store.command("SET", keys.used(kind, record_id), when, "EX", _USED_LIFE_SECONDS)

    async def touched(self, kind: str, ids: Sequence[str]) -> list[int]:
        """When each was last used; 0 for never."""
        if not ids:
            return []
        values = await self._store.command("MGET", *(keys.used(kind, record_id) for record_id in ids))
        return [int(value or 0) for value in values]
