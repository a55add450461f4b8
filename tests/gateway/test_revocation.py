"""What is ended ends everywhere: what is remembered is forgotten, and requests in flight end with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import redis

from backends.fake import DONE, FakeBackend, Script, chat_chunk, event
from gateway.errors import Unauthenticated
from gateway.identity.records import Key, ServiceAccount, User, user_id
from gateway.identity.revocation import Revocation
from gateway.identity.sessions import Arrival, Sessions
from gateway.scope import Principal
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.store.sealing import Sealer
from tests.gateway.conftest import CHAT, RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_api_keys import ACTOR, bearer, made
from tests.gateway.test_behalf import SERVICE
from tests.gateway.test_disconnect import leases
from tests.gateway.test_pipeline import events
from tests.gateway.test_store import Server, server

__all__ = ["server"]

WORD = event(chat_chunk({"content": "word"}))
HANA = User(id=user_id("local", "hana"), issuer="local", subject="hana")
Act = Callable[[Directory, Key], Awaitable[Any]]


def endless() -> FakeBackend:
    return FakeBackend(lambda body: Script((WORD, 30.0, WORD, DONE)))


def disabled(kind: Any, record_id: str) -> Act:
    return lambda directory, key: directory.change(
        ACTOR, kind, record_id, lambda record: msgspec.structs.replace(record, disabled=True)
    )


ENDINGS: dict[str, tuple[dict[str, str], Act]] = {
    "key deleted": ({}, lambda directory, key: directory.delete(ACTOR, Key, key.id)),
    "owner disabled": ({}, disabled(ServiceAccount, SERVICE)),
    "owner deleted": ({}, lambda directory, key: directory.delete(ACTOR, ServiceAccount, SERVICE)),
    "program disabled that asks for another": ({"x-on-behalf-of": "someone"}, disabled(ServiceAccount, SERVICE)),
    "person disabled who is asked for": ({"x-on-behalf-of": HANA.id}, disabled(User, HANA.id)),
}


@asynccontextmanager
async def streaming(door: RunningDoor, key: str, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer of which the first word has come, and no more will."""
    sent = bearer(key) | {name.replace("_", "-"): value for name, value in headers.items()}
    async with door.post(ask(stream=True), headers=sent) as response:
        assert response.status == 200
        assert b"word" in await response.content.readany()
        yield response


@pytest.mark.parametrize(("headers", "act"), ENDINGS.values(), ids=ENDINGS)
async def test_a_stream_in_flight_ends_with_what_it_stands_on(
    start_door: StartDoor, headers: dict[str, str], act: Act
) -> None:
    door = await start_door(endless())
    assert door.app.door is not None
    directory = door.app.door.directory
    await directory.create(ACTOR, HANA)
    key = await made(door, on_behalf_of=True)
    async with streaming(door, key.key, **headers) as response, asyncio.timeout(5):
        await act(directory, key.record)
        received = events((await response.read()).decode())
    assert received[-1]["error"]["code"] == "credential_revoked"
    assert door.backend.asked[0].aborted
    await eventually(lambda: leases(door) == 0)
    (booked,) = usages(door)
    assert booked["failed"] == 1
    assert booked["prompt_tokens"] > 0
    assert booked["completion_tokens"] == 1


async def test_a_stream_of_a_browser_ends_with_its_session(start_door: StartDoor) -> None:
    door = await start_door(endless())
    assert door.app.door is not None
    await door.app.door.directory.create(ACTOR, HANA)
    token, session = await door.app.door.sessions.begin(Arrival(HANA.id, HANA.issuer, "", ""))
    headers = {"cookie": f"sekisho={token}", "origin": door.url}
    async with aiohttp.ClientSession(door.url, headers=headers) as browser, asyncio.timeout(5):
        async with browser.post(CHAT, json=ask(stream=True)) as response:
            assert b"word" in await response.content.readany()
            await door.app.door.sessions.end(session.id)
            received = events((await response.read()).decode())
        assert received[-1]["error"]["code"] == "credential_revoked"
        async with browser.post(CHAT, json=ask()) as response:
            await error_of(response, 401, "session_ended")
    assert usages(door)[0]["failed"] == 1


