"""Who may read and change what, and what everybody is told of themselves."""

from __future__ import annotations

import re

import pytest

from gateway.api.admin import DOCUMENT, OPERATIONS
from gateway.api.admin.operation import Operation
from gateway.identity.records import Key, User, user_id
from gateway.scope import Role
from tests.gateway.admin.conftest import ACTOR, ISSUER, KeyOf, answer
from tests.gateway.conftest import RunningDoor, error_of

# Sent with a body, and changing nothing.
READS_BY_POST = {"policies.what_if"}
GUARDED = [one for one in (*OPERATIONS, DOCUMENT) if one.path != "/admin/v1/whoami"]


def allowed(one: Operation, role: Role) -> bool:
    return role == "admin" or (role == "auditor" and (one.method == "GET" or one.name in READS_BY_POST))


@pytest.mark.parametrize("role", ["user", "service", "auditor", "admin"])
async def test_reading_takes_an_auditor_and_changing_an_admin(office: RunningDoor, key_of: KeyOf, role: Role) -> None:
    headers = await key_of(role)
    for one in GUARDED:
        path = re.sub(r"{\w+}", "nobody", one.path)
        async with office.client.request(one.method, path, headers=headers) as response:
            if allowed(one, role):
                assert response.status in (200, 400, 404), (one.name, await response.text())
            else:
                error = await error_of(response, 403)
                assert role in error["message"], one.name


async def test_an_admins_key_without_the_endpoint_admin_administers_nothing(office: RunningDoor, key_of: KeyOf) -> None:
    headers = await key_of("admin", endpoints=("chat", "metrics"))
    for one in GUARDED:
        path = re.sub(r"{\w+}", "nobody", one.path)
        async with office.client.request(one.method, path, headers=headers) as response:
            await error_of(response, 403)


@pytest.mark.parametrize("role", ["user", "service", "auditor", "admin"])
async def test_everybody_may_ask_who_they_are_and_why(office: RunningDoor, key_of: KeyOf, role: Role) -> None:
    headers = await key_of(role, endpoints=("chat",), models=("fake",))
    async with office.client.get("/admin/v1/whoami", headers=headers) as response:
        assert response.status == 200
        told = await response.json()
    assert (told["role"], told["endpoints"], told["models"]) == (role, ["chat"], ["fake"])
    assert told["key_id"] in headers["authorization"]
    assert told["why"][:1] == ([] if role == "service" else [f"an admin has set the role {role}"])


async def test_admins_cannot_take_their_own_rights_away(office: RunningDoor) -> None:
    me = (await answer(office, "GET", "/whoami"))["subject"]
    for body in ({"disabled": True}, {"set_role": "user"}, {"set_role": "auditor"}):
        async with office.client.patch(f"/admin/v1/users/{me}", json=body) as response:
            await error_of(response, 409, "own_account")
    async with office.client.delete(f"/admin/v1/users/{me}") as response:
        await error_of(response, 409, "own_account")
    assert (await answer(office, "PATCH", f"/users/{me}", {"name": "Me", "set_tenant": "lab"}))["tenant"] == "lab"
    assert (await answer(office, "GET", "/whoami"))["role"] == "admin"


async def test_an_admin_by_setting_cannot_clear_it(office: RunningDoor, key_of: KeyOf) -> None:
    headers = await key_of("admin")
    async with office.client.get("/admin/v1/whoami", headers=headers) as response:
        me = (await response.json())["subject"]
    async with office.client.patch(f"/admin/v1/users/{me}", json={"set_role": None}, headers=headers) as response:
        await error_of(response, 409, "own_account")
    # Somebody else may.
    assert (await answer(office, "PATCH", f"/users/{me}", {"set_role": None}))["role"] == "user"


async def test_an_admin_program_cannot_take_its_own_rights_away(office: RunningDoor) -> None:
    await answer(office, "POST", "/service-accounts", {"name": "robot", "role": "admin"}, status=201)
    made = await answer(
        office,
        "POST",
        "/keys",
        {"owner": "service_account:robot", "name": "robot", "endpoints": None},
        status=201,
    )
    headers = {"authorization": f"Bearer {made['key']}"}
    for body in ({"disabled": True}, {"role": "service"}):
        async with office.client.patch("/admin/v1/service-accounts/robot", json=body, headers=headers) as response:
            await error_of(response, 409, "own_account")
    async with office.client.delete("/admin/v1/service-accounts/robot", headers=headers) as response:
        await error_of(response, 409, "own_account")


async def test_an_admin_by_a_group_cannot_take_that_away(office: RunningDoor) -> None:
    assert office.app.door is not None
    me = User(id=user_id(ISSUER, "me"), issuer=ISSUER, subject="me", role="admin", groups=("ops", "other"))
    await office.app.door.directory.create(None, me)
    await answer(office, "PUT", "/groups/ops", {"role": "admin"})
    draft = Key(id="", digest="", owner=f"user:{me.id}", name="mine")
    made = await office.app.door.key_ring.issue(ACTOR, draft)
    headers = {"authorization": f"Bearer {made.key}"}
    for method, path, body in (
        ("PUT", "/groups/ops", {"role": "auditor"}),
        ("DELETE", "/groups/ops", None),
        ("PATCH", f"/users/{me.id}", {"set_groups": ["other"]}),
    ):
        async with office.client.request(method, f"/admin/v1{path}", json=body, headers=headers) as response:
            await error_of(response, 409, "own_account")
    async with office.client.put(
        "/admin/v1/groups/ops", json={"role": "admin", "tenant": "ops"}, headers=headers
    ) as response:
        assert response.status == 200
    # Somebody else may.
    await answer(office, "DELETE", "/groups/ops")
