"""The version of what Redis holds: refused if newer, migrated once if older, in steps that bear to be broken off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.app import App
from gateway.errors import StoreAway
from gateway.store import keys, schema
from gateway.store.redis import Store
from gateway.store.schema import MIGRATIONS, Migration, WrongSchema
from tests.gateway.conftest import RunningDoor, StartDoor, eventually

LIST = "{sekisho}:test"
Step = Callable[[Store, bytes], Awaitable[bytes]]


def counting(name: str, parts: int) -> Step:
    """Notes each part that it does in a list."""

    async def step(store: Store, cursor: bytes) -> bytes:
        part = int(cursor or b"0") + 1
        await store.command("RPUSH", LIST, f"{name}{part}")
        return str(part).encode() if part < parts else b""

    return step


async def version_of(store: Store) -> int:
    return int(await store.command("HGET", keys.SCHEMA, "version"))


async def done(store: Store) -> list[str]:
    return [one.decode() for one in await store.command("LRANGE", LIST, 0, -1)]


async def with_old_data(store: Store) -> None:
    await store.command("SET", keys.SERVER_KEY, "fingerprint")


TWO = (Migration(2, "the first", counting("a", 2)), Migration(3, "the second", counting("b", 1)))


def test_versions_come_one_after_another() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(2, 2 + len(MIGRATIONS)))


async def test_new_data_is_of_the_newest_version_and_nothing_is_migrated(store: Store) -> None:
    await schema.agree(store, TWO)
    assert (await version_of(store), await done(store)) == (3, [])


async def test_data_of_the_time_before_versions_is_migrated_once(store: Store) -> None:
    await with_old_data(store)
    for _ in range(2):
        await schema.agree(store, TWO)
    assert (await version_of(store), await done(store)) == (3, ["a1", "a2", "b1"])
    assert await store.command("EXISTS", keys.SCHEMA_LEASE) == 0


async def test_of_many_gateways_that_start_at_once_one_migrates_and_the_others_wait(store: Store) -> None:
    await with_old_data(store)
    gateways = [store.beside() for _ in range(5)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(schema.agree(gateway, TWO) for gateway in gateways))
    assert (await version_of(store), await done(store)) == (3, ["a1", "a2", "b1"])
    for gateway in gateways:
        await gateway.aclose()


async def test_a_migration_goes_on_where_it_was_broken_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_old_data(store)
    whole = counting("a", 3)

    async def dies(store: Store, cursor: bytes) -> bytes:
        if cursor == b"2":
            raise StoreAway("killed")
        return await whole(store, cursor)

    monkeypatch.setattr(schema, "_LEASE_MS", 300)
    with pytest.raises(StoreAway):
        await schema.agree(store, (Migration(2, "breaks off", dies),))
    assert await version_of(store) == 1
    await schema.agree(store, (Migration(2, "goes on", whole),))
    assert (await version_of(store), await done(store)) == (2, ["a1", "a2", "a3"])


async def test_whoever_loses_the_lease_notes_nothing_more(store: Store) -> None:
    await with_old_data(store)
    seen = []

    async def robbed(store: Store, cursor: bytes) -> bytes:
        seen.append(cursor)
        if len(seen) == 1:
            await store.command("SET", keys.SCHEMA_LEASE, "another", "PX", 200)
            return b"further"
        return b""

    await schema.agree(store, (Migration(2, "is robbed", robbed),))
    assert seen == [b"", b""], "what was done without the lease is not where it goes on"


async def test_older_code_refuses_newer_data_and_says_what_to_do(store: Store) -> None:
    await schema.agree(store, TWO)
    with pytest.raises(WrongSchema, match="version 3, and this release knows versions up to 1"):
        await schema.agree(store)
    with pytest.raises(WrongSchema, match="restore"):
        await schema.check(store)


async def test_beside_gateways_older_data_is_refused_and_not_changed(store: Store) -> None:
    await with_old_data(store)
    with pytest.raises(WrongSchema, match="Start a gateway of this release"):
        await schema.check(store, TWO)
    assert (await version_of(store), await done(store)) == (1, [])


async def test_a_migration_waits_for_gateways_of_the_older_release(
    start_door: StartDoor, caplog: pytest.LogCaptureFixture
) -> None:
    door = await start_door()
    assert door.app.door is not None
    store = door.app.door.store.beside()
    assert await schema.gateways(store) == 1
    waiting = asyncio.create_task(schema.agree(store, TWO))
    await eventually(lambda: any("1 running gateways would misread: stop them" in each for each in caplog.messages))
    assert await done(store) == []
    await store.command("HSET", keys.HEALTH, "gone", "1 long dead")
    await door.app.door.health.aclose()
    await asyncio.wait_for(waiting, 20)
    assert await version_of(store) == 3
    await store.aclose()


@pytest.mark.parametrize(("version", "told"), [(7, "of version 7"), (schema.RESTORING, "restore FILE --replace")])
async def test_the_door_does_not_open_on_newer_data_nor_on_half_a_restore(
    version: int, told: str, start_door: StartDoor, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await schema.put(store, version)
    with pytest.raises(SystemExit):  # of its server
        await start_door()
    assert told in caplog.text


class Late:
    """The store of a door is away when it opens, and back later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = True
        agree = schema.agree

        async def agree_later(store: Store) -> None:
            if self.away:
                raise StoreAway("away")
            await agree(store)

        monkeypatch.setattr(schema, "agree", agree_later)


@asynccontextmanager
async def another(door: RunningDoor) -> AsyncIterator[Store]:
    """The store of a second door."""
    app = App(door.settings, {"fake": door.backend})
    await app.open()
    try:
        assert app.door is not None
        yield app.door.store
    finally:
        await app.aclose()


async def test_a_door_that_opened_without_redis_lets_nobody_in_before_it_has_looked(
    start_door: StartDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await start_door()
    late = Late(monkeypatch)
    async with another(door) as held:
        with pytest.raises(StoreAway):
            await held.command("PING")
        late.away = False
        await eventually(lambda: not held.away)
        assert await held.command("PING") == b"PONG"


async def test_a_door_that_finds_newer_data_later_stays_shut(
    start_door: StartDoor, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = await start_door()
    late = Late(monkeypatch)
    async with another(door) as held:
        await schema.put(store, 7)
        late.away = False
        await eventually(lambda: any(record.levelno == logging.CRITICAL for record in caplog.records))
        with pytest.raises(StoreAway):
            await held.command("PING")
