"""Tokens of a certified provider at the door itself."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.identity.records import Key, User, user_id
from gateway.store.directory import Actor
from tests.external.provider import CLIENT_ID, RealProvider
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of

WHOAMI = "/admin/v1/whoami"


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def _minted(provider: RealProvider, **claims: Any) -> dict[str, str]:
    now = int(time.time())
    good = {"iss": provider.issuer, "sub": "hanako", "aud": CLIENT_ID, "iat": now, "exp": now + 60}
    return _bearer(await provider.mint(good | claims))


async def _user(door: RunningDoor, provider: RealProvider, login: str = "hanako") -> User:
    assert door.app.door is not None
    return await door.app.door.directory.find(User, user_id(provider.issuer, login))


@pytest.fixture
async def door(start_door: StartDoor, provider: RealProvider) -> RunningDoor:
    return await start_door(issuers=[provider.settings(group_roles={"ops": "admin"})], auth_failures_per_minute=1000)


async def test_person_asks_with_a_token_and_the_load_is_booked_on_them(
    door: RunningDoor, provider: RealProvider
) -> None:
    await provider.people(hanako={"name": "花子", "groups": ["sales"]})
    headers = _bearer(await provider.access_token("hanako"))
    async with door.post(ask(), headers=headers) as response:
        assert response.status == 200, await response.text()
    async with door.client.get(WHOAMI, headers=headers) as response:
        shown = await response.json()
    user = await _user(door, provider)
    assert (shown["subject"], shown["name"], shown["role"]) == (user.id, "花子", "user")
    assert shown["why"] == list(user.why)


async def test_group_opens_administration(door: RunningDoor, provider: RealProvider) -> None:
    async with door.client.get("/admin/v1/users", headers=await _minted(provider, groups=["sales"])) as response:
        await error_of(response, 403, "insufficient_permissions")
    async with door.client.get("/admin/v1/users", headers=await _minted(provider, groups=["ops"])) as response:
        assert response.status == 200


async def test_group_that_loses_its_role_takes_it_from_the_keys_of_its_members_too(
    door: RunningDoor, provider: RealProvider
) -> None:
    assert door.app.door is not None
    async with door.client.put("/admin/v1/groups/auditors", json={"role": "auditor"}) as response:
        assert response.status == 200, await response.text()
    async with door.client.get("/metrics", headers=await _minted(provider, groups=["auditors"])) as response:
        assert response.status == 200
    user = await _user(door, provider)
    draft = Key(id="", digest="", owner=f"user:{user.id}")
    key = (await door.app.door.key_ring.issue(Actor("test", "", "cli", ""), draft)).key
    async with door.client.get("/metrics", headers=_bearer(key)) as response:
        assert response.status == 200
    async with door.client.delete("/admin/v1/groups/auditors") as response:
        assert response.status == 200

    async def status() -> int:
        async with door.client.get("/metrics", headers=_bearer(key)) as response:
            return response.status

    for _ in range(100):
        if await status() == 403:
            break
        await asyncio.sleep(0.02)
    assert await status() == 403


async def test_token_stops_counting_once_its_person_is_disabled(door: RunningDoor, provider: RealProvider) -> None:
    headers = await _minted(provider)
    async with door.post(ask(), headers=headers) as response:
        assert response.status == 200
    user = await _user(door, provider)
    async with door.client.patch(f"/admin/v1/users/{user.id}", json={"disabled": True}) as response:
        assert response.status == 200, await response.text()
    async with door.post(ask(), headers=headers) as response:
        await error_of(response, 403, "account_disabled")


@pytest.mark.parametrize(
    ("claims", "status", "code"),
    [
        ({"exp": 1}, 401, "token_expired"),
        ({"nbf": 4_000_000_000}, 401, "token_not_yet_valid"),
        ({"aud": "another"}, 401, "token_wrong_audience"),
        ({"iss": "https://evil.example.com"}, 401, "token_unknown_issuer"),
        ({"iss": 7}, 401, "token_unknown_issuer"),
        ({"groups": [["ops"]]}, 401, "invalid_token"),
        ({"groups": {"ops": True}}, 401, "invalid_token"),
        ({"groups": ["ops\u0000"]}, 401, "invalid_token"),
        ({"groups": [f"{number:x}" for number in range(1500)]}, 403, "too_many_groups"),
        ({"groups": [f"group-{number}" for number in range(2000)]}, 401, "token_too_long"),
        ({"groups": [f"group-{number}" for number in range(10_000)]}, 431, "headers_too_large"),
        ({"sub": {"a": 1}}, 401, "invalid_token"),
        ({"hasgroups": True}, 403, "groups_overage"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_bad_token_gets_an_error_that_says_what_is_wrong(
    door: RunningDoor, provider: RealProvider, claims: dict[str, Any], status: int, code: str
) -> None:
    async with door.post(ask(), headers=await _minted(provider, **claims)) as response:
        error = await error_of(response, status, code)
    assert "secret" not in error["message"]
    assert provider.issuer not in error["message"]


async def test_hostile_name_does_not_keep_its_person_out(door: RunningDoor, provider: RealProvider) -> None:
    async with door.post(ask(), headers=await _minted(provider, name={"x": 1}, email=["a"])) as response:
        assert response.status == 200
    assert ((await _user(door, provider)).name, (await _user(door, provider)).email) == ("", "")


async def test_overage_is_shown_to_admins_who_can_set_the_groups(door: RunningDoor, provider: RealProvider) -> None:
    headers = await _minted(provider, _claim_names={"groups": "src1"})
    async with door.post(ask(), headers=headers) as response:
        await error_of(response, 403, "groups_overage")
    path = f"/admin/v1/users/{(await _user(door, provider)).id}"
    async with door.client.get(path) as response:
        assert (await response.json())["problem"] == "groups_overage"
    async with door.client.patch(path, json={"set_groups": ["sales"]}) as response:
        assert response.status == 200, await response.text()
    async with door.post(ask(), headers=headers) as response:
        assert response.status == 200, await response.text()


async def test_opaque_access_token_is_a_401_and_no_500(door: RunningDoor) -> None:
    for token in ("opaque-token", "a.b.c", "e30.e30.e30", "....", "ya29.a0AfB_by"):
        async with door.post(ask(), headers=_bearer(token)) as response:
            await error_of(response, 401)


async def test_without_providers_a_token_is_nobody_s(start_door: StartDoor, provider: RealProvider) -> None:
    alone = await start_door()
    async with alone.post(ask(), headers=await _minted(provider)) as response:
        await error_of(response, 401, "invalid_api_key")


async def test_provider_that_is_down_at_start_costs_its_people_a_503_and_keys_nothing(
    start_door: StartDoor, provider: RealProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.identity.oidc.key_set._RETRY", 0.05)
    headers = await _minted(provider)
    await provider.stop()
    door = await start_door(issuers=[provider.settings()])
    async with door.post(ask(), headers=headers) as response:
        await error_of(response, 503, "identity_provider_unavailable")
        assert int(response.headers["retry-after"]) > 0
    async with door.post(ask()) as response:
        assert response.status == 200
    await provider.start()

    async def status() -> int:
        async with door.post(ask(), headers=headers) as response:
            return response.status

    for _ in range(200):
        if await status() == 200:
            break
        await asyncio.sleep(0.02)
    assert await status() == 200
