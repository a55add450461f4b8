"""Four real gateways over one real Valkey: what is revoked at one is revoked at all of them within a second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from backends.fake import DONE, Script, chat_chunk, event
from gateway.identity.api_keys import KeyRing, NewKey
from gateway.identity.records import Key, ServiceAccount
from gateway.identity.server_key import load_server_key
from gateway.store.directory import Actor, Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.contracts.replay import ReplayServer, replaying
from tests.gateway.conftest import ask, eventually, start_valkey
from tests.gateway.test_pipeline import events
from tests.system.driving import COMMAND, clean_environment

pytestmark = pytest.mark.slow
ACTOR = Actor("tests", "tests", "cli", "here")
WORKERS = 4
SECOND = 1.0
WORD = event(chat_chunk({"content": "word"}))
Start = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    process, url = start_valkey(tmp_path)
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
async def engine() -> AsyncIterator[ReplayServer]:
    async with replaying() as engine:
        yield engine


@pytest.fixture
async def ring(redis_url: str, tmp_path: Path) -> AsyncIterator[tuple[Directory, KeyRing]]:
    """Another process than any of the gateways, as the command line is."""
    store = Store(redis_url, REDIS_TIMEOUT)
    directory = Directory(Records(store))
    await directory.create(ACTOR, ServiceAccount(id="ci"))
    yield directory, KeyRing(directory, load_server_key(tmp_path))
    await store.aclose()


@pytest.fixture
async def start(redis_url: str, tmp_path: Path, engine: ReplayServer) -> AsyncIterator[Start]:
    """Starts the gateways, each on a port of its own, and returns their addresses."""
    with contextlib.ExitStack() as stack:

        async def start(**settings: str) -> list[str]:
            environment = clean_environment(
                SEKISHO_REDIS_URL=redis_url,
                SEKISHO_DATA_DIR=str(tmp_path),
                SEKISHO_ENGINE_KIND="openai",
                SEKISHO_ENGINE_URL=engine.url,
                **settings,
            )
            urls = [stack.enter_context(gateway(environment)) for _ in range(WORKERS)]
            await asyncio.gather(*map(ready, urls))
            return urls

        yield start


@contextlib.contextmanager
def gateway(environment: dict[str, str]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [*COMMAND, "serve", "--fd", str(listener.fileno())]
        process = subprocess.Popen(
            command, env=environment, pass_fds=[listener.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield url
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(20)


async def ready(url: str) -> None:
    async with aiohttp.ClientSession(url) as client:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get("/readyz") as response:
                    if response.status == 200:
                        return
            assert time.monotonic() < deadline, f"{url} never came up"
            await asyncio.sleep(0.05)


async def new_key(ring: KeyRing) -> NewKey:
    return await ring.issue(ACTOR, Key(id="", digest="", owner="service_account:ci"))


def client_of(url: str, key: NewKey) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers={"authorization": f"Bearer {key.key}"})


async def keeps_asking(url: str, key: NewKey, revoked: asyncio.Future[float]) -> float:
    """Asks without a pause. How long after the revocation the last good answer was begun."""
    last = 0.0
    async with client_of(url, key) as client:
        while True:
            asked = time.monotonic()
            async with client.get("/v1/models") as response:
                await response.read()
                if response.status == 401:
                    return last - await revoked
                assert response.status == 200
            last = asked
            await asyncio.sleep(0.005)
            assert not revoked.done() or asked - revoked.result() < SECOND, f"{url} still believes a revoked key"


async def streams(url: str, key: NewKey, begun: asyncio.Semaphore) -> list[object]:
    """The events of one answer, all of them."""
    async with client_of(url, key) as client, client.post("/v1/chat/completions", json=ask(stream=True)) as response:
        assert response.status == 200
        first = await response.content.readany()
        begun.release()
        return events((first + await response.read()).decode())


async def test_a_revoked_key_stops_on_four_gateways_within_a_second_streams_in_flight_included(
    start: Start, ring: tuple[Directory, KeyRing], engine: ReplayServer
) -> None:
    engine.script = Script((WORD, 60.0, WORD, DONE))
    directory, key_ring = ring
    urls = await start()
    key, other, begun = await new_key(key_ring), await new_key(key_ring), asyncio.Semaphore(0)
    revoked: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    in_flight = [asyncio.create_task(streams(url, key, begun)) for url in urls]
    going_on = asyncio.create_task(streams(urls[0], other, begun))
    asking = [asyncio.create_task(keeps_asking(url, key, revoked)) for url in urls]
    for _ in range(WORKERS + 1):
        await begun.acquire()
    await directory.delete(ACTOR, Key, key.record.id)
    revoked.set_result(time.monotonic())
    async with asyncio.timeout(SECOND):
        answers = await asyncio.gather(*in_flight)
    delays = await asyncio.gather(*asking)
    print("a revoked key was last believed", *(f"{delay * 1000:.0f}" for delay in delays), "ms after its end")
    assert [answer[-1]["error"]["code"] for answer in answers] == ["credential_revoked"] * WORKERS  # type: ignore[index]
    await eventually(lambda: sum(asked.aborted for asked in engine.asked) == WORKERS)
    assert not going_on.done()
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)


async def test_where_the_policy_says_so_the_streams_end_by_themselves(
    start: Start, ring: tuple[Directory, KeyRing], engine: ReplayServer
) -> None:
    directory, key_ring = ring
    urls = await start(SEKISHO_REVOCATION_ENDS_STREAMS="false")
    engine.script = Script((WORD, 2 * SECOND, event(chat_chunk({}, "stop")), DONE))
    key, begun = await new_key(key_ring), asyncio.Semaphore(0)
    in_flight = [asyncio.create_task(streams(url, key, begun)) for url in urls]
    for _ in range(WORKERS):
        await begun.acquire()
    await directory.delete(ACTOR, Key, key.record.id)
    revoked: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    revoked.set_result(time.monotonic())
    await asyncio.gather(*(keeps_asking(url, key, revoked) for url in urls))
    assert [answer[-1] for answer in await asyncio.gather(*in_flight)] == ["[DONE]"] * WORKERS
