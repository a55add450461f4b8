"""The ledger: what a request used is booked once, on the right day and key."""

from __future__ import annotations

import asyncio

import pytest

from backends.fake import DONE, FakeBackend, Script, chat_chunk, chat_script, event, usage_chunk
from gateway.store.redis import Store
from gateway.usage import ledger
from gateway.usage.ledger import Used, Whose
from tests.gateway.conftest import RunningDoor, StartDoor, ask, eventually
from tests.gateway.test_disconnect import usage

DAY_MS = 1_790_000_000_000  # 2026-09-21


async def test_a_request_is_booked_once_however_often_it_is_sent(store: Store) -> None:
    for _ in range(3):
        await store.run(ledger.settle("r1", DAY_MS, Used(10, 5, 2), Whose("key")))
    await store.run(ledger.settle("r2", DAY_MS, Used(1, 1), Whose("key")))
    assert await ledger.read(store, "key", "20260921") == {
        "requests": 2,
        "prompt_tokens": 11,
        "completion_tokens": 6,
        "cached_tokens": 2,
    }


@pytest.mark.parametrize("stream", [True, False])
async def test_the_engines_count_is_booked_whether_or_not_the_client_asked_for_it(
    start_door: StartDoor, stream: bool
) -> None:
    door = await start_door()
    for _ in range(3):
        async with door.post(ask(stream=stream)) as response:
            await response.read()
    await eventually(lambda: usage(door) == {"requests": 3, "prompt_tokens": 15, "completion_tokens": 12})


async def test_choices_that_an_engine_forgot_to_count_are_counted(start_door: StartDoor) -> None:
    words = [event(chat_chunk({"content": "w"})) for _ in range(9)]
    steps = (*words, event(chat_chunk({}, finish="stop")), event(usage_chunk(5, 4)), DONE)
    door = await start_door(FakeBackend(lambda body: Script(steps)))
    async with door.post(ask(n=2)) as response:
        await response.read()
    await eventually(lambda: usage(door).get("completion_tokens") == 9)


async def test_a_refused_request_costs_no_tokens(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((b'{"error":"no"}',), status=400)))
    async with door.post(ask()) as response:
        assert response.status == 400
    await eventually(lambda: usage(door) == {"requests": 1, "failed": 1})


async def metrics(door: RunningDoor, until: str) -> str:
    """What /metrics says. A request is counted when its handler ends, which may be after the client has its answer."""
    for _ in range(1000):
        async with door.client.get("/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
        if until in text:
            return text
        await asyncio.sleep(0.01)
    raise AssertionError(f"{until} did not come: {text}")


async def test_metrics_count_requests_and_tokens_and_name_no_one(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a", "b"))))
    async with door.post(ask()) as response:
        await response.read()
    async with door.post(ask(frobnicate=1)) as response:
        await response.read()
    async with door.client.get("/nowhere/secret") as response:
        await response.read()
    await metrics(door, until='status="404"')
    text = await metrics(door, until='completions",status="200"')
    assert 'sekisho_requests_total{class="api",model="fake",route="/v1/chat/completions",status="200"} 1.0' in text
    assert 'sekisho_requests_total{class="",model="",route="/v1/chat/completions",status="400"} 1.0' in text
    assert 'sekisho_requests_total{class="",model="",route="unknown",status="404"} 1.0' in text
    assert 'sekisho_tokens_total{kind="completion",model="fake"} 2.0' in text
    assert 'sekisho_ttft_seconds_count{class="api",model="fake"} 1.0' in text
    assert "secret" not in text
    assert "bootstrap" not in text