async def test_a_stream_of_somebody_else_goes_on(start_door: StartDoor) -> None:
    words = (*([WORD, 0.05] * 8), event(chat_chunk({}, "stop")), DONE)
    door = await start_door(FakeBackend(lambda body: Script(words)))
    assert door.app.door is not None
    mine, theirs = await made(door), await made(door)
    async with streaming(door, mine.key) as response:
        await door.app.door.directory.delete(ACTOR, Key, theirs.record.id)
        await door.app.door.directory.change(
            ACTOR, Key, mine.record.id, lambda key: msgspec.structs.replace(key, name="new")
        )
        assert (await response.read()).endswith(DONE)


async def test_an_answer_that_is_complete_stays_so(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, event(chat_chunk({}, "stop")), DONE, 30.0))))
    assert door.app.door is not None
    key = await made(door)
    async with door.post(ask(stream=True), headers=bearer(key.key)) as response:
        received = await response.content.readuntil(DONE)
        await door.app.door.directory.delete(ACTOR, Key, key.record.id)
        assert received + await response.read() == received


async def test_an_answer_that_has_not_begun_is_a_401(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((30.0, WORD))))
    assert door.app.door is not None
    key = await made(door)
    asking = asyncio.create_task(answer(door, key.key))
    await eventually(lambda: door.backend.asked and door.backend.asked[0].started.is_set())
    await door.app.door.directory.delete(ACTOR, Key, key.record.id)
    assert await asking == (401, "credential_revoked")
    assert door.backend.asked[0].aborted


async def test_whoever_waits_in_the_line_leaves_it(start_door: StartDoor) -> None:
    door = await start_door(endless(), max_concurrency=1)
    assert door.app.door is not None
    first, second = await made(door), await made(door)
    async with streaming(door, first.key):
        asking = asyncio.create_task(answer(door, second.key))
        await eventually(lambda: leases(door) == 3)  # a waiter stands in the line and in the heartbeats
        await door.app.door.directory.delete(ACTOR, Key, second.record.id)
        assert await asking == (401, "credential_revoked")
        await eventually(lambda: leases(door) == 1)


async def test_where_the_setting_says_so_what_runs_is_left_to_end(start_door: StartDoor) -> None:
    words = (WORD, 0.4, event(chat_chunk({}, "stop")), DONE)
    door = await start_door(FakeBackend(lambda body: Script(words)), revocation_ends_streams=False)
    assert door.app.door is not None
    key = await made(door)
    async with streaming(door, key.key) as response:
        await door.app.door.directory.delete(ACTOR, Key, key.record.id)
        assert (await response.read()).endswith(DONE)
    assert await answer(door, key.key) == (401, "invalid_api_key")


