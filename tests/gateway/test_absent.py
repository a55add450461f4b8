"""Whoever began something and left is looked up anew each time: what they may do is what they may do now."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.errors import DoorError, Forbidden, Unauthenticated
from gateway.identity.absent import Absent
from gateway.identity.api_keys import ApiKeys
from gateway.identity.behalf import Behalf
from gateway.identity.open_webui import OpenWebUI
from gateway.identity.records import Key, ServiceAccount, User, user_id
from gateway.scope import Principal
from gateway.store.directory import Actor, Directory
from tests.gateway.conftest import RunningDoor

PERSON = User(id=user_id("https://id", "anna"), issuer="https://id", subject="anna", name="Anna", role="user")
PROGRAM = ServiceAccount(id="rag", name="RAG", tenant="acme")


class Office:
    def __init__(self, door: RunningDoor) -> None:
        assert door.app.door is not None
        parts = door.app.door
        self.directory: Directory = parts.directory
        self._parts = parts
        keys = ApiKeys(parts.key_ring, parts.lookup, parts.people, OpenWebUI(None), parts.uses)
        self._absent = Absent(keys, parts.people, Behalf(parts.lookup))

    async def key(self, owner: User | ServiceAccount, **limits: Any) -> str:
        if await self.directory.get(type(owner), owner.id) is None:
            await self.directory.create(None, owner)
        draft = Key(id="", digest="", owner=f"{owner.kind}:{owner.id}", **limits)
        return (await self._parts.key_ring.issue(Actor("t", "t", "cli", "here"), draft)).record.id

    async def change(self, kind: Any, record_id: str, **fields: Any) -> None:
        await self.directory.change(None, kind, record_id, lambda before: replace(before, **fields))
        self._parts.lookup.forget_all()

    async def who(self, subject: str, key_id: str = "", acting: str = "", name: str = "") -> Principal:
        return await self._absent.principal(subject, name, key_id, acting)


@pytest.fixture
def office(door: RunningDoor) -> Office:
    return Office(door)


async def refused(office: Office, error: type[DoorError], *who: str) -> None:
    with pytest.raises(error):
        await office.who(*who)


async def test_a_key_stands_for_its_owner_with_the_limits_of_today(office: Office) -> None:
    key = await office.key(PROGRAM, models=("a",))
    found = await office.who("rag", key)
    assert (found.subject, found.tenant, found.key_id, found.grant.models) == ("rag", "acme", key, ("a",))
    await office.change(Key, key, models=("b",))
    assert (await office.who("rag", key)).grant.models == ("b",)


async def test_a_key_that_is_gone_expired_or_anothers_stands_for_nobody(office: Office) -> None:
    key = await office.key(PROGRAM)
    await refused(office, Unauthenticated, "somebody-else", key)
    await office.change(Key, key, expires=int(time.time()) - 1)
    await refused(office, Unauthenticated, "rag", key)
    await refused(office, Unauthenticated, "rag", "nosuchkey")


async def test_a_disabled_owner_may_not_go_on(office: Office) -> None:
    key = await office.key(PROGRAM)
    await office.change(ServiceAccount, "rag", disabled=True)
    await refused(office, Forbidden, "rag", key)


async def test_a_person_without_a_key_is_who_they_are_now(office: Office) -> None:
    await refused(office, Unauthenticated, PERSON.id)
    await office.directory.create(None, PERSON)
    assert (await office.who(PERSON.id)).name == "Anna"
    await office.change(User, PERSON.id, problem="groups_overage")
    await refused(office, Forbidden, PERSON.id)
    await office.change(User, PERSON.id, problem="", disabled=True)
    await refused(office, Forbidden, PERSON.id)


async def test_whom_a_program_asked_for_is_asked_for_again_as_long_as_it_may(office: Office) -> None:
    key = await office.key(PROGRAM, on_behalf_of=True)
    found = await office.who("rag/ben", key, "rag", "ben")
    assert (found.subject, found.role, found.acting, found.tenant) == ("rag/ben", "user", "rag", "acme")
    await office.directory.create(None, replace(PERSON, role="admin"))
    found = await office.who(PERSON.id, key, "rag", "Anna")
    assert (found.subject, found.role, found.acting) == (PERSON.id, "user", "rag")
    await office.change(User, PERSON.id, disabled=True)
    await refused(office, Forbidden, PERSON.id, key, "rag")
    await office.change(Key, key, on_behalf_of=False)
    await refused(office, Forbidden, "rag/ben", key, "rag", "ben")
    await office.change(Key, key, forwards_users=True)
    assert (await office.who("rag/ben", key, "rag", "ben")).subject == "rag/ben"
