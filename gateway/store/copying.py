"""All that Redis holds and that is not passing, out of it and back into one, a little at a time. Knows no file.

Read by type and not by DUMP, whose format another version or another server may not take. Each key, and of long ones
each part, is as it was at one moment of the reading; a record and its place in the list of its kind are read together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec

from gateway.store import keys
from gateway.store.key_table import KEYS
from gateway.store.records import Records
from gateway.store.redis import Store

_MATCH = f"{keys.TAG}:*"
_KEYS = 50  # together: a conversation may hold some MiB
_MEMBERS = 200
_COMMANDS = 200
_RECORD, _RECORDS = keys.record("", "")[:-1], keys.records("")

# Of names, the longest first: it says most.
_BEGINNINGS = sorted(((key.pattern.partition("<")[0], key.passing) for key in KEYS), key=lambda it: -len(it[0]))

Type = Literal["record", "string", "hash", "zset", "list", "stream"]
_TYPES = frozenset({"string", "hash", "zset", "list", "stream"})


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A key, or a part of its members as Redis lists them: [field, value ...], [[id, [name, value ...]] ...].

    A record is a string whose kind and id are its key. ends: Unix ms, 0 for never.
    """

    type: Type
    key: str
    ends: int
    data: Any


async def read(store: Store) -> AsyncIterator[Part]:
    """Every part. Raises StoreAway."""
    kinds = set()
    async for found in _scan(store):
        kinds |= {key.removeprefix(_RECORDS) for key in found if key.startswith(_RECORDS)}
        others = [key for key in found if not is_passing(key) and not key.startswith((_RECORD, _RECORDS))]
        async for part in _parts(store, await _described(store, others)):
            yield part
    for kind in sorted(kinds):
        async for part in _records(Records(store), kind):
            yield part


def is_passing(key: str) -> bool:
    """As the table says. What is not in it is of another release, and kept."""
    return next((passing for beginning, passing in _BEGINNINGS if key.startswith(beginning)), False)


async def write(store: Store, parts: Iterable[Part]) -> None:
    """Parts of one key in the order in which they were read, into a Redis that held nothing. Raises StoreAway."""
    commands = (command for part in parts for command in _commands(part))
    while together := list(islice(commands, _COMMANDS)):
        await asyncio.gather(*(store.command(*command) for command in together))


async def is_empty(store: Store) -> bool:
    async for found in _scan(store):
        if any(key != keys.SCHEMA for key in found):
            return False
    return True


async def clear(store: Store) -> None:
    """All of ours, but for the version."""
    async for found in _scan(store):
        if gone := [key for key in found if key != keys.SCHEMA]:
            await store.command("UNLINK", *gone)


async def _scan(store: Store) -> AsyncIterator[list[str]]:
    cursor = b"0"
    while True:
        cursor, found = await store.command("SCAN", cursor, "MATCH", _MATCH, "COUNT", _KEYS)
        if found:
            yield [key.decode() for key in found]
        if cursor == b"0":
            return


async def _described(store: Store, found: Sequence[str]) -> list[tuple[str, Type, int]]:
    """With type and end; what has ended meanwhile is left out."""
    kinds = await asyncio.gather(*(store.command("TYPE", key) for key in found))
    ends = await asyncio.gather(*(store.command("PEXPIRETIME", key) for key in found))
    described = zip(found, (kind.decode() for kind in kinds), ends, strict=True)
    return [(key, kind, max(0, end)) for key, kind, end in described if kind in _TYPES]


async def _records(records: Records, kind: str) -> AsyncIterator[Part]:
    after = ""
    while page := await records.page(kind, after, _MEMBERS):
        after = page[-1].id
        for stored in page:
            yield Part("record", f"{kind}:{stored.id}", 0, stored.data)


async def _parts(store: Store, described: Sequence[tuple[str, Type, int]]) -> AsyncIterator[Part]:
    """The first pages of all at once: most have no other."""
    firsts = await asyncio.gather(*(_page(store, type_, key, b"") for key, type_, _ in described))
    for (key, type_, ends), (data, following) in zip(described, firsts, strict=True):
        if data is not None:
            yield Part(type_, key, ends, data)
        while following:
            data, following = await _page(store, type_, key, following)
            if data is not None:
                yield Part(type_, key, ends, data)


async def _page(store: Store, type_: Type, key: str, start: bytes) -> tuple[Any, bytes]:
    """What stands there from `start` on, None for nothing, and where the next page starts, b"" for nowhere."""
    match type_:
        case "string":
            return await store.command("GET", key), b""
        case "hash" | "zset":
            command = "HSCAN" if type_ == "hash" else "ZSCAN"
            cursor, found = await store.command(command, key, start or b"0", "COUNT", _MEMBERS)
            return found or None, cursor if cursor != b"0" else b""
        case "list":
            first = int(start or b"0")
            found = await store.command("LRANGE", key, first, first + _MEMBERS - 1)
            return found or None, str(first + _MEMBERS).encode() if len(found) == _MEMBERS else b""
        case _:
            found = await store.command("XRANGE", key, start or b"-", "+", "COUNT", _MEMBERS)
            return found or None, b"(" + found[-1][0] if len(found) == _MEMBERS else b""


def _commands(part: Part) -> list[tuple[Any, ...]]:
    key, data = part.key, part.data
    match part.type:
        case "record":
            kind, _, record_id = key.partition(":")
            index = ("ZADD", keys.records(kind), 0, record_id)
            return [("SET", keys.record(kind, record_id), data), index]
        case "string":
            return [("SET", key, data, *(("PXAT", part.ends) if part.ends else ()))]
        case "hash":
            commands: list[tuple[Any, ...]] = [("HSET", key, *data)]
        case "zset":
            pairs = zip(data[1::2], data[::2], strict=True)
            commands = [("ZADD", key, *(value for pair in pairs for value in pair))]
        case "list":
            commands = [("RPUSH", key, *data)]
        case "stream":
            commands = [("XADD", key, entry, *fields) for entry, fields in data]
    return [*commands, ("PEXPIREAT", key, part.ends)] if part.ends else commands
