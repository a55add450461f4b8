"""Real engines that can be killed, stopped and started again, and one real gateway with a settings file before them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import redis

from tests.gateway.conftest import ADMIN_KEY, AUTH, CHAT
from tests.system.driving import COMMAND, MODEL, clean_environment

# An engine needs seconds to load its model, and many of them on a machine that is busy with other tests.
LOADING_SECONDS = 120
SEATS = 32


class Engine:
    """The native engine on a socket of its own, small."""

    def __init__(self, name: str, folder: Path, data_dir: Path, model: str = MODEL, *flags: str) -> None:
        self.name = name
        self._model, self._flags = model, flags
        self.socket = folder / f"{name}.sock"
        self._log = folder / f"{name}.log"
        self._data_dir = data_dir
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns before it is ready."""
        small = ("--kv-cache-memory", "256MiB", "--max-num-seqs", str(SEATS), "--num-threads", "1")
        command = [*COMMAND, "engine", "--uds", str(self.socket), "--data-dir", str(self._data_dir), *small]
        command += ["--model", self._model, *self._flags]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=clean_environment(), stdout=log, stderr=log)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def end(self) -> None:
        """As every supervisor does, and waits."""
        self.signal(signal.SIGTERM)
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    async def ready(self) -> None:
        async with self.client() as client:
            deadline = time.monotonic() + LOADING_SECONDS
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with client.get("/health") as response:
                        if response.status == 200:
                            return
                assert self.runs, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                await asyncio.sleep(0.05)

    async def account(self, request_id: str) -> dict[str, Any]:
        """Its own count of a request, once that has ended. One that it was asked once more has another id there."""
        ids = [request_id, *(f"again-{number}-{request_id}" for number in (1, 2))]
        async with self.client() as client:
            while True:
                for each in ids:
                    async with client.get(f"/internal/requests/{each}") as response:
                        told = dict(await response.json())
                    if told.get("state") in ("finished", "aborted"):
                        return told
                await asyncio.sleep(0.05)

    def client(self) -> aiohttp.ClientSession:
        """Past any gateway."""
        return aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(self.socket)))


@dataclass
class Answer:
    """What a client was told so far; `events` without the [DONE]."""

    status: int = 0
    request_id: str = ""
    events: list[Any] = field(default_factory=list)
    done: bool = False

    @property
    def choices(self) -> list[Any]:
        return [choice for event in self.events for choice in event.get("choices", ())]

    @property
    def pieces(self) -> list[str]:
        return [text for choice in self.choices if (text := choice["delta"].get("content"))]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def usage(self) -> dict[str, Any]:
        return dict(self.events[-1]["usage"])


class Gateway:
    """`settings` go into its file beside the engines. Made in an event loop."""

    def __init__(self, folder: Path, redis_url: str, engines: Iterable[Engine], **settings: Any) -> None:
        self._folder = folder
        self._file = folder / "sekisho.yaml"
        self._log = folder / "gateway.log"
        own = {"redis_url": redis_url, "data_dir": str(folder), "bootstrap_key": ADMIN_KEY}
        self._settings = {**own, "target_tokens_per_second": 0, "lease_seconds": 2, **settings}
        self._redis = redis.Redis.from_url(redis_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=300)
        self.client = aiohttp.ClientSession(url, headers=AUTH, connector=connector, timeout=timeout)
        self._process: subprocess.Popen[bytes] | None = None
        self.put(engines)

    def put(self, engines: Iterable[Engine]) -> None:
        """Write the settings file, at once or not at all."""
        backends = [
            {"name": one.name, "kind": "native", "url": f"unix:{one.socket}", "max_concurrency": SEATS}
            for one in engines
        ]
        written = self._file.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(self._settings | {"backends": backends}))
        written.replace(self._file)

    async def start(self) -> None:
        """Returns once it has found its engines well; `stop` follows in any case."""
        self._redis.flushall()
        self._launch()
        await self.until(lambda shown: all(one["state"] == "healthy" for one in shown.values()), LOADING_SECONDS)

    def _launch(self) -> None:
        command = [*COMMAND, "serve", "--config", str(self._file), "--fd", str(self._listener.fileno())]
        with self._listener, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=clean_environment(), pass_fds=[self._listener.fileno()], stdout=log, stderr=log
            )

    async def stop(self) -> None:
        await self.client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._redis.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def ask(self, body: dict[str, Any], answer: Answer) -> Answer:
        """A streamed question; what comes is in `answer` as it comes."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        async with self.client.post(CHAT, json=body | options) as response:
            answer.status, answer.request_id = response.status, response.headers["x-request-id"]
            async for line in response.content:
                if line == b"data: [DONE]\n":
                    answer.done = True
                elif line.startswith(b"data: "):
                    answer.events.append(msgspec.json.decode(line.removeprefix(b"data: ")))
        return answer

    async def ask_whole(self, body: dict[str, Any]) -> dict[str, Any]:
        async with self.client.post(CHAT, json=body) as response:
            return {"status": response.status, **await response.json()}

    async def backends(self) -> dict[str, Any]:
        async with self.client.get("/admin/v1/backends", raise_for_status=True) as response:
            return {one["name"]: one for one in (await response.json())["data"]}

    async def order(self, name: str, use: str) -> None:
        """As an administrator does; heeded when it returns."""
        async with self.client.patch(f"/admin/v1/backends/{name}", json={"use": use}) as response:
            assert response.status == 200, await response.text()

    async def until(self, holds: Callable[[dict[str, Any]], bool], seconds: float = 30) -> dict[str, Any]:
        """Until that is so of the backends, as administrators see them."""
        deadline, shown = time.monotonic() + seconds, dict[str, Any]()
        while True:
            # A gateway that has just started has made the first key a moment later.
            with contextlib.suppress(aiohttp.ClientError):
                shown = await self.backends()
                if holds(shown):
                    return shown
            assert time.monotonic() < deadline, f"{shown}\n{self.log[-5000:]}"
            await asyncio.sleep(0.05)

    async def booked(self) -> dict[str, Any]:
        async with self.client.get("/admin/v1/usage?by=model") as response:
            (row,) = (await response.json())["data"]
            return dict(row)

    async def moved(self, how: str) -> int:
        """How many requests went on elsewhere."""
        async with self.client.get("/metrics") as response:
            told = await response.text()
        mark = f'sekisho_moved_total{{how="{how}"}} '
        return int(sum(float(line.removeprefix(mark)) for line in told.splitlines() if line.startswith(mark)))

    def left_over(self) -> list[str]:
        """What only a request in progress may have in Redis."""
        of_requests = ("leases", "grants", "line", "beats", "asks", "due", "running", "reservation", "reservations")
        keys = [key.decode() for key in self._redis.keys("{sekisho}:*")]
        return [key for key in keys if key.split(":")[1] in of_requests]


def question(text: str, tokens: int) -> dict[str, Any]:
    """Whose answer is always the same, and of that length."""
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}


async def undisturbed(engine: Engine, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the engine alone answers."""

    async def ask(body: dict[str, Any]) -> dict[str, Any]:
        async with client.post(CHAT, json=body) as response:
            return dict(await response.json())

    async with engine.client() as client:
        return list(await asyncio.gather(*map(ask, bodies)))
