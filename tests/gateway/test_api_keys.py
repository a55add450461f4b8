"""API keys: form, storage, comparison, roles, revocation."""

from __future__ import annotations

import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from gateway.errors import BadRequest
from gateway.identity.api_keys import ApiKeys, KeyRing, load_server_key
from gateway.settings import KEY_PATTERN
from gateway.store.redis import Store
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, ask, error_of


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
async def ring(redis_url: str, tmp_path: Path) -> AsyncIterator[KeyRing]:
    store = Store(redis_url, 1.0)
    yield KeyRing(store, load_server_key(tmp_path))
    await store.aclose()


async def test_a_new_key_has_the_stated_form_and_is_stored_only_as_a_hash(ring: KeyRing, redis_url: str) -> None:
    created = await ring.create("ci")
    assert re.match(KEY_PATTERN, created.key)
    secret = created.key.rpartition(f"{created.record.id}-")[2]
    server = redis.Redis.from_url(redis_url)
    stored = b" ".join(
        b" ".join(server.hgetall(key)) + b" ".join(server.hgetall(key).values()) for key in server.keys("*:key:*")
    )
    assert secret.encode() not in stored
    assert created.record.digest.encode() in stored


async def test_the_hash_depends_on_the_servers_key(ring: KeyRing) -> None:
    assert ring.digest(ADMIN_KEY) != KeyRing(Store("redis://127.0.0.1:1", 1.0), b"other").digest(ADMIN_KEY)


@pytest.mark.parametrize(
    "key", ["", "sk-skh-", "sk-other-a-0123456789abcdef", "sk-skh-a-short", "sk-skh-A B-0123456789abcdef"]
)
async def test_a_key_of_another_form_cannot_be_put(ring: KeyRing, key: str) -> None:
    with pytest.raises(BadRequest):
        await ring.put(key, "name", "user")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YWRtaW46YWRtaW4=",
        "Bearer sk-openai",
        "Bearer sk-skh-admin-0123456789abcdeX",
        "Bearer sk-skh-admin-0123456789abcde",
        "Bearer sk-skh-admin-0123456789abcdef0",
        "Bearer sk-skh-other-0123456789abcdef",
        "Bearer sk-skh-admin-" + "a" * 10_000,
        "Bearer sk-skh-*-0123456789abcdef",
        "sk-skh-admin-0123456789abcdef",
    ],
)
async def test_a_missing_or_wrong_key_is_a_401(door: RunningDoor, header: str) -> None:
    async with door.post(ask(), headers={"authorization": header}) as response:
        error = await error_of(response, 401)
    assert error["type"] == "invalid_request_error"
    assert error["code"] in ("invalid_api_key", "missing_api_key")
    assert "0123456789" not in error["message"]
    assert door.backend.asked == []


async def test_an_admin_makes_lists_and_revokes_keys(door: RunningDoor) -> None:
    async with door.client.post("/admin/keys", json={"name": "rag"}) as response:
        assert response.status == 201
        created = await response.json()
    async with door.post(ask(), headers=bearer(created["key"])) as response:
        assert response.status == 200
    async with door.client.get("/admin/keys") as response:
        listed = (await response.json())["data"]
    assert {key["name"] for key in listed} == {"bootstrap", "rag"}
    assert created["key"] not in str(listed)
    async with door.client.delete(f"/admin/keys/{created['id']}") as response:
        assert response.status == 200
    async with door.post(ask(), headers=bearer(created["key"])) as response:
        await error_of(response, 401, "invalid_api_key")


@pytest.mark.parametrize("path", ["/metrics", "/admin/keys"])
async def test_a_users_key_does_not_open_what_is_the_admins(door: RunningDoor, path: str) -> None:
    assert door.app.door is not None
    created = await door.app.door.key_ring.create("someone", "user")
    async with door.client.get(path, headers=bearer(created.key)) as response:
        await error_of(response, 403)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"name": 1}', b'{"name": "a", "role": "root"}', b'{"name": ""}'])
async def test_a_bad_request_for_a_key_is_a_400(door: RunningDoor, body: bytes) -> None:
    async with door.client.post("/admin/keys", data=body) as response:
        await error_of(response, 400)


async def test_revoking_an_unknown_key_says_so(door: RunningDoor) -> None:
    async with door.client.delete("/admin/keys/nobody") as response:
        await error_of(response, 400, "key_not_found")


async def test_a_key_revoked_elsewhere_is_believed_no_longer_than_the_setting(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    assert door.app.door is not None
    ring = door.app.door.key_ring
    created = await ring.create("someone")
    identifier = ApiKeys(ring, cache_seconds=0)
    headers = {b"authorization": f"bearer {created.key}".encode()}
    assert await identifier.identify(headers) is not None
    await ring.revoke(created.record.id)
    async with door.post(ask(), headers=bearer(created.key)) as response:
        await error_of(response, 401)


def test_the_server_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = load_server_key(tmp_path / "new")
    assert load_server_key(tmp_path / "new") == first
    assert stat.S_IMODE((tmp_path / "new" / "server.key").stat().st_mode) == 0o600
