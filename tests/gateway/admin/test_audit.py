"""The audit trail: who, when, from where, before and after, and no secrets."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.identity.administration import office as listing
from tests.gateway.admin.conftest import KeyOf, answer, person
from tests.gateway.conftest import RunningDoor, error_of


async def lines(office: RunningDoor, query: str = "") -> list[dict[str, Any]]:
    return list((await answer(office, "GET", f"/audit{query}"))["data"])


async def test_every_change_is_told_with_who_when_where_before_and_after(office: RunningDoor) -> None:
    user = await person(office, name="Old")
    await answer(office, "PATCH", f"/users/{user['id']}", {"name": "New", "set_role": "auditor"})
    line = (await lines(office))[0]
    me = await answer(office, "GET", "/whoami")
    assert line["actor"] == {"subject": me["subject"], "name": me["name"], "via": "key:admin", "address": "127.0.0.1"}
    assert (line["action"], line["target"]) == ("user.change", f"user:{user['id']}")
    assert (line["before"]["name"], line["after"]["name"]) == ("Old", "New")
    assert (line["before"]["set_role"], line["after"]["set_role"]) == (None, "auditor")
    assert abs(line["at"] - time.time()) < 60


async def test_each_kind_of_change_leaves_one_line_and_none_where_nothing_changed(office: RunningDoor) -> None:
    before = len(await lines(office))
    user = await person(office)
    await answer(office, "PATCH", f"/users/{user['id']}", {"name": "N"})
    await answer(office, "PATCH", f"/users/{user['id']}", {"name": "N"})
    await answer(office, "PUT", "/groups/g", {"role": "user"})
    await answer(office, "PUT", "/groups/g", {"role": "auditor"})
    await answer(office, "POST", "/service-accounts", {"name": "a"}, status=201)
    key = await answer(office, "POST", "/keys", {"owner": "service_account:a", "name": "k"}, status=201)
    await answer(office, "PATCH", f"/keys/{key['id']}", {"name": "l"})
    await answer(office, "POST", f"/keys/{key['id']}/rotate", {})
    await answer(office, "DELETE", "/service-accounts/a")
    await answer(office, "DELETE", "/groups/g")
    await answer(office, "DELETE", f"/users/{user['id']}")
    told = [line["action"] for line in reversed(await lines(office))][before:]
    assert told == [
        "user.create",
        "user.change",
        "group.create",
        "group.change",
        "service_account.create",
        "key.create",
        "key.change",
        "key.change",
        "key.delete",
        "service_account.delete",
        "group.delete",
        "user.delete",
    ]


async def test_a_refused_change_leaves_no_line(office: RunningDoor, key_of: KeyOf) -> None:
    user, headers = await person(office), await key_of("auditor")
    before = await lines(office)
    async with office.client.patch(f"/admin/v1/users/{user['id']}", json={"name": "x"}, headers=headers) as response:
        await error_of(response, 403)
    async with office.client.post("/admin/v1/keys", json={"owner": "user:nobody", "name": "x"}) as response:
        await error_of(response, 400)
    assert await lines(office) == before


async def test_the_trail_is_read_page_by_page_newest_first(office: RunningDoor) -> None:
    for number in range(9):
        await answer(office, "PUT", f"/groups/g{number}", {})
    seen, before = [], ""
    for _ in range(20):
        shown = await answer(office, "GET", f"/audit?limit=4&before={before}&action=group.create")
        seen += [line["target"] for line in shown["data"]]
        if not shown["has_more"]:
            break
        before = shown["next"]
    assert seen == [f"group:g{number}" for number in reversed(range(9))]


async def test_a_rare_line_is_found_though_one_answer_looks_at_few(
    office: RunningDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 3)
    monkeypatch.setattr(listing, "_CHUNK", 3)
    await answer(office, "PUT", "/groups/rare", {})
    for number in range(8):
        await answer(office, "PUT", f"/groups/g{number}", {})
    before, empty = "", 0
    for _ in range(20):
        shown = await answer(office, "GET", f"/audit?target=group:rare&before={before}")
        if shown["data"]:
            break
        empty += 1
        assert shown["has_more"]
        before = shown["next"]
    assert [line["target"] for line in shown["data"]] == ["group:rare"]
    assert empty > 1


async def test_lines_are_chosen_by_action_target_and_actor(office: RunningDoor, key_of: KeyOf) -> None:
    headers = await key_of("admin")
    await answer(office, "PUT", "/groups/mine", {})
    async with office.client.put("/admin/v1/groups/theirs", json={}, headers=headers) as response:
        assert response.status == 200
    async with office.client.get("/admin/v1/whoami", headers=headers) as response:
        other = (await response.json())["subject"]
    assert [line["target"] for line in await lines(office, f"?actor={other}")] == ["group:theirs"]
    assert [line["target"] for line in await lines(office, "?target=group:mine")] == ["group:mine"]
    assert len(await lines(office, "?action=group.create")) == 2
    assert await lines(office, f"?actor={other}&target=group:mine") == []


async def test_nothing_changes_the_trail(office: RunningDoor) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        async with office.client.request(method, "/admin/v1/audit") as response:
            await error_of(response, 405)
        async with office.client.request(method, "/admin/v1/audit/1-1") as response:
            await error_of(response, 404)


@pytest.mark.parametrize("before", ["x", "-", "(1-1", "1", "1-1%0A", "1-1%20", "9" * 30 + "-1", "%00"])
async def test_a_place_that_is_none_is_a_400_and_not_redis_trouble(office: RunningDoor, before: str) -> None:
    async with office.client.get(f"/admin/v1/audit?before={before}") as response:
        assert (await error_of(response, 400))["param"] == "before"
    async with office.client.get("/readyz") as response:
        assert response.status == 200
