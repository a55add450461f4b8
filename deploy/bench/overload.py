#!/usr/bin/env python3
"""The door at twice what its engine can do: is anybody lost, are those told the truth who wait, is memory flat.

    .venv/bin/python deploy/bench/overload.py

Questions come at random times, whatever has become of the earlier ones. The engine is a scripted one of known speed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import aiohttp
import uvicorn
import uvloop
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from door import cpu_seconds, resident_mb  # noqa: E402
from fairness import KEY, put_key  # noqa: E402
from identify import valkey  # noqa: E402
from machine import describe  # noqa: E402
from servers import free_port  # noqa: E402

from backends.fake import FakeBackend, FakeUpstream, Script, chat_script  # noqa: E402
from gateway.app import App  # noqa: E402
from gateway.settings import load  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
TOKENS = (10, 50)
GAP, DELAY = 0.02, 0.05
# So many of those refused come back when they were told to; all of them would only be more load.
COME_BACK = 0.1
WARM_UP_SECONDS = 10


class Forgetful(FakeBackend):
    """Keeps no record of what it was asked, whose growth would be taken for the door's."""

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> FakeUpstream:
        self.asked.clear()
        return await super().open(path, body, headers)


@dataclass
class Seen:
    counts: bool = False  # not while the door warms up
    ends: Counter[str] = field(default_factory=Counter)  # how each first try ended
    came_back: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)  # seconds from the first word of a place to the first token
    surprise: list[float] = field(default_factory=list)  # by how many seconds the wait was longer than was told
    refused_in: list[float] = field(default_factory=list)
    retry_after: list[int] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300, help="after a warm-up")
    parser.add_argument("--capacity", type=int, default=16, help="requests that the engine takes at once")
    parser.add_argument("--times", type=float, default=2.0, help="its capacity that is asked for")
    parser.add_argument("--wait", type=float, default=10.0, help="seconds that one may wait for a turn")
    parser.add_argument("--people", type=int, default=30)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        valkey(Path(folder)) as redis_url,
        door(redis_url, Path(folder), arguments) as (url, pid),
    ):
        uvloop.run(measure(url, pid, arguments))
    return 0


async def measure(url: str, pid: int, arguments: argparse.Namespace) -> None:
    rate = arguments.times * arguments.capacity / (DELAY + GAP * sum(TOKENS) / 2)
    out(describe(), f"\n\n{arguments.capacity} at once, {rate:.0f} questions a second, {arguments.seconds:g} s")
    timeout, connector = aiohttp.ClientTimeout(total=120), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as client, asyncio.TaskGroup() as group:
        seen, memory = Seen(), list[float]()
        group.create_task(load_for(client, rate, WARM_UP_SECONDS + arguments.seconds, arguments.people, seen))
        await asyncio.sleep(WARM_UP_SECONDS)
        busy = cpu_seconds(pid)
        seen.counts = True
        for pause in (0, arguments.seconds / 2, arguments.seconds / 2):
            await asyncio.sleep(pause)
            memory.append(resident_mb(pid))
        busy = cpu_seconds(pid) - busy
    show(seen, memory, busy)


async def load_for(client: aiohttp.ClientSession, rate: float, seconds: float, people: int, seen: Seen) -> None:
    rng, until = random.Random(rate), time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            await asyncio.sleep(rng.expovariate(rate))
            comes_back, noted = rng.random() < COME_BACK, seen if seen.counts else Seen()
            group.create_task(question(client, f"person-{rng.randrange(people)}", noted, comes_back))


async def question(client: aiohttp.ClientSession, person: str, seen: Seen, comes_back: bool) -> None:
    end, after = await asked(client, person, seen)
    seen.ends[end] += 1
    if after and comes_back:
        await asyncio.sleep(after)
        end, _ = await asked(client, person, Seen())
        seen.came_back[end] += 1


async def asked(client: aiohttp.ClientSession, person: str, seen: Seen) -> tuple[str, int]:
    """How it ended, and after how many seconds one may come back."""
    headers = {"authorization": f"Bearer {KEY}", "x-on-behalf-of": person, "x-queue-updates": "1"}
    body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    started = time.monotonic()
    try:
        async with client.post("/v1/chat/completions", json=body, headers=headers) as response:
            if response.status == 200:
                return await read(response, seen), 0
            seen.refused_in.append(time.monotonic() - started)
            after = int(response.headers.get("retry-after", "0"))
            seen.retry_after.append(after)
            code = (await response.json())["error"]["code"]
            return f"refused at once: {code}" + ("" if after else ", without Retry-After"), after
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"lost: {type(error).__name__}", 0


async def read(response: aiohttp.ClientResponse, seen: Seen) -> str:
    told_at, told, first, last = 0.0, 0.0, 0.0, b""
    async for line in response.content:
        if (eta := re.search(rb"^: queue position=\d+ eta=([\d.]+)", line)) and not told_at:
            told_at, told = time.monotonic(), float(eta[1])
        elif line.startswith(b"data: "):
            first, last = first or time.monotonic(), line
    if not last.startswith(b"data: [DONE]"):
        return "given up in the line" if b'"queue_timeout"' in last else f"lost: {last[:80]!r}"
    if told_at:
        seen.waits.append(first - told_at)
        seen.surprise.append(first - DELAY - told_at - told)
    return "served" if told_at else "served without waiting"


@contextmanager
def door(redis_url: str, folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """A process of its own, so that its memory is its own."""
    port, context = free_port(), multiprocessing.get_context("spawn")
    process = context.Process(target=run_door, args=(redis_url, folder, arguments, port), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}", process.pid or 0
    finally:
        process.terminate()
        process.join()


def run_door(redis_url: str, folder: Path, arguments: argparse.Namespace, port: int) -> None:
    rng = random.Random(0)

    def answer(_: bytes) -> Script:
        return chat_script(("word ",) * rng.randint(*TOKENS), delay=DELAY, gap=GAP)

    settings = load(
        redis_url=redis_url,
        data_dir=folder / "data",
        max_concurrency=arguments.capacity,
        queue_timeout=arguments.wait,
    )

    async def serve() -> None:
        app = App(settings, {"native": Forgetful(answer)})
        config = uvicorn.Config(app, port=port, log_level="warning", access_log=False)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        await put_key(app)
        await asyncio.Event().wait()

    logging.disable(logging.WARNING)  # a line for each that is refused
    uvloop.run(serve())


def show(seen: Seen, memory: list[float], busy: float) -> None:
    total = sum(seen.ends.values())
    out(f"\n{total} questions")
    for end, count in seen.ends.most_common():
        out(f"{count:8} {end}")
    out(f"\nwaited {spread(seen.waits)}")
    out(f"longer than was told at first, by {spread(seen.surprise)}")
    out(f"refused in {spread(seen.refused_in)}; Retry-After {spread(list(map(float, seen.retry_after)))}")
    out(f"came back when told to: {dict(seen.came_back)}")
    start, middle, end = memory
    out(f"memory: {start:.1f} MB at the start, {middle:.1f} in the middle, {end:.1f} in the end")
    out(f"CPU: {busy / total * 1e3:.2f} ms a question")


def spread(values: list[float]) -> str:
    if len(values) < 2:
        return "never"
    at = quantiles(values, n=100)
    return f"p50 {at[49]:.2f} s, p95 {at[94]:.2f} s, p99 {at[98]:.2f} s, most {max(values):.2f} s"


if __name__ == "__main__":
    sys.exit(main())
