"""The admin API as somebody with a key of a role sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.identity.records import Key, ServiceAccount, User, user_id
from gateway.scope import Role
from gateway.store.directory import Actor
from tests.gateway.conftest import RunningDoor, StartDoor

ACTOR = Actor("tests", "tests", "cli", "here")
ISSUER = "http://127.0.0.1:9/realm"

Made = Callable[..., Awaitable[Any]]
KeyOf = Callable[..., Awaitable[dict[str, str]]]


@pytest.fixture
async def office(start_door: StartDoor) -> RunningDoor:
    """A door with an issuer whose people may be made; its client has an admin's key."""
    return await start_door(issuers=[{"issuer": ISSUER, "client_id": "gateway"}])


@pytest.fixture
async def key_of(office: RunningDoor) -> KeyOf:
    """The headers of somebody of a role, whose credential has these limits."""

    async def make(role: Role, **limits: Any) -> dict[str, str]:
        assert office.app.door is not None
        directory = office.app.door.directory
        person = User(id=user_id(ISSUER, role), issuer=ISSUER, subject=role, name=f"The {role}", set_role=role)
        account = ServiceAccount(id="program", name="Program")
        owner = account if role == "service" else person
        if await directory.get(type(owner), owner.id) is None:
            await directory.create(None, owner)
        draft = Key(id="", digest="", owner=f"{owner.kind}:{owner.id}", name=role, **limits)
        made = await office.app.door.key_ring.issue(ACTOR, draft)
        return {"authorization": f"Bearer {made.key}"}

    return make


async def answer(office: RunningDoor, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    """What the admin API says, after checking the status."""
    data = body if isinstance(body, bytes) else None
    json = None if isinstance(body, bytes) else body
    async with office.client.request(method, f"/admin/v1{path}", json=json, data=data) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def person(office: RunningDoor, subject: str = "p-1", **fields: Any) -> dict[str, Any]:
    body = {"issuer": ISSUER, "subject": subject} | fields
    return dict(await answer(office, "POST", "/users", body, status=201))
