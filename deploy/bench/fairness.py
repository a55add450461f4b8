#!/usr/bin/env python3
"""Whether one person's many requests delay everybody else's: times to the first token through the real door.

    .venv/bin/python deploy/bench/fairness.py

Twenty people ask, read the answer, think and ask again; then the same with one more who keeps 64 requests open. The
engine is a fake one that takes a few at once. For comparison the same load behind one name: a single line, first come,
first served. A table goes to standard output, a plot into .cache/fairness.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import aiohttp
import uvicorn
import uvloop
from msgspec.structs import replace
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from identify import valkey  # noqa: E402
from machine import describe  # noqa: E402

from backends.fake import FakeBackend, Script, chat_script  # noqa: E402
from gateway.app import App  # noqa: E402
from gateway.identity.records import Key, ServiceAccount  # noqa: E402
from gateway.settings import load  # noqa: E402
from gateway.store.directory import Actor  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
KEY = "sk-skh-bench-0123456789abcdef"
GREEDY = "greedy"
WARM_UP_SECONDS = 5


@dataclass
class Run:
    name: str
    fair: bool
    greedy: int  # requests that one more person keeps open
    waits: dict[str, list[float]] = field(default_factory=dict)  # seconds to the first token, by person

    @property
    def ordinary(self) -> list[float]:
        return sorted(wait for person, waits in self.waits.items() if person != GREEDY for wait in waits)

    def at(self, percent: int) -> float:
        return quantiles(self.ordinary, n=100)[percent - 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each run, after a warm-up")
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--greedy", type=int, default=64, help="requests that one person keeps open")
    parser.add_argument("--think", type=float, default=1.0, help="seconds, on average, before each question")
    parser.add_argument("--capacity", type=int, default=8, help="requests that the engine takes at once")
    parser.add_argument("--half-life", type=float, default=load().service_half_life, help="of the memory of service")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "fairness", help="where the plot goes")
    arguments = parser.parse_args()
    runs = [
        Run("fair, alone", True, 0),
        Run("fair, with the greedy one", True, arguments.greedy),
        Run("first come, first served, alone", False, 0),
        Run("first come, first served, with the greedy one", False, arguments.greedy),
    ]
    for run in runs:
        with tempfile.TemporaryDirectory() as folder, valkey(Path(folder)) as url:
            uvloop.run(measure(run, arguments, url, Path(folder)))
    show(runs)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    plot = arguments.folder / "waits.svg"
    plot.write_text(svg(runs), "utf-8")
    out(f"\n{plot}")
    return 0


async def measure(run: Run, arguments: argparse.Namespace, redis_url: str, folder: Path) -> None:
    """Closed loops: everybody waits for the answer before the next question, as people do."""
    until = time.monotonic() + WARM_UP_SECONDS + arguments.seconds
    async with door(redis_url, folder, arguments) as url, aiohttp.ClientSession(url) as client:
        loops = [
            asks(client, run, f"person-{number}", until, arguments.think, number) for number in range(arguments.people)
        ]
        loops += [asks(client, run, GREEDY, until, 0.0, number) for number in range(run.greedy)]
        await asyncio.gather(*loops)


async def asks(client: aiohttp.ClientSession, run: Run, person: str, until: float, think: float, seed: int) -> None:
    rng = random.Random(f"{person} {seed}")
    measured_from = time.monotonic() + WARM_UP_SECONDS
    while True:
        if think:
            await asyncio.sleep(rng.expovariate(1 / think))
        started = time.monotonic()
        if started > until:
            return
        wait = await time_to_first_token(client, person if run.fair else "")
        # Everybody's by when they asked; the greedy one's, who asked long before, by when they began.
        counted = started > measured_from if person != GREEDY else measured_from < started + wait < until
        if counted:
            run.waits.setdefault(person, []).append(wait)


async def time_to_first_token(client: aiohttp.ClientSession, person: str) -> float:
    """The answer is read to its end. Without a person it is the account's own question."""
    headers = {"authorization": f"Bearer {KEY}"} | ({"x-on-behalf-of": person} if person else {})
    body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    started, first = time.monotonic(), 0.0
    async with client.post("/v1/chat/completions", json=body, headers=headers) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        async for line in response.content:
            if line.startswith(b"data: ") and not first:
                first = time.monotonic() - started
    return first


@asynccontextmanager
async def door(redis_url: str, folder: Path, arguments: argparse.Namespace) -> AsyncIterator[str]:
    rng = random.Random(0)

    def answer(_: bytes) -> Script:
        return chat_script(("word ",) * rng.randint(20, 60), delay=0.1, gap=0.02)

    settings = load(
        redis_url=redis_url,
        data_dir=folder / "data",
        max_concurrency=arguments.capacity,
        service_half_life=arguments.half_life,
    )
    app = App(settings, {"native": FakeBackend(answer)})
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    await put_key(app)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    await server.shutdown()


async def put_key(app: App) -> None:
    opened = app.door
    if opened is None:
        raise RuntimeError("the door did not open")
    actor = Actor("bench", "bench", "cli", "")
    await opened.directory.create(actor, ServiceAccount(id="bench", name="bench"))
    key = Key(id="", digest="", owner="service_account:bench")
    await opened.key_ring.put(actor, KEY, replace(key, on_behalf_of=True))


def show(runs: list[Run]) -> None:
    out(describe())
    out("\n| the queue | ordinary answers | p50 | p95 | p99 | greedy answers |\n| --- | --- | --- | --- | --- | --- |")
    for run in runs:
        times = " | ".join(f"{run.at(percent):.2f} s" for percent in (50, 95, 99))
        out(f"| {run.name} | {len(run.ordinary)} | {times} | {len(run.waits.get(GREEDY, []))} |")
    for alone, with_greedy in (runs[:2], runs[2:]):
        out(f"\n{with_greedy.name}: p95 is {with_greedy.at(95) / alone.at(95):.2f} times that of {alone.name}")


COLOURS = ("#9ecae1", "#08519c", "#fdae6b", "#a63603")
WIDTH, HEIGHT, MARGIN = 720, 360, 50


def svg(runs: list[Run]) -> str:
    """Which share of the ordinary answers had begun after so many seconds."""
    longest = max(run.ordinary[-1] for run in runs)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * MARGIN}" height="{HEIGHT + 2 * MARGIN}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for step in range(6):
        x, y = MARGIN + WIDTH * step / 5, MARGIN + HEIGHT * (1 - step / 5)
        parts.append(f'<text x="{x}" y="{MARGIN + HEIGHT + 18}" text-anchor="middle">{longest * step / 5:.1f} s</text>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4}" text-anchor="end">{step * 20}%</text>')
        parts.append(f'<path d="M{MARGIN} {y}h{WIDTH}" stroke="#ddd"/>')
    for number, (run, colour) in enumerate(zip(runs, COLOURS, strict=True)):
        points = " ".join(
            f"{MARGIN + WIDTH * wait / longest:.1f},{MARGIN + HEIGHT * (1 - (index + 1) / len(run.ordinary)):.1f}"
            for index, wait in enumerate(run.ordinary)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = MARGIN + HEIGHT - 80 + 18 * number
        parts.append(f'<text x="{MARGIN + WIDTH - 8}" y="{y}" text-anchor="end" fill="{colour}">{run.name}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    sys.exit(main())
