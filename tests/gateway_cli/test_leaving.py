"""A server that was told to end: what it takes meanwhile, what it waits for, and when it has gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import uvicorn

from gateway.cli.leaving import LeavingServer
from tests.gateway.conftest import eventually


class Application:
    """Answers when it may, and notes what it was told."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.writes = False
        self.told: list[str] = []

    def leave(self) -> None:
        self.told.append("leave")

    async def end(self) -> None:
        self.told.append("end")
        self.writes = False
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Running:
    """The server and a client that keeps its connections open."""

    def __init__(self, delay: float, seconds: float) -> None:
        self.app = Application()
        config = uvicorn.Config(self.app, port=0, lifespan="off", log_config=None, http="httptools")
        self.server = LeavingServer(self.app, config, delay, seconds)

    async def start(self) -> None:
        self.serving = asyncio.create_task(self.server._serve())
        await eventually(lambda: self.server.started)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.client = aiohttp.ClientSession(f"http://127.0.0.1:{port}")

    def tell_to_end(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)

    async def get(self) -> aiohttp.ClientResponse:
        async with self.client.get("/") as response:
            assert await response.read() == b"ok"
            return response


@pytest.fixture
async def run() -> AsyncIterator[Any]:
    started: list[Running] = []

    async def run(delay: float, seconds: float) -> Running:
        started.append(running := Running(delay, seconds))
        await running.start()
        return running

    yield run
    for running in started:
        running.server.force_exit = running.server.should_exit = True
        running.server.handle_exit(signal.SIGTERM, None)
        running.server.handle_exit(signal.SIGTERM, None)
        await running.client.close()
        await running.serving


async def test_requests_are_taken_for_a_while_and_each_ends_its_connection(run: Any) -> None:
    running = await run(3600, 60)
    assert "connection" not in (await running.get()).headers
    running.tell_to_end()
    await eventually(lambda: running.app.told == ["leave"])
    for _ in range(3):
        assert (await running.get()).headers["connection"] == "close"
    assert not running.serving.done()
    running.tell_to_end()  # whoever says it twice means now
    await running.serving
    with pytest.raises(aiohttp.ClientConnectorError):
        await running.get()


async def test_what_is_under_way_is_waited_for(run: Any) -> None:
    running = await run(0, 60)
    running.app.may_answer.clear()
    asked = asyncio.create_task(running.get())
    await eventually(lambda: running.server.server_state.tasks)
    running.tell_to_end()
    await eventually(lambda: running.app.told == ["leave"])
    running.app.may_answer.set()
    assert (await asked).status == 200
    await running.serving
    assert running.app.told == ["leave"]


async def test_answers_that_nobody_reads_now_are_waited_for_too(run: Any) -> None:
    running = await run(0, 60)
    running.app.writes = True
    running.tell_to_end()
    await eventually(lambda: running.app.told == ["leave"])
    done, _ = await asyncio.wait({running.serving}, timeout=1.5)  # past the moment for what has just arrived
    assert not done
    running.app.writes = False
    await running.serving
    assert running.app.told == ["leave"]


async def test_when_the_time_is_over_whoever_is_left_is_ended(run: Any) -> None:
    running = await run(0, 0.2)
    running.app.may_answer.clear()
    running.app.writes = True
    asked = asyncio.create_task(running.get())
    await eventually(lambda: running.server.server_state.tasks)
    running.tell_to_end()
    assert (await asked).status == 200
    await running.serving
    assert running.app.told == ["leave", "end"]
