"""API keys: form, storage, comparison, roles, revocation."""

from __future__ import annotations

import asyncio
import re
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import redis

from backends.fake import FakeBackend
from gateway.app import App
from gateway.errors import BadRequest
from gateway.identity.api_keys import KeyRing, NewKey
from gateway.identity.records import Key, ServiceAccount
from gateway.identity.server_key import WrongServerKey, load_server_key
from gateway.scope import Role
from gateway.settings import KEY_PATTERN, load
from gateway.store.directory import Actor, Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, ask, error_of

ACTOR = Actor("tests", "tests", "cli", "here")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
async def directory(redis_url: str) -> AsyncIterator[Directory]:
    store = Store(redis_url, REDIS_TIMEOUT)
    yield Directory(Records(store))
    await store.aclose()


@pytest.fixture
async def ring(directory: Directory, tmp_path: Path) -> KeyRing:
    return KeyRing(directory, load_server_key(tmp_path))


async def made(door: RunningDoor, role: Role = "service", **limits: Any) -> NewKey:
    """A key of a service account of its own."""
    assert door.app.door is not None
    directory = door.app.door.directory
    if await directory.get(ServiceAccount, f"of-{role}") is None:
        await directory.create(ACTOR, ServiceAccount(id=f"of-{role}", name="someone", role=role))
    return await door.app.door.key_ring.issue(ACTOR, draft(owner=f"service_account:of-{role}", **limits))


def draft(**fields: Any) -> Key:
    return Key(**({"id": "", "digest": "", "owner": "service_account:ci", "name": "ci"} | fields))


async def test_a_new_key_has_the_stated_form_and_is_stored_only_as_a_hash(ring: KeyRing, redis_url: str) -> None:
    created = await ring.issue(ACTOR, draft())
    assert re.match(KEY_PATTERN, created.key)
    secret = created.key.rpartition(f"{created.record.id}-")[2]
    server = redis.Redis.from_url(redis_url)
    stored = b" ".join(server.get(key) for key in server.keys("*:record:key:*"))
    trail = str(server.xrange("{sekisho}:audit"))
    assert secret.encode() not in stored
    assert created.record.digest.encode() in stored
    assert created.record.id in trail
    assert secret not in trail
    assert created.record.digest not in trail


async def test_the_hash_depends_on_the_servers_key(ring: KeyRing, directory: Directory) -> None:
    assert ring.digest(ADMIN_KEY) != KeyRing(directory, b"other").digest(ADMIN_KEY)


@pytest.mark.parametrize(
    "key", ["", "sk-skh-", "sk-other-a-0123456789abcdef", "sk-skh-a-short", "sk-skh-A B-0123456789abcdef"]
)
async def test_a_key_of_another_form_cannot_be_put(ring: KeyRing, key: str) -> None:
    with pytest.raises(BadRequest):
        await ring.put(ACTOR, key, draft())


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
    assert error["code"] in ("invalid_api_key", "invalid_authorization")
    assert "0123456789" not in error["message"]
    assert door.backend.asked == []


@pytest.mark.parametrize("role", ["user", "service"])
async def test_a_users_key_does_not_open_what_is_the_admins(door: RunningDoor, role: Role) -> None:
    created = await made(door, role)
    async with door.client.get("/metrics", headers=bearer(created.key)) as response:
        await error_of(response, 403)


async def test_an_admins_key_that_is_limited_to_chat_is_no_admins_key(door: RunningDoor) -> None:
    created = await made(door, "admin", endpoints=("chat",))
    async with door.post(ask(), headers=bearer(created.key)) as response:
        assert response.status == 200
    async with door.client.get("/metrics", headers=bearer(created.key)) as response:
        await error_of(response, 403)


async def test_a_key_opens_only_the_models_that_it_names(door: RunningDoor) -> None:
    good, bad = await made(door, models=("fa*",)), await made(door, models=("other",))
    async with door.post(ask(), headers=bearer(good.key)) as response:
        assert response.status == 200
    async with door.post(ask(), headers=bearer(bad.key)) as response:
        await error_of(response, 404, "model_not_found")
    async with door.client.get("/v1/models", headers=bearer(bad.key)) as response:
        assert (await response.json())["data"] == []


async def test_an_expired_key_says_so(door: RunningDoor) -> None:
    created = await made(door, expires=int(time.time()) - 1)
    async with door.post(ask(), headers=bearer(created.key)) as response:
        await error_of(response, 401, "key_expired")


@pytest.mark.parametrize(("networks", "status"), [(("127.0.0.0/8",), 200), (("10.0.0.0/8", "::1"), 403)])
async def test_a_key_may_be_bound_to_addresses(door: RunningDoor, networks: tuple[str, ...], status: int) -> None:
    created = await made(door, allowed_ips=networks)
    async with door.post(ask(), headers=bearer(created.key)) as response:
        assert response.status == status


async def test_both_secrets_open_until_the_overlap_of_a_rotation_ends(door: RunningDoor) -> None:
    assert door.app.door is not None
    first = await made(door)
    second = await door.app.door.key_ring.rotate(ACTOR, first.record.id, overlap_seconds=60)
    await asyncio.sleep(door.settings.key_cache_seconds)
    for key in (first.key, second.key):
        async with door.post(ask(), headers=bearer(key)) as response:
            assert response.status == 200
    third = await door.app.door.key_ring.rotate(ACTOR, first.record.id, overlap_seconds=0)
    await asyncio.sleep(door.settings.key_cache_seconds)
    for key, status in ((first.key, 401), (second.key, 401), (third.key, 200)):
        async with door.post(ask(), headers=bearer(key)) as response:
            assert response.status == status


async def test_a_deleted_key_and_a_disabled_owner_are_believed_no_longer_than_the_setting(door: RunningDoor) -> None:
    assert door.app.door is not None
    directory = door.app.door.directory
    first, second = await made(door), await made(door)
    for key in (first.key, second.key):
        async with door.post(ask(), headers=bearer(key)) as response:
            assert response.status == 200
    await directory.delete(ACTOR, Key, first.record.id)
    await asyncio.sleep(door.settings.key_cache_seconds)
    async with door.post(ask(), headers=bearer(first.key)) as response:
        await error_of(response, 401, "invalid_api_key")
    await directory.change(ACTOR, ServiceAccount, "of-service", lambda it: msgspec.structs.replace(it, disabled=True))
    await asyncio.sleep(door.settings.key_cache_seconds)
    async with door.post(ask(), headers=bearer(second.key)) as response:
        await error_of(response, 403, "account_disabled")


async def test_two_authorization_headers_are_refused(door: RunningDoor) -> None:
    headers = [("authorization", f"Bearer {ADMIN_KEY}"), ("authorization", "Bearer sk-other")]
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{door.url}/v1/chat/completions", json=ask(), headers=headers) as response,
    ):
        await error_of(response, 401, "invalid_authorization")


def test_the_server_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = load_server_key(tmp_path / "new")
    assert load_server_key(tmp_path / "new") == first
    assert stat.S_IMODE((tmp_path / "new" / "server.key").stat().st_mode) == 0o600


async def test_a_door_with_another_server_key_than_the_redis_knows_does_not_start(
    door: RunningDoor, tmp_path: Path
) -> None:
    stranger = App(load(redis_url=door.settings.redis_url, data_dir=tmp_path / "another"), {"native": FakeBackend()})
    with pytest.raises(WrongServerKey, match=r"server\.key"):
        await stranger.open()
