"""More requests than the engine takes: through the door they wait in order, up to a bound, for a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from backends.fake import FakeBackend, Script, chat_chunk, chat_script, event
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import RawClient, leases

WORD = event(chat_chunk({"content": "word"}))


def contents(door: RunningDoor) -> list[str]:
    return [json.loads(asked.body)["messages"][0]["content"] for asked in door.backend.asked]


async def answer(door: RunningDoor, content: str) -> int:
    async with door.post(ask(content)) as response:
        await response.read()
        return int(response.status)


async def test_requests_past_the_capacity_wait_in_order_and_are_all_answered(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a", "b"), gap=0.01)), max_concurrency=2)
    tasks = []
    for number in range(12):
        tasks.append(asyncio.create_task(answer(door, str(number))))
        await asyncio.sleep(0.004)
    assert await asyncio.gather(*tasks) == [200] * 12
    # Two run side by side, so neighbours may swap, but no one is overtaken by one who came two later.
    order = [int(content) for content in contents(door)]
    assert all(abs(place - number) <= 2 for place, number in enumerate(order)), order


async def test_the_engine_never_has_more_than_its_capacity(start_door: StartDoor) -> None:
    most = 0

    def script(body: bytes) -> Script:
        nonlocal most
        most = max(most, sum(1 for asked in backend.asked if not asked.closed.is_set()))
        return chat_script(("a",) * 3, gap=0.005)

    backend = FakeBackend(script)
    door = await start_door(backend, max_concurrency=3)
    assert await asyncio.gather(*(answer(door, "x") for _ in range(30))) == [200] * 30
    assert most <= 3
    await eventually(lambda: leases(door) == 0)


async def test_past_the_bound_of_the_line_a_429_says_when_to_come_back(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, 30.0))), max_concurrency=1, max_queue=1)
    clients = [await RawClient.connect(door) for _ in range(2)]
    for client, seats in zip(clients, (1, 3), strict=True):  # a waiter stands in the line and in the heartbeats
        client.send(json.dumps(ask(stream=True)).encode())
        await eventually(lambda seats=seats: leases(door) == seats)
    async with door.post(ask()) as response:
        await error_of(response, 429, "queue_full")
        assert int(response.headers["retry-after"]) > 0
    for client in clients:
        client.leave()
    await eventually(lambda: leases(door) == 0)


async def test_waiting_longer_than_the_setting_is_a_503_that_says_when_to_come_back(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((WORD, 30.0))), max_concurrency=1, queue_timeout=0.1)
    holder = await RawClient.connect(door)
    holder.send(json.dumps(ask(stream=True)).encode())
    await eventually(lambda: leases(door) == 1)
    for stream in (True, False):
        async with door.post(ask(stream=stream)) as response:
            await error_of(response, 503, "queue_timeout")
            assert int(response.headers["retry-after"]) > 0
    assert len(door.backend.asked) == 1
    holder.leave()
    await eventually(lambda: leases(door) == 0)


async def test_a_stream_that_waits_shows_signs_of_life(start_door: StartDoor) -> None:
    door = await start_door(
        FakeBackend(lambda body: chat_script(("a",) * 10, gap=0.04)), max_concurrency=1, keepalive_seconds=0.1
    )
    first = asyncio.create_task(answer(door, "first"))
    await eventually(lambda: door.backend.asked)
    async with door.post(ask("second", stream=True)) as response:
        text = await response.text()
    assert text.startswith(": keep-alive\n\n")
    assert text.endswith("data: [DONE]\n\n")
    await first


async def test_a_client_that_stops_reading_does_not_hold_its_turn(start_door: StartDoor) -> None:
    flood: list[Any] = [event(chat_chunk({"content": "x" * 60_000}))] * 400
    door = await start_door(FakeBackend(lambda body: Script(flood)), client_stall_timeout=0.2)
    client = await RawClient.connect(door)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(json.dumps(ask(stream=True)).encode())
    await eventually(lambda: door.backend.asked)
    await eventually(lambda: door.backend.asked[0].aborted, seconds=3)
    await eventually(lambda: leases(door) == 0)
    client.leave()
