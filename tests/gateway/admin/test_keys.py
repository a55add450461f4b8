"""Service accounts and API keys through the admin API."""

from __future__ import annotations

import asyncio
import time
from typing import Any, get_args

import msgspec
import pytest

from gateway.errors import BadRequest
from gateway.identity.administration import keys, service_accounts
from gateway.identity.administration.forms import KeyNew
from gateway.identity.administration.office import Office
from gateway.identity.administration.service_accounts import id_from
from gateway.identity.records import Key
from gateway.scope import Endpoint
from gateway.store.directory import Actor
from tests.gateway.admin.conftest import ACTOR, answer, person
from tests.gateway.conftest import RunningDoor, ask, error_of

Fields = dict[str, Any]


async def account(office: RunningDoor, name: str = "rag", **fields: Any) -> Fields:
    return dict(await answer(office, "POST", "/service-accounts", {"name": name} | fields, status=201))


async def key(office: RunningDoor, owner: str = "service_account:rag", **fields: Any) -> Fields:
    return dict(await answer(office, "POST", "/keys", {"owner": owner, "name": "k"} | fields, status=201))


async def status_with(office: RunningDoor, secret: str) -> int:
    async with office.post(ask(), headers={"authorization": f"Bearer {secret}"}) as response:
        return int(response.status)


async def test_a_key_is_shown_once_and_works(office: RunningDoor) -> None:
    await account(office)
    made = await key(office, models=["fa*"], expires=int(time.time()) + 60)
    assert await status_with(office, made["key"]) == 200
    secret = made.pop("key")
    assert set(made["endpoints"]) == set(get_args(Endpoint)) - {"metrics", "admin"}
    assert made["last_used"] is None
    for path in (f"/keys/{made['id']}", "/keys", "/audit"):
        async with office.client.get(f"/admin/v1{path}") as response:
            text = await response.text()
        assert made["id"] in text
        assert secret not in text
        assert "digest" not in text


async def test_the_last_use_of_a_key_is_shown(office: RunningDoor) -> None:
    await account(office)
    made = await key(office)
    assert await status_with(office, made["key"]) == 200
    shown: Fields = {}

    async def look() -> None:
        shown.update(await answer(office, "GET", f"/keys/{made['id']}"))

    for _ in range(100):
        await look()
        if shown["last_used"]:
            break
        await asyncio.sleep(0.01)
    assert abs(shown["last_used"] - time.time()) < 120
    assert shown == {name: value for name, value in made.items() if name != "key"} | {"last_used": shown["last_used"]}


async def test_limits_of_a_key_are_changed_and_taken_away(office: RunningDoor) -> None:
    await account(office)
    made = await key(office, models=["other"], expires=int(time.time()) + 60)
    path = f"/keys/{made['id']}"
    assert await status_with(office, made["key"]) == 404
    shown = await answer(office, "PATCH", path, {"models": None, "expires": None, "name": "new"})
    assert (shown["models"], shown["expires"], shown["name"]) == (None, None, "new")
    await eventually_status(office, made["key"], 200)
    await answer(office, "PATCH", path, {"allowed_ips": ["10.0.0.0/8"]})
    await eventually_status(office, made["key"], 403)


async def test_a_key_says_where_its_requests_wait(office: RunningDoor) -> None:
    await account(office)
    made = await key(office, queue_class="batch")
    path = f"/keys/{made['id']}"
    assert (await answer(office, "GET", path))["queue_class"] == "batch"
    assert (await answer(office, "PATCH", path, {"queue_class": "interactive"}))["queue_class"] == "interactive"
    assert (await answer(office, "PATCH", path, {"queue_class": None}))["queue_class"] is None
    assert (await key(office))["queue_class"] is None


def test_a_key_that_forwards_people_at_a_page_waits_as_they_do_unless_it_says_otherwise() -> None:
    page = Key(id="k", digest="", owner="service_account:page", forwards_users=True)
    assert page.grant().queue_class == "interactive"
    assert msgspec.structs.replace(page, queue_class="batch").grant().queue_class == "batch"
    assert msgspec.structs.replace(page, forwards_users=False).grant().queue_class is None


