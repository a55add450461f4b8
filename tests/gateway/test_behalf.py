"""For whom a program asks: people of the door, names of the program's own, and who may say so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
import redis

from gateway.identity.api_keys import local_admin
from gateway.identity.records import User, user_id
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_api_keys import ACTOR, bearer, made

ISSUER = "https://id.example.com"
HANA = User(id=user_id(ISSUER, "hana"), issuer=ISSUER, subject="hana", name="Hana", tenant="research", role="admin")
SERVICE = "of-service"


@pytest.fixture
async def rag(start_door: StartDoor) -> tuple[RunningDoor, dict[str, str]]:
    """A door that knows Hana, and the headers of a program that may name people."""
    door = await start_door(issuers=[{"issuer": ISSUER, "client_id": "sekisho"}])
    assert door.app.door is not None
    await door.app.door.directory.create(ACTOR, HANA)
    return door, bearer((await made(door, on_behalf_of=True)).key)


async def booked(door: RunningDoor) -> set[str]:
    """The subjects on whom something was booked, once there are any: an answer does not wait for its booking."""
    found: set[str] = set()

    def look() -> bool:
        with redis.Redis.from_url(door.settings.redis_url, decode_responses=True) as server:
            found.update(key.removeprefix("{sekisho}:usage:").rpartition(":")[0] for key in server.keys("*:usage:*"))
        return bool(found)

    await eventually(look)
    return found


async def asked(door: RunningDoor, headers: dict[str, str], **body: Any) -> None:
    async with door.post(ask(**body), headers=headers) as response:
        assert response.status == 200, await response.text()


async def asked_for(door: RunningDoor, headers: dict[str, str], where: str, name: str) -> None:
    if where == "header":
        await asked(door, headers | {"x-on-behalf-of": name})
    else:
        await asked(door, headers, user=name)


@pytest.mark.parametrize("name", [HANA.id, f"{ISSUER}|hana", f" {HANA.id} "])
@pytest.mark.parametrize("where", ["header", "body"])
async def test_a_person_of_the_door_is_booked_and_shares_prefixes_with_their_tenant(
    rag: tuple[RunningDoor, dict[str, str]], name: str, where: str
) -> None:
    door, headers = rag
    await asked_for(door, headers, where, name)
    assert await booked(door) == {HANA.id}
    assert door.backend.asked[0].headers["x-sekisho-cache-salt"] == "research"


@pytest.mark.parametrize("name", ["hana", "経理部 花", "a/b", "auth0|123", "usr_short", "x" * 256])
@pytest.mark.parametrize("where", ["header", "body"])
async def test_any_other_name_is_the_programs_own(
    rag: tuple[RunningDoor, dict[str, str]], name: str, where: str
) -> None:
    door, headers = rag
    await asked_for(door, headers, where, name)
    assert await booked(door) == {f"{SERVICE}/{name}"}
    assert door.backend.asked[0].headers["x-sekisho-cache-salt"] == "default"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/rerank", {"query": "Hi", "documents": ["a"]}),
    ],
)
async def test_whoever_is_named_is_booked_whatever_is_asked(
    rag: tuple[RunningDoor, dict[str, str]], path: str, body: dict[str, Any]
) -> None:
    door, headers = rag
    async with door.post({"model": "fake", "user": HANA.id, **body}, path, headers=headers):
        assert await booked(door) == {HANA.id}


async def test_a_person_who_never_signed_in_is_booked_where_they_will_find_it(
    rag: tuple[RunningDoor, dict[str, str]],
) -> None:
    door, headers = rag
    await asked(door, headers | {"x-on-behalf-of": f"{ISSUER}|taro"})
    assert await booked(door) == {user_id(ISSUER, "taro")}


async def test_the_header_goes_before_the_body(rag: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = rag
    await asked(door, headers | {"x-on-behalf-of": "header"}, user="body")
    assert await booked(door) == {f"{SERVICE}/header"}


@pytest.mark.parametrize("user", [{}, {"user": None}, {"user": ""}])
async def test_whoever_names_nobody_asks_for_itself(
    rag: tuple[RunningDoor, dict[str, str]], user: dict[str, Any]
) -> None:
    door, headers = rag
    await asked(door, headers, **user)
    assert await booked(door) == {SERVICE}


async def test_without_the_scope_the_header_is_a_403_that_says_so(door: RunningDoor) -> None:
    headers = bearer((await made(door)).key) | {"x-on-behalf-of": "hana"}
    async with door.post(ask(), headers=headers) as response:
        error = await error_of(response, 403, "on_behalf_of_not_allowed")
    assert "X-On-Behalf-Of" in error["message"]
    assert door.backend.asked == []


async def test_without_the_scope_the_bodys_user_is_a_label_that_is_passed_on(door: RunningDoor) -> None:
    headers = bearer((await made(door)).key)
    await asked(door, headers, user=HANA.id)
    assert await booked(door) == {SERVICE}
    assert json.loads(door.backend.asked[0].body)["user"] == HANA.id


@pytest.mark.parametrize("change", [{"disabled": True}, None], ids=["disabled", "deleted"])
async def test_a_person_who_may_not_ask_may_not_be_asked_for(
    rag: tuple[RunningDoor, dict[str, str]], change: dict[str, Any] | None
) -> None:
    door, headers = rag
    assert door.app.door is not None
    if change is None:
        await door.app.door.directory.delete(ACTOR, User, HANA.id)
    else:
        await door.app.door.directory.change(ACTOR, User, HANA.id, lambda user: msgspec.structs.replace(user, **change))
    code = "account_disabled" if change else "unknown_user"
    for sent in (door.post(ask(user=HANA.id), headers=headers), door.post(ask(), headers=headers | named(HANA.id))):
        async with sent as response:
            await error_of(response, 403, code)
    assert door.backend.asked == []


async def test_an_admins_program_that_asks_for_somebody_is_no_admin_then(door: RunningDoor) -> None:
    assert door.app.door is not None
    headers = bearer((await made(door, "admin", on_behalf_of=True)).key)
    admin = await local_admin(door.app.door.directory)
    for more, status in (({}, 200), (named("hana"), 403), (named(admin.id), 403)):
        async with door.client.get("/metrics", headers=headers | more) as response:
            assert response.status == status


async def test_the_limits_of_the_key_hold_for_whomever_it_asks(door: RunningDoor) -> None:
    headers = bearer((await made(door, on_behalf_of=True, models=("other",))).key)
    async with door.post(ask(), headers=headers | named("hana")) as response:
        await error_of(response, 404, "model_not_found")


HOSTILE = [b"", b" ", b"\xff\xfe", b"a\tb", b"a\xc2\x85b", b"a\xe2\x80\xa8b", b"x" * 257, b"\xed\xa0\x80"]


@pytest.mark.parametrize("value", HOSTILE)
async def test_what_cannot_be_a_name_is_a_400(rag: tuple[RunningDoor, dict[str, str]], value: bytes) -> None:
    door, headers = rag
    status, body = await raw(door, headers["authorization"], [b"x-on-behalf-of: " + value])
    assert status == 400
    assert json.loads(body)["error"]["param"] == "X-On-Behalf-Of"


@pytest.mark.parametrize("user", [" ", "a\nb", "a\u0000b", "x" * 257, "a\u202eb"])
async def test_a_bodys_user_who_cannot_be_a_name_is_a_400(rag: tuple[RunningDoor, dict[str, str]], user: str) -> None:
    door, headers = rag
    async with door.post(ask(user=user), headers=headers) as response:
        assert (await error_of(response, 400, "invalid_user_name"))["param"] == "user"


async def test_two_names_are_refused(rag: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = rag
    status, _ = await raw(door, headers["authorization"], [b"x-on-behalf-of: a", b"x-on-behalf-of: b"])
    assert status == 400


async def test_no_header_about_people_reaches_an_engine(rag: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = rag
    theirs = {"x-openwebui-user-email": "a@b", "x-openwebui-user-jwt": "x", "x-forwarded-user": "a", "cookie": "a=b"}
    await asked(door, headers | named("hana") | theirs)
    assert set(door.backend.asked[0].headers) == {"x-request-id", "x-sekisho-cache-salt", "x-sekisho-class"}


def named(name: str) -> dict[str, str]:
    return {"x-on-behalf-of": name}


async def raw(door: RunningDoor, authorization: str, lines: list[bytes]) -> tuple[int, bytes]:
    """What no client library would send."""
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [b"GET /v1/models HTTP/1.1", b"host: x", b"authorization: " + authorization.encode(), *lines]
    writer.write(b"\r\n".join([*head, b"connection: close", b"", b""]))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head_bytes, _, body = answer.partition(b"\r\n\r\n")
    return int(head_bytes.split(b" ")[1]), body
