"""The version of what Redis holds, and how older data becomes newer: by one gateway, once, while the others wait.

Only what older code would misread is a new version; README.md says what is not. Knows no record.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

log = logging.getLogger("sekisho.store")

RESTORING = 0  # in place of a version: what is there is not whole

_LEASE_MS = 30_000
_LOOK_SECONDS = 0.2
_TELL_SECONDS = 5.0

# KEYS 1 schema  2 fingerprint of server.key; ARGV 1 the version of empty data
# Data without a version is of the time before there was one.
_FIND = Script(
    """
if redis.call('HGET', KEYS[1], 'version') == false then
  redis.call('HSET', KEYS[1], 'version', redis.call('EXISTS', KEYS[2]) == 1 and 1 or ARGV[1], 'cursor', '')
end
return redis.call('HMGET', KEYS[1], 'version', 'cursor')
"""
)
# KEYS 1 schema  2 lease; ARGV 1 whose  2 its life in ms  3 version  4 cursor
_NOTE = Script(
    """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'cursor', ARGV[4])
return 1
"""
)
# KEYS 1 what gateways tell, each until when it counts; answers how many are alive
_ALIVE = Script(
    """
local clock, alive = redis.call('TIME'), 0
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, told in ipairs(redis.call('HVALS', KEYS[1])) do
  if (tonumber(string.match(told, '^%d+')) or 0) > now then alive = alive + 1 end
end
return alive
"""
)


class WrongSchema(Exception):
    """What Redis holds is not of the version that this code works with."""


class Migration(NamedTuple):
    """`step` does a part that takes a fraction of a second and answers where to go on, b"" at the end.

    It begins with b"", and must bear to be repeated: whoever did it may have died before that was noted.
    """

    version: int  # of the data afterwards
    does: str  # what happens, for the log
    step: Callable[[Store, bytes], Awaitable[bytes]]


# Versions from 2 on, one after another. Version 1 is all data without a migration.
MIGRATIONS: tuple[Migration, ...] = ()


def newest(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    return migrations[-1].version if migrations else 1


async def agree(store: Store, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Back once the data is of the version of this code. Raises WrongSchema and StoreAway."""
    told = 0.0
    while (found := await _version(store, migrations)) < newest(migrations):
        if not await _migrate(store, migrations):
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                log.warning("another gateway takes the data in Redis from version %d on: waiting for it", found)
            await asyncio.sleep(_LOOK_SECONDS)


async def check(store: Store, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """For whoever comes beside gateways: older data is refused instead of changed. Raises WrongSchema and StoreAway."""
    if (found := await _version(store, migrations)) < newest(migrations):
        raise WrongSchema(
            f"The data in Redis is of version {found}, and this release works with {newest(migrations)}. "
            "Start a gateway of this release: it takes the data over."
        )


async def put(store: Store, version: int) -> None:
    """For a restore: what the data is from now on."""
    await store.command("HSET", keys.SCHEMA, "version", version, "cursor", "")


async def gateways(store: Store) -> int:
    """How many run on this Redis, as far as it heard of them in the last seconds."""
    return int(await store.run(_ALIVE.call((keys.HEALTH,))))


async def _version(store: Store, migrations: Sequence[Migration]) -> int:
    found = int((await store.run(_FIND.call((keys.SCHEMA, keys.SERVER_KEY), newest(migrations))))[0])
    if found == RESTORING:
        raise WrongSchema(
            "A backup is being restored into this Redis, or that was begun and never ended. "
            "Wait for it; or begin it again: sekisho restore FILE --replace."
        )
    if found > newest(migrations):
        raise WrongSchema(
            f"The data in Redis is of version {found}, and this release knows versions up to {newest(migrations)}. "
            "Use the release that was used last, or a newer one; or restore a backup of this one: sekisho restore."
        )
    return found


async def _migrate(store: Store, migrations: Sequence[Migration]) -> bool:
    """False where another one does it, or has taken it over."""
    mine = os.urandom(8).hex()
    holder = await store.command("SET", keys.SCHEMA_LEASE, mine, "NX", "GET", "PX", _LEASE_MS)
    if holder is not None and holder.decode() != mine:  # mine where the first answer was lost
        return False
    version, cursor = await store.run(_FIND.call((keys.SCHEMA, keys.SERVER_KEY), newest(migrations)))
    for migration in migrations:
        if migration.version > int(version) and not await _run(store, migration, cursor, mine):
            return False
        cursor = cursor if migration.version <= int(version) else b""
    await store.command("DEL", keys.SCHEMA_LEASE)
    return True


async def _run(store: Store, migration: Migration, cursor: bytes, mine: str) -> bool:
    """False where the lease was lost meanwhile."""
    if not await _alone(store, migration, cursor, mine):
        return False
    log.warning("the data in Redis becomes version %d: %s", migration.version, migration.does)
    told = time.monotonic()
    while True:
        cursor = await migration.step(store, cursor)
        version = migration.version - 1 if cursor else migration.version
        if not await _note(store, mine, version, cursor):
            return False
        if not cursor:
            log.warning("the data in Redis is of version %d now", migration.version)
            return True
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            log.warning("version %d: come as far as %s", migration.version, cursor.decode("ascii", "replace"))


async def _alone(store: Store, migration: Migration, cursor: bytes, mine: str) -> bool:
    """Once no gateway runs on the older data any more: it would misread the newer."""
    told = 0.0
    while running := await gateways(store):
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            log.warning(
                "the data in Redis is to become version %d, which %d running gateways would misread: stop them",
                *(migration.version, running),
            )
        if not await _note(store, mine, migration.version - 1, cursor):
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _note(store: Store, mine: str, version: int, cursor: bytes) -> bool:
    """How far it has come, and that the lease is still held. False where it is not."""
    call = _NOTE.call((keys.SCHEMA, keys.SCHEMA_LEASE), mine, _LEASE_MS, version, cursor)
    return bool(await store.run(call))
