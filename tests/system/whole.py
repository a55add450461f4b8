"""The whole as a company has it: an OpenID provider, Valkey, an engine with its model, two gateways at one address."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from tests.external.provider import RealProvider, providers
from tests.gateway.conftest import ADMIN_KEY, AUTH, start_valkey
from tests.system.driving import COMMAND, MODEL, clean_environment
from tests.system.engines import LOADING_SECONDS, Engine

EVIL = "<img src=x onerror=alert(1)>"
# Logins, and what the provider says of them.
PEOPLE: dict[str, dict[str, Any]] = {
    "hanako": {"name": "山田 花子", "email": "hanako@example.com", "groups": ["platform"]},
    "taro": {"name": "佐藤 太郎", "groups": ["sales"]},
    "jiro": {"name": "Jiro Suzuki", "groups": ["sales"]},
    "keiko": {"name": "Keiko Ito", "groups": ["research"]},
    "mallory": {"name": EVIL, "groups": [EVIL]},
}


class Whole:
    """`gateways` are processes that take turns at `url`; `engine` answers one at a time, the others wait."""

    def __init__(self, folder: Path, provider: RealProvider, redis_url: str, engine: Engine) -> None:
        self._folder = folder
        self.provider = provider
        self.engine = engine
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._file = folder / "sekisho.yaml"
        self._file.write_bytes(msgspec.json.encode(self._settings(redis_url)))
        self.gateways: list[subprocess.Popen[bytes]] = []

    def _settings(self, redis_url: str) -> dict[str, Any]:
        issuer = self.provider.settings(name="Example ID", group_roles={"platform": "admin"})
        backend = {
            "name": self.engine.name,
            "kind": "native",
            "url": f"unix:{self.engine.socket}",
            "max_concurrency": 1,
            "models": {MODEL: MODEL, EVIL: MODEL},
            "descriptions": {MODEL: "Small and quick, for short texts.", EVIL: EVIL},
        }
        return {
            "redis_url": redis_url,
            "data_dir": str(self._folder),
            "bootstrap_key": ADMIN_KEY,
            "public_url": self.url,
            "issuers": [issuer],
            "backends": [backend],
            "lease_seconds": 2,
            "target_tokens_per_second": 0,
        }

    def start_gateway(self) -> None:
        command = [*COMMAND, "serve", "--config", str(self._file), "--fd", str(self._listener.fileno())]
        with self._log.open("ab") as log:
            self.gateways.append(
                subprocess.Popen(
                    command, env=clean_environment(), pass_fds=[self._listener.fileno()], stdout=log, stderr=log
                )
            )

    async def ready(self) -> None:
        """Until the provider knows the address and every gateway has found the engine."""
        await self.provider.gateway_at(self.url)
        await self.provider.people(**PEOPLE)
        await self.engine.ready()
        deadline = time.monotonic() + LOADING_SECONDS
        while await self._gateways_ready() < len(self.gateways):
            assert time.monotonic() < deadline, self.log
            await asyncio.sleep(0.05)

    async def _gateways_ready(self) -> int:
        try:
            async with aiohttp.ClientSession(self.url, headers=AUTH) as client:
                async with client.get("/admin/v1/activity", raise_for_status=True) as answer:
                    seen = await answer.json()
                async with client.get("/readyz", raise_for_status=True):
                    return int(seen["gateways"])
        except aiohttp.ClientError:
            assert all(one.poll() is None for one in self.gateways), self.log
            return 0

    async def ask_as(self, login: str, method: str, path: str, body: Any) -> Any:
        """As a program does it with a token of this person; without one, with the first key. The answer, or nothing."""
        key = await self.provider.access_token(login) if login else ADMIN_KEY
        headers = {"authorization": f"Bearer {key}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as client,
            client.request(method, path, json=body, raise_for_status=True) as answer,
        ):
            return await answer.json() if answer.content_type == "application/json" else await answer.read()

    @contextmanager
    def one_alone(self) -> Iterator[subprocess.Popen[bytes]]:
        """One gateway, which whoever comes until this ends comes to."""
        one, *others = self.gateways
        for other in others:
            other.send_signal(signal.SIGSTOP)
        try:
            yield one
        finally:
            for other in others:
                other.send_signal(signal.SIGCONT)

    async def quiet(self) -> None:
        """Whatever a test has left running or waiting ends, so that the next one finds an engine that is free."""
        lines = (await self.ask_as("", "GET", "/admin/v1/queue", None))["lines"]
        for request in [one for line in lines for one in (*line["running"], *line["waiting"])]:
            with suppress(aiohttp.ClientResponseError):  # it has ended meanwhile
                await self.ask_as("", "DELETE", f"/admin/v1/queue/{request['id']}", None)

    def stop(self) -> None:
        for gateway in self.gateways:
            gateway.kill()
            gateway.wait()
        self._listener.close()

    @property
    def _log(self) -> Path:
        return self._folder / "gateways.log"

    @property
    def log(self) -> str:
        return self._log.read_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory, models: Path, provider_control: str) -> AsyncIterator[Whole]:
    """Started once for a file of tests."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "models").symlink_to(models)
    async with running(folder, provider_control) as whole:
        yield whole


@asynccontextmanager
async def running(folder: Path, provider_control: str) -> AsyncIterator[Whole]:
    valkey, redis_url = start_valkey(folder)
    engine = Engine("hall", folder, folder)
    engine.start()
    try:
        async with providers(provider_control) as make:
            whole = Whole(folder, await make(), redis_url, engine)
            try:
                for _ in range(2):
                    whole.start_gateway()
                await whole.ready()
                yield whole
            finally:
                whole.stop()
    finally:
        engine.kill()
        valkey.terminate()
        valkey.wait()
