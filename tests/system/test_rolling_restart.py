"""Gateways are replaced one after the other under load, as every update does: no request fails, no stream is cut."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import openai
import pytest

from tests.gateway.conftest import CHAT
from tests.system.counting_engine import MODEL
from tests.system.fleet import Fleet, the_books_are_right

pytestmark = pytest.mark.slow
CLIENTS = 9
TOKENS = 40
GAP = 0.02
LOOK_SECONDS = 0.1
Start = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(gateways: int, **settings: str) -> Fleet:
            return await stack.enter_async_context(Fleet(tmp_path, gateways, held=False, **settings))

        yield start


class Balancer:
    """Sends nobody where /readyz is not 200, as any balancer does that looks so often."""

    def __init__(self, fleet: Fleet, gateways: int) -> None:
        self._fleet = fleet
        self.ready = set(range(gateways))
        self._turn = itertools.count()

    async def keep_looking(self) -> None:
        while True:
            for number in range(len(self._fleet.ports)):
                await self._look(number)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, number: int) -> None:
        status = 0
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self._fleet.client.get(f"{self._fleet.url(number)}/readyz") as response:
                status = response.status
        (self.ready.add if status == 200 else self.ready.discard)(number)

    def next(self) -> int:
        ready = sorted(self.ready)
        return ready[next(self._turn) % len(ready)]


async def streams(fleet: Fleet, number: int) -> bool:
    async with fleet.ask(number, TOKENS, GAP) as response:
        return response.status == 200 and (await response.read()).endswith(b"[DONE]\n\n")


async def asks(fleet: Fleet, number: int) -> bool:
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"hello {TOKENS} {GAP}"}]}
    async with fleet.client.post(fleet.url(number) + CHAT, json=body, headers={"x-on-behalf-of": "me"}) as response:
        found = await response.json()
        return response.status == 200 and found["usage"]["completion_tokens"] == TOKENS


async def asks_officially(fleet: Fleet, number: int) -> bool:
    async with openai.AsyncOpenAI(
        api_key=fleet.key, base_url=f"{fleet.url(number)}/v1", max_retries=0, timeout=60
    ) as client:
        question = {"role": "user", "content": f"hello {TOKENS} {GAP}"}
        stream = await client.chat.completions.create(model=MODEL, messages=[question], stream=True)  # type: ignore[list-item]
        reasons = [chunk.choices[0].finish_reason async for chunk in stream if chunk.choices]
        return reasons[-1] == "stop"


async def keeps_asking(fleet: Fleet, balancer: Balancer, tally: Counter[str], done: asyncio.Event, seed: int) -> None:
    ways = (streams, asks, asks_officially)
    way = ways[seed % len(ways)]
    while not done.is_set():
        number = balancer.next()
        try:
            how = "whole" if await way(fleet, number) else "bad"
        except Exception as fault:
            how = repr(fault)
        tally[f"{way.__name__}: {how}"] += 1


async def test_no_request_fails_while_every_gateway_is_replaced(start: Start) -> None:
    gateways, tally, done = 2, Counter[str](), asyncio.Event()
    fleet = await start(
        gateways, SEKISHO_DRAIN_DELAY_SECONDS="3", SEKISHO_DRAIN_SECONDS="60", SEKISHO_MAX_CONCURRENCY="6"
    )
    balancer = Balancer(fleet, gateways)
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(balancer.keep_looking())
        for seed in range(CLIENTS):
            group.create_task(keeps_asking(fleet, balancer, tally, done, seed))
        for number in range(gateways):
            await asyncio.to_thread(fleet.tell_to_end(number).wait)
            fleet.start(number)
            await fleet.ready(number)
        done.set()
        looking.cancel()
    print("the clients saw:", dict(tally))
    assert set(tally) == {"streams: whole", "asks: whole", "asks_officially: whole"}
    await the_books_are_right(fleet)


async def test_who_waits_at_a_gateway_that_ends_keeps_the_place_in_the_line(start: Start) -> None:
    fleet = await start(2, SEKISHO_MAX_CONCURRENCY="1", SEKISHO_DRAIN_SECONDS="60")
    order: list[str] = []

    async def waits(number: int, name: str) -> None:
        async with fleet.ask(number, 3, 0.0, name) as response:
            assert (await response.read()).endswith(b"[DONE]\n\n")
            order.append(name)

    async with fleet.ask(1, 4000, GAP) as holder, asyncio.TaskGroup() as group:
        await holder.content.readany()
        for place, (number, name) in enumerate([(0, "first"), (1, "second")], 1):
            group.create_task(waits(number, name))
            await stand_in_line(fleet, place)
        ending = fleet.tell_to_end(0)
        await not_ready(fleet, 0)
        holder.close()
    assert order == ["first", "second"]
    await asyncio.to_thread(ending.wait)
    await the_books_are_right(fleet)


async def test_whoever_a_gateway_cannot_wait_for_is_told_and_booked(start: Start) -> None:
    fleet = await start(2, SEKISHO_MAX_CONCURRENCY="1", SEKISHO_DRAIN_SECONDS="1")
    async with fleet.ask(0, 4000, GAP) as stream:
        await stream.content.readany()
        waiting = asyncio.create_task(refusal(fleet))
        await stand_in_line(fleet, 1)
        ending = fleet.tell_to_end(0)
        status, headers, error = await waiting
        assert (status, error["code"]) == (503, "gateway_stopping")
        assert headers["retry-after"] == "1"
        *_, last = (await stream.read()).removesuffix(b"\n\n").split(b"\n\n")
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "gateway_stopping"
    await asyncio.to_thread(ending.wait)
    assert "Traceback" not in fleet.logs()
    fleet.start(0)
    await fleet.ready(0)
    await the_books_are_right(fleet)


async def refusal(fleet: Fleet) -> tuple[int, Mapping[str, str], dict[str, str]]:
    async with fleet.ask(0, 3, 0.0, "waits") as response:
        return response.status, response.headers, (await response.json())["error"]


async def stand_in_line(fleet: Fleet, count: int) -> None:
    async with asyncio.timeout(60):
        while fleet.left_over().get("line", 0) < count:  # noqa: ASYNC110  other processes: they can only be asked
            await asyncio.sleep(0.02)


async def not_ready(fleet: Fleet, number: int) -> None:
    """It says so, or has closed its port."""
    async with asyncio.timeout(60):
        with suppress(aiohttp.ClientConnectorError):
            while True:
                async with fleet.client.get(f"{fleet.url(number)}/readyz") as response:
                    if response.status == 503:
                        return
                await asyncio.sleep(0.02)
