"""Records of every kind: found, listed, changed. Every change names who made it.

The one way in for the admin API and the command line. Knows no HTTP and checks no right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.errors import Conflict, NotFound
from gateway.scope import Principal
from gateway.store.record import AnyRecord, Record, decode, encode
from gateway.store.records import Entry, Records

_ATTEMPTS = 5
_TOGETHER = 100


class Actor(NamedTuple):
    """Who changes something, for the audit trail."""

    subject: str  # a principal's subject, or `cli`
    name: str
    via: str  # key:<id>, session:<id>, cli
    address: str  # the client's, or the machine's name


def actor_of(principal: Principal, address: str) -> Actor:
    via = "token"
    if principal.key_id:
        via = f"key:{principal.key_id}"
    elif principal.session_id:
        via = f"session:{principal.session_id}"
    return Actor(principal.subject, principal.name, via, address)


class Directory:
    """Raises StoreAway, NotFound and Conflict."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, kind: type[AnyRecord], record_id: str) -> AnyRecord | None:
        data = await self._records.get(kind.kind, record_id)
        return None if data is None else decode(data, kind)

    async def find(self, kind: type[AnyRecord], record_id: str) -> AnyRecord:
        return decode(await self._read(kind, record_id), kind)

    async def page(self, kind: type[AnyRecord], after: str = "", limit: int = 100) -> list[AnyRecord]:
        """In order of id, from the one behind `after`."""
        return [decode(stored.data, kind) for stored in await self._records.page(kind.kind, after, limit)]

    async def some(self, kind: type[AnyRecord], ids: Sequence[str]) -> list[AnyRecord]:
        """Those of these ids that exist, read a few at a time."""
        found: list[AnyRecord] = []
        for start in range(0, len(ids), _TOGETHER):
            stored = await self._records.some(kind.kind, ids[start : start + _TOGETHER])
            found += [decode(one.data, kind) for one in stored]
        return found

    async def create(self, actor: Actor | None, record: Record) -> None:
        """Raises Conflict where one of this id exists. Without an actor the trail stays silent."""
        entry = _entry(actor, "create", None, record)
        if not await self._records.change(record.kind, record.id, b"", encode(record), entry):
            raise Conflict(f"There is a {_spoken(record)} with the id {record.id!r} already.", param="id")

    async def change(
        self, actor: Actor | None, kind: type[AnyRecord], record_id: str, edit: Callable[[AnyRecord], AnyRecord]
    ) -> AnyRecord:
        """Put `edit` of what is stored in its place; tried again where somebody else was quicker."""
        for _ in range(_ATTEMPTS):
            stored = await self._read(kind, record_id)
            before = decode(stored, kind)
            after = edit(before)
            if after == before:
                return before
            entry = _entry(actor, "change", before, after)
            if await self._records.change(kind.kind, record_id, stored, encode(after), entry):
                return after
        raise Conflict(f"Somebody else keeps changing {record_id!r}. Look at it again and retry.")

    async def delete(self, actor: Actor | None, kind: type[AnyRecord], record_id: str) -> AnyRecord:
        """What was deleted."""
        for _ in range(_ATTEMPTS):
            stored = await self._read(kind, record_id)
            before = decode(stored, kind)
            if await self._records.change(kind.kind, record_id, stored, b"", _entry(actor, "delete", before, None)):
                return before
        raise Conflict(f"Somebody else keeps changing {record_id!r}. Look at it again and retry.")

    async def note(self, actor: Actor, action: str, target: str, details: dict[str, Any] | None = None) -> None:
        """A line in the trail for an act that changes no record."""
        await self._records.note(_line(actor, action, target, None, details))

    async def note_use(self, kind: type[Record], record_id: str) -> None:
        """That it was used just now: neither a change of it nor a line in the trail."""
        await self._records.touch(kind.kind, record_id, int(time.time()))

    async def last_used(self, kind: type[Record], ids: Sequence[str]) -> list[int]:
        """Unix seconds; 0 for never."""
        return await self._records.touched(kind.kind, ids)

    async def _read(self, kind: type[Record], record_id: str) -> bytes:
        data = await self._records.get(kind.kind, record_id)
        if data is None:
            raise NotFound(f"There is no {_spoken(kind)} with the id {record_id[:64]!r}.", param="id")
        return data

    async def trail(self, before: str = "", limit: int = 100) -> list[Entry]:
        return await self._records.trail(before, limit)


def _entry(actor: Actor | None, action: str, before: Record | None, after: Record | None) -> bytes:
    record = after or before
    if actor is None or record is None:
        return b""
    old, new = before.public() if before else None, after.public() if after else None
    return _line(actor, f"{record.kind}.{action}", f"{record.kind}:{record.id}", old, new)


def _line(actor: Actor, action: str, target: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    line = {"at": int(time.time()), **actor._asdict(), "action": action, "target": target}
    return msgspec.json.encode(line | {"before": before, "after": after})


def _spoken(kind: type[Record] | Record) -> str:
    return kind.kind.replace("_", " ")
