#!/usr/bin/env python3
"""What the door itself costs: requests and streams a second through it, before an engine that answers at once.

    .venv/bin/python deploy/bench/door.py

Generator, door, Valkey and engine share this machine. Beside it, in turn: the same through the barest gateway that
the same server and client allow (passthrough.py), and straight to the engine. With --traced also the door with tracing
on, every request of it, to a collector that takes all at once.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from machine import describe  # noqa: E402
from servers import free_port  # noqa: E402

from backends.fake import chat_script  # noqa: E402
from gateway.cli.parts import valkey_binary  # noqa: E402

KEY = "sk-skh-bench-0123456789abcdef"
out = Console(highlight=False, soft_wrap=True).print
CHUNKS = 20
MODELS = b'{"data":[{"id":"fake","max_model_len":4096}]}'
BODY = b'{"model":"fake","stream":%s,"messages":[{"role":"user","content":"' + b"hello there " * 20 + b'"}]}'


class Engine(asyncio.Protocol):
    """Speaks just enough HTTP: models at once, completions as events, a millisecond apart where a stream is wanted.

    It is the collector of traces too.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end or len(rest) < _content_length(head):
            return
        self._buffer = b""
        if head.startswith(b"POST /v1/traces"):
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return
        if head.startswith(b"GET"):
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(MODELS), MODELS))
            return
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        # The door always asks for a stream; how long the answer is tells what its client asked for.
        if b'"temperature":1' in rest:
            self._send_next(list(reversed(_PARTS)))
        else:
            self._transport.write(b"".join(_ONE))

    def _send_next(self, left: list[bytes]) -> None:
        if left:
            self._transport.write(left.pop())
            asyncio.get_running_loop().call_later(0.001, self._send_next, left)


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._run.is_whole(self._buffer):
            self._run.note(self._buffer, time.perf_counter() - self._asked)
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        self._buffer = b""
        if not self._run.take():
            self._transport.close()
            return
        self._asked = time.perf_counter()
        self._transport.write(self._run.request)


class Run:
    """`total` requests of one kind."""

    def __init__(self, stream: bool, total: int) -> None:
        body = BODY % (b'true,"temperature":1' if stream else b"false")
        self.request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer %s\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body)
        )
        self._left = total
        self.times: list[float] = []
        self.failed = 0

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def note(self, answer: bytes, seconds: float) -> None:
        self.times.append(seconds)
        self.failed += not answer.startswith(b"HTTP/1.1 200")

    @staticmethod
    def is_whole(answer: bytes) -> bool:
        head, end, rest = answer.partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            return rest.endswith(b"0\r\n\r\n")
        return bool(end) and len(rest) >= _content_length(head)


class Figures(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


async def drive(port: int, stream: bool, total: int, connections: int) -> Figures:
    run, loop = Run(stream, total), asyncio.get_running_loop()
    started = time.perf_counter()
    clients = [(await loop.create_connection(lambda: Client(run), "127.0.0.1", port))[1] for _ in range(connections)]
    await asyncio.gather(*(client.done for client in clients))
    seconds, times = time.perf_counter() - started, sorted(run.times)
    return Figures(len(times) / seconds, times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3, run.failed)


class Target(NamedTuple):
    name: str
    port: int
    pid: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="of each kind and way")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--traced", action="store_true", help="also with tracing on")
    arguments = parser.parse_args()
    out(describe(), f"\n\n{'':40}{'per second':>11}{'p50 ms':>9}{'p99 ms':>9}{'failed':>8}{'CPU us each':>13}")
    with ExitStack() as stack:
        bare = stack.enter_context(engine())
        least = stack.enter_context(passthrough(bare))
        ours = stack.enter_context(door(bare.port))
        traced = [stack.enter_context(door(bare.port, traced=True))] if arguments.traced else []
        before = resident_mb(ours.pid)
        for stream, kind in ((False, "answers"), (True, f"streams of {CHUNKS} chunks")):
            for target in (bare, *(least, ours, *traced) * 2):
                measure(target, kind, stream, arguments.requests, arguments.connections)
        out(f"\nThe door's memory: {before:.0f} MB at first, {resident_mb(ours.pid):.0f} MB in the end")
    return 0


def measure(target: Target, kind: str, stream: bool, requests: int, connections: int) -> None:
    uvloop.run(drive(target.port, stream, 200, connections))  # warms up
    busy = cpu_seconds(target.pid)
    figures = uvloop.run(drive(target.port, stream, requests, connections))
    used = (cpu_seconds(target.pid) - busy) / requests * 1e6
    out(f"{f'{target.name}, {kind}':40}{figures.per_second:11.0f}{figures.p50_ms:9.1f}{figures.p99_ms:9.1f}"
        f"{figures.failed:8}{used:13.0f}")  # fmt: skip


@contextmanager
def engine() -> Iterator[Target]:
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_run_engine, args=(port,), daemon=True)
    process.start()
    try:
        _until_it_answers(port)
        yield Target("the engine alone", port, process.pid or 0)
    finally:
        process.terminate()
        process.join()


@contextmanager
def passthrough(engine: Target) -> Iterator[Target]:
    port = free_port()
    script = [sys.executable, str(Path(__file__).parent / "passthrough.py"), f"http://127.0.0.1:{engine.port}"]
    with subprocess.Popen([*script, str(port)]) as process:
        try:
            _until_it_answers(port)
            yield Target("a bare pass-through", port, process.pid)
        finally:
            process.terminate()


def _run_engine(port: int) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(serve())


@contextmanager
def door(engine_port: int, *, traced: bool = False) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _door(Path(folder), engine_port, traced)


def _door(folder: Path, engine_port: int, traced: bool) -> Iterator[Target]:
    port, socket = free_port(), folder / "valkey.sock"
    settings = {
        "SEKISHO_REDIS_URL": f"unix://{socket}",
        "SEKISHO_ENGINE_URL": f"http://127.0.0.1:{engine_port}",
        "SEKISHO_DATA_DIR": str(folder / "data"),
        "SEKISHO_BOOTSTRAP_KEY": KEY,
        "SEKISHO_MAX_CONCURRENCY": "1000",
        "SEKISHO_PORT": str(port),
    } | ({"SEKISHO_OTLP_ENDPOINT": f"http://127.0.0.1:{engine_port}"} if traced else {})
    serve = [sys.executable, "-m", "gateway.cli.main", "serve"]
    store = [str(valkey_binary()), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    log = (folder / "log").open("wb")
    with (
        subprocess.Popen(store, stdout=log, stderr=log) as valkey,
        subprocess.Popen(serve, cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log) as gateway,
    ):
        try:
            _until_it_answers(port)
            yield Target("the door, traced" if traced else "the door", port, gateway.pid)
        finally:
            gateway.terminate()
            valkey.terminate()


def _until_it_answers(port: int) -> None:
    for _ in range(600):
        time.sleep(0.1)
        try:
            if uvloop.run(drive(port, False, 1, 1)).failed == 0:
                return
        except OSError:
            continue
    raise RuntimeError(f"nothing answers on port {port}")


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1000


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _content_length(head: bytes) -> int:
    found = head.lower().partition(b"content-length: ")[2]
    return int(found.partition(b"\r\n")[0]) if found else 0


def _chunked(events: list[bytes]) -> list[bytes]:
    return [b"%x\r\n%s\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]


_PARTS = _chunked([step for step in chat_script(("word ",) * CHUNKS).steps if isinstance(step, bytes)])
_ONE = _chunked([step for step in chat_script(("word ",)).steps if isinstance(step, bytes)])


if __name__ == "__main__":
    sys.exit(main())
