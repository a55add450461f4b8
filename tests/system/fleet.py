"""Real gateways, each a process on a port of its own that may be killed and started again, before a counting engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from gateway.identity.api_keys import KeyRing
from gateway.identity.records import Key, ServiceAccount
from gateway.identity.server_key import load_server_key
from gateway.quotas.policy import Policy
from gateway.store.directory import Actor, Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.usage import ledger
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import CHAT
from tests.system.counting_engine import MODEL
from tests.system.driving import COMMAND, clean_environment
from tests.system.redis_servers import Alone, Servers, free_ports

ACTOR = Actor("tests", "tests", "cli", "here")
PEOPLE = 6
PLENTY = 10**9
_SECONDS = 90.0  # for what takes one where the machine has time


class Fleet:
    """A Valkey that forgets nothing, or other servers, the engine, and gateways, by number. A context manager."""

    def __init__(
        self, folder: Path, gateways: int, servers: Servers | None = None, *, held: bool = True, **settings: str
    ) -> None:
        """`held`: ports are open even while a gateway is not there: who comes then waits, as with any supervisor that
        holds them. Otherwise each gateway opens its own, and closes it.
        """
        self._folder = folder
        self._servers = servers or Alone(folder)
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(gateways)] if held else []
        self.ports = [one.getsockname()[1] for one in self._listeners] or free_ports(gateways)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._settings = settings
        self._engine_socket = folder / "engine.sock"
        self.key = ""

    async def __aenter__(self) -> Fleet:
        async with contextlib.AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()  # without a fault: what was opened is closed later
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        stack.callback(self._servers.stop)
        self._servers.start()
        stack.callback(self._end_processes)
        self._start_engine()
        connector = aiohttp.UnixConnector(str(self._engine_socket))
        self._to_engine = await stack.enter_async_context(aiohttp.ClientSession("http://engine", connector=connector))
        await self._put_records()
        for number in range(len(self.ports)):
            self.start(number)
        headers, timeout = {"authorization": f"Bearer {self.key}"}, aiohttp.ClientTimeout(total=_SECONDS)
        client = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0), timeout=timeout)
        self.client = await stack.enter_async_context(client)
        await asyncio.gather(*map(self.ready, range(len(self.ports))))

    def _end_processes(self) -> None:
        for process in (*self._processes.values(), self._engine):
            process.kill()
            process.wait()
        for listener in self._listeners:
            listener.close()

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number]}"

    def start(self, number: int, **settings: str) -> None:
        descriptors = [listener.fileno() for listener in self._listeners[number : number + 1]]
        where = [part for each in descriptors for part in ("--fd", str(each))] or ["--port", str(self.ports[number])]
        environment = clean_environment(
            SEKISHO_REDIS_URL=self._servers.url,
            SEKISHO_DATA_DIR=str(self._folder),
            SEKISHO_ENGINE_KIND="native",
            SEKISHO_ENGINE_URL=f"unix:{self._engine_socket}",
            SEKISHO_TARGET_TOKENS_PER_SECOND="0",
            **{"SEKISHO_REDIS_TIMEOUT": str(REDIS_TIMEOUT)} | self._servers.settings | self._settings | settings,
        )
        with (self._folder / f"gateway-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [*COMMAND, "serve", *where],
                env=environment,
                pass_fds=descriptors,
                stdout=log,
                stderr=log,
            )

    def kill(self, number: int) -> None:
        os.kill(self._processes[number].pid, signal.SIGKILL)
        self._processes[number].wait()

    def tell_to_end(self, number: int) -> subprocess.Popen[bytes]:
        """As every supervisor does. Its process, which ends when it is done."""
        process = self._processes[number]
        process.send_signal(signal.SIGTERM)
        return process

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("gateway-*.log")))

    @property
    def redis(self) -> Any:
        return self._servers.client()

    def store(self) -> Store:
        return Store(self._servers.at, REDIS_TIMEOUT)

    async def ready(self, number: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with self.client.get(f"{self.url(number)}/readyz") as response:
                    if response.status == 200:
                        return
            assert time.monotonic() < deadline, self.logs()
            await asyncio.sleep(0.05)

    def ask(self, number: int, tokens: int, gap: float, person: str = "somebody", words: int = 5) -> Any:
        """A streamed question to one of the gateways."""
        body = {
            "model": MODEL,
            "stream": True,
            "messages": [{"role": "user", "content": f"{'hello ' * words}{tokens} {gap}"}],
        }
        return self.client.post(self.url(number) + CHAT, json=body, headers={"x-on-behalf-of": person})

    async def counted(self) -> Mapping[str, int]:
        """The engine's own count."""
        async with self._to_engine.get("/totals") as response:
            return dict(await response.json())

    async def booked(self) -> dict[str, int]:
        """What the ledger and the quotas' counters have, under the engine's names."""
        sums: Counter[str] = Counter()
        store = self.store()
        today = datetime.now(UTC).date()
        async for accounts in ledger.booked(store, [today - timedelta(days=1), today]):
            for account in accounts:
                sums.update(account.amounts)
        await store.aclose()
        for kind in ("input_tokens", "output_tokens", "tokens"):
            keys = self.redis.keys(f"{{sekisho}}:quota:all:{kind}_per_day:*")
            sums[kind] = sum(int(self.redis.get(key) or 0) for key in keys)
        return dict(sums)

    def left_over(self) -> dict[str, Any]:
        """What a request in progress has in Redis, and nothing else may: empty once all have ended."""
        found: dict[str, Any] = {}
        for name in ("leases", "grants", "line", "beats", "asks", "due", "running"):
            key = f"{{sekisho}}:{name}:native"
            size = self.redis.hlen(key) if name in ("grants", "asks", "running") else self.redis.zcard(key)
            found |= {name: size} if size else {}
        for key in self.redis.keys("{sekisho}:reservation*"):
            if key == b"{sekisho}:reservations" or key.startswith(b"{sekisho}:reservation:"):
                found[key.decode()] = 1
        for key in self.redis.keys("{sekisho}:quota:all:*"):
            name = key.decode()
            if ":concurrent_requests:" in name and self.redis.zcard(key):
                found[name] = self.redis.zcard(key)
            if "_per_minute:" in name and (held := int(self.redis.hget(key, "held") or 0)):
                found[name] = held
        return found

    def _start_engine(self) -> None:
        command = [sys.executable, "-m", "tests.system.counting_engine", str(self._engine_socket)]
        with (self._folder / "engine.log").open("wb") as log:
            self._engine = subprocess.Popen(command, env=clean_environment(), stdout=log, stderr=log)

    async def _put_records(self) -> None:
        store = self.store()
        directory = Directory(Records(store))
        await directory.create(ACTOR, ServiceAccount(id="ci"))
        ring = KeyRing(directory, load_server_key(self._folder))
        key = await ring.issue(ACTOR, Key(id="", digest="", owner="service_account:ci", on_behalf_of=True))
        self.key = key.key
        limits = dict.fromkeys(("tokens_per_day", "input_tokens_per_day", "output_tokens_per_day"), PLENTY)
        limits |= {"tokens_per_minute": PLENTY, "concurrent_requests": 10_000}
        await directory.create(ACTOR, msgspec.convert({"id": "all", "each": False, **limits}, Policy))
        await store.aclose()


