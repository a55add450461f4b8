"""Users and groups through the admin API."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest
from yarl import URL

from gateway.identity.records import Key, User, user_id
from gateway.identity.sessions import Arrival
from tests.gateway.admin.conftest import ISSUER, answer, person
from tests.gateway.conftest import RunningDoor, error_of

HOSTILE_NAMES = ["a\nb", "a\n", "\u202eevil", "\x00", "\x1b[31m", "x" * 201, "", "\u2028", "\ufeffx"]


async def test_a_user_can_be_made_before_the_first_sign_in(office: RunningDoor) -> None:
    made = await person(office, "tanaka", name="田中 花子", email="hanako@example.jp", set_role="auditor")
    assert made["id"] == user_id(ISSUER, "tanaka")
    assert (made["role"], made["decided"]["role"]) == ("auditor", "user")
    assert made["why"] == ["an admin has set the role auditor"]
    assert await answer(office, "GET", f"/users/{made['id']}") == made
    async with office.client.post("/admin/v1/users", json={"issuer": ISSUER, "subject": "tanaka"}) as response:
        await error_of(response, 409, "conflict")


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", "https://elsewhere.example", "local"])
async def test_a_user_of_an_issuer_that_is_not_in_the_settings_would_never_sign_in(
    office: RunningDoor, issuer: str
) -> None:
    async with office.client.post("/admin/v1/users", json={"issuer": issuer, "subject": "x"}) as response:
        error = await error_of(response, 400)
    assert error["param"] == "issuer"
    assert ISSUER in error["message"]


async def test_what_an_admin_sets_goes_before_what_sign_in_decided_until_it_is_cleared(office: RunningDoor) -> None:
    assert office.app.door is not None
    someone = User(id=user_id(ISSUER, "s"), issuer=ISSUER, subject="s", groups=("a",), why=("group a gives user",))
    await office.app.door.directory.create(None, someone)
    path = f"/users/{someone.id}"
    change = {"set_role": "admin", "set_tenant": "lab", "set_groups": ["b", "c"]}
    shown = await answer(office, "PATCH", path, change)
    assert (shown["role"], shown["tenant"], shown["groups"]) == ("admin", "lab", ["b", "c"])
    assert shown["decided"] == {"role": "user", "tenant": "default", "groups": ["a"]}
    assert shown["why"][-1] == "group a gives user"
    assert len(shown["why"]) == 4
    assert (await answer(office, "PATCH", path, {"set_groups": []}))["groups"] == []
    shown = await answer(office, "PATCH", path, {"set_role": None, "set_groups": None})
    assert (shown["role"], shown["tenant"], shown["groups"]) == ("user", "lab", ["a"])
    assert await answer(office, "PATCH", path, {}) == shown


async def test_users_are_found_by_part_of_name_address_or_subject(office: RunningDoor) -> None:
    for subject, name, email in (
        ("s1", "Ada Lovelace", "ada@example.com"),
        ("s2", "花子", "h@example.jp"),
        ("s3", "", ""),
    ):
        await person(office, subject, name=name, email=email)
    for search, found in (("LOVE", ["s1"]), ("花", ["s2"]), ("example", ["s1", "s2"]), ("S3", ["s3"]), ("zzz", [])):
        listed = await answer(office, "GET", f"/users?search={quote(search)}")
        assert sorted(user["subject"] for user in listed["data"]) == found
        assert listed["has_more"] is False


async def test_users_are_found_by_whether_they_are_disabled(office: RunningDoor) -> None:
    ids = [(await person(office, subject, name=subject))["id"] for subject in ("one", "two", "other")]
    await answer(office, "PATCH", f"/users/{ids[1]}", {"disabled": True})

    async def found(query: str) -> set[str]:
        return {user["subject"] for user in (await answer(office, "GET", f"/users?{query}"))["data"]}

    assert await found("state=disabled") == {"two"}
    assert await found("state=enabled") >= {"one", "other"}
    assert await found("state=enabled&search=ot") == {"other"}
    assert await found("state=disabled&search=one") == set()
    await answer(office, "GET", "/users?state=gone", status=400)


async def test_a_long_list_is_read_page_by_page_without_gap_or_repetition(office: RunningDoor) -> None:
    made = {(await person(office, f"s-{number}", name="even" if number % 2 else "odd"))["id"] for number in range(25)}
    for search, expected in (("", 26), ("even", 12)):
        seen: list[str] = []
        after = ""
        for _ in range(30):
            listed = await answer(office, "GET", f"/users?limit=7&search={search}&after={after}")
            assert len(listed["data"]) <= 7
            seen += [user["id"] for user in listed["data"]]
            if not listed["has_more"]:
                break
            after = listed["next"]
        assert len(seen) == len(set(seen)) == expected
        assert set(seen) >= made or search
    assert listed["next"] is None


async def test_a_deleted_users_keys_and_sessions_do_not_wait_for_a_return(office: RunningDoor) -> None:
    door = office.app.door
    assert door is not None
    user = await person(office, "leaver")
    body = {"owner": f"user:{user['id']}", "name": "laptop"}
    key = await answer(office, "POST", "/keys", body, status=201)
    _, session = await door.sessions.begin(Arrival(user["id"], ISSUER, "", ""))
    deleted = await answer(office, "DELETE", f"/users/{user['id']}")
    assert deleted == {"id": user["id"], "object": "user", "deleted": True}
    assert await door.directory.get(Key, key["id"]) is None
    assert await door.sessions.get(session.id) is None
    await person(office, "leaver")
    async with office.client.get("/v1/models", headers={"authorization": f"Bearer {key['key']}"}) as response:
        await error_of(response, 401)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_a_hostile_name_is_refused_and_named(office: RunningDoor, name: str) -> None:
    user = await person(office)
    for method, path, body, field in (
        ("PATCH", f"/users/{user['id']}", {"name": name}, "name"),
        ("PATCH", f"/users/{user['id']}", {"set_groups": ["fine", name or "\n"]}, "set_groups[1]"),
        ("POST", "/service-accounts", {"name": name}, "name"),
        ("POST", "/keys", {"name": name, "owner": f"user:{user['id']}"}, "name"),
    ):
        if len(name) > 200 and "set_groups" in body:
            continue
        async with office.client.request(method, f"/admin/v1{path}", json=body) as response:
            error = await error_of(response, 400)
        assert error["param"] == field


async def test_a_group_is_named_as_the_provider_spells_it(office: RunningDoor) -> None:
    for name in ("/engineering/ai", "CN=Ops,OU=Groups", "経理 部", "100% of us?#", "a/rotate"):
        path = f"/admin/v1/groups/{quote(name, safe='')}"
        async with office.client.put(_raw(office, path), json={"role": "auditor"}) as response:
            assert response.status == 200, await response.text()
            assert (await response.json())["id"] == name
        async with office.client.get(_raw(office, path)) as response:
            assert (await response.json())["role"] == "auditor"
    listed = await answer(office, "GET", "/groups")
    assert len(listed["data"]) == 5


async def test_a_group_is_replaced_as_a_whole_and_keeps_its_birthday(office: RunningDoor) -> None:
    first = await answer(office, "PUT", "/groups/ops", {"role": "admin", "tenant": "ops", "description": "x"})
    second = await answer(office, "PUT", "/groups/ops", {"description": "large"})
    assert second == first | {"role": None, "tenant": None, "description": "large"}
    await answer(office, "DELETE", "/groups/ops")
    await answer(office, "GET", "/groups/ops", status=404)
    await answer(office, "DELETE", "/groups/ops", status=404)


async def test_a_groups_name_has_bounds(office: RunningDoor) -> None:
    for name in ("x" * 257, "%0A", "%E2%80%AE"):
        async with office.client.put(_raw(office, f"/admin/v1/groups/{name}"), json={}) as response:
            await error_of(response, 400)


@pytest.mark.parametrize("tenant", ["", "a b", "a\r\nx-evil: 1", "部", "x" * 65, "a\n"])
async def test_a_tenant_is_what_a_header_can_hold(office: RunningDoor, tenant: str) -> None:
    async with office.client.put("/admin/v1/groups/g", json={"tenant": tenant}) as response:
        assert (await error_of(response, 400))["param"] == "tenant"


async def test_sessions_are_seen_and_ended_one_by_one_and_all_at_once(office: RunningDoor) -> None:
    door = office.app.door
    assert door is not None
    user = await person(office, name="Aiko")
    ids = [(await door.sessions.begin(Arrival(user["id"], ISSUER, "10.0.0.1", "Firefox")))[1].id for _ in range(3)]
    listed = await answer(office, "GET", "/sessions?limit=2")
    rest = await answer(office, "GET", f"/sessions?limit=2&after={listed['next']}")
    assert [session["id"] for session in listed["data"] + rest["data"]] == sorted(ids)
    assert (listed["has_more"], rest["has_more"]) == (True, False)
    assert "sealed" not in listed["data"][0]
    assert {session["name"] for session in listed["data"]} == {"Aiko"}
    assert len((await answer(office, "GET", f"/users/{user['id']}/sessions"))["data"]) == 3
    await answer(office, "DELETE", f"/sessions/{ids[0]}")
    await answer(office, "DELETE", f"/sessions/{ids[0]}", status=404)
    assert (await answer(office, "DELETE", f"/users/{user['id']}/sessions"))["ended"] == 2
    assert (await answer(office, "GET", "/sessions"))["data"] == []
    await answer(office, "GET", "/users/usr_nobody/sessions", status=404)
    lines = (await answer(office, "GET", "/audit"))["data"]
    assert [line["action"] for line in lines[:2]] == ["user.sign_out", "session.end"]


async def test_somebody_who_changes_the_same_record_meanwhile_loses_nothing(office: RunningDoor) -> None:
    user = await person(office)
    rename, promote = {"name": "New"}, {"set_role": "auditor"}
    await asyncio.gather(*(answer(office, "PATCH", f"/users/{user['id']}", body) for body in (rename, promote)))
    shown = await answer(office, "GET", f"/users/{user['id']}")
    assert (shown["name"], shown["role"]) == ("New", "auditor")
    lines = (await answer(office, "GET", f"/audit?target=user:{user['id']}&action=user.change"))["data"]
    assert len(lines) == 2


def _raw(office: RunningDoor, path: str) -> URL:
    return URL(office.url + path, encoded=True)