async def test_a_rotated_keys_old_secret_opens_as_long_as_was_asked(office: RunningDoor) -> None:
    await account(office)
    first = await key(office)
    second = await answer(office, "POST", f"/keys/{first['id']}/rotate", {"overlap_seconds": 60})
    assert second["id"] == first["id"]
    assert second["previous_until"] == pytest.approx(time.time() + 60, abs=10)
    await eventually_status(office, second["key"], 200)
    assert await status_with(office, first["key"]) == 200
    third = await answer(office, "POST", f"/keys/{first['id']}/rotate", {"overlap_seconds": 0})
    await eventually_status(office, first["key"], 401)
    await eventually_status(office, second["key"], 401)
    assert await status_with(office, third["key"]) == 200
    # Without a body: with the usual overlap.
    fourth = await answer(office, "POST", f"/keys/{first['id']}/rotate")
    assert fourth["previous_until"] > time.time() + 60


async def test_a_deleted_key_ends(office: RunningDoor) -> None:
    await account(office)
    made = await key(office)
    assert await status_with(office, made["key"]) == 200
    assert (await answer(office, "DELETE", f"/keys/{made['id']}"))["deleted"] is True
    await eventually_status(office, made["key"], 401)
    await answer(office, "DELETE", f"/keys/{made['id']}", status=404)
    await answer(office, "POST", f"/keys/{made['id']}/rotate", status=404)


async def test_keys_are_listed_by_whether_they_still_open(office: RunningDoor) -> None:
    assert office.app.door is not None
    await answer(office, "POST", "/service-accounts", {"name": "robot"}, status=201)
    owner = "service_account:robot"
    for name, expires in (("for ever", None), ("for long", int(time.time()) + 1000), ("gone", int(time.time()) + 1000)):
        body = {"owner": owner, "name": name, "expires": expires}
        made = await answer(office, "POST", "/keys", body, status=201)
    directory = office.app.door.directory
    await directory.change(ACTOR, Key, made["id"], lambda key: msgspec.structs.replace(key, expires=1))
    for state, names in (("good", {"for ever", "for long"}), ("expired", {"gone"})):
        listed = await answer(office, "GET", f"/keys?owner={owner}&state={state}")
        assert {key["name"] for key in listed["data"]} == names
    assert [key["name"] for key in (await answer(office, "GET", "/keys?state=expired"))["data"]] == ["gone"]


async def test_keys_are_listed_by_owner(office: RunningDoor) -> None:
    await account(office)
    await account(office, "other")
    mine = {(await key(office))["id"] for _ in range(3)}
    await key(office, "service_account:other")
    listed = await answer(office, "GET", "/keys?owner=service_account:rag")
    assert {one["id"] for one in listed["data"]} == mine
    assert len((await answer(office, "GET", "/keys"))["data"]) == 5  # the admin's own too


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"owner": "service_account:nobody"}, "owner"),
        ({"owner": "rag"}, "owner"),
        ({"owner": "group:rag"}, "owner"),
        ({"owner": "service_account:rag\n"}, "owner"),
        ({"allowed_ips": ["10.0.0.1/8"]}, "allowed_ips"),
        ({"allowed_ips": ["10.0.0.0/8", "everywhere"]}, "allowed_ips"),
        ({"allowed_ips": ["10.0.0.0/8"] * 1001}, "allowed_ips"),
        ({"expires": 1}, "expires"),
        ({"expires": 1e300}, "expires"),
        ({"expires": "tomorrow"}, "expires"),
        ({"models": ["a"] * 1001}, "models"),
        ({"models": "fake"}, "models"),
        ({"models": ["\n"]}, "models[0]"),
        ({"endpoints": ["chat", "everything"]}, "endpoints[1]"),
        ({"on_behalf_of": "yes"}, "on_behalf_of"),
        ({"queue_class": "first"}, "queue_class"),
        ({"digest": "0"}, "digest"),
        ({"id": "mine"}, "id"),
        ({"key": "sk-skh-a-0123456789abcdef"}, "key"),
    ],
)
async def test_a_key_that_cannot_be_is_refused_and_the_field_named(
    office: RunningDoor, fields: Fields, param: str
) -> None:
    await account(office)
    body = {"owner": "service_account:rag", "name": "k"} | fields
    async with office.client.post("/admin/v1/keys", json=body) as response:
        assert (await error_of(response, 400))["param"] == param
    assert len((await answer(office, "GET", "/keys"))["data"]) == 1