async def answered(fleet: Fleet, number: int = 0) -> bool:
    async with fleet.ask(number, 3, 0.0) as response:
        return (await response.read()).endswith(b"[DONE]\n\n")


async def until_answered(fleet: Fleet, number: int = 0, seconds: float = _SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not await answered(fleet, number):  # noqa: ASYNC110  other processes: they can only be asked
            await asyncio.sleep(0.01)


async def refused(fleet: Fleet, number: int) -> None:
    async with fleet.ask(number, 3, 0.0) as response:
        await response.read()
        assert response.status == 503
        assert int(response.headers["retry-after"]) > 0


async def the_books_are_right(fleet: Fleet) -> None:
    """Once the leases of the dead have run out. One more request: what has run out goes when somebody comes."""
    deadline = time.monotonic() + _SECONDS
    while left_over := fleet.left_over():
        assert time.monotonic() < deadline, f"left over: {left_over}\n{fleet.logs()[-5000:]}"
        await asyncio.sleep(0.2)
        assert await answered(fleet)
    counted, booked = await fleet.counted(), await fleet.booked()
    print("the engine's count:", counted, "the books:", booked)
    parts = ("prompt_tokens", "completion_tokens", "cached_tokens")
    assert {part: booked[part] for part in parts} == {part: counted[part] for part in parts}
    assert booked["input_tokens"] == counted["prompt_tokens"]
    assert booked["output_tokens"] == counted["completion_tokens"]
    assert booked["tokens"] == counted["prompt_tokens"] + counted["completion_tokens"]
    assert not booked.get("estimated")


async def keeps_asking(fleet: Fleet, gateways: int, seed: int, until: float, tally: Counter[str]) -> None:
    """Asks one gateway or another, leaves early one time in three, and takes nothing amiss."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        number, tokens, words = rng.randrange(gateways), rng.randint(2, 30), rng.randint(1, 60)
        leaves = rng.random() < 0.33
        try:
            async with fleet.ask(number, tokens, rng.choice((0.005, 0.02)), f"p{seed % PEOPLE}", words) as response:
                if leaves:
                    await asyncio.wait_for(response.content.read(rng.randint(1, 800)), rng.random())
                    tally["left"] += 1
                    response.close()
                    continue
                whole = (await response.read()).endswith(b"[DONE]\n\n")
                tally[str(response.status) if whole or response.status != 200 else "cut"] += 1
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            tally[type(error).__name__] += 1
            await asyncio.sleep(0.05)
