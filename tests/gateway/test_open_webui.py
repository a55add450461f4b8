"""People whom an Open WebUI forwards: its signed token, from a key that may, and nothing else."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of
from tests.gateway.test_api_keys import bearer, made
from tests.gateway.test_behalf import SERVICE, booked

SECRET = "a-secret-that-only-open-webui-and-the-door-know"
SUBJECT = "3f0c9a52-8d0c-4d2e-9c1e-0b4c4a1f0a11"


def signed(secret: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    """A token as Open WebUI makes it, with these claims changed; None leaves one out."""
    now = int(time.time())
    whole = {"sub": SUBJECT, "email": "hana@example.com", "name": "花", "role": "admin", "iss": "open-webui"}
    whole |= {"iat": now, "exp": now + 300} | claims
    kept = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode({"alg": algorithm}, kept, OctKey.import_key(secret), algorithms=[algorithm])


def unsigned(**header: Any) -> str:
    parts = [header, {"sub": SUBJECT, "iss": "open-webui", "exp": int(time.time()) + 300}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


@pytest.fixture
async def page(start_door: StartDoor) -> tuple[RunningDoor, dict[str, str]]:
    """A door, and the headers of an Open WebUI that may forward its users to it."""
    door = await start_door(open_webui_secret=SECRET)
    return door, bearer((await made(door, forwards_users=True)).key)


async def test_the_forwarded_person_is_booked_by_the_pages_own_id(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = page
    async with door.post(ask(user="ignored"), headers=headers | {"x-openwebui-user-jwt": signed()}) as response:
        assert response.status == 200
    assert await booked(door) == {f"{SERVICE}/{SUBJECT}"}


async def test_a_clock_that_is_some_seconds_off_is_forgiven(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = page
    for skew in (-30, 30):
        token = signed(iat=int(time.time()) + skew, exp=int(time.time()) + skew + 5)
        async with door.client.get("/v1/models", headers=headers | {"x-openwebui-user-jwt": token}) as response:
            assert response.status == 200


async def test_without_a_token_the_page_itself_is_booked_whatever_the_plain_headers_say(
    page: tuple[RunningDoor, dict[str, str]],
) -> None:
    door, headers = page
    plain = {"x-openwebui-user-id": "root", "x-openwebui-user-email": "boss@example.com"}
    async with door.post(ask(), headers=headers | plain) as response:
        assert response.status == 200
    assert await booked(door) == {SERVICE}


BAD = {
    "another secret": signed("another-secret-of-some-length-or-other"),
    "another algorithm": signed(algorithm="HS512"),
    "no algorithm": unsigned(alg="none"),
    "no signature": unsigned(alg="HS256"),
    "an encrypted one": unsigned(alg="dir", enc="A128GCM"),
    "a critical extension": unsigned(alg="HS256", crit=["x"], x=1),
    "another issuer": signed(iss="https://id.example.com"),
    "a list of issuers": signed(iss=["open-webui"]),
    "no issuer": signed(iss=None),
    "expired": signed(exp=int(time.time()) - 90),
    "no expiry": signed(exp=None),
    "an expiry in words": signed(exp="tomorrow"),
    "issued tomorrow": signed(iat=int(time.time()) + 86_400, exp=int(time.time()) + 90_000),
    "no subject": signed(sub=None),
    "an empty subject": signed(sub=""),
    "a list of subjects": signed(sub=["a"]),
    "a subject with a line feed": signed(sub="a\nb"),
    "an endless subject": signed(sub="x" * 257),
    "no token": "hello",
    "empty": "",
    "three dots": "...",
    "nested": base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.x",
    "too long": "x" * 9000,
}


@pytest.mark.parametrize("token", BAD.values(), ids=BAD)
async def test_a_bad_token_is_a_401_that_says_so(page: tuple[RunningDoor, dict[str, str]], token: str) -> None:
    door, headers = page
    async with door.post(ask(), headers=headers | {"x-openwebui-user-jwt": token}) as response:
        error = await error_of(response, 401, "invalid_forwarded_user")
    assert "X-OpenWebUI-User-Jwt" in error["message"]
    assert door.backend.asked == []


async def test_an_expired_token_says_that_it_has_expired(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, headers = page
    async with door.post(ask(), headers=headers | {"x-openwebui-user-jwt": BAD["expired"]}) as response:
        assert "expired" in (await error_of(response, 401))["message"]


async def test_their_role_gives_nothing_here(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, _ = page
    headers = bearer((await made(door, "admin", forwards_users=True)).key)
    for more, status in (({}, 200), ({"x-openwebui-user-jwt": signed()}, 403)):
        async with door.client.get("/metrics", headers=headers | more) as response:
            assert response.status == status


async def test_a_key_that_may_not_forward_anybody_is_booked_itself(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, _ = page
    headers = bearer((await made(door)).key) | {"x-openwebui-user-jwt": signed()}
    async with door.post(ask(), headers=headers) as response:
        assert response.status == 200
    assert await booked(door) == {SERVICE}


async def test_without_the_setting_a_token_cannot_be_believed(door: RunningDoor) -> None:
    headers = bearer((await made(door, forwards_users=True)).key) | {"x-openwebui-user-jwt": signed()}
    async with door.post(ask(), headers=headers) as response:
        assert "open_webui_secret" in (await error_of(response, 401, "invalid_forwarded_user"))["message"]


async def test_two_ways_to_name_the_user_are_one_too_many(page: tuple[RunningDoor, dict[str, str]]) -> None:
    door, _ = page
    headers = bearer((await made(door, forwards_users=True, on_behalf_of=True)).key)
    both = {"x-openwebui-user-jwt": signed(), "x-on-behalf-of": "hana"}
    async with door.post(ask(), headers=headers | both) as response:
        await error_of(response, 400)