async def test_news_makes_every_memory_forget_at_once(start_door: StartDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    door = await start_door(key_cache_seconds=0.9)
    assert door.app.door is not None
    key = await made(door)
    assert (await answer(door, key.key))[0] == 200
    memory = door.app.door.lookup._memory
    assert (Key.kind, key.record.id) in memory
    monkeypatch.setattr(door.app.door.lookup, "_seconds", 60.0)  # what the memory alone would do is out of the way
    assert (await answer(door, key.key))[0] == 200
    await door.app.door.directory.delete(ACTOR, Key, key.record.id)
    await eventually(lambda: (Key.kind, key.record.id) not in memory)
    assert (await answer(door, key.key))[0] == 401


async def test_news_that_was_lost_is_made_up_for_when_redis_is_back(start_door: StartDoor, server: Server) -> None:
    door = await start_door(endless(), redis_url=server.url)
    assert door.app.door is not None
    key = await made(door)
    async with streaming(door, key.key) as response, asyncio.timeout(10):
        server.kill()  # it keeps nothing: whoever asks through it is unknown to it afterwards
        server.restart()
        received = events((await response.read()).decode())
    assert received[-1]["error"]["code"] == "credential_revoked"


def sessions(store: Store) -> Sessions:
    return Sessions(store, Sealer(b"0" * 32, "tokens of sessions"), 60.0, 60.0)


@asynccontextmanager
async def revoking(store: Store, **options: Any) -> AsyncIterator[Revocation]:
    revocation = Revocation(store, Lookup(Directory(Records(store)), 0.0), sessions(store), True, **options)
    revocation.start()
    yield revocation
    await revocation.aclose()


async def flown(revocation: Revocation, principal: Principal) -> str:
    """What ends a request of this principal that would otherwise go on."""
    try:
        async with revocation.watched(principal):
            await asyncio.sleep(5)
    except Unauthenticated as error:
        return error.code or ""
    return "nothing"


async def test_a_key_that_expires_takes_its_requests_with_it(store: Store) -> None:
    directory = Directory(Records(store))
    await directory.create(ACTOR, ServiceAccount(id="ci"))
    async with revoking(store, sweep_seconds=0.05) as revocation:
        await directory.create(ACTOR, Key(id="k", digest="", owner="service_account:ci", expires=int(time.time()) + 1))
        principal = Principal("ci", "ci", "service", "default", key_id="k")
        assert await flown(revocation, principal) == "credential_revoked"


async def test_the_end_of_a_browser_session_ends_its_requests_the_early_ones_and_the_late_ones(store: Store) -> None:
    await Directory(Records(store)).create(ACTOR, HANA)
    async with revoking(store) as revocation:
        _, session = await sessions(store).begin(Arrival(HANA.id, "local", "", ""))
        principal = Principal(HANA.id, "Hana", "user", "default", session_id=session.id)
        early = asyncio.create_task(flown(revocation, principal))
        await eventually(lambda: revocation._flights)
        await asyncio.sleep(0.05)  # the subscription stands
        await sessions(store).end(session.id)
        assert await early == "credential_revoked"
        assert await flown(revocation, principal) == "credential_revoked"
        assert not revocation._flights


async def test_a_session_whose_end_was_not_heard_is_noticed_at_the_next_connection(store: Store) -> None:
    await Directory(Records(store)).create(ACTOR, HANA)
    revocation = Revocation(store, Lookup(Directory(Records(store)), 0.0), sessions(store), True)
    principal = Principal(HANA.id, "Hana", "user", "default", session_id="ses_gone")
    flight = asyncio.create_task(flown(revocation, principal))
    await eventually(lambda: revocation._flights)
    revocation.start()
    assert await flight == "credential_revoked"
    await revocation.aclose()


async def test_the_person_a_program_asks_for_need_not_be_known(store: Store) -> None:
    directory = Directory(Records(store))
    await directory.create(ACTOR, ServiceAccount(id="rag"))
    principal = Principal(HANA.id, "hana", "user", "default", acting="rag")
    async with revoking(store, sweep_seconds=0.01) as revocation:
        flight = asyncio.create_task(flown(revocation, principal))
        await asyncio.sleep(0.1)
        assert not flight.done()
        await directory.create(ACTOR, msgspec.structs.replace(HANA, disabled=True))
        assert await flight == "credential_revoked"


async def test_a_cancelled_request_is_cancelled_and_not_revoked(store: Store) -> None:
    await Directory(Records(store)).create(ACTOR, HANA)
    async with revoking(store) as revocation:
        flight = asyncio.create_task(flown(revocation, Principal(HANA.id, "Hana", "user", "default")))
        await eventually(lambda: revocation._flights)
        flight.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flight


async def answer(door: RunningDoor, key: str) -> tuple[int, str]:
    async with door.post(ask(), headers=bearer(key)) as response:
        if response.status == 200:
            return 200, ""
        return response.status, (await error_of(response, response.status))["code"]


def usages(door: RunningDoor) -> list[dict[str, int]]:
    with redis.Redis.from_url(door.settings.redis_url, decode_responses=True) as server:
        found = [server.hgetall(key) for key in server.keys("*:usage:*")]
    return [{name.partition("|")[0]: int(value) for name, value in account.items()} for account in found]