async def test_only_a_program_may_name_other_people(office: RunningDoor) -> None:
    await account(office)
    owner = f"user:{(await person(office))['id']}"
    for field in ("on_behalf_of", "forwards_users"):
        body = {"owner": owner, "name": "k", field: True}
        async with office.client.post("/admin/v1/keys", json=body) as response:
            assert (await error_of(response, 400))["param"] == field
        made = await key(office, owner)
        async with office.client.patch(f"/admin/v1/keys/{made['id']}", json={field: True}) as response:
            assert (await error_of(response, 400))["param"] == field
        assert (await key(office, **{field: True}))[field] is True


async def test_a_deleted_accounts_keys_do_not_wait_for_the_next_of_its_name(office: RunningDoor) -> None:
    await account(office)
    made = [await key(office) for _ in range(3)]
    await answer(office, "DELETE", "/service-accounts/rag")
    await account(office)
    for one in made:
        await eventually_status(office, one["key"], 401)
    assert (await answer(office, "GET", "/keys?owner=service_account:rag"))["data"] == []


async def test_a_key_made_while_its_owner_is_deleted_does_not_remain(office: RunningDoor) -> None:
    door = office.app.door
    assert door is not None
    await account(office)

    class Ring:
        """Whose owner goes away while the key is made."""

        async def issue(self, actor: Actor, draft: Key) -> Any:
            made = await door.key_ring.issue(actor, draft)
            # Another administrator's second sweep has just passed.
            await door.directory.delete(actor, service_accounts.ServiceAccount, "rag")
            return made

    desk = Office(door.directory, Ring(), door.sessions, door.chat.forgetting.all_of)  # type: ignore[arg-type]
    with pytest.raises(BadRequest):
        await keys.create(desk, ACTOR, KeyNew(owner="service_account:rag", name="late"))
    assert (await answer(office, "GET", "/keys?owner=service_account:rag"))["data"] == []


async def test_an_account_is_changed_and_disabled(office: RunningDoor) -> None:
    await account(office, description="reads the wiki", groups=["ops"])
    made = await key(office)
    shown = await answer(office, "PATCH", "/service-accounts/rag", {"tenant": "lab", "groups": []})
    assert (shown["tenant"], shown["groups"], shown["description"]) == ("lab", [], "reads the wiki")
    await answer(office, "PATCH", "/service-accounts/rag", {"disabled": True})
    await eventually_status(office, made["key"], 403)
    await answer(office, "PATCH", "/service-accounts/rag", {"disabled": False})
    await eventually_status(office, made["key"], 200)


@pytest.mark.parametrize("body", [{"name": "RAG"}, {"name": "Another", "id": "rag"}])
async def test_an_id_is_given_once(office: RunningDoor, body: Fields) -> None:
    await account(office)
    async with office.client.post("/admin/v1/service-accounts", json=body) as response:
        await error_of(response, 409, "conflict")


@pytest.mark.parametrize("taken", ["cli", "bootstrap", "usr_aaaaaaaaaaaaaaaaaaaaaaaa"])
async def test_an_account_cannot_pose_as_a_person_or_as_the_command_line(office: RunningDoor, taken: str) -> None:
    for body in ({"name": taken}, {"name": "x", "id": taken}):
        async with office.client.post("/admin/v1/service-accounts", json=body) as response:
            assert (await error_of(response, 400))["param"] == "id"


@pytest.mark.parametrize("refused", ["", "A", "a/b", "a:b", "../a", "a b", "-a", "x" * 65, "a\n", "部"])
async def test_an_accounts_id_is_plain(office: RunningDoor, refused: str) -> None:
    async with office.client.post("/admin/v1/service-accounts", json={"name": "x", "id": refused}) as response:
        assert (await error_of(response, 400))["param"] == "id"


def test_an_id_is_made_of_the_name_and_differs_where_names_do() -> None:
    assert id_from("Wiki Search") == id_from("wiki-search") == "wiki-search"
    assert id_from("検索") != id_from("要約")
    assert id_from("RAG 検索").startswith("rag-")
    assert id_from("検索") == id_from("検索")
    assert id_from("!!!") != id_from("???")


async def eventually_status(office: RunningDoor, secret: str, status: int) -> None:
    """The news of a change takes a moment; what is believed is never older than a second."""
    for _ in range(60):
        if (found := await status_with(office, secret)) == status:
            return
        await asyncio.sleep(0.02)
    assert found == status
