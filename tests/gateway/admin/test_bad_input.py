"""What cannot be read is told by name, in the one shape, and is never a 500."""

from __future__ import annotations

import io

import pytest
import redis
from yarl import URL

from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import RunningDoor, error_of


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b'{"name": "\xff"}', "invalid_json"),
        (b'{"name": "\\ud800"}', "invalid_json"),
        (b"[" * 100_000, None),
        (b'{"name": ' + b"[" * 100_000, None),
        (b"null", None),
        (b"[]", None),
        (b'"name"', None),
        (b"{}", None),
        (b'{"name": null}', None),
        (b'{"name": "x", "role": "root"}', None),
        (b'{"name": "x", "admin": true}', None),
        (b'{"name": "x", "' + b"f" * 5000 + b'": true}', None),
    ],
)
async def test_a_body_that_cannot_be_used(office: RunningDoor, body: bytes, code: str | None) -> None:
    async with office.client.post("/admin/v1/service-accounts", data=body) as response:
        error = await error_of(response, 400, code)
    assert len(error["message"]) < 400
    assert (await answer(office, "GET", "/service-accounts"))["data"] == []


async def test_a_body_past_the_bound_is_a_413(office: RunningDoor) -> None:
    async with office.client.post("/admin/v1/service-accounts", data=io.BytesIO(b" " * (1024 * 1024 + 1))) as response:
        await error_of(response, 413)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("limit=-1", "limit"),
        ("limit=9" + "9" * 400, "limit"),
        ("after=" + "x" * 257, "after"),
        ("offset=3", "offset"),
        ("limit=1&limit=2", None),
        ("&".join(f"a{number}=1" for number in range(30)), None),
    ],
)
async def test_a_parameter_that_cannot_be_used(office: RunningDoor, query: str, param: str | None) -> None:
    async with office.client.get(f"/admin/v1/users?{query}") as response:
        assert (await error_of(response, 400))["param"] == param


@pytest.mark.parametrize("value", ["%00", "%FF%FE", "*", "a:b", "../x", "%2e%2e", "x" * 2000, "%F0%9F%92%A9", "{id}"])
async def test_an_id_that_is_nobodys_is_a_404(office: RunningDoor, value: str) -> None:
    for kind in ("users", "groups", "service-accounts", "keys"):
        async with office.client.get(URL(f"{office.url}/admin/v1/{kind}/{value}", encoded=True)) as response:
            await error_of(response, 404)


async def test_what_redis_cannot_answer_is_a_503(office: RunningDoor, redis_url: str) -> None:
    await answer(office, "GET", "/whoami")
    server = redis.Redis.from_url(redis_url)
    server.set("{sekisho}:records:group", "of another type")
    async with office.client.get("/admin/v1/groups") as response:
        await error_of(response, 503, "store_unavailable")


async def test_wrong_methods_name_the_right_ones(office: RunningDoor) -> None:
    for path, allowed in (
        ("/keys", "GET, POST"),
        ("/keys/x", "GET, PATCH, DELETE"),
        ("/keys/x/rotate", "POST"),
        ("/users/x/sessions", "GET, DELETE"),
    ):
        async with office.client.request("OPTIONS", f"/admin/v1{path}") as response:
            await error_of(response, 405)
            assert response.headers["allow"] == allowed
