"""Quotas and turns as clients meet them: headers, refusals, places in the line; what was used is what is counted."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
import redis

from backends.base import Account
from backends.fake import FakeBackend, Script, chat_chunk, chat_script, event
from gateway.quotas.policy import Policy
from gateway.scope import RequestScope
from gateway.store import keys
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import RawClient, leases


async def allow(door: RunningDoor, **limits: Any) -> None:
    """A policy for everyone."""
    assert door.app.door is not None
    await door.app.door.directory.create(None, msgspec.convert({"id": "all", **limits}, Policy))
    await asyncio.sleep(door.settings.key_cache_seconds)


async def left(door: RunningDoor) -> dict[str, int]:
    assert door.app.door is not None
    headers = {b"authorization": door.client.headers["authorization"].encode()}
    request = RequestScope("r", "GET", "/", headers, 1, 1, None, None, 0.0)  # type: ignore[arg-type]
    admin = await door.app.door.pipeline.authenticate(request)
    return {state.limit.name: state.left for state in await door.app.door.quotas.state(admin, "fake")}


def reservations(door: RunningDoor) -> int:
    with redis.Redis.from_url(door.settings.redis_url) as client:
        return int(client.zcard(keys.RESERVATIONS))


@pytest.mark.parametrize("stream", [True, False])
async def test_without_a_policy_nothing_is_said_of_limits_and_nothing_was_waited_for(
    door: RunningDoor, stream: bool
) -> None:
    async with door.post(ask(stream=stream)) as response:
        await response.read()
        assert response.headers["x-queue-wait-ms"] == "0"
        assert not [name for name in response.headers if name.startswith("x-ratelimit")]


async def test_every_answer_says_what_is_left_and_the_one_too_many_when_to_come_back(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, requests_per_minute=2, tokens_per_minute=5000)
    for remaining in ("1", "0"):
        async with door.post(ask()) as response:
            assert response.status == 200
            assert response.headers["x-ratelimit-limit-requests"] == "2"
            assert response.headers["x-ratelimit-remaining-requests"] == remaining
            assert response.headers["x-ratelimit-limit-tokens"] == "5000"
            assert re.fullmatch(r"(\d+m)?[\d.]+m?s", response.headers["x-ratelimit-reset-tokens"])
    async with door.post(ask()) as response:
        error = await error_of(response, 429, "rate_limit_exceeded")
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert error["type"] == "requests"
    assert "'all'" in error["message"]
    assert len(door.backend.asked) == 2
    assert leases(door) == 0


async def test_what_was_used_is_counted_to_the_token_and_the_rest_is_given_back(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 7, prompt_tokens=11)), key_cache_seconds=0)
    await allow(door, tokens_per_day=100_000, requests_per_day=10, concurrent_requests=3)
    for _ in range(3):
        async with door.post(ask(max_tokens=900)) as response:
            await response.read()
    await eventually(lambda: leases(door) == 0)
    assert await left(door) == {
        "tokens_per_day": 100_000 - 3 * 18,
        "requests_per_day": 7,
        "concurrent_requests": 3,
    }


async def test_what_an_engine_refuses_costs_nothing(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((b'{"error":"no"}',), status=400)), key_cache_seconds=0)
    await allow(door, tokens_per_day=1000)
    async with door.post(ask()) as response:
        await error_of(response, 400)
    assert await left(door) == {"tokens_per_day": 1000}


async def test_a_client_that_leaves_pays_for_what_was_said_to_it(start_door: StartDoor) -> None:
    words = [event(chat_chunk({"content": text})) for text in ("a", "b", "c", "last")]
    door = await start_door(FakeBackend(lambda body: Script((*words, 30.0))), key_cache_seconds=0)
    await allow(door, output_tokens_per_day=1000)
    client = await RawClient.connect(door)
    client.send(json.dumps(ask(stream=True)).encode())
    await client.reader.readuntil(b"last")
    client.leave()
    await eventually(lambda: leases(door) == 0)
    assert await left(door) == {"output_tokens_per_day": 996}


@pytest.mark.parametrize(("known", "used"), [(True, 20 + 9), (False, 0)])
async def test_who_leaves_before_the_usage_is_told_pays_what_the_engine_counted(
    start_door: StartDoor, known: bool, used: int
) -> None:
    """An engine that counts and has never heard of a request has done nothing for it."""
    backend = FakeBackend(lambda body: Script((30.0,)))
    backend.keeps_accounts = True
    door = await start_door(backend, key_cache_seconds=0)
    await allow(door, tokens_per_day=1000)
    client = await RawClient.connect(door)
    client.send(json.dumps(ask(stream=True)).encode())
    await eventually(lambda: backend.asked)
    request_id = backend.asked[0].headers["x-request-id"]
    if known:
        backend.accounts[request_id] = Account(20, 5, 0, ended=False)
    client.leave()
    await eventually(lambda: leases(door) == 0)
    if known:
        backend.accounts[request_id] = Account(20, 9, 0, ended=True)
    await eventually(lambda: not reservations(door), 3)
    assert await left(door) == {"tokens_per_day": 1000 - used}


async def test_a_policy_cuts_the_answer_of_a_client_that_gave_no_limit(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, max_output_tokens=40)
    async with door.post(ask(n=2)) as response:
        assert response.status == 200
    assert json.loads(door.backend.asked[0].body)["max_completion_tokens"] == 20
    async with door.post(ask(max_tokens=41)) as response:
        await error_of(response, 400, "max_output_exceeded")


async def test_answers_that_are_computed_and_not_shown_are_reserved_too(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, tokens_per_day=300)
    asked = {"model": "fake", "prompt": "x", "max_tokens": 100, "best_of": 4}
    async with door.post(asked, path="/v1/completions") as response:
        assert response.headers["x-ratelimit-remaining-tokens"] == "0"


async def test_a_model_that_no_policy_allows_does_not_exist(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, allowed_models=("other",))
    async with door.post(ask()) as response:
        await error_of(response, 404, "model_not_found")


async def test_a_policy_in_shadow_refuses_nobody(start_door: StartDoor, caplog: pytest.LogCaptureFixture) -> None:
    door = await start_door(key_cache_seconds=0)
    caplog.set_level("INFO")
    await allow(door, requests_per_minute=1, shadow=True)
    for _ in range(2):
        async with door.post(ask()) as response:
            assert response.status == 200
    assert "would have been refused" in caplog.text


async def test_who_waits_and_asks_for_it_is_told_the_place_at_once_and_as_it_changes(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 5, gap=0.03)), max_concurrency=1)
    first, second = asyncio.create_task(_text(door)), asyncio.create_task(_text(door))
    await eventually(lambda: leases(door) == 3)
    told = await _text(door, {"x-queue-updates": "1"})
    await asyncio.gather(first, second)
    places = [int(place) for place in re.findall(r"^: queue position=(\d+)", told, re.M)]
    assert places[0] == 2
    assert places[-1] == 1
    assert told.rstrip().endswith("data: [DONE]")


async def test_who_did_not_ask_for_it_is_told_nothing(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 3, gap=0.02)), max_concurrency=1)
    texts = await asyncio.gather(*(_text(door) for _ in range(3)))
    assert not any("queue" in text for text in texts)


async def test_what_is_streamed_is_known_before_its_end_should_this_gateway_die(start_door: StartDoor) -> None:
    words = [event(chat_chunk({"content": "w"})) for _ in range(6)]
    door = await start_door(FakeBackend(lambda body: Script((*words, 30.0))), key_cache_seconds=0, lease_seconds=1)
    client = await RawClient.connect(door)
    client.send(json.dumps(ask(stream=True)).encode())
    with redis.Redis.from_url(door.settings.redis_url) as server:
        await eventually(lambda: server.zcard(keys.RESERVATIONS) == 1)
        (name,) = server.zrange(keys.RESERVATIONS, 0, -1)
        await eventually(lambda: b" 6" in (server.hget(keys.reservation(name.decode()), "used") or b""))
    client.leave()
    await eventually(lambda: leases(door) == 0)


async def _text(door: RunningDoor, headers: dict[str, str] | None = None) -> str:
    async with door.post(ask(stream=True), headers=headers) as response:
        assert response.status == 200
        return str(await response.text())
